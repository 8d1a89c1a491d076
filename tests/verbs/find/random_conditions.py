"""Random conditions on columns of all types, and a table to ask them of."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")

WHOLE = [0, 1, -1, 5, 7, 100, -128, 127]
FLOATS = [0.0, -0.0, 0.5, -1.5, NAN, INF, -INF, 16777216.0, 7.0, 0.1]
DECIMALS = [Decimal(text) for text in ("0.00", "1.50", "-1.50", "7.00", "99999.99")]
TEXTS = ["", "a", "b", "ab", "é", "7", "true", "2024-01-01", "\U0001f600", "\uffff"]
DAYS = [date(2024, 1, 1), date(1970, 1, 1), date(1999, 12, 31), date(2024, 2, 29)]
MOMENTS = [datetime(2024, 3, 10, 7, 30), datetime(2024, 11, 3, 5, 30), datetime(2024, 1, 1), datetime(1970, 1, 1)]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), WHOLE),
    "i32": (pa.int32(), [*WHOLE, 2**31 - 1, -(2**31)]),
    "i64": (pa.int64(), [*WHOLE, 2**63 - 1, 2**53, 2**53 + 1]),
    "u32": (pa.uint32(), [0, 1, 5, 7, 2**32 - 1]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "d9": (pa.decimal128(9, 2), DECIMALS),
    "d38": (pa.decimal128(38, 2), DECIMALS),
    "s": (pa.string(), TEXTS),
    "b": (pa.binary(), [b"", b"a", b"\xff", b"b", b"\x00"]),
    "t": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), MOMENTS),
    "wall": (pa.timestamp("us"), MOMENTS),
}

LITERALS = {
    "i": ["0", "1", "-1", "5", "7", "127", "300", "1.5", "7.0", "-0.5", "5e0", "0.5e0", "2147483648", "'7'", "NULL"],
    "i64": ["9223372036854775807", "9007199254740993", "9007199254740992e0", "9223372036854775808"],
    "f": ["0", "-0.0", "0.5", "0.1", "7", "1e0", "16777217", "0.1e0", "double('NaN')", "'7'", "NULL", "1.5"],
    "d": ["0", "1.5", "1.50", "7", "-1.5", "7.001", "99999.99", "100000", "'1.5'", "NULL"],
    "s": ["'a'", "''", "'ab'", "'é'", "'7'", "'zz'", "NULL"],
    "b": ["X'61'", "X'FF'", "X''", "NULL"],
    "t": ["true", "false", "NULL"],
    "day": ["'2024-01-01'", "DATE '1999-12-31'", "DATE '2024-02-29'", "TIMESTAMP '2024-01-01 00:00:00'", "NULL"],
    "at": ["TIMESTAMP '2024-03-10 03:30:00'", "TIMESTAMP '2024-11-03 01:30:00'", "'2024-01-01 00:00:00'", "NULL",
           "TIMESTAMP '2024-01-01T00:00:00Z'", "DATE '2024-01-01'"],
    "wall": ["'2024-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-03-10 07:30:00'", "TIMESTAMP '2024-01-01 00:00:00'", "NULL"],
}  # fmt: skip


def literals_of(name: str) -> list[str]:
    if name in ("i64", "day", "at", "wall", "s", "b", "t"):
        return LITERALS[name] + (LITERALS["i"] if name == "i64" else [])
    return LITERALS[name[0] if name[0] != "u" else "i"]


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.4:
        joint = rng.choice([" AND ", " OR "])
        return "(" + joint.join(condition(rng, depth - 1) for _ in range(2)) + ")"
    if depth and rng.random() < 0.15:
        return f"NOT ({condition(rng, depth - 1)})"
    name = rng.choice(list(COLUMNS))
    pool = literals_of(name)
    match rng.randrange(6):
        case 0:
            return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
        case 1:
            listed = rng.sample(pool, min(len(pool), rng.randint(1, 3)))
            return f"{name} {rng.choice(['', 'NOT '])}IN ({', '.join(listed)})"
        case 2:
            return f"{name} BETWEEN {rng.choice(pool)} AND {rng.choice(pool)}"
    return f"{name} {rng.choice(['=', '=', '<>', '<', '<=', '>', '>=', '<=>'])} {rng.choice(pool)}"


def table(rng: random.Random, rows: int = 400) -> pa.Table:
    """Returns random values of each column, some of them null."""
    columns = {}
    for name, (kind, values) in COLUMNS.items():
        drawn = [None if rng.random() < 0.1 else rng.choice(values) for _ in range(rows)]
        in_zone = pa.types.is_timestamp(kind) and kind.tz is not None
        columns[name] = pa.array([v.replace(tzinfo=UTC) if in_zone and v is not None else v for v in drawn], kind)
    return pa.table(columns)
