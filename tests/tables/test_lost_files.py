"""A live file that is gone, or cut off, is kept with the reason: the answers on the others still stand."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lakes
import pytest
from samples import FIXTURES

from parquet_bloom import CorruptFileError, add, index, lookup, prune
from parquet_bloom.tables import snapshot_of

GONE = "the table lists this file, but it is missing"


def delta(folder: Path) -> Path:
    lakes.delta(folder / "t", files=3)
    return folder / "t"


def paimon(folder: Path) -> Path:
    with zipfile.ZipFile(FIXTURES / "paimon/append.zip") as packed:
        packed.extractall(folder)
    return folder / "table"


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield lakes.iceberg(found, files=3)


@pytest.fixture(params=["delta", "iceberg", "paimon"])
def table(request: pytest.FixtureRequest, tmp_path: Path, mtime_stable: None) -> Any:
    if request.param == "iceberg":
        return request.getfixturevalue("iceberg")
    return {"delta": delta, "paimon": paimon}[request.param](tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("lose", "error", "said"),
    [(Path.unlink, FileNotFoundError, GONE), (cut, CorruptFileError, "bytes, and the table records")],
)
def test_a_lost_file_is_kept_and_the_others_are_pruned(
    table: Any, lose: Callable[[Path], None], error: type[Exception], said: str
) -> None:
    found = snapshot_of(table)
    assert found is not None
    files = [file.path.removeprefix("file://") for file in found.files]
    lose(Path(files[0]))
    pruned = prune(table, "id = 123456789")
    (kept,) = pruned.kept_files
    assert (kept.path, said in str(kept.not_pruned)) == (found.files[0].path, True)
    assert len(pruned.all_files) == len(files) > 1
    assert [file.path for file in pruned.errors] == [kept.path]
    candidates = lookup(table, "id", [123456789])
    assert [(row["path"], row["row_group"]) for row in candidates.to_arrow().to_pylist()] == [(kept.path, None)]
    (failed,) = candidates.errors
    assert said in failed.error
    for strict in (
        lambda: prune(table, "id = 1", strict=True),
        lambda: lookup(table, "id", [1], strict=True).to_arrow(),
    ):
        with pytest.raises(error, match=said):
            strict()


def test_the_index_has_the_others(table: Any) -> None:
    found = snapshot_of(table)
    assert found is not None
    Path(found.files[0].path.removeprefix("file://")).unlink()
    state = index.create(table, "id")
    assert [(file.path, file.error) for file in state.errors] == [(found.files[0].path, GONE)]
    assert [(row.files, row.files_missing) for row in state] == [(len(found.files) - 1, 1)]


def test_a_commit_swaps_the_others(tmp_path: Path) -> None:
    root = delta(tmp_path)
    next(root.glob("*.parquet")).unlink()
    rows = add(root, "id", table=True).rows
    assert sorted((row.status, row.error) for row in rows if row.error) == [("refused", GONE)]
    assert [row.status for row in rows].count("written") == 2
