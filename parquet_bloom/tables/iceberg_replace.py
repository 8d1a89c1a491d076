"""A snapshot of an Iceberg table with other files in place of some, by pyiceberg's writers and catalogs.

    a manifest with old files  ->  the same one again, the old ones as deleted, without bounds, the others as they were
    every other manifest       ->  carried along
    the new files              ->  a manifest for each partition spec, as added

It is a `replace` where the new files have the same rows. An `overwrite` means that rows changed, and readers of a
table's changes, such as Spark's streams, stop there; they skip a `replace`. pyiceberg has no producer for it. A new
file gets the data sequence number of the file that it replaces, so that a delete applies to it if, and only if, it
applied to the old one.

An entry of a deleted file stays in the manifest until that is written again. Its bounds may be values of rows that were
erased, and no reader needs them.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any


class Replacement:
    """A snapshot in the making, on top of the current one of `table`: old paths -> data files that take their places.

    None takes the place of a file that has no rows left.

    `write` makes its manifests, which no reader sees. `commit` gives it to the catalog, which takes it only if no other
    snapshot of the main branch has come meanwhile. `discard` removes what was written.
    """

    def __init__(
        self, table: Any, renamed: Mapping[str, Any], properties: Mapping[str, str], *, operation: str = "replace"
    ) -> None:
        self._table, self._renamed, self._properties, self._operation = table, renamed, properties, operation
        self.snapshot_id: int = table.metadata.new_snapshot_id()
        self._parent = table.current_snapshot()
        self._name = str(uuid.uuid4())
        self._written: list[str] = []
        self._snapshot: Any = None

    def write(self) -> None:
        """Write the manifests and their list; raises `ValueError` unless each old file is in the table once."""
        from pyiceberg.manifest import ManifestContent

        io = self._table.io
        manifests, gone = [], []
        for manifest in self._parent.manifests(io):
            is_data = manifest.content == ManifestContent.DATA
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True) if is_data else []
            if any(entry.data_file.file_path in self._renamed for entry in entries):
                manifests.append(self._without_old(manifest.partition_spec_id, entries))
                gone += [entry for entry in entries if entry.data_file.file_path in self._renamed]
            elif manifest.has_added_files() or manifest.has_existing_files():
                manifests.append(manifest)
        counts = Counter(entry.data_file.file_path for entry in gone)
        if wrong := [path for path in self._renamed if counts[path] != 1]:
            raise ValueError(f"the table has {counts[wrong[0]]} entries of {wrong[0]}, not one")
        self._write_list([*self._of_new(gone), *manifests], gone)

    def commit(self) -> None:
        """Make the snapshot the main branch's; raises what the catalog raises."""
        from pyiceberg.table.refs import MAIN_BRANCH
        from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

        metadata = self._table.metadata
        branch = metadata.refs[MAIN_BRANCH]
        to_this = _new(
            SetSnapshotRefUpdate,
            ref_name=MAIN_BRANCH,
            type=branch.snapshot_ref_type,
            snapshot_id=self.snapshot_id,
            max_ref_age_ms=branch.max_ref_age_ms,
            max_snapshot_age_ms=branch.max_snapshot_age_ms,
            min_snapshots_to_keep=branch.min_snapshots_to_keep,
        )
        self._table._do_commit(
            updates=(AddSnapshotUpdate(snapshot=self._snapshot), to_this),
            requirements=(
                _new(AssertTableUUID, uuid=metadata.table_uuid),
                _new(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=self._parent.snapshot_id),
            ),
        )

    def discard(self) -> None:
        """Remove what was written; only for a snapshot that the catalog does not have."""
        for path in self._written:
            with contextlib.suppress(Exception):  # what is left over harms nobody
                self._table.io.delete(path)
        self._written.clear()

    # ---- what is written -----------------------------------------------------------------

    def _without_old(self, spec_id: int, entries: list[Any]) -> Any:
        """Write a manifest again, and return it."""
        with self._manifest(spec_id) as writer:
            for entry in entries:
                if entry.data_file.file_path in self._renamed:
                    writer.delete(_without_bounds(entry))
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

    def _of_new(self, gone: list[Any]) -> list[Any]:
        """Write the manifests of the new files, and return them."""
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        by_spec = defaultdict(list)
        for entry in gone:
            if self._renamed[entry.data_file.file_path] is not None:
                by_spec[entry.data_file.spec_id].append(entry)
        made = []
        for spec_id, entries in by_spec.items():
            with self._manifest(spec_id) as writer:
                for entry in entries:
                    new = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self.snapshot_id,
                        sequence_number=entry.sequence_number,
                        data_file=self._renamed[entry.data_file.file_path],
                    )
                    writer.add(new)
            made.append(writer.to_manifest_file())
        return made

    def _manifest(self, spec_id: int) -> Any:
        from pyiceberg.manifest import write_manifest

        metadata = self._table.metadata
        return write_manifest(
            format_version=metadata.format_version,
            spec=metadata.specs()[spec_id],
            schema=metadata.schema(),
            output_file=self._output(f"{self._name}-m{len(self._written)}.avro"),
            snapshot_id=self.snapshot_id,
            avro_compression=self._compression,
        )

    def _write_list(self, manifests: list[Any], gone: list[Any]) -> None:
        from pyiceberg.manifest import write_manifest_list
        from pyiceberg.table.snapshots import Snapshot

        metadata, parent = self._table.metadata, self._parent.snapshot_id
        number = metadata.next_sequence_number()
        output = self._output(f"snap-{self.snapshot_id}-0-{self._name}.avro")
        with write_manifest_list(
            format_version=metadata.format_version,
            output_file=output,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=number,
            avro_compression=self._compression,
        ) as writer:
            writer.add_manifests(manifests)
        self._snapshot = _new(
            Snapshot,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=number,
            manifest_list=output.location,
            summary=self._summary([entry.data_file for entry in gone]),
            schema_id=metadata.current_schema_id,
        )

    def _summary(self, gone: list[Any]) -> Any:
        from pyiceberg.table import TableProperties
        from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries

        metadata = self._table.metadata
        most = metadata.properties.get(
            TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT
        )
        counted = SnapshotSummaryCollector(partition_summary_limit=int(most))
        for old in gone:
            spec = metadata.specs()[old.spec_id]
            counted.remove_file(data_file=old, partition_spec=spec, schema=metadata.schema())
            if (new := self._renamed[old.file_path]) is not None:
                counted.add_file(data_file=new, partition_spec=spec, schema=metadata.schema())
        # pyiceberg works out totals of its own operations only; those of an overwrite are the same.
        before = self._parent.summary
        totals = update_snapshot_summaries(
            Summary(operation=Operation.OVERWRITE, **counted.build(), **self._properties),
            before.additional_properties if before is not None else None,
        )
        return Summary(operation=Operation(self._operation), **totals.additional_properties)

    def _output(self, name: str) -> Any:
        path = self._table.location_provider().new_metadata_location(name)
        self._written.append(path)
        return self._table.io.new_output(path)

    @property
    def _compression(self) -> Any:
        from pyiceberg.table import TableProperties

        return self._table.metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )


_FIELDS = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "column_sizes"),
    *("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata"),
    *("split_offsets", "equality_ids", "sort_order_id"),
)


def copy_of(old: Any, **changes: Any) -> Any:
    """Return a data file's entry with other values of some fields."""
    from pyiceberg.manifest import DataFile

    new = DataFile.from_args(**{name: getattr(old, name) for name in _FIELDS} | changes)
    new.spec_id = old.spec_id
    return new


def _without_bounds(entry: Any) -> Any:
    from pyiceberg.manifest import ManifestEntry

    return ManifestEntry.from_args(
        status=entry.status,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=copy_of(entry.data_file, lower_bounds=None, upper_bounds=None),
    )


def _new(kind: Any, **fields: Any) -> Any:
    """Return one of pyiceberg's models, whose fields type checkers know under the names of its JSON only."""
    return kind(**fields)


__all__ = ["Replacement", "copy_of"]
