"""Determines the verdict on the gradient of a whole tape for one input, from all its measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._time_limit import OutOfTime
from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.finite_diff.verdict import Verdict, worst
from tapedebug.autograd.results.messages import kink_words
from tapedebug.autograd.subjects.entry_names import entry_name
from tapedebug.autograd.subjects.long_vectors import distance, largest_difference, norm
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import EPS, Gradients, Probe, negligible, unit_direction
from tapedebug.autograd.tapes.entry_bisection import GradientBisection, refutes, sure_of
from tapedebug.autograd.tapes.float32_error_bar import Float32ErrorBar, float32_error_bar, scatter_nearby
from tapedebug.autograd.tapes.reference import Departure, Reference
from tapedebug.autograd.tapes.resolution import Resolution, refuted, resolve, resolved_here
from tapedebug.autograd.thresholds import (
    DIRECTIONS_MARGIN,
    ENTRY_ROUNDING,
    FLOAT32_OFF_ITS_TWIN,
    ROUNDING_SPREAD,
)
from tapedebug.contract import Array


@dataclass(frozen=True, eq=False)
class InputCheck:
    """The verdict on the gradient of the loss with respect to one input.

    Attributes:
        name: Label of the input.
        array: The input.
        verdict: AGREE, WRONG, UNDECIDABLE, KINK or NONDETERMINISTIC.
        rel_error: ‖consumed - reference‖ / ‖reference‖; if differences refute the reference, the largest
            relative error of a probe.
        max_abs_error: Largest difference of an entry.
        reason: The error, in a clause; empty if the gradient agrees.
        message: The agreement in numbers, and the reason.
        consumed: The gradient of `Tape.backward`, of the input's shape with components last.
        reference: The float64 adjoint that reads the values of the forward pass, of the same shape.
        probes: The comparisons with differences.
        agreement: The possible error beside the true gradient, relative to its size: the largest of its
            distance to the float64 adjoint without custom gradients, and of that adjoint's distance to
            differences, with their error bars. NaN if no difference is conclusive.
        departure: The entries that differ from that adjoint; None if all agree.
        note: The float32 rounding of a gradient that agrees nevertheless, and the scale of that; empty if it
            is as close as requested.
        stationary: It agrees as far as float32 resolves it near a stationary point: its size is no measure.
        rounding: It is UNDECIDABLE because rounding is a large part of it, though its adjoint is right.
        late: It is UNDECIDABLE because there was no time for a measurement.
    """

    name: str
    array: Array
    verdict: Verdict
    rel_error: float
    max_abs_error: float
    reason: str
    message: str
    consumed: Floats
    reference: Floats
    probes: tuple[Probe, ...]
    agreement: float = float("nan")
    departure: Departure | None = None
    note: str = ""
    stationary: bool = False
    rounding: bool = False
    late: bool = False

    def without_gradients(self) -> InputCheck:
        """Return the result with NaN in place of both gradients, which takes no memory."""
        unknown = np.broadcast_to(np.nan, self.consumed.shape)
        return replace(self, consumed=unknown, reference=unknown)

    @property
    def kink(self) -> tuple[float, float] | None:
        """The slopes on the left and on the right if the verdict is KINK."""
        if self.verdict != "KINK":
            return None
        worst = _worst_kink(self.probes)
        return worst.left, worst.right


LATE = "there was no time to tell an error from rounding"
"""The reason of a verdict that further runs of the tape might have decided."""


def judge_input(
    program: WholeTape,
    port: Port,
    gradients: Gradients,
    probes: Sequence[Probe],
    rtol: float,
    diverged: bool,
    reference: Reference,
) -> InputCheck:
    """Return the verdict on one input from all its measurements.

    Args:
        program: The tape.
        port: The input.
        gradients: Its gradients, consumed and exact.
        probes: Comparisons with differences of the loss.
        rtol: The relative error up to which a gradient agrees.
        diverged: The float32 and the float64 run have different losses.
        reference: The reference that does not share the adjoint under test.
    """
    consumed = gradients.consumed[port]
    departure: Departure | None = None
    explained = late = False
    numbers = _numbers(port, gradients, probes)
    rel_error: float | None = None
    resolution = Resolution("")
    if not np.isfinite(consumed).all():
        count = int((~np.isfinite(consumed)).sum())
        verdict: Verdict = "WRONG"
        reason = f"{count} of {consumed.size} entries of the consumed gradient are not finite"
        numbers = ""
    else:
        try:
            verdict, reason, rel_error = _weighed(program, port, gradients, probes, rtol)
            close = None
            if verdict == "UNDECIDABLE" and not reason:
                close = resolved_here(program, port, gradients, probes)
            if close is not None:
                resolution, verdict, rel_error = close, close.verdict, close.error
                numbers = close.note
            elif verdict == "UNDECIDABLE":
                rounding = float32_error_bar(program, gradients, port)
                if rounding.is_dust(probes):
                    verdict, reason, rel_error, numbers = "AGREE", "", rounding.share, rounding.words()
                elif not _follows(program, port, consumed, rounding):
                    kinks = GradientBisection(program, port, gradients).kinks(_off(program, port, consumed))
                    verdict, reason = "WRONG", "the float64 twin of the same adjoint is right"
                    if kinks is not None:
                        verdict, reason, probes = "KINK", _kink(kinks), [*probes, *kinks]
                elif not reason:
                    resolution = resolve(program, port, gradients, probes, diverged=diverged)
                    verdict, reason = resolution.verdict, resolution.reason
                    rel_error = rel_error if np.isnan(resolution.error) else resolution.error
                    numbers = resolution.note or numbers
        except OutOfTime:
            verdict, reason, late = "UNDECIDABLE", LATE, True
        departure = reference.departure(port)
        if departure is not None and departure.right == "reference":
            if departure.functions or verdict != "WRONG":
                verdict, reason = "WRONG", departure.reason
                rel_error = _off_by(departure, gradients.least[port])
                numbers = f"{departure.difference}; {numbers}"
        elif departure is not None and departure.right == "unknown" and verdict == "AGREE":
            verdict, reason, explained = "UNDECIDABLE", departure.reason, True
        elif verdict == "AGREE" and not program.meant:
            found = None
            try:
                found = GradientBisection(program, port, gradients).run(probes)
            except OutOfTime:  # a difference disagrees, by less than is allowed for all entries together
                verdict, reason, late = "UNDECIDABLE", LATE, True
            if found is not None:
                verdict, probes = "WRONG", [*probes, found]
                reason, rel_error = _refuted(port, found), found.rel_error
    if verdict == "UNDECIDABLE" and not program.meant and not explained and not late:
        reason += _beside(program, port, probes)
    if program.blind and verdict in ("AGREE", "WRONG"):
        verdict, reason = "UNDECIDABLE", f"{reason}; {program.blind}".removeprefix("; ")
    message = f"{numbers}: {reason}".strip(": ")
    check = result_of(port, gradients, probes, verdict, reason, message, rel_error)
    if verdict != "AGREE":
        resolution = replace(resolution, note="", stationary=False)
    return replace(
        check,
        agreement=_agreement(port, gradients, probes, reference),
        departure=departure,
        note=resolution.note,
        stationary=resolution.stationary,
        rounding=resolution.rounding and verdict == "UNDECIDABLE",
        late=late,
    )


def _refuted(port: Port, probe: Probe) -> str:
    """Return the entry that differences refute, in a clause."""
    name = entry_name(port.name, probe.entry or (), port.value_type)
    ad, fd, bar = (number / probe.unit for number in (probe.exact, probe.fd, probe.bar))
    return (
        f"the adjoint disagrees with differences of the loss at {name}: AD {ad:.6g}, FD {fd:.6g} ± {bar:.1g}"
    )


def _off_by(departure: Departure, least: float) -> float:
    """Return the relative error of a gradient: as a whole, or of its worst entry, whichever is larger."""
    whole = _relative(departure.given, np.nan_to_num(departure.reference), least)
    return max(whole, departure.error) if np.isfinite(departure.error) else whole


def _agreement(port: Port, gradients: Gradients, probes: Sequence[Probe], reference: Reference) -> float:
    """Return the relative error that the measurements leave possible; see `InputCheck`."""
    consumed, derived = gradients.consumed[port], reference.derived[port]
    right = derived if np.isfinite(derived).all() else gradients.exact[port]
    if not (consumed.any() or right.any()):
        return 0.0
    size = norm(right)
    found = [distance(consumed, right) / size if size else float("inf")]
    whole = max((probe.size for probe in probes), default=0.0)
    for probe in sure_of(probes):
        # A difference along one entry is relative to the size of all entries, as the gradient is; inputs
        # displaced together contribute equally to the size.
        error, of = DIRECTIONS_MARGIN * abs(probe.exact - probe.fd) + probe.bar, max(probe.size, whole)
        of /= np.sqrt(probe.inputs)
        found.append(error / of if of else float("inf"))
    return max(found) if len(found) > 1 else float("nan")


def unconfirmed(check: InputCheck, why: str) -> InputCheck:
    """Return the result for an input whose gradient agrees although its reverse pass is no transpose."""
    refuted = [p for p in sure_of(check.probes) if refutes(p)]
    verdict: Verdict = "WRONG" if refuted else "UNDECIDABLE"
    reason = f"the adjoint disagrees with differences of the loss; {why}" if refuted else why
    rel_error = max([check.rel_error, *(probe.rel_error for probe in refuted)])
    message = f"{check.message}: {reason}".strip(": ")
    return replace(check, verdict=verdict, reason=reason, message=message, rel_error=rel_error)


def confirmed(probes: Sequence[Probe]) -> bool:
    """True if all conclusive differences of the loss confirm the float64 adjoint."""
    sure = sure_of(probes)
    return bool(sure) and all(abs(p.exact - p.fd) <= p.allowed + p.bar for p in sure)


def _weighed(
    program: WholeTape, port: Port, gradients: Gradients, probes: Sequence[Probe], rtol: float
) -> tuple[Verdict, str, float | None]:
    """Return the verdict, the reason, and the relative error if the float64 adjoint is no reference.

    UNDECIDABLE comes without a reason where it depends on how much of the gradient is rounding.
    """
    exact = gradients.exact[port]
    allowed = (
        rtol * np.abs(exact) + ENTRY_ROUNDING * np.abs(exact).max(initial=0.0) + negligible(program, port)
    )
    if confirmed(probes):
        # All conclusive differences confirm the float64 adjoint: it is the reference.
        verdict, reason = _against_exact(port, gradients, allowed)
        if verdict == "AGREE":
            verdict = _unsure(probes) or verdict
            reason = _kink(probes) if verdict == "KINK" else reason
        return verdict, reason, None
    verdict, reason = _against_differences(probes)
    if refuted(program, port, gradients, probes):
        verdict, reason = "WRONG", "the adjoint disagrees with differences of the loss"
    elif verdict == "WRONG":  # differences do not refute the adjoint: only the consumed gradient can be wrong
        verdict, reason = _against_exact(port, gradients, allowed)
        verdict = "UNDECIDABLE" if verdict == "AGREE" else verdict
    meant = verdict == "WRONG" and program.meant
    if meant and _against_exact(port, gradients, allowed)[0] == "AGREE":
        return "UNDECIDABLE", _meant(program), None
    return verdict, reason, max(p.rel_error for p in _deciding(probes))


def _against_exact(port: Port, gradients: Gradients, allowed: Floats) -> tuple[Verdict, str]:
    """Compare with the float64 adjoint entry by entry; its twin distinguishes overwrites from rounding."""
    consumed, same, exact = gradients.consumed[port], gradients.same[port], gradients.exact[port]
    missed = np.abs(consumed - exact) > allowed
    if not missed.any():
        return "AGREE", ""
    if (missed & (np.abs(same - exact) > allowed + gradients.floor(port))).any():
        return "WRONG", "values that the adjoint needs were overwritten before the reverse pass"
    return "UNDECIDABLE", ""


def _follows(program: WholeTape, port: Port, consumed: Floats, rounding: Float32ErrorBar) -> bool:
    """True if the float32 reverse pass agrees with its float64 twin at the float32 run's values."""
    along = program.along[port]
    if not np.isfinite(along).all():
        return True
    # Underflow in float32 is rounding as well.
    allowed = (
        FLOAT32_OFF_ITS_TWIN * np.abs(along).max(initial=0.0)
        + float(np.finfo(np.float32).tiny)
        + rounding.bar
    )
    if (np.abs(consumed - along) <= allowed).all():
        return True
    allowed += ROUNDING_SPREAD * np.abs(program.along_rounded[port] - along)
    if (np.abs(consumed - along) <= allowed).all():
        return True
    # One sample of rounding may be small by chance in an entry.
    allowed += ROUNDING_SPREAD * scatter_nearby(program, port)
    return bool((np.abs(consumed - along) <= allowed).all())


def _off(program: WholeTape, port: Port, consumed: Floats) -> Indices:
    """Return the entries at which the float32 reverse pass is off its float64 twin."""
    along = program.along[port]
    found: Indices = np.flatnonzero(np.abs(consumed - along) > FLOAT32_OFF_ITS_TWIN * np.abs(along).max())
    return found


def _against_differences(probes: Sequence[Probe]) -> tuple[Verdict, str]:
    """Return verdict and reason from differences alone, as the float64 adjoint is no reference here."""
    verdict = worst(p.verdict for p in probes)
    if verdict == "WRONG":
        return verdict, "the adjoint disagrees with differences of the loss"
    if verdict == "KINK":
        return verdict, _kink(probes)
    return "UNDECIDABLE", ""


def _beside(program: WholeTape, port: Port, probes: Sequence[Probe]) -> str:
    """Return differences along one entry, including usual ones in float32, in words."""
    probe = next((probe for probe in probes if probe.entry is not None), None)
    if probe is None:
        return ""
    values = program.values(port)
    unit = unit_direction(program, port, int(np.ravel_multi_index(probe.entry or (0,), port.shape or (1,))))
    ends = [program.loss({port: values + step * unit}, single=True) for step in (EPS, -EPS)]
    single = (ends[0] - ends[1]) / (2 * EPS)
    return (
        f" (along {probe.along}: AD {probe.ad:.4g}, difference in float64 {probe.fd:.4g} ± {probe.bar:.1g}, "
        f"in float32 {single:.4g})"
    )


def _meant(program: WholeTape) -> str:
    """Return the reason why differences do not count if a gradient differs on purpose."""
    names = " and ".join(program.meant)
    return (
        f"the gradient of {names} is meant to differ (func_grad with differs=True), and differences of the "
        "loss do "
        "not see it; it agrees with its float64 twin"
    )


def _kink(probes: Sequence[Probe]) -> str:
    """Return the slopes at a kink, in a clause."""
    worst = _worst_kink(probes)
    return f"the loss has a kink here: along {worst.along}, {kink_words(worst.left, worst.right)}"


def _worst_kink(probes: Sequence[Probe]) -> Probe:
    """Return the single entry, or else the direction, along which the slopes differ most."""
    kinks = [probe for probe in probes if probe.verdict == "KINK"]
    return max(kinks, key=lambda probe: (probe.entry is not None, abs(probe.right - probe.left)))


def _unsure(probes: Sequence[Probe]) -> Verdict | None:
    """Return KINK or UNDECIDABLE if most directions are either, and None if those that agree outvote them."""
    kinks, unsure = (sum(p.verdict == verdict for p in probes) for verdict in ("KINK", "UNDECIDABLE"))
    if 2 * (kinks + unsure) <= len(probes):
        return None
    return "KINK" if kinks >= unsure else "UNDECIDABLE"


def _deciding(probes: Sequence[Probe]) -> Sequence[Probe]:
    """Return the probes that decide a verdict: those that contradict, else the conclusive ones."""
    return [probe for probe in probes if probe.verdict == "WRONG"] or sure_of(probes) or probes


def _numbers(port: Port, gradients: Gradients, probes: Sequence[Probe]) -> str:
    rel_error = _relative(gradients.consumed[port], gradients.exact[port], gradients.least[port])
    text = f"relative error {rel_error:.2g} against the float64 adjoint"
    if probes:
        off = max(_deciding(probes), key=lambda p: p.rel_error)
        count = f"{len(probes)} direction{'s' * (len(probes) != 1)}"
        text += (
            f", {off.rel_error:.2g} against finite differences ({count}; most along {off.along}: "
            f"AD {off.ad:.6g}, FD {off.fd:.6g} ± {off.bar:.1g})"
        )
    return text


def _relative(value: Floats, reference: Floats, least: float) -> float:
    difference, size = distance(value, reference), norm(reference)
    if size == 0 or size <= least:  # the negligible size is NaN if the loss is NaN
        return 0.0 if difference == 0 or difference <= least else float("inf")
    return difference / size


def result_of(
    port: Port,
    gradients: Gradients,
    probes: Sequence[Probe],
    verdict: Verdict,
    reason: str,
    message: str,
    rel_error: float | None = None,
) -> InputCheck:
    """Return the result for one input, with `rel_error` if the float64 adjoint is no reference."""
    consumed, exact = gradients.consumed[port], gradients.exact[port]
    return InputCheck(
        name=port.name,
        array=port.array,
        verdict=verdict,
        rel_error=_relative(consumed, exact, gradients.least[port]) if rel_error is None else rel_error,
        max_abs_error=largest_difference(consumed, exact),
        reason=reason,
        message=message,
        consumed=consumed.reshape(port.shape),
        reference=exact.reshape(port.shape),
        probes=tuple(replace(probe, direction=None) for probe in probes),  # they are as long as inputs
    )
