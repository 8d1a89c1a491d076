"""Which readers lose rows, against every release of a dense grid; and every kind of column is one that is known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from files import only_error
from hypothesis import example, given
from hypothesis import strategies as st
from kinds import write_kind
from packaging.specifiers import SpecifierSet

from parquet_bloom import add
from parquet_bloom.filters import engines, readers
from parquet_bloom.filters.engines import HAZARDS, Hazard
from parquet_bloom.filters.readers import ANYONE, VARIABLE, Readers, readers_of
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import LeafColumn, PhysicalType, leaf_columns
from parquet_bloom.values.encoding import why_unbuildable

RELEASES = [
    f"{a}.{b}.{c}{rest}"
    for a, b, c, rest in itertools.product(range(6), range(6), range(5), ("", ".0.1", ".1", ".1.0.1"))
]
"""Every release that there is, and one between any two that users and hazards name, and above them all."""

named = st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 3)) | st.builds(
    "{}.{}.{}".format, st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)
)
clauses = st.builds("{}{}".format, st.sampled_from(["==", ">=", "<=", ">", "<", "~=", "!="]), named) | st.builds(
    "{}{}.*".format, st.sampled_from(["==", "!="]), st.builds("{}.{}".format, st.integers(0, 3), st.integers(0, 3))
)


def hazard(since: str | None, mended: str | None) -> Hazard:
    return Hazard("Polars", since, mended, frozenset({"INT32"}), "always")


@given(
    st.lists(clauses, min_size=1, max_size=3).map(",".join),
    st.none() | named,
    st.none() | named,
)
@example("!=1.1.0,>=1.1", "1.1", "1.1.2")
@example(">1.1,<1.2", None, None)
@example("!=1.0.*,!=1.1.*", "1.0", "1.2")
@example("!=1.1.*,<2", "1.1.1", "2.0")
def test_readers_lose_rows_where_any_release_that_is_meant_does(
    text: str, since: str | None, mended: str | None
) -> None:
    found = hazard(since, mended)
    loses = any(found.concerns(release) for release in SpecifierSet(text).filter(RELEASES))
    assert Readers({"Polars": SpecifierSet(text)}).lose_rows(found) == loses


@given(st.none() | named, st.none() | named)
def test_readers_that_are_not_the_hazards_lose_nothing_by_it(since: str | None, mended: str | None) -> None:
    assert not Readers({"DuckDB": SpecifierSet("")}).lose_rows(hazard(since, mended))
    assert not Readers({"Polars": SpecifierSet("")}, accepts=True).lose_rows(hazard(since, mended))


def test_a_name_alone_means_every_release() -> None:
    for one in HAZARDS:
        assert readers_of(one.engine).lose_rows(one)
        assert readers_of(f"{one.engine}>=0").lose_rows(one)
        assert not readers_of("polars").lose_rows(one)
        assert not Readers(accepts=True).lose_rows(one)
        if one.mended:
            assert not readers_of(f"{one.engine}>={one.mended}").lose_rows(one)
            assert readers_of(f"{one.engine}<{one.mended}").lose_rows(one)


@pytest.mark.parametrize(
    "text", ["delta-rs>=1.6.3", "DeltaLake >= 1.6.3", "deltalake>=1.6.3,<2", "pyspark,deltalake<1"]
)
def test_engines_go_by_the_names_that_users_have_for_them(text: str) -> None:
    assert readers_of(text).named is not None
    assert "deltalake" in readers_of(text).named  # type: ignore[operator]


def test_what_is_given_comes_before_what_is_remembered_and_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "duckdb")
    assert readers_of("spark", remembered="trino").text == "spark"
    assert readers_of(remembered="trino").text == "trino"
    assert readers_of().text == "duckdb"
    monkeypatch.delenv(VARIABLE)
    assert readers_of() == ANYONE
    with pytest.raises(ValueError, match="the remembered readers 'x': does not know 'x'"):
        readers_of(remembered="x")


def test_readers_that_are_remembered_of_one_folder_are_not_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ({"a": "spark"}, {"a": "spark", "b": "duckdb"}):
        monkeypatch.setattr(readers, "_known_to_indexes", lambda fs, folders, known=known: known)
        with pytest.raises(ValueError, match="the other files may have others"):
            readers._settled(ANYONE, None, ["a", "b"])
    monkeypatch.setattr(readers, "_known_to_indexes", lambda fs, folders: dict.fromkeys(folders, "spark"))
    assert readers._settled(ANYONE, None, ["a", "b"]).text == "spark"


def test_readers_that_an_index_cannot_tell_may_be_anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(readers, "_known_to_indexes", fails)
    monkeypatch.setenv(VARIABLE, "duckdb")
    assert readers._settled(readers_of(), None, ["a"]) == Readers(is_given=True)


# ---- every kind of column ----------------------------------------------------------------

UNITS = [
    ttypes.TimeUnit(MILLIS=ttypes.MilliSeconds()),
    ttypes.TimeUnit(MICROS=ttypes.MicroSeconds()),
    ttypes.TimeUnit(NANOS=ttypes.NanoSeconds()),
]


def logical_types() -> list[ttypes.LogicalType | None]:
    """Returns every logical type of the format, with every choice that it has."""
    simple = {
        name: type_()
        for _, kind, name, (type_, _), _ in filter(None, ttypes.LogicalType.thrift_spec)
        if name not in ("DECIMAL", "TIME", "TIMESTAMP", "INTEGER")
    }
    made: list[ttypes.LogicalType | None] = [None, *(ttypes.LogicalType(**{name: one}) for name, one in simple.items())]
    for precision in (1, 4, 9, 10, 18, 19, 38, 39, 76):
        made.append(ttypes.LogicalType(DECIMAL=ttypes.DecimalType(scale=0, precision=precision)))
    for unit, is_utc in itertools.product(UNITS, (False, True)):
        made.append(ttypes.LogicalType(TIME=ttypes.TimeType(isAdjustedToUTC=is_utc, unit=unit)))
        made.append(ttypes.LogicalType(TIMESTAMP=ttypes.TimestampType(isAdjustedToUTC=is_utc, unit=unit)))
    for bits, is_signed in itertools.product((8, 16, 32, 64), (False, True)):
        made.append(ttypes.LogicalType(INTEGER=ttypes.IntType(bitWidth=bits, isSigned=is_signed)))
    return made


def leaves() -> list[LeafColumn]:
    """Returns a leaf of every physical type with every length and annotation, whether they go together or not."""
    found = []
    converted: list[int | None] = [None, *ttypes.ConvertedType._VALUES_TO_NAMES]
    for physical in PhysicalType:
        lengths = [1, 2, 4, 12, 15, 16, 17, 26] if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY else [None, 0, 4]
        annotations = [(logical, None) for logical in logical_types()] + [(None, one) for one in converted]
        for length, (logical, of_old) in itertools.product(lengths, annotations):
            element = ttypes.SchemaElement(
                type=physical.value,
                type_length=length,
                repetition_type=ttypes.FieldRepetitionType.OPTIONAL,
                name="v",
                logicalType=logical,
                converted_type=of_old,
                precision=9,
                scale=2,
            )
            root = ttypes.SchemaElement(name="root", num_children=1)
            found += leaf_columns([root, element])
    return found


def test_every_column_that_can_have_a_filter_is_of_a_known_kind() -> None:
    unknown = {
        f"{leaf.physical_type.name} {leaf.logical_type}"
        for leaf in leaves()
        if why_unbuildable(leaf) is None and not engines.is_known(leaf)
    }
    assert unknown == set()


def test_what_nobody_tried_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_kind(tmp_path / "date.parquet", "DATE")
    monkeypatch.delitem(engines._USERS, "DATE")
    for options in ({}, {"readers": "spark"}):
        error = only_error(add(path, "v", dry_run=True, **options))
        assert "INT32 DATE is left out: no engine was tried with filters on such columns" in error
    (row,) = add(path, "v", accept_hazards=True, dry_run=True, allow_large=True).rows
    assert (row.status, row.error) == ("planned", None)
