"""Hudi's filters, byte for byte, against recorded vectors and the specification in plain Python."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import extremes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import CorruptFileError, UnsupportedError
from parquet_bloom.filters import hudi
from parquet_bloom.filters.hudi import (
    DynamicFilter,
    HudiFilter,
    SimpleFilter,
    build,
    decode_text,
    encode_text,
    filter_of,
    parse,
)
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text("utf-8"))
KEYS = st.lists(st.binary(min_size=1, max_size=12), max_size=40)


def made(vector: dict[str, Any]) -> SimpleFilter | DynamicFilter:
    if vector["type_code"] == "SIMPLE":
        return SimpleFilter(vector["m"], vector["k"], hash_type=vector["hash_type"])
    return DynamicFilter.sized_for(vector["num_entries"], vector["fpp"], vector["max_entries"])


@pytest.mark.parametrize("vector", VECTORS["filters"], ids=lambda v: v["name"])
def test_recorded_filters(vector: dict[str, Any]) -> None:
    found = parse(decode_text(vector["base64"]), vector["type_code"])
    assert (found.num_bits, found.num_hashes, found.hash_type) == (vector["m"], vector["k"], vector["hash_type"])
    keys = [key.encode() for key, _ in vector["probes"]]
    assert [bool(there) for there in found.check(keys)] == [expected for _, expected in vector["probes"]]
    for key in keys:
        assert found.check([key])[0] == found.check(keys)[keys.index(key)]
    if vector["base64"].startswith("/////w"):
        assert encode_text(found.to_bytes()) == vector["base64"]


@pytest.mark.parametrize("vector", [v for v in VECTORS["filters"] if "num_entries" in v], ids=lambda v: v["name"])
def test_recorded_filters_are_built_the_same(vector: dict[str, Any]) -> None:
    assert hudi.sizing(vector["num_entries"], vector["fpp"]) == (vector["m"], vector["k"])
    bloom = made(vector)
    keys, first = [key.encode() for key in vector["keys"]], vector.get("reload_after", 0)
    if first:
        bloom.add(keys[:first])
        bloom = parse(bloom.to_bytes(), vector["type_code"])
    bloom.add(keys[first:])
    assert encode_text(bloom.to_bytes()) == vector["base64"]
    if not first and vector["hash_type"] == hudi.MURMUR:
        settings = {name: vector[name] for name in ("num_entries", "fpp", "max_entries") if name in vector}
        entries = build(vector["keys"], type=vector["type_code"].lower(), **settings)
        assert entries[hudi.FILTER] == vector["base64"]
        assert entries.get(hudi.TYPE_CODE) == (None if vector["type_code"] == "SIMPLE" else vector["type_code"])


EXTREMES = [vector for vector in VECTORS["filters"] if "recorded" in vector]


def test_the_least_and_greatest_key_are_hudis_own() -> None:
    assert [(v["type_code"], v["num_entries"], v["fpp"], v["max_entries"]) for v in EXTREMES] == extremes.HUDI_SIZES
    for vector in EXTREMES:
        assert vector["keys"] == extremes.HUDI_KEYS[::2]
        settings = {name: vector[name] for name in ("num_entries", "fpp", "max_entries")}
        entries = build(vector["keys"], type=vector["type_code"], **settings)
        assert (entries[hudi.MIN_KEY], entries[hudi.MAX_KEY]) == (vector["min_key"], vector["max_key"])


@pytest.mark.parametrize("footer", VECTORS["footers"], ids=range(len(VECTORS["footers"])))
def test_footers_of_hudi_itself(footer: dict[str, Any]) -> None:
    entries = build(footer["keys"])
    text = entries.pop(hudi.FILTER)
    assert (len(text), hashlib.sha256(text.encode()).hexdigest()) == (
        footer["base64_chars"],
        footer["sha256_base64_text"],
    )
    assert entries == {
        hudi.TYPE_CODE: "DYNAMIC_V0",
        hudi.MIN_KEY: footer["min_key"],
        hudi.MAX_KEY: footer["max_key"],
    }


@pytest.mark.parametrize(("data", "seed", "murmur", "jenkins"), VECTORS["hashes"])
def test_recorded_hashes(data: str, seed: int, murmur: int, jenkins: int) -> None:
    assert reference.hadoop_murmur(bytes.fromhex(data), seed) == murmur
    assert hudi.jenkins(bytes.fromhex(data), seed) == jenkins % 2**32


@pytest.mark.parametrize(("text", "num_bits", "positions"), VECTORS["chains"])
def test_recorded_positions(text: str, num_bits: int, positions: list[int]) -> None:
    assert reference.hadoop_positions(text.encode(), num_bits, len(positions)) == positions
    bloom = SimpleFilter(num_bits, len(positions))
    bloom.add([text.encode()])
    assert {at for at in range(num_bits) if bloom.bits[at // 8] >> at % 8 & 1} == set(positions)


@pytest.mark.parametrize(("num_entries", "fpp", "num_bits", "num_hashes"), VECTORS["sizes"])
def test_recorded_sizes(num_entries: int, fpp: float, num_bits: int, num_hashes: int) -> None:
    assert hudi.sizing(num_entries, fpp) == (num_bits, num_hashes)


def test_sizes_that_there_are_not() -> None:
    assert hudi.sizing(2**31 - 1, 1e-9)[0] == 2**31 - 1
    assert hudi.sizing(1, 5e-324)[1] < hudi._MOST_HASHES
    for num_entries, fpp in [(0, 0.1), (-1, 0.1), (2**31, 0.1), (1, 0.0), (1, 1.0), (1, math.nan)]:
        with pytest.raises(ValueError, match="at least one key"):
            hudi.sizing(num_entries, fpp)


# ---- growth ------------------------------------------------------------------------------


@given(keys=KEYS, num_entries=st.integers(1, 5), max_entries=st.integers(-2, 15), cut=st.integers(0, 40))
def test_keys_go_to_the_rows_of_the_rule(keys: list[bytes], num_entries: int, max_entries: int, cut: int) -> None:
    bloom = DynamicFilter(37, 3, num_entries, max_entries)
    bloom.add(keys[:cut])  # in two parts, which must not matter
    bloom.add(keys[cut:])
    rows, counter = reference.hudi_rows(keys, num_entries, max_entries)
    assert [row.bits for row in bloom.rows] == [reference.hadoop_bits(row, 37, 3) for row in rows]
    assert bloom.num_since_row == counter
    assert struct.unpack_from(">3i", bloom.to_bytes(), 13) == (num_entries, counter, len(rows))


@given(keys=KEYS, more=KEYS, num_entries=st.integers(1, 5), max_entries=st.integers(0, 15))
def test_one_that_was_read_back_is_bounded_where_it_is(
    keys: list[bytes], more: list[bytes], num_entries: int, max_entries: int
) -> None:
    bloom = DynamicFilter(37, 3, num_entries, max_entries)
    bloom.add(keys)
    again = DynamicFilter.from_bytes(bloom.to_bytes())
    assert again.to_bytes() == bloom.to_bytes()
    again.add(more)
    rows, counter = reference.hudi_rows(keys, num_entries, max_entries)
    is_bounded, cursor = False, 0
    for key in more:
        if is_bounded:
            rows[cursor % len(rows)].append(key)
            cursor += 1
        elif counter >= num_entries:
            is_bounded = True
            rows[0].append(key)
        else:
            rows[-1].append(key)
        counter += 1
    assert [row.bits for row in again.rows] == [reference.hadoop_bits(row, 37, 3) for row in rows]
    assert again.num_since_row == counter


@given(keys=KEYS, probes=KEYS, num_entries=st.integers(1, 5))
def test_every_key_is_found_in_whatever_row(keys: list[bytes], probes: list[bytes], num_entries: int) -> None:
    bloom = DynamicFilter(61, 3, num_entries, 12)
    bloom.add(keys)
    found = bloom.check(keys + probes)
    assert found[: len(keys)] == b"\1" * len(keys)
    rows = [reference.hadoop_bits(row, 61, 3) for row in reference.hudi_rows(keys, num_entries, 12)[0]]
    expected = [
        any(all(bits[at // 8] >> at % 8 & 1 for at in reference.hadoop_positions(key, 61, 3)) for bits in rows)
        for key in probes
    ]
    assert list(found[len(keys) :]) == expected


def test_defaults_have_two_rows_from_key_60001_on() -> None:
    keys = [f"{number:032x}" for number in range(60_001)]
    one, two = (decode_text(build(keys[:count])[hudi.FILTER]) for count in (60_000, 60_001))
    assert (len(one), len(two)) == (323_534, 647_043)
    assert len(DynamicFilter.from_bytes(two).rows) == 2


def test_an_empty_key_is_refused_and_never_excluded() -> None:
    for bloom in (SimpleFilter(8, 1), SimpleFilter(8, 1, hash_type=hudi.JENKINS), DynamicFilter(8, 1, 1, 1)):
        with pytest.raises(ValueError, match="empty key"):
            bloom.add([b"a", b""])
        assert type(bloom).from_bytes(
            SimpleFilter(8, 1).to_bytes() if bloom.type_code == "SIMPLE" else bloom.to_bytes()
        )
    for empty in (SimpleFilter(8, 1), SimpleFilter(8, 1, hash_type=hudi.JENKINS), DynamicFilter(8, 1, 1, 1)):
        assert empty.check([b"a", b"", b"b"]) == b"\0\1\0"
    with pytest.raises(ValueError, match="empty key"):
        build([""])


# ---- bytes that are none -------------------------------------------------------------------


def simple(version: int = -1, hashes: int = 2, kind: int = 1, bits: int = 16, body: bytes = b"\1\2") -> bytes:
    return struct.pack(">iibi", version, hashes, kind, bits) + body


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut off"),
        (simple()[:12], "cut off"),
        (simple(body=b"\1"), "cut off: 1 of 2"),
        (simple(bits=2**31 - 1), "cut off"),
        (simple(version=0), "version 0"),
        (simple(version=-2), "version -2"),
        (simple(kind=2), "type 2"),
        (simple(kind=-1), "type -1"),
        (simple(bits=0), "0 bits"),
        (simple(bits=-1), "-1 bits"),
        (simple(hashes=0), "0 hashes"),
        (simple(hashes=-5), "-5 hashes"),
        (struct.pack(">ii", 3, 0) + b"\1", "0 bits"),
        (struct.pack(">ii", 3, 9) + b"\1", "cut off: 1 of 2"),
    ],
)
def test_damaged_filters(data: bytes, says: str) -> None:
    with pytest.raises(CorruptFileError, match=says):
        parse(data)
    with pytest.raises(CorruptFileError, match=r"cut off|rows|of type|version"):
        parse(data, "DYNAMIC_V0")


@pytest.mark.parametrize("rows", [0, -1, 3, 2**31 - 1])
def test_rows_that_are_not_there(rows: int) -> None:
    data = simple(body=b"") + struct.pack(">3i", 4, 0, rows) + simple() * 2
    with pytest.raises(CorruptFileError, match=r"rows|cut off"):
        parse(data, "DYNAMIC_V0")
    sound = simple(body=b"") + struct.pack(">3i", 4, 0, 2) + simple() * 2
    assert len(parse(sound, "dynamic_v0").rows) == 2
    for length in range(len(sound)):
        with pytest.raises(CorruptFileError):
            parse(sound[:length], "DYNAMIC_V0")


def test_trailing_bytes_and_padding_do_not_matter() -> None:
    assert parse(simple(bits=9, body=b"\1\xff") + b"more").to_bytes() == simple(bits=9, body=b"\1\1")


def test_hashes_without_end_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="2,049 hashes"):
        parse(simple(hashes=2049))


def test_unknown_types() -> None:
    for kind in ("DYNAMIC_V1", "", "simple "):
        with pytest.raises(UnsupportedError, match="SIMPLE and DYNAMIC_V0"):
            parse(simple(), kind)
    assert parse(simple(), "Simple").type_code == "SIMPLE"
    with pytest.raises(UnsupportedError):
        build([], type="BLOOM")


@pytest.mark.parametrize("text", ["AAAA", "AA==", "AA", "AAA=", "AAA", "+/+/", ""])
def test_texts_that_java_reads(text: str) -> None:
    import base64

    assert decode_text(text) == base64.b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(
    "text",
    ["A", "AAAAA", "AA=", "AAAA=", "AAA==", "AAAA====", "-_-_", "AA AA", "AAAA\n", "AA==AA==", "ÄAAA", "=", "A=AA"],
)
def test_texts_that_java_refuses(text: str) -> None:
    with pytest.raises(CorruptFileError, match="Base64"):
        decode_text(text)


@given(
    head=st.binary(max_size=40),
    body=st.binary(max_size=60),
    at=st.integers(0, 40),
    kind=st.sampled_from(["SIMPLE", "DYNAMIC_V0"]),
)
def test_any_bytes_are_a_filter_or_an_error_of_ours(head: bytes, body: bytes, at: int, kind: str) -> None:
    sound = simple(body=b"") + struct.pack(">3i", 4, 0, 2) + simple() * 2
    for data in (head + body, sound[:at] + head + sound[at + len(head) :], simple()[:at] + head + body):
        try:
            found = parse(data, kind)
        except (CorruptFileError, UnsupportedError):
            continue
        assert parse(found.to_bytes(), kind).to_bytes() == found.to_bytes()
        assert found.check([b"", b"key"])[0] == 1


# ---- in a footer ---------------------------------------------------------------------------


def footer_of(path: Path, entries: dict[str, str], keys: list[str], name: str = hudi.RECORD_KEY) -> Footer:
    rows = pa.table({name: pa.array(keys, pa.string()), "x": list(range(len(keys)))})
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(entries)
    return read(path)


def read(path: Path) -> Footer:
    (source,) = find(path)
    return run(source, read_footer(source.size))


WORDS = ["a", "é", "日", "😀", "clé", "naïve", "ключ", "鍵-1", "\ue000", "\uffff", "zz", "id:1,name:Alice"]


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
@pytest.mark.parametrize("old", [False, True])
def test_filters_of_footers(tmp_path: Path, kind: str, old: bool) -> None:
    entries = build(WORDS, type=kind, num_entries=20, fpp=1e-6, max_entries=40)
    if old:
        entries[hudi.OLD_FILTER] = entries.pop(hudi.FILTER)
    found = filter_of(footer_of(tmp_path / "a.parquet", entries, list(WORDS)))
    assert found is not None
    assert (found.format, found.column) == (f"Hudi {kind}", (hudi.RECORD_KEY,))
    assert found.might_contain(WORDS) == b"\1" * len(WORDS)
    assert found.might_contain([word.encode() for word in WORDS]) == b"\1" * len(WORDS)
    others = [f"m{number}" for number in range(1000)]
    assert found.might_contain(others).count(0) > 990
    description = found.describe()
    assert (description.num_bytes, description.num_hashes) == ((found.filter.rows[0].num_bits + 7) // 8, 20)
    assert 0 < description.fpp < 1e-6 < description.fill < 1
    assert description.ndv == pytest.approx(len(WORDS), rel=0.2)


def test_what_is_not_understood_is_never_excluded() -> None:
    bloom = HudiFilter(SimpleFilter(100, 3), "b", "c")
    odd = [None, 1, 1.5, True, "", b"", b"\xff", "\ud800", [1], {"a": 1}, ("a",)]
    assert bloom.might_contain(odd) == b"\1" * len(odd)
    assert bloom.might_contain(["b", b"b", bytearray(b"bb"), "a", "d"]) == b"\0" * 5
    assert bloom.might_contain([]) == b""


def test_only_what_is_out_of_range_in_both_orders_is_out() -> None:
    full = SimpleFilter(1, 1, bits=b"\1")
    high, astral = "\uffff", "\U0001f600"  # the first is less in UTF-8, and greater in UTF-16
    assert hudi.utf16_order(astral) < hudi.utf16_order(high)
    assert high.encode() < astral.encode()
    assert HudiFilter(full, "a", high).might_contain([astral, "a", "b", high, "Z"]) == b"\1\1\1\1\0"
    assert HudiFilter(full, "a", astral).might_contain([high, "a", astral, "Z"]) == b"\1\1\1\0"
    assert HudiFilter(full, high, high).might_contain([astral, "a"]) == b"\0\0"
    for bounds in [(None, "b"), ("b", None), (None, None), ("?a", "?b"), ("b\ufffd", "c")]:
        assert HudiFilter(full, *bounds).might_contain(["a", "z"]) == b"\1\1"


@given(st.lists(st.lists(st.text(st.sampled_from("ab\uffee\U00010000\ud800"), min_size=1), max_size=6), max_size=6))
def test_keys_may_come_in_parts(parts: list[list[str]]) -> None:
    settings = {"num_entries": 3, "fpp": 0.01, "max_entries": 6}
    builder = hudi.Builder(**settings)
    for part in parts:
        builder.add(part)
    assert builder.entries() == build([key for part in parts for key in part], **settings)


def test_ranges_are_in_javas_order() -> None:
    entries = build(["\U0001f600", "\uffff", "a"], type="SIMPLE", num_entries=3, fpp=0.1)
    assert (entries[hudi.MIN_KEY], entries[hudi.MAX_KEY]) == ("a", "\uffff")
    assert build(["\ud800", "a"], type="SIMPLE", num_entries=3, fpp=0.1)[hudi.MAX_KEY] == "?"
    assert set(build([])) == {hudi.FILTER, hudi.TYPE_CODE}


def test_footers_without_a_filter(tmp_path: Path) -> None:
    assert filter_of(footer_of(tmp_path / "a.parquet", {"b": "c"}, ["a"])) is None
    assert filter_of(footer_of(tmp_path / "b.parquet", build(["a"]), ["a"], name="id")) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.binary()])
def test_keys_that_are_no_text_are_not_understood(tmp_path: Path, kind: pa.DataType) -> None:
    rows = pa.table({hudi.RECORD_KEY: pa.array([None], kind)})
    with pq.ParquetWriter(tmp_path / "a.parquet", rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(build(["a"], num_entries=9, fpp=0.1))
    with pytest.raises(UnsupportedError, match="is not text"):
        filter_of(read(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("entries", "error", "says"),
    [
        ({hudi.FILTER: "AAA\n"}, CorruptFileError, "Base64"),
        ({hudi.FILTER: encode_text(simple()[:-1])}, CorruptFileError, "cut off"),
        ({hudi.FILTER: encode_text(simple(body=b"\0\0"))}, CorruptFileError, "is empty, but the file has 1 row"),
        ({hudi.FILTER: encode_text(simple()), hudi.TYPE_CODE: "DYNAMIC_V9"}, UnsupportedError, "DYNAMIC_V9"),
        ({hudi.FILTER: encode_text(simple()), hudi.TYPE_CODE: ""}, UnsupportedError, "type ''"),
    ],
)
def test_damaged_entries(tmp_path: Path, entries: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        filter_of(footer_of(tmp_path / "a.parquet", entries, ["a"]))


def test_a_filter_that_arrow_copied_is_not_trusted(tmp_path: Path) -> None:
    entries = build(["a"], num_entries=9, fpp=0.1)
    assert filter_of(footer_of(tmp_path / "old.parquet", entries, ["a"])) is not None
    old = pq.read_table(tmp_path / "old.parquet")
    pq.write_table(pa.concat_tables([old, pa.table({hudi.RECORD_KEY: ["b"], "x": [2]})]), tmp_path / "new.parquet")
    footer = read(tmp_path / "new.parquet")
    assert footer.key_values[hudi.FILTER] == entries[hudi.FILTER]
    with pytest.raises(CorruptFileError, match="copied the filter"):
        filter_of(footer)


def test_two_entries_that_differ_are_not_believed(tmp_path: Path) -> None:
    rows = pa.table({hudi.RECORD_KEY: ["a"]})
    for name, second in (("same", "b"), ("other", "c")):
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", rows.schema) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"key1": "b", "key2": second})
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(path.read_bytes().replace(b"key2", b"key1"))
        footer = read(path)
        if name == "same":
            assert footer.key_values["key1"] == "b"
        else:
            with pytest.raises(CorruptFileError, match="two entries of the key 'key1'"):
                _ = footer.key_values
