"""The ledger of an erasure: for each key which rows went from where, and which earlier versions still have them.

A key is written as its HMAC-SHA256 by a secret of the caller's, which is written nowhere: who has the secret and a key
can tell that it was erased, and who has only the ledger learns no key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.results import SCHEMA_VERSION, Record
from parquet_bloom.storage.local_files import new_file
from parquet_bloom.values.arrays import PlainKeys
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.verbs.erase_files import ErasePlan, erased_values
from parquet_bloom.verbs.keys import Keys, stored_keys

SECRET = "PARQUET_BLOOM_LEDGER_SECRET"
"""The environment variable with the secret."""

LEAST_SECRET = 16
"""Bytes of a secret: a short one is guessed, and then all keys that can be guessed."""

LedgerKeys = Literal["hmac", "plain"]


@dataclass(frozen=True, slots=True, repr=False)
class LedgerRow(Record):
    """What became of a key in one file; `file` is None, and no row erased, for a key that no file had.

    `rows_erased` also counts rows that the table had already deleted, but whose bytes were still in the file.
    `held_by` are the earlier versions of the table that still have rows with the key, as numbers or ranges of them.
    `where` is the condition on partitions to which the search was restricted.
    """

    key: str
    file: str | None
    rows_erased: int
    version_before: int | None
    version_after: int | None
    time: str
    held_by: tuple[str, ...] = ()
    expire_with: str | None = None
    where: str | None = None


@dataclass(slots=True)
class Ledger:
    """Collects what is erased, and is written at the end."""

    path: Path
    keys: Keys
    timezone: str | None
    names: Sequence[str]
    """The keys as the ledger has them."""
    erased: dict[str, Counter[int]] = field(default_factory=dict)
    """The rows of each key, by the key's index, that left each file."""
    _stored: dict[tuple[LeafColumn, int, int], PlainKeys] = field(default_factory=dict)

    def rows_with(self, plan: ErasePlan) -> Counter[int]:
        """Return how many rows of each key, by its index, are to leave the file of a plan."""
        import pyarrow.compute as pc

        assert plan.leaf is not None
        rows: Counter[int] = Counter()
        for array in erased_values(plan):
            for value in pc.value_counts(array):
                one = value["values"]
                for key in self._of_value(plan.leaf, array, one, 0, len(self.keys)):
                    rows[key] += value["counts"].as_py()
        return rows

    def _of_value(self, leaf: LeafColumn, like: Any, value: Any, start: int, stop: int) -> Iterator[int]:
        """Yield the indexes of the keys between two that are stored as a value: several may be spelled differently."""
        import pyarrow as pa

        if start == stop or not self._between(leaf, start, stop).found_in(pa.array([value], like.type)).true_count:
            return
        if stop - start == 1:
            yield start
            return
        middle = (start + stop) // 2
        yield from self._of_value(leaf, like, value, start, middle)
        yield from self._of_value(leaf, like, value, middle, stop)

    def _between(self, leaf: LeafColumn, start: int, stop: int) -> PlainKeys:
        if (leaf, start, stop) not in self._stored:
            literals = self.keys.literals[start:stop]
            part = replace(self.keys, shown=self.keys.shown.slice(start, stop - start), literals=literals)
            self._stored[leaf, start, stop] = stored_keys(leaf, part, self.timezone)
        return self._stored[leaf, start, stop]

    def rows(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        held_by: Sequence[tuple[int, frozenset[int]]] = (),
        expire_with: str | None = None,
        where: str | None = None,
    ) -> list[LedgerRow]:
        """Return the ledger; `held_by` has the earlier versions with the keys of which they have rows."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        files: dict[int, list[tuple[str, int]]] = {}
        for path, counts in self.erased.items():
            for key, rows in counts.items():
                files.setdefault(key, []).append((path, rows))
        versions: dict[int, list[int]] = {}
        for version, keys in held_by:
            for key in keys:
                versions.setdefault(key, []).append(version)
        return [
            LedgerRow(
                name,
                path,
                rows,
                before,
                after,
                time,
                tuple(_ranges(versions.get(key, ()))),
                expire_with if key in versions else None,
                where,
            )
            for key, name in enumerate(self.names)
            for path, rows in files.get(key, [(None, 0)])
        ]

    def write(self, rows: Sequence[LedgerRow]) -> None:
        """Write the ledger to its file, which must not exist."""
        with new_file(self.path) as file:
            if self.path.suffix == ".json":
                file.write(
                    json.dumps({"schema_version": SCHEMA_VERSION, "rows": [_plain(row) for row in rows]}).encode()
                )
            else:
                import pyarrow.parquet as pq

                pq.write_table(_table(rows), file)


def open_ledger(
    path: str | os.PathLike[str], keys: Keys, timezone: str | None, *, secret: str | bytes | None, written: LedgerKeys
) -> Ledger:
    """Return an empty ledger; raises what would keep it from being written, before anything is erased."""
    target = Path(path).expanduser()
    if target.suffix not in (".json", ".parquet"):
        raise ValueError(f"ledger= must end in .json or .parquet, not {os.fspath(path)}")
    if os.path.lexists(target):
        raise FileExistsError(f"{target} already exists; a ledger is not overwritten")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is not a directory")
    if written not in ("hmac", "plain"):
        raise ValueError(f"ledger_keys= must be 'hmac' or 'plain', not {written!r}")
    texts = (_bytes(keys, number) for number in range(len(keys)))
    if written == "plain":
        return Ledger(target, keys, timezone, [text.decode("utf-8", "backslashreplace") for text in texts])
    given = os.environ.get(SECRET) if secret is None else secret
    if not given:
        raise ValueError(f"a ledger needs ledger_secret=, or the environment variable {SECRET}")
    token = given.encode() if isinstance(given, str) else given
    if len(token) < LEAST_SECRET:
        raise ValueError(f"the secret of a ledger must have at least {LEAST_SECRET} bytes")
    return Ledger(target, keys, timezone, [hmac.new(token, text, hashlib.sha256).hexdigest() for text in texts])


def _bytes(keys: Keys, number: int) -> bytes:
    """Return a key as the bytes that its HMAC is of: its text in UTF-8; binary keys as they are."""
    import pyarrow as pa

    shown, of = keys.shown[number], pa.types
    if of.is_binary(shown.type) or of.is_large_binary(shown.type) or of.is_fixed_size_binary(shown.type):
        return bytes(shown.as_py())
    return literal_text(shown).encode()


def _ranges(versions: Iterable[int]) -> Iterator[str]:
    """Yield versions as text, those that follow each other as a range."""
    run: list[int] = []
    for version in sorted(versions):
        if run and version != run[-1] + 1:
            yield _range(run)
            run = []
        run.append(version)
    if run:
        yield _range(run)


def _range(run: Sequence[int]) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def _plain(row: LedgerRow) -> dict[str, Any]:
    return {name: value for name, value in row.to_dict().items() if name != "schema_version"}


def _table(rows: Sequence[LedgerRow]) -> Any:
    import pyarrow as pa

    from parquet_bloom.results import arrow_schema

    return pa.Table.from_pylist([_plain(row) for row in rows], arrow_schema(LedgerRow))


__all__ = ["SECRET", "Ledger", "LedgerKeys", "LedgerRow", "open_ledger"]
