"""Encrypted files get the answers of the same files unencrypted, and without the right key never a proof."""

from __future__ import annotations

import base64
import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from click.testing import CliRunner
from encrypted import encrypted, module
from files import footer_bytes, snapshot, with_footer, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquet_bloom import CANNOT_MATCH, MIGHT_MATCH, Cache, Decryption, add, drop, inspect, lookup, probe, prune
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import CorruptFileError, ParquetBloomError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage import listing
from parquet_bloom.storage.drive import run as run_plan
from parquet_bloom.storage.listing import find

FOOTER, ID, NAME = b"0123456789abcdef", b"fedcba9876543210-id-key-", b"fedcba9876543210fedcba9876543210"
KEYS = {"footer_key": FOOTER, "column_keys": {"id": ID, "name": NAME}}
NO_KEY, WRONG = "the column is encrypted, and its key was not given", "the key is wrong, or the bytes were changed"

quick = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))


def plain(rows: int = 400, groups: int = 2) -> bytes:
    """Returns a file with filters on `id` and `name`, whose values are scattered over all row groups."""
    ids = [(i * 7919) % rows * 3 for i in range(rows)]
    table = pa.table({"id": ids, "name": [f"n{i}" for i in ids], "other": range(rows)})
    options = {name: {"ndv": rows // groups, "fpp": 0.001} for name in ("id", "name")}
    return written(table, row_group_size=rows // groups, bloom_filter_options=options)


def written(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


PLAIN = plain()


def answers(data: bytes, keys: Decryption | None, values: list[Any], column: str = "id") -> list[Any]:
    """Returns what the verbs say of a file, but for its name and size."""
    literal = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in values)
    condition = f"{column} IN ({literal}) AND other >= 0 OR {column} IS NULL"
    probed = probe(io.BytesIO(data), column, values, decryption=keys)
    found = lookup(io.BytesIO(data), column, values, decryption=keys).to_arrow()
    pruned = prune(io.BytesIO(data), condition, decryption=keys)
    inspected = inspect(io.BytesIO(data), decryption=keys)
    return [
        [(row.row_group, row.value, row.answer, row.reason) for row in probed],
        found.select(["key", "row_group", "reason"]).to_pylist(),
        [(row.row_group, row.answer, row.reason, row.by, row.num_rows) for row in pruned],
        [(row.row_group, row.column, row.num_bytes, row.fpp, row.num_values, row.problem) for row in inspected],
    ]


# ---- the same answers --------------------------------------------------------------------


@quick
@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60),
    absent=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    key_sizes=st.tuples(*[st.sampled_from([16, 24, 32])] * 3),
    options=st.fixed_dictionaries(
        {
            "plain_footer": st.booleans(),
            "algorithm": st.sampled_from(["AES_GCM_V1", "AES_GCM_CTR_V1"]),
            "has_lengths": st.booleans(),
            "header_padding": st.sampled_from([0, 84]),
        }
    ),
    columns=st.sampled_from([None, ("id",), ("id", "name"), ("name", "other"), ()]),
    own_keys=st.sets(st.sampled_from(["id", "name"])),
    prefix=st.sampled_from([(None, True), (b"table/part-1", True), (b"table/part-1", False)]),
)
def test_answers_are_those_of_the_plain_file(
    values: list[int],
    absent: list[int],
    key_sizes: tuple[int, int, int],
    options: dict[str, Any],
    columns: tuple[str, ...] | None,
    own_keys: set[str],
    prefix: tuple[bytes | None, bool],
) -> None:
    table = pa.table({"id": values, "name": [str(v) for v in values], "other": range(len(values))})
    sizes = {name: {"ndv": len(values), "fpp": 0.01} for name in ("id", "name")}
    data = written(table, row_group_size=max(1, len(values) // 3), bloom_filter_options=sizes)
    footer_key, *of_columns = (os.urandom(size) for size in key_sizes)
    column_keys = {name: key for name, key in zip(("id", "name"), of_columns, strict=True) if name in own_keys}
    aad_prefix, stores_prefix = prefix
    sealed = encrypted(
        data,
        footer_key,
        column_keys,
        columns=columns,
        aad_prefix=aad_prefix,
        stores_prefix=stores_prefix,
        **options,
    )
    explicit = Decryption(footer_key=footer_key, column_keys=column_keys, aad_prefix=aad_prefix)
    by_metadata = {b"footer": footer_key} | {name.encode(): key for name, key in column_keys.items()}
    retrieved = Decryption(key_retriever=by_metadata.__getitem__, aad_prefix=aad_prefix)
    for keys in (explicit, retrieved):
        asked = [*values[:5], *absent]
        assert answers(sealed, keys, asked) == answers(data, None, asked)
        texts = [str(v) for v in asked]
        assert answers(sealed, keys, texts, "name") == answers(data, None, texts, "name")
    extents, of_plain = (
        [(row.start, row.stop) for row in prune(io.BytesIO(content), "other = 0", decryption=keys)]
        for content, keys in ((sealed, Decryption(footer_key=footer_key, aad_prefix=aad_prefix)), (data, None))
    )
    assert extents == of_plain  # also of columns whose keys are missing


def test_filters_larger_than_a_request_are_read() -> None:
    table = pa.table({"id": range(1000), "other": range(1000)})
    sizes = {"id": {"ndv": 1_000_000, "fpp": 0.01}}
    data = written(table, bloom_filter_options=sizes)
    for has_lengths in (True, False):
        sealed = encrypted(data, FOOTER, has_lengths=has_lengths)
        assert answers(sealed, Decryption(footer_key=FOOTER), [5, 5000]) == answers(data, None, [5, 5000])


def test_row_groups_are_known_by_their_ordinals() -> None:
    """Their place in the AADs is what the file says, which need not be their place in the footer."""
    sealed = encrypted(PLAIN, FOOTER, plain_footer=True, column_keys={"id": ID})
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(sealed))
    metadata.row_groups.reverse()
    start = len(sealed) - 8 - len(footer_bytes(sealed))
    footer = encode(metadata) + bytes(28)
    turned = sealed[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    keys = Decryption(column_keys={"id": ID})
    for value in (0, 3, 1):
        forwards, backwards = (
            [r.answer for r in probe(io.BytesIO(d), "id", value, decryption=keys)] for d in (sealed, turned)
        )
        assert forwards == backwards[::-1]
    with_footer_key = probe(io.BytesIO(turned), "id", 1, decryption=Decryption(**KEYS))
    assert [(r.answer, r.reason) for r in with_footer_key] == [
        (MIGHT_MATCH, f"the footer's signature does not match: {WRONG}")
    ]


def test_an_ordinal_that_no_row_group_can_have_opens_nothing() -> None:
    sealed = encrypted(PLAIN, FOOTER, plain_footer=True, column_keys={"id": ID})
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(sealed))
    metadata.row_groups[0].ordinal = -1
    data = with_footer(sealed, encode(metadata) + bytes(28))
    first, second = probe(io.BytesIO(data), "id", 1, decryption=Decryption(column_keys={"id": ID}))
    assert (first.answer, first.reason) == (MIGHT_MATCH, "the format cannot encrypt so many row groups or columns")
    assert second.answer == CANNOT_MATCH


# ---- files of other writers --------------------------------------------------------------


class Kms(pe.KmsClient):
    """Wraps keys by showing them, so that tests see them."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return f"{master_key_identifier}:{key_bytes.hex()}"

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key.removeprefix(f"{master_key_identifier}:"))


@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("double_wrapping", [False, True])
@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize(
    "columns", [None, {"kc": ["id"]}, {"kc": ["id"], "kn": ["name"]}], ids=["uniform", "id", "both"]
)
def test_pyarrow_files_with_a_key_management_service(
    tmp_path: Path,
    algorithm: str,
    plaintext_footer: bool,
    double_wrapping: bool,
    bits: int,
    columns: dict[str, list[str]] | None,
) -> None:
    table = pa.table({"id": range(0, 1000, 2), "name": [f"n{i:04}" for i in range(500)], "other": range(500)})
    config = pe.EncryptionConfiguration(
        footer_key="kf",
        plaintext_footer=plaintext_footer,
        encryption_algorithm=algorithm,
        double_wrapping=double_wrapping,
        data_key_length_bits=bits,
        **({"uniform_encryption": True} if columns is None else {"column_keys": columns}),
    )
    properties = pe.CryptoFactory(lambda _: Kms()).file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(table, tmp_path / "e.parquet", encryption_properties=properties, row_group_size=100)
    data, keys = written(table, row_group_size=100), Decryption(unwrap_key=Kms().unwrap_key)
    sealed = (tmp_path / "e.parquet").read_bytes()
    for column, values in {"id": [250, 251, -1], "name": ["n0123", "x"], "other": [7, 700]}.items():
        assert answers(sealed, keys, values, column) == answers(data, None, values, column)
        (row,) = prune(tmp_path, f"{column} = {values[-1]!r}", decryption=keys).all_files
        assert not row.is_kept


@pytest.mark.parametrize("stores_prefix", [True, False])
@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_pyarrow_files_with_an_aad_prefix(stores_prefix: bool, plaintext_footer: bool) -> None:
    properties = pe.create_encryption_properties(
        FOOTER, aad_prefix=b"events/1", store_aad_prefix=stores_prefix, plaintext_footer=plaintext_footer
    )
    sealed = written(pa.table({"id": range(100)}), encryption_properties=properties)

    def said(prefix: bytes | None) -> Any:
        (row,) = prune(io.BytesIO(sealed), "id = 100", decryption=Decryption(footer_key=FOOTER, aad_prefix=prefix)).rows
        return row.reason

    outside = "the value is outside the min-max range of id"
    lacking = "the file was encrypted with an AAD prefix that it does not store: give it as well"
    other = "the file's AAD prefix is not the one that was given"
    changed = (
        f"the footer's signature does not match: {WRONG}"
        if plaintext_footer
        else f"the footer does not decrypt: {WRONG}"
    )
    assert said(b"events/1") == outside
    assert said(None) == (outside if stores_prefix else lacking)
    assert said(b"events/2") == (other if stores_prefix else changed)


def test_a_prefix_that_a_file_does_not_have_is_no_proof_of_its_identity() -> None:
    sealed = encrypted(PLAIN, FOOTER)
    (row,) = probe(io.BytesIO(sealed), "id", 1, decryption=Decryption(footer_key=FOOTER, aad_prefix=b"x"))
    assert row.reason == "an AAD prefix was given, but the file was encrypted without one"


@pytest.mark.engines
def test_duckdb_files(tmp_path: Path) -> None:
    import duckdb

    rows = "SELECT i AS id, 'n' || i AS name FROM range(10000) t(i)"
    options = "FORMAT parquet, ROW_GROUP_SIZE 5000"
    with duckdb.connect() as engine:
        engine.execute("SET force_mbedtls_unsafe = 'true'")
        engine.execute(f"PRAGMA add_parquet_key('k', '{FOOTER.decode()}')")
        engine.execute(f"COPY ({rows}) TO '{tmp_path}/d.parquet' ({options}, ENCRYPTION_CONFIG {{footer_key: 'k'}})")
    keys = Decryption(footer_key=FOOTER)
    for exact in (False, True):
        kept = prune(tmp_path, "id = 7000", decryption=keys, exact=exact)
        assert [row.row_group for row in kept.kept_row_groups] == [1]
    assert not prune(tmp_path, "id = 10000", decryption=keys).might_match
    (row,) = prune(tmp_path, "id = 10000", decryption=Decryption(footer_key=ID)).rows
    assert row.reason == f"the footer does not decrypt: {WRONG}"


def test_a_filter_that_nothing_authenticates_is_not_used() -> None:
    """A footer as DuckDB encrypts it: without AADs, and with columns that do not say whether they are encrypted."""
    algorithm = ttypes.EncryptionAlgorithm(AES_GCM_V1=ttypes.AesGcmV1())
    about, raw = encode(ttypes.FileCryptoMetaData(encryption_algorithm=algorithm)), footer_bytes(PLAIN)
    footer = about + module(FOOTER, None, raw)
    sealed = PLAIN[: len(PLAIN) - 8 - len(raw)] + footer + len(footer).to_bytes(4, "little") + b"PARE"
    for row in probe(io.BytesIO(sealed), "id", 1, decryption=Decryption(footer_key=FOOTER)):
        assert row.answer == MIGHT_MATCH
        assert row.reason.startswith("the filter is not authenticated, although the file is encrypted")
    for exact in (False, True):
        assert prune(io.BytesIO(sealed), "id = 1", decryption=Decryption(footer_key=FOOTER), exact=exact).might_match
    assert not prune(io.BytesIO(sealed), "id = -1", decryption=Decryption(footer_key=FOOTER)).might_match


@pytest.fixture
def reference() -> Path:
    if not (folder := os.environ.get("PARQUET_TESTING_DATA")):
        pytest.skip("PARQUET_TESTING_DATA does not name the data folder of apache/parquet-testing")
    return Path(folder) / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"


@pytest.mark.parametrize(("column", "key", "first"), [("double_field", 0, 0.5), ("float_field", 1, 0.25)])
def test_parquet_java_s_file_with_encrypted_filters(reference: Path, column: str, key: int, first: float) -> None:
    """It holds the numbers from 0 to 1999, each half or a quarter more."""
    keys = Decryption(footer_key=b"0123456789012345", column_keys={column: b"123456789012345%d" % key})
    (info,) = list(inspect(reference, column, decryption=keys))
    assert (info.num_bytes, info.num_values, info.problem) == (2048, 2000, None)
    present, absent = [i + first for i in range(2000)], [i + first + 0.125 for i in range(1999)]
    assert {row.answer for row in probe(reference, column, present, decryption=keys)} == {MIGHT_MATCH}
    found = [row.answer for row in probe(reference, column, absent, decryption=keys)]
    assert found.count(CANNOT_MATCH) / len(found) == pytest.approx(1 - info.fpp, abs=0.02)
    candidates = lookup(reference, column, present + absent, decryption=keys).to_arrow()
    assert set(present) <= {row["key"] for row in candidates.to_pylist() if row["path"]}
    assert not prune(reference, f"{column} = {absent[3]}", decryption=keys).might_match
    assert prune(reference, f"{column} = {present[3]}", decryption=keys).might_match


# ---- without the right key ---------------------------------------------------------------


@pytest.mark.parametrize("plain_footer", [True, False])
def test_a_column_without_its_key_is_kept_and_others_are_not(plain_footer: bool) -> None:
    sealed = encrypted(PLAIN, FOOTER, {"id": ID, "name": NAME}, plain_footer=plain_footer)
    keys = Decryption(footer_key=FOOTER, column_keys={"name": NAME})
    assert {(row.answer, row.reason) for row in probe(io.BytesIO(sealed), "id", 1, decryption=keys)} == {
        (MIGHT_MATCH, NO_KEY)
    }
    for condition in ("id = 1", "id < -1", "id IS NULL"):
        assert {row.reason for row in prune(io.BytesIO(sealed), condition, decryption=keys)} == {NO_KEY}
    assert not prune(io.BytesIO(sealed), "id = 1 AND name = 'x'", decryption=keys).might_match
    found = lookup(io.BytesIO(sealed), "id", [1], decryption=keys).to_arrow().to_pylist()
    assert [(row["row_group"], row["reason"]) for row in found] == [(0, NO_KEY), (1, NO_KEY)]
    inspection = inspect(io.BytesIO(sealed), decryption=keys)
    assert {(row.column, row.untrusted) for row in inspection} == {("id", NO_KEY), ("name", None)}
    assert inspection.errors == ()


@pytest.mark.parametrize("plain_footer", [True, False])
def test_a_wrong_key_is_told(plain_footer: bool) -> None:
    sealed = encrypted(PLAIN, FOOTER, {"id": ID}, plain_footer=plain_footer)
    wrong = f"the metadata of column id does not decrypt: {WRONG}"
    keys = Decryption(footer_key=FOOTER, column_keys={"id": NAME})
    assert {row.reason for row in probe(io.BytesIO(sealed), "id", 1, decryption=keys)} == {wrong}
    assert {row.reason for row in prune(io.BytesIO(sealed), "id = 1", decryption=keys)} == {wrong}
    assert {row.problem for row in inspect(io.BytesIO(sealed), "id", decryption=keys)} == {wrong}
    assert inspect(io.BytesIO(sealed), decryption=keys).errors
    of_footer = Decryption(footer_key=NAME, column_keys={"id": ID})
    for row in (
        *prune(io.BytesIO(sealed), "id = 1", decryption=of_footer),
        *probe(io.BytesIO(sealed), "id", 1, decryption=of_footer),
    ):
        assert (row.answer, row.row_group) == (MIGHT_MATCH, None)
        assert WRONG in row.reason
    with pytest.raises(CorruptFileError, match=WRONG):
        prune(io.BytesIO(sealed), "id = 1", decryption=of_footer, strict=True)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_no_changed_byte_proves_the_absence_of_what_is_there(plain_footer: bool) -> None:
    """Every byte from the first encrypted filter to the end of the file, in turn."""
    table = pa.table({"id": [5, 6, 7, 8], "other": [1, 2, 3, 4]})
    data = written(table, row_group_size=2, bloom_filter_options={"id": {"ndv": 2, "fpp": 0.1}}, store_schema=False)
    sealed = encrypted(data, FOOTER, {"id": ID}, plain_footer=plain_footer)
    keys = Decryption(footer_key=FOOTER, column_keys={"id": ID})
    assert not probe(io.BytesIO(sealed), "id", 9, decryption=keys).might_match
    first = len(data) - 8 - len(footer_bytes(data))
    for at in range(first, len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1 << at % 8]) + sealed[at + 1 :]
        for group, value in ((0, 5), (1, 8)):
            for rows in asked(changed, value, keys):
                assert all(answer == MIGHT_MATCH for row_group, answer in rows if row_group in (group, None)), at


def asked(data: bytes, value: int, keys: Decryption) -> Iterator[list[tuple[int | None, str]]]:
    verbs: list[Callable[[], Any]] = [
        lambda: probe(io.BytesIO(data), "id", value, decryption=keys),
        lambda: prune(io.BytesIO(data), f"id = {value}", decryption=keys),
    ]
    for verb in verbs:
        try:
            yield [(row.row_group, row.answer) for row in verb()]
        except ParquetBloomError:
            yield []


def test_a_filter_of_another_place_or_file_does_not_open() -> None:
    sealed, other = encrypted(PLAIN, FOOTER, has_lengths=True), encrypted(PLAIN, FOOTER, has_lengths=True)
    keys = Decryption(footer_key=FOOTER)
    places = {
        (row.row_group, row.column): (row.offset, row.length) for row in inspect(io.BytesIO(sealed), decryption=keys)
    }
    start, length = places[0, "id"]
    for donor, place in ((sealed, (1, "id")), (other, (0, "id"))):
        at, size = places[place]
        assert size == length
        swapped = sealed[:start] + donor[at : at + size] + sealed[start + size :]
        first, second = probe(io.BytesIO(swapped), "id", 1, decryption=keys)
        assert (first.answer, second.answer) == (MIGHT_MATCH, CANNOT_MATCH)
        assert first.reason == f"the bloom filter's header does not decrypt: {WRONG} (at byte {start:,})"


def test_metadata_that_is_not_encrypted_is_not_believed() -> None:
    """Someone puts statistics of his own in the place of those that only the key opens."""
    sealed = encrypted(PLAIN, FOOTER, {"id": ID}, plain_footer=True)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(sealed))
    for group in metadata.row_groups:
        chunk = group.columns[0]
        chunk.encrypted_column_metadata = None
        low = struct.pack("<q", 10**9)
        chunk.meta_data.statistics = ttypes.Statistics(min_value=low, max_value=low, null_count=0)
    start = len(sealed) - 8 - len(footer_bytes(sealed))
    footer = encode(metadata) + bytes(28)
    forged = sealed[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    for row in prune(io.BytesIO(forged), "id = 3", decryption=Decryption(column_keys={"id": ID})):
        assert row.reason == "the metadata of column id is not encrypted, although the column is"
    (row,) = prune(io.BytesIO(forged), "id = 3", decryption=Decryption(**KEYS)).rows
    assert row.reason == f"the footer's signature does not match: {WRONG}"


def test_exact_does_not_decode_encrypted_pages(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_bytes(encrypted(PLAIN, FOOTER, columns=["id"]))
    keys = Decryption(footer_key=FOOTER)
    kept = prune(tmp_path, "id = 3", decryption=keys, exact=True)
    assert [row.reason for row in kept.kept_row_groups] == ["the filter on id says the value may be present"]
    kept = prune(tmp_path, "other = 250", decryption=keys, exact=True)
    assert [row.reason for row in kept.kept_row_groups] == ["other was read, and the value is in it"]


def test_writing_refuses_encrypted_files(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_bytes(encrypted(PLAIN, FOOTER))
    (tmp_path / "s.parquet").write_bytes(encrypted(PLAIN, FOOTER, {"id": ID}, plain_footer=True))
    before = snapshot(tmp_path)
    assert [row.status for row in add(tmp_path, "other").rows] == ["refused", "refused"]
    assert [row.status for row in drop(tmp_path).rows] == ["refused", "refused"]
    assert snapshot(tmp_path) == before


# ---- keys --------------------------------------------------------------------------------


def test_the_cache_keeps_nothing_that_was_decrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -60.0)
    for name, plain_footer in (("e", False), ("s", True)):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(encrypted(PLAIN, FOOTER, {"id": ID}, plain_footer=plain_footer))
        cache, keys = Cache(), Decryption(**KEYS)

        def reasons(keys: Decryption | None, path: Path = path, cache: Cache = cache) -> list[Any]:
            pruned = prune(path, "id = 1", decryption=keys, cache=cache)
            found = lookup(path, "id", [1], decryption=keys, cache=cache).to_arrow().to_pylist()
            return [*(row.reason for row in pruned), *(row["reason"] for row in found)]

        before = reasons(None)
        assert all("encrypted" in reason for reason in before)
        decrypted = reasons(keys)
        assert decrypted != before
        assert reasons(None) == before
        assert reasons(keys) == decrypted
        assert reasons(Decryption(footer_key=FOOTER)) == [NO_KEY] * 4
        assert len(cache) == plain_footer  # a footer that anyone may read


@pytest.mark.parametrize(
    "give",
    [
        lambda key: Decryption(footer_key=key[:-1]),
        lambda key: Decryption(footer_key=key.decode()),
        lambda key: Decryption(column_keys={"id": key[:-1]}),
        lambda key: Decryption(column_keys={key: "id"}),
        lambda key: Decryption(column_keys={key.decode(): "id"}),
        lambda key: Decryption(aad_prefix=key.decode()),
        lambda key: Decryption.from_json(f'{{"footer_key": "{key.decode()}"}}'),
        lambda key: Decryption.from_json(f'{{"footer_key": "hex:{key.hex()}ff"}}'),
        lambda key: Decryption.from_json(f'{{"footer_key": "base64:{key.decode()}-"}}'),
        lambda key: Decryption.from_json(f'{{"footer_key": ["{key.decode()}"]}}'),
        lambda key: Decryption.from_json(f'{{"column_keys": {{"hex:{key.hex()}": "id"}}}}'),
        lambda key: Decryption.from_json(f'{{"column_keys": "hex:{key.hex()}"}}'),
        lambda key: Decryption.from_json(f'{{"hex:{key.hex()}": "footer_key"}}'),
        lambda key: Decryption.from_json(f'{{"aad_prefix": ["{key.decode()}"]}}'),
        lambda key: Decryption.from_json(f'{{"footer_key": "hex:{key.hex()}"'),
        lambda key: Decryption.from_json(f'"hex:{key.hex()}"'),
    ],
)
def test_an_error_about_keys_does_not_show_them(give: Callable[[bytes], Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        give(FOOTER)
    shown = f"{error.value} {error.value.__cause__}"
    assert FOOTER.decode() not in shown
    assert FOOTER[:-1].decode() not in shown
    assert FOOTER.hex() not in shown


def test_no_text_shows_a_key() -> None:
    keys = Decryption(**KEYS, key_retriever=lambda _: None, unwrap_key=lambda *_: None, aad_prefix=b"x")
    assert repr(keys) == "<Decryption: a footer key, keys of 2 columns, a key retriever, unwraps keys, an AAD prefix>"
    evaluated = prune(io.BytesIO(encrypted(PLAIN, FOOTER)), "id = 1", decryption=Decryption(**KEYS))
    (source,) = find([io.BytesIO(encrypted(PLAIN, FOOTER, {"id": ID, "name": NAME}))])
    footer = run_plan(source, read_footer(source.size, decryption=Decryption(**KEYS)))
    locations = [footer.filter_location(0, leaf) for leaf in footer.leaves]
    for key in (FOOTER, ID, NAME):
        assert key.decode() not in f"{evaluated!r} {evaluated.explain()} {footer!r} {locations!r}"


def test_a_key_retriever_is_asked_once_for_a_key_of_a_file() -> None:
    asked_for = []

    def retrieve(metadata: bytes) -> bytes | None:
        asked_for.append(metadata)
        return {b"footer": FOOTER, b"id": ID}.get(metadata)

    sealed = encrypted(PLAIN, FOOTER, {"id": ID, "name": NAME})
    keys = Decryption(key_retriever=retrieve)
    assert not prune(io.BytesIO(sealed), "id = 1 AND name = 'x'", decryption=keys).might_match
    assert sorted(asked_for) == [b"footer", b"id", b"name"]


@pytest.mark.parametrize(
    ("retrieved", "reason"),
    [
        (lambda _: None, "the footer is encrypted, and its key was not given"),
        ({}.__getitem__, "the footer is encrypted, and its key was not given"),
        (lambda _: b"short", "a retrieved key must have 16, 24 or 32 bytes, not 5"),
        (lambda _: "text", "a retrieved key must be bytes, not str"),
        (lambda _: 1 / 0, "a key could not be retrieved: ZeroDivisionError"),
    ],
)
def test_a_file_whose_key_is_not_retrieved_is_kept(retrieved: Callable[[bytes], Any], reason: str) -> None:
    sealed = io.BytesIO(encrypted(PLAIN, FOOTER))
    for keys in (Decryption(key_retriever=retrieved), Decryption(footer_key=None, key_retriever=retrieved)):
        (row,) = prune(sealed, "id = 1", decryption=keys).rows
        assert (row.answer, row.reason) == (MIGHT_MATCH, reason)


@pytest.mark.parametrize(
    ("material", "reason"),
    [
        ("no JSON", "the footer is encrypted, and its key was not given"),
        ("[1]", "the footer is encrypted, and its key was not given"),
        ('{"keyMaterialType": "PKMT1"}', "the key material lacks masterKeyID"),
        (
            '{"keyMaterialType": "PKMT1", "internalStorage": false, "keyReference": "x"}',
            "the key material is in a file of its own, which is not read",
        ),
        (
            '{"keyMaterialType": "PKMT1", "masterKeyID": "m", "wrappedDEK": "!", "doubleWrapping": true, '
            '"keyEncryptionKeyID": "AAAA", "wrappedKEK": "m:' + FOOTER.hex() + '"}',
            "the key material does not decode",
        ),
        (
            '{"keyMaterialType": "PKMT1", "masterKeyID": "m", "wrappedDEK": "'
            + "A" * 80
            + '", "doubleWrapping": true, '
            '"keyEncryptionKeyID": "AAAA", "wrappedKEK": "m:' + FOOTER.hex() + '"}',
            f"the wrapped key does not decrypt: {WRONG}",
        ),
    ],
)
def test_key_material_that_is_not_understood_keeps_the_file(material: str, reason: str) -> None:
    sealed = encrypted(PLAIN, FOOTER)
    about, length = decode(ttypes.FileCryptoMetaData, footer_bytes(sealed))
    about.key_metadata = material.encode()
    start = len(sealed) - 8 - len(footer_bytes(sealed))
    footer = encode(about) + footer_bytes(sealed)[length:]
    data = sealed[:start] + footer + len(footer).to_bytes(4, "little") + b"PARE"
    (row,) = prune(io.BytesIO(data), "id = 1", decryption=Decryption(unwrap_key=Kms().unwrap_key)).rows
    assert (row.answer, row.reason) == (MIGHT_MATCH, reason)


def test_keys_need_the_extra() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import parquet_bloom\n"
        "try:\n    parquet_bloom.Decryption(footer_key=b'0' * 16)\n"
        "except parquet_bloom.UnsupportedError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "reading encrypted files needs cryptography: pip install 'parquet-bloom[crypto]'\n"


# ---- the command line --------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, arguments)
    return ran.exit_code, ran.output


def test_the_command_line_reads_keys_from_a_file(tmp_path: Path) -> None:
    path, keys, wanted = str(tmp_path / "e.parquet"), tmp_path / "keys.json", tmp_path / "wanted.txt"
    Path(path).write_bytes(encrypted(PLAIN, FOOTER, {"id": ID, "name": NAME}, aad_prefix=b"p", stores_prefix=False))
    wanted.write_text("1\n4\n")
    keys.write_text(
        json.dumps(
            {
                "footer_key": f"hex:{FOOTER.hex()}",
                "column_keys": {"id": f"base64:{base64.b64encode(ID).decode()}"},
                "keys": {"name": f"hex:{NAME.hex()}"},
                "aad_prefix": "p",
            }
        )
    )
    with_keys = ("--keys-file", str(keys))
    assert run("probe", path, "id", "1")[0] == 0
    assert run("probe", path, "id", "1", *with_keys)[0] == 1
    assert run("probe", path, "name", "x", *with_keys)[0] == 1
    assert run("prune", path, "-w", "id = 1", *with_keys)[0] == 1
    assert run("prune", path, "-w", "id = 3", *with_keys)[0] == 0
    assert run("lookup", path, "-c", "id", "-k", str(wanted), *with_keys)[0] == 1
    assert run("inspect", path)[0] == 2
    code, output = run("inspect", path, "--json", *with_keys)
    assert code == 0
    assert FOOTER.hex() not in output
    code, output = run("inspect", path, "--engine", "spark", *with_keys)
    assert code == 2
    assert "--keys-file gives keys to this process, and Spark's executors are others" in output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "it is not text"),
        (b"[]", "keys are a JSON object, such as"),
        (b'{"footer_key": "0123456789abcdef"}', "a key is written as hex: or base64: and its digits"),
        (b'{"footer_key": "hex:0123"}', "not a valid key of 16, 24 or 32 bytes"),
        (None, "No such file"),
    ],
)
def test_a_file_of_keys_that_is_not_understood_ends_the_command(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    write(tmp_path / "a.parquet")
    if content is not None:
        (tmp_path / "keys.json").write_bytes(content)
    code, output = run("probe", str(tmp_path / "a.parquet"), "id", "1", "--keys-file", str(tmp_path / "keys.json"))
    assert code == 2
    assert said in output
    assert "0123" not in output
