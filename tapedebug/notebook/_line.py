"""A line of text below a running cell, which says in the end how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


def line_below_cell() -> Callable[[str], None]:
    """Return what shows a line, in place of the one before; an empty one ends it.

    Nothing that was displayed can be taken away alone, and an emptied output leaves a gap in the notebook. So
    the last line stays and tells what was done, in how much time, and whether it came to its end.

    Plain text, no widget: a notebook that is saved with a widget that was closed says "model not found" when
    it is opened again.

    Raises:
        ImportError: IPython is not installed.
    """
    from IPython.display import display

    handle: Any = None
    what, began = "", time.monotonic()

    def show(text: str) -> None:
        nonlocal handle, what
        if not text and handle is None:
            return
        if text:
            what = text.partition(": ")[0]
        line = {"text/plain": text or f"{what}: {_outcome()} {time.monotonic() - began:.1f} s"}
        if handle is not None:
            handle.update(line, raw=True)
        else:
            handle = display(line, raw=True, display_id=True)
        if not text:
            handle = None

    return show


def _outcome() -> str:
    """How the work ended: this runs while an exception, if there is one, is on its way."""
    error = sys.exc_info()[0]
    if error is None:
        return "done in"
    return "interrupted after" if issubclass(error, KeyboardInterrupt) else "ended after"
