"""What a table's metadata record of its files' values, as far as it can be trusted."""

from __future__ import annotations

import pytest

from parquet_bloom.tables.recorded import bounds_of, text_bounds

WIDE, SMILE = "\uff21", "\U0001f600"  # which in UTF-16 is less than the first, and in bytes greater


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [("a", WIDE, SMILE), ("a", f"b{WIDE}", f"b{SMILE}"), (SMILE, SMILE, WIDE), (f"b{SMILE}", "c", f"b{WIDE}")],
)
def test_texts_lie_between_their_bounds_in_either_order(low: str, high: str, value: str) -> None:
    assert low.encode("utf-16-be") <= value.encode("utf-16-be") <= high.encode("utf-16-be") or value == WIDE != high
    first, last = text_bounds(low.encode(), high.encode(), 100)
    assert first is not None
    assert last is not None
    assert first <= value.encode() <= last


def test_a_text_that_may_have_been_cut_is_no_greatest_one() -> None:
    first, last = text_bounds(b"a", b"mmmm", 4)
    assert first == b"a"
    assert isinstance(last, bytes)
    assert last > b"mmmmz"
    assert text_bounds(b"a", b"mmmm", 5) == (b"a", b"mmmm")
    assert text_bounds(b"a", b"\xff", 5) == text_bounds(None, b"m", 5) == (None, None)


def test_what_contradicts_itself_is_ignored() -> None:
    assert bounds_of(2, 0, 2, 1) is None
    assert bounds_of(2, 3, 1, 2) is bounds_of(2, -1, 1, 2) is bounds_of(2, 2, 1, 2) is None
    known = bounds_of(2, 1, 1, 2)
    assert known is not None
    assert (known.low, known.high, known.null_count) == (1, 2, 1)
