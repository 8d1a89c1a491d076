"""How rows leave a file: planned from its footer and its key column, then written as a new file, and proved.

Row groups without the keys are copied byte for byte (`format/assembly.py`), the others are written again without these
rows (`storage/reencode.py`), with filters of the same columns. The new file is searched for the keys before it becomes
visible.
"""

from __future__ import annotations

import json
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError, describe_error
from parquet_bloom.filters import hudi
from parquet_bloom.filters.parquet import stored_filter, why_distrusted
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import Assembly, old_parts, pages_of, read_offset_indexes, require_apart
from parquet_bloom.format.footer import MAGIC, Footer, Plan, parse_footer
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.format.splice import key_values_in
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.format.understood import require_explained, require_understood, require_understood_indexes
from parquet_bloom.results import Record
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.rewrite import Composition, compose
from parquet_bloom.values.encoding import why_unbuildable
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.verbs.add_files import AddOptions, build_filter
from parquet_bloom.verbs.erase_search import KeySearch, bounds_in, has_key
from parquet_bloom.verbs.lookup import Hit
from parquet_bloom.verbs.retrofit import (
    Edits,
    FilePlan,
    Step,
    Unchanged,
    append_checked,
    append_footer,
    note_stale,
    require_writable,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.storage.columns import ColumnChunks

ErasureStatus = Literal["written", "removed", "unchanged", "planned", "refused"]
"""What came of a file."""


@dataclass(frozen=True, slots=True, repr=False)
class FileErased(Record):
    """What `erase` did to one file.

    `status` is `written`, `removed` (it had no other rows), `unchanged` (it has no row with a key), `planned` (dry run:
    `bytes_written` is an estimate) or `refused`, with the `error`. `rows_deleted_before` are those of the `rows_erased`
    that the table had already deleted, whose bytes were still there. `row_groups_dropped` are those without a row left.
    `notes` are sentences that the user should see. `output` is the new file that took the place of a table's.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "status", "rows_erased", "bytes_written", "error")

    path: str
    status: ErasureStatus
    rows_erased: int = 0
    rows_deleted_before: int = 0
    row_groups_copied: int = 0
    row_groups_rewritten: int = 0
    row_groups_dropped: int = 0
    bytes_before: int = 0
    bytes_written: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None
    output: str | None = None


@dataclass(slots=True)
class ErasedFile(FilePlan[FileErased]):
    """A file that rows may leave."""

    def result(self, status: Any, **fields: Any) -> FileErased:
        """Return what came of the file."""
        return FileErased(self.source.name, status, bytes_before=self.source.size, notes=tuple(self.notes), **fields)

    @property
    def unchanged(self) -> Unchanged[FileErased]:
        """The file, if it has no row with a key."""
        return Unchanged(self.source, self.result("unchanged"))


@dataclass(slots=True)
class ErasePlan(ErasedFile):
    """What is to leave one file, of whose rows some have a key.

    `kept` has, for each row group that is not copied, which of its rows stay; `hits`, for each with keys, which of its
    rows have one. `deleted` are the numbers of the rows that a table had already deleted, which leave as well.
    """

    _: KW_ONLY
    footer: Footer
    leaf: LeafColumn
    kept: dict[int, pa.BooleanArray]
    hits: dict[int, pa.BooleanArray]
    deleted: array[int] = field(default_factory=lambda: array("q"))
    rows_deleted_before: int = 0
    keep_empty: bool = False

    @property
    def rows_erased(self) -> int:
        """How many rows with a key leave."""
        return sum(rows.true_count for rows in self.hits.values())

    @property
    def dropped(self) -> list[int]:
        """The row groups without any row left."""
        return [number for number, rows in self.kept.items() if not rows.true_count]

    @property
    def left(self) -> list[int]:
        """The row groups with rows left."""
        dropped = {*self.dropped}
        return [number for number in range(self.footer.num_row_groups) if number not in dropped]

    @property
    def copied(self) -> list[int]:
        """The row groups that stay as they are."""
        return [number for number in range(self.footer.num_row_groups) if number not in self.kept]

    @property
    def empties(self) -> bool:
        """Whether the file has no rows left, and is to be removed."""
        return not self.keep_empty and len(self.dropped) == self.footer.num_row_groups

    def result(self, status: Any, **fields: Any) -> FileErased:
        """Return what came of the file."""
        counts = {
            "rows_erased": self.rows_erased,
            "rows_deleted_before": self.rows_deleted_before,
            "row_groups_copied": len(self.copied),
            "row_groups_rewritten": len(self.kept) - len(self.dropped),
            "row_groups_dropped": len(self.dropped),
        }
        return ErasedFile.result(self, status, **({} if status == "refused" else counts), **fields)


EraseStep: TypeAlias = Step[ErasePlan, FileErased]


# ---- planning ----------------------------------------------------------------------------


def plan_erasure(
    file: ErasedFile,
    search: KeySearch,
    candidates: Sequence[Hit],
    *,
    deleted: Callable[[], array[int]] = lambda: array("q"),
    keep_empty: bool = False,
) -> EraseStep:
    """Return what is to leave a file; nothing is written.

    `candidates` are the row groups that may have a key. If one has, all others are searched, too, for what remains of
    the file must not have a key. If there is one, `deleted` is called for the numbers of the rows that the table has
    deleted, ascending. Raises what keeps the file from being changed.
    """
    import pyarrow as pa

    footer, leaf = search.footer, search.leaf
    if leaf.is_repeated:
        raise UnsupportedError(
            f"column {leaf.name} has lists: a row can have several keys, of which one alone may match"
        )
    numbers = [number for number, group in enumerate(footer.row_groups) if group.num_rows]
    named = {hit.row_group for hit in candidates}
    first = numbers if None in named else [number for number in numbers if number in named]
    for number in first:
        search.search(number)
    if not search.kept:
        return file.unchanged
    for number, group in enumerate(footer.row_groups):
        if not group.num_rows:
            search.kept[number] = pa.array([], pa.bool_())  # it is not worth a copy
            continue
        if number not in first:
            search.search(number)
        if number not in search.kept and search.is_in_bounds(number):
            search.kept[number] = pa.array([True] * group.num_rows)  # written again, its bounds are others
    plan = ErasePlan(
        *(file.source, file.target, file.notes),
        footer=footer,
        leaf=leaf,
        kept=search.kept,
        hits=search.hits,
        deleted=deleted(),
        keep_empty=keep_empty,
    )
    _leave_out_deleted(plan)
    _require_erasable(plan)
    _write_dictionaries_again(plan, search.chunks)
    _require_rewritable(plan)
    plan.notes += _notes_of_entries(plan)
    return plan


def _leave_out_deleted(plan: ErasePlan) -> None:
    """Have the rows leave, too, that the table had already deleted: the new file has no list of them."""
    import pyarrow.compute as pc

    start = 0
    for number, group in enumerate(plan.footer.row_groups):
        stop = start + group.num_rows
        here = plan.deleted[bisect_left(plan.deleted, start) : bisect_left(plan.deleted, stop)]
        if here:
            live = _all_but(here, start, group.num_rows)
            if (hits := plan.hits.get(number)) is not None:
                plan.rows_deleted_before += hits.true_count - pc.and_(hits, live).true_count
            plan.kept[number] = pc.and_(plan.kept[number], live) if number in plan.kept else live
        start = stop
    if others := len(plan.deleted) - plan.rows_deleted_before:
        plan.notes.append(f"the file also loses rows without a key that the table had already deleted: {others:,}")


def _all_but(numbers: Iterable[int], start: int, count: int) -> pa.BooleanArray:
    """Return so many values, true but for the rows of these numbers; the first row has the number `start`."""
    import pyarrow as pa

    flags = bytearray(b"\x01") * count
    for number in numbers:
        flags[number - start] = 0
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(flags)]).cast(pa.bool_())


def _require_erasable(plan: ErasePlan) -> None:
    """Raise unless the file can be written again without loss."""
    footer = plan.footer
    require_writable(plan.source, plan.target, footer, False, plan.notes, for_swap=True)
    require_understood(footer)
    if any(entry.encode() in footer.notes for entry in hudi.ENTRIES):
        raise UnsupportedError(
            "the file is a base file of Hudi: its footer has a filter and the range of its record keys, which Hudi's "
            "readers rely on; delete the rows with Hudi"
        )
    if footer.created_by.startswith("parquet-mr version 1.") and _minor(footer.created_by) < (2, 9):
        raise UnsupportedError("parquet-mr before 1.2.9 wrote wrong sizes of column chunks; write the file again")
    for row_group in plan.left:
        for leaf in footer.leaves:
            if problem := footer.chunk_problem(row_group, leaf):
                raise CorruptFileError(f"row group {row_group}, column {leaf.name}: {problem}")
    require_apart(footer, plan.left)
    run(plan.source, require_understood_indexes(footer))
    run(plan.source, require_explained(footer))


def _write_dictionaries_again(plan: ErasePlan, chunks: ColumnChunks) -> None:
    """Have row groups written again whose dictionaries have values that no row of theirs has.

    Some writers give each row group all of the values of a column, so these may be those of a row that leaves.
    """
    import pyarrow as pa

    footer = plan.footer
    for number in plan.copied:
        for leaf in footer.leaves:
            try:
                is_larger = chunks.has_unused_entries(number, leaf)
            except (CorruptFileError, UnsupportedError) as error:
                plan.notes.append(
                    f"row group {number}, column {leaf.name}: its dictionary may have values of erased rows, "
                    f"for it cannot be read: {describe_error(error)}"
                )
                continue
            if is_larger:
                plan.kept[number] = pa.array([True] * footer.row_groups[number].num_rows)
                break


def _require_rewritable(plan: ErasePlan) -> None:
    from parquet_bloom.storage.reencode import why_not_written

    for row_group in plan.kept.keys() - {*plan.dropped}:
        if reason := why_not_written(plan.footer, row_group):
            raise UnsupportedError(reason)


_ENTRIES_WITHOUT_VALUES = frozenset(
    {
        "ARROW:schema",
        "avro.schema",
        "iceberg.schema",
        "org.apache.spark.legacyDateTime",
        "org.apache.spark.legacyINT96",
        "org.apache.spark.sql.parquet.row.metadata",
        "org.apache.spark.timeZone",
        "org.apache.spark.version",
        "pandas",
        "parquet.avro.schema",
        "parquet.proto.class",
        "parquet.proto.descriptor",
        "thrift.class",
        "thrift.descriptor",
        "writer.model.name",
        "writer.time.zone",
    }
)
"""The entries of key-value metadata that are known to hold nothing about rows, and no place in the file."""


def _notes_of_entries(plan: ErasePlan) -> Iterator[str]:
    """Yield a sentence about what writers noted in the footer that may tell of erased rows."""
    footer = plan.footer
    entries = [((key or b"").decode(errors="replace"), encoded) for key, encoded in key_values_in(footer.raw)]
    # Spark's machine learning notes the values of a column with it.
    others = {key for key, encoded in entries if key not in _ENTRIES_WITHOUT_VALUES or b'"metadata":{"' in encoded}
    if others:
        yield (
            "these entries of the footer's key-value metadata are kept as they are, and may tell of erased rows or of "
            f"places in the old file: {_listed(others)}"
        )
    of_columns = {
        entry.key
        for row_group in plan.kept.keys() - {*plan.dropped}
        for leaf in footer.leaves
        for entry in footer.whole_column_chunk(row_group, leaf.index).meta_data.key_value_metadata or ()
    }
    if of_columns:
        yield f"the row groups that are written again lose what their column chunks noted: {_listed(of_columns)}"


def _listed(keys: Iterable[str | None]) -> str:
    return ", ".join(sorted(key or "" for key in keys))


def _minor(created_by: str) -> tuple[int, ...]:
    numbers = created_by.removeprefix("parquet-mr version 1.").partition(" ")[0].partition("-")[0].split(".")
    return tuple(int(number) if number.isdecimal() else 0 for number in numbers)


def preview_erasure(plan: EraseStep) -> FileErased:
    """Return what would be done to a file."""
    if not isinstance(plan, ErasePlan):
        return plan.row
    footer = plan.footer
    if plan.empties:
        return plan.result("planned")
    try:
        run(plan.source, _read_filters(plan))
    except (ParquetBloomError, OSError) as error:
        return plan.refused(error).row
    estimate = len(MAGIC) + len(footer.raw) + 8
    for number in plan.left:
        size = sum(len(pages_of(footer, number, leaf)) for leaf in footer.leaves)
        rows = plan.kept.get(number)
        estimate += size if rows is None else size * rows.true_count // max(1, footer.row_groups[number].num_rows)
    return plan.result("planned", bytes_written=estimate)


# ---- writing -----------------------------------------------------------------------------


def erase_file(
    plan: ErasePlan,
    keys: KeySet,
    *,
    stop: threading.Event | None = None,
    count: Callable[[int], None] = lambda num_bytes: None,
) -> FileErased:
    """Return what was done to a planned file: it is replaced, or the new one is written to the plan's `target`.

    A file that is left without rows is removed, but not where there is a target: then nothing is written.
    """
    if plan.empties and plan.target is not None:
        return plan.result("removed")
    with compose(plan.source, target=plan.target) as out:
        note_stale(out, plan.notes)
        if plan.empties:
            out.remove()
            return plan.result("removed")
        footer = _write(plan, out, stop or threading.Event(), count)
        _prove(plan, keys, footer, out)
        out.commit()
    return plan.result("written", bytes_written=out.position)


@dataclass(frozen=True, slots=True)
class _OldFilters:
    """Where the filters of the copied row groups are, and the rates of those to build again."""

    extents: Mapping[tuple[int, int], ByteRange]
    rates: Mapping[tuple[int, int], float]


def _write(plan: ErasePlan, out: Composition, stop: threading.Event, count: Callable[[int], None]) -> Footer:
    """Write the new file; return its footer."""
    from parquet_bloom.storage.reencode import without_rows

    footer = plan.footer
    copied, numbers = plan.copied, plan.left
    filters = run(plan.source, _read_filters(plan))
    places = {
        (number, leaf.index): old_parts(footer, number, leaf, filters.extents.get((number, leaf.index)))
        for number in copied
        for leaf in footer.leaves
    }
    indexes = run(plan.source, read_offset_indexes(places))
    assembly = Assembly(footer, places, indexes)
    out.append(assembly.begin())
    for number in numbers:
        if stop.is_set():
            raise CancelledError
        if number in plan.kept:
            rows = plan.kept[number]
            assembly.replace(number, rows.true_count)
            for chunk in without_rows(plan.source, footer, number, rows):
                append_checked(out, assembly.add_chunk(chunk))
        else:
            for extent in assembly.copy(number):
                out.append_from(*extent)
        count(sum(len(pages_of(footer, number, leaf)) for leaf in footer.leaves))
    for part in assembly.tail():
        if isinstance(part, ByteRange):
            out.append_from(*part)
        else:
            append_checked(out, part)
    if out.position != assembly.position:
        raise OSError("the new file is not as long as was planned")
    raw = assembly.footer(_notes(footer, sum(_num_rows(plan, number) for number in numbers)))
    new = parse_footer(out.position + len(raw) + 8, raw)
    edits = _add_filters(plan, new, filters.rates, {old: at for at, old in enumerate(numbers)}, out)
    append_footer(out, new, edits)
    size = out.position
    tail = int.from_bytes(out.read(size - 8, 4), "little")
    return parse_footer(size, out.read(size - 8 - tail, tail))


def _num_rows(plan: ErasePlan, row_group: int) -> int:
    rows = plan.kept.get(row_group)
    return plan.footer.row_groups[row_group].num_rows if rows is None else rows.true_count


def _read_filters(plan: ErasePlan) -> Plan[_OldFilters]:
    """Plan to find the filters of a file; those that must not prune are noted, and not taken over."""
    footer = plan.footer
    extents: dict[tuple[int, int], ByteRange] = {}
    rates: dict[tuple[int, int], float] = {}
    lost: dict[str, None] = {}
    dropped = {*plan.dropped}
    for row_group, leaf in footer.chunks_with_filters(footer.leaves):
        if row_group in dropped:
            continue
        key = row_group, leaf.index
        stored = yield from stored_filter(footer, row_group, leaf)
        if stored is None:
            continue
        if stored.problem is not None or stored.location is None:
            lost[f"the filters of column {leaf.name} are not kept: {stored.problem}"] = None
        elif row_group not in plan.kept:
            offset = stored.location.offset
            extents[key] = ByteRange(offset, offset + stored.length)
        elif reason := why_unbuildable(leaf):
            lost[f"the filters of column {leaf.name} are not built again where row groups are rewritten: {reason}"] = (
                None
            )
        elif stored.bloom is not None:
            rates[key] = min(max(stored.bloom.fpp, LEAST_RATE), MOST_RATE)
    plan.notes += lost
    return _OldFilters(extents, rates)


LEAST_RATE, MOST_RATE = 0.001, 0.1
"""A filter that is built again has the rate of the old one, but for these limits: that one may be far too large."""


def _add_filters(
    plan: ErasePlan,
    new: Footer,
    rates: Mapping[tuple[int, int], float],
    numbers: Mapping[int, int],
    out: Composition,
) -> Edits:
    """Append the filters of the row groups that were written again; return where they are."""
    from parquet_bloom.storage.columns import WrittenChunks

    chunks = WrittenChunks(plan.source, new, lambda start, stop: out.read(start, stop - start))
    edits: Edits = {}
    for (old, index), rate in rates.items():
        row_group, leaf = numbers[old], new.leaves[index]
        if not chunks.value_bound(row_group, leaf):
            continue
        bloom = build_filter(chunks, row_group, leaf, AddOptions((leaf.path,), fpp=rate), lambda: False)
        if bloom.is_empty and why_distrusted(new, row_group, leaf, bloom):
            continue
        data = bloom.to_bytes()
        edits[row_group, index] = append_checked(out, data), len(data)
    return edits


def _prove(plan: ErasePlan, keys: KeySet, footer: Footer, out: Composition) -> None:
    """Raise unless the new file has the rows that it should, and no key in its pages and bounds."""
    from parquet_bloom.storage.columns import WrittenChunks

    leaf = footer.leaves[plan.leaf.index]
    rows_left = plan.footer.num_rows - len(plan.deleted) - (plan.rows_erased - plan.rows_deleted_before)
    if footer.num_rows != rows_left:
        raise CorruptFileError("the new file has the wrong number of rows; nothing was written")

    def read_at(start: int, stop: int) -> bytes:
        return out.read(start, stop - start)

    chunks = WrittenChunks(plan.source, footer, read_at)
    _prove_dictionaries(plan, footer, chunks)
    for row_group in range(footer.num_row_groups):
        chunk = footer.whole_column_chunk(row_group, leaf.index)
        index = None
        if (place := old_parts(footer, row_group, leaf, None).column_index) is not None:
            index, _ = decode(ttypes.ColumnIndex, read_at(*place))
        arrays = [bounds_in(leaf, chunk.meta_data.statistics, index)]
        if (dictionary := chunks.dictionary(row_group, leaf)) is not None:
            arrays.append(dictionary)
        for values in chain(arrays, chunks.values(row_group, leaf)):
            if has_key(keys, values):
                raise CorruptFileError("a key is still in the new file; nothing was written")


def _prove_dictionaries(plan: ErasePlan, footer: Footer, chunks: ColumnChunks) -> None:
    """Raise if a row group that was written again has a value in a dictionary that none of its rows has."""
    for row_group, old in enumerate(plan.left):
        for leaf in footer.leaves if old in plan.kept else ():
            if chunks.has_unused_entries(row_group, leaf):
                raise CorruptFileError("a dictionary in the new file has values of no row; nothing was written")


# ---- what writers noted in the footer --------------------------------------------------------


def _notes(footer: Footer, num_rows: int) -> dict[str, str | None]:
    """Return the entries of the key-value metadata that are to change: pandas counts the rows there."""
    if b"pandas" not in footer.notes:
        return {}
    entries = footer.key_values
    changes: dict[str, str | None] = {}
    if (pandas := entries.get("pandas")) is not None and (counted := _counted(pandas, num_rows)) is not None:
        changes["pandas"] = counted
    if (schema := entries.get("ARROW:schema")) is not None and (counted := _counted_schema(schema, num_rows)):
        changes["ARROW:schema"] = counted
    return changes


def _counted(text: str, num_rows: int) -> str | None:
    """Return pandas' metadata with an index of as many rows, None if it has no such index."""
    try:
        noted = json.loads(text)
        ranges = [index for index in noted["index_columns"] if isinstance(index, dict) and index["kind"] == "range"]
        for index in ranges:
            index["stop"] = index["start"] + index["step"] * num_rows
    except (ValueError, KeyError, TypeError):
        return None
    return json.dumps(noted) if ranges else None


def _counted_schema(text: str, num_rows: int) -> str | None:
    """Return Arrow's schema, in which pandas' metadata is as well."""
    import base64

    import pyarrow as pa

    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
        noted = dict(schema.metadata or {})
        counted = _counted(noted[b"pandas"].decode(), num_rows)
    except (pa.ArrowException, ValueError, KeyError):
        return None
    if counted is None:
        return None
    schema = schema.with_metadata(noted | {b"pandas": counted.encode()})
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
