"""Keys in any form: from the column that is named, and never the names of columns."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lazily import by_engine, pd, pl

from parquet_bloom import add, lookup
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError

HELD, ABSENT = [3, 70, 150], [1000, -5]
KEYS = [HELD[0], ABSENT[0], *HELD[1:], ABSENT[1]]


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(200), "name": [f"n{i}" for i in range(200)]}), path, row_group_size=50)
    add(path, ["id", "name"], fpp=1e-9)
    return path


def candidates(path: Path, keys: Any, column: str = "id") -> list[tuple[Any, int | None]]:
    rows = lookup(path, column, keys).to_arrow().to_pylist()
    return sorted(((row["key"], row["row_group"]) for row in rows), key=str)


class Stream:
    """What has nothing but Arrow's protocol, for a table or an array."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._data.__arrow_c_stream__(requested_schema)


class Array:
    """What has nothing but Arrow's protocol, for one piece."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._data.__arrow_c_array__(requested_schema)


OTHER = ["x"] * len(KEYS)
INPUTS = {
    "dict": {"id": KEYS},
    "dict of two": {"other": OTHER, "id": np.array(KEYS)},
    "dict, only one": {"key": tuple(KEYS)},
    "DataFrame": lambda: pd.DataFrame({"id": KEYS}),
    "DataFrame of two": lambda: pd.DataFrame({"other": OTHER, "id": KEYS}),
    "DataFrame, only one": lambda: pd.DataFrame({"key": KEYS}),
    "DataFrame of nullable": lambda: pd.DataFrame({"other": OTHER, "id": pd.array(KEYS, "Int64")}),
    "DataFrame of Arrow's": lambda: pd.DataFrame({"id": pd.Series(KEYS, dtype="int64[pyarrow]")}),
    "Series": lambda: pd.Series(KEYS),
    "Index": lambda: pd.Index(KEYS),
    "Polars frame": lambda: pl.DataFrame({"other": OTHER, "id": KEYS}),
    "Polars frame, only one": lambda: pl.DataFrame({"key": KEYS}),
    "Polars series": lambda: pl.Series(KEYS),
    "structured array": np.array([(0, key) for key in KEYS], [("other", "i4"), ("id", "i8")]),
    "table": pa.table({"other": OTHER, "id": KEYS}),
    "batch": pa.record_batch({"other": OTHER, "id": KEYS}),
    "chunked": pa.chunked_array([KEYS[:2], KEYS[2:]]),
    "stream of a table": Stream(pa.table({"other": OTHER, "id": KEYS})),
    "stream of an array": Stream(pa.chunked_array([KEYS])),
    "stream in pieces": Stream(pa.table({"id": pa.chunked_array([KEYS[:2], [], KEYS[2:]]), "other": OTHER})),
    "array of a batch": Array(pa.record_batch({"other": OTHER, "id": KEYS})),
    "array": Array(pa.array(KEYS)),
    "generator": (key for key in KEYS),
    "set": set(KEYS),
    "keys of a dict": dict.fromkeys(KEYS).keys(),
}


@pytest.mark.parametrize("form", by_engine(INPUTS))
def test_the_column_of_that_name_is_taken(ids: Path, form: str) -> None:
    keys = INPUTS[form]
    assert candidates(ids, keys() if callable(keys) else keys) == candidates(ids, KEYS)


def test_the_keys_that_are_there_are_found(ids: Path) -> None:
    assert candidates(ids, pd.DataFrame({"id": KEYS})) == sorted(
        [(3, 0), (70, 1), (150, 3), (1000, None), (-5, None)], key=str
    )


@pytest.mark.engines
def test_a_relation_of_duckdb_and_a_reader_are_streams(ids: Path) -> None:
    import duckdb

    relation = duckdb.sql("SELECT 'x' AS other, unnest([3, 1000, 70, 150, -5])::BIGINT AS id")
    assert candidates(ids, relation) == candidates(ids, KEYS)
    assert candidates(ids, pa.table({"id": KEYS}).to_reader()) == candidates(ids, KEYS)


def test_a_column_is_named_by_its_last_part(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"user": [{"id": i} for i in range(10)]}), path)
    add(path, "user.id", fpp=1e-9)
    assert candidates(path, pd.DataFrame({"x": [0, 0], "id": [5, 50]}), "user.id") == [(5, 0), (50, None)]


@pytest.mark.engines
def test_texts_are_found_in_frames_too(ids: Path) -> None:
    names = ["n7", "none"]
    for keys in (pd.DataFrame({"name": names, "x": names}), pl.DataFrame({"name": names}), {"name": names}):
        assert candidates(ids, keys, "name") == [("n7", 0), ("none", None)]


def test_not_a_number_stays_a_key_in_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "floats.parquet"
    pq.write_table(pa.table({"f": [1.0, float("nan")]}), path)
    (row,) = lookup(path, "f", pd.DataFrame({"f": [float("nan")]})).to_arrow().to_pylist()
    assert row["path"] == str(path)


@pytest.mark.parametrize(
    "keys",
    [
        {"key": KEYS, "other": OTHER},
        {},
        lambda: pd.DataFrame({"key": KEYS, "other": OTHER}),
        lambda: pd.DataFrame(),
        lambda: pd.DataFrame([[1, 2]], columns=["id", "id"]),
        pytest.param(lambda: pl.DataFrame({"key": KEYS, "other": OTHER}), marks=pytest.mark.engines),
        pa.table({"key": KEYS, "other": OTHER}),
        Stream(pa.table({"key": KEYS, "other": OTHER})),
        Array(pa.record_batch({"key": KEYS, "other": OTHER})),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_a_table_without_that_column_is_a_type_error_that_names_its_columns(ids: Path, keys: Any) -> None:
    with pytest.raises(TypeError, match="the table of keys has no leaf column 'id'") as raised:
        lookup(ids, "id", keys() if callable(keys) else keys)
    assert isinstance(raised.value, ColumnNotFoundError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (type(raised.value), str(raised.value))


class Frame:
    """A frame of some library: to go through it yields the names of its columns."""

    columns = ("id",)

    def __iter__(self) -> Any:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (5, r"not int: give \[key\], or Path"),
        ("/etc/hostname", r"not str: give \[key\], or Path\(…\) for a file of keys"),
        (np.str_("/etc/hostname"), r"str_: give \[key\]"),
        (b"/etc/hostname", r"not bytes: give \[key\], or Path"),
        (bytearray(b"abc"), r"not bytearray: give \[key\]"),
        (memoryview(b"abc"), r"not memoryview: give \[key\]"),
        (io.StringIO("1\n2\n"), r"StringIO: give \[key\], or Path"),
        (None, "not NoneType"),
        (lambda: pd.NaT, "NaTType"),
        (Frame(), "Frame: give"),
        ({"id": Path("keys.txt")}, "the keys in 'id' must be a list or an array, not pathlib"),
        ({"id": 5}, "not int"),
        ({"id": "abc"}, "the keys in 'id' must be a list or an array, not str"),
        ({"id": {"a": 1}}, "the keys in 'id' must be a list or an array, not dict"),
        (np.array([[1, 2], [3, 4]]), "has 2 dimensions"),
        (np.array([[1, "a"], [3, 4]], dtype=object), "dimensions"),
    ],
)
def test_what_is_no_keys_is_a_type_error(ids: Path, keys: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        lookup(ids, "id", keys() if callable(keys) else keys)


# ---- once --------------------------------------------------------------------------------


def test_candidates_that_were_read_are_no_empty_candidates(ids: Path, tmp_path: Path) -> None:
    ways: list[Any] = [
        lambda found: list(found),
        lambda found: next(iter(found)),
        lambda found: found.to_arrow(),
        lambda found: found.to_reader().read_next_batch(),
        lambda found: found.write(str(tmp_path / "first.parquet")),
    ]
    for first in ways:
        found = lookup(ids, "id", KEYS)
        first(found)
        (tmp_path / "first.parquet").unlink(missing_ok=True)
        for again in ways:
            with pytest.raises(UnsupportedError, match="were read already"):
                again(found)
            assert not (tmp_path / "first.parquet").exists()


def test_candidates_are_whole_after_an_attempt_that_read_none(ids: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    found = lookup(ids, "id", KEYS)
    with pytest.raises(FileExistsError):
        found.write(str(tmp_path / "there"))
    assert found.to_arrow().num_rows == len(KEYS)
