"""On executors, too, a table's metadata does not choose what is opened, and a lost file does not end a job."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import lakes
import pytest
from engines import needs_java, spark

from parquet_bloom import spark as bloom
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.spark.console import call
from parquet_bloom.tables.roots import CHAINED, OUTSIDE

pytestmark = [needs_java, pytest.mark.spark]


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """A server of the local host, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_files_that_a_log_names_elsewhere_are_kept_unread(tmp_path: Path, requests: tuple[str, list[str]]) -> None:
    """Beside them, one that is gone, and one that is pruned."""
    root, (host, asked) = tmp_path / "t", requests
    lakes.delta(root, files=2)
    (gone,), (ours,) = lakes.adds(root), lakes.adds(root, 1)
    reasons = {
        f"{host}/x.parquet": OUTSIDE,
        f"simplecache::{host}/y.parquet": CHAINED,
        "simplecache::file:///etc/passwd": CHAINED,
        str(root / gone["path"]): "the table lists this file, but it is missing",
    }
    for version, path in enumerate(list(reasons)[:3], len(list((root / "_delta_log").glob("*.json")))):
        lakes.log(root, version, {"add": {**ours, "path": path, "stats": None}})
    (root / gone["path"]).unlink()
    pruned = {row.path: row.not_pruned for row in bloom.prune(spark(), str(root), "id = 123456789").collect()}
    assert pruned == {**reasons, str(root / ours["path"]): None}
    found = bloom.lookup(spark(), str(root), "id", [123456789], absent=False).collect()
    assert {row.path: row.reason for row in found if row.row_group is None} == reasons
    candidates = call("lookup", None, paths=(str(root),), column="id", keys=[123456789])
    candidates.to_arrow()
    assert {file.path: file.error for file in candidates.errors} == reasons
    with pytest.raises(UnsupportedError, match="is not read"):
        bloom.index.create(spark(), str(root), "id")
    assert asked == []
