"""The live files of Delta tables, as deltalake and the disk have them."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.transaction import AddAction
from files import table

from parquet_bloom import CorruptFileError, UnsupportedError, add, index, lookup, prune
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.tables import LiveFile, open_table, snapshot_of
from parquet_bloom.tables.delta import OpenDelta, _as_logged
from parquet_bloom.tables.delta_log import _checkpoints
from parquet_bloom.tables.placement import Here, Lacking
from parquet_bloom.tables.snapshots import delta_options, fsspec_options, iceberg_options


def test_live_files_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    rows = lakes.odd_rows()
    write_deltalake(str(tmp_path), rows, partition_by=["p"])
    found = snapshot_of(tmp_path)
    assert found is not None
    assert (found.kind, found.root, found.version, found.num_rows) == ("Delta", str(tmp_path), 0, len(rows))
    assert {Path(file.path) for file in found.files} == set(tmp_path.glob("p=*/*.parquet"))
    sources = found.sources()
    assert [(s.path, s.size) for s in sources] == [(f.path, f.size) for f in found.files]
    for file in found.files:
        values = {
            row["p"] for row in rows.to_pylist() if row["id"] in pq.ParquetFile(file.path).read()["id"].to_pylist()
        }
        assert values == {file.partition["p"]}


def test_partition_values_are_the_texts_of_the_log(tmp_path: Path) -> None:
    import datetime as dt
    from decimal import Decimal

    import pyarrow as pa

    columns = {
        "i": [1, None],
        "b": [True, None],
        "d": [dt.date(2026, 1, 31), None],
        "n": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "t": pa.array([dt.datetime(2026, 1, 31, 1, 2, 3), None], pa.timestamp("us", "UTC")),
        "id": [1, 2],
    }
    write_deltalake(str(tmp_path), pa.table(columns), partition_by=["i", "b", "d", "n", "t"])
    logged = {add["path"]: add["partitionValues"] for add in lakes.adds(tmp_path)}
    found = snapshot_of(tmp_path)
    assert found is not None
    assert {file.recorded: file.partition for file in found.files} == {
        path: {**values, "t": values["t"] and "2026-01-31 01:02:03"} for path, values in logged.items()
    }


def test_earlier_versions(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path)
    for as_of in (0, "0", 1, 2):
        found = snapshot_of(tmp_path, as_of=as_of)
        assert found is not None
        assert (found.version, len(found.files)) == (int(as_of), int(as_of) + 1)
    assert snapshot_of(delta, as_of=1).version == 1  # type: ignore[union-attr]
    assert snapshot_of(delta).version == 2  # type: ignore[union-attr]
    later = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 60))
    assert snapshot_of(tmp_path, as_of=later).version == 2  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="neither a version"):
        snapshot_of(tmp_path, as_of="yesterday")
    with pytest.raises(UnsupportedError):
        snapshot_of(tmp_path, as_of=7)


def test_a_file_may_have_grown_but_not_shrunk(tmp_path: Path) -> None:
    lakes.delta(tmp_path)
    found = snapshot_of(tmp_path)
    assert found is not None
    file = Path(found.files[1].path)
    data = file.read_bytes()
    file.write_bytes(data + b"more")
    assert found.sources()[1].size == len(data) + 4
    file.write_bytes(data[:-1])
    with pytest.raises(CorruptFileError, match=f"{file.name}: has .* and the table records"):
        found.sources()
    file.unlink()
    with pytest.raises(FileNotFoundError, match=file.name):
        found.sources()


def test_names_in_the_files_of_a_table_with_column_mapping(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b.c": "x"}] * 2, "l": [[1], [2]], "p": ["x y", "z"]})
    write_deltalake(str(tmp_path), rows, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    found = snapshot_of(tmp_path)
    assert found is not None
    assert {file.partition["p"] for file in found.files} == {"x y", "z"}
    for source in found.sources():
        footer = run(source, read_footer(source.size))
        leaves = {leaf.path for leaf in footer.leaves}
        for path in [("id",), ("s", "a"), ("s", "b.c"), ("l", "list", "element")]:
            located = found.locate(footer, path)
            assert isinstance(located, Here)
            assert located.path in leaves
            assert located.path != path
        assert found.locate(footer, ("nothing",)) == Lacking()


def test_files_with_deletion_vectors_are_told(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    assert [file.has_deletes for file in snapshot_of(tmp_path).files] == [False]  # type: ignore[union-attr]
    lakes.give_deletion_vector(tmp_path, [1, 2, 3])
    found = snapshot_of(tmp_path)
    assert found is not None
    assert [(file.has_deletes, file.num_rows) for file in found.files] == [(True, 20)]
    assert len(lakes.delta_rows(tmp_path)) == 17


def test_a_deletion_vector_of_another_version_or_length_is_an_error(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    lakes.give_deletion_vector(tmp_path, [1, 2, 3])
    opened = OpenDelta(tmp_path)
    before = opened.snapshot
    assert list(before.deleted_rows(before.files[0])) == [1, 2, 3]
    opened = OpenDelta(tmp_path)
    before = opened.snapshot
    lakes.log(tmp_path, 2, {"commitInfo": {}})
    opened.refresh()
    with pytest.raises(UnsupportedError, match="of another version"):
        before.deleted_rows(before.files[0])
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    log.write_text(log.read_text().replace('"cardinality": 3', '"cardinality": 2'))
    found = OpenDelta(tmp_path).snapshot
    with pytest.raises(CorruptFileError, match="has 3 rows; the log says 2"):
        found.deleted_rows(found.files[0])


def test_deletion_vectors_of_no_live_file_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lakes.delta(tmp_path, files=1)
    monkeypatch.setattr(OpenDelta, "_with_deletes", lambda opened: {"/elsewhere/x.parquet"})
    with pytest.raises(UnsupportedError, match="of files that are not in the table"):
        OpenDelta(tmp_path)


def test_a_deletion_vector_in_an_oddly_named_directory(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), lakes.odd_rows().slice(1, 1), partition_by=["p"])
    lakes.give_deletion_vector(tmp_path, [0])
    assert [file.has_deletes for file in snapshot_of(tmp_path).files] == [True]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["a b", "é", "a=b+c", "h#q?"])
def test_tables_in_oddly_named_directories(tmp_path: Path, name: str) -> None:
    delta = lakes.delta(tmp_path / name)
    for given in (tmp_path / name, f"{tmp_path / name}/", delta):
        found = snapshot_of(given)
        assert found is not None
        assert found.root == str(tmp_path / name)
        assert len(found.sources()) == 3


def test_where_deltalake_fails_the_error_is_ours(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "good").schema()
    (tmp_path / "good").rename(tmp_path / "a%20b")  # deltalake looks for "a b"
    with pytest.raises((UnsupportedError, FileNotFoundError), match="a%20b"):
        snapshot_of(tmp_path / "a%20b")


def test_a_panic_of_deltalake_is_an_error(tmp_path: Path) -> None:
    class PanicError(BaseException):
        """As the panics of Rust are: no `Exception`."""

    delta = lakes.delta(tmp_path)

    def panic() -> None:
        raise PanicError("index out of bounds")

    delta.get_add_actions = panic
    with pytest.raises(UnsupportedError, match=r"deltalake crashed while it read .*index out of bounds"):
        snapshot_of(delta)


def test_what_is_no_table(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t")
    assert snapshot_of(tmp_path) is None
    assert snapshot_of(tmp_path / "missing") is None
    with pytest.raises(FileNotFoundError, match="not the directory of a table of Iceberg"):
        snapshot_of(tmp_path / "t", kind="iceberg")
    with pytest.raises(FileNotFoundError, match="not the directory of a Delta or Iceberg table"):
        open_table(tmp_path)
    with pytest.raises(UnsupportedError, match="lance tables are not supported"):
        snapshot_of(tmp_path, kind="lance")
    with pytest.raises(UnsupportedError, match="is not a path"):
        snapshot_of(7)
    assert snapshot_of(tmp_path / "t", kind="delta") is not None


@pytest.mark.parametrize(("library", "extra"), [("deltalake", "delta"), ("pyiceberg.table", "iceberg")])
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: Any, library: str, extra: str) -> None:
    lakes.delta(tmp_path / "delta")
    (tmp_path / "iceberg/metadata").mkdir(parents=True)
    (tmp_path / "iceberg/metadata/v1.metadata.json").write_text("{}")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UnsupportedError, match=re.escape(f"pip install 'parquet-bloom[{extra}]'")):
        snapshot_of(tmp_path / extra)


def test_paths_are_spelled_as_deltalake_spells_them(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path, files=1)
    letters = [chr(c) for c in range(32, 127) if chr(c) != "/"] + ["ü", "日", "\u00a0", "😀"]
    names = [f"d/{i}{letter}.parquet" for i, letter in enumerate(letters)]
    added: list[Any] = [AddAction(name, 1, {}, 1, False, '{"numRecords":1}') for name in names]
    delta.create_write_transaction(
        added, "append", delta.schema(), commit_properties=CommitProperties(max_commit_retries=0)
    )
    assert {add["path"] for add in lakes.adds(tmp_path, 1)} == {_as_logged(name) for name in names}
    found = snapshot_of(tmp_path)
    assert found is not None
    assert {f"{tmp_path}/{name}" for name in names} <= {file.path for file in found.files}


def test_the_log_is_read_from_its_checkpoint_on(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path, files=4)
    logged = {add["path"]: add["stats"] for version in range(4) for add in lakes.adds(tmp_path, version)}
    delta.create_checkpoint()
    write_deltalake(str(tmp_path), table(5, 80), mode="append")
    logged |= {add["path"]: add["stats"] for add in lakes.adds(tmp_path, 4)}
    for version in range(4):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    opened: Any = open_table(tmp_path)
    for file in opened.snapshot.files:
        assert opened.refusal(file) is None
        assert json.loads(opened._logged(file)["stats"]) == json.loads(logged[file.recorded])
    assert opened.refusal(LiveFile("x", "x", 1, 1)) is not None
    for checkpoint in (tmp_path / "_delta_log").glob("*.checkpoint.parquet"):
        checkpoint.rename(checkpoint.with_name("00000000000000000003.checkpoint.0d1f.parquet"))
    opened._log.version = None
    with pytest.raises(UnsupportedError, match="a checkpoint of a kind that is not supported"):
        opened.refusal(opened.snapshot.files[0])


def test_an_earlier_version_is_not_read_from_a_later_checkpoint(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=4).create_checkpoint()
    opened: Any = open_table(tmp_path)
    for version in (2, 3):
        opened._log.read(version)
        logged = {add["path"] for earlier in range(version + 1) for add in lakes.adds(tmp_path, earlier)}
        assert opened._log.adds.keys() == logged


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_that_gets_a_deletion_vector_stays_in_the_history(tmp_path: Path, order: int) -> None:
    lakes.delta(tmp_path, files=1)
    lakes.give_deletion_vector(tmp_path, [1])
    lakes.log(tmp_path, 1, *lakes.actions(tmp_path, 1)[::order])
    lakes.log(tmp_path, 2, {"commitInfo": {}})
    found = list(OpenDelta(tmp_path).history())
    assert [(version, [file.recorded for file in files]) for version, files in found] == [
        (version, [lakes.adds(tmp_path)[0]["path"]]) for version in (0, 1)
    ]


def test_a_checkpoint_counts_only_with_all_its_parts() -> None:
    parts = [f"{10:020}.checkpoint.{number:010}.{3:010}.parquet" for number in (1, 2, 3)]
    other = f"{10:020}.checkpoint.parquet"
    assert _checkpoints(parts) == {10: parts}
    assert _checkpoints(parts[1:]) == {}
    assert _checkpoints([*parts[:2], other]) == {10: [other]}


def test_options_have_each_library_s_names() -> None:
    given = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://h:1",
        "client_kwargs": {"region_name": "r"},
        "AWS_CONDITIONAL_PUT": "etag",
        "s3.connect-timeout": 5,
    }
    ours = {k: v for k, v in given.items() if k in ("key", "secret", "endpoint_url", "client_kwargs")}
    assert fsspec_options(given) == ours
    delta = delta_options(given)
    assert delta["AWS_ACCESS_KEY_ID"] == "k"
    assert delta["AWS_ENDPOINT_URL"] == "http://h:1"
    assert (delta["AWS_ALLOW_HTTP"], delta["AWS_REGION"], delta["AWS_CONDITIONAL_PUT"]) == ("true", "r", "etag")
    iceberg = iceberg_options(given)
    assert (iceberg["s3.access-key-id"], iceberg["s3.region"], iceberg["s3.connect-timeout"]) == ("k", "r", "5")
    assert (delta_options(None), iceberg_options(None), fsspec_options(None)) == ({}, {}, None)
    assert delta_options({"anon": True}) == {"AWS_SKIP_SIGNATURE": "true"}


def test_a_table_object_is_read_at_its_newest_version(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path)
    write_deltalake(str(tmp_path), table(5, 60), mode="append")
    found = snapshot_of(delta)
    assert found is not None
    assert found.version == delta.version() == DeltaTable(str(tmp_path)).version() == 3


@pytest.mark.parametrize(
    "noted", [{"__COLLATIONS": '{"name": "spark.UTF8_LCASE"}'}, {"__CHAR_VARCHAR_TYPE_STRING": "char(12)"}]
)
@pytest.mark.parametrize("partition_by", [None, ["name"]])
@pytest.mark.usefixtures("mtime_stable")
def test_texts_compare_as_the_table_says_whatever_its_files_note(
    tmp_path: Path, noted: dict[str, str], partition_by: list[str] | None
) -> None:
    """To Spark 'Abc' = 'ABC', or 'ABC' = 'ABC   ', in such a column; deltalake's files say nothing of it."""
    root = str(tmp_path)
    schema = Schema([Field("id", "long"), Field("name", "string", metadata=noted), Field("other", "string")])
    DeltaTable.create(root, schema, partition_by=partition_by)
    write_deltalake(root, pa.table({"id": [1, 2], "name": ["ABC", "ABC"], "other": ["a", "b"]}), mode="append")

    def ask() -> None:
        for where in ("name = 'abc'", "name IN ('abc  ', 'q')", "name < 'A'", "name > 'a'", "NOT name = 'ABC'"):
            assert prune(root, where).might_match, where
            assert prune(root, where.replace("name", "NAME"), case_sensitive=False).might_match, where
        if partition_by is None:
            assert lookup(root, "name", ["abc"]).to_arrow()["path"].null_count == 0
        assert not prune(root, "other = 'q'").might_match

    columns = ["other"] if partition_by else ["name", "other"]
    index.create(root, columns)
    ask()
    index.drop(root)
    assert not add(root, columns, table=True).errors
    ask()
    if partition_by is None:
        assert prune(root, "other = 'a'").to_dataset().count_rows() == 2
