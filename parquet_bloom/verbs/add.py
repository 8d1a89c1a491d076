"""`add`: gives column chunks filters, in files where they are or in new files that a table's commit swaps in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from parquet_bloom.filters.readers import readers_of
from parquet_bloom.format.sbbf import MAX_BYTES
from parquet_bloom.storage.listing import PathLike, StorageOptions
from parquet_bloom.verbs.add_files import DEFAULT_FPP, Added, AddOptions, add_files
from parquet_bloom.verbs.add_to_table import add_to_table
from parquet_bloom.verbs.advise import advise
from parquet_bloom.verbs.changes import BATCH
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import parse_paths, rates_of

TableKind: TypeAlias = Literal["delta", "iceberg"]


def add(
    paths: PathLike | Iterable[PathLike] | Any,
    columns: Sequence[str] | Mapping[str, float] | str | None = None,
    *,
    auto: bool = False,
    policy: bool = False,
    table: bool | TableKind = False,
    catalog: str | None = None,
    fpp: float | None = None,
    ndv: int | None = None,
    max_bytes: int = MAX_BYTES,
    replace: bool = False,
    fill_lengths: bool = False,
    output: PathLike | None = None,
    batch: int = BATCH,
    where: Any = None,
    max_commits_per_minute: float | None = None,
    readers: str | Sequence[str] | None = None,
    accept_hazards: bool = False,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    allow_large: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    in_place: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Added:
    """Return what was done to give `columns` a filter in every row group that has none.

    A filter is sized for what the column chunk holds, and then folded while its exact rate stays within `fpp`. Sound
    filters are kept. Every file is checked before the first is written, and each is replaced atomically. A file that
    cannot be done right is refused with its error, and a column that cannot have a filter is among the file's
    `skipped_columns`; the others go on.

    With `table=`, each live file that lacks a filter gets a new file beside it, which starts with all of the old one's
    bytes. New files take the old ones' place in commits that change no data. Columns have the table's names. Files are
    refused whose swap would lose or duplicate rows, or that another writer has removed; files that were added meanwhile
    are left for the next run. Do not run deltalake's OPTIMIZE at the same time: it commits over other writers. If an
    error ends the run, earlier batches stay committed, and new files that no snapshot has are removed. If it is not
    known whether a commit reached the table, they stay, and a note on the error names them.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. With
            `table=`, a table: its path or URL, a `deltalake.DeltaTable`, a pyiceberg `Table`, or its name in `catalog`.
        columns: Leaf columns. A dict such as `{"id": 0.001, "session": 0.05}` gives each a rate of its own.
        auto: Choose columns and rates as `advise` does, instead of `columns`. A file gets those that it has.
        policy: With `table=`: give the columns that the table's own properties name the filters that they ask for, such
            as `write.parquet.bloom-filter-enabled.column.id` of Iceberg. Files that have them stay.
        table: `paths` is a Delta or Iceberg table. Name the kind only if it should not be detected.
        catalog: A catalog of pyiceberg's configuration; `paths` is then the name of an Iceberg table, such as
            `db.events`.
        fpp: The false-positive rate to stay within. By default 0.01, or with `auto` what fits each column.
        ndv: Size filters for this many distinct values per row group, and do not fold them below that.
        max_bytes: The largest filter to write. The rate may get worse; the result has the rate you get.
        replace: Build filters again where there are sound ones.
        fill_lengths: Give kept filters the `bloom_filter_length` that older writers left out.
        output: Write new files here and leave the old ones: a directory, or a path for one file.
        batch: With `table=`: files per commit.
        where: With `table=`: only files of these partitions, by a condition on partition columns alone, such as
            `day >= '2026-01-01'`. Files whose partition values are not understood are refused.
        max_commits_per_minute: With `table=`: how many commits a minute may have, for tables that others write to.
        readers: The engines that read the files, and of which releases, such as `duckdb>=2,datafusion>=55`. A column on
            which one of these would lose rows because of filters is left out, with the reason. With `table=` they are
            remembered as the table's property `parquet-bloom.readers`. By default that property names them, or the
            index of a directory that the files are in, or the environment variable `PARQUET_BLOOM_READERS`; where none
            does, any release of the last two years may read them.
        accept_hazards: Also give those columns filters.
        dry_run: Only report what would be done.
        keep_mtime: Keep the files' modification times.
        force: Change files even inside a Delta, Iceberg, Hudi or Paimon table, whose readers may then fail.
        allow_large: Write filters even if they are larger than 1 MiB and than their file.
        any_name: In directories, also change files whose names do not end in `.parquet`, `.parq` or `.pq`.
        follow_links: Also change files outside of the given folders, to which symbolic links in these lead.
        in_place: Append to local files where they are, without a copy, for files that do not fit twice on their disk.
            Readers may fail while filters are appended, and after a crash the file needs `recover`.
        strict: Raise for the first file that is refused, before anything is written.
        jobs: Threads. By default one for each processor.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        progress: Is called with how much is done and how much there is in all. It counts bytes of column chunks, or
            files of a table.

    Returns:
        An `Added`: a row for each file, none if `auto` finds no column that is worth a filter. `.errors` are the files
        that were refused, or that lack one of the filters.

    Raises:
        FileNotFoundError: A path names nothing, or no table.
        ColumnNotFoundError: No file has one of the columns.
        ValueError: An option has a value that makes no sense, or does not go with `table=`.
        ConcurrentChangeError: Other writers left no room for a commit.
        CorruptFileError: Another writer has committed over ours.

    Examples:
        >>> (row,) = parquet_bloom.add("events/a.parquet", "user", output="with_filters.parquet")
        >>> row.status, len(row.filters)
        ('written', 2)
    """
    ways = (columns is not None) + auto + policy
    if ways > 1:
        raise ValueError("give only one of columns=, auto= and policy=")
    if ways == 0:
        of_table = ", or policy=True for those of the table's properties" if table else ""
        raise ValueError(f"which columns? give columns=, or auto=True for those that `advise` finds{of_table}")
    if policy and not table:
        raise ValueError("policy= needs table=True")
    if catalog is not None and not table:
        raise ValueError("catalog= names an Iceberg catalog; it needs table=True")
    refuse_without_table(table, where=where, max_commits_per_minute=max_commits_per_minute)
    if auto:
        given: dict[str, Any] = {"catalog": catalog} if table else {"filesystem": filesystem}
        given |= {"readers": readers, "accept_hazards": accept_hazards}
        columns = advise(paths, fpp=fpp, jobs=jobs, storage_options=storage_options, **given).columns
        if not columns:
            return Added(())
    fpp = DEFAULT_FPP if fpp is None else fpp
    if not table:
        assert columns is not None
        options = AddOptions(
            parse_paths(columns),
            fpp=fpp,
            ndv=ndv,
            max_bytes=max_bytes,
            replace=replace,
            fill_lengths=fill_lengths,
            keep_mtime=keep_mtime,
            force=force,
            allow_large=allow_large,
            any_name=any_name,
            in_place=in_place,
            rates=rates_of(columns),
            readers=readers_of(readers, accept_hazards=accept_hazards),
            is_advised=auto,
        )
        return add_files(
            paths,
            options,
            output=output,
            follow_links=follow_links,
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
        "follow_links": follow_links,
        "in_place": in_place,
        "strict": strict,
        "filesystem": filesystem is not None,
    }.items():
        if value:
            raise ValueError(f"{name}= cannot be used with table=")
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
        where=where,
        max_commits_per_minute=max_commits_per_minute,
        readers=readers,
        accept_hazards=accept_hazards,
        dry_run=dry_run,
        jobs=jobs,
        storage_options=storage_options,
        progress=progress,
    )


def refuse_without_table(table: bool | TableKind, **options: Any) -> None:
    """Raise `ValueError` for an option that is given, but takes a table."""
    for name, value in options.items():
        if value is not None and not table:
            raise ValueError(f"{name}= needs table=True")


__all__ = ["add", "refuse_without_table"]
