"""The log of a Delta table as it stands on the disk: checkpoints, commits, and when each commit was made.

deltalake has most of it too, but neither the statistics as they are written nor in-commit timestamps, nor the features
that it does not know. (Delta transaction log protocol: Checkpoints, In-Commit Timestamps.)
"""

from __future__ import annotations

import bisect
import contextlib
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.storage.drive import read_each, read_whole
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import Source, StorageOptions, find
from parquet_bloom.tables.delta_statistics import EPOCH, is_by_deltalake, is_derived, statistics_texts, without_moments
from parquet_bloom.tables.roots import Root
from parquet_bloom.tables.unpacking import Room

KEPT = ("path", "size", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")
"""What is kept of an add action, besides its maps."""

MAPS = ("partitionValues", "tags")

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:(?:\d{10}\.(\d{10})\.)?parquet|[0-9a-f-]{36}\.(?:parquet|json))")


class Log:
    """The state of a Delta table at one version: its live `adds` by path, `protocol` and `metadata`.

    An add whose statistics were a struct in a checkpoint, which writers derive from what is written first, `is_parsed`.
    Nothing is read before `read` is called. `on_remove` is told the version and path of each remove action.
    """

    def __init__(self, files: Root, options: StorageOptions, on_remove: Callable[[int, str], None]) -> None:
        self._files, self._options, self._on_remove = files, options, on_remove
        self.root: str = files.location.rstrip("/")
        self.folder: Folder = Folder(f"{self.root}/_delta_log", storage_options=options, guard=files.require)
        self.version: int | None = None
        self.adds: dict[str, dict[str, Any]] = {}
        self.protocol: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self.metadata.get("configuration") or {})

    def read(self, version: int) -> None:
        """Bring the state to a version; only newer commits are read if the state is of an earlier one."""
        if self.version == version:
            return
        if self.version is None or self.version > version:
            self.adds, self.protocol, self.metadata = {}, {}, {}
            first = self._read_checkpoint(version)
        else:
            first = self.version + 1
        self.version = None  # until all is read: what raises leaves no half of a state behind
        self._read_commits(range(first, version + 1))
        self.version = version

    def require_room(self) -> None:
        """Raise `UnsupportedError` if the newest checkpoint, or a sidecar, unpacks to more than is allowed."""
        whole = _checkpoints(self.folder.names())
        sidecars = Folder(f"{self.folder.name}/_sidecars", storage_options=self._options, guard=self._files.require)
        paths = [f"_delta_log/{name}" for name in (whole[max(whole)] if whole else ())]
        paths += [f"_delta_log/_sidecars/{name}" for name in sidecars.names()]
        packed = [path for path in paths if path.endswith(".parquet")]
        for path, data in zip(packed, read_each(self._find(packed)), strict=True):
            with contextlib.suppress(CorruptFileError):  # whoever reads it says what is wrong
                Room().parquet(memoryview(data), path)

    def commit(self, version: int) -> bytes:
        """Return a commit as it stands in the log."""
        (source,) = self._find([f"_delta_log/{commit_name(version)}"])
        return read_whole(source)

    def in_commit_timestamp(self, version: int) -> int:
        """Return a commit's in-commit timestamp, in milliseconds; raises `CorruptFileError` if it has none."""
        first = json.loads(self.commit(version).split(b"\n", 1)[0])
        timestamp = (first.get("commitInfo") or {}).get("inCommitTimestamp")
        if type(timestamp) is not int:
            raise CorruptFileError(
                f"version {version} has no in-commit timestamp, although the table requires one", path=self.root
            )
        return timestamp

    # ---- the state -------------------------------------------------------------------------

    def _read_checkpoint(self, version: int) -> int:
        """Read the newest checkpoint up to a version; return the first version whose commit must be read."""
        whole = {at: names for at, names in _checkpoints(self.folder.names()).items() if at <= version}
        if not whole:
            return 0
        newest = max(whole)
        sidecars: list[str] = []
        room = Room()
        for action in self._actions(whole[newest], "", room):
            if sidecar := action.get("sidecar"):
                sidecars.append(sidecar["path"])
            self._take(action)
        for action in self._actions(sidecars, "_sidecars/", room):
            self._take(action)
        return newest + 1

    def _actions(self, names: Sequence[str], below: str, room: Room) -> Iterator[dict[str, Any]]:
        """Yield the actions in parts of a checkpoint; a sidecar is named by its path below `_sidecars`, or its URL."""
        paths = [name if "://" in name else f"_delta_log/{below}{name}" for name in names]
        for name, data in zip(names, read_each(self._find(paths)), strict=True):
            yield from _lines(data) if name.endswith(".json") else _rows(data, name, room)

    def _read_commits(self, versions: range) -> None:
        try:
            sources = self._find([f"_delta_log/{commit_name(version)}" for version in versions])
        except FileNotFoundError as error:
            raise UnsupportedError(
                f"{error}: the log of {self.root} continues from a checkpoint of a kind that is not supported"
            ) from None
        for version, data in zip(versions, read_each(sources), strict=True):
            for action in _lines(data):
                self._take(action)
                if "remove" in action:
                    self._on_remove(version, action["remove"]["path"])

    def history(self, newest: int) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
        """Yield each version up to `newest` that can be read, the oldest first, with its files' paths and adds."""
        first = _first_whole(self.root, dict.fromkeys(self.folder.names(), 0))
        oldest = Log(self._files, self._options, lambda version, removed: None)
        if first:
            oldest.read(first)
            yield first, list(oldest.adds.items())
            first += 1
        adds = oldest.adds
        for version in range(first, newest + 1):
            actions = list(_lines(self.commit(version)))
            for action in actions:  # a file with another deletion vector is removed and added at once
                if "remove" in action:
                    adds.pop(action["remove"]["path"], None)
            for action in actions:
                if add := action.get("add"):
                    adds[add["path"]] = add
            yield version, list(adds.items())

    def _find(self, paths: Sequence[str]) -> list[Source]:
        return find(map(self._files.require, paths), storage_options=self._options, literal=True)

    def _take(self, action: Mapping[str, Any]) -> None:
        if add := action.get("add"):
            self.adds[add["path"]] = {name: add.get(name) for name in (*KEPT, *MAPS, "is_parsed")}
        self.protocol = action.get("protocol") or self.protocol
        self.metadata = action.get("metaData") or self.metadata

    # ---- versions by time ------------------------------------------------------------------

    def version_at(self, time: datetime, newest: int, configuration: Mapping[str, str]) -> int:
        """Return the version that a table with these properties was at; the newest for a time that is yet to come.

        In-commit timestamps count from the version that enabled them on, and before it the times of the log's files,
        made to rise: so does delta-spark. Raises `UnsupportedError` for a time before the first version that is left.
        """
        asked = (time - EPOCH) // timedelta(milliseconds=1)
        times = self.folder.times()
        first = _first_whole(self.root, times)
        made = {int(match[1]): at for name, at in times.items() if (match := _COMMIT.fullmatch(name))}
        versions = sorted(version for version in made if first <= version <= newest)
        enabled, since = _enablement(self.root, configuration)
        if enabled is not None and since <= asked:
            versions = [version for version in versions if version >= enabled]
            at = bisect.bisect_right(versions, asked, key=self.in_commit_timestamp)
        else:
            versions = [version for version in versions if enabled is None or version < enabled]
            at = bisect.bisect_right(list(_rising(made[version] for version in versions)), asked)
        if not at:
            raise UnsupportedError(f"the log of {self.root} begins after {time.isoformat()}; ask for a later time")
        return versions[at - 1]


def commit_name(version: int) -> str:
    """Return the name of a version's file in the log."""
    return f"{version:020}.json"


def has_in_commit_timestamps(configuration: Mapping[str, str]) -> bool:
    """Return whether a table with these properties has in-commit timestamps."""
    return configuration.get("delta.enableInCommitTimestamps", "").lower() == "true"


def _enablement(root: str, configuration: Mapping[str, str]) -> tuple[int | None, int]:
    """Return the first version with in-commit timestamps, and its time; None where they are not enabled."""
    if not has_in_commit_timestamps(configuration):
        return None, 0
    names = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
    version, time = (configuration.get(name) for name in names)
    if version is None and time is None:
        return 0, _BEFORE_ALL
    try:
        return int(str(version)), int(str(time))
    except ValueError:
        raise CorruptFileError(f"the properties {names[0]} and {names[1]} are not both numbers", path=root) from None


_BEFORE_ALL = -(2**63)


def _rising(times: Iterator[int]) -> Iterator[int]:
    """Yield the times, each made later than the one before: clocks may have been set back."""
    last = _BEFORE_ALL
    for time in times:
        last = max(time, last + 1)
        yield last


def _first_whole(root: str, names: Mapping[str, int]) -> int:
    """Return the first version that can be read: 0, or the oldest checkpoint that commits continue from."""
    commits = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
    if 0 in commits:
        return 0
    readable = [version for version in _checkpoints(names) if commits and version >= min(commits) - 1]
    if not readable:
        raise UnsupportedError(f"the log of {root} has no version that can be read")
    return min(readable)


def _checkpoints(names: Mapping[str, Any] | Sequence[str]) -> dict[int, list[str]]:
    """Return the names of one whole checkpoint for each version that has one."""
    parts_of: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name in sorted(names):
        if match := _CHECKPOINT.fullmatch(name):
            parts_of[int(match[1]), match[2] or name].append(name)
    return {
        version: parts
        for (version, count), parts in parts_of.items()
        if len(parts) == (int(count) if count.isdecimal() else 1)
    }


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the actions of a commit, or of a checkpoint in JSON."""
    for line in data.splitlines():
        if line:
            yield json.loads(line)


def _rows(data: bytes, name: str, room: Room) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint in Parquet that make up a table's state; statistics are texts."""
    import pyarrow.parquet as pq

    at_once = room.parquet(memoryview(data), name)
    with pq.ParquetFile(io.BytesIO(data), coerce_int96_timestamp_unit="us") as checkpoint:
        wanted = [*(f"add.{name}" for name in (*KEPT, *MAPS)), "protocol", "metaData", "sidecar"]
        table = _in_steps(checkpoint, wanted, at_once, name, room)
        parsed = statistics_texts(checkpoint, lambda columns: _in_steps(checkpoint, columns, at_once, name, room))
        is_theirs = is_by_deltalake(checkpoint)
    for number, row in enumerate(table.to_pylist()):
        if (add := row.get("add")) is not None and add["path"] is None:
            add = row["add"] = None  # what some writers leave where there is none
        if add is not None:
            add.update({key: dict(add[key]) for key in MAPS if add.get(key)})
            add["is_parsed"] = not (text := add.get("stats")) or (is_theirs and is_derived(text))
            add["stats"] = without_moments(text) if text and add["is_parsed"] else text or parsed(number)
        if (metadata := row.get("metaData")) is not None:
            metadata["configuration"] = dict(metadata.get("configuration") or ())
        yield {key: action for key, action in row.items() if action is not None}


def _in_steps(checkpoint: Any, columns: Sequence[str], at_once: int, name: str, room: Room) -> Any:
    """Return a table of some columns, of which so many rows are decoded at once."""
    import pyarrow as pa

    batches = []
    for batch in checkpoint.iter_batches(at_once, columns=columns):
        room.take(batch.nbytes, name)
        batches.append(batch)
    return pa.Table.from_batches(batches) if batches else checkpoint.read(columns=columns)
