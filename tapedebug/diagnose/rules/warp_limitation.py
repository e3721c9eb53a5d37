"""Rule `warp-limitation`: code that Warp reverses wrongly, in programs written for it.

Here such kernels have right gradients. What Warp would have computed is found by running the reverse pass
with Warp's reverse of one kernel at a time (`compiler.passes.adjoint_warp`): what moves a gradient is an
error, and a loop that only adds, or a component that is assigned once, is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG, WARP_GRADIENT_ROUNDING
from tapedebug.contract import ReverseDivergence
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Semantics, Values, relative_errors
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.experiments.unrecorded_writes import find_commands
from tapedebug.diagnose.gradient_diff import largest_difference, off, told
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis import kernel_source
from tapedebug.trace import Finding, Location
from tapedebug.trace.model import Severity

RULE = "warp-limitation"
MEASURED = 16
"""How many kernels are measured one by one; each costs a reverse pass or two."""


@dataclass(slots=True)
class Group:
    """Launches of one kernel, and what in it Warp may reverse wrongly."""

    launches: list[int]
    limits: list[ReverseDivergence]
    parts: bool = True
    """Whether components are assigned as in Warp, too."""
    functions: bool = False
    """Whether functions lack the adjoints that they lack in Warp, too."""
    errors: dict[str, float] = field(default_factory=dict)
    gradients: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> ReverseDivergence:
        """The construct that the message is about."""
        return next((item for item in self.limits if item.needed or item.kind != "loop"), self.limits[0])

    @property
    def semantics(self) -> Semantics:
        """How the launches are reversed to measure what the constructs do."""
        return Semantics(frozenset(self.launches), parts=self.parts, functions=self.functions)


def find(case: RuleContext) -> list[Finding]:
    """Return a finding for each kernel that Warp reverses wrongly, and for each array that keeps too much."""
    if not case.as_warp:
        return []
    return [*_constructs(case), *_retained(case), *find_commands(case, RULE)]


def _constructs(case: RuleContext) -> Iterator[Finding]:
    groups = list(_groups(case))
    if not groups or not measurable(case, RULE):
        return
    if len(groups) > MEASURED:
        case.skipped(f"{RULE}: of {len(groups)} kernels with such constructs {MEASURED} were measured")
    for group in groups[:MEASURED]:
        if measure(case, group) and (severity := severity_of(group.errors)) is not None:
            yield _finding(case, group, severity)


def _groups(case: RuleContext) -> Iterator[Group]:
    """The constructs of each kernel: loops and arrays together, then parts of variables."""
    limits = case.experiment.warp_limits()
    for launches in by_kernel(case, limits).values():
        found = limits[launches[0]]
        counted = any(item.kind == "counter" for item in found)
        # A number that is not computed again makes everything wrong: that is the finding then.
        whole = [i for i in found if i.kind in ("while", "array") or (i.kind == "loop" and not counted)]
        whole += [i for i in found if i.kind == "loop" and counted and i.needed]
        parts = [item for item in found if item.kind == "part"]
        if whole:
            yield Group(launches, whole, parts=False)
        if parts and not counted:
            yield Group(launches, parts)
        if functions := [item for item in found if item.kind == "function"]:
            yield Group(launches, functions, functions=True)


def by_kernel(case: RuleContext, launches: Iterable[int]) -> dict[Any, list[int]]:
    """Launches by the kernel that they run, and by which of its arrays have gradients."""
    found: dict[Any, list[int]] = {}
    for index in sorted(launches):
        launch = case.trace.launches[index]
        arrays = (arg.array is not None and case.trace.arrays[arg.array].requires_grad for arg in launch.args)
        found.setdefault((launch.kernel, *arrays), []).append(index)
    return found


def measurable(case: RuleContext, rule: str) -> bool:
    """Whether gradients can be measured; says so in the coverage where not."""
    if case.experiment.blocked or not case.experiment.leaves:
        why = case.experiment.blocked or "there is no input with a gradient"
        case.skipped(f"{rule} was not measured: {why}")
        return False
    return True


def measure(case: RuleContext, group: Group) -> bool:
    """Find out what Warp's reverse of a kernel does to the gradients; False where that is not known."""
    replay = case.experiment
    name = case.trace.launches[group.launches[0]].name
    wrong = replay.as_warp(group.semantics)
    if wrong is None:
        case.skipped(f"{RULE}: what Warp computes for {name} is not known: it calls a function of matrices")
        return False
    group.errors, group.gradients = compared(case, replay.gradients(), wrong)
    if group.functions and not replay.named:
        # What an atomic changes keeps its adjoint in Warp: nobody asked for that of what it held before.
        for label in _written(case, group):
            group.errors.pop(label, None)
    others = _others(case, group)
    if others is None:
        return True
    # What the kernel's other constructs do is another finding: here it is asked what is done beside that.
    beside = replay.as_warp(others)
    return beside is not None and severity_of(compared(case, beside, wrong)[0]) is not None


def _written(case: RuleContext, group: Group) -> set[str]:
    """The arrays that the launches of a group write to, by label."""
    arguments = (arg for index in group.launches for arg in case.trace.launches[index].args)
    return {case.trace.arrays[arg.array].label for arg in arguments if arg.writes and arg.array is not None}


def _others(case: RuleContext, group: Group) -> Semantics | None:
    """Of a group of parts or functions, Warp's semantics without it; None where there is nothing else."""
    kinds = {item.kind for item in case.experiment.warp_limits()[group.launches[0]]}
    chosen = frozenset(group.launches)
    if group.first.kind == "part" and kinds - {"part", "function"}:
        return Semantics(chosen, parts=False, functions=False)
    if group.first.kind == "function" and kinds - {"function"}:
        return Semantics(chosen, functions=False)
    return None


def compared(
    case: RuleContext, right: Mapping[int, Values], wrong: Mapping[int, Values]
) -> tuple[dict[str, float], dict[str, Any]]:
    """How far gradients are off, by label, and both of them where they are furthest apart."""
    labels = {leaf: case.trace.arrays[leaf].label for leaf in right}
    apart = largest_difference(case.trace, right, wrong)
    largest = max((item["norm_right"] for item in apart.values()), default=0.0)
    errors = {}
    for leaf, error in relative_errors(right, wrong).items():
        found = apart.get(labels[leaf], {"norm_right": 1.0})
        dust = found["norm_right"] == 0 and found["norm_wrong"] <= WARP_GRADIENT_ROUNDING * largest
        errors[labels[leaf]] = 0.0 if dust else error
    return errors, apart


def severity_of(errors: Mapping[str, float]) -> Severity | None:
    """What such errors are; None where there are none to speak of."""
    worst = max(errors.values(), default=0.0)
    return "error" if worst > GRADIENT_WRONG else "info" if worst > GRADIENT_CHANGED else None


def effect(errors: Mapping[str, float], gradients: Mapping[str, Any]) -> str:
    """`its gradient of x is off by 38 % (1.8 in place of 2.91 for x[0])`."""
    errors = {label: error for label, error in errors.items() if error > GRADIENT_CHANGED}
    worst = max(errors, key=lambda label: errors[label])
    if not math.isfinite(gradients.get(worst, {}).get("wrong", 0.0)):
        return f"its gradient of {worst} is not finite{told(gradients, errors)}"
    return f"its gradient of {off(errors, 'is ')}{told(gradients, errors)}"


def as_run(case: RuleContext, message: str) -> str:
    """A message about a run that consumed Warp's gradients, as somebody asked for."""
    if not case.experiment.like_warp:
        return message
    return message.replace(
        "so the gradient is right.",
        'so that by default the gradient is right; with on_overwrite="ignore" this run consumed Warp\'s.',
    )


def who(case: RuleContext, launches: list[int]) -> str:
    """`launch 3 (step) and 39 more like it`."""
    more = f" and {len(launches) - 1} more like it" if len(launches) > 1 else ""
    return words.launch_words(case.trace.launches[launches[0]]) + more


# ------------------------------------------------------------------ findings


def _finding(case: RuleContext, group: Group, severity: Severity) -> Finding:
    limit, location = group.first, location_at(group.first.span)
    others = [item for item in group.limits if item.span.line != limit.span.line and item.kind == limit.kind]
    what, fix = _WORDS[limit.kind](limit, location)
    lines = words.listed(dict.fromkeys(str(item.span.line) for item in others))
    also = f" The same holds for line{'s' if len(others) > 1 else ''} {lines}." if others else ""
    launch = case.trace.launches[group.launches[0]]
    return Finding(
        rule=RULE,
        severity=severity,
        message=as_run(
            case, f"{who(case, group.launches)}: {what}: {effect(group.errors, group.gradients)}.{also}"
        ),
        launches=group.launches,
        arrays=[label for label, error in group.errors.items() if error > GRADIENT_CHANGED],
        location=location,
        call_site=launch.call_site,
        evidence={
            "construct": limit.kind,
            "variables": list(limit.variables),
            "constructs": [[item.kind, item.span.line] for item in group.limits],
            "relative_error": group.errors,
            "gradients": group.gradients,
            "occurrences": len(group.launches),
        },
        fix=fix,
    )


def _loop(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    names = words.listed(limit.variables)
    one = len(limit.variables) == 1
    where = words.place(location)
    if limit.needed:
        each = "what it held" if one else "what they held"
        return (
            f"the loop at {where} carries {names}, and its reverse needs {each} in each iteration. Here that "
            f"is saved, so the gradient is right. Warp saves nothing and computes the iterations once more, "
            f"from what {names} held before the loop"
        ), (
            f"for Warp, keep {names} of each iteration in an array of {'its' if one else 'their'} own, or "
            "let it be written out: a constant range of at most 16, or of at most n with "
            'wp.set_module_options({"max_unroll": n})'
        )
    return (
        f"the loop at {where} leaves {names} to what follows, whose reverse needs "
        f"{'its value' if one else 'their values'}. Here that is known, so the gradient is right. Warp's "
        f"reverse pass leaves loops out where it computes values once more, and finds what {names} held "
        "before the loop"
    ), f"for Warp, move the loop into a @wp.func that returns {names}"


def _while(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    return (
        f"the `while` at {words.place(location)} is reversed here from its last iteration to its first, with "
        "the values that each had, so the gradient is right. Warp runs through it forwards once more, and "
        "saves nothing"
    ), (
        "for Warp, launch the body once for each iteration, or write the loop out: over a constant range of "
        "at most 16 with an `if` in it"
    )


def _array(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    code = kernel_source.code_at(location).strip()
    return (
        f"`{code}` at {words.place(location)} changes elements in place, and its reverse needs what they "
        "held. Here that is kept, so the gradient is right. Warp's reverse pass reads what they hold after it"
    ), "for Warp, write the result into an array of its own"


def _part(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    code = kernel_source.code_at(location).strip()
    return (
        f"`{code}` at {words.place(location)} assigns a part of a variable anew. Here that is a new value, "
        "so the gradient is right. Warp changes the variable, whose adjoint goes to what the part held "
        "before, too"
    ), "for Warp, make it anew from all its components, under a name of its own"


def _function(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    (name, what, version), where = limit.variables, words.place(location)
    measured = f"(measured with warp-lang {version})"
    if name in ("atomic_min", "atomic_max") and what != "the result":
        return (
            f"wp.{name} at {where} passes the adjoint of the element to one value, the one that it holds in "
            "the end. Here that is the first of equal ones, and what the element held before gets nothing: "
            "the gradient is right. Warp gives it to every equal value, and to what the element held before "
            f"{measured}"
        ), (
            "for Warp, start from a value that is no input of the gradient, and avoid ties; or take the "
            "extreme in a launch of one thread, with wp.max or wp.min"
        )
    call = "wp.grad(…)" if name == "grad" else f"wp.{name}"
    return (
        f"{call} at {where} has an adjoint for {what} here, so the gradient is right. Warp has none "
        f"{measured}"
    ), _FUNCTIONS.get(
        name,
        f"for Warp, write {call} out in operations that have an adjoint, or give it one with @wp.func_grad",
    )


_FUNCTIONS = {
    "frac": "for Warp, write x - wp.trunc(x)",
    "mod": "for Warp, write x - wp.trunc(x / y) * y, component by component",
    "randf": "for Warp, write low + (high - low) * wp.randf(state)",
    "grad": "for Warp, write the derivative out in a @wp.func of its own",
    "atomic_exch": "for Warp, read the element and write it, by one thread for each element: `a[i] = x`",
    "atomic_cas": "for Warp, compare, read and write the element, by one thread for each element",
}
_WORDS = {"loop": _loop, "while": _while, "array": _array, "part": _part, "function": _function}


# ------------------------------------------------------------------ retain_grad


def _retained(case: RuleContext) -> Iterator[Finding]:
    """Arrays that keep their gradients and are written several times."""
    replay = case.experiment
    writers: dict[int, list[int]] = {}
    for launch in case.trace.launches:
        for param in replay.rewritten(launch.index):
            array = launch.args[param].array
            if array is not None and launch.index not in writers.setdefault(array, []):
                writers[array].append(launch.index)
    for array, launches in writers.items():
        if len(launches) < 2 or not measurable(case, RULE):
            continue
        kept = replay.as_warp(Semantics(frozenset(launches), retained=True))
        right = replay.as_warp(Semantics(frozenset(launches)))
        if kept is None or right is None:
            continue
        errors, gradients = compared(case, right, kept)
        severity = severity_of(errors)
        if severity is not None:
            yield _keeps(case, array, launches, (errors, gradients), severity)


def _keeps(
    case: RuleContext,
    array: int,
    launches: list[int],
    found: tuple[dict[str, float], dict[str, Any]],
    severity: Severity,
) -> Finding:
    trace, (errors, gradients) = case.trace, found
    label, last = trace.arrays[array].label, trace.launches[launches[-1]]
    param = words.written_param(last, trace.arrays[array], trace)
    return Finding(
        rule=RULE,
        severity=severity,
        message=as_run(
            case,
            f"{label} keeps its gradient (retain_grad=True) and is written by {len(launches)} launches, last "
            f"by {words.launch_words(last)}. Here an element that is written over passes its adjoint on "
            "once, so the gradient is right. In Warp the adjoint stays, and what was written before gets it "
            f"again: {effect(errors, gradients)}.",
        ),
        launches=launches,
        arrays=[
            label,
            *(name for name, error in errors.items() if error > GRADIENT_CHANGED and name != label),
        ],
        location=words.access_location(trace, last, param, ("write", "atomic")),
        call_site=last.call_site,
        evidence={
            "construct": "retain_grad",
            "relative_error": errors,
            "gradients": gradients,
            "occurrences": len(launches),
        },
        fix=f"for Warp, create {label} without retain_grad=True, or give each launch an array of its own",
    )
