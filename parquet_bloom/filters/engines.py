"""Which engines use a filter, and which would fail because of it.

Measured with DuckDB 2.0, DataFusion 55, ClickHouse 26.9 and Spark 4.3 on files of every type, with correct
and with wrong filters (docs/pages/interop.md); the rules of other engines are from their source code.
"""

from __future__ import annotations

from parquet_bloom.format.schema import LeafColumn, PhysicalType, Repetition

DUCKDB, DATAFUSION, CLICKHOUSE, SPARK = "DuckDB", "DataFusion", "ClickHouse", "Spark"
_ALL = frozenset({DUCKDB, DATAFUSION, CLICKHOUSE, SPARK})
_NONE: frozenset[str] = frozenset()

# Which engines prune with a filter on this kind of column, for `=` and `IN` (ClickHouse: of up to 100 values).
_USERS: dict[str, frozenset[str]] = {
    "BOOLEAN": _NONE,
    "INT96": _NONE,
    "INTERVAL": _NONE,
    "FLOAT16": frozenset({DUCKDB}),
    "INT8": _ALL - {DATAFUSION},
    "INT16": _ALL - {DATAFUSION},
    "INT32": _ALL,
    "INT64": _ALL,
    "UINT8": frozenset({DUCKDB, CLICKHOUSE}),
    "UINT16": frozenset({DUCKDB, CLICKHOUSE}),
    "UINT32": _ALL - {SPARK},
    "UINT64": _ALL - {SPARK},
    "FLOAT": _ALL - {CLICKHOUSE},
    "DOUBLE": _ALL - {CLICKHOUSE},
    "BYTE_ARRAY": _ALL,
    "STRING": _ALL,
    "ENUM": frozenset({DUCKDB, DATAFUSION}),
    "JSON": frozenset({DUCKDB, DATAFUSION}),
    "BSON": frozenset({DATAFUSION, CLICKHOUSE}),
    "FIXED_LEN_BYTE_ARRAY": _ALL - {SPARK},
    "UUID": frozenset({DUCKDB, DATAFUSION}),  # DataFusion: not if the file's Arrow schema has arrow.uuid
    "DECIMAL INT32": _ALL - {CLICKHOUSE},
    "DECIMAL INT64": _ALL - {CLICKHOUSE},
    "DECIMAL FIXED_LEN_BYTE_ARRAY": frozenset({DATAFUSION, SPARK}),
    "DECIMAL BYTE_ARRAY": _NONE,
    "DECIMAL over 38 digits": frozenset({DUCKDB}),
    "DATE": frozenset({DUCKDB, SPARK}),
    "TIME MILLIS": frozenset({DUCKDB}),
    "TIME MICROS": frozenset({DUCKDB, SPARK}),
    "TIME NANOS": frozenset({DUCKDB}),
    "TIME UTC": _NONE,
    "TIMESTAMP local": frozenset({DUCKDB}),
    "TIMESTAMP UTC": frozenset({DUCKDB, SPARK}),
    "TIMESTAMP UTC NANOS": frozenset({DUCKDB}),
}

_NUMBERS = (PhysicalType.INT32, PhysicalType.INT64, PhysicalType.FLOAT, PhysicalType.DOUBLE)


def users(leaf: LeafColumn, num_bytes: int) -> tuple[str, ...]:
    """Return the engines that prune with a valid filter of `num_bytes` on this column, sorted."""
    engines = _USERS.get(_column_kind(leaf), _NONE)
    if len(leaf.path) > 1:
        engines = engines - {DATAFUSION}
    if leaf.is_repeated:  # DuckDB: for l[1] = 5 and m['a'] IN (5, 6), not for list_contains(l, 5)
        engines = _NONE if _is_map_key(leaf) else engines & {DUCKDB}
    return tuple(sorted(engines))


def hazards(leaf: LeafColumn, num_bytes: int, *, has_length: bool) -> tuple[str, ...]:
    """Return a sentence for each engine that fails, or gives wrong answers, because of a valid filter."""
    warnings = []
    if num_bytes & (num_bytes - 1):
        warnings.append("Arrow C++ and older ClickHouse reject a bitset whose size is not a power of two")
        warnings.append("Impala misreads a bitset whose size is not a power of two")
    elif num_bytes < 64:
        warnings.append("Impala needs a bitset of at least 64 bytes")
    if num_bytes > 128 * 1024 * 1024:
        warnings.append("Arrow C++ and parquet-java reject a bitset over 128 MiB")
    if not has_length:
        warnings.append("Spark with parquet-java 1.14.0 to 1.15.2 may return wrong rows when the length is missing")
    kind = _column_kind(leaf)
    if kind == "FLOAT16":
        warnings.append("DuckDB hashes FLOAT16 as FLOAT and returns no rows")
    if kind == "DECIMAL over 38 digits":
        warnings.append("DuckDB hashes decimals of over 38 digits as DOUBLE and returns no rows")
    if kind == "UINT32":
        warnings.append("Trino has no unsigned integers, and loses rows where a table calls the column a BIGINT")
    return tuple(warnings)


def loses_rows_of(table_leaf: LeafColumn, leaf: LeafColumn) -> bool:
    """Return whether an engine loses rows because of a filter on a file's column of which a table has another type.

    Trino 483 hashes a value of the table's type, unless that is a decimal or a time (trinodb/trino#30544).
    """
    own = table_leaf.logical_type
    return (
        leaf.physical_type in _NUMBERS
        and table_leaf.physical_type is not leaf.physical_type
        and (own is None or own.name not in ("DECIMAL", "TIME", "TIMESTAMP"))
    )


def _is_map_key(leaf: LeafColumn) -> bool:
    """Return whether a leaf is the key of a map, or part of one, by the names that writers give to a map's nodes."""
    steps = zip(leaf.path, leaf.nodes, leaf.path[1:], strict=False)
    return any(
        repetition == Repetition.REPEATED and name in ("key_value", "map", "entries") and below == "key"
        for name, repetition, below in steps
    )


def _column_kind(leaf: LeafColumn) -> str:
    physical, logical = leaf.physical_type.name, leaf.logical_type
    if logical is None or leaf.physical_type is PhysicalType.INT96:
        return physical
    match logical.name:
        case "INTEGER":
            return str(logical)
        case "DECIMAL" if logical.precision > 38:
            return "DECIMAL over 38 digits"
        case "DECIMAL":
            return f"DECIMAL {physical}"
        case "TIME" if logical.is_adjusted_to_utc:
            return "TIME UTC"
        case "TIME":
            return f"TIME {logical.unit}"
        case "TIMESTAMP" if not logical.is_adjusted_to_utc:
            return "TIMESTAMP local"
        case "TIMESTAMP":
            return "TIMESTAMP UTC NANOS" if logical.unit == "NANOS" else "TIMESTAMP UTC"
    return logical.name
