"""The ledger: which rows of which keys went from where, which versions still have them, and no key in clear."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from files import statuses, table

from parquet_bloom import erase
from parquet_bloom.cli.commands import main

SECRET = b"sixteen bytes at least"


def hashed(key: object) -> str:
    return hmac.new(SECRET, str(key).encode(), hashlib.sha256).hexdigest()


def rows_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["rows"]


def test_a_delta_table(tmp_path: Path) -> None:
    """Versions 1 to 3 have key 25, which an earlier delete has not taken out of version 1's file."""
    root = tmp_path / "t"
    lakes.delta(root, files=4)
    ledger = tmp_path / "ledger.json"
    erased = erase(root, "id", [25, 79, 500], table=True, ledger=ledger, ledger_secret=SECRET)
    assert erased.errors == ()
    found = {row["key"]: row for row in rows_of(ledger)}
    assert set(found) == {hashed(25), hashed(79), hashed(500)}
    assert (found[hashed(25)]["held_by"], found[hashed(79)]["held_by"]) == (["1-3"], ["3"])
    assert found[hashed(25)]["rows_erased"] == found[hashed(79)]["rows_erased"] == 1
    assert (found[hashed(25)]["version_before"], found[hashed(25)]["version_after"]) == (3, 4)
    assert found[hashed(25)]["expire_with"] == f"VACUUM delta.`{root}`"
    assert (root / Path(found[hashed(25)]["file"]).name).exists()
    nowhere = found[hashed(500)]
    assert (nowhere["file"], nowhere["rows_erased"], nowhere["held_by"], nowhere["expire_with"]) == (None, 0, [], None)
    text = ledger.read_text()
    assert SECRET.decode() not in text


def test_versions_whose_files_are_gone_hold_nothing(tmp_path: Path) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=2)
    erase(root, "id", [5], table=True)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    erase(root, "id", [5], table=True, ledger=first, ledger_secret=SECRET)
    assert [(row["rows_erased"], row["held_by"]) for row in rows_of(first)] == [(0, ["0-1"])]
    DeltaTable(str(root)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    erase(root, "id", [5], table=True, ledger=second, ledger_secret=SECRET)
    assert [(row["held_by"], row["expire_with"]) for row in rows_of(second)] == [([], None)]


def test_a_file_that_was_refused_is_among_those_of_earlier_versions(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=1)
    (add,) = lakes.adds(root)
    lakes.log(root, 1, {"add": {**add, "baseRowId": 0}})
    erased = erase(root, "id", [3], table=True, ledger=ledger, ledger_secret=SECRET)
    assert statuses(erased) == ["refused"]
    assert [(row["rows_erased"], row["held_by"]) for row in rows_of(ledger)] == [(0, ["0"])]


def test_rows_that_the_table_had_already_deleted_are_counted(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=1)
    lakes.give_deletion_vector(root, [3, 4])
    erase(root, "id", [3, 5], table=True, ledger=ledger, ledger_secret=SECRET)
    found = {row["key"]: (row["rows_erased"], row["held_by"]) for row in rows_of(ledger)}
    assert found == {hashed(3): (1, ["0-1"]), hashed(5): (1, ["0-1"])}


def test_the_history_from_a_checkpoint_on(tmp_path: Path) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=3, configuration={"delta.logRetentionDuration": "interval 0 days"})
    DeltaTable(str(root)).create_checkpoint()
    write_deltalake(str(root), table(5, 100), mode="append")
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    ledger = tmp_path / "ledger.json"
    erase(root, "id", [5, 102], table=True, ledger=ledger, ledger_secret=SECRET)
    assert {row["key"]: row["held_by"] for row in rows_of(ledger)} == {hashed(5): ["2-3"], hashed(102): ["3"]}


def test_an_iceberg_table(tmp_path: Path, catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    versions = [snapshot.snapshot_id for snapshot in made.refresh().snapshots()]
    ledger = tmp_path / "ledger.parquet"
    erase(made, "id", [25, 45], table=True, ledger=ledger, ledger_secret=SECRET)
    found = {row["key"]: row for row in pq.read_table(ledger).to_pylist()}
    assert found[hashed(25)]["held_by"] == sorted(map(str, versions[1:]), key=int)
    assert found[hashed(45)]["held_by"] == [str(versions[2])]
    assert found[hashed(45)]["version_before"] == versions[2]
    assert "expire_snapshots(table => 'n.t'" in found[hashed(45)]["expire_with"]


def test_keys_of_bytes_are_hashed_as_they_are_and_times_to_the_nanosecond(tmp_path: Path) -> None:
    columns = {
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "view": pa.array([b"ef", b"gh"], pa.binary_view()),
        "time": pa.array([1, 2], pa.time64("ns")),
    }
    for column, keys in columns.items():
        pq.write_table(pa.table({"k": keys.cast(pa.binary()) if column == "view" else keys}), tmp_path / "a.parquet")
        ledger = tmp_path / f"{column}.json"
        erase(tmp_path / "a.parquet", "k", keys, ledger=ledger, ledger_secret=SECRET)
        shown = {
            "fixed": [b"ab", b"cd"],
            "view": [b"ef", b"gh"],
            "time": [b"00:00:00.000000001", b"00:00:00.000000002"],
        }
        expected = {hmac.new(SECRET, one, hashlib.sha256).hexdigest(): 1 for one in shown[column]}
        assert {row["key"]: row["rows_erased"] for row in rows_of(ledger)} == expected


def test_plain_files_and_keys_that_are_spelled_twice(tmp_path: Path) -> None:
    for name, rows in {"a": [1, 1, 2], "b": [1, 3]}.items():
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), tmp_path / f"{name}.parquet")
    keys = tmp_path / "keys.txt"
    keys.write_text("1\n01\n3\n9\n")
    ledger = tmp_path / "ledger.parquet"
    erased = erase(tmp_path / "*.parquet", "id", keys, ledger=ledger, ledger_keys="plain")
    assert erased.errors == ()
    found = [
        (row["key"], row["file"] and Path(row["file"]).name, row["rows_erased"])
        for row in pq.read_table(ledger).to_pylist()
    ]
    assert found == [
        ("1", "a.parquet", 2),
        ("1", "b.parquet", 1),
        ("01", "a.parquet", 2),
        ("01", "b.parquet", 1),
        ("3", "b.parquet", 1),
        ("9", None, 0),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ledger": "l.txt", "ledger_secret": SECRET}, r"\.json or \.parquet"),
        ({"ledger": "l.json"}, "PARQUET_BLOOM_LEDGER_SECRET"),
        ({"ledger": "l.json", "ledger_secret": "short"}, "at least 16 bytes"),
        ({"ledger": "l.json", "ledger_keys": "clear"}, "'hmac' or 'plain'"),
        ({"ledger": "there.json", "ledger_secret": SECRET}, "already exists"),
        ({"ledger": "no/l.json", "ledger_secret": SECRET}, "is not a directory"),
    ],
)
def test_what_keeps_a_ledger_from_being_written_is_told_first(
    tmp_path: Path, monkeypatch: Any, options: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PARQUET_BLOOM_LEDGER_SECRET", raising=False)
    Path("there.json").write_text("an earlier one")
    pq.write_table(table(10), "a.parquet")
    before = Path("a.parquet").read_bytes()
    with pytest.raises((ValueError, OSError), match=said):
        erase("a.parquet", "id", [3], **options)
    assert Path("a.parquet").read_bytes() == before


def test_on_the_command_line_the_secret_comes_from_the_environment(tmp_path: Path) -> None:
    root, keys, ledger = tmp_path / "t", tmp_path / "keys.txt", tmp_path / "ledger.json"
    lakes.delta(root, files=1)
    keys.write_text("7\n")
    line = ["erase", str(root), "--table", "-c", "id", "-k", str(keys), "--yes", "--ledger", str(ledger)]
    assert CliRunner().invoke(main, line, env={"PARQUET_BLOOM_LEDGER_SECRET": None}).exit_code == 2
    assert lakes.delta_rows(root) == list(range(20))
    ran = CliRunner().invoke(main, line, env={"PARQUET_BLOOM_LEDGER_SECRET": SECRET.decode()})
    assert ran.exit_code == 0, ran.output
    assert [row["key"] for row in rows_of(ledger)] == [hashed(7)]


def test_a_file_that_still_has_a_key_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    """The index says, wrongly, that no file has the key: the search at the end finds it."""
    from parquet_bloom.verbs import lookup

    for name in ("a", "b"):
        pq.write_table(table(10), tmp_path / f"{name}.parquet")
    monkeypatch.setattr(lookup, "_by_index", lambda sources, search, log: {*sources})
    ledger = tmp_path / "ledger.json"
    erased = erase(tmp_path, "id", [3], ledger=ledger, ledger_secret=SECRET)
    assert statuses(erased) == ["refused", "refused"]
    assert all("has rows with the keys" in row.error for row in erased.errors)
