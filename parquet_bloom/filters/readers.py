"""Who reads the files: engines and their releases, as users name them, and so which hazards of filters count."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.filters.engines import HAZARDS, Hazard, hazards, hazards_of_filter, is_known, known_engines
from parquet_bloom.filters.index_folder import folder_of, folders_of, with_above
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import Source, StorageOptions, resolve
from parquet_bloom.tables import Snapshot, fsspec_options
from parquet_bloom.tables.table_properties import readers_property

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

LOG = logging.getLogger("parquet_bloom")

VARIABLE = "PARQUET_BLOOM_READERS"
"""The environment variable that names the readers where nothing else does."""

_OTHER_NAMES = {"delta-rs": "deltalake", "pyspark": "spark"}


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of files; by default anyone, with any release that is not too old.

    `named` has the releases of each engine. With `accepts`, columns get filters whatever readers lose. Where the caller
    gave them (`is_given`), what a table or an index remembers does not count.
    """

    named: Mapping[str, SpecifierSet] | None = field(default=None, hash=False)
    text: str = ""
    accepts: bool = field(default=False, kw_only=True)
    is_given: bool = field(default=False, kw_only=True)

    def lose_rows(self, hazard: Hazard) -> bool:
        """Return whether a column with this hazard is to have no filter.

        Where nobody is named, what depends on how a table reads the column, or on the file, is only told: `are_told`.
        """
        if self.accepts:
            return False
        if self.named is None:
            return _is_recent(hazard) and hazard.when in ("always", "other type")
        releases = self.named.get(hazard.engine)
        return releases is not None and _concerns(hazard, releases)

    def are_told(self, hazard: Hazard) -> bool:
        """Return whether a hazard of filters that are written, or there already, is to be told."""
        return self.lose_rows(hazard) or (self.named is None and not self.accepts and _is_recent(hazard))

    def warnings(self, footer: Footer, leaf: LeafColumn, num_bytes: int, *, has_length: bool) -> tuple[str, ...]:
        """Return a sentence for each engine that loses rows, or fails, because of a valid filter of this size."""
        told = _told(self)
        of_column = (told[hazard] for hazard in hazards(footer, leaf) if hazard in told)
        return (*of_column, *hazards_of_filter(num_bytes, has_length=has_length))

    def why_left_out(self, footer: Footer, leaf: LeafColumn, table_leaf: LeafColumn | None = None) -> str | None:
        """Return why a file's column gets no filter, and what to do, or None; `table_leaf` is its type in a table."""
        anyhow = "add it all the same with accept_hazards=True"
        if not self.accepts and not is_known(leaf):
            return f"no engine was tried with filters on such columns; {anyhow}"
        losing = [hazard for hazard in hazards(footer, leaf, table_leaf) if self.lose_rows(hazard)]
        if not losing:
            return None
        mended = ",".join(f"{one.engine.lower()}>={one.mended}" for one in losing if one.mended)
        such = f", such as {mended}" if mended else ""
        name = "say who reads the files" if self.named is None else "name other releases"
        return f"{'; '.join(map(str, losing))}; {name} with readers={such}, or {anyhow}"


@cache  # comparing releases is slow beside inspecting one of thousands of columns
def _told(readers: Readers) -> dict[Hazard, str]:
    return {hazard: str(hazard) for hazard in HAZARDS if readers.are_told(hazard)}


ANYONE = Readers()


Given: TypeAlias = str | Sequence[str] | Readers | None
"""Readers as callers give them: `duckdb>=2,datafusion>=55`, or several such, or as they are known already."""


def readers_of(given: Given = None, *, accept_hazards: bool = False, remembered: str | None = None) -> Readers:
    """Return the readers that were given, or else `remembered`, or else named by the environment, or anyone.

    They are such as `duckdb>=2,datafusion>=55`. Raises `ValueError` for an engine that is not in the table of
    hazards, and for a release that cannot be read.
    """
    if isinstance(given, Readers):
        return given
    text = ",".join([given] if isinstance(given, str) else given) if given is not None else remembered
    where = "readers=" if given is not None else f"the remembered readers {remembered!r}:"
    if text is None:
        text, where = os.environ.get(VARIABLE) or None, VARIABLE
    if text is None:
        return Readers(accepts=accept_hazards)
    try:
        named = _parsed(text)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None
    if not named:
        raise ValueError(f"{where} names no reader")
    return Readers(named, text.strip(), accepts=accept_hazards, is_given=given is not None)


def settled(readers: Readers, sources: Sequence[Source]) -> Readers:
    """Return the readers of files: those given, or else those that the indexes above the files remember, or these.

    Raises `ValueError` where one file's may not be another's.
    """
    return _settled(readers, sources[0].fs, folders_of(sources)) if sources else readers


def settled_of_table(readers: Readers, snapshot: Snapshot, storage_options: StorageOptions) -> Readers:
    """Return the readers of a table: those given, or else by its property, or the index beside it, or these."""
    fs, root = resolve(snapshot.root, None, fsspec_options(storage_options))
    return _settled(readers, fs, [root.rstrip("/")], readers_property(snapshot.properties))


def _settled(readers: Readers, fs: Any, folders: Sequence[str], remembered: str | None = None) -> Readers:
    if readers.is_given or readers.accepts:
        return readers
    if remembered is None:
        try:
            known = _known_to_indexes(fs, folders)
        except (UnsupportedError, OSError) as error:
            LOG.warning("which readers an index remembers is not known, so it may be anyone: %s", error)
            return Readers(is_given=True)
        if known and (len(known) < len(folders) or len({*known.values()}) > 1):
            folder, text = min(known.items())
            raise ValueError(
                f"an index names the readers of {folder} ({text}), but the other files may have others; say whose to "
                "go by with readers=, or give the folders one by one"
            )
        remembered = next(iter(known.values()), None)
    if remembered is not None:
        readers = readers_of(remembered=remembered)
    return replace(readers, is_given=True)


def _known_to_indexes(fs: Any, folders: Sequence[str]) -> dict[str, str]:
    """Return the readers that the nearest index above each folder remembers, where one does."""
    found: dict[str, Folder] = {}
    try:
        for root in with_above(folders):
            if (folder := folder_of(root, filesystem=fs)) is not None:
                found[root.rstrip("/")] = folder
    except PermissionError as error:
        LOG.warning("not all folders above %s were searched for an index that remembers readers: %s", folders[0], error)
    indexes = {root: text for root, folder in found.items() if (text := _remembered_in(folder))}
    known = {}
    for below in folders:
        if above := [root for root in indexes if f"{below}/".startswith(f"{root}/")]:
            known[below] = indexes[max(above, key=len)]
    return known


def _remembered_in(folder: Folder) -> str | None:
    from parquet_bloom.filters.index import newest

    latest = newest(folder)
    return latest.version.readers if latest is not None else None


def _parsed(text: str) -> dict[str, SpecifierSet]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    named: dict[str, SpecifierSet] = {}
    engines = {engine.lower(): engine for engine in known_engines()}
    for part in filter(str.strip, re.split(r",(?=\s*[A-Za-z])", text)):
        name = re.match(r"\s*([\w-]*)", part)[1]  # type: ignore[index]
        lower = name.lower()
        engine = engines.get(_OTHER_NAMES.get(lower, lower))
        if engine is None:
            raise ValueError(f"does not know {name or part.strip()!r}; it knows {', '.join(sorted(engines))}")
        if engine in named:
            raise ValueError(f"has {name} twice")
        try:
            named[engine] = SpecifierSet(part.strip().removeprefix(name))
        except InvalidSpecifier:
            raise ValueError(f"cannot read {part.strip()!r}; write such as {lower}>=1.2 or {lower}==1.2.*") from None
    return named


@cache
def _is_recent(hazard: Hazard) -> bool:
    return hazard.is_recent


@lru_cache(maxsize=1024)
def _concerns(hazard: Hazard, releases: SpecifierSet) -> bool:
    """Return whether a hazard is one of these releases."""
    return any(map(hazard.concerns, _least(releases, hazard)))


def _next(version: str) -> str:
    """Return the first version above all that start like this one."""
    from packaging.version import Version

    *first, last = Version(version).release
    return ".".join(map(str, (*first, last + 1)))


def _least(releases: SpecifierSet, hazard: Hazard) -> Iterator[str]:
    """Yield releases that are meant, the least of a hazard's among them if any of its is.

    The least is the hazard's first or just above it, or else at one of the versions that the user wrote, or just above
    it, or above all that start like it.
    """
    written = [hazard.since or "0", *(one.version.removesuffix(".*") for one in releases)]
    above = [f"{version}.0.1" for version in written] + [_next(version) for version in written]
    candidates = [*hazard.tried, *written, *above]
    yield from (version for version in candidates if releases.contains(version, prereleases=True))
