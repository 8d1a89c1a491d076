"""Finds files: paths, globs, directories and URLs become `Source`s, on local disks and in the stores of fsspec."""

from __future__ import annotations

import contextlib
import errno
import glob as globbing
import logging
import os
import re
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError, not_found, without_secrets
from parquet_bloom.format.footer import FOOTER_GUESS, LOCAL_FOOTER_GUESS
from parquet_bloom.format.schema import ColumnPath, LeafColumn, find_leaf
from parquet_bloom.storage import local_files, s3, system
from parquet_bloom.storage.partitions import PARTITION, Partitions, partitions_of
from parquet_bloom.storage.store_errors import ask, code_of, is_absence, store_error
from parquet_bloom.values.interchange import values_of

LOG = logging.getLogger("parquet_bloom")

MTIME_STABLE_SECONDS = 2.0
"""A file younger than this may change again within the same tick of its store's clock."""

PathLike = str | os.PathLike[str]
StorageOptions = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Source:
    """One existing file. `name` is how users see it, `path` what its filesystem calls it.

    `version` changes when the file does: inode and modification time, an ETag, or whatever the store offers.
    `relative` is the path below the directory or the glob's fixed part that it was found under. It `is_mtime_stable` if
    no change from now on can leave the version as it is. Of `path`, the first `named` characters are that directory or
    fixed part, none of a file that was named itself, and the first `base` the directory, named or found by a glob,
    below which folders `name=value` are partitions to every engine, or None.

    It `is_unfamiliar` if it was found in a directory under a name that does not say Parquet: it may be no such file.
    It `is_linked_out` if `storage.links` found that it must not be changed.
    """

    fs: Any = field(repr=False)
    path: str
    name: str
    size: int
    version: str
    relative: str
    is_local: bool = False
    is_mtime_stable: bool = True
    named: int = field(default=0, repr=False, compare=False)
    base: int | None = field(default=None, repr=False, compare=False)
    is_unfamiliar: bool = field(default=False, repr=False, compare=False)
    is_linked_out: bool = field(default=False, repr=False, compare=False)

    @property
    def partitions(self) -> Partitions:
        """The partition values in its folders' names."""
        return partitions_of(self.path, named=self.named, base=len(self.path) if self.base is None else self.base)

    def find_leaf(self, leaves: Iterable[LeafColumn], path: ColumnPath) -> LeafColumn:
        """Return the leaf at `path`; raises `ColumnNotFoundError`, which tells a partition column from a typo."""
        try:
            return find_leaf(leaves, path, where=self.name)
        except ColumnNotFoundError as error:
            if len(path) == 1 and path[0] in self.partitions.constants:
                raise ColumnNotFoundError(error.name, (), where=self.name, advice=PARTITION) from None
            raise

    @property
    def local(self) -> Path | None:
        """The path on this machine's file systems, or None."""
        return Path(self.path) if self.is_local else None

    @property
    def identity(self) -> str | tuple[str, str, int, str] | None:
        """An identity that no other file, and no other state of this file, has; None if there is none."""
        if not self.is_mtime_stable:
            return None
        # A local version names device and inode; in a store an object has its version under its name alone.
        return self.version if self.is_local else (self.fs._fs_token, self.path, self.size, self.version)

    @property
    def footer_guess(self) -> int:
        """How much to read first of the file's end: on a local disk another request is cheaper than more bytes."""
        return LOCAL_FOOTER_GUESS if self.is_local else FOOTER_GUESS


# ---- finding files -----------------------------------------------------------------------


def find(
    paths: PathLike | Iterable[PathLike],
    *,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    all_rows: bool = False,
    literal: bool = False,
    lost: dict[str, OSError] | None = None,
) -> list[Source]:
    """Return the files that `paths` name: files, globs, directories (recursively), fsspec URLs.

    Of a directory those that Spark would read, whatever they are called; `Strays` and `parquet_only` tell which of them
    are not Parquet. Below directories and globs, hidden names are skipped, as engines do. Files come in the
    order of `paths`, sorted within each, and only once. Raises `FileNotFoundError` for a path that names nothing; with
    `all_rows` `UnsupportedError` for a directory with log files of a Hudi table, whose rows are in no Parquet file, and
    for one with data files of a Paimon table, of which some are no longer live, or are merged by readers. With
    `literal` each path is that of one file, whatever characters it has. With `lost`, that gets the error of a path
    that names nothing, or may not be looked at, and the others are returned.
    """
    unique: dict[tuple[int, str], Source] = {}
    resolved = [(*_located(path, i, filesystem, storage_options), path) for i, path in enumerate(listed(paths), 1)]
    known = _infos([(fs, inner) for fs, inner, _ in resolved])
    for fs, inner, path in resolved:
        try:
            sources = _found(fs, inner, path, known.get((id(fs), inner)), all_rows, literal)
        except (FileNotFoundError, PermissionError) as error:
            if lost is None:
                raise
            lost[os.fspath(path)] = error
            continue
        for source in sources:
            if all_rows and source.path != inner:
                _refuse_part(source.path)
            key = id(fs), source.path
            unique[key] = _found_twice(unique[key], source) if key in unique else source
    return list(unique.values())


def _found(fs: Any, inner: str, path: Any, info: dict[str, Any] | None, all_rows: bool, literal: bool) -> list[Source]:
    """Return the files that one path names (`inner` to its file system), with its `info` if that is already known."""
    if is_open_file(path):
        return [replace(remote_source(fs, fs.info(inner), "", fs.name), name=fs.name)]
    if "\0" in inner:
        raise not_found(f"{inner!r}: no file has a null byte in its name")
    if info is not None and info["type"] == "file" and info.get("size") is not None:
        return [remote_source(fs, info, inner.rpartition("/")[0], os.fspath(path))]
    if literal:
        return [_only(fs, inner, os.fspath(path))]
    sources = _expand(fs, inner, at_home(os.fspath(path)), all_rows)
    if not sources:
        raise not_found(f"{os.fspath(path)}: {_why_nothing(fs, inner, os.fspath(path))}")
    return sources


def _only(fs: Any, inner: str, path: str) -> Source:
    """Return the one file of a path that is no glob."""
    if is_local(fs):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(inner)
            if not stat.S_ISDIR(status.st_mode):
                return _local_source(fs, inner, status, None, relative_name=False)
    elif (info := _look(fs, inner, path)) is not None and info["type"] != "directory":
        return remote_source(fs, info, inner.rpartition("/")[0], path)
    raise FileNotFoundError(f"{path}: no such file or directory")


def _found_twice(first: Source, again: Source) -> Source:
    """Return a file that two paths name, by which different folders may be partitions."""
    if not again.is_unfamiliar:
        first = replace(first, is_unfamiliar=False)
    return first if first.base == again.base else replace(first, named=min(first.named, again.named), base=None)


def _why_nothing(fs: Any, path: str, asked: str) -> str:
    """Return why a path names no files."""
    if not exists(fs, path, asked):
        return "no file matches" if any(char in path for char in "*?[") else "no such file or directory"
    others = len(files_below(path, filesystem=fs))
    skipped = f" ({others:,} other{'s' if others > 1 else ''} skipped)" if others else ""
    return f"directory has no Parquet files{skipped}"


def find_flat(paths: Iterable[str], *, storage_options: StorageOptions = None) -> list[Source] | None:
    """Return every visible file of the given files and directories, whatever its name, sorted by path.

    None where there is more to it: folders below, summary files, globs, or a path that names nothing. Raises
    `UnsupportedError` as `find` does with `all_rows`.
    """
    unique: dict[tuple[int, str], Source] = {}
    for path in paths:
        fs, inner = resolve(path, None, storage_options)
        sources = _flat_local(fs, inner) if is_local(fs) else _flat_remote(fs, inner, path)
        if not sources:
            return None
        for source in sources:
            if source.path != inner:
                _refuse_part(source.path)
        unique.update({(id(fs), source.path): source for source in sources})
    return sorted(unique.values(), key=lambda source: source.path.encode("utf-16-be", "surrogatepass"))


def _flat_local(fs: Any, path: str) -> list[Source] | None:
    if not os.path.isdir(path):
        return _expand_local(fs, path, None, path) if os.path.isfile(path) else None
    root = len(path)
    sources = []
    with os.scandir(path) as entries:
        for entry in entries:
            _refuse_log(entry.name, path)
            if entry.name.startswith(_SUMMARIES) or (entry.is_dir() and not _is_hidden(entry.name)):
                return None
            if not _is_hidden(entry.name):
                status = system.status_of(entry)
                sources.append(stat_source(fs, entry.path, entry.path, status, entry.name, named=root, base=root))
    return sources


def _flat_remote(fs: Any, path: str, asked: str) -> list[Source] | None:
    fs.invalidate_cache(path)
    try:
        listed = ask(asked, fs.ls, path, detail=True)
    except FileNotFoundError:
        return None
    sources = []
    for info in listed:
        name = info["name"].rstrip("/").rpartition("/")[2]
        _refuse_log(name, path)
        if name.startswith(_SUMMARIES) or (info["type"] == "directory" and not _is_hidden(name)):
            return None
        is_marker = info["name"].rstrip("/") == path.rstrip("/") and len(listed) > 1
        if not _is_hidden(name) and not is_marker:
            sources.append(remote_source(fs, info, path, asked, base=path.rstrip("/")))
    return sources


_SUMMARIES = ("_metadata", "_common_metadata", "_spark_metadata")
"""How names begin by which Spark learns more of a folder than from its files."""


def find_in_folders(path: str, *, storage_options: StorageOptions = None) -> list[Source] | None:
    """Return every visible file below a directory whose files are all in folders `name=value`, sorted by path.

    Above each file are as many folders. None where there is more to it: other folders or files, links to folders,
    summary files, empty files. Raises `UnsupportedError` as `find` does with `all_rows`.
    """
    fs, inner = resolve(path, None, storage_options)
    top = inner.rstrip("/")
    sources = _in_local_folders(fs, top) if is_local(fs) else _in_remote_folders(fs, top, path)
    if not sources or len({source.relative.count("/") for source in sources}) > 1:
        return None
    for source in sources:
        _refuse_part(source.path)
    return sorted(sources, key=lambda source: source.path.encode("utf-16-be", "surrogatepass"))


def _in_local_folders(fs: Any, top: str) -> list[Source] | None:
    if not os.path.isdir(top):
        return None
    sources = []
    folders = deque([top])
    while folders:
        folder = folders.popleft()
        with os.scandir(folder) as entries:
            for entry in entries:
                _refuse_log(entry.name, folder)
                if entry.name.startswith(_SUMMARIES):
                    return None
                if _is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    if entry.is_symlink() or "=" not in entry.name:
                        return None
                    folders.append(entry.path)
                    continue
                status = system.status_of(entry)
                if folder == top or not status.st_size:
                    return None
                relative = entry.path[len(top) + 1 :]
                sources.append(stat_source(fs, entry.path, entry.path, status, relative, named=len(top), base=len(top)))
    return sources


def _in_remote_folders(fs: Any, top: str, asked: str) -> list[Source] | None:
    fs.invalidate_cache(top)
    sources = []
    for name, info in _below(fs, top, asked).items():
        *folders, last = name[len(top) :].strip("/").split("/")
        _refuse_log(last, name.rpartition("/")[0])
        if last.startswith(_SUMMARIES):
            return None
        if any(map(_is_hidden, filter(None, (*folders, last)))):
            continue
        if name.endswith("/") or not info["size"] or not folders or not all("=" in part for part in folders):
            return None
        sources.append(remote_source(fs, info, top, asked, named=len(top), base=top))
    return sources


def _infos(paths: list[tuple[Any, str]]) -> dict[tuple[int, str], dict[str, Any]]:
    """Return the infos of remote files of which many are in one directory, by a listing instead of many requests.

    Whatever a store remembers of its listings is forgotten first; files may have been replaced since.
    """
    folders: dict[tuple[int, str], list[str]] = {}
    stores = {id(fs): fs for fs, _ in paths}
    for fs, path in paths:
        if not is_local(fs):
            folders.setdefault((id(fs), fs._parent(path)), []).append(path)
    infos = {}
    for (store, folder), members in folders.items():
        fs = stores[store]
        fs.invalidate_cache(folder)
        for path in members:
            fs.invalidate_cache(path)
        if len(members) >= WORTH_LISTING:
            listed = in_listing(fs, folder)
            infos.update({(store, path): listed[path] for path in members if path in listed})
    return infos


def listed(paths: Any) -> list[Any]:
    """Return `paths` as a list, also where they are a single path, open file or buffer, or a column of Arrow's."""
    if isinstance(paths, str | os.PathLike) or is_open_file(paths):
        return [paths]
    if isinstance(paths, Mapping):
        return list(paths)
    found = values_of(paths, None, what="paths")
    return found if isinstance(found, list) else list(found.to_pylist())


def is_open_file(path: Any) -> bool:
    """Return whether this is not a path but a file itself: an open one, or a buffer with its bytes."""
    is_buffer = isinstance(path, bytes | bytearray | memoryview) or hasattr(path, "to_pybytes")  # pyarrow's
    return is_buffer or (hasattr(path, "read") and hasattr(path, "seek"))


def at_home(path: str) -> str:
    """Return a path with its `~` expanded, unless a file has that name."""
    return os.path.expanduser(path) if path.startswith("~") and not os.path.lexists(path) else path


def _located(path: Any, number: int, filesystem: Any, storage_options: StorageOptions) -> tuple[Any, str]:
    if not is_open_file(path):
        return resolve(os.fspath(path), filesystem, storage_options)
    from parquet_bloom.storage._adapters import OpenFile

    opened = OpenFile(path, number)
    return opened, opened.path


class _LocalDisks:
    """fsspec's file system for local paths. fsspec is imported only when more than its identity is needed."""

    def __getattr__(self, name: str) -> Any:
        from fsspec.implementations.local import LocalFileSystem

        return getattr(LocalFileSystem(), name)

    def __reduce__(self) -> str:
        return "LOCAL"  # there is only one, also in another process


LOCAL: Any = _LocalDisks()
"""The file system of every local path."""


def as_fsspec(filesystem: Any) -> Any:
    """Return a file system of fsspec: pyarrow's are wrapped or, if they wrap one of fsspec's, unwrapped."""
    if not type(filesystem).__module__.startswith("pyarrow."):
        fsspec_local = sys.modules.get("fsspec.implementations.local")
        return LOCAL if fsspec_local and type(filesystem) is fsspec_local.LocalFileSystem else filesystem
    from pyarrow import fs

    from parquet_bloom.storage._adapters import ArrowFiles

    if isinstance(filesystem, fs.LocalFileSystem):
        return LOCAL
    if isinstance(filesystem, fs.PyFileSystem) and isinstance(filesystem.handler, fs.FSSpecHandler):
        return filesystem.handler.fs
    return ArrowFiles(filesystem)


def resolve(path: str, filesystem: Any, storage_options: StorageOptions) -> tuple[Any, str]:
    """Return the file system of a user's path, and the path as that file system spells it."""
    if filesystem is not None and filesystem is not LOCAL:
        fs = as_fsspec(filesystem)
        return fs, fs._strip_protocol(path)
    path = at_home(path)
    if "://" not in path and ("::" not in path or os.path.lexists(path)):
        return LOCAL, system.slashed(os.path.abspath(path))
    from fsspec.core import url_to_fs

    options = dict(storage_options or {})
    if path.startswith(("s3://", "s3a://")):
        options["config_kwargs"] = s3.CONFIG | (options.get("config_kwargs") or {})
    try:
        fs, inner = ask(path, url_to_fs, path, **options)
        return as_fsspec(fs), inner
    except ImportError as error:
        raise UnsupportedError(f"{path}: {_missing(error)}") from error


def _missing(error: ImportError) -> str:
    """Return what to install for a kind of URL."""
    needed = (error.__cause__ if isinstance(error.__cause__, ImportError) else error).name
    if needed is None:
        return str(error)
    extra = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure"}.get(needed)
    package = f"'parquet-bloom[{extra}]'" if extra else needed
    return f"reading such URLs needs {needed}: pip install {package}"


def is_local(fs: Any) -> bool:
    """Return whether a file system is this machine's."""
    if fs is LOCAL:
        return True
    fsspec_local = sys.modules.get("fsspec.implementations.local")
    return fsspec_local is not None and isinstance(fs, fsspec_local.LocalFileSystem)


def _expand(fs: Any, path: str, asked: str, all_rows: bool) -> list[Source]:
    is_glob = any(c in path for c in "*?[") and not exists(fs, path, asked)
    if is_glob:
        root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        names = sorted(globbing.glob(path, recursive=True)) if is_local(fs) else _globbed(fs, path, root, asked)
        return [s for name in names for s in _expand_one(fs, name, root, asked, all_rows) if _visible(s.path, root)]
    return _expand_one(fs, path, None, asked, all_rows)


def _expand_one(fs: Any, path: str, root: str | None, asked: str, all_rows: bool) -> list[Source]:
    if is_local(fs):
        return _expand_local(fs, path, root, asked, all_rows)
    info = _look(fs, path, asked)
    if info is None:
        return []
    if info["type"] != "directory":
        if root is not None:
            return [remote_source(fs, info, root, asked, named=len(root))]
        return [remote_source(fs, info, path.rpartition("/")[0], asked)]
    top = path.rstrip("/")
    below = root if root is not None else top
    infos = _below(fs, path, asked)
    if all_rows:
        for name in infos:
            folder, _, base = name.rpartition("/")
            if base.startswith(".") and _visible(folder, below):
                _refuse_log(base, folder)
    folders = {name.rstrip("/").rpartition("/")[0] for name in infos}  # a store may list an object that marks one
    return [
        remote_source(fs, infos[name], below, asked, named=len(below), base=top)
        for name in sorted(infos)
        if not name.endswith("/") and name not in folders and name != top and _visible(name, below)
    ]


def exists(fs: Any, path: str, asked: str | None = None) -> bool:
    """Return whether a path exists; `os.path.exists` and the stores' own treat every error as absence."""
    return _exists_here(path) if is_local(fs) else _look(fs, path, asked or path) is not None


_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def _exists_here(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
    except ValueError:  # a null character
        return False
    return True


def _look(fs: Any, path: str, asked: str) -> dict[str, Any] | None:
    """Return a store's info on a file or directory, None if there is none."""
    info: dict[str, Any] | None = None
    try:
        info = ask(asked, fs.info, path)
    except FileNotFoundError as error:
        _require_absence(error, asked)
    except OSError as error:
        if s3.is_s3(fs) and (code_of(error) or "").isdigit():
            ask(asked, s3.give_reason, fs, path)  # a HEAD has no room to say why it was refused
        raise
    return info


def _require_absence(error: FileNotFoundError, asked: str) -> None:
    """Raise the cause of an error that some stores' libraries report as "not found"."""
    if not is_absence(error) and isinstance(error.__cause__, Exception):
        raise store_error(error.__cause__, asked) from error


def _below(fs: Any, path: str, asked: str, *, hidden: bool = False) -> dict[str, dict[str, Any]]:
    """Return a store's info on every file below a directory; raises for a folder that cannot be listed.

    fsspec's own walk passes over such folders, and with them over their rows. `hidden` ones are wanted as well.
    """
    if not _walks(fs):
        return dict(ask(asked, fs.find, path, detail=True))
    entries = _walked(fs, path, asked, hidden=hidden)
    return {name: info for name, info in entries if info["type"] != "directory"}


def _globbed(fs: Any, pattern: str, root: str, asked: str) -> list[str]:
    """Return what matches a glob in a store, including directories."""
    if not _walks(fs):
        return sorted(ask(asked, fs.glob, pattern))
    from fsspec.utils import glob_translate

    depth = None if "**" in pattern else pattern[len(root) :].strip("/").count("/")
    matches = re.compile(glob_translate(pattern)).match
    return sorted(name for name, _ in _walked(fs, root, asked, depth=depth) if matches(name))


def _walks(fs: Any) -> bool:
    """Return whether a store's `find` is fsspec's walk from folder to folder, not a single listing."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    while isinstance(inner := getattr(fs, "fs", None), AbstractFileSystem):  # of caches and the like
        fs = inner
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is AsyncFileSystem._find
    return getattr(type(fs), "find", None) is AbstractFileSystem.find


def _walked(
    fs: Any, top: str, asked: str, *, depth: int | None = None, hidden: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of everything below a directory, `depth` folders deep at most, with what the store tells of it."""
    folders = deque([(f"{top}/" if "://" in top else top, 0)])  # servers tell a folder by its slash
    while folders:
        folder, level = folders.popleft()
        try:
            listed = ask(asked, fs.ls, folder, detail=True)
        except NotADirectoryError:
            continue
        except FileNotFoundError as error:
            _require_absence(error, asked)
            continue  # gone since it was listed
        for info in listed:
            name = info["name"].rstrip("/")
            if name == folder.rstrip("/"):
                continue
            yield name, info
            is_wanted = info["type"] == "directory" and (hidden or not _is_hidden(name.rpartition("/")[2]))
            if is_wanted and (depth is None or level < depth):
                folders.append((info["name"], level + 1))


def _expand_local(fs: Any, path: str, root: str | None, asked: str, all_rows: bool = False) -> list[Source]:
    relative_names = not os.path.isabs(asked) and "://" not in asked
    if not os.path.isdir(path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return []
        return [_local_source(fs, path, status, root, relative_names)]
    below = root if root is not None else path
    shown = os.path.relpath(path) if relative_names else path
    sources = []
    entered: set[str] = set()
    for folder, folders, files in os.walk(path, followlinks=True, onerror=_complain):
        if (real := os.path.realpath(folder)) in entered:  # by way of a symbolic link
            folders.clear()
            continue
        entered.add(real)
        folder = system.slashed(folder)
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        inside, seen = os.path.join(folder, ""), os.path.join(shown, folder[len(path) :].lstrip("/"), "")
        for name in sorted(files):
            if all_rows and name[0] == ".":
                _refuse_log(name, folder)
            if _is_hidden(name):
                continue
            whole = inside + name
            try:
                status = os.stat(whole)
            except FileNotFoundError:  # a link that leads nowhere, or a file that has just gone
                continue
            relative = whole[len(below) :].lstrip("/")
            sources.append(stat_source(fs, whole, seen + name, status, relative, named=len(below), base=len(path)))
    return sources


_HUDI_LOG = re.compile(r"\.[^_.][^_]*_\d+\.log\.\d+(_[^_]*)?")


_PAIMON_FILE = re.compile(
    r"(?P<folder>.*)/bucket-(?:\d+|postpone)/[^/]*[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}-\d+\.parquet"
)


def _refuse_part(path: str) -> None:
    if "/bucket-" in path and (match := _PAIMON_FILE.fullmatch(path)):
        raise UnsupportedError(
            f"{match['folder']} has data files of a Paimon table, and only the table knows which of them are live and "
            "how they are read; give the table's own directory, alone, with storage_options= if it needs any"
        )


def _refuse_log(name: str, folder: str) -> None:
    if _HUDI_LOG.fullmatch(name):
        raise UnsupportedError(
            f"{folder} has log files of a Hudi table, whose rows are not in any Parquet file; give the table's own "
            "directory, alone, with storage_options= if it needs any"
        )


def _complain(error: OSError) -> None:
    raise error  # a folder that cannot be listed may hold rows


def _local_source(fs: Any, path: str, status: os.stat_result, root: str | None, relative_name: bool) -> Source:
    """Return a file that was named itself, or that a glob with the fixed part `root` found."""
    name = os.path.relpath(path) if relative_name else path
    relative = os.path.relpath(path, (os.path.dirname(path) if root is None else root) or "/")
    return stat_source(fs, path, name, status, relative, named=len(root or ""))


def stat_source(
    fs: Any, path: str, name: str, status: os.stat_result, relative: str, *, named: int = 0, base: int | None = None
) -> Source:
    """Return a local file with its size and identity."""
    is_mtime_stable = max(status.st_mtime, status.st_ctime) < time.time() - MTIME_STABLE_SECONDS
    is_unfamiliar = base is not None and not says_parquet(path)
    version = local_files.version(status)
    if os.sep != "/":
        path, name, relative = map(system.slashed, (path, name, relative))
        relative = relative.lstrip("/")
    return Source(
        fs,
        path,
        name=name,
        size=status.st_size,
        version=version,
        relative=relative,
        is_local=True,
        is_mtime_stable=is_mtime_stable,
        named=named,
        base=base,
        is_unfamiliar=is_unfamiliar,
    )


def remote_source(
    fs: Any, info: dict[str, Any], root: str, asked: str, *, named: int = 0, base: str | None = None
) -> Source:
    """Return an object with its size and identity, as a listing or a HEAD tells them."""
    path = info["name"]
    scheme = asked.partition("://")[0] if "://" in asked else ""
    name = f"{scheme}://{path.lstrip('/')}" if scheme and "::" not in asked and "://" not in path else path
    relative = path[len(root) :].lstrip("/") if path.startswith(root) else path.rpartition("/")[2]
    version, is_mtime_stable = remote_version(info), _is_mtime_stable(fs, info)
    at = len(base) if base is not None and path.startswith(base) else None
    is_unfamiliar = base is not None and not says_parquet(path)
    return Source(
        fs,
        path,
        name=without_secrets(name),
        size=info["size"] or 0,
        version=version,
        relative=relative,
        is_local=False,
        is_mtime_stable=is_mtime_stable,
        named=named,
        base=at,
        is_unfamiliar=is_unfamiliar,
    )


_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "CRC")
DATES = ("LastModified", "last_modified", "mtime", "updated", "created")


def remote_version(info: dict[str, Any]) -> str:
    """Return what identifies an object's content: its generation or ETag, or its time."""
    if (generation := info.get("generation")) is not None:  # Google's ETag also changes with the metadata
        return f"{info['size']}-{generation}"
    for key in (*_TAGS, *DATES):
        if info.get(key) is not None:
            return f"{info['size']}-{one_spelling(info[key])}"
    return f"{info['size']}"


def wait_until_stable(sources: Iterable[Source]) -> bool:
    """Wait until no file can change without a trace in its times; return whether it did: list them again then."""
    if all(source.is_mtime_stable for source in sources):
        return False
    time.sleep(MTIME_STABLE_SECONDS)
    return True


def _is_mtime_stable(fs: Any, info: dict[str, Any]) -> bool:
    if not hasattr(fs, "_fs_token"):
        return False
    if any(info.get(key) is not None for key in ("generation", *_TAGS)):
        return True
    for key in DATES:
        if (value := info.get(key)) is not None:
            try:
                return float(one_spelling(value)) < time.time() - MTIME_STABLE_SECONDS
            except ValueError:
                return False
    return False


def one_spelling(value: Any) -> str:
    """Return one spelling of what listings and single requests spell differently: dates, quoted tags."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    return str(value.timestamp() if isinstance(value, datetime) else value).strip('"')


def _visible(path: str, root: str) -> bool:
    below = path[len(root) :] if path.startswith(root) else path.rpartition("/")[2]
    return not any(_is_hidden(part) for part in below.split("/") if part)


def _is_hidden(name: str) -> bool:
    """Return whether Spark skips a name; `_year=2026` is a partition in spite of its underscore."""
    return name[0] == "." or (name[0] == "_" and "=" not in name) or name.endswith("._COPYING_")


def says_parquet(name: str) -> bool:
    """Return whether a name ends as those of Parquet files do."""
    return name.lower().endswith((".parquet", ".parq", ".pq"))


WORTH_LISTING = 8
"""For so many files in one directory, one listing is cheaper than a request for each."""


def in_listing(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    """Return the infos in a directory, by path; none if it cannot be listed."""
    with contextlib.suppress(Exception):  # stores have errors of their own for what they cannot list
        return {info["name"]: info for info in fs.ls(folder, detail=True)}
    return {}


def names_in(fs: Any, folder: str) -> set[str]:
    """Return the names in a folder; none if it does not exist or may not be listed. Raises all other errors."""
    # An error that may pass is raised: what is taken for no table is read, and written to, as plain files.
    if is_local(fs):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            return set(os.listdir(folder))
        return set()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError, ValueError, NotImplementedError):
        return {name.rstrip("/").rpartition("/")[2] for name in ask(folder, fs.ls, folder, detail=False)}
    return set()


def files_below(
    path: str,
    *,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    why_outside: Callable[[str], str | None] | None = None,
) -> dict[str, int]:
    """Return the size of every file below a directory, hidden ones included, by its path there.

    `why_outside` tells of a symbolic link's path there why it is not followed, or None. Raises `UnsupportedError` for
    such a link to a folder; a file has the size of the link.
    """
    fs, top = resolve(path, filesystem, storage_options)
    top = top.rstrip("/")
    sizes: dict[str, int] = {}
    if not is_local(fs):
        fs.invalidate_cache(top)
        for name, info in _below(fs, top, path, hidden=True).items():
            sizes[name.removeprefix(top).lstrip("/")] = info["size"]
        return sizes
    entered: set[str] = set()
    for folder, folders, files in os.walk(top or "/", followlinks=True, onerror=_complain):
        if (real := os.path.realpath(folder)) in entered:
            folders.clear()
            continue
        entered.add(real)
        folder = system.slashed(folder)
        for name in files:
            whole = f"{folder.rstrip('/')}/{name}"
            below = whole[len(top) :].lstrip("/")
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(whole)
                if stat.S_ISLNK(status.st_mode) and (why_outside is None or why_outside(below) is None):
                    status = os.stat(whole)
                sizes[below] = status.st_size
        for name in folders:
            whole = f"{folder.rstrip('/')}/{name}"
            if why_outside is None or not os.path.islink(whole):
                continue
            if (reason := why_outside(whole[len(top) :].lstrip("/"))) is not None:
                raise UnsupportedError(f"{whole} has files of the table, but {reason}")
    return sizes


def is_directory(fs: Any, path: str, *, literal: bool = False) -> bool:
    """Return whether `path`, as users write it, is a directory (or a glob, which means several files)."""
    is_glob = not literal and any(c in path for c in "*?[")
    if is_local(fs):
        return bool(fs.isdir(path)) or (is_glob and not fs.exists(path))
    info = _look(fs, fs._strip_protocol(path), path)
    return info["type"] == "directory" if info else is_glob
