"""Registry of open panels, which closes those of a cell that runs again.

A widget lives in the kernel until it is closed, and keeps its tape and all the tape's arrays alive. Cells are
run repeatedly, so a panel whose output has been replaced is closed, and the tape that was the cell's result
is removed from `Out`.

JupyterLab sends the id of the cell. With other clients a cell is identified by its text and by the place in
the source where the tape was made, and only the newest panels stay open.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tapedebug import _shell
from tapedebug._dataclass import dataclass
from tapedebug.panel.panel_source import made_at

if TYPE_CHECKING:
    from tapedebug.notebook._widget import TapeDebugger

LOWEST = 200
"""Smallest height of a panel in CSS pixels: a lower one shows no lane."""

MOST_UNKNOWN = 16
"""Number of panels of cells without an id that stay open; these cells may have been edited and rerun."""


@dataclass
class _Run:
    """The displays of one run of a cell.

    Attributes:
        execution: The id of the client's request.
        number: Its number in `Out`.
        panels: The open panels.
        objects: The ids of the objects that they show.
    """

    execution: str
    number: int
    panels: list[TapeDebugger] = field(default_factory=list)
    objects: set[int] = field(default_factory=set)


_BY_CELL: dict[Hashable, _Run] = {}
_LATEST: list[TapeDebugger] = []


def forget(panel: TapeDebugger) -> None:
    """Remove a closed panel from the registry."""
    if panel in _LATEST:
        _LATEST.clear()
    for cell, run in list(_BY_CELL.items()):
        if panel in run.panels:
            run.panels.remove(panel)
        if not run.panels:
            del _BY_CELL[cell]


def open_panel(obj: object, *, height: float | None = None) -> TapeDebugger:
    """Return a new panel for `obj`, and close those that the same cell showed when it ran before.

    Raises:
        ImportError: Widgets cannot be shown here; the message contains the reason.
    """
    from tapedebug.notebook import load_widget

    panel = load_widget()(obj, height=height)
    _LATEST[:] = [panel]
    cell = _cell(panel)
    if cell is None:
        return panel
    run, execution = _BY_CELL.pop(cell, None), _shell.execution()
    if run is not None and run.execution != execution:
        _replace(run)
        run = None
    if run is None:
        hook = getattr(_shell.current(), "displayhook", None)
        run = _Run(execution, getattr(hook, "prompt_count", 0))
    run.panels.append(panel)
    run.objects.add(id(obj))
    _BY_CELL[cell] = run  # the newest last
    _close_oldest()
    return panel


def latest() -> TapeDebugger | None:
    """Return the panel that was displayed last, or None."""
    return _LATEST[0] if _LATEST else None


def _cell(panel: TapeDebugger) -> Hashable:
    """Return the key of a cell, the same in all its runs; None outside of cells."""
    id = _shell.cell_id()
    if id is not None:
        return id
    text = _shell.cell_text()
    return (text, made_at(panel._runner.subject)) if text else None


def _close_oldest() -> None:
    unknown = [run for cell, run in _BY_CELL.items() if not isinstance(cell, str)]
    for run in unknown[:-MOST_UNKNOWN]:
        for panel in list(run.panels):
            panel.close()


def _replace(run: _Run) -> None:
    """Close the panels of an earlier run of a cell, and remove its result from `Out`.

    IPython keeps all results, under numbers that are no longer displayed when their cells have run again, and
    the last three as `_`, `__` and `___`.
    """
    for panel in list(run.panels):
        panel.close()
    shell: Any = _shell.current()
    if shell is None:  # marimo keeps no results
        return
    result = shell.user_ns.get("_oh", {}).get(run.number)
    if result is None or id(result) not in run.objects:
        return
    del shell.user_ns["_oh"][run.number]
    for name in ("_", "__", "___"):
        if getattr(shell.displayhook, name, None) is result:
            setattr(shell.displayhook, name, "")
            shell.user_ns[name] = shell.user_ns_hidden[name] = ""
    for names in (shell.user_ns, shell.user_ns_hidden):
        names.pop(f"_{run.number}", None)
