"""Tables of Delta Lake, Iceberg, Hudi and Paimon: the live files of a snapshot, and commits that swap files.

The metadata of the first two is read and written through deltalake and pyiceberg only, which are imported when they are
needed, as fastavro is, through which Hudi's timeline and Paimon's manifests are read. Hudi's is never written, and
Paimon's only to attach indexes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.storage import PathLike, Source, StorageOptions, find, is_local, resolve, table_kind
from parquet_bloom.tables import delta, hudi, iceberg, paimon
from parquet_bloom.tables.snapshots import (
    FailedCommitError,
    FileIndex,
    LiveFile,
    OpenTable,
    Snapshot,
    Swap,
    UnknownOutcomeError,
    fsspec_options,
)

__all__ = [
    "FailedCommitError",
    "FileIndex",
    "LiveFile",
    "OpenTable",
    "Snapshot",
    "Swap",
    "UnknownOutcomeError",
    "directory_of",
    "fsspec_options",
    "live_sources",
    "open_paimon",
    "open_table",
    "snapshot_of",
]

_OPENERS: dict[str, Callable[..., OpenTable]] = {
    "Delta": delta.OpenDelta,
    "Iceberg": iceberg.OpenIceberg,
    "Hudi": hudi.OpenHudi,
    "Paimon": paimon.OpenPaimon,
}


def snapshot_of(
    table: Any, *, kind: str | None = None, as_of: int | str | None = None, storage_options: StorageOptions = None
) -> Snapshot | None:
    """Return a table's live files, now or `as_of`; None where `table` is the root of no table that is read here.

    `table` is a directory, a URL, an Iceberg `*.metadata.json`, a `deltalake.DeltaTable` or a pyiceberg `Table`.
    `as_of` is a Delta version, an Iceberg or Paimon snapshot id, branch or tag, a Hudi instant, or a time in ISO 8601
    (UTC unless it says otherwise). With `kind`, such as "delta", a path that is no such table raises
    `FileNotFoundError`.

    `storage_options` are fsspec's; what deltalake (`AWS_...`) or pyiceberg (`s3...`) must be told besides stands among
    them under their own names.
    """
    found = _kind_of(table, kind, storage_options)
    if found is None:
        return None
    return _OPENERS[found](table, storage_options=storage_options, as_of=as_of).snapshot


def live_sources(
    paths: PathLike | Iterable[PathLike],
    *,
    as_of: int | str | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
) -> tuple[list[Source], Snapshot | None]:
    """Return the files that `paths` name: those of the snapshot where they are the root of a table.

    Raises `UnsupportedError` for an `as_of` of anything else, and what `find` and `snapshot_of` raise.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    snapshot = None
    if len(listed) == 1 and filesystem is None and _may_be_table(root := os.fspath(listed[0])):
        snapshot = snapshot_of(root, as_of=as_of, storage_options=storage_options)
    if snapshot is not None:
        return snapshot.sources(storage_options), snapshot
    if as_of is not None:
        raise UnsupportedError("only the directory of one Delta, Iceberg, Hudi or Paimon table has versions")
    return find(listed, filesystem=filesystem, storage_options=storage_options, all_rows=True), None


def directory_of(paths: Any, snapshot: Snapshot | None) -> Any:
    """Return what names the directory of a snapshot's table, as `paths` do unless they name its metadata file."""
    is_metadata = isinstance(paths, str | os.PathLike) and os.fspath(paths).endswith(iceberg.METADATA)
    return snapshot.root if snapshot is not None and is_metadata else paths


def _may_be_table(path: str) -> bool:
    return not path.endswith(".parquet") and not any(char in path for char in "*?[")


def open_table(
    table: Any, *, kind: str | None = None, catalog: str | None = None, storage_options: StorageOptions = None
) -> OpenTable:
    """Return a table for committing to, at its newest snapshot.

    An object of deltalake or pyiceberg is used as it is, and left at the newest snapshot. With `catalog`, the name of
    one in pyiceberg's configuration, `table` is what an Iceberg table is called in it. Raises `FileNotFoundError`
    where `table` is not the root of a Delta or Iceberg table, `UnsupportedError` where no commit to it would be right.
    """
    if catalog is not None:
        if kind not in (None, "iceberg"):
            raise UnsupportedError(f"{kind} tables have no catalog here; Iceberg's have")
        table = iceberg.from_catalog(catalog, table, storage_options)
    found = _kind_of(table, kind, storage_options)
    if found is None:
        raise FileNotFoundError(f"{table} is not the directory of a Delta or Iceberg table")
    opened = _OPENERS[found](table, storage_options=storage_options)
    opened.require_committable()
    return opened


def open_paimon(table: PathLike) -> paimon.OpenPaimon:
    """Return a Paimon table that indexes can be attached to, at its newest snapshot.

    Raises `FileNotFoundError` where `table` is not the directory of a Paimon table, `UnsupportedError` where no commit
    to it would be right.
    """
    path = os.fspath(table)
    fs, folder = resolve(path, None, None)
    if not is_local(fs):
        raise UnsupportedError("indexes are attached to tables in local directories; elsewhere use Paimon's procedure")
    if table_kind(fs, folder.rstrip("/")) != "Paimon":
        raise FileNotFoundError(f"{path} is not the directory of a Paimon table")
    opened = paimon.OpenPaimon(path)
    opened.require_indexable()
    return opened


def _kind_of(table: Any, asked: str | None, storage_options: StorageOptions) -> str | None:
    wanted = asked.capitalize() if asked else None
    if wanted not in (None, *_OPENERS):
        raise UnsupportedError(f"{asked} tables are not read here; {', '.join(_OPENERS)} are")
    found = _kind_of_path(os.fspath(table), storage_options) if isinstance(table, str | os.PathLike) else None
    if not isinstance(table, str | os.PathLike):
        homes = {base.__module__.partition(".")[0] for base in type(table).__mro__}
        found = "Delta" if "deltalake" in homes else "Iceberg" if "pyiceberg" in homes else None
        if found is None:
            raise UnsupportedError(f"{type(table).__name__} is neither a path, a deltalake nor a pyiceberg table")
    if wanted is not None and found != wanted:
        raise FileNotFoundError(f"{table} is not the directory of a table of {wanted}")
    return found


def _kind_of_path(path: str, storage_options: StorageOptions) -> str | None:
    if path.endswith(iceberg.METADATA):
        return "Iceberg"
    fs, inner = resolve(path, None, fsspec_options(storage_options))
    kind = table_kind(fs, inner.rstrip("/"))
    return kind if kind in _OPENERS else None
