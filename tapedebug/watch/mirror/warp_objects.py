"""The attributes of NVIDIA Warp's objects that the mirror reads, as protocols: nothing here imports Warp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

PythonFunction: TypeAlias = Any
"""A plain Python function. (Type checkers take a `FunctionType` that an object has for a method.)"""


class WarpAdjoint(Protocol):
    """The compiler's view of a function: `kernel.adj`, `function.adj`."""

    @property
    def source(self) -> str | None:
        """The text of the function."""

    @property
    def transformers(self) -> Sequence[object]:
        """The functions that rewrite its syntax tree before it is compiled."""

    @property
    def arg_types(self) -> Mapping[str, Any]:
        """The types of its parameters, and its return type as `return`."""


class WarpFunction(Protocol):
    """A function that kernels call: `@wp.func`, or one of the kernel language."""

    @property
    def func(self) -> PythonFunction:
        """The Python function; None for one of the kernel language."""

    @property
    def key(self) -> str:
        """Its name."""

    @property
    def adj(self) -> WarpAdjoint:
        """The compiler's view of it."""

    @property
    def generic_parent(self) -> object | None:
        """The generic function that it is a version of."""

    def is_builtin(self) -> bool:
        """Return True for a function of the kernel language."""


class WarpModule(Protocol):
    """The kernels of one module of the program."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the module."""


class WarpKernel(Protocol):
    """A kernel: `@wp.kernel`."""

    @property
    def func(self) -> PythonFunction:
        """The Python function."""

    @property
    def key(self) -> str:
        """Its name."""

    @property
    def adj(self) -> WarpAdjoint:
        """The compiler's view of it."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Its own options."""

    @property
    def module(self) -> WarpModule | None:
        """The module that it belongs to."""

    @property
    def is_generic(self) -> bool:
        """True if the types of its parameters depend on the launch."""

    def infer_argument_types(self, args: list[object]) -> list[Any]:
        """Return the types of the arguments of a launch."""

    def add_overload(self, arg_types: list[Any]) -> WarpKernel:
        """Return the version for these types."""


class _Variable(Protocol):
    @property
    def type(self) -> object:
        """Its type."""


class WarpStruct(Protocol):
    """A type that `wp.struct` made."""

    @property
    def cls(self) -> type:
        """The class that was decorated."""

    @property
    def vars(self) -> Mapping[str, _Variable]:
        """The fields."""

    @property
    def ctype(self) -> Any:
        """The class of `ctypes` with its layout."""
