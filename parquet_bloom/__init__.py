"""See, add, verify and use bloom filters in Parquet files, without re-encoding them.

Importing the package is quick: a verb's module, and what it needs, is imported when the verb is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parquet_bloom import hudi, index, paimon, spark
    from parquet_bloom.errors import (
        ColumnNotFoundError,
        ConcurrentChangeError,
        CorruptFileError,
        FilterExistsError,
        IndexNotFoundError,
        LiteralError,
        NotParquetError,
        ParquetBloomError,
        PredicateError,
        StoreError,
        UnsupportedError,
    )
    from parquet_bloom.filters.index import IndexedColumn
    from parquet_bloom.format.encryption import Decryption
    from parquet_bloom.format.ranges import ByteRange
    from parquet_bloom.format.sbbf import SplitBlockBloomFilter
    from parquet_bloom.lake import Lake, LakeIndex, open
    from parquet_bloom.predicates.tree import Column, Predicate, col
    from parquet_bloom.results import FailedFile
    from parquet_bloom.storage.cache import Cache
    from parquet_bloom.storage.drive import Limits, RequestLog
    from parquet_bloom.storage.listing import PathLike, StorageOptions
    from parquet_bloom.verbs.absent import Absent, absent
    from parquet_bloom.verbs.add import TableKind, add
    from parquet_bloom.verbs.add_files import Added
    from parquet_bloom.verbs.advise import Advice, ColumnAdvice, advise
    from parquet_bloom.verbs.demo import demo
    from parquet_bloom.verbs.drop import Dropped, FileDropped, drop
    from parquet_bloom.verbs.erase import Erased, erase
    from parquet_bloom.verbs.erase_files import ErasureStatus, FileErased
    from parquet_bloom.verbs.erase_ledger import (
        KeyStatus,
        LedgerCheck,
        LedgerHeader,
        LedgerKeys,
        LedgerOutcome,
        LedgerProof,
        LedgerRow,
        LedgerStatus,
        check_ledger,
    )
    from parquet_bloom.verbs.erase_plan import Step, Steps, erase_plan
    from parquet_bloom.verbs.erased import Trace, Traces, erased
    from parquet_bloom.verbs.find import Found, find
    from parquet_bloom.verbs.index import ColumnIndex, IndexState
    from parquet_bloom.verbs.inspect import FileInfo, FilterInfo, Inspection, inspect
    from parquet_bloom.verbs.lookup import Lookup, lookup
    from parquet_bloom.verbs.opening import Reading
    from parquet_bloom.verbs.paimon import Attached
    from parquet_bloom.verbs.parallel import Progress
    from parquet_bloom.verbs.probe import Probe, ProbeAnswer, probe
    from parquet_bloom.verbs.prune import prune
    from parquet_bloom.verbs.recover import FileRecovered, Recovered, recover
    from parquet_bloom.verbs.report import Report, report
    from parquet_bloom.verbs.retrofit import AddedFilter, FileAdded, SkippedChunk, SkippedColumn, Status
    from parquet_bloom.verbs.sql import execute
    from parquet_bloom.verbs.verdicts import (
        CANNOT_MATCH,
        MIGHT_MATCH,
        Answer,
        FileVerdict,
        Pruning,
        RowGroupVerdict,
        Totals,
    )
    from parquet_bloom.verbs.verify import Verification, VerifiedFile, VerifiedFilter, verify

__version__ = "0.1.0"

_MODULES = ("hudi", "index", "paimon", "spark")

_HOMES = {
    "Absent": "verbs.absent",
    "Added": "verbs.add_files",
    "AddedFilter": "verbs.retrofit",
    "Advice": "verbs.advise",
    "Answer": "verbs.verdicts",
    "Attached": "verbs.paimon",
    "ByteRange": "format.ranges",
    "CANNOT_MATCH": "verbs.verdicts",
    "Cache": "storage.cache",
    "Column": "predicates.tree",
    "ColumnAdvice": "verbs.advise",
    "ColumnIndex": "verbs.index",
    "ColumnNotFoundError": "errors",
    "ConcurrentChangeError": "errors",
    "CorruptFileError": "errors",
    "Decryption": "format.encryption",
    "Dropped": "verbs.drop",
    "Erased": "verbs.erase",
    "ErasureStatus": "verbs.erase_files",
    "FailedFile": "results",
    "FileAdded": "verbs.retrofit",
    "FileDropped": "verbs.drop",
    "FileErased": "verbs.erase_files",
    "FileInfo": "verbs.inspect",
    "FileRecovered": "verbs.recover",
    "FileVerdict": "verbs.verdicts",
    "FilterExistsError": "errors",
    "FilterInfo": "verbs.inspect",
    "Found": "verbs.find",
    "IndexNotFoundError": "errors",
    "IndexState": "verbs.index",
    "IndexedColumn": "filters.index",
    "Inspection": "verbs.inspect",
    "KeyStatus": "verbs.erase_ledger",
    "LedgerCheck": "verbs.erase_ledger",
    "LedgerHeader": "verbs.erase_ledger",
    "LedgerKeys": "verbs.erase_ledger",
    "LedgerOutcome": "verbs.erase_ledger",
    "LedgerProof": "verbs.erase_ledger",
    "LedgerRow": "verbs.erase_ledger",
    "LedgerStatus": "verbs.erase_ledger",
    "Limits": "storage.drive",
    "Lake": "lake",
    "LakeIndex": "lake",
    "LiteralError": "errors",
    "Lookup": "verbs.lookup",
    "MIGHT_MATCH": "verbs.verdicts",
    "NotParquetError": "errors",
    "ParquetBloomError": "errors",
    "PathLike": "storage.listing",
    "Predicate": "predicates.tree",
    "PredicateError": "errors",
    "Probe": "verbs.probe",
    "ProbeAnswer": "verbs.probe",
    "Progress": "verbs.parallel",
    "Pruning": "verbs.verdicts",
    "Reading": "verbs.opening",
    "Recovered": "verbs.recover",
    "Report": "verbs.report",
    "RequestLog": "storage.drive",
    "RowGroupVerdict": "verbs.verdicts",
    "SkippedChunk": "verbs.retrofit",
    "SkippedColumn": "verbs.retrofit",
    "SplitBlockBloomFilter": "format.sbbf",
    "Status": "verbs.retrofit",
    "Step": "verbs.erase_plan",
    "Steps": "verbs.erase_plan",
    "StorageOptions": "storage.listing",
    "StoreError": "errors",
    "TableKind": "verbs.add",
    "Totals": "verbs.verdicts",
    "Trace": "verbs.erased",
    "Traces": "verbs.erased",
    "UnsupportedError": "errors",
    "Verification": "verbs.verify",
    "VerifiedFile": "verbs.verify",
    "VerifiedFilter": "verbs.verify",
    "absent": "verbs.absent",
    "add": "verbs.add",
    "advise": "verbs.advise",
    "check_ledger": "verbs.erase_ledger",
    "col": "predicates.tree",
    "demo": "verbs.demo",
    "drop": "verbs.drop",
    "erase": "verbs.erase",
    "erase_plan": "verbs.erase_plan",
    "erased": "verbs.erased",
    "execute": "verbs.sql",
    "find": "verbs.find",
    "inspect": "verbs.inspect",
    "lookup": "verbs.lookup",
    "open": "lake",
    "probe": "verbs.probe",
    "prune": "verbs.prune",
    "recover": "verbs.recover",
    "report": "verbs.report",
    "verify": "verbs.verify",
}

__all__ = [
    "CANNOT_MATCH",
    "MIGHT_MATCH",
    "Absent",
    "Added",
    "AddedFilter",
    "Advice",
    "Answer",
    "Attached",
    "ByteRange",
    "Cache",
    "Column",
    "ColumnAdvice",
    "ColumnIndex",
    "ColumnNotFoundError",
    "ConcurrentChangeError",
    "CorruptFileError",
    "Decryption",
    "Dropped",
    "Erased",
    "ErasureStatus",
    "FailedFile",
    "FileAdded",
    "FileDropped",
    "FileErased",
    "FileInfo",
    "FileRecovered",
    "FileVerdict",
    "FilterExistsError",
    "FilterInfo",
    "Found",
    "IndexNotFoundError",
    "IndexState",
    "IndexedColumn",
    "Inspection",
    "KeyStatus",
    "Lake",
    "LakeIndex",
    "LedgerCheck",
    "LedgerHeader",
    "LedgerKeys",
    "LedgerOutcome",
    "LedgerProof",
    "LedgerRow",
    "LedgerStatus",
    "Limits",
    "LiteralError",
    "Lookup",
    "NotParquetError",
    "ParquetBloomError",
    "PathLike",
    "Predicate",
    "PredicateError",
    "Probe",
    "ProbeAnswer",
    "Progress",
    "Pruning",
    "Reading",
    "Recovered",
    "Report",
    "RequestLog",
    "RowGroupVerdict",
    "SkippedChunk",
    "SkippedColumn",
    "SplitBlockBloomFilter",
    "Status",
    "Step",
    "Steps",
    "StorageOptions",
    "StoreError",
    "TableKind",
    "Totals",
    "Trace",
    "Traces",
    "UnsupportedError",
    "Verification",
    "VerifiedFile",
    "VerifiedFilter",
    "absent",
    "add",
    "advise",
    "check_ledger",
    "col",
    "demo",
    "drop",
    "erase",
    "erase_plan",
    "erased",
    "execute",
    "find",
    "hudi",
    "index",
    "inspect",
    "lookup",
    "open",
    "paimon",
    "probe",
    "prune",
    "recover",
    "report",
    "spark",
    "verify",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and reports every other name

    def __getattr__(name: str) -> object:
        if name == "_kernel":
            return _built_kernel()
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def _built_kernel() -> object:
    """Return the compiled module; a source checkout may lack it."""
    try:
        return importlib.import_module(f"{__name__}._kernel")
    except ModuleNotFoundError:
        raise ImportError(
            "the compiled kernel of parquet_bloom is not built: run `pip install -e .` in the source checkout"
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
