"""What `prune` returns, as text, numbers and tables; and that whatever the bytes, it returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import CorruptFileError, PredicateError
from parquet_bloom.predicates.tree import MAX_DEPTH, And, Or, col
from parquet_bloom.verbs.prune import prune


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two days of two row groups each, an empty row group, and a file that is none."""
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        folder = Path(f"day={day}")
        folder.mkdir()
        table = pa.table({"id": [day * 10, day * 10 + 1, day * 10 + 5, day * 10 + 6], "name": ["a", "b", "c", "d"]})
        pq.write_table(table, folder / "f.parquet", row_group_size=2, compression="none")
        parquet_bloom.add(folder, ["name"], fpp=0.0001)
    with pq.ParquetWriter("empty.parquet", table.schema) as writer:
        writer.write_table(table[:0])
    Path("none.parquet").write_bytes(b"no Parquet at all")
    return Path()


def test_explain(lake: Path) -> None:
    text = prune(lake, "(day = 1 OR id < 0) AND id >= 15 AND name IN ('b', 'zz')").explain()
    assert text.splitlines() == [
        "where (day = 1 OR id < 0) AND id >= 15 AND name IN ('b', 'zz')",
        "./empty.parquet: skip",
        "  row group 0: skip, by statistics: it holds no rows",
        "./none.parquet: keep",
        "  not pruned: not a whole Parquet file: it does not end in PAR1 (at byte 13)",
        "./day=1/f.parquet: skip",
        "  row group 0: skip, by statistics: the maximum of id is too low",
        "  row group 1: skip, by statistics: the value is outside the min-max range of name",
        "./day=2/f.parquet: skip",
        "  row group 0: skip, by partition: partition day is 2",
        "  row group 1: skip, by partition: partition day is 2",
    ]


def test_every_kind_of_proof(lake: Path) -> None:
    def proofs(where: Any) -> list[str]:
        return [group.by for group in prune("day=1", where).rows]

    assert proofs("id > 100") == ["statistics", "statistics"]
    assert proofs("name = 'aa'") == ["filter", "statistics"]
    assert [group.by for group in prune(".", "day = 3").rows] == ["statistics", "", *["partition"] * 4]
    assert proofs("id = 1.5") == ["type", "type"]
    assert proofs("false") == ["type", "type"]
    assert proofs(col("id").isin([])) == ["type", "type"]
    assert proofs("id = 10") == ["", "statistics"]
    assert proofs("upper(name) = 'A'") == ["", ""]


def test_a_file_is_kept_for_one_of_its_row_groups(lake: Path) -> None:
    assert prune("day=1", "id = 10").might_match  # before anybody asks for the row groups
    assert prune("day=1", "id = 15").might_match
    assert not prune("day=1", "id = 12").might_match


def test_totals_add_up(lake: Path) -> None:
    pruning = prune(lake, "name = 'aa' OR id = 26")
    totals = pruning.totals
    assert (totals.files, totals.files_kept, totals.files_not_pruned) == (4, 2, 1)
    assert (totals.row_groups, totals.row_groups_kept) == (5, 1)
    assert (totals.row_groups_by_statistics, totals.row_groups_by_filters) == (2, 2)
    assert totals.row_groups == totals.row_groups_kept + totals.row_groups_by_statistics + totals.row_groups_by_filters
    assert totals.rows_kept == 2
    unread, groups = pruning.rows[1], [row for row in pruning.rows if row.row_group is not None]
    assert (unread.path, unread.row_group, unread.num_rows) == ("./none.parquet", None, None)
    sizes = {(g.path, g.row_group): g.stop - g.start for g in groups}
    assert totals.bytes == sum(sizes.values())
    assert totals.bytes_kept == sizes["./day=2/f.parquet", 1]
    for group in groups[1:]:
        metadata = pq.read_metadata(group.path).row_group(group.row_group)
        chunks = [metadata.column(i) for i in range(metadata.num_columns)]
        assert group.start == min(c.dictionary_page_offset or c.data_page_offset for c in chunks)
        assert group.stop - group.start == sum(c.total_compressed_size for c in chunks)
        assert group.num_rows == metadata.num_rows
    assert [file.path for file in pruning.kept_files] == ["./none.parquet", "./day=2/f.parquet"]
    assert [(g.path, g.row_group) for g in pruning.kept_row_groups] == [("./day=2/f.parquet", 1)]


def test_as_plain_data(lake: Path) -> None:
    pruning = prune(lake, "id = 10")
    table = pruning.to_arrow()
    assert table.num_rows == len(pruning) == 6
    assert table.select(["path", "row_group", "answer"]).to_pylist()[1:3] == [
        {"path": "./none.parquet", "row_group": None, "answer": "MIGHT_MATCH"},
        {"path": "./day=1/f.parquet", "row_group": 0, "answer": "MIGHT_MATCH"},
    ]
    assert set(table["answer"].to_pylist()) == {"MIGHT_MATCH", "CANNOT_MATCH"}
    for record in (*pruning.to_dicts(), pruning.totals.to_dict(), *(file.to_dict() for file in pruning.all_files)):
        assert json.loads(json.dumps(record)) == record
    assert pruning.all_files[2].to_dict()["row_groups"][0]["reason"]


def test_nothing_at_all(lake: Path) -> None:
    pruning = prune("empty.parquet", "id = 1")
    assert not pruning.might_match
    assert pruning.totals.row_groups in (0, 1)
    assert prune("empty.parquet", "id = 1").to_dataset().to_table().num_rows == 0


def test_strict_raises_what_would_be_kept(lake: Path) -> None:
    with pytest.raises(CorruptFileError, match=r"none\.parquet"):
        prune(lake, "id = 1", strict=True)
    assert prune(["day=1", "day=2"], "id = 10", strict=True).totals.files_kept == 1
    with pytest.raises(FileNotFoundError):
        prune("missing.parquet", "id = 1")


def test_only_unreadable_files(lake: Path) -> None:
    pruning = prune("none.parquet", "nobody_knows_this_column = 1")
    assert pruning.might_match
    assert pruning.totals.row_groups == 0


def test_progress(lake: Path) -> None:
    seen: list[tuple[int, int]] = []
    prune(lake, "id = 1", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_large_condition(lake: Path) -> None:
    many = ", ".join(f"'x{n}'" for n in range(10_000))
    assert prune("day=1", f"name IN ({many})").totals.row_groups_kept == 0
    assert prune("day=1", f"name IN ({many}, 'a')").totals.row_groups_kept == 1
    either = " OR ".join(f"id = {n}" for n in range(100, 5_000))
    assert prune("day=1", either).totals.row_groups_kept == 0
    assert prune("day=1", f"{either} OR id = 10").totals.row_groups_kept == 1


def test_the_deepest_condition(lake: Path) -> None:
    condition = col("id") == 10
    for level in range(MAX_DEPTH):
        part = col("id") == (10 if level % 2 else -level)
        condition = And((condition, part)) if level % 2 else Or((condition, part))
    assert prune("day=1", condition).totals.row_groups_kept == 1
    with pytest.raises(PredicateError, match="nested"):
        prune("day=1", ~condition)
