"""Writes the tables below `<!-- speed: GROUP -->` in docs/pages/speed.md, and its curves, from benchmarks.json.

`python -m tests.benchmarks` measures, writes that file, and runs this: python docs/write_speed.py
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

from benchmarking import figure_text, ratio_text, time_text  # noqa: E402

PAGES = ROOT / "docs" / "pages"
PAGE, FIGURES = PAGES / "speed.md", PAGES / "benchmarks.json"
BLOCK = re.compile(r"(<!-- speed: (\w+) -->\n\n)(?:\|.*\n)*")
CURVES = {
    "files": ("files", "One absent key, with the number of files"),
    "keys": ("keys", "Many random keys"),
    "footers": ("column chunks", "One file, with the size of its footer"),
    "upsert": ("keys", "Keys before an upsert"),
}
COLORS = "#3b82c4", "#3f9c6b", "#8e5bb5", "#d98c1f", "#d64545"


def with_tables(page: str, told: dict[str, Any]) -> str:
    """Return a page's text with every table as the figures have it."""
    return BLOCK.sub(lambda block: f"{block[1]}{_block(block[2], told)}\n", page)


def _block(group: str, told: dict[str, Any]) -> str:
    if group == "machine":
        return _machine(told)
    if rows := [row for row in told["rows"] if row["group"] == group]:
        return _table(rows)
    figures = [figure for figure in told["figures"] if figure["group"] == group.removesuffix("_figures")]
    if not figures:
        return "| not measured |\n|---|"
    lines = [f"| {figure['work']} | {figure_text(figure['value'], figure['unit'])} |" for figure in figures]
    return "\n".join(["| work | |", "|---|---|", *lines])


def _machine(told: dict[str, Any]) -> str:
    machine, runs = told["machine"], told["runs"]
    load = [one for run in runs for one in run["load"]]
    busy = "other work ran beside it" if any(run["other_work_ran"] for run in runs) else "nothing else ran beside it"
    lines = {
        "measured": ", ".join(dict.fromkeys(f"{run['date']}, commit `{run['commit']}`" for run in runs)),
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}; {machine['system']}",
        "disk": machine["disk"],
        "load": f"{busy}; {min(load)} to {max(load)} processes ran or waited",
        "programs": ", ".join(f"{name} {version}" for name, version in told["versions"].items()),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {said} |" for name, said in lines.items())])


def _table(rows: list[dict[str, Any]]) -> str:
    compared = any(row["beside"] for row in rows)
    has_processor = any(row["processor_ratio"] is not None for row in rows)
    names = ["work", "parquet_bloom" if compared else "", *["beside it", "ratio"][: 2 * compared]]
    lines = [names + ["processor time"] * has_processor]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        cells = [row["work"], f"{row['ours']}: {time_text(row['seconds'])}"]
        if compared:
            theirs = f"{row['beside']}: {time_text(row['their_seconds'])}" if row["beside"] else ""
            cells += [theirs, _ratio(row["ratio"])]
        lines.append(cells + [_ratio(row["processor_ratio"])] * has_processor)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"**{ratio_text(ratio)}**" if ratio > 1 else ratio_text(ratio)


# ---- curves ------------------------------------------------------------------------------


def points(group: str, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a curve shows: a program, where it is, and its seconds."""
    found = {point: None for row in told["rows"] if row["group"] == group for point in _of_row(row)}
    return [{"program": program.replace("`", ""), "x": x, "seconds": seconds} for program, x, seconds in found]


def _of_row(row: dict[str, Any]) -> Iterator[tuple[str, int, float]]:
    yield row["ours"], row["x"], row["seconds"]
    if row["beside"]:
        yield row["beside"], row["x"], row["their_seconds"]


def mark(group: str, told: dict[str, Any]) -> str:
    """Return the line of a picture that tells which figures it was drawn from."""
    return f"<!-- of {hashlib.sha256(json.dumps(points(group, told)).encode()).hexdigest()[:16]} -->"


def draw(group: str, told: dict[str, Any]) -> str:
    """Return a curve as SVG: time over size, both in powers of ten."""
    import vl_convert

    unit, title = CURVES[group]
    shown = points(group, told)
    programs = list(dict.fromkeys(point["program"] for point in shown))
    xs, times = [point["x"] for point in shown], [point["seconds"] for point in shown]
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": title,
        "background": "white",
        "padding": 8,
        "width": 420,
        "height": 200,
        "data": {"values": shown},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", **_in_tens(xs, unit, ",")},
            "y": {"field": "seconds", "type": "quantitative", "aggregate": "mean", **_in_tens(times, "seconds", "~g")},
            "color": {
                "field": "program",
                "type": "nominal",
                "title": None,
                "scale": {"domain": programs, "range": COLORS[: len(programs)]},
            },
        },
        "config": {"font": "system-ui, sans-serif", "legend": {"labelLimit": 260}, "axis": {"gridOpacity": 0.4}},
    }
    return f"{vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])}\n{mark(group, told)}\n"


def _in_tens(values: list[float], title: str, number: str) -> dict[str, Any]:
    """Return an axis in powers of ten, with no lines between them."""
    tens = [10.0**power for power in range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)]
    return {
        "title": title,
        "scale": {"type": "log", "domain": [tens[0], tens[-1]], "nice": False},
        "axis": {"values": tens, "format": number},
    }


def main() -> None:
    """Write the tables, and draw the curves."""
    told = json.loads(FIGURES.read_text("utf-8"))
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), told), "utf-8")
    for group in CURVES:
        Path(PAGES, f"speed_{group}.svg").write_text(draw(group, told), "utf-8")


if __name__ == "__main__":
    main()
