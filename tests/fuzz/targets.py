"""What is fuzzed: for each target, a function of bytes that raises where the library does what it must not do.

A target lets no error pass but the library's own, and compares with another implementation where there is one. Targets
of whole tables are in `table_targets`.
"""

from __future__ import annotations

import base64
import random
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import reference
from files import DAMAGED, PLAIN, SMALL, fixture, footer_bytes
from format.test_walk import agrees
from values.test_points import agree

from parquet_bloom.errors import CorruptFileError, LiteralError, ParquetBloomError, PredicateError, UnsupportedError
from parquet_bloom.filters import hudi, paimon
from parquet_bloom.filters.stored import filters_in_footer, unusable_filters
from parquet_bloom.format import page_index, probing, restore
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import (
    FilterLocation,
    Footer,
    Plan,
    pages_extent,
    parse_footer,
    read_filter,
    read_footer,
    unpack_footer,
)
from parquet_bloom.format.sbbf import BLOCK_BYTES, SplitBlockBloomFilter, read_header, write_header
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.format.splice import splice_filters, splice_key_values
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.predicates.parsing import _by_sqlglot, _plain, parse_sql, why_unused
from parquet_bloom.predicates.tree import normalized
from parquet_bloom.tables import FileIndex, LiveFile
from parquet_bloom.values.encoding import encode_literal, parse_literal
from parquet_bloom.verbs import sql
from parquet_bloom.verbs.reading_keys import read_keys

OFTEN = 64 * 1024
"""Longer inputs find nothing that shorter ones do not, and take long."""


@dataclass(frozen=True)
class Target:
    """A function, inputs that it takes well, and pieces that are worth putting into others."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    tokens: Sequence[bytes] = ()


def small_footers() -> list[bytes]:
    return [raw for name in [*PLAIN, *DAMAGED] if 0 < len(raw := footer_bytes(fixture(name))) < 6000]


def small_files() -> list[bytes]:
    return [data for name in [*PLAIN, *DAMAGED] if len(data := fixture(name)) < 12_000]


def answer(plan: Plan[Any], data: bytes) -> Any:
    """Returns what a plan makes of a file's bytes."""
    parts = None
    try:
        while True:
            ranges = plan.send(parts)
            assert all(0 <= wanted.start <= wanted.stop for wanted in ranges), ranges
            assert sum(map(len, ranges)) <= 64 * len(data) + 2**20, "it reads far more than there is"
            parts = [data[wanted.start : wanted.stop] for wanted in ranges]
    except StopIteration as stop:
        return stop.value


def parsed(data: bytes, size: int = 10**9) -> Footer | None:
    try:
        return parse_footer(size, data)
    except ParquetBloomError:
        return None


# ---- footers -----------------------------------------------------------------------------


def footer(data: bytes) -> None:
    """The kernel's walk is what the structs say, value by value; a footer that was packed is the same."""
    agrees(data)
    agree(data, random.Random(len(data)))
    if (found := parsed(data)) is not None:
        again = unpack_footer(found.packed())
        assert (again.raw, again.leaves, again.packed_row_groups) == (found.raw, found.leaves, found.packed_row_groups)
        for file_filter in filters_in_footer(found):
            file_filter.describe()
        unusable_filters(found)


def whole_file(data: bytes) -> None:
    """A file's footer, filters and older footers are read, or refused."""
    with_errors(lambda: _whole_file(data), CorruptFileError, UnsupportedError)


def _whole_file(data: bytes) -> None:
    found = answer(read_footer(len(data), guess=512), data)
    for row_group, leaf in found.chunks_with_filters(found.leaves):
        try:
            location = found.filter_location(row_group, leaf)
            if location is None:
                continue
            bloom, length = answer(read_filter(location, end=found.start), data)
        except (CorruptFileError, UnsupportedError):
            continue
        assert location.offset + length <= found.start
        assert 0 <= bloom.fpp <= 1
    if all(chunk is not None for _, _, chunk in found.chunks()):  # others are refused before
        answer(restore.whole_prefixes(found), data)


def with_errors(call: Callable[[], Any], *documented: type[Exception]) -> Any:
    try:
        return call()
    except documented:
        return None


# ---- splice ------------------------------------------------------------------------------


def splice(data: bytes) -> None:
    """What is spliced decodes to the same but for what was edited, and what is cleared again is as before."""
    found = parsed(data[3:])
    if found is None or found.num_row_groups == 0 or not found.leaves:
        return
    raw = found.raw
    group, index = data[0] % found.num_row_groups, data[1] % len(found.leaves)
    edit = None if data[2] == 0 else (data[2] * 977, data[2])
    try:
        before = decode(ttypes.FileMetaData, raw)[0]
        spliced = splice_filters(raw, {(group, index): edit})
    except CorruptFileError:
        return
    after = decode(ttypes.FileMetaData, spliced)[0]
    chunk, old = after.row_groups[group].columns[index].meta_data, before.row_groups[group].columns[index].meta_data
    assert (chunk.bloom_filter_offset, chunk.bloom_filter_length) == (edit or (None, None))
    chunk.bloom_filter_offset, chunk.bloom_filter_length = old.bloom_filter_offset, old.bloom_filter_length
    assert after == before
    assert splice_filters(spliced, {(group, index): edit}) == spliced
    parse_footer(10**9, spliced)
    _splice_notes(raw, before)


def _splice_notes(raw: bytes, before: Any) -> None:
    try:
        noted = splice_key_values(raw, {"fuzz": "é", "gone": None})
    except CorruptFileError:
        return
    after = decode(ttypes.FileMetaData, noted)[0]
    kept = [entry for entry in before.key_value_metadata or () if entry.key not in ("fuzz", "gone")]
    assert after.key_value_metadata == [*kept, ttypes.KeyValue("fuzz", "é")]
    after.key_value_metadata = before.key_value_metadata
    assert after == before


# ---- filters -----------------------------------------------------------------------------


def header(data: bytes) -> None:
    """A header is read or refused, and what is asked of parts of a filter is what the whole filter answers."""
    length = None if not data or data[0] % 4 == 0 else len(data) - 1
    try:
        found = read_header(data[1:], length=length)
    except (CorruptFileError, UnsupportedError):
        return
    assert 0 < found.length <= 1024
    assert found.num_bytes % BLOCK_BYTES == 0
    assert length is None or found.length + found.num_bytes <= length
    if found.num_bytes > OFTEN:
        return
    # The filter among other bytes of a file, once with the bits that are there and once with those of a copy.
    bits = data[1 + found.length :] or b"\x55"
    stored = data[1 : 1 + found.length] + (bits * -(-found.num_bytes // len(bits)))[: found.num_bytes]
    file = b"PAR1" + stored + bytes(100)
    hashes = [reference.xxh64(bytes([number])) for number in range(3)]
    for known in (None, len(stored)):
        location = FilterLocation(4, known)
        for some in (hashes, hashes[:1]):
            (asked,) = answer(probing.ask([(location, some)], end=len(file) - 8, seen=set()), file)
            try:
                whole = probing.check(answer(read_filter(location, end=len(file) - 8), file)[0], some)
            except (CorruptFileError, UnsupportedError) as error:
                if asked.problem != str(error):
                    raise AssertionError((asked, error)) from error
                continue
            # Blocks that hold a bit are enough to see that the bitset is not empty, and the other way round.
            assert asked == whole, (asked, whole)


def bitset(data: bytes) -> None:
    """Insert, check, fold and merge are those of the specification."""
    count = max(1, min(len(data) // BLOCK_BYTES, 24))
    bits = data[: count * BLOCK_BYTES].ljust(count * BLOCK_BYTES, b"\0")
    hashes = [int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "little") for at in range(0, min(len(data), 160), 8)]
    packed = array("Q", hashes)
    blocks, bloom = reference.from_bytes(bits), SplitBlockBloomFilter.from_bitset(bits)
    assert bloom.check(packed) == bytes(reference.check(blocks, one) for one in hashes)
    assert SplitBlockBloomFilter.from_bytes(bloom.to_bytes()) == bloom
    if count % 2 == 0:
        assert bytes(bloom.fold().bitset) == reference.to_bytes(reference.fold(blocks))
    other = SplitBlockBloomFilter(count * BLOCK_BYTES)
    other.insert(packed)
    assert bytes(other.bitset) == reference.to_bytes(reference.build(count, hashes))
    merged = bloom.merge(other)
    assert bytes(merged.bitset) == reference.to_bytes(
        reference.merge(blocks, reference.from_bytes(bytes(other.bitset)))
    )
    assert 0 not in merged.check(packed)
    for one in (bloom, merged):
        assert 0 <= one.fpp <= 1
        assert one.estimated_ndv >= 0


# ---- the page index ----------------------------------------------------------------------


@cache
def _paged() -> tuple[Footer, list[tuple[int, LeafColumn]], bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    rows = pa.table({"id": pa.array([*range(500), *[None] * 100], pa.int64()), "name": [f"{i:05}" for i in range(600)]})
    options: dict[str, Any] = {"row_group_size": 300, "data_page_size": 256, "write_batch_size": 32}
    pq.write_table(rows, out, write_page_index=True, use_dictionary=False, **options)
    data = out.getvalue().to_pybytes()
    found = answer(read_footer(len(data)), data)
    return found, [(group, leaf) for group in range(found.num_row_groups) for leaf in found.leaves], data


def pages(data: bytes) -> None:
    """Pages are taken from an index only if they are all of the chunk's bytes and rows, in order."""
    found, chunks, _ = _paged()
    row_group, leaf = chunks[data[0] % len(chunks) if data else 0]
    cut = int.from_bytes(data[1:3], "little")
    plan = page_index.read_pages(found, row_group, leaf)
    next(plan)
    try:
        plan.send([data[3 : 3 + cut], data[3 + cut :]])
        raise AssertionError("it asks for more")
    except StopIteration as stop:
        listed = stop.value
    if listed is None:
        return
    chunk = found.chunk(row_group, leaf)
    assert sum(page.num_rows for page in listed) == found.row_groups[row_group].num_rows
    assert all(page.num_rows >= 0 for page in listed)
    stops = [chunk.data_page_offset, *(page.extent.stop for page in listed)]
    assert stops == [*(page.extent.start for page in listed), pages_extent(chunk)[1]]
    assert all(page.extent.start <= page.extent.stop for page in listed), "a page of less than no bytes"


def page_seeds() -> Iterator[bytes]:
    found, chunks, data = _paged()
    for number, (row_group, leaf) in enumerate(chunks):
        column_index, offset_index = (data[e.start : e.stop] for e in page_index.index_extents(found, row_group, leaf))
        yield bytes([number]) + len(column_index).to_bytes(2, "little") + column_index + offset_index


# ---- Hudi and Paimon ---------------------------------------------------------------------

KEYS = [b"", b"a", b"key-1", "é".encode(), b"x" * 40]


def hudi_filter(data: bytes) -> None:
    """A filter is read or refused, is written as it was read, and holds what is added to it."""
    type_code, stored = (None, "DYNAMIC_V0", "SIMPLE", "dynamic_v0", "other")[data[0] % 5 if data else 0], data[1:]
    try:
        found = hudi.parse(stored, type_code)
    except (CorruptFileError, UnsupportedError):
        return
    asked = found.check(KEYS)
    assert len(asked) == len(KEYS)
    again = hudi.parse(found.to_bytes(), found.type_code)
    assert again.to_bytes() == found.to_bytes()
    assert again.check(KEYS) == asked
    texts = ("k", "a" * 3, "\U0010ffff", None)
    low, high = texts[data[0] % 4], texts[data[0] // 4 % 4]
    known = hudi.HudiFilter(found, low, high)
    known.describe()
    assert len(known.might_contain(["a", b"\xff", "\ud800", 3, None, ""])) == 6
    try:
        found.add(KEYS[1:])
    except ValueError:
        return
    assert found.check(KEYS) == b"\1" * len(KEYS)


def hudi_footer(data: bytes) -> None:
    """Notes of a footer, whatever they are, make a filter, a reason, or an error of ours."""
    raw = splice_key_values(
        _hudi_footer(),
        {
            hudi.FILTER: data[2:].decode("utf-8", "replace"),
            hudi.TYPE_CODE: (None, "SIMPLE", "DYNAMIC_V0", "")[data[0] % 4 if data else 0],
            hudi.MIN_KEY: (None, "", "a", "\ufffd")[data[1] % 4 if data[1:] else 0],
            hudi.MAX_KEY: (None, "", "z", "A")[data[1] // 4 % 4 if data[1:] else 0],
        },
    )
    found = parse_footer(10**6, raw)
    for file_filter in filters_in_footer(found):
        file_filter.describe()
        file_filter.might_contain(["a", "", b"\xff"])
    unusable_filters(found)


@cache
def _hudi_footer() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(pa.table({hudi.RECORD_KEY: ["a", "b"]}), out, store_schema=False)
    return footer_bytes(out.getvalue().to_pybytes())


def hudi_seeds() -> Iterator[bytes]:
    for number, kind in enumerate(("SIMPLE", "DYNAMIC_V0", "SIMPLE")):
        builder = hudi.Builder(type=kind, num_entries=3, fpp=0.1, max_entries=9)
        builder.add([f"key-{i}" for i in range(8)])
        yield bytes([number]) + base64.b64decode(builder.entries()[hudi.FILTER])


def hudi_footer_seeds() -> Iterator[bytes]:
    for seed in hudi_seeds():
        yield bytes([seed[0], 5]) + base64.b64encode(seed[1:])


KINDS = (
    "STRING",
    "INT NOT NULL",
    "BIGINT",
    "CHAR(3)",
    "TIMESTAMP(6)",
    "DOUBLE",
    "DATE",
    "BINARY(4)",
    "TIME(3)",
    "ROW<a INT>",
)


def paimon_container(data: bytes) -> None:
    """A container is read or refused, and is the same when it is written again; its filters answer."""
    try:
        found = paimon.parse_container(data)
    except (CorruptFileError, UnsupportedError):
        found = None
    else:
        assert paimon.parse_container(paimon.write_container(found)) == found
    columns = dict(zip("abcdefghij", KINDS, strict=True))
    for index in (FileIndex(columns, path="x"), FileIndex(columns, data=data)):
        file = LiveFile("x", "x", 1, 1, file_index=index)
        try:
            filters = answer(paimon.filters_of_table(file, len(data)), data)
        except (CorruptFileError, UnsupportedError):
            continue
        assert found is not None
        for one in filters:
            one.describe()
            assert len(one.might_contain(["abc", 5, 0.5, None, b"x"])) == 5


def paimon_seeds() -> Iterator[bytes]:
    import pyarrow as pa

    filters = {
        "a": {"bloom-filter": paimon.build(pa.array(["x", "y"]), "STRING", items=5, fpp=0.1)},
        "b": {"bloom-filter": paimon.build(pa.array([1, 2], pa.int32()), "INT", items=9, fpp=0.01), "bitmap": b"12"},
        "c": {"bloom-filter": None},
    }
    yield paimon.write_container(filters)
    yield paimon.write_container({name: {"bloom-filter": b"\0\0\0\2ab"} for name in "abcdefghij"})


# ---- texts -------------------------------------------------------------------------------


def condition(data: bytes) -> None:
    """A condition is parsed or refused; the short way makes the same of it as sqlglot."""
    text = data.decode("utf-8", "surrogateescape")
    outcomes = []
    for parse in (_plain, _by_sqlglot):
        try:
            outcomes.append(parse(text))
        except PredicateError as error:
            require_position(error, text)
            outcomes.append(error)
    short, long = outcomes
    assert short is None or short == long, (text, short, long)
    if not isinstance(long, PredicateError):
        assert parse_sql(text) == long
        assert normalized(normalized(long)) == normalized(long)
        why_unused(text)
        repr(long)


CONDITIONS = [
    *("id = 5", "id = -5 AND name='x'", "a.b <=> 'q' OR NOT c IS NULL", "x IN (1, 2.5, 'z')", "d BETWEEN 1 AND 2e3"),
    *("CAST('5' AS DECIMAL(5,2)) = q", "DATE '2024-01-01' < d", "X'ff00' = b", "t >= TIMESTAMP '2020-01-01 00:00:00'"),
    *("a LIKE 'b%' AND (c = 1 OR true)", "`odd name`.`x` <> 1", "u = 5L", "-(-1) = x", "'it''s' = n", "r'a\\n' = b"),
    *("x = 1D", "1.5BD = x", "CAST(1 AS BIGINT) = y", "a = b", "a[0] = 1", "x = 1 -- c", "x /* y */ = 2", "x=NULL"),
]
SQL_TOKENS = [
    *(b" AND ", b" OR ", b"NOT ", b" IN (", b" IS NULL", b" BETWEEN ", b"CAST(", b" AS DECIMAL(", b"DATE '", b"X'"),
    *(
        b"1e999",
        b"9" * 40,
        b"\\",
        b"''",
        b"`",
        b"INTERVAL ",
        b"::",
        b"TIMESTAMP '",
        b"CASE WHEN ",
        b"(",
        b")",
        b"@",
        b"{",
    ),
    *(
        b"?",
        b":x",
        b"%(x)s",
        b"0x",
        b"1.",
        b".5",
        b"\x00",
        b"\xff",
        b"<=>",
        b"!=",
        b"--",
        b"/*",
        b"*/",
        b";",
        b"$$",
        b"e",
    ),
]


def require_position(error: PredicateError, text: str) -> None:
    assert error.position is None or 0 <= error.position <= len(text) + 1, (error.position, text)


def statement(data: bytes) -> None:
    """A statement is parsed or refused."""
    text = data.decode("utf-8", "replace")
    try:
        found = sql.parse(text)
    except PredicateError as error:
        require_position(error, text)
        return
    assert found.path
    for column in getattr(found, "columns", None) or ():
        if not isinstance(column, str):
            assert 0 < column.fpp <= 1
            assert column.ndv >= 1


STATEMENTS = [
    "CREATE BLOOMFILTER INDEX ON TABLE 'events' FOR COLUMNS(u OPTIONS (fpp=0.1, numItems=50), `a b`) OPTIONS (fpp 1)",
    "CREATE BLOOMFILTER INDEX ON delta.`/x/y` FOR COLUMNS (a.b, c OPTIONS ('maxExpectedFpp'='0.5')) -- done",
    "DROP BLOOMFILTER INDEX ON s3://b/k FOR COLUMNS (x, y);",
    "drop bloomfilter index on table /* c */ for",
]
DDL_TOKENS = [
    *(
        b"OPTIONS (",
        b"FOR COLUMNS (",
        b"fpp=",
        b"numItems=",
        b"1e400",
        b"9" * 400,
        b"nan",
        b"-1",
        b"TABLE ",
        b"`",
        b"'",
    ),
    *(b"\\", b"--", b"/*", b";", b"delta.`", b"\xe2\x80\xa8", b"1_0", b"0x1", b"inf", b"''"),
]

TYPES = (
    SMALL,
    "pyarrow/all_types.parquet",
    "spark/int96.parquet",
    "pyarrow/decimal_bytes.parquet",
    "spark/nested.parquet",
)


@cache
def _leaves() -> list[LeafColumn]:
    found = (parse_footer(10**9, footer_bytes(fixture(name))) for name in TYPES)
    return list(dict.fromkeys(replace(leaf, index=0) for each in found for leaf in each.leaves))


def literal(data: bytes) -> None:
    """A text is a literal of a column or a `LiteralError`, and a literal is encoded or a `LiteralError`."""
    leaves = _leaves()
    leaf, text = leaves[data[0] % len(leaves) if data else 0], data[1:].decode("utf-8", "surrogateescape")
    for value in (text, data):
        with_errors(lambda value=value: encode_literal(leaf, value), LiteralError, UnsupportedError)
    try:
        value = parse_literal(leaf, text)
    except (LiteralError, UnsupportedError):
        return
    with_errors(lambda: encode_literal(leaf, value), LiteralError, UnsupportedError)


def literal_seeds() -> Iterator[bytes]:
    from samples import EDGES

    for number, text in enumerate(EDGES):
        yield bytes([number * 7 % 256]) + text.encode()


# ---- key files ---------------------------------------------------------------------------


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def key_file(data: bytes) -> None:
    """A file of keys is read or refused, with an error of ours."""
    suffix = (".txt", ".csv", ".parquet", ".tsv")[data[0] % 4 if data else 0]
    path = _folder() / f"keys{suffix}"
    path.write_bytes(data[1:])
    try:
        keys = read_keys(path, "id")
    except ParquetBloomError:
        return
    assert len(keys) == len(keys.literals) == len(keys.shown)


def key_seeds() -> Iterator[bytes]:
    yield from (
        b"\0a\nb\r\n\nc",
        b"\0\xef\xbb\xbf1\n2",
        b'\1id,x\n1,2\n"a\nb",3\n',
        b"\1only\n007\nNA\n",
        b"\1id;x\n",
        b"\3id\tx\n1\t2\n",
    )
    for name in (SMALL, "pyarrow/one_row.parquet", "spark/int96.parquet"):
        yield b"\2" + fixture(name)


COMPACT = [
    b"\x15",
    b"\x18",
    b"\x19",
    b"\x1c",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\1",
    b"\0",
    b"\x19\xfc\x80\x80\x04",
]
INT32 = [number.to_bytes(4, "big", signed=True) for number in (-1, 0, 1, 2, 127, 2**31 - 1, -(2**31), 1 << 24)]

TARGETS: dict[str, Target] = {
    "footer": Target(footer, small_footers, COMPACT),
    "file": Target(whole_file, small_files, [*COMPACT, b"PAR1", b"PARE"]),
    "splice": Target(
        splice, lambda: [bytes([n % 5, n % 7, n % 256]) + raw for n, raw in enumerate(small_footers())], COMPACT
    ),
    "header": Target(
        header, lambda: [b"\1" + write_header(n) + bytes(range(32)) * (n // 32) for n in (32, 64, 8192)], COMPACT
    ),
    "bitset": Target(bitset, lambda: [bytes(64), b"\xff" * 96, bytes(range(256))]),
    "pages": Target(pages, page_seeds, COMPACT),
    "hudi_filter": Target(hudi_filter, hudi_seeds, INT32),
    "hudi_footer": Target(hudi_footer, hudi_footer_seeds, [b"=", b"==", b"/", b"\n", b"AAAA", b"////"]),
    "paimon_container": Target(paimon_container, paimon_seeds, [*INT32, b"\xc0\x80", b"bloom-filter"]),
    "condition": Target(condition, lambda: map(str.encode, CONDITIONS), SQL_TOKENS),
    "statement": Target(statement, lambda: map(str.encode, STATEMENTS), DDL_TOKENS),
    "literal": Target(literal, literal_seeds, [b"-", b"e", b"9" * 30, b"T", b"Z", b"+24:00", b"\xff", b"nan", b"."]),
    "keys": Target(key_file, key_seeds, [b",", b'"', b"\n", b"\r", b"\0", b"PAR1", b"\xff", *COMPACT]),
}
