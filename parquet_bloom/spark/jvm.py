"""Spark's own plan, copied with other byte ranges, through its JVM."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple


class Range(NamedTuple):
    """Bytes of a file; what has its midpoint there is read."""

    start: int
    length: int


class Choice(NamedTuple):
    """A split to read: `range` of the file of the split numbered `piece`, with that one's place and partitions."""

    piece: int
    range: Range


class _Java:
    """Does things to many objects of the JVM in few calls, each of which takes py4j a tenth of a millisecond or more.

    What is done to each is composed of method handles, and Java's streams apply it.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway, self.jvm = gateway, gateway.jvm
        invoke = self.jvm.java.lang.invoke
        self._handles, self._handle, self._type = invoke.MethodHandles, invoke.MethodHandle, invoke.MethodType
        self._lookup, self._proxies = self._handles.publicLookup(), invoke.MethodHandleProxies
        self._class_type = self.jvm.java.lang.Class
        self._joined = self.jvm.java.util.stream.Collectors.joining("\n")
        self._listed = self.jvm.java.util.stream.Collectors.toList()
        self._functions: dict[tuple[str, ...], Any] = {}
        self._separator = self.jvm.java.util.regex.Pattern.compile(_BETWEEN)
        self._no_texts = gateway.new_array(self.jvm.java.lang.String, 0)

    def array_of(self, texts: Sequence[str]) -> Any:
        """Return texts as an array of Java's; none may be empty."""
        return self._separator.split(_BETWEEN.join(texts)) if texts else self._no_texts

    def list_of(self, sequence: Any) -> Any:
        """Return a Scala sequence as a Java list."""
        return self.jvm.scala.collection.JavaConverters.seqAsJavaList(sequence)

    def sequence(self, java_list: Any) -> Any:
        """Return a Java list as a Scala sequence."""
        return self.jvm.org.apache.spark.api.python.PythonUtils.toSeq(java_list)

    def flattened(self, items: Any, field: str) -> Any:
        """Return the members of each item's array `field` as one list."""
        if items.isEmpty():
            return items
        arrays = items.stream().map(self._getter(items, field))
        return arrays.flatMap(self._function("java.util.Arrays", "stream", "[Ljava.lang.Object;")).collect(self._listed)

    def texts(self, items: Any, field: str) -> list[str]:
        """Return each item's `field` as text; a path among them must be percent-encoded, for lines part them."""
        if items.isEmpty():
            return []
        text = self._function("java.util.Objects", "toString", "java.lang.Object")
        lines: str = items.stream().map(self._getter(items, field)).map(text).collect(self._joined)
        return lines.split("\n")

    def copies(self, splits: Any, chosen: list[Choice]) -> Any:
        """Return, for each choice, a copy of its split that starts and ends elsewhere.

        In Java it would be a loop over `chosen`:

            split = splits.get(piece)
            copies.add(new PartitionedFile(split.field1, split.field2, range.start, range.length, split.field5, ...))

        Here the body of the loop is a handle, and each step takes arguments away from it until none is left:

            make(field1, field2, start, length, field5, ...)    the constructor
            make(field1, field2, field5, ...)                   length = lengths.get(), start = starts.get()
            make(split, split, split, ...)                      fieldN = split.copy$default$N(), which Scala generates
            make(split)                                         all fields are those of one split
            make()                                              split = splits.get(pieces.get())

        `pieces`, `starts` and `lengths` are buffers of the choices' numbers, whose `get` returns one after the other.
        """
        if not chosen:
            return self.jvm.java.util.ArrayList()
        handles, kind = self._handles, splits[0].getClass()
        (constructor,) = kind.getConstructors()
        fields = range(1, constructor.getParameterCount() + 1)
        own = [self._method(kind, f"copy$default${field}") for field in fields if field not in _START_AND_LENGTH]
        make = self._lookup.unreflectConstructor(constructor)
        make = handles.collectArguments(make, 3, self._next("Long", [choice.range.length for choice in chosen]))
        make = handles.collectArguments(make, 2, self._next("Long", [choice.range.start for choice in chosen]))
        make = handles.filterArguments(make, 0, self._array(self._handle, own))
        every_field = self._array(self.jvm.int, [0] * len(own))  # is of the same split
        make = handles.permuteArguments(make, self._type.methodType(kind, kind), every_field)
        get = self._method(self._class("java.util.List"), "get", self.jvm.java.lang.Integer.TYPE).bindTo(splits)
        split = handles.collectArguments(get, 0, self._next("Int", [choice.piece for choice in chosen]))
        make = handles.collectArguments(make, 0, split.asType(self._type.methodType(kind)))
        supplier = self._as("java.util.function.Supplier", make)
        return self.jvm.java.util.stream.Stream.generate(supplier).limit(len(chosen)).collect(self._listed)

    def _next(self, kind: str, numbers: list[int]) -> Any:
        """Return a handle that returns one number after the other."""
        data = struct.pack(f">{len(numbers)}{'q' if kind == 'Long' else 'i'}", *numbers)
        buffer = getattr(self.jvm.java.nio.ByteBuffer.wrap(bytearray(data)), f"as{kind}Buffer")()
        return self._method(self._class(f"java.nio.{kind}Buffer"), "get").bindTo(buffer)

    def _getter(self, items: Any, field: str) -> Any:
        return self._function(items[0].getClass().getName(), field)

    def _function(self, kind: str, name: str, *parameters: str) -> Any:
        """Return a method of one argument, or the getter of a field, as a java.util.function.Function."""
        key = kind, name, *parameters
        if key not in self._functions:
            method = self._method(self._class(kind), name, *map(self._class, parameters))
            self._functions[key] = self._as("java.util.function.Function", method)
        return self._functions[key]

    def _method(self, kind: Any, name: str, *parameters: Any) -> Any:
        return self._lookup.unreflect(kind.getMethod(name, self._array(self._class_type, parameters)))

    def _as(self, interface: str, handle: Any) -> Any:
        return self._proxies.asInterfaceInstance(self._class(interface), handle)

    def _class(self, name: str) -> Any:
        return self._class_type.forName(name)

    def _array(self, kind: Any, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array


@functools.lru_cache(maxsize=1)
def internals_of(gateway: Any) -> _Java:
    """Return the one of a gateway, which remembers its functions: to find them takes most of the calls."""
    return _Java(gateway)


_BETWEEN = "\0"  # which no path has
_START_AND_LENGTH = (3, 4)  # of the fields of a split, counted from one
