"""`erased`: whether anything is left of keys that were erased, where, and which statement removes it.

Every file below the folder of a table, or of plain files, is searched by what it is (erased_files.py), whether the
table knows it or not; and so is the folder's index. A file that is not understood is named: then the answer is not
that nothing is left.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar
from urllib.parse import unquote

from parquet_bloom.errors import ColumnNotFoundError, ParquetBloomError, describe_error
from parquet_bloom.filters.index_folder import folder_at, indexes_of
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.schema import LeafColumn, format_path, parse_path
from parquet_bloom.predicates.binding import more_telling
from parquet_bloom.results import FailedFile, Record, Table, count_text
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    files_below,
    find,
    is_directory,
    is_local,
    resolve,
    says_parquet,
)
from parquet_bloom.tables import Erasable, fsspec_options, open_history, root_of
from parquet_bloom.tables.roots import Root
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.erase_ledger import HASHED, read_ledger, secret_of
from parquet_bloom.verbs.erased_files import ErasedColumn, Searched, search_file
from parquet_bloom.verbs.erased_keys import LEAST, ClearKeys, HashedKeys, Wanted
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads
from parquet_bloom.verbs.reading_keys import read_keys, require_no_null

MOST_NAMED = 20
"""Keys that a row names."""


@dataclass(frozen=True, slots=True, repr=False)
class Trace(Record):
    """Something in a file that still has erased keys: `num_keys` of them, of which `keys` are some.

    `place` is what the file is, such as `live file`, `version 3` or `manifest`, and `found` what in it has them.
    `remove_with` is the statement, or what else to do, that removes it. Keys are as in the ledger, or as they are.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "place", "found", "num_keys")

    path: str
    place: str
    found: str
    num_keys: int
    keys: tuple[str, ...]
    remove_with: str


@dataclass(frozen=True, slots=True, repr=False)
class Traces(Table):
    """The result of `erased`: what is left of erased keys, a row for each place.

    `unsearched` are the files that could not be searched, or not all of them. `notes` are sentences that the user
    should see.
    """

    TRUTH: ClassVar[str] = ".is_nowhere, or .rows and .errors"
    NOUN: ClassVar[str] = "place"

    rows: tuple[Trace, ...]
    unsearched: tuple[FailedFile, ...] = ()
    num_files: int = 0
    num_keys: int = 0
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[FailedFile, ...]:
        """The files that could not be searched, or not all of them."""
        return self.unsearched

    @property
    def is_nowhere(self) -> bool:
        """Whether everything was searched, and nothing is left."""
        return not self.rows and not self.unsearched


def erased(
    path: PathLike,
    column: str,
    keys: Any = None,
    *,
    ledger: PathLike | None = None,
    ledger_secret: str | bytes | None = None,
    timezone: str | None = None,
    catalog: str | None = None,
    index: PathLike | None = None,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Traces:
    """Return where erased keys still are, in any file of a table or a folder, and what removes them.

    Every file is searched, whether a version of the table has it or not: values, dictionaries, statistics, manifests,
    logs, checkpoints, change data, the index and files of other programs. What cannot be searched is named.

    Args:
        path: A folder of files, or a Delta or Iceberg table: its directory, its name in the catalog, or pyiceberg's
            own object. Of one file, that file.
        column: The leaf column that held the keys.
        keys: The keys, as `erase` takes them; or None for those of the ledger.
        ledger: The ledger of the erasure, instead of keys. If its keys are hashed, they are only found where they are a
            whole value: text within other text is then not searched, and files of text are named.
        ledger_secret: The secret of a ledger with hashed keys; by default that of the environment variable
            `PARQUET_BLOOM_LEDGER_SECRET`.
        timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
        catalog: A catalog of pyiceberg's configuration; `path` is then a name in it, such as `db.events`.
        index: The folder of the index, if it was created with `at=`.
        jobs: Threads. By default one for each processor.
        storage_options: Options for fsspec, such as credentials.
        progress: Is called with how much is done and how much there is in all. It counts bytes.

    Returns:
        A `Traces`: a row for each place. `.is_nowhere` is the answer; `.errors` are the files that were not searched.

    Raises:
        FileNotFoundError: The path names nothing.
        ColumnNotFoundError: No file has the column.
        LiteralError: A key is NULL, or no file's column can be compared with a key.
        UnsupportedError: A symbolic link leads out of the folder.
        CorruptFileError: The ledger is not one.
        ValueError: There are neither keys nor a ledger, or both, or no secret.

    Examples:
        >>> parquet_bloom.erased("events", "id", [10**9]).is_nowhere
        True
        >>> [(row.place, row.found) for row in parquet_bloom.erased("events", "id", [7])]
        [('file', 'values of id')]
    """
    where = parse_path(column)
    wanted = _wanted(where[-1], keys, ledger, ledger_secret, timezone)
    kind, table, why_unknown = open_history(path, catalog=catalog, storage_options=storage_options)
    search = _Search(_root(path, catalog, storage_options), where, wanted, kind, table, fsspec_options(storage_options))
    if why_unknown is not None:
        search.unsearched.append(FailedFile(search.root, f"files outside of it are not known: {why_unknown}"))
    search.run(index, jobs, progress)
    notes = []
    if wanted.short:
        notes.append(
            f"{count_text(len(wanted.short), 'key')} of less than {LEAST} characters: compared only with values of the "
            "column, and with whole words of text, since other bytes have such keys by chance"
        )
    if not wanted.searches_text:
        notes.append("hashed keys were compared with whole values only, and not with text within text; give the keys")
    return search.result(notes)


def _root(path: Any, catalog: str | None, storage_options: StorageOptions) -> str:
    """Return the folder of what is given, as the paths of its files begin."""
    root = root_of(path, catalog=catalog, storage_options=storage_options)
    fs, inner = resolve(root, None, fsspec_options(storage_options))
    return inner.rstrip("/") if is_local(fs) else root.rstrip("/")


def _wanted(
    column: str, keys: Any, ledger: PathLike | None, secret: str | bytes | None, timezone: str | None
) -> Wanted:
    if keys is not None and ledger is None:
        read = read_keys(keys, column)
        require_no_null(read)
        return ClearKeys(read, timezone)
    if keys is not None or ledger is None:
        raise ValueError("give either keys, or the ledger of an erasure")
    written = read_ledger(ledger)
    names = list(dict.fromkeys(row.key for row in written.rows if row.key is not None))
    is_hashed = all(map(_HASH.fullmatch, names)) if written.header is None else written.header.algorithm == HASHED
    if is_hashed:
        return HashedKeys(names, secret_of(secret))
    import pyarrow as pa

    return ClearKeys(Keys(pa.array(names, pa.string()), names, are_text=True), timezone)


_HASH = re.compile(r"[0-9a-f]{64}")
"""The keys of a ledger without a header, of an older version, if they are hashed."""


# ---- the search --------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    """One call of `erased`."""

    root: str
    column: tuple[str, ...]
    wanted: Wanted
    kind: str | None
    table: Erasable | None
    storage_options: StorageOptions
    found: dict[Source, Searched] = field(default_factory=dict)
    unsearched: list[FailedFile] = field(default_factory=list)
    versions: dict[str, list[int]] = field(default_factory=dict)
    """The earlier versions that have a file."""
    roles: dict[str, str] = field(default_factory=dict)
    """What the table's metadata says that a file is."""
    live: set[str] = field(default_factory=set)
    indexes: tuple[str, ...] = ()

    def run(self, index: PathLike | None, jobs: int | None, progress: Progress | None) -> None:
        """Search every file."""
        self._read_history()
        sources = list(self._sources(index))
        tick = Ticker(progress, sum(source.size for source in sources))
        column = self._column(sources)

        def work(source: Source, _stop: threading.Event) -> tuple[Source, Searched]:
            with tick.part(source.size, source.size):
                searched = search_file(source, self.wanted, column)
                searched.add("its path", self._in_path(source.name.removeprefix(self.root)))
            return source, searched

        stop = threading.Event()
        self.found = dict(map_in_order(lambda one: work(one, stop), sources, num_threads(jobs), stop))
        self._require_column()
        mistakes = [searched.mistake for searched in self.found.values() if searched.has_column]
        if mistakes and all(mistakes):
            raise reduce(more_telling, filter(None, mistakes))
        self._explain_cuts(column)

    def _require_column(self) -> None:
        """Raise `ColumnNotFoundError` if there are rows, but no column of this name."""
        files = self.table.snapshot.files if self.table is not None else ()
        if any(searched.has_column for searched in self.found.values()) or any(
            self.column[0] in file.partition for file in files
        ):
            return
        of_rows = [one for source, one in self.found.items() if self.kind is None or source.name in self.live]
        if leaves := {name for searched in of_rows for name in searched.leaves}:
            raise ColumnNotFoundError(format_path(self.column), sorted(leaves), where=self.root)

    def _in_path(self, relative: str) -> set[int]:
        """Return the keys in a path: in a name, or as the value of the column's partition."""
        names = [part.partition("=") for part in relative.split("/")]
        values = [unquote(value) for name, _, value in names if unquote(name) == self.column[-1]]
        whole = {number for value in values for number in self.wanted.equal(value)}
        return whole | self.wanted.within([relative.encode("utf-8", "surrogateescape")])

    def _sources(self, index: PathLike | None) -> Iterator[Source]:
        """Yield every file of the folder and of its index; those outside of it are noted."""
        fs, inner = resolve(self.root, None, self.storage_options)
        if not is_directory(fs, inner, literal=True):
            yield from find([self.root], storage_options=self.storage_options, literal=True)
            return
        indexes = indexes_of(self.root, storage_options=self.storage_options)
        if index is not None:
            indexes.append(folder_at(index, self.root, storage_options=self.storage_options))
        self.indexes = tuple(f"{folder.name.rstrip('/')}/" for folder in indexes)
        seen: set[str] = set()
        for name in (self.root, *(folder.name for folder in indexes)):
            place = Root(name)

            def why_outside(below: str, place: Root = place) -> str | None:
                return place.place(below).outside

            below = files_below(name, storage_options=self.storage_options, why_outside=why_outside)
            for relative in sorted(below):
                whole = f"{name.rstrip('/')}/{relative}"
                if (outside := place.place(relative).outside) is not None:
                    self.unsearched.append(FailedFile(whole, outside.partition(";")[0]))
                    continue
                for source in find([whole], storage_options=self.storage_options, literal=True):
                    if source.name not in seen:
                        seen.add(source.name)
                        yield source
        for path in sorted((self.live | self.versions.keys()) - seen):
            if not path.startswith(f"{self.root.rstrip('/')}/"):
                self.unsearched.append(FailedFile(path, "a version of the table has it outside of its directory"))

    def _read_history(self) -> None:
        """Note which versions of the table have which files."""
        if self.table is None:
            return
        self.live = {file.path for file in self.table.snapshot.files}
        try:
            for version, files in self.table.history():
                for file in files:
                    self.versions.setdefault(file.path, []).append(version)
            self.roles = dict(self.table.roles())
        except (ParquetBloomError, OSError) as error:
            self.unsearched.append(
                FailedFile(self.root, f"which files earlier versions have is not known: {describe_error(error)}")
            )

    def _column(self, sources: Iterable[Source]) -> ErasedColumn:
        """Return the column as the files have it, after learning how they store the keys."""
        snapshot = self.table.snapshot if self.table is not None else None

        def leaf_of(footer: Footer) -> LeafColumn | None:
            try:
                if snapshot is not None:
                    return snapshot.find(footer, self.column)
            except ColumnNotFoundError:
                pass
            return next((leaf for leaf in footer.leaves if leaf.path == self.column), None)

        names = {self.column}
        for source in sources:
            if source.name in self.live or says_parquet(source.name):
                with contextlib.suppress(ParquetBloomError, OSError):  # the search will say so
                    footer = run(source, read_footer(source.size, guess=source.footer_guess, keeps_tail=False))
                    if (leaf := leaf_of(footer)) is not None:
                        self.wanted.learn_forms(leaf)
                        names |= {one.path for one in footer.leaves if one.index == leaf.index}
        field_id = snapshot.naming.field_id(self.column) if snapshot is not None else None
        return ErasedColumn(self.column, frozenset(names), field_id, leaf_of)

    # ---- bounds that may be cut

    def _explain_cuts(self, column: ErasedColumn) -> None:
        """Make findings of the bounds that no value in a live file explains."""
        starts = {start for searched in self.found.values() for _, start in searched.cuts}
        if not starts:
            return
        explained: set[str] = set()
        for source in self.found:
            is_live = source.name in self.live if self.table is not None else True
            if is_live and source.size and explained != starts:
                explained |= self._beginnings(source, column, starts - explained)
        for searched in self.found.values():
            for what, start in searched.cuts:
                if start not in explained:
                    numbers = {at for at, name in enumerate(self.wanted.names) if name.startswith(start)}
                    searched.add(f"{what}, cut from a key", numbers)

    def _beginnings(self, source: Source, column: ErasedColumn, starts: set[str]) -> set[str]:
        """Return with which of some texts a value of the column begins that is no key."""
        import pyarrow.compute as pc

        found: set[str] = set()
        try:
            footer = run(source, read_footer(source.size, guess=source.footer_guess))
            if (leaf := column.leaf_of(footer)) is None:
                return found
            for row_group in range(footer.num_row_groups):
                for values in ColumnChunks(source, footer).values(row_group, leaf):
                    for start in starts - found:
                        begun = values.filter(pc.starts_with(values, start.encode())).unique().drop_null()
                        if any(not self.wanted.equal(value) for value in begun.to_pylist()):
                            found.add(start)
        except (ParquetBloomError, OSError, NotImplementedError):
            pass  # it is among those that were not searched, or is not Parquet
        return found

    # ---- the result

    def result(self, notes: list[str]) -> Traces:
        """Return what was found."""
        rows = []
        for source, searched in self.found.items():
            self.unsearched += [FailedFile(source.name, reason) for reason in dict.fromkeys(searched.unsearched)]
            place = self._place(source)
            for found, numbers in _most_precise(searched.found):
                names = [self.wanted.names[number] for number in sorted(numbers) if number >= 0]
                rows.append(
                    Trace(
                        source.name,
                        place,
                        found,
                        len(numbers),
                        tuple(names[:MOST_NAMED]),
                        self._remedy(source, place),
                    )
                )
        return Traces(tuple(rows), tuple(self.unsearched), len(self.found), len(self.wanted.names), tuple(notes))

    def _place(self, source: Source) -> str:
        """Return what a file is."""
        if source.name in self.live:
            return LIVE
        if source.name.startswith(self.indexes):
            return INDEX
        if versions := self.versions.get(source.name):
            return f"version {versions[-1]}"
        if role := self.roles.get(source.name):
            return role
        if self.kind is None:
            return "file"
        below = source.name.removeprefix(self.root.rstrip("/") + "/")
        places = _PLACES.get(self.kind, {})
        place = next((place for pattern, place in places.items() if re.match(pattern, below)), OTHER)
        return place if self.table is not None else place.removesuffix(" of no snapshot").replace("no version", "data")

    def _remedy(self, source: Source, place: str) -> str:
        """Return what removes what was found in a file."""
        if place == INDEX:
            return f"parquet-bloom index refresh {self.root}"
        if self.kind is None:
            return f"parquet-bloom erase {source.name}" if says_parquet(source.name) else REMOVE
        if self.table is None:
            return f"the statements of {self.kind}'s own engine"
        if place == LIVE:
            return f"parquet-bloom erase --table {self.root}, or the statements of erase --plan"
        kind_of_place = "version" if place.startswith("version ") else place
        return self.table.statements.remedy(kind_of_place) or REMOVE


def _most_precise(found: Mapping[str, set[int]]) -> Iterator[tuple[str, set[int]]]:
    """Yield what has keys; a text with values in it, such as statistics, is not named beside these."""
    for what, numbers in found.items():
        within = set().union(*(others for other, others in found.items() if other.startswith(f"{what}.")))
        if numbers - within:
            yield what, numbers - within


LIVE, INDEX, OTHER = "live file", "index", "other file"
REMOVE = "remove the file, if nothing needs it"

_PLACES: Mapping[str, Mapping[str, str]] = {
    "Delta": {
        r"_delta_log/(.*\.checkpoint.*|_sidecars/.*)": "checkpoint",
        r"_delta_log/": "log",
        r"_change_data/": "change data",
        r".*deletion_vector_": "deletion vector",
        r"(?!_).*\.parquet$": "no version",
    },
    "Iceberg": {
        r"metadata/.*metadata\.json(\.gz)?$": "metadata",
        r"metadata/snap-": "manifest list of no snapshot",
        r"metadata/.*\.avro$": "manifest of no snapshot",
        r"data/": "no version",
    },
}
"""What files of no version are, by their paths below the root."""


__all__ = ["Trace", "Traces", "erased"]
