"""Rule `warp-limitation`: code that Warp reverses wrongly, in programs written for it.

This engine computes right gradients for such kernels. Warp's result is obtained by a reverse pass with Warp's
reverse of one kernel at a time (`compiler.passes.adjoint_warp`). A construct that changes a gradient is an
error; a loop that only adds, or a component that is assigned once, is harmless.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG, WARP_GRADIENT_ROUNDING
from tapedebug.contract import ReverseDivergence
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Semantics, Values, relative_errors
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.gradient_diff import largest_difference, off_by, worst_element
from tapedebug.diagnose.rule import EVIDENCE, RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._unrecorded_writes import find_unrecorded_commands
from tapedebug.diagnose.rules.overwrite import OverwriteFinding
from tapedebug.diagnose.timings import PROFILE, READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis import kernel_source
from tapedebug.trace import Finding, Location
from tapedebug.trace.model import Severity

MEASURED = 16
"""Largest number of kernels that are measured one by one; each costs one or two reverse passes."""


@dataclass(slots=True, kw_only=True, repr=False)
class ConstructFinding(RuleFinding):
    """Code that Warp reverses wrongly.

    Attributes:
        constructs: The kind and the line of each construct.
    """

    constructs: list[tuple[str, int]] = field(metadata=EVIDENCE)

    def explains(self, finding: Finding) -> bool:
        """Return True if a finding is about in-place overwrites by the same launches on these lines."""
        if (
            not isinstance(finding, OverwriteFinding)
            or finding.severity == "info"
            or finding.location is None
        ):
            return False
        launches = set(self.launches)
        own = all(reader == clobberer and reader in launches for reader, clobberer in finding.pairs)
        return own and finding.location.line in {line for _, line in self.constructs}


@dataclass(slots=True)
class Group:
    """Launches of one kernel, and its constructs that Warp may reverse wrongly."""

    launches: list[int]
    limits: list[ReverseDivergence]
    parts: bool = True
    """True if in-place assignments to components are also reversed as in Warp."""
    functions: bool = False
    """True if functions also lack the adjoints that they lack in Warp."""
    errors: dict[str, float] = field(default_factory=dict)
    gradients: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> ReverseDivergence:
        """The construct that the message is about."""
        return next((item for item in self.limits if item.needed or item.kind != "loop"), self.limits[0])

    @property
    def semantics(self) -> Semantics:
        """The reverse with which the effect of the constructs is measured."""
        return Semantics(frozenset(self.launches), parts=self.parts, functions=self.functions)


class ConstructRule(TapeRule):
    """A rule for constructs of kernels that Warp reverses wrongly, in programs written for it."""

    severity = "error"
    warp_only = True
    explains = ("overwrite",)

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Explain the overwrite finding of a launch that overwrites its own values, by `*=` or an atomic."""
        same = isinstance(cause, ConstructFinding) and cause.severity == "error" and cause.explains(finding)
        return f"See {self.code}, which is about the same line." if same else ""


class WarpLimitation(ConstructRule):
    """Code that Warp reverses wrongly, in programs written for it."""

    code = "warp-limitation"
    title = "Warp's reverse pass of this kernel is wrong"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate reverse passes like Warp's, for each kernel with such constructs."""
        if not context.as_warp or context.experiment.blocked or not context.experiment.leaves:
            return READS_TRACE
        groups = min(MEASURED, sum(1 for _ in _groups(context)))
        arrays = sum(len(launches) > 1 for launches in _rewritten(context).values())
        return measured_cost(groups + arrays + bool(context.experiment.commands()))

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each kernel that Warp reverses wrongly, and `retain_grad` array affected."""
        if not context.as_warp:
            return
        yield from _constructs(context)
        yield from _retained(context)
        yield from find_unrecorded_commands(context, self.code)
        for note in context.experiment.unmeasured_limits():
            context.skipped(note)


def _constructs(context: RuleContext) -> Iterator[Finding]:
    groups = list(_groups(context))
    if not groups or not measurable(context, WarpLimitation.code):
        return
    if len(groups) > MEASURED:
        context.skipped(
            f"{WarpLimitation.code}: of {len(groups)} kernels with such constructs {MEASURED} were measured"
        )
    # Of a watched tape Warp's gradient was checked: a KINK is a slope between those of both sides. Otherwise
    # the checked gradient is this engine's, and says nothing of Warp's.
    watched = bool(context.trace.tape.engine)
    kinked = {check.input for check in context.trace.checks if watched and check.verdict == "KINK"}
    for group in groups[:MEASURED]:
        measured = measure(context, group)
        for label in kinked & group.errors.keys():
            del group.errors[label]
        if measured and (severity := severity_of(group.errors)) is not None:
            yield _finding(context, group, severity)


def _groups(context: RuleContext) -> Iterator[Group]:
    """Yield the constructs of each kernel: loops and arrays together, then parts of variables."""
    limits = context.reverse_divergences
    for launches in by_kernel(context, limits).values():
        found = limits[launches[0]]
        counted = any(item.kind == "counter" for item in found)
        # A number that is not recomputed makes all gradients wrong: then only that is reported.
        whole = [i for i in found if i.kind in ("while", "array") or (i.kind == "loop" and not counted)]
        whole += [i for i in found if i.kind == "loop" and counted and i.needed]
        parts = [item for item in found if item.kind == "part"]
        if whole:
            yield Group(launches, whole, parts=False)
        if parts and not counted:
            yield Group(launches, parts)
        if unexplained := [item for item in found if item.kind == "adjoint"]:
            yield Group(launches, unexplained)
        if functions := [item for item in found if item.kind == "function"]:
            yield Group(launches, functions, functions=True)


def measured_cost(groups: int) -> Cost:
    """Return the estimated cost of measuring the effect of Warp's reverse on some groups of launches.

    Each takes a forward and a reverse pass, and half of them another one: see `_others`.
    """
    return Cost(1.5 * PROFILE.runs * groups)


def by_kernel(context: RuleContext, launches: Iterable[int]) -> dict[Any, list[int]]:
    """Group launches by kernel, and by the set of its arrays with gradients."""
    found: dict[Any, list[int]] = {}
    for index in sorted(launches):
        launch = context.trace.launches[index]
        arrays = (
            arg.array is not None and context.trace.arrays[arg.array].requires_grad for arg in launch.args
        )
        found.setdefault((launch.kernel, *arrays), []).append(index)
    return found


def measurable(context: RuleContext, rule: str) -> bool:
    """Return True if gradients can be measured; otherwise add a note to the coverage."""
    if context.experiment.blocked or not context.experiment.leaves:
        why = context.experiment.blocked or "there is no input with a gradient"
        context.skipped(f"{rule} was not measured: {why}")
        return False
    return True


def measure(context: RuleContext, group: Group) -> bool:
    """Measure the effect of Warp's reverse of a kernel on the gradients; return False if it is not known."""
    replay = context.experiment
    name = context.trace.launches[group.launches[0]].name
    wrong = replay.as_warp(group.semantics)
    if wrong is None:
        why = "it calls a function of matrices, or its branches are nested too deep"
        unknown = f"what Warp computes for {name} is not known: {why}"
        context.skipped(f"{WarpLimitation.code}: {unknown}")
        return False
    group.errors, group.gradients = compared(context, replay.gradients(), wrong)
    if group.functions and not replay.named:
        # In Warp an element changed by an atomic keeps its adjoint; its old value's adjoint is not needed.
        for label in _written(context, group):
            group.errors.pop(label, None)
    if group.first.kind == "adjoint":  # where no derivative exists, two adjoints may choose two slopes
        for label in _at_kinks(context):
            group.errors.pop(label, None)
    others = _others(context, group)
    if others is None:
        return True
    # The kernel's other constructs have their own finding; only the additional effect is measured here.
    beside = replay.as_warp(others)
    return beside is not None and severity_of(compared(context, beside, wrong)[0]) is not None


def _at_kinks(context: RuleContext) -> set[str]:
    """Return the labels of the inputs in which the loss has a kink."""
    recorded = context.rerun.recorded
    found = (recorded.id_of(item.array) for item in context.measured if item.verdict == "KINK")
    return {context.trace.arrays[number].label for number in found if number is not None}


def _written(context: RuleContext, group: Group) -> set[str]:
    """Return the labels of the arrays that the launches of a group write."""
    arguments = (arg for index in group.launches for arg in context.trace.launches[index].args)
    return {
        context.trace.arrays[arg.array].label for arg in arguments if arg.writes and arg.array is not None
    }


def _others(context: RuleContext, group: Group) -> Semantics | None:
    """Return Warp's semantics without a group of parts or functions; None if there is nothing else."""
    kinds = {item.kind for item in context.reverse_divergences[group.launches[0]]}
    chosen = frozenset(group.launches)
    if group.first.kind == "part" and kinds - {"part", "function"}:
        return Semantics(chosen, parts=False, functions=False)
    if group.first.kind == "function" and kinds - {"function"}:
        return Semantics(chosen, functions=False)
    return None


def compared(
    context: RuleContext, right: Mapping[int, Values], wrong: Mapping[int, Values]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the errors of gradients by label, and both values of the elements that differ most."""
    labels = {leaf: context.trace.arrays[leaf].label for leaf in right}
    apart = largest_difference(context.trace, right, wrong)
    largest = max((item["norm_right"] for item in apart.values()), default=0.0)
    errors = {}
    for leaf, error in relative_errors(right, wrong).items():
        found = apart.get(labels[leaf], {"norm_right": 1.0})
        dust = found["norm_right"] == 0 and found["norm_wrong"] <= WARP_GRADIENT_ROUNDING * largest
        errors[labels[leaf]] = 0.0 if dust else error
    return errors, apart


def severity_of(errors: Mapping[str, float]) -> Severity | None:
    """Return the severity of such errors; None if they are negligible."""
    worst = max(errors.values(), default=0.0)
    return "error" if worst > GRADIENT_WRONG else "info" if worst > GRADIENT_CHANGED else None


def effect(errors: Mapping[str, float], gradients: Mapping[str, Any]) -> str:
    """Return `its gradient of x is off by 38 % (1.8 in place of 2.91 for x[0])`."""
    errors = {label: error for label, error in errors.items() if error > GRADIENT_CHANGED}
    worst = max(errors, key=lambda label: errors[label])
    if not math.isfinite(gradients.get(worst, {}).get("wrong", 0.0)):
        return f"its gradient of {worst} is not finite{worst_element(gradients, errors)}"
    return f"its gradient of {off_by(errors, 'is ')}{worst_element(gradients, errors)}"


def as_run(context: RuleContext, message: str) -> str:
    """Return a message adapted to a run that consumed Warp's gradients, as requested or on Warp itself."""
    if context.experiment.is_warp:
        for found, own in _ON_WARP:
            message = found.sub(own, message)
        return message
    if not context.experiment.like_warp:
        return message
    return message.replace(
        "so the gradient is right.",
        'so that by default the gradient is right; with on_overwrite="ignore" this run consumed Warp\'s.',
    )


_ON_WARP = (
    (
        re.compile(r"Here an element that is overwritten .*?the gradient is right\. In Warp the"),
        "The",
    ),
    (
        re.compile(r" is reversed here from .*?the gradient is right\. Warp runs"),
        " is not reversed from its last iteration to its first: Warp runs",
    ),
    (
        re.compile(r" has an adjoint for (.*?) here, so the gradient is right\. Warp has none"),
        r" has no adjoint for \1 in Warp",
    ),
    (re.compile(r" Here [^.]*?the gradient is right\."), ""),
)
"""Parts of messages about the gradient that this engine computes, and their replacement on Warp itself."""


def who(context: RuleContext, launches: list[int]) -> str:
    """Return `launch 3 (step) and 39 more like it`."""
    more = f" and {len(launches) - 1} more like it" if len(launches) > 1 else ""
    return words.launch_words(context.trace.launches[launches[0]]) + more


# ------------------------------------------------------------------ findings


def _finding(context: RuleContext, group: Group, severity: Severity) -> Finding:
    limit, location = group.first, location_at(group.first.span)
    others = [item for item in group.limits if item.span.line != limit.span.line and item.kind == limit.kind]
    what, fix = _WORDS[limit.kind](limit, location)
    lines = words.listed(dict.fromkeys(str(item.span.line) for item in others))
    also = f" The same holds for line{'s' if len(others) > 1 else ''} {lines}." if others else ""
    launch = context.trace.launches[group.launches[0]]
    return ConstructFinding(
        rule=WarpLimitation.code,
        severity=severity,
        message=as_run(
            context, f"{who(context, group.launches)}: {what}: {effect(group.errors, group.gradients)}.{also}"
        ),
        launches=group.launches,
        arrays=[label for label, error in group.errors.items() if error > GRADIENT_CHANGED],
        location=location,
        call_site=launch.call_site,
        constructs=[(item.kind, item.span.line) for item in group.limits],
        evidence={
            "construct": limit.kind,
            "variables": list(limit.variables),
            "relative_error": group.errors,
            "gradients": group.gradients,
            "occurrences": len(group.launches),
        },
        fix=_for_warp(fix) if context.experiment.is_warp else fix,
    )


def _for_warp(fix: str) -> str:
    """Return a fix for a program that Warp itself runs."""
    return re.sub(r"\bfor Warp, ", "", fix)


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
        "the values that each had, so the gradient is right. Warp runs it forward again, and "
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
        f"`{code}` at {words.place(location)} assigns a part of a variable. Here that creates a new value, "
        "so the gradient is right. Warp changes the variable, whose adjoint goes to what the part held "
        "before, too"
    ), "for Warp, create a new value from all its components, under a name of its own"


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


def _adjoint(limit: ReverseDivergence, location: Location) -> tuple[str, str]:
    return (
        f"the adjoint that Warp makes of the kernel at {words.place(location)} is not that of the kernel: "
        "with the values and adjoints of its own launch it gives other results than the exact adjoint"
    ), (
        "write the kernel in a simpler form, for example without a variable that a branch assigns and later "
        "lines read, and compare again"
    )


_WORDS = {
    "adjoint": _adjoint,
    "loop": _loop,
    "while": _while,
    "array": _array,
    "part": _part,
    "function": _function,
}


# ------------------------------------------------------------------ retain_grad


def _retained(context: RuleContext) -> Iterator[Finding]:
    """Yield findings about arrays with `retain_grad` that are written several times."""
    replay = context.experiment
    for array, launches in _rewritten(context).items():
        if len(launches) < 2 or not measurable(context, WarpLimitation.code):
            continue
        kept = replay.as_warp(Semantics(frozenset(launches), retained=True))
        right = replay.as_warp(Semantics(frozenset(launches)))
        if kept is None or right is None:
            continue
        errors, gradients = compared(context, right, kept)
        severity = severity_of(errors)
        if severity is not None:
            yield _keeps(context, array, launches, (errors, gradients), severity)


def _rewritten(context: RuleContext) -> dict[int, list[int]]:
    """Return the launches that store to arrays that keep their gradients, by array."""
    writers: dict[int, list[int]] = {}
    for launch in context.trace.launches:
        for param in context.experiment.rewritten(launch.index):
            array = launch.args[param].array
            if array is not None and launch.index not in writers.setdefault(array, []):
                writers[array].append(launch.index)
    return writers


def _keeps(
    context: RuleContext,
    array: int,
    launches: list[int],
    found: tuple[dict[str, float], dict[str, Any]],
    severity: Severity,
) -> Finding:
    trace, (errors, gradients) = context.trace, found
    label, last = trace.arrays[array].label, trace.launches[launches[-1]]
    param = words.written_param(last, trace.arrays[array], trace)
    return Finding(
        rule=WarpLimitation.code,
        severity=severity,
        message=as_run(
            context,
            f"{label} keeps its gradient (retain_grad=True) and is written by {len(launches)} launches, last "
            f"by {words.launch_words(last)}. Here an element that is overwritten passes its adjoint on "
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
