"""Rooms import only from those below them, no module is part of a circle, and every outside library has its door."""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import parquet_bloom
import parquet_bloom.spark

PACKAGE = Path(parquet_bloom.__file__).parent

ROOMS = [
    "format",
    "values",
    "storage",
    "tables",
    "filters",
    "predicates",
    "drawing",
    "verbs",
    "lake",
    "spark",
    "cli",
]  # from the ground up
FOR_ALL = {"errors", "results", "_kernel"}
FRONT = {"", "__main__", "index", "hudi", "paimon"}  # they lead into the house

DEVIATIONS: dict[tuple[str, str], str] = {}
"""Arrows that run upwards: (module, imported module) and the reason."""

DOORS = {
    "fsspec": {"storage"},
    "s3fs": set(),
    # Decodes pages; writes its sample; reads a file of keys; keeps its index; reads a log's checkpoints; prints rows.
    "pyarrow.parquet": {"storage", "verbs", "filters", "tables", "cli"},
    "pyspark": {"spark"},
    "deltalake": {"tables"},
    "pyiceberg": {"tables"},
    "fastavro": {"tables"},
    "pyroaring": {"tables"},
    "thrift": {"format"},
    "cryptography": {"format"},
    "xxhash": {"values"},
    "jinja2": {"drawing"},
    "vl_convert": {"drawing"},
    "click": {"cli"},
    "rich": {"cli"},
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text("utf-8"))


def room_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def imports(name: str) -> list[str]:
    """Returns the full name of everything that a module imports, wherever it stands."""
    found: list[str] = []
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def module_of(imported: str) -> str | None:
    """Returns the module of ours that an import means, or None."""
    package, _, below = imported.partition(".")
    if package != "parquet_bloom":
        return None
    while below not in FILES and below not in FOR_ALL:
        below = below.rpartition(".")[0]
    return below


@cache
def arrows() -> set[tuple[str, str]]:
    """Returns which modules import which others."""
    return {
        (name, other)
        for name in FILES
        for imported in imports(name)
        if (other := module_of(imported)) is not None and other != name
    }


def circles(among: set[tuple[str, str]]) -> list[set[str]]:
    """Returns the groups of modules that import each other, however indirectly."""
    reached: dict[str, set[str]] = {}
    for start in {name for name, _ in among}:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            here = waiting.pop()
            new = {other for name, other in among if name == here} - seen
            seen |= new
            waiting += new
        reached[start] = seen
    groups = {
        frozenset(o for o in seen if name in reached.get(o, ())) for name, seen in reached.items() if name in seen
    }
    return [set(group) for group in groups]


def test_only_generated_code_imports_relatively() -> None:
    relative = {
        name for name in FILES for node in ast.walk(tree_of(name)) if isinstance(node, ast.ImportFrom) and node.level
    }
    assert all(name.startswith("format._parquet_thrift") for name in relative)


def test_every_module_has_its_room() -> None:
    assert {room_of(name) for name in FILES} <= {*ROOMS, *FOR_ALL, *FRONT}


def test_rooms_import_only_from_those_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    upwards = {
        (name, other)
        for name, other in arrows()
        if room_of(name) in ROOMS
        and room_of(other) in ROOMS
        and ROOMS.index(room_of(other)) > ROOMS.index(room_of(name))
    }
    assert upwards == DEVIATIONS.keys()
    between = {(room_of(a), room_of(b)) for a, b in arrows() if room_of(a) != room_of(b)}
    at_root = [name for name in FILES if "." not in name and name not in ROOMS]
    with capsys.disabled():
        print(
            f"\n{len(at_root)} files at the root, {len(between)} arrows between rooms, {len(circles(arrows()))} circles"
        )


def test_what_all_may_import_imports_nothing_of_ours() -> None:
    assert {(a, b) for a, b in arrows() if a in FOR_ALL and b not in FOR_ALL} == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles({(a, b) for a, b in arrows() if a != ""}) == []


@pytest.mark.parametrize("library", DOORS)
def test_every_library_has_its_door(library: str) -> None:
    using = {room_of(name) for name in FILES for i in imports(name) if f"{i}.".startswith(f"{library}.")}
    assert using <= DOORS[library]


VALUES = {"hash_fixed", "hash_variable", "order", "run_between", "meet", "prefixes"}
"""What the kernel does with values; Paimon's filters hash texts as Parquet's do."""


def test_only_values_turns_values_into_bytes() -> None:
    hashing = {
        name
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Attribute) and node.attr in VALUES and ast.unparse(node.value) == "_kernel"
    }
    assert {"values.arrays", "values.key_sets"} <= hashing
    assert {name for name in hashing if room_of(name) != "values"} == {"filters.paimon"}
    packing = {room_of(name) for name in FILES if "struct" in imports(name)}
    assert not packing & {"predicates", "drawing", "cli"}


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = loaded_by("import parquet_bloom")
    assert not loaded & {"pyarrow", "thrift", "fsspec", "click", "rich", "xxhash", "numpy", "asyncio", "cryptography"}
    assert not loaded & {"jinja2", "vl_convert"}
    assert {name for name in loaded if name.startswith("parquet_bloom.")} <= {"parquet_bloom.errors"}


def test_inspecting_needs_no_pages_decoded() -> None:
    assert "pyarrow.parquet" not in loaded_by("from parquet_bloom import inspect")


HEAVY = {
    "numpy",
    "pandas",
    "pyarrow",
    "fsspec",
    "asyncio",
    "email",
    "ssl",
    "hashlib",
    "sqlglot",
    "rich",
    "cryptography",
}
COMMANDS = {
    "prune lake --where 'id = 5' --files-only": set(),
    "prune lake --where 'id = 5'": {"rich"},
    "prune lake --where 'id = 5 AND id < 9' --files-only": set(),
    "prune lake --where 'id IN (5, 6)' --files-only": {"sqlglot", "email"},
    "probe lake id 5": set(),
    "inspect lake/a.parquet": {"rich"},
    "--help": set(),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_only_what_it_needs(command: str, tmp_path: Path) -> None:
    """What it need not import takes longer than what it does: pyarrow alone as long as all else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "lake").mkdir()
    options = {"id": {"ndv": 100, "fpp": 0.01}}
    pq.write_table(pa.table({"id": [4, 5, 6]}), tmp_path / "lake" / "a.parquet", bloom_filter_options=options)
    loaded = loaded_by(
        f"import os; os.chdir({str(tmp_path)!r}); sys.argv = {['parquet-bloom', *shlex.split(command)]!r}\n"
        "from parquet_bloom.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    tables = {"parquet_bloom.tables." + kind for kind in ("delta", "hudi", "iceberg", "paimon")}
    others = {"parquet_bloom.filters." + kind for kind in ("hudi", "paimon", "index")}
    assert loaded & (HEAVY | tables | others) == COMMANDS[command]


def test_every_public_name_can_be_had() -> None:
    for name in parquet_bloom.__all__:
        assert getattr(parquet_bloom, name) is not None
    assert set(parquet_bloom.__all__) <= set(dir(parquet_bloom))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = parquet_bloom.nothing


@pytest.mark.parametrize("package", [parquet_bloom, parquet_bloom.spark], ids=lambda package: package.__name__)
def test_no_module_hides_a_function_of_its_name(package: ModuleType) -> None:
    modules = {path.stem for path in Path(str(package.__file__)).parent.glob("*")}
    assert modules & set(package.__all__) <= {"hudi", "index", "paimon", "spark"}  # which are the modules themselves
