"""The bloom filter index: a folder beside the data, in which one small read tells of very many data files.

    <root>/_bloom_index/
        00000012.json           a version: the columns with their options, and the segments; the highest number counts
        entries-<id>.parquet    of a segment: a row for each data file and column (`Entry`)
        blocks-<id>.parquet     of a segment: the bitsets that its rows stand for

A data file's filter of a column is one split-block bloom filter, or several that share out its row groups (those that
were in the file already). Filters of one size lie in one blocks file, transposed: row `b` holds block `b` of every
filter, in the order of their slots, and then the CRC-32 of those bytes, seeded with `b`. A key selects one block of
each filter; so of 10,000 filters it takes one read of 320 kB. The one column, `blocks`, is FIXED_LEN_BYTE_ARRAY,
required, plain, uncompressed, in row groups of one page each, whose values begin at `starts`.

Every file is written once, whole, under a name of its own, and never changed. What is missing, damaged or about another
state of a data file says nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from parquet_bloom.cache import Cache
from parquet_bloom.errors import CorruptFileError, ParquetBloomError
from parquet_bloom.footer import Plan, interned
from parquet_bloom.ranges import ByteRange
from parquet_bloom.results import Record, from_row
from parquet_bloom.sbbf import BLOCK_BYTES, block_index, blocks_contain
from parquet_bloom.schema import LeafColumn, LogicalType, PhysicalType, Repetition
from parquet_bloom.storage import Folder, Limits, PathLike, RequestLog, Source, StorageOptions, drive, run

FOLDER = "_bloom_index"
FORMAT = 1

MOST_BYTES = 64 * 1024 * 1024
"""What one call reads of blocks; for more keys than that takes, the index says nothing."""

CRC_BYTES = 4

LOG = logging.getLogger("parquet_bloom.index")


# ---- what is stored ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexedColumn(Record):
    """A column of the index and how its filters are made: for `num_items` distinct values of a file, at most."""

    column: str
    fpp: float = 0.1
    num_items: int = 1_000_000
    max_expected_fpp: float = 1.0


@dataclass(frozen=True, slots=True)
class Blocks(Record):
    """A blocks file: `num_slots` filters of `num_bytes` each; its row groups have `rows` rows, but for the last."""

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
        """Return where block number `block` of all slots lies."""
        start = self.starts[block // self.rows] + block % self.rows * self.row_bytes
        return ByteRange(start, start + self.row_bytes)

    def checked(self, block: int, data: bytes) -> bytes | None:
        """Return the blocks of a row as it was read, or None if it is damaged."""
        body, crc = data[:-CRC_BYTES], data[-CRC_BYTES:]
        return (
            body if len(data) == self.row_bytes and zlib.crc32(body, block) == int.from_bytes(crc, "little") else None
        )


@dataclass(frozen=True, slots=True)
class Segment(Record):
    """An entries file, with its CRC-32, and the blocks files that its rows point into."""

    name: str
    size: int
    crc: int
    num_rows: int
    blocks: tuple[Blocks, ...]


@dataclass(frozen=True, slots=True)
class Version(Record):
    """A state of the index. Of rows for the same data file and column, that of the last segment counts."""

    number: int = 0
    columns: tuple[IndexedColumn, ...] = ()
    segments: tuple[Segment, ...] = ()
    format: int = FORMAT

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number:08}.json"

    def to_json(self) -> bytes:
        """Return the file's bytes: JSON, with the CRC-32 of the rest."""
        body = json.dumps(self.to_dict(), sort_keys=True)
        return json.dumps({"crc": zlib.crc32(body.encode()), "version": json.loads(body)}, sort_keys=True).encode()

    @classmethod
    def of_json(cls, data: bytes) -> Version:
        """Return the version that a file holds; raises `CorruptFileError`."""
        try:
            stored = json.loads(data)
            body = stored["version"]
            if zlib.crc32(json.dumps(body, sort_keys=True).encode()) != stored["crc"] or body["format"] != FORMAT:
                raise CorruptFileError("the version of the index is damaged, or of a format that is not known")
            return from_row(cls, body)
        except (ValueError, KeyError, TypeError) as error:
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
    """What the index has of one data file and column.

    `path` is below the root; `version` tells the state of the file (`Source.version`: inode and times, or the ETag);
    `footer_hash` is the SHA-256 of its footer's bytes; `schema` its leaf columns as JSON. Where there is no filter,
    `problem` says why. `header` is the Thrift header that the filters' bitsets would have in a Parquet file.
    """

    path: str
    version: str
    size: int
    footer_hash: str
    num_rows: int
    row_groups: tuple[Extent, ...]
    schema: str
    column: str
    ndv: float | None = None
    fpp: float | None = None
    header: bytes | None = None
    slots: tuple[Slot, ...] = ()
    problem: str | None = None


def schema_json(leaves: Sequence[LeafColumn]) -> str:
    """Return leaf columns as text that `leaves_of` makes them of again."""
    rows = [[leaf.path, leaf.physical_type, leaf.type_length, _logical(leaf), leaf.nodes] for leaf in leaves]
    return json.dumps(rows, separators=(",", ":"))


def _logical(leaf: LeafColumn) -> dict[str, Any] | None:
    return None if leaf.logical_type is None else asdict(leaf.logical_type)


@lru_cache(maxsize=256)
def leaves_of(schema: str) -> tuple[LeafColumn, ...]:
    """Return the leaf columns that `schema_json` made text of."""
    return interned(
        tuple(
            LeafColumn(
                tuple(path),
                index,
                PhysicalType(physical),
                length,
                None if logical is None else LogicalType(**logical),
                tuple(map(Repetition, nodes)),
            )
            for index, (path, physical, length, logical, nodes) in enumerate(json.loads(schema))
        )
    )


# ---- an index, opened --------------------------------------------------------------------


class Place(NamedTuple):
    """Where a filter of a data file is."""

    blocks: Blocks
    slot: int


@dataclass(slots=True)
class IndexedFile:
    """A data file as the index knows it: its schema, its row groups, and the filters of some columns."""

    version: str
    size: int
    leaves: tuple[LeafColumn, ...]
    row_groups: tuple[Extent, ...]
    filters: dict[int, tuple[Place, ...]] = field(default_factory=dict)  # by the leaf's index
    memo: dict[Any, Any] = field(default_factory=dict)


class BloomIndex:
    """An index as it was when it was opened."""

    def __init__(self, version: Version, files: dict[str, IndexedFile], sources: dict[str, Source]) -> None:
        self.version, self._files, self._sources = version, files, sources

    def find(self, source: Source) -> IndexedFile | None:
        """Return what the index has of a data file as it is now, or None."""
        found = self._files.get(source.relative)
        if found is None or not source.is_settled or found.version != source.version or found.size != source.size:
            return None
        return found

    def ask(
        self, questions: Sequence[tuple[Sequence[Place], Sequence[int]]], *, limits: Limits, log: RequestLog | None
    ) -> list[bool]:
        """Return for each question whether one of these filters may hold one of these hashes; True where unknown."""
        wanted: dict[str, dict[int, ByteRange]] = {}
        for places, hashes in questions:
            for blocks in {place.blocks.name: place.blocks for place in places}.values():
                of_file = wanted.setdefault(blocks.name, {})
                for hash_ in hashes:
                    block = block_index(hash_, blocks.num_bytes // BLOCK_BYTES)
                    of_file[block] = blocks.range(block)
        if sum(len(r) for of_file in wanted.values() for r in of_file.values()) > MOST_BYTES:
            return [True] * len(questions)
        by_name = {b.name: b for segment in self.version.segments for b in segment.blocks}
        rows: dict[tuple[str, int], bytes] = {}
        jobs = ((self._sources[name], _ranges(wanted[name])) for name in wanted)
        for name, (_, found) in zip(wanted, drive(jobs, limits=limits, log=log), strict=True):
            if isinstance(found, Exception):
                LOG.warning("the index says nothing: %s", found)
                continue
            for block, data in found.items():
                if (row := by_name[name].checked(block, data)) is None:
                    LOG.warning("the index says nothing: %s is damaged", name)
                else:
                    rows[name, block] = row
        answers = _Answers(rows)
        return [any(answers.may_hold(place, h) for place in places for h in hashes) for places, hashes in questions]


class _Answers:
    """What all filters of a blocks file say to a hash, worked out once."""

    def __init__(self, rows: dict[tuple[str, int], bytes]) -> None:
        self._rows = rows
        self._found: dict[tuple[str, int], bytes] = {}

    def may_hold(self, place: Place, hash_: int) -> bool:
        """Return whether a filter may hold a hash; True where its row could not be read."""
        key = place.blocks.name, hash_
        found = self._found.get(key)
        if found is None:
            block = block_index(hash_, place.blocks.num_bytes // BLOCK_BYTES)
            row = self._rows.get((place.blocks.name, block))
            found = self._found[key] = b"\1" * place.blocks.num_slots if row is None else blocks_contain(row, hash_)
        return found[place.slot] != 0


def _ranges(wanted: dict[int, ByteRange]) -> Plan[dict[int, bytes]]:
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
    """Return the index of the data below `root`, or None if there is none that can be read."""
    folder = folder_of(root, storage_options=storage_options, filesystem=filesystem)
    try:
        version = newest(folder, log=log)
        if version is None:
            return None
        key = version.source.identity and ("bloom index", version.source.identity)
        index: BloomIndex | None = cache.get(key) if key else None
        if index is None:
            index, num_bytes = _opened(folder, version.version, log)
            if key:
                cache.put(key, index, num_bytes)
    except (ParquetBloomError, OSError) as error:
        LOG.warning("the index of %s is not used: %s", root, error)
        return None
    return index


def index_of(
    paths: PathLike | Iterable[PathLike],
    sources: Sequence[Source],
    *,
    storage_options: StorageOptions = None,
    filesystem: Any = None,
    cache: Cache,
    log: RequestLog | None = None,
) -> BloomIndex | None:
    """Return the index beside the `sources` that `paths` name, if that is one directory, and has one."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if len(listed) != 1 or not sources:
        return None
    root = os.fspath(listed[0])
    if any(char in root for char in "*?[") or root.rstrip("/").endswith(sources[0].relative):
        return None  # a glob, or a file
    return open_index(root, storage_options=storage_options, filesystem=filesystem, cache=cache, log=log)


def folder_of(root: str, *, storage_options: StorageOptions = None, filesystem: Any = None) -> Folder:
    """Return the folder of the index of the data below `root`."""
    return Folder(f"{root.rstrip('/')}/{FOLDER}", storage_options=storage_options, filesystem=filesystem)


class Newest(NamedTuple):
    """The version that counts, and its file."""

    version: Version
    source: Source


def newest(folder: Folder, *, log: RequestLog | None = None) -> Newest | None:
    """Return the newest version in a folder, or None; raises `CorruptFileError` and `OSError`."""
    numbers = [int(name[:8]) for name in folder.names() if re.fullmatch(r"\d{8}\.json", name)]
    if not numbers:
        return None
    source = folder.source(f"{max(numbers):08}.json")
    return Newest(Version.of_json(read_whole(source, log=log)), source)


def read_whole(source: Source, *, log: RequestLog | None = None) -> bytes:
    """Return a file's bytes."""

    def plan() -> Plan[bytes]:
        (data,) = yield [ByteRange(0, source.size)]
        return data

    return run(source, plan(), log=log)


def _opened(folder: Folder, version: Version, log: RequestLog | None) -> tuple[BloomIndex, int]:
    files: dict[str, IndexedFile] = {}
    sources: dict[str, Source] = {}
    num_bytes = 0
    columns = {column.column for column in version.columns}
    for segment in version.segments:
        try:
            data = read_whole(folder.source(segment.name), log=log)
            if zlib.crc32(data) != segment.crc:
                raise CorruptFileError(f"{segment.name} is damaged")
            for blocks in segment.blocks:
                sources[blocks.name] = folder.source(blocks.name)
                if sources[blocks.name].size != blocks.size:
                    raise CorruptFileError(f"{blocks.name} is damaged")
        except (ParquetBloomError, OSError) as error:
            LOG.warning("a part of the index says nothing: %s", error)
            continue
        num_bytes += 8 * len(data)
        for entry in entries_of(data):
            if entry.column in columns:
                _take(files, entry, segment)
    return BloomIndex(version, files, sources), num_bytes


def _take(files: dict[str, IndexedFile], entry: Entry, segment: Segment) -> None:
    known = files.get(entry.path)
    if known is None or known.version != entry.version:  # of an older state, nothing counts
        known = files[entry.path] = IndexedFile(entry.version, entry.size, leaves_of(entry.schema), entry.row_groups)
    index = next((leaf.index for leaf in known.leaves if leaf.name == entry.column), -1)
    known.filters.pop(index, None)
    if entry.problem is None and index >= 0:
        known.filters[index] = tuple(Place(segment.blocks[slot.blocks], slot.slot) for slot in entry.slots)


def entries_of(data: bytes) -> Iterator[Entry]:
    """Yield the rows of an entries file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(data), use_threads=False)
    extents: dict[Any, tuple[Extent, ...]] = {}
    for row in table.to_pylist():
        key = tuple(tuple(group.values()) for group in row["row_groups"])
        if key not in extents:
            extents[key] = tuple(Extent(*group) for group in key)
        row["row_groups"] = extents[key]
        row["slots"] = tuple(Slot(**slot) for slot in row["slots"])
        yield Entry(**row)


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
"""What a row group of a blocks file has, at most."""


def blocks_file(name: str, column: str, bitsets: Sequence[bytes]) -> tuple[bytes, Blocks]:
    """Return the blocks file of bitsets of one size, and what a version says of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    num_bytes = len(bitsets[0])
    blocks = Blocks(name, 0, column, num_bytes, len(bitsets), 0, ())
    width, count = blocks.row_bytes, num_bytes // BLOCK_BYTES
    rows = max(1, min(count, GROUP_BYTES // width))
    data = b"".join(_row(block, bitsets) for block in range(count))
    array = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)])
    schema = pa.schema([pa.field("blocks", pa.binary(width), nullable=False)])
    out = pa.BufferOutputStream()
    pq.write_table(
        pa.table([array], schema=schema),
        out,
        row_group_size=rows,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        data_page_size=2**30,
        max_rows_per_page=rows,
        store_schema=False,
    )
    written = bytes(out.getvalue())
    starts = tuple(_starts(pq.read_metadata(pa.BufferReader(written)), width))
    blocks = replace(blocks, size=len(written), rows=rows, starts=starts)
    for block in range(count):
        if written[slice(*blocks.range(block))] != data[block * width : (block + 1) * width]:
            raise CorruptFileError("the blocks are not where they were written")
    return written, blocks


def _row(block: int, bitsets: Sequence[bytes]) -> bytes:
    start, stop = BLOCK_BYTES * block, BLOCK_BYTES * (block + 1)
    body = b"".join([bitset[start:stop] for bitset in bitsets])
    return body + zlib.crc32(body, block).to_bytes(CRC_BYTES, "little")


def _starts(metadata: Any, width: int) -> Iterator[int]:
    """Yield where each row group's values begin: behind the header of its one page."""
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
