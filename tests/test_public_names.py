"""What can be imported from the package: every name that a signature uses, and no name that a type checker lacks."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parquet_bloom

MODULES: dict[str, Any] = {
    "": parquet_bloom,
    "index": parquet_bloom.index,
    "hudi": parquet_bloom.hudi,
    "paimon": parquet_bloom.paimon,
}
VERBS = {
    f"{family}.{name}": value
    for family, module in MODULES.items()
    for name in module.__all__
    if inspect.isfunction(value := getattr(module, name))
}
BUILT_IN = {
    "Any",
    "Iterable",
    "Iterator",
    "Mapping",
    "Sequence",
    "None",
    "bool",
    "bytes",
    "float",
    "int",
    "list",
    "str",
}
NOT_FOR_USERS = {"Elsewhere"}  # how Spark takes over the work of an index


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_signature_names_can_be_imported(verb: str) -> None:
    hints = inspect.get_annotations(VERBS[verb]).values()
    named = {node.id for hint in hints for node in ast.walk(ast.parse(hint)) if isinstance(node, ast.Name)}
    named -= BUILT_IN | NOT_FOR_USERS | {"dict", "tuple"}
    assert named <= set(parquet_bloom.__all__)


@pytest.mark.parametrize("package", ["parquet_bloom", "parquet_bloom.spark"])
def test_a_type_checker_sees_the_names_that_exist_and_no_others(package: str) -> None:
    module = __import__(package, fromlist=["__all__"])
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    typing_only = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.asname or alias.name
        for node in typing_only
        for each in node.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert imported == set(module.__all__)
    at_top = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in at_top  # a type checker that saw it would let `parquet_bloom.inspekt` pass


def test_a_checkout_without_its_kernel_says_what_to_run() -> None:
    code = "import sys; sys.modules['parquet_bloom._kernel'] = None; import parquet_bloom; parquet_bloom.inspect"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: the compiled kernel of parquet_bloom is not built: run `pip install -e .` in the source checkout"
    )


@pytest.mark.parametrize("columns", ["id", ["id"]])
def test_a_bare_string_is_one_column(tmp_path: Path, columns: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(9), "i": range(9), "d": range(9)}), path)
    assert [f.column for f in parquet_bloom.add(path, columns).rows[0].filters] == ["id"]
    assert {row.column for row in parquet_bloom.inspect(path, columns)} == {"id"}
    assert {row.column for row in parquet_bloom.verify(path, columns)} == {"id"}
    assert parquet_bloom.paimon.build_index(path, columns) == parquet_bloom.paimon.build_index(path, ("id",))
    assert [row.column for row in parquet_bloom.index.create(tmp_path, columns)] == ["id"]
    assert not parquet_bloom.index.drop(tmp_path, columns).exists
    assert parquet_bloom.drop(path, columns).rows[0].cleared == 1


def test_what_tables_and_files_do_not_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="catalog= names an Iceberg catalog; it needs table=True"):
        parquet_bloom.add(tmp_path, "id", catalog="prod")
    for name, value in {"output": "out", "force": True, "strict": True, "filesystem": object()}.items():
        with pytest.raises(ValueError, match=f"{name}= cannot be combined with table="):
            parquet_bloom.add(tmp_path, "id", table=True, **{name: value})
