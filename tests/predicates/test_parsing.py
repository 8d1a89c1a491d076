"""SQL text becomes a tree of bare comparisons; whatever else it holds matches every row as far as anyone can prove."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import Dialect

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicates.parsing import _by_sqlglot, _plain, parse_sql
from parquet_bloom.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Number,
    Opaque,
    Or,
    Text,
    TimestampText,
)


def eq(value: Any, column: str = "x") -> Comparison:
    return Comparison("=", (column,), value)


TREES = {
    "x = 5": eq(5),
    "x == 5": eq(5),
    "5 = x": eq(5),
    "x = (5)": eq(5),
    "(x) = -5": eq(-5),
    "x = -(-5)": eq(5),
    "x = +5": eq(5),
    "x <=> 5": Comparison("<=>", ("x",), 5),
    "x IS NOT DISTINCT FROM 5": Comparison("<=>", ("x",), 5),
    "x != 5": Comparison("<>", ("x",), 5),
    "5 < x": Comparison(">", ("x",), 5),
    "5 >= x": Comparison("<=", ("x",), 5),
    "x = NULL": eq(None),
    "x = true": eq(True),
    "x = 'a'": eq(Text("a")),
    'x = "a"': eq(Text("a")),
    r"x = 'a\nb\\\'\u0041'": eq(Text("a\nb\\'A")),
    r"x = r'a\n'": eq(Text(r"a\n")),
    "x = X'00fF'": eq(b"\x00\xff"),
    "x = X'abc'": eq(b"\x0a\xbc"),
    "x = 1.50": eq(Number("1.50")),
    "x = .5": eq(Number("0.5")),
    "x = -1.5": eq(Number("-1.5")),
    "x = 1e3": eq(1000.0),
    "x = 5L": eq(5),
    "x = 5D": eq(5.0),
    "x = 1.5BD": eq(Decimal("1.5")),
    "x = CAST(5 AS DECIMAL(3,1))": eq(Decimal(5)),
    "x = -CAST('1234567890123456789012345678901234.5678' AS DECIMAL(38,4))": eq(
        Decimal("-1234567890123456789012345678901234.5678")
    ),
    "x = DATE '2024-01-02'": eq(date(2024, 1, 2)),
    "x = TIMESTAMP '2024-01-02 03:04:05'": eq(TimestampText("2024-01-02 03:04:05")),
    "x = TIMESTAMP_NTZ '2024-01-02 03:04:05'": eq(TimestampText("2024-01-02 03:04:05")),
    "x IN (1, 'a', NULL)": In(("x",), (1, Text("a"), None)),
    "x NOT IN (1)": Not(In(("x",), (1,))),
    "x BETWEEN 1 AND 2": And((Comparison(">=", ("x",), 1), Comparison("<=", ("x",), 2))),
    "x NOT BETWEEN 1 AND 2": Not(And((Comparison(">=", ("x",), 1), Comparison("<=", ("x",), 2)))),
    "x IS NULL": IsNull(("x",)),
    "x IS NOT NULL": Not(IsNull(("x",))),
    "NOT x = 1": Not(eq(1)),
    "!(x = 1)": Not(eq(1)),
    "a = 1 AND (b = 2 AND c = 3) AND d = 4": And((eq(1, "a"), eq(2, "b"), eq(3, "c"), eq(4, "d"))),
    "a = 1 OR b = 2 AND c = 3": Or((eq(1, "a"), And((eq(2, "b"), eq(3, "c"))))),
    "true": Constant(True),
    "user.id = 1": Comparison("=", ("user", "id"), 1),
    "`user.id`.`it``s` = 1": Comparison("=", ("user.id", "it`s"), 1),
    "a.b.c.d.e.f = 1": Comparison("=", ("a", "b", "c", "d", "e", "f"), 1),
    "tags.list.element = 'x'": Comparison("=", ("tags", "list", "element"), Text("x")),
    "date = '2024-01-01'": eq(Text("2024-01-01"), "date"),
    "timestamp > 5": Comparison(">", ("timestamp",), 5),
    "user = 'x' -- me": eq(Text("x"), "user"),
    "`select` = 1": eq(1, "select"),
    "Größe = 1": eq(1, "Größe"),
}


@pytest.mark.parametrize("text", TREES)
def test_trees(text: str) -> None:
    assert parse_sql(text) == TREES[text]


QUOTES = {
    "'it''s'": {"it's", "its"},
    "'a' 'b'": {"ab", "a'b"},
    "''''": {"'", ""},
    '"a""b"': {'a"b', "ab"},
    "'a''b' 'c'": {"abc", "a'bc", "a'b'c", "ab'c"},
    "'a' \"b\"": {"ab"},
}


@pytest.mark.parametrize("text", QUOTES)
def test_neighbouring_strings_have_every_reading_of_any_version_of_spark(text: str) -> None:
    literal = parse_sql(f"x = {text}").value
    assert QUOTES[text] <= {literal.text, *literal.others}


@pytest.mark.parametrize("op", ["=", "<=>", "<>", "<"])
def test_no_reading_is_lost_by_an_operator(op: str) -> None:
    literal = parse_sql(f"x {op} 'it''s'").value
    assert {"it's", "its"} <= {literal.text, *literal.others}


@pytest.mark.parametrize(
    "text",
    [
        *("upper(x) = 'a'", "x + 1 = 2", "x = y", "x = y + 1", "x LIKE 'a%'", "x", "x IS TRUE", "x[0] = 1", "x IN (y)"),
        *("x IN (SELECT 1)", "exists(SELECT 1)", "x::int = 5", "x = '5'::int", "(a, b) = (1, 2)", "x = ?", "x = :p"),
        *("x IS DISTINCT FROM 5", "a = 1 = true", "x = INTERVAL '1' DAY", "x = current_date", "x = 1_000", "x IN ()"),
        *(
            "x = CAST(1.5 AS INT)",
            "x = CAST(300 AS TINYINT)",
            "x = CAST(128 AS TINYINT)",
            "x = CAST('1.55' AS DECIMAL(9,1))",
            "x = 1.5F",
            "x = 1e",
        ),
        *(
            "CASE WHEN x = 1 THEN true END",
            "x = ANY(1)",
            "x || 'a' = 'b'",
            "x = '5' COLLATE UNICODE",
            "x = DATE '2024'",
        ),
        *("x = TIMESTAMP_NTZ '2024-01-01 00:00:00+05:00'", "x = concat('a', y)", "x = - 'a'", "x = -true"),
        *(
            "x = 'a' 'b' 'c' 'd' 'e'",
            "x = X'f0 '",
            "x = CAST(1 AS DECIMAL(*))",
            "x = CAST('1' AS DECIMAL(5e2))",
            f"x = CAST(1{'0' * 400} AS DOUBLE)",
            f"x = 1{'0' * 5000}",
            "*",
        ),
    ],
)
def test_the_rest_is_opaque(text: str) -> None:
    assert isinstance(parse_sql(text), Opaque)
    both = parse_sql(f"({text}) AND y = 1")
    assert isinstance(both, And)
    assert eq(1, "y") in both.parts


@pytest.mark.parametrize(
    ("text", "position"),
    [
        *(("", 0), ("a = 1; b = 2", 0), ("x = ", None), ("x = 1 y", None), ("(x = 1", None), ("x = 'a", None)),
        *(
            ("SELECT 1", None),
            ("x = 1 ORDER BY x", None),
            ("a = 1, b = 2", None),
            ("x = = 1", None),
            ("AND x = 1", None),
            ("1.\x005BD = x", None),
        ),
    ],
)
def test_errors(text: str, position: int | None) -> None:
    with pytest.raises(PredicateError) as raised:
        parse_sql(text)
    assert "<class" not in str(raised.value)
    if position is not None:
        assert raised.value.position == position


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM t WHERE id = 3", "give only what follows WHERE"),
        ("user id = 3", "at character 7: 'id' is not expected here; text goes in single quotes"),
        ("name = John Smith", "'Smith' is not expected here; text goes in single quotes, a name with spaces in back"),
        ("b = 'x", "a literal in it, a quote or a comment is not whole"),
        ("b = 1 /* x", "a literal in it, a quote or a comment is not whole"),
        (" ", "the condition is empty"),
        ("a = 1; b = 2", "'a = 1; b = 2' is not a single condition"),
    ],
)
def test_what_does_not_parse_is_told_in_plain_words(text: str, said: str) -> None:
    with pytest.raises(PredicateError) as raised:
        parse_sql(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "at"), [("a = 1 foo", 6), ("a = 1\nAND b = ) 2", 14), ("x == 5 and (y = 1", 16), ("a =\r\rb = ) 2", 10)]
)
def test_an_error_has_its_position(text: str, at: int) -> None:
    with pytest.raises(PredicateError) as raised:
        parse_sql(text)
    assert raised.value.position is not None
    assert abs(raised.value.position - at) <= 3
    assert f"character {raised.value.position + 1}" in str(raised.value)


@pytest.mark.parametrize("connector", ["AND", "OR"])
def test_long_chains_do_not_nest(connector: str) -> None:
    tree = parse_sql(f" {connector} ".join(f"x = {n}" for n in range(10_000)))
    assert isinstance(tree, And | Or)
    assert len(tree.parts) == 10_000
    assert tree.parts[9_999] == eq(9_999)


def test_a_long_list() -> None:
    tree = parse_sql(f"x IN ({', '.join(map(str, range(10_000)))})")
    assert tree == In(("x",), tuple(range(10_000)))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "x = 1" + ")" * 10_000,
        "NOT " * 10_000 + "x = 1",
        "x = 1" + " AND (y = 1 OR (x = 1" * 5_000 + "))" * 5_000,
        "x = " + "-" * 0 + "(-" * 10_000 + "1" + ")" * 10_000,
    ],
    ids=["parentheses", "NOT", "AND and OR", "minus"],
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(PredicateError, match="nested"):
        parse_sql(text)


def test_a_condition_of_some_depth() -> None:
    levels = 12
    text = "".join(f"x = {n} {'AND' if n % 2 else 'OR'} (" for n in range(levels)) + "x = 0" + ")" * levels
    tree, depth = parse_sql(text), 0
    while isinstance(tree, And | Or):
        tree, depth = tree.parts[1], depth + 1
    assert depth == levels


# ---- what is read without sqlglot -------------------------------------------------------------


def words_of_sql() -> set[str]:
    """Returns every word that sqlglot's tables of Spark's SQL know."""
    spark = Dialect.get_or_raise("spark")
    tables = [vars(kind)[name] for kind in spark.parser_class.__mro__ for name in vars(kind)]
    words = {word for table in tables if isinstance(table, dict) for word in table if isinstance(word, str)}
    return {word for word in words | {*spark.tokenizer_class.KEYWORDS} if re.fullmatch(r"\w+", word, re.ASCII)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rest", ["= 5", "<> 'x'", "<=> 5", "< -5"])
def test_no_word_of_sql_is_taken_for_a_column(rest: str) -> None:
    words = words_of_sql()
    assert len(words) > 900
    read = 0
    for word in words:
        if (plain := _plain(f"{word} {rest}")) is not None:
            assert plain == _by_sqlglot(f"{word} {rest}"), word
            read += 1
    assert read > 800


spaces = st.sampled_from(["", " ", "  ", "\t", "\n", "/**/"])
names = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.sampled_from(
        ["a.b", "`a`", "a-b", "1a", "é", "_", "__x", "x1", "e1", "r", "R", "x", "X", "b", "n", "u", "date"]
    ),
)
operators = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "!<", "= =", "<-", "LIKE", "IS"])
literals = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["-0", "00", "007", "- 5", "--5", "+5", "5L", "5.", "1e3", "0x1F", "NULL", "true", "''", "'a''b'"]),
    st.text(max_size=12).map(lambda text: f"'{text}'"),
    st.text("'\\\\%\"`;{}#$@&x\n\0", max_size=6).map(lambda text: f"'{text}'"),
)


comparisons = st.tuples(spaces, names, spaces, operators, spaces, literals, spaces).map("".join)
plain_comparisons = st.tuples(
    st.sampled_from(["id", "Day", " n_1"]),
    st.sampled_from([" = ", "<=", " <> "]),
    st.sampled_from(["5", "-7", "'a b'"]),
).map("".join)
joints = st.sampled_from([" AND ", " and ", "  And  ", " AND", "AND ", " OR ", " AND NOT ", ", ", " AND AND "])


@settings(max_examples=1500, deadline=None)
@given(
    st.one_of(
        comparisons,
        st.tuples(comparisons, joints, comparisons).map("".join),
        st.tuples(plain_comparisons, joints, plain_comparisons, joints, plain_comparisons).map("".join),
    )
)
def test_what_is_read_without_sqlglot_is_the_same(text: str) -> None:
    plain = _plain(text)
    if plain is not None:
        assert plain == _by_sqlglot(text)


@pytest.mark.parametrize("text", ["id = 5", " user_id='x y' ", "n <= -7", "name<=>'é'", "X1 != 0"])
def test_plains_need_no_sqlglot(text: str) -> None:
    assert _plain(text) == _by_sqlglot(text)
