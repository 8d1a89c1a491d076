"""Digests of ranges: those of hashlib, whatever pieces the file is read in."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.storage import digests as module
from parquet_bloom.storage.digests import digests
from parquet_bloom.storage.listing import find

DATA = bytes(range(64))
RANGES = st.lists(st.tuples(st.integers(-1, 65), st.integers(-1, 65)).map(lambda pair: ByteRange(*pair)))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("digests") / "a"
    written.write_bytes(DATA)
    return written


@given(ranges=RANGES, step=st.integers(1, 70), at_once=st.integers(1, 3))
def test_a_digest_is_that_of_the_bytes(path: Path, ranges: list[ByteRange], step: int, at_once: int) -> None:
    (source,) = find(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COALESCE_LIMIT", step)
        patch.setattr(module, "_AT_ONCE", at_once)
        found = digests(source, ranges)
    assert found == {one: hashlib.sha256(DATA[slice(*one)]).hexdigest() for one in found}
    there = {one for one in ranges if 0 <= one.start < one.stop <= len(DATA)}
    assert found.keys() <= there
    assert {one for one in there if one.start == 0} <= found.keys()
    last = 0
    for start in sorted({one.start for one in there} - {0}):  # those that do not begin within others
        of_start = {one for one in there if one.start == start}
        assert of_start & found.keys() == (of_start if start >= last else set())
        last = max(last, *(one.stop for one in of_start)) if start >= last else last


def test_a_file_that_was_changed_has_none(tmp_path: Path) -> None:
    other = tmp_path / "b"
    other.write_bytes(DATA)
    (source,) = find(other)
    os.utime(other, ns=(0, 0))
    with pytest.raises(ConcurrentChangeError, match="changed while it was read"):
        digests(source, [ByteRange(0, 64)])


def test_an_object_that_was_changed_has_none() -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe("/digests/a", DATA)
    (source,) = find("memory://digests/a")
    assert digests(source, [ByteRange(0, 64)])
    store.pipe("/digests/a", DATA[::-1])
    try:
        with pytest.raises(ConcurrentChangeError, match="changed while it was read"):
            digests(source, [ByteRange(0, 64)])
    finally:
        store.rm("/digests", recursive=True)


def test_a_store_that_sends_too_little_has_none(path: Path) -> None:
    (source,) = find(path)
    with pytest.raises(CorruptFileError, match="the file ends before byte 65"):
        module.run(source, module._digests(65, module._apart(65, [ByteRange(0, 65)])))
