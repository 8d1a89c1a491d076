"""Runs a verb on Spark for the command line: with a session, and with the local verb's result."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import unquote

from parquet_bloom import spark
from parquet_bloom.errors import ParquetBloomError, UnsupportedError
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.schema import parse_path
from parquet_bloom.predicates.parsing import to_predicate, why_unused
from parquet_bloom.results import FailedFile, Record, from_row
from parquet_bloom.spark.erasing import erase_everywhere
from parquet_bloom.spark.finding import find_placed
from parquet_bloom.spark.lookups import find_candidates
from parquet_bloom.spark.session import changed, running
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import driver_reads, live_sources_of, local_path, name_of, to_arrow
from parquet_bloom.storage.drive import run as run_here
from parquet_bloom.storage.listing import Source, StorageOptions, find
from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.common_columns import POSITION, shown_name
from parquet_bloom.verbs.drop import Dropped, FileDropped
from parquet_bloom.verbs.erase import Erased
from parquet_bloom.verbs.find import Found, columns_of
from parquet_bloom.verbs.inspect import FileInfo, Inspection
from parquet_bloom.verbs.lookup import Lookup
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import FileAdded
from parquet_bloom.verbs.verdicts import FileVerdict, Pruning
from parquet_bloom.verbs.verify import Verification, VerifiedFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_Record = TypeVar("_Record", bound=Record)


def call(
    verb: str,
    master: str | None,
    *,
    paths: Any,
    timezone: str | None = None,
    catalog: str | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
    hide: Callable[[dict[str, Any]], None] = lambda options: None,
    **options: Any,
) -> Any:
    """Return the local verb's result, made by the verb of `parquet_bloom.spark` in the session of `running`.

    Spark's own errors become a `ParquetBloomError` of one sentence. `hide` is called with the options that are Spark's.
    """
    if verb in _OF_TABLES or verb == "erase":
        options["catalog"] = catalog
    allow_outside = options.get("allow_outside", False)
    if verb == "erase":
        options["timezone"] = timezone
    sources: list[Source] | None = [] if options.get("table") else None
    if sources is None and not isinstance(storage_options, str):
        # What is wrong with the paths is said before a session starts.
        sources = _sources(verb, paths, storage_options, catalog, allow_outside)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        with running(master) as session, changed(session, "spark.sql.session.timeZone", timezone):
            if progress is not None:
                progress(0, 0)  # Java has started, and prints no more
            _, storage_options = settled(session, paths, storage_options, catalog=catalog)
            if sources is None:
                hide(storage_options or {})
                sources = _sources(verb, paths, storage_options, catalog, allow_outside)
            internal: dict[str, Callable[..., Any]] = {
                "lookup": find_candidates,
                "find": find_placed,
                "erase": erase_everywhere,
            }
            function = internal.get(verb) or getattr(spark, verb)
            made: Any = function(session, paths, storage_options=storage_options, progress=progress, **options)
            if verb == "erase":
                return _renamed(made, _names(sources))
            frame, failed = made if verb == "lookup" else (made, {})
            rows = _InOrder(frame, sources, failed)
            return _RESULTS[verb](rows, **options)
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


_BY_PLACE: list[tuple[str, Literal["ascending"]]] = [("file", "ascending"), ("row", "ascending")]


def _as_listed(path: str, known: Mapping[str, str]) -> str:
    """Return what tasks call a file that Spark names: with another scheme, or percent-encoded, perhaps."""
    named = local_path(path)
    return known.get(_below_scheme(named)) or known.get(_below_scheme(unquote(named)), named)


def _below_scheme(path: str) -> str:
    return path.partition("://")[2] or path


def _in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return instants as files have them; Spark's are in the session's time zone."""
    import pyarrow as pa

    is_instant = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if is_instant else column


class _InOrder:
    """Rows that came from executors, in the order and under the names of the files here."""

    def __init__(self, frame: DataFrame, sources: Iterable[Source], failed: Mapping[str, str]) -> None:
        self._frame, self._failed = frame, failed
        self._sources = {name_of(source): source for source in sources}
        self._names = _names(sources)
        self._order = {path: number for number, path in enumerate(self._names)}

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

    def found(
        self,
        *,
        where: Any = None,
        column: str | None = None,
        columns: Sequence[str] | None = None,
        positions: bool = False,
        **_: Any,
    ) -> Found:
        """Return the rows as the stream that `find` gives, in the order of the files; their places come last."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = to_arrow(self._frame)
        *names, _, _ = rows.column_names
        if columns is not None:
            names = [shown_name(parse_path(name)) for name in columns]
        paths = rows.column(len(names)).combine_chunks().dictionary_encode()
        listed = {_below_scheme(name): name for name in self._names}
        known = [_as_listed(path, listed) for path in paths.dictionary.to_pylist()]
        order = pa.array([self._order.get(path, len(self._order)) for path in known], pa.int64()).take(paths.indices)
        numbers = rows.column(len(names) + 1).combine_chunks()
        arrays = [_in_utc(column) for column in rows.columns[: len(names)]]
        if positions:
            if taken := [name for name in POSITION if name in names]:
                raise UnsupportedError(f"the files have a column {taken[0]}, too; choose others by columns=")
            arrays += [
                pa.array([self._names.get(path, path) for path in known], pa.string()).take(paths.indices),
                self._row_groups(known, paths.indices, numbers),
                numbers,
            ]
            names += POSITION
        table = pa.table(arrays, names=names)
        table = table.take(pc.sort_indices(pa.table([order, numbers], names=["file", "row"]), _BY_PLACE))
        tested = columns_of(to_predicate(where)) if column is None else [parse_path(column)]
        return Found(iter(table.to_batches()), table.schema, condition_columns=[path[0] for path in tested])

    def _row_groups(self, known: list[str], files: pa.Array, numbers: pa.Array) -> pa.Array:
        """Return which row group each row is in, by its file and its number."""
        import numpy as np
        import pyarrow as pa

        of_files, rows = files.to_numpy(zero_copy_only=False), numbers.to_numpy(zero_copy_only=False)
        found = np.zeros(len(rows), np.int32)
        for index, path in enumerate(known):
            source = self._sources[path]
            footer = run_here(source, read_footer(source.size, guess=source.footer_guess))
            starts = np.cumsum([group.num_rows for group in footer.row_groups])
            of_file = of_files == index
            found[of_file] = np.searchsorted(starts, rows[of_file], side="right")
        return pa.array(found)


def _names(sources: Iterable[Source]) -> dict[str, str]:
    """Return the names of files by what executors call them: their working directory is another."""
    return {name_of(source): source.name for source in sources}


def _renamed(erased: Erased, names: Mapping[str, str]) -> Erased:
    return replace(erased, rows=tuple(replace(row, path=names.get(row.path, row.path)) for row in erased.rows))


_RESULTS: dict[str, Callable[..., Any]] = {
    "inspect": lambda rows, **_: Inspection(rows.records(FileInfo)),
    "verify": lambda rows, **_: Verification(rows.records(VerifiedFile)),
    "prune": lambda rows, where, **_: Pruning(
        str(to_predicate(where)), rows.records(FileVerdict), unused=why_unused(where)
    ),
    "add": lambda rows, **_: Added(rows.records(FileAdded)),
    "drop": lambda rows, **_: Dropped(rows.records(FileDropped)),
    "lookup": lambda rows, **_: rows.candidates(),
    "find": lambda rows, **options: rows.found(**options),
}
