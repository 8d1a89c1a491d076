"""Spark's own settings for S3 as ours; which of the two is missing; and what a path without a scheme means."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from engines import needs_java, spark
from files import write
from stores import KEYS, connected

from parquet_bloom import spark as bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import StoreError, UnsupportedError
from parquet_bloom.spark.stores import fsspec_options_of, settled

SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
SESSION = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
ENVIRONMENT = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
MACHINE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
PAIR = {"access.key": "AKIA", "secret.key": "hush"}
SECRET = "from a store"
PROVIDER = "aws.credentials.provider"


# ---- the translation ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        (PAIR, {"key": "AKIA", "secret": "hush"}),
        ({"access.key": "AKIA"}, {}),
        ({**PAIR, "session.token": "t"}, {"key": "AKIA", "secret": "hush", "token": "t"}),
        ({**PAIR, "session.token": "t", PROVIDER: SIMPLE}, {"key": "AKIA", "secret": "hush"}),
        ({**PAIR, PROVIDER: SESSION}, {}),
        ({**PAIR, PROVIDER: ANONYMOUS}, {"anon": True}),
        ({**PAIR, PROVIDER: f"\n    {MACHINE},\n    {SIMPLE}\n"}, {}),
        ({**PAIR, PROVIDER: f"{SESSION}, {SIMPLE}, {ROLE}"}, {"key": "AKIA", "secret": "hush"}),
        ({PROVIDER: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"}, {}),
        ({"endpoint": "https://minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        ({"endpoint": "minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        ({"endpoint": "minio", "connection.ssl.enabled": "False"}, {"endpoint_url": "http://minio"}),
        ({"connection.ssl.enabled": "false"}, {"use_ssl": False}),
        ({"endpoint": "s3.amazonaws.com", "endpoint.region": "sdk"}, {}),
        ({"endpoint.region": "eu-west-3"}, {"client_kwargs": {"region_name": "eu-west-3"}}),
        (
            {"endpoint": "s3.eu-central-1.amazonaws.com"},
            {"endpoint_url": "https://s3.eu-central-1.amazonaws.com", "client_kwargs": {"region_name": "eu-central-1"}},
        ),
        ({"path.style.access": "true"}, {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        ({"requester.pays.enabled": "true"}, {"requester_pays": True}),
        ({"proxy.host": "", "encryption.algorithm": "SSE-KMS", "encryption.key": "arn"}, {}),
        ({**PAIR, "bucket.lake.access.key": "own"}, {"key": "own", "secret": "hush"}),
        ({**PAIR, "bucket.lake.aws.credentials.provider": ANONYMOUS}, {"anon": True}),
        ({**PAIR, "bucket.lake.house.access.key": "own"}, {"key": "AKIA", "secret": "hush"}),
    ],
)
def test_settings_become_options(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], options: dict[str, Any]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert fsspec_options_of(settings, "lake") == options


def test_the_environment_comes_where_it_stands_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**PAIR, PROVIDER: f"{ENVIRONMENT},{SIMPLE}"}
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert fsspec_options_of(settings) == {"key": "AKIA", "secret": "hush"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA2")
    assert fsspec_options_of(settings) == {}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({PROVIDER: ROLE}, f"fs.s3a.aws.credentials.provider names {ROLE}"),
        ({PROVIDER: f"com.acme.{SIMPLE.rpartition('.')[2]}"}, "fs.s3a.aws.credentials.provider names com.acme."),
        ({f"bucket.lake.{PROVIDER}": ROLE}, "fs.s3a.bucket.lake.aws.credentials.provider"),
        ({"bucket.lake.accesspoint.arn": "hush"}, "fs.s3a.bucket.lake.accesspoint.arn is set"),
        ({"proxy.host": "hush"}, "fs.s3a.proxy.host is set"),
        ({"encryption.algorithm": "SSE-C", "encryption.key": "hush"}, "fs.s3a.encryption.algorithm is set"),
    ],
)
def test_a_setting_without_a_counterpart_is_named(settings: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(named)) as caught:
        fsspec_options_of({**PAIR, **settings}, "lake")
    assert "hush" not in str(caught.value)
    if any(name.startswith("bucket.") for name in settings):
        assert fsspec_options_of({**PAIR, **settings}, "other") == {"key": "AKIA", "secret": "hush"}


# ---- in a session ------------------------------------------------------------------------

_numbers = itertools.count()


@contextmanager
def told(settings: dict[str, str]) -> Iterator[Any]:
    """Gives the session settings for the block."""
    session = spark()
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield session
    finally:
        for name in settings:
            session.conf.unset(name)


@pytest.fixture
def lake(endpoint: str, tmp_path: Path) -> str:
    """A folder with a file on S3."""
    store, bucket = connected(endpoint), f"spark-{next(_numbers)}"
    store.call_s3("create_bucket", Bucket=bucket)
    store.pipe_file(f"{bucket}/lake/x.parquet", write(tmp_path / "x.parquet"))
    return f"s3a://{bucket}/lake"


@pytest.fixture
def s3a(endpoint: str) -> dict[str, str]:
    """What Spark must be told about the store."""
    return {
        "fs.s3a.access.key": KEYS["key"],
        "fs.s3a.secret.key": KEYS["secret"],
        "fs.s3a.endpoint": endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
    }


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leaves botocore nothing to find on this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("no_credentials")
def test_verbs_take_the_settings_of_spark(lake: str, s3a: dict[str, str]) -> None:
    with told(s3a) as session:
        paths = session.createDataFrame([(f"{lake}/x.parquet",)], "path string")
        done = bloom.add(session, paths, "id", storage_options="spark")
        assert [row.status for row in done.collect()] == ["written"]
        assert bloom.inspect(session, lake, storage_options="spark").selectExpr("inline(filters)").count() == 4
        assert bloom.verify(session, lake, storage_options="spark").where("error is not null").isEmpty()
        pruned = bloom.prune(session, lake, "id = 700", storage_options="spark")
        answers = [row.answer for row in pruned.selectExpr("inline(row_groups)").collect()]
        assert answers == ["CANNOT_MATCH", "CANNOT_MATCH", "MIGHT_MATCH", "CANNOT_MATCH"]
        found = bloom.lookup(session, lake, "id", [700], storage_options="spark").collect()
        assert [(row.path, row.row_group) for row in found] == [(f"{lake}/x.parquet", 2)]
        assert [row.status for row in bloom.drop(session, lake, restore=True, storage_options="spark").collect()] == [
            "written"
        ]
        assert bloom.index.create(session, lake, "id", storage_options="spark").errors == ()


@needs_java
@pytest.mark.spark
def test_settings_for_a_bucket_and_secrets_in_a_credential_store(s3a: dict[str, str], tmp_path: Path) -> None:
    store = f"localjceks://file{tmp_path}/secrets.jceks"
    own = {"fs.s3a.bucket.one.endpoint": "https://minio:9000", "fs.s3a.security.credential.provider.path": store}
    with told({**s3a, **own}) as session:
        java = session._jvm
        hadoop = session._jsparkSession.sessionState().newHadoopConf()
        hadoop.set("hadoop.security.credential.provider.path", store)
        provider = java.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(hadoop)[0]
        secret = session.sparkContext._gateway.new_array(java.char, len(SECRET))
        for number, letter in enumerate(SECRET):
            secret[number] = letter
        provider.createCredentialEntry("fs.s3a.bucket.one.secret.key", secret)
        provider.flush()
        _, one = settled(session, "s3://one/x", "spark")
        _, two = settled(session, ["s3a://two/x", "s3a://two/y"], "spark")
        assert one is not None
        assert two is not None
        assert (one["endpoint_url"], one["secret"]) == ("https://minio:9000", SECRET)
        assert (two["endpoint_url"], two["secret"]) == (f"http://{s3a['fs.s3a.endpoint']}", KEYS["secret"])
        with pytest.raises(UnsupportedError, match="for the buckets one, two: call once for each"):
            settled(session, ["s3a://one/x", "s3a://two/x"], "spark")
        with pytest.raises(UnsupportedError, match=r"fs\.s3a\.bucket\.\*"):
            settled(session, "lake.events", "spark", catalog="main")


@needs_java
@pytest.mark.spark
def test_other_paths_and_words(tmp_path: Path) -> None:
    session = spark()
    assert settled(session, f"file://{tmp_path}", "spark") == (f"file://{tmp_path}", None)
    with pytest.raises(UnsupportedError, match="knows none for gs://"):
        settled(session, "gs://bucket/x", "spark")
    with pytest.raises(UnsupportedError, match="call again for those on this machine"):
        settled(session, ["s3a://bucket/x", str(tmp_path)], "spark")
    with pytest.raises(ValueError, match="a dictionary or 'spark', not 'Spark'"):
        settled(session, "s3a://bucket/x", "Spark")  # type: ignore[arg-type]


# ---- whose settings are missing ----------------------------------------------------------


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("no_credentials")
def test_the_driver_has_none(lake: str, endpoint: str) -> None:
    options = {"endpoint_url": endpoint, "skip_instance_cache": True}
    for call in (
        lambda: bloom.inspect(spark(), lake, storage_options=options),
        lambda: bloom.add(spark(), lake, "id", storage_options=options),
        lambda: bloom.prune(spark(), lake, "id = 'x'", storage_options=options),
        lambda: bloom.read(spark(), lake, "id = 'x'", storage_options=options),
    ):
        with pytest.raises(StoreError, match="credentials; the driver's Python does not see Spark's settings"):
            call()


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("no_credentials")
def test_the_executors_have_none(lake: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = spark()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")  # after Java was started: its Python workers lack them
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    options = {"endpoint_url": endpoint, "config_kwargs": {"connect_timeout": 5}}
    with pytest.raises(StoreError, match=r"x\.parquet: NoCredentialsError: .* an executor found no credentials"):
        bloom.inspect(session, lake, storage_options=options)
    (row,) = bloom.add(session, lake, "id", storage_options=options).collect()
    assert row.status == "refused"
    assert "spark.executorEnv.AWS_ACCESS_KEY_ID" in row.error


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("no_credentials")
def test_spark_has_none(lake: str, s3a: dict[str, str]) -> None:
    with told(s3a) as session, pytest.raises(StoreError, match=r"Spark itself cannot read it \(.*spark\.hadoop\.fs"):
        bloom.read(session, lake, "id = 'x'", storage_options="spark")  # without the jars of hadoop-aws


# ---- on the command line -----------------------------------------------------------------


@needs_java
@pytest.mark.spark
@pytest.mark.usefixtures("no_credentials")
def test_the_command_line_takes_them_too(lake: str, s3a: dict[str, str]) -> None:
    with told(s3a):
        line = [lake, "--engine", "spark", "--storage-option", "spark", "--json"]
        done = CliRunner().invoke(main, ["inspect", *line])
        assert (done.exit_code, done.stdout.count("x.parquet")) == (0, 1), done.output


def test_without_spark_the_word_is_refused() -> None:
    done = CliRunner().invoke(main, ["inspect", "s3://bucket/x", "--storage-option", "spark"])
    assert done.exit_code == 2
    assert "it needs --engine spark" in done.stderr


# ---- paths without a scheme --------------------------------------------------------------


@needs_java
@pytest.mark.spark
def test_where_the_default_is_another_file_system(tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "x.parquet")
    write(tmp_path / "day=2" / "x.parquet")
    with told({"fs.defaultFS": "hdfs://namenode:8020"}) as session:
        with pytest.raises(UnsupportedError, match=r"to Spark it lies on hdfs://namenode:8020 \(fs.defaultFS\)"):
            bloom.read(session, str(tmp_path), "day = 1")
        with pytest.raises(UnsupportedError, match="has no scheme"):
            bloom.semi_join(session, session.createDataFrame([(str(tmp_path),)], "path string"), "id", ["x"])
        for where in ("day = 1", "day < 5"):
            rows = bloom.read(session, f"file://{tmp_path}", where)
            assert rows.count() == session.read.parquet(f"file://{tmp_path}").where(where).count() > 0
            assert rows.columns[-1] == "day"
        glob = bloom.read(session, f"file://{tmp_path}/day=*", "id is not null")
        assert glob.count() == 2000
