"""The columns of a table as its schema declares them, with the types that pyarrow has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.values.encoding import DECIMAL_DIGITS

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A top-level column. `type` is None where its values have the type that they have in the files.

    Rows of a file that lacks the column have `initial`, or no value that is known, for the reason `why_needed`. Below
    the column, fields with `needed_ids` must be in a file that has the column: they are not NULL where it lacks them.
    Where `floats_by_digits`, readers take a FLOAT of an older file for the DOUBLE that is written as it is, which is
    another number.
    """

    name: str
    type: pa.DataType | None
    initial: Any = None
    why_needed: str | None = None
    needed_ids: frozenset[int] = frozenset()
    floats_by_digits: bool = False


def constant(name: str, text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return a partition's value, which a table writes as text. Raises `UnsupportedError` where it is not certain."""
    import pyarrow as pa

    if text is None:
        return pa.scalar(None, kind)
    is_plain = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_string(kind)
    )
    try:
        if is_plain:
            return pa.scalar(text).cast(kind)
        if pa.types.is_timestamp(kind):  # an instant is written in UTC
            return pa.scalar(text).cast(pa.timestamp(kind.unit)).cast(kind)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(f"the partition value {text!r} of {name} is not a {kind}: {error}") from error
    raise UnsupportedError(f"partition values of {name}, a {kind}, cannot be read from the table's metadata")


# ---- Delta -----------------------------------------------------------------------------------


def of_delta(fields: Sequence[dict[str, Any]]) -> list[TableColumn]:
    """Return the columns of a schema in Delta's log."""
    return [TableColumn(field["name"], _delta_type(field["type"])) for field in fields]


def _delta_type(declared: Any) -> pa.DataType | None:
    import pyarrow as pa

    if isinstance(declared, dict):
        match declared.get("type"):
            case "struct":
                return _struct((each["name"], _delta_type(each["type"])) for each in declared["fields"])
            case "array":
                return _list(_delta_type(declared["elementType"]))
            case "map":
                return _map(_delta_type(declared["keyType"]), _delta_type(declared["valueType"]))
        return None
    if (decimal := _decimal(declared)) is not None:
        return decimal
    return {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }.get(declared)


def _decimal(declared: str) -> pa.DataType | None:
    import pyarrow as pa

    match = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", declared, re.IGNORECASE)
    if match is None or not 0 < int(match[1]) <= DECIMAL_DIGITS:
        return None
    return pa.decimal128(int(match[1]), int(match[2]))


def _struct(fields: Any) -> pa.DataType | None:
    import pyarrow as pa

    children = list(fields)
    return pa.struct(children) if children and all(kind is not None for _, kind in children) else None


def _list(element: pa.DataType | None) -> pa.DataType | None:
    import pyarrow as pa

    return None if element is None else pa.list_(element)


def _map(key: pa.DataType | None, value: pa.DataType | None) -> pa.DataType | None:
    import pyarrow as pa

    return None if key is None or value is None else pa.map_(key, value)


# ---- Iceberg ---------------------------------------------------------------------------------


def of_iceberg(fields: Sequence[Any]) -> list[TableColumn]:
    """Return the columns of a schema of pyiceberg's."""
    return [_iceberg_column(field) for field in fields]


def _iceberg_column(field: Any) -> TableColumn:
    kind = _iceberg_type(field.field_type)
    needed = frozenset(_with_defaults(field.field_type))
    if field.initial_default is None:
        missing = "the table requires it" if field.required else None
        return TableColumn(field.name, kind, None, missing, needed)
    initial = None if kind is None else _initial(field.name, field.initial_default, kind)
    missing = f"its default {field.initial_default!r} is not understood" if initial is None else None
    return TableColumn(field.name, kind, initial, missing, needed)


def _initial(name: str, given: Any, kind: pa.DataType) -> pa.Scalar | None:
    import pyarrow as pa

    try:
        return constant(name, given, kind) if isinstance(given, str) else pa.scalar(given, kind)
    except (UnsupportedError, pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError):
        return None


def _with_defaults(kind: Any) -> list[int]:
    """Return the ids of fields that have a default."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, StructType):
        found = []
        for field in kind.fields:
            found += [field.field_id] if field.initial_default is not None else _with_defaults(field.field_type)
        return found
    if isinstance(kind, ListType):
        return _with_defaults(kind.element_type)
    if isinstance(kind, MapType):
        return _with_defaults(kind.key_type) + _with_defaults(kind.value_type)
    return []


def _iceberg_type(declared: Any) -> pa.DataType | None:
    import pyarrow as pa
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(declared, StructType):
        return _struct((each.name, _iceberg_type(each.field_type)) for each in declared.fields)
    if isinstance(declared, ListType):
        return _list(_iceberg_type(declared.element_type))
    if isinstance(declared, MapType):
        return _map(_iceberg_type(declared.key_type), _iceberg_type(declared.value_type))
    text = str(declared)
    if (decimal := _decimal(text)) is not None:
        return decimal
    if match := re.fullmatch(r"fixed\[(\d+)\]", text):
        return pa.binary(int(match[1]))
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "timestamp_ns": pa.timestamp("ns"),
        "timestamptz_ns": pa.timestamp("ns", "UTC"),
    }.get(text)


# ---- Paimon ----------------------------------------------------------------------------------


def of_paimon(fields: Sequence[tuple[str, Any]]) -> list[TableColumn]:
    """Return the columns of a schema of Paimon's, by name and type."""
    return [TableColumn(name, _paimon_type(kind)) for name, kind in fields]


def _paimon_type(declared: Any) -> pa.DataType | None:
    import pyarrow as pa

    if not isinstance(declared, str):
        return None
    text = re.sub(r" NOT NULL$", "", declared.strip().upper())
    if (decimal := _decimal(text)) is not None:
        return decimal
    if match := re.fullmatch(r"TIMESTAMP\((\d)\)( WITH LOCAL TIME ZONE)?", text):
        unit = "ms" if int(match[1]) <= 3 else "us" if int(match[1]) <= 6 else "ns"  # as Paimon stores them
        return pa.timestamp(unit, "UTC" if match[2] else None)
    return {
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(),
        "STRING": pa.string(),
        "BYTES": pa.binary(),
    }.get(re.sub(r"^(VARCHAR|CHAR)\(\d+\)$", "STRING", re.sub(r"^(VARBINARY|BINARY)\(\d+\)$", "BYTES", text)))


# ---- Hudi ------------------------------------------------------------------------------------


def of_hudi(schema: Mapping[str, Any], meta_columns: Sequence[str]) -> list[TableColumn]:
    """Return Hudi's own columns and those of an Avro schema."""
    import pyarrow as pa

    own = {field["name"] for field in schema["fields"]}
    meta = [TableColumn(name, pa.string()) for name in meta_columns if name not in own]
    fields = [(field["name"], _avro_type(field["type"])) for field in schema["fields"]]
    return meta + [TableColumn(name, kind, floats_by_digits=True) for name, kind in fields]


def _avro_type(declared: Any) -> pa.DataType | None:
    import pyarrow as pa

    if isinstance(declared, list):
        kinds = [kind for kind in declared if kind != "null"]
        return _avro_type(kinds[0]) if len(kinds) == 1 else None
    if isinstance(declared, str):
        declared = {"type": declared}
    match declared.get("logicalType"):
        case "decimal":
            return pa.decimal128(declared["precision"], declared.get("scale", 0))
        case None:
            pass
        case logical:
            return {
                "date": pa.date32(),
                "timestamp-millis": pa.timestamp("ms", "UTC"),
                "timestamp-micros": pa.timestamp("us", "UTC"),
                "local-timestamp-millis": pa.timestamp("ms"),
                "local-timestamp-micros": pa.timestamp("us"),
            }.get(logical)
    match declared["type"]:
        case "record":
            return _struct((field["name"], _avro_type(field["type"])) for field in declared["fields"])
        case "array":
            return _list(_avro_type(declared["items"]))
        case "map":
            return _map(pa.string(), _avro_type(declared["values"]))
        case dict() | list() as nested:
            return _avro_type(nested)
        case str() as name:
            return {
                "boolean": pa.bool_(),
                "int": pa.int32(),
                "long": pa.int64(),
                "float": pa.float32(),
                "double": pa.float64(),
                "string": pa.string(),
                "bytes": pa.binary(),
            }.get(name)
    return None


# ---- types of older files --------------------------------------------------------------------


def is_widened(old: pa.DataType, new: pa.DataType, *, floats: bool = True) -> bool:
    """Return whether readers of tables convert a file's type to the table's so that each value stays what it is.

    Without `floats`, a FLOAT does not become the DOUBLE of the same number. Casts still fail for values that do not
    fit: a file may store an 8-bit column in 32 bits.
    """
    import pyarrow as pa

    if isinstance(old, pa.BaseExtensionType):
        old = old.storage_type
    if pa.types.is_dictionary(old):
        old = old.value_type
    if old == new or pa.types.is_null(old):
        return True
    if pa.types.is_struct(new):
        own = {field.name: field.type for field in old} if pa.types.is_struct(old) else None
        return own is not None and all(is_widened(own[f.name], f.type, floats=floats) for f in new if f.name in own)
    if pa.types.is_map(new):
        return bool(pa.types.is_map(old)) and all(
            is_widened(*pair, floats=floats) for pair in ((old.key_type, new.key_type), (old.item_type, new.item_type))
        )
    if _is_list(new):
        return _is_list(old) and is_widened(old.value_type, new.value_type, floats=floats)
    if pa.types.is_timestamp(new):
        if pa.types.is_timestamp(old):
            # An INT96 is read in microseconds, whatever else it has.
            return (old.tz is None) == (new.tz is None) and (new.unit != "ns" or old.unit == "ns")
        return pa.types.is_date(old) and new.tz is None
    if pa.types.is_decimal(new):
        if pa.types.is_integer(old):
            return bool(_DIGITS[old.bit_width] <= new.precision - new.scale)
        is_wide = pa.types.is_decimal(old) and old.precision - old.scale <= new.precision - new.scale
        return bool(is_wide and old.scale <= new.scale)
    if pa.types.is_floating(new):
        is_exact = pa.types.is_integer(old) and old.bit_width < new.bit_width
        return bool(is_exact or (floats and pa.types.is_floating(old) and old.bit_width < new.bit_width))
    if pa.types.is_integer(new):
        return bool(pa.types.is_integer(old))
    return bool(
        _is_bytes(new) and (_is_bytes(old) or pa.types.is_fixed_size_binary(old)) and not _is_text_as_bytes(old, new)
    )


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""The digits of the largest integer of so many bits."""


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(is_binary or _is_text(kind))


def _is_text_as_bytes(old: pa.DataType, new: pa.DataType) -> bool:
    return _is_text(old) and not _is_text(new)
