"""Asks each engine whether it uses our filters, and asks the filters of each engine: for every type of column.

    PYTHONPATH=tests:tests/support python -m interop.matrix.measure FOLDER [ENGINE...]

`.ci/interop` fetches the engines into FOLDER. What each engine did goes to FOLDER/results, one file for each.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from interop.matrix import sql
from interop.matrix.about import LIBRARIES, LONGEST
from interop.matrix.column_types import NESTED, WIDENED, Widened, type_of
from interop.matrix.programs import plain_values, programs
from interop.matrix.sql import NotTried, NoWay, Place, Question
from kinds import KINDS, ROW, ROW_GROUP_ROWS, ROWS, footer_of, with_exact_filters, with_filters, write_kind
from samples import retrofit

import parquet_bloom
from parquet_bloom.filters.parquet import NO_FILTER
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.values.encoding import hash_plain

Cell = dict[str, Any]


# ---- files ---------------------------------------------------------------------------------


def write_files(folder: Path, name: str, write: Callable[[Path, str], Path]) -> dict[str, Path]:
    """Writes a file: without filters, with ours, with filters of all values, with cleared ones; and another file."""
    stem = name.replace(" ", "-")
    paths = {version: folder / f"{stem}-{version}.parquet" for version in ("plain", "exact", "cleared", "other")}
    if not all(path.exists() for path in paths.values()):
        write(paths["plain"], "")
        write(paths["other"], "other")
        if name == "BOOLEAN":
            both = SplitBlockBloomFilter(64)
            both.insert_hash(hash_plain(b"\0"))
            both.insert_hash(hash_plain(b"\1"))
            with_filters(paths["plain"], paths["exact"], both)
        else:
            with_exact_filters(paths["plain"], paths["exact"])
        with_filters(paths["plain"], paths["cleared"], SplitBlockBloomFilter(64))
    ours = folder / f"{stem}-ours.parquet"
    return {**paths, "ours": ours if ours.exists() else retrofit(paths["plain"], ours)}


def write_nested(path: Path, seed: str) -> Path:
    """Writes 64-bit integers in a struct, a list, the values of a map, and the keys of another."""
    values = pq.read_table(write_kind(path.with_suffix(".values"), "INT64", seed))["v"].combine_chunks()
    path.with_suffix(".values").unlink()
    ones = pa.array(range(ROWS + 1), pa.int32())
    table = {
        "k": pa.array(range(ROWS), pa.int64()),
        "s": pa.StructArray.from_arrays([values], ["v"]),
        "l": pa.ListArray.from_arrays(ones, values),
        "m": pa.MapArray.from_arrays(ones, pa.array(["k"] * ROWS), values),
        "n": pa.MapArray.from_arrays(ones, values, pa.array(["k"] * ROWS)),
    }
    pq.write_table(pa.table(table), path, row_group_size=ROW_GROUP_ROWS, use_dictionary=False, store_schema=False)
    return path


# ---- our filters, used by them -------------------------------------------------------------


def read(engine: Any, files: dict[str, Path], leaf: str, widened: Widened | None = None) -> Cell:
    """Returns what came of a value, and below `IN` what came of two."""
    here, absent = places(files, leaf)
    cell = compare(engine, files, leaf, here[:1], absent[:1], widened)
    if engine.name in LIBRARIES:  # whose users check one value after the other
        return cell
    pair = (here[0], absent[0]) if absent else here[:2]
    return {**cell, "IN": compare(engine, files, leaf, pair, absent[:2], widened)}


def worst(cells: Iterable[Cell]) -> Cell:
    """Returns the cell with the worst answer to `=`, or else the one that says most."""
    return min(cells, key=lambda cell: ("loses rows", "fails", "yes", "no", "cannot").index(cell["answer"]))


def places(files: dict[str, Path], leaf: str) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Returns where the file has the value that is asked for and others, and where the other file has absent ones."""
    held, others = (plain_values(files[source], leaf) for source in ("plain", "other"))
    first = {value: row for row, value in reversed(list(enumerate(others))) if value not in set(held)}
    here = {held[ROW]: ROW} | {value: row for row, value in enumerate(held) if value != held[ROW]}
    return (
        tuple(Place(files["plain"], row) for row in here.values()),
        tuple(Place(files["other"], row) for row in sorted(first.values())),
    )


def compare(
    engine: Any,
    files: dict[str, Path],
    leaf: str,
    values: tuple[Place, ...],
    absent: tuple[Place, ...],
    widened: Widened | None = None,
) -> Cell:
    """Returns how many rows an engine finds for some values, with right and wrong filters and with none."""

    def find(version: str) -> list[int]:
        return engine.find(Question(files[version], leaf, values, widened))

    try:
        truth = find("plain")
    except NotTried as reason:
        return {"answer": "not tried", "reason": str(reason)}
    except NoWay as reason:
        return {"answer": "cannot", "reason": str(reason)}
    except Exception as error:
        return {"answer": "cannot", "error": said(error)}
    if ROW not in truth:
        return {"answer": "cannot", "error": "does not find the row, without filters either"}
    found, lost = {}, "loses rows" if widened else "LOST"  # `add --table` refuses such a column
    for version in ("ours", "exact", "cleared"):
        try:
            found[version] = find(version)
        except Exception as error:
            return {"answer": lost if version == "ours" else "fails", "error": said(error)}
    if found["ours"] != truth:
        answer = lost
    elif found["exact"] != truth:
        answer = "loses rows"
    else:
        answer = "no" if found["cleared"] == truth else "yes"
    rows = {"without filters": len(truth), **{version: len(rows) for version, rows in found.items()}}
    cell: Cell = {"answer": answer, "rows": rows}
    if answer == "yes" and hasattr(engine, "counts") and files["ours"] != files["plain"] and absent:
        counts = (engine.count(Question(files["ours"], leaf, some, widened)) for some in (values, absent))
        cell[engine.counts] = dict(zip(("present", "absent"), counts, strict=True))
    return cell


def longest_list(engine: Any, files: dict[str, Path]) -> int:
    """Returns how many values `IN` may have for an engine to use filters: with the cleared ones it finds no row."""
    here, absent = places(files, "v")

    def uses(size: int) -> bool:
        values = (here[0], *absent[: size - 1])
        found = {
            version: engine.find(Question(files[version], "v", values)) for version in ("plain", "ours", "cleared")
        }
        assert found["ours"] == found["plain"] == [ROW], (engine.name, size)
        return not found["cleared"]

    low, high = 2, 0
    for size in (10, 100, 101, LONGEST):  # ClickHouse has a limit of 100
        if not uses(size):
            high = size
            break
        low = size
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if uses(middle) else (low, middle)
    return low


# ---- their filters, used by us -------------------------------------------------------------


def written(engine: Any, files: dict[str, Path], folder: Path) -> tuple[str, Cell]:
    """Returns the type that an engine wrote, and what we made of its filters."""
    theirs, other = folder / f"{engine.name}.parquet", folder / f"{engine.name}-other.parquet"
    for source, output in ((files["plain"], theirs), (files["other"], other)):
        output.unlink(missing_ok=True)
        try:
            engine.write(source, output)
        except Exception as error:
            return type_of(footer_of(files["plain"]).leaves[1]), {"answer": "cannot write", "error": said(error)}
    (leaf,) = [leaf for leaf in footer_of(theirs).leaves if leaf.name == "v"]
    return type_of(leaf), use(theirs, other)


def use(theirs: Path, other: Path) -> Cell:
    """Returns what `verify` and `probe` say of the filters of a file, for its values and for those of another."""
    try:
        rows = [row for row in parquet_bloom.verify(theirs).rows if row.column == "v"]
        present, absent = distinct(theirs), distinct(other, without=set(distinct(theirs).to_pylist()))
        answers = {row.reason for row in probed(theirs, present)}
        found, pruned = matching(theirs, present), len(absent) - matching(theirs, absent)
    except Exception as error:
        return {"answer": "cannot use", "error": said(error)}
    if not rows:
        return {"answer": "no filter"}
    verdict = next((row.verdict for row in rows if row.verdict != "ok"), "ok")
    cell: Cell = {
        "filters": len(rows),
        "verify": verdict,
        "found": [found, len(present)],
        "pruned": [pruned, len(absent)],
    }
    if found < len(present):
        return {"answer": "LOST", **cell}
    if pruned:
        return {"answer": "yes", **cell}
    return {"answer": "not used", **cell, "reason": next(iter(sorted(answers - {NO_FILTER})), "")}


def distinct(path: Path, without: AbstractSet[Any] = frozenset()) -> pa.Array:
    """Returns the values of `v`, each once."""
    values = pq.read_table(path, columns=["v"])["v"].combine_chunks()
    if "view" in str(values.type):  # of which pyarrow cannot take some
        values = values.cast(pa.string() if values.type == pa.string_view() else pa.binary())
    first = {value: i for i, value in reversed(list(enumerate(values.to_pylist()))) if value not in without}
    return values.take(pa.array(sorted(first.values()), pa.int64()))


def probed(path: Path, values: pa.Array) -> tuple[Any, ...]:
    """Returns our answers; an INT96 needs a time zone."""
    (leaf,) = [leaf for leaf in footer_of(path).leaves if leaf.name == "v"]
    timezone = "UTC" if leaf.physical_type is PhysicalType.INT96 else None
    return parquet_bloom.probe(path, "v", values, timezone=timezone).rows


def matching(path: Path, values: pa.Array) -> int:
    """Returns how many of the values may be in some row group."""
    if not len(values):
        return 0
    rows = probed(path, values)
    groups = len({row.row_group for row in rows})
    assert len(rows) == groups * len(values)
    might = [row.answer == "MIGHT_MATCH" for row in rows]
    return sum(any(might[i :: len(values)]) for i in range(len(values)))


# ---- all of it -----------------------------------------------------------------------------


def said(error: Exception) -> str:
    """Returns the first words of an error, without paths."""
    if hasattr(error, "java_exception"):
        error = error.java_exception
    (line, *_) = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"(file:)?/[^\s'\",)]*", "…", line)[:150].strip()


def version_of(engine: Any) -> str:
    return engine.version if hasattr(engine, "version") else importlib.metadata.version(engine.package)


def measure(engine: Any, folder: Path) -> dict[str, Any]:
    files = {
        kind: write_files(folder, kind, lambda path, seed, kind=kind: write_kind(path, kind, seed)) for kind in KINDS
    }
    nested = write_files(folder, "nested", write_nested)
    bare = {
        kind: write_files(
            folder,
            f"{kind} without statistics",
            lambda path, seed, kind=kind: write_kind(path, kind, seed, write_statistics=False),
        )
        for kind in sorted({widened.kind for widened in WIDENED.values()})
    }
    result: dict[str, Any] = {"version": version_of(engine), "reads": {}, "writes": {}}
    for kind in KINDS:
        if hasattr(engine, "find"):
            result["reads"][kind] = read(engine, files[kind], "v")
        if hasattr(engine, "write"):
            of_type, cell = written(engine, files[kind], folder)
            known = result["writes"].get(of_type, {"answer": "cannot write"})
            if known["answer"] == "cannot write" or of_type == type_of(footer_of(files[kind]["plain"]).leaves[1]):
                result["writes"][of_type] = cell
    for name, leaf in NESTED.items():
        if hasattr(engine, "find"):
            result["reads"][name] = read(engine, nested, leaf)
    if getattr(engine, "widens", False):
        result["reads widened"] = {
            name: worst(read(engine, each, "v", widened) for each in (files[widened.kind], bare[widened.kind]))
            for name, widened in WIDENED.items()
        }
    if result["reads"].get("INT64", {}).get("IN", {}).get("answer") == "yes":
        result["longest IN"] = longest_list(engine, files["INT64"])
    for cells in (result["reads"], result["writes"]):  # which every engine can, unless it is not well installed
        assert not cells or not cells["INT64"]["answer"].startswith("cannot"), (engine.name, cells["INT64"])
    return result


def main(folder: Path, *names: str) -> None:
    files, results = folder / "files", folder / "results"
    files.mkdir(parents=True, exist_ok=True)
    results.mkdir(exist_ok=True)
    made = {made.name: made for made in sql.PYTHON} | programs(folder)
    for name in names or made:
        engine = made[name]() if isinstance(made[name], type) else made[name]
        result = measure(engine, files)
        (results / f"{name}.json").write_text(json.dumps(result, ensure_ascii=False), "utf-8")
        if hasattr(engine, "close"):
            engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
