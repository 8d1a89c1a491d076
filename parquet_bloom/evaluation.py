"""One evaluator weighs types, partitions, statistics and filters together. A part of a condition is judged

    CANNOT_MATCH    it is proved that no row of the row group matches
    ASK             neither; a filter might prove it
    MIGHT_MATCH     no proof is to be had

An AND takes the least of its parts, an OR the greatest. Statistics are judged first, so a filter is asked for only
where they leave a row group open, and only where its answer would decide.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.bounds import Bounds, BoundsReader, collation_problem
from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
)
from parquet_bloom.footer import FilterLocation, Footer
from parquet_bloom.indexes.bloom_index import IndexedSchema
from parquet_bloom.indexes.file_filters import FileFilter
from parquet_bloom.ordering import Interval, literal_interval
from parquet_bloom.partitions import Partitions, might_hold
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
    readings,
    together,
)
from parquet_bloom.probing import Answer, Question
from parquet_bloom.reader import NO_FILTER, describe_error, usable
from parquet_bloom.schema import LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.values import encode_literal

if TYPE_CHECKING:
    pass


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


class JudgedFile:
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

    def facts(self, reader: BoundsReader) -> Sequence[Facts]:
        """Return what is known of a leaf's column chunks, by row group."""
        found: list[Facts] | None = self.footer.memo.get(reader.key)
        return found if found is not None else _facts(self.footer, reader)


class Bound:
    """A condition whose columns and literals have become those of one file."""

    def judge(self, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
        """Return the verdict on a row group, as far as it is known."""
        raise AssertionError

    def judge_all(self, file: JudgedFile | IndexedFiles, count: int) -> list[Verdict]:
        """Return the verdicts on all row groups of a file."""
        return [self.judge(file, row_group) for row_group in range(count)]

    def asking(self, file: JudgedFile | IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
        """Yield the tests whose filters would decide, of row groups on which the verdict is ASK."""
        yield from ()


@dataclass(frozen=True, slots=True)
class _Fixed(Bound):
    """A verdict that holds for the whole file."""

    verdict: Verdict

    def judge(self, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
        return self.verdict


@dataclass(frozen=True, slots=True)
class _Combined(Bound):
    """AND takes its least part, OR its greatest."""

    parts: tuple[Bound, ...]
    choose: Callable[..., Verdict]

    def judge(self, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
        return self.choose((part.judge(file, row_group) for part in self.parts), key=_BY_RANK)

    def judge_all(self, file: JudgedFile | IndexedFiles, count: int) -> list[Verdict]:
        of_parts = zip(*(part.judge_all(file, count) for part in self.parts), strict=True)
        return [self.choose(verdicts, key=_BY_RANK) for verdicts in of_parts]

    def asking(self, file: JudgedFile | IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
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
class _NullTest(Bound):
    """`column IS NULL`, or IS NOT NULL."""

    leaf: LeafColumn
    is_negated: bool
    reader: BoundsReader

    def judge(self, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
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
class _ColumnTest(Bound):
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

    def asking(self, file: JudgedFile | IndexedFiles, row_groups: Sequence[int]) -> Iterator[tuple[_ColumnTest, int]]:
        return ((self, row_group) for row_group in row_groups)

    def judge(self, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
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

    def judge_all(self, file: JudgedFile | IndexedFiles, count: int) -> list[Verdict]:
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

    def _judge_equality(self, facts: Facts, file: JudgedFile | IndexedFiles, row_group: int) -> Verdict:
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


class Facts(NamedTuple):
    """What is known of one column chunk: why nothing can be relied on, or its bounds and its filter, or why none.

    It `is_usual` if it has values, bounds and a filter.
    """

    problem: str | None
    known: Bounds
    location: FilterLocation | None = None
    no_filter: str = ""
    is_usual: bool = False


def _facts(footer: Footer, reader: BoundsReader) -> list[Facts]:
    """Return the facts of a leaf's column chunks, and keep them with a footer that is in memory."""
    no_filter = usable(footer, reader.leaf)
    found = [_chunk_facts(footer, group, reader, no_filter) for group in range(footer.num_row_groups)]
    footer.memo[reader.key] = found
    return found


def _chunk_facts(footer: Footer, row_group: int, reader: BoundsReader, no_filter: str | None) -> Facts:
    leaf = footer.leaves[reader.leaf.index]  # under its name in the file, which a table may call otherwise
    if problem := footer.chunk_problem(row_group, leaf) or collation_problem(footer, leaf):
        return Facts(problem, Bounds(0, None))
    known = reader.read(footer, row_group)
    try:
        location = footer.filter_location(row_group, leaf)
    except CorruptFileError as error:
        return Facts(None, known, no_filter=no_filter or describe_error(error))
    if no_filter or location is None:
        return Facts(None, known, no_filter=no_filter or NO_FILTER)
    return Facts(None, known, location, is_usual=known.low is not None and not known.is_all_null)


class IndexedFiles:
    """Whole data files as if each were one row group, of which only the index's filters are known.

    They have the same columns and partitions, so they differ only in what the filters answer.
    """

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, schema: IndexedSchema, bound: Bound) -> None:
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

    def facts(self, reader: BoundsReader) -> tuple[Facts]:
        """Return what is known of a leaf: whether there is a filter."""
        return _INDEXED if reader.leaf.index in self._indexed else _NOT_INDEXED


_UNKNOWN = Bounds(1, None, untrusted="the index has no statistics")
_INDEXED = (Facts(None, _UNKNOWN, FilterLocation(0, None)),)  # it is the index that knows where
_NOT_INDEXED = (Facts("the index does not have the column", _UNKNOWN),)


class RecordedFile(IndexedFiles):
    """One file as if it were one row group, of which only what its table's metadata records is known."""

    def __init__(self, known: Mapping[int, Bounds | None], bound: Bound) -> None:
        self._known = known
        self.open, self.answers = {}, {}
        self._bound = bound

    def judge(self) -> Verdict:
        """Return the verdict on the file."""
        return self._bound.judge(self, 0)

    def facts(self, reader: BoundsReader) -> tuple[Facts]:
        """Return what is known of a leaf: its bounds."""
        known = self._known.get(reader.leaf.index)
        return _NOT_RECORDED if known is None else (Facts(None, known, no_filter="the table has no filters"),)


_NOT_RECORDED = (Facts("the table does not record the column", Bounds(1, None)),)


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


class Binder:
    """Binds a condition to one file after the other, and remembers in `findings` what files made of it."""

    def __init__(
        self, predicate: Predicate, timezone: str | None, *, case_sensitive: bool, disputed: frozenset[int]
    ) -> None:
        self._predicate, self._timezone, self._case_sensitive = predicate, timezone, case_sensitive
        self._disputed = disputed
        self.findings = Findings()
        self._of_file: dict[Any, tuple[Any, Bound]] = {}
        self._of_leaf: dict[tuple[int, LeafColumn], Bound] = {}

    def bind(self, leaves: tuple[LeafColumn, ...], partitions: Partitions) -> Bound:
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
    ) -> Bound:
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

    def _bind_test(self, number: int, node: _Test, columns: tuple[LeafColumn, ...], partitions: Partitions) -> Bound:
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

    def _bind_leaf(self, number: int, node: _Test, leaf: LeafColumn) -> Bound:
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

    def _column_test(self, number: int, leaf: LeafColumn, node: _Test) -> Bound:
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


# ---- what a condition asks ------------------------------------------------------------------


def absent(bound: Bound, footer: Footer, filters: Sequence[FileFilter]) -> dict[int, Verdict]:
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


def equated(node: Predicate) -> Iterator[ColumnPath]:
    """Yield the columns that a condition may compare for equality."""
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from equated(part)
        case Not(part):
            yield from equated(part)
        case Comparison() | In():
            yield node.column


def provable(bound: Bound) -> Iterator[LeafColumn]:
    """Yield the leaves of a condition that what a table records of them may be weighed by.

    Where a literal equals nothing of the table's type, files may still hold it in another one, such as nanoseconds.
    """
    tests = list(_tests(bound))
    unequal = {test.leaf for test in tests if isinstance(test, _ColumnTest) and not test.literals.may_equal}
    yield from {test.leaf for test in tests} - unequal


def _tests(bound: Bound) -> Iterator[_ColumnTest | _NullTest]:
    match bound:
        case _Combined(parts):
            for part in parts:
                yield from _tests(part)
        case _ColumnTest() | _NullTest():
            yield bound
