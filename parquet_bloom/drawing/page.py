"""The page: its sections, and the template that they are put into."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import takewhile
from typing import Any, NamedTuple

from parquet_bloom.drawing import charts, tables
from parquet_bloom.drawing.charts import Chart
from parquet_bloom.drawing.figures import Column, Stored, columns_of, ranked
from parquet_bloom.drawing.remarks import remarks
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.results import count_text, percent_text, printable, size_text

NEEDED = "a report is drawn with jinja2 and vl-convert-python: pip install 'parquet-bloom[report]'"


def require_drawing() -> None:
    """Raise `UnsupportedError` where what draws is not installed."""
    if not (_is_installed("jinja2") and can_draw()):
        raise UnsupportedError(NEEDED)


def can_draw() -> bool:
    """Return whether charts can be drawn."""
    return _is_installed("vl_convert")


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a page shows: the results of `inspect`, and of `verify`, `prune` and `advise` if there are any."""

    title: str
    made: str
    files: Sequence[Any]
    stored: Stored
    fpp: float
    verification: Sequence[Any] | None = None
    pruning: Any = None
    advice: Sequence[Any] | None = None


class Tile(NamedTuple):
    """A number with what it is, and what it is compared with."""

    title: str
    value: str
    note: str = ""
    is_bad: bool = False


class Section(NamedTuple):
    """A question, with what answers it."""

    id: str
    title: str
    text: str
    pictures: list[dict[str, str]]
    tables: list[tables.Table]


def page(contents: Contents) -> str:
    """Return the page as HTML, with all that it needs inside."""
    import jinja2
    from markupsafe import Markup

    files = sorted(contents.files, key=_badness)
    filters = ranked(contents.files, contents.verification)
    columns = columns_of(filters, contents.stored)
    folder = _folder(contents)
    sections = [
        section._replace(tables=[replace(table, folder=folder) for table in section.tables])
        for section in _sections(contents, files, filters, columns)
    ]
    parts = resources.files(__package__)
    style, script = (parts.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    # A name is text: what a template does not mark as safe is escaped.
    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return template.from_string(parts.joinpath("page.html").read_text("utf-8")).render(
        title=printable(contents.title),
        made=contents.made,
        tiles=_tiles(contents, columns),
        remarks=remarks(columns, files, contents.fpp, contents.advice or ()),
        sections=sections,
        folder=folder,
        data=Markup(tables.as_json((table for section in sections for table in section.tables), folder)),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _folder(contents: Contents) -> str:
    """Return the folder that all files are below, with its last slash, as it is shown; nothing for a single file."""
    paths = [printable(file.path) for file in contents.files]
    if len(paths) < 2:
        return ""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(paths), max(paths), strict=False))
    folder, slash, _ = "".join(letter for letter, _ in alike).rpartition("/")
    return folder + slash


def _badness(file: Any) -> tuple[bool, int]:
    return file.error is None, -sum(one.num_bytes or 0 for one in file.filters)


def _drawn(found: Iterable[Chart | None]) -> list[dict[str, str]]:
    from markupsafe import Markup

    return [{"title": chart.title, "caption": chart.caption, "svg": Markup(chart.to_svg())} for chart in found if chart]


def _tiles(contents: Contents, columns: Sequence[Column]) -> list[Tile]:
    files = contents.files
    failed = sum(file.error is not None for file in files)
    size = sum(file.size for file in files)
    num_bytes = sum(column.num_bytes for column in columns)
    num_filters = sum(len(column.sized) for column in columns)
    num_chunks = sum(file.num_column_chunks for file in files)
    covered = sum(len(column.sized) for column in columns if column.format == "Parquet")
    rates = [spread.high for column in columns if (spread := column.spread("fpp"))]
    tiles = [
        Tile(
            "files",
            f"{len(files):,}",
            f"{failed:,} could not be read" if failed else f"{sum(file.num_rows for file in files):,} rows",
            bool(failed),
        ),
        Tile("size", size_text(size), count_text(sum(file.num_row_groups for file in files), "row group")),
        Tile("filters", f"{num_filters:,}", f"on {covered:,} of {count_text(num_chunks, 'column chunk')}"),
        Tile(
            "size of the filters",
            size_text(num_bytes),
            f"{percent_text(num_bytes / size)} of the files" if size else "",
        ),
    ]
    if rates:
        is_over = max(rates) > contents.fpp
        tiles.append(Tile("worst real rate", percent_text(max(rates)), f"asked: {percent_text(contents.fpp)}", is_over))
    if contents.verification is not None:
        rows = [row for file in contents.verification for row in file.filters]
        wrong = sum(row.verdict != "ok" for row in rows)
        unchecked = sum(file.error is not None for file in contents.verification)
        note = (
            f"{count_text(unchecked, 'file')} not checked"
            if unchecked
            else f"{sum(r.num_values for r in rows):,} values"
        )
        tiles.append(Tile("verified", f"{len(rows) - wrong:,} of {len(rows):,} ok", note, bool(wrong or unchecked)))
    if contents.pruning is not None:
        totals = contents.pruning.totals
        read = totals.bytes_kept + totals.bytes_not_pruned
        tiles.append(
            Tile(
                "must be read",
                f"{totals.files_kept:,} of {count_text(totals.files, 'file')}",
                f"{totals.row_groups_kept:,} of {count_text(totals.row_groups, 'row group')}, {size_text(read)}",
            )
        )
    return tiles


def _sections(contents: Contents, files: list[Any], filters: list[Any], columns: list[Column]) -> Iterable[Section]:
    numbers = {column.label: number for number, column in enumerate(columns)}
    having = [column for column in columns if column.filters]
    if contents.pruning is not None:
        yield _pruning(contents.pruning)
    if contents.verification is not None:
        yield _verification(contents.verification)
    if contents.advice is not None:
        yield Section(
            "advice",
            "Which columns are worth a filter?",
            "Estimated from the bounds in all footers and the values of a few row groups.",
            _drawn([charts.advised(contents.advice)]),
            [tables.advice(contents.advice)],
        )
    yield Section(
        "columns",
        "What do filters cost, and where are they?",
        "" if having else "There are no filters in these files.",
        _drawn(
            (
                charts.sizes(columns, numbers),
                charts.coverage(contents.files, columns, numbers, contents.stored) if having else None,
            )
        ),
        [tables.columns(columns)],
    )
    if filters:
        yield Section(
            "filters",
            "Do they work?",
            "A rate is the share of values that are absent and pass all the same.",
            _drawn(
                (
                    charts.rates(having, numbers, contents.fpp),
                    charts.fills(contents.files, having),
                    charts.distinct(having, numbers),
                )
            ),
            [tables.filters(filters, contents.verification is not None)],
        )
        yield Section(
            "engines",
            "Can my engine use them?",
            "For = and IN. An engine that does not use a filter reads the row group, as it would without one. "
            "Be careful with engines that lose rows, or fail, because of a filter, however right it is.",
            [],
            [tables.engines(columns)],
        )
    yield Section("files", "Files", "", [], [tables.files(files)])


def _pruning(pruning: Any) -> Section:
    totals = pruning.totals
    text = (
        f"{printable(pruning.where)}: {totals.files_kept:,} of {count_text(totals.files, 'file')} and "
        f"{totals.row_groups_kept:,} of {count_text(totals.row_groups, 'row group')} must be read, "
        f"{size_text(totals.bytes_kept)} of {size_text(totals.bytes)}. "
        f"Excluded by filters: {totals.row_groups_by_filters:,}; by statistics, types and partitions: "
        f"{totals.row_groups_by_statistics:,}."
    )
    if totals.files_not_pruned:
        whole = count_text(totals.files_not_pruned, "file")
        text += f" {whole} could not be pruned and must be read as a whole: {size_text(totals.bytes_not_pruned)}."
    if pruning.unused is not None:
        text += f" {printable(pruning.unused)}."
    found = [tables.verdicts(pruning.rows)]
    if totals.files_excluded:
        found.append(tables.excluded(pruning.all_files))
    return Section("pruning", "What does the condition keep?", text, _drawn([charts.pruned(pruning.rows)]), found)


def _verification(verification: Sequence[Any]) -> Section:
    rows = [row for file in verification for row in file.filters]
    found = tables.findings(verification)
    checked = f"{count_text(len(rows), 'filter')} were probed for {sum(row.num_values for row in rows):,} values"
    is_sound = "no filter lacks a value." if not found.rows else "the findings are below."
    is_telling = found.rows or len({row.column for row in rows}) > 1
    drawn = _drawn([charts.verified(verification)]) if is_telling else []
    return Section("verification", "Are they right?", f"{checked}: {is_sound}", drawn, [found] if found.rows else [])


# ---- notebooks ---------------------------------------------------------------------------


_MOST_AT_ONCE = 100_000
"""Of more filters or row groups a notebook shows no pictures: nobody waits for a result to be shown."""


def pictures_of_filters(files: Sequence[Any]) -> str:
    """Return the charts of what `inspect` returned as HTML for a notebook, nothing where they cannot be drawn."""
    filters = ranked(files) if sum(len(file.filters) for file in files) <= _MOST_AT_ONCE else []
    if not filters:
        return ""
    columns = columns_of(filters, None)
    numbers = {column.label: number for number, column in enumerate(columns)}
    return pictures(
        lambda: (charts.sizes(columns, numbers), charts.rates(columns, numbers, None), charts.fills(files, columns))
    )


def pictures_of_verdicts(rows: Sequence[Any]) -> str:
    """Return the chart of what `prune` decided as HTML for a notebook, nothing where it cannot be drawn."""
    return pictures(lambda: (charts.pruned(rows),)) if len(rows) <= _MOST_AT_ONCE else ""


def pictures_of_advice(rows: Sequence[Any]) -> str:
    """Return the chart of what `advise` recommends as HTML for a notebook, nothing where it cannot be drawn."""
    return pictures(lambda: (charts.advised(rows),))


def pictures_of_findings(verification: Sequence[Any]) -> str:
    """Return the chart of what `verify` found as HTML for a notebook, nothing where it cannot be drawn."""
    return pictures(lambda: (charts.verified(verification),))


def pictures(chosen: Callable[[], Iterable[Chart | None]]) -> str:
    """Return charts as HTML that stands alone, without links."""
    if not can_draw():
        return ""
    drawn = ((html.escape(chart.title), chart.to_svg(is_linked=False)) for chart in chosen() if chart)
    return "".join(
        f'<figure style="display:inline-block;margin:0 1em 1em 0;vertical-align:top">'
        f"<figcaption>{title}</figcaption>{svg}</figure>"
        for title, svg in drawn
    )
