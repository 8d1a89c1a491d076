"""Tables that Paimon wrote: the files that it reads, no file with a key left out, and filters as its own."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import fsspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from samples import FIXTURES

from parquet_bloom import lookup, prune
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.filters import paimon as index
from parquet_bloom.storage.drive import RequestLog, run
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import find
from parquet_bloom.tables import Committable, LiveFile, Snapshot, live_sources, open_table, paimon, snapshot_of
from parquet_bloom.tables.paimon import IndexCommit, OpenPaimon
from parquet_bloom.verbs import paimon as paimon_
from parquet_bloom.verbs import paimon_files

NAMES = sorted(
    path.relative_to(FIXTURES).as_posix().removesuffix(".zip")
    for path in FIXTURES.glob("paimon*/*.zip")
    if "answers.json" in zipfile.ZipFile(path).namelist()
)
Open = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.fixture
def unpacked(tmp_path: Path) -> Open:
    """Returns what unpacks a table, and gives its directory and Paimon's answers."""

    def unpack(name: str) -> tuple[Path, dict[str, Any]]:
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
            packed.extractall(tmp_path / name)
        return tmp_path / name / "table", json.loads((tmp_path / name / "answers.json").read_text("utf-8"))

    return unpack


def read(table: Path | str, **options: Any) -> Snapshot:
    snapshot = snapshot_of(str(table), **options)
    assert snapshot is not None
    return snapshot


def listed(snapshot: Snapshot) -> list[list[Any]]:
    return sorted([file.recorded, file.num_rows] for file in snapshot.files)


def filters(file: LiveFile, log: RequestLog | None = None, **options: Any) -> tuple[index.PaimonFilter, ...]:
    path = file.file_index.path if file.file_index and file.file_index.path else file.path
    (source,) = find([path])
    return run(source, index.filters_of_table(file, source.size, **options), log=log)


def column(file: LiveFile, name: str) -> Any:
    return pq.ParquetFile(file.path).read([name])[name]


# ---- what the engine says ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_live_files_are_those_that_paimon_reads(name: str, unpacked: Open) -> None:
    table, answers = unpacked(name)
    for version, answer in answers.items():
        assert listed(read(table, as_of=version)) == sorted(answer["files"])
    newest = read(table)
    assert (newest.kind, newest.version) == ("Paimon", max(map(int, answers)))
    assert listed(newest) == sorted(answers[str(newest.version)]["files"])
    sources, again = live_sources(str(table))
    assert again == newest
    assert [source.path for source in sources] == [file.path for file in newest.files]


def test_files_that_speak_for_their_rows_have_the_rows_that_paimon_reads(unpacked: Open) -> None:
    seen = 0
    for name in NAMES:
        table, answers = unpacked(name)
        for version, answer in answers.items():
            files = read(table, as_of=version).files
            if all(file.path.endswith(".parquet") and not file.has_deletes for file in files):
                rows = [value for file in files for value in pq.ParquetFile(file.path).read(["id"])["id"].to_pylist()]
                assert sorted(rows) == sorted(answer["first_column"])
                seen += 1
    assert seen >= 10


def test_filters_are_paimons_byte_by_byte_and_hold_every_value(unpacked: Open) -> None:
    seen = 0
    for name in ("paimon/append", "paimon/evolved", "paimon_rust/append", "paimon_rust/embedded"):
        table, answers = unpacked(name)
        for version in answers:
            for file in read(table, as_of=version).files:
                found = filters(file)
                assert bool(found) == (file.not_excluded is None and file.file_index is not None)
                for bloom in found:
                    is_first = name != "paimon/evolved" or version == "1"
                    options = {"items": 60, "fpp": 0.05} if is_first else {"items": 20, "fpp": 0.1}
                    values = column(file, bloom.column[0])
                    payload = index.build(values, bloom.kind, **options)
                    assert payloads(file)[bloom.column[0]]["bloom-filter"] == payload
                    present = values.to_pylist()
                    assert bloom.might_contain(present) == b"\1" * len(present)
                    seen += 1
                if found and name.startswith("paimon/"):  # the other one writes columns in another order
                    data = container(file)
                    assert index.build_container(index.parse_container(data)) == data
    assert seen > 100


def container(file: LiveFile) -> bytes:
    assert file.file_index is not None
    if file.file_index.data is not None:
        return file.file_index.data
    assert file.file_index.path is not None
    return Path(file.file_index.path).read_bytes()


def payloads(file: LiveFile) -> dict[str, dict[str, bytes | None]]:
    return index.parse_container(container(file))


def test_no_file_with_a_key_is_excluded_and_most_others_are(unpacked: Open) -> None:
    table, answers = unpacked("paimon/append")
    excluded = asked = 0
    for version in answers:
        files = read(table, as_of=version).files
        keys = {name: {v for f in files for v in column(f, name).to_pylist()} for name in ("id", "name", "fine", "raw")}
        for file in files:
            for bloom in filters(file, columns=set(keys)):
                name = bloom.column[0]
                present = set(column(file, name).to_pylist())
                asked_keys = sorted(keys[name] - {None}, key=str)
                for key, answer in zip(asked_keys, bloom.might_contain(asked_keys), strict=True):
                    assert answer or key not in present
                    asked += key not in present
                    excluded += not answer
    assert excluded > 0.8 * asked > 1000


def test_only_what_is_needed_of_an_index_is_read(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/append")
    file = read(table).files[0]
    monkeypatch.setattr(index, "_FIRST_READ", 100)
    log = RequestLog()
    (bloom,) = filters(file, log, columns={"id"})
    assert bloom.column == ("id",)
    head, rest, payload = (ranged for _, ranged in log.requests)
    assert (head.start, head.stop, rest.start) == (0, 100, 100)
    assert payload.start >= rest.stop
    assert len(payload) == len(payloads(file)["id"]["bloom-filter"] or b"")


# ---- what proves nothing ------------------------------------------------------------------


def test_reasons_for_keeping_a_file(unpacked: Open) -> None:
    reasons = {name: [file.not_excluded for file in read(unpacked(name)[0]).files] for name in NAMES}
    assert reasons["paimon/append"] == [None] * 3
    assert reasons["paimon/evolved"][1] is None
    assert "another name" in str(reasons["paimon/evolved"][0])
    assert all("merge" in str(reason) for reason in reasons["paimon/pk"])
    assert reasons["paimon/pk_dv"] == [None] * 2
    assert ["not a Parquet file" in str(reason) for reason in reasons["paimon/avro"]] == [True, False, False]


def test_deletion_vectors_are_told(unpacked: Open) -> None:
    table, answers = unpacked("paimon/pk_dv")
    told = {version: [file.has_deletes for file in read(table, as_of=version).files] for version in answers}
    assert any(map(any, told.values()))
    for version, flags in told.items():
        files = read(table, as_of=version).files
        rows = sum(file.num_rows or 0 for file in files)
        assert (rows > len(answers[version]["first_column"])) == any(flags)


@pytest.fixture
def edited(unpacked: Open) -> Callable[..., LiveFile]:
    """Returns what changes a table's schema or a file's entry, and gives the file as it then is."""

    def edit(
        schema: Callable[[dict[str, Any]], None] | None = None, entry: Callable[[dict[str, Any]], None] | None = None
    ) -> LiveFile:
        table, _ = unpacked("paimon/append")
        for number in range(2, 6):
            (table / "snapshot" / f"snapshot-{number}").unlink()
        if schema is not None:
            old = json.loads((table / "schema" / "schema-0").read_text("utf-8"))
            schema(old)
            (table / "schema" / "schema-1").write_text(json.dumps({**old, "id": 1}), "utf-8")
        if entry is not None:
            for path in manifests(table, 1):
                change(path, entry)
        (file,) = read(table).files
        return file

    return edit


def manifests(table: Path, version: int) -> Iterator[Path]:
    snapshot = json.loads((table / "snapshot" / f"snapshot-{version}").read_text("utf-8"))
    for name in ("baseManifestList", "deltaManifestList"):
        for record in fastavro.reader(io.BytesIO((table / "manifest" / snapshot[name]).read_bytes())):
            yield table / "manifest" / record["_FILE_NAME"]


def change(path: Path, entry: Callable[[dict[str, Any]], None]) -> None:
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    records = list(reader)
    for record in records:
        entry(record)
    out = io.BytesIO()
    fastavro.writer(out, reader.writer_schema, records)
    path.write_bytes(out.getvalue())


def option(name: str, value: str) -> Callable[[dict[str, Any]], None]:
    return lambda schema: schema["options"].update({name: value})


def retyped(kind: str, name: str = "id") -> Callable[[dict[str, Any]], None]:
    return lambda schema: next(f for f in schema["fields"] if f["name"] == name).update(type=kind)


def renumbered(schema: dict[str, Any]) -> None:
    schema["fields"][0]["id"] = 77


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (option("data-evolution.enabled", "true"), "several files"),
        (option("fields.name.default-value", "none"), "replace NULL with a default"),
        (lambda schema: schema.update(primaryKeys=["id"]), "merge"),
        (renumbered, "another name"),
        (retyped("STRING"), "was BIGINT"),
        (retyped("INT"), "was BIGINT"),
        (retyped("VARCHAR(3)", "name"), "was STRING"),
        (retyped("TIMESTAMP(6)", "at"), r"was TIMESTAMP\(3\)"),
        (retyped("DOUBLE", "ratio"), "was FLOAT"),
    ],
)
def test_a_table_that_reads_a_file_otherwise_keeps_it(
    schema: Callable[[dict[str, Any]], None], reason: str, edited: Callable[..., LiveFile]
) -> None:
    file = edited(schema)
    assert re.search(reason, file.not_excluded or "")
    assert filters(file) == ()


@pytest.mark.parametrize(
    "schema",
    [
        retyped("BIGINT NOT NULL"),
        retyped("INT", "small"),
        option("deletion-vectors.enabled", "true"),
        lambda schema: schema["fields"].append({"id": 78, "name": "new", "type": "INT"}),
        lambda schema: schema["fields"].pop(3),
    ],
)
def test_a_table_that_reads_a_file_as_it_is_uses_its_index(
    schema: Callable[[dict[str, Any]], None], edited: Callable[..., LiveFile]
) -> None:
    file = edited(schema)
    assert file.not_excluded is None
    assert len(filters(file)) == 10


def keyed(**options: str) -> Callable[[dict[str, Any]], None]:
    return lambda schema: schema.update(primaryKeys=["id"], options=options)


def of_file(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entry: entry["_FILE"].update(fields)


VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.mark.parametrize(
    ("schema", "entry", "not_excluded", "unreadable"),
    [
        (keyed(**VECTORS), of_file(_LEVEL=1, _DELETE_ROW_COUNT=0), None, None),
        (keyed(**VECTORS), of_file(_LEVEL=1, _DELETE_ROW_COUNT=1), None, "may say that a key is deleted"),
        (keyed(**VECTORS), of_file(_LEVEL=1, _DELETE_ROW_COUNT=None), None, "may say that a key is deleted"),
        (keyed(**VECTORS, **{"deletion-vectors.merge-on-read": "true"}), of_file(_LEVEL=1), "merge it", "merge it"),
        (keyed(), of_file(_LEVEL=1, _DELETE_ROW_COUNT=0), "merge it", "merge it"),
        (option("record-level.expire-time", "1 d"), None, None, "leave out its expired rows"),
        (None, lambda entry: entry.update(_BUCKET=-2), "have not been moved", "have not been moved"),
    ],
)
def test_what_is_known_of_a_file_whose_rows_readers_see_otherwise(
    schema: Any, entry: Any, not_excluded: str | None, unreadable: str | None, edited: Callable[..., LiveFile]
) -> None:
    file = edited(schema, entry)
    for reason, said in ((file.not_excluded, not_excluded), (file.unreadable, unreadable)):
        assert reason is None if said is None else said in str(reason)


def test_an_earlier_snapshot_is_read_with_the_newest_options(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    newest = json.loads((table / "schema" / "schema-0").read_text("utf-8"))
    option("data-evolution.enabled", "true")(newest)
    (table / "schema" / "schema-1").write_text(json.dumps({**newest, "id": 1}), "utf-8")
    found = snapshot_of(table, as_of=1)
    assert found is not None
    assert all("several files" in (file.not_excluded or "") for file in found.files)
    assert found.files


def test_an_entry_of_an_unknown_kind_is_an_error(edited: Callable[..., LiveFile]) -> None:
    with pytest.raises(CorruptFileError, match=r"\.parquet has an entry of the unknown kind 2"):
        edited(entry=lambda entry: entry.update(_KIND=2))


def extra(*names: str) -> Callable[[dict[str, Any]], None]:
    return lambda entry: entry["_FILE"].update(_EXTRA_FILES=list(names))


def test_an_index_that_is_not_certain_is_not_used(edited: Callable[..., LiveFile]) -> None:
    assert edited(entry=extra("a.index", "b.index")).file_index is None
    assert edited(entry=extra("a.blob")).file_index is None
    named = edited(entry=extra("other.blob", "a.index")).file_index
    assert named is not None
    assert str(named.path).endswith("/bucket-0/a.index")
    assert edited(option("file-index.read.enabled", "false")).file_index is None


def test_an_index_in_the_manifest_goes_before_the_file(edited: Callable[..., LiveFile]) -> None:
    data = index.write_container({"id": {"bloom-filter": b"\0\0\0\1\0"}})
    file = edited(entry=lambda entry: entry["_FILE"].update(_EMBEDDED_FILE_INDEX=data))
    (bloom,) = filters(file)
    assert bloom.might_contain([0]) == b"\0"


@pytest.mark.parametrize(
    "indexes",
    [
        {"id": {"bitmap": b"12345"}},
        {"id": {"bloom-filter": None}},
        {"no such column": {"bloom-filter": b"\0\0\0\1\0"}},
        {"cost": {"bloom-filter": b"\0\0\0\1\0"}},
        {"tags[a]": {"bloom-filter": b"\0\0\0\1\0"}},
        {},
    ],
)
def test_what_is_no_filter_of_a_column_says_nothing(
    indexes: dict[str, dict[str, bytes | None]], edited: Callable[..., LiveFile]
) -> None:
    data = index.write_container(indexes)
    file = edited(
        lambda schema: schema["fields"].append({"id": 79, "name": "tags[a]", "type": "INT"}),
        lambda entry: entry["_FILE"].update(_EMBEDDED_FILE_INDEX=data),
    )
    assert filters(file) == ()


# ---- metadata -----------------------------------------------------------------------------


def test_a_time_and_a_tag_name_a_snapshot(unpacked: Open) -> None:
    table, _ = unpacked("paimon/evolved")
    times = [json.loads((table / "snapshot" / f"snapshot-{n}").read_text("utf-8"))["timeMillis"] for n in (1, 2)]
    assert read(table, as_of="before").version == 1
    assert read(table, as_of="before").files[0].not_excluded is None
    for at, version in ((times[0], 1), (times[1] - 1, 1), (times[1], 2)):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
        assert read(table, as_of=moment.isoformat()).version == version
    for unknown in ("2000-01-01", 9, "9", "no tag"):
        with pytest.raises(ValueError, match=r"snapshot|version"):
            read(table, as_of=unknown)


def test_a_hint_that_is_behind_misleads_nobody(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    (table / "snapshot" / "LATEST").write_text("2", "utf-8")
    assert read(table).version == 5


def test_a_table_without_a_snapshot_has_no_files(unpacked: Open) -> None:
    table, _ = unpacked("paimon/pk")
    shutil.rmtree(table / "snapshot")
    (table / "snapshot").mkdir()
    assert (read(table).version, read(table).files) == (None, ())


def test_a_deleted_file_may_come_back_under_its_name(unpacked: Open) -> None:
    """A table whose indexes were rebuilt has, of each file, the old entry deleted and the same file added."""
    table, _ = unpacked("paimon/append")
    (before,) = read(table, as_of=1).files
    (path,) = manifests(table, 1)
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    (old,) = list(reader)
    new = {**old, "_FILE": {**old["_FILE"], "_EXTRA_FILES": ["new.index"]}}
    for order in ([old, {**old, "_KIND": 1}, new], [old, new, {**old, "_KIND": 1}]):
        out = io.BytesIO()
        fastavro.writer(out, reader.writer_schema, order)
        path.write_bytes(out.getvalue())
        (file,) = read(table, as_of=1).files
        assert file.path == before.path
        assert file.file_index is not None
        assert str(file.file_index.path).endswith("new.index")


def test_nothing_is_committed(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    with pytest.raises(UnsupportedError, match="rewrite_file_index"):
        open_table(str(table))
    opened = OpenPaimon(table)
    assert not isinstance(opened, Committable)
    assert opened.refresh() == opened.snapshot


@pytest.mark.parametrize("pattern", ["snapshot/snapshot-5", "schema/schema-0", "manifest/*"])
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"Obj\x01", b"\xff" * 50])
def test_damaged_metadata_are_told(pattern: str, data: bytes, unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    for path in table.glob(pattern):
        path.write_bytes(data)
    with pytest.raises((CorruptFileError, UnsupportedError)):
        read(table)


def test_random_damage_is_told_or_does_no_harm(unpacked: Open) -> None:
    """No error but the library's; a file that the damage hides is one of a snapshot that is not that of the table."""
    table, _ = unpacked("paimon/append")
    rng = random.Random(11)
    paths = [path for folder in ("snapshot", "schema", "manifest") for path in sorted((table / folder).iterdir())]
    for _ in range(300):
        path = rng.choice(paths)
        good = path.read_bytes()
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            read(table)
        except (ParquetBloomError, FileNotFoundError):
            pass
        finally:
            path.write_bytes(good)


def test_a_table_on_another_file_system_is_read_through_it(unpacked: Open) -> None:
    table, answers = unpacked("paimon/append")
    memory = fsspec.filesystem("memory")
    memory.put(str(table), "/lake/append", recursive=True)
    try:
        snapshot = read("memory://lake/append")
        assert listed(snapshot) == sorted(answers["5"]["files"])
        sources, _ = live_sources("memory://lake/append")
        assert [source.size for source in sources] == [file.size for file in snapshot.files]
        for file in snapshot.files:
            assert file.path.startswith("memory://lake/append/region=")
            assert {bloom.column for bloom in filters(file)} > {("id",), ("name",)}
    finally:
        memory.rm("/lake", recursive=True)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "DECIMAL(9, 2)", "TIME(3)", "TIMESTAMP(6)", "BYTES"])
def test_a_partition_whose_name_is_not_known_is_found_by_its_files(kind: str, unpacked: Open) -> None:
    """The names depend on who wrote them; those of the table stand for any."""
    table, _ = unpacked("paimon/avro")
    known = read(table)
    for path in (table / "schema").glob("schema-*"):
        schema = json.loads(path.read_text("utf-8"))
        retyped(kind, "day")(schema)
        path.write_text(json.dumps(schema), "utf-8")
    assert [file.path for file in read(table).files] == [file.path for file in known.files]
    memory = fsspec.filesystem("memory")
    memory.put(str(table), "/lake/found", recursive=True)
    try:
        assert listed(read("memory://lake/found")) == listed(known)
    finally:
        memory.rm("/lake", recursive=True)
    if kind == "DOUBLE":
        assert paimon_.attach_index(table, "id", ndv=20).version == 3
    Path(known.files[0].path).unlink()
    with pytest.raises(FileNotFoundError, match=r"is in no folder day=\*/bucket-0"):
        read(table)


def test_partitions_that_are_not_understood_are_refused() -> None:
    packed = (1).to_bytes(4, "big") + bytes(16)
    for damaged in (b"", packed[:-1], (2).to_bytes(4, "big") + bytes(24)):
        with pytest.raises(CorruptFileError):
            paimon._partition_values(damaged, ["INT"])
    with pytest.raises(CorruptFileError):
        paimon._partition_values(packed[:12] + (99 << 32 | 9).to_bytes(8, "little"), ["STRING"])


@pytest.mark.parametrize(
    ("kind", "word", "name"),
    [
        ("BOOLEAN", 1, "true"),
        ("BOOLEAN", 0, "false"),
        ("TINYINT", 0xFF, "-1"),
        ("BIGINT", 2**63, str(-(2**63))),
        ("DATE", 20_000, ""),  # which only begins so
        ("VARCHAR(9)", int.from_bytes(b"abc\0\0\0\0\x83", "little"), "abc"),
        ("VARCHAR(9)", int.from_bytes(b"a\0\x1f%\0\0\0\x84", "little"), "a%00%1F%25"),
        ("CHAR(3)", int.from_bytes(b"\0\0\0\0\0\0\0\x80", "little"), "__HIVE__"),
    ],
)
def test_partitions_are_named_as_the_table_names_them(kind: str, word: int, name: str) -> None:
    parsed = {
        "fields": [{"id": 0, "name": "a=b", "type": f"{kind} NOT NULL"}],
        "primaryKeys": [],
        "partitionKeys": ["a=b"],
        "options": {"partition.legacy-name": "false", "partition.default-name": "__HIVE__"},
    }
    packed = (1).to_bytes(4, "big") + bytes(8) + word.to_bytes(8, "little")
    assert list(paimon._Schema(parsed, "schema").partition_folders(packed)) == [f"a%3Db={name}"]


def test_manifests_of_another_format_are_refused(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    for path in (table / "manifest").iterdir():
        path.write_bytes(b"PAR1 or ORC")
    with pytest.raises(UnsupportedError, match="not an Avro file"):
        read(table)


def test_without_fastavro_the_extra_is_named(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/append")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(UnsupportedError, match=r"parquet-bloom\[paimon\]"):
        read(table)


# ---- attaching indexes --------------------------------------------------------------------


def contents(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


def indexes(snapshot: Snapshot) -> dict[str, bytes]:
    parquet = [file for file in snapshot.files if file.path.endswith(".parquet")]
    return {file.recorded: paimon_files.build_index(file.path, ["id", "name"], ndv=20) for file in parquet}


def attach(opened: OpenPaimon, wanted: dict[str, bytes]) -> Snapshot:
    live = {file.recorded: file for file in opened.snapshot.files}
    with IndexCommit(opened) as commit:
        commit.require_newest()
        for recorded, data in wanted.items():
            commit.write(live[recorded], data)
        commit.commit()
    return opened.refresh()


def test_attached_indexes_are_the_tables(unpacked: Open) -> None:
    table, _ = unpacked("paimon/avro")
    opened, before = OpenPaimon(table), contents(table)
    old = opened.snapshot
    wanted = indexes(old)
    new = attach(opened, wanted)
    assert new == read(table)
    assert new.version == 3
    assert listed(new) == listed(old) == listed(read(table, as_of=2))
    assert read(table, as_of=2) == old
    found = {file.recorded: container(file) for file in new.files if file.file_index}
    assert found == wanted
    assert all(len(filters(file)) == 2 for file in new.files if file.file_index)
    after = contents(table)
    with pytest.raises(UnsupportedError, match="has an index"):
        attach(opened, wanted)
    (file, *_) = (file for file in new.files if file.file_index)
    with IndexCommit(opened) as commit, pytest.raises(UnsupportedError, match="has an index"):
        commit.write(file, b"")
    assert contents(table) == after > before


def test_the_old_entry_is_deleted_before_the_new_one_is_added(unpacked: Open) -> None:
    """The other order would make whoever expires the snapshots remove the data."""
    table, _ = unpacked("paimon/avro")
    opened, seen = OpenPaimon(table), 0
    before = set(manifests(table, 2))
    attach(opened, indexes(opened.snapshot))
    for path in set(manifests(table, 3)) - before:
        entries = list(fastavro.reader(io.BytesIO(path.read_bytes())))
        assert [entry["_KIND"] for entry in entries] == [1, 0] * (len(entries) // 2)
        for deleted, added in zip(entries[::2], entries[1::2], strict=True):
            same = {
                **deleted,
                "_KIND": 0,
                "_FILE": {**deleted["_FILE"], "_EXTRA_FILES": added["_FILE"]["_EXTRA_FILES"]},
            }
            assert same == added
            assert deleted["_FILE"]["_EXTRA_FILES"] == []
            seen += 1
    assert seen == 2
    snapshot = json.loads((table / "snapshot" / "snapshot-3").read_text("utf-8"))
    old = json.loads((table / "snapshot" / "snapshot-2").read_text("utf-8"))
    assert (snapshot["commitKind"], snapshot["deltaRecordCount"]) == ("COMPACT", 0)
    assert (snapshot["totalRecordCount"], snapshot["schemaId"]) == (old["totalRecordCount"], old["schemaId"])


def test_a_name_that_is_taken_is_left_alone(unpacked: Open) -> None:
    table, _ = unpacked("paimon/avro")
    opened = OpenPaimon(table)
    wanted = indexes(opened.snapshot)
    orphans = [Path(f"{table}/{recorded}.index") for recorded in wanted]
    for orphan in orphans:
        orphan.write_bytes(b"orphan")
    new = attach(opened, wanted)
    assert all(orphan.read_bytes() == b"orphan" for orphan in orphans)
    assert {file.recorded: container(file) for file in new.files if file.file_index} == wanted


def test_another_writers_commit_goes_before(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/avro")
    opened = OpenPaimon(table)
    wanted, before = indexes(opened.snapshot), contents(table)
    behind = OpenPaimon(table, as_of=1)
    with pytest.raises(ConcurrentChangeError, match="another snapshot"):
        attach(behind, wanted)
    newest = opened._newest()
    monkeypatch.setattr(opened, "_newest", lambda: newest)
    theirs = table / "snapshot" / "snapshot-3"
    theirs.write_text(json.dumps({**(newest or {}), "id": 3}), "utf-8")
    with pytest.raises(ConcurrentChangeError, match="snapshot 3"):
        attach(opened, wanted)
    assert contents(table) == {*before, theirs}


def test_an_error_after_the_commit_takes_nothing_away(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/avro")
    opened = OpenPaimon(table)
    wanted, create = indexes(opened.snapshot), Folder.create

    def failing(folder: Folder, name: str, data: bytes, **options: Any) -> None:
        create(folder, name, data, **options)
        if name == "snapshot-3":
            raise OSError("the disk was pulled out")

    monkeypatch.setattr(Folder, "create", failing)
    with pytest.raises(OSError, match="pulled out"):
        attach(opened, wanted)
    assert {file.recorded: container(file) for file in read(table).files if file.file_index} == wanted


def test_what_may_be_a_part_of_the_table_stays(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/avro")
    opened = OpenPaimon(table)
    wanted, create = indexes(opened.snapshot), Folder.create

    def failing(folder: Folder, name: str, data: bytes, **options: Any) -> None:
        create(folder, name, data, **options)
        if name == "snapshot-3":
            monkeypatch.setattr(OpenPaimon, "_json", lost)
            raise OSError("the disk was pulled out")

    def lost(*_: Any) -> None:
        raise OSError("it is still out")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "create", failing)
        with pytest.raises(OSError, match="pulled out"):
            attach(opened, wanted)
    monkeypatch.undo()
    assert {file.recorded: container(file) for file in read(table).files if file.file_index} == wanted


@pytest.mark.parametrize("name", ["paimon/pk", "paimon/pk_dv"])
def test_tables_with_a_primary_key_get_no_indexes(name: str, unpacked: Open) -> None:
    table, _ = unpacked(name)
    before, opened = contents(table), OpenPaimon(table)
    with pytest.raises(UnsupportedError, match="append tables"):
        attach(opened, indexes(opened.snapshot))
    assert contents(table) == before


def unindexed(table: Path) -> dict[str, bytes]:
    """Takes the indexes of the newest snapshot's files out of all manifests, and returns them."""
    found = {file.recorded: container(file) for file in read(table).files if file.file_index}
    for path in (table / "manifest").glob("manifest-*"):
        if "list" not in path.name:
            change(path, lambda entry: entry["_FILE"].update(_EXTRA_FILES=[], _EMBEDDED_FILE_INDEX=None))
    for path in table.rglob("*.index"):
        path.unlink()
    return found


@pytest.mark.parametrize(
    ("name", "columns", "items"),
    [
        ("paimon/append", "id,name,small,price,ratio,day,at,fine,zoned,raw", 60),
        ("paimon/evolved", "id,title,name", 60),  # which were id, name and other in the file with an index
    ],
)
def test_a_command_makes_the_indexes_that_paimon_made(name: str, columns: str, items: int, unpacked: Open) -> None:
    table, _ = unpacked(name)
    theirs, old = unindexed(table), read(table)
    attached = paimon_.attach_index(table, columns.split(","), ndv=items, fpp=0.05)
    new = read(table)
    assert attached.version == new.version == (old.version or 0) + 1
    assert listed(new) == listed(old)
    assert {row.status for row in attached.rows} == {"written"}
    assert [row.bytes_added for row in attached.rows] == [len(container(file)) for file in new.files]
    ours = {file.recorded: container(file) for file in new.files}
    same = [recorded for recorded, data in theirs.items() if ours[recorded] == data]
    assert len(same) == (len(theirs) if name == "paimon/append" else 1)
    assert attached.notes == () if name == "paimon/append" else "title" in attached.notes[0]


def test_attached_indexes_and_their_metadata_give_no_more_access(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    unindexed(table)
    before = contents(table)
    for path in before:
        path.chmod(0o640 if path.suffix == ".parquet" else 0o604)
    assert paimon_.attach_index(table, "name").version == 6
    new = {path: path.stat().st_mode & 0o777 for path in contents(table) - before}
    assert {mode for path, mode in new.items() if path.suffix == ".index"} == {0o640}
    assert {mode for path, mode in new.items() if path.suffix != ".index"} == {0o604}


def test_attached_indexes_are_asked(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    unindexed(table)
    present = {file.path: set(column(file, "name").to_pylist()) for file in read(table).files}
    keys = [f"name {number}{end}" for number in range(1, 9) for end in ("", "?", "??")]  # between least and greatest
    assert not any("bloom-filter" in row.reason for key in keys for row in prune(str(table), f"name = '{key}'").rows)
    assert paimon_.attach_index(table, "name", ndv=40).version == 6
    by_filter = 0
    for key in keys:
        pruned = prune(str(table), f"name = '{key}'")
        assert {path for path, names in present.items() if key in names} <= {file.path for file in pruned.kept_files}
        by_filter += [row.reason for row in pruned.rows].count("the Paimon bloom-filter filter on name lacks the value")
    assert by_filter > len(keys) // 3
    found = {(row["path"], row["key"]) for row in lookup(str(table), "name", keys).to_arrow().to_pylist()}
    held = {(path, key) for path, names in present.items() for key in names & set(keys)}
    assert held <= found
    assert len({(path, key) for path, key in found if path}) < len(present) * len(keys)


def test_what_would_be_attached_is_told_and_what_there_is_kept(unpacked: Open) -> None:
    table, _ = unpacked("paimon/avro")
    before = contents(table)
    planned = paimon_.attach_index(table, "id", ndv=20, dry_run=True)
    assert (contents(table), planned.version) == (before, None)
    attached = paimon_.attach_index(table, "id", ndv=20)
    for ahead, row in zip(planned.rows, attached.rows, strict=True):
        assert (ahead.path, ahead.output, ahead.bytes_added) == (row.path, row.output, row.bytes_added)
        assert row.status == ("written" if row.path.endswith(".parquet") else "refused")
    assert "file-index.bloom-filter.columns: id" in attached.notes[0]
    after = contents(table)
    again = paimon_.attach_index(table, "id", ndv=20)
    assert (again.version, again.notes, contents(table)) == (None, (), after)
    assert {row.notes for row in again.rows if not row.error} == {("has an index",)}


@pytest.mark.parametrize(
    ("name", "columns", "sizes", "error"),
    [
        ("paimon/pk", "id", {}, UnsupportedError),
        ("paimon/pk_dv", "id", {}, UnsupportedError),
        ("paimon/avro", ["id", "nothing"], {}, ColumnNotFoundError),
        ("paimon/append", ["id", "cost"], {}, UnsupportedError),  # a DECIMAL
        ("paimon/avro", [], {}, ValueError),
        ("paimon/avro", "id", {"ndv": 0}, ValueError),
        ("paimon/avro", ["id", "name"], {"fpp": {"id": 0.1}}, ValueError),
    ],
)
def test_what_cannot_be_attached_is_refused_before_the_first_byte(
    name: str, columns: list[str] | str, sizes: dict[str, Any], error: type[Exception], unpacked: Open
) -> None:
    table, _ = unpacked(name)
    before = contents(table)
    with pytest.raises(error):
        paimon_.attach_index(table, columns, **sizes)
    assert contents(table) == before


def test_only_tables_in_local_directories_are_attached_to(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="local directories"):
        paimon_.attach_index("memory://lake/orders", "id")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="not the directory of a Paimon table"):
            paimon_.attach_index(path, "id")


@pytest.mark.parametrize("is_late", [False, True])
def test_an_interruption_leaves_the_table_as_it_was(
    is_late: bool, unpacked: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = unpacked("paimon/avro")
    before, create = contents(table), Folder.create
    made: list[str] = []

    def interrupted(folder: Folder, name: str, data: bytes, **options: Any) -> None:
        made.append(name)
        if len(made) == stop and not is_late:
            raise KeyboardInterrupt
        create(folder, name, data, **options)
        if len(made) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(Folder, "create", interrupted)
    stop = 0
    while not made or made[-1] != "snapshot-3":
        assert contents(table) == before
        stop += 1
        made.clear()
        with pytest.raises(KeyboardInterrupt):
            paimon_.attach_index(table, "id", ndv=20)
    assert stop >= 6  # two indexes, a manifest or more, and two lists were there before the snapshot
    if is_late:
        assert sum(file.file_index is not None for file in read(table).files) == 2
    else:
        assert contents(table) == before


def test_another_writer_goes_before_and_the_commit_is_tried_again(
    unpacked: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = unpacked("paimon/avro")
    before, create = read(table), Folder.create
    gone = next(file for file in before.files if file.path.endswith(".parquet"))

    def overtaken(folder: Folder, name: str, data: bytes, **options: Any) -> None:
        if name == "snapshot-3":
            for path in {path for path in manifests(table, 2) if gone_entry(path, gone)}:
                change(path, lambda entry: entry.update(_KIND=1 if entry["_FILE"]["_FILE_NAME"] in gone.path else 0))
            newest = json.loads((table / "snapshot" / "snapshot-2").read_text("utf-8"))
            (table / "snapshot" / name).write_text(json.dumps({**newest, "id": 3}), "utf-8")
        create(folder, name, data, **options)

    monkeypatch.setattr(Folder, "create", overtaken)
    attached = paimon_.attach_index(table, "id", ndv=20)
    assert attached.version == read(table).version == 4
    rows = {row.path: row for row in attached.rows if row.path.endswith(".parquet")}
    assert "another writer removed the file from the table" in str(rows.pop(gone.path).error)
    (row,) = rows.values()
    assert row.status == "written"
    assert {str(path) for path in table.rglob("*.index")} == {row.output}
    referred = {path.name for path in manifests(table, 4)}
    assert {path.name for path in (table / "manifest").glob("manifest-*-0") if path.stat().st_size} & referred


def gone_entry(path: Path, file: LiveFile) -> bool:
    entries = fastavro.reader(io.BytesIO(path.read_bytes()))
    return any(entry["_FILE"]["_FILE_NAME"] in file.path for entry in entries)


def test_where_others_leave_no_room_nothing_is_left_behind(unpacked: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = unpacked("paimon/avro")
    before, create = contents(table), Folder.create

    def overtaken(folder: Folder, name: str, data: bytes, **options: Any) -> None:
        if name.startswith("snapshot-"):
            newest = json.loads((table / "snapshot" / "snapshot-2").read_text("utf-8"))
            number = int(name.rpartition("-")[2])
            (table / "snapshot" / name).write_text(json.dumps({**newest, "id": number}), "utf-8")
        create(folder, name, data, **options)

    monkeypatch.setattr(Folder, "create", overtaken)
    monkeypatch.setattr("parquet_bloom.verbs.changes.pause", lambda attempt: None)
    with pytest.raises(ConcurrentChangeError, match="another writer committed"):
        paimon_.attach_index(table, "id", ndv=20)
    assert {path for path in contents(table) if path.parent.name != "snapshot"} == {
        path for path in before if path.parent.name != "snapshot"
    }


def test_the_command_says_what_it_did(unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    unindexed(table)
    line = ["index", "paimon", "attach", str(table), "-c", "id", "--ndv", "60"]
    ran = CliRunner().invoke(main, [*line, "--json"])
    rows = [json.loads(row) for row in ran.stdout.splitlines()]
    assert (ran.exit_code, [row["status"] for row in rows]) == (0, ["written"] * 3)
    assert {row["output"] for row in rows} == {str(path) for path in table.rglob("*.index")}
    ran = CliRunner().invoke(main, line)
    assert (ran.exit_code, ran.output.count("nothing to do")) == (0, 3)
    assert CliRunner().invoke(main, [*line, "-c", "cost"]).exit_code == 2
    table, _ = unpacked("paimon/avro")  # whose other files are refused
    assert CliRunner().invoke(main, ["index", "paimon", "attach", str(table), "-c", "id"]).exit_code == 2


@pytest.mark.parametrize("wrong", [True, None, 7, ["id"]])
def test_a_schema_whose_names_are_no_texts(wrong: Any, unpacked: Open) -> None:
    table, _ = unpacked("paimon/append")
    for path in table.glob("schema/schema-*"):
        schema = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**schema, "fields": [{**schema["fields"][0], "name": wrong}]}), "utf-8")
    for call in (
        lambda: prune(table, "id = 5"),
        lambda: lookup(table, "id", [5]).to_arrow(),
        lambda: paimon_.attach_index(table, "name"),
    ):
        with pytest.raises(CorruptFileError, match="the schema cannot be understood"):
            call()
