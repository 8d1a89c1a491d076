"""What lies at the ends of the types that other formats hash: before 1970, below a microsecond, in the year 9999 and
beyond, negative, and as wide as a type allows. Reference classes have recorded what they make of all of it
(tests/oracles/record.py), and are compared again by `.ci/oracles`.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

EPOCH = datetime(1970, 1, 1)
_DAY = 86_400_000
_MOMENTS = [  # milliseconds, and nanoseconds of one, as Paimon has a timestamp
    *((0, nanos) for nanos in (0, 1, 999, 1_000, 1_001, 999_999)),
    *((-1, nanos) for nanos in (0, 1, 998, 999, 1_000, 1_001, 999_000, 999_001, 999_998, 999_999)),
    *((day * _DAY + millis, nanos) for day in (-1, 1) for millis in (-1, 0, 1) for nanos in (0, 1, 999_999)),
    *((millis, nanos) for millis in (-1_000, -1_500, 999, 1_700_000_000_123) for nanos in (0, 456_789)),
    (-12_219_292_800_000, 0),  # 1582-10-15
    (-12_219_292_800_001, 999_999),
    (-62_135_596_800_000, 0),  # the first of Python's datetimes, 0001-01-01, and what is before
    (-62_135_596_800_000, 1),
    (-62_135_596_800_001, 999_999),
    (253_402_300_799_999, 999_999),  # the last moment of 9999, and what comes next
    (253_402_300_800_000, 0),
    (-9_223_372_036_855, 224_192),  # the ends of nanoseconds in 64 bits
    (9_223_372_036_854, 775_807),
    (-9_223_372_036_854_775, 1),  # and those of microseconds
    (9_223_372_036_854_775, 807_000),
]
_TEXTS = [
    "",
    "\0",
    " ",
    "a",
    "a ",
    "é",
    "日本",
    "😀",
    "\x7f\x80",
    "\uffff",
    "\U0010ffff",
    *("x€" * n for n in (7, 8, 16, 40)),
]
_RAW = ["", "00", "ff", "0000", "80", "7fffffff", "ff" * 31, "ff" * 32, "00" * 33, "80" * 64, "0102" * 50]
_FLOATS = "00000000 80000000 00000001 80000001 7f7fffff ff7fffff 7f800000 ff800000 7fc00000 ffc00000 7fc00001 3f800000"
_DOUBLES = (
    "0000000000000000 8000000000000000 0000000000000001 8000000000000001 7fefffffffffffff ffefffffffffffff "
    "7ff0000000000000 fff0000000000000 7ff8000000000000 fff8000000000000 7ff8000000000001 3ff0000000000000"
)


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    return [0, 1, -1, 2, -2, 100, -100, top - 1, -top, top // 2, -top // 2 - 1]


def _timestamps(precision: int) -> list[dict[str, int]]:
    """Returns moments that a type of this precision can have."""
    step = 10 ** max(0, 6 - max(0, precision - 3))
    found = {
        (millis, nanos // step * step)
        if precision > 3
        else (millis // 10 ** (3 - precision) * 10 ** (3 - precision), 0)
        for millis, nanos in _MOMENTS
    }
    return [{"millis": millis, "nanos_of_milli": nanos} for millis, nanos in sorted(found)]


PAIMON: dict[str, list[Any]] = {
    **{kind: _integers(bits) for kind, bits in {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.items()},
    "FLOAT": [{"bits_hex": bits} for bits in _FLOATS.split()],
    "DOUBLE": [{"bits_hex": bits} for bits in _DOUBLES.split()],
    "DATE": [0, 1, -1, -719_162, 2_932_896, 2_932_897, -141_427, -(2**31), 2**31 - 1],
    "TIME(0)": [0, 1, 999, 1_000, _DAY - 1],
    **{f"TIMESTAMP({p})": _timestamps(p) for p in range(10)},
    **{f"TIMESTAMP({p}) WITH LOCAL TIME ZONE": _timestamps(p) for p in range(10)},
    **{kind: [{"text": text} for text in _TEXTS] for kind in ("STRING", "VARCHAR(99)", "CHAR(99)")},
    **{kind: [{"hex": raw} for raw in _RAW] for kind in ("BYTES", "VARBINARY(200)", "BINARY(200)")},
}
"""Values of each of Paimon's types, as paimon_vectors.json has them."""


def spelled(value: Any) -> str:
    """Returns a value as PaimonReference.java takes it."""
    match value:
        case {"text": text}:
            return str(text.encode().hex())
        case {"hex": raw} | {"bits_hex": raw}:
            return str(raw)
        case {"millis": millis, "nanos_of_milli": nanos}:
            return f"{millis}:{nanos}"
    return str(value)


def paimon_question(table: Path) -> str:
    """Returns a line for PaimonReference.java, which has a table made of all these values, its columns `c0` and on."""
    columns = (f"{kind}\t{','.join(map(spelled, values))}" for kind, values in PAIMON.items())
    return "\t".join(("indexed", str(table), *columns))


def literal(kind: str, value: Any) -> Any:
    """Returns a value as one of Python's that engines would take it for, None where there is none."""
    match value:
        case {"text": text}:
            return text
        case {"hex": raw}:
            return bytes.fromhex(raw)
        case {"bits_hex": bits}:
            return struct.unpack(">f" if len(bits) == 8 else ">d", bytes.fromhex(bits))[0]
        case {"millis": millis, "nanos_of_milli": nanos}:
            if nanos % 1_000 or not -62_135_596_800_000 <= millis <= 253_402_300_799_999:
                return None
            found = EPOCH + timedelta(milliseconds=millis, microseconds=nanos // 1_000)
            return found.replace(tzinfo=UTC) if kind.endswith("ZONE") else found
    if kind == "DATE":
        return date(1970, 1, 1) + timedelta(days=value) if -719_162 <= value <= 2_932_896 else None
    return (EPOCH + timedelta(milliseconds=value)).time() if kind.startswith("TIME(") else value


_ENDS = ["\0", "\x01", "\x7f", "\x80", "\x7f\x80\xff", "ÿ", "\uffff", "\U00010000", "\U0010ffff", "\ud7ff\ue000"]
HUDI_KEYS = [
    *_ENDS,
    *(
        end * n + tail
        for end in ("a", "é", "😀")
        for n in (1, 2, 3, 4, 5, 63, 64)
        for tail in ("", "z", "ÿ", "\U0010ffff")
    ),
    "-9223372036854775808",
    "1969-12-31 23:59:59.999999999",
    "9999-12-31",
    "id:-1,name:__null__",
    "x" * 5_000,
]
"""Record keys; of an empty one Hudi has no filter."""

HUDI_SIZES = [
    ("SIMPLE", 1, 0.999, 0),
    ("SIMPLE", 1, 1e-300, 0),
    ("SIMPLE", 3, 1e-9, 0),
    ("SIMPLE", 5_000, 0.3, 0),
    ("DYNAMIC_V0", 1, 0.5, 1),
    ("DYNAMIC_V0", 1, 1e-100, 3),
    ("DYNAMIC_V0", 20, 1e-4, 40),
    ("DYNAMIC_V0", 500, 0.9, 0),
]
"""Types of filters, their entries, rates and bounds."""


def hudi_question(kind: str, entries: int, fpp: float, bound: int, keys: list[str], asked: list[str]) -> str:
    """Returns a line for HudiReference.java."""
    packed = [",".join(base64.b64encode(key.encode()).decode() for key in some) for some in (keys, asked)]
    return "\t".join(map(str, (kind, entries, fpp, bound, -1, *packed)))
