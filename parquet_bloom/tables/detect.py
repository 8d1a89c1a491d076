"""Finds the table that a file or a directory belongs to, by the marks that formats leave."""

from __future__ import annotations

import os
import re
from typing import Any

from parquet_bloom.storage.listing import is_local, names_in

TABLE_MARKS = {"Delta": ("_delta_log",), "Hudi": (".hoodie",), "Paimon": ("snapshot", "manifest")}


def table_around(fs: Any, path: str) -> tuple[str, str] | None:
    """Return the kind and the root of the table that `path` lies in (or would), or None.

    Walks up: `_delta_log/` is Delta, `metadata/` with `*.metadata.json` or `version-hint.text` Iceberg, `.hoodie/`
    Hudi, `snapshot/` with `manifest/` Paimon. A symbolic link lies where it is and where it leads.
    """
    for start in dict.fromkeys([path, os.path.realpath(path)] if is_local(fs) else [path]):
        folder = start.rstrip("/")
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            if kind := table_kind(fs, folder):
                return kind, folder or "/"
    return None


def table_kind(fs: Any, folder: str) -> str | None:
    """Return which table format's root a folder is, or None."""
    # A local directory may hold very many files, so single names are looked up instead of listing it.
    listed = None if is_local(fs) else names_in(fs, folder or "/")

    def holds(name: str) -> bool:
        return os.path.exists(f"{folder}/{name}") if listed is None else name in listed

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
