"""Polars, which uses no filters, reads all rows of what we retrofitted."""

from __future__ import annotations

import polars as pl
import pytest
from kinds import footer_of
from samples import FIXTURES, SOUND, named

pytestmark = pytest.mark.engines

# Polars fails on these whatever the filters.
POLARS_CANNOT = {
    "clickhouse/all_types.parquet": ["binary", "large_binary", "decimal60"],  # bytes that ClickHouse calls strings
    "clickhouse/plain_types.parquet": ["binary", "large_binary", "decimal60"],
    "datafusion/all_types.parquet": ["decimal60"],
    "datafusion/plain_types.parquet": ["float16", "fixed5", "uuid", "decimal38", "decimal60"],  # their encoding
    "pyarrow/all_types.parquet": ["decimal60"],
    "pyarrow/encodings.parquet": ["fixed5"],
    "pyarrow/plain_types.parquet": ["decimal60"],
    "pyarrow/spark_types.parquet": ["decimal60"],
}


# It panics on a file with an INTERVAL.
POLARS_PANICS = ("duckdb/all_types.parquet", "duckdb/plain_types.parquet")


@pytest.mark.parametrize("entry", named(entry for entry in SOUND if entry["file"] not in POLARS_PANICS))
def test_polars_reads_all_rows(retrofitted, entry):
    file = entry["file"]
    unreadable = POLARS_CANNOT.get(file, ())
    for column in unreadable:
        with pytest.raises(pl.exceptions.PolarsError):
            pl.read_parquet(FIXTURES / file, columns=[column])
    top_level = dict.fromkeys(leaf.path[0] for leaf in footer_of(FIXTURES / file).leaves)
    columns = [column for column in top_level if column not in unreadable]
    before, after = (pl.read_parquet(path, columns=columns) for path in (FIXTURES / file, retrofitted(file)))
    assert after.height == entry["rows"]
    assert after.equals(before, null_equal=True)
