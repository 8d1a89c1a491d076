"""Which of the files that were found may be changed: each once, and none outside of the folder that was given.

Readers follow every symbolic link, as engines do. A writer that did would change, or remove, files that belong to
somebody else: a link in a folder of many files is easily overlooked, and anybody who may write there can add one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.storage import system
from parquet_bloom.storage.listing import Source


def to_change(sources: Iterable[Source], *, follow_links: bool) -> list[Source]:
    """Return the files under one name each, not a link's if there is another.

    Without `follow_links`, a file to which a link leads out of the folder or the glob's fixed part that it was found in
    `is_linked_out`, and `require_inside` raises for it. A file that was named itself may be a link.
    """
    once: dict[str, tuple[tuple[bool, bool], Source]] = {}
    real: dict[str, str] = {}
    for source in sources:
        if not source.is_local:
            once[source.path] = (True, True), source
            continue
        way = _way(source, real)
        folder = source.path[: source.named].rstrip("/")
        top = f"{_real(folder or '/', real).rstrip('/')}/" if source.named else ""
        if not follow_links and not way.startswith(top):
            source = replace(source, is_linked_out=True)
        is_own_name = way == top + source.path[len(folder) :].lstrip("/" if source.named else "")
        rank = not source.is_linked_out, is_own_name
        if way not in once or rank > once[way][0]:
            once[way] = rank, source
    return [source for _, source in once.values()]


def require_inside(source: Source) -> None:
    """Raise `UnsupportedError` for a file to which a link leads out of the folder that was given."""
    if source.is_linked_out:
        raise UnsupportedError(
            "a symbolic link leads out of the folder to this file; give the file by its own name, or change what links "
            "lead to with follow_links=True"
        )


def _way(source: Source, real: dict[str, str]) -> str:
    """Return a file's path without links."""
    if os.path.islink(source.path):
        return system.slashed(os.path.realpath(source.path))
    folder, _, name = source.path.rpartition("/")
    return f"{_real(folder or '/', real).rstrip('/')}/{name}"


def _real(folder: str, known: dict[str, str]) -> str:
    if folder not in known:
        known[folder] = system.slashed(os.path.realpath(folder))
    return known[folder]
