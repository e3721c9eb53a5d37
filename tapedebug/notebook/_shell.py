"""The IPython shell that we run in, if any; never imports IPython."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")


def current() -> Any | None:
    """Return the running IPython shell, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def in_notebook() -> bool:
    """Whether outputs go to a Jupyter front end, which can show more than text."""
    return getattr(current(), "kernel", None) is not None


def cell_id() -> str | None:
    """Return the id of the notebook cell that is running, where the front end tells it."""
    shell = current()
    parent = getattr(shell, "parent_header", None) if shell is not None else None
    metadata = parent.get("metadata") if isinstance(parent, dict) else None
    found = metadata.get("cellId") if isinstance(metadata, dict) else None
    return str(found) if found else None


def cell_text() -> str:
    """Return the code that the front end asked to run; empty where that is not known."""
    shell = current()
    parent = getattr(shell, "parent_header", None) if shell is not None else None
    content = parent.get("content") if isinstance(parent, dict) else None
    return str(content.get("code", "")) if isinstance(content, dict) else ""


def in_namespace(work: Callable[[], T]) -> T:
    """Return `work()`, called as if from the user's namespace.

    Arrays and tapes are named after the variables of whoever asks; in a message from the front end nobody
    asks from the notebook.
    """
    shell = current()
    if shell is None:
        return work()
    result: T = FunctionType(_call.__code__, shell.user_ns)(work)
    return result


def _call(work: Callable[[], T]) -> T:
    return work()
