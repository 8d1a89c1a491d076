"""Runs the benchmarks and shows what they took in a table.

python -m tests.benchmarks                      # all of them; writes the figures that docs/pages/speed.md shows
python -m tests.benchmarks pruning --repeat 3   # some of them; writes nothing
python -m tests.benchmarks store --update       # some of them; takes their new figures into the old ones
python -m tests.benchmarks --quick              # a tenth of the data, to see whether they run
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

import benchmark_files  # noqa: E402
from benchmarking import Bench, Figure, Row, figure_text, ratio_text, time_text  # noqa: E402

from tests.benchmarks import machine  # noqa: E402


class Plugin:
    """Hands the tests the one `Bench` of this run, and notes what failed or was skipped."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.undone: dict[str, str] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self._bench, "bench")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.undone[report.nodeid.partition("::")[2]] = report.outcome


def main() -> int:
    options = _parser().parse_args()
    bench = Bench(repeat=options.repeat, is_quick=options.quick)
    plugin, load = Plugin(bench), machine.load()
    chosen = ["-k", " or ".join(options.names)] if options.names else []
    fixed = ["-m", "benchmark", "-n0", "-s", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    code = pytest.main([str(Path(__file__).parent), *fixed, *chosen], plugins=[plugin])
    if not bench.rows and not bench.figures:
        return int(code)
    print(table(bench.rows, bench.figures))
    new = told(bench, plugin.undone, [load, machine.load()])
    if options.json:
        write(options.json, new)
    if options.update or not (options.names or options.quick or options.repeat):
        write(FIGURES, merged(json.loads(FIGURES.read_text("utf-8")), new) if options.update else new)
        subprocess.run([sys.executable, ROOT / "docs" / "write_speed.py"], check=True)
    return int(code)


FIGURES = ROOT / "docs" / "pages" / "benchmarks.json"


def write(path: Path, figures: dict[str, Any]) -> None:
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"wrote {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Run benchmarks side by side.")
    parser.add_argument("names", nargs="*", help="parts of the names of tests or files, such as `pruning`")
    parser.add_argument("--repeat", type=int, metavar="N", help="measure each N times")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, at most two turns, no comparison")
    parser.add_argument("--update", action="store_true", help="write what is measured into docs/pages/benchmarks.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    return parser


def told(bench: Bench, undone: dict[str, str], load: list[float]) -> dict[str, Any]:
    """Returns all that the page on speed is made of."""
    return {
        "machine": machine.machine(benchmark_files.folder()),
        "versions": machine.versions(),
        "runs": [
            {
                "date": machine.today(),
                "commit": machine.commit(ROOT),
                "load": load,
                "other_work_ran": load[0] > machine.BUSY,
                "undone": undone,
            }
        ],
        "rows": [asdict(row) for row in bench.rows],
        "figures": [asdict(figure) for figure in bench.figures],
    }


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Returns the new figures, and the old ones of what was not measured again."""
    both = {**new, "runs": old["runs"] + new["runs"]}
    for kind, names in (("rows", ("group", "work", "ours", "beside")), ("figures", ("group", "work", "unit"))):
        rows = {tuple(row[name] for name in names): row for row in old[kind] + new[kind]}
        both[kind] = list(rows.values())
    return both


def table(rows: list[Row], figures: list[Figure]) -> str:
    """Returns a line for each row, in the order in which they were measured."""
    lines = [("work", "parquet_bloom", "", "beside it", "", "ratio", "of processor time")]
    for row in rows:
        theirs = time_text(row.their_seconds) if row.beside else ""
        ratios = ("" if ratio is None else ratio_text(ratio) for ratio in (row.ratio, row.processor_ratio))
        lines.append((row.work, row.ours, time_text(row.seconds), row.beside or "", theirs, *ratios))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]
    shown += [f"{figure.work}: {figure_text(figure.value, figure.unit)}" for figure in figures]
    return "\n".join(["", *shown, ""])


if __name__ == "__main__":
    sys.exit(main())
