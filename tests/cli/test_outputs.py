"""What commands print, where they print it, and what they exit with: on files that other engines wrote."""

import json
import os
import random
import re
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom.cli import commands

FIXTURES = Path(__file__).parents[2] / "fixtures"
SMALL = FIXTURES / "pyarrow" / "small.parquet"  # filters on id, name and amount
PLAIN = FIXTURES / "pyarrow" / "plain_types.parquet"  # no filters
CUT = FIXTURES / "damaged" / "cut_in_footer.parquet"
NO_FILTER_LEFT = FIXTURES / "damaged" / "bits_all_zero.parquet"
WRONG = FIXTURES / "damaged" / "wrong_row_groups.parquet"
PRESENT = 5_000_000_011


def run(*arguments: object):
    ran = CliRunner().invoke(commands.main, [str(a) for a in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


@pytest.fixture
def ids(tmp_path):
    """A file without filters: ids from 5,000,000,000 on in four row groups."""
    path = tmp_path / "ids.parquet"
    table = pa.table({"id": range(5_000_000_000, 5_000_000_400), "text": [f"t{i}" for i in range(400)]})
    pq.write_table(table, path, row_group_size=100)
    return path


@pytest.fixture
def filtered(ids):
    parquet_bloom.add(ids, "id", fpp=1e-6)
    return ids


# ---- exit codes --------------------------------------------------------------------------


def test_probe_is_0_for_might_and_1_for_cannot(filtered):
    assert run("probe", filtered, "id", PRESENT).exit_code == 0
    assert run("probe", filtered, "id", "42").exit_code == 1
    assert run("probe", filtered, "id", "-42").exit_code == 1
    assert run("probe", filtered, "text", "anything").exit_code == 0


def test_verify_is_0_when_clean_1_with_findings_2_with_damage():
    assert run("verify", SMALL).exit_code == 0
    assert run("verify", PLAIN).exit_code == 0
    assert run("verify", WRONG).exit_code == 1
    assert run("verify", CUT).exit_code == 2
    assert run("verify", SMALL, WRONG, CUT).exit_code == 2


def test_inspect_is_2_for_damage():
    assert run("inspect", SMALL).exit_code == 0
    assert run("inspect", CUT).exit_code == 2
    assert run("inspect", NO_FILTER_LEFT).exit_code == 2
    assert run("inspect", SMALL, CUT).exit_code == 2


def test_damage_keeps_the_file_in_probe(ids):
    ran = run("probe", ids, CUT, "id", "1")
    assert ran.exit_code == 0
    assert f"{CUT}: might match" in ran.stdout
    assert "does not end in PAR1" in ran.stdout


def test_add_and_drop_are_0_when_nothing_is_left_to_do(filtered):
    ran = run("add", filtered, "-c", "id")
    assert (ran.exit_code, ran.stdout) == (0, f"{filtered}: nothing to do (4 column chunks already had one)\n")
    assert run("drop", filtered, "--restore").exit_code == 0
    ran = run("drop", filtered)
    assert (ran.exit_code, ran.stdout) == (0, f"{filtered}: nothing to do\n")


def test_a_refused_file_is_2_and_the_others_are_done(ids, tmp_path):
    broken = tmp_path / "a_broken.parquet"
    shutil.copy(CUT, broken)
    ran = run("add", tmp_path, "-c", "id")
    assert ran.exit_code == 2
    assert ran.stderr.startswith(f"{broken}: refused: ")
    assert f"{ids}: added 4 filters" in ran.stdout
    assert "2 files, 4 filters, 1 refused" in ran.stdout


@pytest.mark.parametrize("command", [["recover"], ["drop"], ["erase", "-c", "id", "-k", SMALL, "--yes"]], ids=str)
def test_a_refused_file_is_2_for_each_command_that_changes_files(ids, tmp_path, command):
    shutil.copy(CUT, tmp_path / "a_broken.parquet")
    ran = run(*command, tmp_path)
    assert (ran.exit_code, ran.stderr.count("refused: ")) == (2, 1)
    assert run(*command, ids).exit_code == 0


def test_strict_stops_before_the_first_write(ids, tmp_path):
    shutil.copy(CUT, tmp_path / "z_broken.parquet")
    before = ids.read_bytes()
    assert run("add", tmp_path, "-c", "id", "--strict").exit_code == 2
    assert ids.read_bytes() == before


@pytest.mark.parametrize("text", ["1e", "1.5", "inf", "nan", "-3", ""])
def test_a_count_is_a_whole_number(text):
    ran = run("add", SMALL, "-c", "id", "--ndv", text)
    assert ran.exit_code == 2
    assert f"{text!r} is not a whole number of 0 or more, such as 1000000 or 1e6" in ran.stderr


# ---- errors are a sentence ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", "nowhere.parquet"], "nowhere.parquet: no such file or directory"),
        (["inspect", "no*where"], "no*where: no file matches"),
        (["prune", "in or out/*.parquet", "-w", "id = 5"], "in or out/*.parquet: no file matches"),
        (["inspect", SMALL, "-c", "nam"], "no leaf column 'nam'; did you mean name?"),
        (["verify", SMALL, "-c", "nam"], "no leaf column 'nam'; did you mean name?"),
        (["drop", SMALL, "-c", "nam", "-n"], "no leaf column 'nam'; did you mean name?"),
        (["add", PLAIN, "-c", "nam", "-n"], "has no leaf column 'nam'"),
        (["probe", SMALL, "nam", "1"], "no leaf column 'nam'; did you mean name?"),
        (["probe", SMALL, "id", "soon"], "'soon'"),
        (["probe", SMALL, "id", ""], "''"),
        (["add", SMALL, "-c", "id", "--fpp", "2"], "--fpp must be between 0 and 1"),
        (["add", SMALL, "-c", "`id", "-n"], "`id"),
        (["drop", SMALL, "-c", "id", "--restore", "-n"], "takes all columns"),
        (["inspect", "nosuch://bucket/x"], "nosuch"),
        (["inspect", CUT], "does not end in PAR1"),
        (["lookup", SMALL, "-c", "id", "-k", "4711"], "4711: no such file of keys; it has one key per line"),
        (["advise", SMALL, "-k", "k.txt"], "--keys needs --column"),
        (["verify", CUT], "does not end in PAR1"),
        (["add", CUT, "-c", "id"], "does not end in PAR1"),
        (["drop", CUT], "does not end in PAR1"),
        (["add", PLAIN, "-c", "bool", "-n"], "refused"),
        (["add", SMALL, "-c", "id", "--replace", "-o", SMALL], "exists"),
        (["add", SMALL, "-c", "id", "--replace", "-o", SMALL.parent], "exists"),
        (["add", SMALL, "-c", "id", "--replace", "-o", SMALL / "below.parquet"], "below.parquet"),
    ],
)
def test_an_error_is_one_sentence_on_stderr(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = SMALL.read_bytes()
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert "Traceback" not in ran.output
    assert ran.stdout == ""
    assert list(tmp_path.iterdir()) == []
    assert SMALL.read_bytes() == before


def test_a_store_whose_package_is_missing_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    ran = run("inspect", "gs://bucket/x.parquet")
    assert ran.exit_code == 2
    assert ran.stderr.startswith("error: ")
    assert "gcsfs" in ran.stderr


def test_a_file_that_must_not_be_read_is_an_error(monkeypatch):
    def denied(path, flags, *rest, **options):  # as root would read it all the same
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", denied)
    ran = run("inspect", SMALL)
    monkeypatch.undo()
    assert ran.exit_code == 2
    assert ran.stderr.count("Permission denied") == 1
    assert len(ran.stderr.splitlines()) == 1


# ---- JSON --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["inspect", SMALL, PLAIN, CUT], 3),
        (["probe", SMALL, PLAIN, "id", "5"], 5),
        (["verify", SMALL, WRONG, CUT], 3),
        (["add", SMALL, PLAIN, CUT, "-c", "id", "--dry-run"], 3),
        (["drop", SMALL, PLAIN, CUT, "--dry-run"], 3),
    ],
)
def test_json_is_one_object_a_line(arguments, lines):
    ran = run(*arguments, "--json")
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) == lines
    assert {row["schema_version"] for row in rows} == {1}
    assert all(list(row)[:2] == ["schema_version", "path"] for row in rows)
    assert ran.stderr == ""


def test_json_is_what_the_library_returns():
    ran = run("inspect", SMALL, "--json")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        file.to_dict() for file in parquet_bloom.inspect(SMALL).files
    ]
    ran = run("probe", SMALL, "name", "x", "--json")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == parquet_bloom.probe(SMALL, "name", "x").to_dicts()


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_a_file_name_may_be_any_bytes(ids, tmp_path):
    odd = tmp_path / os.fsdecode(b"\xff\n.parquet")
    ids.rename(odd)
    ran = run("inspect", tmp_path, "--json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["path"] == str(odd)
    ran = run("add", tmp_path, "-c", "id")
    assert ran.exit_code == 0
    assert rf"{tmp_path}/\xff\n.parquet: added" in ran.stdout


# ---- what is said ------------------------------------------------------------------------


def test_inspect_lists_each_filter_with_its_figures(filtered):
    said = run("inspect", filtered).stdout.splitlines()
    assert said[0].startswith(f"{filtered}: ")
    assert "400 rows, 4 row groups, 4 filters, by parquet-cpp-arrow" in said[0]
    assert said[1].split() == ["group", "column", "bytes", "values", "ndv", "fill", "fpp", "worst", "folds", "to"]
    assert [line.split()[:4] for line in said[2:6]] == [[str(i), "id", "1,024", "100"] for i in range(4)]
    assert said[6] == "  used by ClickHouse, DataFusion, DuckDB, Spark: id (INT64)"
    assert len(said) == 7


def test_inspect_of_many_filters_has_a_line_for_each_column(tmp_path):
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"a": range(200), "b": range(200)}), path, row_group_size=2)
    parquet_bloom.add(path, ["a", "b"])
    said = run("inspect", path).stdout.splitlines()
    assert "200 filters" in said[0]
    assert [line.split()[:4] for line in said[2:4]] == [[c, "100", "6,400", "200"] for c in "ab"]
    assert "--all" in said[4]
    assert len(said) == 6
    assert len(run("inspect", path, "--all").stdout.splitlines()) == 203
    assert len(run("inspect", path, "-c", "a", "--json").stdout.splitlines()) == 1


def test_inspect_warns_of_engines_that_fail():
    said = run("inspect", FIXTURES / "spark" / "blocks_9.parquet").stdout
    assert "careful: Arrow C++ and older ClickHouse reject a bitset whose size is not a power of two: id" in said
    said = run("inspect", NO_FILTER_LEFT).stdout
    assert re.search(r"row groups? 0.*, id: not usable: ", said)


def test_probe_groups_what_has_the_same_answer(filtered):
    said = run("probe", filtered, "id", PRESENT).stdout
    assert said == (
        f"{filtered}: 1 of 4 row groups might match\n"
        "  MIGHT_MATCH, row group 0: the filter says the value may be present\n"
        "  CANNOT_MATCH, row groups 1-3: the filter lacks the value\n"
    )


def test_many_files_end_with_a_total(filtered, tmp_path):
    shutil.copy(filtered, tmp_path / "more.parquet")
    assert run("probe", tmp_path, "id", PRESENT).stdout.endswith("\n2 files, 2 might match\n")
    assert run("inspect", tmp_path).stdout.endswith("\n2 files, 8 filters\n")
    assert run("verify", tmp_path).stdout.endswith("\n2 files, 8 filters, all ok\n")
    assert run("drop", tmp_path).stdout.endswith("\n2 files, 8 filters\n")


def test_add_tells_what_it_did_and_what_it_left(ids):
    parquet_bloom.add(ids, "id")
    said = run("add", ids, "-c", "id", "-c", "text").stdout
    assert re.fullmatch(
        r".*/ids\.parquet: added 4 filters, [\d.]+ Ki?B, false positives at most 0\.\d\d% "
        r"\(4 column chunks already had one\)\n",
        said,
    )


def test_a_copy_with_nothing_done_is_called_one(filtered, tmp_path):
    said = run("add", filtered, "-c", "id", "-o", tmp_path / "copy.parquet").stdout
    assert said.endswith("copy.parquet: nothing to do but a copy (4 column chunks already had one)\n")
    assert (tmp_path / "copy.parquet").read_bytes() == filtered.read_bytes()
    run("drop", filtered, "--restore")
    said = run("drop", filtered, "-o", tmp_path / "plain.parquet").stdout
    assert said.endswith("plain.parquet: nothing to do but a copy\n")
    assert (tmp_path / "plain.parquet").read_bytes() == filtered.read_bytes()


def test_a_file_without_keys_is_told(filtered, tmp_path, caplog):
    (tmp_path / "keys.txt").write_text("\n")
    assert run("lookup", filtered, "-c", "id", "-k", tmp_path / "keys.txt").exit_code == 1
    assert caplog.messages == [f"{tmp_path}/keys.txt has no keys"]


def test_drop_tells_what_stays_and_what_is_freed(filtered):
    assert re.search(r": 4 filters cleared; [\d.]+ KiB stay in the file, --restore", run("drop", filtered).stdout)
    assert re.search(r": restored, [\d.]+ KiB freed\n", run("drop", filtered, "--restore").stdout)


def test_verify_shows_a_missing_value_and_the_cause():
    said = run("verify", WRONG).stdout
    assert "3 filters ok" in said or "4 filters ok" in said
    assert re.search(
        r"row group 0, id \(INT64\): false negative: 100 of 100 values missing, such as \d+: wrong row", said
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "ids.parquet", "-c", "id", "-c", "text", "--replace"],
        ["add", "ids.parquet", "-c", "text", "-o", "out.parquet"],
        ["drop", "ids.parquet", "-c", "id"],
        ["drop", "ids.parquet", "--restore"],
        ["drop", ".", "--restore", "-o", "out"],
    ],
)
def test_a_dry_run_writes_nothing(filtered, monkeypatch, arguments):
    monkeypatch.chdir(filtered.parent)
    before, status = filtered.read_bytes(), filtered.stat()
    ran = run(*arguments, "--dry-run")
    assert ran.exit_code == 0
    assert "would" in ran.stdout
    assert filtered.read_bytes() == before
    assert filtered.stat().st_mtime_ns == status.st_mtime_ns
    assert list(filtered.parent.iterdir()) == [filtered]


def test_a_dry_run_says_what_the_run_then_does(ids):
    planned = json.loads(run("add", ids, "-c", "id", "-n", "--json").stdout)
    done = json.loads(run("add", ids, "-c", "id", "--json").stdout)
    assert (planned["status"], done["status"]) == ("planned", "written")
    assert [f["column"] for f in planned["filters"]] == [f["column"] for f in done["filters"]]
    assert planned["bytes_added"] >= done["bytes_added"]


def test_files_in_a_store(ids):
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe_file("/cli/a.parquet", ids.read_bytes())
    try:
        assert run("add", "memory://cli", "-c", "id").exit_code == 0
        assert run("probe", "memory://cli/*.parquet", "id", PRESENT).exit_code == 0
        assert run("probe", "memory://cli/a.parquet", "id", "1").exit_code == 1
        assert run("drop", "memory://cli", "--restore").exit_code == 0
        assert store.cat_file("/cli/a.parquet") == ids.read_bytes()
    finally:
        store.rm("/cli", recursive=True)


# ---- demo --------------------------------------------------------------------------------


@pytest.mark.engines
def test_demo_shows_every_verb():
    ran = run("demo")
    assert ran.exit_code == 0
    assert "DuckDB, SELECT * WHERE id = '28ffad1b…': 10 of 10 row groups read" in ran.stdout
    assert "DuckDB, SELECT * WHERE id = '28ffad1b…': 1 of 10 row groups read" in ran.stdout
    assert "the old file is the new one's beginning: True" in ran.stdout
    assert "9 of 10 row groups cannot match" in ran.stdout
    assert "200,000 values probed, 0 missing" in ran.stdout
    assert "the original again, byte for byte: True" in ran.stdout


def test_demo_does_without_duckdb(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ran = run("demo")
    assert ran.exit_code == 0
    assert "DuckDB" not in ran.stdout
    assert "byte for byte: True" in ran.stdout


def test_demo_keeps_the_sample_where_it_is_told(tmp_path):
    folder = tmp_path / "new" / "sample"
    ran = run("demo", "--keep", folder)
    assert ran.stdout.endswith(f"The sample is {folder / 'events.parquet'}.\n")
    assert len(parquet_bloom.inspect(folder).rows) == 10
    again = run("demo", "--keep", folder)
    assert again.exit_code == 2
    assert "File exists" in again.stderr


@pytest.fixture
def of_bytes(tmp_path, monkeypatch):
    """Four files with bytes and texts, which anyone may read."""
    monkeypatch.delenv("PARQUET_BLOOM_READERS")
    (tmp_path / "lake").mkdir()
    for number in range(4):
        rows = pa.table({"blob": [b"1", b"2"], "text": ["1", None]})
        pq.write_table(rows, tmp_path / "lake" / f"{number}.parquet")
    return tmp_path / "lake"


def test_a_column_that_is_left_out_of_many_files_is_a_line(of_bytes):
    ran = run("add", of_bytes, "-c", "blob", "-c", "text")
    assert ran.exit_code == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"{of_bytes / '0.parquet'} and 3 more files, which --json names: column blob skipped: BYTE_")
    assert "is left out: DuckDB 1.5.0 to 1.5.6 loses rows" in line
    assert "say who reads the files with --readers, such as duckdb>=2.0.0" in line
    assert "or add it all the same with --accept-hazards" in line
    # The same note of all of them is a line, too.
    notes = [line for line in ran.stdout.splitlines() if "ClickHouse" in line]
    assert len(notes) == 2
    for note in notes:
        assert note.startswith(f"{of_bytes / '0.parquet'} and 3 more files, which --json names: ClickHouse 2")
        assert note.endswith(": text")
    assert ran.stdout.count("added 1 filter") == 4


def test_each_file_has_its_own_notes_and_columns_as_json(of_bytes):
    ran = run("add", of_bytes, "-c", "blob", "-c", "text", "--json")
    assert ran.exit_code == 2
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [[one["column"] for one in row["skipped_columns"]] for row in rows] == [["blob"]] * 4
    assert all(len(row["notes"]) == 2 for row in rows)


def test_readers_are_given_by_option_or_by_environment(of_bytes, monkeypatch):
    current = "duckdb>=2,datafusion>=55,clickhouse>=26.9.2"
    assert run("add", of_bytes, "-c", "blob", "--readers", current, "-n").exit_code == 0
    assert run("add", of_bytes, "-c", "blob", "--accept-hazards", "-n").exit_code == 0
    assert run("add", of_bytes, "-c", "blob", "--readers", "duckdb==1.5.2", "-n").exit_code == 2
    unknown = run("add", of_bytes, "-c", "blob", "--readers", "duckbd", "-n")
    assert unknown.exit_code == 2
    assert "--readers does not know 'duckbd'; it knows" in unknown.stderr
    monkeypatch.setenv("PARQUET_BLOOM_READERS", current)
    ran = run("add", of_bytes, "-c", "blob")
    assert ran.exit_code == 0
    assert "ClickHouse" not in ran.stdout
    monkeypatch.delenv("PARQUET_BLOOM_READERS")
    again = run("add", of_bytes, "-c", "blob")  # which has its filters
    assert again.exit_code == 0
    assert "which --json names: DuckDB 1.5.0 to 1.5.6 loses rows" in again.stdout


def test_strict_stops_at_a_column_that_is_left_out(of_bytes):
    before = (of_bytes / "0.parquet").read_bytes()
    ran = run("add", of_bytes, "-c", "blob", "-c", "text", "--strict")
    assert ran.exit_code == 2
    assert "column blob: BYTE_ARRAY is left out" in ran.stderr
    assert (of_bytes / "0.parquet").read_bytes() == before


def test_an_index_shows_its_readers(of_bytes):
    created = run("index", "create", of_bytes, "-c", "text", "--readers", "duckdb>=2")
    assert created.stdout.endswith("  readers: duckdb>=2\n")
    assert run("index", "show", of_bytes).stdout == created.stdout
    assert json.loads(run("index", "show", of_bytes, "--json").stdout)["readers"] == "duckdb>=2"
    assert run("add", of_bytes, "-c", "blob", "-n").exit_code == 0


def test_many_refusals_with_one_reason_are_a_line(tmp_path):
    import deltalake

    table = pa.table({"id": [1, 2]})
    for _ in range(5):
        deltalake.write_deltalake(tmp_path / "t", table, mode="append")
    ran = run("add", tmp_path / "t", "-c", "id")
    assert ran.exit_code == 2
    (line,) = ran.stderr.splitlines()
    assert " and 4 more files, which --json names: refused: " in line
    assert len(run("add", tmp_path / "t", "-c", "id", "--json").stdout.splitlines()) == 5


def test_an_argument_in_a_table_is_an_option_too(tmp_path, monkeypatch):
    monkeypatch.delenv("PARQUET_BLOOM_READERS", raising=False)
    rng = random.Random(0)
    for number in range(4):
        rows = pa.table({"blob": [rng.randbytes(40) for _ in range(6000)]})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    said = run("advise", tmp_path).stdout
    assert "left out:" in said
    assert "say who reads the files with --readers, such as" in said
    assert said.endswith("with --accept-hazards\n")
