"""Spark sessions with the jars of table formats, from the folder that `PARQUET_BLOOM_TABLES` names.

No PySpark fits all formats: the folder holds one of 4.1 for Delta and Iceberg and one of 3.5 for Hudi and Paimon, and
a process has one of them. `.ci/tables` fills the folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JARS = os.environ.get("PARQUET_BLOOM_TABLES")

_SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.hadoop.fs.file.impl.disable.cache": "true",
    "spark.ui.showConsoleProgress": "false",
    # A condition is asked once: to compile it takes longer than to interpret it.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_LAKEHOUSE = {
    # Row groups of some hundred rows, with filters.
    "spark.hadoop.parquet.block.size": "8192",
    "spark.hadoop.parquet.page.size.row.check.min": "50",
    "spark.hadoop.parquet.block.size.row.check.min": "50",
    "spark.hadoop.parquet.bloom.filter.enabled": "true",
    "spark.hadoop.parquet.bloom.filter.max.bytes": "512",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.dir": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.dir.type": "hadoop",
    "spark.sql.catalog.dir.warehouse": "{work}/dir",
    "spark.sql.catalog.db": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.db.type": "jdbc",
    "spark.sql.catalog.db.uri": "jdbc:sqlite:{work}/catalog.db",
    "spark.sql.catalog.db.jdbc.schema-version": "V1",
    "spark.sql.catalog.db.warehouse": "file://{work}/db",
    "spark.sql.catalog.db.cache-enabled": "false",
    "spark.sql.catalog.dir.cache-enabled": "false",
}

_SESSION = {  # where `snapshot` finds Spark's own tables, and `migrate` turns them into Iceberg's
    "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
    "spark.sql.catalog.spark_catalog.type": "jdbc",
    "spark.sql.catalog.spark_catalog.uri": "jdbc:sqlite:{work}/catalog.db",
    "spark.sql.catalog.spark_catalog.jdbc.schema-version": "V1",
    "spark.sql.catalog.spark_catalog.warehouse": "file://{work}/session",
    "spark.sql.catalog.spark_catalog.cache-enabled": "false",
}

_HUDI = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}

_PAIMON = {
    "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
    "spark.sql.catalog.paimon.warehouse": "file:{work}/paimon",
}

_JARS = (
    "delta-spark_4.1_2.13-4.3.1",
    "delta-storage-4.3.1",
    "iceberg-spark-runtime-4.1_2.13-1.11.0",
    "sqlite-jdbc-3.50.3.0",
)

_FORMATS = {
    "Delta and Iceberg": ("4.1", _LAKEHOUSE, _JARS),
    "Iceberg": ("4.1", _LAKEHOUSE | _SESSION, _JARS),
    "Hudi": ("3.5", _HUDI, ("hudi-spark3.5-bundle_2.12-1.1.1",)),
    "Hudi 1.2": ("3.5", _HUDI, ("hudi-spark3.5-bundle_2.12-1.2.0",)),
    "Hudi 0.15": ("3.5", _HUDI, ("hudi-spark3.5-bundle_2.12-0.15.0",)),
    "Paimon": ("3.5", _PAIMON, ("paimon-spark-3.5-0.9.0",)),
}
"""For each the PySpark, its settings and the jars, which `.ci/tables` fetches; other versions may lie beside them."""


def session(formats: str, work: Path) -> Any:
    """Return a session with the jars of some formats; its tables lie below `work`."""
    version, own, names = _FORMATS[formats]
    sys.path.insert(0, f"{JARS}/pyspark-{version}")
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"  # of the timestamps that `collect` returns
    time.tzset()
    import pyspark
    from pyspark.sql import SparkSession

    assert pyspark.__version__.startswith(version), "a process has one PySpark"
    jars = [f"{JARS}/{name}.jar" for name in names]
    settings = _SMALL | {key: value.format(work=work) for key, value in own.items()}
    settings |= {"spark.jars": ",".join(jars), "spark.sql.warehouse.dir": f"{work}/warehouse"}
    settings["spark.driver.extraJavaOptions"] = f"-Dderby.system.home={work} -Duser.timezone=UTC"
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    return spark


@contextmanager
def running(formats: str, work: Path) -> Iterator[Any]:
    """Yield such a session, and stop it."""
    spark = session(formats, work)
    try:
        yield spark
    finally:
        spark.stop()
