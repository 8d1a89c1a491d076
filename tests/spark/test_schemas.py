"""Columns go by what Spark reads of them: its partition columns, its types, its collations, its field ids."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from engines import needs_java, understood
from spark.test_reading import num_files, same, settings, write

import parquet_bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.spark import lookup, prune, read, semi_join

pytestmark = [needs_java, pytest.mark.spark]


@pytest.fixture
def session() -> Iterator[Any]:
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


def rows(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def failures() -> tuple[type[Exception], ...]:
    """Returns what PySpark raises when a job fails."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def answers(frame: Any, asked: Sequence[str]) -> dict[str, set[str]]:
    """Returns the files with rows that match, by condition, in one job; without what Spark does not answer."""
    try:
        found = frame.selectExpr("_metadata.file_path", *asked).collect()
    except failures():
        if len(asked) == 1:
            return {}
        middle = len(asked) // 2
        return {**answers(frame, asked[:middle]), **answers(frame, asked[middle:])}
    return {text: {path_of(row[0]) for row in found if row[n]} for n, text in enumerate(asked, 1)}


def path_of(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def nothing_is_lost(session: Any, paths: Any, asked: Sequence[str], *, local: bool = True, **options: Any) -> list[int]:
    """Asserts that files with matching rows are read, and kept by `prune` here; returns how many each reads."""
    found = answers(session.read.options(**options).parquet(str(paths)), asked)
    num_read = []
    for text, files in found.items():
        ours = {path_of(name) for name in read(session, str(paths), text, options=options).inputFiles()}
        assert files <= ours, text
        kept_here = files_kept(paths, text) if local else None
        assert kept_here is None or files <= kept_here, text
        num_read.append(len(ours))
    return num_read


def files_kept(paths: Any, where: str) -> set[str] | None:
    """Returns the files that `prune` keeps here; None where no file makes sense of the condition."""
    try:
        return {file.path for file in parquet_bloom.prune(str(paths), where, timezone="UTC").kept_files}
    except (LiteralError, ColumnNotFoundError):
        return None


def kept(session: Any, paths: Any, where: str) -> set[str]:
    """Returns the files that `prune` keeps on Spark, which are no fewer than those that it keeps here."""
    found = prune(session, str(paths), where)
    files = {
        row.path
        for row in found.collect()
        if row.not_pruned or any(group.answer == "MIGHT_MATCH" for group in row.row_groups)
    }
    found.unpersist()
    assert (files_kept(paths, where) or set()) <= files
    return files


def same_join(session: Any, paths: Any, column: str, keys: Sequence[Any], kind: str, **options: Any) -> Any:
    """Asserts that Spark's own join gives the same rows."""
    wanted = session.createDataFrame([(key,) for key in keys], f"{column} {kind}")
    frame = semi_join(session, str(paths), column, wanted, options=options)
    truth = session.read.options(**options).parquet(str(paths)).join(wanted, column, "left_semi")
    assert rows(frame) == rows(truth)
    return frame


# ---- partitions --------------------------------------------------------------------------


def test_folders_above_the_root_are_no_partitions(tmp_path: Path, session: Any) -> None:
    root = tmp_path / "tenant=7" / "t"
    write(root / "1.parquet", id=["a"], tenant=[5])
    write(root / "2.parquet", id=["b"])
    asked = ["tenant = 5", "tenant IS NULL", "tenant = 7", "tenant IS NOT NULL", "NOT tenant <=> 7"]
    nothing_is_lost(session, root, asked, local=False)
    nothing_is_lost(session, root / "*.parquet", asked, local=False)
    same(session, root, "tenant IS NULL")
    for where, file in {"tenant IS NULL": "2.parquet", "tenant = 5": "1.parquet"}.items():
        assert str(root / file) in kept(session, root, where)
    assert nothing_is_lost(session, root, ["tenant = 9 AND id = 'a'"]) == [0]
    same_join(session, root, "tenant", [5, 6], "bigint")
    write(root / "day=1" / "3.parquet", id=["c"])
    for path in root.glob("*.parquet"):
        path.unlink()
    write(root / "day=2" / "4.parquet", id=["d"], tenant=[5])
    asked = ["day = 2", "tenant IS NULL", "tenant = 5", "day = 1 AND tenant IS NULL", "tenant = 7"]
    assert nothing_is_lost(session, root, asked, local=False, mergeSchema="true") == [1, 1, 2, 1, 1]
    same(session, root, "day = 2")


def test_folders_under_a_recursive_lookup_are_no_partitions(tmp_path: Path, session: Any) -> None:
    write(tmp_path / "t" / "id=1" / "f.parquet", id=[5], n=[1])
    write(tmp_path / "t" / "id=2" / "f.parquet", n=[2])
    for option in ("recursiveFileLookup", "recursivefilelookup"):
        asked = ["id IS NULL", "id = 5", "id = 1", "id = 2", "id <=> NULL"]
        nothing_is_lost(session, tmp_path / "t", asked, local=False, **{option: "true"})
        same(session, tmp_path / "t", "id IS NULL", **{option: "true"})
    same_join(session, tmp_path / "t", "id", [5, 2], "bigint", recursiveFileLookup="true")


@pytest.mark.parametrize(
    ("named", "base"),
    [
        ("t", None),
        ("t/a=1", None),
        ("t/a=1", "t"),
        ("t/*", None),
        ("t/*/b=*", "t"),
        ("t/*/b=*", None),
        ("t/{a=1,a=2}", "t"),
        ("t/a=1/b=1/f.parquet", None),
        ("t/a=1/b=1/f.parquet", "t/a=1"),
    ],
)
@pytest.mark.parametrize("is_in_files", [False, True])
def test_partitions_are_those_of_spark(
    tmp_path: Path, session: Any, named: str, base: str | None, is_in_files: bool
) -> None:
    for a in (1, 2):
        for b in (1, 2):
            columns = {"n": [10 * a + b]} | ({"a": [7 + b], "b": [None if a == 1 else 9]} if is_in_files else {})
            columns = {name: pa.array(values, pa.int32()) for name, values in columns.items()}
            write(tmp_path / "up=1" / "t" / f"a={a}" / f"b={b}" / "f.parquet", **columns)
    options = {} if base is None else {"BASEPATH": str(tmp_path / "up=1" / base)}
    path = str(tmp_path / "up=1" / named)
    try:
        frame = session.read.options(**options).parquet(path)
    except failures():  # it takes the folders for roots of several tables
        with pytest.raises(failures()):
            read(session, path, "n = 11", options=options)
        return
    asked = ["a = 1", "b = 2", "a = 8", "b IS NULL", "a IS NULL", "b = 9", "a = 2 AND b = 1", "NOT a <=> 1", "n > 0"]
    asked = understood(frame, asked)
    nothing_is_lost(session, path, asked, local=False, **options)
    same(session, path, "n > 0", **options)


def test_folders_that_stop_being_partitions(tmp_path: Path, session: Any) -> None:
    for number in (1, 2):
        write(tmp_path / "t" / "x=1" / "between" / f"y={number}" / "f.parquet", n=[number], x=[number + 4])
    nothing_is_lost(session, tmp_path / "t", ["x = 1", "x = 5", "y = 1", "x = 6 AND y = 2"])
    same(session, tmp_path / "t", "y = 2")


def test_options_in_another_case(tmp_path: Path, session: Any) -> None:
    for day in (1, 2):
        write(tmp_path / "t" / f"day={day}" / "f.parquet", id=[f"id{day}"])
    for name in ("basePath", "basepath", "BASEPATH"):
        frame = same(session, tmp_path / "t" / "day=1", "id = 'id1'", **{name: str(tmp_path / "t")})
        assert [row.day for row in frame.collect()] == [1]
        same(session, tmp_path / "t" / "day=*", "day = 2", **{name: str(tmp_path / "t")})


def test_percent_signs_are_bytes_in_latin_1(tmp_path: Path, session: Any) -> None:
    for name in ("p=%C3%A9", "p=é", "p=%E9", "p=a"):
        write(tmp_path / "t" / name / "f.parquet", n=[len(name)])
    texts = ("é", "Ã©", "%C3%A9", "a", "b")
    nothing_is_lost(session, tmp_path / "t", [f"p {op} '{text}'" for text in texts for op in ("=", "<>")])
    same(session, tmp_path / "t", "p = 'Ã©'")
    for value in ("x", "y"):
        write(tmp_path / "u" / f"%C3%A9={value}" / "f.parquet", n=[1])
    assert nothing_is_lost(session, tmp_path / "u", [f"`Ã©` = '{text}'" for text in "xyz"]) == [1, 1, 0]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_signs_in_a_path_mean_nothing(tmp_path: Path, session: Any, scheme: str) -> None:
    for name in ("a", "a#b", "a%20b", "a b", "a#b=c"):
        write(tmp_path / name / "f.parquet", id=[name])
    for name in ("a#b", "a%20b", "a b", "a#b=c"):
        frame = same(session, f"{scheme}{tmp_path}/{name}", "id >= 'a'")
        assert [row.id for row in frame.collect()] == [name]
    found = prune(session, f"{scheme}{tmp_path}/a#b", "id = 'x'")
    assert [row.path for row in found.collect()] == [f"{tmp_path}/a#b/f.parquet"]
    found.unpersist()


def test_a_question_mark_is_a_glob(tmp_path: Path, session: Any) -> None:
    for name in ("a?b", "axb", "a#b", "a[x]", "ax"):
        write(tmp_path / name / "f.parquet", id=[name])
    for named in ("a?b", "a[x]", "a\\?b"):
        for scheme in ("", "file:"):
            same(session, f"{scheme}{tmp_path}/{named}", "id >= 'a'")


# ---- types -------------------------------------------------------------------------------


def integers(*values: int, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


INTEGERS = {
    "int8": integers(-128, -1, 44, kind=pa.int8()),
    "int16": integers(-32768, -1, 300, kind=pa.int16()),
    "int32": integers(-(2**31), -1, 300, 65580, kind=pa.int32()),
    "int64": integers(-(2**63), -1, 2**32 + 44, kind=pa.int64()),
    "uint8": integers(255, 128, 44, kind=pa.uint8()),
    "uint16": integers(65535, 300, kind=pa.uint16()),
    "uint32": integers(2**32 - 1, 300, kind=pa.uint32()),
    "uint64": integers(2**64 - 1, 2**63, 44, kind=pa.uint64()),
}


def lake_of_two(root: Path, reads: pa.Array, held: pa.Array) -> None:
    """Writes a file whose type is the one that Spark reads all with, and one for each other value."""
    write(root / "0.parquet", c0=reads)
    for number in range(len(held)):
        write(root / f"{number + 1}.parquet", c0=held.slice(number, 1))


@pytest.mark.parametrize("held", INTEGERS)
def test_integers_of_another_width_or_sign(tmp_path: Path, session: Any, held: str) -> None:
    for reads, values in INTEGERS.items():
        lake_of_two(tmp_path / reads, values.slice(0, 1), INTEGERS[held])
        asked_before: set[Any] = set()
        for vectorized in ("true", "false"):
            with settings(spark__sql__parquet__enableVectorizedReader=vectorized):
                try:
                    read_as = {row.c0 for row in session.read.parquet(str(tmp_path / reads)).collect()}
                except failures():
                    continue
                # What is kept does not depend on the reader, so only values that the other one did not read are new.
                asked = ["c0 IS NULL" if value is None else f"c0 = {value}" for value in read_as - asked_before]
                asked_before |= read_as
                if asked:
                    nothing_is_lost(session, tmp_path / reads, asked, local=vectorized == "true")


def test_joins_read_integers_as_the_schema_does(tmp_path: Path, session: Any) -> None:
    lake_of_two(tmp_path / "t", pa.array([7], pa.int8()), pa.array([300, 9, 44], pa.int32()))
    assert num_files(same_join(session, tmp_path / "t", "c0", [44], "bigint")) == 3
    assert len(kept(session, tmp_path / "t", "c0 = 44")) == 4
    lake_of_two(tmp_path / "u", pa.array([7], pa.int64()), pa.array([300, 9, 44], pa.int32()))
    assert num_files(same_join(session, tmp_path / "u", "c0", [44], "bigint")) == 1


def test_integers_that_the_schema_contains_are_pruned(tmp_path: Path, session: Any) -> None:
    write(tmp_path / "t" / "0.parquet", k=pa.array([0], pa.int64()))
    for number, kind in enumerate((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32()), 1):
        write(tmp_path / "t" / f"{number}.parquet", k=pa.array([number], kind))
    assert nothing_is_lost(session, tmp_path / "t", [f"k = {number}" for number in range(6)]) == [1] * 6


def test_dates_under_options_that_shift_them(tmp_path: Path, session: Any) -> None:
    with settings(spark__sql__parquet__datetimeRebaseModeInWrite="LEGACY"):
        alone(session.sql("SELECT DATE '1500-01-01' d, 1 n"), tmp_path / "t" / "0.parquet")
    write(
        tmp_path / "t" / "1.parquet", d=pa.array([-171_664], pa.int32()).cast(pa.date32()), n=pa.array([2], pa.int32())
    )
    for day in ("1500-01-01", "1499-12-23", "1500-01-10"):
        same(session, tmp_path / "t", f"d = DATE '{day}'", DATETIMEREBASEMODE="LEGACY")
        same(session, tmp_path / "t", f"d = DATE '{day}'")


TYPES: dict[str, pa.Array] = {
    **INTEGERS,
    "int32 of the others' values": pa.array([0, 1, 44, 255, 300, -1], pa.int32()),
    "int64 of the others' values": pa.array([0, 1, 44, 255, 2**53, 2**53 + 1], pa.int64()),
    "float": pa.array([0.0, 1.5, 44, 2.0**24, float("nan")], pa.float32()),
    "double": pa.array([0.0, 1.5, 44, 2.0**53, 0.1], pa.float64()),
    "decimal(9,2)": pa.array([Decimal("1.50"), Decimal("44.00"), Decimal("-0.01")], pa.decimal128(9, 2)),
    "decimal(18,2)": pa.array([Decimal("1.50"), Decimal("9007199254740993.00")], pa.decimal128(18, 2)),
    "decimal(18,4)": pa.array([Decimal("1.5000"), Decimal("44.0001")], pa.decimal128(18, 4)),
    "decimal(20,0)": pa.array([Decimal(2**64 - 1), Decimal(44)], pa.decimal128(20, 0)),
    "decimal(38,2)": pa.array([Decimal("1.50"), Decimal("9007199254740993.00")], pa.decimal128(38, 2)),
    "string": pa.array(["a", "A", "44", "1.50", "2024-01-01"]),
    "binary": pa.array([b"a", b"A", b"44", b"\xff"]),
    "fixed": pa.array([b"abcd", b"44  "], pa.binary(4)),
    "bool": pa.array([True, False]),
    "date": pa.array([0, 44, 19723], pa.int32()).cast(pa.date32()),
    "instant": pa.array([0, 44, 1_704_067_200_000_000], pa.timestamp("us", "UTC")),
    "instant ms": pa.array([0, 44, 1_704_067_200_000], pa.timestamp("ms", "UTC")),
    "clock": pa.array([0, 44, 1_704_067_200_000_000], pa.timestamp("us")),
}
LITERALS = [
    *("0", "1", "-1", "44", "127", "128", "255", "300", "65535", "4294967295", "9007199254740993", "1.5", "1.50"),
    *("44.0", "9007199254740993.0", "0.1", "1.5e0", "9007199254740992e0", "'44'", "'a'", "'A'", "X'61'", "true"),
    *("'1.50'", "'9007199254740993'", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", "'2024-01-01'", "NULL"),
    *("TIMESTAMP_NTZ '2024-01-01 00:00:00'", "CAST(44 AS TINYINT)", "DATE '1970-02-14'", "9223372036854775807"),
]
"""None beyond BIGINT: with those Spark 4.3 answers rows that are NULL, too."""


def condition(rng: random.Random) -> str:
    shape = rng.choice(["{} {}", "{} {}", "{} {}", "in", "between", "null", "not"])
    op = rng.choice(["=", "=", "<=>", "<>", "<", "<=", ">", ">="])
    if shape == "in":
        return f"c0 {rng.choice(['', 'NOT '])}IN ({', '.join(rng.sample(LITERALS, rng.randint(1, 3)))})"
    if shape == "between":
        return "c0 BETWEEN {} AND {}".format(*rng.sample(LITERALS, 2))
    if shape == "null":
        return rng.choice(["c0 IS NULL", "c0 IS NOT NULL", "NOT (c0 <=> NULL)"])
    return f"NOT (c0 {op} {rng.choice(LITERALS)})" if shape == "not" else f"c0 {op} {rng.choice(LITERALS)}"


def test_random_types_read_by_random_schemas(tmp_path: Path, session: Any) -> None:
    """Pairs a type that files hold with one that Spark reads them as, and random conditions.

    PARQUET_BLOOM_EXAMPLES is the number of pairs, PARQUET_BLOOM_SEED where they begin.
    """
    seed = int(os.environ.get("PARQUET_BLOOM_SEED", "0"))
    excluded = 0
    for number in range(seed, seed + int(os.environ.get("PARQUET_BLOOM_EXAMPLES", "5"))):
        rng = random.Random(number)
        held, reads = (rng.choice(list(TYPES)) for _ in "ab")
        root = tmp_path / str(number)
        lake_of_two(root, TYPES[reads].take([rng.randrange(len(TYPES[reads]))]), TYPES[held])
        write(root / "9.parquet", c0=pa.nulls(1, TYPES[held].type))
        changes = {
            "spark__sql__parquet__enableVectorizedReader": rng.choice(["true", "true", "false"]),
            "spark__sql__ansi__enabled": rng.choice(["true", "true", "false"]),
        }
        with settings(**changes):
            frame = session.read.parquet(str(root))
            asked = understood(frame, list(dict.fromkeys(condition(rng) for _ in range(18))))
            try:
                excluded += sum(num_read < 3 for num_read in nothing_is_lost(session, root, asked))
            except AssertionError as error:
                raise AssertionError(f"{number}: {held} read as {reads}, {changes}") from error
    assert excluded


# ---- texts -------------------------------------------------------------------------------


def collated(session: Any, path: Path, text: str = "abc") -> None:
    """Writes a file in which Spark notes that `k` has a collation."""
    frame = session.sql(f"SELECT '{text}' COLLATE UTF8_LCASE AS k, '{text}' AS t")
    alone(frame, path)


def alone(frame: Any, path: Path) -> None:
    """Writes a frame as one file."""
    folder = path.parent / f"{path.name}.written"
    frame.coalesce(1).write.parquet(str(folder))
    (file,) = folder.glob("part-*.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    file.rename(path)
    for rest in folder.iterdir():
        rest.unlink()
    folder.rmdir()


def test_a_collation_of_the_schema_holds_for_files_that_do_not_mark_it(tmp_path: Path, session: Any) -> None:
    collated(session, tmp_path / "t" / "0.parquet", "first")
    for number, text in enumerate(("ABC", "abd", "first"), 1):
        write(tmp_path / "t" / f"{number}.parquet", k=[text], t=[text])
    asked = ["k = 'abc'", "k IN ('abc', 'x')", "k <=> 'FIRST'", "k < 'abc'", "k <> 'abc'"]
    assert nothing_is_lost(session, tmp_path / "t", asked) == [4] * 5
    assert len(kept(session, tmp_path / "t", "k = 'abc'")) == 4
    assert nothing_is_lost(session, tmp_path / "t", ["t = 'abd'"]) == [1]  # which has none
    same_join(session, tmp_path / "t", "k", ["abc"], "string collate UTF8_LCASE")


def test_texts_beside_a_collated_one_are_pruned(tmp_path: Path, session: Any) -> None:
    for number, text in enumerate(("abc", "abd", "ABC")):
        collated(session, tmp_path / "t" / f"{number}.parquet", text)
    assert nothing_is_lost(session, tmp_path / "t", ["k = 'abc'", "t = 'ABC'"]) == [3, 1]
    nested = (
        "named_struct('k', 'abc' COLLATE UTF8_LCASE, 't', 'x') AS s, array('abc' COLLATE UTF8_LCASE) AS a, 'x' AS t"
    )
    alone(session.sql(f"SELECT {nested}"), tmp_path / "n" / "0.parquet")
    asked = ["s.k = 'ABC'", "s.t = 'x'", "s.t = 'y'", "t = 'x'", "t = 'y'"]
    assert nothing_is_lost(session, tmp_path / "n", asked) == [1, 1, 1, 1, 0]


def test_texts_of_char_are_compared_padded(tmp_path: Path, session: Any) -> None:
    session.sql("CREATE TABLE of_char (k CHAR(5), v VARCHAR(5)) USING parquet LOCATION '%s'" % (tmp_path / "source"))
    try:
        session.sql("INSERT INTO of_char VALUES ('ab', 'ab')")
        alone(session.table("of_char"), tmp_path / "t" / "0.parquet")
        parquet_bloom.add(tmp_path / "t", ["k", "v"])
        write(tmp_path / "t" / "1.parquet", k=["ab"], v=["ab"])
        write(tmp_path / "t" / "2.parquet", k=["cd   "], v=["cd"])
        asked = ["k = 'ab'", "k = 'ab   '", "k = 'cd'", "k IN ('cd', 'x')", "'ab' = k", "k < 'ab '"]
        whole = session.read.parquet(str(tmp_path / "t"))
        for where in asked:  # Spark pads in a filter, and not in what is selected
            assert whole.where(where).count() == same(session, tmp_path / "t", where).count()
            assert parquet_bloom.prune(tmp_path / "t", where).might_match
        assert nothing_is_lost(session, tmp_path / "t", ["v = 'cd'"]) == [1]
    finally:
        session.sql("DROP TABLE of_char")


# ---- field ids ---------------------------------------------------------------------------


def with_ids(session: Any, path: Path, columns: dict[str, tuple[int | None, int]]) -> None:
    """Writes a row; each column has an id, which Spark notes in the schema that it leaves, too."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [
        StructField(name, LongType(), True, {} if number is None else {"parquet.field.id": number})
        for name, (number, _) in columns.items()
    ]
    with settings(spark__sql__parquet__fieldId__write__enabled="true"):
        rows = [tuple(value for _, value in columns.values())]
        alone(session.createDataFrame(rows, StructType(fields)), path)
    parquet_bloom.add(path, list(columns))


def test_columns_go_by_their_ids_where_the_session_reads_so(tmp_path: Path, session: Any) -> None:
    root = tmp_path / "t"
    with_ids(session, root / "0.parquet", {"a": (1, 10), "b": (2, 20), "c": (None, 30)})
    with_ids(session, root / "1.parquet", {"b": (1, 11), "a": (2, 21), "c": (None, 31)})
    with_ids(session, root / "2.parquet", {"x": (1, 12), "a": (9, 22), "c": (7, 32)})
    for enabled in ("true", "false"):
        with settings(spark__sql__parquet__fieldId__read__enabled=enabled):
            values = ("a = 10", "a = 11", "a = 12", "a = 22", "b = 21", "c = 31", "c = 32", "a = 99")
            nothing_is_lost(session, root, [*values, "b IS NULL"], local=enabled == "false")
            assert len(kept(session, root, "a = 11")) == (3 if enabled == "true" else 0)
            same(session, root, "a = 11")
            same_join(session, root, "a", [11, 12], "bigint")
            found = lookup(session, str(root), "a", [11, 12])
            places = {row.path for row in found.collect() if row.path}
            found.unpersist()
            assert len(places) == (3 if enabled == "true" else 0)
    with settings(spark__sql__parquet__fieldId__read__enabled="true"):
        assert nothing_is_lost(session, root, ["a = 11"], local=False) == [1]
        write(root / "3.parquet", a=[10], c=[40])  # has no ids
        with settings(spark__sql__parquet__fieldId__read__ignoreMissing="true"):
            nothing_is_lost(session, root, ["a = 10", "a IS NULL", "c = 40"], local=False)
