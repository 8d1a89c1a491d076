"""The ledger of an erasure: for each key which rows went from where, and which earlier versions still have them.

    what is intended -> "begun" -> files change -> they are searched -> "complete", or "incomplete"

It is written before the first file changes, and again at the end: a run that was killed leaves a ledger that says what
it had begun, and the repeat continues it. A key is written as its HMAC-SHA256 by a secret of the caller's, which is
written nowhere: who has the secret and a key can tell that it was erased, and who has only the ledger learns no key.

The digest is the SHA-256 of all else in the ledger as JSON, with sorted names and without spaces. The seal is the
digest's HMAC-SHA256 by the secret: without that nobody can write another ledger that fits.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, get_args

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.results import Record, Table, arrow_schema, count_text, from_row
from parquet_bloom.storage.listing import PathLike
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.reading_keys import read_keys

SECRET = "PARQUET_BLOOM_LEDGER_SECRET"
"""The environment variable with the secret."""

LEAST_SECRET = 16
"""Bytes of a secret: a short one is guessed, and then all keys that can be guessed."""

HASHED, PLAIN = "HMAC-SHA256", "plain"
"""What a ledger says of how it has the keys."""

LedgerKeys = Literal["hmac", "plain"]

LedgerStatus = Literal["begun", "erased", "rewritten", "gone", "nowhere", "not known", "refused", "not proved", "stale"]
"""What a row says of its key and file."""

LedgerOutcome = Literal["begun", "complete", "incomplete"]
"""What came of the run."""

LedgerProof = Literal["passed", "failed", "not done"]
"""What came of the search at the end."""

FAILED = ("refused", "not proved", "stale")
"""What a row says of a file that may still have keys."""


@dataclass(frozen=True, slots=True, repr=False)
class LedgerRow(Record):
    """What became of a key in one file, or of a file; `file` is None for a key that no file had.

    `status` is one of these:

    - `begun`: the run was to erase these rows, and whether it did is not known;
    - `erased`: the rows left the file;
    - `rewritten`: without a key: the file was written again, but no row with a key was in it;
    - `gone`: an earlier run that did not end was to erase these rows, and the file has none now;
    - `nowhere`: no file has the key;
    - `not known`: no file that was searched has the key, but some were refused;
    - `refused`: the file was not changed, or not searched, for this `reason`; with a key, it has rows with that;
    - `not proved`: without a key: the search at the end failed, or found a key;
    - `stale`: without a key: an index that could not be refreshed, and still tells of keys.

    `rows_erased` also counts rows that the table had already deleted, but whose bytes were still in the file.
    `held_by` are the versions of the table that still have rows with the key, or the file, as numbers or ranges of
    them. `where` is the condition on partitions to which the search was restricted.
    """

    key: str | None = None
    file: str | None = None
    rows_erased: int = 0
    version_before: int | None = None
    version_after: int | None = None
    time: str = ""
    held_by: tuple[str, ...] = ()
    expire_with: str | None = None
    where: str | None = None
    status: LedgerStatus = "erased"
    reason: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class LedgerHeader(Record):
    """What a ledger says of the whole run.

    `outcome` is `complete` if every file was searched at the end and none has a key, `incomplete` if one was refused or
    not proved, and `begun` until the run has ended. `kind` is `files`, or the table's. `algorithm` is `HMAC-SHA256`, or
    `plain`. `proof` is what the search at the end said. `files_searched` have none of the keys. `runs` counts the runs
    that wrote the ledger: more than one if it was continued. `held_by` are the earlier versions that still have rows
    with keys, until `expire_with` removes these.
    """

    outcome: LedgerOutcome
    written_by: str
    request: str | None
    kind: str
    paths: tuple[str, ...]
    column: str
    where: str | None
    timezone: str | None
    algorithm: str
    began: str
    ended: str | None
    runs: int
    version_before: int | None
    version_after: int | None
    held_by: tuple[str, ...]
    expire_with: str | None
    num_keys: int
    keys_nowhere: int
    keys_not_known: int
    files_failed: int
    proof: LedgerProof
    files_searched: tuple[str, ...]
    notes: tuple[str, ...]


def still_held(versions: Sequence[str], until: str | None) -> str:
    """Return the sentence that says which versions, as numbers or ranges, still have rows, and what removes these."""
    named = ", ".join(versions[:_NAMED]) + (f" and {len(versions) - _NAMED:,} more" if len(versions) > _NAMED else "")
    is_one = len(versions) == 1 and "-" not in versions[0]
    return f"{f'version {named} still holds' if is_one else f'versions {named} still hold'} the rows until {until}"


_NAMED = 5


# ---- written ledgers ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrittenLedger:
    """A ledger as its file has it; `header`, `digest` and `seal` are None in those of older versions.

    `computed` is the digest of what the file says now.
    """

    path: Path
    header: LedgerHeader | None
    rows: tuple[LedgerRow, ...]
    digest: str | None
    seal: str | None
    computed: str

    def is_sealed_by(self, secret: bytes) -> bool:
        """Return whether the ledger was written with this secret."""
        return self.seal == _seal(secret, self.computed)


def read_ledger(path: PathLike) -> WrittenLedger:
    """Return a ledger, whether or not its digest is right; raises `CorruptFileError` for a file that is not one."""
    import pyarrow as pa

    target = Path(path).expanduser()
    data = target.read_bytes()
    try:
        said = _in_json(data) if target.suffix == ".json" else _in_parquet(data)
        digest, seal = (said.pop(name, None) for name in ("digest", "seal"))
        header = _header(said) if "outcome" in said else None
        rows = tuple(_rows(said["rows"], is_old=header is None))
        return WrittenLedger(target, header, rows, digest, seal, _digest(said))
    except (*_DAMAGE, pa.ArrowException) as error:
        raise CorruptFileError(f"{target} is not a ledger, or is damaged") from error


_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _in_json(data: bytes) -> dict[str, Any]:
    return {**json.loads(data, object_pairs_hook=_unique)}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises `ValueError` for a name that is there twice, since people read the first one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _in_parquet(data: bytes) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(data))
    header = (table.schema.metadata or {}).get(_ENTRY, b"{}")
    return {**json.loads(header), "rows": table.to_pylist()}


_ENTRY = b"parquet-bloom.ledger"
"""The entry of a Parquet ledger's key-value metadata with all that a JSON ledger has beside its rows."""


def _header(said: dict[str, Any]) -> LedgerHeader:
    (row,) = _typed(LedgerHeader, [said])
    if any(value is None and name not in _MAY_BE_NONE for name, value in row.items()):
        raise ValueError("a field is missing")
    return from_row(LedgerHeader, row)


_MAY_BE_NONE = ("request", "where", "timezone", "ended", "version_before", "version_after", "expire_with")


def _rows(said: list[dict[str, Any]], *, is_old: bool) -> Iterator[LedgerRow]:
    for was, row in zip(said, _typed(LedgerRow, said), strict=True):
        if not was.keys() >= {"key", "file", "rows_erased"}:
            raise ValueError("a field is missing")
        if is_old:
            row["status"] = "nowhere" if row["file"] is None else "erased"
        if row["status"] not in get_args(LedgerStatus):
            raise ValueError("a status is not one of ours")
        yield LedgerRow(**{**row, "held_by": tuple(row["held_by"] or ())})


def _typed(record: type[Record], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with all fields of a record; raises an error of Arrow's for a value of another type."""
    import pyarrow as pa

    typed: list[dict[str, Any]] = pa.Table.from_pylist(rows, arrow_schema(record)).to_pylist()
    return typed


def _digest(said: Mapping[str, Any]) -> str:
    """Return the digest of all that a ledger says but for itself."""
    return f"sha256:{hashlib.sha256(json.dumps(said, sort_keys=True, separators=(',', ':')).encode()).hexdigest()}"


def _seal(secret: bytes, digest: str) -> str:
    return f"hmac-sha256:{hmac.new(secret, f'parquet_bloom ledger {digest}'.encode(), hashlib.sha256).hexdigest()}"


def write_ledger(
    file: BinaryIO, path: Path, header: LedgerHeader, rows: Sequence[LedgerRow], secret: bytes | None
) -> None:
    """Write a ledger as JSON, a line for each field and each row, or as Parquet, as its name says."""
    said: dict[str, Any] = {**header.to_dict(), "rows": [_plain(row) for row in rows]}
    digest = _digest(said)
    said |= {"digest": digest, "seal": None if secret is None else _seal(secret, digest)}
    if path.suffix == ".json":
        file.write(_as_json(said).encode())
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(said.pop("rows"), arrow_schema(LedgerRow))
    with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_ENTRY: json.dumps(said)})


def _plain(row: LedgerRow) -> dict[str, Any]:
    """Return a row's fields, which are plain already: there may be a million rows."""
    return {name: getattr(row, name) for name in LedgerRow.__slots__} | {"held_by": [*row.held_by]}


def _as_json(said: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return json.dumps(value)
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"

    return "{\n " + ",\n ".join(f"{json.dumps(name)}: {text(value)}" for name, value in said.items()) + "\n}\n"


# ---- keys and secrets --------------------------------------------------------------------


def secret_of(given: str | bytes | None) -> bytes:
    """Return the secret that is given, or else that of the environment; raises `ValueError` if there is none."""
    given = os.environ.get(SECRET) if given is None else given
    if not given:
        raise ValueError(f"a ledger needs ledger_secret=, or the environment variable {SECRET}")
    secret = given.encode() if isinstance(given, str) else given
    if len(secret) < LEAST_SECRET:
        raise ValueError(f"the secret of a ledger must have at least {LEAST_SECRET} bytes")
    return secret


def key_names(keys: Keys, secret: bytes | None) -> list[str]:
    """Return the keys as a ledger has them: their HMACs, or without a secret themselves."""
    texts = (_bytes(keys, number) for number in range(len(keys)))
    if secret is None:
        return [text.decode("utf-8", "backslashreplace") for text in texts]
    return [hmac.new(secret, text, hashlib.sha256).hexdigest() for text in texts]


def _bytes(keys: Keys, number: int) -> bytes:
    """Return a key as the bytes that its HMAC is of: its text in UTF-8; binary keys as they are."""
    import pyarrow as pa

    shown, of = keys.shown[number], pa.types
    if of.is_binary(shown.type) or of.is_large_binary(shown.type) or of.is_fixed_size_binary(shown.type):
        return bytes(shown.as_py())
    return literal_text(shown).encode()


# ---- checking ----------------------------------------------------------------------------

KeyStatus = Literal["erased", "nowhere", "refused", "not known", "not in the ledger"]
"""What a ledger says of a key."""


@dataclass(frozen=True, slots=True, repr=False)
class LedgerCheck(Table):
    """What a ledger says, and whether that can be believed: `findings` are what speaks against it.

    `header` is None for a ledger of an older version. With a key, `rows` are its rows and those of files that were
    refused or not proved, and `key_status` is `erased`, `nowhere`, `refused`, `not known` or `not in the ledger`.
    Of a ledger that was changed nothing is repeated: it has no header and no rows. `notes` say what was not checked.
    """

    TRUTH: ClassVar[str] = ".findings"

    path: str
    rows: tuple[LedgerRow, ...]
    header: LedgerHeader | None = None
    digest: str | None = None
    key_status: KeyStatus | None = None
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        """The findings."""
        return self.findings


def check_ledger(path: PathLike, key: Any = None, *, ledger_secret: str | bytes | None = None) -> LedgerCheck:
    """Return what the ledger of an erasure says, after proving that it says what was written.

    Its digest is computed again, and with the secret its seal as well, which nobody else can compute.

    Args:
        path: The ledger, which `erase` wrote.
        key: A key, spelled as it was for `erase`: was it erased, and from which files? Bytes may be text such as
            `0x00ff`.
        ledger_secret: That of the ledger; by default that of the environment variable `PARQUET_BLOOM_LEDGER_SECRET`.
            A key's HMAC cannot be looked for without it.

    Returns:
        A `LedgerCheck`: its rows. `.findings` is empty if the ledger is as it was written and complete, and has the
        key as `erased` or `nowhere`.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptFileError: It is not a ledger.
        ValueError: A secret is needed, or is too short.

    Examples:
        >>> erased = parquet_bloom.erase("events", "id", [7], ledger="erased.json", ledger_keys="plain")
        >>> checked = parquet_bloom.check_ledger("erased.json", 7)
        >>> checked.key_status, checked.findings
        ('erased', ())
        >>> [row.rows_erased for row in checked]
        [1]
    """
    written = read_ledger(path)
    header, findings, notes = written.header, [], []
    if written.digest is None:
        findings.append("no digest: it was written by an older version, or the digest was taken out")
    elif written.digest != written.computed:
        findings.append(
            f"it was changed after it was written: its digest is {written.digest}, and not {written.computed}"
        )
    if findings and (header is not None or written.digest is not None):
        return LedgerCheck(str(written.path), (), findings=tuple(findings))
    secret = None
    if _is_hashed(written):
        secret = secret_of(ledger_secret) if key is not None or ledger_secret or os.environ.get(SECRET) else None
        if secret is None:
            notes.append("the seal was not checked: that needs the secret")
        elif header is not None and not written.is_sealed_by(secret):
            findings.append("the secret is not the one it was written with, or it was changed by somebody without that")
            return LedgerCheck(str(written.path), (), findings=tuple(findings))
    if header is not None and header.outcome != "complete":
        findings.append(_UNFINISHED if header.outcome == "begun" else _incomplete(header))
    rows, status = written.rows, None
    if key is not None:
        names = {name for one in _spellings(key) for name in key_names(read_keys([one], ""), secret)}
        found = [row for row in rows if row.key in names]
        status = _key_status(found)
        rows = (*found, *(row for row in rows if row.key is None and row.status in FAILED))
        if status not in ("erased", "nowhere"):
            findings.append(f"the key is {status}")
    return LedgerCheck(
        str(written.path),
        rows,
        header,
        written.digest,
        status,
        tuple(findings),
        (*notes, *(header.notes if header else ())),
    )


_UNFINISHED = "the run did not end, and which files it changed is not known: run it again with the same ledger"


def _incomplete(header: LedgerHeader) -> str:
    return f"incomplete: {count_text(header.files_failed, 'file')} may still have rows with the keys"


def _is_hashed(written: WrittenLedger) -> bool:
    if written.header is not None:
        return written.header.algorithm != PLAIN
    return all(re.fullmatch("[0-9a-f]{64}", row.key or "") for row in written.rows)


def _spellings(key: Any) -> list[Any]:
    """Return a key, and if it is text that spells bytes, these too."""
    if isinstance(key, str) and re.fullmatch("0x(?:[0-9a-fA-F]{2})*", key):
        return [key, bytes.fromhex(key[2:])]
    return [key]


def _key_status(rows: Sequence[LedgerRow]) -> KeyStatus:
    found = {row.status for row in rows}
    if not found:
        return "not in the ledger"
    if "refused" in found:
        return "refused"
    if found & {"begun", "not known"}:
        return "not known"
    return "nowhere" if found == {"nowhere"} else "erased"


__all__ = [
    "FAILED",
    "HASHED",
    "PLAIN",
    "KeyStatus",
    "LedgerCheck",
    "LedgerHeader",
    "LedgerKeys",
    "LedgerOutcome",
    "LedgerProof",
    "LedgerRow",
    "LedgerStatus",
    "WrittenLedger",
    "check_ledger",
    "key_names",
    "read_ledger",
    "secret_of",
    "write_ledger",
]
