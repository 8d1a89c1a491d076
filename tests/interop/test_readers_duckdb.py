"""DuckDB reads what we retrofitted: all rows, the same answers, and the filters where it uses filters."""

from __future__ import annotations

import duckdb
import pytest
from engines import duckdb_row_groups_scanned
from interop.matrix.sql import DuckDB, Place, Question
from kinds import KINDS, ROW, check_use, footer_of, row_groups_left, users_of
from samples import EDGES, FILES, FIXTURES, RICH, plain_leaves, retrofit, sample

from parquet_bloom import inspect
from parquet_bloom.filters.engines import DUCKDB, users
from parquet_bloom.values.encoding import why_unbuildable

pytestmark = pytest.mark.engines

# DuckDB fails on these whatever the filters.
UNREADABLE_COLUMNS = {
    "clickhouse/all_types.parquet": ["binary", "large_binary"],  # bytes that ClickHouse calls strings
    "clickhouse/plain_types.parquet": ["binary", "large_binary"],
    "pyarrow/encodings.parquet": ["fixed5"],
}
UNREADABLE_KINDS = {"BSON": "Unsupported converted type"}


@pytest.fixture(scope="module")
def db():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def rows(db, sql, *values):
    return db.execute(sql, values).fetchall()


def quoted(path):
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in path)


def type_of(db, file, column):
    found = rows(db, f"SELECT typeof({column}) FROM '{file}' WHERE {column} IS NOT NULL LIMIT 1")
    return found[0][0] if found else None


def except_(columns):
    return f"EXCLUDE ({', '.join(quoted([column]) for column in columns)})" if columns else ""


@pytest.mark.parametrize("file", FILES)
def test_all_rows_come_back(db, retrofitted, file):
    if file == "pyarrow/zero_columns.parquet":
        with pytest.raises(duckdb.Error, match="at least one non-root column"):
            rows(db, f"FROM '{FIXTURES / file}'")
        return
    before, after = FIXTURES / file, retrofitted(file)
    unreadable = UNREADABLE_COLUMNS.get(file, [])
    for column in unreadable:
        with pytest.raises(duckdb.Error):
            rows(db, f"SELECT {quoted([column])} FROM '{after}'")
    sql = f"SELECT COLUMNS(* {except_(unreadable)})::VARCHAR FROM '{{}}'"
    assert rows(db, sql.format(after)) == rows(db, sql.format(before))


@pytest.mark.parametrize("file", RICH)
def test_equal_and_in_find_the_same_rows(db, without_filters, retrofitted, file):
    found = 0
    for leaf in plain_leaves(FIXTURES / file):
        column = quoted(leaf.path)
        if leaf.path[0] in UNREADABLE_COLUMNS.get(file, ()):
            continue
        kind = type_of(db, FIXTURES / file, column)
        if kind is None:
            continue
        texts = [text for (text,) in rows(db, f"SELECT DISTINCT {column}::VARCHAR FROM '{FIXTURES / file}'")]
        present = sample([text for text in texts if text is not None], 10)
        fitting = rows(db, f"SELECT t FROM unnest($1) AS edges(t) WHERE TRY_CAST(t AS {kind}) IS NOT NULL", EDGES)
        asked = [*present, *sample([text for (text,) in fitting], 20)]
        literal = f"CAST(${{}} AS {kind})".format
        conditions = [f"= {literal(i + 1)}" for i in range(len(asked))]
        for some in (range(1, 4), range(1, len(asked), 5), range(len(present) + 1, len(asked) + 1)):
            conditions.append(f"IN ({', '.join(literal(i) for i in some)})" if some else "IS NULL")
        before, after = (
            rows(
                db,
                " UNION ALL ".join(
                    f"SELECT {i}, count(*) FROM '{path}' WHERE {column} {condition}"
                    for i, condition in enumerate(conditions)
                ),
                *asked,
            )
            for path in (without_filters(file), retrofitted(file))
        )
        assert sorted(after) == sorted(before), leaf.name
        assert all(count for i, count in before if i < len(present)), leaf.name
        found += len(present)
    assert found


@pytest.mark.parametrize("kind", KINDS)
def test_uses_filters_of_the_kinds_that_our_table_says(db, kind_files, kind):
    files = kind_files(kind)
    if kind in UNREADABLE_KINDS:
        with pytest.raises(duckdb.Error, match=UNREADABLE_KINDS[kind]):
            rows(db, f"FROM '{files['plain']}'")
        assert users_of(files["plain"], DUCKDB) == set()
        return
    engine = DuckDB()
    check_use(files, DUCKDB, lambda file, leaf: engine.find(Question(file, leaf, (Place(files["plain"], ROW),))))


@pytest.mark.parametrize("kind", KINDS)
def test_reads_the_row_groups_that_our_filters_leave(kind_files, kind):
    files = kind_files(kind)
    if why_unbuildable(footer_of(files["plain"]).leaves[1]) or "v" not in users_of(files["plain"], DUCKDB):
        pytest.skip("no filters")
    for source, least in ((files["plain"], 1), (files["other"], 0)):
        scanned = DuckDB().count(Question(files["ours"], "v", (Place(source, ROW),)))
        assert least <= scanned <= row_groups_left(files["ours"], source) < 4


NESTED = {  # condition -> the column whose filters answer it, if any do
    "l[1] = {}": "l.list.element",
    "l[2] IN ({}, 103)": "l.list.element",
    "l[-1] = {}": "l.list.element",
    "n[1][1] = {}": "n.list.element.list.element",
    "s[1].v = {}": "s.list.element.v",
    "m['k'] = {}": "m.key_value.value",
    "m['k'] IN ({}, 103)": "m.key_value.value",
    "list_contains(l, {})": None,
    "map_contains(k, {})": None,
    "map_keys(k)[1] = {}": None,
    "k[{}] >= 0": None,
}
NESTED_COLUMNS = """SELECT [x, (i * 7) % 500 * 2] AS l, [[x]] AS n, [{'v': x}] AS s, MAP {'k': x} AS m, MAP {x: i} AS k
    FROM (SELECT i, i % 500 * 2 AS x FROM range(20000) rows(i))"""


@pytest.mark.parametrize("filters", ["its own", "ours"])
def test_uses_filters_of_what_is_in_lists_and_of_the_values_of_maps(db, tmp_path, filters):
    file = tmp_path / "nested.parquet"
    size = 0 if filters == "ours" else 1000
    db.execute(f"COPY ({NESTED_COLUMNS}) TO '{file}' (ROW_GROUP_SIZE 4096, DICTIONARY_SIZE_LIMIT {size})")
    columns = {leaf.name: leaf for leaf in footer_of(file).leaves}
    if filters == "ours":
        assert duckdb_row_groups_scanned(f"SELECT l FROM '{file}' WHERE l[1] = 101") == 5
        file = retrofit(file, tmp_path / "ours.parquet")
    assert {row.column for row in inspect(file).rows} >= {column for column in NESTED.values() if column}
    for condition, column in NESTED.items():
        skipped = [duckdb_row_groups_scanned(f"SELECT l FROM '{file}' WHERE {condition.format(x)}") for x in (101, 102)]
        assert skipped == [0 if column else 5, 5], condition
        assert column is None or DUCKDB in users(columns[column], 64)
    assert DUCKDB not in users(columns["k.key_value.key"], 64)
