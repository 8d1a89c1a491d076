"""The same verbs on Spark: `read` and `find` only what can match, and inspect, look up, add and erase on executors.

Every verb takes the session first; with `storage_options="spark"`, S3 is read with Spark's own settings (`fs.s3a.*`).
PySpark comes with the extra `[spark]`, and needs Java 17.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parquet_bloom.spark import index
    from parquet_bloom.spark.erasing import erase
    from parquet_bloom.spark.finding import find
    from parquet_bloom.spark.joins import semi_join
    from parquet_bloom.spark.lookups import lookup
    from parquet_bloom.spark.reading import read
    from parquet_bloom.spark.reports import inspect, prune, verify
    from parquet_bloom.spark.retrofit import add, drop

_HOMES = {
    "add": "retrofit",
    "drop": "retrofit",
    "erase": "erasing",
    "find": "finding",
    "inspect": "reports",
    "lookup": "lookups",
    "prune": "reports",
    "read": "reading",
    "semi_join": "joins",
    "verify": "reports",
}

__all__ = [
    "add",
    "drop",
    "erase",
    "find",
    "index",
    "inspect",
    "lookup",
    "prune",
    "read",
    "semi_join",
    "verify",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and reports every other name

    def __getattr__(name: str) -> object:
        if name == "index":
            return importlib.import_module(f"{__name__}.index")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
