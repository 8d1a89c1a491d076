"""What a call's `paths` name, opened: `prune` and `lookup` start in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parquet_bloom.filters.stored import index_of
from parquet_bloom.storage.cache import SHARED, Cache
from parquet_bloom.storage.drive import Limits, RequestLog
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.tables import directory_of, fsspec_options, listed_paths, live_sources
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.tables.unpacking import most_metadata_bytes

if TYPE_CHECKING:
    from parquet_bloom.filters.index import BloomIndex


@dataclass(frozen=True, slots=True)
class Opened:
    """The files, the table that they are the live ones of, and the index beside them; and what remembers footers."""

    sources: list[Source]
    table: TableFiles | None
    index: BloomIndex | None
    cache: Cache


def open_files(
    paths: Any,
    *,
    catalog: str | None,
    as_of: int | str | None,
    index: PathLike | None,
    filesystem: Any,
    storage_options: StorageOptions,
    cache: Cache | None,
    limits: Limits,
    log: RequestLog | None,
    allow_outside: bool,
) -> Opened:
    """Return what `paths` name; raises what `live_sources` does."""
    given = listed_paths(paths)
    token = most_metadata_bytes.set(limits.metadata_bytes)
    try:
        sources, snapshot = live_sources(
            given,
            catalog=catalog,
            as_of=as_of,
            filesystem=filesystem,
            storage_options=storage_options,
            allow_outside=allow_outside,
        )
    finally:
        most_metadata_bytes.reset(token)
    cache = SHARED if cache is None else cache
    opened = index_of(
        directory_of(given, snapshot, catalog),
        sources,
        index,
        is_table=snapshot is not None,
        storage_options=storage_options if snapshot is None else fsspec_options(storage_options),
        filesystem=filesystem,
        cache=cache,
        log=log,
    )
    table = TableFiles(snapshot, sources, storage_options) if snapshot else None
    return Opened(sources, table, opened, cache)
