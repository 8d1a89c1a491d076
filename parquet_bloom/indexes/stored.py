"""Finds the filters of other formats that speak for a data file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parquet_bloom.footer import Footer, Plan
from parquet_bloom.indexes.file_filters import FileFilter

if TYPE_CHECKING:
    from parquet_bloom.tables import LiveFile


def file_filters(footer: Footer, live: LiveFile | None = None) -> Plan[Sequence[FileFilter]]:
    """Plan to return the filters in a file's footer, and those that its table keeps for it.

    Raises `CorruptFileError` or `UnsupportedError` for one that cannot be used.
    """
    return ()
    yield
