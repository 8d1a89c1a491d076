"""The bloom filter index: a folder next to the data, in which one small read answers for very many data files.

    <root>.bloom-index/               or where the caller says; see index_folder.py
        _bloom-00000012.json          a version: columns with their options, segments, readers; the highest is used
        _bloom-entries-<id>.bin       of a segment: a row for each data file and column (`Entry`), as Parquet
        _bloom-states-<id>.bin        of a segment: what pruning needs of these rows (index_states.py)
        _bloom-blocks-<id>.bin        of a segment: the bitsets of its rows, as Parquet

In a version the names stand without `_bloom-`.

The filter of a data file's column is one split-block bloom filter, or several for its row groups (those that were
already in the file). Filters of the same size are in one blocks file, transposed: row `b` has block `b` of every
filter, in the order of their slots, and then the CRC-32 of those bytes, seeded with `b`. A key selects one block of
each filter, so looking it up in 10,000 filters takes one read of 320 kB. The only column, `blocks`, is
FIXED_LEN_BYTE_ARRAY, required, plain, uncompressed, in row groups of one page each, whose values begin at `starts`.

So a fresh process prunes with three rounds of requests: it lists this folder, reads the version, and then the states
of all segments together with the blocks that the keys select. Entries are read only to build and to compact.

Every file is written once, under a unique name, and never changed. What is missing, damaged or about another state of a
data file is ignored.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import zlib
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from parquet_bloom.errors import (
    ConcurrentChangeError,
    CorruptFileError,
    IndexNotFoundError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.filters.index_folder import folder_of
from parquet_bloom.filters.index_states import RowGroups, States, fingerprint
from parquet_bloom.format.footer import FOOTER_GUESS, Plan, interned
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import BLOCK_BYTES, block_index, blocks_contain
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, Repetition
from parquet_bloom.results import Record, from_row
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, drive, read_whole
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions

FORMAT = 3

MOST_BYTES = 64 * 1024 * 1024
"""The limit on what one call reads; the index is not used for more keys than that."""

FEW_HASHES = 64
"""So many hashes are looked up in any case."""

_MOST_BY_CHANCE = 3
"""If more hashes than that are expected to pass a file's filter by chance, it excludes less than a file in twenty."""

CRC_BYTES = 4

LOG = logging.getLogger("parquet_bloom.index")


# ---- what it stores -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexedColumn(Record):
    """A column of the index, and the options of its filters: `ndv` is the most distinct values per file."""

    column: str
    fpp: float = 0.1
    ndv: int = 1_000_000
    max_expected_fpp: float = 1.0


@dataclass(frozen=True, slots=True)
class Blocks(Record):
    """A blocks file: `num_slots` filters of `num_bytes` each; its row groups have `rows` rows, except the last."""

    name: str
    size: int
    column: str
    num_bytes: int
    num_slots: int
    rows: int
    starts: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """The bytes of one row: a block of each slot, and their checksum."""
        return BLOCK_BYTES * self.num_slots + CRC_BYTES

    def range(self, block: int) -> ByteRange:
        """Return the position of block number `block` of all slots."""
        start = self.starts[block // self.rows] + block % self.rows * self.row_bytes
        return ByteRange(start, start + self.row_bytes)

    def selected_by(self, hash_: int) -> int:
        """Return the number of the block that a hash selects."""
        return block_index(hash_, self.num_bytes // BLOCK_BYTES)

    def checked(self, block: int, data: bytes) -> bytes | None:
        """Return the blocks of a row from its bytes, or None if it is damaged."""
        body, crc = data[:-CRC_BYTES], data[-CRC_BYTES:]
        is_whole = len(data) == self.row_bytes and zlib.crc32(body, block) == int.from_bytes(crc, "little")
        return body if is_whole else None


@dataclass(frozen=True, slots=True)
class Segment(Record):
    """An entries file and a states file, with their CRC-32s, and the blocks files that they refer to.

    `schemas` are those of its data files, as the text of `schema_json`, in the order in which the states number them.
    """

    name: str
    size: int
    crc: int
    num_rows: int
    states: str
    states_size: int
    states_crc: int
    schemas: tuple[str, ...]
    blocks: tuple[Blocks, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of its files, by name."""
        return {self.name: self.size, self.states: self.states_size} | {b.name: b.size for b in self.blocks}


@dataclass(frozen=True, slots=True)
class Version(Record):
    """A state of the index. If segments have rows for the same data file and column, the last segment's is used.

    `readers` are those of the data files, by which `add` goes; versions that do not name them have none.
    """

    number: int = 0
    columns: tuple[IndexedColumn, ...] = ()
    segments: tuple[Segment, ...] = ()
    format: int = FORMAT
    readers: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        return version_name(self.number)

    @property
    def files(self) -> set[str]:
        """The names of the files in it, without its own."""
        return {name for segment in self.segments for name in segment.sizes}

    def to_json(self) -> bytes:
        """Return the file's bytes: JSON, with a CRC-32 of everything else."""
        stored = self.to_dict()
        schemas: dict[str, int] = {}  # each is stored once
        for segment in stored["segments"]:
            segment["schemas"] = [schemas.setdefault(text, len(schemas)) for text in segment["schemas"]]
        body = json.dumps(stored | {"schemas": [*schemas]}, sort_keys=True)
        return json.dumps({"crc": zlib.crc32(body.encode()), "version": json.loads(body)}, sort_keys=True).encode()

    @classmethod
    def of_json(cls, data: bytes) -> Version:
        """Return the version in a file; raises `CorruptFileError`, and `UnsupportedError` for other formats."""
        try:
            stored = json.loads(data)
            body = stored["version"]
            if zlib.crc32(json.dumps(body, sort_keys=True).encode()) != stored["crc"]:
                raise CorruptFileError("its checksum does not match")
            if body["format"] > FORMAT:
                raise UnsupportedError(f"the index has format {body['format']}, which needs a newer parquet-bloom")
            if body["format"] < FORMAT:
                raise UnsupportedError(
                    f"the index has format {body['format']}, which only earlier versions of parquet-bloom read: "
                    "remove its folder and create it again"
                )
            for segment in body["segments"]:
                segment["schemas"] = [body["schemas"][number] for number in segment["schemas"]]
            version = from_row(cls, body)
            version._require_sound()
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise CorruptFileError(f"the version of the index cannot be read: {error}") from error
        return version

    def _require_sound(self) -> None:
        """Raise `ValueError` or `TypeError` where a field has no value that a writer gives it."""
        counts: list[Any] = [self.number]
        _require(isinstance(self.readers, str), self.readers)
        for column in self.columns:
            _require(isinstance(column.column, str), column)
            _require({type(column.fpp), type(column.max_expected_fpp)} <= {int, float}, column)
            counts.append(column.ndv)
        for segment in self.segments:
            counts += (segment.size, segment.crc, segment.num_rows, segment.states_size, segment.states_crc)
            for name in (segment.name, segment.states, *(blocks.name for blocks in segment.blocks)):
                _require(isinstance(name, str) and re.fullmatch(r"[\w.-]+", name), name)
            for text in segment.schemas:
                columns_of(text)
            for blocks in segment.blocks:
                counts += (blocks.size, blocks.num_bytes, blocks.num_slots, blocks.rows, *blocks.starts)
                count, rest = divmod(blocks.num_bytes, BLOCK_BYTES)
                _require(isinstance(blocks.column, str) and count > 0 and not rest and blocks.num_slots > 0, blocks)
                _require(blocks.rows > 0 and len(blocks.starts) == -(-count // blocks.rows), blocks)
        for number in counts:
            _require(type(number) is int and 0 <= number < 2**63, number)


def _require(is_sound: Any, value: object) -> None:
    if not is_sound:
        raise ValueError(f"{value!r:.200} is not understood")


@dataclass(frozen=True, slots=True)
class Extent(Record):
    """A row group of a data file: its rows, and the bytes of its pages."""

    num_rows: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Slot(Record):
    """A filter's place: which of the segment's blocks files, and where in each row."""

    blocks: int
    slot: int


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """What the index has about one column of one data file.

    `path` is relative to the root; `version` identifies the state of the file, see `state_of`; `footer_hash` is the
    SHA-256 of its footer's bytes; `schema` has its leaf columns with their ids, as JSON; `leaf` is the number of the
    leaf that was the column when the row was made: a table may have renamed it since. If there is no filter, `problem`
    is the reason. `header` is the Thrift header that the filters' bitsets would have in a Parquet file.
    """

    path: str
    version: str
    size: int
    footer_hash: str
    num_rows: int
    row_groups: tuple[Extent, ...]
    schema: str
    column: str
    leaf: int | None = None
    ndv: float | None = None
    fpp: float | None = None
    header: bytes | None = None
    slots: tuple[Slot, ...] = ()
    problem: str | None = None


def state_of(source: Source) -> str:
    """Return what changes with a data file, and is the same on all machines: inode and times, or the ETag."""
    return source.version.partition("-")[2] if source.is_local else source.version  # without the device's number


def schema_json(leaves: Sequence[LeafColumn], node_ids: Sequence[Sequence[int | None]]) -> str:
    """Return leaf columns and their own ids as text; `columns_of` does the reverse."""
    rows = [
        [leaf.path, leaf.physical_type, leaf.type_length, _logical(leaf), leaf.nodes, _own_id(leaf, ids)]
        for leaf, ids in zip(leaves, node_ids, strict=True)
    ]
    return json.dumps(rows, separators=(",", ":"))


def _own_id(leaf: LeafColumn, ids: Sequence[int | None]) -> int | None:
    """Return a leaf's id; None if a group above it has none, by which it would be found."""
    is_whole = all(at is not None or node is Repetition.REPEATED for at, node in zip(ids, leaf.nodes, strict=True))
    return ids[-1] if is_whole else None


def _logical(leaf: LeafColumn) -> dict[str, Any] | None:
    if leaf.logical_type is None:
        return None
    stored = asdict(leaf.logical_type)
    del stored["is_proleptic"]  # earlier releases do not know it; it is read from the data file again
    return stored


@lru_cache(maxsize=256)
def columns_of(schema: str) -> tuple[tuple[LeafColumn, ...], tuple[tuple[int | None, ...], ...]]:
    """Return the leaf columns and the ids from the text of `schema_json`."""
    rows = json.loads(schema)
    leaves = tuple(
        LeafColumn(
            tuple(path),
            index,
            PhysicalType(physical),
            length,
            None if logical is None else LogicalType(**logical),
            tuple(map(Repetition, nodes)),
        )
        for index, (path, physical, length, logical, nodes, _) in enumerate(rows)
    )
    return interned(leaves), tuple((field_id,) for *_, field_id in rows)


# ---- an index, opened --------------------------------------------------------------------


Filters = int | tuple[int, ...]
"""Where the filters of a data file's column are: the number of a blocks file, times 2^32, plus the slot in it."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSchema:
    """What groups of data files have in common: their leaf columns, which of them have filters, and why others do not.

    `columns` are those with a filter or with a problem.
    """

    leaves: tuple[LeafColumn, ...]
    node_ids: tuple[tuple[int | None, ...], ...]  # the leaves' own alone
    indexed: frozenset[int] = frozenset()
    columns: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict)
    renamed_leaves: dict[Hashable, tuple[LeafColumn, ...]] = field(default_factory=dict)  # as of a `Footer`


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """What the index knows about the current state of a data file, which it calls `number`."""

    index: BloomIndex
    number: int

    @property
    def schema(self) -> IndexedSchema:
        """Its leaf columns, and which of them have filters."""
        return self.index.schema_of(self.number)

    @property
    def columns(self) -> frozenset[str]:
        """The columns with a filter, or with a problem."""
        return self.schema.columns

    @property
    def problems(self) -> Mapping[str, str]:
        """Why columns have no filter, by column."""
        return self.schema.problems

    @property
    def filters(self) -> dict[int, Filters]:
        """The filters by the leaf's index."""
        return {leaf: self.index.filters_of(leaf)[self.number] for leaf in self.schema.indexed}


Rows = dict[tuple[int, int], bytes]
"""Blocks of all slots, by the number of the blocks file and of the block."""


class BloomIndex:
    """An index in the state in which it was opened; what it has of data files is read when it is first needed.

    `lost` are the segments that are gone or damaged. It is kept in `cache` under `key` once it was read completely.
    """

    def __init__(
        self,
        version: Version,
        sources: Mapping[str, Source],
        *,
        cache: Cache | None = None,
        key: Any = None,
        log: RequestLog | None = None,
    ) -> None:
        self.version = version
        self.lost: frozenset[str] = frozenset(
            segment.name for segment in version.segments if not _is_there(segment, sources)
        )
        self._sources = {name: sources[name] for segment in self._segments for name in segment.sizes}
        self._blocks = [blocks for segment in self._segments for blocks in segment.blocks]
        self._cache, self._key, self._log = cache, key, log
        self._lock = threading.Lock()
        self._is_read = False
        self._numbers: dict[bytes, int] = {}  # of data files, by fingerprint
        self._row_groups: list[RowGroups] = []  # of each segment
        self._places = array("Q")  # of each data file: its segment, times 2^32, plus its number there
        self._kinds = _Kinds()
        self._kind_of = array("I")  # of each data file
        self._filters: dict[int, list[Any]] = {}  # by leaf: the `Filters` of each data file

    @property
    def _segments(self) -> list[Segment]:
        return [segment for segment in self.version.segments if segment.name not in self.lost]

    @property
    def schemas(self) -> list[IndexedSchema]:
        """The schemas of all data files; any leaf may have a filter. They need nothing to be read."""
        texts = dict.fromkeys(text for segment in self._segments for text in segment.schemas)
        return [
            IndexedSchema(leaves, node_ids, frozenset(range(len(leaves))))
            for leaves, node_ids in map(columns_of, texts)
        ]

    # -- reading --

    def read(
        self,
        hashes: Mapping[str, Iterable[int]] = MappingProxyType({}),
        *,
        limits: Limits = DEFAULT_LIMITS,
        log: RequestLog | None = None,
    ) -> Rows:
        """Read what it has of data files, unless that is done, and blocks that are likely to be asked for.

        They are those of the columns' filters that `hashes` select. All is read in one round; what is missing or
        damaged is ignored.
        """
        wanted = {
            number: set(selecting)
            for number, blocks in enumerate(self._blocks)
            if (selecting := hashes.get(blocks.column))
        }
        if self._is_read:
            return self._read_blocks(wanted, limits, log)
        with self._lock:
            return self._read_blocks(wanted, limits, log or self._log, with_states=not self._is_read)

    def _read_blocks(
        self,
        hashes_of: Mapping[int, Iterable[int]],
        limits: Limits,
        log: RequestLog | None,
        *,
        with_states: bool = False,
    ) -> Rows:
        """Return the rows that hashes select, except those that cannot be read."""
        wanted = {number: self._ranges(self._blocks[number], hashes) for number, hashes in hashes_of.items()}
        if sum(len(r) for ranges in wanted.values() for r in ranges.values()) > MOST_BYTES:
            wanted = {}
        segments = self._segments if with_states else []
        jobs: list[tuple[Source, Plan[Any]]] = [
            (self._sources[segment.states], _fetch({0: ByteRange(0, segment.states_size)})) for segment in segments
        ]
        jobs += ((self._sources[self._blocks[number].name], _fetch(ranges)) for number, ranges in wanted.items())
        outcomes = [outcome for _, outcome in drive(jobs, limits=limits, log=log)]
        if with_states:
            self._take_all(segments, outcomes)
        rows = {}
        for number, parts in zip(wanted, outcomes[len(segments) :], strict=True):
            if isinstance(parts, Exception):
                LOG.warning("the index is ignored: %s", parts)
                continue
            for block, data in parts.items():
                if (row := self._blocks[number].checked(block, data)) is None:
                    LOG.warning("the index is ignored: %s is damaged", self._blocks[number].name)
                else:
                    rows[number, block] = row
        return rows

    def _ranges(self, blocks: Blocks, hashes: Iterable[int]) -> dict[int, ByteRange]:
        return {block: blocks.range(block) for block in sorted({blocks.selected_by(hash_) for hash_ in hashes})}

    def _take_all(self, segments: Sequence[Segment], outcomes: Sequence[Any]) -> None:
        lost = set()
        is_complete = True
        first_blocks = 0
        for segment, outcome in zip(segments, outcomes, strict=False):
            try:
                self._take(segment, _states(segment, outcome), first_blocks)
            except (CorruptFileError, FileNotFoundError) as error:
                LOG.warning("a part of the index is ignored: %s", error)
                lost.add(segment.name)
            except (ParquetBloomError, OSError) as error:
                LOG.warning("a part of the index is ignored: %s", error)
                is_complete = False
            first_blocks += len(segment.blocks)
        self.lost |= lost
        self._is_read, self._log = True, None
        if is_complete and self._cache is not None and self._key is not None:
            self._cache.put(self._key, self, _BYTES_OF_A_FILE * len(self._numbers))

    def _take(self, segment: Segment, states: States, first_blocks: int) -> None:
        """Add a segment's data files and entries, which replace those of earlier segments."""
        of = states.of
        if (
            max(of["blocks"], default=-1) >= len(segment.blocks)
            or max(of["schemas"], default=-1) >= len(segment.schemas)
            or any(slot >= segment.blocks[at].num_slots for at, slot in zip(of["blocks"], of["slots"], strict=True))
        ):
            raise CorruptFileError(f"{segment.states} does not fit its segment")
        place = len(self._row_groups) << 32
        self._row_groups.append(states.row_groups)
        plain = [self._kinds.plain(text) for text in segment.schemas]
        numbers = []  # of the segment's data files
        for at, (key, schema) in enumerate(zip(states.fingerprints, of["schemas"], strict=True)):
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._places)
                self._places.append(place + at)
                self._kind_of.append(plain[schema])
            numbers.append(number)
        columns = {column.column for column in self.version.columns}
        changed: dict[Any, int] = {}
        entries = zip(of["files"], of["columns"], of["leaves"], of["problems"], strict=True)
        for (file, column, leaf, problem), filters in zip(entries, _filters(of, first_blocks), strict=True):
            name = states.column_names[column]
            if name not in columns:
                continue
            number = numbers[file]
            change = self._kind_of[number], column, leaf, problem
            if change not in changed:
                text = states.problem_texts[problem] if problem >= 0 else None
                changed[change] = self._kinds.changed(change[0], name, None if leaf < 0 else leaf, text)
            self._kind_of[number] = changed[change]
            if leaf < 0:
                continue
            of_leaf = self._filters.setdefault(leaf, [])
            if number >= len(of_leaf):
                of_leaf += [None] * (len(self._places) - len(of_leaf))
            of_leaf[number] = filters if problem < 0 else None  # not (): no filters would exclude the file

    # -- what it knows --

    def numbers(self, sources: Iterable[Source]) -> list[int | None]:
        """Return what the index calls each data file, or None if it has nothing about the file's current state."""
        if not self._is_read:
            self.read()
        number_of = self._numbers.get
        return [
            number_of(fingerprint(source.relative, state_of(source), source.size)) if source.is_mtime_stable else None
            for source in sources
        ]

    def find(self, source: Source) -> IndexedFile | None:
        """Return what the index has about the current state of a data file, or None."""
        (number,) = self.numbers([source])
        return None if number is None else IndexedFile(self, number)

    def schema_of(self, number: int) -> IndexedSchema:
        """Return what a data file has in common with others."""
        return self._kinds.schemas[self._kind_of[number]]

    def filters_of(self, leaf: int) -> Sequence[Filters]:
        """Return the filters of each data file for this leaf, by the file's number."""
        return self._filters[leaf]

    def packed_row_groups(self, number: int) -> bytes:
        """Return the rows, start and end of each row group of a data file, as native 64-bit numbers."""
        segment, at = divmod(self._places[number], 1 << 32)
        return self._row_groups[segment].packed(at)

    def num_bytes_of(self, filters: Filters) -> int:
        """Return the size of the bitsets of filters."""
        return sum(self._blocks[place >> 32].num_bytes for place in _flat([filters]))

    def ask(
        self,
        questions: Sequence[tuple[Sequence[Filters], Sequence[int]]],
        *,
        rows: Rows | None = None,
        limits: Limits,
        log: RequestLog | None,
    ) -> list[list[bool]]:
        """Answer questions, each of which has the filters of many files and hashes to look up in them.

        Returns for each file of each question whether one of its filters may contain one of the hashes; True if that is
        unknown. `rows` were read before.
        """
        rows = dict(rows or {})
        missing: dict[int, set[int]] = {}
        asked = [{place >> 32 for place in _flat(filters)} for filters, _ in questions]
        for (_, hashes), numbers in zip(questions, asked, strict=True):
            for number in numbers:
                selected = self._blocks[number].selected_by
                missing.setdefault(number, set()).update(h for h in hashes if (number, selected(h)) not in rows)
        rows |= self._read_blocks({number: hashes for number, hashes in missing.items() if hashes}, limits, log)
        answers = []
        for (filters, hashes), numbers in zip(questions, asked, strict=True):
            slots = {number: self._any(number, hashes, rows) for number in numbers}
            answers.append(
                [
                    slots[places >> 32][places & _SLOT] != 0
                    if type(places) is int
                    else any(slots[place >> 32][place & _SLOT] for place in places)  # type: ignore[union-attr]
                    for places in filters
                ]
            )
        return answers

    def passing(
        self, filters: Sequence[Filters], hashes: Sequence[int], *, limits: Limits, log: RequestLog | None
    ) -> list[list[int] | None] | None:
        """Return for each file which hashes its filters may contain, by their places in `hashes`; None for all.

        None instead of the list if it is not worth reading: nearly every file would have a hash by chance, or the
        blocks are larger than the footers of the files.
        """
        numbers = sorted({place >> 32 for place in _flat(filters)})
        is_small = sum(map(self._num_bytes(hashes), numbers)) <= MOST_BYTES
        if not (is_small and len(hashes) <= FEW_HASHES) and not self._is_worth_reading(numbers, len(filters), hashes):
            return None
        found: dict[tuple[int, int], list[int]] = {}  # by blocks file and slot
        unknown: set[int] = set()
        rows = self._read_blocks(dict.fromkeys(numbers, hashes), limits, log) if is_small else {}
        for number in numbers:
            blocks = self._blocks[number]
            each = max(1, len(hashes) if is_small else MOST_BYTES // blocks.row_bytes)
            for start in range(0, len(hashes), each):
                some = hashes[start : start + each]
                if not is_small:
                    rows = self._read_blocks({number: some}, limits, log)
                for place, hash_ in enumerate(some, start):
                    if (row := rows.get((number, blocks.selected_by(hash_)))) is None:
                        unknown.add(number)
                        continue
                    flags = blocks_contain(row, hash_)
                    slot = flags.find(1)
                    while slot >= 0:
                        found.setdefault((number, slot), []).append(place)
                        slot = flags.find(1, slot + 1)
        answers: list[list[int] | None] = []
        for places in filters:
            own = (places,) if isinstance(places, int) else places
            if any(place >> 32 in unknown for place in own):
                answers.append(None)
            else:
                slots = (found.get((place >> 32, place & _SLOT), ()) for place in own)
                answers.append(list(dict.fromkeys(chain.from_iterable(slots))))
        return answers

    def _num_bytes(self, hashes: Sequence[int]) -> Callable[[int], int]:
        """Return what tells how many bytes of a blocks file the hashes select."""

        def of(number: int) -> int:
            blocks = self._blocks[number]
            return blocks.row_bytes * len({blocks.selected_by(hash_) for hash_ in hashes})

        return of

    def _is_worth_reading(self, numbers: Sequence[int], num_files: int, hashes: Sequence[int]) -> bool:
        """Return whether filters of these blocks files exclude files, and take less than their footers."""
        fpp = {column.column: column.fpp for column in self.version.columns}
        worst = max((fpp.get(self._blocks[number].column, 1.0) for number in numbers), default=0.0)
        num_bytes = sum(map(self._num_bytes(hashes), numbers))
        return len(hashes) * worst <= _MOST_BY_CHANCE and num_bytes <= num_files * FOOTER_GUESS

    def _any(self, number: int, hashes: Iterable[int], rows: Rows) -> bytes:
        """Return for each slot of a blocks file 0 if it has none of the hashes, else 1."""
        blocks, bits = self._blocks[number], 0
        for hash_ in hashes:
            row = rows.get((number, blocks.selected_by(hash_)))
            if row is None:
                return b"\1" * blocks.num_slots
            bits |= int.from_bytes(blocks_contain(row, hash_), "little")
        return bits.to_bytes(blocks.num_slots, "little")


_SLOT = (1 << 32) - 1
_BYTES_OF_A_FILE = 350
"""About how much memory a data file takes in an index that was read."""


def _is_there(segment: Segment, sources: Mapping[str, Source]) -> bool:
    """Return whether all files of a segment are there, with their sizes."""
    for name, size in segment.sizes.items():
        if name not in sources or sources[name].size != size:
            LOG.warning("a part of the index is ignored: %s is %s", name, "damaged" if name in sources else "gone")
            return False
    return True


def _states(segment: Segment, parts: dict[int, bytes] | Exception) -> States:
    """Return a segment's states from their file, which is `parts`, or why it could not be read."""
    if isinstance(parts, Exception):
        raise parts
    if len(parts[0]) != segment.states_size or zlib.crc32(parts[0]) != segment.states_crc:
        raise CorruptFileError(f"{segment.states} is damaged")
    return States(parts[0])


def _flat(filters: Sequence[Filters]) -> Iterable[int]:
    if {*map(type, filters)} == {int}:
        return filters  # type: ignore[return-value]
    return chain.from_iterable((places,) if isinstance(places, int) else places for places in filters)


def _filters(of: Mapping[str, Sequence[int]], first_blocks: int) -> Iterable[Filters]:
    """Return the filters of each entry of a segment, whose blocks files have numbers from `first_blocks` on."""
    places = [(first_blocks + blocks) << 32 | slot for blocks, slot in zip(of["blocks"], of["slots"], strict=True)]
    counts = of["slot_counts"]
    if {*counts} <= {1}:
        return places
    stops = accumulate(counts, initial=0)
    return [places[start] if stop == start + 1 else tuple(places[start:stop]) for start, stop in pairwise(stops)]


class _Kinds:
    """Numbers what data files have in common, which their entries change one after the other."""

    def __init__(self) -> None:
        self.schemas: list[IndexedSchema] = []
        self._texts: list[str] = []
        self._numbers: dict[Any, int] = {}

    def plain(self, text: str) -> int:
        """Return the number of files without entries, whose schema has this text."""
        return self._number(text, frozenset(), frozenset(), {})

    def changed(self, number: int, column: str, leaf: int | None, problem: str | None) -> int:
        """Return the number of the same files with an entry for a column more."""
        known = self.schemas[number]
        indexed = known.indexed - {leaf}
        problems = {name: text for name, text in known.problems.items() if name != column}
        if problem is None and leaf is not None:
            indexed |= {leaf}
        else:
            problems[column] = problem or "the file does not have this column"
        return self._number(self._texts[number], indexed, known.columns | {column}, problems)

    def _number(self, text: str, indexed: frozenset[int], columns: frozenset[str], problems: Mapping[str, str]) -> int:
        key = text, indexed, columns, frozenset(problems.items())
        if key not in self._numbers:
            self._numbers[key] = len(self.schemas)
            self._texts.append(text)
            self.schemas.append(IndexedSchema(*columns_of(text), indexed, columns, problems))
        return self._numbers[key]


def _fetch(wanted: dict[int, ByteRange]) -> Plan[dict[int, bytes]]:
    parts = yield list(wanted.values())
    return dict(zip(wanted, parts, strict=True))


def open_index(
    root: str,
    at: PathLike | None = None,
    *,
    storage_options: StorageOptions = None,
    filesystem: Any = None,
    cache: Cache,
    log: RequestLog | None = None,
) -> BloomIndex | None:
    """Return the index of the data below `root`, or None if there is none, or it cannot be read.

    Raises `IndexNotFoundError` where there is none `at` the place that the caller named.
    """
    folder = folder_of(root, at, storage_options=storage_options, filesystem=filesystem)
    if folder is None:
        return None
    try:
        latest = newest(folder, log=log)
    except (ParquetBloomError, OSError) as error:
        LOG.warning("the index of %s is not used: %s", root, error)
        return None
    if latest is None and at is not None:
        raise IndexNotFoundError(f"there is no index in {folder.name}")
    if latest is None or not latest.version.columns:
        return None
    key = latest.source and latest.source.identity and ("bloom index", latest.source.identity)
    index: BloomIndex | None = cache.get(key) if key else None
    return index or BloomIndex(latest.version, latest.sources, cache=cache, key=key, log=log)


class Newest(NamedTuple):
    """The newest version that can be read, and its file; `number` is the highest, also of damaged versions."""

    version: Version
    source: Source | None
    number: int
    sources: Mapping[str, Source]  # all files of the folder, by name


def newest(folder: Folder, *, log: RequestLog | None = None) -> Newest | None:
    """Return the newest version in a folder that can be read, or None if there was never one.

    If all of them are damaged, it is a version without columns. Raises `OSError`, and `UnsupportedError` for a version
    of another format.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError, ConcurrentChangeError):  # it was removed after it was listed
            return _newest(folder, log)
    return _newest(folder, log)


_ATTEMPTS = 3


def _newest(folder: Folder, log: RequestLog | None) -> Newest | None:
    sources = folder.sources()
    numbers = version_numbers(sources)
    for number in reversed(numbers):
        source = sources[version_name(number)]
        try:
            return Newest(Version.of_json(read_whole(source, log=log)), source, numbers[-1], sources)
        except CorruptFileError as error:
            LOG.warning("a version of the index is ignored: %s", error)
    return Newest(Version(), None, numbers[-1], sources) if numbers else None


def version_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the versions among these file names, ascending."""
    return sorted(int(name[:8]) for name in names if re.fullmatch(r"[0-9]{8}\.json", name))


def version_name(number: int) -> str:
    """Return the name of a version's file."""
    return f"{number:08}.json"


def checked_entries(folder: Folder, segment: Segment, *, log: RequestLog | None = None) -> bytes:
    """Return the entries file of a segment; raises `CorruptFileError` and `OSError`."""
    data = read_whole(folder.source(segment.name), log=log)
    if len(data) != segment.size or zlib.crc32(data) != segment.crc:
        raise CorruptFileError(f"{segment.name} is damaged")
    return data


def _rows(data: bytes, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an entries file as tuples of these columns; nested values are tuples of tuples."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Not with read_table: it starts Arrow's threads, and if the process ends at that moment, they sometimes abort it.
    with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
        table = file.read(list(columns), use_threads=False).combine_chunks()
    return zip(*(_values(table.column(name)) for name in columns), strict=True)


def _values(column: Any) -> Iterable[Any]:
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        values: list[Any] = column.to_pylist()
        return values
    flat = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    structs = flat.flatten()
    items = list(zip(*(part.to_pylist() for part in structs.flatten()), strict=True))
    stops = accumulate(flat.value_lengths().to_pylist(), initial=0)
    return [tuple(items[start:stop]) for start, stop in pairwise(stops)]


def entries_of(data: bytes) -> Iterator[Entry]:
    """Yield the rows of an entries file."""
    names = [f.name for f in fields(Entry)]
    for row in _rows(data, names):
        values = dict(zip(names, row, strict=True))
        values["row_groups"] = tuple(Extent(*group) for group in values["row_groups"])
        values["slots"] = tuple(Slot(*slot) for slot in values["slots"])
        yield Entry(**values)


def entries_bytes(entries: Iterable[Entry]) -> bytes:
    """Return an entries file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from parquet_bloom.results import arrow_schema

    rows = [asdict(entry) for entry in entries]
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(Entry)), out, compression="zstd")
    return bytes(out.getvalue())


# ---- writing -----------------------------------------------------------------------------

GROUP_BYTES = 16 * 1024 * 1024
"""The maximum size of a row group of a blocks file."""


def blocks_file(name: str, column: str, bitsets: Sequence[bytes]) -> tuple[bytes, Blocks]:
    """Return the blocks file of bitsets of the same size, and its entry in a version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    num_bytes = len(bitsets[0])
    blocks = Blocks(name, 0, column, num_bytes, len(bitsets), 0, ())
    width, count = blocks.row_bytes, num_bytes // BLOCK_BYTES
    rows = max(1, min(count, GROUP_BYTES // width, _MOST_ROWS_OF_A_PAGE))
    schema = pa.schema([pa.field("blocks", pa.binary(width), nullable=False)])
    out = pa.BufferOutputStream()
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    with pq.ParquetWriter(out, schema, data_page_size=2**30, **options) as writer:
        for start in range(0, count, rows):
            group = [_row(block, bitsets) for block in range(start, min(start + rows, count))]
            data = [None, pa.py_buffer(b"".join(group))]
            array = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(group), data)
            writer.write_table(pa.table([array], schema=schema), row_group_size=rows)
    written = out.getvalue().to_pybytes()
    starts = tuple(_starts(pq.read_metadata(pa.BufferReader(written)), width))
    blocks = replace(blocks, size=len(written), rows=rows, starts=starts)
    for block in range(count):
        if blocks.checked(block, written[slice(*blocks.range(block))]) is None:
            raise CorruptFileError("the blocks are not where they were written")
    return written, blocks


_MOST_ROWS_OF_A_PAGE = 20_000
"""After this many rows, pyarrow begins another page."""


def _row(block: int, bitsets: Sequence[bytes]) -> bytes:
    start, stop = BLOCK_BYTES * block, BLOCK_BYTES * (block + 1)
    body = b"".join([bitset[start:stop] for bitset in bitsets])
    return body + zlib.crc32(body, block).to_bytes(CRC_BYTES, "little")


def _starts(metadata: Any, width: int) -> Iterator[int]:
    """Yield the position of each row group's values, after the header of its only page."""
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(0)
        yield chunk.data_page_offset + chunk.total_compressed_size - chunk.num_values * width


def bitsets_of(data: bytes, blocks: Blocks) -> list[bytes]:
    """Return the bitsets of a blocks file, by slot; raises `CorruptFileError`."""
    rows = []
    for block in range(blocks.num_bytes // BLOCK_BYTES):
        row = blocks.checked(block, data[slice(*blocks.range(block))])
        if row is None:
            raise CorruptFileError(f"{blocks.name} is damaged")
        rows.append(row)
    slots = range(0, BLOCK_BYTES * blocks.num_slots, BLOCK_BYTES)
    return [b"".join([row[start : start + BLOCK_BYTES] for row in rows]) for start in slots]
