"""Builds the index's filters from data files, and writes them as segments."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters.build import fill
from parquet_bloom.filters.index import (
    Blocks,
    Entry,
    Extent,
    IndexedColumn,
    Segment,
    Slot,
    blocks_file,
    entries_bytes,
    schema_json,
    state_of,
)
from parquet_bloom.filters.index_states import states_bytes
from parquet_bloom.filters.parquet import read_filters, why_unusable
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, optimal_num_bytes, write_header
from parquet_bloom.format.schema import LeafColumn, PhysicalType, parse_path
from parquet_bloom.results import NOT_UNICODE, in_unicode
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import drive
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables import Snapshot
from parquet_bloom.tables.snapshots import leaf_at
from parquet_bloom.values.encoding import most_hashes, why_unbuildable

SEGMENT_BYTES = 64 * 1024 * 1024
"""The size of a segment's bitsets. Every key takes a read from each segment."""


def why_unsupported(leaf: LeafColumn) -> str | None:
    """Return why a column's type cannot be indexed, or None."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    by_type = {
        PhysicalType.INT32: (None, "INTEGER", "DATE"),
        PhysicalType.INT64: (None, "INTEGER", "TIMESTAMP"),
        PhysicalType.FLOAT: (None,),
        PhysicalType.DOUBLE: (None,),
        PhysicalType.INT96: (None,),
        PhysicalType.BYTE_ARRAY: ("STRING",),
    }
    if logical not in by_type.get(leaf.physical_type, ()) or leaf.is_repeated:
        return f"column {leaf.name} is {leaf.type_name}, which the index does not support"
    return why_unbuildable(leaf)


# ---- building ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """A row to write, and the bitsets of its filters; `of` is the local file that they were built or copied from."""

    entry: Entry
    bitsets: tuple[bytes, ...] = ()
    of: str = ""

    @property
    def num_bytes(self) -> int:
        """The bytes of its bitsets."""
        return sum(map(len, self.bitsets))


@dataclass(frozen=True, slots=True)
class Access:
    """How encrypted files are read: with which keys, and whether filters of their values may be stored unencrypted."""

    decryption: Decryption | None = None
    allow_unencrypted: bool = False

    def why_not(self, footer: Footer, leaf: LeafColumn | None) -> Exception | None:
        """Return why an encrypted column gets no row, not even one without a filter: another call may give one."""
        groups = range(footer.num_row_groups)
        sealed = [n for n in groups if leaf is not None and footer.is_encrypted(n, leaf)]
        problem = next((footer.chunk_problem(n, leaf) for n in sealed if leaf is not None), None)
        if problem and leaf is not None:
            return UnsupportedError(f"{leaf.name}: {problem}")
        is_encrypted = bool(sealed) or footer.encrypted_length > 0
        return UnsupportedError(_UNENCRYPTED) if is_encrypted and not self.allow_unencrypted else None


_UNENCRYPTED = (
    "the file is encrypted, and the index would hold filters of its values that are not; "
    "it is only indexed with allow_unencrypted=True"
)
OPEN = Access()


def why_no_rows(
    footer: Footer, columns: Sequence[IndexedColumn], snapshot: Snapshot | None, access: Access
) -> Exception | None:
    """Return why an encrypted column of a file gets no row; None if all get one."""
    problems = (access.why_not(footer, _leaf(footer, column, snapshot)) for column in columns)
    return next(filter(None, problems), None)


def build(
    source: Source,
    columns: Sequence[IndexedColumn],
    stop: threading.Event,
    snapshot: Snapshot | None = None,
    access: Access = OPEN,
) -> tuple[list[Built], Exception | None]:
    """Return the rows of a data file, and why it cannot be read, or an encrypted column of it.

    A column that it does not have, or that cannot be read for another reason, gets a row without a filter.
    """
    if in_unicode(source.relative) != source.relative:
        return [], UnsupportedError(NOT_UNICODE)
    ((_, outcome),) = drive([(source, _read_columns(source, columns, snapshot, access))])
    if isinstance(outcome, Exception) and not isinstance(outcome, ConcurrentChangeError):
        return [], outcome
    if isinstance(outcome, Exception) or not source.is_mtime_stable:
        return [], None  # it has changed, or may change without a new mtime: the next refresh tries again
    footer, leaves, stored = outcome
    extents = tuple(Extent(*group) for group in footer.row_groups)
    rows = []
    refused = None
    for column in columns:
        leaf = leaves[column.column]
        if problem := access.why_not(footer, leaf):
            refused = problem
            continue
        entry = Entry(
            source.relative,
            state_of(source),
            source.size,
            hashlib.sha256(footer.raw).hexdigest(),
            footer.num_rows,
            extents,
            schema_json(footer.leaves, footer.node_ids),
            column.column,
            None if leaf is None else leaf.index,
        )
        try:
            if leaf is None and snapshot is not None:
                snapshot.find(footer, parse_path(column.column))  # which says why
            if leaf is None:
                raise ColumnNotFoundError(column.column, [leaf.name for leaf in footer.leaves], where="the file")
            blooms = _blooms(source, footer, leaf, column, stored.get(column.column), stop)
            rows.append(_with_filters(entry, column, blooms))
        except (ParquetBloomError, NotImplementedError) as error:
            if isinstance(error, ConcurrentChangeError):
                return [], None
            rows.append(Built(replace(entry, problem=describe_error(error))))
        except OSError as error:
            return [], error  # it may be temporary
    if source.is_local:
        rows = [replace(row, of=source.path) for row in rows]
    return rows, refused  # if the file has changed since it was listed, they do not match it and are ignored


_FileColumns = tuple[Footer, dict[str, LeafColumn | None], dict[str, list[SplitBlockBloomFilter] | None]]
"""A footer, and by column name: the leaf in the file, and the filters in the file."""


def _leaf(footer: Footer, column: IndexedColumn, snapshot: Snapshot | None) -> LeafColumn | None:
    return leaf_at(footer, parse_path(column.column), snapshot)


def _read_columns(
    source: Source, columns: Sequence[IndexedColumn], snapshot: Snapshot | None, access: Access
) -> Plan[_FileColumns]:
    footer = yield from read_footer(source.size, guess=source.footer_guess, decryption=access.decryption)
    leaves: dict[str, LeafColumn | None] = {}
    stored: dict[str, list[SplitBlockBloomFilter] | None] = {}
    for column in columns:
        leaf = leaves[column.column] = _leaf(footer, column, snapshot)
        if leaf is not None and why_unusable(footer, leaf) is None:
            filters = yield from read_filters(footer, (leaf,))
            blooms = {f.row_group: f.bloom for f in filters if f.problem is None and f.bloom is not None}
            needed = [n for n, group in enumerate(footer.row_groups) if group.num_rows]
            stored[column.column] = [blooms[n] for n in needed] if set(needed) <= set(blooms) else None
    return footer, leaves, stored


def _blooms(
    source: Source,
    footer: Footer,
    leaf: LeafColumn,
    column: IndexedColumn,
    stored: list[SplitBlockBloomFilter] | None,
    stop: threading.Event,
) -> list[SplitBlockBloomFilter]:
    if problem := why_unusable(footer, leaf) or why_unsupported(leaf):
        raise UnsupportedError(problem)
    taken = _taken_over(stored, column) if stored is not None else None
    if taken is not None:
        return taken
    chunks = ColumnChunks(source, footer)
    bound = sum(chunks.value_bound(number, leaf) for number in range(footer.num_row_groups))
    bloom = SplitBlockBloomFilter.sized_for(most_hashes(leaf, min(bound, column.ndv)), column.fpp)
    for number in range(footer.num_row_groups):
        fill(bloom, chunks, number, leaf, stop.is_set)
    return [bloom.folded_to(column.fpp)]


def _taken_over(stored: list[SplitBlockBloomFilter], column: IndexedColumn) -> list[SplitBlockBloomFilter] | None:
    """Return the filters of a file's row groups merged as far as the options allow; None if their fpp is too high.

    One merged filter is tried first: it is good enough if the row groups have the same values.
    """
    candidates = [stored]
    if stored:
        rate = 1 - (1 - column.fpp) ** (1 / len(stored))
        candidates.insert(0, [bloom.folded_to(rate) for bloom in stored])
        with contextlib.suppress(ValueError):  # their sizes cannot be merged
            candidates.insert(0, [functools.reduce(SplitBlockBloomFilter.merge, stored).folded_to(column.fpp)])
    most = optimal_num_bytes(column.ndv, column.fpp)
    for blooms in candidates:
        if _rate(blooms) <= column.fpp and sum(bloom.num_bytes for bloom in blooms) <= most:
            return blooms
    return None


def _rate(blooms: Sequence[SplitBlockBloomFilter]) -> float:
    """Return the false positive rate of several filters together."""
    none = 1.0
    for bloom in blooms:
        none *= 1 - bloom.fpp
    return 1 - none


def _with_filters(entry: Entry, column: IndexedColumn, blooms: list[SplitBlockBloomFilter]) -> Built:
    rate = _rate(blooms)
    entry = replace(
        entry,
        ndv=sum(bloom.estimated_ndv for bloom in blooms),
        fpp=rate,
        header=write_header(blooms[0].num_bytes) if blooms else None,
    )
    if rate > column.max_expected_fpp:
        return Built(
            replace(
                entry,
                problem=f"the filter's false positive rate of {rate:.2g} would be above {column.max_expected_fpp:g}",
            )
        )
    return Built(entry, tuple(bytes(bloom.bitset) for bloom in blooms))


# ---- segments and versions ---------------------------------------------------------------


def in_segments(folder: Folder, built: Iterable[Built]) -> Iterator[Segment]:
    """Write rows and bitsets as segments; yield each segment's entry in the version."""
    held: list[Built] = []
    num_bytes = 0
    for row in built:
        held.append(row)
        num_bytes += row.num_bytes
        if num_bytes >= SEGMENT_BYTES:
            yield _segment(folder, held)
            held, num_bytes = [], 0
    if held:
        yield _segment(folder, held)


def _segment(folder: Folder, rows: list[Built]) -> Segment:
    files = {row.of for row in rows if row.of}  # the segment gets the permissions that they have in common
    by_size: dict[tuple[str, int], list[bytes]] = {}
    places: list[list[tuple[tuple[str, int], int]]] = []
    for row in rows:
        places.append([])
        for bitset in row.bitsets:
            key = row.entry.column, len(bitset)
            slots = by_size.setdefault(key, [])
            places[-1].append((key, len(slots)))
            slots.append(bitset)
    written: list[Blocks] = []
    for (column, _), bitsets in by_size.items():
        data, blocks = blocks_file(f"blocks-{uuid.uuid4().hex}.bin", column, bitsets)
        folder.create(blocks.name, data, like=files)
        written.append(blocks)
    numbers = {key: number for number, key in enumerate(by_size)}
    entries = [
        replace(row.entry, slots=tuple(Slot(numbers[key], slot) for key, slot in of_row))
        for row, of_row in zip(rows, places, strict=True)
    ]
    entries.sort(key=lambda entry: (entry.column, entry.path))
    schemas = tuple(dict.fromkeys(entry.schema for entry in entries))
    states = states_bytes(entries, schemas)
    states_name = f"states-{uuid.uuid4().hex}.bin"
    folder.create(states_name, states, like=files)
    data = entries_bytes(entries)
    name = f"entries-{uuid.uuid4().hex}.bin"
    folder.create(name, data, like=files)
    return Segment(
        name,
        len(data),
        zlib.crc32(data),
        len(entries),
        states_name,
        len(states),
        zlib.crc32(states),
        schemas,
        tuple(written),
    )
