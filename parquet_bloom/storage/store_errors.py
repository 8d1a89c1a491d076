"""Errors of stores and their libraries, as errors of ours that name the path.

Every library below fsspec has a family of errors of its own (botocore's, aiohttp's, paramiko's ...), and a misspelt
option is a bare TypeError. Every call to a store goes through `ask`, so none of them reaches the user.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from parquet_bloom.errors import ParquetBloomError, StoreError, without_secrets

_P = ParamSpec("_P")
_R = TypeVar("_R")

_AS_THEY_ARE = (
    *(ParquetBloomError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError),
    *(ImportError, ValueError, NotImplementedError, MemoryError, RecursionError),
)
"""Errors that callers handle, or whose message is complete."""

_GONE = (404, 410)


def ask(name: str, call: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
    """Return what a call of a store returns; what it raises is an `OSError` that begins with `name`, the user's path.

    Errors that callers go by, such as `FileNotFoundError`, and those of this machine's own disks stay as they are.
    """
    try:
        return call(*arguments, **options)
    except _AS_THEY_ARE:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise store_error(error, name) from error


def store_error(error: Exception, name: str) -> OSError:
    """Return a store's error as one that names the path and has the store's message and error code."""
    kind = type(error)
    text = f"{name}: {code_of(error) or kind.__name__}: {_text(error)}"
    if isinstance(error, TypeError) and "unexpected keyword argument" in text:
        option = re.search(r"argument '(\w+)'", text)
        text = f"{name}: the store has no option {option[1] if option else ''!r}; correct the storage options"
    is_builtin = isinstance(error, OSError) and getattr(builtins, kind.__name__, None) is kind and kind is not OSError
    return kind(without_secrets(text)) if is_builtin else StoreError(text)  # type: ignore[return-value]


def code_of(error: BaseException) -> str | None:
    """Return the error code of an S3-like store, such as ExpiredToken or 403; None for other errors."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for cause in causes:
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", "")) or None
    return None


def is_absence(error: FileNotFoundError) -> bool:
    """Return whether a store said that nothing is there; some libraries report every failure as that."""
    cause = error.__cause__
    if cause is None or isinstance(cause, FileNotFoundError) or hasattr(cause, "response"):
        return True
    return getattr(cause, "status", None) in _GONE


def _text(error: Exception) -> str:
    try:
        said = str(error)
    except Exception:  # some errors cannot even be shown
        said = ""
    return " ".join(said.split()) or "no details"
