"""`add` in place changes what it must and nothing else; whenever it ends, `recover` gives the old file back."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import only_error, snapshot, statuses, write

import parquet_bloom
from parquet_bloom import add, drop, recover, verify
from parquet_bloom.cli.commands import main
from parquet_bloom.storage import in_place
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.local_files import temporary_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    write(path)
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not wait for the disk: what is tested survives a kill, and a power cut cannot be tested here."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


# ---- what is changed ---------------------------------------------------------------------


@pytest.mark.engines
def test_the_file_becomes_what_it_becomes_without(file: Path) -> None:
    import duckdb

    other = file.with_name("y.parquet")
    shutil.copy(file, other)
    old, inode = file.read_bytes(), file.stat().st_ino
    (row,) = add(file, ["id", "name"], in_place=True).rows
    (copied,) = add(other, ["id", "name"]).rows
    assert (row.status, row.filters) == ("written", copied.filters)
    assert file.read_bytes() == other.read_bytes()
    assert file.read_bytes().startswith(old)
    assert file.stat().st_ino == inode
    assert "readers may fail" in row.notes[0]
    assert "recover" in row.notes[0]
    assert {row.verdict for row in verify(file)} == {"ok"}
    assert duckdb.sql(f"SELECT count(*), sum(id) FROM '{file}'").fetchall() == [(1000, sum(range(1000)))]
    assert pq.read_table(file).equals(pq.read_table(other))
    assert statuses(recover(file)) == ["unchanged"]
    assert statuses(drop(file, restore=True)) == ["written"]
    assert file.read_bytes() == old


def test_nothing_is_touched_where_nothing_is_left_to_do(file: Path) -> None:
    add(file, "id")
    before = file.stat()
    assert add(file, "id", in_place=True).rows[0].notes == ()
    assert file.stat() == before


def test_a_dry_run_says_what_would_happen(file: Path) -> None:
    before = snapshot(file.parent)
    (row,) = add(file, "id", in_place=True, dry_run=True).rows
    assert row.status == "planned"
    assert "readers may fail" in row.notes[0]
    assert snapshot(file.parent) == before


@pytest.mark.parametrize("keep", [True, False])
def test_mtime(file: Path, keep: bool) -> None:
    os.utime(file, ns=(10**18, 10**18))
    add(file, "id", in_place=True, keep_mtime=keep)
    assert (file.stat().st_mtime_ns == 10**18) is keep


def test_links(file: Path) -> None:
    link, hard = file.with_name("link.parquet"), file.with_name("hard.parquet")
    link.symlink_to(file)
    os.link(file, hard)
    (row,) = add(link, "id", in_place=True).rows
    assert row.status == "written"
    assert row.notes[1] == "the file has 2 hard links, and is changed under all of these names"
    assert link.is_symlink()
    assert hard.samefile(file)
    assert [r.verdict for r in verify(hard)] == ["ok"] * 4


def test_filters_that_do_not_fit_into_memory_wait_in_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_HELD", 1000)
    monkeypatch.setattr(in_place, "_STEP", 333)
    assert statuses(add(file, ["id", "name"], in_place=True)) == ["written"]
    assert {row.verdict for row in verify(file)} == {"ok"}


def checksums(data: bytes) -> bytes:
    import struct
    import zlib

    sums = [zlib.crc32(data[i : i + 512]) for i in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">i{len(sums)}I", 512, *sums)


def test_hadoop_s_checksums_are_brought_along(file: Path) -> None:
    side = file.with_name(".x.parquet.crc")
    side.write_bytes(checksums(file.read_bytes()))
    add(file, "id", in_place=True)
    assert side.read_bytes() == checksums(file.read_bytes())


def test_what_a_killed_run_left_beside_the_checksums_is_removed(file: Path) -> None:
    side = file.with_name(".x.parquet.crc")
    side.write_bytes(checksums(file.read_bytes()))
    left = temporary_path(side)
    left.write_bytes(b"crc\0")
    add(file, "id", in_place=True)
    assert not left.exists()


# ---- what is refused ---------------------------------------------------------------------


def test_stores_outputs_and_tables_are_refused(file: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/in_place/x.parquet", file.read_bytes())
    assert "only local files" in only_error(add("memory://in_place/x.parquet", "id", in_place=True))
    with pytest.raises(ValueError, match="leave out output="):
        add(file, "id", in_place=True, output=tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="in_place= cannot be used with table="):
        add(tmp_path, "id", in_place=True, table=True)
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.json").write_text("{}")
    assert "is a Delta table" in only_error(add(file, "id", in_place=True))
    ran = CliRunner().invoke(main, ["add", str(file), "-c", "id", "--in-place", "--engine", "spark"])
    assert "--in-place changes local files" in ran.output
    assert ran.exit_code == 2


def test_files_that_are_not_ours_to_write_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()
    file.chmod(0o444)
    assert "read-only" in only_error(add(file, "id", in_place=True))
    file.chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert "another user" in only_error(add(file, "id", in_place=True))
    assert file.read_bytes() == before


def test_a_file_that_recover_would_not_know_is_refused(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(b"par1" + data[4:])  # which readers do not look at
    assert "recover" in only_error(add(file, "id", in_place=True))
    assert statuses(add(file, "id")) == ["written"]


def test_a_file_system_without_locks_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    before = file.read_bytes()
    assert "without locks" in only_error(add(file, "id", in_place=True))
    assert file.read_bytes() == before


# ---- several writers ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in place", "replaced", "recovered"])
def test_two_writers_exclude_each_other(file: Path, way: str) -> None:
    (source,) = find(file)
    before = file.read_bytes()
    with in_place.Append(file, version=source.version) as out:
        out.append(b"filter")
        if way == "recovered":
            os.truncate(file, len(before))
        else:
            assert "another parquet-bloom" in only_error(add(file, "id", in_place=way == "in place"))
    assert file.read_bytes() == before
    assert statuses(add(file, "id", in_place=True)) == ["written"]
    cut_off = file.read_bytes()[:-1]
    file.write_bytes(cut_off)
    (source,) = find(file)
    with in_place.Append(file, version=source.version):
        assert "another parquet-bloom" in only_error(recover(file))
    assert file.read_bytes() == cut_off


def test_many_writers_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    old = write(path, 2000)
    code = (
        "import sys; from parquet_bloom import add;"
        "print(add(sys.argv[1], ['id', 'name'], in_place=True).rows[0].status)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    told = [writer.communicate()[0].strip() for writer in writers]
    assert told.count("written") == 1
    assert set(told) <= {"written", "unchanged", "refused"}
    assert path.read_bytes().startswith(old)
    assert len(verify(path).rows) == 8
    assert verify(path).is_sound


def test_another_program_s_bytes_are_not_cut_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = find(file)
    old = file.read_bytes()
    write_at = os.pwrite

    def and_theirs(fd: int, data: Any, at: int) -> int:
        with file.open("ab") as theirs:
            theirs.write(b"theirs" * 10)
        return write_at(fd, data, at)

    monkeypatch.setattr(os, "pwrite", and_theirs)
    with in_place.Append(file, version=source.version) as out:
        out.append(b"filters")
        out.append(b"footer")
        with pytest.raises(OSError, match="another program has appended to it"):
            out.commit()
    assert file.read_bytes().startswith(old)
    assert file.read_bytes().endswith(b"theirs")


def test_a_file_that_changed_meanwhile_stays_theirs(file: Path) -> None:
    for change in (lambda: os.utime(file), lambda: file.write_bytes(b"theirs")):
        (source,) = find(file)
        with in_place.Append(file, version=source.version) as out:
            out.append(b"footer")
            change()
            theirs = file.read_bytes()
            with pytest.raises(parquet_bloom.ConcurrentChangeError, match="nothing was written"):
                out.commit()
        assert file.read_bytes() == theirs


def test_the_footer_is_written_once_the_filters_are_on_the_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments: list[Any] = []
    write_at = os.pwrite

    def noted(fd: int, data: Any, start: int) -> int:
        moments.append(bytes(data))
        return write_at(fd, data, start)

    monkeypatch.setattr(os, "pwrite", noted)
    monkeypatch.setattr(os, "fsync", lambda fd: moments.append("synced"))
    (source,) = find(file)
    with in_place.Append(file, version=source.version) as out:
        out.append(b"filters")
        out.append(b"footer")
        out.commit()
    assert moments == [b"filters", "synced", b"footer", "synced"]


def test_a_file_that_changed_since_it_was_read_is_not_cut(file: Path) -> None:
    (source,) = find(file)
    with file.open("ab") as out:
        out.write(b"theirs")
    theirs = file.read_bytes()
    with pytest.raises(parquet_bloom.ConcurrentChangeError, match="nothing was written"):
        in_place.cut(file, source.size - 100, version=source.version)
    assert file.read_bytes() == theirs


# ---- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["pwrite", "fsync", "pread", "fstat", "short", "garbled"])
@pytest.mark.parametrize("side", [True, False])
def test_whatever_fails_the_old_file_is_back(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: str, side: bool
) -> None:
    old = file.read_bytes()
    monkeypatch.setattr(in_place, "_STEP", 100)
    outcomes = set()
    for at in range(0, 60, 3):
        count = 0
        file.write_bytes(old)
        if side:
            file.with_name(".x.parquet.crc").write_bytes(checksums(old))
        before, times = snapshot(file.parent), file.stat().st_mtime_ns
        with monkeypatch.context() as broken:
            victim = {"short": "pwrite", "garbled": "pwrite"}.get(call, call)
            real = getattr(os, victim)

            def fail(*arguments: Any, at: int = at, real: Any = real) -> Any:
                nonlocal count
                count += 1
                if count != at + 1:
                    return real(*arguments)
                if call == "garbled":
                    return real(arguments[0], bytes(len(arguments[1])), arguments[2])
                if call == "short":
                    real(arguments[0], arguments[1][:10], arguments[2])
                raise OSError(errno.ENOSPC, "No space left on device")

            broken.setattr(os, victim, fail)
            (row,) = add(file, ["id", "name"], in_place=True, jobs=1).rows
        outcomes.add(row.status)
        if row.status == "written":
            assert verify(file).is_sound
            assert file.with_name(".x.parquet.crc").exists() <= side
            continue
        assert row.status == "refused"
        assert row.error in _TOLD
        assert file.stat().st_mtime_ns == times
        assert snapshot(file.parent) == before
    assert "refused" in outcomes


_TOLD = ("No space left on device", "Input/output error", "what was written reads back differently")


def test_a_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = file.stat().st_size + 1000
    code = (
        "import resource, sys; from parquet_bloom import add;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        "(row,) = add(sys.argv[1], ['id', 'name'], in_place=True).rows; print(row.status, row.error)"
    )
    before = snapshot(file.parent)
    ran = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert ran.stdout == "refused File too large\n"
    assert snapshot(file.parent) == before


def test_where_the_file_cannot_be_cut_back_the_error_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    old = file.read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr(in_place.Append, "_read_back", fail)
        broken.setattr(os, "ftruncate", fail)
        error = only_error(add(file, "id", in_place=True))
    assert f"could not be cut back to its {len(old):,} bytes" in error
    assert "recover" in error
    file.write_bytes(file.read_bytes()[:-1])
    assert statuses(recover(file)) == ["written"]
    assert file.read_bytes() == old


def test_an_interrupt_in_the_middle(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    (source,) = find(file)
    old = file.read_bytes()
    real, calls = os.pwrite, iter([True, False])
    monkeypatch.setattr(os, "pwrite", lambda *a: real(*a) if next(calls) else interrupted())
    with in_place.Append(file, version=source.version) as out:
        out.append(b"filters")
        out.append(b"footer")
        with pytest.raises(KeyboardInterrupt):
            out.commit()
    assert file.read_bytes() == old


SLOW = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
from parquet_bloom.__main__ import main
from parquet_bloom.storage import in_place
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.local_files import temporary_path
in_place._STEP = 50
real, calls = os.pwrite, []
def slow(*arguments):
    calls.append(arguments)
    if len(calls) >= 5:
        print("writing", flush=True)
        time.sleep(0.06)
    return real(*arguments)
os.pwrite = slow
sys.argv = ["parquet-bloom", "add", sys.argv[1], "-c", "id", "-c", "name", "--in-place"]
main()
"""


def test_ctrl_c_leaves_the_old_file_or_the_new_one(file: Path) -> None:
    old = file.read_bytes()
    process = subprocess.Popen([sys.executable, "-c", SLOW, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert file.read_bytes().startswith(old)
    assert statuses(recover(file)) == ["unchanged"]


# ---- kills -------------------------------------------------------------------------------

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
import parquet_bloom
from parquet_bloom import add
from parquet_bloom.storage import columns, in_place, local_files
from parquet_bloom.verbs import add_files
in_place._STEP = 100
folder = Path(sys.argv[1])
add([], "id")
def killing(name, at):
    real = getattr(os, name)
    def call(*arguments, **options):
        counted[0] += 1
        if counted[0] == at:
            if name == "pwrite":
                real(arguments[0], arguments[1][: at * 37 % 121], arguments[2])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, name, call)
at, killed = 0, True
while killed:
    at += 1
    path = folder / f"{at}.parquet"
    shutil.copy(folder / "x", path)
    shutil.copy(folder / "x.crc", folder / f".{at}.parquet.crc")
    if (child := os.fork()) == 0:
        counted = [0]
        for name in ("pwrite", "fsync", "utime", "unlink", "fstat"):
            killing(name, at)
        (row,) = add(path, ["id", "name"], in_place=True, keep_mtime=True, jobs=1).rows
        os._exit(row.status != "written")
    status = os.waitpid(child, 0)[1]
    killed = os.WIFSIGNALED(status)
assert status == 0
print(at)
"""


def test_killed_at_any_call_recover_gives_the_old_file_back_or_says_that_it_is_whole(tmp_path: Path) -> None:
    old = write(tmp_path / "x", 3000)
    (tmp_path / "x.crc").write_bytes(checksums(old))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, tmp_path],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    moments = int(ran.stdout)
    assert moments > 100
    new = (tmp_path / f"{moments}.parquet").read_bytes()
    cut = 0
    for number in range(1, moments + 1):
        path, side = tmp_path / f"{number}.parquet", tmp_path / f".{number}.parquet.crc"
        was = path.read_bytes()
        (row,) = recover(path).rows
        now = path.read_bytes()
        assert now == (was if row.status == "unchanged" else old)
        assert (row.status, row.size - row.bytes_cut) in {("written", len(old)), ("unchanged", len(was))}
        assert was in (old, new) if row.status == "unchanged" else old < was < new
        assert not side.exists() or side.read_bytes() == checksums(now)
        assert pq.read_table(path).num_rows == 3000
        cut += row.status == "written"
    assert cut > 50


@pytest.mark.engines
def test_a_finished_file_cut_off_at_every_length(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "x.parquet"
    old = write(path, 40)
    add(path, "id", in_place=True)
    new = path.read_bytes()
    for size in range(len(old), len(new)):
        path.write_bytes(new[:size])
        (row,) = recover(path).rows
        assert (row.status, row.bytes_cut) == ("written" if size > len(old) else "unchanged", size - len(old))
        assert path.read_bytes() == old
    assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(40,)]


# ---- recover -----------------------------------------------------------------------------


@pytest.fixture
def cut_off(file: Path) -> Path:
    add(file, "id", in_place=True)
    os.truncate(file, file.stat().st_size - 100)
    return file


def test_what_was_cut_back_and_may_not_be_on_the_disk_is_told(cut_off: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    size = cut_off.stat().st_size
    monkeypatch.setattr(os, "fsync", fail)
    assert "was cut back to its" in only_error(recover(cut_off))
    assert cut_off.stat().st_size < size


def test_a_dry_run_of_recover_changes_nothing(cut_off: Path) -> None:
    before = snapshot(cut_off.parent)
    (row,) = recover(cut_off, dry_run=True).rows
    assert (row.status, row.filters, row.bytes_cut > 100) == ("planned", 4, True)
    assert snapshot(cut_off.parent) == before


def test_what_is_not_understood_is_refused_and_the_others_are_done(cut_off: Path) -> None:
    folder = cut_off.parent
    write(folder / "whole.parquet")
    (folder / "junk.parquet").write_bytes(cut_off.read_bytes() + b"\n")
    (folder / "notes.txt").write_text("these are no rows at all")
    (folder / "unnamed").write_bytes(cut_off.read_bytes())
    before = snapshot(folder)
    recovered = recover(folder)
    assert {Path(row.path).name: row.status for row in recovered} == {
        "x.parquet": "written",
        "whole.parquet": "unchanged",
        "junk.parquet": "refused",
        "unnamed": "unchanged",
    }
    (row,) = recovered.errors
    assert row.error == "it ends in neither a footer nor an interrupted `add`"
    after = snapshot(folder)
    assert {name for name in before if before[name] != after[name]} == {"x.parquet"}
    assert [Path(row.path).name for row in recover(folder, any_name=True) if row.status == "written"] == ["unnamed"]
    with pytest.raises(parquet_bloom.CorruptFileError):
        recover(folder, strict=True)


def test_files_in_stores_are_never_cut(cut_off: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/recover/x.parquet", data := cut_off.read_bytes())
    assert "only local files" in only_error(recover("memory://recover/x.parquet"))
    assert memory.cat_file("/recover/x.parquet") == data


def test_on_the_command_line(cut_off: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["recover", str(cut_off), *arguments])

    ran = run("-n")
    assert ran.output.startswith(f"{cut_off}: would be cut back to what it was before `add`, by ")
    ran = run("--json")
    told = json.loads(ran.output)
    assert (ran.exit_code, told["status"], told["filters"]) == (0, "written", 4)
    ran = run()
    assert (ran.exit_code, ran.output) == (0, f"{cut_off}: whole, nothing to do\n")
    cut_off.write_bytes(cut_off.read_bytes()[:-3])
    ran = run()
    assert ran.exit_code == 2
    assert "refused: it ends in neither a footer nor an interrupted `add`" in ran.output
