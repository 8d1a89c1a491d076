"""What create, refresh, drop and show make of files: filters taken over or built, options, and every type."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, SOUND, footer_bytes, index_folder, names, opened, with_footer

from parquet_bloom import Cache, add, col, prune
from parquet_bloom.errors import (
    ColumnNotFoundError,
    IndexNotFoundError,
    LiteralError,
    ParquetBloomError,
    PredicateError,
)
from parquet_bloom.filters import index_build
from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import optimal_num_bytes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.verbs import index


def put(path: Path, ids: Iterable[Any], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(list(ids), pa.int64())})
    pq.write_table(table, path, write_statistics=False, use_dictionary=False, **options)


def reasons(root: Path, where: Any) -> list[str]:
    return [group.reason for group in prune(root, where, cache=Cache(0)).rows]


def blocks(root: Path) -> list[dict[str, Any]]:
    newest = max(index_folder(root).glob("*.json"))
    segments = json.loads(newest.read_text("utf-8"))["version"]["segments"]
    return [each for segment in segments for each in segment["blocks"]]


IN_INDEX = "the filter on id lacks the value (in the index)"

# ---- who may read it ---------------------------------------------------------------------


def test_an_index_can_be_read_by_those_who_can_read_every_file_that_it_is_of(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {path.stat().st_mode & 0o777 for path in index_folder(tmp_path).iterdir()}

    tmp_path.chmod(0o750)
    for number, mode in enumerate((0o644, 0o640)):
        put(tmp_path / f"{number}.parquet", range(number, 9))
        (tmp_path / f"{number}.parquet").chmod(mode)
    index.create(tmp_path, "id")
    assert index_folder(tmp_path).stat().st_mode & 0o777 == 0o750
    assert modes() == {0o640}
    put(tmp_path / "2.parquet", range(5))
    (tmp_path / "2.parquet").chmod(0o600)
    index.refresh(tmp_path)
    assert 0o644 not in modes()
    assert 0o600 in modes()


# ---- where filters come from -------------------------------------------------------------


@pytest.fixture
def no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: Any) -> None:
        raise AssertionError("values are read")

    monkeypatch.setattr(index_build, "fill", fill)


@pytest.mark.usefixtures("no_values")
def test_filters_of_files_are_taken_over_as_one(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", range(4000), row_group_size=1000)
    add(tmp_path / "f.parquet", "id", fpp=1e-9)
    state = index.create(tmp_path, "id", fpp=0.01)
    (each,) = blocks(tmp_path)
    assert (each["num_slots"], each["num_bytes"]) == (1, optimal_num_bytes(4000, 0.01))
    assert state.num_bytes < 20_000
    assert reasons(tmp_path, "id = -1") == [IN_INDEX] * 4
    assert all(prune(tmp_path, col("id") == n).kept_files for n in range(0, 4000, 7))


@pytest.mark.usefixtures("no_values")
def test_filters_that_are_too_full_together_are_taken_over_one_by_one(tmp_path: Path) -> None:
    options = {"bloom_filter_options": {"id": {"ndv": 1000, "fpp": 0.01}}}
    put(tmp_path / "f.parquet", range(4000), row_group_size=1000, **options)
    index.create(tmp_path, "id", fpp=0.05)
    assert sum(each["num_slots"] for each in blocks(tmp_path)) == 4
    assert reasons(tmp_path, "id = -1") == [IN_INDEX] * 4
    assert all(prune(tmp_path, col("id") == n).kept_files for n in range(0, 4000, 7))


@pytest.mark.parametrize("row_groups", [1, 4])
def test_filters_with_a_high_fpp_are_built_again(tmp_path: Path, row_groups: int) -> None:
    options = {"bloom_filter_options": {"id": {"ndv": 1000, "fpp": 0.2}}}
    put(tmp_path / "f.parquet", range(4000), row_group_size=4000 // row_groups, **options)
    index.create(tmp_path, "id", fpp=0.01)
    assert [(each["num_slots"], each["num_bytes"]) for each in blocks(tmp_path)] == [(1, optimal_num_bytes(4000, 0.01))]


def test_sizes_come_from_the_data(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", [n % 10 for n in range(100_000)])
    index.create(tmp_path, "id", fpp=0.1, ndv=50_000_000)
    assert [each["num_bytes"] for each in blocks(tmp_path)] == [64]


@pytest.mark.parametrize("has_filter", [False, True])
def test_ndv_bounds_a_filter(tmp_path: Path, has_filter: bool) -> None:
    filters = {"id": {"ndv": 4000, "fpp": 0.01}} if has_filter else None
    put(tmp_path / "f.parquet", range(4000), bloom_filter_options=filters)
    state = index.create(tmp_path, "id", fpp=0.1, ndv=1000)
    assert [each["num_bytes"] for each in blocks(tmp_path)] == [optimal_num_bytes(1000, 0.1)]
    assert (state.rows[0].files, state.rows[0].problems) == (1, ())
    state = index.create(tmp_path, "id", fpp=0.1, ndv=1000, max_expected_fpp=0.2)
    assert (state.rows[0].files, state.rows[0].files_without_filter) == (0, 1)
    assert state.rows[0].problems[0].endswith("would be above 0.2 (1)")
    assert index.refresh(tmp_path).built == 0
    assert index.create(tmp_path, "id", fpp=0.1, max_expected_fpp=0.2).rows[0].files == 1


def test_the_last_row_of_a_file_counts(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", range(4000))
    for max_expected_fpp, files in ((0.2, 0), (1.0, 1)):
        put(tmp_path / f"{files}.parquet", range(4000))
        state = index.create(tmp_path, "id", ndv=1000, max_expected_fpp=max_expected_fpp)
        assert (state.segments, state.rows[0].files) == (files + 1, (files + 2) * files)
    index.create(tmp_path, "id", ndv=1000, max_expected_fpp=0.2)
    assert index.show(tmp_path).rows[0].files == 0
    assert len(prune(tmp_path, "id = -1").kept_files) == 3


# ---- what is done again, and what is not -------------------------------------------------


def test_options_are_replaced_and_only_that_builds_again(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", range(100))
    assert index.create(tmp_path, "id").built == 1
    assert index.create(tmp_path, "id").built == 0
    state = index.create(tmp_path, [IndexedColumn("`id`", 0.001)])
    assert (state.built, state.rows[0].fpp, [row.column for row in state.rows]) == (1, 0.001, ["id"])
    assert index.refresh(tmp_path).built == 0
    index.drop(tmp_path, "`id`")
    assert not index.show(tmp_path).exists


def test_files_that_lack_the_column_and_files_that_are_none(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", [1])
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"no Parquet file")
    (row,) = index.create(tmp_path, "id").rows
    assert (row.files, row.files_without_filter, row.files_missing) == (1, 1, 1)
    assert row.problems == ("the file has no leaf column 'id'; columns: other (1)",)
    result = prune(tmp_path, "id = 5")
    assert [Path(file.path).name for file in result.kept_files] == ["b.parquet", "c.parquet"]
    assert index.refresh(tmp_path).built == 0


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_chunk_without_metadata_is_a_problem_of_its_file(tmp_path: Path, encrypted: bool) -> None:
    def strip(metadata: Any) -> None:
        column = metadata.row_groups[1].columns[0]
        column.meta_data = None
        if encrypted:
            column.crypto_metadata = ttypes.ColumnCryptoMetaData(
                ENCRYPTION_WITH_FOOTER_KEY=ttypes.EncryptionWithFooterKey()
            )

    put(tmp_path / "whole.parquet", range(10))
    put(tmp_path / "stripped.parquet", range(100, 110), row_group_size=5)
    data = (tmp_path / "stripped.parquet").read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    strip(metadata)
    (tmp_path / "stripped.parquet").write_bytes(with_footer(data, encode(metadata)))
    state = index.create(tmp_path, "id")
    (row,) = state.rows
    # What is encrypted is tried again by a call that may have its key.
    problems, errors = (
        ((), ["id: the column is encrypted"]) if encrypted else (("the column chunk has no metadata (1)",), [])
    )
    assert (row.files, row.problems, [file.error for file in state.errors]) == (1, problems, errors)
    assert [Path(file.path).stem for file in prune(tmp_path, col("id") == 50, cache=Cache(0)).kept_files] == [
        "stripped"
    ]
    (refused,) = add(tmp_path / "stripped.parquet", "id").rows
    assert "encrypted columns" in (refused.error or "")


def test_a_column_is_sought_in_every_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(index, "_SURVEYED", 1)
    for number in range(4):
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"{number}.parquet")
    put(tmp_path / "9.parquet", [1])
    assert index.create(tmp_path, "id").rows[0].files == 1
    with pytest.raises(ColumnNotFoundError, match="the data has no leaf column 'idx'; did you mean id"):
        index.create(tmp_path, "idx")


def test_where_no_file_can_be_read_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.parquet").write_bytes(b"no Parquet file at all")
    with pytest.raises(ParquetBloomError, match="PAR1"):
        index.create(tmp_path, "id")


def test_without_data_files_the_index_can_be_shown_and_dropped(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", [1])
    index.create(tmp_path, "id")
    (tmp_path / "f.parquet").unlink()
    assert [(row.column, row.files) for row in index.show(tmp_path).rows] == [("id", 0)]
    with pytest.raises(FileNotFoundError, match="directory has no Parquet files"):
        index.refresh(tmp_path)
    assert not index.drop(tmp_path).exists


def test_only_the_directory_itself_has_the_index(tmp_path: Path) -> None:
    put(tmp_path / "lake/day=1/f.parquet", [1])
    index.create(tmp_path / "lake", "id")
    assert reasons(tmp_path / "lake", "id = 5") == [IN_INDEX]
    for paths in ("lake/day=1", "lake/*/*.parquet", "lake/day=1/f.parquet", "."):
        assert IN_INDEX not in reasons(tmp_path / paths, "id = 5")
    assert IN_INDEX not in [group.reason for group in prune([tmp_path / "lake", tmp_path], "id = 5").rows]


WRONG = [
    ({"columns": []}, ValueError, "give at least one column"),
    ({"columns": ["id", "`id`"]}, ValueError, "more than one configuration for column id"),
    ({"columns": "id", "fpp": 0}, ValueError, "fpp= must be above 0 and at most 1, not 0"),
    ({"columns": "id", "fpp": float("nan")}, ValueError, "fpp= must be above 0"),
    ({"columns": "id", "ndv": 0}, ValueError, "ndv= must be at least 1"),
    ({"columns": "id", "max_expected_fpp": 1.5}, ValueError, "max_expected_fpp= must be above 0 and at most 1"),
    ({"columns": "`id"}, PredicateError, "not a column path"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_options(tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    put(tmp_path / "f.parquet", [1])
    with pytest.raises(error, match=message):
        index.create(tmp_path, **arguments)
    assert not index_folder(tmp_path).exists()
    with pytest.raises(IndexNotFoundError, match="has no index; create one first"):
        index.refresh(tmp_path)
    with pytest.raises(IndexNotFoundError, match="has no index, so there is nothing to drop"):
        index.drop(tmp_path)


# ---- types -------------------------------------------------------------------------------


def indexable(path: Path) -> list[str]:
    _, footer = opened(path)
    constant = [leaf for leaf in footer.leaves if len(leaf.path) == 1 and index_build.why_unsupported(leaf) is None]
    return [leaf.name for leaf in constant]


@pytest.mark.parametrize("name", names(name for name in SOUND if "/" in name))
def test_no_value_of_another_engines_file_is_lost(tmp_path: Path, name: str) -> None:
    shutil.copyfile(FIXTURES / name, tmp_path / "f.parquet")
    columns = indexable(tmp_path / "f.parquet")
    if not columns:
        return
    index.create(tmp_path, columns)
    for column in columns:
        try:
            values = pq.read_table(tmp_path / "f.parquet", columns=[column])[column].unique()
        except (pa.ArrowException, KeyError, OSError):
            continue  # which pyarrow does not read
        for scalar in values[:4]:
            try:
                value = scalar.as_py()
                with_index = prune(tmp_path, col(column) == value, timezone="UTC")
                without = prune(tmp_path / "f.parquet", col(column) == value, timezone="UTC")
            except (LiteralError, OverflowError, UnicodeDecodeError):
                continue  # what Python has no value for
            assert bool(with_index.kept_files) >= bool(without.kept_files), (column, value)


def test_every_supported_type_prunes(tmp_path: Path) -> None:
    table = pq.read_table(FIXTURES / "pyarrow/plain_types.parquet")
    pq.write_table(table, tmp_path / "f.parquet", write_statistics=False)
    columns = indexable(tmp_path / "f.parquet")
    state = index.create(tmp_path, columns, fpp=0.0001)
    assert {row.column: row.problems for row in state.rows} == dict.fromkeys(columns, ())
    kinds = {str(table.schema.field(column).type) for column in columns}
    assert {"int32", "int64", "float", "double", "string"} <= kinds


def test_int96_is_indexed_only_where_its_form_is_known(tmp_path: Path) -> None:
    for engine, files in (("spark", 1), ("pyarrow", 0)):
        root = tmp_path / engine
        root.mkdir()
        shutil.copyfile(FIXTURES / engine / "int96.parquet", root / "f.parquet")
        columns = [leaf.name for leaf in opened(root / "f.parquet")[1].leaves if leaf.physical_type.name == "INT96"]
        (row,) = index.create(root, columns[:1]).rows
        assert (row.files, row.files_without_filter) == (files, 1 - files)
        assert files or "INT96 values have several forms" in row.problems[0]


def test_text_with_a_collation_is_not_indexed(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": ["Ab"]}), path, write_statistics=False)
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.key_value_metadata = [ttypes.KeyValue("x", '{"__COLLATIONS":{"c":"spark.UTF8_LCASE"}}')]
    path.write_bytes(with_footer(data, encode(metadata)))
    (row,) = index.create(tmp_path, "c").rows
    assert (row.files, row.problems) == (0, ("Spark compares text in this column by a collation (1)",))
    assert prune(tmp_path, "c = 'aB'").kept_files


def test_columns_with_conflicting_types_prune_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([10], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["10", "010"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": [10.0]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"id": [b"10"]}), tmp_path / "d.parquet")
    (row,) = index.create(tmp_path, "id").rows
    assert (row.files, row.files_without_filter) == (3, 1)
    assert row.problems == ("column id is BYTE_ARRAY, which the index does not support (1)",)
    assert len(prune(tmp_path, "id = 10").kept_files) == len(prune(tmp_path, "id = 3").kept_files) == 4
