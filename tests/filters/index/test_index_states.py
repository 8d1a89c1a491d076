"""What pruning reads of an index answers as the filters themselves do, or not at all."""

from __future__ import annotations

import json
import random
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from files import index_files
from many_files import LEAVES

from parquet_bloom import Cache
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.filters import index_states
from parquet_bloom.filters.index import BloomIndex, Entry, Extent, IndexedColumn, folder_of, open_index, schema_json
from parquet_bloom.filters.index_build import Built, in_segments
from parquet_bloom.filters.index_states import RowGroups, States, states_bytes
from parquet_bloom.filters.index_versions import committed
from parquet_bloom.format.footer import unpack_row_groups
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.storage.drive import DEFAULT_LIMITS
from parquet_bloom.storage.listing import LOCAL, Source

COLUMNS = ("id", "c0")
SCHEMAS = tuple(schema_json(LEAVES[:count], [(None,) * len(leaf.path) for leaf in LEAVES[:count]]) for count in (2, 5))
PROBLEM = "the filter's false positive rate of 0.5 would be above 0.1"


def source_of(number: int, version: str) -> Source:
    return Source(LOCAL, f"/lake/{number}", f"lake/{number}", 100 + number, f"1-{version}", f"{number}", is_local=True)


class World:
    """Files with filters in several segments, some of them twice, and what `index` is to answer about them."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.dice = dice
        self.filters: dict[tuple[Source, int], list[SplitBlockBloomFilter]] = {}
        self.held: dict[tuple[Source, int], list[int]] = {}  # the hashes of the values that are in the file
        self.problems: dict[tuple[Source, int], str] = {}
        self.groups: dict[Source, tuple[tuple[int, int, int], ...]] = {}
        self.hashes = [dice.getrandbits(64) for _ in range(40)]
        self.root, self.folder = str(root), folder_of(str(root))
        segments = [segment for _ in range(3) for segment in in_segments(self.folder, list(self._built()))]
        columns = tuple(map(IndexedColumn, COLUMNS))
        committed(
            self.folder,
            lambda version: replace(version, columns=columns, segments=tuple(segments)),
            self.root,
            is_new=True,
        )

    def _built(self) -> Iterator[Built]:
        for number in self.dice.sample(range(30), 20):
            source = source_of(number, self.dice.choice("abc"))
            start = 4
            extents = []
            for _ in range(self.dice.randrange(4)):
                extents.append(Extent(self.dice.randrange(10**6), start, start + self.dice.randrange(10**10)))
                start = extents[-1].stop + self.dice.choice([0, 0, 30])
            self.groups.setdefault(source, tuple((e.num_rows, e.start, e.stop) for e in extents))
            extents = [Extent(*group) for group in self.groups[source]]
            for leaf, column in enumerate(COLUMNS):
                if self.dice.random() < 0.2:
                    continue
                version = source.version.partition("-")[2]
                schema = SCHEMAS[number % 2]
                entry = Entry(source.relative, version, source.size, "", 1, tuple(extents), schema, column, leaf)
                self.filters.pop((source, leaf), None)
                self.problems.pop((source, leaf), None)
                if self.dice.random() < 0.2:
                    self.problems[source, leaf] = PROBLEM
                    yield Built(replace(entry, problem=PROBLEM))
                    continue
                held = self.held.setdefault((source, leaf), self.dice.sample(self.hashes, self.dice.choice([0, 3, 6])))
                parts = [held[:3], held[3:], []][: self.dice.choice([2, 3]) if held[3:] else len(held[:1])]
                self.filters[source, leaf] = blooms = [self._bloom(part) for part in parts]
                yield Built(entry, tuple(bytes(bloom.bitset) for bloom in blooms))

    def _bloom(self, held: list[int]) -> SplitBlockBloomFilter:
        bloom = SplitBlockBloomFilter(self.dice.choice([32, 64, 256]))
        bloom.insert(array("Q", held + self.dice.sample(self.hashes, 2)))
        return bloom

    def opened(self) -> BloomIndex:
        index = open_index(self.root, cache=Cache(0))
        assert index is not None
        return index

    def answers(self, index: BloomIndex) -> dict[tuple[Source, int], list[bool]]:
        """Returns for each filter that the index has whether it may contain each hash."""
        ahead = index.read({column: self.dice.sample(self.hashes, 9) for column in COLUMNS})
        places = {
            (source, leaf): index.filters_of(leaf)[number]
            for source, number in zip(self.groups, index.numbers(self.groups), strict=True)
            for leaf in (() if number is None else index.schema_of(number).indexed)
        }
        questions = [(list(places.values()), [hash_]) for hash_ in self.hashes]
        found = index.ask(questions, rows=ahead, limits=DEFAULT_LIMITS, log=None)
        return {place: [of_hash[at] for of_hash in found] for at, place in enumerate(places)}


@pytest.mark.parametrize("seed", range(5))
def test_the_index_answers_as_the_filters_do(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, random.Random(seed))
    index = world.opened()
    truth = {
        place: [any(1 in bloom.check(array("Q", [hash_])) for bloom in blooms) for hash_ in world.hashes]
        for place, blooms in world.filters.items()
    }
    assert world.answers(index) == truth
    for source, groups in world.groups.items():
        file = index.find(source)
        if file is None:
            assert not {(source, 0), (source, 1)} & (truth.keys() | world.problems.keys())
            continue
        assert file.problems == {c: PROBLEM for leaf, c in enumerate(COLUMNS) if (source, leaf) in world.problems}
        assert unpack_row_groups(index.packed_row_groups(file.number)) == groups
        assert len(file.schema.leaves) == (2, 5)[int(source.relative) % 2]


def test_a_changed_file_has_no_entry(tmp_path: Path) -> None:
    world = World(tmp_path, random.Random(7))
    index = world.opened()
    for source in world.groups:
        changed = (
            replace(source, version="1-d"),
            replace(source, size=source.size + 1),
            replace(source, relative=f"{source.relative}0"),
            replace(source, is_mtime_stable=False),
        )
        assert index.numbers(changed) == [None] * 4


def test_a_damaged_index_never_denies_what_a_file_holds(tmp_path: Path) -> None:
    dice = random.Random(9)
    world = World(tmp_path, dice)
    truth = world.answers(world.opened())
    unknown = 0
    for path in [p for name, p in sorted(index_files(tmp_path).items()) if name[0] in "sb"]:
        data = path.read_bytes()
        for _ in range(12):
            damaged = bytearray(data)
            damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            path.write_bytes(damaged[: dice.choice([len(data), len(data), dice.randrange(len(data))])])
            answers = world.answers(world.opened())
            unknown += answers != truth
            for place, may_hold in answers.items():
                assert all(may_hold[world.hashes.index(hash_)] for hash_ in world.held[place])
        path.write_bytes(data)
    assert unknown > 25
    assert world.answers(world.opened()) == truth


def test_states_keep_every_number() -> None:
    counts, rows, bounds = array("I", [0, 2, 1]), array("q", [5, 0, 2**62]), array("q", [4, 10, -3, 7, 2**40, 0])
    groups = RowGroups(counts, rows, bounds)
    assert [unpack_row_groups(groups.packed(file)) for file in range(3)] == [
        (),
        ((5, 4, 14), (0, 11, 18)),
        ((2**62, 18 + 2**40, 18 + 2**40),),
    ]
    empty: Any = States(states_bytes([], []))
    assert (empty.fingerprints, empty.column_names) == ([], [])


def test_states_that_do_not_fit_their_segment_are_ignored(tmp_path: Path) -> None:
    world = World(tmp_path, random.Random(3))
    version = world.opened().version
    (first, *others) = version.segments
    for changes in ({"blocks": ()}, {"schemas": ()}, {"blocks": tuple(replace(b, num_slots=0) for b in first.blocks)}):
        index = BloomIndex(replace(version, segments=(replace(first, **changes), *others)), world.folder.sources())
        index.read()
        assert index.lost == {first.name}
    index = BloomIndex(version, world.folder.sources())
    index.read()
    assert not index.lost


@pytest.mark.parametrize(
    "header",
    [
        {"files": 10**15, "columns": [], "problems": [], "sections": []},
        {"files": True, "columns": [], "problems": [], "sections": []},
        {"files": 0, "columns": [[]], "problems": [], "sections": []},
        {"files": 0, "columns": [], "problems": {}, "sections": []},
    ],
)
def test_states_that_claim_what_they_cannot_hold_are_refused(header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(CorruptFileError):
        States(len(text).to_bytes(4, "little") + text + bytes(100))


def test_a_few_bytes_do_not_become_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_states, "_MOST_BYTES", 1000)
    assert len(index_states._numbers(zlib.compress(bytes(1000)), "I")) == 250
    with pytest.raises(ValueError, match="far too large"):
        index_states._numbers(zlib.compress(bytes(1004)), "I")
