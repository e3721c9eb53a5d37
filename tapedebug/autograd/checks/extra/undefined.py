"""The option `check_undefined_grad`: an output whose adjoint was never set must count as zero.

Two ways of leaving an adjoint out are tried, both with the real `Tape.backward`: no seed for the output, and
an output without a gradient (`requires_grad=False`, its `.grad` is None), for which another variant of the
adjoint is compiled. Both must give the inputs the same gradient as a seed of zeros; if no output has a seed,
zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tapedebug.autograd.array_types import Checkpoint, Floats
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.extra.tape_backward import TapeBackward, obstacle_to_backward
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.entry_names import entry_name
from tapedebug.autograd.subjects.probes import random_directions, shape_index
from tapedebug.autograd.subjects.program import Pairs, Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.autograd.thresholds import VARIANT_ROUNDINGS

NAME = "undefined adjoint"
MOST_OUTPUTS = 4  # outputs that are left out one by one; each costs a compilation

Vectors = dict[Port, Floats]


def check_undefined(
    program: ShadowProgram, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Return a result for each pair in which a missing adjoint does not act as zero; none otherwise.

    Cases that could not be tested are noted in `pairs`.
    """
    why = obstacle_to_backward(program)
    if why is not None:
        pairs.notes.append(f"not checked: whether adjoints that are not set count as zero: {why}")
        return []
    test = _Test(program, pairs, plan.options.nondet_tol)
    found: list[PairResult] = []
    found += test.none_set()
    targets = pairs.outputs() if len(test.seeds) > 1 else []
    if len(targets) > MOST_OUTPUTS:
        pairs.notes.append(
            f"whether adjoints that are not set count as zero was checked with {MOST_OUTPUTS} of "
            f"{len(targets)} outputs"
        )
    for target in targets[:MOST_OUTPUTS]:
        if checkpoint is not None:
            checkpoint()
        found += test.left_out(target)
    return found


class _Test:
    def __init__(self, program: ShadowProgram, pairs: Pairs, nondet_tol: float) -> None:
        self.program, self.pairs, self.nondet_tol = program, pairs, nondet_tol
        # A mask may have created several ports of one array.
        whole = {id(port.array): port for port in program.outputs}.values()
        self.seeds = {port: random_directions(port.size, 1)[0] for port in whole}
        self.zeros = {port: np.zeros(port.size) for port in whole}

    def _pull(self, seeds: Mapping[Port, Floats], without: Collection[Port] = ()) -> Vectors:
        gradients = TapeBackward(self.program, without).run(seeds)
        return {port: a.numpy().ravel().astype(np.float64) for port, a in gradients.items()}

    def none_set(self) -> list[PairResult]:
        """Compare outputs without adjoints with adjoints of zero."""
        target = self.pairs.outputs()[0]
        nothing = {port: np.zeros(port.size) for port in self.pairs.inputs()}
        why = "of zero for all outputs" if len(self.zeros) > 1 else f"of zero for {target.name}"
        found = self._compare(target, nothing, self._pull(self.zeros), f"an adjoint {why}")
        return found or self._compare(target, nothing, self._pull({}), "no adjoint for any output")

    def left_out(self, target: Port) -> list[PairResult]:
        """Compare the results with the adjoint of one output missing."""
        others = {port: seed for port, seed in self.seeds.items() if port.array is not target.array}
        expected = self._pull({**others, target: np.zeros(target.size)})
        found = self._compare(target, expected, self._pull(others), f"no adjoint for {target.name}")
        if found or self._is_read(target):
            return found
        given = self._pull(others, without=[target])
        return self._compare(target, expected, given, f"{target.name}.grad None (requires_grad=False)")

    def _is_read(self, target: Port) -> bool:
        """True if the output is read: without its gradient, a chain through it is rightly cut."""
        a = target.array
        for record in self.program.standing().records:
            for p in record.reads | record.writes:
                b = record.args[p]
                shared = b.region is a.region and b.start < a.stop and a.start < b.stop
                if shared and (b is not a or p in record.reads):
                    return True
        return False

    def _compare(self, target: Port, expected: Vectors, given: Vectors, what: str) -> list[PairResult]:
        results = []
        for source in (i for i, o in self.pairs.chosen if o is target):
            size = float(np.abs(expected[source][np.isfinite(expected[source])]).max(initial=0.0))
            allowed = self.nondet_tol + VARIANT_ROUNDINGS * source.rounding * size
            with np.errstate(all="ignore"):
                gap = np.abs(given[source] - expected[source])
            # 0 times an infinite slope is NaN with a seed of zeros; other checks judge that.
            gap[~np.isfinite(expected[source])] = 0.0
            if not size:
                gap[np.isnan(given[source])] = 0.0
            gap[np.isnan(gap)] = np.inf
            gap[~np.isin(np.arange(source.size), source.positions)] = 0.0
            worst = int(np.argmax(gap))
            if gap[worst] > allowed:
                results.append(self._wrong(source, target, worst, expected, given, what))
        return results

    def _wrong(
        self, source: Port, target: Port, worst: int, expected: Vectors, given: Vectors, what: str
    ) -> PairResult:
        index = shape_index(worst, source.shape)
        place = entry_name(source.name, index, source.value_type)
        right, got = float(expected[source][worst]), float(given[source][worst])
        wanted = "zero" if right == 0 else f"{right:.9g}, as with an adjoint of zeros"
        return PairResult(
            launch=self.program.launch,
            subject=self.program.subject,
            input=source.label,
            output=target.label,
            verdict="WRONG",
            max_abs_error=abs(got - right),
            max_rel_error=abs(got - right) / abs(right) if right else float("inf"),
            message=(
                f"with {what} the gradient of {place} is {got:.9g}, it should be {wanted}: "
                "the adjoint adds something that is no multiple of its seed"
            ),
            entries=source.size,
            evaluated=source.size,
            check=NAME,
        )
