"""Folders that Spark's structured streaming wrote: the log in `_spark_metadata` lists the files that are live.

    _spark_metadata/<batch>             the files that a batch added
    _spark_metadata/<batch>.compact     those of this batch and of all before it

The first line is `v1`, and each other one is a file in JSON, with its path as a URL. Spark reads what the newest
compact file lists, and the batches after it, and no other file of the folder: what a failed batch left is not live.
It fails at a file that is gone, or shorter than the log records; a file may grow.
(Spark 4.3: `FileStreamSinkLog`, `MetadataLogFileIndex`.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from parquet_bloom.errors import CorruptFileError, UnsupportedError, not_found
from parquet_bloom.storage.drive import read_each
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import Source, StorageOptions, is_local, resolve
from parquet_bloom.tables.roots import Root, for_writing

LOG_FOLDER = "_spark_metadata"

_BATCH = re.compile(r"(?P<number>\d+)(?P<compact>\.compact)?")
_VERSION = "v1"
_FIELDS = frozenset({"path", "size", "isDir", "modificationTime", "blockReplication", "blockSize", "action"})
"""The fields that are understood; an entry has all of them."""


def live(
    path: str, found: Sequence[Source], *, filesystem: Any = None, storage_options: StorageOptions = None
) -> list[Source]:
    """Return which of the files that were found below a sink's folder its log lists.

    Raises `UnsupportedError` for a log that is not understood or lists files elsewhere, `CorruptFileError` for one that
    is damaged or a file that is shorter than recorded, and `FileNotFoundError` for a file that is gone.
    """
    fs, inner = resolve(path, filesystem, storage_options)
    root = Root(inner if is_local(fs) else path)
    folder = Folder(
        f"{root.location.rstrip('/')}/{LOG_FOLDER}",
        storage_options=storage_options,
        filesystem=filesystem,
        guard=root.require,
    )
    below = {source.relative: source for source in found}
    sizes = _sizes(root, folder)
    for relative, size in sizes.items():
        if (source := below.get(relative)) is None:
            raise not_found(f"{path}: the log in {LOG_FOLDER} lists {relative}, which does not exist")
        if source.size < size:
            raise CorruptFileError(f"has {source.size:,} bytes, and the log records {size:,}", path=source.name)
    if not sizes:
        raise not_found(f"{path}: the log in {LOG_FOLDER} lists no file")
    return [source for source in found if source.relative in sizes]


def _sizes(root: Root, folder: Folder) -> dict[str, int]:
    """Return the size of each live file, by its path below the root."""
    sizes: dict[str, int] = {}
    for entry in _entries(folder):
        place, outside = root.place(unquote(entry["path"]))
        if outside is not None:
            raise UnsupportedError(
                f"{root.location} has a log of Spark's structured streaming ({LOG_FOLDER}) that lists "
                f"{entry['path']}, but {for_writing(outside)}; if the folder was moved or copied, remove its log: then "
                "all files in it are live"
            )
        relative = place.removeprefix(root.location).lstrip("/")
        if relative in sizes:
            raise UnsupportedError(f"{folder.name} lists {relative} twice, so Spark reads its rows twice")
        sizes[relative] = entry["size"]
    return sizes


def _entries(folder: Folder) -> Iterator[dict[str, Any]]:
    """Yield the files that are listed in the log."""
    names = list(_current(folder.names(), folder.name))
    for name, data in zip(names, read_each(map(folder.source, names)), strict=True):
        where = f"{folder.name}/{name}"
        try:
            version, *lines = data.decode().removesuffix("\n").split("\n")
            entries = [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(f"is not a whole batch of a log: {error}", path=where) from error
        if version != _VERSION:
            raise UnsupportedError(f"{where} is of version {version[:20]!r}; only {_VERSION} is understood")
        for entry in entries:
            _require_understood(entry, where)
            yield entry


def _current(names: Iterable[str], where: str) -> Iterator[str]:
    """Yield the files of the log that list what is live: the newest compact one, and all batches after it."""
    batches = {int(match["number"]): name for name in names if (match := _BATCH.fullmatch(name)) and not match[2]}
    compact = {int(match["number"]): name for name in names if (match := _BATCH.fullmatch(name)) and match[2]}
    first = max(compact, default=-1)
    if compact:
        yield compact[first]
    for number in range(first + 1, max(batches, default=first) + 1):
        if number not in batches:
            raise CorruptFileError(f"has a batch after {number}, but not {number} itself", path=where)
        yield batches[number]


def _require_understood(entry: Any, where: str) -> None:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise UnsupportedError(f"{where} has an entry with other fields than {', '.join(sorted(_FIELDS))}")
    is_file = entry["isDir"] is False and isinstance(entry["path"], str) and type(entry["size"]) is int
    if entry["action"] != "add" or not is_file or not re.match("[A-Za-z][A-Za-z0-9+.-]*:/|/", entry["path"]):
        raise UnsupportedError(
            f"{where} has an entry that is not understood: {json.dumps(entry)[:300]}; only files that are added are"
        )
