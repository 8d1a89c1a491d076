"""What readers would lose is left out: by default, by the readers that are named, and by those that are remembered."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import index_folder, only_error, opened, with_footer
from kinds import KINDS, footer_of, write_kind

import parquet_bloom
from parquet_bloom import add
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.filters.readers import VARIABLE, readers_of
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.values.encoding import why_unbuildable

LEFT_OUT = {
    "BYTE_ARRAY": "DuckDB 1.5.0",
    "FIXED_LEN_BYTE_ARRAY": "DuckDB 1.5.0",
    "UINT32": "Trino up to",
    "DECIMAL(9) FIXED(4)": "DataFusion before 55.0.0",
    "DECIMAL(30) FIXED(13)": "DataFusion before 55.0.0",
}
"""The kinds of columns that get no filter where nobody is named, and who is to blame first."""

CURRENT = "duckdb>=2,datafusion>=55,clickhouse>=26.9.2,deltalake>=1.6.3,polars,spark"


@pytest.fixture(autouse=True)
def anyone_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


@pytest.fixture(scope="module")
def of_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    for kind in KINDS:
        write_kind(folder / f"{kind}.parquet", kind)
    return folder


def outcomes(folder: Path, **options: str | bool) -> dict[str, str | None]:
    """Returns for each kind why `v` gets no filter, None where it does."""
    added = add(folder, "v", dry_run=True, allow_large=True, **options)
    assert len(added.rows) == len(KINDS)
    for row in added.rows:
        assert (row.status == "refused") == (row.error is not None)
        assert row.error or {one.column for one in row.filters} == {"v"}
    return {Path(row.path).stem: row.error for row in added.rows}


def impossible(folder: Path) -> set[str]:
    return {kind for kind in KINDS if why_unbuildable(footer_of(folder / f"{kind}.parquet").leaves[1])}


def left_out(found: dict[str, str | None]) -> dict[str, str]:
    return {kind: error for kind, error in found.items() if error and "left out" in error}


def test_by_default_what_any_recent_release_loses_is_left_out(of_kinds: Path) -> None:
    found = outcomes(of_kinds)
    assert {kind for kind, error in found.items() if error} - LEFT_OUT.keys() == impossible(of_kinds)
    assert left_out(found).keys() == LEFT_OUT.keys()
    for kind, blamed in LEFT_OUT.items():
        error = found[kind]
        assert error is not None
        assert blamed in error
        assert "\n" not in error
        assert "readers=" in error
        assert "accept_hazards=True" in error


def test_of_named_readers_only_what_these_lose(of_kinds: Path) -> None:
    assert left_out(outcomes(of_kinds, readers=CURRENT)) == {}
    assert left_out(outcomes(of_kinds, readers="spark,polars")) == {}
    assert left_out(outcomes(of_kinds, readers="datafusion>=54")).keys() == {k for k in LEFT_OUT if "FIXED(" in k}
    assert left_out(outcomes(of_kinds, readers="duckdb==1.5.*,spark")).keys() == {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
    # a release that nobody is expected to have any more, but that is named
    assert "DECIMAL(9) FIXED(4)" in left_out(outcomes(of_kinds, readers="datafusion==40"))


def test_accepted_hazards_leave_nothing_out(of_kinds: Path) -> None:
    found = outcomes(of_kinds, accept_hazards=True)
    assert {kind for kind, error in found.items() if error} == impossible(of_kinds)
    assert outcomes(of_kinds, accept_hazards=True, readers="datafusion>=54") == found


def test_the_environment_names_them_where_nobody_does(of_kinds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CURRENT)
    assert left_out(outcomes(of_kinds)) == {}
    assert left_out(outcomes(of_kinds, readers="datafusion>=54"))
    monkeypatch.setenv(VARIABLE, "duckbd")
    with pytest.raises(ValueError, match=f"{VARIABLE} does not know 'duckbd'"):
        add(of_kinds, "v")
    assert left_out(outcomes(of_kinds, readers=CURRENT)) == {}


@pytest.mark.parametrize(
    ("readers", "message"),
    [
        ("duckbd>=2", "does not know 'duckbd'"),
        ("duckdb>=two", "cannot read"),
        ("", "names no reader"),
        ([], "no reader"),
    ],
)
def test_readers_that_are_not_understood_are_an_error(ids: Path, readers: str, message: str) -> None:
    before = ids.read_bytes()
    with pytest.raises(ValueError, match=message):
        add(ids, "id", readers=readers)
    assert ids.read_bytes() == before


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    """Two columns that everybody reads, and bytes, in two row groups."""
    path = tmp_path / "lake" / "ids.parquet"
    path.parent.mkdir()
    numbers = range(2000)
    rows = pa.table({"id": numbers, "blob": [b"%d\xff" % i for i in numbers], "name": [f"{i}" for i in numbers]})
    pq.write_table(rows, path, row_group_size=1000)
    return path


def filtered(path: Path) -> set[tuple[int, str]]:
    _, footer = opened(path)
    return {(group, leaf.name) for group, leaf, _ in footer.chunks() if footer.filter_location(group, leaf)}


def test_the_other_columns_are_done(ids: Path) -> None:
    (row,) = add(ids, ["id", "blob"]).rows
    assert row.status == "written"
    ((column, reason),) = [(one.column, one.reason) for one in row.skipped_columns]
    assert column == "blob"
    assert "BYTE_ARRAY is left out: DuckDB" in reason
    assert filtered(ids) == {(0, "id"), (1, "id")}


def test_strict_raises_before_anything_is_written(ids: Path) -> None:
    before = ids.read_bytes()
    with pytest.raises(UnsupportedError, match="column blob: BYTE_ARRAY is left out: DuckDB"):
        add(ids, ["id", "blob"], strict=True)
    assert ids.read_bytes() == before


def test_a_column_that_has_its_filters_is_no_error_but_a_note(ids: Path) -> None:
    add(ids, "blob", accept_hazards=True)
    before = ids.read_bytes()
    added = add(ids, ["blob"], strict=True)
    (row,) = added.rows
    assert (row.status, row.error, row.skipped_columns, added.errors) == ("unchanged", None, (), ())
    assert any("DuckDB 1.5.0 to 1.5.6 loses rows" in note and note.endswith(": blob") for note in row.notes)
    assert add(ids, "blob", readers=CURRENT).rows[0].notes == ()
    assert add(ids, "blob", accept_hazards=True).rows[0].notes == ()
    assert ids.read_bytes() == before
    # But it is not built again.
    assert "left out" in only_error(add(ids, "blob", replace=True))
    assert ids.read_bytes() == before


def test_a_column_that_lacks_one_of_its_filters_is_left_out(ids: Path) -> None:
    add(ids, "blob", accept_hazards=True)
    _, footer = opened(ids)
    body = ids.read_bytes()[: footer.start]
    ids.write_bytes(with_footer(ids.read_bytes(), splice_filters(footer.raw, {(1, 1): None})))
    assert ids.read_bytes().startswith(body)
    assert filtered(ids) == {(0, "blob")}
    assert "left out" in only_error(add(ids, "blob"))
    assert filtered(ids) == {(0, "blob")}


def test_nulls_are_told_and_of_a_named_clickhouse_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": pa.array([None, *range(1000)]), "full": pa.array(range(1001))}), path)
    (row,) = add(path, ["id", "full"], dry_run=True).rows
    (note,) = [note for note in row.notes if "ClickHouse" in note and "NULL" in note]
    assert note.endswith(": id")
    assert row.skipped_columns == ()
    (row,) = add(path, ["id", "full"], readers="clickhouse==26.7.*", dry_run=True).rows
    assert [one.column for one in row.skipped_columns] == ["id"]
    assert add(path, ["id", "full"], readers="clickhouse>=26.9.2", dry_run=True).rows[0].notes == ()


def test_what_is_lost_in_some_files_is_told_and_of_a_named_clickhouse_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": ["a", "b"], "f": [1.5, 2.5]}), path)
    (row,) = add(path, ["s", "f"], dry_run=True).rows
    (note,) = [note for note in row.notes if "in some files" in note or "on some files" in note]
    assert note.endswith(": s")  # ClickHouse does not use filters of floats
    (row,) = add(path, ["s", "f"], readers="clickhouse==26.3.9", dry_run=True).rows
    assert [one.column for one in row.skipped_columns] == ["s"]
    assert add(path, ["s", "f"], readers="clickhouse>=26.9.2", dry_run=True).rows[0].notes == ()


# ---- what an index remembers -------------------------------------------------------------


def test_the_index_of_a_folder_remembers_its_readers(ids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = parquet_bloom.index.create(ids.parent, "id", readers="duckdb>=2, datafusion>=55")
    assert state.readers == "duckdb>=2, datafusion>=55"
    for path in (ids.parent, ids, str(ids.parent / "*.parquet")):
        assert add(path, ["blob"], dry_run=True).errors == ()
    monkeypatch.setenv(VARIABLE, "duckdb==1.5.0")  # which counts less
    assert add(ids, ["blob"], dry_run=True).errors == ()
    assert "left out" in only_error(add(ids, ["blob"], readers="duckdb==1.5.0", dry_run=True))
    # A refresh and another column keep them; others take their place.
    assert parquet_bloom.index.refresh(ids.parent).readers == state.readers
    assert parquet_bloom.index.create(ids.parent, "name").readers == state.readers
    assert parquet_bloom.index.drop(ids.parent, "name").readers == state.readers
    assert parquet_bloom.index.create(ids.parent, "id", readers="duckdb").readers == "duckdb"
    assert "left out" in only_error(add(ids, ["blob"], dry_run=True))
    with pytest.raises(ValueError, match="does not know 'x'"):
        parquet_bloom.index.create(ids.parent, "id", readers="x")
    parquet_bloom.index.drop(ids.parent)
    assert parquet_bloom.index.create(ids.parent, "id").readers is None


def test_an_index_above_a_folder_counts_and_the_nearest_first(ids: Path) -> None:
    inner = ids.parent / "deep" / "er"
    inner.mkdir(parents=True)
    moved = ids.rename(inner / "a.parquet")
    parquet_bloom.index.create(ids.parent, "id", readers="duckdb>=2")
    assert add(moved, "blob", dry_run=True).errors == ()
    parquet_bloom.index.create(ids.parent / "deep", "id", readers="duckdb==1.5.*")
    assert "left out" in only_error(add(moved, "blob", dry_run=True))
    parquet_bloom.index.drop(ids.parent / "deep")
    (ids.parent.parent / "other").mkdir()
    other = ids.parent.parent / "other" / "b.parquet"
    other.write_bytes(moved.read_bytes())
    before = moved.read_bytes()
    # Nobody knows who reads the other file.
    with pytest.raises(ValueError, match="say whose to go by with readers="):
        add([moved, other], "id")
    assert moved.read_bytes() == other.read_bytes() == before
    assert add([moved, other], "blob", readers="duckdb>=2", dry_run=True).errors == ()
    parquet_bloom.index.create(other.parent, "id", readers="duckdb>=1")
    with pytest.raises(ValueError, match="say whose to go by with readers="):
        add([moved, other], "id")
    parquet_bloom.index.create(other.parent, "id", readers="duckdb>=2")
    assert add([moved, other], "blob", dry_run=True).errors == ()


def test_an_index_of_another_format_is_warned_of(ids: Path, caplog: pytest.LogCaptureFixture) -> None:
    parquet_bloom.index.create(ids.parent, "id", readers="duckdb>=2")
    (version,) = index_folder(ids.parent).glob("*.json")
    write_version(version, format=99)
    assert "left out" in only_error(add(ids, "blob", dry_run=True))
    assert "which readers an index remembers is not known" in caplog.text


def write_version(path: Path, *, without: str = "", **fields: object) -> None:
    """Writes a version of an index again, as another release might."""
    body = json.loads(path.read_text())["version"] | fields
    body.pop(without, None)
    path.write_text(json.dumps({"crc": zlib.crc32(json.dumps(body, sort_keys=True).encode()), "version": body}))


def test_a_version_that_names_no_readers_is_read(ids: Path) -> None:
    parquet_bloom.index.create(ids.parent, "id", readers="duckdb>=2")
    (version,) = index_folder(ids.parent).glob("*.json")
    write_version(version, without="readers")
    state = parquet_bloom.index.show(ids.parent)
    assert (state.readers, state.rows[0].files) == (None, 1)
    assert "left out" in only_error(add(ids, "blob", dry_run=True))


@pytest.mark.parametrize("readers", [7, None, ["duckdb"]])
def test_a_version_with_damaged_readers_is_none(ids: Path, readers: object) -> None:
    parquet_bloom.index.create(ids.parent, "id", readers="duckdb>=2")
    (version,) = index_folder(ids.parent).glob("*.json")
    write_version(version, readers=readers)
    assert not parquet_bloom.index.show(ids.parent).exists
    assert "left out" in only_error(add(ids, "blob", dry_run=True))


# ---- with advise -------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Keys in no order, as text and as bytes, that are worth a filter."""
    rng = random.Random(7)
    keys = [f"{rng.getrandbits(64):016x}" for _ in range(60_000)]
    folder = tmp_path / "events"
    folder.mkdir()
    rows = pa.table({"text": keys, "blob": [key.encode() for key in keys]})
    for number in range(2):
        part = rows.slice(30_000 * number, 30_000)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=5000, compression="none")
    return folder


def test_advise_and_auto_agree(lake: Path) -> None:
    advice = {row.column: row for row in parquet_bloom.advise(lake)}
    assert advice["text"].advice == "add"
    assert advice["blob"].advice == "left out"
    assert "DuckDB 1.5.0" in advice["blob"].reason
    for options in ({}, {"readers": CURRENT}, {"accept_hazards": True}, {"readers": "duckdb==1.5.1"}):
        columns = parquet_bloom.advise(lake, **options).columns
        assert columns.keys() == ({"text"} if options in ({}, {"readers": "duckdb==1.5.1"}) else {"text", "blob"})
        added = add(lake, auto=True, dry_run=True, **options)
        assert {one.column for row in added.rows for one in row.filters} == columns.keys()
        assert added.errors == ()
    parquet_bloom.index.create(lake, "text", readers=CURRENT)
    assert parquet_bloom.advise(lake).columns.keys() == {"text", "blob"}


def test_a_column_that_only_some_files_leave_out_is_advised(lake: Path) -> None:
    rows = pq.read_table(lake / "1.parquet")
    as_text = rows.set_column(1, "blob", rows["blob"].cast(pa.string()))
    pq.write_table(as_text, lake / "1.parquet", row_group_size=5000, compression="none")
    (row,) = [row for row in parquet_bloom.advise(lake) if row.column == "blob"]
    assert row.advice == "add"
    assert "left out of 1 of 2 files: DuckDB" in row.reason
    added = add(lake, auto=True, dry_run=True)
    assert [[one.column for one in row.skipped_columns] for row in added.rows] == [["blob"], []]


# ---- the package -------------------------------------------------------------------------


def test_readers_can_be_pickled_for_executors() -> None:
    readers = readers_of("duckdb>=2,spark")
    assert pickle.loads(pickle.dumps(readers)) == readers


def test_naming_readers_imports_nothing_heavy() -> None:
    code = (
        "import sys, parquet_bloom.filters.readers; print({'pyarrow', 'deltalake', 'pyiceberg'} & sys.modules.keys())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
