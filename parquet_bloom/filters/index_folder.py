"""Where the index of a directory lies; nothing else knows.

    /lake/events/                the directory
    /lake/events.bloom-index/    its index, unless the caller says where (`at`)
        _bloom-00000012.json     its files: engines that read a whole folder skip such names, and none is `*.parquet`
    /lake/events/_bloom_index/   where earlier releases had it: it is not used, and moved by the next refresh

A directory has one index whatever it is called: by a relative path, by a URL, or by a symbolic link.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.storage import system
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    is_directory,
    is_local,
    names_in,
    resolve,
    says_parquet,
)
from parquet_bloom.tables.detect import table_around

SUFFIX = ".bloom-index"
PREFIX = "_bloom-"
INSIDE = "_bloom_index"


def folder_of(
    root: str, at: PathLike | None = None, *, storage_options: StorageOptions = None, filesystem: Any = None
) -> Folder | None:
    """Return the folder of the index of a directory; None where only `at` could name one."""
    options: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    if at is None:
        fs, inner = _located(root, **options)
        if _why_none_beside(fs, inner, root) is not None:
            return None
        at = f"{inner if is_local(fs) else root.rstrip('/')}{SUFFIX}"
    return folder_at(at, root, **options)


def _located(root: str, *, storage_options: StorageOptions, filesystem: Any) -> tuple[Any, str]:
    """Return the file system of a directory, and its path there, which is always the same."""
    fs, inner = resolve(root, filesystem, storage_options)
    return fs, _real(inner) if is_local(fs) else inner.rstrip("/")


def _why_none_beside(fs: Any, inner: str, root: str) -> str | None:
    """Return why nothing beside a directory is its index, whatever lies there."""
    if not re.search("/[^/]+$", inner):
        return "it is the top of a disk or a store"
    if "=" in inner:
        return "folders such as name=value in its path are partitions of a dataset"
    if not is_local(fs):
        return "its path is a chain of URLs" if "::" in root else None
    path = Path(f"{inner}{SUFFIX}")
    if path.is_symlink():
        return f"{path} is a symbolic link"
    if not path.exists():
        return None
    above, owners = path.parent.stat(), {0, system.user(), Path(inner).stat().st_uid if Path(inner).exists() else 0}
    if above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH and path.stat().st_uid not in owners:
        return f"{path} is another user's, in a folder where everybody may make one"
    return None


def folder_at(at: PathLike, root: str, *, storage_options: StorageOptions = None, filesystem: Any = None) -> Folder:
    """Return the folder `at` a place, as that of the index of a directory."""
    fs, inner = resolve(root, filesystem, storage_options)
    place = os.fspath(at)
    if "://" not in place and (filesystem is None or is_local(fs)):
        place = resolve(place, None, None)[1]  # for executors, too
    return Folder(
        place,
        storage_options=storage_options,
        filesystem=filesystem,
        prefix=PREFIX,
        access_of=inner if is_local(fs) else None,
    )


def folder_inside(root: str, *, storage_options: StorageOptions = None, filesystem: Any = None) -> Folder | None:
    """Return the folder in which earlier releases kept the index of a directory; None for a symbolic link."""
    folder = Folder(f"{root.rstrip('/')}/{INSIDE}", storage_options=storage_options, filesystem=filesystem)
    return None if is_local(folder.fs) and Path(folder.path).is_symlink() else folder


def indexes_of(
    root: str, at: PathLike | None = None, *, storage_options: StorageOptions = None, filesystem: Any = None
) -> list[Folder]:
    """Return those of a directory's folders for an index that are there."""
    options: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    folders = (folder_of(root, at, **options), folder_inside(root, **options))
    return [folder for folder in folders if folder is not None and is_directory(folder.fs, folder.path, literal=True)]


def folders_of(sources: Sequence[Source]) -> list[str]:
    """Return the folders of files; in a store, of which each look is a request, the one above them all."""
    folders = [*dict.fromkeys(posixpath.dirname(source.path) for source in sources)]
    return folders if not sources or sources[0].is_local else [posixpath.commonpath(folders)]


def with_above(folders: Iterable[str]) -> Iterator[str]:
    """Yield these folders and those above them, each once."""
    seen: set[str] = set()
    for folder in folders:
        while folder and folder not in seen:
            seen.add(folder)
            yield folder
            folder = posixpath.dirname(folder) if folder != "/" else ""


def indexes_above(fs: Any, folders: Iterable[str]) -> Iterator[tuple[str, Folder]]:
    """Yield those of these folders, and of the folders above them, that have an index, each with the index's."""
    for folder in with_above(folders):
        for index in indexes_of(folder, filesystem=fs)[:1]:
            yield folder, index


def moving_advice(root: str) -> str:
    """Return what to say of an index that is still inside a directory."""
    return (
        f"{root} has an index in its folder {INSIDE}, where other programs take it for data, so it is not used: "
        "`parquet-bloom index refresh` moves it"
    )


def required_folder(
    root: str, at: PathLike | None = None, *, storage_options: StorageOptions = None, filesystem: Any = None
) -> Folder:
    """Return the folder of the index of a directory, to write to.

    Raises `UnsupportedError` for a new one where another program would meet it as a part of its own data, or where
    nothing can be written.
    """
    options: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    folder = folder_of(root, at, **options)
    if folder is None:
        raise UnsupportedError(
            f"no index can lie beside {root}: {_why_none_beside(*_located(root, **options), root)}; {SAY_WHERE}"
        )
    if not folder.names() and (reason := _why_met(folder, _located(root, **options)[1])) is not None:
        raise UnsupportedError(f"an index cannot lie in {folder.name}, {reason}; {SAY_WHERE}")
    return folder


SAY_WHERE = "say with at= in which other folder to keep it"


def _why_met(folder: Folder, root: str) -> str | None:
    """Return why other programs would meet an index in a folder, or it cannot be made; see docs/pages/indexing.md."""
    here = is_local(folder.fs)
    path = _real(folder.path) if here else folder.path.rstrip("/")
    parent, _, name = path.rpartition("/")
    if path == root or path.startswith(f"{root}/"):
        return "which is in the directory that it is of"
    if "=" in name:
        return "because folders such as name=value are partitions of a dataset"
    if table := table_around(folder.fs, path):
        return f"which is in the {table[0]} table {table[1]}"
    for other in sorted(names_in(folder.fs, parent or "/")):
        is_mark = "=" in other or (other.startswith("_") and not other.startswith("__"))
        if is_mark or (says_parquet(other) and not is_directory(folder.fs, f"{parent}/{other}", literal=True)):
            return f"because {parent or '/'} is read as one dataset, as {other} in it shows"
    if here:
        existing = next(above for above in (Path(path), *Path(path).parents) if above.exists())
        if not os.access(existing, os.W_OK):
            return f"because nothing may be written in {existing}"
    return None


def _real(path: str) -> str:
    return system.slashed(os.path.realpath(path)).rstrip("/")
