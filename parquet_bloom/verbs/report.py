"""`report`: what `inspect` says of files, and `verify`, `prune` and `advise` if asked, as one page for a browser."""

from __future__ import annotations

import datetime
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import parquet_bloom
from parquet_bloom.drawing.figures import Stored
from parquet_bloom.drawing.page import Contents, page, require_drawing
from parquet_bloom.errors import without_secrets
from parquet_bloom.filters.readers import readers_of
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.results import FailedFile, Table, count_text, size_text
from parquet_bloom.storage.listing import PathLike
from parquet_bloom.storage.local_files import new_file, refuse_parquet, statuses
from parquet_bloom.tables import is_table
from parquet_bloom.verbs.advise import Advice, advise_lake
from parquet_bloom.verbs.inspect import FileInfo, FilterInfo, Inspection, inspect_sources
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading
from parquet_bloom.verbs.prune import prune_lake
from parquet_bloom.verbs.verdicts import FileVerdict, Pruning
from parquet_bloom.verbs.verify import Verification, VerifiedFile, verify_sources


@dataclass(frozen=True, slots=True, repr=False)
class Report(Table):
    """The page that `report` wrote, and what it shows; its rows are the filters."""

    TRUTH: ClassVar[str] = ".errors, .verification or .pruning"

    path: str
    num_bytes: int
    inspection: Inspection
    verification: Verification | None = None
    pruning: Pruning | None = None
    advice: Advice | None = None

    @property
    def rows(self) -> tuple[FilterInfo, ...]:
        """Every filter of every file."""
        return self.inspection.rows

    @property
    def errors(self) -> tuple[FileInfo | VerifiedFile | FileVerdict | FailedFile, ...]:
        """The files that are not sound, or could not be checked, pruned or sampled."""
        found: dict[str, FileInfo | VerifiedFile | FileVerdict | FailedFile] = {}
        for result in (self.inspection, self.verification, self.pruning, self.advice):
            for file in result.errors if result is not None else ():
                found.setdefault(file.path, file)
        return tuple(found.values())

    def __repr__(self) -> str:
        filters, errors = count_text(len(self), "filter"), count_text(len(self.errors), "error")
        return f"<Report: {self.path}, {size_text(self.num_bytes)}, {filters}, {errors}>"

    def _repr_html_(self) -> str:
        return self.inspection._repr_html_()


@with_reading
def report(
    paths: PathLike | Iterable[PathLike],
    output: PathLike,
    columns: Sequence[str] | str | None = None,
    *,
    where: Any = None,
    readers: str | Sequence[str] | None = None,
    verification: Verification | bool = False,
    advice: Advice | bool = False,
    fpp: float = 0.01,
    force: bool = False,
    **how: Unpack[Reading],
) -> Report:
    """Write one HTML page that shows what filters cost, whether they work, and which engines can use them.

    The page needs no network and no other file. Only those may read it who may read all of the local files. It needs
    the extra `[report]`.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Of a
            table its live files.
        output: The local file to write.
        columns: Leaf columns to show. By default all.
        where: A condition as for `prune`: the page then shows what it keeps, and why.
        readers: The engines that read the files, and of which releases, such as `duckdb>=2,datafusion>=55`: the page
            says what these lose because of filters. By default the environment variable `PARQUET_BLOOM_READERS` names
            them; where it does not, any release of the last two years may read them.
        verification: What `verify` returned for these files; True verifies them first, which reads their columns.
        advice: What `advise` returned for these files; True asks it first, which reads values of a few row groups.
        fpp: The false-positive rate that was asked for: the page marks filters whose real rate is worse.
        force: Replace the file if it is there.

    Returns:
        A `Report`: a row for each filter. `.path` is the page, `.inspection`, `.verification`, `.pruning` and
        `.advice` are what it shows.

    Raises:
        FileExistsError: There is a file at `output`, and `force` is not given, or it is a Parquet file.
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.
        PredicateError: The condition does not parse.
        UnsupportedError: What draws the page is not installed.

    Examples:
        >>> written = parquet_bloom.report("events", "events.html", where="id = 7")
        >>> len(written), written.pruning.paths
        (4, ('events/b.parquet',))
    """
    return report_lake(
        OpenLake(paths, **how),
        output,
        columns,
        where=where,
        readers=readers,
        verification=verification,
        advice=advice,
        fpp=fpp,
        force=force,
    )


def report_lake(
    lake: OpenLake,
    output: PathLike,
    columns: Sequence[str] | str | None = None,
    *,
    where: Any = None,
    readers: str | Sequence[str] | None = None,
    verification: Verification | bool = False,
    advice: Advice | bool = False,
    fpp: float = 0.01,
    force: bool = False,
) -> Report:
    """Write what `report` does of files that are open."""
    require_drawing()
    reading = readers_of(readers)
    if not 0 < fpp < 1:
        raise ValueError(f"fpp= must be between 0 and 1, not {fpp}")
    target = Path(output)
    if not force and os.path.lexists(target):
        raise FileExistsError(f"{target} already exists; replace it with force=True")
    refuse_parquet(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    sources = lake.files_to_show(of_tables_live=True)
    stored = Stored()
    inspection = inspect_sources(
        sources,
        columns,
        readers=reading,
        decryption=lake.decryption,
        storage_options=lake.storage_options,
        progress=lake.progress,
        see=lambda source, footer: stored.note(source.name, _columns(footer, columns, source.size)),
    )
    verified = verification if isinstance(verification, Verification) else None
    if verification is True:
        verified = verify_sources(
            sources,
            columns,
            readers=reading,
            jobs=lake.jobs,
            storage_options=lake.storage_options,
            decryption=lake.decryption,
            progress=lake.progress,
        )
    pruning = None
    if where is not None:
        pruning = prune_lake(lake, where)
    advised = advice if isinstance(advice, Advice) else None
    if advice is True:
        advised = advise_lake(lake, columns)
    contents = Contents(
        title=_title(lake.paths),
        made=f"Written by parquet-bloom {parquet_bloom.__version__}, {_now()}.",
        files=inspection.files,
        stored=stored,
        fpp=fpp,
        verification=None if verified is None else verified.files,
        pruning=pruning,
        advice=None if advised is None else advised.rows,
    )
    written = page(contents).encode()
    like = statuses(source.path for source in sources if source.is_local)
    with new_file(target, replace=force, like=like) as file:
        file.write(written)
    return Report(str(target), len(written), inspection, verified, pruning, advised)


def _columns(footer: Footer, columns: Sequence[str] | str | None, most: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield the name and type of each column, how many chunks it has, and their compressed bytes."""
    given = [columns] if isinstance(columns, str) else columns
    wanted = None if given is None else {parse_path(name) for name in given}
    for leaf in footer.leaves:
        if wanted is None or leaf.path in wanted:
            yield leaf.name, leaf.type_name, footer.num_row_groups, sum(_chunk_sizes(footer, leaf, most))


def _chunk_sizes(footer: Footer, leaf: LeafColumn, most: int) -> Iterator[int]:
    """Yield the compressed size of each of a column's chunks; no chunk is larger than its file."""
    if (records := footer.chunk_records(leaf)) is not None:
        yield from (min(max(0, record.compressed_size), most) for record in records)
        return
    for row_group in range(footer.num_row_groups):
        chunk = footer.chunk(row_group, leaf)  # None where it is encrypted
        yield min(max(0, (chunk and chunk.total_compressed_size) or 0), most)


def _title(paths: Sequence[Any]) -> str:
    """Return what the page is about."""
    names = [_named(path) for path in paths]
    named = without_secrets(", ".join(names[:_NAMED]))
    return named if len(names) <= _NAMED else f"{named} and {count_text(len(names) - _NAMED, 'more path')}"


_NAMED = 3


def _named(path: Any) -> str:
    if isinstance(path, str | os.PathLike):
        return str(path)
    return "a table" if is_table(path) else "an open file"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
