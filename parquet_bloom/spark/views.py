"""How Spark reads files: which of their folders are columns, and under which names and as which types it reads them.

Spark uses one schema for all files. If a file has another type, Spark may cut its values, or read their bits as other
values. So a column prunes only if its type in the file is contained in the type of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from parquet_bloom.format.footer import interned, text_rule
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.spark.conditions import odd_times
from parquet_bloom.spark.session import Settings
from parquet_bloom.storage.listing import Source
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.tables.placement import Columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BY_IDS = "spark.sql.parquet.fieldId.read.enabled"
_FIELD_ID = "parquet.field.id"


@dataclass(frozen=True)
class SparkView:
    """How a session reads files, as a `View`.

    `types` has the schema's own names for types, by the path of each field that is in no list or map; None if the
    schema is not known. `rules` are those of its texts, by top-level column. With `ids` columns go by these, and the
    others by their names. `folders` are those that are partitions, by a file's path in its file system.
    """

    case_sensitive: bool
    types: Mapping[tuple[str, ...], str] | None = None
    rules: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, int] | None = None
    folders: Mapping[str, Partitions] | None = None
    why_none: str | None = None
    why_no_times: str | None = None
    """Why nothing in a file, or no date or timestamp in it, can prune; None if it can."""

    @classmethod
    def of_session(cls, settings: Settings) -> SparkView:
        """Return what is known of how the session reads files whatever their schema."""
        why_none = "this session reads columns by their field ids" if settings.is_on(BY_IDS) else None
        odd = odd_times(settings)
        return cls(settings.case_sensitive, why_none=why_none, why_no_times=f"{odd[0]} is set" if odd else None)

    @classmethod
    def of(cls, settings: Settings, schema: StructType, folders: Mapping[str, Partitions]) -> SparkView:
        """Return how the session reads files with this schema."""
        case_sensitive = settings.case_sensitive
        key = (lambda name: name) if case_sensitive else str.casefold
        types = {tuple(map(key, path)): kind for path, kind in _types(schema)}
        rules = {key(f.name): rule for f in schema if (rule := text_rule(f.jsonValue()))}
        ids = None
        if settings.is_on(BY_IDS) and _FIELD_ID in json.dumps(schema.jsonValue()):
            ids = {f.name: f.metadata[_FIELD_ID] for f in schema if _FIELD_ID in f.metadata}
        return cls(case_sensitive, types, rules, ids, folders)

    @property
    def knows_types(self) -> bool:
        """Whether each column is read as one type, which is known."""
        return self.types is not None

    def partitions(self, source: Source) -> Partitions | None:
        """Return which of a file's folders Spark reads as columns, None if that is not known."""
        return None if self.folders is None else self.folders.get(source.path, _NONE)

    def leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the names of the schema."""
        if self.ids is None:
            return columns.leaves
        key = "spark", self.case_sensitive, *sorted(self.ids.items())
        if key not in columns.renamed_leaves:
            columns.renamed_leaves[key] = interned(tuple(self._by_ids(columns)))
        return columns.renamed_leaves[key]

    def _by_ids(self, columns: Columns) -> Iterator[LeafColumn]:
        names = {number: name for name, number in (self.ids or {}).items()}
        taken = {self._key(name) for name in names.values()}
        for leaf, (*_, number) in zip(columns.leaves, columns.node_ids, strict=True):
            if len(leaf.path) == 1 and number in names:
                yield replace(leaf, path=(names[number],))
            elif self._key(leaf.path[0]) in taken or len(leaf.path) > 1:  # only leaves' own ids are known here
                yield replace(leaf, path=("", *leaf.path))
            else:
                yield leaf

    def why_other(self, leaf: LeafColumn) -> str | None:
        """Return why Spark may read other values than a column's own, or None."""
        if self.why_none or (self.why_no_times and _is_time(leaf)):
            return self.why_none or self.why_no_times
        if self.types is None:
            return None
        if leaf.physical_type is PhysicalType.BYTE_ARRAY and (rule := self.rules.get(self._key(leaf.path[0]))):
            return rule
        kind = self.types.get(tuple(map(self._key, leaf.path)))
        if kind is None:
            return f"Spark reads {leaf.name} as part of another column"
        if not _contains(kind, leaf):
            return f"Spark reads {leaf.name} as {kind}, and the file has {leaf.type_name}"
        return None

    def _key(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()


_NONE = Partitions()


def _is_time(leaf: LeafColumn) -> bool:
    name = leaf.logical_type.name if leaf.logical_type else None
    return name in ("DATE", "TIMESTAMP") or leaf.physical_type is PhysicalType.INT96


def _types(schema: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    from pyspark.sql.types import StructType

    for one in schema.fields:
        path = (*above, one.name)
        if isinstance(one.dataType, StructType):
            yield from _types(one.dataType, path)
        else:
            yield path, one.dataType.simpleString()


# ---- which types hold all values of which -------------------------------------------------

_SIGNED = ("tinyint", "smallint", "int", "bigint")
_INTEGERS = {
    **{(8 << at, True): _SIGNED[at:] for at in range(4)},
    **{(8 << at, False): _SIGNED[at + 1 :] for at in range(2)},
    (32, False): ("bigint",),
    (64, False): ("decimal(20,0)",),
}
"""Bits of an integer, and whether it is signed -> the types of Spark that hold all of them, and that read them so."""

_TEXTS = ("string", "binary")
_AS_THEY_ARE: dict[tuple[PhysicalType, str | None], tuple[str, ...]] = {
    (PhysicalType.BOOLEAN, None): ("boolean",),
    (PhysicalType.FLOAT, None): ("float",),
    (PhysicalType.DOUBLE, None): ("double",),
    (PhysicalType.INT32, "DATE"): ("date",),
    (PhysicalType.INT96, None): ("timestamp",),
    (PhysicalType.FIXED_LEN_BYTE_ARRAY, None): ("binary",),
    **{(PhysicalType.BYTE_ARRAY, name): _TEXTS for name in (None, "STRING", "ENUM", "JSON", "BSON")},
}
_BITS = {PhysicalType.INT32: 32, PhysicalType.INT64: 64}


def _contains(kind: str, leaf: LeafColumn) -> bool:
    """Return whether a type of Spark holds all values of a leaf's, and Spark reads them as they are."""
    logical = leaf.logical_type
    name = logical.name if logical else None
    if (logical is None or name == "INTEGER") and leaf.physical_type in _BITS:
        bits, signed = (logical.bit_width, logical.is_signed) if logical else (_BITS[leaf.physical_type], True)
        return bits <= _BITS[leaf.physical_type] and kind in _INTEGERS.get((bits, signed), ())
    if logical is not None and name == "DECIMAL" and kind.startswith("decimal("):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        return scale >= logical.scale and precision - scale >= logical.precision - logical.scale
    if logical is not None and name == "TIMESTAMP" and logical.unit != "NANOS":
        return kind == ("timestamp" if logical.is_adjusted_to_utc else "timestamp_ntz")
    return kind in _AS_THEY_ARE.get((leaf.physical_type, name), ())
