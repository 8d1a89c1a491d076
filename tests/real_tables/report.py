"""Writes what the verbs did on every kind of table as a page: python report.py FOLDER_OF_RESULTS."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

VERBS = ("prune", "lookup", "find", "spark.read", "index", "add --table")
ENGINES = {
    "Delta": "Delta 4.3.1 (delta-spark, Spark 4.1)",
    "Iceberg": "Iceberg 1.11.0 (Spark 4.1)",
    "Hudi": "Hudi 1.1.1 (Spark 3.5)",
    "Hudi 1.2": "Hudi 1.2.0 (Spark 3.5)",
    "Hudi 0.15": "Hudi 0.15.0 (Spark 3.5)",
    "Paimon 0.9": "Paimon 0.9.0 (Spark 3.5)",
    "Paimon 1.4": "Paimon 1.4.2 (Java)",
    "Streaming": "Sinks of structured streaming (Spark 4.1)",
}

CONDITIONS = os.environ.get("PARQUET_BLOOM_CONDITIONS", "100")  # as in asking.py

HEAD = """# Tables tried

`.ci/tables` lets each engine write tables of every kind. It asks {conditions} random conditions and some hundred
keys of each table, of its current and of its earlier states, and compares our answers with the rows that the engine
returns.

**{lost} of {asked} questions lost a row**: in all others, every row that the engine returned was in a row
group that we kept.

| column | what it shows |
|---|---|
| prune | conditions, and how many row groups they pruned, of all that they were evaluated for |
| lookup | keys, and how many were proved to be absent |
| find | conditions, and how many rows were not found because their file was an error |
| spark.read | conditions, with `spark.read` of parquet_bloom |
| index | prune and lookup, with an [index](indexing.md) beside the table |
| add --table | files that were swapped; then conditions are asked again. For Paimon this is `paimon.attach_index` |

After a swap the engine must read the same rows as before, now and as of earlier states. The notes give the reasons for
what was refused or not pruned."""


class Notes:
    """The sentences that verbs gave, each once, below the tables."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def mark(self, sentence: str) -> str:
        """Return the mark of a sentence; names of files are left out of it."""
        plain = re.sub(r"(file:)?/\S+", "…", sentence).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
        if plain not in self.sentences:
            self.sentences.append(plain)
        return f" [^{self.sentences.index(plain) + 1}]"


def main(folder: Path) -> None:
    results = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    print(
        HEAD.format(
            lost=sum(r["lost"] for r in results), asked=f"{sum(r['asked'] for r in results):,}", conditions=CONDITIONS
        )
    )
    notes = Notes()
    for engine, title in ENGINES.items():
        ours = [result for result in results if result["engine"] == engine]
        kinds = list(dict.fromkeys(result["kind"] for result in sorted(ours, key=lambda r: r["made"])))
        if kinds:
            print(f"\n## {title}\n\n| table | {' | '.join(VERBS)} |\n|---|{'---|' * len(VERBS)}")
        for kind in kinds:
            of_kind = [result for result in ours if result["kind"] == kind]
            verbs = {re.sub(r"\b(attach|add)$", "add --table", result["verb"]): result for result in of_kind}
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
        return f"{head}{result['asked']} conditions, not pruned{note}"
    if verb == "lookup":
        return f"{head}{result['asked']:,} keys, {result['left_out']:,} absent{note}"
    if verb == "add --table":
        text = f"{result['asked']} files{note}" if result["asked"] != 1 else f"1 file{note}"
        if after:
            text += f", then {after['asked']} conditions, {after['left_out']:,} of {after['groups']:,} pruned"
        return head + text
    if verb in ("find", "spark.read"):
        missing = f", {result['left_out']:,} of {result['groups']:,} rows in files that were errors"
        missing = f"{missing if result['left_out'] else ''}{note}"
        return f"{head}{result['asked']:,} conditions{missing}"
    whole = f"; {result['not_pruned']:,} times a file was not pruned{note}" if result["not_pruned"] else note
    return f"{head}{result['asked']:,} asked, {result['left_out']:,} of {result['groups']:,} pruned{whole}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
