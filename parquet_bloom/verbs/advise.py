"""`advise`: which columns would gain from filters, of what rate and size, and which would not, and why.

What a lookup of one value reads is estimated from the bounds in all footers, which say how many row groups are open to
the value, and from the values of a few row groups, which say in how many of those the value really is.
"""

from __future__ import annotations

import logging
import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, Unpack

from parquet_bloom.errors import ColumnNotFoundError, LiteralError, PredicateError, describe_error
from parquet_bloom.filters.readers import Readers, readers_of, settled, settled_of_table
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.sbbf import false_positive_rate, optimal_num_bytes
from parquet_bloom.format.schema import ColumnPath, LeafColumn, format_path, parse_path
from parquet_bloom.predicates.parsing import PARAMETER, conditions_in, to_predicate
from parquet_bloom.predicates.tree import And, Comparison, In, Or, Predicate, Text
from parquet_bloom.predicates.typing import readings
from parquet_bloom.results import FailedFile, Record, Table, count_text
from parquet_bloom.storage.cache import footer_of
from parquet_bloom.storage.drive import Limits, RequestLog, drive
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables.table_properties import filters_wanted
from parquet_bloom.values.encoding import encode_literal, hash_plain, why_unbuildable
from parquet_bloom.values.ordering import key_function
from parquet_bloom.verbs.add_to_table import leaves_of_table
from parquet_bloom.verbs.opening import Opened, OpenLake, Reading, with_reading
from parquet_bloom.verbs.reading_keys import read_keys
from parquet_bloom.verbs.samples import (
    Bounds,
    ColumnSample,
    FileColumns,
    Group,
    Point,
    Reads,
    chances,
    collect,
    sample,
    sum_of,
)

LOG = logging.getLogger("parquet_bloom")

MOST_FILES = 2000
"""Files that are looked at; of more, so many at random."""

MOST_LOOKUPS = 1000
"""Given values of a column that are looked up."""

RATES = 0.05, 0.01, 0.001
"""The false-positive rates that may be recommended."""

_Verdict: TypeAlias = Literal["add", "left out", "has filters", "not worth it", "not possible"]


@dataclass(frozen=True, slots=True, repr=False)
class ColumnAdvice(Record):
    """What filters would do for a leaf column, and so whether to `add` them; `reason` says why or why not.

    A column is `left out` that is worth filters, but on which readers would lose rows because of them, in every file.
    The counts are those of a lookup of one value, on average: `groups_now` row groups and `bytes_now` bytes are read
    with the statistics and filters that there are, `groups_with` and `bytes_with` with filters of `fpp` in every row
    group. `filter_bytes` is what these filters add to the files in all, `filter_size` the size of one, and `share` what
    they add in proportion to the files. `overlap` is the share of the row groups that statistics leave open, and
    `ndv` the distinct values of a row group. `saved` is the money that 1,000 lookups save, at the price that was given.
    """

    SHOWN: ClassVar[tuple[str, ...]] = (
        "column",
        "advice",
        "reason",
        "fpp",
        "filter_bytes",
        "groups_now",
        "groups_with",
    )

    column: str
    type: str
    advice: Literal["add", "left out", "has filters", "not worth it", "not possible"]
    reason: str
    fpp: float | None = None
    num_row_groups: int = 0
    num_filters: int = 0
    ndv: int | None = None
    overlap: float | None = None
    groups_now: float | None = None
    groups_with: float | None = None
    bytes_now: float | None = None
    bytes_with: float | None = None
    filter_size: int | None = None
    filter_bytes: int | None = None
    share: float | None = None
    saved: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Table):
    """What `advise` found, a row for each leaf column, those to add first.

    The counts of row groups and bytes are those of all `num_files`, of which `num_files_read` were looked at.
    `table_kind` is the table's, such as Delta, if the files are those of one.
    """

    TRUTH: ClassVar[str] = ".columns, .rows or .errors"
    NOUN: ClassVar[str] = "column"

    rows: tuple[ColumnAdvice, ...]
    errors: tuple[FailedFile, ...]
    num_files: int
    num_files_read: int
    num_row_groups: int
    num_bytes: int
    table_kind: str | None = None

    @property
    def columns(self) -> dict[str, float]:
        """The columns to add filters to, with their rates, as `add` takes them."""
        return {row.column: row.fpp for row in self.rows if row.advice == "add" and row.fpp is not None}

    def _said(self) -> str:
        return f"{len(self.columns):,} of {count_text(len(self.rows), self.NOUN)} worth a filter"

    def _repr_html_(self) -> str:
        from parquet_bloom.drawing.page import pictures_of_advice

        return pictures_of_advice(self.rows) + Table._repr_html_(self)


@with_reading
def advise(
    paths: PathLike | Iterable[PathLike] | Any,
    columns: Sequence[str] | str | None = None,
    *,
    where: Any = None,
    queries: PathLike | None = None,
    dialect: str = "spark",
    keys: Any = None,
    fpp: float | None = None,
    price: float | None = None,
    readers: str | Sequence[str] | None = None,
    accept_hazards: bool = False,
    **how: Unpack[Reading],
) -> Advice:
    """Return for each leaf column whether filters are worth adding, and what a lookup then reads.

    Footers are read, and the values of up to 16 row groups of each column. A lookup is one of a value of a random row,
    unless `keys` or `where` say what is looked up. Of more than 2,000 files, 2,000 are looked at. What a table's own
    properties say of filters comes first, such as `write.parquet.bloom-filter-enabled.column.id` of Iceberg.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        columns: Leaf columns. By default all.
        where: Conditions as they are asked, one or a list. Columns that none of them compares with `=` or `IN` are not
            worth a filter.
        queries: A file of SQL statements, whose conditions are taken instead. Those that do not parse are left out.
        dialect: The SQL of `queries`, by sqlglot's name for it, such as `trino`, `duckdb` or `postgres`.
        keys: Keys as they are looked up, in the one column that is given.
        fpp: The false-positive rate of the filters. By default one is chosen for each column.
        price: What reading 1 TB (10^12 bytes) costs.
        readers: The engines that read the files, as for `add`, which leaves out columns on which they would lose rows.
        accept_hazards: Leave out none of these.

    Returns:
        An `Advice`: a row for each leaf column. `.columns` can be passed to `add`, `.errors` are the files that could
        not be read.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.
        PredicateError: A condition does not parse, or none of the statements.
        LiteralError: A column cannot be compared with any of the values.
        ValueError: An option has a value that makes no sense.

    Examples:
        >>> advice = parquet_bloom.advise("events")
        >>> [(row.column, row.advice) for row in advice]
        [('id', 'has filters'), ('user', 'not worth it')]
    """
    return advise_lake(
        OpenLake(paths, **how),
        columns,
        where=where,
        queries=queries,
        dialect=dialect,
        keys=keys,
        fpp=fpp,
        price=price,
        readers=readers,
        accept_hazards=accept_hazards,
    )


def advise_lake(
    lake: OpenLake,
    columns: Sequence[str] | str | None = None,
    *,
    where: Any = None,
    queries: PathLike | None = None,
    dialect: str = "spark",
    keys: Any = None,
    fpp: float | None = None,
    price: float | None = None,
    readers: str | Sequence[str] | None = None,
    accept_hazards: bool = False,
) -> Advice:
    """Return what `advise` does of files that are open."""
    if sum(one is not None for one in (where, queries, keys)) > 1:
        raise ValueError("give one of where=, queries=, keys=")
    _check(columns, keys, fpp, price)
    known = readers_of(readers, accept_hazards=accept_hazards)
    lookups = _lookups_of_keys(keys, columns) if keys is not None else _lookups(where, queries, dialect)
    opened = lake.opened()
    files, errors = _files(opened, lake.decryption, lake.limits, lake.log)
    if opened.table is None:
        known = settled(known, opened.sources)
    else:
        known = settled_of_table(known, opened.table.snapshot, lake.storage_options)
    wanted = None if columns is None else [parse_path(one) for one in _listed(columns)]
    samples = collect(files, wanted)
    _require([*(wanted or ()), *(lookups or () if where is not None else ())], files, opened)
    if queries is not None and lookups is not None:
        lookups = _as_spelled(lookups, samples)
    of_table = {} if opened.table is None else filters_wanted(opened.table.snapshot.properties)
    of_interest = {
        path: one
        for path, one in samples.items()
        if lookups is None or path in lookups or format_path(path) in of_table
    }
    sample([one for one in of_interest.values() if not _why_impossible(one)], files, lake.jobs, lake.progress)
    size = sum(source.size for source in opened.sources)
    scale = size / max(1, sum(file.source.size for file in files)) if len(opened.sources) > MOST_FILES else 1.0
    rows: list[ColumnAdvice] = []
    for path, one in samples.items():
        if path not in of_interest:
            rows.append(_no(one, "not worth it", "no condition compares it with = or IN"))
            continue
        own = of_table.get(format_path(path))
        values = lookups.get(path) if lookups else None
        points = list(_points(one.leaf, values, lake.timezone)) if values else None
        if own is not None and not points:
            points = None  # the table asks for filters, of which rate and size are estimated from its rows
        rate = own[1] if fpp is None and own is not None else fpp
        row = _advice(one, points, scale, rate, price)
        row = row if own is None else _as_wanted(row, is_on=own[0])
        rows.append(row)
    left_out = _left_out(files, {parse_path(row.column) for row in rows if row.advice == "add"}, known, opened)
    rows = [_without_hazards(row, left_out.get(parse_path(row.column), [])) for row in rows]
    return Advice(
        tuple(sorted(rows, key=_rank)),
        tuple(errors),
        len(opened.sources),
        len(files),
        round(scale * sum(one.num_rows > 0 for file in files for one in file.footer.row_groups)),
        size,
        opened.table.snapshot.kind if opened.table else None,
    )


def _check(columns: Any, keys: Any, fpp: float | None, price: float | None) -> None:
    if fpp is not None and not 0 < fpp < 1:
        raise ValueError(f"fpp= must be between 0 and 1, not {fpp}")
    if price is not None and not 0 <= price < math.inf:
        raise ValueError(f"price= must be 0 or more, not {price}")
    if keys is not None and (columns is None or len(_listed(columns)) != 1):
        raise ValueError("keys= needs columns= with the one column that they are looked up in")


def _listed(columns: Sequence[str] | str) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _require(paths: Iterable[ColumnPath], files: Sequence[FileColumns], opened: Opened) -> None:
    """Raise `ColumnNotFoundError` for a column that no file has, and that is not a partition."""
    leaves = {leaf.path: leaf.name for file in files for leaf in file.leaves if leaf.path[0]}
    for path in paths:
        partitions = opened.table.partitions if opened.table else lambda source: source.partitions
        if path not in leaves and not any(path[0] in partitions(file.source).constants for file in files):
            raise ColumnNotFoundError(format_path(path), sorted(leaves.values()), where="the set of files")


def _rank(row: ColumnAdvice) -> tuple[int, float]:
    order = ("add", "left out", "has filters", "not worth it", "not possible")
    return order.index(row.advice), -((row.bytes_now or 0) - (row.bytes_with or 0))


# ---- what is looked up -------------------------------------------------------------------


Lookups = dict[ColumnPath, list[Any]]
"""The values that are looked up, by column."""


def _lookups_of_keys(keys: Any, columns: Sequence[str] | str | None) -> Lookups:
    (name,) = _listed(columns or ())
    known = read_keys(keys, name)
    if not len(known):
        raise ValueError("keys= has no keys")
    values = [known.literals[at] for at in _spread(len(known), MOST_LOOKUPS)]
    return {parse_path(name): [Text(str(one)) if known.are_text else one for one in values]}


def _lookups(where: Any, queries: PathLike | None, dialect: str) -> Lookups | None:
    """Return what conditions look up; None if there are none."""
    if where is None and queries is None:
        return None
    if queries is not None:
        conditions = _conditions_of_file(Path(queries), dialect)
    else:
        are_many = isinstance(where, list) and all(isinstance(one, str) for one in where)
        conditions = [to_predicate(one) for one in (where if are_many else [where])]
    found: Lookups = {}
    for condition in conditions:
        for path, value in _equalities(condition):
            found.setdefault(path, []).extend([] if value is PARAMETER else [value])
    return {path: [values[at] for at in _spread(len(values), MOST_LOOKUPS)] for path, values in found.items()}


def _conditions_of_file(path: Path, dialect: str) -> list[Predicate]:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8; queries= takes SQL statements") from None
    read = conditions_in(text, dialect)
    if read.first_error is not None:
        if read.num_errors == read.num_statements:
            raise PredicateError(f"{path}: {read.first_error}")
        of_all = f"{read.num_errors:,} of {count_text(read.num_statements, 'statement')}"
        LOG.warning("%s: %s left out, as they do not parse; %s", path, of_all, read.first_error)
    return read.found


def _as_spelled(lookups: Lookups, paths: Iterable[ColumnPath]) -> Lookups:
    """Return the lookups under the columns' own names: most engines do not tell upper from lower case."""
    known = set(paths)
    spelled: dict[str, list[ColumnPath]] = {}
    for path in known:
        spelled.setdefault(format_path(path).casefold(), []).append(path)
    found: Lookups = {}
    for path, values in lookups.items():
        alike = [path] if path in known else spelled.get(format_path(path).casefold(), [])
        for each in alike or [path]:
            found.setdefault(each, []).extend(values)
    return found


def _equalities(node: Predicate) -> Iterator[tuple[ColumnPath, Any]]:
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _equalities(part)
        case Comparison() if node.plain_op == "=":
            yield node.column, node.value
        case In() if not node.is_negated:
            yield from ((node.column, value) for value in node.values)


def _spread(count: int, most: int) -> list[int]:
    """Return the indexes of at most so many of `count` items, evenly spread."""
    return [at * count // min(count, most) for at in range(min(count, most))]


def _points(leaf: LeafColumn, values: Sequence[Any], timezone: str | None) -> Iterator[Point]:
    """Yield the values that a column can hold. Raises `LiteralError` if it is compared with none of them."""
    key = key_function(leaf)
    first_error: LiteralError | None = None
    is_any = False
    for value in values:
        try:
            literals = readings(leaf, value)
            encodings = (
                [encode_literal(leaf, one, timezone=timezone) for one in literals]
                if isinstance(literals, tuple)
                else []
            )
        except LiteralError as error:
            first_error = first_error or error
            continue
        is_any = True
        if plain := next((plain for one in encodings for plain in one.plain), None):
            yield Point(key(plain) if key else None, hash_plain(plain))
    if not is_any and first_error:
        raise first_error


# ---- files -------------------------------------------------------------------------------


def _files(
    opened: Opened, decryption: Decryption | None, limits: Limits, log: RequestLog | None
) -> tuple[list[FileColumns], list[FailedFile]]:
    sources = opened.sources
    if len(sources) > MOST_FILES:
        sources = [sources[at] for at in sorted(random.Random(0).sample(range(len(sources)), MOST_FILES))]
    strays = Strays()
    files, errors = [], []
    table = opened.table
    plans = (
        (source, footer_of(source, opened.cache, decryption)) for source in sources if _is_readable(opened, source)
    )
    for source, outcome in drive(plans, limits=limits, log=log):
        if strays.take(source, outcome):
            continue
        if isinstance(outcome, Exception):
            errors.append(FailedFile(source.name, describe_error(outcome)))
            continue
        files.append(FileColumns(source, outcome, table.snapshot.leaves(outcome) if table else outcome.leaves))
    strays.rest(sources)
    if table is not None:
        left_out = [reason for source in sources if (reason := table.files[source].unreadable) is not None]
        if left_out:
            LOG.warning("%s left out: %s", count_text(len(left_out), "file"), left_out[0])
    return files, errors


def _is_readable(opened: Opened, source: Source) -> bool:
    return opened.table is None or opened.table.files[source].unreadable is None


# ---- the advice --------------------------------------------------------------------------


def _why_impossible(column: ColumnSample) -> str | None:
    if reason := why_unbuildable(column.leaf):
        return reason
    if all(group.is_empty or not group.num_values for group in column.groups):
        return "it has no values"
    return None


def _no(column: ColumnSample, advice: _Verdict, reason: str, **fields: Any) -> ColumnAdvice:
    return ColumnAdvice(
        format_path(column.path),
        column.leaf.type_name,
        advice,
        reason,
        num_row_groups=len(column.groups),
        num_filters=sum(group.has_filter for group in column.groups),
        **fields,
    )


class _Lookup(NamedTuple):
    """What statistics leave open to a lookup of one value, on average, in parts; of each, the share that holds it.

    For a value of a random row these are its own row group, and the others by where they lie from it.
    """

    parts: tuple[tuple[Reads, Reads], ...]

    def reads(self, fpp: float) -> Reads:
        """Return what is read where every row group has a filter; with an `fpp` of 1, without any."""
        return Reads(
            sum(part.row_groups * (held.row_groups + (1 - held.row_groups) * fpp) for part, held in self.parts),
            sum(part.num_bytes * (held.num_bytes + (1 - held.num_bytes) * fpp) for part, held in self.parts),
        )

    @property
    def absent(self) -> float:
        """How many row groups are open to a value that they do not hold."""
        return sum(part.row_groups * (1 - held.row_groups) for part, held in self.parts)


def _advice(
    column: ColumnSample, points: list[Point] | None, scale: float, fpp: float | None, price: float | None
) -> ColumnAdvice:
    if reason := _why_impossible(column):
        return _no(column, "not possible", reason)
    if points == []:
        return _no(column, "not worth it", "it is compared with no value that it can hold")
    if not column.sampled:
        return _no(column, "not possible", column.error or "none of its values could be read")
    lookup = _measured(column, points, scale)
    counts_of = column.counts()
    holding, counts = [column.groups[number] for number in counts_of], list(counts_of.values())
    filtered = sum(group.has_filter for group in holding) / len(holding)
    rate = fpp or _chosen_rate(lookup, counts)
    sizes = [optimal_num_bytes(ndv, rate) for ndv in counts]
    missing = [size for size, group in zip(sizes, holding, strict=True) if not group.has_filter]
    real = sum(false_positive_rate(8 * size / ndv) for size, ndv in zip(sizes, counts, strict=True)) / len(sizes)
    opened, with_filters = lookup.reads(1), lookup.reads(real)
    now = (1 - filtered) * opened + filtered * with_filters
    added = sum(missing) + optimal_num_bytes(0, rate) * sum(
        not group.has_values and not group.has_filter for group in column.groups
    )
    data = sum(group.num_bytes for group in column.groups)
    figures: dict[str, Any] = {
        "fpp": rate,
        "ndv": sorted(counts)[len(counts) // 2],
        "overlap": opened.row_groups / (scale * len(holding)),
        "groups_now": now.row_groups,
        "groups_with": with_filters.row_groups,
        "bytes_now": now.num_bytes,
        "bytes_with": with_filters.num_bytes,
        "filter_size": sorted(sizes)[len(sizes) // 2],
        "filter_bytes": round(scale * added),
        "share": added / data if data else 0.0,
        "saved": None if price is None else (now.num_bytes - with_filters.num_bytes) / 1e12 * price * 1000,
    }
    if not missing:
        return _no(column, "has filters", "every row group has one", **figures)
    why_few = ", as the files are sorted by it" if points is None else " for these values"
    advice, reason = _judged(now, with_filters, holding, figures["share"], scale, why_few)
    return _no(column, advice, reason, **figures)


def _as_wanted(row: ColumnAdvice, *, is_on: bool) -> ColumnAdvice:
    """Return the advice on a column of which the table's own properties say whether it is to have filters."""
    if row.advice in ("has filters", "not possible"):
        return row
    return replace(row, advice="add" if is_on else "not worth it", reason=_ASKED if is_on else _REFUSED)


def _left_out(
    files: Sequence[FileColumns], paths: Collection[ColumnPath], readers: Readers, opened: Opened
) -> dict[ColumnPath, list[str | None]]:
    """Return for each column why `add` would leave it out of each file that has it, None where it would not."""
    snapshot = opened.table.snapshot if opened.table else None
    own = leaves_of_table(snapshot, paths) if snapshot else {}
    reasons: dict[ColumnPath, list[str | None]] = {}
    for file in files:
        for seen in file.leaves:
            if seen.path in paths:
                reason = readers.why_left_out(file.footer, file.footer.leaves[seen.index], own.get(seen.path))
                reasons.setdefault(seen.path, []).append(reason)
    return reasons


def _without_hazards(row: ColumnAdvice, reasons: Sequence[str | None]) -> ColumnAdvice:
    """Return the advice on a column that is left out of files for these reasons, None for a file that gets filters."""
    known = [reason for reason in reasons if reason]
    if row.advice != "add" or not known:
        return row
    if len(known) == len(reasons):
        return replace(row, advice="left out", reason=known[0])
    of_all = f"left out of {len(known):,} of {count_text(len(reasons), 'file')}: {known[0]}"
    return replace(row, reason=f"{row.reason}; {of_all}")


_ASKED = "the table's properties ask for it"
_REFUSED = "the table's properties say no"


def _measured(column: ColumnSample, points: list[Point] | None, scale: float) -> _Lookup:
    """Return what is open to a lookup of one of these values, or of a value of a random row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    groups, bounds = column.groups, Bounds(column.groups)
    chance = chances(groups, (one.number for one in column.sampled))
    if points is None:
        asked = [
            _Asked(one.number, point, groups[one.number].num_values / chance[one.number] / len(one.drawn))
            for one in column.sampled
            for point in one.drawn
        ]
    else:
        asked = [_Asked(_NOWHERE, point, 1.0) for point in points]
    if not asked:
        return _Lookup(())
    hashes = pa.array([one.point.hash for one in asked], pa.uint64())
    seen: dict[_Place, _Seen] = {}
    for one in column.sampled:
        inside = pc.is_in(hashes, one.hashes).to_pylist()
        group, weight = groups[one.number], 1 / chance[one.number]
        for each, is_held in zip(asked, inside, strict=True):
            if each.number != one.number:
                place = _place(groups, each.number, one.number)
                seen.setdefault(place, _Seen()).count(
                    each.weight * weight, group.num_bytes, group.is_open(each.point.key), is_held
                )
    total = _mean((bounds.open_to(one.point.key), one.weight) for one in asked)
    if points is not None:
        everywhere = seen.get(_Place(False, 0), _Seen())
        return _Lookup(((scale * total, everywhere.share),))
    own = _mean((Reads(1, groups[one.number].num_bytes), one.weight) for one in asked)
    of_files: dict[int, list[Group]] = {}
    for group in groups:
        of_files.setdefault(group.file, []).append(group)
    in_file = _mean(
        (sum_of(group for group in of_files[groups[one.number].file] if group.is_open(one.point.key)), one.weight)
        for one in asked
    )
    # Of the value's own file all row groups were looked at, of the others perhaps some.
    parts = [(own, _ALL)]
    weights: dict[int, float] = {}
    for each in asked:
        weights[each.number] = weights.get(each.number, 0.0) + each.weight
    counts = _counts(groups, weights)
    for is_same_file, reads in ((True, in_file - own), (False, scale * (total - in_file))):
        known = {place: of_place for place, of_place in seen.items() if place.is_same_file == is_same_file}
        known = known or seen  # such as the files' own where only one file was sampled
        if not known:
            parts.append((reads, _NONE))
            continue
        opened: list[tuple[float, Reads]] = []
        for place, count in counts.items():
            if place.is_same_file == is_same_file:
                nearest = known[min(known, key=lambda one: abs(one.distance - place.distance))]
                opened.append((count * nearest.open_rate, nearest.share))
        of_all = sum(count for count, _ in opened)
        parts += [(count / of_all * reads, share) for count, share in opened if of_all]
    return _Lookup(tuple(parts))


_NOWHERE = -1
_ALL = Reads(1, 1)
_NONE = Reads(0, 0)


class _Asked(NamedTuple):
    """A value that is looked up, the row group that it was drawn from, and of how many values it is one."""

    number: int
    point: Point
    weight: float


class _Place(NamedTuple):
    """Where a row group lies from a value's own: in the same file or not, and about how many row groups away."""

    is_same_file: bool
    distance: int


def _place(groups: Sequence[Group], own: int, other: int) -> _Place:
    if own == _NOWHERE:
        return _Place(False, 0)
    return _Place(groups[own].file == groups[other].file, abs(own - other).bit_length())


def _counts(groups: Sequence[Group], weights: dict[int, float]) -> dict[_Place, float]:
    """Return how many row groups there are at each place from those that values were drawn from, weighted."""
    before = [0, *accumulate(group.has_values for group in groups)]
    files = [group.file for group in groups]  # in ascending order

    def number_in(start: int, stop: int) -> int:
        start, stop = max(start, 0), min(stop, len(groups))
        return before[stop] - before[start] if start < stop else 0

    counts: dict[_Place, float] = {}
    for own, weight in weights.items():
        first, last = bisect_left(files, files[own]), bisect_right(files, files[own])
        for distance in range(1, len(groups).bit_length() + 1):
            near, far = 1 << distance - 1, 1 << distance
            for start, stop in ((own - far + 1, own - near + 1), (own + near, own + far)):
                same = number_in(max(start, first), min(stop, last))
                for place, count in (
                    (_Place(True, distance), same),
                    (_Place(False, distance), number_in(start, stop) - same),
                ):
                    if count:
                        counts[place] = counts.get(place, 0.0) + weight * count
    return counts


@dataclass(slots=True)
class _Seen:
    """What was seen of the row groups at a place: which were open to a value, and which of those hold it."""

    pairs: float = 0.0
    opened: Reads = _NONE
    held: Reads = _NONE

    def count(self, weight: float, num_bytes: int, is_open: bool, is_held: bool) -> None:
        self.pairs += weight
        if is_open:
            self.opened += weight * Reads(1, num_bytes)
            if is_held:
                self.held += weight * Reads(1, num_bytes)

    @property
    def open_rate(self) -> float:
        return self.opened.row_groups / self.pairs

    @property
    def share(self) -> Reads:
        """Return how much of what is open holds a value."""
        opened = self.opened
        return Reads(
            self.held.row_groups / opened.row_groups if opened.row_groups else 0.0,
            self.held.num_bytes / opened.num_bytes if opened.num_bytes else 0.0,
        )


def _mean(reads: Iterable[tuple[Reads, float]]) -> Reads:
    total, weights = _NONE, 0.0
    for one, weight in reads:
        total, weights = total + weight * one, weights + weight
    return 1 / weights * total


def _chosen_rate(lookup: _Lookup, counts: Sequence[int]) -> float:
    """Return the highest rate at which a lookup reads at most half a row group for nothing; a lower one if it is free.

    Filters come in powers of two, so that several rates may take the same bytes.
    """
    rate = next((rate for rate in RATES if lookup.absent * rate <= _FOR_NOTHING), RATES[-1])
    sizes = {each: [optimal_num_bytes(ndv, each) for ndv in counts] for each in RATES if each <= rate}
    return min(each for each in sizes if sizes[each] == sizes[rate])


_FOR_NOTHING = 0.5
_FEW = 2
_SMALL_GROUP = 64 * 1024
_LARGE_SHARE = 0.1


def _judged(
    now: Reads, with_filters: Reads, holding: Sequence[Group], share: float, scale: float, why_few: str
) -> tuple[_Verdict, str]:
    total = scale * len(holding)
    if total < 2:
        return "not worth it", "there is one row group"
    if now.row_groups < _FEW:
        if now.row_groups > total / 2:
            return (
                "not worth it",
                f"there is little to skip: statistics leave {_count(now.row_groups)} of {_groups(total)}",
            )
        return "not worth it", f"statistics already leave {_count(now.row_groups)} of {_groups(total)}{why_few}"
    if with_filters.num_bytes > now.num_bytes / 2:
        return "not worth it", (
            f"a value is in {_count(with_filters.row_groups)} of the {_groups(now.row_groups)} that statistics leave"
        )
    average = sum(group.num_bytes for group in holding) / len(holding)
    if average < _SMALL_GROUP:
        return "not worth it", f"a row group has {average / 1024:,.1f} KiB, and is as quickly read as a filter"
    if share > _LARGE_SHARE:
        return "not worth it", f"filters would take {share:.0%} of the data"
    return "add", f"a lookup reads {_groups(with_filters.row_groups)} instead of {now.row_groups:,.0f}"


def _groups(count: float) -> str:
    shown = _count(count)
    return f"{shown} row group{'' if shown == '1' else 's'}"


def _count(count: float) -> str:
    return f"{count:,.0f}" if count >= 9.5 else f"{count:.1f}".removesuffix(".0")
