"""Files of one kind of column each, and filters that lie: whether an engine uses a filter on this kind shows at once.

A kind is a type as it is stored, so that every entry of the table in `parquet_bloom.filters.engines` has one or more.
Its file holds `k`, the row number, and the same random values three times: as the column `v`, as the struct leaf `s.v`,
and as the list elements `l`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquet_bloom.filters import engines
from parquet_bloom.filters.parquet import read_filters
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import MAGIC, Footer, read_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import hash_array, plain_value
from parquet_bloom.values.encoding import hash_plain, why_unbuildable

ROWS, ROW_GROUP_ROWS = 400, 100


def _decimal(precision: int) -> dict[str, int]:
    return {"type": ttypes.ConvertedType.DECIMAL, "precision": precision, "scale": 2}


def _integers(bits: int, signed: bool) -> Any:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    type_ = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    return lambda rng: pa.array([rng.randrange(low, high) for _ in range(ROWS)], type_)


def _ticks(type_: pa.DataType, low: int, high: int) -> Any:
    physical = pa.int32() if type_.bit_width == 32 else pa.int64()
    return lambda rng: pa.array([rng.randrange(low, high) for _ in range(ROWS)], physical).view(type_)


def _instants(unit: str, zone: str | None) -> Any:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return _ticks(pa.timestamp(unit, zone), 10**9 * per_second, 2 * 10**9 * per_second)


def _decimals(precision: int) -> Any:
    top = 10**precision
    type_ = pa.decimal128(precision, 2) if precision <= 38 else pa.decimal256(precision, 2)

    def draw(rng: random.Random) -> pa.Array:
        return pa.array([Decimal(f"{rng.randrange(1 - top, top)}E-2") for _ in range(ROWS)], type_)

    return draw


def _byte_decimals(precision: int, length: int = -1) -> Any:
    top = 10**precision

    def draw(rng: random.Random) -> pa.Array:
        numbers = [rng.randrange(-top, top) for _ in range(ROWS)]
        widths = [length if length > 0 else (n.bit_length() + 8) // 8 for n in numbers]
        return pa.array(
            [n.to_bytes(width, "big", signed=True) for n, width in zip(numbers, widths, strict=True)],
            pa.binary(length),
        )

    return draw


def _floats(type_: pa.DataType) -> Any:
    return lambda rng: pa.array([rng.uniform(-1e3, 1e3) for _ in range(ROWS)], pa.float64()).cast(type_, safe=False)


def _texts(type_: pa.DataType, form: str = "{:x}") -> Any:
    return lambda rng: pa.array([form.format(rng.getrandbits(48)) for _ in range(ROWS)], pa.string()).cast(type_)


def _fixed(length: int) -> Any:
    return lambda rng: pa.array([rng.randbytes(length) for _ in range(ROWS)], pa.binary(length))


def _uuids(rng: random.Random) -> pa.Array:
    return pa.array([uuid.UUID(int=rng.getrandbits(128), version=4).bytes for _ in range(ROWS)], pa.binary(16))


def _intervals(rng: random.Random) -> pa.Array:
    days = [bytes(4) + rng.randrange(30).to_bytes(4, "little") + bytes(4) for _ in range(ROWS)]
    return pa.array(days, pa.binary(12))


_DAY = 86_400

# Kind -> values, and what pyarrow cannot be made to write: options, and the schema's annotation.
_KINDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "BOOLEAN": (lambda rng: pa.array([rng.random() < 0.5 for _ in range(ROWS)]), {}, {}),
    **{f"INT{bits}": (_integers(bits, True), {}, {}) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": (_integers(bits, False), {}, {}) for bits in (8, 16, 32, 64)},
    "INT96": (_instants("us", None), {"use_deprecated_int96_timestamps": True}, {}),
    "FLOAT16": (_floats(pa.float16()), {}, {}),
    "FLOAT": (_floats(pa.float32()), {}, {}),
    "DOUBLE": (_floats(pa.float64()), {}, {}),
    "BYTE_ARRAY": (_texts(pa.binary()), {}, {}),
    "STRING": (_texts(pa.string()), {}, {}),
    "ENUM": (_texts(pa.binary()), {}, {"type": ttypes.ConvertedType.ENUM}),
    "JSON": (_texts(pa.binary(), '{{"a": "{:x}"}}'), {}, {"type": ttypes.ConvertedType.JSON}),
    "BSON": (_texts(pa.binary()), {}, {"type": ttypes.ConvertedType.BSON}),
    "FIXED_LEN_BYTE_ARRAY": (_fixed(7), {}, {}),
    "UUID": (_uuids, {}, {"uuid": True}),
    "INTERVAL": (_intervals, {}, {"type": ttypes.ConvertedType.INTERVAL}),
    "DECIMAL(4) INT32": (_decimals(4), {"store_decimal_as_integer": True}, {}),
    "DECIMAL(9) INT32": (_decimals(9), {"store_decimal_as_integer": True}, {}),
    "DECIMAL(9) INT64": (_ticks(pa.int64(), -(10**9), 10**9), {}, _decimal(9)),
    "DECIMAL(18) INT64": (_decimals(18), {"store_decimal_as_integer": True}, {}),
    "DECIMAL(9) FIXED(4)": (_decimals(9), {}, {}),
    "DECIMAL(30) FIXED(13)": (_decimals(30), {}, {}),
    "DECIMAL(60) FIXED(26)": (_decimals(60), {}, {}),
    # pyarrow's own statistics of these would be in the order of bytes
    "DECIMAL(9) FIXED(16)": (_byte_decimals(9, 16), {"write_statistics": False}, _decimal(9)),
    "DECIMAL(20) BYTE_ARRAY": (_byte_decimals(20), {"write_statistics": False}, _decimal(20)),
    "DECIMAL(60) BYTE_ARRAY": (_byte_decimals(60), {"write_statistics": False}, _decimal(60)),
    "DATE": (_ticks(pa.date32(), 0, 20_000), {}, {}),
    "TIME MILLIS": (_ticks(pa.time32("ms"), 0, _DAY * 10**3), {}, {}),
    "TIME MICROS": (_ticks(pa.time64("us"), 0, _DAY * 10**6), {}, {}),
    "TIME NANOS": (_ticks(pa.time64("ns"), 0, _DAY * 10**9), {}, {}),
    "TIME UTC MILLIS": (_ticks(pa.time32("ms"), 0, _DAY * 10**3), {"write_time_adjusted_to_utc": True}, {}),
    "TIME UTC MICROS": (_ticks(pa.time64("us"), 0, _DAY * 10**6), {"write_time_adjusted_to_utc": True}, {}),
    "TIME UTC NANOS": (_ticks(pa.time64("ns"), 0, _DAY * 10**9), {"write_time_adjusted_to_utc": True}, {}),
    "TIMESTAMP local MILLIS": (_instants("ms", None), {}, {}),
    "TIMESTAMP local MICROS": (_instants("us", None), {}, {}),
    "TIMESTAMP local NANOS": (_instants("ns", None), {}, {}),
    "TIMESTAMP UTC MILLIS": (_instants("ms", "UTC"), {}, {}),
    "TIMESTAMP UTC MICROS": (_instants("us", "UTC"), {}, {}),
    "TIMESTAMP UTC NANOS": (_instants("ns", "UTC"), {}, {}),
}
KINDS = tuple(_KINDS)
_KINDS["BYTE_ARRAY of any bytes"] = (lambda rng: pa.array([rng.randbytes(7) for _ in range(ROWS)], pa.binary()), {}, {})
_KINDS["FIXED_LEN_BYTE_ARRAY of a text"] = (_texts(pa.binary(12), "{:012x}"), {}, {})
ALL_KINDS = tuple(_KINDS)
"""With those whose values alone are of another sort: bytes that print as they are, and such as do not."""


def write_kind(
    path: Path,
    kind: str,
    seed: str = "",
    rows: int = ROWS,
    nulls: int = 0,
    columns: Sequence[str] = ("k", "v", "s", "l"),
    **more: Any,
) -> Path:
    """Writes the file of a kind: PLAIN pages, so that no dictionary prunes in a filter's stead.

    Every row whose number is a multiple of `nulls` has no value.
    """
    make, options, annotation = _KINDS[kind]
    rng = random.Random(kind + seed)
    values = pa.concat_arrays([make(rng) for _ in range(0, rows, ROWS)])[:rows]
    if nulls:
        values = values.take(pa.array([i if i % nulls else None for i in range(rows)], pa.int64()))
    offsets = pa.array(range(rows + 1), pa.int32())
    table = pa.table(
        {
            "k": pa.array(range(rows), pa.int64()),
            "v": values,
            "s": pa.StructArray.from_arrays([values], ["v"]),
            "l": pa.ListArray.from_arrays(offsets, values),
        }
    )
    options = {"row_group_size": ROW_GROUP_ROWS, "use_dictionary": False, "store_schema": False, **options, **more}
    pq.write_table(table.select(columns), path, **options)
    if annotation:
        _annotate(path, **annotation)
    return path


def _annotate(path: Path, *, uuid: bool = False, type: int | None = None, **fields: int) -> None:
    """Gives the leaves of the values a logical type that pyarrow has none for."""
    data = path.read_bytes()
    footer = footer_of(path)
    metadata, _ = decode(ttypes.FileMetaData, footer.raw)
    for element in metadata.schema:
        if element.name in ("v", "element"):
            element.logicalType = ttypes.LogicalType(UUID=ttypes.UUIDType()) if uuid else None
            element.converted_type = type
            for name, value in fields.items():
                setattr(element, name, value)
    path.write_bytes(_join(data[: footer.start], encode(metadata)))


def footer_of(path: Path | str) -> Footer:
    (source,) = find(path)
    return run(source, read_footer(source.size))


def _join(body: bytes, footer: bytes) -> bytes:
    return body + footer + len(footer).to_bytes(4, "little") + MAGIC


def with_filters(path: Path, output: Path, bloom: SplitBlockBloomFilter, columns: Iterable[str] = ()) -> Path:
    """Writes a copy in which every column chunk, or those of `columns`, has this filter: it may be any lie."""
    body, footer, wanted = bytearray(path.read_bytes()), footer_of(path), set(columns)
    edits = {}
    for row_group, leaf, _ in footer.chunks():
        if not wanted or leaf.name in wanted:
            edits[row_group, leaf.index] = len(body), len(bloom.to_bytes())
            body += bloom.to_bytes()
    output.write_bytes(_join(bytes(body), splice_filters(footer.raw, edits)))
    return output


def with_exact_filters(path: Path, output: Path) -> Path:
    """Writes a copy with filters that hold all values, as the format has it: on columns too that `add` refuses."""
    (source,), footer = find(path), footer_of(path)
    bloom = SplitBlockBloomFilter(4096)
    for row_group, leaf, _ in footer.chunks():
        if leaf.physical_type is not PhysicalType.BOOLEAN:
            for array in ColumnChunks(source, footer).values(row_group, leaf):
                bloom.insert(hash_array(leaf, array))
    return with_filters(path, output, bloom)


LEAVES = ("v", "s.v", "l.list.element")
ROW = 237
"""The row whose values are asked for."""


def check_use(files: dict[str, Path], engine: str, ask: Callable[[Path, str], list[int]]) -> None:
    """Compares an engine with our table: it uses filters where the table says so, and loses rows nowhere else.

    `ask` returns the sorted row numbers that the engine finds in a file for `ROW`'s value in one of `LEAVES`.
    """
    used, harmed, refused, warned = set(), set(), set(), set()
    footer = footer_of(files["plain"])
    for leaf in footer.leaves[1:]:
        truth = ask(files["plain"], leaf.name)
        assert ROW in truth
        assert ask(files["ours"], leaf.name) == truth
        misled = ask(files["lying"], leaf.name)
        assert misled in (truth, [])
        if not misled:
            used.add(leaf.name)
        if ask(files["exact"], leaf.name) != truth:
            harmed.add(leaf.name)
        if why_unbuildable(leaf):
            refused.add(leaf.name)
        if any(one.engine == engine and not one.mended for one in engines.hazards(footer, leaf)):
            warned.add(leaf.name)
    assert used == users_of(files["plain"], engine)
    assert harmed <= refused & warned


def users_of(file: Path, engine: str) -> set[str]:
    """Returns the columns of a kind's file whose filters the engine uses, by our table."""
    return {leaf.name for leaf in footer_of(file).leaves[1:] if engine in engines.users(leaf, 64)}


def row_groups_left(file: Path, source: Path) -> int:
    """Returns how many row groups the filters of `v` in `file` leave for `ROW`'s value in `source`."""
    (values,), footer = find(source), footer_of(source)
    leaf = footer.leaves[1]
    array = pa.concat_arrays(ColumnChunks(values, footer).values(ROW // ROW_GROUP_ROWS, leaf))
    asked = hash_plain(plain_value(array, ROW % ROW_GROUP_ROWS))
    (filtered,) = find(file)
    stored = run(filtered, read_filters(footer_of(file), [leaf]))
    return sum(found.bloom is not None and found.bloom.check_hash(asked) for found in stored)
