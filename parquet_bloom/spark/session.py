"""A Spark session, classic or Connect: starting one, its settings, its cores and its jobs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED = (
    "Spark needs Java 17 or later, and none was found: install a JDK (apt install openjdk-17-jre-headless, "
    "brew install openjdk@17) or set JAVA_HOME"
)
JAVA_ENDED = (
    "Java ended before Spark was ready, and has said why; Spark needs Java 17 or later, and a master that it knows, "
    "such as local[4], spark://host:7077, yarn, k8s://host or sc://host"
)
PYSPARK_NEEDED = "this needs PySpark: pip install 'parquet-bloom[spark]'"
CONNECT_NEEDED = "Spark Connect needs more of PySpark: pip install 'pyspark[connect]', of the server's version"
EXECUTORS_NEED = (
    "install this version of parquet_bloom for the executors' Python too, or set PYSPARK_PYTHON to one that has it"
)

_T = TypeVar("_T")

_POLL_SECONDS = 0.2

_END_SECONDS = 15.0
"""How long cancelled tasks may take to end: Spark kills their Python after two seconds."""

_KILLED_SECONDS = 6.0
"""How long to wait for them with Connect, which does not report whether they have ended."""


def start(
    master: str | None = None, *, name: str = "parquet-bloom", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or a new one on `master` (default: what `spark-submit` says, else `local[*]`).

    A master such as sc://host:15002, or SPARK_REMOTE without one, is a server of Spark Connect. Raises
    `UnsupportedError`, with what to install, where there is no PySpark or no Java, and `ConnectionError` where no
    server answers.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedError(PYSPARK_NEEDED) from error
    remote = os.environ.get("SPARK_REMOTE", "") if master is None else master
    if remote.startswith("sc://"):
        _require_answer(remote)
        try:
            return SparkSession.builder.remote(remote).getOrCreate()
        except ImportError as error:
            raise UnsupportedError(CONNECT_NEEDED) from error
    builder = SparkSession.builder.appName(name).config(map=dict(settings or {}))
    if master is not None:
        builder = builder.master(master)
    elif "SPARK_ENV_LOADED" not in os.environ and not _has_gateway():
        builder = builder.master("local[*]")
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers' is whatever `python3` is
    if not _has_gateway() and not _has_java():  # seen here, or Spark's scripts would complain first
        raise UnsupportedError(JAVA_NEEDED)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise UnsupportedError(JAVA_ENDED) from error
        raise


def _require_answer(remote: str) -> None:
    """Raise if nothing listens: the client would retry for many minutes."""
    address = urlsplit(remote.partition(";")[0])
    try:
        socket.create_connection(
            (address.hostname or "", address.port or _CONNECT_PORT), timeout=_POLITE_SECONDS
        ).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(f"no Spark Connect server answers at {remote}: {error}") from error


_CONNECT_PORT = 15002
_POLITE_SECONDS = 10.0


def _has_gateway() -> bool:
    """Return whether `spark-submit` started this process and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None


def _active() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession()


@contextlib.contextmanager
def running(master: str | None = None) -> Iterator[SparkSession]:
    """Yield the running session, or else a new one that logs errors only and is stopped at the end."""
    if (active := _active()) is not None:
        yield active
        return
    spark = start(master, settings={"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"})
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def changed(spark: SparkSession, key: str, value: str | None) -> Iterator[None]:
    """Change a setting of the session inside the block; None changes nothing."""
    if value is None:
        yield
        return
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect, which has no JVM at hand."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class Settings:
    """A session's configuration as it was at one moment: what decides how a condition and the files are understood.

    It is read at once: each question to the JVM takes a tenth of a millisecond or more, and to a server longer.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._text, self._values = _all_set(spark)

    @property
    def identity(self) -> str | None:
        """What only settings that are all the same have; None if that is not known."""
        return self._text

    @property
    def is_connect(self) -> bool:
        """Whether the session is one of Spark Connect."""
        return is_connect(self._spark)

    @property
    def case_sensitive(self) -> bool:
        """Whether names must match exactly."""
        return self.is_on("spark.sql.caseSensitive")

    @cached_property
    def timezone(self) -> str:
        """The session's time zone; where it sets none, that of its JVM."""
        return self._set("spark.sql.session.timeZone") or str(self._spark.conf.get("spark.sql.session.timeZone"))

    @cached_property
    def default_fs(self) -> str:
        """The file system of paths without a scheme; where Connect hides it, this machine's."""
        if (given := self._set("fs.defaultFS") or self._set("spark.hadoop.fs.defaultFS")) or self.is_connect:
            return given or "file:///"
        return str(self._spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))

    @property
    def is_local_default(self) -> bool:
        """Whether a path without a scheme is one of this machine."""
        return self.default_fs.startswith("file:")

    def is_on(self, key: str, default: bool = False) -> bool:
        """Return a setting that is true or false."""
        return self.get(key, str(default).lower()) == "true"

    def get(self, key: str, default: str = "") -> str:
        """Return a setting, truth values in lower case; `default`, which must be Spark's own, where it is not set."""
        value = self._set(key)
        if value is None or value == "<undefined>":
            return default
        return value.lower() if value.lower() in ("true", "false") else value

    def _set(self, key: str) -> str | None:
        """Return the value that was given to a setting, under its name or a former one."""
        for name in (key, *_FORMER_NAMES.get(key, ())):
            value = self._spark.conf.get(name, None) if self._values is None else self._values.get(name)
            if value is not None:
                return value.strip()
        return None


_FORMER_NAMES = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("spark.sql.legacy.parquet.datetimeRebaseModeInRead",),
    "spark.sql.parquet.int96RebaseModeInRead": ("spark.sql.legacy.parquet.int96RebaseModeInRead",),
}
"""Settings that still go by another name, too."""

_BETWEEN = "\x1e"


def _all_set(spark: SparkSession) -> tuple[str | None, dict[str, str] | None]:
    """Return all that is set in a session, as text and by name; None where it cannot be had at once."""
    try:
        if is_connect(spark):
            return None, dict(spark.conf.getAll)
        text = str(spark.conf._jconf.getAll().mkString(_BETWEEN))
    except Exception:  # before PySpark 4, Connect has no `getAll`; and other versions may have other methods
        return None, None
    pairs = (entry.partition(" -> ") for entry in text.split(_BETWEEN))
    return text, {name: value for name, _, value in pairs}


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at once, as far as it is known."""
    if is_connect(spark):
        settings = Settings(spark)
        return int(settings.get("spark.default.parallelism") or settings.get("spark.sql.shuffle.partitions", "8"))
    return max(1, int(spark.sparkContext.defaultParallelism))


@contextlib.contextmanager
def job(spark: SparkSession, description: str, progress: Progress | None = None) -> Iterator[None]:
    """Run what is in the block as jobs with a description in Spark's UI; an error ends them, tasks and all.

    `progress` is told of finished tasks.
    """
    group = f"parquet-bloom-{uuid.uuid4()}"
    if is_connect(spark):
        with _tagged(spark, group):
            yield
        return
    context = spark.sparkContext
    keys = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {key: context.getLocalProperty(key) for key in keys}
    context.setJobGroup(group, description)
    try:
        with _told(context, group, progress):
            yield
    except BaseException:
        context.cancelJobGroup(group)
        _await_end(context, group)
        raise
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None takes it away


@contextlib.contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    spark.addTag(tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the server may be what is gone
            spark.interruptTag(tag)
        time.sleep(_KILLED_SECONDS)
        raise
    finally:
        spark.removeTag(tag)


def interruptibly(spark: SparkSession, call: Callable[[], _T]) -> _T:
    """Return the result of `call`, made on its own thread: an interrupt ends the wait, not a call to the JVM.

    Otherwise this thread's connection to the JVM would still wait for an answer, and could not cancel anything.
    """
    if is_connect(spark):
        return call()
    context = spark.sparkContext._jsc.sc()
    properties = context.getLocalProperties().clone()  # the job's group and description, and the user's

    def with_properties() -> _T:
        context.setLocalProperties(properties)
        return call()

    pool = ThreadPoolExecutor(1)
    try:
        future = pool.submit(with_properties)
        while not future.done():
            wait([future], timeout=0.5)  # a signal just before the wait is seen only after it
        return future.result()
    finally:
        pool.shutdown(wait=False)


def _stages(context: Any, group: str) -> list[Any]:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for found in jobs if found for number in found.stageIds]
    return [stage for stage in stages if stage]


def _await_end(context: Any, group: str) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline and any(stage.numActiveTasks for stage in _stages(context, group)):
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _told(context: Any, group: str, progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_POLL_SECONDS):
            stages = _stages(context, group)
            if total := sum(stage.numTasks for stage in stages):
                progress(sum(stage.numCompletedTasks for stage in stages), total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
