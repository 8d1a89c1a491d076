"""A pyarrow `Expression` prunes no row that pyarrow finds with it, and what is not understood prunes nothing."""

from __future__ import annotations

import functools
import operator
import pickle
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verbs.prune.test_no_row_lost import by_us, cases, check, quick, rows_of
from verbs.prune.worlds import KINDS, World

import parquet_bloom
from parquet_bloom import prune
from parquet_bloom.errors import LiteralError, PredicateError
from parquet_bloom.predicates import expressions
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Not, Opaque, Or, Predicate

field = pc.field

OPS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def as_expression(node: Predicate, world: World, draw: Any) -> pc.Expression:
    """Returns what pyarrow's users would write for a tree; literals are Python's, or of the column's own type."""

    def literal(path: tuple[str, ...], value: Any) -> Any:
        kind = next(KINDS[column.kind].type for column in world.columns if column.path == path)
        return pa.scalar(value, kind) if draw(st.booleans()) else pa.scalar(value)

    match node:
        case Comparison(op, path, value, is_negated):
            made = (
                field(path).is_null() | (field(path) == literal(path, value))
                if op == "<=>"
                else OPS[op](field(path), literal(path, value))
                if draw(st.booleans())
                else OPS[op](pc.scalar(literal(path, value)), field(path))
            )
        case In(path, values, is_negated):
            listed = [*values, *draw(st.lists(st.none(), max_size=1))]
            made = field(path).isin(listed)
        case IsNull(path, is_negated):
            made = field(path).is_null(nan_is_null=draw(st.booleans()))
        case And(parts) | Or(parts):
            made = functools.reduce(
                operator.and_ if isinstance(node, And) else operator.or_,
                (as_expression(part, world, draw) for part in parts),
            )
            is_negated = False
        case Not(part):
            made, is_negated = as_expression(part, world, draw), True
        case _:
            raise AssertionError(node)
    return ~made if is_negated else made


@quick
@given(case=cases(shapes=("plain", "required", "struct")), data=st.data())
def test_no_row_is_lost_that_pyarrow_finds(
    tmp_path: Path, case: tuple[World, list[Predicate]], data: st.DataObject
) -> None:
    path = tmp_path / "f.parquet"
    world, wanted = case
    by_us(world, path)
    rows, held = ds.dataset(world.table()), rows_of(path)
    for condition in wanted:
        try:
            expression = as_expression(condition, world, data.draw)
            truth = set(rows.to_table(columns=["k"], filter=expression)["k"].to_pylist())
            pruning = prune(path, expression, timezone="UTC")
        except (pa.ArrowException, LiteralError, OverflowError, TypeError, ValueError):
            continue  # what pyarrow cannot compare, or what no file can
        check(pruning, held, truth)


def test_null_and_nan_are_as_pyarrow_has_them(tmp_path: Path) -> None:
    """Each pair of tests under NOT, on a row group for each value: `isin` is never unknown, comparisons are."""
    path = tmp_path / "f.parquet"
    table = pa.table({"k": range(5), "x": [1.0, 2.0, float("nan"), None, -1.0]})
    pq.write_table(table, path, row_group_size=1)
    x, held = field("x"), rows_of(path)
    tests = [
        *(x == 1, x != 1, x < 2, x >= 2, x == None, x.is_valid(), x.is_null()),  # noqa: E711
        *(x.is_null(nan_is_null=True), x.isin([1.0]), x.isin([1.0, None]), x.isin([None]), pc.is_nan(x)),
    ]
    pruned = 0
    for left in tests:
        for right in tests:
            for expression in (~(left & right), ~(~left | right)):
                truth = set(ds.dataset(table).to_table(filter=expression)["k"].to_pylist())
                pruning = prune(path, expression)
                check(pruning, held, truth)
                pruned += len(pruning.rows) - len(pruning.kept_row_groups)
    assert pruned > 300


SAYS = [
    (field("id") == 5, "id = 5"),
    (pc.scalar(5) < field("id"), "id > 5"),
    (field("id") != "x", "id <> 'x'"),
    ((field("a") == 1) & (field("b") >= 2) & (field("c") < 3), "a = 1 AND b >= 2 AND c < 3"),
    ((field("a") == 1) | ~(field("b") <= 2.5), "a = 1 OR NOT (b <= 2.5)"),
    (field("a").isin([1, 2]), "a IN (1, 2) AND a IS NOT NULL"),
    (field("a").isin([1, None]), "a IN (1) OR a IS NULL"),
    (field("a").is_null() | field("b").is_valid(), "a IS NULL OR b IS NOT NULL"),
    (field("user", "id") == b"x", "user.id = b'x'"),
    (field("user.id") == 1, "`user.id` = 1"),
    (field("a") == None, "a = NULL"),  # noqa: E711
    (field("day") == date(2024, 1, 1), "day = datetime.date(2024, 1, 1)"),
    (field("t") < datetime(2024, 1, 1), "t < datetime.datetime(2024, 1, 1, 0, 0)"),
    (pc.scalar(False) | (field("a") == 1), "FALSE OR a = 1"),
    (field("odd\n'\"\\ name") == 1, "odd\n'\"\\ name = 1"),
]


@pytest.mark.parametrize(("expression", "said"), SAYS)
def test_what_is_understood(expression: pc.Expression, said: str) -> None:
    assert str(to_predicate(expression)).replace("`", "") == said.replace("`", "")
    assert str(to_predicate(pickle.loads(pickle.dumps(expression)))).replace("`", "") == said.replace("`", "")


NOT_UNDERSTOOD = [
    field("id") == field("other"),
    field("id").cast("int8") == 5,
    field("id") + 1 == 5,
    pc.and_(field("id") == 5, field("id") == 6),
    field("id").is_null(nan_is_null=True),
    pc.is_in(field("id"), value_set=pa.array([5]), skip_nulls=True),
    field("flag"),
    field(0) == 5,
    pc.scalar(1) == 1,
]


@pytest.mark.parametrize("expression", NOT_UNDERSTOOD)
def test_what_is_not_understood_might_match(expression: pc.Expression) -> None:
    assert isinstance(to_predicate(expression), Opaque)
    assert isinstance(to_predicate(~expression), Not | Opaque)
    assert "= 5" in str(to_predicate(expression & (field("id") == 5)))


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]}), path, row_group_size=25)
    parquet_bloom.add(path, ["id", "name"])
    return path


def test_the_rest_of_a_condition_still_prunes(ids: Path) -> None:
    pruned = prune(ids, (field("id") == 30) & pc.starts_with(field("name"), "n"))
    assert pruned.row_groups_by_path == {str(ids): [1]}
    assert pruned.unused is None
    kept = prune(ids, (field("id") == 30) | pc.starts_with(field("name"), "n"))
    assert kept.row_groups_by_path == {str(ids): [0, 1, 2, 3]}
    assert kept.unused == (
        'nothing in the condition can be used to prune: starts_with(name, {pattern="n", ignore_case=false})'
    )


def test_a_pickle_that_reads_otherwise_might_match(ids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a later pyarrow to call its functions otherwise, or store them so, nothing would be pruned by that."""
    monkeypatch.setitem(expressions._COMPARISONS, "equal", ("<", operator.lt))
    assert isinstance(to_predicate(field("id") == 5), Opaque)
    monkeypatch.setattr(expressions, "_metadata", lambda schema: iter([("call", "equal"), ("word", "of a new kind")]))
    assert isinstance(to_predicate(field("id") == 5), Opaque)
    assert prune(ids, field("id") == 5).row_groups_by_path == {str(ids): [0, 1, 2, 3]}


def test_a_long_chain_is_flat_and_a_deep_condition_an_error(ids: Path) -> None:
    wanted = functools.reduce(operator.or_, [field("id") == i for i in range(50, 1050)])
    assert prune(ids, wanted).row_groups_by_path == {str(ids): [2, 3]}
    deep = field("id") == 1
    for _ in range(60):
        deep = ~(deep & (field("id") == 2)) | (field("id") == 3)
    with pytest.raises(PredicateError, match="nested more than"):
        prune(ids, deep)
