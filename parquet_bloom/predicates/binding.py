"""Binds a predicate to a file's schema, once per schema: finds the columns and encodes the literals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeVar

from parquet_bloom.errors import (
    ColumnNotFoundError,
    LiteralError,
    ParquetBloomError,
)
from parquet_bloom.format.schema import ColumnPath, LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.predicates.evaluation import (
    CANNOT,
    FILTER,
    MIGHT,
    PARTITION,
    STATISTICS,
    TYPE,
    BoundPredicate,
    ColumnTest,
    Combined,
    Fixed,
    Literals,
    NullTest,
    Reading,
    Verdict,
)
from parquet_bloom.predicates.partitions import might_hold, might_hold_null
from parquet_bloom.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Opaque,
    Or,
    Predicate,
    Text,
    listed_together,
)
from parquet_bloom.predicates.typing import is_beyond_bigint, is_integer, readings
from parquet_bloom.storage.listing import Source
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.tables.live_files import Unproved
from parquet_bloom.tables.placement import Columns
from parquet_bloom.values.encoding import ALIKE_DIGITS, encode_literal, why_uncountable, why_untrusted
from parquet_bloom.values.ordering import Point, kernel_point, literal_interval
from parquet_bloom.values.statistics import StatisticsReader

_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=Exception)

# ---- binding -----------------------------------------------------------------------------


class View(Protocol):
    """How the engine that will read the files sees them, if that is known."""

    @property
    def knows_types(self) -> bool:
        """Whether the type that each column is read as is known: then the files' own types do not matter."""

    def partitions(self, source: Source) -> Partitions | None:
        """Return which of a file's folders are columns; None if that is unknown."""

    def leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the engine's names; columns that it does not see are hidden."""

    def why_other(self, leaf: LeafColumn) -> str | None:
        """Return why the engine may read other values of such a leaf than those in the file, or None."""


@dataclass(slots=True)
class Findings:
    """How a condition was bound in all files so far, by the numbers of its tests, which are the same in every file.

    `bound` are tests whose column and literals fit some file, `errors` why they do not fit others. `kinds` are the
    types of their columns.
    """

    bound: set[int] = field(default_factory=set)
    kinds: dict[int, set[str]] = field(default_factory=dict)
    errors: dict[int, ParquetBloomError] = field(default_factory=dict)

    @property
    def conflicting(self) -> frozenset[int]:
        """The tests of columns that files hold as different types, which can prune nothing.

        An engine compares such a column in one type, and which one is not known: 9 < 10, and '10' < '9'. Some even
        read one file in another's type, and round. So it does not matter whether a literal fits the type of a file.
        """
        return frozenset(number for number, kinds in self.kinds.items() if len(kinds) > 1)

    def note_kind(self, number: int, kind: str) -> None:
        """Note the type of a test's column in a file, see `comparable_type`, before its literals are looked at."""
        self.kinds.setdefault(number, set()).add(kind)

    def note_error(self, number: int, error: ParquetBloomError) -> None:
        """Note why a test does not fit a file."""
        self.errors[number] = more_telling(self.errors.get(number), error)

    def merge(self, other: Findings) -> None:
        """Add the findings about the same condition in other files."""
        self.bound |= other.bound
        for number, kinds in other.kinds.items():
            self.kinds.setdefault(number, set()).update(kinds)
        for number, error in other.errors.items():
            self.note_error(number, error)

    def merge_recorded(self, other: Findings, columns: Sequence[str], *, case_sensitive: bool) -> None:
        """Add the findings about a table's own `columns`, some of which have an unknown type."""
        self.bound |= other.bound
        names = set(columns) if case_sensitive else {name.casefold() for name in columns}
        for number, error in other.errors.items():
            if isinstance(error, ColumnNotFoundError):
                (name, *_) = parse_path(error.name)
                if (name if case_sensitive else name.casefold()) in names:
                    self.bound.add(number)
                    continue
            self.note_error(number, error)

    def raise_unless_bound(self) -> None:
        """Raise the first error of a test that could not be bound in any file."""
        for number, error in sorted(self.errors.items()):
            if number not in self.bound:
                raise error


def more_telling(known: _Error | None, error: _Error) -> _Error:
    """Return the error to raise if no file fits: that about a literal, for the other file may only lack the column."""
    is_literal = isinstance(error, LiteralError) and not isinstance(known, LiteralError)
    return error if known is None or is_literal else known


def without_conflicts(
    evaluate: Callable[[frozenset[int]], tuple[_Result, Findings]],
    *,
    discard: Callable[[_Result], object] | None = None,
) -> tuple[_Result, Findings]:
    """Return what `evaluate` returns if the tests of columns with conflicting types prune nothing.

    `evaluate` takes the numbers of these tests. They are known only once all footers were read; so if there are any it
    is called a second time, and its first result goes to `discard`.
    """
    result, findings = evaluate(frozenset())
    if conflicting := findings.conflicting:
        if discard is not None:
            discard(result)
        result, _ = evaluate(conflicting)
    return result, findings


class Binder:
    """Binds a condition to one file after the other, and collects `findings` about it."""

    def __init__(
        self,
        predicate: Predicate,
        timezone: str | None,
        *,
        case_sensitive: bool,
        conflicting: frozenset[int],
        view: View | None = None,
    ) -> None:
        self._predicate, self._timezone, self._case_sensitive = predicate, timezone, case_sensitive
        self._conflicting, self._view = conflicting, view
        self.findings: Findings = Findings()
        self._unproved: dict[str, str] = {}
        self._of_file: dict[Any, tuple[Any, BoundPredicate]] = {}
        self._of_leaf: dict[tuple[int, LeafColumn], BoundPredicate] = {}

    def bind(
        self, leaves: tuple[LeafColumn, ...], partitions: Partitions, unproved: Unproved = frozenset()
    ) -> BoundPredicate:
        """Return the condition bound to a file's columns; see `tables.Snapshot.unproved`."""
        key = id(leaves), partitions, unproved  # the same schema has the same leaves, see `parse_footer`
        if (known := self._of_file.get(key)) is not None:
            return known[1]
        if len(self._of_file) > _MEMO_SIZE:
            self._of_file.clear()
            self._of_leaf.clear()
        self._unproved = {self._cased(column): reason for column, reason in unproved}
        bound = self._bind(self._predicate, leaves, partitions, count())
        self._of_file[key] = leaves, bound  # holding the leaves keeps their id from being another's
        return bound

    def _bind(
        self, node: Predicate, columns: tuple[LeafColumn, ...], partitions: Partitions, numbers: Iterator[int]
    ) -> BoundPredicate:
        match node:
            case And(parts):
                return Combined(tuple(self._bind(part, columns, partitions, numbers) for part in parts), min)
            case Or(parts):
                return Combined(tuple(self._bind(part, columns, partitions, numbers) for part in parts), max)
            case Constant(True):
                return Fixed(Verdict(MIGHT, "the condition is TRUE"))
            case Constant(False):
                return Fixed(Verdict(CANNOT, "the condition is FALSE", TYPE))
            case Comparison() | In() | IsNull():
                return self._bind_test(next(numbers), node, columns, partitions)
        return Fixed(Verdict(MIGHT, f"not used to prune: {node}"))

    def _cased(self, name: str) -> str:
        return name if self._case_sensitive else name.casefold()

    def _bind_test(
        self, number: int, node: _Test, columns: tuple[LeafColumn, ...], partitions: Partitions
    ) -> BoundPredicate:
        matching = [leaf for leaf in columns if self._is_same(leaf.path, node.column)]
        if reason := self._unproved.get(self._cased(node.column[0])):
            self.findings.bound.add(number)
            return Fixed(Verdict(MIGHT, reason))
        if constants := partitions.named(node.column, case_sensitive=self._case_sensitive):
            if matching:
                self._accept(number, node, "partition")
                if not partitions.are_sure:
                    self._accept(number, node, "column")  # which one an engine takes may depend on other files' folders
                return Fixed(Verdict(MIGHT, f"{format_path(node.column)} is both a column and a partition"))
            return self._bind_partition(number, node, constants, is_sure=True)
        constants, are_above = partitions.perhaps_named(node.column, case_sensitive=self._case_sensitive)
        if constants and not matching and not are_above:
            return self._bind_partition(number, node, constants, is_sure=False)
        if len(matching) != 1:
            return Fixed(self._unbound(number, node, columns, matching, constants))
        if number in self._conflicting:
            return self._of_different_types(node)
        self._note(number, node, comparable_type(matching[0]))
        if self._view and (reason := self._view.why_other(matching[0])):
            self.findings.bound.add(number)
            return Fixed(Verdict(MIGHT, reason))
        of_leaf = self._bind_leaf(number, node, matching[0])
        # An engine that reads the folders as partitions ignores the file's own column.
        return Combined((of_leaf, Fixed(_evaluate_partition(node, constants))), max) if constants else of_leaf

    def _bind_partition(self, number: int, node: _Test, constants: Sequence[str], *, is_sure: bool) -> BoundPredicate:
        self._accept(number, node, "partition")
        if number in self._conflicting:
            return self._of_different_types(node)
        if not is_sure and might_hold_null(node):
            return Fixed(Verdict(MIGHT, f"some engines read partition {format_path(node.column)} as NULL"))
        return Fixed(_evaluate_partition(node, constants))

    def _of_different_types(self, node: _Test) -> BoundPredicate:
        return Fixed(Verdict(MIGHT, why_conflicting(format_path(node.column))))

    def _bind_leaf(self, number: int, node: _Test, leaf: LeafColumn) -> BoundPredicate:
        if (number, leaf) not in self._of_leaf:
            try:
                self._of_leaf[number, leaf] = self._column_test(number, leaf, node)
            except LiteralError as error:
                self.findings.note_error(number, error)
                return Fixed(Verdict(MIGHT, str(error)))
        self.findings.bound.add(number)
        return self._of_leaf[number, leaf]

    def _note(self, number: int, node: _Test, kind: str) -> None:
        knows_types = self._view is not None and self._view.knows_types
        # Nulls are the same in any type; but folders that not all files have may not be partitions.
        is_any = kind != "partition" and (knows_types or isinstance(node, IsNull))
        self.findings.note_kind(number, "column" if is_any else kind)

    def _accept(self, number: int, node: _Test, kind: str) -> None:
        self._note(number, node, kind)
        self.findings.bound.add(number)

    def _is_same(self, path: ColumnPath, wanted: ColumnPath) -> bool:
        if self._case_sensitive:
            return path == wanted
        return [part.casefold() for part in path] == [part.casefold() for part in wanted]

    def _unbound(
        self,
        number: int,
        node: _Test,
        columns: tuple[LeafColumn, ...],
        matching: list[LeafColumn],
        above: Sequence[str],
    ) -> Verdict:
        path, name = node.column, format_path(node.column)
        if matching:
            for leaf in matching:
                self._accept(number, node, comparable_type(leaf))
            return Verdict(MIGHT, f"{name} matches {len(matching)} columns")
        if any(self._is_same(leaf.path[: len(path)], path) for leaf in columns):
            self._accept(number, node, "group")
            return Verdict(MIGHT, f"{name} is a group of columns")
        names = [leaf.name for leaf in columns]
        folder = f"{name}={above[0]} is above the given path, so it is not a partition" if above else None
        advice = folder and f"{folder}; give the folder that contains it"
        self.findings.note_error(number, ColumnNotFoundError(name, names, advice=advice))
        return Verdict(MIGHT, f"the file has no column {name}")

    def _column_test(self, number: int, leaf: LeafColumn, node: _Test) -> BoundPredicate:
        reader = StatisticsReader(leaf)
        match node:
            case IsNull(_, is_negated) | Comparison("<=>", _, None, is_negated):
                return NullTest(leaf, is_negated, reader)
            case In(_, values, is_negated):
                op, keeps_nulls = "<>" if is_negated else "=", False
                if is_negated and any(isinstance(value, Text) for value in values):
                    return Fixed(Verdict(MIGHT, "engines evaluate NOT IN with text differently"))
            case Comparison("<=>", _, Text(), _) if not is_read_as_bytes(leaf):
                return Fixed(Verdict(MIGHT, "Spark reads text that does not fit the type as NULL, which <=> can match"))
            case Comparison(op, _, value, is_negated):
                keeps_nulls = op == "<=>" and is_negated
                op, values = node.plain_op, (value,)
                if op not in ("=", "<>") and is_integer(leaf) and is_beyond_bigint(value):
                    keeps_nulls = True
        if any(value is None for value in values):
            return Fixed(Verdict(MIGHT, "the values include NULL"))
        if not values:
            return Fixed(
                Verdict(MIGHT, "NOT IN with an empty list is true for every value") if is_negated else _NONE_LISTED
            )
        literals = Literals([self._readings(leaf, value) for value in listed_together(values)])
        return ColumnTest(
            number=number,
            leaf=leaf,
            op=op,
            is_negated=is_negated,
            keeps_nulls=keeps_nulls,
            literals=literals,
            reader=reader,
            if_present=Verdict(MIGHT, f"the filter on {leaf.name} says the value may be present"),
            if_absent=Verdict(CANNOT, f"the filter on {leaf.name} lacks the value", FILTER),
            if_outside=Verdict(CANNOT, f"the value is outside the min-max range of {leaf.name}", STATISTICS),
            point=_point(leaf, literals) if op == "=" and not (is_negated and leaf.is_repeated) else None,
        )

    def _readings(self, leaf: LeafColumn, value: Any) -> list[Reading]:
        literals = readings(leaf, value, self._timezone, is_spark=self._view is not None)
        if isinstance(literals, Opaque):
            return [Reading((), literals.text, literals.text)]
        return [self._reading(leaf, literal) for literal in literals]

    def _reading(self, leaf: LeafColumn, literal: Any) -> Reading:
        encodings = encode_literal(leaf, literal, timezone=self._timezone)
        interval = literal_interval(leaf, literal, encodings)
        return Reading(encodings.hashes(), interval, encodings.reason, None if encodings.reason else literal)


def _point(leaf: LeafColumn, literals: Literals) -> Point | None:
    """Return the one value that the literals are, if the kernel compares such values and their filters may prune."""
    if literals.single_value is None or why_untrusted(leaf) or why_uncountable(leaf) or leaf.text_rule:
        return None
    return kernel_point(leaf, literals.single_value[0])


def why_conflicting(name: str) -> str:
    """Return why a column that files store with different types cannot prune."""
    return f"files store {name} with conflicting types"


_Test = Comparison | In | IsNull
_NONE_LISTED = Verdict(CANNOT, "the list of values is empty", TYPE)
_MEMO_SIZE = 256


def comparable_type(leaf: LeafColumn) -> str:
    """Return a name that two types share only if all engines read files of both as values that compare alike.

    That is so of a type and itself, of those in `ALIKE_INTEGERS`, and of DECIMALs of one scale and up to `ALIKE_DIGITS`
    digits, however stored: engines read them with the digits of the widest. Of any other two, nothing is known.
    """
    if leaf.text_rule:
        return leaf.text_rule  # Spark reads all files with the schema of one, which may have this rule or not
    logical = leaf.logical_type
    if logical is not None and logical.name == "DECIMAL":
        return f"DECIMAL of scale {logical.scale}" if 0 < logical.precision <= ALIKE_DIGITS else str(logical)
    return "integer" if leaf.type_name in ALIKE_INTEGERS else leaf.type_name


ALIKE_INTEGERS = frozenset({"INT32", "INT32 UNKNOWN", "INT64"})
"""Integers that compare alike; UNKNOWN holds nulls only. Spark cuts others to 8 or 16 bits if one file has so many."""


def is_read_as_bytes(leaf: LeafColumn) -> bool:
    """Return whether engines that know a column's type read it byte by byte, be it called a text or not."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    is_bytes = leaf.physical_type is PhysicalType.BYTE_ARRAY and logical in (None, "STRING", "ENUM", "JSON", "BSON")
    return is_bytes and not leaf.text_rule


def _evaluate_partition(node: _Test, constants: Sequence[str]) -> Verdict:
    name = format_path(node.column)
    if any(might_hold(node, constant) for constant in constants):
        return Verdict(MIGHT, f"partition {name} may match")
    return Verdict(CANNOT, f"partition {name} is {constants[0]}", PARTITION)
