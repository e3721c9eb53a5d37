"""Compilation of functions, and their names."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numba

PARTS = 2 * numba.config.NUMBA_NUM_THREADS
"""Into how many parts something is cut that threads share."""


class Way(NamedTuple):
    """A function written by hand.

    Attributes:
        name: `"serial"`, `"prange"`, with what distinguishes it from others of the same kind.
        call: Takes the arguments of the kernel; an adjoint also those of `adjoints`, in the kernel's order.
    """

    name: str
    call: Callable[..., Any]


FOUND: dict[tuple[str, str], list[Way]] = {}
"""By kernel and part (`"forward"`, `"backward"`)."""


def serial(kernel: str, part: str, name: str = "serial") -> Callable[[Any], Any]:
    """Compile for one thread."""
    return _compiled(kernel, part, name, parallel=False)


def prange(kernel: str, part: str, name: str = "prange") -> Callable[[Any], Any]:
    """Compile for all threads."""
    return _compiled(kernel, part, name, parallel=True)


def _compiled(kernel: str, part: str, name: str, *, parallel: bool) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        # Numba's cache does not look at the value of PARTS, and does not know functions in closures again.
        cache = function.__closure__ is None and "PARTS" not in function.__code__.co_names
        own = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, None, function.__closure__
        )
        # Numba's cache does not look at `parallel` either: under one name, the machine code of whichever way
        # was compiled first would be loaded for both, and timed as serial and as parallel.
        own.__qualname__ = f"{function.__qualname__}_{'parallel' if parallel else 'serial'}"
        made = numba.njit(nogil=True, error_model="numpy", fastmath=False, parallel=parallel, cache=cache)(
            own
        )
        FOUND.setdefault((kernel, part), []).append(Way(name, made))
        return function

    return decorate


def ways(kernel: str, part: str, *, parallel: bool = True) -> list[Way]:
    """All ways that there are, or those of one thread."""
    for module in ("maps", "springs", "sums", "loops", "net"):
        importlib.import_module(f"tests.benchmarks.by_hand.{module}")
    found = FOUND[kernel, part]
    return [way for way in found if parallel or not way.name.startswith("prange")]
