"""A footer's schema gives its leaves in file order, or is no tree at all; paths are written as they are read."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow.parquet as pq
import pytest
from files import FIXTURES, SOUND, names, opened
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, PredicateError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import (
    LeafColumn,
    LogicalType,
    PhysicalType,
    Repetition,
    find_leaf,
    format_path,
    leaf_columns,
    parse_path,
)


@pytest.mark.parametrize("name", names(SOUND))
def test_leaves_are_those_of_pyarrow(name: str) -> None:
    _, footer = opened(FIXTURES / name)
    schema = pq.read_metadata(FIXTURES / name).schema
    for leaf, column in zip(footer.leaves, (schema.column(i) for i in range(len(schema))), strict=True):
        assert ".".join(leaf.path) == column.path
        assert leaf.physical_type.name == column.physical_type
        assert leaf.type_length == (column.length if leaf.physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY else None)
        assert leaf.max_definition_level == column.max_definition_level
        assert leaf.nodes.count(Repetition.REPEATED) == column.max_repetition_level
        assert leaf.is_repeated == (column.max_repetition_level > 0)
        logical_type = column.logical_type.type if column.converted_type != "INTERVAL" else "INTERVAL"
        assert (leaf.logical_type and leaf.logical_type.name) == LOGICAL.get(logical_type, logical_type)


LOGICAL = {"NONE": None, "INT": "INTEGER", "NULL": "UNKNOWN"}


def test_a_type_is_named_once() -> None:
    integer = LogicalType("INTEGER", bit_width=64)
    leaves = [leaf_of(None), leaf_of(integer), leaf_of(LogicalType("INTEGER", bit_width=8))]
    assert [leaf.type_name for leaf in leaves] == ["INT64", "INT64", "INT64 INT8"]


def leaf_of(logical_type: LogicalType | None) -> LeafColumn:
    return LeafColumn(("c",), 0, INT64, None, logical_type, (Repetition.OPTIONAL,))


def element(name: str | None = "c", **fields: Any) -> Any:
    return ttypes.SchemaElement(**{"name": name, "repetition_type": 1} | fields)


def root(children: int | None) -> Any:
    return ttypes.SchemaElement(name="root", num_children=children)


INT64 = PhysicalType.INT64


def logical(**fields: Any) -> LogicalType | None:
    (leaf,) = leaf_columns([root(1), element(type=INT64, **fields)])
    return leaf.logical_type


UNIT = ttypes.TimeUnit(NANOS=ttypes.NanoSeconds())


@pytest.mark.parametrize(
    ("new", "old", "shown"),
    [
        (ttypes.LogicalType(STRING=ttypes.StringType()), 0, "STRING"),
        (ttypes.LogicalType(ENUM=ttypes.EnumType()), 4, "ENUM"),
        (ttypes.LogicalType(DATE=ttypes.DateType()), 6, "DATE"),
        (ttypes.LogicalType(JSON=ttypes.JsonType()), 19, "JSON"),
        (ttypes.LogicalType(BSON=ttypes.BsonType()), 20, "BSON"),
        (ttypes.LogicalType(INTEGER=ttypes.IntType(8, False)), 11, "UINT8"),
        (ttypes.LogicalType(INTEGER=ttypes.IntType(64, False)), 14, "UINT64"),
        (ttypes.LogicalType(INTEGER=ttypes.IntType(8, True)), 15, "INT8"),
        (ttypes.LogicalType(INTEGER=ttypes.IntType(64, True)), 18, "INT64"),
        (ttypes.LogicalType(TIMESTAMP=ttypes.TimestampType(True, UNIT)), None, "TIMESTAMP(NANOS,UTC)"),
        (ttypes.LogicalType(TIMESTAMP=ttypes.TimestampType(False, UNIT)), None, "TIMESTAMP(NANOS,local)"),
        (ttypes.LogicalType(UUID=ttypes.UUIDType()), None, "UUID"),
    ],
)
def test_both_spellings_of_a_logical_type_mean_the_same(new: Any, old: int | None, shown: str) -> None:
    assert str(logical(logicalType=new)) == shown
    if old is not None:
        assert logical(converted_type=old) == logical(logicalType=new)


def test_decimals_in_both_spellings() -> None:
    new = ttypes.LogicalType(DECIMAL=ttypes.DecimalType(scale=2, precision=9))
    assert str(logical(logicalType=new)) == "DECIMAL(9,2)"
    assert logical(converted_type=5, precision=9, scale=2) == logical(logicalType=new)


def test_a_type_newer_than_this_version_is_never_taken_for_another() -> None:
    unknown = logical(logicalType=ttypes.LogicalType(), converted_type=0)
    assert unknown is not None
    assert unknown.name == "UNKNOWN_TO_US"
    assert logical(converted_type=99) == unknown


BROKEN = {
    "none": None,
    "empty": [],
    "too few children": [root(2), element(type=INT64)],
    "too many children": [root(1), element(type=INT64), element(type=INT64)],
    "negative children": [root(1), element(num_children=-1)],
    "2^31 children": [root(2**31 - 1), element(type=INT64)],
    "no name": [root(1), element(None, type=INT64)],
    "no repetition": [root(1), element(type=INT64, repetition_type=None)],
    "unknown repetition": [root(1), element(type=INT64, repetition_type=3)],
    "a leaf with children": [root(1), element(type=INT64, num_children=1), element(type=INT64)],
    "unknown type": [root(1), element(type=99)],
    "fixed without length": [root(1), element(type=PhysicalType.FIXED_LEN_BYTE_ARRAY)],
    "fixed of length 0": [root(1), element(type=PhysicalType.FIXED_LEN_BYTE_ARRAY, type_length=0)],
    "endless nesting": [root(1), *[element(num_children=1)] * 100_000, element(type=INT64)],
}


@pytest.mark.parametrize("why", BROKEN)
def test_what_is_no_tree_is_corrupt(why: str) -> None:
    with pytest.raises(CorruptFileError):
        leaf_columns(BROKEN[why])


PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1, max_size=4)


@given(path=PARTS)
def test_a_path_reads_back_as_it_was_written(path: list[str]) -> None:
    assert parse_path(format_path(path)) == tuple(path)


@given(text=st.text(st.sampled_from("a.`b"), max_size=12))
def test_text_is_a_path_or_a_predicate_error(text: str) -> None:
    with contextlib.suppress(PredicateError):
        path = parse_path(text)
        assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "position"), [("", 0), ("a.", 2), (".a", 0), ("a..b", 2), ("`a", 1), ("`a`b", 3), ("``.", 3)]
)
def test_what_is_no_path_is_told_by_its_place(text: str, position: int) -> None:
    with pytest.raises(PredicateError) as raised:
        parse_path(text)
    assert raised.value.position == position


def test_a_missing_column_names_the_closest() -> None:
    leaves = leaf_columns([root(2), element("user_id", type=INT64), element("a.b", type=INT64)])
    assert find_leaf(leaves, ("a.b",)).index == 1
    with pytest.raises(ColumnNotFoundError, match=r"no leaf column 'userid'; did you mean user_id\?"):
        find_leaf(leaves, ("userid",))
    with pytest.raises(ColumnNotFoundError, match=r"columns: user_id, `a\.b`"):
        find_leaf(leaves, ("zzz",))


@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        ("ID", "did you mean id?"),
        ("Useer", "did you mean USER.Name"),
        ("user", "did you mean USER.Name or USER.age?"),
        ("tags", "did you mean tags.list.element?"),
        ("tag", "did you mean tags.list.element?"),
        ("USER.NAME", "did you mean USER.Name"),
    ],
)
def test_hints_know_groups_and_other_case(asked: str, advice: str) -> None:
    error = ColumnNotFoundError(asked, ["id", "USER.Name", "USER.age", "tags.list.element"])
    assert str(error).partition("; ")[2].startswith(advice)
