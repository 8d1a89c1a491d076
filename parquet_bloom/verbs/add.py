"""`add`: gives column chunks filters, in files where they are or in new files that a table's commit swaps in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from parquet_bloom.format.sbbf import MAX_BYTES
from parquet_bloom.storage.listing import PathLike, StorageOptions
from parquet_bloom.verbs.add_files import DEFAULT_FPP, Added, AddOptions, add_files
from parquet_bloom.verbs.add_to_table import BATCH, add_to_table
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import parse_paths, rates_of

TableKind: TypeAlias = Literal["delta", "iceberg"]


def add(
    paths: PathLike | Iterable[PathLike] | Any,
    columns: Sequence[str] | Mapping[str, float] | str,
    *,
    table: bool | TableKind = False,
    catalog: str | None = None,
    fpp: float = DEFAULT_FPP,
    ndv: int | None = None,
    max_bytes: int = MAX_BYTES,
    replace: bool = False,
    fill_lengths: bool = False,
    output: PathLike | None = None,
    batch: int = BATCH,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    allow_large: bool = False,
    any_name: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Added:
    """Return what was done to give `columns` a filter in every row group that has none.

    Filters are sized for what the column chunks hold and then folded while their exact rate stays within `fpp`, or
    within the column's own rate where `columns` gives one for each, such as `{"id": 0.001, "session": 0.05}`;
    `ndv` fixes the size instead, `max_bytes` caps it (the result tells the worse rate). Sound filters are kept unless
    `replace`; `fill_lengths` gives kept ones the `bloom_filter_length` that they lack. The files are replaced
    atomically, or with `output` written there: a new file for one file, a directory for several.

    Every file is checked before the first is written. A file that cannot be done right is refused with its error and
    the others go on; `strict` raises at the first. A column that cannot have a filter is named among the file's
    `skipped_columns` and the other columns go on. Files inside a Delta, Iceberg, Hudi or Paimon table are refused
    unless `force`, and filters that are larger than their file (and than 1 MiB) unless `allow_large`. Of a directory,
    files whose names do not say Parquet (`.parquet`, `.parq`, `.pq`) are left as they are, with a note, unless
    `any_name`. Raises `ColumnNotFoundError` for a column that no file has.

    With `table=True` (or `"delta"`, `"iceberg"`), `paths` is a Delta or Iceberg table: its path or URL, a
    `deltalake.DeltaTable`, a pyiceberg `Table`, or the name of an Iceberg table (`namespace.table`) in the `catalog` of
    pyiceberg's own configuration. Each live file that lacks a filter gets a new file in its directory that starts with
    all of the old one's bytes; each `batch` of them takes the old ones' place in one commit that changes no data.
    Columns have the table's names. A file whose swap would lose or duplicate rows is refused, as is one that another
    writer took out of the table meanwhile; files that were added meanwhile are left for the next run. Raises
    `ConcurrentChangeError` when other writers leave no room for a commit, and `CorruptFileError` when one has committed
    over ours: OPTIMIZE of deltalake does that, so do not run it at the same time. Batches before the error stay
    committed, and new files that no snapshot holds are removed. If it is unknown whether a commit went through, they
    stay, and a note on the error names them.
    """
    if not table:
        if catalog is not None:
            raise ValueError("catalog= names an Iceberg catalog; it needs table=True")
        options = AddOptions(
            *(parse_paths(columns), fpp, ndv, max_bytes, replace, fill_lengths, keep_mtime, force, allow_large),
            any_name=any_name,
            rates=rates_of(columns),
        )
        return add_files(
            paths,
            options,
            output=output,
            dry_run=dry_run,
            strict=strict,
            jobs=jobs,
            filesystem=filesystem,
            storage_options=storage_options,
            progress=progress,
        )
    for name, value in {
        "fill_lengths": fill_lengths,
        "output": output is not None,
        "keep_mtime": keep_mtime,
        "force": force,
        "any_name": any_name,
        "strict": strict,
        "filesystem": filesystem is not None,
    }.items():
        if value:
            raise ValueError(f"{name}= cannot be combined with table=")
    return add_to_table(
        paths,
        columns,
        kind=None if table is True else table,
        catalog=catalog,
        fpp=fpp,
        ndv=ndv,
        max_bytes=max_bytes,
        replace=replace,
        allow_large=allow_large,
        batch=batch,
        dry_run=dry_run,
        jobs=jobs,
        storage_options=storage_options,
        progress=progress,
    )


__all__ = ["add"]
