"""pyarrow's expressions become predicates.

An `Expression` has no public attributes, but it can be pickled. The pickle is an Arrow file of one row: its columns are
the literals, and the schema's metadata lists the calls and their arguments, key after key:

    call equal | field_ref id | literal 0 | end equal

The result is built again with pyarrow's own operators. If that does not equal the given expression, the pickle was
misread, and the whole condition is `Opaque`. An unknown call is `Opaque`, and the rest is used.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from parquet_bloom.format.schema import ColumnPath
from parquet_bloom.predicates.tree import MIRRORED, And, Comparison, Constant, In, IsNull, Not, Opaque, Or, Predicate
from parquet_bloom.values.interchange import python_value


def from_expression(expression: Any) -> Predicate:
    """Return the predicate of a pyarrow `Expression`; what is not understood is `Opaque`.

    >>> import pyarrow.compute as pc
    >>> str(from_expression((pc.field("id") == 5) & pc.starts_with(pc.field("name"), "a")))
    'id = 5 AND starts_with(name, {pattern="a", ignore_case=false})'
    """
    try:
        read = _Pickle(expression).read()
        if read.built.equals(expression) and (predicate := _condition(read)) is not None:
            return predicate
    except Exception:  # pickles of another version may fail in any way, and then prove nothing
        pass
    return _opaque(expression)


def _opaque(expression: Any) -> Opaque:
    text = " ".join(str(expression).split())
    return Opaque(text if len(text) <= 200 else text[:199] + "…")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: as pyarrow builds it, and what it means."""

    built: Any
    meaning: Predicate | ColumnPath | _Literal


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any


@dataclass(slots=True)
class _Call:
    name: str
    start: int
    parts: list[_Part] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


class _Pickle:
    def __init__(self, expression: Any) -> None:
        import pyarrow as pa

        self._restore, (data,) = expression.__reduce__()
        self._batch = pa.ipc.open_file(data).get_batch(0)
        self._tokens = list(_metadata(self._batch.schema))

    def read(self) -> _Part:
        import pyarrow.compute as pc

        root = _Call("", 0)
        calls = [root]
        at = 0
        while at < len(self._tokens):
            key, text = self._tokens[at]
            match key:
                case "call":
                    calls.append(_Call(text, at))
                case "field_ref":
                    calls[-1].parts.append(_Part(pc.field(text), (text,)))
                case "nested_field_ref":
                    names = self._names(at, int(text))
                    at += len(names)
                    calls[-1].parts.append(_Part(pc.field(names), names))
                case "literal":
                    scalar = self._batch.column(int(text))[0]
                    calls[-1].parts.append(_Part(pc.scalar(scalar), _Literal(python_value(scalar))))
                case "options":
                    scalar = self._batch.column(int(text))[0]
                    calls[-1].options = dict(scalar.items())
                case "end":
                    call = calls.pop()
                    if call.name != text:
                        raise ValueError(f"{call.name} ends as {text}")
                    calls[-1].parts.append(_understood(call) or self._unknown(call, at + 1))
                case _:
                    raise ValueError(f"{key} is not known")
            at += 1
        (part,) = root.parts
        return part

    def _names(self, at: int, count: int) -> tuple[str, ...]:
        following = self._tokens[at + 1 : at + 1 + count]
        if len(following) < count or any(key != "field_ref" for key, _ in following):
            raise ValueError("names are missing")
        return tuple(name for _, name in following)

    def _unknown(self, call: _Call, stop: int) -> _Part:
        """Return a call that is not known as the pickle of it alone gives it back."""
        import pyarrow as pa

        metadata = pa.KeyValueMetadata(self._tokens[call.start : stop])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._batch.schema.with_metadata(metadata)) as file:
            file.write(self._batch.replace_schema_metadata(metadata))
        built = self._restore(sink.getvalue())
        return _Part(built, _opaque(built))


_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "equal": ("=", operator.eq),
    "not_equal": ("<>", operator.ne),
    "less": ("<", operator.lt),
    "less_equal": ("<=", operator.le),
    "greater": (">", operator.gt),
    "greater_equal": (">=", operator.ge),
}


def _understood(call: _Call) -> _Part | None:
    """Return what a call of a known function means, None where it is another or has arguments of another kind."""
    meanings = [part.meaning for part in call.parts]
    conditions = [condition for part in call.parts if (condition := _condition(part)) is not None]
    built = [part.built for part in call.parts]
    if call.name in _COMPARISONS:
        op, build = _COMPARISONS[call.name]
        match meanings:
            case [tuple() as column, _Literal(value)]:
                return _Part(build(*built), Comparison(op, column, value))
            case [_Literal(value), tuple() as column]:
                return _Part(build(*built), Comparison(MIRRORED[op], column, value))
    match call.name, conditions, meanings:
        case "and_kleene", [left, right], _:
            return _Part(built[0] & built[1], left & right)
        case "or_kleene", [left, right], _:
            return _Part(built[0] | built[1], left | right)
        case "invert", [only], _:
            return _Part(~built[0], Not(only))
        case "is_valid", _, [tuple() as column]:
            return _Part(built[0].is_valid(), IsNull(column, is_negated=True))
        case "is_null", _, [tuple() as column] if not call.options["nan_is_null"].as_py():
            return _Part(built[0].is_null(), IsNull(column))
        case "is_in", _, [tuple() as column]:
            values = call.options["value_set"].values
            return _Part(built[0].isin(values), _is_in(column, values))
    return None


def _condition(part: _Part) -> Predicate | None:
    """Return what a part means as a condition: a column of booleans is one, too, but not one that is used here."""
    match part.meaning:
        case Predicate() as predicate:
            return predicate
        case _Literal(bool() as is_true):
            return Constant(is_true)
        case tuple():
            return _opaque(part.built)
    return None


def _is_in(column: ColumnPath, values: Any) -> Predicate:
    """Return what `isin` means: for NULL it is true where NULL is among the values and else false, never unknown."""
    listed = In(column, tuple(python_value(scalar) for scalar in values if scalar.is_valid))
    if values.null_count:
        return Or((listed, IsNull(column)))
    return And((listed, IsNull(column, is_negated=True)))


# ---- metadata ----------------------------------------------------------------------------


class _ArrowSchema(ctypes.Structure):
    """How the struct of Arrow's C data interface begins."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield a schema's metadata in order, with keys that are there more than once: `Schema.metadata` is a dict.

    count | length of key | key | length of value | value | …    (lengths are int32)
    """
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = schema.__arrow_c_schema__()  # what it points to lives as long as it does
    at = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata

    def number() -> int:
        nonlocal at
        value = ctypes.c_int32.from_address(at).value
        at += 4
        return value

    def text() -> str:
        nonlocal at
        length = number()
        data = ctypes.string_at(at, length)
        at += length
        return data.decode()

    for _ in range(number()):
        yield text(), text()
