"""Our speed as ratios to pyarrow's in the same run. Not part of the usual tests:

pytest tests/benchmarks -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import hash_array
from parquet_bloom.verbs.parallel import share_threads

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

FPP = 0.01
NDV = sample.ROWS // sample.ROW_GROUPS
RUNS = 5
MEGABYTE = 1_000_000


def seconds(*calls: Callable[[], object], runs: int = RUNS, before: Callable[[], object] = lambda: None) -> list[float]:
    """Returns the best time of each call, which other work on the machine slows the least; they take turns.

    The first turn warms up and does not count, nor does `before`, which comes before each call.
    """
    times = [[] for _ in calls]
    for turn in range(runs + 1):
        for call, taken in zip(calls, times, strict=True):
            before()
            start = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def line(what: str, *figures: str) -> None:
    print(f"{what:<58}" + "  ".join(f"{figure:>14}" for figure in figures))


# ---- hashing and inserting ---------------------------------------------------------------


@pytest.fixture(scope="module")
def events() -> Path:
    return sample.events()


def row_groups(path: Path, column: str) -> list[pa.Array]:
    with pq.ParquetFile(path) as file:
        return [file.read_row_group(i, [column]).column(0).combine_chunks() for i in range(file.num_row_groups)]


def write(arrays: list[pa.Array], options: dict | None) -> None:
    """Writes one column as plainly as pyarrow can, to nowhere."""
    schema = pa.schema({"c": arrays[0].type})
    settings = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(pa.MockOutputStream(), schema, bloom_filter_options=options, **settings) as writer:
        for array in arrays:
            writer.write_table(pa.table([array], schema=schema), len(array))


def physical(array: pa.Array) -> pa.Array:
    return array.cast(pa.binary()) if pa.types.is_string(array.type) else array


@pytest.mark.parametrize(("column", "wanted", "wanted_threaded"), [("number", 2.0, 2.0), ("id", 1.3, 2.0)])
def test_hashing_and_inserting_beat_pyarrow(events: Path, column: str, wanted: float, wanted_threaded: float) -> None:
    arrays = row_groups(events, column)
    physical_arrays = [physical(a) for a in arrays]
    (source,) = find(str(events))
    (leaf,) = [leaf for leaf in run(source, read_footer(source.size)).leaves if leaf.name == column]
    _, threads = share_threads(None, 1)

    def build(array: pa.Array) -> None:
        bloom = SplitBlockBloomFilter.sized_for(NDV, FPP)
        for at in range(0, len(array), 128 * 1024):
            bloom.insert(hash_array(leaf, array.slice(at, 128 * 1024)))

    def in_one_thread() -> None:
        for array in physical_arrays:
            build(array)

    def in_threads() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(build, physical_arrays))

    plain, filtered, ours, ours_threaded = seconds(
        lambda: write(arrays, None),
        lambda: write(arrays, {"c": {"ndv": NDV, "fpp": FPP}}),
        in_one_thread,
        in_threads,
        runs=9,
    )
    theirs = filtered - plain
    each = 1e9 / sample.ROWS
    what = f"hash and insert {column}, "
    line(f"{what}one thread", f"{ours * each:.1f} ns", f"pyarrow {theirs * each:.1f} ns", f"{theirs / ours:.2f}x")
    line(
        f"{what}{threads} threads",
        f"{ours_threaded * each:.1f} ns",
        f"pyarrow {theirs * each:.1f} ns",
        f"{theirs / ours_threaded:.2f}x",
    )
    assert theirs / ours >= wanted
    assert theirs / ours_threaded >= wanted_threaded


# ---- add ---------------------------------------------------------------------------------


def rewrite(path: Path, target: Path) -> None:
    """Reads the file and writes it with filters, as one would without this package, and as durably."""
    options = {"ndv": NDV, "fpp": FPP}
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(
            target,
            file.schema_arrow,
            compression="zstd",
            bloom_filter_options={"id": options, "number": options},
        ) as writer,
    ):
        for i in range(file.num_row_groups):
            writer.write_table(file.read_row_group(i), NDV)
    sync(target)


def sync(path: Path) -> None:
    """Waits until the file is on the disk, as `add` does."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def test_add_beats_reading_and_rewriting(events: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.parquet"

    def clean() -> None:  # nobody pays for what another left to be written
        target.unlink(missing_ok=True)
        os.sync()

    def copied() -> None:
        shutil.copyfile(events, target)
        sync(target)

    def added() -> None:
        parquet_bloom.add(events, ["id", "number"], output=target)

    theirs, ours, copying = seconds(lambda: rewrite(events, target), added, copied, before=clean)
    line(
        f"add, {events.stat().st_size / MEGABYTE:.0f} MB",
        f"{ours:.2f} s",
        f"pyarrow {theirs:.2f} s",
        f"{theirs / ours:.1f}x",
    )
    line("  of which copying and syncing would take", f"{copying:.2f} s")
    assert theirs / ours >= 6


def test_add_as_a_whole_process_beats_rewriting(events: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.parquet"

    def clean() -> None:
        target.unlink(missing_ok=True)
        os.sync()

    def added() -> None:
        call = "from parquet_bloom.__main__ import main; main()"
        command = [sys.executable, "-c", call, "add", events, "-c", "id", "-c", "number", "-o", target]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    theirs, ours = seconds(lambda: rewrite(events, target), added, before=clean)
    line("add as a whole process", f"{ours:.2f} s", f"pyarrow {theirs:.2f} s", f"{theirs / ours:.1f}x")
    assert theirs / ours >= 4  # copying and syncing alone take about half of our time


def peak(path: Path, target: Path, columns: list[str]) -> int:
    """Returns the most memory, in bytes, that a process takes to add filters."""
    program = (
        "import re, sys, parquet_bloom\n"
        f"parquet_bloom.add({str(path)!r}, {columns!r}, output={str(target)!r})\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(said.stdout) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from Linux's /proc")
def test_peak_memory_of_add(events: Path, tmp_path: Path) -> None:
    many = peak(events, tmp_path / "many.parquet", ["id", "number"])
    line("peak memory of add, 8 row groups", f"{many / MEGABYTE:.0f} MB")
    one = peak(sample.one_row_group(), tmp_path / "one.parquet", ["id"])
    (bloom,) = parquet_bloom.inspect(tmp_path / "one.parquet").rows
    line(
        "peak memory of add, one row group of 12 M ids",
        f"{one / MEGABYTE:.0f} MB",
        f"filter {bloom.num_bytes / MEGABYTE:.0f} MB",
    )
    assert many < 200 * 2**20
    assert one < 200 * 2**20 + bloom.num_bytes


# ---- starting ----------------------------------------------------------------------------


def test_starting_is_quick() -> None:
    program = Path(sysconfig.get_path("scripts"), "parquet-bloom")

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    def help_() -> None:
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)

    nothing, imported, helped = seconds(lambda: python("pass"), lambda: python("import parquet_bloom"), help_, runs=11)
    line("import parquet_bloom", f"{1000 * (imported - nothing):.0f} ms", f"python {1000 * nothing:.0f} ms")
    line("parquet-bloom --help", f"{1000 * helped:.0f} ms")
    assert imported - nothing < 0.080
    assert helped < 0.250


def test_one_key_as_a_whole_process() -> None:
    lake = sample.lake(400)
    key = pq.ParquetFile(min(lake.glob("*.parquet"))).read_row_group(1, columns=["id"])["id"][5000].as_py()
    sql = f"SELECT * FROM parquet_bloom_probe('{lake}/*.parquet', 'id', '{key}')"

    def run(code: str, *arguments: object) -> None:
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)

    ours, theirs = seconds(
        lambda: run("from parquet_bloom.__main__ import main; main()", "prune", lake, "-l", "-w", f"id = '{key}'"),
        lambda: run(f"import duckdb; duckdb.sql({sql!r}).fetchall()"),
        runs=11,
    )
    line("one key, 400 files, whole process", f"{ours:.2f} s", f"DuckDB {theirs:.2f} s", f"{ours / theirs:.2f}x")
    assert ours <= 1.2 * theirs
