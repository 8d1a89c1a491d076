"""What can be imported from the package: every name that a signature uses, and no name that a type checker lacks."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator
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
    "Collection",
    "Iterable",
    "Iterator",
    "Literal",
    "Mapping",
    "Self",
    "Sequence",
    "Unpack",
    *vars(builtins),
}
OF_ARROW = {"pa", "ds"}


MADE_BY_USERS = {parquet_bloom.Cache, parquet_bloom.Column}


def public_classes() -> Iterator[tuple[str, type]]:
    for name in parquet_bloom.__all__:
        value = getattr(parquet_bloom, name)
        if inspect.isclass(value):
            yield name, value


def hints_of(cls: type) -> Iterator[str]:
    """Yields what a class says of its fields, its properties and its methods, those of its bases as well."""
    for base in cls.__mro__:
        if not base.__module__.startswith("parquet_bloom"):
            continue
        for name, hint in inspect.get_annotations(base).items():
            if not name.startswith("_"):
                yield getattr(hint, "__forward_arg__", hint)  # of a NamedTuple
        for name, member in vars(base).items():
            function = getattr(member, "fget", None) or getattr(member, "func", None) or member
            function = getattr(function, "__func__", function)
            if inspect.isfunction(function) and (
                not name.startswith("_") or (name == "__init__" and cls in MADE_BY_USERS)
            ):
                yield from (hint for hint in inspect.get_annotations(function).values() if hint is not None)


def named_in(hints: Iterable[str]) -> set[str]:
    named = set()
    for hint in hints:
        named |= {node.id for node in ast.walk(ast.parse(hint)) if isinstance(node, ast.Name)}
    return named - BUILT_IN - OF_ARROW


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_signature_names_can_be_imported(verb: str) -> None:
    assert named_in(inspect.get_annotations(VERBS[verb]).values()) <= set(parquet_bloom.__all__)


@pytest.mark.parametrize(("name", "cls"), list(public_classes()))
def test_what_a_class_names_can_be_imported(name: str, cls: type) -> None:
    assert named_in(hints_of(cls)) - {"ClassVar", "ReadableBuffer"} <= set(parquet_bloom.__all__)


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
@pytest.mark.usefixtures("mtime_stable")
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
        with pytest.raises(ValueError, match=f"{name}= cannot be used with table="):
            parquet_bloom.add(tmp_path, "id", table=True, **{name: value})
