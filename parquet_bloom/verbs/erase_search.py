"""Which rows of which files have a key: candidates by filters and statistics, then the rows of a file's key column."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import old_parts
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.schema import LeafColumn, format_path
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.predicates.binding import more_telling, why_conflicting
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import read_range, run
from parquet_bloom.storage.listing import Source, StorageOptions
from parquet_bloom.values.arrays import plain_array
from parquet_bloom.values.encoding import plain_width
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.checks import Checks
from parquet_bloom.verbs.lookup import Hit, Search, outcomes
from parquet_bloom.verbs.parallel import Progress, num_threads

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.storage.columns import ColumnChunks


def key_lookup(
    path: tuple[str, ...], keys: Keys, timezone: str | None, storage_options: StorageOptions, **more: Any
) -> Search:
    """Return a lookup of keys that are to be erased; `more` are other options of `Search`."""
    return Search(
        *(path, keys),
        timezone=timezone,
        cache=Cache(0),
        storage_options=storage_options,
        checks=Checks(num_threads(None)),
        budget=0,  # a row group that keys pass by chance is searched in any case
        **more,
    )


def candidates(
    sources: list[Source], lookup: Search, progress: Progress | None, *, is_column_needed: bool = True
) -> dict[Source, list[Hit] | Exception]:
    """Return the row groups of each Parquet file that may have a key.

    Raises `UnsupportedError` where files hold the column as types that are not compared in the same way. If a column
    `is_column_needed`, raises what says most if no file has it, or none whose type keys can be compared with.
    """
    found = dict(outcomes(sources, lookup, progress=progress))  # one that changed comes again
    if lookup.findings.conflicting:
        raise UnsupportedError(why_conflicting(format_path(lookup.path)))
    errors = [outcome for outcome in found.values() if isinstance(outcome, ColumnNotFoundError | LiteralError)]
    if is_column_needed and errors and len(errors) == len(found):
        raise reduce(more_telling, errors)
    return found


class KeySearch:
    """The rows with keys in a file's key column; `keys` are as its pages store them."""

    def __init__(self, source: Source, footer: Footer, leaf: LeafColumn, keys: KeySet) -> None:
        from parquet_bloom.storage.columns import ColumnChunks

        self.source, self.footer, self.leaf, self.keys = source, footer, leaf, keys
        self.chunks: ColumnChunks = ColumnChunks(source, footer)
        self.kept: dict[int, pa.BooleanArray] = {}
        self.hits: dict[int, pa.BooleanArray] = {}

    def search(self, row_group: int) -> None:
        """Note which rows of a row group stay, if it has a key, be it in its dictionary alone."""
        import pyarrow as pa
        import pyarrow.compute as pc

        footer, leaf = self.footer, self.leaf
        if problem := footer.chunk_problem(row_group, leaf):
            raise CorruptFileError(f"row group {row_group}, column {leaf.name}: {problem}")
        dictionary = self.chunks.dictionary(row_group, leaf)
        is_mentioned = dictionary is not None and has_key(self.keys, dictionary)
        if not is_mentioned and self.chunks.has_dictionary_alone(row_group, leaf):
            return
        parts = [self.keys.mask(array) for array in self.chunks.values(row_group, leaf, each=True)]
        hit = pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
        if len(hit) != footer.row_groups[row_group].num_rows:
            raise CorruptFileError(f"row group {row_group}, column {leaf.name} has {len(hit)} values for its rows")
        if hit.true_count:
            self.hits[row_group] = hit
        if is_mentioned or hit.true_count:
            self.kept[row_group] = pc.invert(hit)

    def is_in_bounds(self, row_group: int) -> bool:
        """Return whether a bound in a key chunk's statistics or column index is a key."""
        chunk = self.footer.whole_column_chunk(row_group, self.leaf.index)
        index = None
        if (place := old_parts(self.footer, row_group, self.leaf, None).column_index) is not None:
            index, _ = decode(ttypes.ColumnIndex, read_range(self.source, place))
        return has_key(self.keys, bounds_in(self.leaf, chunk.meta_data.statistics, index))


def key_search(source: Source, lookup: Search) -> KeySearch:
    """Return a search of a file for the keys of a lookup."""
    footer = run(source, read_footer(source.size, guess=source.footer_guess, keeps_tail=False))
    of_table = lookup.snapshot
    leaf = source.find_leaf(footer.leaves, lookup.path) if of_table is None else of_table.find(footer, lookup.path)
    return KeySearch(source, footer, leaf, lookup.keys.stored_in(leaf, lookup.timezone, exactly=True))


def require_no_key(search: KeySearch) -> None:
    """Raise `CorruptFileError` if a key is in the pages, dictionaries or bounds of a file."""
    for number, group in enumerate(search.footer.row_groups):
        if group.num_rows:
            search.search(number)
        if search.hits:
            raise CorruptFileError(f"row group {number} has rows with the keys")
        if search.kept or search.is_in_bounds(number):
            raise CorruptFileError(
                f"no row has one of the keys, but a dictionary or a bound of row group {number} still names one"
            )


class RowsWithKeys(Protocol):
    """A file, its key column, and which rows of its row groups have a key."""

    source: Source
    footer: Footer
    leaf: LeafColumn
    hits: dict[int, pa.BooleanArray]


def erased_values(found: RowsWithKeys) -> Iterator[Any]:
    """Yield the values of the key column, as pages store them, in the rows with keys that were found in a file."""
    from parquet_bloom.storage.columns import ColumnChunks

    chunks = ColumnChunks(found.source, found.footer)
    for number, hits in found.hits.items():
        start = 0
        for values in chunks.values(number, found.leaf, each=True):
            yield values.filter(hits.slice(start, len(values)))
            start += len(values)


def has_key(keys: KeySet, array: pa.Array) -> bool:
    """Return whether a key is among values as pages store them."""
    return bool(keys.mask(array).true_count)


def bounds_in(leaf: LeafColumn, statistics: Any, index: Any) -> pa.Array:
    """Return the bounds in a chunk's statistics and column index that are values of the column."""
    bounds = [] if statistics is None else [statistics.min, statistics.max, statistics.min_value, statistics.max_value]
    if index is not None:
        for of_pages in (index.min_values or (), index.max_values or ()):  # those of pages without values are empty
            bounds += (bound for bound, is_null in zip(of_pages, index.null_pages or (), strict=False) if not is_null)
    width = plain_width(leaf)
    values = {bound for bound in bounds if bound is not None and (width is None or len(bound) == width)}
    return plain_array(leaf, values)
