"""Reads exactly the kept row groups of a pruning with Spark's own vectorised reader.

Spark reads a row group with the split that contains its midpoint. Its plan for a frame lists the splits of each file;
here they are replaced by splits that contain the midpoints of kept row groups only, and Spark's Parquet reader is run
over those. That takes Spark's internals, which are the same from 3.5 to 4.3: whatever is not as expected raises
`Unavailable`, before any row is read, and the plain frame still gives the right rows.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from parquet_bloom.format.footer import Footer
from parquet_bloom.spark.conditions import quoted_name
from parquet_bloom.spark.jvm import Choice, Range, internals_of
from parquet_bloom.storage import local_files
from parquet_bloom.storage.cache import SHARED, Cache, footer_of
from parquet_bloom.storage.drive import drive
from parquet_bloom.storage.listing import Source, find
from parquet_bloom.verbs.prune import prune
from parquet_bloom.verbs.verdicts import FileVerdict, Pruning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Unavailable(Exception):
    """Why a frame cannot be read by row groups, in one sentence; nothing is wrong with the frame itself."""


def scan(
    frame: DataFrame,
    pruning: Pruning,
    *,
    where: Any = None,
    columns: Sequence[Any] | None = None,
    cache: Cache | None = None,
) -> DataFrame:
    """Return `frame`, which reads files of `pruning`, without the row groups that were pruned.

    `frame` is what `spark.read...parquet(...)` returns, perhaps with its columns selected, or a union of such reads.
    With `where` and `columns` the result is that of `.where(where).select(*columns)`, and both reach the Parquet
    reader, which what is done to the result later does not. Without `where` its rows are all rows of the kept row
    groups. A file that was not pruned, that `pruning` does not know, or that changed since is read as a whole.

    The result is a frame like any other, but Spark does not know its size, and it reads the files as they are now. Rows
    reach the query one by one, not in batches: where nothing was pruned the frame itself is faster, and is returned.
    Raises `Unavailable` for any other frame, and if this Spark does not pass a test on three tiny row groups, which is
    made once. Spark's own errors about `where` and `columns` are raised as they are.
    """
    reads, pruned = _plain_reads(frame), _pruned(pruning)
    if not pruned:
        return _finished(frame, where, columns)
    if problem := _canary_problem(frame.sparkSession):
        raise Unavailable(problem)
    return _scan(frame, reads, pruned, where=where, columns=columns, cache=SHARED if cache is None else cache)


def _scan(
    frame: DataFrame,
    reads: list[DataFrame],
    pruned: _Files,
    *,
    where: Any = None,
    columns: Sequence[Any] | None = None,
    cache: Cache,
) -> DataFrame:
    from pyspark.errors import AnalysisException

    plain = _finished(frame, where, columns)
    with _internals("this Spark cannot be made to read row groups"):
        try:
            rows = _finished(_united(reads, pruned, where, columns, cache), where, columns)
        except AnalysisException:  # Spark did not need a column of the condition, and so did not read it
            rows = _finished(_united(reads, pruned, where, None, cache), where, columns)
        if rows.schema != plain.schema:
            raise Unavailable("the columns that are read by row groups are not those of the frame")
    return rows


def _united(
    reads: list[DataFrame], pruned: _Files, where: Any, columns: Sequence[Any] | None, cache: Cache
) -> DataFrame:
    """Return the kept row groups of all reads, in the columns that Spark needs for `where` and `columns`."""
    frames = [_kept_rows(_Leaf(_finished(read, where, columns)), read, pruned, cache) for read in reads]
    if any(other.schema != frames[0].schema for other in frames):
        raise Unavailable("the parts of the union are read in different columns")
    return functools.reduce(lambda left, right: left.union(right), frames)


def _finished(rows: DataFrame, where: Any, columns: Sequence[Any] | None) -> DataFrame:
    rows = rows if where is None else rows.where(where)
    return rows if columns is None else rows.select(*columns)


def _kept_rows(leaf: _Leaf, read: DataFrame, pruned: _Files, cache: Cache) -> DataFrame:
    """Return those columns of a read that its leaf gives, of the kept row groups."""
    if not set(leaf.names) <= set(read.columns):
        raise Unavailable("columns that Spark makes up, such as _metadata, cannot be read by row groups")
    rows = leaf.rows(_choices(leaf, pruned, cache))
    return rows.select(*(quoted_name(name) for name in read.columns if name in leaf.names))


@contextlib.contextmanager
def _internals(what: str) -> Iterator[None]:
    """Make every error of the block `Unavailable`: of py4j, of Spark, or a method that this version does not have."""
    try:
        yield
    except Unavailable:
        raise
    except Exception as error:
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        said = said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"  # it may be a whole plan
        raise Unavailable(f"{what}: {said}") from error


_MOST_SAID = 200


# ---- frames that can be read so ----------------------------------------------------------


def _plain_reads(frame: DataFrame) -> list[DataFrame]:
    """Return the plain reads that `frame` is a union of; raise `Unavailable` if anything else is done in it.

    That would be lost, for only the scans are used.
    """
    if ".connect." in type(frame).__module__:
        raise Unavailable("Spark Connect gives no access to the plan of a frame")
    with _internals("the frame's plan cannot be seen"):
        if frame.isStreaming:
            raise Unavailable("a stream reads files as they come")
        if frame.storageLevel.useMemory or frame.storageLevel.useDisk:
            raise Unavailable("the frame is cached, and reads no files")
        plan = frame._jdf.queryExecution().analyzed()
        if _simple_name(plan) != "Union":
            _check_read(plan)
            return [frame]
        return [read for part in _branches(frame, plan) for read in _plain_reads(part)]


def _branches(frame: DataFrame, union: Any) -> Iterator[DataFrame]:
    children = union.children()
    for index in range(children.size()):
        part = type(frame)(
            frame._jdf.ofRows(frame.sparkSession._jsparkSession, children.apply(index)), frame.sparkSession
        )
        if part.columns != frame.columns:
            raise Unavailable("the parts of the union have different columns")
        yield part


def _check_read(plan: Any) -> None:
    while _simple_name(plan) == "Project" and plan.outputSet().subsetOf(plan.child().outputSet()):  # no new column
        plan = plan.child()
    if _simple_name(plan) == "DataSourceV2Relation":
        raise Unavailable("Spark reads this through data source V2")
    if _simple_name(plan) != "LogicalRelation" or _simple_name(relation := plan.relation()) != "HadoopFsRelation":
        raise Unavailable(f"the frame is not a plain read of files, but a {_simple_name(plan)}")
    if (reader := relation.fileFormat().getClass().getName()) != _PARQUET:
        raise Unavailable(f"the frame is not read by Spark's own Parquet reader, but by {reader}")
    if relation.bucketSpec().isDefined():
        raise Unavailable("the table is bucketed, and its splits are its buckets")


def _simple_name(java_object: Any) -> str:
    name: str = java_object.getClass().getSimpleName()
    return name


_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


# ---- which bytes of a file hold what is kept ---------------------------------------------


class RowGroup(NamedTuple):
    """A row group's midpoint, as parquet-java computes it, and the bytes `start` to `stop` of its pages."""

    midpoint: int
    start: int
    stop: int
    is_kept: bool


def ranges(row_groups: Iterable[RowGroup], most: int) -> list[Range]:
    """Return ranges which hold the midpoint of every kept row group once, and none of another.

    Neighbours share a range while it is at most `most` bytes. A range is about the bytes that will be read, so that
    Spark packs tasks by its length. (Row groups that share a midpoint are one to Spark.)
    """
    by_midpoint: dict[int, RowGroup] = {}
    for group in sorted(row_groups):
        same = by_midpoint.get(group.midpoint, group)
        start, stop, is_kept = min(group.start, same.start), max(group.stop, same.stop), group.is_kept or same.is_kept
        by_midpoint[group.midpoint] = RowGroup(group.midpoint, start, stop, is_kept)
    groups = list(by_midpoint.values())
    joined: list[Range] = []
    index = 0
    while index < len(groups):
        if not groups[index].is_kept:
            index += 1
            continue
        first = last = index
        while (
            last + 1 < len(groups) and groups[last + 1].is_kept and groups[last + 1].stop - groups[first].start <= most
        ):
            last += 1
        after = groups[first - 1].midpoint + 1 if first else 0
        start = max(after, min(groups[first].start, groups[first].midpoint))
        stop = max(groups[last].stop, groups[last].midpoint + 1)
        if last + 1 < len(groups):
            stop = min(stop, groups[last + 1].midpoint)
        joined.append(Range(start, stop - start))
        index = last + 1
    return joined


def midpoints(footer: Footer) -> list[int] | None:
    """Return the offset by which parquet-java gives each row group to a split, or None where that is not certain.

    That is where the first column chunk starts, and half of the row group's compressed size, or where that is not set
    half the sum of its column chunks'.
    """
    offsets = []
    for row_group in range(footer.num_row_groups):
        midpoint = _midpoint(footer, row_group)
        if midpoint is None or midpoint >= footer.file_size:
            return None
        offsets.append(midpoint)
    return offsets


def _midpoint(footer: Footer, row_group: int) -> int | None:
    total = footer.compressed_size(row_group)
    if total is not None and footer.is_whole and footer.chunk_starts:
        return _middle(footer.column_chunk(row_group, 0).meta_data, total)
    chunks = [column.meta_data for column in footer.metadata.row_groups[row_group].columns]
    if not chunks or any(chunk is None for chunk in chunks):  # no columns, or encrypted ones
        return None
    return _middle(chunks[0], sum(chunk.total_compressed_size for chunk in chunks) if total is None else total)


def _middle(first: Any, total: int) -> int | None:
    """Return the middle of a row group whose first column chunk this is, and whose size is `total`."""
    start: int = first.data_page_offset
    if first.dictionary_page_offset is not None and first.dictionary_page_offset < start:
        start = first.dictionary_page_offset  # zero is an offset like any other to parquet-java
    return None if start < 0 or total < 0 else start + total // 2


# ---- which of Spark's splits are replaced ------------------------------------------------


class _Piece(NamedTuple):
    """A split of a file in Spark's plan."""

    path: str
    start: int
    length: int
    file_size: int
    modified: int  # milliseconds


_Key = tuple[str, str]
_Files = dict[_Key, tuple[FileVerdict, Source]]


def _key_of_uri(uri: str) -> _Key:
    """Return what identifies a file, from the percent-encoded URI of Spark's listing."""
    scheme, _, rest = uri.partition(":")
    return _ALIASES.get(scheme, scheme), unquote(rest.removeprefix("//"), errors="surrogateescape")


def _key_of_source(source: Source) -> _Key:
    if source.is_local:
        return "file", source.path
    scheme, _, rest = source.name.partition("://")
    return _ALIASES.get(scheme, scheme), rest


_ALIASES = {"s3a": "s3", "s3n": "s3"}


def _pruned(pruning: Pruning) -> _Files:
    """Return the files of which a part was pruned."""
    pairs = zip(pruning.all_files, pruning._sources, strict=True)
    return {
        _key_of_source(source): (file, source)
        for file, source in pairs
        if file.not_pruned is None and not all(group.is_kept for group in file.row_groups)
    }


def _unchanged(pruned: _Files, pieces: list[_Piece]) -> _Files:
    """Return the pruned files of a plan that have not changed since they were pruned, nor since Spark listed them."""
    listed: dict[_Key, tuple[Source, int]] = {}
    changed = set()
    for piece in pieces:
        if (key := _key_of_uri(piece.path)) in pruned:
            file, source = pruned[key]
            listed[key] = source, piece.modified
            if piece.file_size != file.size:
                changed.add(key)
    changed |= _changed({key: pair for key, pair in listed.items() if key not in changed})
    return {key: pruned[key] for key in listed if key not in changed}


def _changed(listed: dict[_Key, tuple[Source, int]]) -> set[_Key]:
    """Return the files that are not what was pruned, now or when Spark listed them with that modification time."""
    changed = set()
    remote: dict[int, dict[_Key, Source]] = defaultdict(dict)
    for key, (source, modified) in listed.items():
        if not source.is_local:
            remote[id(source.fs)][key] = source
        elif not _is_same_local(source, modified):
            changed.add(key)
    for of_store in remote.values():
        sources = list(of_store.values())
        try:
            now = {s.path: s.version for s in find([s.path for s in sources], filesystem=sources[0].fs)}
        except Exception:  # a file that has gone, and whatever else stores raise
            now = {}
        changed |= {key for key, source in of_store.items() if now.get(source.path) != source.version}
    return changed


def _is_same_local(source: Source, modified: int) -> bool:
    try:
        status = os.stat(source.path)  # noqa: PTH116, for very many files
    except OSError:
        return False
    seconds = status.st_mtime_ns // 10**9 * 1000  # all that older versions of Java see
    return local_files.version(status) == source.version and modified in (status.st_mtime_ns // 10**6, seconds)


def _row_groups(known: _Files, cache: Cache) -> dict[_Key, list[RowGroup]]:
    """Return the row groups of each file; none of a file that is skipped.

    A file is missing if it is not known how Spark splits it.
    """
    found: dict[_Key, list[RowGroup]] = {key: [] for key, (file, _) in known.items() if not file.is_kept}
    parts = {key: pair for key, pair in known.items() if key not in found}
    outcomes = drive((source, footer_of(source, cache)) for _, source in parts.values())
    for (key, (file, _)), (_, footer) in zip(parts.items(), outcomes, strict=True):
        if isinstance(footer, Exception) or (middles := midpoints(footer)) is None:
            continue
        groups = zip(file.row_groups, middles, strict=True)
        found[key] = [RowGroup(middle, group.start, group.stop, group.is_kept) for group, middle in groups]
    return found


def _choices(leaf: _Leaf, pruned: _Files, cache: Cache) -> list[Choice]:
    """Return what of a leaf's files is to be read."""
    pieces = leaf.pieces()
    known = _unchanged(pruned, pieces)
    return _chosen(pieces, known, _row_groups(known, cache), leaf.splitting())


def _chosen(
    pieces: list[_Piece], known: _Files, row_groups: dict[_Key, list[RowGroup]], splitting: _Splitting
) -> list[Choice]:
    """Return what to read: Spark's own splits of files that are not known, and ranges of the others.

    A range takes the place of the split that it lies in, whose executors are near. A file that was listed twice has two
    such splits, and is read twice.
    """
    chosen = []
    of_file: dict[_Key, list[int]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        if (key := _key_of_uri(piece.path)) in row_groups:
            of_file[key].append(number)
        else:
            chosen.append(Choice(number, Range(piece.start, piece.length)))
    kept = [group.stop - group.start for groups in row_groups.values() for group in groups if group.is_kept]
    most = splitting.most_bytes(sum(kept) + sum(choice.range.length for choice in chosen), len(kept) + len(chosen))
    for key, numbers in of_file.items():
        for wanted in ranges(row_groups[key], most):
            middle = min(wanted.start + wanted.length // 2, known[key][0].size - 1)
            for number in numbers:
                if pieces[number].start <= middle < pieces[number].start + pieces[number].length:
                    chosen.append(Choice(number, wanted))
    return sorted(chosen, key=lambda choice: -choice.range.length)  # as Spark packs them


# ---- Spark's side ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Splitting:
    """How Spark cuts files into tasks."""

    most: int
    open_cost: int
    tasks: int

    def most_bytes(self, num_bytes: int, num_files: int) -> int:
        """Return how many bytes a task should have at most, given those to read in all."""
        per_task = (num_bytes + num_files * self.open_cost) // max(1, self.tasks)
        return min(self.most, max(self.open_cost, per_task))


class _Leaf:
    """The scan in the physical plan of a frame, and its splits, which stay in the JVM."""

    def __init__(self, frame: DataFrame) -> None:
        self._kind_of_frame = type(frame)
        self._session = frame.sparkSession
        self._spark: Any = self._session._jsparkSession
        self._java = internals_of(self._session.sparkContext._gateway)
        leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
        if leaves.size() != 1 or _simple_name(leaves.apply(0)) != "FileSourceScanExec":
            raise Unavailable("Spark does not read the frame by one scan: it may be cached, or known to be empty")
        self._scan = leaves.apply(0)
        self._schema = self._scan.schema()
        self.names = frozenset(self._schema.fieldNames())
        self._splits: Any = None

    def splitting(self) -> _Splitting:
        """Return how Spark would cut files into tasks now."""
        conf = self._spark.sessionState().conf()
        wanted = conf.filesMinPartitionNum()
        tasks = wanted.get() if wanted.isDefined() else self._spark.leafNodeDefaultParallelism()
        return _Splitting(conf.filesMaxPartitionBytes(), conf.filesOpenCostInBytes(), tasks)

    def pieces(self) -> list[_Piece]:
        """Return the splits that Spark planned, as they are numbered."""
        partitions = self._java.list_of(self._scan.inputRDD().filePartitions())
        self._splits = self._java.flattened(partitions, "files")
        fields = ("filePath", "start", "length", "fileSize", "modificationTime")
        paths, *numbers = (self._java.texts(self._splits, field) for field in fields)
        return [_Piece(path, *map(int, of_piece)) for path, *of_piece in zip(paths, *numbers, strict=True)]

    def rows(self, chosen: list[Choice]) -> DataFrame:
        """Return a frame of what Spark's reader finds in these splits."""
        jvm, relation = self._java.jvm, self._scan.relation()
        sources = jvm.org.apache.spark.sql.execution.datasources
        splits = self._java.sequence(self._java.copies(self._splits, chosen))
        partitions = sources.FilePartition.getFilePartitions(self._spark, splits, self._most_bytes(chosen))
        rdd = sources.FileScanRDD(
            self._spark,
            self._reader(),
            partitions,
            self._schema,
            self._java.sequence(jvm.java.util.ArrayList()),
            relation.fileFormat().fileConstantMetadataExtractors(),
            jvm.org.apache.spark.sql.catalyst.FileSourceOptions(relation.options()),
        )
        return self._kind_of_frame(self._spark.internalCreateDataFrame(rdd, self._schema, False), self._session)

    def read_here(self, chosen: list[Choice]) -> Iterator[Any]:
        """Yield the JVM's rows, each only until the next, as the driver reads them."""
        read = self._reader()
        for split in self._java.copies(self._splits, chosen):
            rows = read.apply(split)
            while rows.hasNext():
                yield rows.next()

    def _reader(self) -> Any:
        """Return the function that reads a split, as rows: batches would need a plan node of their own."""
        scan, relation = self._scan, self._scan.relation()
        options = relation.options().updated("returning_batch", "false")
        return relation.fileFormat().buildReaderWithPartitionValues(
            self._spark,
            relation.dataSchema(),
            relation.partitionSchema(),
            scan.requiredSchema(),
            scan.pushedDownFilters(),
            options,
            self._spark.sessionState().newHadoopConfWithOptions(options),
        )

    def _most_bytes(self, chosen: list[Choice]) -> int:
        return self.splitting().most_bytes(sum(choice.range.length for choice in chosen), len(chosen))


# ---- whether this Spark reads as it should -----------------------------------------------

# Three row groups of one required INT32 column k: once 0, twice 1, three times 2. As pyarrow 26 writes it with
# use_dictionary=False, compression="none", store_schema=False, then compressed here by zlib.
_CANARY = """
eNp9kcFqwzAMhmVjTA47tAcJG3zIpSaHtKyD9ZTL3qDsDUJJ2Bhz07RzX7YPM81N18BGBDKS+b/fEt6+vK4RMMOsRMmFRu2MAo7rSVCMuvkcrsHK
Gc5KVL+ISCIxIPcuIWJIVhs0JSM3TCahHLB7lzA5SlS2fAajj7u35rNGCSgXYMQH0IOtrPPgUNqFBst3CCSppdZn1eQu1uHPSOn1lqTPqIW/VooC
BR+qyR3HVoGUZ+QfK02Ror+IanLxsVckzXqKUORd3R++mtNy13XLuu/35zw2/fF9H/KnzepxtbbOMVHwQFv+1G+JCisZ
"""
_PROBLEMS: dict[tuple[str, int], str | None] = {}


def _canary_problem(session: SparkSession) -> str | None:
    """Return why this session's Spark cannot be trusted with row groups, or None; it is tested once for a session."""
    with _internals("the session cannot be told from others"):
        spark: Any = session._jsparkSession
        key = session.sparkContext.applicationId, spark.hashCode()
    if key not in _PROBLEMS:
        _PROBLEMS[key] = _tried(session)
    return _PROBLEMS[key]


def _tried(session: SparkSession) -> str | None:
    with tempfile.TemporaryDirectory(prefix="parquet-bloom-") as folder:
        path = Path(folder, "canary.parquet")
        path.write_bytes(zlib.decompress(base64.b64decode(_CANARY)))
        try:
            values = _canary(session, path)
        except Unavailable as problem:
            return str(problem)
    return None if values == [1, 1] else f"Spark {session.version} does not read the row groups that it was given"


def _canary(session: SparkSession, path: Path) -> list[int]:
    """Return what is read of the row group of ones."""
    with _internals("the test of three row groups failed"):
        frame = session.read.schema("k int").parquet(path.as_uri())
        pruned, cache = _pruned(prune(path, "k = 1")), Cache(0)
        if str(session.sparkContext.master).startswith("local"):
            rows = _scan(frame, _plain_reads(frame), pruned, cache=cache).collect()
            return [row.k for row in rows]
        leaf = _Leaf(frame)  # executors on other machines do not see the file, so the driver reads it
        return [row.getInt(0) for row in leaf.read_here(_choices(leaf, pruned, cache))]
