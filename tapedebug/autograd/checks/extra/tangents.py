"""The option `check_forward_ad`: compares tangents, in both precisions, with finite differences."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tapedebug.autograd.array_types import Bools, Checkpoint, Floats
from tapedebug.autograd.checks.adjoint_check import LARGEST, SAMPLE, CheckPlan
from tapedebug.autograd.checks.deadline import unchecked
from tapedebug.autograd.finite_diff.comparison import EntryGrid
from tapedebug.autograd.finite_diff.float32_noise import SAMPLES, minor_of
from tapedebug.autograd.finite_diff.jacobian_entries import differences, fine_for
from tapedebug.autograd.finite_diff.verdict import (
    AGREE,
    SUSPECT,
    UNDECIDABLE,
    VERDICTS,
    WRONG,
    Codes,
    Reference,
    judge,
)
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.messages import describe
from tapedebug.autograd.subjects.probes import Probes, random_directions
from tapedebug.autograd.subjects.program import Pairs, Port, Program
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.autograd.thresholds import FORWARD_DIGITS_LOST, ROUNDING_MARGIN

NAME = "tangent"
DIRECTIONS = 3  # random ones, of `fast_mode`
MANY = 64  # directions that are pushed at once


def check_tangents(
    program: ShadowProgram, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Compare tangents `J v` with finite differences, entry by entry (`fast_mode`: random `v` only)."""
    results: dict[tuple[Port, Port], PairResult] = {}
    for source in pairs.inputs():
        targets = pairs.outputs(source)
        lost = _lost(program, source)
        if lost is not None:
            why = f"the tangent by {source.name} is unknown: {lost}"
            found = unchecked(program, [(source, target) for target in targets], why, NAME)
        else:
            found = TangentCheck(program, source, targets, plan, checkpoint).results()
        results.update(zip([(source, target) for target in targets], found, strict=True))
    return [results[pair] for pair in pairs.chosen]


def _lost(program: ShadowProgram, source: Port) -> str | None:
    """Return the function at which a tangent of this input ends."""
    if not program.has_tangents:
        return f"{program.engine or 'the engine'} has no tangents"
    shadow = program.shadow(double=False)
    shadow.push({source.array: random_directions(source.size, 1)[0].reshape(source.shape)})
    return shadow.lost[0] if shadow.lost else None


class TangentCheck:
    """The comparison of a program's tangents for one input with finite differences.

    Args:
        program: What is differentiated.
        source: The input.
        targets: The outputs.
        plan: The settings of the check.
        checkpoint: Called often.
        kind: The kind of tangents, for messages and `PairResult.check`.
    """

    def __init__(
        self,
        program: Program,
        source: Port,
        targets: list[Port],
        plan: CheckPlan,
        checkpoint: Checkpoint | None = None,
        kind: str = NAME,
    ) -> None:
        self.kind = kind
        self.program, self.source, self.targets, self.all_targets = program, source, targets, targets
        self.check_plan, self.checkpoint = plan, checkpoint
        self.large = max(target.size for target in targets) * source.size > LARGEST
        self.rows: dict[Port, Probes] = {}
        self.missed: dict[Port, tuple[int, Floats]] = {}  # a row, and a direction in which it is off

    def _probes(self, port: Port, limit: int, most: int = 0) -> Probes:
        if most:
            limit = most if limit <= 0 else min(limit, most)
        return Probes.of(port, limit, sample=self.check_plan.options.sample)

    def results(self) -> list[PairResult]:
        """Return one result for each output."""
        began = time.perf_counter()
        found = self._results()
        each = (time.perf_counter() - began) / len(found)
        return [replace(result, check=self.kind, seconds=each) for result in found]

    def _results(self) -> list[PairResult]:
        plan = self.check_plan
        along: list[PairResult] = []
        if plan.options.fast_mode or self.large:
            self.rows = {target: self._probes(target, plan.max_outputs) for target in self.targets}
            along = self._compare(self._directions())
            if plan.options.fast_mode and all(result.verdict == "AGREE" for result in along):
                return along
        most = SAMPLE if self.large else 0
        self.rows = {target: self._probes(target, plan.max_outputs, most) for target in self.targets}
        entries = self._compare(self._probes(self.source, plan.max_inputs, most))
        for place, combined in enumerate(along):
            if combined.verdict not in ("AGREE", "KINK") and entries[place].verdict == "AGREE" and self.large:
                entries[place] = self._hunted(self.all_targets[place], entries[place])
        return entries

    def _directions(self) -> Probes:
        """Return random directions in the whole input."""
        columns = Probes.of(self.source, dense=random_directions(self.source.size, DIRECTIONS))
        return replace(columns, units=np.zeros(0, dtype=np.int64))

    def _hunted(self, target: Port, sampled: PairResult) -> PairResult:
        """Return the result of the entry that makes a random direction wrong, or else `sampled`."""
        row, direction = self.missed[target]
        self.targets, self.rows = [target], {target: Probes.single(target.size, row)}
        nothing = np.zeros(0, dtype=np.int64)
        part = np.flatnonzero(direction)
        while len(part) > 1:
            halves = np.zeros((2, self.source.size))
            for half, positions in zip(halves, np.array_split(part, 2), strict=True):
                half[positions] = direction[positions]
            columns = Probes(self.source.size, nothing, halves)
            error = np.abs(self._pushed(columns, False)[target] - self._references(columns)[target].value)[0]
            part = np.array_split(part, 2)[int(np.argmax(np.where(np.isnan(error), np.inf, error)))]
        entry = self._compare(Probes.single(self.source.size, int(part[0])))[0]
        if entry.verdict == "AGREE":
            return sampled
        return replace(entry, notes=sampled.notes, evaluated=sampled.evaluated + 1)

    def _references(self, columns: Probes) -> dict[Port, Reference]:
        return differences(
            self.program, self.source, self.targets, columns, self.rows,
            eps=self.check_plan.eps, enough=fine_for(self.check_plan.tolerance), checkpoint=self.checkpoint,
        )  # fmt: skip

    def _compare(self, columns: Probes) -> list[PairResult]:
        references = self._references(columns)
        double, single = self._pushed(columns, True), self._pushed(columns, False)
        return [
            self._judged(target, columns, references[target], double[target], single[target])
            for target in self.targets
        ]

    def _pushed(self, columns: Probes, double: bool) -> dict[Port, Floats]:
        """Return the tangents along all columns, (rows, columns) for each output."""
        parts: dict[Port, list[Floats]] = {target: [] for target in self.targets}
        for start in range(0, len(columns), MANY):
            some = range(start, min(start + MANY, len(columns)))
            directions = np.stack([columns.vector(position) for position in some])
            with np.errstate(all="ignore"):
                found = self.program.push_many({self.source: directions}, double=double)
            for target in self.targets:
                parts[target].append(self.rows[target].apply(found[target]).T)
            if self.checkpoint is not None:
                self.checkpoint()
        return {target: np.concatenate(found, axis=1) for target, found in parts.items()}

    def _judged(
        self, target: Port, columns: Probes, reference: Reference, double: Floats, single: Floats
    ) -> PairResult:
        plan = self.check_plan
        pair = EntryGrid(
            self.program, self.source, target, self.rows[target], columns,
            double, np.zeros(len(double)), reference, plan.tolerance, self.kind,
        )  # fmt: skip
        codes = judge(double, reference, plan.tolerance, self.source.rounding)
        rounding = np.zeros(codes.shape, dtype=bool)
        notes: tuple[str, ...] = ()
        if (codes >= WRONG).any():
            codes[codes == SUSPECT] = WRONG
            notes = (f"{self.source.name} → {target.name}: the {self.kind} of the float64 twin is off, too",)
        else:
            pair = replace(pair, ad=single)
            codes = judge(single, reference, plan.tolerance, self.source.rounding)
            if (codes == SUSPECT).any():
                rounding = self._explain(pair, double, codes)
        if not len(columns.units):
            return self._of_directions(pair, codes)
        if self.large:
            notes += (
                f"{self.source.name} → {target.name}: the Jacobian of {target.size} × {self.source.size} "
                f"entries is too large to evaluate whole: {codes.shape[0]} × {codes.shape[1]} of them were "
                f"compared with the {self.kind}, and {DIRECTIONS} random directions",
            )
        return describe(pair, codes, rounding=rounding, notes=notes)

    def _explain(self, pair: EntryGrid, exact: Floats, codes: Codes) -> Bools:
        """Turn SUSPECTs into AGREE, UNDECIDABLE or WRONG: with a right float64 twin, by rounding."""
        samples = np.stack([self._moved(pair, np.random.default_rng(which)) for which in range(SAMPLES)])
        with np.errstate(all="ignore"):
            floor = ROUNDING_MARGIN * np.abs(samples - exact).max(axis=0)
            value, bar = pair.reference.value, pair.reference.bar
            explained = np.abs(pair.ad - value) <= pair.tolerance.of(value) + bar + floor
            minor = floor <= ROUNDING_MARGIN * minor_of(pair.tolerance, pair.reference.scale)
        suspect = codes == SUSPECT
        otherwise = np.where(self._lost_digits(pair)[:, None], UNDECIDABLE, WRONG)
        codes[suspect] = np.where(explained, np.where(minor, AGREE, UNDECIDABLE), otherwise)[suspect]
        forgiven: Bools = suspect & (codes == AGREE)
        return forgiven

    def _lost_digits(self, pair: EntryGrid) -> Bools:
        """Return the rows whose value in the program's precision lost more digits than in sound kernels."""
        single, double = (self.program.evaluate({}, single=single)[pair.target] for single in (True, False))
        with np.errstate(all="ignore"):
            lost = ~(np.abs(single - double) <= FORWARD_DIGITS_LOST * np.abs(double))
        found: Bools = pair.rows.spread(lost.astype(np.float64)) > 0
        return found

    def _moved(self, pair: EntryGrid, rng: np.random.Generator) -> Floats:
        """Return tangents of the float64 twin at inputs that differ by one rounding of their dtype."""
        moved: Mapping[Port, Floats] = {
            port: values * (1.0 + port.rounding * rng.choice([-1.0, 1.0], size=values.shape))
            for port in self.program.inputs
            for values in [self.program.values(port)]
        }
        lines = []
        with np.errstate(all="ignore"):
            for position in range(len(pair.columns)):
                direction = pair.columns.vector(position)
                found = self.program.push({self.source: direction}, at=moved, double=True)
                lines.append(pair.rows.apply(found[pair.target]))
        return np.stack(lines, axis=1)

    def _of_directions(self, pair: EntryGrid, codes: Codes) -> PairResult:
        """Return the result of `fast_mode` if it agrees; otherwise entries are compared."""
        with np.errstate(all="ignore"):
            error = np.abs(pair.ad - pair.reference.value)
            relative = np.where(error > 0, error / np.abs(pair.reference.value), 0.0)
        note = (
            f"{self.source.name} → {pair.target.name}: fast_mode: {self.kind}s along {len(pair.columns)} "
            "random directions were compared, not single entries"
        )
        verdict = VERDICTS[int(codes.max(initial=AGREE))]
        ranked = np.where(codes == codes.max(), np.where(np.isnan(error), np.inf, error), -1.0)
        slot = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
        self.missed[pair.target] = int(pair.rows.units[slot[0]]), pair.columns.dense[slot[1]]
        return PairResult(
            launch=self.program.launch,
            subject=self.program.subject,
            input=self.source.label,
            output=pair.target.label,
            verdict=verdict,
            max_abs_error=float(error.max(initial=0.0)),
            max_rel_error=float(relative.max(initial=0.0)),
            entries=self.source.size * pair.target.size,
            evaluated=codes.size,
            notes=(note,),
        )
