"""Files of a directory that turn out not to be Parquet: noticed by their footers, counted and named."""

from __future__ import annotations

from collections.abc import Iterable

from parquet_bloom.errors import NotParquetError
from parquet_bloom.format.footer import ENCRYPTED_MAGIC, MAGIC, Plan
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.results import names_text
from parquet_bloom.storage.drive import changes, drive, is_still_there
from parquet_bloom.storage.listing import LOG, Source


class Strays:
    """The files of a directory that are not Parquet: files with unfamiliar names whose ends were read."""

    def __init__(self) -> None:
        self._found: dict[Source, None] = {}

    def take(self, source: Source, outcome: object) -> bool:
        """Note whether a file is one of them, by the result of reading it, and return that."""
        is_stray = source.is_unfamiliar and isinstance(outcome, NotParquetError) and _is_as_listed(source)
        if is_stray:
            self._found[source] = None
        return is_stray

    def __contains__(self, source: Source) -> bool:
        return bool(self._found) and source in self._found  # hashing a source is not for nothing

    def __len__(self) -> int:
        return len(self._found)

    def rest(self, sources: Iterable[Source], *, warns: bool = True) -> list[Source]:
        """Return the other files, and warn of these if `warns`; raises `FileNotFoundError` if there are none."""
        others = [source for source in sources if source not in self] if self._found else list(sources)
        if self._found:
            names = [source.name for source in self._found]
            told = names_text(names, _TOLD)
            if not others:
                raise FileNotFoundError(f"there is no Parquet file among {told}")
            verb = "file is not Parquet and was" if len(names) == 1 else "files are not Parquet and were"
            if warns:
                LOG.warning("%d %s skipped: %s", len(names), verb, told)
        return others


def _is_as_listed(source: Source) -> bool:
    """Return whether a file is unchanged: if it has grown, what was read is no longer its end."""
    return is_still_there(source) if source.is_local else not changes([source])


_TOLD = 5


def parquet_only(sources: Iterable[Source]) -> list[Source]:
    """Return the files without those that are not Parquet, and warn about these.

    For callers who do not read the ends of files anyway: it takes a small request for each unfamiliar name.
    """
    listed = list(sources)
    return strays_among(listed).rest(listed)


def strays_among(sources: Iterable[Source]) -> Strays:
    """Return which of the files are not Parquet, by a small request for each unfamiliar name."""
    strays = Strays()
    for source, outcome in drive((source, _read_magic(source.size)) for source in sources if source.is_unfamiliar):
        strays.take(source, outcome)
    return strays


def _read_magic(size: int) -> Plan[None]:
    if size >= 12:
        (end,) = yield [ByteRange(size - 4, size)]
        if end in (MAGIC, ENCRYPTED_MAGIC):
            return
    raise NotParquetError("not a whole Parquet file: it does not end in PAR1")
