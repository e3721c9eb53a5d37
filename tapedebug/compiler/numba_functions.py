"""Functions that users compile with Numba (`@numba.njit`): how kernels recognize them.

Imports nothing of Numba.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from tapedebug.compiler.function import Function

_functions: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()


def is_numba_function(value: Any) -> bool:
    """True if a value is a function that Numba compiles when it is called (`@numba.njit`, `@numba.jit`)."""
    dispatcher = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
    return dispatcher is not None and isinstance(value, dispatcher)


def function_of(dispatcher: Any) -> Function:
    """Return the function of the kernel language that stands for one of Numba's."""
    found = _functions.get(dispatcher)
    if found is None:
        found = _functions[dispatcher] = Function(dispatcher.py_func)
        found.numba = weakref.ref(dispatcher)
    return found


def version() -> str:
    """Return the versions of Numba and of its LLVM."""
    from importlib import metadata

    return f"numba {metadata.version('numba')} llvmlite {metadata.version('llvmlite')}"
