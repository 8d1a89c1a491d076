"""Each rule about statistics, by a footer that lies as some writer did: without the rule, rows would be lost."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, opened, with_footer

from parquet_bloom import lookup
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.tree import col
from parquet_bloom.values.statistics import StatisticsReader, may_have_nulls
from parquet_bloom.verbs.prune import prune
from parquet_bloom.verbs.verdicts import RowGroupVerdict

Edit = Callable[[Any], None]


def craft(path: Path, array: pa.Array, *edits: Edit, nullable: bool = True, **options: Any) -> None:
    """Writes one row group of one column `c` and edits its footer."""
    schema = pa.schema([pa.field("c", array.type, nullable=nullable)])
    pq.write_table(pa.Table.from_arrays([array], schema=schema), path, store_schema=False, **options)
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for edit in edits:
        edit(metadata)
    path.write_bytes(with_footer(data, encode(metadata)))


def verdict(path: Path, where: Any, **options: Any) -> RowGroupVerdict:
    (group,) = prune(path, where, **options).rows
    return group


def chunk(metadata: Any) -> Any:
    return metadata.row_groups[0].columns[0].meta_data


def bounds(low: bytes | None, high: bytes | None, nulls: int | None = 0, **exact: bool | None) -> Edit:
    def edit(metadata: Any) -> None:
        chunk(metadata).statistics = ttypes.Statistics(null_count=nulls, min_value=low, max_value=high, **exact)

    return edit


def deprecated(low: bytes, high: bytes) -> Edit:
    def edit(metadata: Any) -> None:
        chunk(metadata).statistics = ttypes.Statistics(null_count=0, min=low, max=high)

    return edit


def created_by(name: str | None) -> Edit:
    return lambda metadata: setattr(metadata, "created_by", name)


def no_orders(metadata: Any) -> None:
    metadata.column_orders = None


def unknown_order(metadata: Any) -> None:
    metadata.column_orders = [ttypes.ColumnOrder()]


def too_few_orders(metadata: Any) -> None:
    metadata.column_orders = []


def nothing(metadata: Any) -> None:
    pass


def as_decimals(metadata: Any) -> None:
    element = metadata.schema[1]
    element.logicalType, element.converted_type = None, ttypes.ConvertedType.DECIMAL
    element.precision, element.scale = 9, 2


def both(*edits: Edit) -> Edit:
    def edit(metadata: Any) -> None:
        for each in edits:
            each(metadata)

    return edit


i32, i64, f32, f64 = (struct.Struct(form).pack for form in ("<i", "<q", "<f", "<d"))
C = col("c")
TEXTS = pa.array(["a", "z"])
DECIMALS = pa.array([Decimal("-0.01"), Decimal("0.01"), Decimal("2.55")], pa.decimal128(4, 2))
DECIMALS_IN_BYTES = pa.array(
    [b"\x01", b"\x01\x00", b"\x02"], pa.binary()
)  # 0.01, 2.56 and 0.02, by their bytes in order

# What trusts the lie, what the rule sees, and a condition that a row matches.
RULES: dict[str, tuple[pa.Array, Any, Edit, Edit, Any]] = {
    "1 no order": (TEXTS, {}, bounds(b"m", b"n"), no_orders, C == "a"),
    "1 no order, unsigned": (pa.array([1, 9], pa.uint32()), {}, bounds(i32(3), i32(4)), no_orders, C == 9),
    "1 no order, decimal": (DECIMALS, {}, bounds(b"\xff\xff", b"\0\1"), no_orders, Decimal("2.55") == C),
    "1 no order, boolean": (pa.array([True, False]), {}, bounds(b"\1", b"\1"), no_orders, C == False),  # noqa: E712
    "1 unknown order": (TEXTS, {}, bounds(b"m", b"n"), unknown_order, C == "a"),
    "1 unknown order, integer": (pa.array([1, 9]), {}, bounds(i64(3), i64(4)), unknown_order, C == 9),
    "1 too few orders": (pa.array([1, 9]), {}, bounds(i64(3), i64(4)), too_few_orders, C == 9),
    "2 deprecated, text": (TEXTS, {}, bounds(b"m", b"n"), deprecated(b"m", b"n"), C == "a"),
    "2 deprecated, unsigned": (
        pa.array([1, 9], pa.uint64()),
        {},
        bounds(i64(3), i64(4)),
        deprecated(i64(3), i64(4)),
        C > 8,
    ),
    # As signed bytes 00 ff comes before 00 01, and so 2.55 is lost.
    "2 deprecated, decimal": (
        DECIMALS,
        {},
        bounds(b"\xff\xff", b"\0\1"),
        deprecated(b"\xff\xff", b"\0\1"),
        Decimal("2.55") == C,
    ),
    "2 deprecated, float": (pa.array([1.0, 9.0]), {}, bounds(f64(3), f64(4)), deprecated(f64(3), f64(4)), C == 9.0),
    "3 PARQUET-251": (TEXTS, {}, bounds(b"m", b"m"), created_by("parquet-mr version 1.7.0 (build x)"), C == "a"),
    "3 PARQUET-251 at Cloudera": (
        TEXTS,
        {},
        bounds(b"m", b"m"),
        created_by("parquet-mr version 1.5.0-cdh5.4.9"),
        C == "a",
    ),
    "3 no writer": (TEXTS, {}, bounds(b"m", b"m"), created_by(None), C == "a"),
    "3 no version": (TEXTS, {}, bounds(b"m", b"m"), created_by("parquet-mr"), C == "a"),
    "3 PARQUET-1655": (
        DECIMALS,
        {},
        bounds(b"\xff\xff", b"\0\1"),
        created_by("parquet-cpp version 1.5.1-SNAPSHOT"),
        Decimal("2.55") == C,
    ),
    # As signed bytes 01 80 comes before 01 00, and so 2.56 is lost.
    "3 PARQUET-1655 in Arrow": (
        pa.array([Decimal("2.56"), Decimal("3.84"), Decimal("2.57")], pa.decimal128(4, 2)),
        {},
        bounds(b"\x01\x80", b"\x01\x80"),
        created_by("parquet-cpp-arrow version 3.0.0"),
        Decimal("2.56") == C,
    ),
    **{
        f"3 decimals by their bytes, {writer}": (
            DECIMALS_IN_BYTES,
            {},
            both(as_decimals, bounds(b"\x01", b"\x02")),
            created_by(writer),
            Decimal("2.56") == C,
        )
        for writer in (
            "parquet-rs version 58.0.0",  # arrow-rs 10860
            "github.com/parquet-go/parquet-go version 0.32.0(build abc)",  # its 592
            "somebody's version 1.0",
            "parquet-cpp-arrow version 3.0.0",
        )
    },
    "5 NaN as a bound": (
        pa.array([1.0, math.nan]),
        {},
        bounds(f64(3), f64(4)),
        bounds(f64(3), f64(math.nan)),
        C == 1.0,
    ),
    "5 NaN as a bound, FLOAT": (
        pa.array([1.0], pa.float32()),
        {},
        bounds(f32(3), f32(4)),
        bounds(f32(math.nan), f32(4)),
        C < 2.0,
    ),
    "7 no null count": (pa.array([1, None]), {}, bounds(i64(1), i64(1), 0), bounds(i64(1), i64(1), None), C.is_null()),
    "7 null count below 0": (
        pa.array([1, None]),
        {},
        bounds(i64(1), i64(1), 0),
        bounds(i64(1), i64(1), -1),
        C.is_null(),
    ),
    "7 null count below 0, bounds": (
        pa.array([1, 9]),
        {},
        bounds(i64(3), i64(4), 0),
        bounds(i64(3), i64(4), -1),
        C == 9,
    ),
    "7 null count above values": (pa.array([1, 2]), {}, bounds(None, None, 2), bounds(None, None, 3), C == 1),
    "7 all null, and bounds": (pa.array([1, 2]), {}, bounds(None, None, 2), bounds(i64(1), i64(2), 2), C == 1),
    "7 fewer values than rows": (
        pa.array([1, 2]),
        {},
        bounds(None, None, 2),
        lambda m: (bounds(None, None, 0)(m), setattr(chunk(m), "num_values", 0))[0],
        C == 1,
    ),
    "9 least above greatest": (pa.array([1, 9]), {}, bounds(i64(3), i64(4)), bounds(i64(7), i64(3)), C == 9),
    "9 wrong width": (pa.array([1, 9]), {}, bounds(i64(3), i64(4)), bounds(i32(3), i32(4)), C == 9),
    "9 wrong width, fixed": (
        pa.array([b"aa"], pa.binary(2)),
        {},
        bounds(b"bb", b"cc"),
        bounds(b"bbb", b"ccc"),
        C == b"aa",
    ),
    "9 no boolean": (pa.array([False]), {}, bounds(b"\1", b"\1"), bounds(b"\1", b"\2"), C == False),  # noqa: E712
    "9 one bound only": (pa.array([1, 9]), {}, bounds(i64(3), i64(4)), bounds(i64(3), None), C == 9),
}


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_rows_would_be_lost(tmp_path: Path, rule: str) -> None:
    array, options, lie, seen_by_rule, where = RULES[rule]
    path = tmp_path / "f.parquet"
    craft(path, array, lie, **options)
    assert not verdict(path, where).is_kept
    craft(path, array, lie, seen_by_rule, **options)
    assert verdict(path, where).is_kept


# ---- what may be used all the same -------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "edit", "where"),
    [
        (pa.array([1, 9], pa.int32()), no_orders, C == 10),
        (pa.array([1, 9], pa.int64()), no_orders, C > 9),
        (pa.array([1, 9], pa.int8()), no_orders, C < 1),
        (pa.array([1.0, 9.0]), no_orders, C == 10.0),
        (pa.array([1, 9], pa.date32()), no_orders, C.between(*[pa.scalar(v, pa.date32()).as_py() for v in (20, 30)])),
        (pa.array([1, 9], pa.timestamp("us")), no_orders, pa.scalar(10, pa.timestamp("us")).as_py() == C),
        (pa.array([1, 9], pa.int32()), deprecated(i32(1), i32(9)), C == 10),
        (pa.array([1, 9], pa.int64()), deprecated(i64(1), i64(9)), C <= 0),
        (TEXTS, created_by("parquet-mr version 1.8.0"), C == "zz"),
        (TEXTS, created_by("parquet-mr version 1.12.3 (build f8dced182c4c1fbdec6ccb3185537b5a01e6ed6b)"), C == "zz"),
        (TEXTS, created_by("parquet-rs version 55.0.0"), C == "zz"),
        (DECIMALS, created_by("parquet-cpp-arrow version 4.0.0"), Decimal(3) == C),
        (DECIMALS, created_by("parquet-rs version 58.0.0"), Decimal(3) == C),
        (DECIMALS_IN_BYTES, both(as_decimals, bounds(b"\1", b"\1\0")), Decimal(3) == C),
        *(
            (DECIMALS_IN_BYTES, both(as_decimals, bounds(b"\1", b"\1\0"), created_by(writer)), Decimal(3) == C)
            for writer in ("parquet-mr version 1.10.0", "parquet-cpp-arrow version 4.0.0")
        ),
    ],
)
def test_what_was_never_in_doubt_prunes(tmp_path: Path, array: pa.Array, edit: Edit, where: Any) -> None:
    craft(tmp_path / "f.parquet", array, edit)
    assert verdict(tmp_path / "f.parquet", where).by == "statistics"


def test_4_a_cut_bound_bounds_and_is_no_value(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    high = "é".encode()[:1] + b"\xff"  # cut within a character, and raised
    craft(path, pa.array(["ab", "é"]), bounds(b"a", high, is_min_value_exact=False, is_max_value_exact=False))
    assert verdict(path, C == "ab").is_kept
    assert verdict(path, C == "é").is_kept
    assert not verdict(path, C == "Z").is_kept
    # x <> v prunes a row group that contains only v, which a truncated bound does not prove.
    craft(path, pa.array(["ab"]), bounds(b"a", b"a", is_min_value_exact=False))
    assert verdict(path, C != "a").is_kept
    craft(path, pa.array([6, 7]), bounds(i64(6), i64(6)))
    assert not verdict(path, C != 6).is_kept
    craft(path, pa.array([6, 7]), bounds(i64(6), i64(6), is_max_value_exact=False))
    assert verdict(path, C != 6).is_kept


@pytest.mark.parametrize("array", [pa.array([6, 6]), pa.array(["ab", "ab"])], ids=["integers", "texts"])
def test_4_a_bound_is_a_value_only_where_that_is_sure(tmp_path: Path, array: pa.Array) -> None:
    path = tmp_path / "f.parquet"
    value = i64(6) if array.type == pa.int64() else b"a"
    for is_min, is_max in itertools.product([None, True, False], repeat=2):
        craft(path, array, bounds(value, value, is_min_value_exact=is_min, is_max_value_exact=is_max))
        _, footer = opened(path)
        reader = StatisticsReader(footer.leaves[0])
        is_exact = array.type == pa.int64() and False not in (is_min, is_max)
        assert reader.read(footer, 0).is_exact == is_exact
        records = footer.chunk_records(footer.leaves[0])
        assert records is not None
        assert [known and known.is_exact for known in reader.read_usual(footer, records)] == [is_exact]
        other = "a" if value == b"a" else 6
        assert verdict(path, other != C).is_kept is not is_exact


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_5_zeros_and_nan(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "f.parquet"
    pack = struct.Struct({16: "<e", 32: "<f", 64: "<d"}[kind.bit_width]).pack

    def floats(*values: float) -> pa.Array:
        return pa.array(values, pa.float32()).cast(kind)

    craft(path, floats(-0.0, 1.0), bounds(pack(0.0), pack(1.0)))
    for where in (C == -0.0, C == 0.0, C <= -0.0, C.isin([-0.0])):
        assert verdict(path, where).is_kept
    craft(path, floats(-1.0, 0.0), bounds(pack(-1.0), pack(-0.0)))
    for where in (C == 0.0, C == -0.0, C >= 0.0, C > -1.0):
        assert verdict(path, where).is_kept
    craft(path, floats(1.0, math.nan), bounds(pack(1.0), pack(1.0)))
    for where in (C > 2.0, C >= 2.0, math.nan == C, C != 1.0, ~(C < 2.0), ~(C <= 2.0), ~(C == 1.0), math.nan >= C):
        assert verdict(path, where).is_kept
    for where in (~C.isin([1.0]), ~C.between(0.0, 2.0)):
        assert verdict(path, where).is_kept
    for where in (C < 1.0, C <= 0.5, C == 2.0, ~(C != 2.0)):
        assert verdict(path, where).by == "statistics"


def test_6_orders(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    moments = pa.array([1, 2], pa.timestamp("ns"))
    craft(path, moments, bounds(bytes(12), bytes(12)), use_deprecated_int96_timestamps=True)
    assert verdict(path, pa.scalar(2, pa.timestamp("ns")) == C, timezone="UTC").is_kept
    craft(path, pa.array([1, 2**63 + 1], pa.uint64()))
    assert verdict(path, C == 2**63).is_kept
    assert verdict(path, C > 2**63 + 1).by == "statistics"
    assert verdict(path, C < 1).by == "statistics"
    craft(path, DECIMALS)
    assert verdict(path, Decimal(-1) == C).by == "statistics"
    assert verdict(path, Decimal("2.55") < C).by == "statistics"
    assert verdict(path, Decimal("2.54") < C).is_kept
    craft(path, pa.array([False, False]))
    assert verdict(path, C == True).by == "statistics"  # noqa: E712
    assert verdict(path, C != False).by == "statistics"  # noqa: E712
    craft(path, pa.array([b"\x10" * 16, b"\xf0" * 16], pa.uuid()))
    assert verdict(path, C == b"\x80" * 16).is_kept
    assert verdict(path, C == b"\xff" * 16).by == "statistics"


def test_6_decimals_in_bytes_of_any_width(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    stored = pa.array([b"\xff", b"\x01\x00"], pa.binary())  # -0.01 and 2.56
    craft(path, stored, as_decimals, bounds(b"\xff\xff\xff", b"\x00\x01\x00"))
    assert verdict(path, Decimal("2.56") == C).is_kept
    assert verdict(path, Decimal("-0.01") == C).is_kept
    assert verdict(path, Decimal("2.56") < C).by == "statistics"
    craft(path, stored, as_decimals, bounds(b"", b"\x01"))
    assert verdict(path, Decimal("2.56") == C).is_kept


@pytest.mark.parametrize("logical", ["INTERVAL", "UNKNOWN"])
def test_6_types_without_an_order(tmp_path: Path, logical: str) -> None:
    def annotate(metadata: Any) -> None:
        element = metadata.schema[1]
        if logical == "INTERVAL":
            element.logicalType, element.converted_type = None, ttypes.ConvertedType.INTERVAL
        else:
            element.logicalType = ttypes.LogicalType(UNKNOWN=ttypes.NullType())

    path = tmp_path / "f.parquet"
    craft(path, pa.array([bytes(12)], pa.binary(12)), annotate, bounds(b"\1" * 12, b"\1" * 12))
    for where in (bytes(12) == C, C < b"\1" * 12, "c = 'x'", "c = 5"):
        assert verdict(path, where).is_kept


def test_7_nulls(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    craft(path, pa.array([None, None], pa.int64()))
    for where in (C == 1, C != 1, C < 1, C >= 1, C.isin([1]), ~C.isin([1]), C.eq_null_safe(1), C.is_not_null()):
        assert verdict(path, where).by == "statistics"
    for where in (C.is_null(), C.eq_null_safe(None), ~C.eq_null_safe(1), ~C.is_not_null()):
        assert verdict(path, where).is_kept
    assert verdict(path, [("c", "not in", [1])]).is_kept
    craft(path, pa.array([1, 1, None]))
    assert verdict(path, ~C.eq_null_safe(1)).is_kept
    assert verdict(path, C != 1).by == "statistics"
    assert verdict(path, [("c", "not in", [1])]).is_kept
    craft(path, pa.array([1, 2]))
    assert verdict(path, C.is_null()).by == "statistics"
    craft(path, pa.array([1, 2]), nullable=False, write_statistics=False)
    assert verdict(path, C.is_null()).by == "type"
    for where in (C == None, C != None, C < None, C.isin([1, None]), ~C.isin([7, None])):  # noqa: E711
        assert verdict(path, where).is_kept


def test_7_repeated_leaves(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    leaf = col("c.list.element")
    craft(path, pa.array([[], None, [None]], pa.list_(pa.int64())))
    assert verdict(path, leaf == 1).by == "statistics"
    for where in (leaf.is_null(), leaf.is_not_null(), ~(leaf == 1), leaf != 1, leaf < 1, ~leaf.isin([1]), ~(leaf != 1)):
        assert verdict(path, where).is_kept
    craft(path, pa.array([[1, 1], [], [1]]))
    assert verdict(path, leaf == 2).by == "statistics"
    for where in (leaf == 1, leaf != 1, ~(leaf == 1), ~leaf.isin([1]), ~(leaf != 2), leaf > 1):
        assert verdict(path, where).is_kept


def test_8_the_chunk_has_another_type_than_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    craft(path, pa.array([1, 2]), lambda m: setattr(chunk(m), "type", ttypes.Type.INT32))
    assert "type" in verdict(path, C == 5).reason
    craft(path, pa.array([1, 2]), lambda m: setattr(chunk(m), "path_in_schema", ["d"]))
    assert verdict(path, C == 5).is_kept
    assert verdict(path, C.is_null()).is_kept


def test_text_with_a_collation_proves_nothing(tmp_path: Path) -> None:
    def collated(metadata: Any) -> None:
        fields = [
            {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}}
        ]
        value = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
        metadata.key_value_metadata = [ttypes.KeyValue("org.apache.spark.sql.parquet.row.metadata", value)]

    path = tmp_path / "f.parquet"
    craft(path, pa.array(["Ab"]), bloom_filter_options={"c": {"ndv": 10}})
    assert not verdict(path, C == "aB").is_kept
    assert lookup(path, "c", ["aB"]).to_arrow()["row_group"].to_pylist() == [None]
    craft(path, pa.array(["Ab"]), collated, bloom_filter_options={"c": {"ndv": 10}})
    for where in (C == "aB", C.isin(["aB"]), C < "A", C != "Ab"):
        assert "collation" in verdict(path, where).reason
    assert lookup(path, "c", ["aB"]).to_arrow()["row_group"].to_pylist() == [0]
    craft(path, pa.array([1, 2]), collated)
    assert not verdict(path, C == 5).is_kept


@pytest.mark.parametrize("pair", [(i64(7), i64(3)), (i32(3), i64(7)), (i64(3), i32(7)), (b"", b"")])
def test_bounds_of_a_page_that_no_values_have_are_not_used(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    path = tmp_path / "f.parquet"
    craft(path, pa.array([3, 7]))
    _, footer = opened(path)
    reader = StatisticsReader(footer.leaves[0])
    sound = reader.read_page(footer, 2, (i64(3), i64(7)))
    assert (sound.low, sound.high, sound.why_untrusted) == (3, 7, "")
    damaged = reader.read_page(footer, 2, pair)
    assert (damaged.low, damaged.high, damaged.why_untrusted) == (None, None, "the bounds of the page are damaged")


@pytest.mark.parametrize(("counts", "may"), [((0, 0), False), ((0, 1), True), ((0, None), True)])
def test_a_column_may_have_nulls_unless_every_count_is_0(
    tmp_path: Path, counts: tuple[int | None, ...], may: bool
) -> None:
    def counted(metadata: Any) -> None:
        for group, count in zip(metadata.row_groups, counts, strict=True):
            group.columns[0].meta_data.statistics.null_count = count

    path = tmp_path / "f.parquet"
    craft(path, pa.array([1, 2]), counted, row_group_size=1)
    _, footer = opened(path)
    assert may_have_nulls(footer, footer.leaves[0]) == may


def test_reasons_are_told(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    craft(path, pa.array([1, 9]), bounds(i64(7), i64(3)))
    assert verdict(path, C > 100).reason == "the min is above the max"
    _, footer = opened(path)
    known = StatisticsReader(footer.leaves[0]).read(footer, 0)
    assert (known.low, known.high, known.is_all_null) == (None, None, False)
