"""What every verb's result can do: become plain data, JSON or an Arrow table."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
"""Of the dictionaries; a field that changes its meaning or goes raises it, a new field does not."""


class Record:
    """A frozen dataclass that can be shown as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data: tuples are lists, numbers that JSON lacks are None."""
        assert dataclasses.is_dataclass(self)
        plain = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"schema_version": SCHEMA_VERSION, **plain}


class Table:
    """A result that is rows; `rows` are records of one class."""

    if TYPE_CHECKING:

        @property
        def rows(self) -> tuple[Record, ...]: ...  # noqa: D102

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row's `to_dict()`."""
        return [row.to_dict() for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist([row.to_dict() for row in self.rows])


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
