"""The README's Spark examples run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from engines import needs_java, spark

import parquet_bloom

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")

pytestmark = [needs_java, pytest.mark.spark]


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    list(parquet_bloom.demo("sample"))
    section = README.partition("## Spark\n")[2].partition("\n## ")[0]
    examples = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    names = {"spark": spark()}
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
