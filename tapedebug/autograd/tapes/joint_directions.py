"""Displaces many inputs together, so that the cost grows with the tape, not with tape times inputs.

In a random direction of all inputs together, the errors of their gradients add up with random signs: if the
difference of the loss agrees, none of them is wrong by more than is allowed for one. If it does not, halves
of the inputs are displaced, until the inputs with wrong gradients are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapedebug import _time_limit
from tapedebug._time_limit import OutOfTime
from tapedebug.autograd.array_types import Checkpoint, Floats
from tapedebug.autograd.subjects.long_vectors import dot, norm, square_of_products
from tapedebug.autograd.subjects.probes import random_direction
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import Gradients, Probe, judged, measured, probe_input
from tapedebug.autograd.tapes.effort import DirectionPlan
from tapedebug.autograd.tapes.entry_bisection import refutes
from tapedebug.autograd.thresholds import ROUNDING_SENSITIVE

BAND = 100.0  # inputs displaced together move the loss alike, but for this factor
PAIR = 2  # inputs that are not displaced together beside others with a kink: they probably have one, too
SHOWN = 4  # inputs with wrong gradients that are displaced one by one, for their entries


class JointDirections:
    """Compares the gradients of many inputs with differences of the loss.

    Args:
        program: The tape.
        gradients: The gradients of all its inputs.
        rtol: The relative error up to which they agree.
        effort: The number of directions for each group and for single inputs.
        checkpoint: Called before each evaluation.
    """

    def __init__(
        self,
        program: WholeTape,
        gradients: Gradients,
        rtol: float,
        effort: DirectionPlan,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.program = program
        self.gradients = gradients
        self.rtol = rtol
        self.effort = effort
        self.checkpoint = checkpoint
        self.probes: dict[Port, list[Probe]] = {}
        self.one_by_one = 0
        self.left = 0
        self.doubts: dict[Port, list[Probe]] = {}  # those so far, of groups that are not done
        self._moved: dict[tuple[Port, int], float] = {}
        self.moves = {port: self._moves(port) for port in program.inputs}

    def run(self) -> dict[Port, list[Probe]]:
        """Return the comparisons that concern each input; inputs for which there was no time are missing.

        Raises:
            OutOfTime: Time was up before the first comparison.
        """
        inputs = sorted(self.program.inputs, key=lambda port: -self.moves[port])
        sample = self.effort.sample
        try:
            for port in inputs[:sample]:
                self._probe_alone(port)
            for band in self._grouped(inputs[sample:]):
                self._group(band)
            for port in self._wrong():
                self._probe_alone(port)
        except OutOfTime:
            if not self.probes and not self.doubts:
                raise
            doubts = {port: probes for port, probes in self.doubts.items() if port not in self.probes}
            self.left += sum(not np.isfinite(probes[0].bar) for probes in doubts.values())
            self.probes |= doubts
        together = len(self.probes) - self.one_by_one - self.left
        self.program.notes.append(
            f"of {len(inputs)} inputs, {together} were displaced together in random directions, "
            f"{self.one_by_one} one by one"
            + (f"; there was no time to tell the other {self.left} apart" if self.left else "")
        )
        return self.probes

    def _grouped(self, inputs: Sequence[Port]) -> list[list[Port]]:
        """Return groups of inputs; those with a loss rounded to float32 last, as they take longest."""
        rounded = {port: self.program.rounds([port]) for port in inputs}
        return [
            band
            for late in (False, True)
            for band in _bands([port for port in inputs if rounded[port] is late], self.moves)
        ]

    def _wrong(self) -> list[Port]:
        """Return the inputs displaced together whose consumed gradients are furthest off."""
        errors = {
            port: max(probe.rel_error for probe in probes)
            for port, probes in self.probes.items()
            if any(probe.inputs > 1 and probe.verdict == "WRONG" for probe in probes)
        }
        return sorted(errors, key=lambda port: -errors[port])[:SHOWN]

    def _scale(self, port: Port, number: int = 0) -> Floats | float:
        """Return the displacement of each entry; every second direction displaces all entries equally."""
        return self.program.typical(port) if number % 2 else self.program.scales(port)

    def _moves(self, port: Port, number: int = 0) -> float:
        known = (port, number % 2)
        if known not in self._moved:
            moved = self._scale(port, number)
            moved *= self.gradients.exact[port]
            found = norm(moved)
            self._moved[known] = found if np.isfinite(found) else float("inf")
        return self._moved[known]

    def _probe_alone(self, port: Port) -> None:
        self.probes[port] = probe_input(
            self.program, port, self.gradients, self.rtol, self.effort.alone, self.checkpoint, brief=True
        )
        self.one_by_one += 1

    def _group(self, group: Sequence[Port]) -> None:
        """Displace a group together, and its halves if that is inconclusive."""
        if self.probes and _time_limit.now() > self.effort.deadline:
            return
        if len(group) == 1 or (len(group) == PAIR and self._has_kinks() and not self._is_late()):
            for port in group:
                self._probe_alone(port)
            return
        found: list[dict[Port, Probe]] = []
        for number in range(self.effort.together):
            found.append(self._displace(group, number))
            _time_limit.compared()
            confirmed = all(_confirms(probe) for probes in found for probe in probes.values())
            for port in group:
                own = [probes[port] for probes in found]
                self.doubts[port] = own if confirmed else list(map(_doubtful, own))
            if not confirmed:  # another direction would not change that
                break
        doubts = {port: self.doubts.pop(port) for port in group}
        if confirmed:
            self.probes |= doubts
        elif self._is_late() and (
            self.program.rounds(group)
            or any(probe.verdict in ("WRONG", "KINK") for probes in self.probes.values() for probe in probes)
        ):
            self.left += len(group)
            self.probes |= doubts
        else:
            half = len(group) // 2
            try:
                self._group(group[:half])
                self._group(group[half:])
            except OutOfTime:
                self.doubts = doubts | self.doubts
                raise

    def _is_late(self) -> bool:
        return _time_limit.now() > self.effort.alone.until

    def _has_kinks(self) -> bool:
        return any(probe.verdict == "KINK" for probes in self.probes.values() for probe in probes)

    def _displace(self, group: Sequence[Port], number: int) -> dict[Port, Probe]:
        program, gradients = self.program, self.gradients
        moves = {port: self._moves(port, number) for port in group}
        least = min((moved for moved in moves.values() if moved > 0), default=1.0)
        weights = {port: least / moves[port] if moves[port] > 0 else 1.0 for port in group}
        offset, row = 0, random_direction(sum(port.size for port in group), number, number + 1)
        directions: dict[Port, Floats] = {}
        for port in group:
            directions[port] = row[offset : offset + port.size]
            scale = self._scale(port, number)
            scale *= weights[port]
            directions[port] *= scale
            offset += port.size
        along = {port: dot(gradients.exact[port], directions[port]) for port in group}
        exact = sum(along.values())
        size = float(np.sqrt(sum(square_of_products(gradients.exact[p], directions[p]) for p in group)))
        noise = 0.0 if program.is_narrow else gradients.noise(directions)
        plain = Probe(None, exact, exact, float("nan"), float("inf"), size, 0.0, inputs=len(group))
        # The tolerance of one input is its share of the group's.
        rtol = self.rtol / np.sqrt(len(group))
        probe, slope = measured(program, directions, plain, rtol, noise, self.checkpoint)
        found = {}
        for port in group:
            off = dot(gradients.consumed[port], directions[port]) - along[port]
            own = replace(probe, ad=exact + off)
            if program.is_narrow:
                noise = gradients.noise_of(own, directions)
            found[port] = judged(own, slope, noise, 1.0)
        return found


def _confirms(probe: Probe) -> bool:
    """Return True if a difference confirms the float64 adjoint of all displaced inputs.

    One wrong entry of many changes the derivative along a random direction by far less than is allowed.
    """
    return (
        probe.verdict != "KINK"
        and probe.bar <= probe.allowed
        and abs(probe.exact - probe.fd) <= probe.allowed + probe.bar
        and not (refutes(probe) and probe.noise <= ROUNDING_SENSITIVE * probe.size)
    )


def _doubtful(probe: Probe) -> Probe:
    """Return a comparison of inputs together that does not tell which of them it concerns."""
    return replace(probe, bar=float("inf"), verdict="UNDECIDABLE")


def _bands(inputs: Sequence[Port], moves: dict[Port, float]) -> list[list[Port]]:
    """Return groups of inputs with similar effects on the loss, largest first; those without effect last."""
    bands: list[list[Port]] = []
    for port in inputs:
        if bands and moves[bands[-1][0]] <= BAND * moves[port]:
            bands[-1].append(port)
        else:
            bands.append([port])
    return bands
