"""What Paimon's manifests record holds for every row, and what is damaged or cut says less."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from files import unpacked
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import prune
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.tables import paimon_rows, snapshot_of
from parquet_bloom.tables.paimon_rows import Row, Statistics, recorded


def key_of(value: Any) -> Any:
    if isinstance(value, datetime):
        return round((value.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() * 1_000_000)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return int(value.scaleb(-int(value.as_tuple().exponent)))
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["paimon/append", "paimon/evolved", "paimon/avro", "paimon_rust/append"])
def test_bounds_hold_what_is_in_the_files(name: str, tmp_path: Path) -> None:
    table, seen = unpacked(name, tmp_path), 0
    snapshot = snapshot_of(str(table))
    assert snapshot is not None
    assert snapshot.recorded is not None
    for leaf in snapshot.recorded.leaves:
        for file, known in zip(snapshot.files, snapshot.recorded.bounds(leaf), strict=True):
            assert file.not_excluded is None or known is None
            if known is None:
                continue
            values = pq.ParquetFile(file.path).read([leaf.name])[leaf.name].to_pylist()
            assert known.num_values == len(values)
            assert known.null_count in (None, values.count(None))
            keys = [key_of(value) for value in values if value is not None]
            if known.low is not None and known.high is not None:
                assert known.low <= min(keys)
                assert max(keys) <= known.high
                seen += 1
    assert seen > (5 if name.endswith("append") else 0)


def test_what_is_recorded_spares_reading_a_file(tmp_path: Path) -> None:
    table = unpacked("paimon/append", tmp_path)
    snapshot = snapshot_of(str(table))
    assert snapshot is not None
    for file in snapshot.files:
        Path(file.path).write_bytes(bytes(file.size))
    for where in ("id < 0", "region = 'none'", "day = '1900-01-01'"):
        pruned = prune(str(table), where)
        assert pruned.kept_files == ()
        assert all("in the table's manifests" in str(file.excluded) for file in pruned.all_files)


def test_tables_with_keys_record_nothing_that_counts(tmp_path: Path) -> None:
    snapshot = snapshot_of(str(unpacked("paimon/pk_dv", tmp_path)))
    assert snapshot is not None
    assert snapshot.recorded is None


# ---- rows ----------------------------------------------------------------------------------


def packed(*words: int, nulls: int = 0, rest: bytes = b"") -> bytes:
    """Returns a row of columns, of which the first is NULL if the lowest bit of `nulls` is set, and so on."""
    head = (nulls << 8).to_bytes((len(words) + 71) // 64 * 8, "little")
    return len(words).to_bytes(4, "big") + head + b"".join(word.to_bytes(8, "little") for word in words) + rest


def bounds(kind: str, low: bytes, high: bytes, *, nulls: Any = (0,), declared: str | None = None) -> Any:
    stats = {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": nulls}
    found = recorded([(7, ("x", declared or kind))], [Statistics(5, stats, ((7, kind),), {7})])
    (leaf,) = found.leaves
    (known,) = found.bounds(leaf)
    return known


def text(value: bytes) -> bytes:
    if len(value) < 8:
        return packed(int.from_bytes(value.ljust(7, b"\0") + bytes([0x80 | len(value)]), "little"))
    return packed(24 - 8 << 32 | len(value), rest=value)


@given(st.text(), st.integers(1, 20))
def test_a_greatest_text_may_have_been_cut_and_not_rounded_up(value: str, length: int) -> None:
    known = bounds("STRING", text(value[:length].encode()), text(value[:length].encode()))
    if known is not None:
        assert known.low <= value.encode() <= known.high


@pytest.mark.parametrize(
    ("kind", "low", "high", "wanted"),
    [
        ("INT NOT NULL", packed(5), packed(9), (5, 9)),
        ("TINYINT", packed(0xFF), packed(0x7F), (-1, 127)),
        ("INT", packed(5, nulls=1), packed(9, nulls=1), None),
        ("INT", packed(5, nulls=1), packed(9), None),
        ("DOUBLE", packed(5), packed(9), None),
        ("DECIMAL(9, 2)", packed(1), packed(200), (1, 200)),
    ],
)
def test_bounds_are_read_as_rows_have_them(kind: str, low: bytes, high: bytes, wanted: Any) -> None:
    known = bounds(kind, low, high)
    assert known is not None
    assert ((known.low, known.high) if known.low is not None else None) == wanted
    assert known.null_count == (None if kind == "INT" else 0)  # of no nulls the bounds must tell, too


def test_texts_count_where_all_are_the_same_only() -> None:
    """Paimon's Java 0.9 leaves out row groups with long texts, of bounds and counts."""
    stats = {"_MIN_VALUES": text(b"m"), "_MAX_VALUES": text(b"m"), "_NULL_COUNTS": (0,)}
    found = recorded([(7, ("x", "STRING"))], [Statistics(5, stats, ((7, "STRING"),), own) for own in (set(), {7})])
    assert [known is not None for known in found.bounds(found.leaves[0])] == [False, True]


def test_an_older_type_is_read_as_it_was() -> None:
    known = bounds("INT", packed(2**32 - 5), packed(3), declared="BIGINT")
    assert (known.low, known.high) == (-5, 3)


@pytest.mark.parametrize(
    ("kind", "low", "high", "nulls"),
    [
        ("INT", packed(9), packed(5), (0,)),  # the least is the greater one
        ("INT", packed(5), packed(9), (6,)),  # of five
        ("INT", packed(5), packed(9), (5,)),
        ("INT", packed(5), packed(9), ()),
        ("INT", packed(5, 5), packed(9, 9), (0, 0)),
        ("INT", b"", packed(9), (0,)),
        ("INT", None, None, (0,)),
        ("STRING", packed(99 << 32 | 9), packed(99 << 32 | 9), (0,)),
        ("STRING", packed(0x88 << 56), packed(0x88 << 56), (0,)),
    ],
)
def test_what_contradicts_itself_says_nothing(kind: str, low: Any, high: Any, nulls: Any) -> None:
    assert bounds(kind, low, high, nulls=nulls) is None


@pytest.mark.parametrize(
    "kind",
    [
        "BOOLEAN",
        "CHAR(3)",
        "BYTES",
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "DECIMAL(19, 2)",
        "TIME(3)",
        {"type": "ROW"},
        "ENUM",
    ],
)
def test_other_types_have_nothing(kind: Any) -> None:
    found = recorded([(7, ("x", kind))], [None])
    assert (found.leaves, found.names) == ((), ("x",))


def test_columns_are_found_by_their_ids() -> None:
    """A manifest lists some columns only, in an order of its own; a file may have had none of a column."""
    stats = {"_MIN_VALUES": packed(1, 5), "_MAX_VALUES": packed(2, 9), "_NULL_COUNTS": None}
    file = Statistics(5, stats, ((8, "INT"), (7, "INT")))
    found = recorded([(7, ("x", "INT")), (9, ("z", "INT")), (8, ("y", "INT"))], [None, file])
    told = {leaf.name: found.bounds(leaf)[1] for leaf in found.leaves}
    assert {name: (known.low, known.high) for name, known in told.items() if known} == {"x": (5, 9), "y": (1, 2)}
    assert [found.bounds(leaf)[0] for leaf in found.leaves] == [None] * 3


@given(st.binary(max_size=60), st.integers(0, 4))
def test_hostile_rows_are_read_or_told(data: bytes, width: int) -> None:
    try:
        row = Row(data, width)
        for position in range(width):
            row.is_null(position)
            row.integer(position, 8)
            row.data(position)
    except CorruptFileError:
        pass
    for kind in ("INT", "STRING", "DECIMAL(18, 1)"):
        assert bounds(kind, data, data) is None or paimon_rows._bounded_type(kind)
