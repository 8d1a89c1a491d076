"""`find` names files as engines would: globs, directories without hidden names, URLs, each file once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from parquet_bloom.storage.listing import Source, find, find_in_folders


@pytest.fixture
def here(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    yield fs
    if fs.exists("/find"):
        fs.rm("/find", recursive=True)


def make(*files: str) -> None:
    for name in files:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"x" * len(name))


def names(paths: Any, **options: Any) -> list[str]:
    return [source.name for source in find(paths, **options)]


TREE = [
    "d/a.parquet",
    "d/b.parquet",
    "d/part=1/c.parquet",
    "d/part=1/deep/e.parquet",
    "d/_SUCCESS",
    "d/_metadata",
    "d/_hidden.parquet",
    "d/.hidden.parquet",
    "d/.a.parquet.crc",
    "d/_delta/x.parquet",
    "d/.tmp/x.parquet",
    "d/part=1/_temporary/x.parquet",
    "d/notes.txt",
    "d/part=1/part-0.parquet.tmp",
]
PARQUET = ["d/a.parquet", "d/b.parquet", "d/part=1/c.parquet", "d/part=1/deep/e.parquet"]
SEEN = sorted([*PARQUET, "d/notes.txt", "d/part=1/part-0.parquet.tmp"])
"""What Spark would read; the ends of the last two tell that they are not Parquet, see test_strays.py."""


@pytest.mark.parametrize("path", ["d", "d/", "./d", "d/../d"])
def test_a_directory_is_recursive_and_skips_hidden_names(here: Path, path: str) -> None:
    make(*TREE)
    assert sorted(names(path)) == SEEN
    assert sorted(s.relative for s in find(path)) == [name.removeprefix("d/") for name in SEEN]


def test_a_directory_in_memory_gives_the_same(memory: Any) -> None:
    for name in TREE:
        memory.pipe_file(f"/find/{name}", b"x")
    assert names("memory://find/d") == [f"memory://find/{name}" for name in SEEN]
    assert [s.relative for s in find("memory://find/d")] == [name.removeprefix("d/") for name in SEEN]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("d/*.parquet", PARQUET[:2]),
        ("d/?.parquet", PARQUET[:2]),
        ("d/[a].parquet", PARQUET[:1]),
        ("d/*/*.parquet", PARQUET[2:3]),
        ("d/**/*.parquet", PARQUET),
        ("d/part=*", SEEN[3:]),
        ("*/part=1/c.parquet", PARQUET[2:3]),
    ],
)
def test_globs_locally_and_in_memory(here: Path, memory: Any, glob: str, expected: list[str]) -> None:
    make(*TREE)
    for name in TREE:
        memory.pipe_file(f"/find/{name}", b"x")
    assert sorted(names(glob)) == expected
    assert sorted(names(f"memory://find/{glob}")) == [f"memory://find/{name}" for name in expected]


def test_a_hidden_file_that_is_named_is_found(here: Path) -> None:
    make(*TREE)
    assert names(["d/_hidden.parquet", "d/.tmp"]) == ["d/_hidden.parquet", "d/.tmp/x.parquet"]


def test_a_file_is_found_once_in_the_order_of_the_paths(here: Path) -> None:
    make(*TREE)
    asked = ["d/part=1", "d/b.parquet", str(here / "d/b.parquet"), f"file://{here}/d/a.parquet", "d", "d/*.parquet"]
    found = [Path(name).name for name in names(asked) if name.endswith(".parquet")]
    assert found == ["c.parquet", "e.parquet", "b.parquet", "a.parquet"]


def test_names_are_relative_where_the_path_was(here: Path) -> None:
    make("d/a.parquet")
    assert names("d/a.parquet") == ["d/a.parquet"]
    assert names(here / "d") == [str(here / "d/a.parquet")]
    assert names(Path("d")) == ["d/a.parquet"]


@pytest.mark.parametrize("name", ["a*.parquet", "a?b.parquet", "a[1].parquet", "a[.parquet", "[a]/x y.parquet", "**"])
def test_a_name_with_glob_characters_that_exists_is_that_file(here: Path, name: str) -> None:
    make(name, "abc.parquet", "a1.parquet")
    assert names(name) == [name]


@pytest.mark.parametrize(
    "name", ["a b.parquet", "ä ö.parquet", "a::b.parquet", "~.parquet", "%20.parquet", "a\nb.parquet"]
)
def test_odd_names_are_names(here: Path, name: str) -> None:
    make(name)
    assert names(name) == [name]
    assert names(str(here)) == [str(here / name)]


def test_names_that_are_not_utf_8_are_found(here: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.parquet")
    make(name)
    assert names(name) == names("*.parquet") == [name]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none.parquet", "no such file or directory"),
        ("none/", "no such file or directory"),
        ("none*.parquet", "no file matches"),
        ("memory://none/x.parquet", "no such file or directory"),
        ("memory://none/*", "no file matches"),
        ("empty", "directory has no Parquet files"),
        ("one", "directory has no Parquet files (1 other skipped)"),
        ("three", "directory has no Parquet files (3 others skipped)"),
        ("memory://three", "directory has no Parquet files (3 others skipped)"),
    ],
)
def test_what_names_nothing_is_an_error_with_the_path(here: Path, path: str, why: str) -> None:
    Path("empty").mkdir()
    make("one/.hidden.parquet", "three/_a", "three/.b/c.parquet", "three/_d/e")
    memory = fsspec.filesystem("memory")
    for name in ("_a", ".b/c.parquet", "_d/e"):
        memory.pipe_file(f"/three/{name}", b"x")
    with pytest.raises(FileNotFoundError) as raised:
        find(path)
    assert str(raised.value) == f"{path}: {why}"


def test_no_paths_are_no_files() -> None:
    assert find([]) == []


def test_a_filesystem_object_takes_its_own_paths(memory: Any) -> None:
    memory.pipe_file("/find/a.parquet", b"12345")
    (source,) = find("/find/a.parquet", filesystem=memory)
    assert (source.path, source.size, source.fs) == ("/find/a.parquet", 5, memory)


def test_a_directory_filesystem_works(here: Path) -> None:
    make("d/a.parquet")
    fs = fsspec.filesystem("dir", path=str(here / "d"), fs=fsspec.filesystem("file"))
    assert [s.size for s in find("a.parquet", filesystem=fs)] == [len("d/a.parquet")]


def test_links_to_directories_are_followed_once(here: Path) -> None:
    make("d/a.parquet", "e/b.parquet")
    Path("d/loop").symlink_to(".")
    Path("d/up").symlink_to("..")
    Path("d/other").symlink_to("../e")
    real = sorted(os.path.realpath(name) for name in names("d"))
    assert real == [str(here / "d/a.parquet"), str(here / "e/b.parquet")]


def test_a_link_that_leads_nowhere_holds_no_rows(here: Path) -> None:
    make("d/a.parquet")
    Path("d/gone.parquet").symlink_to("nowhere")
    assert names("d") == ["d/a.parquet"]
    with pytest.raises(FileNotFoundError):
        find("d/gone.parquet")


def version(source: Source) -> str:
    return find(source.name)[0].version


def test_the_version_changes_with_content_place_or_attributes(here: Path) -> None:
    make("a.parquet", "b.parquet")
    (a,) = find("a.parquet")
    assert version(a) == a.version
    seen = {a.version}
    status = Path("a.parquet").stat()

    def changed() -> bool:
        os.utime("a.parquet", ns=(status.st_atime_ns, status.st_mtime_ns))
        fresh = version(a)
        is_new = fresh not in seen
        seen.add(fresh)
        return is_new

    Path("a.parquet").write_bytes(b"other content")
    assert changed()
    Path("a.parquet").chmod(0o600)
    assert changed()
    Path("b.parquet").replace("a.parquet")
    assert changed()


def test_the_version_in_memory_changes_with_the_object(memory: Any) -> None:
    memory.pipe_file("/find/a.parquet", b"1")
    before = find("memory://find/a.parquet")[0].version
    memory.pipe_file("/find/a.parquet", b"2")
    assert find("memory://find/a.parquet")[0].version != before


# ---- files in folders name=value ---------------------------------------------------------

FOLDERS = {
    "all in folders": ({"a=1/f.parquet": b"x", "a=2/g": b"x", "_a/h": b"x", "a=2/_h": b"x", ".b=1/h": b"x"}, 2),
    "two levels": ({"a=1/b=x/f.parquet": b"x", "a=1/b=y/f.parquet": b"x", "a=2/b=y/_SUCCESS": b""}, 2),
    "levels that differ": ({"a=1/f.parquet": b"x", "a=2/b=1/f.parquet": b"x"}, None),
    "a file beside folders": ({"f.parquet": b"x", "a=1/f.parquet": b"x"}, None),
    "another folder": ({"a=1/f.parquet": b"x", "b/f.parquet": b"x"}, None),
    "an empty file": ({"a=1/f.parquet": b"x", "a=2/f.parquet": b""}, None),
    "a summary file": ({"a=1/f.parquet": b"x", "_common_metadata": b"x"}, None),
    "a summary file below": ({"a=1/f.parquet": b"x", "a=1/_metadata": b"x"}, None),
    "nothing": ({"_SUCCESS": b"x"}, None),
}


@pytest.mark.parametrize("store", ["local", "memory"])
@pytest.mark.parametrize("case", FOLDERS)
def test_files_in_folders_are_those_of_find_if_all_are(tmp_path: Path, store: str, case: str) -> None:
    files, count = FOLDERS[case]
    root = f"/{tmp_path.name}-{store}/t"
    fs = fsspec.filesystem("memory")
    for name, data in files.items():
        if store == "memory":
            fs.pipe(f"{root}/{name}", data)
        else:
            (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "t" / name).write_bytes(data)
    path = f"memory:/{root}" if store == "memory" else str(tmp_path / "t")
    try:
        found = find_in_folders(path)
        assert (None if found is None else len(found)) == count
        if found is not None:
            assert found == find(path)
            assert [source.partitions for source in found] == [source.partitions for source in find(path)]
    finally:
        if store == "memory":
            fs.rm(root, recursive=True)


def test_links_to_folders_are_left_alone(tmp_path: Path) -> None:
    for folder in ("t/a=1", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f.parquet").write_bytes(b"x")
    assert len(find_in_folders(str(tmp_path / "t")) or []) == 1
    (tmp_path / "t" / "a=2").symlink_to(tmp_path / "elsewhere")
    assert find_in_folders(str(tmp_path / "t")) is None


def test_a_name_with_a_null_byte_names_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="null byte"):
        find(str(tmp_path / "a\0b"))
