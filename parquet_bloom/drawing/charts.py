"""The charts, as Vega-Lite specifications that are drawn as SVG when the page is written.

So a page needs no charting script, and names are text in it. Everything is drawn in colours that are seen on white and
on black; text has the colour of the text around it. A mark's `description` becomes its title, which
browsers show as a tip, and `link` leads to a row of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from parquet_bloom.drawing.figures import Column, Ranked, Stored, buckets, by_chunk, labels, mean
from parquet_bloom.results import count_text, percent_text, printable, size_text

BLUE, ORANGE, RED, GRAY, GREEN = "#3b82c4", "#d98c1f", "#d64545", "#8a8f98", "#3f9c6b"
INK = "currentColor"
COLUMNS, PLACES, NAME = 20, 40, 22
"""The most columns and cells in a row that a picture has, and the most characters of a name."""

_WIDTH = 400

_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "titleFontSize": 11,
        "labelFontSize": 11,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domain": False,
        "ticks": False,
        "labelLimit": 170,
        "labelPadding": 6,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 11,
        "orient": "top",
        "title": None,
        "columnPadding": 30,
    },
    "text": {"color": INK},
}


class Chart(NamedTuple):
    """A picture with what a reader must know to read it."""

    title: str
    caption: str
    spec: dict[str, Any]

    def to_svg(self, *, is_linked: bool = True) -> str:
        """Draw it; without links where there are no tables that they could lead to."""
        import vl_convert

        whole = {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "width": _WIDTH,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "padding": 2,
            "config": _CONFIG,
            "description": self.title,
            **self.spec,
        }
        svg = str(vl_convert.vegalite_to_svg(whole, allowed_base_urls=[]))  # no data comes from elsewhere
        # A link within the page was made one of Vega's pages; and browsers show a title, and no aria-label, as a tip.
        svg = _LINK.sub(r'<a href="#\1" tabindex="-1">\2</a>' if is_linked else r"\2", svg)
        return _TIP.sub(r"<path\2><title>\1</title></path>", svg)


_LINK = re.compile(r'<a xlink:href="[^"#]*#([a-z]\d+)">(<[^<>]*/>)</a>')
_TIP = re.compile(r'<path aria-label="([^"]*)"([^<>]*)/>')


def _y(shown: Iterable[str]) -> dict[str, Any]:
    """Return the axis with these names; there is room for them in the widest font of a browser."""
    axis = {"title": None, "grid": False, "minExtent": 6 + 7 * max(map(len, shown))}
    return {"field": "y", "type": "nominal", "sort": None, "axis": axis}


_LINKED = {"href": {"field": "link"}, "description": {"field": "about"}}


def _named(columns: Sequence[Column]) -> list[tuple[str, Column]]:
    return list(zip(labels((column.label for column in columns), NAME), columns, strict=True))


def _left_out(columns: Sequence[Column]) -> str:
    return f" The table has {len(columns) - COLUMNS:,} more." if len(columns) > COLUMNS else ""


# ---- columns -----------------------------------------------------------------------------


def sizes(columns: Sequence[Column], numbers: dict[str, int]) -> Chart | None:
    """Draw the bytes of filters against those of the data."""
    shown = [column for column in columns if column.num_bytes]
    if not shown:
        return None
    is_share = all(column.num_bytes_of_data for column in shown)
    values: list[dict[str, Any]] = []
    for label, column in _named(shown[:COLUMNS]):
        size, of_data = column.num_bytes, column.num_bytes_of_data
        text = f"{size_text(size)} of {size_text(of_data)}" if of_data else size_text(size)
        values.append(
            {
                "y": label,
                "x": size / of_data if is_share and of_data else size,
                "text": text,
                "about": f"{printable(column.label)}: filters have {text}",
                "link": f"#c{numbers[column.label]}",
            }
        )
    most = max(value["x"] for value in values)
    y = _y(value["y"] for value in values)
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, most * 1.8]},  # with room for the text
        "axis": {"title": None, "format": "~%" if is_share else "~s", "tickCount": 4},
    }
    return Chart(
        "Size of the filters",
        ("Filters as a share of the column's compressed data." if is_share else "Bytes of filters.") + _left_out(shown),
        {
            "height": {"step": 22},
            "data": {"values": values},
            "layer": [
                {"mark": {"type": "bar", "color": BLUE, "height": 12}, "encoding": {"y": y, "x": x, **_LINKED}},
                {
                    "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 10, "aria": False},
                    "encoding": {"y": y, "x": x, "text": {"field": "text"}},
                },
            ],
        },
    )


_DOTS = 300
"""Up to so many filters each is a dot."""


def rates(columns: Sequence[Column], numbers: dict[str, int], fpp: float | None) -> Chart | None:
    """Draw the real false-positive rates, and the one that was asked for."""
    shown = [column for column in columns if column.spread("fpp")]
    if not shown:
        return None
    shown.sort(key=lambda column: -(column.spread("fpp") or (0, 0, 0))[2])
    known = [rate for column in shown for rate in column.spread("fpp") or () if rate]
    lowest = max(1e-6, min([*known, fpp or 1, 0.001]) / 2)
    are_few = sum(len(column.filters) for column in shown) <= _DOTS
    scale = {"type": "log", "domain": [lowest, 1], "clamp": True}
    ticks = [10.0**power for power in range(-6, 1) if 10.0**power >= lowest]
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": None, "format": "~%", "values": ticks},
    }
    ranges, dots = [], []
    for label, column in _named(shown[:COLUMNS]):
        spread = column.spread("fpp")
        assert spread is not None
        low, middle, high = (max(lowest, number) for number in spread)
        about = (
            f"{printable(column.label)}: {percent_text(spread.low)} to {percent_text(spread.high)}, "
            f"half of the filters at most {percent_text(spread.middle)}"
        )
        link = f"#c{numbers[column.label]}"
        ranges.append({"y": label, "x": low, "x2": high, "middle": middle, "about": about, "link": link})
        dots += [
            {
                "y": label,
                "x": max(lowest, one.info.fpp),
                "is_over": bool(fpp and one.info.fpp > fpp),
                "about": f"{place(one)}: {percent_text(one.info.fpp)}",
                "link": f"#f{one.number}",
            }
            for one in (column.filters if are_few else ())
            if one.info.fpp is not None
        ]
    y = _y(str(value["y"]) for value in ranges)
    over = {"condition": {"test": "datum.is_over", "value": ORANGE}, "value": BLUE}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": ranges},
            "mark": {"type": "rule", "strokeWidth": 6, "strokeCap": "round", "color": BLUE, "opacity": 0.35},
            "encoding": {"y": y, "x": x, "x2": {"field": "x2"}, **_LINKED},
        }
    ]
    if are_few:
        layers.append(
            {
                "data": {"values": dots},
                "mark": {"type": "circle", "size": 45, "opacity": 0.85},
                "encoding": {"y": y, "x": x, "color": over, **_LINKED},
            }
        )
    else:
        layers.append(
            {
                "data": {"values": ranges},
                "mark": {"type": "tick", "thickness": 3, "size": 14, "color": BLUE},
                "encoding": {"y": y, "x": {**x, "field": "middle"}, **_LINKED},
            }
        )
    if fpp:
        layers.append(
            {
                "data": {"values": [{"x": fpp}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": ORANGE, "strokeWidth": 1.5, "aria": False},
                "encoding": {"x": x},
            }
        )
    means = "each dot is a filter" if are_few else "from the best filter to the worst, with the middle one"
    line = f"; the dashed line is {percent_text(fpp)}" if fpp else ""
    return Chart(
        "Real false-positive rates",
        f"Computed from the bits, {means}{line}. Further right is worse.{_left_out(shown)}",
        {"height": {"step": 22}, "layer": layers},
    )


def distinct(columns: Sequence[Column], numbers: dict[str, int]) -> Chart | None:
    """Draw the estimated numbers of distinct values, beside the numbers of values."""
    shown = [column for column in columns if (spread := column.spread("ndv")) and spread.high >= 1]
    if not shown:
        return None
    shown.sort(key=lambda column: -(column.spread("ndv") or (0, 0, 0))[2])
    x: dict[str, Any] = {"field": "x", "type": "quantitative"}
    values: list[dict[str, Any]] = []
    for label, column in _named(shown[:COLUMNS]):
        spread, of_values = column.spread("ndv"), column.spread("num_values")
        assert spread is not None
        values.append(
            {
                "y": label,
                "x": max(1, spread.low),
                "x2": max(1, spread.high),
                "middle": max(1, spread.middle),
                "values": max(1, of_values.middle) if of_values else None,
                "about": f"{printable(column.label)}: about {spread.low:,.0f} to {spread.high:,.0f} distinct values"
                + (f" among {of_values.middle:,.0f}" if of_values else ""),
                "link": f"#c{numbers[column.label]}",
            }
        )
    y = _y(str(value["y"]) for value in values)
    lowest, most = min(value["x"] for value in values), max(max(value["x2"], value["values"] or 1) for value in values)
    steps = [step * 10**power for power in range(19) for step in (1, 2, 5)]
    within = [step for step in steps if lowest / 2.5 <= step <= most * 2.5]
    ticks = within if len(within) <= 8 else [step for step in within if f"{step}"[0] == "1"][:: 1 + len(within) // 24]
    x["scale"] = {"type": "log", "domain": [within[0], within[-1]]}
    x["axis"] = {"title": None, "format": "~s", "values": ticks}
    bar = {"type": "rule", "strokeWidth": 6, "strokeCap": "round", "color": GREEN, "opacity": 0.4}
    return Chart(
        "Distinct values",
        "In a row group, estimated from the bits: from the fewest to the most. The gray tick is the number of values: "
        f"a filter is for columns where the two are close.{_left_out(shown)}",
        {
            "height": {"step": 22},
            "data": {"values": values},
            "layer": [
                {"mark": bar, "encoding": {"y": y, "x": x, "x2": {"field": "x2"}, **_LINKED}},
                {
                    "mark": {"type": "tick", "thickness": 3, "size": 14, "color": GREEN, "aria": False},
                    "encoding": {"y": y, "x": {**x, "field": "middle"}},
                },
                {
                    "transform": [{"filter": "datum.values !== null"}],
                    "mark": {"type": "tick", "thickness": 2, "size": 16, "color": GRAY, "aria": False},
                    "encoding": {"y": y, "x": {**x, "field": "values"}},
                },
            ],
        },
    )


# ---- heat maps ---------------------------------------------------------------------------

_SHARES = {"domain": [0, 1], "range": ["rgba(59,130,196,0.10)", "rgba(59,130,196,1)"]}
_FILLS = {
    "type": "threshold",
    "domain": [0.1, 0.25, 0.4, 0.55, 0.7],
    "range": [f"rgba(59,130,196,{alpha})" for alpha in (0.12, 0.35, 0.65, 1)] + [ORANGE, RED],
}


def _heat(cells: list[dict[str, Any]], scale: dict[str, Any], x_title: str, legend: bool) -> dict[str, Any]:
    color: dict[str, Any] = {"field": "value", "type": "quantitative", "scale": scale, "legend": None}
    if legend:
        color["legend"] = {"format": "~%", "gradientLength": 220, "gradientThickness": 8}
    return {
        "height": {"step": 18},
        "data": {"values": cells},
        "mark": {"type": "rect", "cornerRadius": 1.5},
        "encoding": {
            "y": {**_y(cell["y"] for cell in cells), "scale": {"paddingInner": 0.12}},
            "x": {
                "field": "x",
                "type": "ordinal",
                "sort": None,
                "scale": {"paddingInner": 0.12},
                "axis": {"title": x_title, "labels": False, "grid": False},
            },
            "color": color,
            **_LINKED,
        },
    }


def coverage(files: Sequence[Any], columns: Sequence[Column], numbers: dict[str, int], stored: Stored) -> Chart | None:
    """Draw which columns have filters in which files."""
    whole = [file for file in files if file.num_row_groups and file.path in stored.columns_of]
    if len(whole) < 2:
        return None
    counts: dict[tuple[str, str], int] = {}
    for column in columns:
        for one in column.sized:
            counts[one.info.path, column.label] = counts.get((one.info.path, column.label), 0) + 1
    cells = []
    named = _named(columns[:COLUMNS])
    for run in buckets(whole, PLACES):
        for label, column in named:
            having = [file for file in run.items if column.name in stored.columns_of[file.path]]
            if not having:
                continue
            could = sum(file.num_row_groups if column.format == "Parquet" else 1 for file in having)
            share = sum(counts.get((file.path, column.label), 0) for file in having) / could
            which = printable(having[0].path) if len(run.items) == 1 else f"files {run.first + 1:,} to {run.last + 1:,}"
            cells.append(
                {
                    "x": run.place,
                    "y": label,
                    "value": share,
                    "about": f"{printable(column.label)}, {which}: filters in {percent_text(share)} of the row groups",
                    "link": f"#c{numbers[column.label]}",
                }
            )
    each = -(-len(whole) // PLACES)
    return Chart(
        "Where there are filters",
        "Columns that have filters are blue, the darker the more row groups have one; where a file lacks the column, "
        f"the cell is empty.{_left_out(columns)}",
        _heat(cells, _SHARES, "files" if each == 1 else f"files, {each:,} in a cell", legend=False),
    )


def fills(files: Sequence[Any], columns: Sequence[Column]) -> Chart | None:
    """Draw how full the filters are, row group by row group."""
    shown = [column for column in columns if column.spread("fill")]
    if not shown:
        return None
    known = by_chunk(shown)
    paths = {one.info.path for one in known.values()}
    chunks = [(file.path, group) for file in files if file.path in paths for group in range(file.num_row_groups)]
    cells = []
    for run in buckets(chunks, PLACES):
        for label, column in _named(shown[:COLUMNS]):
            of_files = {path: None for path, _ in run.items}
            keys = run.items if column.format == "Parquet" else [(path, None) for path in of_files]
            found = [one for path, group in keys if (one := known.get((path, group, column.label)))]
            fill = mean(one.info.fill for one in found if one.info.fill is not None)
            if fill is None:
                continue
            worst = min(found)
            about = (
                f"{place(worst)}: {percent_text(fill)} full"
                if len(found) == 1
                else f"{printable(column.label)}, {len(found):,} filters: {percent_text(fill)} full on average"
            )
            cells.append({"x": run.place, "y": label, "value": fill, "about": about, "link": f"#f{worst.number}"})
    each = -(-len(chunks) // PLACES)
    return Chart(
        "How full the filters are",
        "The share of bits that are set. Pale filters are larger than they need be, half full is what a filter is made "
        f"for, orange and red ones let too much pass.{_left_out(shown)}",
        _heat(cells, _FILLS, "row groups" if each == 1 else f"row groups, {each:,} in a cell", legend=True),
    )


def place(one: Ranked) -> str:
    """Return where a filter is, as text."""
    info = one.info
    group = "whole file" if info.row_group is None else f"row group {info.row_group}"
    return f"{printable(info.column)}, {printable(info.path)}, {group}"


# ---- prune -------------------------------------------------------------------------------

OUTCOMES = {
    "must be read": BLUE,
    "not pruned": ORANGE,
    "excluded by filters": GREEN,
    "excluded without filters": GRAY,
}
_ACROSS, _DOWN = 40, 12


def outcome(row: Any) -> str:
    """Return what became of a row group of a pruning."""
    if row.row_group is None:
        return "not pruned"
    if row.is_kept:
        return "must be read"
    return "excluded by filters" if row.by == "filter" else "excluded without filters"


def pruned(rows: Sequence[Any]) -> Chart | None:
    """Draw the verdict on every row group, in order, line by line."""
    if not rows:
        return None
    cells = []
    for run in buckets(rows, _ACROSS * _DOWN):
        outcomes = [outcome(row) for row in run.items]
        kept = sum(name in ("must be read", "not pruned") for name in outcomes)
        name = next(name for name in OUTCOMES if name in outcomes)
        row = run.items[outcomes.index(name)]
        group = "whole file" if row.row_group is None else f"row group {row.row_group}"
        about = (
            f"{printable(row.path)}, {group}: {name}: {printable(row.reason)}"
            if len(run.items) == 1
            else f"row groups {run.first + 1:,} to {run.last + 1:,}: {kept:,} must be read"
        )
        line, x = divmod(run.place, _ACROSS)
        cells.append(
            {"x": x, "line": line, "outcome": name, "about": about, "link": f"#v{run.first + outcomes.index(name)}"}
        )
    each = -(-len(rows) // (_ACROSS * _DOWN))
    means = (
        "Each cell is a row group" if each == 1 else f"Each cell is {each:,} row groups, and blue if any must be read"
    )
    present = [name for name in OUTCOMES if any(cell["outcome"] == name for cell in cells)]
    axis = {"title": None, "labels": False, "grid": False}
    return Chart(
        "What must be read",
        f"{means}, in the order of the files, line by line.",
        {
            "height": {"step": 14},
            "data": {"values": cells},
            "mark": {"type": "rect", "cornerRadius": 1.5},
            "encoding": {
                "x": {
                    "field": "x",
                    "type": "ordinal",
                    "scale": {"paddingInner": 0.15, "domain": list(range(min(_ACROSS, max(len(cells), 12))))},
                    "axis": axis,
                },
                "y": {"field": "line", "type": "ordinal", "scale": {"paddingInner": 0.15}, "axis": axis},
                "color": {
                    "field": "outcome",
                    "type": "nominal",
                    "scale": {"domain": present, "range": [OUTCOMES[name] for name in present]},
                    "legend": {"columns": 2, "symbolType": "square"},
                },
                **_LINKED,
            },
        },
    )


# ---- verify ------------------------------------------------------------------------------

VERDICTS = {"ok": GREEN, "false negative": RED, "unusable": ORANGE}


def verified(verification: Sequence[Any]) -> Chart | None:
    """Draw how many filters of each column are ok."""
    counts: dict[str, dict[str, int]] = {}
    for file in verification:
        for row in file.filters:
            name = row.column if row.format == "Parquet" else f"{row.column} ({row.format})"
            of_column = counts.setdefault(name, dict.fromkeys(VERDICTS, 0))
            of_column[row.verdict] += 1
    if not counts:
        return None
    chosen = sorted(counts, key=lambda name: counts[name]["ok"] - sum(counts[name].values()))[:COLUMNS]
    cells = [
        {
            "y": label,
            "x": count,
            "verdict": verdict,
            "order": order,
            "about": f"{printable(name)}: {count_text(count, 'filter')} {verdict}",
        }
        for label, name in zip(labels(chosen, NAME), chosen, strict=True)
        for order, (verdict, count) in enumerate(counts[name].items())
        if count
    ]
    most = min(5, max(sum(of_column.values()) for of_column in counts.values()))
    present = [verdict for verdict in VERDICTS if any(cell["verdict"] == verdict for cell in cells)]
    more = f" {count_text(len(counts) - COLUMNS, 'more column')} not drawn." if len(counts) > COLUMNS else ""
    return Chart(
        "Filters that hold every value",
        f"Filters of each column, probed for every value of the data.{more}",
        {
            "height": {"step": 22},
            "data": {"values": cells},
            "mark": {"type": "bar", "height": 12},
            "encoding": {
                "y": _y(str(cell["y"]) for cell in cells),
                "x": {"field": "x", "type": "quantitative", "axis": {"title": None, "format": "d", "tickCount": most}},
                "color": {
                    "field": "verdict",
                    "type": "nominal",
                    "scale": {"domain": present, "range": [VERDICTS[verdict] for verdict in present]},
                    "legend": {"symbolType": "square"},
                },
                "order": {"field": "order"},
                "description": {"field": "about"},
            },
        },
    )


# ---- advise ------------------------------------------------------------------------------


def advised(rows: Sequence[Any]) -> Chart | None:
    """Draw how many row groups a lookup reads, now and with filters."""
    known = [(number, row) for number, row in enumerate(rows) if row.groups_now is not None]
    if not known:
        return None
    known.sort(key=lambda one: one[1].groups_with - one[1].groups_now)
    shown = known[:COLUMNS]
    values = [
        {
            "y": label,
            "now": row.groups_now,
            "with": row.groups_with,
            "about": f"{printable(row.column)}: a lookup reads {row.groups_now:,.1f} row groups now, and "
            f"{row.groups_with:,.1f} with filters in all of them",
            "link": f"#a{number}",
        }
        for label, (number, row) in zip(labels((row.column for _, row in shown), NAME), shown, strict=True)
    ]
    y = _y(str(value["y"]) for value in values)
    x = {"field": "now", "type": "quantitative", "scale": {"domainMin": 0}}
    x["axis"] = {"title": None, "format": "~s", "tickCount": 6}
    dot = {"type": "circle", "size": 70, "opacity": 1}
    more = f" The table has {len(known) - COLUMNS:,} more." if len(known) > COLUMNS else ""
    return Chart(
        "Row groups that a lookup reads",
        "To find one value: now (gray), and if every row group had a filter (green). A long line is worth a filter."
        + more,
        {
            "height": {"step": 22},
            "data": {"values": values},
            "layer": [
                {
                    "mark": {"type": "rule", "strokeWidth": 3, "color": GREEN, "opacity": 0.5},
                    "encoding": {"y": y, "x": x, "x2": {"field": "with"}, **_LINKED},
                },
                {"mark": {**dot, "color": GRAY}, "encoding": {"y": y, "x": x, **_LINKED}},
                {"mark": {**dot, "color": GREEN}, "encoding": {"y": y, "x": {**x, "field": "with"}, **_LINKED}},
            ],
        },
    )
