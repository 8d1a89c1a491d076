"""The index of a file that is there already: the very bytes that Paimon wrote beside it."""

from __future__ import annotations

import zipfile
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import extremes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import unpacked
from samples import FIXTURES

import parquet_bloom
from parquet_bloom import lookup, probe, prune, verify
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError
from parquet_bloom.filters import paimon

INDEXED = ["id", "name", "small", "price", "ratio", "day", "at", "fine", "zoned", "raw"]


def test_the_index_is_the_one_that_paimon_wrote(tmp_path: Path) -> None:
    seen = 0
    with zipfile.ZipFile(FIXTURES / "paimon" / "append.zip") as packed:
        for name in packed.namelist():
            if name.endswith(".index"):
                path = tmp_path / Path(name).stem
                path.write_bytes(packed.read(name.removesuffix(".index")))
                assert parquet_bloom.paimon.build_index(path, INDEXED, ndv=60, fpp=0.05) == packed.read(name)
                seen += 1
    assert seen == 7


def test_the_index_of_the_ends_of_every_type_is_the_one_that_paimon_wrote(tmp_path: Path) -> None:
    folder = unpacked("paimon_1_4/extremes", tmp_path) / "bucket-0"
    (path,) = folder.glob("*.parquet")
    (index,) = folder.glob("*.index")
    types = {f"c{number}": kind for number, kind in enumerate(extremes.PAIMON)}
    made = paimon.parse_container(parquet_bloom.paimon.build_index(path, types, ndv=50, fpp=0.001, types=types))
    theirs = paimon.parse_container(index.read_bytes())
    assert [types[name] for name in types if made[name] != theirs[name]] == []
    assert parquet_bloom.paimon.build_index(path, types, ndv=50, fpp=0.001, types=types) == index.read_bytes()


def test_paimons_own_index_of_the_ends_of_every_type_is_found_right(tmp_path: Path) -> None:
    table = unpacked("paimon_1_4/extremes", tmp_path)
    rows = verify(table).rows
    assert {row.column for row in rows} == {f"c{number}" for number in range(len(extremes.PAIMON))}
    kinds = [*extremes.PAIMON]
    assert [(kinds[int(row.column[1:])], row.verdict, row.example) for row in rows if row.verdict != "ok"] == []
    assert all(row.num_values for row in rows)


@pytest.mark.parametrize("number", range(len(extremes.PAIMON)), ids=[*extremes.PAIMON])
def test_no_value_at_the_ends_of_a_type_is_excluded(number: int, tmp_path: Path) -> None:
    table, name = unpacked("paimon_1_4/extremes", tmp_path), f"c{number}"
    kind, values = [*extremes.PAIMON.items()][number]
    literals = [found for value in values if (found := extremes.literal(kind, value)) is not None]
    zone = "UTC" if kind.endswith("ZONE") else None
    candidates = lookup(table, name, literals, timezone=zone).to_arrow()
    assert None not in candidates["path"].to_pylist()
    answers = [row for row in probe(table, name, literals, timezone=zone).rows if row.answer != "MIGHT_MATCH"]
    assert answers == []
    for literal in literals:
        verdicts = prune(table, [(name, "=", literal)], timezone=zone).rows
        assert {row.answer for row in verdicts} == {"MIGHT_MATCH"}, (kind, literal)


ROWS = {
    "int8": (pa.array([1, None, -1], pa.int8()), "TINYINT"),
    "date": (pa.array([date(2026, 1, 31), None, date(1960, 1, 1)]), "DATE"),
    "time": (pa.array([time(1, 2, 3, 4000), None, time(0)], pa.time32("ms")), "TIME(0)"),
    "millis": (pa.array([datetime(2026, 1, 31), None, datetime(1960, 1, 1)], pa.timestamp("ms")), "TIMESTAMP(1)"),
    "nanos": (pa.array([1, None, -1_000_000_001], pa.int64()).cast(pa.timestamp("ns")), "TIMESTAMP(9)"),
    "text": (pa.array(["a", None, "a"]), "VARCHAR(9)"),
}


def written(path: Path, **options: Any) -> Path:
    pq.write_table(pa.table({name: values for name, (values, _) in ROWS.items()}), path, row_group_size=2, **options)
    return path


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"use_deprecated_int96_timestamps": True}])
def test_every_type_is_hashed_as_paimon_does(options: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", **options)
    names = [*ROWS] if "use_deprecated_int96_timestamps" not in options else [name for name in ROWS if name != "millis"]
    found = paimon.parse_container(
        parquet_bloom.paimon.build_index(path, names, ndv=dict.fromkeys(names, 20), fpp=dict.fromkeys(names, 0.01))
    )
    assert set(found) == set(names)
    for name in names:
        values, kind = ROWS[name]
        assert found[name] == {"bloom-filter": paimon.build(values, kind, items=20, fpp=0.01)}


def test_a_type_of_the_table_goes_before_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    made = parquet_bloom.paimon.build_index(
        path, ["millis"], ndv=20, fpp=0.01, types={"millis": "TIMESTAMP(3) NOT NULL"}
    )
    assert paimon.parse_container(made)["millis"]["bloom-filter"] == paimon.build(*ROWS["millis"], items=20, fpp=0.01)
    with pytest.raises(TypeError):
        parquet_bloom.paimon.build_index(path, ["text"], types={"text": "INT"})


def test_a_file_without_rows_has_filters_without_bits(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    (found,) = paimon.parse_container(
        parquet_bloom.paimon.build_index(tmp_path / "a.parquet", ["id"], ndv=8, fpp=0.5)
    ).values()
    assert found == {"bloom-filter": b"\0\0\0\1\0\0"}


@pytest.mark.parametrize(
    "array", [pa.array([True]), pa.array([[1]]), pa.array([1], pa.uint32()), pa.array([b"1"], pa.binary(1))]
)
def test_columns_that_paimon_has_no_filters_of_are_refused(array: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": array}), tmp_path / "a.parquet")
    with pytest.raises((UnsupportedError, ColumnNotFoundError)):
        parquet_bloom.paimon.build_index(tmp_path / "a.parquet", ["x"])


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet")
    with pytest.raises(ColumnNotFoundError, match="text"):
        parquet_bloom.paimon.build_index(path, ["texts"])
    with pytest.raises(FileNotFoundError):
        parquet_bloom.paimon.build_index(tmp_path / "b.parquet", ["text"])
    written(tmp_path / "c.parquet")
    with pytest.raises(UnsupportedError, match="2 files"):
        parquet_bloom.paimon.build_index(tmp_path, ["text"])
