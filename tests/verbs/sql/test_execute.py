"""The statements at work: the examples of Databricks' documentation with paths for names, and every error."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import index_folder

from parquet_bloom import index, prune
from parquet_bloom.errors import (
    ColumnNotFoundError,
    IndexNotFoundError,
    ParquetBloomError,
    PredicateError,
    UnsupportedError,
)
from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.storage import listing
from parquet_bloom.verbs.sql import execute


@pytest.fixture(autouse=True)
def mtime_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -1)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    for number in range(3):
        path = root / f"day={number}" / "part.parquet"
        path.parent.mkdir(parents=True)
        rows = range(number * 100, number * 100 + 100)
        pq.write_table(
            pa.table(
                {
                    "sha": [f"{row:064x}" for row in rows],
                    "c": pa.array(rows, pa.int32()),
                    "user": [{"id": row} for row in rows],
                    "tags": [[row] for row in rows],
                    "flag": [row % 2 == 0 for row in rows],
                    "blob": [b"%d" % row for row in rows],
                    "amount": pa.array([None] * 100, pa.decimal128(9, 2)),
                }
            ),
            path,
            row_group_size=50,
        )
    return root


def kept(root: Path, where: str) -> list[str]:
    return [Path(file.path).parent.name for file in prune(root, where).kept_files]


def test_the_documented_examples_run(lake: Path) -> None:
    state = execute(f"CREATE BLOOMFILTER INDEX ON TABLE {lake} FOR COLUMNS(sha OPTIONS (fpp=0.1, numItems=50000000))")
    assert [(row.column, row.fpp, row.ndv, row.max_expected_fpp, row.files) for row in state.rows] == [
        ("sha", 0.1, 50_000_000, 1.0, 3)
    ]
    assert kept(lake, f"sha = '{150:064x}'") == ["day=1"]
    state = execute(f"CREATE BLOOMFILTER INDEX\nON TABLE `{lake}`\nFOR COLUMNS(c OPTIONS (fpp=0.1, numItems=5000))")
    assert [(row.column, row.files) for row in state.rows] == [("sha", 3), ("c", 3)]
    state = execute(f"CREATE BLOOMFILTER INDEX ON parquet.`{lake}` FOR COLUMNS (sha) OPTIONS ('fpp' '0.01')")
    assert [(row.column, row.fpp, row.ndv, row.files) for row in state.rows] == [
        ("sha", 0.01, 1_000_000, 3),
        ("c", 0.1, 5000, 3),
    ]
    state = execute(f"DROP BLOOMFILTER INDEX ON TABLE '{lake}' FOR COLUMNS (sha)")
    assert [row.column for row in state.rows] == ["c"]
    state = execute(f"DROP BLOOMFILTER INDEX ON {lake};")
    assert (state.exists, state.rows) == (False, ())
    assert not index_folder(lake).exists()


ERRORS: dict[str, tuple[type[Exception], str]] = {
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (shaa)": (
        ColumnNotFoundError,
        "the data has no leaf column 'shaa'; did",
    ),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (user.id)": (UnsupportedError, "user.id is a nested column"),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (user)": (UnsupportedError, "user is a nested column"),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (tags)": (UnsupportedError, "tags is a nested column"),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (day)": (UnsupportedError, "day is a partition column"),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (flag)": (
        UnsupportedError,
        "flag is BOOLEAN, which the index does not support",
    ),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (blob)": (
        UnsupportedError,
        "blob is BYTE_ARRAY, which the index does not support",
    ),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (sha, amount)": (
        UnsupportedError,
        "amount is FIXED_LEN_BYTE_ARRAY(4) DECIMAL(9,2)",
    ),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (c OPTIONS (fpp=0.1), c)": (
        PredicateError,
        "more than one configuration",
    ),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (c OPTIONS (fpp=2))": (PredicateError, "fpp must be a number above 0"),
    "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (c OPTIONS (bits=2))": (PredicateError, "'bits' is not an option"),
    "CREATE BLOOMFILTER INDEX ON {}/none FOR COLUMNS (c)": (FileNotFoundError, "no such file or directory"),
    "CREATE BLOOMFILTER INDEX ON {}/day=0/part.parquet FOR COLUMNS (c)": (UnsupportedError, "is not a directory"),
    "DROP BLOOMFILTER INDEX ON {}": (IndexNotFoundError, "has no index, so there is nothing to drop"),
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors(lake: Path, statement: str) -> None:
    error, message = ERRORS[statement]
    with pytest.raises(error, match=re.escape(message)):
        execute(statement.format(lake))
    assert not index_folder(lake).exists()


def test_a_failed_statement_changes_nothing(lake: Path) -> None:
    execute(f"CREATE BLOOMFILTER INDEX ON {lake} FOR COLUMNS (c)")
    before = index.show(lake)
    wrong = (
        "CREATE BLOOMFILTER INDEX ON {} FOR COLUMNS (sha, flag)",
        "DROP BLOOMFILTER INDEX ON {} FOR COLUMNS (c, sha)",
    )
    for statement in (*wrong, "DROP BLOOMFILTER INDEX ON {} FOR COLUMNS (none)"):
        with pytest.raises(ParquetBloomError):
            execute(statement.format(lake))
    assert index.show(lake) == before
    with pytest.raises(ColumnNotFoundError, match=r"the index of .* has no leaf column 'sha'; columns: c"):
        execute(f"DROP BLOOMFILTER INDEX ON {lake} FOR COLUMNS (sha)")


def test_progress_is_told(lake: Path) -> None:
    told: list[tuple[int, int]] = []
    execute(f"CREATE BLOOMFILTER INDEX ON {lake} FOR COLUMNS (c)", progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_options_come_from_the_statement_alone(lake: Path) -> None:
    execute(f"CREATE BLOOMFILTER INDEX ON {lake} FOR COLUMNS (c OPTIONS (fpp=0.5, maxExpectedFpp=0.7))")
    state = execute(f"CREATE BLOOMFILTER INDEX ON {lake} FOR COLUMNS (c OPTIONS (numItems=9))")
    (row,) = state.rows
    assert IndexedColumn(row.column, row.fpp, row.ndv, row.max_expected_fpp) == IndexedColumn("c", 0.1, 9, 1.0)
    assert state.built == 3
