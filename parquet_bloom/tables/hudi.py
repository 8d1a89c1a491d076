"""Hudi tables: the live files, from the timeline and a listing. Hudi tables are never written.

A table is file groups, (partition, file id), whose files say in their names which instant wrote them:

    <file id>_<write token>_<instant>.<parquet, orc, hfile or lance>    a base file
    .<file id>_<instant>.log.<number>_<write token>                     a log file
    .<name of another file>.crc                                         its checksum, on a local disk

A file counts if its instant is completed, or older than the timeline, whose beginning is archived. Of a group, the
newest base file is live, unless a replacecommit (clustering, INSERT OVERWRITE) has replaced the group. Its log files
hold newer rows. Timeline layout 1 keeps instants in `.hoodie` (`<instant>.<action>`, JSON; a log file is named after
the base file's instant), layout 2 in `.hoodie/timeline` (`<requested>_<completed>.<action>`, Avro; after its own).

Sources: Hudi's technical specification ("Timeline", "File Layout Hierarchy"), and tables that Hudi wrote.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

from parquet_bloom.errors import CorruptFileError, UnsupportedError, not_found
from parquet_bloom.storage.drive import read_each, read_whole
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import StorageOptions, files_below, is_local, resolve
from parquet_bloom.tables.hudi_columns import HudiColumns
from parquet_bloom.tables.hudi_properties import properties, why_not_understood
from parquet_bloom.tables.hudi_schemas import History, newest_commits
from parquet_bloom.tables.live_files import LiveFile, Problem
from parquet_bloom.tables.placement import ByName
from parquet_bloom.tables.roots import Root
from parquet_bloom.tables.snapshots import Readable, Snapshot, fsspec_options, moment
from parquet_bloom.tables.unpacking import AVRO, Room

LOGS = "log files of its file group may hold newer rows"
_TRIES = "attempts at one write left several files of its file group, and the timeline does not name the right one"
LOG_ONLY = "it is a log file of a file group that has no base file"
_NO_SCHEMA = "the table's newest schema is not known"
_UNLIKE = "had another name, id or type when the file was written"

_NEWEST_VERSION = 9
_META_NAMES = tuple(
    f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)
_WRITES = ("commit", "deltacommit", "replacecommit")
_BASE = re.compile(r"(?P<group>[^_.][^_]*)_[^_]*_(?P<instant>\d+)\.(?P<kind>parquet|orc|hfile|lance)")
_LOG = re.compile(r"\.(?P<group>[^_.][^_]*)_(?P<instant>\d+)\.log\.\d+(_[^_]*)?")
_LATEST_SCHEMA, _SCHEMA = "latest_schema", "schema"
_PARTITION = ".hoodie_partition_metadata"

_Group = tuple[str, str]  # partition, file id


@dataclass(frozen=True, slots=True)
class _Instant:
    requested: str
    completed: str | None  # layout 1 does not say
    action: str
    name: str


@dataclass(frozen=True, slots=True)
class _DataFile:
    path: str
    instant: str
    size: int
    kind: str = "log"


@dataclass(slots=True)
class _Files:
    base: list[_DataFile] = field(default_factory=list)
    logs: list[_DataFile] = field(default_factory=list)


@dataclass(slots=True)
class _Written:
    """What the completed instants record: base files by group and instant, replaced groups, and schemas, as JSON.

    `schemas` are those of schema on read, and `noted` those of the writers, by instant.
    """

    base: dict[_Group, dict[str, set[str]]] = field(default_factory=dict)
    replaced: set[_Group] = field(default_factory=set)
    schemas: set[str] = field(default_factory=set)
    noted: dict[str, str] = field(default_factory=dict)


class OpenHudi(Readable):
    """A Hudi table.

    `as_of` is an instant, or a time: in the zone that the table says its instants are in, which is this machine's
    where it says `LOCAL`, as it does by default and as Hudi itself understands it.
    """

    kind = "Hudi"

    def __init__(
        self,
        table: Any,
        *,
        storage_options: StorageOptions = None,
        as_of: int | str | None = None,
        allow_outside: bool = False,
    ) -> None:
        self._options = fsspec_options(storage_options)
        path = os.fspath(table)
        fs, inner = resolve(path, None, self._options)
        self._root = (inner if is_local(fs) else path).rstrip("/") or "/"
        self._files = Root(self._root, allow_outside=allow_outside)
        self.snapshot: Snapshot = self._read(as_of)

    def refresh(self) -> Snapshot:
        """Load and return the newest snapshot."""
        self.snapshot = self._read(None)
        return self.snapshot

    # ---- reading -------------------------------------------------------------------------

    def _read(self, as_of: int | str | None) -> Snapshot:
        settings = self._settings()
        timeline, is_new = self._timeline(settings)
        names = timeline.names()  # before the listing, so that what is written in between is not completed
        instants, savepoints = _instants(names, is_new)
        upto = None if as_of is None else _instant_of(as_of, settings.get("hoodie.table.timeline.timezone", "LOCAL"))
        taken = [each for each in instants if upto is None or each.requested <= upto]
        if upto is not None and not taken:
            raise UnsupportedError(f"the timeline of {self._root} does not go back to {as_of}")
        if not taken:
            self._require_empty()
            return Snapshot(self.kind, self._root, None, ())
        last = max(each.requested for each in taken)
        written = self._written(timeline, taken)
        completed = {each.requested: each.completed for each in instants}
        first = min((each for each in completed if each not in savepoints), default=last)
        is_cow = settings.get("hoodie.table.type", "COPY_ON_WRITE").upper() == "COPY_ON_WRITE"

        def is_committed(instant: str) -> bool:
            return instant in completed or instant < first

        history, reason = self._history(written, is_committed)
        hidden = _hidden(settings)
        newest = _newest_schema(taken, written.noted) if written.noted else settings.get("hoodie.table.create.schema")
        columns = None if newest is None else _columns(newest, written.noted, hidden, settings)
        reason = why_not_understood(settings) or reason or (None if columns else _NO_SCHEMA)
        groups = self._groups(is_cow)
        self._check_external(written)
        live: list[LiveFile] = []
        for group in sorted({*groups, *written.base} - written.replaced):
            files, named = groups.get(group, _Files()), written.base.get(group, {})
            base = _newest([f for f in files.base if f.instant <= last and is_committed(f.instant)], named)
            self._check_present(group, base, named)
            newer = _newer(files.logs, base, completed, last, is_new)
            for file, instant in self._live(base, newer, history, reason):
                live.append(file if columns is None else columns.placed(file, group[0], instant))
        return Snapshot(
            self.kind,
            self._root,
            int(last),
            tuple(live),
            naming=columns or ByName(hidden),
            columns=None if columns is None else lambda: columns.declared,
            properties=settings,
        )

    def _require_empty(self) -> None:
        """Raise if a table without a completed write has data files: it is not understood what they are."""
        for path in self._listed():
            hidden = any(part.startswith((".", "_")) for part in path.split("/")[:-1])
            if not hidden and path.endswith((".parquet", ".orc", ".hfile", ".lance")):
                raise UnsupportedError(f"{self._root} has files ({path}), but no completed write in its timeline")

    def _settings(self) -> dict[str, str]:
        folder = self._folder(".hoodie")
        try:
            data = read_whole(folder.source("hoodie.properties"))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise not_found(f"{self._root} is not a Hudi table: it has no .hoodie/hoodie.properties") from None
        settings = properties(data.decode("latin-1"))
        if not settings.get("hoodie.table.name"):
            raise CorruptFileError(".hoodie/hoodie.properties does not name the table: it is damaged", path=self._root)
        version = settings.get("hoodie.table.version", "1")
        if not re.fullmatch("[0-9]{1,9}", version) or int(version) > _NEWEST_VERSION:
            raise UnsupportedError(f"{self._root} is a Hudi table of version {version}, which is not supported")
        return settings

    def _timeline(self, settings: dict[str, str]) -> tuple[Folder, bool]:
        version = int(settings.get("hoodie.table.version", "1"))
        layout = settings.get("hoodie.timeline.layout.version", "2" if version >= 8 else "1")
        if layout not in ("0", "1", "2"):
            raise UnsupportedError(f"{self._root} has a timeline of layout {layout}, which is not supported")
        below = f"/{settings.get('hoodie.timeline.path', 'timeline').strip('/')}" if layout == "2" else ""
        return self._folder(f".hoodie{below}"), layout == "2"

    def _folder(self, below: str) -> Folder:
        path = f"{self._root.rstrip('/')}/{below}"
        return Folder(path, storage_options=self._options, guard=self._files.require)

    def _listed(self) -> dict[str, int]:
        """Return the size of every file of the table, by its path there."""
        return files_below(
            self._root, storage_options=self._options, why_outside=lambda path: self._files.place(path).outside
        )

    def _written(self, timeline: Folder, instants: Sequence[_Instant]) -> _Written:
        written, room = _Written(), Room()
        sources = [timeline.source(each.name) for each in instants]
        for instant, data in zip(instants, read_each(sources), strict=True):
            try:
                _take(written, instant, _commit(data, instant.name, room))
            except (ValueError, LookupError, EOFError, TypeError, AttributeError, RecursionError) as error:
                raise CorruptFileError(f"{instant.name} cannot be read: {error}", path=self._root) from error
        return written

    def _groups(self, is_cow: bool) -> dict[_Group, _Files]:
        """Return the files of each group, whatever wrote them."""
        groups: dict[_Group, _Files] = {}
        partitions, others = set(), []
        for path, size in self._listed().items():
            partition, _, name = path.rpartition("/")
            if path.startswith(".hoodie/") or any(part in ("__MACOSX", ".temp", ".aux") for part in path.split("/")):
                continue
            if name.startswith(_PARTITION):
                partitions.add(partition)
            elif match := _BASE.fullmatch(name):
                group = groups.setdefault((partition, match["group"]), _Files())
                group.base.append(_DataFile(path, match["instant"], size, match["kind"]))
            elif match := _LOG.fullmatch(name):
                if not (is_cow and name.endswith(".cdc")):  # changes for those who ask for them, and no rows
                    group = groups.setdefault((partition, match["group"]), _Files())
                    group.logs.append(_DataFile(path, match["instant"], size))
            elif not name.startswith((".", "_")) and name.endswith((".parquet", ".orc", ".hfile", ".lance")):
                others.append((partition, path))
        partitions |= {partition for partition, _ in groups}
        for partition, path in others:
            if partition in partitions:
                raise UnsupportedError(f"{path} of {self._root} is not named as Hudi names its files")
        return groups

    def _check_external(self, written: _Written) -> None:
        for instants in written.base.values():
            for name in (name for names in instants.values() for name in names):
                if not _BASE.fullmatch(name):
                    raise UnsupportedError(f"{self._root} has files that Hudi did not write, such as {name}")

    def _check_present(self, group: _Group, base: Sequence[_DataFile], written: dict[str, set[str]]) -> None:
        """Raise unless the newest base file in the timeline exists: an older one lacks rows."""
        newest = max(written, default=None)
        if newest is not None and (not base or base[0].instant < newest):
            name = min(written[newest])
            raise CorruptFileError(
                f"{'/'.join(filter(None, group[:1]))}/{name} does not exist (removed by the cleaner?)", path=self._root
            )

    def _history(self, written: _Written, is_committed: Callable[[str], bool]) -> tuple[History, str | None]:
        """Return the schemas that the table has had; if they cannot be read, none, and the reason."""
        folder = self._folder(".hoodie/.schema")
        try:
            names = newest_commits(folder.names(), is_committed)
            texts = read_each([folder.source(name) for name in names])
            return History([*texts, *written.schemas], is_committed), None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            return History((), is_committed), f"the table's schemas (.hoodie/.schema) cannot be read: {error!r}"

    def _live(
        self, base: Sequence[_DataFile], logs: Sequence[_DataFile], history: History, unknown: str | None
    ) -> Iterator[tuple[LiveFile, str]]:
        """Yield the live files of a group, each with the instant that wrote it."""
        for file in base:
            reason = LOGS if logs else None if file.kind == "parquet" else f"its base file is {file.kind}, not Parquet"
            live = self._file(file, reason or unknown, has_deletes=bool(logs))
            unlike = history.unlike(file.instant)
            unproved = frozenset((name, f"column {name} {_UNLIKE}") for name in unlike)
            unread = dict.fromkeys(unlike, f"it {_UNLIKE}")
            problem = live.problem or (Problem("some rows", _TRIES) if len(base) > 1 else None)
            yield replace(live, unproved=unproved, unread=unread, problem=problem), file.instant
        if not base:
            yield from ((self._file(log, LOG_ONLY, has_deletes=True), log.instant) for log in logs)

    def _file(self, file: _DataFile, reason: str | None, *, has_deletes: bool) -> LiveFile:
        path, outside = self._files.place(file.path)
        problem = Problem.of("outside", outside) or Problem.of("rows", reason)
        return LiveFile(path, file.path, file.size, None, has_deletes=has_deletes, problem=problem)


def _hidden(settings: dict[str, str]) -> frozenset[str]:
    """Return the columns that the table leaves out of its files."""
    is_virtual = settings.get("hoodie.populate.meta.fields", "true").strip().lower() == "false"
    return frozenset(_META_NAMES) if is_virtual else frozenset()


def _newest_schema(instants: Sequence[_Instant], noted: dict[str, str]) -> str | None:
    """Return the schema that the newest write noted; None if the one that began last is not the one that ended last."""
    with_one = [each for each in instants if each.requested in noted]
    newest = {noted[max(with_one, key=key).requested] for key in _ORDERS}
    return newest.pop() if len(newest) == 1 else None


_ORDERS: tuple[Callable[[_Instant], str], ...] = (lambda one: one.requested, lambda one: one.completed or one.requested)


def _columns(
    newest: str, noted: dict[str, str], hidden: frozenset[str], settings: dict[str, str]
) -> HudiColumns | None:
    """Return the columns of a table with this newest schema, if that is one."""
    try:
        return HudiColumns.of(newest, noted, [name for name in _META_NAMES if name not in hidden], settings, hidden)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _newest(files: Sequence[_DataFile], written: dict[str, set[str]]) -> list[_DataFile]:
    """Return the newest base file; several if attempts at one write left more than one and the timeline names none."""
    newest = max((file.instant for file in files), default=None)
    tries = [file for file in files if file.instant == newest]
    named = [f for f in tries if f.path.rpartition("/")[2] in written.get(newest or "", ())]
    return named or sorted(tries, key=lambda file: file.path)


def _newer(
    logs: Sequence[_DataFile], base: Sequence[_DataFile], completed: dict[str, str | None], last: str, is_new: bool
) -> list[_DataFile]:
    """Return the log files that may hold rows that the base file lacks: all that are not known to be older."""
    since = base[0].instant if base else ""
    newer = []
    for log in sorted(logs, key=lambda log: log.path):
        # In layout 2 a write that was requested before the base file's may have been completed after it.
        ended = completed.get(log.instant) if is_new else log.instant
        is_older = ended is not None and ended < since
        if log.instant <= last and not is_older:
            newer.append(log)
    return newer


def _instants(names: Sequence[str], is_new: bool) -> tuple[list[_Instant], set[str]]:
    """Return the completed writes, in order, and the instants with a savepoint."""
    form = re.compile(r"(\d+)_(\d+)\.([a-z]+)" if is_new else r"(\d+)()\.([a-z]+)")
    instants, saved = [], set()
    for name in names:
        if match := form.fullmatch(name):
            requested, completed, action = match.groups()
            if action in _WRITES:
                instants.append(_Instant(requested, completed or None, action, name))
            elif action == "savepoint":
                saved.add(requested)
    return sorted(instants, key=lambda each: each.requested), saved


def _instant_of(as_of: int | str, zone: str) -> str:
    text = str(as_of)
    if text.isdecimal():
        if not 14 <= len(text) <= 17:
            raise ValueError(f"{text} is not an instant: instants have 14 or 17 digits, such as 20260131120000000")
        return text.ljust(17, "9")
    time = moment(text)
    time = time.astimezone(UTC) if zone.upper() == "UTC" else time.astimezone()
    return f"{time:%Y%m%d%H%M%S}{time.microsecond // 1000:03}"


def _take(written: _Written, instant: _Instant, commit: dict[str, Any]) -> None:
    """Add what a completed instant records."""
    for partition, stats in (commit.get("partitionToWriteStats") or {}).items():
        for stat in stats:
            name = (stat.get("path") or "").rpartition("/")[2]
            if name and not _LOG.match(name):
                of_group = written.base.setdefault((partition, _group_id(stat["fileId"])), {})
                of_group.setdefault(instant.requested, set()).add(name)
    for partition, groups in (commit.get("partitionToReplaceFileIds") or {}).items():
        written.replaced |= {(partition, _group_id(group)) for group in groups}
    if schema := (commit.get("extraMetadata") or {}).get(_LATEST_SCHEMA):
        written.schemas.add(schema)
    if noted := (commit.get("extraMetadata") or {}).get(_SCHEMA):
        written.noted[instant.requested] = noted


def _group_id(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the file group {given!r:.60} is not text")
    return given


def _commit(data: bytes, name: str, room: Room) -> dict[str, Any]:
    """Return a completed instant's metadata, of either encoding."""
    if not data:
        return {}
    if not data.startswith(AVRO):
        commit: dict[str, Any] = json.loads(data)
        return commit
    try:
        import fastavro
    except ImportError:
        raise UnsupportedError(
            "the timeline of Hudi tables from version 8 on is read by fastavro: pip install 'parquet-bloom[hudi]'"
        ) from None
    room.avro(data, name)
    try:
        records: list[Any] = list(fastavro.reader(io.BytesIO(data)))
        (record,) = records
    except Exception as error:  # fastavro has no error of its own for what it cannot read
        raise ValueError(repr(error)) from error
    return dict(record)
