"""Rewrites on emulators of Google Cloud Storage and Azure, which others have written; see `.ci/emulators`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clouds import google_fs
from files import blob, statuses
from stores import counting_proxy

from parquet_bloom import add, drop, verify

FOLDER = os.environ.get("PARQUET_BLOOM_EMULATORS", "")
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not FOLDER, reason="without PARQUET_BLOOM_EMULATORS; see .ci/emulators"),
]

AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # public
MB = 1_000_000


@contextmanager
def running(*command: str) -> Iterator[str]:
    """Runs an emulator on a free port, which stands as PORT in its command; yields the URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [word.replace("PORT", str(port)) for word in command]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(300):
                assert server.poll() is None, f"{words[0]} has ended"
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def google_url() -> Iterator[str]:
    command = f"{FOLDER}/fake-gcs-server -scheme http -host 127.0.0.1 -port PORT -backend memory"
    with running(*command.split()) as url:
        yield url


@pytest.fixture(scope="session")
def azure_url() -> Iterator[str]:
    main = Path(FOLDER) / "node_modules/azurite/dist/src/blob/main.js"
    options = "--blobHost 127.0.0.1 --blobPort PORT --inMemoryPersistence --silent --skipApiVersionCheck"
    with running("node", str(main), *options.split(), "--disableTelemetry") as url:
        yield url


def azurite_fs(url: str) -> Any:
    from adlfs import AzureBlobFileSystem

    text = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={AZURITE_KEY};"
    return AzureBlobFileSystem(
        connection_string=f"{text}BlobEndpoint={url}/devstoreaccount1;", skip_instance_cache=True
    )


STORES = {"Google": ("gs", "google_url", google_fs), "Azure": ("abfs", "azure_url", azurite_fs)}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> tuple[str, str, Any]:
    """A scheme, a URL, and what connects to such a URL."""
    scheme, url, connect = STORES[request.param]
    return scheme, request.getfixturevalue(url), connect


@pytest.mark.parametrize("num_bytes", [200_000, 6 * MB])
def test_add_copy_and_restore(store: tuple[str, str, Any], num_bytes: int) -> None:
    scheme, url, connect = store
    fs = connect(url)
    root = f"lake-{num_bytes}"
    fs.mkdir(root)
    old = blob(num_bytes)
    with fs.open(f"{root}/d/x.parquet", "wb") as file:
        file.write(old)
    path, output = f"{scheme}://{root}/d/x.parquet", f"{scheme}://{root}/y.parquet"
    assert statuses(add(path, "id", filesystem=fs)) == ["written"]
    fs.invalidate_cache()
    assert fs.cat_file(f"{root}/d/x.parquet")[: len(old)] == old
    assert {row.verdict for row in verify(path, filesystem=fs).rows} == {"ok"}
    assert statuses(add(path, "id", filesystem=fs, output=output, replace=True)) == ["written"]
    assert statuses(drop(path, restore=True, filesystem=fs)) == ["written"]
    fs.invalidate_cache()
    assert fs.cat_file(f"{root}/d/x.parquet") == old
    assert sorted(fs.find(root)) == [f"{root}/d/x.parquet", f"{root}/y.parquet"]


def test_the_bytes_that_move(store: tuple[str, str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    scheme, url, connect = store
    fs = connect(url)
    fs.mkdir("large")
    old = blob(100 * MB)
    with fs.open("large/x.parquet", "wb") as file:
        file.write(old)
    with counting_proxy(url) as (proxied, traffic):
        assert statuses(add(f"{scheme}://large/x.parquet", "id", filesystem=connect(proxied))) == ["written"]
        up, down = traffic.up, traffic.down
    fs.invalidate_cache()
    added = fs.size("large/x.parquet") - len(old)
    with capsys.disabled():
        print(f"\n{scheme}: {len(old):,} bytes, {added:,} appended; {up:,} sent, {down:,} received, headers included")
    assert up < added + 50_000
    assert down < len(old) // 10
