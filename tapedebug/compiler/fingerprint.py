"""The fingerprint of a kernel: a digest of everything that lowering reads, made without lowering.

That is the source of the kernel and of the functions that it calls, the bytecode that Python made of them,
the types of their parameters, and the values of the globals and closures that they name. Whatever is not
certain to be the same in another process (a plain Python function, an object of an unknown class) makes a
kernel one without an identity: it is lowered in every process.
"""

from __future__ import annotations

import builtins
import enum
import hashlib
import opcode
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug.compiler import target_fingerprint
from tapedebug.compiler.function import Function, Gradient, closure_of, decorated_scope
from tapedebug.compiler.numba_functions import function_of, is_numba_function
from tapedebug.compiler.numba_functions import version as numba_version
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin

RELEVANT = ("max_unroll",)
"""The settings that lowering depends on; the others choose variants, or mean nothing to it."""
DERIVED = frozenset(
    {
        "python",
        "module",
        "users",
        "plans",
        "latest",
        "kinds",
        "checked_plans",
        "generic",
        "instances",
        "types",
        "numba",
    }
)
"""Attributes of kernels and functions that follow from others, or from nothing that is compiled."""
PURE_MODULES = frozenset({"builtins", "math", "cmath", "operator", "numpy", "tapedebug"})
"""Packages whose functions and classes are identified by their names and the versions in `toolchain`."""


class NoFingerprint(Exception):
    """Something is not known to be the same in another process."""


@dataclass(frozen=True)
class Fingerprint:
    """Everything that a kernel's code depends on: sources, captured values, types, settings.

    Attributes:
        digest: The same for two kernels in two processes only where all this is the same.
        sources: The kernel, and the functions that it calls in the order in which it names them.
        captured: The values of global and closure names, by the Python function that names them.
    """

    digest: str
    sources: tuple[Any, ...]
    captured: dict[Any, dict[str, Any]]


def fingerprint_of(kernel: Any, fixed: dict[Any, dict[str, Any]] | None = None) -> Fingerprint | None:
    """The identity of a kernel; None where it has none.

    Args:
        kernel: The kernel.
        fixed: What names mean in its functions, in place of what they mean now.
    """
    reader = _Reader(fixed or {})
    try:
        reader.add(toolchain())
        reader.source(kernel, [(p.name, p.type) for p in kernel.signature])
    except (NoFingerprint, TapedebugError, OSError, RecursionError):
        return None  # lowering raises the error, if there is one
    return Fingerprint(reader.hash.hexdigest(), tuple(reader.sources), reader.captured)


def numba_fingerprint(dispatcher: Any) -> str | None:
    """A digest of what the code of a function of Numba's follows from; None where that is not certain."""
    reader = _Reader({})
    try:
        reader.add(toolchain())
        reader.numba(dispatcher)
    except (NoFingerprint, OSError, RecursionError):
        return None
    return reader.hash.hexdigest()


@cache
def toolchain() -> str:
    """The versions of what lowers and prints kernels."""
    own = target_fingerprint.digest_of("", "compiler/", "lang/")
    return f"{own} numpy {np.__version__} python {sys.version_info[:3]} -O{sys.flags.optimize}"


def settings(kernel: Any) -> str:
    """The settings that lowering depends on, as they are now for this kernel."""
    return repr([kernel.option(name) for name in RELEVANT])


class _Reader:
    """Walks what a kernel names."""

    def __init__(self, fixed: dict[Any, dict[str, Any]]) -> None:
        self.fixed = fixed
        self.hash = hashlib.sha256()
        self.sources: list[Any] = []
        self.captured: dict[Any, dict[str, Any]] = {}
        self.compiled: list[Any] = []
        self.open: set[int] = set()

    def add(self, *words: object) -> None:
        """Add to the digest; lengths separate the words."""
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            self.hash.update(b"%d:" % len(data) + data)

    # Functions

    def source(self, thing: Any, declared: list[tuple[str, Any]]) -> None:
        """A kernel or function: its source, types, names, and what else it is made with."""
        if any(known is thing for known in self.sources):
            self.add("known", next(i for i, known in enumerate(self.sources) if known is thing))
            return
        self.sources.append(thing)
        python = thing.python
        origin, code = thing.origin, python.__code__
        self.add("source", *origin.lines, "script", *origin.script)
        self.bytecode(code)
        for name, kind in declared:
            self.add(name)
            self.value(kind, frozenset())
        self.value((python.__defaults__, python.__kwdefaults__), frozenset())
        attributes = frozenset(n for c in nested(code) for n in c.co_names)
        if "__dict__" in attributes:
            raise NoFingerprint  # anything may be looked up there
        names = names_of(python, origin.lines)
        captured = self.fixed[python] if python in self.fixed else meanings(python, names)
        self.captured[python] = captured
        for name in sorted(captured):
            self.add("name", name)
            self.value(captured[name], attributes)
        if "static" in attributes | captured.keys():
            scope = decorated_scope(python)
            for name in sorted(names & scope.keys()):
                self.add("static", name)
                self.value(scope[name], attributes)
        for name, value in sorted(vars(thing).items()):
            follows = isinstance(getattr(type(thing), name, None), cached_property)
            if name not in DERIVED and not follows and not name.startswith("_"):
                self.add("with", name)
                self.value(value, attributes)

    def bytecode(self, code: types.CodeType) -> None:
        """Add compiled code, which has everything of the source that has an effect."""
        for each in nested(code):
            plain = tuple(c for c in each.co_consts if not isinstance(c, types.CodeType))
            self.add(each.co_code, each.co_names, each.co_varnames, repr(plain))

    # Values

    def value(self, value: Any, attributes: frozenset[str]) -> None:
        """A value that a kernel sees, of which it may take the attributes with these names."""
        kind = type(value)
        self.add(kind.__qualname__)
        if value is None or kind in (bool, int, str, bytes, complex):
            self.add(repr(value))
        elif kind is float:
            self.add(value.hex())
        elif isinstance(value, np.generic):
            self.add(value.dtype.str, value.tobytes())
        elif isinstance(value, np.dtype):
            self.add(value.str)
        elif isinstance(value, t.Compound):
            self.type(kind)
            self.add(np.asarray(value).tobytes())
        elif kind is np.ndarray and value.dtype != object:
            self.add(value.dtype.str, value.shape, value.tobytes())
        elif kind in (tuple, list, dict, set, frozenset):
            self.collection(value, attributes)
        else:
            self.object(value, attributes)

    def collection(self, value: Any, attributes: frozenset[str]) -> None:
        """The items, in an order that does not depend on the process."""
        if id(value) in self.open:
            raise NoFingerprint
        self.open.add(id(value))
        if isinstance(value, set | frozenset):
            if not all(isinstance(item, str | int | float | bool) for item in value):
                raise NoFingerprint
            value = sorted(value, key=repr)
        items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
        self.add(len(items))
        for item in items:
            self.value(item, attributes)
        self.open.discard(id(value))

    def object(self, value: Any, attributes: frozenset[str]) -> None:
        """Anything that is not data."""
        if isinstance(value, Function):
            declared = value.types
            self.source(
                value, [*declared.items(), ("return", value.result_type), ("references", value.references)]
            )
        elif isinstance(value, Gradient):
            self.value(value.function, attributes)
        elif isinstance(value, Builtin):
            self.add(value.name)
        elif isinstance(value, t.ArrayType | t.IndexedArrayType):
            self.add(value.ndim)
            self.value(value.dtype, attributes)
        elif isinstance(value, t.Generic):
            self.add(t.type_name(value))
        elif isinstance(value, types.ModuleType):
            self.module(value, attributes)
        elif isinstance(value, type):
            self.type(value)
            if issubclass(value, enum.Enum):
                self.value({name: member.value for name, member in value.__members__.items()}, frozenset())
            elif value.__module__.partition(".")[0] not in PURE_MODULES:
                self.members(
                    {n: v for base in value.__mro__[-2::-1] for n, v in vars(base).items()}, attributes
                )
        elif isinstance(value, enum.Enum):
            self.type(type(value))
            self.value(value.value, attributes)
        elif isinstance(value, types.SimpleNamespace):
            self.members(vars(value), attributes)
        elif is_numba_function(value):
            function = function_of(value)
            if any(known is function for known in self.sources):
                self.add("known", next(i for i, known in enumerate(self.sources) if known is function))
                return
            self.sources.append(function)
            self.numba(value)
            self.value(function.gradient, attributes)
        elif is_pure(value) or of_numba(value):
            self.add(getattr(value, "__module__", ""), getattr(value, "__name__", value))
        elif hasattr(type(value), "__fingerprint__"):
            self.add(value.__fingerprint__())
        else:
            raise NoFingerprint

    def numba(self, dispatcher: Any) -> None:
        """A function of Numba's: its bytecode, what it captures, and how it is compiled."""
        python = dispatcher.py_func
        if any(known is python for known in self.compiled):
            self.add("known", next(i for i, known in enumerate(self.compiled) if known is python))
            return
        self.compiled.append(python)
        self.add(numba_version(), sorted(map(repr, dispatcher.targetoptions.items())), dispatcher.locals)
        if not dispatcher._can_compile:
            self.add(list(dispatcher.overloads))
        self.bytecode(python.__code__)
        self.value((python.__defaults__, python.__kwdefaults__), frozenset())
        attributes = frozenset(name for code in nested(python.__code__) for name in code.co_names)
        captured = meanings(python, names_of(python, ()))
        for name in sorted(captured):
            self.add("name", name)
            self.value(captured[name], attributes)

    def type(self, kind: Any) -> None:
        """A class, by its name, and by what makes a type of the kernel language."""
        if not isinstance(kind, type):
            raise NoFingerprint
        self.add(kind.__module__, kind.__qualname__)
        if t.is_struct(kind):
            for name, field in getattr(kind, "fields", {}).items():
                self.add("field", name)
                self.value(field, frozenset())
        elif issubclass(kind, t.Compound) and hasattr(kind, "scalar"):
            self.add(kind.scalar.code, kind.shape, [base.__name__ for base in kind.__mro__])

    def module(self, module: types.ModuleType, attributes: frozenset[str]) -> None:
        """A module: of one's own, with the values that are taken from it."""
        self.add(module.__name__)
        if module.__name__.partition(".")[0] == "tapedebug":
            return
        found = vars(module)
        finder = getattr(found.get("__getattr__"), "__module__", None) or ""
        if finder.partition(".")[0] == "tapedebug":
            return  # a stand-in for a module of Warp, which finds the names of this package
        if "__getattr__" in found:  # it loads some when they are asked for
            with warnings.catch_warnings(action="ignore"):
                found = {name: getattr(module, name) for name in attributes if hasattr(module, name)}
        self.members(found, attributes)

    def members(self, found: dict[str, Any], attributes: frozenset[str]) -> None:
        """Add the values of attributes that can be read without side effects."""
        if id(found) in self.open:
            return
        for name in sorted(attributes & found.keys()):
            self.add("member", name)
            value = found[name]
            if id(value) in self.open:
                continue  # a module that refers to itself
            self.open.add(id(value))
            self.value(value, attributes)
            self.open.discard(id(value))


def of_numba(value: Any) -> bool:
    """True if a value is a type of Numba's, or a function that Numba itself defines."""
    if type(value).__module__.startswith("numba.core.types"):
        return True
    defined = isinstance(value, types.FunctionType | type)
    return defined and value.__module__.partition(".")[0] == "numba"


def is_pure(value: Any) -> bool:
    """True if a callable is a function of Python's or NumPy's own, recognised by its name."""
    if isinstance(value, types.BuiltinFunctionType) and not (
        value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    ):
        return False  # bound to an object that has a state
    module = getattr(value, "__module__", None)
    if not (isinstance(module, str) and hasattr(value, "__name__") and callable(value)):
        return False
    return module.partition(".")[0] in PURE_MODULES and not module.startswith("numpy.random")


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def names_of(python: Callable[..., Any], lines: tuple[str, ...]) -> set[str]:
    """The free names of a function."""
    code = python.__code__
    wanted = {name for c in nested(code) for name in _globals(c)}
    for line in lines:
        if ANNOTATED.match(line):  # Python does not evaluate the types of local variables
            wanted.update(WORD.findall(line))
    return wanted - {*code.co_varnames, *code.co_cellvars} | set(code.co_freevars)


def meanings(python: Callable[..., Any], names: set[str]) -> dict[str, Any]:
    """Return current values of free names, in closures and globals. Builtins are left out."""
    found = closure_of(python)
    if len(found) < len(python.__code__.co_freevars):
        raise NoFingerprint  # not assigned yet
    missing = names - found.keys() - python.__globals__.keys()
    # Only code can use a builtin: other names are words of annotations, or of comments that look like them.
    used = {name for code in nested(python.__code__) for name in _globals(code)}
    if not all(name in BUILTINS or not hasattr(builtins, name) for name in missing & used):
        raise NoFingerprint
    return found | {name: python.__globals__[name] for name in names - missing - found.keys()}


# fmt: off
BUILTINS = frozenset({
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "float", "frozenset", "int",
    "isinstance", "len", "list", "map", "max", "min", "pow", "print", "range", "reversed", "round",
    "set", "sorted", "str", "sum", "tuple", "type", "zip", "AssertionError",
})
# fmt: on
"""Builtins whose results depend on their arguments alone."""
ANNOTATED = re.compile(r"\s*[\w.\[\]]+\s*:\s*[^\s#]")
WORD = re.compile(r"[^\W\d]\w*")
LOAD_GLOBAL, EXTENDED = opcode.opmap["LOAD_GLOBAL"], opcode.opmap["EXTENDED_ARG"]


def _globals(code: types.CodeType) -> Iterator[str]:
    """The names that a code object loads from its globals."""
    steps = code.co_code[::2]
    at = steps.find(LOAD_GLOBAL)
    while at >= 0:
        number, before, shift = code.co_code[2 * at + 1], at - 1, 8
        while before >= 0 and steps[before] == EXTENDED:
            number |= code.co_code[2 * before + 1] << shift
            before, shift = before - 1, shift + 8
        yield code.co_names[number >> 1]
        at = steps.find(LOAD_GLOBAL, at + 1)
