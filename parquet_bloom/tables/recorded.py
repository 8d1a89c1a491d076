"""What a table's log or manifests record of its files' columns, as far as it can be trusted.

A writer copies bounds out of footers, cuts them, and converts them. So here, too, each rule is somebody's lost row:

- Floats have null counts only, because NaN may lie outside their bounds. Nested columns have nothing.
- Texts have nothing, but where a file has one only. Footers leave out the bounds of a column chunk whose texts are long
  (4 KiB in parquet-java and Arrow), and delta-rs, pyiceberg and Paimon's 0.9 merge those of the other row groups.
- A null count of 0 is believed only beside bounds: delta-rs writes 0 where a footer has no null count.
- Such a text may be truncated, and not every writer rounds a truncated maximum up: only its first bytes count. Where a
  writer compared UTF-16 instead of bytes, U+E000 to U+FFFF came after all that is beyond them; so a bound ends before
  the first character for which this makes a difference.
- What contradicts itself is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, Repetition
from parquet_bloom.values.ordering import Key
from parquet_bloom.values.statistics import ColumnStatistics


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The table's columns, `names` in all, and what is recorded of them, and `where` ("in the table's log").

    `leaves` are those whose type is understood, as a file would have them: `read` returns the bounds of one of them,
    for each file of the snapshot in order, or None where nothing is known.
    """

    where: str
    names: tuple[str, ...]
    leaves: tuple[LeafColumn, ...]
    read: Callable[[LeafColumn], Sequence[ColumnStatistics | None]]
    by_leaf: dict[int, Sequence[ColumnStatistics | None]] = field(default_factory=dict)

    def bounds(self, leaf: LeafColumn) -> Sequence[ColumnStatistics | None]:
        """Return what is known of one of the leaves, by file."""
        if leaf.index not in self.by_leaf:
            self.by_leaf[leaf.index] = self.read(leaf)
        return self.by_leaf[leaf.index]


def leaf_of(name: str, index: int, physical: PhysicalType, logical: LogicalType | None = None) -> LeafColumn:
    """Return a top-level column of a table as a leaf; it may always be NULL, for a file may lack it."""
    length = DECIMAL_BYTES if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY else None
    return LeafColumn((name,), index, physical, length, logical, (Repetition.OPTIONAL,))


DECIMAL_BYTES = 16


def timestamp(*, is_utc: bool) -> LogicalType:
    """Return the type of a table's timestamps."""
    return LogicalType("TIMESTAMP", unit="MICROS", is_adjusted_to_utc=is_utc)


def bounds_of(
    num_rows: int | None, nulls: int | None, low: Key | None, high: Key | None, *, is_exact: bool = False
) -> ColumnStatistics | None:
    """Return what a file's rows, nulls and bounds say of a column together; None for what cannot be."""
    if nulls is not None and (nulls < 0 or (num_rows is not None and nulls > num_rows)):
        return None
    if nulls is not None and nulls == num_rows and num_rows and (low is not None or high is not None):
        return None
    count = -1 if num_rows is None else num_rows
    if low is None or high is None:
        return ColumnStatistics(count, nulls, why_untrusted="it has no bounds that can be trusted")
    return None if low > high else ColumnStatistics(count, nulls, low, high, is_exact, "")


def is_evident(nulls: int | None, low: Any, high: Any) -> bool:
    """Return whether a count of nulls can be believed, beside a least and a greatest value as they are recorded."""
    return nulls != 0 or (low is not None and high is not None)


def text_bounds(low: bytes | None, high: bytes | None, whole: int) -> tuple[Key | None, Key | None]:
    """Return bytes that no text lies beyond; a greatest one of `whole` bytes or more may have been cut there.

    >>> text_bounds(b"a", b"m", 16), text_bounds(b"a", b"mmmmmm", 4)[1].startswith(b"mmm\\xff")
    ((b'a', b'm'), True)
    """
    if low is None or high is None:
        return None, None
    try:
        first, last = low.decode(), high.decode()
    except UnicodeDecodeError:
        return None, None
    cut = _AFTER_SURROGATES.split(last, maxsplit=1)[0].encode()
    if len(high) >= whole or cut != high:
        high = cut[: whole - 1] + BEYOND_TEXT
    return _SURROGATES.split(first, maxsplit=1)[0].encode(), high


BEYOND_TEXT = 64 * b"\xff"
"""Greater than what UTF-8 has, and what has slipped in among it."""

_AFTER_SURROGATES = re.compile("[\ue000-\uffff]")
_SURROGATES = re.compile("[\ufffd\U00010000-\U0010ffff]")  # or the replacement character
