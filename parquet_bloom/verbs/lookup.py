"""Which row groups can hold which of many keys: what an upsert or a deletion request needs to know.

Keys are encoded and hashed once for each type of column, and sorted by value. A row group's statistics then cut out a
run of them, its filter is read once, and the run's hashes are checked in bulk.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Unpack

from parquet_bloom import _kernel
from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError, describe_error
from parquet_bloom.filters.parquet import NO_FILTER, groups, why_distrusted
from parquet_bloom.filters.protocol import FileFilter
from parquet_bloom.filters.stored import NO_FILTERS, TableFilters, filters_in_footer, with_table_filters
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import FilterLocation, Footer, Plan, together, with_tail
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import ColumnPath, LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.predicates.binding import Findings, View, comparable_type, more_telling, why_conflicting
from parquet_bloom.predicates.evaluation import FileWithFooter
from parquet_bloom.results import NOT_UNICODE, FailedFile, in_unicode
from parquet_bloom.storage.cache import SHARED, Cache, cached_filters, filter_of, footer_of
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, changes, drive
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.local_files import new_file
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables import LiveFile, Snapshot, fsspec_options
from parquet_bloom.tables.placement import Columns, Unknown
from parquet_bloom.tables.snapshots import TableFiles, leaf_at
from parquet_bloom.values.arrays import indexes_of, numbers_as_arrow
from parquet_bloom.values.encoding import why_uncountable
from parquet_bloom.values.interchange import python_values
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.statistics import StatisticsReader
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.checks import Check, Checks
from parquet_bloom.verbs.opening import Opened, OpenLake, Reading, with_reading
from parquet_bloom.verbs.parallel import Progress, num_threads
from parquet_bloom.verbs.reading_keys import read_keys
from parquet_bloom.verbs.streams import Stream
from parquet_bloom.verbs.verdicts import MIGHT_MATCH, FileVerdict, Pruning, RowGroupVerdict

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from parquet_bloom.filters.index import BloomIndex, Filters

IN_FILTER = "the filter says the key may be present"
TOO_MANY = "with this many keys, some pass its filter by chance"

_SURE = 20
"""Of so many keys that are expected to pass a filter by chance, one does."""

_HOPELESS = 100_000
"""With so many keys, some are sure to pass any filter by chance: it is not even read where no budget is left."""

LOG = logging.getLogger("parquet_bloom")


class Hit(NamedTuple):
    """The keys, by index, that one row group (or a whole file, None) may hold; None for all of them."""

    row_group: int | None
    keys: Sequence[int] | None
    reason: str


class _Checked(NamedTuple):
    """What will be the hit of a row group once its filter's checks are carried out."""

    row_group: int
    check: Check
    wide: Check | None
    repeats: bool

    @property
    def is_done(self) -> bool:
        return self.check.is_done and (self.wide is None or self.wide.is_done)

    def owners(self) -> Sequence[int]:
        owners: Sequence[int] = self.check.owners()
        if self.wide is not None:
            owners = array("i", owners) + array("i", self.wide.owners())
        return array("i", dict.fromkeys(owners)) if self.repeats else owners


class _Searched(NamedTuple):
    """What was found in a file; `may_hold` has which keys filters of other formats leave possible, None for all."""

    found: Sequence[Hit | _Checked]
    may_hold: Sequence[int] | None = None
    kept: TableFilters = NO_FILTERS

    @property
    def is_done(self) -> bool:
        """Whether `hits` returns at once."""
        return all(type(one) is Hit or one.is_done for one in self.found)  # type: ignore[union-attr]

    def hits(self) -> list[Hit]:
        hits = []
        for one in self.found:
            if isinstance(one, Hit):
                hits.append(one)
            elif owners := one.owners():
                hits.append(Hit(one.row_group, owners, IN_FILTER))
        if self.may_hold is not None:
            hits = [narrowed for hit in hits if (narrowed := _narrowed(hit, self.may_hold)).keys]
        return hits if self.kept.problem is None else [h._replace(reason=self.kept.explained(h.reason)) for h in hits]


# ---- searching ---------------------------------------------------------------------------


@dataclass(slots=True)
class Search:
    """What is looked up in each file."""

    path: tuple[str, ...]
    keys: Keys
    _: KW_ONLY
    timezone: str | None
    cache: Cache = SHARED
    limits: Limits = DEFAULT_LIMITS
    decryption: Decryption | None = None
    snapshot: Snapshot | None = None
    index: BloomIndex | None = None
    storage_options: StorageOptions = None
    by_index: dict[Source, Sequence[int]] = field(default_factory=dict)
    """The keys that the index leaves possible in files."""
    readers: dict[LeafColumn, StatisticsReader] = field(default_factory=dict)
    literals: tuple[Any, ...] | None = None
    findings: Findings = field(default_factory=Findings)
    is_rebasing: bool = False
    """Whether the one who reads shifts days before 1582, whatever wrote them."""
    view: View | None = None
    budget: int | None = None
    """How many keys are still to be checked where some are sure to pass by chance; None for all."""
    checks: Checks = field(default_factory=Checks)
    schemas: dict[int, tuple[Source, Footer]] = field(default_factory=dict)
    """A file of each schema that was seen, by the identity of its leaves."""
    warns: bool = False
    """Whether the log is still to be told if filters cannot help."""
    _last: tuple[LeafColumn, KeySet, StatisticsReader] | None = None

    @classmethod
    def of(cls, lake: OpenLake, opened: Opened, path: ColumnPath, keys: Keys, **others: Any) -> Search:
        """Return a search of a lake's files as it reads them."""
        return cls(
            path,
            keys,
            timezone=lake.timezone,
            cache=lake.cache,
            limits=lake.limits,
            decryption=lake.decryption,
            snapshot=opened.table.snapshot if opened.table else None,
            index=opened.index,
            storage_options=lake.storage_options,
            checks=Checks(num_threads(lake.jobs)),
            **others,
        )

    def unprovable(self, file: LiveFile) -> str | None:
        """Return why nothing that is known of a table's file proves the absence of a key, or None."""
        assert self.snapshot is not None
        name = self.path[0]
        by_path = f"readers may take {name} from the file's path" if name in dict(file.directories) else None
        return file.not_excluded or dict(self.snapshot.unproved(file)).get(name) or by_path

    def unprovable_in(self, columns: Columns) -> str | None:
        """Return why a table's file with these columns does not prove the absence of a key, or None."""
        return None if self.snapshot is None else dict(self.snapshot.unproved_in(columns)).get(self.path[0])

    def bound(self, leaf: LeafColumn) -> tuple[KeySet, StatisticsReader]:
        """Return the keys for a leaf, and what reads its bounds. Raises `LiteralError` as `stored_in` does."""
        last = self._last  # of another thread, perhaps, by the next line
        if last is not None and last[0] is leaf:  # most files share one; to hash it takes longer
            return last[1:]
        if leaf not in self.readers:
            self.readers[leaf] = StatisticsReader(leaf)
        as_read = _without_calendar(leaf) if self.is_rebasing else leaf
        last = self._last = leaf, self.keys.stored_in(as_read, self.timezone), self.readers[leaf]
        return last[1:]

    def note_type(self, leaf: LeafColumn) -> None:
        """Note the type of the column in a file, whether or not the keys fit it."""
        if self.view is None or not self.view.knows_types:
            self.findings.note_kind(_KEYS, comparable_type(leaf))

    @property
    def conflict(self) -> Hit | None:
        """The hit of each file, if the files that were looked at hold the column as different types."""
        return Hit(None, None, why_conflicting(format_path(self.path))) if self.findings.conflicting else None

    def leaves(self, footer: Footer) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the names of the one who reads it, but a table's under its own."""
        return footer.leaves if self.view is None or self.snapshot is not None else self.view.leaves(footer)

    def values(self, leaf: LeafColumn) -> tuple[Any, ...]:
        """Return the keys as literals, for filters that hash them in a way of their own; None for what is none."""
        if self.keys.are_text and not (leaf.logical_type and leaf.logical_type.name == "STRING"):
            return (None,) * len(self.keys)
        if self.literals is None:
            is_arrow = self.keys.literals is self.keys.shown
            self.literals = python_values(self.keys.shown) if is_arrow else tuple(self.keys.literals)
        return self.literals


def _without_calendar(leaf: LeafColumn) -> LeafColumn:
    logical = leaf.logical_type
    return leaf if logical is None else replace(leaf, logical_type=replace(logical, is_proleptic=False))


def _search_file(source: Source, search: Search, kept: TableFilters) -> Plan[_Searched]:
    if in_unicode(source.name) != source.name:
        raise UnsupportedError(NOT_UNICODE)
    footer = yield from footer_of(source, search.cache, search.decryption)
    search.schemas.setdefault(id(footer.leaves), (source, footer))
    if reason := search.unprovable_in(footer):
        return _Searched([Hit(None, None, reason)])
    snapshot, path = search.snapshot, search.path
    if snapshot is not None:
        if isinstance(place := snapshot.locate(footer, path), Unknown):
            return _Searched([Hit(None, None, place.reason)])
        leaf = seen = snapshot.find(footer, path)
    else:
        seen = source.find_leaf(search.leaves(footer), path)
        leaf = footer.leaves[seen.index]
    search.note_type(leaf)
    if search.view and (reason := search.view.why_other(seen)):
        return _Searched([Hit(None, None, reason)])
    search.bound(leaf)  # raises what concerns the keys
    filters = () if leaf.text_rule else (*filters_in_footer(footer), *kept.filters)
    may_hold = _by_other_formats(filters, leaf, search)
    if (passed := search.by_index.get(source)) is not None and not leaf.text_rule:
        may_hold = _both(may_hold, passed, len(search.keys))
    if may_hold is not None and not any(may_hold):
        return _Searched([])
    found = yield from _search_row_groups(source, footer, leaf, search)
    return _Searched(found, may_hold, kept)


def _by_other_formats(filters: Sequence[FileFilter], leaf: LeafColumn, search: Search) -> Sequence[int] | None:
    """Return which keys other formats' filters of a file leave possible, a truth value each; None for all."""
    answers = [one.might_contain(search.values(leaf)) for one in filters if one.column == leaf.path]
    if not answers or why_uncountable(leaf):
        return None
    may_hold = bytearray(map(all, zip(*answers, strict=True)))
    for key in search.bound(leaf)[0].unusable:
        may_hold[key] = 1
    return may_hold


def _both(may_hold: Sequence[int] | None, passed: Iterable[int], num_keys: int) -> Sequence[int]:
    """Return which keys are among those that passed, and also possible by what was known before."""
    both = bytearray(num_keys)
    for key in passed:
        both[key] = 1 if may_hold is None else may_hold[key]
    return both


def _narrowed(hit: Hit, may_hold: Sequence[int]) -> Hit:
    keys = range(len(may_hold)) if hit.keys is None else hit.keys
    reason = IN_FILTER if hit.reason == NO_FILTER else hit.reason
    return Hit(hit.row_group, [key for key in keys if may_hold[key]], reason)


def _by_index(sources: Iterable[Source], search: Search, log: RequestLog | None) -> set[Source]:
    """Return the files that the index says hold none of the keys; note which keys the others may hold."""
    if search.index is None:
        return set()
    probed: list[tuple[Source, KeySet]] = []
    filters: list[Filters] = []
    hashes: dict[int, None] = {}  # files of several types have several for a key; probing all of them is right as well
    for source in sources:
        if (file := search.index.find(source)) is None or search.unprovable_in(file.schema):
            continue
        leaf = leaf_at(file.schema, search.path, search.snapshot)
        if leaf is None or leaf.index not in file.filters:
            continue
        search.note_type(leaf)
        with contextlib.suppress(LiteralError):
            keys, _ = search.bound(leaf)
            if not keys.unusable and not why_uncountable(leaf):
                if not probed or probed[-1][1] is not keys:
                    hashes.update(dict.fromkeys(array("Q", keys.hashes + keys.wide.hashes)))
                    if len(hashes) > _MOST_HASHES:
                        return set()
                probed.append((source, keys))
                filters.append(file.filters[leaf.index])
    ordered = sorted(hashes)
    answers = search.index.passing(filters, ordered, limits=search.limits, log=log)
    if answers is None:
        return set()
    excluded = set()
    owners: dict[int, dict[int, list[int]]] = {}
    for (source, keys), passing in zip(probed, answers, strict=True):
        if passing is None:
            continue
        of_hashes = owners.get(id(keys)) or owners.setdefault(id(keys), keys.owners_by_hash())
        passed = [owner for place in passing for owner in of_hashes.get(ordered[place], ())]
        if passed:
            search.by_index[source] = passed
        else:
            excluded.add(source)
    return excluded


_MOST_HASHES = 100_000
"""With more keys, an index whose filters exclude anything would be too large to be read."""


def _by_table(sources: Sequence[Source], search: Search) -> set[Source]:
    """Return the files that hold none of the keys by what their table records of the column."""
    recorded = search.snapshot.recorded if search.snapshot else None
    leaf = next((leaf for leaf in recorded.leaves if leaf.path == search.path), None) if recorded else None
    if recorded is None or leaf is None or not _is_plain(leaf):
        return set()
    try:
        keys, _ = search.bound(leaf)
    except LiteralError:
        return set()  # which files may understand
    if keys.unusable or keys.wide.owners:
        return set()
    bounds = zip(sources, recorded.bounds(leaf), strict=True)
    return {source for source, known in bounds if known is not None and operator.eq(*keys.within(known))}


def _is_plain(leaf: LeafColumn) -> bool:
    """Return whether files hold a table's column in a type that keys are the same in: integers, dates and texts."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    physical = leaf.physical_type
    return logical in (None, "DATE", "STRING") and physical not in (
        PhysicalType.BOOLEAN,
        PhysicalType.FLOAT,
        PhysicalType.DOUBLE,
    )


def _search_row_groups(source: Source, footer: Footer, leaf: LeafColumn, search: Search) -> Plan[list[Hit | _Checked]]:
    keys, reader = search.bound(leaf)
    found: list[Hit | _Checked] = []
    with_rows = (one for one in enumerate(FileWithFooter(footer).facts(reader)) if footer.row_groups[one[0]].num_rows)
    for some in groups(with_rows):
        runs = [keys.within(facts.known) for _, facts in some]
        wanted = {
            row_group: facts.location
            for (row_group, facts), (start, stop) in zip(some, runs, strict=True)
            if facts.location is not None
            and (start < stop or keys.wide.owners)
            and not facts.known.is_all_null
            and (search.budget != 0 or stop - start < _HOPELESS)
        }
        filters = yield from _load_filters(source, footer, leaf, wanted, search.cache)
        for (row_group, facts), run in zip(some, runs, strict=True):
            if facts.problem:
                found.append(Hit(row_group, None, facts.problem))
            elif not facts.known.is_all_null:
                unread = facts.no_filter if facts.location is None else TOO_MANY
                found += _search_row_group(row_group, filters.get(row_group, unread), keys, run, search)
    return found


def _search_row_group(
    row_group: int, bloom: SplitBlockBloomFilter | str, keys: KeySet, run: tuple[int, int], search: Search
) -> Sequence[Hit | _Checked]:
    """Return what is found in a row group; `bloom` is its filter, or why it has none that proves anything."""
    start, stop = run
    wide = keys.wide.owners
    found: list[Hit | _Checked] = [Hit(row_group, keys.unusable, keys.why_unusable)] if keys.unusable else []
    if start == stop and not wide:
        return found
    if not isinstance(bloom, str) and stop - start >= _SURE and (search.warns or search.budget is not None):
        bloom = _worth_checking(bloom, stop - start, search)
    if isinstance(bloom, str):
        # A view: very many files may lack a filter, and wait here with very many keys.
        if start < stop:
            found.append(Hit(row_group, _part(keys, start, stop), bloom))
        if wide:
            found.append(Hit(row_group, array("i", dict.fromkeys(wide)), bloom))
        return found
    check = search.checks.add(keys, start, stop, bloom)
    check_wide = search.checks.add(keys.wide, 0, len(wide), bloom) if wide else None
    found.append(_Checked(row_group, check, check_wide, keys.repeats))
    return found


def _worth_checking(bloom: SplitBlockBloomFilter, num_keys: int, search: Search) -> SplitBlockBloomFilter | str:
    """Return a filter, or why so many keys are not checked in it."""
    passing = num_keys * bloom.fpp
    if search.warns and passing >= _SURE:
        LOG.warning(
            "about %d of %d keys pass the filter of a row group by chance: filters exclude no row group then, and a "
            "join that reads the column may be faster",
            passing,
            num_keys,
        )
    search.warns = False
    if search.budget is None or passing < _SURE:
        return bloom
    if search.budget <= 0:
        return TOO_MANY
    search.budget -= num_keys
    return bloom


def _load_filters(
    source: Source, footer: Footer, leaf: LeafColumn, wanted: Mapping[int, FilterLocation], cache: Cache
) -> Plan[Mapping[int, SplitBlockBloomFilter | str]]:
    """Plan to return the filters of row groups, or why one proves nothing."""
    filters: dict[int, SplitBlockBloomFilter | str] = {**cached_filters(source, leaf, wanted, cache)}
    absent = [row_group for row_group in wanted if row_group not in filters]
    if absent:
        plans = (_load_filter(source, footer, row_group, leaf, wanted[row_group], cache) for row_group in absent)
        loaded = yield from with_tail(footer, together(plans))
        filters |= zip(absent, loaded, strict=True)
    for row_group, bloom in filters.items():
        if not isinstance(bloom, str) and bloom.is_empty:
            filters[row_group] = why_distrusted(footer, row_group, leaf, bloom) or bloom
    return filters


def _load_filter(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, location: FilterLocation, cache: Cache
) -> Plan[SplitBlockBloomFilter | str]:
    """Plan to return a row group's filter, or why it proves nothing."""
    try:
        return (yield from filter_of(source, footer, row_group, leaf, location, cache))
    except (CorruptFileError, UnsupportedError) as error:
        return describe_error(error)


def _part(keys: KeySet, start: int, stop: int) -> Sequence[int]:
    if isinstance(keys.owners, range):
        return keys.owners[start:stop]
    part = memoryview(keys.owners)[start:stop]
    return array("i", dict.fromkeys(part)) if keys.repeats else part


# ---- lookup ------------------------------------------------------------------------------


def candidates_schema(key: pa.DataType) -> pa.Schema:
    """Return the columns of candidates whose keys are shown as `key`."""
    import pyarrow as pa

    return pa.schema([("key", key), ("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())])


class Lookup(Stream):
    """The candidates of `lookup`, made as they are taken: read them once, as Arrow record batches or in one of the
    ways below. To read them again is an error, for they are not kept.

    Each row is a key and a row group that may hold it, with the reason. A file that could not be read is a candidate
    for every key, with a null row group. At the end come the keys that are nowhere, with a null path.
    """

    ROWS: ClassVar[str] = "candidates"
    VERB: ClassVar[str] = "lookup"

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        sources: Sequence[Source] = (),
        table: TableFiles | None = None,
        errors: Collection[FailedFile] = (),
        places: Iterable[tuple[str, int | None]] = (),
    ) -> None:
        super().__init__(batches, schema, errors)
        self._sources, self._table, self._places = sources, table, places

    def to_dataset(self) -> ds.FileSystemDataset:
        """Return a pyarrow dataset of exactly the row groups that may hold a key; this reads the candidates.

        Rows of other keys in them are for the scanner to filter. Where so many keys pass a filter by chance that the
        row group stays in any case, they are not checked.
        """
        row_groups: dict[str, set[int | None]] = {}
        for path, row_group in self._read(self._places):
            row_groups.setdefault(path, set()).add(row_group)
        files = tuple(_verdict(source, row_groups.get(source.name, set())) for source in self._sources)
        return Pruning("keys", files, tuple(self._sources), self._table).to_dataset()

    def write(self, path: str) -> int:
        """Write the candidates to a new Parquet file as they come; return how many there are."""
        from pyarrow import parquet

        rows = 0
        with new_file(Path(path)) as file, parquet.ParquetWriter(file, self.schema) as writer:
            for batch in self:
                rows += batch.num_rows - batch.column("path").null_count
                writer.write_batch(batch)
        return rows


def _verdict(source: Source, row_groups: set[int | None]) -> FileVerdict:
    """Return which row groups of a file candidates are in; None among them is the whole file."""
    if None in row_groups:
        return FileVerdict(source.name, source.size, not_pruned="may hold keys in any row group")
    numbers = sorted(number for number in row_groups if number is not None)
    groups = (RowGroupVerdict(source.name, n, MIGHT_MATCH, "may hold a key", "", 0, 0, 0) for n in numbers)
    return FileVerdict(source.name, source.size, tuple(groups))


@with_reading
def lookup(
    paths: PathLike | Iterable[PathLike] | Any,
    column: str,
    keys: Any,
    **how: Unpack[Reading],
) -> Lookup:
    """Return which row groups can hold which of `keys`, as a stream of Arrow record batches.

    Its columns are `key`, `path`, `row_group` and `reason`. A key that is in no candidate is proved to be absent, and
    comes at the end with a null `path`. A file that cannot be read may hold every key: its `row_group` is null. Keys
    that Arrow has no common type for are shown as text.

    Tables are named as for `prune`. With few keys, an index beside the files is probed first. A filter lets a share of
    absent keys pass; where so many pass that no row group is excluded, a warning is logged.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        column: The leaf column that holds the keys.
        keys: A list, an Arrow or NumPy array, a Series; a table, a frame or a dict with a column of that name, or only
            one; or a `Path` to a file: Parquet, CSV or TSV with such a column, or text with one key per line. A bare
            `str` or `bytes` is neither.

    Returns:
        A `Lookup`, which can be read once. `.errors` are the files that could not be read, known at the end.

    Raises:
        FileNotFoundError: A path names nothing.
        TypeError: The keys are none of these.
        LiteralError: No file's column can be compared with a key.
        ColumnNotFoundError: No file has the column.
        UnsupportedError: The paths cannot be read right, such as some of a table's files.

    Examples:
        >>> candidates = parquet_bloom.lookup("events", "id", [7, 5000]).to_arrow()
        >>> candidates.select(["key", "path", "row_group"]).to_pylist()
        [{'key': 7, 'path': 'events/b.parquet', 'row_group': 1}, {'key': 5000, 'path': None, 'row_group': None}]
    """
    return lookup_lake(OpenLake(paths, **how), column, keys)


def lookup_lake(lake: OpenLake, column: str, keys: Any) -> Lookup:
    """Return what `lookup` does of files that are open."""
    path = parse_path(column)
    read = read_keys(keys, path[-1])
    opened = lake.opened()
    search = Search.of(lake, opened, path, read, warns=True)
    schema = candidates_schema(read.shown.type)
    failed: dict[str, FailedFile] = {}
    files = _hits(opened.sources, search, failed, strict=lake.strict, progress=lake.progress, log=lake.log)
    found = _Found(files, search, schema)
    return Lookup(found.batches(), schema, opened.sources, opened.table, failed.values(), found.places())


def _hits(
    sources: list[Source],
    search: Search,
    failed: dict[str, FailedFile],
    *,
    strict: bool,
    progress: Progress | None,
    log: RequestLog | None,
) -> Iterator[tuple[str | None, Sequence[Hit]]]:
    """Yield the name of each file with its hits."""
    refused: ColumnNotFoundError | LiteralError | None = None
    understood = False
    held: list[tuple[str, list[Hit]]] = []  # until one file is understood, none is announced
    seen: dict[Source, None] = {}  # but what is not Parquet
    for source, outcome in outcomes(sources, search, progress=progress, log=log):
        seen[source] = None
        if isinstance(outcome, Exception):
            failed[source.name] = FailedFile(source.name, describe_error(outcome))
        if isinstance(outcome, ColumnNotFoundError | LiteralError):
            refused = more_telling(refused, outcome)
        elif isinstance(outcome, Exception) and strict:
            raise outcome
        else:
            understood = True
        held.append((source.name, [kept(outcome)] if isinstance(outcome, Exception) else outcome))
        if understood:
            yield from held
            held.clear()
    if refused and not understood:
        raise refused
    if (hit := search.conflict) is not None:  # known only now that every footer was seen
        yield from ((source.name, [hit]) for source in seen)


def outcomes(
    sources: list[Source], search: Search, *, progress: Progress | None = None, log: RequestLog | None = None
) -> Iterator[tuple[Source, list[Hit] | Exception]]:
    """Yield each file with its hits, or the error that it gave; one that turns out to have changed comes again."""
    searched: list[Source] = []
    live = dict(zip(sources, search.snapshot.files, strict=True)) if search.snapshot else {}
    unprovable = {source: reason for source, file in live.items() if (reason := search.unprovable(file))}
    for source, reason in unprovable.items():
        file = live[source]
        yield source, file.error(is_named=False) if file.is_unread else [Hit(None, None, reason)]
    ruled_out = _by_table(sources, search) - unprovable.keys()
    known = ruled_out | unprovable.keys()
    of_index = _by_index([source for source in sources if source not in known], search, log)
    for source in ruled_out | of_index:
        yield source, []
    known |= of_index
    if progress and known:
        progress(len(known), len(sources))
    others = (source for source in sources if source not in known)
    plans = ((source, _search_file(source, search, kept)) for source, kept in _with_filters(others, search, live))
    strays = Strays()
    waiting: deque[tuple[Source, _Searched | Exception]] = deque()  # in order, for their checks
    try:
        for done, (source, outcome) in enumerate(drive(plans, limits=search.limits, log=log), len(known) + 1):
            if strays.take(source, outcome):
                continue
            if not isinstance(outcome, Exception):
                searched.append(source)
            waiting.append((source, outcome))
            while waiting and (isinstance(waiting[0][1], Exception) or waiting[0][1].is_done):
                yield _hits_of(*waiting.popleft())
            if progress:
                progress(done, len(sources))
        while waiting:
            yield _hits_of(*waiting.popleft())
    finally:
        search.checks.close()
    strays.rest(sources)
    yield from changes(searched).items()  # meanwhile, if the store reported it in no other way


def _hits_of(source: Source, outcome: _Searched | Exception) -> tuple[Source, list[Hit] | Exception]:
    return source, outcome if isinstance(outcome, Exception) else outcome.hits()


def _with_filters(
    sources: Iterable[Source], search: Search, live: Mapping[Source, LiveFile]
) -> Iterable[tuple[Source, TableFilters]]:
    if not any(file.file_index for file in live.values()):
        return ((source, NO_FILTERS) for source in sources)
    options = fsspec_options(search.storage_options)
    return with_table_filters(sources, live, {search.path[0]}, storage_options=options, limits=search.limits)


def kept(error: Exception) -> Hit:
    """Return an error as a hit: the whole file may hold every key."""
    return Hit(None, None, describe_error(error))


class _Found:
    """What a search finds in files, as record batches or as places; it can be taken once.

    Errors that concern every file come now, not in the middle of a loop.
    """

    def __init__(self, files: Iterator[tuple[str | None, Sequence[Hit]]], search: Search, schema: pa.Schema) -> None:
        self._search, self._schema = search, schema
        parts = _parts(files, len(search.keys))
        self._parts = chain(list(islice(parts, 1)), parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the hits as rows, and at the end the keys that were in none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = self._search.keys.shown
        seen = bytearray(len(keys))
        for parts in self._parts:
            yield _batch(parts, keys, self._schema, seen)
        flags = numbers_as_arrow(seen, pa.uint8())
        nowhere = Hit(None, indexes_of(pc.indices_nonzero(pc.equal(flags, 0))), NOWHERE)
        yield from batches_of([(None, nowhere)], keys, self._schema)

    def places(self) -> Iterator[tuple[str, int | None]]:
        """Yield the files and row groups that have hits, without checks that would not exclude one."""
        self._search.budget = 0
        for parts in self._parts:
            yield from ((name, hit.row_group) for name, hit, _ in parts if name is not None)


def mark(seen: bytearray, keys: Sequence[int] | None) -> None:
    """Set to 1 what `seen` has for keys, by index; None for all of them."""
    if keys is None:
        keys = range(len(seen))
    if isinstance(keys, range):
        seen[keys.start : keys.stop] = b"\1" * len(keys)
    else:
        _kernel.mark(seen, _int32(keys))


def _int32(keys: Sequence[int]) -> array[int] | memoryview:
    """Return indexes of keys as int32."""
    if isinstance(keys, memoryview) or (isinstance(keys, array) and keys.typecode == "i"):
        return keys
    return array("i", keys)


_KEYS = 0  # the number of the one test that a lookup is

NOWHERE = "no row group can hold it"


def batches_of(hits: Iterable[tuple[str | None, Hit]], keys: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield hits, each beside the name of its file, as rows of the candidates' schema."""
    for parts in _parts(((name, (hit,)) for name, hit in hits), len(keys)):
        yield _batch(parts, keys, schema)


_Part = tuple[str | None, Hit, Sequence[int]]
"""A hit, the name of its file, and the indexes of some of its keys."""


def _parts(files: Iterable[tuple[str | None, Sequence[Hit]]], num_keys: int) -> Iterator[list[_Part]]:
    """Yield the hits of files in batches."""
    waiting: list[_Part] = []
    num_rows = 0
    for name, hits in files:
        for hit in hits:
            owners = range(num_keys) if hit.keys is None else hit.keys
            for at in range(0, len(owners), BATCH_ROWS):
                part = owners[at : at + BATCH_ROWS]
                waiting.append((name, hit, part))
                num_rows += len(part)
                if num_rows >= BATCH_ROWS or len(waiting) >= BATCH_HITS:
                    yield waiting
                    waiting, num_rows = [], 0
    if waiting:
        yield waiting


BATCH_ROWS, BATCH_HITS = 64 * 1024, 1024
"""A batch ends when it has so many rows, or is of so many row groups."""


def _batch(hits: list[_Part], keys: pa.Array, schema: pa.Schema, seen: bytearray | None = None) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    owners = b"".join(_int32(part) for _, _, part in hits)
    if seen is not None:
        _kernel.mark(seen, owners)
    indices = numbers_as_arrow(owners, pa.int32())
    ends = pa.array(accumulate(len(part) for _, _, part in hits), pa.int32())
    columns = [
        pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, kind)))
        for values, kind in (
            ([name and in_unicode(name) for name, _, _ in hits], pa.string()),
            ([hit.row_group for _, hit, _ in hits], pa.int32()),
            ([hit.reason for _, hit, _ in hits], pa.string()),
        )
    ]
    return pa.record_batch([keys.take(indices), *columns], schema=schema)
