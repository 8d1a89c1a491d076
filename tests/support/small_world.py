"""A world of few values: what row groups of six rows can hold, and what a footer, a filter and folders may say of them.

Of a row group only matters which values it holds, for a row matches or not by itself, and what writers say depends on
nothing else but the number of NULLs and NaNs. So its contents are one of 63 sets instead of one of 462 multisets. A
`State` is what is known of a row group, with `possible`, the rows of all contents of which a sound writer may say it.

Sound writers differ in this: bounds are absent, on one side only, in the deprecated fields, exact, or wider and then
called inexact (but for bytes, where the flag came late); a bound that is zero has either sign; NaN is ignored or is a
bound; counts of NULLs and NaNs are right or absent; the sort order is unnamed, by type, IEEE 754's total order, or one
that is newer. A filter has at least one of the encodings that are equal to each value, and says yes or no to all else.

Of the numbers of NULLs and NaNs that the contents allow, the least and the greatest are tried.

Statistics go through the bytes of a footer, so that how they are read belongs to what is tried. What they are read as
is all that the evaluation sees, so states that are read alike are one, whose possible rows are those of all.
"""

from __future__ import annotations

import math
import operator
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import FilterLocation, Footer, parse_footer
from parquet_bloom.format.probing import Answer, check
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.format.thrift_io import encode
from parquet_bloom.predicates.evaluation import Facts, chunk_facts
from parquet_bloom.storage.partitions import NULL_NAME
from parquet_bloom.values.arrays import hash_values
from parquet_bloom.values.statistics import StatisticsReader

NUM_ROWS = 6
NAN = math.nan
X = ("x",)


@dataclass(frozen=True)
class Kind:
    """A type of column: its values and those beyond them, least first, and how one is stored."""

    name: str
    physical: PhysicalType
    arrow: pa.DataType
    values: tuple[Any, ...]
    below: Any
    above: Any
    plain: Callable[[Any], bytes]
    literals: tuple[Any, ...] = ()
    texts: tuple[tuple[str, Any], ...] = ()  # of partitions, with their values
    is_cut: bool = False  # bounds may be wider without being called inexact

    @cached_property
    def numbers(self) -> list[Any]:
        """The values that have an order among themselves."""
        return [value for value in self.values if value is not None and not is_nan(value)]

    def hashes(self, values: Sequence[Any]) -> bytes:
        return hash_values(pa.array(values, self.arrow))

    @cached_property
    def filters(self) -> list[tuple[frozenset[Any], SplitBlockBloomFilter]]:
        """The filters that say yes to any set of encodings, and the sets."""
        found = []
        for bits in range(1 << len(self.numbers)):
            inserted = chosen(self.numbers, bits)
            bloom = SplitBlockBloomFilter(1024)
            for value in inserted:
                bloom.insert(self.hashes([value]))
            found.append((frozenset(map(self.plain, inserted)), bloom))
        return found

    def held(self, contents: int) -> list[Any]:
        """The values of a row group's contents."""
        return chosen(self.values, contents)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def chosen(values: Sequence[Any], bits: int) -> list[Any]:
    return [value for number, value in enumerate(values) if bits >> number & 1]


def _kind_of_floats(name: str, physical: PhysicalType, arrow: pa.DataType, form: str) -> Kind:
    return Kind(
        name,
        physical,
        arrow,
        (None, NAN, -0.0, 0.0, 1.0, 2.0),
        -1.0,
        3.0,
        lambda value: struct.pack(form, value),
        literals=(-1.0, 0.5, 3.0, 0, 1),
        texts=(("1", 1.0), ("2.0", 2.0), ("0", 0.0), ("-0", -0.0), ("nan", NAN), *_NULL_TEXTS),
    )


_NULL_TEXTS = ((NULL_NAME, None), ("", None), ("null", None))

KINDS = [
    _kind_of_floats("DOUBLE", PhysicalType.DOUBLE, pa.float64(), "<d"),
    _kind_of_floats("FLOAT", PhysicalType.FLOAT, pa.float32(), "<f"),
    Kind(
        "INT64",
        PhysicalType.INT64,
        pa.int64(),
        (None, 0, 1, 2),
        -1,
        3,
        lambda value: struct.pack("<q", value),
        literals=(-1, 3, 0.0, 0.5, NAN, Decimal("0.5"), 1 << 64, -(1 << 64)),
        texts=(("1", 1), ("2", 2), ("0", 0), *_NULL_TEXTS),
    ),
    Kind(
        "STRING",
        PhysicalType.BYTE_ARRAY,
        pa.string(),
        (None, "a", "ab", "aé", "b"),
        "",
        "c",
        str.encode,
        literals=("aa", "c"),
        texts=(("a", "a"), ("ab", "ab"), ("b", "b"), (NULL_NAME, None)),
        is_cut=True,
    ),
]


# ---- what writers say ----------------------------------------------------------------------


def contents_of(kind: Kind, *, is_optional: bool = True) -> Iterator[int]:
    """Yields what a row group with rows may hold, as bits: the numbers of the values."""
    for contents in range(1, 1 << len(kind.values)):
        if is_optional or None not in kind.held(contents):
            yield contents


def statistics_of(kind: Kind, contents: int) -> Iterator[Any]:
    """Yields all statistics that a sound writer may have written of a row group, None where it wrote nothing."""
    yield None
    held = kind.held(contents)
    has_nan = any(map(is_nan, held))
    of_nulls = (None, *_counts(None in held, len(held)))
    of_nans = (None, *_counts(has_nan, len(held))) if NAN in kind.values else (None,)
    for bounds in _bounds(kind, held, has_nan=has_nan):
        for null_count, nan_count in product(of_nulls, of_nans):
            if (null_count or 0) + (nan_count or 0) <= NUM_ROWS:
                yield ttypes.Statistics(null_count=null_count, nan_count=nan_count, **bounds)


def _counts(is_held: bool, num_held: int) -> list[int]:
    """Returns how often a value may be in a row group with so many different ones: the least, and the most."""
    most = NUM_ROWS - num_held + 1
    return [0] if not is_held else [most] if num_held == 1 else sorted({1, most})


def _bounds(kind: Kind, held: list[Any], *, has_nan: bool) -> Iterator[dict[str, Any]]:
    yield {}
    numbers = sorted(value for value in held if value in kind.numbers)
    known = [*kind.numbers, kind.below, kind.above]
    lows, highs = [], []
    if numbers:
        least, most = numbers[0], numbers[-1]
        lows = _spelled(kind, [v for v in known if v <= least], least)
        highs = _spelled(kind, [v for v in known if v >= most], most)
    if has_nan:
        if not numbers:
            yield {"min_value": kind.plain(math.inf), "max_value": kind.plain(-math.inf)}  # what a writer began with
        lows.append((kind.plain(NAN), None))
        highs.append((kind.plain(NAN), None))
    for (low, low_flag), (high, high_flag) in product(lows, highs):
        yield {
            "min_value": low,
            "max_value": high,
            "is_min_value_exact": low_flag,
            "is_max_value_exact": high_flag,
        }
    if numbers:
        by_signs = sorted(map(kind.plain, numbers), key=_signed) if kind.is_cut else list(map(kind.plain, numbers))
        yield {"min": by_signs[0], "max": by_signs[-1]}
    yield from ({"min_value": low, "is_min_value_exact": flag} for low, flag in lows)
    yield from ({"max_value": high, "is_max_value_exact": flag} for high, flag in highs)


def _signed(plain: bytes) -> list[int]:
    """Returns what is ordered as the deprecated fields are."""
    return [byte - 256 if byte > 127 else byte for byte in plain]


def _spelled(kind: Kind, bounds: Iterable[Any], exact: Any) -> list[tuple[bytes, bool | None]]:
    """Returns the bytes of bounds, and what may be said of whether they are exact."""
    found = []
    for bound in bounds:
        flags = (None, True, False) if bound == exact else (None, False) if kind.is_cut else (False,)
        found += [(kind.plain(bound), flag) for flag in flags]
    return found


def footer_of(kind: Kind, chunks: Sequence[Any], *, is_optional: bool, order: Any, has_filters: bool) -> Footer:
    """Returns a footer of row groups with these statistics, as it is read from its bytes."""
    schema = [ttypes.SchemaElement(name="root", num_children=1), _element(kind, is_optional=is_optional)]
    metadata = ttypes.FileMetaData(
        version=1,
        schema=schema,
        num_rows=NUM_ROWS * len(chunks),
        row_groups=[_row_group(kind, number, one, has_filters) for number, one in enumerate(chunks)],
        created_by="parquet-mr version 1.15.0 (build x)",
        column_orders=None if order is None else [order],
    )
    return parse_footer(1 << 40, encode(metadata))


def leaf_of(kind: Kind) -> LeafColumn:
    """Returns the leaf of a column of this type."""
    return footer_of(kind, [], is_optional=True, order=None, has_filters=False).leaves[0]


def _element(kind: Kind, *, is_optional: bool) -> Any:
    element = ttypes.SchemaElement(name="x", type=kind.physical, repetition_type=int(is_optional))
    if kind.physical is PhysicalType.BYTE_ARRAY:
        element.logicalType, element.converted_type = ttypes.LogicalType(STRING=ttypes.StringType()), 0
    return element


def _row_group(kind: Kind, number: int, statistics: Any, has_filters: bool) -> Any:
    start = 4 + 4096 * number
    chunk = ttypes.ColumnMetaData(
        type=kind.physical,
        encodings=[0],
        path_in_schema=["x"],
        codec=0,
        num_values=NUM_ROWS,
        total_uncompressed_size=100,
        total_compressed_size=100,
        data_page_offset=start,
        statistics=statistics,
        bloom_filter_offset=start + 1024 if has_filters else None,
        bloom_filter_length=1044 if has_filters else None,
    )
    columns = [ttypes.ColumnChunk(file_offset=0, meta_data=chunk)]
    return ttypes.RowGroup(columns=columns, total_byte_size=100, num_rows=NUM_ROWS)


ORDERS = (
    None,
    ttypes.ColumnOrder(TYPE_ORDER=ttypes.TypeDefinedOrder()),
    ttypes.ColumnOrder(IEEE_754_TOTAL_ORDER=ttypes.IEEE754TotalOrder()),
    ttypes.ColumnOrder(),
)
"""Of the last, which is newer than all, nothing is known: bounds may be of any row group with these NULLs."""


def footer_with_contents(kind: Kind) -> tuple[Footer, list[int]]:
    """Returns a footer of row groups with filters and some of the statistics that each contents may have; and these."""
    groups = [
        (contents, statistics)
        for contents in contents_of(kind)
        for statistics in _some(list(statistics_of(kind, contents)), seed=contents)
    ]
    chunks = [statistics for _, statistics in groups]
    footer = footer_of(kind, chunks, is_optional=True, order=ORDERS[1], has_filters=True)
    return footer, [contents for contents, _ in groups]


def _some(statistics: list[Any], *, seed: int) -> list[Any]:
    return random.Random(seed).sample(statistics, min(4, len(statistics)))


# ---- what is known ---------------------------------------------------------------------------


class State(NamedTuple):
    """What is known of a row group's columns: `facts`, and a filter, or why it cannot be read."""

    facts: tuple[Facts, ...]
    filters: tuple[SplitBlockBloomFilter | str | None, ...]
    possible: int
    """Bits: the numbers of the rows that it may hold."""

    def answer(self, column: int, hashes: Sequence[int]) -> Answer:
        bloom = self.filters[column]
        assert bloom is not None
        return Answer(problem=bloom) if isinstance(bloom, str) else check(bloom, hashes)


class Census(NamedTuple):
    """The states of a column, how many worlds they are, and the leaf."""

    leaf: LeafColumn
    states: list[State]
    num_worlds: int


def census(kind: Kind, *, is_optional: bool = True, step: int = 1) -> Census:
    """Returns the states of a column of this type; with a step, those of every so many statistics."""
    said: dict[bytes, tuple[Any, set[int]]] = {}
    num_worlds = 0
    for contents in contents_of(kind, is_optional=is_optional):
        num_filters = 2 + sum(is_sound(kind, chosen, contents) for chosen, _ in kind.filters)  # none, and damaged
        for number, statistics in enumerate(statistics_of(kind, contents)):
            if number % step == 0:
                encoded = b"" if statistics is None else encode(statistics)
                said.setdefault(encoded, (statistics, set()))[1].add(contents)
                num_worlds += num_filters * len(ORDERS)
    chunks = [statistics for statistics, _ in said.values()]
    of_any_order = _of_any_order(said.values())
    known: dict[Facts, set[int]] = {}
    for order, has_filters in product(ORDERS, (False, True)):
        footer = footer_of(kind, chunks, is_optional=is_optional, order=order, has_filters=has_filters)
        (leaf,) = footer.leaves
        all_facts = chunk_facts(footer, StatisticsReader(leaf))
        for facts, (_, contents), more in zip(all_facts, said.values(), of_any_order, strict=True):
            known.setdefault(_anywhere(facts), set()).update(more if order is ORDERS[-1] else contents)
    states = [state for facts, contents in known.items() for state in _states(kind, facts, contents)]
    return Census(leaf, states, num_worlds)


def _of_any_order(said: Iterable[tuple[Any, set[int]]]) -> list[set[int]]:
    """Returns what row groups may hold of which the same is said in an order of which nothing is known."""
    of_nulls: dict[int | None, set[int]] = {}
    for statistics, contents in said:
        of_nulls.setdefault(statistics and statistics.null_count, set()).update(contents)
    return [
        # The deprecated fields have an order of their own.
        contents if statistics is None or statistics.min is not None else of_nulls[statistics.null_count]
        for statistics, contents in said
    ]


def _anywhere(facts: Facts) -> Facts:
    return facts if facts.location is None else facts._replace(location=FilterLocation(4096, None))


def _states(kind: Kind, facts: Facts, contents: set[int]) -> Iterator[State]:
    """Yields what may be known with these facts, with every filter that may be there."""
    filters: list[tuple[Any, set[int]]]
    if facts.location is None:
        filters = [(None, contents)]
    else:
        filters = [("it is damaged", contents)]
        filters += [(bloom, {one for one in contents if is_sound(kind, says, one)}) for says, bloom in kind.filters]
    for bloom, sound in filters:
        if sound:
            yield State((facts,), (bloom,), union(sound))


def union(sets: Iterable[int]) -> int:
    return reduce(operator.or_, sets, 0)


def is_sound(kind: Kind, says: frozenset[bytes], contents: int) -> bool:
    """Whether a filter that says yes to these bytes has each value, or what is equal to it."""
    numbers = [value for value in kind.held(contents) if value in kind.numbers]
    return all(any(kind.plain(same) in says for same in kind.numbers if same == value) for value in numbers)
