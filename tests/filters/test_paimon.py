"""Paimon's file index: vectors of its own classes, a slow reference, literals that prove, and hostile bytes."""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import extremes
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference import paimon_filter, paimon_places, wang64, xxh64

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.filters import paimon
from parquet_bloom.filters.paimon import PaimonFilter, array_hashes, build, parse_container, size_for, write_container

VECTORS = json.loads(Path(__file__).with_name("paimon_vectors.json").read_text("utf-8"))
COLUMN = ("x",)
INT64 = st.integers(-(2**63), 2**63 - 1)


def vectors(kind: str) -> list[dict[str, Any]]:
    found = [vector for vector in VECTORS if vector["kind"] == kind]
    assert found
    return found


ARROW = {
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING"), pa.string()),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES"), pa.binary()),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "TIMESTAMP": pa.timestamp("ns"),
    "TIMESTAMP_LTZ": pa.timestamp("ns", "UTC"),
}  # TIMESTAMP(6) WITH LOCAL TIME ZONE is taken for its wall clock: it is hashed the same


def array_of(kind: str, values: list[Any]) -> pa.Array:
    arrow = ARROW[kind.partition("(")[0]]
    plain = [plain_of(value, arrow) for value in values]
    for unit in ("us", "ms") if pa.types.is_timestamp(arrow) else ():
        if any(value is not None and not -(2**63) <= value < 2**63 for value in plain):  # too far for a finer unit
            plain = [None if value is None else value // 1000 for value in plain]
            arrow = pa.timestamp(unit, arrow.tz)
    if pa.types.is_temporal(arrow):
        return pa.array(plain, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)
    return pa.array(plain, arrow)


def plain_of(value: Any, arrow: pa.DataType) -> Any:
    match value:
        case {"text": text}:
            return text
        case {"hex": raw}:
            return bytes.fromhex(raw)
        case {"bits_hex": bits}:
            return struct.unpack(">f" if arrow == pa.float32() else ">d", bytes.fromhex(bits))[0]
        case {"millis": millis, "nanos_of_milli": nanos}:
            return millis * 1_000_000 + nanos
    return value


# ---- vectors -------------------------------------------------------------------------------


def test_hashes_are_paimons() -> None:
    for vector in vectors("hash"):
        hashes = array_hashes(array_of(vector["type"], [vector["value"], None]), vector["type"])
        assert [h % 2**64 for h in hashes.to_pylist()] == [int(vector["hash_hex"], 16)], vector


EXTREMES = [vector for vector in vectors("hash") if "recorded" in vector]


def test_the_ends_of_every_type_are_recorded() -> None:
    drawn = [(kind, value) for kind, values in extremes.PAIMON.items() for value in values]
    assert [(vector["type"], vector["value"]) for vector in EXTREMES] == drawn


def test_literals_are_hashed_as_what_is_stored() -> None:
    asked = 0
    for vector in EXTREMES:
        literal = extremes.literal(vector["type"], vector["value"])
        if literal is not None and (hashes := paimon.literal_hashes(vector["type"], literal)):
            assert int(vector["hash_hex"], 16) in hashes or literal != literal, vector
            asked += 1
    assert asked > 500


def test_sizes_are_paimons() -> None:
    for vector in vectors("sizing"):
        assert size_for(vector["items"], vector["fpp"]) == (vector["num_hash_functions"], vector["num_bits"]), vector


@pytest.mark.parametrize("vector", vectors("blob"), ids=lambda v: v["blob_hex"][:20])
def test_filters_are_paimons(vector: dict[str, Any]) -> None:
    values = array_of(vector["type"], vector["values"])
    assert build(values, vector["type"], items=vector["items"], fpp=vector["fpp"]).hex() == vector["blob_hex"]


def test_a_filter_of_the_default_size_is_paimons() -> None:
    for vector in vectors("blob_default_options"):
        payload = build(pa.chunked_array([[1, 2], [3]], pa.int32()), vector["type"])
        assert (len(payload), hashlib.sha256(payload).hexdigest()) == (vector["blob_len"], vector["blob_sha256"])


@pytest.mark.parametrize("vector", vectors("probe"), ids=lambda v: v["blob_hex"][:20])
def test_answers_are_paimons(vector: dict[str, Any]) -> None:
    bloom = PaimonFilter(bytes.fromhex(vector["blob_hex"]), COLUMN, vector["type"])
    literals = array_of(vector["type"], vector["probes"]).to_pylist()
    assert list(bloom.might_contain(literals)) == vector["may_contain"]


@pytest.mark.parametrize("vector", vectors("container"), ids=lambda v: str(len(v["indexes"])))
def test_containers_are_paimons(vector: dict[str, Any]) -> None:
    indexes = {
        column: {kind: None if raw is None else bytes.fromhex(raw) for kind, raw in kinds.items()}
        for column, kinds in vector["indexes"].items()
    }
    data = bytes.fromhex(vector["container_hex"])
    assert write_container(indexes) == data
    assert parse_container(data) == indexes
    assert len(entries(data)) == sum(map(len, indexes.values()))


EQUALITIES = {"id = 1": [1], "id = NULL": [None], "id IN (5,2)": [5, 2]}


@pytest.mark.parametrize("predicate", EQUALITIES)
def test_what_paimon_keeps_for_an_equality_is_kept(predicate: str) -> None:
    (vector,) = [vector for vector in vectors("predicate") if vector["predicate"] == predicate]
    wanted = EQUALITIES[predicate]
    payload = parse_container(bytes.fromhex(vector["container_hex"]))["id"]["bloom-filter"]
    assert payload is not None
    assert any(PaimonFilter(payload, COLUMN, "INT").might_contain(wanted)) == (vector["result"] == "REMAIN")


@pytest.mark.parametrize("vector", vectors("unsupported_type"), ids=lambda v: v["type"])
def test_types_that_paimon_does_not_hash_are_refused(vector: dict[str, Any]) -> None:
    assert not paimon.is_hashed(vector["type"])
    with pytest.raises(UnsupportedError):
        PaimonFilter(bytes(10), COLUMN, vector["type"])
    with pytest.raises(UnsupportedError):
        build(pa.array([True]), vector["type"])


def test_the_next_version_is_known_and_refused() -> None:
    for vector in vectors("container_v2_proposed"):
        with pytest.raises(UnsupportedError, match="version 2"):
            parse_container(bytes.fromhex(vector["container_hex"]))


def test_a_filter_with_many_hash_functions_is_read_but_not_made() -> None:
    for vector in vectors("blob_high_k"):
        bloom = PaimonFilter(bytes.fromhex(vector["blob_hex"]), COLUMN, vector["type"])
        assert bloom.describe().num_hashes == vector["num_hash_functions"]
        assert bloom.might_contain([*vector["values"], 43]) == b"\1\0"
        with pytest.raises(ValueError, match="at most 127"):
            size_for(vector["items"], vector["fpp"])


# ---- the container -------------------------------------------------------------------------


def entries(data: bytes) -> tuple[paimon.Entry, ...]:
    """Returns what the plan finds, and sees to it that it asks for no byte beyond the container."""
    plan = paimon.read_entries(len(data))
    wanted = next(plan)
    while True:
        assert all(0 <= start < stop <= len(data) for start, stop in wanted)
        try:
            wanted = plan.send([data[start:stop] for start, stop in wanted])
        except StopIteration as stop:
            found: tuple[paimon.Entry, ...] = stop.value
            return found


def reserved(data: bytes, extra: bytes) -> bytes:
    """Returns a container with more bytes between its head and its payloads, as a later version may have them."""
    length = struct.unpack_from(">i", data, 12)[0]
    head = bytearray(data[:length] + extra)
    struct.pack_into(">i", head, 12, len(head))
    for entry in entries(data):
        if entry.start >= 0:
            at = data.index(struct.pack(">ii", entry.start, entry.length))
            struct.pack_into(">i", head, at, entry.start + len(extra))
    return bytes(head) + data[length:]


def test_reserved_bytes_are_skipped() -> None:
    indexes = {"id": {"bloom-filter": b"12345"}, "name": {"bitmap": b"\0\1", "bloom-filter": None}}
    assert parse_container(reserved(write_container(indexes), b"later")) == indexes


def test_payloads_may_lie_in_another_order() -> None:
    data = bytearray(write_container({"a": {"k": b"first"}, "b": {"k": b"other"}}))
    first, other = (data.index(struct.pack(">ii", entry.start, 5)) for entry in entries(bytes(data)))
    data[first : first + 4], data[other : other + 4] = data[other : other + 4], data[first : first + 4]
    assert parse_container(bytes(data)) == {"a": {"k": b"other"}, "b": {"k": b"first"}}


def test_a_long_head_takes_a_second_read_and_no_more() -> None:
    data = write_container({f"column {number}": {"bloom-filter": b"12345"} for number in range(500)})
    plan = paimon.read_entries(len(data))
    (first,) = next(plan)
    (second,) = plan.send([data[first.start : first.stop]])
    assert first.stop == second.start
    assert second.stop == struct.unpack_from(">i", data, 12)[0]
    with pytest.raises(StopIteration):
        plan.send([data[second.start : second.stop]])


TEXTS = st.text(st.characters(codec=None), max_size=6)


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, st.none() | st.binary(max_size=9), max_size=3), max_size=30))
def test_what_is_written_is_read(indexes: dict[str, dict[str, bytes | None]]) -> None:
    joined = {joined_pairs(c): {joined_pairs(k): raw for k, raw in kinds.items()} for c, kinds in indexes.items()}
    wanted = {column: kinds for column, kinds in joined.items() if kinds}
    assert parse_container(write_container(indexes)) == wanted or len(joined) < len(indexes)
    assert parse_container(paimon.build_container(joined)) == wanted


def joined_pairs(text: str) -> str:
    """Returns a text as Java has it, in which two halves beside each other are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def test_the_order_is_that_of_java_hash_maps() -> None:
    # Buckets of 16: BB, Aa, p 0; a, q 1; z 10. Of one bucket, the last to come is the first to be written.
    names = {"z": 10, "BB": 0, "a": 1, "Aa": 0, "q": 1, "p": 0}
    found = list(parse_container(paimon.build_container({name: {"k": b"1"} for name in names})))
    assert [names[name] for name in found] == sorted(names.values())
    types = dict.fromkeys(("range-bitmap", "bsi", "bitmap", "bloom-filter"), b"1")
    assert list(parse_container(paimon.build_container({"a": types}))["a"]) == list(types)[::-1]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0, "does not start"),
        (12, 2**31 - 1, "does not fit"),
        (12, 19, "does not fit"),
        (12, -1, "does not fit"),
        (12, 30, "ends too early"),
        (16, -1, "the count -1 is negative"),
        (16, 2**31 - 1, "ends too early"),
        (24, 2**31 - 1, "ends too early"),
        (42, 53, "outside"),
        (42, -2, "outside"),
        (42, 2**31 - 1, "outside"),
        (46, 6, "outside"),
        (46, -1, "outside"),
    ],
)
def test_damage_is_told(at: int, value: int, message: str) -> None:
    data = bytearray(write_container({"id": {"bloom-filter": b"12345"}}))
    assert data[42:50] == struct.pack(">ii", 54, 5)
    struct.pack_into(">i", data, at, value)
    for read in (parse_container, entries):
        with pytest.raises(CorruptFileError, match=message):
            read(bytes(data))


def test_a_name_that_is_no_text_is_damage() -> None:
    data = write_container({"ab": {"bloom-filter": b"12345"}})
    with pytest.raises(CorruptFileError, match="modified UTF-8"):
        parse_container(data.replace(b"ab", b"\xff\xfe"))
    with pytest.raises(ValueError, match="65,535"):
        write_container({"é" * 40_000: {}})


@given(st.data())
def test_hostile_bytes_raise_what_they_should(data: st.DataObject) -> None:
    good = write_container({"id": {"bloom-filter": b"\0\0\0\3abcdef"}, "n": {"bitmap": b"1", "bloom-filter": None}})
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    hostile = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for read in (parse_container, entries) if hostile else (parse_container,):
        try:
            read(hostile)
        except (CorruptFileError, UnsupportedError):
            continue


@given(st.binary(max_size=40), st.lists(INT64 | st.text() | st.floats() | st.none()))
def test_hostile_filters_answer_or_raise(payload: bytes, values: list[Any]) -> None:
    for kind in ("BIGINT", "STRING", "DOUBLE"):
        try:
            bloom = PaimonFilter(payload, COLUMN, kind)
        except CorruptFileError:
            continue
        assert set(bloom.might_contain(values)) <= {0, 1}
        assert 0 <= bloom.describe().fpp <= 1


@pytest.mark.parametrize(
    "payload", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\0\1", b"\xff\xff\xff\xff\1", b"\x7f\0\0\0\1"]
)
def test_bytes_that_are_no_filter_are_told(payload: bytes) -> None:
    with pytest.raises(CorruptFileError):
        PaimonFilter(payload, COLUMN, "INT")


# ---- a slow reference ----------------------------------------------------------------------


@given(st.lists(INT64))
@example([-1, 0, 1, -(2**63), 2**63 - 1])
def test_integers_hash_as_the_reference_has_it(values: list[int]) -> None:
    wanted = [wang64(value) for value in values]
    assert [paimon.wang64(value) for value in values] == wanted
    assert [h % 2**64 for h in array_hashes(pa.array(values, pa.int64()), "BIGINT").to_pylist()] == wanted


@given(st.lists(st.binary(max_size=80)), st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
def test_bytes_hash_as_the_reference_has_it(values: list[bytes], arrow: pa.DataType) -> None:
    hashes = array_hashes(pa.array([*values, None], arrow), "BYTES").to_pylist()
    assert [h % 2**64 for h in hashes] == [xxh64(value) for value in values]


SIZES = st.tuples(st.integers(1, 300), st.floats(1e-9, 0.9))


@given(st.lists(st.none() | INT64), SIZES)
def test_filters_are_those_of_the_reference(values: list[int | None], size: tuple[int, float]) -> None:
    items, fpp = size
    num_hashes, num_bits = size_for(items, fpp)
    payload = build(pa.array(values, pa.int64()), "BIGINT", items=items, fpp=fpp)
    present = [value for value in values if value is not None]
    assert payload == paimon_filter([wang64(value) for value in present], num_hashes, num_bits)
    bloom = PaimonFilter(payload, COLUMN, "BIGINT")
    assert bloom.might_contain(present) == b"\1" * len(present)
    others = range(100)
    set_bits = {8 * at + bit for at, byte in enumerate(payload[4:]) for bit in range(8) if byte >> bit & 1}
    assert list(bloom.might_contain(others)) == [
        paimon_places(wang64(value), num_hashes, num_bits) <= set_bits for value in others
    ]


def test_dictionaries_and_slices_are_the_same_values() -> None:
    texts = pa.array(["a", None, "b", "ab", "a"])
    wanted = build(texts, "STRING", items=10)
    assert build(texts.dictionary_encode(), "VARCHAR(3)", items=10) == wanted
    assert build(pa.chunked_array([texts.slice(0, 2), texts.slice(2)]), "STRING", items=10) == wanted
    assert build(pa.array([b"abc"], pa.binary(3)), "BINARY(3)", items=9) == build(pa.array(["abc"]), "CHAR(3)", items=9)


def test_times_are_rounded_down_to_what_paimon_hashes() -> None:
    instants = [-1, -999_999, -1_000_001, 1_700_000_000_123_456_789]
    ns = pa.array(instants, pa.int64()).cast(pa.timestamp("ns"))
    for kind, step in (("TIMESTAMP(3)", 10**6), ("TIMESTAMP(0)", 10**6), ("TIMESTAMP", 1000), ("TIMESTAMP(9)", 1000)):
        wanted = [wang64(instant // step) for instant in instants]
        assert [h % 2**64 for h in array_hashes(ns, kind).to_pylist()] == wanted
    seconds = pa.array([-5], pa.int64()).cast(pa.timestamp("s", "UTC"))
    assert array_hashes(seconds, "TIMESTAMP_LTZ(6)")[0].as_py() % 2**64 == wang64(-5_000_000)
    noon = pa.array([43_200_000_000_999], pa.time64("ns"))
    assert array_hashes(noon, "TIME(9)")[0].as_py() % 2**64 == wang64(43_200_000)


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        *[("INT", pa.uint32()), ("INT", pa.float64()), ("FLOAT", pa.float64()), ("DOUBLE", pa.float32())],
        *[("DATE", pa.int32()), ("TIMESTAMP(3)", pa.int64()), ("STRING", pa.int32()), ("TIME", pa.timestamp("ms"))],
    ],
)
def test_arrays_of_other_types_are_refused(kind: str, arrow: pa.DataType) -> None:
    with pytest.raises(TypeError):
        array_hashes(pa.array([1], arrow), kind)


def test_sizes_that_paimon_cannot_use_are_refused() -> None:
    for items, fpp in ((0, 0.1), (-1, 0.1), (1, 0.0), (1, 1.5), (1, math.nan), (2**31 - 1, 0.1)):
        with pytest.raises(ValueError, match=r"at least one item|an fpp of|with an fpp"):
            size_for(items, fpp)


# ---- literals ------------------------------------------------------------------------------


NOON = datetime(2026, 1, 31, 12)


@pytest.mark.parametrize(
    ("kind", "stored", "finds"),
    [
        ("INT", pa.array([5], pa.int32()), [5, 5.0, Decimal(5), Decimal("5.00")]),
        ("BIGINT", pa.array([2**40]), [2**40, float(2**40), Decimal(2**40)]),
        ("TINYINT", pa.array([-3], pa.int8()), [-3, -3.0]),
        ("FLOAT", pa.array([0.1, 3], pa.float32()), [0.1, 3, 3.0]),
        ("DOUBLE", pa.array([0.1, 3]), [0.1, 3]),
        ("DOUBLE", pa.array([-0.0]), [0.0, -0.0, 0]),
        ("FLOAT", pa.array([0.0], pa.float32()), [0.0, -0.0, 0]),
        ("STRING", pa.array(["ab "]), ["ab "]),
        ("CHAR(4)", pa.array(["ab  "]), ["ab", "ab ", "ab  ", "ab   "]),
        ("CHAR(4)", pa.array(["ab"]), ["ab", "ab  "]),
        ("BINARY(3)", pa.array([b"a\0\0"]), [b"a", b"a\0\0"]),
        ("DATE", pa.array([date(2026, 1, 31)]), [date(2026, 1, 31)]),
        ("TIME(0)", pa.array([43_200_500], pa.time32("ms")), [time(12, 0, 0, 500_000)]),
        ("TIMESTAMP(3)", pa.array([NOON], pa.timestamp("ms")), [NOON, NOON + timedelta(microseconds=1)]),
        ("TIMESTAMP(6)", pa.array([NOON]), [NOON]),
        (
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            pa.array([NOON], pa.timestamp("us", "UTC")),
            [NOON.replace(tzinfo=UTC)],
        ),
    ],
)
def test_literals_find_what_is_stored(kind: str, stored: pa.Array, finds: list[Any]) -> None:
    bloom = PaimonFilter(build(stored, kind, items=100, fpp=1e-6), COLUMN, f"{kind} NOT NULL")
    assert bloom.might_contain(finds) == b"\1" * len(finds)


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        ("INT", [7, 7.0, Decimal(7)]),
        ("BIGINT", [-7]),
        ("FLOAT", [7, 0.7, 0.0]),
        ("DOUBLE", [7, 0.7, 0.0]),
        ("STRING", ["seven", ""]),
        ("CHAR(9)", ["seven"]),
        ("BYTES", [b"seven"]),
        ("BINARY(9)", [b"seven"]),
        ("DATE", [date(2026, 1, 31)]),
        ("TIME", [time(12)]),
        ("TIMESTAMP(3)", [NOON]),
        ("TIMESTAMP_LTZ(3)", [NOON.replace(tzinfo=UTC)]),
    ],
)
def test_an_empty_filter_has_nothing_that_is_understood(kind: str, absent: list[Any]) -> None:
    assert PaimonFilter(b"\0\0\0\3" + bytes(8), COLUMN, kind).might_contain(absent) == bytes(len(absent))


@pytest.mark.parametrize(
    ("kind", "literals"),
    [
        (
            "INT",
            [None, "7", b"7", 2**31, -(2**31) - 1, 0.5, math.nan, math.inf, Decimal("0.5"), date(2026, 1, 1), NOON],
        ),
        ("TINYINT", [128, -129, 128.0]),
        ("BIGINT", [2**63, float(2**53), 1e300, Decimal("1e-30"), Decimal("NaN"), time(1), object()]),
        ("FLOAT", [math.nan, 2**53 + 1, Decimal(7), "7", b""]),
        ("DOUBLE", [math.nan, 2**53 + 1, Decimal("0.7"), NOON]),
        ("STRING", [7, 0.7, date(2026, 1, 1), "\ud800", None]),
        ("CHAR(200)", ["seven"]),
        ("BYTES", [7, None]),
        ("DATE", ["2026-01-31", 7, 7.0, date(1500, 1, 1), NOON.replace(tzinfo=UTC)]),
        ("TIME", ["12:00", 7, time(12, tzinfo=UTC)]),
        ("TIMESTAMP(3)", [7, "2026-01-31", NOON.replace(tzinfo=UTC), None]),
        ("TIMESTAMP_LTZ(6)", [7, NOON, "2026-01-31T12:00:00Z"]),
    ],
)
def test_what_is_not_understood_proves_nothing(kind: str, literals: list[Any]) -> None:
    assert PaimonFilter(b"\0\0\0\3" + bytes(8), COLUMN, kind).might_contain(literals) == b"\1" * len(literals)


def test_types_are_read_as_schemas_write_them() -> None:
    hashed = (
        "INT",
        "INT NOT NULL",
        "VARCHAR(20)",
        "STRING",
        "TIMESTAMP(3)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "TIME(0)",
    )
    assert all(map(paimon.is_hashed, hashed))
    others = ("BOOLEAN", "DECIMAL(10, 2)", "VARIANT", "INT WITH LOCAL TIME ZONE", "", "INTEGRAL", {"type": "ROW"}, None)
    assert not any(map(paimon.is_hashed, others))


@given(st.sets(st.integers(0, 10**6), max_size=60))
def test_a_filter_tells_its_state(values: set[int]) -> None:
    bloom = PaimonFilter(build(pa.array(values, pa.int64()), "BIGINT", items=100, fpp=0.01), COLUMN, "BIGINT")
    told = bloom.describe()
    assert (told.num_bytes, told.num_hashes) == (120, 7)
    assert told.ndv == pytest.approx(len(values), rel=0.2, abs=2)
    assert told.fpp == pytest.approx(told.fill**7)


def test_a_full_filter_has_no_estimate() -> None:
    told = PaimonFilter(b"\0\0\0\3\xff\xff", COLUMN, "INT").describe()
    assert (told.fill, told.fpp, told.ndv) == (1.0, 1.0, None)


def test_errors_are_the_librarys() -> None:
    rng = random.Random(7)
    for size in (*range(60), 5000):
        with pytest.raises(ParquetBloomError):
            parse_container(rng.randbytes(size))


# ---- literals that are probed again ------------------------------------------------------------

ONES: list[Any] = [1, True, 1.0, Decimal(1), "1", b"1", 0.0, -0.0, 0, None, date(2026, 1, 1), "\ud800", 2**63, -(2**63)]


@given(
    st.lists(st.lists(st.sampled_from(ONES) | INT64 | st.text(max_size=3), max_size=4), max_size=12),
    st.lists(st.sampled_from(["TINYINT", "INT", "BIGINT", "DOUBLE", "STRING", "CHAR(2)", "BYTES", "DATE"]), min_size=1),
)
def test_a_list_of_literals_is_answered_as_each_of_them_is(lists: list[list[Any]], kinds: list[str]) -> None:
    """However often it is probed, and whatever equal literals were probed before."""
    payload = paimon_filter(
        [hashed for value in range(0, 99, 3) for hashed in (wang64(value), xxh64(b"%d" % value))], 2, 128
    )
    for literals in [*lists, *lists]:
        for kind in kinds:
            bloom = PaimonFilter(payload, COLUMN, kind)
            wanted = []
            for literal in literals:
                hashes = paimon.literal_hashes(kind, literal)
                wanted.append(not hashes or any(map(bloom.contains_hash, hashes)))
            assert list(bloom.might_contain(literals)) == wanted


def test_a_list_that_changes_is_another_one() -> None:
    bloom = PaimonFilter(build(pa.array([1], pa.int64()), "BIGINT", items=9, fpp=0.001), COLUMN, "BIGINT")
    blob = bytearray(b"a")
    raw = PaimonFilter(build(pa.array([b"b"]), "BYTES", items=9, fpp=0.001), COLUMN, "BYTES")
    literals = [2]
    assert (bloom.might_contain(literals), raw.might_contain([blob])) == (b"\0", raw.might_contain([b"a"]))
    literals[0] = 1
    blob[:] = b"b"
    assert (bloom.might_contain(literals), raw.might_contain([blob])) == (b"\1", b"\1")


def test_literals_are_hashed_once_for_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paimon._Recent, "entries", ())
    asked = []
    monkeypatch.setattr(paimon, "literal_hashes", lambda kind, value: asked.append(value) or (7,))
    keys = [date(2026, 1, 1), date(2026, 1, 2)]
    for _ in range(5):
        PaimonFilter(b"\0\0\0\3" + bytes(8), COLUMN, "DATE").might_contain(keys)
    assert asked == keys


def test_few_lists_are_remembered_and_none_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paimon._Recent, "entries", ())
    monkeypatch.setattr(paimon, "_MOST_REMEMBERED", 100)
    bloom = PaimonFilter(b"\0\0\0\3" + bytes(8), COLUMN, "BIGINT")
    for length in (*range(30), 60, 70, 101):
        assert bloom.might_contain(list(range(length))) == bytes(length)
        assert len(paimon._Recent.entries) <= paimon._LISTS_REMEMBERED
        assert sum(len(literals) for _, literals, _ in paimon._Recent.entries) <= 100
    assert len(paimon._Recent.entries[0][1]) == 70


def test_literals_that_are_equal_and_of_other_types_are_not_taken_for_each_other() -> None:
    one, true = (paimon._probes("BIGINT", (value,)) for value in (1, True))
    assert one.hashes
    assert (true.hashes, list(true.counts or ())) == (b"", [0])  # so the value may be there


def test_nanoseconds_before_1970_are_looked_for_on_either_side() -> None:
    for year, is_shared in ((1960, True), (2020, False)):
        one, other = (paimon.literal_hashes("TIMESTAMP(9)", datetime(year, 5, 6, 7, 8, 9, at)) for at in (5, 6))
        assert bool({*one} & {*other}) == is_shared


def test_a_name_that_may_be_a_key_of_a_map_has_no_filter() -> None:
    columns = {"id": "INT", "tags[id]": "INT"}
    data = write_container({name: {"bloom-filter": b"\0\0\0\3abcdef"} for name in columns})
    file: Any = SimpleNamespace(file_index=SimpleNamespace(data=data, columns=columns), not_excluded=None)
    with pytest.raises(StopIteration) as stop:
        next(paimon.filters_of_table(file))
    assert [bloom.column for bloom in stop.value.value] == [("id",)]
