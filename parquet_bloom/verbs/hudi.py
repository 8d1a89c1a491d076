"""Gives files the filter of record keys that Hudi looks for in the footer of a base file.

As `add` does, it appends to the file as it is:

    old file, its footer included | new footer

The new footer is the old one's bytes with Hudi's entries spliced in, in the place of older ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.filters import hudi
from parquet_bloom.format.footer import MAGIC, Footer, parse_footer, read_footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType, parse_path
from parquet_bloom.format.splice import splice_key_values
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.rewrite import rewrite, summaries_above
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.parallel import Progress, Ticker, num_threads
from parquet_bloom.verbs.retrofit import (
    SUMMARY,
    AddingPlan,
    FileAdded,
    append_checked,
    carry_out,
    find_with_targets,
    note_stale,
    parquet_outcomes,
    plan_each,
    raise_refusals,
    require_writable,
)


@dataclass(frozen=True, slots=True)
class _Options:
    key_column: tuple[str, ...]
    builder: Callable[[], hudi.Builder]
    replace: bool
    keep_mtime: bool
    force: bool


@dataclass(slots=True)
class _Plan(AddingPlan):
    builds: bool = field(kw_only=True)
    footer: Footer | None = field(kw_only=True)
    """None of a file with a filter, whose footer is large: it is read again rather than held."""


def add_filter(
    paths: PathLike | Iterable[PathLike],
    key_column: str = hudi.RECORD_KEY,
    *,
    type: str = "DYNAMIC_V0",
    ndv: int = hudi.NUM_ENTRIES,
    fpp: float = hudi.FPP,
    max_entries: int = hudi.MAX_ENTRIES,
    replace: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Added:
    """Return what was done to give files Hudi's filter of record keys, with its type and the smallest and largest key.

    The entries are what Hudi writes for the same settings: by default 431,380 characters in the footer of every file of
    up to 60,000 rows, and twice that beyond. Files are checked and written as by `add`, so a file inside a Hudi table
    is refused unless `force`, because the table records its size. Also refused are columns of anything but text, rows
    without a key, and any column but `_hoodie_record_key` if the file has values in that, because readers look them up.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB.
        key_column: The column with the record keys as Hudi spells them, such as `id:1,name:Alice` for a complex key.
        type: Hudi's type of filter: `DYNAMIC_V0` or `SIMPLE`.
        ndv: Keys to size the filter for; Hudi's `hoodie.index.bloom.num_entries`.
        fpp: The false-positive rate.
        max_entries: The most keys a dynamic filter is sized for.
        replace: Build the filter again where there is one.
        output: Write new files here and leave the old ones: a directory, or a path for one file.
        dry_run: Only report what would be done. It reads the keys and reports the size.
        keep_mtime: Keep the files' modification times.
        force: Change files even inside a Delta, Iceberg, Hudi or Paimon table, whose readers may then fail.
        any_name: In directories, also change files whose names do not end in `.parquet`, `.parq` or `.pq`.
        follow_links: Also change files outside of the given folders, to which symbolic links in these lead.
        strict: Raise for the first file that is refused, before anything is written.
        jobs: Files that are worked on at once. By default one for each processor.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        progress: Is called with how much is done and how much there is in all. It counts files.

    Returns:
        An `Added`: a row for each file. `.errors` are the files that were refused.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has the column.
        ValueError: Hudi has no filter of such a type or size.

    Examples:
        >>> (row,) = parquet_bloom.hudi.add_filter("staged/base.parquet", ndv=1000, dry_run=True)
        >>> row.status, row.bytes_added > 0
        ('planned', True)
    """
    builder = partial(hudi.Builder, type=type, num_entries=ndv, fpp=fpp, max_entries=max_entries)
    builder()  # refuses what cannot be
    options = _Options(parse_path(key_column), builder, replace, keep_mtime, force)
    sources, targets = find_with_targets(
        *(paths, output), follow_links=follow_links, filesystem=filesystem, storage_options=storage_options
    )
    surveyed = drive(refuse_links_out((source, read_footer(source.size)) for source in sources))
    steps = plan_each(parquet_outcomes(surveyed, targets), AddingPlan, partial(_planned, options), any_name=any_name)
    raise_refusals(steps, strict=strict)
    tick = Ticker(progress, sum(isinstance(step, _Plan) for step in steps))

    def work(plan: _Plan, stop: threading.Event) -> FileAdded:
        try:
            return _carried_out(plan, options, stop, dry_run=dry_run)
        finally:
            tick()

    return Added(carry_out(steps, work, at_once=num_threads(jobs), strict=strict, dry_run=dry_run))


def _planned(options: _Options, file: AddingPlan, footer: Footer) -> _Plan:
    source = file.source
    require_writable(source, file.target, footer, options.force, file.notes)
    _key_leaf(source, footer, options.key_column)
    has_filter = hudi.FILTER in footer.key_values
    builds = options.replace or not has_filter
    if not builds:
        file.notes.append("has a filter")
    return _Plan(source, file.target, file.notes, builds=builds, footer=None if has_filter else footer)


def _carried_out(plan: _Plan, options: _Options, stop: threading.Event, *, dry_run: bool) -> FileAdded:
    source, target = plan.source, plan.target
    if not plan.builds and (target is None or dry_run):
        return plan.result("unchanged")
    raw = None
    if plan.builds:
        footer = plan.footer or run(source, read_footer(source.size))
        leaf = _key_leaf(source, footer, options.key_column)
        builder = options.builder()
        for keys in _keys(footer, ColumnChunks(source, footer), leaf, stop):
            builder.add(keys)
        raw = _with_entries(footer, builder.entries())
    if dry_run and raw is not None:
        return plan.result("planned", bytes_added=len(raw) + 8)
    if target is None:
        plan.notes += summaries_above(source, SUMMARY)
    with rewrite(source, source.size, target=target, keep_mtime=options.keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        if raw is not None:
            append_checked(out, raw + len(raw).to_bytes(4, "little") + MAGIC)
        out.commit()
    return plan.result("written" if raw else "unchanged", bytes_added=out.position - source.size)


def _with_entries(footer: Footer, made: dict[str, str]) -> bytes:
    """Return the footer with the entries of a filter, proved to differ from the old one in nothing else."""
    entries = {name: made.get(name) for name in hudi.ENTRIES}
    raw = splice_key_values(footer.raw, entries)
    nothing = dict.fromkeys(entries)
    if splice_key_values(raw, nothing) != splice_key_values(footer.raw, nothing):
        raise CorruptFileError("the footer cannot be changed without loss")
    new = parse_footer(footer.file_size + len(raw) + 8, raw)
    if new.key_values != {k: v for k, v in footer.key_values.items() if k not in entries} | made:
        raise CorruptFileError("the footer reads back differently")
    hudi.filter_of(new)  # raises where it would not be believed
    return raw


def _key_leaf(source: Source, footer: Footer, path: tuple[str, ...]) -> LeafColumn:
    leaf = source.find_leaf(footer.leaves, path)
    logical = leaf.logical_type.name if leaf.logical_type else None
    if leaf.physical_type is not PhysicalType.BYTE_ARRAY or logical != "STRING" or leaf.is_repeated:
        raise UnsupportedError(
            f"column {leaf.name} ({leaf.type_name}) cannot hold record keys: they are strings, one per row"
        )
    own = [each for each in footer.leaves if each.path == (hudi.RECORD_KEY,)]
    if own and path != (hudi.RECORD_KEY,) and not _is_blank(footer, own[0]):
        raise UnsupportedError(f"the file's record keys are in column {hudi.RECORD_KEY}, not in {leaf.name}")
    return leaf


def _is_blank(footer: Footer, leaf: LeafColumn) -> bool:
    """Return whether a column has no values but null and the empty text: so it is without `populate.meta.fields`."""
    statistics = [(chunk.num_values, chunk.statistics) for _, _, chunk in footer.chunks((leaf,))]
    return all(s is not None and (s.null_count == count or s.max_value == b"") for count, s in statistics)


def _keys(footer: Footer, chunks: ColumnChunks, leaf: LeafColumn, stop: threading.Event) -> Iterator[list[str]]:
    """Yield the keys of a file, many at a time, in the order of its rows."""
    for row_group in range(footer.num_row_groups):
        for array in chunks.values(row_group, leaf, each=True):
            if stop.is_set():
                raise CancelledError
            yield [_key(value, row_group) for value in array.to_pylist()]


def _key(value: str | bytes | None, row_group: int) -> str:
    if not value:
        what = "no" if value is None else "an empty"
        raise UnsupportedError(f"a row of row group {row_group} has {what} key, which Hudi does not allow")
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise UnsupportedError(f"a key of row group {row_group} is not UTF-8: {value!r}") from None
