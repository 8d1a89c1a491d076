"""Measures programs side by side, and keeps what they took for the tests and for `python -m tests.benchmarks`."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import sub, truediv
from typing import Any

OURS = "parquet_bloom"


@dataclass(frozen=True)
class Taken:
    """What a program took in each turn: seconds, and seconds of processors unless other processes did the work."""

    seconds: tuple[float, ...]
    processor: tuple[float, ...] | None = None

    def minus(self, other: Taken) -> Taken:
        return Taken(*(_pairs(sub, mine, theirs) for mine, theirs in self._with(other)))

    def each(self, count: int) -> Taken:
        """Returns what one of `count` equal parts took."""
        parts = [taken and tuple(one / count for one in taken) for taken in (self.seconds, self.processor)]
        return Taken(*parts)

    def ratio(self, other: Taken) -> float:
        """Returns the median of the turns' ratios: in a turn, the machine was as busy for one as for the other."""
        return self._ratios(other)[0]

    def processor_ratio(self, other: Taken) -> float | None:
        return (*self._ratios(other), None)[1]

    def _ratios(self, other: Taken) -> list[float]:
        return [statistics.median(_pairs(truediv, mine, theirs)) for mine, theirs in self._with(other)]

    def _with(self, other: Taken) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        both = [(self.seconds, other.seconds)]
        if self.processor and other.processor:
            both.append((self.processor, other.processor))
        return both


def _pairs(of: Callable[[float, float], float], mine: Iterable[float], theirs: Iterable[float]) -> tuple[float, ...]:
    return tuple(of(one, other) for one, other in zip(mine, theirs, strict=True))


@dataclass(frozen=True)
class Row:
    """One program's median beside ours; alone if `beside` is None. `x` is its place in the group's curve."""

    group: str
    work: str
    ours: str
    seconds: float
    processor: float | None
    turns: int
    beside: str | None = None
    their_seconds: float | None = None
    their_processor: float | None = None
    ratio: float | None = None
    processor_ratio: float | None = None
    x: int | None = None


@dataclass(frozen=True)
class Figure:
    """What is not a time beside another program's: bytes, requests, files."""

    group: str
    work: str
    value: float
    unit: str


class Bench:
    """The measurements of a run. A quick one is over a tenth of the data, in fewer turns, and fails nothing."""

    def __init__(self, *, repeat: int | None = None, is_quick: bool = False) -> None:
        self._repeat, self.is_quick = repeat, is_quick
        self.rows: list[Row] = []
        self.figures: list[Figure] = []

    def scaled(self, count: int) -> int:
        return count // 10 if self.is_quick else count

    def measure(
        self,
        calls: Mapping[str, Callable[[], object]],
        *,
        turns: int = 9,
        warm: int = 1,
        before: Callable[[], object] = lambda: None,
        processor: bool = True,
    ) -> dict[str, Taken]:
        """Returns what each call takes; they take turns, of which the first `warm` do not count.

        Nor does `before`, which comes before each call. `processor` is of this process and of those that end meanwhile.
        """
        turns = self._repeat or (min(turns, 2) if self.is_quick else turns)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for turn in range(-min(warm, turns), turns):
            for name, call in calls.items():
                before()
                start = time.perf_counter(), processor_seconds()
                call()
                end = time.perf_counter(), processor_seconds()
                if turn >= 0:
                    taken[name].append((end[0] - start[0], end[1] - start[1]))
        columns = {name: tuple(zip(*measured, strict=True)) for name, measured in taken.items()}
        return {name: Taken(seconds, used if processor else None) for name, (seconds, used) in columns.items()}

    def compare(
        self,
        group: str,
        work: str,
        ours: Mapping[str, Callable[[], object]],
        others: Mapping[str, Callable[[], object]],
        *,
        x: int | None = None,
        each: int = 1,
        **how: Any,
    ) -> dict[str, Taken]:
        """Returns what all the calls take, and keeps a row for each of ours beside each of the others."""
        measured = self.measure({**ours, **others}, **how)
        taken = {name: one.each(each) for name, one in measured.items()}
        for mine in ours:
            for theirs in others or [None]:
                self.row(group, work, mine, taken[mine], theirs, taken[theirs] if theirs else None, x=x)
        return taken

    def row(
        self,
        group: str,
        work: str,
        ours: str,
        taken: Taken,
        beside: str | None = None,
        theirs: Taken | None = None,
        *,
        x: int | None = None,
    ) -> None:
        turns = len(taken.seconds)
        row = Row(group, work, ours, statistics.median(taken.seconds), _median(taken.processor), turns, x=x)
        if theirs is not None:
            row = replace(
                row,
                beside=beside,
                their_seconds=statistics.median(theirs.seconds),
                their_processor=_median(theirs.processor),
                ratio=taken.ratio(theirs),
                processor_ratio=taken.processor_ratio(theirs),
            )
        self.rows.append(row)
        print(row_text(row))

    def figure(self, group: str, work: str, value: float, unit: str) -> None:
        self.figures.append(Figure(group, work, value, unit))
        print(f"{work}: {figure_text(value, unit)}")

    def expect(self, value: float, *, at_most: float) -> None:
        """Fails if a ratio or size is more than it should be, unless the run is too quick to tell."""
        assert self.is_quick or value <= at_most


def processor_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _median(values: tuple[float, ...] | None) -> float | None:
    return statistics.median(values) if values else None


# ---- as text -----------------------------------------------------------------------------


def row_text(row: Row) -> str:
    said = f"{row.work:<64} {row.ours}: {time_text(row.seconds)}"
    if row.beside is None:
        return said
    said += f"; {row.beside}: {time_text(row.their_seconds)}; ratio {ratio_text(row.ratio)}"
    return said if row.processor_ratio is None else f"{said}, of processor time {ratio_text(row.processor_ratio)}"


def time_text(seconds: float) -> str:
    """Returns two digits of a time, in the unit that fits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= 0.95 * size:
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds * 1e9)} ns"


def two_digits(value: float) -> str:
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:.1f}"


def ratio_text(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1 else two_digits(ratio)


def figure_text(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB" if value < 1e7 else f"{value / 1e6:,.0f} MB"
    if unit == "seconds":
        return time_text(value)
    return f"{value:,.0f} {unit}"
