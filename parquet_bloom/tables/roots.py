"""Where the files of a table may lie: below the location that the caller or the catalog gave.

Whoever may write a table's metadata could otherwise choose which of this machine's files are opened, and which hosts
and buckets are called with the caller's keys. So every path in the metadata of every format comes through `Root`. It
compares texts, and follows the symbolic links below the root one by one: nothing that lies outside is touched.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.storage import system

_UNLESS = "; it is only read with allow_outside=True"
OUTSIDE = f"it lies outside of the table's directory{_UNLESS}"
LINKED = f"a symbolic link leads out of the table's directory to it{_UNLESS}"
CHAINED = "its path has '::', and such chains of protocols are never followed"
NO_PATH = "its path has a null character"

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<host>[^/]*))?(?=/|$)")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "local": "file"}
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_MOST_LINKS = 40


def for_writing(reason: str | None) -> str | None:
    """Return why a file lies outside for those who write, and whom no option lets do it."""
    return reason and reason.removesuffix(_UNLESS)


class Place(NamedTuple):
    """A path in a table's metadata, as fsspec calls it, and why the file is not opened, if it is not."""

    path: str
    outside: str | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    """A path's store, as text that is equal for the same one, and the names on the way down."""

    store: str
    names: tuple[str, ...]


class Root:
    """The location of a table, a local path or a URL."""

    def __init__(self, location: str, *, allow_outside: bool = False) -> None:
        self.location: str = location.rstrip("/") or "/"
        self.allow_outside = allow_outside
        _, chain, last = self.location.rpartition("::")  # the caller's own
        own = _parts(last)
        self._is_local = own.store == "" and not chain
        self._parts = [own]
        if self._is_local:
            self._real = system.slashed(os.path.realpath(self.location))
            self._parts.append(_parts(self._real))
        self._followed: dict[tuple[str, ...], list[str] | None] = {}

    def place(self, recorded: str) -> Place:
        """Return where a file of the table lies: `recorded` is its path below the root, its whole path, or its URL.

        What is percent-encoded in the metadata comes decoded.
        """
        top = self.location.rstrip("/") + "/"
        is_below = recorded.startswith(top)  # as is, whatever the caller's own location is made of
        recorded = recorded.removeprefix(top)
        if "::" in recorded:
            return Place(recorded, CHAINED)
        if "\0" in recorded:
            return Place(recorded, NO_PATH)
        is_whole = not is_below and (recorded.startswith("/") or _URL.match(recorded) is not None)
        below = self._below(recorded) if is_whole else _normalized(recorded.split("/"), is_store=not self._is_local)
        if below and (path := self._join(recorded, below, is_whole=is_whole)) is not None:
            is_linked = self._is_local and not self.allow_outside and self._leads_out(below)
            return Place(path, LINKED if is_linked else None)
        path = _spelled(recorded if is_whole else f"{self.location}/{recorded}")
        is_root = below is not None and not below
        return Place(path, None if self.allow_outside and not is_root else OUTSIDE)

    def require(self, recorded: str) -> str:
        """Return the path of a file of the table's metadata. Raises `UnsupportedError` for one that lies outside."""
        if recorded.rstrip("/") == self.location.rstrip("/"):
            return recorded
        path, outside = self.place(recorded)
        if outside is not None:
            raise UnsupportedError(f"{recorded} belongs to the metadata of {self.location}, but {outside}")
        return path

    def _below(self, whole: str) -> Sequence[str] | None:
        """Return the names from the root down to a path that is not relative; None if it does not lie below."""
        try:
            parts = _parts(whole)
        except ValueError:
            return None
        for own in self._parts:
            depth = len(own.names)
            if parts.store == own.store and parts.names[:depth] == own.names:
                return parts.names[depth:]
        return None

    def _join(self, recorded: str, below: Sequence[str], *, is_whole: bool) -> str | None:
        """Return the path of a file below the root; None in a store where it is another object than it seems."""
        top = self.location.rstrip("/")
        if self._is_local:
            return f"{top}/{'/'.join(below)}"
        # As it is spelled: in a store `a//b` is another object than `a/b`.
        rest = _rest(recorded, self._parts[0]) if is_whole else recorded
        return None if rest is None else f"{top}/{rest}"

    def _leads_out(self, below: Sequence[str]) -> bool:
        """Return whether a symbolic link on the way from the root to a file leads out of it."""
        *folders, name = below
        key = tuple(folders)
        if key not in self._followed:
            self._followed[key] = self._follow([], folders)
        folder = self._followed[key]
        return folder is None or self._follow(list(folder), [name]) is None

    def _follow(self, way: list[str], names: Sequence[str]) -> list[str] | None:
        """Return the way from the root on, without links, by `names`; None if a link leads out, or links to itself."""
        waiting = deque(names)
        num_links = 0
        while waiting:
            name = waiting.popleft()
            if name == ".." and not way:
                return None
            if name == "..":
                way.pop()
            elif name not in ("", "."):
                try:
                    target = os.readlink("/".join([self._real.rstrip("/"), *way, name]))
                except OSError:  # it is no link, or not there
                    way.append(name)
                    continue
                num_links += 1
                below = self._below(target) if target.startswith("/") else target.split("/")
                if below is None or num_links > _MOST_LINKS:
                    return None
                way = [] if target.startswith("/") else way
                waiting.extendleft(reversed(below))
        return way


def _parts(path: str) -> _Parts:
    """Return what a path or URL is made of; raises `ValueError` where it climbs above its store's top."""
    store, inner = "", path
    if match := _URL.match(path):
        scheme, host = match["scheme"].lower(), match["host"] or ""
        scheme = _ALIASES.get(scheme, scheme)
        inner = path[match.end() :]
        is_here = scheme == "file" and host in ("", "localhost")
        store = "" if is_here else f"{scheme}://{host}"
    names = _normalized(inner.split("/"), is_store=store != "")
    if names is None:
        raise ValueError(path)
    return _Parts(store, names)


def _normalized(names: Sequence[str], *, is_store: bool) -> tuple[str, ...] | None:
    """Return names without `.` and `..`; None if they lead above the first, or a store may understand them so."""
    if is_store and any(map(_DOTS.fullmatch, names)):
        return None
    way: list[str] = []
    for name in names:
        if name == "..":
            if not way:
                return None
            way.pop()
        elif name not in ("", "."):
            way.append(name)
    return tuple(way)


def _rest(url: str, own: _Parts) -> str | None:
    """Return what follows the root's names in a URL below it, as it is spelled."""
    match = _URL.match(url)
    inner = url[match.end() if match is not None else 0 :].removeprefix("/")
    top = "/".join(own.names)
    return inner[len(top) + 1 :] if top and inner.startswith(f"{top}/") else None if top else inner


def _spelled(path: str) -> str:
    """Return a path or URL outside of the root as fsspec calls it."""
    match = _URL.match(path)
    if match is None:
        return os.path.normpath(path)
    scheme = _ALIASES.get(match["scheme"].lower(), match["scheme"].lower())
    if scheme == "file" and match["host"] in (None, "", "localhost"):
        return os.path.normpath("/" + path[match.end() :].lstrip("/"))
    return f"s3{path[len(match['scheme']) :]}" if scheme == "s3" else path
