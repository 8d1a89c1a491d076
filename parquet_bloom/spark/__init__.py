"""The same verbs over a lake, on Spark: `read` only what can match, and retrofit, inspect and look up on executors.

Every verb takes the session first. PySpark is the extra `[spark]`, and Java 17 its own need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parquet_bloom.spark.indexing import index_create, index_refresh
    from parquet_bloom.spark.lookups import lookup, semi_join
    from parquet_bloom.spark.reading import read
    from parquet_bloom.spark.reports import inspect, prune, verify
    from parquet_bloom.spark.retrofit import add, drop

_HOMES = {
    "add": "retrofit",
    "drop": "retrofit",
    "index_create": "indexing",
    "index_refresh": "indexing",
    "inspect": "reports",
    "lookup": "lookups",
    "prune": "reports",
    "read": "reading",
    "semi_join": "lookups",
    "verify": "reports",
}

__all__ = [
    "add",
    "drop",
    "index_create",
    "index_refresh",
    "inspect",
    "lookup",
    "prune",
    "read",
    "semi_join",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
