"""The end of a process that ran a program: objects are finalized once, and memory is left to the system.

Python collects garbage several times when a process ends, and frees modules object by object: 0.1 s for a
small program, 0.3 s where it has loaded matplotlib.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import threading
from typing import Any

BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
"""Types of open files that hold what is not yet written."""

_namespaces: list[dict[str, Any]] | None = None
"""The names of programs that ran as `__main__`; None unless `end_quickly` ends this process."""


def finalize_at_end(namespace: dict[str, Any]) -> None:
    """Finalize what a program has defined as `__main__` at the end of a process that `end_quickly` ends."""
    if _namespaces is not None:
        _namespaces.append(namespace)


def end_quickly() -> None:
    """Let this process end after one collection, once all other functions for its end have run.

    What programs have defined as `__main__` is finalized, and open files are written out. Objects in cycles
    that other modules refer to are not finalized, which Python does not promise either. Where a thread still
    runs, the process ends as usual.
    """
    global _namespaces
    if _namespaces is None:
        _namespaces = []
        atexit.register(_end)


def _end() -> None:
    if threading.active_count() > 1:  # it may need what is finalized here
        return
    for namespace in _namespaces or ():
        # As for modules, in the order of definition: first names with an underscore, then others.
        for private in (True, False):
            for name in [*namespace]:
                if name != "__builtins__" and (name[:1] == "_") is private:
                    namespace[name] = None
    gc.collect()
    for each in gc.get_objects():
        if issubclass(type(each), BUFFERED):  # `isinstance` would ask proxies of other libraries
            with contextlib.suppress(OSError, ValueError):  # closed, or the reader of a pipe is gone
                each.flush()
    gc.freeze()
