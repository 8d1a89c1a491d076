"""The ledger: which rows of which keys went from where, which versions still have them, and no key in clear."""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from encrypted import encrypted
from files import statuses, table

import parquet_bloom
from parquet_bloom import ConcurrentChangeError, CorruptFileError, check_ledger, erase
from parquet_bloom.cli.commands import main
from parquet_bloom.verbs import erase as verb
from parquet_bloom.verbs.erase_ledger import read_ledger
from parquet_bloom.verbs.erase_record import Recording

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


def test_versions_whose_files_cannot_be_searched_may_hold_every_key(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=2)
    (old, *_) = lakes.adds(root)
    erase(root, "id", [5], table=True)
    with_footer_cut(root / old["path"])
    erase(root, "id", [70], table=True, ledger=ledger, ledger_secret=SECRET)
    assert [(row["status"], row["held_by"]) for row in rows_of(ledger)] == [("nowhere", ["0-1"])]


def test_a_file_that_was_refused_is_among_those_of_earlier_versions(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=1)
    (add,) = lakes.adds(root)
    lakes.log(root, 1, {"add": {**add, "baseRowId": 0}})
    erased = erase(root, "id", [3], table=True, ledger=ledger, ledger_secret=SECRET)
    assert statuses(erased) == ["refused"]
    of_key, of_file = rows_of(ledger)
    assert (of_key["key"], of_key["status"], of_key["held_by"]) == (hashed(3), "not known", ["0"])
    assert (of_file["key"], of_file["status"], of_file["held_by"]) == (None, "refused", ["1"])
    assert (of_file["file"], of_file["reason"]) == (str(root / add["path"]), erased.errors[0].error)
    assert erased.notes[0] == (
        "the ledger is incomplete: 1 file of version 1, which is live, may still have rows with the keys"
    )


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
        ({"request": "R-1"}, "it needs ledger="),
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


# ---- what it says of the run -------------------------------------------------------------


def header_of(path: Path) -> parquet_bloom.LedgerHeader:
    header = read_ledger(path).header
    assert header is not None
    return header


def said(path: Path) -> list[tuple[str | None, str | None, int, str]]:
    """Returns the rows of a ledger with plain keys: key, name of the file, rows, status."""
    return [(row.key, row.file and Path(row.file).name, row.rows_erased, row.status) for row in read_ledger(path).rows]


def files_of(folder: Path, *names: str) -> list[Path]:
    """Writes a file of ids 0 to 9 for each name."""
    folder.mkdir(exist_ok=True)
    for name in names:
        pq.write_table(table(10), folder / f"{name}.parquet")
    return [folder / f"{name}.parquet" for name in names]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_the_header_names_what_was_searched_and_by_what(tmp_path: Path, monkeypatch: Any, ending: str) -> None:
    monkeypatch.chdir(tmp_path)
    files = files_of(tmp_path / "t", "a", "b")
    ledger = tmp_path / f"ledger.{ending}"
    options: dict[str, Any] = {"ledger": str(ledger), "ledger_secret": SECRET, "request": "R-17"}
    assert erase("t", "id", [3, 77], timezone="UTC", **options).ledger == str(ledger)
    header = header_of(ledger)
    assert (header.outcome, header.proof, header.request, header.kind) == ("complete", "passed", "R-17", "files")
    assert (header.paths, header.column, header.timezone) == ((str(tmp_path / "t"),), "id", "UTC")
    assert (header.algorithm, header.num_keys, header.keys_nowhere) == ("HMAC-SHA256", 2, 1)
    assert header.files_searched == tuple(map(str, files))
    assert header.written_by == f"parquet_bloom {parquet_bloom.__version__}"
    assert header.began <= (header.ended or "")
    assert {row.file for row in read_ledger(ledger).rows} == {None, *map(str, files)}


def test_both_kinds_of_file_have_one_digest_that_others_can_compute(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("parquet_bloom.verbs.erase_record._now", lambda: "2026-01-01T00:00:00.000+00:00")
    ledgers = []
    for ending in ("json", "parquet"):
        files_of(tmp_path / "t", "a", "b")
        ledgers.append(tmp_path / f"ledger.{ending}")
        erase(tmp_path / "t", "id", [3, 77], ledger=ledgers[-1], ledger_secret=SECRET)
    as_json, as_parquet = map(read_ledger, ledgers)
    assert as_json.digest == as_parquet.digest
    assert as_json.rows == as_parquet.rows
    everything = json.loads(ledgers[0].read_text())
    digest, seal = everything.pop("digest"), everything.pop("seal")
    canonical = json.dumps(everything, sort_keys=True, separators=(",", ":")).encode()
    assert digest == "sha256:" + hashlib.sha256(canonical).hexdigest()
    assert seal == "hmac-sha256:" + hmac.new(SECRET, f"parquet_bloom ledger {digest}".encode(), "sha256").hexdigest()


def test_a_dry_run_writes_no_ledger_and_changes_none(tmp_path: Path) -> None:
    files_of(tmp_path / "t", "a")
    ledger = tmp_path / "ledger.json"
    planned = erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain", dry_run=True)
    assert (planned.ledger, ledger.exists()) == (None, False)
    kill(tmp_path / "t", ledger, KILLED_AT["the first file"])
    begun = ledger.read_bytes()
    erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain", dry_run=True)
    assert ledger.read_bytes() == begun


def test_a_file_of_which_only_a_dictionary_had_a_key_is_a_row(tmp_path: Path) -> None:
    file, ledger = tmp_path / "x.parquet", tmp_path / "ledger.json"
    rows = pa.DictionaryArray.from_arrays(pa.array([0, 2]), ["a", "b", "c"])
    pq.write_table(pa.table({"k": rows}), file)
    erased = erase(file, "k", ["b"], ledger=ledger, ledger_keys="plain")
    assert (statuses(erased), erased.rows_erased) == (["written"], 0)
    assert said(ledger) == [("b", None, 0, "nowhere"), (None, "x.parquet", 0, "rewritten")]


# ---- what was refused --------------------------------------------------------------------


def with_footer_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def with_damaged_pages(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(200) + data[204:])


def with_a_second_name(path: Path) -> None:
    os.link(path, path.parent.parent / "other name")


def with_encryption(path: Path) -> None:
    path.write_bytes(encrypted(path.read_bytes(), b"k" * 16))


def without_a_parquet_name(path: Path) -> None:
    path.rename(path.with_suffix(".data"))


REFUSED = [with_footer_cut, with_damaged_pages, with_a_second_name, with_encryption, without_a_parquet_name]


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_a_folder_with_a_file_that_is_refused(tmp_path: Path, spoil: Any) -> None:
    """Key 3 is in both files, 77 in none of those that could be searched."""
    good, bad = files_of(tmp_path / "t", "a", "b")
    spoil(bad)
    (bad,) = {*(tmp_path / "t").iterdir()} - {good}
    ledger = tmp_path / "ledger.json"
    erased = erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")
    assert [row.path for row in erased.errors] == [str(bad)]
    header, rows = header_of(ledger), read_ledger(ledger).rows
    assert (header.outcome, header.proof, header.files_failed) == ("incomplete", "failed", 1)
    assert (header.keys_nowhere, header.keys_not_known, header.files_searched) == (0, 1, (str(good),))
    assert [row.rows_erased for row in rows if row.status == "erased"] == [1]
    assert [(row.file, row.status) for row in rows if row.key == "77"] == [(None, "not known")]
    (of_file,) = [row for row in rows if row.key is None]
    assert (of_file.file, of_file.status, of_file.reason) == (str(bad), "refused", erased.errors[0].error)
    assert erased.notes == ("the ledger is incomplete: 1 file may still have rows with the keys",)
    assert check_ledger(ledger, 77).key_status == "not known"
    assert check_ledger(ledger).findings == ("incomplete: 1 file may still have rows with the keys",)


def test_a_file_that_may_not_change_keeps_its_rows(tmp_path: Path) -> None:
    files = files_of(tmp_path / "t", "a", "b")
    if subprocess.run(["chattr", "+i", files[1]], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        ledger = tmp_path / "ledger.json"
        erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
        assert said(ledger) == [
            ("3", "a.parquet", 1, "erased"),
            ("3", "b.parquet", 0, "refused"),
            (None, "b.parquet", 0, "refused"),
        ]
        assert check_ledger(ledger, 3).key_status == "refused"
    finally:
        subprocess.run(["chattr", "-i", files[1]], check=True)
    assert erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain").errors == ()
    assert said(ledger) == [("3", "a.parquet", 1, "erased"), ("3", "b.parquet", 1, "erased")]


def test_a_file_whose_proof_fails_is_a_row(tmp_path: Path, monkeypatch: Any) -> None:
    files_of(tmp_path / "t", "a", "b")
    ledger = tmp_path / "ledger.json"

    def fails(search: Any) -> None:
        if search.source.path.endswith("b.parquet"):
            raise CorruptFileError("a key is still there")

    monkeypatch.setattr(verb, "require_no_key", fails)
    erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
    assert said(ledger) == [
        ("3", "a.parquet", 1, "erased"),
        ("3", "b.parquet", 1, "erased"),
        (None, "b.parquet", 0, "not proved"),
    ]
    assert header_of(ledger).outcome == "incomplete"


def test_files_that_are_not_parquet_are_noted(tmp_path: Path) -> None:
    files_of(tmp_path / "t", "a")
    (tmp_path / "t" / "readme.txt").write_text("nothing but text, and enough of it")
    ledger = tmp_path / "ledger.json"
    erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
    assert header_of(ledger).outcome == "complete"
    assert [note.rpartition("/")[2] for note in header_of(ledger).notes] == [
        "readme.txt: not searched, because it is not Parquet"
    ]


def test_an_index_that_still_tells_of_keys_is_a_row(tmp_path: Path, monkeypatch: Any) -> None:
    files_of(tmp_path / "t", "a")
    parquet_bloom.index.create(tmp_path / "t", "id")

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("read only")

    monkeypatch.setattr(verb, "purge", fails)
    ledger = tmp_path / "ledger.json"
    (stale,) = erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain").stale_indexes
    row = read_ledger(ledger).rows[-1]
    assert (row.key, row.file, row.status, row.reason) == (None, stale.path, "stale", stale.error)
    assert (header_of(ledger).outcome, header_of(ledger).proof) == ("incomplete", "passed")


@pytest.mark.parametrize("spoil", [with_footer_cut, with_damaged_pages, Path.unlink], ids=lambda spoil: spoil.__name__)
def test_a_delta_table_with_a_file_that_is_refused(tmp_path: Path, spoil: Any) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.parquet"
    lakes.delta(root, files=3)
    (bad,) = lakes.adds(root, 1)
    spoil(root / bad["path"])
    erased = erase(root, "id", [3, 25, 77], table=True, ledger=ledger, ledger_keys="plain")
    rows = {(row.key, row.status): row for row in read_ledger(ledger).rows}
    assert set(rows) == {("3", "erased"), ("25", "not known"), ("77", "not known"), (None, "refused")}
    assert rows[None, "refused"].file == str(root / bad["path"])
    assert rows[None, "refused"].held_by == (str(erased.version_after),) == ("3",)
    assert header_of(ledger).outcome == "incomplete"
    assert len(header_of(ledger).files_searched) == 2


def test_an_iceberg_table_with_a_file_that_is_refused(tmp_path: Path, catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    bad = Path(next(iter(made.scan(row_filter="id = 25").plan_files())).file.file_path.removeprefix("file://"))
    with_footer_cut(bad)
    ledger = tmp_path / "ledger.json"
    erased = erase(made, "id", [3, 25], table=True, ledger=ledger, ledger_keys="plain")
    rows = {(row.key, row.status): row for row in read_ledger(ledger).rows}
    assert set(rows) == {("3", "erased"), ("25", "not known"), (None, "refused")}
    assert rows[None, "refused"].held_by == (str(erased.version_after),)
    assert Path(str(rows[None, "refused"].file).removeprefix("file://")) == bad


def test_a_file_of_a_table_whose_proof_fails_is_a_row(tmp_path: Path, monkeypatch: Any) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=2)
    (kept,) = lakes.adds(root, 1)

    def fails(search: Any) -> None:
        if search.source.path.endswith(kept["path"]):
            raise CorruptFileError("a key is still there")

    monkeypatch.setattr("parquet_bloom.verbs.erase_table.require_no_key", fails)
    erase(root, "id", [3], table=True, ledger=ledger, ledger_keys="plain")
    assert [(key, status) for key, _, _, status in said(ledger)] == [("3", "erased"), (None, "not proved")]


# ---- runs that are killed, and repeated --------------------------------------------------

RUN = """
import os, signal, sys, parquet_bloom
from parquet_bloom.storage import local_files
from parquet_bloom.verbs import erase, erase_record, erase_table

def killed_after(module, name, calls, before=True):
    real, seen = getattr(module, name), []
    def call(*arguments, **options):
        seen.append(name)
        if before and len(seen) > calls: os.kill(os.getpid(), signal.SIGKILL)
        done = real(*arguments, **options)
        if not before and len(seen) > calls: os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(module, name, call)

exec(sys.argv[3])
table = {"table": True, "batch": 1} if os.path.isdir(sys.argv[1] + "/_delta_log") else {}
parquet_bloom.erase(sys.argv[1], "id", [3, 77], ledger=sys.argv[2], ledger_keys="plain", jobs=1, **table)
"""

KILLED_AT = {
    "the ledger, written": "killed_after(erase_record, 'write_ledger', 0, before=False)",
    "the first file": "killed_after(erase, 'erase_file', 0)",
    "the first file, replaced": "killed_after(erase, 'erase_file', 0, before=False)",
    "the second file": "killed_after(erase, 'erase_file', 1)",
    "the proof": "killed_after(erase, '_proved', 0)",
    "the last ledger": "killed_after(erase_record, 'write_ledger', 1)",
    "the last ledger, written": "killed_after(erase_record, 'write_ledger', 1, before=False)",
}


def kill(root: Path, ledger: Path, at: str) -> None:
    """Runs an erasure of 3 and 77 that is killed."""
    ran = subprocess.run([sys.executable, "-c", RUN, str(root), str(ledger), at], capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def ids_of(*files: Path) -> list[int]:
    return [one for file in files for one in pq.read_table(file)["id"].to_pylist()]


@pytest.mark.parametrize(("at", "ending"), [*((at, "json") for at in KILLED_AT), ("the second file", "parquet")])
def test_files_never_change_without_a_ledger_that_says_so(tmp_path: Path, at: str, ending: str) -> None:
    files = files_of(tmp_path / "t", "a", "b", "c")
    ledger = tmp_path / f"ledger.{ending}"
    kill(tmp_path / "t", ledger, KILLED_AT[at])
    has_changed = 3 not in ids_of(files[0])
    assert has_changed == (at not in ("the ledger, written", "the first file"))
    if at != "the ledger, written":
        assert header_of(ledger).outcome == "begun"
        names = [("3", file.name, 1, "begun") for file in files]
        assert said(ledger) == [*names, ("77", None, 0, "begun")]
        assert check_ledger(ledger, 3).key_status == "not known"
        assert "did not end" in check_ledger(ledger).findings[0]
    erased = erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")
    assert (erased.errors, 3 in ids_of(*files)) == ((), False)
    assert header_of(ledger).outcome == "complete"
    assert header_of(ledger).runs == (1 if at == "the ledger, written" else 2)
    first = {"the first file, replaced": 1, "the second file": 1, "the proof": 3}.get(at, 3 if "last" in at else 0)
    assert said(ledger) == [
        *(("3", file.name, 1, "gone") for file in files[:first]),
        *(("3", file.name, 1, "erased") for file in files[first:]),
        ("77", None, 0, "nowhere"),
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"t", ledger.name}


@pytest.mark.parametrize("path", ["t", "t/a.parquet"])
def test_a_file_that_the_killed_run_removed_is_gone(tmp_path: Path, path: str) -> None:
    """Nothing is left that the repeat could search."""
    (tmp_path / "t").mkdir()
    pq.write_table(table(1, 3), tmp_path / "t" / "a.parquet")
    ledger = tmp_path / "ledger.json"
    kill(tmp_path / path, ledger, KILLED_AT["the proof"])
    assert not (tmp_path / "t" / "a.parquet").exists()
    assert erase(tmp_path / path, "id", [3, 77], ledger=ledger, ledger_keys="plain").errors == ()
    assert said(ledger) == [("3", "a.parquet", 1, "gone"), ("77", None, 0, "nowhere")]
    assert header_of(ledger).outcome == "complete"


def test_a_file_that_somebody_else_took_away_is_not_gone(tmp_path: Path) -> None:
    files = files_of(tmp_path / "t", "a", "b")
    ledger = tmp_path / "ledger.json"
    kill(tmp_path / "t", ledger, KILLED_AT["the second file"])
    files[0].rename(tmp_path / "elsewhere")
    (lost,) = erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain").errors
    assert (lost.path, "it was not found" in lost.error) == (str(files[0]), True)
    assert said(ledger) == [
        ("3", "a.parquet", 1, "begun"),
        ("3", "b.parquet", 1, "erased"),
        ("77", None, 0, "not known"),
        (None, "a.parquet", 0, "refused"),
    ]
    assert header_of(ledger).outcome == "incomplete"
    files[1].unlink()
    with pytest.raises(FileNotFoundError):
        erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")


TABLE_KILLED_AT = {
    "the first new file": "killed_after(erase_table, 'erase_file', 0)",
    "the first commit": "killed_after(erase_table.TableErasure, '_commit', 0)",
    "the first commit, done": "killed_after(erase_table.TableErasure, '_commit', 0, before=False)",
    "the second commit": "killed_after(erase_table.TableErasure, '_commit', 1)",
    "the proof": "killed_after(erase_table.TableErasure, '_prove', 0)",
    "the last ledger": "killed_after(erase_record, 'write_ledger', 1)",
}


@pytest.mark.parametrize("at", TABLE_KILLED_AT)
def test_the_repeat_on_a_table_continues_the_ledger(tmp_path: Path, at: str) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    for _ in range(3):
        write_deltalake(str(root), table(10), mode="append")
    kill(root, ledger, TABLE_KILLED_AT[at])
    done = DeltaTable(str(root)).version() - 2
    assert header_of(ledger).outcome == "begun"
    assert [(key, rows, status) for key, _, rows, status in said(ledger)] == [
        *[("3", 1, "begun")] * 3,
        ("77", 0, "begun"),
    ]
    erased = erase(root, "id", [3, 77], table=True, ledger=ledger, ledger_keys="plain")
    assert (erased.errors, 3 in lakes.delta_rows(root)) == ((), False)
    header = header_of(ledger)
    assert (header.outcome, header.runs, header.version_before) == ("complete", 2, 2)
    assert header.version_after == erased.version_after
    assert [(key, rows, status) for key, _, rows, status in said(ledger)] == [
        *[("3", 1, "gone")] * done,
        *[("3", 1, "erased")] * (3 - done),
        ("77", 0, "nowhere"),
    ]
    assert all(row.held_by for row in read_ledger(ledger).rows if row.key == "3")


def test_a_run_that_fails_says_what_it_has_committed(tmp_path: Path, monkeypatch: Any) -> None:
    """Of three commits the second fails."""
    from parquet_bloom.verbs.erase_table import TableErasure

    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    for _ in range(3):
        write_deltalake(str(root), table(10), mode="append")
    commit, seen = TableErasure._commit, []

    def fails(self: Any, erasures: Any) -> None:
        seen.append(erasures)
        if len(seen) == 2:
            raise ConcurrentChangeError("others are quicker")
        commit(self, erasures)

    with monkeypatch.context() as patched:
        patched.setattr(TableErasure, "_commit", fails)
        with pytest.raises(ConcurrentChangeError):
            erase(root, "id", [3], table=True, batch=1, ledger=ledger, ledger_keys="plain")
    assert header_of(ledger).outcome == "begun"
    assert sorted(status for *_, status in said(ledger)) == ["begun", "begun", "erased"]
    erase(root, "id", [3], table=True, ledger=ledger, ledger_keys="plain")
    assert [status for *_, status in said(ledger)] == ["erased"] * 3


def test_what_a_file_had_that_is_refused_now_stays_unknown(tmp_path: Path) -> None:
    files = files_of(tmp_path / "t", "a", "b")
    ledger = tmp_path / "ledger.json"
    kill(tmp_path / "t", ledger, KILLED_AT["the first file"])
    with_footer_cut(files[1])
    erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")
    assert said(ledger) == [
        ("3", "b.parquet", 1, "begun"),
        ("3", "a.parquet", 1, "erased"),
        ("77", None, 0, "not known"),
        (None, "b.parquet", 0, "refused"),
    ]


@pytest.mark.parametrize(
    ("other", "said_of_it"),
    [
        ({"column": "name", "keys": ["3", "77"]}, "another column"),
        ({"keys": [3, 78]}, "another keys"),
        ({"keys": [3]}, "another keys"),
        ({"paths": "t/a.parquet"}, "another paths"),
        ({"timezone": "UTC"}, "another timezone"),
        ({"ledger_keys": "hmac", "ledger_secret": SECRET}, "another kind of keys"),
    ],
)
def test_a_ledger_of_another_erasure_is_not_continued(
    tmp_path: Path, monkeypatch: Any, other: dict[str, Any], said_of_it: str
) -> None:
    monkeypatch.chdir(tmp_path)
    files = files_of(tmp_path / "t", "a", "b")
    ledger = tmp_path / "ledger.json"
    kill(tmp_path / "t", ledger, KILLED_AT["the first file"])
    before = {path: path.read_bytes() for path in (ledger, *files)}
    options = {"paths": "t", "column": "id", "keys": [3, 77], "ledger": ledger, "ledger_keys": "plain"} | other
    with pytest.raises(ValueError, match=said_of_it if "hmac" not in other.values() else "secret|kind of keys"):
        erase(**options)
    assert {path: path.read_bytes() for path in (ledger, *files)} == before


def test_a_ledger_is_continued_with_its_own_secret_and_request_and_if_nobody_changed_it(tmp_path: Path) -> None:
    bad = files_of(tmp_path / "t", "a", "b")[1]
    whole = bad.read_bytes()
    with_footer_cut(bad)
    ledger = tmp_path / "ledger.json"

    def run(secret: bytes = SECRET, request: str | None = None) -> parquet_bloom.Erased:
        return erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_secret=secret, request=request)

    run(request="R-1")
    bad.write_bytes(whole)
    with pytest.raises(ValueError, match="written with another secret"):
        run(b"another secret of bytes")
    with pytest.raises(ValueError, match="another request"):
        run(request="R-2")
    was = ledger.read_text()
    ledger.write_text(was.replace('"rows_erased": 1', '"rows_erased": 2'))
    with pytest.raises(ValueError, match="was changed after it was written"):
        run()
    assert 3 in ids_of(bad)
    ledger.write_text(was)
    assert run().errors == ()
    assert header_of(ledger).request == "R-1"
    assert [row.status for row in read_ledger(ledger).rows] == ["erased", "erased"]
    with pytest.raises(FileExistsError, match="already exists"):
        run()


def test_a_refused_file_that_is_no_longer_there_is_noted(tmp_path: Path) -> None:
    bad = files_of(tmp_path / "t", "a", "b")[1]
    with_footer_cut(bad)
    ledger = tmp_path / "ledger.json"
    erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
    bad.unlink()
    erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
    (note,) = header_of(ledger).notes
    assert note.startswith(f"{bad}: refused by an earlier run (")


def test_a_key_that_is_given_twice_is_there_once(tmp_path: Path) -> None:
    files_of(tmp_path / "t", "a")
    ledger = tmp_path / "ledger.json"
    erase(tmp_path / "t", "id", [3, 77, 3, 77], ledger=ledger, ledger_keys="plain")
    assert said(ledger) == [("3", "a.parquet", 1, "erased"), ("77", None, 0, "nowhere")]
    assert header_of(ledger).num_keys == 2


def test_two_runs_do_not_write_one_ledger(tmp_path: Path, monkeypatch: Any) -> None:
    files_of(tmp_path / "t", "a")
    ledger = tmp_path / "ledger.json"
    begin = Recording.begin

    def meanwhile(record: Recording, *intended: Any) -> None:
        begin(record, *intended)
        if any(intended):
            with pytest.raises(ConcurrentChangeError, match="another run is writing"):
                erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")

    monkeypatch.setattr(Recording, "begin", meanwhile)
    erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_keys="plain")
    assert header_of(ledger).outcome == "complete"


def test_a_ledger_that_cannot_be_written_stops_the_run_before_anything_changes(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (file,) = files_of(tmp_path / "t", "a")
    before = file.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parquet_bloom.verbs.erase_record.write_ledger", full)
    with pytest.raises(OSError, match="No space left"):
        erase(tmp_path / "t", "id", [3], ledger=tmp_path / "ledger.json", ledger_keys="plain")
    assert file.read_bytes() == before


# ---- who may read it ---------------------------------------------------------------------


@pytest.fixture
def usual_umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.mark.parametrize(
    ("modes", "umask", "mode"),
    [
        ((0o600, 0o644), 0o022, 0o600),
        ((0o640, 0o644), 0o022, 0o640),
        ((0o644, 0o644), 0o022, 0o644),
        ((0o666, 0o644), 0o077, 0o600),
        ((0o666, 0o666), 0o022, 0o644),
    ],
)
@pytest.mark.parametrize("name", ["ledger.json", "ledger.parquet"])
@pytest.mark.usefixtures("usual_umask")
def test_a_ledger_is_as_private_as_its_files(
    tmp_path: Path, modes: tuple[int, int], umask: int, mode: int, name: str
) -> None:
    files = files_of(tmp_path / "t", "a", "b")
    for file, each in zip(files, modes, strict=True):
        file.chmod(each)
    os.umask(umask)
    seen = []
    begin = Recording.begin

    def look(record: Recording, *intended: Any) -> None:
        begin(record, *intended)
        seen.append(record.path.stat().st_mode & 0o777)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Recording, "begin", look)
        erase(tmp_path / "t", "id", list(range(10)), ledger=tmp_path / name, ledger_keys="plain")
    assert [*seen, (tmp_path / name).stat().st_mode & 0o777] == [mode, mode]


@pytest.mark.usefixtures("usual_umask")
def test_a_ledger_is_as_private_as_a_file_of_keys_and_as_the_ledger_that_it_continues(tmp_path: Path) -> None:
    files_of(tmp_path / "t", "a")
    keys, ledger = tmp_path / "keys.txt", tmp_path / "ledger.json"
    keys.write_text("3\n77\n")
    keys.chmod(0o640)
    erase(tmp_path / "t", "id", keys, ledger=ledger, ledger_keys="plain")
    assert ledger.stat().st_mode & 0o777 == 0o640
    ledger.unlink()
    files_of(tmp_path / "t", "a")
    kill(tmp_path / "t", ledger, KILLED_AT["the first file"])
    assert ledger.stat().st_mode & 0o777 == 0o644
    ledger.chmod(0o600)
    erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")
    assert ledger.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("usual_umask")
def test_the_ledger_of_a_table_is_as_private_as_its_live_files(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=2)
    (add,) = lakes.adds(root, 1)
    (root / add["path"]).chmod(0o600)
    erase(root, "id", [3], table=True, ledger=ledger, ledger_keys="plain")
    assert ledger.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root may give a file to another group")
@pytest.mark.usefixtures("usual_umask")
def test_a_group_that_may_not_read_a_file_may_not_read_the_ledger(tmp_path: Path) -> None:
    files = files_of(tmp_path / "t", "a", "b")
    for group, file in enumerate(files, 1000):
        os.chown(file, -1, group)
        file.chmod(0o640)
    erase(tmp_path / "t", "id", [3], ledger=tmp_path / "ledger.json", ledger_keys="plain")
    assert (tmp_path / "ledger.json").stat().st_mode & 0o777 == 0o600


# ---- checking ----------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A ledger of a table in which every field of the header has a value, and of keys with every kind of row."""
    root, ledger = tmp_path / "t", tmp_path / "ledger.json"
    lakes.delta(root, files=3)
    (bad,) = lakes.adds(root, 1)
    (root / bad["path"]).unlink()
    erase(root, "id", [3, 77], table=True, timezone="UTC", ledger=ledger, ledger_secret=SECRET, request="R-1")
    return ledger


def changed(value: Any) -> Any:
    """Returns another value of the same type, and something for None."""
    match value:
        case None:
            return 1
        case bool() | int():
            return value + 1
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
        case list():
            return [*value, "more"]
    raise AssertionError(value)


def tampered(ledger: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a ledger with one field changed, emptied, or gone, for each field; with rows less, more, and elsewhere."""
    places = [(name,) for name in ledger if name != "rows"]
    places += [("rows", at, name) for at, row in enumerate(ledger["rows"]) for name in row]
    for place in places:
        for way in ("changed", "emptied", "gone"):
            copied = copy.deepcopy(ledger)
            inside: Any = copied
            for step in place[:-1]:
                inside = inside[step]
            if way == "gone":
                del inside[place[-1]]
            elif way == "emptied" and inside[place[-1]] is None:
                continue
            else:
                inside[place[-1]] = None if way == "emptied" else changed(inside[place[-1]])
            yield f"{place} {way}", copied
    rows = ledger["rows"]
    for name, others in {"less": rows[1:], "more": [*rows, rows[0]], "elsewhere": rows[::-1], "none": []}.items():
        yield name, {**ledger, "rows": others}
    yield "with another field", {**ledger, "remark": "all is well"}


def test_whatever_is_changed_in_a_ledger_is_found(written: Path) -> None:
    ledger = json.loads(written.read_text())
    assert check_ledger(written, ledger_secret=SECRET).findings == (
        "incomplete: 1 file may still have rows with the keys",
    )
    ways = 0
    for name, other in tampered(ledger):
        ways += 1
        written.write_text(json.dumps(other))
        try:
            checked = check_ledger(written, ledger_secret=SECRET)
        except CorruptFileError:
            continue
        assert checked.header is None, name
        assert checked.findings, name
        assert checked.rows == () or "no digest" in checked.findings[0], name
        again = check_ledger(written, 3, ledger_secret=SECRET) if checked.rows == () else checked
        assert again.key_status is None, name
    assert ways > 150


def test_a_name_that_is_there_twice_is_found(written: Path) -> None:
    """Programs take the last one, and people read the first."""
    written.write_text(written.read_text().replace('"rows_erased": 1', '"rows_erased": 0, "rows_erased": 1', 1))
    with pytest.raises(CorruptFileError, match="is not a ledger, or is damaged"):
        check_ledger(written)


def test_somebody_without_the_secret_cannot_write_another_ledger(written: Path) -> None:
    ledger = json.loads(written.read_text())
    ledger["rows"][0]["rows_erased"] = 7
    del ledger["digest"], ledger["seal"]
    digest = hashlib.sha256(json.dumps(ledger, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    for seal in (None, "hmac-sha256:" + "0" * 64):
        written.write_text(json.dumps({**ledger, "digest": f"sha256:{digest}", "seal": seal}))
        (found,) = check_ledger(written, ledger_secret=SECRET).findings
        assert "changed by somebody without that" in found
    assert check_ledger(written).notes[0] == "the seal was not checked: that needs the secret"


def test_a_changed_parquet_ledger_is_found(tmp_path: Path) -> None:
    files_of(tmp_path / "t", "a")
    ledger = tmp_path / "ledger.parquet"
    erase(tmp_path / "t", "id", [3, 77], ledger=ledger, ledger_keys="plain")
    assert check_ledger(ledger).findings == ()
    rows = pq.read_table(ledger)
    (name,) = rows.schema.metadata
    metadata = rows.schema.metadata[name].decode()
    assert "R-9" not in metadata
    others = [
        rows.set_column(2, "rows_erased", pa.array([2, 0])),
        rows.slice(1),
        rows.replace_schema_metadata({name: metadata.replace('"column": "id"', '"column": "name"')}),
        rows.replace_schema_metadata({name: metadata.replace('"request": null', '"request": "R-9"')}),
    ]
    for other in others:
        assert not other.equals(rows, check_metadata=True)
        pq.write_table(other, ledger)
        (found,) = check_ledger(ledger).findings
        assert "it was changed after it was written" in found


@pytest.mark.parametrize("key", ["3", 3])
def test_what_became_of_a_key(written: Path, key: Any) -> None:
    checked = check_ledger(written, key, ledger_secret=SECRET)
    assert (checked.key_status, [row.status for row in checked]) == ("erased", ["erased", "refused"])
    assert check_ledger(written, 77, ledger_secret=SECRET).key_status == "not known"
    other = check_ledger(written, 78, ledger_secret=SECRET)
    assert (other.key_status, other.findings[-1]) == ("not in the ledger", "the key is not in the ledger")


def test_another_secret_does_not_say_that_a_key_is_not_there(written: Path, monkeypatch: Any) -> None:
    checked = check_ledger(written, 3, ledger_secret=b"another secret of bytes")
    assert (checked.key_status, checked.rows) == (None, ())
    assert "the secret is not the one it was written with" in checked.findings[0]
    monkeypatch.delenv("PARQUET_BLOOM_LEDGER_SECRET", raising=False)
    with pytest.raises(ValueError, match="a ledger needs ledger_secret="):
        check_ledger(written, 3)


def test_keys_that_are_bytes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [b"\x00\xff", b"x"]}), tmp_path / "a.parquet")
    ledger = tmp_path / "ledger.json"
    erase(tmp_path / "a.parquet", "k", [b"\x00\xff"], ledger=ledger, ledger_secret=SECRET)
    for key in (b"\x00\xff", "0x00ff", "0x00FF"):
        assert check_ledger(ledger, key, ledger_secret=SECRET).key_status == "erased"


OLD_ROW = {
    "rows_erased": 1,
    "version_before": None,
    "version_after": None,
    "time": "2026-01-01T00:00:00.000+00:00",
    "held_by": [],
    "expire_with": None,
    "where": None,
}
"""As the first versions wrote them."""


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_ledger_of_an_older_version_is_read(tmp_path: Path, ending: str) -> None:
    rows = [
        {"key": hashed(3), "file": "t/a.parquet", **OLD_ROW},
        {"key": hashed(77), "file": None, **OLD_ROW, "rows_erased": 0},
    ]
    ledger = tmp_path / f"ledger.{ending}"
    if ending == "json":
        ledger.write_text(json.dumps({"schema_version": 1, "rows": rows}))
    else:
        pq.write_table(pa.Table.from_pylist(rows), ledger)
    checked = check_ledger(ledger, 3, ledger_secret=SECRET)
    assert (checked.key_status, checked.header, len(checked)) == ("erased", None, 1)
    assert checked.findings == ("no digest: it was written by an older version, or the digest was taken out",)
    assert check_ledger(ledger, 77, ledger_secret=SECRET).key_status == "nowhere"
    files_of(tmp_path / "t", "a")
    with pytest.raises(FileExistsError, match="already exists"):
        erase(tmp_path / "t", "id", [3], ledger=ledger, ledger_secret=SECRET)


NUMBER = b'{"rows": [{"key": "a", "file": null, "rows_erased": 123456789012345678901234567890}]}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"[1]",
        b"7",
        b'{"rows": 3}',
        b'{"rows": [{}]}',
        b'{"rows": [{"key": "a", "file": null, "rows_erased": 1e999}]}',
        NUMBER,
        b"\xff",
        b"[" * 9999,
    ],
)
@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_what_is_no_ledger(tmp_path: Path, data: bytes, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="is not a ledger"):
        check_ledger(path)
    rows = {"key": ["a"], "file": ["b"], "rows_erased": [1], "more": pa.array([1], pa.timestamp("us"))}
    pq.write_table(pa.table(rows), tmp_path / "y.parquet")
    with pytest.raises(CorruptFileError, match="is not a ledger"):
        check_ledger(tmp_path / "y.parquet")


def test_a_ledger_on_the_command_line(tmp_path: Path) -> None:
    root, keys, ledger = tmp_path / "t", tmp_path / "keys.txt", tmp_path / "ledger.json"
    lakes.delta(root, files=2)
    keys.write_text("7\n99\n")

    def run(*arguments: object, secret: bytes = SECRET) -> tuple[int, str]:
        ran = CliRunner().invoke(main, [*map(str, arguments)], env={"PARQUET_BLOOM_LEDGER_SECRET": secret.decode()})
        return ran.exit_code, ran.output

    line = ("erase", root, "--table", "-c", "id", "-k", keys, "--yes", "--ledger", ledger, "--request", "R-5")
    code, output = run(*line)
    assert code == 0
    assert f"ledger written: {ledger}\n" in output
    assert f"versions 0-1 still hold the rows until VACUUM delta.`{root}`\n" in output
    code, output = run("ledger", "check", ledger)
    assert (code, "request R-5" in output, "2 keys, 1 in no file" in output) == (0, True, True)
    assert run("ledger", "check", ledger, "--key", 7)[0] == run("ledger", "check", ledger, "--key", 99)[0] == 0
    assert "the key: erased" in run("ledger", "check", ledger, "--key", 7)[1]
    assert "the key: nowhere" in run("ledger", "check", ledger, "--key", 99)[1]
    assert run("ledger", "check", ledger, "--key", 8)[0] == 1
    assert run("ledger", "check", ledger, secret=b"another secret of bytes")[0] == 1
    ledger.write_text(ledger.read_text().replace("R-5", "R-6"))
    code, output = run("ledger", "check", ledger)
    assert (code, "it was changed after it was written" in output, "R-6" in output) == (1, True, False)
    assert run("ledger", "check", keys)[0] == 2


def test_without_a_ledger_the_command_names_the_version_that_still_has_the_rows(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=2)
    erased = erase(tmp_path / "t", "id", [3], table=True)
    assert erased.notes[-1] == f"version 1 still holds the rows until VACUUM delta.`{tmp_path / 't'}`"
    assert erase(tmp_path / "t", "id", [3], table=True).notes == ()
