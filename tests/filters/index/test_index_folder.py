"""Where an index lies: beside its directory, or where the caller says; and what becomes of one inside."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import index_files, index_folder

from parquet_bloom import Cache, absent, erase, find, index, lookup, prune
from parquet_bloom.errors import IndexNotFoundError, UnsupportedError
from parquet_bloom.filters import index_versions
from parquet_bloom.storage.folder import Folder

FILES = {"a.parquet": [1, 5], "k=1/b.parquet": [100, 5], "k=2/c.parquet": [7, 8]}


def made(root: Path) -> Path:
    for name, ids in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), root / name, write_statistics=False)
    return root


def uses_index(paths: Any, **options: Any) -> bool:
    found = prune(paths, "id = 50", cache=Cache(0), **options)
    return any("(in the index)" in row.reason for row in found.rows)


def moved_inside(root: Path) -> Path:
    """Lays an index out as releases before this one did: inside the directory, some of its files called Parquet."""
    inside = root / "_bloom_index"
    inside.mkdir()
    for name, path in index_files(root).items():
        if name.endswith(".json"):
            version = json.loads(path.read_text("utf-8"))["version"]
            for segment in version["segments"]:
                segment["name"] = segment["name"].replace(".bin", ".parquet")
                for blocks in segment["blocks"]:
                    blocks["name"] = blocks["name"].replace(".bin", ".parquet")
            text = json.dumps(version, sort_keys=True)
            (inside / name).write_text(json.dumps({"crc": zlib.crc32(text.encode()), "version": version}))
        else:
            is_parquet = name.startswith(("entries", "blocks"))
            (inside / name).with_suffix(".parquet" if is_parquet else ".bin").write_bytes(path.read_bytes())
    shutil.rmtree(index_folder(root))
    return inside


# ---- where it lies -----------------------------------------------------------------------


def test_it_lies_beside_the_directory_under_names_that_nobody_reads(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    before = sorted(root.rglob("*"))
    index.create(root, "id")
    assert sorted(root.rglob("*")) == before
    names = [path.name for path in index_folder(root).iterdir()]
    assert all(name.startswith("_bloom-") and not name.endswith(".parquet") for name in names)
    assert uses_index(root)
    assert not index.drop(root).exists
    assert not index_folder(root).exists()


def test_a_directory_has_one_index_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / "lake")
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(tmp_path)
    names = ("lake", "lake/", "./lake", "../" + tmp_path.name + "/lake", f"file://{root}", "link", root, f"{root}//")
    for name in names:
        index.create(name, "id")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "lake.bloom-index", "link"]
        assert all(map(uses_index, names)), name
        index.drop(root)
    index.create(root, "id")
    for others in ("lake/*.parquet", "lake/**/*.parquet", "lake/k=1", "lak?", ["lake", "lake/a.parquet"]):
        assert not uses_index(others)


@pytest.mark.parametrize("name", ["b.parquet", "x[1]", "a*b", "s.parquet/b.parquet", "v1.metadata"])
def test_a_directory_is_one_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), made(tmp_path / "lake" / name) / "b.parquet", write_statistics=False)
    at = tmp_path / "index"
    index.create(tmp_path / "lake" / name, "id", at=at)
    assert uses_index(tmp_path / "lake" / name, index=at)


def test_a_directory_called_as_the_file_in_it(tmp_path: Path) -> None:
    root = tmp_path / "b.parquet"
    root.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), root / "b.parquet", write_statistics=False)
    index.create(root, "id")
    assert uses_index(root)
    assert not uses_index(root / "b.parquet")


def test_a_directory_that_moves_leaves_its_index(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id")
    root.rename(tmp_path / "other")
    made(root)
    pq.write_table(pa.table({"id": pa.array([50, 50], pa.int64())}), root / "a.parquet", write_statistics=False)
    assert not uses_index(root)
    assert [Path(path).name for path in prune(root, "id = 50", cache=Cache(0)).paths][:1] == ["a.parquet"]
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "other", root)  # with the same names, sizes and times
    assert not uses_index(root)
    assert not uses_index(tmp_path / "other")
    assert index.refresh(root).rows[0].files == 3


# ---- where it may not lie ----------------------------------------------------------------

DATASETS: dict[str, Callable[[Path], Path]] = {
    "a partition": lambda home: home / "k=1",
    "below a partition": lambda home: home / "k=1" / "s",
    "beside a Parquet file": lambda home: beside(home, "x.parquet"),
    "beside a Parquet file called otherwise": lambda home: beside(home, "x.PQ"),
    "beside a partition": lambda home: beside(home, "day=1/x.txt"),
    "in a Delta table": lambda home: beside(home, "_delta_log/0.json"),
    "below a Delta table": lambda home: beside(home, "_delta_log/0.json") / "deeper",
    "in an Iceberg table": lambda home: beside(home, "metadata/version-hint.text"),
    "below an Iceberg table": lambda home: beside(home, "metadata/v1.metadata.json") / "deeper",
    "in a Hudi table": lambda home: beside(home, ".hoodie/hoodie.properties"),
    "in a Paimon table": lambda home: beside(beside(home, "snapshot/LATEST").parent, "manifest/x"),
    "where Spark wrote": lambda home: beside(home, "_SUCCESS"),
    "where a stream wrote": lambda home: beside(home, "_spark_metadata/0"),
    "with a mark that nobody knows yet": lambda home: beside(home, "_new_format/0"),
}


def beside(home: Path, name: str) -> Path:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("")
    return home / "s"


@pytest.mark.parametrize("case", DATASETS)
def test_it_does_not_lie_in_another_dataset(case: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    root = made(DATASETS[case](home))
    before = sorted(home.rglob("*"))
    with pytest.raises(UnsupportedError, match=r"index.*cannot lie in|no index can lie beside.*say with at=") as raised:
        index.create(root, "id")
    assert "at=" in str(raised.value)
    assert sorted(home.rglob("*")) == before
    assert not uses_index(root)
    index.create(root, "id", at=tmp_path / "elsewhere")
    assert uses_index(root, index=tmp_path / "elsewhere")
    assert sorted(home.rglob("*")) == before


def test_beside_other_files_and_folders_it_may_lie(tmp_path: Path) -> None:
    for name in ("README.md", ".hidden", "__init__.py", "other/x.parquet", "LICENSE", "x.parquet/0.parquet"):
        beside(tmp_path, name)
    index.create(made(tmp_path / "s"), "id")
    assert uses_index(tmp_path / "s")
    beside(tmp_path, "later.parquet")
    assert index.refresh(tmp_path / "s").exists


def test_without_leave_to_write_there_it_asks_for_another_place(tmp_path: Path, monkeypatch: Any) -> None:
    root = made(tmp_path / "lake")  # root may write everywhere, so the answer is made up
    monkeypatch.setattr(os, "access", lambda path, mode: not (Path(path) == tmp_path and mode == os.W_OK))
    with pytest.raises(UnsupportedError, match=f"nothing may be written in {tmp_path}; say with at="):
        index.create(root, "id")
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_where_a_store_refuses_to_write_it_asks_for_another_place(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("Access Denied")

    root = made(tmp_path / "lake")
    monkeypatch.setattr(Folder, "create", refuse)
    with pytest.raises(PermissionError, match=r"Access Denied; if .* in .*lake.bloom-index, say with at="):
        index.create(root, "id")


def test_the_top_of_a_disk_or_a_store_has_nothing_beside_it() -> None:
    from parquet_bloom.filters.index_folder import folder_of

    assert folder_of("/") is None
    assert folder_of("memory://") is None
    folder = folder_of("memory://lake/s")
    assert folder is not None
    assert folder.path == "/lake/s.bloom-index"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    (tmp_path / "victim").mkdir()
    index_folder(root).symlink_to(tmp_path / "victim")
    with pytest.raises(UnsupportedError, match="is a symbolic link; say with at="):
        index.create(root, "id")
    assert not list((tmp_path / "victim").iterdir())


def test_a_link_in_the_old_place_is_not_followed(tmp_path: Path) -> None:
    root, victim = made(tmp_path / "lake"), made(tmp_path / "victim")
    index.create(victim, "id")
    inside = moved_inside(victim)
    (root / "_bloom_index").symlink_to(inside)
    before = sorted(inside.iterdir())
    with pytest.raises(IndexNotFoundError):
        index.refresh(root)
    with pytest.raises(IndexNotFoundError):
        index.drop(root)
    assert sorted(inside.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
def test_where_all_may_write_an_index_of_another_user_is_not_used(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id")
    os.chown(index_folder(root), 12345, 12345)
    assert uses_index(root)
    tmp_path.chmod(0o1777)
    assert not uses_index(root)
    os.chown(root, 12345, 12345)
    assert uses_index(root)


# ---- at another place --------------------------------------------------------------------


def test_at_another_place_it_is_named_in_every_call(tmp_path: Path) -> None:
    root, at = made(tmp_path / "lake"), tmp_path / "indexes" / "of lake"
    assert index.create(root, "id", at=at).exists
    assert not index_folder(root).exists()
    assert not uses_index(root)
    assert uses_index(root, index=at)
    assert uses_index(root, index=f"file://{at}")
    assert [row.files for row in index.show(root, at=at)] == [3]
    assert index.refresh(root, at=at).built == 0
    assert find(root, "id = 7", index=at).to_arrow().num_rows == 1
    assert absent(root, "id", [7, 50], index=at).keys.to_pylist() == [50]
    assert lookup(root, "id", [7], index=at).to_arrow()["path"].to_pylist() == [str(root / "k=2/c.parquet")]
    erased = erase(root, "id", [7], index=at)
    assert (erased.rows_erased, erased.errors) == (1, ())
    assert [row.files for row in index.show(root, at=at)] == [3]  # of the file as it is now
    assert not index.drop(root, at=at).exists
    with pytest.raises(IndexNotFoundError, match="there is no index in"):
        prune(root, "id = 7", index=at)


@pytest.mark.parametrize("paths", ["a.parquet", "*.parquet", [".", "a.parquet"]])
def test_an_index_that_is_named_needs_its_directory(paths: Any, tmp_path: Path, monkeypatch: Any) -> None:
    root, at = made(tmp_path / "lake"), tmp_path / "at"
    index.create(root, "id", at=at)
    monkeypatch.chdir(root)
    with pytest.raises(ValueError, match="index= needs the path of one directory or table"):
        prune(paths, "id = 7", index=at)


def test_other_files_at_that_place_are_left_alone(tmp_path: Path, monkeypatch: Any) -> None:
    root, at = made(tmp_path / "lake"), tmp_path / "at"
    at.mkdir()
    foreign = {name: at / name for name in ("notes.txt", "00000001.json", "_SUCCESS", "states-1.bin")}
    for path in foreign.values():
        path.write_text("mine")
    monkeypatch.setattr(index_versions, "GRACE_SECONDS", -1.0)
    index.create(root, "id", at=at)
    index.create(root, "id", at=at, fpp=0.01)
    index.drop(root, at=at)
    assert {path.name: path.read_text() for path in at.iterdir()} == dict.fromkeys(foreign, "mine")


def test_it_does_not_lie_in_its_own_directory(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    (tmp_path / "link").symlink_to(root)
    for at in (root, root / "index", tmp_path / "link" / "index"):
        with pytest.raises(UnsupportedError, match="which is in the directory that it is of"):
            index.create(root, "id", at=at)


# ---- inside the directory, as earlier releases had it ------------------------------------


def test_an_index_inside_is_named_and_moved(tmp_path: Path, caplog: Any) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id")
    inside = moved_inside(root)
    with caplog.at_level(logging.WARNING):
        assert not uses_index(root)
        assert "has an index in its folder _bloom_index" in caplog.text
        caplog.clear()
        assert not index.show(root).exists
        assert "`parquet-bloom index refresh` moves it" in caplog.text
    state = index.refresh(root)
    assert (state.built, [(row.column, row.files) for row in state]) == (0, [("id", 3)])
    assert not inside.exists()
    assert uses_index(root)


def test_an_index_inside_is_added_to_the_one_beside(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id", fpp=0.01)
    moved_inside(root)
    index.create(root, "id", at=tmp_path / "at")
    assert [row.fpp for row in index.refresh(root, at=tmp_path / "at")] == [0.1]  # the newer one's options count
    assert not (root / "_bloom_index").exists()


def test_an_index_inside_can_be_dropped(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id")
    inside = moved_inside(root)
    (inside / "notes.txt").write_text("mine")
    assert not index.drop(root).exists
    assert [path.name for path in inside.iterdir()] == ["notes.txt"]
    assert not index_folder(root).exists()


def test_what_was_erased_is_no_longer_in_an_index_inside(tmp_path: Path) -> None:
    root = made(tmp_path / "lake")
    index.create(root, "id")
    inside = moved_inside(root)
    old = {path.name.partition(".")[0] for path in inside.iterdir()}
    assert not erase(root, "id", [5]).errors
    assert not inside.exists()
    assert not old & {name.partition(".")[0] for name in index_files(root)}


@pytest.mark.parametrize("method", ["create", "remove"])
def test_a_move_that_is_killed_is_completed_by_the_next(method: str, tmp_path: Path, monkeypatch: Any) -> None:
    root = made(tmp_path / "lake")
    index.create(root, ["id"])
    inside = moved_inside(root)
    kept = {path.name: path.read_bytes() for path in inside.iterdir()}
    original: Any = getattr(Folder, method)
    steps = 0

    def one_by_one(folder: Folder, names: Any, *more: Any, **options: Any) -> None:
        nonlocal steps
        for name in [names] if isinstance(names, str) else names:
            steps += 1
            if steps > allowed:
                raise KeyboardInterrupt
            original(folder, name if isinstance(names, str) else [name], *more, **options)

    for allowed in range(20):
        steps = 0
        shutil.rmtree(index_folder(root), ignore_errors=True)
        inside.mkdir(exist_ok=True)
        for name, data in kept.items():
            (inside / name).write_bytes(data)
        with monkeypatch.context() as patch:
            patch.setattr(Folder, method, one_by_one)
            with contextlib.suppress(KeyboardInterrupt):
                index.refresh(root)
        assert prune(root, "id = 7", cache=Cache(0)).paths == (str(root / "k=2/c.parquet"),) or not uses_index(root)
        state = index.refresh(root)
        assert (state.built, [(row.column, row.files) for row in state], state.segments) == (0, [("id", 3)], 1)
        assert not inside.exists()
        assert uses_index(root)
        if steps <= allowed:
            break
    assert allowed > 2
