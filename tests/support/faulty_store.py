"""A proxy before a store that does to one request, or to all from one on, what networks and stores do to requests."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("reset", "lost", "amid", "truncated", "short", "nonsense", "500", "503", "403", "hang", "late")
"""`lost` and `late`: the server carries the request out, and its answer is reset or does not come in time.

`amid`: reset amid the body; `truncated`: the body ends before its Content-Length; `short`: half a body, told as whole;
`nonsense`: a page of somebody else's.
"""

_CODES = {"500": "InternalError", "503": "SlowDown", "403": "ExpiredToken"}


class FaultyStore:
    """What to do: `fault` to request number `at` alone, or to all from it on if `lasting`; 0 is to none."""

    def __init__(self, url: str) -> None:
        self.url, self.names, self.is_over = "", [], threading.Event()  # type: tuple[str, list[str], threading.Event]
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)
        self._lock = threading.Lock()
        self.set(0, "")

    def set(self, at: int, fault: str, *, lasting: bool = False) -> None:
        self.is_over.set()  # requests that hang
        self.is_over = threading.Event()
        self.at, self.fault, self.lasting, self.names = at, fault, lasting, []

    def fault_of(self, name: str) -> str:
        with self._lock:
            self.names.append(name)
            number = len(self.names)
        return self.fault if number == self.at or (self.lasting and number > self.at > 0) else ""

    def forward(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), data


@contextmanager
def faulty(url: str) -> Iterator[FaultyStore]:
    """Yields a proxy to `url`; its own is `.url`."""
    store = FaultyStore(url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def handle_one_request(self) -> None:
            with contextlib.suppress(OSError):
                super().handle_one_request()
                return
            self.close_connection = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault, over = store.fault_of(f"{self.command} {self.path}"), store.is_over
            if fault in _CODES:
                text = f"<Error><Code>{_CODES[fault]}</Code><Message>no</Message></Error>".encode()
                self._send(int(fault), [("Content-Type", "application/xml")], text)
                return
            if fault in ("reset", "hang"):
                if fault == "hang":
                    over.wait(20)
                self._reset()
                return
            status, headers, data = store.forward(self.command, self.path, self.headers, body)
            if fault == "late":
                over.wait(20)
            if fault in ("late", "lost"):
                self._reset()
            elif fault == "nonsense":
                self._send(200, headers, b"<html>Please sign in</html>")
            elif fault == "short":
                self._send(status, headers, data[: len(data) // 2])
            elif fault in ("amid", "truncated"):
                self._send(status, headers, data, cut=len(data) // 2)
                if fault == "amid":
                    self._reset()
                self.close_connection = True
            else:
                self._send(status, headers, data)

        def _send(self, status: int, headers: list[tuple[str, str]], data: bytes, *, cut: int | None = None) -> None:
            left_out = {"content-length", "transfer-encoding", "connection", "date", "server"}
            self.send_response(status)
            length = next((value for name, value in headers if name.lower() == "content-length"), "0")
            for name, value in headers:
                if name.lower() not in left_out:
                    self.send_header(name, value)
            self.send_header("Content-Length", length if self.command == "HEAD" and status == 200 else str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[:cut])
                self.wfile.flush()

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield store
    finally:
        store.is_over.set()
        server.shutdown()
        server.server_close()
