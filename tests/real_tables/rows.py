"""Rows that tables are made of: one number of its own in each row that is ever written, and columns of many types."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RID = 1 << 40
"""The least of the rows' own numbers. No other column holds numbers as large, whatever the column is called."""

SCHEMA = pa.schema(
    [
        ("rid", pa.int64()),
        ("k", pa.int64()),
        ("s", pa.string()),
        ("n", pa.int32()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("e", pa.float32()),
        ("b", pa.bool_()),
        ("p", pa.string()),
        ("st", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)

PARTS = ["x", "a b", "ü/é%", None]
_ZERO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Rows:
    """Makes rows, the same ones for the same seed; no two have one number."""

    def __init__(self, seed: int, scratch: Path, first: int = RID) -> None:
        self._rng, self._scratch = random.Random(seed), scratch
        self._numbers, self._files = itertools.count(first), itertools.count()

    def row(self, batch: int, key: int | None = None) -> dict[str, Any]:
        """Return a row; `n` and `day` grow by the batch, so that least and greatest values say something."""
        rng = self._rng
        missing = rng.random() < 0.06
        return {
            "rid": next(self._numbers),
            "k": rng.randrange(3000) * 7 if key is None else key,
            "s": None if missing else self.text(),
            "n": None if rng.random() < 0.04 else batch * 60 + rng.randrange(90),
            "d": None if missing else decimal.Decimal(rng.randrange(-50_000, 50_000)).scaleb(-2),
            "day": datetime.date(1969, 11, 1) + datetime.timedelta(days=batch * 20 + rng.randrange(30)),
            "at": _ZERO + datetime.timedelta(microseconds=rng.randrange(-(10**14), 10**14)),
            "f": rng.choice([float("nan"), -0.0, 0.0, rng.randrange(400) / 8, -rng.random()]),
            "e": None if missing else rng.randrange(2000) / 4,
            "b": rng.choice([True, False, None]) if batch else True,
            "p": PARTS[(batch + rng.randrange(2)) % len(PARTS)],
            "st": None if rng.random() < 0.05 else {"a": rng.randrange(2000), "b": None if missing else self.text()},
        }

    def text(self) -> str:
        number = self._rng.randrange(500)
        return self._rng.choice([f"s{number}", f"S{number}", f"{number}", f"é{number}" * 12])

    def table(self, batch: int, count: int = 260, keys: range | list[int] | None = None) -> pa.Table:
        """Return rows, with these keys `k` if they are given."""
        if keys is not None:
            return pa.Table.from_pylist([self.row(batch, key) for key in keys], SCHEMA)
        return pa.Table.from_pylist([self.row(batch) for _ in range(count)], SCHEMA)

    def frame(self, spark: Any, batch: int, count: int = 260, keys: range | list[int] | None = None) -> Any:
        """Return the rows as a frame of one partition; it goes by a file, for which no Python worker is started."""
        path = self._scratch / f"{next(self._files)}.parquet"
        pq.write_table(self.table(batch, count, keys), path)
        return spark.read.parquet(str(path)).coalesce(1)
