"""Columns that base files hold otherwise than readers see them, or not: no row that Hudi reads is lost, by any verb."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import opened

from parquet_bloom import LiteralError, UnsupportedError, absent, find, index, lookup, prune
from parquet_bloom.tables.hudi import _Instant, _newest_schema
from parquet_bloom.tables.hudi_columns import HudiColumns
from parquet_bloom.tables.hudi_properties import _BY_VALUE, _UNDERSTOOD
from parquet_bloom.tables.live_files import LiveFile

pytestmark = pytest.mark.usefixtures("mtime_stable")

FIXTURES = Path(__file__).parents[3] / "fixtures" / "hudi_columns"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip"))
RELEASES = ["v6", "v9"]


class Lake:
    """A table, and what Hudi reads of it: rows, the types of their columns, and the keys of rows that match."""

    def __init__(self, name: str, root: Path) -> None:
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
            packed.extractall(root)
        self.root = root
        answers = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
        self.types: dict[str, str] = answers["types"]
        self.rows: dict[str, dict[str, Any]] = {row["k"]: row for row in answers["rows"]}
        self.conditions: dict[str, list[str]] = answers["conditions"]

    def group(self, key: str) -> str:
        """Returns the file group that has a row."""
        return str(self.rows[key]["_hoodie_file_name"]).partition("_")[0]

    def value(self, key: str, column: str) -> Any:
        value = self.rows[key].get(column)
        return datetime.fromisoformat(value) if value and self.types[column] == "timestamp" else value

    def change(self, old: str, new: str) -> None:
        """Changes the table's properties."""
        path = self.root / ".hoodie" / "hoodie.properties"
        text = path.read_text("latin-1")
        assert re.search(old, text, re.MULTILINE)
        path.write_text(re.sub(old, new, text, flags=re.MULTILINE), "latin-1")


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Lake]:
    return lambda name: Lake(name, tmp_path / name)


def group_of(path: str) -> str:
    return path.rpartition("/")[2].lstrip(".").partition("_")[0]


def kept(lake: Lake, where: str) -> set[str]:
    return {group_of(file.path) for file in prune(lake.root, where, timezone="UTC").all_files if file.is_kept}


def lost(lake: Lake) -> Iterator[str]:
    """Yields what is lost of the rows that Hudi returns, by `prune` and `lookup`."""
    for where, keys in lake.conditions.items():
        if not {lake.group(key) for key in keys} <= kept(lake, where):
            yield f"prune {where}"
    for column in lake.types:
        wanted = {value: lake.group(key) for key in lake.rows if (value := lake.value(key, column)) is not None}
        if not wanted:
            continue
        found = lookup(lake.root, column, list(wanted), timezone="UTC").to_arrow().to_pylist()
        places = {(row["key"], group_of(row["path"] or "")) for row in found}
        yield from (f"lookup {column} {value!r}" for value, group in wanted.items() if (value, group) not in places)


@pytest.mark.parametrize("name", NAMES)
def test_prune_and_lookup_keep_every_row_that_hudi_reads(name: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack(name)
    assert list(lost(lake)) == []
    if name.startswith("v9"):
        index.create(lake.root, [column for column in lake.types if column != "p" or not name.endswith("dropped")])
        assert list(lost(lake)) == []


@pytest.mark.parametrize("name", NAMES)
def test_find_returns_the_rows_that_hudi_reads_or_says_which_files_it_left_out(
    name: str, unpack: Callable[[str], Lake]
) -> None:
    lake = unpack(name)
    for where, keys in lake.conditions.items():
        column = where.partition(" ")[0]
        try:
            found = find(lake.root, where, columns=["k", column], timezone="UTC")
            rows = {row["k"]: row[column] for row in found.to_arrow().to_pylist()}
        except (UnsupportedError, LiteralError):
            continue
        left_out = {group_of(error.path) for error in found.errors}
        assert rows.keys() <= set(keys), where
        assert {lake.group(key) for key in set(keys) - rows.keys()} <= left_out, where
        assert rows == {key: lake.value(key, column) for key in rows}, where


@pytest.mark.parametrize("name", NAMES)
def test_no_live_key_is_called_absent(name: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack(name)
    for column in lake.types:
        keys = list({value for key in lake.rows if (value := lake.value(key, column)) is not None})
        try:
            found = absent(lake.root, column, keys, timezone="UTC")
        except UnsupportedError:
            continue
        assert found.keys.to_pylist() == [], column


# ---- what each proves --------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_a_column_that_a_bootstrap_left_in_its_source_is_not_null(release: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack(f"{release}_bootstrap")
    skeleton, whole = lake.group("k3"), lake.group("k101")
    assert kept(lake, "n = 3") == {skeleton}
    assert kept(lake, "_hoodie_record_key = 'k3'") == {skeleton}
    assert kept(lake, "_hoodie_record_key = 'k101'") == {whole}
    found = find(lake.root, "n >= 0", columns=["k", "n"])
    assert {row["k"] for row in found.to_arrow().to_pylist()} == {"k100", "k101", "k102"}
    (error,) = found.errors
    assert (group_of(error.path), "the file does not store" in error.error) == (skeleton, True)
    gone = absent(lake.root, "n", [3, 101, -1])
    assert (gone.keys.to_pylist(), gone.unknown.to_pylist()) == ([], [3, -1])
    with pytest.raises(UnsupportedError, match="columns may be in the files that the table was made from"):
        prune(lake.root, "n = 3").to_dataset()


@pytest.mark.parametrize("release", RELEASES)
def test_a_file_of_an_older_type_proves_nothing_of_that_column(release: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack(f"{release}_widened")
    (older,) = {lake.group(key) for key in lake.rows if key[0] == "m"}
    assert older in kept(lake, "f = 16777217")
    assert "m9" in lake.conditions["f = 16777217"]
    assert older in kept(lake, "t > '10'")
    assert older not in kept(lake, "w = 3000000000")  # an INT of a BIGINT has the same numbers
    assert older not in kept(lake, "k = 'k3'")
    found = lookup(lake.root, "t", ["3", "x"]).to_arrow().to_pylist()
    assert {row["key"] for row in found if group_of(row["path"] or "") == older} == {"3", "x"}
    (reason,) = {file.reason for file in prune(lake.root, "f = 3").rows if group_of(file.path) == older}
    assert reason == "f is FLOAT in the table and INT32 in the file"
    # As of the write before, the table was one of integers.
    instants = sorted(path.name.partition(".")[0].partition("_")[0] for path in lake.root.rglob("*.deltacommit"))
    before = prune(lake.root, "f = 20000000", as_of=instants[1])
    assert older not in {group_of(file.path) for file in before.kept_files}
    assert older in kept(lake, "f = 20000000")


def test_a_column_that_came_later_is_null_where_the_timeline_shows_it(unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v9_grown")
    assert len(find(lake.root, "n IS NULL", columns=["k", "n"]).to_arrow()) == 5
    first = min(path for path in (lake.root / ".hoodie").rglob("*.commit"))
    first.unlink()  # as if it had been archived
    found = find(lake.root, "n IS NULL", columns=["k", "n"])
    assert found.to_arrow()["k"].to_pylist() == ["m1"]
    assert "the file does not store n, and nothing shows that the table got it later" in found.errors[0].error
    assert absent(lake.root, "n", [-1]).keys.to_pylist() == []
    assert len(find(lake.root, "k IS NOT NULL", columns=["k"]).to_arrow()) == 8


def test_partitions_exclude_what_matches_neither_in_the_path_nor_in_the_file(unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v9_paths")
    plain, pair = lake.group("k5"), lake.group("k2")
    for where in ("p = 'y'", "p = 'x=y'"):
        assert pair in kept(lake, where)
        assert plain not in kept(lake, where)
    assert lake.group("k3") in kept(lake, "p = 'a/b'") & kept(lake, "p = 'a%2Fb'")
    assert {lake.group(key) for key in ("k0", "k1", "k6")} <= kept(lake, "p IS NULL") & kept(lake, "p = ''")
    assert kept(lake, "p = 'plain'") == {plain}
    found = find(lake.root, "p = 'plain'", columns=["k", "p"])
    assert found.to_arrow().to_pylist() == [{"k": "k5", "p": "plain"}]
    assert len(find(lake.root, "n >= 0", columns=["n"]).to_arrow()) == 7


@pytest.mark.parametrize("name", ["v6_epochs", "v9_epochs", "v9_times"])
def test_partition_columns_of_other_key_generators_and_types_prove_nothing(
    name: str, unpack: Callable[[str], Lake]
) -> None:
    lake = unpack(name)
    every = {lake.group(key) for key in lake.rows}
    for where in ("p IS NULL", "p IS NOT NULL", "p = '2024/01/01'", "p = 1704067200", "p = DATE '1999-01-01'"):
        assert kept(lake, where) == every
    assert kept(lake, "k = 'k0'") == {lake.group("k0")}
    with pytest.raises(UnsupportedError):
        find(lake.root, "p IS NOT NULL", strict=True).to_arrow()


def test_values_of_dropped_partition_columns_are_those_of_the_paths(unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v9_dropped")
    assert kept(lake, "p = 'plain'") >= {lake.group("k5")}
    assert lake.group("k5") not in kept(lake, "p = 'other'")
    assert find(lake.root, "n = 5", columns=["k", "p"]).to_arrow().to_pylist() == [{"k": "k5", "p": "plain"}]
    assert "p" in find(lake.root, "n = 5").schema.names


# ---- what is understood ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "hoodie.table.partition.value.source=elsewhere",
        "hoodie.schema.of.another.kind=1",
        "hoodie.bootstrap.other.base.path=s3://x",
        "hoodie.table.format=iceberg",
        "hoodie.datasource.write.slash.separated.date.partitioning=true",
        "hoodie.allow.operation.metadata.field=true",
        "hoodie.parquetry=1",
    ],
)
def test_a_property_that_is_not_understood_keeps_everything(line: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v9_numbers")
    assert len(kept(lake, "k = 'k0'")) == 1
    lake.change(r"\Z", f"{line}\nhoodie.parquet.max.file.size=1\nhoodie.keygen.timebased.timezone=UTC\nother=1\n")
    verdicts = prune(lake.root, "k = 'k0'").all_files
    assert {file.not_pruned for file in verdicts} == {f"the table's property {line} is not understood"}
    assert len(lookup(lake.root, "k", ["none"]).to_arrow()) == len(lake.rows)
    assert absent(lake.root, "k", ["none"]).keys.to_pylist() == []
    found = find(lake.root, "k = 'k0'", columns=["k"])
    assert (found.to_arrow().num_rows, len(found.errors)) == (0, len(lake.rows))


@pytest.mark.parametrize(
    "given", ["USER_PROVIDED", "org.example.SimpleKeyGenerator", "CUSTOM", "SIMPLE_OF_ANOTHER_KIND"]
)
def test_a_key_generator_that_is_not_understood_keeps_partitions(given: str, unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v9_numbers")
    assert kept(lake, "p = 3") == {lake.group("k1")}
    lake.change(r"keygenerator\.type=.*", f"keygenerator.type={given}")
    assert len(kept(lake, "p = 3")) == len(lake.rows)
    assert kept(lake, "k = 'k1'") == {lake.group("k1")}


def test_a_table_whose_schema_is_not_known_keeps_everything(unpack: Callable[[str], Lake]) -> None:
    lake = unpack("v6_epochs")
    (commit,) = (lake.root / ".hoodie").glob("*.commit")
    data = json.loads(commit.read_text("utf-8"))
    for schema in ("", "{", '{"type": "record", "fields": [{}]}'):
        commit.write_text(json.dumps(data | {"extraMetadata": {"schema": schema}}), "utf-8")
        assert {file.not_pruned for file in prune(lake.root, "k = 'k0'").all_files} == {
            "the table's newest schema is not known"
        }


def test_the_documentation_has_what_is_understood() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "pages", "tables.md").read_text("utf-8")
    names = set(re.findall(r"`([A-Za-z._]+\*?)`", page))
    assert _UNDERSTOOD.keys() <= names
    assert {one.rpartition(".")[2] for one in _BY_VALUE} <= names


@pytest.mark.parametrize(("fields", "column"), [("P", "p"), ("st.a:SIMPLE", "st"), ("p", "p")])
def test_partition_columns_are_those_of_the_schema_in_any_case(fields: str, column: str) -> None:
    settings = {
        "hoodie.table.partition.fields": fields,
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    nested = {"type": "record", "name": "st", "fields": [{"name": "a", "type": "long"}]}
    kinds = {"p": "string", "st": nested}
    schema = {"type": "record", "name": "t", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    for dropped in ("true", "false"):
        settings["hoodie.datasource.write.drop.partition.columns"] = dropped
        columns = HudiColumns.of(json.dumps(schema), {}, (), settings)
        file = columns.placed(LiveFile("x/f", "x/f", 1, None), "x", "1")
        assert {name for name, _ in (*file.unproved, *file.directories)} == {column}
        assert bool(file.unproved) == (column == "st")


@pytest.mark.parametrize(
    ("values", "is_known"), [(["x", "x"], True), (["x", "y"], False), (["y", "y"], False), (["x", None], False)]
)
def test_a_partition_column_is_known_where_file_and_path_agree(
    values: list[str | None], is_known: bool, tmp_path: Path
) -> None:
    settings = {"hoodie.table.partition.fields": "p", "hoodie.table.keygenerator.type": "SIMPLE"}
    fields = [{"name": "p", "type": ["null", "string"], "default": None}, {"name": "k", "type": "long"}]
    columns = HudiColumns.of(json.dumps({"type": "record", "name": "t", "fields": fields}), {}, (), settings)
    pq.write_table(pa.table({"p": values, "k": [1, 2]}), tmp_path / "x.parquet")
    file = columns.placed(LiveFile("x/f", "x/f", 1, None), "x", "1")
    assert ("p" in columns.unread(file, opened(tmp_path / "x.parquet")[1])) != is_known


@pytest.mark.parametrize(
    ("folder", "is_hive_style", "texts"),
    [
        ("p=x", True, ["x"]),
        ("P=x", True, ["x"]),
        ("x", True, ["x"]),
        ("q=x", True, ["q=x", "x"]),
        ("p=x", False, ["p=x", "x"]),
        ("x", False, ["x"]),
    ],
)
def test_readers_may_take_a_folder_with_or_without_a_name(folder: str, is_hive_style: bool, texts: list[str]) -> None:
    columns = HudiColumns({}, frozenset(), {"p": None}, (), (), is_hive_style)
    found = columns.placed(LiveFile("f", "f", 1, None), folder, "1")
    assert found.directories == tuple(("p", text) for text in texts)


def test_a_column_that_is_not_null_by_default_is_not_known() -> None:
    def schema(**fields: Any) -> str:
        return json.dumps({"type": "record", "name": "t", "fields": [{"name": n} | f for n, f in fields.items()]})

    older = schema(k={"type": "string"})
    newest = schema(
        k={"type": "string"},
        a={"type": ["null", "long"], "default": None},
        b={"type": "long", "default": 5},
        c={"type": {"type": "record", "name": "c", "fields": [{"name": "d", "type": "long", "default": 1}]}},
        e={"type": {"type": "array", "items": "long"}},
    )
    columns = HudiColumns.of(newest, {"10": older, "20": newest}, (), {})
    later = [columns.placed(LiveFile("f", "f", 1, None), "", instant).later for instant in ("05", "10", "15", "25")]
    assert later == [{("a",), ("e",)}, {("a",), ("e",)}, frozenset(), frozenset()]
    assert columns.paths == {("k",), ("a",), ("b",), ("c", "d"), ("e",)}
    bootstrapped = HudiColumns.of(newest, {"10": older}, (), {"hoodie.bootstrap.base.path": "s3://x"})
    assert bootstrapped.placed(LiveFile("f", "f", 1, None), "", "05").later == frozenset()


def test_two_writers_that_left_different_schemas_keep_everything() -> None:
    first, second = (_Instant(f"{n}", f"{9 - n}", "commit", "") for n in (1, 2))
    assert _newest_schema([first, second], {"1": "a", "2": "a"}) == "a"
    assert _newest_schema([first, second], {"1": "a", "2": "b"}) is None
    assert _newest_schema([first, second], {"1": "a"}) == "a"
