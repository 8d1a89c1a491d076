"""The documentation's Spark examples run as they stand, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import PAGES, blocks, text
from engines import needs_java, spark

import parquet_bloom

pytestmark = [needs_java, pytest.mark.spark]


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    list(parquet_bloom.demo("sample"))
    examples = blocks(text(PAGES / "spark.md"), "python")
    assert len(examples) == 5
    names = {"spark": spark()}
    for _, example in examples:
        exec(compile(example, "spark.md", "exec"), names)
