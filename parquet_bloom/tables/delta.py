"""Delta tables through deltalake.

A swap is one version that removes the old files and adds the new ones with `dataChange` false, so streams and the
change feed do not see it. deltalake commits a remove of a file that is not in the table, and when it retries, it
commits over an OPTIMIZE: both would make rows appear twice. So a commit is built on exactly the version whose files
were read, is not retried, and its outcome is checked. If the table has a feature that deltalake lacks, but that only
needs to be carried along, the version is written to the log here, by the same rule: the next one after the version
that was read, or none. (Delta transaction log protocol: Add File and Remove File, Creation of New Log Entries.)
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import re
import time
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, UnsupportedError, not_found
from parquet_bloom.format.footer import text_rule
from parquet_bloom.format.schema import ColumnPath, LeafColumn, LogicalType, PhysicalType
from parquet_bloom.storage.folder import links_in
from parquet_bloom.storage.listing import LOCAL, StorageOptions, is_local, names_in, resolve
from parquet_bloom.tables.columns import of_delta
from parquet_bloom.tables.delta_erased import BY_SPARK, metrics, statistics_of, why_not_erased
from parquet_bloom.tables.delta_features import features_for_entry, refused_feature
from parquet_bloom.tables.delta_log import Log, commit_name, has_in_commit_timestamps
from parquet_bloom.tables.delta_statistics import EPOCH
from parquet_bloom.tables.live_files import LiveFile, Problem
from parquet_bloom.tables.placement import ByIds, ByName, Mapped
from parquet_bloom.tables.recorded import Recorded, bounds_of, is_evident, leaf_of, timestamp
from parquet_bloom.tables.roots import OUTSIDE, Root, for_writing
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
    delta_options,
    fsspec_options,
    moment,
)
from parquet_bloom.tables.statements import DeltaStatements
from parquet_bloom.values.arrays import numbers_of
from parquet_bloom.values.ordering import Key
from parquet_bloom.values.statistics import ColumnStatistics


class OpenDelta(Erasable):
    """A Delta table."""

    kind = "Delta"

    def __init__(
        self,
        table: Any,
        *,
        storage_options: StorageOptions = None,
        as_of: int | str | None = None,
        allow_outside: bool = False,
    ) -> None:
        self._options = fsspec_options(storage_options)
        if isinstance(table, str | os.PathLike):
            self._root, self._is_local = _located(os.fspath(table), storage_options)
            self._files = Root(self._root, allow_outside=allow_outside)
            self._require_own_log()
            self._log = Log(self._files, self._options, self._require_first)
            if self._is_local:
                self._log.require_room()
            self._table = _loaded(self._root, storage_options)
        else:
            self._table, (self._root, self._is_local) = table, _root_of(table.table_uri)
            self._files = Root(self._root, allow_outside=allow_outside)
            self._log = Log(self._files, self._options, self._require_first)
            if as_of is None:
                with _errors(self._root):
                    table.update_incremental()
        self._swapped: dict[str, _Replaced] = {}  # what commits of this object took out
        self._entries: dict[int, bytes] = {}  # the versions that this object committed, as the log has them
        if as_of is None:
            self._require_newest()
        else:
            self._go_back(as_of)
        self.snapshot: Snapshot = self._read()

    def _require_newest(self) -> None:
        """Raise `OSError` if deltalake has missed versions: on a local disk it skips what it cannot look at."""
        newest = self._newest_logged()
        for is_last in (False, True):
            if newest <= self._table.version():
                return
            if not is_last:  # another writer may have committed just now
                with _errors(self._root):
                    self._table.update_incremental()
        raise OSError(f"{self._root}: deltalake does not see version {newest} of the log, which is there; try again")

    def _newest_logged(self) -> int:
        names = names_in(LOCAL, f"{self._root}/_delta_log") if self._is_local else ()
        return max((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=-1)

    def _require_own_log(self) -> None:
        """Raise `UnsupportedError` where a symbolic link leads out of the table from its log, which deltalake reads."""
        if not self._is_local:
            return
        for folder in ("_delta_log", "_delta_log/_sidecars"):
            self._files.require(folder)
            for name in links_in(f"{self._root}/{folder}"):
                self._files.require(f"{folder}/{name}")

    def _go_back(self, as_of: int | str) -> None:
        with _errors(self._root):
            if isinstance(as_of, int) or as_of.isdecimal():
                self._table.load_as_version(int(as_of))
                return
            time = moment(as_of)
            self._table.update_incremental()
            configuration = self._table.metadata().configuration
            self._table.load_as_version(self._log.version_at(time, self._table.version(), configuration))

    @property
    def _version(self) -> int:
        """The snapshot's version, which a Delta table always has."""
        return self.snapshot.version or 0

    def refresh(self) -> Snapshot:
        """Load and return the newest version."""
        with _errors(self._root):
            self._table.update_incremental()
        self._require_newest()
        self.snapshot = self._read()
        return self.snapshot

    # ---- reading -------------------------------------------------------------------------

    def _read(self) -> Snapshot:
        import pyarrow as pa

        with _errors(self._root):
            adds = pa.table(self._table.get_add_actions())
            schema = json.loads(self._table.schema().to_json())
            configuration = self._table.metadata().configuration
        wanted = [name for name in ("path", "size_bytes", "num_records", "partition") if name in adds.column_names]
        with_deletes = self._with_deletes()
        mode = configuration.get("delta.columnMapping.mode", "none")
        files = [self._live_file(add, with_deletes) for add in adds.select(wanted).to_pylist()]
        if with_deletes and not any(file.has_deletes for file in files):
            raise UnsupportedError(f"{self._root} has deletion vectors of files that are not in the table")
        names = {f["name"]: f["metadata"].get(_PHYSICAL, f["name"]) for f in schema["fields"]} if mode != "none" else {}
        instants = [field["name"] for field in schema["fields"] if field["type"] == "timestamp"]
        if files and (at_instants := {name for name in instants if name in files[0].partition}):
            files = list(self._with_local_times(files, at_instants, names))
        statistics = self._statistics(self._table.version(), files)
        is_widened = any(feature.startswith("typeWidening") for feature in self._table.protocol().reader_features or ())
        recorded = None if is_widened else _recorded(schema["fields"], names, files, statistics)
        return Snapshot(
            self.kind,
            self._root,
            self._table.version(),
            tuple(files),
            naming=_naming(schema["fields"], by_id=mode != "name") if names else ByName(),
            recorded=recorded,
            text_rules={field["name"]: rule for field in schema["fields"] if (rule := text_rule(field))},
            columns=cache(lambda: of_delta(schema["fields"])),
            deletes=Vectors(self._vectors, self._table.version()).of,
            properties=dict(configuration),
        )

    def _live_file(self, add: dict[str, Any], with_deletes: set[str]) -> LiveFile:
        recorded = add["path"]
        path, outside = self._files.place(unquote(recorded))
        partition = {name: _as_text(value) for name, value in (add.get("partition") or {}).items()}
        size, rows = add["size_bytes"], add.get("num_records")
        return LiveFile(
            path,
            recorded,
            size,
            rows,
            partition,
            has_deletes=path in with_deletes,
            problem=Problem.of("outside", outside),
        )

    def _with_local_times(
        self, files: Sequence[LiveFile], columns: set[str], names: dict[str, str]
    ) -> Iterator[LiveFile]:
        """Yield the files with those partition columns as unread whose instants the log does not write in UTC."""
        for file in files:
            written: dict[str, str | None] = {}
            with contextlib.suppress(UnsupportedError, CorruptFileError, OSError):
                written = (self._log_entry(file) or {}).get("partitionValues") or {}
            unread = {}
            for name in columns:
                if not (written.get(names.get(name, name)) or "").endswith("Z") and file.partition[name] is not None:
                    unread[name] = _LOCAL_TIME
            yield replace(file, unread=unread)

    def _log_entry(self, file: LiveFile) -> dict[str, Any] | None:
        self._log.read(self._table.version())
        return self._log.adds.get(file.recorded)

    def _with_deletes(self) -> set[str]:
        """Return the paths of the files that have a deletion vector."""
        import pyarrow as pa

        with _errors(self._root):
            if "deletionVectors" not in (self._table.protocol().reader_features or ()):
                return set()
            self._log.read(self._table.version())
            vectors = {path: add["deletionVector"] for path, add in self._log.adds.items() if add["deletionVector"]}
            if any(map(self._is_outside, vectors.values())):
                return {self._files.place(unquote(path)).path for path in vectors}  # deltalake would open them
            batches = pa.RecordBatchReader.from_stream(self._table.deletion_vectors())
            urls = [url for batch in batches for url in batch.column("filepath").to_pylist()]
        return {self._files.place(unquote(url)).path for url in urls}

    def _vectors(self, version: int) -> Iterator[tuple[str, Any, int]]:
        """Yield for each file with a deletion vector its path, which of its rows are kept, and how many are not."""
        import pyarrow as pa

        with _errors(self._root):
            if self._table.version() != version:
                raise UnsupportedError("the table was loaded again since; its deletion vectors are of another version")
            self._log.read(version)
            vectors = {path: add["deletionVector"] for path, add in self._log.adds.items() if add["deletionVector"]}
            if any(map(self._is_outside, vectors.values())):
                raise UnsupportedError("a deletion vector of the table lies outside of its directory, so none is read")
            counts = {self._files.place(unquote(path)).path: one["cardinality"] for path, one in vectors.items()}
            for batch in pa.RecordBatchReader.from_stream(self._table.deletion_vectors()):
                urls = batch.column("filepath").to_pylist()
                for number, url in enumerate(urls):
                    path = self._files.place(unquote(url)).path
                    yield path, batch.column("selection_vector")[number].values, counts.get(path, -1)

    def _is_outside(self, vector: dict[str, Any]) -> bool:
        """Return whether a deletion vector lies outside of the table's directory."""
        kind, path = vector["storageType"], vector["pathOrInlineDv"]
        if kind == "i":
            return False
        name = unquote(path) if kind == "p" else _vector_name(path)
        return name is None or self._files.place(name).outside is not None

    # ---- the log as it is written ----------------------------------------------------------

    def _logged(self, file: LiveFile) -> dict[str, Any] | None:
        """Return the add action of a live file, as it stands in the log."""
        self._log.read(self._version)
        return self._log.adds.get(file.recorded)

    def _entry_in_log(self, file: LiveFile) -> dict[str, Any]:
        """Return the add action of a live file that may be replaced."""
        if (add := self._logged(file)) is None:
            raise UnsupportedError(f"{file.path}: {_NOT_LOGGED}")
        return add

    def _statistics(self, version: int, files: Sequence[LiveFile]) -> Callable[[], Sequence[Any]]:
        """Return a function that parses the files' statistics in the log; None for all files if it cannot be read.

        deltalake has them, too, but converts whatever is written to the column's type. The writer of a checkpoint may
        have done the same, so statistics that are structs in a checkpoint are ignored.
        """
        statistics: list[Any] = []

        def as_written(file: LiveFile) -> Any:
            add = self._logged(file)
            return None if add is None or add["is_parsed"] else _parsed(add["stats"])

        def parsed() -> Sequence[Any]:
            if not statistics and self.snapshot.version == version:
                with contextlib.suppress(Exception):  # a log that is not understood excludes nothing
                    statistics.extend(map(as_written, files))
            return statistics if len(statistics) == len(files) else [None] * len(files)

        return parsed

    # ---- committing ------------------------------------------------------------------------

    def require_committable(self) -> None:
        """Raise `UnsupportedError` if no file of the table can be swapped without harm."""
        version = self._version
        self._log.read(version)
        if reason := refused_feature(self._log.protocol):
            raise UnsupportedError(f"{self._root} cannot be committed to: {reason}")
        if self._writes_entries:
            if not self._log.folder.may_be_exclusive:
                raise UnsupportedError(
                    f"{self._root} has features ({', '.join(sorted(features_for_entry(self._log.protocol)))}) that "
                    "deltalake cannot commit to; parquet-bloom can, on local disks and on S3 only, where two writers "
                    "cannot write the same version"
                )
            if has_in_commit_timestamps(self._log.configuration):
                self._log.in_commit_timestamp(version)

    def prepare(self) -> None:
        """Raise `UnsupportedError` if a test shows that the table's store lets two writers write the same version."""
        if self._writes_entries:
            self._log.folder.require_exclusive()

    @property
    def _writes_entries(self) -> bool:
        """Whether commits are entries that are written to the log here, since deltalake refuses them."""
        return bool(features_for_entry(self._log.protocol))

    def refusal(self, file: LiveFile) -> str | None:
        """Return why this file cannot be swapped without harm, or None."""
        if reason := self._why_elsewhere(file):
            return reason
        if not self._writes_entries and file.recorded != _as_logged(unquote(file.recorded)):
            return "deltalake would write its path differently from the log, and its rows would appear twice"
        if reason := self._why_left(file):
            return reason
        add = self._logged(file)
        if file.has_deletes or (add is not None and add["deletionVector"]):
            return (
                "it has a deletion vector, and its deleted rows would come back; run OPTIMIZE or REORG ... PURGE first"
            )
        return None

    def _why_elsewhere(self, file: LiveFile) -> str | None:
        if file.is_outside and file.not_excluded != OUTSIDE:
            return for_writing(file.not_excluded)
        if file.is_outside or _is_absolute(unquote(file.recorded)):
            return _ELSEWHERE
        return None

    def _why_left(self, file: LiveFile) -> str | None:
        add = self._logged(file)
        if add is None:
            return _NOT_LOGGED
        if add["baseRowId"] is not None:
            return "it has row ids, which a commit would lose"
        return None

    def notes(self, file: LiveFile) -> tuple[str, ...]:
        """Return what a swap of this file does not carry over."""
        add = None if self._writes_entries else self._logged(file)
        return (f"the log's tags {sorted(add['tags'])} are not carried over",) if add and add["tags"] else ()

    def commit(self, swaps: Sequence[Swap]) -> Snapshot:
        """Swap files in one version on top of `snapshot`, and return that version."""
        from deltalake.exceptions import DeltaProtocolError

        before, made = self.snapshot, self._version + 1
        check_swaps(self, swaps)
        if self._entries:
            self._require_entry(max(self._entries))
        try:
            if self._writes_entries:
                self._write_entry(swaps)
            else:
                self._write_through_deltalake(swaps)
        except Exception as error:
            try:
                self._require_landed(swaps, error)
            except FailedCommitError:
                if isinstance(error, DeltaProtocolError):
                    raise UnsupportedError(f"deltalake cannot write to {self._root}: {error}") from error
                raise
        with after_commit(self._root):
            with _errors(self._root):
                self._table.load_as_version(made)
            self.snapshot = self._read()
            renamed = {swap.old.recorded: (self._recorded(swap), swap.num_rows) for swap in swaps}
            check_outcome(before, self.snapshot, renamed)
            self._note_replaced(renamed)
            if made not in self._entries:
                self._entries[made] = self._log.commit(made)
        return self.snapshot

    # ---- deleting rows ---------------------------------------------------------------------

    def require_erasable(self) -> None:
        """Raise `UnsupportedError` if no row of the table can be deleted by a commit of ours."""
        try:
            self.require_committable()
        except UnsupportedError as error:
            raise UnsupportedError(f"{error}; {BY_SPARK}") from None
        if reason := why_not_erased(self._log.configuration):
            raise UnsupportedError(f"{self._root} cannot be committed to: {reason}")
        if not self._log.folder.may_be_exclusive:
            raise UnsupportedError(
                f"{self._root} cannot be committed to: rows are deleted on local disks and on S3 only, where two "
                "writers cannot write the same version"
            )

    def prepare_erasure(self) -> None:
        """Raise `UnsupportedError` if a test shows that the table's store lets two writers write the same version."""
        self._log.folder.require_exclusive()

    def why_not_erased(self, file: LiveFile) -> str | None:
        """Return why no row of this file can be erased without harm, or None."""
        if reason := self._why_elsewhere(file):
            return reason
        reason = self._why_left(file)
        add = self._logged(file)
        if add is not None and file.has_deletes != bool(add["deletionVector"]):
            reason = "deltalake and the log do not agree on whether it has a deletion vector"
        return f"{reason}; {BY_SPARK}" if reason else None

    def erase(self, erasures: Sequence[Erasure], what: str) -> Snapshot:
        """Delete rows in one version on top of `snapshot`, and return that version."""
        before = self.snapshot
        check_erasures(self, erasures)
        if self._entries:
            self._require_entry(max(self._entries))
        now = self._time_of_commit()
        sizes = [one.new.source.size for one in erasures if one.new is not None]
        erased, left = (sum(each) for each in zip(*((one.rows_erased, one.rows_left) for one in erasures), strict=True))
        vectors = sum(one.old.has_deletes for one in erasures)
        information = {
            **self._information("DELETE", now, f"parquet-bloom: {what}"),
            "operationParameters": {"predicate": json.dumps([what])},
            "operationMetrics": metrics([one.old.size for one in erasures], sizes, erased, left, vectors),
        }
        actions = [action for one in erasures for action in self._erasing(one, now)]
        data = _entry([{"commitInfo": information}, *actions])
        with self._written(data):
            replaced = {
                one.old.recorded: (_beside_logged(one), one.rows_left) if one.new is not None else None
                for one in erasures
            }
            check_outcome(before, self.snapshot, replaced)
            self._note_replaced(replaced)
        return self.snapshot

    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[None]:
        """Write the next version to the log, which must not exist, and read it; what is done inside may check it."""
        version = self._version + 1
        try:
            self._log.folder.create(commit_name(version), data)
        except Exception as error:
            self._require_written(version, data, error)
        self._entries[version] = data
        with after_commit(self._root):
            with _errors(self._root):
                self._table.load_as_version(version)
            self.snapshot = self._read()
            yield

    def set_properties(self, properties: Mapping[str, str]) -> Snapshot:
        """Set properties in one version on top of `snapshot`.

        The version has the table's metadata as the log has it, but for these properties, and no other action.
        """
        self.require_committable()
        before = self.snapshot
        if not self._log.folder.may_be_exclusive:
            raise UnsupportedError(
                "its properties are set on local disks and on S3 only, where two writers cannot write the same version"
            )
        self._log.folder.require_exclusive()
        metadata = self._log.metadata
        if strange := sorted(metadata.keys() - _METADATA):
            raise UnsupportedError(f"its metadata has fields that are not understood: {', '.join(strange)}")
        form = metadata.get("format") or {}
        changed = {
            **{name: value for name, value in metadata.items() if value is not None},
            "format": {**form, "options": dict(form.get("options") or ())},
            "configuration": {**self._log.configuration, **properties},
        }
        parameters = {"operationParameters": {"properties": json.dumps(dict(properties))}}
        information = self._information("SET TBLPROPERTIES", self._time_of_commit(), "parquet-bloom: readers")
        with self._written(_entry([{"commitInfo": information | parameters}, {"metaData": changed}])):
            check_outcome(before, self.snapshot, {})
            if self.snapshot.properties != {**before.properties, **properties}:
                raise CorruptFileError("the table's properties read back differently", path=self._root)
        return self.snapshot

    def _erasing(self, erasure: Erasure, now: int) -> list[dict[str, Any]]:
        """Return the actions that take a file out, and put in the one with the rows that are left."""
        add = self._entry_in_log(erasure.old)
        remove, kept = _removal(add, erasure.old.size, now, changes_data=True)
        if erasure.new is None:
            return [{"remove": remove}]
        new = {
            "path": _beside_logged(erasure),
            "partitionValues": add["partitionValues"] or {},
            "size": erasure.new.source.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": statistics_of(*erasure.new, add["stats"]),
        }
        return [{"remove": remove}, {"add": {**new, **kept}}]

    def _require_written(self, version: int, data: bytes, error: Exception) -> None:
        """Return if the log has this version as it was to be written; otherwise raise what happened."""
        try:
            is_taken = commit_name(version) in self._log.folder.names()
            if is_taken and self._log.commit(version) == data:
                return
        except Exception as second:
            raise UnknownOutcomeError(f"{error}; whether {self._root} has the commit is not known: {second}") from error
        raise self._failed(version, error, is_taken=is_taken) from error

    def _failed(self, version: int, error: Exception, *, is_taken: bool) -> Exception:
        """Return the error of a commit that is not in the log: `is_taken` if another one is there as this version."""
        if is_taken:
            return ConcurrentChangeError(
                f"another writer committed version {version} of {self._root}; nothing was committed"
            )
        if not self._is_local:
            return UnknownOutcomeError(f"{error}; the store may still publish it as version {version}")
        return FailedCommitError(f"the commit to {self._root} failed, and nothing was committed: {error}")

    def history(self) -> Iterator[tuple[int, Sequence[LiveFile]]]:
        """Yield each earlier version that can still be read, the oldest first, and its files."""
        for version, adds in self._log.history(self._version - 1):
            files = [{"path": path, "size_bytes": add["size"]} for path, add in adds]
            yield version, [self._live_file(file, set()) for file in files]

    @property
    def statements(self) -> DeltaStatements:
        """Spark's statements that take rows, and what is left of them, out of the table."""
        return DeltaStatements(self._root)

    @property
    def streams(self) -> str:
        """Which readers stop at a commit that deletes rows, and the option with which they go on."""
        return (
            "Spark streams that read the table stop at this commit; start them with the option skipChangeCommits=true "
            "(what they have read already stays in their targets)"
        )

    def verify(self) -> None:
        """Raise `CorruptFileError` if another writer has committed over a swap.

        deltalake's OPTIMIZE and overwrite take no notice of commits that change no data, another OPTIMIZE's included:
        of one that was begun before a swap and ends after it, the swapped files stay live beside what it wrote.
        """
        with after_commit(self._root) if self._entries else contextlib.nullcontext():
            for version in self._entries:
                self._require_entry(version)
            self.refresh()
            self._log.read(self._version)

    def _note_replaced(self, renamed: Mapping[str, tuple[str, int] | None]) -> None:
        version = self._table.version()
        self._swapped |= {old: _Replaced(version, *(new or (None, 0))) for old, new in renamed.items()}

    def _require_first(self, version: int, removed: str) -> None:
        """Raise `CorruptFileError` if another version removes a file that a commit of this object had replaced."""
        if removed not in self._swapped or version <= self._swapped[removed].version:
            return
        actions = [json.loads(line) for line in self._log.commit(version).splitlines() if line.strip()]
        operation = next((one["commitInfo"].get("operation") for one in actions if "commitInfo" in one), None)
        removes = {one["remove"]["path"] for one in actions if "remove" in one}
        adds = [_parsed(one["add"].get("stats")) for one in actions if "add" in one]
        ours = [self._swapped[path] for path in removes if path in self._swapped]
        left = [one for one in ours if one.path not in (None, *removes)]
        raise CorruptFileError(
            f"version {version}, {operation or 'a commit'} of another writer, was built before version "
            f"{self._swapped[removed].version}: of the {len(removes):,} files that it removes, {len(ours):,} had been "
            f"replaced already, and {len(left):,} files with {_count(one.num_rows for one in left)} that took their "
            f"places are live beside the {len(adds):,} with {_count((one or {}).get('numRecords') for one in adds)} "
            f"that it adds; compare the rows of versions {version - 1} and {version} before you restore or delete any",
            path=self._root,
        )

    def _require_entry(self, version: int) -> None:
        """Raise `CorruptFileError` if another writer has overwritten this version, which this object committed.

        On a local disk, Spark checks whether a version exists and then renames its own to that name: another writer may
        write the version in between.
        """
        if self._log.commit(version) != self._entries[version]:
            raise CorruptFileError(
                f"another writer overwrote version {version}, which was written here; the table is as "
                "that writer left it, with all of its rows: run again",
                path=self._root,
            )

    def _write_through_deltalake(self, swaps: Sequence[Swap]) -> None:
        from deltalake import CommitProperties

        properties = CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": _remark(swaps)})
        self._table.create_write_transaction(
            [action for swap in swaps for action in self._actions(swap)],
            mode="append",
            schema=self._table.schema(),
            partition_by=self._table.metadata().partition_columns,
            commit_properties=properties,
        )

    def _write_entry(self, swaps: Sequence[Swap]) -> None:
        """Write the next version to the log, or raise if it exists: conflicts are never resolved.

        So nothing can have changed since the version that was checked: the old files are live, and protocol and
        metadata are the same.
        """
        now, made = self._time_of_commit(), self._version + 1
        information = self._information("ADD BLOOM FILTERS", now, _remark(swaps))
        data = _entry([{"commitInfo": information}, *(each for swap in swaps for each in self._entry_of(swap, now))])
        self._log.folder.create(commit_name(made), data)
        self._entries[made] = data

    def _time_of_commit(self) -> int:
        """Return the time for the next version."""
        now = _milliseconds()
        if has_in_commit_timestamps(self._log.configuration):
            return max(now, self._log.in_commit_timestamp(self._version) + 1)
        return now

    def _information(self, operation: str, now: int, remark: str) -> dict[str, Any]:
        has_time = has_in_commit_timestamps(self._log.configuration)
        return {
            **({"inCommitTimestamp": now} if has_time else {}),
            "timestamp": now,
            "operation": operation,
            "operationParameters": {},
            "readVersion": self._version,
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": "parquet-bloom",
            "txnId": str(uuid.uuid4()),
            "userMetadata": remark,
        }

    def _entry_of(self, swap: Swap, now: int) -> list[dict[str, Any]]:
        """Return the two actions of a swap; the log's statistics and tags of the old file apply to the new one."""
        add = self._entry_in_log(swap.old)
        remove, kept = _removal(add, swap.old.size, now, changes_data=False)
        new = {"path": self._recorded(swap), "size": swap.size, "modificationTime": now, "stats": _counted(add, swap)}
        file = {"partitionValues": add["partitionValues"] or {}, "dataChange": False}
        return [{"remove": remove}, {"add": {**new, **file, **kept}}]

    def _recorded(self, swap: Swap) -> str:
        """Return how the log spells the new file's path."""
        return _beside_logged(swap) if self._writes_entries else _as_logged(_beside(swap))

    def _actions(self, swap: Swap) -> list[Any]:
        from deltalake.transaction import AddAction, RemoveAction

        add, now = self._entry_in_log(swap.old), _milliseconds()
        values = add["partitionValues"] or {}
        return [
            RemoveAction(unquote(swap.old.recorded), False, now, swap.old.size, values),
            AddAction(_beside(swap), swap.size, values, now, False, _counted(add, swap)),
        ]

    def _require_landed(self, swaps: Sequence[Swap], error: Exception) -> None:
        """Return if the table has the commit although an error was raised; otherwise raise what happened."""
        before = self._version
        try:
            self._table.update_incremental()
            newest = self._table.version()
            if newest > before:
                self._table.load_as_version(before + 1)
                live = {file.recorded for file in self._read().files}
                if all(self._recorded(swap) in live for swap in swaps):
                    return
        except Exception as second:
            raise UnknownOutcomeError(f"{error}; whether {self._root} has the commit is not known: {second}") from error
        raise self._failed(before + 1, error, is_taken=newest > before) from error


_LOCAL_TIME = "the log has its instants without a time zone, and which one its writer meant is not known"


class _Replaced(NamedTuple):
    """What took the place of a file: at which version, and its path, None if nothing did, and rows."""

    version: int
    path: str | None
    num_rows: int


def _count(rows: Iterable[int | None]) -> str:
    counts = list(rows)
    return "an unknown number of rows" if None in counts else f"{sum(count or 0 for count in counts):,} rows"


class Vectors:
    """The deletion vectors of a version, read together when the first is asked for: deltalake has no other way."""

    def __init__(self, read: Callable[[int], Iterator[tuple[str, Any, int]]], version: int) -> None:
        self._read, self._version = read, version
        self._kept: dict[str, tuple[Any, int]] | None = None

    def of(self, file: LiveFile) -> array[int]:
        """Return the numbers of a file's deleted rows; see `Snapshot.deleted_rows`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._kept is None:
            self._kept = {path: (kept, count) for path, kept, count in self._read(self._version)}
        if file.path not in self._kept:
            raise UnsupportedError("deltalake does not tell which of its rows are deleted")
        kept, count = self._kept[file.path]
        rows = numbers_of(pc.indices_nonzero(pc.invert(kept)).cast(pa.int64()))
        if len(rows) != count:
            raise CorruptFileError(f"its deletion vector has {len(rows):,} rows; the log says {count:,}")
        return rows


def _vector_name(encoded: str) -> str | None:
    """Return the path below the root of a deletion vector's file: a folder, and 20 characters that encode a UUID."""
    try:
        data = base64.b85decode(encoded[-20:].translate(_FROM_Z85))
        name = f"deletion_vector_{uuid.UUID(bytes=data)}.bin"
    except ValueError:
        return None
    return f"{encoded[:-20]}/{name}" if encoded[:-20] else name


_FROM_Z85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)


_NOT_LOGGED = "its entry is not in the commits and checkpoints that can be read"
_ELSEWHERE = "it lies outside of the table's directory (a shallow clone), where another table may own it"

_COMMIT = re.compile(r"[0-9]{20}\.json")

_METADATA = frozenset(
    {
        *("id", "name", "description", "format", "schemaString"),
        *("partitionColumns", "configuration", "createdTime"),
    }
)
"""The fields of a table's metadata action."""


def _milliseconds() -> int:
    return int(time.time() * 1000)


def _remark(swaps: Sequence[Swap]) -> str:
    return f"parquet-bloom: {len(swaps)} files with filters"


def _counted(add: dict[str, Any], swap: Swap) -> str:
    """Return a file's statistics as the log has them, with the number of its rows in any case."""
    statistics: str = add["stats"] or "{}"
    parsed = json.loads(statistics)
    if not parsed:
        return json.dumps({"numRecords": swap.num_rows})
    # Every digit stays as it is written.
    return statistics if "numRecords" in parsed else f'{{"numRecords":{swap.num_rows},{statistics.strip()[1:]}'


def _beside(swap: Swap | Erasure) -> str:
    """Return the new file's path in the table, decoded, as deltalake expects it."""
    folder, slash, _ = unquote(swap.old.recorded).rpartition("/")
    return f"{folder}{slash}{swap.name}"


def _beside_logged(swap: Swap | Erasure) -> str:
    """Return the new file's path as an entry that is written here spells it, with the old one's folder as it is."""
    folder, slash, _ = swap.old.recorded.rpartition("/")
    return f"{folder}{slash}{_as_logged(swap.name)}"


def _entry(actions: Sequence[dict[str, Any]]) -> bytes:
    """Return a version as the log has it."""
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def _removal(add: dict[str, Any], size: int, now: int, *, changes_data: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a file's remove action, and what the file that takes its place keeps of its add action."""
    kept = {name: add[name] for name in ("tags", "clusteringProvider") if add[name] is not None}
    vector = {name: value for name, value in (add["deletionVector"] or {}).items() if value is not None}
    gone = {"path": add["path"], "deletionTimestamp": now, "extendedFileMetadata": True, "size": size}
    file = {"partitionValues": add["partitionValues"] or {}, "dataChange": changes_data}
    with_vector = {"deletionVector": vector} if vector else {}
    return {**gone, **file, **with_vector, **{name: value for name, value in kept.items() if name == "tags"}}, kept


def _as_logged(path: str) -> str:
    """Return how deltalake spells a path in the log."""
    return quote(path, safe="/!$&'()+,-.:;=@_~")


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _URL.match(path) is not None


def _located(path: str, storage_options: StorageOptions) -> tuple[str, bool]:
    """Return the root of a table as fsspec calls it, and whether it is local."""
    fs, inner = resolve(path, None, fsspec_options(storage_options))
    return (inner if is_local(fs) else path).rstrip("/") or "/", is_local(fs)


def _loaded(root: str, storage_options: StorageOptions) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise UnsupportedError("reading Delta tables needs deltalake: pip install 'parquet-bloom[delta]'") from None
    with _errors(root):
        return DeltaTable(root, storage_options=delta_options(storage_options) or None)


def _root_of(uri: str) -> tuple[str, bool]:
    if uri.startswith("file://") or "://" not in uri:
        return unquote(uri.removeprefix("file://")).rstrip("/") or "/", True
    return unquote(uri).rstrip("/"), False


def _as_text(value: Any) -> str | None:
    """Return a partition value as Delta's log writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)


# ---- statistics ----------------------------------------------------------------------------

_TYPES = {
    "byte": (PhysicalType.INT32, None),
    "short": (PhysicalType.INT32, None),
    "integer": (PhysicalType.INT32, None),
    "long": (PhysicalType.INT64, None),
    "date": (PhysicalType.INT32, LogicalType("DATE")),
    "boolean": (PhysicalType.BOOLEAN, None),
    "timestamp": (PhysicalType.INT64, timestamp(is_utc=True)),
    "timestamp_ntz": (PhysicalType.INT64, timestamp(is_utc=False)),
    "float": (PhysicalType.FLOAT, None),
    "double": (PhysicalType.DOUBLE, None),
}
_MILLISECOND = 1000

_DECIMAL_DIGITS = 15
"""A decimal with more digits may have been rounded in a float; one with fewer is off by less than one unit."""


def _recorded(
    fields: Sequence[dict[str, Any]],
    names: dict[str, str],
    files: Sequence[LiveFile],
    statistics: Callable[[], Sequence[Any]],
) -> Recorded:
    """Return what the log records of a table's columns, except partition columns."""
    partitions = {name for file in files for name in file.partition}
    leaves, columns = [], {}
    for number, each in enumerate(fields):
        name, types = each["name"], _types(each["type"])
        if types is None or name in partitions:
            continue
        physical = names.get(name, name)
        if physical != name and any(other["name"] == physical for other in fields):
            continue  # some writers call statistics by the table's names: whose they are is not known
        leaves.append(leaf_of(name, number, *types))
        columns[number] = physical

    def read(leaf: LeafColumn) -> Sequence[ColumnStatistics | None]:
        name = columns[leaf.index]
        return [_bounds(leaf, file, logged, name) for file, logged in zip(files, statistics(), strict=True)]

    return Recorded("in the table's log", tuple(each["name"] for each in fields), tuple(leaves), read)


def _types(declared: Any) -> tuple[PhysicalType, LogicalType | None] | None:
    """Return how files store a type of the table's schema, or None."""
    if not isinstance(declared, str):
        return None
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", declared):
        precision, scale = map(int, match.groups())
        return PhysicalType.FIXED_LEN_BYTE_ARRAY, LogicalType("DECIMAL", precision=precision, scale=scale)
    return _TYPES.get(declared)


def _bounds(leaf: LeafColumn, file: LiveFile, logged: Any, name: str) -> ColumnStatistics | None:
    """Return what a file's statistics, as they were parsed, tell of the column that they call `name`."""
    nulls, low, high = (_member(logged, part, name) for part in ("nullCount", "minValues", "maxValues"))
    if type(nulls) is not int or not is_evident(nulls, low, high):
        nulls = None
    is_exact = leaf.physical_type in (PhysicalType.INT32, PhysicalType.INT64) and not _is_timestamp(leaf)
    return bounds_of(file.num_rows, nulls, *_pair(leaf, low, high), is_exact=is_exact)


def _member(logged: Any, part: str, name: str) -> Any:
    """Return one statistic of a column, of a file's as they were parsed."""
    members = logged.get(part) if isinstance(logged, dict) else None
    return members.get(name) if isinstance(members, dict) else None


def _parsed(statistics: str | None) -> Any:
    try:
        return json.loads(statistics or "null", parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _pair(leaf: LeafColumn, low: Any, high: Any) -> tuple[Key | None, Key | None]:
    """Return minimum and maximum as keys of the column; None for both if they are not certain.

    A file keeps the statistics of another type where the column's was changed: '10' to '9' as text is 2, too, as
    numbers. So they count only if they are written as the type is.
    """
    if low is None or high is None:
        return None, None
    first, last = _key(leaf, low), _key(leaf, high)
    if first is None or last is None:
        return None, None
    logical = leaf.logical_type
    # Times are cut to milliseconds, and decimals are written as floats.
    slack = _MILLISECOND if _is_timestamp(leaf) else 1 if logical is not None and logical.name == "DECIMAL" else 0
    return math.floor(first) - slack, math.ceil(last) + slack


_DATE, _TIME = re.compile(r"\d{4}-\d\d-\d\d$", re.ASCII), re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:", re.ASCII)


def _key(leaf: LeafColumn, value: Any) -> Key | None:
    logical = leaf.logical_type
    if leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
        return None
    if leaf.physical_type is PhysicalType.BOOLEAN:
        return int(value) if isinstance(value, bool) else None
    if logical is None:
        return value if type(value) is int else None
    if logical.name == "DECIMAL":
        is_certain = type(value) in (int, Decimal) and logical.precision <= _DECIMAL_DIGITS
        return Fraction(value) * 10**logical.scale if is_certain else None
    if not isinstance(value, str) or not (_DATE if logical.name == "DATE" else _TIME).match(value):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if logical.name == "DATE":
        return (moment - EPOCH.replace(tzinfo=None)).days
    if (moment.tzinfo is not None) != logical.is_adjusted_to_utc:
        return None
    return (moment - EPOCH.replace(tzinfo=EPOCH.tzinfo if moment.tzinfo else None)) // timedelta(microseconds=1)


def _is_timestamp(leaf: LeafColumn) -> bool:
    return leaf.logical_type is not None and leaf.logical_type.name == "TIMESTAMP"


_PHYSICAL = "delta.columnMapping.physicalName"


_ID = "delta.columnMapping.id"


def _naming(fields: Sequence[dict[str, Any]], *, by_id: bool) -> ByIds:
    """Return how files call the columns of a table with column mapping."""
    found: dict[ColumnPath, tuple[int, ...]] = {}
    mapping = _mapped_fields(fields, (), (), found, count(-1, -1))
    return ByIds.of_delta(found, mapping, by_id=by_id)


def _mapped_fields(
    fields: Sequence[dict[str, Any]],
    path: ColumnPath,
    ids: tuple[int, ...],
    found: dict[ColumnPath, tuple[int, ...]],
    own: Iterator[int],
) -> tuple[Mapped, ...]:
    """Return fields by their physical names, and note the ids on the way to each, `own` where the table has none."""
    mapped = []
    for one in fields:
        metadata = one.get("metadata") or {}
        at = metadata.get(_ID) or next(own)
        way = *path, *one.get("steps", ()), one["name"]
        found[way] = *ids, at
        below = _mapped_fields(_fields_below(one["type"]), way, found[way], found, own)
        mapped.append(Mapped(frozenset([metadata.get(_PHYSICAL, one["name"])]), at, below))
    return tuple(mapped)


def _fields_below(kind: Any) -> list[dict[str, Any]]:
    """Return the fields of a type, as Parquet has them; `steps` are the groups between."""
    if kind == "variant":
        return [{"name": "metadata", "type": "binary"}, {"name": "value", "type": "binary"}]
    if not isinstance(kind, dict):
        return []
    if kind["type"] == "array":
        return [{"name": "element", "type": kind["elementType"], "steps": ["list"]}]
    if kind["type"] == "map":
        parts = (("key", kind["keyType"]), ("value", kind["valueType"]))
        return [{"name": name, "type": of_part, "steps": ["key_value"]} for name, of_part in parts]
    return list(kind["fields"])


@contextlib.contextmanager
def _errors(root: str) -> Iterator[None]:
    """Turn deltalake's errors into ours, also its panics, which are not an `Exception`."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError as error:
        raise not_found(f"{root} is not a Delta table: {error}") from None
    except DeltaError as error:
        raise UnsupportedError(f"deltalake cannot read {root}: {error}") from error
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise UnsupportedError(f"deltalake crashed while it read {root}: {error}") from error
