"""A lake: files or a table, opened once and asked often."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from parquet_bloom.errors import ParquetBloomError, UnsupportedError
from parquet_bloom.results import count_text, size_text
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading

if TYPE_CHECKING:
    from parquet_bloom.filters.index import IndexedColumn
    from parquet_bloom.storage.listing import PathLike
    from parquet_bloom.verbs.absent import Absent
    from parquet_bloom.verbs.add_files import Added
    from parquet_bloom.verbs.advise import Advice
    from parquet_bloom.verbs.drop import Dropped
    from parquet_bloom.verbs.erase import Erased
    from parquet_bloom.verbs.find import Found
    from parquet_bloom.verbs.index import IndexState
    from parquet_bloom.verbs.inspect import Inspection
    from parquet_bloom.verbs.lookup import Lookup
    from parquet_bloom.verbs.probe import Probe
    from parquet_bloom.verbs.report import Report
    from parquet_bloom.verbs.verdicts import Pruning
    from parquet_bloom.verbs.verify import Verification

_Result = TypeVar("_Result")


class Lake:
    """Files or a table, opened by `open`: each function that takes `paths` is a method, without them.

    The files are listed at the first question. At later ones, local files are looked at, and folders in stores listed,
    to see whether one has changed; if so, all are listed again. New files, and a table's newer versions, are seen after
    `refresh()`, or on their own with `refresh_every`.

    Threads may share a lake. A pickled one has what to open, and not what was read, nor `cache`, `progress` and `log`.
    """

    def __init__(self, paths: Any, *, refresh_every: float | None = None, **how: Unpack[Reading]) -> None:
        self._open = OpenLake(paths, refresh_every=refresh_every, **how)

    def refresh(self) -> None:
        """List the files again at the next question: those of a table's newest version, unless `as_of` names one."""
        self._open.refresh()

    # -- what can match --

    def prune(self, where: Any, *, exact: bool = False) -> Pruning:
        """Return which files and row groups can hold rows that match `where`; see `parquet_bloom.prune`."""
        from parquet_bloom.verbs.prune import prune_lake

        return prune_lake(self._open, where, exact=exact)

    def lookup(self, column: str, keys: Any) -> Lookup:
        """Return which row groups can hold which of `keys`; see `parquet_bloom.lookup`."""
        from parquet_bloom.verbs.lookup import lookup_lake

        return lookup_lake(self._open, column, keys)

    def probe(self, column: str, values: Any, *, as_text: bool = False) -> Probe:
        """Return for every row group whether it can hold each of `values`; see `parquet_bloom.probe`."""
        from parquet_bloom.verbs.probe import probe_lake

        return probe_lake(self._open, column, values, as_text=as_text)

    # -- what is there --

    def find(
        self, where: Any, *, columns: Iterable[str] | None = None, positions: bool = False, limit: int | None = None
    ) -> Found:
        """Return the rows that match `where`; see `parquet_bloom.find`."""
        from parquet_bloom.verbs.find import find_lake

        return find_lake(self._open, where, columns=columns, positions=positions, limit=limit)

    def find_keys(
        self,
        column: str,
        keys: Any,
        *,
        columns: Iterable[str] | None = None,
        positions: bool = False,
        limit: int | None = None,
    ) -> Found:
        """Return the rows whose `column` is one of `keys`; see `parquet_bloom.find`."""
        from parquet_bloom.verbs.find import find_lake

        return find_lake(self._open, column=column, keys=keys, columns=columns, positions=positions, limit=limit)

    def absent(self, column: str, keys: Any) -> Absent:
        """Return which of `keys` are nowhere in the files, exactly; see `parquet_bloom.absent`."""
        from parquet_bloom.verbs.absent import absent_lake

        return absent_lake(self._open, column, keys)

    def has(self, column: str, value: Any) -> bool:
        """Return whether some row has a value, exactly; the first file that has it ends the search.

        Raises what `find` does, and `ParquetBloomError` where no file has it, but one could not be read.
        """
        found = self.find_keys(column, [value], columns=[], positions=True, limit=1)
        if any(batch.num_rows for batch in found):
            return True
        if errors := found.errors:
            raise ParquetBloomError(f"not found, but {errors[0].path} could not be read: {errors[0].error}")
        return False

    def inspect(
        self, columns: Sequence[str] | str | None = None, *, readers: str | Sequence[str] | None = None
    ) -> Inspection:
        """Return every filter, read as a whole; see `parquet_bloom.inspect`."""
        from parquet_bloom.verbs.inspect import inspect_lake

        return inspect_lake(self._open, columns, readers=readers)

    def verify(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        certificate: PathLike | None = None,
        readers: str | Sequence[str] | None = None,
    ) -> Verification:
        """Return for every filter whether it holds every value; see `parquet_bloom.verify`."""
        from parquet_bloom.verbs.verify import verify_lake

        return verify_lake(self._open, columns, certificate=certificate, readers=readers)

    def advise(self, columns: Sequence[str] | str | None = None, **options: Any) -> Advice:
        """Return for each leaf column whether filters are worth adding; see `parquet_bloom.advise`."""
        from parquet_bloom.verbs.advise import advise_lake

        return advise_lake(self._open, columns, **options)

    def report(self, output: PathLike, columns: Sequence[str] | str | None = None, **options: Any) -> Report:
        """Write one HTML page about the filters; see `parquet_bloom.report`."""
        from parquet_bloom.verbs.report import report_lake

        return report_lake(self._open, output, columns, **options)

    # -- changes --

    def add(self, columns: Any = None, **options: Any) -> Added:
        """Give columns a filter in every row group that has none; see `parquet_bloom.add`."""
        from parquet_bloom.verbs.add import add

        return self._change(add, columns, **options)

    def drop(self, columns: Sequence[str] | str | None = None, **options: Any) -> Dropped:
        """Take the filters of columns away; see `parquet_bloom.drop`."""
        from parquet_bloom.verbs.drop import drop

        return self._change(drop, columns, **options)

    def erase(self, column: str, keys: Any, **options: Any) -> Erased:
        """Delete the rows whose `column` is one of `keys`, permanently; see `parquet_bloom.erase`."""
        from parquet_bloom.verbs.erase import erase

        return self._change(erase, column, keys, **options)

    @property
    def index(self) -> LakeIndex:
        """The index of bloom filters beside the directory or table; see `parquet_bloom.index`."""
        return LakeIndex(self)

    def _change(self, function: Callable[..., _Result], *arguments: Any, **options: Any) -> _Result:
        """Return what a function does that changes files; whatever becomes of them, they are listed again."""
        if self._open.as_of is not None:
            raise UnsupportedError(f"as_of= names an earlier version, which {function.__name__} cannot change")
        if self._open.catalog is not None:
            if "table" not in inspect.signature(function).parameters:
                raise UnsupportedError(f"{function.__name__} changes files where they are, so it takes no catalog=")
            options.setdefault("table", True)
        return self._call(function, arguments, options)

    def _call(self, function: Callable[..., _Result], arguments: tuple[Any, ...], options: dict[str, Any]) -> _Result:
        given = self._how(inspect.signature(function).parameters)
        paths = self._open.paths[0] if len(self._open.paths) == 1 else self._open.paths
        try:
            return function(paths, *arguments, **{**given, **options})
        finally:
            self.refresh()

    def _how(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the keywords that say how files are read."""
        attributes = {name: "index_folder" if name == "index" else name for name in inspect.get_annotations(Reading)}
        return {name: getattr(self._open, attributes[name]) for name in attributes if name in names}

    # -- the lake itself --

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        how = self._how(inspect.get_annotations(Reading).keys() - {"cache", "progress", "log"})
        return _again, (type(self), self._open.paths, {**how, "refresh_every": self._open.refresh_every})

    def __repr__(self) -> str:
        paths = self._open.paths
        names = ", ".join(map(str, paths[:2])) + (", …" if len(paths) > 2 else "")
        if (opened := self._open.listed) is None:
            return f"<Lake {names}: not listed yet>"
        parts = [count_text(len(opened.sources), "file"), size_text(sum(source.size for source in opened.sources))]
        if opened.table is not None:
            snapshot = opened.table.snapshot
            parts.append(snapshot.kind if snapshot.version is None else f"{snapshot.kind} version {snapshot.version}")
        return f"<Lake {names}: {', '.join(parts)}{', index' if opened.index is not None else ''}>"


def _again(kind: type[Lake], paths: list[Any], how: dict[str, Any]) -> Lake:
    return kind(paths, **how)


class LakeIndex:
    """The functions of `parquet_bloom.index` for the directory or table of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def _call(self, function: Callable[..., IndexState], *arguments: Any, **options: Any) -> IndexState:
        if self._lake._open.as_of is not None:
            raise UnsupportedError("as_of= names an earlier version; an index is of the newest one")
        return self._lake._call(function, arguments, {"at": self._lake._open.index_folder, **options})

    def create(self, columns: Sequence[str | IndexedColumn] | str, **options: Any) -> IndexState:
        """Create the index of columns, or add them to it; see `parquet_bloom.index.create`."""
        from parquet_bloom.verbs.index import create

        return self._call(create, columns, **options)

    def refresh(self, **options: Any) -> IndexState:
        """Bring the index up to date; see `parquet_bloom.index.refresh`."""
        from parquet_bloom.verbs.index import refresh

        return self._call(refresh, **options)

    def show(self, **options: Any) -> IndexState:
        """Return what the index has; see `parquet_bloom.index.show`."""
        from parquet_bloom.verbs.index import show

        return self._call(show, **options)

    def drop(self, columns: Sequence[str] | str | None = None, **options: Any) -> IndexState:
        """Remove columns from the index, or all of it; see `parquet_bloom.index.drop`."""
        from parquet_bloom.verbs.index import drop

        return self._call(drop, columns, **options)


@with_reading
def open(paths: Any, *, refresh_every: float | None = None, **how: Unpack[Reading]) -> Lake:
    """Return a lake: files or a table, to be asked as often as you like. Nothing is read until the first question.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        refresh_every: List the files, and a table's newest version, again after so many seconds. In between, objects in
            stores are taken to be as they were listed; local files are looked at before each question.

    Returns:
        A `Lake`, whose methods are the functions of this package that take `paths`.

    Raises:
        TypeError: A keyword is not one of these.

    Examples:
        >>> lake = parquet_bloom.open("events")
        >>> lake.prune("id = 7").paths, lake.has("id", 7), lake.has("id", 5000)
        (('events/b.parquet',), True, False)
        >>> lake
        <Lake events: 2 files, ...>
    """
    return Lake(paths, refresh_every=refresh_every, **how)
