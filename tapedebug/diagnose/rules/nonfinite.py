"""Rule `nonfinite`: a NaN or Inf that appears on the tape, mostly in the reverse pass.

The first launch with finite inputs and non-finite outputs is interpreted in Python, one thread at a time,
until the operation is found: `sqrt(0)`, a division by zero, or the operand that a `where` did not select,
which is computed all the same, and whose adjoint is 0 times infinity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.autograd.thresholds import OVERFLOW_EXPLAINED
from tapedebug.contract import CannotFollow, FollowedThread, NonfiniteOperation
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Consume, Experiment, LaunchFlow, Values
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.rule import EVIDENCE, Repair, RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._nonfinite_origin import NonfiniteOrigin, explain, snippet_of
from tapedebug.diagnose.timings import Cost
from tapedebug.diagnose.trace_analysis.adjoint_growth import AdjointGrowth, overflowing
from tapedebug.trace import Finding, Launch, Trace
from tapedebug.trace.model import Severity

SECONDS = 3.0
"""Time limit for searching threads for the operation; launch and element are known without it."""

Bad = Mapping[int, Values]
"""The places (in scalars) of non-finite numbers, by parameter."""


@dataclass(slots=True, kw_only=True, repr=False)
class NonfiniteFinding(RuleFinding):
    """The first numbers that are not finite.

    Attributes:
        cause: The operation, `"input"` for initial values of the tape, or `"unknown"`.
    """

    cause: str = field(metadata=EVIDENCE)


class Nonfinite(TapeRule):
    """A NaN or Inf that appears on the tape, mostly in the reverse pass."""

    code = "nonfinite"
    title = "A NaN or Inf appears on the tape"
    severity = "error"
    unmasks = ("overwrite", "disconnected", "duplicate-launch", "seed")

    def cost(self, context: RuleContext) -> Cost:
        """Estimate two runs that observe all values and adjoints."""
        return Cost(4.0, 2.0) if context.replay is not None else Cost()

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for the launch that produced the first non-finite number, if there is one."""
        trace, experiment = context.trace, context.experiment
        if experiment.blocked:
            return
        gradients = experiment.gradients()
        if trace.tape.on_overwrite in ("ignore", "warn") and all(
            np.isfinite(v).all() for v in gradients.values()
        ):
            gradients = experiment.gradients(unpreserved=_every_need(trace))
        broken = [leaf for leaf, values in gradients.items() if not np.isfinite(values).all()]
        births = _births(trace, experiment)
        found = [birth for birth in births if birth.culprit is not None]
        given = _given(trace)
        if not found and given is None:
            found = births[:1]
        bad = bool(broken) or bool(_bad_loss(trace))
        growth = (
            overflowing(context, OVERFLOW_EXPLAINED) if any(not birth.forward for birth in found) else None
        )
        severity: Severity = "error" if bad else "info"
        for birth in found:
            yield _finding(trace, birth, severity, broken, gradients, growth)
        if given is not None:
            # An input is the cause only if no launch is.
            blamed = bad and not found
            yield _in_input(trace, given, "error" if blamed else "info", broken, gradients)

    def repair(self, finding: Finding) -> Repair | None:
        """Return a repair that replaces non-finite numbers."""
        return Repair(finite=True)


def _every_need(trace: Trace) -> list[tuple[int, int]]:
    """Return all (launch, parameter) pairs whose adjoints need values."""
    return [
        (launch.index, param)
        for launch in trace.launches
        for param, arg in enumerate(launch.args)
        if arg.needed
    ]


def _births(trace: Trace, experiment: Experiment) -> list[NonfiniteOrigin]:
    """Return the first bad number of the forward pass, and that of the reverse pass if it is independent.

    A reverse pass on overwritten values may fail because of these alone: that is examined last.
    """
    passes: list[tuple[bool, Consume]] = [(True, "versions"), (False, "versions")]
    if trace.tape.on_overwrite in ("ignore", "warn"):
        passes.append((False, "current"))
    births: list[NonfiniteOrigin] = []
    for forward, consume in passes:
        index = experiment.first_bad_value() if forward else experiment.first_bad_adjoint(consume)
        birth = None if index is None else _origin_in_launch(trace, experiment, index, forward, consume)
        if birth is not None and not any(_same(birth, other) for other in births):
            births.append(birth)
    return births


def _same(one: NonfiniteOrigin, other: NonfiniteOrigin) -> bool:
    """Return True if the reverse pass fails where the forward pass did, or on values that it left."""
    if one.culprit is None or other.culprit is None:
        return other.culprit is not None
    met = other.forward and not all(map(math.isfinite, one.culprit.operands))
    return met or one.culprit.span == other.culprit.span


def _bad_loss(trace: Trace) -> str:
    """Return `nan` or `infinite` if the loss is not finite: that is wrong, whatever its gradient."""
    if trace.backward.loss is None:
        return ""
    last = trace.versions_of(trace.backward.loss)[-1].value
    if last is None or not (last.nan or last.inf):
        return ""
    return "nan" if last.nan else "infinite"


# ------------------------------------------------------------------ inputs that were bad before


def _given(trace: Trace) -> int | None:
    """Return an array that held NaN or Inf before the tape began, and was read."""
    for version in trace.versions:
        if (
            version.version == 0
            and version.reads
            and version.value
            and (version.value.nan or version.value.inf)
        ):
            return version.array
    return None


def _in_input(
    trace: Trace, array: int, severity: Severity, broken: list[int], gradients: Mapping[int, Values]
) -> Finding:
    info, version = trace.arrays[array], trace.versions_of(array)[0]
    assert version.value is not None
    reader = trace.launches[version.reads[0]]
    count = version.value.nan + version.value.inf
    message = (
        f"{count} of {version.value.count} values of {info.label} are not finite before the tape begins; "
        f"{words.launch_words(reader)} reads them.{_consequence(trace, broken, gradients)}"
    )
    return NonfiniteFinding(
        rule=Nonfinite.code,
        severity=severity,
        message=message,
        launches=[reader.index],
        arrays=[info.label],
        location=words.access_location(trace, reader, words.param_of(reader, array), ("read",)),
        call_site=reader.call_site,
        cause="input",
        evidence={"nan": version.value.nan, "inf": version.value.inf},
        fix=f"fill {info.label} with finite values; an array made with empty() holds whatever was in memory",
    )


# ------------------------------------------------------------------ looking for the operation


def _origin_in_launch(
    trace: Trace, experiment: Experiment, index: int, forward: bool, consume: Consume
) -> NonfiniteOrigin | None:
    launch = trace.launches[index]
    flow = experiment.flow(index, consume)
    left = flow.written if forward else flow.outgoing
    bad = _bad_places(left)
    for param, places in bad.items():
        values = left[param]
        place = int(places[0])
        birth = NonfiniteOrigin(launch, param, place, float(values.reshape(-1)[place]), forward, consume)
        if launch.kind == "kernel":
            _search(experiment, birth, flow, bad)
        return birth
    return None


def _bad_places(values: Mapping[int, Values]) -> dict[int, Values]:
    found = {p: np.flatnonzero(~np.isfinite(v)) for p, v in values.items() if is_float(v.dtype)}
    return {p: places for p, places in found.items() if places.size}


def _search(experiment: Experiment, birth: NonfiniteOrigin, flow: LaunchFlow, bad: Bad) -> None:
    """Run threads until one shows the operation."""
    until = time.monotonic() + SECONDS
    for index in _candidates(birth, flow):
        if time.monotonic() > until:
            return
        try:
            thread = experiment.thread(birth.launch.index, index, flow)
            thread.run()
            culprit = thread.bad_value() if birth.forward else _if_loaded(thread, bad, flow)
        except CannotFollow as lost:
            birth.native = birth.native or lost.native
            continue
        if culprit is not None:
            birth.thread, birth.culprit = index, culprit
            for param, places in (thread.stores if birth.forward else thread.loads).items():
                mine = [int(place) for place in bad.get(param, ()) if int(place) in places]
                if mine:
                    birth.param, birth.place = param, mine[0]
                    break
            return


def _if_loaded(thread: FollowedThread, bad: Bad, flow: LaunchFlow) -> NonfiniteOperation | None:
    if not any(
        int(place) in thread.loads.get(param, ()) for param, places in bad.items() for place in places
    ):
        return None
    return thread.bad_adjoint(flow.incoming)


def _candidates(birth: NonfiniteOrigin, flow: LaunchFlow) -> Iterator[int]:
    """Yield the thread that most likely accesses the bad element, then all threads."""
    total = int(np.prod(birth.launch.dim))
    shape = flow.values[birth.param].shape if birth.param in flow.values else ()
    outer = int(np.prod(shape[: len(birth.launch.dim)])) if shape else 0
    components = int(np.prod(shape)) // outer if outer else 1
    guess = birth.place // max(1, components)
    if guess < total:
        yield guess
    yield from (index for index in range(total) if index != guess)


# ------------------------------------------------------------------ words


def _finding(
    trace: Trace,
    birth: NonfiniteOrigin,
    severity: Severity,
    broken: list[int],
    gradients: Mapping[int, Values],
    growth: AdjointGrowth | None,
) -> Finding:
    launch, culprit = birth.launch, birth.culprit
    arg = launch.args[birth.param]
    label = trace.arrays[arg.array].label if arg.array is not None else arg.name
    element = _element(trace, launch, birth)
    if birth.forward:
        what = (
            f"{words.launch_words(launch)} writes {birth.value} to {label}{element}: what it reads is finite"
        )
    else:
        what = (
            f"the adjoint of {words.launch_words(launch)} makes the gradient of {label}{element} "
            f"{birth.value}: the adjoints that come in are finite"
        )
        if birth.consume == "current":
            what += ", and so is what it read, but that was overwritten and its adjoint sees the new values"
    cause, why, fix = explain(culprit, birth)
    if growth is not None and not birth.forward and cause.endswith(("overflows", "unknown")):
        why += (
            f" The adjoint grows by {growth.rate:.3g} a round on its way back, over {len(growth.norms)} "
            "rounds: that exceeds the largest number of any type, and a smaller loss only delays it."
        )
        fix = "take a smaller time step, or the gradient over fewer rounds; damp what amplifies"
    location = location_at(culprit.span) if culprit is not None and culprit.span is not None else None
    if location is None:
        kinds = ("write", "atomic") if birth.forward else ("read",)
        location = words.access_location(trace, launch, birth.param, kinds)
    return NonfiniteFinding(
        rule=Nonfinite.code,
        severity=severity,
        message=f"{what}. {why}{_consequence(trace, broken, gradients)}",
        launches=[launch.index],
        arrays=[label],
        location=location,
        call_site=launch.call_site,
        cause=cause,
        evidence={
            "pass": "forward" if birth.forward else "backward",
            "consume": birth.consume,
            "thread": birth.thread,
            "element": _index(trace, launch, birth),
            "value": birth.value,
            "operands": culprit.operands if culprit else [],
            "adjoint": culprit.adjoint if culprit else None,
            "expression": snippet_of(culprit.span) if culprit else "",
            "where": asdict(location_at(culprit.unselected)) if culprit and culprit.unselected else None,
            "gradients": {trace.arrays[leaf].label: _count(gradients[leaf]) for leaf in broken},
        },
        fix=fix,
    )


def _consequence(trace: Trace, broken: list[int], gradients: Mapping[int, Values]) -> str:
    loss = f" The loss is {_bad_loss(trace)}." if _bad_loss(trace) else ""
    if not broken:
        return f" No requested gradient is affected.{loss}"
    parts = [
        f"{_count(values)} of {values.size} values of the gradient of {trace.arrays[leaf].label}"
        for leaf in broken
        for values in [gradients[leaf]]
    ]
    single = len(broken) == 1 and _count(gradients[broken[0]]) == 1
    return f" {words.listed(parts)} {'is' if single else 'are'} not finite.{loss}"


def _count(values: Values) -> int:
    return int((~np.isfinite(values)).sum())


def _index(trace: Trace, launch: Launch, birth: NonfiniteOrigin) -> list[int]:
    array = launch.args[birth.param].array
    if array is None:
        return []
    info = trace.arrays[array]
    scalars = trace.versions_of(array)[0].value
    elements = int(np.prod(info.shape))
    components = scalars.count // elements if scalars is not None and elements else _components(info.dtype)
    return [int(part) for part in np.unravel_index(birth.place // max(1, components), info.shape)]


def _components(dtype: str) -> int:
    """Return the number of scalars of an element, by the name of its type: vec3, mat33d, quat, float32."""
    sizes = [int(character) for character in dtype if character.isdigit()]
    if dtype.startswith("quat"):
        return 4
    return math.prod(sizes) if dtype.startswith(("vec", "mat")) else 1


def _element(trace: Trace, launch: Launch, birth: NonfiniteOrigin) -> str:
    return f"[{', '.join(map(str, _index(trace, launch, birth)))}]"
