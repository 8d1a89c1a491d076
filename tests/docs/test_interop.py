"""The page of the matrix is its JSON's, and `inspect` says of each engine what the matrix says."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents import text
from interop.matrix import page
from interop.matrix.about import ENGINES
from interop.matrix.column_types import NESTED, WIDENED
from interop.matrix.measure import write_nested
from interop.matrix.programs import pins
from kinds import KINDS, footer_of, write_kind

from parquet_bloom.filters import engines
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn

PARQUET_JAVA = "1.17.0"  # in the jars of pyspark
MATRIX = json.loads(text(page.DATA))
NAMED = (engines.DUCKDB, engines.DATAFUSION, engines.CLICKHOUSE, engines.SPARK)


def test_the_page_is_that_of_the_json():
    assert text(page.DATA) == page.as_json(MATRIX)
    assert text(page.PAGE) == page.render(MATRIX)


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
