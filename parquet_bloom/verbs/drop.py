"""`drop`: takes filters away, or gives back the original file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from parquet_bloom.errors import (
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters import hudi
from parquet_bloom.filters.parquet import read_filters
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.format.splice import splice_filters, splice_key_values
from parquet_bloom.results import Record, Table
from parquet_bloom.storage.drive import drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.rewrite import rewrite
from parquet_bloom.verbs.parallel import Progress, Ticker
from parquet_bloom.verbs.retrofit import (
    UNFAMILIAR,
    Edits,
    Status,
    append_footer,
    find_with_targets,
    is_left_alone,
    note_stale,
    parquet_outcomes,
    raise_if_everywhere_missing,
    require_writable,
)


@dataclass(frozen=True, slots=True, repr=False)
class FileDropped(Record):
    """What `drop` did to one file; `bytes_left` is what the cleared filters still take, `bytes_freed` what was cut.

    `filters_back` are the older filters that a restored file has again. Where filters are cleared instead,
    `bytes_restorable` is what restoring the new file would free, and `filters_back` how many it would bring back.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "status", "cleared", "bytes_freed", "error")

    path: str
    output: str
    status: Status
    size: int
    cleared: int = 0
    bytes_left: int = 0
    bytes_freed: int = 0
    bytes_restorable: int = 0
    filters_back: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Dropped(Table):
    """The result of `drop`, a row for each file."""

    TRUTH: ClassVar[str] = ".rows, or .errors"

    rows: tuple[FileDropped, ...]

    @property
    def errors(self) -> tuple[FileDropped, ...]:
        """The files that were refused."""
        return tuple(row for row in self.rows if row.error)


# ---- drop --------------------------------------------------------------------------------


def drop(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    restore: bool = False,
    all: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    any_name: bool = False,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Dropped:
    """Return what was done to take the filters of `columns` (default: all) away.

    The fields in the footer are cleared and the filters' bytes stay; `restore` cuts the file instead, to the oldest
    prefix that is a whole Parquet file with the same pages and all else that the footer says: after `add`, the original
    byte for byte. Where another tool has appended a footer of its own meanwhile, what it wrote is kept, with a note;
    with `all` it is cut away, too. Output, checks and errors are those of `add`.
    """
    if all and not restore:
        raise ValueError("all says how far to restore; use it with restore")
    if restore and columns:
        raise UnsupportedError("--restore cuts the whole file back, so it takes all columns; leave --column out")
    wanted = None if columns is None else [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]
    sources, targets = find_with_targets(paths, output, filesystem=filesystem, storage_options=storage_options)
    checked: list[tuple[Source, str | None, _DropPlan | Exception | None]] = []
    surveyed = drive((source, _survey_drop(source, wanted)) for source in sources)
    for source, target, outcome in parquet_outcomes(surveyed, targets):
        is_left = is_left_alone(source, target, any_name)
        checked.append((source, target, None if is_left else _checked_drop(source, target, outcome, force)))
    asked = [plan for _, _, plan in checked if plan is not None]
    raise_if_everywhere_missing([plan if isinstance(plan, Exception) else None for plan in asked])
    if strict and (first := next((p for _, _, p in checked if isinstance(p, Exception)), None)):
        raise first
    rows = []
    tick = Ticker(progress, len(checked))
    for source, target, plan in checked:
        try:
            if isinstance(plan, Exception):
                raise plan
            if plan is None:
                rows.append(FileDropped(source.name, source.name, "unchanged", source.size, notes=(UNFAMILIAR,)))
            elif restore:
                rows.append(_restore_one(source, target, plan, dry_run=dry_run, keep_mtime=keep_mtime, all=all))
            else:
                rows.append(_drop_one(source, target, plan, dry_run=dry_run, keep_mtime=keep_mtime))
        except (ParquetBloomError, OSError) as error:
            if strict:
                raise
            rows.append(
                FileDropped(source.name, target or source.name, "refused", source.size, error=describe_error(error))
            )
        tick()
    return Dropped(tuple(rows))


@dataclass(slots=True)
class _DropPlan:
    footer: Footer
    cleared: list[tuple[int, LeafColumn]]
    bytes_left: int
    notes: list[str]


def _survey_drop(source: Source, wanted: list[tuple[str, ...]] | None) -> Plan[_DropPlan]:
    footer = yield from read_footer(source.size)
    leaves = footer.leaves
    if wanted is not None:
        leaves = tuple(source.find_leaf(leaves, path) for path in wanted)
    cleared = [
        (row_group, leaf)
        for row_group, leaf, chunk in footer.chunks(leaves)
        if chunk is not None and (chunk.bloom_filter_offset is not None or chunk.bloom_filter_length is not None)
    ]
    filters = yield from read_filters(footer, leaves)
    return _DropPlan(footer, cleared, sum(f.length for f in filters), [])


def _checked_drop(
    source: Source, target: str | None, outcome: _DropPlan | Exception, force: bool
) -> _DropPlan | Exception:
    if isinstance(outcome, Exception):
        return outcome
    try:
        require_writable(source, target, outcome.footer, force, outcome.notes)
    except ParquetBloomError as error:
        return error
    return outcome


def _drop_one(source: Source, target: str | None, plan: _DropPlan, *, dry_run: bool, keep_mtime: bool) -> FileDropped:
    def result(status: Status, **fields: Any) -> FileDropped:
        return FileDropped(source.name, target or source.name, status, source.size, notes=tuple(plan.notes), **fields)

    if not plan.cleared and (target is None or dry_run):
        return result("unchanged")
    edits: Edits = {(group, leaf.index): None for group, leaf in plan.cleared}
    done = {}
    if plan.cleared:
        oldest, _ = _go_back(run(source, whole_prefixes(plan.footer)), all=False)
        # What is written here is another state, behind which a restore goes first.
        size = source.size + len(splice_filters(plan.footer.raw, edits)) + 8
        back = len(_stored_filters(oldest).items() - _stored_filters(plan.footer, without=edits).items())
        done = {
            "cleared": len(plan.cleared),
            "bytes_left": plan.bytes_left,
            "bytes_restorable": size - oldest.file_size,
            "filters_back": back,
        }
    if dry_run:
        return result("planned", **done)
    with rewrite(source, source.size, target=target, keep_mtime=keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        if plan.cleared:
            append_footer(out, plan.footer, edits)
        out.commit()
    return result("written" if plan.cleared else "unchanged", **done)


def _restore_one(
    source: Source, target: str | None, plan: _DropPlan, *, dry_run: bool, keep_mtime: bool, all: bool
) -> FileDropped:
    oldest, others = _go_back(run(source, whole_prefixes(plan.footer)), all=all)
    if others is not None:
        plan.notes.append((_CUT_OTHERS if all else _KEPT_OTHERS).format(others))
    keep = oldest.file_size

    def result(status: Status, **fields: Any) -> FileDropped:
        return FileDropped(source.name, target or source.name, status, source.size, notes=tuple(plan.notes), **fields)

    unchanged = keep == source.size
    if unchanged and (target is None or dry_run):
        return result("unchanged")
    now, before = _stored_filters(plan.footer).items(), _stored_filters(oldest).items()
    done = {"cleared": len(now - before), "bytes_freed": source.size - keep, "filters_back": len(before - now)}
    if dry_run:
        return result("planned", **done)
    with rewrite(source, keep, target=target, keep_mtime=keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        out.commit()
    return result("unchanged") if unchanged else result("written", **done)


_KEPT_OTHERS = (
    "another program changed the footer at byte {:,}: that, and what is before it, is kept; "
    "--all (all=True) restores what was before that, too"
)
_CUT_OTHERS = "what another program had changed in the footer at byte {:,} was cut away, too"


def _stored_filters(footer: Footer, without: Container[tuple[int, int]] = ()) -> dict[tuple[int, int], int]:
    """Return where the footer says that filters are, by row group and column."""
    return {
        (group, leaf.index): chunk.bloom_filter_offset
        for group, leaf, chunk in footer.chunks()
        if chunk is not None and chunk.bloom_filter_offset is not None and (group, leaf.index) not in without
    }


def _go_back(states: list[Footer], *, all: bool) -> tuple[Footer, int | None]:
    """Return the oldest of a file's states that a restore goes back to, and where another program's work ends.

    That is where it goes no further, or with `all` where it went on, or None.
    """
    now, others = states[-1], None
    for before in reversed(states[:-1]):
        if _essence(before) != _essence(now):
            others = others or now.file_size
            if not all:
                break
        now = before
    return now, others


def _essence(footer: Footer) -> bytes:
    """Return the footer without what is ever changed here."""
    nothing: Edits = {(group, leaf.index): None for group, leaf, _ in footer.chunks()}
    return splice_key_values(splice_filters(footer.raw, nothing), dict.fromkeys(hudi.ENTRIES))
