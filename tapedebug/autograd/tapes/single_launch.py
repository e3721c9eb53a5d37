"""Checks one launch for its incoming adjoints, against finite differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Checkpoint, Floats
from tapedebug.autograd.finite_diff.jacobian_entries import along, fine_for, in_chunks
from tapedebug.autograd.finite_diff.verdict import Tolerance, Verdict
from tapedebug.autograd.subjects.probes import entry_scales, random_directions
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.autograd.thresholds import ADJOINT_ROUNDING, LAUNCH_ROUNDING

Cause = Literal["", "adjoint", "not finite", "overwritten", "detached", "no adjoint"]

DIRECTIONS = 2  # random ones in each argument
WHOLE = 2048  # entries of an argument up to which a wrong gradient of it is put right entry by entry
SKETCH = 8  # directions in which that of a larger one is
EPS = 1e-4  # the largest step


@dataclass(frozen=True)
class WrongEntry:
    """The entry of an argument's gradient that is off most.

    Attributes:
        index: Its index in the array, components last; None if only a direction was compared.
        given: The result of the reverse pass.
        right: The result of differences, or of the adjoint at the right values.
        bar: The error bar of `right`.
        count: The number of wrong entries.
        ratio: The ratio of `given` to `right` in all of them; NaN if it varies.
    """

    index: tuple[int, ...] | None
    given: float
    right: float
    bar: float
    count: int = 0
    ratio: float = float("nan")


@dataclass(frozen=True)
class Argument:
    """The effect of one launch on the adjoint of one of its arguments.

    Attributes:
        launch: Index of the launch.
        param: The parameter.
        verdict: The verdict on its gradient.
        cause: The cause of an error; empty without one.
        size: The number of its scalars.
        error, relative: The error along a random direction, or in an entry.
        wrong: The entry with the largest error.
        clobber: The record that overwrote needed values, if one did; -1 for a write off the tape.
    """

    launch: int
    param: int
    verdict: Verdict
    cause: Cause = ""
    size: int = 0
    error: float = 0.0
    relative: float = 0.0
    wrong: WrongEntry | None = None
    clobber: int = -1


@dataclass(frozen=True)
class Judged:
    """The verdict on an argument, its right gradient if it differs, and the error bar of an entry."""

    argument: Argument
    right: Floats | None = None
    bar: float = 0.0


class SingleLaunch:
    """One launch alone, with its incoming adjoints.

    Args:
        index: The index of the launch.
        program: The launch as a program.
        inputs: The arguments that it reads, by parameter.
        weights: The adjoints of the arrays that it writes.
        rtol: The relative error up to which a gradient agrees.
        checkpoint: Called often; may raise to cancel.
    """

    def __init__(
        self,
        index: int,
        program: ShadowProgram,
        inputs: Mapping[int, Port],
        weights: Mapping[Port, Floats],
        rtol: float,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.index = index
        self.program = program
        self.inputs = inputs
        self.weights = weights
        self.rtol = rtol
        self.checkpoint = checkpoint
        self.start = program.evaluate({})
        terms = [np.abs(w) @ np.nan_to_num(np.abs(self.start[t]), posinf=0.0) for t, w in weights.items()]
        self.dust = LAUNCH_ROUNDING * float(sum(terms))

    def judge(self, p: int, given: Floats) -> Judged:
        """Compare the adjoint's contribution to an argument with finite differences of the launch."""
        source, flat = self.inputs[p], given.ravel()
        if not np.isfinite(flat).all():
            return self._put_right(p, flat, "not finite")
        directions = random_directions(source.size, DIRECTIONS, entry_scales(self.program.values(source)))
        value, bar, kink = self._along(source, directions)
        size = np.sqrt(((directions * flat) ** 2).sum(axis=1))
        error = np.abs(directions @ flat - value)
        allowed = self.rtol * np.maximum(np.abs(value), size) + self.dust
        relative = float(np.nanmax(error / np.maximum(np.maximum(np.abs(value), size), 1e-300)))
        if (error <= allowed + bar).all() and (bar <= allowed).all():
            found = Argument(self.index, p, "AGREE", "", flat.size, float(error.max()), relative)
            return Judged(found, None, float(bar.max()))
        if (~kink & (error > allowed + bar)).any():
            return self._put_right(p, flat, "adjoint")
        verdict: Verdict = "KINK" if kink.any() else "UNDECIDABLE"
        return Judged(Argument(self.index, p, verdict, "", flat.size, float(error.max()), relative))

    def _along(self, source: Port, directions: Floats) -> tuple[Floats, Floats, Bools]:
        """Return differences of the weighted outputs along directions, their error bars, and the kinks."""
        targets = list(self.weights)
        enough = fine_for(Tolerance(0.0, min(self.rtol, 1e-2)))
        value, bar = np.zeros(len(directions)), np.zeros(len(directions))
        kink = np.zeros(len(directions), dtype=bool)
        for chosen in in_chunks(len(directions), source.size + sum(t.size for t in targets)):
            parts = along(
                self.program, {source: directions[chosen]}, targets, self.start,
                eps=EPS, enough=enough, pulse=self.checkpoint,
            )  # fmt: skip
            for target in targets:
                weights, part = self.weights[target], parts[target]
                some = weights != 0
                value[chosen] += part.value[:, some] @ weights[some]
                bar[chosen] += part.bar[:, some] @ np.abs(weights[some])
                kink[chosen] |= part.kink[:, some].any(axis=1)
        return value, np.where(np.isnan(bar), np.inf, bar), kink

    def _put_right(self, p: int, given: Floats, cause: Cause) -> Judged:
        """Return the wrong entry, and the correction of the adjoint of all entries."""
        source = self.inputs[p]
        if source.size > WHOLE:
            return self._sketched(p, given, cause)
        scale = entry_scales(self.program.values(source))
        value, bar, kink = self._along(source, np.diag(scale))
        right, bar = value / scale, bar / scale
        largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
        allowed = self.rtol * np.maximum(np.abs(right), ADJOINT_ROUNDING * largest) + bar
        missed = ~(np.abs(given - right) <= allowed) & ~kink & np.isfinite(right)
        gradient = np.where(missed, right, np.where(np.isfinite(given), given, 0.0)).reshape(source.shape)
        if not missed.any():
            verdict: Verdict = "KINK" if kink.any() else "UNDECIDABLE"
            return Judged(Argument(self.index, p, verdict, cause, given.size), gradient)
        shaped = [v.reshape(source.shape) for v in (given, right, bar)]
        wrong = worst_entry(shaped[0], shaped[1], shaped[2], missed.reshape(source.shape))
        error = float(np.nanmax(np.abs(given - right)[missed]))
        size = relative_error(np.where(missed, given, 0.0), np.where(missed, right, 0.0))
        argument = Argument(self.index, p, "WRONG", cause, given.size, error, size, wrong)
        return Judged(argument, gradient, float(bar[missed].max()))

    def _sketched(self, p: int, given: Floats, cause: Cause) -> Judged:
        """Correct the adjoint of a large argument in a few random directions, for the launches before it."""
        source = self.inputs[p]
        finite = np.where(np.isfinite(given), given, 0.0)
        directions = random_directions(source.size, SKETCH, entry_scales(self.program.values(source)))
        value, bar, _ = self._along(source, directions)
        known = np.isfinite(value)
        missing = (value - directions @ finite)[known]
        fitted, *_ = np.linalg.lstsq(directions[known], missing, rcond=None)
        worst = int(np.argmax(np.abs(missing)))
        wrong = WrongEntry(None, float((directions @ given)[known][worst]), float(value[known][worst]), float(
            bar[known][worst]
        ))  # fmt: skip
        error = float(np.abs(missing).max())
        relative = abs(wrong.given - wrong.right) / max(abs(wrong.right), 1e-300)
        argument = Argument(self.index, p, "WRONG", cause, given.size, error, relative, wrong)
        return Judged(argument, (finite + fitted).reshape(source.shape))


def relative_error(given: Floats, right: Floats) -> float:
    """Return ‖given - right‖ / ‖right‖; infinite if only one of them is zero."""
    size = float(np.linalg.norm(right))
    error = float(np.linalg.norm(np.nan_to_num(given - right, nan=np.inf, posinf=np.inf, neginf=-np.inf)))
    return error / size if size else float("inf")


def worst_entry(given: Floats, right: Floats, bar: Floats, missed: Bools) -> WrongEntry:
    """Return the entry with the largest error among those `missed`; all arrays have one shape."""
    error = np.where(missed, np.nan_to_num(np.abs(given - right), nan=np.inf), -1.0)
    slot = np.unravel_index(int(np.argmax(error)), error.shape)
    ratio = (given / right)[missed]
    common = float(np.median(ratio)) if np.isfinite(ratio).all() else float("nan")
    same = np.abs(ratio - common).max(initial=0.0) <= 1e-3 * max(1.0, abs(common))
    return WrongEntry(
        tuple(int(i) for i in slot), float(given[slot]), float(right[slot]), float(bar[slot]),
        int(missed.sum()), common if same else float("nan"),
    )  # fmt: skip
