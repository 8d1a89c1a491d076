"""Hive partitions: the constants in a file's directories, such as `day=2024-01-01/`.

Below a directory that was named, every engine takes them for partitions. Of the others, DuckDB takes all, pyarrow those
of files that are named one by one, and Spark none: then the column is what the file has of it, NULL if nothing. So
those exclude rows only where neither reading matches.

A directory's text has no type; engines infer one, each by its own rules, and some leave the text as it is. So a
constant is compared as text and as every type that it could be inferred as, and it excludes rows only where no reading
matches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from parquet_bloom.format.schema import ColumnPath

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The directory value that means NULL."""

PARTITION = "it is a partition column: files do not store it, and prune takes its values from the partitions"
"""The advice to users who name it as a column of a file."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The directories of one file that are constants: (name, text), as they are written; a name may come twice.

    `directories` are partitions to every engine. The others are so to some only: those that a glob found, or of a file
    that was named directly (`perhaps`), and those `above` what was named, which make no column known. They `are_sure`
    where it is a table that has them for its files, whatever the folders are called.
    """

    directories: tuple[tuple[str, str], ...] = ()
    perhaps: tuple[tuple[str, str], ...] = ()
    above: tuple[tuple[str, str], ...] = ()
    are_sure: bool = field(default=False, repr=False)

    @property
    def constants(self) -> dict[str, str | None]:
        """The constants by name, decoded, None for NULL; without those above what was named."""
        constants: dict[str, str | None] = {}
        for name, text in (*self.perhaps, *self.directories):
            constants.setdefault(unquote(name), None if text == NULL_NAME else unquote(text))
        return constants

    def named(self, path: ColumnPath, *, case_sensitive: bool) -> list[str]:
        """Return every text that an engine may read as the constant of this column; none if it is not a partition."""
        return _named(self.directories, path, case_sensitive)

    def perhaps_named(self, path: ColumnPath, *, case_sensitive: bool) -> tuple[list[str], bool]:
        """Return the same for directories that only some engines read as partitions, and whether all lie above."""
        inside = _named(self.perhaps, path, case_sensitive)
        return inside + _named(self.above, path, case_sensitive), not inside


def _named(directories: tuple[tuple[str, str], ...], path: ColumnPath, case_sensitive: bool) -> list[str]:
    """Return the texts of the directories that have the column's name.

    DuckDB and pyarrow decode percent signs as UTF-8, Spark each byte as Latin-1, ClickHouse does not decode them.
    """
    if len(path) != 1 or not directories:
        return []
    wanted = path[0] if case_sensitive else path[0].casefold()
    texts: list[str] = []
    for raw_name, raw_text in directories:
        names = unquote(raw_name), _latin(raw_name)
        if wanted in (names if case_sensitive else map(str.casefold, names)):
            texts += dict.fromkeys((unquote(raw_text), _latin(raw_text), raw_text))
    return texts


def _latin(text: str) -> str:
    return unquote(text, encoding="latin-1")


def constant_partitions(values: Mapping[str, str | None], perhaps: tuple[tuple[str, str], ...] = ()) -> Partitions:
    """Return a table's constants for a file, as if they were in its directories.

    >>> constant_partitions({"city": "a=b", "day": None}).constants
    {'city': 'a=b', 'day': None}
    """
    directories = tuple((quote(n), NULL_NAME if v is None else quote(v, safe="")) for n, v in values.items())
    return Partitions(directories, perhaps, are_sure=True)


def partitions_of(path: str, *, named: int = 0, base: int = 0) -> Partitions:
    """Return the constants in the directories of `path`.

    What was named is its first `named` characters, and the directory below which all are partitions its first `base`.

    >>> partitions_of("lake/day=2024-01-01/city=a%3Db/part-0.parquet").constants
    {'day': '2024-01-01', 'city': 'a=b'}
    >>> partitions_of("a=1/b=2/c=3/part-0.parquet", named=3, base=7)
    Partitions(directories=(('c', '3'),), perhaps=(('b', '2'),), above=(('a', '1'),))
    """
    if "=" not in path:
        return _NONE
    sure: list[tuple[str, str]] = []
    perhaps: list[tuple[str, str]] = []
    above: list[tuple[str, str]] = []
    end = -1
    for part in path.replace("\\", "/").split("/")[:-1]:
        end += 1 + len(part)
        name, equals, text = part.partition("=")
        if equals and name:
            (above if end <= named else perhaps if end <= base else sure).append((name, text))
    return Partitions(tuple(sure), tuple(perhaps), tuple(above))


_NONE = Partitions()


_TYPED = re.compile(
    r"[+-]?(0[xX]|\d[\d_]*\.?[\d_]*([eE][+-]?\d+)?[dDfFlL]?$|\.\d|\d{1,7}[-/:]\d)"
    r"|[+-]?(nan|inf|infinity)$|(t|f|true|false|y|n|yes|no|on|off|epoch|now|today|yesterday|tomorrow)$",
    re.IGNORECASE,
)


def may_be_typed(text: str) -> bool:
    """Return whether some engine may read the text as a number, a date, a time or a boolean."""
    return _TYPED.match(text.strip()) is not None
