"""`find`: the rows that match a condition, or that have one of many keys.

`prune` or `lookup` say which row groups can hold such rows; the rest is reading (verbs/matching_rows.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from parquet_bloom.errors import (
    ColumnNotFoundError,
    LiteralError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.page_index import Page
from parquet_bloom.format.schema import (
    ColumnPath,
    LeafColumn,
    format_path,
    parse_path,
)
from parquet_bloom.predicates.binding import more_telling, why_conflicting
from parquet_bloom.predicates.pages import Runs, leaves_with_pages, runs_left, runs_of
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.rows import RowFilter, Typed, key_filter, key_points, row_filter
from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Or, Predicate, normalized
from parquet_bloom.results import FailedFile
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.tables.snapshots import leaf_at
from parquet_bloom.values.arrays import numbers_as_arrow
from parquet_bloom.values.interchange import plain_type
from parquet_bloom.values.stored_keys import Keys, literals_of
from parquet_bloom.verbs.common_columns import CommonColumns, Footers, Group, Kept
from parquet_bloom.verbs.declared import Declared
from parquet_bloom.verbs.lookup import Hit, Search, outcomes
from parquet_bloom.verbs.matching_rows import RowReader, RowTest
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.prune import FileEvaluator, Schemas
from parquet_bloom.verbs.reading_keys import read_keys
from parquet_bloom.verbs.streams import Stream

if TYPE_CHECKING:
    import pyarrow as pa


class Found(Stream):
    """The rows of `find`, made as they are taken: read them once, as Arrow record batches or in one of the ways below.

    Only when `.errors` is empty at the end were all files read.
    """

    ROWS: ClassVar[str] = "rows"
    VERB: ClassVar[str] = "find"

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        errors: Collection[FailedFile] = (),
        condition_columns: Sequence[str] = (),
    ) -> None:
        super().__init__(batches, schema, errors)
        self.condition_columns: tuple[str, ...] = tuple(condition_columns)


@with_reading
def find(
    paths: PathLike | Iterable[PathLike] | Any,
    where: Any = None,
    *,
    column: str | None = None,
    keys: Any = None,
    columns: Iterable[str] | None = None,
    positions: bool = False,
    limit: int | None = None,
    **how: Unpack[Reading],
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
    return find_lake(
        OpenLake(paths, **how), where, column=column, keys=keys, columns=columns, positions=positions, limit=limit
    )


def find_lake(
    lake: OpenLake,
    where: Any = None,
    *,
    column: str | None = None,
    keys: Any = None,
    columns: Iterable[str] | None = None,
    positions: bool = False,
    limit: int | None = None,
) -> Found:
    """Return what `find` does of files that are open."""
    import pyarrow as pa

    if (where is None) == (keys is None) or (column is None) != (keys is None):
        raise TypeError("find takes a condition, or a column and its keys")
    opened = lake.opened()
    declared = Declared.of(opened.table)
    question: _Condition | _KeysOf
    if keys is None:
        question = _Condition(
            FileEvaluator.of(
                lake,
                opened,
                normalized(to_predicate(where)),
                view=declared,
                open_files={},
                keeps_answers=False,
                schemas={},
            )
        )
    else:
        assert column is not None
        path = parse_path(column)
        view = declared and declared.at(path)
        search = Search.of(lake, opened, path, read_keys(keys, path[-1]), view=view)
        question = _KeysOf(search, strict=lake.strict, declared=declared)
    failed: dict[str, FailedFile] = {}
    kept = question.search(opened.sources, failed, progress=lake.progress, log=lake.log)
    footers = Footers(opened, declared, lake.decryption, lake.limits, lake.log)
    files = list(footers.of(kept, failed, strict=lake.strict))
    seen = files + footers.seen(question.schemas) or ([] if declared else footers.any_of(opened.sources))
    if not seen and failed and declared is None:
        return Found(iter(()), pa.schema([]), failed.values())
    shape = CommonColumns.of(seen, opened, declared, case_sensitive=lake.case_sensitive)
    chosen = shape.choose(columns, positions=positions)
    row_test = question.on(shape)
    reader = RowReader(
        shape=shape,
        chosen=chosen,
        test=row_test,
        positions=positions,
        strict=lake.strict,
        limits=lake.limits,
        log=lake.log,
    )
    batches = reader.batches(files, failed, lake.progress)
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
    ) -> list[Kept]:
        evaluator = self._evaluator
        files, findings = evaluator.evaluate_all(sources, progress)
        is_declared = evaluator.view is not None  # then the table's columns say what is wrong with the condition
        if any(file.not_pruned is None for file in files) and not is_declared:
            findings.raise_unless_bound()
        if (conflicting := findings.conflicting) and not is_declared:
            columns = columns_of(evaluator.predicate)
            raise UnsupportedError(why_conflicting(format_path(columns[min(conflicting)])))
        evaluator.strays.rest(sources)
        open_files = evaluator.open_files or {}
        kept = []
        for source, file in zip(sources, files, strict=True):
            live = None if evaluator.table is None else evaluator.table.files[source]
            if live is not None and live.not_excluded is not None and not live.is_unread:
                kept.append(Kept(source, None))  # perhaps its rows are the table's, only nothing excludes them
            elif file.not_pruned is not None:
                failed[source.name] = FailedFile(source.name, file.not_pruned)
            elif source in open_files:
                bound, known = open_files[source]
                numbers = [one.row_group for one in file.row_groups if one.is_kept]
                groups = [Group(number, bound) for number in numbers if number is not None]
                kept.append(Kept(source, groups, known.footer))
        return kept

    def on(self, shape: CommonColumns) -> RowTest:
        evaluator = self._evaluator
        return _ConditionTest(row_filter(evaluator.predicate, shape.typed, timezone=evaluator.timezone), shape)


def columns_of(predicate: Predicate) -> list[ColumnPath]:
    """Return the column of each test, in the order in which tests are numbered."""
    match predicate:
        case And(parts) | Or(parts):
            return [path for part in parts for path in columns_of(part)]
        case Comparison(column=path) | In(column=path) | IsNull(column=path):
            return [path]
    return []


class _ConditionTest(RowTest):
    def __init__(self, filter_: RowFilter, shape: CommonColumns) -> None:
        self._filter, self.paths = filter_, filter_.paths
        self.names = tuple(dict.fromkeys(shape.resolved(path)[0] for path in filter_.paths))

    def leaves(self, group: Group, footer: Footer) -> list[LeafColumn]:
        return [] if group.bound is None else list(dict.fromkeys(leaves_with_pages(group.bound, footer)))

    def runs(self, group: Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        assert group.bound is not None
        return runs_left(group.bound, footer, pages)

    def mask(self, group: Group, columns: Mapping[ColumnPath, Any]) -> Any:
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
    ) -> list[Kept]:
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
                    refused = more_telling(refused, outcome)  # none of its rows has a key
                    continue
                understood = True
                if self._declared.may_have_values(source, self._search.path[0]):
                    found[source] = [Hit(None, None, str(outcome))]
                continue
            if isinstance(outcome, LiteralError):
                refused = more_telling(refused, outcome)
                continue
            if self._strict:
                raise outcome
            failed[source.name] = FailedFile(source.name, describe_error(outcome))
        if self._search.findings.conflicting and self._declared is None:
            raise UnsupportedError(why_conflicting(format_path(self._search.path)))
        if refused and (not understood or isinstance(refused, LiteralError)):
            raise refused
        return [Kept(source, _groups(found[source])) for source in sources if found.get(source)]

    def on(self, shape: CommonColumns) -> RowTest:
        return _KeysTest(self._search, shape)


def _groups(hits: Iterable[Hit]) -> list[Group] | None:
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
        Group(number, keys=None if parts is None else array("i", dict.fromkeys(chain.from_iterable(parts))))
        for number, parts in sorted(keys.items())
    ]


class _KeysTest(RowTest):
    def __init__(self, search: Search, shape: CommonColumns) -> None:
        self._search = search
        self._path = search.path
        self.paths = (search.path,)
        self.names = (shape.resolved(search.path)[0],)
        self._column = shape.typed(search.path)
        keys = search.keys
        points = _points_of_all(search.path, self._column, keys) if keys.is_exact else None
        self._points = (
            key_points(search.path, self._column, literals_of(keys, self._column.leaf), timezone=search.timezone)
            if points is None
            else points
        )

    def leaves(self, group: Group, footer: Footer) -> list[LeafColumn]:
        leaf = self._leaf(footer)
        if leaf is None or leaf.is_repeated or group.keys is None:
            return []  # what is known of all rows together proved nothing either
        keys, reader = self._search.bound(leaf)
        return [] if keys.unusable or keys.wide.owners or reader.why_no_pages(footer) else [leaf]

    def _leaf(self, footer: Footer) -> LeafColumn | None:
        return leaf_at(footer, self._path, self._search.snapshot)

    def runs(self, group: Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        ((index, of_column),) = pages.items()
        keys, reader = self._search.bound(footer.leaves[index])
        known = [reader.read_page(footer, page.num_rows, page.bounds) for page in of_column]
        runs = [keys.within(of_page) for of_page in known]
        return runs_of(of_column, [start < stop for start, stop in runs])

    def mask(self, group: Group, columns: Mapping[ColumnPath, Any]) -> Any:
        points = self._points if group.keys is None else self._points.take(numbers_as_arrow(array("q", group.keys)))
        return key_filter(self._path, self._column, points.drop_null()).mask(columns)


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
