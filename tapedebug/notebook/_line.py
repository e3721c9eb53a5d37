"""A line of text below a running cell, which goes away when the work is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def line_below_cell() -> Callable[[str], None]:
    """Return what shows a line, in place of the one before; an empty one takes it away.

    Raises:
        ImportError: The notebook extras are not installed.
    """
    import ipywidgets
    from IPython.display import display

    label: Any = None

    def show(text: str) -> None:
        nonlocal label
        if not text:
            if label is not None:
                label.close()
            label = None
        elif label is None:
            label = ipywidgets.Label(text)
            display(label)
        else:
            label.value = text

    return show
