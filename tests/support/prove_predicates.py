"""Verdicts and masks of rows against SQL's three-valued logic, in a small world: `prove_predicates PART PARTS STEP`.

A verdict is wrong if it is CANNOT_MATCH and a row that the row group may hold matches, be NaN above all numbers or, as
in IEEE 754, beside them; a mask of rows, if it is not what `sql_logic` says of each row with NaN above all. The world
is that of `small_world`, of columns that are DOUBLE, FLOAT, INT64 and STRING: the rules of integers and texts prune
where those of floats do not. Of conditions it takes all to depth 3 (a test has depth 1; NOT, and AND and OR of two
parts, add one). These have the same answers and are tried once:

    tests    of the same rows, rank in every state and rank of their NOT. A verdict depends on the ranks of the tests
             and nothing else: `Combined` sees only those of its parts, `normalized` turns NOT into NOTs of tests
    states   in which all tests have the same rank, before and after filters. The rows of all are possible in it
    pairs    (a, b) and (b, a): SQL's AND and OR are the same both ways, and so are the lowest and the highest rank
    masks    of conditions that are true, and false, of the same rows: AND and OR of Arrow see only their parts' masks

So all tests are evaluated in all states, and depth 2 as all pairs of different tests; of partitions, two columns and
columns that are read, as every so many. Of depth 3, which are millions of pairs still, all masks of one column are, and
every so many verdicts. That a verdict comes of its parts as the table of AND and OR says is compared, too, with each of
depth 2 and 3: then a condition loses a row only if one of its tests does. What the world does not have: other types,
literals of text, tables, the kernel's way for one value (`evaluate_usual`), filters of other formats.

With a STEP there are fewer statistics and fewer pairs. The last line has the numbers of cases, which are conditions in
a state or on a row, and of differences, and seconds of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice, product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from small_world import KINDS, Census, Kind, State, X, census, chosen, footer_with_contents, leaf_of, union
from sql_logic import Reading, is_true

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.probing import Answer
from parquet_bloom.format.schema import ColumnPath, LeafColumn
from parquet_bloom.predicates.binding import Binder
from parquet_bloom.predicates.evaluation import (
    ASK,
    CANNOT,
    BoundPredicate,
    Combined,
    Facts,
    FileWithFooter,
    Fixed,
    Rank,
    Verdict,
)
from parquet_bloom.predicates.exact import ReadRowGroup, verdict_on
from parquet_bloom.predicates.rows import Typed, row_filter
from parquet_bloom.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Opaque,
    Or,
    Predicate,
    normalized,
)
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.values.statistics import StatisticsReader

Row = dict[ColumnPath, Any]
_Part = TypeVar("_Part")


@dataclass
class Tally:
    """What was compared so far."""

    cases: int = 0
    differences: int = 0

    def compare(self, cases: int, wrong: Iterable[str]) -> None:
        self.cases += cases
        for what in wrong:
            self.differences += 1
            if self.differences <= 20:
                print("difference:", what, file=sys.stderr)


# ---- conditions --------------------------------------------------------------------------


def tests_of(kind: Kind, path: ColumnPath) -> list[Predicate]:
    """Returns all tests of a column: each operator and literal, each list of the world's values, and both of NULL."""
    literals = [*kind.values, *kind.literals]
    ops = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    compared = [Comparison(op, path, literal) for op, literal in product(ops, literals)]
    lists = [tuple(chosen(kind.values, bits)) for bits in range(1 << len(kind.values))]
    listed = [In(path, values, is_negated) for values in lists for is_negated in (False, True)]
    return [*compared, *listed, IsNull(path), IsNull(path, is_negated=True), Constant(True), Constant(False)]


UNKNOWN = Opaque("something else")
_UNKNOWN_PATH = ("?",)
_IS_IEEE = ("IEEE 754",)
_READINGS = [{_UNKNOWN_PATH: answer, _IS_IEEE: is_ieee} for answer in (1, 0, None) for is_ieee in (False, True)]
"""What engines may make of a row, each as a row of its own."""


def truth(tree: Predicate, rows: Sequence[Row]) -> tuple[int, int]:
    """Returns of which rows a condition is true, and of which it is false, as bits."""
    plain = _plain(tree)
    answers = [is_true(plain, row.__getitem__, Reading(has_nan_last=not row.get(_IS_IEEE))) for row in rows]
    return tuple(union(1 << n for n, found in enumerate(answers) if found is answer) for answer in (True, False))  # type: ignore[return-value]


def _plain(tree: Predicate) -> Predicate:
    """Returns a condition without constants; what is not understood becomes a column of booleans."""
    match tree:
        case And(parts) | Or(parts):
            return type(tree)(tuple(map(_plain, parts)))
        case Not(part):
            return Not(_plain(part))
        case Constant(is_true):
            return And(()) if is_true else Or(())
        case Opaque():
            return Comparison("=", _UNKNOWN_PATH, 1)
    return tree


# ---- verdicts ------------------------------------------------------------------------------


class KnownStates:
    """States, each treated as one row group; see `KnownFile`."""

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, states: Sequence[State]) -> None:
        self.states = states
        self.open: dict[Any, Any] = {}
        self.answers: dict[Any, Any] = {}
        self._facts = list(zip(*(state.facts for state in states), strict=True))

    def facts(self, reader: StatisticsReader) -> Sequence[Facts]:
        return self._facts[reader.index]


def ranks_of(bound: BoundPredicate, states: Sequence[State]) -> tuple[list[Rank], list[Rank]]:
    """Returns the ranks before filters are asked and after that, as `prune` comes to them."""
    file = KnownStates(states)
    before = [verdict.rank for verdict in bound.evaluate_all(file, len(states))]
    still_open = [number for number, rank in enumerate(before) if rank is ASK]
    for test, number in bound.undecided(file, still_open):
        hashes = file.open[test.number, number][1]
        file.answers[test.number, number] = states[number].answer(test.leaf.index, hashes)
    after = list(before)
    for number in still_open:
        after[number] = bound.evaluate(file, number).rank
    return before, after


class Place(NamedTuple):
    """Files of the same columns and folders, and what may be known of their row groups."""

    leaves: tuple[LeafColumn, ...]
    partitions: Partitions
    states: Sequence[State]


class Judged(NamedTuple):
    """A condition: of which rows it is true and false, and in which states it, and its NOT, CANNOT_MATCH; all bits."""

    tree: Predicate
    true: int
    false: int
    cannot: int
    never_not: int

    @property
    def inverse(self) -> Judged:
        return Judged(Not(self.tree), self.false, self.true, self.never_not, self.cannot)


def conjunction(one: Judged, other: Judged) -> Judged:
    """Returns what AND makes of two conditions, if it depends on nothing else."""
    return Judged(
        And((one.tree, other.tree)),
        one.true & other.true,
        one.false | other.false,
        one.cannot | other.cannot,
        one.never_not & other.never_not,
    )


def with_inverses(judged: Iterable[Judged]) -> list[Judged]:
    """Returns conditions and their NOTs, one of each kind."""
    return list({one[1:]: one for each in judged for one in (each, each.inverse)}.values())


def deeper(parts: Sequence[Judged]) -> list[Judged]:
    """Returns what AND, OR and NOT make of conditions and their NOTs, which are given."""
    return with_inverses((*parts, *(conjunction(*pair) for pair in combinations_with_replacement(parts, 2))))


class Scene:
    """Rows, and the places in which they may be."""

    def __init__(self, rows: Sequence[Row], places: Sequence[Place], tally: Tally) -> None:
        self.rows, self.places, self.tally = rows, places, tally
        self._possible = [state.possible for place in places for state in place.states]
        #: for each row, the states in which it is possible
        self._states_of = [
            union(1 << n for n, possible in enumerate(self._possible) if possible >> row & 1)
            for row in range(len(rows))
        ]

    @property
    def num_states(self) -> int:
        return len(self._possible)

    def ranks(self, tree: Predicate) -> tuple[tuple[Rank, ...], tuple[Rank, ...]]:
        before: list[Rank] = []
        after: list[Rank] = []
        for place in self.places:
            binder = Binder(normalized(tree), None, case_sensitive=True, conflicting=frozenset())
            found = ranks_of(binder.bind(place.leaves, place.partitions), place.states)
            before += found[0]
            after += found[1]
        return tuple(before), tuple(after)

    def judged(self, tree: Predicate, ranks: Any = None, ranks_of_not: Any = None) -> Judged:
        """Returns the verdicts on a condition and its NOT, and compares them with what is true of the rows."""
        true, false = truth(tree, self.rows)
        found = Judged(
            tree, true, false, _cannot(ranks or self.ranks(tree)), _cannot(ranks_of_not or self.ranks(Not(tree)))
        )
        self.tally.compare(2 * self.num_states, self._lost(found))
        return found

    def _lost(self, found: Judged) -> Iterator[str]:
        for one in (found, found.inverse):
            for row in chosen(range(len(self.rows)), one.true):
                if lost := one.cannot & self._states_of[row]:
                    state = lost.bit_length() - 1
                    yield f"{one.tree} loses {self.rows[row]} in state {state}: {self.described(state)}"

    def described(self, number: int) -> str:
        for place in self.places:
            if number < len(place.states):
                return f"{place.partitions} {place.states[number].facts} {place.states[number].filters}"
            number -= len(place.states)
        raise AssertionError(number)

    def judged_and(self, one: Judged, other: Judged) -> None:
        """Judges AND, and compares it with what the verdicts on the parts make of it, too.

        The NOT of it is the OR of their NOTs, so that all ANDs of a set with its NOTs are all ORs of it, too.
        """
        expected = conjunction(one, other)
        if (found := self.judged(expected.tree))[1:] != expected[1:]:
            self.tally.compare(0, [f"{found.tree} is not what its parts make of it"])


def _cannot(ranks: tuple[Sequence[Rank], Sequence[Rank]]) -> int:
    return union(1 << number for number, rank in enumerate(ranks[1]) if rank is CANNOT)


def distinct_tests(scene: Scene, tests: Iterable[Predicate]) -> tuple[Scene, list[Judged]]:
    """Judges tests in a scene; returns the scene without states that no test tells apart, and those that differ."""
    ranked = [(tree, scene.ranks(tree), scene.ranks(Not(tree))) for tree in tests]
    for tree, *ranks in ranked:
        scene.judged(tree, *ranks)
    places, start, first = [], 0, []
    for place in scene.places:
        alike: dict[Any, list[int]] = {}
        for number in range(len(place.states)):
            alike.setdefault(tuple(at[start + number] for _, *of in ranked for both in of for at in both), []).append(
                number
            )
        first += [start + numbers[0] for numbers in alike.values()]
        start += len(place.states)
        merged = [
            place.states[numbers[0]]._replace(possible=union(place.states[n].possible for n in numbers))
            for numbers in alike.values()
        ]
        places.append(place._replace(states=merged))
    smaller = Scene(scene.rows, places, scene.tally)
    found: dict[Any, Judged] = {}
    for tree, *ranks in ranked:
        fewer = [tuple(tuple(at[number] for number in first) for at in both) for both in ranks]
        judged = smaller.judged(tree, *fewer)
        found.setdefault((*fewer, judged.true, judged.false), judged)
    return smaller, list(found.values())


# ---- what is proved --------------------------------------------------------------------------


class Share(NamedTuple):
    """Which of the pairs a process tries: each of every `parts * step`."""

    part: int = 0
    parts: int = 1
    step: int = 1

    def pairs(self, parts: Sequence[_Part], thin: int = 1) -> Iterator[tuple[_Part, _Part]]:
        """Yields every so many of the pairs."""
        every = self.parts * self.step * thin
        return islice(combinations_with_replacement(parts, 2), self.part, None, every)


def prove_table(tally: Tally) -> None:
    """AND has the lowest rank of its parts and OR the highest, whatever they are."""
    for num_parts in (1, 2, 3):
        for ranks in product(Rank, repeat=num_parts):
            parts = tuple(Fixed(Verdict(rank, "")) for rank in ranks)
            file = KnownStates([])
            for choose in (min, max):
                wrong = [f"{choose} {ranks}"] if Combined(parts, choose).evaluate(file, 0).rank != choose(ranks) else []
                tally.compare(1, wrong)


def prove_column(
    kind: Kind, tally: Tally, share: Share, *, is_optional: bool = True, thin: int = 1, tests: Any = None
) -> tuple[Scene, list[Judged]]:
    """Tries conditions on one column; every `thin`th of depth 3. Returns the states and tests that differ."""
    known = census(kind, is_optional=is_optional, step=share.step)
    states = [state._replace(possible=_read_in_any_way(kind, state.possible)) for state in known.states]
    scene = Scene(_rows(kind), [Place((known.leaf,), Partitions(), states)], tally)
    scene, found = distinct_tests(scene, tests or [*tests_of(kind, X), UNKNOWN])
    both = with_inverses(found)
    for pair in share.pairs(both):
        scene.judged_and(*pair)
    of_depth_2 = deeper(both)
    if share.step == 1:
        for pair in share.pairs(of_depth_2, thin):
            scene.judged_and(*pair)
    note(f"{kind.name}{'' if is_optional else ' required'}", known, scene, found, of_depth_2)
    return scene, found


def note(name: str, known: Census, scene: Scene, tests: Sequence[Judged], of_depth_2: Sequence[Judged]) -> None:
    states = f"{known.num_worlds} worlds, {len(known.states)} states, {scene.num_states} of different ranks"
    print(f"{name}: {states}; {len(tests)} tests, {len(of_depth_2)} of depth 2, that differ", file=sys.stderr)


def _rows(kind: Kind) -> list[Row]:
    return [{X: value, **reading} for value in kind.values for reading in _READINGS]


def _read_in_any_way(kind: Kind, contents: int) -> int:
    """Returns the rows with these values, in each of the readings."""
    return union(
        (1 << len(_READINGS)) - 1 << len(_READINGS) * number for number in chosen(range(len(kind.values)), contents)
    )


def prove_partitions(
    kind: Kind, tally: Tally, share: Share, scene: Scene, tests: Sequence[Judged], *, thin: int = 1
) -> None:
    """Tries conditions on a column that is a partition to all engines or to some; every `thin`th of depth 2."""
    (column,) = scene.places
    places = list(_partitioned(kind, column.leaves, column.states))
    scene, found = distinct_tests(Scene(scene.rows, places, tally), [test.tree for test in tests])
    for pair in share.pairs(with_inverses(found), thin):
        scene.judged_and(*pair)
    print(f"{kind.name} in {len(places)} places: {scene.num_states} of different ranks", file=sys.stderr)


def _partitioned(kind: Kind, leaves: tuple[LeafColumn, ...], states: Sequence[State]) -> Iterator[Place]:
    every = (1 << len(kind.values)) - 1
    for text, value in kind.texts:
        of_text = 1 << [repr(one) for one in kind.values].index(repr(value))
        folders = (("x", text),)
        rows_of = {bits: _read_in_any_way(kind, bits) for bits in (of_text, of_text | 1, every)}  # the first is NULL
        also = [state._replace(possible=state.possible | rows_of[of_text]) for state in states]
        yield Place((), Partitions(folders), [State((), (), rows_of[of_text])])
        yield Place((), Partitions(folders, are_sure=True), [State((), (), rows_of[of_text])])
        yield Place((), Partitions(perhaps=folders), [State((), (), rows_of[of_text | 1])])
        yield Place((), Partitions(above=folders), [State((), (), rows_of[every])])
        for partitions in (Partitions(folders), Partitions(perhaps=folders), Partitions(above=folders)):
            yield Place(leaves, partitions, also)


def prove_two_columns(
    tally: Tally,
    share: Share,
    x: tuple[Scene, list[Judged]],
    y: tuple[Scene, list[Judged]],
    values: Any,
    *,
    thin: int = 1,
) -> None:
    """Tries conditions on two columns, in all states that both may be in at once; every `thin`th of depth 2."""
    (of_x,), (of_y,) = x[0].places, y[0].places
    width = len(values[1])
    rows = [{X: one, Y: other} for one, other in product(*values)]

    def bits(one: int, other: int) -> int:
        return union(
            1 << width * i + j for i in chosen(range(len(values[0])), one) for j in chosen(range(width), other)
        )

    states = [
        State(a.facts + b.facts, a.filters + b.filters, bits(_values(a.possible), _values(b.possible)))
        for a, b in product(of_x.states, of_y.states)
    ]
    (leaf,) = of_y.leaves
    leaves = (*of_x.leaves, replace(leaf, index=1, path=Y))
    scene = Scene(rows, [Place(leaves, Partitions(), states)], tally)
    on_x = [test.tree for test in x[1] if test.tree != UNKNOWN]
    on_y = [_moved(test.tree) for test in y[1] if test.tree != UNKNOWN]
    scene, found = distinct_tests(scene, [*on_x, *on_y])
    both = with_inverses(found)
    for pair in share.pairs(both, thin):
        scene.judged_and(*pair)
    print(f"two columns: {scene.num_states} states of different ranks, {len(found)} tests that differ", file=sys.stderr)


def _values(rows: int) -> int:
    """Returns the values of rows in each of the readings."""
    return union(1 << number // len(_READINGS) for number in range(rows.bit_length()) if rows >> number & 1)


def _moved(test: Any) -> Predicate:
    moved: Predicate = replace(test, column=Y)
    return moved


Y = ("y",)
ONE_OR_NULL = replace(KINDS[2], values=(None, 1), literals=(0, 2), texts=())


def prove_reading(kind: Kind, tally: Tally, share: Share, tests: Sequence[Judged], *, thin: int = 1) -> None:
    """Tries what `prune(exact=True)` makes of a column that it reads, in row groups of all contents."""
    footer, contents = footer_with_contents(kind)
    possible = [_read_in_any_way(kind, one) for one in contents]
    stored = [frozenset(memoryview(kind.hashes(kind.held(one))).cast("Q")) for one in contents]
    both = with_inverses(tests)
    pairs = (And((one.tree, other.tree)) for one, other in share.pairs(both, thin))
    for tree in (*(test.tree for test in tests), *pairs):
        for one in (tree, Not(tree)):
            true, _ = truth(one, _rows(kind))
            pruned = _pruned_by_reading(one, footer, stored, kind)
            lost = [number for number in pruned if possible[number] & true]
            tally.compare(len(contents), (f"{one} loses {kind.held(contents[number])} once read" for number in lost))


def _pruned_by_reading(tree: Predicate, footer: Any, stored: Sequence[frozenset[int]], kind: Kind) -> Iterator[int]:
    file = FileWithFooter(footer)
    binder = Binder(normalized(tree), None, case_sensitive=True, conflicting=frozenset())
    bound = binder.bind(footer.leaves, Partitions())
    before = bound.evaluate_all(file, len(stored))
    still_open = [number for number, verdict in enumerate(before) if verdict.rank is ASK]
    for test, number in bound.undecided(file, still_open):
        hashes = file.open[test.number, number][1]
        file.answers[test.number, number] = (
            Answer((True,) * len(hashes)) if number % 3 else Answer(problem="it is damaged")
        )
    for number in range(len(stored)):
        group = ReadRowGroup(bound, file, number)
        while wanted := group.tests_to_read():
            group.note(
                {
                    test.number: verdict_on(test, is_present=not stored[number].isdisjoint(hashes))
                    for test, hashes in wanted.items()
                }
            )
        if group.verdict.rank is CANNOT:
            yield number


# ---- rows ------------------------------------------------------------------------------------


class Masked(NamedTuple):
    """A condition, and of which rows it is true and false, as bits."""

    tree: Predicate
    true: int
    false: int


class Table:
    """Rows in arrays, and what conditions are compared with."""

    def __init__(self, typed: dict[ColumnPath, Typed], rows: Sequence[Row], tally: Tally) -> None:
        self._typed, self._rows, self._tally = typed, rows, tally
        self._arrays = {path: pa.array([row[path] for row in rows], column.type) for path, column in typed.items()}

    def masked(self, tree: Predicate) -> Masked:
        """Returns of which rows a condition is true and false, and compares the masks with it; both are exact."""
        true, false = truth(tree, self._rows)
        for one, expected in ((tree, true), (Not(tree), false)):
            test = row_filter(normalized(one), self._typed.__getitem__, timezone=None)
            mask = enumerate(test.mask(self._arrays).to_pylist())
            wrong = chosen(self._rows, expected ^ union(1 << number for number, is_match in mask if is_match))
            self._tally.compare(len(self._rows), (f"find: {one} in row {row}" for row in wrong))
        return Masked(tree, true, false)


def masks_of(table: Table, tests: Iterable[Predicate]) -> list[Masked]:
    """Compares tests, and returns those that differ; what cannot be evaluated exactly is refused and left out."""
    found: dict[tuple[int, int], Masked] = {}
    for tree in tests:
        try:
            masked = table.masked(tree)
        except UnsupportedError:
            continue
        found.setdefault(masked[1:], masked)
    return list(found.values())


def with_inverse_masks(masked: Iterable[Masked]) -> list[Masked]:
    found = {(a, b): tree for one in masked for tree, a, b in (one, (Not(one.tree), one.false, one.true))}
    return [Masked(tree, *bits) for bits, tree in found.items()]


def prove_rows(kinds: Sequence[Kind], tally: Tally, share: Share, thin: int = 1) -> None:
    """Tries conditions on the rows of one column or two, with every value beside every other; see `prove_column`."""
    paths = (X, Y)[: len(kinds)]
    rows = [dict(zip(paths, values, strict=True)) for values in product(*(kind.values for kind in kinds))]
    typed = {path: Typed(kind.arrow, leaf_of(kind)) for path, kind in zip(paths, kinds, strict=True)}
    table = Table(typed, rows, tally)
    tests = [test for path, kind in zip(paths, kinds, strict=True) for test in tests_of(kind, path)]
    both = with_inverse_masks(masks_of(table, tests[share.part :: share.step]))
    pairs = list(combinations_with_replacement(both, 2))
    of_depth_2 = with_inverse_masks([*both, *(conjunction_of_masks(*pair) for pair in pairs)])
    for every, parts in ((1, both), (thin, of_depth_2))[: 1 + (share.step == 1)]:
        for pair in share.pairs(parts, every):
            table.masked(conjunction_of_masks(*pair).tree)
    names = " and ".join(kind.name for kind in kinds)
    print(f"rows of {names}: {len(both)} tests, {len(of_depth_2)} of depth 2, that differ", file=sys.stderr)


def conjunction_of_masks(one: Masked, other: Masked) -> Masked:
    return Masked(And((one.tree, other.tree)), one.true & other.true, one.false | other.false)


# ---- all of it ---------------------------------------------------------------------------------

THIN = {"DOUBLE": 40, "FLOAT": 200, "INT64": 60, "STRING": 200}
"""One in so many verdicts of depth 3 is evaluated, so that it all takes minutes."""


def prove(share: Share) -> Tally:
    """Tries the whole world, or a process's share of it."""
    tally = Tally()
    prove_table(tally)
    found = {}
    for kind in KINDS:
        found[kind.name] = scene, tests = prove_column(kind, tally, share, thin=THIN[kind.name])
        prove_column(kind, tally, share, is_optional=False, thin=5 * THIN[kind.name])
        prove_partitions(kind, tally, share, scene, tests, thin=10)
        prove_reading(kind, tally, share, tests, thin=5)
        prove_rows([kind], tally, share)
    few = prove_column(ONE_OR_NULL, tally, share)
    prove_two_columns(tally, share, found["DOUBLE"], few, (KINDS[0].values, ONE_OR_NULL.values), thin=20)
    prove_rows(KINDS[:2], tally, share, thin=400)
    return tally


def main() -> None:
    """Prints the numbers of cases and differences, and the seconds."""
    tally = prove(Share(*map(int, sys.argv[1:])))
    print(tally.cases, tally.differences, round(time.process_time()))
    sys.exit(tally.differences != 0)


if __name__ == "__main__":
    main()
