"""A store for benchmarks that speaks as much of S3 as readers need, and answers each request after a while.

python slow_s3.py FOLDER SECONDS

It prints its port. The folder is the bucket `lake`; many requests are answered at the same time.
"""

import sys
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

FOLDER, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
BUCKET = "/lake"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        time.sleep(SECONDS)
        url = urlsplit(self.path)
        key = url.path.removeprefix(BUCKET).lstrip("/")
        path = FOLDER / key
        if not url.path.startswith(BUCKET) or (key and not path.is_file()):
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif not key:
            self._answer(200, self._listing(parse_qs(url.query).get("prefix", [""])[0]), {"Content-Type": "text/xml"})
        else:
            self._send(path)

    do_HEAD = do_GET

    def _listing(self, prefix: str) -> bytes:
        entries = "".join(
            f"<Contents><Key>{escape(path.name)}</Key><Size>{path.stat().st_size}</Size><ETag>&quot;{path.name}&quot;"
            "</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
            for path in sorted(FOLDER.iterdir())
            if path.name.startswith(prefix)
        )
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>lake</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{entries}"
            "</ListBucketResult>"
        ).encode()

    def _send(self, path: Path) -> None:
        size, headers = path.stat().st_size, {"ETag": f'"{path.name}"', "Accept-Ranges": "bytes"}
        headers["Last-Modified"] = formatdate(1_767_225_600, usegmt=True)
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted:
            self._answer(200, path.read_bytes(), headers)
            return
        first, _, last = wanted.partition("-")
        start = int(first) if first else max(0, size - int(last))
        stop = min(size, int(last) + 1) if first and last else size
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        self._answer(206, data, headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


with Server(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
