"""The program that asks releases sees a lost row: here with filters that lie, in the releases that are installed."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest
from interop.matrix import releases
from kinds import ROW, with_filters, write_kind
from samples import retrofit

from parquet_bloom.format.sbbf import SplitBlockBloomFilter

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("name", ["DuckDB", "DataFusion", "ClickHouse", "deltalake", "Polars"])
def test_a_release_that_trusts_a_filter_that_lies_loses_rows(tmp_path: Path, name: str):
    files = {name: tmp_path / f"{name}.parquet" for name in ("plain", "ours", "other", "lying")}
    files["parquet"] = write_kind(files["plain"], "INT64", nulls=5, columns=("k", "v"))
    write_kind(files["other"], "INT64", "other", columns=("k", "v"))
    retrofit(files["plain"], files["ours"])
    with_filters(files["plain"], files["lying"], SplitBlockBloomFilter(64))
    release = releases.Release(name, "", [sys.executable, str(releases.ASK), name])
    questions = [question for question in releases.ENGINES[name].questions if question not in ("join", "default")]
    with closing(release):
        assert {answers(release, files, question) for question in questions} == {"ok"}
        lying = {question: answers(release, {**files, "ours": files["lying"]}, question) for question in questions}
    assert lying == dict.fromkeys(questions, "ok" if name == "Polars" else "loses")


def answers(release: releases.Release, files: dict[str, Path], question: str) -> str:
    """Returns what comes of a question for one value, and below `IN` for two."""
    if release.name == "deltalake":
        files = releases.as_tables(files, "INT64")
    here, absent = (str(files["plain"]), ROW), (str(files["other"]), ROW)
    values = [here, absent] if question == "IN" else [here]
    return releases.cell(releases.asking(release), question, files, [values])["answer"]
