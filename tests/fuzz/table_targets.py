"""Whole tables and an index with edits in their metadata: each input is a script of edits, eight bytes each.

So an input means the same for tables that are made again with other names and times. JSON is edited as a tree and so
are Avro records, and an index gets its checksums again if the script says so, since whoever edits a file can do that.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
from files import index_folder, unpacked

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.filters.index_states import _SECTIONS
from parquet_bloom.storage import listing

HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 255, 2**31, 2**53, -(2**63), 2**63, 2**64, 10**30, 0.5, 1e308, float("nan")),
    *("", "x", "0", "-1", "1e9", "9" * 5000, "../../x", "/etc/hostname", "a/b", "\0", "\ud800", "é%2e", "file:///x"),
    *("STRING", "true", "2", "NaN", "9999-99-99", "x" * 70_000),
    *([], {}, [[]], [None], [0], ["x"], {"": None}, {"a": {}}, {"path": 1}, {"id": -1, "name": None, "type": []}),
]
EDIT_BYTES, MOST_EDITS = 8, 6
DEEP = 3000


def _nodes(tree: Any, holder: Any = None, key: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yields every node of a tree as what holds it and its key there."""
    if holder is not None:
        yield holder, key
    if isinstance(tree, dict):
        for name, value in list(tree.items()):
            yield from _nodes(value, tree, name)
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _nodes(value, tree, number)


def edit_tree(tree: Any, op: int, where: int, value: int) -> Any:
    """Returns a tree of JSON with one node replaced, removed, repeated, or made an edited number or text."""
    root = [tree]
    nodes = list(_nodes(root))
    holder, key = nodes[where % len(nodes)] if nodes else (root, 0)
    old = holder[key]
    match op % 6:
        case 0 | 1:
            holder[key] = json.loads(json.dumps(HOSTILE[value % len(HOSTILE)]))
        case 2 if holder is not root:
            del holder[key]
        case 3 if isinstance(holder, list):
            holder.insert(key, old)
        case 4 if isinstance(old, int) and not isinstance(old, bool):
            holder[key] = old + (-1, 1, 2**31, 2**62, -(2**31))[value % 5]
        case 5 if isinstance(old, str) and old:
            at = value % len(old)
            holder[key] = old[:at] + ("", "%", "/", "..", "\n", '"', "\ud800", "0")[value % 8] + old[at + 1 :]
        case _:
            holder[key] = [old]
    return root[0]


def edit_bytes(data: bytes, op: int, where: int, value: int, extra: bytes) -> bytes:
    at = where * len(data) // 2**16
    match op % 6:
        case 0:
            return data[:at] + bytes([value]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at + value + 1 :]
        case 3:
            return data[:at] + extra + data[at:]
        case 4:
            return data[:at] + (b"[" * DEEP if value % 2 else b'{"a":' * DEEP) + data[at:]
        case _:
            return data[: at + value] + data[at:]


def edit_json_lines(data: bytes, op: int, where: int, value: int) -> bytes:
    lines = data.split(b"\n")
    line = where % len(lines)
    try:
        tree = json.loads(lines[line])
    except (ValueError, RecursionError):
        return data
    lines[line] = json.dumps(edit_tree(tree, op, where // len(lines), value)).encode()
    return b"\n".join(lines)


def edit_avro(data: bytes, op: int, where: int, value: int) -> bytes:
    import fastavro

    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema, codec, records = reader.writer_schema, reader.codec, list(reader)
        out = io.BytesIO()
        if op % 7 == 6:  # a schema with other names, but the same bytes
            text = json.dumps(schema).encode()
            edited = edit_json_lines(text, 5, where, value).ljust(len(text))
            return data.replace(text, edited[: len(text)])
        notes = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
        fastavro.writer(out, schema, _each(records, op, where, value), codec=codec, metadata=notes)
    except Exception:
        return data  # it does not fit the schema
    return out.getvalue()


def _each(records: list[Any], op: int, where: int, value: int) -> list[Any]:
    root = [*records]
    nodes = list(_nodes(root))
    holder, key = nodes[where % len(nodes)]
    old = holder[key]
    odd = {bytes: [b"", b"\0" * 12, b"\xff" * 40, b"\0\0\0\1"], int: [-1, 0, 2**31 - 1, 2**62], str: HOSTILE[17:30]}
    choices = next((some for kind, some in odd.items() if isinstance(old, kind)), [None])
    match op % 3:
        case 0:
            holder[key] = choices[value % len(choices)]
        case 1 if isinstance(old, bytes) and old:
            holder[key] = edit_bytes(old, value % 4, where, value, b"\xff")
        case 1 if isinstance(old, list):
            holder[key] = old * 2
        case _:
            holder[key] = None
    return root


class Lake:
    """A folder that is as it was again after each input."""

    def __init__(self, make: Callable[[Path], Path], marks: tuple[str, ...]) -> None:
        shm = Path("/dev/shm")
        self._home = Path(tempfile.mkdtemp(prefix="fuzz-", dir=shm if shm.is_dir() else None))
        self.root = make(self._home)
        self.files = {
            path: path.read_bytes()
            for path in sorted(self._home.rglob("*"))
            if path.is_file() and any(mark in path.parts for mark in marks) and not path.name.endswith(".crc")
        }

    def edited(self, script: bytes, seal: Callable[[Path, bytes], bytes] | None = None) -> None:
        """Applies a script of edits; `seal` makes checksums fit."""
        names = list(self.files)
        changed: dict[Path, bytes] = {}
        for start in range(0, min(len(script), MOST_EDITS * EDIT_BYTES), EDIT_BYTES):
            number, op, high, low, value, *extra = script[start : start + EDIT_BYTES].ljust(EDIT_BYTES, b"\0")
            path, where = names[number % len(names)], high << 8 | low
            data = self.edit(changed.get(path, self.files[path]), op, where, value, bytes(extra))
            changed[path] = seal(path, data) if seal is not None else data
        for path, data in changed.items():
            path.write_bytes(data)
        self._changed = changed

    def edit(self, data: bytes, op: int, where: int, value: int, extra: bytes) -> bytes:
        if op >= 128 and data.startswith(b"Obj\1"):
            return edit_avro(data, op, where, value)
        if op >= 80 and data[:1] in b"{[":
            return edit_json_lines(data, op, where, value)
        return edit_bytes(data, op, where, value, extra)

    def restored(self) -> None:
        for path in self._changed:
            path.write_bytes(self.files[path])

    def __del__(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)


def use(root: Path, where: str) -> None:
    """Uses a table as callers do; only documented errors pass. A cache of its own, since files are the same again."""
    for verb in (
        lambda: parquet_bloom.prune(root, where, cache=parquet_bloom.Cache()),
        lambda: parquet_bloom.lookup(root, where.split()[0], [3]),
    ):
        try:
            verb()
        except (ParquetBloomError, FileNotFoundError):
            pass
        except OSError as error:
            if not error.errno:  # of a library, and not of the system
                raise


@cache
def _delta() -> Lake:
    def make(home: Path) -> Path:
        lakes.delta(home / "t", files=2)
        return home / "t"

    return Lake(make, ("_delta_log",))


@cache
def _checkpointed() -> Lake:
    def make(home: Path) -> Path:
        lakes.delta(home / "t", files=3).create_checkpoint()
        return home / "t"

    return Lake(make, ("_delta_log",))


@cache
def _fixture(name: str) -> Lake:
    marks = (".hoodie",) if name.startswith("hudi") else ("snapshot", "manifest", "schema", "index")
    return Lake(lambda home: unpacked(name, home), marks)


def run_table(lakes_: Callable[[bytes], Lake], where: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        lake = lakes_(data[:1])
        lake.edited(data[1:])
        try:
            use(lake.root, where)
        finally:
            lake.restored()

    return run


def delta_of(choice: bytes) -> Lake:
    return _checkpointed() if choice and choice[0] % 4 == 0 else _delta()


HUDI = ("hudi/v6_cow", "hudi/v8_cow", "hudi_evolved/v9_nested", "hudi/v8_mor")
PAIMON = ("paimon/append", "paimon/pk_dv", "paimon_rust/embedded", "paimon/evolved")


def hudi_of(choice: bytes) -> Lake:
    return _fixture(HUDI[(choice or b"\0")[0] % len(HUDI)])


def paimon_of(choice: bytes) -> Lake:
    return _fixture(PAIMON[(choice or b"\0")[0] % len(PAIMON)])


# ---- Iceberg -----------------------------------------------------------------------------


class IcebergLake(Lake):
    """A Hadoop catalog's table, with a copy of all its files outside of its directory that must not be read.

    A file was read if its time of access changed, whoever read it.
    """

    where = "id = 3"

    def __init__(self, fill: Callable[[Any], Any]) -> None:
        super().__init__(lambda home: lakes.hadoop_table(home, fill), ("metadata",))
        self._inside, self._outside = str(self._home / "in"), str(self._home / "up")
        shutil.copytree(self._inside, self._outside)
        self._twins = [path for path in Path(self._outside).rglob("*") if path.is_file()]
        self._forget_access()
        self._twins[0].read_bytes()
        assert self._twins[0].stat().st_atime_ns, "the file system does not note when a file is read"
        self._forget_access()
        self.verdict = self.pruned()

    def _forget_access(self) -> None:
        for path in self._twins:
            os.utime(path, ns=(0, 1))

    def edit(self, data: bytes, op: int, where: int, value: int, extra: bytes) -> bytes:
        """Edits as in other lakes; some point paths to the copy outside, which are as long as those inside."""
        if 112 <= op < 128 or op >= 240:
            return self._pointed_outside(data, where)
        return super().edit(data, op, where, value, extra)

    def _pointed_outside(self, data: bytes, where: int) -> bytes:
        raw = data
        if data.startswith(b"Obj\1"):
            try:
                raw = lakes.recoded(data, "null", 16_000)
            except Exception:  # another edit came first
                return data
        inside, outside = self._inside.encode(), self._outside.encode()
        parts = raw.split(inside)
        if len(parts) == 1:
            return data
        chosen = where % len(parts)  # 0: all of them
        joined = [outside if chosen in (0, number) else inside for number in range(1, len(parts))]
        return b"".join(part for pair in zip(parts, [*joined, b""], strict=True) for part in pair)

    def written_otherwise(self, script: bytes) -> None:
        """Writes files in other ways that mean the same."""
        names, self._changed = list(self.files), {}
        for number, op, value, _ in zip(*[iter(script[:24])] * 4, strict=False):
            path = names[number % len(names)]
            data = self.files[path]
            if data.startswith(b"Obj\1"):
                data = lakes.recoded(data, ("null", "deflate", "zstandard", "bzip2")[op % 4], 1 + value * 8)
            elif data[:1] == b"{":
                tree = json.loads(data)
                for node in (tree, *tree["snapshots"], *tree["schemas"])[: op % 4]:
                    node["x-unknown"] = HOSTILE[value % 7]
                tree = dict(reversed(tree.items())) if op % 2 else tree
                data = json.dumps(tree, indent=value % 3 or None, ensure_ascii=op % 3 == 0).encode()
            self._changed[path] = data
        for path, data in self._changed.items():
            path.write_bytes(data)

    def pruned(self) -> list[tuple[str, Any]]:
        from pyiceberg.manifest import clear_manifest_cache

        clear_manifest_cache()
        found = parquet_bloom.prune(self.root, self.where, cache=parquet_bloom.Cache())
        return [(path, found.row_groups_by_path.get(path)) for path in map(str, found.paths)]

    def require_unread(self) -> None:
        read = [path for path in self._twins if path.stat().st_atime_ns]
        self._forget_access()
        assert not read, f"read outside of the table: {read}"


def _with_deletes(found: Any) -> Any:
    table = lakes.iceberg(found, "t", files=2)
    lakes.give_deletes(table, [1])
    return table


@cache
def _icebergs() -> tuple[IcebergLake, ...]:
    fills = (lambda found: lakes.iceberg(found, "t"), _with_deletes, lambda f: lakes.partitioned(f, lakes.odd_rows(1)))
    return tuple(map(IcebergLake, fills))


def iceberg(data: bytes) -> None:
    """Iceberg's metadata: no file outside is read, and files that are only written otherwise change no verdict."""
    from pyiceberg.manifest import clear_manifest_cache

    choice, script = (data or b"\0")[0], data[1:]
    lake = _icebergs()[choice % 3]
    if is_same := choice >= 0xC0:
        lake.written_otherwise(script)
    else:
        lake.edited(script)
    clear_manifest_cache()
    try:
        if is_same:
            assert lake.pruned() == lake.verdict
        else:
            use(lake.root, lake.where)
    finally:
        lake.restored()
        lake.require_unread()


def iceberg_scripts() -> list[bytes]:
    same = [
        bytes([0xC0 + lake, number, op, value, 0]) for lake in range(3) for number in range(5) for op, value in _OPS
    ]
    outside = [bytes([0, number, 255, 0, place, 0, 0, 0, 0]) for number in range(5) for place in range(6)]
    return [*same, *outside, *scripts()]


_OPS = ((0, 0), (1, 40), (2, 3), (3, 9))

# ---- the index ---------------------------------------------------------------------------

PRESENT = {"a.parquet": [1, 5, 9], "sub/b.parquet": [100, 5], "c.parquet": [7] * 3}


@cache
def _indexed() -> Lake:
    def make(home: Path) -> Path:
        root = home / "t"
        for name, ids in PRESENT.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})
            pq.write_table(rows, root / name, write_statistics=False)
        listing.MTIME_STABLE_SECONDS = -1
        parquet_bloom.index.create(root, ["id", "name"])
        return root

    return Lake(make, ("t.bloom-index",))


def index(data: bytes) -> None:
    """An index, edited: a key that is there is pruned by none with a wrong checksum, and none makes a crash."""
    lake, is_sealed = _indexed(), data[:1] > b"\x80"
    lake.edited(data[1:], _seal if is_sealed else None)
    if is_sealed:
        _seal_version(lake)
    try:
        for key in (5, 7, 6):
            kept = parquet_bloom.prune(lake.root, f"id = {key}", cache=parquet_bloom.Cache()).paths
            for name, ids in PRESENT.items():
                if not is_sealed and key in ids:
                    assert any(str(path).endswith(name) for path in kept), (key, name)
        parquet_bloom.lookup(lake.root, "id", [5, 8])
        for call in (parquet_bloom.index.show, parquet_bloom.index.refresh)[: 1 + (len(data) % 8 == 0)]:
            with contextlib.suppress(ParquetBloomError, FileNotFoundError):
                call(lake.root)
    finally:
        folder = index_folder(lake.root)
        for path in folder.iterdir():
            if path not in lake.files:
                path.unlink()
        lake.restored()
        for path, held in lake.files.items():
            if not path.exists():
                path.write_bytes(held)


def _seal(path: Path, data: bytes) -> bytes:
    return data


def _seal_version(lake: Lake) -> None:
    """Gives the newest version sizes and checksums of the files as they are now, where it still has such fields."""
    (path,) = index_folder(lake.root).glob("*.json")
    try:
        body = json.loads(path.read_bytes())["version"]
        for segment in body["segments"]:
            for name, size, crc in (("name", "size", "crc"), ("states", "states_size", "states_crc")):
                held = (path.parent / f"_bloom-{segment[name]}").read_bytes()
                segment[size], segment[crc] = len(held), zlib.crc32(held)
            for blocks in segment["blocks"]:
                blocks["size"] = (path.parent / f"_bloom-{blocks['name']}").stat().st_size
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        pass
    try:
        text = json.dumps(body, sort_keys=True)
    except (NameError, ValueError):
        return
    lake._changed.setdefault(path, b"")
    path.write_bytes(json.dumps({"crc": zlib.crc32(text.encode()), "version": body}, sort_keys=True).encode())


def states(data: bytes) -> None:
    """The states of a segment are read or refused, whoever wrote them, and take no more room than they should."""
    from parquet_bloom.errors import CorruptFileError
    from parquet_bloom.filters.index_states import States

    header, _, sections = data.partition(b"\n")
    packed = [zlib.compress(part) for part in sections.split(b"|")]
    try:
        known = json.loads(header)
        if isinstance(known, dict) and known.get("sections") == "fit":
            known["sections"] = [len(part) for part in packed]
        header = json.dumps(known).encode()
    except (ValueError, RecursionError):
        pass
    try:
        found = States(len(header).to_bytes(4, "little") + header + bytes(16) + b"".join(packed))
    except CorruptFileError:
        return
    for number in range(len(found.fingerprints)):
        with contextlib.suppress(CorruptFileError):
            found.row_groups.packed(number)


def state_seeds() -> Iterator[bytes]:
    plain = {"files": 1, "columns": ["id"], "problems": [], "sections": "fit"}
    parts = [b"\0" * 4, b"\1\0\0\0", b"\3" + bytes(7), b"\1" + bytes(7) + b"\1" + bytes(7), *[bytes(4)] * 3]
    parts += [b"\xff" * 4, b"\1\0\0\0", bytes(4), bytes(4)]
    assert len(parts) == len(_SECTIONS)
    yield json.dumps(plain).encode() + b"\n" + b"|".join(parts)
    yield json.dumps(plain | {"files": 10**15}).encode() + b"\n" + b"|".join(parts)


def scripts() -> list[bytes]:
    """Short scripts: one edit of each kind, at several places."""
    return [
        bytes([choice, number, op, place, 77, value, 1, 2, 3])
        for choice in (0, 1, 255)
        for number in range(4)
        for op in (0, 1, 90, 130)
        for place in (10, 200)
        for value in (5,)
    ]
