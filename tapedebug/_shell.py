"""The current IPython shell, if any; never imports IPython."""

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
    """True if outputs go to a front end that can show more than text: Jupyter's, or marimo's."""
    return getattr(current(), "kernel", None) is not None or in_marimo()


def in_marimo() -> bool:
    """True if a marimo notebook is running."""
    running = getattr(sys.modules.get("marimo"), "running_in_notebook", None)
    return bool(running()) if callable(running) else False


def execution() -> str:
    """Return an id of the current cell execution, different for each run; "" if unknown."""
    if in_marimo():
        return str(id(_marimo_execution()))
    parent = getattr(current(), "parent_header", None) or {}
    return str(parent.get("header", {}).get("msg_id", ""))


def _marimo_execution() -> Any:
    context = sys.modules.get("marimo._runtime.context")  # marimo has no public name for the running cell
    return getattr(context.get_context(), "execution_context", None) if context is not None else None


def is_batch() -> bool:
    """True if the running cell was sent by a program that takes no input, such as nbconvert or papermill.

    Live widgets are not displayed then: their content has to be in the output itself.
    """
    kernel = getattr(current(), "kernel", None)
    get_parent = getattr(kernel, "get_parent", None)
    parent = get_parent() if callable(get_parent) else None
    content = parent.get("content") if isinstance(parent, dict) else None
    return isinstance(content, dict) and content.get("allow_stdin") is False


def cell_id() -> str | None:
    """Return the id of the running notebook cell, if the front end sends it."""
    if in_marimo():
        cell = getattr(_marimo_execution(), "cell_id", None)
        return None if cell is None else str(cell)
    shell = current()
    parent = getattr(shell, "parent_header", None) if shell is not None else None
    metadata = parent.get("metadata") if isinstance(parent, dict) else None
    found = metadata.get("cellId") if isinstance(metadata, dict) else None
    return str(found) if found else None


def cell_text() -> str:
    """Return the code that the front end sent for execution; empty if unknown."""
    shell = current()
    parent = getattr(shell, "parent_header", None) if shell is not None else None
    content = parent.get("content") if isinstance(parent, dict) else None
    return str(content.get("code", "")) if isinstance(content, dict) else ""


def in_namespace(work: Callable[[], T]) -> T:
    """Return `work()`, called as if from the user's namespace.

    Arrays and tapes are named after the variables of the calling frames; the handler of a message from the
    front end is not called from a frame of the notebook.
    """
    shell = current()
    if shell is None:
        return work()
    result: T = FunctionType(_call.__code__, shell.user_ns)(work)
    return result


def _call(work: Callable[[], T]) -> T:
    return work()
