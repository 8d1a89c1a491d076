"""What the page says of each engine: where it comes from, and how its use of filters was seen."""

from __future__ import annotations

ROWS = "rows"
OURS = "rows; our program asks the library's own check, row group by row group"

ENGINES: dict[str, dict[str, str]] = {
    "DuckDB": {
        "package": "duckdb, PyPI",
        "reads": f"{ROWS}; `row_groups_scanned` of `EXPLAIN (ANALYZE, FORMAT json)`",
        "writes": "`DICTIONARY_SIZE_LIMIT 1000000`, each value ten times: only dictionaries get filters",
    },
    "DataFusion": {
        "package": "datafusion, PyPI",
        "reads": f"{ROWS}; `row_groups_pruned_bloom_filter` of `EXPLAIN ANALYZE`",
        "writes": "`format.bloom_filter_on_write`",
    },
    "ClickHouse": {
        "package": "chdb, PyPI",
        "reads": f"{ROWS}; `ParquetReadPages` of `system.events`, with dictionaries not used to prune",
        "writes": "on by default",
    },
    "Spark": {
        "package": "pyspark, PyPI",
        "reads": f"{ROWS}; `numOutputRows` of the scan",
        "writes": "`parquet.bloom.filter.enabled`, without dictionaries",
    },
    "parquet-java": {
        "package": "the jars of pyspark, PyPI",
        "reads": f"{ROWS}, with a `FilterPredicate`; the row groups that `ParquetFileReader` keeps",
        "writes": "`withBloomFilterEnabled`, without dictionaries",
    },
    "Trino": {
        "package": "io.trino:trino-parquet, Maven",
        "reads": f"{ROWS}, with a `TupleDomainParquetPredicate`; the row groups that it keeps",
    },
    "hyparquet": {
        "package": "hyparquet, npm",
        "reads": f"{ROWS}, with `useBloomFilters: true`; bytes that are read",
    },
    "rugo": {"package": "rugo, PyPI", "reads": ROWS, "writes": "`bloom_filters=`"},
    "Polars": {"package": "polars, PyPI", "reads": ROWS},
    "pyarrow": {"package": "pyarrow, PyPI", "reads": f"{ROWS}, by a dataset", "writes": "`bloom_filter_options=`"},
    "delta-rs": {"package": "deltalake, PyPI", "writes": "`BloomFilterProperties`"},
    "arrow-rs": {
        "package": "parquet, crates.io",
        "reads": OURS,
        "writes": "`set_column_bloom_filter_enabled`, without dictionaries",
    },
    "parquet-go": {"package": "github.com/parquet-go/parquet-go", "reads": OURS, "writes": "`parquet.BloomFilters`"},
    "arrow-go": {
        "package": "github.com/apache/arrow-go/v18",
        "reads": OURS,
        "writes": "`WithBloomFilterEnabledFor`, without dictionaries",
    },
}
"""In the order of the tables' columns."""

LIBRARIES = ("arrow-rs", "parquet-go", "arrow-go")
"""They have no scan that prunes by filters: whoever uses them asks."""

LONGEST = 300
"""The largest number of values that is tried in an `IN`."""
