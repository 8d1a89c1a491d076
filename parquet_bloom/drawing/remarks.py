"""What to look at first: a sentence for each thing that is wrong, or that could be better, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from parquet_bloom.drawing.figures import PARQUET, Column, Ranked
from parquet_bloom.results import count_text, names_text, percent_text, printable, size_text

_LISTED = 5


class Remark(NamedTuple):
    """A sentence, how bad it is (`bad`, `warn` or `hint`), and the row that it is about."""

    level: str
    text: str
    link: str


def remarks(columns: Sequence[Column], files: Sequence[Any], fpp: float, advised: Sequence[Any]) -> list[Remark]:
    """Return what to look at; `columns`, `files` and `advised` are in the order of their tables."""
    every = [*_of_files(files)]
    for number, column in enumerate(columns):
        every += _of_column(column, f"c{number}")
    every += [*_of_rates(columns, fpp), *_of_hazards(columns), *_of_advice(advised)]
    return sorted(every, key=lambda one: ("bad", "warn", "hint").index(one.level))


def _of_files(files: Sequence[Any]) -> Iterator[Remark]:
    failed = [(number, file) for number, file in enumerate(files) if file.error]
    for number, file in failed[:_LISTED]:
        yield Remark("bad", f"{printable(file.path)}: {printable(file.error)}", f"p{number}")
    if len(failed) > _LISTED:
        more = count_text(len(failed) - _LISTED, "more file")
        yield Remark("bad", f"{more} could not be read.", f"p{failed[_LISTED][0]}")


def _of_column(column: Column, link: str) -> Iterator[Remark]:
    name = printable(column.label)
    bad = [one for one in column.filters if one.is_bad]
    if lacking := [one for one in bad if _lacks_values(one)]:
        yield Remark(
            "bad",
            f"{name}: {_lack(len(lacking))} values that are there, so engines that use filters lose rows. "
            "Build them again: parquet-bloom add --replace.",
            f"f{lacking[0].number}",
        )
    if broken := [one for one in bad if not _lacks_values(one)]:
        them = count_text(len(broken), "filter")
        yield Remark("bad", f"{name}: {them} cannot be used: {printable(broken[0].note or '')}", f"f{broken[0].number}")
    usable = _usable(column)
    folded = sum(one.info.folds_to or 0 for one in usable)
    if folded and column.num_bytes >= 4 * folded:
        yield Remark(
            "hint",
            f"{name}: the filters have {size_text(column.num_bytes)}, and {size_text(folded)} would do for a rate of "
            "1 %: parquet-bloom add --replace.",
            link,
        )
    ndv, values = column.spread("ndv"), column.spread("num_values")
    if usable and ndv and values and values.middle >= 1000 and ndv.high < values.middle / 100:
        yield Remark(
            "hint",
            f"{name}: about {ndv.high:,.0f} distinct values in a row group. If every row group has the same ones, a "
            "filter excludes none.",
            link,
        )
    if usable and column.format == PARQUET and not any(one.info.used_by for one in usable):
        yield Remark("hint", f"{name}: no engine known here uses filters on {printable(column.type)}.", link)


def _usable(column: Column) -> list[Ranked]:
    return [one for one in column.filters if not one.is_bad and one.info.fpp is not None]


def _of_rates(columns: Sequence[Column], fpp: float) -> Iterator[Remark]:
    """Yield a sentence for each column whose filters let too much pass, or one for all where they are many."""
    over = [(column, found) for column in columns if (found := [one for one in _usable(column) if one.info.fpp > fpp])]
    if len(over) > _LISTED:
        count = count_text(sum(len(found) for _, found in over), "filter")
        worst = min(found[0] for _, found in over)
        text = f"{len(over):,} columns have {count} with a rate of over {percent_text(fpp)}."
        name = printable(worst.info.column)
        yield Remark("warn", f"{text} The worst is on {name}: {_rate(worst)}.", f"f{worst.number}")
        return
    for column, found in over:
        of_all = f"{len(found):,} of {count_text(len(_usable(column)), 'filter')}"
        text = f"{of_all} {'has' if len(found) == 1 else 'have'} a rate of over {percent_text(fpp)}."
        yield Remark(
            "warn", f"{printable(column.label)}: {text} The worst has {_rate(found[0])}.", f"f{found[0].number}"
        )


def _rate(one: Ranked) -> str:
    means = "excludes almost nothing" if one.info.fpp > 0.5 else "lets too much pass"
    return f"{percent_text(one.info.fpp)}, so it {means}"


def _lacks_values(one: Ranked) -> bool:
    return one.verified is not None and one.verified.verdict == "false negative"


def _lack(count: int) -> str:
    return "a filter lacks" if count == 1 else f"{count:,} filters lack"


def _of_hazards(columns: Sequence[Column]) -> Iterator[Remark]:
    found: dict[str, list[int]] = {}
    for number, column in enumerate(columns):
        for hazard in column.hazards:
            found.setdefault(hazard, []).append(number)
    for hazard, numbers in found.items():
        names = names_text([printable(columns[number].label) for number in numbers], _LISTED)
        yield Remark("warn", f"{printable(hazard)}: {names}.", f"c{numbers[0]}")


def _of_advice(rows: Sequence[Any]) -> Iterator[Remark]:
    to_add = [(number, row) for number, row in enumerate(rows) if row.advice == "add"]
    if to_add:
        names = names_text([printable(row.column) for _, row in to_add], _LISTED)
        yield Remark("hint", f"Worth a filter: {names}.", f"a{to_add[0][0]}")
