"""The log of a folder that Spark's structured streaming wrote says which of its files are live.

tests/spark/test_streaming_sinks.py has Spark write such folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.tables import live_sources

FILES = ["a.parquet", "b.parquet", "p=1/c.parquet", "p=x y/d%2F.parquet", "dead.parquet"]


def entry(root: Path, name: str, **changes: Any) -> dict[str, Any]:
    path = f"file://{root}/{name}".replace("%", "%25").replace(" ", "%20")
    file = {"path": path, "size": (root / name).stat().st_size, "isDir": False, "modificationTime": 1}
    return file | {"blockReplication": 1, "blockSize": 33554432, "action": "add"} | changes


def batch(*entries: Any, version: str = "v1") -> str:
    return "\n".join([version, *map(json.dumps, entries)])


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    """A folder with four live files, in batches 2 to 4, and a dead one."""
    root = tmp_path / "sink"
    log = root / "_spark_metadata"
    log.mkdir(parents=True)
    for number, name in enumerate(FILES):
        (root / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"k": [number, number + 10]}), root / name, bloom_filter_options={"k": True})
    (log / "2").write_text(batch(entry(root, "dead.parquet")))
    (log / "3.compact").write_text(batch(*(entry(root, name) for name in FILES[:2])))
    (log / "4").write_text(batch(entry(root, FILES[2])))
    (log / "5").write_text(batch(entry(root, FILES[3])))
    (log / ".5.crc").write_text("x")
    (log / "6.tmp").write_text("x")
    return root


def names(root: Path) -> list[str]:
    return [source.relative for source in live_sources(root)[0]]


def test_the_newest_compact_file_and_what_follows_it(sink: Path) -> None:
    assert names(sink) == FILES[:4]
    assert parquet_bloom.find(sink, "k >= 0", columns=["k"]).to_arrow()["k"].to_pylist() == [0, 10, 1, 11, 2, 12, 3, 13]
    assert parquet_bloom.prune(sink, "k = 4").kept_files == ()
    assert list(parquet_bloom.absent(sink, "k", [3, 4])) == [4]
    assert set(parquet_bloom.lookup(sink, "k", [4, 14]).to_arrow()["path"].to_pylist()) == {None}
    found = parquet_bloom.find(sink, "p = '1'", columns=["k"]).to_arrow()
    assert found["k"].to_pylist() == [2, 12]


def test_batches_without_a_compact_file(sink: Path) -> None:
    log = sink / "_spark_metadata"
    (log / "0").write_text(batch(entry(sink, "a.parquet")))
    (log / "1").write_text(batch())
    for name in ("2", "3.compact", "4", "5"):
        (log / name).unlink()
    assert names(sink) == ["a.parquet"]


def rewritten(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        file = root / "_spark_metadata" / name
        file.write_text(file.read_text().replace(old, new))

    return change


def unlinked(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


NOT_UNDERSTOOD: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "version": (rewritten("5", "v1", "v2"), UnsupportedError, "v2"),
    "no version": (rewritten("3.compact", "v1\n", ""), UnsupportedError, "version"),
    "empty": (lambda root: (root / "_spark_metadata/5").write_text(""), UnsupportedError, "version"),
    "deleted": (rewritten("5", '"add"', '"delete"'), UnsupportedError, "delete"),
    "action": (rewritten("5", '"add"', '"rewrite"'), UnsupportedError, "rewrite"),
    "folder": (rewritten("5", '"isDir": false', '"isDir": true'), UnsupportedError, "isDir"),
    "field": (rewritten("5", '"isDir"', '"deletionVector": "x", "isDir"'), UnsupportedError, "other fields"),
    "no field": (rewritten("5", ', "action": "add"', ""), UnsupportedError, "other fields"),
    "no object": (rewritten("5", "{", "[{"), CorruptFileError, "5"),
    "cut off": (rewritten("5", '"action": "add"}', '"act'), CorruptFileError, "5"),
    "relative": (rewritten("4", "file:///", ""), UnsupportedError, "not understood"),
    "elsewhere": (rewritten("4", "file:///", "file:///other/"), UnsupportedError, "outside"),
    "above": (rewritten("4", "/p=1/", "/../"), UnsupportedError, "outside"),
    "a store": (rewritten("4", "file:///", "s3a://bucket/"), UnsupportedError, "outside"),
    "listed twice": (rewritten("5", "p=x%20y/d%252F", "a"), UnsupportedError, "twice"),
    "a gap": (unlinked("_spark_metadata/4"), CorruptFileError, "not 4"),
    "gone": (unlinked("a.parquet"), FileNotFoundError, "a.parquet"),
    "shorter": (rewritten("4", '"size": ', '"size": 9'), CorruptFileError, "records"),
    "nothing": (lambda root: [file.unlink() for file in (root / "_spark_metadata").iterdir()], FileNotFoundError, "no"),
}


@pytest.mark.parametrize("case", NOT_UNDERSTOOD)
def test_a_log_that_is_not_understood_is_refused(sink: Path, case: str) -> None:
    change, error, said = NOT_UNDERSTOOD[case]
    change(sink)
    calls: list[Callable[[], object]] = [
        lambda: parquet_bloom.prune(sink, "k = 1"),
        lambda: parquet_bloom.find(sink, "k = 1"),
        lambda: parquet_bloom.lookup(sink, "k", [1]),
        lambda: parquet_bloom.absent(sink, "k", [1]),
    ]
    for call in calls:
        with pytest.raises(error, match=said):
            call()


def test_the_folder_alone_is_a_sink(sink: Path, tmp_path: Path) -> None:
    """As to Spark, which reads what is named in any other way as plain files; but in a list it is refused."""
    assert len(live_sources(f"{sink}/*.parquet")[0]) == 3
    assert len(live_sources(sink / "p=1")[0]) == 1
    with pytest.raises(UnsupportedError, match="alone"):
        live_sources([sink, sink / "dead.parquet"])


def test_a_log_that_a_link_leads_out_to_is_refused(sink: Path, tmp_path: Path) -> None:
    (sink / "_spark_metadata").rename(tmp_path / "log")
    (sink / "_spark_metadata").symlink_to(tmp_path / "log")
    with pytest.raises(UnsupportedError, match="link"):
        live_sources(sink)


def test_rows_are_not_erased(sink: Path) -> None:
    before = {name: (sink / name).read_bytes() for name in FILES}
    for paths in (sink, sink / "a.parquet", sink / "p=1"):
        with pytest.raises(UnsupportedError, match="_spark_metadata"):
            parquet_bloom.erase(paths, "k", [0, 2])
    assert {name: (sink / name).read_bytes() for name in FILES} == before


def test_a_url_of_a_sink(sink: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    for path in sink.rglob("*"):
        if path.is_file():
            data = path.read_bytes().replace(f"file://{sink}".encode(), b"memory:///lake/sink")
            store.pipe_file(f"/lake/sink/{path.relative_to(sink)}", data)
    assert sorted(source.relative for source in live_sources("memory:///lake/sink")[0]) == FILES[:4]
    store.rm("/lake", recursive=True)
