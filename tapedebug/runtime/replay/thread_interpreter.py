"""An interpreter for one thread of a launch, to find the operation whose result is not finite.

The kernel's IR is run on NumPy scalars, forward and then backward with the partial derivatives of the rule
table: the same arithmetic as the compiled adjoint, a million times slower, but with every operand available.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._config import config
from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.compiler.rule_evaluation import evaluate
from tapedebug.contract import CannotFollow, NonfiniteOperation
from tapedebug.lang import numpy_eval
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES, Expr, Select

if TYPE_CHECKING:
    from tapedebug._source import Span
    from tapedebug.compiler.ir import Block, Custom, For, If, Op, Value, While

Values = np.ndarray[Any, Any]
LIMIT = 200_000
"""Operations after which the interpreter gives up: an endless loop must not hang a diagnosis."""


@dataclass(eq=False, slots=True)
class Number:
    """A scalar of the running thread. `active`: it has an adjoint."""

    value: Any
    type: Any
    active: bool = False


@dataclass(eq=False, slots=True)
class Step:
    """One operation that was executed."""

    op: Op
    args: tuple[Number, ...]
    result: Number | None
    place: int = 0


@dataclass(slots=True)
class ThreadInterpreter:
    """One thread of a launch.

    Args:
        function: The kernel in IR.
        index: The number of the thread, counted as the launch does.
        dim: The launch dimensions.
        arrays: Values of array parameters before the launch, shape plus components; they are copied if
            written.
        scalars: Values of the other parameters, as sequences of components.
        active: Array parameters that have a gradient.
    """

    function: Any
    index: int
    dim: Sequence[int]
    arrays: Mapping[int, Values]
    scalars: Mapping[int, Sequence[Any]]
    active: frozenset[int]
    steps: list[Step] = field(default_factory=list)
    memory: dict[int, Values] = field(default_factory=dict)
    loads: dict[int, set[int]] = field(default_factory=dict)
    stores: dict[int, set[int]] = field(default_factory=dict)
    names: dict[Value, Number] = field(default_factory=dict)

    # ----------------------------------------------------------------- forward

    def run(self) -> None:
        """Execute the thread.

        Raises:
            CannotFollow: It does not end, or accesses memory outside an array.
        """
        with np.errstate(all="ignore"):
            self._block(self.function.body)

    def bad_value(self) -> NonfiniteOperation | None:
        """Return the first operation with finite operands and a result that is not finite."""
        for step in self.steps:
            result = step.result
            if result is None or step.op.kind in ("load", "atomic_add") or _finite(result.value):
                continue
            if all(_finite(arg.value) for arg in step.args):
                return NonfiniteOperation(step.op.kind, step.op.span, _floats(step.args), None)
        return None

    def store_at(self, param: int, element: int, item: int) -> Span | None:
        """Return the place of the last store to an element (of `item` bytes) of a parameter, or None."""
        width = max(1, item // self.arrays[param].dtype.itemsize)
        for step in reversed(self.steps):
            stores = step.op.kind in ("store", "atomic_add") and step.op.data[0] == param
            if stores and step.place // width == element:
                return step.op.span
        return None

    def _axes(self) -> tuple[int, ...]:
        axes: int = self.function.axes
        if axes == 1:
            return (self.index,)
        sizes = [*self.dim, *(1,) * 4][:axes]
        return tuple(int(part) for part in np.unravel_index(self.index, sizes))

    def _free(self, value: Value) -> Number:
        op = value.op
        assert op is not None
        match op.kind:
            case "const":
                return Number(value.type.numpy.type(op.data[0]), value.type)
            case "thread":
                return Number(np.int64(self._axes()[op.data[0]]), value.type)
            case "argument":
                given = np.asarray(self.scalars[op.data[0]][op.data[1]])  # a uint64 wraps, as in its slot
                return Number(given.astype(value.type.numpy)[()], value.type)
            case "extent":
                return Number(np.int64(self.arrays[op.data[0]].shape[op.data[1]]), value.type)
        raise CannotFollow(f"the value of {op.kind} is not known")

    def _get(self, value: Value) -> Number:
        known = self.names.get(value)
        return known if known is not None else self._free(value)

    def _block(self, block: Block) -> None:
        for node in block.ops:
            kind = type(node).__name__
            if kind == "Op":
                self._op(node)  # type: ignore[arg-type]
            elif kind == "If":
                self._if(node)  # type: ignore[arg-type]
            elif kind == "For":
                self._for(node)  # type: ignore[arg-type]
            elif kind == "Custom":
                self._custom(node)  # type: ignore[arg-type]
            else:
                self._while(node)  # type: ignore[arg-type]

    def _if(self, node: If) -> None:
        chosen = node.then if self._get(node.condition).value else node.orelse
        self._block(chosen)
        for result, value in zip(node.results, chosen.yields, strict=True):
            self.names[result] = self._get(value)

    def _custom(self, node: Custom) -> None:
        """Run a call with a custom gradient: forward it is its body, which is no scope."""
        self._block(node.body)

    def _for(self, node: For) -> None:
        carried = [self._get(value) for value in node.inits]
        count = int(self._get(node.count).value)
        for i in reversed(range(count)) if node.reverse else range(count):
            self.names[node.index] = Number(np.int64(i), node.index.type)
            self.names.update(zip(node.carried, carried, strict=True))
            self._block(node.body)
            carried = [self._get(value) for value in node.body.yields]
        self.names.update(zip(node.results, carried, strict=True))

    def _while(self, node: While) -> None:
        carried = [self._get(value) for value in node.inits]
        while True:
            self.names.update(zip(node.carried, carried, strict=True))
            self._block(node.test)
            if not self._get(node.test.yields[0]).value:
                break
            self._block(node.body)
            carried = [self._get(value) for value in node.body.yields]
            if len(self.steps) > LIMIT:
                raise CannotFollow("the thread runs too long")
        self.names.update(zip(node.results, carried, strict=True))

    def _op(self, op: Op) -> None:
        if len(self.steps) > LIMIT:
            raise CannotFollow("the thread runs too long")
        args = tuple(self._get(value) for value in op.args)
        step = Step(op, args, None)
        if op.kind == "offset":
            step.result = Number(self._offset(op.data[0], args), np.int64)
        elif op.kind in ("load", "store", "atomic_add"):
            self._access(op, args, step)
        elif op.kind in ("native", "native_value"):
            step.result = Number(_called(op, args), np.int64)
        elif op.kind == "native_result":
            assert op.result is not None
            active = any(arg.active for arg in args)
            value = args[0].value[op.data[1]]
            step.result = Number(value, op.result.type, active and _is_float(op.result.type))
        else:
            step.result = self._rule(op, args)
        self.steps.append(step)
        if op.result is not None and step.result is not None:
            self.names[op.result] = step.result

    def _rule(self, op: Op, args: tuple[Number, ...]) -> Number:
        assert op.result is not None
        rule = RULES[op.kind]
        value = op.result.type.numpy.type(evaluate(rule.text, [arg.value for arg in args]))
        flows = rule.differentiable and _is_float(op.result.type)
        return Number(value, op.result.type, flows and any(arg.active for arg in args))

    def _offset(self, param: int, args: tuple[Number, ...]) -> int:
        shape = self.arrays[param].shape
        outer = shape[: len(args)]
        place = 0
        for size, arg in zip(outer, args, strict=True):
            if not 0 <= int(arg.value) < size:
                raise CannotFollow(f"index {int(arg.value)} is outside a dimension of {size}")
            place = place * size + int(arg.value)
        return int(place * math.prod(shape[len(args) :]))

    def _access(self, op: Op, args: tuple[Number, ...], step: Step) -> None:
        param, component = op.data
        step.place = int(args[0].value) + component
        memory = self.memory.get(param)
        if memory is None:
            memory = self.memory[param] = np.array(self.arrays[param]).reshape(-1)
        if op.kind == "load":
            assert op.result is not None
            self.loads.setdefault(param, set()).add(step.place)
            step.result = Number(memory[step.place], op.result.type, param in self.active)
            return
        self.stores.setdefault(param, set()).add(step.place)
        before = memory[step.place]
        memory[step.place] = args[1].value if op.kind == "store" else before + args[1].value
        if op.result is not None:
            step.result = Number(before, op.result.type)

    # ---------------------------------------------------------------- backward

    def bad_adjoint(self, incoming: Mapping[int, Values]) -> NonfiniteOperation | None:
        """Return the first operation, in reverse order, that makes a non-finite adjoint of a finite one."""
        memory = {param: np.array(values).reshape(-1) for param, values in incoming.items()}
        adjoints: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for position in range(len(self.steps) - 1, -1, -1):
                culprit = self._reverse(self.steps[position], memory, adjoints)
                if culprit is not None:
                    return replace(culprit, unselected=self._unselected(position))
        return None

    def _reverse(
        self, step: Step, memory: dict[int, Values], adjoints: dict[int, Any]
    ) -> NonfiniteOperation | None:
        op = step.op
        if op.kind in ("store", "atomic_add"):
            adjoint = memory.get(op.data[0])
            if adjoint is not None:
                _add(adjoints, step.args[1], adjoint[step.place])
                if op.kind == "store":
                    adjoint[step.place] = 0
            return None
        if step.result is None or not step.result.active or op.kind in ("load", "offset"):
            if op.kind == "load" and step.result is not None and op.data[0] in memory:
                # Read and written by this launch: the adjoint of the load goes to the earlier store.
                memory[op.data[0]][step.place] += adjoints.get(id(step.result), 0.0)
            return None
        incoming = adjoints.get(id(step.result), step.result.type.numpy.type(0))
        if not _finite(incoming) or (config.strong_zero and incoming == 0):
            return None
        for arg, share in zip(step.args, shares(step, incoming), strict=True):
            if share is None or not arg.active:
                continue
            if not _finite(share):
                return NonfiniteOperation(op.kind, op.span, _floats(step.args), float(incoming))
            _add(adjoints, arg, share)
        return None

    def _unselected(self, position: int) -> Span | None:
        """Return the place of a `where` that the value flows into without being selected."""
        flowing = {id(self.steps[position].result)}
        for step in self.steps[position + 1 :]:
            if step.result is None:
                continue
            if step.op.kind == "where":
                chosen = step.args[1] if step.args[0].value else step.args[2]
                other = step.args[2] if step.args[0].value else step.args[1]
                if id(other) in flowing and id(chosen) not in flowing:
                    return step.op.span
            if any(id(arg) in flowing for arg in step.args):
                flowing.add(id(step.result))
        return None


def thread_of(
    record: Any, index: int, values: Mapping[int, Values], function: Any = None
) -> ThreadInterpreter:
    """Return a thread of a recorded launch, before it runs.

    Args:
        record: The launch.
        index: The number of the thread.
        values: The content of its arrays, by parameter; others are zeros.
        function: The kernel in IR; by default as it is compiled.
    """
    scalars = {p: np.ravel(value).tolist() for p, value in enumerate(record.args) if p not in record.arrays}
    shaped = {p: values[p] if p in values else np.zeros(record.args[p].shape) for p in record.arrays}
    known = record.kernel._lowered.function if function is None else function
    return ThreadInterpreter(known, index, record.dim, shaped, scalars, record.active)


def _called(op: Op, args: Sequence[Number]) -> dict[int, Any]:
    """Return the results of a function that Numba compiled, by their position in its frame.

    Raises:
        CannotFollow: It is a function in C, or raised an exception.
    """
    called = op.data[0]
    name = called.native.name
    if not called.native.is_numba:
        raise CannotFollow(f"it calls the native function {name}", native=name)
    try:
        found = iter(called.native.called([arg.value for arg in args]))
    except Exception as error:
        raise CannotFollow(f"the numba function {name} raised {type(error).__name__}", native=name) from None
    results = {k: next(found) for k, word in enumerate(called.words) if word.kind == "result"}
    return {**results, len(called.words) - 1: 0}


def shares(step: Step, incoming: Any) -> list[Any]:
    """Return the contribution of a result's adjoint to that of each operand; None if there is none."""
    rule = RULES[step.op.kind]
    if isinstance(rule.partials, str) or step.result is None:
        return [None] * len(step.args)
    known = (*step.args, step.result)
    operands = [Expr(numpy_eval.NUMPY_EVAL, numpy_eval.Number(arg.value, arg.type)) for arg in known]
    shares: list[Any] = []
    for partial in rule.partials:
        slope = None if partial is None else partial(*operands)
        if slope is None:
            shares.append(None)
        elif isinstance(slope, Select):
            shares.append(incoming if slope.condition.value.number else incoming * 0)
        else:
            shares.append(
                (slope.value.number if isinstance(slope, Expr) else type(incoming)(slope)) * incoming
            )
    return shares


def _add(adjoints: dict[int, Any], to: Number, share: Any) -> None:
    adjoints[id(to)] = adjoints.get(id(to), 0) + share


def _finite(value: Any) -> bool:
    is_number = isinstance(value, float) or (isinstance(value, np.generic) and is_float(value.dtype))
    return not is_number or bool(np.isfinite(value))


def _floats(numbers: Sequence[Number]) -> list[float]:
    return [float(number.value) for number in numbers]


def _is_float(kind: Any) -> bool:
    return kind in t.FLOATS
