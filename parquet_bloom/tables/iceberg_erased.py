"""The entry in an Iceberg manifest of a file of which rows were erased: counts and bounds of the rows that are left.

Those of the old file are not taken over: its bounds may be values of the rows that went. A metric is written only where
the old entry has it, and a bound that cannot be had is left out, which excludes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.iceberg_replace import copy_of
from parquet_bloom.tables.written import written_statistics
from parquet_bloom.values.ordering import Key


def entry_of(old: Any, path: str, source: Source, footer: Footer, ids: Mapping[int, int]) -> Any:
    """Return the data file's entry; `ids` are the table's field ids of the file's leaves, by their indexes."""
    metrics: dict[str, dict[int, Any]] = {name: {} for name in METRICS}
    for leaf in footer.leaves:
        if (field_id := ids.get(leaf.index)) is None:
            continue
        for name, value in _metrics(old, field_id, source, footer, leaf).items():
            if value is not None and field_id in (getattr(old, name) or {}):
                metrics[name][field_id] = value
    fields = {name: values if getattr(old, name) is not None else None for name, values in metrics.items()}
    return copy_of(
        old,
        file_path=path,
        file_size_in_bytes=source.size,
        record_count=footer.num_rows,
        split_offsets=_offsets(footer),
        **fields,
    )


METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def _metrics(old: Any, field_id: int, source: Source, footer: Footer, leaf: LeafColumn) -> dict[str, Any]:
    chunks = [footer.chunk(number, leaf) for number in range(footer.num_row_groups)]
    was = (old.lower_bounds or {}).get(field_id)
    known = written_statistics(source, footer, leaf)
    no_nans = (old.nan_value_counts or {}).get(field_id) == 0
    low, high = (None, None) if leaf.is_repeated else _bounds(leaf, known.low, known.high, was)
    return {
        "column_sizes": sum(chunk.total_compressed_size for chunk in chunks),
        "value_counts": known.num_values,
        "null_value_counts": known.null_count,
        "nan_value_counts": 0 if no_nans else None,
        "lower_bounds": low,
        "upper_bounds": high,
    }


def _bounds(leaf: LeafColumn, low: Any, high: Any, was: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Return the bounds as Iceberg's single values, in the width that the old one has; None for what has none."""
    if low is None or high is None or was is None:
        return None, None
    kind, logical = leaf.physical_type, leaf.logical_type
    name = logical.name if logical is not None else None
    if name == "STRING":
        return _shortened(low, high)
    if name == "DECIMAL":
        return _unscaled(low), _unscaled(high)
    if kind in (PhysicalType.FLOAT, PhysicalType.DOUBLE) and name is None:
        form = "<f" if len(was) == 4 else "<d"
        return struct.pack(form, low), struct.pack(form, high)
    if kind is PhysicalType.BOOLEAN:
        return bytes([low]), bytes([high])
    if logical is not None and name == "TIMESTAMP":
        scale = {"MICROS": 1, "MILLIS": 1000}.get(str(logical.unit))
        if scale is None or kind is not PhysicalType.INT64:
            return None, None
        low, high = low * scale, high * scale
    elif kind not in (PhysicalType.INT32, PhysicalType.INT64) or name not in (None, "INTEGER", "DATE", "TIME"):
        return None, None
    return low.to_bytes(len(was), "little", signed=True), high.to_bytes(len(was), "little", signed=True)


_CHARACTERS = 16


def _shortened(low: Key, high: Key) -> tuple[bytes | None, bytes | None]:
    """Return bounds of at most 16 characters; of a longer maximum one that is above all texts that begin so."""
    assert isinstance(low, bytes)
    assert isinstance(high, bytes)
    least, most = low.decode("utf-8", "ignore"), high.decode("utf-8", "ignore")
    if most.encode() == high and len(most) <= _CHARACTERS:
        return least[:_CHARACTERS].encode(), high
    start = most[:_CHARACTERS]
    for end in range(len(start), 0, -1):
        code = ord(start[end - 1])
        if code < 0x10FFFF:
            code = 0xE000 if code == 0xD7FF else code + 1
            return least[:_CHARACTERS].encode(), (start[: end - 1] + chr(code)).encode()
    return least[:_CHARACTERS].encode(), None


def _unscaled(value: int) -> bytes:
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def _offsets(footer: Footer) -> list[int]:
    """Return where each row group begins."""
    offsets = []
    for number in range(footer.num_row_groups):
        chunks = [footer.chunk(number, leaf) for leaf in footer.leaves]
        places = [at for one in chunks for at in (one.dictionary_page_offset, one.data_page_offset) if at]
        offsets.append(min(places))
    return sorted(offsets)


__all__ = ["entry_of"]
