"""`find`: the rows are those that other engines return, only what can hold them is read, and nothing is guessed."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import SimulatedStore

import parquet_bloom
from parquet_bloom import RequestLog, col
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, PredicateError, UnsupportedError
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.page_index import read_places
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find as find_sources

ROWS = 20_000
FIXTURES = Path(__file__).parents[3] / "fixtures"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with page indexes, filters on `id`, a sorted column and nested ones."""
    folder = tmp_path_factory.mktemp("rows")
    rng = random.Random(3)
    for number in range(3):
        ids = [f"{rng.randrange(10**9):09}" for _ in range(ROWS)]
        table = pa.table(
            {
                "id": ids,
                "n": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64()),
                "note": [f"note {n} {'x' * (n % 50)}" for n in range(ROWS)],
                "user": [{"name": f"u{n % 100}", "tags": ["a", str(n)]} if n % 7 else None for n in range(ROWS)],
            }
        )
        pq.write_table(
            table, folder / f"{number}.parquet", row_group_size=ROWS // 2, write_page_index=True,
            data_page_size=4096, use_dictionary=["note"], compression="zstd" if number else "none",
        )  # fmt: skip
    parquet_bloom.add(folder, "id")
    return folder


def whole(lake: Path) -> pa.Table:
    """Returns all rows as pyarrow reads them, with their positions."""
    tables = []
    for path in sorted(lake.glob("*.parquet")):
        table = pq.read_table(path)
        tables.append(table.append_column("path", pa.array([str(path)] * len(table)))
                      .append_column("row", pa.array(range(len(table)), pa.int64())))  # fmt: skip
    return pa.concat_tables(tables)


@pytest.mark.engines
@pytest.mark.parametrize(
    "where",
    [
        "n = 12345",
        "n BETWEEN 19990 AND 20010",
        "n IN (5, 30000, 59999) OR n > 59995",
        "n < 3 AND id <> 'x'",
        "note = 'note 49 ' OR n = 7",
        "\"user\".name = 'u5' AND n < 400",
        '"user".name IS NULL AND n < 30',
        '"user" IS NULL AND n >= 59900',
    ],
)
def test_rows_are_those_of_duckdb(lake: Path, where: str) -> None:
    import duckdb

    table = whole(lake)  # noqa: F841  (DuckDB reads it)
    expected = duckdb.sql(f'SELECT * FROM "table" WHERE {where} ORDER BY path, row').to_arrow_table()
    found = parquet_bloom.find(lake, where.replace('"user"', "`user`"), positions=True)
    rows = found.to_arrow()
    assert rows.drop_columns(["row_group"]).select(expected.schema.names).to_pylist() == expected.to_pylist()
    assert found.errors == ()
    assert all(row["row_group"] == row["row"] // (ROWS // 2) for row in rows.select(["row", "row_group"]).to_pylist())


@given(st.data())
def test_any_keys_and_columns_are_those_of_pyarrow(lake: Path, data: st.DataObject) -> None:
    table = whole(lake)
    numbers = data.draw(st.lists(st.integers(-5, 3 * ROWS + 5), max_size=20))
    columns = data.draw(st.lists(st.sampled_from(["id", "n", "note", "user"]), unique=True))
    found = parquet_bloom.find(lake, column="n", keys=pa.array(numbers, pa.int64()), columns=columns).to_arrow()
    kept = table.filter(pa.compute.is_in(table["n"], pa.array(numbers, pa.int64()))) if numbers else table.slice(0, 0)
    assert found.to_pylist() == (kept.select(columns).to_pylist() if columns else [])
    assert columns == [] or found.schema.names == columns


def test_keys_and_the_condition_find_the_same(lake: Path) -> None:
    table = whole(lake)
    keys = [*table["id"].to_pylist()[:: ROWS // 3], "absent"]
    by_keys = parquet_bloom.find(lake, column="id", keys=keys, positions=True).to_arrow()
    by_condition = parquet_bloom.find(lake, col("id").isin(keys), positions=True).to_arrow()
    assert by_keys.equals(by_condition)
    assert set(by_keys["id"].to_pylist()) == set(keys) - {"absent"}


def test_only_pages_that_can_hold_a_row_are_read(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", 300_000
    table = pa.table({"n": range(rows), "id": [f"{n * 7919 % 10**9:09}" for n in range(rows)]})
    pq.write_table(table, path, write_page_index=True, data_page_size=16384, use_dictionary=False, compression="none")
    log = RequestLog()
    found = parquet_bloom.find(path, "n = 25000", cache=parquet_bloom.Cache(0), log=log)
    assert found.to_arrow().to_pylist() == [{"n": 25000, "id": "197975000"}]
    assert log.num_bytes < path.stat().st_size / 50
    log.requests.clear()
    found = parquet_bloom.find(path, column="n", keys=[25000, -1], cache=parquet_bloom.Cache(0), log=log)
    assert found.to_arrow().num_rows == 1
    assert log.num_bytes < path.stat().st_size / 50


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_store_is_asked_in_few_rounds_for_the_pages_that_can_hold_rows(is_sorted: bool, by_keys: bool) -> None:
    rng, rows = random.Random(5), 40_000
    objects = {}
    for number in range(4):
        ids = [f"{rng.getrandbits(128):032x}" for _ in range(rows)]
        table = pa.table({"id": sorted(ids) if is_sorted else ids})
        for name in ("x", "y", "z"):
            table = table.append_column(name, pa.array(rng.random() for _ in range(rows)))
        file = io.BytesIO()
        pq.write_table(
            table, file, row_group_size=rows // 2, write_page_index=True, data_page_size=16384, use_dictionary=False,
            compression="none", bloom_filter_options={"id": {"ndv": rows // 2, "fpp": 0.001}},
        )  # fmt: skip
        objects[f"lake/{number}.parquet"] = file.getvalue()
    key = table["id"][30_000].as_py()
    source, *_ = find_sources("a.parquet", filesystem=SimulatedStore.of({"a.parquet": file.getvalue()}))
    footer = run(source, read_footer(source.size))
    num_bytes = 0
    for leaf in footer.leaves:
        pages = run(source, read_places(footer, 1, leaf))
        starts = accumulate((page.num_rows for page in pages), initial=0)
        is_any = leaf.name == "id" and not is_sorted  # each page can hold it
        num_bytes += sum(
            len(page.extent)
            for page, start in zip(pages, starts, strict=False)
            if is_any or start <= 10_000 < start + page.num_rows
        )
    store, cache = SimulatedStore.of(objects), parquet_bloom.Cache()
    for is_known in (False, True):
        rounds = 3 if is_known or by_keys else 2  # page indexes may come along with the footer
        log = RequestLog()
        asked = {"column": "id", "keys": [key]} if by_keys else {"where": col("id") == key}
        found = parquet_bloom.find("lake", filesystem=store, cache=cache, log=log, **asked)
        before, bytes_before = store.rounds, log.num_bytes
        assert found.to_arrow().num_rows == 1
        assert store.rounds - before <= rounds, str(log)
        assert log.num_bytes - bytes_before <= 1.2 * num_bytes, str(log)
        if not by_keys and is_known:
            assert bytes_before <= 8 * (18 + 32)  # headers and blocks of filters


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("id = 5 OR plain = 1500", lambda n: n in (5, 1500)),
        ("id < 1500 OR (id > 200 AND id < 500)", lambda n: n < 1500),
        ("id > 100 AND id < 1900 AND name >= '001500'", lambda n: 1500 <= n < 1900),
        ("(id < 300 OR id > 1700) AND (name < '000100' OR name > '001800')", lambda n: n < 100 or n > 1800),
        ("real > 5000", lambda n: n == 700),  # NaN
    ],
)
def test_no_row_of_a_page_that_can_hold_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, rows: Callable[[int], bool]
) -> None:
    monkeypatch.setattr("parquet_bloom.verbs.matching_rows.INDEX_WORTH", 0)
    path, numbers = tmp_path / "f.parquet", range(2000)
    table = pa.table(
        {
            "id": numbers,
            "name": [f"{n:06}" for n in numbers],
            "plain": numbers,
            "real": [float("nan") if n == 700 else n / 2 for n in numbers],
        }
    )
    options = {"data_page_size": 256, "write_batch_size": 16, "write_page_index": True, "use_dictionary": False}
    pq.write_table(table, path, write_statistics=["id", "name", "real"], **options)
    found = parquet_bloom.find(path, where, columns=["id"]).to_arrow()["id"].to_pylist()
    assert found == list(filter(rows, numbers))
    keys = pa.array([7.0, float("nan"), 0.25])
    by_keys = parquet_bloom.find(path, column="real", keys=keys, columns=["id"]).to_arrow()["id"].to_pylist()
    assert by_keys == [14, 700]


@pytest.mark.engines
def test_the_stream_is_read_once_and_knows_its_schema(lake: Path) -> None:
    import duckdb

    found = parquet_bloom.find(lake, "n < 0")
    assert found.schema.names == ["id", "n", "note", "user"]
    with pytest.raises(UnsupportedError, match="once all rows"):
        found.errors  # noqa: B018
    assert list(found) == []
    with pytest.raises(UnsupportedError, match="call find again"):
        found.to_arrow()
    with pytest.raises(TypeError, match="truth value"):
        bool(found)
    found = parquet_bloom.find(lake, "n < 3")
    assert duckdb.sql("SELECT count(*) FROM found").fetchall() == [(3,)]
    assert isinstance(parquet_bloom.find(lake, "n < 3").to_dataset(), ds.Dataset)


@pytest.mark.parametrize(("where", "rows"), [("true", 3 * ROWS), ("NOT false", 3 * ROWS), ("false", 0)])
def test_a_condition_without_columns_is_about_every_row(lake: Path, where: str, rows: int) -> None:
    assert parquet_bloom.find(lake, where, columns=["n"]).to_arrow()["n"].to_pylist() == list(range(rows))


def test_limit_stops_early(lake: Path) -> None:
    assert parquet_bloom.find(lake, "n >= 0", limit=7).to_arrow().num_rows == 7
    assert parquet_bloom.find(lake, "n >= 0", limit=0).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("id LIKE 'a%'", UnsupportedError),
        ("lower(id) = 'a'", UnsupportedError),
        ("n = 1 OR id = note", UnsupportedError),
        ("`user`.tags = 'a'", UnsupportedError),
        ("`user`.tags.list.element = 'a'", UnsupportedError),
        ("`user` = 'a'", UnsupportedError),
        ("id = 'it''s'", UnsupportedError),
        ("nope = 1", ColumnNotFoundError),
        ("n = 'abc'", LiteralError),
        ("id = 5", LiteralError),
        ("n =", PredicateError),
    ],
)
def test_what_is_not_exact_is_refused(lake: Path, where: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parquet_bloom.find(lake, where).to_arrow()


def test_a_damaged_file_is_an_error_and_the_others_are_read(lake: Path, tmp_path: Path) -> None:
    for path in lake.glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = tmp_path / "1.parquet"
    chunk = pq.read_metadata(broken).row_group(0).column(1)
    data = bytearray(broken.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + 40] = b"\xff" * 40
    broken.write_bytes(data)
    (tmp_path / "9.parquet").write_bytes(b"PAR1 but no footer")
    found = parquet_bloom.find(tmp_path, "n IN (5, 20005, 40005) AND n IS NOT NULL", columns=["n"])
    assert [row["n"] for row in found.to_arrow().to_pylist()] == [5, 40005]
    assert sorted(Path(error.path).name for error in found.errors) == ["1.parquet", "9.parquet"]
    found = parquet_bloom.find(tmp_path, column="n", keys=[5, 20005, 40005], columns=["n"])
    assert found.to_arrow()["n"].to_pylist() == [5, 40005]
    assert sorted(Path(error.path).name for error in found.errors) == ["1.parquet", "9.parquet"]
    with pytest.raises(Exception, match="PAR1"):
        parquet_bloom.find(tmp_path, "n = 5", strict=True).to_arrow()


def test_partitions_are_columns(tmp_path: Path) -> None:
    for day, number in (("2024-01-01", 1), ("2024-01-02", 2)):
        folder = tmp_path / f"day={day}" / f"k={number}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2, number]}), folder / "a.parquet")
    found = parquet_bloom.find(tmp_path, "day = '2024-01-02' AND n = 2").to_arrow()
    assert found.to_pylist() == [{"n": 2, "day": date(2024, 1, 2), "k": 2}] * 2
    assert parquet_bloom.find(tmp_path, "k > 1", columns=["k"]).to_arrow().to_pylist() == [{"k": 2}] * 3


def test_names_and_partitions_that_engines_read_differently_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "k=1.50"
    folder.mkdir()
    pq.write_table(pa.table({"n": [1], "N": [2]}), folder / "a.parquet")
    assert parquet_bloom.find(tmp_path, "n = 1", columns=["k"]).to_arrow().to_pylist() == [{"k": "1.50"}]
    with pytest.raises(UnsupportedError, match="as numbers or as text"):
        parquet_bloom.find(tmp_path, "k = '1.50'")
    with pytest.raises(UnsupportedError, match="matches 2 columns"):
        parquet_bloom.find(tmp_path, "n = 1", case_sensitive=False)


def test_files_with_other_columns_and_wider_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32()), "a": ["x", "y"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"n": pa.array([2, 2**40], pa.int64()), "b": [True, False]}), tmp_path / "2.parquet")
    rows = parquet_bloom.find(tmp_path, "n >= 2").to_arrow().to_pylist()
    assert rows == [
        {"n": 2, "a": "y", "b": None},
        {"n": 2, "a": None, "b": True},
        {"n": 2**40, "a": None, "b": False},
    ]
    assert parquet_bloom.find(tmp_path, "a IS NULL", columns=["n"]).to_arrow()["n"].to_pylist() == [2, 2**40]
    pq.write_table(pa.table({"n": ["1", "2"]}), tmp_path / "3.parquet")
    with pytest.raises(UnsupportedError, match="conflicting types"):
        parquet_bloom.find(tmp_path, "n = 2").to_arrow()
    with pytest.raises(UnsupportedError, match="differ too much"):
        parquet_bloom.find(tmp_path, "a = 'x'").to_arrow()


@pytest.mark.parametrize("writer", ["clickhouse", "datafusion", "duckdb", "polars", "pyarrow", "spark"])
def test_keys_of_every_type_find_the_rows_that_hold_them(writer: str) -> None:
    path = FIXTURES / writer / "all_types.parquet"
    refused = []
    for field in pq.read_schema(path):
        column = pq.read_table(path, columns=[field.name]).column(0)
        try:
            values = [None if value is None else repr(value) for value in column.to_pylist()]
        except (ValueError, OverflowError):  # years that Python has not, bytes that are not UTF-8
            continue
        rows = [n for n, value in enumerate(values) if value is not None]
        if pa.types.is_nested(field.type) or not rows:
            continue
        keys = column.take(rows[:3]) if not str(field.type).endswith("_view") else column.to_pylist()[rows[0] :][:1]
        wanted = {values[row] for row in rows[: 3 if isinstance(keys, pa.ChunkedArray) else 1]}
        try:
            found = parquet_bloom.find(path, column=field.name, keys=keys, columns=[], positions=True, timezone="UTC")
            numbers = found.to_arrow()["row"].to_pylist()
        except UnsupportedError:
            refused.append(field.name)
            continue
        if pa.types.is_floating(field.type) and {*wanted} & {"0.0", "-0.0"}:
            wanted |= {"0.0", "-0.0"}
        assert numbers == [row for row in rows if values[row] in wanted], field
    assert len(refused) <= 3, refused


@pytest.mark.parametrize("arguments", [{}, {"where": "n = 1", "column": "n", "keys": [1]}, {"column": "n"}])
def test_it_takes_a_condition_or_keys(lake: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        parquet_bloom.find(lake, **arguments)


def test_a_column_named_path_is_not_hidden_by_positions(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": ["x"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UnsupportedError, match="column path"):
        parquet_bloom.find(tmp_path, "n = 1", positions=True)
    assert parquet_bloom.find(tmp_path, "n = 1").to_arrow().to_pylist() == [{"path": "x", "n": 1}]


def test_keys_of_several_types_are_compared_exactly(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "a.parquet")
    assert parquet_bloom.find(tmp_path, column="n", keys=[1, 1.5, 3.0]).to_arrow()["n"].to_pylist() == [1, 3]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_days_before_1582_are_refused_if_the_writer_of_any_file_may_have_shifted_them(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    sure, unsure = (tmp_path / f"{name}.parquet" for name in names)
    pq.write_table(pa.table({"day": [date(1500, 1, 1), date(2024, 1, 1)]}), sure)
    unsure.write_bytes(sure.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-of-nobody"))
    assert parquet_bloom.find(sure, "day = DATE '1500-01-01'").to_arrow().num_rows == 1
    with pytest.raises(UnsupportedError, match="1582"):
        parquet_bloom.find(tmp_path, "day = DATE '1500-01-01'")
    assert parquet_bloom.find(tmp_path, "day = DATE '2024-01-01'").to_arrow().num_rows == 2


@pytest.mark.parametrize("kind", [pa.decimal32(5, 1), pa.decimal64(15, 1)])
def test_narrow_decimals_are_compared_in_every_way(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "narrow.parquet"
    pq.write_table(pa.table({"d": pa.array([Decimal("1.5"), Decimal("2.5"), None], kind)}), path)
    assert pq.read_schema(path).field("d").type == kind
    for condition, rows in {
        "d IN (1.5, 9)": 1,
        "NOT d IN (1.5)": 1,
        "d = 1.5": 1,
        "d < 2": 1,
        "d BETWEEN 1 AND 3": 2,
        "d IS NULL": 1,
    }.items():
        assert parquet_bloom.find(path, condition).to_arrow().num_rows == rows
    assert parquet_bloom.find(path, column="d", keys=[Decimal("2.5")]).to_arrow().num_rows == 1


def test_a_literal_is_written_as_a_value_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"s": ["a"], "t": pa.array([0], pa.timestamp("us", "UTC"))}), path)
    with pytest.raises(LiteralError, match=r"STRING; Decimal\('1.5'\) \(Decimal\) cannot be compared"):
        parquet_bloom.find(path, "s IN (1.5, 2)")
    with pytest.raises(LiteralError, match=r"STRING; Decimal\('1.5'\) \(Decimal\) cannot be compared"):
        parquet_bloom.prune(path, "s BETWEEN 1.5 AND 2")
    with pytest.raises(UnsupportedError, match="which instants of t 2024-01-01 means"):
        parquet_bloom.find(path, col("t") == date(2024, 1, 1))
