"""A footer without any one of its fields, and encrypted ones: each verb that reads answers, or names the file.

It goes on to the other files of the folder, and never raises what is no error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compact import Reader, changed, encode_struct, places
from encrypted import encrypted
from files import SMALL, fixture, footer_bytes, with_footer

import parquet_bloom
from parquet_bloom import Decryption, absent, advise, find, inspect, lookup, probe, prune, report, verify
from parquet_bloom.errors import ParquetBloomError, UnsupportedError

KEY, OTHER_KEY = b"0123456789abcdef", b"fedcba9876543210"
HELD, LACKED = 584858136236, 584858136237
DAMAGED, SOUND = "0.parquet", "1.parquet"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns folders of two files each, by what is odd about the first of them."""
    root = tmp_path_factory.mktemp("missing")
    whole = root / "whole.parquet"
    whole.write_bytes(fixture(SMALL))
    parquet_bloom.add(whole, ["id", "name"])
    data = whole.read_bytes()
    tree = Reader(footer_bytes(data)).struct()
    odd = {
        "without " + ".".join(map(str, place)): with_footer(data, encode_struct(changed(tree, place, None)))
        for place, _ in places(tree)
    }
    for shown in (False, True):
        odd[f"a column encrypted, {shown}"] = encrypted(
            data, KEY, {"id": OTHER_KEY}, columns=["id"], plain_footer=shown
        )
        odd[f"all encrypted, {shown}"] = encrypted(data, KEY, plain_footer=shown, seals_pages=True)
    made = {}
    for number, (what, damaged) in enumerate(odd.items()):
        made[what] = root / str(number)
        made[what].mkdir()
        (made[what] / DAMAGED).write_bytes(damaged)
        (made[what] / SOUND).write_bytes(data)
    assert len(made) > 60
    return made


def names(paths: Any) -> set[str]:
    return {Path(path).name for path in paths if path is not None}


def inspected(folder: Path, **options: Any) -> bool:
    files = {Path(file.path).name: file for file in inspect(folder, **options).files}
    return files[SOUND].error is None and len(files[SOUND].filters) > 1


def probed(folder: Path, **options: Any) -> bool:
    answers = [one.answer for one in probe(folder, "id", [HELD, LACKED], **options) if one.path.endswith(SOUND)]
    return {"MIGHT_MATCH", "CANNOT_MATCH"} == {*answers}


def pruned(folder: Path, **options: Any) -> bool:
    return SOUND in names(
        file.path for file in prune(folder, f"id = {HELD} AND name IS NOT NULL", **options).kept_files
    )


def exactly_pruned(folder: Path, **options: Any) -> bool:
    return pruned(folder, exact=True, **options)


def looked_up(folder: Path, **options: Any) -> bool:
    return SOUND in names(lookup(folder, "id", [HELD, LACKED], **options).to_arrow()["path"].to_pylist())


def found(folder: Path, **options: Any) -> bool:
    return SOUND in names(find(folder, f"id = {HELD}", positions=True, **options).to_arrow()["path"].to_pylist())


def found_by_keys(folder: Path, **options: Any) -> bool:
    rows = find(folder, column="id", keys=[HELD, LACKED], positions=True, **options)
    return SOUND in names(rows.to_arrow()["path"].to_pylist())


def known_absent(folder: Path, **options: Any) -> bool:
    answer = absent(folder, "id", [LACKED, HELD], **options)
    either = [*answer.keys.to_pylist(), *answer.unknown.to_pylist()]
    return either == [LACKED] and names(file.path for file in answer.errors) <= {DAMAGED}


def verified(folder: Path, **options: Any) -> bool:
    files = {Path(file.path).name: file for file in verify(folder, **options).files}
    return files[SOUND].error is None and not any(
        one.path.endswith(SOUND) for one in verify(folder, **options).findings
    )


def advised(folder: Path, **options: Any) -> bool:
    return names(file.path for file in advise(folder, ["id"], **options).errors) <= {DAMAGED}


VERBS = (inspected, probed, pruned, exactly_pruned, looked_up, found, found_by_keys, known_absent, verified, advised)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_the_other_file_is_answered_for(folders: dict[str, Path], verb: Callable[..., bool]) -> None:
    for what, folder in folders.items():
        try:
            assert verb(folder), what
        except UnsupportedError as error:  # without its type, a column is one of another type
            if "conflicting types" not in str(error) and "differ too much" not in str(error):
                raise


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("key", [KEY, OTHER_KEY], ids=["footer", "another"])
def test_keys_for_some_of_the_columns(folders: dict[str, Path], verb: Callable[..., bool], key: bytes) -> None:
    for what, folder in folders.items():
        if "encrypted" in what:
            assert verb(folder, decryption=Decryption(footer_key=key)), what


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_the_file_alone(folders: dict[str, Path], verb: Callable[..., bool]) -> None:
    for folder in folders.values():
        try:
            verb(folder / DAMAGED)
        except (ParquetBloomError, KeyError):  # there is no other file whose answer the verb could look at
            continue


def test_one_report_of_all(folders: dict[str, Path], tmp_path: Path) -> None:
    made = report(list(folders.values()), tmp_path / "page.html", where=f"id = {HELD}", verification=True, advice=True)
    assert names(file.path for file in made.errors) == {DAMAGED}
    assert made.pruning is not None
    kept = [file.path for file in made.pruning.kept_files if file.path.endswith(SOUND)]
    assert len(kept) == len(folders)
