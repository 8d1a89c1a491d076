"""`absent`: the keys are those of DuckDB's anti join, and none that might be there is among them."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import FIXTURES, PYARROW_CANNOT, SOUND, footer_bytes, names, with_footer
from hypothesis import given
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom import Cache, RequestLog, absent
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, ParquetBloomError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode

NAN = math.nan


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=100, write_page_index=True)
    return path


# ---- the keys ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with and without filters, with one value often, and with nulls."""
    folder = tmp_path_factory.mktemp("absent")
    for number in range(4):
        ids = [n if n % 7 else None for n in range(number * 250, number * 250 + 400)]
        write(
            folder / f"{number}.parquet",
            n=pa.array(ids, pa.int64()),
            text=[None if n is None else f"text {n}" for n in ids],
            few=pa.array([None if n is None else n % 5 for n in ids], pa.int32()),
            real=pa.array([None if n is None else n / 4 for n in ids], pa.float64()),
            number=pa.array([None if n is None else Decimal(n) / 4 for n in ids], pa.decimal128(12, 2)),
            always=[None if n is None else True for n in ids],
        )
    parquet_bloom.add(folder / "1.parquet", ["n", "text", "number"])
    return folder


KEYS = {
    "n": (pa.int64(), st.integers(-20, 1300)),
    "text": (pa.string(), st.integers(-20, 1300).map(lambda n: f"text {n}")),
    "few": (pa.int32(), st.integers(-3, 9)),
    "real": (pa.float64(), st.integers(-20, 1300).map(lambda n: n / 4) | st.sampled_from([NAN, -0.0])),
    "number": (pa.decimal128(12, 2), st.integers(-20, 1300).map(lambda n: Decimal(n) / 4)),
    "always": (pa.bool_(), st.booleans()),
}


@pytest.mark.engines
@pytest.mark.parametrize("column", KEYS)
@given(data=st.data())
def test_they_are_those_of_an_anti_join(lake: Path, column: str, data: st.DataObject) -> None:
    import duckdb

    kind, values = KEYS[column]
    keys = pa.array(data.draw(st.lists(values | st.none(), max_size=60)), kind)
    given_keys = pa.table({"place": range(len(keys)), "key": keys})  # noqa: F841  (DuckDB reads it)
    expected = duckdb.sql(
        f"SELECT place FROM given_keys ANTI JOIN '{lake}/*.parquet' f ON given_keys.key = f.{column} ORDER BY place"
    )
    found = absent(lake, column, keys)
    assert found.positions.to_pylist() == [place for (place,) in expected.fetchall()]
    assert str(found.keys) == str(keys.take(found.positions))  # NaN is not equal to NaN
    assert (found.errors, len(found.unknown)) == ((), 0)


@pytest.mark.engines
def test_very_many_keys_are_those_of_an_anti_join(lake: Path) -> None:
    import duckdb

    dice = random.Random(4)
    keys = pa.array([f"text {dice.randrange(400_000)}" for _ in range(150_000)])
    given_keys = pa.table({"key": keys})  # noqa: F841
    expected = duckdb.sql(f"SELECT key FROM given_keys ANTI JOIN '{lake}/*.parquet' f ON key = f.text").to_arrow_table()
    found = absent(lake, "text", keys)
    assert sorted(found.keys.to_pylist()) == sorted(expected["key"].to_pylist())
    assert len(found) < len(keys)


CASES: dict[str, tuple[pa.Array, Any, list[int]]] = {
    "zeros and NaN": (pa.array([0.0, NAN, 1.5]), [-0.0, 0.0, NAN, 1.5, 2.5, None], [4, 5]),
    "no NaN there": (pa.array([0.5, None]), [NAN, 0.5, NAN], [0, 2]),
    "FLOAT": (pa.array([0.5, -0.0, NAN], pa.float32()), [0.5, 0.0, 0.25, NAN], [2]),
    "a number that is too large": (pa.array([1, 2], pa.int32()), [1, 2**40, 2, -(2**70)], [1, 3]),
    "duplicates": (pa.array(["a", "b"]), ["x", "a", "x", "a", None, None], [0, 2, 4, 5]),
    "bytes": (pa.array([b"\0", b""]), [b"", b"\0\0", b"\0"], [1]),
    "decimals of several scales": (
        pa.array([Decimal("1.50"), Decimal("-2.00")]), [Decimal("1.5"), Decimal(-2), Decimal("1.501")], [2]
    ),
    "INT96": (
        pa.array([0, 10**15], pa.timestamp("us")), pa.array([10**15, 1, 0], pa.timestamp("us", "UTC")), [1]
    ),
    "timestamps": (
        pa.array([0, 5000], pa.timestamp("us", "UTC")), pa.array([5, 6], pa.timestamp("ms", "UTC")), [1]
    ),
    "all null": (pa.array([None, None], pa.string()), ["a", None], [0, 1]),
    "no rows": (pa.array([], pa.string()), ["a"], [0]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_odd_keys(tmp_path: Path, case: str) -> None:
    values, keys, expected = CASES[case]
    pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=case == "INT96")
    assert absent(tmp_path, "x", keys, timezone="UTC").positions.to_pylist() == expected
    parquet_bloom.add(tmp_path / "a.parquet", "x")
    assert absent(tmp_path, "x", keys, timezone="UTC").positions.to_pylist() == expected


def test_a_dictionary_with_a_value_that_no_row_has(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, None], pa.int8()), pa.array(["used", "unused"]))
    path = write(tmp_path / "a.parquet", x=column)
    assert parquet_bloom.lookup(path, "x", ["unused"]).to_arrow()["row_group"].to_pylist() != []
    assert list(absent(path, "x", ["used", "unused"])) == ["unused"]


def test_keys_of_a_struct_and_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", user=[{"name": "ann"}, None, {"name": "bob"}])
    (tmp_path / "keys.txt").write_text("ann\ncarl\n\nbob\ncarl\n")
    assert list(absent(path, "user.name", tmp_path / "keys.txt")) == ["carl", "carl"]


def flat_column(name: str) -> tuple[str, list[Any]] | None:
    """Returns a column of a fixture with text or integers, and its values, as pyarrow reads them."""
    with pq.ParquetFile(FIXTURES / name) as file:
        for field in file.schema_arrow:
            is_key = pa.types.is_string(field.type) or field.type in (pa.int32(), pa.int64())
            if is_key and field.name not in PYARROW_CANNOT.get(name, ()) and "." not in field.name:
                return field.name, file.read([field.name]).column(0).to_pylist()
    return None


COLUMNS = {name: found for name in SOUND if "plain_types" not in name and (found := flat_column(name))}


@pytest.mark.parametrize("name", names(COLUMNS))
def test_files_of_every_writer(name: str) -> None:
    column, values = COLUMNS[name]
    there = {value for value in values if value is not None}
    others = {f"{value}!" if isinstance(value, str) else value // 3 * 7 + 1 for value in there}
    keys = random.Random(1).sample(sorted(there | others), len(there | others))
    assert list(absent(FIXTURES / name, column, keys)) == [key for key in keys if key not in there]


# ---- what is read ------------------------------------------------------------------------


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Has page indexes used, whatever the size; returns what to write several pages with."""
    monkeypatch.setattr("parquet_bloom.verbs.absent.INDEX_WORTH", 0)
    return {"data_page_size": 256, "write_batch_size": 16, "write_page_index": True, "use_dictionary": False}


def test_every_page_that_can_hold_a_key_is_read(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    reals = [NAN if n == 600 else n / 2 for n in range(1000)]
    pq.write_table(pa.table({"n": range(0, 2000, 2), "real": reals}), path, **small_pages)
    assert list(absent(path, "n", [7, 10, 1500, 1501])) == [7, 1501]
    assert list(absent(path, "real", [7.0, NAN, 7.25])) == [7.25]  # no bound tells of NaN


def test_page_bounds_count_only_where_the_writers_statistics_do(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": [f"{n:06}" for n in range(4000)]}), path, **small_pages)

    def num_bytes() -> int:
        log = RequestLog()
        assert list(absent(path, "name", ["000001", "0000011"], cache=Cache(0), log=log)) == ["0000011"]
        return log.num_bytes

    of_one_page, data = num_bytes(), path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.created_by = "parquet-mr version 1.6.0 (build x)"
    path.write_bytes(with_footer(data, encode(metadata)))
    assert num_bytes() > 1.5 * of_one_page


def test_only_candidates_are_read_and_each_key_once(tmp_path: Path) -> None:
    dice = random.Random(2)
    for number in range(3):
        ids = [f"{dice.getrandbits(128):032x}" for _ in range(40_000)]
        pq.write_table(pa.table({"id": ids, "copy": ids}), tmp_path / f"{number}.parquet", use_dictionary=False)
    parquet_bloom.add(tmp_path, "id", fpp=0.0001)
    log = RequestLog()
    assert len(absent(tmp_path, "id", ["nowhere"], cache=Cache(0), log=log)) == 1
    assert log.num_bytes < 200_000
    first = pq.read_table(tmp_path / "0.parquet")["copy"][0].as_py()
    log = RequestLog()
    assert len(absent(tmp_path, "copy", [first], cache=Cache(0), log=log)) == 0
    assert log.num_bytes < 2_000_000  # of one file of three


def test_no_files_have_no_keys(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())]))
    assert list(absent(tmp_path / "t", "id", [1, 2])) == [1, 2]


# ---- what is not known -------------------------------------------------------------------


def damaged(path: Path, column: int = 0, row_group: int = 0) -> None:
    chunk = pq.read_metadata(path).row_group(row_group).column(column)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)


def test_a_key_that_a_damaged_file_may_hold_is_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", n=list(range(300)))
    write(tmp_path / "b.parquet", n=list(range(200, 600)))
    damaged(tmp_path / "b.parquet", row_group=1)  # 300 to 399
    found = absent(tmp_path, "n", [5, 350, None, 700, 450, 301, -1])
    assert list(found) == [None, 700, -1]
    assert found.unknown.to_pylist() == [350, 301]
    assert [Path(error.path).name for error in found.errors] == ["b.parquet"]
    with pytest.raises(ParquetBloomError, match="does not decode"):
        absent(tmp_path, "n", [350], strict=True)

    (tmp_path / "c.parquet").write_bytes(b"PAR1 but no footer")
    found = absent(tmp_path, "n", [5, None, 700])
    assert (list(found), found.unknown.to_pylist()) == ([None], [700])


def test_refusals(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", n=[1, 2], l=[[1], [2]], f=pa.array([0.1, 2], pa.float32()))
    with pytest.raises(LiteralError):
        absent(path, "n", ["x"])
    with pytest.raises(ColumnNotFoundError):
        absent(path, "nope", [1])
    with pytest.raises(UnsupportedError, match="in a list"):
        absent(path, "l.list.element", [1])
    for keys in ([0.1], [0.1, Decimal(7)]):  # all at once, and one by one
        with pytest.raises(UnsupportedError, match="engines disagree"):
            absent(path, "f", keys)
    with pytest.raises(TypeError, match="truth value"):
        bool(absent(path, "n", [1]))
    (tmp_path / "n=3").mkdir()
    write(tmp_path / "n=3" / "b.parquet", x=[1])
    for paths in (tmp_path / "n=3", tmp_path):  # without and with a file that has the column
        with pytest.raises(ColumnNotFoundError):
            absent(paths, "n", [3])


def test_texts_with_a_rule_are_not_compared_by_their_bytes(tmp_path: Path) -> None:
    field = {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"s": "icu.UNICODE_CI"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    pq.write_table(pa.table({"s": ["A"]}).replace_schema_metadata(noted), tmp_path / "a.parquet")
    with pytest.raises(UnsupportedError, match="column s"):
        absent(tmp_path / "a.parquet", "s", ["a"])


def test_a_key_that_a_chunk_of_another_column_may_hold_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", n=[1, 2])
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.row_groups[0].columns[0].meta_data.path_in_schema = ["other"]
    path.write_bytes(with_footer(data, encode(metadata)))
    found = absent(path, "n", [3, None])
    assert (list(found), found.unknown.to_pylist(), len(found.errors)) == ([None], [3], 1)


def test_a_file_whose_column_has_another_case_may_hold_every_key(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", id=[1, 2])
    write(tmp_path / "b.parquet", other=[1, 2])
    assert list(absent(tmp_path, "id", [1, 3])) == [3]
    write(tmp_path / "c.parquet", ID=[3])
    found = absent(tmp_path, "id", [1, 3])
    assert (list(found), found.unknown.to_pylist()) == ([], [3])


def test_files_with_conflicting_types_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", n=[1])
    write(tmp_path / "b.parquet", n=[1.5])
    with pytest.raises(UnsupportedError, match="conflicting types"):
        absent(tmp_path, "n", [7])


def test_a_key_whose_rows_are_deleted_is_absent(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    lakes.delta(tmp_path / "delta", files=1, rows=20)
    lakes.give_deletion_vector(tmp_path / "delta", [3, 19])
    assert list(absent(tmp_path / "delta", "id", [0, 3, 99, None, 19])) == [3, 99, None, 19]
    of_five = deltalake.WriterProperties(max_row_group_size=5)
    deltalake.write_deltalake(str(tmp_path / "groups"), pa.table({"id": range(20)}), writer_properties=of_five)
    lakes.give_deletion_vector(tmp_path / "groups", [3, 12])
    assert list(absent(tmp_path / "groups", "id", [0, 3, 7, 11, 12, 13, 99])) == [3, 12, 99]
    pytest.importorskip("pyiceberg")
    with lakes.catalog(tmp_path) as found:
        table = lakes.iceberg(found, files=2, rows=20)
        keys = list(range(45))
        assert list(absent(table, "id", keys)) == list(range(40, 45))
        lakes.give_deletes(table, [3, 5])
        live = set(lakes.iceberg_rows(table.refresh()))
        assert list(absent(table, "id", keys)) == [key for key in keys if key not in live]
        assert len(live) < 40


def test_on_the_command_line_the_exit_code_is_grep_s(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", id=["a", "b"])
    keys = tmp_path / "keys.txt"

    def run(text: str, *options: str) -> tuple[int, str]:
        keys.write_text(text)
        done = CliRunner().invoke(main, ["lookup", str(path), "-c", "id", "-k", str(keys), "--absent", *options])
        return done.exit_code, done.stdout

    assert run("b\nx\na\n") == (0, "x\n")
    assert run("b\n") == (1, "")
    assert run("x\n", "--format", "csv") == (0, '"key"\n"x"\n')
    assert run("x\n", "-o", str(tmp_path / "new.parquet"))[0] == 0
    assert pq.read_table(tmp_path / "new.parquet").to_pylist() == [{"key": "x"}]
    assert run("x\n", "--engine", "spark")[0] == 2
    damaged(path)
    assert run("a\nx\n")[0] == 2
