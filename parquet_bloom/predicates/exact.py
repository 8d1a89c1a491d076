"""Which columns of a row group would have to be read to prove that no row matches, and the verdict once they are.

Only tests for equality are proved in this way: a value that a column does not contain equals none of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parquet_bloom.filters.parquet import why_unusable
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.probing import Answer, Question
from parquet_bloom.predicates.evaluation import (
    CANNOT,
    MIGHT,
    BoundPredicate,
    ColumnTest,
    Combined,
    Facts,
    FileWithFooter,
    Verdict,
)
from parquet_bloom.values.statistics import StatisticsReader

DATA = "data"
"""What proved a verdict: the column itself."""


class ReadRowGroup:
    """A row group of which some columns were read: `verdicts` are those on the tests of these, by number."""

    def __init__(self, bound: BoundPredicate, file: FileWithFooter, row_group: int) -> None:
        self._bound, self._file = bound, file
        self.row_group = row_group
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = dict(file.answers)
        self.absent: dict[int, Verdict] = dict(file.absent)
        self._read: set[int] = set()

    @property
    def footer(self) -> Footer:
        """The file's footer."""
        return self._file.footer

    def facts(self, reader: StatisticsReader) -> Sequence[Facts]:
        """Return what is known about a leaf's column chunks, by row group."""
        return self._file.facts(reader)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the row group, with what is known so far."""
        verdict = self._bound.evaluate(self, self.row_group)
        if verdict.rank is not CANNOT:
            return verdict
        # Of an OR, all of which is excluded, another part may come first, which was not enough before.
        return next((self.absent[number] for number in self._read if self.absent[number].rank is CANNOT), verdict)

    def note(self, verdicts: Mapping[int, Verdict]) -> None:
        """Take in the verdicts on tests, by number, from reading their columns."""
        for number, verdict in verdicts.items():
            self.answers.pop((number, self.row_group), None)
            self.absent[number] = verdict
            self._read.add(number)

    def tests_to_read(self) -> dict[ColumnTest, list[int]]:
        """Return the tests whose columns may prove that no row matches, with the hashes to look for; or none."""
        return dict(self._decisive(self._bound) or ())

    def _decisive(self, node: BoundPredicate) -> list[tuple[ColumnTest, list[int]]] | None:
        """Return the tests that may exclude what `node` matches: an empty list if it is excluded, None if none may."""
        if node.evaluate(self, self.row_group).rank is CANNOT:
            return []
        match node:
            case Combined(parts, choose):
                of_parts = [self._decisive(part) for part in parts]
                able = [tests for tests in of_parts if tests is not None]
                # All parts of an OR must be excluded, one part of an AND.
                is_open = len(able) == len(parts) if choose is max else bool(able)
                return [test for tests in able for test in tests] if is_open else None
            case ColumnTest() if hashes := self._hashes(node):
                return [(node, hashes)]
        return None

    def _hashes(self, test: ColumnTest) -> list[int] | None:
        """Return the hashes of a test's literals if reading its column may prove that they are absent."""
        if test.op != "=" or (test.is_negated and test.leaf.is_repeated) or test.number in self._read:
            return None
        facts = self.facts(test.reader)[self.row_group]
        num_rows, known = self.footer.row_groups[self.row_group].num_rows, facts.known
        has_all = known.num_values >= num_rows if test.leaf.is_repeated else known.num_values == num_rows
        is_readable = not self.footer.is_encrypted(self.row_group, test.leaf)
        if facts.problem or not has_all or not is_readable or why_unusable(self.footer, test.leaf):
            return None
        hashes = test.literals.within(known)
        return None if isinstance(hashes, str) else hashes


def verdict_on(test: ColumnTest, *, is_present: bool) -> Verdict:
    """Return the verdict on a test whose column was read."""
    name = test.leaf.name
    if is_present:
        return Verdict(MIGHT, f"{name} was read, and the value is in it")
    return Verdict(CANNOT, f"{name} was read, and the value isn't in it", DATA)


def unread(tests: Iterable[ColumnTest], problem: str) -> dict[int, Verdict]:
    """Return the verdicts on tests whose column could not be read."""
    return {test.number: Verdict(MIGHT, f"{test.leaf.name} could not be read: {problem}") for test in tests}
