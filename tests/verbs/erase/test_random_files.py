"""Random schemas, settings and keys: the result is DuckDB's anti join of the old file with the keys."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from parquet_bloom import add, erase, lookup, verify

pytestmark = pytest.mark.engines

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), st.integers(-5, 5)),
    "unsigned": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "texts": (pa.string(), st.text("abé", max_size=3)),
    "bytes": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "booleans": (pa.bool_(), st.booleans()),
}


def nested(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Draws a type with its values, which may be null at every level."""
    leaves = st.sampled_from([(kind, st.none() | values) for kind, values in VALUES.values()])
    if depth == 0:
        return leaves
    below = nested(depth - 1)
    lists = below.map(lambda of: (pa.list_(of[0]), st.none() | st.lists(of[1], max_size=3)))
    structs = st.tuples(below, below).map(
        lambda both: (
            pa.struct([("x", both[0][0]), ("y", both[1][0])]),
            st.none() | st.fixed_dictionaries({"x": both[0][1], "y": both[1][1]}),
        )
    )
    return leaves | lists | structs


OPTIONS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4", "brotli"]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "version": st.sampled_from(["1.0", "2.6"]),
        "use_dictionary": st.booleans(),
        "write_page_index": st.booleans(),
        "write_page_checksum": st.booleans(),
        "write_statistics": st.booleans(),
        "data_page_size": st.sampled_from([64, 2**20]),
        "write_batch_size": st.sampled_from([1, 1024]),
        "row_group_size": st.integers(1, 20),
    }
)


@settings(max_examples=40)
@given(st.data())
def test_what_is_left_is_an_anti_join(data: st.DataObject) -> None:
    kind, key_values = VALUES[data.draw(st.sampled_from(["integers", "unsigned", "texts"]))]
    rows = data.draw(st.lists(st.none() | key_values, max_size=40))
    other, values = data.draw(nested(2))
    table = pa.table(
        {
            "number": pa.array(range(len(rows)), pa.int32()),
            "key": pa.array(rows, kind),
            "other": pa.array([data.draw(values) for _ in rows], other),
        }
    )
    present = [row for row in rows if row is not None]
    keys = data.draw(st.lists(st.sampled_from(present) | key_values if present else key_values, max_size=5))
    options = data.draw(OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.parquet"
        pq.write_table(table, file, **options)
        if data.draw(st.booleans()):
            add(file, ["key", "number"])
        try:
            before = pq.read_table(file)
        except pa.ArrowInvalid:  # pyarrow cannot read some of its own nested booleans in pages of version 2
            reject()
        gone = pa.table({"key": pa.array(keys, kind)})
        query = f"SELECT number FROM '{file}' ANTI JOIN gone USING (key) ORDER BY number"
        left = [number for (number,) in duckdb.sql(query).fetchall()]
        assert gone.num_rows == len(keys)

        erased = erase(file, "key", gone)

        assert erased.errors == ()
        assert erased.rows_erased == len(rows) - len(left)
        assert file.exists() or not left
        if file.exists():
            assert pq.read_table(file).equals(before.take(pa.array(left, pa.int64())))
            assert duckdb.sql(f"SELECT number FROM '{file}' ORDER BY number").fetchall() == [(n,) for n in left]
            assert verify(file).is_sound
            remaining = [row for row in {*rows} - {*keys} if row is not None]
            found = lookup(file, "key", pa.array(remaining, kind)).to_arrow()
            assert None not in found["path"].to_pylist()
        assert list(Path(folder).iterdir()) in ([], [file])
