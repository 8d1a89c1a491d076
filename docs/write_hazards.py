"""Writes the table of releases that lose rows into the page of engines, between `<!-- hazards -->` and `<!-- end -->`.

Run it again when the table in parquet_bloom/filters/engines.py changes: python docs/write_hazards.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from parquet_bloom.filters import engines
from parquet_bloom.filters.engines import HAZARDS, MEASURED, Hazard

PAGE = Path(__file__).parent / "pages" / "engines.md"
BLOCK = re.compile(r"(?<=<!-- hazards -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
WHEN = {
    "always": "",
    "nulls": ", with NULLs",
    "some files": ", in some files",
    "other type": ", of which the table has another type",
}


def with_table(page: str) -> str:
    """Return a page's text with the table as it is now."""
    return BLOCK.sub(lambda _: "\n".join(_lines()), page)


def _lines() -> Iterator[str]:
    yield f"As of {MEASURED.day} {MEASURED:%B %Y}. Tried here:"
    yield ""
    yield "| engine | releases | columns | loses rows | mended in | source |"
    yield "|---|---|---|---|---|---|"
    for one in HAZARDS:
        if not one.is_reported:
            releases = " to ".join(dict.fromkeys((one.tried[0], one.tried[-1])))
            mended = one.mended or "-"
            yield f"| {one.engine} | {releases} | {_columns(one)} | {one.loses} | {mended} | {_source(one)} |"
    yield ""
    yield "Reported by others, not tried here:"
    yield ""
    yield "| engine | since | loses rows | source |"
    yield "|---|---|---|---|"
    for one in HAZARDS:
        if one.is_reported:
            yield f"| {one.engine} | {one.since or '-'} | {one.loses} | {_source(one)} |"


def _columns(hazard: Hazard) -> str:
    named = ", ".join(sorted(hazard.kinds))
    used = frozenset(kind for kind, users in engines._USERS.items() if hazard.engine in users)
    which = {frozenset(engines._USERS): "any", used: "any whose filters it uses"}.get(hazard.kinds, named)
    return which + WHEN[hazard.when]


def _source(hazard: Hazard) -> str:
    repository, _, number = hazard.source.partition("#")
    return f"[{hazard.source}](https://github.com/{repository}/issues/{number})" if number else "[here](interop.md)"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
