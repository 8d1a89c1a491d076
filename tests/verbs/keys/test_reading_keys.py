"""Keys are what they were, however they come: no key becomes NULL, another key, or nothing on the way."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lazily import pd

import parquet_bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.values.stored_keys import is_null
from parquet_bloom.verbs.lookup import Lookup
from parquet_bloom.verbs.reading_keys import read_keys


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 1, None], pa.int64()),
        (["a", "", None], pa.string()),
        ([b"a", b"\xff"], pa.binary()),
        ([1, 2.5], pa.float64()),
        ([Decimal("1.1"), Decimal("1.100"), 2], pa.decimal128(4, 3)),
        ([date(2024, 1, 1)], pa.date32()),
        ([datetime(2024, 1, 1)], pa.timestamp("us")),
        ([uuid.UUID(int=5)], pa.uuid()),
        ([float("nan"), 0.0, -0.0], pa.float64()),
        ([True, False], pa.bool_()),
        ([np.float32(0.1)], pa.float32()),
        ([], pa.null()),
        ([None], pa.null()),
        # What Arrow has no one type for, or would change, is shown as text.
        ([1, "a"], pa.string()),
        (["a", b"a"], pa.string()),
        ([2**63, -1], pa.string()),
        ([2**60 + 1, 2.5], pa.string()),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)], pa.string()),
        ([date(2024, 1, 1), datetime(2024, 1, 1, 5)], pa.string()),
        ([time(1), time(1, tzinfo=UTC)], pa.string()),
        ([pa.scalar(1, pa.int8()), pa.scalar(2.5)], pa.string()),
        ([1.5, True], pa.string()),
        ([np.True_, 1], pa.string()),
        ([np.ma.masked, 1], pa.string()),
        (["\ud800"], pa.string()),
        ([object], pa.string()),
    ],
    ids=repr,
)
def test_lists(values: list[Any], kind: pa.DataType) -> None:
    keys = read_keys(values, "c")
    assert keys.shown.type == kind
    assert keys.literals == values or any(v != v for v in values)
    assert [is_null(v) for v in values] == keys.shown.is_null().to_pylist()
    assert not keys.are_text
    assert len(keys) == len(values)


def test_nanoseconds_of_numpy_are_kept() -> None:
    keys = read_keys([np.datetime64(1_000_000_001, "ns")], "c")  # as text, or as pandas' releases hand them to Arrow
    assert keys.shown.cast(pa.string())[0].as_py().endswith("00:00:01.000000001")


def test_lists_of_pandas() -> None:
    for values in ([pd.Timestamp(1_000_000_001)], [pd.NaT, datetime(2024, 1, 1)]):
        keys = read_keys(values, "c")
        assert keys.shown.type == pa.string()
        assert [is_null(value) for value in values] == keys.shown.is_null().to_pylist()


LITERALS = st.one_of(
    *(
        st.integers(),
        st.floats(),
        st.text(),
        st.binary(),
        st.decimals(),
        st.dates(),
        st.datetimes(),
        st.uuids(),
        st.none(),
    ),
    *(st.datetimes(timezones=st.just(UTC)), st.booleans(), st.times(), st.floats(width=32).map(np.float32)),
)


@given(st.one_of(st.lists(LITERALS), st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.text())))
def test_exact_keys_are_the_literals(values: list[Any]) -> None:
    keys = read_keys(iter(values), "c")
    assert list(keys.literals) == values or any(v != v for v in values)
    if keys.is_exact:
        shown = keys.shown.to_pylist()
        assert all(is_null(v) or v != v or v == s for v, s in zip(values, shown, strict=True))


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        (np.array([1, 2], np.int16), pa.array([1, 2], pa.int16())),
        (np.array([1.0, np.nan]), pa.array([1.0, float("nan")])),
        (np.array(["a", "b"]), pa.array(["a", "b"])),
        (np.array([1, None], dtype=object), pa.array([1, None])),
        (np.array([1, "NaT"], "datetime64[ns]"), pa.array([1, None], pa.timestamp("ns"))),
        (lambda: pd.Series([1.5, np.nan]), pa.array([1.5, float("nan")])),
        (lambda: pd.Series([1, None], dtype="Int64"), pa.array([1, None])),
        (lambda: pd.Index(["a", "b"]), pa.array(["a", "b"], pa.large_string())),
        (lambda: pd.Series(["a", "b", "a"], dtype="category"), pa.array(["a", "b", "a"], pa.large_string())),
        (pa.chunked_array([[1], [2]]), pa.array([1, 2])),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"])),
        (pa.table({"x": [1], "c": [2]}), pa.array([2])),
        (pa.table({"x": [1]}), pa.array([1])),
        ((1, 2), pa.array([1, 2])),
        ({1}, pa.array([1])),
        (range(3), pa.array([0, 1, 2])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays(given_: Any, shown: pa.Array) -> None:
    keys = read_keys(given_() if callable(given_) else given_, "c")
    assert keys.shown.type == shown.type
    assert str(keys.shown) == str(shown)
    assert keys.is_exact


def test_a_table_without_the_column() -> None:
    with pytest.raises(ColumnNotFoundError):
        read_keys(pa.table({"x": [1], "y": [2]}), "c")


# ---- files -------------------------------------------------------------------------------


def test_a_file_with_a_key_a_line(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes("\ufeffa\r\n\nb \n007\nNULL\nu\u2028v\x0cw\x85\n  x".encode())
    keys = read_keys(path, "c")
    assert keys.shown.to_pylist() == ["a", "b ", "007", "NULL", "u\u2028v\x0cw\x85", "  x"]
    assert keys.are_text
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LiteralError, match=r"keys\.txt"):
        read_keys(path, "c")


def test_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.CSV"
    path.write_text('x,c\n1,007\n2,NA\n3,"a ""b"", c\nd"\n4,\n5,nan\n6,NULL\n', "utf-8")
    assert read_keys(path, "c").shown.to_pylist() == ["007", "NA", 'a "b", c\nd', "", "nan", "NULL"]
    path.write_text("c\n", "utf-8")
    assert read_keys(path, "c").shown.to_pylist() == []
    # What looks like a number at first, and is text far below.
    path.write_text("c\n" + "1\n" * 700_000 + "x\n", "utf-8")
    assert read_keys(path, "c").shown[700_000].as_py() == "x"
    for broken in ("", "x,y\n1,2\n", "x,c\n1\n"):
        path.write_text(broken, "utf-8")
        with pytest.raises((LiteralError, ColumnNotFoundError)):
            read_keys(path, "c")


def test_a_file_with_tabs(tmp_path: Path) -> None:
    path = tmp_path / "keys.tsv"
    path.write_text('x\tc\n1\ta,b\n2\t"a\tb"\n3\t007\n', "utf-8")
    assert read_keys(path, "c").shown.to_pylist() == ["a,b", "a\tb", "007"]
    path.write_text("a,b\tc\n1\t2\n", "utf-8")
    assert read_keys(path, "c").shown.to_pylist() == ["2"]
    path.write_text("7\n8\n", "utf-8")
    with pytest.raises(LiteralError, match=r"begins with '7'.* does not end in \.tsv"):
        read_keys(path, "c")
    path.write_text("a\tb\n7\t8\n", "utf-8")
    with pytest.raises(ColumnNotFoundError):
        read_keys(path, "c")


def test_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "c=1" / "x=2" / "keys.parquet"  # no partitions here
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["a", "b"]}), path)
    keys = read_keys(path, "c")
    assert keys.shown.to_pylist() == ["a", "b"]
    assert not keys.are_text
    with pytest.raises(FileNotFoundError):
        read_keys(tmp_path / "missing.parquet", "c")
    assert read_keys(path.rename(path.with_suffix(".pq")), "c").shown.to_pylist() == ["a", "b"]
    with pytest.raises(FileNotFoundError):
        read_keys(Path("missing.txt"), "c")


@pytest.mark.parametrize(
    ("name", "data"), [("x.parquet", b"text"), ("x.parquet", b"\x18\0\0\0\1\0\0\0PAR1"), ("x.csv", b"a")]
)
def test_a_damaged_file_of_keys_is_an_error_of_ours(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data + b"\xff\xff,\n" if name.endswith("csv") else data)
    with pytest.raises(LiteralError, match="cannot be read as keys"):
        read_keys(tmp_path / name, "id")


# ---- candidates, written -----------------------------------------------------------------

SCHEMA = pa.schema([("key", pa.int64()), ("path", pa.string())])


def test_candidates_are_written_and_counted(tmp_path: Path) -> None:
    target = str(tmp_path / "out.parquet")
    batches = [pa.record_batch([[1, 2], ["a", None]], schema=SCHEMA), pa.record_batch([[3], ["b"]], schema=SCHEMA)]
    assert Lookup(iter(batches), SCHEMA).write(target) == 2
    assert pq.read_table(target)["key"].to_pylist() == [1, 2, 3]
    with pytest.raises(FileExistsError):
        Lookup(iter([]), SCHEMA).write(target)
    assert pq.read_table(target).num_rows == 3


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_candidates_are_private_until_they_are_complete(tmp_path: Path, mask: int) -> None:
    def looked_at() -> Any:
        yield pa.record_batch([[1], ["a"]], schema=SCHEMA)
        (path,) = tmp_path.iterdir()
        assert path.name.startswith(".out.parquet.")
        assert path.stat().st_mode & 0o777 == 0o600

    before = os.umask(mask)
    try:
        Lookup(looked_at(), SCHEMA).write(str(tmp_path / "out.parquet"))
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Any:
        yield pa.record_batch([[1], ["a"]], schema=SCHEMA)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        Lookup(failing(), SCHEMA).write(str(tmp_path / "out.parquet"))
    assert not list(tmp_path.iterdir())


def test_the_first_line_of_a_csv_file_is_not_lost(tmp_path):
    file = tmp_path / "keys.csv"
    for column in ("id", "user.id"):
        file.write_text("ID\n5\n6\n")
        assert len(read_keys(file, column)) == 2
        file.write_text("5\n6\n")
        with pytest.raises(LiteralError, match=r"begins with '5', and not with the name of the column; write .*id as"):
            read_keys(file, column)


def test_a_key_of_a_wrong_type_is_shown_as_it_is(tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "data.parquet")
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "keys.parquet")
    with pytest.raises(LiteralError, match=r"'a' \(str\) cannot be compared with it"):
        parquet_bloom.erase(tmp_path / "data.parquet", "id", tmp_path / "keys.parquet")
