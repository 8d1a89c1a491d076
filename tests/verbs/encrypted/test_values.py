"""Values of encrypted files: `verify` and the index decrypt pages; an index needs leave, for it is not encrypted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from click.testing import CliRunner
from encrypted import encrypted
from files import index_folder

import parquet_bloom
from parquet_bloom import Decryption, index, inspect, prune, verify
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import CorruptFileError, ParquetBloomError
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find

FOOTER, ID = b"0123456789abcdef", b"fedcba9876543210-id-key-"
WRONG = "the key is wrong, or the bytes were changed"
UNENCRYPTED = (
    "the file is encrypted, and the index would hold filters of its values that are not; "
    "it is only indexed with allow_unencrypted=True"
)


class Kms(pe.KmsClient):
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key)


KEYS_OF_KMS = Decryption(unwrap_key=Kms().unwrap_key)


def values(path: Path, keys: Decryption | None, *, each: bool) -> list[Any]:
    (source,) = find(path)
    footer = run(source, read_footer(source.size, decryption=keys))
    chunks = ColumnChunks(source, footer)
    return [
        [value for array in chunks.values(group, leaf, each=each) for value in array.to_pylist()]
        for group in range(footer.num_row_groups)
        for leaf in footer.leaves
    ]


# ---- pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("columns", [None, {"kc": ["n", "text"], "kd": ["list.list.element"]}])
@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "1.0", "write_page_checksum": True},
        {"data_page_version": "2.0", "compression": "zstd", "use_dictionary": False},
        {"data_page_version": "1.0", "use_dictionary": False, "compression": "none"},
        {"data_page_version": "2.0", "write_page_checksum": True, "compression": "snappy"},
    ],
)
def test_values_are_those_of_the_plain_file(
    tmp_path: Path, algorithm: str, plaintext_footer: bool, columns: dict[str, list[str]] | None, options: Any
) -> None:
    table = pa.table(
        {
            "n": [None if i % 7 == 0 else i % 50 for i in range(3000)],
            "text": [f"value {i}" for i in range(3000)],
            "list": [[i, None] if i % 3 else [] for i in range(3000)],
            "money": [Decimal(i) / 100 for i in range(3000)],
        }
    )
    layout = {"row_group_size": 1000, "data_page_size": 512, "write_batch_size": 64, **options}
    config = pe.EncryptionConfiguration(
        footer_key="kf",
        plaintext_footer=plaintext_footer,
        encryption_algorithm=algorithm,
        **({"uniform_encryption": True} if columns is None else {"column_keys": columns}),
    )
    properties = pe.CryptoFactory(lambda _: Kms()).file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(table, tmp_path / "plain.parquet", **layout)
    pq.write_table(table, tmp_path / "sealed.parquet", encryption_properties=properties, **layout)
    for each in (False, True):
        plain = values(tmp_path / "plain.parquet", None, each=each)
        assert values(tmp_path / "sealed.parquet", KEYS_OF_KMS, each=each) == plain


def sealed_file(path: Path, **options: Any) -> bytes:
    """Writes a file with filters whose pages are encrypted, and returns the file as it was before."""
    table = pa.table({"id": [i * 7 for i in range(400)], "other": range(400)})
    pq.write_table(table, path, row_group_size=200, bloom_filter_options={"id": {"ndv": 200, "fpp": 0.001}})
    plain = path.read_bytes()
    path.write_bytes(encrypted(plain, FOOTER, {"id": ID}, seals_pages=True, **options))
    return plain


def test_no_changed_byte_of_a_page_changes_a_value(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"id": [5, 6, 6, 5]}), path, store_schema=False)
    plain = path.read_bytes()
    sealed = encrypted(plain, FOOTER, seals_pages=True)
    path.write_bytes(sealed)
    keys = Decryption(footer_key=FOOTER)
    assert values(path, keys, each=True) == [[5, 6, 6, 5]]
    first = len(plain) - 8 - int.from_bytes(plain[-8:-4], "little")
    stop = len(sealed) - 8 - int.from_bytes(sealed[-8:-4], "little")
    assert stop - first > 100
    for at in range(first, stop):
        path.write_bytes(sealed[:at] + bytes([sealed[at] ^ 1 << at % 8]) + sealed[at + 1 :])
        with pytest.raises(ParquetBloomError):
            values(path, keys, each=True)


def test_a_page_without_a_tag_is_held_to_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    config = pe.EncryptionConfiguration(footer_key="kf", encryption_algorithm="AES_GCM_CTR_V1", uniform_encryption=True)
    properties = pe.CryptoFactory(lambda _: Kms()).file_encryption_properties(pe.KmsConnectionConfig(), config)
    options = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(pa.table({"n": [5, 6]}), path, encryption_properties=properties, **options)
    (source,) = find(path)
    stop = run(source, read_footer(source.size, decryption=KEYS_OF_KMS)).row_groups[0].stop
    sealed = path.read_bytes()
    path.write_bytes(sealed[: stop - 8] + bytes([sealed[stop - 8] ^ 1]) + sealed[stop - 7 :])
    with pytest.raises(CorruptFileError, match="an encrypted page does not match its checksum"):
        values(path, KEYS_OF_KMS, each=True)


def test_pages_do_not_change_places(tmp_path: Path) -> None:
    """Two dictionaries, encrypted with the same key, that have the same size."""
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    pq.write_table(table, tmp_path / "e.parquet", store_schema=False, compression="none")
    sealed = encrypted((tmp_path / "e.parquet").read_bytes(), FOOTER, seals_pages=True)
    (tmp_path / "e.parquet").write_bytes(sealed)
    keys = Decryption(footer_key=FOOTER)
    (source,) = find(tmp_path / "e.parquet")
    footer = run(source, read_footer(source.size, decryption=keys))
    (a, b), size = ((footer.chunk(0, leaf).dictionary_page_offset for leaf in footer.leaves), 0)
    size = footer.chunk(0, footer.leaves[0]).total_compressed_size
    assert b == a + size
    (tmp_path / "e.parquet").write_bytes(sealed[:a] + sealed[b : b + size] + sealed[a : a + size] + sealed[b + size :])
    with pytest.raises(CorruptFileError, match=WRONG):
        values(tmp_path / "e.parquet", keys, each=True)


# ---- verify ------------------------------------------------------------------------------


def test_verify_checks_the_filters_of_parquet_java() -> None:
    if not (folder := os.environ.get("PARQUET_TESTING_DATA")):
        pytest.skip("PARQUET_TESTING_DATA does not name the data folder of apache/parquet-testing")
    path = Path(folder) / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
    own = {"double_field": b"1234567890123450", "float_field": b"1234567890123451"}
    verified = verify(path, decryption=Decryption(footer_key=b"0123456789012345", column_keys=own))
    assert verified.is_sound
    assert [(row.column, row.num_values) for row in verified] == [("double_field", 2000), ("float_field", 2000)]


@pytest.mark.parametrize("plain_footer", [True, False])
def test_verify_finds_a_filter_that_lacks_a_value(tmp_path: Path, plain_footer: bool) -> None:
    path = tmp_path / "e.parquet"
    keys = Decryption(footer_key=FOOTER, column_keys={"id": ID})
    plain = sealed_file(path, plain_footer=plain_footer)
    assert verify(path, decryption=keys).is_sound
    path.write_bytes(plain)
    first, second = inspect(path).rows
    assert first.length == second.length
    start, length = second.offset, second.length
    wrong = plain[:start] + plain[first.offset : first.offset + length] + plain[start + length :]
    path.write_bytes(encrypted(wrong, FOOTER, {"id": ID}, seals_pages=True, plain_footer=plain_footer))
    (finding,) = verify(path, decryption=keys).findings
    assert (finding.row_group, finding.verdict, finding.num_values) == (1, "false negative", 200)
    assert finding.cause == "wrong row group: the filter of row group 0 has them" or finding.num_missing > 190


def test_verify_without_the_keys_is_not_sound(tmp_path: Path) -> None:
    sealed_file(tmp_path / "e.parquet")
    (of_file,) = verify(tmp_path).errors
    assert of_file.error == "the footer is encrypted; its filters cannot be read without the keys"
    causes = {row.cause for row in verify(tmp_path, decryption=Decryption(footer_key=FOOTER)).findings}
    assert causes == {"the column is encrypted, and its key was not given"}


# ---- the index ---------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, mtime_stable: None) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    pq.write_table(pa.table({"id": [i * 7 + 1 for i in range(400)], "other": range(400)}), folder / "p.parquet")
    sealed_file(folder / "e.parquet")
    sealed_file(folder / "s.parquet", plain_footer=True, columns=["id"])
    return folder


KEYS = Decryption(footer_key=FOOTER, column_keys={"id": ID})


def failed(state: Any) -> dict[str, str]:
    return {Path(one.path).name: one.error for one in state.errors}


def test_the_index_of_encrypted_files_needs_leave(lake: Path) -> None:
    state = index.create(lake, ["id", "other"], decryption=KEYS)
    assert failed(state) == {"e.parquet": UNENCRYPTED, "s.parquet": UNENCRYPTED}
    assert [(row.column, row.files, row.files_missing) for row in state] == [("id", 1, 2), ("other", 2, 1)]
    stored = b"".join(path.read_bytes() for path in index_folder(lake).iterdir())
    assert not re.search(rb"(?<![0-9a-z])e\.parquet", stored)  # a segment may be called 0123456789abcdee.parquet
    state = index.refresh(lake, decryption=KEYS, allow_unencrypted=True)
    assert (state.errors, state.built, [row.files for row in state]) == ((), 3, [3, 3])
    for keys in (None, KEYS):
        kept = [Path(file.path).name for file in prune(lake, "id = 71", decryption=keys).kept_files]
        assert kept == ["p.parquet"]
        assert prune(lake, "id = 70", decryption=keys).totals.files_kept == 2


@pytest.mark.parametrize("give", [lambda: None, lambda: Decryption(footer_key=FOOTER)])
def test_a_file_without_its_key_is_indexed_once_there_is_one(lake: Path, give: Callable[[], Decryption | None]) -> None:
    state = index.create(lake, "id", decryption=give(), allow_unencrypted=True)
    assert set(failed(state)) == {"e.parquet", "s.parquet"}
    assert all("the column is encrypted" in said or "without the keys" in said for said in failed(state).values())
    assert index.refresh(lake, decryption=KEYS, allow_unencrypted=True).built == 2
    assert index.refresh(lake, decryption=KEYS).built == 0


def test_the_index_has_the_values_of_encrypted_files(lake: Path) -> None:
    for path in lake.iterdir():
        path.unlink()
    properties = pe.create_encryption_properties(FOOTER)
    pq.write_table(
        pa.table({"id": [f"k{i}" for i in range(500)]}), lake / "e.parquet", encryption_properties=properties
    )
    keys = Decryption(footer_key=FOOTER)
    assert index.create(lake, "id", fpp=0.001, decryption=keys, allow_unencrypted=True).errors == ()
    assert all(prune(lake, f"id = 'k{i}'").might_match for i in range(500))
    assert sum(prune(lake, f"id = 'x{i}'").might_match for i in range(100)) < 5


def test_a_statement_takes_keys(lake: Path) -> None:
    statement = f"CREATE BLOOMFILTER INDEX ON '{lake}' FOR COLUMNS (id)"
    assert set(failed(parquet_bloom.execute(statement, decryption=KEYS))) == {"e.parquet", "s.parquet"}
    assert parquet_bloom.execute(statement, decryption=KEYS, allow_unencrypted=True).rows[0].files == 3


def test_the_command_line_gives_verify_and_the_index_keys(lake: Path, tmp_path: Path) -> None:
    keys = {"footer_key": f"hex:{FOOTER.hex()}", "column_keys": {"id": f"hex:{ID.hex()}"}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    with_keys = ("--keys-file", str(tmp_path / "keys.json"))

    def ran(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, arguments)
        return result.exit_code, result.output

    assert ran("verify", str(lake))[0] == 2
    assert ran("verify", str(lake), *with_keys)[0] == 0
    code, output = ran("index", "create", str(lake), "-c", "id", *with_keys)
    assert code == 2
    assert "it is only indexed with --allow-unencrypted" in output
    assert ran("index", "refresh", str(lake), *with_keys, "--allow-unencrypted")[0] == 0
    statement = f"CREATE BLOOMFILTER INDEX ON '{lake}' FOR COLUMNS (other)"
    assert ran("sql", statement, *with_keys)[0] == 2
    assert ran("sql", statement, *with_keys, "--allow-unencrypted")[0] == 0


# ---- find ----------------------------------------------------------------------------------


@pytest.mark.parametrize("plain_footer", [False, True])
def test_find_returns_the_rows_of_encrypted_pages(tmp_path: Path, plain_footer: bool) -> None:
    table = pa.table(
        {"id": [f"key {n:05}" for n in range(600)], "n": range(600), "note": ["x" * (n % 9) for n in range(600)]}
    )
    pq.write_table(table, tmp_path / "plain.parquet", row_group_size=200, use_dictionary=["note"], compression="zstd")
    parquet_bloom.add(tmp_path / "plain.parquet", "id")
    sealed = encrypted(
        (tmp_path / "plain.parquet").read_bytes(), FOOTER, {"id": ID}, seals_pages=True, plain_footer=plain_footer
    )
    path = tmp_path / "sealed.parquet"
    path.write_bytes(sealed)
    keys = Decryption(footer_key=FOOTER, column_keys={"id": ID})
    expected = table.slice(431, 1).to_pylist()
    assert parquet_bloom.find(path, "id = 'key 00431'", decryption=keys).to_arrow().to_pylist() == expected
    by_keys = parquet_bloom.find(path, column="id", keys=["key 00431", "absent"], decryption=keys, positions=True)
    assert [(row["n"], row["row_group"], row["row"]) for row in by_keys.to_arrow().to_pylist()] == [(431, 2, 431)]
    half = parquet_bloom.find(path, "n = 431", columns=["n"], decryption=Decryption(footer_key=FOOTER))
    assert half.to_arrow().to_pylist() == [{"n": 431}]
    locked = parquet_bloom.find(path, "n = 431", decryption=Decryption(footer_key=FOOTER))
    assert locked.to_arrow().num_rows == 0
    assert "its key was not given" in locked.errors[0].error
