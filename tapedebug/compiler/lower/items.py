"""The kinds of values of names and expressions in a kernel: numbers, structs, views, Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.ir import Param, Value
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of an axis: the elements `start + k * step` for `k` below `length` (int64)."""

    start: Value
    step: int | Value
    """A number if it is known when the kernel is compiled."""
    length: Value

    @property
    def numbers(self) -> list[Value]:
        """The values (int64) that it is made of."""
        return [self.start, self.length, *([self.step] if isinstance(self.step, Value) else [])]

    def remade(self, numbers: Iterator[Value]) -> Slice:
        """The slice made of other values."""
        start, length = next(numbers), next(numbers)
        return Slice(start, next(numbers) if isinstance(self.step, Value) else self.step, length)

    @property
    def form(self) -> int | str:
        """The step, if it is known: two slices with the same one differ in values only."""
        return "computed" if isinstance(self.step, Value) else self.step


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array parameter, perhaps with some of its indices given (`a[i]` of a 2-D array, `a[1:, j]`)."""

    param: Param
    indices: tuple[Value | Slice | None, ...] = ()
    """The choice on each axis: an index, a slice, or None for all of it, as on the axes that follow."""
    adjoint: bool = False
    """True for a view of the array's adjoint."""
    label: str = ""
    """Its name in messages, if that is not the parameter."""

    @property
    def name(self) -> str:
        """The name of the array in messages."""
        name = self.label or self.param.name
        return f"wp.adjoint[{name}]" if self.adjoint else name

    @property
    def type(self) -> t.ArrayType:
        """The type of the whole array."""
        found: t.ArrayType = self.param.type
        return found

    @property
    def shown(self) -> str:
        """The view in messages: `m[i, :]`."""
        letters = iter("ijkl")
        axes = [next(letters) if isinstance(index, Value) else ":" for index in self.indices]
        return f"{self.name}[{', '.join(axes)}]" if axes else self.name

    @property
    def free(self) -> int:
        """The number of indices that an element still needs."""
        return int(self.param.type.ndim) - sum(isinstance(index, Value) for index in self.indices)

    @property
    def form(self) -> tuple[Any, ...]:
        """The properties that two views share if they differ in numbers only."""
        kinds = [i.form if isinstance(i, Slice) else i is None for i in self.indices]
        return self.param, self.adjoint, tuple(kinds), len(self.numbers)

    @property
    def numbers(self) -> list[Value]:
        """The indices, starts and lengths (int64) that the view is made of."""
        found: list[Value] = []
        for index in self.indices:
            if isinstance(index, Slice):
                found += index.numbers
            elif index is not None:
                found.append(index)
        return found

    def remade(self, numbers: Iterator[Value]) -> ArrayView:
        """The view made of other numbers."""
        made: list[Value | Slice | None] = []
        for index in self.indices:
            if isinstance(index, Slice):
                made.append(index.remade(numbers))
            else:
                made.append(None if index is None else next(numbers))
        return replace(self, indices=tuple(made))


@dataclass(frozen=True, slots=True)
class StructArray:
    """An array of structs, perhaps with some of its indices given: one view a field, all with the same."""

    name: str
    type: t.ArrayType
    fields: tuple[ArrayView | StructArray | HeldArrays, ...]

    @property
    def kind(self) -> Any:
        """The struct."""
        return self.type.dtype

    @property
    def first(self) -> ArrayView:
        """The view of its first number, under the name of the whole."""
        inner = self.fields[0]
        return replace(inner if isinstance(inner, ArrayView) else inner.first, label=self.name)

    @property
    def shown(self) -> str:
        """The view in messages."""
        return self.first.shown

    @property
    def free(self) -> int:
        """The number of indices that an element still needs."""
        return self.first.free

    @property
    def form(self) -> tuple[Any, ...]:
        """See `ArrayView.form`."""
        return self.type, *self.first.form

    @property
    def numbers(self) -> list[Value]:
        """See `ArrayView.numbers`."""
        return self.first.numbers

    def at(self, indices: tuple[Value | Slice | None, ...]) -> StructArray:
        """The view with these indices on each field."""
        fields = (
            replace(view, indices=indices) if isinstance(view, ArrayView) else view.at(indices)
            for view in self.fields
        )
        return replace(self, fields=tuple(fields))

    def remade(self, numbers: Iterator[Value]) -> StructArray:
        """The view made of other numbers."""
        return self.at(self.first.remade(numbers).indices)


@dataclass(frozen=True, slots=True)
class IndexedView:
    """An indexed array: for each axis of `data` that has no index yet, a table of indices into it."""

    name: str
    type: t.IndexedArrayType
    data: ArrayView | StructArray
    tables: tuple[ArrayView, ...]

    @property
    def shown(self) -> str:
        """The view in messages."""
        return self.name

    @property
    def free(self) -> int:
        """The number of indices that an element still needs."""
        return len(self.tables)

    @property
    def form(self) -> tuple[Any, ...]:
        """See `ArrayView.form`."""
        return self.type, self.data.form, *(table.form for table in self.tables)

    @property
    def numbers(self) -> list[Value]:
        """See `ArrayView.numbers`."""
        return [*self.data.numbers, *(number for table in self.tables for number in table.numbers)]

    def remade(self, numbers: Iterator[Value]) -> IndexedView:
        """The view made of other numbers."""
        data = self.data.remade(numbers)
        return replace(self, data=data, tables=tuple(table.remade(numbers) for table in self.tables))


@dataclass(frozen=True, slots=True)
class HeldArrays:
    """The arrays that a field of the elements of an array of structs holds, one in each element."""

    data: ArrayView | StructArray
    """The memory of all of them."""
    places: ArrayView
    """The place of each of them in it; its indices are those of the array of structs."""
    type: t.ArrayType
    """The type of the field."""

    @property
    def first(self) -> ArrayView:
        """A view with the indices of the array of structs."""
        return self.places

    def at(self, indices: tuple[Value | Slice | None, ...]) -> HeldArrays:
        """The arrays of the elements with these indices."""
        return replace(self, places=replace(self.places, indices=indices))


@dataclass(frozen=True, slots=True)
class HeldView:
    """An array that an element of an array of structs holds, perhaps with some of its indices given."""

    data: ArrayView | StructArray
    """The memory in which it is."""
    type: t.ArrayType
    """The type of the whole array."""
    start: Value
    """The place of its first element (int64); negative for None."""
    axes: tuple[tuple[Value, Value], ...]
    """Length and stride (int64), in elements, of each axis that has no index yet."""

    @property
    def name(self) -> str:
        """The name of the array in messages."""
        return self.data.name

    @property
    def shown(self) -> str:
        """The view in messages."""
        return self.name

    @property
    def adjoint(self) -> bool:
        """True for a view of the array's adjoint."""
        return (self.data.first if isinstance(self.data, StructArray) else self.data).adjoint

    @property
    def free(self) -> int:
        """The number of indices that an element still needs."""
        return len(self.axes)

    @property
    def form(self) -> tuple[Any, ...]:
        """See `ArrayView.form`."""
        return "held", self.type, *self.data.form, self.free

    @property
    def numbers(self) -> list[Value]:
        """See `ArrayView.numbers`."""
        return [self.start, *(number for axis in self.axes for number in axis)]

    def remade(self, numbers: Iterator[Value]) -> HeldView:
        """The view made of other numbers."""
        start = next(numbers)
        axes = tuple((next(numbers), next(numbers)) for _ in self.axes)
        return replace(self, start=start, axes=axes)

    @property
    def element(self) -> ArrayView | StructArray:
        """The element, once all indices are given."""
        if isinstance(self.data, StructArray):
            return self.data.at((self.start,))
        return replace(self.data, indices=(self.start,))


@dataclass(frozen=True, slots=True)
class ChosenView:
    """One of two arrays of numbers or compound values, perhaps with some indices given: `x if a else y`."""

    condition: Value
    yes: Choice
    """The array if the condition holds."""
    no: Choice

    @property
    def name(self) -> str:
        """The names of the arrays in messages."""
        return f"{self.yes.name} or {self.no.name}"

    @property
    def type(self) -> t.ArrayType:
        """The type of one of the whole arrays."""
        return self.yes.type

    @property
    def shown(self) -> str:
        """The view in messages."""
        return f"{self.yes.shown} or {self.no.shown}"

    @property
    def free(self) -> int:
        """The number of indices that an element still needs."""
        return self.yes.free

    @property
    def adjoint(self) -> bool:
        """True for a view of the arrays' adjoints."""
        return self.yes.adjoint

    @property
    def form(self) -> tuple[Any, ...]:
        """See `ArrayView.form`."""
        return "chosen", self.yes.form, self.no.form

    @property
    def numbers(self) -> list[Value]:
        """The condition (bool), and the indices, starts and lengths (int64) of both views."""
        return [self.condition, *self.yes.numbers, *self.no.numbers]

    def remade(self, numbers: Iterator[Value]) -> ChosenView:
        """The view made of other numbers."""
        condition = next(numbers)
        yes = self.yes.remade(numbers)
        return ChosenView(condition, yes, self.no.remade(numbers))


Choice = ArrayView | HeldView | ChosenView

View = ArrayView | StructArray | IndexedView | HeldView | ChosenView
"""Items that are indexed to reach memory."""


@dataclass(frozen=True, slots=True)
class StructValue:
    """A value of a struct type: what each of its fields holds."""

    kind: type[t.Struct]
    fields: tuple[Item, ...]

    def get(self, name: str) -> Item:
        """Return the value of a field."""
        return self.fields[list(self.kind.fields).index(name)]

    def put(self, path: tuple[str, ...], item: Item) -> StructValue:
        """The value with another field, at any depth."""
        name, *rest = path
        inner = self.get(name)
        if rest:
            assert isinstance(inner, StructValue)
            item = inner.put(tuple(rest), item)
        place = list(self.kind.fields).index(name)
        return StructValue(self.kind, (*self.fields[:place], item, *self.fields[place + 1 :]))


@dataclass(frozen=True, slots=True)
class Static:
    """A Python object known at compile time: a module, a type, a function, a number."""

    value: Any


@dataclass(frozen=True, slots=True)
class Undefined:
    """A variable that is assigned on some paths only, or means nothing."""

    reason: str
    hint: str | None = None
    early: tuple[Any, Any] | None = None
    """Key in `Context.early` and item after it, for a variable that a loop or one branch assigns first."""
    branch: Span | None = None
    """The `if`, for a variable that one branch assigns."""


@dataclass(frozen=True, slots=True)
class Items:
    """Several values at once: a tuple."""

    items: tuple[Item, ...]


Item = Quantity | View | StructValue | Static | Undefined | Items
