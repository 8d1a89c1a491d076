"""The page index of a chunk is used only if it has all of the chunk's pages and does not contradict itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import Footer, parse_footer
from parquet_bloom.format.page_index import Page, read_pages, read_places
from parquet_bloom.format.thrift_io import decode, encode

ROWS, PAGES = 40, 4


@pytest.fixture(scope="module")
def data() -> bytes:
    """A file with one column of four pages of ten rows each, of which the last has only nulls."""
    values = [i if i < 30 else None for i in range(ROWS)]
    file = io.BytesIO()
    options = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 10, "write_page_index": True}
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), file, **options)
    return file.getvalue()


def indexes(data: bytes) -> tuple[Footer, Any, Any]:
    """Returns the footer, the ColumnIndex and the OffsetIndex."""
    footer = parse_footer(len(data), data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    bounds, places = next(read_pages(footer, 0, footer.leaves[0]))
    return (
        footer,
        decode(ttypes.ColumnIndex, data[bounds.start : bounds.stop])[0],
        decode(ttypes.OffsetIndex, data[places.start : places.stop])[0],
    )


def answered(plan: Any, parts: list[bytes]) -> list[Page] | None:
    """Returns what a plan makes of the bytes that it asks for."""
    next(plan)
    with pytest.raises(StopIteration) as stop:
        plan.send(parts)
    pages: list[Page] | None = stop.value.value
    return pages


def test_all_pages_are_there_with_their_rows_and_bounds(data: bytes) -> None:
    footer, bounds, places = indexes(data)
    pages = answered(read_pages(footer, 0, footer.leaves[0]), [encode(bounds), encode(places)])
    assert pages is not None
    assert [page.num_rows for page in pages] == [ROWS // PAGES] * PAGES
    numbers = [page.bounds and tuple(int.from_bytes(one, "little") for one in page.bounds) for page in pages]
    assert numbers == [(0, 9), (10, 19), (20, 29), None]


def _drop_last(places: Any) -> None:
    places.page_locations.pop()


def _drop_first(places: Any) -> None:
    del places.page_locations[0]
    places.page_locations[0].first_row_index = 0


def _leave_a_gap(places: Any) -> None:
    places.page_locations[1].offset += 1
    places.page_locations[1].compressed_page_size -= 1


def _overlap(places: Any) -> None:
    places.page_locations[1].compressed_page_size += 1


def _start_late(places: Any) -> None:
    places.page_locations[0].first_row_index = 1


def _run_backwards(places: Any) -> None:
    places.page_locations[2].first_row_index = 5


def _end_behind_the_rows(places: Any) -> None:
    places.page_locations[-1].first_row_index = ROWS + 1


@pytest.mark.parametrize(
    "change",
    [_drop_last, _drop_first, _leave_a_gap, _overlap, _start_late, _run_backwards, _end_behind_the_rows],
)
def test_pages_that_are_not_all_of_the_chunk_s_are_not_used(data: bytes, change: Callable[[Any], None]) -> None:
    footer, bounds, places = indexes(data)
    change(places)
    assert answered(read_pages(footer, 0, footer.leaves[0]), [encode(bounds), encode(places)]) is None
    assert answered(read_places(footer, 0, footer.leaves[0]), [encode(places)]) is None


@pytest.mark.parametrize(
    ("field", "page", "value"),
    [
        ("null_counts", 0, 11),
        ("null_counts", 0, -1),
        ("null_counts", 3, 9),  # of a page of nulls alone
        ("null_counts", 3, 11),
        ("min_values", 3, bytes(8)),
        ("max_values", 3, bytes(8)),
    ],
)
def test_an_index_that_contradicts_itself_is_not_used(data: bytes, field: str, page: int, value: Any) -> None:
    footer, bounds, places = indexes(data)
    getattr(bounds, field)[page] = value
    assert answered(read_pages(footer, 0, footer.leaves[0]), [encode(bounds), encode(places)]) is None


@pytest.mark.parametrize("field", ["null_pages", "min_values", "max_values", "null_counts"])
def test_an_index_that_lacks_a_page_is_not_used(data: bytes, field: str) -> None:
    footer, bounds, places = indexes(data)
    getattr(bounds, field).pop()
    assert answered(read_pages(footer, 0, footer.leaves[0]), [encode(bounds), encode(places)]) is None


def test_bytes_that_are_no_index_are_not_used(data: bytes) -> None:
    footer, bounds, places = indexes(data)
    for parts in ([b"\xff" * 20, encode(places)], [encode(bounds), b"\xff" * 20]):
        assert answered(read_pages(footer, 0, footer.leaves[0]), parts) is None
