"""Evaluates a bound condition with types, partitions, statistics and filters. Each part of it gets one of three ranks:

    CANNOT_MATCH    it is proved that no row of the row group matches
    ASK             not proved yet; a filter might prove it
    MIGHT_MATCH     it cannot be proved

An AND has the lowest rank of its parts, an OR the highest. Statistics are evaluated first. A filter is read only for a
row group that they do not prune, and only if its answer would decide.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from parquet_bloom.errors import (
    CorruptFileError,
    describe_error,
)
from parquet_bloom.filters.parquet import NO_FILTER, why_unusable
from parquet_bloom.filters.protocol import FileFilter
from parquet_bloom.format.footer import OUTSIDE, FilterLocation, Footer, Plan
from parquet_bloom.format.probing import Answer, Question, ask_for_one
from parquet_bloom.format.schema import ColumnPath, LeafColumn
from parquet_bloom.predicates.tree import (
    And,
    Comparison,
    In,
    Not,
    Or,
    Predicate,
)
from parquet_bloom.predicates.typing import is_float
from parquet_bloom.values.ordering import Interval, Key, Point
from parquet_bloom.values.statistics import ColumnStatistics, StatisticsReader

if TYPE_CHECKING:
    from parquet_bloom.filters.index import IndexedSchema


class Rank(enum.IntEnum):
    """The answers, in the order in which AND and OR compare them."""

    CANNOT_MATCH = 0
    ASK = 1
    MIGHT_MATCH = 2


class Verdict(NamedTuple):
    """An answer, the reason, and what proved it (empty if nothing did)."""

    rank: Rank
    reason: str
    by: str = ""


CANNOT, ASK, MIGHT = Rank.CANNOT_MATCH, Rank.ASK, Rank.MIGHT_MATCH
STATISTICS, FILTER, PARTITION, TYPE = "statistics", "filter", "partition", "type"


# ---- a condition, bound to one schema ----------------------------------------------------


class KnownFile(Protocol):
    """What the tests of a bound condition use: what is known about a file, and the answers of filters so far.

    `open` and `answers` have an entry per test and row group. `open` has the filter to read, and the hashes of the
    literals that nothing else could exclude. `absent` has the verdicts on tests whose literals are not in the filter of
    another format.
    """

    open: dict[tuple[int, int], Question]
    answers: dict[tuple[int, int], Answer]

    @property
    def absent(self) -> Mapping[int, Verdict]:
        """The verdicts on tests, by number."""

    def facts(self, reader: StatisticsReader) -> Sequence[Facts]:
        """Return what is known about a leaf's column chunks, by row group."""


class FileWithFooter:
    """A file whose footer was read; see `KnownFile`."""

    __slots__ = ("absent", "answers", "footer", "open")

    def __init__(self, footer: Footer) -> None:
        self.footer: Footer = footer
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}
        self.absent: dict[int, Verdict] = {}

    def facts(self, reader: StatisticsReader) -> Sequence[Facts]:
        """Return what is known about a leaf's column chunks, by row group."""
        known = self.footer.derived.facts
        if reader.index not in known:
            known[reader.index] = chunk_facts(self.footer, reader)
        facts: list[Facts] = known[reader.index]
        return facts


class BoundPredicate:
    """A condition bound to the columns of one file, with its literals encoded."""

    def evaluate(self, file: KnownFile, row_group: int) -> Verdict:
        """Return the verdict on a row group, with the answers known so far."""
        raise AssertionError

    def evaluate_all(self, file: KnownFile, count: int) -> list[Verdict]:
        """Return the verdicts on all row groups of a file."""
        return [self.evaluate(file, row_group) for row_group in range(count)]

    def undecided(self, file: KnownFile, row_groups: Sequence[int]) -> Iterator[tuple[ColumnTest, int]]:
        """Yield the tests whose filters decide on these row groups, whose verdict is ASK."""
        yield from ()

    def evaluate_usual(self, footer: Footer) -> Plan[list[Verdict]] | None:
        """Return a plan for the verdicts on all row groups, which asks the filters, too, if there is a short way.

        It returns no verdicts where the file turns out to be unusual. They are those that the long way leads to.
        """
        return None


@dataclass(frozen=True, slots=True)
class Fixed(BoundPredicate):
    """The same verdict for the whole file."""

    verdict: Verdict

    def evaluate(self, file: KnownFile, row_group: int) -> Verdict:
        """Return the verdict on one row group."""
        return self.verdict


@dataclass(frozen=True, slots=True)
class Combined(BoundPredicate):
    """AND, which chooses the lowest verdict of its parts, or OR, which chooses the highest."""

    parts: tuple[BoundPredicate, ...]
    choose: Callable[..., Verdict]

    def evaluate(self, file: KnownFile, row_group: int) -> Verdict:
        """Return the verdict on one row group."""
        return self.choose((part.evaluate(file, row_group) for part in self.parts), key=_BY_RANK)

    def evaluate_all(self, file: KnownFile, count: int) -> list[Verdict]:
        """Return the verdicts on the first `count` row groups."""
        of_parts = zip(*(part.evaluate_all(file, count) for part in self.parts), strict=True)
        return [self.choose(verdicts, key=_BY_RANK) for verdicts in of_parts]

    def evaluate_usual(self, footer: Footer) -> Plan[list[Verdict]] | None:
        """Return a plan for the verdicts on all row groups, if one part has one and only it is open."""
        fixed = [part.verdict for part in self.parts if isinstance(part, Fixed)]
        others = [part for part in self.parts if not isinstance(part, Fixed)]
        is_decided = any(verdict.rank is (CANNOT if self.choose is min else MIGHT) for verdict in fixed)
        plan = None if is_decided or len(others) != 1 else others[0].evaluate_usual(footer)
        return None if plan is None else self._with_fixed(plan)

    def _with_fixed(self, plan: Plan[list[Verdict]]) -> Plan[list[Verdict]]:
        verdicts = yield from plan
        return [
            self.choose((part.verdict if isinstance(part, Fixed) else verdict for part in self.parts), key=_BY_RANK)
            for verdict in verdicts
        ]

    def undecided(self, file: KnownFile, row_groups: Sequence[int]) -> Iterator[tuple[ColumnTest, int]]:
        """Yield the tests whose filters decide on these row groups."""
        for row_group in row_groups:
            for part in self.parts:
                if part.evaluate(file, row_group).rank is ASK:
                    yield from part.undecided(file, (row_group,))


_BY_RANK = attrgetter("rank")


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read one literal: the hashes of its encodings, and its interval in the sort order, or why it has none.

    With a `reason`, a filter without these hashes proves nothing.
    """

    hashes: tuple[int, ...]
    interval: Interval | str
    reason: str | None
    literal: Any = None  # None with a reason: then the filters of other formats prove nothing either

    @property
    def is_point(self) -> bool:
        """Whether it can equal only one key of the column."""
        return self.reason is None and not isinstance(self.interval, str) and self.interval[0] == self.interval[1]


class Literals:
    """The literals of a test, sorted: of many literals, those within a row group's min-max range are found quickly."""

    def __init__(self, values: Sequence[Sequence[Reading]]) -> None:
        self.intervals: tuple[Interval | str, ...] = tuple(
            _smallest_interval([reading.interval for reading in readings]) for readings in values
        )
        self.readings: list[Any] = [reading.literal for reading in chain.from_iterable(values)]
        points = []
        self._spans = []
        for reading in chain.from_iterable(values):
            if reading.is_point:
                points += [(reading.interval[0], hash_) for hash_ in reading.hashes]
            else:
                self._spans.append(reading)
        points.sort(key=itemgetter(0))
        self._points, self._hashes = [point for point, _ in points], [hash_ for _, hash_ in points]
        self.may_equal: bool = bool(points) or any(span.hashes or span.reason for span in self._spans)
        is_single = bool(points) and not self._spans and points[0][0] == points[-1][0]
        # One value, and its hashes.
        self.single_value: tuple[Key, list[int]] | None = (points[0][0], self._hashes) if is_single else None

    def within(self, known: ColumnStatistics) -> list[int] | str:
        """Return the hashes of the literals within the min-max range, or why a filter proves nothing."""
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
class NullTest(BoundPredicate):
    """`column IS NULL`, or IS NOT NULL."""

    leaf: LeafColumn
    is_negated: bool
    reader: StatisticsReader

    def evaluate(self, file: KnownFile, row_group: int) -> Verdict:
        """Return the verdict on one row group."""
        leaf, name = self.leaf, self.leaf.name
        facts = file.facts(self.reader)[row_group]
        if facts.problem:
            return Verdict(MIGHT, facts.problem)
        if leaf.is_repeated:
            return Verdict(MIGHT, f"{name} is repeated, so its null count does not count rows")
        known = facts.known
        if self.is_negated:
            if known.is_all_null:
                return Verdict(CANNOT, f"{name} contains only nulls", STATISTICS)
            return Verdict(MIGHT, f"{name} may contain values")
        if leaf.max_definition_level == 0:
            return Verdict(CANNOT, f"{name} is required", TYPE)
        if known.null_count == 0:
            return Verdict(CANNOT, f"{name} contains no nulls", STATISTICS)
        return Verdict(MIGHT, f"{name} may contain nulls")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTest(BoundPredicate):
    """`column op literals`, none of them NULL. `number` identifies the test within the condition."""

    number: int
    leaf: LeafColumn
    op: str  # with NOT applied: = (also for IN), <>, <, <=, > or >=
    is_negated: bool
    keeps_nulls: bool  # it may be true for NULL, as NOT (column <=> literal) is
    literals: Literals
    reader: StatisticsReader
    if_present: Verdict  # in the filter
    if_absent: Verdict
    if_outside: Verdict  # the min-max range
    point: Point | None  # the one value, where the kernel can compare it and a filter may prune

    def undecided(self, file: KnownFile, row_groups: Sequence[int]) -> Iterator[tuple[ColumnTest, int]]:
        """Yield the tests whose filters decide on these row groups."""
        return ((self, row_group) for row_group in row_groups)

    def evaluate(self, file: KnownFile, row_group: int) -> Verdict:
        """Return the verdict on one row group."""
        if answer := file.answers.get((self.number, row_group)):
            return self._evaluate_answer(answer)
        if self.number in file.absent:
            return file.absent[self.number]
        leaf, facts = self.leaf, file.facts(self.reader)[row_group]
        if facts.problem:
            return Verdict(MIGHT, facts.problem)
        if leaf.is_repeated and (self.op != "=" or self.is_negated):
            return Verdict(MIGHT, f"{leaf.name} is repeated, and only = and IN can prune repeated columns")
        known = facts.known
        if known.is_all_null and not self.keeps_nulls:
            return Verdict(CANNOT, f"{leaf.name} contains only nulls", STATISTICS)
        if self.op == "=":
            return self._evaluate_equality(facts, file, row_group)
        if is_float(leaf) and (self.is_negated or self.op not in ("<", "<=")):
            return Verdict(MIGHT, f"{leaf.name} may contain NaN, which engines sort differently")
        return self._evaluate_inequality(known) if self.op == "<>" else self._evaluate_range(known)

    def evaluate_usual(self, footer: Footer) -> Plan[list[Verdict]] | None:
        """Return a plan for the verdicts on all row groups, if the test is for one value."""
        return None if self.point is None else self._evaluate_point(footer, self.point)

    def _evaluate_point(self, footer: Footer, point: Point) -> Plan[list[Verdict]]:
        places = self.reader.place(footer, point)
        if places is None or footer.leaves[self.leaf.index].text_rule:
            return []
        codes, offsets, length = places
        if not offsets:
            return [self.if_outside] * len(codes)
        assert self.literals.single_value is not None
        found = yield from ask_for_one(
            self.literals.single_value[1], offsets, length, seen=footer.derived.sound_headers
        )
        if found is None:
            return []
        answers = iter(found)
        return [
            self.if_outside if code == OUTSIDE else self.if_present if next(answers) else self.if_absent
            for code in codes
        ]

    def _evaluate_equality(self, facts: Facts, file: KnownFile, row_group: int) -> Verdict:
        if not self.literals.may_equal:
            return Verdict(CANNOT, f"no {self.leaf.type_name} value equals the literal", TYPE)
        hashes = self.literals.within(facts.known)
        if isinstance(hashes, str):
            return Verdict(MIGHT, hashes)
        if not hashes:
            return self.if_outside
        if facts.location is None:
            return Verdict(MIGHT, facts.no_filter)
        file.open[self.number, row_group] = facts.location, hashes
        return _ASK

    def _evaluate_answer(self, answer: Answer) -> Verdict:
        if answer.problem is not None:
            return Verdict(MIGHT, answer.problem)
        return self.if_present if True in answer.found else self.if_absent

    def _evaluate_inequality(self, known: ColumnStatistics) -> Verdict:
        is_constant = known.is_exact and known.low == known.high and (known.null_count == 0 or not self.keeps_nulls)
        if is_constant and (known.low, known.high) in self.literals.intervals:
            return Verdict(CANNOT, f"{self.leaf.name} contains no other value", STATISTICS)
        return Verdict(MIGHT, f"{self.leaf.name} may contain other values")

    def _evaluate_range(self, known: ColumnStatistics) -> Verdict:
        (interval,) = self.literals.intervals
        if isinstance(interval, str):
            return Verdict(MIGHT, interval)
        if known.low is None:
            return Verdict(MIGHT, known.why_untrusted)
        low, high = interval
        beyond = {
            "<": known.low >= high,
            "<=": known.low > high,
            ">": known.high <= low,
            ">=": known.high < low,
        }[self.op]
        if beyond:
            name = self.leaf.name
            reason = f"the minimum of {name} is too high" if self.op[0] == "<" else f"the maximum of {name} is too low"
            return Verdict(CANNOT, reason, STATISTICS)
        return Verdict(MIGHT, f"the min-max range of {self.leaf.name} overlaps the condition")


_ASK = Verdict(ASK, "")


class Facts(NamedTuple):
    """What is known about one column chunk: its statistics, and its filter or why it has `no_filter`.

    With a `problem`, nothing about it can be trusted.
    """

    problem: str | None
    known: ColumnStatistics
    location: FilterLocation | None = None
    no_filter: str = ""


def chunk_facts(footer: Footer, reader: StatisticsReader) -> list[Facts]:
    """Return the facts about a leaf's column chunks, by row group."""
    no_filter = why_unusable(footer, reader.leaf)
    leaf = footer.leaves[reader.index]  # under its name in the file; a table may have another
    if (records := None if leaf.text_rule else footer.chunk_records(leaf)) is None:
        facts = [_chunk_facts(footer, group, reader, no_filter) for group in range(footer.num_row_groups)]
    else:
        facts = []
        for group, (record, known) in enumerate(zip(records, reader.read_usual(footer, records), strict=True)):
            if known is None:
                facts.append(_chunk_facts(footer, group, reader, no_filter))
            elif no_filter is None and (location := footer.usual_filter(record)):
                facts.append(Facts(None, known, location))
            else:
                facts.append(_with_filter(footer, group, leaf, known, no_filter, record.filter_place))
    return facts


def _chunk_facts(footer: Footer, row_group: int, reader: StatisticsReader, no_filter: str | None) -> Facts:
    leaf = footer.leaves[reader.leaf.index]  # under its name in the file; a table may have another
    if problem := footer.chunk_problem(row_group, leaf) or leaf.text_rule:
        return Facts(problem, ColumnStatistics(0, None))
    chunk = footer.chunk(row_group, leaf)
    place = chunk.bloom_filter_offset, chunk.bloom_filter_length
    return _with_filter(footer, row_group, leaf, reader.read(footer, row_group), no_filter, place)


def _with_filter(
    footer: Footer,
    row_group: int,
    leaf: LeafColumn,
    known: ColumnStatistics,
    no_filter: str | None,
    place: tuple[int | None, int | None],
) -> Facts:
    if no_filter:
        return Facts(None, known, no_filter=no_filter)
    try:
        location = footer.filter_at(row_group, leaf, *place)
    except CorruptFileError as error:
        return Facts(None, known, no_filter=describe_error(error))
    if location is None:
        return Facts(None, known, no_filter=NO_FILTER)
    return Facts(None, known, location)


class IndexedFiles:
    """Data files, each treated as one row group, about which only the index's filters are known.

    They have the same columns and partitions, and differ only in the answers of the filters.
    """

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, schema: IndexedSchema, bound: BoundPredicate) -> None:
        self._indexed, self._bound = schema.indexed, bound
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}
        self._before = bound.evaluate(self, 0)
        self._undecided = [test for test, _ in bound.undecided(self, (0,))] if self._before.rank is ASK else []
        self._verdicts: dict[tuple[bool, ...], Verdict] = {(): self._before}

    @property
    def questions(self) -> list[tuple[int, Sequence[int]]]:
        """The leaves, by index, whose filters decide, and the hashes to look for in them."""
        return [(test.leaf.index, self.open[test.number, 0][1]) for test in self._undecided]

    def verdict(self, answers: tuple[bool, ...]) -> Verdict:
        """Return the verdict on a file with these answers to the questions."""
        verdict = self._verdicts.get(answers)
        if verdict is None:
            tests = zip(self._undecided, answers, strict=True)
            self.answers = {(test.number, 0): Answer((may_hold,)) for test, may_hold in tests}
            verdict = self._verdicts[answers] = self._bound.evaluate(self, 0)
        return verdict

    def facts(self, reader: StatisticsReader) -> tuple[Facts]:
        """Return what is known about a leaf: whether the index has a filter."""
        return _INDEXED if reader.leaf.index in self._indexed else _NOT_INDEXED


_UNKNOWN = ColumnStatistics(1, None, why_untrusted="the index has no statistics")
_INDEXED = (Facts(None, _UNKNOWN, FilterLocation(0, None)),)  # only the index knows its location
_NOT_INDEXED = (Facts("the index does not have this column", _UNKNOWN),)


class RecordedFile:
    """A data file, treated as one row group, about which only the table's metadata is known."""

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, known: Mapping[int, ColumnStatistics | None]) -> None:
        self._known = known
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}

    def facts(self, reader: StatisticsReader) -> tuple[Facts]:
        """Return what is known about a leaf: its statistics."""
        known = self._known.get(reader.leaf.index)
        return _NOT_RECORDED if known is None else (Facts(None, known, no_filter="the table has no filters"),)


_NOT_RECORDED = (Facts("the table has no statistics for this column", ColumnStatistics(1, None)),)


def _smallest_interval(intervals: Sequence[Interval | str]) -> Interval | str:
    for interval in intervals:
        if isinstance(interval, str):
            return interval
    return min(interval[0] for interval in intervals), max(interval[1] for interval in intervals)


def _is_outside(known: ColumnStatistics, interval: Interval | str) -> bool:
    if known.low is None or isinstance(interval, str):
        return False
    low, high = interval
    return bool(high < known.low or low > known.high)


# ---- the tests of a condition ---------------------------------------------------------------


def absent_by_filters(bound: BoundPredicate, footer: Footer, filters: Sequence[FileFilter]) -> dict[int, Verdict]:
    """Return the verdicts on tests, by number, whose literals are not in a filter of another format."""
    verdicts = {}
    for test in _tests(bound):
        if isinstance(test, ColumnTest) and test.op == "=" and not test.is_negated:
            leaf = footer.leaves[test.leaf.index]
            for one in () if leaf.text_rule else filters:
                if one.column == leaf.path and not any(one.might_contain(test.literals.readings)):
                    reason = f"the {one.format} filter on {test.leaf.name} lacks the value"
                    verdicts[test.number] = Verdict(CANNOT, reason, FILTER)
    return verdicts


def equality_columns(node: Predicate) -> Iterator[ColumnPath]:
    """Yield the columns that a condition may compare for equality."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from equality_columns(part)
        case Not(part):
            yield from equality_columns(part)
        case Comparison() | In():
            yield node.column


def provable_leaves(bound: BoundPredicate) -> Iterator[LeafColumn]:
    """Yield the leaves of a condition whose statistics in a table's metadata may be used.

    A literal that no value of the table's type equals may still be in a file with another type, such as nanoseconds.
    """
    tests = list(_tests(bound))
    unequal = {test.leaf for test in tests if isinstance(test, ColumnTest) and not test.literals.may_equal}
    yield from {test.leaf for test in tests} - unequal


def _tests(bound: BoundPredicate) -> Iterator[ColumnTest | NullTest]:
    match bound:
        case Combined(parts):
            for part in parts:
                yield from _tests(part)
        case ColumnTest() | NullTest():
            yield bound
