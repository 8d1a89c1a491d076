"""`--format`: CSV and Parquet on standard output are the rows of the library's result."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.results import NOT_UNICODE

CUT = Path(__file__).parents[2] / "fixtures" / "damaged" / "cut_in_footer.parquet"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mtime_stable: None) -> Path:
    """A file with filters in two row groups, one that is damaged, and an index."""
    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    pq.write_table(pa.table({"id": range(200), "t": [f'a "{i}", b' for i in range(200)]}), "lake/a.parquet", 100)
    parquet_bloom.add("lake", ["id", "t"])
    parquet_bloom.index.create("lake", "id")
    shutil.copy(CUT, "lake/cut.parquet")
    return Path("lake")


def run(*arguments: str) -> Result:
    ran = CliRunner().invoke(main, arguments)
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


COMMANDS: list[tuple[str, Any]] = [
    ("inspect lake", lambda: parquet_bloom.inspect("lake")),
    ("probe lake id 5", lambda: parquet_bloom.probe("lake", "id", 5)),
    ("add lake -c t -n", lambda: parquet_bloom.add("lake", "t", dry_run=True)),
    ("drop lake -n", lambda: parquet_bloom.drop("lake", dry_run=True)),
    ("verify lake", lambda: parquet_bloom.verify("lake")),
    ("prune lake -w id=5", lambda: parquet_bloom.prune("lake", "id = 5")),
    ("lookup lake -c id -k keys.csv", lambda: parquet_bloom.lookup("lake", "id", Path("keys.csv"))),
    ("index show lake", lambda: parquet_bloom.index.show("lake")),
    ("index create lake -c t", lambda: parquet_bloom.index.create("lake", "t")),
    ("index hudi lake -n --key-column t", lambda: parquet_bloom.hudi.add_filter("lake", "t", dry_run=True)),
]


@pytest.mark.parametrize(("line", "call"), COMMANDS)
def test_parquet_is_the_library_s_table(lake: Path, line: str, call: Any) -> None:
    Path("keys.csv").write_text("id\n5\n150\n1000\n")
    ran = run(*line.split(), "--format", "parquet")
    table = pq.read_table(io.BytesIO(ran.stdout_bytes))
    assert table.num_rows > 0
    assert table.equals(call().to_arrow())


@pytest.mark.parametrize(("line", "call"), COMMANDS)
def test_csv_is_the_library_s_table(lake: Path, line: str, call: Any) -> None:
    Path("keys.csv").write_text("id\n5\n150\n1000\n")
    expected = call().to_arrow()
    Path("out.csv").write_bytes(run(*line.split(), "--format", "csv").stdout_bytes)
    types = {f.name: pa.string() if pa.types.is_nested(f.type) else f.type for f in expected.schema}
    options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    read = pa_csv.read_csv("out.csv", convert_options=options).to_pydict()
    nested = {name for name, kind in types.items() if kind != expected.schema.field(name).type}
    assert {k: list(map(json.loads, v)) if k in nested else v for k, v in read.items()} == expected.to_pydict()


@pytest.mark.engines
def test_duckdb_reads_the_csv(lake: Path) -> None:
    import duckdb

    Path("keys.csv").write_text("id\n5\n150\n1000\n")
    for line, _ in COMMANDS:
        Path("out.csv").write_bytes(run(*line.split(), "--format", "csv").stdout_bytes)
        assert duckdb.sql("FROM 'out.csv'").fetchall(), line


@pytest.mark.parametrize("key", [b"\xca\xfe", "2024-01-31", 3.5, True, "", 'a "quoted", key'])
def test_keys_of_every_kind_are_cells(lake: Path, key: Any) -> None:
    pq.write_table(pa.table({"k": [key]}), "lake/a.parquet")
    pq.write_table(pa.table({"k": [key]}), "keys.parquet")
    Path("out.csv").write_bytes(run("lookup", "lake", "-c", "k", "-k", "keys.parquet", "--format", "csv").stdout_bytes)
    texts = pa_csv.ConvertOptions(
        column_types={"key": pa.string()}, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    shown = set(pa_csv.read_csv("out.csv", convert_options=texts)["key"].to_pylist())
    assert {cell.lower() for cell in shown} == {str(key).lower()}


def test_no_rows_are_a_header(lake: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), "plain.parquet")
    ran = run("inspect", "plain.parquet", "--format", "csv")
    assert ran.stdout.startswith('"schema_version","path",')
    assert ran.stdout.count("\n") == 1
    assert ran.exit_code == 0


@pytest.mark.parametrize("line", ["inspect lake", "verify lake"])
@pytest.mark.parametrize("output_format", ["csv", "parquet"])
def test_a_file_without_rows_is_an_error_beside_them(lake: Path, line: str, output_format: str) -> None:
    ran = run(*line.split(), "--format", output_format)
    assert ran.stderr.startswith("lake/cut.parquet: not a whole Parquet file: it does not end in PAR1")
    assert ran.exit_code == 2


def test_a_file_that_is_not_pruned_is_a_row(lake: Path) -> None:
    ran = run("prune", "lake", "-w", "id = 5", "--format", "csv")
    assert '1,"lake/cut.parquet",,"MIGHT_MATCH"' in ran.stdout


@pytest.mark.parametrize("line", [line for line, _ in COMMANDS if "create" not in line])
def test_json_has_two_names(lake: Path, line: str) -> None:
    Path("keys.csv").write_text("id\n5\n")
    assert run(*line.split(), "--format", "json").stdout == run(*line.split(), "--json").stdout
    assert run(*line.split(), "--format", "table").stdout == run(*line.split()).stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("inspect lake --json --format csv", "--json means --format json, so give one of them"),
        ("lookup lake -c id -k k -o out --format csv", "-o writes a Parquet file"),
        ("inspect lake --format xml", "'xml' is not one of"),
    ],
)
def test_what_contradicts_itself_is_refused(lake: Path, line: str, said: str) -> None:
    ran = run(*line.split())
    assert said in ran.stderr
    assert ran.exit_code == 2


@pytest.mark.parametrize("line", ["inspect odd", "probe odd id 5", "prune odd -w id=5", "lookup odd -c id -k keys.csv"])
def test_a_name_that_is_no_text_is_shown_escaped(lake: Path, line: str) -> None:
    Path("keys.csv").write_text("id\n5\n")
    os.renames(b"lake/a.parquet", b"odd/\xff.parquet")
    ran = run(*line.split(), "--format", "csv")
    assert ran.exit_code == 0
    assert ran.stderr == ""
    assert '"odd/\\xff.parquet"' in ran.stdout


def test_a_file_whose_name_is_no_text_is_left_out_and_the_others_are_done(lake: Path) -> None:
    Path("keys.csv").write_text("id\n5\n")
    shutil.copy("lake/a.parquet", os.fsdecode(b"lake/\xff.parquet"))
    found = parquet_bloom.lookup("lake", "id", [5])
    rows = found.to_arrow().to_pylist()
    assert [(row["row_group"], row["reason"]) for row in rows if row["path"] == "lake/\\xff.parquet"] == [
        (None, NOT_UNICODE)
    ]
    assert [row["row_group"] for row in rows if row["path"] == "lake/a.parquet"] == [0]
    assert NOT_UNICODE in [file.error for file in found.errors]
    state = parquet_bloom.index.create("lake", "id")
    assert NOT_UNICODE in [file.error for file in state.errors]
    assert state.rows[0].files == 1
