"""Apache Paimon's tables, read from their own metadata (snapshots, manifest lists and manifests of its file layouts).

    snapshot/snapshot-<id>      JSON: the schema's id, a base and a delta list of manifests
    manifest/manifest-list-*    Avro: names of manifests
    manifest/manifest-*         Avro: files that were added and deleted, in order
    manifest/index-manifest-*   Avro: which files have deletion vectors; these lie in `index/`, or beside the files
    schema/schema-<id>          JSON: fields with their ids, keys, options; each file was written with one of them
    <k=v>/bucket-<n>/           data files, and their indexes
    branch/branch-<name>/       `snapshot`, `schema` and `tag` of a branch; the rest lies among the table's own

The rows that a reader of the table sees are not always those in a file. Readers merge files of tables with a primary
key and no deletion vectors, join the columns of others, and find a column of an older schema by its id, under another
name and as another type. Then nothing that is known about the file proves anything; `LiveFile.problem` says why.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import count
from typing import Any, NamedTuple, Self

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
    not_found,
)
from parquet_bloom.storage.drive import read_each, read_whole
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import Source, StorageOptions, is_local, resolve
from parquet_bloom.tables.columns import of_paimon
from parquet_bloom.tables.detect import branch_of
from parquet_bloom.tables.live_files import FileIndex, LiveFile, Problem
from parquet_bloom.tables.paimon_deletes import Vectors
from parquet_bloom.tables.paimon_options import require_newest_state, why_unknown
from parquet_bloom.tables.paimon_rows import Row, Statistics, recorded
from parquet_bloom.tables.roots import Root, for_writing
from parquet_bloom.tables.snapshots import Readable, Snapshot, fsspec_options, moment
from parquet_bloom.tables.unpacking import AVRO, Room, avro_file

_INDEX = ".index"


class OpenPaimon(Readable):
    """A Paimon table, or a branch of one (`branch_of`). Only indexes are committed to it."""

    kind = "Paimon"

    def __init__(
        self,
        table: Any,
        *,
        storage_options: StorageOptions = None,
        as_of: int | str | None = None,
        allow_outside: bool = False,
    ) -> None:
        path = os.fspath(table)
        self._options = fsspec_options(storage_options)
        fs, inner = resolve(path, None, self._options)
        self._root = (inner if is_local(fs) else path).rstrip("/") or "/"
        self._branch = None
        if (named := branch_of(self._root)) is not None and not fs.isdir(inner):
            self._root, self._branch = named
        self._files = Root(self._root, allow_outside=allow_outside)
        if self._branch is not None:
            self._require_branch(self._branch)
        self._folders: dict[str, Folder] = {}
        self._schemas: dict[int, _Schema] = {}
        self._origins: dict[str, _Origin] = {}
        self._searched: dict[tuple[str, ...], dict[str, str]] = {}
        if isinstance(as_of, str) and self._is_branch(as_of):
            self._branch, as_of = as_of, None
            self._folders.clear()
        self.snapshot: Snapshot = self._read(
            self._newest() if as_of is None else self._as_of(as_of), is_newest=as_of is None
        )

    def refresh(self) -> Snapshot:
        """Load and return the newest snapshot."""
        self.snapshot = self._read(self._newest(), is_newest=True)
        return self.snapshot

    # ---- indexes -----------------------------------------------------------------------------

    def require_indexable(self) -> None:
        """Raise `UnsupportedError` unless this is an append table in a local directory, where indexes are attached."""
        schema = self._now
        if self._branch is not None:
            raise UnsupportedError(f"indexes are attached to tables, not to a branch such as {self._branch}")
        if reason := why_unknown(schema.options):
            raise UnsupportedError(f"no index is attached to {self._root}: {reason}")
        if not is_local(self._folder("snapshot").fs) or schema.keys or schema.merged or schema.tracks_rows:
            raise UnsupportedError("indexes are attached to local append tables only; elsewhere use Paimon's procedure")

    def type_of(self, column: str) -> Any:
        """Return a column's type as the schema writes it: a text, unless it is nested. Raises `ColumnNotFoundError`."""
        types = dict(self._now.fields.values())
        if column not in types:
            raise ColumnNotFoundError(column, types, where=self._root)
        return types[column]

    def keeps_indexes_of(self, column: str) -> bool:
        """Return whether the table's options have Paimon index a column, also in the files that it writes."""
        return column in self._now.indexed

    def has_index(self, file: LiveFile) -> bool:
        """Return whether the table has an index of a live file, whether or not readers are to use it."""
        return self._origins[file.recorded].has_index

    def own_column(self, file: LiveFile, column: str) -> tuple[str, Any] | None:
        """Return a column's name and type in the schema that a live file was written with; None: it had none of it."""
        own = self._schema(self._origins[file.recorded].schema)
        numbers = [number for number, (name, _) in self._now.fields.items() if name == column]
        return own.fields.get(numbers[0]) if numbers else None

    # ---- files of metadata -----------------------------------------------------------------

    def _folder(self, name: str) -> Folder:
        if name not in self._folders:
            above = f"{self._root}/branch/branch-{self._branch}" if self._branch and name in _OF_BRANCH else self._root
            self._folders[name] = self._open(f"{above}/{name}")
        return self._folders[name]

    def _open(self, path: str) -> Folder:
        return Folder(path, storage_options=self._options, guard=self._files.require)

    def _branches(self) -> list[str]:
        names = self._open(f"{self._root}/branch").names()
        return [name.removeprefix("branch-") for name in names if name.startswith("branch-")]

    def _require_branch(self, branch: str) -> None:
        if branch not in (known := self._branches()):
            raise not_found(f"{self._root} has no branch {branch}; it has {', '.join(known) or 'none'}")

    def _json(self, folder: str, name: str) -> dict[str, Any]:
        source = self._folder(folder).source(name)
        data = read_whole(source)
        try:
            parsed = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(f"it is not JSON: {error}", path=source.name) from error
        if not isinstance(parsed, dict):
            raise CorruptFileError("it is not a JSON object", path=source.name)
        return parsed

    def _records(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the records of files in the manifests' folder, in order."""
        sources = [self._folder("manifest").source(name) for name in names]
        for source, data in zip(sources, read_each(sources), strict=True):
            yield from _avro(source.name, data, self._room)

    def _ids(self, folder: str, prefix: str) -> list[int]:
        matches = (re.fullmatch(rf"{prefix}(\d+)", name) for name in self._folder(folder).names())
        return sorted(int(match[1]) for match in matches if match)

    def _schema(self, number: int) -> _Schema:
        if number not in self._schemas:
            self._schemas[number] = _Schema(self._json("schema", f"schema-{number}"), f"{self._root}/schema-{number}")
        return self._schemas[number]

    # ---- snapshots ---------------------------------------------------------------------------

    def _newest(self) -> dict[str, Any] | None:
        # Listed, for the hint in LATEST may be behind.
        ids = self._ids("snapshot", "snapshot-")
        return self._json("snapshot", f"snapshot-{ids[-1]}") if ids else None

    def _is_branch(self, as_of: str) -> bool:
        """Return whether a name is that of a branch, and of no snapshot or tag."""
        if self._branch is not None or as_of.isdecimal() or f"tag-{as_of}" in self._folder("tag").names():
            return False
        return as_of in self._branches()

    def _as_of(self, as_of: int | str) -> dict[str, Any]:
        ids = self._ids("snapshot", "snapshot-")
        if isinstance(as_of, int) or as_of.isdecimal():
            if int(as_of) in ids:
                return self._json("snapshot", f"snapshot-{int(as_of)}")
        elif f"tag-{as_of}" in self._folder("tag").names():
            return self._json("tag", f"tag-{as_of}")
        else:
            until = int(moment(as_of).timestamp() * 1000)
            for number in reversed(ids):
                snapshot = self._json("snapshot", f"snapshot-{number}")
                if snapshot["timeMillis"] <= until:
                    return snapshot
        raise ValueError(f"{self._root} has no snapshot {as_of}")

    def _read(self, at: dict[str, Any] | None, *, is_newest: bool) -> Snapshot:
        self._searched.clear()
        self._room = Room()
        numbers = self._ids("schema", "schema-")
        try:
            if at is not None and not numbers:
                numbers = [at["schemaId"]]
            newest = self._now = self._schema(numbers[-1]) if numbers else _Schema(_NOTHING, self._root)
            require_newest_state(newest.options, self._branch, self._root)
            if at is None:
                return Snapshot(self.kind, self._root, None, ())
            # Readers take the table's columns for its newest snapshot, and for another one the snapshot's own. The
            # options are the newest in both cases.
            if not is_newest:
                self._now = self._schema(at["schemaId"]).with_options(newest.options)
            schema = self._now
            names = [at["baseManifestList"], at["deltaManifestList"]]
            manifests = [record["_FILE_NAME"] for record in self._records(names)]
            live = _merged(self._records(manifests))
            vectors = self._vectors(at, schema)
            files = list(self._live_files(schema, live, vectors))
            statistics = recorded(schema.fields.items(), [each for _, each in files]) if not schema.keys else None
            return Snapshot(
                self.kind,
                self._root,
                int(at["id"]),
                tuple(file for file, _ in files),
                recorded=statistics,
                columns=lambda: of_paimon(list(schema.fields.values())),
                deletes=lambda file: vectors.of(file, self._origins[file.recorded].name),
                properties=schema.options,
            )
        except ParquetBloomError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CorruptFileError(f"its metadata cannot be understood: {error!r}", path=self._root) from error

    def _vectors(self, at: dict[str, Any], schema: _Schema) -> Vectors:
        records = self._records([at["indexManifest"]]) if at.get("indexManifest") else ()

        def find(name: str, external: str | None, partition: bytes, bucket: int) -> Source:
            if external is not None:
                folder, _, name = self._files.require(external).rpartition("/")
            elif schema.has_indexes_beside_data:
                folder = self._folder_of(schema, partition, bucket, name)
            else:
                return self._folder("index").source(name)
            return self._open(folder).source(name)

        return Vectors(records, find, self._room, is_off=not schema.has_vectors)

    def _live_files(
        self, schema: _Schema, live: Iterable[dict[str, Any]], vectors: Vectors
    ) -> Iterator[tuple[LiveFile, Statistics | None]]:
        """Yield the live files, each with what the manifest records of its values, if that counts."""
        merged = schema.merged
        for entry in live:
            file = entry["_FILE"]
            # A primary key's newest files have no deletion vectors yet: they are not read before they are compacted.
            if schema.has_vectors and merged is None and schema.keys and file["_LEVEL"] == 0:
                continue
            path, folder = self._place(schema, entry)
            path, outside = self._files.place(path)
            own = self._schema(file["_SCHEMA_ID"])
            problem = _problem(schema, own, merged, entry)
            name, known_as = file["_FILE_NAME"], self._recorded(file, path)
            self._origins[known_as] = _Origin(name, file["_SCHEMA_ID"], _has_index(file))
            live_file = LiveFile(
                path,
                known_as,
                file["_FILE_SIZE"],
                file["_ROW_COUNT"],
                has_deletes=merged is not None or vectors.may_have(name),
                problem=Problem.of("outside", outside) or problem,
                file_index=self._file_index(file, own, folder) if schema.uses_indexes else None,
                unread=_unread(schema, own),
                own_names={
                    name: own.fields[key][0] if key in own.fields else None for key, (name, _) in schema.fields.items()
                },
            )
            yield live_file, own.statistics(file) if problem is None or problem.kind == "some rows" else None

    def _recorded(self, file: dict[str, Any], path: str) -> str:
        return file.get("_EXTERNAL_PATH") or path.removeprefix(f"{self._root}/")

    def _place(self, schema: _Schema, entry: dict[str, Any]) -> tuple[str, str]:
        """Return a file's path and that of its folder."""
        file = entry["_FILE"]
        if external := file.get("_EXTERNAL_PATH"):
            return external, external.rpartition("/")[0]
        folder = self._folder_of(schema, entry["_PARTITION"], entry["_BUCKET"], file["_FILE_NAME"])
        return f"{folder}/{file['_FILE_NAME']}", folder

    def _folder_of(self, schema: _Schema, partition: bytes, bucket: int, name: str) -> str:
        """Return the folder of a bucket, which has a file of this name."""
        of_bucket = f"bucket-{'postpone' if bucket == _POSTPONED else bucket}"
        names = (*schema.data_folder, *schema.partition_folders(partition), of_bucket)
        if any(one.endswith("=") for one in names):
            return self._search(names, name)
        return "/".join([self._root, *names])

    def _file_index(self, file: dict[str, Any], own: _Schema, folder: str) -> FileIndex | None:
        if (embedded := file.get("_EMBEDDED_FILE_INDEX")) is not None:
            return FileIndex(own.columns, data=bytes(embedded))  # where there are both, readers take this one
        names = [name for name in file.get("_EXTRA_FILES") or () if name.endswith(_INDEX)]
        if len(names) != 1:
            return None
        path, outside = self._files.place(f"{folder}/{names[0]}")
        return FileIndex(own.columns, path=path, problem=outside)

    def _search(self, names: tuple[str, ...], wanted: str) -> str:
        """Return the folder that has a file, among those of such names; one that ends in `=` only begins so.

        Files have names of their own in all of the table, so it is the right one.
        """
        if names not in self._searched:
            folders = [self._root]
            for name in names:
                if name.endswith("="):
                    folders = [
                        f"{above}/{one}" for above in folders for one in self._names(above) if one[: len(name)] == name
                    ]
                else:
                    folders = [f"{above}/{name}" for above in folders]
            self._searched[names] = {one: folder for folder in folders for one in self._names(folder)}
        if wanted not in self._searched[names]:
            raise not_found(f"{wanted} is in no folder {'/'.join(names).replace('=/', '=*/')} of {self._root}")
        return self._searched[names][wanted]

    def _names(self, folder: str) -> list[str]:
        return self._open(folder).names()


_POSTPONED = -2
_NOT_MOVED = "its rows have not been moved to their buckets yet"
_OF_BRANCH = ("snapshot", "schema", "tag")


class _Origin(NamedTuple):
    """What a live file is called, and was written with."""

    name: str
    schema: int
    has_index: bool


class IndexCommit:
    """Indexes on their way into a table: written beside their data files, and then attached in one snapshot.

    Nothing else is changed, the table's options neither: without `file-index.bloom-filter.columns` among them, the
    next compaction drops the indexes. For append tables in local directories, at their newest snapshot. In a catalog
    that commits otherwise than by files, such as REST or Hive with locks, use Paimon's own procedure.

    At the end of its `with` block all that was written and not committed is removed; if it cannot be told whether a
    commit reached the table, everything stays, and a note on the error names it.

    Each manifest with such files gets a new one: of each file first the old entry, deleted, and then the changed one,
    added. Whoever expires snapshots takes a deleted file for one to remove unless it is added afterwards; the other way
    round the data would be lost. A new manifest has the statistics of the old one, which cover all that is in it.
    """

    def __init__(self, table: OpenPaimon) -> None:
        table.require_indexable()
        self._table = table
        self._indexes: dict[str, tuple[Folder, str]] = {}
        self._written: list[tuple[Folder, str]] = []
        self._id = uuid.uuid4()
        self._must_stay = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        ours = [*self._indexes.values(), *self._written]
        left = ours if self._must_stay else _remove(ours)
        if error is not None and left:
            names = " ".join(f"{folder.path}/{name}" for folder, name in left)
            error.add_note(f"If the commit did not reach the table, no snapshot has these files: {names}")

    def require_newest(self) -> dict[str, Any]:
        """Return the table's newest snapshot. Raises `ConcurrentChangeError` if it is not the one that is loaded."""
        at = self._table._newest()
        if at is None or at["id"] != self._table.snapshot.version:
            raise ConcurrentChangeError(
                f"{self._table._root} has got another snapshot meanwhile; nothing was committed"
            )
        return at

    def write(self, file: LiveFile, data: bytes) -> str:
        """Write the index of a live file beside it, under a name that nothing has, and return its path.

        Raises `UnsupportedError` for a file that has an index, or does not lie on this machine.
        """
        if self._table.has_index(file):
            raise UnsupportedError(f"{file.path} has an index; nothing was committed")
        if file.is_outside:
            raise UnsupportedError(f"{file.path} gets no index: {for_writing(file.not_excluded)}")
        path, _, name = file.path.rpartition("/")
        folder = Folder(path)
        if not is_local(folder.fs):
            raise UnsupportedError(f"{file.path} is not on a local file system")
        for number in count():
            taken = f"{name}{f'-{number}' if number else ''}{_INDEX}"
            # In this order: what is there is never taken for ours, and what is ours never forgotten.
            if not _is_there(folder, taken):
                self._indexes[file.recorded] = folder, taken
                try:
                    folder.create(taken, data, like=[file.path])
                except FileExistsError:
                    del self._indexes[file.recorded]
                else:
                    return f"{path}/{taken}"
        raise AssertionError("count() has no end")

    def withdraw(self, recorded: str) -> None:
        """Remove the index of a file again."""
        _remove([self._indexes[recorded]])
        del self._indexes[recorded]

    def commit(self) -> None:
        """Attach all indexes in one snapshot, the next one after the table's.

        Raises `ConcurrentChangeError` if the table has another snapshot by now, and what is understood of it no longer
        fits: then nothing was committed, and it may be tried again once the table was refreshed.
        """
        try:
            self._commit()
        except BaseException:
            self._must_stay = self._may_have_landed()
            if not self._must_stay:
                _remove(self._written)
                self._written, self._id = [], uuid.uuid4()
            raise
        self._must_stay = True

    def _may_have_landed(self) -> bool:
        """Return whether the snapshot may be there, although its writing failed."""
        try:
            name = f"snapshot-{(self._table.snapshot.version or 0) + 1}"
            there = name in self._table._folder("snapshot").names()
            return there and str(self._id) in self._table._json("snapshot", name)["deltaManifestList"]
        except Exception:  # whatever it is, what may be a part of the table stays
            return True

    def _commit(self) -> None:
        at = self.require_newest()
        self._table.require_indexable()
        schema, listed = self._read([at["baseManifestList"], at["deltaManifestList"]])
        lists = {"base": listed, "delta": self._write_manifests(listed)}
        new = _next_snapshot(at)
        for number, (which, records) in enumerate(lists.items()):
            name = f"manifest-list-{self._id}-{number}"
            size = self._write(name, schema, records)
            new[f"{which}ManifestList"] = name
            if f"{which}ManifestListSize" in at:
                new[f"{which}ManifestListSize"] = size
        try:
            self._table._folder("snapshot").create(f"snapshot-{new['id']}", json.dumps(new, indent=2).encode())
        except FileExistsError:
            raise ConcurrentChangeError(
                f"another writer committed snapshot {new['id']} of {self._table._root}; nothing was committed"
            ) from None
        # LATEST may be behind: readers look whether there is a next snapshot.

    def _write_manifests(self, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write a new manifest for each one that has files with new indexes, and return their list's records."""
        manifests = [self._read([record["_FILE_NAME"]]) for record in listed]
        live = {id(entry) for entry in _merged(entry for _, entries in manifests for entry in entries)}
        waiting = {recorded: name for recorded, (_, name) in self._indexes.items()}
        changed = []
        for number, (record, (schema, entries)) in enumerate(zip(listed, manifests, strict=True)):
            swaps = [swap for entry in entries if id(entry) in live for swap in self._swap(entry, waiting)]
            if swaps:
                name = f"manifest-{self._id}-{number}"
                size = self._write(name, schema, swaps)
                half = len(swaps) // 2
                counts = {"_NUM_ADDED_FILES": half, "_NUM_DELETED_FILES": half}
                changed.append({**record, "_FILE_NAME": name, "_FILE_SIZE": size, **counts})
        if waiting:
            raise UnsupportedError(f"{min(waiting)} is not a live file of any manifest; nothing was committed")
        return changed

    def _read(self, names: list[str]) -> tuple[Any, list[dict[str, Any]]]:
        """Return the records of files of one schema."""
        import fastavro

        schemas, records, room = [], [], Room()
        for name in names:
            source = self._table._folder("manifest").source(name)
            data = read_whole(source)
            records += list(_avro(source.name, data, room))
            schemas.append(fastavro.reader(io.BytesIO(data)).writer_schema)
        if any(schema != schemas[0] for schema in schemas):
            raise UnsupportedError(f"{names} were written by different versions of Paimon; compact the table first")
        return schemas[0], records

    def _write(self, name: str, schema: Any, records: list[dict[str, Any]]) -> int:
        import fastavro

        out = io.BytesIO()
        fastavro.writer(out, schema, records, codec="zstandard")
        folder = self._table._folder("manifest")
        self._written.append((folder, name))  # before it is there: nobody else has this name
        folder.create(name, out.getvalue())
        return out.tell()

    def _swap(self, entry: dict[str, Any], waiting: dict[str, str]) -> list[dict[str, Any]]:
        """Return the old entry, deleted, and the new one, added, of a file that gets an index; none of another."""
        file = entry["_FILE"]
        path, _ = self._table._place(self._table._schema(file["_SCHEMA_ID"]), entry)
        name = waiting.pop(self._table._recorded(file, path), None)
        if name is None:
            return []
        if _has_index(file):
            raise UnsupportedError(f"{path} has an index; nothing was committed")
        added = {**entry, "_FILE": {**file, "_EXTRA_FILES": [*(file.get("_EXTRA_FILES") or ()), name]}}
        return [{**entry, "_KIND": 1}, added]


def _next_snapshot(at: dict[str, Any]) -> dict[str, Any]:
    """Return the snapshot after this one, of the same rows; its lists are still the old ones."""
    new = {
        **at,
        "id": at["id"] + 1,
        "commitUser": str(uuid.uuid4()),
        "commitIdentifier": 2**63 - 1,
        "commitKind": "COMPACT",
        "timeMillis": max(time.time_ns() // 10**6, at["timeMillis"]),
        "changelogManifestList": None,
        "deltaRecordCount": 0,
        "changelogRecordCount": 0,
    }
    new.pop("changelogManifestListSize", None)
    return new


def _remove(written: Iterable[tuple[Folder, str]]) -> list[tuple[Folder, str]]:
    """Remove files, and return those that could not be removed."""
    left = []
    for folder, name in written:
        try:
            folder.remove([name])
        except OSError:
            left.append((folder, name))
    return left


def _is_there(folder: Folder, name: str) -> bool:
    try:
        return bool(folder.source(name))
    except FileNotFoundError:
        return False


def _avro(name: str, data: bytes, room: Room) -> Iterator[dict[str, Any]]:
    if not data.startswith(AVRO):
        raise UnsupportedError(f"{name} is not an Avro file; manifests in other formats are not supported")
    _, records = avro_file(data, name, room)
    yield from list(records)


def _merged(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of files that were added and not deleted afterwards."""
    live: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        file = entry["_FILE"]
        identity = (
            *(entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"]),
            *(tuple(file.get("_EXTRA_FILES") or ()), file.get("_EMBEDDED_FILE_INDEX"), file.get("_EXTERNAL_PATH")),
        )
        if entry["_KIND"] == 0:
            live[identity] = entry
        elif entry["_KIND"] == 1:
            live.pop(identity, None)
        else:
            raise CorruptFileError(f"{file['_FILE_NAME']} has an entry of the unknown kind {entry['_KIND']}")
    return list(live.values())


def _has_index(file: dict[str, Any]) -> bool:
    extra = file.get("_EXTRA_FILES") or ()
    return file.get("_EMBEDDED_FILE_INDEX") is not None or any(name.endswith(_INDEX) for name in extra)


def _problem(schema: _Schema, own: _Schema, merged: str | None, entry: dict[str, Any]) -> Problem | None:
    """Return why a file of schema `own` has other rows, or columns, than those that the table's readers see."""
    file = entry["_FILE"]
    if entry["_BUCKET"] == _POSTPONED:
        return Problem("rows", _NOT_MOVED)
    if reason := merged or _why_not_whole(file):
        return Problem("rows", reason)
    of_columns, of_rows = _unlike(schema, own), schema.expiry
    if schema.keys and file.get("_DELETE_ROW_COUNT") != 0:
        of_rows = "some of its rows may say that a key is deleted"
    if of_columns and of_rows:
        return Problem("rows", f"{of_columns}; {of_rows}")
    return Problem.of("columns", of_columns) or Problem.of("some rows", of_rows)


def _unread(table: _Schema, own: _Schema) -> dict[str, str]:
    """Return the columns of the table whose values a file of schema `own` does not tell, each with why."""
    unread = {}
    for number, (name, kind) in table.fields.items():
        _, old_kind = own.fields.get(number, (name, kind))
        if not _holds_all(kind, old_kind):
            unread[name] = f"it was {old_kind} when the file was written and is {kind} now"
        elif number not in own.fields and name in table.partition_keys:
            unread[name] = "it is a partition column, which the file does not have"
    return unread


def _why_not_whole(file: dict[str, Any]) -> str | None:
    if not file["_FILE_NAME"].endswith(".parquet"):
        return f"it is not a Parquet file but {file['_FILE_NAME'].rpartition('.')[2]}"
    if file.get("_WRITE_COLS") is not None:
        return "it has only some of its rows' columns; other files have the rest"
    return None


# ---- schemas ---------------------------------------------------------------------------------


class _Schema:
    """A schema of the table. `merged` is why a file alone does not tell which rows readers see, or None."""

    def __init__(self, parsed: dict[str, Any], name: str) -> None:
        try:
            self.fields = {field["id"]: (field["name"], field["type"]) for field in parsed["fields"]}
            self.keys = tuple(parsed["primaryKeys"])
            self._partition_keys = tuple(parsed["partitionKeys"])
            self.options: dict[str, str] = dict(parsed.get("options") or {})
            _require(int, self.fields)
            names = [name for name, _ in self.fields.values()]
            _require(str, [*names, *self.keys, *self._partition_keys, *self.options.values()])
            by_name = dict(self.fields.values())
            self._partition_types = [_bare(by_name[key]) for key in self._partition_keys]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"the schema cannot be understood: {error!r}", path=name) from error
        self.columns = {name: kind for name, kind in self.fields.values() if isinstance(kind, str)}

    def with_options(self, options: dict[str, str]) -> Self:
        """Return this schema with the options of another one."""
        new = copy(self)
        new.options = options
        return new

    def _is_on(self, option: str, otherwise: str = "false") -> bool:
        return self.options.get(option, otherwise).strip().lower() == "true"

    @property
    def has_vectors(self) -> bool:
        return self._is_on("deletion-vectors.enabled")

    @property
    def has_indexes_beside_data(self) -> bool:
        """Whether deletion vectors lie in the folders of their data files."""
        return self._is_on("index-file-in-data-file-dir")

    @property
    def uses_indexes(self) -> bool:
        return self._is_on("file-index.read.enabled", "true")

    def statistics(self, file: dict[str, Any]) -> Statistics | None:
        """Return what the manifest records of the values in a file that was written with this schema."""
        names = file.get("_VALUE_STATS_COLS")
        own = {name: (number, kind) for number, (name, kind) in self.fields.items()}
        if names is not None and not own.keys() >= set(names):
            return None
        columns = tuple(own[name] for name in (own if names is None else names))
        constant = {own[name][0] for name in self._partition_keys if name in own}
        return Statistics(file["_ROW_COUNT"], file["_VALUE_STATS"], columns, constant)

    @property
    def indexed(self) -> set[str]:
        return {name.strip() for name in self.options.get("file-index.bloom-filter.columns", "").split(",")}

    @property
    def tracks_rows(self) -> bool:
        return self._is_on("row-tracking.enabled")

    @property
    def data_folder(self) -> list[str]:
        folder = self.options.get("data-file.path-directory", "").strip("/")
        return [folder] if folder else []

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self._partition_keys

    @property
    def expiry(self) -> str | None:
        """Why readers leave out rows of files, or None."""
        return "readers leave out its expired rows" if "record-level.expire-time" in self.options else None

    @property
    def merged(self) -> str | None:
        if reason := why_unknown(self.options):
            return reason
        if self._is_on("data-evolution.enabled"):
            return "readers assemble its rows from several files"
        if any(re.fullmatch(r"fields\..*\.default-value", option) for option in self.options):
            return "readers may replace NULL with a default value"
        if self.keys and (not self.has_vectors or self._is_on("deletion-vectors.merge-on-read")):
            return "readers merge it with other files of the same keys; a table with deletion vectors needs no merging"
        return None

    def partition_folders(self, packed: bytes) -> Iterator[str]:
        """Yield the names of a partition's folders; of one that is not known its beginning, `k=`.

        Those of floats, times and bytes depend on the release of Paimon, that of Java, the time zone, or on nothing,
        and not every release knows of names that are not legacy ones.
        """
        values = _partition_values(packed, self._partition_types)
        blank = self.options.get("partition.default-name", "__DEFAULT_PARTITION__")
        is_legacy = self._is_on("partition.legacy-name", "true")
        for key, value in zip(self._partition_keys, values, strict=True):
            if value is _UNKNOWN or (isinstance(value, _Day) and not is_legacy):
                yield f"{_escaped(key)}="
                continue
            text = value if isinstance(value, str | None) else _partition_text(value)
            yield f"{_escaped(key)}={_escaped(text if text and not text.isspace() else blank)}"


def _require(kind: type, values: Iterable[Any]) -> None:
    for value in values:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not of type {kind.__name__}")


_NOTHING: dict[str, Any] = {"fields": [], "primaryKeys": [], "partitionKeys": []}


def _unlike(table: _Schema, own: _Schema) -> str | None:
    """Return why a file of schema `own` does not have the table's columns as they are now, or None."""
    if table is own:
        return None
    ids = {name: number for number, (name, _) in own.fields.items()}
    for number, (name, kind) in table.fields.items():
        old_name, old_kind = own.fields.get(number, (name, kind))
        if old_name != name or ids.get(name, number) != number:
            return f"column {name} had another name when it was written"
        if not _holds_all(kind, old_kind):
            return f"column {name} was {old_kind} when it was written and is {kind} now"
    return None


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def _holds_all(kind: Any, old: Any) -> bool:
    """Return whether an older type's values keep their value, and what they are equal to, in a newer type."""
    new_kind, old_kind = _bare(kind), _bare(old)
    if new_kind in _INTEGERS and old_kind in _INTEGERS:
        return _INTEGERS.index(new_kind) >= _INTEGERS.index(old_kind)
    texts = [_length(each, "VARCHAR", "STRING") for each in (new_kind, old_kind)]
    blobs = [_length(each, "VARBINARY", "BYTES") for each in (new_kind, old_kind)]
    for new_length, old_length in (texts, blobs):
        if new_length and old_length:
            return new_length >= old_length
    return bool(new_kind == old_kind)


def _length(kind: Any, some: str, longest: str) -> int:
    if kind == longest:
        return 2**31 - 1
    match = re.fullmatch(rf"{some}\((\d+)\)", kind) if isinstance(kind, str) else None
    return int(match[1]) if match else 0


def _bare(kind: Any) -> Any:
    """Return a type without NOT NULL."""
    return re.sub(r" NOT NULL$", "", kind.strip().upper()) if isinstance(kind, str) else kind


# ---- partitions ------------------------------------------------------------------------------


_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8}


def _partition_values(packed: bytes, kinds: Sequence[Any]) -> list[Any]:
    """Return the values of a partition, `_UNKNOWN` of types whose folders have other names."""
    row = Row(packed, len(kinds))
    values: list[Any] = []
    for position, kind in enumerate(kinds):
        if row.is_null(position):
            values.append(None)
        elif _length(kind, "VARCHAR", "STRING") or _length(kind, "CHAR", "CHAR"):
            values.append(row.data(position).decode())
        elif kind in _WIDTHS:
            value = row.integer(position, _WIDTHS[kind])
            values.append({"BOOLEAN": bool(value), "DATE": _Day(value)}.get(kind, value))
        else:
            values.append(_UNKNOWN)
    return values


_UNKNOWN = object()


class _Day(int):
    pass


def _partition_text(value: int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(int(value))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


_SPECIAL = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")
