"""Results of a panel's checks: transfer to a newer trace, and their common verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError
from tapedebug.panel.pair_mask import check_mask

if TYPE_CHECKING:
    from tapedebug.panel.panel_source import PanelSource
    from tapedebug.trace import Trace

Checks = list[dict[str, Any]]

WORST_FIRST = ("WRONG", "NONDETERMINISTIC", "UNDECIDABLE", "KINK", "AGREE")


def that_hold(before: PanelSource, checks: Checks, now: PanelSource) -> Checks:
    """Return the results that are still valid after more was recorded.

    Results of a launch stay valid; those of the whole tape do not if launches were added.
    """
    longer = before.source.tape.launches != now.source.tape.launches
    kept = [check for check in done(checks) if not (longer and check["launch"] is None)]
    return translated(kept, before, now)


def that_fit(mask: Sequence[Any], trace: Trace) -> list[Any]:
    """Return the entries of a mask that a newer trace still has."""
    fitting: list[Any] = []
    for entry in mask:
        try:
            fitting += check_mask([entry], trace)
        except GradcheckError:
            continue
    return fitting


def judgement(verdict: str, checks: Sequence[dict[str, Any]]) -> str:
    """Return the panel's verdict: that of the diagnosis, else the worst of the whole-tape checks."""
    if verdict != "NOT CHECKED":
        return verdict
    found = {check["verdict"] for check in checks if check["launch"] is None}
    return next((worst for worst in WORST_FIRST if worst in found), verdict)


def done(checks: Sequence[dict[str, Any]]) -> Checks:
    """Return the checks that have a verdict."""
    return [check for check in checks if check["verdict"] is not None]


def translated(checks: Checks, theirs: PanelSource, ours: PanelSource) -> Checks:
    """Return the results with the array names of another trace of the same tape."""
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
