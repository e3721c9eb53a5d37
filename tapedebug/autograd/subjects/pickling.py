"""Pickle kernels and their arguments for other processes, by name or with their source.

A kernel of a module is pickled by name. A kernel of a notebook or script, or one defined inside a function,
is pickled with its Python function (by cloudpickle), its source and the values of the names in it.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from tapedebug._config import config
from tapedebug._errors import GradcheckError
from tapedebug.compiler.function import DECORATED_SCOPES, DIFFERING, Function, decorated_scope
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.modules import OPTIONS
from tapedebug.compiler.native.function import Native
from tapedebug.lang.compound_types import from_words, in_words
from tapedebug.lang.structs import struct
from tapedebug.lang.types import Struct, is_compound

Reduced = tuple[Any, ...]

SETTINGS = ("check_bounds", "compiler", "enable_backward", "interpreted", "max_unroll", "mode", "strong_zero")
"""Settings of the process that may affect results."""


def dumps(thing: object, caller: str) -> bytes:
    """Return `thing` as bytes.

    Args:
        thing: Data that contains kernels.
        caller: The function that was called, for error messages.

    Raises:
        GradcheckError: A kernel must be pickled with its function, and cloudpickle is missing or cannot
            pickle something that the function uses.
    """
    stream = io.BytesIO()
    try:
        _pickler()(stream).dump((_settings(), thing))
    except GradcheckError:
        raise
    except Exception as error:
        raise GradcheckError(
            f"{caller}: a kernel cannot be sent to another process ({type(error).__name__}: {error})",
            hint="put the kernel, and what it uses, into a module that workers can import",
        ) from None
    return stream.getvalue()


def loads(data: bytes) -> tuple[dict[str, Any], Any]:
    """Return the settings and the object that `dumps` wrote."""
    found: tuple[dict[str, Any], Any] = pickle.loads(data)
    return found


@contextmanager
def settings_of(sender: dict[str, Any]) -> Iterator[None]:
    """Context in which this process has the settings of the process that sent the work."""
    before = {name: value for name in SETTINGS if (value := getattr(config, name)) != sender[name]}
    try:
        for name in before:
            setattr(config, name, sender[name])
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def _settings() -> dict[str, Any]:
    return {name: getattr(config, name) for name in SETTINGS}


def _pickler() -> Callable[[io.BytesIO], pickle.Pickler]:
    """Return the pickler: cloudpickle's if it is installed."""
    try:
        import cloudpickle
    except ImportError:
        base: Any = pickle.Pickler
    else:
        base = cloudpickle.Pickler

    class Portable(base):  # type: ignore[misc]
        """A pickler with support for kernels."""

        def reducer_override(self, thing: object) -> Any:
            found = _reduced(thing)
            if found is not None:
                return found
            if base is not pickle.Pickler:
                return super().reducer_override(thing)
            if isinstance(thing, FunctionType) and _address(thing) is None:
                raise _needs_cloudpickle(thing.__name__)
            return NotImplemented

    return lambda stream: Portable(stream, protocol=pickle.HIGHEST_PROTOCOL)


def _needs_cloudpickle(name: str) -> GradcheckError:
    return GradcheckError(
        f"`{name}` is not in a module that workers can import, and sending it needs cloudpickle, "
        "which is not installed",
        hint="pip install cloudpickle, or put the kernel into a module",
    )


def _reduced(thing: object) -> Reduced | None:
    """Return the function and arguments that recreate `thing`; None for objects that pickle can handle."""
    if isinstance(thing, Kernel):
        return _reduced_kernel(thing)
    if isinstance(thing, Function):
        return _reduced_function(thing)
    if isinstance(thing, ModuleType) and sys.modules.get(thing.__name__) is thing:
        return importlib.import_module, (thing.__name__,)
    if isinstance(thing, type) and is_compound(thing):
        return from_words, in_words(thing)
    if isinstance(thing, type) and issubclass(thing, Struct) and _address(thing) is None:
        return _reduced_struct(thing)
    return None


def _address(thing: object, python: object = None) -> tuple[str, str] | None:
    """Return the module and name under which other processes find `thing`; None if they cannot find it."""
    named = thing if python is None else python
    module, path = getattr(named, "__module__", None), getattr(named, "__qualname__", "")
    if module is None or module == "__main__" or "<" in path:
        return None
    return (module, path) if _at(sys.modules.get(module), path) is thing else None


def _at(module: object, path: str) -> Any:
    found = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _found(module: str, path: str, text: str) -> Any:
    """Return the object at an address, if its source equals the sender's."""
    found = _at(importlib.import_module(module), path)
    if found is None or _digest(found) != text:
        raise GradcheckError(
            f"`{path}` of the module {module} is another one for the worker than for the process that sent "
            "it",
            hint="start workers anew when a module changes",
        )
    return found


def _digest(thing: Kernel | Function) -> str:
    return hashlib.sha256("\n".join(thing.origin.lines).encode()).hexdigest()


# ------------------------------------------------------------------ kernels


def _reduced_kernel(kernel: Kernel) -> Reduced:
    options = {name: kernel.option(name) for name in OPTIONS}
    if kernel.generic is not None:
        return _instance, (kernel.generic, kernel.types)
    address = _address(kernel, kernel.python)
    if address is not None:
        return _known_kernel, (*address, _digest(kernel), options)
    state = {"origin": kernel.origin.to_send(), "scope": _scope(kernel.python)}
    made = kernel.python, kernel.key, kernel.module.name, options
    return _new_kernel, made, state, None, None, _complete_kernel


def _instance(generic: Kernel, kinds: tuple[Any, ...]) -> Kernel:
    return generic.instance(kinds)


def _known_kernel(module: str, path: str, text: str, options: dict[str, Any]) -> Kernel:
    found: Kernel = _found(module, path, text)
    if all(found.option(name) == value for name, value in options.items()):
        return found
    return Kernel(found.python, found.key, found.module, options)


def _new_kernel(python: Callable[..., Any], key: str, module: str, options: dict[str, Any]) -> Kernel:
    DECORATED_SCOPES.setdefault(python, {})  # its annotations are read already
    return Kernel(python, key, module, options)


def _complete_kernel(kernel: Kernel, state: dict[str, Any]) -> None:
    DECORATED_SCOPES[kernel.python] = state["scope"]
    vars(kernel)["origin"] = state["origin"].arrive(kernel.python)


def _scope(python: Callable[..., Any]) -> dict[str, Any]:
    """Return the constants that names meant where a function was decorated."""
    kinds = (bool, int, float, str, tuple, type, ModuleType)
    return {name: value for name, value in decorated_scope(python).items() if isinstance(value, kinds)}


# ------------------------------------------------------------------ functions


def _reduced_function(function: Function) -> Reduced:
    address = _address(function, function.python)
    if address is not None:
        return _found, (*address, _digest(function))
    state = {
        "origin": function.origin.to_send(),
        "scope": _scope(function.python),
        "snippets": None if function.native is None else function.native.snippets,
        "differs": function.differs,
        "gradient": function.gradient,
        "replay": function.replay,
        "companion_of": function.companion_of,
        "overloads": function.overloads,
    }
    return Function, (function.python,), state, None, None, _complete_function


def _complete_function(function: Function, state: dict[str, Any]) -> None:
    python = function.python
    DECORATED_SCOPES[python] = state["scope"]
    vars(function)["origin"] = state["origin"].arrive(python)
    for name in ("differs", "gradient", "replay", "companion_of", "overloads"):
        setattr(function, name, state[name])
    if function.differs:
        DIFFERING.add(function)
    if state["snippets"] is not None:
        function.native = Native(
            python,
            state["snippets"],
            lambda: function.origin,
            lambda: (function.types, function.result_type, function.references),
        )


# ------------------------------------------------------------------ structs


def _reduced_struct(kind: type[Struct]) -> Reduced:
    own = {name: value for name, value in vars(kind).items() if isinstance(value, FunctionType | Function)}
    return _new_struct, (kind.__name__, kind.__module__, kind.__qualname__, dict(kind.fields), own)


def _new_struct(
    name: str, module: str, path: str, fields: dict[str, Any], methods: dict[str, Any]
) -> type[Struct]:
    content = {"__module__": module, "__qualname__": path, "__annotations__": fields, **methods}
    made: type[Struct] = struct(type(name, (), content))
    return made
