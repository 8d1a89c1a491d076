"""Tables whose columns were renamed, swapped and added again: no row that Hudi reads is excluded, by any verb."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parquet_bloom import index, lookup, prune
from parquet_bloom.errors import ColumnNotFoundError, ParquetBloomError
from parquet_bloom.tables import live_sources
from parquet_bloom.tables.hudi_schemas import History, newest_commits

pytestmark = pytest.mark.usefixtures("mtime_stable")

FIXTURES = Path(__file__).parents[3] / "fixtures" / "hudi_evolved"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip") if not path.stem.endswith("_logs"))
EVOLVED = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def table(name: str, tmp_path: Path) -> Path:
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
        packed.extractall(tmp_path / name)
    return tmp_path / name


def flat(row: dict[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        found |= flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return found


def questions(name: str, table: Path) -> Iterator[tuple[str, Any, set[str]]]:
    """Yields columns and values that Hudi has in rows, and the files that hold these rows, however it reads them."""
    files = {}
    for source in live_sources(table)[0]:
        files |= dict.fromkeys(pq.read_table(source.path, columns=["id"])["id"].to_pylist(), source.path)
    found: dict[tuple[str, Any], set[str]] = {}
    ways = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    for rows in ways.values():
        shown = [flat(row) for row in rows]
        columns = {column for row in shown for column in row}
        for row in shown:
            for column in columns:
                found.setdefault((column, row.get(column)), set()).add(files[row["id"]])
    assert len(found) > 30
    yield from ((column, value, paths) for (column, value), paths in found.items())


def condition(column: str, value: Any) -> str:
    if value is None:
        return f"{column} IS NULL"
    return f"{column} = '{value}'" if isinstance(value, str) else f"{column} = {value}"


def kept(verdicts: Any) -> set[str]:
    return {file.path for file in verdicts.all_files if file.is_kept}


@EVOLVED
def test_prune_keeps_every_row_that_hudi_reads(name: str, table: Path) -> None:
    for column, value, paths in questions(name, table):
        where = condition(column, value)
        assert paths <= kept(prune(table, where)), where


@EVOLVED
def test_lookup_keeps_every_row_that_hudi_reads(name: str, table: Path) -> None:
    for column, value, paths in questions(name, table):
        if value is not None:
            found = set(lookup(table, column, [value]).to_arrow()["path"].to_pylist())
            assert paths <= found, (column, value)


@EVOLVED
def test_an_index_keeps_every_row_that_hudi_reads(name: str, table: Path) -> None:
    columns = {column for column, value, _ in questions(name, table) if value is not None and "." not in column}
    index.create(table, sorted(columns))
    for column, value, paths in questions(name, table):
        where = condition(column, value)
        assert paths <= kept(prune(table, where)), where
        if value is not None:
            assert paths <= set(lookup(table, column, [value]).to_arrow()["path"].to_pylist()), where


@EVOLVED
def test_columns_that_are_what_they_were_prune_as_ever(name: str, table: Path) -> None:
    for column, value, paths in questions(name, table):
        if column == "id":
            assert kept(prune(table, f"id = {value}")) == paths
            assert set(lookup(table, "id", [value]).to_arrow()["path"].to_pylist()) == paths
            assert kept(prune(table, f"_hoodie_record_key = '{value}'")) == paths


@pytest.mark.parametrize("name", ["v9_swap"])
def test_the_reason_is_told(name: str, table: Path) -> None:
    for column in "aA":
        pruned = prune(table, f"{column} = -1", case_sensitive=False)
        reasons = {row.reason for row in pruned.rows}
        assert "column a had another name, id or type when the file was written" in reasons
    assert not prune(table, "id = -1").might_match
    with pytest.raises(ParquetBloomError, match="other names"):
        pruned.to_dataset()
    with pytest.raises(ColumnNotFoundError):
        prune(table, "nowhere = 1")


@pytest.mark.parametrize("name", ["v6_readd", "v9_readd"])
@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"schemas": [{}]}', b'{"schemas": [{"version_id": "x", "fields": []}]}']
)
def test_schemas_that_are_not_understood_prove_nothing(name: str, table: Path, damaged: bytes) -> None:
    newest = max((table / ".hoodie" / ".schema").glob("[0-9]*.schemacommit"))
    newest.write_bytes(damaged)
    verdicts = prune(table, "id = -1").all_files
    assert verdicts
    assert all("schemas (.hoodie/.schema) cannot be read" in (file.not_pruned or "") for file in verdicts)


def field(number: int, name: str, kind: object = "long") -> dict[str, Any]:
    return {"id": number, "name": name, "optional": True, "type": kind}


def history(*versions: tuple[int, list[dict[str, Any]]], committed: set[int] | None = None) -> History:
    schemas = [{"version_id": number, "fields": fields} for number, fields in versions]
    known = {number for number, _ in versions} if committed is None else committed
    return History([json.dumps({"schemas": schemas})], lambda instant: int(instant) in known)


def test_a_column_must_be_the_same_in_all_versions_since() -> None:
    names = history(
        (0, [field(5, "a")]), (20, [field(5, "b")]), (30, [field(5, "a")]), (40, [field(5, "a"), field(6, "c")])
    )
    assert names.unlike("10") == {"a", "b", "c"}
    assert names.unlike("20") == {"a", "b", "c"}
    assert names.unlike("35") == {"c"}
    assert names.unlike("40") == names.unlike("99") == frozenset()


def test_a_version_that_was_not_committed_counts_against_columns_only() -> None:
    names = history((0, [field(5, "a")]), (20, [field(5, "b")]), committed=set())
    assert names.unlike("10") == names.unlike("30") == {"a", "b"}
    assert history((0, [field(5, "a")])).unlike("30") == frozenset()
    assert History((), lambda _: True).unlike("30") == frozenset()


def test_wider_integers_are_the_same_column_and_other_types_are_not() -> None:
    assert history((0, [field(5, "a", "int")]), (20, [field(5, "a")])).unlike("1") == frozenset()
    for kinds in (("float", "double"), ("int", "string"), ("long", "double"), ("decimal(4, 2)", "decimal(6, 2)")):
        assert history((0, [field(5, "a", kinds[0])]), (20, [field(5, "a", kinds[1])])).unlike("1") == {"a"}
    inside = [{"type": "record", "fields": [field(6, name)]} for name in ("int", "long")]
    assert history((0, [field(5, "a", inside[0])]), (20, [field(5, "a", inside[1])])).unlike("1") == {"a"}


def test_only_the_newest_files_of_schemas_are_read() -> None:
    names = [
        "1_2.schemacommit",
        "3_4.schemacommit",
        "5_6.schemacommit",
        "5.schemacommit.inflight",
        ".3_4.schemacommit.crc",
    ]
    assert newest_commits(names, lambda instant: instant == "3") == ["5_6.schemacommit", "3_4.schemacommit"]
    assert newest_commits(["20.schemacommit", "3.schemacommit"], lambda _: True) == ["20.schemacommit"]
    assert newest_commits([], lambda _: True) == []


@pytest.mark.parametrize("name", ["v6_logs", "v9_logs"])
def test_the_checksum_of_a_log_file_is_no_log_file(name: str, table: Path) -> None:
    assert [*table.glob("..*.log.*.crc")]
    (file,) = live_sources(table)[1].files
    assert file.path.endswith(".parquet")
    assert set(lookup(table, "id", [-1]).to_arrow()["path"].to_pylist()) == {file.path}
    assert {verdict.path for verdict in prune(table, "id = -1").kept_files} == {file.path}
