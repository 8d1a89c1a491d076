"""Doubles of Google Cloud Storage and Azure Blob Storage on loopback: as much of their protocols as rewrites use.

They are written from the stores' published descriptions, not recorded from the stores. The real gcsfs and adlfs talk to
them. Conditions, the 32 components of a compose and the blocks of a blob are as the stores have them.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape


class Refusal(Exception):
    """What a store answers instead: an HTTP status and an error code."""

    def __init__(self, status: int, code: str = "") -> None:
        super().__init__(status, code)
        self.status, self.code = status, code


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    method: str
    parts: list[str]
    query: dict[str, str]
    headers: Any
    body: bytes

    def span(self, data: bytes) -> tuple[bytes, dict[str, str]]:
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        if not wanted:
            return data, {}
        first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())  # type: ignore[union-attr]
        if first >= len(data):
            raise Refusal(416, "InvalidRange")
        part = data[first : last + 1]
        return part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"}


class Double:
    """A store on loopback. `meddle` is called before each request is carried out, `after` before it is answered.

    What they raise is the answer.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.requests: list[Request] = []
        self.meddle: Callable[[int, str], None] = lambda number, name: None
        self.after: Callable[[str], None] = lambda name: None
        self.numbers = itertools.count(1_795_000_000_000_000)
        self.lock = threading.RLock()

    def name_of(self, request: Request) -> str:
        raise NotImplementedError

    def carry_out(self, name: str, request: Request) -> Answer:
        raise NotImplementedError

    def error(self, refusal: Refusal) -> Answer:
        raise NotImplementedError

    def answer(self, request: Request) -> Answer:
        name = self.name_of(request)
        try:
            with self.lock:
                self.names.append(name)
                self.requests.append(request)
                self.meddle(len(self.names), name)
                answer = self.carry_out(name, request)
                self.after(name)
                return answer
        except Refusal as refusal:
            return self.error(refusal)
        except Exception as error:  # a request that the double does not know; a closed connection would be tried again
            return self.error(Refusal(400, repr(error)))

    def forget(self) -> None:
        self.names.clear()
        self.requests.clear()
        self.meddle, self.after = (lambda number, name: None), (lambda name: None)

    @property
    def sent(self) -> int:
        """The bytes of all bodies that the store was sent."""
        return sum(len(request.body) for request in self.requests)


@contextmanager
def serving(double: Double) -> Iterator[str]:
    """Answers on a free port of loopback; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_any(self) -> None:
            url = urlsplit(self.path)
            parts = [unquote(part) for part in url.path.strip("/").split("/")]
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            if self.headers.get("Transfer-Encoding") == "chunked":
                chunks = []
                while size := int(self.rfile.readline(), 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                body = b"".join(chunks)
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = double.answer(Request(self.command, parts, query, self.headers, body))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_any

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *arguments: None  # type: ignore[method-assign]  # a client that no longer listens
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# ---- Google Cloud Storage ------------------------------------------------------------------


@dataclass
class GoogleObject:
    data: bytes
    about: dict[str, Any]


class Google(Double):
    """Google Cloud Storage's JSON API. `has_acl` is a bucket without uniform access."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], GoogleObject] = {}
        self.has_acl = False

    def put(self, bucket: str, key: str, data: bytes, **about: Any) -> str:
        with self.lock:
            generation = str(next(self.numbers))
            times = {"timeCreated": "2026-01-02T03:04:05.678Z", "updated": "2026-01-02T03:04:05.678Z"}
            made = {"name": key, "bucket": bucket, "generation": generation, "metageneration": "1", "etag": generation}
            sums = {"md5Hash": base64.b64encode(hashlib.md5(data).digest()).decode()}
            about = {"storageClass": "STANDARD", **times, **sums, **about, **made, "size": str(len(data))}
            if self.has_acl:
                about.setdefault("acl", [{"entity": "project-owners-1", "role": "OWNER"}])
            self.objects[bucket, key] = GoogleObject(data, about)
            return generation

    def name_of(self, request: Request) -> str:
        if request.parts[0] == "upload":
            return "insert"
        if request.parts[0] == "download":
            request.parts.pop(0)
        for verb in ("compose", "rewriteTo"):
            if request.method == "POST" and verb in request.parts:
                return verb
        if request.method == "GET" and len(request.parts) == 5:
            return "list"
        if request.method == "GET":
            return "media" if request.query.get("alt") == "media" else "get"
        return request.method.lower()

    def error(self, refusal: Refusal) -> Answer:
        about = {"error": {"code": refusal.status, "message": refusal.code}}
        return Answer(refusal.status, json.dumps(about).encode(), {"Content-Type": "application/json"})

    def carry_out(self, name: str, request: Request) -> Answer:
        result = getattr(self, f"_{name}")(request)
        if isinstance(result, Answer):
            return result
        return Answer(200, json.dumps(result).encode(), {"Content-Type": "application/json"})

    def _find(self, bucket: str, key: str, generation: str | None = None) -> GoogleObject:
        found = self.objects.get((bucket, key))
        if found is None or generation not in (None, found.about["generation"]):
            raise Refusal(404, "No such object")
        return found

    def _require(self, query: dict[str, str], where: tuple[str, str]) -> None:
        now = self.objects.get(where)
        wanted = query.get("ifGenerationMatch")
        if wanted is not None and wanted != (now.about["generation"] if now else "0"):
            raise Refusal(412, "conditionNotMet")
        wanted = query.get("ifMetagenerationMatch")
        if wanted is not None and (now is None or wanted != now.about["metageneration"]):
            raise Refusal(412, "conditionNotMet")

    def _get(self, request: Request) -> Any:
        about = self._find(request.parts[3], request.parts[5], request.query.get("generation")).about
        return about if request.query.get("projection") == "full" else {k: v for k, v in about.items() if k != "acl"}

    def _media(self, request: Request) -> Answer:
        data, headers = request.span(
            self._find(request.parts[3], request.parts[5], request.query.get("generation")).data
        )
        return Answer(206, data, headers)

    def _list(self, request: Request) -> Any:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter")
        items, folders = [], set()
        for (bucket, key), one in sorted(self.objects.items()):
            if bucket == request.parts[3] and key.startswith(prefix):
                if delimiter and delimiter in key[len(prefix) :]:
                    folders.add(prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter)
                else:
                    items.append(one.about)
        return {"items": items, "prefixes": sorted(folders)}

    def _write(self, bucket: str, key: str, data: bytes, about: dict[str, Any], request: Request) -> Any:
        predefined = request.query.get("predefinedAcl") or request.query.get("destinationPredefinedAcl")
        if (predefined or "acl" in about) and not self.has_acl:
            raise Refusal(400, "Cannot use ACL API to update object when uniform bucket-level access is enabled.")
        if predefined:
            about = {**about, "acl": [{"entity": "user-me", "role": "OWNER"}]}
        if key_name := request.query.get("kmsKeyName") or request.query.get("destinationKmsKeyName"):
            about = {**about, "kmsKeyName": f"{key_name}/cryptoKeyVersions/1"}
        self.put(bucket, key, data, **about)
        return self.objects[bucket, key].about

    def _insert(self, request: Request) -> Any:
        edge = re.search("boundary=(.*)", request.headers["Content-Type"])[1].encode()  # type: ignore[index]
        _, about, content, _ = request.body.split(b"--" + edge)
        given = json.loads(about.partition(b"\r\n\r\n")[2])
        data = content.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        where = request.parts[4], given.pop("name")
        self._require(request.query, where)
        if given.pop("md5Hash") != base64.b64encode(hashlib.md5(data).digest()).decode():
            raise Refusal(400, "Provided MD5 hash doesn't match")
        return self._write(*where, data, given, request)

    def _compose(self, request: Request) -> Any:
        bucket, key = request.parts[3], request.parts[5]
        given = json.loads(request.body)
        sources = given["sourceObjects"]
        if not 1 <= len(sources) <= 32:
            raise Refusal(400, "The number of source components provided exceeds the maximum (32)")
        self._require(request.query, (bucket, key))
        parts = []
        for source in sources:
            parts.append(self._find(bucket, source["name"], source["generation"]))
            self._require(source.get("objectPreconditions", {}), (bucket, source["name"]))
        if len({part.about["storageClass"] for part in parts}) > 1:
            raise Refusal(400, "The storage classes of all sources must be the same")
        about = {**given["destination"], "storageClass": parts[0].about["storageClass"], "md5Hash": None}
        return self._write(bucket, key, b"".join(part.data for part in parts), about, request)

    def _rewriteTo(self, request: Request) -> Any:
        _, _, _, bucket, _, key, _, _, to_bucket, _, to_key = request.parts
        source = self._find(bucket, key, request.query["sourceGeneration"])
        self._require(request.query, (to_bucket, to_key))
        if "rewriteToken" not in request.query:
            return {"done": False, "rewriteToken": "more"}
        about = self._write(to_bucket, to_key, source.data, json.loads(request.body), request)
        return {"done": True, "resource": about}

    def _delete(self, request: Request) -> Answer:
        self._find(request.parts[3], request.parts[5], request.query["generation"])
        del self.objects[request.parts[3], request.parts[5]]
        return Answer(204)


def google_fs(url: str) -> Any:
    """Returns a gcsfs filesystem of its own. The one for zonal buckets would call Google by gRPC."""
    from gcsfs.core import GCSFileSystem

    return GCSFileSystem(token="anon", project="tests", endpoint_url=url, skip_instance_cache=True)


# ---- Azure Blob Storage --------------------------------------------------------------------


@dataclass
class Blob:
    data: bytes
    headers: dict[str, str]
    blocks: list[tuple[str, bytes]] = field(default_factory=list)
    tags: str = ""


_GIVEN = ("content-type", "content-encoding", "content-language", "content-disposition", "cache-control")


class Azure(Double):
    """Azure's Blob service. `copies` is whether it copies from its own URLs; `headers` are sent with every blob."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs: dict[tuple[str, str], Blob] = {}
        self.waiting: dict[tuple[str, str], dict[str, bytes]] = {}
        self.copies = True
        self.headers: dict[str, str] = {}
        self.copied = 0

    def put(
        self, container: str, key: str, data: bytes, *, step: int | None = None, tags: str = "", **headers: str
    ) -> str:
        """Writes a blob in one request, or as blocks of `step` bytes; returns its ETag."""
        with self.lock:
            pieces = [data[i : i + step] for i in range(0, len(data), step)] if step else []
            blocks = [(base64.b64encode(b"block-%06d" % i).decode(), piece) for i, piece in enumerate(pieces)]
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            return self._write((container, key), Blob(data, given, blocks, tags))

    def _write(self, where: tuple[str, str], blob: Blob) -> str:
        blob.headers["ETag"] = f'"0x{next(self.numbers):X}"'
        blob.headers.setdefault("x-ms-blob-type", "BlockBlob")
        self.blobs[where] = blob
        self.waiting.pop(where, None)
        return blob.headers["ETag"]

    def name_of(self, request: Request) -> str:
        if request.query.get("comp") == "list":
            return "list"
        if request.method == "PUT":
            return {"block": "put_block", "blocklist": "put_block_list", None: "put_blob"}[
                request.query.get("comp")
            ] + ("_from_url" if "x-ms-copy-source" in request.headers else "")
        return {
            "HEAD": "head",
            "GET": {"blocklist": "get_block_list", "tags": "get_tags"}.get(request.query.get("comp", ""), "get"),
        }[request.method]

    def error(self, refusal: Refusal) -> Answer:
        body = f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code><Message>{refusal.code}</Message></Error>"
        headers = {"x-ms-error-code": refusal.code, "Content-Type": "application/xml"}
        return Answer(refusal.status, body.encode(), headers)

    def carry_out(self, name: str, request: Request) -> Answer:
        where = request.parts[1], "/".join(request.parts[2:])
        answer: Answer = getattr(self, f"_{name}")(request, where)
        return answer

    def _find(self, request: Request, where: tuple[str, str]) -> Blob:
        blob = self.blobs.get(where)
        if blob is None:
            raise Refusal(404, "BlobNotFound")
        self._require(request, where)
        return blob

    def _require(self, request: Request, where: tuple[str, str]) -> None:
        blob = self.blobs.get(where)
        wanted = request.headers.get("If-Match")
        if wanted is not None and (blob is None or wanted != blob.headers["ETag"]):
            raise Refusal(412, "ConditionNotMet")
        if request.headers.get("If-None-Match") == "*" and blob is not None:
            raise Refusal(409, "BlobAlreadyExists")

    def _head(self, request: Request, where: tuple[str, str]) -> Answer:
        blob = self._find(request, where)
        date = {"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        tags = {"x-ms-tag-count": str(blob.tags.count("="))} if blob.tags else {}
        return Answer(200, b"", {**self.headers, **date, **tags, **blob.headers, "Content-Length": str(len(blob.data))})

    def _get(self, request: Request, where: tuple[str, str]) -> Answer:
        blob = self._find(request, where)
        data, headers = request.span(blob.data)
        return Answer(206 if headers else 200, data, {**blob.headers, **headers})

    def _get_tags(self, request: Request, where: tuple[str, str]) -> Answer:
        pairs = parse_qsl(self._find(request, where).tags)
        inner = "".join(f"<Tag><Key>{escape(k)}</Key><Value>{escape(v)}</Value></Tag>" for k, v in pairs)
        return _xml(f"<Tags><TagSet>{inner}</TagSet></Tags>")

    def _get_block_list(self, request: Request, where: tuple[str, str]) -> Answer:
        blob, waiting = self.blobs.get(where), self.waiting.get(where, {})
        lists = (("CommittedBlocks", blob.blocks if blob else []), ("UncommittedBlocks", list(waiting.items())))
        inner = ""
        for kind, blocks in lists:
            each = (f"<Block><Name>{name}</Name><Size>{len(data)}</Size></Block>" for name, data in blocks)
            inner += f"<{kind}>{''.join(each)}</{kind}>"
        return _xml(f"<BlockList>{inner}</BlockList>")

    def _stage(self, request: Request, where: tuple[str, str], data: bytes) -> Answer:
        name = request.query["blockid"]
        waiting = self.waiting.setdefault(where, {})
        if any(len(base64.b64decode(other)) != len(base64.b64decode(name)) for other in waiting):
            raise Refusal(400, "InvalidBlobOrBlock")
        waiting[name] = data
        return Answer(201)

    def _put_block(self, request: Request, where: tuple[str, str]) -> Answer:
        return self._stage(request, where, request.body)

    def _put_block_from_url(self, request: Request, where: tuple[str, str]) -> Answer:
        url = urlsplit(request.headers["x-ms-copy-source"])
        may = "sig=" in url.query or request.headers.get("x-ms-copy-source-authorization", "").startswith("Bearer ")
        if not may or not self.copies:
            raise Refusal(403, "CannotVerifyCopySource")
        _, container, *key = [unquote(part) for part in url.path.strip("/").split("/")]
        source = self.blobs[container, "/".join(key)]
        if request.headers.get("x-ms-source-if-match") != source.headers["ETag"]:
            raise Refusal(412, "SourceConditionNotMet")
        first, last = (int(n) for n in request.headers["x-ms-source-range"].removeprefix("bytes=").split("-"))
        self.copied += last + 1 - first
        return self._stage(request, where, source.data[first : last + 1])

    def _given(self, request: Request) -> dict[str, str]:
        headers = {
            name: request.headers[f"x-ms-blob-{name}"] for name in _GIVEN if f"x-ms-blob-{name}" in request.headers
        }
        headers |= {
            name.lower(): value for name, value in request.headers.items() if name.lower().startswith("x-ms-meta-")
        }
        for name in ("x-ms-access-tier", "x-ms-encryption-scope"):
            if name in request.headers:
                headers[name] = request.headers[name]
        return headers

    def _put_block_list(self, request: Request, where: tuple[str, str]) -> Answer:
        self._require(request, where)
        old, waiting = self.blobs.get(where), self.waiting.get(where, {})
        committed = dict(old.blocks) if old else {}
        known = {"Committed": committed, "Uncommitted": waiting, "Latest": committed | waiting}
        blocks = []
        for one in ElementTree.fromstring(request.body):
            if one.text not in known[one.tag]:
                raise Refusal(400, "InvalidBlockList")
            blocks.append((one.text, known[one.tag][one.text]))
        if len({len(name) for name, _ in blocks}) > 1:
            raise Refusal(400, "InvalidBlockList")
        data = b"".join(piece for _, piece in blocks)
        blob = Blob(data, self._given(request), blocks, request.headers.get("x-ms-tags", ""))
        return Answer(201, b"", {"ETag": self._write(where, blob)})

    def _put_blob(self, request: Request, where: tuple[str, str]) -> Answer:
        self._require(request, where)
        blob = Blob(request.body, self._given(request), [], request.headers.get("x-ms-tags", ""))
        return Answer(201, b"", {"ETag": self._write(where, blob)})

    def _list(self, request: Request, where: tuple[str, str]) -> Answer:
        prefix = request.query.get("prefix", "")
        inner = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Etag>{blob.headers['ETag'].strip(chr(34))}</Etag>"
            f"<Content-Length>{len(blob.data)}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
            for (container, key), blob in sorted(self.blobs.items())
            if container == request.parts[1] and key.startswith(prefix)
        )
        return _xml(f"<EnumerationResults><Blobs>{inner}</Blobs><NextMarker /></EnumerationResults>")


def _xml(text: str) -> Answer:
    return Answer(200, f"<?xml version='1.0' encoding='utf-8'?>{text}".encode(), {"Content-Type": "application/xml"})


AZURE_KEY = base64.b64encode(b"any key will do").decode()


def azure_fs(url: str, **options: Any) -> Any:
    """Returns an adlfs filesystem of its own, which repeats a failed request at once."""
    from adlfs import AzureBlobFileSystem
    from azure.storage.blob.aio import BlobServiceClient, LinearRetry

    text = f"DefaultEndpointsProtocol=http;AccountName=tests;AccountKey={AZURE_KEY};BlobEndpoint={url}/tests;"
    fs = AzureBlobFileSystem(connection_string=text, skip_instance_cache=True)
    fs.service_client = BlobServiceClient.from_connection_string(
        text, retry_policy=LinearRetry(backoff=0, random_jitter_range=0, retry_total=1), **options
    )
    return fs
