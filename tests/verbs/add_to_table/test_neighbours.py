"""Tables that others write: what becomes of their operations in flight, commits that are spaced, chosen partitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from files import statuses, table

from parquet_bloom import CorruptFileError, UnsupportedError, add, erase
from parquet_bloom.cli.commands import main
from parquet_bloom.tables import open_erasable
from parquet_bloom.tables.delta import OpenDelta
from parquet_bloom.verbs import changes
from parquet_bloom.verbs.chosen_partitions import ChosenPartitions

# ---- operations in flight ------------------------------------------------------------------

IN_FLIGHT: dict[str, Callable[[DeltaTable], Any]] = {
    "delete": lambda early: early.delete("id = 3"),
    "update": lambda early: early.update({"name": "'changed'"}, predicate="id = 3"),
    "merge": lambda early: (
        early.merge(table(2), "s.id = t.id", source_alias="s", target_alias="t").when_matched_update_all().execute()
    ),
}


@pytest.mark.parametrize("operation", IN_FLIGHT)
@pytest.mark.parametrize("verb", [add, erase])
def test_a_change_that_began_before_our_commit_fails_and_changes_nothing(
    verb: Any, operation: str, tmp_path: Path
) -> None:
    """What the page on tables says of deltalake."""
    lakes.delta(tmp_path, rows=10)
    early = DeltaTable(str(tmp_path))
    assert not verb(tmp_path, "id", *([[5]] if verb is erase else []), table=True).errors
    rows = lakes.delta_rows(tmp_path)
    with pytest.raises(CommitFailedError):
        IN_FLIGHT[operation](early)
    assert lakes.delta_rows(tmp_path) == rows
    IN_FLIGHT[operation](DeltaTable(str(tmp_path)))


def test_an_overwrite_that_began_before_a_swap_is_told_by_what_is_found_and_not_by_a_cause(
    tmp_path: Path, monkeypatch: Any
) -> None:
    lakes.delta(tmp_path, rows=10)
    early = DeltaTable(str(tmp_path))
    commit = OpenDelta.commit

    def overwritten_after(opened: Any, swaps: Any) -> Any:
        made = commit(opened, swaps)
        write_deltalake(early, table(7, first=100), mode="overwrite")
        return made

    monkeypatch.setattr(OpenDelta, "commit", overwritten_after)
    with pytest.raises(CorruptFileError) as raised:
        add(tmp_path, "id", table=True)
    assert lakes.delta_rows(tmp_path) == [*range(30), *range(100, 107)]  # each once, and all: upstream
    said = str(raised.value)
    assert "version 4, WRITE of another writer, was built before version 3" in said
    assert "of the 3 files that it removes, 3 had been replaced already" in said
    assert "3 files with 30 rows that took their places are live beside the 1 with 7 rows that it adds" in said
    assert "compare the rows of versions 3 and 4 before you restore or delete any" in said
    assert "twice" not in said


# ---- commits that are spaced -----------------------------------------------------------------


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(changes, "time", made)
    return made


def test_commits_are_spaced_and_nothing_else_waits(tmp_path: Path, clock: Clock) -> None:
    lakes.delta(tmp_path, files=4)
    assert set(statuses(add(tmp_path, "id", table=True, batch=1, max_commits_per_minute=4))) == {"written"}
    assert clock.slept == [15.0] * 3
    assert erase(tmp_path, "id", [3, 25, 45], table=True, batch=1, max_commits_per_minute=0.5).rows_erased == 3
    assert clock.slept[3:] == [120.0] * 2
    assert DeltaTable(str(tmp_path)).version() == 3 + 4 + 3
    add(tmp_path, "name", table=True, batch=1)
    assert len(clock.slept) == 5


def test_another_writer_may_commit_while_we_wait(tmp_path: Path, clock: Clock, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, files=3)
    number = iter(range(100))
    monkeypatch.setattr(
        clock, "sleep", lambda seconds: write_deltalake(tmp_path, table(1, first=1000 + next(number)), mode="append")
    )
    added = add(tmp_path, "id", table=True, batch=1, max_commits_per_minute=6)
    assert statuses(added) == ["written"] * 3
    assert lakes.delta_rows(tmp_path) == [*range(60), 1000, 1001]
    assert next(number) == 2  # nobody committed between the refresh and our commit, so none was tried again


def test_a_pace_that_is_none(tmp_path: Path) -> None:
    for verb in (add, lambda *args, **options: erase(*args, [1], **options)):
        for wrong in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="max_commits_per_minute= must be above 0"):
                verb(tmp_path, "id", table=True, max_commits_per_minute=wrong)
        for alone in ({"where": "p = 1"}, {"max_commits_per_minute": 1}):
            with pytest.raises(ValueError, match=f"{next(iter(alone))}= needs table=True"):
                verb(tmp_path, "id", **alone)


# ---- partitions that are chosen --------------------------------------------------------------


def parted(root: Path) -> Path:
    """Writes a table whose partitions have every number from 0 to 9."""
    rows = pa.concat_tables(
        pa.table(
            {
                "id": range(10),
                "p": pa.array([text] * 10, pa.string()),
                "n": pa.array([number] * 10, pa.int64()),
                "day": pa.array([date(2026, 1, number or 9)] * 10),
                "d": pa.array([Decimal(number or 0) / 2] * 10, pa.decimal128(10, 2)),
            }
        )
        for text, number in (("a", 1), ("b", 2), (None, 3), ("7", None))
    )
    write_deltalake(root, rows, partition_by=["p", "n", "day", "d"])
    return root


WHERE = {
    "p = 'a'": {1},
    "p <> 'a'": {2, None},
    "p IS NULL": {3},
    "p IS NULL OR n = 1": {1, 3},
    "n >= 2": {2, 3},
    "NOT (n >= 2)": {1},
    "n IN (1, 3)": {1, 3},
    "day >= '2026-01-02' AND day < '2026-01-05'": {2, 3},
    "d = 1.5": {3},
    "p = '07'": set(),
    "n IS NOT NULL": {1, 2, 3},
}


def touched(result: Any) -> set[int | None]:
    """Returns the partitions `n` of a result's files."""
    found = {row.path.partition("/n=")[2].partition("/")[0] for row in result.rows}
    return {None if text.startswith("__") else int(text) for text in found}


@pytest.mark.parametrize("where", WHERE)
def test_only_files_of_the_chosen_partitions_are_touched(where: str, tmp_path: Path) -> None:
    from_engine = pa.RecordBatchReader.from_stream(DeltaTable(str(parted(tmp_path))).scan(predicate=where)).read_all()
    assert set(from_engine["n"].to_pylist()) == WHERE[where]
    added = add(tmp_path, "id", table=True, where=where)
    assert (touched(added), set(statuses(added)) <= {"written"}) == (WHERE[where], True)
    erased = erase(tmp_path, "id", [3, 4], table=True, where=where)
    assert (touched(erased), erased.rows_erased) == (WHERE[where], 2 * len(WHERE[where]))
    left = pa.RecordBatchReader.from_stream(DeltaTable(str(tmp_path)).scan()).read_all().to_pylist()
    assert {row["n"] for row in left if row["id"] == 3} == {1, 2, 3, None} - WHERE[where]
    assert len(left) == 40 - 2 * len(WHERE[where])


def test_a_verdict_says_that_only_some_partitions_were_searched(tmp_path: Path) -> None:
    root, ledger = parted(tmp_path / "t"), tmp_path / "ledger.json"
    erased = erase(root, "id", [3], table=True, where="n = 2", ledger=ledger, ledger_keys="plain")
    assert erased.where == "n = 2"
    assert erased.notes[0] == "only the partitions where n = 2 were searched; others may still have rows with the keys"
    rows = json.loads(ledger.read_text())["rows"]
    assert [(row["rows_erased"], row["where"], row["held_by"]) for row in rows] == [(1, "n = 2", ["0"])]
    whole = erase(root, "id", [3], table=True)
    assert (whole.where, whole.rows_erased) == (None, 3)


@pytest.mark.parametrize("where", ["id = 1", "p = 'a' AND id = 1", "nowhere = 1", "n = 1 OR `p.q` = 1"])
def test_other_columns_are_refused_by_name(where: str, tmp_path: Path) -> None:
    parted(tmp_path)
    name = {"n = 1 OR `p.q` = 1": "`p.q`", "nowhere = 1": "nowhere"}.get(where, "id")
    for verb in (add, lambda *args, **options: erase(*args, [1], **options)):
        with pytest.raises(UnsupportedError, match=f"{name} is not a partition column of .*; the table has"):
            verb(tmp_path, "id", table=True, where=where)
    with pytest.raises(UnsupportedError):
        add(tmp_path, "id", table=True, where="upper(p) = 'A'")
    assert DeltaTable(str(tmp_path)).version() == 0


def test_a_file_whose_partition_value_is_not_known_is_left_alone_and_named(tmp_path: Path) -> None:
    parted(tmp_path)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    schema = next(action["metaData"] for action in actions if "metaData" in action)
    schema["schemaString"] = schema["schemaString"].replace('"p","type":"string"', '"p","type":"binary"')
    log.write_text("\n".join(map(json.dumps, actions)))
    added = add(tmp_path, "id", table=True, where="p IS NOT NULL")
    assert sorted(statuses(added)) == ["refused"] * 3
    assert all("partition values of p, a binary, cannot be read" in row.error for row in added.rows)
    erased = erase(tmp_path, "id", [3], table=True, where="p IS NOT NULL")
    assert (sorted(statuses(erased)), erased.rows_erased, len(erased.errors)) == (["refused"] * 3, 0, 3)
    with pytest.raises(UnsupportedError, match="partition values of p"):
        erase(tmp_path, "id", [3], table=True, where="p IS NOT NULL", strict=True)
    assert DeltaTable(str(tmp_path)).version() == 0


def test_a_partition_value_that_a_file_does_not_tell_is_not_known(tmp_path: Path) -> None:
    parted(tmp_path)
    snapshot = open_erasable(tmp_path, kind=None, catalog=None, storage_options=None).snapshot
    chosen = ChosenPartitions("p IS NOT NULL", snapshot, None)
    file = next(file for file in snapshot.files if chosen.holds(file))
    with pytest.raises(UnsupportedError, match="another name"):
        chosen.holds(replace(file, unread={"p": "it has another name there"}))


def test_an_iceberg_table_by_its_partitions(catalog: Any) -> None:
    opened = lakes.partitioned(catalog, pa.table({"id": range(40), "p": ["eu", "us", "us", "asia"] * 10}))
    assert len(add(opened, "id", table=True, where="p = 'us'").rows) == 1
    erased = erase(opened, "id", [1, 4], table=True, where="p IN ('us', 'asia')")
    assert erased.rows_erased == 1
    assert "streaming-skip-overwrite-snapshots=true" in erased.notes[1]
    assert lakes.iceberg_rows(opened.refresh()) == sorted({*range(40)} - {1})
    with pytest.raises(UnsupportedError, match="id is not a partition column"):
        add(opened, "id", table=True, where="id = 3")


def test_streams_that_need_an_option_are_named(tmp_path: Path) -> None:
    lakes.delta(tmp_path)
    assert erase(tmp_path, "id", [999], table=True).notes == ()  # no commit
    assert "skipChangeCommits=true" in erase(tmp_path, "id", [3], table=True).notes[0]


def test_both_doors_choose_alike(tmp_path: Path) -> None:
    parted(tmp_path)
    (tmp_path / "keys.txt").write_text("3\n")
    options = ["--table", "-c", "id", "--where", "n = 2", "--max-commits-per-minute", "60"]
    outcome = CliRunner().invoke(main, ["add", str(tmp_path), *options])
    assert (outcome.exit_code, "n=2" in outcome.output, "n=1" in outcome.output) == (0, True, False)
    outcome = CliRunner().invoke(main, ["erase", str(tmp_path), *options, "-k", str(tmp_path / "keys.txt"), "--yes"])
    assert outcome.exit_code == 0, outcome.output
    assert "only the partitions where n = 2 were searched" in outcome.output
    assert "skipChangeCommits=true" in outcome.output
    outcome = CliRunner().invoke(main, ["add", str(tmp_path), "-c", "id", "--where", "n = 2"])
    assert (outcome.exit_code, "--where needs --table" in outcome.output) == (2, True)
