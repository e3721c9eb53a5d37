"""A reference for second derivatives from the function itself, not from its adjoint.

An adjoint that is consistent with its own tangent may still be the adjoint of another function: right at the
values of a first check, wrong beside them. For the right adjoint, ⟨u, ∂(Jᵀw)/∂x v⟩ is the derivative along v
of ⟨w, J(x) u⟩, which the tangent of the function gives without any adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.finite_diff.richardson import slope
from tapedebug.autograd.results.pair_result import PairResult
from tapedebug.autograd.subjects.adjoint_program import AdjointProgram
from tapedebug.autograd.subjects.probes import random_directions
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import meant_to_differ

NAME = "second derivative of the function"
TRIES = 2


def check_against_function(adjoint: AdjointProgram, plan: CheckPlan) -> list[PairResult]:
    """Return a result if the two differ by more than the tolerance and the error bar; none otherwise."""
    probe = adjoint.first.shadow()
    if meant_to_differ(probe.records):
        return []
    for number in range(TRIES):
        found = _Comparison(adjoint, plan, number).result()
        if found:
            return found
    return []


def _disjoint_ports(ports: Sequence[Port]) -> list[Port]:
    """Return the ports that share no memory with earlier ones: displacing one moves no other."""
    found: list[Port] = []
    for port in ports:
        a = port.array
        met = [b for b in (other.array for other in found) if b.region is a.region]
        if not any(b.start < a.stop and a.start < b.stop for b in met):
            found.append(port)
    return found


class _Comparison:
    def __init__(self, adjoint: AdjointProgram, plan: CheckPlan, number: int) -> None:
        self.adjoint, self.check_plan = adjoint, plan
        self.points = _disjoint_ports(adjoint.first.inputs)
        self.u, self.v = self._direction(2 * number), self._direction(2 * number + 1)
        self.shadow = adjoint.first.shadow()
        self.shadow.forward_only = True

    def _direction(self, which: int) -> dict[Port, Floats]:
        return {port: random_directions(port.size, which + 1)[which] for port in self.points}

    def _along(self, step: float) -> Floats:
        """Return ⟨w, J(x + step · v) u⟩, and the sum of the absolute values of its terms."""
        shadow = self.shadow.reset()
        for port in self.points:
            moved = self.adjoint.values(port) + step * self.v[port]
            shadow.set(port.array, moved.reshape(port.shape))
        shadow.push({p.array: u.reshape(p.shape) for p, u in self.u.items()}, detached=True)
        terms = [
            (self.adjoint.values(seed) * shadow.tangent(port.array).ravel()).sum()
            for seed, port in self.adjoint.by_seed.items()
        ]
        return np.array([sum(terms)])

    def result(self) -> list[PairResult]:
        """Return one result if they differ."""
        with np.errstate(all="ignore"):
            pushed = self.adjoint.push(self.v, double=True)
            found = sum(
                float((self.u[port] * pushed[result]).sum())
                for result, port in self.adjoint.by_result.items()
                if port in self.u
            )
            tolerance = self.check_plan.tolerance
            fine = np.array([0.05 * (tolerance.atol + tolerance.rtol * abs(found))])
            slopes = slope(
                self._along,
                self._along(0.0),
                eps=self.check_plan.eps,
                magnitude=1.0,
                enough=lambda values: fine,
            )
        value, bar = float(slopes.value[0]), float(slopes.bar[0])
        allowed = tolerance.atol + tolerance.rtol * abs(value)
        unsure = bool(slopes.kink[0]) or not bar <= allowed  # chaos gives bars of any size
        if unsure or abs(found - value) <= allowed + bar:
            return []
        names = ", ".join(port.name for port in self.points)
        message = (
            f"⟨u, H v⟩ is {found:.9g} by the tangent of the adjoint, and {value:.9g} ± {bar:.1g} by "
            "differences of the tangent of the function itself: the adjoint is not that of this function "
            "beside these values"
        )
        first = self.adjoint.first
        size = sum(port.size for port in self.points)
        return [
            PairResult(
                launch=None,
                subject=self.adjoint.subject,
                input=names,
                output=", ".join(port.name for port in self.adjoint.by_result),
                verdict="WRONG",
                max_abs_error=abs(found - value),
                max_rel_error=abs(found - value) / abs(value) if value else float("inf"),
                message=message,
                entries=size * sum(port.size for port in first.outputs),
                evaluated=1,
                check=NAME,
            )
        ]
