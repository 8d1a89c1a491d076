"""Whatever fails, and whenever: the table holds its rows, and new files that no snapshot holds are gone or named."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import lakes
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from files import snapshot, statuses, table

import parquet_bloom.verbs.changes as commits
from parquet_bloom import ConcurrentChangeError, UnsupportedError, prune
from parquet_bloom.cli.commands import main
from parquet_bloom.filters import build
from parquet_bloom.storage.local_files import temporary_path
from parquet_bloom.tables import FailedCommitError, UncheckedCommitError, UnknownOutcomeError
from parquet_bloom.tables.delta import OpenDelta
from parquet_bloom.tables.iceberg import OpenIceberg
from parquet_bloom.verbs.add_to_table import add_to_table


def data_files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: Any) -> None:
    monkeypatch.setattr(commits, "_LONGEST_PAUSE", 0)


def failing(delta: Any, error: BaseException, *, lands: bool = False, after: int = 0) -> Any:
    """Lets the commits of a handle fail, after so many that do not."""
    commit, count = delta.create_write_transaction, iter(range(1000))

    def fail(*arguments: Any, **options: Any) -> None:
        number = next(count)
        if number < after or lands:
            commit(*arguments, **options)
        if number >= after:
            raise error

    delta.create_write_transaction = fail
    return delta


@pytest.mark.parametrize("error", [OSError("disk full"), CommitFailedError("no"), RuntimeError("?")], ids=repr)
def test_a_delta_commit_that_fails(tmp_path: Path, error: Exception) -> None:
    delta = failing(lakes.delta(tmp_path), error)
    before = snapshot(tmp_path)
    with pytest.raises(FailedCommitError, match="nothing was committed"):
        add_to_table(delta, "id")
    assert snapshot(tmp_path) == before
    assert statuses(add_to_table(tmp_path, "id")) == ["written"] * 3


def test_a_failure_in_the_second_batch_keeps_the_first(tmp_path: Path) -> None:
    delta = failing(lakes.delta(tmp_path), OSError("disk full"), after=1)
    with pytest.raises(FailedCommitError):
        add_to_table(delta, "id", batch=1)
    found = DeltaTable(str(tmp_path))
    assert found.version() == 3
    assert len(data_files(tmp_path)) == 4
    assert lakes.delta_rows(tmp_path) == list(range(60))
    assert sorted(statuses(add_to_table(tmp_path, "id"))) == ["unchanged", "written", "written"]


def test_a_commit_that_reports_failure_and_is_there(tmp_path: Path) -> None:
    delta = failing(lakes.delta(tmp_path), OSError("no answer"), lands=True)
    assert statuses(add_to_table(delta, "id")) == ["written"] * 3
    assert lakes.delta_rows(tmp_path) == list(range(60))
    assert DeltaTable(str(tmp_path)).version() == 3


def test_what_an_interrupted_commit_may_have_made_is_kept_and_named(tmp_path: Path) -> None:
    delta = failing(lakes.delta(tmp_path), KeyboardInterrupt(), lands=True)
    with pytest.raises(KeyboardInterrupt) as caught:
        add_to_table(delta, "id")
    (note,) = caught.value.__notes__
    new = {path for path in data_files(tmp_path) if "-bloom-" in path}
    assert len(new) == 3
    assert all(path in note for path in new)
    assert lakes.delta_rows(tmp_path) == list(range(60))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_failure_while_files_are_written(tmp_path: Path, monkeypatch: Any, error: BaseException) -> None:
    delta = lakes.delta(tmp_path)
    before = snapshot(tmp_path)
    hash_array, count = build.hash_array, iter(range(1000))

    def fail(*arguments: Any) -> Any:
        if next(count) == 2:
            raise error
        return hash_array(*arguments)

    monkeypatch.setattr(build, "hash_array", fail)
    with pytest.raises(type(error)):
        add_to_table(delta, "id", jobs=1)
    assert snapshot(tmp_path) == before


def test_a_busy_table_is_given_up(tmp_path: Path, monkeypatch: Any) -> None:
    delta = lakes.delta(tmp_path)
    commit = delta.create_write_transaction

    def late(*arguments: Any, **options: Any) -> None:
        write_deltalake(str(tmp_path), table(1, 1000), mode="append")
        commit(*arguments, **options)

    delta.create_write_transaction = late
    monkeypatch.setattr(commits, "ATTEMPTS", 4)
    with pytest.raises(ConcurrentChangeError, match="nothing was committed"):
        add_to_table(delta, "id")
    assert len(data_files(tmp_path)) == 3 + 4
    assert not any("-bloom-" in path for path in data_files(tmp_path))
    assert DeltaTable(str(tmp_path)).version() == 2 + 4


def test_new_files_are_used_again_after_a_concurrent_append(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path)
    commit, calls = delta.create_write_transaction, []

    def once_late(*arguments: Any, **options: Any) -> None:
        if not calls:
            write_deltalake(str(tmp_path), table(5, 60), mode="append")
        calls.append([action.path for action in arguments[0]])
        commit(*arguments, **options)

    delta.create_write_transaction = once_late
    assert statuses(add_to_table(delta, "id")) == ["written"] * 3
    assert sorted(calls[0]) == sorted(calls[1])
    assert lakes.delta_rows(tmp_path) == list(range(65))


def test_files_that_were_taken_out_meanwhile_are_refused(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path)
    commit, calls = delta.create_write_transaction, []

    def once_late(*arguments: Any, **options: Any) -> None:
        if not calls:
            DeltaTable(str(tmp_path)).delete("id < 5")
        calls.append(arguments)
        commit(*arguments, **options)

    delta.create_write_transaction = once_late
    added = add_to_table(delta, "id")
    assert sorted(statuses(added)) == ["refused", "written", "written"]
    (refused,) = (row for row in added.rows if row.error)
    assert "removed the file from the table meanwhile; run again" in refused.error
    assert (refused.filters, refused.bytes_added) == ((), 0)
    assert lakes.delta_rows(tmp_path) == list(range(5, 60))
    assert {p for p in data_files(tmp_path) if "-bloom-" in p} == {r.output for r in added.rows if not r.error}


def test_an_iceberg_commit_that_is_refused(catalog: Any, monkeypatch: Any) -> None:
    from pyiceberg.exceptions import CommitFailedException

    made = lakes.iceberg(catalog, **{"commit.retry.num-retries": "0"})
    root = Path(made.location().removeprefix("file://"))
    before = snapshot(root)

    def fail(*arguments: Any) -> Any:
        raise CommitFailedException("another was faster")

    monkeypatch.setattr(commits, "ATTEMPTS", 3)
    with monkeypatch.context() as patch:
        patch.setattr(catalog, "commit_table", fail)
        with pytest.raises(ConcurrentChangeError, match="nothing was committed"):
            add_to_table(made, "id")
    assert snapshot(root) == before
    assert statuses(add_to_table(made, "id")) == ["written"] * 3


@pytest.mark.parametrize("lands", [False, True])
def test_an_iceberg_commit_of_unknown_outcome(catalog: Any, monkeypatch: Any, lands: bool) -> None:
    made = lakes.iceberg(catalog)
    root = Path(made.location().removeprefix("file://"))
    commit = catalog.commit_table

    def fail(*arguments: Any) -> Any:
        if lands:
            commit(*arguments)
        raise ConnectionError("no answer")

    monkeypatch.setattr(catalog, "commit_table", fail)
    if lands:
        assert statuses(add_to_table(made, "id")) == ["written"] * 3
    else:
        with pytest.raises(UnknownOutcomeError, match="whether the catalog has it is not known") as caught:
            add_to_table(made, "id")
        (note,) = caught.value.__notes__
        assert all(path in note for path in data_files(root) if "-bloom-" in path)
    monkeypatch.undo()
    assert lakes.iceberg_rows(made.refresh()) == list(range(60))


# ---- once a commit is in the table -------------------------------------------------------


@pytest.mark.parametrize("error", [UnsupportedError("?"), OSError("disk"), ConcurrentChangeError("?")], ids=repr)
@pytest.mark.parametrize("kind", ["Delta", "Iceberg"])
def test_what_is_committed_stays_if_it_cannot_be_checked(
    tmp_path: Path, catalog: Any, monkeypatch: Any, kind: str, error: Exception
) -> None:
    table = lakes.delta(tmp_path / "t") if kind == "Delta" else lakes.iceberg(catalog)
    opened = OpenDelta if kind == "Delta" else OpenIceberg
    read, count = opened._read, iter(range(1000))

    def fail(*arguments: Any) -> Any:
        if next(count) == 1:
            raise error
        return read(*arguments)

    monkeypatch.setattr(opened, "_read", fail)
    with pytest.raises(UncheckedCommitError, match=r"the commit is in .*; run again") as caught:
        add_to_table(table, "id")
    assert getattr(caught.value, "__notes__", []) == []
    rows = lakes.delta_rows(tmp_path / "t") if kind == "Delta" else lakes.iceberg_rows(table.refresh())
    assert rows == list(range(60))
    again = tmp_path / "t" if kind == "Delta" else table
    assert statuses(add_to_table(again, "id")) == ["unchanged"] * 3


def test_a_last_look_that_fails_says_that_the_commit_is_there(tmp_path: Path, monkeypatch: Any) -> None:
    delta = lakes.delta(tmp_path)

    def fail(*_: Any) -> Any:
        raise OSError("disk")

    monkeypatch.setattr(OpenDelta, "refresh", fail)
    with pytest.raises(UncheckedCommitError, match="the commit is in"):
        add_to_table(delta, "id")
    assert lakes.delta_rows(tmp_path) == list(range(60))


def test_the_command_names_the_files_of_a_commit_that_may_be_there(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path)

    def fail(*_: Any) -> None:
        raise UnknownOutcomeError("no answer")

    monkeypatch.setattr(OpenDelta, "commit", fail)
    ran = CliRunner().invoke(main, ["add", str(tmp_path), "--table", "-c", "id"])
    new = [path for path in data_files(tmp_path) if "-bloom-" in path]
    assert (ran.exit_code, len(new)) == (2, 3)
    assert all(path in ran.output for path in new)


def test_a_version_that_deltalake_does_not_see_is_an_error(tmp_path: Path) -> None:
    """As when one look at a file of the log fails, which deltalake takes for a file that is gone."""
    lakes.delta(tmp_path)
    before = data_files(tmp_path)
    (tmp_path / "_delta_log" / f"{9:020}.json").symlink_to("nowhere")
    with pytest.raises(OSError, match="does not see version 9"):
        add_to_table(tmp_path, "id")
    with pytest.raises(OSError, match="does not see version 9"):
        prune(tmp_path, "id = 1")
    assert data_files(tmp_path) == before


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    lakes.delta(tmp_path)
    (path, *_) = sorted(data_files(tmp_path))
    new = temporary_path(Path(path.replace(".parquet", "-bloom-0123abcd.parquet")))
    new.write_bytes(Path(path).read_bytes()[:100])
    theirs = new.with_name(".other.parquet")
    theirs.write_bytes(b"PAR1")
    with temporary_path(Path(path)).open("wb") as living:
        living.write(b"PAR1")
        living.flush()
        fcntl.flock(living, fcntl.LOCK_EX)
        assert statuses(add_to_table(tmp_path, "id")) == ["written"] * 3
        assert Path(living.name).exists()
    assert theirs.exists()
    assert not new.exists()
