"""The statements for bloom filter indexes that users of Databricks know, with a path where they have a table's name.

    CREATE BLOOMFILTER INDEX ON [TABLE] path FOR COLUMNS (column [OPTIONS (…)], …) [OPTIONS (…)]
    DROP BLOOMFILTER INDEX ON [TABLE] path [FOR COLUMNS (column, …)]

Options are `name [=] value`, with or without quotes; those of a column go before those of all. A path is bare, or in
quotes of any kind, also behind `parquet.` or `delta.`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeVar

from parquet_bloom.errors import PredicateError
from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.schema import format_path, parse_path
from parquet_bloom.storage.listing import PathLike, StorageOptions
from parquet_bloom.verbs import index
from parquet_bloom.verbs.index import IndexState
from parquet_bloom.verbs.parallel import Progress


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """`CREATE BLOOMFILTER INDEX`, with every column's options worked out."""

    path: str
    columns: tuple[IndexedColumn, ...]


@dataclass(frozen=True, slots=True)
class DropIndex:
    """`DROP BLOOMFILTER INDEX`; without columns the whole index is meant."""

    path: str
    columns: tuple[str, ...] | None = None


def execute(
    statement: str,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    storage_options: StorageOptions = None,
    decryption: Decryption | None = None,
    allow_unencrypted: bool = False,
    progress: Progress | None = None,
) -> IndexState:
    """Run `CREATE` or `DROP BLOOMFILTER INDEX`, and return the state of the index then.

    Args:
        statement: The statement, with a path where Databricks has a table's name.
        at: The folder of the index. By default it lies beside the directory.
        catalog: A catalog of pyiceberg's configuration; the statement then names an Iceberg table of it.
        allow_outside: Also read files that a table's metadata names outside of the table's directory.
        storage_options: Options for fsspec, such as credentials.
        decryption: Keys for encrypted files.
        allow_unencrypted: Also index encrypted files, although the index has filters of their values that are not
            encrypted.
        progress: Is called with how much is done and how much there is in all.

    Returns:
        An `IndexState`: a row for each column. `.errors` are the files that could not be indexed.

    Raises:
        PredicateError: The statement is not one of the two, or has an unknown option or a wrong value.
        FileNotFoundError: The path names nothing, or has no index to drop.
        ColumnNotFoundError: The data, or the index, has no such column.
        UnsupportedError: A column cannot be indexed.

    Examples:
        >>> state = parquet_bloom.execute("CREATE BLOOMFILTER INDEX ON 'events' FOR COLUMNS (user OPTIONS (fpp=0.05))")
        >>> [(row.column, row.fpp, row.files) for row in state]
        [('user', 0.05, 2)]
    """
    match parse(statement):
        case CreateIndex(path, columns):
            return index.create(
                path,
                columns,
                at=at,
                catalog=catalog,
                allow_outside=allow_outside,
                storage_options=storage_options,
                decryption=decryption,
                allow_unencrypted=allow_unencrypted,
                progress=progress,
            )
        case DropIndex(path, names):
            return index.drop(
                path, names, at=at, catalog=catalog, allow_outside=allow_outside, storage_options=storage_options
            )


def parse(statement: str) -> CreateIndex | DropIndex:
    """Return a parsed statement; raises `PredicateError`."""
    return _Parser(statement).statement()


# ---- options -----------------------------------------------------------------------------


class _Option(NamedTuple):
    """An option: the field of `IndexedColumn`, what parses its value, which values it takes, and those as text."""

    field: str
    of_text: Callable[[str], Any]
    takes: Callable[[Any], bool]
    values: str


_OPTIONS = {
    "fpp": _Option("fpp", float, lambda value: 0 < value <= 1, "a number above 0 and at most 1"),
    "numItems": _Option("ndv", int, lambda value: value >= 1, "a whole number of 1 or more"),
    "maxExpectedFpp": _Option(
        "max_expected_fpp", float, lambda value: 0 < value <= 1, "a number above 0 and at most 1"
    ),
}

# ---- text --------------------------------------------------------------------------------


class _Token(NamedTuple):
    """A piece of the statement: `kind` is "word", "quoted", "path" (bare) or the character itself, "" at the end."""

    kind: str
    text: str
    start: int


_SPACE = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[^\s()=,;'\"`]+")
_BARE_PATH = re.compile(r"(?:[^\s()'\"`;]|;(?!\s*$))+")
_COLUMN = re.compile(r"(?:[^\s()=,;'\"`]|`(?:[^`]|``)*`)+")
_QUOTED = {
    "`": re.compile(r"`((?:[^`]|``)*)`"),
    "'": re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]|""|\\.)*)"', re.DOTALL),
}
_FORMAT = re.compile(r"(?:parquet|delta)\.(?=`)", re.IGNORECASE)

_T = TypeVar("_T")


class _Parser:
    """Reads one statement from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def statement(self) -> CreateIndex | DropIndex:
        is_create = self._keyword("CREATE", "DROP") == "CREATE"
        for word in ("BLOOMFILTER", "INDEX", "ON"):
            self._keyword(word)
        path = self._path()
        result = self._create(path) if is_create else self._drop(path)
        if self._peek().kind == ";":
            self._next()
        if self._peek().kind:
            self._fail("the end of the statement")
        return result

    def _create(self, path: str) -> CreateIndex:
        self._keyword("FOR")
        self._keyword("COLUMNS")
        columns = self._list(lambda: (self._peek().start, self._column(), self._options()))
        of_all = self._options()
        names = [name for _, name, _ in columns]
        for number, (start, name, _) in enumerate(columns):
            if name in names[:number]:
                self._fail_at(start, f"there is more than one configuration for column {name}")
        return CreateIndex(path, tuple(IndexedColumn(name, **of_all | options) for _, name, options in columns))

    def _drop(self, path: str) -> DropIndex:
        if not self._is_word(self._peek(), "FOR"):
            return DropIndex(path)
        self._next()
        self._keyword("COLUMNS")
        return DropIndex(path, tuple(self._list(self._column)))

    # -- parts --

    def _path(self) -> str:
        before = self._at
        if self._is_word(self._peek(), "TABLE"):
            self._next()
            after = self._peek()
            if after.kind in ("", ";") or self._is_word(after, "FOR"):
                self._at = before  # a path that is called so
        self._skip()
        if match := _FORMAT.match(self._text, self._at):
            self._at = match.end()
        is_quoted = self._peek().kind == "quoted"
        return (self._next().text if is_quoted else self._take(_BARE_PATH)) or self._fail("a path")

    def _column(self) -> str:
        """Return the path of a column, as leaf columns are called."""
        self._skip()
        start = self._at
        text = self._take(_COLUMN) or self._fail("a column")
        try:
            return format_path(parse_path(text))
        except PredicateError as error:
            self._fail_at(start + (error.position or 0), f"{text!r} is not a column")

    def _options(self) -> dict[str, Any]:
        if not self._is_word(self._peek(), "OPTIONS"):
            return {}
        self._next()
        options: dict[str, Any] = {}
        for start, (field, value) in self._list(lambda: (self._peek().start, self._option())):
            if field in options:
                self._fail_at(start, "the option is given twice")
            options[field] = value
        return options

    def _option(self) -> tuple[str, Any]:
        name = self._next("word", "quoted", expected="an option")
        if self._peek().kind == "=":
            self._next()
        value = self._next("word", "quoted", expected=f"the value of {name.text}")
        known = {option.lower(): option for option in _OPTIONS}
        if name.text.lower() not in known:
            self._fail_at(name.start, f"{name.text!r} is not an option; use {', '.join(_OPTIONS)}")
        option = known[name.text.lower()]
        field, of_text, takes, values = _OPTIONS[option]
        try:
            parsed = of_text(value.text)
        except ValueError:
            parsed = None
        if parsed is None or not takes(parsed):
            self._fail_at(value.start, f"{option} must be {values}, not {value.text!r}")
        return field, parsed

    def _list(self, item: Callable[[], _T]) -> list[_T]:
        self._next("(", expected="'('")
        items = [item()]
        while self._next(",", ")", expected="',' or ')'").kind == ",":
            items.append(item())
        return items

    # -- tokens --

    def _keyword(self, *words: str) -> str:
        token = self._peek()
        if not self._is_word(token, *words):
            self._fail(" or ".join(words))
        self._next()
        return token.text.upper()

    @staticmethod
    def _is_word(token: _Token, *words: str) -> bool:
        return token.kind == "word" and token.text.upper() in words

    def _peek(self) -> _Token:
        before = self._at
        token = self._next()
        self._at = before
        return token

    def _next(self, *kinds: str, expected: str = "") -> _Token:
        self._skip()
        start = self._at
        char = self._text[start : start + 1]
        if char in _QUOTED:
            match = _QUOTED[char].match(self._text, start)
            if match is None:
                self._fail_at(start, f"the quote {char} is not closed")
            token = _Token("quoted", _unquoted(match[1], char), start)
            end = match.end()
        elif match := _WORD.match(self._text, start):
            token, end = _Token("word", match[0], start), match.end()
        else:
            token, end = _Token(char, char, start), start + len(char)
        if kinds and token.kind not in kinds:
            self._fail(expected)
        self._at = end
        return token

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[0]

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _fail(self, expected: str) -> NoReturn:
        self._skip()
        rest = self._text[self._at : self._at + 20].split("\n")[0]
        self._fail_at(self._at, f"expected {expected}, not {repr(rest) if rest else 'its end'}")

    def _fail_at(self, position: int, problem: str) -> NoReturn:
        raise PredicateError(f"the statement does not parse at character {position + 1}: {problem}", position=position)


def _unquoted(text: str, quote: str) -> str:
    text = text.replace(2 * quote, quote)
    return text if quote == "`" else re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
