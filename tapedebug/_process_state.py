"""Restoration of the process settings that checks change, also after an exception."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def preserve_process_state(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate `work` so that NumPy's error settings and the garbage collector's state are restored after it.

    Ctrl-C inside `np.errstate.__enter__` leaves its settings in force, and a second Ctrl-C may interrupt any
    line that restores them. NumPy stores its settings in a context variable, and Python leaves a
    context without executing a line.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        collecting, thresholds = gc.isenabled(), gc.get_threshold()
        try:
            return copy_context().run(work, *args, **kwargs)
        finally:
            if collecting:
                gc.enable()
            gc.set_threshold(*thresholds)

    return call
