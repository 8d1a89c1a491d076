"""`inspect`, `verify` and `prune` on executors: the local verbs, over more files than one driver should read."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError
from parquet_bloom.filters.readers import Readers, readers_of
from parquet_bloom.format.footer import read_footer
from parquet_bloom.predicates.binding import Findings, without_conflicts
from parquet_bloom.predicates.tree import Opaque, Predicate
from parquet_bloom.results import Record, arrow_schema, to_row
from parquet_bloom.spark.conditions import is_column, understood, warn_of_unused, without_nulls
from parquet_bloom.spark.session import Settings
from parquet_bloom.spark.stores import SparkOptions, for_spark, settled
from parquet_bloom.spark.tasks import GONE, inside, live_sources_of, name_of, only, present, run, sources_of
from parquet_bloom.spark.views import SparkView
from parquet_bloom.storage.drive import run as run_here
from parquet_bloom.storage.listing import Source, StorageOptions, find
from parquet_bloom.tables import Snapshot, fsspec_options
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.verbs.inspect import FileInfo, inspect_sources
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.prune import FileEvaluator
from parquet_bloom.verbs.verdicts import FileVerdict
from parquet_bloom.verbs.verify import VerifiedFile, verify_sources

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from parquet_bloom.tables.columns import TableColumn

_NOTE = "_note"
"""A column that a task fills in its first row, with what it reports of all its files."""


def inspect(
    spark: SparkSession,
    paths: Any,
    columns: Sequence[str] | str | None = None,
    *,
    readers: str | Sequence[str] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file, as `parquet_bloom.inspect` describes it, with its `filters`.

    `paths` may be a DataFrame with a column `path`. The job is done when this returns, and its rows stay on the
    executors until `unpersist()`. Columns: path, size, created_by, num_rows, num_row_groups, num_column_chunks,
    filters (an array of structs with the fields of `FilterInfo`), error. The driver's environment names the `readers`
    where they are not given. Raises `ColumnNotFoundError` for a column that no file has.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    call = partial(_inspected, columns=columns, readers=readers_of(readers), storage_options=storage_options)
    return _report(
        *(spark, sources_of(paths, storage_options), call),
        record=FileInfo,
        description="reading filters",
        progress=progress,
    )


def _inspected(paths: list[str], columns: Any, readers: Readers, storage_options: StorageOptions) -> list[FileInfo]:
    there, gone = present(paths, storage_options)
    sources = find(there, storage_options=storage_options)
    files = inspect_sources(sources, columns, readers=readers, storage_options=storage_options).files
    return [*files, *(FileInfo(path, 0, error=GONE) for path in gone)]


def verify(
    spark: SparkSession,
    paths: Any,
    columns: Sequence[str] | str | None = None,
    *,
    readers: str | Sequence[str] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file with the verdicts on its `filters`, as `parquet_bloom.verify` gives them.

    The job is done when this returns, and its rows stay on the executors until `unpersist()`. Columns: path,
    created_by, filters (an array of structs with the fields of `VerifiedFilter`), error. The driver's environment names
    the `readers` where they are not given. Raises `ColumnNotFoundError` for a column that no file has.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    call = partial(_verified, columns=columns, readers=readers_of(readers), storage_options=storage_options)
    return _report(
        *(spark, sources_of(paths, storage_options), call),
        record=VerifiedFile,
        description="verifying filters",
        progress=progress,
    )


def _verified(paths: list[str], columns: Any, readers: Readers, storage_options: StorageOptions) -> list[VerifiedFile]:
    there, gone = present(paths, storage_options)
    verified = verify_sources(
        find(there, storage_options=storage_options),
        columns,
        readers=readers,
        jobs=1,
        storage_options=storage_options,
        decryption=None,
        progress=None,
    )
    return [*verified.files, *(VerifiedFile(path, error=GONE) for path in gone)]


def _report(
    spark: SparkSession,
    sources: list[Source],
    call: Callable[..., Sequence[FileInfo | VerifiedFile]],
    *,
    record: type[FileInfo] | type[VerifiedFile],
    description: str,
    progress: Progress | None,
) -> DataFrame:
    rows = _noted(spark, sources, _Report(call), arrow_schema(record), description=description, progress=progress)
    notes = _notes(rows)
    missing = [note for note in notes if isinstance(note, ColumnNotFoundError)]
    if missing and True not in notes:
        rows.unpersist()
        raise missing[0]
    return _without_notes(rows)


@dataclass(frozen=True)
class _Report:
    """A task that reports on its files; its note: whether one has the columns, or the error if none has."""

    call: Callable[..., Sequence[FileInfo | VerifiedFile]]

    def __call__(self, paths: list[str]) -> Iterator[dict[str, Any]]:
        note: object
        try:
            records = self.call(paths)
            note = any(record.error is None for record in records)
        except ColumnNotFoundError as error:
            note, records = error, [_lacking(record, error) for record in self.call(paths, columns=())]
        yield from _with_note(records, note)


def _lacking(record: FileInfo | VerifiedFile, error: ColumnNotFoundError) -> FileInfo | VerifiedFile:
    """Return the record that the local verbs make of a file that lacks the columns, if others have them."""
    if isinstance(record, FileInfo) or record.error is not None:
        return record
    return replace(record, error=f"the file has no leaf column {error.name!r}")


# ---- prune -------------------------------------------------------------------------------


def prune(
    spark: SparkSession,
    paths: Any,
    where: Any,
    *,
    exact: bool = False,
    catalog: str | None = None,
    allow_outside: bool = False,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file with the verdicts on its row groups, as `parquet_bloom.prune` gives them.

    The session's time zone and case sensitivity are those of the condition. The job is done when this returns, and its
    rows stay on the executors until `unpersist()`. Columns: path, size, row_groups (an array of structs with the fields
    of `RowGroupVerdict`), not_pruned (why not, if so), excluded and by (empty: a table's log is not used
    here). A table is treated as its live files, with the filters that it has for them: its directory, or an Iceberg
    table by its name in a `catalog`, as pyiceberg has loaded it, or by its metadata file.
    Raises what `parquet_bloom.prune` does.
    """
    settings = Settings(spark)
    paths, storage_options = settled(spark, paths, storage_options, catalog=catalog)
    sources, snapshot = live_sources_of(paths, storage_options, catalog, allow_outside=allow_outside)
    options = storage_options if snapshot is None else fsspec_options(storage_options)
    unread = set() if snapshot is None else {file.path for file in snapshot.files if file.is_unread}
    readable = (source for source in sources if source.path not in unread)
    of_rows = next((source for source in readable if snapshot is None or source.path.endswith(".parquet")), None)
    predicate = _understood(spark, settings, where, of_rows, snapshot)
    if not settings.is_on("spark.sql.parquet.enableVectorizedReader", default=True):
        predicate = without_nulls(predicate)  # its other reader makes NULL of what a narrower type cannot hold
    view = SparkView.of_session(settings)
    work = _Prune(predicate, settings.timezone, settings.case_sensitive, options, view, exact)
    found, findings = without_conflicts(
        lambda conflicting: _verdicts(spark, sources, snapshot, replace(work, conflicting=conflicting), progress),
        discard=lambda frame: frame.unpersist(),
    )
    if not found.where("not_pruned is null").isEmpty():
        findings.raise_unless_bound()
    return _without_notes(found)


def _understood(
    spark: SparkSession, settings: Settings, where: Any, source: Source | None, snapshot: Snapshot | None
) -> Predicate:
    """Return the condition as our predicate; a Column is over the columns of this file, under its table's names."""
    from pyspark.errors import PySparkException

    frame = None if source is None else partial(_rows_of, spark, source, snapshot)
    try:
        predicate = understood(settings, where, frame)
    except PySparkException as error:
        has_others = snapshot is not None and (snapshot.naming.renames or snapshot.naming.retypes)
        if snapshot is None or not (has_others or any(file.partition for file in snapshot.files)):
            raise
        # The table may have a column that this file lacks.
        predicate = Opaque(f"{where} ({str(error).splitlines()[0]})")
    if is_column(where):  # of text, the verdicts' reasons and the command say so
        warn_of_unused(settings, where, predicate)
    return predicate


def _rows_of(spark: SparkSession, source: Source, snapshot: Snapshot | None) -> DataFrame:
    if snapshot is not None and snapshot.naming.retypes and snapshot.columns is not None:
        return _empty(spark, snapshot.columns())  # a file may have other types
    frame = spark.read.parquet(for_spark(Settings(spark), name_of(source)))
    if snapshot is None or not snapshot.naming.renames:
        return frame
    footer = run_here(source, read_footer(source.size, guess=source.footer_guess))
    pairs = zip(footer.leaves, snapshot.leaves(footer), strict=True)
    names = {leaf.path[0]: renamed.path[0] for leaf, renamed in pairs}
    return frame.toDF(*(names.get(name) or f"{uuid.uuid4()} (not of the table)" for name in frame.columns))


def _empty(spark: SparkSession, columns: Iterable[TableColumn]) -> DataFrame:
    """Return a frame of a table's columns whose types are known."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    known = pa.schema([(column.name, column.type) for column in columns if column.type is not None])
    return spark.createDataFrame([], from_arrow_schema(known))


def _verdicts(
    spark: SparkSession, sources: list[Source], snapshot: Snapshot | None, work: _Prune, progress: Progress | None
) -> tuple[DataFrame, Findings]:
    schema = arrow_schema(FileVerdict)
    rows = _noted(spark, sources, work, schema, description="pruning", progress=progress, snapshot=snapshot)
    findings = Findings()
    for note in _notes(rows):
        findings.merge(note)
    return rows, findings


@dataclass(frozen=True)
class _Prune:
    """A task that prunes its files; its note is what it learned of the condition's columns."""

    predicate: Predicate
    timezone: str
    case_sensitive: bool
    storage_options: StorageOptions
    view: SparkView
    exact: bool
    conflicting: frozenset[int] = frozenset()

    def __call__(self, paths: list[str], part: Snapshot | None = None) -> Iterator[dict[str, Any]]:
        is_table = part is not None
        paths, part, unread = inside(paths, part)
        there, gone = present(paths, self.storage_options, literal=is_table)
        sources = find(there, storage_options=self.storage_options, literal=is_table)
        table = None if part is None else TableFiles(only(part, paths, there), sources, self.storage_options)
        evaluator = FileEvaluator(
            self.predicate,
            timezone=self.timezone,
            case_sensitive=self.case_sensitive,
            table=table,
            view=self.view,
            open_files={} if self.exact else None,
        )
        files, findings = evaluator.evaluate(sources, conflicting=self.conflicting)
        if self.exact:
            files = evaluator.plan_exact(sources, files).carry_out(jobs=1)
        kept = [FileVerdict(file.path, file.size, not_pruned=file.not_excluded) for file in unread]
        yield from _with_note([*files, *kept, *(FileVerdict(path, 0, not_pruned=GONE) for path in gone)], findings)


# ---- rows with a note --------------------------------------------------------------------


def _noted(
    spark: SparkSession,
    sources: list[Source],
    work: Any,
    schema: pa.Schema,
    *,
    description: str,
    progress: Progress | None,
    snapshot: Snapshot | None = None,
) -> DataFrame:
    import pyarrow as pa

    return run(
        *(spark, sources, work, schema.append(pa.field(_NOTE, pa.binary()))),
        description=f"parquet_bloom: {description}",
        snapshot=snapshot,
        progress=progress,
    )


def _with_note(records: Iterable[Record], note: object) -> Iterator[dict[str, Any]]:
    data: bytes | None = pickle.dumps(note)
    for record in records:
        yield {**to_row(record), _NOTE: data}
        data = None


def _notes(noted: DataFrame) -> list[Any]:
    return [pickle.loads(row[0]) for row in noted.where(f"{_NOTE} is not null").select(_NOTE).collect()]


def _without_notes(noted: DataFrame) -> DataFrame:
    """Return a frame that is persisted itself, so that its `unpersist` frees the rows."""
    rows = noted.drop(_NOTE).persist()
    rows.count()
    noted.unpersist()
    return rows
