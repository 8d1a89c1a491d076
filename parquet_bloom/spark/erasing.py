"""`erase` on executors: one task a file; what is to be done once, such as commits and indexes, the driver does."""

from __future__ import annotations

import dataclasses
import os
import pickle
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.results import FailedFile
from parquet_bloom.spark.conditions import LOG
from parquet_bloom.spark.retrofit import EARLIER, Item, Outcome, Retrofit, carried_out, local_frame
from parquet_bloom.spark.session import interruptibly, job
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import driver_reads, error_on_executor, frame_of, readable_errors
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.verbs.add import TableKind, refuse_without_table
from parquet_bloom.verbs.changes import BATCH
from parquet_bloom.verbs.erase import Erased, erase_from_table, erase_rows, refresh_indexes, refuse_options
from parquet_bloom.verbs.erase_files import ErasePlan, FileErased, erase_file
from parquet_bloom.verbs.erase_ledger import LedgerKeys
from parquet_bloom.verbs.erase_record import recording
from parquet_bloom.verbs.erase_table import Stored, beside
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.reading_keys import read_keys, require_no_null
from parquet_bloom.verbs.retrofit import UNFAMILIAR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def erase(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
    keep_empty: bool = False,
    dry_run: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    table: bool | TableKind = False,
    catalog: str | None = None,
    batch: int = BATCH,
    index: PathLike | None = None,
    where: Any = None,
    max_commits_per_minute: float | None = None,
    ledger: PathLike | None = None,
    ledger_secret: str | bytes | None = None,
    ledger_keys: LedgerKeys = "hmac",
    request: str | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file: what was done to take the rows with `keys` out of it.

    `paths` may be a DataFrame with a column `path`; all else is as for `parquet_bloom.erase`. The keys travel with the
    tasks. The job has run when this returns. A file that cannot be done right is a row with the status `refused` and
    its error, and the others go on. A call that was interrupted can be repeated. Columns: those of `FileErased`.

    With `table=`, tasks write the new files, one a task, and the driver does the rest as `parquet_bloom.erase` does:
    it searches for the keys, commits, searches what is live then, and writes the `ledger`, which only a table has here.
    """
    done = erase_everywhere(
        *(spark, paths, column, keys),
        timezone=timezone,
        keep_empty=keep_empty,
        dry_run=dry_run,
        any_name=any_name,
        follow_links=follow_links,
        table=table,
        catalog=catalog,
        batch=batch,
        index=index,
        where=where,
        max_commits_per_minute=max_commits_per_minute,
        ledger=ledger,
        ledger_secret=ledger_secret,
        ledger_keys=ledger_keys,
        request=request,
        storage_options=storage_options,
        progress=progress,
    )
    for failed in done.stale_indexes:
        LOG.warning("%s still has the keys: %s", failed.path, failed.error)
    for path in done.unreferenced:
        LOG.warning("%s: no version of the table has this file, which a task or a run that was killed has left", path)
    for note in done.notes:
        LOG.warning("%s", note)
    return local_frame(spark, done.rows, FileErased)


def erase_everywhere(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
    keep_empty: bool = False,
    dry_run: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    table: bool | TableKind = False,
    catalog: str | None = None,
    batch: int = BATCH,
    index: PathLike | None = None,
    where: Any = None,
    max_commits_per_minute: float | None = None,
    ledger: PathLike | None = None,
    ledger_secret: str | bytes | None = None,
    ledger_keys: LedgerKeys = "hmac",
    request: str | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> Erased:
    """Return what `erase` does as the local verb returns it."""
    read = read_keys(keys, parse_path(column)[-1])
    require_no_null(read)
    paths, storage_options = settled(spark, paths, storage_options, catalog=catalog)
    if table:
        refuse_options(keep_empty=keep_empty, any_name=any_name, follow_links=follow_links)
        with (
            recording(
                *(ledger, column, read, timezone),
                secret=ledger_secret,
                written=ledger_keys,
                request=request,
                like=keys,
            ) as record,
            driver_reads(storage_options),
        ):
            return erase_from_table(
                *(paths, column, read),
                timezone=timezone,
                dry_run=dry_run,
                strict=False,
                table=table,
                catalog=catalog,
                batch=batch,
                index=index,
                where=where,
                max_commits_per_minute=max_commits_per_minute,
                record=record,
                jobs=None,
                storage_options=storage_options,
                progress=progress,
                write=lambda plans, keys, _: _written(spark, plans, keys),
            )
    if catalog is not None:
        raise ValueError("catalog= names an Iceberg catalog; it needs table=True")
    refuse_without_table(table, where=where, max_commits_per_minute=max_commits_per_minute)
    if ledger is not None:
        raise ValueError("ledger= needs table=True on Spark; of plain files parquet_bloom.erase writes one")
    if request is not None:
        raise ValueError("request= is written to a ledger; it needs ledger=")
    options = {
        "column": column,
        "keys": read,
        "timezone": timezone,
        "keep_empty": keep_empty,
        "dry_run": dry_run,
        "any_name": any_name,
        "follow_links": follow_links,
        "jobs": 1,
        "storage_options": storage_options,
    }
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    if index is not None and not (isinstance(named, list | tuple) and len(named) == 1):
        raise ValueError("index= needs the path of one directory or table, whose index it is")
    work = _Erasure(_erase, FileErased, options, paths=None if index is None else named, index=index)
    done = carried_out(spark, paths, work, output=None, description="erasing rows", progress=progress)
    rows = tuple(row for row in done if isinstance(row, FileErased))
    return Erased(rows, tuple(work.stale))


# ---- plain files -------------------------------------------------------------------------


def _erase(paths: list[str], *, output: str | None = None, strict: bool = False, **options: Any) -> Erased:
    """Erase without refreshing indexes: tasks would get in each other's way."""
    assert output is None
    _, rows = erase_rows(paths, **options, strict=strict, filesystem=None, progress=None) if paths else ([], ())
    return Erased(rows)


@dataclass(frozen=True)
class _Erasure(Retrofit):
    """A task that erases the rows of its files; `stale` are the indexes that the driver could not refresh."""

    stale: list[FailedFile] = field(default_factory=list)
    paths: Any = None
    index: PathLike | None = None

    def left_alone(self, item: Item) -> Outcome:
        """Return that a file stays as it is, for its name."""
        return FileErased(item.path, "unchanged", bytes_before=item.size, notes=(UNFAMILIAR,)), None

    def refused(self, item: Item, error: str) -> FileErased:
        """Return that nothing was done to a file."""
        return FileErased(item.path, "refused", bytes_before=item.size, error=error)

    def finish(self, written: list[Source]) -> None:
        """Refresh the indexes of the folders that changed."""
        self.stale.extend(refresh_indexes(written, None, self.options["storage_options"], self.paths, self.index))

    def _done(self, item: Item, **options: Any) -> FileErased:
        try:
            size = self._source(item).size
        except FileNotFoundError:
            return FileErased(item.path, "removed", bytes_before=item.size, notes=(EARLIER,))
        (row,) = self.call([item.path], **options)
        assert isinstance(row, FileErased)
        if row.status == "unchanged" and size != item.size:
            return FileErased(item.path, "unchanged", bytes_before=item.size, notes=(*row.notes, EARLIER))
        return row


# ---- tables ------------------------------------------------------------------------------


def _written(spark: SparkSession, plans: Sequence[ErasePlan], keys: Stored) -> list[FileErased]:
    """Write the new file of each plan, a task for each; return what came of them."""
    import pyarrow as pa

    of_plans = {plan.leaf: keys(plan.leaf) for plan in plans}
    schema = pa.schema([("number", pa.int64()), ("outcome", pa.binary())])
    frame = frame_of(
        *(spark, [[str(number)] for number in range(len(plans))], _Write(of_plans), schema),
        parts=plans,
    )
    with job(spark, "parquet_bloom: erasing rows from a table", None), readable_errors():
        found = interruptibly(spark, frame.collect)
    outcomes = {row["number"]: pickle.loads(row["outcome"]) for row in found}
    rows = []
    for number, plan in enumerate(plans):
        row, target = outcomes[number]
        plan.target = target
        plan.source.fs.invalidate_cache(posixpath.dirname(target))  # of which this process does not know yet
        rows.append(row)
    return rows


@dataclass(frozen=True)
class _Write:
    """A task that writes the new file of a plan, by a name of its own: another attempt at it may still be writing."""

    keys: dict[LeafColumn, KeySet]

    def __call__(self, numbers: list[str], plan: ErasePlan) -> Iterator[dict[str, Any]]:
        """Yield what came of the plan, and where the new file is."""
        plan.target = beside(plan.source.path)
        try:
            row = erase_file(plan, self.keys[plan.leaf])
        except Exception as error:
            row = dataclasses.replace(plan.refused(error).row, error=error_on_executor(error))
        yield {"number": int(numbers[0]), "outcome": pickle.dumps((row, plan.target))}
