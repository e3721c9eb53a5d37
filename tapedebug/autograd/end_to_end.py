"""Is the gradient right that the optimiser consumes? The whole tape against differences of its own replay.

A check of each launch alone is blind to what goes wrong between launches: an overwritten buffer, a severed chain. Here
the recorded program is run again as a whole, in float64, and three gradients are compared: the one that is consumed
(float32, with the tape's own `on_overwrite`), the float64 adjoint that sees the values of the forward pass, and
differences of the loss along random directions and along the largest entries, with error bars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapedebug.autograd.differences import Floats, Slope, slope
from tapedebug.autograd.explain import ROUNDING
from tapedebug.autograd.matrix import Checkpoint
from tapedebug.autograd.probes import random_directions, shape_index
from tapedebug.autograd.program import Port
from tapedebug.autograd.results import Coverage
from tapedebug.autograd.verdict import VERDICTS, Verdict, worst
from tapedebug.autograd.whole import WholeTape, whole_tape

ENTRIES = 6  # single entries that are displaced, the largest of the gradient
FEW = 12  # inputs of up to this size are displaced entry by entry
EPS = 1e-3  # the largest step, relative to the size of the input
MOVED = 3  # samples of the effect of one float32 rounding of the inputs
ENTRY = 1e-5  # an entry this small beside the largest is rounding in float32
SINGLE = 1e-2  # a float32 gradient that is further from its own float64 twin than this is not rounding alone
NOTHING = 1e-11  # of the loss: a smaller difference in float64 is rounding
DIVERGED = 1e-3  # relative difference of the float32 and the float64 loss from which on they are different runs


@dataclass(frozen=True)
class Probe:
    """One direction in which the gradient was compared with a difference of the loss.

    Attributes:
        entry: Index of the single entry that was displaced; None for a random direction.
        ad: The consumed gradient along the direction.
        exact: The float64 adjoint along it.
        fd, bar: The difference, and its error bar.
        size: What a directional derivative of this gradient typically is (to judge cancellation by).
        allowed: The difference up to which the two agree.
        verdict: Of the consumed gradient in this direction.
    """

    entry: tuple[int, ...] | None
    ad: float
    exact: float
    fd: float
    bar: float
    size: float
    allowed: float
    verdict: Verdict = "AGREE"

    @property
    def rel_error(self) -> float:
        """|AD - FD| relative to the size of the derivative; 0 where both are 0."""
        size = max(abs(self.fd), self.size)
        return abs(self.ad - self.fd) / size if size else abs(self.ad - self.fd)


@dataclass(frozen=True, eq=False)
class InputCheck:
    """The verdict on the gradient of the loss with respect to one input.

    Attributes:
        name: Label of the input.
        array: The input.
        verdict: AGREE, WRONG, UNDECIDABLE, KINK or NONDETERMINISTIC.
        rel_error: ‖consumed - reference‖ / ‖reference‖; where differences refute the reference, the largest relative
            error of a probe.
        max_abs_error: Largest difference of an entry.
        message: What is wrong with it, or how well it agrees, with the numbers.
        consumed: The gradient that `Tape.backward` gives, of the input's shape with components last.
        reference: The float64 adjoint that sees the values of the forward pass, of the same shape.
        probes: The comparisons with differences.
    """

    name: str
    array: Any
    verdict: Verdict
    rel_error: float
    max_abs_error: float
    message: str
    consumed: Floats
    reference: Floats
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class EndToEnd:
    """What `end_to_end` found; true only where every input agrees.

    Attributes:
        verdict: The worst of the inputs; UNDECIDABLE where nothing was covered.
        inputs: One result for each input.
        rel_error: The largest relative error of an input (NaN without inputs).
        coverage: How many launches were checked, how well the gradient agrees, what was not covered.
        loss: Of the recorded run, replayed in float32.
        loss64: Of the replay in float64.
        seconds: How long the check took.
    """

    verdict: Verdict
    inputs: tuple[InputCheck, ...]
    rel_error: float
    coverage: Coverage
    loss: float
    loss64: float
    seconds: float

    def __bool__(self) -> bool:
        return self.verdict == "AGREE"

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.coverage}"]
        lines += [f"  {check.name}: {check.verdict}, {check.message}" for check in self.inputs]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Gradients:
    """The gradients of one loss with respect to all inputs."""

    consumed: Mapping[Port, Floats]
    same: Mapping[Port, Floats]  # float64, with the tape's own on_overwrite
    exact: Mapping[Port, Floats]  # float64, with the values of the forward pass
    moved: Sequence[Mapping[Port, Floats]]  # `exact` at inputs that differ by one float32 rounding
    least: Mapping[Port, float]  # the norm of a gradient that is as good as zero

    def floor(self, port: Port) -> Floats:
        """How far one float32 rounding of the inputs moves each entry."""
        if not self.moved:
            return np.zeros(port.size)
        spread: Floats = np.abs(np.stack([m[port] for m in self.moved]) - self.exact[port]).max(axis=0)
        return spread


def end_to_end(
    tape: Any,
    loss: Any = None,
    inputs: Any = None,
    *,
    rtol: float = 1e-3,
    directions: int = 3,
    labels: Mapping[Any, str] | None = None,
    checkpoint: Checkpoint | None = None,
) -> EndToEnd:
    """Check the gradient of a whole recorded tape.

    Args:
        tape: The tape; its arrays are not touched, the check runs on private copies.
        loss: The loss, an array of one element, or a dictionary of outputs to adjoints as in `Tape.backward(grads=…)`.
            By default what `Tape.backward` was last called with.
        inputs: The arrays whose gradients are wanted; by default all arrays with `requires_grad=True` whose values the
            tape read before it wrote them.
        rtol: The relative error up to which a gradient agrees.
        directions: Random directions to displace each input in, beside its largest entries.
        labels: Names of arrays, for messages.
        checkpoint: Called often; may raise to cancel.

    Returns:
        The verdicts with their numbers and the coverage.

    Raises:
        GradcheckError: No loss is known, or it is not on the tape.
    """
    began = time.perf_counter()
    program = whole_tape(tape, loss, inputs, labels)
    with np.errstate(all="ignore"):
        checks, value, value64 = _check_inputs(program, rtol, max(1, directions), checkpoint)
    errors = [check.rel_error for check in checks]
    return EndToEnd(
        verdict=worst(check.verdict for check in checks),
        inputs=tuple(checks),
        rel_error=max(errors, key=lambda e: np.inf if np.isnan(e) else e) if errors else float("nan"),
        coverage=_coverage(program, checks),
        loss=value,
        loss64=value64,
        seconds=time.perf_counter() - began,
    )


def _coverage(program: WholeTape, checks: Sequence[InputCheck]) -> Coverage:
    checked = program.launches - program.unchecked if checks else 0
    summary = f"{checked} of {program.launches} launches checked end to end"
    agreeing = [check for check in checks if check.verdict == "AGREE"]
    if checks and len(agreeing) == len(checks):
        summary += f"; agrees to {max(check.rel_error for check in checks):.0e}"
    elif checks:
        bad = max(checks, key=lambda check: VERDICTS.index(check.verdict))
        summary += f"; {bad.verdict} with respect to {bad.name}: {bad.message}"
    else:
        summary += ": no input has requires_grad=True"
    return Coverage(summary, program.launches, checked, tuple(program.notes))


def _check_inputs(
    program: WholeTape, rtol: float, directions: int, checkpoint: Checkpoint | None
) -> tuple[list[InputCheck], float, float]:
    value = program.loss(single=True)
    again = program.loss(single=True)
    value64 = program.loss()
    if not program.inputs:
        return [], value, value64
    gradients = _gradients(program, checkpoint)
    diverged = not abs(value - value64) <= DIVERGED * max(abs(value), abs(value64))
    checks = []
    for port in program.inputs:
        if abs(value - again) > 1e-5 * abs(value):
            message = f"two forward runs on the same values give the losses {value:.9g} and {again:.9g}"
            checks.append(_result(port, gradients, [], "NONDETERMINISTIC", message))
            continue
        probes = _probe(program, port, gradients, rtol, directions, checkpoint)
        checks.append(_judge_input(program, port, gradients, probes, rtol, diverged))
    return checks, value, value64


def _gradients(program: WholeTape, checkpoint: Checkpoint | None) -> _Gradients:
    rng = np.random.default_rng(0)
    seeds = program.seeds
    consumed = program.pull(seeds)
    exact = program.pull(seeds, double=True, preserved=True)
    same = exact if program.preserves else program.pull(seeds, double=True)
    moved = []
    for _ in range(MOVED):
        at = {
            port: values * (1 + ROUNDING * rng.choice([-1.0, 1.0], size=values.shape))
            for port in program.inputs
            for values in [program.values(port)]
        }
        moved.append(program.pull(seeds, at=at, double=True, preserved=True))
        if checkpoint is not None:
            checkpoint()
    least = {port: float(np.linalg.norm(_negligible(program, port))) for port in program.inputs}
    return _Gradients(consumed, same, exact, moved, least)


# ------------------------------------------------------------------ differences of the loss


def _directions(values: Floats, gradient: Floats, count: int) -> list[tuple[int | None, Floats]]:
    typical = float(np.sqrt(np.mean(values**2))) or 1.0
    size = values.size
    order = np.argsort(-np.abs(np.nan_to_num(gradient, nan=np.inf)), kind="stable")
    chosen = np.sort(order[: size if size <= FEW else ENTRIES])
    found: list[tuple[int | None, Floats]] = []
    for flat in chosen:
        unit = np.zeros(size)
        unit[flat] = max(abs(float(values[flat])), 0.01 * typical)
        found.append((int(flat), unit))
    if size > 1:
        scale = np.maximum(np.abs(values), 0.01 * typical)
        found += [(None, direction) for direction in random_directions(size, count, scale)]
    return found


def _probe(
    program: WholeTape, port: Port, gradients: _Gradients, rtol: float, count: int, checkpoint: Checkpoint | None
) -> list[tuple[Probe, Slope]]:
    values = program.values(port)
    consumed, exact = gradients.consumed[port], gradients.exact[port]
    floor = gradients.floor(port)
    start = np.array([program.loss()])
    probes = []
    for flat, direction in _directions(values, exact, count):

        def displaced(step: float, direction: Floats = direction) -> Floats:
            if checkpoint is not None:
                checkpoint()
            return np.array([program.loss({port: values + step * direction})])

        size = float(np.sqrt(((np.nan_to_num(exact) * direction) ** 2).sum()))
        # A step along which the gradient promises more change than there is loss is far outside of the linear range.
        eps = min(EPS, max(1e-9, 0.1 * abs(float(start[0])) / size)) if size else EPS
        found = slope(displaced, start, eps=eps, magnitude=1.0, enough=_fine_for(rtol, size))
        probe = Probe(
            entry=None if flat is None else shape_index(flat, port.shape),
            ad=float(consumed @ direction),
            exact=float(exact @ direction),
            fd=float(found.value[0]),
            bar=float(found.bar[0]),
            size=size,
            allowed=max(rtol * max(abs(float(found.value[0])), size), NOTHING * abs(float(start[0]))),
        )
        noise = float(floor @ np.abs(direction))
        probes.append((_judged(probe, found, noise), found))
    return probes


def _fine_for(rtol: float, size: float) -> Callable[[Floats], Floats]:
    """Error bars to aim at: fine beside `size`, as random directions cancel, but never as wide as the slope itself."""

    def enough(slopes: Floats) -> Floats:
        found = np.abs(slopes)
        return 0.02 * rtol * np.maximum(found, np.minimum(size, 100 * found)) + 1e-9 * found

    return enough


def _judged(probe: Probe, found: Slope, noise: float) -> Probe:
    """The verdict on the consumed gradient in one direction."""
    allowed = probe.allowed
    error = abs(probe.ad - probe.fd)
    verdict: Verdict
    if not np.isfinite(probe.ad):
        verdict = "WRONG"
    elif bool(found.kink[0]) and abs(float(found.left[0] - found.right[0])) > allowed:
        verdict = "KINK"
    elif not probe.bar <= allowed or not np.isfinite(probe.fd):
        verdict = "UNDECIDABLE"
    elif error <= allowed + probe.bar:
        verdict = "AGREE"
    elif error <= allowed + probe.bar + noise:
        verdict = "UNDECIDABLE"
    else:
        verdict = "WRONG"
    return replace(probe, verdict=verdict)


# ------------------------------------------------------------------ verdicts


def _judge_input(
    program: WholeTape, port: Port, gradients: _Gradients, found: list[tuple[Probe, Slope]], rtol: float, diverged: bool
) -> InputCheck:
    probes = [probe for probe, _ in found]
    consumed, same, exact = gradients.consumed[port], gradients.same[port], gradients.exact[port]

    rel_error: float | None = None

    def result(verdict: Verdict, message: str) -> InputCheck:
        if program.blind and verdict in ("AGREE", "WRONG"):
            verdict, message = "UNDECIDABLE", f"{message}; but {program.blind}"
        return _result(port, gradients, probes, verdict, message, rel_error)

    if not np.isfinite(consumed).all():
        count = int((~np.isfinite(consumed)).sum())
        return result("WRONG", f"{count} of {consumed.size} entries of the consumed gradient are not finite")
    largest = float(np.abs(exact).max(initial=0.0))
    error = np.abs(consumed - exact)
    floor = gradients.floor(port)
    allowed = rtol * np.abs(exact) + ENTRY * largest + _negligible(program, port)
    missed = error > allowed
    off_semantics = np.abs(same - exact) > allowed + floor
    sure = [p for p in probes if p.verdict != "KINK" and p.bar <= p.allowed]
    numbers = _numbers(port, gradients, probes)
    if sure and all(abs(p.exact - p.fd) <= p.allowed + p.bar for p in sure):
        # The float64 adjoint is confirmed wherever a difference could say anything: it is the reference.
        if not missed.any():
            unsure = _unsure(probes)
            return result(unsure, numbers) if unsure is not None else result("AGREE", numbers)
        if (missed & off_semantics).any():
            return result("WRONG", f"{numbers}: values that the adjoint needs were overwritten before the reverse pass")
        rounding = diverged or not (error > SINGLE * largest + 4 * floor).any()
        if not rounding:
            return result("WRONG", f"{numbers}: the float64 twin of the same adjoint is right")
        why = "the float32 and the float64 run diverge" if diverged else "float32 rounding is amplified that much"
        return result("UNDECIDABLE", f"{numbers}: {why}")
    rel_error = max(p.rel_error for p in probes)  # the float64 adjoint is no reference here
    verdict = worst(p.verdict for p in probes)
    if verdict == "AGREE":
        verdict = "UNDECIDABLE"
    reasons = {
        "WRONG": "the adjoint disagrees with differences of the loss",
        "KINK": "the loss has a kink here",
        "UNDECIDABLE": "differences of the loss can not decide, the run amplifies rounding",
    }
    return result(verdict, f"{numbers}: {reasons.get(verdict, '')}")


def _negligible(program: WholeTape, port: Port) -> Floats:
    """Gradients so small that even a change of 100 % of the input moves the loss by less than `NOTHING` of itself."""
    size = np.abs(program.values(port))
    typical = float(np.sqrt(np.mean(size**2))) or 1.0
    least: Floats = NOTHING * abs(program.loss()) / np.maximum(size, 0.01 * typical)
    return least


def _unsure(probes: Sequence[Probe]) -> Verdict | None:
    """KINK or UNDECIDABLE where most directions are; a single one is outvoted by those that agree."""
    for verdict in ("KINK", "UNDECIDABLE"):
        if 2 * sum(p.verdict == verdict for p in probes) > len(probes):
            return verdict  # type: ignore[return-value]
    return None


def _numbers(port: Port, gradients: _Gradients, probes: Sequence[Probe]) -> str:
    text = f"relative error {_relative(gradients.consumed[port], gradients.exact[port], gradients.least[port]):.1e} of the float64 adjoint"
    if probes:
        off = max(probes, key=lambda p: p.rel_error)
        along = "a random direction" if off.entry is None else f"entry [{', '.join(map(str, off.entry))}]"
        text += (
            f", {off.rel_error:.1e} of finite differences ({len(probes)} directions; "
            f"most along {along}: AD {off.ad:.6g}, FD {off.fd:.6g} ± {off.bar:.1g})"
        )
    return text


def _relative(value: Floats, reference: Floats, least: float) -> float:
    difference, size = float(np.linalg.norm(value - reference)), float(np.linalg.norm(reference))
    if size <= least:
        return 0.0 if difference <= least else float("inf")
    return difference / size


def _result(
    port: Port,
    gradients: _Gradients,
    probes: Sequence[Probe],
    verdict: Verdict,
    message: str,
    rel_error: float | None = None,
) -> InputCheck:
    consumed, exact = gradients.consumed[port], gradients.exact[port]
    return InputCheck(
        name=port.name,
        array=port.array,
        verdict=verdict,
        rel_error=_relative(consumed, exact, gradients.least[port]) if rel_error is None else rel_error,
        max_abs_error=float(np.abs(consumed - exact).max(initial=0.0)),
        message=message,
        consumed=consumed.reshape(port.shape),
        reference=exact.reshape(port.shape),
        probes=tuple(probes),
    )
