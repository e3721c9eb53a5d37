"""Functions that kernels call (`@func`): their source and declared types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tapedebug._errors import KernelSyntaxError, KernelTypeError
from tapedebug._source import Origin
from tapedebug.lang import types as t


class Function:
    """A function of the kernel language, compiled into the kernels that call it.

    Outside kernels it runs as the plain Python function that it decorates.
    """

    def __init__(self, python: Callable[..., Any]) -> None:
        self.python = python
        self.name = python.__name__
        self.__name__ = python.__name__
        self.__doc__ = python.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the plain Python function."""
        return self.python(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<func {self.name}>"

    @cached_property
    def origin(self) -> Origin:
        """The function's source."""
        return origin_of(self.python, "function")

    @cached_property
    def types(self) -> dict[str, Any]:
        """The declared types of annotated parameters."""
        declared = declared_types(self.python, self.origin, "function")
        declared.pop("return", None)
        return declared

    @cached_property
    def result_type(self) -> Any:
        """The declared result type (a tuple of types for several results), or None."""
        return declared_types(self.python, self.origin, "function").get("return")


def origin_of(python: Callable[..., Any], what: str) -> Origin:
    """The source of a decorated function, or the user's error."""
    try:
        return Origin.of(python)
    except (OSError, TypeError) as error:
        raise KernelSyntaxError(
            f"{what} `{getattr(python, '__name__', python)}`: its source cannot be read ({error})",
            mend="define it in a file or a notebook cell, not through exec() or a lambda",
        ) from None


def declared_types(python: Callable[..., Any], origin: Origin, what: str) -> dict[str, Any]:
    """The types that annotations declare, by parameter name; strings are evaluated."""
    closure = inspect.getclosurevars(python).nonlocals
    declared: dict[str, Any] = {}
    nodes = {a.arg: a for a in (*origin.tree.args.posonlyargs, *origin.tree.args.args)}
    for name, annotation in getattr(python, "__annotations__", {}).items():
        node = nodes.get(name, origin.tree)
        span = origin.span(getattr(node, "annotation", None) or node)
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, python.__globals__, dict(closure))
            except Exception as error:
                raise KernelTypeError(
                    f"{what} `{origin.function}`: the annotation `{annotation}` of `{name}` cannot be read "
                    f"({type(error).__name__}: {error})",
                    span=span,
                    mend="use types that are known where the function is defined",
                ) from None
        if name == "return" and annotation is None:
            continue
        try:
            declared[name] = _type_of(annotation)
        except TypeError as error:
            raise KernelTypeError(
                f"{what} `{origin.function}`: the annotation of `{name}` is not a type of the kernel language"
                f": {error}",
                span=span,
                mend="use float, int, bool, vec3, array(dtype=float), …",
            ) from None
    return declared


def _type_of(annotation: Any) -> Any:
    if isinstance(annotation, t.ArrayType):
        return annotation
    if isinstance(annotation, tuple):
        return tuple(_type_of(a) for a in annotation)
    if getattr(annotation, "__origin__", None) is tuple:
        return tuple(_type_of(a) for a in annotation.__args__)
    if getattr(annotation, "__name__", "") == "array":
        raise TypeError("an array parameter needs its element type")
    return t.canonical(annotation)
