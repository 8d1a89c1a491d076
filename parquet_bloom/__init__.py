"""See, add, verify and use bloom filters in Parquet files, without re-encoding them.

Importing the package is quick: a verb's module, and what it needs, is imported when the verb is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parquet_bloom.cache import Cache
    from parquet_bloom.commits import add_to_table
    from parquet_bloom.ddl import execute
    from parquet_bloom.demonstration import demo
    from parquet_bloom.errors import (
        ColumnNotFoundError,
        ConcurrentChangeError,
        CorruptFileError,
        FilterExistsError,
        LiteralError,
        NotParquetError,
        ParquetBloomError,
        PredicateError,
        UnsupportedError,
    )
    from parquet_bloom.hudi_filters import add_hudi_filter
    from parquet_bloom.indexes.paimon_files import paimon_index, write_paimon_index
    from parquet_bloom.indexing import index_create, index_drop, index_refresh, index_show
    from parquet_bloom.lookups import lookup
    from parquet_bloom.paimon_indexes import attach_paimon_index
    from parquet_bloom.predicate import col
    from parquet_bloom.pruning import prune
    from parquet_bloom.reader import CANNOT_MATCH, MIGHT_MATCH, inspect, probe
    from parquet_bloom.sbbf import SplitBlockBloomFilter
    from parquet_bloom.verification import verify
    from parquet_bloom.writer import add, drop

__version__ = "0.1.0"

_HOMES = {
    "CANNOT_MATCH": "reader",
    "ColumnNotFoundError": "errors",
    "ConcurrentChangeError": "errors",
    "CorruptFileError": "errors",
    "FilterExistsError": "errors",
    "LiteralError": "errors",
    "MIGHT_MATCH": "reader",
    "NotParquetError": "errors",
    "ParquetBloomError": "errors",
    "PredicateError": "errors",
    "SplitBlockBloomFilter": "sbbf",
    "UnsupportedError": "errors",
    "Cache": "cache",
    "add": "writer",
    "add_hudi_filter": "hudi_filters",
    "add_to_table": "commits",
    "attach_paimon_index": "paimon_indexes",
    "col": "predicate",
    "demo": "demonstration",
    "drop": "writer",
    "execute": "ddl",
    "index_create": "indexing",
    "index_drop": "indexing",
    "index_refresh": "indexing",
    "index_show": "indexing",
    "inspect": "reader",
    "lookup": "lookups",
    "paimon_index": "indexes.paimon_files",
    "probe": "reader",
    "prune": "pruning",
    "verify": "verification",
    "write_paimon_index": "indexes.paimon_files",
}

__all__ = [
    "CANNOT_MATCH",
    "MIGHT_MATCH",
    "Cache",
    "ColumnNotFoundError",
    "ConcurrentChangeError",
    "CorruptFileError",
    "FilterExistsError",
    "LiteralError",
    "NotParquetError",
    "ParquetBloomError",
    "PredicateError",
    "SplitBlockBloomFilter",
    "UnsupportedError",
    "add",
    "add_hudi_filter",
    "add_to_table",
    "attach_paimon_index",
    "col",
    "demo",
    "drop",
    "execute",
    "index_create",
    "index_drop",
    "index_refresh",
    "index_show",
    "inspect",
    "lookup",
    "paimon_index",
    "probe",
    "prune",
    "verify",
    "write_paimon_index",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
