"""The certificate of `verify`: the digests of all that was verified, and what was proved of it.

It is one JSON document with a line for each file, written as the files are verified. Each file has the digest of all of
its bytes, of its footer, and of every column chunk's pages and filter, with the filter's verdict. `original` is its
shortest beginning that is a whole Parquet file with the same pages: what it was before filters were added.

The digest at the end is the SHA-256 of all bytes before the comma in front of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import parquet_bloom
from parquet_bloom.errors import CorruptFileError, UnsupportedError, without_secrets
from parquet_bloom.filters.parquet import StoredFilter
from parquet_bloom.format.footer import Footer, pages_extent
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.results import SCHEMA_VERSION, Record
from parquet_bloom.storage.digests import digests
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.storage.local_files import new_file, statuses

PROVED = (
    "A filter whose verdict is ok, without a cause, holds every value of its column chunk, except NaNs, which are "
    "counted in num_nans_missing: each of num_values values was decoded, hashed and looked up. Where the footer says "
    "that all data pages are dictionary-encoded, these are the values of the dictionary. A cause beside ok says why no "
    "value was looked up. The digests are SHA-256, computed afterwards, from the same version of the file and over its "
    "bytes as they are stored. A filter in other_filters covers the whole file. Hudi's is in the footer; the bytes of "
    "others are in other files and have no digest here."
)

Entry = dict[str, Any]


@contextlib.contextmanager
def writing(path: PathLike, sources: Iterable[Source]) -> Iterator[Certificate]:
    """Give a new certificate, whose file appears once the block has ended without an error.

    Those may read it who may read all of the files. Raises `FileExistsError` if there is a file already.
    """
    target = Path(path).expanduser()
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    with new_file(target, like=statuses(source.path for source in sources if source.is_local)) as file:
        certificate = Certificate(file)
        yield certificate
        certificate.end()


class Certificate:
    """A certificate that is being written, file by file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self._totals = Counter(
            dict.fromkeys(("num_files", "num_filters", "num_values", "num_findings", "num_errors"), 0)
        )
        made = {"schema_version": SCHEMA_VERSION, "written_by": f"parquet_bloom {parquet_bloom.__version__}"}
        self._write("{\n " + _members({**made, "began": _now(), "proved": PROVED}) + ',\n "files": [')

    def add(self, entry: Entry, totals: Counter[str]) -> None:
        """Write what is said of the next file, and count what it adds to the totals."""
        self._write(f"{',' if self._totals['num_files'] else ''}\n  {json.dumps(entry)}")
        self._totals.update(totals)

    def end(self) -> None:
        """Write the totals, and the digest of all that was written."""
        is_sound = not self._totals["num_findings"] and not self._totals["num_errors"]
        self._write("\n ],\n " + _members({**self._totals, "is_sound": is_sound, "ended": _now()}))
        self._write(f',\n "digest": "sha256:{self._digest.hexdigest()}"\n}}\n')

    def _write(self, text: str) -> None:
        self._digest.update(text.encode())
        self._file.write(text.encode())


def _members(said: Entry) -> str:
    return ",\n ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in said.items())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# ---- one file ----------------------------------------------------------------------------


def named(source: Source, **said: Any) -> Entry:
    """Return what is said of a file, with its name and size."""
    return {"path": without_secrets(source.name), "size": source.size, **said}


def certify(
    source: Source,
    footer: Footer,
    filters: Sequence[StoredFilter],
    verdicts: Sequence[Record],
    others: Sequence[Record],
) -> Entry:
    """Return what a certificate says of a file: the verdicts on its filters and on `others`, and all digests.

    Raises `ConcurrentChangeError` if it was changed since it was listed: the verdicts are then those of no file, and
    `UnsupportedError` where nothing would show that.
    """
    if not source.is_mtime_stable:
        raise UnsupportedError(
            "it cannot be certified: it changes too often, or its store has nothing that tells its versions apart"
        )
    of_footer, whole = ByteRange(footer.start, source.size - 8), ByteRange(0, source.size)
    original = ByteRange(0, _original_size(source, footer))
    chunks = [(row_group, leaf, _pages(chunk)) for row_group, leaf, chunk in footer.chunks()]
    places = {(stored.row_group, stored.leaf): _place(stored) for stored in filters}
    found = digests(source, {of_footer, whole, original, *places.values(), *(pages for *_, pages in chunks)})
    said = {key: _fields(row, _VERDICT) for key, row in zip(places, verdicts, strict=False)}

    def bytes_of(place: ByteRange) -> Entry:
        return {"offset": place.start, "length": len(place), "sha256": found.get(place)}

    def filter_of(key: tuple[int, LeafColumn]) -> Entry | None:
        return bytes_of(places[key]) | said.get(key, {"verdict": None}) if key in places else None

    return {
        **named(source),
        "sha256": found[whole],
        "created_by": footer.created_by,
        "footer": bytes_of(of_footer),
        "original": {"size": len(original), "sha256": found[original]} if original != whole else None,
        "chunks": [
            {"row_group": row_group, "column": leaf.name, **bytes_of(pages), "filter": filter_of((row_group, leaf))}
            for row_group, leaf, pages in chunks
        ],
        "other_filters": [_fields(row, _OTHER) for row in others],
    }


_VERDICT = ("verdict", "num_values", "num_missing", "num_nans_missing", "cause")
_OTHER = ("format", "column", *_VERDICT)


def _fields(row: Record, names: Iterable[str]) -> Entry:
    """Return fields of a verdict; not its example, since a certificate is for people who may not see values."""
    return {name: getattr(row, name) for name in names}


def _pages(chunk: Any) -> ByteRange:
    """Return where the footer says that a column chunk's pages are; nowhere if it is encrypted."""
    return _range(*((0, 0) if chunk is None else pages_extent(chunk)))


def _place(stored: StoredFilter) -> ByteRange:
    if stored.location is None:
        return _range(0, 0)
    return _range(stored.location.offset, stored.location.offset + (stored.length or stored.location.length or 0))


def _range(start: int, stop: int) -> ByteRange:
    return ByteRange(start, max(start, stop))


def _original_size(source: Source, footer: Footer) -> int:
    """Return the size of the shortest prefix that is a whole file with the same pages, or of all if none is known."""
    with contextlib.suppress(CorruptFileError, UnsupportedError):
        return run(source, whole_prefixes(footer))[0].file_size
    return source.size
