"""What every result can do beyond its rows: Arrow's libraries take it, and it is shown in one line or as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.results import HTML_ROWS, Record, Table

pytestmark = pytest.mark.usefixtures("mtime_stable")

RESULTS: dict[str, Any] = {
    "inspect": lambda lake: parquet_bloom.inspect(lake),
    "probe": lambda lake: parquet_bloom.probe(lake, "id", 5),
    "add": lambda lake: parquet_bloom.add(lake, "id"),
    "drop": lambda lake: parquet_bloom.drop(lake, dry_run=True),
    "prune": lambda lake: parquet_bloom.prune(lake, "id = 5"),
    "verify": lambda lake: parquet_bloom.verify(lake),
    "index": lambda lake: parquet_bloom.index.create(lake, "id"),
}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three row groups of ids that a filter, but no statistics, can tell apart."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [n + 3 * i for n in range(3) for i in range(100)]}), path, row_group_size=100)
    parquet_bloom.add(path, "id", fpp=0.0001)
    return tmp_path


@pytest.mark.parametrize("verb", RESULTS)
def test_arrow_libraries_take_a_result_as_it_is(lake: Path, verb: str) -> None:
    result = RESULTS[verb](lake)
    table = pa.table(result)
    assert table.equals(result.to_arrow())
    assert table.num_rows == len(result) == len(list(result)) > 0
    assert list(result) == list(result.rows)


@pytest.mark.engines
def test_engines_take_a_result_as_it_is(lake: Path) -> None:
    import duckdb
    import polars as pl

    for verb in RESULTS:
        result = RESULTS[verb](lake)
        rows = pa.table(result).to_pylist()
        assert pl.DataFrame(result).to_dicts() == rows, verb
        assert duckdb.sql("FROM result").fetchall() == [tuple(row.values()) for row in rows], verb


@pytest.mark.parametrize("verb", RESULTS)
def test_a_result_is_shown_in_one_short_line_or_as_a_table(lake: Path, verb: str) -> None:
    result = RESULTS[verb](lake)
    assert len(repr(result)) < 80
    assert "\n" not in repr(result)
    assert result._repr_html_().count("<tr>") == 1 + min(len(result), HTML_ROWS)
    assert result.errors == ()


def test_what_is_shown_says_what_came_out(lake: Path) -> None:
    shown = [repr(RESULTS[verb](lake)).partition(": ")[2] for verb in ("inspect", "probe", "prune", "verify", "add")]
    assert shown == [
        "3 filters, 0 errors>",
        "1 of 3 answers MIGHT_MATCH, 0 errors>",
        "1 of 1 file and 1 of 3 row groups must be read, 0 errors>",
        "3 filters, 0 not ok, 0 errors>",
        "1 file, 0 errors>",
    ]
    assert repr(parquet_bloom.advise(lake)) == "<Advice: 0 of 1 column worth a filter, 0 errors>"


def test_html_is_cut_and_escaped(tmp_path: Path) -> None:
    path = tmp_path / "<b>.parquet"
    pq.write_table(pa.table({"id": range(50)}), path, row_group_size=2)
    shown = parquet_bloom.probe(path, "id", 1)._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;.parquet" in shown
    assert shown.endswith("<p>and 5 more</p>")


def test_what_could_not_be_done_is_among_the_errors(lake: Path) -> None:
    (lake / "bad.parquet").write_bytes(b"no Parquet at all")
    bad = str(lake / "bad.parquet")
    for verb in ("inspect", "probe", "add", "drop", "prune", "verify"):
        result: Table = RESULTS[verb](lake)
        assert [row.path for row in result.errors] == [bad]
        assert "1 error" in repr(result)
    assert [file.path for file in RESULTS["index"](lake).errors] == [bad]
    (unread,) = (row for row in parquet_bloom.probe(lake, "id", 5) if row.path == bad)
    assert unread.row_group is None


def test_verify_tells_whether_all_is_sound(lake: Path) -> None:
    assert parquet_bloom.verify(lake).is_sound
    (lake / "bad.parquet").write_bytes(b"no Parquet at all")
    verified = parquet_bloom.verify(lake)
    assert not verified.is_sound
    assert verified.findings == ()


def test_prune_gives_what_readers_are_told(lake: Path) -> None:
    pq.write_table(pa.table({"id": [1000]}), lake / "none.parquet")
    (lake / "bad.parquet").write_bytes(b"no Parquet at all")
    good, bad = str(lake / "a.parquet"), str(lake / "bad.parquet")
    pruned = parquet_bloom.prune(lake, "id = 5")
    assert set(pruned.paths) == {file.path for file in pruned.kept_files} == {good, bad}
    assert pruned.row_groups_by_path == {good: [2], bad: None}


# ---- lookup --------------------------------------------------------------------------------

KEYS = [5, 6, 1000]


def by_polars(found: Any) -> pa.Table:
    import polars as pl

    return pl.DataFrame(found).to_arrow()


def by_duckdb(found: Any) -> pa.Table:
    import duckdb

    return duckdb.from_arrow(found.to_reader()).to_arrow_table()


@pytest.mark.parametrize(
    "read",
    [
        pa.table,
        pytest.param(by_polars, marks=pytest.mark.engines),
        pytest.param(by_duckdb, marks=pytest.mark.engines),
        lambda found: pa.RecordBatchReader.from_stream(found).read_all(),
    ],
)
def test_lookup_streams(lake: Path, read: Any) -> None:
    found = parquet_bloom.lookup(lake, "id", KEYS)
    assert repr(found).endswith("not read yet>")
    rows = [(row["key"], row["row_group"]) for row in read(found).to_pylist()]
    assert sorted(rows, key=str) == [(1000, None), (5, 2), (6, 0)]
    assert repr(found).endswith("read already>")
    with pytest.raises(parquet_bloom.UnsupportedError):
        pa.table(found)


def test_lookup_knows_at_its_end_which_files_could_not_be_read(lake: Path) -> None:
    (lake / "bad.parquet").write_bytes(b"no Parquet at all")
    found = parquet_bloom.lookup(lake, "id", KEYS)
    with pytest.raises(parquet_bloom.UnsupportedError, match="once all candidates have been read"):
        _ = found.errors
    whole = {row["path"] for row in found.to_arrow().to_pylist() if row["row_group"] is None and row["path"]}
    (error,) = found.errors
    assert {error.path} == whole == {str(lake / "bad.parquet")}
    assert error.error == "not a whole Parquet file: it does not end in PAR1 (at byte 13)"


@pytest.mark.parametrize("keys", [[5], [5, 6], [1000], [5, None]])
def test_lookup_as_a_dataset_has_every_row_of_the_keys(lake: Path, keys: list[int | None]) -> None:
    whole = pq.read_table(lake / "a.parquet")["id"].to_pylist()
    rows = parquet_bloom.lookup(lake, "id", keys).to_dataset().to_table()["id"].to_pylist()
    assert [n for n in whole if n in keys] == [n for n in rows if n in keys]
    assert len(rows) < len(whole)


def test_lookup_as_a_dataset_keeps_whole_files_and_partitions(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"id": [day, day + 10]}), tmp_path / f"day={day}" / "a.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "day=2" / "without.parquet")
    dataset = parquet_bloom.lookup(tmp_path, "id", [2]).to_dataset()
    rows = {(row["id"], row["day"]) for row in dataset.to_table().to_pylist()}
    assert {(2, 2), (12, 2), (None, 2)} <= rows


def test_a_row_is_shown_in_one_line(lake: Path) -> None:
    deep = lake / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    path = deep / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3]}), path)
    for verb in RESULTS:
        for row in RESULTS[verb](path if verb != "index" else lake):
            assert type(row).__repr__ is Record.__repr__
            assert len(repr(row)) < 200
            assert "\n" not in repr(row)
    (answer,) = parquet_bloom.probe(path, "id", 5)
    assert repr(answer) == (
        f"ProbeAnswer(path='…{'y' * 49}/a.parquet', row_group=0, value='5', answer='CANNOT_MATCH', "
        "reason='the filter lacks the value')"
    )
