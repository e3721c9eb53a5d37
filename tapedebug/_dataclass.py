"""`dataclass` as in `dataclasses`, whose methods are written when they are first used.

The standard decorator compiles up to six functions a class, which takes half a millisecond. A diagnosis loads
some 220 data classes, which took a third of the time of its imports; most have methods that it never calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

C = TypeVar("C")


class _Unwritten:
    """A method of a data class that is not written yet; the first look-up writes all of the class.

    Attributes:
        name: The name of the method.
        write: Puts the methods in the place of these objects.
    """

    __slots__ = ("name", "write")

    def __init__(self, name: str, write: Callable[[], type]) -> None:
        self.name = name
        self.write = write

    def __get__(self, instance: object, owner: type) -> Any:
        """Return the method, of an instance or of the class."""
        function = self.write().__dict__[self.name]
        return function if instance is None else MethodType(function, instance)


def _writer(cls: type, **options: bool) -> Callable[[], type]:
    """Return the function that writes the methods of a data class and returns the class.

    They are taken from a class with the same fields, made by the standard decorator.
    """

    def write() -> type:
        fields = {field.name: field for field in dataclasses.fields(cls)}
        known = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        if hasattr(cls, "__post_init__"):
            known["__post_init__"] = cls.__post_init__
        known["__annotations__"] = {name: field.type for name, field in fields.items()}
        twin: type = dataclasses.dataclass(
            type(cls.__name__, (), known | fields), match_args=False, **options
        )
        for name, value in [*cls.__dict__.items()]:
            if isinstance(value, _Unwritten):
                setattr(cls, name, twin.__dict__[name])
        return cls

    return write


def _freeze(cls: type) -> None:
    """Make the fields of a class raise an error when they are assigned or deleted."""
    names = frozenset(cls.__dict__["__dataclass_fields__"])

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    cls.__setattr__ = __setattr__  # type: ignore[assignment,method-assign]  # of the class, not of this function
    cls.__delattr__ = __delattr__  # type: ignore[assignment,method-assign]


def _values(self: object) -> list[Any]:
    """Return the values of all fields, which are the state of a frozen class with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]  # type: ignore[arg-type]


def _set_values(self: object, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):  # type: ignore[arg-type]
        object.__setattr__(self, field.name, value)


def _make(cls: type[C], *, frozen: bool, eq: bool, repr: bool, slots: bool, kw_only: bool) -> type[C]:
    own = cls.__dict__
    explicit = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    names = {"__init__", *(["__repr__"] if repr else ()), *(["__eq__"] if eq else ())} - own.keys()
    if eq and not explicit:
        if frozen:
            names.add("__hash__")
        else:
            made.__hash__ = None  # type: ignore[assignment]
    write = _writer(made, frozen=frozen, eq=eq, repr=repr, slots=slots)
    for name in names:
        setattr(made, name, _Unwritten(name, write))
    if frozen:
        _freeze(made)
        if slots and "__getstate__" not in own:
            made.__getstate__ = _values  # type: ignore[method-assign]
            made.__setstate__ = _set_values  # type: ignore[attr-defined]
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots=False, kw_only=False):
        """Make a data class: `dataclasses.dataclass`, with those of its options that this package uses."""

        def decorate(cls: type[C]) -> type[C]:
            return _make(cls, frozen=frozen, eq=eq, repr=repr, slots=slots, kw_only=kw_only)

        return decorate if cls is None else decorate(cls)
