"""DataFusion reads what we retrofitted: all rows, the same answers, and the filters where it uses filters."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from interop.matrix.sql import DataFusion, Place, Question
from kinds import KINDS, ROW, check_use, footer_of, row_groups_left, users_of
from samples import EDGES, FILES, FIXTURES, RICH, plain_leaves, sample

from parquet_bloom.filters.engines import DATAFUSION
from parquet_bloom.values.encoding import why_unbuildable

pytestmark = pytest.mark.engines

# DataFusion fails on these whatever the filters.
UNREADABLE_COLUMNS = {
    "clickhouse/all_types.parquet": ["binary", "large_binary"],  # bytes that ClickHouse calls strings
    "clickhouse/plain_types.parquet": ["binary", "large_binary"],
    "duckdb/plain_types.parquet": ["int32", "uint32"],  # deltas wider than the type
}


@pytest.fixture(scope="module")
def context():
    return SessionContext(SessionConfig().with_target_partitions(1)).enable_url_table()


def table(context, sql, **values):
    frame = context.sql(sql, param_values=values)
    return pa.Table.from_batches(frame.collect(), frame.schema())


def rows(context, sql, **values):
    return [tuple(row.values()) for row in table(context, sql, **values).to_pylist()]


def quoted(path):
    first, *fields = path
    return '"{}"'.format(first.replace('"', '""')) + "".join(f"['{field}']" for field in fields)


def except_(columns):
    return f"EXCEPT ({', '.join(quoted([column]) for column in columns)})" if columns else ""


@pytest.mark.parametrize("file", FILES)
def test_all_rows_come_back(context, retrofitted, file):
    before, after = FIXTURES / file, retrofitted(file)
    unreadable = UNREADABLE_COLUMNS.get(file, [])
    for column in unreadable:
        with pytest.raises(Exception, match="Parquet error"):
            table(context, f"SELECT {quoted([column])} FROM '{after}'")
    sql = f"SELECT * {except_(unreadable)} FROM '{{}}'"
    assert as_bytes(table(context, sql.format(after))) == as_bytes(table(context, sql.format(before)))


def as_bytes(found):
    """Returns the table's values so that a NaN equals itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found.combine_chunks())
    return sink.getvalue().to_pybytes()


def fitting(kind):
    for text in EDGES:
        try:
            yield pa.scalar(text.encode()) if pa.types.is_binary(kind) else pa.scalar(text).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue


def sample_fitting(kind):
    found = list(fitting(kind))
    return [found[i] for i in sample(range(len(found)), 16)]


@pytest.mark.parametrize("file", RICH)
def test_equal_and_in_find_the_same_rows(context, without_filters, retrofitted, file):
    found = 0
    for leaf in plain_leaves(FIXTURES / file):
        if leaf.path[0] in UNREADABLE_COLUMNS.get(file, ()):
            continue
        column = quoted(leaf.path)
        values = table(context, f"SELECT DISTINCT {column} AS x FROM '{FIXTURES / file}' WHERE {column} IS NOT NULL")[
            "x"
        ]
        indices = sample(range(len(values)), 8)
        asked = [*(values[i] for i in indices), *sample_fitting(values.type)]
        conditions = [f"= $a{i}" for i in range(len(asked))]
        for some in (range(min(3, len(asked))), range(0, len(asked), 5), range(len(indices), len(asked))):
            conditions.append(f"IN ({', '.join(f'$a{i}' for i in some)})" if some else "IS NULL")
        before, after = (
            rows(
                context,
                " UNION ALL ".join(
                    f"SELECT {i} AS i, count(*) AS n FROM '{path}' WHERE {column} {condition}"
                    for i, condition in enumerate(conditions)
                ),
                **{f"a{i}": value for i, value in enumerate(asked)},
            )
            for path in (without_filters(file), retrofitted(file))
        )
        assert sorted(after) == sorted(before), leaf.name
        found += sum(count > 0 for i, count in before if i < len(indices))
    assert found > 0


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_uses_filters_of_the_kinds_that_our_table_says(kind_files, kind):
    files, engine = kind_files(kind), DataFusion()
    check_use(files, DATAFUSION, lambda file, leaf: engine.find(Question(file, leaf, (Place(files["plain"], ROW),))))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_reads_the_row_groups_that_our_filters_leave(kind_files, kind):
    files = kind_files(kind)
    if why_unbuildable(footer_of(files["plain"]).leaves[1]) or "v" not in users_of(files["plain"], DATAFUSION):
        pytest.skip("no filters")
    for source, least in ((files["plain"], 1), (files["other"], 0)):
        left = DataFusion().count(Question(files["ours"], "v", (Place(source, ROW),)))
        assert least <= left <= row_groups_left(files["ours"], source) < 4
