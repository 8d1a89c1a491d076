"""Which rows match a condition: evaluated on Arrow's columns, with the meaning that Spark 4 gives to its operators.

Arrow's own operators differ from Spark's in this: NaN equals NaN and is greater than any other number, numbers of
different types are compared exactly (a DECIMAL) or as DOUBLE (a float), and timestamps without a zone are in the
session's. So each literal is converted to the scale of its column first. What has more than one meaning is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.errors import LiteralError, UnsupportedError
from parquet_bloom.format.schema import ColumnPath, LeafColumn, PhysicalType, format_path
from parquet_bloom.predicates.tree import And, Comparison, Constant, In, IsNull, Listed, Not, Opaque, Or, Predicate
from parquet_bloom.predicates.typing import is_beyond_bigint, is_integer, readings
from parquet_bloom.values.encoding import (
    DECIMAL_DIGITS,
    GREGORIAN_FROM,
    ZONES_AGREED_FROM,
    encode_literal,
    instant_of,
    is_never_rebased,
    literal_text,
    why_untrusted,
)
from parquet_bloom.values.interchange import plain_array, plain_type
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.literals import (
    DAY,
    PER_SECOND,
    SECOND,
    DateLiteral,
    DecimalLiteral,
    FloatLiteral,
    Null,
    Timestamp,
    from_decimal,
    normalize_literal,
)
from parquet_bloom.values.text import zone_of

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[ColumnPath, Any]
"""Arrow arrays of the same length, by their paths in the condition."""

_Test = Callable[[Any], Any]
"""Takes an array, and returns a boolean array: true, false, or null where SQL's answer is unknown."""

_Node = Callable[[Columns], Any]


class Typed(NamedTuple):
    """A column of a condition: its type in Arrow, and a leaf that says what literals mean for it, None of a group."""

    type: pa.DataType
    leaf: LeafColumn | None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows: `paths` are the columns that it takes."""

    paths: tuple[ColumnPath, ...]
    _evaluate: _Node

    def mask(self, columns: Columns) -> Any:
        """Return a boolean array without nulls: whether each row matches."""
        import pyarrow.compute as pc

        return pc.fill_null(self._evaluate(columns), False)


def row_filter(predicate: Predicate, typed: Callable[[ColumnPath], Typed], *, timezone: str | None) -> RowFilter:
    """Return a condition to evaluate on rows; `typed` returns the type of a column.

    Raises `UnsupportedError` for a condition that cannot be evaluated exactly, and `LiteralError` for a literal that
    a column cannot be compared with.
    """
    paths: dict[ColumnPath, None] = {}

    def column(path: ColumnPath) -> Typed:
        paths[path] = None
        return typed(path)

    node = _Compiler(column, timezone).node(predicate)
    return RowFilter(tuple(paths), node)


def key_filter(path: ColumnPath, column: Typed, keys: Any) -> RowFilter:
    """Return the condition that a column equals one of `keys`, an Arrow array of the column's own type."""
    import pyarrow as pa

    are_floats = pa.types.is_floating(keys.type)  # to compare with in DOUBLE, also if the column has none
    test = _is_one_of(_scale(format_path(path), column, FloatLiteral(0.0) if are_floats else None), keys)
    return RowFilter((path,), lambda columns: test(columns[path]))


def key_points(path: ColumnPath, column: Typed, keys: Iterable[Any], *, timezone: str | None) -> Any:
    """Return keys as an Arrow array for `key_filter`, null for a key that no value equals.

    Raises `LiteralError` for a key that the column cannot be compared with.
    """
    import pyarrow as pa

    name = format_path(path)
    literals = [_literal(name, column, key, timezone) for key in keys]
    kinds = {type(one): one for one in literals}
    scale = _scale(name, column, kinds.get(FloatLiteral, kinds.get(DecimalLiteral)))
    points = [None if isinstance(one, Null) else scale.point(scale.place(one)) for one in literals]
    return pa.array(points, scale.type)


class _Compiler:
    def __init__(self, column: Callable[[ColumnPath], Typed], timezone: str | None) -> None:
        self._column, self._timezone = column, timezone

    def node(self, predicate: Predicate) -> _Node:
        match predicate:
            case And(parts):
                return self._combined(parts, "and_kleene", True)
            case Or(parts):
                return self._combined(parts, "or_kleene", False)
            case Not(part):
                return _inverted(self.node(part))
            case Constant(is_true):
                return lambda columns: _same(columns, is_true)
            case IsNull(path, is_negated):
                self._column(path)
                return _on(path, _is_valid if is_negated else _is_null)
            case Comparison(op, path, value, is_negated):
                test = _on(path, self._comparison(path, op, value))
                return _inverted(test) if is_negated else test
            case In(path, values, is_negated):
                test = _on(path, self._in(path, values))
                return _inverted(test) if is_negated else test
            case Opaque(text):
                raise UnsupportedError(
                    f"{text} cannot be evaluated exactly: only comparisons of a column with a literal, IN, BETWEEN, "
                    "IS NULL, AND, OR and NOT can"
                )
        raise AssertionError(predicate)

    def _combined(self, parts: tuple[Predicate, ...], function: str, neutral: bool) -> _Node:
        import pyarrow.compute as pc

        combine = getattr(pc, function)
        nodes = [self.node(part) for part in parts]
        return lambda columns: reduce(combine, (node(columns) for node in nodes), _same(columns, neutral))

    def _comparison(self, path: ColumnPath, op: str, value: Any) -> _Test:
        import pyarrow.compute as pc

        column = self._column(path)
        name = format_path(path)
        literal = _literal(name, column, value, self._timezone)
        if isinstance(literal, Null):
            return _is_null if op == "<=>" else _unknown
        is_order = op[0] in "<>" and op not in ("<>", "<=>")
        if is_order and column.leaf and is_integer(column.leaf) and is_beyond_bigint(value):
            raise UnsupportedError(f"{name} has no value beyond {literal_text(value)}, and Spark orders NULL there")
        scale = _scale(name, column, literal)
        if op == "<>":
            equal = scale.compare("=", scale.place(literal))
            return lambda array: pc.invert(equal(array))
        test = scale.compare("=" if op == "<=>" else op, scale.place(literal))
        return (lambda array: pc.fill_null(test(array), False)) if op == "<=>" else test

    def _in(self, path: ColumnPath, values: Iterable[Any]) -> _Test:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._column(path)
        name = format_path(path)
        literals = [_literal(name, column, value, self._timezone) for value in values]
        if not literals:
            return _nowhere
        known = [literal for literal in literals if not isinstance(literal, Null)]
        # Spark compares a list in one type: a float in it makes all of them DOUBLE.
        kinds = {type(one): one for one in known}
        scale = _scale(name, column, kinds.get(FloatLiteral, kinds.get(DecimalLiteral)))
        points = [point for literal in known if (point := scale.point(scale.place(literal))) is not None]
        test = _is_one_of(scale, pa.array(points, scale.type))
        if len(known) == len(literals):
            return test
        return lambda array: pc.if_else(test(array), True, pa.scalar(None, pa.bool_()))


def _on(path: ColumnPath, test: _Test) -> _Node:
    return lambda columns: test(columns[path])


def _inverted(node: _Node) -> _Node:
    import pyarrow.compute as pc

    return lambda columns: pc.invert(node(columns))


def _same(columns: Columns, value: bool) -> Any:
    import pyarrow as pa

    length = next((len(array) for array in columns.values()), 1)
    return pa.repeat(pa.scalar(value), length)


def _is_null(array: Any) -> Any:
    return array.is_null()


def _is_valid(array: Any) -> Any:
    return array.is_valid()


def _unknown(array: Any) -> Any:
    import pyarrow as pa

    return pa.nulls(len(array), pa.bool_())


def _nowhere(array: Any) -> Any:
    """Return that no value, NULL included, is in an empty list, so that NOT IN has all of them."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(False), len(array))


def _where_valid(array: Any, answer: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(array.is_valid(), answer, pa.scalar(None, pa.bool_()))


# ---- literals ----------------------------------------------------------------------------


def _literal(name: str, column: Typed, value: Any, timezone: str | None) -> Any:
    """Return a literal in the one meaning that it has for a column."""
    if isinstance(value, Listed):
        value = value.value
    if isinstance(null := normalize_literal(value), Null):
        return null
    if column.leaf is None:
        raise UnsupportedError(f"{name} is a group of columns, and only IS NULL can be evaluated on it")
    leaf = column.leaf
    if leaf.is_repeated:
        raise UnsupportedError(f"{name} is in a list, so a row has many values of it")
    if leaf.text_rule:
        raise UnsupportedError(f"Spark does not compare {name} by its bytes: {leaf.text_rule}")
    if (problem := why_untrusted(leaf)) and leaf.physical_type is not PhysicalType.BOOLEAN:
        raise UnsupportedError(f"{name} cannot be compared exactly: {problem}")
    meanings = readings(leaf, value)
    if isinstance(meanings, Opaque):
        raise UnsupportedError(f"{name} cannot be compared exactly with {value}: {meanings.text}")
    if len(meanings) != 1:
        raise UnsupportedError(
            f"versions of Spark read the text {value} differently; write a quote in it as \\', or give it in Python"
        )
    encode_literal(leaf, meanings[0], timezone=timezone)  # raises what concerns its type
    literal = normalize_literal(meanings[0])
    if isinstance(literal, DateLiteral | Timestamp):
        return _moment(name, column, literal, timezone)
    return literal


def _moment(name: str, column: Typed, literal: DateLiteral | Timestamp, timezone: str | None) -> Any:
    """Return a date or timestamp as nanoseconds since 1970 on the column's clock."""
    import pyarrow as pa

    assert column.leaf is not None
    is_date = pa.types.is_date(column.type)
    local = Timestamp(literal.days * DAY) if isinstance(literal, DateLiteral) else literal
    if local.nanoseconds % 1000 and (is_date or column.type.unit != "ns"):  # Spark does not read such columns at all
        raise UnsupportedError(f"Spark has no nanoseconds, so {name} cannot be compared with {literal}")
    if is_date:
        if local.utc:
            raise UnsupportedError(f"the day of {literal} depends on the time zone; compare {name} with a date")
        if local.nanoseconds < GREGORIAN_FROM * DAY and not is_never_rebased(column.leaf):
            raise UnsupportedError(
                f"{name} cannot be compared exactly with days before 1582-10-15: some versions of Spark shift them"
            )
        return local
    if (column.type.tz is not None) == local.utc:
        instant = local
    elif local.utc:
        raise UnsupportedError(f"{name} has no time zone; write the literal without one")
    elif timezone is None:
        raise UnsupportedError(f"which instants of {name} {literal} means depends on the time zone; give timezone=")
    else:
        instant = instant_of(local, zone_of(timezone))
    if instant.utc and instant.nanoseconds < ZONES_AGREED_FROM:
        raise UnsupportedError(
            f"{name} cannot be compared exactly with instants before 1900: some versions of Spark shift them"
        )
    return instant


# ---- scales ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scale:
    """How a column is compared: its values become those of `type` in `prepare`, and literals become places on it."""

    type: pa.DataType
    prepare: _Test
    place: Callable[[Any], Any]
    compare: Callable[[str, Any], _Test]
    point: Callable[[Any], Any]  # the value of `type` at a place; None if there is none


def _scale(name: str, column: Typed, literal: Any) -> _Scale:
    """Return the scale on which a column is compared with a literal of this type."""
    import pyarrow as pa

    kind = plain_type(column.type)
    is_float = isinstance(literal, FloatLiteral)
    if pa.types.is_null(kind):
        return _Scale(kind, lambda a: a, lambda x: x, lambda op, place: _unknown, lambda place: None)
    if pa.types.is_boolean(kind):
        return _whole(pa.uint8(), 0, 1, Fraction)
    if pa.types.is_integer(kind):
        if is_float:
            return _floats()
        bits = kind.bit_width
        least, most = (0, (1 << bits) - 1) if str(kind)[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return _whole(
            kind, least, most, lambda one: Fraction(one) if isinstance(one, int) else _in_decimal(name, one, 20, 0)
        )
    if pa.types.is_floating(kind):
        return _floats()
    if pa.types.is_decimal(kind):
        if is_float:
            raise UnsupportedError(f"{name} is a DECIMAL; compare it with one, such as 1.5 instead of 1.5e0")
        return _decimals(name, kind)
    if pa.types.is_date(kind):
        return _whole(pa.int32(), -(1 << 31), (1 << 31) - 1, lambda one: Fraction(one.nanoseconds, DAY), pa.date32())
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        unit = SECOND // PER_SECOND[kind.unit]
        stored = pa.int32() if kind.bit_width == 32 else pa.int64()
        bits = stored.bit_width - 1
        return _whole(stored, -(1 << bits), (1 << bits) - 1, lambda one: Fraction(one.nanoseconds, unit))
    return _bytes(column)


def _in_decimal(name: str, literal: Any, integer_digits: int, scale: int) -> Fraction:
    """Return an exact number. Raises `UnsupportedError` where no DECIMAL holds it and the column's values."""
    exact = from_decimal(Decimal(literal)) if isinstance(literal, int) else literal  # as Spark types an integer here
    is_read = integer_digits + scale <= DECIMAL_DIGITS  # by Spark, which knows no wider column
    if is_read and max(exact.integer_digits, integer_digits) + max(exact.scale, scale) > DECIMAL_DIGITS:
        raise UnsupportedError(f"Spark rounds {name} and {exact.value} to compare them")
    return Fraction(exact.value)


def _whole(
    kind: pa.DataType,
    least: int,
    most: int,
    place: Callable[[Any], Fraction],
    before: pa.DataType | None = None,
    make: Callable[[int], Any] = int,
) -> _Scale:
    """Return the scale of values that are whole numbers of a unit, of `kind` in Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def prepare(array: Any) -> Any:
        array = plain_array(array)
        if before is not None:
            array = array.cast(before)
        return array if array.type == kind else array.cast(kind)

    def point(at: Fraction) -> Any:
        return make(at.numerator) if at.denominator == 1 and least <= at <= most else None

    def compare(op: str, at: Fraction) -> _Test:
        if op == "=":
            value = point(at)
            if value is None:
                return lambda array: _where_valid(array, False)
            return lambda array: pc.equal(prepare(array), pa.scalar(value, kind))
        # x < 1.5 is x < 2, and x <= 1.5 is x <= 1
        whole = math.ceil(at) if op in ("<", ">=") else math.floor(at)
        if not least <= whole <= most:
            is_all = (whole > most) == (op[0] == "<")
            return lambda array: _where_valid(array, is_all)
        function = _FUNCTIONS[op](pc)
        return lambda array: function(prepare(array), pa.scalar(make(whole), kind))

    return _Scale(kind, prepare, place, compare, point)


_FUNCTIONS = {
    "=": operator.attrgetter("equal"),
    "<": operator.attrgetter("less"),
    "<=": operator.attrgetter("less_equal"),
    ">": operator.attrgetter("greater"),
    ">=": operator.attrgetter("greater_equal"),
}


def _decimals(name: str, kind: Any) -> _Scale:
    scale, most = kind.scale, 10**kind.precision - 1

    def place(literal: Any) -> Fraction:
        exact = _in_decimal(name, literal, kind.precision - scale, max(scale, 0))
        return exact * Fraction(10**scale) if scale >= 0 else exact / Fraction(10**-scale)

    def make(unscaled: int) -> Decimal:
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -scale))

    return _whole(kind, -most, most, place, make=make)


def _floats() -> _Scale:
    """Return the scale of DOUBLE, on which NaN comes last and equals itself, and both zeros are one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.float64()

    def prepare(array: Any) -> Any:
        array = plain_array(array)
        return array if array.type == kind else array.cast(kind, safe=False)

    def place(literal: Any) -> float:
        value = literal.value if isinstance(literal, FloatLiteral | DecimalLiteral) else literal
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf

    def compare(op: str, number: float) -> _Test:
        if math.isnan(number):
            return _NAN_TESTS[op]
        function, scalar = _FUNCTIONS[op](pc), pa.scalar(number, kind)
        if op[0] != ">":
            return lambda array: function(prepare(array), scalar)

        def greater(array: Any) -> Any:
            values = prepare(array)
            return pc.or_(function(values, scalar), pc.is_nan(values))

        return greater

    return _Scale(kind, prepare, place, compare, lambda number: number)


def _is_nan(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_nan(plain_array(array).cast(pa.float64(), safe=False))


def _is_number(array: Any) -> Any:
    import pyarrow.compute as pc

    return pc.invert(_is_nan(array))


_NAN_TESTS: dict[str, _Test] = {
    "=": _is_nan,
    "<": _is_number,
    "<=": lambda array: _where_valid(array, True),
    ">": lambda array: _where_valid(array, False),
    ">=": _is_nan,
}


def _bytes(column: Typed) -> _Scale:
    """Return the scale of texts and bytes, which are compared byte by byte."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()
    leaf = column.leaf

    def prepare(array: Any) -> Any:
        array = plain_array(array)
        if isinstance(array.type, pa.BaseExtensionType):  # UUIDs
            array = array.cast(array.type.storage_type)
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        return array if array.type == kind else array.cast(kind)

    def place(literal: Any) -> bytes:
        assert leaf is not None
        if isinstance(literal, str) and leaf.physical_type is PhysicalType.BYTE_ARRAY:
            return literal.encode("utf-8", "surrogatepass")
        if isinstance(literal, bytes):
            return literal
        plain = encode_literal(leaf, literal).plain  # a UUID
        if len(plain) != 1:
            raise LiteralError(f"{leaf.name} cannot be compared exactly with {literal_text(literal)}")
        return plain[0]

    def compare(op: str, value: bytes) -> _Test:
        function, scalar = _FUNCTIONS[op](pc), pa.scalar(value, kind)
        return lambda array: function(prepare(array), scalar)

    return _Scale(kind, prepare, place, compare, lambda value: value)


def _is_one_of(scale: _Scale, points: Any) -> _Test:
    """Return the test for being one of many values."""
    import pyarrow as pa

    if pa.types.is_null(scale.type):
        return _unknown
    keys = KeySet.of_values(scale.prepare(points))
    return lambda array: _where_valid(array, keys.mask(scale.prepare(array)))
