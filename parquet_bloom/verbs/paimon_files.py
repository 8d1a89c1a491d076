"""Paimon's index of a data file that is there already, made from its columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parquet_bloom.errors import FilterExistsError, UnsupportedError
from parquet_bloom.filters.paimon import BLOOM_FILTER, Builder, build_container, floored
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType, find_leaf
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find
from parquet_bloom.values.arrays import int96_parts
from parquet_bloom.values.literals import DAY, MICROSECOND


def build_index(
    path: PathLike,
    columns: Sequence[str] | str,
    *,
    ndv: int | Mapping[str, int] = 1_000_000,
    fpp: float | Mapping[str, float] = 0.1,
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
) -> bytes:
    """Return Paimon's file index of a Parquet file: bloom filters of top-level columns, in the given order.

    It is byte by byte what Paimon writes beside a file with the same rows if the table's option
    `file-index.bloom-filter.columns` has the columns. The file is not changed.

    Args:
        path: One Parquet file.
        columns: Top-level columns.
        ndv: Paimon's `items`, of all columns or of each: distinct values to size a filter for.
        fpp: The false-positive rate, of all columns or of each.
        types: Paimon's types of columns that the file does not have as Paimon writes them, such as TIMESTAMP(3) as
            INT96.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.

    Returns:
        The bytes of the index file.

    Raises:
        FileNotFoundError: The path names nothing.
        ColumnNotFoundError: The file has no such column.
        UnsupportedError: Paimon has no filters for a column's type, such as BOOLEAN or DECIMAL.
        TypeError: A column is not of its type in `types`.
        ValueError: Paimon cannot use such a size.
        CorruptFileError: Pages do not decode.

    Examples:
        >>> len(parquet_bloom.paimon.build_index("events/a.parquet", "id", ndv=1000))
        658
    """
    source, *others = find([path], filesystem=filesystem, storage_options=storage_options)
    if others:
        raise UnsupportedError(f"{path} names {len(others) + 1} files, and each needs an index of its own")
    footer = run(source, read_footer(source.size, guess=source.footer_guess))
    return index_of(source, footer, columns, ndv=ndv, fpp=fpp, types=types)


def index_of(
    source: Source,
    footer: Footer,
    columns: Iterable[str] | str,
    *,
    ndv: int | Mapping[str, int],
    fpp: float | Mapping[str, float],
    types: Mapping[str, str] | None,
) -> bytes:
    """Return what `build_index` does, of a file whose footer is known."""
    builders = {}
    for name in [columns] if isinstance(columns, str) else columns:
        leaf = find_leaf(footer.leaves, (name,), where=source.name)
        sized = ndv[name] if isinstance(ndv, Mapping) else ndv
        rate = fpp[name] if isinstance(fpp, Mapping) else fpp
        builders[name] = leaf, Builder((types or {}).get(name) or _paimon_type(leaf), items=sized, fpp=rate)
    chunks = ColumnChunks(source, footer)
    for leaf, builder in builders.values():
        for row_group in range(footer.num_row_groups):
            for values in chunks.values(row_group, leaf):
                builder.add(as_logical(leaf, values))
    return build_container({name: {BLOOM_FILTER: builder.payload()} for name, (_, builder) in builders.items()})


def write_index(
    path: PathLike,
    columns: Sequence[str] | str,
    *,
    output: PathLike | None = None,
    ndv: int | Mapping[str, int] = 1_000_000,
    fpp: float | Mapping[str, float] = 0.1,
    types: Mapping[str, str] | None = None,
    storage_options: StorageOptions = None,
) -> tuple[str, int]:
    """Write what `build_index` returns to a new file, and return where and how large it is.

    No table knows of the file yet.

    Args:
        path: One Parquet file.
        columns: Top-level columns.
        output: Where to write. By default beside the file, under Paimon's name for it.
        ndv: Paimon's `items`, of all columns or of each: distinct values to size a filter for.
        fpp: The false-positive rate, of all columns or of each.
        types: Paimon's types of columns that the file does not have as Paimon writes them.
        storage_options: Options for fsspec, such as credentials.

    Returns:
        The path, and the size in bytes.

    Raises:
        FilterExistsError: There is such a file already.
        FileNotFoundError: The path names nothing.
        ColumnNotFoundError: The file has no such column.
        UnsupportedError: Paimon has no filters for a column's type.
        TypeError: A column is not of its type in `types`.
        ValueError: Paimon cannot use such a size.
        CorruptFileError: Pages do not decode.

    Examples:
        >>> parquet_bloom.paimon.write_index("events/a.parquet", "id", ndv=1000)
        ('events/a.parquet.index', 658)
    """
    target = os.fspath(output if output is not None else f"{os.fspath(path)}.index")
    data = build_index(path, columns, ndv=ndv, fpp=fpp, types=types, storage_options=storage_options)
    parent, _, name = target.rpartition("/")
    folder = Folder(parent or ("/" if target.startswith("/") else "."), storage_options=storage_options)
    try:
        folder.create(name, data, like=[] if "://" in os.fspath(path) else [os.fspath(path)])
    except FileExistsError:
        raise FilterExistsError(f"{target} already exists; choose another path, or remove it first") from None
    return target, len(data)


_KINDS = {
    (PhysicalType.INT32, None): "INT",
    (PhysicalType.INT64, None): "BIGINT",
    (PhysicalType.INT32, "INTEGER"): "INT",
    (PhysicalType.INT64, "INTEGER"): "BIGINT",
    (PhysicalType.FLOAT, None): "FLOAT",
    (PhysicalType.DOUBLE, None): "DOUBLE",
    (PhysicalType.INT32, "DATE"): "DATE",
    (PhysicalType.INT32, "TIME"): "TIME",
    (PhysicalType.INT64, "TIMESTAMP"): "TIMESTAMP",
    (PhysicalType.INT96, None): "TIMESTAMP(9)",
    (PhysicalType.BYTE_ARRAY, "STRING"): "STRING",
    (PhysicalType.BYTE_ARRAY, None): "BYTES",
}


def _paimon_type(leaf: LeafColumn) -> str:
    """Return the type under which Paimon hashes what it stores so."""
    logical = leaf.logical_type
    kind = _KINDS.get((leaf.physical_type, logical.name if logical else None))
    if kind is None or leaf.is_repeated or (logical is not None and not logical.is_signed):
        raise UnsupportedError(f"column {leaf.name} is {leaf.type_name}, for which Paimon has no bloom filters")
    if logical is not None and logical.name == "TIMESTAMP":
        return f"TIMESTAMP({_PRECISIONS[logical.unit or '']})"
    return kind


_PRECISIONS = {"MILLIS": 3, "MICROS": 6, "NANOS": 9}
_UNITS = {"MILLIS": "ms", "MICROS": "us", "NANOS": "ns"}


def as_logical(leaf: LeafColumn, values: pa.Array) -> pa.Array:
    """Return the values of a column as what they mean."""
    logical = leaf.logical_type
    if leaf.physical_type is PhysicalType.INT96:
        return _int96(values)
    if logical is None or logical.name in ("INTEGER", "STRING"):
        return values
    unit = _UNITS.get(logical.unit or "")
    kinds = {"DATE": pa.date32, "TIME": lambda: pa.time32(unit), "TIMESTAMP": lambda: pa.timestamp(unit)}
    return values.cast(kinds[logical.name]())


def _int96(values: pa.Array) -> pa.Array:
    """Return 8 bytes of nanoseconds of the day and 4 of the Julian day as microseconds since 1970, rounded down.

    The nanoseconds may be below zero, as Paimon's own are before 1970, and the microseconds wrap around as Java's do.
    """
    days, nanoseconds = int96_parts(values.drop_null())
    micros = pc.add(pc.multiply(days, pa.scalar(DAY // MICROSECOND, pa.int64())), floored(nanoseconds, MICROSECOND))
    return micros.cast(pa.timestamp("us"))
