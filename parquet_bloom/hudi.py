"""The bloom filter of record keys that Apache Hudi looks for in the footers of its files."""

from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.hudi import add_filter

__all__ = ["Added", "add_filter"]
