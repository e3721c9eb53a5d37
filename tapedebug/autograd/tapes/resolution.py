"""The share of a gradient that float32 resolves, if it is not as close to its twin as requested.

Every training loop ends near a stationary point. There the residuals are differences of nearly equal numbers,
so that the float32 gradient has few correct digits, and none at the minimum. That is neither an error of the
adjoint nor a reason for UNDECIDABLE. Three questions are answered, each by measurement:

- Is the adjoint the derivative? The float64 adjoint is compared with float64 differences of the loss;
  float32 plays no part. Where the gradient vanishes, differences have nothing to resolve, so the comparison
  is made at slightly displaced inputs, where the gradient is not zero.
- How large is the error of the float32 gradient? The float64 adjoint at the values of the float32 forward
  pass separates the effect of rounding in those values from its effect in the reverse pass.
- Does it matter? Not if the error is a small part of the gradient, nor if moving the inputs by a few float32
  roundings would change the gradient as much, and the gradient changes smoothly around them (backward
  error, Wilkinson, Rounding Errors in Algebraic Processes, 1963). A chaotic run amplifies such roundings
  too, but its gradient does not change in proportion to the distance: then no error is tolerated.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float32_slope import fitted_slope
from tapedebug._float_types import is_float
from tapedebug.autograd.array_types import Floats, Values
from tapedebug.autograd.finite_diff.noise import computational_noise
from tapedebug.autograd.finite_diff.richardson import RATIO, slope
from tapedebug.autograd.finite_diff.verdict import Verdict
from tapedebug.autograd.subjects.probes import entry_scales, flat_index, random_directions
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import LEAST, Gradients, Probe
from tapedebug.autograd.thresholds import (
    ASIDE_AGREES,
    DERIVATIVE_REFUTED,
    DIRECTIONS_RESOLVED,
    GRADIENT_STEADY,
    NEARLY_STATIONARY,
    ROUNDING_MINOR,
    ROUNDING_NOTED,
    ROUNDING_SENSITIVE,
    TAPE_AMPLIFIES,
)

if TYPE_CHECKING:
    from tapedebug.contract import Operation


ROUNDINGS = 1e-5  # of the inputs: a displacement within what rounding of a float32 run amounts to
DISTANCES = (1e-2, 1e-3, 1e-4)  # of the inputs' own size: how far the gradient's change is followed

STRIDE, STRIDES = 0.1, 4  # of the inputs: the longest of their steps, and how many
SHORTEST = STRIDE / RATIO ** (STRIDES - 1)

WRONG_ASIDE = "it vanishes here; at inputs 1 % off the adjoint disagrees with differences of the loss"

Basis = Literal["", "here", "aside"]


@dataclass(frozen=True)
class Resolution:
    """The error of a float32 gradient that rounding explains, or the reason why it is not known.

    Attributes:
        reason: A clause that says why the gradient cannot be confirmed; empty if it can.
        error: Error of the consumed gradient and of the differences that confirm it, relative to its size.
        note: The size of the error, its scale, and its explanation.
        stationary: True near a stationary point: the gradient's size is no scale, and the note gives another.
        wrong: True if the adjoint is wrong.
        rounding: True if rounding of a right adjoint is the cause; a larger gradient may serve as the scale.
    """

    reason: str
    error: float = float("nan")
    note: str = ""
    stationary: bool = False
    wrong: bool = False
    rounding: bool = False

    @property
    def verdict(self) -> Verdict:
        """Measurements of the consumed gradient."""
        if self.wrong:
            return "WRONG"
        return "UNDECIDABLE" if self.reason else "AGREE"


def refuted(program: WholeTape, port: Port, gradients: Gradients, probes: Sequence[Probe]) -> bool:
    """True if differences refute the float64 adjoint by more than rounding explains."""
    plain = [p for p in probes if p.verdict == "WRONG" and abs(p.exact - p.fd) > p.allowed + p.bar]
    kink = any(probe.verdict == "KINK" for probe in probes)
    sure = [] if kink else [p for p in probes if p.bar <= p.allowed and _astray(p)]
    if not plain and not sure:
        return False
    jumps = _jumps(program, port, gradients)
    if any(_is_smooth(port, probe, jumps) for probe in plain):
        return True
    sure = [probe for probe in sure if _is_smooth(port, probe, jumps)]
    if any(p.noise <= ROUNDING_SENSITIVE * _size(p) for p in sure):
        return True
    # A chaotic run may show the same false slope at all steps.
    return bool(sure) and _rate(program, port, gradients) > 0


def _jumps(program: WholeTape, port: Port, gradients: Gradients) -> Floats:
    """Return how much the float64 adjoint changes within the shortest displacement, for each entry."""
    moved = _gradient_at(program, port, _shortest(program))
    found: Floats = np.abs(moved - gradients.exact[port]) * entry_scales(program.values(port))
    return found


def _shortest(program: WholeTape) -> float:
    """Return a displacement of the inputs, relative to their size, that does not vanish in rounding."""
    return ROUNDINGS if program.is_narrow else LEAST


def _is_smooth(port: Port, probe: Probe, jumps: Floats) -> bool:
    """True if the adjoint hardly changes over the shortest step; that of `sin` at 1e16 does."""
    moves = float(jumps.sum())
    if probe.entry is not None:
        moves = float(jumps[flat_index(probe.entry, port.shape)])
    return moves <= ROUNDING_SENSITIVE * _size(probe)


def resolve(
    program: WholeTape, port: Port, gradients: Gradients, probes: Sequence[Probe], *, diverged: bool
) -> Resolution:
    """Measure the error of a gradient whose float32 reverse pass agrees with its float64 twin.

    Args:
        program: The tape.
        port: The input.
        gradients: Its gradients.
        probes: Comparisons with differences of the loss.
        diverged: True if the losses in float32 and in float64 differ.
    """
    exact, consumed = gradients.exact[port], gradients.consumed[port]
    if not np.isfinite(exact).all():
        return Resolution("the float64 adjoint is not finite")
    sizes = entry_scales(program.values(port))
    found = resolved_here(program, port, gradients, probes)
    if found is not None:
        return found
    jumps = float(np.linalg.norm(_jumps(program, port, gradients)))
    trembles = jumps > ROUNDING_SENSITIVE * float(np.linalg.norm(exact * sizes))
    rate = 0.0 if trembles else _rate(program, port, gradients)
    basis, level, doubt = _confirmed(program, port, gradients, probes, rate)
    if not basis:
        return Resolution(doubt, wrong=doubt == WRONG_ASIDE)
    parts = _parts(program, port, gradients)
    error = max(parts.whole, _largest_error(port, gradients))
    moved = float(np.linalg.norm((consumed - exact) * sizes))
    if rate > 0 and moved <= ROUNDINGS * rate and not _amplifies(program):
        share = _share(program, port, gradients, rate)
        text = _stationary(parts, share, moved / rate, basis, level)
        return Resolution("", max(error, level), text, stationary=True)
    text = f"float32 rounding moves it by {_of(parts.whole)} its size ({parts.words()})"
    if diverged:
        single, double = program.loss(single=True), program.base
        text += f"; the float32 and the float64 run diverge (loss {single:.6g} and {double:.6g})"
    return Resolution(text, error, rounding=True)


def resolved_here(
    program: WholeTape, port: Port, gradients: Gradients, probes: Sequence[Probe]
) -> Resolution | None:
    """Return the error of a gradient that is close to an adjoint which differences confirm; None if not.

    It takes no further run of the tape, but for the parts of an error of more than `ROUNDING_NOTED`.
    """
    level = _level_here(probes)
    whole = _relative_error(port, gradients)
    error = max(whole, _largest_error(port, gradients))
    if level is None or not error <= ROUNDING_MINOR:
        return None
    return Resolution("", max(error, level), _minor(program, port, gradients, whole, level))


# ---------------------------------------------------------------- is the adjoint the derivative?


def _level_here(probes: Sequence[Probe]) -> float | None:
    """Return the relative error to which differences confirm the float64 adjoint; None if they do not."""
    misses = [_miss(probe) for probe in probes if probe.verdict != "KINK"]
    close = [miss for miss in misses if miss <= ROUNDING_MINOR]
    astray = any(_astray(probe) for probe in probes if probe.verdict != "KINK")
    if close and len(close) >= DIRECTIONS_RESOLVED * len(probes) and not astray:
        return max(close)
    return None


def _confirmed(
    program: WholeTape, port: Port, gradients: Gradients, probes: Sequence[Probe], rate: float
) -> tuple[Basis, float, str]:
    """Return the place where differences confirm the float64 adjoint, how well, and any doubt."""
    here = _level_here(probes)
    if here is not None:
        return "here", here, ""
    misses = [(_miss(probe), probe) for probe in probes if probe.verdict != "KINK"]
    close = [miss for miss, _ in misses if miss <= ROUNDING_MINOR]
    if _share(program, port, gradients, rate) <= NEARLY_STATIONARY:
        level, wrong = _aside(program, port)
        if level <= ASIDE_AGREES:
            return "aside", level, ""
        if wrong:
            return "", level, WRONG_ASIDE
    return "", float("nan"), _unresolved(program, misses, len(close), len(probes))


def _astray(probe: Probe) -> bool:
    """True if a difference misses the float64 adjoint by more than `DERIVATIVE_REFUTED` error bars."""
    return bool(abs(probe.exact - probe.fd) > probe.allowed + DERIVATIVE_REFUTED * probe.bar)


def _size(probe: Probe) -> float:
    return max(abs(probe.fd), probe.size)


def _miss(probe: Probe) -> float:
    """Return the largest relative error of the float64 adjoint that a difference leaves possible."""
    size, off = _size(probe), abs(probe.exact - probe.fd) + probe.bar
    if off <= probe.allowed and size <= probe.allowed:  # both are nothing beside the loss
        return 0.0
    return off / size if size and np.isfinite(off) else float("inf")


def _unresolved(program: WholeTape, misses: Sequence[tuple[float, Probe]], close: int, count: int) -> str:
    """Return a clause with numbers on what differences cannot decide."""
    if not misses:
        return "no difference of the loss could be taken"
    miss, probe = max(misses, key=lambda found: (np.isfinite(found[0]), found[0]))
    directions = f"{count - close} of {count} directions" if count > 1 else "the direction that was tried"
    text = f"differences of the loss do not resolve the gradient in {directions}"
    if np.isfinite(miss):
        text += f" (along {probe.along} only to {_of(miss)} its size)"
    share = max(_size(found) for _, found in misses) / abs(program.base) if program.base else float("inf")
    if share < 1e-6:
        text += (
            f": changing the input by 100 % would move the loss of {program.base:.3g} by {share:.0e} of it"
        )
    else:
        text += ", as the run amplifies rounding or bends within the smallest steps"
    return text


def _aside(program: WholeTape, port: Port) -> tuple[float, bool]:
    """Compare adjoint and differences at displaced inputs, in float64 if the tape runs in it.

    Returns:
        The relative error to which they agree, and True if they certainly disagree.
    """
    at = _displaced(program, DISTANCES[0])
    gradient, other = (
        _gradient_at(program, port, DISTANCES[0] + further) for further in (0.0, _shortest(program))
    )
    start = np.array([program.loss(at)])
    level, wrong = 0.0, False
    for direction in random_directions(port.size, 2, entry_scales(program.values(port))):

        def displaced(step: float, direction: Floats = direction) -> Floats:
            return np.array([program.loss({**at, port: at[port] + step * direction})])

        size = float(np.linalg.norm(gradient * direction))
        if not float(np.abs(other - gradient) @ np.abs(direction)) <= ROUNDING_SENSITIVE * size:
            return float("inf"), False
        along = float(gradient @ direction)
        if program.is_narrow:
            rounding = float(np.finfo(np.float32).eps) * abs(float(start[0]))
            fitted = fitted_slope(functools.partial(_first, displaced), rounding)
            off, bar, kink = abs(along - fitted.value), fitted.error, fitted.kink
        else:
            enough = functools.partial(np.full_like, fill_value=0.1 * ASIDE_AGREES * size)
            found = slope(displaced, start, eps=STRIDE, magnitude=1.0, enough=enough, max_steps=STRIDES)
            off, bar, kink = abs(along - float(found.value[0])), float(found.bar[0]), bool(found.kink[0])
        if off > ASIDE_AGREES * size + DERIVATIVE_REFUTED * bar and not program.is_narrow:
            change = abs(float((displaced(1.0) - start)[0]))
            bar = max(bar, computational_noise(displaced, change) / SHORTEST)
        level = max(level, (off + bar) / size if size and np.isfinite(off + bar) else float("inf"))
        wrong |= bool(off > ASIDE_AGREES * size + DERIVATIVE_REFUTED * bar) and not kink
    return level, wrong


def _first(function: Callable[[float], Floats], step: float) -> float:
    return float(function(step)[0])


# ---------------------------------------------------------------- how far is it off, and does it matter?


@dataclass(frozen=True)
class _Parts:
    """The relative error of a gradient by rounding: in the forward pass, the reverse pass, and in total."""

    whole: float
    forward: float
    reverse: float

    def words(self) -> str:
        return (
            f"by {_of(self.forward)} it in the forward values, by {_of(self.reverse)} it in the reverse pass"
        )


def _parts(program: WholeTape, port: Port, gradients: Gradients) -> _Parts:
    exact, consumed, along = gradients.exact[port], gradients.consumed[port], program.along[port]
    size = float(np.linalg.norm(exact))
    forward, reverse = (
        float(np.linalg.norm(part)) / size if size else float("inf")
        for part in (along - exact, consumed - along)
    )
    return _Parts(_relative_error(port, gradients), forward, reverse)


def _relative_error(port: Port, gradients: Gradients) -> float:
    """Return the distance of a gradient to the float64 adjoint, relative to the size of the latter."""
    exact, size = gradients.exact[port], float(np.linalg.norm(gradients.exact[port]))
    return float(np.linalg.norm(gradients.consumed[port] - exact)) / size if size else float("inf")


def _largest_error(port: Port, gradients: Gradients) -> float:
    """Return the largest error of an entry, relative to the largest entry of the float64 adjoint."""
    exact = gradients.exact[port]
    largest = float(np.abs(exact).max(initial=0.0))
    return float(np.abs(gradients.consumed[port] - exact).max(initial=0.0)) / largest if largest else 0.0


def _rate(program: WholeTape, port: Port, gradients: Gradients) -> float:
    """Return the change of an input's gradient over the inputs' size, extrapolated from small displacements.

    0 where it changes more than proportionally over shorter distances: near kinks and in chaos.
    """
    sizes, found = entry_scales(program.values(port)), []
    for distance in DISTANCES:
        moved = _gradient_at(program, port, distance)
        found.append(float(np.linalg.norm((moved - gradients.exact[port]) * sizes)) / distance)
    steady = all(near <= GRADIENT_STEADY * far for far, near in itertools.pairwise(found))
    return max(found) if steady and np.isfinite(found).all() else 0.0


def _share(program: WholeTape, port: Port, gradients: Gradients, rate: float) -> float:
    """Return the size of a gradient relative to its change over the inputs' size."""
    size = float(np.linalg.norm(gradients.exact[port] * entry_scales(program.values(port))))
    return size / rate if rate else float("inf")


def _amplifies(program: WholeTape) -> bool:
    """True if a displacement of the inputs grows through the tape beyond the size of all its values.

    An unstable run is near a stationary point in each direction that it amplifies; that does not excuse
    missing digits of its gradient.
    """
    plain, moved = program.replay(), program.replay()
    for port, values in _displaced(program, DISTANCES[1]).items():
        moved.set(port.array, values.reshape(port.shape))
    outputs = {id(port.array.region) for port in program.seeds}
    largest, change = 0.0, 0.0

    def follow(record: Operation) -> None:
        nonlocal largest, change
        moved.forward(record.index, record.index + 1)
        for param in sorted(record.touched):
            array = record.args[param]
            values, others = plain.values(array), moved.values(array)
            if not is_float(values.dtype) or not values.size or id(array.region) in outputs:
                continue
            largest = max(largest, _typical(values))
            change = max(change, _typical(others.astype(np.float64) - values))

    plain.forward(0, on_operation=follow)
    return not change <= TAPE_AMPLIFIES * DISTANCES[1] * largest


def _typical(values: Values) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def _gradient_at(program: WholeTape, port: Port, distance: float) -> Floats:
    """Return the float64 adjoint of an input where all inputs are displaced by a part of their size."""

    def run(ports: Sequence[Port]) -> dict[Port, Floats]:
        found = program.pull(program.seeds, at=_displaced(program, distance), double=True, preserved=True)
        return {each: found[each] for each in ports}

    return program.once(("gradient at", distance), port, run)


def _displaced(program: WholeTape, distance: float) -> dict[Port, Floats]:
    """Return all inputs, displaced in one random direction by a part of their size."""
    total = sum(port.size for port in program.inputs)
    offset, row = 0, random_directions(total, 1)[0]
    found = {}
    for port in program.inputs:
        values = program.values(port)
        found[port] = values + distance * entry_scales(values) * row[offset : offset + port.size]
        offset += port.size
    return found


# ---------------------------------------------------------------- words


def _minor(program: WholeTape, port: Port, gradients: Gradients, whole: float, level: float) -> str:
    if whole <= ROUNDING_NOTED:
        return (
            f"it is off the float64 adjoint by {_of(whole)} its size; that adjoint agrees with differences "
            f"of the loss to {_digits(level)}"
        )
    parts = _parts(program, port, gradients)
    return (
        f"float32 rounding puts it off by {_of(whole)} its size ({parts.words()}); in float64 the "
        f"adjoint agrees with differences of the loss to {_digits(level)}"
    )


def _stationary(parts: _Parts, share: float, moved: float, basis: Basis, level: float) -> str:
    where = "" if basis == "here" else f" at inputs {100 * DISTANCES[0]:g} % off"
    return (
        f"near a stationary point its size is {_digits(share)} of what it changes by over the size of the "
        f"inputs. Float32 rounding puts it off by {_digits(moved)} of that change, which is by "
        f"{_of(parts.whole)} its size ({parts.words()}); in float64 the adjoint agrees with differences of "
        f"the loss{where} to {_digits(level)}"
    )


def _of(share: float) -> str:
    """Return `12 % of`, `4e-6 of` or `2.3 times`, to be followed by the whole."""
    if 1 <= share < np.inf:
        return f"{share:.2g} times"
    return f"{100 * share:.2g} % of" if 1e-3 <= share < 1 else f"{_digits(share)} of"


def _digits(share: float) -> str:
    digits, _, exponent = f"{share:.0e}".partition("e")
    return f"{digits}e{int(exponent)}" if share and np.isfinite(share) else f"{share:.3g}"
