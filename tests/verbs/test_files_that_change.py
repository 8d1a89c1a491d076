"""A file of a store that is replaced after it was read: what was proved of the old one is not said of the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom import Cache, absent, find, lookup, prune
from parquet_bloom.errors import ConcurrentChangeError

URL = "memory://changing/f.parquet"


@pytest.fixture
def store() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    write(fs, [1, 5, 9])
    yield fs
    fs.rm("/changing", recursive=True)


def write(store: Any, ids: list[int]) -> None:
    with store.open("/changing/f.parquet", "wb") as file:
        pq.write_table(pa.table({"id": ids}), file)


VERBS: dict[str, tuple[int, Callable[..., bool]]] = {
    "prune": (1, lambda **options: prune(URL, "id = 20", **options).might_match),
    "prune exactly": (2, lambda **options: prune(URL, "id = 7", exact=True, **options).might_match),
    "look keys up": (1, lambda **options: lookup(URL, "id", [20], **options).to_arrow()["path"].to_pylist() != [None]),
    "find": (2, lambda **options: errors_of(find(URL, "id = 7", **options))),
    "find keys": (2, lambda **options: errors_of(find(URL, column="id", keys=[7], **options))),
    "absent": (2, lambda **options: absent(URL, "id", [7], **options).unknown.to_pylist() == [7]),
}
"""How often each tells of its progress until the file was read, and whether it says that the file may match."""


def errors_of(found: Any) -> bool:
    assert found.to_arrow().num_rows == 0
    return bool(found.errors)


@pytest.mark.parametrize("verb", VERBS)
def test_it_may_match(store: Any, verb: str) -> None:
    last, ask = VERBS[verb]
    assert not ask(cache=Cache(0))
    told = 0

    def replace(done: int, total: int) -> None:
        nonlocal told
        told += 1
        if told == last:
            write(store, [7, 20])

    assert ask(cache=Cache(0), progress=replace)
    assert told == last
    write(store, [1, 5, 9])
    told = 0
    with pytest.raises(ConcurrentChangeError):
        ask(cache=Cache(0), progress=replace, strict=True)
