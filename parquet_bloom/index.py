"""An index of bloom filters beside a directory of Parquet files or a table, which themselves are only read."""

from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.verbs.index import ColumnIndex, IndexState, create, drop, refresh, show

__all__ = ["ColumnIndex", "IndexState", "IndexedColumn", "create", "drop", "refresh", "show"]
