"""Writes what the verbs did on every kind of table as a page: python report.py FOLDER_OF_RESULTS."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

VERBS = ("prune", "lookup", "index", "add --table")
ENGINES = {
    "Delta": "Delta 4.3.1 (delta-spark, Spark 4.1)",
    "Iceberg": "Iceberg 1.11.0 (Spark 4.1)",
    "Hudi": "Hudi 1.1.1 (Spark 3.5)",
    "Paimon 0.9": "Paimon 0.9.0 (Spark 3.5)",
    "Paimon 1.4": "Paimon 1.4.2 (Java)",
}

HEAD = """# Kinds of tables, and what the verbs do with them

Written by `.ci/tables`, which has the engines themselves write each kind of table, asks 100 random conditions and some
hundred keys of it as it is now and some of it as it was, and compares with the rows that the engine returns.
A row is lost where the engine returns it and no row group that we keep has it:
**{lost} of {asked} questions lost one.**

`prune`: conditions, row groups that were left out of all. `lookup`: keys, of which so many were proved to be nowhere.
`index`: both, with an index beside the table. `add --table`: files that were swapped; then the engine reads the same
rows, now and as of earlier states, and questions are asked again. *Kept*: nothing is left out, for the reason given.
For Paimon the last column is `paimon.attach_index`."""


class Notes:
    """The sentences that verbs gave, each once, below the tables."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def mark(self, sentence: str) -> str:
        """Return the mark of a sentence; names of files are left out of it."""
        plain = re.sub(r"(file:)?/\S+", "…", sentence).replace("|", "\\|").replace("\n", " ")
        if plain not in self.sentences:
            self.sentences.append(plain)
        return f" [^{self.sentences.index(plain) + 1}]"


def main(folder: Path) -> None:
    results = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    print(HEAD.format(lost=sum(r["lost"] for r in results), asked=f"{sum(r['asked'] for r in results):,}"))
    notes = Notes()
    for engine, title in ENGINES.items():
        ours = [result for result in results if result["engine"] == engine]
        kinds = list(dict.fromkeys(result["kind"] for result in sorted(ours, key=lambda r: r["made"])))
        if kinds:
            print(f"\n## {title}\n\n| table | {' | '.join(VERBS)} |\n|---|{'---|' * len(VERBS)}")
        for kind in kinds:
            of_kind = [result for result in ours if result["kind"] == kind]
            verbs = {result["verb"].replace("attach", "add --table"): result for result in of_kind}
            print(f"| {kind} | {' | '.join(_cell(verb, verbs, notes) for verb in VERBS)} |")
    print()
    for number, sentence in enumerate(notes.sentences, 1):
        print(f"[^{number}]: {sentence}")


def _cell(verb: str, verbs: dict[str, dict[str, Any]], notes: Notes) -> str:
    if verb not in verbs:
        return "-"
    result, after = verbs[verb], verbs.get(f"prune after {verb}")
    note = notes.mark(result["sentence"]) if result["sentence"] else ""
    lost = result["lost"] + (after["lost"] if after else 0)
    head = f"**{lost} LOST**, " if lost else ""
    if result["status"] in ("refused", "fails"):
        return f"{head}{result['status']}{note}"
    if result["status"] == "kept":
        return f"{head}{result['asked']} conditions, kept{note}"
    if verb == "lookup":
        return f"{head}{result['asked']:,} keys, {result['left_out']:,} nowhere{note}"
    if verb == "add --table":
        text = f"{result['asked']} files{note}" if result["asked"] != 1 else f"1 file{note}"
        if after:
            text += f", then {after['asked']} conditions, {after['left_out']:,} of {after['groups']:,} left out"
        return head + text
    whole = f"; {result['kept_whole']:,} times a file was kept{note}" if result["kept_whole"] else note
    return f"{head}{result['asked']:,} asked, {result['left_out']:,} of {result['groups']:,} left out{whole}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
