"""delta-spark writes to tables while others do: a program of its own, for a PySpark that the tests' is not.

    python delta_writer.py <folder of PySpark and jars> <root> <steps>

It makes one table for each kind in the root and the file `ready`, then appends, deletes, updates and optimizes, and
makes the file `over`. `done.json` has for each table the rows that must be there and are, and what happened how often.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

KINDS = {
    "plain": ("", ""),
    "clustering": ("CLUSTER BY (id)", ""),
    "in_commit": ("", "'delta.enableInCommitTimestamps'='true'"),
    "iceberg": ("", "'delta.columnMapping.mode'='name','delta.enableIcebergCompatV2'='true'"),
}
FILES, ROWS = 8, 20


def session(folder: Path) -> Any:
    sys.path.insert(0, str(folder / "pyspark-4.1"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    jars = [*folder.glob("delta-spark_4.1_2.13-*.jar"), *folder.glob("delta-storage-4.3*.jar")]
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
    }
    return SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()


class Table:
    """A table, and the ids and values that it must have."""

    def __init__(self, spark: Any, root: Path, name: str) -> None:
        self.spark, self.name = spark, f"delta.`{root / name}`"
        self.rows = dict.fromkeys(range(FILES * ROWS), 0)
        self.did: Counter[str] = Counter()
        clause, properties = KINDS[name]
        listed = f"TBLPROPERTIES ({properties})" if properties else ""
        spark.sql(f"CREATE TABLE {self.name} (id bigint, v int) USING delta {clause} {listed}")
        for first in range(0, FILES * ROWS, ROWS):
            spark.sql(f"INSERT INTO {self.name} SELECT id, 0 FROM range({first}, {first + ROWS}, 1, 1)")

    def step(self, rng: random.Random, number: int) -> None:
        """Does one thing to the table, or nothing, where another writer was in the way."""
        first = 1000 + 10 * number
        gone = rng.randrange(FILES * ROWS)
        what = rng.choice(["append", "append", "delete", "update", "optimize"])
        statement, rows = {
            "append": (f"INSERT INTO {{}} SELECT id, 1 FROM range({first}, {first + 5}, 1, 1)",
                       self.rows | dict.fromkeys(range(first, first + 5), 1)),
            "delete": (f"DELETE FROM {{}} WHERE id BETWEEN {gone} AND {gone + 2}",
                       {key: v for key, v in self.rows.items() if not gone <= key <= gone + 2}),
            "update": (f"UPDATE {{}} SET v = {number} WHERE id BETWEEN {gone} AND {gone + 2}",
                       {key: number if gone <= key <= gone + 2 else v for key, v in self.rows.items()}),
            "optimize": ("OPTIMIZE {}", self.rows),
        }[what]  # fmt: skip
        try:
            self.spark.sql(statement.format(self.name)).collect()
        except Exception as error:
            if "DELTA_CONCURRENT" not in str(error):
                raise
            self.did[f"{what} in vain"] += 1
        else:
            self.rows = rows
            self.did[what] += 1

    def result(self) -> dict[str, Any]:
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        found = sorted([row.id, row.v] for row in self.spark.sql(f"SELECT * FROM {self.name}").collect())
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").collect()
        swaps = sum("parquet-bloom" in (row.userMetadata or "") for row in history)
        return {"wanted": sorted(self.rows.items()), "found": found, "did": self.did, "swaps": swaps}


def main(folder: Path, root: Path, steps: int) -> None:
    spark = session(folder)
    tables = {name: Table(spark, root, name) for name in KINDS}
    (root / "ready").touch()
    rng = random.Random(7)
    for number in range(steps):
        for table in tables.values():
            table.step(rng, number)
    (root / "over").touch()
    input()  # until the other writers have ended
    (root / "done.json").write_text(json.dumps({name: table.result() for name, table in tables.items()}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
