"""Asks each release of an engine the same questions in files without filters and with ours: which release loses rows?

    PYTHONPATH=tests:tests/support python -m interop.matrix.releases FOLDER [ENGINE...]

Each release is fetched into FOLDER, asked by `ask_release.py`, and removed. What it answered stays in FOLDER/answers,
where a repeated run goes on; the files stay in FOLDER/released. Then it is one of docs/pages/interop_releases.json.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
from interop.matrix.programs import Program
from interop.matrix.releases_page import DATA, as_json, compact, lost, row_groups
from kinds import ALL_KINDS, write_kind
from packaging.requirements import Requirement
from packaging.version import Version
from samples import retrofit, supported

import parquet_bloom

ASK = Path(__file__).with_name("ask_release.py")
Values = list[tuple[str, int]]
"""Each by a file and the row that holds it."""
Ask = Callable[[str, Path, Values], list[int]]
QUESTIONS = {"=": (2, 1), "IN": (1, 2), "join": (1, 1)}
"""How often each is asked, and of how many values, the last of two being absent."""


@dataclass(frozen=True)
class Released:
    """An engine: its packages on PyPI, what all its releases share of what they need, and what else it is asked.

    Where nothing is shared, pip fetches what each of them needs.
    """

    packages: tuple[str, ...]
    needs: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def questions(self) -> dict[str, tuple[int, int]]:
        return QUESTIONS | dict.fromkeys(self.more, (1, 1))


ENGINES = {
    "DuckDB": Released(("duckdb",)),
    "DataFusion": Released(("datafusion",), ("pyarrow", "typing_extensions", "cloudpickle")),
    "deltalake": Released(("deltalake",), ("pyarrow", "arro3-core", "deprecated"), ("delete", "update")),
    # a wheel of chdb has had no engine since 4.1
    "ClickHouse": Released(("chdb<4.1", "chdb-core>=26"), ("pyarrow", "pandas"), ("default",)),
    "Polars": Released(("polars",)),
    "Spark": Released(("pyspark",)),
}


# ---- files ---------------------------------------------------------------------------------


def write_files(folder: Path) -> dict[tuple[str, int], dict[str, Path]]:
    """Returns the files of each kind and each number of row groups: without filters, with ours, and another's."""
    files = {}
    for kind in ALL_KINDS:
        stem = kind.replace(" ", "-")
        other = folder / f"{stem}-other.parquet"
        if not other.exists():
            write_kind(other, kind, "other")
        if "v" not in [leaf.name for leaf in supported(other)]:
            continue
        for groups in row_groups(kind):
            plain, ours = (folder / f"{stem}-{groups}-{version}.parquet" for version in ("plain", "ours"))
            if not ours.exists():
                rows = 2 * (groups if groups > 1 else 1000)
                write_kind(plain, kind, rows=rows, nulls=5, columns=("k", "v"), row_group_size=rows // groups)
                retrofit(plain, ours)
                verified = [(row.column, row.verdict) for row in parquet_bloom.verify(ours).rows]
                assert sorted(verified) == [("k", "ok")] * groups + [("v", "ok")] * groups
            files[kind, groups] = {"plain": plain, "ours": ours, "other": other, "parquet": plain}
    return files


def as_tables(files: dict[str, Path], kind: str) -> dict[str, Path]:
    """Returns a Delta table of each file, and no tables where Delta has no such type."""
    tables = {"parquet": files["parquet"]}
    for version in ("plain", "ours", "other"):
        tables[version] = files[version].with_suffix("")
        if not (tables[version] / "_delta_log").exists():
            tables[version].mkdir(exist_ok=True)
            shutil.copy(files[version], tables[version] / "part.parquet")
            try:
                deltalake.convert_to_deltalake(str(tables[version]))
            except Exception:  # it raises nothing narrower
                return {}
    return {} if kind.startswith("UINT") else tables


# ---- releases ------------------------------------------------------------------------------


def released(package: Requirement, since: str) -> Iterator[tuple[Version, str]]:
    """Returns the versions of a package and their dates."""
    with urllib.request.urlopen(f"https://pypi.org/pypi/{package.name}/json") as answer:
        releases = json.load(answer)["releases"]
    for text in package.specifier.filter(releases, prereleases=False):
        date = min((file["upload_time_iso_8601"][:10] for file in releases[text]), default="")
        if date >= since and not all(file["yanked"] for file in releases[text]):
            yield Version(text), date


def all_released(engine: Released, since: str) -> Iterator[tuple[str, Version, str, bool]]:
    """Yields package, version, date of each release, oldest first, and whether it is the last of a minor one."""
    for package in map(Requirement, engine.packages):
        known = sorted(released(package, since))
        last = {version.release[:2]: version for version, _ in known}
        for version, date in known:
            yield package.name, version, date, version in last.values()


# ---- asking --------------------------------------------------------------------------------


class NoAnswer(Exception):
    """A release does not install, does not start, or cannot answer a question."""


class Release(Program):
    """A release that is asked, and ended if it takes longer than two minutes; where it ends, it is asked once more."""

    def ask(self, again: bool = True, **request: Any) -> dict[str, Any]:
        ending = threading.Timer(120, lambda: self.process and self.process.kill())
        ending.start()
        try:
            return super().ask(**request)
        except RuntimeError as error:
            if again and str(error).startswith("the program ended"):
                return self.ask(again=False, **request)
            raise NoAnswer(str(error)) from error
        finally:
            ending.cancel()


def fetch(folder: Path, *packages: str, needs: bool) -> None:
    """Installs packages into a folder of their own, and what they need if it is wanted."""
    options = ["--only-binary", ":all:", "--no-binary", "pyspark", *(() if needs else ["--no-deps"])]  # it has no wheel
    command = [sys.executable, "-m", "pip", "install", "--quiet", *options, "--target", str(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        (reason, *_) = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel"]
        raise NoAnswer(reason)


@functools.cache
def rows_like(file: Path, row: int) -> list[int]:
    """Returns the rows that hold the same value as a row."""
    values = pq.read_table(file, columns=["v"])["v"].combine_chunks()
    numbers = getattr(values, "storage", values).dictionary_encode().indices.to_pylist()  # of a UUID, say
    return [k for k, number in enumerate(numbers) if number == numbers[row]]


def cell(ask: Ask, question: str, files: dict[str, Path], asked: list[Values]) -> dict[str, Any]:
    """Returns what a question for some values comes to."""
    answers = [answer_to(ask, question, files, values) for values in asked]
    worst = min((answer for answer, _ in answers), key=("loses", "fails", "ok", "cannot").index)
    said = next(said for answer, said in answers if answer == worst)
    return {"answer": worst, "times": f"{sum(answer == worst for answer, _ in answers)} of {len(asked)}", "said": said}


def answer_to(ask: Ask, question: str, files: dict[str, Path], values: Values) -> tuple[str, str]:
    """Returns a word and the reason for it; the file without filters is asked only where it makes a difference."""
    row = values[0][1]
    try:
        found = ask(question, files["ours"], values)
        error = None
    except NoAnswer as reason:
        found, error = None, str(reason)
    if question != "default" and found == rows_like(files["parquet"], row):
        return "ok", ""
    try:
        truth = ask(question, files["plain"], values)
    except NoAnswer as reason:
        return "cannot", str(reason)
    if question != "default" and row not in truth:
        return "cannot", "does not find the row, without filters either"
    if error:
        return "fails", error
    return ("ok", "") if found == truth else ("loses", f"{len(found)} of {len(truth)} rows")


def asking(release: Release) -> Ask:
    """Returns a function that returns the rows that a release finds."""
    return lambda question, file, values: release.ask(question=question, file=str(file), values=values)["rows"]


def measure(name: str, release: Release, files: dict[tuple[str, int], dict[str, Path]]) -> dict[str, Any]:
    """Returns each cell of a release."""
    cells: dict[str, Any] = {}
    for (kind, groups), of_kind in files.items():
        plain, absent = str(of_kind["plain"]), (str(of_kind["other"]), 6)
        rows = 2 * (groups if groups > 1 else 1000)
        here = [(plain, row) for row in (6, rows - 4)]
        for question, (times, count) in ENGINES[name].questions.items():
            asked = [[value, absent][:count] for value in here[:times]]
            seen = cell(asking(release), question, of_kind, asked)
            cells.setdefault(kind, {}).setdefault(str(groups), {})[question] = seen
    return cells


def measured(name: str, folder: Path, package: str, version: Version, files: Any) -> dict[str, Any]:
    """Fetches a release, asks it, and removes it."""
    engine, place, shared = ENGINES[name], folder / "release", folder / f"needs-{name}"
    if engine.needs and not shared.exists():
        fetch(shared, *engine.needs, needs=True)
    shutil.rmtree(place, ignore_errors=True)
    try:
        fetch(place, f"{package}=={version}", needs=not engine.needs)
        environment = [f"PYTHONPATH={place}:{shared}", f"SPARK_HOME={place / 'pyspark'}", "TZ=UTC"]
        command = ["env", *environment, "nice", "-n", "5", sys.executable, "-S", "-P", str(ASK), name]
        release = Release(name, str(version), command)
        try:
            said = release.ask(question="version")["version"]
            return {"version": said, "cells": measure(name, release, files)}
        finally:
            release.close()
    except NoAnswer as error:
        return {"version": str(version), "not tried": str(error).splitlines()[-1][-200:]}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def measure_all(name: str, folder: Path, files: Any, since: str) -> list[dict[str, Any]]:
    """Returns the answers of the last release of each minor one, and of all between two that do not lose the same."""
    engine, answers = ENGINES[name], folder / "answers"
    releases = list(all_released(engine, since))
    known: dict[int, dict[str, Any]] = {}

    def look(place: int) -> None:
        package, version, date, _ = releases[place]
        answer = answers / f"{name}-{package}-{version}.json"
        if not answer.exists():
            found = measured(name, folder, package, version, files)
            answer.write_text(json.dumps({"date": date, "package": f"{package} {version}", **found}), "utf-8")
            seen = found.get("not tried") or f"{len(lost(compact(found)))} cells lose rows"
            print(f"    {date} {name} {found['version']}: {seen}", flush=True)
        known[place] = json.loads(answer.read_text("utf-8"))

    for place, (*_, is_last) in enumerate(releases):
        if is_last:
            look(place)
    places = sorted(known)
    for left, right in itertools.pairwise(places):
        if lost(compact(known[left])).keys() != lost(compact(known[right])).keys():
            for place in range(left + 1, right):
                look(place)
    return [known[place] for place in sorted(known)]


def by_version(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the releases as they stand in the JSON; of packages of the same version the one that loses most."""
    versions: dict[str, Any] = {}
    for each in sorted(found, key=lambda release: (Version(release["version"]), release["date"])):
        release = compact(each)
        known = versions.get(each["version"], release)
        worst = max(known, release, key=lambda one: len(lost(one)))
        packages = dict.fromkeys((known["package"], release["package"]))
        versions[each["version"]] = {**worst, "date": known["date"], "package": ", ".join(packages)}
    return versions


def main(folder: Path, *names: str) -> None:
    (folder / "released").mkdir(parents=True, exist_ok=True)
    (folder / "answers").mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date()
    since = str(today - datetime.timedelta(days=730))
    files = write_files(folder / "released")
    engines = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    for name in names or ENGINES:
        theirs = files
        if name == "deltalake":
            theirs = {key: tables for key, of_kind in files.items() if (tables := as_tables(of_kind, key[0]))}
        found = measure_all(name, folder, theirs, since)
        engines[name] = {"measured": str(today), "since": since, "releases": by_version(found)}
    DATA.write_text(as_json({name: engines[name] for name in ENGINES if name in engines}), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
