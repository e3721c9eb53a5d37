"""Finds the launch and operation at which the adjoint of an input becomes exactly 0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._even_sample import evenly_spread
from tapedebug.contract import CannotFollow, LocalDerivative
from tapedebug.diagnose.experiments.places import code_of, place_of
from tapedebug.diagnose.experiments.replay import perturbed
from tapedebug.diagnose.trace_analysis.dependencies import read_by
from tapedebug.diagnose.trace_analysis.kernel_source import flat_call
from tapedebug.trace import Launch, Location

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.adjoint_profile import LaunchNorms
    from tapedebug.diagnose.experiments.experiment import LaunchFlow
    from tapedebug.diagnose.rule_context import RuleContext

THREADS = 12
LAUNCHES = 4
"""Largest number of launches that are examined for an adjoint that becomes 0."""
TINY = 1e-9
"""A relative change of an input, in float64, that is too small to cross the edge of a step."""
SMALLEST = 1e-36
"""A number near the smallest float32 with full precision."""
FINITE = (1e-3, 1e-2, 0.1, 1.0)
"""Relative changes of an input that may cross the edge of a step."""


@dataclass(frozen=True, slots=True)
class ZeroGradPath:
    """The operation at which the adjoint of an input becomes 0.

    Attributes:
        kind: ``"flat"``: the slope of the operation is 0 everywhere. ``"saturated"``: it is 0 for these
            operands. ``"underflow"``: none; the gradient, of size `operands`, is too small for float32.
        launch: The launch.
        param: The parameter whose adjoint is 0.
        text: The source text of the operation.
        place: Its place.
        operands: Its operands in one thread; empty if no thread could be followed.
        comparison: The operation is a comparison.
        scale: The smallest tried change of the input that changes the loss, relative; 0 if none does.
        moved: The change of the loss.
    """

    kind: Literal["flat", "saturated", "underflow"]
    launch: Launch
    param: int
    text: str
    place: Location | None
    operands: tuple[float, ...] = ()
    comparison: bool = False
    scale: float = 0.0
    moved: float = 0.0


def zero_grad_paths(case: RuleContext) -> dict[int, ZeroGradPath]:
    """Return for each input with a gradient of exactly 0 the operation that causes it, if one does."""
    profile = case.profile
    if profile is None:
        return {}
    zero = [leaf for leaf in case.experiment.leaves if profile.gradients[leaf] == 0]
    if not zero:
        return {}
    above = case.dependencies.leaves_above(case.experiment.leaves)
    seen: dict[tuple[int, int], ZeroGradPath | None] = {}
    found: dict[int, ZeroGradPath] = {}
    for leaf in zero:
        bit = 1 << case.experiment.leaves.index(leaf)
        for launch, param in itertools.islice(_candidates(case, above, bit), LAUNCHES):
            key = (launch.index, param)
            if key not in seen:  # several inputs may end at one place: one of them is perturbed
                end = _explained(case, launch, param)
                seen[key] = None if end is None else _measured(case, leaf, end)
            end = seen[key]
            if end is not None:
                found[leaf] = end
                break
    return found | _underflows(case, [leaf for leaf in zero if leaf not in found])


def _underflows(case: RuleContext, zero: Sequence[int]) -> dict[int, ZeroGradPath]:
    """Return the inputs whose gradients are nonzero in float64 but underflow in float32."""
    replay = case.replay
    if not zero or replay is None:
        return {}
    shadow = replay._shadow(double=True)
    with np.errstate(all="ignore"):
        shadow.forward().backward(replay.seeds)
    found = {}
    for leaf in zero:
        size = float(np.abs(shadow.gradient(replay.arrays[leaf])).max(initial=0.0))
        readers = case.trace.versions_of(leaf)[0].reads
        if 0 < size < SMALLEST and readers:
            launch = case.trace.launches[readers[0]]
            found[leaf] = ZeroGradPath("underflow", launch, 0, "", None, (size,))
    return found


def _measured(case: RuleContext, leaf: int, end: ZeroGradPath) -> ZeroGradPath | None:
    """Perturb the input: a tiny change must not change the loss, a large one does for a flat operation."""
    if case.experiment.loss_moved(leaf, None, TINY) > 0:
        return None  # there is a slope: the gradient is wrong for another reason
    for scale in FINITE:
        sides = (case.experiment.loss_moved(leaf, None, sign * scale) for sign in (1.0, -1.0))
        moved = next((moved for moved in sides if moved > 0), 0.0)
        if moved > 0:
            branch = end.kind == "flat" and end.comparison and _slope_elsewhere(case, leaf, scale)
            return replace(end, scale=scale, moved=moved, kind="saturated" if branch else end.kind)
    return None if end.kind == "flat" else end


def _slope_elsewhere(case: RuleContext, leaf: int, scale: float) -> bool:
    """Return True if the gradient is nonzero for a displaced input: then another branch has a slope."""
    replay = case.replay
    assert replay is not None
    shadow = replay._shadow()
    a = replay.arrays[leaf]
    values = shadow.forward(stop=0).values(a)
    for sign in (1.0, -1.0):
        shadow.forward(stop=0).set(a, perturbed(values, sign * scale))
        shadow.forward(start=0).backward(replay.seeds)
        if np.any(shadow.gradient(a)):
            return True
    return False


def _candidates(
    case: RuleContext, above: dict[tuple[int, int], int], bit: int
) -> Iterator[tuple[Launch, int]]:
    """Yield launches that stop the adjoint on the path to an input, nearest to the loss first."""
    assert case.profile is not None
    kernels: set[tuple[int | None, int]] = set()
    for launch in reversed(case.trace.launches):
        passage: LaunchNorms = case.profile.passages[launch.index]
        if not passage.arrives > 0:
            continue
        for param, norm in passage.outgoing.items():
            leads = above.get(read_by(launch.args[param]), 0) & bit
            # One round of a time loop is enough.
            if norm == 0 and leads and (launch.kernel, param) not in kernels:
                kernels.add((launch.kernel, param))
                yield launch, param


def _explained(case: RuleContext, launch: Launch, param: int) -> ZeroGradPath | None:
    if launch.kernel is None or launch.kind != "kernel":
        return None
    kernel = case.trace.kernels[launch.kernel]
    saturated: LocalDerivative | None = None
    lost = False
    flow = case.experiment.flow(launch.index, "versions")
    for index in threads_of(launch, flow):
        try:
            thread = case.experiment.thread(launch.index, index, flow)
            thread.active = frozenset({param})
            thread.run()
        except CannotFollow:
            lost = True
            continue
        flat = thread.flat_operations()
        if flat:
            return _end("flat", launch, param, flat[0])
        dead = [
            item for item in thread.operation_derivatives(flow.incoming) if item.slope == 0 and item.saturates
        ]
        saturated = saturated or (dead[0] if dead else None)
    if saturated is not None:
        return _end("saturated", launch, param, saturated)
    named = flat_call(kernel, [kernel.params[param].name]) if lost else None
    return None if named is None else ZeroGradPath("flat", launch, param, *named)


def _end(
    kind: Literal["flat", "saturated"], launch: Launch, param: int, slope: LocalDerivative
) -> ZeroGradPath:
    text, place = code_of(slope), place_of(slope.span)
    return ZeroGradPath(kind, launch, param, text, place, tuple(slope.operands), slope.compares)


def threads_of(launch: Launch, flow: LaunchFlow) -> list[int]:
    """Return a few threads: first those of elements with an adjoint, then evenly spread ones."""
    total = int(np.prod(launch.dim, dtype=np.int64))
    alive = [
        int(place)
        for values in flow.incoming.values()
        if values.size == total
        for place in np.flatnonzero(values.reshape(-1))[: THREADS // 2]
    ]
    spread = evenly_spread(total, THREADS)
    return list(dict.fromkeys([*alive, *spread]))[:THREADS] if total else []
