"""Every verb on every damaged file of `fixtures/`: what the manifest says of a file is what comes of it.

`pytest` takes every fourth file, `pytest -m sweep` all.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import snapshot
from samples import DAMAGED, FIXTURES

import parquet_bloom
from parquet_bloom import CANNOT_MATCH, MIGHT_MATCH, ParquetBloomError
from parquet_bloom.cli.commands import main

COLUMNS = ("id", "name", "amount")
ABSENT = {"id": 123_456_789, "name": "nobody", "amount": 99_999.5}
CONDITIONS = ("id = 1", "id = 123456789", "id > 10 AND id IS NOT NULL", "name = 'x' OR id IN (1, 2)")


def some(entries):
    """Returns parameters, three of four of which are for the sweep; each kind of damage is among the others."""
    ordered = sorted(entries, key=lambda entry: (entry["expect"], entry.get("reason") or "", entry["file"]))
    return [
        pytest.param(entry, id=entry["file"], marks=[pytest.mark.sweep] if number % 4 else [])
        for number, entry in enumerate(ordered)
    ]


@functools.cache
def present():
    """Returns the values of the sound file: row group -> column -> values that are not null."""
    with pq.ParquetFile(FIXTURES / "pyarrow/small.parquet") as file:
        groups = [file.read_row_group(i) for i in range(file.num_row_groups)]
    return [{c: [v for v in group[c].to_pylist() if v is not None] for c in COLUMNS} for group in groups]


@pytest.mark.parametrize("entry", some(DAMAGED))
def test_every_verb(entry, tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes((FIXTURES / entry["file"]).read_bytes())
    reading_verbs_answer(path, tmp_path / "page.html")
    damage_excludes_nothing(path)
    if entry["expect"] != "wrong":
        no_present_value_is_lost(path)
    changing_verbs_write_rightly_or_refuse(path, tmp_path)
    exit_codes_fit(entry, command_line(path, tmp_path))
    (tmp_path / "checked").mkdir()
    checks = {
        "error": is_error,
        "might_match": is_doubted,
        "ok": is_as_sound,
        "wrong": is_found_out,
        "data": is_unbuilt,
    }
    if check := checks.get(entry["expect"]):
        check(entry, path, tmp_path / "checked")
    assert path.read_bytes() == (FIXTURES / entry["file"]).read_bytes()


def answer_of(call):
    """Returns what a verb returns, its rows if it is a stream, None where it raises an error of the package's own."""
    try:
        result = call()
        return result.to_arrow().to_pylist() if hasattr(result, "to_reader") else result
    except ParquetBloomError:
        return None


def reading_verbs_answer(path, page):
    before = snapshot(path.parent)
    for call in (
        lambda: parquet_bloom.inspect(path),
        lambda: parquet_bloom.verify(path),
        lambda: parquet_bloom.advise(path),
        lambda: parquet_bloom.find(path, "id = 1 OR name = 'x'"),
        lambda: parquet_bloom.find(path, column="id", keys=[1, 2]),
        lambda: parquet_bloom.absent(path, "id", [1, 2]),
        lambda: parquet_bloom.prune(path, "id = 1", exact=True),
        lambda: parquet_bloom.add(path, "id", dry_run=True, replace=True),
        lambda: parquet_bloom.drop(path, restore=True, dry_run=True),
        lambda: parquet_bloom.erase(path, "id", [1], dry_run=True),
        lambda: parquet_bloom.recover(path, dry_run=True),
        lambda: parquet_bloom.hudi.add_filter(path, "name", dry_run=True),
    ):
        answer_of(call)
    assert snapshot(path.parent) == before
    answer_of(lambda: parquet_bloom.report(path, page, verification=True, advice=True))
    page.unlink(missing_ok=True)


def damage_excludes_nothing(path):
    """What does not depend on the values: what a verdict says has a reason, and damage is none for an exclusion."""
    for where in CONDITIONS:
        try:
            pruning = parquet_bloom.prune(path, where)
        except ParquetBloomError as error:
            assert "column" in str(error)  # noqa: PT017  # a schema without the columns, or of other types
            continue
        assert all(group.reason and (group.is_kept or group.by) for group in pruning.rows)
    try:
        rows = parquet_bloom.lookup(path, "id", [1, 2, 3]).to_arrow()
    except ParquetBloomError as error:
        assert "column" in str(error)  # noqa: PT017
    else:
        assert set(rows["key"].to_pylist()) == {1, 2, 3}


def no_present_value_is_lost(path):
    for row_group, values in enumerate(present()):
        for column in COLUMNS:
            try:
                rows = parquet_bloom.probe(path, column, values[column]).rows
            except ParquetBloomError:
                continue  # the column went with the damage
            mine = [row for row in rows if row.row_group in (None, row_group)]
            assert len(mine) in (0, len(values[column]))
            assert {row.answer for row in mine} <= {MIGHT_MATCH}


def changing_verbs_write_rightly_or_refuse(original, folder):
    old, path = original.read_bytes(), folder / "changed" / "x.parquet"
    path.parent.mkdir()
    path.write_bytes(old)
    for call in (
        lambda: parquet_bloom.add(path, list(COLUMNS)),
        lambda: parquet_bloom.add(path, "id", replace=True, output=path.with_name("y.parquet")),
        lambda: parquet_bloom.drop(path),
        lambda: parquet_bloom.drop(path, restore=True),
    ):
        before = path.read_bytes()
        if (result := answer_of(call)) is None:
            assert path.read_bytes() == before
            continue
        (row,) = result.rows
        assert (row.status == "refused") == bool(row.error)
        if row.status == "refused":
            assert path.read_bytes() == before
        shared = min(len(old), path.stat().st_size)
        assert path.read_bytes()[:shared] == old[:shared]
        path.with_name("y.parquet").unlink(missing_ok=True)
        assert [each.name for each in path.parent.iterdir()] == ["x.parquet"]


def command_line(path, folder):
    """Returns the exit code of each command, all of which say something."""
    commands = {
        "inspect": ["inspect", path],
        "probe": ["probe", path, "id", "1"],
        "verify": ["verify", path],
        "add": ["add", path, "-c", "id", "--replace", "-o", folder / "added.parquet"],
        "drop": ["drop", path, "-o", folder / "dropped.parquet"],
    }
    codes = {}
    for verb, command in commands.items():
        result = CliRunner().invoke(main, list(map(str, command)))
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "Traceback" not in result.output
        assert result.output.strip()
        codes[verb] = result.exit_code
    return codes


def exit_codes_fit(entry, codes):
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


# ---- what each kind of damage must give ------------------------------------------------------------------


def is_error(entry, path, folder):
    before = path.read_bytes()
    assert set(problems(path).values())
    assert parquet_bloom.inspect(path).errors
    assert parquet_bloom.verify(path).errors
    for change in (
        lambda **more: parquet_bloom.add(path, "id", output=folder / "out", **more),
        lambda **more: parquet_bloom.drop(path, output=folder / "out", **more),
    ):
        with pytest.raises(ParquetBloomError):
            change(strict=True)
        assert not (folder / "out").exists()
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


def is_doubted(entry, path, folder):
    doubted = chunks_at(entry)
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
    row = add(path, list(COLUMNS), folder / "out.parquet")
    if row.status == "refused":
        assert row.error
        assert not (folder / "out.parquet").exists()
    else:
        assert not parquet_bloom.verify(folder / "out.parquet").findings
        assert problems(folder / "out.parquet") == {}


def not_ok(path):
    (file,) = parquet_bloom.verify(path).files
    if file.error:
        return {(g, c) for g in (0, 1) for c in COLUMNS}
    return {(row.row_group, row.column) for row in file.filters if row.verdict != "ok"}


def is_as_sound(entry, path, folder):
    sound = FIXTURES / entry["from"]
    assert problems(path) == {}
    assert parquet_bloom.verify(path).findings == ()
    for column in COLUMNS:
        for values in (ABSENT[column], *(group[column][:20] for group in present())):
            ours, theirs = (parquet_bloom.probe(p, column, values).rows for p in (path, sound))
            assert [row.answer for row in ours] == [row.answer for row in theirs]
    output = folder / "out.parquet"
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


def is_found_out(entry, path, folder):
    found = {(row.row_group, row.column): row for row in parquet_bloom.verify(path).findings}
    assert chunks_at(entry) <= set(found)
    assert {row.verdict for row in found.values()} == {"false negative"}
    assert all(0 < row.num_missing <= row.num_values and row.example for row in found.values())
    causes = CAUSES.get(Path(entry["file"]).stem, dict.fromkeys(found))
    assert {chunk: row.cause for chunk, row in found.items()} == causes
    assert add(path, list(COLUMNS), folder / "out.parquet").status == "written"
    assert parquet_bloom.verify(folder / "out.parquet").findings == ()


def is_unbuilt(entry, path, folder):
    before = path.read_bytes()
    broken = chunks_at(entry)
    if Path(entry["file"]).stem == "page_codes":
        # Of a chunk that is all dictionary only the dictionary is read, and that one is sound.
        assert parquet_bloom.verify(path).findings == ()
        return
    assert broken & not_ok(path)
    for column in {column for _, column in broken} - ({"name"} if len(broken) > 1 else set()):
        row = add(path, column, folder / "out.parquet")
        assert row.status == "refused"
        assert row.error
        assert list(folder.iterdir()) == []
    copy = folder / "in-place.parquet"
    copy.write_bytes(before)
    assert parquet_bloom.add(copy, sorted({c for _, c in broken}), replace=True).errors
    assert copy.read_bytes() == before
    assert list(folder.iterdir()) == [copy]


# ---- in a process of its own, which may crash -------------------------------------------------------------

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


@pytest.mark.sweep
def test_no_verb_crashes_hangs_raises_anything_else_or_takes_much_memory():
    files = [FIXTURES / "pyarrow/small.parquet", *(FIXTURES / entry["file"] for entry in DAMAGED)]
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
