"""A table's metadata does not choose which files are opened, which hosts are called, and where anything is written."""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
import sqlite3
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import fsspec.core
import lakes
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import table
from samples import FIXTURES

from parquet_bloom import (
    UnsupportedError,
    add,
    drop,
    execute,
    hudi,
    index,
    inspect,
    lookup,
    paimon,
    probe,
    prune,
    verify,
)
from parquet_bloom.cli.commands import main
from parquet_bloom.tables import snapshot_of
from parquet_bloom.tables.iceberg import OpenIceberg
from parquet_bloom.tables.roots import CHAINED, LINKED, OUTSIDE, Root

# ---- the door ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "recorded", "path"),
    [
        ("/t", "a/x", "/t/a/x"),
        ("/t", "a/../b/./x", "/t/b/x"),
        ("/t", "/t//a/x", "/t/a/x"),
        ("/t", "file:/t/x", "/t/x"),
        ("/t", "file:///t/x", "/t/x"),
        ("/t", "FILE://localhost/t/x", "/t/x"),
        ("/t", "a%2e%2e/x", "/t/a%2e%2e/x"),
        ("/t", "a:b", "/t/a:b"),
        ("/", "etc/x", "/etc/x"),
        ("s3a://b/t", "a//x", "s3a://b/t/a//x"),
        ("s3://b/t", "s3n://b/t/a//x", "s3://b/t/a//x"),
        ("s3://b", "s3://b/x", "s3://b/x"),
        ("abfs://c@account/t", "abfss://c@account/t/x", "abfs://c@account/t/x"),
        ("simplecache::s3://b/t", "s3://b/t/x", "simplecache::s3://b/t/x"),
        ("simplecache::s3://b/t", "x", "simplecache::s3://b/t/x"),
    ],
)
def test_what_lies_below_the_root(root: str, recorded: str, path: str) -> None:
    assert Root(root).place(recorded) == (path, None)
    assert Root(root, allow_outside=True).place(recorded) == (path, None)


@pytest.mark.parametrize(
    ("root", "recorded", "path"),
    [
        ("/t", "../x", "/x"),
        ("/t", "a/../../t/../x", "/x"),
        ("/t", "/tt/x", "/tt/x"),
        ("/t", "file:///x", "/x"),
        ("/t", "file://host/t/x", "file://host/t/x"),
        ("/t", "http://host/t/x", "http://host/t/x"),
        ("/t", "s3a://b/x", "s3://b/x"),
        ("s3://b/t", "/t/x", "/t/x"),
        ("s3://b/t", "s3://b/tt/x", "s3://b/tt/x"),
        ("s3://b/t", "s3://other/t/x", "s3://other/t/x"),
        ("s3://b/t", "s3://b//t/x", "s3://b//t/x"),
        ("s3://b/t", "gs://b/t/x", "gs://b/t/x"),
        ("http://host/t", "http://user@host/t/x", "http://user@host/t/x"),
        ("http://host/t", "http://host:81/t/x", "http://host:81/t/x"),
    ],
)
def test_what_lies_outside(root: str, recorded: str, path: str) -> None:
    assert Root(root).place(recorded) == (path, OUTSIDE)
    assert Root(root, allow_outside=True).place(recorded) == (path, None)


@pytest.mark.parametrize("recorded", ["a/../x", "a/%2e%2e/x", "a/.%2E/x", "s3://b/t/a/../x", "./x"])
def test_a_store_is_not_given_dots_to_understand(recorded: str) -> None:
    assert Root("s3://b/t").place(recorded).outside == OUTSIDE


@pytest.mark.parametrize(
    "recorded", ["simplecache::http://host/x", "reference::s3://b/x", "zip://x::file:///x.zip", "a::b"]
)
def test_chains_of_protocols_are_never_followed(recorded: str) -> None:
    for root in ("/t", "s3://b/t", "simplecache::s3://b/t"):
        assert Root(root, allow_outside=True).place(recorded) == (recorded, CHAINED)


def test_the_root_itself_is_no_file() -> None:
    for recorded in ("", ".", "/t", "a/.."):
        assert Root("/t", allow_outside=True).place(recorded).outside == OUTSIDE


def test_symbolic_links(tmp_path: Path) -> None:
    root = tmp_path / "t"
    (root / "a/b").mkdir(parents=True)
    (tmp_path / "named").symlink_to(root)
    links = {
        "inside": "a/b",
        "up": "a/../a",
        "whole": f"{root}/a",
        "by_name": f"{tmp_path}/named/a",
        "out": "../elsewhere",
        "away": "/elsewhere",
        "loop": "loop",
        "through": "inside/../../../elsewhere",
        "chained": "out",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    for location in (root, tmp_path / "named"):
        for name in links:
            leads_out = name in ("out", "away", "loop", "through", "chained")
            leads_out |= name == "by_name" and location == root
            for path in (name, f"{name}/x", f"{location}/{name}/x"):
                assert Root(str(location)).place(path).outside == (LINKED if leads_out else None), path
                assert Root(str(location), allow_outside=True).place(path).outside is None


# ---- tables ------------------------------------------------------------------------------


class Forbidden:
    """A folder beside the table that nobody may look at; `touched` is what was opened, listed or looked up in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.file = folder / "x.parquet"
        self._looked: list[str] = []
        libc = ctypes.CDLL(None)
        self._events = libc.inotify_init1(os.O_NONBLOCK)
        opened, accessed = 0x20, 0x1
        assert libc.inotify_add_watch(self._events, os.fsencode(folder), opened | accessed) > 0
        for name in ("stat", "lstat", "readlink", "listdir", "scandir"):
            monkeypatch.setattr(os, name, self._noting(getattr(os, name)))
        monkeypatch.setattr(fsspec.core, "url_to_fs", self._noting(fsspec.core.url_to_fs))

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any = ".", *args: Any, **options: Any) -> Any:
            if isinstance(path, str | os.PathLike) and ("://" in str(path) or str(path).startswith(str(self.folder))):
                self._looked.append(str(path))
            return call(path, *args, **options)

        return noted

    @property
    def touched(self) -> list[str]:
        try:
            events = [repr(os.read(self._events, 4096))]
        except BlockingIOError:
            events = []
        return self._looked + events

    def forget(self) -> None:
        """Forgets what the test itself has touched."""
        _ = self.touched
        self._looked.clear()


@pytest.fixture
def forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forbidden]:
    folder = tmp_path / "out"
    folder.mkdir()
    pq.write_table(table(20, 100), folder / "x.parquet")
    with monkeypatch.context() as patched:
        yield Forbidden(folder, patched)


def hostile(path: str, forbidden: Forbidden) -> str:
    return path.replace("OUT", str(forbidden.folder))


HOSTILE = [
    "../out/x.parquet",
    "OUT/x.parquet",
    "file:OUT/x.parquet",
    "file://OUT/x.parquet",
    "%2e%2e/out/x.parquet",
    "http://127.0.0.1:9/x.parquet",
    "s3://another-bucket/x.parquet",
    "simplecache::file://OUT/x.parquet",
    "reference://x.parquet",
    "zip://x.parquet::file://OUT/x.zip",
    "link/x.parquet",
    "linked.parquet",
]


def with_links(root: Path, forbidden: Forbidden) -> None:
    (root / "link").symlink_to(forbidden.folder)
    (root / "linked.parquet").symlink_to(forbidden.file)


@pytest.mark.parametrize("path", HOSTILE)
def test_delta(tmp_path: Path, path: str, forbidden: Forbidden) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    (ours,) = lakes.adds(root)
    with_links(root, forbidden)
    size = forbidden.file.stat().st_size
    forbidden.forget()
    lakes.log(root, 1, {"add": {**ours, "path": hostile(path, forbidden), "size": size, "stats": None}})
    pruned = prune(root, "id = 5")
    assert [file.not_pruned for file in pruned.all_files].count(None) == 1
    (unread,) = pruned.errors
    assert unread.not_pruned in (OUTSIDE, LINKED, CHAINED)
    assert [(row["path"], row["row_group"]) for row in lookup(root, "id", [999]).to_arrow().to_pylist()] == [
        (unread.path, None)
    ]
    with pytest.raises(UnsupportedError, match=r"outside|out of|chains"):
        prune(root, "id = 5", strict=True)
    with pytest.raises(UnsupportedError, match=r"outside|out of|chains"):
        lookup(root, "id", [5], strict=True).to_arrow()
    with pytest.raises(UnsupportedError, match="is not read: "):
        index.create(root, "id")
    added = add(root, "id", table=True)
    assert sorted(row.status for row in added.rows) == ["refused", "written"]
    assert not any("allow_outside" in (row.error or "") for row in added.rows)
    assert forbidden.touched == []
    assert sorted(path.name for path in forbidden.folder.iterdir()) == ["x.parquet"]


@pytest.mark.usefixtures("mtime_stable")
def test_what_is_allowed_is_read(tmp_path: Path, forbidden: Forbidden) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    (ours,) = lakes.adds(root)
    with_links(root, forbidden)
    for version, path in enumerate(("../out/x.parquet", "link/x.parquet"), 1):
        lakes.log(root, version, {"add": {**ours, "path": path, "size": forbidden.file.stat().st_size, "stats": None}})
    assert prune(root, "id = 105", allow_outside=True).totals.files_kept == 2
    assert prune(root, "id = 5", allow_outside=True).totals.files_kept == 1
    assert index.create(root, "id", allow_outside=True).rows[0].files == 3
    statement = f"CREATE BLOOMFILTER INDEX ON '{root}' FOR COLUMNS (name)"
    with pytest.raises(UnsupportedError, match="is not read"):
        execute(statement)
    assert [row.files for row in execute(statement, allow_outside=True)] == [3, 3]
    for command in ("sql", statement), ("index", "refresh", str(root)):
        assert CliRunner().invoke(main, command).exit_code == 2
        assert CliRunner().invoke(main, [*command, "--allow-outside"]).exit_code == 0
    assert [row.files_missing for row in index.drop(root, "name", allow_outside=True)] == [0]
    assert not index.drop(root, allow_outside=True).exists
    ran = CliRunner().invoke(main, ["prune", str(root), "-w", "id = 105"])
    assert "it is only read with --allow-outside" in ran.stderr
    ran = CliRunner().invoke(main, ["prune", str(root), "-w", "id = 999", "--allow-outside"])
    assert (ran.exit_code, ran.stderr) == (1, "")


@pytest.mark.parametrize("name", ["_delta_log/00000000000000000001.json", "_delta_log"])
def test_a_log_is_not_read_elsewhere(tmp_path: Path, name: str, forbidden: Forbidden) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=2)
    shutil.move(root / name, forbidden.folder / "moved")
    (root / name).symlink_to(forbidden.folder / "moved")
    forbidden.forget()
    with pytest.raises(UnsupportedError, match="a symbolic link leads out of the table's directory"):
        prune(root, "id = 5")
    assert forbidden.touched == []


def test_a_deletion_vector_is_not_read_elsewhere(tmp_path: Path, forbidden: Forbidden) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    lakes.give_deletion_vector(root, [1])
    path = root / "_delta_log/00000000000000000001.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            vector = action["add"]["deletionVector"]
            vector.update(storageType="p", pathOrInlineDv=f"file://{forbidden.file}", offset=1)
    lakes.log(root, 1, *actions)
    found = snapshot_of(root)
    assert found is not None
    assert [file.has_deletes for file in found.files] == [True]
    assert [row.status for row in add(root, "id", table=True).rows] == ["refused"]
    assert forbidden.touched == []


@pytest.mark.parametrize("prefix", ["", "ab"])
def test_a_deletion_vector_behind_a_link_is_not_read(tmp_path: Path, prefix: str, forbidden: Forbidden) -> None:
    root, name = tmp_path / "t", uuid.UUID(int=2**127 + 12345)
    lakes.delta(root, files=1)
    lakes.give_deletion_vector(root, [1])
    actions = lakes.actions(root, 1)
    (added,) = [action["add"] for action in actions if "add" in action]
    vector = added["deletionVector"]
    (root / prefix).mkdir(exist_ok=True)
    stored = root / prefix / f"deletion_vector_{name}.bin"
    data = lakes.vector_data([1])
    content = b"\x01" + len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    vector.update(storageType="u", pathOrInlineDv=f"{prefix}{lakes.z85(name.bytes)}", offset=1)
    lakes.log(root, 1, *actions)
    stored.write_bytes(content)
    assert lakes.delta_rows(root) == [0, *range(2, 20)]  # as deltalake reads it
    stored.unlink()
    (forbidden.folder / "moved.bin").write_bytes(content)
    stored.symlink_to(forbidden.folder / "moved.bin")
    forbidden.forget()
    found = snapshot_of(root)
    assert found is not None
    assert [file.has_deletes for file in found.files] == [True]
    assert forbidden.touched == []


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def test_iceberg(catalog: Any, forbidden: Forbidden) -> None:
    made = lakes.iceberg(catalog, files=1)
    made.add_files([str(forbidden.file)])
    forbidden.forget()
    for named in (made, str(lakes.metadata_of(made))):
        assert [file.not_pruned for file in prune(named, "id = 5").all_files].count(OUTSIDE) == 1
        with pytest.raises(UnsupportedError, match="it lies outside"):
            lookup(named, "id", [5], strict=True).to_arrow()
        with pytest.raises(UnsupportedError, match="is not read: it lies outside"):
            index.create(named, "id")
    assert sorted(row.status for row in add(made, "id", table=True).rows) == ["refused", "written"]
    assert forbidden.touched == []
    assert prune(made, "id = 105", allow_outside=True).totals.files_kept == 1


def test_a_file_of_deletes_is_not_read_elsewhere(catalog: Any, forbidden: Forbidden) -> None:
    made = lakes.iceberg(catalog, files=1)
    lakes.give_deletes(made, [3], at=forbidden.folder)
    forbidden.forget()
    found = snapshot_of(made)
    assert found is not None
    with pytest.raises(UnsupportedError, match="is not read: it lies outside"):
        found.deleted_rows(found.files[0])
    assert forbidden.touched == []


def rewritten(metadata: Path, **changes: Any) -> Path:
    """Returns a copy of a metadata file beside it, with other values at the top."""
    path = metadata.with_name("99999-0.metadata.json")
    path.write_text(json.dumps({**json.loads(metadata.read_text()), **changes}))
    return path


@pytest.mark.usefixtures("mtime_stable")
def test_iceberg_s_own_location_is_not_believed(catalog: Any, forbidden: Forbidden) -> None:
    """The index of a table that is named by its metadata file is written beside that file's folder."""
    made = lakes.iceberg(catalog, files=1)
    named = rewritten(lakes.metadata_of(made), location=f"file://{forbidden.folder}")
    assert Path(index.create(named, "id").root) == named.parents[1]
    assert sorted(path.name for path in forbidden.folder.iterdir()) == ["x.parquet"]


def test_iceberg_s_properties_do_not_choose_the_store(catalog: Any) -> None:
    chosen = {"s3.endpoint": "http://127.0.0.1:9", "py-io-impl": "nobody.has.This"}
    made = lakes.iceberg(catalog, files=1)
    named = rewritten(lakes.metadata_of(made), properties=chosen)
    assert prune(named, "id = 5").totals.files_kept == 1
    other = lakes.iceberg(catalog, "u", files=1, **{"s3.endpoint": "http://127.0.0.1:9"})
    assert prune(other, "id = 5").totals.files_kept == 1
    assert "s3.endpoint" in other.io.properties
    assert "s3.endpoint" not in OpenIceberg(other)._table.io.properties
    with pytest.raises(UnsupportedError, match=r"choose the store to write to: s3\.endpoint"):
        add(other, "id", table=True)


def test_iceberg_s_properties_do_not_choose_code(catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported: neither for a table by its name, nor for one that was loaded before it had the property."""
    from pyiceberg.utils.config import Config

    (tmp_path / "someones.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nclass Io: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = lakes.iceberg(catalog, files=1)
    loaded = catalog.load_table("n.t")
    named = rewritten(lakes.metadata_of(made), properties={"py-io-impl": "someones.Io"})
    with sqlite3.connect(tmp_path / "warehouse/catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (str(named),))
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", f"sqlite:///{tmp_path}/warehouse/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    for given, options in (("n.t", {"catalog": "tests"}), (loaded, {}), (named, {})):
        assert prune(given, "id = 5", **options).totals.files_kept == 1
        assert not (tmp_path / "imported").exists()
    assert loaded.catalog is catalog
    with pytest.raises(UnsupportedError, match=r"choose the store to write to: py-io-impl"):
        add(loaded, "id", table=True)
    assert not (tmp_path / "imported").exists()


def test_iceberg_s_properties_do_not_choose_where_commits_are_written(catalog: Any, forbidden: Forbidden) -> None:
    made = lakes.iceberg(catalog, files=1)
    with made.transaction() as transaction:
        transaction.set_properties({"write.metadata.path": f"file://{forbidden.folder}"})
    left = sorted(path.name for path in forbidden.folder.iterdir())
    with pytest.raises(UnsupportedError, match=r"\(write\.metadata\.path\), but it lies outside"):
        add(made, "id", table=True)
    assert sorted(path.name for path in forbidden.folder.iterdir()) == left


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
        packed.extractall(folder)
    return folder / "table"


def change_manifests(root: Path, pattern: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites the Avro files of a Paimon table with other records."""
    for path in root.glob(f"manifest/{pattern}"):
        reader = fastavro.reader(io.BytesIO(path.read_bytes()))
        schema, records = reader.writer_schema, list(reader)
        for record in records:
            change(record)
        out = io.BytesIO()
        fastavro.writer(out, schema, records)
        path.write_bytes(out.getvalue())


@pytest.mark.parametrize("path", ["../../../../out/x.parquet", "../../../link/x.parquet", "../../../linked.parquet"])
def test_paimon(tmp_path: Path, path: str, forbidden: Forbidden) -> None:
    root = unpacked("paimon/append", tmp_path)
    with_links(root, forbidden)

    def rename(record: dict[str, Any]) -> None:
        record["_FILE"]["_FILE_NAME"] = path

    change_manifests(root, "manifest-[0-9a-f]*-[0-9]*", lambda record: rename(record) if "_FILE" in record else None)
    forbidden.forget()
    pruned = prune(root, "id = 5")
    assert {file.not_pruned for file in pruned.all_files} <= {OUTSIDE, LINKED}
    assert pruned.all_files
    assert forbidden.touched == []


@pytest.mark.parametrize("path", ["file:OUT/x.parquet", "http://127.0.0.1:9/x.parquet", "simplecache::file://OUT/x"])
def test_external_paths_of_paimon(tmp_path: Path, path: str, forbidden: Forbidden) -> None:
    root = unpacked("paimon_rust/append", tmp_path)

    def move(record: dict[str, Any]) -> None:
        record["_FILE"].update(_EXTERNAL_PATH=hostile(path, forbidden), _EXTRA_FILES=[], _EMBEDDED_FILE_INDEX=None)

    change_manifests(root, "manifest-[0-9a-f]*-[0-9]*", lambda record: move(record) if "_FILE" in record else None)
    pruned = prune(root, "id = 5")
    assert {file.not_pruned for file in pruned.all_files} <= {OUTSIDE, CHAINED}
    assert pruned.all_files
    with pytest.raises(UnsupportedError, match="is not read"):
        index.create(root, "id")
    assert {row.status for row in paimon.attach_index(root, "name").rows} == {"refused"}
    assert forbidden.touched == []


def test_indexes_of_paimon(tmp_path: Path, forbidden: Forbidden) -> None:
    root = unpacked("paimon/append", tmp_path)

    def away(record: dict[str, Any]) -> None:
        record["_FILE"].update(_EXTRA_FILES=["../../../../out/x.index"], _EMBEDDED_FILE_INDEX=None)

    change_manifests(root, "manifest-[0-9a-f]*-[0-9]*", lambda record: away(record) if "_FILE" in record else None)
    reasons = [row.reason for row in prune(root, "id = 5").rows if row.is_kept]
    assert reasons
    assert all("x.index: it lies outside of the table's directory" in reason for reason in reasons)
    inspect(root)
    assert forbidden.touched == []


def test_manifests_of_paimon(tmp_path: Path, forbidden: Forbidden) -> None:
    root = unpacked("paimon/append", tmp_path)

    def away(record: dict[str, Any]) -> None:
        record["_FILE_NAME"] = "../../out/x.parquet"

    change_manifests(root, "manifest-list-*", away)
    with pytest.raises(UnsupportedError, match=r"belongs to the metadata of .* but it lies outside"):
        prune(root, "id = 5")
    assert forbidden.touched == []


def test_hudi(tmp_path: Path, forbidden: Forbidden) -> None:
    with zipfile.ZipFile(FIXTURES / "hudi/v6_cow.zip") as packed:
        packed.extractall(tmp_path / "t")
    root = tmp_path / "t"
    named = next(file for file in snapshot_of(root).files if not file.not_excluded)  # type: ignore[union-attr]
    shutil.move(named.path, forbidden.folder / "moved.parquet")
    Path(named.path).symlink_to(forbidden.folder / "moved.parquet")
    forbidden.forget()
    reasons = {file.path: file.not_pruned for file in prune(root, "v = 5").all_files}
    assert reasons[named.path] == LINKED
    assert forbidden.touched == []
    settings = root / ".hoodie/hoodie.properties"
    settings.write_text(f"{settings.read_text()}\nhoodie.timeline.layout.version=2\nhoodie.timeline.path=../../out\n")
    with pytest.raises(UnsupportedError, match="lies outside of the table's directory"):
        prune(root, "v = 5")
    assert forbidden.touched == []


# ---- plain verbs in a table's directory --------------------------------------------------


def opened(folder: Path) -> Callable[[], bool]:
    """Returns what tells whether a file in a folder was opened since."""
    libc = ctypes.CDLL(None)
    events = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(events, os.fsencode(folder / "x.parquet"), 0x20) > 0

    def was() -> bool:
        try:
            return bool(os.read(events, 4096))
        except BlockingIOError:
            return False

    return was


@pytest.mark.parametrize("link", ["linked.parquet", "link/x.parquet"])
def test_a_link_out_of_a_table_is_refused(tmp_path: Path, link: str) -> None:
    root, out = tmp_path / "t", tmp_path / "out"
    lakes.delta(root, files=1)
    out.mkdir()
    pq.write_table(table(20, 100), out / "x.parquet")
    data = (out / "x.parquet").read_bytes()
    if "/" in link:
        (root / "link").symlink_to(out)
    else:
        (root / link).symlink_to(out / "x.parquet")
    (root / "own.parquet").symlink_to(next(root.glob("part-*.parquet")))
    was_opened = opened(out)
    for results in (
        inspect(root),
        verify(root),
        probe(root, "id", 5),
        add(root, "id", force=True, dry_run=True),
        drop(root, force=True),
        hudi.add_filter(root, key_column="name", ndv=100, force=True),
    ):
        (refused,) = [row for row in results.errors if row.path.endswith(link)]
        assert "a symbolic link leads out of the table's directory" in str(refused)
    added = {row.path.rpartition("/")[2]: row.status for row in add(root, "id", force=True).rows}
    assert added[link.rpartition("/")[2]] == "refused"
    assert not was_opened()
    assert (out / "x.parquet").read_bytes() == data


def test_links_of_plain_directories_are_read(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "out").mkdir()
    pq.write_table(table(20, 100), tmp_path / "out/x.parquet")
    (tmp_path / "plain/linked.parquet").symlink_to(tmp_path / "out/x.parquet")
    assert [row.status for row in add(tmp_path / "plain", "id").rows] == ["refused"]
    assert [row.status for row in add(tmp_path / "plain", "id", follow_links=True).rows] == ["written"]
    assert not inspect(tmp_path / "plain").errors
