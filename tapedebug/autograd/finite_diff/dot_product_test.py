"""The dot-product test: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩, the tangent against the adjoint, with no step size.

Tangent and adjoint use the same partial derivatives, so a wrong partial passes. Errors of the reverse pass
itself do not: in reversed control flow, in the recovery of overwritten values, in accumulation, in zeroing
the adjoint of a replaced value. Arrays without `requires_grad` are constant on both sides: finite differences
show if a chain should have been cut there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Checkpoint, Floats
from tapedebug.autograd.subjects.long_vectors import BLOCK, dot, dot_of_sizes
from tapedebug.autograd.subjects.probes import random_direction
from tapedebug.autograd.subjects.program import Port, distinct
from tapedebug.autograd.subjects.shadow_program import Consume, ShadowProgram
from tapedebug.autograd.thresholds import DOT_PRODUCT_NOISE, DOT_PRODUCT_ROUNDING
from tapedebug.contract import Operation, TangentReplay

SCALES = (3.0, 0.7, 1.3)  # the same test in other units: exactly proportional, but for rounding

Vectors = Mapping[Port, Floats]


@dataclass(frozen=True)
class DotProduct:
    """The dot-product test of one launch, function or tape, in float64: evidence, not a verdict.

    Attributes:
        forward: ⟨w, J v⟩, by the tangent.
        reverse: ⟨Jᵀ w, v⟩, by the adjoint.
        mismatch: Their difference, relative to the sum of the absolute values of their terms; NaN where a
            derivative is not finite.
        rounding: The part that float64 rounding explains; measured if `mismatch` exceeds 1e-14.
        launch: If they differ, the index of the last launch whose reverse pass is not the transpose of its
            derivative (0 for a kernel that was checked alone); None if they agree.
        message: If they differ, a sentence with the numbers; else empty.
    """

    forward: float
    reverse: float
    mismatch: float
    rounding: float = DOT_PRODUCT_ROUNDING
    launch: int | None = None
    message: str = ""

    @property
    def agrees(self) -> bool:
        """True if the two products are equal up to rounding."""
        return bool(self.mismatch <= self.rounding)

    def __str__(self) -> str:
        if self.message:
            return self.message
        if not self.agrees:
            return "dot-product test: the derivatives are not finite"
        near = f"to {self.mismatch:.0e}" if self.mismatch else "exactly"
        return f"dot-product test: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩ {near}"


def dot_test(program: ShadowProgram, checkpoint: Checkpoint | None = None) -> DotProduct | None:
    """Test the reverse pass of a program against its tangent.

    Args:
        program: Its inputs get tangents, its outputs adjoints, all at once.
        checkpoint: Called often; may raise to cancel.

    Returns:
        The result; None if there is nothing to test, or a custom function takes part.
    """
    if not program.inputs or not program.outputs or not program.has_tangents:
        return None
    with np.errstate(all="ignore"):
        test = _Test(program, checkpoint)
        return None if test.lost else test.in_turn() or test.result()


def worst_of(tests: Iterable[DotProduct | None]) -> DotProduct | None:
    """Return the test with the largest mismatch; None if there was none."""
    found = [test for test in tests if test is not None]
    return max(found, key=lambda test: (bool(test.message), test.mismatch), default=None)


class _DotReplay(TangentReplay, Protocol):
    """A replay with tangents and adjoints that can be multiplied with those of another one."""

    forward_only: bool

    @property
    def records(self) -> Sequence[Operation]:
        """The operations, in order."""

    def inner(self, other: object) -> tuple[float, float]:
        """Return the product of the tangents here with the adjoints there, and the size of its terms."""

    def written_outside(self, index: int) -> bool:
        """True if the program wrote memory outside the tape just before an operation."""


class _Test:
    """Two private copies: `there` moves tangents forward, `back` moves adjoints backward."""

    def __init__(self, program: ShadowProgram, checkpoint: Checkpoint | None) -> None:
        self.program = program
        self.checkpoint = checkpoint
        self.consume: Consume = program.consume
        self._there: _DotReplay | None = None
        self._back: _DotReplay | None = None
        self._pushed: tuple[float, int] | None = None
        self.last = len(self.there.records)
        program.read_values(self.there, program.inputs)
        self.v = {port: self._tangent(port) for port in distinct(program.inputs)}
        self._push(1.0, self.last)
        self.lost = bool(self.there.lost)
        self.w = {port: self._seed(port) for port in distinct(program.outputs)}

    @property
    def there(self) -> _DotReplay:
        """The copy that moves tangents."""
        if self._there is None:
            self._there = cast("_DotReplay", self.program.tangent_replay())
            self._there.forward_only = True
            self._pushed = None
        return self._there

    @property
    def back(self) -> _DotReplay:
        """The copy that moves adjoints, at the end of the program."""
        if self._back is None:
            self._back = cast("_DotReplay", self.program.replay().forward(0))
        return self._back

    def _tangent(self, port: Port) -> Floats:
        direction = random_direction(port.size, 0, 1)
        direction *= self.program.scales(port)
        return direction

    def _seed(self, port: Port) -> Floats:
        """Return a seed that weights outputs of all magnitudes equally."""
        dot = self.there.tangent(port.array)
        typical = float(np.sqrt(np.mean(dot**2))) if np.isfinite(dot).all() else 0.0
        direction = random_direction(port.size, 1, 2)
        direction *= 1 / typical if typical else 1.0
        return direction

    def _push(self, scale: float, stop: int) -> None:
        if self._pushed != (scale, stop):
            self.there.push(_shaped(self.v, scale), stop=stop, detached=True)
            self._pushed = scale, stop

    def _pull(self, scale: float, stop: int) -> None:
        self.back.backward(_shaped(self.w, scale), consume=self.consume, stop=stop)

    def inner(self, cut: int, scale: float = 1.0) -> tuple[float, float]:
        """Return ⟨adjoints, tangents⟩ before record `cut`: constant unless an adjoint is no transpose."""
        self._push(scale, cut)
        self._pull(1 / scale, cut)
        if self.checkpoint is not None:
            self.checkpoint()
        return self.there.inner(self.back)

    def in_turn(self) -> DotProduct | None:
        """Return the result of a large program if the products agree.

        It takes one copy of the program's memory at a time. If the objective is one number, it starts from
        its seed, and keeps the gradient: both are the same but for a factor.
        """
        if sum(values.size for values in self.v.values()) <= BLOCK:
            return None
        program, seed = self.program, self.program.single_seed
        tangents = [(w, self.there.tangent(port.array)) for port, w in (seed or self.w).items()]
        forward, forward_size = _products(tangents)
        program.forget()
        self._there = self._pushed = None
        gradients: Vectors = {}
        if seed is None:
            back = program.reversed(self.w, double=True)
        else:
            gradients = program.pull(seed, double=True)
        if self.checkpoint is not None:
            self.checkpoint()
        reverse, reverse_size = _products(
            (v, back.gradient(port.array) if seed is None else gradients[port]) for port, v in self.v.items()
        )
        size = max(forward_size, reverse_size)
        mismatch = abs(forward - reverse) / size if size else 0.0
        agrees = mismatch <= DOT_PRODUCT_ROUNDING
        if agrees and seed is not None:
            program.gradients[program.consume] = gradients
        # The gradients go on with the replay that reads the values of the forward pass.
        if not (
            agrees and (program.stands_before_reverse() or (gradients and program.consume == "versions"))
        ):
            program.forget()
        return DotProduct(forward, reverse, mismatch) if agrees else None

    def result(self) -> DotProduct:
        forward, forward_size = self.inner(self.last)
        reverse, reverse_size = self.inner(0)
        size = max(forward_size, reverse_size)
        mismatch = abs(forward - reverse) / size if size else 0.0
        rounding = self._rounding(forward, reverse) / size if mismatch > DOT_PRODUCT_ROUNDING else 0.0
        rounding = max(DOT_PRODUCT_ROUNDING, DOT_PRODUCT_NOISE * rounding)
        if not mismatch > rounding:
            return DotProduct(forward, reverse, mismatch, rounding)
        launch, overwritten = self.program.launch, False
        if launch is None:
            overwritten = self._only_overwritten(forward, rounding * size)
            launch = self._guilty(forward, rounding * size)
        message = (
            f"dot-product test: ⟨w, J v⟩ = {forward:.6g}, ⟨Jᵀ w, v⟩ = {reverse:.6g}, "
            f"relative mismatch {mismatch:.1g}: {self._reason_at(launch, overwritten)}"
        )
        return DotProduct(forward, reverse, mismatch, rounding, launch, message)

    def _rounding(self, forward: float, reverse: float) -> float:
        """Return the change of both products if tangents and adjoints are rounded differently."""
        ends = [(self.last, forward), (0, reverse)]
        return max(abs(self.inner(cut, scale)[0] - value) for scale in SCALES for cut, value in ends)

    def _only_overwritten(self, forward: float, allowed: float) -> bool:
        """True if every adjoint is right for the values of its launch.

        If one is not, the search for it continues with these values, so that overwrites by other launches
        are not attributed to it.
        """
        if self.consume == "versions":
            return False
        self.consume = "versions"
        if abs(self.inner(0)[0] - forward) > allowed:
            return False
        self.consume = self.program.consume
        return True

    def _guilty(self, forward: float, allowed: float) -> int:
        """Return the last record (of those that a bisection visits) over which the inner product changes."""
        low, high = 0, self.last
        while high - low > 1:
            middle = (low + high) // 2
            if abs(self.inner(middle)[0] - forward) <= allowed:
                high = middle
            else:
                low = middle
        return low

    def _reason_at(self, launch: int, overwritten: bool) -> str:
        record = self.back.records[launch if self.program.launch is None else 0]
        where = self.program.subject if self.program.launch is not None or self.last == 1 else None
        where = where or f"{'launch' if record.kind == 'kernel' else 'record'} {launch} ({record.name})"
        if record.kind == "kernel" and record.active and not record.has_adjoint:
            return f"{where} has no adjoint: enable_backward=False"
        if self.there.written_outside(record.index):
            return f"the reverse pass goes on through what was written outside of the tape before {where}"
        if overwritten:
            return f"values that the adjoint of {where} needs were overwritten before the reverse pass"
        return f"the reverse pass of {where} is not the transpose of its derivative"


def _products(pairs: Iterable[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Return the inner product of vectors given in parts, and the sum of the absolute values of its terms."""
    total = size = 0.0
    for one, other in pairs:
        found = other.ravel()
        total += dot(one, found)
        size += dot_of_sizes(np.abs(one), found)
    return total, size


def _shaped(vectors: Vectors, scale: float) -> dict[Any, Floats]:
    if scale == 1.0:
        return {port.array: values.reshape(port.shape) for port, values in vectors.items()}
    return {port.array: scale * values.reshape(port.shape) for port, values in vectors.items()}
