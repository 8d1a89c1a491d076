"""We read the encrypted files of parquet-java, with their filters: it is the one writer in reach that encrypts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engines import needs_java, spark

from parquet_bloom import CANNOT_MATCH, Decryption, inspect, lookup, probe, prune, verify

pytestmark = [pytest.mark.spark, needs_java]

FOOTER, ID, NAME = b"0123456789abcdef", b"fedcba98765432100123456789abcdef", b"0011223344556677"
ROWS = 2000
SCHEMA = "message m { required int32 id; required binary name (STRING); required double other; }"


def write(path: Path, columns: dict[str, bytes | None] | None, algorithm: str, *, plain_footer: bool) -> None:
    """Writes even ids, scattered over the row groups; a column that is named without a key has the footer's."""
    jvm = spark()._jvm
    parquet = jvm.org.apache.parquet
    crypto = parquet.crypto
    how = crypto.FileEncryptionProperties.builder(FOOTER).withFooterKeyID("footer")
    how = how.withAlgorithm(getattr(crypto.ParquetCipher, algorithm)).withAADPrefix(b"events/1")
    if plain_footer:
        how = how.withPlaintextFooter()
    if columns is not None:
        named = jvm.java.util.HashMap()
        for name, key in columns.items():
            own = crypto.ColumnEncryptionProperties.builder(name)
            named.put(
                parquet.hadoop.metadata.ColumnPath.fromDotString(name),
                (own.withKey(key).withKeyID(name) if key else own).build(),
            )
        how = how.withEncryptedColumns(named)
    schema = parquet.schema.MessageTypeParser.parseMessageType(SCHEMA)
    writer = parquet.hadoop.example.ExampleParquetWriter.builder(jvm.org.apache.hadoop.fs.Path(str(path)))
    writer = writer.withType(schema).withEncryption(how.build()).withRowGroupSize(4096).withDictionaryEncoding(False)
    for name in ("id", "name"):
        writer = writer.withBloomFilterEnabled(name, True).withBloomFilterNDV(name, 500)
    open_file, groups = writer.build(), parquet.example.data.simple.SimpleGroupFactory(schema)
    for number in range(0, ROWS, 2):
        id_ = number * 7919 % ROWS
        open_file.write(groups.newGroup().append("id", id_).append("name", f"n{id_}").append("other", float(number)))
    open_file.close()


@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
@pytest.mark.parametrize("plain_footer", [False, True])
@pytest.mark.parametrize(
    "columns",
    [None, {"id": ID}, {"id": ID, "name": NAME}, {"id": None, "name": NAME}],
    ids=["uniform", "id", "both", "one with the footer's key"],
)
def test_filters_of_parquet_java_are_decrypted(
    tmp_path: Path, columns: dict[str, bytes | None] | None, algorithm: str, plain_footer: bool
) -> None:
    path = tmp_path / "e.parquet"
    write(path, columns, algorithm, plain_footer=plain_footer)
    own_keys = {name: key for name, key in (columns or {}).items() if key}
    by_metadata = {b"footer": FOOTER} | {name.encode(): key for name, key in own_keys.items()}
    for keys in (
        Decryption(footer_key=FOOTER, column_keys=own_keys, aad_prefix=b"events/1"),
        Decryption(key_retriever=by_metadata.get),
    ):
        inspection = inspect(path, decryption=keys)
        num_row_groups = inspection.files[0].num_row_groups
        assert num_row_groups > 1
        assert {(row.row_group, row.column) for row in inspection if row.num_bytes} == {
            (group, name) for group in range(num_row_groups) for name in ("id", "name")
        }
        assert inspection.errors == ()
        values: dict[str, Any] = {"id": list(range(ROWS)), "name": [f"n{i}" for i in range(ROWS)]}
        for name, asked in values.items():
            candidates = lookup(path, name, asked, decryption=keys).to_arrow().to_pylist()
            found = {row["key"] for row in candidates if row["path"] is not None}
            assert set(asked[::2]) <= found
            assert len(found) < 0.6 * ROWS
            absent = next(value for value in asked if value not in found)
            assert not prune(path, f"{name} = {absent!r}", decryption=keys).might_match
            assert {row.answer for row in probe(path, name, absent, decryption=keys)} == {CANNOT_MATCH}
        verified = verify(path, decryption=keys)
        assert verified.is_sound
        assert sum(row.num_values for row in verified) == ROWS  # half of them in each of two columns
