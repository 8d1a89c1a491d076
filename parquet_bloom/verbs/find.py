"""`find`: the rows that match a condition, or that have one of many keys.

`prune` or `lookup` say which row groups can hold such rows. Of each, the columns of the condition are read first, and
of these only the pages that can hold such rows; the condition is evaluated on every row of them, and the other columns
are read only where rows match.
"""

from __future__ import annotations

import contextlib
import re
import threading
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, together, with_tail
from parquet_bloom.format.page_index import Page, index_extents, read_pages
from parquet_bloom.format.schema import (
    BYTE_ARRAY,
    FIXED,
    ColumnPath,
    LeafColumn,
    LogicalType,
    PhysicalType,
    format_path,
    parse_path,
)
from parquet_bloom.predicates.binding import why_conflicting
from parquet_bloom.predicates.evaluation import BoundPredicate
from parquet_bloom.predicates.pages import Runs, leaves_with_pages, runs_left, runs_of
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.rows import RowFilter, Typed, key_filter, key_points, plain_type, row_filter
from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Or, Predicate, normalized
from parquet_bloom.results import FailedFile, in_unicode
from parquet_bloom.storage.cache import Cache, footer_of
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, changes, drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.tables.columns import constant, is_widened
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.tables.stored import stored_columns
from parquet_bloom.values.arrays import numbers_as_arrow, numbers_of
from parquet_bloom.values.encoding import parse_literal
from parquet_bloom.verbs.checks import Checks
from parquet_bloom.verbs.declared import Declared
from parquet_bloom.verbs.exact import INDEX_WORTH, THREAD_WORTH
from parquet_bloom.verbs.keys import Keys, read_keys
from parquet_bloom.verbs.lookup import Hit, Search, outcomes
from parquet_bloom.verbs.opening import Opened, open_files
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads
from parquet_bloom.verbs.prune import FileEvaluator, Schemas
from parquet_bloom.verbs.streams import Stream
from parquet_bloom.verbs.verdicts import partition_types

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.storage.rows import FileRows

EXPECTED = (ParquetBloomError, OSError)
"""What is wrong with one file, which does not end a call over many."""

POSITION = ("path", "row_group", "row")
"""The columns that say where a row is: its file, the row group's number there, and the row's number in the file."""

BATCH_ROWS = 64 * 1024

TOGETHER = 64 * 1024
"""Of a store, columns of at most so many bytes are read beside those of the condition: a request takes longer."""


class Found(Stream):
    """The rows of `find`, made as they are taken: read them once, as Arrow record batches or in one of the ways below.

    Only when `.errors` is empty at the end were all files read.
    """

    ROWS, VERB = "rows", "find"

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        errors: Collection[FailedFile] = (),
        condition_columns: Sequence[str] = (),
    ) -> None:
        super().__init__(batches, schema, errors)
        self.condition_columns = tuple(condition_columns)


def find(
    paths: PathLike | Iterable[PathLike] | Any,
    where: Any = None,
    *,
    column: str | None = None,
    keys: Any = None,
    columns: Iterable[str] | None = None,
    positions: bool = False,
    limit: int | None = None,
    timezone: str | None = None,
    case_sensitive: bool = True,
    catalog: str | None = None,
    as_of: int | str | None = None,
    allow_outside: bool = False,
    strict: bool = False,
    decryption: Decryption | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    cache: Cache | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Found:
    """Return the rows that match `where`, or whose `column` is one of `keys`, as a stream of Arrow record batches.

    Row groups are pruned first. Of the others only the columns of the condition are read, of these only the pages that
    can hold such rows, and the other columns only where rows match.

    The condition has the meaning that it has in Spark 4: NaN equals NaN and is greater than any other number, and an
    integer is compared with a DECIMAL exactly. What cannot be evaluated exactly, such as a function, is refused.
    Columns have the types that pyarrow reads them in, but INT96 is an instant in microseconds. Tables are named as for
    `prune`. Only their live rows are found, in the table's columns and types; a file of which it is not known which
    rows are live is an error.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        where: SQL text in Spark's dialect, a list of filters as in pyarrow, a pyarrow `Expression`, or built with
            `col()`.
        column: Instead of `where`, the column that holds the keys.
        keys: The keys, as for `lookup`.
        columns: The columns to return; all by default.
        positions: Also return `path`, `row_group` and `row`, the number of the row in its file, from 0.
        limit: Return at most so many rows.
        timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
        case_sensitive: Whether column names must match exactly.
        catalog: A catalog of pyiceberg's configuration; `paths` is then the name of an Iceberg table, such as
            `db.events`.
        as_of: An earlier version of a table, or a time in ISO 8601.
        allow_outside: Also read files that a table's metadata names outside of the table's directory, such as those of
            a shallow clone. By default they are errors.
        strict: Raise for a file that cannot be read, instead of going on with the others.
        decryption: Keys for encrypted files.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        cache: Keeps footers and filters for the next call. By default all calls share one; `Cache(0)` keeps nothing.
        limits: How many files and bytes are read at once.
        progress: Is called with how much is done and how much there is in all.
        log: Collects every read request.

    Returns:
        A `Found`, which can be read once. `.errors` are the files that could not be read, known at the end.

    Raises:
        FileNotFoundError: A path names nothing.
        PredicateError: The condition does not parse.
        ColumnNotFoundError: No file has a column.
        LiteralError: A column cannot be compared with a literal or a key.
        UnsupportedError: The condition cannot be evaluated exactly, or the files do not fit together.

    Examples:
        >>> parquet_bloom.find("events", "id = 7", columns=["id", "user"]).to_arrow().to_pylist()
        [{'id': 7, 'user': 'u7'}]
        >>> parquet_bloom.find("events", column="id", keys=[7, 5000], positions=True, columns=[]).to_arrow().to_pylist()
        [{'path': 'events/b.parquet', 'row_group': 1, 'row': 501}]
    """
    import pyarrow as pa

    if (where is None) == (keys is None) or (column is None) != (keys is None):
        raise TypeError("find takes a condition, or a column and its keys")
    opened = open_files(
        paths,
        catalog=catalog,
        as_of=as_of,
        filesystem=filesystem,
        storage_options=storage_options,
        cache=cache,
        log=log,
        limits=limits,
        allow_outside=allow_outside,
    )
    declared = Declared.of(opened.table)
    question: _Condition | _KeysOf
    if keys is None:
        question = _Condition(
            FileEvaluator(
                normalized(to_predicate(where)),
                timezone=timezone,
                case_sensitive=case_sensitive,
                cache=opened.cache,
                limits=limits,
                strict=strict,
                decryption=decryption,
                log=log,
                index=opened.index,
                table=opened.table,
                view=declared,
                open_files={},
                keeps_answers=False,
                schemas={},
            )
        )
    else:
        assert column is not None
        question = _KeysOf(
            Search(
                path := parse_path(column),
                read_keys(keys, path[-1]),
                timezone=timezone,
                cache=opened.cache,
                limits=limits,
                decryption=decryption,
                snapshot=opened.table.snapshot if opened.table else None,
                index=opened.index,
                storage_options=storage_options,
                view=declared and declared.at(path),
                checks=Checks(num_threads(None)),
            ),
            strict=strict,
            declared=declared,
        )
    failed: dict[str, FailedFile] = {}
    kept = question.search(opened.sources, failed, progress=progress, log=log)
    footers = _Footers(opened, declared, decryption, limits, log)
    files = list(footers.of(kept, failed, strict=strict))
    seen = files + footers.seen(question.schemas) or ([] if declared else footers.any_of(opened.sources))
    if not seen and failed and declared is None:
        return Found(iter(()), pa.schema([]), failed.values())
    shape = _Shape.of(seen, opened, declared, case_sensitive=case_sensitive)
    chosen = shape.choose(columns, positions=positions)
    row_test = question.on(shape)
    reader = _Reader(
        shape=shape, chosen=chosen, test=row_test, positions=positions, strict=strict, limits=limits, log=log
    )
    batches = reader.batches(files, failed, progress)
    return Found(_limited(batches, limit), reader.schema, failed.values(), row_test.names)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows
        if left <= 0:
            return


# ---- what is asked -----------------------------------------------------------------------


class _Group(NamedTuple):
    """A row group that may hold rows; `bound` is the condition on its file, `keys` those that it may hold."""

    row_group: int
    bound: BoundPredicate | None = None
    keys: Sequence[int] | None = None


class _Kept(NamedTuple):
    """A file that may hold rows; None for all of its row groups, or if its footer is not at hand."""

    source: Source
    groups: list[_Group] | None
    footer: Footer | None = None


class _RowTest:
    """Which rows of a row group match: a condition or keys, as the files' common types have them."""

    names: tuple[str, ...]
    """The top-level columns that it takes."""

    def leaves(self, group: _Group, footer: Footer) -> list[LeafColumn]:
        """Return the columns whose pages' bounds exclude rows."""
        raise AssertionError

    def runs(self, group: _Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        """Return the rows that pages leave, None for all."""
        raise AssertionError

    def mask(self, group: _Group, columns: Mapping[ColumnPath, Any]) -> Any:
        """Return which rows match, without nulls."""
        raise AssertionError

    paths: tuple[ColumnPath, ...]


class _Condition:
    """`find` by a condition."""

    def __init__(self, evaluator: FileEvaluator) -> None:
        self._evaluator = evaluator

    @property
    def schemas(self) -> Schemas:
        """A file of each schema that was seen."""
        return self._evaluator.schemas or {}

    def search(
        self,
        sources: list[Source],
        failed: dict[str, FailedFile],
        *,
        progress: Progress | None,
        log: RequestLog | None,
    ) -> list[_Kept]:
        evaluator = self._evaluator
        files, findings = evaluator.evaluate_all(sources, progress)
        is_declared = evaluator.view is not None  # then the table's columns say what is wrong with the condition
        if any(file.not_pruned is None for file in files) and not is_declared:
            findings.raise_unless_bound()
        if (conflicting := findings.conflicting) and not is_declared:
            columns = _columns_of(evaluator.predicate)
            raise UnsupportedError(why_conflicting(format_path(columns[min(conflicting)])))
        evaluator.strays.rest(sources)
        open_files = evaluator.open_files or {}
        kept = []
        for source, file in zip(sources, files, strict=True):
            live = None if evaluator.table is None else evaluator.table.files[source]
            if live is not None and live.not_excluded is not None and not live.is_unread:
                kept.append(_Kept(source, None))  # perhaps its rows are the table's, only nothing excludes them
            elif file.not_pruned is not None:
                failed[source.name] = FailedFile(source.name, file.not_pruned)
            elif source in open_files:
                bound, known = open_files[source]
                numbers = [one.row_group for one in file.row_groups if one.is_kept]
                groups = [_Group(number, bound) for number in numbers if number is not None]
                kept.append(_Kept(source, groups, known.footer))
        return kept

    def on(self, shape: _Shape) -> _RowTest:
        evaluator = self._evaluator
        return _ConditionTest(row_filter(evaluator.predicate, shape.typed, timezone=evaluator.timezone), shape)


def _columns_of(predicate: Predicate) -> list[ColumnPath]:
    """Return the column of each test, in the order in which tests are numbered."""
    match predicate:
        case And(parts) | Or(parts):
            return [path for part in parts for path in _columns_of(part)]
        case Comparison(column=path) | In(column=path) | IsNull(column=path):
            return [path]
    return []


class _ConditionTest(_RowTest):
    def __init__(self, filter_: RowFilter, shape: _Shape) -> None:
        self._filter, self.paths = filter_, filter_.paths
        self.names = tuple(dict.fromkeys(shape.resolved(path)[0] for path in filter_.paths))

    def leaves(self, group: _Group, footer: Footer) -> list[LeafColumn]:
        return [] if group.bound is None else list(dict.fromkeys(leaves_with_pages(group.bound, footer)))

    def runs(self, group: _Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        assert group.bound is not None
        return runs_left(group.bound, footer, pages)

    def mask(self, group: _Group, columns: Mapping[ColumnPath, Any]) -> Any:
        return self._filter.mask(columns)


class _KeysOf:
    """`find` by keys."""

    def __init__(self, search: Search, *, strict: bool, declared: Declared | None) -> None:
        self._search, self._strict, self._declared = search, strict, declared

    @property
    def schemas(self) -> Schemas:
        """A file of each schema that was seen."""
        return self._search.schemas

    def search(
        self,
        sources: list[Source],
        failed: dict[str, FailedFile],
        *,
        progress: Progress | None,
        log: RequestLog | None,
    ) -> list[_Kept]:
        refused: Exception | None = None
        understood = False
        found: dict[Source, list[Hit]] = {}
        for source, outcome in outcomes(sources, self._search, progress=progress, log=log):
            if not isinstance(outcome, Exception):
                understood = True
                found[source] = outcome
                continue
            found.pop(source, None)
            if isinstance(outcome, ColumnNotFoundError):
                if self._declared is None or self._search.path[0] not in self._declared.columns:
                    refused = refused or outcome  # none of its rows has a key
                    continue
                understood = True
                if self._declared.may_have_values(source, self._search.path[0]):
                    found[source] = [Hit(None, None, str(outcome))]
                continue
            if isinstance(outcome, LiteralError):
                raise outcome
            if self._strict:
                raise outcome
            failed[source.name] = FailedFile(source.name, describe_error(outcome))
        if refused and not understood:
            raise refused
        if self._search.findings.conflicting and self._declared is None:
            raise UnsupportedError(why_conflicting(format_path(self._search.path)))
        return [_Kept(source, _groups(found[source])) for source in sources if found.get(source)]

    def on(self, shape: _Shape) -> _RowTest:
        return _KeysTest(self._search, shape)


def _groups(hits: Iterable[Hit]) -> list[_Group] | None:
    """Return the row groups that hits are in, each with its keys."""
    keys: dict[int, list[Sequence[int]] | None] = {}
    for hit in hits:
        if hit.row_group is None:
            return None
        of_group = keys.setdefault(hit.row_group, [])
        if hit.keys is None or of_group is None:
            keys[hit.row_group] = None
        else:
            of_group.append(hit.keys)
    return [
        _Group(number, keys=None if parts is None else array("i", dict.fromkeys(chain.from_iterable(parts))))
        for number, parts in sorted(keys.items())
    ]


class _KeysTest(_RowTest):
    def __init__(self, search: Search, shape: _Shape) -> None:
        self._search = search
        self._path = search.path
        self.paths = (search.path,)
        self.names = (shape.resolved(search.path)[0],)
        self._column = shape.typed(search.path)
        keys = search.keys
        points = _points_of_all(search.path, self._column, keys) if keys.is_exact else None
        self._points = (
            key_points(search.path, self._column, _literals(keys, self._column), timezone=search.timezone)
            if points is None
            else points
        )

    def leaves(self, group: _Group, footer: Footer) -> list[LeafColumn]:
        leaf = self._leaf(footer)
        if leaf is None or leaf.is_repeated or group.keys is None:
            return []  # what is known of all rows together proved nothing either
        keys, reader = self._search.bound(leaf)
        return [] if keys.unprovable or keys.wide.owners or reader.why_no_pages(footer) else [leaf]

    def _leaf(self, footer: Footer) -> LeafColumn | None:
        snapshot = self._search.snapshot
        path = self._path if snapshot is None else snapshot.locate(footer, self._path)
        return next((leaf for leaf in footer.leaves if leaf.path == path), None)

    def runs(self, group: _Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        ((index, of_column),) = pages.items()
        keys, reader = self._search.bound(footer.leaves[index])
        known = [reader.read_page(footer, page.num_rows, page.bounds) for page in of_column]
        runs = [keys.within(of_page) for of_page in known]
        return runs_of(of_column, [start < stop for start, stop in runs])

    def mask(self, group: _Group, columns: Mapping[ColumnPath, Any]) -> Any:
        points = self._points if group.keys is None else self._points.take(numbers_as_arrow(array("q", group.keys)))
        return key_filter(self._path, self._column, points.drop_null()).mask(columns)


def _literals(keys: Keys, column: Typed) -> Iterator[Any]:
    """Yield keys as literals; text is parsed as the column's type. None for what no value equals."""
    takes_empty = column.leaf is not None and column.leaf.physical_type in (BYTE_ARRAY, FIXED)
    for key in keys.literals:
        if not keys.are_text or column.leaf is None:
            yield key
        elif key == "" and not takes_empty:
            yield None
        else:
            yield parse_literal(column.leaf, str(key))


def _points_of_all(path: ColumnPath, column: Typed, keys: Keys) -> Any:
    """Return keys as values to compare, all at once; None where each has to be looked at."""
    import pyarrow as pa

    kind, given = plain_type(column.type), keys.shown.type
    are_texts = (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and (
        pa.types.is_string(given) or pa.types.is_large_string(given)
    )
    are_integers = pa.types.is_integer(kind) and pa.types.is_integer(given)
    if not (are_texts or are_integers) or (keys.are_text and not are_texts):
        return None
    key_points(path, column, keys.shown.drop_null()[:1], timezone=None)  # raises what is wrong with all of them
    try:
        return keys.shown.cast(pa.large_binary() if are_texts else kind)
    except pa.ArrowInvalid:  # a number that is too large
        return None


# ---- the columns of all files together ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """A file that may hold rows: `names` maps what all files call a column to what this one calls it.

    `unread` are columns whose values it does not tell, each with why, `deleted` the numbers of its deleted rows.
    """

    source: Source
    footer: Footer
    rows: FileRows
    groups: list[_Group]
    names: dict[str, str]
    constants: dict[str, str | None]
    unread: dict[str, str] = field(default_factory=dict)
    deleted: array[int] = field(default_factory=lambda: array("q"))


class _Footers:
    """Footers of files, from the cache or read."""

    def __init__(
        self,
        opened: Opened,
        declared: Declared | None,
        decryption: Decryption | None,
        limits: Limits,
        log: RequestLog | None,
    ) -> None:
        self._opened, self._declared = opened, declared
        self._decryption, self._limits, self._log = decryption, limits, log

    def of(self, kept: list[_Kept], failed: dict[str, FailedFile], *, strict: bool) -> Iterator[_File]:
        """Yield files that may hold rows with their footers; a file that cannot be read is a failed one."""
        kept = [one for one in kept if self._is_readable(one.source, failed, strict=strict)]
        plans = ((one.source, self._footer(one)) for one in kept)
        for one, (source, outcome) in zip(kept, drive(plans, limits=self._limits, log=self._log), strict=True):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                yield self._file(source, outcome, one.groups)
            except EXPECTED as error:
                if strict:
                    raise
                failed[source.name] = FailedFile(source.name, describe_error(error))

    def _footer(self, one: _Kept) -> Plan[Footer]:
        if one.footer is not None:
            return one.footer
        return (yield from footer_of(one.source, self._opened.cache, self._decryption))

    def _is_readable(self, source: Source, failed: dict[str, FailedFile], *, strict: bool) -> bool:
        table = self._opened.table
        if table is None or (reason := table.files[source].unreadable) is None:
            return True
        if strict:
            raise UnsupportedError(reason)
        failed[source.name] = FailedFile(source.name, reason)
        return False

    def seen(self, schemas: Schemas) -> list[_File]:
        """Return a file of each schema that can be read, for its columns."""
        files = []
        for source, footer in schemas.values():
            with contextlib.suppress(*EXPECTED):
                files.append(self._file(source, footer, []))
        return files

    def any_of(self, sources: Sequence[Source]) -> list[_File]:
        """Return one file that can be read, for its schema; none if there is no such file."""
        for source in sources:
            try:
                footer = run(source, footer_of(source, self._opened.cache, self._decryption), log=self._log)
                return [self._file(source, footer, [])]
            except EXPECTED:
                continue
        return []

    def _file(self, source: Source, footer: Footer, groups: list[_Group] | None) -> _File:
        from parquet_bloom.storage.rows import FileRows

        if groups is None:
            groups = [_Group(number) for number, one in enumerate(footer.row_groups) if one.num_rows]
        if (table := self._opened.table) is None:
            rows = FileRows(source, footer)
            rows.schema  # noqa: B018  # raises what is wrong with it
            names = {name: name for name in rows.fields}
            return _File(source, footer, rows, groups, names, _constants(source))
        live = table.files[source]
        columns = None if self._declared is None else self._declared.columns
        stored = stored_columns(table.snapshot, live, footer, columns)
        rows = FileRows(source, footer, stored.paths)
        rows.schema  # noqa: B018
        deleted = deleted_rows(table, source, footer) if groups else array("q")
        return _File(source, footer, rows, groups, stored.names, stored.constants, stored.unread, deleted)


def deleted_rows(table: TableFiles, source: Source, footer: Footer) -> array[int]:
    """Return the numbers of a file's deleted rows."""
    deleted = table.snapshot.deleted_rows(table.files[source])
    num_rows = sum(one.num_rows for one in footer.row_groups)
    if deleted and not 0 <= deleted[0] <= deleted[-1] < num_rows:
        raise CorruptFileError(f"the table has row {deleted[-1]:,} of it deleted; it has {num_rows:,} rows")
    return deleted


def _constants(source: Source) -> dict[str, str | None]:
    """Return the partition values of a file in its directories."""
    return {} if not source.partitions.directories else replace(source.partitions, perhaps=()).constants


class _Shape:
    """The columns that all files together have: of each a common type, and a leaf that says what literals mean."""

    def __init__(
        self,
        fields: dict[str, pa.DataType],
        leaves: Mapping[ColumnPath, LeafColumn],
        partitions: Mapping[str, pa.DataType],
        unsure: frozenset[str],
        declared: Declared | None = None,
        *,
        case_sensitive: bool,
    ) -> None:
        self.fields, self._leaves, self.partitions, self._unsure = fields, leaves, partitions, unsure
        self._declared = declared
        self._case_sensitive = case_sensitive

    @classmethod
    def of(cls, files: Sequence[_File], opened: Opened, declared: Declared | None, *, case_sensitive: bool) -> _Shape:
        """Return the columns that a table declares, or those of files that are read and the partitions of all."""
        import pyarrow as pa

        texts = [] if opened.table is not None else list(map(_constants, opened.sources))
        partitions = partition_types(texts)
        schemas: dict[tuple[Any, ...], pa.Schema] = {}
        leaves: dict[ColumnPath, LeafColumn] = {}
        for file in files:
            key = id(file.footer.leaves), tuple(file.names.items())
            if key in schemas:
                continue
            own = file.rows.schema
            schemas[key] = pa.schema([own.field(name).with_name(shown) for shown, name in file.names.items()])
            shown_as = {name: shown for shown, name in file.names.items()}
            of_file = {
                (shown, *file.rows.paths[leaf.index][1:]): leaf
                for leaf in file.footer.leaves
                if (shown := shown_as.get(leaf.path[0])) is not None
            }
            leaves = of_file | leaves
            if declared is not None:
                declared.see(of_file)
        own_types = [one if declared is None else declared.undeclared(one) for one in schemas.values()]
        try:
            schema = pa.unify_schemas(own_types, promote_options="permissive") if own_types else pa.schema([])
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise UnsupportedError(f"the files' columns differ too much: {error}") from error
        fields = {field.name: field.type for field in schema}
        if declared is not None:
            fields = declared.types(fields)
            return cls(fields, leaves | declared.typed, {}, frozenset(), declared, case_sensitive=case_sensitive)
        fields.update(partitions)
        unsure = frozenset(name for name, kind in partitions.items() if kind == pa.string() and _is_typed(texts, name))
        return cls(fields, leaves, partitions, unsure, case_sensitive=case_sensitive)

    def resolved(self, path: ColumnPath) -> ColumnPath:
        """Return a path of a condition as the files have it. Raises `ColumnNotFoundError`."""
        names = [name for name in self.fields if self._is_same(name, path[0])]
        if len(names) > 1:
            raise UnsupportedError(f"{format_path(path)} matches {len(names)} columns")
        if not names:
            raise ColumnNotFoundError(format_path(path), list(self.fields), where="the set of files")
        found = [names[0]]
        kind = self.fields[names[0]]
        for part in path[1:]:
            kind, name = self._below(kind, part, path)
            found.append(name)
        return tuple(found)

    def _below(self, kind: Any, part: str, path: ColumnPath) -> tuple[Any, str]:
        import pyarrow as pa

        if not pa.types.is_struct(kind):
            raise UnsupportedError(f"{format_path(path)} is in a list or a map, so a row has many values of it")
        names = [field.name for field in kind if self._is_same(field.name, part)]
        if len(names) != 1:
            raise ColumnNotFoundError(format_path(path), [field.name for field in kind], where="the set of files")
        return kind.field(names[0]).type, names[0]

    def _is_same(self, name: str, wanted: str) -> bool:
        return name == wanted if self._case_sensitive else name.casefold() == wanted.casefold()

    def typed(self, path: ColumnPath) -> Typed:
        """Return the type of a column of the condition."""
        name, *below = found = self.resolved(path)
        if name in self.partitions and not below:
            if name in self._unsure:
                raise UnsupportedError(f"engines may read the partitions of {name} as numbers or as text")
            return Typed(self.partitions[name], _leaf_of(name, self.partitions[name]))
        return Typed(self.type_of(found), self._leaves.get(found))

    def type_of(self, path: ColumnPath) -> Any:
        """Return the type of a column, by its resolved path."""
        kind = self.fields[path[0]]
        for part in path[1:]:
            kind = kind.field(part).type
        return kind

    def initial(self, name: str) -> pa.Scalar:
        """Return the value of a column in a file that lacks it."""
        import pyarrow as pa

        initial = self._declared.columns[name].initial if self._declared is not None else None
        return pa.scalar(None, self.fields[name]) if initial is None else initial

    def converted(self, name: str, column: Any) -> Any:
        """Return a column of a file as all files have it. Raises `UnsupportedError` where values would change."""
        import pyarrow as pa

        kind = self.fields[name]
        if column.type == kind:
            return column
        declared = None if self._declared is None else self._declared.columns[name]
        if declared is not None and not is_widened(column.type, kind, floats=not declared.floats_by_digits):
            raise UnsupportedError(f"column {name} is {column.type} in it, and {kind} in the table")
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedError(f"column {name} cannot be converted to {kind}: {error}") from error

    def at(self, columns: Mapping[str, Any], path: ColumnPath) -> Any:
        """Return the column at a path of the condition, of top-level columns."""
        import pyarrow.compute as pc

        name, *below = self.resolved(path)
        column = columns[name]
        return pc.struct_field(column, below) if below else column

    def choose(self, columns: Iterable[str] | None, *, positions: bool) -> list[ColumnPath]:
        """Return the columns to return. Raises `ColumnNotFoundError` for others than these."""
        chosen: list[ColumnPath] = [(name,) for name in self.fields]
        if columns is not None:
            given = [columns] if isinstance(columns, str) else list(columns)
            chosen = [self.resolved(parse_path(name)) for name in given]
        names = [_shown(path) for path in chosen]
        if positions and (taken := [name for name in POSITION if name in names]):
            raise UnsupportedError(f"the files have a column {taken[0]}, too; choose others by columns=")
        return chosen


def _is_typed(texts: Iterable[Mapping[str, str | None]], name: str) -> bool:
    """Return whether Spark would read all texts of a partition, which are not integers or dates, as another type."""
    values = [text for of_file in texts if (text := of_file.get(name)) is not None]
    return all(_NUMBER_OR_TIME.fullmatch(text.strip()) for text in values)


_NUMBER_OR_TIME = re.compile(r"[+-]?(?:\d.*|\.\d.*|nan|inf|infinity)", re.IGNORECASE)


def _leaf_of(name: str, kind: pa.DataType) -> LeafColumn:
    """Return a leaf whose literals mean the same as those of a partition."""
    import pyarrow as pa

    physical, logical = {
        pa.int64(): (PhysicalType.INT64, None),
        pa.date32(): (PhysicalType.INT32, LogicalType("DATE", is_proleptic=True)),
    }.get(kind, (PhysicalType.BYTE_ARRAY, LogicalType("STRING")))
    return LeafColumn((name,), 0, physical, None, logical, ())


# ---- reading -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads the row groups that are left."""

    shape: _Shape
    chosen: list[ColumnPath]
    test: _RowTest
    positions: bool
    strict: bool
    limits: Limits
    log: RequestLog | None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        import pyarrow as pa

        fields = [pa.field(_shown(path), self.shape.type_of(path)) for path in self.chosen]
        if self.positions:
            fields += [pa.field("path", pa.string()), pa.field("row_group", pa.int32()), pa.field("row", pa.int64())]
        return pa.schema(fields)

    def batches(
        self, files: Sequence[_File], failed: dict[str, FailedFile], progress: Progress | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; files that cannot be read are added to `failed`."""
        units = [(file, group) for file in files for group in file.groups]
        tick = Ticker(progress, len(units))
        for source, outcome in self._outcomes(units):
            tick()
            if isinstance(outcome, Exception):
                if self.strict:
                    raise outcome
                failed.setdefault(source.name, FailedFile(source.name, describe_error(outcome)))
            elif outcome is not None:
                yield from outcome.to_batches(max_chunksize=BATCH_ROWS)
        for source, error in changes([file.source for file in files]).items():
            if self.strict:
                raise error
            failed.setdefault(source.name, FailedFile(source.name, describe_error(error)))

    def _outcomes(self, units: list[tuple[_File, _Group]]) -> Iterator[tuple[Source, Any]]:
        def read(some: Iterable[tuple[_File, _Group]]) -> Iterator[tuple[Source, Any]]:
            plans = ((file.source, self._read(file, group)) for file, group in some)
            return drive(plans, limits=self.limits, log=self.log)

        is_local = all(file.source.is_local for file, _ in units)
        num_bytes = sum(file.rows.num_bytes(group.row_group, self._first(file)) for file, group in units)
        threads = min(num_threads(None), len(units), 1 + num_bytes // THREAD_WORTH) if is_local else 1
        if threads <= 1:
            return read(units)
        done = map_in_order(lambda unit: list(read([unit])), units, threads, threading.Event())
        return chain.from_iterable(done)

    def _first(self, file: _File) -> list[str]:
        """Return the condition's columns that a file stores, under their names there."""
        return [file.names[name] for name in self.test.names if self._is_stored(file, name)]

    def _is_stored(self, file: _File, name: str) -> bool:
        return name in file.names and name not in self.shape.partitions

    def _require_readable(self, file: _File) -> None:
        """Raise `UnsupportedError` if the file does not tell the values of a column that is needed."""
        for name in (*self.test.names, *(path[0] for path in self.chosen)):
            if (reason := file.unread.get(name)) is not None:
                raise UnsupportedError(f"column {name}: {reason}")

    def _read(self, file: _File, group: _Group) -> Plan[pa.Table | None]:
        """Plan to return the rows of a row group that match; None if there are none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._require_readable(file)
        num_rows = file.footer.row_groups[group.row_group].num_rows
        runs = yield from self._runs(file, group)
        if runs == []:
            return None
        some = None if runs in (None, [(0, num_rows)]) else array("q", chain.from_iterable(starmap(range, runs or ())))
        first = self._first(file)
        wanted = dict.fromkeys(path[0] for path in self.chosen)
        rest = [file.names[name] for name in wanted if self._is_stored(file, name) and file.names[name] not in first]
        if not file.source.is_local and file.rows.num_bytes(group.row_group, rest) <= TOGETHER:
            first, rest = first + rest, []
        stored = yield from file.rows.read(group.row_group, first, some)
        columns = self._columns(file, stored, num_rows if some is None else len(some), self.test.names)
        mask = self.test.mask(group, {path: self.shape.at(columns, path) for path in self.test.paths})
        at = pc.indices_nonzero(mask).cast(pa.int64())
        hits = at if some is None else numbers_as_arrow(some).take(at)
        if file.deleted and len(at):
            is_live = self._are_live(file, group, hits)
            at, hits = at.filter(is_live), hits.filter(is_live)
        if not len(at):
            return None
        stored = {name: column.take(at) for name, column in stored.items()}
        if rest:
            stored |= yield from file.rows.read(group.row_group, rest, numbers_of(hits))
        return self._table(file, group, self._columns(file, stored, len(hits), wanted), hits)

    def _are_live(self, file: _File, group: _Group, hits: Any) -> Any:
        """Return which of a row group's rows are not deleted."""
        import pyarrow.compute as pc

        before = _rows_before(file, group)
        start, stop = (
            bisect_left(file.deleted, row)
            for row in (before, before + file.footer.row_groups[group.row_group].num_rows)
        )
        deleted = numbers_as_arrow(file.deleted[start:stop])
        return pc.invert(pc.is_in(pc.add(hits, before), value_set=deleted))

    def _runs(self, file: _File, group: _Group) -> Plan[Runs | None]:
        """Plan to return the rows that the page indexes of the condition's columns leave."""
        footer, row_group = file.footer, group.row_group
        leaves = [
            leaf
            for leaf in self.test.leaves(group, footer)
            if not footer.is_encrypted(row_group, leaf)
            and file.rows.num_bytes(row_group, [leaf.path[0]]) >= INDEX_WORTH
            and index_extents(footer, row_group, leaf)
        ]
        if not leaves:
            return None
        plans = [read_pages(footer, row_group, leaf) for leaf in leaves]
        pages = yield from with_tail(footer, together(plans))
        known = {leaf.index: of_leaf for leaf, of_leaf in zip(leaves, pages, strict=True) if of_leaf is not None}
        return self.test.runs(group, footer, known) if known else None

    def _columns(self, file: _File, stored: Mapping[str, Any], count: int, names: Iterable[str]) -> dict[str, Any]:
        """Return columns as all files have them: in common types, with partitions, and nulls for what is missing."""
        import pyarrow as pa

        columns = {}
        for name in names:
            kind = self.shape.fields[name]
            if name in self.shape.partitions:
                column = pa.repeat(pa.scalar(file.constants.get(name)).cast(kind), count)
            elif name in file.names:
                column = self.shape.converted(name, stored[file.names[name]])
            elif name in file.constants:
                column = pa.repeat(constant(name, file.constants[name], kind), count)
            else:
                column = pa.repeat(self.shape.initial(name), count)
            columns[name] = column
        return columns

    def _table(self, file: _File, group: _Group, columns: Mapping[str, Any], hits: Any) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        arrays = [self.shape.at(columns, path) for path in self.chosen]
        if self.positions:
            arrays += [
                pa.repeat(pa.scalar(in_unicode(file.source.name)), len(hits)),
                pa.repeat(pa.scalar(group.row_group, pa.int32()), len(hits)),
                pc.add(hits, _rows_before(file, group)),
            ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _rows_before(file: _File, group: _Group) -> int:
    return sum(one.num_rows for one in file.footer.row_groups[: group.row_group])


def _shown(path: ColumnPath) -> str:
    """Return what a column is called in the result."""
    return format_path(path) if len(path) > 1 else path[0]
