"""Where the columns of a table are in one of its files: here, nowhere, or that is not known.

A column may have another name in a file than in the table. What is understood is listed here, and all else is unknown:

    files                           a column is
    Iceberg, all nodes have ids     where the ids on the way to it are
    Iceberg, no node has one        where the table's mapping of names puts these ids
    Delta, mapped by name           at its physical path
    Delta, mapped by id             at its physical path, if its id is there and nowhere else
    of other tables                 at its own path

Wherever names decide, each is one column's, and lists and maps are nested as Parquet's rules have it. A file that lacks
a column has the column's initial default in its rows, or NULL: so say the rules of the two formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn, Repetition, format_path
from parquet_bloom.tables.live_files import LiveFile, Unproved


class Columns(Protocol):
    """The leaf columns of a file: a footer, or what else knows them."""

    @property
    def leaves(self) -> tuple[LeafColumn, ...]:
        """The leaf columns, under their names in the file."""

    @property
    def node_ids(self) -> tuple[tuple[int | None, ...], ...]:
        """The ids that the file's schema gives the nodes on the path to each leaf; or the leaf's alone."""

    @property
    def renamed_leaves(self) -> dict[Hashable, tuple[LeafColumn, ...]]:
        """The leaves under the names that a session has for them, kept here once they were made."""


@dataclass(frozen=True, slots=True)
class Here:
    """The file has the column, at this path."""

    path: ColumnPath


@dataclass(frozen=True, slots=True)
class Lacking:
    """The file does not have the column: its rows have the column's initial default, or NULL."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is not known whether the file has the column, or where."""

    reason: str


Place = Here | Lacking | Unknown


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a table's columns are in files of one schema.

    `leaves` are the file's under the table's names; one that is no column of the table is below a column "". `aligned`
    has a name for each node on the path to each leaf: the table's, or one that the table cannot have. `paths` are those
    in the file by the table's. Of the top-level columns in `unknown` it is not known where they are, each with why.
    `ids` are those of fields that are in their place. Of the top-level columns in `doubtful` such a file proves
    nothing, although it may be known where they are, each with why.
    """

    leaves: tuple[LeafColumn, ...]
    aligned: tuple[ColumnPath, ...]
    paths: Mapping[ColumnPath, ColumnPath]
    unknown: Unproved = frozenset()
    ids: frozenset[int | None] = frozenset()
    spellings: Mapping[ColumnPath, str] = field(default_factory=dict)
    doubtful: Unproved = frozenset()

    def of(self, path: ColumnPath) -> Place:
        """Return where the table's column at `path` is, a leaf; or a top-level column that the file lacks."""
        if (reason := dict(self.unknown).get(path[0])) is not None:
            return Unknown(reason)
        if (own := self.paths.get(path)) is not None:
            return Here(own)
        other = self.spellings.get(tuple(part.casefold() for part in path))
        return Lacking() if other is None else Unknown(_spelled(other))


def _spelled(other: str) -> str:
    return f"the file has {other}, which some engines take for this column, and others do not"


class Naming:
    """How the files of a table call its columns."""

    renames: ClassVar[bool] = False
    """Whether a column may have another name in a file."""
    retypes: ClassVar[bool] = False
    """Whether a column may have another type in a file than the table declares."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Any, Any, Placement]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    @property
    def no_dataset(self) -> str | None:
        """Return why the columns of the files are not the table's, or None."""
        return OTHERS if self.renames else None

    def unread(self, file: LiveFile, footer: Footer) -> dict[str, str]:
        """Return the columns whose values a file does not tell although it may be known where they are."""
        return {}

    def hides(self, name: str) -> bool:
        """Return whether the values of a top-level column in files are not the table's."""
        return False

    def field_id(self, path: ColumnPath) -> int | None:
        """Return the table's id of a field; None if it has none."""
        return None

    def place(self, columns: Columns) -> Placement:
        """Return where the table's columns are in a file; it is worked out once for all that share a schema."""
        leaves, ids = columns.leaves, columns.node_ids
        key = id(leaves), id(ids)
        if (known := self._known.get(key)) is None:
            if len(self._known) >= _MEMO_SIZE:
                self._known.clear()
            # holding both keeps their ids from being others'
            known = self._known[key] = leaves, ids, self._placed(leaves, ids)
        return known[2]

    def _placed(self, leaves: Sequence[LeafColumn], ids: Sequence[Sequence[int | None]]) -> Placement:
        raise NotImplementedError


_MEMO_SIZE = 256

OTHERS = "columns may have other names or values in them"
"""Why the files of a table are not read as they are."""


# ---- by their own names ----------------------------------------------------------------------


class ByName(Naming):
    """Files call columns as the table does. The values of the `hidden` top-level columns are not the table's."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._hidden = hidden

    def hides(self, name: str) -> bool:
        """Return whether the values of a top-level column in files are not the table's."""
        return name in self._hidden

    def _placed(self, leaves: Sequence[LeafColumn], ids: Sequence[Sequence[int | None]]) -> Placement:
        shown = [leaf.path for leaf in leaves if leaf.path[0] not in self._hidden]
        names: list[ColumnPath] = [*shown, *((path[0],) for path in shown)]
        spellings = {tuple(part.casefold() for part in path): format_path(path) for path in names}
        seen = _seen(leaves, [None if leaf.path[0] in self._hidden else leaf.path for leaf in leaves])
        return Placement(seen, tuple(leaf.path for leaf in seen), {path: path for path in shown}, spellings=spellings)


def _seen(leaves: Sequence[LeafColumn], paths: Sequence[ColumnPath | None]) -> tuple[LeafColumn, ...]:
    """Return a file's leaves under the table's names; None for what is no column of the table."""
    if all(leaf.path == path for leaf, path in zip(leaves, paths, strict=True)):
        return leaves if isinstance(leaves, tuple) else tuple(leaves)
    return tuple(
        replace(leaf, path=("", *leaf.path) if path is None else path) for leaf, path in zip(leaves, paths, strict=True)
    )


# ---- by ids, or a mapping of names to them ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mapped:
    """A field's id, the names that files may have for it, and the fields below it: `element`, `key`, `value`."""

    names: frozenset[str]
    field_id: int | None
    fields: tuple[Mapped, ...] = ()


_Way = tuple[int | None, ...]
"""The ids of the fields on the way to a node of a schema, its own included."""


class _Step(NamedTuple):
    """A node on the path to a leaf that is a field: how deep it is, and its id, if it has one."""

    depth: int
    field_id: int | None


class _Tree:
    """The nodes of a file's schema by number: of each leaf those on its path, and of each node its children's names.

    `alike` are names in the file that are not mapped to the field, by its id, that some engine may take them for.
    """

    def __init__(self, leaves: Sequence[LeafColumn]) -> None:
        self.leaves = leaves
        self.ways: list[list[int]] = []
        self.children: list[list[str]] = [[]]
        self.alike: dict[int, str] = {}
        known: dict[tuple[int, str], int] = {}
        for leaf in leaves:
            way, at = [], 0
            for name in leaf.path:
                if (node := known.get((at, name))) is None:
                    node = known[at, name] = len(self.children)
                    self.children[at].append(name)
                    self.children.append([])
                way.append(node)
                at = node
            self.ways.append(way)

    def role(self, at: int, depth: int) -> str | None:
        """Return what a child of a repeated group is, by Parquet's rules for lists and maps; None if that is not sure.

        `depth` is the child's on the path to leaf number `at`.
        """
        path, beside = self.leaves[at].path, self.children[self.ways[at][depth - 1]]
        if sorted(beside) == ["key", "value"]:
            return path[depth]
        is_element = path[depth - 1] in ("array", f"{path[depth - 2]}_tuple")
        return "element" if len(beside) == 1 and not is_element else None


class ByIds(Naming):
    """Each field of a table has an id: those in files decide, or a mapping of the files' names to ids.

    `fields` are the ids on the way to each field of the table, groups included, by its path; an id of less than 0 is
    none of the table's own. `mapping` is why there is none, where it is a text.
    """

    renames = True

    def __init__(
        self,
        fields: Mapping[ColumnPath, tuple[int, ...]],
        mapping: tuple[Mapped, ...] | str,
        ids: Literal["decide", "agree", "are ignored"],
    ) -> None:
        super().__init__()
        self._fields, self._mapping, self._ids = fields, mapping, ids
        self._way: dict[int | None, _Way] = {way[-1]: way for way in fields.values()}
        self._names: dict[int | None, str] = {way[-1]: path[-1] for path, way in fields.items()}
        self._top: dict[int | None, str] = {way[-1]: path[0] for path, way in fields.items()}
        groups = {way[:-1] for way in fields.values()}
        self._leaves: dict[_Way, ColumnPath] = {way: path for path, way in fields.items() if way not in groups}
        self._alike: dict[tuple[_Way, str], int] = {}
        """What some engine may take for a field, by the ids above it and the name."""

    @classmethod
    def of_iceberg(cls, fields: Mapping[ColumnPath, tuple[int, ...]], mapping: tuple[Mapped, ...] | str) -> ByIds:
        """Return Iceberg's rule: the ids in a file decide, and the mapping where it has none."""
        naming = cls(fields, mapping, "decide")
        naming._alike = {(way[:-1], path[-1]): way[-1] for path, way in fields.items()}
        return naming

    @classmethod
    def of_delta(
        cls, fields: Mapping[ColumnPath, tuple[int, ...]], mapping: tuple[Mapped, ...], *, by_id: bool
    ) -> ByIds:
        """Return Delta's: physical names decide, which engines may find in another case; `by_id` ids must agree."""
        naming = cls(fields, mapping, "agree" if by_id else "are ignored")
        naming._alike = dict(_folded_names(mapping))
        return naming

    def field_id(self, path: ColumnPath) -> int | None:
        """Return the table's id of a field; None if it has none."""
        field_id = self._fields.get(path, (-1,))[-1]
        return field_id if field_id >= 0 else None

    def _placed(self, leaves: Sequence[LeafColumn], ids: Sequence[Sequence[int | None]]) -> Placement:
        tree, doubts = _Tree(leaves), _Doubts(self._top)
        own = [_own_steps(leaf, of_leaf) for leaf, of_leaf in zip(leaves, ids, strict=True)]
        given = {step.field_id is not None for steps in own for step in steps}
        if self._ids == "decide" and True in given:
            steps = own
            if False in given:
                doubts.of_all("some of the file's columns have field ids, and others have none")
        elif isinstance(self._mapping, str):
            steps = [[] for _ in leaves]
            doubts.of_all(self._mapping)
        else:
            steps = [self._mapped(tree, at, self._mapping, doubts) for at in range(len(leaves))]
            if self._ids == "agree":
                self._compare(own, steps, doubts)
        return self._settled(tree, steps, doubts)

    def _mapped(self, tree: _Tree, at: int, fields: tuple[Mapped, ...], doubts: _Doubts) -> list[_Step]:
        """Return the nodes on the path to a leaf that the mapping has, down to the first that it has not."""
        leaf, steps, last = tree.leaves[at], list[_Step](), len(tree.leaves[at].path) - 1
        is_below_repeated = False
        for depth, (name, repetition) in enumerate(zip(leaf.path, leaf.nodes, strict=True)):
            role = tree.role(at, depth) if is_below_repeated else name
            found = [one for one in fields if role in one.names]
            if repetition is Repetition.REPEATED:
                if not steps or is_below_repeated or depth == last:
                    doubts.of([each.field_id for each in (steps[:1] or found)], _LISTS)
                    tree.alike |= {} if found else self._alike_to(steps, name)
                    return steps
                is_below_repeated = True
                continue
            if is_below_repeated and len(found) != 1:
                doubts.of([steps[0].field_id], _LISTS)
                return steps
            if len(found) != 1 or found[0].field_id is None:
                doubts.of([one.field_id for one in found], f"the table maps {name} to more than one column")
                tree.alike |= self._alike_to(steps, name)
                return steps
            steps.append(_Step(depth, found[0].field_id))
            fields, is_below_repeated = found[0].fields, False
        return steps

    def _alike_to(self, steps: Sequence[_Step], name: str) -> dict[int, str]:
        """Return the field, by its id, that some engine may take a name for which the mapping does not have."""
        above = tuple(step.field_id for step in steps)
        found = self._alike.get((above, name if self._ids == "decide" else name.casefold()))
        return {} if found is None else {found: name}

    def _compare(self, own: Sequence[Sequence[_Step]], steps: Sequence[Sequence[_Step]], doubts: _Doubts) -> None:
        """Doubt the columns whose ids in a file are not those of the fields that it has by their names."""
        for of_file, of_names in zip(own, steps, strict=True):
            found, wanted = dict(of_file), dict(of_names)
            for depth in found.keys() | wanted.keys():
                own_id, field_id = found.get(depth), wanted.get(depth)
                has_id = field_id is not None and field_id > 0  # below lists and maps Delta has none
                if own_id != field_id:
                    reason = "the file has another field id at this column's name, or its id at another name"
                    doubts.of([own_id, field_id] if has_id else [own_id], reason)

    def _settled(self, tree: _Tree, steps: Sequence[Sequence[_Step]], doubts: _Doubts) -> Placement:
        nodes: dict[int | None, set[int]] = {}
        for way, of_leaf in zip(tree.ways, steps, strict=True):
            for step in of_leaf:
                nodes.setdefault(step.field_id, set()).add(way[step.depth])
        shared = [at for at, found in nodes.items() if len(found) > 1]
        doubts.of(shared, "several columns of the file have its field id, or a name that the table maps to it")
        for at, name in tree.alike.items():
            if at not in nodes:
                doubts.of([at], f"the file has a column {name}, which the table does not map to this one")
        paths = [self._path(leaf, of_leaf, doubts) for leaf, of_leaf in zip(tree.leaves, steps, strict=True)]
        twice = [path for path, count in Counter(path for path in paths if path is not None).items() if count > 1]
        doubts.of([self._fields[path][-1] for path in twice], "the file has it twice")
        sure = [
            [] if of_leaf and self._top.get(of_leaf[0].field_id, "") in doubts.reasons else of_leaf for of_leaf in steps
        ]
        kept = [path if of_leaf else None for path, of_leaf in zip(paths, sure, strict=True)]
        return Placement(
            _seen(tree.leaves, kept),
            tuple(self._aligned(leaf, of_leaf) for leaf, of_leaf in zip(tree.leaves, sure, strict=True)),
            {path: leaf.path for path, leaf in zip(kept, tree.leaves, strict=True) if path is not None},
            frozenset(doubts.reasons.items()),
            frozenset(step.field_id for of_leaf in sure for step in of_leaf),
        )

    def _path(self, leaf: LeafColumn, steps: Sequence[_Step], doubts: _Doubts) -> ColumnPath | None:
        """Return what the table calls a leaf, None for what it does not have; doubt what fits neither."""
        way = tuple(step.field_id for step in steps)
        is_whole = bool(steps) and steps[-1].depth == len(leaf.path) - 1
        path = self._leaves.get(way) if is_whole else None
        if path is not None and leaf.nodes.count(Repetition.REPEATED) == len(path) - len(way):
            return path
        known = [end for end, at in enumerate(way, 1) if at in self._way]
        is_group = all(self._way[way[end - 1]] == way[:end] and way[:end] not in self._leaves for end in known)
        if not is_group or (is_whole and way[-1] in self._way):
            doubts.of(way, "the file nests it, or what is below it, in another way than the table")
        return None

    def _aligned(self, leaf: LeafColumn, steps: Sequence[_Step]) -> ColumnPath:
        names = [
            part if steps and repetition is Repetition.REPEATED else f"\0{part}"
            for part, repetition in zip(leaf.path, leaf.nodes, strict=True)
        ]
        for depth, at in steps:
            names[depth] = self._names.get(at, names[depth])
        return tuple(names) if steps and steps[0].field_id in self._top else ("", *names[1:])


class _Doubts:
    """The top-level columns of a table of which it is not known where they are, each with why."""

    def __init__(self, top: Mapping[int | None, str]) -> None:
        self._top = top
        self.reasons: dict[str, str] = {}

    def of(self, ids: Iterable[int | None], reason: str) -> None:
        """Doubt those that have one of these ids, or a field below them has."""
        for at in ids:
            if (name := self._top.get(at)) is not None:
                self.reasons.setdefault(name, reason)

    def of_all(self, reason: str) -> None:
        """Doubt all columns."""
        self.of(self._top, reason)


def _own_steps(leaf: LeafColumn, ids: Sequence[int | None]) -> list[_Step]:
    """Return the nodes on the path to a leaf with the ids that the file gives them; repeated groups need none."""
    last = len(leaf.path) - 1
    if len(ids) <= last:
        return [_Step(last, ids[-1])]
    return [
        _Step(depth, at)
        for depth, (at, repetition) in enumerate(zip(ids, leaf.nodes, strict=True))
        if at is not None or repetition is not Repetition.REPEATED or depth == last
    ]


def _folded_names(fields: Iterable[Mapped], above: _Way = ()) -> Iterator[tuple[tuple[_Way, str], int]]:
    for one in fields:
        if one.field_id is not None:
            yield from (((above, name.casefold()), one.field_id) for name in one.names)
            yield from _folded_names(one.fields, (*above, one.field_id))


_LISTS = "the file nests a list or a map in another way than Parquet's rules"


# ---- mappings --------------------------------------------------------------------------------

UNMAPPED = "the file has no field ids, and the table does not map names to them"


def name_mapping(text: str | None) -> tuple[Mapped, ...] | str:
    """Return the mapping in Iceberg's property `schema.name-mapping.default`; or why there is none."""
    if text is None:
        return UNMAPPED
    try:
        return _mapped_fields(json.loads(text))
    except (ValueError, TypeError, LookupError, RecursionError):
        return f"{UNMAPPED} in a way that is understood (schema.name-mapping.default)"


def _mapped_fields(given: Any) -> tuple[Mapped, ...]:
    if not isinstance(given, list):
        raise TypeError(given)
    return tuple(map(_mapped_field, given))


def _mapped_field(given: Any) -> Mapped:
    names, field_id = given["names"], given.get("field-id")
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not are_names or type(field_id) not in (int, type(None)) or given.keys() - {"names", "field-id", "fields"}:
        raise TypeError(given)
    return Mapped(frozenset(names), field_id, _mapped_fields(given.get("fields") or []))
