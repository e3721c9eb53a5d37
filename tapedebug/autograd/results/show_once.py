"""Print a result once when its check ends, also if it is the value of a notebook cell."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.autograd.results.gradcheck_result import GradcheckResult

_last: tuple[weakref.ref[Any], int] | None = None
"""The last displayed result, and the number of the cell that was running."""


def show(result: GradcheckResult) -> None:
    """Print a result, or display it below the cell of a notebook."""
    global _last
    shell = _notebook()
    if shell is None:
        print(result.summary())
        return
    from IPython.display import display

    _last = None
    display(result)
    _last = weakref.ref(result), shell.execution_count


def was_shown(result: GradcheckResult) -> bool:
    """True if `show` displayed a result in the running cell; true only the first time it is called.

    The notebook also displays the value of a cell's last line, so the result would appear twice.
    """
    global _last
    shell, last = _notebook(), _last
    if shell is None or last is None or last[0]() is not result:
        return False
    _last = None
    return bool(last[1] == shell.execution_count)


def _notebook() -> Any:
    """Return the shell of a notebook, or None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if getattr(shell, "kernel", None) is not None else None
