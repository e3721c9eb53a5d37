"""The code that a tape runs for a launch, generated for each plan.

The generated text contains the checks of every launch; work that few launches need is a call of the tracker.
With loops in its place, taped launches take 1.3 to 1.5 times as long (`runtime.generated_functions`). One
function makes the record of a launch, runs that and appends the record: separate calls take 0.2 µs more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tapedebug.runtime.generated_functions import function_from_text
from tapedebug.runtime.launch.argument_packing import HEADER
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.write_barrier import RECORDED, announce_recorded, before_write

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import KernelPlan, LaunchPlan

Recorder = Callable[[Any, tuple[Any, ...], tuple[tuple[int, ...], int, bytes], bytes, Any], None]
"""A function of a tape, the arguments, the result of `dims`, the packed arguments and the call site."""

RECORD = """\
def record(tape, args, known, packed, site):
    tracker = tape.tracker
    records, states = tracker.records, tracker.states
    record = new(Record)
    record.index = len(records)
    record.plan = plan
    record.args = {names} = args
    record.dim, record.threads, _ = known
    record.packed = packed
    record.site = site
    record.scope = tape.scope
    record.needs = record.inplace_saves = ()
    record.elapsed = 0.0
    record.value = b""
    record.times = record.func = record.notes = None
    watched = closed = False
    budget = tracker.budget
    if budget is not None and budget.full:
        budget.thin(tracker)
    {checks}
    start = perf_counter()
    (plan.run if record.threads < least else large)(0, record.threads, id(packed) + HEADER)
    record.elapsed = perf_counter() - start
    if watched:
        tracker.after(record)
    records.append(record)
"""


def new_record_hook(plan: LaunchPlan) -> Callable[[Any, Any], bool]:
    """Return the function that a tape calls before launches of a plan, with its tracker and the record.

    It opens the values that the launch reads and needs, closes those that it overwrites, and returns True if
    `Tracker.after` must be called after the launch.
    """
    lines = [
        "def before(tracker, record):",
        "args, states, watched, closed = record.args, tracker.states, False, False",
        *[f"a{p} = args[{p}]" for p in plan.touched],
        *_checks(plan, runs=False),
        "return watched",
    ]
    return _function("\n    ".join(lines) + "\n")


@cache
def _function(text: str) -> Callable[[Any, Any], bool]:
    return function_from_text("before", text, {"before_write": before_write})


def recorder_of(plan: KernelPlan) -> Recorder:
    """Return the function that does for a launch what `new_record_hook` says, and runs and records it."""
    names = "(" + "".join(f"a{p}, " for p in range(len(plan.names))) + ")"
    text = RECORD.format(names=names, checks="\n    ".join(_checks(plan, runs=True)))
    given = {
        "HEADER": HEADER,
        "Record": Record,
        "announce_recorded": announce_recorded,
        "large": plan.large,
        "least": plan.least,
        "new": Record.__new__,
        "perf_counter": perf_counter,
        "plan": plan,
    }
    plan.recorder = made = function_from_text("record", text, given)
    return made


def _checks(plan: LaunchPlan, *, runs: bool) -> list[str]:
    """Return the lines; `runs` if the launch surely runs, so that no tracker is `dry`."""
    own = "{" + ", ".join(f"{p}: s{p}" for p in plan.touched) + "}"
    lines = []
    for p in plan.touched:
        lines += [
            f"b{p} = a{p}.buffer",
            f"s{p} = states.get(a{p}) or tracker.resolve(a{p})",
            f"if b{p}.windows:",
            "    watched = True",
            f"    tracker.catch_up_near(b{p}, s{p})",
        ]
    if plan.idle:
        lines += ["tracker.has_idle = True"]
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
        ]
        if runs:
            lines += [line.format(array=f"a{p}", buffer=f"b{p}") for line in RECORDED]
        else:
            lines += ["if not tracker.dry:", f"    before_write(a{p}, record.site, 'launch', tracker)"]
    if plan.late:
        lines += [f"tracker.need_late(record, {own})"]
    folded = [f"s{p}.folded" for p in plan.written if plan.strided and p in plan.active]
    if plan.kernel is not None and (plan.needed or plan.exposed or folded):
        reasons = ["closed", *(f"b{p} is b{q}" for p, q, _ in plan.exposed), *folded]
        lines += [f"if {' or '.join(reasons)}:", f"    tracker.keep_in_place(record, {own})"]
    return lines
