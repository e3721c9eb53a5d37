"""Computes finite differences of a tape's loss along entries and random directions of one input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from tapedebug import _time_limit
from tapedebug._dataclass import dataclass
from tapedebug._float32_slope import STEPS, fitted_slope
from tapedebug._time_limit import OutOfTime
from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.finite_diff.noise import computational_noise
from tapedebug.autograd.finite_diff.richardson import MAX_STEPS, DerivativeEstimate, slope
from tapedebug.autograd.finite_diff.verdict import Verdict
from tapedebug.autograd.subjects.long_vectors import dot, dot_of_sizes, square_of_products
from tapedebug.autograd.subjects.probes import random_direction, shape_index
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.effort import ENTRIES, FEW_SCALARS, Effort
from tapedebug.autograd.thresholds import FLOAT32_BAR_VISIBLE, LOSS_ROUNDING_FLOAT64, ROUNDING_SENSITIVE

EPS = 1e-3  # the largest step, relative to the size of the input
FITTED_ENOUGH = 0.2  # of what is allowed: an error of a fit in float32 with which no more steps are tried
LEAST = 1e-12  # a step below which float64 differences of a run that trembles are rounding


@dataclass(frozen=True)
class Probe:
    """One direction in which the gradient was compared with a difference of the loss.

    Attributes:
        entry: Index of the single entry that was displaced; None for a random direction.
        ad: The consumed gradient along the direction.
        exact: The float64 adjoint along it.
        fd, bar: The difference, and its error bar.
        size: The typical directional derivative of this gradient (a scale for cancellation).
        allowed: The difference up to which the two agree.
        verdict: The verdict on the consumed gradient in this direction.
        left, right: The slopes on both sides, if they differ.
        inputs: The number of inputs displaced together.
        unit: For a single entry, its displacement by a step of 1.
        noise: The change of the gradient along the direction by one float32 rounding of the inputs.
        direction: For a random direction in one input, the displacement by a step of 1.
        is_brief: Only two steps were taken, which show a kink, as the input has one at a single entry.
    """

    entry: tuple[int, ...] | None
    ad: float
    exact: float
    fd: float
    bar: float
    size: float
    allowed: float
    verdict: Verdict = "AGREE"
    left: float = float("nan")
    right: float = float("nan")
    inputs: int = 1
    unit: float = 1.0
    noise: float = 0.0
    direction: Floats | None = field(default=None, compare=False, repr=False)
    is_brief: bool = False

    @property
    def along(self) -> str:
        """The direction, in words."""
        if self.inputs > 1:
            return f"a random direction of {self.inputs} inputs together"
        if self.entry is None:
            return "a random direction"
        return f"entry [{', '.join(map(str, self.entry))}]"

    @property
    def rel_error(self) -> float:
        """|AD - FD| relative to the size of the derivative; 0 if both are 0."""
        size = max(abs(self.fd), self.size)
        return abs(self.ad - self.fd) / size if size else abs(self.ad - self.fd)


@dataclass(frozen=True)
class Gradients:
    """The gradients of one loss with respect to all inputs."""

    consumed: Mapping[Port, Floats]
    same: Mapping[Port, Floats]  # float64, with the tape's own on_overwrite
    exact: Mapping[Port, Floats]  # float64, with the values of the forward pass
    spread: Mapping[Port, Floats]  # the change of `exact` by one float32 rounding; may be measured when read
    least: Mapping[Port, float]  # the norm of a gradient that is as good as zero
    scale: float = 0.0  # the loss, or the largest change that a gradient promises for an input's own size

    def floor(self, port: Port) -> Floats:
        """Return the change of each entry by one float32 rounding of the inputs."""
        return self.spread[port]

    def noise(self, directions: Mapping[Port, Floats]) -> float:
        """Return the change of the gradient along a direction by one float32 rounding of the inputs."""
        return float(sum(dot_of_sizes(self.floor(port), unit) for port, unit in directions.items()))

    def noise_of(self, probe: Probe, directions: Mapping[Port, Floats]) -> float:
        """Return `noise` for a comparison that disagrees, else 0: measuring it takes reverse passes.

        It is infinite, so that nothing is concluded from the difference, if there is no time for them.
        """
        if abs(probe.exact - probe.fd) <= probe.bar and abs(probe.ad - probe.fd) <= probe.allowed + probe.bar:
            return 0.0
        try:
            return self.noise(directions)
        except OutOfTime:
            return float("inf")


def negligible(program: WholeTape, port: Port) -> Floats:
    """Return the gradients below which a change of the input by 100 % changes the loss by rounding only."""
    least: Floats = LOSS_ROUNDING_FLOAT64 * abs(program.base) / program.scales(port)
    return least


def unit_direction(program: WholeTape, port: Port, flat: int) -> Floats:
    """Return the direction along one entry of an input, with the entry's size as length."""
    unit = np.zeros(port.size)
    unit[flat] = max(abs(float(program.values(port)[flat])), 0.01 * program.typical(port))
    return unit


def _directions(
    program: WholeTape, port: Port, gradient: Floats, effort: Effort
) -> Iterator[tuple[int | None, Floats]]:
    """Yield the directions of an input one by one: each is as large as the input.

    Under a time limit, after which there may be no second one, a random direction is the first.
    """
    size = port.size
    chosen = np.sort(_largest(gradient, min(effort.entries, size if size <= FEW_SCALARS else ENTRIES)))
    random = range(effort.random if size > 1 else 0)
    first = 1 if _time_limit.remaining() < np.inf else 0
    for number in random[:first]:
        yield None, _random_direction(program, port, number, effort)
    for flat in chosen:
        yield int(flat), unit_direction(program, port, int(flat))
    for number in random[first:]:
        yield None, _random_direction(program, port, number, effort)


def _random_direction(program: WholeTape, port: Port, number: int, effort: Effort) -> Floats:
    """Return a random direction; every second one displaces all entries equally."""
    direction = random_direction(port.size, number, effort.random)
    # Errors also count at small inputs.
    direction *= program.typical(port) if number % 2 else program.scales(port)
    return direction


def _largest(gradient: Floats, count: int) -> Indices:
    """Return the positions of the `count` largest entries; of equal ones the first."""
    size = np.abs(np.nan_to_num(gradient, nan=np.inf))
    if count == 1 and size.size:
        return np.array([size.argmax()])  # `partition` is slow where many entries are equal
    if not 0 < count < size.size:
        return np.arange(min(count, size.size))
    least = np.partition(size, size.size - count)[size.size - count]
    above: Indices = np.flatnonzero(size > least)
    return np.concatenate([above, np.flatnonzero(size == least)[: count - len(above)]])


def probe_input(
    program: WholeTape,
    port: Port,
    gradients: Gradients,
    rtol: float,
    effort: Effort,
    checkpoint: Checkpoint | None,
    *,
    brief: bool = False,
) -> list[Probe]:
    """Compare the gradients of one input with differences of the loss.

    Args:
        program: The tape.
        port: The input.
        gradients: Its gradients.
        rtol: The relative error up to which they agree.
        effort: The number of directions.
        checkpoint: Called before each evaluation.
        brief: If the loss has a kink at a single entry, random directions in which two steps show one, too,
            are left then. They say nothing of the gradient, as a proven kink does not.

    Raises:
        OutOfTime: Time was up before the first comparison.
    """
    consumed, exact = gradients.consumed[port], gradients.exact[port]
    probes: list[Probe] = []
    hurried = False
    for flat, direction in _directions(program, port, exact, effort):
        known = any((probe.entry is None) == (flat is None) for probe in probes)
        if known and _time_limit.now() > effort.until:
            hurried = True
            continue
        probe = Probe(
            entry=None if flat is None else shape_index(flat, port.shape),
            ad=dot(consumed, direction),
            exact=dot(exact, direction),
            fd=float("nan"),
            bar=float("inf"),
            size=float(np.sqrt(square_of_products(exact, direction))),
            allowed=0.0,
            unit=1.0 if flat is None else float(direction[flat]),
            direction=direction if flat is None else None,
        )
        along = {port: direction}
        noise = 0.0 if program.is_narrow else gradients.noise(along)
        try:
            kinked = brief and flat is None and any(probe.verdict == "KINK" for probe in probes)
            found, start = measured(program, along, probe, rtol, noise, checkpoint, has_kink=kinked)
        except OutOfTime:
            if not probes:
                raise
            hurried = True
            break
        _time_limit.compared()
        if program.is_narrow:
            noise = gradients.noise_of(found, along)
        probes.append(judged(found, start, noise, probe.unit))
    if hurried:
        many = f"{len(probes)} direction{'s' * (len(probes) != 1)}"
        program.notes.append(f"{port.name} was displaced in {many} only, to save time")
    return probes


def measured(
    program: WholeTape,
    directions: Mapping[Port, Floats],
    probe: Probe,
    rtol: float,
    noise: float,
    checkpoint: Checkpoint | None,
    *,
    has_kink: bool = False,
) -> tuple[Probe, DerivativeEstimate]:
    """Take the difference of the loss along a direction of one input, or of several.

    Args:
        program: The tape.
        directions: The displacement by a step of 1.
        probe: The gradients along them, and their size.
        rtol: The relative error to resolve.
        noise: The change of the gradient along them by one float32 rounding of the inputs; 0 if it is to be
            measured only where the two disagree. Not used if the loss along them is rounded to float32.
        checkpoint: Called before each evaluation.
        has_kink: The loss is known to have a kink in this input: two steps suffice to show one here.

    Returns:
        The probe with its difference, not yet judged, and the difference.
    """
    start = np.array([program.base])

    def displaced(step: float) -> Floats:
        if checkpoint is not None:
            checkpoint()
        moved = {port: program.displaced(port, step, direction) for port, direction in directions.items()}
        return np.array([program.loss(moved)])

    size = probe.size
    if program.rounds(directions):
        return _fitted(displaced, float(start[0]), probe, rtol)
    # Steps whose predicted change exceeds the loss leave the linear range.
    eps = min(EPS, max(1e-9, 0.1 * abs(float(start[0])) / size)) if size else EPS
    steps, fine = MAX_STEPS, min(0.02 * rtol, FLOAT32_BAR_VISIBLE)
    if noise > ROUNDING_SENSITIVE * size > 0:
        fine = 0.02 * rtol  # shorter steps give no finer differences
        # So do steps along which the gradient itself changes: the sweep does not start with them.
        eps = min(eps, max(LEAST, float(np.finfo(np.float32).eps) * size / noise))
        steps = MAX_STEPS if eps > LEAST else 2

    def allowed_for(*slopes: float) -> float:
        return max(rtol * max(*map(abs, slopes), size), LOSS_ROUNDING_FLOAT64 * abs(float(start[0])))

    slope_found = slope(
        displaced,
        start,
        eps=eps,
        magnitude=1.0,
        enough=_fine_for(fine, size),
        max_steps=steps,
        is_kink=(lambda left, right: abs(right - left) > allowed_for(left, right)) if has_kink else None,
    )
    fd, bar = float(slope_found.value[0]), float(slope_found.bar[0])
    allowed = allowed_for(fd)
    if probe.ad == probe.exact == 0 and abs(fd) <= bar:
        allowed = max(allowed, _flat(displaced, start))
    if abs(probe.exact - fd) > allowed + bar and not slope_found.kink[0]:
        # Before a difference refutes an adjoint, the rounding of the loss itself is considered.
        change = max(abs(float((displaced(side) - start)[0])) for side in (1.0, -1.0))
        bar = max(bar, computational_noise(displaced, change) / eps)
    return replace(probe, fd=fd, bar=bar, allowed=allowed, is_brief=slope_found.is_brief), slope_found


def _fitted(
    displaced: Callable[[float], Floats], start: float, probe: Probe, rtol: float
) -> tuple[Probe, DerivativeEstimate]:
    """Take a difference of a loss that is rounded to float32 on its way; see `measured`."""
    rounding = float(np.finfo(np.float32).eps) * abs(start)

    def allowed_for(slope: float) -> float:
        return max(rtol * max(abs(slope), probe.size), rounding)

    found = fitted_slope(
        lambda step: float(displaced(step)[0]) if step else start,
        rounding,
        enough=lambda found: FITTED_ENOUGH * rtol * max(abs(found), probe.size),
        confirms=lambda found, error: abs(found - probe.exact) <= error <= allowed_for(found),
    )
    allowed = allowed_for(found.value)
    if probe.ad == probe.exact == 0 and abs(found.value) <= found.error:
        moved = max(abs(float(displaced(side)[0]) - start) for side in (1.0, -1.0))
        if moved <= rounding:  # a displacement of the input's own size is lost in rounding: 0 is right
            allowed = max(allowed, found.error)
    value, error, left, right = np.array([[found.value], [found.error], [found.left], [found.right]])
    estimate = DerivativeEstimate(
        value,
        error,
        left,
        right,
        kink=np.array([found.kink]),
        evaluations=7 * len(STEPS),
    )
    return replace(probe, fd=found.value, bar=found.error, allowed=allowed), estimate


def _flat(displaced: Callable[[float], Floats], start: Floats) -> float:
    """Return a negligible slope if neither gradient nor loss gives a scale (x⁴ at 0).

    It is negligible beside the change of the loss by a displacement of the input's own size.
    """
    with np.errstate(all="ignore"):
        change = max(abs(float((displaced(side) - start)[0])) for side in (1.0, -1.0))
    return LOSS_ROUNDING_FLOAT64 * change if np.isfinite(change) else 0.0


def _fine_for(fine: float, size: float) -> Callable[[Floats], Floats]:
    """Return target error bars: small beside `size`, as random directions cancel, and beside the slope."""

    def enough(slopes: Floats) -> Floats:
        found = np.abs(slopes)
        bars: Floats = fine * np.maximum(found, np.minimum(size, 100 * found)) + 1e-9 * found
        return bars

    return enough


def judged(probe: Probe, found: DerivativeEstimate, noise: float, unit: float) -> Probe:
    """Return the verdict on the consumed gradient in one direction; `unit` is the length of a step of 1."""
    probe = replace(probe, noise=noise)
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
    if verdict == "KINK":
        left, right = float(found.left[0]) / unit, float(found.right[0]) / unit
        return replace(probe, verdict=verdict, left=left, right=right)
    return replace(probe, verdict=verdict)
