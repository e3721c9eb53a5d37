"""The slopes of the operations of one thread, to find one that stops, shrinks or inflates an adjoint."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.contract import LocalDerivative, Threads, Values
from tapedebug.lang.rules import RULES
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.replay.thread_interpreter import Step, ThreadInterpreter, shares, thread_of
from tapedebug.runtime.tape.record import Record

CASTS = ("to_i", "to_u")
"""Conversions to integers."""
STEPPING = frozenset({"floor", "ceil", "round", "rint", "trunc"})
"""Operations that jump from one integer to the next, as casts to integers do."""
SATURATING = frozenset({"tanh", "exp", "erf", "erfc", "atan", "where", "min", "max"})
"""Operations with a region, far out or beyond a limit, in which the slope is almost zero."""
STEEP = frozenset(
    {"acos", "asin", "atan2", "cosh", "div", "erfinv", "exp", "log", "log10", "log2", "pow", "rsqrt", "sinh"}
    | {"sqrt", "tan"}
)
"""Operations that are steep for some operands and not for others."""
_ACCESSES = frozenset({"load", "offset", "store", "atomic_add"})
"""Operations on memory; the result of an atomic is the value before it, which has no adjoint."""
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


NEAR = 1e-6
"""A relative difference that one or two float32 roundings explain."""


@dataclass(slots=True)
class FollowedThread(ThreadInterpreter):
    """A thread that returns the slopes of its operations; see `contract.FollowedThread`."""

    def operation_derivatives(self, incoming: Mapping[int, Values] | None = None, /) -> list[LocalDerivative]:
        """Return the operations that ran and whose results have an adjoint, in reverse order.

        Args:
            incoming: Adjoints of the arrays that it writes, by parameter; by default 1 for every element.
        """
        memory = {
            param: np.ones(np.size(values))
            if incoming is None
            else np.array(incoming.get(param, np.zeros(np.size(values))), dtype=np.float64).reshape(-1)
            for param, values in self.arrays.items()
        }
        adjoints: dict[int, float] = {}
        found: list[LocalDerivative] = []
        with np.errstate(all="ignore"):
            for step in reversed(self.steps):
                found += _step(step, memory, adjoints)
        return found

    def flat_operations(self) -> list[LocalDerivative]:
        """Return the operations that are flat in a value that has an adjoint, the surest first.

        Rounding and casts come before comparisons; a comparison inside `clamp`, `max` or `abs` is left out,
        since these pass an adjoint on.
        """
        smooth = {
            _key(step.op.span)
            for step in self.steps
            if step.result is not None and step.result.active and not _declared_flat(step)
        }
        sure, comparing = [], []
        for step in self.steps:
            if step.result is None or step.op.kind in _ACCESSES or not any(a.active for a in step.args):
                continue
            slope = _without_adjoint(step)
            if _declared_flat(step) or step.op.kind.startswith(CASTS):
                sure.append(slope)
            elif step.op.kind in COMPARISONS and _key(step.op.span) not in smooth:
                comparing.append(slope)
            elif not (step.result.active or step.op.kind in COMPARISONS or _key(step.op.span) in smooth):
                sure.append(slope)
        return [*sure, *comparing]

    def corner(self) -> LocalDerivative | None:
        """Return the first operation that is at a kink in a value with an adjoint."""
        for step in self.steps:
            if not any(arg.active for arg in step.args):
                continue
            if step.op.kind == "abs" and step.args[0].value == 0:
                return _without_adjoint(step)
            if step.op.kind in COMPARISONS | {"min", "max"} and len(step.args) == 2:
                one, other = (float(arg.value) for arg in step.args)
                if abs(one - other) <= NEAR * max(abs(one), abs(other)):
                    return _without_adjoint(step)
            if (step.op.kind in STEPPING or step.op.kind.startswith(CASTS)) and _is_at_a_jump(step):
                return _without_adjoint(step)
        return None

    def turns(self) -> int:
        """Return the number of runs of the operation that ran most often."""
        return max(Counter(id(step.op) for step in self.steps).values(), default=0)


@dataclass(frozen=True, slots=True)
class RecordThreads:
    """The capability `contract.Threads` of a launch."""

    record: Record

    def follow(self, index: int, values: Mapping[int, Values], /) -> FollowedThread:
        """Return a thread that has not run yet."""
        plain = thread_of(self.record, index, values)
        return FollowedThread(plain.function, index, plain.dim, plain.arrays, plain.scalars, plain.active)


def _is_at_a_jump(step: Step) -> bool:
    """True if the operand of an operation in `STEPPING` or `CASTS` lies where its result changes."""
    value, kind = float(step.args[0].value), step.op.kind
    if not math.isfinite(value):
        return False
    jump = math.floor(value) + 0.5 if kind in ("round", "rint") else round(value)
    if jump == 0 and kind not in ("floor", "ceil"):  # the others round toward zero, from both sides
        return False
    return abs(value - jump) <= NEAR * abs(value)


def _without_adjoint(step: Step) -> LocalDerivative:
    return _described(step, 0.0, 0.0, bent=False)


def _described(step: Step, incoming: float, slope: float, *, bent: bool) -> LocalDerivative:
    kind = step.op.kind
    operands = [float(arg.value) for arg in step.args]
    return LocalDerivative(
        kind, step.op.span, operands, incoming, slope, bent, kind in SATURATING, kind in COMPARISONS
    )


def _step(
    step: Step, memory: dict[int, np.ndarray[Any, Any]], adjoints: dict[int, float]
) -> Iterator[LocalDerivative]:
    op, result = step.op, step.result
    if op.kind in ("store", "atomic_add"):
        if step.args[1].active and op.data[0] in memory:
            key = id(step.args[1])
            adjoints[key] = adjoints.get(key, 0.0) + float(memory[op.data[0]][step.place])
        return
    if result is None or op.kind in ("load", "offset") or not result.active:
        return
    adjoint = adjoints.get(id(result), 0.0)
    if adjoint == 0:
        return
    largest = 0.0
    for arg, slope in zip(step.args, shares(step, result.type.numpy.type(1)), strict=True):
        if slope is not None and arg.active:
            largest = max(largest, abs(float(slope)))
            adjoints[id(arg)] = adjoints.get(id(arg), 0.0) + adjoint * float(slope)
    bent = op.kind in STEEP and (op.kind != "div" or step.args[1].active)
    yield _described(step, adjoint, largest, bent=bent)


def _declared_flat(step: Step) -> bool:
    """Return True if the rule table says that the slope is 0 wherever it exists."""
    rule = RULES.get(step.op.kind)
    return rule is not None and not isinstance(rule.partials, str) and all(p is None for p in rule.partials)


def _key(span: Span | None) -> tuple[Any, ...]:
    return () if span is None else (span.file, span.line, span.column, span.end_column)


OPERATION[Threads] = lambda record: None if record.kernel is None else RecordThreads(record)
