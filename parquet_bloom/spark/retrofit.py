"""`add` and `drop` on executors: a call of the local verb for each file, wherever its task runs.

The local verb makes this safe: a file is replaced in one step or not at all, two writers exclude each other, and a
file that has its filters is left alone. So a task may fail, be killed, be repeated, or run twice at once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    FilterExistsError,
    ParquetBloomError,
    describe_error,
    not_found,
)
from parquet_bloom.filters.readers import readers_of
from parquet_bloom.filters.readers import settled as settled_readers
from parquet_bloom.format.sbbf import MAX_BYTES
from parquet_bloom.results import arrow_schema, to_row
from parquet_bloom.spark.conditions import LOG
from parquet_bloom.spark.session import cores, interruptibly, job
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import (
    COST_OF_A_FILE,
    TASKS_PER_CORE,
    balanced,
    driver_reads,
    error_on_executor,
    frame_of,
    paths_of,
    readable_errors,
)
from parquet_bloom.storage.links import require_inside, to_change
from parquet_bloom.storage.listing import PathLike, Source, find, listed
from parquet_bloom.storage.local_files import leftovers
from parquet_bloom.storage.rewrite import join_output, rewrite
from parquet_bloom.storage.s3 import is_s3, unfinished_uploads
from parquet_bloom.storage.store_errors import ask
from parquet_bloom.storage.strays import parquet_only
from parquet_bloom.verbs.add import add as add_here
from parquet_bloom.verbs.add_files import DEFAULT_FPP, Added
from parquet_bloom.verbs.drop import Dropped, FileDropped
from parquet_bloom.verbs.drop import drop as drop_here
from parquet_bloom.verbs.erase import Erased
from parquet_bloom.verbs.erase_files import FileErased
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import UNFAMILIAR, FileAdded, is_left_alone, targets_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES = 256 * 1024 * 1024
"""What a task takes on, at most: so much is read again where one is repeated."""

EARLIER = "was done since this call began, by an earlier attempt at the task or by another program"

WAITS = (*(0.1 * 2**n for n in range(7)), *(10.0,) * 30)
"""Seconds between attempts at a file that another writer holds: long enough for another attempt at it to end."""

_POLL_SECONDS, _DEATH_SECONDS = 0.2, 5.0

Row = FileAdded | FileDropped | FileErased
Outcome = tuple[Row, ColumnNotFoundError | None]
"""The row of a file; with the error if it lacks a requested column."""


def add(
    spark: SparkSession,
    paths: Any,
    columns: Sequence[str] | Mapping[str, float] | str,
    *,
    fpp: float = DEFAULT_FPP,
    ndv: int | None = None,
    max_bytes: int = MAX_BYTES,
    replace: bool = False,
    fill_lengths: bool = False,
    output: PathLike | None = None,
    readers: str | Sequence[str] | None = None,
    accept_hazards: bool = False,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    allow_large: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file: what was done to give `columns` a filter in every row group that has none.

    `paths` may be a DataFrame with a column `path`; all else is as for `parquet_bloom.add`. The job has run when this
    returns, and its rows are on the driver: using them again does not write again. Columns: those of `FileAdded`.

    Files are checked and written one by one: a file that cannot be done right, or is deleted meanwhile, is a row with
    the status `refused` and its error, and the others go on. A call that was interrupted can be repeated: files that
    are done are `unchanged`. Raises `ColumnNotFoundError` for a column that no file has.

    The readers are those that the driver knows of: the executors' environments name none.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    options = {
        "columns": dict(columns) if isinstance(columns, Mapping) else _as_list(columns),
        "jobs": 1,
        "fpp": fpp,
        "ndv": ndv,
        "max_bytes": max_bytes,
        "replace": replace,
        "fill_lengths": fill_lengths,
        "readers": readers_of(readers, accept_hazards=accept_hazards),
        "dry_run": dry_run,
        "keep_mtime": keep_mtime,
        "force": force,
        "allow_large": allow_large,
        "any_name": any_name,
        "follow_links": follow_links,
        "storage_options": storage_options,
    }
    work = _Adding(add_here, FileAdded, options)
    return retrofit(spark, paths, work, output=output, description="adding filters", progress=progress)


def drop(
    spark: SparkSession,
    paths: Any,
    columns: Sequence[str] | str | None = None,
    *,
    restore: bool = False,
    all: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file: what was done to take the filters of `columns` (default: all) away.

    `paths` may be a DataFrame with a column `path`; all else is as for `parquet_bloom.drop`, and rows and errors are as
    for `add`. Columns: those of `FileDropped`.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    options = {
        "columns": columns if columns is None else _as_list(columns),
        "restore": restore,
        "all": all,
        "jobs": 1,
        "dry_run": dry_run,
        "keep_mtime": keep_mtime,
        "force": force,
        "any_name": any_name,
        "follow_links": follow_links,
        "storage_options": storage_options,
    }
    work = Retrofit(drop_here, FileDropped, options)
    return retrofit(spark, paths, work, output=output, description="dropping filters", progress=progress)


def _as_list(columns: Sequence[str] | str) -> list[str]:
    """Return columns as a list that can be pickled; a bare string is one column."""
    return [columns] if isinstance(columns, str) else list(columns)


# ---- the driver's part -------------------------------------------------------------------


def retrofit(
    spark: SparkSession,
    paths: Any,
    work: Retrofit,
    *,
    output: PathLike | None,
    description: str,
    progress: Progress | None,
) -> DataFrame:
    """Carry out work on each file, and return its rows."""
    rows = carried_out(spark, paths, work, output=output, description=description, progress=progress)
    return local_frame(spark, rows, work.record)


def carried_out(
    spark: SparkSession,
    paths: Any,
    work: Retrofit,
    *,
    output: PathLike | None,
    description: str,
    progress: Progress | None,
) -> list[Row]:
    """Carry out work on each file; return what came of each."""
    work.call([])  # raises what would be wrong for any file
    given = listed(paths_of(paths))
    with driver_reads(work.options["storage_options"]):
        sources = parquet_only(find(given, storage_options=work.options["storage_options"]))
    if output is None:
        sources = to_change(sources, follow_links=work.options["follow_links"])
    work = work.of(sources)
    targets = targets_of(sources, given, output)
    there = _there(sources, targets, output)
    items = [
        Item(number, _name(source, source.path), source.size, target and _name(source, target), target not in there)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    settled = [work.settled(*each) for each in zip(items, sources, targets, strict=True)]
    try:
        changed = [item for item, outcome in zip(items, settled, strict=True) if outcome is None]
        done = iter(_outcomes(spark, changed, work, description, progress))
    except BaseException:
        _clear_away(sources, targets)
        _name_uploads(sources, targets)
        raise
    outcomes = [next(done) if outcome is None else outcome for outcome in settled]
    missing = [error for _, error in outcomes if error is not None]
    if missing and len(missing) == len(changed):
        raise missing[0]
    rows = [row for row, _ in outcomes]
    written = [source for source, row in zip(sources, rows, strict=True) if is_changed(row)]
    if written:
        _name_uploads(sources, targets)
        _refresh(spark, sources, output)
        work.finish(written)
    return rows


def is_changed(row: Row) -> bool:
    """Return whether a file was changed by this call, or by an earlier attempt at it."""
    return row.status in ("written", "removed") or EARLIER in row.notes


def _outcomes(
    spark: SparkSession, items: list[Item], work: Retrofit, description: str, progress: Progress | None
) -> list[Outcome]:
    """Return the outcome of each item, in order."""
    import pyarrow as pa

    if not items:
        return []
    weights = [item.size + COST_OF_A_FILE for item in items]
    num_tasks = max(TASKS_PER_CORE * cores(spark), -(-sum(weights) // TASK_BYTES))
    shares = [[items[index].packed() for index in share] for share in balanced(weights, num_tasks)]
    schema = pa.schema([("number", pa.int64()), ("outcome", pa.binary())])
    with job(spark, f"parquet_bloom: {description}", progress), readable_errors():
        rows = interruptibly(spark, frame_of(spark, shares, work, schema).collect)
    outcomes = {row["number"]: pickle.loads(row["outcome"]) for row in rows}
    return [outcomes[item.number] for item in items]


def _name(source: Source, path: str) -> str:
    """Return a path on the source's file system as executors can find it."""
    if source.is_local or "://" not in source.name:
        return path
    return f"{source.name.partition('://')[0]}://{path.lstrip('/')}"


def _there(sources: list[Source], targets: list[str | None], output: PathLike | None) -> set[str | None]:
    """Return those of the targets that exist, and None; with one listing where each look is a request."""
    if output is None or not sources:
        return {None}
    fs = sources[0].fs
    if sources[0].is_local:
        return {None, *(target for target in targets if target is None or os.path.lexists(target))}
    with suppress(FileNotFoundError):
        return {None, *ask(os.fspath(output), fs.find, join_output(fs, os.fspath(output)))}
    return {None}


def _clear_away(sources: list[Source], targets: list[str | None]) -> None:
    """Remove what killed tasks left half written, where the driver can see it.

    Spark has another process kill a task's Python, and calls the task ended before that is done.
    """
    left = [pair for pair in zip(sources, targets, strict=True) if pair[0].local is not None]
    deadline = time.monotonic() + _DEATH_SECONDS
    while (left := [pair for pair in left if not _is_clear(*pair)]) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _is_clear(source: Source, target: str | None) -> bool:
    """Return whether what is half written beside a local file is removed, if no living writer holds it."""
    try:
        if leftovers(Path(target or os.path.realpath(source.path))):
            (now,) = find(source.path)
            with rewrite(now, now.size, target=target):
                pass  # a rewrite clears its way, and leaves nothing itself unless it is committed
    except (ParquetBloomError, OSError):
        return False
    return True


def _name_uploads(sources: list[Source], targets: list[str | None]) -> None:
    """Log what killed tasks left unfinished on S3; it may also be another writer's, so it is not aborted."""
    if sources and is_s3(sources[0].fs):
        paths = [target or source.path for source, target in zip(sources, targets, strict=True)]
        for path, upload in unfinished_uploads(sources[0].fs, paths):
            LOG.warning(
                "%s has an unfinished upload %s: a killed task left it, or another program is writing; abort it with "
                "`aws s3api abort-multipart-upload`",
                *(path, upload),
            )


def _refresh(spark: SparkSession, sources: list[Source], output: PathLike | None) -> None:
    """Have Spark refresh what it cached of the folders that changed."""
    if output is not None:
        folders = [_name(sources[0], join_output(sources[0].fs, os.fspath(output)))]
    else:
        folders = [_name(source, source.path.removesuffix(source.relative).rstrip("/") or "/") for source in sources]
    for folder in dict.fromkeys(folders):
        with suppress(Exception):  # Spark has cached nothing of a store that it does not know
            spark.catalog.refreshByPath(f"file:{folder}" if sources[0].is_local else folder)


def local_frame(spark: SparkSession, rows: Iterable[Row], record: type[Row]) -> DataFrame:
    """Return records as a DataFrame that is on the driver."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame([_sayable(to_row(row)) for row in rows], from_arrow_schema(arrow_schema(record)))


def _sayable(value: Any) -> Any:
    """Return plain data whose texts are all UTF-8, as Spark needs it: the name of a file may not be."""
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    if isinstance(value, dict):
        return {key: _sayable(part) for key, part in value.items()}
    return [_sayable(part) for part in value] if isinstance(value, list) else value


# ---- the executors' part -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One file, as the driver found it; nothing was at its target then if that `is_new`."""

    number: int
    path: str
    size: int
    target: str | None
    is_new: bool

    def packed(self) -> str:
        """Return the item as text that Spark can carry, whatever bytes are in the names."""
        return json.dumps(dataclasses.astuple(self))


@dataclass(frozen=True)
class Retrofit:
    """A task that calls a verb for each of its files; each becomes a row, also one that fails."""

    verb: Callable[..., Added | Dropped | Erased]
    record: type[Row]
    options: dict[str, Any]

    def __call__(self, packed: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the outcome of each file."""
        for text in packed:
            item = Item(*json.loads(text))
            yield {"number": item.number, "outcome": pickle.dumps(self.outcome(item))}

    def call(self, paths: list[str], **options: Any) -> tuple[Row, ...]:
        """Return the verb's rows."""
        return self.verb(paths, **{**self.options, **options}).rows

    def settled(self, item: Item, source: Source, target: str | None) -> Outcome | None:
        """Return the outcome of a file that no task is to change, or None."""
        if is_left_alone(source, target, self.options["any_name"]):
            return self.left_alone(item)
        try:
            require_inside(source)
        except ParquetBloomError as error:
            return self.refused(item, describe_error(error)), None
        return None

    def left_alone(self, item: Item) -> Outcome:
        """Return that a file stays as it is, for its name."""
        return self.record(item.path, item.path, "unchanged", item.size, notes=(UNFAMILIAR,)), None  # type: ignore[arg-type]

    def outcome(self, item: Item) -> Outcome:
        """Return the outcome of one file; an error is part of it."""
        try:
            return self._row(item), None
        except Exception as error:
            row = self.refused(item, error_on_executor(error))
            return row, error if isinstance(error, ColumnNotFoundError) else None

    def refused(self, item: Item, error: str) -> Row:
        """Return that nothing was done to a file."""
        return self.record(item.path, item.target or item.path, "refused", item.size, error=error)  # type: ignore[arg-type]

    def of(self, sources: list[Source]) -> Retrofit:
        """Return the work with what the driver knows of the files."""
        return self

    def finish(self, written: list[Source]) -> None:
        """Do what is to be done once, on the driver, after files were written."""

    def _row(self, item: Item) -> Row:
        """Return the row of one file, once no other attempt at it is running."""
        for wait in WAITS:
            try:
                return self._done(item, strict=True)
            except ConcurrentChangeError:
                time.sleep(wait)
            except FilterExistsError:
                if item.is_new and (row := self._made(item)):
                    return row
                break
            except (ParquetBloomError, OSError):
                break
        return self._done(item)  # once more: the row of a refused file says more than its error

    def _done(self, item: Item, **options: Any) -> Row:
        is_changed = self._source(item).size != item.size
        if is_changed and "replace" in self.options:
            options["replace"] = False  # an earlier attempt has replaced its filters
        (row,) = self.call([item.path], output=item.target, **options)
        assert not isinstance(row, FileErased)
        if row.status == "unchanged" and row.size != item.size:
            return dataclasses.replace(row, notes=(*row.notes, EARLIER))
        return row

    def _source(self, item: Item) -> Source:
        """Return the file as it is now; the path of one that is gone is not read as a glob."""
        sources = find(item.path, storage_options=self.options["storage_options"])
        if len(sources) != 1 or item.path not in (sources[0].path, sources[0].name):
            raise not_found(f"{item.path}: no such file or directory")
        return sources[0]

    def _made(self, item: Item) -> Row | None:
        """Return the row of a file whose target an earlier attempt made; None if that is not what is there."""
        again = {"replace": False} if "replace" in self.options else {}
        (row,) = self.call([item.target or item.path], dry_run=True, **again)
        assert not isinstance(row, FileErased)
        if row.status != "unchanged":
            return None
        return dataclasses.replace(row, path=item.path, size=item.size, notes=(*row.notes, EARLIER))


class _Adding(Retrofit):
    """Adds filters for the readers that are known on the driver."""

    def of(self, sources: list[Source]) -> Retrofit:
        """Return the work with the readers of these files."""
        with driver_reads(self.options["storage_options"]):
            readers = settled_readers(self.options["readers"], sources)
        return dataclasses.replace(self, options=self.options | {"readers": readers})
