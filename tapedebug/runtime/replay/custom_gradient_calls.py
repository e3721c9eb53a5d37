"""Calls of functions with a custom gradient, each checked at its own arguments.

A thread is interpreted up to a call. There the body is evaluated in float64 near the arguments, which gives
its derivatives by finite differences. The custom gradient is run in float64 from adjoints that are not zero:
those of the results, and those that other uses of the arguments have accumulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float, is_short_float
from tapedebug.compiler.rule_evaluation import evaluate
from tapedebug.contract import CannotFollow, CheckedCall, PartialDerivative
from tapedebug.lang.rules import RULES
from tapedebug.runtime.replay.thread_interpreter import Number, Step, ThreadInterpreter, _is_float

if TYPE_CHECKING:
    from tapedebug.compiler.ir import Custom, Op, Value

T = TypeVar("T")

GATHERED = 0.7310586
"""The adjoint that other uses of an argument have accumulated when the gradient runs."""
STEP = 1e-5
"""The relative step of finite differences; a second one is a quarter of it."""
HAS_KINK = 1e-3
"""Relative difference of the left and right slopes beyond which a call has no derivative to compare with."""


@dataclass(slots=True)
class CheckedThread(ThreadInterpreter):
    """A thread of a kernel whose calls of functions with a custom gradient are checked.

    Attributes:
        checked: The calls.
    """

    checked: list[CheckedCall] = field(default_factory=list)

    def _custom(self, node: Custom) -> None:
        if node.gradient is not None and node.function is not None and not node.function.gradient.differs:
            self.checked.append(CheckedCall(node.function, self.index, _partials(self, node)))
        self._block(node.body)


@dataclass(slots=True)
class _Double(ThreadInterpreter):
    """A part of a thread in float64; values from before it are those of `caller`, taken when needed."""

    caller: ThreadInterpreter | None = None
    adjoints: dict[tuple[int, int], float] = field(default_factory=dict)

    def _get(self, value: Value) -> Number:
        assert self.caller is not None
        known = self.names.get(value)
        if known is None:
            held = self.caller.names.get(value)
            known = self._free(value) if held is None else Number(_widened(held.value), held.type)
            self.names[value] = known
        return known

    def _rule(self, op: Op, args: tuple[Number, ...]) -> Number:
        assert op.result is not None
        if op.kind in ("to_f16", "to_bf16", "to_f32", "to_f64"):
            return Number(np.float64(args[0].value), op.result.type)
        value = evaluate(RULES[op.kind].text, [arg.value for arg in args])
        return Number(_widened(value), op.result.type)

    def _free(self, value: Value) -> Number:
        found = ThreadInterpreter._free(self, value)
        found.value = _widened(found.value)
        return found

    def _access(self, op: Op, args: tuple[Number, ...], step: Step) -> None:
        param, component = op.data
        if op.kind in ("load_adjoint", "store_adjoint", "add_adjoint"):
            place = (param, int(args[0].value) + component)
            if op.kind == "load_adjoint":
                assert op.result is not None
                step.result = Number(np.float64(self.adjoints.get(place, 0.0)), op.result.type)
            else:
                before = self.adjoints.get(place, 0.0) if op.kind == "add_adjoint" else 0.0
                self.adjoints[place] = before + float(args[1].value)
            return
        if self.memory.get(param) is None:
            assert self.caller is not None
            self.memory[param] = np.array(self.caller.memory.get(param, self.arrays[param])).reshape(-1)
        if is_short_float(self.memory[param].dtype):
            self.memory[param] = self.memory[param].astype(np.float64)
        ThreadInterpreter._access(self, op, args, step)

    def _op(self, op: Op) -> None:
        if op.kind in ("load_adjoint", "store_adjoint", "add_adjoint"):
            args = tuple(self._get(value) for value in op.args)

            step = Step(op, args, None)
            self._access(op, args, step)
            if op.result is not None and step.result is not None:
                self.names[op.result] = step.result
            return
        ThreadInterpreter._op(self, op)


def _widened(value: T) -> T | np.float64:
    """Return a float as float64; other values unchanged."""
    return np.float64(value) if isinstance(value, np.generic) and is_float(value.dtype) else value


def _double(thread: ThreadInterpreter, changes: dict[Value, float]) -> _Double:
    """Return the continuation of a thread in float64, with some values replaced."""
    names = {value: Number(np.float64(changed), value.type) for value, changed in changes.items()}
    return _Double(
        thread.function,
        thread.index,
        thread.dim,
        thread.arrays,
        thread.scalars,
        thread.active,
        names=names,
        caller=thread,
    )


def _results(thread: ThreadInterpreter, node: Custom, changes: dict[Value, float]) -> np.ndarray[Any, Any]:
    """Return the float results of the body, with some arguments replaced."""
    run = _double(thread, changes)
    with np.errstate(all="ignore"):
        run._block(node.body)
    return np.array([float(run._get(v).value) for v in node.results if _is_float(v.type)])


def _partials(thread: ThreadInterpreter, node: Custom) -> list[PartialDerivative]:
    values = list(dict.fromkeys(value for _, value in node.params if value in thread.names))
    if not values or not any(_is_float(v.type) for v in node.results):
        return []
    seeds = [float(s) for s in np.linspace(1.0, -0.6, len(node.results))]
    given = _given(thread, node, seeds, values)
    weights = np.array([s for s, v in zip(seeds, node.results, strict=True) if _is_float(v.type)])
    names = {value: name for name, value in reversed(node.params)}
    found = []
    for value in values:
        at = float(thread.names[value].value)
        after = given[value]
        right = _slope(thread, node, value, weights)
        thrown = right is not None and _near(after, right) and not _near(after, right + GATHERED)
        given_here = after if thrown else after - GATHERED
        found.append(PartialDerivative(names[value], at, given_here, right, thrown))
    return found


def _given(
    thread: ThreadInterpreter, node: Custom, seeds: Iterable[float], values: Iterable[Value]
) -> dict[Value, float]:
    """Return the adjoints of the arguments after the custom gradient ran."""
    assert node.gradient is not None
    run = _double(thread, {})
    with np.errstate(all="ignore"):
        run._block(node.body)  # a gradient uses results of the body again
        for value, seed in zip(node.seeds, seeds, strict=True):
            run.names[value] = Number(np.float64(seed), value.type)
        taken: set[Value] = set()
        for value, before in zip(node.inputs, node.before, strict=True):
            # If a value stands for several arguments, the first of them gets its adjoint.
            run.names[before] = Number(np.float64(0.0 if value in taken else GATHERED), before.type)
            taken.add(value)
        run._block(node.gradient)
        after: dict[Value, float] = {}
        for value, out in zip(node.inputs, node.gradient.yields, strict=True):
            after[value] = after.get(value, 0.0) + float(run._get(out).value)
    return {value: after.get(value, GATHERED) for value in values}


def _slope(
    thread: ThreadInterpreter, node: Custom, value: Value, weights: np.ndarray[Any, Any]
) -> float | None:
    """Return the derivative of the weighted results by an argument; None at a kink or if it is not finite."""
    at = float(thread.names[value].value)
    step = STEP * max(abs(at), 1e-3)
    start = float(weights @ _results(thread, node, {}))
    central = []
    for h in (step, step / 4):
        try:
            up = float(weights @ _results(thread, node, {value: at + h}))
            down = float(weights @ _results(thread, node, {value: at - h}))
        except CannotFollow:
            return None
        sides = ((up - start) / h, (start - down) / h)
        if not all(np.isfinite(sides)):
            return None
        central.append(((up - down) / (2 * h), abs(sides[0] - sides[1])))
    (coarse, wide), (fine, narrow) = central
    size = max(abs(coarse), abs(fine))
    if abs(fine - coarse) > HAS_KINK * size or (narrow > HAS_KINK * size and narrow > wide / 2):
        return None
    return (16 * fine - coarse) / 15


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-4 * max(abs(one), abs(other), 1e-3)
