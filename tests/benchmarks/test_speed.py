"""The speed of building filters, of `add` and of starting, as ratios to pyarrow's and DuckDB's in the same run.

pytest tests/benchmarks -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import benchmark_files
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarking import OURS, Bench

import parquet_bloom
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import hash_array
from parquet_bloom.verbs.parallel import share_threads

pytestmark = pytest.mark.benchmark

FPP = 0.01
PROGRAM = "from parquet_bloom.__main__ import main; main()"


@pytest.fixture(scope="module")
def rows(bench: Bench) -> int:
    return bench.scaled(4_000_000)


@pytest.fixture(scope="module")
def ndv(rows: int) -> int:
    return rows // benchmark_files.ROW_GROUPS


@pytest.fixture(scope="module")
def events(rows: int) -> Path:
    return benchmark_files.events(rows)


# ---- hashing and inserting ---------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("column", "what", "at_most", "at_most_threaded"),
    [("number", "integer", 1 / 2, 1 / 2), ("id", "id", 1 / 1.3, 1 / 2)],
)
def test_hashing_and_inserting_beat_pyarrow(
    bench: Bench, events: Path, rows: int, ndv: int, column: str, what: str, at_most: float, at_most_threaded: float
) -> None:
    arrays = row_groups(events, column)
    physical_arrays = [physical(a) for a in arrays]
    (source,) = find(str(events))
    (leaf,) = [leaf for leaf in run(source, read_footer(source.size)).leaves if leaf.name == column]
    _, threads = share_threads(None, 1)

    def build(array: pa.Array) -> None:
        bloom = SplitBlockBloomFilter.sized_for(ndv, FPP)
        for at in range(0, len(array), 128 * 1024):
            bloom.insert(hash_array(leaf, array.slice(at, 128 * 1024)))

    def in_one_thread() -> None:
        for array in physical_arrays:
            build(array)

    def in_threads() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(build, physical_arrays))

    plain, filtered, single, threaded = (
        taken.each(rows)
        for taken in bench.measure(
            {
                "plain": lambda: write(arrays, None),
                "filtered": lambda: write(arrays, {"c": {"ndv": ndv, "fpp": FPP}}),
                "single": in_one_thread,
                "threaded": in_threads,
            }
        ).values()
    )
    theirs, work = filtered.minus(plain), f"hash and insert one {what}"
    bench.row("add", work, "one thread", single, "what a filter costs pyarrow", theirs)
    bench.row("add", work, f"{threads} threads", threaded, "what a filter costs pyarrow", theirs)
    bench.expect(single.ratio(theirs), at_most=at_most)
    bench.expect(threaded.ratio(theirs), at_most=at_most_threaded)


# ---- add ---------------------------------------------------------------------------------


def rewrite(path: Path, target: Path, ndv: int) -> None:
    """Reads the file and writes it with filters, as one would without this package, and as durably."""
    options = {"ndv": ndv, "fpp": FPP}
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
            writer.write_table(file.read_row_group(i), ndv)
    sync(target)


def sync(path: Path) -> None:
    """Waits until the file is on the disk, as `add` does."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@pytest.mark.parametrize(("process", "at_most"), [(False, 1 / 6), (True, 1 / 3)], ids=["called", "process"])
def test_add_beats_reading_and_rewriting(
    bench: Bench, events: Path, ndv: int, tmp_path: Path, process: bool, at_most: float
) -> None:
    target = tmp_path / "target.parquet"

    def clean() -> None:  # nobody pays for what another left to be written
        target.unlink(missing_ok=True)
        os.sync()

    def copied() -> None:
        shutil.copyfile(events, target)
        sync(target)

    def added() -> None:
        parquet_bloom.add(events, ["id", "number"], output=target)

    def as_a_process() -> None:
        command = [sys.executable, "-c", PROGRAM, "add", events, "-c", "id", "-c", "number", "-o", target]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    ours = "whole process" if process else OURS
    taken = bench.compare(
        "add",
        f"`add` to two columns, {events.stat().st_size / 1e6:.0f} MB",
        {ours: as_a_process if process else added},
        {"pyarrow reads and writes": lambda: rewrite(events, target, ndv)},
        turns=5,
        before=clean,
    )
    # Copying and syncing alone take about half of our time.
    if not process:
        bench.compare("add", "the same file", {"only copied and synced": copied}, {}, turns=5, before=clean)
    bench.expect(taken[ours].ratio(taken["pyarrow reads and writes"]), at_most=at_most)


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
def test_peak_memory_of_add(bench: Bench, events: Path, tmp_path: Path) -> None:
    many = peak(events, tmp_path / "many.parquet", ["id", "number"])
    bench.figure("memory", f"`add` to two columns, {events.stat().st_size / 1e6:.0f} MB in 8 row groups", many, "bytes")
    ids = bench.scaled(12_000_000)
    one = peak(benchmark_files.one_row_group(ids), tmp_path / "one.parquet", ["id"])
    (bloom,) = parquet_bloom.inspect(tmp_path / "one.parquet").rows
    work = f"`add` to one row group of {ids:,} ids; its filter has {bloom.num_bytes / 1e6:.0f} MB"
    bench.figure("memory", work, one, "bytes")
    bench.expect(many, at_most=200 * 2**20)
    bench.expect(one, at_most=200 * 2**20 + bloom.num_bytes)


# ---- starting ----------------------------------------------------------------------------


def test_starting_is_quick(bench: Bench) -> None:
    program = Path(sysconfig.get_path("scripts"), "parquet-bloom")

    def python(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    def help_() -> None:
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)

    taken = bench.compare(
        "start",
        "starting, as a whole process",
        {"import parquet_bloom": lambda: python("import parquet_bloom"), "parquet-bloom --help": help_},
        {"python": lambda: python("pass")},
        turns=11,
    )
    best = {name: min(one.seconds) for name, one in taken.items()}
    bench.expect(best["import parquet_bloom"] - best["python"], at_most=0.080)
    bench.expect(best["parquet-bloom --help"], at_most=0.250)


def test_one_key_as_a_whole_process(bench: Bench, lake: Path, present: str) -> None:
    sql = f"SELECT * FROM parquet_bloom_probe('{lake}/*.parquet', 'id', '{present}')"

    def run(code: str, *arguments: object) -> None:
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)

    ours, theirs = "`prune`, whole process", "Python with DuckDB's parquet_bloom_probe"
    taken = bench.compare(
        "key",
        f"one key, {bench.scaled(400):,} files",
        {ours: lambda: run(PROGRAM, "prune", lake, "-l", "-w", f"id = '{present}'")},
        {theirs: lambda: run(f"import duckdb; duckdb.sql({sql!r}).fetchall()")},
        turns=11,
    )
    bench.expect(taken[ours].ratio(taken[theirs]), at_most=1.2)
