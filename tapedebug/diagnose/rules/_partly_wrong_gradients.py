"""Find custom gradients that the end-to-end check finds wrong for some entries of an input only.

The rule examines the calls of a few threads; the check compares every entry, and identifies the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tapedebug.contract import CustomFunction, CustomGradients
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.adjoint_lines import adjoint_line
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.trace import Finding

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.reference import Departure
    from tapedebug.diagnose.rule_context import RuleContext

RULE = "custom-grad"
NAMED = 6
"""Largest number of entries that a finding lists."""


def find_partly_wrong_gradients(
    case: RuleContext, known: Callable[[CustomFunction], bool]
) -> Iterator[Finding]:
    """Yield a finding for each function whose gradient is not its derivative, except the `known` ones."""
    functions: dict[int, tuple[CustomFunction, list[Departure]]] = {}
    for departure in case.departures:
        for function in departure.functions:
            if not known(function):
                functions.setdefault(id(function), (function, []))[1].append(departure)
    for function, departures in functions.values():
        yield _finding(case, function, departures)


def _finding(case: RuleContext, function: CustomFunction, departures: list[Departure]) -> Finding:
    worst = max(departures, key=lambda d: d.error if math.isfinite(d.error) else math.inf)
    companion = function.gradient or function.replay
    assert companion is not None
    what = "gradient" if function.gradient is not None else "replay"
    sure = worst.right == "reference"
    launches = [launch for launch in case.trace.launches if _calls(case, launch.index, function)]
    entries = [worst.entry(int(at)) for at in worst.entries]
    at = int(worst.entries[0])
    labels = [departure.port.name for departure in departures]
    message = (
        f"{companion.name}, the {what} of {function.name}, is not its derivative for {len(entries)} of "
        f"{worst.port.size} entries of {worst.port.name} ({words.listed(entries, NAMED)}): {entries[0]} gets "
        f"{worst.given[at]:.6g}, and the derivative of what {function.name} computes gives "
        f"{worst.reference[at]:.6g}, {words.percent(_relative(worst, at))} apart"
    )
    message += f"; {worst.difference if sure else worst.undecided}."
    fix = f"correct {companion.name}"
    if function.gradient is not None:
        fix += f", or say that it is meant to differ: @wp.func_grad({function.name}, differs=True)"
    return RuleFinding(
        rule=RULE,
        severity="error" if sure else "warning",
        message=message,
        launches=[launch.index for launch in launches],
        arrays=labels,
        location=adjoint_line(companion),
        call_site=launches[0].call_site if launches else None,
        inputs=labels,
        evidence={
            "kind": "entries",
            "function": function.name,
            "gradient": companion.name,
            "entries": entries[:NAMED],
            "off": len(entries),
            "given": float(worst.given[at]),
            "right": float(worst.reference[at]),
            "difference": worst.probe.fd,
            "bar": worst.probe.bar,
        },
        fix=fix,
    )


def _relative(departure: Departure, at: int) -> float:
    right = float(departure.reference[at])
    return abs(float(departure.given[at]) - right) / abs(right) if right else math.inf


def _calls(case: RuleContext, index: int, function: CustomFunction) -> bool:
    """Return True if a launch calls a function."""
    replay = case.replay
    custom = None if replay is None else replay.records[index].capability(CustomGradients)
    return custom is not None and any(call.function is function for call in custom.calls())
