"""A directory means the files that Spark would read from it, whatever their names; what is not Parquet is skipped."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark

from parquet_bloom import add, drop, hudi, index, inspect, lookup, probe, prune, verify
from parquet_bloom.errors import NotParquetError
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.strays import Strays
from parquet_bloom.verbs import opening
from parquet_bloom.verbs.retrofit import UNFAMILIAR

READ = ["a.parquet", "b.parq", "c.pq", "d.PARQUET", "plain", "part-00000", "e.snappy", "_x=1/f.parquet", "x=2/g"]
PASSED_OVER = ["_hidden", "_hidden.parquet", ".dot", "h.parquet._COPYING_", "_folder/i.parquet", ".folder/j"]
UNFAMILIAR_NAMES = ["plain", "part-00000", "e.snappy", "x=2/g"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A directory in which every file is Parquet; its id tells it from the others."""
    root = tmp_path / "lake"
    for number, name in enumerate([*READ, *PASSED_OVER]):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number], "_hoodie_record_key": [f"k{number}"]}), root / name)
    return root


@pytest.fixture
def notes(lake: Path) -> Path:
    (lake / "notes.txt").write_text("no Parquet at all, and longer than a footer")
    return lake


@pytest.fixture
def memory(notes: Path) -> Iterator[str]:
    fs = fsspec.filesystem("memory")
    fs.put(f"{notes}/", "/strays", recursive=True)
    yield "memory://strays"
    fs.rm("/strays", recursive=True)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_file_that_has_grown_is_not_passed_over(notes: Path, memory: str, kind: str) -> None:
    """A writer that appends may have been about to finish it when its end was read."""
    path = str(notes / "notes.txt") if kind == "local" else f"{memory}/notes.txt"
    (source,) = (each for each in find(path.rpartition("/")[0]) if each.path.endswith("notes.txt"))
    assert Strays().take(source, NotParquetError("the file does not end in PAR1"))
    with fsspec.open(path, "wb") as file:
        file.write(b"PAR1, and more than there was, which takes another look: PAR1")
    assert not Strays().take(source, NotParquetError("the file does not end in PAR1"))


def test_it_means_what_it_means_to_spark(lake: Path) -> None:
    assert sorted(source.relative for source in find(lake)) == sorted(READ)


@needs_java
@pytest.mark.spark
def test_spark_reads_the_same_files(lake: Path) -> None:
    frame = spark().read.option("recursiveFileLookup", "true").parquet(str(lake))
    assert {f"file://{source.path}" for source in find(lake)} == set(frame.inputFiles())
    assert {row.id for row in frame.select("id").collect()} == set(range(len(READ)))


@pytest.mark.parametrize("is_remote", [False, True], ids=["local", "remote"])
def test_every_reading_verb_finds_what_is_under_any_name(
    notes: Path, memory: str, is_remote: bool, caplog: pytest.LogCaptureFixture
) -> None:
    root: Any = memory if is_remote else notes
    base = memory if is_remote else str(notes)
    ids = list(range(len(READ)))
    expected = {f"{base}/{name}" for name in READ}
    told = f"1 file is not Parquet and was skipped: {base}/notes.txt"

    def warned() -> bool:
        found = [record.getMessage() for record in caplog.records] == [told]
        caplog.clear()
        return found

    for number, name in enumerate(READ):
        assert [file.path for file in prune(root, f"id = {number}").kept_files] == [f"{base}/{name}"]
        assert warned()
    assert {file.path for file in prune(root, "id >= 0").all_files} == expected
    assert warned()
    assert {file.path for file in inspect(root).files} == expected
    assert warned()
    assert {row.path for row in probe(root, "id", 1).rows} == expected
    assert warned()
    assert {file.path for file in verify(root).files} == expected
    assert warned()
    rows = pa.Table.from_batches(lookup(root, "id", ids)).to_pylist()
    assert {(row["key"], row["path"]) for row in rows} == {(n, f"{base}/{name}") for n, name in enumerate(READ)}
    assert warned()


@pytest.mark.usefixtures("mtime_stable")
def test_the_index_takes_them_in(notes: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = index.create(notes, "id")
    assert (state.rows[0].files, state.rows[0].files_missing, state.errors) == (len(READ), 0, ())
    assert "notes.txt" in caplog.text
    shutil.copy(notes / "plain", notes / "more")
    assert index.show(notes).rows[0].files_missing == 1
    assert index.refresh(notes).rows[0].files_missing == 0
    assert prune(notes, "id = 99").totals.files_kept == 0


def test_it_takes_no_request_more(memory: str) -> None:
    log = RequestLog()
    prune(memory, "id = 3", cache=Cache(0), log=log)
    assert sorted(name for name, _ in log.requests) == sorted(f"{memory}/{name}" for name in [*READ, "notes.txt"])


def test_a_damaged_file_that_is_called_parquet_is_no_stray(lake: Path) -> None:
    (lake / "a.parquet").write_bytes(b"no Parquet at all")
    (lake / "b.parq").write_bytes(b"no Parquet at all")
    pruned = prune(lake, "id = 99")
    assert {Path(file.path).name for file in pruned.kept_files} == {"a.parquet", "b.parq"}
    assert inspect(lake).errors


def test_a_file_that_changed_since_it_was_listed_is_no_stray(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = (lake / "plain").read_bytes()
    (lake / "plain").write_bytes(grown[:-100])
    found = opening.live_sources(lake)
    (lake / "plain").write_bytes(grown)
    monkeypatch.setattr(opening, "live_sources", lambda *_, **__: found)
    assert f"{lake}/plain" in {file.path for file in prune(lake, "id >= 0").kept_files}


def test_it_is_no_candidate_where_files_disagree_about_the_column(notes: Path) -> None:
    pq.write_table(pa.table({"id": [1.5]}), notes / "double.parquet")
    rows = pa.Table.from_batches(lookup(notes, "id", [1])).to_pylist()
    assert {row["path"] for row in rows} == {f"{notes}/{name}" for name in [*READ, "double.parquet"]}


def test_what_is_named_itself_is_no_stray(notes: Path) -> None:
    for paths in (notes / "notes.txt", f"{notes}/*.txt", [notes, notes / "notes.txt"]):
        assert "notes.txt" in str([file.path for file in prune(paths, "id = 1").kept_files])


def test_among_nothing_but_strays_there_is_no_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no Parquet at all, and longer than a footer")
    for verb in (
        lambda: prune(tmp_path, "id = 1"),
        lambda: inspect(tmp_path),
        lambda: verify(tmp_path),
        lambda: probe(tmp_path, "id", 1),
        lambda: list(lookup(tmp_path, "id", [1])),
        lambda: add(tmp_path, "id"),
        lambda: drop(tmp_path),
        lambda: index.create(tmp_path, "id"),
    ):
        with pytest.raises(FileNotFoundError, match=r"no Parquet file among .*notes.txt"):
            verb()


@pytest.mark.parametrize(
    "change",
    [
        lambda root, **options: add(root, "id", **options),
        lambda root, **options: hudi.add_filter(root, ndv=10, **options),
    ],
    ids=["add", "hudi"],
)
def test_only_familiar_names_are_changed_unless_any_may_be(notes: Path, change: Any) -> None:
    def changed(before: dict[str, bytes]) -> set[str]:
        return {name for name in before if (notes / name).read_bytes() != before[name]}

    def content() -> dict[str, bytes]:
        return {name: (notes / name).read_bytes() for name in [*READ, *PASSED_OVER, "notes.txt"]}

    before = content()
    rows = {str(Path(row.path).relative_to(notes)): row for row in change(notes).rows}
    assert rows.keys() == set(READ)
    assert changed(before) == set(READ) - set(UNFAMILIAR_NAMES)
    assert {name for name, row in rows.items() if row.notes == (UNFAMILIAR,)} == set(UNFAMILIAR_NAMES)
    change(notes, any_name=True)
    assert changed(before) == set(READ)
    before = content()
    drop(notes, restore=True)
    assert changed(before) == set(READ) - set(UNFAMILIAR_NAMES)
    drop(notes, restore=True, any_name=True)
    assert changed(before) == set(READ)


def test_copies_elsewhere_are_made_of_every_name(notes: Path, tmp_path: Path) -> None:
    add(notes, "id", output=tmp_path / "out")
    assert {row.path for row in inspect(tmp_path / "out").rows} == {f"{tmp_path}/out/{name}" for name in READ}


@needs_java
@pytest.mark.spark
def test_sparks_verbs_go_by_the_same_rule(notes: Path, caplog: pytest.LogCaptureFixture) -> None:
    import parquet_bloom.spark as on_spark

    caplog.set_level(logging.WARNING, "parquet_bloom")
    expected = {f"{notes}/{name}" for name in READ}
    for verb in (
        lambda: on_spark.inspect(spark(), notes),
        lambda: on_spark.prune(spark(), notes, "id >= 0"),
        lambda: on_spark.lookup(spark(), notes, "id", list(range(len(READ)))),
        lambda: on_spark.verify(spark(), notes),
        lambda: on_spark.add(spark(), notes, "id"),
    ):
        assert {row.path for row in verb().select("path").collect()} == expected
        assert caplog.text.count("1 file is not Parquet and was skipped") == 1
        caplog.clear()
    assert {row.path for row in inspect(notes).rows} == expected - {f"{notes}/{name}" for name in UNFAMILIAR_NAMES}
    on_spark.add(spark(), notes, "id", any_name=True)
    assert {row.path for row in inspect(notes).rows} == expected
    state = on_spark.index.create(spark(), notes, "id")
    assert (state.rows[0].files, state.rows[0].files_missing) == (len(READ), 0)
