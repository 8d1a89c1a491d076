"""What cannot be done right is refused with one clear error, before a byte is written."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import (
    FIXTURES,
    SMALL,
    fixture,
    footer_bytes,
    only_error,
    snapshot,
    statuses,
    with_footer,
    write,
)

from parquet_bloom import add, drop, inspect, lookup, probe, verify
from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    FilterExistsError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode


def edited(name: str, edit: Callable[[Any], None]) -> bytes:
    """Returns a fixture with its footer changed by `edit`."""
    data = fixture(name)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    edit(metadata)
    return with_footer(data, encode(metadata))


def external(metadata: Any) -> None:
    metadata.row_groups[1].columns[2].file_path = "part-1.parquet"


def encrypted_column(metadata: Any) -> None:
    metadata.row_groups[0].columns[2].crypto_metadata = ttypes.ColumnCryptoMetaData(
        ENCRYPTION_WITH_FOOTER_KEY=ttypes.EncryptionWithFooterKey()
    )


FILES = {
    "encrypted footer": (lambda: fixture("pyarrow/encrypted_footer.parquet"), "the footer is encrypted"),
    "signed footer": (lambda: fixture("pyarrow/signed_footer.parquet"), "the footer is signed"),
    "encrypted column": (lambda: edited(SMALL, encrypted_column), "encrypted columns"),
    "other files": (lambda: edited(SMALL, external), "are in another file (part-1.parquet)"),
    "no Parquet": (lambda: b"id,name\n1,a\n" * 10, "does not end in PAR1"),
    "empty": (lambda: b"", "too small for Parquet"),
    "cut": (lambda: fixture(SMALL)[:-1], "does not end in PAR1"),
}


@pytest.mark.parametrize("why", FILES)
def test_files_that_must_not_change_are_left(tmp_path: Path, why: str) -> None:
    make, reason = FILES[why]
    (tmp_path / "x.parquet").write_bytes(make())
    before = snapshot(tmp_path)
    for result in (
        add(tmp_path / "x.parquet", "id"),
        add(tmp_path / "x.parquet", "id", output=tmp_path / "y.parquet"),
        drop(tmp_path / "x.parquet"),
        drop(tmp_path / "x.parquet", restore=True),
    ):
        assert reason in only_error(result)
        assert result.errors
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("column", "reason"), [("bool", "BOOLEAN"), ("float16", "FLOAT16"), ("id", None), ("double", None)]
)
def test_types_that_cannot_have_a_filter_are_refused(tmp_path: Path, column: str, reason: str | None) -> None:
    shutil.copy(FIXTURES / "pyarrow/plain_types.parquet", tmp_path / "x.parquet")
    before = snapshot(tmp_path)
    result = add(tmp_path / "x.parquet", column)
    if reason is None:
        assert statuses(result) == ["written"]
    else:
        assert only_error(result).startswith(f"column {column}: ")
        assert f"{reason} cannot have a filter" in only_error(result)
        assert snapshot(tmp_path) == before


def test_a_column_that_no_file_has_is_an_error_with_the_closest_names(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet")
    before = snapshot(tmp_path)
    for verb in (lambda: add(tmp_path, ["id", "nam"]), lambda: drop(tmp_path, "nam")):
        with pytest.raises(ColumnNotFoundError, match="no leaf column 'nam'; did you mean name"):
            verb()
    assert snapshot(tmp_path) == before


def test_a_partition_column_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "day=2026-01-31").mkdir()
    write(tmp_path / "day=2026-01-31" / "x.parquet")
    for verb in (
        lambda: add(tmp_path, "day"),
        lambda: drop(tmp_path, "day"),
        lambda: inspect(tmp_path, "day"),
        lambda: verify(tmp_path, "day"),
        lambda: probe(tmp_path, "day", "2026-01-31"),
        lambda: lookup(tmp_path, "day", ["2026-01-31"]),
    ):
        with pytest.raises(ColumnNotFoundError, match="'day'; it is a partition column: files do not store it"):
            verb()


def test_a_column_that_one_file_lacks_refuses_that_file_only(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    other = (tmp_path / "b.parquet").read_bytes()
    assert statuses(add(tmp_path, "id")) == ["written", "refused"]
    assert statuses(drop(tmp_path, "id")) == ["written", "refused"]
    assert (tmp_path / "b.parquet").read_bytes() == other


BAD: list[tuple[str, type[Exception]]] = [
    ("pyarrow/encrypted_footer.parquet", UnsupportedError),
    ("pyarrow/signed_footer.parquet", UnsupportedError),
    ("damaged/text.parquet", CorruptFileError),
    ("damaged/type_99.parquet", CorruptFileError),
]


@pytest.mark.parametrize(("bad", "error"), BAD)
def test_strict_raises_before_the_first_file_is_written(tmp_path: Path, bad: str, error: type[Exception]) -> None:
    shutil.copy(FIXTURES / SMALL, tmp_path / "a.parquet")
    shutil.copy(FIXTURES / bad, tmp_path / "b.parquet")
    before = snapshot(tmp_path)
    with pytest.raises(error):
        add(tmp_path, "id", replace=True, strict=True)
    assert snapshot(tmp_path) == before
    if error is UnsupportedError:
        with pytest.raises(error):
            drop(tmp_path, strict=True)
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "options", [{"fpp": 0}, {"fpp": 1}, {"fpp": -0.1}, {"fpp": float("nan")}, {"ndv": -1}, {"max_bytes": 63}], ids=str
)
def test_sizes_that_cannot_be_are_the_caller_s_error(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=next(iter(options))):
        add(tmp_path, "id", **options)


def test_no_columns_is_the_caller_s_error(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="at least one column"):
        add(tmp_path, [])


def test_restore_is_for_all_columns(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet")
    with pytest.raises(UnsupportedError, match="all columns"):
        drop(tmp_path, "id", restore=True)


def test_one_file_is_written_into_a_directory_or_under_a_new_name(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet")
    (tmp_path / "old").mkdir()
    for output, target in [("new/", "new/x.parquet"), ("old", "old/x.parquet"), ("y[1].parquet", "y[1].parquet")]:
        (row,) = add(tmp_path / "x.parquet", "id", output=f"{tmp_path}/{output}")
        assert row.output == str(tmp_path / target)
        assert (tmp_path / target).is_file()


def test_two_files_that_would_become_one_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a/x.parquet")
    write(tmp_path / "b/x.parquet")
    before = snapshot(tmp_path)
    with pytest.raises(FilterExistsError, match="same file"):
        add([tmp_path / "a", tmp_path / "b"], "id", output=tmp_path / "out")
    assert snapshot(tmp_path) == before


def test_refusals_are_of_one_family() -> None:
    for error in (ColumnNotFoundError, ConcurrentChangeError, CorruptFileError, FilterExistsError, UnsupportedError):
        assert issubclass(error, ParquetBloomError)


@pytest.mark.parametrize("mark", ["_delta_log", "metadata"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_file_whose_table_cannot_be_looked_for_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, number: int
) -> None:
    path = tmp_path / "x.parquet"
    old = write(path)
    (tmp_path / mark).mkdir()
    call = "stat" if mark == "_delta_log" or number == errno.EACCES else "listdir"
    real = getattr(os, call)

    def fail(name: Any, *arguments: Any, **options: Any) -> Any:
        if os.fspath(name) == str(tmp_path / mark):
            raise OSError(number, os.strerror(number), str(name))
        return real(name, *arguments, **options)

    monkeypatch.setattr(os, call, fail)
    assert mark in only_error(add(path, "id"))
    assert path.read_bytes() == old
