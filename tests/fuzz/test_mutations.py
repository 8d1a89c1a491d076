"""Seeded random damage: every verb answers or reports, and no value that is there is ever excluded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from samples import FIXTURES

MUTATE = """
import faulthandler, json, pathlib, random, sys, tempfile
faulthandler.enable()
import parquet_bloom
import pyarrow.parquet as pq
from parquet_bloom import CANNOT_MATCH, ParquetBloomError
from parquet_bloom.verbs import exact

exact.INDEX_WORTH = 0  # page indexes are read, whatever the size

original, seed, count, spared = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "spared"
good = original.read_bytes()
rng = random.Random(f"{original.name} {seed}")
footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
filters = [f for f in parquet_bloom.inspect(original).rows]
columns = sorted({f.column for f in filters})

def in_a_bitset(at):
    return any(f.offset <= at < f.offset + (f.length or 32 + f.num_bytes) and
               (f.length is None or at >= f.offset + f.length - f.num_bytes) for f in filters)

def position():
    kind = rng.randrange(4)
    if kind < 2:
        return rng.randrange(footer, len(good))
    if kind == 2:
        return rng.choice(filters).offset + rng.randrange(20)
    return rng.randrange(len(good))

def flipped():
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        at = position()
        if not (spared and in_a_bitset(at)):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)

def reshaped():
    at, size = position(), rng.choice([1, 2, 7, 32, 300])
    match rng.randrange(5):
        case 0: return good[:at]
        case 1: return good[:at] + rng.randbytes(size) + good[at:]
        case 2: return good[:at] + good[at + size :]
        case 3: return good[:at] + rng.randbytes(size) + good[at + size :]
        case _: return good[:at] + good[rng.randrange(len(good)):]

def report(*what):
    print(json.dumps(what))

def attempt(number, verb, call):
    try:
        return call()
    except ParquetBloomError:
        return None
    except BaseException as error:
        report(number, verb, repr(error))

present = []
if spared:
    with pq.ParquetFile(original) as file:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns)
            present.append({c: sorted({v for v in rows[c].to_pylist() if v is not None}) for c in columns})

folder = pathlib.Path(tempfile.mkdtemp())
path = folder / "mutated.parquet"
for number in range(count):
    path.write_bytes(flipped() if spared or rng.random() < 0.6 else reshaped())
    attempt(number, "inspect", lambda: parquet_bloom.inspect(path))
    for column in columns:
        if not spared:
            attempt(number, "probe", lambda: parquet_bloom.probe(path, column, ["1", "x", "2020-01-01"], as_text=True))
            for value in ("'1'", "'x'", "1", "0.5", "'2020-01-01'"):
                where = f"`{'`.`'.join(column.split('.'))}` = {value}"
                attempt(number, "prune", lambda: parquet_bloom.prune(path, where, exact=True, timezone="UTC"))
        for group, values in enumerate(present):
            answer = attempt(number, "probe", lambda: parquet_bloom.probe(path, column, values[column]))
            for row in answer.rows if answer is not None else ():
                if row.row_group in (None, group) and row.answer == CANNOT_MATCH:
                    report(number, "excluded", group, column, row.value)
    if number % 5 == 0:
        attempt(number, "verify", lambda: parquet_bloom.verify(path, jobs=1))
        attempt(number, "drop", lambda: parquet_bloom.drop(path, restore=True, dry_run=True))
        attempt(number, "drop", lambda: parquet_bloom.drop(path, output=folder / f"{number}-dropped.parquet"))
        attempt(number, "add", lambda: parquet_bloom.add(path, columns, output=folder / f"{number}.parquet", jobs=1))
        attempt(number, "inspect", lambda: parquet_bloom.inspect(folder))
report("done")
"""


def run(file, seed, count, spared):
    """Returns what went wrong in a child process, which may crash: each a number, a verb and the error."""
    command = [sys.executable, "-c", MUTATE, FIXTURES / file, str(seed), str(count), spared]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    *wrong, done = map(json.loads, said.stdout.splitlines())
    assert done == ["done"]
    return wrong


def test_few_changes_of_a_small_file():
    assert run("pyarrow/small.parquet", 3, 40, "spared") == []
    assert run("pyarrow/small.parquet", 4, 25, "anything") == []


@pytest.mark.slow
@pytest.mark.parametrize("file", ["pyarrow/small.parquet", "spark/blocks_9.parquet", "clickhouse/early.parquet"])
def test_no_present_value_is_excluded_unless_a_bitset_is_hit(file):
    assert run(file, 1, 250, "spared") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        *("pyarrow/small.parquet", "pyarrow/without_length.parquet", "pyarrow/deep.parquet"),
        *("pyarrow/names_filtered.parquet", "pyarrow/decimal_bytes.parquet", "pyarrow/fallback.parquet"),
        *("duckdb/partly.parquet", "datafusion/some_columns.parquet", "clickhouse/early.parquet"),
        *("spark/nested.parquet", "spark/int96.parquet"),
    ],
)
def test_every_verb_answers_or_reports(file):
    assert run(file, 2, 150, "anything") == []
