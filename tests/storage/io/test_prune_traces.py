"""What `prune` and `lookup` read of a store, as text, and how long that takes on a store with a clock of its own."""

from __future__ import annotations

from typing import Any

import pytest
from stores import Filter, SimulatedStore, laid_out

from parquet_bloom import lookup, prune
from parquet_bloom.format.footer import FILTER_GUESS
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import Limits, RequestLog

KIB, MIB = 1024, 1024 * 1024
FILES = 1000
PRESENT, ABSENT = 7, 42
LISTINGS = 5
"""Whether it is a table, what the path is, what is in it, its index, and at the end whether that is still so."""


def folder(*kinds: bytes, files: int = FILES, **options: Any) -> SimulatedStore:
    """Returns a store with so many files in one folder, by turns of the given kinds."""
    return SimulatedStore.of({f"/data/{i:04}.parquet": kinds[i % len(kinds)] for i in range(files)}, **options)


def pruned(store: SimulatedStore, where: str = f"id = {ABSENT}", **options: Any) -> tuple[Any, dict[str, str]]:
    """Returns the verdicts and what was read of each file, in order, as text without the file's name."""
    log = RequestLog()
    result = prune("/data", where, filesystem=store, cache=Cache(0), log=log, **options)
    assert result.totals.files_not_pruned == 0
    return result, of_each(log)


def of_each(log: RequestLog) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    for name, r in log.requests:
        lines.setdefault(name, []).append(f"{r} ({len(r)} bytes)")
    return {name: "\n".join(of_file) for name, of_file in lines.items()}


def bound(store: SimulatedStore, requests: int) -> float:
    """Returns the least time that so many requests take, besides those to find the files and to look at them again."""
    return (-(-requests // 64) + LISTINGS) * 0.05


# ---- requests ----------------------------------------------------------------------------


def test_filters_that_came_with_the_footer_take_one_request_a_file() -> None:
    store = folder(laid_out(*(Filter(MIB - 60_000 + 5_000 * i, 4096) for i in range(8)), size=MIB))
    result, traces = pruned(store)
    assert not result.kept_files
    assert set(traces.values()) == {"983040-1048576 (65536 bytes)"}
    assert (len(traces), store.requests) == (FILES, FILES + LISTINGS)


def test_filters_before_the_footer_take_two_requests_a_file() -> None:
    filters = [Filter(MIB - 150_000 + 16_500 * i, 16 * KIB) for i in range(9)]
    store = folder(laid_out(*filters, size=MIB))
    result, traces = pruned(store)
    assert not result.kept_files
    assert set(traces.values()) == {
        "983040-1048576 (65536 bytes)\n"
        "898576-981093 (82517 bytes)"
    }  # fmt: skip
    assert (len(traces), store.requests) == (FILES, 2 * FILES + LISTINGS)


def test_a_footer_longer_than_the_guess_takes_one_request_more() -> None:
    store = folder(laid_out(Filter(MIB - 300_000, 4 * KIB), size=MIB, padding=100_000))
    result, traces = pruned(store)
    assert not result.kept_files
    assert set(traces.values()) == {
        "983040-1048576 (65536 bytes)\n"
        "948486-983040 (34554 bytes)\n"
        "748576-752688 (4112 bytes)"
    }  # fmt: skip
    assert store.requests == 3 * FILES + LISTINGS


def test_one_key_in_a_large_filter_moves_its_header_and_one_block() -> None:
    store = folder(laid_out(Filter(1000, 4 * MIB, keys=(PRESENT,)), size=5 * MIB), files=1)
    footer = "5177344-5242880 (65536 bytes)\n1000-1018 (18 bytes)\n"
    for key, is_kept, block in ((PRESENT, True, "139674-139706"), (ABSENT, False, "2972058-2972090")):
        result, traces = pruned(store, f"id = {key}")
        assert (bool(result.kept_files), traces) == (is_kept, {"/data/0000.parquet": f"{footer}{block} (32 bytes)"})


def test_without_lengths_there_is_one_guess_for_each_filter() -> None:
    filters = [Filter(1000, 64 * KIB, has_length=False), Filter(2 * MIB, 64 * KIB, has_length=False)]
    store = folder(laid_out(*filters, size=4 * MIB), files=100)
    result, traces = pruned(store)
    assert not result.kept_files
    assert FILTER_GUESS == 256 * KIB
    assert set(traces.values()) == {
        "4128768-4194304 (65536 bytes)\n"
        "1000-263208 (262208 bytes)\n"
        "2097152-2359360 (262208 bytes)"
    }  # fmt: skip


def test_statistics_come_first_and_what_they_prune_is_asked_no_filter() -> None:
    filters = [Filter(1000 + 100_000 * i, 8 * KIB, bounds=(10 * i, 10 * i + 9)) for i in range(8)]
    store = folder(laid_out(*filters, size=MIB))
    result, traces = pruned(store)
    assert set(traces.values()) == {
        "983040-1048576 (65536 bytes)\n"
        "401000-406841 (5841 bytes)"
    }  # fmt: skip
    assert result.totals.row_groups_by_statistics == 7 * FILES
    assert result.totals.row_groups_by_filters == FILES

    _, traces = pruned(folder(laid_out(*filters, size=MIB)), "id > 1000")
    assert set(traces.values()) == {"983040-1048576 (65536 bytes)"}


def test_many_keys_fetch_whole_filters_and_neighbours_together() -> None:
    filters = [Filter(1000 + 20_000 * i, 16 * KIB) for i in range(4)] + [Filter(500_000, 16 * KIB)]
    store = folder(laid_out(*filters, size=MIB), files=100)
    log = RequestLog()
    rows = lookup("/data", "id", list(range(1000)), filesystem=store, cache=Cache(0), log=log).to_arrow()
    assert rows["path"].null_count == rows.num_rows == 1000
    assert set(of_each(log).values()) == {
        "983040-1048576 (65536 bytes)\n"
        "1000-77401 (76401 bytes)\n"
        "500000-516401 (16401 bytes)"
    }  # fmt: skip


def test_a_gap_and_a_size_can_be_set() -> None:
    store = folder(laid_out(*(Filter(1000 + 20_000 * i, 4 * KIB) for i in range(4)), size=MIB), files=1)
    _, apart = pruned(store, limits=Limits(gap=1000))
    _, joined = pruned(store, limits=Limits(gap=20_000))
    _, in_two = pruned(store, limits=Limits(gap=20_000, limit=30_000))
    assert [len(t["/data/0000.parquet"].splitlines()) for t in (apart, joined, in_two)] == [5, 2, 3]


# ---- time --------------------------------------------------------------------------------


def spread() -> list[bytes]:
    """Returns files of many kinds: filters with the footer, before it, far apart, behind a long footer, or none."""
    far = [Filter(1000 + 90_000 * i, 8 * KIB) for i in range(9)]
    return [
        laid_out(Filter(MIB - 20_000, 8 * KIB), size=MIB),
        laid_out(Filter(MIB - 200_000, 8 * KIB), size=MIB),
        *(laid_out(*far[:count], size=MIB) for count in (2, 3, 5, 9)),
        laid_out(*far[:2], size=MIB, padding=80_000),
        laid_out(Filter(1000, 512 * KIB, has_length=False), size=MIB),
        laid_out(size=MIB),
    ]


@pytest.mark.parametrize("kinds", [1, 2, 9], ids=["with the footer", "alternating", "of many kinds"])
def test_pruning_a_thousand_files_takes_hardly_longer_than_its_requests_must(kinds: int) -> None:
    store = folder(*spread()[:kinds])
    log = RequestLog()
    prune("/data", f"id = {ABSENT}", filesystem=store, cache=Cache(0), log=log)
    assert store.requests == len(log.requests) + LISTINGS
    assert store.clock <= 1.2 * bound(store, len(log.requests))


def test_a_listed_path_costs_no_request_of_its_own() -> None:
    store = folder(spread()[0])
    paths = list(store.objects)
    result = prune(paths, f"id = {ABSENT}", filesystem=store, cache=Cache(0))
    assert [file.path for file in result.all_files] == paths
    assert store.requests == FILES + 2
