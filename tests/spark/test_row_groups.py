"""Spark reads exactly the row groups that were kept, and any frame that this cannot be done for says so."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark
from files import FIXTURES, SOUND, opened
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import prune
from parquet_bloom.spark import row_groups
from parquet_bloom.spark.jvm import Range
from parquet_bloom.spark.row_groups import RowGroup, Unavailable, midpoints, ranges, scan
from parquet_bloom.storage.listing import find
from parquet_bloom.verbs.verdicts import Pruning, RowGroupVerdict

ROWS = 10  # in a row group


def write(path: Path, groups: int = 4, first: int = 0, **columns: Any) -> Path:
    """Writes row groups of ROWS rows: k is the row's number, g its row group's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = range(first, first + groups * ROWS)
    table = {"k": list(rows), "g": [(row - first) // ROWS for row in rows], "s": [f"row {row}" for row in rows]}
    pq.write_table(pa.table(table | columns), path, row_group_size=ROWS)
    return path


def read(*paths: Path, schema: str = "k bigint, g bigint, s string", **options: str) -> Any:
    return spark().read.options(**options).schema(schema).parquet(*map(str, paths))


def keeping(paths: Any, is_wanted: Callable[[RowGroupVerdict], bool]) -> Pruning:
    """Returns a pruning that keeps the wanted row groups, whatever is in them."""
    pruning = prune(paths, "TRUE")
    files = [
        replace(
            file,
            row_groups=tuple(
                replace(group, answer="MIGHT_MATCH" if is_wanted(group) else "CANNOT_MATCH")
                for group in file.row_groups
            ),
        )
        for file in pruning.all_files
    ]
    return replace(pruning, all_files=tuple(files))


def numbers(frame: Any) -> list[int]:
    return sorted(row[0] for row in frame.select("k").collect())


def read_by(frame: Any) -> tuple[list, int]:
    """Returns the rows of a frame, and how many rows the reader gave out for them: before Spark filters them."""
    rows = frame.collect()
    return rows, sum(_given_out(frame._jdf.queryExecution().executedPlan()))


def _given_out(plan: Any) -> Iterator[int]:
    name = plan.getClass().getSimpleName()
    if name == "RDDScanExec":
        yield plan.metrics().apply("numOutputRows").value()
    elif name == "AdaptiveSparkPlanExec":
        yield from _given_out(plan.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from _given_out(plan.plan())
    children = plan.children()
    for index in range(children.size()):
        yield from _given_out(children.apply(index))


# ---- ranges ------------------------------------------------------------------------------


@st.composite
def layouts(draw: Any) -> list[RowGroup]:
    """Row groups one after the other, or with midpoints and extents that make no sense."""
    if draw(st.booleans()):
        number = st.integers(0, 40)
        return draw(st.lists(st.builds(RowGroup, number, number, number, st.booleans()), max_size=8))
    groups, offset = [], 4
    for size, gap, is_kept in draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.booleans()))):
        groups.append(RowGroup(offset + size // 2, offset, offset + size, is_kept))
        offset += size + gap
    return groups


@given(layouts(), st.integers(0, 200))
def test_each_kept_midpoint_is_in_one_range_and_no_other_in_any(groups: list[RowGroup], most: int) -> None:
    found = ranges(groups, most)
    kept = {group.midpoint for group in groups if group.is_kept}
    for midpoint in {group.midpoint for group in groups}:
        holding = [r for r in found if r.start <= midpoint < r.start + r.length]
        assert len(holding) == (midpoint in kept)
    assert all(r.length > 0 <= r.start for r in found)


def test_neighbours_share_a_range_of_their_bytes() -> None:
    groups = [RowGroup(50 + 100 * i, 100 * i + 4, 100 * i + 100, i != 2) for i in range(6)]
    assert ranges(groups, 1000) == [Range(4, 196), Range(304, 296)]
    assert ranges(groups, 200) == [Range(4, 196), Range(304, 196), Range(504, 96)]
    assert ranges(groups, 0) == [Range(100 * i + 4, 96) for i in (0, 1, 3, 4, 5)]
    assert ranges([], 0) == []


@pytest.mark.parametrize(
    "fields",
    [{"data_page_offset": 10**9, "dictionary_page_offset": None}, {"dictionary_page_offset": -1}, None],
    ids=["beyond the file", "negative", "encrypted"],
)
def test_offsets_that_cannot_be_leave_the_midpoints_unknown(tmp_path: Path, fields: dict[str, Any] | None) -> None:
    footer = replace(opened(write(tmp_path / "f.parquet"))[1], chunk_starts=None)
    column = footer.metadata.row_groups[1].columns[0]
    if fields is None:
        column.meta_data = None
    else:
        for name, value in fields.items():
            setattr(column.meta_data, name, value)
    assert midpoints(footer) is None


def test_a_midpoint_is_half_of_the_compressed_size_behind_the_first_page(tmp_path: Path) -> None:
    footer = replace(opened(write(tmp_path / "f.parquet"))[1], chunk_starts=None)
    group = footer.metadata.row_groups[1]
    first, sizes = group.columns[0].meta_data, [column.meta_data.total_compressed_size for column in group.columns]

    def midpoint() -> int:
        return (midpoints(footer) or [])[1]

    assert 0 < first.dictionary_page_offset < first.data_page_offset
    assert midpoint() == first.dictionary_page_offset + sum(sizes) // 2
    group.total_compressed_size = None
    assert midpoint() == first.dictionary_page_offset + sum(sizes) // 2
    group.total_compressed_size = 11
    assert midpoint() == first.dictionary_page_offset + 5
    first.dictionary_page_offset = None
    assert midpoint() == first.data_page_offset + 5
    first.dictionary_page_offset = 0
    assert midpoint() == 5


def test_midpoints_are_those_of_the_whole_footer_and_take_few_of_its_structs() -> None:
    walked = 0
    for name in SOUND:
        _, footer = opened(FIXTURES / name)
        assert midpoints(footer) == midpoints(replace(footer, chunk_starts=None)), name
        walked += "metadata" not in footer.__dict__
    assert walked > len(SOUND) // 2


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("file:/a/b%20c%25%2B.parquet", ("file", "/a/b c%+.parquet")),
        ("file:///a+b/%C3%A9é.parquet", ("file", "/a+b/éé.parquet")),
        ("s3a://bucket/x%3Dy/f.parquet", ("s3", "bucket/x=y/f.parquet")),
        ("hdfs://host:8020/f.parquet", ("hdfs", "host:8020/f.parquet")),
    ],
)
def test_a_uri_of_spark_names_a_file(uri: str, key: tuple[str, str]) -> None:
    assert row_groups._key_of_uri(uri) == key


def test_files_of_other_stores_are_looked_at_again() -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe({f"/lake/{name}.parquet": name.encode() * 20 for name in "abc"})
    try:
        sources = {row_groups._key_of_source(source): source for source in find("memory://lake")}
        assert sorted(sources) == [("memory", f"lake/{name}.parquet") for name in "abc"]
        listed = {key: (source, 0) for key, source in sources.items()}
        assert row_groups._changed(listed) == set()
        store.pipe("/lake/b.parquet", b"x" * 20)
        assert row_groups._changed(listed) == {("memory", "lake/b.parquet")}
        store.rm("/lake/c.parquet")
        assert row_groups._changed(listed) >= {("memory", "lake/b.parquet"), ("memory", "lake/c.parquet")}
    finally:
        store.rm("/lake", recursive=True)


def test_a_file_of_a_store_that_spark_listed_with_another_size_is_not_known() -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [1, 2]}), sink, row_group_size=1)
    size = sink.getvalue().size
    store.pipe("/lake/a.parquet", sink.getvalue().to_pybytes())
    try:
        pruned = row_groups._pruned(keeping("memory://lake", lambda group: group.row_group == 0))
        assert list(pruned) == [("memory", "lake/a.parquet")]
        piece = row_groups._Piece("memory://lake/a.parquet", 0, size, size, 0)
        assert row_groups._unchanged(pruned, [piece]) == pruned
        assert row_groups._unchanged(pruned, [piece._replace(file_size=size + 1)]) == {}
    finally:
        store.rm("/lake", recursive=True)


# ---- what is read ------------------------------------------------------------------------


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("kept", [{0}, {1, 2}, {0, 2, 3}, {3}, set()], ids=str)
def test_exactly_the_kept_row_groups_are_read(tmp_path: Path, kept: set[int]) -> None:
    path = write(tmp_path / "f.parquet")
    frame = read(path)
    rows, given_out = read_by(scan(frame, keeping(path, lambda group: group.row_group in kept)))
    assert sorted(rows) == sorted(row for row in frame.collect() if row.g in kept)
    assert given_out == len(kept) * ROWS


@needs_java
@pytest.mark.spark
def test_where_nothing_is_ruled_out_the_frame_is_as_good(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet")
    frame = read(path)
    assert scan(frame, prune(path, "TRUE")) is frame
    found, given_out = read_by(scan(frame, prune(path, "TRUE"), where="g = 1", columns=["k"]))
    assert (sorted(found), given_out) == ([(k,) for k in range(10, 20)], 0)


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("parity", [0, 1])
def test_row_groups_of_every_writer_are_told_apart(parity: int) -> None:
    from pyspark.sql.functions import input_file_name

    names = [name for name in SOUND if name != "pyarrow/zero_columns.parquet"]  # which Spark cannot read
    paths = [FIXTURES / name for name in names]
    pruning = keeping(paths, lambda group: group.row_group % 2 == parity)
    assert all(midpoints(opened(path)[1]) is not None for path in paths)
    # A column that no file has takes no decoding, so files count whose types or codecs Spark does not know.
    rows = scan(read(*paths, schema="absent int"), pruning).select(input_file_name()).collect()
    found = Counter(row[0].partition("/fixtures/")[2] for row in rows)
    kept = {file.path: sum(group.num_rows for group in file.row_groups if group.is_kept) for file in pruning.all_files}
    assert found == Counter({path.partition("/fixtures/")[2]: count for path, count in kept.items() if count})


@needs_java
@pytest.mark.spark
def test_a_condition_and_columns_reach_the_reader(tmp_path: Path) -> None:
    from pyspark.sql.functions import col

    path = write(tmp_path / "f.parquet")
    frame, pruning = read(path), keeping(path, lambda group: group.row_group in (1, 3))
    rows = scan(frame, pruning, where="g = 3 AND k <> 35", columns=["s", (col("k") + 1).alias("next")])
    assert rows.columns == ["s", "next"]
    found, given_out = read_by(rows)
    assert sorted(found) == [(f"row {k}", k + 1) for k in range(30, 40) if k != 35]
    assert given_out == ROWS  # statistics ruled row group 1 out, as they do in any read of Spark's
    assert "s: string" not in rows.select("next")._jdf.queryExecution().analyzed().toString()
    assert scan(frame, pruning, where=col("k") < 12, columns=[]).count() == 2
    assert scan(frame, pruning, columns=["k"]).columns == ["k"]
    assert scan(frame, pruning, where="k = (SELECT 33)").collect() == [(33, 3, "row 33")]


@needs_java
@pytest.mark.spark
def test_columns_of_every_shape_come_through(tmp_path: Path) -> None:
    n = 3 * ROWS
    table = {
        "st": [{"a": i, "b": {"c": None if i % 3 else f"c{i}"}} for i in range(n)],
        "items": [None if i % 4 == 0 else [i, None] * (i % 3) for i in range(n)],
        "map": pa.array([[(f"key{i}", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.nulls(n, pa.int32()),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(i) for i in range(n)],
        "instant": pa.array([dt.datetime(2026, 1, 1, i % 24) for i in range(n)], pa.timestamp("us", "UTC")),
        "data": [bytes([i, 255]) for i in range(n)],
        "odd `.name": [float("nan") if i == 5 else i / 3 for i in range(n)],
    }
    path = write(tmp_path / "f.parquet", 3, **table)
    frame = spark().read.parquet(str(path))
    rows = scan(frame, keeping(path, lambda group: group.row_group == 1))
    assert rows.schema == frame.schema
    assert sorted(rows.collect()) == sorted(frame.where("g = 1").collect())
    partly = scan(frame, keeping(path, lambda g: g.row_group == 0), where="st.b.c IS NOT NULL", columns=["k", "st.a"])
    assert sorted(partly.collect()) == [(i, i) for i in range(0, 10, 3)]


UNUSED = {
    "timestamp without zone": (pa.timestamp("us"), lambda i: dt.datetime(2026, 1, 1 + i), "TIMESTAMP_NTZ'2026-01-03'"),
    "unsigned": (pa.uint32(), lambda i: 2**31 + i, "2147483650"),
    "fixed size": (pa.binary(4), lambda i: bytes([i] * 4), "X'02020202'"),
}


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("kind", UNUSED)
def test_types_whose_filters_spark_does_not_use_are_pruned_too(tmp_path: Path, kind: str) -> None:
    arrow, value, literal = UNUSED[kind]
    path = tmp_path / "f.parquet"
    # Each row group has a least and a greatest value that are no help.
    cells = [[value(0), value(i), value(20)] for i in (1, 2, 3)]
    filters = {"v": {"ndv": 3, "fpp": 1e-6}}
    column = pa.array([cell for group in cells for cell in group], arrow)
    pq.write_table(pa.table({"v": column}), path, row_group_size=3, bloom_filter_options=filters)
    frame = spark().read.parquet(str(path))
    where = f"v = {literal}"
    assert len(frame.where(where).collect()) == 1
    found, given_out = read_by(scan(frame, prune(path, where, timezone="UTC")).where(where))
    assert (len(found), given_out) == (1, 3)


# ---- files -------------------------------------------------------------------------------

ODD = ["a b", "50%", "x=y", "1+1", "#1", "é ü", "日本", "a%20b", "semi;colon", "q?", "[x]*", "quote'", "new\nline"]


@needs_java
@pytest.mark.spark
def test_odd_names_are_matched(tmp_path: Path) -> None:
    root = tmp_path / "data set"
    for number, name in enumerate(ODD):
        write(root / f"{name}.parquet", first=number * 1000)
    frame = read(root)
    rows = scan(frame, keeping(root, lambda group: group.row_group == 2))
    assert numbers(rows) == [number * 1000 + k for number in range(len(ODD)) for k in range(20, 30)]


@needs_java
@pytest.mark.spark
def test_partition_columns_have_their_values(tmp_path: Path) -> None:
    from urllib.parse import quote

    values = ["a b", "50%", "x=y", "1+1", "#1", "é", "a/b", None]
    for number, value in enumerate(values):
        folder = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" +é")
        write(tmp_path / f"p={folder}" / "f.parquet", first=number * 1000)
    paths = sorted(tmp_path.rglob("*.parquet"))
    frame = read(*paths, schema="p string, k bigint, g bigint", basePath=str(tmp_path))
    assert frame.columns != ["p", "k", "g"]  # Spark puts partitions last
    pruning = keeping(tmp_path, lambda group: group.row_group == 1)
    rows = scan(frame.select("p", "k", "g"), pruning)
    found, given_out = read_by(rows)
    assert set(found) == set(frame.where("g = 1").select("p", "k", "g").collect())
    assert {row.p for row in found} >= {"a b", "50%", "x=y", "1+1", "#1", "a/b", None}
    assert given_out == len(found) == len(values) * ROWS
    assert numbers(scan(frame, pruning, where="p = '50%'", columns=["k"])) == list(range(1010, 1020))


@needs_java
@pytest.mark.spark
def test_a_file_that_changed_is_read_whole(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.parquet") for name in "abc"]
    pruning = keeping(tmp_path, lambda group: group.row_group == 0)
    write(paths[0], 7, first=1000)
    # Of the same size, and as old, but another file.
    status = paths[1].stat()
    other = paths[1].with_suffix(".other")
    other.write_bytes(paths[1].read_bytes())
    os.utime(other, ns=(status.st_mtime_ns, status.st_mtime_ns))
    other.rename(paths[1])
    expected = sorted([*range(1000, 1070), *range(40), *range(10)])
    assert numbers(scan(read(tmp_path), pruning)) == expected


@needs_java
@pytest.mark.spark
def test_a_file_that_changed_after_spark_listed_it_is_read_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet")
    frame = read(path)
    status = path.stat()
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns + 10**10))
    assert numbers(scan(frame, keeping(path, lambda group: group.row_group == 0))) == list(range(40))


@needs_java
@pytest.mark.spark
def test_files_that_were_not_evaluated_are_read_completely(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.parquet")
    pruning = keeping([tmp_path / "a.parquet", tmp_path / "b.parquet"], lambda group: group.row_group == 3)
    a, b = pruning.all_files
    pruning = replace(pruning, all_files=(a, replace(b, row_groups=(), not_pruned="it could not be read")))
    rows, given_out = read_by(scan(read(tmp_path), pruning))
    assert given_out == len(rows) == 2 * 40 + ROWS


@needs_java
@pytest.mark.spark
def test_files_of_many_splits_keep_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 40)
    session = spark()
    session.conf.set("spark.sql.files.maxPartitionBytes", str(path.stat().st_size // 7))
    session.conf.set("spark.sql.files.openCostInBytes", "0")
    try:
        frame = read(path)
        assert frame.rdd.getNumPartitions() > 5
        rows = scan(frame, keeping(path, lambda group: group.row_group not in (3, 17, 18)))
        assert numbers(rows) == sorted(set(range(400)) - set(range(30, 40)) - set(range(170, 190)))
        assert rows.rdd.getNumPartitions() > 3
    finally:
        session.conf.unset("spark.sql.files.maxPartitionBytes")
        session.conf.unset("spark.sql.files.openCostInBytes")


@needs_java
@pytest.mark.spark
def test_a_file_that_is_listed_twice_is_read_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet")
    frame = read(path, path)
    assert frame.count() == 80
    rows = scan(frame, keeping(path, lambda group: group.row_group == 2))
    assert numbers(rows) == sorted([*range(20, 30)] * 2)


# ---- the result is a frame like any other ------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[Any, Any, Any]:
    """Returns a frame of 40 rows, and what is left of it with row group 1, and with row group 2."""
    path = write(tmp_path / "f.parquet")
    frame = read(path)
    return frame, *(scan(frame, keeping(path, lambda group, kept=kept: group.row_group == kept)) for kept in (1, 2))


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_the_result_composes(two: tuple[Any, Any, Any], adaptive: str, tmp_path: Path) -> None:
    frame, one, other = two
    session = spark()
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        assert numbers(one.union(other)) == list(range(10, 30))
        assert numbers(one.union(one)) == sorted([*range(10, 20)] * 2)
        assert (one.count(), one.where("k = 13").count(), one.where("k = 33").count(), one.count()) == (10, 1, 0, 10)
        assert one.alias("a").join(one.alias("b"), "k").count() == 10
        assert one.join(other.withColumnRenamed("g", "h"), "k").count() == 0
        assert one.join(frame.select("k"), "k").groupBy("s").count().count() == 10
        one.createOrReplaceTempView("one")
        twice = session.sql("SELECT * FROM one UNION ALL SELECT * FROM one WHERE k IN (SELECT max(k) FROM one)")
        assert numbers(twice) == [*range(10, 20), 19]
        one.write.parquet(str(tmp_path / "copy"))
        assert numbers(read(tmp_path / "copy")) == list(range(10, 20))
        assert frame.count() == 40
    finally:
        session.catalog.dropTempView("one")
        session.conf.unset("spark.sql.adaptive.enabled")


@needs_java
@pytest.mark.spark
def test_the_result_can_be_cached(two: tuple[Any, Any, Any]) -> None:
    _, one, other = two
    cached = one.cache()
    try:
        assert cached.count() == cached.count() == 10
        assert numbers(cached.union(other)) == list(range(10, 30))
    finally:
        cached.unpersist(blocking=True)


@needs_java
@pytest.mark.spark
def test_a_union_of_reads_is_one_scan(tmp_path: Path) -> None:
    paths = [write(tmp_path / name / "p=1" / "f.parquet", first=first) for name, first in (("a", 0), ("b", 1000))]
    schema = "k bigint, g bigint, s string, p int"
    reads = [read(path, schema=schema, basePath=str(path.parents[1])).select("s", "k", "p") for path in paths]
    union = reads[0].union(reads[1]).union(reads[0])
    pruning = keeping(paths, lambda group: group.row_group == 1)
    expected = sorted([*range(10, 20)] * 2 + [*range(1010, 1020)])
    rows, given_out = read_by(scan(union, pruning))
    assert (sorted(row.k for row in rows), given_out) == (expected, 30)
    assert numbers(scan(union, pruning, where="k < 1000", columns=["k"])) == sorted([*range(10, 20)] * 2)
    from pyspark.sql.functions import max as largest

    assert scan(union, pruning, columns=[largest("k")]).collect() == [(1019,)]
    with pytest.raises(Unavailable, match="different columns"):
        scan(read(paths[0]).select("s", "k").union(read(paths[1]).select("s", "g")), pruning)


@needs_java
@pytest.mark.spark
def test_the_row_reader_reads_the_same(two: tuple[Any, Any, Any], tmp_path: Path) -> None:
    session = spark()
    session.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        path = tmp_path / "f.parquet"
        assert numbers(scan(read(path), keeping(path, lambda group: group.row_group == 3))) == list(range(30, 40))
    finally:
        session.conf.unset("spark.sql.parquet.enableVectorizedReader")


# ---- what cannot be read so --------------------------------------------------------------


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda frame: frame.where("k > 3"), "not a plain read of files, but a Filter"),
        (lambda frame: frame.limit(3), "not a plain read"),
        (lambda frame: frame.selectExpr("k + 1 AS k"), "not a plain read of files, but a Project"),
        (lambda frame: frame.union(frame.distinct()), "not a plain read of files, but a Deduplicate"),
        (lambda frame: spark().range(3), "a Range"),
        (lambda frame: spark().createDataFrame([(1,)], "k int"), "not a plain read"),
    ],
)
def test_other_frames_are_refused(tmp_path: Path, change: Callable[[Any], Any], why: str) -> None:
    path = write(tmp_path / "f.parquet")
    with pytest.raises(Unavailable, match=why):
        scan(change(read(path)), prune(path, "k = 3"))


@needs_java
@pytest.mark.spark
def test_what_has_no_scan_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet")
    pruning = prune(path, "k = 3")
    with pytest.raises(Unavailable, match="known to be empty"):
        scan(read(path), pruning, where="k = NULL")
    with pytest.raises(Unavailable, match="_metadata"):
        scan(read(path), pruning, columns=["k", "_metadata.file_name"])
    cached = read(path).cache()
    try:
        with pytest.raises(Unavailable, match="cached"):
            scan(read(path), pruning)
        with pytest.raises(Unavailable, match="cached"):
            scan(read(path).union(read(path)), pruning)
    finally:
        cached.unpersist(blocking=True)
    with pytest.raises(Unavailable, match="stream"):
        scan(spark().readStream.schema("k bigint").parquet(str(tmp_path)), pruning)
    with pytest.raises(Unavailable, match="Parquet reader, but by"):
        scan(spark().read.schema("k bigint").orc(str(tmp_path)), pruning)


@needs_java
@pytest.mark.spark
def test_the_second_interface_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet")
    session = spark()
    session.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        with pytest.raises(Unavailable, match="data source V2"):
            scan(read(path), prune(path, "k = 3"))
    finally:
        session.conf.unset("spark.sql.sources.useV1SourceList")


@needs_java
@pytest.mark.spark
def test_bucketed_tables_are_refused(tmp_path: Path) -> None:
    session = spark()
    path = tmp_path / "bucketed"
    session.range(40).toDF("k").write.bucketBy(2, "k").option("path", str(path)).saveAsTable("bucketed")
    try:
        frame = session.table("bucketed")
        with pytest.raises(Unavailable, match="SubqueryAlias"):
            scan(frame, prune(path, "k = 3"))
        relation = frame._jdf.queryExecution().optimizedPlan()
        plain = type(frame)(frame._jdf.ofRows(session._jsparkSession, relation), session)
        with pytest.raises(Unavailable, match="bucketed"):
            scan(plain, prune(path, "k = 3"))
    finally:
        session.sql("DROP TABLE bucketed")
        with contextlib.suppress(OSError):
            Path("spark-warehouse").rmdir()  # which Spark makes for its catalog, and leaves empty


def test_spark_connect_is_refused() -> None:
    class Frame:
        __module__ = "pyspark.sql.connect.dataframe"

    with pytest.raises(Unavailable, match="Connect"):
        scan(Frame(), Pruning("TRUE", ()))  # type: ignore[arg-type]


@needs_java
@pytest.mark.spark
def test_internals_that_are_not_there_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet")
    scan(read(path), prune(path, "k = 3"))

    def pieces(leaf: Any) -> None:
        leaf._scan.noSuchMethod()

    monkeypatch.setattr(row_groups._Leaf, "pieces", pieces)
    with pytest.raises(Unavailable, match=r"noSuchMethod"):
        scan(read(path), prune(path, "k = 3"))


@needs_java
@pytest.mark.spark
def test_what_spark_says_of_a_condition_is_not_hidden(tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    path = write(tmp_path / "f.parquet")
    with pytest.raises(AnalysisException):
        scan(read(path), prune(path, "k = 3"), where="no_such_column = 3")


# ---- the test of a session ---------------------------------------------------------------


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "_PROBLEMS", {})


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("untested")
def test_a_session_that_reads_other_row_groups_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet")
    shifted = lambda groups, most: [Range(0, 1 << 40)]  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(row_groups, "ranges", shifted)
        with pytest.raises(Unavailable, match="does not read the row groups"):
            scan(read(path), prune(path, "k = 3"))
    with pytest.raises(Unavailable, match="does not read the row groups"):  # found out once
        scan(read(path), prune(path, "k = 3"))
    assert numbers(scan(_of_new_session(path), prune(path, "k = 3"))) == list(range(10))


def _of_new_session(path: Path) -> Any:
    return spark().newSession().read.parquet(str(path))


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("untested")
def test_a_session_is_tested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet")
    calls = []
    canary = row_groups._canary
    monkeypatch.setattr(row_groups, "_canary", lambda *args: calls.append(args) or canary(*args))
    for _ in range(3):
        scan(read(path), prune(path, "k = 3"))
    assert len(calls) == 1


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("untested")
def test_where_executors_do_not_see_the_file_the_driver_reads_it(tmp_path: Path) -> None:
    class Elsewhere:
        """A session whose master is another machine."""

        def __init__(self) -> None:
            self.read = spark().read

        class sparkContext:
            master = "spark://host:7077"

    path = write(tmp_path / "canary.parquet")
    pq.write_table(pa.table({"k": pa.array([0, 1, 1, 2, 1, 5], pa.int32())}), path, row_group_size=2)
    assert row_groups._canary(Elsewhere(), path) == [0, 1, 1, 2, 1, 5]  # statistics leave every row group open
    pq.write_table(pa.table({"k": pa.array([0, 0, 1, 1, 2, 2], pa.int32())}), path, row_group_size=2)
    assert row_groups._canary(Elsewhere(), path) == [1, 1]
