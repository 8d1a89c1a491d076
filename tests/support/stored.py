"""What is stored in a Parquet file, with its pages decompressed: to look for bytes that should be gone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from compact import Field, Reader
from files import footer_bytes

_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
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
            yield data[start : start + levels] + pa.decompress(data[start + levels : at], size, codec, asbytes=True)
    assert at == stop
