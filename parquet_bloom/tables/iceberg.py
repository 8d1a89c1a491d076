"""Iceberg tables through pyiceberg.

Only the catalog knows which metadata file of a table is current: a table that was dropped and created again, and a
writer that died before its commit, leave files with higher numbers. So a table is loaded from a catalog, or from a
metadata file that the caller names. A directory is enough only if it is its own catalog, as Hadoop's are.

A swap is one `replace` snapshot that deletes the old files' entries and adds copies of them with another path and size
(iceberg_replace.py). Commits go through the table's catalog; metadata that no catalog knows of is never written.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, UnsupportedError, not_found
from parquet_bloom.format.schema import ColumnPath, LeafColumn, LogicalType, PhysicalType
from parquet_bloom.storage.drive import read_whole
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import StorageOptions, is_local, resolve
from parquet_bloom.tables.columns import of_iceberg
from parquet_bloom.tables.detect import ICEBERG_HINT, ICEBERG_METADATA
from parquet_bloom.tables.iceberg_deletes import EQUALITY, Deletes
from parquet_bloom.tables.iceberg_erased import entry_of
from parquet_bloom.tables.iceberg_reading import CheckedIO, understood
from parquet_bloom.tables.iceberg_replace import Replacement, copy_of
from parquet_bloom.tables.live_files import LiveFile, Problem
from parquet_bloom.tables.placement import UNMAPPED, ByIds, Mapped, name_mapping
from parquet_bloom.tables.recorded import Recorded, bounds_of, is_evident, leaf_of, timestamp
from parquet_bloom.tables.roots import Root, for_writing
from parquet_bloom.tables.snapshots import (
    Erasable,
    Erasure,
    FailedCommitError,
    Snapshot,
    Swap,
    UnknownOutcomeError,
    after_commit,
    check_erasures,
    check_outcome,
    check_swaps,
    fsspec_options,
    iceberg_options,
    moment,
)
from parquet_bloom.tables.statements import IcebergStatements
from parquet_bloom.tables.unpacking import Room
from parquet_bloom.values.statistics import ColumnStatistics


class OpenIceberg(Erasable):
    """An Iceberg table."""

    kind = "Iceberg"

    def __init__(
        self,
        table: Any,
        *,
        storage_options: StorageOptions = None,
        as_of: int | str | None = None,
        allow_outside: bool = False,
    ) -> None:
        is_path = isinstance(table, str | os.PathLike)
        self._table = _static(os.fspath(table), storage_options) if is_path else table
        self._has_catalog = not _is_static(self._table)
        self._files = Root(_root(self._table), allow_outside=allow_outside)
        self._reload()
        self._entries: dict[str, Any] = {}
        self._deletes: Deletes | None = None
        self._times: Counter[str] = Counter()
        self.snapshot: Snapshot = self._read(self._current()) if as_of is None else self._read_as_of(as_of)

    def refresh(self) -> Snapshot:
        """Load and return the newest snapshot."""
        self._reload()
        self.snapshot = self._read(self._current())
        return self.snapshot

    def _reload(self) -> None:
        """Load what the catalog has now; raises if that is another table, or none."""
        if self._has_catalog:
            self._load()
            self._table = _with_own_store(self._table)

    def _load(self) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        name = ".".join(self._table.name())
        loaded = self._table.metadata.table_uuid
        try:
            with _own_code(self._table):
                self._table.refresh()
        except NoSuchTableError as error:
            raise not_found(f"the catalog no longer has the table {name}: {error}") from None
        except (ParquetBloomError, OSError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, ValueError) and "UUID" in str(error):
                raise UnsupportedError(
                    f"{name} was dropped and created again since it was loaded ({error}); load it again"
                ) from None
            raise UnsupportedError(f"pyiceberg cannot load {name} from its catalog: {error}") from error
        if self._table.metadata.table_uuid != loaded:
            raise UnsupportedError(f"{name} was dropped and created again since it was loaded; load it again")

    def _current(self) -> Any:
        return self._table.current_snapshot()

    def _as_of(self, as_of: int | str) -> Any:
        if isinstance(as_of, int) or as_of.isdecimal():
            snapshot = self._table.snapshot_by_id(int(as_of))
        else:
            snapshot = self._table.snapshot_by_name(as_of)
            if snapshot is None:
                snapshot = self._table.snapshot_as_of_timestamp(int(moment(as_of).timestamp() * 1000))
        if snapshot is None:
            raise ValueError(f"{self._table.location()} has no snapshot {as_of}")
        return snapshot

    # ---- reading -------------------------------------------------------------------------

    def _read_as_of(self, as_of: int | str) -> Snapshot:
        """Read a snapshot with the schema that readers use: its own, current or not; for a branch, the table's."""
        at, ref = self._as_of(as_of), self._table.refs().get(str(as_of))
        is_branch = ref is not None and at.snapshot_id == ref.snapshot_id and ref.snapshot_ref_type == "branch"
        return self._read(at, self._table.schemas().get(None if is_branch else at.schema_id))

    def _read(self, at: Any, of_its_own: Any = None) -> Snapshot:
        with understood(self._files.location):
            return self._understand(at, of_its_own)

    def _understand(self, at: Any, of_its_own: Any) -> Snapshot:
        schemas = self._table.schemas()
        schema = of_its_own or self._table.schema()
        files, entries = [], []
        deletes = Deletes(self._table, at, lambda path: self._files.place(_fsspec_path(path)).outside)
        for entry, has_deletes in self._live(at, deletes):
            entries.append(entry)
            files.append(self._live_file(entry, schema, has_deletes))
        self._entries = {entry.file_path: entry for entry in entries}
        self._deletes = deletes
        self._times = Counter(entry.file_path for entry in entries)
        mapping = name_mapping(self._table.metadata.properties.get("schema.name-mapping.default"))
        sure = _surely_recorded(schema.fields, schemas.values(), mapping)
        return Snapshot(
            self.kind,
            self._files.location,
            at.snapshot_id if at is not None else None,
            tuple(files),
            naming=ByIds.of_iceberg(dict(_field_ids(schema.fields)), mapping),
            recorded=_recorded(sure, entries, schema),
            columns=cache(lambda: of_iceberg(schema.fields)),
            deletes=deletes.of,
            properties=dict(self._table.metadata.properties),
        )

    def _live(self, at: Any, deletes: Deletes) -> Iterator[tuple[Any, bool]]:
        """Yield the entry of each data file, and whether deletes apply to it; these are noted."""
        from pyiceberg.manifest import ManifestContent

        if at is None:
            return
        self._files.require(_fsspec_path(at.manifest_list))
        io = CheckedIO(self._table.io)
        manifests = at.manifests(io)
        for manifest in manifests:
            self._files.require(_fsspec_path(manifest.manifest_path))
        kinds = {
            manifest.content for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()
        }
        if ManifestContent.DELETES in kinds:
            deletes.files = self._deleted(at)
        for manifest in manifests:
            for file in _entries_of(manifest, "DATA", io):
                yield file, deletes.files is None or file.file_path in deletes.files

    def _deleted(self, at: Any) -> dict[str, set[Any]] | None:
        """Return the delete files of each file that has any; None where pyiceberg cannot tell (equality deletes)."""
        table = copy.copy(self._table)
        table.io = CheckedIO(table.io)
        try:
            tasks = table.scan(snapshot_id=at.snapshot_id).plan_files()
            return {task.file.file_path: set(task.delete_files) for task in tasks if task.delete_files}
        except ParquetBloomError:
            raise
        except (ValueError, NotImplementedError):
            return None

    def _live_file(self, file: Any, schema: Any, has_deletes: bool) -> LiveFile:
        if file.file_format.name != "PARQUET":
            raise UnsupportedError(
                f"{file.file_path} is {file.file_format.name}; tables with such files are not supported"
            )
        path, outside = self._files.place(_fsspec_path(file.file_path))
        return LiveFile(
            path,
            file.file_path,
            file.file_size_in_bytes,
            file.record_count,
            dict(self._partition(file, schema)),
            has_deletes,
            Problem.of("outside", outside),
        )

    def _partition(self, file: Any, schema: Any) -> Iterator[tuple[str, str | None]]:
        from pyiceberg.transforms import IdentityTransform

        for position, field in enumerate(self._table.specs()[file.spec_id].fields):
            name = schema.find_column_name(field.source_id)
            if name is not None and isinstance(field.transform, IdentityTransform):
                value = file.partition[position]
                kind = schema.find_type(field.source_id)
                yield name, None if value is None else field.transform.to_human_string(kind, value)

    # ---- committing ------------------------------------------------------------------------

    def require_committable(self) -> None:
        """Raise `UnsupportedError` if no file of the table can be swapped without harm."""
        root = self._files.location
        if not self._has_catalog:
            raise UnsupportedError(
                f"{root} cannot be committed to without its catalog; pass the table that the catalog loads, such as "
                'pyiceberg.catalog.load_catalog("name").load_table("namespace.table")'
            )
        if self._table.format_version >= 3:
            raise UnsupportedError(f"{root} has Iceberg's format version 3, whose row ids pyiceberg would renumber")
        properties = self._table.metadata.properties
        if chosen := _of_stores(self._table.metadata.properties):
            raise UnsupportedError(f"{root} has properties that choose the store to write to: {', '.join(chosen)}")
        if (name := "write.py-location-provider.impl") in properties:
            raise UnsupportedError(f"{root} has the property {name}: code that chooses where metadata is written")
        if (chosen := properties.get("write.metadata.path")) and (outside := self._files.place(f"{chosen}/x").outside):
            raise UnsupportedError(f"{root} has its metadata written to {chosen} (write.metadata.path), but {outside}")

    def refusal(self, file: LiveFile) -> str | None:
        """Return why this file cannot be swapped without harm, or None."""
        if file.is_outside:
            return for_writing(file.not_excluded)
        if file.has_deletes:
            return "delete files apply to it (or may), and its deleted rows would come back; compact the table first"
        return self._why_left(file)

    def _why_left(self, file: LiveFile) -> str | None:
        if self._times[file.recorded] > 1:
            return "the table lists it more than once; remove it and add it once"
        spec = self._table.specs()[self._entries[file.recorded].spec_id]
        if gone := {each.source_id for each in spec.fields} - set(self._table.schema().field_ids):
            return f"it belongs to a partition spec of a column that the table no longer has (field id {min(gone)})"
        return None

    def commit(self, swaps: Sequence[Swap]) -> Snapshot:
        """Swap files in one snapshot on top of `snapshot`, and return it."""
        check_swaps(self, swaps)
        new = {
            s.old.recorded: copy_of(self._entries[s.old.recorded], file_path=_beside(s), file_size_in_bytes=s.size)
            for s in swaps
        }
        outcome = {s.old.recorded: (_beside(s), s.num_rows) for s in swaps}
        return self._commit(new, f"{len(swaps)} files with filters", "replace", outcome)

    def set_properties(self, properties: Mapping[str, str]) -> Snapshot:
        """Set properties of the table on top of whatever it has, and return its newest snapshot."""
        from pyiceberg.exceptions import CommitFailedException

        self.require_committable()
        root = self.snapshot.root
        try:
            with self._table.transaction() as transaction:
                transaction.set_properties(dict(properties))
        except CommitFailedException as error:
            raise ConcurrentChangeError(f"another writer changed {root} meanwhile: {error}") from error
        except Exception as error:
            raise UnknownOutcomeError(f"whether {root} has the new properties is not known: {error}") from error
        with after_commit(root):
            return self.refresh()

    def _commit(
        self, new: dict[str, Any], what: str, operation: str, outcome: Mapping[str, tuple[str, int] | None]
    ) -> Snapshot:
        """Write a snapshot of `new` entries, give it to the catalog, and return it; see `check_outcome`."""
        before = self.snapshot
        if (current := self._current()) is None or current.snapshot_id != before.version:
            raise ConcurrentChangeError(f"{before.root} has got another snapshot meanwhile; nothing was committed")
        replacement = Replacement(self._table, new, {"parquet-bloom": what}, operation=operation)
        try:
            replacement.write()
        except Exception as error:
            replacement.discard()
            raise FailedCommitError(
                f"the manifests of a commit to {before.root} could not be written; nothing was committed: {error}"
            ) from error
        try:
            replacement.commit()
        except Exception as error:
            self._require_landed(replacement, error)
        made = self._table.snapshot_by_id(replacement.snapshot_id)
        if made is None:
            raise UnknownOutcomeError(f"{before.root} does not show the snapshot that was committed")
        with after_commit(before.root):
            self.snapshot = self._read(made)
            check_outcome(before, self.snapshot, outcome)
        return self.snapshot

    # ---- deleting rows ---------------------------------------------------------------------

    def require_erasable(self) -> None:
        """Raise `UnsupportedError` if no row of the table can be deleted by a commit of ours."""
        if self._table.format_version >= 3:
            raise UnsupportedError(
                f"{self._files.location} has Iceberg's format version 3, whose row ids pyiceberg would renumber; "
                f"delete the rows with Spark, and then {_APPLYING}"
            )
        self.require_committable()

    def why_not_erased(self, file: LiveFile) -> str | None:
        """Return why no row of this file can be erased without harm, or None."""
        if file.is_outside:
            return for_writing(file.not_excluded)
        if file.has_deletes and self._deletes is not None and self._deletes.are_by_value(file):
            return f"{EQUALITY}; first {_APPLYING}"
        return self._why_left(file)

    def erase(self, erasures: Sequence[Erasure], what: str) -> Snapshot:
        """Delete rows in one snapshot on top of `snapshot`, and return it."""
        check_erasures(self, erasures)
        new = {each.old.recorded: self._entry(self._entries[each.old.recorded], each) for each in erasures}
        operation = "delete" if all(entry is None for entry in new.values()) else "overwrite"
        outcome = {
            each.old.recorded: (_beside(each), each.rows_left) if each.new is not None else None for each in erasures
        }
        return self._commit(new, what, operation, outcome)

    def _entry(self, old: Any, erasure: Erasure) -> Any:
        if erasure.new is None:
            return None
        source, footer = erasure.new
        ids = dict(_field_ids(self._table.schema().fields))
        leaves = enumerate(self.snapshot.leaves(footer))
        of_leaves = {number: ids[leaf.path][-1] for number, leaf in leaves if leaf.path in ids}
        return entry_of(old, _beside(erasure), source, footer, of_leaves)

    def history(self) -> Iterator[tuple[int, Sequence[LiveFile]]]:
        """Yield each earlier snapshot that can still be read, the oldest first, and its files."""
        schema = self._table.schema()
        for at in self._table.snapshots():
            if at.snapshot_id != self.snapshot.version:
                with understood(self._files.location):
                    yield at.snapshot_id, [self._live_file(file, schema, False) for file in self._data_files(at)]

    def _data_files(self, at: Any) -> Iterator[Any]:
        self._files.require(_fsspec_path(at.manifest_list))
        io = CheckedIO(self._table.io)
        for manifest in at.manifests(io):
            self._files.require(_fsspec_path(manifest.manifest_path))
            yield from _entries_of(manifest, "DATA", io)

    def references(self) -> dict[str, int]:
        """Return the snapshots that branches and tags keep, besides that of the main branch, by their names."""
        return {name: ref.snapshot_id for name, ref in self._table.refs().items() if name != "main"}

    @property
    def statements(self) -> IcebergStatements:
        """Spark's statements that take rows, and what is left of them, out of the table."""
        name = ".".join(self._table.name()) if self._has_catalog else "<namespace>.<table>"
        kept = {name: str(ref.snapshot_ref_type) == "tag" for name, ref in self._table.refs().items() if name != "main"}
        is_sharing = self._table.metadata.properties.get("gc.enabled", "").lower() == "false"
        return IcebergStatements(name, is_sharing, tuple(kept.items()))

    def roles(self) -> Iterator[tuple[str, str]]:
        """Yield what files other than data are, by their paths: of the current snapshot last."""
        io = CheckedIO(self._table.io)
        snapshots = sorted(self._table.snapshots(), key=lambda at: at.snapshot_id == self.snapshot.version)
        for at in snapshots:
            suffix = "" if at.snapshot_id == self.snapshot.version else " of an earlier version"
            with understood(self._files.location):
                yield self._files.require(_fsspec_path(at.manifest_list)), f"manifest list{suffix}"
                manifests, io_of_deletes = at.manifests(io), CheckedIO(self._table.io)
                for manifest in manifests:
                    yield self._files.require(_fsspec_path(manifest.manifest_path)), f"manifest{suffix}"
                for file in (
                    file for manifest in manifests for file in _entries_of(manifest, "DELETES", io_of_deletes)
                ):
                    yield self._files.place(_fsspec_path(file.file_path)).path, f"delete file{suffix}"

    @property
    def streams(self) -> str:
        """Which readers stop at a commit that deletes rows, and the option with which they go on."""
        return (
            "Spark streams that read the table stop at this snapshot; start them with the option "
            "streaming-skip-overwrite-snapshots=true, or streaming-skip-delete-snapshots=true if the snapshot's "
            "operation is delete (what they have read already stays in their targets)"
        )

    def _require_landed(self, replacement: Replacement, error: Exception) -> None:
        """Return if the table has the commit although an error was raised; otherwise raise what happened."""
        from pyiceberg.exceptions import CommitFailedException

        root = self.snapshot.root
        is_known = False
        with contextlib.suppress(Exception):
            self._table.refresh()
            if self._table.snapshot_by_id(replacement.snapshot_id) is not None:
                return  # an answer was lost
            is_known = isinstance(error, CommitFailedException)
        if is_known:
            replacement.discard()
            raise ConcurrentChangeError(
                f"another writer changed {root} meanwhile; nothing was committed ({error})"
            ) from error
        raise UnknownOutcomeError(
            f"the commit to {root} failed, and whether the catalog has it is not known: {error}"
        ) from error


_APPLYING = (
    "run rewrite_data_files with the option delete-file-threshold 1, which applies the deletes; `parquet-bloom erase "
    "--plan` prints these statements"
)

# ---- files ---------------------------------------------------------------------------------


def _entries_of(manifest: Any, content: str, io: CheckedIO) -> Iterator[Any]:
    """Yield the files of a manifest that are live in it, if it is one of such `content`."""
    from pyiceberg.manifest import ManifestContent

    if manifest.content == ManifestContent[content]:
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            yield entry.data_file


def _beside(swap: Swap | Erasure) -> str:
    """Return the new file's path as the table would spell it: Iceberg does not encode paths, so percent signs stay."""
    folder, slash, _ = swap.old.recorded.rpartition("/")
    return f"{folder}{slash}{swap.name}"


def _fsspec_path(uri: str) -> str:
    """Return a path or URL of Iceberg's as fsspec calls it; a relative path is one below this process's directory."""
    if re.match(r"file:/(?!/[^/])", uri):
        return "/" + uri.removeprefix("file:").lstrip("/")
    is_relative = "://" not in uri and "::" not in uri and not uri.startswith("/")
    return os.path.abspath(uri) if is_relative else re.sub(r"^s3[an]://", "s3://", uri)


_CODE = "py-io-impl"
"""The property that names a class for reading files, whose module pyiceberg imports when it loads the table."""

_STORES = ("s3", "gcs", "adls", "hdfs", "hf", "oss", "client", "rest", "signer", _CODE)


def _of_stores(properties: Mapping[str, str]) -> list[str]:
    """Return which of a table's properties pyiceberg would take for settings of its store, such as its host."""
    return sorted(name for name in properties if name.partition(".")[0] in _STORES)


def _with_own_store(table: Any) -> Any:
    """Return a table whose properties do not choose which host is called with the catalog's credentials."""
    from pyiceberg.io import load_file_io

    own, settings = table.metadata.properties, dict(table.io.properties)
    foreign = [name for name in _of_stores(own) if settings.get(name) == own[name]]
    if not foreign:
        return table
    of_catalog = table.catalog.properties
    kept = {name: value for name, value in settings.items() if name not in foreign}
    mended = copy.copy(table)
    mended.io = load_file_io({**of_catalog, **kept}, table.metadata_location)
    return mended


def _guarded(catalog: Any) -> Any:
    """Return a catalog whose tables do not choose the code that reads their files; its own settings may."""
    guarded, load = copy.copy(catalog), catalog._load_file_io

    def load_file_io(properties: Mapping[str, Any] = MappingProxyType({}), location: str | None = None) -> Any:
        return load({name: value for name, value in properties.items() if name != _CODE}, location)

    guarded._load_file_io = load_file_io
    return guarded


@contextlib.contextmanager
def _own_code(table: Any) -> Iterator[None]:
    """Have a table of the caller's load with a guarded catalog."""
    catalog, table.catalog = table.catalog, _guarded(table.catalog)
    try:
        yield
    finally:
        table.catalog = catalog


def _is_static(table: Any) -> bool:
    return type(table).__name__ == "StaticTable"


def _root(table: Any) -> str:
    """Return the directory of a table: what its catalog says, or above the metadata file that the caller named."""
    if not _is_static(table):
        return _fsspec_path(table.location())
    folder = _fsspec_path(table.metadata_location).rpartition("/")[0]
    return folder.removesuffix("/metadata") or "/"


def _field_ids(
    fields: Sequence[Any], path: ColumnPath = (), ids: tuple[int, ...] = ()
) -> Iterator[tuple[ColumnPath, tuple[int, ...]]]:
    """Yield the path of each field, groups included, as Parquet files have it, and the ids on the way to it."""
    for field in fields:
        yield from _ids_below(field.field_type, (*path, field.name), (*ids, field.field_id))


def _ids_below(kind: Any, path: ColumnPath, ids: tuple[int, ...]) -> Iterator[tuple[ColumnPath, tuple[int, ...]]]:
    from pyiceberg.types import ListType, MapType, StructType

    yield path, ids
    if isinstance(kind, StructType):
        yield from _field_ids(kind.fields, path, ids)
    elif isinstance(kind, ListType):
        yield from _ids_below(kind.element_type, (*path, "list", "element"), (*ids, kind.element_id))
    elif isinstance(kind, MapType):
        yield from _ids_below(kind.key_type, (*path, "key_value", "key"), (*ids, kind.key_id))
        yield from _ids_below(kind.value_type, (*path, "key_value", "value"), (*ids, kind.value_id))


# ---- statistics ----------------------------------------------------------------------------

_TYPES = {
    "boolean": (PhysicalType.BOOLEAN, None),
    "int": (PhysicalType.INT32, None),
    "long": (PhysicalType.INT64, None),
    "date": (PhysicalType.INT32, LogicalType("DATE")),
    "timestamp": (PhysicalType.INT64, timestamp(is_utc=False)),
    "timestamptz": (PhysicalType.INT64, timestamp(is_utc=True)),
    "float": (PhysicalType.FLOAT, None),
    "double": (PhysicalType.DOUBLE, None),
}

_WIDTHS = {"boolean": (1,), "int": (4,), "long": (4, 8), "date": (4,), "timestamp": (8,), "timestamptz": (8,)}
"""The bytes of a bound (a long may have been an int when it was written)."""


def _surely_recorded(fields: Sequence[Any], schemas: Iterable[Any], mapping: tuple[Mapped, ...] | str) -> list[Any]:
    """Return the columns of which manifests have no bounds of another one.

    What was recorded of a file without ids went by the mapping of that time.
    """
    if mapping == UNMAPPED:
        return list(fields)
    entries = () if isinstance(mapping, str) else mapping
    names = Counter(name for one in entries for name in one.names)
    alone = {(one.field_id, name) for one in entries for name in one.names if len(one.names) == names[name] == 1}
    renamed = _renamed(schemas)
    return [one for one in fields if (one.field_id, one.name) in alone and one.field_id not in renamed]


def _renamed(schemas: Iterable[Any]) -> set[int]:
    """Return the ids of top-level columns that were renamed, or whose name another column has had."""
    pairs = {(each.field_id, each.name) for schema in schemas for each in schema.fields}
    ids, names = Counter(field_id for field_id, _ in pairs), Counter(name for _, name in pairs)
    return {field_id for field_id, name in pairs if ids[field_id] > 1 or names[name] > 1}


def _recorded(fields: Sequence[Any], entries: Sequence[Any], schema: Any) -> Recorded:
    """Return what manifests have of some columns of a table."""
    leaves, columns = [], {}
    for number, each in enumerate(fields):
        kind = str(each.field_type)
        types = _TYPES.get(kind)
        if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
            precision, scale = map(int, match.groups())
            types = PhysicalType.FIXED_LEN_BYTE_ARRAY, LogicalType("DECIMAL", precision=precision, scale=scale)
        if types is not None:
            leaves.append(leaf_of(each.name, number, *types))
            columns[number] = each.field_id, kind

    def read(leaf: LeafColumn) -> Sequence[ColumnStatistics | None]:
        field_id, kind = columns[leaf.index]
        return [_bounds(entry, field_id, kind) for entry in entries]

    return Recorded("in the table's manifests", tuple(each.name for each in schema.fields), tuple(leaves), read)


def _bounds(entry: Any, field_id: int, kind: str) -> ColumnStatistics | None:
    num_rows, nulls = entry.record_count, (entry.null_value_counts or {}).get(field_id)
    if (entry.value_counts or {}).get(field_id, num_rows) != num_rows:
        return None
    low, high = (bounds.get(field_id) if bounds else None for bounds in (entry.lower_bounds, entry.upper_bounds))
    nulls = nulls if is_evident(nulls, low, high) else None
    if low is None or high is None or kind in ("float", "double"):
        return bounds_of(num_rows, nulls, None, None)
    is_decimal = kind.startswith("decimal")
    if any(len(bound) not in (range(1, 17) if is_decimal else _WIDTHS[kind]) for bound in (low, high)):
        return None
    order: Literal["big", "little"] = "big" if is_decimal else "little"
    keys = (int.from_bytes(bound, order, signed=True) for bound in (low, high))
    return bounds_of(num_rows, nulls, *keys, is_exact=True)


# ---- metadata ------------------------------------------------------------------------------


def from_catalog(name: str, table: str, storage_options: StorageOptions) -> Any:
    """Return a table, `namespace.table`, of a catalog that pyiceberg's configuration or environment knows by name.

    Raises `FileNotFoundError` where the catalog has no such table, `UnsupportedError` where it cannot be asked.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise UnsupportedError("reading Iceberg tables needs pyiceberg: pip install 'parquet-bloom[iceberg]'") from None
    except Exception as error:  # which reads its configuration when it is imported
        raise UnsupportedError(f"pyiceberg cannot read its configuration (.pyiceberg.yaml): {error}") from error
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return _guarded(load_catalog(name, **iceberg_options(storage_options))).load_table(table)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise not_found(f"the catalog {name} has no table {table}: {error}") from None
    except Exception as error:
        raise UnsupportedError(f"pyiceberg cannot load {table} from the catalog {name}: {error}") from error


def root_of(table: Any, storage_options: StorageOptions) -> str:
    """Return the directory of a table that is loaded, or of which this is the metadata file."""
    loaded = _static(os.fspath(table), storage_options) if isinstance(table, str | os.PathLike) else table
    return _root(loaded)


def _static(path: str, storage_options: StorageOptions) -> Any:
    """Return a table by its metadata, whose properties say nothing of the store, as they do in pyiceberg's own way."""
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io import load_file_io
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    except ImportError:
        raise UnsupportedError("reading Iceberg tables needs pyiceberg: pip install 'parquet-bloom[iceberg]'") from None
    location = path if path.endswith(ICEBERG_METADATA) else _hadoop_metadata(path, storage_options)
    fs, inner = resolve(location, None, fsspec_options(storage_options))
    try:
        at = inner if is_local(fs) else location
        io = load_file_io(dict(iceberg_options(storage_options)), at)
        metadata = FromInputFile.table_metadata(CheckedIO(io).new_input(at))
        name = "static-table"
        return StaticTable((name, at), metadata=metadata, metadata_location=at, io=io, catalog=NoopCatalog(name))
    except (ParquetBloomError, FileNotFoundError):
        raise
    except Exception as error:
        raise UnsupportedError(f"pyiceberg cannot read {location}: {error}") from error


_HADOOP = re.compile(r"v(\d+)\.(?:(gz)\.)?metadata\.json")
_VERSIONED = re.compile(r"v(\d+)\..*metadata\.json.*")
_OF_A_CATALOG = re.compile(r"\d{5,}-[0-9a-fA-F]{8}-.*metadata\.json.*")


def _hadoop_metadata(root: str, storage_options: StorageOptions) -> str:
    """Return the current metadata file of a Hadoop catalog's table; raises where the directory is not surely one.

    There a commit is the renaming of a file to the next `vN`, and the hint is written after it. So the current one is
    the last of those that follow the hint's without a gap, as long as all are of one table.
    """
    folder = Folder(f"{root.rstrip('/')}/metadata", storage_options=fsspec_options(storage_options))
    hint = _hint(folder, root)  # before the names are listed: what it names is among them then
    names = folder.names()
    if strange := next((name for name in names if _OF_A_CATALOG.fullmatch(name)), None):
        raise _unsure(root, f"metadata/{strange} was written for a catalog")
    versions: dict[int, list[str]] = {}
    for name in names:
        if match := _VERSIONED.fullmatch(name):
            versions.setdefault(int(match[1]), []).append(name)
    if hint not in versions:
        raise _unsure(root, f"metadata/{ICEBERG_HINT} names version {hint}, which has no file")
    last = hint
    while last + 1 in versions:
        last += 1
    for number in range(hint, last + 1):
        files = versions[number]
        if len(files) > 1 or not _HADOOP.fullmatch(files[0]):
            raise _unsure(root, f"pyiceberg cannot tell which file is version {number}: {', '.join(files)}")
    chain = [versions[number][0] for number in range(hint, last + 1)]
    if len({_table_uuid(folder, name) for name in chain}) > 1:
        raise _unsure(root, f"metadata/{chain[0]} and {chain[-1]} are of different tables (table-uuid)")
    return f"{root.rstrip('/')}/metadata/{chain[-1]}"


def _hint(folder: Folder, root: str) -> int:
    try:
        data = read_whole(folder.source(ICEBERG_HINT))
    except FileNotFoundError:
        raise _unsure(root, f"it has no metadata/{ICEBERG_HINT}, which a Hadoop catalog's has") from None
    text = data.decode("ascii", "replace").strip()
    if not re.fullmatch("[0-9]{1,18}", text):
        raise _unsure(root, f"metadata/{ICEBERG_HINT} does not contain a version: {text[:40]!r}")
    return int(text)


def _table_uuid(folder: Folder, name: str) -> Any:
    data = read_whole(folder.source(name))
    try:
        if ".gz." in name:
            Room().gzip(data, name)
            data = gzip.decompress(data)
        return json.loads(data).get("table-uuid")
    except (ValueError, RecursionError, AttributeError) as error:
        raise UnsupportedError(f"pyiceberg cannot read {folder.name}/{name}: {error}") from error


def _unsure(root: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{root} is the directory of an Iceberg table, and only its catalog knows which of its metadata files is "
        f"current ({why}). Pass the table's name with its catalog (namespace.table with catalog=), the "
        "table that pyiceberg loads, or the path of the current metadata file"
    )
