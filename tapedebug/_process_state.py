"""Preserve the settings of the process that checks change, also after an exception."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def preserve_process_state(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate `work`: after it NumPy warns of what it warned of before, and garbage is collected if it was.

    Ctrl-C inside `np.errstate.__enter__` leaves in force what its block was to end, and no line around it
    is safe from another one. NumPy keeps its settings in a context variable, and Python leaves a context
    without running a line.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        collecting = gc.isenabled()
        try:
            return copy_context().run(work, *args, **kwargs)
        finally:
            if collecting:
                gc.enable()

    return call
