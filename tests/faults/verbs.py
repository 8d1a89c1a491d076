"""Runs verbs in which one system call fails: `verbs.py FOLDER [--every N] [--seed N] [VERB ...]`.

faults.so must be preloaded. A child is forked for each call of each verb and for each kind of fault. Prints a line of
JSON for each rule that was broken, and one with the counts for each verb.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import errno
import importlib
import io
import itertools
import json
import os
import pkgutil
import random
import shutil
import struct
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.cli.commands import main as commands

SHORT, KILL, GONE = -1, -2, 1000
FAULTS = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EACCES": errno.EACCES,
    "short": SHORT,
    "kill": KILL,
    "gone": GONE,  # and all later calls fail with EIO
}


KEYS = (8, 2008, 6000)
"""Ids that are in the first, the second and the last file of a lake; 6000 is in none that was indexed long ago."""


# ---- the files ---------------------------------------------------------------------------


def make(folder: Path) -> None:
    folder.mkdir()
    rows = pa.table({"id": pa.array(range(0, 4000, 2), pa.int64()), "name": [f"n{i}" for i in range(2000)]})
    pq.write_table(rows, folder / "x.parquet", row_group_size=500)
    shutil.copy(folder / "x.parquet", folder / "filtered.parquet")
    parquet_bloom.add(folder / "filtered.parquet", "id")
    shutil.copy(folder / "x.parquet", folder / "checked.parquet")
    (folder / ".checked.parquet.crc").write_bytes(checksums((folder / "x.parquet").read_bytes()))
    whole = (folder / "filtered.parquet").read_bytes()
    (folder / "cut").mkdir()
    for name, missing in (("a", 100), ("b", 3000)):
        (folder / "cut" / f"{name}.parquet").write_bytes(whole[:-missing])
    (folder / "keys.txt").write_text("".join(f"{key}\n" for key in (*KEYS, 9)))
    for name in ("lakes/lake", "lakes/other", "lakes/stale"):
        (folder / name / "part").mkdir(parents=True)
        for number in range(2):
            pq.write_table(rows.slice(1000 * number, 1000), folder / name / "part" / f"{number}.parquet")
    from parquet_bloom.storage import listing

    listing.MTIME_STABLE_SECONDS = -1
    parquet_bloom.index.create(folder / "lakes" / "lake", "id")
    parquet_bloom.index.create(folder / "lakes" / "stale", "id")
    late = pa.table({"id": pa.array(range(5000, 7000, 2), pa.int64()), "name": ["late"] * 1000})
    pq.write_table(late, folder / "lakes" / "stale" / "part" / "2.parquet")


def checksums(data: bytes) -> bytes:
    """Returns Hadoop's side file for a file of these bytes."""
    sums = [zlib.crc32(data[i : i + 512]) for i in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">i{len(sums)}I", 512, *sums)


def make_delta(folder: Path) -> None:
    from deltalake import write_deltalake

    folder.mkdir()
    for first in (0, 10):
        ids = pa.table({"id": pa.array(range(first, first + 10), pa.int64())})
        write_deltalake(str(folder / "delta"), ids, mode="append")
    (data, *_) = sorted((folder / "delta").glob("*.parquet"))
    (folder / "name").write_text(str(data.relative_to(folder)))


def make_iceberg(folder: Path) -> None:
    folder.mkdir()
    with catalog(folder) as found:
        found.create_namespace("n")
        made = found.create_table("n.t", pa.schema([("id", pa.int64())]))
        for first in (0, 10):
            made.append(pa.table({"id": pa.array(range(first, first + 10), pa.int64())}))


@contextlib.contextmanager
def catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    found = SqlCatalog("faults", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    try:
        yield found
    finally:
        found.engine.dispose()


# ---- children ----------------------------------------------------------------------------


def call(arguments: list[str], folder: Path, nth: int = 0, fault: int = 0, library: Any = None) -> tuple[int, int, str]:
    """Returns exit code, number of calls and output of a command in a child process."""

    def command() -> tuple[int, int, str]:
        out = io.StringIO()
        os.chdir(folder)
        named = [(folder / "name").read_text() if each == "NAME" else each for each in arguments]
        places = [
            str(folder / each) if ((folder / each).exists() or each == "new.parquet") and before != "--table" else each
            for before, each in itertools.pairwise(["", *named])
        ]
        code = 3
        if library is not None:
            library.faults_arm(f"{folder}".encode(), nth, fault)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                commands.main(places, prog_name="parquet-bloom")
            except SystemExit as end:
                code = int(end.code or 0)
        if library is None:
            return code, 0, out.getvalue()
        count, at = library.faults_count(), library.faults_last().decode()
        library.faults_arm(b"", 0, 0)
        return code, count, at + "\n" + out.getvalue()[:20_000]

    return in_child(command, (137, 0, ""))  # type: ignore[return-value]


def in_child(work: Callable[[], Any], killed: Any = None) -> Any:
    """Returns what a function returns in a child process; deltalake, once used, does not live through a fork."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(reading)
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            os.write(writing, json.dumps(["child", traceback.format_exc()[-2000:]]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if not said:
        return killed
    answer = json.loads(said)
    if isinstance(answer, list) and answer[:1] == ["child"]:
        return (-1, 0, answer[1]) if killed is not None else [answer[1]]
    return answer


# ---- the rules ---------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """A verb that was run with a fault; `before` and `after` are the files without it."""

    folder: Path
    before: dict[str, bytes]
    after: dict[str, bytes]
    usual: tuple[int, str]
    kind: str
    code: int
    said: str

    @property
    def is_abrupt(self) -> bool:
        return self.kind in ("kill", "gone")

    def content(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None


Rule = Callable[[Case], list[str]]


def changes(name: str) -> Rule:
    """The file is the new one if and only if success is reported."""

    def rule(case: Case) -> list[str]:
        is_new = case.content(name) == case.after[name]
        is_sure = case.kind not in ("kill", "next")
        if is_sure and is_new != (case.code == 0) and (case.kind != "short" or not is_new):
            return [f"exit code {case.code}, and the file is {'the new' if is_new else 'not the new'} one"]
        return []

    return rule


def in_place(name: str) -> Rule:
    """The file is the old one again, or the new one; `recover` makes it so after a kill, or where the error says so."""

    def rule(case: Case) -> list[str]:
        old, new = case.before[name], case.after[name]
        wrong: list[str] = []
        if case.kind == "next":
            return checked(name)(case)
        is_told = case.kind in ("kill", "short") or "run recover" in case.said
        if not is_told and (case.content(name) == new) != (case.code == 0):
            wrong.append(f"exit code {case.code} for {len(case.content(name) or b'')} bytes")
        if case.content(name) not in (old, new):
            if not case.is_abrupt:
                wrong.append("it is neither old nor new before recover")
            if case.kind == "gone" and "recover" not in case.said:
                wrong.append("the error does not name recover")
            code, _, said = call(["recover", name], case.folder)
            if code or case.content(name) not in (old, new):
                wrong.append(f"recover ends with {code}: {said}")
        return wrong + checked(name)(case)

    return rule


def checked(name: str) -> Rule:
    """A side file with checksums fits the file, or is not there."""

    def rule(case: Case) -> list[str]:
        sums = case.content(f".{name}.crc")
        return ["checksums do not fit"] if sums is not None and sums != checksums(case.content(name) or b"") else []

    return rule


def recovered(case: Case) -> list[str]:
    wrong = []
    for name in ("cut/a.parquet", "cut/b.parquet"):
        if case.content(name) not in (case.before[name], case.after[name]):
            wrong.append(f"{name} is neither as it was nor recovered")
        if case.code == 0 and case.content(name) != case.after[name]:
            wrong.append(f"exit code 0, and {name} is as it was")
    is_whole = all(case.content(f"cut/{name}.parquet") == case.after[f"cut/{name}.parquet"] for name in "ab")
    if is_whole and case.code not in (0, 137) and not case.is_abrupt and "was cut back" not in case.said:
        wrong.append("all are recovered, and it is a failure")
    return wrong


def says(*words: str) -> Rule:
    """Where it does not fail, it says so much."""

    def rule(case: Case) -> list[str]:
        missing = [word for word in words if word not in case.said]
        return [f"it does not say {missing}"] if case.code not in (2, 137) and missing else []

    return rule


def says_the_same(case: Case) -> list[str]:
    said = case.said.partition("\n")[2] if case.kind != "next" else case.usual[1]
    return [f"it usually says {case.usual[1]}"] if case.code == 0 and said != case.usual[1] else []


def finds(lake: str, *keys: int) -> Rule:
    """The index excludes no file that has a key."""

    def rule(case: Case) -> list[str]:
        wrong = []
        for key in keys:
            code, _, said = call(["prune", lake, "--where", f"id = {key}"], case.folder)
            if code:
                wrong.append(f"prune for {key} ends with {code}: {said}")
        code, _, said = call(["lookup", lake, "-c", "id", "-k", "keys.txt"], case.folder)
        if code or any(f"part/{number}.parquet" not in said for number in range(len(keys))):
            wrong.append(f"lookup ends with {code}: {said}")
        return wrong

    return rule


def stays(case: Case) -> list[str]:
    """No file of the folder is changed."""
    names_now = {str(path.relative_to(case.folder)) for path in case.folder.rglob("*") if path.is_file()}
    changed = [name for name, data in case.before.items() if case.content(name) != data]
    return [f"changed: {changed}; new: {sorted(names_now - set(case.before))}"] if changed else []


_TABLE_ROWS = list(range(20))


def delta_is_sound(case: Case) -> list[str]:
    """Each version reads as before, and nothing that was committed is damaged."""
    root = case.folder / "delta"

    def look() -> list[str]:
        from deltalake import DeltaTable

        table = DeltaTable(str(root))
        wrong = []
        for version in range(table.version() + 1):
            read = DeltaTable(str(root), version=version)
            ids = sorted(pa.RecordBatchReader.from_stream(read.scan(columns=["id"])).read_all()["id"].to_pylist())
            if ids != _TABLE_ROWS[: 10 if version == 0 else 20]:
                wrong.append(f"version {version} has {ids}")
        filtered = all("-bloom-" in path for path in table.file_uris())
        is_told = "the commit is in" in case.said or "is not known" in case.said
        if case.kind != "kill" and filtered != (case.code == 0) and not is_told:
            wrong.append(f"exit code {case.code} with version {table.version()}")
        return wrong + unreferenced(case, {Path(path).name for path in table.file_uris()}, root)

    return _untouched(case, "delta/") + in_child(look)


def iceberg_is_sound(case: Case) -> list[str]:
    def look() -> list[str]:
        wrong = []
        with catalog(case.folder) as found:
            table = found.load_table("n.t")
            for number, snapshot in enumerate(table.metadata.snapshots):
                ids = sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
                if ids != _TABLE_ROWS[: 10 if number == 0 else 20]:
                    wrong.append(f"snapshot {number} has {ids}")
            live = {task.file.file_path for task in table.scan().plan_files()}
        filtered = all("-bloom-" in path for path in live)
        is_told = "the commit is in" in case.said or "is not known" in case.said
        if case.kind != "kill" and filtered != (case.code == 0) and not is_told:
            wrong.append(f"exit code {case.code}, and the table has {live}")
        return wrong + unreferenced(case, {Path(path).name for path in live}, case.folder / "warehouse")

    return _untouched(case, "warehouse/") + in_child(look)


def _untouched(case: Case, below: str) -> list[str]:
    changed = [name for name in case.before if name.startswith(below) and case.content(name) != case.before[name]]
    return [f"damaged: {changed}"] if changed else []


def unreferenced(case: Case, live: set[str], root: Path) -> list[str]:
    """After a failure that is ours to clean up, new files that no snapshot has are gone or named."""
    new = {path for path in root.rglob("*-bloom-*") if path.name not in live}
    if case.is_abrupt or case.kind == "next":
        return []
    left = [path.name for path in new if path.name not in case.said]
    return [f"left: {left}"] if left else []


@dataclasses.dataclass
class Verb:
    """A command, and what must hold after it whatever failed."""

    arguments: list[str]
    rules: tuple[Rule, ...] = ()
    codes: tuple[int, ...] = ()
    """Exit codes that a fault may lead to, beside the usual one and 2."""

    maker: Callable[[Path], None] = make
    edited: tuple[str, ...] = ()
    """Files that may be other than the old one and the new one."""

    repeats: bool = True
    """Whether the next run ends as usual, or with 0."""

    again: list[str] | None = None
    """The next run, if it is another command."""

    free: tuple[str, ...] = ()
    """Folders in which new files may come and go, which the rules look at."""


_LAKE, _STALE = (8, 2008), KEYS

VERBS: dict[str, Verb] = {
    "add": Verb(["add", "x.parquet", "-c", "id", "--replace"], (changes("x.parquet"),)),
    "add-checked": Verb(
        ["add", "checked.parquet", "-c", "id", "--replace"], (changes("checked.parquet"), checked("checked.parquet"))
    ),
    "add-output": Verb(
        ["add", "x.parquet", "-c", "id", "-o", "new.parquet", "--replace"], (changes("new.parquet"),), repeats=False
    ),
    "add-in-place": Verb(
        ["add", "x.parquet", "-c", "id", "--in-place"], (in_place("x.parquet"),), edited=("x.parquet",)
    ),
    "add-in-place-checked": Verb(
        ["add", "checked.parquet", "-c", "id", "--in-place"],
        (in_place("checked.parquet"),),
        edited=("checked.parquet",),
        again=["add", "checked.parquet", "-c", "name", "--in-place"],
    ),
    "recover": Verb(["recover", "cut"], (recovered,), edited=("cut/a.parquet", "cut/b.parquet")),
    "drop": Verb(["drop", "filtered.parquet"], (changes("filtered.parquet"),)),
    "restore": Verb(["drop", "--restore", "filtered.parquet"], (changes("filtered.parquet"),)),
    "erase": Verb(["erase", "filtered.parquet", "-c", "id", "-k", "keys.txt", "--yes"], (changes("filtered.parquet"),)),
    "erase-checked": Verb(
        ["erase", "checked.parquet", "-c", "id", "-k", "keys.txt", "--yes"],
        (changes("checked.parquet"), checked("checked.parquet")),
        again=["add", "checked.parquet", "-c", "name", "--replace"],  # erase does not open what has no key left
        edited=("checked.parquet",),
    ),
    "inspect": Verb(["inspect", "filtered.parquet"], (says_the_same,)),
    "verify": Verb(["verify", "filtered.parquet"], (says_the_same,)),
    "probe": Verb(["probe", "filtered.parquet", "id", "8"]),
    "probe-absent": Verb(["probe", "filtered.parquet", "id", "9"], codes=(0,)),
    "prune": Verb(["prune", "filtered.parquet", "--where", "id = 8"]),
    "prune-index": Verb(["prune", "lakes/lake", "--where", "id = 2008"], (says("part/1.parquet"),)),
    "prune-exact": Verb(["prune", "lakes/lake", "--exact", "--where", "id = 2008"], (says("part/1.parquet"),)),
    "lookup": Verb(
        ["lookup", "lakes/stale", "-c", "id", "-k", "keys.txt"],
        (says("part/0.parquet", "part/1.parquet", "part/2.parquet"),),
    ),
    "index-create": Verb(
        ["index", "create", "lakes/other", "-c", "id"], (finds("lakes/other", *_LAKE),), repeats=False
    ),
    "index-refresh": Verb(["index", "refresh", "lakes/stale"], (finds("lakes/stale", *_STALE),)),
    "index-drop": Verb(["index", "drop", "lakes/lake"], (finds("lakes/lake", *_LAKE),), repeats=False),
    "add-in-a-table": Verb(["add", "NAME", "-c", "id"], (stays,), maker=make_delta),
    "add-table-delta": Verb(
        ["add", "delta", "--table", "delta", "-c", "id", "--jobs", "1"],
        (delta_is_sound,),
        maker=make_delta,
        free=("delta",),
    ),
    "add-table-iceberg": Verb(
        ["add", "n.t", "--table", "iceberg", "--catalog", "faults", "-c", "id", "--jobs", "1"],
        (iceberg_is_sound,),
        maker=make_iceberg,
        edited=("catalog.db",),
        free=("warehouse", "catalog.db-journal"),
    ),
}


# ---- the run -----------------------------------------------------------------------------


def held(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder but those of an index, which readers take for what they are."""
    paths = [path for path in folder.rglob("*") if ".bloom-index" not in str(path) and path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def refill(folder: Path, model: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder, symlinks=True)


def try_verb(name: str, folder: Path, models: Path, library: Any, every: int, dice: random.Random) -> int:
    """Returns how many rules were broken by a verb."""
    verb, broken = VERBS[name], 0
    model = models / verb.maker.__name__
    if not model.exists():  # made where it is used: some tables know where they are
        shutil.rmtree(folder, ignore_errors=True)
        in_child(lambda: verb.maker(folder))
        folder.rename(model)
    refill(folder, model)
    usual, count, said = call(verb.arguments, folder, 0, 0, library)
    before, after = held(model), held(folder)
    tried = dict.fromkeys(FAULTS, 0)
    cases = [(nth, kind) for nth in range(1, count + 1) for kind in FAULTS]
    for nth, kind in cases if every == 1 else dice.sample(cases, -(-len(cases) // every)):
        refill(folder, model)
        code, _, told = call(verb.arguments, folder, nth, FAULTS[kind], library)
        tried[kind] += 1
        case = Case(folder, before, after, (usual, said.partition("\n")[2]), kind, code, told)
        if wrong := _broken(verb, case):
            broken += 1
            line = {"verb": name, "call": nth, "fault": kind, "code": code, "wrong": wrong, "said": told[-600:]}
            print(json.dumps(line), flush=True)
    print(json.dumps({"verb": name, "calls": count, "tried": tried, "broken": broken}), flush=True)
    return broken


def _broken(verb: Verb, case: Case) -> list[str]:
    wrong = []
    if case.code not in (case.usual[0], 2, *verb.codes) and not (case.kind == "kill" and case.code == 137):
        wrong.append(f"exit code {case.code}")
    if "Traceback" in case.said or "PARQUET_BLOOM_DEBUG" in case.said:
        wrong.append("an error that is not ours")
    for name, data in held(case.folder).items():
        known = (case.before.get(name), case.after.get(name))
        is_watched = name in case.before or not name.startswith(verb.free or ("/",))  # a commit has times and names
        if known != (None, None) and is_watched and name not in verb.edited and data not in known:
            wrong.append(f"{name} is neither the old nor the new file")
    if not case.is_abrupt and (strays := _strays(verb, case)):
        wrong.append(f"left: {strays}")
    for rule in verb.rules:
        wrong += rule(case)
    again, _, told = call(verb.again or verb.arguments, case.folder)
    if strays := _strays(verb, case):
        wrong.append(f"left after the next run: {strays}")
    if verb.repeats and again not in (case.usual[0], 0):
        wrong.append(f"the next run ends with {again}: {told}")
    for rule in verb.rules:
        if again == 0:
            wrong += [f"then: {each}" for each in rule(dataclasses.replace(case, kind="next", code=again, said=told))]
    return wrong


def _strays(verb: Verb, case: Case) -> list[str]:
    new = set(held(case.folder)) - {*case.before, *case.after}
    return sorted(name for name in new if name.endswith(".tmp") or not name.startswith(verb.free or ("/",)))


def _import_all(work: Path) -> None:
    """Imports what a child would import for itself, again and again."""
    os.environ["PYICEBERG_CATALOG__FAULTS__TYPE"] = "sql"
    os.environ["PYICEBERG_CATALOG__FAULTS__URI"] = f"sqlite:///{work}/catalog.db"
    modules = [each.name for each in pkgutil.walk_packages(parquet_bloom.__path__, "parquet_bloom.")]
    of_others = "deltalake fsspec.implementations.local pyarrow.csv pyarrow.dataset pyiceberg.catalog.sql "
    of_others += "pyiceberg.io.pyarrow rich.console rich.table sqlalchemy.dialects.sqlite sqlglot"
    for name in [*(each for each in modules if ".spark" not in each and "__main__" not in each), *of_others.split()]:
        importlib.import_module(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("verbs", nargs="*", default=[])
    parser.add_argument("--every", type=int, default=1, help="one fault of so many, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.faults_last.restype = ctypes.c_char_p
    library.faults_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    dice = random.Random(given.seed)
    models = given.folder / "models"
    models.mkdir()
    work = given.folder / "work"
    _import_all(work)
    return int(sum(try_verb(verb, work, models, library, given.every, dice) for verb in given.verbs or VERBS) > 0)


if __name__ == "__main__":
    sys.exit(main())
