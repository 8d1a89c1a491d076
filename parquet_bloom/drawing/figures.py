"""The numbers that the pictures show: the filters of each column, and long rows of cells cut down to what can be seen.

What is taken are the records of `inspect`, `verify` and `prune`, as they are.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from parquet_bloom.results import count_text, printable

_T = TypeVar("_T")

PARQUET = "Parquet"
_INFINITE = float("inf")
ENGINES = ("ClickHouse", "DataFusion", "DuckDB", "Spark")
"""Those that `inspect` knows the rules of, in its order."""


@dataclass(slots=True)
class Stored:
    """What footers say of all columns, also of those without filters."""

    num_bytes: dict[str, int] = field(default_factory=dict)
    num_chunks: dict[str, int] = field(default_factory=dict)
    num_files: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    columns_of: dict[str, frozenset[str]] = field(default_factory=dict)
    _same: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def note(self, path: str, columns: Iterable[tuple[str, str, int, int]]) -> None:
        """Take up a file: of each column the name, the type, the number of chunks and their compressed bytes."""
        names = set()
        for name, kind, num_chunks, num_bytes in columns:
            names.add(name)
            self.num_bytes[name] = self.num_bytes.get(name, 0) + num_bytes
            self.num_chunks[name] = self.num_chunks.get(name, 0) + num_chunks
            self.num_files[name] = self.num_files.get(name, 0) + 1
            self.types.setdefault(name, kind)
        whole = frozenset(names)
        self.columns_of[path] = self._same.setdefault(whole, whole)


class Ranked(NamedTuple):
    """A filter, its place among all (0 is the worst), and what `verify` found of it, if that was asked."""

    number: int
    info: Any
    verified: Any | None

    @property
    def note(self) -> str | None:
        """What is wrong with it, or why it is not used."""
        verified = self.verified
        if verified is not None and verified.num_missing:
            return (
                f"{count_text(verified.num_missing, 'value')} missing{f': {verified.cause}' if verified.cause else ''}"
            )
        cause = None if verified is None or verified.verdict == "ok" else verified.cause
        return self.info.problem or cause or self.info.untrusted  # type: ignore[no-any-return]

    @property
    def is_bad(self) -> bool:
        """Whether it is damaged, or lacks a value."""
        return bool(self.info.problem) or (self.verified is not None and self.verified.verdict != "ok")


class Spread(NamedTuple):
    """The smallest, the middle and the largest of some numbers."""

    low: float
    middle: float
    high: float


@dataclass(eq=False)
class Column:
    """The filters of one column and format; `num_bytes_of_data` and `num_chunks` are None where no footer said so.

    Sums over the filters are remembered: ask for them when all filters are there.
    """

    name: str
    format: str
    type: str
    num_files: int | None
    num_chunks: int | None
    num_bytes_of_data: int | None
    filters: list[Ranked] = field(default_factory=list)
    _spreads: dict[str, Spread | None] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name, with the format unless that is the usual one."""
        return self.name if self.format == PARQUET else f"{self.name} ({self.format})"

    @cached_property
    def sized(self) -> list[Ranked]:
        """The filters whose size is known, which are those that could be read."""
        return [one for one in self.filters if one.info.num_bytes is not None]

    @cached_property
    def num_bytes(self) -> int:
        """The bytes of all its filters."""
        return sum(one.info.num_bytes for one in self.sized)

    @property
    def could_have(self) -> int | None:
        """The column chunks, or for filters of whole files the files, that could have a filter."""
        return self.num_chunks if self.format == PARQUET else self.num_files

    def spread(self, name: str) -> Spread | None:
        """Return how a number of the filters is spread, where it is known."""
        if name not in self._spreads:
            value = attrgetter(f"info.{name}")
            numbers = [number for one in self.filters if (number := value(one)) is not None]
            finite = sorted(number for number in numbers if number != _INFINITE)
            middle = statistics.median(finite) if finite else 0
            self._spreads[name] = Spread(finite[0], middle, finite[-1]) if finite else None
        return self._spreads[name]

    def num_used_by(self, engine: str) -> int:
        """Return how many of the filters an engine prunes with."""
        return sum(count for engines, count in self._users.items() if engine in engines)

    @cached_property
    def _users(self) -> Counter[tuple[str, ...]]:
        return Counter(one.info.used_by for one in self.filters)

    @cached_property
    def hazards(self) -> tuple[str, ...]:
        """The warnings of all its filters, each once."""
        different = dict.fromkeys(one.info.hazards for one in self.filters)
        return tuple(dict.fromkeys(hazard for hazards in different for hazard in hazards))


def ranked(files: Iterable[Any], verification: Iterable[Any] | None = None) -> list[Ranked]:
    """Return all filters, the worst first: damaged, then lacking values, then by their real false-positive rate."""
    verdicts: Mapping[Any, Any] = {
        (row.path, row.row_group, row.column, row.format): row for file in verification or () for row in file.filters
    }

    def badness(info: Any) -> tuple[bool, bool, float]:
        if not verdicts:
            return bool(info.problem), False, info.fpp or 0.0
        verified = verdicts.get((info.path, info.row_group, info.column, info.format))
        return bool(info.problem), verified is not None and verified.verdict != "ok", info.fpp or 0.0

    filters = sorted((info for file in files for info in file.filters), key=badness, reverse=True)
    if not verdicts:
        return [Ranked(number, info, None) for number, info in enumerate(filters)]
    return [
        Ranked(number, info, verdicts.get((info.path, info.row_group, info.column, info.format)))
        for number, info in enumerate(filters)
    ]


def columns_of(filters: Iterable[Ranked], stored: Stored | None) -> list[Column]:
    """Return the columns, those with the most bytes of filters first, then those without."""
    columns: dict[tuple[str, str], Column] = {}
    for one in filters:
        key = one.info.column, one.info.format
        if key not in columns:
            columns[key] = _column(*key, one.info.type, stored)
        columns[key].filters.append(one)
    for name, kind in stored.types.items() if stored else ():
        columns.setdefault((name, PARQUET), _column(name, PARQUET, kind, stored))
    return sorted(columns.values(), key=lambda column: (-column.num_bytes, -len(column.filters)))


def _column(name: str, form: str, kind: str, stored: Stored | None) -> Column:
    if stored is None:
        return Column(name, form, kind, None, None, None)
    return Column(name, form, kind, stored.num_files.get(name), stored.num_chunks.get(name), stored.num_bytes.get(name))


class Bucket(NamedTuple, Generic[_T]):
    """What one cell of a picture shows: the numbers `first` to `last` of a sequence."""

    place: int
    first: int
    last: int
    items: Sequence[_T]


def buckets(items: Sequence[_T], most: int) -> Iterator[Bucket[_T]]:
    """Yield a sequence in at most so many runs of the same length, but for the last."""
    length = max(1, -(-len(items) // most))
    for place, first in enumerate(range(0, len(items), length)):
        run = items[first : first + length]
        yield Bucket(place, first, first + len(run) - 1, run)


def labels(names: Iterable[str], most: int) -> list[str]:
    """Return short texts for names, which differ where the names do; the end of a path says more than its middle."""
    seen: dict[str, int] = {}
    short = []
    for name in names:
        text = shortened(printable(name), most)
        seen[text] = seen.get(text, 0) + 1
        short.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return short


def shortened(text: str, most: int) -> str:
    """Return a text with its middle left out if it is long."""
    return text if len(text) <= most else f"{text[: most // 3]}…{text[len(text) - (most - most // 3 - 1) :]}"


def mean(numbers: Iterable[float]) -> float | None:
    """Return the mean of what is there."""
    known = list(numbers)
    return statistics.fmean(known) if known else None


def by_chunk(columns: Iterable[Column]) -> dict[tuple[str, int | None, str], Ranked]:
    """Return the filters by path, row group and the label of their column."""
    return {(one.info.path, one.info.row_group, column.label): one for column in columns for one in column.filters}
