"""Paimon's binary rows, and what its manifests record in them: the least and greatest values of a data file's columns.

A row is its number of columns, int32 and big-endian, a bit for each NULL after 8 of the header, filled up to 8 bytes,
and 8 bytes for each value, little-endian (BinaryRow.java):

    integers, DATE          the value
    DECIMAL                 the unscaled value, of up to 18 digits
    texts                   of up to 7 bytes here, and the top bit is set; longer ones lie elsewhere

Elsewhere is an offset from the row's first byte after the number, in the upper 32 bits, and a length in the lower ones.

A manifest does not say who wrote it, and some writers record wrong values. So these are ignored:

- texts but those of partition columns, which are all the same in a file. Java's 0.9 merges the statistics of a file's
  row groups, and passes over row groups without any, as are those whose least and greatest texts have 4096 bytes or
  more: bounds and counts may leave out whole row groups.
- timestamps. pypaimon 1.3 and 1.4 take one for a time in the writer's own zone, round it by floats, and write every
  precision in its place; of files that a table has adopted, Java takes milliseconds for microseconds.
- longer decimals, which pypaimon writes in their place, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.tables.recorded import Recorded, bounds_of, is_evident, leaf_of, text_bounds
from parquet_bloom.values.statistics import ColumnStatistics


class Row:
    """A row of `width` columns. Raises `CorruptFileError` for what is none."""

    def __init__(self, packed: bytes, width: int) -> None:
        self._row, self._nulls = packed[4:], (width + 71) // 64 * 8
        if int.from_bytes(packed[:4], "big") != width or len(self._row) < self._nulls + 8 * width:
            raise CorruptFileError(f"a row of {len(packed)} bytes for {width} columns")

    def is_null(self, position: int) -> bool:
        """Return whether a value is NULL."""
        return bool(self._row[(position + 8) // 8] >> (position % 8) & 1)

    def integer(self, position: int, width: int) -> int:
        """Return a value of so many bytes."""
        return int.from_bytes(self._word(position)[:width], "little", signed=True)

    def data(self, position: int) -> bytes:
        """Return a value that is bytes of any length."""
        word = int.from_bytes(self._word(position), "little")
        if word >> 63:
            if (size := word >> 56 & 0x7F) > 7:
                raise CorruptFileError(f"a value of {size} bytes in 7")
            return self._word(position)[:size]
        start, size = word >> 32, word & 0xFFFFFFFF
        data = self._row[start : start + size]
        if len(data) != size:
            raise CorruptFileError(f"a value lies beyond the {len(self._row)} bytes of its row")
        return data

    def _word(self, position: int) -> bytes:
        return self._row[self._nulls + 8 * position :][:8]


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
}
_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8}
_MOST_COMPACT = 18
"""Digits of a decimal that lies in its place."""


class _BoundedType(NamedTuple):
    name: str
    precision: int
    scale: int


def _bounded_type(declared: Any) -> _BoundedType | None:
    """Return a type whose bounds count, or None."""
    match = _DECLARED.fullmatch(declared.strip().upper()) if isinstance(declared, str) else None
    if match is None or (match[1] not in _TYPES and match[1] != "DECIMAL"):
        return None
    parsed = _BoundedType(match[1], int(match[2] or 10), int(match[3] or 0))
    return None if parsed.name == "DECIMAL" and parsed.precision > _MOST_COMPACT else parsed


_DECLARED = re.compile(r"([A-Z]+)(?:\((\d+)(?:, ?(\d+))?\))?(?: NOT NULL)?")


def recorded(fields: Iterable[tuple[int, tuple[str, Any]]], files: Sequence[Statistics | None]) -> Recorded:
    """Return what manifests have of a table's columns, for each of its files; None: it proves nothing of that one."""
    names, leaves, numbers = [], [], {}
    for index, (number, (name, declared)) in enumerate(fields):
        names.append(name)
        kind = _bounded_type(declared)
        if kind is not None:
            physical, logical = _TYPES.get(kind.name, (PhysicalType.FIXED_LEN_BYTE_ARRAY, None))
            if kind.name == "DECIMAL":
                logical = LogicalType("DECIMAL", precision=kind.precision, scale=kind.scale)
            leaves.append(leaf_of(name, index, physical, logical))
            numbers[index] = number

    def read(leaf: LeafColumn) -> Sequence[ColumnStatistics | None]:
        return [_bounds(file, numbers[leaf.index]) if file is not None else None for file in files]

    return Recorded("in the table's manifests", tuple(names), tuple(leaves), read)


def _bounds(file: Statistics, number: int) -> ColumnStatistics | None:
    """Return what is recorded of a column; None where it is nothing, or not understood."""
    position = next((at for at, (own, _) in enumerate(file.columns) if own == number), None)
    if position is None or (kind := _bounded_type(file.columns[position][1])) is None:
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
    nulls = counts[position] if counts is not None else None
    if not is_evident(nulls, *(None if row.is_null(position) else row for row in rows)):
        nulls = None
    if is_text:
        # The greatest one may have been cut anywhere: the table's options say where, and did not always say the same.
        low, high = text_bounds(low, high, len(high or b""))
    return bounds_of(file.num_rows, nulls, low, high)


def _value(row: Row, position: int, kind: _BoundedType) -> Any:
    """Return a bound as a key; None where there is none, or it is not relied on, as with floats."""
    if row.is_null(position) or kind.name in ("FLOAT", "DOUBLE"):
        return None
    if kind.name in _WIDTHS:
        return row.integer(position, _WIDTHS[kind.name])
    if kind.name == "DECIMAL":
        return row.integer(position, 8)
    return row.data(position)
