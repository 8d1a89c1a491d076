"""The full proof, from the data: `verify` decodes the columns that have filters, and probes each filter for each value.

A filter is wrong only if it lacks a value that is there. More bits than the values need are allowed: engines and
`add` insert companions of zeros and NaN on purpose, and a dictionary may hold values that no row uses.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar, Unpack

from parquet_bloom.errors import ColumnNotFoundError, ParquetBloomError, describe_error
from parquet_bloom.filters.parquet import StoredFilter, read_filters
from parquet_bloom.filters.protocol import FileFilter
from parquet_bloom.filters.readers import Readers, readers_of
from parquet_bloom.filters.stored import (
    OtherFilter,
    TableFilters,
    filters_in_footer,
    unusable_filters,
    with_filters_of_their_tables,
)
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.schema import find_leaf, parse_path
from parquet_bloom.results import Record, Table
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, wait_until_stable
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.values.arrays import hash_array, is_nan, plain_value
from parquet_bloom.values.encoding import format_value, hash_plain, why_untrusted
from parquet_bloom.values.mistakes import mistaken_encodings
from parquet_bloom.verbs.certificate import Certificate, Entry, certify, named, writing
from parquet_bloom.verbs.inspect import PARQUET, WHOLE_FILE
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading
from parquet_bloom.verbs.paimon_files import as_logical
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, share_threads

OK, FALSE_NEGATIVE, UNUSABLE = "ok", "false negative", "unusable"
"""The verdicts: every value is found; some value is not, so queries can lose rows; the filter cannot be used."""

_EXAMPLES = 20
_COINCIDENCE = 1e-4
"""Another chunk's filter is named when its false positives alone would hold the missing values less often."""


@dataclass(frozen=True, slots=True, repr=False)
class VerifiedFilter(Record):
    """The verdict on one filter.

    `num_values` counts the values that were probed, `num_missing` those that the filter lacks; `example` is one of
    them and `cause` the best guess at why, where there is one. `num_nans_missing` counts NaNs beside them: they are no
    false negatives, because a NaN is never pruned, but an engine that looks NaN up by its bits would lose them.
    `hazards` are what engines that read the file lose because of the filter, however right it is. One of another
    `format` covers the whole file: its `row_group` is None.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "row_group", "column", "verdict", "num_missing", "cause")

    path: str
    row_group: int | None
    column: str
    type: str
    verdict: str
    num_values: int = 0
    num_missing: int = 0
    num_nans_missing: int = 0
    example: str | None = None
    cause: str | None = None
    hazards: tuple[str, ...] = ()
    format: str = PARQUET


@dataclass(frozen=True, slots=True, repr=False)
class VerifiedFile(Record):
    """One file: the verdicts on its filters, and the error that it gave, or that its table's index of it gave."""

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "filters", "error")

    path: str
    created_by: str = ""
    filters: tuple[VerifiedFilter, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Table):
    """What `verify` found; its rows are the filters."""

    TRUTH: ClassVar[str] = ".is_sound, or .findings and .errors"
    NOUN: ClassVar[str] = "filter"

    files: tuple[VerifiedFile, ...]

    @property
    def rows(self) -> tuple[VerifiedFilter, ...]:
        """The verdict on every filter of every file."""
        return tuple(f for file in self.files for f in file.filters)

    @property
    def findings(self) -> tuple[VerifiedFilter, ...]:
        """The filters that are not ok."""
        return tuple(row for row in self.rows if row.verdict != OK)

    @property
    def errors(self) -> tuple[VerifiedFile, ...]:
        """The files that could not be checked, or of which a filter could not be."""
        return tuple(file for file in self.files if file.error or any(row.verdict == UNUSABLE for row in file.filters))

    @property
    def is_sound(self) -> bool:
        """Whether everything was checked, and no filter lacks a value."""
        return not self.findings and not self.errors

    def _said(self) -> str:
        return f"{Table._said(self)}, {len(self.findings):,} not ok"

    def _repr_html_(self) -> str:
        from parquet_bloom.drawing.page import pictures_of_findings

        return pictures_of_findings(self.files) + Table._repr_html_(self)


@with_reading
def verify(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    certificate: PathLike | None = None,
    readers: str | Sequence[str] | None = None,
    **how: Unpack[Reading],
) -> Verification:
    """Return for every filter whether it holds every value of its column chunk, decoded and hashed again.

    Damage is reported in the result and never raised.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB.
        columns: Leaf columns to check. By default all.
        certificate: A new local file, to write what was proved to, and the SHA-256 of all files, footers, pages and
            filters; for that every file is read a second time. It covers every column.
        readers: The engines that read the files, and of which releases, such as `duckdb>=2,datafusion>=55`: what these
            lose because of filters that are right is in `hazards`. By default the environment variable
            `PARQUET_BLOOM_READERS` names them; where it does not, any release of the last two years may read them.

    Returns:
        A `Verification`: a row for each filter. `.is_sound` is the answer, `.findings` the filters that are not ok, and
        `.errors` the files that could not be checked.

    Raises:
        FileExistsError: There is a file at `certificate`.
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.
        ValueError: `certificate` was given together with `columns`.

    Examples:
        >>> verified = parquet_bloom.verify("events")
        >>> verified.is_sound, len(verified), sum(row.num_values for row in verified)
        (True, 4, 2000)
    """
    return verify_lake(OpenLake(paths, **how), columns, certificate=certificate, readers=readers)


def verify_lake(
    lake: OpenLake,
    columns: Sequence[str] | str | None = None,
    *,
    certificate: PathLike | None = None,
    readers: str | Sequence[str] | None = None,
) -> Verification:
    """Return what `verify` does of files that are open."""
    prove = partial(
        verify_sources,
        readers=readers_of(readers),
        jobs=lake.jobs,
        storage_options=lake.storage_options,
        decryption=lake.decryption,
        progress=lake.progress,
    )
    sources = lake.files_to_show()
    if certificate is None:
        return prove(sources, columns)
    if columns is not None:
        raise ValueError("certificate= is about every column, so leave out columns=")
    if wait_until_stable(sources):
        sources = lake.files_to_show()
    with writing(certificate, sources) as written:
        return prove(sources, None, certificate=written)


def verify_sources(
    sources: list[Source],
    columns: Sequence[str] | str | None,
    *,
    readers: Readers,
    jobs: int | None,
    storage_options: StorageOptions,
    decryption: Decryption | None,
    progress: Progress | None,
    certificate: Certificate | None = None,
) -> Verification:
    """Return what `verify` does of files that were found."""
    wanted = None if columns is None else [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]
    tick = Ticker(progress, sum(source.size for source in sources))
    at_once, threads = share_threads(jobs, len(sources))

    def work(item: tuple[Source, _StoredFilters | Exception]) -> tuple[VerifiedFile, Entry]:
        source, outcome = item
        if isinstance(outcome, Exception):
            tick(source.size)
            failed = VerifiedFile(source.name, error=describe_error(outcome))
            return failed, named(source, error=failed.error)
        footer, filters, *_ = outcome
        with tick.part(source.size, sum(_num_values(footer, stored) for stored in filters)) as count:
            verified = _verify_file(source, outcome, readers, threads, count)
        return (verified, {}) if certificate is None else _certified(source, footer, filters, verified)

    missing: list[ColumnNotFoundError] = []

    def read() -> Iterable[tuple[Source, _StoredFilters | Exception]]:
        strays = Strays()
        of_files = with_filters_of_their_tables(sources, storage_options=storage_options)
        plans = ((source, _read_stored(source, wanted, kept, decryption)) for source, kept in of_files)
        for source, outcome in drive(refuse_links_out(plans)):
            if strays.take(source, outcome):
                tick(source.size)
                continue
            if isinstance(outcome, ColumnNotFoundError):
                missing.append(outcome)
            yield source, outcome
        strays.rest(sources)

    files = []
    with closing(map_in_order(work, read(), at_once, threading.Event())) as results:
        for verified, entry in results:
            files.append(verified)
            if certificate is not None:
                certificate.add(entry, _totals(verified))
    if missing and len(missing) == len(files):
        raise missing[0]
    return Verification(tuple(files))


def _certified(
    source: Source, footer: Footer, filters: list[StoredFilter], verified: VerifiedFile
) -> tuple[VerifiedFile, Entry]:
    """Return the verdicts on a file with what a certificate says of it; an error alone if the file was changed."""
    of_chunks = [row for row in verified.filters if row.row_group is not WHOLE_FILE]
    of_file = [row for row in verified.filters if row.row_group is WHOLE_FILE]
    try:
        return verified, {**certify(source, footer, filters, of_chunks, of_file), "error": verified.error}
    except (ParquetBloomError, OSError) as error:
        failed = replace(verified, filters=(), error=describe_error(error))
        return failed, named(source, error=failed.error)


def _totals(file: VerifiedFile) -> Counter[str]:
    return Counter(
        num_files=1,
        num_filters=len(file.filters),
        num_values=sum(row.num_values for row in file.filters),
        num_findings=sum(row.verdict != OK for row in file.filters),
        num_errors=file.error is not None,
    )


_StoredFilters = tuple[Footer, list[StoredFilter], list[FileFilter | OtherFilter], str | None]


def _read_stored(
    source: Source, wanted: list[tuple[str, ...]] | None, kept: TableFilters, decryption: Decryption | None
) -> Plan[_StoredFilters]:
    footer = yield from read_footer(source.size, decryption=decryption)
    leaves = footer.leaves if wanted is None else [source.find_leaf(footer.leaves, p) for p in wanted]
    others: list[FileFilter | OtherFilter] = [*filters_in_footer(footer), *kept.filters]
    others = [one for one in others if any(leaf.path == one.column for leaf in leaves)]
    others += (one for one in unusable_filters(footer) if any(leaf.name == one.column for leaf in leaves))
    return footer, (yield from read_filters(footer, leaves)), others, kept.problem


def _num_values(footer: Footer, stored: StoredFilter) -> int:
    """Return how many values a filter's column chunk has, as the footer counts."""
    chunk = footer.chunk(stored.row_group, stored.leaf)
    return max(0, chunk.num_values or 0) if chunk else 0


def _verify_file(
    source: Source, outcome: _StoredFilters, readers: Readers, threads: int, count: Callable[[int], None]
) -> VerifiedFile:
    footer, filters, others, problem = outcome
    if not filters and not others:
        return VerifiedFile(source.name, footer.created_by, error=problem)
    try:
        chunks = ColumnChunks(source, footer)
    except ParquetBloomError as error:
        return VerifiedFile(source.name, footer.created_by, error=describe_error(error))
    warnings = cache(partial(readers.warnings, footer))
    verdicts = map_in_order(
        lambda stored: _verify_filter(source, footer, chunks, stored, warnings, count),
        filters,
        threads,
        threading.Event(),
    )
    of_file = (_verify_of_file(source, footer, chunks, one) for one in others)
    return VerifiedFile(source.name, footer.created_by, (*verdicts, *of_file), problem)


def _verify_of_file(
    source: Source, footer: Footer, chunks: ColumnChunks, other: FileFilter | OtherFilter
) -> VerifiedFilter:
    """Return the verdict on a filter of another format, which is probed for every value of the file."""
    path = parse_path(other.column) if isinstance(other, OtherFilter) else other.column
    leaf = find_leaf(footer.leaves, path)

    def verdict(kind: str, **fields: Any) -> VerifiedFilter:
        return VerifiedFilter(source.name, WHOLE_FILE, leaf.name, leaf.type_name, kind, format=other.format, **fields)

    if isinstance(other, OtherFilter):
        return verdict(UNUSABLE, cause=other.problem)
    num_values = 0
    missing: list[Any] = []
    try:
        for row_group in range(footer.num_row_groups):
            for array in chunks.values(row_group, leaf):
                values = as_logical(leaf, array).drop_null()
                num_values += len(values)
                answers = other.might_contain_stored(values)
                missing += (values[at] for at, may_hold in enumerate(answers) if not may_hold)
    except (ParquetBloomError, OSError, TypeError) as error:  # a TypeError: it is not of the type that the table says
        return verdict(UNUSABLE, num_values=num_values, cause=describe_error(error))
    if not missing:
        return verdict(OK, num_values=num_values)
    return verdict(FALSE_NEGATIVE, num_values=num_values, num_missing=len(missing), example=_text(missing[0]))


def _text(value: Any) -> str:
    """Return an Arrow scalar as text, also one that is beyond Python's dates."""
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):
        return str(value.cast("string").as_py())


def _verify_filter(
    source: Source,
    footer: Footer,
    chunks: ColumnChunks,
    stored: StoredFilter,
    warnings: Callable[..., tuple[str, ...]],
    count: Callable[[int], None],
) -> VerifiedFilter:
    leaf, bloom, location = stored.leaf, stored.bloom, stored.location
    hazards: tuple[str, ...] = ()

    def verdict(kind: str, **fields: Any) -> VerifiedFilter:
        return VerifiedFilter(source.name, stored.row_group, leaf.name, leaf.type_name, kind, hazards=hazards, **fields)

    if bloom is None:
        return verdict(UNUSABLE, cause=stored.problem)
    hazards = warnings(leaf, bloom.num_bytes, has_length=location is not None and location.length is not None)
    if reason := why_untrusted(leaf):
        # Its values are not probed; an empty filter is wrong whatever they are.
        return verdict(FALSE_NEGATIVE if bloom.is_empty else OK, cause=f"never trusted: {reason}")
    counts = Counter[str]()
    examples: list[bytes] = []
    try:
        for array in chunks.values(stored.row_group, leaf):
            answers = bloom.check(hash_array(leaf, array))
            missing = _missing_values(array.drop_null(), answers) if 0 in answers else []
            nans = sum(is_nan(leaf, plain) for plain in missing)
            counts.update(values=len(answers), missing=len(missing) - nans, nans=nans)
            examples += (plain for plain in missing[:_EXAMPLES] if not is_nan(leaf, plain))
            count(len(array))
    except (ParquetBloomError, OSError) as error:
        return verdict(UNUSABLE, num_values=counts["values"], cause=describe_error(error))
    if not counts["missing"]:
        return verdict(OK, num_values=counts["values"], num_nans_missing=counts["nans"])
    return verdict(
        FALSE_NEGATIVE,
        num_values=counts["values"],
        num_missing=counts["missing"],
        num_nans_missing=counts["nans"],
        example=format_value(leaf, examples[0]),
        cause=_guess(source, footer, stored, examples[:_EXAMPLES]),
    )


def _missing_values(values: Any, answers: bytes) -> list[bytes]:
    return [plain_value(values, at) for at, is_found in enumerate(answers) if not is_found]


def _guess(source: Source, footer: Footer, stored: StoredFilter, missing: list[bytes]) -> str | None:
    """Return what would explain that these values are missing: a cause counts when it explains all of them."""
    assert stored.bloom is not None
    if stored.bloom.is_empty:
        return "the filter is empty"
    explained: dict[str, int] = {}
    for plain in missing:
        causes = {
            cause
            for cause, wrong in mistaken_encodings(stored.leaf, plain)
            if stored.bloom.check_hash(hash_plain(wrong))
        }
        for cause in causes:
            explained[cause] = explained.get(cause, 0) + 1
    likely = [cause for cause, count in explained.items() if count == len(missing)]
    return likely[0] if likely else _guess_other_chunk(source, footer, stored, missing)


def _guess_other_chunk(source: Source, footer: Footer, stored: StoredFilter, missing: list[bytes]) -> str | None:
    hashes = [hash_plain(plain) for plain in missing]
    for other in run(source, read_filters(footer, footer.leaves)):
        itself = (other.row_group, other.leaf) == (stored.row_group, stored.leaf)
        if other.bloom is None or itself or other.bloom.fpp ** len(missing) > _COINCIDENCE:
            continue
        if all(other.bloom.check_hash(h) for h in hashes):
            if other.leaf == stored.leaf:
                return f"wrong row group: the filter of row group {other.row_group} has them"
            return f"wrong column: the filter of column {other.leaf.name} has them"
    return None
