"""`read`: a DataFrame over only the files that can match, by Spark's own reader."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from parquet_bloom.errors import PredicateError, UnsupportedError
from parquet_bloom.filters.stored import index_of
from parquet_bloom.spark.conditions import LOG, is_column, quoted_name, trusted, understood, warn_of_unused
from parquet_bloom.spark.inference import schema_of, with_folders
from parquet_bloom.spark.jvm import internals_of
from parquet_bloom.spark.session import Settings, changed, cores
from parquet_bloom.spark.stores import SparkOptions, for_spark, require_schemes, settled, spark_reads
from parquet_bloom.spark.tasks import (
    TASKS_PER_CORE,
    driver_reads,
    given_paths,
    live_sources_of,
    local_path,
    name_of,
    table_at,
)
from parquet_bloom.spark.views import SparkView
from parquet_bloom.storage.cache import SHARED, footer_of
from parquet_bloom.storage.drive import drive
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find, find_flat, find_in_folders, resolve
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.storage.strays import parquet_only, strays_among
from parquet_bloom.tables import Snapshot
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.verbs.exact import ExactPlan
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.prune import FileEvaluator
from parquet_bloom.verbs.verdicts import FileVerdict, Pruning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read(
    spark: SparkSession,
    paths: Any,
    where: Any,
    columns: Sequence[Any] | str | None = None,
    *,
    row_groups: bool = False,
    exact: bool | None = None,
    index: PathLike | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return `spark.read.parquet(paths).where(where)`, made to read only the files that can match.

    `where` is text or a Column, and Spark applies it again: the rows are those that Spark would return. Parts of it
    that are not understood, or that this session's settings make uncertain, prune nothing, with a warning. The schema
    is that of all files, also if none is kept. Later changes of the files are not seen. `options` are those of
    `spark.read`; `index` is the folder of an index that was created with `at=`; `storage_options` are those of fsspec,
    for what the driver reads, or "spark".

    Where few row groups are left, the driver also reads their columns that the condition compares with `=` or `IN`, and
    drops those that do not contain the value, as `parquet_bloom.prune(exact=True)` does: by default at most 64 row
    groups and 16 MiB. `exact` forces or forbids that.

    With `row_groups`, a classic session reads exactly the row groups that can match, also by filters of types that
    Spark does not use; if that is not possible, it logs why and reads whole files.
    """
    if not isinstance(where, str) and not is_column(where):
        raise PredicateError(f"a condition for Spark is text or a Column, not {type(where).__name__}")
    paths, storage_options = settled(spark, paths, storage_options)
    lake = lake_of(spark, paths, options=options, storage_options=storage_options)
    settings = lake.settings
    predicate = understood(settings, where, lake.nothing, strict=False)
    opened = index_of(lake.paths, lake.sources, index, storage_options=storage_options, cache=SHARED)
    predicate_here = trusted(settings, predicate, lake.schema, lake.options, lake.doubtful())
    warn_of_unused(settings, where, predicate_here)
    evaluator = FileEvaluator(
        predicate_here,
        timezone=settings.timezone,
        case_sensitive=settings.case_sensitive,
        index=opened,
        view=lake.view(),
        open_files=None if exact is False else {},
    )
    files, _ = evaluator.evaluate_all(lake.sources, progress)
    if exact or (exact is None and _are_few(files)):
        files = _exactly(evaluator.plan_exact(lake.sources, files), progress, is_forced=exact is True)
    pruning = Pruning(str(predicate), tuple(files), tuple(lake.sources))
    kept = [source for source, file in zip(lake.sources, files, strict=True) if file.is_kept]
    LOG.info("reading %d of %d files", len(kept), len(files))
    names = [columns] if isinstance(columns, str) else columns
    if row_groups and kept:
        from parquet_bloom.spark.row_groups import Unavailable, scan

        try:
            return scan(lake.files(kept), pruning, where=where, columns=names)
        except Unavailable as why:
            LOG.warning("reading whole files: %s", why)
    frame = lake.files(kept).where(where)
    return frame if names is None else frame.select(*names)


_MOST_ROW_GROUPS, _MOST_BYTES = 64, 16 * 1024 * 1024
"""What the driver reads at most unless it is forced: less than a task of Spark takes."""


def _are_few(files: list[FileVerdict]) -> bool:
    kept = (file for file in files if file.is_kept)
    return sum(group.is_kept for file in kept for group in file.row_groups) <= _MOST_ROW_GROUPS


def _exactly(plan: ExactPlan, progress: Progress | None, *, is_forced: bool) -> list[FileVerdict]:
    """Return the verdicts after reading columns of the row groups that are left, if that is little or forced."""
    if not plan.num_row_groups:
        return plan.files
    if not is_forced and plan.num_bytes > _MOST_BYTES:
        LOG.info("columns are not read for exact pruning: they take %s bytes", f"{plan.num_bytes:,}")
        return plan.files
    LOG.info("reading columns of %d row groups, %s bytes at most", plan.num_row_groups, f"{plan.num_bytes:,}")
    return plan.carry_out(progress)


@dataclass(frozen=True)
class Lake:
    """What `spark.read.parquet(paths)` would read: its schema, and its files in the order of their paths."""

    spark: SparkSession
    settings: Settings
    paths: tuple[str, ...]
    schema: StructType
    sources: list[Source]
    options: Mapping[str, Any] = field(default_factory=dict)
    partition_names: frozenset[str] | None = frozenset()
    """The columns that are folders, as Spark names them; None if it does not say."""

    whole: DataFrame | None = None
    """All files, if Spark has listed them."""

    reads_twice: bool = False
    """Whether Spark reads a file more than once, for several paths name it."""

    is_whole: bool = True
    """Whether Spark would read no other files below the paths."""

    def files(self, kept: Sequence[Source]) -> DataFrame:
        """Return a DataFrame over some of the files, with the schema and the partition columns of all."""
        if not kept:
            return self.nothing()
        if self.whole is not None and (len(kept) == len(self.sources) or not self.is_sure):
            if not self.is_sure:
                LOG.warning("reading all files: paths overlap, or folders and Spark's partition columns differ")
            return self.whole
        return self._read(kept) if len(kept) < len(self.sources) or not self.is_whole else self._read_paths(self.paths)

    def nothing(self) -> DataFrame:
        """Return a DataFrame over none of the files, with the schema of all; it has `_metadata`, as others have."""
        return self._read_paths(()).where("false")

    def _read(self, sources: Sequence[Source]) -> DataFrame:
        with changed(self.spark, *self._how_to_list(sources)):
            # Spark refuses partitions below several folders, so the base of one file is that of all.
            return self._read_paths([*map(_escaped, map(name_of, sources))], self._base(sources[0]))

    def _how_to_list(self, sources: Sequence[Source]) -> tuple[str, str | None]:
        """Return a setting with which Spark lists these files fast; with None it stays as it is.

        For more paths than its driver lists, Spark starts a task each. Local files the driver lists faster than tasks,
        thousands of them, too; and for others it is told how many tasks to start.
        """
        value = None
        if len(sources) > _LISTED_BY_DRIVER:
            if all(source.is_local for source in sources):
                return _DISCOVERY + "threshold", str(len(sources))
            value = str(TASKS_PER_CORE * cores(self.spark))
        return _DISCOVERY + "parallelism", value

    def _read_paths(self, paths: Sequence[str], base: str | None = None) -> DataFrame:
        """Return what Spark reads from paths, with the schema of the lake; each step is a call to the JVM."""
        with spark_reads(paths):
            return self._typed([for_spark(self.settings, path) for path in paths], base)

    def _typed(self, paths: Sequence[str], base: str | None) -> DataFrame:
        base = None if base is None else for_spark(self.settings, base)
        reader = self.spark.read
        for name, value in (*self.options.items(), *([("basePath", base)] if base is not None else ())):
            reader = reader.option(name, value)
        if self.settings.is_connect:
            frame = reader.schema(self.schema).parquet(*paths)
        else:
            jvm = internals_of(self.spark.sparkContext._gateway)
            typed = reader._jreader.schema(self.spark._jsparkSession.parseDataType(self.schema.json()))
            frame = reader._df(typed.parquet(jvm.array_of(paths)))
        if self.partition_names == frozenset() or frame.columns == self.schema.names:
            return frame
        return frame.select(*map(quoted_name, self.schema.names))  # a partition column that is also in the files moves

    def view(self) -> SparkView:
        """Return how Spark reads the files."""
        folders = {} if self.partition_names == frozenset() else {s.path: self.partitions(s) for s in self.sources}
        return SparkView.of(self.settings, self.schema, folders)

    @cached_property
    def _names(self) -> set[frozenset[str] | None]:
        """Which columns the files' folders are, each such set once; None for a file that no path leads to."""
        known = map(self._known_partitions, self.sources if self.partition_names != frozenset() else ())
        return {None if one is None else frozenset(one.constants) for one in known}

    @cached_property
    def is_sure(self) -> bool:
        """Whether Spark reads each file once, with its folders as the partition columns."""
        if self.reads_twice:
            return False
        if self.partition_names is None:  # then files with other folders may be ones that it does not read
            return len(self._names) < 2 and None not in self._names
        return self._names <= {self.partition_names}

    def doubtful(self) -> frozenset[str]:
        """Return the columns that may or may not be folders, because Spark and this differ."""
        if self.is_sure:
            return frozenset()
        return frozenset().union(self.partition_names or (), *(names or () for names in self._names))

    def partitions(self, source: Source) -> Partitions:
        """Return which of a file's folders Spark reads as columns: those directly above it, from its base on."""
        return self._known_partitions(source) or Partitions()

    def _known_partitions(self, source: Source) -> Partitions | None:
        if self.partition_names == frozenset():
            return Partitions()
        name, known = name_of(source), self._of_folders
        if known is None:
            return self._partitions_in(name)
        folder = _folder_of(source)
        if folder not in known:
            known[folder] = self._partitions_in(name)
        return known[folder]

    @cached_property
    def _of_folders(self) -> dict[str, Partitions | None] | None:
        """The partitions of folders, to be filled in; None where those of a folder's files may differ."""
        return {} if len(self.paths) == 1 and not _is_glob(self.paths[0]) else None

    def _partitions_in(self, name: str) -> Partitions | None:
        _, parts = _split(name)
        if (base := self._base_length(parts)) is None:
            return None
        folders: list[tuple[str, str]] = []
        for part in reversed(parts[base:-1]):
            name, equals, text = part.partition("=")
            if equals and name:
                folders.insert(0, (quote(unquote(name, encoding="latin-1")), text))  # by which name Spark calls it
            elif folders:
                break
        return Partitions(tuple(folders), are_sure=True)

    def _base(self, source: Source) -> str | None:
        """Return below which folder a file's `name=value` folders are partitions, or None if there are none."""
        root, parts = _split(name_of(source))
        if self._option("basePath") or not self.partitions(source).directories:
            return None
        return root + "/".join(parts[: self._base_length(parts)])

    def _base_length(self, parts: Sequence[str]) -> int | None:
        """Return how many folders lead to the base; all of them if the file has no partitions, None if no path does."""
        if self._option("recursiveFileLookup").lower() == "true":
            return len(parts)
        base = self._option("basePath")
        bases = [_given(base)] if base else self.paths
        above = [folders for _, folders in map(_split, bases) if _leads_to(folders, parts, is_literal=bool(base))]
        return max(map(len, above), default=None)

    def _option(self, name: str) -> str:
        """Return an option, whatever the case of its name; the last one counts, as for Spark."""
        values = [value for key, value in self.options.items() if key.lower() == name.lower()]
        return "" if not values else str(values[-1])


def _leads_to(folders: Sequence[str], parts: Sequence[str], *, is_literal: bool) -> bool:
    """Return whether a path of these names, each of which may be a glob, may be above a file, or the file."""
    same = (a == b or (not is_literal and _is_glob(a)) for a, b in zip(folders, parts, strict=False))
    return len(folders) <= len(parts) and all(same)


def lake_of(
    spark: SparkSession, paths: Any, *, options: Mapping[str, Any] | None = None, storage_options: StorageOptions = None
) -> Lake:
    """Return what Spark would read: from our own listing where all is plain, else from Spark's.

    Of a Delta table it is what Delta's reader would read. Raises `UnsupportedError` for the directory of a table whose
    rows are not those of its live Parquet files as Spark reads them.
    """
    named = given_paths(paths)
    listed = [os.fspath(path) for path in (named if isinstance(named, list) else [named])]
    settings, options = Settings(spark), dict(options or {})
    require_schemes(settings, listed)
    given = tuple(map(_given, listed))
    with driver_reads(storage_options):
        if (lake := _of_table(spark, settings, given, options, storage_options)) is not None:
            return lake
        is_plain = not options and not any(map(_is_glob, given)) and not _may_overlap(given)
        is_plain = is_plain and not settings.is_on("spark.sql.parquet.mergeSchema")
        if is_plain and (lake := _listed_here(spark, settings, given, storage_options)) is not None:
            return lake
        with spark_reads(given):
            whole = spark.read.options(**options).parquet(*(for_spark(settings, path) for path in given))
            names = sorted(map(_decoded, whole.inputFiles()))
        partition_names = _partition_names(whole)
        sources = find(names, storage_options=storage_options) if names else []
    if len(given) == 1:  # as if they had been found below it
        top = resolve(given[0], None, storage_options)[1].rstrip("/")
        sources = [replace(source, relative=source.path.removeprefix(top).lstrip("/")) for source in sources]
    twice = _reads_twice(whole, len(names), given)
    lake = Lake(spark, settings, given, whole.schema, sources, options, partition_names, whole, twice)
    if not lake.is_sure and (folders := _partition_folders(whole)):
        read = [source for source in sources if _folder_of(source) in folders]
        if folders == set(map(_folder_of, read)):  # else they are spelled in another way
            return replace(lake, sources=read)
    return lake


def _folder_of(source: Source) -> str:
    return name_of(source).rpartition("/")[0]


def _of_table(
    spark: SparkSession,
    settings: Settings,
    given: tuple[str, ...],
    options: Mapping[str, Any],
    storage_options: StorageOptions,
) -> Lake | None:
    """Return the live files of the one table that is given; None if no path is that of a table."""
    tables = ((path, kind) for path in given if (kind := table_at(path, storage_options)))
    if (table := next(tables, None)) is None:
        return None
    (path, kind), why = table, None
    if kind != "Delta":  # whose reader is Spark's own, with the table's schema
        why = f"{kind}'s reader is not Spark's"
    elif len(given) > 1 or options:
        why = "with other paths, or with options, it is not known how they are read"
    else:
        sources, snapshot = live_sources_of(path, storage_options)
        assert snapshot is not None
        schema = _declared(snapshot)
        why = TableFiles(snapshot, sources).no_dataset or next(iter(snapshot.text_rules.values()), None)
        if why is None and schema is not None:
            return Lake(spark, settings, given, schema, sources, is_whole=False)
    raise UnsupportedError(
        f"{path} is a {kind} table, whose rows are not those of its Parquet files "
        f"({why or 'it has columns of other types'}): read it with spark.read.format({kind.lower()!r}); "
        "parquet_bloom.find returns its rows without Spark, and prune and lookup say which live files may match"
    )


def _declared(snapshot: Snapshot) -> StructType | None:
    """Return the columns that a table declares as Spark's, all of which may be NULL; None if they are not known."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = [] if snapshot.columns is None else snapshot.columns()
    if not columns or any(column.type is None for column in columns):
        return None
    return from_arrow_schema(pa.schema([(column.name, column.type) for column in columns]))


def _listed_here(
    spark: SparkSession, settings: Settings, given: tuple[str, ...], storage_options: StorageOptions
) -> Lake | None:
    """Return the lake by our own listing; None where Spark might make another of it."""
    if listed := find_flat(given, storage_options=storage_options):
        sources = parquet_only(listed)
        of_files = _schema_of(spark, settings, sources[0])
        return Lake(spark, settings, given, of_files, sources, is_whole=len(sources) == len(listed))
    if len(given) > 1 or not (sources := find_in_folders(given[0], storage_options=storage_options) or []):
        return None
    if strays_among(sources):
        return None
    of_files = _schema_of(spark, settings, sources[0])
    if (schema := with_folders(settings, of_files, sources)) is None:
        return None
    names = frozenset(schema.names[len(of_files.names) :])
    return Lake(spark, settings, given, schema, sources, partition_names=names)


def _partition_names(frame: DataFrame) -> frozenset[str] | None:
    """Return which columns of a plain read are folders, or None if Spark does not say."""
    try:
        schema = frame._jdf.queryExecution().analyzed().relation().partitionSchema()
        return frozenset(schema.fieldNames())
    except Exception:  # there is no JVM at hand, or it has other methods
        return None


def _reads_twice(frame: DataFrame, num_names: int, paths: Sequence[str]) -> bool:
    """Return whether a plain read takes a file more than once; if Spark does not say, whether that may be."""
    try:
        return int(frame._jdf.queryExecution().analyzed().relation().location().allFiles().size()) > num_names
    except Exception:  # as above
        return _may_overlap(paths)


def _may_overlap(paths: Sequence[str]) -> bool:
    """Return whether several paths may name one file."""
    if any(map(_is_glob, paths)):
        return len(paths) > 1 or "{" in paths[0]
    ordered = sorted(f"{path.rstrip('/')}/" for path in paths)
    return any(after.startswith(path) for path, after in pairwise(ordered))


def _partition_folders(frame: DataFrame) -> set[str]:
    """Return the folders whose files a plain read takes if some folders are columns; none if Spark does not say.

    Its `inputFiles` are also those of other folders.
    """
    try:
        partitions = frame._jdf.queryExecution().analyzed().relation().location().partitionSpec().partitions()
        paths = [partitions.apply(number).path() for number in range(partitions.size())]
        return {_decoded(path.toUri().toString()) for path in paths}
    except Exception:  # as above
        return set()


_LISTED_BY_DRIVER = 32
_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery."

_SCHEMAS: dict[Any, StructType] = {}
_MOST_SCHEMAS = 64


def _schema_of(spark: SparkSession, settings: Settings, source: Source) -> StructType:
    """Return the schema that Spark infers from a file; the same file under the same settings has the same."""
    key = None
    if source.identity is not None and settings.identity is not None:
        key = source.identity, settings.identity
    if key is None or key not in _SCHEMAS:
        ((_, footer),) = drive([(source, footer_of(source, SHARED))])
        inferred = None if isinstance(footer, Exception) else schema_of(settings, footer)
        schema = _spark_schema(spark, settings, source) if inferred is None else inferred
        if key is None:
            return schema
        if len(_SCHEMAS) >= _MOST_SCHEMAS:
            _SCHEMAS.clear()
        _SCHEMAS[key] = schema
    return _SCHEMAS[key]


def _spark_schema(spark: SparkSession, settings: Settings, source: Source) -> StructType:
    name = name_of(source)
    with spark_reads([name]):
        return spark.read.parquet(for_spark(settings, _escaped(name))).schema


def _given(path: Any) -> str:
    text: str = os.fspath(path)
    if text.startswith("file:"):
        return local_path(text)
    return text if "://" in text else os.path.abspath(text)


def _decoded(uri: str) -> str:
    """Return the path that a URI of Spark means."""
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else unquote(uri)


def _escaped(path: str) -> str:
    """Return a path that Spark does not read as a glob."""
    return "".join(f"\\{char}" if char in _GLOBBED else char for char in path)


def _split(path: str) -> tuple[str, list[str]]:
    """Return the root of a path, and the names on the way down from it."""
    scheme, separator, below = path.rpartition("://")
    return f"{scheme}://" if separator else "/", [part for part in below.split("/") if part]


def _is_glob(text: str) -> bool:
    return any(char in _GLOBBED for char in text)


_GLOBBED = "{}[]*?\\"
