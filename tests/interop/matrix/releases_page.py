"""Which release of an engine loses what: the JSON of `releases.py`, and the part of the page that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[3] / "docs" / "pages" / "interop_releases.json"

Releases = dict[str, Any]
"""By engine: when it was measured, and its releases, each with the cells that are not "ok"."""

HEAD = """
## Which release loses what

The filters that `add` writes are right, and some releases lose rows because of them: a bug of theirs sleeps until a
file has filters. `.ci/interop FOLDER releases` measured it on {measured}, with `accept_hazards`: the last release of
each minor one since {since}, and all between two that do not lose the same. Each looks for the same values in a file
without filters and in one with ours: by `=`, by `IN` with a value that is not there, and by a join with a table of one
row. The files have one row group of 2,000 rows, or 1,000 row groups (for strings also 100, 300 and 500) of two rows
each, and every fifth value is NULL. ClickHouse also reads the column as one that cannot be NULL, with its default
settings, and looks for what NULL becomes (which INT8 and UINT8 hold in their one row group); deltalake also deletes and
updates rows of a Delta table, by `=`. Columns that `add` refuses are not asked for.

[The JSON behind it](interop_releases.json) has what differs for each release. A release **loses** rows where it finds
fewer with filters, or deletes or updates fewer; it **fails** if only the file with filters gives an error. Where any of
these loses rows, [`add`](add.md) gives the column no filter or says so, unless it knows who reads the files.

| engine | releases | of | cells | cells that lose or fail | cells it cannot answer, without filters either |
|---|---|---|---|---|---|
"""

LOST = """
| engine | releases | of | column | row groups | what loses rows |
|---|---|---|---|---|---|
"""

NAMES = {"default": "NULL read as a default"}

LEFT_OUT = """
| not tried | why |
|---|---|
"""


def row_groups(kind: str) -> tuple[int, ...]:
    """Returns how many row groups the files of a kind have: one of all rows, or others of two rows each."""
    return (1, 100, 300, 500, 1000) if kind in ("STRING", "BYTE_ARRAY") else (1, 1000)


def flat(cells: Mapping[str, Any]) -> Iterator[tuple[str, int, str, Any]]:
    """Yields kind, number of row groups, question and answer."""
    for kind, sizes in cells.items():
        for groups, answers in sizes.items():
            for question, answer in answers.items():
                yield kind, int(groups), question, answer


def compact(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a release as it stands in the JSON: how many cells it has, and those that are not "ok"."""
    release = {key: value for key, value in found.items() if key not in ("version", "cells")}
    if "cells" not in found:
        return release
    cells: dict[str, Any] = {}
    for kind, groups, question, answer in flat(found["cells"]):
        if answer["answer"] != "ok":
            text = answer["answer"]
            if text != "cannot":
                text = f"{text} {answer['times']}: {answer['said']}"
            cells.setdefault(kind, {}).setdefault(str(groups), {})[question] = text
    return {**release, "asked": sum(1 for _ in flat(found["cells"])), "cells": cells}


def lost(release: Mapping[str, Any]) -> dict[tuple[str, int, str], str]:
    """Returns the cells of a release in which rows were lost, or an error came, because of our filters."""
    cells = flat(release.get("cells", {}))
    return {(kind, groups, question): answer for kind, groups, question, answer in cells if answer != "cannot"}


def losing(releases: Releases) -> set[tuple[str, str, str, int, str]]:
    """Returns the cells that lose rows because of our filters: engine, version, kind, row groups and question."""
    return {
        (engine, version, kind, groups, question)
        for engine, about in releases.items()
        for version, release in about["releases"].items()
        for kind, groups, question in lost(release)
    }


def as_json(releases: Releases) -> str:
    """Returns the JSON with a line for each release."""
    parts = []
    for engine, about in releases.items():
        lines = [f"{json.dumps(version)}: {json.dumps(release)}" for version, release in about["releases"].items()]
        text = ",\n".join(f"   {line}" for line in lines)
        measured = json.dumps({"measured": about["measured"], "since": about["since"]})[1:-1]
        parts.append(f' {json.dumps(engine)}: {{{measured}, "releases": {{\n{text}\n }}}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


# ---- the page ------------------------------------------------------------------------------


def section(releases: Releases) -> str:
    """Returns the part of the page."""
    days = {key: sorted({about[key] for about in releases.values()}) for key in ("measured", "since")}
    parts = [HEAD.format(measured=" and ".join(days["measured"]), since=days["since"][0])]
    for engine, about in releases.items():
        tried = {version: release for version, release in about["releases"].items() if "cells" in release}
        cells = sum(release["asked"] for release in tried.values())
        losses = sum(len(lost(release)) for release in tried.values())
        cannot = sum(1 for release in tried.values() for _ in flat(release["cells"])) - losses
        count = f"{losses:,}" if not losses else f"**{losses:,}**"
        parts.append(f"| {engine} | {len(tried)} | {span(tried)} | {cells:,} | {count} | {cannot:,} |\n")
    parts.append(LOST)
    for engine, about in releases.items():
        tried = {version: release for version, release in about["releases"].items() if "cells" in release}
        for losses, same in groupby(tried, key=lambda version: lost(tried[version]).keys()):
            versions = {version: tried[version] for version in same}
            for kinds, groups, questions in rows(losses):
                parts.append(f"| {engine} | {' to '.join(ends(versions))} | {span(versions)} ")
                parts.append(f"| {', '.join(kinds)} | {groups} | {questions} |\n")
    left_out: dict[tuple[str, str], list[str]] = {}
    for engine, about in releases.items():
        for version, release in about["releases"].items():
            if "not tried" in release:
                left_out.setdefault((engine, release["not tried"]), []).append(version)
    lines = [f"| {engine} {', '.join(versions)} | {reason} |\n" for (engine, reason), versions in left_out.items()]
    return "".join([*parts, *([LEFT_OUT] if lines else []), *lines])


def ends(items: Mapping[str, Any]) -> list[str]:
    """Returns the first and the last, or the only one."""
    first, *_, last = [*items, *items]
    return list(dict.fromkeys((first, last)))


def span(releases: Mapping[str, Any]) -> str:
    """Returns the dates of the first and the last release."""
    dates = sorted(release["date"] for release in releases.values())
    return " to ".join(dict.fromkeys((dates[0], dates[-1])))


def rows(losses: Iterable[tuple[str, int, str]]) -> Iterator[tuple[list[str], str, str]]:
    """Yields the kinds of column that lose alike, their numbers of row groups, and the questions."""
    sizes: dict[tuple[str, str], list[int]] = {}
    for kind, groups, question in losses:
        sizes.setdefault((kind, question), []).append(groups)
    questions: dict[tuple[str, str], list[str]] = {}
    for (kind, question), asked in sizes.items():
        questions.setdefault((kind, sizes_of(kind, asked)), []).append(NAMES.get(question, f"`{question}`"))
    alike: dict[tuple[str, str], list[str]] = {}
    for (kind, some), named in questions.items():
        alike.setdefault((some, ", ".join(named)), []).append(kind)
    for (some, named_alike), kinds in alike.items():
        yield kinds, some, named_alike


def sizes_of(kind: str, lose: list[int]) -> str:
    """Returns which numbers of row groups lose rows, of those that are asked."""
    asked = row_groups(kind)
    if lose == list(asked):
        return "any"
    if lose == list(asked[-len(lose) :]):
        return f"from {lose[0]:,}; not {asked[-len(lose) - 1]:,}"
    return ", ".join(f"{groups:,}" for groups in lose)
