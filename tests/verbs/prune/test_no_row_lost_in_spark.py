"""Spark, over rows in its memory, finds nothing in the row groups that were pruned."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from engines import needs_java, spark, understood
from verbs.prune.test_no_row_lost import by_pyarrow, check, rows_of
from verbs.prune.worlds import KINDS, Column, World, spellings

from parquet_bloom.errors import LiteralError
from parquet_bloom.verbs.prune import prune

SPARK_TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "bool": "boolean",
    **{kind: kind.split()[0] for kind in KINDS if kind.startswith("decimal")},
    "timestamp us": "timestamp_ntz",
    "timestamp us UTC": "timestamp",
    "timestamp ms": "timestamp_ntz",
}
FAR = ("100000000000000000000", "18446744073709551616", "9223372036854775808", "9223372036854775809")
OPS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>", "NOT =", "NOT <", "NOT >=", "NOT <=>", "IN", "NOT IN")


def asked_of(kind: str, quoted: bool, rng: random.Random) -> list[str]:
    values = KINDS[kind]
    texts = [s.ours for value in (*values.values, *values.literals) for s in spellings(value)]
    texts = [text for text in texts if quoted or kind in ("string", "binary") or text[0] not in "'\""]
    # Spark 4.3 answers with rows that are NULL, too, when an integer is compared with a decimal beyond its range.
    texts = [text for text in texts if "int" not in kind or not any(far in text for far in FAR)]
    asked = []
    for text in rng.sample(texts, min(len(texts), 25)):
        for op in rng.sample(OPS, 3):
            negated, op = ("NOT ", op[4:]) if op.startswith("NOT ") and op != "NOT IN" else ("", op)
            wanted = f"({text}, {rng.choice(texts)})" if op.endswith("IN") else text
            asked.append(f"{negated}(c0 {op} {wanted})")
    return [*asked, "c0 IS NULL", "c0 IS NOT NULL", "c0 <=> NULL", f"c0 BETWEEN {texts[0]} AND {texts[-1]}"]


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("quoted", [True, False], ids=["lenient", "ANSI"])
@pytest.mark.parametrize("kind", SPARK_TYPES)
def test_spark_finds_nothing_in_what_is_pruned(tmp_path: Path, kind: str, quoted: bool) -> None:
    rng = random.Random(kind)
    values = KINDS[kind].values
    cells = [*values, *[None] * (3 - len(values) % 3), *sorted(values, key=repr), *[None] * 5]
    world = World((Column("c0", kind, "plain"),), tuple((cell,) for cell in cells), 3)
    path = tmp_path / "f.parquet"
    by_pyarrow(world, path)
    held = rows_of(path)
    session = spark()
    session.conf.set("spark.sql.ansi.enabled", str(not quoted))
    try:
        rows = session.createDataFrame(list(enumerate(cells)), f"k bigint, c0 {SPARK_TYPES[kind]}")
        asked = understood(rows, asked_of(kind, quoted, rng))
        answers = _answers(rows, asked)
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
    pruned = 0
    for text, truth in answers.items():
        try:
            result = prune(path, text, timezone="UTC")
        except LiteralError:
            continue
        check(result, held, truth)
        check(prune(path, text, timezone="UTC", exact=True), held, truth)
        pruned += result.totals.row_groups > result.totals.row_groups_kept
    if kind != "decimal(20,2) bytes":  # its filters never prune: a value has many forms
        assert pruned > (0 if kind == "bool" else 10)


def _answers(rows: Any, asked: list[str]) -> dict[str, set[int]]:
    """Returns which rows match each condition: of all at once, or of halves where one fails on a value."""
    from pyspark.errors import PySparkException

    try:
        found = rows.selectExpr("k", *asked).collect()
    except PySparkException:
        if len(asked) == 1:
            return {}
        return {**_answers(rows, asked[: len(asked) // 2]), **_answers(rows, asked[len(asked) // 2 :])}
    return {text: {row[0] for row in found if row[number]} for number, text in enumerate(asked, 1)}
