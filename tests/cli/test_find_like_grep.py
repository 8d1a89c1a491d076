"""`parquet-bloom find`: grep's habits."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from parquet_bloom.cli.commands import main


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for number in range(2):
        table = pa.table({"n": [number, 10 + number], "s": [f"a{number}", None], "b": [b"\xff", b""]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["find", *map(str, arguments)])


def test_rows_are_printed_and_the_exit_code_is_greps(lake: Path) -> None:
    found = run(lake, "-w", "n = 11", "-p", "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout) == {
        "n": 11, "s": None, "b": "", "path": str(lake / "1.parquet"), "row_group": 0, "row": 1
    }  # fmt: skip
    assert run(lake, "-w", "n = 5").exit_code == 1
    (lake / "2.parquet").write_bytes(b"PAR1")
    some = run(lake, "-w", "n = 11", "-s", "n")
    assert some.exit_code == 2
    assert "11" in some.stdout
    assert "2.parquet" in some.stderr
    assert run(lake, "-w", "n = 5").exit_code == 2


def test_files_only_count_and_quiet(lake: Path) -> None:
    assert run(lake, "-w", "n >= 10", "-l").stdout == f"{lake}/0.parquet\n{lake}/1.parquet\n"
    assert run(lake, "-w", "n >= 10", "-l", "-0").stdout_bytes == f"{lake}/0.parquet\0{lake}/1.parquet\0".encode()
    assert run(lake, "-w", "n >= 10", "--count").stdout == "2\n"
    assert (quiet := run(lake, "-w", "n >= 10", "-q")).stdout == ""
    assert quiet.exit_code == 0


def test_keys_come_from_a_file(lake: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("1\n99\n")
    assert run(lake, "-c", "n", "-k", keys, "--format", "csv", "-s", "n", "-s", "s").stdout == '"n","s"\n1,"a1"\n'


@pytest.mark.parametrize(
    "arguments",
    [(), ("-w", "n = 1", "-v"), ("-c", "n"), ("-w", "n = 1", "-0"), ("-w", "s LIKE 'a%'"), ("-w", "m = 1")],
)
def test_what_cannot_be_done_is_an_error(lake: Path, arguments: tuple[str, ...]) -> None:
    failed = run(lake, *arguments)
    assert failed.exit_code == 2
    assert failed.stdout == ""
    assert failed.stderr
