"""Paimon's binary rows, and what its manifests record in them: the least and greatest values of a data file's columns.

A row is its number of columns, int32 and big-endian, a bit for each NULL after 8 of the header, filled up to 8 bytes,
and 8 bytes for each value, little-endian (BinaryRow.java):

    integers, DATE          the value
    DECIMAL                 the unscaled value; of more than 18 digits it lies elsewhere, big-endian
    TIMESTAMP               milliseconds; of a precision above 3 they lie elsewhere, and here are nanoseconds of one
    texts                   of up to 7 bytes here, and the top bit is set; longer ones lie elsewhere

Elsewhere is an offset from the row's first byte after the number, in the upper 32 bits, and a length in the lower ones.

Not all of it can be relied on, and nothing in a manifest tells who wrote it:

- Java's 0.9 merges the statistics of a file's row groups, and passes over row groups without any, as are those whose
  least and greatest texts have 4096 bytes or more. So bounds and counts of texts may leave out whole row groups. Only
  those of partition columns count: all their texts in a file are the same.
- pypaimon 1.3 and 1.4 write timestamps and decimals of every precision in their place. As offsets these are others'
  bytes, so a value counts only where it lies apart, behind the columns.
- They take a timestamp for one in the writer's own time zone, and round down to milliseconds by floats. What lies in
  its place may therefore be off by a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from parquet_bloom.bounds import Bounds
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.tables.recorded import Recorded, bounds_of, leaf_of, text_bounds, timestamp


class Row:
    """A row of `width` columns. Raises `CorruptFileError` for what is none."""

    def __init__(self, packed: bytes, width: int) -> None:
        self._row, self._nulls = packed[4:], (width + 71) // 64 * 8
        self._fixed = self._nulls + 8 * width
        if int.from_bytes(packed[:4], "big") != width or len(self._row) < self._fixed:
            raise CorruptFileError(f"a row of {len(packed)} bytes for {width} columns")

    def is_null(self, position: int) -> bool:
        """Return whether a value is NULL."""
        return bool(self._row[(position + 8) // 8] >> (position % 8) & 1)

    def integer(self, position: int, width: int) -> int:
        """Return a value of so many bytes."""
        return int.from_bytes(self._word(position)[:width], "little", signed=True)

    def data(self, position: int) -> bytes:
        """Return a value that is bytes of any length."""
        word = self._number(position)
        if word >> 63:
            if (size := word >> 56 & 0x7F) > 7:
                raise CorruptFileError(f"a value of {size} bytes in 7")
            return self._word(position)[:size]
        return self._elsewhere(word)

    def timestamp(self, position: int) -> tuple[int, int]:
        """Return the milliseconds and nanoseconds of a timestamp of a precision above 3."""
        word = self._number(position)
        nanos = word & 0xFFFFFFFF
        return int.from_bytes(self._elsewhere(word - nanos + 8), "little", signed=True), nanos

    def decimal(self, position: int) -> int:
        """Return a decimal of more than 18 digits, unscaled."""
        word = self._number(position)
        if word >> 63 or not 0 < word & 0xFFFFFFFF <= _LONGEST_DECIMAL:
            raise CorruptFileError("a decimal does not lie where long ones do")
        return int.from_bytes(self._elsewhere(word), "big", signed=True)

    def is_apart(self, position: int, others: Iterable[int]) -> bool:
        """Return whether a value that lies elsewhere does so where one can, and the others do not."""
        start = self._number(position) >> 32
        if start < self._fixed or start % 8:
            return False
        for other in others:
            word = self._number(other)
            if not word >> 63 and not self.is_null(other):
                begin, size = word >> 32, word & 0xFFFFFFFF
                if begin <= start < begin + (size + 7) // 8 * 8:
                    return False
        return True

    def _number(self, position: int) -> int:
        return int.from_bytes(self._word(position), "little")

    def _word(self, position: int) -> bytes:
        return self._row[self._nulls + 8 * position :][:8]

    def _elsewhere(self, word: int) -> bytes:
        start, size = word >> 32, word & 0xFFFFFFFF
        found = self._row[start : start + size]
        if len(found) != size:
            raise CorruptFileError(f"a value lies beyond the {len(self._row)} bytes of its row")
        return found


_LONGEST_DECIMAL = 16


# ---- statistics ----------------------------------------------------------------------------


class Statistics(NamedTuple):
    """What a manifest has of a data file: `columns` are ids and types, in the order of the rows of `stats`."""

    num_rows: int
    stats: Mapping[str, Any]
    columns: tuple[tuple[int, Any], ...]
    constant: Set[int] = frozenset()
    """The ids of those that have one value in all of the file."""


_TYPES: Mapping[str, tuple[PhysicalType, LogicalType | None]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), (PhysicalType.INT32, None)),
    "BIGINT": (PhysicalType.INT64, None),
    "DATE": (PhysicalType.INT32, LogicalType("DATE")),
    "FLOAT": (PhysicalType.FLOAT, None),
    "DOUBLE": (PhysicalType.DOUBLE, None),
    **dict.fromkeys(("STRING", "VARCHAR"), (PhysicalType.BYTE_ARRAY, LogicalType("STRING"))),
    "TIMESTAMP": (PhysicalType.INT64, timestamp(is_utc=False)),
    "TIMESTAMP WITH LOCAL TIME ZONE": (PhysicalType.INT64, timestamp(is_utc=True)),
}
_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8}
_MOST_COMPACT = 18
"""Digits of a decimal that lies in its place."""

_ZONES = 24 * 3_600_000
"""More milliseconds than any time zone is off UTC."""

_LONG = re.compile(r"(?:CHAR|VARCHAR|STRING|BINARY|VARBINARY|BYTES|BLOB)\b")
"""Types whose values may lie elsewhere, whoever wrote the row."""


class _Kind(NamedTuple):
    name: str
    size: int  # precision, where there is one
    scale: int

    @property
    def is_timestamp(self) -> bool:
        return self.name.startswith("TIMESTAMP")

    @property
    def is_long_timestamp(self) -> bool:
        return self.is_timestamp and self.size > 3

    @property
    def is_long_decimal(self) -> bool:
        return self.name == "DECIMAL" and self.size > _MOST_COMPACT


def _kind(kind: Any) -> _Kind | None:
    """Return a type that is understood, or None."""
    found = _KIND.fullmatch(kind.strip().upper()) if isinstance(kind, str) else None
    if found is None:
        return None
    name, size, scale, zone = found[1], found[2], found[3], found[4] or ""
    is_timed = name == "TIMESTAMP"
    if (name not in _TYPES and name != "DECIMAL") or (zone and not is_timed):
        return None
    parsed = _Kind(name + zone, int(size or (6 if is_timed else 10)), int(scale or 0))
    # Finer than microseconds, values are not what a column of microseconds would have.
    return None if is_timed and parsed.size > 6 else parsed


_KIND = re.compile(r"([A-Z]+)(?:\((\d+)(?:, ?(\d+))?\))?( WITH LOCAL TIME ZONE)?(?: NOT NULL)?")


def recorded(fields: Iterable[tuple[int, tuple[str, Any]]], files: Sequence[Statistics | None]) -> Recorded:
    """Return what manifests have of a table's columns, for each of its files; None: it proves nothing of that one."""
    names, leaves, numbers = [], [], {}
    for index, (number, (name, declared)) in enumerate(fields):
        names.append(name)
        kind = _kind(declared)
        if kind is not None:
            physical, logical = _TYPES.get(kind.name, (PhysicalType.FIXED_LEN_BYTE_ARRAY, None))
            if kind.name == "DECIMAL":
                logical = LogicalType("DECIMAL", precision=kind.size, scale=kind.scale)
            leaves.append(leaf_of(name, index, physical, logical))
            numbers[index] = number

    def read(leaf: LeafColumn) -> Sequence[Bounds | None]:
        return [_bounds(file, numbers[leaf.index]) if file is not None else None for file in files]

    return Recorded("in the table's manifests", tuple(names), tuple(leaves), read)


def _bounds(file: Statistics, number: int) -> Bounds | None:
    """Return what is recorded of a column; None where it is nothing, or not understood."""
    position = next((at for at, (own, _) in enumerate(file.columns) if own == number), None)
    if position is None or (kind := _kind(file.columns[position][1])) is None:
        return None
    counts = file.stats.get("_NULL_COUNTS")
    if counts is not None and len(counts) != len(file.columns):
        return None
    is_text = kind.name in ("STRING", "VARCHAR")
    if is_text and number not in file.constant:
        return None
    try:
        rows = [Row(file.stats[name], len(file.columns)) for name in ("_MIN_VALUES", "_MAX_VALUES")]
        low, high = (_value(row, position, kind) for row in rows)
    except (CorruptFileError, TypeError, KeyError):
        return None
    if (kind.is_long_decimal or kind.is_long_timestamp) and low is not None and high is not None:
        others = [at for at, (_, other) in enumerate(file.columns) if isinstance(other, str) and _LONG.match(other)]
        if not all(row.is_apart(position, others) for row in rows):
            return None
    if kind.is_timestamp and not kind.is_long_timestamp and low is not None and high is not None:
        low, high = low - _ZONES * 1000, high + _ZONES * 1000
    if is_text:
        # The greatest one may have been cut anywhere: the table's options say where, and did not always say the same.
        low, high = text_bounds(low, high, len(high or b""))
    return bounds_of(file.num_rows, counts[position] if counts is not None else None, low, high)


def _value(row: Row, position: int, kind: _Kind) -> Any:
    """Return a bound as a key; None where there is none, or it is not relied on, as with floats."""
    if row.is_null(position) or kind.name in ("FLOAT", "DOUBLE"):
        return None
    if kind.name in _WIDTHS:
        return row.integer(position, _WIDTHS[kind.name])
    if kind.name == "DECIMAL":
        return row.decimal(position) if kind.is_long_decimal else row.integer(position, 8)
    if kind.is_timestamp:
        millis, nanos = row.timestamp(position) if kind.is_long_timestamp else (row.integer(position, 8), 0)
        return millis * 1000 + nanos // 1000 if nanos < 1_000_000 and nanos % 1000 == 0 else None
    return row.data(position)
