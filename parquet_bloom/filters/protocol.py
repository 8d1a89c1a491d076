"""What the filters of other formats have in common: one filter speaks for a column of a whole data file.

Each format is a module of this package. Opening is a plan over what the format keeps them in, a footer or a table's
index file, and gives `FileFilter`s, on which every verb works alike; building is `Builder`, which takes a column's
values as they come and gives what the format stores.
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
    """What a filter says about itself, or shows: bytes of bits, the share of them that is set, and what follows.

    `num_hashes` are the bits of a value, `ndv` how many distinct values the set bits stand for, `fpp` how often a value
    that is not there seems to be.
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
        """Return what the other format calls it, such as `Hudi DYNAMIC_V0`."""

    @property
    def column(self) -> ColumnPath:
        """Return the path of the column in the file."""

    def describe(self) -> Description:
        """Return the filter's size and state."""

    def might_contain(self, values: Sequence[Any]) -> bytes:
        """Return for each value 0 if it is proved not to be in the file, else 1, also where it is not understood.

        Values are literals as conditions and lists of keys have them; None is not understood.
        """

    def might_contain_stored(self, values: pa.Array) -> bytes:
        """Return the same for values that the file holds, none of them null; here what is not understood raises."""
