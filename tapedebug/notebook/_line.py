"""A line of text below a running cell, which goes away when the work is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def line_below_cell() -> Callable[[str], None]:
    """Return what shows a line, in place of the one before; an empty one takes it away.

    Plain text, no widget: a notebook that is saved with a widget that was closed says "model not found" when
    it is opened again.

    Raises:
        ImportError: IPython is not installed.
    """
    from IPython.display import display

    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        line = {"text/plain": text}
        if handle is not None:
            handle.update(line, raw=True)
        elif text:
            handle = display(line, raw=True, display_id=True)

    return show
