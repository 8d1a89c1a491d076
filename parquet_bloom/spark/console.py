"""Runs a verb on Spark for the command line: with a session, and with the local verb's result."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from parquet_bloom import spark
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicates.parsing import to_predicate, why_unused
from parquet_bloom.results import FailedFile, Record, from_row
from parquet_bloom.spark.lookups import find_candidates
from parquet_bloom.spark.session import changed, running
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import driver_reads, live_sources_of, to_arrow
from parquet_bloom.storage.listing import Source, StorageOptions, find
from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.drop import Dropped, FileDropped
from parquet_bloom.verbs.inspect import FileInfo, Inspection
from parquet_bloom.verbs.lookup import Lookup
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import FileAdded
from parquet_bloom.verbs.verdicts import FileVerdict, Pruning
from parquet_bloom.verbs.verify import Verification, VerifiedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Record = TypeVar("_Record", bound=Record)


def call(
    verb: str,
    master: str | None,
    paths: tuple[str, ...],
    *arguments: Any,
    timezone: str | None = None,
    catalog: str | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
    hide: Callable[[dict[str, Any]], None] = lambda options: None,
    **options: Any,
) -> Any:
    """Return the local verb's result, made by the verb of `parquet_bloom.spark` in the session of `running`.

    Spark's own errors become a `ParquetBloomError` of one sentence. `hide` is told the options that are Spark's.
    """
    if verb in _OF_TABLES:
        options["catalog"] = catalog
    allow_outside = options.get("allow_outside", False)
    sources = None
    if not isinstance(storage_options, str):  # what is wrong with the paths is said before a session starts
        sources = _sources(verb, paths, storage_options, catalog, allow_outside)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        with running(master) as session, changed(session, "spark.sql.session.timeZone", timezone):
            _, storage_options = settled(session, paths, storage_options, catalog=catalog)
            if sources is None:
                hide(storage_options or {})
                sources = _sources(verb, paths, storage_options, catalog, allow_outside)
            function = find_candidates if verb == "lookup" else getattr(spark, verb)
            made: Any = function(
                session, paths, *arguments, storage_options=storage_options, progress=progress, **options
            )
            frame, failed = made if verb == "lookup" else (made, {})
            return _RESULTS[verb](_InOrder(frame, sources, failed), *arguments)
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
            raise ParquetBloomError(f"Spark says: {_sentence(str(error))}") from error
        raise


def _sources(
    verb: str, paths: tuple[str, ...], storage_options: StorageOptions, catalog: str | None, allow_outside: bool
) -> list[Source]:
    if verb in _OF_TABLES:
        return live_sources_of(paths, storage_options, catalog, allow_outside=allow_outside)[0]
    with driver_reads(storage_options):
        return find(paths, storage_options=storage_options)


_OF_TABLES = ("prune", "lookup")
"""The verbs that treat a table as its live files."""


def _sentence(text: str) -> str:
    """Return the line of Spark's error that says what is wrong: the one of Python, of Java, or the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    of_python = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    of_java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    candidates = (of_python[-1:] if "Traceback" in text else []) or of_java or lines or ["nothing"]
    return candidates[0]


class _InOrder:
    """Rows that came from executors, in the order and under the names of the files here."""

    def __init__(self, frame: DataFrame, sources: Iterable[Source], failed: Mapping[str, str]) -> None:
        self._frame, self._failed = frame, failed
        # Executors get local files by their whole path: their working directory is another.
        names = [(source.path if source.is_local else source.name, source.name) for source in sources]
        self._names = dict(names)
        self._order = {path: number for number, (path, _) in enumerate(names)}

    def records(self, record: type[_Record]) -> tuple[_Record, ...]:
        """Return the rows as the library's records."""
        rows = [row.asDict(recursive=True) for row in self._frame.collect()]
        rows.sort(key=lambda row: self._order.get(row["path"], len(self._order)))
        return tuple(from_row(record, self._named(row)) for row in rows)

    def _named(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._named(part) for part in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self._names.get(part, part) if key in ("path", "output") else self._named(part)
            for key, part in value.items()
        }

    def candidates(self) -> Lookup:
        """Return the rows as the stream that `lookup` gives."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = to_arrow(self._frame)
        paths = rows.column("path").combine_chunks().dictionary_encode()
        known = paths.dictionary.to_pylist()
        names = pa.array([self._names.get(path, path) for path in known], pa.string())
        order = pa.array([self._order.get(path, len(self._order)) for path in known], pa.int64())
        table = pa.table(
            {
                "key": rows.column("key"),
                "path": names.take(paths.indices),
                "row_group": rows.column("row_group").cast(pa.int32()),
                "reason": rows.column("reason"),
            }
        )
        keys = pa.table({"file": order.take(paths.indices), "row_group": table.column("row_group")})
        table = table.take(pc.sort_indices(keys, [("file", "ascending"), ("row_group", "ascending")]))
        failed = sorted(self._failed.items(), key=lambda one: self._order.get(one[0], len(self._order)))
        errors = [FailedFile(self._names.get(path, path), why) for path, why in failed]
        return Lookup(iter(table.to_batches()), table.schema, errors=errors)


_RESULTS: dict[str, Callable[..., Any]] = {
    "inspect": lambda rows, *_: Inspection(rows.records(FileInfo)),
    "verify": lambda rows, *_: Verification(rows.records(VerifiedFile)),
    "prune": lambda rows, where: Pruning(str(to_predicate(where)), rows.records(FileVerdict), unused=why_unused(where)),
    "add": lambda rows, *_: Added(rows.records(FileAdded)),
    "drop": lambda rows, *_: Dropped(rows.records(FileDropped)),
    "lookup": lambda rows, *_: rows.candidates(),
}
