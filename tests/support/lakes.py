"""Delta and Iceberg tables for the tests, and what no Python library writes for them: deletes, by hand."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from files import table

ODD = ["a b", "a%b", "a=b", "a+b", "ü/ñ", "x:y", None, "a%20b", "n#m", "q?r", "z[1]", "*", "&;,@", "plain"]
"""Partition values whose directories are spelled oddly, each in its own way."""


def odd_rows(each: int = 3) -> pa.Table:
    """Returns rows of every odd partition `p`."""
    count = len(ODD) * each
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": [f"name {i}" for i in range(count)],
            "p": pa.array([ODD[i % len(ODD)] for i in range(count)], pa.string()),
        }
    )


# ---- Delta -------------------------------------------------------------------------------


def delta(root: Path | str, files: int = 3, rows: int = 20, **options: Any) -> Any:
    """Writes a table of so many files, one commit each, with ids from 0 on; returns it."""
    from deltalake import DeltaTable, write_deltalake

    for i in range(files):
        write_deltalake(str(root), table(rows, i * rows), mode="append", **(options if i == 0 else {}))
    return DeltaTable(str(root))


def actions(root: Path, version: int) -> list[dict[str, Any]]:
    """Returns a commit as it stands in the log."""
    lines = (root / "_delta_log" / f"{version:020}.json").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def adds(root: Path, version: int = 0) -> list[dict[str, Any]]:
    return [action["add"] for action in actions(root, version) if "add" in action]


def log(root: Path, version: int, *written: dict[str, Any]) -> None:
    """Writes a commit."""
    text = "".join(json.dumps(action) + "\n" for action in written)
    (root / "_delta_log" / f"{version:020}.json").write_text(text, "utf-8")


def removal(add: dict[str, Any]) -> dict[str, Any]:
    values = {"partitionValues": add["partitionValues"], "size": add["size"], "extendedFileMetadata": True}
    return {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, **values}}


def give_deletion_vector(root: Path, rows: Sequence[int]) -> None:
    """Commits, as version 1, that these rows of the only file of a table are deleted."""
    give_deletion_vectors(root, rows, files=1)


def give_deletion_vectors(root: Path, rows: Sequence[int], *, files: int) -> None:
    """Commits that these rows are deleted of each file, of a table whose versions have each added one."""
    (metadata,) = [action["metaData"] for action in actions(root, 0) if "metaData" in action]
    metadata["configuration"]["delta.enableDeletionVectors"] = "true"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    swapped = [
        each for at in range(files) for (add,) in [adds(root, at)] for each in (removal(add), vectored(add, rows))
    ]
    log(root, files, {"protocol": protocol}, {"metaData": metadata}, *swapped)


def vectored(add: dict[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Returns the add action of a file with a deletion vector of these rows."""
    known = {name: value for name, value in add.items() if value is not None}
    return {"add": {**known, "deletionVector": _inline_vector(rows)}}


def _inline_vector(rows: Sequence[int]) -> dict[str, Any]:
    data = vector_data(rows)
    text = z85(data + bytes(-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def vector_data(rows: Sequence[int]) -> bytes:
    """Returns a deletion vector of these rows."""
    import pyroaring

    return struct.pack("<IQI", 1681511377, 1, 0) + pyroaring.BitMap(rows).serialize()


def z85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = ""
    for i in range(0, len(data), 4):
        number = int.from_bytes(data[i : i + 4], "big")
        text += "".join(digits[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def delta_rows(root: Path | str, version: int | None = None) -> list[int]:
    """Returns the ids that deltalake reads, deletion vectors applied."""
    from deltalake import DeltaTable

    reader = pa.RecordBatchReader.from_stream(DeltaTable(str(root), version=version).scan(columns=["id"]))
    return sorted(reader.read_all()["id"].to_pylist())


# ---- Iceberg -----------------------------------------------------------------------------


@contextmanager
def catalog(folder: Path) -> Iterator[Any]:
    """Yields a catalog over SQLite, with a namespace `n`."""
    with connected(folder) as found:
        found.create_namespace("n")
        yield found


@contextmanager
def connected(folder: Path) -> Iterator[Any]:
    """Yields a connection of its own to the catalog in a folder."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True, exist_ok=True)
    found = SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    try:
        yield found
    finally:
        found.engine.dispose()


def iceberg(found: Any, name: str = "t", files: int = 3, rows: int = 20, **properties: str) -> Any:
    """Creates a table of so many files, one snapshot each, with ids from 0 on."""
    made = found.create_table(f"n.{name}", table().schema, properties=properties)
    for i in range(files):
        made.append(table(rows, i * rows))
    return made


def partitioned(found: Any, rows: pa.Table, transform: str = "identity") -> Any:
    """Creates a table partitioned by `p` and fills it."""
    made = found.create_table("n.parted", rows.schema)
    with made.update_spec() as update:
        update.add_field("p", transform, "p" if transform == "identity" else "p_part")
    made.append(rows)
    return made


def metadata_of(found: Any) -> Path:
    """Returns the metadata file that a table has now, which is what names the table without its catalog."""
    return Path(found.metadata_location.removeprefix("file://"))


def iceberg_rows(found: Any, snapshot: int | None = None) -> list[int]:
    return sorted(found.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist())


def give_deletes(
    found: Any,
    positions: Sequence[int],
    *,
    as_vector: bool = False,
    content: str = "POSITION_DELETES",
    at: Path | None = None,
) -> None:
    """Commits a positional delete file, or a deletion vector, for these rows of the first of a table's data files.

    It lies in the folder `at`, or beside the data files.
    """
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        write_manifest_list,
    )
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    class DeleteManifest(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    (victim, *_) = [task.file for task in found.scan().plan_files()]
    folder = found.location().removeprefix("file://")
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
        ]
    )
    path = (at or Path(folder) / "data") / f"deletes.{'puffin' if as_vector else 'parquet'}"
    if as_vector:
        path.write_bytes(_puffin(victim.file_path, positions))
    else:
        pq.write_table(pa.table([[victim.file_path] * len(positions), positions], schema=schema), path)
    metadata, io = found.metadata, found.io
    number, sequence = metadata.new_snapshot_id(), metadata.next_sequence_number()
    file = DataFile.from_args(
        content=DataFileContent[content],
        file_path=f"file://{path}",
        file_format=FileFormat.PUFFIN if as_vector else FileFormat.PARQUET,
        partition=victim.partition,
        record_count=len(positions),
        file_size_in_bytes=path.stat().st_size,
        lower_bounds={2147483546: victim.file_path.encode()},
        upper_bounds={2147483546: victim.file_path.encode()},
    )
    output = io.new_output(f"{found.location()}/metadata/deletes.avro")
    with DeleteManifest(found.spec(), found.schema(), output, number, "deflate") as writer:
        writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file))
    parent = found.current_snapshot()
    location = f"{found.location()}/metadata/snap-{number}.avro"
    with write_manifest_list(2, io.new_output(location), number, parent.snapshot_id, sequence, "deflate") as lists:
        lists.add_manifests([*parent.manifests(io), writer.to_manifest_file()])
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent.snapshot_id,
        sequence_number=sequence,
        manifest_list=location,
        summary=Summary(operation=Operation.DELETE),
        schema_id=found.schema().schema_id,
    )
    ref = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)
    found.catalog.commit_table(found, (), (AddSnapshotUpdate(snapshot=snapshot), ref))
    found.refresh()


def _puffin(path: str, positions: Sequence[int]) -> bytes:
    """Returns a Puffin file with a deletion vector."""
    import zlib

    import pyroaring

    vector = struct.pack("<IQI", 0x64_39_D3_D1, 1, 0) + pyroaring.BitMap(positions).serialize()
    blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    described = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": path, "cardinality": str(len(set(positions)))},
    }
    footer = json.dumps({"blobs": [described]}).encode()
    return b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"


def recoded(data: bytes, codec: str, block_bytes: int) -> bytes:
    """Returns an Avro file with the same records in other blocks."""
    import fastavro

    reader, out = fastavro.reader(io.BytesIO(data)), io.BytesIO()
    notes = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    fastavro.writer(out, reader.writer_schema, list(reader), codec=codec, metadata=notes, sync_interval=block_bytes)
    return out.getvalue()


def hadoop_table(home: Path, fill: Callable[[Any], Any]) -> Path:
    """Writes a table of a Hadoop catalog, whose files of metadata always have the same names; returns its directory."""
    import fastavro

    with catalog(home / "in") as found:
        made = fill(found)
        root, current = Path(made.location().removeprefix("file://")), metadata_of(made)
        listed = [each.manifest_path.rpartition("/")[2] for each in made.current_snapshot().manifests(made.io)]
    folder, text = root / "metadata", current.read_text()
    names = {old: f"m{number}.avro" for number, old in enumerate(listed)}
    newest = folder / made.current_snapshot().manifest_list.rpartition("/")[2]
    reader = fastavro.reader(io.BytesIO(newest.read_bytes()))
    records = list(reader)
    for each in records:
        each["manifest_path"] = f"file://{folder}/{names[each['manifest_path'].rpartition('/')[2]]}"
    for path in folder.iterdir():
        if path.name in names:
            path.rename(folder / names[path.name])
        else:
            path.unlink()
    notes = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    with (folder / "list.avro").open("wb") as out:
        fastavro.writer(out, reader.writer_schema, records, codec="deflate", metadata=notes)
    (folder / "v1.metadata.json").write_text(text.replace(newest.name, "list.avro"))
    (folder / "version-hint.text").write_text("1")
    return root


_COMMANDS = """
import json, sys
from click.testing import CliRunner
from parquet_bloom.cli.commands import main

for line in json.loads(sys.argv[1]):
    ran = CliRunner().invoke(main, line)
    print(json.dumps([ran.exit_code, ran.stdout, ran.stderr]), file=sys.__stdout__, flush=True)
"""


def commands(home: Path, *lines: Sequence[str]) -> list[tuple[int, str, str]]:
    """Returns exit code, output and errors of command lines that run in one process, with pyiceberg's home there.

    pyiceberg reads its configuration when it is imported, hence the process; one for all of them saves its start.
    """
    environment = {**os.environ, "PYICEBERG_HOME": str(home)}
    command = [sys.executable, "-c", _COMMANDS, json.dumps(lines)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home)
    assert ran.returncode == 0, ran.stderr
    return [tuple(json.loads(line)) for line in ran.stdout.splitlines()]
