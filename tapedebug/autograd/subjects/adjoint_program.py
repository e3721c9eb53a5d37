"""The reverse pass of a program as a program, `x, w → Jᵀ(x) w`, for second derivatives.

Its values are adjoints; its tangents are tangents of the adjoint (forward over reverse), from a second
shadow. Adjoints are linear in `w`, so tangents by `w` are adjoints of another `w`, and checking them checks
linearity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram, rows_of, stacked
from tapedebug.lang.types import float64
from tapedebug.runtime.replay.replay_capabilities import SecondOrderReplays
from tapedebug.runtime.replay.second_order import SecondShadow

if TYPE_CHECKING:
    from tapedebug.runtime.tape.tape import Tape


Vectors = dict[Port, Floats]


class AdjointProgram:
    """The reverse pass of a program as a `Program`; it has no reverse pass itself.

    Args:
        program: The program to reverse.
        tape: The tape that a function recorded; None for a kernel.
        seeds: The adjoints `w` of its outputs at which derivatives are taken.

    Raises:
        GradcheckError: The adjoint of a part of the program is not known.
    """

    launch: int | None = None

    def __init__(self, program: ShadowProgram, tape: Tape | None, seeds: Mapping[Port, Floats]) -> None:
        self.first, self.tape = program, tape
        self.is_narrow = program.is_narrow
        self.subject = f"the gradient of {program.subject}"
        self.by_seed = {_gradient_of(port): port for port in seeds}
        self.by_result = {_gradient_of(port): port for port in program.inputs}
        self.inputs: Sequence[Port] = [*program.inputs, *self.by_seed]
        self.outputs: Sequence[Port] = list(self.by_result)
        self._seeds = dict(seeds)
        self._shadows: dict[tuple[bool, bool], SecondShadow] = {}
        reasons = self._shadow(False, False).uncovered
        if reasons:
            raise GradcheckError(
                f"{program.subject}: {reasons[0]}: its second derivative is unknown",
                hint="compute in kernels with an adjoint what depends on the inputs",
            )

    @property
    def kernels(self) -> Sequence[Any]:
        """The kernels of the program."""
        return self.first.kernels

    def values(self, port: Port) -> Floats:
        """Return the values of an input, (size,) float64."""
        return self._seeds[self.by_seed[port]] if port in self.by_seed else self.first.values(port)

    def evaluate(self, changes: Mapping[Port, Floats], *, single: bool = False) -> Vectors:
        """Return the adjoints at displaced values and seeds; see `Program`."""
        seeds, at = self._split(changes)
        found = self.first.pull({**self._seeds, **seeds}, at=at or None, double=not single)
        return {port: found[source] for port, source in self.by_result.items()}

    def push(
        self, tangents: Mapping[Port, Floats], *, at: Mapping[Port, Floats] | None = None, double: bool = True
    ) -> Vectors:
        """Return the tangents of the adjoints; see `Program`."""
        seeds, points = self._split(tangents)
        moved_seeds, moved = self._split(at or {})
        shadow = self._shadow(double, bool(moved)).reset()
        for port, values in moved.items():
            shadow.set(port.array, values.reshape(port.shape))
        shadow.push({p.array: v.reshape(p.shape) for p, v in points.items()}, detached=True)
        given = {**self._seeds, **moved_seeds}
        shadow.pull({p.array: w.reshape(p.shape) for p, w in given.items()})
        found = {
            port: shadow.gradient_tangent(source.array).ravel().astype(np.float64)
            for port, source in self.by_result.items()
        }
        if seeds:
            linear = self.first.pull(seeds, at=moved or None, double=double)
            found = {port: found[port] + linear[source] for port, source in self.by_result.items()}
        return found

    def evaluate_many(
        self, changes: Mapping[Port, Floats], *, single: bool = False, dtype: DTypeLike | None = np.float64
    ) -> Vectors:
        """Run `evaluate` row by row."""
        return stacked(self.outputs, [self.evaluate(row, single=single) for row in rows_of(changes)])

    def push_many(
        self, tangents: Mapping[Port, Floats], *, double: bool = True, dtype: DTypeLike | None = np.float64
    ) -> Vectors:
        """Run `push` row by row."""
        return stacked(self.outputs, [self.push(row, double=double) for row in rows_of(tangents)])

    def pull(self, seeds: Mapping[Port, Floats], **_: object) -> Vectors:
        """Raise an error: a reverse pass has no reverse pass."""
        raise NotImplementedError

    pull_many = pull
    pull_rounded = pull

    def _split(self, given: Mapping[Port, Floats]) -> tuple[Vectors, Vectors]:
        """Split values into those of adjoints, by output of the program, and those of its inputs."""
        seeds = {self.by_seed[port]: v for port, v in given.items() if port in self.by_seed}
        return seeds, {port: v for port, v in given.items() if port not in self.by_seed}

    def _shadow(self, double: bool, moved: bool) -> SecondShadow:
        if (double, moved) not in self._shadows:
            if self.tape is not None:
                made = SecondOrderReplays(self.tape).second_order_replay(float64=double)
            else:
                (record,) = self.first.shadow(double=False).records
                dtype = float64 if double else None
                made = SecondShadow.for_launch(record.kernel, record.dim, record.args, dtype=dtype, flat=True)
            made.pulse = self.first.pulse
            made.fix_inputs()
            self._shadows[double, moved] = made
        return self._shadows[double, moved]


def _gradient_of(port: Port) -> Port:
    return replace(port, name=f"grad {port.name}", label="")
