"""The code that a tape runs before a launch, generated for each plan.

The generated text contains the checks of every launch; work that few launches need is a call of the tracker.
With loops in its place, taped launches take 1.3 to 1.5 times as long (`runtime.generated_functions`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from tapedebug.runtime.generated_functions import function_from_text
from tapedebug.runtime.tape.write_barrier import before_write

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import LaunchPlan


def new_record_hook(plan: LaunchPlan) -> Callable[[Any, Any], bool]:
    """Return the function that a tape calls before launches of a plan, with its tracker and the record.

    It opens the values that the launch reads and needs, closes those that it overwrites, and returns True if
    `Tracker.after` must be called after the launch.
    """
    return _function("\n    ".join(_text(plan)) + "\n")


@cache
def _function(text: str) -> Callable[[Any, Any], bool]:
    return function_from_text("before", text, {"before_write": before_write})


def _text(plan: LaunchPlan) -> list[str]:
    own = "{" + ", ".join(f"{p}: s{p}" for p in plan.touched) + "}"
    lines = [
        "def before(tracker, record):",
        "args, states, watched, closed = record.args, tracker.states, False, False",
    ]
    for p in plan.touched:
        lines += [
            f"a{p} = args[{p}]",
            f"b{p} = a{p}.buffer",
            f"s{p} = states.get(a{p}) or tracker.resolve(a{p})",
            f"if b{p}.windows:",
            "    watched = True",
            f"    tracker.catch_up_near(b{p}, s{p})",
        ]
    lines += ['if tracker.mode == "error" and not tracker.settled:', f"    tracker.refuse(record, {own})"]
    for p in plan.found:
        lines += [f"if not s{p}.defined:"]
        if p in plan.covers and plan.kind == "python":
            lines += [f"    s{p}.defined = True"]
        elif p in plan.covers:  # a launch that replaces an array reads nothing from it
            lines += [
                f"    if a{p}.shape == record.dim:",
                f"        s{p}.defined = True",
                "    else:",
                f"        tracker.find(s{p}, b{p})",
            ]
        else:
            lines += [f"    tracker.find(s{p}, b{p})"]
    if plan.needed:
        needs = [f"s{p}.need or tracker.open_need(s{p}, b{p}, record.index, {p})," for p in plan.early]
        lines += [f"record.needs = ({' '.join(needs)})"]
    for p in plan.written:
        lines += [
            f"if s{p}.hot:",
            "    closed = True",
            f"    tracker.close(tracker.ledgers[b{p}], s{p}, record)",
            "if not tracker.dry:",
            f"    before_write(a{p}, record.site, 'launch', tracker)",
        ]
    if plan.late:
        lines += [f"tracker.need_late(record, {own})"]
    folded = [f"s{p}.folded" for p in plan.written if plan.strided and p in plan.active]
    if plan.kernel is not None and (plan.needed or plan.exposed or folded):
        reasons = ["closed", *(f"b{p} is b{q}" for p, q, _ in plan.exposed), *folded]
        lines += [f"if {' or '.join(reasons)}:", f"    tracker.keep_in_place(record, {own})"]
    return [*lines, "return watched"]
