"""The page of `report`: it shows what the verbs return, names in it are text, and nothing comes from outside.

What only a browser can tell is in tests/browser.
"""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import os
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.drawing import figures, page, tables
from parquet_bloom.results import percent_text, printable, size_text

FIXTURES = Path(__file__).parents[2] / "fixtures"
HOSTILE = (
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "</style>",
    "</title>",
    "{{7*7}}",
    "${7*7}",
    "&lt;b&gt;",
    "שלום",
    "a\u202eb\x01c",
)
FULL = -1  # in place of infinity, which JSON lacks
VOID = {"meta", "link", "input"}


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: elements with their attributes and texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.within: list[str] = []
        self.rows: dict[str, list[str]] = {}
        self._row: list[str] | None = None
        self.feed(path.read_text("utf-8"))
        assert self.within == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.within.append(tag)
        if tag == "tr" and (number := dict(attrs).get("id")):
            self._row = self.rows.setdefault(number, [])
        if tag == "td" and self._row is not None:
            self._row.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.within.pop() == tag
        if tag == "tr":
            self._row = None

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._row:
            self._row[-1] += data

    @property
    def data(self) -> Any:
        """What the tables are made from."""
        return json.loads(next(text for text in self.texts if text.startswith('{"shown"')))

    def table(self, letter: str) -> list[dict[str, Any]]:
        """A table's rows, as dictionaries."""
        data = self.data
        heads = data["tables"][letter]["heads"]

        def value(cell: Any, kind: str) -> Any:
            is_text = cell is not None and kind in ("text", "long", "path")
            return data["texts"][cell] if is_text else [data["texts"][i] for i in cell] if kind == "list" else cell

        return [
            {title: value(cell, kind) for cell, (title, kind, _) in zip(row, heads, strict=True)}
            for row in data["tables"][letter]["rows"]
        ]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two files of hostile columns, of which some have filters: fine ones, and one that is too small."""
    folder = tmp_path / "<i>lake"
    folder.mkdir()
    for part in range(2):
        table = pa.table({name: [f"{name}{part}{i}" for i in range(400)] for name in HOSTILE})
        options = {name: {"ndv": 20 if name == "</style>" else 200, "fpp": 0.01} for name in HOSTILE[:7]}
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=200, bloom_filter_options=options)
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


# ---- what it shows -----------------------------------------------------------------------


def test_its_numbers_are_those_of_inspect(lake: Path, output: Path) -> None:
    report = parquet_bloom.report(lake, output)
    rows = {(row.path, row.row_group, row.column): row for row in parquet_bloom.inspect(lake)}
    assert report.path == str(output)
    assert report.num_bytes == output.stat().st_size
    assert len(report) == len(rows) == 28
    seen = Page(output)
    filters = seen.table("f")
    assert len(filters) == len(rows)
    by_name = {(printable(path), group, printable(column)): row for (path, group, column), row in rows.items()}
    for one in filters:
        row = by_name.pop((one["file"], one["row group"], one["column"]))
        assert one["size"] == row.num_bytes
        assert (one["fill"], one["real rate"]) == (row.fill, row.fpp)
        assert one["distinct values"] == (FULL if row.ndv == float("inf") else row.ndv)
        assert (one["worst block's rate"], one["size if folded to 1 %"]) == (row.worst_block_fpp, row.folds_to)
        assert (one["values"], one["used by"], one["offset"]) == (row.num_values, list(row.used_by), row.offset)
    assert by_name == {}
    assert [one["real rate"] for one in filters] == sorted((row.fpp for row in rows.values()), reverse=True)
    for number, one in enumerate(filters[: tables.SHOWN]):  # as text, before any script has run
        assert seen.rows[f"f{number}"][:2] == [one["column"], one["file"].removeprefix(f"{lake}/")]
        assert seen.rows[f"f{number}"][-1] == percent_text(one["real rate"])
    assert len([row for row in seen.rows if row.startswith("f")]) == tables.SHOWN
    whole = " ".join(seen.texts)
    for total in (len(rows), size_text(sum(row.num_bytes for row in rows.values()))):
        assert f" {total} " in whole


def test_the_columns_have_what_the_footers_say(lake: Path, output: Path) -> None:
    parquet_bloom.report(lake, output)
    metadata = [pq.ParquetFile(path).metadata for path in sorted(lake.iterdir())]
    columns = {one["column"]: one for one in Page(output).table("c")}
    assert columns.keys() == set(map(printable, HOSTILE))
    for index, name in enumerate(HOSTILE):
        one = columns[printable(name)]
        chunks = [m.row_group(group).column(index) for m in metadata for group in range(m.num_row_groups)]
        assert one["data"] == sum(chunk.total_compressed_size for chunk in chunks)
        assert one["files with the column"] == 2
        assert one["filters"] == (4 if index < 7 else 0)
        assert one["coverage"] == one["filters"] / len(chunks)


def test_engines_and_warnings_are_those_of_inspect(output: Path) -> None:
    path = FIXTURES / "spark" / "all_types.parquet"
    parquet_bloom.report(path, output)
    rows = [one for one in parquet_bloom.inspect(path) if one.num_bytes is not None]
    engines = {one["column"]: one for one in Page(output).table("e")}
    assert engines.keys() == {row.column for row in rows}
    for row in rows:
        used = {engine for engine in figures.ENGINES if engines[row.column][engine] == "yes"}
        assert used == set(row.used_by)
        assert (engines[row.column].get("careful") or "") == "; ".join(row.hazards)


def test_it_says_once_what_each_reader_loses(tmp_path: Path, output: Path) -> None:
    table = pa.table({HOSTILE[0]: [Decimal(7), Decimal(8), Decimal(9)], "raw": [b"a", b"b", b"c"], "id": [1, 2, 3]})
    for part in "ab":
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=1)
        parquet_bloom.add(tmp_path / f"{part}.parquet", table.column_names, accept_hazards=True)
    report = parquet_bloom.report(tmp_path, output, readers="duckdb>=1.5,datafusion>=54")
    hazards = {row.column: row.hazards for row in report}
    [lost], [escaped] = hazards[HOSTILE[0]], hazards["raw"]
    assert "DataFusion" in lost
    assert "DuckDB" in escaped
    seen = Page(output)
    assert {one["column"]: one["careful"] for one in seen.table("e")} == {
        HOSTILE[0]: lost,
        "raw": escaped,
        "id": None,
    }
    for sentence in (f"{lost}: {HOSTILE[0]}.", f"{escaped}: raw."):
        assert seen.texts.count(sentence) == 1
    parquet_bloom.report(tmp_path, output, readers="duckdb>=2,datafusion>=55", force=True)
    assert not any("loses rows" in text for text in Page(output).texts)


@pytest.mark.parametrize("given", [True, False], ids=["verified first", "given"])
def test_it_shows_what_verify_finds(output: Path, given: bool) -> None:
    paths = [FIXTURES / "damaged" / "bits_all_zero.parquet", FIXTURES / "pyarrow" / "small.parquet"]
    verified = parquet_bloom.verify(paths)
    report = parquet_bloom.report(paths, output, verification=True if given else verified)
    assert report.verification is not None
    assert report.verification.rows == verified.rows
    [finding] = verified.findings
    seen = Page(output)
    [row] = seen.table("n")
    assert (row["column"], row["verdict"], row["values missing"]) == (finding.column, "false negative", 100)
    assert row["cause"] == finding.cause
    worst = seen.table("f")[0]
    assert (worst["file"], worst["verify"]) == (finding.path, "false negative")
    assert any("lacks values that are there" in text for text in seen.texts)


def test_it_shows_what_a_condition_keeps(lake: Path, output: Path) -> None:
    where = "`{{7*7}}` = '{{7*7}}0250'"
    report = parquet_bloom.report(lake, output, where=where)
    pruned = parquet_bloom.prune(lake, where)
    assert report.pruning is not None
    assert report.pruning.rows == pruned.rows
    assert pruned.totals.row_groups_by_filters > 0
    shown = Page(output).table("v")
    assert [(one["file"], one["row group"], one["reason"]) for one in shown] == [
        (row.path, row.row_group, row.reason) for row in pruned.rows
    ]
    assert [one["must be read"] == "yes" for one in shown] == [row.is_kept for row in pruned.rows]


def test_it_shows_which_files_a_table_s_metadata_excludes(tmp_path: Path, output: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for start in (0, 100, 200):
        rows = pa.table({"id": range(start, start + 100)})
        deltalake.write_deltalake(tmp_path / "lake", rows, mode="append")
    parquet_bloom.report(tmp_path / "lake", output, where="id = 150")
    pruned = parquet_bloom.prune(tmp_path / "lake", "id = 150")
    assert len(pruned.kept_files) == 1
    seen = Page(output)
    assert [(one["file"], one["reason"]) for one in seen.table("x")] == [
        (file.path, file.excluded) for file in pruned.all_files if not file.is_kept
    ]
    assert len(seen.table("v")) == 1


def test_a_table_is_its_live_files(tmp_path: Path, output: Path) -> None:
    root = tmp_path / "t"
    for start in (0, 100):
        deltalake.write_deltalake(root, pa.table({"id": range(start, start + 100)}), mode="append")
    deltalake.DeltaTable(root).optimize.compact()
    parquet_bloom.add(root, "id", table=True)
    (live,) = deltalake.DeltaTable(root).file_uris()
    written = parquet_bloom.report(root, output, verification=True)
    assert written.verification is not None
    for files in (written.inspection.files, written.verification.files):
        assert [Path(file.path).name for file in files] == [Path(live).name]


@pytest.mark.parametrize("given", [True, False], ids=["asked first", "given"])
def test_it_shows_what_advise_recommends(tmp_path: Path, output: Path, given: bool) -> None:
    path = tmp_path / "ids.parquet"
    numbers = random.Random(1)
    ids = [f"{numbers.getrandbits(256):064x}" for _ in range(40_000)]
    pq.write_table(pa.table({"id": ids, "day": sorted(ids)}), path, row_group_size=4000)
    advice = parquet_bloom.advise(path)
    assert [row.advice for row in advice] == ["add", "not worth it"]
    report = parquet_bloom.report(path, output, advice=True if given else advice)
    assert report.advice is not None
    assert report.advice.rows == advice.rows
    shown = Page(output).table("a")
    assert [(one["column"], one["advice"], one["why"]) for one in shown] == [
        (printable(row.column), row.advice, row.reason) for row in advice
    ]
    assert [one["row groups read now"] for one in shown] == [row.groups_now for row in advice]
    assert "<svg" in advice._repr_html_()


def test_damaged_files_come_first(output: Path) -> None:
    report = parquet_bloom.report(FIXTURES / "damaged", output)
    damaged = {file.path for file in parquet_bloom.inspect(FIXTURES / "damaged").errors}
    assert {file.path for file in report.errors} == damaged
    seen = Page(output)
    assert "error" in seen.table("p")[0]
    assert {one["file"] for one in seen.table("p") if one["error"]} <= set(map(printable, damaged))


def test_files_without_filters_have_a_page_too(tmp_path: Path, output: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    assert len(parquet_bloom.report(tmp_path / "a.parquet", output)) == 0
    seen = Page(output)
    assert [one["column"] for one in seen.table("c")] == ["id"]
    assert any("There are no filters" in text for text in seen.texts)


def test_what_is_too_much_for_a_page_is_said(lake: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST", 9)
    parquet_bloom.report(lake, output)
    seen = Page(output)
    assert len(seen.table("f")) == 9
    assert "28, of which the first 9 are here" in seen.texts


# ---- safety ------------------------------------------------------------------------------


def test_names_are_text(lake: Path, output: Path) -> None:
    where = "`<script>alert(1)</script>` = '<script>alert(2)</script>'"
    parquet_bloom.report(lake, output, where=where, verification=True)
    seen = Page(output)
    kinds = [attributes.get("type") for tag, attributes in seen.elements if tag == "script"]
    assert kinds == ["application/json", None]
    tags = {tag for tag, _ in seen.elements}
    assert not tags & {"i", "img", "iframe", "object", "embed", "base", "form", "foreignobject", "image", "use"}
    for _, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    cells = {cell for row in seen.rows.values() for cell in row}
    assert set(map(printable, HOSTILE)) <= cells
    assert "\u202e" not in output.read_text("utf-8")


def test_nothing_comes_from_outside(lake: Path, output: Path) -> None:
    parquet_bloom.report(lake, output, where="`שלום` = 'x'")
    seen = Page(output)
    numbers = {f"{letter}{n}" for letter in seen.data["tables"] for n in range(len(seen.table(letter)))}
    links = [a["href"] for tag, a in seen.elements if tag in ("a", "link") for name in a if name.endswith("href")]
    assert len(links) > 20
    assert {link.removeprefix("#") for link in links} <= {*numbers, "data:,"}
    named = {a for _, attributes in seen.elements for a in attributes}
    assert not named & {"src", "srcset", "xlink:href", "action", "ping"}
    [policy] = [a["content"] for tag, a in seen.elements if a.get("http-equiv") == "Content-Security-Policy"]
    text = output.read_text("utf-8")
    for tag in ("style", "script"):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "url(" not in inside
    assert policy.startswith("default-src 'none';")


# ---- writing it --------------------------------------------------------------------------


def test_a_file_is_replaced_only_by_force(lake: Path, output: Path) -> None:
    output.write_text("mine")
    with pytest.raises(FileExistsError, match="replace it with force=True"):
        parquet_bloom.report(lake, output)
    ran = CliRunner().invoke(main, ["report", str(lake), "-o", str(output)])
    assert (ran.exit_code, ran.stderr) == (2, f"error: {output} already exists; replace it with --force\n")
    with pytest.raises(parquet_bloom.ColumnNotFoundError):
        parquet_bloom.report(lake, output, "nothing", force=True)
    assert output.read_text() == "mine"
    ran = CliRunner().invoke(main, ["report", str(lake), "-o", str(output), "--force"])
    assert (ran.exit_code, ran.stdout) == (0, f"{output}: {size_text(output.stat().st_size)}, 28 filters\n")
    assert output.read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in output.parent.iterdir()) == ["<i>lake", "page.html"]


@pytest.mark.skipif(os.name == "nt", reason="files have no modes")
def test_it_is_as_private_as_its_files(lake: Path, output: Path) -> None:
    (lake / "0.parquet").chmod(0o600)
    parquet_bloom.report(lake, output, force=True)
    assert output.stat().st_mode & 0o777 == 0o600


def test_data_is_never_replaced(lake: Path) -> None:
    before = (lake / "0.parquet").read_bytes()
    with pytest.raises(FileExistsError, match="is a Parquet file; write to another name"):
        parquet_bloom.report(lake, lake / "0.parquet", force=True)
    assert (lake / "0.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "options", "code"),
    [
        ("pyarrow/small.parquet", [], 0),
        ("pyarrow/small.parquet", ["--verify"], 0),
        ("damaged/wrong_bit.parquet", [], 0),
        ("damaged/wrong_bit.parquet", ["--verify"], 1),
        ("damaged/children_negative.parquet", [], 2),
    ],
)
def test_exit_codes_are_those_of_inspect_and_verify(output: Path, file: str, options: list[str], code: int) -> None:
    path = str(FIXTURES / file)
    assert CliRunner().invoke(main, ["report", path, "-o", str(output), *options]).exit_code == code
    assert CliRunner().invoke(main, ["verify" if options else "inspect", path]).exit_code == code


def test_without_what_draws_it_says_what_to_install(lake: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_is_installed", lambda module: module != "vl_convert")
    with pytest.raises(parquet_bloom.UnsupportedError, match=r"pip install 'parquet-bloom\[report\]'"):
        parquet_bloom.report(lake, output)
    assert parquet_bloom.inspect(lake)._repr_html_().startswith("<p>&lt;Inspection")


# ---- notebooks ---------------------------------------------------------------------------


def test_a_notebook_shows_the_pictures_above_the_table(lake: Path) -> None:
    pruned = parquet_bloom.prune(lake, "`{{7*7}}` = 'x'")
    for result, count in ((parquet_bloom.inspect(lake), 3), (parquet_bloom.verify(lake), 1), (pruned, 1)):
        shown = result._repr_html_()
        assert shown.count("<svg") == count
        assert "<a " not in shown
        assert "<script" not in shown
        assert shown.index("<svg") < shown.index("<table>")


# ---- what pictures are made from ---------------------------------------------------------


def test_buckets_are_few_and_lose_nothing() -> None:
    for length in (*range(1, 100), 9_999):
        runs = list(figures.buckets(range(length), 40))
        assert len(runs) <= 40
        assert [item for run in runs for item in run.items] == list(range(length))
        assert [(run.first, run.last) for run in runs] == [(run.items[0], run.items[-1]) for run in runs]


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["a/b/x1", "a/b/x2"], "a/b/"),
        (["s3://b/ab/x", "s3://b/ac/x"], "s3://b/"),
        (["/x", "y"], ""),
        (["a/x", "a/x/y"], "a/"),
        (["a/b/x"], ""),
        ([], ""),
    ],
)
def test_the_folder_of_all_files(paths: list[str], folder: str) -> None:
    files = [parquet_bloom.FileInfo(path, 1) for path in paths]
    assert page._folder(page.Contents("", "", files, figures.Stored(), 0.01)) == folder


def test_short_names_differ_where_names_do() -> None:
    names = [f"a.very.long.path.of.a.column.{n}.of.the.same.beginning.and.end" for n in range(50)]
    assert len(set(figures.labels(names, 22))) == 50
    assert figures.labels(["id", "user"], 22) == ["id", "user"]


def test_a_dash_is_not_a_file(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    ran = CliRunner().invoke(main, ["report", str(lake), "-o", "-"])
    assert (ran.exit_code, set(tmp_path.iterdir())) == (2, before)
    assert "give a file name" in ran.stderr
