from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kinds import with_exact_filters, with_filters, write_kind
from samples import FIXTURES, bare, retrofit

from parquet_bloom.format.sbbf import SplitBlockBloomFilter


@pytest.fixture(scope="session")
def retrofitted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a fixture's name to its copy with our filters on every column that may have one."""
    folder = tmp_path_factory.mktemp("retrofitted")
    made: dict[str, Path] = {}

    def copy(file: str) -> Path:
        if file not in made:
            made[file] = retrofit(FIXTURES / file, folder / file.replace("/", "-"))
        return made[file]

    return copy


@pytest.fixture(scope="session")
def without_filters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a fixture's name to its copy without any filters."""
    folder = tmp_path_factory.mktemp("bare")
    made: dict[str, Path] = {}

    def copy(file: str) -> Path:
        if file not in made:
            made[file] = bare(FIXTURES / file, folder / file.replace("/", "-"))
        return made[file]

    return copy


@pytest.fixture(scope="session")
def kind_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Path]]:
    """A function from a kind to its files: without filters, with ours, and so on."""
    folder = tmp_path_factory.mktemp("kinds")
    made: dict[str, dict[str, Path]] = {}

    def files(kind: str) -> dict[str, Path]:
        if kind not in made:
            stem = kind.replace(" ", "-")
            plain = write_kind(folder / f"{stem}.parquet", kind)
            made[kind] = {
                "plain": plain,
                "ours": retrofit(plain, folder / f"{stem}-ours.parquet"),
                "exact": with_exact_filters(plain, folder / f"{stem}-exact.parquet"),
                "lying": with_filters(plain, folder / f"{stem}-lying.parquet", SplitBlockBloomFilter(64)),
                "other": write_kind(folder / f"{stem}-other.parquet", kind, seed="other"),
            }
        return made[kind]

    return files
