"""Python functions of Warp kernels, with globals and closures that mean objects of this engine.

The code object, its file and its line numbers stay the user's. The user's modules and `sys.modules` are not
touched: modules are replaced by stand-ins that translate an attribute when it is read.
"""

from __future__ import annotations

import ast
import copy
import functools
import operator
import re
import sys
from collections.abc import Iterable, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

import tapedebug
from tapedebug._source import Origin
from tapedebug.aswarp import kernel_functions
from tapedebug.compiler.decorators import MEANT
from tapedebug.compiler.function import DIFFERING, Function, grad, read_annotations
from tapedebug.compiler.kernel import Kernel
from tapedebug.watch.mirror import warp_types
from tapedebug.watch.mirror.errors import MirrorError
from tapedebug.watch.mirror.warp_objects import PythonFunction, WarpAdjoint, WarpFunction, WarpKernel

T = TypeVar("T")

WORD = re.compile(r"[^\W\d]\w*")
UNCHANGED = frozenset({*sys.stdlib_module_names, "numpy", "tapedebug"})
"""Packages whose modules have nothing of Warp in them."""
PYTHON_NAMES: Mapping[str, Any] = {"float": float, "int": int, "len": len, "range": range, "print": print}
"""Functions of Warp that Python's own functions mean in kernels."""
COPIED_GLOBALS = ("__builtins__", "__name__", "__loader__", "__file__", "__spec__")
"""Globals with which Python and this engine find the source of a function."""
OPTIONS = ("enable_backward", "max_unroll")
"""Options of Warp's kernels and modules that mean the same here."""


class Unavailable:
    """An object of Warp that this engine does not have. A kernel that uses it cannot be mirrored.

    Attributes:
        name: Its name in the program.
        reason: The reason, as a sentence.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.__name__ = self.name = name
        self.reason = reason

    def __repr__(self) -> str:
        return f"<{self.name} of Warp>"

    def __fingerprint__(self) -> str:
        """Return the same text in all processes: kernels may name a module that has this attribute."""
        return f"{self.name}: {self.reason}"

    def __getattr__(self, name: str) -> Unavailable:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unavailable(f"{self.name}.{name}", self.reason)


class Rebinding:
    """The translation of one kernel and of everything that it names.

    Attributes:
        unavailable: The objects without a counterpart that were met, in order.
    """

    def __init__(self) -> None:
        self.unavailable: list[Unavailable] = []
        self._known: dict[int, Any] = {}
        self._sources: list[object] = []
        """The translated objects; their ids are keys as long as they live."""
        self._open: set[int] = set()

    # -- kernels and functions ----------------------------------------------------------------------------

    def kernel(self, kernel: WarpKernel) -> Kernel:
        """Return a kernel of this engine for one of Warp's.

        Raises:
            MirrorError: It cannot be translated.
        """
        if kernel.adj.transformers:
            raise MirrorError(f"the source of `{kernel.key}` is rewritten before Warp compiles it")
        options = {name: found for name in OPTIONS if (found := _option(kernel, name)) is not None}
        python = self._python(kernel.func, kernel.adj, kernel.adj.arg_types)
        made = Kernel(python, key=kernel.key, module=__package__, options=options)
        made.is_user_written = False
        self._fix_statics(made, kernel.adj)
        return made

    def function(self, function: WarpFunction) -> Any:
        """Return a function of this engine for one of Warp's, with all its versions and gradients."""
        versions = [f for f in _versions(function) if f.generic_parent is None] or [function]
        made: list[Function] = []
        for version in versions:
            reason = _refusal(version)
            if reason:
                return self._without(version.key, reason)
            try:
                python = self._python(version.func, version.adj, version.adj.arg_types)
            except MirrorError as error:
                return self._without(version.key, error.reason)
            own = Function(python)
            own.name = own.__name__ = version.func.__name__
            self._fix_statics(own, version.adj)
            made.append(own)
            self._remember(version, own)
        for own in made:
            own.overloads = tuple(made)
        for version, own in zip(versions, made, strict=True):
            self._add_companions(version, own)
        return made[versions.index(function)] if function in versions else made[0]

    def _add_companions(self, version: WarpFunction, own: Function) -> None:
        for attribute, name in (("custom_grad_func", "gradient"), ("custom_replay_func", "replay")):
            companion = getattr(version, attribute, None)
            if companion is None:
                continue
            made = Function(self._python(companion.func, companion.adj, companion.adj.arg_types))
            made.companion_of = own
            if MEANT in (companion.func.__doc__ or ""):
                made.differs = True
                DIFFERING.add(made)
            setattr(own, name, made)

    def _python(
        self, python: PythonFunction, adjoint: WarpAdjoint, declared: Mapping[str, Any]
    ) -> FunctionType:
        """Return a Python function of the same code in whose scope all names mean objects of this engine."""
        names = set(_names(python.__code__)) | set(WORD.findall(adjoint.source or ""))
        found = {name: python.__globals__[name] for name in COPIED_GLOBALS if name in python.__globals__}
        made = FunctionType(
            python.__code__,
            found,
            python.__name__,
            None if python.__defaults__ is None else tuple(map(self.value, python.__defaults__)),
            tuple(map(self._cell, python.__closure__ or ())),
        )
        made.__qualname__, made.__module__, made.__doc__ = (
            python.__qualname__,
            python.__module__,
            python.__doc__,
        )
        made.__kwdefaults__ = python.__kwdefaults__
        made.__annotations__ = {name: _type(python, name, kind) for name, kind in declared.items()}
        found |= {
            name: self.value(python.__globals__[name])
            for name in names & python.__globals__.keys() - found.keys()
            if not _is_itself(python, python.__globals__[name])
        }
        self._read_source(made, adjoint)
        return made

    def _read_source(self, made: FunctionType, adjoint: WarpAdjoint) -> None:
        """Let the source of a function be found: that of its file, or the text that Warp was given."""
        read_annotations(made, None)
        try:
            _ = Origin.of(made).header
        except (OSError, TypeError):
            lines = tuple(str(adjoint.source or "").splitlines())
            if not lines:
                raise MirrorError(f"the source of `{made.__name__}` cannot be read") from None
            indent = len(lines[0]) - len(lines[0].lstrip())
            code = made.__code__
            Origin(code.co_filename, code.co_firstlineno, lines, made.__name__, indent, made).arrive(made)

    def _cell(self, cell: CellType) -> CellType:
        try:
            return CellType(self.value(cell.cell_contents))
        except ValueError:  # not assigned yet
            return CellType()

    # -- static expressions -------------------------------------------------------------------------------

    def _fix_statics(self, made: Kernel | Function, adjoint: WarpAdjoint) -> None:
        """Let `static(…)` give what it gave where Warp's decorator ran, if names have changed since."""
        resolved = getattr(adjoint, "resolved_static_expressions", None) or {}
        python: Any = made.python
        changed: dict[str, Any] = {}
        for text, value in resolved.items():
            wanted = self.value(value)
            try:
                now = eval(text, {**python.__globals__, **_closure(python)})
            except Exception:
                now = changed
            if not _is_same(now, wanted):
                changed[text] = wanted
        if not changed:
            return
        origin = made.origin
        fixed = _FixedStatics(changed)
        tree = fixed.visit(copy.deepcopy(origin.tree))
        python.__globals__.update(fixed.values)
        replaced = Origin(
            origin.file,
            origin.first_line,
            origin.lines,
            origin.function,
            origin.indent,
            python,
            origin.script,
        )
        replaced.with_tree(tree).arrive(python)
        made.__dict__.pop("origin", None)
        made.__dict__["statics"] = tuple(fixed.values.items())  # part of the fingerprint

    # -- values -------------------------------------------------------------------------------------------

    def value(self, value: object) -> Any:
        """Return what a name means here whose value in the program is this."""
        if value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
            return warp_types.value_of(value)
        known = self._known.get(id(value), self)
        if known is not self:
            return known
        if id(value) in self._open:  # a container that holds itself
            return value
        self._open.add(id(value))
        try:
            found = self._translated(value)
        finally:
            self._open.discard(id(value))
        return self._known[id(value)] if id(value) in self._known else self._remember(value, found)

    def _remember(self, value: object, found: T) -> T:
        self._known[id(value)] = found
        self._sources.append(value)
        return found

    def _translated(self, given: object) -> Any:
        value: Any = given
        if isinstance(value, ModuleType):
            return self._module(value)
        if warp_types.is_of_warp(value, "Function"):
            return self._builtin(value.key) if value.is_builtin() else self.function(value)
        if warp_types.is_of_warp(value, "GradWrapper"):
            return grad(self.value(value.func))
        if warp_types.is_of_warp(value, "Kernel"):
            return value
        if isinstance(value, type) and any(
            warp_types.is_of_warp(getattr(value, name, None), "Function") for name in vars(value)
        ):
            return self._derived(value) if warp_types.is_compound(value) else self._namespace(value)
        if (
            (warp_types.is_array_type(value) and not _has_memory(value))
            or warp_types.is_struct(value)
            or warp_types.is_warp_class(value)
            or type(value).__name__ == "TypeVar"
        ):
            return self._class(value)
        if isinstance(value, tuple | list) and type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        if type(value) is dict:
            return {self.value(key): self.value(held) for key, held in value.items()}
        if isinstance(value, functools._lru_cache_wrapper):  # as `warp.types.matrix` is
            value = value.__wrapped__
        if isinstance(value, FunctionType):
            return self._plain_function(value)
        return warp_types.value_of(value)

    def _class(self, value: object) -> Any:
        try:
            return warp_types.type_of(value)
        except MirrorError as error:
            name = warp_types.name_of(value)
            return getattr(tapedebug, name, None) or self._without(name, error.reason)

    def _plain_function(self, value: FunctionType) -> Any:
        """Return a function of Warp's by its name, and one of the user with translated results."""
        package = (value.__module__ or "").partition(".")[0]
        if package == "warp":
            return self._builtin(value.__name__)
        if package in UNCHANGED:
            return value

        @functools.wraps(value)
        def translated(*args: object, **kwargs: object) -> Any:
            return self.value(value(*args, **kwargs))

        return translated

    def _builtin(self, name: str) -> Any:
        """Return the function of the kernel language with the name of one of Warp's."""
        if name in PYTHON_NAMES:
            return PYTHON_NAMES[name]
        found = getattr(tapedebug, name, None) if not name.startswith("_") else None
        found = found or kernel_functions.NAMES.get(name)
        if found is None:
            return self._without(name, missing_function(name))
        return found

    def _module(self, module: ModuleType) -> ModuleType:
        package = module.__name__.partition(".")[0]
        if package in UNCHANGED and package != "__main__":
            return module
        own = ModuleType(module.__name__, module.__doc__)

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if package == "warp" and not hasattr(module, name):
                # such as `adjoint` and `float`, which Warp knows by their spelling
                own_name = PYTHON_NAMES.get(name) or kernel_functions.NAMES.get(name)
                return own_name or getattr(tapedebug, name)
            return self.value(getattr(module, name))

        own.__dict__.update(__getattr__=look_up, __dir__=lambda: dir(module))
        return own

    def _namespace(self, cls: type) -> ModuleType:
        """Return a stand-in for a class with functions of Warp, whose attributes kernels name."""
        own = ModuleType(cls.__name__, cls.__doc__)

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"class {cls.__name__!r} has no attribute {name!r}")
            return self.value(getattr(cls, name))

        own.__dict__.update(__getattr__=look_up, __dir__=lambda: dir(cls))
        return own

    def _derived(self, cls: type) -> Any:
        """Return a class derived from a compound type, with the functions that a class of Warp's adds."""
        own = self._class(cls)
        if not isinstance(own, type):  # this engine has no such type
            return own
        made = self._remember(cls, type(cls.__name__, (own,), {"__slots__": ()}))  # functions may name it
        for name, member in vars(cls).items():
            if warp_types.is_of_warp(member, "Function"):
                setattr(made, name, self.value(member))
        return made

    def _without(self, name: str, reason: str) -> Unavailable:
        self.unavailable.append(Unavailable(name, reason))
        return self.unavailable[-1]


class _FixedStatics(ast.NodeTransformer):
    """Replaces the expressions in `static(…)` by names of their values.

    Args:
        changed: The values by the text of their expressions.

    Attributes:
        values: The values by the names.
    """

    def __init__(self, changed: Mapping[str, Any]) -> None:
        self.changed = changed
        self.values: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Visit a call."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "static" and len(node.args) == 1:
            text = ast.unparse(node.args[0])
            if text in self.changed:
                known = f"_static_{len(self.values)}"
                self.values[known] = self.changed[text]
                node.args[0] = ast.copy_location(ast.Name(known, ast.Load()), node.args[0])
                return node
        self.generic_visit(node)
        return node


def missing_function(name: str) -> str:
    """Return the reason for a function of Warp that this engine does not have."""
    return f"`wp.{name}` is not in the kernel language of this engine"


def _names(code: CodeType) -> Iterable[str]:
    """Yield the names in a code object and those inside it."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _type(python: PythonFunction, name: str, kind: object) -> Any:
    """Return the type that an annotation of a function of Warp means here.

    Raises:
        MirrorError: There is none.
    """
    try:
        return warp_types.type_of(kind)
    except MirrorError as error:
        raise MirrorError(f"{error.reason} (`{name}` of `{python.__name__}`)") from None


def _closure(python: PythonFunction) -> dict[str, Any]:
    found = {}
    for name, cell in zip(python.__code__.co_freevars, python.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _is_itself(python: PythonFunction, value: object) -> bool:
    """True for the decorated form of a function, which its own name means."""
    return getattr(value, "func", None) is python


def _is_same(one: object, other: object) -> bool:
    if one is other:
        return True
    equal: Any = operator.eq
    try:
        return type(one) is type(other) and bool(np.all(equal(one, other)))
    except Exception:
        return False


def _has_memory(value: object) -> bool:
    """True for an array; False for the annotation of one."""
    return getattr(value, "device", None) is not None or getattr(value, "ptr", None) is not None


def _option(kernel: WarpKernel, name: str) -> Any:
    """Return an option of a kernel of Warp: its own, else that of its module."""
    return kernel.options.get(name, kernel.module.options.get(name) if kernel.module is not None else None)


def _versions(function: WarpFunction) -> list[WarpFunction]:
    """Return all versions of a function: the concrete ones, then the generic ones."""
    found = [
        *getattr(function, "user_overloads", {}).values(),
        *getattr(function, "user_templates", {}).values(),
    ]
    return [f for f in found if not getattr(f.adj, "custom_reverse_mode", False)] or [function]


def _refusal(function: WarpFunction) -> str:
    """Return why a function of Warp cannot be translated; empty if it may be possible."""
    if getattr(function, "native_snippet", None) is not None:
        return f"`{function.key}` is a native snippet"
    if function.adj.transformers:
        return f"the source of `{function.key}` is rewritten before Warp compiles it"
    return ""
