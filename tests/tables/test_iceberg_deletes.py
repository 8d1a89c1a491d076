"""Which data files and which rows Iceberg's files of deletes apply to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lakes
import pyarrow as pa
import pytest

from parquet_bloom import CorruptFileError, UnsupportedError
from parquet_bloom.tables import LiveFile, snapshot_of
from parquet_bloom.tables.iceberg_deletes import EQUALITY, Deletes, _applies


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path) as found:
        yield found


def entry(number: int | None, spec: int = 1, partition: str = "x") -> Any:
    return SimpleNamespace(sequence_number=number, data_file=SimpleNamespace(spec_id=spec, partition=partition))


@pytest.mark.parametrize("number", [None, 0, 1, 2, 3])
@pytest.mark.parametrize(("spec", "partition"), [(1, "x"), (1, "y"), (2, "x")])
@pytest.mark.parametrize("is_global", [True, False])
def test_equality_deletes_apply_to_older_files_of_their_partition_or_of_all(
    number: int | None, spec: int, partition: str, is_global: bool
) -> None:
    is_of_partition = is_global or (spec, partition) == (1, "x")
    applies = _applies(entry(2), entry(number, spec, partition), is_global=is_global)
    assert applies == (is_of_partition and (number or 0) < 2)


def test_equality_deletes_of_a_dropped_partition_apply_to_the_whole_table(catalog: Any) -> None:
    """In a table of version 1 a dropped partition field stays, without values."""
    rows = lakes.odd_rows()
    made = catalog.create_table("n.t", rows.schema, properties={"format-version": "1"})
    with made.update_spec() as update:
        update.add_identity("p")
    made.append(rows)
    with made.update_spec() as update:
        update.remove_field("p")
    assert [len(spec.fields) for spec in made.specs().values()] == [0, 1, 1]
    made.append(rows)
    with made.transaction() as transaction:
        transaction.upgrade_table_version(2)
    lakes.give_deletes(made, [0], content="EQUALITY_DELETES")
    found = snapshot_of(made)
    assert found is not None
    for file in found.files:
        with pytest.raises(UnsupportedError, match=EQUALITY):
            found.deleted_rows(file)


def test_a_position_that_is_null_is_an_error() -> None:
    deletes = Deletes(None, None, lambda path: None)
    deletes.files = {"f": [SimpleNamespace(file_path="d", record_count=2)]}  # type: ignore[dict-item]
    file = LiveFile("/f", "f", 1, 9)
    for positions, is_sound in (([4, 1, 4], True), ([4, None], False)):
        deletes._positions = {"d": {"f": [pa.array(positions, pa.int64())]}}
        if is_sound:
            assert list(deletes.of(file)) == [1, 4]
        else:
            with pytest.raises(CorruptFileError, match="is NULL"):
                deletes.of(file)
