"""Apache Paimon's file index: bloom filters in a file of their own beside each data file."""

from parquet_bloom.verbs.paimon import Attached, attach_index
from parquet_bloom.verbs.paimon_files import build_index, write_index

__all__ = ["Attached", "attach_index", "build_index", "write_index"]
