"""Who reads the files: engines and their releases, as users name them, and so which hazards of filters count."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parquet_bloom.filters.engines import Hazard, known_engines

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

VARIABLE = "PARQUET_BLOOM_READERS"
"""The environment variable that names the readers where nothing else does."""

_OTHER_NAMES = {"delta-rs": "deltalake", "pyspark": "spark"}


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of files; by default anyone, with any release that is not too old.

    `named` has the releases of each engine. `accepts`: whatever they lose is no reason to do without filters.
    """

    named: Mapping[str, SpecifierSet] | None = None
    text: str = ""
    accepts: bool = field(default=False, kw_only=True)

    def lose_rows(self, hazard: Hazard) -> bool:
        """Return whether a column with this hazard is to have no filter.

        Where nobody is named, what depends on how a table reads the column, or on the file, is only told: `are_told`.
        """
        if self.accepts:
            return False
        if self.named is None:
            return hazard.is_recent and hazard.when in ("always", "other type")
        releases = self.named.get(hazard.engine)
        return releases is not None and any(map(hazard.concerns, _least(releases, hazard)))

    def are_told(self, hazard: Hazard) -> bool:
        """Return whether a hazard of filters that are written, or there already, is to be told."""
        return self.lose_rows(hazard) or (self.named is None and not self.accepts and hazard.is_recent)

    def why_none(self, hazards: Iterable[Hazard]) -> str | None:
        """Return why a column with these hazards gets no filter and what to do, or None."""
        losing = [hazard for hazard in hazards if self.lose_rows(hazard)]
        if not losing:
            return None
        mended = ",".join(f"{one.engine.lower()}>={one.mended}" for one in losing if one.mended)
        such = f", such as {mended}" if mended else ""
        name = "say who reads the files" if self.named is None else "name other releases"
        anyhow = "add it all the same with accept_hazards=True"
        return f"{'; '.join(map(str, losing))}; {name} with readers={such}, or {anyhow}"


ANYONE = Readers()


def readers_of(
    given: str | Sequence[str] | None = None, *, accept_hazards: bool = False, remembered: str | None = None
) -> Readers:
    """Return the readers that were given, or else `remembered`, or else named by the environment, or anyone.

    They are such as `duckdb>=2,datafusion>=55`. Raises `ValueError` for an engine of which no hazard is known, nor that
    there is none, and for what is no version.
    """
    text = ",".join([given] if isinstance(given, str) else given) if given is not None else remembered
    where = "readers=" if given is not None else f"the remembered readers {remembered!r}:"
    if text is None:
        text, where = os.environ.get(VARIABLE) or None, VARIABLE
    if text is None:
        return Readers(accepts=accept_hazards)
    try:
        named = _parsed(text)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None
    if not named:
        raise ValueError(f"{where} names no reader")
    return Readers(named, text.strip(), accepts=accept_hazards)


def _parsed(text: str) -> dict[str, SpecifierSet]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    named: dict[str, SpecifierSet] = {}
    engines = {engine.lower(): engine for engine in known_engines()}
    for part in filter(str.strip, re.split(r",(?=\s*[A-Za-z])", text)):
        name = re.match(r"\s*([\w-]*)", part)[1]  # type: ignore[index]
        lower = name.lower()
        engine = engines.get(_OTHER_NAMES.get(lower, lower))
        if engine is None:
            raise ValueError(f"does not know {name or part.strip()!r}; it knows {', '.join(sorted(engines))}")
        if engine in named:
            raise ValueError(f"has {name} twice")
        try:
            named[engine] = SpecifierSet(part.strip().removeprefix(name))
        except InvalidSpecifier:
            raise ValueError(f"cannot read {part.strip()!r}; write such as {lower}>=1.2 or {lower}==1.2.*") from None
    return named


def _least(releases: SpecifierSet, hazard: Hazard) -> Iterator[str]:
    """Yield releases that are meant, the least of a hazard's among them if any of its is.

    The least is the hazard's first, or else at one of the versions that the user wrote, or just above it.
    """
    written = [one.version.removesuffix(".*") for one in releases]
    candidates = [hazard.since or "0", *hazard.tried, *written, *(f"{version}.0.1" for version in written)]
    yield from (version for version in candidates if releases.contains(version, prereleases=True))
