"""Runs verbs in which one system call fails: `verbs.py FOLDER [--every N] [--seed N] [VERB ...]`.

faults.so must be preloaded. A child is forked for each call of each verb and for each kind of fault. Prints a line of
JSON for each rule that was broken, and one with the counts for each verb.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import io
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

SHORT, KILL = -1, -2
FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES, "short": SHORT, "kill": KILL}

import pyarrow.csv  # noqa: E402  what a child would import for itself
import pyarrow.dataset  # noqa: F401, E402
import pyarrow.parquet as pq  # noqa: E402

import parquet_bloom  # noqa: E402
from parquet_bloom.cli.commands import main as commands  # noqa: E402

VERBS: dict[str, list[str]] = {
    "add": ["add", "x.parquet", "-c", "id", "--replace"],
    "add-output": ["add", "x.parquet", "-c", "id", "-o", "new.parquet", "--replace"],
    "drop": ["drop", "filtered.parquet"],
    "restore": ["drop", "--restore", "filtered.parquet"],
    "inspect": ["inspect", "filtered.parquet"],
    "verify": ["verify", "filtered.parquet"],
    "probe": ["probe", "filtered.parquet", "id", "8"],
    "prune": ["prune", "filtered.parquet", "--where", "id = 8"],
    "prune-index": ["prune", "lake", "--where", "id = 8"],
    "lookup": ["lookup", "lake", "-c", "id", "-k", "keys.txt"],
    "index": ["index", "create", "other", "-c", "id"],
    "refresh": ["index", "refresh", "lake"],
}
CHANGES = {"add": "x.parquet", "add-output": "new.parquet", "drop": "filtered.parquet", "restore": "filtered.parquet"}


def make(folder: Path) -> None:
    import pyarrow as pa

    folder.mkdir()
    rows = pa.table({"id": pa.array(range(0, 4000, 2), pa.int64()), "name": [f"n{i}" for i in range(2000)]})
    pq.write_table(rows, folder / "x.parquet", row_group_size=500)
    shutil.copy(folder / "x.parquet", folder / "filtered.parquet")
    parquet_bloom.add(folder / "filtered.parquet", "id")
    (folder / "keys.txt").write_text("8\n9\n")
    for name in ("lake", "other"):
        (folder / name).mkdir()
        for number in range(2):
            pq.write_table(rows.slice(1000 * number, 1000), folder / name / f"{number}.parquet")
    from parquet_bloom.storage import listing

    listing.MTIME_STABLE_SECONDS = -1
    parquet_bloom.index.create(folder / "lake", "id")


def call(arguments: list[str], folder: Path, nth: int, fault: int, library: Any) -> tuple[int, int, str]:
    """Returns exit code, number of calls and output of a command in a child process."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            out = io.StringIO()
            os.chdir(folder)
            places = [
                str(folder / each) if (folder / each).exists() or each == "new.parquet" else each for each in arguments
            ]
            code = 3
            library.faults_arm(f"{folder}".encode(), nth, fault)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                try:
                    commands.main(places, prog_name="parquet-bloom")
                except SystemExit as end:
                    code = int(end.code or 0)
            count, at = library.faults_count(), library.faults_last().decode()
            library.faults_arm(b"", 0, 0)
            os.write(writing, json.dumps([code, count, at + "\n" + out.getvalue()[:20_000]]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(said)) if said else (137, 0, "")  # type: ignore[return-value]


def refilled(folder: Path, model: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder, symlinks=True)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "_bloom_index" not in path.parts}


def try_verb(verb: str, folder: Path, model: Path, library: Any, every: int, dice: random.Random) -> int:
    """Returns how many rules were broken by a verb."""
    arguments, broken = VERBS[verb], 0
    refilled(folder, model)
    usual, count, _ = call(arguments, folder, 0, 0, library)
    after, held = (
        names(folder),
        {name: (folder / name).read_bytes() for name in names(folder) if (folder / name).is_file()},
    )
    before = {name: (model / name).read_bytes() for name in names(model) if (model / name).is_file()}
    tried = dict.fromkeys(FAULTS, 0)
    cases = [(nth, kind) for nth in range(1, count + 1) for kind in FAULTS]
    for nth, kind in cases if every == 1 else dice.sample(cases, -(-len(cases) // every)):
        refilled(folder, model)
        code, _, said = call(arguments, folder, nth, FAULTS[kind], library)
        tried[kind] += 1
        wrong = []
        if code not in (usual, 2) and not (kind == "kill" and code == 137):
            wrong.append(f"exit code {code}")
        for name in names(folder) & {*before, *held}:
            data = (folder / name).read_bytes() if (folder / name).is_file() else None
            if data is not None and data not in (before.get(name), held.get(name)):
                wrong.append(f"{name} is neither the old nor the new file")
        if (name := CHANGES.get(verb)) and kind != "kill":
            is_new = (folder / name).exists() and (folder / name).read_bytes() == held[name]
            if is_new != (code == 0) and (kind != "short" or not is_new):
                wrong.append(f"exit code {code}, and the file is {'the new' if is_new else 'not the new'} one")
        strays = names(folder) - after - set(before)
        if strays and kind != "kill":
            wrong.append(f"left: {sorted(strays)}")
        again, _, told = call(arguments, folder, 0, 0, library)
        if strays := names(folder) - after - set(before):
            wrong.append(f"left after the next run: {sorted(strays)}")
        if again not in (usual, 0) and verb not in ("index", "add-output"):
            wrong.append(f"the next run ends with {again}: {told}")
        if wrong:
            broken += 1
            print(
                json.dumps({"verb": verb, "call": nth, "fault": kind, "wrong": wrong, "said": said[-600:]}), flush=True
            )
    print(json.dumps({"verb": verb, "calls": count, "tried": tried, "broken": broken}), flush=True)
    return broken


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
    model = given.folder / "model"
    make(model)
    dice = random.Random(given.seed)
    return int(
        sum(try_verb(verb, given.folder / "work", model, library, given.every, dice) for verb in given.verbs or VERBS)
        > 0
    )


if __name__ == "__main__":
    sys.exit(main())
