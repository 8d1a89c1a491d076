"""`advise`: which columns would gain from filters, of what rate and size, and which would not, and why.

What a lookup of one value reads is estimated from the bounds in all footers, which say how many row groups are open to
the value, and from the values of a few row groups, which say in how many of those the value really is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from parquet_bloom.errors import ColumnNotFoundError, LiteralError, ParquetBloomError, describe_error
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.sbbf import false_positive_rate, optimal_num_bytes
from parquet_bloom.format.schema import ColumnPath, LeafColumn, format_path, parse_path
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.tree import And, Comparison, In, Not, Or, Predicate, Text
from parquet_bloom.predicates.typing import readings
from parquet_bloom.results import FailedFile, Record, Table
from parquet_bloom.storage.cache import Cache, footer_of
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, drive
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.strays import Strays
from parquet_bloom.values.encoding import encode_literal, hash_plain, why_unbuildable
from parquet_bloom.values.ordering import key_function
from parquet_bloom.verbs.keys import read_keys
from parquet_bloom.verbs.opening import Opened, open_files
from parquet_bloom.verbs.parallel import Progress, Ticker
from parquet_bloom.verbs.samples import (
    Bounds,
    ColumnSample,
    FileColumns,
    Group,
    Point,
    Reads,
    collect,
    num_sampled,
    sample,
)

MOST_FILES = 2000
"""Files that are looked at; of more, every so manieth one."""

MOST_LOOKUPS = 1000
"""Given values of a column that are looked up."""

RATES = 0.05, 0.01, 0.001
"""The false-positive rates that may be recommended."""

Verdict: TypeAlias = Literal["add", "has filters", "not worth it", "not possible"]


@dataclass(frozen=True, slots=True, repr=False)
class ColumnAdvice(Record):
    """What filters would do for a leaf column, and so whether to `add` them; `reason` says why or why not.

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
    advice: Verdict
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
    """

    TRUTH: ClassVar[str] = ".columns, .rows or .errors"

    rows: tuple[ColumnAdvice, ...]
    errors: tuple[FailedFile, ...]
    num_files: int
    num_files_read: int
    num_row_groups: int
    num_bytes: int

    @property
    def columns(self) -> dict[str, float]:
        """The columns to add filters to, with their rates, as `add` takes them."""
        return {row.column: row.fpp for row in self.rows if row.advice == "add" and row.fpp is not None}


def advise(
    paths: PathLike | Iterable[PathLike] | Any,
    columns: Sequence[str] | str | None = None,
    *,
    where: Any = None,
    keys: Any = None,
    fpp: float | None = None,
    price: float | None = None,
    timezone: str | None = None,
    catalog: str | None = None,
    as_of: int | str | None = None,
    allow_outside: bool = False,
    jobs: int | None = None,
    decryption: Decryption | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    cache: Cache | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Advice:
    """Return for each leaf column whether filters are worth adding, and what a lookup then reads.

    Footers are read, and the values of up to 16 row groups of each column. A lookup is one of a value of a random row,
    unless `keys` or `where` say what is looked up. Of more than 2,000 files, 2,000 are looked at.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        columns: Leaf columns. By default all.
        where: Conditions as they are asked, one or a list. Columns that none of them compares with `=` or `IN` are not
            worth a filter.
        keys: Keys as they are looked up, in the one column that is given.
        fpp: The false-positive rate of the filters. By default one is chosen for each column.
        price: What reading 1 TB (10^12 bytes) costs.
        timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
        catalog: A catalog of pyiceberg's configuration; `paths` is then the name of an Iceberg table, such as
            `db.events`.
        as_of: An earlier version of a table, or a time in ISO 8601.
        allow_outside: Also read files that a table's metadata names outside of the table's directory.
        jobs: Threads. By default one for each processor.
        decryption: Keys for encrypted files.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        cache: Keeps footers for the next call. By default all calls share one; `Cache(0)` keeps nothing.
        limits: How many files and bytes are read at once, and how much metadata.
        progress: Is called with how much is done and how much there is in all.
        log: Collects every read request of footers.

    Returns:
        An `Advice`: a row for each leaf column. `.columns` can be passed to `add`, `.errors` are the files that could
        not be read.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.
        PredicateError: A condition does not parse.
        LiteralError: A column cannot be compared with any of the values.
        ValueError: An option has a value that makes no sense.

    Examples:
        >>> advice = parquet_bloom.advise("events")
        >>> [(row.column, row.advice) for row in advice][:2]
        [('user', 'not worth it'), ('id', 'has filters')]
    """
    _check(columns, keys, fpp, price)
    lookups = _lookups(where, keys, columns)
    opened = open_files(
        paths,
        catalog=catalog,
        as_of=as_of,
        filesystem=filesystem,
        storage_options=storage_options,
        cache=cache,
        limits=limits,
        log=log,
        allow_outside=allow_outside,
    )
    files, errors = _files(opened, decryption, limits, log)
    wanted = None if columns is None else [parse_path(one) for one in _listed(columns)]
    samples = collect(files, wanted)
    asked = lookups is not None and keys is None
    for path in wanted or ():
        if path not in samples:
            names = sorted({leaf.name for file in files for leaf in file.leaves if leaf.path[0]})
            raise ColumnNotFoundError(format_path(path), names, where="the set of files")
    useful = [one for path, one in samples.items() if not _why_impossible(one) and (lookups is None or path in lookups)]
    sample(useful, files, Ticker(progress, num_sampled(useful, files)), jobs)
    scale = len(opened.sources) / len(files) if files else 1.0
    rows = []
    for path, one in samples.items():
        values = None if lookups is None else lookups.get(path)
        if asked and values is None:
            rows.append(_no(one, "not worth it", "no condition compares it with = or IN"))
            continue
        points = None if values is None else list(_points(one.leaf, values, timezone))
        rows.append(_advice(one, points, scale, fpp, price))
    groups = next(iter(samples.values())).groups if samples else []
    return Advice(
        tuple(sorted(rows, key=_rank)),
        tuple(errors),
        len(opened.sources),
        len(files),
        round(scale * len(groups)),
        sum(source.size for source in opened.sources),
    )


def _check(columns: Any, keys: Any, fpp: float | None, price: float | None) -> None:
    if fpp is not None and not 0 < fpp < 1:
        raise ValueError(f"fpp= must be between 0 and 1, not {fpp}")
    if price is not None and not price >= 0:
        raise ValueError(f"price= must be 0 or more, not {price}")
    if keys is not None and (columns is None or len(_listed(columns)) != 1):
        raise ValueError("keys= needs columns= with the one column that they are looked up in")


def _listed(columns: Sequence[str] | str) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _rank(row: ColumnAdvice) -> tuple[int, float]:
    order = ("add", "has filters", "not worth it", "not possible")
    return order.index(row.advice), -((row.bytes_now or 0) - (row.bytes_with or 0))


# ---- what is looked up -------------------------------------------------------------------


def _lookups(where: Any, keys: Any, columns: Any) -> dict[ColumnPath, list[Any]] | None:
    """Return the values that are looked up, by column; None if nothing was said of them."""
    if keys is not None:
        (name,) = _listed(columns)
        known = read_keys(keys, name)
        values = [known.literals[at] for at in _spread(len(known), MOST_LOOKUPS)]
        return {parse_path(name): [Text(str(one)) if known.are_text else one for one in values]}
    if where is None:
        return None
    found: dict[ColumnPath, list[Any]] = {}
    for one in where if isinstance(where, list) and all(isinstance(each, str) for each in where) else [where]:
        for path, value in _equalities(to_predicate(one)):
            found.setdefault(path, []).append(value)
    return {path: [values[at] for at in _spread(len(values), MOST_LOOKUPS)] for path, values in found.items()}


def _equalities(node: Predicate) -> Iterator[tuple[ColumnPath, Any]]:
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _equalities(part)
        case Not(part):
            yield from ()
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
    sources = [opened.sources[at] for at in _spread(len(opened.sources), MOST_FILES)]
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
    if not files and errors and len(sources) == 1:
        raise ParquetBloomError(errors[0].error)
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


def _no(column: ColumnSample, advice: Verdict, reason: str, **fields: Any) -> ColumnAdvice:
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
    """A lookup of one value, on average: what statistics leave, and the share of it that really holds the value.

    `own` is what is sure to hold the value.
    """

    open: Reads
    own: Reads
    held: float


def _advice(
    column: ColumnSample, points: list[Point] | None, scale: float, fpp: float | None, price: float | None
) -> ColumnAdvice:
    if reason := _why_impossible(column):
        return _no(column, "not possible", reason)
    if not column.sampled:
        return _no(column, "not possible", column.error or "none of its values could be read")
    lookup = _measured(column, points, scale)
    holding = [group for group in column.groups if group.num_values and not group.is_empty]
    filtered = sum(group.has_filter for group in holding) / len(holding)
    ratio = column.ndv_per_value
    counts = [max(1, round(ratio * group.num_values)) for group in holding]
    rate = fpp or _chosen_rate(lookup)
    sizes = [optimal_num_bytes(ndv, rate) for ndv in counts]
    missing = [size for size, group in zip(sizes, holding, strict=True) if not group.has_filter]
    real = sum(false_positive_rate(8 * size / ndv) for size, ndv in zip(sizes, counts, strict=True)) / len(sizes)
    with_filters, now = _read(lookup, real), _mixed(lookup, real, filtered)
    data = sum(group.num_bytes for group in column.groups)
    figures: dict[str, Any] = {
        "fpp": rate,
        "ndv": sorted(counts)[len(counts) // 2],
        "overlap": lookup.open.row_groups / (scale * len(holding)),
        "groups_now": now.row_groups,
        "groups_with": with_filters.row_groups,
        "bytes_now": now.num_bytes,
        "bytes_with": with_filters.num_bytes,
        "filter_size": sorted(sizes)[len(sizes) // 2],
        "filter_bytes": round(scale * sum(missing)),
        "share": sum(missing) / data if data else 0.0,
        "saved": None if price is None else (now.num_bytes - with_filters.num_bytes) / 1e12 * price * 1000,
    }
    if not missing:
        return _no(column, "has filters", "every row group has one", **figures)
    advice, reason = _judged(lookup, now, with_filters, holding, figures["share"], scale)
    return _no(column, advice, reason, **figures)


def _measured(column: ColumnSample, points: list[Point] | None, scale: float) -> _Lookup:
    """Return what a lookup of one of these values finds, or of a value of a random row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = Bounds(column.groups)
    is_own = points is None
    drawn = [(one.number, point) for one in column.sampled for point in one.drawn]
    asked = drawn if points is None else [(-1, point) for point in points]
    if not asked:
        return _Lookup(Reads(0, 0), Reads(0, 0), 0.0)
    hashes = pa.array([point.hash for _, point in asked], pa.uint64())
    looked = held = 0
    for one in column.sampled:
        group = column.groups[one.number]
        inside = pc.is_in(hashes, one.hashes).to_pylist()
        for (own, point), is_held in zip(asked, inside, strict=True):
            if own != one.number and _is_open(group, point):
                looked += 1
                held += is_held
    reads = [bounds.open_to(point.key) for _, point in asked]
    own = Reads(1, sum(column.groups[number].num_bytes for number, _ in asked) / len(asked)) if is_own else Reads(0, 0)
    num_groups = sum(one.row_groups for one in reads) / len(reads)
    num_bytes = sum(one.num_bytes for one in reads) / len(reads)
    others = scale  # of a value's own row group there is one, whatever share of the files was read
    return _Lookup(
        Reads(
            own.row_groups + others * (num_groups - own.row_groups),
            own.num_bytes + others * (num_bytes - own.num_bytes),
        ),
        own,
        held / looked if looked else 0.0,
    )


def _is_open(group: Group, point: Point) -> bool:
    if group.low is None or group.high is None or point.key is None:
        return True
    return bool(group.low <= point.key <= group.high)


def _read(lookup: _Lookup, fpp: float) -> Reads:
    """Return what is read where every row group has a filter."""
    passing = lookup.held + (1 - lookup.held) * fpp
    return Reads(*(own + (each - own) * passing for each, own in zip(lookup.open, lookup.own, strict=True)))


def _mixed(lookup: _Lookup, fpp: float, filtered: float) -> Reads:
    """Return what is read where this share of the row groups has a filter."""
    reads = _read(lookup, fpp)
    return Reads(*(each + (less - each) * filtered for each, less in zip(lookup.open, reads, strict=True)))


def _chosen_rate(lookup: _Lookup) -> float:
    """Return the highest rate at which a lookup reads at most one row group in two for nothing."""
    absent = (lookup.open.row_groups - lookup.own.row_groups) * (1 - lookup.held)
    return next((rate for rate in RATES if absent * rate <= _FOR_NOTHING), RATES[-1])


_FOR_NOTHING = 0.5
_SMALL_GROUP = 64 * 1024
_LARGE_SHARE = 0.1


def _judged(
    lookup: _Lookup, now: Reads, with_filters: Reads, holding: Sequence[Group], share: float, scale: float
) -> tuple[Verdict, str]:
    total = scale * len(holding)
    if total < 2:
        return "not worth it", "there is one row group"
    if now.row_groups - lookup.own.row_groups < 0.5:
        return (
            "not worth it",
            f"statistics already leave {_groups(now.row_groups)} of {_groups(total)}, as the files are sorted by it",
        )
    if with_filters.num_bytes > now.num_bytes / 2:
        return "not worth it", (
            f"a value is in {_groups(with_filters.row_groups)} of the {now.row_groups:,.0f} that statistics leave"
        )
    average = sum(group.num_bytes for group in holding) / len(holding)
    if average < _SMALL_GROUP:
        return "not worth it", f"a row group has {average / 1024:,.1f} KiB, and is as quickly read as a filter"
    if share > _LARGE_SHARE:
        return "not worth it", f"filters would take {share:.0%} of the data"
    return "add", f"a lookup reads {_groups(with_filters.row_groups)} instead of {now.row_groups:,.0f}"


def _groups(count: float) -> str:
    shown = f"{count:,.0f}" if count >= 9.5 else f"{count:.1f}".removesuffix(".0")
    return f"{shown} row group{'' if shown == '1' else 's'}"
