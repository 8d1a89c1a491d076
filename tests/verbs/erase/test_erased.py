"""What is left of erased keys: found in every file and form, as a search of our own of all decoded bytes finds it."""

from __future__ import annotations

import base64
import gzip
import io
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from files import FIXTURES, footer_bytes

import parquet_bloom
from parquet_bloom import ColumnNotFoundError, LiteralError, UnsupportedError, erase, erase_plan, erased, index
from parquet_bloom.cli.commands import main
from parquet_bloom.tables import iceberg_replace

EARLIER = "manifest of an earlier version"
SECRET = b"sixteen bytes at least"


def email(number: int) -> str:
    return f"p{number:04}.of.a-long-name@example.org"


def people(first: int, count: int = 20) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array([10**12 + 7919 * n for n in numbers], pa.int64()),
            "email": [email(n) for n in numbers],
            "n": pa.array([n % 7 for n in numbers], pa.int32()),
        }
    )


# ---- the search to compare with ----------------------------------------------------------


def decoded(path: Path) -> Iterator[str]:
    """Yields all that a file has as text, by other readers."""
    data = path.read_bytes()
    yield data.decode("latin-1")
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data).decode("latin-1")
    if data[:4] == b"PAR1":
        with pq.ParquetFile(io.BytesIO(data)) as file:
            for name in file.read().to_pylist():
                yield str(name)
            yield str(file.metadata.to_dict())
            dictionaries = pq.read_table(io.BytesIO(data), read_dictionary=["email"])
            yield str(dictionaries.schema.names)
    if data[:4] == b"Obj\x01":
        for record in fastavro.reader(io.BytesIO(data)):
            yield str(record)


def files_with(folder: Path, key: str) -> set[str]:
    """Returns the files that have a key of text, or the beginning of it that is 16 characters long."""
    return {
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(key[:16] in urllib.parse.unquote(text) for text in decoded(path))
    }


def paths(traces: Any) -> set[str]:
    return {row.path for row in traces}


# ---- tables ------------------------------------------------------------------------------


def test_a_delta_table_from_the_first_day_to_the_last(tmp_path: Path) -> None:
    root, key = tmp_path / "t", email(25)
    quick = {"delta.logRetentionDuration": "interval 0 days", "delta.deletedFileRetentionDuration": "interval 0 days"}
    for first in (0, 20, 40):
        write_deltalake(str(root), people(first), mode="append", configuration=quick if first == 0 else None)
    DeltaTable(str(root)).create_checkpoint()
    index.create(root, "email")
    assert {row.place for row in erased(root, "email", [key])} == {"live file"}
    assert paths(erased(root, "email", [key])) == files_with(root, key)

    for number in (20, 25, 39):  # the bounds, too
        erase(root, "email", [email(number)], table=True)
    keys = [email(20), email(25), email(39)]
    left = erased(root, "email", keys)
    assert {row.place for row in left} == {"version 2", "version 3", "version 4", "log", "checkpoint"}
    assert paths(left) == set.union(*(files_with(root, one) for one in keys))
    assert {row.remove_with.split()[0] for row in left} == {"VACUUM", "ALTER"}

    table = DeltaTable(str(root))
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    left = erased(root, "email", keys)
    assert {row.place for row in left} == {"log", "checkpoint"}
    assert paths(left) == set.union(*(files_with(root, one) for one in keys))
    table.create_checkpoint()
    table.cleanup_metadata()
    left = erased(root, "email", keys)
    assert left.is_nowhere, [*left, *left.errors]
    assert not set.union(*(files_with(root, one) for one in keys))


def expire(made: Any) -> None:
    """Removes earlier snapshots with their files, as Spark's expire_snapshots does."""
    made.refresh()
    current = made.current_snapshot()
    with made.transaction() as transaction:
        from pyiceberg.table.update import RemoveSnapshotsUpdate

        old = [each.snapshot_id for each in made.snapshots() if each.snapshot_id != current.snapshot_id]
        transaction._apply((RemoveSnapshotsUpdate(snapshot_ids=old),))
    made.refresh()
    kept = {current.manifest_list} | {manifest.manifest_path for manifest in current.manifests(made.io)}
    kept |= {task.file.file_path for task in made.scan().plan_files()}
    for path in Path(made.location().removeprefix("file://")).rglob("*"):
        if path.is_file() and f"file://{path}" not in kept and not path.name.endswith(".metadata.json"):
            path.unlink()


def people_in(catalog: Any, files: int = 3, **properties: str) -> tuple[Any, Path]:
    made = catalog.create_table("n.people", people(0).schema, properties=properties)
    for number in range(files):
        made.append(people(20 * number))
    return made, Path(made.location().removeprefix("file://"))


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_an_iceberg_table_from_the_first_day_to_the_last(catalog: Any, compression: str) -> None:
    made, root = people_in(catalog, **{"write.metadata.compression-codec": compression})
    keys = [email(20), email(25), email(39)]
    assert {row.place for row in erased(made, "email", keys)} == {"live file", "manifest"}
    erase(made, "email", keys, table=True)
    left = erased(made, "email", keys)
    assert {row.place.rstrip("0123456789") for row in left} == {"version ", EARLIER}
    assert paths(left) == set.union(*(files_with(root, one) for one in keys))
    assert all("expire_snapshots" in row.remove_with for row in left)
    expire(made)
    left = erased(made, "email", keys)
    assert left.is_nowhere, [*left, *left.errors]
    assert not set.union(*(files_with(root, one) for one in keys))


def test_bounds_that_manifests_keep_of_replaced_files_are_found(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What our own commits wrote before, and other engines write."""
    monkeypatch.setattr(iceberg_replace, "_without_bounds", lambda entry: entry)
    made, root = people_in(catalog)
    erase(made, "email", [email(20)], table=True)
    expire(made)
    (row,) = erased(made, "email", [email(20)])
    assert (row.place, row.found) == ("manifest", "data_file.lower_bounds, cut from a key")
    assert "rewrite_manifests" in row.remove_with
    assert paths([row]) == files_with(root, email(20))
    number = 10**12 + 7919 * 59
    erase(made, "id", [number], table=True)
    expire(made)
    assert [(row.place, row.found) for row in erased(made, "id", [number])] == [("manifest", "data_file.upper_bounds")]
    erase(made, "n", [100], table=True)
    assert erased(made, "email", [email(20)]).is_nowhere  # the manifest was written again


def counts(traces: Any) -> set[tuple[str, str, int]]:
    """Returns how many keys are in which files, but for bounds."""
    found = {(Path(row.path).name, row.found, row.num_keys) for row in traces}
    return {each for each in found if not each[1].startswith("bounds")}


def test_many_keys_and_threads(tmp_path: Path) -> None:
    """More needles than are looked for one by one."""
    root = tmp_path / "t"
    root.mkdir()
    keys = [email(number) for number in range(500, 900)]
    for number in range(8):
        pq.write_table(people(100 * number, 100), root / f"{number}.parquet")
        (root / f"{number}.txt").write_text(" ".join(email(n) for n in range(100 * number, 100 * number + 3)))
    left = erased(root, "email", keys, jobs=4)
    assert counts(left) == {
        *((f"{number}.parquet", "values of email", 100) for number in (5, 6, 7)),
        *((f"{number}.txt", "text", 3) for number in (5, 6, 7)),
    }
    texts = [people(0)["id"][at].as_py() for at in range(20)]
    (root / "ids.csv").write_text("\n".join(map(str, texts)))
    left = erased(root, "id", texts, jobs=4)
    assert counts(left) == {
        ("0.parquet", "values of id", 20),
        ("ids.csv", "text", 20),
    }


# ---- places and forms --------------------------------------------------------------------


def test_keys_in_every_form_are_found_in_the_files_of_other_programs(tmp_path: Path) -> None:
    root, key = tmp_path / "t", "ÿ/alice&bob@example.org"
    root.mkdir()
    pq.write_table(people(0), root / "a.parquet")
    assert erased(root, "email", [key]).is_nowhere
    forms = {
        "plain.csv": f"1,{key},2".encode(),
        "escaped.json": json.dumps({"a": [{"b": key}]}).encode(),
        "nested.json": json.dumps({"stats": json.dumps({"c": key})}).encode(),
        "quoted.txt": urllib.parse.quote(key, safe="").encode(),
        "twice.txt": urllib.parse.quote(urllib.parse.quote(key, safe="")).encode(),
        "base64.txt": base64.b64encode(b"ab" + key.encode() + b"c"),
        "url.txt": base64.urlsafe_b64encode(b"b" + key.encode() + b"cd"),
        "hex.txt": key.encode().hex().encode(),
        "packed.csv.gz": gzip.compress(key.encode()),
        "lines.json": b'{"a": 1}\n' + json.dumps({key: 1}).encode(),
        f"{urllib.parse.quote(key, safe='')}": b"in the name",
        ".hidden": key.encode(),
        "_SUCCESS": key.encode(),
    }
    for name, data in forms.items():
        (root / name).write_bytes(data)
    (root / "empty").touch()
    left = erased(root, "email", [key])
    assert paths(left) == {str(root / name) for name in forms}
    assert not left.errors
    assert {row.num_keys for row in left} == {1}


def test_files_that_are_not_understood_are_named_and_then_the_answer_is_not_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    pq.write_table(people(0), root / "a.parquet")
    (root / "unknown.bin").write_bytes(bytes(range(256)))
    (root / "archive.zip").write_bytes(b"PK\x03\x04" + bytes(40))
    (root / "damaged.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (root / "damaged.gz").write_bytes(gzip.compress(b"a" * 1000)[:20])
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "orc").write_bytes(b"ORC" + email(3).encode() + bytes(9))
    left = erased(root, "email", [email(900)])
    named = {"unknown.bin", "archive.zip", "damaged.parquet", "damaged.gz", "link", "orc"}
    assert ({Path(error.path).name for error in left.errors}, len(left), left.is_nowhere) == (named, 0, False)
    assert [(row.found, Path(row.path).name) for row in erased(root, "email", [email(3)])] == [
        ("values of email", "a.parquet"),
        ("bytes", "orc"),
    ]


def test_a_key_that_the_column_cannot_hold_is_an_error(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    with pytest.raises(LiteralError, match="id"):
        erased(tmp_path / "t", "id", ["no number"])
    with pytest.raises(LiteralError, match="NULL"):
        erased(tmp_path / "t", "id", [None])
    with pytest.raises(ValueError, match="give either keys, or the ledger"):
        erased(tmp_path / "t", "id")
    with pytest.raises(FileNotFoundError):
        erased(tmp_path / "nothing", "id", [1])


def test_a_column_that_no_file_has(tmp_path: Path) -> None:
    """Its keys may be anywhere as text, and a misspelled column must not answer that nothing is left."""
    lakes.delta(tmp_path / "t", files=1)
    with pytest.raises(ColumnNotFoundError, match="idd"):
        erased(tmp_path / "t", "idd", [3])


def test_a_partition_column(tmp_path: Path) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "who": ["a b", "c", None]})
    write_deltalake(str(root), rows, partition_by=["who"])
    left = erased(root, "who", ["a b"])
    assert {(row.place, row.found) for row in left} == {("live file", "its path"), ("log", "add.partitionValues.who")}
    assert erased(root, "who", ["d"]).is_nowhere


def test_a_table_without_rows_has_nothing(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(str(root), people(0), configuration={"delta.logRetentionDuration": "interval 0 days"})
    erase(root, "email", [email(n) for n in range(20)], table=True)
    table = DeltaTable(str(root))
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    table.cleanup_metadata()
    assert erased(root, "email", [email(3)]).is_nowhere


def test_a_longer_key_is_another_one(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    names = [f"user-{n}" for n in range(100, 120)]
    pq.write_table(pa.table({"name": names, "other": names}), root / "a.parquet", compression="none")
    (root / "a.csv").write_text("\n".join(names))
    assert erased(root, "name", ["user-1", "user-11"]).is_nowhere
    assert {row.found for row in erased(root, "name", ["user-110"])} == {"values of name", "values of other", "text"}


def test_short_keys_are_compared_with_values_of_the_column(tmp_path: Path) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=2)
    erase(root, "id", [39], table=True)
    (root / "notes.txt").write_text("139 393 3.39 x39\n")
    left = erased(root, "id", [39])
    assert {(row.place, row.found) for row in left} == {
        ("version 1", "values of id"),
        ("version 1", "bounds of id, in the footer"),
        ("version 1", "bounds of id, in the page index"),
        ("log", "add.stats.maxValues"),
    }
    assert len(left.notes) == 1
    (root / "notes.txt").write_text("row 39 went\n")
    assert str(root / "notes.txt") in paths(erased(root, "id", [39]))


def test_a_dictionary_that_no_row_uses(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int32()), [email(1), email(2), email(3)])
    pq.write_table(pa.table({"email": column}), root / "a.parquet", row_group_size=50)
    left = erased(root, "email", [email(3)])
    assert [row.found for row in left] == ["entries of the dictionary of email that no row uses"]
    assert [row.remove_with for row in left] == [f"parquet-bloom erase {root / 'a.parquet'}"]


def test_bytes_that_no_footer_points_to_and_earlier_footers(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    path = root / "a.parquet"
    pq.write_table(people(0), path, write_page_index=True)
    parquet_bloom.add(path, "email")
    parquet_bloom.drop(path)
    left = erased(root, "email", [email(0)])
    assert not left.errors
    assert "bounds of email, in the earlier footer" in {row.found for row in left}
    assert erased(root, "email", [email(900)]).is_nowhere

    whole = path.read_bytes()
    path.write_bytes(whole[:4] + email(900).encode() + whole[4:])
    moved = erased(root, "email", [email(900)])
    assert moved.errors
    assert not moved.is_nowhere


def test_a_key_behind_the_pages_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(people(0), path)
    whole = path.read_bytes()
    start = len(whole) - 8 - len(footer_bytes(whole))
    path.write_bytes(whole[:start] + email(900).encode() + whole[start:])
    assert {row.found for row in erased(tmp_path, "email", [email(900)])} == {"bytes that no footer points to"}


def test_an_encrypted_file_may_have_every_key(tmp_path: Path) -> None:
    pq.write_table(people(0), tmp_path / "a.parquet")
    assert erased(tmp_path, "email", [email(900)]).is_nowhere
    (tmp_path / "b.parquet").write_bytes(b"PARE" + bytes(100) + b"PARE")
    left = erased(tmp_path, "email", [email(900)])
    assert not left.is_nowhere
    assert [error.error for error in left.errors] == ["it is encrypted"]


def test_the_pages_of_a_key_column_in_another_codec(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    for codec in ("snappy", "zstd", "gzip", "brotli", "lz4", "none"):
        for version in ("1.0", "2.0"):
            path = root / f"{codec}-{version}.parquet"
            pq.write_table(
                people(0), path, compression=codec, data_page_version=version, use_dictionary=codec != "gzip"
            )
    left = erased(root, "id", [10**12 + 7919 * 5])
    assert len(paths(left)) == 12
    assert {row.found for row in left} == {"values of id"}


def test_bounds_of_a_column_that_was_renamed_and_promoted(catalog: Any) -> None:
    made = catalog.create_table("n.small", pa.schema([("n", pa.int32()), ("s", pa.string())]))
    made.append(pa.table({"n": pa.array([5, 7], pa.int32()), "s": ["a", "b"]}))
    with made.update_schema() as update:
        update.rename_column("n", "m")
    with made.update_schema() as update:
        from pyiceberg.types import LongType

        update.update_column("m", LongType())
    left = erased(made, "m", [7])
    assert {(row.place, row.found) for row in left} == {
        ("live file", "values of n"),
        ("live file", "bounds of n, in the footer"),
        ("live file", "bounds of n, in the header of a page"),
        ("manifest", "data_file.upper_bounds"),
    }


def test_conditions_of_commits(tmp_path: Path) -> None:
    """As Spark writes them: a number has a letter behind it."""
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    predicate = json.dumps(["(id#12L IN (33L,1099511628166L))"])
    lakes.log(root, 1, {"commitInfo": {"operation": "DELETE", "operationParameters": {"predicate": predicate}}})
    for key in (33, 1099511628166):
        left = erased(root, "id", [key])
        assert [(row.place, row.found) for row in left] == [("log", "commitInfo.operationParameters.predicate")]
    assert erased(root, "id", [12345678]).is_nowhere
    assert erased(root, "id", [32]).is_nowhere
    (root / "other.json").write_text('{"person": 32, "n": 320}')
    assert [row.found for row in erased(root, "id", [32])] == ["text"]
    assert erased(root, "id", [3201234]).is_nowhere


ENGINES = ("polars", "clickhouse", "duckdb", "pyarrow", "spark", "datafusion")
UNREAD = {"pyarrow/encrypted_footer.parquet", "pyarrow/signed_footer.parquet", "duckdb/plain_types.parquet"}
"""Fixtures that are encrypted, or that pyarrow does not decode."""


@pytest.mark.parametrize("engine", [name for name in ENGINES if (FIXTURES / name).is_dir()])
def test_files_of_other_engines_are_searched_to_the_last_byte(engine: str) -> None:
    for path in sorted((FIXTURES / engine).glob("*.parquet")):
        is_encrypted = path.name == "encrypted_footer.parquet"
        if not is_encrypted and not len(pq.ParquetFile(path).schema):
            continue
        column = "id" if is_encrypted else pq.ParquetFile(path).schema.column(0).path
        key = "no-such-key-anywhere"
        try:
            left = erased(path, column, [key])
        except LiteralError:
            left = erased(path, column, [10**8 + 7])
        assert not left.rows
        assert bool(left.errors) == (f"{engine}/{path.name}" in UNREAD), (path, left.errors)


def test_copies_of_metadata_behind_the_pages(tmp_path: Path) -> None:
    """Polars writes them, with bounds."""
    path = FIXTURES / "polars" / "snappy.parquet"
    greatest = pq.read_table(path)["id"].to_pylist()
    left = erased(path, "id", [max(greatest)])
    assert "bounds of id, in the metadata behind its pages" in {row.found for row in left}
    assert not left.errors


# ---- ledgers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["l.json", "l.parquet"])
def test_a_ledger_with_hashed_keys(tmp_path: Path, name: str) -> None:
    root, ledger = tmp_path / "t", tmp_path / name
    for first in (0, 20):
        write_deltalake(str(root), people(first), mode="append")
    erase(root, "email", [email(5), email(25)], table=True, ledger=ledger, ledger_secret=SECRET)
    left = erased(root, "email", ledger=ledger, ledger_secret=SECRET)
    in_clear = erased(root, "email", [email(5), email(25)])
    assert {(row.path, row.found, row.num_keys) for row in left if row.place.startswith("version")} == {
        (row.path, row.found, row.num_keys) for row in in_clear if row.place.startswith("version")
    }
    assert not {key for row in left for key in row.keys} & {email(5), email(25)}
    DeltaTable(str(root)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert erased(root, "email", ledger=ledger, ledger_secret=SECRET).is_nowhere
    (root / "a.txt").write_text("text")
    assert [error.error for error in erased(root, "email", ledger=ledger, ledger_secret=SECRET).errors] == [
        "hashed keys cannot be searched for in text; give the keys"
    ]
    with pytest.raises(ValueError, match="secret"):
        erased(root, "email", ledger=ledger)


def test_a_ledger_with_plain_keys_and_types(tmp_path: Path) -> None:
    root, ledger = tmp_path / "t", tmp_path / "l.json"
    lakes.delta(root, files=2)
    erase(root, "id", [5, 6], table=True, ledger=ledger, ledger_keys="plain")
    left = erased(root, "id", ledger=ledger)
    assert {key for row in left for key in row.keys} == {"5", "6"}


# ---- the command -------------------------------------------------------------------------


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["erase", *map(str, arguments)])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, keys = Path("t"), tmp_path / "keys.txt"
    monkeypatch.chdir(tmp_path)
    keys.write_text(f"{email(5)}\n")
    write_deltalake(str(root), people(0))
    assert run(root, "--table", "-c", "email", "-k", keys, "--yes").exit_code == 0
    found = run(root, "--check", "-c", "email", "-k", keys)
    assert (found.exit_code, found.output.count("removed by: VACUUM delta.`")) == (1, 1)
    DeltaTable(str(root)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    nowhere = run(root, "--check", "-c", "email", "-k", keys)
    assert nowhere.exit_code == 0, nowhere.output
    assert nowhere.output.startswith("nowhere: 1 key, ")
    assert "log" not in nowhere.output
    (root / "odd").write_bytes(b"\0\1")
    unsearched = run(root, "--check", "-c", "email", "-k", keys)
    assert unsearched.exit_code == 2
    assert "not found, but not everything could be searched: 1 key, " in unsearched.output
    rows = [json.loads(line) for line in run(root, "--check", "-c", "email", "-k", keys, "--json").output.splitlines()]
    assert [row["error"] for row in rows] == ["it is not of a format that is understood"]
    planned = run(root, "--plan", "-c", "email", "-k", keys)
    assert f"DELETE FROM delta.`{tmp_path / root}` WHERE email IN ('{email(5)}');" in planned.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--check", "--plan", "-k", "k"], "one of them at a time"),
        (["--check"], "or --ledger with the ledger"),
        (["--plan", "--ledger", "l"], "cannot be used with it"),
        (["--check", "-k", "k", "--yes"], "cannot be used with it"),
        (["--check", "-k", "k", "--dry-run"], "cannot be used with it"),
        (["--check", "-k", "k", "b"], "one PATH"),
        (["--check", "-k", "k", "--engine", "spark"], "not on Spark"),
        (["--yes"], "Missing option"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], said: str) -> None:
    result = run("a", "-c", "x", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


# ---- statements --------------------------------------------------------------------------


def test_the_statements_for_a_delta_table_that_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1, configuration={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(UnsupportedError, match="change data feed"):
        erase(root, "id", [3], table=True)
    assert [row.statement.partition(" ")[0] for row in erase_plan(root, "id", [3])] == [
        *("DELETE", "REORG", "VACUUM", "ALTER"),
    ]


def test_the_statements_for_an_iceberg_table_name_its_branches(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    with made.manage_snapshots() as manage:
        manage.create_tag(snapshot_id=made.refresh().snapshots()[0].snapshot_id, tag_name="kept")
    statements = [row.statement for row in erase_plan(made, "id", [3])]
    assert statements[0] == "ALTER TABLE <catalog>.n.t DROP TAG `kept`"
    assert [each.split("(")[0].rpartition(".")[2] for each in statements[2:]] == [
        *("rewrite_data_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"),
    ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([3, 5], "id IN (3, 5)"),
        (range(101), "id IN (SELECT `id` FROM <table of the keys>)"),
    ],
)
def test_keys_in_a_statement(tmp_path: Path, keys: Any, said: str) -> None:
    lakes.delta(tmp_path / "t", files=1)
    assert said in erase_plan(tmp_path / "t", "id", list(keys)).rows[0].statement
    (tmp_path / "k.txt").write_text("\n".join(map(str, keys)))
    assert said in erase_plan(tmp_path / "t", "id", tmp_path / "k.txt").rows[0].statement


def test_text_in_a_statement_is_quoted(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), people(0))
    (row, *_) = erase_plan(tmp_path / "t", "email", ["it's", "a\\b"])
    assert row.statement.endswith(r"email IN ('it\'s', 'a\\b')")


def test_hudi_and_plain_folders_have_no_statements(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(UnsupportedError, match="Hudi's own engines"):
        erase_plan(tmp_path, "id", [1])
    pq.write_table(people(0), tmp_path / "a.parquet")
