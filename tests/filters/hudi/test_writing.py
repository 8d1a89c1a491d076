"""Files that are given Hudi's filter: the old file is a prefix, nothing else changes, and other programs see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark
from files import footer_bytes

import parquet_bloom
from parquet_bloom import ColumnNotFoundError, FilterExistsError, UnsupportedError, add, drop, inspect, lookup
from parquet_bloom.filters import hudi
from parquet_bloom.filters.hudi import build, filter_of
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.splice import splice_key_values
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find

Unpack = Callable[[str], Any]
KEYS = [f"key-{number % 97}" for number in range(300)]
SETTINGS: dict[str, Any] = {"ndv": 100, "fpp": 1e-4, "max_entries": 150}
OF_HUDI: dict[str, Any] = {"num_entries": 100, "fpp": 1e-4, "max_entries": 150}


def opened(path: Path) -> Footer:
    (source,) = find(path)
    return run(source, read_footer(source.size))


def written(path: Path, keys: list[Any] | None = None, name: str = hudi.RECORD_KEY, **columns: Any) -> bytes:
    keys = KEYS if keys is None else keys
    rows = pa.table({name: pa.array(keys, pa.string()), "x": range(len(keys)), **columns})
    pq.write_table(rows.replace_schema_metadata({"made": "by a test"}), path, row_group_size=70)
    return path.read_bytes()


def all_but(data: bytes) -> bytes:
    """Returns a footer without the entries that are ours to write."""
    names = [hudi.FILTER, hudi.OLD_FILTER, hudi.TYPE_CODE, hudi.MIN_KEY, hudi.MAX_KEY]
    return splice_key_values(footer_bytes(data), dict.fromkeys(names))


@pytest.mark.engines
@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_the_old_file_is_a_prefix_and_the_footer_loses_nothing(tmp_path: Path, kind: str) -> None:
    import duckdb

    path = tmp_path / "a.parquet"
    old = written(path)
    (row,) = parquet_bloom.hudi.add_filter(path, type=kind, **SETTINGS).rows
    new = path.read_bytes()
    assert (row.status, row.size, row.bytes_added) == ("written", len(old), len(new) - len(old))
    assert new[: len(old)] == old
    assert all_but(new) == footer_bytes(old)
    footer = opened(path)
    # Each key as often as a row has it, in the order of the rows: only so are the bytes Hudi's.
    expected = build(KEYS, type=kind, **OF_HUDI)
    assert expected.items() <= footer.key_values.items()
    assert footer.key_values["made"] == "by a test"
    found = filter_of(footer)
    assert found is not None
    assert found.might_contain(KEYS) == b"\1" * len(KEYS)
    assert found.might_contain(["key-", "key-98"]) == b"\0\0"
    assert pq.read_table(path).to_pylist() == pq.read_table(pa.BufferReader(old)).to_pylist()
    assert duckdb.sql(f"SELECT count(*), sum(x) FROM '{path}'").fetchall() == [(300, sum(range(300)))]
    stored = duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{path}')").fetchall()
    assert expected.items() <= {k.decode(): v.decode() for k, v in stored}.items()


def test_a_second_filter_takes_the_first_ones_place(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    old = written(path)
    parquet_bloom.hudi.add_filter(path, **SETTINGS)
    one = path.read_bytes()
    (row,) = parquet_bloom.hudi.add_filter(path, type="SIMPLE", **SETTINGS).rows
    assert (row.status, row.notes) == ("unchanged", ("has a filter",))
    assert path.read_bytes() == one
    (row,) = parquet_bloom.hudi.add_filter(path, type="SIMPLE", replace=True, **SETTINGS).rows
    assert row.status == "written"
    assert path.read_bytes()[: len(one)] == one
    assert opened(path).key_values.keys() == {"made", "ARROW:schema", hudi.FILTER, hudi.MIN_KEY, hudi.MAX_KEY}
    drop(path, restore=True)
    assert path.read_bytes() == old


def test_filters_of_both_kinds_go_together(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path)
    add(path, "x")
    parquet_bloom.hudi.add_filter(path, **SETTINGS)
    assert filter_of(opened(path)) is not None
    assert {(row.column, row.format) for row in inspect(path).rows} == {
        ("x", "Parquet"),
        (hudi.RECORD_KEY, "Hudi DYNAMIC_V0"),
    }


def test_a_dry_run_tells_the_size_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    old = written(path)
    (planned,) = parquet_bloom.hudi.add_filter(path, dry_run=True).rows
    assert path.read_bytes() == old
    (row,) = parquet_bloom.hudi.add_filter(path).rows
    assert (planned.status, planned.bytes_added) == ("planned", row.bytes_added)
    assert 431_380 < row.bytes_added == path.stat().st_size - len(old) < 435_000


def test_copies_are_written_elsewhere(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "in").mkdir(exist_ok=True)
        written(tmp_path / "in" / f"{name}.parquet")
    parquet_bloom.hudi.add_filter(tmp_path / "in", output=tmp_path / "out", **SETTINGS)
    for name in ("a", "b"):
        assert filter_of(opened(tmp_path / "in" / f"{name}.parquet")) is None
        assert filter_of(opened(tmp_path / "out" / f"{name}.parquet")) is not None
    with pytest.raises(FilterExistsError):
        parquet_bloom.hudi.add_filter(tmp_path / "in", output=tmp_path / "out", strict=True, **SETTINGS)


def test_several_files_at_once_are_written_the_same(tmp_path: Path) -> None:
    for number in range(6):
        written(tmp_path / f"{number}.parquet", [f"{number}-{key}" for key in KEYS])
    told: list[tuple[int, int]] = []
    for jobs in (1, 3):
        done = parquet_bloom.hudi.add_filter(
            tmp_path / "[0-5].parquet",
            output=tmp_path / str(jobs),
            jobs=jobs,
            progress=lambda *counts: told.append(counts),
            **SETTINGS,
        )
        assert [row.status for row in done.rows] == ["written"] * 6
    for number in range(6):
        one, other = (tmp_path / str(jobs) / f"{number}.parquet" for jobs in (1, 3))
        assert one.read_bytes() == other.read_bytes()
        assert opened(one).key_values[hudi.MIN_KEY] == f"{number}-key-0"
    assert told == [(count, 6) for count in range(1, 7)] * 2


def test_every_file_is_checked_before_the_first_is_written(tmp_path: Path) -> None:
    old = written(tmp_path / "a.parquet")
    written(tmp_path / "b.parquet", name="other")
    with pytest.raises(ColumnNotFoundError, match=hudi.RECORD_KEY):
        parquet_bloom.hudi.add_filter(tmp_path, strict=True, **SETTINGS)
    assert (tmp_path / "a.parquet").read_bytes() == old
    assert [row.status for row in parquet_bloom.hudi.add_filter(tmp_path, **SETTINGS).rows] == ["written", "refused"]
    with pytest.raises(ColumnNotFoundError):
        parquet_bloom.hudi.add_filter(tmp_path, "nothing", **SETTINGS)


@pytest.mark.parametrize("name", ["v6_cow", "v8_cow", "v6_simple"])
def test_what_hudi_wrote_is_written_the_same(unpacked: Unpack, tmp_path: Path, name: str) -> None:
    table = unpacked(name)
    for number, path in enumerate(table.files()):
        theirs, copy = opened(path).key_values, tmp_path / f"{number}.parquet"
        kind = theirs.get(hudi.TYPE_CODE) or "SIMPLE"
        (row,) = parquet_bloom.hudi.add_filter(path, type=kind, ndv=20, fpp=1e-4, max_entries=40).rows
        assert "is a Hudi table, which records" in (row.error or "")
        parquet_bloom.hudi.add_filter(
            path, type=kind, ndv=20, fpp=1e-4, max_entries=40, replace=True, output=copy, force=True
        )
        assert opened(copy).key_values == theirs
        assert copy.read_bytes().startswith(path.read_bytes())


def test_force_inside_a_table_is_noted(unpacked: Unpack) -> None:
    path = unpacked("v6_virtual").files()[0]
    (row,) = parquet_bloom.hudi.add_filter(path, "id", force=True, **SETTINGS).rows
    assert row.status == "written"
    assert any(note.startswith("forced: ") for note in row.notes)
    keys = pq.read_table(path)["id"].to_pylist()
    assert build(keys, **OF_HUDI).items() <= opened(path).key_values.items()


def test_files_of_no_rows_have_no_range(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path, [])
    assert parquet_bloom.hudi.add_filter(path, **SETTINGS).rows[0].status == "written"
    assert hudi.MIN_KEY not in opened(path).key_values
    found = filter_of(opened(path))
    assert found is not None
    assert found.might_contain(["a"]) == b"\0"


def test_keys_of_several_fields_are_probed_as_hudi_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    keys = [f"id:{number},name:Zo\u00eb {number % 7}" for number in range(300)]
    written(path, keys)
    parquet_bloom.hudi.add_filter(path, **SETTINGS)
    found = lookup(path, hudi.RECORD_KEY, [*keys, "id:1,name:Zo", "1", "id:1"]).to_arrow().to_pylist()
    assert {row["key"] for row in found if row["path"]} == set(keys)
    assert {row["key"] for row in found if not row["path"]} == {"id:1,name:Zo", "1", "id:1"}


@pytest.mark.parametrize(
    ("keys", "says"), [(["a", None], "has no key"), (["a", ""], "has an empty key"), ([None], "has no key")]
)
def test_rows_without_a_key_are_refused(tmp_path: Path, keys: list[Any], says: str) -> None:
    path = tmp_path / "a.parquet"
    old = written(path, keys)
    (row,) = parquet_bloom.hudi.add_filter(path, **SETTINGS).rows
    assert row.status == "refused"
    assert says in (row.error or "")
    assert path.read_bytes() == old
    with pytest.raises(UnsupportedError, match=says):
        parquet_bloom.hudi.add_filter(path, strict=True, **SETTINGS)


def test_columns_that_are_no_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path, id=[f"id-{number}" for number in range(300)], part=[["a"]] * 300)
    for column, says in [("x", "cannot hold record keys"), ("part.list.element", "cannot hold record keys")]:
        assert says in (parquet_bloom.hudi.add_filter(path, column, **SETTINGS).rows[0].error or "")
    assert "are in column _hoodie_record_key" in (
        parquet_bloom.hudi.add_filter(path, "id", **SETTINGS).rows[0].error or ""
    )
    with pytest.raises(ColumnNotFoundError):
        parquet_bloom.hudi.add_filter(path, "nothing", strict=True, **SETTINGS)
    with pytest.raises(ValueError, match="at least one key"):
        parquet_bloom.hudi.add_filter(path, ndv=0)
    with pytest.raises(UnsupportedError, match="is unknown"):
        parquet_bloom.hudi.add_filter(path, type="BLOOM")


def test_files_whose_filter_came_along_with_arrows_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = pa.table({hudi.RECORD_KEY: ["b"]}).replace_schema_metadata(build(["a"], **OF_HUDI))
    pq.write_table(rows, path)
    (row,) = parquet_bloom.hudi.add_filter(path, replace=True, **SETTINGS).rows
    assert "copied the filter" in (row.error or "")


@pytest.mark.spark
@needs_java
def test_parquet_java_and_hadoop_see_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path)
    parquet_bloom.hudi.add_filter(path, **SETTINGS)
    assert spark().read.parquet(str(path)).count() == 300
    jvm = spark()._jvm
    hadoop = jvm.org.apache.parquet.hadoop
    configuration = spark().sparkContext._jsc.hadoopConfiguration()
    file = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(str(path)), configuration)
    reader = hadoop.ParquetFileReader.open(file)
    try:
        entries = dict(reader.getFooter().getFileMetaData().getKeyValueMetaData())
    finally:
        reader.close()
    assert build(KEYS, **OF_HUDI).items() <= entries.items()
    assert entries["made"] == "by a test"
    bloom = jvm.org.apache.hadoop.util.bloom.DynamicBloomFilter()
    data = jvm.java.util.Base64.getDecoder().decode(entries[hudi.FILTER])
    bloom.readFields(jvm.java.io.DataInputStream(jvm.java.io.ByteArrayInputStream(data)))
    asked = [*dict.fromkeys(KEYS), "key-97", "key-98", "other"]
    answers = [bloom.membershipTest(jvm.org.apache.hadoop.util.bloom.Key(bytearray(key.encode()))) for key in asked]
    assert answers == [True] * 97 + [False] * 3
