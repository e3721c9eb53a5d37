"""The panels that were opened by showing something; those of a cell that runs again are closed.

A widget lives in the kernel until it is closed, and keeps its tape and all the tape's arrays with it. Cells
are run again and again, so a panel whose output has been replaced is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug.notebook import _shell

if TYPE_CHECKING:
    from tapedebug.notebook._widget import TapeDebugger

_BY_CELL: dict[str, tuple[str, list[TapeDebugger]]] = {}
_LATEST: list[TapeDebugger] = []


def forget(panel: TapeDebugger) -> None:
    """Hold on to a panel no more: it was closed."""
    if panel in _LATEST:
        _LATEST.clear()
    for cell, (execution, panels) in list(_BY_CELL.items()):
        left = [other for other in panels if other is not panel]
        if left:
            _BY_CELL[cell] = (execution, left)
        else:
            del _BY_CELL[cell]


def open_panel(obj: Any, **options: Any) -> TapeDebugger:
    """Return a new panel for `obj`, and close those that the same cell showed when it ran before.

    Raises:
        ImportError: Widgets can not be shown here; the message says why.
    """
    from tapedebug.notebook import load_widget

    panel = load_widget()(obj, **options)
    _LATEST[:] = [panel]
    cell, execution = _shell.cell_id(), _execution()
    if cell is not None:
        before, panels = _BY_CELL.get(cell, ("", []))
        if before != execution:
            for old in list(panels):
                old.close()
            panels = []
        _BY_CELL[cell] = (execution, [*panels, panel])
    return panel


def latest() -> TapeDebugger | None:
    """Return the panel that was shown last, or None."""
    return _LATEST[0] if _LATEST else None


def _execution() -> str:
    shell = _shell.current()
    parent = getattr(shell, "parent_header", None) or {}
    return str(parent.get("header", {}).get("msg_id", ""))
