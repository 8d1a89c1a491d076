"""`erase` on executors: one task a file; what is to be done once, such as refreshing indexes, the driver does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parquet_bloom.spark.conditions import LOG
from parquet_bloom.spark.retrofit import EARLIER, Item, Outcome, Retrofit, retrofit
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.storage.listing import Source
from parquet_bloom.verbs.erase import Erased, erase_rows, refresh_indexes
from parquet_bloom.verbs.erase_files import FileErased
from parquet_bloom.verbs.keys import read_keys
from parquet_bloom.verbs.parallel import Progress
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
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return a row for each file: what was done to take the rows with `keys` out of it.

    `paths` may be a DataFrame with a column `path`; all else is as for `parquet_bloom.erase`. The keys travel with the
    tasks. The job has run when this returns. A file that cannot be done right is a row with the status `refused` and
    its error, and the others go on. A call that was interrupted can be repeated. Columns: those of `FileErased`.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    read = read_keys(keys, column.rpartition(".")[2])
    options = {
        "column": column,
        "keys": read,
        "timezone": timezone,
        "keep_empty": keep_empty,
        "dry_run": dry_run,
        "any_name": any_name,
        "jobs": 1,
        "storage_options": storage_options,
    }
    work = _Erasure(_erase, FileErased, options)
    return retrofit(spark, paths, work, output=None, description="erasing rows", progress=progress)


def _erase(paths: list[str], *, output: str | None = None, strict: bool = False, **options: Any) -> Erased:
    """Erase without refreshing indexes: tasks would get in each other's way."""
    assert output is None
    _, rows = erase_rows(paths, **options, strict=strict, filesystem=None, progress=None) if paths else ([], ())
    return Erased(rows)


@dataclass(frozen=True)
class _Erasure(Retrofit):
    """A task that erases the rows of its files."""

    def left_alone(self, item: Item) -> Outcome:
        """Return that a file stays as it is, for its name."""
        return FileErased(item.path, "unchanged", bytes_before=item.size, notes=(UNFAMILIAR,)), None

    def refused(self, item: Item, error: str) -> FileErased:
        """Return that nothing was done to a file."""
        return FileErased(item.path, "refused", bytes_before=item.size, error=error)

    def finish(self, written: list[Source]) -> None:
        """Refresh the indexes of the folders that changed."""
        for failed in refresh_indexes(written, None, self.options["storage_options"]):
            LOG.warning("%s still has the keys: %s", failed.path, failed.error)

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
