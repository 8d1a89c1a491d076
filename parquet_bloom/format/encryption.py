"""Encrypted files, for reading: the keys of a call, and the parts of a file that they open. No I/O here.

A file is encrypted in modules (parquet-format, Encryption.md): its footer, the metadata of a column chunk, the header
of a filter and its bitset, and others that are not read here. Each of them is

    length, 4 bytes little-endian | nonce, 12 bytes | ciphertext | tag, 16 bytes

The tag authenticates the ciphertext together with what the module is and where it belongs, its AAD:

    aad_prefix | aad_file_unique | type, 1 byte | row group, int16 | column, int16        (a footer's ends at its type)

So a module does not open if it was changed, or comes from another place or file. The header of a page and the page
are modules, too, and the AAD of a data page's ends with its number in the chunk, int16. Both algorithms of the format,
AES_GCM_V1 and AES_GCM_CTR_V1, encrypt modules in the same way, but for pages: the latter's have no tag.

Either the footer is a module, behind a struct that says how it is encrypted, and the file ends in PARE:

    FileCryptoMetaData | module | length of both, 4 bytes | PARE

Or it is in the clear and signed: its tag stands behind it, without the ciphertext, and the file ends in PAR1:

    FileMetaData | nonce, 12 bytes | tag, 16 bytes | length of all, 4 bytes | PAR1

A column with a key of its own has its metadata as a module in the footer, and so has every encrypted column of a file
with a footer in the clear.

DuckDB (tried: 2.0) authenticates modules without any AAD, and does not say which columns are encrypted: all are.
"""

from __future__ import annotations

import binascii
import enum
import json
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, read_header
from parquet_bloom.format.schema import ColumnPath, format_path, parse_path
from parquet_bloom.format.thrift_io import decode, varint

KEY_BYTES = (16, 24, 32)
_LENGTH_BYTES, _NONCE_BYTES, _TAG_BYTES = 4, 12, 16
SIGNATURE_BYTES = _NONCE_BYTES + _TAG_BYTES
"""What stands behind a signed footer; and what every module has besides its ciphertext."""

_MOST_ORDINAL = 2**15 - 1
_MAX_HEADER_BYTES = 1024
"""How long the module of a filter's header may be; parquet-java's have 132 bytes."""


class Module(enum.IntEnum):
    """The types of modules that are read here."""

    FOOTER = 0
    COLUMN_METADATA = 1
    DATA_PAGE = 2
    DICTIONARY_PAGE = 3
    DATA_PAGE_HEADER = 4
    DICTIONARY_PAGE_HEADER = 5
    FILTER_HEADER = 8
    FILTER_BITSET = 9


class Decryption:
    """The keys for reading encrypted files. They are never shown or logged.

    Args:
        footer_key: The key of the footer, and of the columns that are encrypted with it. Keys have 16, 24 or 32 bytes.
        column_keys: The keys of columns, by name, such as `{"user.id": key}`.
        key_retriever: Is called with the key metadata that a file stores, as bytes, for a key that was not given. It
            returns the key, or None if there is none. It is called once for each key of a file.
        unwrap_key: Is called for files by Spark or by pyarrow's `CryptoFactory`, whose key metadata has keys that a key
            management service wrapped: with the wrapped key and the master key's id, both as text. It returns the key,
            as `unwrap_key` of pyarrow's `KmsClient` does.
        aad_prefix: The files' AAD prefix. It is needed if they do not store theirs, and else must equal it.

    Raises:
        TypeError: A key is not bytes.
        ValueError: A key does not have 16, 24 or 32 bytes.
        UnsupportedError: The package `cryptography` is not installed.

    Examples:
        >>> keys = parquet_bloom.Decryption(footer_key=b"0123456789012345", column_keys={"id": b"1234567890123450"})
        >>> keys
        <Decryption: a footer key, keys of 1 column>
    """

    __slots__ = ("_column_keys", "_footer_key", "_key_retriever", "_unwrap_key", "_unwrapped", "aad_prefix")

    def __init__(
        self,
        *,
        footer_key: bytes | None = None,
        column_keys: Mapping[str, bytes] | None = None,
        key_retriever: Callable[[bytes], bytes | None] | None = None,
        unwrap_key: Callable[[str, str], bytes | None] | None = None,
        aad_prefix: bytes | None = None,
    ) -> None:
        _cipher_class()
        self._footer_key = None if footer_key is None else _checked(footer_key, "the footer key")
        # An error has no name from here, which is a key if the two are swapped.
        if not all(isinstance(name, str) for name in column_keys or ()):
            raise TypeError("column_keys has keys by the names of columns, which are text")
        self._column_keys = {
            parse_path(name): _checked(key, "the key of a column") for name, key in (column_keys or {}).items()
        }
        self._key_retriever, self._unwrap_key = key_retriever, unwrap_key
        self._unwrapped: dict[str, bytes] = {}  # keys that encrypt keys, by their id
        if aad_prefix is not None and not isinstance(aad_prefix, bytes):
            raise TypeError(f"the AAD prefix must be bytes, not {type(aad_prefix).__name__}")
        self.aad_prefix: bytes | None = aad_prefix

    @classmethod
    def from_json(cls, text: str) -> Decryption:
        """Return the keys that a JSON object has: the text of a `--keys-file`.

        Its entries are `footer_key`, `column_keys` (by name), `keys` (by the key metadata that the files store, as
        text) and `aad_prefix` (text). A key is written as `hex:` or `base64:` and its digits.

        Raises:
            ValueError: The text is not such an object.

        Examples:
            >>> parquet_bloom.Decryption.from_json('{"footer_key": "hex:30313233343536373839303132333435"}')
            <Decryption: a footer key>
        """
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            given = None  # the error would show a part of the text
        if not isinstance(given, dict):
            raise ValueError("keys are a JSON object, such as " + _EXAMPLE)  # noqa: TRY004
        if unknown := given.keys() - {"footer_key", "column_keys", "keys", "aad_prefix"}:
            known = "footer_key, column_keys, keys and aad_prefix"
            raise ValueError(f"the JSON object of keys has {len(unknown)} unknown entries; its entries are {known}")
        prefix = given.get("aad_prefix")
        if prefix is not None and not isinstance(prefix, str):
            raise ValueError("aad_prefix must be text")
        by_metadata = {name.encode(): key for name, key in _keys_of(given, "keys").items()}
        return cls(
            footer_key=_key_of(given["footer_key"], "footer_key") if given.get("footer_key") is not None else None,
            column_keys=_keys_of(given, "column_keys"),
            key_retriever=by_metadata.get if by_metadata else None,
            aad_prefix=None if prefix is None else prefix.encode(),
        )

    def __repr__(self) -> str:
        columns = len(self._column_keys)
        parts = [
            "a footer key" if self._footer_key else "",
            f"keys of {columns} column{'s' * (columns > 1)}" if columns else "",
            "a key retriever" if self._key_retriever else "",
            "unwraps keys" if self._unwrap_key else "",
            "an AAD prefix" if self.aad_prefix is not None else "",
        ]
        return f"<Decryption: {', '.join(filter(None, parts)) or 'no keys'}>"

    def _key_of_footer(self, metadata: bytes | None) -> bytes | None:
        """Return the key of a footer with this key metadata, or None."""
        return self._footer_key if self._footer_key is not None else self._by_metadata(metadata)

    def _key_of_column(self, path: ColumnPath, metadata: bytes | None) -> bytes | None:
        """Return the key of a column with this key metadata, or None."""
        return self._column_keys.get(path) or self._by_metadata(metadata)

    def _by_metadata(self, metadata: bytes | None) -> bytes | None:
        if metadata is None:
            return None
        key = None if self._key_retriever is None else _called(self._key_retriever, metadata)
        return key if key is not None or self._unwrap_key is None else self._from_material(metadata)

    def _from_material(self, metadata: bytes) -> bytes | None:
        """Return the key that is wrapped in the key metadata of Parquet's key management tools, or None."""
        assert self._unwrap_key is not None
        try:
            material = json.loads(metadata)
        except (ValueError, RecursionError):
            return None
        if not isinstance(material, dict) or material.get("keyMaterialType") != "PKMT1":
            return None
        if material.get("internalStorage") is False:
            raise UnsupportedError("the key material is in a file of its own, which is not read")
        master, wrapped = _text(material, "masterKeyID"), _text(material, "wrappedDEK")
        if not material.get("doubleWrapping"):
            return _called(self._unwrap_key, wrapped, master)
        name = _text(material, "keyEncryptionKeyID")
        if name not in self._unwrapped:
            key = _called(self._unwrap_key, _text(material, "wrappedKEK"), master)
            if key is None:
                return None
            self._unwrapped[name] = key
        sealed = _from_base64(wrapped)
        return _checked_result(_decrypt(self._unwrapped[name], sealed, _from_base64(name), "the wrapped key"))


_EXAMPLE = '{"footer_key": "base64:...", "column_keys": {"user.id": "base64:..."}}'


def _keys_of(given: Mapping[str, Any], entry: str) -> dict[str, bytes]:
    keys = given.get(entry) or {}
    if not isinstance(keys, dict):
        raise ValueError(f"{entry} must be a JSON object of keys")  # noqa: TRY004
    return {name: _key_of(key, f"{entry}, entry {number}") for number, (name, key) in enumerate(keys.items(), 1)}


def _key_of(text: Any, name: str) -> bytes:
    """Return the key that a text spells; errors do not show it."""
    form, colon, digits = text.partition(":") if isinstance(text, str) else ("", "", "")
    try:
        if colon and form == "hex":
            return _checked(bytes.fromhex(digits), name)
        if colon and form == "base64":
            return _checked(binascii.a2b_base64(digits, strict_mode=True), name)
    except (ValueError, TypeError):
        raise ValueError(f"{name}: not a valid key of 16, 24 or 32 bytes") from None
    raise ValueError(f"{name}: a key is written as hex: or base64: and its digits")


def _checked(key: Any, name: str) -> bytes:
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(f"{name} must be bytes, not {type(key).__name__}")
    if len(bytes(key)) not in KEY_BYTES:
        raise ValueError(f"{name} must have 16, 24 or 32 bytes, not {len(bytes(key))}")
    return bytes(key)


def _called(function: Callable[..., Any], *arguments: Any) -> bytes | None:
    """Return the key that a function of the caller's returns, or None; what it raises may show too much."""
    try:
        key = function(*arguments)
    except LookupError:
        return None
    except Exception as error:
        raise UnsupportedError(f"a key could not be retrieved: {type(error).__name__}") from error
    return None if key is None else _checked_result(key)


def _checked_result(key: Any) -> bytes:
    try:
        return _checked(key, "a retrieved key")
    except (TypeError, ValueError) as error:
        raise UnsupportedError(str(error)) from None


def _text(material: Mapping[str, Any], name: str) -> str:
    if not isinstance(text := material.get(name), str):
        raise CorruptFileError(f"the key material lacks {name}")
    return text


def _from_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise CorruptFileError("the key material does not decode") from None


# ---- modules -----------------------------------------------------------------------------


def _cipher_class() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise UnsupportedError(
            "reading encrypted files needs cryptography: pip install 'parquet-bloom[crypto]'"
        ) from None
    return AESGCM


def _decrypt(key: bytes, sealed: bytes, aad: bytes | None, what: str) -> bytes:
    """Return what nonce, ciphertext and tag hold. Raises `CorruptFileError` unless the key authenticates them."""
    from cryptography.exceptions import InvalidTag

    if len(sealed) < SIGNATURE_BYTES:
        raise CorruptFileError(f"{what} is cut off")
    try:
        plain: bytes = _cipher_class()(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except InvalidTag:
        raise CorruptFileError(f"{what} does not decrypt: {_WRONG}") from None
    return plain


_WRONG = "the key is wrong, or the bytes were changed"


def _module(data: bytes, start: int, what: str) -> bytes:
    """Return nonce, ciphertext and tag of the module that starts there, which `data` must have."""
    first = start + _LENGTH_BYTES
    length = int.from_bytes(data[start:first], "little")
    if len(data) < first or len(data) - first < length:
        raise CorruptFileError(f"{what} is cut off")
    return data[first : first + length]


@dataclass(frozen=True, slots=True)
class Seal:
    """What opens the modules of one column chunk: a key, and the AAD up to the type and from the ordinals on."""

    key: bytes = field(repr=False)
    prefix: bytes
    suffix: bytes
    has_tagged_pages: bool = True

    def open(self, module: Module, sealed: bytes, what: str, page: bytes = b"") -> bytes:
        """Return what a module holds, whose nonce, ciphertext and tag are `sealed`; `page` ends the AAD of a page."""
        return _decrypt(self.key, sealed, self.prefix + bytes([module]) + self.suffix + page, what)


class FileCipher:
    """What opens the modules of one file: the call's keys, the key of its footer, and what they are bound to."""

    __slots__ = ("_aad", "_decryption", "_footer_key", "_has_tagged_pages", "_keys", "has_plain_footer")

    def __init__(
        self, decryption: Decryption, algorithm: Any, footer_key: bytes | None, *, has_plain_footer: bool
    ) -> None:
        self._decryption, self._footer_key = decryption, footer_key
        self._aad = _file_aad(algorithm, decryption.aad_prefix)
        self._has_tagged_pages = algorithm.AES_GCM_V1 is not None
        self._keys: dict[tuple[ColumnPath, bytes | None], bytes | ParquetBloomError | None] = {}
        self.has_plain_footer: bool = has_plain_footer

    @property
    def is_bound(self) -> bool:
        """Whether modules are bound to their place and file, and columns say that they are encrypted."""
        return self._aad is not None

    def _footer_aad(self) -> bytes | None:
        return None if self._aad is None else self._aad + bytes([Module.FOOTER])

    def open_footer(self, sealed: bytes) -> bytes:
        """Return the FileMetaData of an encrypted footer."""
        assert self._footer_key is not None
        return _decrypt(self._footer_key, sealed, self._footer_aad(), "the footer")

    def check_signature(self, raw: bytes) -> None:
        """Raise `CorruptFileError` unless a footer in the clear has the signature behind it; without the key, nothing.

        `raw` runs up to the file's length field.
        """
        if self._footer_key is None:
            return
        _, length = decode(ttypes.SlimFileMetaData, raw)
        if len(raw) != length + SIGNATURE_BYTES:
            raise CorruptFileError("no signature follows the footer")
        nonce, tag = raw[length : length + _NONCE_BYTES], raw[length + _NONCE_BYTES :]
        if _cipher_class()(self._footer_key).encrypt(nonce, raw[:length], self._footer_aad())[length:] != tag:
            raise CorruptFileError(f"the footer's signature does not match: {_WRONG}")

    def seal(self, crypto: Any, path: ColumnPath, row_group: int, column: int) -> Seal:
        """Return what opens the modules of a column chunk. Raises `UnsupportedError` without its key."""
        if self._aad is None:
            raise UnsupportedError("the column is encrypted, but the file has no identifier to authenticate it with")
        if crypto.ENCRYPTION_WITH_COLUMN_KEY is not None:
            metadata = crypto.ENCRYPTION_WITH_COLUMN_KEY.key_metadata
            key = self._column_key(path, metadata)
        elif crypto.ENCRYPTION_WITH_FOOTER_KEY is not None:
            key = self._footer_key
        else:
            raise UnsupportedError("the column is encrypted in a way that is not known")
        if key is None:
            raise UnsupportedError("the column is encrypted, and its key was not given")
        if not 0 <= row_group <= _MOST_ORDINAL or column > _MOST_ORDINAL:
            raise UnsupportedError("the format cannot encrypt so many row groups or columns")
        return Seal(key, self._aad, struct.pack("<hh", row_group, column), self._has_tagged_pages)

    def _column_key(self, path: ColumnPath, metadata: bytes | None) -> bytes | None:
        if (path, metadata) not in self._keys:
            try:
                self._keys[path, metadata] = self._decryption._key_of_column(path, metadata)
            except ParquetBloomError as error:
                self._keys[path, metadata] = error
        key = self._keys[path, metadata]
        if isinstance(key, ParquetBloomError):
            raise key
        return key

    def open_metadata(self, chunk: Any, seal: Seal, path: ColumnPath) -> Any:
        """Return the ColumnMetaData of an encrypted column chunk."""
        what = f"the metadata of column {format_path(path)}"
        if (sealed := chunk.encrypted_column_metadata) is not None:
            plain = seal.open(Module.COLUMN_METADATA, _module(sealed, 0, what), what)
            return decode(ttypes.ColumnMetaData, plain)[0]
        is_in_footer = chunk.crypto_metadata.ENCRYPTION_WITH_FOOTER_KEY is not None and not self.has_plain_footer
        if not is_in_footer or chunk.meta_data is None:
            raise CorruptFileError(f"{what} is not encrypted, although the column is")
        return chunk.meta_data


def _file_aad(algorithm: Any, given: bytes | None) -> bytes | None:
    """Return what the AADs of all modules of a file begin with; None where modules have none."""
    about = algorithm and (algorithm.AES_GCM_V1 or algorithm.AES_GCM_CTR_V1)
    if not about:
        raise UnsupportedError("the file is encrypted with an algorithm that is not known")
    stored, unique = about.aad_prefix, about.aad_file_unique
    if given is not None and stored is not None and given != stored:
        raise CorruptFileError("the file's AAD prefix is not the one that was given")
    if given is not None and stored is None and not about.supply_aad_prefix:
        raise CorruptFileError("an AAD prefix was given, but the file was encrypted without one")
    prefix = given if given is not None else stored
    if prefix is None and about.supply_aad_prefix:
        raise UnsupportedError("the file was encrypted with an AAD prefix that it does not store: give it as well")
    return None if prefix is None and unique is None else (prefix or b"") + (unique or b"")


def open_footer(raw: bytes, decryption: Decryption) -> tuple[bytes, FileCipher]:
    """Return the FileMetaData of an encrypted footer, and what opens the rest of the file.

    `raw` is FileCryptoMetaData and the module behind it. Raises `UnsupportedError` without the key.
    """
    about, length = decode(ttypes.FileCryptoMetaData, raw)
    key = decryption._key_of_footer(about.key_metadata)
    if key is None:
        raise UnsupportedError("the footer is encrypted, and its key was not given")
    cipher = FileCipher(decryption, about.encryption_algorithm, key, has_plain_footer=False)
    return cipher.open_footer(_module(raw, length, "the footer")), cipher


def open_signed(metadata: Any, raw: bytes, decryption: Decryption) -> FileCipher:
    """Return what opens the columns of a file whose footer is in the clear, once its signature is checked."""
    key = decryption._key_of_footer(metadata.footer_signing_key_metadata)
    cipher = FileCipher(decryption, metadata.encryption_algorithm, key, has_plain_footer=True)
    cipher.check_signature(raw)
    return cipher


# ---- filters -----------------------------------------------------------------------------


def read_sealed_filter(
    seal: Seal, offset: int, stop: int, *, end: int
) -> Generator[list[ByteRange], list[bytes], tuple[SplitBlockBloomFilter, int]]:
    """Plan to read an encrypted filter, and the bytes that it takes in all: two modules, its header and its bitset.

    Bytes up to `stop` come with the first request. All of a module is needed to authenticate it, so there is no
    reading of single blocks.
    """
    data = yield from _more(b"", offset, stop, end)
    size = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if size > _MAX_HEADER_BYTES:
        raise CorruptFileError("there is no encrypted bloom filter header here")
    header_stop = _LENGTH_BYTES + size
    data = yield from _more(data, offset, offset + header_stop + _LENGTH_BYTES, end)
    plain = seal.open(Module.FILTER_HEADER, data[_LENGTH_BYTES:header_stop], "the bloom filter's header")
    num_bytes = read_header(plain).num_bytes
    bitset_start = header_stop + _LENGTH_BYTES
    if int.from_bytes(data[header_stop:bitset_start], "little") != num_bytes + SIGNATURE_BYTES:
        raise CorruptFileError("the encrypted bitset's size does not match its header")
    length = bitset_start + num_bytes + SIGNATURE_BYTES
    data = yield from _more(data, offset, offset + length, end)
    bitset = seal.open(Module.FILTER_BITSET, data[bitset_start:length], "the bloom filter's bitset")
    return SplitBlockBloomFilter.from_bitset(bitset), length


def _more(data: bytes, offset: int, stop: int, end: int) -> Generator[list[ByteRange], list[bytes], bytes]:
    """Plan to return the bytes from `offset` to `stop`, of which `data` are the first."""
    wanted = ByteRange(offset + len(data), stop)
    if wanted.start >= stop:
        return data
    if stop > end:
        raise CorruptFileError("the filter would overlap the footer")
    (rest,) = yield [wanted]
    if len(rest) < len(wanted):
        raise CorruptFileError("the file ends inside the filter", offset=len(data) + len(rest))
    return data + rest


# ---- pages -------------------------------------------------------------------------------


def open_pages(seal: Seal, data: bytes, *, has_dictionary: bool) -> tuple[bytes, int]:
    """Return the pages that `data` has encrypted, as they are unencrypted, and how many bytes the dictionary's has.

    A page without a tag is not authenticated; its checksum is compared if it has one.
    """
    pages: list[bytes] = []
    at = 0
    while at < len(data):
        is_dictionary = has_dictionary and not pages
        ordinal = len(pages) - has_dictionary
        if ordinal > _MOST_ORDINAL:
            raise CorruptFileError("the column chunk has more pages than the format can encrypt")
        page = b"" if is_dictionary else struct.pack("<h", ordinal)
        of_header = Module.DICTIONARY_PAGE_HEADER if is_dictionary else Module.DATA_PAGE_HEADER
        sealed = _module(data, at, "the header of a page")
        at += _LENGTH_BYTES + len(sealed)
        header = seal.open(of_header, sealed, "the header of a page", page)
        decoded, length = decode(ttypes.PageHeader, header)
        stored = data[at : at + max(0, decoded.compressed_page_size or 0)]
        at += len(stored)
        if int.from_bytes(stored[:_LENGTH_BYTES], "little") != len(stored) - _LENGTH_BYTES:
            if decoded.data_page_header_v2:
                raise UnsupportedError("an encrypted page has levels that are not encrypted")  # parquet-java's
            raise CorruptFileError("a page's size does not match its header")
        sealed = stored[_LENGTH_BYTES:]
        if seal.has_tagged_pages:
            plain = seal.open(Module.DICTIONARY_PAGE if is_dictionary else Module.DATA_PAGE, sealed, "a page", page)
        else:
            plain = _decrypt_untagged(seal.key, sealed)
        pages.append(_header_of(decoded, header[:length], stored, plain) + plain)
    return b"".join(pages), len(pages[0]) if has_dictionary and pages else 0


def _decrypt_untagged(key: bytes, sealed: bytes) -> bytes:
    """Return what nonce and ciphertext hold; the counter starts with 1."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(sealed) < _NONCE_BYTES:
        raise CorruptFileError("a page is cut off")
    start = sealed[:_NONCE_BYTES] + (1).to_bytes(4, "big")
    decryptor = Cipher(algorithms.AES(key), modes.CTR(start)).decryptor()
    return decryptor.update(sealed[_NONCE_BYTES:]) + decryptor.finalize()


def _header_of(decoded: Any, header: bytes, stored: bytes, plain: bytes) -> bytes:
    """Return a PageHeader with the size and the checksum of the page as it is unencrypted.

    They are replaced in its bytes: the struct that is decoded here lacks fields of the header.
    """
    numbers = [decoded.type, decoded.uncompressed_page_size, decoded.compressed_page_size]
    numbers += [] if decoded.crc is None else [decoded.crc]
    start = b"" if None in numbers else b"".join(map(_int32, numbers))
    if not start or not header.startswith(start):
        raise CorruptFileError("the header of an encrypted page does not start with its type and sizes")
    numbers[2] = len(plain)
    if decoded.crc is not None:
        if decoded.crc & 0xFFFFFFFF not in (zlib.crc32(stored), zlib.crc32(plain)):
            raise CorruptFileError("an encrypted page does not match its checksum")
        numbers[3] = _signed(zlib.crc32(plain))
    return b"".join(map(_int32, numbers)) + header[len(start) :]


def _int32(number: int) -> bytes:
    """Return a field of type i32 right behind the one before it, in Thrift's compact protocol."""
    return b"\x15" + varint((number << 1) ^ (number >> 31))


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number
