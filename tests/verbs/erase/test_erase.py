"""What `erase` does to files, and what it refuses."""

from __future__ import annotations

import datetime
import errno
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake
from encrypted import encrypted
from files import (
    FIXTURES,
    fixture,
    footer_bytes,
    index_folder,
    only_error,
    opened,
    snapshot,
    statuses,
    with_footer,
    write,
)
from kinds import KINDS, with_filters, write_kind

from parquet_bloom import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    LiteralError,
    UnsupportedError,
    add,
    drop,
    erase,
    hudi,
    index,
    inspect,
    lookup,
    prune,
    verify,
)
from parquet_bloom.cli.commands import main
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage import local_files
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.folder import Folder
from parquet_bloom.values.arrays import plain_value
from parquet_bloom.values.encoding import decode_plain
from parquet_bloom.values.statistics import StatisticsReader


def ids(path: Path | str) -> list[int]:
    found: list[int] = pq.read_table(path)["id"].to_pylist()
    return found


# ---- what is written ---------------------------------------------------------------------


def test_row_groups_without_the_keys_are_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write(file, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    add(file, ["id", "name"])
    old, before = file.read_bytes(), opened(file)[1]
    (row,) = erase(file, "id", [3, 4, 700, 5000]).rows
    assert (row.status, row.rows_erased, row.bytes_before, row.bytes_written) == (
        *("written", 3, len(old)),
        file.stat().st_size,
    )
    assert (row.row_groups_copied, row.row_groups_rewritten, row.row_groups_dropped) == (2, 2, 0)
    new, after = file.read_bytes(), opened(file)[1]
    for number in (1, 3):
        (_, *was), (_, *now) = before.row_groups[number], after.row_groups[number]
        assert new[slice(*now)] == old[slice(*was)]
    assert ids(file) == [n for n in range(1000) if n not in (3, 4, 700)]
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == 997
    for number in range(4):
        group = metadata.row_group(number)
        assert group.sorting_columns == (pq.SortingColumn(0),)
        assert group.num_rows == {0: 248, 2: 249}.get(number, 250)
        assert all(group.column(c).has_offset_index and group.column(c).has_column_index for c in range(2))
    assert len(inspect(file).rows) == 8
    assert verify(file).is_sound
    assert [r.row_group for r in prune(file, "id = 251 OR name = 'name 000999'").kept_row_groups] == [1, 3]


def test_no_byte_of_a_key_is_left(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    secret = ["alice@example.com", "zoe@example.com"]  # the bounds
    names = [secret[0], *(f"m{i:05}@example.com" for i in range(98)), secret[1]]
    table = pa.table({"mail": names * 2, "n": range(200)})
    pq.write_table(table, file, row_group_size=100, compression="none", write_page_index=True)
    add(file, "mail")
    drop(file)
    add(file, "mail", fpp=0.5)
    assert erase(file, "mail", secret).rows_erased == 4
    data = file.read_bytes()
    assert not any(key.encode() in data for key in secret)
    assert data.count(b"m00000@example.com") > 0
    before = file.read_bytes()
    drop(file, restore=True)
    assert pq.read_table(file)["n"].to_pylist() == [n for n in range(200) if 0 < n % 100 < 99]
    assert len(file.read_bytes()) <= len(before)


def test_a_key_in_a_dictionary_alone_leaves_it(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1], pa.int32()), ["a-name", "b-name", "the-secret"])
    other = pa.DictionaryArray.from_arrays(pa.array([2, 2, 2, 2], pa.int32()), ["a-name", "b-name", "the-secret"])
    with pq.ParquetWriter(file, pa.schema([("name", names.type)]), compression="none", store_schema=False) as writer:
        writer.write_table(pa.table({"name": names}))
        writer.write_table(pa.table({"name": other}))
    assert file.read_bytes().count(b"the-secret") > 1
    (row,) = erase(file, "name", ["the-secret"]).rows
    assert (row.rows_erased, row.row_groups_rewritten, row.row_groups_dropped) == (4, 1, 1)
    assert b"the-secret" not in file.read_bytes()
    assert pq.read_table(file)["name"].to_pylist() == ["a-name", "b-name"] * 2


@pytest.mark.engines
def test_a_file_without_rows_goes_or_stays_empty(tmp_path: Path) -> None:
    import duckdb

    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", 20)
    (row,) = erase(tmp_path / "a.parquet", "id", range(20)).rows
    assert (row.status, row.rows_erased, row.row_groups_dropped, row.bytes_written) == ("removed", 20, 4, 0)
    (row,) = erase(tmp_path / "b.parquet", "id", range(20), keep_empty=True).rows
    assert (row.status, row.row_groups_dropped) == ("written", 4)
    assert [*snapshot(tmp_path)] == ["b.parquet"]
    assert pq.read_table(tmp_path / "b.parquet").equals(pa.table({"id": [1], "name": ["x"]}).slice(1))
    assert duckdb.sql(f"FROM '{tmp_path / 'b.parquet'}'").fetchall() == []
    assert statuses(erase(tmp_path, "id", range(20))) == ["unchanged"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", 100)
    pq.write_table(pa.table({"id": [500], "name": ["x"]}), tmp_path / "3.parquet")
    before = snapshot(tmp_path)
    planned = erase(tmp_path, "id", [1, 2, 500], dry_run=True)
    assert snapshot(tmp_path) == before
    done = erase(tmp_path, "id", [1, 2, 500])
    assert statuses(planned) == ["planned"] * 4
    assert statuses(done) == ["written"] * 3 + ["removed"]
    for plan, row in zip(planned, done, strict=True):
        assert (plan.rows_erased, plan.row_groups_rewritten) == (row.rows_erased, row.row_groups_rewritten)
        assert abs(plan.bytes_written - row.bytes_written) < 2000
    assert done.rows_erased == planned.rows_erased == 7


def test_files_without_the_keys_are_not_touched(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"id": range(100 * number, 100 * number + 100)}), tmp_path / f"{number}.parquet")
    before = {path.name: path.stat() for path in tmp_path.iterdir()}
    assert statuses(erase(tmp_path, "id", [150])) == ["unchanged", "written", "unchanged"]
    after = {path.name: path.stat() for path in tmp_path.iterdir()}
    assert [name for name in before if before[name] != after[name]] == ["1.parquet"]


def test_mode_links_and_checksums_are_kept(tmp_path: Path) -> None:
    import zlib

    file, link = tmp_path / "x.parquet", tmp_path / "link.parquet"
    write(file, 100)
    file.chmod(0o640)
    link.symlink_to(file)
    data = file.read_bytes()
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    (tmp_path / ".x.parquet.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)
    erase(link, "id", [3])
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    data = file.read_bytes()
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    assert (tmp_path / ".x.parquet.crc").read_bytes()[8:] == sums


def test_pandas_sees_as_many_rows_as_there_are(tmp_path: Path) -> None:
    import pandas as pd

    file = tmp_path / "x.parquet"
    pd.DataFrame({"id": range(10), "v": range(10)}).to_parquet(file)
    erase(file, "id", [3, 9])
    noted = json.loads(pq.read_metadata(file).metadata[b"pandas"])
    assert noted["index_columns"] == [{"kind": "range", "name": None, "start": 0, "stop": 8, "step": 1}]
    read = pd.read_parquet(file)
    assert read["id"].tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert read.index.tolist() == list(range(8))
    assert pq.read_schema(file).pandas_metadata["index_columns"] == noted["index_columns"]


# ---- types -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_kind_can_be_keys_and_keep_their_bounds(kind: str, tmp_path: Path) -> None:
    file = write_kind(tmp_path / "x.parquet", kind)
    footer = opened(file)[1]
    leaf = footer.leaves[1]
    plain = []
    for number in range(footer.num_row_groups):
        for array in ColumnChunks(opened(file)[0], footer).values(number, leaf, each=True):
            values = array.cast(pa.uint8()) if kind == "BOOLEAN" else array
            plain += (plain_value(values, at) for at in range(len(values)))
    gone = {b"\1"} if kind == "BOOLEAN" else {*plain[::97]}
    keys = [decode_plain(leaf, value) for value in gone]
    erased = erase(file, "v", keys, timezone="UTC")
    if kind == "INTERVAL" or kind.endswith("NANOS") or "60" in kind:
        assert statuses(erased) == ["refused"] or erased.rows_erased
        if erased.errors:
            return
    left = [at for at, value in enumerate(plain) if value not in gone]
    assert pq.read_table(file)["k"].to_pylist() == left
    new = opened(file)[1]
    reader = StatisticsReader(new.leaves[1])
    for number in range(new.num_row_groups):
        known = reader.read(new, number)
        was = StatisticsReader(leaf).read(footer, number)
        assert (known.low is None) == (was.low is None)
        if known.low is not None and was.low is not None:
            assert was.low <= known.low <= known.high <= was.high
    assert pq.read_table(file).schema == pq.read_table(write_kind(tmp_path / "y.parquet", kind)).schema
    assert erase(file, "v", keys, timezone="UTC").rows_erased == 0


def test_unsigned_integers_keep_bounds_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    values = [1, 2**31, 2**32 - 1, 7]
    halves = pa.array([-0.0, 1.5, -2.5, float("nan")], pa.float16())
    decimals = pa.array([Decimal("-1.5"), Decimal("2.25"), Decimal("-7"), Decimal("3")], pa.decimal128(20, 2))
    pq.write_table(pa.table({"u": pa.array(values, pa.uint32()), "h": halves, "d": decimals}), file)
    erase(file, "u", [7])
    group = pq.read_metadata(file).row_group(0)
    assert (group.column(0).statistics.min, group.column(0).statistics.max) == (1, 2**32 - 1)
    assert (group.column(1).statistics.min, group.column(1).statistics.max) == (b"\x00\xc1", b"\x00\x3e")  # -2.5, 1.5
    assert (group.column(2).statistics.min, group.column(2).statistics.max) == (Decimal(-7), Decimal("2.25"))


def test_zeros_nans_and_keys_that_are_text(tmp_path: Path) -> None:
    file, keys = tmp_path / "x.parquet", tmp_path / "keys.txt"
    nan = float("nan")

    def written(kind: Any) -> Path:
        pq.write_table(pa.table({"v": pa.array([0.0, -0.0, nan, 1.5, None], kind), "n": range(5)}), file)
        return file

    for kind in (pa.float32(), pa.float64()):
        assert erase(written(kind), "v", [0.0]).rows_erased == 2
        assert erase(written(kind), "v", [-0.0]).rows_erased == 2
        assert erase(written(kind), "v", [nan, 1.5]).rows_erased == 2
        assert pq.read_table(file)["n"].to_pylist() == [0, 1, 4]
        keys.write_text("1.5\n0\n")
        assert erase(written(kind), "v", keys).rows_erased == 3
    pq.write_table(pa.table({"id": [7, 8]}), file)
    keys.write_text("007\n")
    assert erase(file, "id", keys).rows_erased == 1


def test_a_key_of_which_engines_disagree_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"f": pa.array([0.1, 0.5], pa.float32())}), file)
    before = file.read_bytes()
    assert "engines disagree about which values it equals" in only_error(erase(file, "f", [0.1]))
    assert file.read_bytes() == before
    assert erase(file, "f", pa.array([0.1], pa.float32())).rows_erased == 1


def test_null_is_no_key(tmp_path: Path) -> None:
    import pandas as pd

    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [1, None]}), file)
    for keys in ([1, None], pa.array([None, 1]), pd.Series([1, None], dtype="Int64")):
        with pytest.raises(LiteralError, match="one of the keys is NULL"):
            erase(file, "id", keys)
    assert erase(file, "id", [1]).rows_erased == 1
    assert ids(file) == [None]


def test_keys_in_a_struct_and_not_in_a_list(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    rows = [{"a": {"b": {"id": i}}, "l": [i, i + 1]} if i % 3 else {"a": None, "l": []} for i in range(30)]
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=10)
    before = file.read_bytes()
    assert "column l.list.element has lists" in only_error(erase(file, "l.list.element", [4]))
    assert file.read_bytes() == before
    assert erase(file, "a.b.id", [4, 5, 29]).rows_erased == 3
    assert pq.read_table(file).to_pylist() == [row for i, row in enumerate(rows) if i not in (4, 5, 29)]


# ---- refused -----------------------------------------------------------------------------


def test_files_that_hold_the_keys_as_two_types_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 7]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1.0, 7.0]}), tmp_path / "b.parquet")
    before = snapshot(tmp_path)
    with pytest.raises(UnsupportedError, match="conflicting types"):
        erase(tmp_path, "id", [7])
    assert snapshot(tmp_path) == before


def test_tables_are_refused_in_one_sentence(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    before = snapshot(tmp_path)
    for path in (tmp_path / "t", *(tmp_path / "t").glob("*.parquet")):
        with pytest.raises(UnsupportedError, match="is a Delta table, whose files must not change"):
            erase(path, "id", [1])
    assert snapshot(tmp_path) == before


def test_what_cannot_be_written_again_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    plain = write(file, 100)
    key = b"k" * 16
    for data, said in (
        (encrypted(plain, key), "encrypted"),
        (encrypted(plain, key, columns=["name"], plain_footer=True), "the column is encrypted"),
        (encrypted(plain, key, columns=["id"], plain_footer=True), "signed"),
        (with_codec(plain, ttypes.CompressionCodec.LZO), "column id is compressed with LZO"),
    ):
        file.write_bytes(data)
        assert said in only_error(erase(file, "name", ["name 000003"]))
        assert snapshot(tmp_path) == {"x.parquet": data}


def with_codec(data: bytes, codec: int) -> bytes:
    """Returns a file whose `id` says that it is compressed otherwise."""
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for group in metadata.row_groups:
        group.columns[0].meta_data.codec = codec
    return with_footer(data, encode(metadata))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("BOOLEAN", "the filters of column v are not kept: parquet-java writes empty BOOLEAN filters"),
        ("INTERVAL", "the filters of column v are not kept: "),
        ("FLOAT16", "the filters of column v are not built again where row groups are rewritten: DuckDB hashes"),
        ("DECIMAL(60) FIXED(26)", "the filters of column v are not built again where row groups are rewritten: DuckDB"),
        ("INT64", None),
    ],
)
def test_filters_that_go_are_told(tmp_path: Path, kind: str, said: str | None) -> None:
    file, keys = tmp_path / "x.parquet", tmp_path / "keys.txt"
    bloom = SplitBlockBloomFilter(32)
    bloom.insert(bytes(8))
    with_filters(write_kind(tmp_path / "plain.parquet", kind), file, bloom, ["v"])
    keys.write_text("5")
    (planned,) = erase(file, "k", [5], dry_run=True)
    ran = CliRunner().invoke(main, ["erase", str(file), "-c", "k", "-k", str(keys), "--yes", "--json"])
    (done,) = map(json.loads, ran.output.splitlines())
    assert (done["status"], done["row_groups_rewritten"]) == ("written", 1)
    assert planned.notes == (*done["notes"],)
    assert len(planned.notes) == (said is not None)
    with_filter = {group.row_group for group in inspect(file, "v").rows}
    assert (0 in with_filter) == (said is None)
    if said is not None:
        assert planned.notes[0].startswith(said)


def test_filters_that_go_are_printed_below_their_file(tmp_path: Path) -> None:
    file, keys = tmp_path / "x.parquet", tmp_path / "keys.txt"
    bloom = SplitBlockBloomFilter(32)
    bloom.insert(bytes(8))
    with_filters(write_kind(tmp_path / "plain.parquet", "FLOAT16"), file, bloom, ["v"])
    keys.write_text("5")
    for how in ("--dry-run", "--yes"):
        ran = CliRunner().invoke(main, ["erase", str(file), "-c", "k", "-k", str(keys), how])
        first, second, *_ = ran.output.splitlines()
        assert first.startswith(f"{file}: 1 row ")
        assert second.startswith("  the filters of column v are not built again where row groups are rewritten: ")


def test_a_base_file_of_hudi_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"_hoodie_record_key": ["a", "b"], "id": [1, 2]}), file)
    hudi.add_filter(file, ndv=100)
    before = file.read_bytes()
    assert "the file is a base file of Hudi" in only_error(erase(file, "id", [1]))
    assert file.read_bytes() == before


def test_files_without_the_column_are_errors_and_the_others_are_done(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 10)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 nothing PAR1")
    erased = erase(tmp_path, "id", [3])
    assert statuses(erased) == ["written", "refused", "refused"]
    assert erased.rows_erased == 1
    assert len(erased.errors) == 2
    with pytest.raises(ColumnNotFoundError, match="no leaf column 'idd'; did you mean id"):
        erase(tmp_path / "a.parquet", "idd", [3])
    with pytest.raises(ColumnNotFoundError):
        erase(tmp_path, "id", [5], strict=True)
    assert len(ids(tmp_path / "a.parquet")) == 9


def test_a_file_that_changes_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.parquet"
    write(file, 100)
    real = local_files.Rewrite.commit

    def commit(self: Any) -> None:
        write(file, 50)
        real(self)

    monkeypatch.setattr(local_files.Rewrite, "commit", commit)
    assert "changed since it was read" in only_error(erase(file, "id", [3]))
    assert len(ids(file)) == 50
    assert [*snapshot(tmp_path)] == ["x.parquet"]
    with pytest.raises(ConcurrentChangeError):
        erase(file, "id", [3], strict=True)


# ---- the index ---------------------------------------------------------------------------


@pytest.mark.usefixtures("mtime_stable")
def test_an_index_above_the_files_forgets_the_old_ones(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / "lake" / "part" / f"{number}.parquet", 100 + 10 * number)
    index.create(tmp_path / "lake", ["id", "name"])
    old = {path.name for path in index_folder(tmp_path / "lake").iterdir()}
    erased = erase(tmp_path / "lake" / "part", "id", [105, 115])
    assert erased.errors == ()
    assert statuses(erased) == ["unchanged", "written", "written", "written"]
    left = {path.name for path in index_folder(tmp_path / "lake").iterdir()}
    assert not {name for name in left & old if "blocks" in name or name.endswith(".parquet")}
    state = index.show(tmp_path / "lake")
    assert [(row.files, row.files_missing) for row in state] == [(4, 0), (4, 0)]
    assert lookup(tmp_path / "lake", "id", [105]).to_arrow()["path"].to_pylist() == [None]
    for path in (tmp_path / "lake" / "part").iterdir():
        erase(path, "id", range(200))
    assert not index.show(tmp_path / "lake").exists
    assert [*snapshot(tmp_path / "lake")] == ["part"]


@pytest.mark.usefixtures("mtime_stable")
def test_a_large_part_of_an_index_forgets_one_file_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        pq.write_table(pa.table({"id": range(100 * number, 100 * number + 100)}), tmp_path / f"{number}.parquet")
    index.create(tmp_path, "id")
    old = {path.name for path in index_folder(tmp_path).iterdir()}
    monkeypatch.setattr("parquet_bloom.filters.index_versions.is_small", lambda segment: False)
    assert erase(tmp_path, "id", [5]).rows_erased == 1
    left = {path.name for path in index_folder(tmp_path).iterdir()}
    assert not {name for name in left & old if "blocks" in name or name.endswith(".parquet")}


@pytest.mark.usefixtures("mtime_stable")
def test_an_index_forgets_what_a_killed_run_had_left_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    write(tmp_path / "x.parquet", 100)
    index.create(tmp_path, "id")
    old = {path.name for path in index_folder(tmp_path).iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("parquet_bloom.verbs.erase.purge", killed)
        with pytest.raises(KeyboardInterrupt):
            erase(tmp_path, "id", [3])
    assert old == {path.name for path in index_folder(tmp_path).iterdir()}
    assert statuses(erase(tmp_path, "id", [3])) == ["unchanged"]
    assert not old & {path.name for path in index_folder(tmp_path).iterdir()}
    assert index.show(tmp_path).rows[0].files_missing == 0


@pytest.mark.usefixtures("mtime_stable")
def test_an_index_that_cannot_be_refreshed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "the index")

    write(tmp_path / "x.parquet", 100)
    index.create(tmp_path, "id")
    monkeypatch.setattr(Folder, "create", denied)
    erased = erase(tmp_path, "id", [3])
    assert erased.rows_erased == 1
    assert [error.path for error in erased.errors] == [f"{tmp_path}.bloom-index"]
    line = ["erase", str(tmp_path), "-c", "id", "-k", "/dev/null", "--yes"]
    ran = CliRunner().invoke(main, line)
    assert ran.exit_code == 2
    assert "not refreshed: " in ran.output


# ---- stores ------------------------------------------------------------------------------


def test_in_memory(tmp_path: Path) -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    write(tmp_path / "x.parquet", 1000)
    add(tmp_path / "x.parquet", "id")
    fs.pipe_file("/erase/x.parquet", (tmp_path / "x.parquet").read_bytes())
    fs.pipe_file("/erase/y.parquet", fixture("pyarrow/small.parquet"))
    erased = erase("memory://erase/x.parquet", "id", [3, 999])
    assert statuses(erased) == ["written"]
    assert pq.read_table(pa.BufferReader(fs.cat_file("/erase/x.parquet")))["id"].to_pylist() == [
        n for n in range(1000) if n not in (3, 999)
    ]
    assert verify("memory://erase/x.parquet").is_sound
    assert statuses(erase("memory://erase/x.parquet", "id", range(1000))) == ["removed"]
    assert not fs.exists("/erase/x.parquet")


# ---- readers -----------------------------------------------------------------------------


@pytest.mark.engines
@pytest.mark.parametrize("name", ["pyarrow/all_types", "spark/nested", "duckdb/all_types", "polars/uncompressed"])
def test_duckdb_and_polars_read_the_old_rows_without_the_keys(name: str, tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    file = tmp_path / "x.parquet"
    file.write_bytes((FIXTURES / f"{name}.parquet").read_bytes())
    (tmp_path / "old.parquet").write_bytes(file.read_bytes())
    keys = pa.table({"id": pq.read_table(file, columns=["id"])["id"].unique()}).slice(5, 20)
    left = duckdb.sql(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM '{tmp_path}/old.parquet' ANTI JOIN keys USING (id)")
    expected = sorted(left.fetchall())
    assert erase(file, "id", keys).rows_erased > 0
    found = duckdb.sql(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM '{file}'")
    assert sorted(found.fetchall()) == expected
    if name in ("pyarrow/all_types", "duckdb/all_types"):  # with types that Polars does not read
        return
    old = pl.read_parquet(tmp_path / "old.parquet")
    assert pl.read_parquet(file).equals(old.filter(~old["id"].is_in(pl.from_arrow(keys)["id"].implode())))


# ---- killed ------------------------------------------------------------------------------

KILLED = """
import os, sys, threading
from parquet_bloom import erase
erase(sys.argv[1], "id", [-1])  # what is imported late is imported now
threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), 9)).start()
erase(sys.argv[1], "id", range(0, 4000, 40), jobs=1)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("seconds", [0.01, 0.04, 0.08, 0.12])
def test_killed_and_run_again_the_end_is_the_same(seconds: float, tmp_path: Path) -> None:
    for number in range(8):
        rows = pa.table({"id": range(500 * number, 500 * number + 500)})
        pq.write_table(rows, tmp_path / f"{number}.parquet", row_group_size=100)
    expected = [n for n in range(4000) if n % 40]
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(seconds)], check=False)
    there = sorted(n for path in tmp_path.glob("*.parquet") for n in ids(path))
    assert set(expected) <= set(there) <= set(range(4000))
    erase(tmp_path, "id", range(0, 4000, 40))
    assert sorted(n for path in tmp_path.glob("*.parquet") for n in ids(path)) == expected
    assert {path.name for path in tmp_path.iterdir()} == {f"{number}.parquet" for number in range(8)}


# ---- the command line --------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    file, keys = tmp_path / "x.parquet", tmp_path / "keys.txt"
    write(file, 100)
    keys.write_text("3\n4\n")
    line = ["erase", str(file), "-c", "id", "-k", str(keys)]
    ran = CliRunner().invoke(main, line)
    assert ran.exit_code == 2
    assert "rows that are erased cannot be brought back; add --yes" in ran.output
    ran = CliRunner().invoke(main, [*line, "--dry-run"])
    assert re.search(r"2 rows would be erased; 3 row groups copied, 1 rewritten, about .* written", ran.output)
    assert len(ids(file)) == 100
    ran = CliRunner().invoke(main, [*line, "--yes", "--json"])
    assert (ran.exit_code, json.loads(ran.output)["rows_erased"]) == (0, 2)
    ran = CliRunner().invoke(main, [*line, "--yes"])
    assert (ran.exit_code, ran.output) == (0, "no row has one of the keys\n")
    keys.write_text("x\n")
    assert CliRunner().invoke(main, [*line, "--yes"]).exit_code == 2


def test_at_a_terminal_it_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, keys = tmp_path / "x.parquet", tmp_path / "keys.txt"
    write(file, 100)
    keys.write_text("3\n")
    monkeypatch.setattr("parquet_bloom.cli.commands.is_terminal", lambda stream: stream is sys.stdin)
    line = ["erase", str(file), "-c", "id", "-k", str(keys)]
    ran = CliRunner().invoke(main, line, input="n\n")
    assert ran.exit_code == 2
    assert "They cannot be brought back. [y/N]" in ran.output
    assert len(ids(file)) == 100
    assert CliRunner().invoke(main, line, input="y\n").exit_code == 0
    assert len(ids(file)) == 99


def test_a_day_is_a_key(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    pq.write_table(pa.table({"day": days, "at": pa.array(days).cast(pa.timestamp("us"))}), file)
    assert erase(file, "day", [days[1]]).rows_erased == 1
    assert erase(file, "at", [datetime.datetime(2024, 1, 3)]).rows_erased == 1
    assert pq.read_table(file)["day"].to_pylist() == days[:1]
