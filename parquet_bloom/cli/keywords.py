"""What the library's keywords are called on the command line, so that its errors can be read there."""

from __future__ import annotations

import re

OPTIONS = {
    "accept_hazards": "--accept-hazards",
    "advice": "--advise",
    "all": "--all",
    "allow_large": "--allow-large",
    "allow_outside": "--allow-outside",
    "allow_unencrypted": "--allow-unencrypted",
    "any_name": "--any-name",
    "as_of": "--as-of",
    "at": "--at",
    "auto": "--auto",
    "catalog": "--catalog",
    "certificate": "--certificate",
    "columns": "--column",
    "decryption": "--keys-file",
    "dialect": "--dialect",
    "exact": "--exact",
    "follow_links": "--follow-links",
    "force": "--force",
    "fpp": "--fpp",
    "in_place": "--in-place",
    "index": "--index",
    "keys": "--keys",
    "ledger": "--ledger",
    "max_bytes": "--max-bytes",
    "max_commits_per_minute": "--max-commits-per-minute",
    "max_expected_fpp": "--max-expected-fpp",
    "ndv": "--ndv",
    "output": "-o",
    "policy": "--policy",
    "price": "--price",
    "queries": "--queries",
    "readers": "--readers",
    "request": "--request",
    "restore": "--restore",
    "storage_options": "--storage-option",
    "table": "--table",
    "timezone": "--timezone",
    "verification": "--verify",
    "where": "--where",
}

_KEYWORD = re.compile(rf"(?<![^\s(])({'|'.join(OPTIONS)})=(?:True)?(?=[\s,;.:)]|$)")


def as_options(text: str) -> str:
    """Return what the library says with its keywords as options; a folder such as `/table=x` is none.

    >>> as_options("write copies with output=, or change them with force=True")
    'write copies with -o, or change them with --force'
    """
    return _KEYWORD.sub(lambda found: OPTIONS[found[1]], text)
