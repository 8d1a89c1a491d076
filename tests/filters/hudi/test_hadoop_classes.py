"""Hadoop's own classes write the same bytes and give the same answers."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
from engines import needs_java, spark

from parquet_bloom.filters.hudi import JENKINS, MURMUR, DynamicFilter, SimpleFilter

pytestmark = [pytest.mark.spark, needs_java]


@functools.cache
def hadoop_key(key: bytes) -> Any:
    """Returns Hadoop's object for a key: made once, as each call of the JVM takes longer than what it does there."""
    return spark()._jvm.org.apache.hadoop.util.bloom.Key(bytearray(key))


class Hadoop:
    """A filter of org.apache.hadoop.util.bloom."""

    def __init__(self, name: str, *arguments: int) -> None:
        self._jvm = spark()._jvm
        self._filter = getattr(self._jvm.org.apache.hadoop.util.bloom, name)(*arguments)

    def add(self, keys: list[bytes]) -> None:
        for key in keys:
            self._filter.add(hadoop_key(key))

    def check(self, keys: list[bytes]) -> bytes:
        return bytes(self._filter.membershipTest(hadoop_key(key)) for key in keys)

    def to_bytes(self) -> bytes:
        out = self._jvm.java.io.ByteArrayOutputStream()
        self._filter.write(self._jvm.java.io.DataOutputStream(out))
        return bytes(out.toByteArray())

    def read(self, data: bytes) -> None:
        held = self._jvm.java.io.ByteArrayInputStream(bytearray(data))
        self._filter.readFields(self._jvm.java.io.DataInputStream(held))


def some_keys(chance: random.Random, most: int) -> list[bytes]:
    alphabet = ["abc-09", "éüß", "日本語", "😀🦜", "\x7f\x80\xff", ":,_"]
    texts = ("".join(chance.choices(chance.choice(alphabet), k=chance.randint(1, 25))) for _ in range(most))
    return [text.encode() if chance.random() < 0.8 else chance.randbytes(chance.randint(1, 40)) for text in texts]


@pytest.mark.parametrize("hash_type", [MURMUR, JENKINS])
@pytest.mark.parametrize("seed", range(4))
def test_simple_filters(seed: int, hash_type: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        num_bits, num_hashes = chance.randint(1, 2000), chance.randint(1, 20)
        keys, others = some_keys(chance, chance.randint(0, 30)), some_keys(chance, 15)
        ours, theirs = (
            SimpleFilter(num_bits, num_hashes, hash_type=hash_type),
            Hadoop("BloomFilter", num_bits, num_hashes, hash_type),
        )
        ours.add(keys)
        theirs.add(keys)
        assert ours.to_bytes() == theirs.to_bytes()
        assert ours.check(keys + others) == theirs.check(keys + others)
        again = Hadoop("BloomFilter")
        again.read(ours.to_bytes())
        assert again.check(keys + others) == theirs.check(keys + others)
        assert SimpleFilter.from_bytes(theirs.to_bytes()).to_bytes() == ours.to_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_dynamic_filters_without_a_bound(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        num_bits, num_hashes, row_entries = chance.randint(1, 500), chance.randint(1, 20), chance.randint(1, 9)
        keys, others = some_keys(chance, chance.randint(0, 40)), some_keys(chance, 15)
        ours = DynamicFilter(num_bits, num_hashes, row_entries, 2**31 - 1)
        theirs = Hadoop("DynamicBloomFilter", num_bits, num_hashes, MURMUR, row_entries)
        ours.add(keys)
        theirs.add(keys)
        assert ours.to_bytes() == theirs.to_bytes()
        assert ours.check(keys + others) == theirs.check(keys + others)
        again = Hadoop("DynamicBloomFilter")
        again.read(ours.to_bytes())
        assert again.check(others) == ours.check(others)
        assert DynamicFilter.from_bytes(theirs.to_bytes()).to_bytes() == ours.to_bytes()


def test_old_headers_are_read_as_hadoop_reads_them() -> None:
    chance = random.Random(0)
    for _ in range(30):
        num_bits, num_hashes = chance.randint(1, 300), chance.randint(1, 4)
        data = num_hashes.to_bytes(4, "big") + num_bits.to_bytes(4, "big") + chance.randbytes((num_bits + 7) // 8)
        theirs, keys = Hadoop("BloomFilter"), some_keys(chance, 30)
        theirs.read(data)
        ours = SimpleFilter.from_bytes(data)
        assert ours.to_bytes() == theirs.to_bytes()
        assert ours.check(keys) == theirs.check(keys)
