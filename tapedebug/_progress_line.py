"""A progress line below a running cell, removed when the work has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GONE = (
    "<style>.jp-OutputArea-child:has(> .jp-OutputArea-output .tapedebug-gone) { display: none }</style>"
    '<span class="tapedebug-gone"></span>'
)
"""HTML that hides its own output: Jupyter cannot remove a single output, and an empty one leaves a gap."""


def line_below_cell() -> Callable[[str], None]:
    """Return a function that shows a line in place of the previous one; an empty line removes it.

    It is plain text and not a widget: a notebook saved with a closed widget shows "model not found" when it
    is opened again.

    Raises:
        ImportError: IPython is not installed.
    """
    from IPython.display import display

    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        if not text and handle is None:
            return
        line = {"text/plain": text} if text else {"text/html": GONE, "text/plain": ""}
        if handle is not None:
            handle.update(line, raw=True)
        else:
            handle = display(line, raw=True, display_id=True)
        if not text:
            handle = None

    return show
