"""Finds the last whole state of a file to which filters were being added in place when its writer was killed.

    old file ... PAR1 | filter | filter | ... | new footer            cut off anywhere behind PAR1

The search goes backwards, from one `PAR1` to the one before, until one ends a footer of this file and what was being
added explains every byte behind it. Data may hold any bytes, other Parquet files too. So a footer counts only if it
describes pages that are there, and where that is not so, or a byte is left unexplained, nothing is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from parquet_bloom.errors import CorruptFileError, NotParquetError, ParquetBloomError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import ENCRYPTED_MAGIC, MAGIC, Footer, Plan, pages_extent, parse_footer
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import MIN_PORTABLE_BYTES, read_header, write_header
from parquet_bloom.format.splice import is_cut_off_splice
from parquet_bloom.format.thrift_io import decode

_FIRST_STEP, _STEP = 64 * 1024, 4 * 1024 * 1024
_HEADERS = {header: size for size in (MIN_PORTABLE_BYTES << k for k in range(25)) for header in [write_header(size)]}
_LONGEST = max(map(len, _HEADERS))
_ENDS = re.compile(rb"PAR1(?=\x15|\Z)")  # a filter's header begins with 15, and so does a footer
_SMALL_READ, _LARGE_READ, _MOST_PAGES = 4 * 1024, 16 * 1024 * 1024, 1000
_BEGINNING = 4  # of a footer: its version and the header of its schema, which no splice changes
_EDIT_BYTES = 32  # the most that a splice adds to a column chunk


@dataclass(frozen=True, slots=True)
class WholeState:
    """The last state of a file that was whole, and how many filters, all of them whole, lie behind it."""

    footer: Footer
    num_filters: int


@dataclass(frozen=True, slots=True)
class _Chain:
    """Filters that lie one behind the other; `stop` is where something else begins, None if the file ends in one."""

    lengths: dict[int, int]  # by offset
    stop: int | None


def find_whole_state(size: int) -> Plan[WholeState]:
    """Plan to return the last whole state of a file of `size` bytes; that is all of it if it was never cut off.

    Raises `NotParquetError`, `CorruptFileError` where bytes at the end are not explained by filters that were being
    added, and `UnsupportedError` for an encrypted footer.
    """
    if size < 12:
        raise NotParquetError(f"a file of {size} bytes is too small for Parquet")
    first, last = yield [ByteRange(0, len(MAGIC)), ByteRange(size - len(MAGIC), size)]
    if first != MAGIC:
        raise NotParquetError("the file does not begin with PAR1")
    if last == ENCRYPTED_MAGIC:
        raise UnsupportedError("the footer is encrypted, and files with such footers are never changed here")
    position, behind = size, b""
    effort = _Effort(size)
    while position > len(MAGIC):
        start = max(len(MAGIC), position - (_FIRST_STEP if position == size else _STEP))
        (data,) = yield [ByteRange(start, position)]
        if len(data) < position - start:
            raise CorruptFileError("the file became shorter while it was read", offset=start + len(data))
        window = data + behind
        for found in reversed([*_ENDS.finditer(window)]):
            end = start + found.end()
            if found.start() >= len(data) or not _may_follow(window[found.end() :][:_LONGEST], size - end):
                continue
            chain = yield from _read_chain(end, size, effort)
            if (raw := (yield from _read_raw(end, chain, size, effort))) is None:
                continue
            if (footer := (yield from _parse(end, raw))) and (yield from _explains(footer, chain, size)):
                return WholeState(footer, len(chain.lengths))
        position, behind = start, window[: len(MAGIC) + _LONGEST]
    raise CorruptFileError("it ends in neither a footer nor an interrupted `add`")


class _Effort:
    """Bounds what a hostile file costs, by a small multiple of its size: in one footer's bytes others may end, too."""

    def __init__(self, size: int) -> None:
        self._left = 64 * 1024 * 1024 + 2 * size

    def spend(self, amount: int) -> None:
        """Count bytes that are examined again; raises `CorruptFileError` when it is enough."""
        self._left -= amount
        if self._left < 0:
            raise CorruptFileError("too many places in it look like the end of a file")


_FOR_AN_END, _FOR_A_FILTER = 64 * 1024, 64


def _may_follow(data: bytes, left: int) -> bool:
    """Return whether a filter or a footer may begin so, of which the file has `left` bytes."""
    if left < _LONGEST:
        return True
    return data[:1] == b"\x15" and (_size_of(data) is not None or data[2:3] == b"\x19")


def _size_of(data: bytes) -> tuple[int, int] | None:
    """Return the bytes that the filter that `data` begins with takes, header and all, and those of its header."""
    for length in range(_LONGEST, 14, -1):
        if (num_bytes := _HEADERS.get(data[:length])) is not None and len(data) >= length:
            return length + num_bytes, length
    return None


def _read_chain(position: int, size: int, effort: _Effort) -> Plan[_Chain]:
    lengths: dict[int, int] = {}
    effort.spend(_FOR_AN_END)
    while position < size:
        effort.spend(_FOR_A_FILTER)
        (data,) = yield [ByteRange(position, min(position + _LONGEST, size))]
        found = _size_of(data)
        if found is None:
            is_cut_off = any(len(data) < len(header) and header.startswith(data) for header in _HEADERS)
            return _Chain(lengths, None if is_cut_off else position)
        if position + found[0] > size:
            return _Chain(lengths, None)
        lengths[position] = found[0]
        position += found[0]
    return _Chain(lengths, None)


def _read_raw(end: int, chain: _Chain, size: int, effort: _Effort) -> Plan[bytes | None]:
    """Plan to return what may be a footer that ends at `end`, if what is behind the chain may begin as it does."""
    (tail,) = yield [ByteRange(end - 8, end)]
    length = int.from_bytes(tail[:4], "little")
    start = end - 8 - length
    if length < _BEGINNING or start < len(MAGIC):
        return None
    if chain.stop is not None and not chain.lengths:
        left = min(_BEGINNING, size - chain.stop)
        here, there = yield [ByteRange(start, start + left), ByteRange(chain.stop, chain.stop + left)]
        if here != there:
            return None
    effort.spend(length)
    (raw,) = yield [ByteRange(start, end - 8)]
    return raw if len(raw) == length else None


def _parse(end: int, raw: bytes) -> Plan[Footer | None]:
    """Plan to return the footer that ends at `end`, if the pages that it describes are there."""
    try:
        footer = parse_footer(end, raw)
        for row_group in sorted({0, footer.num_row_groups - 1} & {*range(footer.num_row_groups)}):
            for leaf in footer.leaves:
                chunk = footer.chunk(row_group, leaf)
                if chunk is None or not chunk.num_values or footer.column_chunk(row_group, leaf.index).file_path:
                    continue
                if not (yield from _has_pages(*pages_extent(chunk), before=footer.start)):
                    return None
        is_inside = all(0 <= group.start <= group.stop <= footer.start for group in footer.row_groups)
    except ParquetBloomError:
        return None
    return footer if is_inside else None


def _has_pages(start: int, stop: int, *, before: int) -> Plan[bool]:
    """Plan to return whether a column chunk is pages, one behind the other; of very many, the first are looked at."""
    if start == stop:  # no values, no pages
        return True
    if not len(MAGIC) <= start < stop <= before:
        return False
    for _ in range(_MOST_PAGES):
        (data,) = yield [ByteRange(start, min(start + _SMALL_READ, stop))]
        try:
            header, length = decode(ttypes.PageHeader, data)
        except CorruptFileError:
            if stop - start <= _SMALL_READ:
                return False
            (data,) = yield [ByteRange(start, min(start + _LARGE_READ, stop))]  # statistics may make it long
            header, length = decode(ttypes.PageHeader, data)
        size = header.compressed_page_size
        if header.type is None or size is None or size < 0:
            return False
        start += length + size
        if start >= stop:
            return start == stop
    return True


def _explains(footer: Footer, chain: _Chain, size: int) -> Plan[bool]:
    """Plan to return whether what lies behind the chain is a part of a footer that has these filters."""
    if chain.stop is None:
        return True
    most = len(footer.raw) + _EDIT_BYTES * (1 + footer.num_row_groups * len(footer.leaves))
    (part,) = yield [ByteRange(chain.stop, min(chain.stop + most, size))]
    rest = chain.stop + len(part)
    if chain.lengths:  # some file systems have zeros where a power cut has lost what was written
        part = part.rstrip(b"\0")
    while chain.lengths and rest < size:
        (zeros,) = yield [ByteRange(rest, min(rest + _STEP, size))]
        if zeros.strip(b"\0"):
            return False
        rest += len(zeros)
    if rest < size:
        return False
    if chain.lengths and any(header.startswith(part) for header in _HEADERS):
        return True
    try:
        return is_cut_off_splice(footer.raw, part, {**(yield from filter_lengths(footer, all=False)), **chain.lengths})
    except CorruptFileError:
        return False


def filter_lengths(footer: Footer, *, all: bool = True) -> Plan[dict[int, int]]:
    """Plan to return the length of each filter that a footer points to, by offset; or only where it lacks the length.

    Those of which the length cannot be told are left out.
    """
    lengths = {}
    for _, _, chunk in footer.chunks():
        offset = chunk.bloom_filter_offset if chunk is not None else None
        if not offset or not 0 < offset < footer.start:
            continue
        if chunk.bloom_filter_length is not None:
            if all:
                lengths[offset] = min(chunk.bloom_filter_length, footer.start - offset)
            continue
        (data,) = yield [ByteRange(offset, min(offset + 64, footer.start))]
        try:
            header = read_header(data)
        except ParquetBloomError:
            continue
        lengths[offset] = header.length + header.num_bytes
    return lengths
