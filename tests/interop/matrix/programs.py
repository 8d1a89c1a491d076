"""The libraries of other languages: a program of ours in that language, asked in lines of JSON."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from interop.matrix.sql import NotTried, NoWay, Question
from kinds import ROW_GROUP_ROWS, footer_of

from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import plain_value

HERE = Path(__file__).parent
OPTIONS = ["-Dlog4j2.level=OFF", "-XX:TieredStopAtLevel=1", "--add-modules", "jdk.incubator.vector", "-cp"]


class Program:
    """A program that answers each line with a line: the rows, and what it read for them, or an error."""

    counts = "row_groups"

    def __init__(self, name: str, version: str, command: list[str]) -> None:
        self.name, self.version, self.command = name, version, command
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        if not self.process or self.process.poll() is not None:
            self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, it lives as long as the program
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
            )
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(request, default=str), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(f"the program ended: {self.errors.read().strip()}")
        answer = json.loads(line)
        if "not tried" in answer:
            raise NotTried(answer["not tried"])
        if "no way" in answer:
            raise NoWay(answer["no way"])
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def answer(self, question: Question) -> dict[str, Any]:
        values = [{"file": place.file, "row": place.row} for place in question.values]
        return self.ask(do="find", file=question.file, leaf=question.leaf, values=values)

    def find(self, question: Question) -> list[int]:
        return sorted(self.answer(question)["rows"])

    def count(self, question: Question) -> int:
        return self.answer(question)["read"]

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.errors.close()


class Writer(Program):
    """One that writes filters, too."""

    def write(self, source: Path, output: Path) -> None:
        self.ask(do="write", file=source, output=output)


class Library(Writer):
    """One that checks a value in a filter, and has no conditions."""

    def answer(self, question: Question) -> dict[str, Any]:
        (place,) = question.values
        return self.ask(do="find", file=question.file, leaf=question.leaf, source=place.file, row=place.row)


class Hyparquet(Program):
    counts = "bytes"


class Trino(Program):
    """Chooses row groups; the rows that they hold are known."""

    widens = True

    def answer(self, question: Question) -> dict[str, Any]:
        if question.path in ("l", "m", "n"):
            raise NoWay("Trino passes on conditions on columns and fields of structs")
        values = [plain_values(place.file, question.leaf)[place.row] for place in question.values]
        plain = [value.hex() for value in values]
        wanted = question.widened.sql if question.widened else ""
        groups = self.ask(file=question.file, leaf=question.leaf, plain=plain, type=wanted)["groups"]
        left = [k for start in groups for k in range(start, start + ROW_GROUP_ROWS)]
        held = plain_values(question.file, question.leaf)
        return {"rows": [k for k in left if held[k] in values], "read": len(groups)}


@functools.cache
def plain_values(path: Path, leaf: str) -> list[bytes]:
    """Returns the values of a column as they are stored."""
    (source,), footer = find(path), footer_of(path)
    chunks = ((group, column) for group, column, _ in footer.chunks() if column.name == leaf)
    arrays = (array for chunk in chunks for array in ColumnChunks(source, footer).values(*chunk))
    return [
        bytes([array[i].as_py()]) if array.type == pa.bool_() else plain_value(array, i)
        for array in arrays
        for i in range(len(array))
    ]


def programs(folder: Path) -> dict[str, Program]:
    """Returns the programs that `.ci/interop` has built in its folder."""
    java_25 = os.environ.get("JAVA_25", "java")
    import pyspark

    jars = Path(pyspark.__file__).with_name("jars")
    made = [
        Hyparquet(
            "hyparquet", pinned("hyparquet/package.json", '"hyparquet": "'), ["node", str(folder / "js/hyparquet.mjs")]
        ),
        Library("arrow-rs", pinned("arrow_rs/Cargo.toml", 'parquet = { version = "='), [str(folder / "arrow-rs")]),
        Library("parquet-go", pinned("parquet_go/go.mod", "parquet-go/parquet-go v"), [str(folder / "parquet-go")]),
        Library("arrow-go", pinned("arrow_go/go.mod", "arrow-go/v18 v"), [str(folder / "arrow-go")]),
        Writer(
            "parquet-java", of_jar(jars, "parquet-hadoop"), ["java", *OPTIONS, f"{jars}/*:{folder}/java", "ParquetJava"]
        ),
        Trino(
            "Trino",
            of_jar(folder / "trino", "trino-parquet"),
            [java_25, *OPTIONS, f"{folder}/trino/*:{folder}/trino", "TrinoParquet"],
        ),
    ]
    return {program.name: program for program in made}


def pinned(file: str, before: str) -> str:
    """Returns the version that a file of dependencies names."""
    (found,) = re.findall(re.escape(before) + r"([\d.]+)", (HERE / file).read_text("utf-8"))
    return found


def of_jar(folder: Path, name: str) -> str:
    """Returns the version in the name of a jar."""
    (jar,) = folder.glob(f"{name}-[0-9]*.jar")
    return jar.stem.removeprefix(f"{name}-")


def pins() -> dict[str, str]:
    """Returns the version of each engine that the files of dependencies name."""
    lines = (HERE / "requirements.txt").read_text("utf-8").split()
    python = {
        f"{package}, PyPI": version for package, _, version in (line.partition("==") for line in lines) if version
    }
    others = {
        "parquet, crates.io": pinned("arrow_rs/Cargo.toml", 'parquet = { version = "='),
        "github.com/parquet-go/parquet-go": pinned("parquet_go/go.mod", "parquet-go/parquet-go v"),
        "github.com/apache/arrow-go/v18": pinned("arrow_go/go.mod", "arrow-go/v18 v"),
        "hyparquet, npm": pinned("hyparquet/package.json", '"hyparquet": "'),
        "io.trino:trino-parquet, Maven": pinned(
            "java/trino.xml", "<artifactId>trino-parquet</artifactId>\n      <version>"
        ),
    }
    return python | others
