"""Finds the table that a file or a directory belongs to, by the marks that formats leave."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.footer import Plan
from parquet_bloom.storage.listing import Source, exists, is_local, names_in
from parquet_bloom.tables.roots import Root, for_writing
from parquet_bloom.tables.spark_sink import LOG_FOLDER

_Result = TypeVar("_Result")

STREAMING = "Spark streaming"
"""The kind of a folder that Spark's structured streaming wrote."""

TABLE_MARKS: dict[str, tuple[str, ...]] = {
    "Delta": ("_delta_log",),
    "Hudi": (".hoodie",),
    "Paimon": ("snapshot", "manifest"),
    STREAMING: (LOG_FOLDER,),
}


def table_around(fs: Any, path: str) -> tuple[str, str] | None:
    """Return the kind and the root of the table that `path` lies in (or would), or None.

    Walks up: `_delta_log/` is Delta, `metadata/` with `*.metadata.json` or `version-hint.text` Iceberg, `.hoodie/`
    Hudi, `snapshot/` with `manifest/` Paimon, `_spark_metadata/` Spark's structured streaming. A symbolic link lies
    where it is and where it leads.
    """
    starts = dict.fromkeys([path, os.path.realpath(path)] if is_local(fs) else [path])
    return next(filter(None, (_table_above(fs, start) for start in starts)), None)


def _table_above(fs: Any, path: str) -> tuple[str, str] | None:
    folder = path.rstrip("/")
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if kind := table_kind(fs, folder):
            return kind, folder or "/"
    return None


def refuse_links_out(jobs: Iterable[tuple[Source, Plan[_Result]]]) -> Iterator[tuple[Source, Plan[_Result]]]:
    """Yield files with their plans; to one in a table, from which a symbolic link leads out, with an error for a plan.

    Other links are followed: those of plain directories, and those within a table.
    """
    folders: dict[str, tuple[bool, Root | None]] = {}
    for source, plan in jobs:
        reason = _why_outside(source, folders) if source.is_local else None
        yield source, plan if reason is None else _refused(reason)


def _why_outside(source: Source, folders: dict[str, tuple[bool, Root | None]]) -> str | None:
    folder = os.path.dirname(source.path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder) != folder, None
    is_linked, root = folders[folder]
    if not is_linked and not os.path.islink(source.path):
        return None
    if root is None:
        table = _table_above(source.fs, source.path)
        if table is None:
            return None
        root = Root(table[1])
        folders[folder] = is_linked, root
    return for_writing(root.place(source.path).outside)


def _refused(reason: str) -> Plan[Any]:
    raise UnsupportedError(reason)
    yield []


def table_kind(fs: Any, folder: str) -> str | None:
    """Return which table format's root a folder is, or None."""
    # A local directory may hold very many files, so single names are looked up instead of listing it.
    listed = None if is_local(fs) else names_in(fs, folder or "/")

    def holds(name: str) -> bool:
        return exists(fs, f"{folder}/{name}") if listed is None else name in listed

    for kind, marks in TABLE_MARKS.items():
        if all(holds(mark) for mark in marks):
            return kind
    if holds("metadata") and any(map(_is_of_iceberg, names_in(fs, f"{folder}/metadata"))):
        return "Iceberg"
    return None


ICEBERG_METADATA = ".metadata.json"

ICEBERG_HINT = "version-hint.text"
"""The file that says which version is current, in a Hadoop catalog's table."""


def _is_of_iceberg(name: str) -> bool:
    return name == ICEBERG_HINT or name.endswith((".metadata.json", ".metadata.json.gz"))


_BRANCH = re.compile(r"(?P<table>.*[^/])\$branch_(?P<branch>[^/$]+)")


def branch_of(path: str) -> tuple[str, str] | None:
    """Return the table and the name of its branch, where a path names one as Paimon does: `orders$branch_audit`."""
    match = _BRANCH.fullmatch(path.rstrip("/"))
    return (match["table"], match["branch"]) if match else None
