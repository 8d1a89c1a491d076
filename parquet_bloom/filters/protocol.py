"""What the filters of other formats have in common: one filter covers a column of a whole data file.

Each format is a module of this package. It reads `FileFilter`s from a footer or from a table's index file, and every
verb uses them in the same way. Its `Builder` takes a column's values and returns the bytes that the format stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from parquet_bloom.format.schema import ColumnPath

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Description:
    """A filter's size and state.

    `num_bytes` is the size of its bits, `num_hashes` the number of bits of each value, and `fill` the share of bits
    that are set. `fpp`, the false positive rate, and `ndv`, an estimate of its distinct values, follow from them.
    """

    num_bytes: int
    num_hashes: int
    fill: float
    fpp: float
    ndv: float | None = None


class FileFilter(Protocol):
    """A filter over one column of a data file, as another format stores it."""

    @property
    def format(self) -> str:
        """Return the other format's name for it, such as `Hudi DYNAMIC_V0`."""

    @property
    def column(self) -> ColumnPath:
        """Return the path of the column in the file."""

    def describe(self) -> Description:
        """Return the filter's size and state."""

    def might_contain(self, values: Sequence[Any]) -> bytes:
        """Return for each value 0 if it is proved not to be in the file, else 1, also if it is not understood.

        Values are literals, as in conditions and lists of keys; None is not understood.
        """

    def might_contain_stored(self, values: pa.Array) -> bytes:
        """Return the same for values of the file, without nulls; raises for values that are not understood."""
