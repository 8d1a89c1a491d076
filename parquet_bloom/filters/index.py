"""The bloom filter index: a folder next to the data, in which one small read answers for very many data files.

    <root>/_bloom_index/
        00000012.json           a version: the columns with their options, and the segments; the highest number is used
        entries-<id>.parquet    of a segment: a row for each data file and column (`Entry`)
        blocks-<id>.parquet     of a segment: the bitsets of its rows

The filter of a data file's column is one split-block bloom filter, or several for its row groups (those that were
already in the file). Filters of the same size are in one blocks file, transposed: row `b` has block `b` of every
filter, in the order of their slots, and then the CRC-32 of those bytes, seeded with `b`. A key selects one block of
each filter, so looking it up in 10,000 filters takes one read of 320 kB. The only column, `blocks`, is
FIXED_LEN_BYTE_ARRAY, required, plain, uncompressed, in row groups of one page each, whose values begin at `starts`.

Every file is written once, under a unique name, and never changed. What is missing, damaged or about another state of a
data file is ignored.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.format.footer import Plan, interned
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import BLOCK_BYTES, block_index, blocks_contain
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, Repetition
from parquet_bloom.results import Record, from_row
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import Limits, RequestLog, drive, read_whole
from parquet_bloom.storage.folder import INDEX_FOLDER, Folder
from parquet_bloom.storage.listing import Source, StorageOptions

FORMAT = 2

MOST_BYTES = 64 * 1024 * 1024
"""The limit on what one call reads; the index is not used for more keys than that."""

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
    """An entries file, with its CRC-32, and the blocks files that its rows refer to."""

    name: str
    size: int
    crc: int
    num_rows: int
    blocks: tuple[Blocks, ...]


@dataclass(frozen=True, slots=True)
class Version(Record):
    """A state of the index. If segments have rows for the same data file and column, the last segment's is used."""

    number: int = 0
    columns: tuple[IndexedColumn, ...] = ()
    segments: tuple[Segment, ...] = ()
    format: int = FORMAT

    @property
    def name(self) -> str:
        """The name of its file."""
        return version_name(self.number)

    @property
    def files(self) -> set[str]:
        """The names of the files in it, without its own."""
        return {name for s in self.segments for name in (s.name, *(blocks.name for blocks in s.blocks))}

    def to_json(self) -> bytes:
        """Return the file's bytes: JSON, with a CRC-32 of everything else."""
        body = json.dumps(self.to_dict(), sort_keys=True)
        return json.dumps({"crc": zlib.crc32(body.encode()), "version": json.loads(body)}, sort_keys=True).encode()

    @classmethod
    def of_json(cls, data: bytes) -> Version:
        """Return the version in a file; raises `CorruptFileError`, and `UnsupportedError` for other formats."""
        try:
            stored = json.loads(data)
            body = stored["version"]
            if zlib.crc32(json.dumps(body, sort_keys=True).encode()) != stored["crc"]:
                raise CorruptFileError("its checksum does not match")
            if body["format"] != FORMAT:
                raise UnsupportedError(f"the index has format {body['format']}, which needs a newer parquet-bloom")
            return from_row(cls, body)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptFileError(f"the version of the index cannot be read: {error}") from error


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


def schema_json(leaves: Sequence[LeafColumn], field_ids: Sequence[int | None]) -> str:
    """Return leaf columns and their ids as text; `columns_of` does the reverse."""
    rows = [
        [leaf.path, leaf.physical_type, leaf.type_length, _logical(leaf), leaf.nodes, field_id]
        for leaf, field_id in zip(leaves, field_ids, strict=True)
    ]
    return json.dumps(rows, separators=(",", ":"))


def _logical(leaf: LeafColumn) -> dict[str, Any] | None:
    if leaf.logical_type is None:
        return None
    stored = asdict(leaf.logical_type)
    del stored["is_proleptic"]  # earlier releases do not know it; it is read from the data file again
    return stored


@lru_cache(maxsize=256)
def columns_of(schema: str) -> tuple[tuple[LeafColumn, ...], tuple[int | None, ...]]:
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
    return interned(leaves), tuple(field_id for *_, field_id in rows)


# ---- an index, opened --------------------------------------------------------------------


class Place(NamedTuple):
    """The place of a data file's filter: the name of the blocks file, and the slot in it."""

    blocks: str
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSchema:
    """What groups of data files have in common: their leaf columns, and which of them have filters."""

    leaves: tuple[LeafColumn, ...]
    field_ids: tuple[int | None, ...]
    indexed: frozenset[int] = frozenset()
    renamed_leaves: dict[Hashable, tuple[LeafColumn, ...]] = field(default_factory=dict)  # as of a `Footer`


@dataclass(slots=True)
class IndexedFile:
    """What the index knows about a data file: the filters of some columns, and why others have none.

    `row_groups` are (rows, first byte, byte after the last).
    """

    version: str
    size: int
    schema: IndexedSchema
    row_groups: tuple[tuple[int, int, int], ...]
    columns: frozenset[str] = frozenset()  # those with a filter, or with a problem
    filters: dict[int, tuple[Place, ...]] = field(default_factory=dict)  # by the leaf's index
    problems: dict[str, str] = field(default_factory=dict)  # by column
    last_verdict: Any = None  # as of a `Footer`


class BloomIndex:
    """An index in the state in which it was opened. `lost` are the segments that are gone or damaged."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.lost: frozenset[str] = frozenset()
        self.is_complete = True  # not if a part could not be read when it was opened
        self.num_bytes = 0
        self._files: dict[str, IndexedFile] = {}
        self._sources: dict[str, Source] = {}
        self._blocks = {blocks.name: blocks for segment in version.segments for blocks in segment.blocks}

    @classmethod
    def opened(cls, folder: Folder, version: Version, *, log: RequestLog | None = None) -> BloomIndex:
        """Read the entries of a version; a part that cannot be read is skipped."""
        index = cls(version)
        lost = set()
        for segment in version.segments:
            try:
                index._take(segment, folder, log)
            except (CorruptFileError, FileNotFoundError) as error:
                LOG.warning("a part of the index is ignored: %s", error)
                lost.add(segment.name)
            except (ParquetBloomError, OSError) as error:
                LOG.warning("a part of the index is ignored: %s", error)
                index.is_complete = False
        index.lost = frozenset(lost)
        index._share_schemas()
        return index

    def _take(self, segment: Segment, folder: Folder, log: RequestLog | None) -> None:
        data = checked_entries(folder, segment, log=log)
        sources = {blocks.name: folder.source(blocks.name) for blocks in segment.blocks}
        for blocks in segment.blocks:
            if sources[blocks.name].size != blocks.size:
                raise CorruptFileError(f"{blocks.name} is damaged")
        self._sources |= sources
        columns = {column.column for column in self.version.columns}
        shared: dict[frozenset[str], frozenset[str]] = {}
        names = [blocks.name for blocks in segment.blocks]
        for row in _rows(data, _READ):
            path, version, size, groups, schema, column, leaf, slots, problem = row
            if column not in columns:
                continue
            known = self._files.get(path)
            if known is None or known.version != version:  # rows for another state of the file are ignored
                known = self._files[path] = IndexedFile(version, size, IndexedSchema(*columns_of(schema)), groups)
            known.columns = shared.setdefault(known.columns | {column}, known.columns | {column})
            known.filters.pop(leaf, None)
            known.problems.pop(column, None)
            if problem is None and leaf is not None:
                known.filters[leaf] = tuple(Place(names[blocks], slot) for blocks, slot in slots)
            else:
                known.problems[column] = problem or "the file does not have this column"
        self.num_bytes += _BYTES_OF_A_ROW * segment.num_rows

    def _share_schemas(self) -> None:
        shared: dict[tuple[int, tuple[int | None, ...], frozenset[int]], IndexedSchema] = {}
        for file in self._files.values():
            leaves, field_ids = file.schema.leaves, file.schema.field_ids
            key = id(leaves), field_ids, frozenset(file.filters)
            if key not in shared:
                shared[key] = IndexedSchema(leaves, field_ids, key[2])
            file.schema = shared[key]

    def find(self, source: Source) -> IndexedFile | None:
        """Return what the index has about the current state of a data file, or None."""
        indexed = self._files.get(source.relative)
        if (
            indexed is None
            or indexed.version != state_of(source)
            or indexed.size != source.size
            or not source.is_mtime_stable
        ):
            return None
        return indexed

    def num_bytes_of(self, place: Place) -> int:
        """Return the size of a filter's bitset."""
        return self._blocks[place.blocks].num_bytes

    def ask(
        self,
        questions: Sequence[tuple[Sequence[Sequence[Place]], Sequence[int]]],
        *,
        limits: Limits,
        log: RequestLog | None,
    ) -> list[list[bool]]:
        """Answer questions, each of which has the filters of many files and hashes to look up in them.

        Returns for each file of each question whether one of its filters may contain one of the hashes; True if that is
        unknown.
        """
        hashes_of: dict[str, set[int]] = {}
        asked = [({place.blocks for places in files for place in places}, hashes) for files, hashes in questions]
        for names, hashes in asked:
            for name in names:
                hashes_of.setdefault(name, set()).update(hashes)
        rows = self._read(hashes_of, limits, log)
        answers = []
        for (files, hashes), (names, _) in zip(questions, asked, strict=True):
            slots = {name: self._any(name, hashes, rows) for name in names}
            answers.append([any(slots[name][slot] for name, slot in places) for places in files])
        return answers

    def _read(
        self, hashes_of: dict[str, set[int]], limits: Limits, log: RequestLog | None
    ) -> dict[tuple[str, int], bytes]:
        """Return the rows, by blocks file and number, that hashes select, except those that cannot be read."""
        wanted = {name: self._ranges(self._blocks[name], hashes) for name, hashes in hashes_of.items()}
        if sum(len(r) for ranges in wanted.values() for r in ranges.values()) > MOST_BYTES:
            return {}
        rows = {}
        jobs = ((self._sources[name], _fetch(ranges)) for name, ranges in wanted.items())
        for name, (_, parts) in zip(wanted, drive(jobs, limits=limits, log=log), strict=True):
            if isinstance(parts, Exception):
                LOG.warning("the index is ignored: %s", parts)
                continue
            for block, data in parts.items():
                if (row := self._blocks[name].checked(block, data)) is None:
                    LOG.warning("the index is ignored: %s is damaged", name)
                else:
                    rows[name, block] = row
        return rows

    def _ranges(self, blocks: Blocks, hashes: Iterable[int]) -> dict[int, ByteRange]:
        return {block: blocks.range(block) for block in sorted({blocks.selected_by(hash_) for hash_ in hashes})}

    def _any(self, name: str, hashes: Iterable[int], rows: dict[tuple[str, int], bytes]) -> bytes:
        """Return for each slot of a blocks file 0 if it has none of the hashes, else 1."""
        blocks, bits = self._blocks[name], 0
        for hash_ in hashes:
            row = rows.get((name, blocks.selected_by(hash_)))
            if row is None:
                return b"\1" * blocks.num_slots
            bits |= int.from_bytes(blocks_contain(row, hash_), "little")
        return bits.to_bytes(blocks.num_slots, "little")


_BYTES_OF_A_ROW = 2000
"""About how much memory a row of an opened index takes."""


def _fetch(wanted: dict[int, ByteRange]) -> Plan[dict[int, bytes]]:
    parts = yield list(wanted.values())
    return dict(zip(wanted, parts, strict=True))


def open_index(
    root: str,
    *,
    storage_options: StorageOptions = None,
    filesystem: Any = None,
    cache: Cache,
    log: RequestLog | None = None,
) -> BloomIndex | None:
    """Return the index of the data below `root`, or None if there is none, or it cannot be read."""
    folder = folder_of(root, storage_options=storage_options, filesystem=filesystem)
    try:
        latest = newest(folder, log=log)
        if latest is None or not latest.version.columns:
            return None
        key = latest.source and latest.source.identity and ("bloom index", latest.source.identity)
        index: BloomIndex | None = cache.get(key) if key else None
        if index is None:
            index = BloomIndex.opened(folder, latest.version, log=log)
            if key and index.is_complete:
                cache.put(key, index, index.num_bytes)
    except (ParquetBloomError, OSError) as error:
        LOG.warning("the index of %s is not used: %s", root, error)
        return None
    return index


def folder_of(root: str, *, storage_options: StorageOptions = None, filesystem: Any = None) -> Folder:
    """Return the folder of the index of the data below `root`."""
    return Folder(f"{root.rstrip('/')}/{INDEX_FOLDER}", storage_options=storage_options, filesystem=filesystem)


class Newest(NamedTuple):
    """The newest version that can be read, and its file; `number` is the highest, also of damaged versions."""

    version: Version
    source: Source | None
    number: int


def newest(folder: Folder, *, log: RequestLog | None = None) -> Newest | None:
    """Return the newest version in a folder that can be read, or None if there was never one.

    If all of them are damaged, it is a version without columns. Raises `OSError`, and `UnsupportedError` for a version
    of another format.
    """
    numbers = version_numbers(folder.names())
    for number in reversed(numbers):
        source = folder.source(version_name(number))
        try:
            return Newest(Version.of_json(read_whole(source, log=log)), source, numbers[-1])
        except CorruptFileError as error:
            LOG.warning("a version of the index is ignored: %s", error)
    return Newest(Version(), None, numbers[-1]) if numbers else None


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


_READ = ("path", "version", "size", "row_groups", "schema", "column", "leaf", "slots", "problem")
"""The columns of the entries that pruning needs."""


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
