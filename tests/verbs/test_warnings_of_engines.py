"""`inspect`, `verify` and `report` are careful about the columns that `add` leaves out or notes, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from kinds import KINDS, footer_of, with_exact_filters, write_kind

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.filters import engines, readers

READERS = (None, "duckdb==1.5.*,datafusion>=55,trino", "clickhouse>=26.5,starrocks,doris")
OF_DECIMALS = [
    one for one in engines.HAZARDS if one.is_recent and one.kinds == {"DECIMAL FIXED_LEN_BYTE_ARRAY under 16 bytes"}
]


@pytest.fixture(autouse=True)
def nobody_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(readers.VARIABLE)


def careful(rows: Iterable[Any]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns the hazards of each file's column that has some; all row groups have the same."""
    rows = list(rows)
    found = {(Path(row.path).name, row.column): row.hazards for row in rows}
    assert all(row.hazards == found[Path(row.path).name, row.column] for row in rows)
    return {column: hazards for column, hazards in found.items() if hazards}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind of column, without NULLs and one with NULLs."""
    folder = tmp_path_factory.mktemp("lake")
    for kind in set(KINDS) - {"BOOLEAN", "INTERVAL"}:
        write_kind(folder / f"{kind}.parquet", kind)
    lists = pa.array([[1], None, []])
    nulls = {"a": ["a", None, "b"], "b": ["a", "", "b"], "c": [1, 2, None], "d": lists}
    pq.write_table(pa.table(nulls), folder / "nulls.parquet")
    return folder


@pytest.fixture(scope="module")
def filtered(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files with filters of every column that can have some."""
    folder = tmp_path_factory.mktemp("filtered")
    for path in lake.iterdir():
        names = [leaf.name for leaf in footer_of(path).leaves]
        parquet_bloom.add(path, names, output=folder / path.name, accept_hazards=True)
    return folder


@pytest.mark.parametrize("who", READERS)
def test_the_columns_are_those_that_add_leaves_out_or_notes(who: str | None, lake: Path, filtered: Path) -> None:
    before = {}
    for path in lake.iterdir():
        for leaf in footer_of(path).leaves:
            [row] = parquet_bloom.add(path, leaf.name, readers=who, dry_run=True)
            said = [text for text in (row.error or "", *row.notes) if "loses rows" in text]
            if said and "cannot have a filter" not in said[0]:
                before[path.name, leaf.name] = " ".join(said)
    seen = careful(parquet_bloom.inspect(filtered, readers=who))
    assert seen.keys() == before.keys()
    assert all(any(hazard in said for hazard in seen[column]) for column, said in before.items())
    verified = parquet_bloom.verify(filtered, readers=who)
    assert verified.is_sound
    assert careful(verified) == seen
    report = parquet_bloom.report(filtered, lake.parent / "page.html", readers=who, verification=verified, force=True)
    assert careful(report) == seen


def test_what_depends_on_the_file(filtered: Path) -> None:
    def columns(name: str, who: Any = None) -> set[str]:
        return {column for _, column in careful(parquet_bloom.inspect(filtered / name, readers=who))}

    assert columns("nulls.parquet") == {"a", "b", "c"}
    assert columns("nulls.parquet", ["clickhouse==26.5.*"]) == {"a", "c"}
    assert columns("nulls.parquet", "clickhouse>=26.9.2") == set()
    assert columns("STRING.parquet") == columns("STRING.parquet", "clickhouse==26.3.*") == {"k", "v", "s.v"}
    assert columns("STRING.parquet", "clickhouse>=26.9.2") == columns("DOUBLE.parquet") - {"k"} == set()


def test_filters_that_add_never_writes_are_told_too(tmp_path: Path) -> None:
    path = with_exact_filters(write_kind(tmp_path / "plain", "FLOAT16"), tmp_path / "k.parquet")
    [sentence] = [str(one) for one in engines.HAZARDS if one.kinds == {"FLOAT16"}]
    for rows in (parquet_bloom.inspect(path), parquet_bloom.verify(path)):
        told = {column: sentences for (_, column), sentences in careful(rows).items() if column != "k"}
        assert told == dict.fromkeys(("v", "s.v", "l.list.element"), (sentence,))


def test_a_missing_length_is_told_by_verify_as_by_inspect() -> None:
    path = Path(__file__).parents[2] / "fixtures" / "spark" / "all_types.parquet"
    seen = [row.hazards for row in parquet_bloom.inspect(path, readers="duckdb>=2") if row.num_bytes is not None]
    assert [row.hazards for row in parquet_bloom.verify(path, readers="duckdb>=2")] == seen


def test_the_environment_names_the_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_kind(tmp_path / "k.parquet", "BYTE_ARRAY")
    parquet_bloom.add(path, "v", accept_hazards=True)
    monkeypatch.setenv(readers.VARIABLE, "duckdb>=2")
    assert careful(parquet_bloom.inspect(path)) == careful(parquet_bloom.verify(path)) == {}
    assert careful(parquet_bloom.inspect(path, readers="duckdb>=1.5")).keys() == {("k.parquet", "v")}
    monkeypatch.setenv(readers.VARIABLE, "duckling")
    for verb in (parquet_bloom.inspect, parquet_bloom.verify):
        with pytest.raises(ValueError, match="PARQUET_BLOOM_READERS does not know 'duckling'"):
            verb(path)
        with pytest.raises(ValueError, match="readers= does not know 'duckling'"):
            verb(path, readers="duckling")


# ---- the command line --------------------------------------------------------------------


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def decimals(tmp_path: Path) -> Path:
    """Two files of ten decimals, each with two row groups, and a column without hazards."""
    (tmp_path / "lake").mkdir()
    table = pa.table({f"d{number}": [Decimal(7), Decimal(8)] for number in range(10)} | {"id": [1.0, 2.0]})
    for part in "ab":
        pq.write_table(table, tmp_path / "lake" / f"{part}.parquet", row_group_size=1)
        parquet_bloom.add(tmp_path / "lake" / f"{part}.parquet", table.column_names, accept_hazards=True)
    return tmp_path / "lake"


NAMES = "d0, d1, d2, d3, d4, d5, d6, d7 and 2 more"


def test_verify_names_each_hazard_once_and_ends_as_without(decimals: Path) -> None:
    told = [f"careful: {one}: {NAMES}" for one in OF_DECIMALS]
    result = run("verify", decimals)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[2:] == [*told, "2 files, 44 filters, all ok"]
    assert run("verify", decimals, "-q").stdout.splitlines() == told
    result = run("verify", decimals, "--readers", "datafusion>=54")
    assert result.stdout.splitlines()[2:-1] == [line for line in told if "DataFusion" in line]
    assert "careful" not in run("verify", decimals, "--readers", "datafusion>=55").stdout
    records = [json.loads(line) for line in run("verify", decimals, "--json").stdout.splitlines()]
    hazards = {one["column"]: one["hazards"] for record in records for one in record["filters"]}
    assert hazards == {f"d{number}": list(map(str, OF_DECIMALS)) for number in range(10)} | {"id": []}


@pytest.mark.parametrize("more", [(), ("--all",)])
def test_inspect_names_each_hazard_of_a_file_once(decimals: Path, more: tuple[str, ...]) -> None:
    said = run("inspect", decimals / "a.parquet", *more).stdout.splitlines()
    assert said[-len(OF_DECIMALS) :] == [f"  careful: {one}: {NAMES}" for one in OF_DECIMALS]
    assert not any("careful" in line for line in said[: -len(OF_DECIMALS)])
    assert "careful" not in run("inspect", decimals, *more, "--readers", "duckdb>=2,deltalake>=1.6.3").stdout


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_readers_that_are_not_known_are_a_usage_error(decimals: Path, verb: str) -> None:
    result = run(verb, decimals, "--readers", "duckling>=1")
    assert result.exit_code == 2
    assert "--readers does not know 'duckling'" in result.stderr
