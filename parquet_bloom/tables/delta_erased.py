"""What Delta's log says of files of which rows were erased: the commit's actions, and statistics of what is left.

The statistics of the old file are not taken over: its bounds may be values of the rows that went. Those of the new file
come from its footer, for the columns that the log had some of. A bound that cannot be had so is left out, and then
excludes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.delta_statistics import json_date, json_float, json_text, json_time
from parquet_bloom.tables.written import Written, written_statistics
from parquet_bloom.values.ordering import Key

PARTS = ("minValues", "maxValues", "nullCount")


def statistics_of(source: Source, footer: Footer, logged: str | None) -> str:
    """Return the JSON for a new file, of the columns that the log's JSON of the old one has something of."""
    old = _parsed(logged)
    trees: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for leaf in footer.leaves:
        before = [_at(old.get(part), leaf.path) for part in PARTS]
        if leaf.is_repeated or all(value is None for value in before):
            continue
        known = written_statistics(source, footer, leaf)
        for part, value, was in zip(PARTS, _texts(leaf, known), before, strict=True):
            if value is not None and was is not None and type(json.loads(value)) in _LIKE.get(type(was), ()):
                _put(trees[part], leaf.path, value)
    members = {part: _object(tree) for part, tree in trees.items() if tree}
    return _object({"numRecords": str(footer.num_rows), **members})


def _parsed(logged: str | None) -> Mapping[str, Any]:
    try:
        old = json.loads(logged or "{}", parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return old if isinstance(old, dict) else {}


_LIKE = {int: (int, float), Decimal: (int, float), str: (str,), bool: (bool,)}
"""A bound is written as the old one was: one that was NaN, which is a text, stays away."""


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return None if isinstance(tree, dict) else tree


def _put(tree: dict[str, Any], path: Sequence[str], text: str) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def _object(tree: Mapping[str, Any]) -> str:
    """Return JSON of a tree whose leaves are JSON already, so that every digit stays."""
    members = (f"{json_text(name)}:{_object(v) if isinstance(v, dict) else v}" for name, v in tree.items())
    return f"{{{','.join(members)}}}"


def _texts(leaf: LeafColumn, known: Written) -> tuple[str | None, str | None, str | None]:
    """Return minimum, maximum and number of nulls as JSON, None for what is not known."""
    nulls = None if known.null_count is None else str(known.null_count)
    write = _writer(leaf)
    if write is None or known.low is None or known.high is None:
        return None, None, nulls
    return write(known.low, False), write(known.high, True), nulls


def _writer(leaf: LeafColumn) -> Callable[[Any, bool], str | None] | None:
    """Return a function from a bound's key, and whether it is the upper one, to JSON; None for types without any."""
    kind, logical = leaf.physical_type, leaf.logical_type
    name = logical.name if logical is not None else None
    if kind in (PhysicalType.FLOAT, PhysicalType.DOUBLE) and name is None:
        return lambda key, is_high: json_float(key, is_single=kind is PhysicalType.FLOAT)
    if kind is PhysicalType.BOOLEAN:
        return lambda key, is_high: "true" if key else "false"
    if logical is not None and name == "DECIMAL":
        scale = logical.scale
        return lambda key, is_high: format(Decimal((key < 0, tuple(map(int, str(abs(key)))), -scale)), "f")
    if name == "DATE":
        return lambda key, is_high: json_date(key)
    if logical is not None and name == "TIMESTAMP" and kind is PhysicalType.INT64:
        per_milli, zone = _PER_MILLISECOND.get(str(logical.unit)), "Z" if logical.is_adjusted_to_utc else ""
        if per_milli is None:
            return None
        return lambda key, is_high: json_time(1000 * (-(-key // per_milli) if is_high else key // per_milli), zone)
    if name == "STRING":
        return _shortened
    if kind in (PhysicalType.INT32, PhysicalType.INT64) and name in (None, "INTEGER"):
        return lambda key, is_high: str(key)
    return None


_PER_MILLISECOND = {"MILLIS": 1, "MICROS": 1000, "NANOS": 1_000_000}

_CHARACTERS = 32


def _shortened(key: Key, is_high: bool) -> str | None:
    """Return a text of at most 32 characters, and for a maximum one more that is above all others."""
    assert isinstance(key, bytes)
    text = key.decode("utf-8", "ignore")
    if len(text) <= _CHARACTERS and (text.encode() == key or not is_high):
        return json_text(text)
    start = text[:_CHARACTERS]
    if is_high and "\U0010ffff" in text:
        return None
    return json_text(start + "\U0010ffff" if is_high else start)


# ---- the commit ----------------------------------------------------------------------------


def metrics(
    removed: Sequence[int], added: Sequence[int], rows_erased: int, rows_left: int, vectors_removed: int
) -> dict[str, str]:
    """Return the metrics of a DELETE, from the sizes of files that were removed and added."""
    counts = {
        "numRemovedFiles": len(removed),
        "numAddedFiles": len(added),
        "numRemovedBytes": sum(removed),
        "numAddedBytes": sum(added),
        "numDeletedRows": rows_erased,
        "numCopiedRows": rows_left,
        "numAddedChangeFiles": 0,
        "numDeletionVectorsAdded": 0,
        "numDeletionVectorsRemoved": vectors_removed,
        "numDeletionVectorsUpdated": 0,
    }
    return {name: str(count) for name, count in counts.items()}


BY_SPARK = (
    "delete the rows with Spark, and then run REORG TABLE ... APPLY (PURGE); `parquet-bloom erase --plan` prints these "
    "statements"
)
"""What to do instead about a table that is refused."""


def why_not_erased(configuration: Mapping[str, str]) -> str | None:
    """Return why no row of a table with these properties can be deleted, or None."""
    if _is_on(configuration, "delta.appendOnly"):
        return "its rows must not be deleted (delta.appendOnly); turn that off first"
    if _is_on(configuration, "delta.enableChangeDataFeed"):
        return (
            "its change data feed is on, in which the erased rows would be written once more; turn off "
            "delta.enableChangeDataFeed first, or delete the rows with Spark"
        )
    return None


def _is_on(configuration: Mapping[str, str], name: str) -> bool:
    return configuration.get(name, "").lower() == "true"


__all__ = ["BY_SPARK", "metrics", "statistics_of", "why_not_erased"]
