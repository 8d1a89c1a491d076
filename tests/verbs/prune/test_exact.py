"""`exact=True` reads the columns of row groups that are left: what it prunes has no such value, and it reads little."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, footer_bytes, opened, with_footer
from hypothesis import given
from hypothesis import strategies as st
from stores import SimulatedStore
from verbs.prune.test_no_row_lost import quick

from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.page_index import read_pages
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.tree import In
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import Limits, RequestLog, run
from parquet_bloom.storage.listing import find
from parquet_bloom.verbs import exact
from parquet_bloom.verbs.prune import FileEvaluator, prune
from parquet_bloom.verbs.verdicts import Pruning


def kept(path: Path | str, where: Any, **options: Any) -> list[int | None]:
    return [row.row_group for row in prune(str(path), where, exact=True, **options).rows if row.is_kept]


def reasons(path: Path | str, where: Any, **options: Any) -> list[str]:
    return [row.reason for row in prune(str(path), where, exact=True, **options).rows]


def planned(path: Path | str, where: str, **options: Any) -> tuple[FileEvaluator, Any]:
    """Returns an evaluator, and its plan for what is left of a folder."""
    sources = find(str(path))
    evaluator = FileEvaluator(to_predicate(where), open_files={}, cache=Cache(0), **options)
    files, _ = evaluator.evaluate_all(sources)
    return evaluator, evaluator.plan_exact(sources, files)


def spread(path: Path, **options: Any) -> pa.Table:
    """Writes five row groups whose ranges overlap: the even numbers below 10,000 by their remainder."""
    ids = [n for group in range(5) for n in range(0, 10_000, 2) if n // 2 % 5 == group]
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"name {n:05}" for n in ids]})
    pq.write_table(table, path, row_group_size=1000, **options)
    return table


# ---- what is found -----------------------------------------------------------------------


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Has page indexes used, whatever the size; returns what to write several pages with."""
    monkeypatch.setattr(exact, "INDEX_WORTH", 0)
    return {"data_page_size": 256, "write_batch_size": 16, "write_page_index": True, "use_dictionary": False}


NUMBERS = st.one_of(st.integers(-40, 40), st.none())
TEXTS = st.one_of(st.text("abé", max_size=3), st.sampled_from(["x" * 80, "x" * 80 + "y", "x" * 81]), st.none())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
@quick
@given(data=st.data())
def test_exactly_the_row_groups_that_have_a_value_are_kept(
    tmp_path: Path, small_pages: dict[str, Any], dictionary: bool, version: str, data: Any
) -> None:
    rows = data.draw(st.lists(st.tuples(NUMBERS, TEXTS), min_size=1, max_size=60))
    if data.draw(st.booleans()):
        rows.sort(key=lambda row: (row[0] is None, row[0]))
    rows = [row for row in rows for _ in range(data.draw(st.sampled_from([1, 7, 40])))]
    table = pa.table(
        {"n": pa.array([n for n, _ in rows], pa.int32()), "t": pa.array([t for _, t in rows], pa.string())}
    )
    path = tmp_path / "f.parquet"
    options = small_pages | {"use_dictionary": dictionary, "data_page_version": version}
    pq.write_table(table, path, row_group_size=data.draw(st.sampled_from([50, 300])), compression="zstd", **options)
    for column, values in (("n", NUMBERS), ("t", TEXTS)):
        wanted = data.draw(st.lists(values.filter(lambda value: value is not None), min_size=1, max_size=3))
        file = pq.ParquetFile(path)
        truth = [
            group
            for group in range(file.num_row_groups)
            if set(wanted) & set(file.read_row_group(group, columns=[column])[column].to_pylist())
        ]
        assert kept(path, In((column,), tuple(wanted))) == truth


def test_a_value_of_one_row_group_is_kept_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    spread(path)
    assert prune(path, "id = 5004").totals.row_groups_kept == 5
    result = prune(path, "id = 5004", exact=True)
    assert result.row_groups_by_path == {str(path): [2]}
    assert result.totals.row_groups_by_data == 4
    assert result.explain().splitlines()[2:5] == [
        "  row group 0: skip, by data: id was read, and the value isn't in it",
        "  row group 1: skip, by data: id was read, and the value isn't in it",
        "  row group 2: keep: id was read, and the value is in it",
    ]
    assert not prune(path, "id = 5005", exact=True).might_match


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("id = 5004 AND name = 'name 05004'", [2]),
        ("id = 5004 AND name = 'name 05006'", []),
        ("id = 5004 OR name = 'name 05006'", [2, 3]),
        ("id = 5005 OR name = 'nobody'", []),
        ("id IN (1, 5003, 5008, 5009)", [4]),
        ("(id = 5005 OR name = 'name 05002') AND id < 9000", [1]),
        ("id = 5004 AND upper(name) = 'X'", [2]),
        ("id = 5005 OR upper(name) = 'X'", [0, 1, 2, 3, 4]),
        ("id = 5005 OR id > 100", [0, 1, 2, 3, 4]),
        ("NOT (id <> 5004)", [2]),
        ("id <=> 5004", [2]),
        ("id <> 5004", [0, 1, 2, 3, 4]),
        ("name LIKE 'x%'", [0, 1, 2, 3, 4]),
    ],
)
def test_trees(tmp_path: Path, where: str, groups: list[int]) -> None:
    path = tmp_path / "f.parquet"
    spread(path)
    assert kept(path, where) == groups


def test_a_column_is_read_until_each_test_of_it_is_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.storage.columns.BATCH_BYTES", 1)  # the two values come in different batches
    path = tmp_path / "f.parquet"
    spread(path, use_dictionary=False)
    assert kept(path, "(id = 4 AND name = 'name 05006') OR (id = 9994 AND name = 'name 09994')") == [2]


def test_columns_that_cannot_decide_are_not_read(tmp_path: Path) -> None:
    spread(tmp_path / "f.parquet")
    for where in ("id = 5005 OR id > 100", "upper(name) = 'X'", "id > 5", "id IS NOT NULL"):
        _, plan = planned(tmp_path, where)
        assert (plan.num_row_groups, plan.num_bytes) == (0, 0)


def test_elements_of_lists_are_found(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    lists = [[1, 9], [], None, [None, 3], [2, 8], [4], [], [0, 10]]
    pq.write_table(pa.table({"l": pa.array(lists, pa.list_(pa.int64()))}), path, row_group_size=4, use_dictionary=False)
    assert [kept(path, In(("l", "list", "element"), (n,))) for n in (3, 4, 5)] == [[0], [1], []]
    assert kept(path, "NOT (l.list.element <> 5)") == [0, 1]  # which of its elements that is about is not ours to say


def test_pages_of_lists_are_all_read(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "f.parquet"
    lists = pa.array([[n, n + 1000] for n in range(0, 1000, 2)], pa.list_(pa.int64()))
    pq.write_table(pa.table({"l": lists}), path, **small_pages)
    assert [kept(path, f"l.list.element = {n}") for n in (4, 1400, 1999, 5)] == [[0], [0], [], []]
    assert reasons(path, "l.list.element = 4") == ["l.list.element was read, and the value is in it"]


def test_the_pages_of_each_test_are_read(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": range(0, 4000, 2)}), path, **small_pages)
    for where in ("id = 5 OR id = 3000", "id = 3000 OR id = 5", "id = 4 OR id = 3001"):
        assert kept(path, where) == [0], where
    assert kept(path, "id = 5 OR id = 3001") == []


# ---- how much is read --------------------------------------------------------------------


def read_of(path: Path | str, where: Any, **options: Any) -> tuple[Pruning, int]:
    """Returns the verdicts, and how many more bytes were read for being exact."""
    plain, log = RequestLog(), RequestLog()
    prune(str(path), where, cache=Cache(0), log=plain, **options)
    result = prune(str(path), where, cache=Cache(0), log=log, exact=True, **options)
    return result, log.num_bytes - plain.num_bytes


def extents(path: Path, column: str) -> list[tuple[int, int]]:
    """Returns of each row group the bytes of a column's dictionary, and of all its pages, as pyarrow has them."""
    metadata = pq.read_metadata(path)
    found = []
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(metadata.schema.names.index(column))
        dictionary = chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset)
        found.append((dictionary, chunk.total_compressed_size))
    return found


def test_a_dictionary_is_read_alone_where_all_pages_use_it(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    names = [f"{group}-{n % 50:02}" for group in ("a", "b") for n in range(2000)]
    pq.write_table(pa.table({"name": [*names, "a-00", "b-49"]}), path, row_group_size=2001)
    result, num_bytes = read_of(path, "name = 'a-07x'")
    assert [row.is_kept for row in result.rows] == [False, False]
    _, plan = planned(path, "name = 'a-07x'")
    dictionaries, of_pages = map(sum, zip(*extents(path, "name"), strict=True))
    assert num_bytes == plan.num_bytes == dictionaries < of_pages


def without_encoding_stats(path: Path) -> None:
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for group in metadata.row_groups:
        for column in group.columns:
            column.meta_data.encoding_stats = None
    path.write_bytes(with_footer(data, encode(metadata)))


def test_a_dictionary_proves_nothing_where_pages_may_lack_it(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    names = [f"{n:05}" for n in range(4000)]
    pq.write_table(pa.table({"name": names}), path, dictionary_pagesize_limit=4000, data_page_size=1000)
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(pq.read_metadata(path).row_group(0).column(0).encodings)
    for _ in range(2):
        ((_, of_pages),) = extents(path, "name")
        for name, groups in (("00000", [0]), ("03999", [0]), ("00000x", [])):
            result, num_bytes = read_of(path, f"name = '{name}'")
            assert [row.row_group for row in result.rows if row.is_kept] == groups
            assert num_bytes == of_pages
        without_encoding_stats(path)


def test_the_engines_fallbacks_are_read_whole() -> None:
    for name in ("pyarrow/fallback.parquet", "datafusion/fallback.parquet"):
        column = "string" if name.startswith("pyarrow") else "name"
        file = pq.ParquetFile(FIXTURES / name)
        for group in range(file.num_row_groups):
            values = file.read_row_group(group, columns=[column])[column].drop_null()
            assert group in kept(FIXTURES / name, In((column,), (values[-1].as_py(),)))


def test_only_pages_whose_bounds_allow_it_are_read(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "f.parquet"
    ids = pa.array([*range(0, 20_000, 2), None, 99_999], pa.int64())
    pq.write_table(pa.table({"id": ids}), path, **small_pages)
    ((_, of_pages),) = extents(path, "id")
    for value, groups in ((10_000, [0]), (10_001, []), (50_000, [])):
        result, num_bytes = read_of(path, f"id = {value}")
        assert [row.row_group for row in result.rows if row.is_kept] == groups
        assert num_bytes < of_pages
    assert planned(path, "id = 10001")[1].num_bytes > of_pages  # all of them, and the page index


def test_what_is_read_is_at_most_what_was_told(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    spread(tmp_path / "plain.parquet", use_dictionary=False)
    spread(tmp_path / "pages.parquet", **small_pages)
    spread(tmp_path / "dictionary.parquet")
    for where in (
        "id = 5004",
        "id = 5005",
        "name = 'name 05005'",
        "id = 5004 AND name = 'name 05005x'",
        "id = 5005 OR name = 'name 05005x'",
    ):
        log = RequestLog()
        _, plan = planned(tmp_path, where, log=log)
        before = log.num_bytes
        plan.carry_out()
        assert 0 < log.num_bytes - before <= plan.num_bytes


# ---- page indexes that cannot be trusted --------------------------------------------------


def reindexed(data: bytes, change: Callable[[Any, Any], object]) -> bytes:
    """Returns a file whose first column chunk has another page index, which is put before the footer."""
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    chunk = metadata.row_groups[0].columns[0]
    bounds, _ = decode(ttypes.ColumnIndex, data, chunk.column_index_offset)
    places, _ = decode(ttypes.OffsetIndex, data, chunk.offset_index_offset)
    change(bounds, places)
    body = data[: len(data) - 8 - len(footer_bytes(data))]
    first, second = encode(bounds), encode(places)
    chunk.column_index_offset, chunk.column_index_length = len(body), len(first)
    chunk.offset_index_offset, chunk.offset_index_length = len(body) + len(first), len(second)
    return with_footer(body + first + second + data[len(body) :], encode(metadata))


def _set(values: list[Any], at: int, value: Any) -> None:
    values[at] = value


def _shift(locations: list[Any], at: int, field: str, by: int) -> None:
    setattr(locations[at], field, getattr(locations[at], field) + by)


CONTRADICTIONS: dict[str, Callable[[Any, Any], object]] = {
    "a page is missing": lambda b, o: [values.pop() for values in (*_lists(b), b.null_counts, o.page_locations)],
    "the first page is missing": lambda b, o: [v.pop(0) for v in (*_lists(b), b.null_counts, o.page_locations)],
    "there are no pages": lambda b, o: [values.clear() for values in (*_lists(b), b.null_counts, o.page_locations)],
    "a list is too short": lambda b, o: b.min_values.pop(),
    "null counts are too few": lambda b, o: b.null_counts.pop(),
    "a null count is negative": lambda b, o: _set(b.null_counts, 1, -1),
    "a null count is too large": lambda b, o: _set(b.null_counts, 1, 10**6),
    "only nulls, and bounds": lambda b, o: _set(b.null_pages, 1, True),
    "only nulls, and none counted": lambda b, o: [
        _set(values, 1, v) for values, v in zip(_lists(b), (1, b"", b""), strict=True)
    ],
    "rows start late": lambda b, o: _shift(o.page_locations, 0, "first_row_index", 1),
    "rows go back": lambda b, o: _shift(o.page_locations, 1, "first_row_index", 10**6),
    "a page begins elsewhere": lambda b, o: _shift(o.page_locations, 1, "offset", 1),
    "a page is longer": lambda b, o: _shift(o.page_locations, -1, "compressed_page_size", 1),
}
UNTRUSTED: dict[str, Callable[[Any, Any], object]] = {
    "bounds of another width": lambda b, o: _set(b.min_values, 1, b"\0"),
    "the min is above the max": lambda b, o: _set(b.min_values, 1, b"\xff" * 7 + b"\x7f"),
}
UNTRUE: dict[str, Callable[[Any, Any], object]] = {
    "a page has a row less": lambda b, o: _shift(o.page_locations, 1, "first_row_index", -1),
    "a page has a row more": lambda b, o: _shift(o.page_locations, 1, "first_row_index", 1),
}


def _lists(bounds: Any) -> tuple[list[Any], list[Any], list[Any]]:
    return bounds.null_pages, bounds.min_values, bounds.max_values


@pytest.mark.parametrize("damage", [*CONTRADICTIONS, *UNTRUSTED, *UNTRUE])
def test_no_value_is_lost_by_a_damaged_page_index(tmp_path: Path, small_pages: dict[str, Any], damage: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": pa.array(range(0, 600, 2), pa.int64())}), path, **small_pages)
    (source, footer), leaf = opened(path), opened(path)[1].leaves[0]
    assert len(run(source, read_pages(footer, 0, leaf)) or ()) > 3
    change = (CONTRADICTIONS | UNTRUSTED | UNTRUE)[damage]
    path.write_bytes(reindexed(path.read_bytes(), change))
    source, footer = opened(path)
    assert (run(source, read_pages(footer, 0, leaf)) is None) == (damage in CONTRADICTIONS)
    for value in range(0, 600, 2):
        assert kept(path, f"id = {value}") == [0]
    if damage not in UNTRUE:
        assert [kept(path, f"id = {value}") for value in (1, 599, 301)] == [[], [], []]


def test_page_bounds_count_only_where_the_writers_statistics_do(tmp_path: Path, small_pages: dict[str, Any]) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"name": [f"{n:06}" for n in range(0, 4000, 2)]}), path, **small_pages)
    ((_, of_pages),) = extents(path, "name")
    assert read_of(path, "name = '001001'")[1] < of_pages
    data = path.read_bytes()
    for created_by, orders in ((None, ...), ("parquet-mr version 1.6.0 (build x)", ...), (..., None)):
        metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
        metadata.created_by = metadata.created_by if created_by is ... else created_by
        metadata.column_orders = metadata.column_orders if orders is ... else orders
        path.write_bytes(with_footer(data, encode(metadata)))
        result, num_bytes = read_of(path, "name = '001001'")
        assert (result.might_match, num_bytes) == (False, of_pages)


# ---- columns that get no second look ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("pyarrow/int96.parquet", "ts_us_utc = TIMESTAMP '2024-01-01 00:00:00'"),  # it was not Spark that wrote it
        ("pyarrow/decimal_bytes.parquet", None),
        ("pyarrow/all_types.parquet", "bool = true"),
        ("pyarrow/all_types.parquet", "double = CAST('NaN' AS DOUBLE)"),
        ("pyarrow/signed_footer.parquet", "id = 1"),
    ],
)
def test_what_filters_refuse_is_not_read(name: str, where: str | None) -> None:
    if where is None:
        leaf = next(leaf for leaf in opened(FIXTURES / name)[1].leaves if "DECIMAL" in leaf.type_name)
        where = f"`{leaf.name}` = 1.5"
    _, plan = planned(FIXTURES / name, where, timezone="UTC")
    assert plan.num_row_groups == 0


def test_collated_text_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    field = {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"s": "icu.UNICODE_CI"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    pq.write_table(pa.table({"s": ["a", "B"]}).replace_schema_metadata(noted), path)
    assert kept(path, "s = 'b'") == [0]


def test_columns_of_conflicting_types_are_not_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": pa.array([1, 5], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"c": ["1", "5"]}), tmp_path / "b.parquet")
    log = RequestLog()
    result = prune(tmp_path, "c = '3'", exact=True, log=log)
    assert {row.reason for row in result.rows} == {"files store c with conflicting types"}


def test_renamed_columns_of_a_table_are_read_by_their_ids(tmp_path: Path) -> None:
    with lakes.catalog(tmp_path / "warehouse") as catalog:
        table = catalog.create_table("n.t", pa.schema({"a": pa.int64(), "b": pa.int64()}))
        table.append(pa.table({"a": [1, 9], "b": [10, 90]}))
        for old, new in (("a", "old"), ("b", "a"), ("old", "b")):
            with table.update_schema() as update:
                update.rename_column(old, new)
        table.append(pa.table({"b": [3, 7], "a": [20, 80]}))
        for where, files in (("a = 10", 1), ("a = 20", 2), ("a = 30", 2), ("b = 3", 2), ("b = 5", 2)):
            assert prune(table, where).totals.files_kept == files
        for where, files in (("a = 10", 1), ("a = 20", 1), ("a = 30", 0), ("b = 3", 1), ("b = 9", 1), ("b = 5", 0)):
            assert prune(table, where, exact=True).totals.files_kept == files


# ---- what fails --------------------------------------------------------------------------


def test_pages_that_do_not_decode_keep_the_row_group(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    spread(path, use_dictionary=False, compression="zstd", write_page_checksum=True)
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    assert kept(path, "id = 5005") == [1]
    assert reasons(path, "id = 5005")[1].startswith("id could not be read: row group 1, column id does not decode: ")


@pytest.mark.parametrize("field", ["total_compressed_size", "data_page_offset", "dictionary_page_offset", "num_values"])
@pytest.mark.parametrize("value", [-1, 0, 1, 2**31, 2**62])
def test_impossible_places_keep_the_row_group(tmp_path: Path, field: str, value: int) -> None:
    path = tmp_path / "f.parquet"
    spread(path, use_dictionary=["name"])
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for column in metadata.row_groups[2].columns:
        setattr(column.meta_data, field, value)
    path.write_bytes(with_footer(data, encode(metadata)))
    assert 2 in kept(path, "id = 5004")
    assert 2 in kept(path, "name = 'name 05004'")


@pytest.mark.parametrize("more", [-1, 1])
def test_a_chunk_with_other_values_than_rows_keeps_the_row_group(tmp_path: Path, more: int) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [1, 5, 9]}), path)
    assert kept(path, "id = 7") == []
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.num_rows = metadata.row_groups[0].num_rows = 3 + more
    path.write_bytes(with_footer(data, encode(metadata)))
    assert kept(path, "id = 7") == [0]


def test_a_file_that_is_replaced_meanwhile_is_not_pruned(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    spread(path)
    for strict in (False, True):
        _, plan = planned(path, "id = 5005", strict=strict)
        spread(tmp_path / "other.parquet", compression="gzip")
        (tmp_path / "other.parquet").replace(path)
        if strict:
            with pytest.raises(ConcurrentChangeError):
                plan.carry_out()
        else:
            (file,) = plan.carry_out()
            assert file.not_pruned == f"{path} changed while it was read"


def test_a_file_that_is_deleted_meanwhile_is_not_pruned(tmp_path: Path) -> None:
    spread(tmp_path / "f.parquet")
    spread(tmp_path / "g.parquet")
    _, plan = planned(tmp_path, "id = 5005")
    (tmp_path / "f.parquet").unlink()
    gone, there = plan.carry_out()
    assert gone.not_pruned is not None
    assert not there.is_kept


# ---- stores ------------------------------------------------------------------------------


class Fussy(SimulatedStore):
    """Fails to read what lies before some byte, lastingly."""

    good_from = 0

    def _read(self, path: str, start: int, end: int) -> bytes | Exception:
        return super()._read(path, start, end) if start >= self.good_from else PermissionError(13, "denied")


def stored(tmp_path: Path, files: int = 3) -> Fussy:
    table = pa.table({"id": pa.array(range(0, 100_000, 2), pa.int64())})
    pq.write_table(table, tmp_path / "f.parquet", use_dictionary=False)
    data = (tmp_path / "f.parquet").read_bytes()
    store = Fussy.of({f"/data/{number}.parquet": data for number in range(files)})
    assert isinstance(store, Fussy)
    return store


def test_files_of_a_store_are_read_at_once(tmp_path: Path) -> None:
    store = stored(tmp_path, files=40)
    log = RequestLog()
    assert not prune("/data", "id = 5005", filesystem=store, exact=True, cache=Cache(0), log=log).might_match
    assert len(log.requests) == 2 * 40
    assert prune("/data", "id = 6", filesystem=store, exact=True).totals.files_kept == 40


def test_a_large_chunk_is_requested_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.storage.columns.COALESCE_LIMIT", 100_000)
    store, log = stored(tmp_path, files=1), RequestLog()
    assert not prune(
        "/data", "id = 5005", filesystem=store, exact=True, limits=Limits(limit=100_000), log=log
    ).might_match
    assert len(log.requests) == 1 + 3


def test_what_a_store_does_not_give_keeps_the_row_group(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.good_from = 100_000
    result = prune("/data", "id = 5005", filesystem=store, exact=True)
    assert {row.reason for row in result.rows} == {"the column could not be read: denied"}
    assert result.totals.files_not_pruned == 0
    with pytest.raises(PermissionError):
        prune("/data", "id = 5005", filesystem=store, exact=True, strict=True)


def test_an_object_that_is_replaced_meanwhile_is_not_pruned(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.meddle = lambda number: store.replace("/data/1.parquet", store.objects["/data/1.parquet"])
    result = prune("/data", "id = 5005", filesystem=store, exact=True)
    assert [file.not_pruned is not None for file in result.all_files] == [False, True, False]


def test_progress_ends_when_all_is_read(tmp_path: Path) -> None:
    spread(tmp_path / "f.parquet")
    calls: list[tuple[int, int]] = []
    prune(tmp_path, "id = 5005", exact=True, progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (1, 1)
    assert sorted(calls[1:]) == [(n, 5) for n in range(1, 6)]
