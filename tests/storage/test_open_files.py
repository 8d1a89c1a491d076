"""What else names a file: `~`, pyarrow's file systems, open files and buffers."""

import io
import sys

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as arrow

from parquet_bloom import UnsupportedError, add, inspect, lookup, probe, prune, verify


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "lake").mkdir()
    for name, start in (("a", 0), ("b", 100)):
        table = pa.table({"id": range(start, start + 100), "name": [f"n{i * 7 % 100}" for i in range(100)]})
        pq.write_table(table, tmp_path / "lake" / f"{name}.parquet", row_group_size=50)
    add(tmp_path / "lake", ["id", "name"])
    return tmp_path / "lake"


def answers(paths, **options):
    """Returns what each of the verbs that read says of the files, but for their names."""
    return {
        "inspect": [row.to_dict() | {"path": None} for row in inspect(paths, **options).rows],
        "verify": [row.to_dict() | {"path": None} for row in verify(paths, **options).rows],
        "probe": [(row.row_group, row.answer, row.reason) for row in probe(paths, "id", 7, **options).rows],
        "prune": [[g.is_kept for g in file.row_groups] for file in prune(paths, "name = 'n7'", **options).kept_files],
        "rows": prune(paths, "id = 107", **options).to_dataset().to_table().to_pylist(),
        "lookup": [
            row["row_group"] for batch in lookup(paths, "id", [7, 107, 999], **options) for row in batch.to_pylist()
        ],
    }


OPENED = {
    "open file": lambda path: path.open("rb"),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "bytes": lambda path: path.read_bytes(),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "pyarrow buffer": lambda path: pa.py_buffer(path.read_bytes()),
    "pyarrow file": lambda path: pa.OSFile(str(path)),
    "fsspec file": lambda path: fsspec.open(str(path), "rb").open(),
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_open_files_and_buffers_are_read_as_their_paths_are(lake, opened):
    paths = sorted(lake.iterdir())
    files = [opened(path) for path in paths]
    assert answers(files) == answers(paths)
    assert answers(files[0]) == answers(paths[0])
    for file in files:
        getattr(file, "close", bool)()


def test_an_open_file_keeps_its_position_and_names_itself(lake):
    with (lake / "a.parquet").open("rb") as file:
        file.seek(5)
        assert {row.path for row in inspect([file, io.BytesIO(file.read())]).files} >= {str(lake / "a.parquet")}
    with (lake / "a.parquet").open("rb") as file:
        file.seek(5)
        inspect(file)
        assert file.tell() == 5


def test_open_files_are_not_written(lake):
    content = io.BytesIO((lake / "a.parquet").read_bytes())
    with pytest.raises(UnsupportedError, match="can only be read; give a path to write to"):
        add(content, "id", replace=True)
    assert content.getvalue() == (lake / "a.parquet").read_bytes()


def test_a_file_that_is_open_as_text_is_refused(lake):
    with (lake / "a.parquet").open(encoding="latin-1") as file, pytest.raises(TypeError, match="mode 'rb'"):
        inspect(file)


FILE_SYSTEMS = {
    "local": lambda lake: (arrow.LocalFileSystem(), str(lake)),
    "below a folder": lambda lake: (arrow.SubTreeFileSystem(str(lake.parent), arrow.LocalFileSystem()), lake.name),
    "fsspec's": lambda lake: (arrow.PyFileSystem(arrow.FSSpecHandler(fsspec.filesystem("file"))), str(lake)),
}


@pytest.mark.parametrize("system", FILE_SYSTEMS.values(), ids=FILE_SYSTEMS)
def test_file_systems_of_pyarrow_are_read(lake, system):
    filesystem, path = system(lake)
    assert answers(path, filesystem=filesystem) == answers(lake)
    assert answers([f"{path}/b.parquet"], filesystem=filesystem) == answers(lake / "b.parquet")


def test_a_local_file_system_of_pyarrow_is_written_as_a_path_is(lake):
    (first, _) = add(lake, "id", replace=True, filesystem=arrow.LocalFileSystem(), dry_run=True).rows
    assert (first.status, first.path) == ("planned", str(lake / "a.parquet"))
    below = arrow.SubTreeFileSystem(str(lake), arrow.LocalFileSystem())
    before = (lake / "a.parquet").read_bytes()
    (row,) = add("a.parquet", "id", replace=True, filesystem=below).rows
    assert "cannot be replaced safely through a file system of pyarrow" in row.error
    assert (lake / "a.parquet").read_bytes() == before


def test_a_tilde_is_the_home_directory(lake, monkeypatch):
    monkeypatch.setenv("HOME", str(lake.parent))
    assert answers("~/lake") == answers(lake)
    assert answers(["~/lake/a.parquet", "~/lake/b*"]) == answers(lake)
    assert inspect("~/lake/a.parquet").files[0].path == str(lake / "a.parquet")
    (row,) = add("~/lake/a.parquet", "id", replace=True, output="~/new.parquet").rows
    assert row.output == str(lake.parent / "new.parquet")
    assert (lake.parent / "new.parquet").exists()


@pytest.mark.parametrize(
    ("url", "module", "advice"),
    [
        ("s3://lake/a.parquet", "s3fs", "pip install 'parquet-bloom[s3]'"),
        ("gs://lake/a.parquet", "gcsfs", "pip install 'parquet-bloom[gcs]'"),
        ("abfs://lake/a.parquet", "adlfs", "pip install 'parquet-bloom[azure]'"),
    ],
)
def test_a_url_says_what_to_install_for_it(url, module, advice, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
    with pytest.raises(UnsupportedError) as raised:
        inspect(url)
    assert str(raised.value) == f"{url}: reading such URLs needs {module}: {advice}"


def test_what_is_called_a_tilde_is_what_it_is_called(lake, monkeypatch):
    monkeypatch.chdir(lake)
    (lake / "a.parquet").rename(lake / "~")
    assert inspect("~").files[0].path == "~"
