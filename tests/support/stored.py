"""What is stored in a Parquet file, with its pages decompressed, and which texts of some rows no other row has."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from compact import Field, Reader
from files import footer_bytes

_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "hadoop", 6: "zstd", 7: "lz4_raw"}
_V2 = 8


def stored_bytes(data: bytes) -> bytes:
    """Returns a file's bytes, and behind them those of each of its pages that is compressed."""
    return b"\0".join([data, *(page for chunk in _chunks(data) for page in _pages(data, chunk))])


def _values(fields: list[Field]) -> dict[int, object]:
    return {field.id: field.value for field in fields}


def _chunks(data: bytes) -> Iterator[dict[int, object]]:
    for group in _values(Reader(footer_bytes(data)).struct())[4].values:  # type: ignore[attr-defined]
        for chunk in _values(group)[1].values:  # type: ignore[attr-defined]
            yield _values(_values(chunk)[3])  # type: ignore[arg-type]


def _pages(data: bytes, chunk: dict[int, object]) -> Iterator[bytes]:
    codec = _CODECS.get(chunk[4])  # type: ignore[call-overload]
    if codec is None:
        assert chunk[4] == 0
        return
    at: int = chunk.get(11) or chunk[9]  # type: ignore[assignment]
    stop = at + chunk[7]  # type: ignore[operator]
    while at < stop:
        reader = Reader(data[at:])
        header = _values(reader.struct())
        start = at + reader.at
        at = start + header[3]  # type: ignore[operator]
        levels = 0
        if header[1] == 3:
            of_v2 = {field.id: field for field in header[_V2]}  # type: ignore[attr-defined]
            levels = of_v2[5].value + of_v2[6].value
            if 7 in of_v2 and of_v2[7].kind == 2:
                continue
        size = header[2] - levels  # type: ignore[operator]
        if size:
            yield data[start : start + levels] + _decompressed(data[start + levels : at], size, codec)
    assert at == stop


def _decompressed(page: bytes, size: int, codec: str) -> bytes:
    if codec != "hadoop":
        data: bytes = pa.decompress(page, size, codec, asbytes=True)
        return data
    parts = []
    while page:  # frames: both sizes, then a raw block
        whole, packed = (int.from_bytes(page[at : at + 4], "big") for at in (0, 4))
        parts.append(_decompressed(page[8 : 8 + packed], whole, "lz4_raw"))
        page = page[8 + packed :]
    return b"".join(parts)


def texts_only_in(some: pa.Table, others: pa.Table) -> list[bytes]:
    """Returns the texts and bytes in the one table, of six or more bytes, that are in no value of the other."""
    there = b"\n".join(_texts(others))
    return sorted(text for text in _texts(some) if len(text) > 5 and text not in there)


def _texts(table: pa.Table) -> set[bytes]:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    kinds += (pa.types.is_fixed_size_binary, pa.types.is_string_view, pa.types.is_binary_view)
    arrays = [array for column in table.columns for chunk in column.chunks for array in _leaves(chunk)]
    stored = [array.cast(pa.binary()) for array in arrays if any(is_kind(array.type) for is_kind in kinds)]
    return {value for array in stored for value in array.to_pylist() if value is not None}


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_dictionary(array.type):
        yield array.dictionary_decode()
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(array.type):
        of_rows = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        yield from _leaves(of_rows)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array
