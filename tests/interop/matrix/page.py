"""The page of the matrix, and the JSON that it is made of.

PYTHONPATH=tests:tests/support python -m interop.matrix.page FOLDER_OF_RESULTS ENGINE...
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from interop.matrix import releases_page
from interop.matrix.about import ENGINES, LIBRARIES, LONGEST

PAGES = Path(__file__).parents[3] / "docs" / "pages"
PAGE, DATA = PAGES / "interop.md", PAGES / "interop.json"

Matrix = dict[str, Any]

HEAD = """# Interop

Which engines use our filters, and whether we can use theirs: for every type of column, tried with each engine.

{summary}

Every engine is seen to use a filter by the rows that it finds with right and with cleared filters. Where it counts what
it reads, the count is in the JSON, too.

| engine | version | from | what was seen | how it was told to write filters |
|---|---|---|---|---|
"""

SUMMARY = (
    "`.ci/interop FOLDER` makes this page again, with the versions below. [The JSON behind it](interop.json) has what "
    "was seen for each cell. In **{lost} of {cells}** cells a row was lost because of a filter that `add` wrote or "
    "that we used, with {versions}. Others lose rows: see [which release loses what](#which-release-loses-what)."
)

READS = """
## Our filters, read by them

Each engine looks for one value with `=`, and for two with `IN`: the value that it looked for before, and one that is
not there. The column has 400 values in 4 row groups. It does so four times: in a file without filters, with the filters
of [`add`](add.md), with filters that hold every value, also where `add` refuses to write any, and with filters whose
bits were all cleared.

| | |
|---|---|
| yes | it prunes by the filter, for `=` and for `IN`: with the cleared bits the row is not found |
| no | it does not look at the filter, for `=` and for `IN`: with the cleared bits the row is found |
| **loses rows** | with a filter that is right by the format, the row is not found. `add` refuses such columns |
| **fails** | with a filter that is right by the format, it ends with an error. `add` refuses such columns |
| cannot | it fails, whatever the filters, or it has no such type or condition: see the note |
| not tried | our program does not ask, though the engine might answer: see the note |

### Engines that prune

An element of a list or a map is found by its position or its key, or by the engine's function for "contains".
"""

WIDENED = """
### Columns of which a table has another type

A table may have widened a column since the file was written, and most tables have no unsigned integers. Each engine is
asked in files with statistics, and in files without; the table has the worse answer. Where rows are lost,
[`add --table`](add.md) gives such a column of a file no filter; `add` without a table cannot know.
"""

LIBRARY = """
### Libraries that you ask

These read a filter and check a value when a program asks them, one value after the other.
"""

WRITES = """
## Their filters, read by us

Each engine writes 400 values with filters. Then [`verify`](verify.md) compares the filters with the values, and
[`probe`](probe.md) is asked for each value, and for others that are not there. Of these, one counts as pruned if the
filters of all row groups exclude it.

| | |
|---|---|
| yes | every filter is right, every value is found, and values that are not there are pruned |
| not used | every value is found, and nothing is pruned, for the reason in the note |
| no filter | it wrote none for this type |
| - | it cannot write this type, or writes it as another: the JSON has its error |
"""


OTHER_NAMES = {"UNKNOWN": "UNKNOWN, which parquet-java writes for INTERVAL"}


# ---- the JSON ------------------------------------------------------------------------------


def collect(results: Path, measured: Collection[str], before: Matrix) -> Matrix:
    """Returns what the measured engines did, and what all others did before, in the order of the tables."""
    found = {}
    for name, about in ENGINES.items():
        if name not in measured:
            found[name] = before[name]
            continue
        result = json.loads((results / f"{name}.json").read_text("utf-8"))
        how = {f"how it {verb}": about[verb] for verb in ("reads", "writes") if verb in about}
        found[name] = {"version": result.pop("version"), "package": about["package"], **how}
        found[name] |= {key: value for key, value in result.items() if value}
    return found


def as_json(matrix: Matrix) -> str:
    """Returns the matrix as JSON with a line for each cell."""

    def lines(value: Any, depth: int) -> Iterator[str]:
        if depth == 3 or not isinstance(value, dict):
            yield json.dumps(value, ensure_ascii=False)
            return
        indent = " " * (depth + 1)
        inner = [f"{indent}{json.dumps(key)}: " + "\n".join(lines(each, depth + 1)) for key, each in value.items()]
        yield "{\n" + ",\n".join(inner) + "\n" + indent[1:] + "}"

    return "\n".join(lines(matrix, 0)) + "\n"


# ---- the page ------------------------------------------------------------------------------


class Notes:
    """Sentences that cells refer to, each once, below the tables."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def mark(self, sentence: str) -> str:
        plain = sentence.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
        if plain not in self.sentences:
            self.sentences.append(plain)
        return f" [^{self.sentences.index(plain) + 1}]"


def render(matrix: Matrix, releases: releases_page.Releases) -> str:
    """Returns the page of a matrix, and of what older releases lose."""
    notes = Notes()
    cells = [
        cell for engine in matrix.values() for verb in ("reads", "writes") for cell in engine.get(verb, {}).values()
    ]
    lost = sum("LOST" in (cell["answer"], cell.get("IN", cell)["answer"]) for cell in cells)
    versions = ", ".join(f"{name} {engine['version'].split()[-1].rstrip(')')}" for name, engine in matrix.items())
    summary = SUMMARY.format(lost=lost, cells=f"{len(cells):,}", versions=versions)
    parts = [HEAD.format(summary=fill(summary, 120, break_on_hyphens=False))]
    for name, engine in matrix.items():
        told = [engine.get(f"how it {verb}", "-") for verb in ("reads", "writes")]
        parts.append(f"| {name} | {engine['version']} | {engine['package']} | {' | '.join(told)} |\n")
    readers = [name for name, engine in matrix.items() if "reads" in engine]
    parts += [READS, table(matrix, [name for name in readers if name not in LIBRARIES], "reads", notes)]
    widening = [name for name, engine in matrix.items() if "reads widened" in engine]
    parts += [WIDENED, table(matrix, widening, "reads widened", notes)]
    parts += [LIBRARY, table(matrix, [name for name in readers if name in LIBRARIES], "reads", notes)]
    parts.append(releases_page.section(releases))
    parts += [WRITES, table(matrix, [name for name, engine in matrix.items() if "writes" in engine], "writes", notes)]
    parts.append("\n")
    parts += [f"[^{number}]: {sentence}\n" for number, sentence in enumerate(notes.sentences, 1)]
    return "".join(parts)


def table(matrix: Matrix, names: list[str], verb: str, notes: Notes) -> str:
    """Returns a table with a column for each engine; types that follow each other with the same answers are one row."""
    types = list(dict.fromkeys(kind for name in names for kind in matrix[name][verb]))
    order = list(matrix["arrow-rs"].get(verb, ()))  # which has all types
    types.sort(key=lambda kind: order.index(kind) if kind in order else len(order))
    rows = [(kind, [cell(matrix[name][verb].get(kind), notes) for name in names]) for kind in types]
    lines = [f"\n| column | {' | '.join(names)} |\n|---|{'---|' * len(names)}\n"]
    for cells, of_one_kind in groupby(rows, key=lambda row: row[1]):
        kinds = [kind for kind, _ in of_one_kind]
        title = (
            ", ".join(OTHER_NAMES.get(kind, kind) for kind in kinds) if len(kinds) < len(types) else "every type above"
        )
        lines.append(f"| {title} | {' | '.join(cells)} |\n")
    longest = [matrix[name].get("longest IN") for name in names]
    if verb == "reads" and any(longest):
        sizes = [f"{size} or more" if size == LONGEST else str(size or "-") for size in longest]
        lines.append(f"| *longest `IN` that prunes, in values* | {' | '.join(sizes)} |\n")
    if verb == "writes":
        pruned = [pruned_of(matrix[name][verb].values()) for name in names]
        lines.append(f"| *pruned, of the values that are not there* | {' | '.join(pruned)} |\n")
    return "".join(lines)


def pruned_of(cells: Iterable[dict[str, Any]]) -> str:
    """Returns how many of the absent values were pruned, where filters are used."""
    counts = [observed["pruned"] for observed in cells if observed["answer"] == "yes"]
    return f"{sum(pruned for pruned, _ in counts) / sum(asked for _, asked in counts):.1%}"


def cell(observed: dict[str, Any] | None, notes: Notes) -> str:
    """Returns what a cell says: once, where `=` and `IN` have the same answer."""
    if not observed:
        return "-"
    if observed["answer"] == "cannot write":
        return "-"
    several = observed.get("IN", observed)
    if several["answer"] == observed["answer"]:
        return answered(observed, notes)
    return f"`=`: {answered(observed, notes)}; `IN`: {answered(several, notes)}"


def answered(observed: dict[str, Any], notes: Notes) -> str:
    answer = observed["answer"]
    sentences = [observed.get("error"), observed.get("reason")]
    if observed.get("verify", "ok") != "ok":
        sentences.append(f"`verify`: {observed['verify']}")
    note = "".join(notes.mark(shortened(sentence)) for sentence in sentences if sentence)
    return f"**{answer}**{note}" if answer in ("LOST", "loses rows", "fails") else f"{answer}{note}"


def shortened(error: str) -> str:
    """Returns the part of an error that does not depend on the type."""
    if code := re.match(r"\[(\w+)\]", error):
        return f"`{code[1]}`"
    error = re.sub(r"^\w+(Exception|Error): |^Code: \d+\. DB::Exception: |^row group \d+, column 'v': ", "", error)
    return re.split(r"\. | \(got|ErrString|: b'|: 60| of len|: In scope", error)[0].rstrip('(.:"').lstrip('"')


def differences(before: Matrix, after: Matrix) -> Iterator[str]:
    """Returns a line for each cell that differs: the engine, the direction, the type, and what was and is seen."""

    def flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        if not isinstance(value, dict):
            yield path, value
            return
        for key, inner in value.items():
            yield from flat(inner, (*path, key))

    old, new = dict(flat(before)), dict(flat(after))
    cells: dict[tuple[str, ...], list[str]] = {}
    for path in dict.fromkeys([*old, *new]):
        was, now = (matrix.get(path, "nothing") for matrix in (old, new))
        if was != now:
            cells.setdefault(path[:3], []).append(" ".join((*path[3:], f"{was} -> {now}")))
    for path, changes in cells.items():
        yield f"{', '.join(path)}: {'; '.join(changes)}"


def main(results: Path, *measured: str) -> int:
    """Writes the page, in which engines that were not measured stay as they were; returns 1 if anything differs."""
    before, page = json.loads(committed(DATA) or "{}"), committed(PAGE)
    matrix = collect(results, measured, before)
    releases = json.loads(releases_page.DATA.read_text("utf-8"))
    DATA.write_text(as_json(matrix), "utf-8")
    PAGE.write_text(render(matrix, releases), "utf-8")
    lines = list(differences(before, matrix))
    for line in lines:
        print(line)
    if not lines and page != render(matrix, releases):
        print(f"{PAGE.name} is not the page of the JSON")
    differs = bool(lines) or page != render(matrix, releases)
    print("It differs from what is committed." if differs else "All is as it is committed.")
    return differs


def committed(file: Path) -> str:
    """Returns a file as it is committed, staged or not."""
    name = f"HEAD:./{file.name}"
    shown = subprocess.run(["git", "show", name], cwd=file.parent, capture_output=True, text=True, check=False)
    return shown.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
