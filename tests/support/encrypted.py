"""Encrypts a Parquet file's footer, column metadata and filters as the specification says, in plain Python.

Pages stay as they are unless they are to be read (`seals_pages`). Files of other writers are in tests/interop.
"""

from __future__ import annotations

import copy
import os
import struct
from collections.abc import Collection, Mapping
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from files import footer_bytes

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode, varint

FOOTER, COLUMN_METADATA, FILTER_HEADER, FILTER_BITSET = 0, 1, 8, 9
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_HEADER, DICTIONARY_PAGE_HEADER = 2, 3, 4, 5


def module(key: bytes, aad: bytes | None, plain: bytes) -> bytes:
    nonce = os.urandom(12)
    sealed = AESGCM(key).encrypt(nonce, plain, aad)
    return (len(sealed) + 12).to_bytes(4, "little") + nonce + sealed


def encrypted(
    data: bytes,
    footer_key: bytes,
    column_keys: Mapping[str, bytes] | None = None,
    *,
    columns: Collection[str] | None = None,
    plain_footer: bool = False,
    algorithm: str = "AES_GCM_V1",
    aad_prefix: bytes | None = None,
    stores_prefix: bool = True,
    has_lengths: bool = True,
    header_padding: int = 0,
    seals_pages: bool = False,
) -> bytes:
    """Returns the file with `columns`, by default all, encrypted; those without a key of their own with the footer's.

    The key metadata of the footer is `footer`, that of a column its name.
    """
    unique = os.urandom(8)
    prefix = (aad_prefix or b"") + unique
    kind = {"AES_GCM_V1": ttypes.AesGcmV1, "AES_GCM_CTR_V1": ttypes.AesGcmCtrV1}[algorithm]
    about = kind(
        aad_prefix=aad_prefix if stores_prefix else None,
        aad_file_unique=unique,
        supply_aad_prefix=aad_prefix is not None and not stores_prefix,
    )
    named = ttypes.EncryptionAlgorithm(**{algorithm: about})
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    body = bytearray(data[: len(data) - 8 - len(footer_bytes(data))])
    for ordinal, group in enumerate(metadata.row_groups):
        group.ordinal = ordinal
        for index, chunk in enumerate(group.columns):
            name = ".".join(chunk.meta_data.path_in_schema)
            if columns is not None and name not in columns:
                continue
            own_key = (column_keys or {}).get(name)
            place = struct.pack("<hh", ordinal, index)

            def seal(
                kind: int, plain: bytes, page: bytes = b"", key: bytes = own_key or footer_key, place: bytes = place
            ) -> bytes:
                return module(key, prefix + bytes([kind]) + place + page, plain)

            if seals_pages:
                _seal_pages(chunk.meta_data, data, body, seal)
            _seal_filter(chunk.meta_data, data, body, seal, has_lengths, header_padding)
            chunk.crypto_metadata = _crypto_metadata(chunk, name, own_key)
            if own_key or plain_footer:
                chunk.encrypted_column_metadata = seal(COLUMN_METADATA, encode(chunk.meta_data))
                chunk.meta_data = _redacted(chunk.meta_data) if plain_footer else None
    if plain_footer:
        metadata.encryption_algorithm, metadata.footer_signing_key_metadata = named, b"footer"
        plain = encode(metadata)
        sealed = module(footer_key, prefix + bytes([FOOTER]), plain)[4:]
        footer, magic = plain + sealed[:12] + sealed[-16:], b"PAR1"
    else:
        about_file = ttypes.FileCryptoMetaData(encryption_algorithm=named, key_metadata=b"footer")
        footer, magic = encode(about_file) + module(footer_key, prefix + bytes([FOOTER]), encode(metadata)), b"PARE"
    return bytes(body) + footer + len(footer).to_bytes(4, "little") + magic


def _seal_filter(chunk: Any, data: bytes, body: bytearray, seal: Any, has_lengths: bool, header_padding: int) -> None:
    """Appends a chunk's filter, encrypted, and has the chunk say where it is."""
    if not chunk.bloom_filter_offset:
        return
    start, stop = chunk.bloom_filter_offset, chunk.bloom_filter_offset + chunk.bloom_filter_length
    header, length = decode(ttypes.BloomFilterHeader, data[start:stop])
    assert stop - start == length + header.numBytes
    sealed = seal(FILTER_HEADER, data[start : start + length] + bytes(header_padding))
    sealed += seal(FILTER_BITSET, data[start + length : stop])
    chunk.bloom_filter_offset, chunk.bloom_filter_length = len(body), len(sealed) if has_lengths else None
    body += sealed


def _seal_pages(chunk: Any, data: bytes, body: bytearray, seal: Any) -> None:
    """Appends a chunk's pages, encrypted, and has the chunk say where they are."""
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    at, stop, first = start, start + chunk.total_compressed_size, len(body)
    ordinal = -1 if chunk.dictionary_page_offset else 0
    while at < stop:
        header, length = decode(ttypes.PageHeader, data[at:stop])
        page = data[at + length : at + length + header.compressed_page_size]
        old, new = (
            b"".join(b"\x15" + varint(2 * number) for number in (header.type, header.uncompressed_page_size, size))
            for size in (len(page), len(page) + 32)
        )
        assert data[at:].startswith(old)
        kinds, number = ((DICTIONARY_PAGE_HEADER, DICTIONARY_PAGE), b"")
        if ordinal >= 0:
            kinds, number = (DATA_PAGE_HEADER, DATA_PAGE), struct.pack("<h", ordinal)
            chunk.data_page_offset = chunk.data_page_offset if ordinal else len(body)
        body += seal(kinds[0], new + data[at + len(old) : at + length], number)
        body += seal(kinds[1], page, number)
        at, ordinal = at + length + len(page), ordinal + 1
    chunk.dictionary_page_offset = first if chunk.dictionary_page_offset else None
    chunk.total_compressed_size = len(body) - first


def _crypto_metadata(chunk: Any, name: str, own_key: bytes | None) -> Any:
    if not own_key:
        return ttypes.ColumnCryptoMetaData(ENCRYPTION_WITH_FOOTER_KEY=ttypes.EncryptionWithFooterKey())
    own = ttypes.EncryptionWithColumnKey(path_in_schema=chunk.meta_data.path_in_schema, key_metadata=name.encode())
    return ttypes.ColumnCryptoMetaData(ENCRYPTION_WITH_COLUMN_KEY=own)


def _redacted(chunk: Any) -> Any:
    shown = copy.copy(chunk)
    shown.statistics = shown.encoding_stats = None
    shown.bloom_filter_offset = shown.bloom_filter_length = None
    return shown
