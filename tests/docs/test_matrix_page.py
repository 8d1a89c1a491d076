"""The page of the matrix is its JSON's, and `inspect` says of each engine what the matrix says."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents import text
from interop.matrix import page, releases_page
from interop.matrix.about import ENGINES
from interop.matrix.column_types import NESTED, WIDENED
from interop.matrix.measure import write_nested
from interop.matrix.programs import pins
from kinds import KINDS, footer_of, write_kind

from parquet_bloom.filters import engines
from parquet_bloom.filters.engines import Hazard
from parquet_bloom.filters.readers import ANYONE
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn

PARQUET_JAVA = "1.17.0"  # in the jars of pyspark
MATRIX = json.loads(text(page.DATA))
RELEASES = json.loads(text(releases_page.DATA))
LOSING = releases_page.losing(RELEASES)
NAMED = (engines.DUCKDB, engines.DATAFUSION, engines.CLICKHOUSE, engines.SPARK)


def test_the_page_is_that_of_the_json():
    assert text(page.DATA) == page.as_json(MATRIX)
    assert text(page.PAGE) == page.render(MATRIX, RELEASES)


def test_the_json_of_releases_is_as_it_is_written():
    assert text(releases_page.DATA) == releases_page.as_json(RELEASES)
    assert releases_page.DATA.stat().st_size < 1_000_000


def test_no_cell_lost_a_row():
    assert list(MATRIX) == list(ENGINES)
    cells = [
        cell for engine in MATRIX.values() for verb in ("reads", "writes") for cell in engine.get(verb, {}).values()
    ]
    cells += [cell["IN"] for cell in cells if "IN" in cell]
    assert len(cells) > 1400
    assert not [cell for cell in cells if cell["answer"] == "LOST"]


def test_the_versions_are_those_that_are_installed():
    pinned = pins()
    versions = {engine["package"]: engine["version"].split()[0] for engine in MATRIX.values()}
    assert versions == {package: pinned.get(package, PARQUET_JAVA) for package in versions}


def test_each_difference_is_a_line():
    changed = copy.deepcopy(MATRIX)
    changed["DuckDB"]["reads"]["INT64"]["answer"] = "cannot"
    changed["DuckDB"]["reads"]["INT64"]["IN"]["answer"] = "no"
    del changed["Spark"]["writes"]["INT96"]["filters"]
    changed["Trino"]["version"] = "1"
    assert list(page.differences(MATRIX, MATRIX)) == []
    assert list(page.differences(MATRIX, changed)) == [
        "DuckDB, reads, INT64: answer yes -> cannot; IN answer yes -> no",
        "Spark, writes, INT96: filters 4 -> nothing",
        f"Trino, version: {MATRIX['Trino']['version']} -> 1",
    ]


def test_add_refuses_the_columns_of_tables_that_lose_rows(tmp_path: Path):
    for name, widened in WIDENED.items():
        pq.write_table(pa.table({"v": pa.nulls(1, widened.arrow)}), tmp_path / name, store_decimal_as_integer=True)
        table_leaf = footer_of(tmp_path / name).leaves[0]
        footer = footer_of(write_kind(tmp_path / "of the file", widened.kind))
        cells = [engine["reads widened"][name] for engine in MATRIX.values() if "reads widened" in engine]
        answers = {each["answer"] for cell in cells for each in (cell, cell["IN"])}
        assert len(cells) == 6
        assert answers <= {"yes", "no", "cannot", "loses rows"}
        hazards = engines.hazards(footer, footer.leaves[1], table_leaf)
        assert any(one.when == "other type" for one in hazards) == ("loses rows" in answers), name


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Footer, LeafColumn]]:
    """The file and the column of each row of the matrix."""
    folder = tmp_path_factory.mktemp("rows")
    found = {kind: footer_of(write_kind(folder / kind, kind)) for kind in KINDS}
    nested = footer_of(write_nested(folder / "nested", ""))
    by_name = {leaf.name: leaf for leaf in nested.leaves}
    return {kind: (footer, footer.leaves[1]) for kind, footer in found.items()} | {
        row: (nested, by_name[name]) for row, name in NESTED.items()
    }


@pytest.mark.parametrize("engine", NAMED)
def test_inspect_names_the_engines_that_the_matrix_names(leaves, engine):
    cells = MATRIX[engine]["reads"]
    assert cells.keys() == leaves.keys()
    uses = {row for row, cell in cells.items() if cell["answer"] in ("yes", "loses rows")}
    uses_lists = {row for row, cell in cells.items() if cell["IN"]["answer"] in ("yes", "loses rows")}
    loses = {row for row, cell in cells.items() if cell["answer"] == "loses rows"}
    assert uses == uses_lists == {row for row, (_, leaf) in leaves.items() if engine in engines.users(leaf, 64)}
    hazards = {row: engines.hazards(footer, leaf) for row, (footer, leaf) in leaves.items()}
    open_ = {row for row, ones in hazards.items() if any(one.engine == engine and not one.mended for one in ones)}
    assert loses == open_


# ---- which release loses what -------------------------------------------------------------


def test_the_releases_are_those_of_the_table():
    tried = {
        engine: {
            version: release["date"] for version, release in about["releases"].items() if "not tried" not in release
        }
        for engine, about in RELEASES.items()
    }
    assert tried == {
        engine: {version: str(date) for version, date in engines.releases(engine).items()} for engine in RELEASES
    }
    assert {about["measured"] for about in RELEASES.values()} == {str(engines.MEASURED)}


@pytest.fixture(scope="module")
def hazards_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, str], list[Hazard]]:
    """A function from a kind, a number of row groups and a question to what may lose rows there."""
    folder = tmp_path_factory.mktemp("lost")

    @functools.cache
    def known(kind: str, groups: int) -> tuple[Hazard, ...]:
        path = folder / f"{kind} {groups}"
        write_kind(path, kind, rows=2 * groups, nulls=2, columns=("k", "v"), row_group_size=2)
        footer = footer_of(path)
        return engines.hazards(footer, footer.leaves[1])

    def hazards_of(kind: str, groups: int, question: str) -> list[Hazard]:
        return [one for one in known(kind, groups) if (one.when == "nulls") == (question == "default")]

    return hazards_of


def test_every_cell_that_loses_rows_is_a_hazard_that_add_tells(hazards_of):
    assert len(LOSING) > 100
    for engine, version, kind, groups, question in LOSING:
        known = [one for one in hazards_of(kind, groups, question) if one.engine == engine and one.concerns(version)]
        assert known, (engine, version, kind, groups, question)
        assert any(map(ANYONE.are_told, known)), (engine, version, kind, groups, question)


def test_every_hazard_loses_rows_in_each_of_its_releases(hazards_of):
    """But for what is of other types, and for columns that `add` refuses."""
    lose = {
        (hazard, version)
        for engine, version, kind, groups, question in LOSING
        for hazard in hazards_of(kind, groups, question)
        if hazard.engine == engine
    }
    measured = [
        hazard
        for hazard in engines.HAZARDS
        if hazard.engine in RELEASES and hazard.mended and hazard.when != "other type"
    ]
    assert len(measured) >= 5
    for hazard in measured:
        assert hazard.tried
        assert [version for version in hazard.tried if (hazard, version) not in lose] == [], hazard
