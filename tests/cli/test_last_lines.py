"""What the last lines of commands say, where a file could not be read or nothing could be done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import parquet_bloom
from parquet_bloom.cli import commands

pytestmark = pytest.mark.usefixtures("mtime_stable")


def run(*arguments: object) -> Result:
    ran = CliRunner().invoke(commands.main, [str(argument) for argument in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A file with a filter, and one that cannot be read."""
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "good.parquet")
    parquet_bloom.add(tmp_path, "id")
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet at all")
    return tmp_path


def test_verify_does_not_call_unchecked_files_ok(half: Path) -> None:
    ran = run("verify", half)
    assert ran.exit_code == 2
    assert ran.output.splitlines()[-1] == "2 files, 1 filter, 1 file not checked"
    assert "all ok" not in ran.output


def test_prune_counts_the_bytes_of_files_that_are_kept_whole(half: Path) -> None:
    ran = run("prune", half, "--where", "id = 7")
    assert ran.exit_code == 0
    assert "1 of 2 files and 0 of 1 row group must be read: 0 B of " in ran.stdout
    assert ", and 1 whole file of 17 B; " in ran.stdout
    assert "whole file" not in run("prune", half / "good.parquet", "--where", "id = 7").stdout


def test_prune_says_what_reading_columns_excluded(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 5, 2, 5]}), tmp_path / "f.parquet", row_group_size=2)
    for wanted, said, code in (
        (3, "0 excluded by statistics, 0 by filters, 2 by reading columns", 1),
        (2, "0 by filters, 1 by reading columns", 0),
    ):
        ran = run("prune", tmp_path, "--where", f"id = {wanted}", "--exact")
        assert ran.exit_code == code
        assert said in ran.stdout
    assert "by reading" not in run("prune", tmp_path, "--where", "id = 3").stdout


@pytest.mark.parametrize("again", [False, True])
def test_index_create_tells_of_files_that_cannot_be_read(half: Path, again: bool) -> None:
    if again:
        run("index", "create", half, "-c", "id")
    ran = run("index", "refresh", half) if again else run("index", "create", half, "-c", "id")
    assert ran.exit_code == 2
    assert f"not indexed: {half}/bad.parquet: not a whole Parquet file: it does not end in PAR1" in ran.stderr
    state = parquet_bloom.index.refresh(half)
    assert state.errors
    assert (state.rows[0].files, state.rows[0].files_missing, len(state.errors)) == (1, 1, 1)
    (half / "bad.parquet").unlink()
    assert run("index", "refresh", half).exit_code == 0


def test_a_condition_of_which_nothing_can_be_used_says_so(half: Path) -> None:
    for options in ((), ("--files-only",), ("--json",)):
        ran = run("prune", half, "--where", '"id" = 7', *options)
        assert ran.exit_code == 0
        assert (
            "nothing in the condition can be used to prune: 'id' = 7; in Spark's SQL, double quotes make text"
            in ran.stderr
        )
    assert "nothing in the condition" not in run("prune", half, "--where", "id = 7").stderr


def test_prune_says_why_nothing_is_skipped(tmp_path: Path) -> None:
    times = pa.array([0, 9, 1, 8], pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"id": [0, 9, 1, 8], "at": times}), tmp_path / "a.parquet", row_group_size=2)
    for condition, why in {
        "id = 5": "nothing is skipped: there is no filter\n",
        "at = '1970-01-01 00:00:05'": "which one a time without zone means depends on --timezone\n",
        "id = 5 OR at IS NULL": "nothing is skipped: ",
        "id = 8 OR at = '1970-01-01 00:00:09'": "nothing is skipped: ",
    }.items():
        ran = run("prune", tmp_path, "-w", condition)
        assert why in ran.stderr, condition
        assert "nothing is skipped" not in run("prune", tmp_path, "-w", condition, "--explain").stderr
    assert run("prune", tmp_path, "-w", "id = 0").stderr == ""


def test_index_tells_how_to_index_what_is_missing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    run("index", "create", tmp_path, "-c", "id")
    assert "refresh" not in run("index", "show", tmp_path).stdout
    pq.write_table(pa.table({"id": [2]}), tmp_path / "b.parquet")
    assert "`parquet-bloom index refresh`" in run("index", "show", tmp_path).stdout
    assert run("index", "drop", tmp_path).stdout == f"{tmp_path}: index dropped\n"
    assert run("index", "show", tmp_path).stdout == f"{tmp_path}: no index\n"


def test_sizes_of_the_index_are_the_same_after_it_was_made_again(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(
            pa.table({"id": range(number * 10_000, number * 10_000 + 10_000)}), tmp_path / f"{number}.parquet"
        )
    first, second = (parquet_bloom.index.create(tmp_path, "id", fpp=fpp) for fpp in (0.1, 0.11))
    assert second.rows[0].fpp == 0.11
    assert second.rows[0].num_bytes == first.rows[0].num_bytes
    assert abs(second.num_bytes - first.num_bytes) < 1_000  # the entries are compressed, and their texts are others


# ---- what drop promises -------------------------------------------------------------------


def with_filters_of_its_own(path: Path) -> None:
    """Writes a file by pyarrow, which gives it filters before its own footer."""
    table = pa.table({"id": [number % 500 for number in range(20_000)]})
    pq.write_table(table, path, row_group_size=5_000, bloom_filter_options={"id": True})


@pytest.mark.parametrize("has_own", [False, True], ids=["plain", "own"])
@pytest.mark.parametrize(
    "changes", [[], ["add"], ["add", "drop"], ["add", "add"], ["drop"], ["drop", "add"]], ids=" ".join
)
def test_drop_promises_what_restore_does(tmp_path: Path, has_own: bool, changes: list[str]) -> None:
    path = tmp_path / "f.parquet"
    if has_own:
        with_filters_of_its_own(path)
    else:
        pq.write_table(pa.table({"id": range(20_000)}), path, row_group_size=5_000)
    made: dict[str, Any] = {
        "add": lambda: parquet_bloom.add(path, "id", replace=True),
        "drop": lambda: parquet_bloom.drop(path),
    }
    for change in changes:
        made[change]()
    (planned,) = parquet_bloom.drop(path, dry_run=True).rows
    (dropped,) = parquet_bloom.drop(path).rows
    if dropped.status == "unchanged":
        return
    assert (planned.bytes_restorable, planned.filters_back) == (dropped.bytes_restorable, dropped.filters_back)
    size = path.stat().st_size
    (restored,) = parquet_bloom.drop(path, restore=True).rows
    assert (restored.bytes_freed, size - path.stat().st_size) == (dropped.bytes_restorable,) * 2
    assert len(parquet_bloom.inspect(path).rows) == dropped.filters_back == restored.filters_back
    assert bool(dropped.filters_back) is has_own


def test_drop_and_restore_say_that_older_filters_come_back(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    with_filters_of_its_own(path)
    count = len(parquet_bloom.inspect(path).rows)
    assert count
    said = run("drop", path).stdout
    assert f"{count} filters cleared; " in said
    assert " stay in the file, --restore would free " in said
    assert f" and bring {count} older filters back" in said
    assert f" freed; {count} older filters back" in run("drop", path, "--restore").stdout
