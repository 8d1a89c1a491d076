"""Pages of `report` in a real browser; see `.ci/report`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chromium import Chromium

import parquet_bloom

CHROMIUM = os.environ.get("PARQUET_BLOOM_CHROMIUM", "")
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(not CHROMIUM, reason="without PARQUET_BLOOM_CHROMIUM; see .ci/report"),
]

HOSTILE = (
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "<img src=http://localhost:9/x onerror=alert(1)>",
    "</style><style>*{display:none}",
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "שלום עולם",
    "a\u202eb\x01c",
    "javascript:alert(1)",
)
WHERE = "`{{7*7}}` = '{{7*7}}17' OR `<script>alert(1)</script>` = 'x'"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    running = Chromium(CHROMIUM, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a few hostile columns, with all sections."""
    folder = tmp_path_factory.mktemp("few")
    table = pa.table({name: [f"{name}{i}" for i in range(3000)] for name in HOSTILE})
    options = {name: {"ndv": 300 if at == 1 else 3000, "fpp": 0.01} for at, name in enumerate(HOSTILE)}
    pq.write_table(table, folder / "a&b.parquet", row_group_size=1500, bloom_filter_options=options)
    parquet_bloom.report(folder / "a&b.parquet", folder / "few.html", where=WHERE, verification=True, advice=True)
    return folder / "few.html"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 10,000 filters: 50 files, 10 row groups, 20 columns; and one column without."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "lake").mkdir()
    random = np.random.default_rng(1)
    kinds: dict[str, Any] = {
        "id": lambda: pa.array(random.integers(0, 2**60, 2000)),
        "user": lambda: pa.array([f"user-{n}" for n in random.integers(0, 10**9, 2000)]),
        "status": lambda: pa.array(random.integers(0, 9, 2000, dtype=np.int32)),
        "amount": lambda: pa.array(random.random(2000)),
        "at": lambda: pa.array(random.integers(0, 10**6, 2000), pa.timestamp("us")),
    }
    for part in range(50):
        columns = {f"{kind}_{n}": values() for n in range(4) for kind, values in kinds.items()}
        options = {name: {"ndv": int(random.choice([50, 200, 200, 2000])), "fpp": 0.01} for name in columns}
        table = pa.table({**columns, "plain": pa.array(["x"] * 2000)})
        path = folder / "lake" / f"part-{part:03}.parquet"
        pq.write_table(table, path, row_group_size=200, bloom_filter_options=options)
    start = time.monotonic()
    report = parquet_bloom.report(folder / "lake", folder / "many.html", where="id_0 = 5")
    print(f"\n{len(report):,} filters: written in {time.monotonic() - start:.1f} s, {report.num_bytes:,} bytes")
    assert len(report) == 10_000
    assert report.num_bytes < 4_000_000
    return folder / "many.html"


@pytest.fixture(params=["few", "many"])
def page(request: pytest.FixtureRequest, browser: Chromium) -> Iterator[Chromium]:
    """The browser with a page opened; at the end its console has no error, and it has asked for nothing else."""
    path: Path = request.getfixturevalue(request.param)
    browser.look(1280)
    seconds = browser.open(path.as_uri())
    print(f"\n{path.stem}: opened in {seconds:.2f} s", end="")
    browser.said.clear()
    browser.requests.clear()
    browser.open(path.as_uri())
    yield browser
    assert browser.said == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [path.as_uri()]


def texts(page: Chromium, selector: str) -> list[str]:
    got = page.ask(f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)")
    assert isinstance(got, list)
    return got


def test_it_is_shown_and_says_nothing_in_the_console(page: Chromium) -> None:
    assert page.ask("document.querySelectorAll('figure svg').length") >= 4
    assert page.ask(
        "[...document.querySelectorAll('figure svg')].every(one => one.getBoundingClientRect().width > 200)"
    )
    assert page.ask("document.querySelectorAll('[data-table]').length") >= 4


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_it_fits_every_screen(page: Chromium, dark: bool, width: int) -> None:
    page.look(width, dark=dark, phone=width < 500)
    assert page.ask("document.documentElement.scrollWidth") <= width
    ground, ink = page.ask("(style => [style.backgroundColor, style.color])(getComputedStyle(document.body))")
    brightness = [sum(map(int, color.removeprefix("rgb(").rstrip(")").split(","))) for color in (ground, ink)]
    assert (brightness[0] < brightness[1]) == dark
    assert page.ask("getComputedStyle(document.querySelector('figure svg text')).fill") == ink
    if folder := os.environ.get("SCREENSHOTS"):
        page.look(width, 2400, dark=dark, phone=width < 500)
        name = page.ask("location.pathname").rpartition("/")[2].removesuffix(".html")
        page.screenshot(Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole=False)


def test_hostile_names_are_text(browser: Chromium, few: Path) -> None:
    browser.look(1280)
    browser.said.clear()
    browser.requests.clear()
    browser.open(few.as_uri())
    cells = set(texts(browser, "[data-table=c] td:first-child"))
    shown = {name.replace("\u202e", r"\u202e").replace("\x01", r"\x01") for name in HOSTILE}
    assert cells == shown
    browser.ask("document.querySelectorAll('.more').forEach(one => one.click())")
    browser.type("[data-table=f] input", "script")  # and in what the script has drawn
    assert set(texts(browser, "[data-table=f] td:first-child")) == {name for name in shown if "script" in name}
    assert browser.ask("document.querySelectorAll('main img, main script, main style').length") == 0
    for selector in ("svg a", "td", "svg path"):
        browser.ask(
            f"document.querySelectorAll({selector!r}).forEach(one => one.dispatchEvent(new Event('mouseover')))"
        )
    assert browser.said == []
    assert browser.requests == [few.as_uri()]


def test_tables_sort(page: Chromium) -> None:
    def column(number: int) -> list[str]:
        return texts(page, f"[data-table=f] tbody tr:not(.detail) td:nth-child({number})")

    head = texts(page, "[data-table=f] th")
    rate = head.index("real rate") + 1
    before = column(rate)
    for upside_down in (False, True):
        page.click(f"[data-table=f] th:nth-child({rate}) button")
        numbers = [float(text.rstrip("%")) for text in column(rate)]
        assert numbers == sorted(numbers, reverse=not upside_down)
    assert column(rate) != before
    page.click("[data-table=f] th:nth-child(1) button")
    names = set(texts(page, "[data-table=c] td:first-child"))
    assert column(1)[0] == page.ask(f"{list(names)}.sort(new Intl.Collator('en', {{numeric: true}}).compare)[0]")
    assert page.ask("document.querySelectorAll('[data-table=f] th[aria-sort=ascending]').length") == 1


def test_the_script_writes_as_the_page_was_written(page: Chromium) -> None:
    """Sizes, rates and numbers are formatted twice, in two languages."""
    before = texts(page, "[data-table] tbody td")
    page.ask("document.querySelectorAll('.table input').forEach(one => one.dispatchEvent(new Event('input')))")
    assert texts(page, "[data-table] tbody td") == before


def test_tables_filter_and_grow(page: Chromium) -> None:
    total = page.ask("JSON.parse(document.getElementById('data').textContent).tables.f.rows.length")
    assert len(texts(page, "[data-table=f] tbody tr")) == 15
    page.type("[data-table=f] input", "1 no-such-column")
    assert texts(page, "[data-table=f] tbody tr") == []
    assert texts(page, "[data-table=f] output") == [f"0 of {total:,}"]
    page.type("[data-table=f] input", "")
    page.click("[data-table=f] .more")
    assert len(texts(page, "[data-table=f] tbody tr")) == min(total, 215)


def test_a_row_opens_its_details(page: Chromium) -> None:
    page.click("#f3 td")
    assert "worst block's rate" in texts(page, "#f3 + tr.detail dt")
    page.click("#f3 td")
    assert texts(page, "#f3 + tr.detail dt") == []


def test_a_chart_leads_to_its_row(page: Chromium) -> None:
    last = page.ask("[...document.querySelectorAll('svg a[href^=\"#f\"]')].at(-1).getAttribute('href')")
    page.ask(
        f"document.querySelector('svg a[href=\"{last}\"]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    )
    page.ask("new Promise(done => setTimeout(done, 300))")
    assert texts(page, "tr.found") == texts(page, f"tr{last}")
    assert page.ask(
        f"(box => box.top >= 0 && box.top < innerHeight)(document.querySelector('{last}').getBoundingClientRect())"
    )
    tip = page.ask(f"document.querySelector('svg a[href=\"{last}\"] title').textContent")
    assert texts(page, f"tr{last} td")[0] in tip or "filters" in tip
