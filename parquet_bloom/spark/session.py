"""What is asked of a Spark session, classic or Connect: its settings, its size, its jobs; and starting one."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.parallel import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED = (
    "Spark needs Java 17 or later, and none was found: install a JDK (apt install openjdk-17-jre-headless, "
    "brew install openjdk@17) or set JAVA_HOME"
)
PYSPARK_NEEDED = "this needs PySpark: pip install 'parquet-bloom[spark]'"
EXECUTORS_NEED = "the executors' Python has no parquet_bloom of this version: install it there, or set PYSPARK_PYTHON to one that has it"

_POLL_SECONDS = 0.2


def start(master: str | None = None, *, name: str = "parquet-bloom") -> SparkSession:
    """Return the running session, or a new one on `master` (default: what `spark-submit` says, else `local[*]`).

    Raises `UnsupportedError`, with what to install, where there is no PySpark or no Java.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedError(PYSPARK_NEEDED) from error
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    elif "SPARK_ENV_LOADED" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers' is whatever `python3` is
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise UnsupportedError(JAVA_NEEDED) from error
        raise


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect, which has no JVM at hand."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@dataclass(frozen=True, slots=True)
class Settings:
    """What of a session's configuration decides how a condition is understood."""

    timezone: str
    case_sensitive: bool

    @classmethod
    def of(cls, spark: SparkSession) -> Settings:
        """Return the settings as they are now."""
        case_sensitive = setting(spark, "spark.sql.caseSensitive", "false")
        return cls(setting(spark, "spark.sql.session.timeZone", "UTC"), case_sensitive == "true")


def setting(spark: SparkSession, key: str, default: str = "") -> str:
    """Return a setting of the session, truth values in lower case; `default` where it has none or does not know it."""
    value = spark.conf.get(key, None)  # any other default would have to be a valid value
    if value is None or value == "<undefined>":
        return default
    return value.lower() if value.lower() in ("true", "false") else value


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at once, as far as can be told."""
    if is_connect(spark):
        return int(setting(spark, "spark.default.parallelism") or setting(spark, "spark.sql.shuffle.partitions", "8"))
    return max(1, int(spark.sparkContext.defaultParallelism))


@contextlib.contextmanager
def job(spark: SparkSession, description: str, progress: Progress | None = None) -> Iterator[None]:
    """Run what is in the block as jobs with a description in Spark's UI; leaving it by an error cancels them.

    `progress` is told of finished tasks.
    """
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    group = f"parquet-bloom-{uuid.uuid4()}"
    keys = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {key: context.getLocalProperty(key) for key in keys}
    context.setJobGroup(group, description)
    try:
        with _told(context, group, progress):
            yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)


@contextlib.contextmanager
def _told(context: Any, group: str, progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    stop = threading.Event()

    def poll() -> None:
        tracker = context.statusTracker()
        while not stop.wait(_POLL_SECONDS):
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(number) for found in jobs if found for number in found.stageIds]
            total = sum(stage.numTasks for stage in stages if stage)
            if total:
                progress(sum(stage.numCompletedTasks for stage in stages if stage), total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
