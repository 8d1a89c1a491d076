"""Which files and row groups can hold matching rows: `prune` judges a condition, `lookup` (lookup.py) many keys.

One evaluator weighs types, partitions, statistics and filters together. A part of a condition is judged

    CANNOT_MATCH    it is proved that no row of the row group matches
    ASK             neither; a filter might prove it
    MIGHT_MATCH     no proof is to be had

An AND takes the least of its parts, an OR the greatest. Statistics are judged first, so a filter is read only for row
groups that they leave open, and only where its answer would decide.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.bounds import Bounds, BoundsReader
from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError
from parquet_bloom.footer import Footer, Plan, read_footer, together, with_tail
from parquet_bloom.ordering import Interval, literal_interval
from parquet_bloom.parallel import Progress
from parquet_bloom.partitions import Partitions, might_hold, partitions_of
from parquet_bloom.predicate import (
    And,
    ColumnPath,
    Comparison,
    Constant,
    In,
    IsNull,
    Opaque,
    Or,
    Predicate,
    normalized,
    to_predicate,
    typed,
)
from parquet_bloom.probing import Answer, ask
from parquet_bloom.reader import NO_FILTER, describe_error, usable
from parquet_bloom.results import Record, Table
from parquet_bloom.schema import LeafColumn, PhysicalType, format_path
from parquet_bloom.storage import PathLike, RequestLog, Source, StorageOptions, drive, find
from parquet_bloom.values import encode_literal

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class Rank(enum.IntEnum):
    """The answers, in the order in which AND and OR weigh them."""

    CANNOT_MATCH = 0
    ASK = 1
    MIGHT_MATCH = 2


class Verdict(NamedTuple):
    """An answer, what decided it, and in words why."""

    rank: Rank
    reason: str
    by: str = ""


CANNOT, ASK, MIGHT = Rank.CANNOT_MATCH, Rank.ASK, Rank.MIGHT_MATCH
STATISTICS, FILTER, PARTITION, TYPE = "statistics", "filter", "partition", "type"


# ---- a condition, bound to one schema ----------------------------------------------------


@dataclass(slots=True)
class _RowGroup:
    """What the tests of a bound condition are given: one row group, and the answers of filters so far."""

    footer: Footer
    number: int
    answers: dict[int, Answer] = field(default_factory=dict)  # by the test that asked


class _Bound:
    """A condition whose columns and literals have become those of one file."""

    def judge(self, row_group: _RowGroup) -> Verdict:
        """Return the verdict on a row group, as far as it is known."""
        raise AssertionError

    def asking(self, row_group: _RowGroup) -> Iterator[_ColumnTest]:
        """Yield the tests whose filters would decide, where the verdict is ASK."""
        yield from ()


@dataclass(frozen=True, slots=True)
class _Fixed(_Bound):
    """A verdict that holds for the whole file."""

    verdict: Verdict

    def judge(self, row_group: _RowGroup) -> Verdict:
        return self.verdict


@dataclass(frozen=True, slots=True)
class _Combined(_Bound):
    """AND takes its least part, OR its greatest."""

    parts: tuple[_Bound, ...]
    choose: Callable[..., Verdict]

    def judge(self, row_group: _RowGroup) -> Verdict:
        return self.choose((part.judge(row_group) for part in self.parts), key=lambda verdict: verdict.rank)

    def asking(self, row_group: _RowGroup) -> Iterator[_ColumnTest]:
        for part in self.parts:
            if part.judge(row_group).rank is ASK:
                yield from part.asking(row_group)


@dataclass(frozen=True, slots=True)
class _ColumnTest(_Bound):
    """One column against literals. `number` tells the tests of a condition apart."""

    number: int
    leaf: LeafColumn
    test: Comparison | In | IsNull
    hashes: tuple[tuple[int, ...], ...]  # per literal; empty where nothing can equal it
    intervals: tuple[Interval | str, ...]  # per literal, or why there is none
    reasons: tuple[str | None, ...]  # per literal, why equality with it proves nothing
    reader: BoundsReader

    def asking(self, row_group: _RowGroup) -> Iterator[_ColumnTest]:
        yield self

    def judge(self, row_group: _RowGroup) -> Verdict:
        footer, number = row_group.footer, row_group.number
        if problem := footer.chunk_problem(number, self.leaf):
            return Verdict(MIGHT, problem)
        known = self.reader.read(footer, number)
        if isinstance(self.test, IsNull):
            return self._judge_null(known, self.test.is_negated)
        keeps_nulls = isinstance(self.test, Comparison) and self.test.op == "<=>" and self.test.is_negated
        if known.is_all_null and not keeps_nulls:
            return Verdict(CANNOT, f"{self.leaf.name} holds nothing but nulls", STATISTICS)
        if isinstance(self.test, In):
            op = "<>" if self.test.is_negated else "="
        else:
            op = {"<=>": "="}.get(self.test.op, self.test.op)
            op = _NEGATED_OP[op] if self.test.is_negated else op
        if op == "=":
            return self._judge_equality(known, row_group)
        if self.leaf.is_repeated:
            return Verdict(MIGHT, f"{self.leaf.name} is repeated, and only = and IN are proved for any element")
        if _is_float(self.leaf) and (self.test.is_negated or op not in ("<", "<=")):
            return Verdict(MIGHT, f"{self.leaf.name} may hold NaN, which engines order differently")
        if op == "<>":
            return self._judge_inequality(known, keeps_nulls)
        return self._judge_range(known, op)

    def _judge_null(self, known: Bounds, is_negated: bool) -> Verdict:
        name = self.leaf.name
        if self.leaf.is_repeated:
            return Verdict(MIGHT, f"{name} is repeated, so its null count says nothing of rows")
        if is_negated:
            if known.is_all_null:
                return Verdict(CANNOT, f"{name} holds nothing but nulls", STATISTICS)
            return Verdict(MIGHT, f"{name} may hold values")
        if self.leaf.max_definition_level == 0:
            return Verdict(CANNOT, f"{name} is required", TYPE)
        if known.null_count == 0:
            return Verdict(CANNOT, f"{name} holds no null", STATISTICS)
        return Verdict(MIGHT, f"{name} may hold nulls")

    def _judge_equality(self, known: Bounds, row_group: _RowGroup) -> Verdict:
        """Judge = or IN: every literal must be ruled out."""
        proof = Verdict(CANNOT, f"no {self.leaf.type_name} equals it", TYPE)
        open_hashes = 0
        for hashes, interval, reason in zip(self.hashes, self.intervals, self.reasons, strict=True):
            if outside := _outside(known, interval):
                proof = Verdict(CANNOT, f"{self.leaf.name} is {outside}", STATISTICS)
            elif reason is not None:
                return Verdict(MIGHT, reason)
            else:
                open_hashes += len(hashes)
        if not open_hashes:
            return proof
        return self._judge_filter(known, row_group)

    def _judge_filter(self, known: Bounds, row_group: _RowGroup) -> Verdict:
        answer = row_group.answers.get(self.number)
        if answer is None:
            problem = self._no_filter(row_group)
            return Verdict(MIGHT, problem) if problem else Verdict(ASK, "")
        if answer.problem is not None:
            return Verdict(MIGHT, answer.problem)
        if any(answer.found):
            return Verdict(MIGHT, f"the filter of {self.leaf.name} has all bits of a value")
        return Verdict(CANNOT, f"the filter of {self.leaf.name} lacks the value", FILTER)

    def _no_filter(self, row_group: _RowGroup) -> str | None:
        if reason := usable(row_group.footer, self.leaf):
            return reason
        try:
            location = row_group.footer.filter_location(row_group.number, self.leaf)
        except CorruptFileError as error:
            return describe_error(error)
        return NO_FILTER if location is None else None

    def open_hashes(self, row_group: _RowGroup) -> list[int]:
        """Return the hashes of the literals that statistics leave open."""
        known = self.reader.read(row_group.footer, row_group.number)
        pairs = zip(self.hashes, self.intervals, strict=True)
        return [h for hashes, interval in pairs if not _outside(known, interval) for h in hashes]

    def _judge_inequality(self, known: Bounds, keeps_nulls: bool) -> Verdict:
        if known.low is not None and known.low == known.high and known.is_exact:
            same = any(interval == (known.low, known.low) for interval in self.intervals)
            if same and (not keeps_nulls or known.null_count == 0):
                return Verdict(CANNOT, f"{self.leaf.name} holds no other value", STATISTICS)
        return Verdict(MIGHT, f"{self.leaf.name} may hold another value")

    def _judge_range(self, known: Bounds, op: str) -> Verdict:
        (interval,) = self.intervals
        if isinstance(interval, str):
            return Verdict(MIGHT, interval)
        if known.low is None:
            return Verdict(MIGHT, known.untrusted)
        low, high = interval
        beyond = {
            "<": known.low >= high,
            "<=": known.low > high,
            ">": known.high <= low,
            ">=": known.high < low,
        }[op]
        if beyond:
            side = "above" if op[0] == "<" else "below"
            return Verdict(CANNOT, f"{self.leaf.name} lies {side} it", STATISTICS)
        return Verdict(MIGHT, f"{self.leaf.name} may lie within")


_NEGATED_OP = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _outside(known: Bounds, interval: Interval | str) -> str | None:
    if known.low is None or isinstance(interval, str):
        return None
    low, high = interval
    return "all above it" if high < known.low else "all below it" if low > known.high else None


def _is_float(leaf: LeafColumn) -> bool:
    return leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE) or bool(
        leaf.logical_type and leaf.logical_type.name == "FLOAT16"
    )


# ---- binding -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Binder:
    """Binds a condition to a file; remembers what no file could bind."""

    predicate: Predicate
    timezone: str | None
    case_sensitive: bool
    errors: dict[int, Exception] = field(default_factory=dict)
    bound_somewhere: set[int] = field(default_factory=set)
    _memo: dict[Any, _Bound] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def bind(self, footer: Footer, partitions: Partitions) -> _Bound:
        key = (footer.leaves, partitions)
        if key not in self._memo:
            if len(self._memo) > 256:
                self._memo.clear()
            self._numbers = count()  # the same for the same part of the condition in every file
            self._memo[key] = self._bind(self.predicate, footer.leaves, partitions)
        return self._memo[key]

    def raise_unless_bound(self) -> None:
        """Raise the first error of a part of the condition that no file at all could make sense of."""
        for number, error in self.errors.items():
            if number not in self.bound_somewhere:
                raise error

    def _bind(self, node: Predicate, columns: tuple[LeafColumn, ...], partitions: Partitions) -> _Bound:
        match node:
            case And(parts):
                return _Combined(tuple(self._bind(part, columns, partitions) for part in parts), min)
            case Or(parts):
                return _Combined(tuple(self._bind(part, columns, partitions) for part in parts), max)
            case Constant(True):
                return _Fixed(Verdict(MIGHT, "the condition is TRUE"))
            case Constant(False):
                return _Fixed(Verdict(CANNOT, "the condition is FALSE", TYPE))
            case Comparison() | In() | IsNull():
                return self._bind_test(node, columns, partitions)
        text = node.text if isinstance(node, Opaque) else str(node)
        return _Fixed(Verdict(MIGHT, f"not used to prune: {text}"))

    def _bind_test(
        self, node: Comparison | In | IsNull, columns: tuple[LeafColumn, ...], partitions: Partitions
    ) -> _Bound:
        number = next(self._numbers)
        constants = partitions.named(node.column, case_sensitive=self.case_sensitive)
        found = [leaf for leaf in columns if self._is_same(leaf.path, node.column)]
        if constants:
            self.bound_somewhere.add(number)
            if found:
                return _Fixed(Verdict(MIGHT, f"{format_path(node.column)} is both a column and a partition"))
            return _Fixed(_judge_partition(node, constants))
        if len(found) != 1:
            return _Fixed(self._unbound(number, node.column, columns, found))
        try:
            bound = self._column_test(number, found[0], node)
        except LiteralError as error:
            self.errors.setdefault(number, error)
            return _Fixed(Verdict(MIGHT, str(error)))
        self.bound_somewhere.add(number)
        return bound

    def _is_same(self, path: ColumnPath, asked: ColumnPath) -> bool:
        if self.case_sensitive:
            return path == asked
        return [part.casefold() for part in path] == [part.casefold() for part in asked]

    def _unbound(
        self, number: int, path: ColumnPath, columns: tuple[LeafColumn, ...], found: list[LeafColumn]
    ) -> Verdict:
        name = format_path(path)
        if found:
            return Verdict(MIGHT, f"{name} names {len(found)} columns that differ in case only")
        if any(self._is_same(leaf.path[: len(path)], path) for leaf in columns):
            self.bound_somewhere.add(number)
            return Verdict(MIGHT, f"{name} is a group of columns")
        names = [leaf.name for leaf in columns]
        self.errors.setdefault(number, ColumnNotFoundError(name, names))
        return Verdict(MIGHT, f"the file has no column {name}")

    def _column_test(self, number: int, leaf: LeafColumn, node: Comparison | In | IsNull) -> _Bound:
        if isinstance(node, IsNull):
            return _ColumnTest(number, leaf, node, (), (), (), BoundsReader(leaf))
        if isinstance(node, Comparison) and node.value is None:
            if node.op == "<=>":
                return _ColumnTest(number, leaf, IsNull(node.column, node.is_negated), (), (), (), BoundsReader(leaf))
            return _Fixed(Verdict(MIGHT, "compared with NULL"))
        literals = node.values if isinstance(node, In) else (node.value,)
        if any(value is None for value in literals):
            return _Fixed(Verdict(MIGHT, "NULL is among the values"))
        if not literals:
            rank = MIGHT if isinstance(node, In) and node.is_negated else CANNOT
            return _Fixed(Verdict(rank, "the list of values is empty", TYPE))
        bound = [self._literal(leaf, value) for value in literals]
        hashes, intervals, reasons = zip(*bound, strict=True)
        return _ColumnTest(number, leaf, node, hashes, intervals, reasons, BoundsReader(leaf))

    def _literal(self, leaf: LeafColumn, value: Any) -> tuple[tuple[int, ...], Interval | str, str | None]:
        literal = typed(leaf, value)
        if isinstance(literal, Opaque):
            return (), literal.text, literal.text
        encodings = encode_literal(leaf, literal, timezone=self.timezone)
        return encodings.hashes(), literal_interval(leaf, literal, timezone=self.timezone), encodings.reason


def _judge_partition(node: Comparison | In | IsNull, constants: Sequence[str | None]) -> Verdict:
    name = format_path(node.column)
    if any(might_hold(node, constant) for constant in constants):
        return Verdict(MIGHT, f"partition {name} may match")
    return Verdict(CANNOT, f"partition {name} is {constants[0]}", PARTITION)


# ---- results -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowGroupVerdict(Record):
    """The verdict on one row group; bytes `start` to `stop` hold its pages. `by` is what proved CANNOT_MATCH."""

    path: str
    row_group: int
    answer: str
    reason: str
    by: str
    num_rows: int
    start: int
    stop: int

    @property
    def is_kept(self) -> bool:
        """Whether the row group must be read."""
        return self.answer == MIGHT.name


@dataclass(frozen=True, slots=True)
class FileVerdict(Record):
    """The verdicts on one file's row groups; or none, and why it is `kept_whole`, if it could not be judged."""

    path: str
    size: int
    row_groups: tuple[RowGroupVerdict, ...] = ()
    kept_whole: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether any of the file must be read."""
        return self.kept_whole is not None or any(group.is_kept for group in self.row_groups)


@dataclass(frozen=True)
class Pruning(Table):
    """What `prune` decided: `files` and `row_groups` are what must be read, `all_files` has every verdict."""

    where: str
    all_files: tuple[FileVerdict, ...]
    _sources: tuple[Source, ...] = field(default=(), repr=False)

    @cached_property
    def files(self) -> tuple[FileVerdict, ...]:
        """The files that must be read, each with the verdicts on all its row groups."""
        return tuple(file for file in self.all_files if file.is_kept)

    @cached_property
    def row_groups(self) -> tuple[RowGroupVerdict, ...]:
        """The row groups that must be read; a file that is kept whole is not among them."""
        return tuple(group for group in self.rows if group.is_kept)

    @cached_property
    def rows(self) -> tuple[RowGroupVerdict, ...]:
        """The verdict on every row group of every file that could be judged."""
        return tuple(group for file in self.all_files for group in file.row_groups)

    @property
    def might_match(self) -> bool:
        """Whether anything must be read at all."""
        return bool(self.files)

    @cached_property
    def totals(self) -> Totals:
        """Sums over all files."""
        skipped = [group for group in self.rows if not group.is_kept]
        return Totals(
            files=len(self.all_files),
            files_kept=len(self.files),
            files_kept_whole=sum(file.kept_whole is not None for file in self.all_files),
            row_groups=len(self.rows),
            row_groups_kept=len(self.row_groups),
            row_groups_by_statistics=sum(group.by != FILTER for group in skipped),
            row_groups_by_filters=sum(group.by == FILTER for group in skipped),
            bytes=sum(group.stop - group.start for group in self.rows),
            bytes_kept=sum(group.stop - group.start for group in self.row_groups),
            rows_kept=sum(group.num_rows for group in self.row_groups),
        )

    def explain(self) -> str:
        """Return the verdicts as text: each file, each row group, and why."""
        lines = [f"where {self.where}"]
        for file in self.all_files:
            lines.append(f"{file.path}: {'keep' if file.is_kept else 'skip'}")
            if file.kept_whole is not None:
                lines.append(f"  kept whole: {file.kept_whole}")
            for group in file.row_groups:
                proof = "keep" if group.is_kept else f"skip, by {group.by}"
                lines.append(f"  row group {group.row_group}: {proof}: {group.reason}")
        return "\n".join(lines)

    def to_dataset(self) -> ds.FileSystemDataset:
        """Return a pyarrow dataset of exactly the kept row groups, with Hive partition columns.

        The condition is not applied again: it is the scanner's to filter rows. pyarrow's `count_rows()` without a
        filter counts whole files.
        """
        import pyarrow.dataset as ds

        return _dataset(ds, self)


@dataclass(frozen=True, slots=True)
class Totals(Record):
    """Sums over all files of a pruning; files that were kept whole count in `files` only."""

    files: int
    files_kept: int
    files_kept_whole: int
    row_groups: int
    row_groups_kept: int
    row_groups_by_statistics: int
    row_groups_by_filters: int
    bytes: int
    bytes_kept: int
    rows_kept: int


def _dataset(ds: Any, pruning: Pruning) -> Any:
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

    file_format = ds.ParquetFileFormat()
    kept = {file.path: file for file in pruning.files}
    with_partitions = [partitions_of(source.name).constants for source in pruning._sources]
    names = dict.fromkeys(name for constants in with_partitions for name, _ in constants)
    schema = pa.schema([(name, pa.string()) for name in names])
    partitioning = ds.partitioning(schema, flavor="hive") if names else None
    fragments: list[Any] = []
    schemas = []
    for source in pruning._sources:
        store = arrow_fs.LocalFileSystem() if source.local else arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(source.fs))
        file = kept.get(source.name)
        if file is None and (fragments or source is not pruning._sources[-1]):
            continue
        groups = (
            None if file is None or file.kept_whole is not None else [g.row_group for g in file.row_groups if g.is_kept]
        )
        expression = partitioning.parse(source.name) if partitioning else ds.scalar(True)
        fragment = file_format.make_fragment(source.path, store, partition_expression=expression, row_groups=groups)
        schemas.append(fragment.physical_schema)
        if file is not None:
            fragments.append(fragment)
    whole = pa.unify_schemas(schemas, promote_options="permissive")
    for name in names:
        if name not in whole.names:
            whole = whole.append(pa.field(name, pa.string()))
    return ds.FileSystemDataset(fragments, whole, file_format)


# ---- prune -------------------------------------------------------------------------------


def prune(
    paths: PathLike | Iterable[PathLike],
    where: Any,
    *,
    timezone: str | None = None,
    case_sensitive: bool = True,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Pruning:
    """Return which files and row groups can hold rows that match `where`; what is left out is proved not to.

    `where` is SQL text in Spark's dialect, a pyarrow-style filter list, or built with `col()`. Footers are read first,
    filters only for row groups that types, partitions and statistics leave open, and of large filters only the blocks
    that matter. A file that cannot be read or judged is kept whole with the reason; `strict` raises instead. Raises
    `PredicateError` for what does not parse, `ColumnNotFoundError` and `LiteralError` for a column or a literal that no
    file can make sense of.
    """
    predicate = to_predicate(where)
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    binder = _Binder(normalized(predicate), timezone, case_sensitive)
    files = []
    judged = False
    for source, outcome in drive(((s, _judge_file(s, binder)) for s in sources), log=log):
        if isinstance(outcome, Exception):
            if strict:
                raise outcome
            files.append(FileVerdict(source.name, source.size, kept_whole=describe_error(outcome)))
        else:
            judged = True
            files.append(FileVerdict(source.name, source.size, outcome))
        if progress:
            progress(len(files), len(sources))
    if judged:
        binder.raise_unless_bound()
    return Pruning(str(predicate), tuple(files), tuple(sources))


def _judge_file(source: Source, binder: _Binder) -> Plan[tuple[RowGroupVerdict, ...]]:
    footer = yield from read_footer(source.size)
    bound = binder.bind(footer, partitions_of(source.name))
    row_groups = [_RowGroup(footer, number) for number in range(footer.num_row_groups)]
    verdicts = [_judge(bound, row_group) for row_group in row_groups]
    wanted = [
        (row_group, test)
        for row_group, verdict in zip(row_groups, verdicts, strict=True)
        if verdict.rank is ASK
        for test in bound.asking(row_group)
    ]
    if wanted:
        answers = yield from with_tail(footer, together(_ask(row_group, test) for row_group, test in wanted))
        for (row_group, test), answer in zip(wanted, answers, strict=True):
            row_group.answers[test.number] = answer
        for index, (row_group, verdict) in enumerate(zip(row_groups, verdicts, strict=True)):
            if verdict.rank is ASK:
                verdicts[index] = _judge(bound, row_group)
    return tuple(_record(source, row_group, verdict) for row_group, verdict in zip(row_groups, verdicts, strict=True))


def _judge(bound: _Bound, row_group: _RowGroup) -> Verdict:
    if row_group.footer.metadata.row_groups[row_group.number].num_rows == 0:
        return Verdict(CANNOT, "it holds no rows", STATISTICS)
    return bound.judge(row_group)


def _ask(row_group: _RowGroup, test: _ColumnTest) -> Plan[Answer]:
    location = row_group.footer.filter_location(row_group.number, test.leaf)
    assert location is not None  # ASK says that it is there
    return (yield from ask(location, test.open_hashes(row_group), end=row_group.footer.start))


def _record(source: Source, row_group: _RowGroup, verdict: Verdict) -> RowGroupVerdict:
    group = row_group.footer.metadata.row_groups[row_group.number]
    start, stop = _extent(group)
    return RowGroupVerdict(
        source.name, row_group.number, verdict.rank.name, verdict.reason, verdict.by, group.num_rows, start, stop
    )


def _extent(group: Any) -> tuple[int, int]:
    """Return the first byte of a row group's pages and the one after the last."""
    starts, stops = [], []
    for column in group.columns:
        chunk = column.meta_data
        if chunk is not None:
            start = chunk.data_page_offset
            if 0 < (chunk.dictionary_page_offset or 0) < start:
                start = chunk.dictionary_page_offset
            starts.append(start)
            stops.append(start + chunk.total_compressed_size)
    return min(starts, default=0), max(stops, default=0)
