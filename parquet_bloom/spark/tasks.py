"""Work on many files, shared out among a cluster's executors: many paths a task, balanced by size, results as rows.

An executor's Python calls the same verbs as the driver would, on its share of the paths. So parquet_bloom must be
installed there, and the files are read through fsspec.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import StoreError, UnsupportedError, describe_error
from parquet_bloom.spark.session import EXECUTORS_NEED, cores, interruptibly, job
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find, listed
from parquet_bloom.storage.strays import parquet_only
from parquet_bloom.tables import LiveFile, Snapshot, is_table, kind_of_path, listed_paths, live_sources
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[..., Iterable[dict[str, Any]]]
"""What a task does with its paths, and with their part of a snapshot: it returns rows of the announced schema."""

TASKS_PER_CORE = 2
"""More tasks would balance better; a task with Python in it costs some 30 ms."""

COST_OF_A_FILE = 4 * 1024 * 1024
"""What opening a file costs, in bytes that could be read meanwhile: as `spark.sql.files.openCostInBytes` has it."""

_ROWS_AT_ONCE = 1000


def paths_of(paths: Any) -> PathLike | list[PathLike]:
    """Return paths as the verbs take them, those of a DataFrame (its column `path`, or its only one) as a list."""
    given = given_paths(paths)
    return list(map(local_path, given)) if isinstance(given, list) else local_path(given)


def given_paths(paths: Any) -> PathLike | list[PathLike]:
    """Return paths as they were given, those of a DataFrame (its column `path`, or its only one) as a list."""
    if not hasattr(paths, "sparkSession"):
        return paths if isinstance(paths, str | os.PathLike) else list(listed(paths))
    column = "path" if "path" in paths.columns or len(paths.columns) > 1 else paths.columns[0]
    return [row[0] for row in paths.select(column).collect()]


def local_path(path: PathLike) -> str:
    """Return a path, of a `file:` URI as Hadoop reads it: not percent-decoded, and without query or fragment."""
    text = os.fspath(path)
    if not text.startswith("file:"):
        return text
    below = text.removeprefix("file:")
    return "/" + below[2:].partition("/")[2] if below.startswith("//") else below


def sources_of(paths: Any, storage_options: StorageOptions) -> list[Source]:
    """Return the files that `paths` name, which may be a DataFrame."""
    with driver_reads(storage_options):
        return parquet_only(find(paths_of(paths), storage_options=storage_options))


def live_sources_of(
    paths: Any, storage_options: StorageOptions, catalog: str | None = None, *, allow_outside: bool = False
) -> tuple[list[Source], Snapshot | None]:
    """Return the files that `paths` name, which may be a DataFrame; of a table the live ones, and their snapshot."""
    given = paths_of(paths) if hasattr(paths, "sparkSession") else listed_paths(paths)
    if catalog is None:
        given = [path if is_table(path) else paths_of(path) for path in listed_paths(given)]
    with driver_reads(storage_options):
        sources, snapshot = live_sources(
            given, catalog=catalog, storage_options=storage_options, allow_outside=allow_outside
        )
    return (parquet_only(sources) if snapshot is None else sources), snapshot


def table_at(path: PathLike, storage_options: StorageOptions) -> str | None:
    """Return which format's table a directory is, or None."""
    named = os.fspath(path)
    if named.endswith(".parquet") or any(char in named for char in "*?["):
        return None
    return kind_of_path(named, storage_options)


GONE = "the file was deleted after the call began"


def inside(paths: list[str], part: Snapshot | None) -> tuple[list[str], Snapshot | None, list[LiveFile]]:
    """Return the files that may be read, with their part of a snapshot, and those that are not read."""
    if part is None:
        return paths, None, []
    files = [(path, file) for path, file in zip(paths, part.files, strict=True) if not file.is_unread]
    unread = [file for file in part.files if file.is_unread]
    return [path for path, _ in files], replace(part, files=tuple(file for _, file in files)), unread


def present(paths: list[str], storage_options: StorageOptions, *, literal: bool = False) -> tuple[list[str], list[str]]:
    """Return which of the files are there, and which were deleted since the driver listed them."""
    try:
        find(paths, storage_options=storage_options, literal=literal)
    except FileNotFoundError:
        pass
    else:
        return paths, []
    gone = []
    for path in paths:
        try:
            find(path, storage_options=storage_options, literal=literal)
        except FileNotFoundError:
            gone.append(path)
    return [path for path in paths if path not in gone], gone


def balanced(weights: Sequence[int], num_tasks: int) -> list[list[int]]:
    """Return the indexes of `weights` in at most `num_tasks` shares of about the same sum, each in order.

    >>> balanced([5, 1, 1, 1, 1, 1], 2)
    [[0], [1, 2, 3, 4, 5]]
    """
    shares: list[list[int]] = [[] for _ in range(min(num_tasks, len(weights)))]
    heap = [(0, number) for number in range(len(shares))]
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, number = heap[0]
        heapq.heapreplace(heap, (load + weights[index], number))
        shares[number].append(index)
    return [sorted(share) for share in shares]


def shared_out(sources: Sequence[Source], num_tasks: int) -> list[list[str]]:
    """Return the sources' names in shares: local ones as absolute paths, for the executors' folders are others."""
    shares = balanced([source.size + COST_OF_A_FILE for source in sources], num_tasks)
    return [[name_of(sources[index]) for index in share] for share in shares]


def name_of(source: Source) -> str:
    """Return what tasks call a file."""
    return source.path if source.is_local else source.name


def frame_of(
    spark: SparkSession,
    shares: Sequence[list[str]],
    work: Work,
    schema: pa.Schema,
    parts: Sequence[object] | None = None,
) -> DataFrame:
    """Return the rows of each share's work, a task for each, run whenever the frame is."""
    from pyspark.sql.pandas.types import from_arrow_schema

    packed = [None if parts is None else pickle.dumps(parts[number]) for number in range(len(shares))]
    rows = list(zip(range(len(shares)), shares, packed, strict=True))
    tasks = spark.createDataFrame(rows, "task int, paths array<string>, part binary")
    spread = tasks.repartitionByRange(max(1, len(shares)), "task")  # a number given by the user is kept as it is
    return spread.select("paths", "part").mapInArrow(_Task(work, schema), from_arrow_schema(schema))


def _shared_out(snapshot: Snapshot, sources: Sequence[Source], shares: Sequence[list[str]]) -> list[Snapshot]:
    """Return what the snapshot says of the files of each share, in their order."""
    files = dict(zip(map(name_of, sources), snapshot.files, strict=True))
    return [replace(snapshot, files=tuple(files[name] for name in share), recorded=None) for share in shares]


def only(part: Snapshot, paths: Sequence[str], kept: Iterable[str]) -> Snapshot:
    """Return what a part of a snapshot, whose files have these paths, says of the kept ones, in their order."""
    files = dict(zip(paths, part.files, strict=True))
    return replace(part, files=tuple(files[path] for path in kept))


def run(
    spark: SparkSession,
    sources: Sequence[Source],
    work: Work,
    schema: pa.Schema,
    *,
    description: str,
    snapshot: Snapshot | None = None,
    num_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows of work on all sources, done when this returns; they stay on the executors until `unpersist`.

    Where the sources are the files of a `snapshot`, each task's work is given its part of that, too.
    """
    shares = shared_out(sources, num_tasks or TASKS_PER_CORE * cores(spark))
    parts = None if snapshot is None else _shared_out(snapshot, sources, shares)
    rows = frame_of(spark, shares, work, schema, parts).persist()
    with job(spark, description, progress), readable_errors():
        interruptibly(spark, rows.count)
    return rows


def to_arrow(rows: DataFrame) -> pa.Table:
    """Return the rows of a frame as Arrow; before PySpark 4, too, which had no `toArrow`."""
    import pyarrow as pa

    if hasattr(rows, "toArrow"):
        return rows.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    packed = rows.mapInArrow(packed_batches, "batch binary").collect()
    tables = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in packed]
    return pa.concat_tables(tables) if tables else to_arrow_schema(rows.schema).empty_table()


def packed_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as a row with its bytes in Arrow's stream format; what `mapInArrow` calls."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])


REFUSED = re.compile(
    r"NoCredentialsError|PartialCredentialsError|Unable to locate credentials|AccessDenied|Access Denied|Forbidden|"
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|PermissionError"
)
"""What a store says, or its library, if credentials are missing or wrong."""

_NONE_FOUND = re.compile("NoCredentialsError|PartialCredentialsError|Unable to locate credentials")

ON_EXECUTOR = (
    "an executor found no credentials, the driver did: those of the driver's environment do not reach executors; "
    "give storage_options=, or set spark.executorEnv.AWS_ACCESS_KEY_ID and its like"
)


class SparkRefused(StoreError):
    """A store refused Spark itself."""


@contextlib.contextmanager
def driver_reads(storage_options: StorageOptions) -> Iterator[None]:
    """Say of a store's refusal that it was the driver's Python that was refused, and how to give it credentials."""
    try:
        yield
    except SparkRefused:
        raise
    except OSError as error:
        if error.filename is not None or not REFUSED.search(f"{type(error).__name__}: {error}"):
            raise
        advice = "correct storage_options=" if storage_options else "give storage_options='spark' to use them"
        raise StoreError(f"{error}; the driver's Python does not see Spark's settings (fs.s3a.*): {advice}") from error


def error_on_executor(error: Exception) -> str:
    """Return an error of a task as one line, with advice if it found no credentials."""
    text = describe_error(error)
    is_refused = isinstance(error, OSError) and error.filename is None and _NONE_FOUND.search(text)
    return f"{text}; {ON_EXECUTOR}" if is_refused else text


class readable_errors:
    """A block in which Spark's error becomes our sentence, if the executors lack a package or credentials."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            return
        text = str(error)
        if "No module named 'parquet_bloom" in text:
            raise UnsupportedError(EXECUTORS_NEED) from error
        if lacking := _LACKING.search(text):
            raise UnsupportedError(f"in the executors' Python, {lacking[0]}") from error
        raised = _RAISED.findall(text)
        if raised and _NONE_FOUND.search(raised[-1]):
            raise StoreError(f"{raised[-1]}; {ON_EXECUTOR}") from error


_LACKING = re.compile(r"reading such URLs needs [^\n]*")
_RAISED = re.compile(r"^\s*(?:parquet_bloom\.errors\.StoreError|PermissionError): (.*)$", re.MULTILINE)


class _Task:
    """A task's rows as Arrow batches; what `mapInArrow` calls."""

    def __init__(self, work: Work, schema: pa.Schema) -> None:
        self._work, self._schema = work, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        at_once = getattr(self._work, "rows_at_once", _ROWS_AT_ONCE)  # fewer, if they are large
        for batch in batches:
            for paths, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                rows = iter(self._work(paths) if part is None else self._work(paths, pickle.loads(part)))
                while some := list(islice(rows, at_once)):
                    yield pa.RecordBatch.from_pylist(some, schema=self._schema)
