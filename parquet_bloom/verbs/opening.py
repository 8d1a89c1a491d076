"""What a call's `paths` name, and how they are read: opened once, and asked by every verb that reads.

The files are listed when they are first needed, and kept. Before each question it is checked that none of them has
changed: local files by their status, files in stores by a listing of their folders, unless that was done within
`refresh_every` seconds. If one has, or is gone, all are listed again; so an answer never rests on an old state.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from parquet_bloom.filters.stored import index_of
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.storage.cache import SHARED, Cache
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, are_as_listed
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find
from parquet_bloom.tables import directory_of, files_to_show, fsspec_options, is_table, listed_paths, live_sources
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.tables.unpacking import most_metadata_bytes
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    from parquet_bloom.filters.index import BloomIndex


class Reading(TypedDict, total=False):
    """How files are read: keywords that `open` and every function that reads `paths` take."""

    timezone: str | None
    case_sensitive: bool
    catalog: str | None
    as_of: int | str | None
    index: PathLike | None
    allow_outside: bool
    strict: bool
    jobs: int | None
    decryption: Decryption | None
    filesystem: Any
    storage_options: StorageOptions
    cache: Cache | None
    limits: Limits
    progress: Progress | None
    log: RequestLog | None


READING = """
timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
case_sensitive: Whether column names in conditions must match exactly.
catalog: A catalog of pyiceberg's configuration; `paths` is then the name of an Iceberg table, such as `db.events`.
as_of: An earlier version of a table, or a time in ISO 8601.
index: The folder of the index, if it was created with `at=`.
allow_outside: Also read files that a table's metadata names outside of the table's directory, such as those of
    a shallow clone. By default they are not read, and nothing is excluded in them.
strict: Raise for a file that cannot be read, instead of keeping it and going on.
jobs: Threads. By default one for each processor.
decryption: Keys for encrypted files.
filesystem: A file system of fsspec's or pyarrow's that has the paths.
storage_options: Options for fsspec, such as credentials.
cache: Keeps footers and filters for the next question. By default all share one; `Cache(0)` keeps nothing.
limits: How many files and bytes are read at once, and how much metadata.
progress: Is called with how much is done and how much there is in all.
log: Collects every read request.
""".strip()
"""What the docstrings of functions say of these keywords, in their order."""

Function = TypeVar("Function", bound=Callable[..., Any])


def with_reading(function: Function) -> Function:
    """Spell out the keywords of `Reading` in the signature and the docstring of a function that takes `**how`."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    defaults = inspect.signature(OpenLake.__init__).parameters
    shared = [defaults[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in inspect.get_annotations(Reading)]
    function.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    if function.__doc__:
        lines = "".join(f"\n        {line}" for line in READING.splitlines())
        function.__doc__ = function.__doc__.replace("\n\n    Returns:", f"{lines}\n\n    Returns:", 1)
    return function


@dataclass(frozen=True, slots=True)
class Opened:
    """The files, the table that they are the live ones of, and the index beside them; and what remembers footers."""

    sources: list[Source]
    table: TableFiles | None
    index: BloomIndex | None
    cache: Cache

    @property
    def as_listed(self) -> list[Source]:
        """The files that may be read; of a table, some of its live files may not."""
        files = None if self.table is None else self.table.files
        return [source for source in self.sources if files is None or not files[source].is_unread]


class OpenLake:
    """Files or a table, and how they are read; safe for threads. `listed` is what was found, None until then."""

    def __init__(
        self,
        paths: Any,
        *,
        timezone: str | None = None,
        case_sensitive: bool = True,
        catalog: str | None = None,
        as_of: int | str | None = None,
        index: PathLike | None = None,
        allow_outside: bool = False,
        strict: bool = False,
        jobs: int | None = None,
        decryption: Decryption | None = None,
        filesystem: Any = None,
        storage_options: StorageOptions = None,
        cache: Cache | None = None,
        limits: Limits = DEFAULT_LIMITS,
        progress: Progress | None = None,
        log: RequestLog | None = None,
        refresh_every: float | None = None,
    ) -> None:
        self.paths: list[Any] = listed_paths(paths)
        self.timezone, self.case_sensitive = timezone, case_sensitive
        self.catalog, self.as_of, self.index_folder, self.allow_outside = catalog, as_of, index, allow_outside
        self.strict, self.jobs, self.limits = strict, jobs, limits
        self.decryption, self.filesystem, self.storage_options = decryption, filesystem, storage_options
        self.cache: Cache = SHARED if cache is None else cache
        self.progress, self.log = progress, log
        self.refresh_every = refresh_every
        self._lock = threading.RLock()
        self.listed: Opened | None = None
        self._looked_at = 0.0

    def opened(self) -> Opened:
        """Return the files as they are now: those that were listed, unless one of them has changed since.

        Raises what `tables.live_sources` does.
        """
        with self._lock:
            if self.listed is None or not self._is_current(self.listed):
                self.listed, self._looked_at = self._open(), time.monotonic()
            return self.listed

    def refresh(self) -> None:
        """List the files again at the next question; of a table those of its newest version, or of `as_of`."""
        with self._lock:
            self.listed = None

    def _is_current(self, opened: Opened) -> bool:
        age = time.monotonic() - self._looked_at
        if self.refresh_every is not None and age >= self.refresh_every:
            return False
        return are_as_listed(opened.as_listed, local_only=self.refresh_every is not None)

    def _open(self) -> Opened:
        token = most_metadata_bytes.set(self.limits.metadata_bytes)
        try:
            sources, snapshot = live_sources(
                self.paths,
                catalog=self.catalog,
                as_of=self.as_of,
                filesystem=self.filesystem,
                storage_options=self.storage_options,
                allow_outside=self.allow_outside,
            )
        finally:
            most_metadata_bytes.reset(token)
        index = index_of(
            directory_of(self.paths, snapshot, self.catalog),
            sources,
            self.index_folder,
            is_table=snapshot is not None,
            storage_options=self.storage_options if snapshot is None else fsspec_options(self.storage_options),
            filesystem=self.filesystem,
            cache=self.cache,
            log=self.log,
        )
        table = TableFiles(snapshot, sources, self.storage_options) if snapshot else None
        return Opened(sources, table, index, self.cache)

    def files_to_show(self, *, of_tables_live: bool = False) -> list[Source]:
        """Return the files for verbs that show whatever is there: all in a directory.

        Of a table that is named in a catalog or by a version they are the live ones; with `of_tables_live`, of a
        table's directory, too.
        """
        if self.catalog is not None or self.as_of is not None or any(map(is_table, self.paths)):
            return self.opened().as_listed
        show = files_to_show if of_tables_live else find
        return show(self.paths, filesystem=self.filesystem, storage_options=self.storage_options)
