"""A sample of the main job on a small file that it makes: what `parquet-bloom demo` prints."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parquet_bloom.verbs.add import add
from parquet_bloom.verbs.drop import drop
from parquet_bloom.verbs.inspect import inspect
from parquet_bloom.verbs.probe import probe
from parquet_bloom.verbs.verdicts import CANNOT_MATCH
from parquet_bloom.verbs.verify import verify

ROWS, ROW_GROUPS = 200_000, 10


def demo(directory: str | None = None) -> Iterator[str]:
    """Yield the lines of a walk through inspect, add, probe, verify and drop on a sample of 200,000 rows.

    It takes seconds.

    Args:
        directory: Is made, and the sample is left there. By default the sample is removed at the end.

    Yields:
        Lines of text.

    Raises:
        FileExistsError: There is something at `directory` already.

    Examples:
        >>> print(next(parquet_bloom.demo()))
        1. A plain file: 200,000 rows, 10 row groups, ... bytes, 0 filters.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parquet-bloom-")))
        else:
            folder = Path(directory)
            folder.mkdir(parents=True)
        path = folder / "events.parquet"
        ids = _write_sample(path)
        yield from _walk(path, present=ids[123_456], absent="0" * 32)
        if directory is not None:
            yield f"The sample is {path}."


def _write_sample(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    dice = random.Random(1970)
    ids = [f"{dice.getrandbits(128):032x}" for _ in range(ROWS)]
    table = pa.table({"id": ids, "amount": [dice.random() for _ in range(ROWS)]})
    pq.write_table(table, path, row_group_size=ROWS // ROW_GROUPS, compression="zstd")
    return ids


def _walk(path: Path, *, present: str, absent: str) -> Iterator[str]:
    original = path.read_bytes()
    count = len(inspect(path).rows)
    yield f"1. A plain file: {ROWS:,} rows, {ROW_GROUPS} row groups, {len(original):,} bytes, {count} filters."
    yield from _row_groups_read("   ", path, present)

    (added,) = add(path, "id").rows
    share = added.bytes_added / added.size
    yield f"2. parquet-bloom add -c id: {len(added.filters)} filters, {added.bytes_added:,} bytes more ({share:.1%})."
    rate = max(f.fpp for f in added.filters)
    unchanged = path.read_bytes().startswith(original)
    yield f"   False positives at most {rate:.2%}; the old file is the new one's beginning: {unchanged}."

    for step, name, key in (("3.", "present", present), ("  ", "absent", absent)):
        answers = probe(path, "id", key).rows
        pruned = sum(a.answer == CANNOT_MATCH for a in answers)
        yield f"{step} probe id {key[:8]}… ({name}): {pruned} of {len(answers)} row groups cannot match."
    yield from _row_groups_read("   ", path, present)

    verified = verify(path)
    values = sum(row.num_values for row in verified.rows)
    yield f"4. verify: {values:,} values probed, {sum(row.num_missing for row in verified.rows)} missing."

    drop(path, restore=True)
    yield f"5. drop --restore: the original again, byte for byte: {path.read_bytes() == original}."
    add(path, "id")


def _row_groups_read(indent: str, path: Path, key: str) -> Iterator[str]:
    """Yield what DuckDB reads for `id = key`, if it is installed."""
    try:
        import duckdb
    except ImportError:
        return
    connection: Any = duckdb.connect()
    with connection:
        query = "EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM read_parquet(?) WHERE id = ?"
        text = connection.execute(query, [str(path), key]).fetchall()[0][1]
        if (scanned := _find(text, "row_groups_scanned")) is not None:
            yield f"{indent}DuckDB, SELECT * WHERE id = '{key[:8]}…': {scanned} of {ROW_GROUPS} row groups read."


def _find(text: str, name: str) -> Any:
    import json

    def search(node: Any) -> Any:
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        if isinstance(node, dict) and name in node:
            return node[name]
        return next((inner for child in children if (inner := search(child)) is not None), None)

    return search(json.loads(text))
