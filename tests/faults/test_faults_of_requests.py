"""A request of a verb on S3 fails, or its answer does: objects are old or new, and nothing lies.

`.ci/fuzz faults` tries every request of every verb; here it is a sample.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from faulty_store import FAULTS, FaultyStore, faulty
from stores import KEYS, connected

from parquet_bloom import add, index
from parquet_bloom.cli.commands import main
from parquet_bloom.storage import drive, listing

pytestmark = pytest.mark.servers

BUCKET = "faults"
SMALL, LARGE, FILTERED, NEW = "small/x.parquet", "large/x.parquet", "filtered/x.parquet", "new/x.parquet"


@dataclass
class Verb:
    """A command on the bucket; `changes` an object, may end with `codes` beside the usual one and 2, and `finds`."""

    arguments: str
    changes: str = ""
    codes: tuple[int, ...] = ()
    finds: bool = False


VERBS = {
    "add": Verb("add s3://faults/small/x.parquet -c id", SMALL),
    "add-large": Verb("add s3://faults/large/x.parquet -c id", LARGE),
    "add-output": Verb("add s3://faults/small/x.parquet -c id -o s3://faults/new/x.parquet", NEW),
    "drop": Verb("drop s3://faults/filtered/x.parquet", FILTERED),
    "restore": Verb("drop --restore s3://faults/filtered/x.parquet", FILTERED),
    "inspect": Verb("inspect s3://faults/filtered"),
    "verify": Verb("verify s3://faults/filtered"),
    "probe": Verb("probe s3://faults/filtered/x.parquet id 3", finds=True),
    "probe-absent": Verb("probe s3://faults/filtered/x.parquet id 4", codes=(0,)),
    "prune": Verb("prune s3://faults/filtered --where id=3", finds=True),
    "prune-absent": Verb("prune s3://faults/filtered --where id=4", codes=(0,)),
    "prune-index": Verb("prune s3://faults/lakes/indexed --where id=3", finds=True),
    "lookup": Verb("lookup s3://faults/filtered -c id -k KEYS", finds=True),
    "index-create": Verb("index create s3://faults/lakes/plain -c id"),
    "index-drop": Verb("index drop s3://faults/lakes/indexed"),
}


@dataclass
class World:
    """The store, the proxy before it, and every object as it was."""

    store: FaultyStore
    direct: Any
    objects: dict[str, bytes]
    keys: Path
    tags: dict[str, str] = field(default_factory=dict)

    def reset(self) -> None:
        here = self.listed()
        for key in set(here) - set(self.objects):
            self.direct.delete_object(Bucket=BUCKET, Key=key)
        for key, data in self.objects.items():
            if here.get(key) != self.tags.get(key):
                self.tags[key] = self.direct.put_object(Bucket=BUCKET, Key=key, Body=data)["ETag"]
        for upload in self.uploads():
            self.direct.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])

    def listed(self) -> dict[str, str]:
        """Returns the ETag of each object, which tells what is in it."""
        return {each["Key"]: each["ETag"] for each in self.direct.list_objects_v2(Bucket=BUCKET).get("Contents", ())}

    def content(self, key: str) -> bytes:
        return bytes(self.direct.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def uploads(self) -> list[Any]:
        return list(self.direct.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))

    def call(self, verb: Verb) -> tuple[int, str]:
        seconds = 1 if self.store.fault in ("hang", "late") else 30
        config = {"read_timeout": seconds, "connect_timeout": 30, "retries": {"max_attempts": 0}}
        client = {"region_name": "us-east-1"}
        options = {**KEYS, "endpoint_url": self.store.url, "config_kwargs": config, "client_kwargs": client}
        options["skip_instance_cache"] = True
        given = [f"--storage-option={name}={json.dumps(value)}" for name, value in options.items()]
        ran = CliRunner().invoke(main, [*verb.arguments.replace("KEYS", str(self.keys)).split(), *given])
        return ran.exit_code, ran.output


@pytest.fixture(scope="module")
def world(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    direct = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )
    direct.create_bucket(Bucket=BUCKET)
    for key, size in ((SMALL, 20_000), (LARGE, 6_000_000), (FILTERED, 20_000)):
        direct.put_object(Bucket=BUCKET, Key=key, Body=_blob(size))
    for folder in ("lakes/plain", "lakes/indexed"):
        direct.put_object(Bucket=BUCKET, Key=f"{folder}/x.parquet", Body=_blob(20_000))
    fs = connected(endpoint)
    add(f"{BUCKET}/{FILTERED}", "id", filesystem=fs)
    options = {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
    index.create(f"s3://{BUCKET}/lakes/indexed", "id", storage_options=options)
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("3\n4\n")
    with faulty(endpoint) as store:
        world = World(store, direct, {}, keys)
        world.objects = {key: world.content(key) for key in world.listed()}
        world.tags = world.listed()
        yield world


def _blob(size: int) -> bytes:
    noise = np.random.default_rng(1).bytes(size)
    step = size // 2000
    rows = {"id": np.arange(2000) * 3, "payload": [noise[i * step : (i + 1) * step] for i in range(2000)]}
    buffer = io.BytesIO()
    pq.write_table(pa.table(rows), buffer, row_group_size=500, compression="none", use_dictionary=False)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -1)
    monkeypatch.setattr(drive.time, "sleep", lambda seconds: None)


EVERY = int(os.environ.get("PARQUET_BLOOM_FAULTS_EVERY", "0"))
SAMPLE = {"add-large": 1, "prune-absent": 1}
"""How many faults are tried of which verbs unless told otherwise."""


@pytest.mark.parametrize("name", VERBS if EVERY else SAMPLE)
def test_a_request_that_fails_breaks_no_rule(world: World, name: str, caplog: pytest.LogCaptureFixture) -> None:
    verb = VERBS[name]
    world.reset()
    world.store.set(0, "")
    usual, said = world.call(verb)
    assert usual in (0, 1), said
    requests = list(world.store.names)
    after = world.listed()
    cases = [
        (at, fault, lasting) for at in range(1, len(requests) + 1) for fault in FAULTS for lasting in (False, True)
    ]
    count = -(-len(cases) // EVERY) if EVERY else SAMPLE[name]
    chosen = cases if EVERY == 1 else random.Random(name).sample(cases, count)
    broken = []
    for at, fault, lasting in chosen:
        world.reset()
        caplog.clear()
        world.store.set(at, fault, lasting=lasting)
        code, said = world.call(verb)
        world.store.set(0, "")
        wrong = _broken(world, verb, usual, after, code, said, caplog.text)
        if wrong:
            print((at, requests[at - 1], fault, lasting, code, wrong, said[-700:]), flush=True)
            broken.append((at, requests[at - 1], fault, "lasting" if lasting else "once", code, wrong, said[-500:]))
    print(json.dumps({"verb": name, "requests": len(requests), "faults": len(chosen), "broken": len(broken)}))
    assert not broken, "\n".join(map(str, broken))


def _broken(
    world: World, verb: Verb, usual: int, after: dict[str, str], code: int, said: str, logged: str
) -> list[str]:
    wrong = []
    if code not in (usual, 2, *verb.codes):
        wrong.append(f"exit code {code}")
    if "Traceback" in said or "PARQUET_BLOOM_DEBUG" in said:
        wrong.append("an error that is not ours")
    now = world.listed()
    for key, tag in world.tags.items():
        if ".bloom-index" not in key and now.get(key) not in (tag, after[key]):
            wrong.append(f"{key} is neither old nor new")
    if strays := {key for key in now if ".bloom-index" not in key} - {*world.objects, *after}:
        wrong.append(f"left: {strays}")
    if verb.changes:
        is_new = now.get(verb.changes) == after[verb.changes]
        if is_new != (code == 0) and not (is_new and any(word in said for word in _TOLD)):
            wrong.append(f"exit code {code}, and the object is {'new' if is_new else 'old'}")
    for upload in world.uploads():
        if upload["UploadId"] not in said + logged and "may be left in the store" not in said + logged:
            wrong.append("an upload is left, and not named")
    again, told = world.call(verb) if verb.changes or "index" in verb.arguments else (0, "")
    if again not in (usual, 0) and not (
        verb.arguments.startswith(("index", "add")) and ("exists" in told or "no index" in told)
    ):
        wrong.append(f"the next run ends with {again}: {told}")
    return wrong


_TOLD = ("was written", "is not known")
