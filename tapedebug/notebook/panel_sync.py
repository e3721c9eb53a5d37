"""Keep the panels of one tape in sync: shared results, separate selections and masks."""

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
    """A panel was made."""
    _OPEN.add(panel)


def closed(panel: TapeDebugger) -> None:
    """A panel was closed."""
    _OPEN.discard(panel)


def found_elsewhere(subject: PanelSource) -> Checks:
    """Return what the open panels of a tape have found, in the words of one more."""
    found: Checks = []
    for panel in _of(subject):
        found += translated(done(panel.checks), panel._runner.subject, subject)
    return found


def share(panel: TapeDebugger) -> None:
    """Tell the other panels of a tape what was checked in one."""
    subject = panel._runner.subject
    for other in _of(subject):
        if other is not panel:
            other._learn(translated(done(panel.checks), subject, other._runner.subject))


def follow(shell: InteractiveShell) -> None:
    """After each cell of an IPython shell, look whether it ran a reverse pass; once for each shell."""
    if shell not in _FOLLOWED:
        _FOLLOWED.add(shell)
        shell.events.register("post_run_cell", _cell_ends)


def _cell_ends(_: object = None) -> None:
    for panel in list(_OPEN):
        panel._look_for_passes()


def passes_of(subject: PanelSource) -> int:
    """Return how many reverse passes a tape has run."""
    return 0 if subject.tape is None else len(subject.tape.reverse_passes)


def _of(subject: PanelSource) -> list[TapeDebugger]:
    """The open panels that show the same launches of the same tape."""
    if subject.tape is None:
        return []
    return [
        panel
        for panel in _OPEN
        if panel._runner.subject.tape is subject.tape
        and panel._runner.subject.source.recording == subject.source.recording
        and panel._runner.subject.source.tape.launches == subject.source.tape.launches
    ]
