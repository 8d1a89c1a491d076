"""Passwords stay out of what is printed and raised, and names cannot write on the terminal by themselves."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.cli import commands, output
from parquet_bloom.errors import CorruptFileError, StoreError, UnsupportedError, without_secrets
from parquet_bloom.results import printable

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILE = (FIXTURES / "pyarrow" / "small.parquet").read_bytes()
DAMAGED = FILE[:-20] + bytes(12) + FILE[-8:]
PASSWORD = "hunter2hunter2"


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have hidden is not hidden here."""
    monkeypatch.setattr(output, "_HIDDEN", set())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands.main, [str(argument) for argument in arguments])


# ---- passwords ---------------------------------------------------------------------------


@contextmanager
def served(objects: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Yields the server's address with a user and a password, and the requests that it gets."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            data = objects.get(self.path.partition("?")[0])
            whole = data or b""
            start, stop = 0, len(whole)
            if span := self.headers["Range"]:
                first, _, last = span.removeprefix("bytes=").partition("-")
                start, stop = int(first), int(last) + 1 if last else len(whole)
            self.send_response(404 if data is None else 206 if span else 200)
            self.send_header("Content-Length", str(len(whole[start:stop])))
            if span:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(whole)}")
            else:
                self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(whole[start:stop])

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        fsspec.filesystem("http").clear_instance_cache()
        yield f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.mark.parametrize("verb", [["inspect"], ["prune", "-w", "id = 1"], ["verify"], ["probe"]])
@pytest.mark.parametrize("output_format", ["table", "json", "csv"])
def test_a_urls_password_is_not_printed(verb: list[str], output_format: str) -> None:
    with served({"/good.parquet": FILE, "/bad.parquet": DAMAGED}) as (url, requests):
        for name in ("good", "bad", "none"):
            path = f"{url}/{name}.parquet?X-Amz-Signature={PASSWORD}&a=b"
            tail = [path, "id", "1"] if verb == ["probe"] else [path]
            said = run(verb[0], *verb[1:], *tail, "--format", output_format).output
            assert said
            assert PASSWORD not in said
            assert "http://http" not in said
    assert any("X-Amz-Signature" in path for path in requests)


def test_a_urls_password_is_in_no_error_and_in_no_result() -> None:
    with served({"/bad.parquet": DAMAGED}) as (url, _):
        row, *_ = parquet_bloom.prune(f"{url}/bad.parquet", "id = 1").rows
        assert PASSWORD not in repr(row) + repr(row.to_dict())
        assert row.path.startswith("http://me:***@127.0.0.1:")
        for path in (f"{url}/none.parquet", f"http://me:{PASSWORD}@127.0.0.1:9/x.parquet"):
            with pytest.raises(OSError, match=r"(x|none)\.parquet") as raised:
                parquet_bloom.prune(path, "id = 1")
            assert PASSWORD not in str(raised.value)


def test_a_server_that_can_only_be_read_is_refused_before_any_request() -> None:
    with served({"/good.parquet": FILE}) as (url, requests):
        for change in (lambda path: parquet_bloom.add(path, "id"), parquet_bloom.drop):
            with pytest.raises(UnsupportedError, match="read-only"):
                change(f"{url}/good.parquet")
        assert run("add", f"{url}/good.parquet", "-c", "id").exit_code == 2
    assert requests == []


@pytest.mark.parametrize("debug", ["0", "1"])
def test_storage_options_that_are_secrets_are_not_printed(monkeypatch: pytest.MonkeyPatch, debug: str) -> None:
    def fail(*_: Any, storage_options: Any, **__: Any) -> None:
        raise ValueError(f"cannot use {storage_options}")

    monkeypatch.setattr(commands.parquet_bloom, "probe", fail)
    monkeypatch.setenv("PARQUET_BLOOM_DEBUG", debug)
    nested = json.dumps({"aws_secret_access_key": PASSWORD[::-1]})
    options = ["--storage-option", f"secret={PASSWORD}", "--storage-option", f"client_kwargs={nested}"]
    result = run("probe", "x", "id", "1", *options, "--storage-option", "anon=false")
    assert result.exit_code == 2
    assert PASSWORD not in result.output
    assert PASSWORD[::-1] not in result.output
    assert "***" in result.output


@pytest.mark.parametrize("debug", ["0", "1"])
def test_urls_in_errors_of_other_libraries_are_not_printed(monkeypatch: pytest.MonkeyPatch, debug: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError(f"cannot read http://me:{PASSWORD}@host/x")

    monkeypatch.setattr(commands.parquet_bloom, "probe", fail)
    monkeypatch.setenv("PARQUET_BLOOM_DEBUG", debug)
    result = run("probe", "x", "id", "1")
    assert result.exit_code == 2
    assert PASSWORD not in result.output
    assert "http://me:***@host/x" in result.output


@pytest.mark.parametrize(
    "name",
    [
        *("password", "secret", "token", "key", "sas_token", "connection_string", "ssh_passphrase"),
        *("AWS_SECRET_ACCESS_KEY", "account_key", "azure_credential", "s3.session-token", "Authorization"),
    ],
)
def test_options_of_these_names_are_secrets(name: str) -> None:
    output.hide_options({name: PASSWORD, "anon": "everybody", "region": "eu-central-1"})
    assert output.without_options(f"{PASSWORD} everybody eu-central-1") == "*** everybody eu-central-1"


@pytest.mark.parametrize("secret", [PASSWORD, 'a "b" \\ ü'])
@pytest.mark.parametrize("output_format", ["json", "csv"])
def test_rows_are_without_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str, output_format: str
) -> None:
    (tmp_path / "x.parquet").write_bytes(DAMAGED)
    pruned = parquet_bloom.prune(tmp_path, "id = 1")
    file = dataclasses.replace(pruned.all_files[0], not_pruned=f"cannot use {secret}")
    pruned = dataclasses.replace(pruned, all_files=(file,))
    monkeypatch.setattr(commands.parquet_bloom, "prune", lambda *_, **__: pruned)
    options = ["-w", "id = 1", "--format", output_format, "--storage-option", f"secret={json.dumps(secret)}"]
    said = run("prune", "x", *options).stdout
    assert "cannot use ***" in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:pw@h/x", "http://me:***@h/x"),
        ("ftp://me:p@ss@h:21/x: failed", "ftp://me:***@h:21/x: failed"),
        ("https://h/x?sig=abc%2F&se=2026#f", "https://h/x?sig=***&se=2026#f"),
        (
            "https://h/x?a=1&X-Amz-Credential=A&X-Amz-Security-Token=B",
            "https://h/x?a=1&X-Amz-Credential=***&X-Amz-Security-Token=***",
        ),
        ("hdfs://namenode:8020/a@b", "hdfs://namenode:8020/a@b"),
        ("s3://bucket/key=1/part?.parquet", "s3://bucket/key=1/part?.parquet"),
        ("dir/?key=1/x.parquet", "dir/?key=1/x.parquet"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
    ],
)
def test_only_secrets_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert str(UnsupportedError(text)) == str(StoreError(text)) == str(CorruptFileError(text)) == shown
    assert str(pickle.loads(pickle.dumps(StoreError(text)))) == shown


# ---- control characters ------------------------------------------------------------------

HOSTILE = "a\x1b[31m\rb\n\u202ec[/d]:smile:"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / f"{HOSTILE.replace('/', '|')}.parquet"
    table = pa.table({HOSTILE: ["x\x1b]0;title\x07", "y"], "id": [1, 2]})
    pq.write_table(table, path, bloom_filter_options={HOSTILE: {"ndv": 2, "fpp": 0.01}, "id": {"ndv": 2, "fpp": 0.01}})
    return path


def test_names_and_keys_are_shown_and_not_obeyed(hostile: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"id": [1, 9]}), keys)
    name, texts = HOSTILE.replace("`", "``"), tmp_path / "texts.parquet"
    pq.write_table(pa.table({HOSTILE: ["x\x1b]0;title\x07", "z\x1b]0;title\x07"]}), texts)
    broken = tmp_path / "\x1b[2J.parquet"
    broken.write_bytes(b"PAR1")
    calls = [
        ("inspect", hostile, "--all"),
        ("inspect", broken),
        ("verify", hostile),
        ("probe", hostile, "id", "1"),
        ("prune", hostile, "-w", "id = 1"),
        ("prune", hostile, "-w", f"`{name}` = 'y'", "--explain"),
        ("lookup", hostile, "-c", "id", "-k", keys),
        ("lookup", hostile, "-c", f"`{name}`", "-k", texts),
        ("lookup", hostile, "-c", f"`{name}`", "-k", texts, "--absent"),
        ("add", hostile, "-c", "nothing\x1b[31m"),
        ("drop", hostile, "--dry-run"),
    ]
    for call in calls:
        said = run(*call).output
        assert said
        assert all(line.isprintable() for line in said.replace("\t", " ").split("\n")), call
    assert r"a\x1b[31m\rb\n\u202ec[/d]:smile:" in run("inspect", hostile).output


def test_files_are_told_apart_by_zero_bytes(hostile: Path) -> None:
    other = hostile.with_name("other.parquet")
    other.write_bytes(hostile.read_bytes())
    result = run("prune", hostile, other, "-w", "id = 1", "--files-only", "-0")
    assert result.stdout_bytes == b"".join(os.fsencode(path) + b"\0" for path in (hostile, other))
    assert run("prune", hostile, "-w", "id = 1", "-0").exit_code == 2


@given(st.text())
def test_what_is_printable_is_one_line_without_controls(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()
