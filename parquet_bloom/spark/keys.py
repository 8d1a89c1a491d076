"""Sends keys to the executors: in parts, each once, and as types that Spark has."""

from __future__ import annotations

import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from parquet_bloom.errors import ColumnNotFoundError
from parquet_bloom.spark.conditions import quoted_name
from parquet_bloom.spark.session import is_connect
from parquet_bloom.spark.tasks import packed_batches, to_arrow
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.values.interchange import python_values
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.reading_keys import read_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


BROADCAST_BYTES = 64 * 1024 * 1024
"""The most bytes of one broadcast's keys, in Arrow's layout."""


# ---- a DataFrame of keys -----------------------------------------------------------------


def evaluated_once(keys: DataFrame, name: str) -> Keys | DataFrame:
    """Return the column of keys as it is now: a DataFrame may have other rows when it is evaluated again.

    Few keys come to the driver. More stay with the executors, without the plan that they came from: if an executor that
    has some is lost, what uses them fails. They are freed when nothing uses the result any more.
    """
    only = only_column(keys, name)
    if _is_expected(only, most=_FEW_BYTES):
        return read_keys(to_arrow(only).column(0), name)
    return only.localCheckpoint()


_FEW_BYTES = 4 * 1024 * 1024
"""What the driver fetches and sends again faster than executors keep it."""


# ---- keys, in parts that can be broadcast ------------------------------------------------


def key_parts(spark: SparkSession, keys: Any, name: str, limit: int) -> Iterator[Keys]:
    """Yield the keys in parts of about `limit` bytes, each sorted where Arrow can; at least one part."""
    found = _collected(keys, name, limit) if is_frame(keys) else iter([read_keys(keys, name)])
    for some in found:
        whole = _sorted(some)
        count = -(-whole.shown.nbytes // max(1, limit)) or 1
        size = max(1, -(-len(whole) // count))
        for start in range(0, max(1, len(whole)), size):
            yield whole if count == 1 else _slice(whole, start, size)


def is_frame(keys: Any) -> bool:
    """Return whether the keys are a DataFrame."""
    return hasattr(keys, "sparkSession")


def _slice(keys: Keys, start: int, size: int) -> Keys:
    import pyarrow as pa

    shown = pa.concat_arrays([keys.shown.slice(start, size)])
    literals = shown if keys.literals is keys.shown else keys.literals[start : start + size]
    return Keys(shown, literals, keys.is_exact, keys.are_text)


def _sorted(keys: Keys) -> Keys:
    """Return the keys in order: else every task would sort them, and neighbours are in fewer row groups."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.literals is not keys.shown:
        return keys
    try:
        shown = pc.take(keys.shown, pc.array_sort_indices(keys.shown))
    except pa.ArrowNotImplementedError:
        return keys
    return Keys(shown, shown)


def _collected(keys: DataFrame, name: str, limit: int) -> Iterator[Keys]:
    """Yield the keys of a DataFrame, which is run once; the driver never holds much more than `limit` bytes of them."""
    import pyarrow as pa

    if _is_expected(keys, most=4 * limit):
        yield read_keys(to_arrow(only_column(keys, name)).column(0), name)
        return
    packed = only_column(keys, name).mapInArrow(packed_batches, "batch binary").persist()
    try:
        total = packed.selectExpr("sum(octet_length(batch))").first()[0] or 0  # type: ignore[index]
        waiting: list[Any] = []
        for row in packed.collect() if total <= 2 * limit else packed.toLocalIterator():
            waiting.append(pa.ipc.open_stream(bytes(row[0])).read_all().column(0))
            if sum(values.nbytes for values in waiting) >= limit and total > limit:
                yield _of_chunks(waiting)
                waiting = []
        if waiting:
            yield _of_chunks(waiting)
        elif not total:
            yield _of_chunks([pa.chunked_array([], _arrow_type(keys, name))])
    finally:
        packed.unpersist()


def _is_expected(keys: DataFrame, *, most: int) -> bool:
    """Return whether Spark expects the keys to take at most so many bytes; it is faster to collect few."""
    try:
        expected = keys._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        return int(str(expected)) <= most
    except Exception:  # there is no JVM at hand, or it has other methods
        return False


def _of_chunks(chunks: list[Any]) -> Keys:
    import pyarrow as pa

    (kind,) = {values.type for values in chunks}
    return read_keys(pa.chunked_array([piece for values in chunks for piece in values.chunks], kind), "")


def only_column(keys: DataFrame, name: str) -> DataFrame:
    """Return the column of keys alone."""
    if name in keys.columns:
        return keys.select(quoted_name(name))
    if len(keys.columns) == 1:
        return keys
    raise ColumnNotFoundError(name, keys.columns, where="the DataFrame of keys")


def _arrow_type(keys: DataFrame, name: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(only_column(keys, name).schema).field(0).type


@dataclass
class KeyPart:
    """Keys as they are sent, and as types that Spark has; each Python that receives them encodes them by column."""

    keys: Keys
    shown: pa.Array


class ShippedKeys(Protocol):
    """Keys that were sent: `value` is the same object for all tasks of a Python."""

    @property
    def value(self) -> KeyPart:
        """Return the keys."""


def ship_keys(spark: SparkSession, part: KeyPart) -> ShippedKeys:
    """Return keys as they travel to the executors."""
    if not is_connect(spark):
        shipped: ShippedKeys = spark.sparkContext.broadcast(part)
        return shipped
    name = f"parquet-bloom-{uuid.uuid4()}.keys"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)  # noqa: PTH118
        with open(path, "wb") as file:  # noqa: PTH123
            pickle.dump(part, file)
        spark.addArtifacts(path, file=True)
    return _Artifact(name)


@dataclass(frozen=True)
class _Artifact:
    """Keys in a file that a Connect session has given to its executors."""

    name: str

    @property
    def value(self) -> KeyPart:
        from pyspark import SparkFiles

        if self.name not in _LOADED:
            _LOADED.clear()
            with open(SparkFiles.get(self.name), "rb") as file:  # noqa: PTH123
                _LOADED[self.name] = pickle.load(file)
        return _LOADED[self.name]


_LOADED: dict[str, KeyPart] = {}


def as_spark_shows(shown: pa.Array) -> pa.Array:
    """Return the keys as an array whose type Spark has, of the same values; else as text."""
    typed = as_spark_type(shown)
    return _as_text(shown) if typed is None else typed


def as_spark_type(shown: pa.Array) -> pa.Array | None:
    """Return the keys as an array that Spark compares as the same values, or None: it has no nanoseconds, say."""
    import pyarrow as pa

    if isinstance(shown, pa.ExtensionArray):
        shown = shown.storage
    kind, types = shown.type, pa.types
    target = next((to for known, to in _likes() if kind == known), kind)
    if types.is_timestamp(kind):
        target = pa.timestamp("us", kind.tz)
    elif types.is_time(kind):
        target = pa.time64("us")
    elif types.is_fixed_size_binary(kind):
        target = pa.binary()
    elif types.is_decimal256(kind) or (types.is_decimal(kind) and kind.scale < 0):
        target = _decimal_of_spark(kind)
    try:
        same = shown if target == kind else shown.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return _as_text(same) if types.is_time(kind) else same  # which every version of Spark reads


def _decimal_of_spark(kind: Any) -> pa.DataType:
    import pyarrow as pa

    scale = min(max(kind.scale, 0), 38)
    return pa.decimal128(min(kind.precision - min(kind.scale, 0), 38), scale)


def _likes() -> list[tuple[pa.DataType, pa.DataType]]:
    import pyarrow as pa

    return [
        *((pa.large_string(), pa.string()), (pa.string_view(), pa.string()), (pa.null(), pa.string())),
        *((pa.large_binary(), pa.binary()), (pa.binary_view(), pa.binary()), (pa.date64(), pa.date32())),
        *((pa.uint8(), pa.int16()), (pa.uint16(), pa.int32()), (pa.uint32(), pa.int64())),
        *((pa.uint64(), pa.decimal128(20, 0)), (pa.float16(), pa.float32())),
    ]


def _as_text(shown: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else literal_text(value) for value in python_values(shown)], pa.string())
