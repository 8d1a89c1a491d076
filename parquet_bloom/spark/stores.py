"""Spark's own settings for S3 (`fs.s3a.*`) as fsspec takes them, and errors that say whose settings are missing.

Two libraries read the same objects: Hadoop's S3A connector in the JVM, and s3fs in Python, on the driver and on
executors. Each has settings of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.spark.session import Settings, is_connect
from parquet_bloom.spark.tasks import SparkRefused, given_paths
from parquet_bloom.storage.listing import StorageOptions
from parquet_bloom.tables import is_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkOptions = StorageOptions | Literal["spark"]
"""Options for fsspec, or `"spark"` for those that Spark has for S3."""

_S3_SCHEMES = ("s3", "s3a", "s3n")


# ---- fs.s3a.* -> fsspec ------------------------------------------------------------------


def settled(
    spark: SparkSession, paths: Any, storage_options: SparkOptions, *, catalog: str | None = None
) -> tuple[Any, StorageOptions]:
    """Return paths, and options for fsspec: of `"spark"` the translation of Spark's own settings for their buckets.

    A DataFrame of paths is collected then, and only once.
    """
    if not isinstance(storage_options, str):
        return paths, storage_options
    if storage_options != "spark":
        raise ValueError(f"storage_options= is a dictionary or 'spark', not {storage_options!r}")
    if is_connect(spark):
        raise UnsupportedError(
            "with Spark Connect the server's settings for S3 cannot be read: give storage_options= as a dictionary"
        )
    if catalog is not None or is_table(paths):
        settings = _s3a_settings(spark, [])
        if any(name.startswith("bucket.") for name in settings):
            raise UnsupportedError(
                "Spark has settings for single buckets (fs.s3a.bucket.*), and in which of them the table lies is not "
                "known: give storage_options= as a dictionary"
            )
        return paths, fsspec_options_of(settings)
    given = given_paths(paths)
    buckets = _buckets(given if isinstance(given, list) else [given])
    if not buckets:
        return given, None
    settings = _s3a_settings(spark, buckets)
    options, *others = (fsspec_options_of(settings, bucket) for bucket in buckets)
    if any(other != options for other in others):
        raise UnsupportedError(
            f"Spark has different settings (fs.s3a.bucket.*) for the buckets {', '.join(buckets)}: call once for each"
        )
    return given, options


def _buckets(paths: Iterable[Any]) -> list[str]:
    """Return the buckets of paths, none for paths of this machine."""
    found: set[str] = set()
    is_here = False
    for path in paths:
        scheme, separator, rest = os.fspath(path).partition("://")
        if not separator or scheme == "file":
            is_here = True
        elif scheme in _S3_SCHEMES:
            found.add(rest.partition("/")[0])
        else:
            raise UnsupportedError(
                f"storage_options='spark' takes Spark's settings for S3, and knows none for {scheme}://: give "
                "storage_options= as a dictionary"
            )
    if found and is_here:
        raise UnsupportedError("storage_options='spark' is for paths on S3: call again for those on this machine")
    return sorted(found)


def _s3a_settings(spark: SparkSession, buckets: list[str]) -> dict[str, str]:
    """Return the settings of the session below `fs.s3a.`, with secrets from Hadoop's credential stores, if any.

    One call of the JVM returns them all: each takes a tenth of a millisecond or more.
    """
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()  # what Spark itself reads with; a copy
    mapper = spark._jvm.com.fasterxml.jackson.databind.ObjectMapper()  # type: ignore[union-attr]
    settings: dict[str, str] = json.loads(mapper.writeValueAsString(hadoop.getPropsWithPrefix("fs.s3a.")))
    stores = [settings.get(_STORES), hadoop.get("hadoop.security.credential.provider.path")]
    stores += [settings.get(f"bucket.{bucket}.{_STORES}") for bucket in buckets]
    if paths := ",".join(filter(None, stores)):
        hadoop.set("hadoop.security.credential.provider.path", paths)
        for name in [f"{prefix}{key}" for prefix in ("", *(f"bucket.{b}." for b in buckets)) for key in _SECRETS]:
            if (secret := hadoop.getPassword(f"fs.s3a.{name}")) is not None:
                settings[name] = "".join(secret)
    return settings


_STORES = "security.credential.provider.path"
_SECRETS = ("access.key", "secret.key", "session.token")


def fsspec_options_of(settings: Mapping[str, str], bucket: str = "") -> dict[str, Any]:
    """Return options for s3fs that mean what settings (without `fs.s3a.`) mean for a bucket.

    Raises `UnsupportedError` that names the setting, never its value, if one has no counterpart and it matters.

    >>> fsspec_options_of({"endpoint": "minio:9000", "connection.ssl.enabled": "false"}, "lake")
    {'endpoint_url': 'http://minio:9000'}
    """
    own = f"bucket.{bucket}."
    names = {name: f"fs.s3a.{name}" for name in settings if not name.startswith("bucket.")}
    names |= {name.removeprefix(own): f"fs.s3a.{name}" for name in settings if bucket and name.startswith(own)}
    values = {name: settings[key.removeprefix("fs.s3a.")].strip() for name, key in names.items()}
    values = {name: value for name, value in values.items() if value}
    for name, why in _UNTRANSLATED.items():
        if name in values and (why is not _ENCRYPTED or values[name].upper().startswith(("SSE-C", "CSE-"))):
            raise UnsupportedError(f"{names[name]} is set, {why}: give storage_options= as a dictionary")
    options = _credentials(values, names.get(_PROVIDER, f"fs.s3a.{_PROVIDER}"))
    endpoint, region = values.get("endpoint", ""), values.get("endpoint.region", "")
    is_secure = values.get("connection.ssl.enabled", "true").lower() != "false"
    if endpoint and endpoint != "s3.amazonaws.com":
        options["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' * is_secure}://{endpoint}"
    elif not is_secure:
        options["use_ssl"] = False
    if region in _NO_REGIONS:
        host = urlsplit(options.get("endpoint_url", "")).hostname or ""
        region = found[1] if (found := _AMAZON.search(host)) else ""
    if region:
        options["client_kwargs"] = {"region_name": region}
    if values.get("path.style.access", "false").lower() == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if values.get("requester.pays.enabled", "false").lower() == "true":
        options["requester_pays"] = True
    return options


_ENCRYPTED = "an encryption that s3fs cannot be told of"
_UNTRANSLATED = {
    "accesspoint.arn": "which s3fs does not know",
    "delegation.token.binding": "and Hadoop's delegation tokens cannot be used here",
    "proxy.host": "which s3fs takes in another way",
    "encryption.algorithm": _ENCRYPTED,
    "server-side-encryption-algorithm": _ENCRYPTED,
}
_NO_REGIONS = ("", "sdk", "ec2", "external")
_AMAZON = re.compile(r"(?:^|\.)s3[.-](?:dualstack\.|fips\.)?([a-z]+(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?$")


def _credentials(values: Mapping[str, str], setting: str) -> dict[str, Any]:
    """Return the options of the first provider of credentials that has some, as S3A goes through its list."""
    providers = [name.strip() for name in values.get(_PROVIDER, "").split(",") if name.strip()] or list(_BY_DEFAULT)
    key, secret, token = (values.get(name) for name in _SECRETS)
    for provider in providers:
        package, _, name = provider.rpartition(".")
        kind = _PROVIDERS.get(name.partition("$")[0]) if package in _PACKAGES else None
        if kind is None:
            raise UnsupportedError(
                f"{setting} names {provider}, which has no counterpart in Python: give storage_options= as a dictionary"
            )
        if kind == "anonymous":
            return {"anon": True}
        if kind == "session" and key and secret and token:
            return {"key": key, "secret": secret, "token": token}
        if kind == "keys" and key and secret:
            return {"key": key, "secret": secret}
        if kind == "environment" and "AWS_ACCESS_KEY_ID" in os.environ:
            return {}
        if kind == "ambient":
            return {}
    return {}


_PROVIDER = "aws.credentials.provider"
_PACKAGES = (
    *("org.apache.hadoop.fs.s3a", "org.apache.hadoop.fs.s3a.auth"),
    *("com.amazonaws.auth", "software.amazon.awssdk.auth.credentials"),
)
_PROVIDERS = {
    "TemporaryAWSCredentialsProvider": "session",
    "SimpleAWSCredentialsProvider": "keys",
    "AnonymousAWSCredentialsProvider": "anonymous",
    "AnonymousCredentialsProvider": "anonymous",
    "EnvironmentVariableCredentialsProvider": "environment",
    "IAMInstanceCredentialsProvider": "ambient",
    "InstanceProfileCredentialsProvider": "ambient",
    "ContainerCredentialsProvider": "ambient",
    "EC2ContainerCredentialsProviderWrapper": "ambient",
    "WebIdentityTokenFileCredentialsProvider": "ambient",
    "WebIdentityTokenCredentialsProvider": "ambient",
    "DefaultCredentialsProvider": "ambient",
    "DefaultAWSCredentialsProviderChain": "ambient",
}
"""What providers look for: what is ambient (roles of machines and pods) botocore finds itself, on every machine."""

_BY_DEFAULT = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
)


# ---- whose settings are missing ----------------------------------------------------------


@contextlib.contextmanager
def spark_reads(paths: Iterable[str]) -> Iterator[None]:
    """Say of a store's refusal that it was Spark itself that was refused, which reads with settings of its own."""
    try:
        yield
    except Exception as error:
        on_store = next((path for path in paths if "://" in path), None)
        if on_store is None or not (found := _REFUSED_JAVA.search(str(error))):
            raise
        raise SparkRefused(
            f"{on_store}: Spark itself cannot read it ({found[0]}): storage_options= are for what parquet_bloom reads; "
            "Spark needs hadoop-aws, paths with s3a://, and its own settings (spark.hadoop.fs.s3a.*)"
        ) from error


_REFUSED_JAVA = re.compile(
    r"No FileSystem for scheme \"?\w+\"?|S3AFileSystem not found|NoClassDefFoundError: [\w/.$]+|AccessDenied\w*|"
    r"NoAuthWithAWSException|No AWS Credentials|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Status Code: 403"
)


# ---- paths without a scheme --------------------------------------------------------------


def for_spark(settings: Settings, path: str) -> str:
    """Return a path as Spark must be told it: of this machine, also where Spark's default is another file system."""
    return f"file:{path}" if path.startswith("/") and not settings.is_local_default else path


def require_schemes(settings: Settings, paths: Iterable[str]) -> None:
    """Raise for a path that means another file to Spark than to Python."""
    bare = next((path for path in paths if "://" not in path and not path.startswith("file:")), None)
    if bare is not None and not settings.is_local_default:
        raise UnsupportedError(
            f"{bare!r} has no scheme: to Spark it lies on {settings.default_fs} (fs.defaultFS), and to Python on this "
            "machine; write it as a URL, such as s3a://bucket/path or file:///path"
        )
