"""The code that a tape runs for a launch, generated for each plan.

The generated text contains the checks of every launch; work that few launches need is a call of the tracker.
With loops in its place, taped launches take 1.3 to 1.5 times as long (`runtime.generated_functions`). One
function makes the record of a launch, runs that and appends the record: separate calls take 0.2 µs more. If a
program launches the same way again, it also takes the arguments from the program's lists and packs them: that
saves 0.4 µs of 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tapedebug.runtime.generated_functions import function_from_text
from tapedebug.runtime.launch.argument_packing import HEADER, Dims, PackingText
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.write_barrier import RECORDED, announce_recorded, before_write

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import KernelPlan, LaunchPlan

Recorder = Callable[[Any, tuple[Any, ...], Dims, bytes, Any], None]
"""A function of a tape, the arguments, the sizes, the packed arguments and the call site."""

AlikeRecorder = Callable[[Any, Sequence[Any], Sequence[Any], Dims, Any], bool]
"""A function of a tape, the inputs and outputs of `launch`, the sizes and the call site."""

RECORD = """\
def record(tape, args, known, packed, site):
    {names} = args
    dim, threads, _ = known
{recording}"""

RECORD_ALIKE = """\
def record_alike(tape, inputs, outputs, known, site):
    if inputs.__class__ is not {input_class} or outputs.__class__ is not {output_class}:
        return False
    dim, threads, sizes = known
    try:
        {inputs}, {outputs} = inputs, outputs
        packed = {slots} if {fits} and threads else None
    except Exception:
        return False
    if packed is None:
        return False
    args = {names}
{recording}    return True
"""

RECORDING = """\
    tracker = tape.tracker
    records, states = tracker.records, tracker.states
    record = new(Record)
    record.index = len(records)
    record.plan = plan
    record.args = args
    record.dim = dim
    record.threads = threads
    record.packed = packed
    record.site = site
    record.scope = tape.scope
    record.needs = record.inplace_saves = ()
    record.value = b""
    record.times = record.func = record.notes = None
    watched = closed = False
    budget = tracker.budget
    if budget is not None and budget.full:
        budget.thin(tracker)
    {checks}
    record.elapsed = (plan.timed if threads < least else large)(0, threads, id(packed) + HEADER)
    if watched:
        tracker.after(record)
    records.append(record)
"""

ALIKE = 8
"""Launches of a plan with their arguments divided alike after which `record_alike` is generated for it."""


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
    names = _in_tuple(range(len(plan.names)))
    text = RECORD.format(names=names, recording=_recording(plan))
    plan.recorder = made = function_from_text("record", text, _values(plan))
    return made


def note_division(plan: KernelPlan, args: tuple[Any, ...], inputs: object, outputs: object) -> None:
    """Note how the arguments of a recorded launch were divided into inputs and outputs.

    After a few launches that were divided alike `plan.record_alike` is set. It packs, runs and records the
    next one at once, and returns False, before it has done anything, if that one differs in the division or
    the kinds of its arguments: `launch` finds out why.
    """
    if not (type(inputs) in _LISTS and type(outputs) in _LISTS) or plan.tested is not plan.packed:
        return
    count = len(inputs)  # type: ignore[arg-type]
    division = type(inputs), count, type(outputs)
    known = plan.divisions.get(division, 0)
    if isinstance(known, int) and known < ALIKE:
        plan.divisions[division] = known + 1
        return
    if isinstance(known, int):
        packing = PackingText(plan.packers, args, plan.tail)
        text = RECORD_ALIKE.format(
            input_class=type(inputs).__name__,
            output_class=type(outputs).__name__,
            inputs=_in_tuple(range(count)),
            outputs=_in_tuple(range(count, len(args))),
            names=_in_tuple(range(len(args))),
            slots=packing.slots,
            fits=packing.fits,
            recording=_recording(plan),
        )
        known = function_from_text("record_alike", text, packing.values | _values(plan))
        plan.divisions[division] = known
    plan.record_alike = known


_LISTS = frozenset({list, tuple})


def _in_tuple(params: range) -> str:
    return "(" + "".join(f"a{p}, " for p in params) + ")"


def _recording(plan: KernelPlan) -> str:
    return RECORDING.format(checks="\n    ".join(_checks(plan, runs=True)))


def _values(plan: KernelPlan) -> dict[str, Any]:
    """Return the global names of `RECORDING`."""
    return {
        "HEADER": HEADER,
        "Record": Record,
        "announce_recorded": announce_recorded,
        "large": plan.large_timed,
        "least": plan.least,
        "new": Record.__new__,
        "plan": plan,
    }


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
                f"    if a{p}.shape == {'dim' if runs else 'record.dim'}:",
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
