"""The exceptions that the library raises on purpose, one family under `ParquetBloomError`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from parquet_bloom.results import names_text


def without_secrets(text: str) -> str:
    """Return a text, such as a URL, without the passwords, signatures and tokens of the URLs in it."""
    if "://" not in text:
        return text
    return _QUERIES.sub(lambda query: _SIGNED.sub(r"\1***", query[0]), _PASSWORD.sub(r"\1:***@", text))


_PASSWORD = re.compile(r"(?<=://)([^\s/:@?#]*):[^\s/?#]*@")
_QUERIES = re.compile(r"(?<=://)[^\s?]*\?\S*")
_SECRET = r"[\w-]*(?:signature|credential|token|secret|password|passwd|access_?key(?:_?id)?)|sig|key"
_SIGNED = re.compile(rf"([?&](?:{_SECRET})=)[^&\s#'\"]+", re.IGNORECASE)


def with_arguments(text: str, spelled: Mapping[str, str]) -> str:
    """Return a message with its arguments as a front spells them.

    Messages name an argument as Python spells it: `fpp=`, `force=True` or `at='folder'`. Nothing but the text says so,
    so that no name is lost on its way through rows, JSON or another process.

    >>> with_arguments("write copies, or change them with force=True", {"force": "--force"})
    'write copies, or change them with --force'
    """

    def respelled(found: re.Match[str]) -> str:
        has_value = text[found.end() : found.end() + 1] == "'"
        return f"{spelled[found[1]]}{' ' * has_value}" if found[1] in spelled else found[0]

    return ARGUMENT.sub(respelled, text)


ARGUMENT = re.compile(r"(?<![^\s(])([a-z_]+)=(?:True)?(?![^\s,;.:)'])")


class ParquetBloomError(Exception):
    """Root of every error that this library raises on purpose. All of them can be pickled.

    Passwords in URLs do not get into their messages.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(without_secrets(one) if isinstance(one, str) else one for one in arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


class CorruptFileError(ParquetBloomError, ValueError):
    """The bytes are not what the Parquet format says they must be.

    `path` names the file and `offset` the byte position in it, where they are known.
    """

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        super().__init__(message)

    def __str__(self) -> str:
        at = f" (at byte {self.offset:,})" if self.offset is not None else ""
        return without_secrets(f"{self.path}: {self.message}{at}" if self.path else f"{self.message}{at}")


class NotParquetError(CorruptFileError):
    """The file does not end in a Parquet footer."""


class UnsupportedError(ParquetBloomError, NotImplementedError):
    """The request is understood and refused, because it cannot be done right."""


class ColumnNotFoundError(ParquetBloomError, LookupError):
    """No leaf column has this path; the message has the `advice`, or names the closest ones."""

    def __init__(
        self, name: str, candidates: Iterable[str], *, where: str = "the file", advice: str | None = None
    ) -> None:
        self.name = name
        names = list(candidates)
        close = _alike(name, names)
        found = f"did you mean {' or '.join(close)}?" if close else f"columns: {names_text(names)}"
        super().__init__(f"{where} has no leaf column {name!r}; {advice or found}")


class KeyColumnError(ColumnNotFoundError, TypeError):
    """Keys came as a table of several columns, or none, and it is not clear which of them has the keys."""


class IndexNotFoundError(ParquetBloomError, FileNotFoundError):
    """There is no index of bloom filters beside the data that was named."""


class LiteralError(ParquetBloomError, ValueError):
    """A literal has a type that the column cannot be compared with."""


class PredicateError(ParquetBloomError, ValueError):
    """A condition cannot be parsed; `position` is the offending character's index where it is known."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


class FilterExistsError(ParquetBloomError, ValueError):
    """Something that a write would have to replace is there already."""


class StoreError(ParquetBloomError, OSError):
    """A store, or the library that talks to it, failed or refused; the message has the path and what the store said."""


class ConcurrentChangeError(ParquetBloomError, OSError):
    """The file changed, or another writer holds it, between reading it and writing it."""


def _alike(name: str, names: list[str]) -> list[str]:
    """Return the names of the columns in a group of this name, or those that are spelled about the same."""
    folded = name.casefold()
    if below := [other for other in names if other.casefold().startswith(f"{folded}.")]:
        return below[:3]
    spelled = {other.casefold(): other for other in reversed(names)}
    for other in names:  # a group is as good as its first column
        parts = other.casefold().split(".")
        for end in range(1, len(parts)):
            spelled.setdefault(".".join(parts[:end]), other)
    close = difflib.get_close_matches(folded, spelled, n=3, cutoff=0.5)
    return list(dict.fromkeys(spelled[one] for one in close))


def _restored(kind: type[ParquetBloomError], args: tuple[Any, ...], state: dict[str, Any]) -> ParquetBloomError:
    """Return an error as it was, without composing its message again."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def describe_error(error: Exception) -> str:
    """Return an error as one line for a result: the file's name is beside it anyway."""
    if isinstance(error, CorruptFileError):
        return str(CorruptFileError(error.message, offset=error.offset))
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return without_secrets(str(error)) or type(error).__name__


def not_found(message: str) -> FileNotFoundError:
    """Return an error for a path that names nothing, without the passwords in it."""
    return FileNotFoundError(without_secrets(message))
