"""ClickHouse reads what we retrofitted: all rows, the same answers, and the filters where it uses filters."""

from __future__ import annotations

import re

import chdb
import pytest
from engines import clickhouse
from interop.matrix.sql import ClickHouse, Place, Question
from kinds import KINDS, ROW, check_use, footer_of, row_groups_left, users_of
from samples import EDGES, FILES, FIXTURES, RICH, plain_leaves, sample

from parquet_bloom.filters.engines import CLICKHOUSE
from parquet_bloom.values.encoding import why_unbuildable

pytestmark = pytest.mark.engines

# ClickHouse fails on these whatever the filters.
UNREADABLE_COLUMNS = {
    "duckdb/all_types.parquet": ["json"],  # not an object
    "duckdb/plain_types.parquet": ["json", "int32", "uint32"],
    "pyarrow/decimal_bytes.parquet": ["wide"],  # more bytes than its type
    "pyarrow/int96.parquet": ["ts_ns_local", "ts_us_utc", "ts_ns_utc"],  # the year 9999
    "pyarrow/names.parquet": ["a.b"],  # takes `a.b` and a.b for the same
    "pyarrow/names_filtered.parquet": ["a.b"],
    "spark/all_types.parquet": ["ts_us_local", "ts_us_utc"],  # INT96, the year 9999
    "spark/int96.parquet": ["ts_us_utc"],
    "spark/pages_v2.parquet": ["ts_us_local", "ts_us_utc"],
    "spark/plain_types.parquet": ["ts_us_local", "ts_us_utc"],
    "spark/without_length.parquet": ["ts_us_local", "ts_us_utc"],
}
# Deltas wider than the type: it reads something else each time.
# It takes `a.b` and a.b for the same, and the statistics, which are of bytes, for wrong.
UNASKABLE = {"pyarrow/names.parquet": "a", "pyarrow/decimal_bytes.parquet": "short"}
UNSTEADY_COLUMNS = ["int32", "uint32"]

SETTINGS = "SETTINGS max_threads = 1, use_parquet_metadata_cache = 0, session_timezone = 'UTC'"
ONLY_FILTERS = f"{SETTINGS}, input_format_parquet_dictionary_filter_push_down = 0"


def rows(sql, settings=SETTINGS):
    return clickhouse(f"{sql} {settings}")


def source(path):
    return f"file('{path}', Parquet)"


def quoted(path):
    return ".".join("`{}`".format(part.replace("\\", "\\\\").replace("`", "\\`")) for part in path)


def outcome(sql):
    """Returns the values as bytes, or what ClickHouse has against them."""
    try:
        return chdb.query(f"{sql} {SETTINGS}", "Native").bytes()
    except RuntimeError as error:
        return re.sub(r"\S*/\S*", "", str(error))


def except_(columns):
    return f"EXCEPT({', '.join(quoted([column]) for column in columns)})" if columns else ""


@pytest.mark.parametrize("file", FILES)
def test_all_rows_come_back(retrofitted, file):
    before, after = source(FIXTURES / file), source(retrofitted(file))
    unreadable = UNREADABLE_COLUMNS.get(file, [])
    for column in unreadable:
        assert isinstance(outcome(f"SELECT {quoted([column])} FROM {after}"), str) or column in UNSTEADY_COLUMNS
    columns = {leaf.path[0] for leaf in footer_of(FIXTURES / file).leaves}
    if columns > set(unreadable):
        values = outcome(f"SELECT * {except_(unreadable)} FROM {before}")
        assert isinstance(values, bytes), values
        assert outcome(f"SELECT * {except_(unreadable)} FROM {after}") == values
    assert outcome(f"SELECT count() FROM {after}") == outcome(f"SELECT count() FROM {before}")


def as_arguments(hexadecimal, kind):
    quoted_kind = kind.replace("\\", "\\\\").replace("'", "\\'")
    return f"unhex({hexadecimal}), '{quoted_kind}'"


def literal(hexadecimal, kind):
    return f"""CAST({as_arguments(f"'{hexadecimal}'", kind)})"""


def literals(file, columns):
    """Returns for each column literals of values that it holds, and of others that its type takes."""
    chosen = ", ".join(f"groupUniqArray(hex(toString({c}))), any(toTypeName({c}))" for c in columns)
    (found,) = rows(f"SELECT {chosen} FROM {source(FIXTURES / file)}")
    kinds = found[1::2]
    edges = ", ".join(f"'{text.encode().hex()}'" for text in EDGES)
    casts = ", ".join(
        f"arrayFilter(e -> accurateCastOrNull({as_arguments('e', kind)}) IS NOT NULL, [{edges}])" for kind in kinds
    )
    (fitting,) = rows(f"SELECT {casts}")
    for column, texts, kind, others in zip(columns, found[::2], kinds, fitting, strict=True):
        yield column, [literal(t, kind) for t in sample(texts, 4)], [literal(t, kind) for t in sample(others, 7)]


@pytest.mark.parametrize("file", RICH)
def test_equal_and_in_find_the_same_rows(without_filters, retrofitted, file):
    leaves = [leaf.path for leaf in plain_leaves(FIXTURES / file)]
    columns = [
        quoted(path) for path in leaves if path[0] not in (*UNREADABLE_COLUMNS.get(file, ()), UNASKABLE.get(file))
    ]
    conditions, present = [], set()
    for column, there, others in literals(file, columns):
        present |= set(range(len(conditions), len(conditions) + len(there)))
        conditions += [f"{column} = {value}" for value in (*there, *others)]
        conditions += [f"{column} IN ({', '.join(some)})" for some in ((*there[:1], *others[::2]), others) if some]
    every, ours = source(without_filters(file)), source(retrofitted(file))
    (counts,) = rows(f"SELECT {', '.join(f'countIf({condition})' for condition in conditions)} FROM {every}")
    assert sum(int(counts[i]) > 0 for i in present) > 0.9 * len(present)  # a NaN equals nothing
    for start in range(0, len(conditions), 100):
        asked = range(start, min(start + 100, len(conditions)))
        branches = [f"SELECT {i} AS i, count() AS n FROM {ours} WHERE {conditions[i]}" for i in asked]
        for i, count in rows(" UNION ALL ".join(branches), ONLY_FILTERS):
            assert int(count) == int(counts[int(i)]), conditions[int(i)]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_uses_filters_of_the_kinds_that_our_table_says(kind_files, kind):
    files, engine = kind_files(kind), ClickHouse()
    check_use(files, CLICKHOUSE, lambda file, leaf: engine.find(Question(file, leaf, (Place(files["plain"], ROW),))))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_reads_the_row_groups_that_our_filters_leave(kind_files, kind):
    files = kind_files(kind)
    if why_unbuildable(footer_of(files["plain"]).leaves[1]) or "v" not in users_of(files["plain"], CLICKHOUSE):
        pytest.skip("no filters")
    for origin, least in ((files["plain"], 1), (files["other"], 0)):
        read = ClickHouse().count(Question(files["ours"], "v", (Place(origin, ROW),)))
        assert least <= read <= row_groups_left(files["ours"], origin) < 4
