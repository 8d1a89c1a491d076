"""What a table's own properties say of filters: which columns have them, and at what rate.

Iceberg's are `write.parquet.bloom-filter-enabled.column.<name>` and `write.parquet.bloom-filter-fpp.column.<name>`
(its documentation of table properties). Of other tables those count that Hudi and Paimon
pass on to parquet-java: `parquet.bloom.filter.enabled#<name>` and `parquet.bloom.filter.fpp#<name>` (its
ParquetOutputFormat). `parquet-bloom.readers` is our own.
"""

from __future__ import annotations

from collections.abc import Mapping

from parquet_bloom.errors import UnsupportedError

_ENABLED = "write.parquet.bloom-filter-enabled.column.", "parquet.bloom.filter.enabled#"
_FPP = "write.parquet.bloom-filter-fpp.column.", "parquet.bloom.filter.fpp#"


def filters_wanted(properties: Mapping[str, str]) -> dict[str, tuple[bool, float | None]]:
    """Return for each column that properties name whether it is to have filters, and their rate if they say so.

    Raises `UnsupportedError` if a value is not understood.
    """
    wanted: dict[str, tuple[bool, float | None]] = {}
    for name, value in properties.items():
        for enabled, fpp in zip(_ENABLED, _FPP, strict=True):
            if (column := name.removeprefix(enabled)) != name:
                given = properties.get(f"{fpp}{column}")
                wanted[column] = _as_bool(name, value), None if given is None else _as_rate(f"{fpp}{column}", given)
    return wanted


READERS = "parquet-bloom.readers"
"""The property that names the engines that read a table, such as `duckdb>=2,datafusion>=55`."""


def readers_property(properties: Mapping[str, str]) -> str | None:
    """Return the readers that a table's properties name, or None."""
    return properties.get(READERS)


def _as_bool(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise UnsupportedError(f"the table's property {name} is {value!r}, and not true or false")
    return value.strip().lower() == "true"


def _as_rate(name: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1:
        raise UnsupportedError(f"the table's property {name} is {value!r}, and not a rate between 0 and 1")
    return rate
