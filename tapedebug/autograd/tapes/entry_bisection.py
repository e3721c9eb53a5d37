"""Finds the entry of a gradient at which differences of the loss refute the adjoint, by bisection.

One wrong entry of n changes a derivative along a random direction by 1/√n of its own error: far less than
float32 rounding may change the gradient, and far more than differences in float64 can resolve. If such a
direction is off by more than its error bar, halves of it are displaced, down to one entry. That entry is then
judged by itself, with its own steps, so that no intermediate error bar has to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.subjects.probes import random_directions, shape_index
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import Gradients, Probe, measured
from tapedebug.autograd.thresholds import (
    ENTRY_PRECISION,
    ENTRY_REFUTED,
    ENTRY_REPEATED,
    ENTRY_REPORTED,
    ROUNDING_SENSITIVE,
)

MOST_KINKS = 16
"""Largest number of entries that are searched for kinks one by one."""
JOINT_KINKS = 4
"""Number of directions of all entries in which a gradient at kinks is compared with both slopes."""
KINK_MARGIN = 0.01
"""Part of their difference by which the slopes of both sides may be off: they come from short steps."""
AGAIN = 8.0  # times shorter steps, with which the entry is displaced a second time


def sure_of(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes without a kink whose differences have a sufficiently small error bar."""
    return [probe for probe in probes if probe.verdict != "KINK" and probe.bar <= probe.allowed]


def refutes(probe: Probe) -> bool:
    """True if a difference misses the float64 adjoint by more than its error bar explains."""
    error = abs(probe.exact - probe.fd)
    return error > ENTRY_REFUTED * probe.bar and error > ENTRY_PRECISION * probe.size


def _is_between(probe: Probe) -> bool:
    """True if the consumed gradient lies between the slopes of both sides, or is the only slope."""
    low, high = (probe.fd, probe.fd) if probe.verdict != "KINK" else sorted((probe.left, probe.right))
    margin = probe.bar + ENTRY_REPORTED * max(abs(low), abs(high), probe.size) + KINK_MARGIN * (high - low)
    return low - margin <= probe.ad <= high + margin


@dataclass(frozen=True)
class GradientBisection:
    """The search in one input.

    Attributes:
        program: The tape.
        port: The input.
        gradients: Its gradients.
        checkpoint: Called before each evaluation.
    """

    program: WholeTape
    port: Port
    gradients: Gradients
    checkpoint: Checkpoint | None = None

    def run(self, probes: Sequence[Probe]) -> Probe | None:
        """Return the difference along an entry that refutes the adjoint; None if none does."""
        for probe in sorted(sure_of(probes), key=lambda p: -p.rel_error):
            direction = probe.direction
            if direction is None or not refutes(probe):
                continue
            if self.gradients.noise({self.port: direction}) > ROUNDING_SENSITIVE * probe.size:
                continue  # an effect of one rounding of the inputs is not found by longer steps
            entry = self._entry(direction, probe)
            found = None if entry is None else self._judged(entry)
            if found is not None:
                return found
        return None

    def kinks(self, entries: Indices) -> list[Probe] | None:
        """Return the kinks at entries whose consumed gradient lies between the slopes of both sides.

        At a kink each number between them is as good: `abs(0)` has the slopes -1 and 1, and one engine takes
        0 where another one takes 1. The gradient must lie between them in directions of all entries, too: at
        the largest of two equal numbers each may have the slope 1, but not both.

        Args:
            entries: The entries, at most `MOST_KINKS`.

        Returns:
            The kinks; None if an entry has none, or if the consumed gradient is no such number there.
        """
        if not 0 < len(entries) <= MOST_KINKS:
            return None
        units = np.abs(self.program.values(self.port))
        units[units == 0] = 1.0
        found = []
        for entry in entries:
            unit = np.zeros(self.port.size)
            unit[entry] = units[entry]
            probe = self._along(unit)
            if probe.verdict != "KINK" or not _is_between(probe):
                return None
            left, right = probe.left / unit[entry], probe.right / unit[entry]
            place, step = shape_index(int(entry), self.port.shape), float(unit[entry])
            found.append(replace(probe, entry=place, unit=step, left=left, right=right))
        together = [units, *random_directions(units.size, JOINT_KINKS - 1, units)]
        return found if all(_is_between(self._along(direction)) for direction in together) else None

    def _entry(self, direction: Floats, probe: Probe) -> int | None:
        """Return the single entry left after bisection; None if the error is lost on the way."""
        among: Indices = np.flatnonzero(direction)
        error = probe.exact - probe.fd
        while len(among) > 1:
            half = among[: len(among) // 2]
            found = self._along(np.isin(np.arange(len(direction)), half) * direction)
            here = found.exact - found.fd
            if not np.isfinite(here):
                return None
            first = abs(here) >= abs(error - here)
            among, error = (half, here) if first else (among[len(among) // 2 :], error - here)
            if first and not refutes(found):
                return None
        return int(among[0])

    def _judged(self, entry: int) -> Probe | None:
        """Return the difference along one entry, if steps of two lengths both refute the adjoint."""
        unit = np.zeros(self.port.size)
        unit[entry] = abs(float(self.program.values(self.port)[entry])) or 1.0
        once, again = self._along(unit), self._along(unit / AGAIN)
        error = abs(once.exact - once.fd)
        apart = abs(once.fd - AGAIN * again.fd)
        if once.verdict == "KINK" or again.verdict == "KINK" or not refutes(once) or not refutes(again):
            return None
        if error <= ENTRY_REPORTED * max(abs(once.fd), abs(once.exact)) or apart > ENTRY_REPEATED * error:
            return None
        place = shape_index(entry, self.port.shape)
        return replace(once, entry=place, unit=float(unit[entry]), verdict="WRONG")

    def _along(self, direction: Floats) -> Probe:
        consumed, exact = self.gradients.consumed[self.port], self.gradients.exact[self.port]
        size = float(np.sqrt(((exact * direction) ** 2).sum()))
        nan, inf = float("nan"), float("inf")
        plain = Probe(None, float(consumed @ direction), float(exact @ direction), nan, inf, size, 0.0)
        found, slope = measured(
            self.program, {self.port: direction}, plain, ENTRY_REPORTED, 0.0, self.checkpoint
        )
        bent = bool(slope.kink[0]) and abs(float(slope.left[0] - slope.right[0])) > found.bar
        if not bent:
            return found
        return replace(found, verdict="KINK", left=float(slope.left[0]), right=float(slope.right[0]))
