"""Conditions built in Python and from filter lists; and NOT, moved into the leaves, changes nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.tree import (
    MAX_DEPTH,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    col,
    from_filters,
    normalized,
)

X = ("x",)


def test_operators() -> None:
    x = col("x")
    assert (x == 1) == Comparison("=", X, 1)
    assert (x != 1) == Comparison("<>", X, 1)
    assert (x < 1) == Comparison("<", X, 1)
    assert (x > 1) == Comparison(">", X, 1)
    assert (x <= 1) == Comparison("<=", X, 1)
    assert (x > 1) == Comparison(">", X, 1)
    assert (x >= 1) == Comparison(">=", X, 1)
    assert x.eq_null_safe(None) == Comparison("<=>", X, None)
    assert x.isin(iter([1, 2])) == In(X, (1, 2))
    assert x.between(1, 2) == And((Comparison(">=", X, 1), Comparison("<=", X, 2)))
    assert x.is_null() == IsNull(X)
    assert ~x.is_not_null() == Not(IsNull(X, is_negated=True))
    assert (col("a.`b.c`") == 1) == Comparison("=", ("a", "b.c"), 1)
    assert ((x == 1) & (x == 2) | (x == 3)) == Or((And((x == 1, x == 2)), x == 3))


def test_the_truth_of_a_condition_is_not_asked() -> None:
    x = col("x")
    for wrong in (
        lambda: (x == 1) and (x == 2),
        lambda: (x == 1) or (x == 2),
        lambda: not (x == 1),  # noqa: SIM201 - it is the `not` that must fail
        lambda: 1 < x < 2,
        lambda: bool(x == 1),
    ):
        with pytest.raises(TypeError, match="parentheses"):
            wrong()


def test_only_conditions_combine() -> None:
    with pytest.raises(TypeError):
        (col("x") == 1) & True
    with pytest.raises(TypeError):
        (col("x") == 1) | "y"  # type: ignore[operator]


def test_conditions_are_values() -> None:
    assert {col("x") == 1, col("x") == 1} == {Comparison("=", X, 1)}
    with pytest.raises(TypeError):
        hash(col("x"))


@pytest.mark.parametrize("values", ["abc", b"abc", 5, None])
def test_in_wants_a_list(values: Any) -> None:
    with pytest.raises(PredicateError, match="list"):
        col("x").isin(values)
    with pytest.raises(PredicateError, match="list"):
        from_filters([("x", "in", values)])


def test_a_long_chain_of_operators() -> None:
    condition = col("x") == 0
    for n in range(1, 3000):
        condition = condition | (col("x") == n)
    assert len(to_predicate(condition).parts) == 3000


def test_a_deep_condition_is_refused() -> None:
    condition = col("x") == 0
    for n in range(MAX_DEPTH):
        condition = (condition & (col("x") == n)) if n % 2 else (condition | (col("x") == n))
    assert to_predicate(condition) is condition
    condition = ~condition
    with pytest.raises(PredicateError, match="nested"):
        to_predicate(condition)


FILTERS: list[tuple[Any, Predicate]] = [
    ([], Constant(True)),
    ([("x", "=", 1)], And((Comparison("=", X, 1),))),
    ([["x", "==", 1]], And((Comparison("=", X, 1),))),
    ([("x", "!=", 1), ("a.b", "<=", 2)], And((Comparison("<>", X, 1), Comparison("<=", ("a", "b"), 2)))),
    ([("x", "in", {1})], And((In(X, (1,)),))),
    # For pyarrow, NULL is not in any list.
    ([("x", "not in", [1])], And((Or((In(X, (1,), is_negated=True), IsNull(X))),))),
    ([[("x", ">", 1)], [("x", "<", 0), ("y", ">=", 2)]], None),  # type: ignore[list-item]
]
FILTERS[-1] = (
    FILTERS[-1][0],
    Or((And((Comparison(">", X, 1),)), And((Comparison("<", X, 0), Comparison(">=", ("y",), 2))))),
)


@pytest.mark.parametrize(("filters", "tree"), FILTERS, ids=lambda value: str(value) if isinstance(value, list) else "")
def test_filters(filters: Any, tree: Predicate) -> None:
    assert to_predicate(filters) == tree


@pytest.mark.parametrize(
    "filters",
    [
        *([1], ["x"], [("x", "=")], [("x", "~", 1)], [("x", "=", 1), [("y", "=", 2)]], [[[("x", "=", 1)]]], [[]]),
        *(("x", "=", 1), [("", "=", 1)], [(1, "=", 1)]),
    ],
)
def test_filters_of_another_form(filters: Any) -> None:
    with pytest.raises(PredicateError):
        to_predicate(filters)


@pytest.mark.parametrize("where", [5, None, {"x": 1}, lambda x: x])
def test_what_is_no_condition(where: Any) -> None:
    with pytest.raises(PredicateError, match="condition"):
        to_predicate(where)


# ---- three-valued logic ------------------------------------------------------------------

COLUMNS = ("a", "b")
TESTS = st.one_of(
    st.builds(
        lambda op, c, v, n: Comparison(op, (c,), v, n),
        st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "<=>")),
        st.sampled_from(COLUMNS),
        st.sampled_from((0, 1, None)),
        st.booleans(),
    ),
    st.builds(
        lambda c, vs, n: In((c,), tuple(vs), n),
        st.sampled_from(COLUMNS),
        st.lists(st.sampled_from((0, 1, None)), max_size=3),
        st.booleans(),
    ),
    st.builds(lambda c, n: IsNull((c,), n), st.sampled_from(COLUMNS), st.booleans()),
    st.builds(Constant, st.booleans()),
)
TREES = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: And(tuple(parts)), st.lists(inner, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)

OPS: dict[str, Any] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def truth(node: Predicate, row: dict[str, int | None]) -> bool | None:
    """SQL's three-valued logic, evaluated as the standard words it."""
    match node:
        case And(parts):
            found = [truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            return _not(truth(part, row))
        case Constant(is_true):
            return is_true
        case IsNull((name,), is_negated):
            return (row[name] is None) != is_negated
        case In((name,), values, is_negated):
            found = [truth(Comparison("=", (name,), value), row) for value in values]
            any_ = True if True in found else None if None in found else False
            return _not(any_) if is_negated else any_
        case Comparison("<=>", (name,), value, is_negated):
            return (row[name] == value) != is_negated
        case Comparison(op, (name,), value, is_negated):
            known = None if row[name] is None or value is None else OPS[op](row[name], value)
            return _not(known) if is_negated else known
    raise AssertionError(node)


def _not(known: bool | None) -> bool | None:
    return None if known is None else not known


@given(TREES)
def test_normalized_is_the_same_in_three_valued_logic(tree: Predicate) -> None:
    moved = normalized(tree)
    assert "Not(" not in repr(moved)
    for values in itertools.product((0, 1, 2, None), repeat=2):
        row = dict(zip(COLUMNS, values, strict=True))
        assert truth(moved, row) is truth(tree, row)
