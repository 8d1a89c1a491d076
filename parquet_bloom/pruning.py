"""Which files and row groups can hold matching rows: `prune` judges a condition, `lookup` (lookups.py) many keys.

One evaluator weighs types, partitions, statistics and filters together. A part of a condition is judged

    CANNOT_MATCH    it is proved that no row of the row group matches
    ASK             neither; a filter might prove it
    MIGHT_MATCH     no proof is to be had

An AND takes the least of its parts, an OR the greatest. Statistics are judged first, so a filter is read only for row
groups that they leave open, and only where its answer would decide.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, islice
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.bounds import Bounds, BoundsReader, collation_problem
from parquet_bloom.cache import SHARED, Cache, footer_of
from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import FilterLocation, Footer, Plan, pages_extent, with_tail
from parquet_bloom.indexes.bloom_index import BloomIndex, IndexedFile, IndexedSchema, index_of
from parquet_bloom.indexes.file_filters import FileFilter
from parquet_bloom.indexes.stored import in_footer, of_table
from parquet_bloom.ordering import Interval, literal_interval
from parquet_bloom.parallel import Progress
from parquet_bloom.partitions import Partitions, constant_partitions, might_hold, partitions_of
from parquet_bloom.predicate import (
    And,
    ColumnPath,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Opaque,
    Or,
    Predicate,
    Text,
    is_float,
    normalized,
    readings,
    to_predicate,
    together,
)
from parquet_bloom.probing import Answer, Question, ask
from parquet_bloom.reader import FILTERS_AT_ONCE, NO_FILTER, describe_error, usable
from parquet_bloom.results import Record, Table
from parquet_bloom.schema import LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.storage import (
    DEFAULT_LIMITS,
    Limits,
    PathLike,
    RequestLog,
    Source,
    StorageOptions,
    changes,
    drive,
)
from parquet_bloom.tables import Snapshot, directory_of, fsspec_options, live_sources
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


class _File:
    """What the tests of a bound condition are given: a file's row groups, and the answers of filters so far.

    Both `open` and `answers` are by test and row group; `open` has the filter, and the hashes of the literals that
    nothing else can rule out. `absent` has the verdict on tests whose literals another format's filter lacks.
    """

    __slots__ = ("absent", "answers", "footer", "open")

    def __init__(self, footer: Footer) -> None:
        self.footer = footer
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}
        self.absent: dict[int, Verdict] = {}

    def facts(self, reader: BoundsReader) -> Sequence[_Facts]:
        """Return what is known of a leaf's column chunks, by row group."""
        found: list[_Facts] | None = self.footer.memo.get(reader.key)
        return found if found is not None else _facts(self.footer, reader)


class _Bound:
    """A condition whose columns and literals have become those of one file."""

    def judge(self, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        """Return the verdict on a row group, as far as it is known."""
        raise AssertionError

    def judge_all(self, file: _File | _IndexedFiles, count: int) -> list[Verdict]:
        """Return the verdicts on all row groups of a file."""
        return [self.judge(file, row_group) for row_group in range(count)]

    def asking(self, file: _File | _IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
        """Yield the tests whose filters would decide, of row groups on which the verdict is ASK."""
        yield from ()


@dataclass(frozen=True, slots=True)
class _Fixed(_Bound):
    """A verdict that holds for the whole file."""

    verdict: Verdict

    def judge(self, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        return self.verdict


@dataclass(frozen=True, slots=True)
class _Combined(_Bound):
    """AND takes its least part, OR its greatest."""

    parts: tuple[_Bound, ...]
    choose: Callable[..., Verdict]

    def judge(self, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        return self.choose((part.judge(file, row_group) for part in self.parts), key=_BY_RANK)

    def judge_all(self, file: _File | _IndexedFiles, count: int) -> list[Verdict]:
        of_parts = zip(*(part.judge_all(file, count) for part in self.parts), strict=True)
        return [self.choose(verdicts, key=_BY_RANK) for verdicts in of_parts]

    def asking(self, file: _File | _IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
        for row_group in row_groups:
            for part in self.parts:
                if part.judge(file, row_group).rank is ASK:
                    yield from part.asking(file, (row_group,))


_BY_RANK = attrgetter("rank")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read one literal: the hashes that it may be stored under, and its place, or why it has none.

    A `reason` says why nothing follows from a filter that lacks the hashes.
    """

    hashes: tuple[int, ...]
    interval: Interval | str
    reason: str | None
    literal: Any = None  # where there is one, and a filter that lacks it proves something

    @property
    def is_point(self) -> bool:
        """Whether one key of the column is all that it can equal."""
        return self.reason is None and not isinstance(self.interval, str) and self.interval[0] == self.interval[1]


class _Literals:
    """The literals of a test, sorted, so that of very many those within a row group's bounds are found at once."""

    def __init__(self, values: Sequence[Sequence[_Reading]]) -> None:
        self.hulls = tuple(_hull([reading.interval for reading in readings]) for readings in values)
        self.readings = [reading.literal for reading in chain.from_iterable(values)]
        points = []
        self._spans = []
        for reading in chain.from_iterable(values):
            if reading.is_point:
                points += [(reading.interval[0], hash_) for hash_ in reading.hashes]
            else:
                self._spans.append(reading)
        points.sort(key=itemgetter(0))
        self._points, self._hashes = [point for point, _ in points], [hash_ for _, hash_ in points]
        self.may_equal = bool(points) or any(span.hashes or span.reason for span in self._spans)
        is_needle = bool(points) and not self._spans and points[0][0] == points[-1][0]
        self.needle = (points[0][0], self._hashes) if is_needle else None  # one value, and its hashes

    def within(self, known: Bounds) -> list[int] | str:
        """Return the hashes of the literals that the bounds leave open, or why nothing follows from a filter."""
        start, stop = 0, len(self._points)
        if known.low is not None and known.high is not None:
            start, stop = bisect_left(self._points, known.low), bisect_right(self._points, known.high)
        hashes = self._hashes[start:stop]
        for span in self._spans:
            if not _is_outside(known, span.interval):
                if span.reason is not None:
                    return span.reason
                hashes += span.hashes
        return hashes


@dataclass(frozen=True, slots=True)
class _NullTest(_Bound):
    """`column IS NULL`, or IS NOT NULL."""

    leaf: LeafColumn
    is_negated: bool
    reader: BoundsReader

    def judge(self, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        leaf, name = self.leaf, self.leaf.name
        facts = file.facts(self.reader)[row_group]
        if facts.problem:
            return Verdict(MIGHT, facts.problem)
        if leaf.is_repeated:
            return Verdict(MIGHT, f"{name} is repeated, so its null count says nothing of rows")
        known = facts.known
        if self.is_negated:
            if known.is_all_null:
                return Verdict(CANNOT, f"{name} holds nothing but nulls", STATISTICS)
            return Verdict(MIGHT, f"{name} may hold values")
        if leaf.max_definition_level == 0:
            return Verdict(CANNOT, f"{name} is required", TYPE)
        if known.null_count == 0:
            return Verdict(CANNOT, f"{name} holds no null", STATISTICS)
        return Verdict(MIGHT, f"{name} may hold nulls")


@dataclass(frozen=True, slots=True)
class _ColumnTest(_Bound):
    """`column op literals`, none of them NULL. `number` tells the tests of a condition apart."""

    number: int
    leaf: LeafColumn
    op: str  # with NOT worked in: = (which is IN, too), <>, <, <=, > or >=
    is_negated: bool
    keeps_nulls: bool  # NOT (column <=> literal) holds for NULL
    literals: _Literals
    reader: BoundsReader
    if_found: Verdict  # by the filter
    if_absent: Verdict

    def asking(self, file: _File | _IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
        return ((self, row_group) for row_group in row_groups)

    def judge(self, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        if answer := file.answers.get((self.number, row_group)):
            return self._judge_answer(answer)
        if self.number in file.absent:
            return file.absent[self.number]
        leaf, facts = self.leaf, file.facts(self.reader)[row_group]
        if facts.problem:
            return Verdict(MIGHT, facts.problem)
        if leaf.is_repeated and (self.op != "=" or self.is_negated):
            return Verdict(MIGHT, f"{leaf.name} is repeated, and only = and IN are proved for any element")
        known = facts.known
        if known.is_all_null and not self.keeps_nulls:
            return Verdict(CANNOT, f"{leaf.name} holds nothing but nulls", STATISTICS)
        if self.op == "=":
            return self._judge_equality(facts, file, row_group)
        if is_float(leaf) and (self.is_negated or self.op not in ("<", "<=")):
            return Verdict(MIGHT, f"{leaf.name} may hold NaN, which engines order differently")
        return self._judge_inequality(known) if self.op == "<>" else self._judge_range(known)

    def judge_all(self, file: _File | _IndexedFiles, count: int) -> list[Verdict]:
        needle = self.literals.needle if self.op == "=" and not file.answers else None
        if needle is None or self.number in file.absent or (self.is_negated and self.leaf.is_repeated):
            return super(_ColumnTest, self).judge_all(file, count)
        key, hashes = needle
        verdicts = []
        for row_group, facts in enumerate(file.facts(self.reader)):
            _, known, location, _, is_usual = facts
            if is_usual and known.low <= key <= known.high:  # type: ignore[operator]
                assert location is not None
                file.open[self.number, row_group] = location, hashes  # as `judge` would, for the usual case
                verdicts.append(_ASK)
            else:
                verdicts.append(self.judge(file, row_group))
        return verdicts

    def _judge_equality(self, facts: _Facts, file: _File | _IndexedFiles, row_group: int) -> Verdict:
        if not self.literals.may_equal:
            return Verdict(CANNOT, f"no {self.leaf.type_name} equals it", TYPE)
        hashes = self.literals.within(facts.known)
        if isinstance(hashes, str):
            return Verdict(MIGHT, hashes)
        if not hashes:
            return Verdict(CANNOT, f"it is not between the least and the greatest {self.leaf.name}", STATISTICS)
        if facts.location is None:
            return Verdict(MIGHT, facts.no_filter)
        file.open[self.number, row_group] = facts.location, hashes
        return _ASK

    def _judge_answer(self, answer: Answer) -> Verdict:
        if answer.problem is not None:
            return Verdict(MIGHT, answer.problem)
        return self.if_found if True in answer.found else self.if_absent

    def _judge_inequality(self, known: Bounds) -> Verdict:
        is_constant = known.is_exact and known.low == known.high and (known.null_count == 0 or not self.keeps_nulls)
        if is_constant and (known.low, known.high) in self.literals.hulls:
            return Verdict(CANNOT, f"{self.leaf.name} holds no other value", STATISTICS)
        return Verdict(MIGHT, f"{self.leaf.name} may hold another value")

    def _judge_range(self, known: Bounds) -> Verdict:
        (interval,) = self.literals.hulls
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
        }[self.op]
        if beyond:
            side = "above" if self.op[0] == "<" else "below"
            return Verdict(CANNOT, f"{self.leaf.name} lies {side} it", STATISTICS)
        return Verdict(MIGHT, f"{self.leaf.name} may lie within")


_ASK = Verdict(ASK, "")


class _Facts(NamedTuple):
    """What is known of one column chunk: why nothing can be relied on, or its bounds and its filter, or why none.

    It `is_usual` if it has values, bounds and a filter.
    """

    problem: str | None
    known: Bounds
    location: FilterLocation | None = None
    no_filter: str = ""
    is_usual: bool = False


def _facts(footer: Footer, reader: BoundsReader) -> list[_Facts]:
    """Return the facts of a leaf's column chunks, and keep them with a footer that is in memory."""
    no_filter = usable(footer, reader.leaf)
    found = [_chunk_facts(footer, group, reader, no_filter) for group in range(footer.num_row_groups)]
    footer.memo[reader.key] = found
    return found


def _chunk_facts(footer: Footer, row_group: int, reader: BoundsReader, no_filter: str | None) -> _Facts:
    leaf = footer.leaves[reader.leaf.index]  # under its name in the file, which a table may call otherwise
    if problem := footer.chunk_problem(row_group, leaf) or collation_problem(footer, leaf):
        return _Facts(problem, Bounds(0, None))
    known = reader.read(footer, row_group)
    try:
        location = footer.filter_location(row_group, leaf)
    except CorruptFileError as error:
        return _Facts(None, known, no_filter=no_filter or describe_error(error))
    if no_filter or location is None:
        return _Facts(None, known, no_filter=no_filter or NO_FILTER)
    return _Facts(None, known, location, is_usual=known.low is not None and not known.is_all_null)


class _IndexedFiles:
    """Whole data files as if each were one row group, of which only the index's filters are known.

    They have the same columns and partitions, so they differ only in what the filters answer.
    """

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, schema: IndexedSchema, bound: _Bound) -> None:
        self._indexed, self._bound = schema.indexed, bound
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}
        self._before = bound.judge(self, 0)
        self._asking = [test for test, _ in bound.asking(self, (0,))] if self._before.rank is ASK else []
        self._verdicts: dict[tuple[bool, ...], Verdict] = {(): self._before}

    @property
    def questions(self) -> list[tuple[int, Sequence[int]]]:
        """The leaves, by index, whose filters would decide, and the hashes to ask them for."""
        return [(test.leaf.index, self.open[test.number, 0][1]) for test in self._asking]

    def verdict(self, answers: tuple[bool, ...]) -> Verdict:
        """Return the verdict on a file that answers the questions so."""
        found = self._verdicts.get(answers)
        if found is None:
            tests = zip(self._asking, answers, strict=True)
            self.answers = {(test.number, 0): Answer((may_hold,)) for test, may_hold in tests}
            found = self._verdicts[answers] = self._bound.judge(self, 0)
        return found

    def facts(self, reader: BoundsReader) -> tuple[_Facts]:
        return _INDEXED if reader.leaf.index in self._indexed else _NOT_INDEXED


_UNKNOWN = Bounds(1, None, untrusted="the index has no statistics")
_INDEXED = (_Facts(None, _UNKNOWN, FilterLocation(0, None)),)  # it is the index that knows where
_NOT_INDEXED = (_Facts("the index does not have the column", _UNKNOWN),)


class _RecordedFile(_IndexedFiles):
    """One file as if it were one row group, of which only what its table's metadata records is known."""

    def __init__(self, known: Mapping[int, Bounds | None], bound: _Bound) -> None:
        self._known = known
        self.open, self.answers = {}, {}
        self._bound = bound

    def judge(self) -> Verdict:
        """Return the verdict on the file."""
        return self._bound.judge(self, 0)

    def facts(self, reader: BoundsReader) -> tuple[_Facts]:
        known = self._known.get(reader.leaf.index)
        return _NOT_RECORDED if known is None else (_Facts(None, known, no_filter="the table has no filters"),)


_NOT_RECORDED = (_Facts("the table does not record the column", Bounds(1, None)),)


def _ruled_out(source: Source, file: IndexedFile, verdict: Verdict) -> FileVerdict:
    """Return the verdict on a file's row groups; the last one is used again, see `_record`."""
    last: tuple[str, Verdict, FileVerdict] | None = file.memo.get("verdict")
    if last is None or last[:2] != (source.name, verdict):
        reason = f"{verdict.reason} (in the index)" if verdict.by == FILTER else verdict.reason
        groups = tuple(
            RowGroupVerdict(source.name, number, CANNOT.name, reason, verdict.by, num_rows, start, stop)
            for number, (num_rows, start, stop) in enumerate(file.row_groups)
        )
        last = file.memo["verdict"] = source.name, verdict, FileVerdict(source.name, source.size, groups)
    return last[2]


def _hull(intervals: Sequence[Interval | str]) -> Interval | str:
    for interval in intervals:
        if isinstance(interval, str):
            return interval
    return min(interval[0] for interval in intervals), max(interval[1] for interval in intervals)


def _is_outside(known: Bounds, interval: Interval | str) -> bool:
    if known.low is None or isinstance(interval, str):
        return False
    low, high = interval
    return bool(high < known.low or low > known.high)


# ---- binding -----------------------------------------------------------------------------


@dataclass(slots=True)
class Findings:
    """What files made of a condition, by the numbers of its tests, which are the same in every file."""

    bound: set[int] = field(default_factory=set)
    kinds: dict[int, set[str]] = field(default_factory=dict)
    errors: dict[int, ParquetBloomError] = field(default_factory=dict)

    @property
    def disputed(self) -> frozenset[int]:
        """The tests of columns about whose type files disagree, so that what was judged about them must not count.

        An engine compares such a column in one type, and which one is not known: 9 < 10, and '10' < '9'. Some even
        read one file in another's type, and round.
        """
        return frozenset(number for number, kinds in self.kinds.items() if len(kinds) > 1)

    def merge(self, other: Findings) -> None:
        """Take in what other files made of the same condition."""
        self.bound |= other.bound
        for number, kinds in other.kinds.items():
            self.kinds.setdefault(number, set()).update(kinds)
        self.errors = other.errors | self.errors

    def merge_recorded(self, other: Findings, columns: Sequence[str], *, case_sensitive: bool) -> None:
        """Take in what a table's own `columns` made of the condition, of which not all are judged by their types."""
        self.bound |= other.bound
        names = set(columns) if case_sensitive else {name.casefold() for name in columns}
        for number, error in other.errors.items():
            if isinstance(error, ColumnNotFoundError):
                (name, *_) = parse_path(error.name)
                if (name if case_sensitive else name.casefold()) in names:
                    self.bound.add(number)
                    continue
            self.errors.setdefault(number, error)

    def raise_unless_bound(self) -> None:
        """Raise the first error of a part of the condition that no file at all could make sense of."""
        for number, error in sorted(self.errors.items()):
            if number not in self.bound:
                raise error


class _Binder:
    """Binds a condition to one file after the other, and remembers in `findings` what files made of it."""

    def __init__(
        self, predicate: Predicate, timezone: str | None, *, case_sensitive: bool, disputed: frozenset[int]
    ) -> None:
        self._predicate, self._timezone, self._case_sensitive = predicate, timezone, case_sensitive
        self._disputed = disputed
        self.findings = Findings()
        self._of_file: dict[Any, tuple[Any, _Bound]] = {}
        self._of_leaf: dict[tuple[int, LeafColumn], _Bound] = {}

    def bind(self, leaves: tuple[LeafColumn, ...], partitions: Partitions) -> _Bound:
        """Return the condition with a file's columns."""
        key = id(leaves), partitions.directories  # the same schema has the same leaves, see `parse_footer`
        if key not in self._of_file:
            if len(self._of_file) > _MEMO_SIZE:
                self._of_file.clear()
                self._of_leaf.clear()
            bound = self._bind(self._predicate, leaves, partitions, count())
            self._of_file[key] = leaves, bound  # holding the leaves keeps their id from being another's
        return self._of_file[key][1]

    def _bind(
        self, node: Predicate, columns: tuple[LeafColumn, ...], partitions: Partitions, numbers: Iterator[int]
    ) -> _Bound:
        match node:
            case And(parts):
                return _Combined(tuple(self._bind(part, columns, partitions, numbers) for part in parts), min)
            case Or(parts):
                return _Combined(tuple(self._bind(part, columns, partitions, numbers) for part in parts), max)
            case Constant(True):
                return _Fixed(Verdict(MIGHT, "the condition is TRUE"))
            case Constant(False):
                return _Fixed(Verdict(CANNOT, "the condition is FALSE", TYPE))
            case Comparison() | In() | IsNull():
                return self._bind_test(next(numbers), node, columns, partitions)
        return _Fixed(Verdict(MIGHT, f"not used to prune: {node}"))

    def _bind_test(self, number: int, node: _Test, columns: tuple[LeafColumn, ...], partitions: Partitions) -> _Bound:
        constants = partitions.named(node.column, case_sensitive=self._case_sensitive)
        found = [leaf for leaf in columns if self._is_same(leaf.path, node.column)]
        name = format_path(node.column)
        if constants:
            self._accept(number, node, "partition")
            if found:
                return _Fixed(Verdict(MIGHT, f"{name} is both a column and a partition"))
        if not constants and len(found) != 1:
            return _Fixed(self._unbound(number, node.column, columns, found))
        if number in self._disputed:
            return _Fixed(Verdict(MIGHT, f"files hold {name} as different types"))
        if constants:
            return _Fixed(_judge_partition(node, constants))
        return self._bind_leaf(number, node, found[0])

    def _bind_leaf(self, number: int, node: _Test, leaf: LeafColumn) -> _Bound:
        if (number, leaf) not in self._of_leaf:
            try:
                self._of_leaf[number, leaf] = self._column_test(number, leaf, node)
            except LiteralError as error:
                self.findings.errors.setdefault(number, error)
                return _Fixed(Verdict(MIGHT, str(error)))
        self._accept(number, node, _kind(leaf))
        return self._of_leaf[number, leaf]

    def _accept(self, number: int, node: _Test, kind: str) -> None:
        self.findings.bound.add(number)
        if not isinstance(node, IsNull):
            self.findings.kinds.setdefault(number, set()).add(kind)

    def _is_same(self, path: ColumnPath, asked: ColumnPath) -> bool:
        if self._case_sensitive:
            return path == asked
        return [part.casefold() for part in path] == [part.casefold() for part in asked]

    def _unbound(
        self, number: int, path: ColumnPath, columns: tuple[LeafColumn, ...], found: list[LeafColumn]
    ) -> Verdict:
        name = format_path(path)
        if found:
            self.findings.bound.add(number)
            return Verdict(MIGHT, f"{name} names {len(found)} columns")
        if any(self._is_same(leaf.path[: len(path)], path) for leaf in columns):
            self.findings.bound.add(number)
            return Verdict(MIGHT, f"{name} is a group of columns")
        names = [leaf.name for leaf in columns]
        self.findings.errors.setdefault(number, ColumnNotFoundError(name, names))
        return Verdict(MIGHT, f"the file has no column {name}")

    def _column_test(self, number: int, leaf: LeafColumn, node: _Test) -> _Bound:
        reader = BoundsReader(leaf)
        match node:
            case IsNull(_, is_negated) | Comparison("<=>", _, None, is_negated):
                return _NullTest(leaf, is_negated, reader)
            case In(_, values, is_negated):
                op, keeps_nulls = "<>" if is_negated else "=", False
                if is_negated and any(isinstance(value, Text) for value in values):
                    return _Fixed(Verdict(MIGHT, "NOT IN compares with text as text in some engines only"))
            case Comparison("<=>", _, Text(), _) if _kind(leaf) != "bytes":
                return _Fixed(Verdict(MIGHT, "a text that does not fit the type is NULL to Spark, and equals NULL"))
            case Comparison(op, _, value, is_negated):
                op, keeps_nulls, values = node.plain_op, op == "<=>" and is_negated, (value,)
        if any(value is None for value in values):
            return _Fixed(Verdict(MIGHT, "NULL is among the values"))
        if not values:
            return _Fixed(Verdict(MIGHT, "any value is not among none") if is_negated else _NONE_LISTED)
        literals = _Literals([self._readings(leaf, value) for value in together(values)])
        if_found = Verdict(MIGHT, f"the filter of {leaf.name} has all bits of a value")
        if_absent = Verdict(CANNOT, f"the filter of {leaf.name} lacks the value", FILTER)
        return _ColumnTest(number, leaf, op, is_negated, keeps_nulls, literals, reader, if_found, if_absent)

    def _readings(self, leaf: LeafColumn, value: Any) -> list[_Reading]:
        found = readings(leaf, value)
        if isinstance(found, Opaque):
            return [_Reading((), found.text, found.text)]
        return [self._reading(leaf, literal) for literal in found]

    def _reading(self, leaf: LeafColumn, literal: Any) -> _Reading:
        encodings = encode_literal(leaf, literal, timezone=self._timezone)
        interval = literal_interval(leaf, literal, timezone=self._timezone)
        return _Reading(encodings.hashes(), interval, encodings.reason, None if encodings.reason else literal)


_Test = Comparison | In | IsNull
_NONE_LISTED = Verdict(CANNOT, "the list of values is empty", TYPE)
_MEMO_SIZE = 256


def _kind(leaf: LeafColumn) -> str:
    """Return what two columns share that an engine converts into each other without loss, or not at all."""
    logical, name = leaf.logical_type, leaf.logical_type.name if leaf.logical_type else None
    match leaf.physical_type:
        case _ if logical and name in ("DECIMAL", "TIME", "TIMESTAMP"):
            return f"{name} {logical.scale} {logical.unit} {logical.is_adjusted_to_utc}"
        case _ if name in ("DATE", "FLOAT16", "UUID"):
            return str(name)
        case PhysicalType.INT32 | PhysicalType.INT64:
            return "integer"
        case PhysicalType.BYTE_ARRAY:
            return "bytes"
    return leaf.physical_type.name


def _judge_partition(node: _Test, constants: Sequence[str]) -> Verdict:
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
    """The verdicts on one file's row groups; or none, if it could not be judged, and why it is `kept_whole`.

    Or none, if what its table records of it rules it out: why it is `left_out`, `by` statistics or a partition.
    """

    path: str
    size: int
    row_groups: tuple[RowGroupVerdict, ...] = ()
    kept_whole: str | None = None
    left_out: str | None = None
    by: str = ""

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
    _table: TableFiles | None = field(default=None, repr=False)

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
            files_left_out=sum(file.left_out is not None for file in self.all_files),
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
            if file.left_out is not None:
                lines.append(f"  left out, by {file.by}: {file.left_out}")
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
    """Sums over all files of a pruning; of files that were kept whole, or left out, only the files are counted.

    What types and partitions ruled out counts as `row_groups_by_statistics`: it took no filter.
    """

    files: int
    files_kept: int
    files_kept_whole: int
    files_left_out: int
    row_groups: int
    row_groups_kept: int
    row_groups_by_statistics: int
    row_groups_by_filters: int
    bytes: int
    bytes_kept: int
    rows_kept: int


def _dataset(ds: Any, pruning: Pruning) -> Any:
    import pyarrow as pa

    if pruning._table is not None and (problem := pruning._table.no_dataset):
        raise UnsupportedError(f"the table's files are no dataset: {problem}; read them with the table's own library")
    pairs = list(zip(pruning.all_files, pruning._sources, strict=True))
    types = _partition_types([partitions_of(source.name).constants for source in pruning._sources])
    file_format = ds.ParquetFileFormat()
    fragments = [_fragment(ds, file_format, file, source, types) for file, source in pairs if file.is_kept]
    # With nothing kept, the schema is that of any file.
    seen = fragments or [_fragment(ds, file_format, file, source, types) for file, source in pairs[:1]]
    try:
        schema = pa.unify_schemas([fragment.physical_schema for fragment in seen], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise UnsupportedError(f"the files cannot be one dataset, their columns are too different: {error}") from error
    for name, kind in types.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return ds.FileSystemDataset(fragments, schema, file_format)


def _fragment(ds: Any, file_format: Any, file: FileVerdict, source: Source, types: dict[str, Any]) -> Any:
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

    store = arrow_fs.LocalFileSystem() if source.local else arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(source.fs))
    groups = None if file.kept_whole is not None else [group.row_group for group in file.row_groups if group.is_kept]
    try:
        own = file_format.make_fragment(source.path, store).physical_schema.names
    except (OSError, pa.ArrowException) as error:
        why = f" (it was kept because of this: {file.kept_whole})" if file.kept_whole is not None else ""
        raise UnsupportedError(f"{file.path} cannot be part of a dataset: {error}{why}") from error
    expression = ds.scalar(True)
    for name, text in partitions_of(source.name).constants.items():
        if name not in own:
            value = pa.scalar(text).cast(types[name])
            expression &= ds.field(name) == value if text is not None else ds.field(name).is_null()
    return file_format.make_fragment(source.path, store, partition_expression=expression, row_groups=groups)


def _partition_types(constants: Iterable[dict[str, str | None]]) -> dict[str, Any]:
    """Return the Arrow type of each partition column: whole numbers and dates where all its values are, else text."""
    import pyarrow as pa

    texts: dict[str, list[str]] = {}
    for of_file in constants:
        for name, text in of_file.items():
            texts.setdefault(name, []).extend([] if text is None else [text])
    forms = ((r"-?\d{1,18}", pa.int64()), (r"\d{4}-\d\d-\d\d", pa.date32()))
    types = {}
    for name, values in texts.items():
        kinds = (kind for form, kind in forms if values and all(re.fullmatch(form, v, re.ASCII) for v in values))
        types[name] = next(kinds, pa.string())
    return types


# ---- prune -------------------------------------------------------------------------------


def prune(
    paths: PathLike | Iterable[PathLike],
    where: Any,
    *,
    timezone: str | None = None,
    case_sensitive: bool = True,
    as_of: int | str | None = None,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    cache: Cache | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Pruning:
    """Return which files and row groups can hold rows that match `where`; what is left out is proved not to.

    `where` is SQL text in Spark's dialect, a pyarrow-style filter list, or built with `col()`. Footers are read first,
    filters only for row groups that types, partitions and statistics leave open, and of large filters only the blocks
    that matter. A file that cannot be read or judged is kept whole with the reason; `strict` raises instead. Raises
    `PredicateError` for what does not parse, `ColumnNotFoundError` and `LiteralError` for a column or a literal that no
    file can make sense of.

    The directory of a table stands for the live files of its snapshot, now or `as_of` a version or a
    time, under the table's names and with its partition values. What its log or manifests record of the files' columns
    comes first, then an index beside the files (`index_create`): nothing is asked of the files that they rule out.

    Footers stay in `cache` for the next call (default: one that all calls share); `Cache(0)` keeps nothing.
    `limits` are on what is read at once.
    """
    predicate = to_predicate(where)
    sources, snapshot = live_sources(paths, as_of=as_of, filesystem=filesystem, storage_options=storage_options)
    table = TableFiles(snapshot, sources, storage_options) if snapshot else None
    cache = SHARED if cache is None else cache
    options = storage_options if snapshot is None else fsspec_options(storage_options)
    root = directory_of(paths, snapshot)
    index = index_of(root, sources, storage_options=options, filesystem=filesystem, cache=cache, log=log)
    judge = Judge(predicate, timezone, case_sensitive, cache, limits, strict, log, index, table)
    files, findings = judge.judge(sources, progress)
    if findings.disputed:  # known only now that every footer was seen
        files, _ = judge.judge(sources, None, findings.disputed)
    if any(file.kept_whole is None for file in files):
        findings.raise_unless_bound()
    return Pruning(str(predicate), tuple(files), tuple(sources), table)


class TableFiles:
    """What a table's snapshot says of its files, whatever their directories are called."""

    def __init__(self, snapshot: Snapshot, sources: Sequence[Source], storage_options: StorageOptions = None) -> None:
        self.snapshot, self.storage_options = snapshot, storage_options
        self.files = dict(zip(sources, snapshot.files, strict=True))
        self.has_filters = any(file.file_index for file in snapshot.files)
        self._numbers = {source: number for number, source in enumerate(sources)}
        self._partitions = {
            source: constant_partitions(file.partition) for source, file in zip(sources, snapshot.files, strict=True)
        }

    @property
    def no_dataset(self) -> str | None:
        """Return why the files' own rows and columns are not the table's, or None."""
        if any(file.has_deletes for file in self.snapshot.files):
            return "some of their rows are deleted"
        if reasons := [file.not_excluded for file in self.snapshot.files if file.not_excluded]:
            return reasons[0]
        if any(file.partition for file in self.snapshot.files):
            return "the values of partition columns are not in them"
        if self.snapshot.renames:
            return "columns may have other names in them"
        return None

    def partitions(self, source: Source) -> Partitions:
        """Return the constants of a file."""
        return self._partitions[source]

    def number(self, source: Source) -> int:
        """Return a file's number among those of the snapshot."""
        return self._numbers[source]


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads and judges files in the way that a call asks for."""

    predicate: Predicate
    timezone: str | None = None
    case_sensitive: bool = True
    cache: Cache = SHARED
    limits: Limits = DEFAULT_LIMITS
    strict: bool = False
    log: RequestLog | None = None
    index: BloomIndex | None = None
    table: TableFiles | None = None

    def judge(
        self, sources: list[Source], progress: Progress | None = None, disputed: frozenset[int] = frozenset()
    ) -> tuple[list[FileVerdict], Findings]:
        """Return the verdict on each file, and what they made of the condition.

        The verdicts hold only if no test is `disputed` among all the files, these and others, but those that were
        named.
        """
        binder = _Binder(
            normalized(self.predicate), self.timezone, case_sensitive=self.case_sensitive, disputed=disputed
        )
        known = self._by_table(sources, binder.findings, disputed)
        self._by_index(sources, binder, known)
        others = [source for source, verdict in zip(sources, known, strict=True) if verdict is None]
        judged = []
        plans = ((source, self._judge_file(source, binder, filters)) for source, filters in self._with_filters(others))
        for source, outcome in drive(plans, limits=self.limits, log=self.log):
            if isinstance(outcome, Exception):
                judged.append(self._kept_whole(source, outcome))
            else:
                judged.append(outcome)
            if progress:
                progress(len(sources) - len(others) + len(judged), len(sources))
        if progress and not others:
            progress(len(sources), len(sources))
        self._keep_changed(others, judged)
        rest = iter(judged)
        return [verdict or next(rest) for verdict in known], binder.findings

    def _by_table(
        self, sources: list[Source], findings: Findings, disputed: frozenset[int]
    ) -> list[FileVerdict | None]:
        """Return the verdicts on the files of which their table says enough, whole; nothing is asked of them."""
        if self.table is None:
            return [None] * len(sources)
        reasons = (self.table.files[source].not_excluded for source in sources)
        known = [
            FileVerdict(source.name, source.size, kept_whole=reason) if reason else None
            for source, reason in zip(sources, reasons, strict=True)
        ]
        if (recorded := self.table.snapshot.recorded) is None:
            return known
        # A binder of its own: it judges columns by the table's types, and files must agree among themselves only.
        binder = _Binder(
            normalized(self.predicate), self.timezone, case_sensitive=self.case_sensitive, disputed=disputed
        )
        names = Counter(recorded.names if self.case_sensitive else map(str.casefold, recorded.names))
        leaves = [
            leaf
            for leaf in recorded.leaves
            if names[leaf.path[0] if self.case_sensitive else leaf.path[0].casefold()] == 1
        ]
        likes: dict[Partitions, tuple[_Bound, list[tuple[int, Sequence[Bounds | None]]]]] = {}
        for number, source in enumerate(sources):
            if known[number] is not None:
                continue
            partitions = self._partitions(source)
            if partitions not in likes:
                constants = partitions.constants
                bound = binder.bind(tuple(leaf for leaf in leaves if leaf.path[0] not in constants), partitions)
                likes[partitions] = bound, [(leaf.index, recorded.bounds(leaf)) for leaf in _provable(bound)]
            bound, columns = likes[partitions]
            at = self.table.number(source)
            verdict = _RecordedFile({index: column[at] for index, column in columns}, bound).judge()
            if verdict.rank is CANNOT:
                reason = f"{verdict.reason} ({recorded.where})"
                known[number] = FileVerdict(source.name, source.size, left_out=reason, by=verdict.by)
        findings.merge_recorded(binder.findings, recorded.names, case_sensitive=self.case_sensitive)
        return known

    def _by_index(self, sources: list[Source], binder: _Binder, known: list[FileVerdict | None]) -> None:
        """Fill in the verdicts on those other files that the index rules out, whole; nothing is asked of them."""
        if self.index is None:
            return
        likes: dict[tuple[IndexedSchema, Partitions], list[tuple[int, IndexedFile]]] = {}
        for number, source in enumerate(sources):
            if known[number] is None and (file := self.index.find(source)) is not None:
                likes.setdefault((file.schema, self._partitions(source)), []).append((number, file))
        judged = [
            (_IndexedFiles(schema, binder.bind(self._leaves(schema), partitions)), files)
            for (schema, partitions), files in likes.items()
        ]
        questions = [
            ([file.filters[index] for _, file in files], hashes)
            for like, files in judged
            for index, hashes in like.questions
        ]
        answers = iter(self.index.ask(questions, limits=self.limits, log=self.log))
        for like, files in judged:
            of_files = list(zip(*islice(answers, len(like.questions)), strict=True)) or [()] * len(files)
            for (number, file), of_file in zip(files, of_files, strict=True):
                if (verdict := like.verdict(of_file)).rank is CANNOT:
                    known[number] = _ruled_out(sources[number], file, verdict)

    def _with_filters(self, sources: list[Source]) -> Iterable[tuple[Source, Sequence[FileFilter]]]:
        """Return the files, each with the filters that its table keeps for it."""
        if self.table is None or not self.table.has_filters:
            return ((source, ()) for source in sources)
        names = {path[0] for path in _equated(self.predicate)} if self.case_sensitive else None
        options = fsspec_options(self.table.storage_options)
        return of_table(sources, self.table.files, names, storage_options=options, limits=self.limits, log=self.log)

    def _judge_file(self, source: Source, binder: _Binder, filters: Sequence[FileFilter]) -> Plan[FileVerdict]:
        footer = yield from footer_of(source, self.cache)
        leaves = footer.leaves if self.table is None else self.table.snapshot.leaves(footer)
        bound = binder.bind(leaves, self._partitions(source))
        file = _File(footer)
        if filters := (*in_footer(footer), *filters):
            file.absent = _absent(bound, footer, filters)
        verdicts = bound.judge_all(file, footer.num_row_groups)
        for row_group, group in enumerate(footer.metadata.row_groups):
            if group.num_rows == 0:
                verdicts[row_group] = _NO_ROWS
        open_groups = [row_group for row_group, verdict in enumerate(verdicts) if verdict.rank is ASK]
        asking = bound.asking(file, open_groups)
        while wanted := list(islice(asking, FILTERS_AT_ONCE)):
            questions = [file.open[test.number, row_group] for test, row_group in wanted]
            seen = footer.memo.setdefault("headers", set())
            answers = yield from with_tail(footer, ask(questions, end=footer.start, seen=seen))
            for (test, row_group), answer in zip(wanted, answers, strict=True):
                file.answers[test.number, row_group] = answer
        for row_group in open_groups:
            verdicts[row_group] = bound.judge(file, row_group)
        return _record(source, footer, verdicts)

    def _leaves(self, schema: IndexedSchema) -> tuple[LeafColumn, ...]:
        return schema.leaves if self.table is None else self.table.snapshot.leaves(schema)

    def _partitions(self, source: Source) -> Partitions:
        return partitions_of(source.name) if self.table is None else self.table.partitions(source)

    def _keep_changed(self, sources: list[Source], files: list[FileVerdict]) -> None:
        """Keep whole what was replaced between being listed and now, where a store told of it in no other way."""
        changed = changes(s for s, file in zip(sources, files, strict=True) if file.kept_whole is None)
        for index, source in enumerate(sources if changed else ()):
            if source in changed:
                files[index] = self._kept_whole(source, changed[source])

    def _kept_whole(self, source: Source, error: Exception) -> FileVerdict:
        if self.strict:
            raise error
        return FileVerdict(source.name, source.size, kept_whole=describe_error(error))


def _absent(bound: _Bound, footer: Footer, filters: Sequence[FileFilter]) -> dict[int, Verdict]:
    """Return the verdict on the tests, by number, whose literals a filter of another format lacks."""
    found = {}
    for test in _tests(bound):
        if isinstance(test, _ColumnTest) and test.op == "=" and not test.is_negated:
            leaf = footer.leaves[test.leaf.index]
            for one in () if collation_problem(footer, leaf) else filters:
                if one.column == leaf.path and not any(one.might_contain(test.literals.readings)):
                    reason = f"the {one.format} filter of {test.leaf.name} lacks the value"
                    found[test.number] = Verdict(CANNOT, reason, FILTER)
    return found


def _equated(node: Predicate) -> Iterator[ColumnPath]:
    """Yield the columns that a condition may compare for equality."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _equated(part)
        case Not(part):
            yield from _equated(part)
        case Comparison() | In():
            yield node.column


def _provable(bound: _Bound) -> Iterator[LeafColumn]:
    """Yield the leaves of a condition that what a table records of them may be weighed by.

    Where a literal equals nothing of the table's type, files may still hold it in another one, such as nanoseconds.
    """
    tests = list(_tests(bound))
    unequal = {test.leaf for test in tests if isinstance(test, _ColumnTest) and not test.literals.may_equal}
    yield from {test.leaf for test in tests} - unequal


def _tests(bound: _Bound) -> Iterator[_ColumnTest | _NullTest]:
    match bound:
        case _Combined(parts):
            for part in parts:
                yield from _tests(part)
        case _ColumnTest() | _NullTest():
            yield bound


_NO_ROWS = Verdict(CANNOT, "it holds no rows", STATISTICS)


def _record(source: Source, footer: Footer, verdicts: list[Verdict]) -> FileVerdict:
    """Return the verdicts as a record; the last one is used again, for most files are ruled out in the same words."""
    last: tuple[str, list[Verdict], FileVerdict] | None = footer.memo.get("record")
    if last is None or last[1] != verdicts or last[0] != source.name:
        if "extents" not in footer.memo:
            footer.memo["extents"] = [_extent(group) for group in footer.metadata.row_groups]
        groups = zip(footer.metadata.row_groups, footer.memo["extents"], verdicts, strict=True)
        records = tuple(
            RowGroupVerdict(source.name, number, _NAMES[rank], reason, by, group.num_rows, start, stop)
            for number, (group, (start, stop), (rank, reason, by)) in enumerate(groups)
        )
        last = footer.memo["record"] = source.name, verdicts, FileVerdict(source.name, source.size, records)
    return last[2]


_NAMES = {rank: rank.name for rank in Rank}


def _extent(group: Any) -> tuple[int, int]:
    """Return the first byte of a row group's pages and the one after the last."""
    extents = [pages_extent(column.meta_data) for column in group.columns if column.meta_data is not None]
    return min((start for start, _ in extents), default=0), max((stop for _, stop in extents), default=0)
