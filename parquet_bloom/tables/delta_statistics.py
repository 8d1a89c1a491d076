"""Statistics that a checkpoint holds as structs (`delta.checkpoint.writeStatsAsStruct`), as the log's JSON has them.

Each value is written as the log writes its type: decimals with all their digits, dates and times in ISO 8601 with three
digits below the second or, where a value has more, six, times in UTC with a Z, and what JSON has no number for as text.
What cannot be written so, such as a year of five digits, is left out: a bound that is missing excludes nothing. So are
moments in a checkpoint of deltalake, which reads those of delta-spark, INT96, as nanoseconds: 1500 becomes 2084 there,
also in the JSON that it makes of structs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

_COLUMN = ("add", "stats_parsed")


def statistics_texts(checkpoint: Any, read: Callable[[Sequence[str]], Any]) -> Callable[[int], str | None]:
    """Return a function: row of a checkpoint (a `pyarrow.parquet.ParquetFile`) -> its statistics as JSON, or None."""
    import pyarrow as pa

    paths = [checkpoint.schema.column(i).path for i in range(len(checkpoint.schema))]
    if not any(path.startswith(".".join(_COLUMN) + ".") for path in paths):
        return lambda row: None
    # An INT96 is a moment, although nothing in the file says so.
    moments = {paths[i] for i in range(len(paths)) if checkpoint.schema.column(i).physical_type == "INT96"}
    has_moments = not is_by_deltalake(checkpoint)
    adds = read([".".join(_COLUMN)]).column("add").combine_chunks()
    if isinstance(adds, pa.ChunkedArray):  # as older versions of pyarrow have it
        adds = pa.concat_arrays(adds.chunks)
    (parsed,) = adds.flatten()
    texts: list[str | None] | None = None

    def text(row: int) -> str | None:
        nonlocal texts
        if texts is None:
            texts = _texts(parsed, ".".join(_COLUMN), moments if has_moments else None)
        return texts[row]

    return text


def is_by_deltalake(checkpoint: Any) -> bool:
    """Return whether deltalake may have written a checkpoint."""
    return (checkpoint.metadata.created_by or "").startswith("parquet-rs")


def is_derived(text: str) -> bool:
    """Return whether deltalake has made this JSON of structs: then, and only then, counts of nulls come before bounds.

    >>> is_derived('{"numRecords":1,"nullCount":{"a":0},"minValues":{"a":1},"maxValues":{"a":1}}')
    True
    """
    return -1 < text.find('"nullCount":') < text.find('"minValues":')


def without_moments(text: str) -> str:
    """Return statistics without bounds that are points in time, or look like one.

    >>> without_moments('{"minValues":{"t":"2084-07-20T23:34:33.709Z","d":"2020-02-29"}}')
    '{"minValues":{"t":null,"d":"2020-02-29"}}'
    """
    return _MOMENT.sub("null", text)


_MOMENT = re.compile(r'(?<=":)"[-+]?\d{4,}-\d\d-\d\d[T ][0-9:.]+(?:Z|[-+][0-9:]+)"', re.ASCII)


def _texts(array: Any, path: str, moments: set[str] | None) -> list[str | None]:
    """Return the JSON of each value of an array, None where there is none.

    `moments` are the paths of moments that do not look so; None where no moment is to be believed.
    """
    import pyarrow as pa

    if not pa.types.is_struct(array.type):
        is_moment = path in (moments or ()) or bool(getattr(array.type, "tz", None))
        of_type = None if is_moment and moments is None else _writer(array, is_moment)
        return [None] * len(array) if of_type is None else [None if v is None else of_type(v) for v in _plain(array)]
    names = [json.dumps(field.name, ensure_ascii=False) for field in array.type]
    children = [
        _texts(child, f"{path}.{field.name}", moments) for field, child in zip(array.type, array.flatten(), strict=True)
    ]
    texts: list[str | None] = []
    for row, is_valid in enumerate(array.is_valid().to_pylist()):
        members = (f"{name}:{child[row]}" for name, child in zip(names, children, strict=True) if child[row])
        texts.append(f"{{{','.join(members)}}}" if is_valid else None)
    return texts


def _plain(array: Any) -> Iterable[Any]:
    """Return an array's values for `_writer`; dates and times as numbers, because Python's end with the year 9999."""
    import pyarrow as pa

    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_float32(array.type):
        array = array.cast(pa.string())  # the shortest text for a FLOAT; that for the same DOUBLE is longer
    values: list[Any] = array.to_pylist()
    return values


def _writer(array: Any, is_moment: bool) -> Callable[[Any], str | None] | None:
    """Return a function that writes the values of an array's type as JSON; None if the log has no text for them."""
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_timestamp(kind):
        return lambda value: json_time(value, "Z" if is_moment else "")
    for is_kind, write in (
        (types.is_integer, str),
        (types.is_boolean, lambda value: "true" if value else "false"),
        (types.is_float32, lambda value: _number(float(value), value)),
        (types.is_float64, lambda value: _number(value, repr(value))),
        (types.is_decimal, _decimal),
        (types.is_string, json_text),
        (types.is_large_string, json_text),
        (types.is_string_view, json_text),
        (types.is_date32, json_date),
    ):
        if is_kind(kind):
            typed: Callable[[Any], str | None] = write
            return typed
    return None


def _number(value: float, text: str) -> str:
    if value != value:
        return '"NaN"'
    return text if abs(value) != float("inf") else '"Infinity"' if value > 0 else '"-Infinity"'


def json_float(value: float, *, is_single: bool) -> str:
    """Return a FLOAT or a DOUBLE as the log's JSON has it."""
    import pyarrow as pa

    return _number(value, pa.scalar(value, pa.float32()).cast(pa.string()).as_py() if is_single else repr(value))


def json_text(value: str) -> str:
    """Return a text as the log's JSON has it."""
    return json.dumps(value, ensure_ascii=False)


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def json_date(days: int) -> str | None:
    """Return a date as the log's JSON has it, None if it has no text for the year."""
    try:
        return f'"{(EPOCH + timedelta(days=days)).date().isoformat()}"'
    except OverflowError:
        return None


def json_time(micros: int, zone: str) -> str | None:
    """Return a time as the log's JSON has it, None if it has no text for the year."""
    try:
        moment = EPOCH.replace(tzinfo=None) + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return f'"{moment.isoformat(timespec="microseconds" if micros % 1000 else "milliseconds")}{zone}"'


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

__all__ = [
    "EPOCH",
    "is_by_deltalake",
    "is_derived",
    "json_date",
    "json_float",
    "json_text",
    "json_time",
    "statistics_texts",
    "without_moments",
]
