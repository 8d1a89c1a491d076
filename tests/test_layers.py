"""Modules import only from those before them in one list, and every outside library has its door."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import parquet_bloom

PACKAGE = Path(parquet_bloom.__file__).parent

ORDER = [
    "errors",
    "_kernel",
    "format",
    "schema",
    "values",
    "ordering",
    "sbbf",
    "ranges",
    "footer",
    "probing",
    "bounds",
    "keys",
    "predicate",
    "partitions",
    "local_files",
    "object_store",
    "storage",
    "cache",
    "columns",
    "engines",
    "results",
    "parallel",
    "tables",
    "indexes",
    "reader",
    "evaluation",
    "verdicts",
    "pruning",
    "lookups",
    "writer",
    "hudi_filters",
    "commits",
    "paimon_indexes",
    "verification",
    "demonstration",
    "indexing",
    "ddl",
    "spark",
    "cli",
    "__main__",
]

DOORS = {
    "fsspec": {"storage", "object_store"},
    "s3fs": set(),
    # Decodes pages, writes its sample, reads a file of keys, keeps its index, reads a log's checkpoints.
    "pyarrow.parquet": {"columns", "demonstration", "indexes", "keys", "tables"},
    "pyspark": {"spark"},
    "deltalake": {"tables"},
    "pyiceberg": {"tables"},
    "fastavro": {"tables"},
    "thrift": {"format"},
    "xxhash": {"values"},
    "click": {"cli"},
    "rich": {"cli"},
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yields every module but `__init__`, by its name below the package: of a subpackage, the subpackage's."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if name != "__init__":
            yield name, ast.parse(path.read_text("utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    """Yields the full name of everything that is imported, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_generated_code_imports_relatively() -> None:
    relative = {
        name for name, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level
    }
    assert relative <= {"format"}


def test_every_module_has_its_place() -> None:
    assert {name for name, _ in modules()} | {"_kernel"} == set(ORDER)


def test_modules_import_only_from_those_before_them() -> None:
    wrong = []
    for name, tree in modules():
        for imported in imports(tree):
            package, _, below = imported.partition(".")
            other = below.partition(".")[0]
            ours = package == "parquet_bloom" and other in ORDER and other != name
            if ours and ORDER.index(other) > ORDER.index(name):
                wrong.append(f"{name} imports {other}")
    assert wrong == []


@pytest.mark.parametrize("library", DOORS)
def test_every_library_has_its_door(library: str) -> None:
    using = {name for name, tree in modules() for i in imports(tree) if f"{i}.".startswith(f"{library}.")}
    assert using <= DOORS[library]


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = loaded_by("import parquet_bloom")
    assert not loaded & {"pyarrow", "thrift", "fsspec", "click", "rich", "xxhash", "numpy", "asyncio"}
    assert {name for name in loaded if name.startswith("parquet_bloom.")} <= {"parquet_bloom.errors"}


def test_inspecting_needs_no_pages_decoded() -> None:
    assert "pyarrow.parquet" not in loaded_by("from parquet_bloom import inspect")


def test_every_public_name_can_be_had() -> None:
    for name in parquet_bloom.__all__:
        assert getattr(parquet_bloom, name) is not None
    assert set(parquet_bloom.__all__) <= set(dir(parquet_bloom))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = parquet_bloom.nothing
