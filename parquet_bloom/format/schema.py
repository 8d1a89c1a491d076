"""Leaf columns: what a footer's schema says about each column that has values.

A schema is a tree stored depth first; a leaf's position among the leaves is the position of its column chunk in
every row group. (parquet.thrift: SchemaElement, LogicalType.)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, PredicateError, UnsupportedError


class PhysicalType(enum.IntEnum):
    """How values lie on disk (parquet.thrift: Type)."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class Repetition(enum.IntEnum):
    """How often a node occurs in its parent (parquet.thrift: FieldRepetitionType)."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


FIXED_WIDTH = {
    PhysicalType.INT32: 4,
    PhysicalType.INT64: 8,
    PhysicalType.INT96: 12,
    PhysicalType.FLOAT: 4,
    PhysicalType.DOUBLE: 8,
}
"""Plain-encoded bytes of a value, for the types whose width the type alone decides."""


@dataclass(frozen=True, slots=True)
class LogicalType:
    """What values mean. `name` is the format's; the other fields are set where the type has them."""

    name: str
    unit: str | None = None  # MILLIS, MICROS or NANOS, of TIME and TIMESTAMP
    is_adjusted_to_utc: bool = False  # of TIME and TIMESTAMP
    precision: int = 0  # of DECIMAL
    scale: int = 0  # of DECIMAL
    bit_width: int = 0  # of INTEGER
    is_signed: bool = True  # of INTEGER
    is_proleptic: bool = False  # of DATE: proved to count its days in the Gregorian calendar, before 1582 as well

    def __str__(self) -> str:
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision},{self.scale})"
            case "INTEGER":
                return f"{'' if self.is_signed else 'U'}INT{self.bit_width}"
            case "TIME" | "TIMESTAMP":
                return f"{self.name}({self.unit},{'UTC' if self.is_adjusted_to_utc else 'local'})"
        return self.name


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """One leaf of the schema.

    `path` runs from below the root to the leaf; `nodes` are those nodes' repetitions, in the same order;
    `index` is the position of its column chunk in each row group; `type_length` is set for
    FIXED_LEN_BYTE_ARRAY only, in bytes. `text_rule` says how Spark compares texts of which it notes in the file that
    their bytes do not tell which are equal.
    """

    path: tuple[str, ...]
    index: int
    physical_type: PhysicalType
    type_length: int | None
    logical_type: LogicalType | None
    nodes: tuple[Repetition, ...]
    text_rule: str | None = None

    @property
    def name(self) -> str:
        """The path as users write it: dotted, names that hold dots or backticks in backticks."""
        return format_path(self.path)

    @property
    def type_name(self) -> str:
        """The type as a user reads it, such as `INT64 TIMESTAMP(MICROS,UTC)`."""
        physical = self.physical_type.name
        if self.type_length is not None:
            physical = f"FIXED_LEN_BYTE_ARRAY({self.type_length})"
        logical = str(self.logical_type or "")
        return f"{physical} {logical}" if logical not in ("", physical) else physical

    @property
    def width(self) -> int | None:
        """Plain-encoded bytes of every value, or None where they vary (BYTE_ARRAY) or are bits (BOOLEAN)."""
        return self.type_length if self.type_length is not None else FIXED_WIDTH.get(self.physical_type)

    @property
    def is_repeated(self) -> bool:
        """Whether a row can hold more than one value of this leaf."""
        return Repetition.REPEATED in self.nodes

    @property
    def max_definition_level(self) -> int:
        """How many nodes of the path may be absent."""
        return sum(node != Repetition.REQUIRED for node in self.nodes)


def leaf_columns(elements: Sequence[Any] | None) -> tuple[LeafColumn, ...]:
    """Return the leaves of a footer's schema, in file order.

    `elements` are thrift SchemaElements. Raises `CorruptFileError` where they are not one whole tree.
    """
    if not elements:
        raise CorruptFileError("the footer has no schema")
    leaves: list[LeafColumn] = []
    num_names = 0
    # The way to the open groups. Paths are made of leaves only: those of all groups would take the depth squared.
    names: list[str] = []
    repetitions: list[Repetition] = []
    # The open groups: children still to come, and the repetitions on the paths of leaves, which share them.
    stack: list[tuple[list[int], dict[Repetition, tuple[Repetition, ...]]]] = [([elements[0].num_children or 0], {})]
    for element in elements[1:]:
        while stack and stack[-1][0][0] == 0:
            stack.pop()
            if names:
                names.pop()
                repetitions.pop()
        if not stack:
            raise CorruptFileError("the schema has more nodes than its groups have children")
        remaining, nodes_of = stack[-1]
        remaining[0] -= 1
        own = _REPETITIONS.get(element.repetition_type)
        if element.name is None or own is None:
            raise CorruptFileError(f"node {len(leaves)} of the schema has no name or no repetition")
        if element.type is None:
            if (element.num_children or 0) < 0 or len(names) >= _MAX_DEPTH:
                raise CorruptFileError(f"group {format_path((*names, element.name))} of the schema is impossible")
            stack.append(([element.num_children or 0], {}))
            names.append(element.name)
            repetitions.append(own)
            continue
        path = (*names, element.name)
        if element.num_children:
            raise CorruptFileError(f"column {format_path(path)} of the schema has a type and children")
        if (num_names := num_names + len(path)) > _MOST_NAMES:
            raise UnsupportedError(f"the paths of the schema's columns have more than {_MOST_NAMES:,} names in all")
        if own not in nodes_of:
            nodes_of[own] = (*repetitions, own)
        leaves.append(_leaf(element, path, nodes_of[own], len(leaves)))
    if any(remaining[0] for remaining, _ in stack):
        raise CorruptFileError("the schema has fewer nodes than its groups have children")
    return tuple(leaves)


def node_ids(elements: Sequence[Any]) -> tuple[tuple[int | None, ...], ...]:
    """Return the ids that a schema, which `leaf_columns` has read, gives the nodes on the path to each leaf."""
    found: list[tuple[int | None, ...]] = []
    alike: dict[tuple[int | None, ...], tuple[int | None, ...]] = {}
    above: list[tuple[int, tuple[int | None, ...]]] = []  # children still to come, and the ids down to the open groups
    for element in elements[1:]:
        while above and above[-1][0] == 0:
            above.pop()
        ids = (*(above[-1][1] if above else ()), element.field_id)
        if above:
            above[-1] = above[-1][0] - 1, above[-1][1]
        if element.type is None:
            above.append((element.num_children or 0, ids))
        else:
            found.append(alike.setdefault(ids, ids))
    return tuple(found)


_MAX_DEPTH = 200

_MOST_NAMES = 20_000_000
"""Paths are kept whole, so a few bytes of a schema may become `_MAX_DEPTH` names."""

_PHYSICAL_TYPES = {int(kind): kind for kind in PhysicalType}
_REPETITIONS = {int(kind): kind for kind in Repetition}


def _leaf(element: Any, path: tuple[str, ...], nodes: tuple[Repetition, ...], index: int) -> LeafColumn:
    physical = _PHYSICAL_TYPES.get(element.type)
    if physical is None:
        raise CorruptFileError(f"column {format_path(path)} has the unknown type {element.type}")
    length = element.type_length if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY else None
    if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY and (length is None or length <= 0):
        raise CorruptFileError(f"column {format_path(path)} is FIXED_LEN_BYTE_ARRAY of length {length}")
    return LeafColumn(path, index, physical, length, _logical_type(element), nodes)


def _logical_type(element: Any) -> LogicalType | None:
    union = element.logicalType
    if union is not None:
        for spec in union.thrift_spec:
            value = getattr(union, spec[2], None) if spec else None
            if spec and value is not None:
                return _from_union(spec[2], value)
        return LogicalType("UNKNOWN_TO_US")  # a type newer than this version: never reinterpreted
    if element.converted_type is not None:
        return _from_converted(element)
    return None


def _from_union(name: str, value: Any) -> LogicalType:
    match name:
        case "DECIMAL":
            return LogicalType(name, precision=value.precision or 0, scale=value.scale or 0)
        case "INTEGER":
            return LogicalType(name, bit_width=value.bitWidth or 0, is_signed=bool(value.isSigned))
        case "TIME" | "TIMESTAMP":
            unit = next((u for u in ("MILLIS", "MICROS", "NANOS") if getattr(value.unit, u, None)), None)
            return LogicalType(name, unit=unit, is_adjusted_to_utc=bool(value.isAdjustedToUTC))
    return LogicalType(name)


_CONVERTED = {
    0: LogicalType("STRING"),
    4: LogicalType("ENUM"),
    6: LogicalType("DATE"),
    # The older spelling of times has no flag; the format says that they are adjusted to UTC.
    7: LogicalType("TIME", unit="MILLIS", is_adjusted_to_utc=True),
    8: LogicalType("TIME", unit="MICROS", is_adjusted_to_utc=True),
    9: LogicalType("TIMESTAMP", unit="MILLIS", is_adjusted_to_utc=True),
    10: LogicalType("TIMESTAMP", unit="MICROS", is_adjusted_to_utc=True),
    **{11 + i: LogicalType("INTEGER", bit_width=8 << i, is_signed=False) for i in range(4)},
    **{15 + i: LogicalType("INTEGER", bit_width=8 << i) for i in range(4)},
    19: LogicalType("JSON"),
    20: LogicalType("BSON"),
    21: LogicalType("INTERVAL"),
}


def _from_converted(element: Any) -> LogicalType:
    if element.converted_type == 5:
        return LogicalType("DECIMAL", precision=element.precision or 0, scale=element.scale or 0)
    return _CONVERTED.get(element.converted_type, LogicalType("UNKNOWN_TO_US"))


def find_leaf(leaves: Iterable[LeafColumn], path: tuple[str, ...], *, where: str = "the file") -> LeafColumn:
    """Return the leaf at `path`. Raises `ColumnNotFoundError` with the closest names."""
    leaves = list(leaves)
    for leaf in leaves:
        if leaf.path == path:
            return leaf
    raise ColumnNotFoundError(format_path(path), [leaf.name for leaf in leaves], where=where)


def parse_path(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted column path; a part in backticks may hold dots, or nothing, `` `` `` is a backtick.

    >>> parse_path("user.id"), parse_path("`a.b`.c"), parse_path("``")
    (('user', 'id'), ('a.b', 'c'), ('',))
    """
    parts, i = [], 0
    while True:
        is_quoted = text.startswith("`", i)
        if is_quoted:
            part, i = _quoted_part(text, i + 1)
        else:
            end = text.find(".", i)
            end = len(text) if end < 0 else end
            part, i = text[i:end], end
        if not part and not is_quoted:
            raise PredicateError(
                f"{text!r} is not a column path: a part is empty (write `` for an empty name)", position=i
            )
        parts.append(part)
        if i == len(text):
            return tuple(parts)
        if text[i] != ".":
            raise PredicateError(f"{text!r} is not a column path: expected '.'", position=i)
        i += 1


def _quoted_part(text: str, i: int) -> tuple[str, int]:
    part = ""
    while True:
        end = text.find("`", i)
        if end < 0:
            raise PredicateError(f"{text!r} is not a column path: a backtick is not closed", position=i)
        part += text[i:end]
        if not text.startswith("``", end):
            return part, end + 1
        part, i = part + "`", end + 2


def format_path(path: Sequence[str]) -> str:
    """Return the text that `parse_path` reads back as `path`."""
    return ".".join(f"`{p.replace('`', '``')}`" if "." in p or "`" in p or not p else p for p in path)


ColumnPath = tuple[str, ...]


BOOLEAN, INT32, INT64, INT96 = PhysicalType.BOOLEAN, PhysicalType.INT32, PhysicalType.INT64, PhysicalType.INT96
FLOAT, DOUBLE = PhysicalType.FLOAT, PhysicalType.DOUBLE
BYTE_ARRAY, FIXED = PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY
