"""Asks a table of a real engine what it has, and our verbs where it can be: no row that the engine returns may be lost.

The engine judges the conditions as columns of one query without a filter, so that none of its own pruning has a part
in its answer. A row is found in the files by its own number, which no other column holds: by the file that the engine
names, and else by any live file that has it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from real_tables.conditions import Column, columns, conditions
from real_tables.rows import RID

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, ParquetBloomError, UnsupportedError

CONDITIONS = int(os.environ.get("PARQUET_BLOOM_CONDITIONS", "100"))
SEED = int(os.environ.get("PARQUET_BLOOM_SEED", "1"))

ON_SPARK = 20
"""How many conditions Spark is asked, too."""

WHOLE = -1
"""The row group of a row that no Parquet file has: its file must be kept whole."""


@dataclasses.dataclass
class View:
    """A state of a table: how the engine reads it, and how our verbs are told of it.

    `read` returns a frame with the table's columns, `rid` among them, and `_file`: the file that has the row, or a
    part of its name, or null where the engine does not say.
    """

    read: Callable[[], Any]
    table: Any
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Such as `as_of`."""
    label: str = "now"


@dataclasses.dataclass
class Result:
    """What became of one verb on one kind of table: a line of the report."""

    engine: str
    kind: str
    verb: str
    status: str = "works"
    sentence: str = ""
    asked: int = 0
    lost: int = 0
    groups: int = 0
    left_out: int = 0
    not_pruned: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)
    made: float = dataclasses.field(default_factory=time.time)
    """When; the report is in this order."""

    def lose(self, example: str) -> None:
        self.lost += 1
        if len(self.examples) < 5:
            self.examples.append(example)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(char if char.isalnum() else "-" for char in f"{self.engine} {self.kind} {self.verb}")
        (folder / f"{name}.json").write_text(json.dumps(dataclasses.asdict(self)), "utf-8")


@dataclasses.dataclass
class Truth:
    """What the engine says of a view: its rows, what can be asked of them, and which rows match which condition."""

    view: View
    rows: list[Any]
    asked: list[Column]
    conditions: list[str]
    matches: list[list[tuple[int, str | None]]]
    """Of each condition the rows that match it: their numbers and files."""

    @classmethod
    def of(cls, view: View, rng: random.Random, count: int, strangers: Sequence[Any] = ()) -> Truth:
        frame = view.read()
        rows = frame.collect()
        asked = columns(frame, rows, strangers)
        assert asked, f"{view.label}: a table without rows shows nothing"
        wanted = conditions(rng, asked, count)
        expressions = [f"coalesce({text}, false)" for text in wanted]
        answers = frame.selectExpr("rid", "_file", f"array({', '.join(expressions)}) as _answers").collect()
        matches: list[list[tuple[int, str | None]]] = [[] for _ in wanted]
        for rid, file, row in answers:
            for number, matched in enumerate(row):
                if matched:
                    matches[number].append((rid, file))
        return cls(view, rows, asked, wanted, matches)


class Places:
    """Where rows are in Parquet files, by their own numbers; files do not change, so each is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, int]] = {}

    def of(self, path: str) -> dict[int, int]:
        """Return the row group of each row of a file, by the rows' numbers; nothing of what is no Parquet."""
        if path not in self._files:
            self._files[path] = dict(_numbered(path)) if path.endswith(".parquet") else {}
        return self._files[path]


def _numbered(path: str) -> Iterator[tuple[int, int]]:
    file = pq.ParquetFile(path)
    longs = [field.name for field in file.schema_arrow if pa.types.is_int64(field.type)]
    for group in range(file.num_row_groups):
        data = file.read_row_group(group, columns=longs) if longs else None
        for name in longs:
            column = data[name]
            if column.null_count == 0 and len(column) and pc.min(column).as_py() >= RID and name[0] != "_":
                yield from ((rid, group) for rid in column.to_pylist())


@cache
def real(path: str) -> str:
    """Return the path of a local file that an engine names by a URL, or not."""
    for scheme in ("file://", "file:"):
        if path.startswith(scheme):
            path = path.removeprefix(scheme)
            break
    return os.path.realpath(path)


class Kept:
    """What a verb kept of each file: its row groups, or all of it."""

    def __init__(self, files: dict[str, set[int] | None], places: Places) -> None:
        self.files = {real(path): groups for path, groups in files.items()}
        self._places = places
        self._by_name = {Path(path).name: path for path in self.files}
        self._home: dict[int, list[tuple[str, int]]] | None = None

    def has(self, rid: int, file: str | None) -> bool:
        """Return whether a row is in what was kept."""
        if file is None:
            homes = self._homes().get(rid, [])
            return any(self._keeps(path, group) for path, group in homes)
        path = real(file) if "/" in file else self._by_name.get(file, "")
        if path in self.files and rid in self._places.of(path):
            return self._keeps(path, self._places.of(path)[rid])
        if path in self.files:
            # A file without the rows' numbers, as a bootstrap writes it, has one row group.
            return self.files[path] is None or (not self._places.of(path) and self.files[path] == {0})
        # A file group, of which a log may hold the row.
        group = Path(file).name.partition("_")[0]
        return any(groups is None for name, groups in self.files.items() if group in Path(name).name)

    def _keeps(self, path: str, group: int) -> bool:
        groups = self.files[path]
        return groups is None or group in groups

    def _homes(self) -> dict[int, list[tuple[str, int]]]:
        if self._home is None:
            self._home = {}
            for path in self.files:
                for rid, group in self._places.of(path).items():
                    self._home.setdefault(rid, []).append((path, group))
        return self._home


def ask_prune(truth: Truth, result: Result, places: Places) -> None:
    """Ask `prune` each condition; raises what it raises of the first."""
    view = truth.view
    for number, (where, matching) in enumerate(zip(truth.conditions, truth.matches, strict=True)):
        try:
            pruning = parquet_bloom.prune(view.table, where, timezone="UTC", **view.options)
        except ParquetBloomError as error:
            if number == 0:
                raise
            result.lose(f"{view.label}: {where}: {type(error).__name__}: {error}")
            continue
        result.asked += 1
        totals = pruning.totals
        result.groups += totals.row_groups + totals.files_excluded + totals.files_not_pruned
        result.left_out += totals.row_groups - totals.row_groups_kept + totals.files_excluded
        result.not_pruned += totals.files_not_pruned
        result.sentence = result.sentence or next((f.not_pruned for f in pruning.all_files if f.not_pruned), "")
        kept = Kept({file.path: _groups(file) for file in pruning.all_files}, places)
        missing = [(rid, file) for rid, file in matching if not kept.has(rid, file)]
        if missing:
            result.lose(f"{view.label}: {where}: {len(missing)} of {len(matching)} rows, such as {missing[0]}")


def _groups(file: Any) -> set[int] | None:
    if file.not_pruned is not None:
        return None
    return {group.row_group for group in file.row_groups if group.is_kept}


def ask_lookup(truth: Truth, rng: random.Random, result: Result, places: Places) -> None:
    """Look up keys of a few columns, some of them absent."""
    plain = [column for column in truth.asked if column.kind in _LOOKED_UP and "." not in column.name]
    refusals = []
    for column in rng.sample(plain, min(4, len(plain))):
        try:
            for _ in range(2):
                _look_up(truth, column, [rng.choice(column.values) for _ in range(50)], result, places)
        except ParquetBloomError as error:
            refusals.append(f"{column.name}: {refused(error)}")
    if refusals:
        result.sentence = refusals[0]
        if not result.asked:
            result.status = "refused"


def _look_up(truth: Truth, column: Column, keys: list[Any], result: Result, places: Places) -> None:
    view, name, keys = truth.view, column.name.strip("`"), list(set(keys))
    found = parquet_bloom.lookup(view.table, column.name, keys, timezone="UTC", **view.options).to_arrow()
    result.asked += len(keys)
    kept: dict[Any, dict[str, set[int] | None]] = {}
    for key, path, group in zip(*(found[c].to_pylist() for c in ("key", "path", "row_group")), strict=True):
        of_key = kept.setdefault(_plain(key, column.kind), {})
        if path is not None and group is None:
            of_key[path] = None
        elif path is not None and of_key.setdefault(path, set()) is not None:
            of_key[path].add(group)
    result.groups += len(keys)
    result.left_out += sum(not kept.get(_plain(key, column.kind)) for key in keys)
    wanted = set(keys)
    by_key = {key: Kept(files, places) for key, files in kept.items()}
    for row in truth.rows:
        if row[name] in wanted and not by_key[_plain(row[name], column.kind)].has(row["rid"], row["_file"]):
            result.lose(f"{view.label}: lookup of {name} = {row[name]!r}: row {row['rid']} in {row['_file']}")


def ask_find(truth: Truth, rng: random.Random, result: Result) -> None:
    """Have rows found: all that the engine returns but those in files that are errors, no others, and their values."""
    view, by_rid = truth.view, {row["rid"]: row for row in truth.rows}
    for where, matching in zip(truth.conditions, truth.matches, strict=True):
        columns = None if rng.random() < 0.2 else ["rid"]
        try:
            found = parquet_bloom.find(view.table, where, columns=columns, timezone="UTC", **view.options)
            rows = found.to_arrow().to_pylist()
        except (UnsupportedError, LiteralError) as error:
            result.sentence = result.sentence or ("" if result.asked else refused(error))
            continue
        result.asked += 1
        result.groups += len(matching)
        result.sentence = next((error.error for error in found.errors), result.sentence)
        _compare(f"{view.label}: {where}", rows, matching, by_rid, {Path(e.path).name for e in found.errors}, result)
    plain = [column for column in truth.asked if column.kind in _LOOKED_UP and "." not in column.name]
    for column in rng.sample(plain, min(3, len(plain))):
        name, keys = column.name.strip("`"), {rng.choice(column.values) for _ in range(30)}
        try:
            found = parquet_bloom.find(view.table, column=column.name, keys=list(keys), timezone="UTC", **view.options)
            rows = found.to_arrow().to_pylist()
        except (UnsupportedError, LiteralError, ColumnNotFoundError) as error:
            result.sentence = result.sentence or ("" if result.asked else refused(error))
            continue
        matching = [(row["rid"], row["_file"]) for row in truth.rows if row[name] in keys]
        result.asked += 1
        result.groups += len(matching)
        failed = {Path(error.path).name for error in found.errors}
        _compare(f"{view.label}: keys of {column.name}", rows, matching, by_rid, failed, result)


def ask_spark(truth: Truth, result: Result) -> None:
    """Have Spark read the rows, by `spark.read`: those that the engine returns."""
    view, spark = truth.view, truth.view.read().sparkSession
    for where, matching in list(zip(truth.conditions, truth.matches, strict=True))[:ON_SPARK]:
        rows = [{"rid": row[0]} for row in bloom.read(spark, view.table, where, "rid").collect()]
        result.asked += 1
        result.groups += len(matching)
        _compare(f"{view.label}: {where}", rows, matching, {row["rid"]: row for row in truth.rows}, set(), result)


def _compare(
    asked: str,
    rows: list[dict[str, Any]],
    matching: list[tuple[int, str | None]],
    by_rid: dict[int, Any],
    failed: set[str],
    result: Result,
) -> None:
    mine, wanted = Counter(row["rid"] for row in rows), Counter(rid for rid, _ in matching)
    if more := mine - wanted:
        result.lose(f"{asked}: found {len(more)} rows that the engine does not return, such as {next(iter(more))}")
    missing = wanted - mine
    told = [rid for rid, file in matching if rid in missing and (file is None or _is_failed(Path(file).name, failed))]
    if missing and (not failed or len(told) < missing.total()):
        result.lose(f"{asked}: {missing.total()} rows are not found, such as {next(iter(missing))}")
    result.left_out += missing.total()
    for row in rows:
        theirs = by_rid[row["rid"]].asDict(recursive=True)
        if other := [name for name, value in row.items() if _same(value) != _same(theirs.get(name))]:
            result.lose(f"{asked}: {other[0]} of row {row['rid']} is {row[other[0]]!r}, not {theirs.get(other[0])!r}")
            return


def _is_failed(name: str, failed: set[str]) -> bool:
    """Return whether a file is an error, or one of its file group, of which a log may hold the row."""
    return name in failed or any(name.lstrip(".").partition("_")[0] in other for other in failed)


def _same(value: Any) -> str:
    """Return a value as text: the same for the same value of Arrow's and of Spark's."""
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        value = dict(value)  # a map, of Arrow's
    if isinstance(value, dict):
        return repr({name: _same(one) for name, one in value.items()})
    return repr(bytes(value) if isinstance(value, bytearray) else value)


_LOOKED_UP = ("long", "integer", "short", "string", "date", "decimal")


def _plain(value: Any, kind: str) -> Any:
    return float(value) if kind == "decimal" else value


def refused(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def everything(frame: Any) -> list[tuple[Any, ...]]:
    """Return all rows of a frame, comparable, in the order of their numbers."""
    names = [name for name in frame.columns if not name.startswith("_")]
    return sorted((row["rid"], *(repr(row[name]) for name in names)) for row in frame.collect())


@contextmanager
def noting(result: Result) -> Iterator[None]:
    """Note what is raised: a refusal where it is ours on purpose, and else a failure."""
    try:
        yield
    except (ParquetBloomError, FileNotFoundError, ValueError) as error:
        result.status, result.sentence = "refused", refused(error)
        if isinstance(error, FileNotFoundError) and "is not the directory" not in str(error):
            result.status = "fails"
    except Exception as error:
        result.status, result.sentence = "fails", refused(error)


class Examination:
    """Puts every verb to one kind of table, and notes what became of it."""

    def __init__(self, engine: str, kind: str, folder: Path) -> None:
        self.engine, self.kind, self.folder = engine, kind, folder
        self.places = Places()
        self.rng = random.Random(f"{SEED} {engine} {kind}")
        self.results: list[Result] = []

    def result(self, verb: str) -> Result:
        made = Result(self.engine, self.kind, verb)
        self.results.append(made)
        return made

    def run(self, views: Sequence[View], *, column: str, add: Callable[[], Any] | None, verb: str) -> None:
        """Ask of each view; the first one is the table as it is now, and only of it the verbs that write."""
        strangers = [row for view in views[1:3] for row in view.read().collect()]
        truths = [
            Truth.of(view, self.rng, CONDITIONS if number == 0 else max(CONDITIONS // 4, 1), strangers)
            for number, view in enumerate(views)
        ]
        self.prune("prune", truths)
        looked = self.result("lookup")
        with noting(looked):
            for truth in truths[:2]:
                ask_lookup(truth, self.rng, looked, self.places)
        found = self.result("find")
        with noting(found):
            for truth in truths:
                ask_find(truth, self.rng, found)
        if found.status == "works" and (found.left_out or not found.asked):
            found.status = "in part" if found.asked and found.left_out < found.groups else "refused"
        if isinstance(views[0].table, str):
            read = self.result("spark.read")
            with noting(read):
                ask_spark(truths[0], read)
        self.index(truths[0], column)
        if add is not None:
            self.add(views, truths, add, verb)

    def prune(self, verb: str, truths: Sequence[Truth]) -> None:
        result = self.result(verb)
        with noting(result):
            for truth in truths:
                ask_prune(truth, result, self.places)
        if result.status == "works" and not result.left_out:
            result.status = "kept"

    def index(self, truth: Truth, column: str) -> None:
        result = self.result("index")
        with noting(result):
            parquet_bloom.index.create(truth.view.table, [column])
            ask_prune(truth, result, self.places)
            ask_lookup(truth, self.rng, result, self.places)
            parquet_bloom.index.drop(truth.view.table)

    def add(self, views: Sequence[View], truths: Sequence[Truth], add: Callable[[], Any], verb: str) -> None:
        """Swap files, then ask the engine for its rows and us for our answers once more."""
        result = self.result(verb)
        before = [everything(view.read()) for view in views]
        with noting(result):
            added = add()
            errors = Counter(row.error for row in added.rows if row.error)
            swapped = sum(row.status in ("added", "written") for row in added.rows)
            result.asked = swapped
            if errors:
                sentence, times = errors.most_common(1)[0]
                result.status = "in part" if swapped else "refused"
                result.sentence = f"{times} of {len(added.rows)} files: {sentence}"
        for view, rows in zip(views, before, strict=True):
            if (after := everything(view.read())) != rows:
                result.lose(f"{view.label}: the engine read {len(rows)} rows before and {len(after)} others after")
        if result.status in ("works", "in part"):
            again = Truth.of(views[0], self.rng, CONDITIONS // 2)
            self.prune(f"prune after {verb}", [again, *truths[1:]])

    def conclude(self) -> None:
        """Save the results, and fail where a row was lost."""
        for result in self.results:
            result.save(self.folder)
        lost = [f"{result.verb}: {example}" for result in self.results for example in result.examples]
        lost += [f"{result.verb} fails: {result.sentence}" for result in self.results if result.status == "fails"]
        assert not lost, "\n".join([f"{self.engine}, {self.kind}:", *lost])
