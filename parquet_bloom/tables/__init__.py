"""Tables of Delta Lake, Iceberg, Hudi and Paimon: the live files of a snapshot, and commits that swap files.

The metadata of the first two is read and written through deltalake and pyiceberg only, which are imported when they are
needed, as fastavro is, through which Hudi's timeline and Paimon's manifests are read. Hudi's is never written, and
Paimon's only to attach indexes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import UnsupportedError, describe_error, not_found
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    at_home,
    find,
    is_local,
    is_open_file,
    listed,
    resolve,
)
from parquet_bloom.tables.detect import ICEBERG_METADATA, STREAMING, branch_of, table_kind
from parquet_bloom.tables.live_files import FileIndex, LiveFile
from parquet_bloom.tables.snapshots import (
    Committable,
    Erasable,
    Erasure,
    FailedCommitError,
    NewFile,
    Readable,
    Snapshot,
    Swap,
    UncheckedCommitError,
    UnknownOutcomeError,
    fsspec_options,
)
from parquet_bloom.tables.spark_sink import LOG_FOLDER, live

if TYPE_CHECKING:
    from parquet_bloom.tables.paimon import OpenPaimon

__all__ = [
    "Committable",
    "Erasable",
    "Erasure",
    "FailedCommitError",
    "FileIndex",
    "LiveFile",
    "NewFile",
    "Readable",
    "Snapshot",
    "Swap",
    "UncheckedCommitError",
    "UnknownOutcomeError",
    "directory_of",
    "fsspec_options",
    "is_table",
    "kind_of_path",
    "listed_paths",
    "live_sources",
    "open_erasable",
    "open_history",
    "open_paimon",
    "open_table",
    "root_of",
    "snapshot_of",
]

_FORMATS = ("Delta", "Iceberg", "Hudi", "Paimon")


def _open(kind: str, table: Any, **options: Any) -> Readable:
    """Return a table of one of `_FORMATS`, whose module is imported only then."""
    if kind == "Hudi":
        from parquet_bloom.tables.hudi import OpenHudi

        return OpenHudi(table, **options)
    if kind == "Paimon":
        from parquet_bloom.tables.paimon import OpenPaimon

        return OpenPaimon(table, **options)
    return _open_erasable(kind, table, **options)


def _open_erasable(kind: str, table: Any, **options: Any) -> Erasable:
    """Return a table of a format whose rows can be deleted."""
    if kind == "Delta":
        from parquet_bloom.tables.delta import OpenDelta

        return OpenDelta(table, **options)
    from parquet_bloom.tables.iceberg import OpenIceberg

    return OpenIceberg(table, **options)


def snapshot_of(
    table: Any,
    *,
    kind: str | None = None,
    catalog: str | None = None,
    as_of: int | str | None = None,
    storage_options: StorageOptions = None,
    allow_outside: bool = False,
) -> Snapshot | None:
    """Return a table's live files, now or `as_of`; None where `table` is the root of no table that is read here.

    `table` is a directory, a URL, an Iceberg `*.metadata.json`, a `deltalake.DeltaTable` or a pyiceberg `Table`; with
    `catalog`, the name of one in pyiceberg's configuration, it is what an Iceberg table is called there.
    A branch of a Paimon table is named as Paimon does: `orders$branch_audit`.
    `as_of` is a Delta version, an Iceberg or Paimon snapshot id, branch or tag, a Hudi instant, or a time in ISO 8601
    (UTC unless it says otherwise). With `kind`, such as "delta", a path that is not such a table raises
    `FileNotFoundError`; the directory of an Iceberg table that does not say what is current raises `UnsupportedError`.

    Files outside of the table's directory are only read if the caller says so by `allow_outside`.

    `storage_options` are fsspec's; what deltalake (`AWS_...`) or pyiceberg (`s3...`) must be told besides stands among
    them under their own names.
    """
    table = _named(table, kind, catalog, storage_options)
    format_ = _kind_of(table, kind, storage_options)
    if format_ is None:
        return None
    opened = _open(format_, table, storage_options=storage_options, as_of=as_of, allow_outside=allow_outside)
    return opened.snapshot


def _named(table: Any, kind: str | None, catalog: str | None, storage_options: StorageOptions) -> Any:
    """Return a table, or what its `catalog` loads under that name."""
    if catalog is None:
        return at_home(table) if isinstance(table, str) else table
    if kind not in (None, "iceberg"):
        raise UnsupportedError(f"catalog= works with Iceberg tables only, not with {kind}")
    if not isinstance(table, str):
        raise UnsupportedError("with catalog=, give the table's name in the catalog, such as namespace.table")
    from parquet_bloom.tables import iceberg

    return iceberg.from_catalog(catalog, table, storage_options)


def live_sources(
    paths: Any,
    *,
    catalog: str | None = None,
    as_of: int | str | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    allow_outside: bool = False,
) -> tuple[list[Source], Snapshot | None]:
    """Return the files that `paths` name: those of the snapshot where they are one table.

    That is its directory, the name of an Iceberg table in `catalog`, its metadata file, or a pyiceberg `Table`. Raises
    `UnsupportedError` for an `as_of` of anything else, and what `find` and `snapshot_of` raise.
    """
    given = listed_paths(paths)
    snapshot = _snapshot_named(given, catalog, as_of, filesystem, storage_options, allow_outside)
    if snapshot is not None:
        return snapshot.found(storage_options)
    if as_of is not None:
        raise UnsupportedError("as_of= needs the directory of one Delta, Iceberg, Hudi or Paimon table")
    return _plain_files(given, filesystem, storage_options, all_rows=True), None


def _plain_files(given: list[Any], filesystem: Any, storage_options: StorageOptions, *, all_rows: bool) -> list[Source]:
    """Return the files that are not a table's; of a folder that Spark's structured streaming wrote, the live ones."""
    found = find(given, filesystem=filesystem, storage_options=storage_options, all_rows=all_rows)
    for path in filter(_may_be_table, _named_paths(given)):
        kind = _kind_at(path, storage_options, filesystem)
        if kind in _NEVER_PLAIN and all_rows:
            raise UnsupportedError(
                f"{path} is the directory of a table, whose files may have other column names and may lie elsewhere: "
                "give it alone, with storage_options= if it needs any"
            )
        if kind == STREAMING and len(given) > 1:
            raise UnsupportedError(f"{path} has a log of its live files ({LOG_FOLDER}): give it alone")
        if kind == STREAMING:
            return live(path, found, filesystem=filesystem, storage_options=storage_options)
    return found


def files_to_show(paths: Any, *, filesystem: Any = None, storage_options: StorageOptions = None) -> list[Source]:
    """Return the files that `paths` name, whatever engines make of them; of one table the live ones."""
    given = listed_paths(paths)
    snapshot = _snapshot_named(given, None, None, filesystem, storage_options, allow_outside=False)
    if snapshot is not None:
        return snapshot.found(storage_options)[0]
    return _plain_files(given, filesystem, storage_options, all_rows=False)


def _snapshot_named(
    given: list[Any],
    catalog: str | None,
    as_of: int | str | None,
    filesystem: Any,
    storage_options: StorageOptions,
    allow_outside: bool,
) -> Snapshot | None:
    """Return the snapshot of the one table that paths name, or None."""
    only = given[0] if len(given) == 1 else None
    if catalog is not None or any(map(is_table, given)):
        if only is None:
            raise UnsupportedError("give only one table of a catalog at a time")
        if filesystem is not None:
            raise UnsupportedError("a table of a catalog takes storage_options=, not filesystem=")
        return snapshot_of(
            only, catalog=catalog, as_of=as_of, storage_options=storage_options, allow_outside=allow_outside
        )
    named = _named_paths(given)
    if only is None or filesystem is not None or not any(map(_may_be_table, named)):
        return None
    return snapshot_of(named[0], as_of=as_of, storage_options=storage_options, allow_outside=allow_outside)


def _named_paths(given: list[Any]) -> list[str]:
    return [at_home(os.fspath(path)) for path in given if not is_table(path) and not is_open_file(path)]


_NEVER_PLAIN = ("Delta", "Iceberg")
"""Tables whose directories are not even read as the files that are in them."""


def listed_paths(paths: Any) -> list[Any]:
    """Return `paths` as a list: one path, a table that pyiceberg has loaded, or several."""
    return [paths] if is_table(paths) else listed(paths)


def is_table(given: Any) -> bool:
    """Return whether this is a table that pyiceberg has loaded. Raises `UnsupportedError` for one of deltalake's."""
    homes = _homes(given)
    if "deltalake" in homes:
        raise UnsupportedError("give a Delta table by its path, with as_of= for an earlier version")
    return "pyiceberg" in homes


def directory_of(paths: Any, snapshot: Snapshot | None, catalog: str | None = None) -> Any:
    """Return what names the directory of a snapshot's table: `paths`, unless they name the table in another way."""
    if snapshot is None:
        return paths
    (only,) = listed_paths(paths)
    return paths if _is_directory(only, catalog) else snapshot.root


def root_of(table: Any, *, catalog: str | None = None, storage_options: StorageOptions = None) -> str:
    """Return the path or URL of a table's directory; that of anything else is its own."""
    if _is_directory(table, catalog):
        return str(os.fspath(table))
    from parquet_bloom.tables import iceberg

    return iceberg.root_of(_named(table, None, catalog, storage_options), storage_options)


def _is_directory(given: Any, catalog: str | None) -> bool:
    """Return whether what is given names a directory, not a table in another way."""
    return catalog is None and not is_table(given) and not os.fspath(given).endswith(ICEBERG_METADATA)


def _may_be_table(path: str) -> bool:
    return not path.endswith(".parquet") and not any(char in path for char in "*?[")


_NEVER_COMMITTED = {
    "Hudi": "{root} is a Hudi table, and those are never committed to. Its files have filters of record keys, and "
    "Hudi's own writer (parquet.bloom.filter.enabled#<column>) adds filters of other columns",
    "Paimon": "parquet-bloom does not replace files of Paimon tables; parquet_bloom.paimon.attach_index adds indexes, "
    "as does Paimon's own procedure rewrite_file_index",
}


def open_table(
    table: Any, *, kind: str | None = None, catalog: str | None = None, storage_options: StorageOptions = None
) -> Committable:
    """Return a table for committing to, at its newest snapshot.

    An object of deltalake or pyiceberg is used as it is, and left at the newest snapshot. With `catalog`, the name of
    one in pyiceberg's configuration, `table` is what an Iceberg table is called in it. Raises `FileNotFoundError`
    where `table` is not the root of a Delta or Iceberg table, `UnsupportedError` where no commit to it would be right.
    """
    table, format_ = _table_of(table, kind, catalog, storage_options)
    if format_ in _NEVER_COMMITTED:
        root = _open(format_, table, storage_options=storage_options).snapshot.root
        raise UnsupportedError(_NEVER_COMMITTED[format_].format(root=root))
    opened = _open_erasable(format_, table, storage_options=storage_options)
    opened.require_committable()
    return opened


def open_erasable(
    table: Any, *, kind: str | None = None, catalog: str | None = None, storage_options: StorageOptions = None
) -> Erasable:
    """Return a table for deleting rows by commits, at its newest snapshot; see `open_table`."""
    table, format_ = _table_of(table, kind, catalog, storage_options)
    if format_ in _NEVER_COMMITTED:
        raise UnsupportedError(f"{table} is a {format_} table; delete the rows with {format_}'s own engines")
    opened = _open_erasable(format_, table, storage_options=storage_options)
    opened.require_erasable()
    return opened


def _table_of(table: Any, kind: str | None, catalog: str | None, storage_options: StorageOptions) -> tuple[Any, str]:
    """Return a table, or what its catalog loads, and its format; raises `FileNotFoundError` where it has none."""
    table = _named(table, kind, catalog, storage_options)
    format_ = _kind_of(table, kind, storage_options)
    if format_ is None:
        raise not_found(f"{table} is not the directory of a Delta or Iceberg table")
    return table, format_


def open_history(
    table: Any, *, catalog: str | None = None, storage_options: StorageOptions = None
) -> tuple[str | None, Erasable | None, str | None]:
    """Return the kind of a table, None of a plain folder; the table, if its versions can be read; and why not."""
    named = _named(table, None, catalog, storage_options)
    kind = _kind_of(named, None, storage_options)
    if kind not in _NEVER_PLAIN:
        return kind, None, None if kind is None else f"earlier versions of {kind} tables are not told apart"
    try:
        return kind, _open_erasable(kind, named, storage_options=storage_options), None
    except UnsupportedError as error:
        return kind, None, describe_error(error)


def open_paimon(table: PathLike) -> OpenPaimon:
    """Return a Paimon table that indexes can be attached to, at its newest snapshot.

    Raises `FileNotFoundError` where `table` is not the directory of a Paimon table, `UnsupportedError` where no commit
    to it would be right.
    """
    from parquet_bloom.tables.paimon import OpenPaimon

    path = at_home(os.fspath(table))
    fs, folder = resolve(path, None, None)
    if not is_local(fs):
        raise UnsupportedError("indexes are attached to tables in local directories; elsewhere use Paimon's procedure")
    if table_kind(fs, folder.rstrip("/")) != "Paimon":
        raise not_found(f"{path} is not the directory of a Paimon table")
    opened = OpenPaimon(path)
    opened.require_indexable()
    return opened


def _kind_of(table: Any, kind: str | None, storage_options: StorageOptions) -> str | None:
    wanted = kind.capitalize() if kind else None
    if wanted not in (None, *_FORMATS):
        raise UnsupportedError(f"{kind} tables are not supported; {', '.join(_FORMATS)} are")
    format_ = kind_of_path(os.fspath(table), storage_options) if isinstance(table, str | os.PathLike) else None
    if not isinstance(table, str | os.PathLike):
        homes = _homes(table)
        format_ = "Delta" if "deltalake" in homes else "Iceberg" if "pyiceberg" in homes else None
        if format_ is None:
            raise UnsupportedError(f"{type(table).__name__} is not a path, a deltalake table or a pyiceberg table")
    if wanted is not None and format_ != wanted:
        raise not_found(f"{table} is not the directory of a table of {wanted}")
    return format_


def _homes(given: Any) -> set[str]:
    return {base.__module__.partition(".")[0] for base in type(given).__mro__}


def kind_of_path(path: str, storage_options: StorageOptions, filesystem: Any = None) -> str | None:
    """Return which format's table a path names, or None."""
    if path.endswith(ICEBERG_METADATA):
        return "Iceberg"
    kind = _kind_at(path, storage_options, filesystem)
    return kind if kind in _FORMATS else None


def _kind_at(path: str, storage_options: StorageOptions, filesystem: Any) -> str | None:
    fs, inner = resolve(path, filesystem, fsspec_options(storage_options))
    kind = table_kind(fs, inner.rstrip("/"))
    if kind is None and (named := branch_of(inner)) is not None:
        kind = "Paimon" if table_kind(fs, named[0]) == "Paimon" else None
    return kind
