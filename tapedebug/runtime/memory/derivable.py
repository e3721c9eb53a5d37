"""Classes that programs derive from arrays, with constructors of their own."""

from __future__ import annotations

from typing import Any

from tapedebug._errors import ArrayError


class Derivable:
    """A base of array classes whose `__new__` makes the instance; programs may derive classes from them.

    An instance of such a class is an array with attributes of its own: launches, tapes and functions of
    arrays take it; its views and results are instances of the base. Its `__init__` calls that of the base.
    """

    __slots__ = ()

    def __init_subclass__(cls, *, by_program: bool = True, **named: Any) -> None:
        """Let `__init__` make the instances of a class that a program derives: its arguments may differ."""
        super().__init_subclass__(**named)
        if by_program and "__new__" not in vars(cls):
            cls.__new__ = _unfilled  # type: ignore[method-assign]

    def __init__(self, *args: Any, **named: Any) -> None:
        kind = type(self)
        if kind.__new__ is not _unfilled:
            return  # `__new__` has made it
        base = next(each for each in kind.__mro__ if each.__new__ is not _unfilled)
        made = base.__new__(base, *args, **named)
        if not isinstance(made, Derivable):
            raise ArrayError(
                f"{kind.__name__}: there is no data; without it, only {base.__name__}(…) is an annotation",
                hint="pass data or a shape",
            )
        for each in base.__mro__:
            for name in vars(each).get("__slots__", ()):
                if name != "__weakref__":
                    setattr(self, name, getattr(made, name))


def _unfilled(cls: type, *args: Any, **named: Any) -> Any:
    """Make an instance that `__init__` fills."""
    return object.__new__(cls)
