"""A Column as Spark's analyzer understands it becomes a predicate: what is used is listed here, all else is `Opaque`.

The analyzer gives both sides of a comparison one type, so it casts columns. Such a cast is dropped if the comparison
stays the same without it: the values of the column remain different under the cast, and in the same order.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from parquet_bloom.format.schema import ColumnPath
from parquet_bloom.predicates.tree import (
    MIRRORED,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Opaque,
    Or,
    Predicate,
    require_shallow,
)
from parquet_bloom.values.literals import EPOCH_ORDINAL, Timestamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def predicate_of(column: Any, frame: DataFrame) -> Predicate:
    """Return a Column over these columns as a predicate. Raises what Spark raises for a Column that is wrong."""
    plan = frame.where(column)._jdf.queryExecution().analyzed()
    try:
        while plan.nodeName() == "Project":  # that Spark puts around a condition on `_metadata`
            plan = plan.child()
        return require_shallow(_predicate(_tree(plan.condition())))
    except Exception as error:  # other versions of Spark may have other methods
        return Opaque(f"{column} ({str(error).partition(chr(10))[0]})")


# ---- Spark's tree ------------------------------------------------------------------------

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


@dataclass(eq=False, slots=True)
class _Node:
    """An expression: its class, its fields as Spark writes them in JSON, and its place as the `number`th child."""

    kind: str
    fields: dict[str, Any]
    above: _Node | None
    number: int
    children: list[_Node] = field(default_factory=list)
    known: Any = None

    @property
    def type(self) -> Any:
        """Its type, as JSON, if its class has that field."""
        return self.fields.get("dataType")

    @property
    def java(self) -> Any:
        """The expression itself; each step down to it takes calls of the JVM."""
        way = [self]
        while way[-1].known is None and way[-1].above is not None:
            way.append(way[-1].above)
        for above, node in zip(way[::-1], way[-2::-1], strict=False):
            node.known = above.known.children().apply(node.number)
        return self.known


def _tree(java: Any) -> _Node:
    """Return an expression and all below it, which Spark lists depth first."""
    root: _Node | None = None
    last: _Node | None = None
    for fields in json.loads(java.toJSON()):
        while last is not None and len(last.children) == last.fields["num-children"]:
            last = last.above
        node = _Node(
            fields["class"].removeprefix(_EXPRESSIONS), fields, last, 0 if last is None else len(last.children)
        )
        if last is not None:
            last.children.append(node)
        root, last = root or node, node
    assert root is not None
    root.known = java
    return root


# ---- conditions --------------------------------------------------------------------------

_OPS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


class _NotUsed(Exception):
    pass


def _predicate(node: _Node) -> Predicate:
    match node.kind:
        case "And":
            return And(tuple(map(_predicate, _operands(node))))
        case "Or":
            return Or(tuple(map(_predicate, _operands(node))))
        case "Not":
            return Not(_predicate(node.children[0]))
        case "Between" | "With":  # whose first child has the comparisons that they are made of
            return _predicate(node.children[0])
        case "Literal" if node.fields["value"] in _BOOLEANS:
            return Constant(_BOOLEANS[node.fields["value"]])
    try:
        return _test(node)
    except _NotUsed:
        return Opaque(str(node.java.sql()))


_BOOLEANS = {"true": True, "false": False}


def _operands(node: _Node) -> Iterator[_Node]:
    """Yield the operands of a chain of ANDs, or of ORs, without recursion."""
    pending = [node]
    while pending:
        part = pending.pop()
        if part.kind == node.kind:
            pending += reversed(part.children)
        else:
            yield part


def _test(node: _Node) -> Predicate:
    match node.kind, node.children:
        case (("IsNull" | "IsNotNull"), [operand]):
            return IsNull(_column(operand), is_negated=node.kind == "IsNotNull")
        case "In", [operand, *listed]:
            return In(_column(operand), tuple(map(_value, listed)))
        case kind, [left, right] if kind in _OPS:
            if _uncast(left).kind == "Literal":
                return Comparison(MIRRORED[_OPS[kind]], _column(right), _value(left))
            return Comparison(_OPS[kind], _column(left), _value(right))
    raise _NotUsed


def _column(node: _Node) -> ColumnPath:
    return _typed_column(node)[0]


def _typed_column(node: _Node) -> tuple[ColumnPath, Any]:
    match node.kind:
        case "AttributeReference":
            return (node.fields["name"],), node.type
        case "GetStructField":
            path, of_struct = _typed_column(node.children[0])
            inner = of_struct["fields"][node.fields["ordinal"]]
            return (*path, inner["name"]), inner["type"]
        case "CommonExpressionRef":
            return _typed_column(_definition(node))
        case "Cast":
            path, kind = _typed_column(node.children[0])
            if is_exact(kind, node.type):
                return path, node.type
    raise _NotUsed


def _definition(reference: _Node) -> _Node:
    """Return the expression that a reference names in a `With` around it."""
    above: _Node | None = reference
    while above is not None:
        for definition in above.children[1:] if above.kind == "With" else ():
            if definition.fields["id"] == reference.fields["id"]:
                return definition.children[0]
        above = above.above
    raise _NotUsed


# ---- casts -------------------------------------------------------------------------------

CASTS: Mapping[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "long": ("double",),  # below 2^53, see `encode_literal`
    "float": ("double",),
    "date": ("timestamp_ntz", "timestamp"),
    "timestamp_ntz": ("timestamp",),
    **dict.fromkeys(("double", "boolean", "timestamp", "binary"), ()),
}
"""Types of columns, as Spark writes them in JSON -> the other types whose casts are dropped, besides decimals.

To its own type all of these may be cast; text is not among them, since a cast may give it a collation.
"""

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DOUBLE_DIGITS = 15


def is_exact(of: Any, to: Any) -> bool:
    """Return whether a column of one type is compared in the same way if it is cast to another."""
    if not isinstance(of, str) or not isinstance(to, str):
        return False
    if (own := _decimal(of)) is not None and to == "double":
        return sum(own) <= _DOUBLE_DIGITS
    if (wide := _decimal(to)) is not None:
        digits, scale = own or (_DIGITS.get(of, _NONE), 0)
        return wide[0] >= digits and wide[1] >= scale
    return to in CASTS.get(of, ()) or (of == to and of in CASTS)


_NONE = 39
"""More digits than any DECIMAL has."""


def _decimal(kind: str) -> tuple[int, int] | None:
    """Return the digits before and after the point of a DECIMAL, None for other types."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    return precision - scale, scale


# ---- literals ----------------------------------------------------------------------------


def _uncast(node: _Node) -> _Node:
    while node.kind == "Cast":
        node = node.children[0]
    return node


def _value(node: _Node) -> Any:
    """Return the value of a literal, which may be cast: then Spark computes it, unless it is the same number."""
    literal = _uncast(node)
    if literal.kind != "Literal":  # its value may be another one when the rows are read, as that of current_date()
        raise _NotUsed
    if literal.fields["value"] is None:
        return None
    try:
        if _is_as_written(node):
            return _from_json(literal.type, literal.fields["value"])
        return _from_java(node.type, node.java.eval(None))
    except Exception:  # the cast fails, and so does the query; or Python has no such value
        raise _NotUsed from None


def _is_as_written(node: _Node) -> bool:
    """Return whether a literal has the value that it has in JSON also after its casts."""
    while node.kind == "Cast":
        below = node.children[0]
        if node.type != below.type and not (_is_exact_number(node.type) and is_exact(below.type, node.type)):
            return False
        node = below
    return _is_exact_number(node.type) or node.type in _JSON


def _is_exact_number(kind: Any) -> bool:
    return kind in _DIGITS or (isinstance(kind, str) and _decimal(kind) is not None)


def _from_json(kind: str, text: str) -> Any:
    return Decimal(text) if _decimal(kind) is not None else _JSON[kind](text)


_JSON: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(_DIGITS, int),
    "boolean": _BOOLEANS.__getitem__,
    "date": date.fromisoformat,
    "double": float,
    "string": str,
}
"""Types whose literals Spark writes as they are in JSON -> what they are in Python."""


def _from_java(kind: str, value: Any) -> Any:
    if value is None:
        return None
    return Decimal(value.toString()) if _decimal(kind) is not None else _JAVA[kind](value)


_JAVA: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_DIGITS, int),
    "boolean": bool,
    "double": float,
    "float": lambda value: struct.unpack("<f", struct.pack("<f", value))[0],
    "string": lambda value: bytes(value.getBytes()).decode(),
    "binary": bytes,
    "date": lambda days: date.fromordinal(days + EPOCH_ORDINAL),
    "timestamp": lambda microseconds: Timestamp(1000 * microseconds, utc=True).to_python(),
    "timestamp_ntz": lambda microseconds: Timestamp(1000 * microseconds).to_python(),
}
"""Spark's own values of its types -> what they are in Python."""
