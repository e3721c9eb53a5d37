"""The slopes of the operations of one thread: which one lets an adjoint die, fade or blow up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._source import Span, display_file
from tapedebug.trace import Location

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.thread_interpreter import Step, ThreadInterpreter

CASTS = ("to_i", "to_u")
"""Conversions to integers."""
SATURATING = frozenset({"tanh", "exp", "erf", "erfc", "atan", "where", "min", "max"})
"""Operations with a part, far out or beyond a limit, that has no slope to speak of."""
STEEP = frozenset(
    {"acos", "asin", "atan2", "cosh", "div", "erfinv", "exp", "log", "log10", "log2", "pow", "rsqrt", "sinh"}
    | {"sqrt", "tan"}
)
"""Operations that are steep for some operands and not for others."""
_ACCESSES = frozenset({"load", "offset", "store", "atomic_add"})
"""Operations on memory; the result of an atomic is what was there before, which has no adjoint."""
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


@dataclass(frozen=True, slots=True)
class LocalDerivative:
    """One operation that an adjoint went through.

    Attributes:
        kind: The name of its rule.
        span: Its place.
        operands: Their values.
        incoming: The adjoint of the result.
        slope: The largest of what it gives to an operand that matters, in magnitude and relative to
        `incoming`.
        bent: How steep it is depends on an operand that matters: a division by a constant is not.
    """

    kind: str
    span: Span | None
    operands: list[float]
    incoming: float
    slope: float
    bent: bool = False

    @property
    def text(self) -> str:
        """The operation as the source has it."""
        return text_of(self.span) or self.kind

    @property
    def place(self) -> Location | None:
        """Its place, for a finding."""
        return place_of(self.span)


def slopes(
    thread: ThreadInterpreter, incoming: Mapping[int, np.ndarray[Any, Any]] | None = None
) -> list[LocalDerivative]:
    """Return the operations of a thread that ran whose results have an adjoint, in reverse order.

    Args:
        thread: The thread.
        incoming: Adjoints of what it writes, by parameter; by default 1 for everything.
    """
    memory = {
        param: np.ones(np.size(values))
        if incoming is None
        else np.array(incoming.get(param, np.zeros(np.size(values))), dtype=np.float64).reshape(-1)
        for param, values in thread.arrays.items()
    }
    adjoints: dict[int, float] = {}
    found: list[LocalDerivative] = []
    with np.errstate(all="ignore"):
        for step in reversed(thread.steps):
            found += _step(step, memory, adjoints)
    return found


def _step(
    step: Step, memory: dict[int, np.ndarray[Any, Any]], adjoints: dict[int, float]
) -> Iterator[LocalDerivative]:
    from tapedebug.autograd.tapes.thread_interpreter import _shares

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
    for arg, slope in zip(step.args, _shares(step, result.type.numpy.type(1)), strict=True):
        if slope is not None and arg.active:
            largest = max(largest, abs(float(slope)))
            adjoints[id(arg)] = adjoints.get(id(arg), 0.0) + adjoint * float(slope)
    bent = op.kind in STEEP and (op.kind != "div" or step.args[1].active)
    yield LocalDerivative(op.kind, op.span, [float(arg.value) for arg in step.args], adjoint, largest, bent)


def flat_steps(thread: ThreadInterpreter) -> list[LocalDerivative]:
    """Return the operations of a thread that are flat in a value that has an adjoint, the surest first.

    Rounding and casts before comparisons; a comparison inside `clamp`, `max` or `abs` is none, since these
    pass
    an adjoint on.
    """
    smooth = {
        _key(step.op.span)
        for step in thread.steps
        if step.result is not None and step.result.active and not _declared_flat(step)
    }
    sure, comparing = [], []
    for step in thread.steps:
        if step.result is None or step.op.kind in _ACCESSES or not any(a.active for a in step.args):
            continue
        slope = LocalDerivative(step.op.kind, step.op.span, [float(arg.value) for arg in step.args], 0.0, 0.0)
        if _declared_flat(step) or step.op.kind.startswith(CASTS):
            sure.append(slope)
        elif step.op.kind in COMPARISONS and _key(step.op.span) not in smooth:
            comparing.append(slope)
        elif not step.result.active and step.op.kind not in COMPARISONS and _key(step.op.span) not in smooth:
            sure.append(slope)
    return [*sure, *comparing]


def _declared_flat(step: Step) -> bool:
    """Whether the rule table says that the slope is 0 wherever there is one."""
    from tapedebug.lang.rules import RULES

    rule = RULES.get(step.op.kind)
    return rule is not None and not isinstance(rule.partials, str) and all(p is None for p in rule.partials)


def _key(span: Span | None) -> tuple[Any, ...]:
    return () if span is None else (span.file, span.line, span.column, span.end_column)


def text_of(span: Span | None) -> str:
    """What stands at a place, where it is in one line."""
    if span is None or span.line != span.end_line:
        return ""
    return span.text.encode()[span.column : span.end_column].decode(errors="ignore")


def place_of(span: Span | None) -> Location | None:
    """A span as a place in a finding."""
    if span is None:
        return None
    return Location(file=display_file(span.file), line=span.line, column=span.column, function=span.function)
