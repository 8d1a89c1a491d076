"""What an erasure writes into its ledger: what it is about to erase, and in the end what it has erased.

The ledger is written before the first file changes, and again at the end. A run that was killed leaves one that says
what it had begun; the repeat continues it, and says of each file what has become of it.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, without_secrets
from parquet_bloom.results import FailedFile, in_unicode
from parquet_bloom.storage import system
from parquet_bloom.storage.local_files import lock, new_file, statuses
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.erase_files import FileErased
from parquet_bloom.verbs.erase_ledger import (
    FAILED,
    HASHED,
    PLAIN,
    LedgerHeader,
    LedgerKeys,
    LedgerRow,
    LedgerStatus,
    WrittenLedger,
    key_names,
    read_ledger,
    secret_of,
    write_ledger,
)
from parquet_bloom.verbs.erase_search import RowsWithKeys, erased_values


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: `version` is the table's then.

    `held_by` are earlier versions and the keys, by their indexes, of which they have rows until `expire_with`. `stale`
    are indexes that still tell of keys.
    """

    version: int | None = None
    held_by: Sequence[tuple[int, frozenset[int]]] = ()
    expire_with: str | None = None
    stale: Sequence[FailedFile] = ()
    notes: Sequence[str] = ()


@dataclass(slots=True)
class Recording:
    """Collects what a run erases, and writes its ledger."""

    path: Path
    column: str
    keys: Keys
    timezone: str | None
    secret: bytes | None
    """None for a ledger with the keys themselves."""
    request: str | None = None
    earlier: WrittenLedger | None = None
    """The ledger of an earlier run, which this one continues."""
    kind: str = "files"
    paths: tuple[str, ...] = ()
    where: str | None = None
    version: int | None = None
    """The table's before the run."""
    intended: dict[str, Counter[int]] = field(default_factory=dict)
    """The rows of each key, by the key's index, that are to leave the files that change."""
    removals: set[str] = field(default_factory=set)
    """Those of the files that are to be removed, because they have no other rows."""
    erased: dict[str, Counter[int]] = field(default_factory=dict)
    """The rows that have left."""
    searched: Sequence[str] = ()
    """The files that the search at the end found without a key."""
    failed: dict[str, tuple[LedgerStatus, str]] = field(default_factory=dict)
    """The files that were refused, or of which nothing could be proved, and why."""
    is_over: bool = False
    _names: Sequence[str] = ()
    _numbers: dict[str, int] = field(default_factory=dict)
    _began: str = ""
    _time: str = ""
    _like: list[os.stat_result] = field(default_factory=list)
    _held: BinaryIO | None = None
    """The ledger, locked: two runs must not write one."""

    def __post_init__(self) -> None:
        self._names, self._began = key_names(self.keys, self.secret), _now()
        self._numbers = {name: key for key, name in enumerate(self._names)}

    def rows_with(self, found: RowsWithKeys) -> Counter[int]:
        """Return how many rows of each key, by its index, were found in a file."""
        import pyarrow.compute as pc

        stored = self.keys.stored_in(found.leaf, self.timezone, exactly=True)
        rows: Counter[int] = Counter()
        for array in erased_values(found):
            values, counts = pc.value_counts(array).flatten()
            for keys, count in zip(stored.owners_of(values), counts.to_pylist(), strict=True):
                rows.update(dict.fromkeys(keys, count))
        return rows

    # ---- the ledger --------------------------------------------------------------------------

    def concerns(
        self, paths: Iterable[str], *, kind: str = "files", where: str | None = None, version: int | None = None
    ) -> None:
        """Note what is erased from; raises `ValueError` if a ledger that is to be continued is about something else."""
        self.paths = tuple(in_unicode(without_secrets(path)) for path in paths)
        self.kind, self.where, self.version = kind, where, version
        if self.earlier is None or (header := self.earlier.header) is None:
            return
        pairs = {
            "table" if kind != "files" else "paths": ((header.kind, header.paths), (kind, self.paths)),
            "column": (header.column, self.column),
            "where": (header.where, where),
            "timezone": (header.timezone, self.timezone),
            "kind of keys": (header.algorithm, self._algorithm),
            "keys": ({row.key for row in self.earlier.rows} - {None}, {*self._numbers}),
            "request": (header.request or self.request, self.request or header.request),
        }
        if others := [name for name, (was, now) in pairs.items() if was != now]:
            raise ValueError(f"{self.path} is the ledger of an erasure with another {others[0]}; name a new file")

    def protect(self, files: Iterable[str | os.PathLike[str]]) -> None:
        """Let only those read the ledger who may read all of these files."""
        self._like += statuses(files)

    @property
    def _algorithm(self) -> str:
        return PLAIN if self.secret is None else HASHED

    def note(self, status: LedgerStatus, rows: Iterable[FileErased], names: Mapping[str, str] | None = None) -> None:
        """Note the files with an error that have none so far, by their `names`, if they have others."""
        for row in rows:
            if row.error is not None:
                self.failed.setdefault(row.path if names is None else names[row.path], (status, row.error))

    def has_removed(self, path: str) -> bool:
        """Return whether an earlier run was to remove the files at or below a path, as far as it was to change them."""
        below = f"{path.rstrip('/')}/"
        rows = self.earlier.rows if self.earlier is not None else ()
        reasons = {row.reason for row in rows if row.status == "begun" and f"{row.file}/".startswith(below)}
        return reasons == {_REMOVAL}

    def lost(self) -> list[str]:
        """Return the files that an earlier run was to change and not to remove, and that this one has not found."""
        known = {in_unicode(file) for file in (*self.searched, *self.failed, *self.erased)}
        rows = self.earlier.rows if self.earlier is not None else ()
        begun = dict.fromkeys(row.file for row in rows if row.status == "begun" and row.reason != _REMOVAL)
        return [file for file in begun if file is not None and file not in known]

    def begin(self, intended: Mapping[str, Counter[int]], removals: Iterable[str] = ()) -> None:
        """Write which rows are to leave which files, before the first of these changes."""
        self.intended |= intended
        self.removals |= {*removals}
        self._write(None)

    def end(self, ending: Ending) -> LedgerHeader:
        """Write what came of it; return what the ledger says of the run."""
        header = self._write(ending)
        self.is_over = True
        return header

    def hold(self) -> None:
        """Lock the ledger, until it is replaced or the run ends; raises `ConcurrentChangeError` if another run has."""
        file = self.path.open("rb")
        try:
            lock(file.fileno(), self.path)
        except BlockingIOError:
            file.close()
            raise ConcurrentChangeError(f"another run is writing {self.path}") from None
        self.release()
        self._held = file

    def release(self) -> None:
        """Leave the ledger to the next run."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _write(self, ending: Ending | None) -> LedgerHeader:
        self._time = _now()
        rows = list(self._rows(ending))
        header = self._header(ending, rows)
        replaces = self._held is not None
        if not system.CAN_RENAME_OPEN_FILES:
            self.release()
        with new_file(self.path, replace=replaces, like=self._like) as file:
            write_ledger(file, self.path, header, rows, self.secret)
        if ending is None:
            self.hold()
        return header

    def _header(self, ending: Ending | None, rows: Sequence[LedgerRow]) -> LedgerHeader:
        earlier = self.earlier.header if self.earlier is not None else None
        failed = {row.file for row in rows if row.file and row.status in (*FAILED, "begun")}
        held = [version for version, _ in ending.held_by] if ending is not None else []
        return LedgerHeader(
            outcome="begun" if ending is None else "incomplete" if failed else "complete",
            written_by=f"parquet_bloom {parquet_bloom.__version__}",
            request=self.request or (earlier.request if earlier is not None else None),
            kind=self.kind,
            paths=self.paths,
            column=self.column,
            where=self.where,
            timezone=self.timezone,
            algorithm=self._algorithm,
            began=self._began if earlier is None else earlier.began,
            ended=None if ending is None else self._time,
            runs=1 if earlier is None else earlier.runs + 1,
            version_before=self.version if earlier is None else earlier.version_before,
            version_after=None if ending is None else ending.version,
            held_by=tuple(_ranges(held)),
            expire_with=ending.expire_with if ending is not None and held else None,
            num_keys=len(self._numbers),
            keys_nowhere=sum(row.status == "nowhere" for row in rows),
            keys_not_known=sum(row.status == "not known" for row in rows),
            files_failed=0 if ending is None else len(failed),
            proof="not done" if ending is None else "failed" if self.failed else "passed",
            files_searched=() if ending is None else tuple(map(in_unicode, self.searched)),
            notes=() if ending is None else (*map(in_unicode, ending.notes), *self._not_found()),
        )

    def _not_found(self) -> Iterator[str]:
        """Yield what an earlier run was refused, and is no longer there: nobody searched it."""
        known = {in_unicode(file) for file in (*self.searched, *self.failed, *self.erased)}
        for row in self.earlier.rows if self.earlier is not None else ():
            if row.key is None and row.status in ("refused", "not proved") and row.file not in known:
                yield f"{row.file}: {row.status} by an earlier run ({row.reason}), and no longer there"

    # ---- its rows ----------------------------------------------------------------------------

    def _rows(self, ending: Ending | None) -> Iterator[LedgerRow]:
        """Yield the rows of each key, and those of files; first what an earlier run has erased."""
        failed = {in_unicode(file): why for file, why in self.failed.items()}
        versions: dict[int, list[int]] = {}
        for version, keys in () if ending is None else ending.held_by:
            for key in keys:
                versions.setdefault(key, []).append(version)
        found: dict[str | None, list[LedgerRow]] = {}
        fresh = [*self._of_run(is_over=ending is not None, failed=failed)]
        again = {(row.key, row.file) for row in fresh}
        for row in (*self._of_earlier(again, ending, failed), *fresh):
            found.setdefault(row.key, []).append(row)
        for name, key in self._numbers.items():
            absent: LedgerStatus = "begun" if ending is None else "not known" if failed else "nowhere"
            held = tuple(_ranges(versions.get(key, ())))
            for row in found.get(name) or [self._row(name, None, 0, absent)]:
                if ending is not None:
                    row = replace(row, version_after=row.version_after or ending.version, held_by=held)
                yield replace(row, expire_with=ending.expire_with) if ending is not None and held else row
        if ending is None:
            yield from found.get(None, ())
            return
        live = () if ending.version is None else (str(ending.version),)
        of_files = [replace(self._row(None, file, 0, *why), held_by=live) for file, why in failed.items()]
        stale = [self._row(None, in_unicode(one.path), 0, "stale", in_unicode(one.error)) for one in ending.stale]
        for row in (*found.get(None, ()), *of_files, *stale):
            yield replace(row, version_after=row.version_after or ending.version)

    def _of_run(self, *, is_over: bool, failed: Mapping[str, tuple[LedgerStatus, str]]) -> Iterator[LedgerRow]:
        """Yield what this run has erased, or is about to, or was refused to; with a key, or of a file that had none."""
        for file, counts in {**self.intended, **self.erased}.items():
            name = in_unicode(file)
            for key in counts or (None,):  # only a dictionary had a key
                of = None if key is None else self._names[key]
                if of is not None and self._numbers[of] != key:  # it was given twice
                    continue
                rows = 0 if key is None else counts[key]
                if file in self.erased:
                    yield self._row(of, name, rows, "rewritten" if key is None else "erased")
                elif not is_over:
                    yield self._row(of, name, rows, "begun", _REMOVAL if file in self.removals else None)
                elif name in failed and of is not None:
                    yield self._row(of, name, 0, "refused", failed[name][1])

    def _of_earlier(
        self,
        again: set[tuple[str | None, str | None]],
        ending: Ending | None,
        failed: Mapping[str, tuple[LedgerStatus, str]],
    ) -> Iterator[LedgerRow]:
        """Yield what an earlier run has erased, or begun to erase, unless it is erased `again`."""
        for row in () if self.earlier is None else self.earlier.rows:
            if row.status in ("erased", "rewritten", "gone"):
                yield row
            elif row.status == "begun" and row.file is not None and (row.key, row.file) not in again:
                if ending is not None:
                    now: LedgerStatus = "begun" if row.file in failed else "gone"
                    row = replace(row, status=now, reason=failed[row.file][1] if row.file in failed else None)
                yield row

    def _row(
        self, key: str | None, file: str | None, rows: int, status: LedgerStatus, reason: str | None = None
    ) -> LedgerRow:
        return LedgerRow(
            key, file, rows, self.version, None, self._time, where=self.where, status=status, reason=reason
        )


@contextlib.contextmanager
def recording(
    path: str | os.PathLike[str] | None,
    column: str,
    keys: Keys,
    timezone: str | None,
    *,
    secret: str | bytes | None,
    written: LedgerKeys,
    request: str | None,
    like: Any,
) -> Iterator[Recording | None]:
    """Give what writes the ledger of a run, if it is to have one; of a run that failed, it says what is known.

    Raises what would keep it from being written, before anything is erased. The ledger of a run that did not end, or
    not well, is continued. Only those who may read `like`, if that is a path, may read it.
    """
    if path is None:
        if request is not None:
            raise ValueError("request= is written to a ledger; it needs ledger=")
        yield None
        return
    record = _opened(Path(path).expanduser(), column, keys, timezone, secret, written, request)
    try:
        record.protect([like] if isinstance(like, os.PathLike) else ())
        if os.path.lexists(record.path):
            record.hold()
            record.earlier = _unfinished(record)
            record.protect([record.path])
        yield record
    except BaseException:
        if record.intended and not record.is_over:
            with contextlib.suppress(Exception):
                record.begin({})
        raise
    finally:
        record.release()


def _opened(
    path: Path,
    column: str,
    keys: Keys,
    timezone: str | None,
    secret: str | bytes | None,
    written: LedgerKeys,
    request: str | None,
) -> Recording:
    if path.suffix not in (".json", ".parquet"):
        raise ValueError(f"ledger= must end in .json or .parquet, not {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a directory")
    if written not in ("hmac", "plain"):
        raise ValueError(f"ledger_keys= must be 'hmac' or 'plain', not {written!r}")
    return Recording(path, column, keys, timezone, secret_of(secret) if written == "hmac" else None, request)


def _unfinished(record: Recording) -> WrittenLedger:
    """Return the ledger that is there, if it is one that can be continued."""
    path, earlier = record.path, None
    with contextlib.suppress(CorruptFileError):
        earlier = read_ledger(path)
    if earlier is None or earlier.header is None or earlier.header.outcome == "complete":
        raise FileExistsError(f"{path} already exists; a ledger is not overwritten")
    if earlier.digest != earlier.computed:
        raise ValueError(f"{path} was changed after it was written, so it is not continued; name a new file")
    if record.secret is not None and not earlier.is_sealed_by(record.secret):
        raise ValueError(f"{path} was written with another secret, so it is not continued; name a new file")
    return earlier


_REMOVAL = "the file has no other rows, and is to be removed"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _ranges(versions: Iterable[int]) -> Iterator[str]:
    """Yield versions as text, those that follow each other as a range."""
    run: list[int] = []
    for version in sorted(versions):
        if run and version != run[-1] + 1:
            yield _range(run)
            run = []
        run.append(version)
    if run:
        yield _range(run)


def _range(run: Sequence[int]) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


__all__ = ["Ending", "Recording", "recording"]
