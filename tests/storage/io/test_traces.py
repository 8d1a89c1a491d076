"""What is read, as text: every request of `inspect` and `probe` on files whose layout is known to the byte."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from stores import laid_out

from parquet_bloom import inspect, probe
from parquet_bloom.format.footer import FILTER_GUESS, FOOTER_GUESS
from parquet_bloom.storage.drive import RequestLog

KIB, MIB = 1024, 1024 * 1024


Put = Callable[[str, bytes], str]


@pytest.fixture(params=["local", "memory", "zip"])
def put(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Put]:
    """Stores a file under a name and returns what to call it; each kind of filesystem must be asked alike."""
    monkeypatch.chdir(tmp_path)
    if request.param == "local":
        yield lambda name, data: str(Path(name).write_bytes(data) and name)
    elif request.param == "memory":
        memory = fsspec.filesystem("memory")
        yield lambda name, data: memory.pipe_file(f"/traces/{name}", data) or f"memory://traces/{name}"
        memory.rm("/traces", recursive=True)
    else:

        def archive(name: str, data: bytes) -> str:
            with zipfile.ZipFile(f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as target:
                target.writestr(name, data)
            return f"zip://{name}::{name}.zip"

        yield archive


def trace(verb: Callable[..., Any], paths: Any, *arguments: Any) -> str:
    log = RequestLog()
    result = verb(paths, *arguments, log=log)
    assert not any(getattr(row, "problem", None) for row in result.rows)
    assert log.num_bytes == sum(len(r) for _, r in log.requests)
    return str(log).replace("memory://traces/", "")


def test_a_filter_that_came_with_the_tail_costs_no_request(put: Put) -> None:
    file = put("f.parquet", laid_out((MIB - 10_000, 4096, True), (MIB - 5_000, 4096, True), size=MIB))
    assert trace(inspect, file) == "f.parquet 983040-1048576 (65536 bytes)"


def test_a_small_file_is_one_request(put: Put) -> None:
    file = put("f.parquet", laid_out((100, 1024, True), (2000, 1024, False), size=5000))
    assert trace(inspect, file) == "f.parquet 0-5000 (5000 bytes)"


def test_a_known_length_is_exactly_one_request(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 128 * KIB, True), size=MIB))
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-132089 (131089 bytes)"
    )  # fmt: skip


def test_without_a_length_one_guess_with_room_for_the_header(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 1024, False), size=MIB))
    assert FILTER_GUESS == 256 * KIB
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-263208 (262208 bytes)"
    )  # fmt: skip


def test_the_guess_ends_at_the_footer(put: Put) -> None:
    file = put("f.parquet", laid_out((300_000, 1024, False), size=400_000))
    assert trace(inspect, file) == (
        "f.parquet 334464-400000 (65536 bytes)\n"
        "f.parquet 300000-399929 (99929 bytes)"
    )  # fmt: skip


def test_a_bitset_as_long_as_the_guess_is_still_one_request(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 256 * KIB, False), size=MIB))
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-263208 (262208 bytes)"
    )  # fmt: skip


def test_a_longer_bitset_takes_a_second_request_for_the_rest(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 512 * KIB, False), size=MIB))
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-263208 (262208 bytes)\n"
        "f.parquet 263208-525305 (262097 bytes)"
    )  # fmt: skip


def test_neighbours_are_one_request(put: Put) -> None:
    filters = [(10_000 + 4_500 * i, 4096, True) for i in range(20)]
    file = put("f.parquet", laid_out(*filters, size=MIB))
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 10000-99612 (89612 bytes)"
    )  # fmt: skip


def test_a_gap_costs_less_than_a_request_of_a_store_but_not_of_a_disk(put: Put) -> None:
    file = put("f.parquet", laid_out((1_000, 1024, True), (10_000, 1024, True), size=MIB))
    together = "f.parquet 1000-11040 (10040 bytes)"
    apart = "f.parquet 1000-2040 (1040 bytes)\nf.parquet 10000-11040 (1040 bytes)"
    expected = together if "://" in file else apart
    assert trace(inspect, file) == f"f.parquet 983040-1048576 (65536 bytes)\n{expected}"


def test_far_apart_filters_are_requests_of_their_own_in_one_round(put: Put) -> None:
    file = put("f.parquet", laid_out((1_000, 1024, True), (18_500, 1024, True), (200_000, 1024, True), size=MIB))
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-2040 (1040 bytes)\n"
        "f.parquet 18500-19540 (1040 bytes)\n"
        "f.parquet 200000-201040 (1040 bytes)"
    )  # fmt: skip


def test_a_footer_longer_than_the_guess_takes_a_second_request(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 1024, True), size=MIB, padding=100_000))
    assert FOOTER_GUESS == 64 * KIB
    assert trace(inspect, file) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 948487-983040 (34553 bytes)\n"
        "f.parquet 1000-2040 (1040 bytes)"
    )  # fmt: skip


def test_files_of_a_store_advance_side_by_side_and_those_of_a_disk_in_turn(put: Put) -> None:
    files = [put(f"{name}.parquet", laid_out((1000, 1024, True), size=200_000)) for name in "ab"]
    footers, filters = (
        [f"{name}.parquet {r}" for name in "ab"] for r in ("134464-200000 (65536 bytes)", "1000-2040 (1040 bytes)")
    )
    in_turn = [footers[0], filters[0], footers[1], filters[1]]
    expected = [*footers, *filters] if "://" in files[0] else in_turn
    assert trace(inspect, files).splitlines() == expected


def test_probe_asks_as_inspect_does(put: Put) -> None:
    file = put("f.parquet", laid_out((1000, 1024, True), (2500, 1024, True), size=MIB))
    assert trace(probe, file, "id", 42) == (
        "f.parquet 983040-1048576 (65536 bytes)\n"
        "f.parquet 1000-3540 (2540 bytes)"
    )  # fmt: skip


def test_a_file_without_filters_is_its_footer_alone(put: Put) -> None:
    file = put("f.parquet", laid_out(size=MIB))
    assert trace(inspect, file) == "f.parquet 983040-1048576 (65536 bytes)"
