"""What pruning decided: the verdict on every row group and file, totals, and a dataset of what must be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.results import Record, Table, count_text, printable
from parquet_bloom.storage.listing import Source

if TYPE_CHECKING:
    import pyarrow.dataset as ds

from parquet_bloom.format.footer import unpack_row_groups
from parquet_bloom.predicates.evaluation import CANNOT, FILTER, MIGHT, Rank, Verdict
from parquet_bloom.predicates.exact import DATA
from parquet_bloom.tables.snapshots import TableFiles

Answer = Literal["MIGHT_MATCH", "CANNOT_MATCH"]

MIGHT_MATCH: Final = "MIGHT_MATCH"
CANNOT_MATCH: Final = "CANNOT_MATCH"
"""The two answers: no proof either way, and the proof that no row matches."""


@dataclass(frozen=True, slots=True, repr=False)
class RowGroupVerdict(Record):
    """The verdict on one row group; bytes `start` to `stop` hold its pages. `by` is what proved CANNOT_MATCH.

    Of a file that was not pruned, `row_group` and `num_rows` are None.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "row_group", "answer", "reason")

    path: str
    row_group: int | None
    answer: Answer
    reason: str
    by: str
    num_rows: int | None
    start: int
    stop: int

    @property
    def is_kept(self) -> bool:
        """Whether the row group must be read."""
        return self.answer == MIGHT.name


@dataclass(frozen=True, slots=True, repr=False)
class FileVerdict(Record):
    """The verdicts on one file's row groups.

    There are none if the file must be read as a whole: `not_pruned` is the reason. There are none either if the table's
    metadata proves that no row matches: `excluded` is the reason, and `by` is statistics or a partition.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "row_groups", "not_pruned", "excluded")

    path: str
    size: int
    row_groups: tuple[RowGroupVerdict, ...] = ()
    not_pruned: str | None = None
    excluded: str | None = None
    by: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether any of the file must be read."""
        if self.not_pruned is not None:
            return True
        groups = _ROW_GROUPS.__get__(self, FileVerdict)
        return groups.is_any_kept if isinstance(groups, LaterRows) else any(group.is_kept for group in groups)


class LaterRows:
    """What stands for the `row_groups` of a `FileVerdict` until they are asked for: of most files nobody asks."""

    __slots__ = ("_packed", "_path", "_verdicts")

    def __init__(self, path: str, packed_row_groups: bytes, verdicts: Sequence[Verdict]) -> None:
        self._path, self._packed, self._verdicts = path, packed_row_groups, verdicts

    @property
    def is_any_kept(self) -> bool:
        """Whether any of the row groups must be read."""
        return any(verdict.rank is not CANNOT for verdict in self._verdicts)

    def rows(self) -> tuple[RowGroupVerdict, ...]:
        """Return the verdicts on the row groups."""
        return tuple(
            RowGroupVerdict(self._path, number, _NAMES[rank], reason, by, *group)
            for number, (group, (rank, reason, by)) in enumerate(
                zip(unpack_row_groups(self._packed), self._verdicts, strict=True)
            )
        )


class LaterRowsOfIndex(LaterRows):
    """The same for a file that the index excludes as a whole, with one verdict."""

    __slots__ = ("_number", "_row_groups_of", "_verdict")

    def __init__(self, path: str, row_groups_of: Callable[[int], bytes], number: int, verdict: Verdict) -> None:
        self._path, self._row_groups_of, self._number, self._verdict = path, row_groups_of, number, verdict

    @property
    def is_any_kept(self) -> bool:
        """Whether any of the row groups must be read."""
        return False

    def rows(self) -> tuple[RowGroupVerdict, ...]:
        """Return the verdicts on the row groups."""
        packed, verdict = self._row_groups_of(self._number), self._verdict
        if verdict.by == FILTER:
            verdict = verdict._replace(reason=f"{verdict.reason} (in the index)")
        return LaterRows(self._path, packed, [verdict] * len(unpack_row_groups(packed))).rows()


_NAMES: dict[Rank, Answer] = {rank: CANNOT_MATCH if rank is CANNOT else MIGHT_MATCH for rank in Rank}
_ROW_GROUPS = FileVerdict.__dict__["row_groups"]  # the slot


class _RowGroups:
    """The slot of `FileVerdict.row_groups`, which is filled when it is first read."""

    def __get__(self, file: FileVerdict | None, owner: type) -> Any:
        if file is None:
            return self
        groups = _ROW_GROUPS.__get__(file, owner)
        if isinstance(groups, LaterRows):
            groups = groups.rows()
            _ROW_GROUPS.__set__(file, groups)
        return groups

    def __set__(self, file: FileVerdict, groups: Any) -> None:
        _ROW_GROUPS.__set__(file, groups)


FileVerdict.row_groups = _RowGroups()  # type: ignore[assignment, misc]


@dataclass(frozen=True, repr=False)
class Pruning(Table):
    """What `prune` decided: `kept_files` and `kept_row_groups` must be read, `all_files` has every verdict.

    `unused` is the reason if nothing in the condition can be used to prune.
    """

    TRUTH: ClassVar[str] = ".might_match"
    NOUN: ClassVar[str] = "row group"

    where: str
    all_files: tuple[FileVerdict, ...]
    _sources: tuple[Source, ...] = field(default=(), repr=False)
    _table: TableFiles | None = field(default=None, repr=False)
    unused: str | None = None

    @cached_property
    def kept_files(self) -> tuple[FileVerdict, ...]:
        """The files that must be read, each with the verdicts on all its row groups."""
        return tuple(file for file in self.all_files if file.is_kept)

    @cached_property
    def kept_row_groups(self) -> tuple[RowGroupVerdict, ...]:
        """The row groups that must be read, but for those of files that were not pruned."""
        return tuple(row for row in self.rows if row.is_kept and row.row_group is not None)

    @cached_property
    def rows(self) -> tuple[RowGroupVerdict, ...]:
        """The verdict on every row group; a file that was not pruned is one row."""
        return tuple(row for file in self.all_files for row in (*file.row_groups, *_whole(file)))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files that must be read."""
        return tuple(file.path for file in self.kept_files)

    @property
    def row_groups_by_path(self) -> dict[str, list[int] | None]:
        """The row groups that must be read of each file that must be; None is the whole file."""
        return {
            file.path: None
            if file.not_pruned is not None
            else [group.row_group for group in file.row_groups if group.is_kept and group.row_group is not None]
            for file in self.kept_files
        }

    @cached_property
    def errors(self) -> tuple[FileVerdict, ...]:
        """The files that were not pruned, which must be read as a whole, with the reason."""
        return tuple(file for file in self.all_files if file.not_pruned is not None)

    @property
    def might_match(self) -> bool:
        """Whether anything must be read at all."""
        return bool(self.kept_files)

    @cached_property
    def totals(self) -> Totals:
        """Sums over all files."""
        groups = [row for row in self.rows if row.row_group is not None]
        skipped = [group for group in groups if not group.is_kept]
        return Totals(
            files=len(self.all_files),
            files_kept=len(self.kept_files),
            files_not_pruned=sum(file.not_pruned is not None for file in self.all_files),
            files_excluded=sum(file.excluded is not None for file in self.all_files),
            row_groups=len(groups),
            row_groups_kept=len(self.kept_row_groups),
            row_groups_by_statistics=sum(group.by not in (FILTER, DATA) for group in skipped),
            row_groups_by_filters=sum(group.by == FILTER for group in skipped),
            row_groups_by_data=sum(group.by == DATA for group in skipped),
            bytes=sum(group.stop - group.start for group in groups),
            bytes_kept=sum(group.stop - group.start for group in self.kept_row_groups),
            bytes_not_pruned=sum(file.size for file in self.all_files if file.not_pruned is not None),
            rows_kept=sum(group.num_rows or 0 for group in self.kept_row_groups),
        )

    def _said(self) -> str:
        totals = self.totals
        files = f"{totals.files_kept:,} of {count_text(totals.files, 'file')}"
        groups = f"{totals.row_groups_kept:,} of {count_text(totals.row_groups, self.NOUN)}"
        return f"{files} and {groups} must be read"

    def _repr_html_(self) -> str:
        from parquet_bloom.drawing.page import pictures_of_verdicts

        return pictures_of_verdicts(self.rows) + Table._repr_html_(self)

    def explain(self) -> str:
        """Return the verdicts as text: each file, each row group, and why."""
        lines = [f"where {self.where}"]
        for file in self.all_files:
            lines.append(f"{file.path}: {'keep' if file.is_kept else 'skip'}")
            if file.not_pruned is not None:
                lines.append(f"  not pruned: {file.not_pruned}")
            if file.excluded is not None:
                lines.append(f"  excluded by table metadata ({file.by}): {file.excluded}")
            for group in file.row_groups:
                proof = "keep" if group.is_kept else f"skip, by {group.by}"
                lines.append(f"  row group {group.row_group}: {proof}: {group.reason}")
        return "\n".join(map(printable, lines))

    def to_dataset(self) -> ds.FileSystemDataset:
        """Return a pyarrow dataset of exactly the kept row groups, with Hive partition columns.

        The condition is not applied again: it is the scanner's to filter rows. pyarrow's `count_rows()` without a
        filter counts whole files.
        """
        import pyarrow.dataset as ds

        return _dataset(ds, self)


@dataclass(frozen=True, slots=True, repr=False)
class Totals(Record):
    """Sums over all files of a pruning; files that were not pruned, or were excluded, have no row groups here.

    What types and partitions excluded counts as `row_groups_by_statistics`: it took no filter.
    `row_groups_by_data` are those that `exact` excluded.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("files", "files_kept", "row_groups", "row_groups_kept", "bytes", "bytes_kept")

    files: int
    files_kept: int
    files_not_pruned: int
    files_excluded: int
    row_groups: int
    row_groups_kept: int
    row_groups_by_statistics: int
    row_groups_by_filters: int
    row_groups_by_data: int
    bytes: int
    bytes_kept: int
    bytes_not_pruned: int
    rows_kept: int


def _whole(file: FileVerdict) -> Iterator[RowGroupVerdict]:
    if file.not_pruned is not None:
        yield RowGroupVerdict(file.path, None, MIGHT_MATCH, file.not_pruned, "", None, 0, file.size)


def _dataset(ds: Any, pruning: Pruning) -> Any:
    import pyarrow as pa

    if pruning._table is not None and (problem := pruning._table.no_dataset):
        raise UnsupportedError(
            f"the table's files cannot be read as a dataset: {problem}; read them with the table's own library"
        )
    pairs = list(zip(pruning.all_files, pruning._sources, strict=True))
    types = partition_types([source.partitions.constants for source in pruning._sources])
    file_format = ds.ParquetFileFormat()
    fragments = [_fragment(ds, file_format, file, source, types) for file, source in pairs if file.is_kept]
    # With nothing kept, the schema is that of any file.
    seen = fragments or [_fragment(ds, file_format, file, source, types) for file, source in pairs[:1]]
    try:
        schema = pa.unify_schemas([fragment.physical_schema for fragment in seen], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise UnsupportedError(
            f"the files cannot be one dataset, because their columns differ too much: {error}"
        ) from error
    for name, kind in types.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return ds.FileSystemDataset(fragments, schema, file_format)


def _fragment(ds: Any, file_format: Any, file: FileVerdict, source: Source, types: dict[str, Any]) -> Any:
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

    store = arrow_fs.LocalFileSystem() if source.local else arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(source.fs))
    groups = None if file.not_pruned is not None else [group.row_group for group in file.row_groups if group.is_kept]
    try:
        own = file_format.make_fragment(source.path, store).physical_schema.names
    except (OSError, pa.ArrowException) as error:
        why = f" (it was not pruned because of this: {file.not_pruned})" if file.not_pruned is not None else ""
        raise UnsupportedError(f"{file.path} cannot be part of a dataset: {error}{why}") from error
    expression = ds.scalar(True)
    for name, text in source.partitions.constants.items():
        if name not in own:
            value = pa.scalar(text).cast(types[name])
            expression &= ds.field(name) == value if text is not None else ds.field(name).is_null()
    return file_format.make_fragment(source.path, store, partition_expression=expression, row_groups=groups)


def partition_types(constants: Iterable[dict[str, str | None]]) -> dict[str, Any]:
    """Return the Arrow type of each partition column: whole numbers and dates where all its values are, else text."""
    import pyarrow as pa

    texts: dict[str, list[str]] = {}
    for of_file in constants:
        for name, text in of_file.items():
            texts.setdefault(name, []).extend([] if text is None else [text])
    forms = ((r"-?\d{1,18}", pa.int64()), (r"\d{4}-\d\d-\d\d", pa.date32()))
    types = {}
    for name, values in texts.items():
        kinds = (kind for form, kind in forms if values and all(re.fullmatch(form, v, re.ASCII) for v in values))
        types[name] = next(kinds, pa.string())
    return types
