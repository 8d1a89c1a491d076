"""Which schema Spark infers for a lake, from a footer and the names of folders that were read already.

Spark would list all files, and start a job to read a footer. What it makes of usual footers and usual folders is known;
for all others `None` is returned, and Spark is asked.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.spark.session import Settings
from parquet_bloom.storage.listing import Source

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# ---- footers -----------------------------------------------------------------------------

_NOTED = "org.apache.spark.sql.parquet.row.metadata"

# With any other value of these, Spark makes other types, or fields with metadata, of the same columns.
_PLAIN = {
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}


def schema_of(settings: Settings, footer: Footer) -> StructType | None:
    """Return the schema that Spark infers from a footer: the one that Spark noted in it, else that of its columns."""
    try:
        noted = footer.key_values.get(_NOTED)
    except ParquetBloomError:
        return None
    if noted is not None:
        return _noted(noted)
    if any(settings.get(key, plain) != plain for key, plain in _PLAIN.items()):
        return None
    return _converted(footer.leaves)


def _noted(text: str) -> StructType | None:
    from pyspark.sql.types import StructType

    try:
        schema = json.loads(text)
        if schema["type"] != "struct" or not _is_plain(schema):
            return None
        return StructType.fromJson(_nullable(schema))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


_NOTED_TYPES = re.compile(
    "string|binary|boolean|byte|short|integer|long|float|double|date|timestamp|timestamp_ntz|"
    r"decimal\([1-9]\d?,[1-9]?\d\)"
)


def _is_plain(kind: Any) -> bool:
    """Return whether a type, as JSON, has only types that all versions know, and no metadata."""
    if isinstance(kind, str):
        return _NOTED_TYPES.fullmatch(kind) is not None
    match kind["type"]:
        case "struct":
            return all(_is_plain(field["type"]) and not field.get("metadata") for field in kind["fields"])
        case "array":
            return _is_plain(kind["elementType"])
        case "map":
            return _is_plain(kind["keyType"]) and _is_plain(kind["valueType"])
    return False


def _nullable(kind: Any) -> Any:
    """Return a type, as JSON, in which everything may be NULL."""
    if isinstance(kind, list):
        return [_nullable(part) for part in kind]
    if not isinstance(kind, dict):
        return kind
    return {name: True if name in _MAY_BE_NULL else _nullable(part) for name, part in kind.items()}


_MAY_BE_NULL = ("nullable", "containsNull", "valueContainsNull")


def _converted(leaves: Sequence[LeafColumn]) -> StructType | None:
    from pyspark.sql.types import StructField, StructType

    fields = []
    for leaf in leaves:
        kind = _type_of(leaf)
        if kind is None:
            return None
        fields.append(StructField(leaf.path[0], kind, nullable=True))
    return StructType(fields) if fields and _are_distinct([field.name for field in fields]) else None


def _type_of(leaf: LeafColumn) -> DataType | None:
    """Return the type that Spark gives a column, None of one in a group, and of a type that is not known for sure."""
    from pyspark.sql import types

    logical = leaf.logical_type
    if len(leaf.path) != 1 or leaf.nodes[0].name == "REPEATED":
        return None
    if logical is not None and logical.name == "DECIMAL":
        return _decimal(leaf, logical.precision, logical.scale)
    if logical is not None and logical.name == "INTEGER":
        name = _INTEGERS.get((leaf.physical_type, logical.bit_width)) if logical.is_signed else None
    elif logical is not None and logical.name == "TIMESTAMP":
        is_usual = leaf.physical_type is PhysicalType.INT64 and logical.unit in ("MILLIS", "MICROS")
        name = ("TimestampType" if logical.is_adjusted_to_utc else "TimestampNTZType") if is_usual else None
    else:
        name = _TYPES.get((leaf.physical_type, logical.name if logical else None))
    return None if name is None else getattr(types, name)()


_INTEGERS = {
    (PhysicalType.INT32, 8): "ByteType",
    (PhysicalType.INT32, 16): "ShortType",
    (PhysicalType.INT32, 32): "IntegerType",
    (PhysicalType.INT64, 64): "LongType",
}
_TYPES: dict[tuple[PhysicalType, str | None], str] = {
    (PhysicalType.BOOLEAN, None): "BooleanType",
    (PhysicalType.INT32, None): "IntegerType",
    (PhysicalType.INT64, None): "LongType",
    (PhysicalType.INT96, None): "TimestampType",
    (PhysicalType.FLOAT, None): "FloatType",
    (PhysicalType.DOUBLE, None): "DoubleType",
    (PhysicalType.BYTE_ARRAY, None): "BinaryType",
    (PhysicalType.BYTE_ARRAY, "STRING"): "StringType",
    (PhysicalType.INT32, "DATE"): "DateType",
}
_DIGITS = {PhysicalType.INT32: 9, PhysicalType.INT64: 18}
_MOST_DIGITS = 38


def _decimal(leaf: LeafColumn, precision: int, scale: int) -> DataType | None:
    from pyspark.sql.types import DecimalType

    if leaf.type_length is None:
        most = _DIGITS.get(leaf.physical_type, _MOST_DIGITS)
    else:
        most = min(_MOST_DIGITS, len(str(2 ** (8 * leaf.type_length - 1) - 1)) - 1)
    return DecimalType(precision, scale) if 0 <= scale <= precision and 1 <= precision <= most else None


def _are_distinct(names: Sequence[str]) -> bool:
    return len({name.casefold() for name in names}) == len(names)


# ---- folders -----------------------------------------------------------------------------

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NO_TEXTS = frozenset({"nan", "infinity", "null", "epoch", "now", "today", "tomorrow", "yesterday"})


def _is_integer(text: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", text) is not None


def _is_date(text: str) -> bool:
    if not re.fullmatch("(19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_text(text: str) -> bool:
    return re.fullmatch("[A-Za-z]{2}[A-Za-z0-9_-]*", text) is not None and text.lower() not in _NO_TEXTS


_KINDS: dict[str, Callable[[str], bool]] = {"IntegerType": _is_integer, "DateType": _is_date, "StringType": _is_text}
"""Types of folders' columns -> which values are certainly of them; one column's values must all be of one."""


def with_folders(settings: Settings, schema: StructType, sources: Sequence[Source]) -> StructType | None:
    """Return the schema of files with this one, and of the folders `name=value` above each, from the listed one on."""
    from pyspark.sql import types

    if not settings.is_on("spark.sql.sources.partitionColumnTypeInference.enabled", default=True):
        return None
    if settings.get("spark.sql.legacy.timeParserPolicy", "CORRECTED").upper() == "LEGACY":
        return None
    paths = {source.relative.rpartition("/")[0] for source in sources}
    folders = [[part.partition("=")[::2] for part in path.split("/")] for path in paths]
    names = [name for name, _ in folders[0]]
    if any([name for name, _ in of_file] != names for of_file in folders):
        return None
    if not all(map(_NAME.fullmatch, names)) or not _are_distinct([*schema.names, *names]):
        return None
    fields = []
    for number, name in enumerate(names):
        values = {of_file[number][1] for of_file in folders}
        kind = next((kind for kind, is_one in _KINDS.items() if all(map(is_one, values))), None)
        if kind is None:
            return None
        fields.append(types.StructField(name, getattr(types, kind)(), nullable=True))
    return types.StructType([*schema.fields, *fields])
