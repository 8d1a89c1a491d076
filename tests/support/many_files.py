"""An index of very many data files that nobody has written: real entries and filters, for files of which only the name,
size and times exist.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from stores import SimulatedStore

from parquet_bloom.filters import index_build
from parquet_bloom.filters.index import Entry, Extent, IndexedColumn, folder_of, schema_json, state_of
from parquet_bloom.filters.index_build import Built, in_segments
from parquet_bloom.filters.index_versions import committed
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, write_header
from parquet_bloom.format.schema import LeafColumn, PhysicalType, Repetition
from parquet_bloom.storage.listing import Source, find

FILTER_BYTES = 1024
FILES_OF_A_SEGMENT = 4096
"""As many as with filters of 16 KiB, so that there are as many requests."""

LEAVES = tuple(
    LeafColumn((name,), number, PhysicalType.INT64, None, None, (Repetition.OPTIONAL,))
    for number, name in enumerate(["id", *(f"c{n}" for n in range(11))])
)


def name_of(number: int) -> str:
    return f"{number // 1000:04}/part-{number:07}-c000.snappy.parquet"


def on_disk(root: Path, count: int) -> list[Source]:
    """Makes empty files, and returns them as they are found; what is there already stays."""
    for number in range(count):
        path = root / name_of(number)
        if number % 1000 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()
    return find(str(root))


def in_store(count: int) -> SimulatedStore:
    """Returns a store with empty objects below `lake`."""
    return SimulatedStore.of({f"lake/{name_of(number)}": b"" for number in range(count)})


def index_id(root: str, sources: Sequence[Source], *, row_groups: int = 4, filesystem: Any = None) -> None:
    """Writes an index of their column `id` through the package's own writer."""
    folder = folder_of(root, filesystem=filesystem)
    with mock.patch.object(index_build, "SEGMENT_BYTES", FILES_OF_A_SEGMENT * FILTER_BYTES):
        segments = tuple(in_segments(folder, _built(sources, row_groups)))
    columns = (IndexedColumn("id"),)
    committed(folder, lambda version: replace(version, columns=columns, segments=segments), root, is_new=True)


def _built(sources: Sequence[Source], row_groups: int) -> Iterator[Built]:
    dice = random.Random(8)
    schema = schema_json(LEAVES, [None] * len(LEAVES))
    bitsets = []
    for _ in range(1000):
        bloom = SplitBlockBloomFilter(FILTER_BYTES)
        bloom.insert(array("Q", dice.randbytes(8 * 64)))
        bitsets.append(bytes(bloom.bitset))
    for source in sources:
        extents, start = [], 4
        for _ in range(row_groups):
            stop = start + dice.randrange(2_000_000, 9_000_000)
            extents.append(Extent(100_000, start, stop))
            start = stop
        entry = Entry(
            source.relative,
            state_of(source),
            source.size,
            dice.randbytes(32).hex(),
            sum(extent.num_rows for extent in extents),
            tuple(extents),
            schema,
            "id",
            0,
            64.0,
            1e-6,
            write_header(FILTER_BYTES),
        )
        yield Built(entry, (dice.choice(bitsets),))
