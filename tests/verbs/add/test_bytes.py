"""The old file is a prefix of the new one, and can be had back byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, PYARROW_CANNOT, SOUND, fixture, footer_bytes, names, opened, statuses, write

from parquet_bloom import add, drop, hudi, inspect, verify
from parquet_bloom.format.splice import splice_filters, splice_key_values
from parquet_bloom.values.encoding import why_unbuildable


def columns(path: Path) -> list[str]:
    """The leaves of a file that can have a filter, and that pyarrow can decode."""
    name = path.relative_to(FIXTURES).as_posix() if path.is_relative_to(FIXTURES) else ""
    leaves = opened(path)[1].leaves
    return [leaf.name for leaf in leaves if not why_unbuildable(leaf) and leaf.name not in PYARROW_CANNOT.get(name, ())]


def rows(data: bytes, name: str) -> bytes:
    """Returns a file's schema and rows as a stream of Arrow's, in which a NaN equals itself and -0.0 is not 0.0."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        table = file.read([c for c in file.schema_arrow.names if c not in PYARROW_CANNOT.get(name, ())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


WITH_COLUMNS = [name for name in SOUND if columns(FIXTURES / name)]


@pytest.mark.parametrize("name", names(WITH_COLUMNS))
def test_the_old_file_is_a_prefix_and_both_hold_the_same_rows(name: str, tmp_path: Path) -> None:
    old, file = fixture(name), tmp_path / "x.parquet"
    wanted = columns(FIXTURES / name)
    file.write_bytes(old)
    (row,) = add(file, wanted, replace=True).rows
    new = file.read_bytes()
    assert row.status == ("written" if row.filters else "unchanged")
    assert new[: len(old)] == old
    assert len(new) - len(old) == row.bytes_added
    assert rows(new, name) == rows(new[: len(old)], name)
    assert verify(file, wanted).findings == ()


def all_dropped(data: bytes) -> bytes:
    """Returns the footer of a file without the filters' fields."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    chunks = [(g, c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)]
    return splice_filters(footer_bytes(data), dict.fromkeys(chunks))


@pytest.mark.parametrize("name", names(WITH_COLUMNS))
def test_add_then_drop_gives_the_original_footer(name: str, tmp_path: Path) -> None:
    old, file = fixture(name), tmp_path / "x.parquet"
    file.write_bytes(old)
    add(file, columns(FIXTURES / name), replace=True)
    added = file.read_bytes()
    drop(file)
    dropped = file.read_bytes()
    assert dropped[: len(added)] == added
    assert footer_bytes(dropped) == all_dropped(old)
    if not inspect(FIXTURES / name).rows:
        assert footer_bytes(dropped) == footer_bytes(old)
    assert inspect(file).rows == ()


@pytest.mark.parametrize("name", names(WITH_COLUMNS))
def test_restore_gives_the_original_file_after_anything(name: str, tmp_path: Path) -> None:
    old, file = fixture(name), tmp_path / "x.parquet"
    file.write_bytes(old)
    first, *others = columns(FIXTURES / name)
    add(file, first)
    add(file, [first, *others], replace=True, ndv=1)
    drop(file, first)
    add(file, [first, *others])
    drop(file)
    is_changed = file.read_bytes() != old
    assert statuses(drop(file, restore=True)) == ["written" if is_changed else "unchanged"]
    assert file.read_bytes() == old
    assert statuses(drop(file, restore=True)) == ["unchanged"]


def test_restore_counts_the_bytes_that_it_frees(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    old = write(file)
    add(file, ["id", "name"])
    size = file.stat().st_size
    (planned,) = drop(file, restore=True, dry_run=True).rows
    (done,) = drop(file, restore=True).rows
    assert planned.bytes_freed == done.bytes_freed == size - len(old)
    assert (planned.status, done.status, done.cleared) == ("planned", "written", 8)


def test_drop_tells_the_bytes_that_it_leaves(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write(file)
    (added,) = add(file, ["id", "name"]).rows
    (row,) = drop(file, "id").rows
    left = sum(f.length for f in added.filters if f.column == "id")
    assert (row.cleared, row.bytes_left) == (4, left)
    assert {f.column for f in inspect(file).rows} == {"name"}


def test_restore_sees_magic_bytes_in_filters_for_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    old = write(file)
    add(file, "id")
    new = file.read_bytes()
    footer = footer_bytes(new)
    # Bytes that end like a file, at every distance: no footer, a footer of other pages, and the magic alone.
    other = footer_bytes(write(tmp_path / "y.parquet", 500))
    decoys = b"PAR1" * 5 + b"\x04\0\0\0PAR1" + other + len(other).to_bytes(4, "little") + b"PAR1PAR"
    file.write_bytes(old[:-4] + b"XXXX" + decoys + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    before = file.read_bytes()
    assert statuses(drop(file, restore=True)) == ["unchanged"]
    assert file.read_bytes() == before


def test_restore_finds_the_end_wherever_a_scan_is_cut(tmp_path: Path, monkeypatch: Any) -> None:
    from parquet_bloom.format import restore

    file = tmp_path / "x.parquet"
    old = write(file)
    add(file, ["id", "name"])
    new = file.read_bytes()
    for step in (1, 2, 3, 4, 5, 64, 1000, 10**6):
        monkeypatch.setattr(restore, "_SCAN_STEP", step)
        file.write_bytes(new)
        drop(file, restore=True)
        assert file.read_bytes() == old


def with_entry(data: bytes, key: str) -> bytes:
    """Returns a file to which another program has appended a footer of its own, with another entry."""
    footer = splice_key_values(footer_bytes(data), {key: "theirs"})
    return data + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_restore_stops_at_the_work_of_another_program(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    old = write(file)
    add(file, "id")
    theirs = with_entry(file.read_bytes(), "their key")
    file.write_bytes(theirs)
    (row,) = drop(file, restore=True).rows
    assert (row.status, file.read_bytes()) == ("unchanged", theirs)
    assert row.notes == (
        f"another program changed the footer at byte {len(theirs):,}: that and everything before it is kept; "
        "all=True goes further back",
    )
    add(file, "name")
    (dropped,) = drop(file).rows
    (row,) = drop(file, restore=True).rows
    assert (row.status, file.read_bytes()) == ("written", theirs)
    assert (dropped.bytes_restorable, dropped.filters_back) == (row.bytes_freed, row.filters_back)
    assert row.filters_back == 4
    assert f"at byte {len(theirs):,}" in row.notes[0]
    (row,) = drop(file, restore=True, all=True, dry_run=True).rows
    assert (row.status, file.read_bytes()) == ("planned", theirs)
    (row,) = drop(file, restore=True, all=True).rows
    assert (row.status, row.cleared, file.read_bytes()) == ("written", 4, old)
    assert row.notes == (f"what another program changed in the footer at byte {len(theirs):,} was cut away, too",)


def test_restore_passes_hudis_entries_that_were_added_here(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"_hoodie_record_key": ["a", "b"]}), file)
    old = file.read_bytes()
    hudi.add_filter(file, ndv=10)
    add(file, "_hoodie_record_key")
    (row,) = drop(file, restore=True).rows
    assert (row.status, row.notes, file.read_bytes()) == ("written", (), old)


def test_all_is_for_restore(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it needs restore=True"):
        drop(tmp_path / "x.parquet", all=True)
