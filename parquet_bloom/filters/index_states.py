"""What pruning needs of a segment of the index: one small file, of numbers in columns instead of a row for each file.

    length of the header uint32, header     JSON: columns, problems, and the length of each section
    fingerprints                            16 bytes for each data file
    other sections                          the columns of `States`, in the order of `_SECTIONS`

A section is an array of little-endian numbers: the first byte of each number, then the second of each and so on, in a
zlib stream. Of row groups it has the number of rows, and by how many bytes each one's start lies behind the end of the
one before, and its end behind its start.

A fingerprint is a cryptographic hash of what identifies a data file's state. So whoever has listed the files finds
their entries by it, and the names and versions themselves need not be read.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from parquet_bloom.errors import CorruptFileError

FINGERPRINT_BYTES = 16

_SECTIONS = {
    "schemas": "I",  # of each data file: its schema's number in the segment
    "group_counts": "I",  # and how many row groups it has
    "num_rows": "q",  # of each row group
    "bounds": "q",  # start and end of each, as distances
    "files": "I",  # of each entry: the number of its data file,
    "columns": "I",  # of its column,
    "leaves": "i",  # of the leaf that was the column, or -1,
    "problems": "i",  # and of the reason why there is no filter, or -1
    "slot_counts": "I",  # how many filters it has
    "blocks": "I",  # of each filter: the number of its blocks file in the segment,
    "slots": "I",  # and its place there
}


def fingerprint(path: str, version: str, size: int) -> bytes:
    """Return what no other data file, and no other state of this one, has."""
    text = f"{path}\0{version}\0{size}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES).digest()


class States:
    """A segment's data files and entries; see `_SECTIONS`."""

    def __init__(self, data: bytes) -> None:
        try:
            start = 4 + int.from_bytes(data[:4], "little")
            header = json.loads(data[4:start])
            self.column_names: list[str] = _texts(header["columns"])
            self.problem_texts: list[str] = _texts(header["problems"])
            end = start + FINGERPRINT_BYTES * _count(header["files"], (len(data) - start) // FINGERPRINT_BYTES)
            steps = range(start, end, FINGERPRINT_BYTES)
            self.fingerprints: list[bytes] = [data[step : step + FINGERPRINT_BYTES] for step in steps]
            self.of: dict[str, array[int]] = {}
            for (name, kind), length in zip(_SECTIONS.items(), header["sections"], strict=True):
                self.of[name] = _numbers(data[end : end + length], kind)
                end += length
            self._require_sound()
            self.row_groups: RowGroups = RowGroups(self.of["group_counts"], self.of["num_rows"], self.of["bounds"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError, zlib.error) as error:
            raise CorruptFileError(f"an index's states cannot be read: {error}") from error

    def _require_sound(self) -> None:
        """Raise `ValueError` where a number means nothing."""
        of, files, entries = self.of, len(self.fingerprints), len(self.of["files"])
        counts = {"schemas": files, "group_counts": files, "num_rows": sum(of["group_counts"])}
        counts |= {"bounds": 2 * counts["num_rows"], "blocks": sum(of["slot_counts"]), "slots": len(of["blocks"])}
        counts |= dict.fromkeys(("columns", "leaves", "problems", "slot_counts"), entries)
        below = {"files": files, "columns": len(self.column_names), "problems": len(self.problem_texts)}
        if any(len(of[name]) != count for name, count in counts.items()) or any(
            max(of[name], default=-1) >= most for name, most in below.items()
        ):
            raise ValueError("its sections do not fit together")


class RowGroups:
    """The row groups of a segment's data files; see `_SECTIONS`."""

    def __init__(self, counts: array[int], num_rows: array[int], bounds: array[int]) -> None:
        self._counts, self._num_rows, self._bounds = counts, num_rows, bounds

    @cached_property
    def _unpacked(self) -> tuple[bytes, array[int]]:
        """The rows, start and end of each row group, and where those of each data file begin."""
        try:
            bounds = array("q", accumulate(self._bounds))
        except OverflowError as error:
            raise CorruptFileError("an index's row groups lie beyond any file") from error
        numbers = array("q", bytes(24 * len(self._num_rows)))
        numbers[0::3], numbers[1::3], numbers[2::3] = self._num_rows, bounds[0::2], bounds[1::2]
        return numbers.tobytes(), array("Q", accumulate(self._counts, initial=0))

    def packed(self, file: int) -> bytes:
        """Return the rows, start and end of each row group of a data file, as native 64-bit numbers."""
        numbers, starts = self._unpacked
        return numbers[24 * starts[file] : 24 * starts[file + 1]]


def states_bytes(entries: Sequence[Any], schemas: Sequence[str]) -> bytes:
    """Return the file of a segment's entries (`index.Entry`), whose schemas are numbered as in `schemas`."""
    of: dict[str, list[int]] = {name: [] for name in _SECTIONS}
    files: dict[bytes, int] = {}
    columns: dict[str, int] = {}
    problems: dict[str, int] = {}
    numbers = {schema: number for number, schema in enumerate(schemas)}
    end = 0
    for entry in entries:
        key = fingerprint(entry.path, entry.version, entry.size)
        if key not in files:
            of["schemas"].append(numbers[entry.schema])
            of["group_counts"].append(len(entry.row_groups))
            for group in entry.row_groups:
                of["num_rows"].append(group.num_rows)
                of["bounds"] += (group.start - end, group.stop - group.start)
                end = group.stop
        of["files"].append(files.setdefault(key, len(files)))
        of["columns"].append(columns.setdefault(entry.column, len(columns)))
        of["leaves"].append(-1 if entry.leaf is None else entry.leaf)
        of["problems"].append(-1 if entry.problem is None else problems.setdefault(entry.problem, len(problems)))
        of["slot_counts"].append(len(entry.slots))
        of["blocks"] += (slot.blocks for slot in entry.slots)
        of["slots"] += (slot.slot for slot in entry.slots)
    sections = [_section(of[name], kind) for name, kind in _SECTIONS.items()]
    header = {"files": len(files), "columns": [*columns], "problems": [*problems], "sections": [*map(len, sections)]}
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *files, *sections])


def _section(numbers: Iterable[int], kind: str) -> bytes:
    stored = array(kind, numbers)
    if sys.byteorder == "big":
        stored.byteswap()
    plain = stored.tobytes()
    return zlib.compress(b"".join(plain[at :: stored.itemsize] for at in range(stored.itemsize)))


def _count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"its size does not match {value!r:.60} files")
    return value


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r:.60} are not strings")
    return values


_MOST_BYTES = 256 * 1024 * 1024
"""The most that a section may take: few bytes of a stream can stand for very many."""


def _numbers(section: bytes, kind: str) -> array[int]:
    stream = zlib.decompressobj()
    planes = stream.decompress(section, _MOST_BYTES)
    if not stream.eof:
        raise ValueError("a section is cut off, or far too large")
    numbers = array(kind)
    width, count = numbers.itemsize, len(planes) // numbers.itemsize
    plain = bytearray(len(planes))
    for at in range(width):
        plain[at::width] = planes[at * count : (at + 1) * count]
    numbers.frombytes(plain)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
