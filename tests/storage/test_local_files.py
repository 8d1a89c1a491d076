"""A local file is replaced whole, keeps what belongs to it, and is refused where that cannot be."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from files import only_error, snapshot, statuses, write

from parquet_bloom import add, drop, inspect
from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, UnsupportedError
from parquet_bloom.storage import local_files, system
from parquet_bloom.storage.local_files import (
    Rewrite,
    create,
    leftovers,
    make_folder,
    new_file,
    require_links,
    temporary_path,
    version,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    write(path)
    return path


def started(path: Path, **options: Any) -> Rewrite:
    status = path.stat()
    return Rewrite(path, options.pop("keep", status.st_size), version=version(status), **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- what fails behind the rename ------------------------------------------------------


@pytest.mark.parametrize("output", [None, "y.parquet"])
def test_a_rename_whose_answer_was_lost_is_no_failure(
    file: Path, monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    target = None if output is None else file.with_name(output)
    rename, link = Path.replace, os.link

    def renamed(self: Path, to: Path) -> None:
        rename(self, to)
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    def linked(*names: Any) -> None:
        link(*names)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "link", linked)
    assert statuses(add(file, "id", output=target)) == ["written"]
    assert names(file.parent) == ["x.parquet"] if output is None else ["x.parquet", output]
    assert len(inspect(target or file).rows) == 4


def test_a_file_that_does_not_close_was_written_all_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    class Stubborn(io.FileIO):
        def close(self) -> None:
            is_open = not self.closed
            super().close()
            if is_open:
                raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(
        Path, "open", lambda self, *a, **o: Stubborn(self) if o == {"buffering": 0} else real(self, *a, **o)
    )
    assert statuses(add(file, "id")) == ["written"]


def test_checksums_are_back_if_the_rename_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = file.with_name(".x.parquet.crc")
    side.write_bytes(checksum_file(file.read_bytes()))
    before = snapshot(file.parent)
    rename = Path.replace

    def fail(self: Path, to: Path) -> Path:
        if to == file:
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", fail)
    assert only_error(add(file, "id")) == "Input/output error"
    assert snapshot(file.parent) == before


# ---- what a power cut leaves -----------------------------------------------------------


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is synced, named and removed, in order: the moment, the file's inode and its size."""
    noted: list[tuple[str, int, int]] = []
    fsync, replace, link, unlink = os.fsync, Path.replace, os.link, Path.unlink

    def note(moment: str, status: os.stat_result) -> None:
        noted.append((moment, status.st_ino, 0 if stat.S_ISDIR(status.st_mode) else status.st_size))

    def synced(fd: int) -> None:
        fsync(fd)
        note("synced", os.fstat(fd))

    def replaced(self: Path, to: Path) -> Path:
        note("named", self.stat())
        return replace(self, to)

    def linked(one: Path, other: Path) -> None:
        note("named", one.stat())
        link(one, other)

    def unlinked(self: Path, **options: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            note("removed", self.lstat())
        unlink(self, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(Path, "unlink", unlinked)
    return noted


def rewritten_in_place(file: Path) -> Path:
    with started(file) as out:
        out.copy()
        out.append(b"more")
        out.commit()
    return file


def written_to_an_output(file: Path) -> Path:
    target = file.with_name("y.parquet")
    with started(file, target=target) as out:
        out.copy()
        out.append(b"more")
        out.commit()
    return target


def created(file: Path) -> Path:
    create(file.with_name("new"), b"content")
    return file.with_name("new")


def written_as_a_new_file(file: Path) -> Path:
    with new_file(file.with_name("new")) as out:
        out.write(b"content")
    return file.with_name("new")


def written_over_a_file(file: Path) -> Path:
    with new_file(file, replace=True) as out:
        out.write(b"content")
    return file


WAYS = [rewritten_in_place, written_to_an_output, created, written_as_a_new_file, written_over_a_file]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_new_file_is_on_the_disk_before_it_has_its_name_and_then_the_name_is(
    file: Path, moments: list[tuple[str, int, int]], way: Callable[[Path], Path]
) -> None:
    new = way(file)
    status, folder = new.stat(), new.parent.stat().st_ino
    named = moments.index(("named", status.st_ino, status.st_size))
    assert ("synced", status.st_ino, status.st_size) in moments[:named]
    assert ("synced", folder, 0) in moments[named:]


def test_a_removal_is_on_the_disk(file: Path, moments: list[tuple[str, int, int]]) -> None:
    status, folder = file.stat(), file.parent.stat().st_ino
    with started(file) as out:
        out.remove()
    assert names(file.parent) == []
    removed = moments.index(("removed", status.st_ino, status.st_size))
    assert ("synced", folder, 0) in moments[removed:]


# ---- what a rewrite keeps ----------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o444, 0o777])
def test_mode_and_owner_are_kept(file: Path, mode: int) -> None:
    file.chmod(mode)
    if os.geteuid() == 0:
        os.chown(file, 1234, 4321)
    before = file.stat()
    assert statuses(add(file, "id")) == ["written"]
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_extended_attributes_are_kept(file: Path) -> None:
    if not hasattr(os, "setxattr"):
        pytest.skip("this system has no os.setxattr")
    try:
        os.setxattr(file, "user.origin", b"ingest \xff\0 7")
    except OSError as error:
        pytest.skip(f"the temporary directory has no extended attributes: {error}")
    add(file, "id")
    assert os.getxattr(file, "user.origin") == b"ingest \xff\0 7"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444])
def test_a_copy_takes_the_mode_and_from_root_the_owner(file: Path, tmp_path: Path, mode: int) -> None:
    file.chmod(mode)
    if os.geteuid() == 0:
        os.chown(file, 1234, 4321)
    before = file.stat()
    assert statuses(add(file, "id", output=tmp_path / "y.parquet")) == ["written"]
    after = (tmp_path / "y.parquet").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize("keep", [True, False])
def test_the_modification_time_is_kept_on_request(file: Path, keep: bool) -> None:
    os.utime(file, ns=(10**18, 10**18 + 123_456_789))
    add(file, "id", keep_mtime=keep)
    assert (file.stat().st_mtime_ns == 10**18 + 123_456_789) is keep
    os.utime(file, ns=(10**18, 10**18 + 123_456_789))
    drop(file, keep_mtime=keep)
    assert (file.stat().st_mtime_ns == 10**18 + 123_456_789) is keep


# ---- links -------------------------------------------------------------------------------


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    old = write(tmp_path / "real/x.parquet")
    (tmp_path / "a").symlink_to("real/x.parquet")
    (tmp_path / "b.parquet").symlink_to("a")
    assert statuses(add(tmp_path / "b.parquet", "id")) == ["written"]
    assert (tmp_path / "b.parquet").readlink() == Path("a")
    assert (tmp_path / "a").readlink() == Path("real/x.parquet")
    assert not (tmp_path / "real/x.parquet").is_symlink()
    assert (tmp_path / "real/x.parquet").read_bytes()[: len(old)] == old
    assert len(inspect(tmp_path / "real/x.parquet").rows) == 4
    assert names(tmp_path / "real") == ["x.parquet"]


def test_a_hard_linked_file_is_refused_in_place_and_can_be_copied(file: Path, tmp_path: Path) -> None:
    os.link(file, tmp_path / "other.parquet")
    before = snapshot(tmp_path)
    assert "2 hard links" in only_error(add(file, "id"))
    assert snapshot(tmp_path) == before
    assert statuses(add(file, "id", output=tmp_path / "copy.parquet")) == ["written"]
    assert snapshot(tmp_path) == before | {"copy.parquet": (tmp_path / "copy.parquet").read_bytes()}


# ---- outputs -----------------------------------------------------------------------------


def test_an_output_that_exists_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "y.parquet").write_bytes(b"mine")
    (tmp_path / "link.parquet").symlink_to("nowhere")
    before = snapshot(tmp_path)
    for name in ("y.parquet", "link.parquet", "x.parquet"):
        assert "exists" in only_error(add(file, "id", output=tmp_path / name))
        assert "exists" in only_error(drop(file, restore=True, output=tmp_path / name))
    assert snapshot(tmp_path) == before


def test_an_output_that_appears_meanwhile_is_left(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "y.parquet"
    with started(file, target=target) as out:
        out.copy()
        target.write_bytes(b"mine")
        with pytest.raises(FilterExistsError, match="created meanwhile"):
            out.commit()
    assert target.read_bytes() == b"mine"
    assert names(tmp_path) == ["x.parquet", "y.parquet"]


def test_where_hard_links_are_missing_an_output_appears_all_the_same(
    file: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    assert statuses(add(file, "id", output=tmp_path / "y.parquet")) == ["written"]
    assert names(tmp_path) == ["x.parquet", "y.parquet"]
    with started(file, target=tmp_path / "z.parquet") as out:
        out.copy()
        (tmp_path / "z.parquet").write_bytes(b"mine")
        with pytest.raises(FilterExistsError):
            out.commit()
    assert (tmp_path / "z.parquet").read_bytes() == b"mine"


def test_the_folders_of_an_output_are_made(file: Path, tmp_path: Path) -> None:
    assert statuses(add(file, "id", output=tmp_path / "new/deep/y.parquet")) == ["written"]
    assert names(tmp_path / "new/deep") == ["y.parquet"]


# ---- changes meanwhile -------------------------------------------------------------------


def rewritten(path: Path) -> None:
    path.write_bytes(b"another file altogether")


def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def appended_within_the_clock_s_tick(path: Path) -> None:
    status = path.stat()
    with path.open("ab") as out:
        out.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


def permitted(path: Path) -> None:
    path.chmod(0o600)


def removed(path: Path) -> None:
    path.unlink()


CHANGES = [rewritten, touched, appended_within_the_clock_s_tick, replaced, permitted, removed]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("copy", [False, True], ids=["in place", "copy"])
@pytest.mark.parametrize("when", ["before", "while copying"])
def test_a_file_that_changed_is_left_as_it_is_now(
    file: Path, tmp_path: Path, change: Callable[[Path], None], copy: bool, when: str
) -> None:
    status = file.stat()
    target = tmp_path / "y.parquet" if copy else None

    def rewrite() -> None:
        with Rewrite(file, status.st_size, version=version(status), target=target) as out:
            if when != "before":
                change(file)
            out.copy()
            out.append(b"filters")
            out.commit()

    if when == "before":
        change(file)
    expected = snapshot(tmp_path) if when == "before" else None
    with pytest.raises((ConcurrentChangeError, FileNotFoundError)):
        rewrite()
    assert names(tmp_path) == ([] if change is removed else ["x.parquet"])
    assert expected is None or snapshot(tmp_path) == expected


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_changed_is_not_removed(file: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    side = file.with_name(".x.parquet.crc")
    side.write_bytes(checksum_file(file.read_bytes()))
    with started(file) as out:
        change(file)
        expected = file.read_bytes() if file.exists() else None
        with pytest.raises(ConcurrentChangeError):
            out.remove()
    assert (file.read_bytes() if file.exists() else None) == expected
    assert side.exists()


def test_a_change_between_survey_and_write_refuses_the_file(file: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from parquet_bloom.verbs import add_files as add_

    write(tmp_path / "y.parquet")
    honest = add_.rewrite

    def changed_before(source: Any, *arguments: Any, **options: Any) -> Any:
        if source.path.endswith("x.parquet"):
            write(file, 500)
        return honest(source, *arguments, **options)

    monkeypatch.setattr(add_, "rewrite", changed_before)
    first, second = add(tmp_path, "id").rows
    assert (first.status, second.status) == ("refused", "written")
    assert "changed since it was read" in first.error
    assert file.read_bytes() == write(tmp_path / "z.parquet", 500)


# ---- two writers -------------------------------------------------------------------------


def test_a_second_writer_is_refused_until_the_first_is_done(file: Path, tmp_path: Path) -> None:
    with started(file) as out:
        assert "being written by another" in only_error(add(file, "id"))
        out.copy()
        out.append(b"PAR1")
        out.commit()
        with pytest.raises(ConcurrentChangeError, match="being written by another"):
            started(file)  # also until the first has put the checksum file back
    with started(file):
        pass
    assert names(tmp_path) == ["x.parquet"]


def test_two_copies_to_one_name_exclude_each_other(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "y.parquet"
    with started(file, target=target):
        assert "being written by another" in only_error(add(file, "id", output=target))
        assert statuses(add(file, "id", output=tmp_path / "z.parquet")) == ["written"]


HOLD = """
import sys
from pathlib import Path
from parquet_bloom.storage.local_files import Rewrite, version
path = Path(sys.argv[1])
with Rewrite(path, 100, version=version(path.stat())) as out:
    out.append(b"half")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_another_process_excludes_and_once_killed_leaves_what_the_next_removes(file: Path, tmp_path: Path) -> None:
    old = file.read_bytes()
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert "being written by another" in only_error(add(file, "id"))
        other.kill()
    assert file.read_bytes() == old
    (leftover,) = leftovers(file)
    assert names(tmp_path) == [leftover.name, "x.parquet"]
    (row,) = add(file, "id").rows
    assert row.status == "written"
    assert row.notes == (f"removed {leftover}, which an interrupted run had left",)
    assert names(tmp_path) == ["x.parquet"]


def test_many_threads_add_once_and_the_rest_are_told(file: Path) -> None:
    old = file.read_bytes()
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(add(file, "id", jobs=1).rows[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.status for row in results].count("written") == 1
    assert {row.status for row in results} <= {"written", "unchanged", "refused"}
    assert file.read_bytes()[: len(old)] == old
    assert len(inspect(file).rows) == 4


# ---- names -------------------------------------------------------------------------------

LONG = "x" * 247 + ".parquet"
ODD_NAMES = {
    "255 bytes": LONG,
    "255 bytes of text": "水" * 82 + "x.parquet",
    "not UTF-8": os.fsdecode(b"\xff\xfe\x80.parquet"),
    "255 bytes not UTF-8": os.fsdecode(b"\xff" * 247 + b".parquet"),
    "space": "a b.parquet",
    "glob": "a*[b]?.parquet",
    "quotes": "a'b\"c.parquet",
    "newline": "a\nb.parquet",
    "dash": "-n.parquet",
    "no suffix": "x",
    "colons": "a::b.parquet",
    "percent": "a%20b.parquet",
}


@pytest.mark.parametrize("which", ODD_NAMES)
def test_every_name_can_be_written(tmp_path: Path, monkeypatch: Any, which: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ODD_NAMES[which]
    write(tmp_path / "made")
    (tmp_path / "made").replace(path)
    old = path.read_bytes()
    for name in (path, path.name):
        assert statuses(add(name, "id", replace=True)) == ["written"]
        assert path.read_bytes()[: len(old)] == old
        assert statuses(drop(name, restore=True)) == ["written"]
        assert path.read_bytes() == old
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("name", [LONG, "x" * 255, "水" * 85, os.fsdecode(b"\xff" * 255)])
def test_the_temporary_name_is_hidden_short_and_the_target_s_own(name: str) -> None:
    temporary = temporary_path(Path("/d", name))
    assert temporary.parent == Path("/d")
    assert temporary.name.startswith(".")
    assert not temporary.name.endswith(".parquet")
    assert len(os.fsencode(temporary.name)) <= 255
    assert len(os.fsencode(temporary_path(temporary).name)) <= 255


# ---- checksum files ----------------------------------------------------------------------


def checksum_file(data: bytes, step: int = 512) -> bytes:
    """What Hadoop writes beside a file: `crc\\0`, the step, and a CRC-32 for each step, all big-endian."""
    sums = [zlib.crc32(data[i : i + step]) for i in range(0, len(data), step)]
    return b"crc\0" + struct.pack(f">i{len(sums)}I", step, *sums)


@pytest.fixture
def side(file: Path) -> Path:
    path = file.with_name(".x.parquet.crc")
    path.write_bytes(checksum_file(file.read_bytes()))
    return path


@pytest.mark.parametrize("step", [1, 7, 512, 4096, 2**31 - 1])
def test_the_checksums_fit_the_new_file_in_every_step(file: Path, step: int) -> None:
    side = file.with_name(".x.parquet.crc")
    old = file.read_bytes()
    side.write_bytes(checksum_file(old, step))
    for verb in (lambda: add(file, "id"), lambda: add(file, "name"), lambda: drop(file)):
        assert statuses(verb()) == ["written"]
        assert side.read_bytes() == checksum_file(file.read_bytes(), step)
    assert statuses(drop(file, restore=True)) == ["written"]
    assert side.read_bytes() == checksum_file(old, step)
    assert names(file.parent) == [".x.parquet.crc", "x.parquet"]


def test_there_is_no_moment_with_a_checksum_file_that_does_not_fit(file: Path, side: Path, monkeypatch: Any) -> None:
    moments = []

    def look() -> None:
        moments.append(not side.exists() or side.read_bytes() == checksum_file(file.read_bytes()))

    for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "pwrite"), (os, "fsync")):
        call = getattr(owner, name)

        def watched(*arguments: Any, call: Any = call, **options: Any) -> Any:
            look()
            result = call(*arguments, **options)
            look()
            return result

        monkeypatch.setattr(owner, name, watched)
    assert statuses(add(file, "id")) == ["written"]
    assert len(moments) > 8
    assert all(moments)


def test_a_copy_has_no_checksum_file(file: Path, side: Path, tmp_path: Path) -> None:
    add(file, "id", output=tmp_path / "y.parquet")
    assert names(tmp_path) == [".x.parquet.crc", "x.parquet", "y.parquet"]
    assert side.read_bytes() == checksum_file(file.read_bytes())


def test_a_checksum_file_is_found_where_a_link_leads(tmp_path: Path) -> None:
    file = tmp_path / "real/x.parquet"
    side = tmp_path / "real/.x.parquet.crc"
    side.parent.mkdir()
    side.write_bytes(checksum_file(write(file)))
    (tmp_path / "link.parquet").symlink_to(file)
    add(tmp_path / "link.parquet", "id")
    assert side.read_bytes() == checksum_file(file.read_bytes())


WRONG = {
    "stale": lambda data: checksum_file(data[:-10] + b"0123456789"),
    "of a shorter file": lambda data: checksum_file(data[:-600]),
    "of a longer file": lambda data: checksum_file(data + bytes(600)),
    "other magic": lambda data: b"CRC\0" + checksum_file(data)[4:],
    "empty": lambda data: b"",
    "cut": lambda data: checksum_file(data)[:-1],
    "step 0": lambda data: b"crc\0" + bytes(4) + checksum_file(data)[8:],
    "header only": lambda data: checksum_file(b""),
}


@pytest.mark.parametrize("why", WRONG)
def test_a_checksum_file_that_does_not_fit_is_refused_and_left(file: Path, side: Path, why: str) -> None:
    side.write_bytes(WRONG[why](file.read_bytes()))
    before = snapshot(file.parent)
    assert "does not match its checksum file .x.parquet.crc" in only_error(add(file, "id"))
    assert snapshot(file.parent) == before


def test_a_checksum_file_that_cannot_be_written_is_left_out(file: Path, side: Path, monkeypatch: Any) -> None:
    replace = Path.replace

    def full_once_replaced(path: Path, target: Path) -> None:
        replace(path, target)
        monkeypatch.setattr(os, "pwrite", full)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_once_replaced)
    assert statuses(add(file, "id")) == ["written"]
    assert names(file.parent) == ["x.parquet"]


def test_the_checksum_file_reaches_the_disk_and_keeps_its_mode_and_owner(
    file: Path, side: Path, monkeypatch: Any
) -> None:
    side.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(side, 1234, 4321)
    before, synced, fsync = side.stat(), [], os.fsync

    def noted(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    assert statuses(add(file, "id")) == ["written"]
    after = side.stat()
    assert after.st_ino in synced
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_checksum_file_that_is_no_file_is_refused(file: Path) -> None:
    os.mkfifo(file.with_name(".x.parquet.crc"))
    assert "does not match its checksum file" in only_error(add(file, "id"))


# ---- other users of the folder -----------------------------------------------------------


def as_nobody(code: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    """Starts some Python as a user who owns nothing."""
    become = "import os, sys\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
    command = [sys.executable, "-S", "-c", become + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **options)


@pytest.fixture
def shared(tmp_path_factory: Any) -> Path:
    """A folder that everybody may write to, with a private file of root's."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    folder: Path = tmp_path_factory.mktemp("shared")
    for parent in folder.parents:  # pytest's own folders, a level more where it runs in several processes
        if stat.S_IMODE(parent.stat().st_mode) == 0o700:
            parent.chmod(0o755)
    folder.chmod(0o777)
    write(folder / "x.parquet")
    (folder / "x.parquet").chmod(0o600)
    return folder


OPEN_ALL = """
for name in os.listdir(sys.argv[1]):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(f"{sys.argv[1]}/{name}", flags)
            print(name)
        except PermissionError:
            pass
"""


@pytest.mark.parametrize("target", [None, "y.parquet"])
def test_nobody_else_can_open_a_private_file_s_copy(shared: Path, target: str | None) -> None:
    with started(shared / "x.parquet", target=target and shared / target) as out:
        out.copy()
        assert len(leftovers(shared / (target or "x.parquet"))) == 1
        opened, _ = as_nobody(OPEN_ALL, shared).communicate()
        out.commit()
    assert opened == ""
    opened, _ = as_nobody(OPEN_ALL, shared).communicate()
    assert opened == ""
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in shared.iterdir())


HOLD_OPEN = """
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
os.fchmod(fd, 0o666)
print("ready", flush=True)
sys.stdin.readline()
print(os.fstat(fd).st_size)
"""


@pytest.mark.parametrize("output", [None, "y.parquet"])
def test_a_file_that_another_user_put_under_a_name_to_be_guessed_is_not_written_to(
    shared: Path, output: str | None
) -> None:
    target = shared / (output or "x.parquet")
    digest = hashlib.sha256(target.name.encode()).hexdigest()[:8]
    guesses = [shared / f".{target.name}.{digest}{number}.parquet-bloom.tmp" for number in ("", f".{'0' * 16}")]
    held = [as_nobody(HOLD_OPEN, guess) for guess in guesses]
    for each in held:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    there = [guess.stat().st_ino for guess in guesses]
    assert statuses(add(shared / "x.parquet", "id", output=target if output else None)) == ["written"]
    assert [each.communicate("\n")[0] for each in held] == ["0\n", "0\n"]
    assert [guess.stat().st_ino for guess in guesses] == there  # they are not ours to remove
    assert target.stat().st_uid == 0


@pytest.mark.parametrize("kind", ["file", "link", "broken link"])
def test_a_temporary_file_is_never_one_that_was_there(tmp_path: Path, file: Path, monkeypatch: Any, kind: str) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    victim, taken = tmp_path / "victim", temporary_path(file)
    if kind == "file":
        taken.write_bytes(b"mine")
    else:
        taken.symlink_to(victim)
    if kind == "link":
        victim.write_bytes(b"mine")
    before = snapshot(tmp_path)
    assert "File exists" in only_error(add(file, "id"))
    assert snapshot(tmp_path) == before
    assert not (kind == "broken link" and victim.exists())


@pytest.mark.parametrize("target", [None, "y.parquet"])
@pytest.mark.parametrize("kind", ["removed", "replaced"])
def test_a_temporary_file_that_others_took_away_becomes_no_result(
    file: Path, tmp_path: Path, target: str | None, kind: str
) -> None:
    with started(file, target=target and tmp_path / target) as out:
        out.copy()
        (temporary,) = leftovers(tmp_path / (target or "x.parquet"))
        temporary.unlink()
        if kind == "replaced":
            temporary.write_bytes(b"PAR1 theirs")
        before = snapshot(tmp_path)
        with pytest.raises(ConcurrentChangeError, match="was removed or replaced; nothing was written"):
            out.commit()
        assert snapshot(tmp_path) == before


def test_a_new_file_that_got_another_name_at_once_is_not_written_to(tmp_path: Path, monkeypatch: Any) -> None:
    open_file, theirs = os.open, tmp_path / "theirs"

    def opened(path: Any, flags: int, *mode: int) -> int:
        fd = open_file(path, flags, *mode)
        if flags & os.O_EXCL:
            os.link(path, theirs)
        return fd

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(UnsupportedError, match="is not the file that was created"):
        create(tmp_path / "new", b"secret")
    assert names(tmp_path) == ["theirs"]
    assert theirs.read_bytes() == b""


def test_where_every_temporary_file_is_taken_away_there_is_an_error(file: Path, monkeypatch: Any) -> None:
    lstat = Path.lstat

    def gone(path: Path) -> os.stat_result:
        if path.suffix == ".tmp":
            raise FileNotFoundError(path)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", gone)
    assert "temporary files are taken away at once" in only_error(add(file, "id"))
    assert names(file.parent) == ["x.parquet"]


def test_checksums_are_not_written_through_a_link(file: Path, side: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    victim = file.with_name("victim")
    victim.write_bytes(b"mine")
    temporary_path(side).symlink_to(victim)
    assert statuses(add(file, "id")) == ["written"]
    assert victim.read_bytes() == b"mine"
    assert not side.exists()


# ---- what killed writers left ------------------------------------------------------------

LEFT = {
    "empty": b"",
    "half": b"PAR1 half",
    "lost by a power cut": bytes(100),
}


@pytest.mark.parametrize("content", LEFT.values(), ids=LEFT)
def test_all_that_killed_writers_left_is_removed(file: Path, side: Path, content: bytes) -> None:
    for _ in range(2):
        temporary_path(file).write_bytes(content)
        temporary_path(side).write_bytes(b"crc\0 half")
    old = leftovers(file)
    (row,) = add(file, "id").rows
    assert names(file.parent) == [".x.parquet.crc", "x.parquet"]
    assert row.notes == ((f"removed {old[0]} and {old[1]}, which an interrupted run had left",) if content else ())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which gives files to their owners")
def test_root_removes_what_it_had_given_to_the_file_s_owner(file: Path) -> None:
    leftover = temporary_path(file)
    leftover.write_bytes(b"PAR1 whole")
    for path in (file, leftover):
        os.chown(path, 1234, 4321)
    assert statuses(add(file, "id")) == ["written"]
    assert names(file.parent) == ["x.parquet"]


def test_what_no_writer_left_stays(file: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"PAR1")
    temporary_path(file).write_bytes(b"a letter to grandmother")
    temporary_path(file).symlink_to(tmp_path / "victim")
    temporary_path(file).mkdir()
    os.mkfifo(temporary_path(file))
    temporary_path(tmp_path / "other.parquet").write_bytes(b"PAR1")
    temporary_path(file).with_suffix(".bak").write_bytes(b"PAR1")
    before = names(tmp_path)
    if os.geteuid() == 0:
        temporary_path(file).write_bytes(b"PAR1")
        (theirs,) = set(tmp_path.iterdir()) - {tmp_path / name for name in before}
        os.chown(theirs, 65534, 65534)
        before = names(tmp_path)
    (row,) = add(file, "id").rows
    assert (row.status, row.notes) == ("written", ())
    assert names(tmp_path) == before


# ---- new files ---------------------------------------------------------------------------


def test_a_new_file_takes_the_mode_and_from_root_the_owner_of_the_last_one_beside_it(tmp_path: Path) -> None:
    create(tmp_path / "0", b"")
    assert stat.S_IMODE((tmp_path / "0").stat().st_mode) == stat.S_IMODE(tmp_path.stat().st_mode) & 0o666
    (tmp_path / "1").write_bytes(b"")
    (tmp_path / "1").chmod(0o640)
    if os.geteuid() == 0:
        os.chown(tmp_path / "1", 1234, 4321)
    (tmp_path / "_last").write_bytes(b"")
    create(tmp_path / "2", b"data")
    one, two = ((tmp_path / name).stat() for name in "12")
    assert (one.st_mode, one.st_uid, one.st_gid) == (two.st_mode, two.st_uid, two.st_gid)
    assert (tmp_path / "2").read_bytes() == b"data"


def test_a_new_file_may_be_read_by_those_who_may_read_all_that_it_is_of(tmp_path: Path) -> None:
    modes = {"a": 0o644, "b": 0o640, "c": 0o604}
    for name, mode in modes.items():
        (tmp_path / name).write_bytes(b"")
        (tmp_path / name).chmod(mode)
    create(tmp_path / "new", b"data", like=[(tmp_path / name).stat() for name in modes])
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_new_folder_gives_the_access_of_the_one_above_or_of_another(tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    make_folder(above / "new")
    make_folder(tmp_path / "new", like=str(above))
    assert [stat.S_IMODE((folder / "new").stat().st_mode) for folder in (above, tmp_path)] == [mode, mode]


@pytest.mark.parametrize(("mode", "left"), [(0o660, 0o600), (0o664, 0o644), (0o640, 0o600), (0o646, 0o646)])
def test_a_group_that_is_not_the_other_file_s_may_do_no_more_than_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, left: int
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(system, "set_owner", refuse)
    new = tmp_path / "new"
    theirs = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, os.geteuid(), os.getegid() + 1, 0, 0, 0, 0))
    create(new, b"data", like=[theirs])
    assert stat.S_IMODE(new.stat().st_mode) == left


def test_a_file_that_is_there_is_written_although_its_temporary_name_cannot_be_removed(
    file: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    def stuck(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", stuck)
    assert statuses(add(file, "id", output=tmp_path / "y.parquet")) == ["written"]
    create(tmp_path / "z", b"data")
    assert (tmp_path / "z").read_bytes() == b"data"


# ---- where and how it may not write ------------------------------------------------------

AS_NOBODY = """
import os, sys
import fsspec.implementations.local
import parquet_bloom.storage.columns, parquet_bloom.verbs.add_files
parquet_bloom.add([], "id")
os.setgid(65534)
os.setuid(65534)
(row,) = parquet_bloom.add(sys.argv[1], "id").rows
print(row.status, row.error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_without_permission_nothing_changes(tmp_path_factory: Any, mode: int) -> None:
    folder = tmp_path_factory.mktemp("theirs")
    for parent in folder.parents:  # pytest's own folders, a level more where it runs in several processes
        if stat.S_IMODE(parent.stat().st_mode) == 0o700:
            parent.chmod(0o755)
    write(folder / "x.parquet")
    folder.chmod(mode)
    before = snapshot(folder)
    command = [sys.executable, "-c", AS_NOBODY, str(folder / "x.parquet")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.startswith(("refused Permission denied", "refused Operation not permitted")), ran.stderr
    assert snapshot(folder) == before


def test_a_file_that_cannot_be_read_is_refused(file: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def denied(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(os, "open", denied)
    assert only_error(add(file, "id")) == f"Permission denied: {file}"


def test_short_reads_are_continued(file: Path, side: Path, monkeypatch: Any) -> None:
    old = file.read_bytes()
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 1000), at))
    assert statuses(add(file, "id")) == ["written"]
    assert side.read_bytes() == checksum_file(file.read_bytes())
    assert statuses(drop(file, restore=True)) == ["written"]
    assert file.read_bytes() == old
    assert side.read_bytes() == checksum_file(old)


def test_a_file_that_becomes_shorter_while_it_is_copied_is_left(file: Path) -> None:
    with started(file) as out:
        os.truncate(file, 100)
        with pytest.raises(ConcurrentChangeError, match="became shorter while it was copied"):
            out.copy()
        with pytest.raises(ConcurrentChangeError, match="became shorter while it was copied"):
            out.append_from(90, 110)
    assert names(file.parent) == ["x.parquet"]


def test_systems_without_fdatasync_or_copy_file_range_copy_all_the_same(file: Path, monkeypatch: Any) -> None:
    old = file.read_bytes()
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    assert statuses(add(file, "id")) == ["written"]
    assert file.read_bytes()[: len(old)] == old


@pytest.mark.parametrize("error", [18, 22, 95, 38])
def test_a_file_system_that_cannot_copy_by_itself_is_read_and_written(file: Path, monkeypatch: Any, error: int) -> None:
    def cannot(*_: Any, **__: Any) -> int:
        raise OSError(error, "cannot")

    old = file.read_bytes()
    monkeypatch.setattr(os, "copy_file_range", cannot, raising=False)
    assert statuses(add(file, "id")) == ["written"]
    assert file.read_bytes()[: len(old)] == old


def test_short_writes_are_continued(file: Path, monkeypatch: Any) -> None:
    old = file.read_bytes()
    pwrite = os.pwrite
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data[:1000]), at))
    assert statuses(add(file, "id")) == ["written"]
    assert file.read_bytes()[: len(old)] == old
    assert len(inspect(file).rows) == 4


def test_a_disk_without_hard_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*arguments: object) -> None:
        raise OSError(errno.EPERM, "no links")

    require_links(tmp_path / "x")
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(UnsupportedError, match="a file system without hard links"):
        require_links(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# ---- files that are created --------------------------------------------------------------


@pytest.mark.parametrize("way", ["create", "new_file"])
def test_fstat_that_fails_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    target, real = tmp_path / "new", os.fstat
    for at in range(20):
        calls = iter(range(100))

        def fail(fd: int, at: int = at, calls: Any = calls) -> os.stat_result:
            if next(calls) == at:
                raise OSError(errno.EIO, "Input/output error")
            return real(fd)

        with monkeypatch.context() as broken:
            broken.setattr(os, "fstat", fail)
            with contextlib.suppress(OSError):
                if way == "create":
                    create(target, b"data")
                else:
                    with local_files.new_file(target) as out:
                        out.write(b"data")
        left = names(tmp_path)
        assert left in ([], ["new"])
        target.unlink(missing_ok=True)
        if next(calls) <= at:  # none has failed
            break
    assert at > 0
    assert left == ["new"]
