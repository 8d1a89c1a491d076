"""`inspect`: describes the filters of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Unpack

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters import engines
from parquet_bloom.filters.parquet import groups, why_distrusted
from parquet_bloom.filters.readers import Readers, readers_of
from parquet_bloom.filters.stored import (
    OtherFilter,
    TableFilters,
    description_of,
    filters_in_footer,
    index_entries,
    unusable_filters,
    with_filters_of_their_tables,
)
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, read_filter, read_footer, together, with_tail
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.results import Record, Table
from parquet_bloom.storage.drive import RequestLog, drive
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.values.encoding import why_uncountable, why_untrusted
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading
from parquet_bloom.verbs.parallel import Progress

FOLD_FPP = 0.01
"""The rate that `inspect` folds to when it reports what a filter could be reduced to."""


PARQUET = "Parquet"

# ---- inspect -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class FilterInfo(Record):
    """One filter as it stands in a file; one that is damaged says so in `problem`, one of a type whose filters never
    prune in `untrusted`, as does an encrypted column chunk whose key was not given: it may or may not have a filter.

    `format` is Parquet, or that of Hudi, Paimon or the index. These cover a whole file, so their `row_group`
    is None.

    Sizes and offsets are in bytes; `fill`, `fpp` and `worst_block_fpp` are rates of the bitset as it is, `ndv` the
    estimate from its bits; `folds_to` is the size at which its rate would still be within 1 %, or its own size.
    `used_by` are the engines that prune with it, `hazards` what engines that read the file lose because of it.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "row_group", "column", "num_bytes", "fpp", "problem")

    path: str
    row_group: int | None
    column: str
    type: str
    offset: int
    length: int | None
    num_bytes: int | None = None
    num_values: int | None = None
    fill: float | None = None
    fpp: float | None = None
    worst_block_fpp: float | None = None
    ndv: float | None = None
    folds_to: int | None = None
    used_by: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    untrusted: str | None = None
    problem: str | None = None
    format: str = PARQUET


@dataclass(frozen=True, slots=True, repr=False)
class FileInfo(Record):
    """One file: what wrote it, how many column chunks it has, and its filters; or the error that it gave."""

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "num_row_groups", "filters", "error")

    path: str
    size: int
    created_by: str = ""
    num_rows: int = 0
    num_row_groups: int = 0
    num_column_chunks: int = 0
    filters: tuple[FilterInfo, ...] = ()
    error: str | None = None

    @property
    def is_damaged(self) -> bool:
        """Whether the file or one of its filters is not sound."""
        return self.error is not None or any(f.problem for f in self.filters)


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(Table):
    """What `inspect` found, file by file; its rows are the filters."""

    TRUTH: ClassVar[str] = ".rows, or .errors"
    NOUN: ClassVar[str] = "filter"

    files: tuple[FileInfo, ...]

    @property
    def rows(self) -> tuple[FilterInfo, ...]:
        """Every filter of every file."""
        return tuple(f for file in self.files for f in file.filters)

    @property
    def errors(self) -> tuple[FileInfo, ...]:
        """The files that are not sound, or of which a filter is not."""
        return tuple(file for file in self.files if file.is_damaged)

    def _repr_html_(self) -> str:
        from parquet_bloom.drawing.page import pictures_of_filters

        return pictures_of_filters(self.files) + Table._repr_html_(self)


@with_reading
def inspect(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    readers: str | Sequence[str] | None = None,
    **how: Unpack[Reading],
) -> Inspection:
    """Return every filter of the given files, read as a whole, with its real false-positive rate.

    Damage is reported in the result and never raised.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB.
        columns: Leaf columns to describe. By default all.
        readers: The engines that read the files, and of which releases, such as `duckdb>=2,datafusion>=55`: what these
            lose because of filters is in `hazards`. By default the environment variable `PARQUET_BLOOM_READERS` names
            them; where it does not, any release of the last two years may read them.

    Returns:
        An `Inspection`: a row for each filter. `.files` has what is known of each file, `.errors` the damaged files.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.

    Examples:
        >>> inspection = parquet_bloom.inspect("events")
        >>> [(filter.row_group, filter.column, filter.num_bytes) for filter in inspection][:2]
        [(0, 'id', 4096), (1, 'id', 4096)]
        >>> inspection.errors
        ()
    """
    return inspect_lake(OpenLake(paths, **how), columns, readers=readers)


def inspect_lake(
    lake: OpenLake, columns: Sequence[str] | str | None = None, *, readers: str | Sequence[str] | None = None
) -> Inspection:
    """Return what `inspect` does of files that are open."""
    return inspect_sources(
        lake.files_to_show(),
        columns,
        readers=readers_of(readers),
        decryption=lake.decryption,
        storage_options=lake.storage_options,
        progress=lake.progress,
        log=lake.log,
    )


def inspect_sources(
    sources: Sequence[Source],
    columns: Sequence[str] | str | None = None,
    *,
    readers: Readers,
    decryption: Decryption | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    log: RequestLog | None = None,
    see: Callable[[Source, Footer], None] | None = None,
) -> Inspection:
    """Return what `inspect` does of files that were found; `see` is called with each footer."""
    wanted = _paths(columns)
    missing: dict[tuple[str, ...], ColumnNotFoundError] = {}
    present: set[tuple[str, ...]] = set()
    files = []
    entries = index_entries(sources)
    of_files = with_filters_of_their_tables(sources, storage_options=storage_options)
    plans = (
        (source, _inspect(source, wanted, entries.get(source, ()), kept, readers, decryption))
        for source, kept in of_files
    )
    strays = Strays()
    for done, (source, outcome) in enumerate(drive(refuse_links_out(plans), log=log), 1):
        if strays.take(source, outcome):
            pass
        elif isinstance(outcome, Exception):
            files.append(FileInfo(source.name, source.size, error=describe_error(outcome)))
        else:
            footer, info = outcome
            files.append(info)
            if see:
                see(source, footer)
            _note_missing(footer, wanted, source, present, missing)
        if progress:
            progress(done, len(sources))
    strays.rest(sources)
    for path in wanted or ():
        if path in missing and path not in present:
            raise missing[path]
    return Inspection(tuple(files))


def _inspect(
    source: Source,
    wanted: list[tuple[str, ...]] | None,
    indexed: Sequence[OtherFilter],
    kept: TableFilters,
    readers: Readers,
    decryption: Decryption | None,
) -> Plan[tuple[Footer, FileInfo]]:
    footer = yield from read_footer(source.size, decryption=decryption)
    leaves = tuple(leaf for leaf in footer.leaves if wanted is None or leaf.path in wanted)
    filters: list[FilterInfo] = []
    warnings = cache(partial(readers.warnings, footer))
    sealed = {(row_group, leaf): error for row_group, leaf, error in footer.sealed_chunks(leaves)}
    for chunks in groups(chunk for chunk in footer.chunks_with_filters(leaves) if chunk not in sealed):
        plans = (_inspect_chunk(source, footer, row_group, leaf, warnings) for row_group, leaf in chunks)
        infos = yield from with_tail(footer, together(plans))
        filters += (info for info in infos if info)
    filters += (_sealed(source, *chunk, error) for chunk, error in sealed.items())
    names = {leaf.name: leaf for leaf in leaves}
    filters += (
        _of_file(source, footer, names[one.column], one)
        for one in (
            *map(description_of, (*filters_in_footer(footer), *kept.filters)),
            *unusable_filters(footer),
            *indexed,
        )
        if one.column in names
    )
    return footer, FileInfo(
        source.name,
        source.size,
        footer.created_by,
        footer.num_rows,
        footer.num_row_groups,
        footer.num_row_groups * len(footer.leaves),
        tuple(filters),
        error=kept.problem,
    )


def _of_file(source: Source, footer: Footer, leaf: LeafColumn, one: OtherFilter) -> FilterInfo:
    about = one.description
    return FilterInfo(
        source.name,
        WHOLE_FILE,
        leaf.name,
        leaf.type_name,
        0,
        None,
        num_bytes=about.num_bytes if about else one.num_bytes,
        num_values=footer.num_rows,
        fill=about.fill if about else None,
        fpp=about.fpp if about else None,
        ndv=about.ndv if about else None,
        problem=one.problem,
        format=one.format,
    )


def _sealed(source: Source, row_group: int, leaf: LeafColumn, error: ParquetBloomError) -> FilterInfo:
    """Return what is known of a column chunk that could not be decrypted: not even whether it has a filter."""
    reason = describe_error(error)
    is_damaged = isinstance(error, CorruptFileError)
    return FilterInfo(
        source.name,
        row_group,
        leaf.name,
        leaf.type_name,
        0,
        None,
        untrusted=None if is_damaged else reason,
        problem=reason if is_damaged else None,
    )


WHOLE_FILE = None


def _inspect_chunk(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, warnings: Callable[..., tuple[str, ...]]
) -> Plan[FilterInfo | None]:
    chunk = footer.chunk(row_group, leaf)
    offset = (chunk and chunk.bloom_filter_offset) or 0
    length = chunk and chunk.bloom_filter_length

    def info(**fields: Any) -> FilterInfo:
        return FilterInfo(source.name, row_group, leaf.name, leaf.type_name, offset, length, **fields)

    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None
        bloom, _ = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError) as error:
        return info(problem=describe_error(error)) if offset else None
    return info(
        num_bytes=bloom.num_bytes,
        num_values=chunk.num_values,
        fill=bloom.fill,
        fpp=bloom.fpp,
        worst_block_fpp=bloom.worst_block_fpp,
        ndv=bloom.estimated_ndv,
        folds_to=bloom.folded_to(FOLD_FPP).num_bytes,
        used_by=engines.users(leaf, bloom.num_bytes),
        hazards=warnings(leaf, bloom.num_bytes, has_length=length is not None),
        untrusted=why_untrusted(leaf) or why_uncountable(leaf),
        problem=None if why_untrusted(leaf) else why_distrusted(footer, row_group, leaf, bloom),
    )


def _paths(columns: Sequence[str] | str | None) -> list[tuple[str, ...]] | None:
    if columns is None:
        return None
    return [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]


def _note_missing(
    footer: Footer,
    wanted: list[tuple[str, ...]] | None,
    source: Source,
    present: set[tuple[str, ...]],
    missing: dict[tuple[str, ...], ColumnNotFoundError],
) -> None:
    for path in wanted or ():
        try:
            source.find_leaf(footer.leaves, path)
            present.add(path)
        except ColumnNotFoundError as error:
            missing.setdefault(path, error)


def footers(sources: Iterable[Source], *, log: RequestLog | None = None) -> Iterator[tuple[Source, Footer | Exception]]:
    """Yield each source with its footer, or the error that it gave."""
    yield from drive(((s, read_footer(s.size)) for s in sources), log=log)
