"""Random tables and conditions: as files, as rows in memory, and as text, objects and filter lists for us.

A condition is drawn as a tree of our own classes, whose literals are Python values. What is true of a row is told by
`Reference`, in plain Python, and by `DuckDB`, for which the tree is rendered as SQL with the types that the Python
values have; so the sides share nothing but the tree.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, with_footer
from hypothesis import strategies as st
from sql_logic import is_true, readings

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Listed, Not, Or, Predicate, col

F32 = [struct.unpack("<f", struct.pack("<f", x))[0] for x in (0.1, 1.1, 16_777_216.0, 3.4e38, 1e-45)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, math.inf, -math.inf, math.nan, *F32]
DOUBLES = [*FLOATS, 0.1, 1.1, 2.0**53, 2.0**53 + 2, 1.7e308, 5e-324, 0.1 + 1e-16]
HALVES = [0.0, -0.0, 1.0, -1.5, 2.5, math.inf, -math.inf, math.nan, 65504.0, 6e-08]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "b",
    "a\0",
    "it's",
    'q"q',
    "back\\slash",
    "%",
    "é",
    "日本",
    "🦜",
    "42",
    "x" * 80,
    "x" * 79,
]
BLOBS = [b"", b"\0", b"a", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"a\xff", b"x" * 80, b"\xff" * 70]
FIXED = [bytes(4), b"abcd", b"ab\0\0", b"\xff" * 4, b"\x80\0\0\0", b"0xAB"]
DATES = [
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2000, 2, 29),
    date(2024, 1, 1),
    date(9999, 12, 31),
    date(1900, 1, 2),
]
CLOCKS = [time(0), time(12), time(12, 0, 0, 1000), time(23, 59, 59, 999000)]
WALLS = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime(2024, 1, 1),
    datetime(2024, 1, 1, 12, 0, 0, 1000),
    datetime(2024, 3, 31, 2, 30),
    datetime(2024, 10, 27, 2, 30),
    datetime(2261, 1, 1),
]
FINE = [*WALLS, datetime(2024, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1, 12, 0, 0, 1001)]
DECIMALS = ["0", "1", "-1", "1.5", "-0.01", "0.01", "99.99", "-99.99", "12345.67", "-12345.67"]


def integers(bits: int, signed: bool) -> list[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    wanted = (
        low,
        low + 1,
        -129,
        -1,
        0,
        1,
        2,
        5,
        42,
        127,
        128,
        255,
        1 << 24,
        (1 << 24) + 1,
        (1 << 53) + 1,
        high - 1,
        high,
    )
    return [n for n in wanted if low <= n <= high]


@dataclass(frozen=True)
class Kind:
    """A type of column: its values, and the literals that are tried on it besides those."""

    type: pa.DataType
    values: list[Any]
    literals: list[Any] = field(default_factory=list)
    decimals_as: str = "fixed"  # or "integer", or "bytes"


def decimal_kind(precision: int, scale: int, decimals_as: str = "fixed") -> Kind:
    kind = pa.decimal128(precision, scale)
    values = [Decimal(t).scaleb(2 - scale) if scale > 2 else Decimal(t) for t in DECIMALS]
    values = [v.quantize(Decimal(1).scaleb(-scale)) for v in values if v.adjusted() < precision - scale]
    most = Decimal(f"{'9' * precision}E-{scale}")  # the constructor never rounds
    return Kind(kind, [*dict.fromkeys((*values, most, most.copy_negate()))], NUMBERS, decimals_as)


NUMBERS: list[Any] = [
    *(
        0,
        1,
        -1,
        2,
        3,
        43,
        256,
        1 << 24,
        (1 << 24) + 1,
        1 << 53,
        (1 << 53) + 1,
        1 << 31,
        1 << 63,
        1 << 64,
        -(1 << 63) - 1,
    ),
    *(0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -1.5, 0.1, 42.0, 1e300, 2.0**53, math.inf, -math.inf, math.nan),
    *map(Decimal, ("0", "1", "1.0", "1.5", "0.1", "1.55", "-0.01", "42.000", "99.990", "12345.678", "1e20")),
]
MOMENTS: list[Any] = [*DATES, *WALLS, *FINE, date(2024, 1, 2)]
PLUS_5 = timezone(timedelta(hours=5))
ZONED: list[Any] = [*MOMENTS, *(w.replace(tzinfo=UTC) for w in FINE), datetime(2024, 1, 1, 5, tzinfo=PLUS_5)]

KINDS: dict[str, Kind] = {
    **{f"int{b}": Kind(getattr(pa, f"int{b}")(), integers(b, True), NUMBERS) for b in (8, 16, 32, 64)},
    **{f"uint{b}": Kind(getattr(pa, f"uint{b}")(), integers(b, False), NUMBERS) for b in (8, 16, 32, 64)},
    "float": Kind(pa.float32(), FLOATS, NUMBERS),
    "double": Kind(pa.float64(), DOUBLES, NUMBERS),
    "float16": Kind(pa.float16(), HALVES, NUMBERS),
    "string": Kind(pa.string(), TEXTS, ["c", "aa", "zz", "x" * 78, "x" * 81]),
    "binary": Kind(pa.binary(), BLOBS, [b"c", b"x" * 81, b"\xff" * 71]),
    "fixed": Kind(pa.binary(4), FIXED, [b"ab", b"abc", b"zzzz", b"abcde"]),
    "decimal(4,2) integer": decimal_kind(4, 2, "integer"),
    "decimal(9,2) integer": decimal_kind(9, 2, "integer"),
    "decimal(18,4) integer": decimal_kind(18, 4, "integer"),
    "decimal(9,2)": decimal_kind(9, 2),
    "decimal(9,0)": decimal_kind(9, 0),
    "decimal(38,10)": decimal_kind(38, 10),
    "decimal(20,2) bytes": decimal_kind(20, 2, "bytes"),
    "date": Kind(pa.date32(), DATES, MOMENTS),
    "time ms": Kind(pa.time32("ms"), CLOCKS, [time(12, 0, 0, 1), time(1)]),
    "time us": Kind(pa.time64("us"), [*CLOCKS, time(12, 0, 0, 1)], [time(1)]),
    "timestamp ms": Kind(pa.timestamp("ms"), WALLS, MOMENTS),
    "timestamp us": Kind(pa.timestamp("us"), FINE, MOMENTS),
    "timestamp ns": Kind(pa.timestamp("ns"), FINE, MOMENTS),
    "timestamp ms UTC": Kind(pa.timestamp("ms", "UTC"), [w.replace(tzinfo=UTC) for w in WALLS], ZONED),
    "timestamp us UTC": Kind(pa.timestamp("us", "UTC"), [w.replace(tzinfo=UTC) for w in FINE], ZONED),
    "timestamp ns UTC": Kind(pa.timestamp("ns", "UTC"), [w.replace(tzinfo=UTC) for w in FINE], ZONED),
    "bool": Kind(pa.bool_(), [True, False]),
}

SHAPES = ("plain", "plain", "required", "struct", "list")


@dataclass(frozen=True)
class Column:
    """A column of a world: where its values lie, and what they are."""

    name: str
    kind: str
    shape: str

    @property
    def path(self) -> tuple[str, ...]:
        return {"struct": (self.name, "v"), "list": (self.name, "list", "element")}.get(self.shape, (self.name,))

    @property
    def type(self) -> pa.DataType:
        inner = KINDS[self.kind].type
        return {"struct": pa.struct([("v", inner)]), "list": pa.list_(inner)}.get(self.shape, inner)


@dataclass(frozen=True)
class World:
    """A table, cut into row groups; `k` numbers the rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    group_rows: int

    def table(self) -> pa.Table:
        arrays = [pa.array(range(len(self.rows)), pa.int64())]
        fields = [pa.field("k", pa.int64(), nullable=False)]
        for number, column in enumerate(self.columns):
            arrays.append(_array([row[number] for row in self.rows], column.type))
            fields.append(pa.field(column.name, column.type, nullable=column.shape != "required"))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        # Values under a null struct are nulls, too: DuckDB looks at some of them.
        inner = _array([v and v["v"] for v in values], kind.field(0).type)
        return pa.StructArray.from_arrays([inner], ["v"], mask=pa.array([v is None for v in values], pa.bool_()))
    if kind == pa.float16():
        return pa.array(values, pa.float32()).cast(kind)
    if pa.types.is_list(kind) and kind.value_type == pa.float16():
        return pa.array(values, pa.list_(pa.float32())).cast(kind)
    return pa.array(values, kind)


def worlds(kinds: tuple[str, ...] = tuple(KINDS), shapes: tuple[str, ...] = SHAPES) -> st.SearchStrategy[World]:
    @st.composite
    def draw_world(draw: Callable[..., Any]) -> World:
        columns = tuple(
            Column(f"c{n}", draw(st.sampled_from(kinds)), draw(st.sampled_from(shapes)))
            for n in range(draw(st.integers(1, 3)))
        )
        row = st.tuples(*(_cells(column) for column in columns))
        # Runs of one value make row groups whose bounds are narrow.
        runs = draw(st.lists(st.tuples(row, st.integers(1, 4)), max_size=12))
        rows = [cells for cells, times in runs for _ in range(times)]
        return World(columns, tuple(rows), draw(st.integers(1, 9)))

    return draw_world()


def _cells(column: Column) -> st.SearchStrategy[Any]:
    values = st.sampled_from(KINDS[column.kind].values)
    if column.shape == "required":
        return values
    optional = st.one_of(values, st.none()) if column.shape != "list" else st.one_of(values, values, st.none())
    if column.shape == "struct":
        return st.one_of(st.builds(lambda v: {"v": v}, optional), st.none())
    if column.shape == "list":
        return st.one_of(st.lists(optional, max_size=3), st.none())
    return optional


# ---- files -------------------------------------------------------------------------------


def write(world: World, path: Path, *, statistics: bool = True, **options: Any) -> None:
    """Writes a world with pyarrow; decimals that are wanted as bytes of any length get there by way of the schema."""
    table = world.table()
    integers = any(KINDS[c.kind].decimals_as == "integer" for c in world.columns)
    byte_decimals = {c.name: c for c in world.columns if KINDS[c.kind].decimals_as == "bytes"}
    for name in byte_decimals:
        index = table.schema.get_field_index(name)
        raw = _as_bytes(table.column(name).combine_chunks())
        table = table.set_column(index, table.schema.field(index).with_type(raw.type), raw)
    stats: Any = statistics and [".".join(c.path) for c in world.columns if c.name not in byte_decimals]
    pq.write_table(
        table,
        path,
        row_group_size=world.group_rows,
        store_decimal_as_integer=integers,
        write_statistics=stats or False,
        store_schema=False,
        **options,
    )
    if byte_decimals:
        data = path.read_bytes()
        metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
        name = ""
        for element in metadata.schema:
            name = element.name if element.name[0] == "c" and element.name[1:].isdigit() else name
            if name in byte_decimals and element.type is not None:
                kind = KINDS[byte_decimals[name].kind].type
                element.logicalType, element.converted_type = None, ttypes.ConvertedType.DECIMAL
                element.precision, element.scale = kind.precision, kind.scale
        path.write_bytes(with_footer(data, encode(metadata)))


def _as_bytes(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        inner = _as_bytes(pa.array([v and v["v"] for v in array.to_pylist()], kind.field(0).type))
        return pa.StructArray.from_arrays([inner], ["v"], mask=array.is_null())
    if pa.types.is_list(kind):
        lists = array.to_pylist()
        flat = _as_bytes(pa.array([v for vs in lists for v in vs or ()], kind.value_type)).to_pylist()
        cells = iter(flat)
        return pa.array([None if vs is None else [next(cells) for _ in vs] for vs in lists], pa.list_(pa.binary()))

    def shortest(value: Decimal) -> bytes:
        unscaled = int(Fraction(value) * 10**kind.scale)
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)

    return pa.array([None if v is None else shortest(v) for v in array.to_pylist()], pa.binary())


# ---- conditions --------------------------------------------------------------------------

OPS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>")


def conditions(world: World, *, spelled: bool = False, depth: int = 3) -> st.SearchStrategy[Predicate]:
    """Returns conditions on a world's columns, whose literals are Python values, or as they are spelled in SQL."""
    tests = st.one_of([_tests(column, spelled) for column in world.columns])
    return st.recursive(
        tests,
        lambda inner: st.one_of(
            st.builds(lambda a, b: And((a, b)), inner, inner),
            st.builds(lambda a, b: Or((a, b)), inner, inner),
            st.builds(Not, inner),
        ),
        max_leaves=depth,
    )


def _tests(column: Column, spelled: bool) -> st.SearchStrategy[Predicate]:
    kind = KINDS[column.kind]
    literals = [*kind.values, *kind.values, *kind.literals]
    literal = st.sampled_from([s for value in literals for s in spellings(value)] if spelled else literals)
    path = column.path
    equal = st.one_of(
        st.builds(lambda v: Comparison("=", path, v), literal),
        st.builds(lambda vs: In(path, tuple(vs)), st.lists(literal, min_size=1, max_size=4)),
    )
    if column.shape == "list":
        return equal
    return st.one_of(
        equal,
        st.builds(lambda op, v: Comparison(op, path, v), st.sampled_from(OPS), literal),
        st.builds(lambda vs: Not(In(path, tuple(vs))), st.lists(literal, min_size=1, max_size=4)),
        st.builds(lambda a, b: col(".".join(path)).between(a, b), literal, literal),
        st.sampled_from([IsNull(path), IsNull(path, is_negated=True), Comparison("<=>", path, None)]),
    )


def duckdb_sql(world: World, node: Predicate) -> str:
    """Renders a condition for DuckDB, whose `FLOAT` replaces half floats; a list matches with any element."""
    match node:
        case And((Comparison(">=", path, low), Comparison("<=", other, high))) if path == other:
            return f"({_place(path)} BETWEEN {duckdb_literal(low)} AND {duckdb_literal(high)})"
        case And(parts):
            return "(" + " AND ".join(duckdb_sql(world, part) for part in parts) + ")"
        case Or(parts):
            return "(" + " OR ".join(duckdb_sql(world, part) for part in parts) + ")"
        case Not(part):
            return f"(NOT {duckdb_sql(world, part)})"
        case IsNull(path, is_negated):
            return f"({_place(path)} IS {'NOT ' if is_negated else ''}NULL)"
        case Comparison(op, path, value, is_negated):
            op = {"<=>": "IS NOT DISTINCT FROM"}.get(op, op)
            found = _each(path, lambda place: f"{place} {op} {duckdb_literal(value)}")
        case In(path, values, is_negated):
            found = _each(path, lambda place: f"{place} IN ({', '.join(map(duckdb_literal, values))})")
        case _:
            raise AssertionError(node)
    return f"(NOT {found})" if is_negated else f"({found})"


def _each(path: tuple[str, ...], test: Callable[[str], str]) -> str:
    if path[1:] == ("list", "element"):
        return f"len(list_filter({path[0]}, lambda e: coalesce({test('e')}, false))) > 0"
    return test(_place(path))


def _place(path: tuple[str, ...]) -> str:
    return f"struct_extract({path[0]}, 'v')" if path[1:] == ("v",) else path[0]


def duckdb_literal(value: Any) -> str:
    match value:
        case Listed(inner):
            return duckdb_literal(inner)
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return f"({value})" if -(2**127) < value < 2**127 else f"'{value}'::DOUBLE"
        case float():
            return f"'{value!r}'::DOUBLE"
        case Decimal():
            return f"({value:f})"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return "'" + "".join(f"\\x{b:02X}" for b in value) + "'::BLOB"
        case datetime():
            return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value}'"
        case time():
            return f"TIME '{value}'"
        case Spelled(_, text):
            return text
    raise AssertionError(value)


class Oracle(Protocol):
    """The rows in memory, and which of them match."""

    def matches(self, condition: Predicate) -> set[int] | None:
        """Returns the numbers of the rows that match, None where the oracle cannot evaluate the condition."""


class Reference:
    """The rows as they were drawn."""

    def __init__(self, world: World, zone: str = "UTC") -> None:
        self._rows = [
            {column.path: _read(column, cell) for column, cell in zip(world.columns, row, strict=True)}
            for row in world.rows
        ]
        self._kinds = {column.path: column.kind for column in world.columns}
        self._readings = readings(zone)

    def matches(self, condition: Predicate) -> set[int] | None:
        """Returns the rows that match as some engine reads the condition.

        None if a text in it may mean many values, if the rows lack one of its columns, or if it compares what does not
        compare.
        """
        try:
            meant = self._meant(condition)
            return {k for k, cells in enumerate(self._rows) if any(self._answers(meant, k, cells))}
        except (_Ambiguous, KeyError, TypeError):
            return None

    def matches_in_all_readings(self, condition: Predicate) -> set[int]:
        """Returns the rows that match however an engine reads the condition."""
        meant = self._meant(condition)
        return {k for k, cells in enumerate(self._rows) if all(self._answers(meant, k, cells))}

    def _answers(self, meant: Predicate, k: int, cells: dict[tuple[str, ...], Any]) -> Iterator[bool | None]:
        value_at = {("k",): k, **cells}.__getitem__
        return (is_true(meant, value_at, reading) for reading in self._readings)

    def _meant(self, node: Predicate) -> Predicate:
        """Returns a condition with values in the place of SQL."""
        match node:
            case And(parts) | Or(parts):
                return type(node)(tuple(map(self._meant, parts)))
            case Not(part):
                return Not(self._meant(part))
            case Comparison(op, path, value, is_negated):
                return Comparison(op, path, self._value(path, value), is_negated)
            case In(path, values, is_negated):
                return In(path, tuple(self._value(path, value) for value in values), is_negated)
        return node

    def _value(self, path: tuple[str, ...], literal: Any) -> Any:
        bare = literal.value if isinstance(literal, Listed) else literal
        if not isinstance(bare, Spelled):
            return bare
        if bare.is_text and bare.value not in KINDS[self._kinds[path]].values:
            raise _Ambiguous
        return bare.value


class _Ambiguous(Exception):
    """Engines may read a text as different values."""


def _read(column: Column, cell: Any) -> Any:
    """Returns a cell's value, and a list's values, of the width in which they are stored."""
    if column.shape == "struct":
        cell = cell and cell["v"]
    if isinstance(cell, list):
        return [_read(Column(column.name, column.kind, "plain"), one) for one in cell]
    if cell is not None and column.kind in ("float", "float16"):
        return np.float32(np.float16(cell) if column.kind == "float16" else cell)
    return cell


class DuckDB:
    """The rows in DuckDB's memory, inserted from Arrow."""

    def __init__(self, world: World, zone: str = "UTC", table: pa.Table | None = None) -> None:
        import duckdb

        table = world.table() if table is None else table
        for index, column in enumerate(world.columns, 1):
            if column.kind == "float16":
                wide = Column(column.name, "float", column.shape).type
                table = table.set_column(index, column.name, table.column(column.name).cast(wide))
        self._connection = duckdb.connect()
        self._connection.execute(f"SET TimeZone = '{zone}'")
        self._connection.register("arrow_rows", table)
        self._connection.execute("CREATE TABLE rows AS SELECT * FROM arrow_rows")
        self._world = world

    def matches(self, condition: Predicate) -> set[int] | None:
        """Returns the numbers of the rows that match, None where DuckDB cannot evaluate the condition."""
        import duckdb

        try:
            sql = f"SELECT k FROM rows WHERE {duckdb_sql(self._world, condition)}"
            return {k for (k,) in self._connection.execute(sql).fetchall()}
        except (
            duckdb.ConversionException,
            duckdb.BinderException,
            duckdb.OutOfRangeException,
            duckdb.InvalidInputException,
        ):
            return None

    def copy_to(self, path: Path, where: str) -> None:
        """Writes some of the rows with DuckDB, with filters."""
        options = "FORMAT parquet, DICTIONARY_SIZE_LIMIT 100000, BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.001"
        self._connection.execute(f"COPY (SELECT * FROM rows WHERE {where}) TO '{path}' ({options})")


ORACLES = [Reference, pytest.param(DuckDB, marks=pytest.mark.engines)]
"""What tests are asked with."""


# ---- text --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spelled:
    """A literal as it stands in our SQL and, meaning the same, in DuckDB's; and its value."""

    ours: str
    duckdb: str
    value: Any = field(repr=False)
    is_text: bool = field(default=False, repr=False)


def spellings(value: Any) -> list[Spelled]:
    """Returns the ways to write a literal in Spark's SQL."""

    def typed(ours: str, duckdb: str, read: Any = value) -> Spelled:
        return Spelled(ours, duckdb, read)

    def text(content: object) -> Spelled:
        return Spelled(f"'{content}'", f"'{content}'", value, is_text=True)

    match value:
        case bool():
            return [typed(str(value), duckdb_literal(value)), text(value)]
        case int():
            return [typed(str(value), str(value)), text(value), typed(f"{value}.0", f"{value}.0")]
        case float() if math.isfinite(value):
            plain = f"{Decimal(repr(value)):f}"
            plain = plain if "." in plain else plain + ".0"
            return [
                typed(f"{value!r}D", duckdb_literal(value)),
                text(repr(value)),
                *([typed(plain, plain, Decimal(plain))] if len(plain) < 36 else []),
            ]
        case float():
            return [typed(f"CAST('{value}' AS DOUBLE)", duckdb_literal(value)), text(value)]
        case Decimal():
            return [typed(f"{value:f}", f"{value:f}"), text(f"{value:f}")]
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return [
                typed(f"'{escaped}'", duckdb_literal(value)),
                typed('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"', duckdb_literal(value)),
                *([typed(duckdb_literal(value), duckdb_literal(value))] if "\\" not in value else []),
            ]
        case bytes():
            return [typed(f"X'{value.hex()}'", duckdb_literal(value))]
        case datetime():
            return [typed(f"TIMESTAMP '{value.isoformat(' ')}'", duckdb_literal(value)), text(value.isoformat(" "))]
        case date():
            return [typed(f"DATE '{value}'", f"DATE '{value}'"), text(value)]
        case time():
            return [text(value)]
    raise AssertionError(value)


def sql_text(node: Predicate) -> str:
    """Renders a condition with spelled literals as our SQL."""
    match node:
        case And((Comparison(">=", path, low), Comparison("<=", other, high))) if path == other:
            return f"{'.'.join(path)} BETWEEN {_ours(low)} AND {_ours(high)}"
        case And(parts):
            return " AND ".join(f"({sql_text(part)})" for part in parts)
        case Or(parts):
            return " or ".join(f"({sql_text(part)})" for part in parts)
        case Not(In(path, values)):
            return f"{'.'.join(path)} NOT IN ({', '.join(map(_ours, values))})"
        case Not(part):
            return f"NOT ({sql_text(part)})"
        case IsNull(path, is_negated):
            return f"`{'`.`'.join(path)}` IS {'NOT ' if is_negated else ''}NULL"
        case In(path, values):
            return f"{'.'.join(path)} IN ({', '.join(map(_ours, values))})"
        case Comparison(op, path, value):
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
            turned = f"{_ours(value)} {mirrored} {'.'.join(path)}"
            return turned if len(turned) % 2 else f"{'.'.join(path)} {op} {_ours(value)}"
    raise AssertionError(node)


def _ours(value: Any) -> str:
    if value is None:
        return "NULL"
    return (value.value if isinstance(value, Listed) else value).ours
