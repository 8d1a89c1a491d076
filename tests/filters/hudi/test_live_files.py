"""The live files of Hudi tables, as Hudi itself has them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from parquet_bloom import (
    ColumnNotFoundError,
    CorruptFileError,
    UnsupportedError,
    add,
    index,
    inspect,
    lookup,
    prune,
)
from parquet_bloom.cli.commands import main
from parquet_bloom.filters import hudi as indexes
from parquet_bloom.filters.hudi import filter_of
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find, find_flat
from parquet_bloom.tables import Snapshot, live_sources, open_table, snapshot_of
from parquet_bloom.tables.hudi import _TRIES, LOG_ONLY, LOGS, _DataFile, _instant_of, _newer
from parquet_bloom.tables.hudi_properties import properties

COW = ["v6_cow", "v8_cow"]
MOR = ["v6_mor", "v8_mor"]
Unpack = Callable[[str], Any]


def snapshot(root: Path | str, as_of: int | str | None = None) -> Snapshot:
    found = snapshot_of(root, as_of=as_of)
    assert found is not None
    return found


def names(found: Snapshot) -> list[str]:
    return sorted(file.path.rpartition("/")[2] for file in found.files)


@pytest.mark.parametrize("name", [*COW, "v6_simple", "v6_virtual"])
def test_live_files_are_those_that_hudi_reads(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    found = snapshot(table.root)
    assert (found.kind, found.root, found.version) == ("Hudi", str(table.root), int(table.steps[-1]["instant"]))
    assert names(found) == table.steps[-1]["files"]
    assert all(file.not_excluded is None and not file.has_deletes for file in found.files)
    keys = sorted((row[0], row[2]) for row in table.steps[-1]["rows"])
    column = "id" if name == "v6_virtual" else indexes.RECORD_KEY
    read = [row for source in found.sources() for row in pq.read_table(source.path, columns=[column, "v"]).to_pylist()]
    assert sorted((row[column], row["v"]) for row in read) == keys
    assert [(source.path, source.size) for source in found.sources()] == [(f.path, f.size) for f in found.files]


@pytest.mark.parametrize("name", COW)
def test_every_earlier_instant(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    assert {step["operation"] for step in table.steps} == {"insert", "upsert", "delete", "insert_overwrite"}
    assert any("replacecommit" in path.name for path in (table.root / ".hoodie").rglob("*"))
    for step in table.steps:
        for as_of in (int(step["instant"]), step["instant"]):
            assert names(snapshot(table.root, as_of)) == step["files"]
    with pytest.raises(UnsupportedError, match="does not go back"):
        snapshot(table.root, int(table.steps[0]["instant"]) - 1)


@pytest.mark.parametrize("name", MOR)
def test_log_files_are_told_of(unpacked: Unpack, name: str) -> None:
    """Base files without newer rows are exact; every other row is in a group that nothing excludes."""
    table = unpacked(name)
    found = snapshot(table.root)
    base = [file for file in found.files if file.path.endswith(".parquet")]
    assert sorted(file.path.rpartition("/")[2] for file in base) == table.steps[-1]["files"]
    exact = {file.path.rpartition("/")[2] for file in base if file.not_excluded is None}
    assert {file.not_excluded for file in base if file.path.rpartition("/")[2] not in exact} == {LOGS}
    assert all(file.has_deletes == (file.not_excluded is not None) for file in found.files)
    groups = {file.path.rpartition("/")[2].lstrip(".").partition("_")[0] for file in found.files}
    assert {row[1].partition("_")[0] for row in table.steps[-1]["rows"]} <= groups
    stored = {row["v"] for file in base for row in pq.read_table(file.path, columns=["v"]).to_pylist()}
    newer = [row for row in table.steps[-1]["rows"] if row[2] not in stored]
    assert newer
    in_exact = {
        row[indexes.RECORD_KEY]
        for file in base
        if not file.not_excluded
        for row in pq.read_table(file.path).to_pylist()
    }
    assert in_exact == {row[0] for row in table.steps[-1]["rows"] if row[1] in exact}


@pytest.mark.parametrize("name", ["v6_compacted", "v8_compacted"])
def test_log_files_that_were_compacted_say_nothing(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    logs = [path.name for path in table.root.iterdir() if ".log." in path.name]
    assert logs
    (file,) = snapshot(table.root).files
    assert (file.recorded, file.not_excluded, file.has_deletes) == (table.steps[-1]["files"][0], None, False)
    assert {row[1] for row in table.steps[-1]["rows"]} == {file.recorded}
    (before,) = snapshot(table.root, table.steps[1]["instant"]).files
    assert ([before.recorded], before.not_excluded) == (table.steps[1]["files"], LOGS)


@pytest.mark.parametrize("name", MOR)
def test_groups_of_log_files_alone_are_kept(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    group = next(file for file in snapshot(table.root).files if file.not_excluded == LOGS)
    stem = group.path.rpartition("/")[2].partition("_")[0]
    timeline = table.root / ".hoodie" / ("timeline" if name.startswith("v8") else "")
    first = min(path for path in timeline.glob("*.deltacommit"))
    first.rename(table.root / "away")  # what it wrote is from before the timeline now
    Path(group.path).unlink()
    kept = [file for file in snapshot(table.root).files if stem in file.path]
    assert kept
    assert {file.not_excluded for file in kept} == {LOG_ONLY}
    answer = prune(table.root, "v = -1")
    whole = [file for file in answer.all_files if stem in file.path]
    assert len(whole) == len(kept)
    assert all(file.is_kept for file in whole)


@pytest.mark.parametrize("name", ["v6_cow", "v8_cow", "v6_simple", "v6_mor", "v8_mor", "v8_compacted"])
def test_every_base_file_has_the_filter_that_we_build(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    num_rows, num_keys = set(), []
    assert table.files()
    for source in find(table.files()):
        footer = run(source, read_footer(source.size))
        keys = pq.read_table(source.path, columns=[indexes.RECORD_KEY])[indexes.RECORD_KEY].to_pylist()
        kind = "SIMPLE" if name == "v6_simple" else "DYNAMIC_V0"
        ours = indexes.build(keys, type=kind, num_entries=20, fpp=0.0001, max_entries=40)
        theirs = footer.key_values
        assert ours.items() <= theirs.items()
        assert (indexes.TYPE_CODE in theirs) == (indexes.TYPE_CODE in ours)
        found = filter_of(footer)
        assert found is not None
        assert found.format == f"Hudi {kind}"
        assert found.might_contain(keys) == b"\1" * len(keys)
        assert found.describe().num_bytes == sum(len(row.bits) for row in found.filter.rows)
        num_rows.add(len(found.filter.rows))
        num_keys.append(len(keys))
    assert num_rows == ({1} if kind == "SIMPLE" or not name.endswith("cow") else {1, 2})
    assert (max(num_keys) > 40) == name.endswith("cow")  # the bound: from there on keys go round the rows


@pytest.mark.parametrize("name", COW)
def test_the_file_that_holds_a_key_is_never_excluded(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    every = sorted({row[0] for step in table.steps for row in step["rows"]})
    for step in table.steps:
        holds = {(row[0], row[1]) for row in step["rows"]}
        excluded = 0
        for source in snapshot(table.root, step["instant"]).sources():
            found = filter_of(run(source, read_footer(source.size)))
            assert found is not None
            for key, maybe in zip(every, found.might_contain(every), strict=True):
                excluded += not maybe
                assert maybe or (key, source.path.rpartition("/")[2]) not in holds
        assert excluded > 0.9 * (len(every) * len(step["files"]) - len(holds))


def test_files_without_record_keys_have_no_filter(unpacked: Unpack) -> None:
    table = unpacked("v6_virtual")
    for source in find(table.files()):
        footer = run(source, read_footer(source.size))
        assert filter_of(footer) is None
        assert pq.read_table(source.path)["v"].null_count == 0


@pytest.mark.parametrize("name", COW)
def test_prune_reads_the_live_files_alone(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    sources, found = live_sources(table.root)
    assert found is not None
    assert len(sources) == len(found.files) < len(table.files())
    _, file, value = table.steps[-1]["rows"][0]
    answer = prune(table.root, f"v = {value}")
    assert {kept.path.rpartition("/")[2] for kept in answer.all_files} == set(names(found))
    assert file in {kept.path.rpartition("/")[2] for kept in answer.kept_files}
    before = prune(table.root, f"v = {value}", as_of=table.steps[0]["instant"])
    assert {kept.path.rpartition("/")[2] for kept in before.all_files} == set(table.steps[0]["files"])


@pytest.mark.parametrize("name", ["v6_cow", "v8_mor"])
def test_any_store(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    store = fsspec.filesystem("memory")
    try:
        store.put(str(table.root), f"/lake/{name}", recursive=True)
        local, remote = snapshot(table.root), snapshot(f"memory://lake/{name}")
        assert [(f.recorded, f.size, f.not_excluded) for f in remote.files] == [
            (f.recorded, f.size, f.not_excluded) for f in local.files
        ]
        assert {source.path for source in remote.sources()} == {f"/lake/{name}/{f.recorded}" for f in local.files}
    finally:
        store.rm("/lake", recursive=True)


# ---- what is not there, or not known -------------------------------------------------------


def test_nothing_is_committed(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    with pytest.raises(UnsupportedError, match="is a Hudi table, and those are never committed to"):
        open_table(table.root)
    with pytest.raises(UnsupportedError, match="is a Hudi table"):
        add(table.root, "v", table=True)
    with pytest.raises(FileNotFoundError):
        snapshot_of(table.root, kind="delta")
    assert snapshot_of(table.root, kind="hudi") == snapshot(table.root)


def test_a_write_that_is_not_completed_does_not_count(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    last = table.steps[-1]["instant"]
    (table.root / ".hoodie" / f"{last}.commit").rename(table.root / ".hoodie" / f"{last}.commit.requested")
    assert names(snapshot(table.root)) == table.steps[-2]["files"]


def test_a_write_before_the_newest_that_is_not_completed_does_not_count_either(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    first, second, third = table.steps[:3]
    commit = table.root / ".hoodie" / f"{second['instant']}.commit"
    commit.rename(commit.with_suffix(".commit.requested"))
    of_third = [file for file in third["files"] if third["instant"] in file]
    assert names(snapshot(table.root, third["instant"])) == sorted([*first["files"], *of_third])


@pytest.mark.parametrize(
    ("instant", "completed", "is_new", "is_newer"),
    [
        ("100", "150", True, False),  # before the base file was begun
        ("100", "300", True, True),
        ("100", None, True, True),
        ("300", "350", True, True),
        ("400", "450", True, False),  # after what is asked for
        ("100", None, False, False),
        ("200", None, False, True),
        ("400", None, False, False),
    ],
)
def test_log_files_that_may_hold_newer_rows(instant: str, completed: str | None, is_new: bool, is_newer: bool) -> None:
    log, base = _DataFile("x.log", instant, 1), _DataFile("x.parquet", "200", 1, "parquet")
    instants = {} if completed is None and is_new else {instant: completed}
    assert _newer([log], [base], instants, "300", is_new) == ([log] if is_newer else [])


def test_what_is_older_than_the_timeline_counts(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    for step in table.steps[:3]:
        (table.root / ".hoodie" / f"{step['instant']}.commit").unlink()
    assert names(snapshot(table.root, table.steps[3]["instant"])) == table.steps[3]["files"]
    assert names(snapshot(table.root)) == table.steps[-1]["files"]


def test_what_is_between_a_savepoint_and_the_timeline_counts(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    folder = table.root / ".hoodie"
    (folder / f"{table.steps[0]['instant']}.savepoint").write_bytes(b"")
    for step in table.steps[1:3]:
        (folder / f"{step['instant']}.commit").unlink()
    assert names(snapshot(table.root, table.steps[3]["instant"])) == table.steps[3]["files"]


def test_a_file_that_is_gone_is_an_error_and_not_an_older_one(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    newest = snapshot(table.root).files[0]
    Path(newest.path).unlink()
    with pytest.raises(CorruptFileError, match="does not exist"):
        snapshot(table.root)


def test_leftovers_of_tries_are_passed_over_where_the_timeline_knows_better(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    live = Path(snapshot(table.root).files[0].path)
    group, token, instant = live.name.split("_")
    other = live.with_name(f"{group}_9{token}_{instant}")
    shutil.copy(live, other)
    assert other.name not in names(snapshot(table.root))
    timeline = table.root / ".hoodie"
    (timeline / f"{table.steps[-1]['instant']}.commit").write_text("{}", "utf-8")
    found = [file for file in snapshot(table.root).files if Path(file.path).name in (live.name, other.name)]
    assert [file.unreadable for file in found] == [_TRIES, _TRIES]


def test_files_that_only_the_timeline_names_are_refused(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    commit = table.root / ".hoodie" / f"{table.steps[0]['instant']}.commit"
    commit.write_text(commit.read_text("utf-8").replace(table.steps[0]["files"][0], "part-0.parquet"), "utf-8")
    with pytest.raises(UnsupportedError, match=r"files that Hudi did not write, such as part-0\.parquet"):
        snapshot(table.root)


def test_files_of_other_names_are_refused(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    debris = ["p0/._x.parquet", "__MACOSX/x.parquet", ".hoodie/.temp/x.parquet", "p0/_SUCCESS", "p0/notes.txt"]
    for name in debris:
        (table.root / name).parent.mkdir(exist_ok=True)
        (table.root / name).write_bytes(b"")
    assert names(snapshot(table.root)) == table.steps[-1]["files"]
    (table.root / "p0" / "part-0.parquet").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="not named as Hudi names"):
        snapshot(table.root)


@pytest.mark.parametrize("name", [*COW, "v8_compacted"])
def test_an_index_beside_a_table_is_no_part_of_it(unpacked: Unpack, name: str) -> None:
    table = unpacked(name)
    before, files = snapshot(table.root), sorted(table.root.rglob("*"))
    index.create(table.root, indexes.RECORD_KEY)
    index.refresh(table.root)
    assert snapshot(table.root) == before
    key, file, _ = table.steps[-1]["rows"][0]
    hits = list(lookup(table.root, indexes.RECORD_KEY, [key, "key-nowhere"]))
    assert {path and path.rpartition("/")[2] for batch in hits for path in batch["path"].to_pylist()} == {file, None}
    index.drop(table.root)
    assert sorted(table.root.rglob("*")) == files


def test_base_files_of_other_kinds_are_never_excluded(unpacked: Unpack) -> None:
    table = unpacked("v6_cow")
    timeline = table.root / ".hoodie"
    live = Path(snapshot(table.root).files[0].path)
    for path in timeline.glob("*commit"):
        path.write_text(path.read_text("utf-8").replace(live.name, f"{live.stem}.orc"), "utf-8")
    live.rename(live.with_suffix(".orc"))
    found = {file.path.rpartition(".")[2]: file.not_excluded for file in snapshot(table.root).files}
    assert found == {"orc": "its base file is orc, not Parquet", "parquet": None}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hoodie.table.version=10", "version 10, which is not supported"),
        (f"hoodie.table.version={'9' * 5000}", "which is not supported"),
        ("hoodie.table.version=", "which is not supported"),
        ("hoodie.timeline.layout.version=x", "layout x"),
        ("hoodie.table.version=six", "version six"),
        ("hoodie.timeline.layout.version=3", "layout 3"),
    ],
)
def test_tables_of_the_future(unpacked: Unpack, line: str, says: str) -> None:
    table = unpacked("v8_cow")
    path = table.root / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(UnsupportedError, match=says):
        snapshot(table.root)


@pytest.mark.parametrize("damage", [b"{", b"Obj\x01", b"[1]", b'{"partitionToWriteStats": {"p0": [1]}}'])
def test_a_damaged_timeline_is_an_error(unpacked: Unpack, damage: bytes) -> None:
    table = unpacked("v8_cow")
    path = max((table.root / ".hoodie" / "timeline").glob("*.commit"))
    path.write_bytes(damage)
    with pytest.raises(CorruptFileError, match=f"{path.name} cannot be read"):
        snapshot(table.root)


@pytest.mark.parametrize("name", [*COW, "v8_mor"])
def test_a_timeline_that_is_cut_or_changed_is_an_error_or_keeps_every_live_file(unpacked: Unpack, name: str) -> None:
    table, dice = unpacked(name), random.Random(1)
    live = {file.recorded for file in snapshot(table.root).files}
    folder = table.root / ".hoodie" / ("timeline" if name.startswith("v8") else "")
    path = max(folder.glob("*commit"))
    data = path.read_bytes()
    changed = [data[: dice.randrange(len(data))] for _ in range(30)] + [b""]
    for _ in range(30):
        at = dice.randrange(len(data))
        changed.append(data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :])
    # A field's name in Avro's own schema of the file, of which its reader has errors of their own.
    changed += [data.replace(b'"name"', b'"nome"', 1)] if name.startswith("v8") else []
    errors = 0
    for each in changed:
        path.write_bytes(each)
        try:
            assert live <= {file.recorded for file in snapshot(table.root).files}
        except (CorruptFileError, UnsupportedError):
            errors += 1
    assert errors > 30


def test_properties_without_a_table_are_an_error(unpacked: Unpack, tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    for spoil in (lambda: None, properties.mkdir):
        spoil()
        with pytest.raises(FileNotFoundError, match=r"no \.hoodie/hoodie\.properties"):
            snapshot_of(tmp_path)
    table = unpacked("v6_mor")
    properties = table.root / ".hoodie" / "hoodie.properties"
    for data in (b"", bytes(range(256)), properties.read_bytes()[:60]):
        properties.write_bytes(data)
        with pytest.raises(CorruptFileError, match="does not name the table"):
            prune(table.root, "v = 1")
    shutil.rmtree(table.root / ".hoodie")
    (table.root / ".hoodie").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="is not a Hudi table"):
        prune(table.root, "v = 1")


def test_columns_that_a_table_leaves_empty_are_not_asked(unpacked: Unpack) -> None:
    """Without meta fields every record key is NULL in the files, which would prove all keys to be absent."""
    table = unpacked("v6_virtual")
    key = table.steps[-1]["rows"][0][0]
    with pytest.raises(
        ColumnNotFoundError, match="'_hoodie_record_key'; the table does not store its values in the files"
    ):
        lookup(table.root, indexes.RECORD_KEY, [key])
    for where in (f"{indexes.RECORD_KEY} = '{key}'", "_hoodie_file_name = 'x'"):
        with pytest.raises(ColumnNotFoundError):
            prune(table.root, where)
    hits = lookup(table.root, "id", [key]).to_arrow().to_pylist()
    with_key = {file.path for file in snapshot(table.root).files if key in pq.read_table(file.path)["id"].to_pylist()}
    assert with_key
    assert with_key <= {row["path"] for row in hits}
    assert prune(table.root, f"id = '{key}'").kept_files


def test_a_table_that_may_not_be_read_is_an_error(unpacked: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    table = unpacked("v8_cow")

    def denied(path: Any, *rest: Any, **options: Any) -> Any:
        if "/.hoodie/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *rest, **options)

    stat = os.stat
    monkeypatch.setattr(os, "stat", denied)
    result = CliRunner().invoke(main, ["prune", str(table.root), "--where", "v = 1"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "Permission denied" in result.stderr


def test_folders_with_log_files_are_refused_where_the_table_is_not_named(unpacked: Unpack) -> None:
    tables = [unpacked(name).root for name in ("v6_mor", "v8_mor", "v8_cow")]
    store = fsspec.filesystem("memory")
    says = "has log files of a Hudi table, whose rows are not in any Parquet file"
    try:
        store.put(str(tables[0]), "/lake/mor", recursive=True)
        refused: list[tuple[Any, dict[str, Any]]] = [
            *((tables[0] / "p0", {}), (f"{tables[0]}/p*", {}), (tables[:2], {}), ([tables[2], tables[1] / "p1"], {})),
            *((tables[0], {"filesystem": fsspec.filesystem("file")}), ("/lake/mor", {"filesystem": store})),
            *(("memory://lake/mor/p0", {}), (["memory://lake/mor/p0", "memory://lake/mor/p1"], {})),
        ]
        for paths, options in refused:
            with pytest.raises(UnsupportedError, match=says):
                prune(paths, "v = 1", **options)
            with pytest.raises(UnsupportedError, match=says):
                lookup(paths, indexes.RECORD_KEY, ["key-1"], **options)
            with pytest.raises(UnsupportedError, match=says):
                find_flat([f"{tables[0]}/p0"] if options else ["memory://lake/mor/p0"])
    finally:
        store.rm("/lake", recursive=True)
    assert prune(tables[2] / "p0", "v = 1").all_files
    assert prune([file.path for file in snapshot(tables[0]).files], "v = 1").all_files
    assert inspect(tables[0]).files


def test_what_is_archived_in_the_new_layout_counts(unpacked: Unpack) -> None:
    table = unpacked("v8_cow")
    timeline = table.root / ".hoodie" / "timeline"
    (timeline / "history").mkdir(exist_ok=True)
    for step in table.steps[:3]:
        for path in timeline.glob(f"{step['instant']}*"):
            path.rename(timeline / "history" / path.name)
    assert names(snapshot(table.root, table.steps[3]["instant"])) == table.steps[3]["files"]
    assert names(snapshot(table.root)) == table.steps[-1]["files"]


def test_a_table_without_a_commit_has_no_files(unpacked: Unpack) -> None:
    table = unpacked("v8_cow")
    shutil.rmtree(table.root / ".hoodie" / "timeline")
    with pytest.raises(UnsupportedError, match="no completed write in its timeline"):
        snapshot(table.root)
    for path in table.files():
        path.unlink()
    found = snapshot(table.root)
    assert (found.version, found.files, found.sources()) == (None, (), [])


def test_times(unpacked: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _instant_of("2026-01-31T12:00:00.123456", "UTC") == "20260131120000123"
    assert _instant_of("2026-01-31T12:00+02:00", "utc") == "20260131100000000"
    assert _instant_of(20260131120000, "UTC") == "20260131120000999"
    for wrong in ("1", 7, "tomorrow"):
        with pytest.raises(ValueError, match=r"not an instant|neither a version"):
            _instant_of(wrong, "UTC")
    table = unpacked("v6_cow")
    instant = table.steps[2]["instant"]
    properties = table.root / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text("utf-8").replace("timezone=LOCAL", "timezone=UTC"), "utf-8")
    day, clock = f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}", f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"
    found = snapshot(table.root, f"{day}T{clock}.{instant[14:]}")
    assert (found.version, names(found)) == (int(instant), table.steps[2]["files"])


def test_properties_are_javas() -> None:
    text = "#c=1\n!d=2\na.b = c\\:d\\=e\n  f:g\nh\n\ni=\n"
    assert properties(text) == {"a.b": "c:d=e", "f": "g", "h": "", "i": ""}


def test_without_fastavro_the_error_says_so(unpacked: Unpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(UnsupportedError, match=r"parquet-bloom\[hudi\]"):
        snapshot(unpacked("v8_cow").root)
    assert snapshot(unpacked("v6_cow").root).files
