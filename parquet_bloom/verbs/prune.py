"""`prune`: which files and row groups can hold matching rows.

The rules are those of predicates/evaluation.py. Here files are read, each as far as its verdict needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import compress, islice, repeat
from typing import TYPE_CHECKING, Any, Unpack

from parquet_bloom.errors import describe_error
from parquet_bloom.filters.parquet import FILTERS_AT_ONCE
from parquet_bloom.filters.stored import NO_FILTERS, TableFilters, filters_in_footer, with_table_filters
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, with_tail
from parquet_bloom.format.probing import ask
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.predicates.binding import Binder, Findings, View, without_conflicts
from parquet_bloom.predicates.evaluation import (
    ASK,
    CANNOT,
    MIGHT,
    STATISTICS,
    TYPE,
    BoundPredicate,
    FileWithFooter,
    IndexedFiles,
    RecordedFile,
    Verdict,
    absent_by_filters,
    equality_columns,
    provable_leaves,
)
from parquet_bloom.predicates.parsing import to_predicate, why_unused
from parquet_bloom.predicates.tree import Predicate, normalized
from parquet_bloom.storage.cache import SHARED, Cache, footer_of
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, changes, drive
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables import fsspec_options
from parquet_bloom.tables.live_files import Unproved
from parquet_bloom.tables.placement import Columns
from parquet_bloom.tables.recorded import Recorded
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.values.statistics import ColumnStatistics
from parquet_bloom.verbs.exact import ExactPlan
from parquet_bloom.verbs.opening import Opened, OpenLake, Reading, with_reading
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.verdicts import FileVerdict, LaterRows, LaterRowsOfIndex, Pruning

if TYPE_CHECKING:
    from parquet_bloom.filters.index import BloomIndex, IndexedSchema


@with_reading
def prune(
    paths: PathLike | Iterable[PathLike] | Any,
    where: Any,
    *,
    exact: bool = False,
    **how: Unpack[Reading],
) -> Pruning:
    """Return which files and row groups can hold rows that match `where`; all others are proved not to.

    Footers are read first. Filters are read only for row groups that types, partitions and statistics leave open, and
    of large filters only the blocks that matter.

    The directory of a Delta, Iceberg, Hudi or Paimon table means the live files of its snapshot, and its columns have
    the table's names. An Iceberg table may also be its current metadata file, a pyiceberg `Table`, or its name in
    `catalog`; its directory is refused unless a Hadoop catalog keeps it. Files that the table's metadata or an index
    beside them (`parquet_bloom.index.create`) excludes are not opened.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        where: SQL text in Spark's dialect, a list of filters as in pyarrow, a pyarrow `Expression`, or built with
            `col()`.
        exact: Also read the columns of the row groups that are left, where the condition compares them with `=` or
            `IN`, and prune those that do not contain the value.

    Returns:
        A `Pruning`: a row for each row group. `.paths` and `.row_groups_by_path` are what must be read, `.errors` the
        files that could not be pruned.

    Raises:
        FileNotFoundError: A path names nothing.
        PredicateError: The condition does not parse.
        ColumnNotFoundError: No file has a column of the condition.
        LiteralError: No file's column can be compared with a literal.
        UnsupportedError: The paths cannot be read right, such as some of a table's files.

    Examples:
        >>> parquet_bloom.prune("events", "id = 7 AND user LIKE 'u%'").row_groups_by_path
        {'events/b.parquet': [1]}
        >>> from parquet_bloom import col
        >>> parquet_bloom.prune("events", col("id").isin([-1, 5000])).might_match
        False
    """
    return prune_lake(OpenLake(paths, **how), where, exact=exact)


def prune_lake(lake: OpenLake, where: Any, *, exact: bool = False) -> Pruning:
    """Return what `prune` does of files that are open."""
    predicate = to_predicate(where)
    opened = lake.opened()
    sources, table = opened.sources, opened.table
    evaluator = FileEvaluator.of(lake, opened, predicate, open_files={} if exact else None)
    files, findings = evaluator.evaluate_all(sources, lake.progress)
    if any(file.not_pruned is None for file in files):
        findings.raise_unless_bound()
    if exact:
        files = evaluator.plan_exact(sources, files).carry_out(lake.progress)
    evaluator.strays.rest(sources)
    if len(evaluator.strays):
        is_told = [file.is_kept or source not in evaluator.strays for file, source in zip(files, sources, strict=True)]
        files, sources = list(compress(files, is_told)), list(compress(sources, is_told))
    return Pruning(str(predicate), tuple(files), tuple(sources), table, why_unused(where))


Schemas = dict[int, tuple[Source, Footer]]
"""A file of each schema, by the identity of its leaves."""


@dataclass(frozen=True, slots=True)
class FileEvaluator:
    """Reads and evaluates files with the options of a call.

    `strays` are files that were found not to be Parquet; `view` is how the reader of the files will see them.
    `open_files` collects what is known of the files that might match, if their columns may be read next; with
    `keeps_answers` also what their filters answered. `schemas` collects a file of each schema.
    """

    predicate: Predicate
    _: KW_ONLY
    timezone: str | None = None
    case_sensitive: bool = True
    cache: Cache = SHARED
    limits: Limits = DEFAULT_LIMITS
    strict: bool = False
    decryption: Decryption | None = None
    log: RequestLog | None = None
    index: BloomIndex | None = None
    table: TableFiles | None = None
    strays: Strays = field(default_factory=Strays)
    view: View | None = None
    open_files: dict[Source, tuple[BoundPredicate, FileWithFooter]] | None = None
    keeps_answers: bool = True
    schemas: Schemas | None = None

    @classmethod
    def of(cls, lake: OpenLake, opened: Opened, predicate: Predicate, **others: Any) -> FileEvaluator:
        """Return what evaluates files of a lake as it reads them."""
        return cls(
            predicate,
            timezone=lake.timezone,
            case_sensitive=lake.case_sensitive,
            cache=lake.cache,
            limits=lake.limits,
            strict=lake.strict,
            decryption=lake.decryption,
            log=lake.log,
            index=opened.index,
            table=opened.table,
            **others,
        )

    def plan_exact(self, sources: Sequence[Source], files: list[FileVerdict]) -> ExactPlan:
        """Return what would be read to prune the row groups that are left exactly.

        `sources` and `files` are what `evaluate_all`, called on an evaluator with `open_files={}`, took and returned.
        Nothing is read yet: the plan has the `num_row_groups` and, at most, the `num_bytes` that it would read.
        `carry_out()` reads them and returns the new verdicts.
        """
        assert self.open_files is not None
        return ExactPlan(
            sources,
            files,
            self.open_files,
            not_pruned=self._not_pruned,
            keep_changed=self._keep_changed,
            strict=self.strict,
            limits=self.limits,
            log=self.log,
        )

    def evaluate_all(
        self, sources: list[Source], progress: Progress | None = None
    ) -> tuple[list[FileVerdict], Findings]:
        """Return the verdict on each file, and what they made of the condition; `sources` are all files of the set."""
        return without_conflicts(
            lambda conflicting: self.evaluate(sources, None if conflicting else progress, conflicting)
        )

    def evaluate(
        self, sources: list[Source], progress: Progress | None = None, conflicting: frozenset[int] = frozenset()
    ) -> tuple[list[FileVerdict], Findings]:
        """Return the verdict on each file, and what they made of the condition.

        The verdicts hold only if the files of the set, these and others, have no conflicting types but in the columns
        of the tests that are named.
        """
        binder = self._binder(conflicting)
        known = self._by_table(sources, binder.findings, conflicting)
        self._by_index(sources, binder, known)
        others = [source for source, verdict in zip(sources, known, strict=True) if verdict is None]
        verdicts = []
        plans = ((source, self._evaluate_file(source, binder, kept)) for source, kept in self._with_filters(others))
        for source, outcome in drive(plans, limits=self.limits, log=self.log):
            if self.strays.take(source, outcome):
                verdicts.append(FileVerdict(source.name, source.size, excluded="it is not a Parquet file", by=TYPE))
            elif isinstance(outcome, Exception):
                verdicts.append(self._not_pruned(source, outcome))
            else:
                verdicts.append(outcome)
            if progress:
                progress(len(sources) - len(others) + len(verdicts), len(sources))
        if progress and not others:
            progress(len(sources), len(sources))
        self._keep_changed(others, verdicts)
        rest = iter(verdicts)
        return [verdict or next(rest) for verdict in known], binder.findings

    def _binder(self, conflicting: frozenset[int]) -> Binder:
        predicate, case_sensitive = normalized(self.predicate), self.case_sensitive
        return Binder(predicate, self.timezone, case_sensitive=case_sensitive, conflicting=conflicting, view=self.view)

    def _by_table(
        self, sources: list[Source], findings: Findings, conflicting: frozenset[int]
    ) -> list[FileVerdict | None]:
        """Return the verdicts on files that their table's metadata decides as a whole, None for the others."""
        if self.table is None:
            return [None] * len(sources)
        known = [self._unprunable(source) for source in sources]
        recorded = self.table.snapshot.recorded
        if recorded is None:
            return known
        # A binder of its own: it knows columns by the table's types, and files must agree only among themselves.
        binder = self._binder(conflicting)
        alike: dict[tuple[Partitions, Unproved], list[int]] = {}
        for number, source in enumerate(sources):
            if known[number] is None:
                alike.setdefault((self._partitions(source), self._unproved(source)), []).append(number)
        leaves = self._unambiguous(recorded)
        for (partitions, unproved), numbers in alike.items():
            stored = tuple(leaf for leaf in leaves if leaf.path[0] not in partitions.constants)
            bound = binder.bind(stored, partitions, unproved)
            columns = {leaf.index: recorded.bounds(leaf) for leaf in provable_leaves(bound)}
            for number in numbers:
                known[number] = self._excluded(sources[number], bound, columns, recorded.where)
        findings.merge_recorded(binder.findings, recorded.names, case_sensitive=self.case_sensitive)
        return known

    def _unprunable(self, source: Source) -> FileVerdict | None:
        """Return the verdict on a file whose table says that it must be read in any case."""
        assert self.table is not None
        file = self.table.files[source]
        reason = file.not_excluded
        if file.is_unread and self.strict:
            raise file.error()
        return FileVerdict(source.name, source.size, not_pruned=reason) if reason else None

    def _unambiguous(self, recorded: Recorded) -> list[LeafColumn]:
        """Return the table's columns whose names no other column has."""

        def spelled(name: str) -> str:
            return name if self.case_sensitive else name.casefold()

        names = Counter(map(spelled, recorded.names))
        return [leaf for leaf in recorded.leaves if names[spelled(leaf.path[0])] == 1]

    def _excluded(
        self,
        source: Source,
        bound: BoundPredicate,
        columns: Mapping[int, Sequence[ColumnStatistics | None]],
        where: str,
    ) -> FileVerdict | None:
        """Return the verdict on a file if the statistics of `columns`, recorded `where`, exclude it."""
        assert self.table is not None
        at = self.table.number(source)
        verdict = bound.evaluate(RecordedFile({index: of_files[at] for index, of_files in columns.items()}), 0)
        if verdict.rank is not CANNOT:
            return None
        reason = f"{verdict.reason} ({where})"
        return FileVerdict(source.name, source.size, excluded=reason, by=verdict.by)

    def _by_index(self, sources: list[Source], binder: Binder, known: list[FileVerdict | None]) -> None:
        """Fill in the verdicts on those of the other files that the index excludes."""
        if (index := self.index) is None:
            return
        rows = index.read(self._expected_hashes(index), limits=self.limits, log=self.log)
        alike: dict[tuple[IndexedSchema, Partitions, Unproved], tuple[list[Source], list[int], list[int]]] = {}
        for at, (source, number) in enumerate(zip(sources, index.numbers(sources), strict=True)):
            if number is not None and known[at] is None:
                schema = index.schema_of(number)
                key = schema, self._partitions(source), self._unproved(source, schema)
                files = alike.get(key) or alike.setdefault(key, ([], [], []))
                files[0].append(source)
                files[1].append(at)
                files[2].append(number)
        bound = [
            (IndexedFiles(schema, binder.bind(self._leaves(schema), partitions, unproved)), *files)
            for (schema, partitions, unproved), files in alike.items()
        ]
        questions = []
        for group, _, _, numbers in bound:
            for leaf, hashes in group.questions:
                filters = index.filters_of(leaf)
                questions.append(([filters[number] for number in numbers], hashes))
        answers = iter(index.ask(questions, rows=rows, limits=self.limits, log=self.log))
        for group, found, places, numbers in bound:
            of_files = zip(*islice(answers, len(group.questions)), strict=True) if group.questions else repeat(())
            for source, at, number, of_file in zip(found, places, numbers, of_files, strict=False):
                if (verdict := group.verdict(of_file)).rank is CANNOT:
                    rows_of: Any = LaterRowsOfIndex(source.name, index.packed_row_groups, number, verdict)
                    known[at] = FileVerdict(source.name, source.size, rows_of)

    def _expected_hashes(self, index: BloomIndex) -> dict[str, set[int]]:
        """Return the hashes, by column, that the index will be asked for if folders have no columns."""
        binder = self._binder(frozenset())  # of its own: no file may have these schemas any more
        expected: dict[str, set[int]] = {}
        for schema in index.schemas:
            group = IndexedFiles(schema, binder.bind(self._leaves(schema), Partitions(), frozenset()))
            for leaf, hashes in group.questions:
                expected.setdefault(schema.leaves[leaf].name, set()).update(hashes)
        return expected

    def _with_filters(self, sources: list[Source]) -> Iterable[tuple[Source, TableFilters]]:
        """Return the files, each with the filters that its table keeps for it."""
        if self.table is None or not self.table.has_filters:
            return ((source, NO_FILTERS) for source in sources)
        names = {path[0] for path in equality_columns(self.predicate)} if self.case_sensitive else None
        options = fsspec_options(self.table.storage_options)
        return with_table_filters(
            sources, self.table.files, names, storage_options=options, limits=self.limits, log=self.log
        )

    def _evaluate_file(self, source: Source, binder: Binder, kept: TableFilters) -> Plan[FileVerdict]:
        footer = yield from footer_of(source, self.cache, self.decryption)
        if self.schemas is not None:
            self.schemas.setdefault(id(footer.leaves), (source, footer))
        bound = binder.bind(self._leaves(footer), self._partitions(source), self._unproved(source, footer))
        filters = (*filters_in_footer(footer), *kept.filters)
        short = None if filters or kept.problem else bound.evaluate_usual(footer)
        verdicts = [] if short is None else (yield from with_tail(footer, short))
        is_kept = any(verdict.rank is not CANNOT for verdict in verdicts)
        if verdicts and (self.open_files is None or not is_kept or not self.keeps_answers):
            if is_kept:
                self._keep_open(source, bound, FileWithFooter(footer))
            return _record(source, footer, verdicts)
        file = FileWithFooter(footer)
        if filters:
            file.absent = absent_by_filters(bound, footer, filters)
        verdicts = bound.evaluate_all(file, footer.num_row_groups)
        for row_group, group in enumerate(footer.row_groups):
            if group.num_rows == 0:
                verdicts[row_group] = _NO_ROWS
        open_groups = [row_group for row_group, verdict in enumerate(verdicts) if verdict.rank is ASK]
        undecided = bound.undecided(file, open_groups)
        while wanted := list(islice(undecided, FILTERS_AT_ONCE)):
            questions = [file.open[test.number, row_group] for test, row_group in wanted]
            plan = ask(questions, end=footer.start, seen=footer.derived.sound_headers)
            answers = yield from with_tail(footer, plan)
            for (test, row_group), answer in zip(wanted, answers, strict=True):
                file.answers[test.number, row_group] = answer
        for row_group in open_groups:
            verdicts[row_group] = bound.evaluate(file, row_group)
        if kept.problem and any(equality_columns(self.predicate)):
            verdicts = [v._replace(reason=kept.explained(v.reason)) if v.rank is MIGHT else v for v in verdicts]
        if any(verdict.rank is not CANNOT for verdict in verdicts):
            self._keep_open(source, bound, file)
        return _record(source, footer, verdicts)

    def _keep_open(self, source: Source, bound: BoundPredicate, file: FileWithFooter) -> None:
        if self.open_files is not None:
            if len(self.open_files) >= _MOST_TAILS:
                file.footer = file.footer.without_tail()
            self.open_files[source] = bound, file

    def _leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        if self.table is not None:
            return self.table.snapshot.leaves(columns)
        return columns.leaves if self.view is None else self.view.leaves(columns)

    def _partitions(self, source: Source) -> Partitions:
        if self.table is not None:
            return self.table.partitions(source)
        seen = None if self.view is None else self.view.partitions(source)
        return source.partitions if seen is None else seen

    def _unproved(self, source: Source, columns: Columns | None = None) -> Unproved:
        if self.table is None:
            return frozenset()
        return self.table.snapshot.unproved(self.table.files[source], columns)

    def _keep_changed(self, sources: list[Source], files: list[FileVerdict]) -> None:
        """Do not prune files that were replaced since they were listed, if the store reported it in no other way."""
        changed = changes(s for s, file in zip(sources, files, strict=True) if file.not_pruned is None)
        for index, source in enumerate(sources if changed else ()):
            if source in changed:
                files[index] = self._not_pruned(source, changed[source])

    def _not_pruned(self, source: Source, error: Exception) -> FileVerdict:
        if self.strict:
            raise error
        return FileVerdict(source.name, source.size, not_pruned=describe_error(error))


_MOST_TAILS = 256
"""Of so many files what came along with the footer is kept until their columns are read."""

_NO_ROWS = Verdict(CANNOT, "it holds no rows", STATISTICS)


def _record(source: Source, footer: Footer, verdicts: list[Verdict]) -> FileVerdict:
    return FileVerdict(source.name, source.size, LaterRows(source.name, footer.packed_row_groups, verdicts))  # type: ignore[arg-type]
