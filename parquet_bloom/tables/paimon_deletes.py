"""Which rows of Paimon's data files are deleted: deletion vectors, one after another in index files.

    version   1 byte, 1; only once, before the first vector
    length    4 bytes, big-endian: how many bytes the next two have
    magic     4 bytes: 1581511376, big-endian, or 1681511377, little-endian
    bitmap    a Roaring bitmap of 32-bit numbers, or, after the other magic, of 64-bit numbers, in the portable format
    checksum  4 bytes, big-endian: CRC-32 of magic and bitmap

An index manifest says where in which index file the vector of a data file is. Source: Paimon's specification ("Table
index"), and tables that Paimon wrote.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterable
from io import BytesIO
from operator import index
from typing import Any, NamedTuple

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.storage.drive import read_whole
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.live_files import LiveFile
from parquet_bloom.tables.unpacking import Room

_VERSION, _MAGIC, _MAGIC_64 = 1, struct.pack(">I", 1581511376), struct.pack("<I", 1681511377)


class _Place(NamedTuple):
    """Where a deletion vector is; `partition` and `bucket` are those of its data file.

    `length` is that of magic and bitmap, or, of a bitmap of 64-bit numbers, of all four parts. `num_rows` are those in
    it, where the table records that.
    """

    index_file: str
    external: str | None
    partition: bytes
    bucket: int
    offset: int
    length: int
    num_rows: int | None


class Vectors:
    """The deletion vectors of a snapshot, from the records of its index manifest.

    `find` returns an index file by its name, its path if that is elsewhere, and its partition and bucket. Where a table
    `is_off`, its readers do not apply the vectors that it has.
    """

    def __init__(
        self,
        records: Iterable[dict[str, Any]],
        find: Callable[[str, str | None, bytes, int], Source],
        room: Room,
        *,
        is_off: bool,
    ) -> None:
        self._find, self._room, self._is_off = find, room, is_off
        self._places: dict[str, list[_Place]] = {}
        self._unread: str | None = None
        self._files: dict[str, bytes] = {}
        for record in records:
            if record["_INDEX_TYPE"] == "DELETION_VECTORS":
                self._note(record)

    def _note(self, record: dict[str, Any]) -> None:
        ranges = [value for name, value in record.items() if "DELETION" in name and name.endswith("_RANGES")]
        if len(ranges) != 1 or ranges[0] is None or record.get("_KIND") != 0:
            self._unread = (
                f"the table's index manifest does not tell where the deletion vectors of {record['_FILE_NAME']} are"
            )
            return
        for each in ranges[0]:
            place = _Place(
                record["_FILE_NAME"],
                record.get("_EXTERNAL_PATH"),
                record["_PARTITION"],
                record["_BUCKET"],
                index(each["f1"]),
                index(each["f2"]),
                each.get("_CARDINALITY"),
            )
            self._places.setdefault(each["f0"], []).append(place)

    def may_have(self, name: str) -> bool:
        """Return whether the data file of this name has a deletion vector, or may have one."""
        return self._unread is not None or name in self._places

    def of(self, file: LiveFile, name: str) -> array[int]:
        """Return the numbers of a file's deleted rows; see `Snapshot.deleted_rows`."""
        if self._unread is not None:
            raise UnsupportedError(self._unread)
        if self._is_off:
            raise UnsupportedError("it has a deletion vector, but the table's options turn deletion vectors off")
        if len(places := self._places.get(name, [])) != 1:
            raise UnsupportedError(f"which of its rows are deleted is not known: it has {len(places)} deletion vectors")
        place, num_rows, allowed = places[0], file.num_rows or 0, 0

        def allow(count: int) -> None:
            nonlocal allowed
            allowed += count
            if allowed > num_rows:
                raise ValueError(f"it has {allowed:,} rows, and the file {num_rows:,}")
            if (size := allowed * array("q").itemsize) > self._room.left:
                self._room.take(size, place.index_file)

        try:
            rows = _rows(self._index(place), place, allow)
        except ParquetBloomError:
            raise
        except (ValueError, EOFError) as error:
            raise CorruptFileError(f"its deletion vector in {place.index_file} cannot be read: {error}") from error
        if place.num_rows is not None and len(rows) != place.num_rows:
            raise CorruptFileError(f"its deletion vector has {len(rows):,} rows; the table says {place.num_rows:,}")
        return rows

    def _index(self, place: _Place) -> bytes:
        key = place.external or place.index_file
        if key not in self._files:
            source = self._find(place.index_file, place.external, place.partition, place.bucket)
            self._room.take(source.size, place.index_file)
            self._files[key] = read_whole(source)
        return self._files[key]


def _rows(data: bytes, place: _Place, allow: Callable[[int], None]) -> array[int]:
    if data[:1] != bytes([_VERSION]):
        raise ValueError(f"the index file starts with {data[:1].hex() or 'nothing'}, not with version {_VERSION}")
    if place.offset < 1:
        raise ValueError(f"it is at {place.offset}")
    reader = BytesIO(data)
    reader.seek(place.offset)
    (length,) = struct.unpack(">i", _take(reader, 4))
    is_long = data[place.offset + 4 : place.offset + 8] == _MAGIC_64
    if length < 4 or place.length != (length + 8 if is_long else length):
        raise ValueError(f"it has {length:,} bytes, and the table records {place.length:,}")
    packed = _take(reader, length)
    if _take(reader, 4) != struct.pack(">I", zlib.crc32(packed)):
        raise ValueError("its checksum is wrong")
    if packed[:4] not in (_MAGIC, _MAGIC_64):
        raise ValueError(f"it starts with {packed[:4].hex()}, which is not supported")
    return _numbers(packed[4:], is_long, allow)


def _numbers(data: bytes, is_long: bool, allow: Callable[[int], None]) -> array[int]:
    """Return the numbers in a bitmap, ascending, which a few bytes may hold 2^32 of: so they are counted first."""
    try:
        from pyroaring import BitMap, BitMap64
    except ImportError:
        raise UnsupportedError("deletion vectors are read by pyroaring: pip install 'parquet-bloom[paimon]'") from None
    try:
        bitmap = (BitMap64 if is_long else BitMap).deserialize(data)
    except (ValueError, IndexError) as error:
        raise ValueError(f"it is no Roaring bitmap: {error}") from error
    if bitmap.serialize() != data:
        raise ValueError("it does not end with its bitmap, or that is damaged")
    allow(len(bitmap))
    if bitmap and bitmap.max() >= 1 << 63:
        raise ValueError(f"it has the number {bitmap.max():,}")
    return array("q", bitmap)


def _take(data: BytesIO, size: int) -> bytes:
    """Return the next bytes. Raises `EOFError` if there are fewer."""
    taken = data.read(size)
    if len(taken) < size:
        raise EOFError("it is cut off")
    return taken
