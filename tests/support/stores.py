"""Stores for the tests: one on a virtual clock, S3 by moto on loopback with every byte counted, and files laid out to
the byte."""

from __future__ import annotations

import heapq
import itertools
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import xxhash
from fsspec import AbstractFileSystem

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.thrift_io import encode

# ---- files -------------------------------------------------------------------------------


class Filter(NamedTuple):
    """A row group's filter, and what its statistics say of `id`."""

    offset: int
    num_bytes: int
    has_length: bool = True
    bounds: tuple[int, int] | None = None
    keys: tuple[int, ...] = ()


def laid_out(*filters: Filter | tuple[int, int, bool], size: int, padding: int = 0) -> bytes:
    """Returns a file of `size` bytes with a row group for each filter.

    The column is an INT64 `id` whose pages are not looked at. `padding` bytes of key-value metadata make the footer
    longer.
    """
    groups, parts = [], {0: b"PAR1"}
    for offset, num_bytes, has_length, bounds, keys in (Filter(*f) for f in filters):
        bloom = SplitBlockBloomFilter.from_bitset(b"\1\0\0\0" * (num_bytes // 4))  # no block looks forgotten
        for key in keys:
            bloom.insert_hash(xxhash.xxh64_intdigest(_plain(key)))
        parts[offset] = bloom.to_bytes()
        low, high = map(_plain, bounds) if bounds else (None, None)
        column = ttypes.ColumnMetaData(
            type=ttypes.Type.INT64,
            encodings=[ttypes.Encoding.PLAIN],
            path_in_schema=["id"],
            codec=ttypes.CompressionCodec.UNCOMPRESSED,
            num_values=1,
            total_uncompressed_size=0,
            total_compressed_size=0,
            data_page_offset=4,
            statistics=ttypes.Statistics(null_count=0, min_value=low, max_value=high) if bounds else None,
            bloom_filter_offset=offset,
            bloom_filter_length=len(parts[offset]) if has_length else None,
        )
        chunk = ttypes.ColumnChunk(file_offset=0, meta_data=column)
        groups.append(ttypes.RowGroup(columns=[chunk], total_byte_size=0, num_rows=1))
    schema = [
        ttypes.SchemaElement(name="root", num_children=1),
        ttypes.SchemaElement(name="id", type=ttypes.Type.INT64, repetition_type=0),
    ]
    has_bounds = any(Filter(*f).bounds for f in filters)
    orders = [ttypes.ColumnOrder(TYPE_ORDER=ttypes.TypeDefinedOrder())] if has_bounds else None
    pairs = [ttypes.KeyValue(key="padding", value="x" * padding)] if padding else None
    raw = encode(
        ttypes.FileMetaData(
            version=1,
            schema=schema,
            num_rows=len(groups),
            row_groups=groups,
            key_value_metadata=pairs,
            column_orders=orders,
        )
    )
    parts[size - 8 - len(raw)] = raw + len(raw).to_bytes(4, "little") + b"PAR1"
    data = bytearray(size)
    for offset, part in parts.items():
        data[offset : offset + len(part)] = part
    assert len(data) == size
    return bytes(data)


def _plain(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


# ---- a store on a virtual clock ----------------------------------------------------------


_numbers = itertools.count()


class SimulatedStore(AbstractFileSystem):
    """Objects in memory; each request takes `seconds` on `clock`, and at most `in_flight` are under way at once.

    A listing is a request for each thousand names. `meddle` is called before each round of reads, with its number.
    """

    protocol = "simulated"
    cachable = False

    def __init__(self, number: int, *, seconds: float = 0.05, in_flight: int = 64) -> None:
        super().__init__()  # the number makes for a token of its own
        self.objects: dict[str, bytes] = {}
        self.tags: dict[str, int] = {}
        self.clock, self.requests, self.rounds = 0.0, 0, 0
        self.meddle: Callable[[int], None] = lambda number: None
        self._seconds, self._in_flight = seconds, in_flight

    @classmethod
    def of(cls, objects: Mapping[str, bytes], **options: Any) -> SimulatedStore:
        store = cls(next(_numbers), **options)
        for path, data in objects.items():
            store.replace(path, data)
        return store

    def replace(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.tags[path] = self.tags.get(path, 0) + 1

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._spend(1)
        self.replace(path, value)

    def remove(self, path: str) -> None:
        del self.objects[path]

    def _spend(self, requests: int) -> None:
        slots = [self.clock] * min(self._in_flight, requests)
        for _ in range(requests):
            heapq.heapreplace(slots, slots[0] + self._seconds)
        self.clock = max(slots, default=self.clock)
        self.requests += requests

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        below = path.rstrip("/") + "/"
        names = {name for name in self.objects if name.startswith(below)}
        folders = {below + name[len(below) :].partition("/")[0] for name in names if "/" in name[len(below) :]}
        return self._listed(path, sorted({name for name in names if "/" not in name[len(below) :]} | folders), detail)

    def _listed(self, path: str, names: list[str], detail: bool) -> list[Any]:
        for _ in range(max(1, -(-len(names) // 1000))):
            self._spend(1)
        if not names:
            raise FileNotFoundError(path)
        return [self._entry(name) for name in names] if detail else names

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        self._spend(1)
        if path in self.objects:
            return self._entry(path)
        if any(name.startswith(path.rstrip("/") + "/") for name in self.objects):
            return {"name": path, "type": "directory", "size": 0}
        raise FileNotFoundError(path)

    def find(
        self, path: str, maxdepth: Any = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        names = sorted(name for name in self.objects if name.startswith(path.rstrip("/") + "/"))
        return {entry["name"]: entry for entry in self._listed(path, names, True)}

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self.objects:
            return {"name": name, "type": "directory", "size": 0}
        return {"name": name, "type": "file", "size": len(self.objects[name]), "ETag": str(self.tags[name])}

    def cat_ranges(
        self, paths: list[str], starts: list[int], ends: list[int], on_error: str = "return", **options: Any
    ) -> list[bytes | Exception]:
        self.rounds += 1
        self.meddle(self.rounds)
        self._spend(len(paths))
        return [self._read(*each) for each in zip(paths, starts, ends, strict=True)]

    def _read(self, path: str, start: int, end: int) -> bytes | Exception:
        return self.objects[path][start:end] if path in self.objects else FileNotFoundError(2, "no such object", path)


# ---- S3 on loopback ----------------------------------------------------------------------

KEYS = {"key": "anyone", "secret": "anything"}


def missing_for_s3() -> str | None:
    """Returns what keeps S3 from being tested here, or None."""
    missing = [name for name in ("s3fs", "moto", "flask", "boto3") if find_spec(name) is None]
    return f"S3 is not tested without {', '.join(missing)}" if missing else None


@contextmanager
def moto() -> Iterator[str]:
    """Runs a moto server on a free port of loopback; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _await(url, server)
            yield url
        finally:
            server.terminate()


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert server.poll() is None, "moto_server has ended"
        try:
            with urllib.request.urlopen(f"{url}/moto-api/", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise AssertionError("moto_server does not answer")


def connected(url: str) -> Any:
    """Returns an s3fs filesystem of its own."""
    from s3fs import S3FileSystem

    return S3FileSystem(**KEYS, endpoint_url=url, client_kwargs={"region_name": "us-east-1"}, skip_instance_cache=True)


class Traffic:
    """The bytes that went through a proxy, headers and all."""

    def __init__(self) -> None:
        self.up = self.down = 0


@contextmanager
def counting_proxy(url: str) -> Iterator[tuple[str, Traffic]]:
    """Passes connections on to `url`; yields the URL to use instead and what has gone through."""
    host, port = url.removeprefix("http://").split(":")
    traffic = Traffic()
    threads: list[threading.Thread] = []
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def pump(source: socket.socket, sink: socket.socket, way: str) -> None:
            try:
                while data := source.recv(1 << 16):
                    setattr(traffic, way, getattr(traffic, way) + len(data))
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                server = stack.enter_context(socket.create_connection((host, int(port))))
                stack.enter_context(client)
                for args in ((client, server, "up"), (server, client, "down")):
                    threads.append(threading.Thread(target=pump, args=args, daemon=True))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", traffic
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(10)


class Calls:
    """Watches the calls that an s3fs filesystem makes: their names, and `meddle` before each, with number and name.

    What `meddle` raises is what the call raises, and the store never hears of it; of `after`, the store has done it.
    """

    def __init__(self, fs: Any) -> None:
        self.names: list[str] = []
        self.headers: list[tuple[str, dict[str, str]]] = []
        self.meddle: Callable[[int, str], None] = lambda number, name: None
        self.after: Callable[[str], None] = lambda name: None
        fs.connect()
        fs._s3.meta.events.register("before-call.s3", self._before)
        fs._s3.meta.events.register("after-call.s3", self._after)

    def _before(self, model: Any, params: Any, **_: Any) -> None:
        self.names.append(model.name)
        self.headers.append((model.name, {name: str(value) for name, value in params["headers"].items()}))
        self.meddle(len(self.names), model.name)

    def _after(self, model: Any, **_: Any) -> None:
        self.after(model.name)
