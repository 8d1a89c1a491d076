"""What CREATE and DROP BLOOMFILTER INDEX say, however they are spelled, and what is no such statement."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parquet_bloom.errors import PredicateError
from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.verbs.sql import CreateIndex, DropIndex, parse

SHA = IndexedColumn("sha", 0.1, 50_000_000, 1.0)

CREATE = {
    "CREATE BLOOMFILTER INDEX ON TABLE lake FOR COLUMNS(sha OPTIONS (fpp=0.1, numItems=50000000))": ("lake", SHA),
    "CREATE BLOOMFILTER INDEX\nON TABLE lake\nFOR COLUMNS(c OPTIONS (fpp=0.1, numItems=5000))": (
        "lake",
        IndexedColumn("c", 0.1, 5000),
    ),
    "create bloomfilter index on lake for columns (sha)": ("lake", IndexedColumn("sha")),
    "CREATE BLOOMFILTER INDEX ON table FOR COLUMNS (a)": ("table", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON TABLE table FOR COLUMNS (a)": ("table", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON /a/day=1/b-c/./d FOR COLUMNS (a)": ("/a/day=1/b-c/./d", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON s3://bucket/a--b/ FOR COLUMNS (a);": ("s3://bucket/a--b/", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON TABLE delta.`/a b/lake` FOR COLUMNS (a)": ("/a b/lake", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON Parquet.`/a``b` FOR COLUMNS (a)": ("/a`b", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON '/it''s' FOR COLUMNS (a)": ("/it's", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON '/it\\'s' FOR COLUMNS (a)": ("/it's", IndexedColumn("a")),
    'CREATE BLOOMFILTER INDEX ON "/for columns" FOR COLUMNS (a)': ("/for columns", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON parquet.data FOR COLUMNS (a)": ("parquet.data", IndexedColumn("a")),
    "-- why\nCREATE /* so */ BLOOMFILTER INDEX ON lake FOR COLUMNS (a) -- done": ("lake", IndexedColumn("a")),
    "CREATE BLOOMFILTER INDEX ON l FOR COLUMNS (`a b`, user.id, `user`.`x.y`, options)": (
        "l",
        IndexedColumn("a b"),
        IndexedColumn("user.id"),
        IndexedColumn("user.`x.y`"),
        IndexedColumn("options"),
    ),
    "CREATE BLOOMFILTER INDEX ON l FOR COLUMNS (a OPTIONS ('fpp' = '0.5', `NUMITEMS` 7), b) "
    'OPTIONS (fpp 1, "maxExpectedFpp"=2e-1)': (
        "l",
        IndexedColumn("a", 0.5, 7, 0.2),
        IndexedColumn("b", 1.0, 1_000_000, 0.2),
    ),
}


@pytest.mark.parametrize("statement", CREATE)
def test_create(statement: str) -> None:
    path, *columns = CREATE[statement]
    assert parse(statement) == CreateIndex(path, tuple(columns))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DROP BLOOMFILTER INDEX ON TABLE lake", DropIndex("lake")),
        ("drop bloomfilter index on lake;", DropIndex("lake")),
        ("DROP BLOOMFILTER INDEX ON table", DropIndex("table")),
        ("DROP BLOOMFILTER INDEX ON table ;", DropIndex("table")),
        ("DROP BLOOMFILTER INDEX ON TABLE `/a;b` FOR COLUMNS (sha)", DropIndex("/a;b", ("sha",))),
        ("DROP BLOOMFILTER INDEX ON lake FOR COLUMNS(a, `b.c`)", DropIndex("lake", ("a", "`b.c`"))),
    ],
)
def test_drop(statement: str, expected: DropIndex) -> None:
    assert parse(statement) == expected


START = "CREATE BLOOMFILTER INDEX ON lake FOR COLUMNS "
WRONG = {
    "": (0, "expected CREATE or DROP, not its end"),
    "SELECT 1": (0, "expected CREATE or DROP, not 'SELECT 1'"),
    "CREATE INDEX i ON lake": (7, "expected BLOOMFILTER"),
    "CREATE BLOOMFILTER INDEX i ON lake FOR COLUMNS (a)": (25, "expected ON, not 'i ON lake"),
    "DROP BLOOMFILTER INDEX IF EXISTS ON lake": (23, "expected ON"),
    "DROP BLOOMFILTER INDEX ON": (25, "expected a path, not its end"),
    "DROP BLOOMFILTER INDEX ON ''": (28, "expected a path"),
    "DROP BLOOMFILTER INDEX ON 'lake": (26, "the quote ' is not closed"),
    "DROP BLOOMFILTER INDEX ON lake FOR (a)": (35, "expected COLUMNS"),
    "DROP BLOOMFILTER INDEX ON lake FOR COLUMNS (a OPTIONS (fpp=1))": (46, "expected ',' or ')'"),
    "DROP BLOOMFILTER INDEX ON lake OPTIONS (fpp=1)": (31, "expected the end of the statement"),
    "DROP BLOOMFILTER INDEX ON lake; DROP BLOOMFILTER INDEX ON lake": (32, "expected the end of the statement"),
    "CREATE BLOOMFILTER INDEX ON lake": (32, "expected FOR, not its end"),
    f"{START}": (45, "expected '(', not its end"),
    f"{START}()": (46, "expected a column"),
    f"{START}(a,)": (48, "expected a column"),
    f"{START}('a')": (46, "expected a column"),
    f"{START}(a, .)": (49, "'.' is not a column"),
    f"{START}(`a`b)": (49, "'`a`b' is not a column"),
    f"{START}(`a)": (46, "the quote ` is not closed"),
    f"{START}(a b)": (48, "expected ',' or ')'"),
    f"{START}(a": (47, "expected ',' or ')', not its end"),
    f"{START}(a, b, `a`)": (52, "there is more than one configuration for column a"),
    f"{START}(a OPTIONS ())": (57, "expected an option"),
    f"{START}(a OPTIONS (fpp))": (60, "expected the value of fpp"),
    f"{START}(a OPTIONS (fpp=))": (61, "expected the value of fpp"),
    f"{START}(a OPTIONS (fpp=0))": (61, "fpp must be a number above 0 and at most 1, not '0'"),
    f"{START}(a OPTIONS (fpp=1.01))": (61, "fpp must be a number above 0 and at most 1, not '1.01'"),
    f"{START}(a OPTIONS (fpp=nan))": (61, "fpp must be"),
    f"{START}(a OPTIONS (fpp='much'))": (61, "fpp must be"),
    f"{START}(a OPTIONS (numItems=0))": (66, "numItems must be a whole number of 1 or more, not '0'"),
    f"{START}(a OPTIONS (numItems=1.5))": (66, "numItems must be"),
    f"{START}(a) OPTIONS (maxExpectedFpp=-1)": (73, "maxExpectedFpp must be a number above 0 and at most 1"),
    f"{START}(a OPTIONS (ndv=5))": (57, "'ndv' is not an option; use fpp, numItems, maxExpectedFpp"),
    f"{START}(a OPTIONS (fpp=0.1, FPP=0.2))": (66, "the option is given twice"),
}


@pytest.mark.parametrize("statement", WRONG)
def test_what_is_no_statement(statement: str) -> None:
    position, message = WRONG[statement]
    with pytest.raises(PredicateError) as caught:
        parse(statement)
    assert message in str(caught.value)
    assert (caught.value.position, f"at character {position + 1}:" in str(caught.value)) == (position, True)


PIECES = ["CREATE", "DROP", "BLOOMFILTER", "INDEX", "ON", "TABLE", "FOR", "COLUMNS", "OPTIONS", "fpp", "0.1", "lake"]


@given(st.lists(st.sampled_from([*PIECES, "(", ")", ",", "=", ";", ".", "`", "'", '"', "\\", "--", "/*", " ", "\n"])))
@example(["CREATE ", "BLOOMFILTER ", "INDEX ", "ON ", "lake ", "FOR ", "COLUMNS ", "(", ".", ")"])
def test_any_text_is_parsed_or_refused(pieces: list[str]) -> None:
    for text in ("".join(pieces), " ".join(pieces), "CREATE BLOOMFILTER INDEX ON " + " ".join(pieces)):
        position = 0
        try:
            parse(text)
        except PredicateError as error:
            position = -1 if error.position is None else error.position
        assert 0 <= position <= len(text)
