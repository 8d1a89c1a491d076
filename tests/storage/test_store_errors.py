"""Whatever a store's library raises is an error of ours that names the path, and never an absence."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from stores import Filter, laid_out, missing_for_s3

from parquet_bloom import add, inspect, lookup, probe, prune, verify
from parquet_bloom.errors import ParquetBloomError, StoreError
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import find
from parquet_bloom.tables import live_sources
from parquet_bloom.tables.detect import table_around

FILE = laid_out(Filter(4096, 1024, keys=(7,)), size=16_384)


class OddError(Exception):
    """An error of some library's own."""


class UnspeakableError(Exception):
    """One that cannot be shown."""

    def __str__(self) -> str:
        raise AttributeError("host")


class Store(AbstractFileSystem):
    """Files in memory, of which one call fails for one path; its `find` and `glob` are fsspec's own."""

    protocol = "odd"
    cachable = False

    def __init__(self, files: dict[str, bytes], call: str = "", path: str = "", error: Any = None) -> None:
        super().__init__()
        self._inner, self._fails, self._error = MemoryFileSystem(skip_instance_cache=True), (call, path), error
        self._inner.store, self._inner.pseudo_dirs = {}, [""]
        for name, data in files.items():
            self._inner.pipe_file(name, data)

    def _try(self, call: str, path: str) -> None:
        if (call, path.rstrip("/")) == self._fails:
            raise self._error

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._try("ls", path)
        return self._inner.ls(path, detail=detail)

    def info(self, path: str, **options: Any) -> Any:
        self._try("info", path)
        return self._inner.info(path)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> Any:
        return self._inner.cat_file(path, start, end)


FILES = {"/d/a.parquet": FILE, "/d/day=1/b.parquet": FILE, "/d/_tmp/c.parquet": FILE, "/d/day=2/deep/e.parquet": FILE}
SEEN = ["/d/a.parquet", "/d/day=1/b.parquet", "/d/day=2/deep/e.parquet"]
ERRORS = [OddError("odd"), OSError("gone wrong"), PermissionError("denied"), TimeoutError("late"), KeyError("ETag")]
ERRORS += [UnspeakableError(), TypeError("X.__init__() got an unexpected keyword argument 'anom'")]


def names(path: str, store: Store) -> list[str]:
    return [source.path for source in find(path, filesystem=store)]


# ---- a folder that cannot be listed is not an empty one ----------------------------------


@pytest.mark.parametrize("path", ["/d", "/d/**/*.parquet", "/d/**", "/d/*"])
def test_everything_is_found_as_long_as_nothing_fails(path: str) -> None:
    assert sorted(names(path, Store(FILES))) == SEEN


@pytest.mark.parametrize(
    "pattern", ["/d/*.parquet", "/d/?.parquet", "/d/*/*.parquet", "/d/day=[12]/*", "/d/day=*", "/d/**/e.*", "/d/*/deep"]
)
def test_a_glob_names_what_fsspec_s_own_does(pattern: str) -> None:
    store = Store(FILES)
    below = {name for glob in store.glob(pattern) for name in store.find(glob)}
    assert sorted(names(pattern, store)) == sorted(name for name in below if "/_tmp/" not in name)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("path", ["/d", "/d/**/*.parquet", "/d/day=*"])
@pytest.mark.parametrize("folder", ["/d/day=2", "/d/day=2/deep"])
def test_a_folder_that_cannot_be_listed_is_an_error(path: str, folder: str, error: Exception) -> None:
    store = Store(FILES, "ls", folder, error)
    with pytest.raises(OSError, match=r"^/d"):
        find(path, filesystem=store)
    with pytest.raises(OSError, match=r"^/d"):
        prune(path, "id = 8", filesystem=store)
    with pytest.raises(OSError, match=r"^/d"):
        lookup(path, "id", [8], filesystem=store)


def test_a_folder_that_nobody_asks_for_may_fail() -> None:
    assert names("/d", Store(FILES, "ls", "/d/_tmp", OddError("odd"))) == SEEN


def test_a_folder_that_has_just_gone_is_no_error() -> None:
    assert names("/d", Store(FILES, "ls", "/d/day=2", FileNotFoundError("/d/day=2"))) == SEEN[:2]


# ---- every call --------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_look_at_a_file_that_fails_names_the_file(error: Exception) -> None:
    store = Store(FILES, "info", "/d/a.parquet", error)
    verbs: list[Callable[[], Any]] = [
        lambda: probe("/d/a.parquet", "id", 8, filesystem=store),
        lambda: prune("/d/a.parquet", "id = 8", filesystem=store),
        lambda: lookup("/d/a.parquet", "id", [8], filesystem=store),
        lambda: inspect("/d/a.parquet", filesystem=store),
        lambda: verify("/d/a.parquet", filesystem=store),
        lambda: add("/d/a.parquet", "id", filesystem=store),
    ]
    for verb in verbs:
        with pytest.raises(OSError, match=r"^/d/a\.parquet: ") as raised:
            verb()
        assert isinstance(raised.value, ParquetBloomError | type(error))
        assert raised.value.__cause__ is error


def test_an_error_keeps_the_built_in_class_that_callers_go_by() -> None:
    with pytest.raises(PermissionError, match=r"^/d/a\.parquet: PermissionError: denied$"):
        find("/d/a.parquet", filesystem=Store(FILES, "info", "/d/a.parquet", PermissionError("denied")))
    with pytest.raises(StoreError, match=r"^/d/a\.parquet: OddError: no details$"):
        find("/d/a.parquet", filesystem=Store(FILES, "info", "/d/a.parquet", OddError()))


def test_a_folder_of_small_files_and_a_table_s_marks_are_asked_for_alike() -> None:
    store = Store(FILES, "ls", "/d", OddError("odd"))
    with pytest.raises(StoreError, match=r"^/d: OddError: odd$"):
        Folder("/d", filesystem=store).names()
    with pytest.raises(StoreError, match=r"^/d: OddError: odd$"):
        table_around(store, "/d/a.parquet")


def test_a_target_that_cannot_be_looked_at_is_not_taken_for_free() -> None:
    store = Store(FILES, "info", "/new.parquet", OddError("odd"))
    with pytest.raises(StoreError, match=r"^/new\.parquet: OddError: odd$"):
        add("/d/a.parquet", "id", replace=True, output="/new.parquet", filesystem=store)


def test_an_option_that_a_store_does_not_take_is_named() -> None:
    with pytest.raises(StoreError, match=r"^http://127.0.0.1:9/x: the store has no option 'anom'; correct the"):
        find("http://127.0.0.1:9/x", storage_options={"anom": True})


# ---- over HTTP, as aiohttp tells it ------------------------------------------------------


@contextmanager
def answering(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        do_HEAD = do_PUT = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def status(number: int, body: bytes = b"") -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(number)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    return answer


def hanging_up(request: http.server.BaseHTTPRequestHandler) -> None:
    request.close_connection = True


def found_over_http(url: str) -> Any:
    fsspec.filesystem("http").clear_instance_cache()
    return find(url)


@pytest.mark.parametrize("number", [404, 410])
def test_what_a_server_does_not_have_is_not_found(number: int) -> None:
    with answering(status(number)) as url, pytest.raises(FileNotFoundError, match="no such file or directory"):
        found_over_http(f"{url}/x.parquet")


@pytest.mark.parametrize("number", [401, 403, 500, 503])
def test_what_a_server_refuses_is_not_not_found(number: int) -> None:
    with answering(status(number)) as url, pytest.raises(StoreError, match=f"ClientResponseError: {number}"):
        found_over_http(f"{url}/x.parquet")


def test_a_server_that_hangs_up_is_an_error() -> None:
    with answering(hanging_up) as url, pytest.raises(StoreError, match=r"/x\.parquet: ServerDisconnectedError: "):
        found_over_http(f"{url}/x.parquet")


@pytest.mark.parametrize("number", [200, 500])
def test_a_folder_of_a_server_that_fails_is_an_error(number: int) -> None:
    def listing(request: http.server.BaseHTTPRequestHandler) -> None:
        if request.path == "/d/":
            status(200, b'<a href="a.parquet">a.parquet</a> <a href="sub/">sub/</a>')(request)
        elif request.path == "/d/sub/":
            status(number, b'<a href="b.parquet">b.parquet</a>')(request)
        else:
            status(200 if request.path in ("/d/a.parquet", "/d/sub/b.parquet") else 404, FILE)(request)

    with answering(listing) as url:
        if number == 200:
            found = found_over_http(f"{url}/d/**/*.parquet")
            assert [source.path for source in found] == [f"{url}/d/a.parquet", f"{url}/d/sub/b.parquet"]
        else:
            with pytest.raises(StoreError, match="ClientResponseError: 500"):
                found_over_http(f"{url}/d/**/*.parquet")


# ---- over S3, as botocore tells it -------------------------------------------------------

EXPIRED = (
    b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)


@pytest.fixture
def s3() -> Callable[[str], dict[str, Any]]:
    if missing := missing_for_s3():
        pytest.skip(missing)

    def options(url: str) -> dict[str, Any]:
        once = {"retries": {"max_attempts": 0}, "connect_timeout": 5}
        return {"key": "k", "secret": "s", "endpoint_url": url, "config_kwargs": once, "skip_instance_cache": True}

    return options


@pytest.mark.parametrize("path", ["s3://b/x.parquet", "s3://b/d/", "s3://b/*.parquet", "s3://b"])
def test_an_expired_token_is_shown_as_such(s3: Callable[[str], dict[str, Any]], path: str) -> None:
    # A protocol double: moto's tokens do not expire. As on Amazon's, a HEAD is answered without a body.
    with (
        answering(status(400, EXPIRED)) as url,
        pytest.raises(OSError, match="ExpiredToken: The provided token") as got,
    ):
        find(path, storage_options=s3(url))
    assert str(got.value).startswith(f"{path}: ")


def test_verbs_on_tables_say_it_too(s3: Callable[[str], dict[str, Any]]) -> None:
    with answering(status(400, EXPIRED)) as url, pytest.raises(OSError, match="ExpiredToken"):
        live_sources("s3://b/table", storage_options=s3(url))
