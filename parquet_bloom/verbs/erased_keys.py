"""Erased keys in the forms in which they may still be somewhere, to find them among values and in bytes.

    typed    values of the column, as its pages, statistics and bounds store them
    whole    a value of text, JSON or Avro that is the key
    within   bytes that contain the key: its text, escaped, percent-encoded, in base64 or in hexadecimal digits

A key of a few characters is in every file by chance, so it is only looked for where a value is one of the column, and
as a word of its own in text. Of a ledger with hashed keys only whole values can be compared.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote_to_bytes

from parquet_bloom.errors import CorruptFileError, LiteralError
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.values.arrays import numbers_as_arrow, plain_value
from parquet_bloom.values.encoding import decode_plain
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.erase_ledger import key_names

if TYPE_CHECKING:
    import pyarrow as pa

LEAST = 6
"""Characters of a key that is looked for within other bytes; a shorter one is there by chance."""

LEAST_CUT = 8
"""Characters of a bound that counts as the beginning of a key."""


class Wanted(Protocol):
    """Erased keys; each method returns the numbers of those that it finds."""

    names: Sequence[str]
    """What the result calls them."""
    searches_text: bool
    """Whether they can be found within other bytes."""
    short: frozenset[int]
    """Those that are too short for it."""

    def learn(self, leaf: LeafColumn) -> None:
        """Note how a leaf stores the keys. Raises what comparing them raises."""

    def learn_forms(self, leaf: LeafColumn) -> None:
        """Learn a leaf of the column, and how its values are written elsewhere; not while others search."""

    def in_array(self, leaf: LeafColumn, values: pa.Array) -> set[int]:
        """Find keys among the values of a leaf that was learned, as pages store them."""

    def equal(self, value: object) -> set[int]:
        """Find the keys that are this value, or its text."""

    def within(self, cells: Iterable[bytes], *, apart: bool = True) -> set[int]:
        """Find long keys in bytes, be they encoded; with `apart` not as a part of a longer word."""

    def as_words(self, text: bytes) -> set[int]:
        """Find short keys that are words of a text."""

    def cut(self, bound: object) -> str | None:
        """Return the beginning that a bound of text shares with a key that it may be cut from."""


class ClearKeys:
    """Keys that the caller has."""

    searches_text = True

    def __init__(self, keys: Keys, timezone: str | None) -> None:
        self._keys, self._timezone = keys, timezone
        self.names: Sequence[str] = key_names(keys, None)
        raw = [_raw(*both) for both in zip(keys.shown, self.names, strict=True)]
        self.short = frozenset(number for number, one in enumerate(raw) if len(one) < LEAST)
        self._stored: dict[LeafColumn, KeySet] = {}
        self._whole: dict[object, set[int]] = {}
        self._needles: dict[bytes, tuple[int, bool]] = {}
        self._prefixes: Any = None
        for number, one in enumerate(raw):
            self._note(number, one)
            self._note(number, self.names[number])
        self._sorted = sorted(self.names)

    def learn(self, leaf: LeafColumn) -> None:
        """Note how a leaf stores the keys. Raises what comparing them raises."""
        if leaf not in self._stored:
            self._stored[leaf] = self._keys.stored_in(leaf, self._timezone, exactly=True)

    def learn_forms(self, leaf: LeafColumn) -> None:
        """Learn a leaf of the column, and how its values are written elsewhere; not while others search."""
        if leaf in self._stored:
            return
        self.learn(leaf)
        stored = self._stored[leaf].exact
        for at, number in enumerate(stored.owners):
            plain = plain_value(stored.values, at)
            if len(plain.replace(b"\0", b"")) >= _TELLING and number not in self.short:
                self._needles.setdefault(plain, (number, False))
            for form in forms_of(decode_plain(leaf, plain)):
                self._note(number, form)

    def _note(self, number: int, form: object) -> None:
        self._whole.setdefault(form, set()).add(number)
        if number in self.short or not isinstance(form, str | bytes) or len(form) < LEAST:
            return
        for needle, is_word in _needles(form):
            self._needles.setdefault(needle, (number, is_word))

    def in_array(self, leaf: LeafColumn, values: pa.Array) -> set[int]:
        """Find keys among the values of a leaf that was learned, as pages store them."""
        return set(chain.from_iterable(self._stored[leaf].owners_of(values.unique())))

    def equal(self, value: object) -> set[int]:
        """Find the keys that are this value, or its text."""
        return {number for form in forms_of(value) for number in self._whole.get(form, ())}

    def within(self, cells: Iterable[bytes], *, apart: bool = True) -> set[int]:
        """Find long keys in bytes, be they encoded; with `apart` not as a part of a longer word."""
        data = b"\0".join(cells)
        found = set(self._search(data, apart))
        for _ in range(_MOST_ENCODED if b"%" in data else 0):  # a log encodes a path that has encoded values
            decoded = unquote_to_bytes(data)
            if decoded == data:
                break
            data = decoded
            found |= set(self._search(data, apart))
        return found

    def _search(self, data: bytes, apart: bool) -> Iterator[int]:
        if not self._needles:
            return
        for needle, at in self._places(data):
            number, is_word = self._needles[needle]
            if not (apart and is_word) or _is_apart(data, at, at + len(needle)):
                yield number

    def _places(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the needles in the data, and where; many are looked for at once, by their first four bytes."""
        if len(self._needles) <= _FEW:
            for needle in self._needles:
                at = data.find(needle)
                while at >= 0:
                    yield needle, at
                    at = data.find(needle, at + 1)
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._prefixes is None:
            by_start: dict[bytes, list[bytes]] = {}
            for needle in self._needles:
                by_start.setdefault(needle[:4], []).append(needle)
            starts = b"".join(by_start)
            self._prefixes = by_start, numbers_as_arrow(starts, pa.uint32())
        by_start, wanted = self._prefixes
        for shift in range(4):
            part = data[shift : len(data) - (len(data) - shift) % 4]
            words = numbers_as_arrow(part, pa.uint32())
            for place in pc.indices_nonzero(pc.is_in(words, wanted)).to_pylist():
                at = 4 * place + shift
                for needle in by_start[data[at : at + 4]]:
                    if data.startswith(needle, at):
                        yield needle, at

    def as_words(self, text: bytes) -> set[int]:
        """Find short keys that are words of a text."""
        return {number for number in self.short if _word(self.names[number]).search(text)}

    def cut(self, bound: object) -> str | None:
        """Return the beginning that a bound of text shares with a key that it may be cut from."""
        text = bound.decode("utf-8", "ignore") if isinstance(bound, bytes) else bound
        if not isinstance(text, str):
            return None
        for start in (text, text[:-1]):  # the last character of an upper bound is one more, or above all
            at = bisect_left(self._sorted, start)
            if len(start) >= LEAST_CUT and at < len(self._sorted) and self._sorted[at].startswith(start):
                return start
        return None


def _raw(key: Any, name: str) -> bytes:
    """Return a key as bytes, as its HMAC is of."""
    import pyarrow.types as kinds

    is_binary = any(
        is_kind(key.type) for is_kind in (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary)
    )
    return bytes(key.as_py()) if is_binary else name.encode("utf-8", "surrogateescape")


_FEW, _MOST_ENCODED, _TELLING = 64, 3, 4


class HashedKeys:
    """Keys of a ledger, as their HMAC-SHA256 by a secret."""

    searches_text = False

    def __init__(self, hashes: Iterable[str], token: bytes) -> None:
        self._token = token
        self.names: Sequence[str] = list(dict.fromkeys(hashes))
        self.short: frozenset[int] = frozenset()
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def learn(self, leaf: LeafColumn) -> None:
        """Do nothing: every value is hashed as it comes."""

    learn_forms = learn

    def in_array(self, leaf: LeafColumn, values: pa.Array) -> set[int]:
        """Find keys among the values of a leaf, as pages store them."""
        unique = values.unique().drop_null()
        found: set[int] = set()
        for at in range(len(unique)):
            found |= self.equal(decode_plain(leaf, plain_value(unique, at)))
        return found

    def equal(self, value: object) -> set[int]:
        """Find the keys that are this value, or its text."""
        texts = {form if isinstance(form, bytes) else str(form).encode() for form in forms_of(value)}
        hashed = (hmac.new(self._token, text, hashlib.sha256).hexdigest() for text in texts)
        return {self._numbers[one] for one in hashed if one in self._numbers}

    def within(self, cells: Iterable[bytes], *, apart: bool = True) -> set[int]:
        """Find the keys that are whole cells."""
        return {number for cell in set(cells) for number in self.equal(cell)}

    def as_words(self, text: bytes) -> set[int]:
        """Return nothing: no word is hashed."""
        return set()

    def cut(self, bound: object) -> str | None:
        """Return None: what a hashed key begins with is not known."""
        return None


# ---- forms -------------------------------------------------------------------------------


def forms_of(value: object) -> set[object]:
    """Return what a value may be written as: itself, and texts."""
    match value:
        case bool():
            return {str(value).lower()}
        case bytes():
            return {value, value.decode("utf-8", "backslashreplace")}
        case datetime():
            return {value, *_times(value)}
        case date():
            return {value, value.isoformat()}
        case Decimal():
            return {value, str(value), f"{value:f}"}
        case str():
            return {value, *_parsed(value)}
    return {value, str(value)}


def _times(value: datetime) -> Iterator[object]:
    """Yield how a time is written: statistics of Delta have whole milliseconds, of an upper bound the next one."""
    below = value.replace(microsecond=value.microsecond // 1000 * 1000)
    for each in {value, below, below + timedelta(milliseconds=1) if below != value else below}:
        text = each.isoformat()
        yield from (text, text.replace("T", " "), text.replace("+00:00", "Z"), str(each))
        yield each


def _parsed(text: str) -> Iterator[object]:
    if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:", text, re.ASCII):
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            return
        yield time.astimezone(UTC) if time.tzinfo else time


def _needles(form: str | bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes that show a key, and whether they are a word that a longer one may contain."""
    raw = form.encode("utf-8", "surrogateescape") if isinstance(form, str) else form
    yield raw, True
    if isinstance(form, str):
        for is_ascii in (True, False):
            yield json.dumps(form, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogateescape"), True
    yield raw.hex().encode(), True
    yield raw.hex().upper().encode(), True
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):  # three bytes are four digits, wherever in them the key begins
            stop = (before + len(raw)) // 3 * 3 - before
            digits = encode(bytes(before) + raw[:stop])[4 if before else 0 :]
            if len(digits) > LEAST:
                yield digits, False


def _is_apart(data: bytes, start: int, stop: int) -> bool:
    """Return whether what stands between is not a part of a longer word, or a number one of a longer number."""
    goes_on = _is_digit if data[start:stop].isdigit() else _is_word
    before = start > 0 and goes_on(data[start - 1]) and goes_on(data[start])
    behind = stop < len(data) and goes_on(data[stop]) and goes_on(data[stop - 1])
    return not (before or behind)


def _is_word(byte: int) -> bool:
    return byte >= 128 or chr(byte).isalnum()


def _is_digit(byte: int) -> bool:
    return 48 <= byte < 58


@lru_cache(maxsize=1024)
def _word(key: str) -> re.Pattern[bytes]:
    """Return what matches a short key as a word; Spark's SQL has a letter behind a number, for its type."""
    letter = rb"(?:[LSYDF]|BD)?" if re.fullmatch(r"-?[\d.]+", key) else b""
    return re.compile(rb"(?<![\w.-])" + re.escape(key.encode()) + letter + rb"(?![\w-]|\.\w)")


def may_learn(wanted: Wanted, leaf: LeafColumn) -> bool:
    """Return whether a leaf can hold the keys, after noting how."""
    try:
        wanted.learn(leaf)
    except (LiteralError, CorruptFileError, NotImplementedError):
        return False
    return True


__all__ = ["LEAST", "ClearKeys", "HashedKeys", "Wanted", "forms_of", "may_learn"]
