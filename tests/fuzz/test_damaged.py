"""What the verbs make of the damaged files in `fixtures/`, each of which the manifest says what to expect of."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from samples import DAMAGED, FIXTURES, named

import parquet_bloom
from parquet_bloom import CANNOT_MATCH, MIGHT_MATCH, ParquetBloomError
from parquet_bloom.cli.commands import main

COLUMNS = ("id", "name", "amount")
ABSENT = {"id": 123_456_789, "name": "nobody", "amount": 99_999.5}


def of_kind(*kinds):
    return named(entry for entry in DAMAGED if entry["expect"] in kinds)


def path_of(entry):
    return FIXTURES / entry["file"]


@pytest.fixture(scope="module")
def present():
    """The values of the sound file: row group -> column -> values that are not null."""
    with pq.ParquetFile(FIXTURES / "pyarrow/small.parquet") as file:
        groups = [file.read_row_group(i) for i in range(file.num_row_groups)]
    return [{c: [v for v in group[c].to_pylist() if v is not None] for c in COLUMNS} for group in groups]


def chunks_at(entry):
    """Returns the (row group, column) pairs that the manifest points at."""
    row_group, column = entry["where"]
    groups = (0, 1) if row_group is None else (row_group,)
    return {(group, name) for group in groups for name in (COLUMNS if column is None else (column,))}


def answers(path, column, value):
    """Returns row group -> answer and reason, for both row groups even where one answer is for the file."""
    rows = parquet_bloom.probe(path, column, value).rows
    assert all(row.reason for row in rows)
    groups = [((0, 1) if row.row_group is None else (row.row_group,), row) for row in rows]
    return {number: (row.answer, row.reason) for numbers, row in groups for number in numbers}


def problems(path):
    """Returns (row group, column) -> problem, for every chunk if the whole file has one."""
    (file,) = parquet_bloom.inspect(path).files
    if file.error:
        return {(g, c): file.error for g in (0, 1) for c in COLUMNS}
    return {(info.row_group, info.column): info.problem for info in file.filters if info.problem}


def add(path, columns, output):
    (row,) = parquet_bloom.add(path, columns, output=output, replace=True).rows
    return row


# ---- nothing breaks ------------------------------------------------------------------------------------

EVERYTHING = """
import faulthandler, json, pathlib, re, resource, sys, tempfile, warnings
faulthandler.enable()
import parquet_bloom

def every_verb(path, folder):
    for column, value in (("id", 1), ("name", "x"), ("amount", 1.0)):
        yield "probe", lambda: parquet_bloom.probe(path, column, value)
        yield "add", lambda: parquet_bloom.add(path, column, output=folder / f"{column}.parquet", replace=True)
        yield "add", lambda: parquet_bloom.add(path, column, dry_run=True, replace=True)
    yield "inspect", lambda: parquet_bloom.inspect(path)
    yield "verify", lambda: parquet_bloom.verify(path)
    yield "drop", lambda: parquet_bloom.drop(path, output=folder / "dropped.parquet")
    yield "drop", lambda: parquet_bloom.drop(path, restore=True, dry_run=True)

def peak():
    status = pathlib.Path("/proc/self/status")  # on Linux ru_maxrss may be the parent's, from before exec
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

sound, *damaged = map(pathlib.Path, sys.argv[1:])
for path in (sound, *damaged):
    before = peak()
    for verb, call in every_verb(path, pathlib.Path(tempfile.mkdtemp())):
        try:
            call()
        except parquet_bloom.ParquetBloomError:
            pass
        except BaseException as error:
            print(json.dumps([path.name, verb, repr(error)]))
    print(json.dumps([path.name, "memory", peak() - before]))
"""


def test_no_verb_crashes_hangs_raises_anything_else_or_takes_much_memory():
    files = [FIXTURES / "pyarrow/small.parquet", *map(path_of, DAMAGED)]
    # A hang ends the test; the limit is many times what it takes.
    said = subprocess.run(
        [sys.executable, "-c", EVERYTHING, *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert [line for line in lines if line[1] != "memory"] == []
    grown = [kibibytes for _, _, kibibytes in lines[1:]]  # without the sound file, which imports what is imported
    assert len(grown) == len(DAMAGED)
    assert sum(grown) < 200 * 1024


@pytest.mark.parametrize("entry", named(DAMAGED))
def test_the_command_line_says_it_without_a_traceback(entry, tmp_path):
    path = str(path_of(entry))
    commands = {
        "inspect": ["inspect", path],
        "probe": ["probe", path, "id", "1"],
        "verify": ["verify", path],
        "add": ["add", path, "-c", "id", "--replace", "-o", str(tmp_path / "added.parquet")],
        "drop": ["drop", path, "-o", str(tmp_path / "dropped.parquet")],
    }
    codes = {}
    for verb, command in commands.items():
        result = CliRunner().invoke(main, command)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "Traceback" not in result.output
        assert result.output.strip()
        codes[verb] = result.exit_code
    assert_exit_codes(entry, codes)


def assert_exit_codes(entry, codes):
    assert set(codes.values()) <= {0, 1, 2}
    match entry["expect"]:
        case "error":
            assert (codes["inspect"], codes["verify"] > 0, codes["add"], codes["drop"]) == (2, True, 2, 2)
        case "might_match":
            assert codes["probe"] == 0
            assert codes["inspect"] == (0 if is_silent(entry) else 2)
        case "ok":
            assert codes == {"inspect": 0, "probe": 1, "verify": 0, "add": 0, "drop": 0}
        case "wrong":
            assert (codes["inspect"], codes["verify"], codes["add"]) == (0, 1, 0)
        case "data" if entry["where"][1] != "name":
            assert (codes["verify"], codes["add"]) == (2, 2)


# ---- what each kind of damage must give ------------------------------------------------------------------


@pytest.mark.parametrize("entry", named(entry for entry in DAMAGED if entry["expect"] != "wrong"))
def test_no_present_value_is_ever_excluded(present, entry):
    for row_group, values in enumerate(present):
        for column in COLUMNS:
            try:
                rows = parquet_bloom.probe(path_of(entry), column, values[column]).rows
            except ParquetBloomError:
                continue  # the column went with the damage
            mine = [row for row in rows if row.row_group in (None, row_group)]
            assert len(mine) in (0, len(values[column]))
            assert {row.answer for row in mine} <= {MIGHT_MATCH}


@pytest.mark.parametrize("entry", of_kind("error"))
def test_a_broken_footer_is_one_clear_error(entry, tmp_path):
    path, before = path_of(entry), path_of(entry).read_bytes()
    assert set(problems(path).values())
    assert parquet_bloom.inspect(path).errors
    assert parquet_bloom.verify(path).errors
    for change in (
        lambda **more: parquet_bloom.add(path, "id", output=tmp_path / "out", **more),
        lambda **more: parquet_bloom.drop(path, output=tmp_path / "out", **more),
    ):
        with pytest.raises(ParquetBloomError):
            change(strict=True)
        assert not (tmp_path / "out").exists()
    assert path.read_bytes() == before
    try:
        found = answers(path, "id", 1)
    except ParquetBloomError:
        return  # its name is what is broken
    assert {answer for answer, _ in found.values()} == {MIGHT_MATCH}


def is_silent(entry):
    """Returns whether the damage looks like a chunk that never had a filter, or like an encrypted one.

    A field of another wire type is skipped, as one that a later version of the format may have.
    """
    return entry["reason"] in ("no_filter", "metadata")


@pytest.mark.parametrize("entry", of_kind("might_match"))
def test_a_filter_that_cannot_be_believed_excludes_nothing(entry, present, tmp_path):
    path, doubted = path_of(entry), chunks_at(entry)
    reported = problems(path)
    assert is_silent(entry) or doubted & set(reported)
    for column in COLUMNS:
        for row_group, (answer, reason) in answers(path, column, ABSENT[column]).items():
            problem = reported.get((row_group, column))
            if problem:
                assert (answer, reason) == (MIGHT_MATCH, problem)
            elif is_silent(entry) and (row_group, column) in doubted:
                assert answer == MIGHT_MATCH
            else:
                assert answer == CANNOT_MATCH
    assert reported.keys() <= not_ok(path)
    row = add(path, list(COLUMNS), tmp_path / "out.parquet")
    if row.status == "refused":
        assert row.error
        assert not (tmp_path / "out.parquet").exists()
    else:
        assert not parquet_bloom.verify(tmp_path / "out.parquet").findings
        assert problems(tmp_path / "out.parquet") == {}


def not_ok(path):
    (file,) = parquet_bloom.verify(path).files
    if file.error:
        return {(g, c) for g in (0, 1) for c in COLUMNS}
    return {(row.row_group, row.column) for row in file.filters if row.verdict != "ok"}


@pytest.mark.parametrize("entry", of_kind("ok"))
def test_what_is_odd_and_legal_is_answered_as_for_the_sound_file(entry, present, tmp_path):
    path, sound = path_of(entry), FIXTURES / entry["from"]
    assert problems(path) == {}
    assert parquet_bloom.verify(path).findings == ()
    for column in COLUMNS:
        for values in (ABSENT[column], *(group[column][:20] for group in present)):
            ours, theirs = (parquet_bloom.probe(p, column, values).rows for p in (path, sound))
            assert [row.answer for row in ours] == [row.answer for row in theirs]
    output = tmp_path / "out.parquet"
    assert add(path, list(COLUMNS), output).status == "written"
    assert parquet_bloom.verify(output).findings == ()
    assert output.read_bytes().startswith(path.read_bytes())
    parquet_bloom.drop(output, restore=True)
    assert output.read_bytes() == path.read_bytes()


CAUSES = {
    "wrong_columns": {
        (0, "id"): "wrong column: the filter of column amount has them",
        (0, "amount"): "wrong column: the filter of column id has them",
    },
    "wrong_row_groups": {
        (0, "id"): "wrong row group: the filter of row group 1 has them",
        (1, "id"): "wrong row group: the filter of row group 0 has them",
    },
}


@pytest.mark.parametrize("entry", of_kind("wrong"))
def test_a_lie_is_found_by_the_data(entry, tmp_path):
    path = path_of(entry)
    found = {(row.row_group, row.column): row for row in parquet_bloom.verify(path).findings}
    assert chunks_at(entry) <= set(found)
    assert {row.verdict for row in found.values()} == {"false negative"}
    assert all(0 < row.num_missing <= row.num_values and row.example for row in found.values())
    causes = CAUSES.get(path.stem, dict.fromkeys(found))
    assert {chunk: row.cause for chunk, row in found.items()} == causes
    assert add(path, list(COLUMNS), tmp_path / "out.parquet").status == "written"
    assert parquet_bloom.verify(tmp_path / "out.parquet").findings == ()


@pytest.mark.parametrize("entry", of_kind("data"))
def test_pages_that_do_not_decode_are_reported_and_no_filter_is_built(entry, tmp_path):
    path, before = path_of(entry), path_of(entry).read_bytes()
    broken = chunks_at(entry)
    if path.stem == "page_codes":
        # Of a chunk that is all dictionary only the dictionary is read, and that one is sound.
        assert parquet_bloom.verify(path).findings == ()
        return
    assert broken & not_ok(path)
    for column in {column for _, column in broken} - ({"name"} if len(broken) > 1 else set()):
        row = add(path, column, tmp_path / "out.parquet")
        assert row.status == "refused"
        assert row.error
        assert list(tmp_path.iterdir()) == []
    copy = tmp_path / "in-place.parquet"
    copy.write_bytes(before)
    assert parquet_bloom.add(copy, sorted({c for _, c in broken}), replace=True).errors
    assert copy.read_bytes() == before
    assert list(tmp_path.iterdir()) == [copy]
