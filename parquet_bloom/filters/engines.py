"""Which engines use a filter, and which of their releases lose rows because of one.

Measured with DuckDB 2.0, DataFusion 55, ClickHouse 26.9 and Spark 4.3 on files of every type, with correct and with
wrong filters, and with the releases of two years on files without and with ours (docs/pages/interop.md); the rules of
other engines are from their source code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Literal

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType, Repetition
from parquet_bloom.values.statistics import may_have_nulls

DUCKDB, DATAFUSION, CLICKHOUSE, SPARK = "DuckDB", "DataFusion", "ClickHouse", "Spark"
DELTALAKE, TRINO = "deltalake", "Trino"
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
    "DECIMAL FIXED_LEN_BYTE_ARRAY under 16 bytes": frozenset({DATAFUSION, SPARK}),
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


# ---- hazards -----------------------------------------------------------------------------

MEASURED = date(2026, 11, 23)
"""When the table of hazards was measured."""

_RECENT = MEASURED.replace(year=MEASURED.year - 2)
"""24 months before: nobody is expected to read with releases that are older."""

_RELEASES = {
    DUCKDB: "1.2.2 2025-04-08, 1.3.2 2025-07-08, 1.4.5 2026-06-17, 1.5.0 2026-03-09, 1.5.1 2026-03-23, "
    "1.5.2 2026-04-13, 1.5.3 2026-05-20, 1.5.4 2026-06-17, 1.5.5 2026-07-22, 1.5.6 2026-09-28, "
    "2.0.0 2026-10-21",
    DATAFUSION: "43.1.0 2024-12-12, 44.0.0 2025-02-07, 45.2.0 2025-02-24, 46.0.0 2025-03-30, 47.0.0 2025-05-28, "
    "48.0.0 2025-07-12, 49.0.0 2025-08-29, 50.0.0 2025-09-23, 50.1.0 2025-10-20, 51.0.0 2026-01-09, "
    "52.0.0 2026-02-23, 52.3.0 2026-03-16, 53.0.0 2026-04-13, 54.0.0 2026-06-29, 54.1.0 2026-10-05, "
    "55.0.0 2026-10-12",
    DELTALAKE: "0.22.3 2024-12-04, 0.23.2 2025-01-06, 0.24.0 2025-01-15, 0.25.1 2025-02-21, 0.25.5 2025-04-03, "
    "1.0.2 2025-06-02, 1.1.4 2025-08-08, 1.2.1 2025-10-21, 1.3.3 2026-02-16, 1.4.2 2026-02-09, "
    "1.5.1 2026-04-21, 1.6.0 2026-05-18, 1.6.1 2026-06-24, 1.6.2 2026-07-08, 1.6.3 2026-08-21, "
    "1.6.6 2026-09-24",
    CLICKHOUSE: "24.8.4 2025-02-24, 25.5.2 2025-07-09, 25.8.2 2025-11-06, 26.1.2 2026-03-02, 26.3.9 2026-05-11, "
    "26.5.1 2026-06-08, 26.7.2 2026-09-11, 26.9.2 2026-09-28",
    SPARK: "3.5.9 2026-07-16, 4.0.5 2026-10-27, 4.1.4 2026-10-27, 4.2.1 2026-10-27, 4.3.0 2026-10-30",
    "Polars": "1.15.0 2024-11-25, 1.16.0 2024-11-29, 1.17.1 2024-12-09, 1.18.0 2024-12-24, 1.19.0 2025-01-03, "
    "1.20.0 2025-01-16, 1.21.0 2025-01-24, 1.22.0 2025-02-08, 1.23.0 2025-02-23, 1.24.0 2025-03-02, "
    "1.25.2 2025-03-15, 1.26.0 2025-03-23, 1.27.1 2025-04-11, 1.28.1 2025-04-27, 1.29.0 2025-04-30, "
    "1.30.0 2025-05-21, 1.31.0 2025-06-18, 1.32.3 2025-08-14, 1.33.1 2025-09-09, 1.34.0 2025-10-02, "
    "1.35.2 2025-11-09, 1.36.1 2025-12-10, 1.37.1 2026-01-12, 1.38.1 2026-02-06, 1.39.3 2026-03-20, "
    "1.40.1 2026-04-22, 1.41.2 2026-05-29, 1.42.1 2026-06-30, 1.43.2 2026-08-01, 1.44.2 2026-09-09, "
    "2.0.0 2026-10-06, 2.1.0 2026-10-25",
    TRINO: "483 2026-10-19",
    "parquet-java": "1.17.0",
    "pyarrow": "26.0.1",
    "hyparquet": "1.31.5",
    "rugo": "0.5.6",
    "arrow-rs": "60.1.0",
    "parquet-go": "0.32.0",
    "arrow-go": "18.8.0",
}
"""The releases that were tried, oldest first, and when they came out where a hazard may depend on it."""

When = Literal["always", "nulls", "some files", "other type"]
"""Which of the columns of a kind: all; those with NULLs; those of some files, of which nothing in them tells; those of
which a table has another type. The second and third have no list around them."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """What an engine's releases, from `since` up to and without `mended`, lose because of valid filters.

    `since` is None if the oldest one that was tried does, `mended` if the newest one does. What `is_reported` by others
    was not tried. `source` is an issue of the engine's; else it was found here.
    """

    engine: str
    since: str | None
    mended: str | None
    kinds: frozenset[str]
    loses: str
    source: str = ""
    when: When = "always"
    is_reported: bool = False

    @property
    def tried(self) -> tuple[str, ...]:
        """The releases that were tried which it concerns, oldest first."""
        return tuple(version for version in releases(self.engine) if self.concerns(version))

    def concerns(self, version: str) -> bool:
        """Return whether a release is one of these."""
        from packaging.version import Version

        release = Version(version)
        is_before = self.mended is None or release < Version(self.mended)
        return is_before and (self.since is None or release >= Version(self.since))

    @property
    def is_recent(self) -> bool:
        """Whether it was seen in a release that was less than 24 months old when the table was measured."""
        dates = releases(self.engine)
        return not self.is_reported and any((dates[version] or MEASURED) > _RECENT for version in self.tried)

    def __str__(self) -> str:
        if self.is_reported:
            which = f"{self.since} (reported, not tried)" if self.since else "(reported, not tried)"
        elif self.mended is None:
            which = f"up to {self.tried[-1]}, the newest tried,"
        else:
            which = f"{self.since} to {self.tried[-1]}" if self.since else f"before {self.mended}"
        return f"{self.engine} {which} loses rows {self.loses}"


_SHORT_DECIMALS = frozenset({"DECIMAL FIXED_LEN_BYTE_ARRAY under 16 bytes"})
_ALL_KINDS = frozenset(_USERS)
_OF_CLICKHOUSE = frozenset(kind for kind, engines in _USERS.items() if CLICKHOUSE in engines)

HAZARDS = (
    Hazard(DATAFUSION, None, "55.0.0", _SHORT_DECIMALS, "in every = and IN condition", "apache/datafusion#22994"),
    Hazard(
        *(DELTALAKE, None, "1.6.3", _SHORT_DECIMALS),
        "in every = and IN condition, also of delete, update and merge",
        "apache/datafusion#22994",
    ),
    Hazard(
        *(DUCKDB, "1.5.0", "2.0.0", frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})),
        "in = conditions and joins, on bytes that it prints escaped",
        "duckdb/duckdb#23053",
    ),
    Hazard(DUCKDB, None, None, frozenset({"FLOAT16"}), "in every = condition, because it hashes FLOAT16 as FLOAT"),
    Hazard(
        *(DUCKDB, None, None, frozenset({"DECIMAL over 38 digits"})),
        "in every = condition, because it hashes decimals of over 38 digits as DOUBLE",
    ),
    # 25.8 loses none of these. A filter's header and the filter with it are read at once, in an order left to chance.
    Hazard(
        *(CLICKHOUSE, "25.9", "26.5", _OF_CLICKHOUSE),
        "in = and IN conditions on some files, most of all on those of one row group or of many",
        "ClickHouse/ClickHouse#102385",
        when="some files",
    ),
    # 24.8 loses none of these. Before 25.8 it reads JSON as a String.
    Hazard(
        *(CLICKHOUSE, "24.9", "26.9.2", _OF_CLICKHOUSE | {"JSON"}),
        "whose NULL it reads as 0 or '', in columns declared as not Nullable",
        "ClickHouse/ClickHouse#112580",
        when="nulls",
    ),
    Hazard(
        *(TRINO, None, None, frozenset({"UINT32"})),
        "if a table declares the column as BIGINT, because it has no unsigned integers",
        "trinodb/trino#30544",
    ),
    Hazard(
        *(TRINO, None, None, _ALL_KINDS),
        "if the table declares another type than the file has",
        "trinodb/trino#30544",
        when="other type",
    ),
    Hazard(
        *("Doris", None, None, _ALL_KINDS),
        "in files of several row groups",
        "apache/doris#65487",
        is_reported=True,
    ),
    Hazard(
        *("StarRocks", "3.5.10", None, _ALL_KINDS),
        "in conditions with OR",
        "StarRocks/starrocks#69898",
        is_reported=True,
    ),
)


@cache
def releases(engine: str) -> dict[str, date | None]:
    """Return the releases of an engine that were tried, oldest first, and when they came out."""
    found: dict[str, date | None] = {}
    for one in _RELEASES.get(engine, "").split(","):
        version, _, day = one.strip().partition(" ")
        if version:
            found[version] = date.fromisoformat(day) if day else None
    return found


def known_engines() -> tuple[str, ...]:
    """Return the engines of which hazards, or none, are known."""
    return tuple(dict.fromkeys([*_RELEASES, *(hazard.engine for hazard in HAZARDS)]))


def is_known(leaf: LeafColumn) -> bool:
    """Return whether it was tried what engines make of filters on columns of this kind."""
    return _column_kind(leaf) in _USERS


def hazards(footer: Footer, leaf: LeafColumn, table_leaf: LeafColumn | None = None) -> tuple[Hazard, ...]:
    """Return what engines lose because of valid filters on a file's column, of which `table_leaf` is a table's type."""
    kind = _column_kind(leaf)
    return tuple(one for one in HAZARDS if kind in one.kinds and _is_there(one.when, footer, leaf, table_leaf))


def _is_there(when: When, footer: Footer, leaf: LeafColumn, table_leaf: LeafColumn | None) -> bool:
    match when:
        case "always":
            return True
        case "some files":
            return not leaf.is_repeated
        case "nulls":
            return not leaf.is_repeated and may_have_nulls(footer, leaf)
        case "other type":
            return table_leaf is not None and _hashes_otherwise(table_leaf, leaf)


def _hashes_otherwise(table_leaf: LeafColumn, leaf: LeafColumn) -> bool:
    """Return whether Trino hashes a value of the table's type where the filter has the file's.

    Trino 483 does so unless the table's type is a decimal or a time (trinodb/trino#30544).
    """
    own = table_leaf.logical_type
    return (
        leaf.physical_type in _NUMBERS
        and table_leaf.physical_type is not leaf.physical_type
        and (own is None or own.name not in ("DECIMAL", "TIME", "TIMESTAMP"))
    )


def hazards_of_filter(num_bytes: int, *, has_length: bool) -> Iterator[str]:
    """Yield a sentence for each engine that fails, or gives wrong answers, because of a filter's size or place."""
    if num_bytes & (num_bytes - 1):
        yield "Arrow C++ and older ClickHouse reject a bitset whose size is not a power of two"
        yield "Impala misreads a bitset whose size is not a power of two"
    elif num_bytes < 64:
        yield "Impala needs a bitset of at least 64 bytes"
    if num_bytes > 128 * 1024 * 1024:
        yield "Arrow C++ and parquet-java reject a bitset over 128 MiB"
    if not has_length:
        yield "Spark and Iceberg with parquet-java 1.14.0 to 1.15.2 may lose rows when the length is missing"


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
        case "DECIMAL" if leaf.type_length is not None and leaf.type_length < 16:
            return f"DECIMAL {physical} under 16 bytes"
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
