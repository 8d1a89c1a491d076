"""Prints how long it takes to import the package and to show the help; exits with 1 if it is far too long."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

IMPORT = "import time; t = time.perf_counter(); import parquet_bloom; print(1000 * (time.perf_counter() - t))"
FAR_TOO_LONG = 3  # times the limit: other work on the machine is no failure


def importing() -> float:
    said = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    return float(said.stdout)


def helping() -> float:
    start = time.perf_counter()
    subprocess.run(["parquet-bloom", "--help"], check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - start)


def median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(10))


def main() -> int:
    figures = {"import parquet_bloom": (median(importing), 80), "parquet-bloom --help": (median(helping), 250)}
    for what, (taken, limit) in figures.items():
        print(f"{what}: {taken:.0f} ms (limit {limit} ms)")
    return int(any(taken > FAR_TOO_LONG * limit for taken, limit in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
