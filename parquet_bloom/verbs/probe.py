"""`probe`: which row groups can hold a value, by their filters alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Unpack

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters.parquet import NO_FILTER, groups, why_distrusted, why_unusable
from parquet_bloom.filters.stored import TableFilters, filters_in_footer, with_filters_of_their_tables
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan, read_filter, read_footer, together, with_tail
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.predicates.binding import more_telling
from parquet_bloom.results import Record, Table, count_text
from parquet_bloom.storage.drive import changes, drive
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.values.encoding import Encodings, encode_literal, literal_text, parse_literal
from parquet_bloom.values.interchange import python_values, values_of
from parquet_bloom.values.literals import normalize_literal
from parquet_bloom.verbs.opening import OpenLake, Reading, with_reading
from parquet_bloom.verbs.verdicts import CANNOT_MATCH, MIGHT_MATCH, Answer

# ---- probe -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class ProbeAnswer(Record):
    """Whether a row group can hold a value, and why; of a file that could not be read, `row_group` is None."""

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "row_group", "value", "answer", "reason")

    path: str
    row_group: int | None
    column: str
    value: str
    answer: Answer
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Probe(Table):
    """The answers of `probe`, in order of file, row group and value."""

    TRUTH: ClassVar[str] = ".might_match"
    NOUN: ClassVar[str] = "answer"

    rows: tuple[ProbeAnswer, ...]

    @property
    def might_match(self) -> bool:
        """Whether any row group might hold any of the values."""
        return any(row.answer == MIGHT_MATCH for row in self.rows)

    @property
    def errors(self) -> tuple[ProbeAnswer, ...]:
        """The answers for files that could not be read, which might match."""
        return tuple(row for row in self.rows if row.row_group is None)

    def _said(self) -> str:
        might = sum(row.answer == MIGHT_MATCH for row in self.rows)
        return f"{might:,} of {count_text(len(self.rows), self.NOUN)} {MIGHT_MATCH}"


@dataclass(frozen=True, slots=True)
class _Text:
    """A value that came as text and is typed by each file's column."""

    text: str


@with_reading
def probe(
    paths: PathLike | Iterable[PathLike],
    column: str,
    values: Any,
    *,
    as_text: bool = False,
    **how: Unpack[Reading],
) -> Probe:
    """Return for every row group whether it can hold each of `values`, by its filter alone.

    `CANNOT_MATCH` is a proof. Everything else is `MIGHT_MATCH` with the reason, also where a filter is missing or
    damaged.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB.
        column: The leaf column, such as `user.id`.
        values: One value, or a list, an array or a column of values.
        as_text: The values are text that the column's type parses.

    Returns:
        A `Probe`: a row for each row group and value. `.might_match` is whether any row group might hold any of them.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has the column.
        LiteralError: No file's column can be compared with a value.

    Examples:
        >>> answers = parquet_bloom.probe("events", "id", 7)
        >>> [answer.answer for answer in answers]
        ['CANNOT_MATCH', 'CANNOT_MATCH', 'CANNOT_MATCH', 'MIGHT_MATCH']
        >>> answers.rows[0].reason
        'the filter lacks the value'
    """
    return probe_lake(OpenLake(paths, **how), column, values, as_text=as_text)


def probe_lake(lake: OpenLake, column: str, values: Any, *, as_text: bool = False) -> Probe:
    """Return what `probe` does of files that are open."""
    path = parse_path(column)
    literals = [_Text(v) if as_text else v for v in _listed(values, path[-1], as_text)]
    sources = lake.files_to_show()
    answers: dict[Source, list[ProbeAnswer]] = {}
    read: list[Source] = []
    refused: ParquetBloomError | None = None
    understood = False
    strays = Strays()
    of_files = with_filters_of_their_tables(sources, {path[0]}, storage_options=lake.storage_options)
    plans = (
        (source, _probe(source, path, literals, lake.timezone, kept, lake.decryption)) for source, kept in of_files
    )
    for done, (source, outcome) in enumerate(drive(refuse_links_out(plans), log=lake.log), 1):
        if strays.take(source, outcome):
            pass
        elif isinstance(outcome, ColumnNotFoundError | LiteralError):
            refused = more_telling(refused, outcome)
            answers[source] = _all_might(source, column, literals, outcome)
        elif isinstance(outcome, Exception):
            understood = True
            answers[source] = _all_might(source, column, literals, outcome)
        else:
            understood = True
            answers[source] = outcome
            read.append(source)
        if lake.progress:
            lake.progress(done, len(sources))
    strays.rest(sources)
    if refused and not understood:
        raise refused
    for source, error in changes(read).items():  # meanwhile, if the store reported it in no other way
        answers[source] = _all_might(source, column, literals, error)
    return Probe(tuple(chain.from_iterable(answers.values())))


def _listed(values: Any, column: str, as_text: bool) -> Sequence[Any]:
    """Return the values of a container of any kind that `lookup` takes, or the only one."""
    if isinstance(values, list | tuple):
        return values
    if normalize_literal(values) is not None:
        return [values]
    found = values_of(values, column, what="values")
    return found if isinstance(found, list) else python_values(found) if as_text else list(found)


def _all_might(source: Source, column: str, literals: list[Any], error: Exception) -> list[ProbeAnswer]:
    reason = describe_error(error)
    return [ProbeAnswer(source.name, None, column, _shown(v), MIGHT_MATCH, reason) for v in literals]


def _shown(value: Any) -> str:
    return value.text if isinstance(value, _Text) else literal_text(value)


def _probe(
    source: Source,
    path: tuple[str, ...],
    literals: list[Any],
    timezone: str | None,
    kept: TableFilters,
    decryption: Decryption | None,
) -> Plan[list[ProbeAnswer]]:
    footer = yield from read_footer(source.size, decryption=decryption)
    leaf = source.find_leaf(footer.leaves, path)
    typed = [parse_literal(leaf, v.text) if isinstance(v, _Text) else v for v in literals]
    encodings = [encode_literal(leaf, v, timezone=timezone) for v in typed]
    filters = () if leaf.text_rule else (*filters_in_footer(footer), *kept.filters)
    of_file = [(one, one.might_contain(typed)) for one in filters if one.column == leaf.path]
    answers = []
    for row_groups in groups(range(footer.num_row_groups)):
        loaded = yield from with_tail(footer, together(_filter_of(footer, row_group, leaf) for row_group in row_groups))
        for row_group, (bloom, why) in zip(row_groups, loaded, strict=True):
            for number, (literal, encoding) in enumerate(zip(literals, encodings, strict=True)):
                answer, reason = _answer(footer, row_group, leaf, encoding, bloom, why)
                for one, may_hold in of_file if answer == MIGHT_MATCH and encoding.reason is None else ():
                    if not may_hold[number]:
                        answer, reason = CANNOT_MATCH, f"the {one.format} filter lacks the value"
                    elif bloom is None:
                        reason = f"the {one.format} filter says the value may be present"
                reason = kept.explained(reason) if answer == MIGHT_MATCH else reason
                answers.append(ProbeAnswer(source.name, row_group, leaf.name, _shown(literal), answer, reason))
    return answers


def _answer(
    footer: Footer,
    row_group: int,
    leaf: LeafColumn,
    encoding: Encodings,
    bloom: SplitBlockBloomFilter | None,
    why_not: str | None,
) -> tuple[Answer, str]:
    if encoding.reason is not None:
        return MIGHT_MATCH, encoding.reason
    if not encoding.plain and not footer.chunk_problem(row_group, leaf):
        return CANNOT_MATCH, f"no {leaf.type_name} value equals the literal"
    if bloom is None:
        return MIGHT_MATCH, why_not or NO_FILTER
    if any(bloom.check_hash(h) for h in encoding.hashes()):
        return MIGHT_MATCH, "the filter says the value may be present"
    return CANNOT_MATCH, "the filter lacks the value"


def _filter_of(
    footer: Footer, row_group: int, leaf: LeafColumn
) -> Plan[tuple[SplitBlockBloomFilter | None, str | None]]:
    """Plan to return a filter that may prune, or why there is none."""
    if reason := why_unusable(footer, leaf):
        return None, reason
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None, NO_FILTER
        bloom, _ = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError, OSError) as error:
        return None, describe_error(error)
    if reason := why_distrusted(footer, row_group, leaf, bloom):
        return None, reason
    return bloom, None
