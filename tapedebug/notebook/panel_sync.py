"""Panels of one tape: each has its own selection and mask, and all have the results of all checks."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError
from tapedebug.notebook.pair_mask import check_mask

if TYPE_CHECKING:
    from tapedebug.notebook._widget import TapeDebugger
    from tapedebug.notebook.panel_source import PanelSource
    from tapedebug.trace import Trace

Checks = list[dict[str, Any]]

_OPEN: weakref.WeakSet[TapeDebugger] = weakref.WeakSet()
_FOLLOWED: weakref.WeakSet[Any] = weakref.WeakSet()

WORST_FIRST = ("WRONG", "NONDETERMINISTIC", "UNDECIDABLE", "KINK", "AGREE")


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
        found += _translated(_done(panel.checks), panel._runner.subject, subject)
    return found


def share(panel: TapeDebugger) -> None:
    """Tell the other panels of a tape what was checked in one."""
    subject = panel._runner.subject
    for other in _of(subject):
        if other is not panel:
            other._learn(_translated(_done(panel.checks), subject, other._runner.subject))


def follow(shell: Any) -> None:
    """After each cell of an IPython shell, look whether it ran a reverse pass; once for each shell."""
    if shell not in _FOLLOWED:
        _FOLLOWED.add(shell)
        shell.events.register("post_run_cell", _cell_ends)


def _cell_ends(_: Any = None) -> None:
    for panel in list(_OPEN):
        panel._look_for_passes()


def passes_of(subject: PanelSource) -> int:
    """Return how many reverse passes a tape has run."""
    return 0 if subject.tape is None else len(subject.tape.backward_calls)


def that_hold(before: PanelSource, checks: Checks, now: PanelSource) -> Checks:
    """Return those results that still say something of the tape when more was recorded.

    What was found of a launch does; what was found of the whole tape does not, when there is more of it.
    """
    longer = before.source.tape.launches != now.source.tape.launches
    done = [check for check in _done(checks) if not (longer and check["launch"] is None)]
    return _translated(done, before, now)


def that_fit(mask: Sequence[Any], trace: Trace) -> list[Any]:
    """Return the entries of a mask that a newer trace has, too."""
    fitting: list[Any] = []
    for entry in mask:
        try:
            fitting += check_mask([entry], trace)
        except GradcheckError:
            continue
    return fitting


def judgement(verdict: str, checks: Sequence[dict[str, Any]]) -> str:
    """Return the verdict that the panel shows: the diagnosis', else the worst of the whole-tape checks."""
    if verdict != "NOT CHECKED":
        return verdict
    found = {check["verdict"] for check in checks if check["launch"] is None}
    return next((worst for worst in WORST_FIRST if worst in found), verdict)


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


def _done(checks: Sequence[dict[str, Any]]) -> Checks:
    return [check for check in checks if check["verdict"] is not None]


def _translated(checks: Checks, theirs: PanelSource, ours: PanelSource) -> Checks:
    """The same results, with arrays called what the other trace calls them."""
    names = {
        one.label: other.label for one, other in zip(theirs.source.arrays, ours.source.arrays, strict=False)
    }
    return [
        {**check, "input": names.get(check["input"], check["input"]),
         "output": names.get(check["output"], check["output"])}
        if check["launch"] is None
        else check
        for check in checks
    ]  # fmt: skip
