"""The schemas of a Hudi table whose columns keep their ids while their names change (schema on read).

    .hoodie/.schema/<instant>.schemacommit                 JSON, in timeline layout 1
    .hoodie/.schema/<requested>_<completed>.schemacommit   in layout 2

Each holds all versions of the schema that there were until then: `version_id` is the instant that made it, or 0, and
`fields` have ids, at every depth. A commit has its own version in its metadata, too (`latest_schema`). Of a data file,
the schema is the newest version that is not newer than its instant.

A reader with `hoodie.schema.on.read.enable` takes columns out of files by their ids, one without by their names. So a
column of a file proves something only where both are the same: it has had one name, one id and one type in all versions
since the file was written. `History.unlike` names the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_COMMIT = re.compile(r"(\d+)(_\d+)?\.schemacommit")


def newest_commits(names: Iterable[str], is_committed: Callable[[str], bool]) -> list[str]:
    """Return the files of a `.schema` folder to read: the newest that was committed, and what is newer.

    What is newer may be of a writer that died, or of one that is about to commit.
    """
    commits = sorted((int(match[1]), match[1], name) for name in names if (match := _COMMIT.fullmatch(name)))
    wanted = []
    for _, instant, name in reversed(commits):
        wanted.append(name)
        if is_committed(instant):
            break
    return wanted


class History:
    """All versions of a table's schema; those that were not committed may count or not."""

    def __init__(self, texts: Iterable[str | bytes], is_committed: Callable[[str], bool]) -> None:
        versions: dict[int, list[dict[str, Any]]] = {}
        for text in texts:
            parsed = json.loads(text)
            for schema in parsed.get("schemas", [parsed]):
                fields = {field["name"]: _plain(field) for field in schema["fields"]}
                versions.setdefault(int(schema["version_id"]), []).append(fields)
        self._versions = sorted(versions.items(), key=lambda version: version[0])
        self._committed = [number for number in versions if number == 0 or is_committed(str(number))]
        self._known: dict[int, frozenset[str]] = {}

    def unlike(self, instant: str) -> frozenset[str]:
        """Return the top-level columns that have changed since an instant wrote, under all of their names."""
        since = max((number for number in self._committed if number <= int(instant)), default=0)
        if since not in self._known:
            self._known[since] = _unlike(
                [fields for number, some in self._versions if number >= since for fields in some]
            )
        return self._known[since]


def _unlike(schemas: Sequence[dict[str, Any]]) -> frozenset[str]:
    names = {name for fields in schemas for name in fields}
    first = schemas[0] if schemas else {}
    return frozenset(name for name in names if any(fields.get(name) != first.get(name) for fields in schemas))


def _plain(node: Any, key: str = "") -> Any:
    """Return a field without what does not affect values; a 32-bit column has the same integers in 64 bits."""
    match node:
        case dict():
            return {name: _plain(value, name) for name, value in node.items() if name not in _ASIDE}
        case list():
            return [_plain(value, key) for value in node]
        case "int" if key != "name":
            return "long"
    return node


_ASIDE = ("doc", "optional", "element_optional", "value_optional")
