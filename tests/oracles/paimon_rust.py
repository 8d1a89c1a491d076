"""Has paimon-rust write tables of random rows whose columns all have bloom filters of random sizes, below a folder.

Prints, as JSON, for each table the `items` and `fpp` of each column.
"""

from __future__ import annotations

import json
import random
import sys

from pypaimon_rust.datafusion import SQLContext

COLUMNS = {
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "int": "INT",
    "big": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "text": "STRING",
    "bytes": "BYTES",
    "day": "DATE",
    "milli": "TIMESTAMP(3)",
    "micro": "TIMESTAMP(6)",
}
TABLES = 20


def literal(kind: str, rng: random.Random) -> str:
    if rng.random() < 0.08:
        return "NULL"
    if kind in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 63}[kind]
        return str(rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)))
    if kind in ("FLOAT", "DOUBLE"):
        return repr(rng.uniform(-1e6, 1e6))
    if kind == "STRING":
        return "'" + "".join(rng.choice("abé派😀 ") for _ in range(rng.randrange(40))) + "'"
    if kind == "BYTES":
        return f"X'{rng.randbytes(rng.randrange(20)).hex()}'"
    day = f"{rng.randrange(1940, 2040)}-0{rng.randrange(1, 10)}-{rng.randrange(10, 29)}"
    if kind == "DATE":
        return f"DATE '{day}'"
    digits = int(kind[-2])
    return f"TIMESTAMP '{day} 01:02:03.{rng.randrange(10**digits):0{digits}}'"


def main(folder: str) -> None:
    context = SQLContext()
    context.register_catalog("p", {"warehouse": folder})
    context.sql("CREATE SCHEMA p.d")
    rng = random.Random(9)
    sizes = {}
    for number in range(TABLES):
        name = f"t{number}"
        sizes[name] = {c: (rng.randint(1, 300), rng.choice([0.5, 0.1, 0.05, 0.01, 0.001])) for c in COLUMNS}
        options = {"file-index.bloom-filter.columns": ",".join(COLUMNS)}
        options["file-index.in-manifest-threshold"] = rng.choice(["1 b", "100 kb"])
        for column, (items, fpp) in sizes[name].items():
            options[f"file-index.bloom-filter.{column}.items"] = str(items)
            options[f"file-index.bloom-filter.{column}.fpp"] = str(fpp)
        columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
        settings = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        context.sql(f"CREATE TABLE p.d.{name} ({columns}) WITH ({settings})")
        for _ in range(2):
            rows = [", ".join(literal(kind, rng) for kind in COLUMNS.values()) for _ in range(rng.randint(1, 200))]
            context.sql(f"INSERT INTO p.d.{name} VALUES {', '.join(f'({row})' for row in rows)}")
    print(json.dumps(sizes))


if __name__ == "__main__":
    main(sys.argv[1])
