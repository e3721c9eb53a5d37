"""Synchronisation of the panels of one tape: shared results, separate selections and masks."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tapedebug.panel.check_results import Checks, done, translated

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from tapedebug.notebook._widget import TapeDebugger
    from tapedebug.panel.panel_source import PanelSource

_OPEN: weakref.WeakSet[TapeDebugger] = weakref.WeakSet()
_FOLLOWED: weakref.WeakSet[Any] = weakref.WeakSet()


def opened(panel: TapeDebugger) -> None:
    """Register a new panel."""
    _OPEN.add(panel)


def closed(panel: TapeDebugger) -> None:
    """Remove a closed panel."""
    _OPEN.discard(panel)


def found_elsewhere(subject: PanelSource) -> Checks:
    """Return the results of the open panels of a tape, with the labels of a further panel."""
    found: Checks = []
    for panel in _of(subject):
        found += translated(done(panel.checks), panel._runner.subject, subject)
    return found


def share(panel: TapeDebugger) -> None:
    """Send the results of one panel to the other panels of its tape."""
    subject = panel._runner.subject
    for other in _of(subject):
        if other is not panel:
            other._learn(translated(done(panel.checks), subject, other._runner.subject))


def follow(shell: InteractiveShell) -> None:
    """Check after each cell of an IPython shell if it ran a reverse pass; registered once for each shell."""
    if shell not in _FOLLOWED:
        _FOLLOWED.add(shell)
        shell.events.register("post_run_cell", _cell_ends)


def _cell_ends(_: object = None) -> None:
    for panel in list(_OPEN):
        panel._look_for_passes()


def passes_of(subject: PanelSource) -> int:
    """Return the number of reverse passes that a tape has run."""
    return 0 if subject.tape is None else len(subject.tape.reverse_passes)


def _of(subject: PanelSource) -> list[TapeDebugger]:
    """Return the open panels that show the same launches of the same tape."""
    if subject.tape is None:
        return []
    return [
        panel
        for panel in _OPEN
        if panel._runner.subject.tape is subject.tape
        and panel._runner.subject.source.recording == subject.source.recording
        and panel._runner.subject.source.tape.launches == subject.source.tape.launches
    ]
