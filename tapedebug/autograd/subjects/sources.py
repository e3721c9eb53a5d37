"""The source of kernels and functions with everything that they use, in runnable order."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug._files import ChangedSource
from tapedebug._source import Origin
from tapedebug.aswarp.module_counterparts import COUNTERPARTS
from tapedebug.autograd.array_types import EngineArray, ValueType
from tapedebug.autograd.subjects.literals import Packed, scalar
from tapedebug.compiler.function import Function, closure_of, decorated_scope
from tapedebug.compiler.kernel import Kernel
from tapedebug.lang.types import (
    ArrayType,
    Compound,
    IndexedArrayType,
    Struct,
    canonical,
    is_compound,
    is_scalar,
    is_struct,
)
from tapedebug.lang.types import expression as written
from tapedebug.runtime.memory.array import array

NAMESPACE = "SimpleNamespace"

Definition: TypeAlias = Kernel | Function | FunctionType
"""Something that a script defines: a kernel, a function of kernels, or a Python function."""


class Sources:
    """Collects definitions, each after those that it uses.

    Attributes:
        packed: Takes long arrays that functions have captured.
    """

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        self._known: dict[str, Any] = {}
        self._blocks: list[list[str]] = []

    def lines(self) -> list[str]:
        """The definitions, with empty lines around the longer ones."""
        found: list[str] = []
        for block in self._blocks:
            long = len(block) > 1 or block[0].startswith(("def ", "class ", "@"))
            found += ["", "", *block, "", ""] if long else block
        text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(found)).strip("\n")
        return [*text.splitlines(), "", ""] if text else []

    def add(self, thing: Definition, name: str | None = None) -> None:
        """A kernel, a function of kernels, or a Python function.

        Raises:
            GradcheckError: Its source cannot be had, or something in it cannot be written.
        """
        name = name or _name_of(thing)
        if not self._new(name, thing):
            return
        for version in (thing, *(o for o in getattr(thing, "overloads", ()) if o is not thing)):
            self._define(version)

    def _define(self, thing: Definition) -> None:
        origin, python = _source_of(thing)
        for used, value in names_in(origin.tree, python).items():
            self._name(used, value, origin)
        for annotation, kind in _annotations(thing):
            self._type(annotation, kind)
        self._blocks.append(list(origin.definition))
        for companion in (getattr(thing, "gradient", None), getattr(thing, "replay", None)):
            if companion is not None and companion.origin.function not in self._known:
                self.add(companion)

    def _new(self, name: str, thing: object) -> bool:
        """Return True if a name is new; if it is not, it must stand for the same."""
        if name not in self._known:
            self._known[name] = thing
            return True
        known = self._known[name]
        same = known is thing or thing in getattr(known, "overloads", ()) or _equal(known, thing)
        if not same:
            raise GradcheckError(
                f"no script can be written: two different things are called `{name}` in it",
                hint="rename one of them",
            )
        return False

    def _name(self, name: str, value: object, origin: Origin) -> None:
        """Define what a name in a definition stands for."""
        if _is_package(value):
            if name != "wp" and self._new(name, value):
                self._blocks.append([f"{name} = wp"])
        elif isinstance(value, Function | Kernel) or _is_plain(value):
            self.add(value)
            if name != _name_of(value) and self._new(name, value):
                self._blocks.append([f"{name} = {_name_of(value)}"])
        elif isinstance(value, type) and issubclass(value, Struct):
            self._type(name, value)
        elif isinstance(value, ModuleType) and _is_known_module(value):
            if self._new(name, value) and not (name == "np" and value is np):
                self._blocks.append([f"import {value.__name__}" + f" as {name}" * (name != value.__name__)])
        else:
            text = self._expression(name, value, origin)
            if text is not None and self._new(name, value):
                self._blocks.append([f"{name} = {text}"])

    def _expression(self, name: str, value: object, origin: Origin) -> str | None:
        """A captured value as an expression; None where the name needs no definition."""
        text = _plain_expression(value)
        if text is not None:
            return text
        if isinstance(value, array):
            values = self.packed.literal(value.current(), value.dtype, name)
            return array_expression(value, values)
        if isinstance(value, np.ndarray):
            return f"np.array({value.tolist()!r}, dtype=np.{value.dtype.name})"
        attributes = _attributes_of(name, origin.tree)
        if attributes and not isinstance(value, BuiltinFunctionType):
            return self._namespace(name, value, attributes, origin)
        if getattr(value, "__module__", None) == "builtins" or isinstance(value, BuiltinFunctionType):
            return None
        raise GradcheckError(
            f"no script can be written: `{origin.function}` uses `{name}`, {_article(type(value).__name__)}",
            hint="pass what it needs as an argument, or as a number that the function captures",
        )

    def _namespace(self, name: str, value: object, attributes: list[str], origin: Origin) -> str:
        """An object or module of the user's of which only some attributes are used."""
        if self._new(NAMESPACE, NAMESPACE):
            self._blocks.append([f"from types import {NAMESPACE}"])
        given = []
        for attribute in attributes:
            found = getattr(value, attribute, None)
            self._name(f"{name}_{attribute}", found, origin)
            given.append(f"{attribute}={name}_{attribute}")
        return f"{NAMESPACE}({', '.join(given)})"

    def _type(self, name: str, kind: ValueType) -> None:
        """A struct that a name or an annotation means, after those in it."""
        element: Any = getattr(kind, "array", kind)
        element = getattr(element, "dtype", element)
        if not is_struct(element):
            return
        own = element.__name__
        if self._new(own, element):
            for inner in element.fields.values():
                self._type("", inner)
            fields = [f"    {label}: {spelled(inner)}" for label, inner in element.fields.items()]
            self._blocks.append(["@wp.struct", f"class {own}:", *fields])
        if kind is element and name and name != own and self._new(name, element):
            self._blocks.append([f"{name} = {own}"])


def array_expression(array: EngineArray, values: str) -> str:
    """A call that makes an array of the values that an expression gives."""
    grad = ", requires_grad=True" if array.requires_grad else ""
    return f"wp.array({values}, dtype={written(array.dtype)}, shape={array.shape!r}{grad})"


def spelled(kind: ValueType) -> str:
    """A type as source."""
    if isinstance(kind, ArrayType | IndexedArrayType):
        word = "array" if isinstance(kind, ArrayType) else "indexedarray"
        return f"wp.{word}(dtype={spelled(kind.dtype)}, ndim={kind.ndim})"
    return kind.__name__ if issubclass(kind, Struct) else written(kind)


def names_in(tree: ast.AST, python: Callable[..., Any]) -> dict[str, Any]:
    """The global and enclosing names in a syntax tree, with what they mean to a function."""
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    used |= {name for text in texts for name in re.findall(r"\w+", text)}  # annotations may be strings
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    scope = {**python.__globals__, **decorated_scope(python), **closure_of(python)}
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    return {
        name: value
        for name, value in scope.items()
        if name in used and name not in own and (name in read or _means_something(value))
    }


def _means_something(value: object) -> bool:
    """True if a word in a string may be meant as a name: of types and of what types are made of."""
    return isinstance(value, type | ModuleType)


def _source_of(thing: Definition) -> tuple[Origin, Any]:
    python = getattr(thing, "python", thing)
    try:
        origin = _origin_of(thing) if isinstance(thing, FunctionType) else thing.origin
        origin.tree  # noqa: B018  the text must be whole
    except ChangedSource as error:
        raise GradcheckError(f"no script can be written: {error}", hint="run the program again") from None
    except OSError:
        raise GradcheckError(
            f"no script can be written: Python keeps no source of `{_name_of(thing)}`",
            hint="define it in a file or a notebook cell, not with exec",
        ) from None
    return origin, python


def _origin_of(function: Callable[..., Any]) -> Origin:
    if function.__name__ != "<lambda>":
        return Origin.of(function)
    found = Origin.of_lambda(function)
    script = tuple(line for line in found.script if not line.startswith("@"))
    lines, tree = found.lines, found.tree
    return Origin(found.file, found.first_line, lines, "lambda_", 0, function, script).with_tree(tree)


def _annotations(thing: Definition) -> list[tuple[str, Any]]:
    """Parameters' types as far as they are written as a name, with that name."""
    declared = getattr(thing, "types", None)
    if not isinstance(declared, dict):
        declared = {param.name: param.type for param in getattr(thing, "signature", ())}
    arguments = [] if isinstance(thing, FunctionType) or not declared else thing.origin.header.args.args
    found = []
    for argument in arguments:
        name = argument.annotation.id if isinstance(argument.annotation, ast.Name) else ""
        if argument.arg in declared:
            found.append((name, declared[argument.arg]))
    return found


def _attributes_of(name: str, tree: ast.AST) -> list[str]:
    """The attributes that are read of a name; none where it is used in another way, too."""
    found: dict[str, None] = {}
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            found[node.attr] = None
            count += 1
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))
    return list(found) if count == uses else []


def _plain_expression(value: object) -> str | None:
    """A number, a type, or something of ours, as an expression."""
    import tapedebug

    name = getattr(value, "__name__", None)
    with contextlib.suppress(TypeError):
        if is_compound(value) or (isinstance(value, type) and is_scalar(canonical(value))):
            return value.__name__ if value in (float, int, bool) else written(canonical(value))
    if name and getattr(tapedebug, name, None) is value:
        return f"wp.{name}"
    if isinstance(value, ArrayType | IndexedArrayType):
        return spelled(value)
    simple = bool | int | float | np.generic | Compound | str | None
    if isinstance(value, simple) or (
        isinstance(value, tuple | list) and all(isinstance(part, simple) for part in value)
    ):
        return scalar(value)
    return None


def _is_package(value: object) -> bool:
    import tapedebug

    return value is tapedebug or (
        isinstance(value, ModuleType)
        and COUNTERPARTS.get(value.__name__) == "tapedebug"
        and not hasattr(value, "__file__")
    )


def _is_plain(value: object) -> TypeGuard[FunctionType]:
    """True for a Python function of the user."""
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] != "tapedebug"


def _is_known_module(value: ModuleType) -> bool:
    """True for a module of Python's library, or an installed one."""
    top = value.__name__.partition(".")[0]
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None) or ""
    return top in sys.stdlib_module_names or "site-packages" in file or "dist-packages" in file


def _name_of(thing: Definition) -> str:
    if isinstance(thing, FunctionType):
        return "lambda_" if thing.__name__ == "<lambda>" else thing.__name__
    name: str = thing.origin.function
    return name


def _equal(one: object, other: object) -> bool:
    with contextlib.suppress(Exception):
        return type(one) is type(other) and bool(one == other)
    return False


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
