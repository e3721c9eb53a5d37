"""The typed IR: scalar SSA values in structured control flow.

A function is a tree of blocks. A block is a list of operations; `If`, `For` and `While` hold blocks and give
results, so that no variable is ever assigned twice; `Custom` is a call that is reversed in the user's way.
Every value is a scalar: lowering flattens vectors.
Memory is reached through `offset`, `load`, `store`, `atomic_add`; in adjoints through `load_adjoint`,
`store_adjoint`, `add_adjoint`; in tangents of adjoints also through the same with `_dot`. Messages of
kernels are `print`, `assert` and `bounds_check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.params import Param as Param
from tapedebug.lang.types import Scalar


@dataclass(eq=False, slots=True)
class Value:
    """One scalar value: assigned once, by the operation or block that lists it."""

    type: type[Scalar]
    hint: str = ""
    """The user's name of the variable, where there is one: for readable generated code."""
    op: Op | None = None


@dataclass(eq=False, slots=True)
class Op:
    """One operation.

    `kind` is the name of a rule of `lang.rules`, or one of the structural kinds in `STRUCTURAL`.
    """

    kind: str
    args: tuple[Value, ...]
    result: Value | None
    span: Span | None
    data: tuple[Any, ...] = ()


@dataclass(eq=False, slots=True)
class Block:
    """Operations in order, and the values that leave the block at its end."""

    ops: list[Node] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class If:
    """Both blocks yield one value for each result."""

    condition: Value
    then: Block
    orelse: Block
    results: list[Value]
    span: Span | None


@dataclass(eq=False, slots=True)
class For:
    """`for index in range(count)` over int64 (backwards where `reverse`), with carried values.

    `carried[k]` is `inits[k]` in the first iteration and `body.yields[k]` of the one before afterwards;
    `results[k]` is its value after the loop.
    """

    count: Value
    index: Value
    inits: list[Value]
    carried: list[Value]
    body: Block
    results: list[Value]
    span: Span | None
    reverse: bool = False


@dataclass(eq=False, slots=True)
class While:
    """Repeats while `test` (computed from `carried`) yields true; `test.yields` is that one value."""

    inits: list[Value]
    carried: list[Value]
    test: Block
    body: Block
    results: list[Value]
    span: Span | None


@dataclass(eq=False, slots=True)
class Custom:
    """A call of a function with a gradient or a replay of its own: what adjoints are made from.

    It is no scope: the values that `body` yields are the results, and are visible after it. Everything but an
    adjoint sees the body only (`passes.custom`).

    Attributes:
        name: The function's name.
        body: The function.
        replay: What computes the results again in an adjoint, in place of the body; None for the body.
        gradient: What is run in place of the body's reverse; it yields the adjoints of `inputs` after it. It
            may use what the body computes, where there is no replay.
        inputs: The float values whose adjoints the gradient changes.
        before: In the gradient, the adjoint of each input so far.
        seeds: In the gradient, the adjoint of each result.
        function: The function of the user's; None where it is native.
        params: Its inputs that are floats, each with the parameter's name and component: for checks.
        numerical: Its gradient is finite differences of its body, and nobody's who could be wrong.
    """

    name: str
    body: Block
    replay: Block | None
    gradient: Block | None
    inputs: list[Value]
    before: list[Value]
    seeds: list[Value]
    span: Span | None
    function: Any = None
    params: list[tuple[str, Value]] = field(default_factory=list)
    numerical: bool = False

    @property
    def results(self) -> list[Value]:
        """The values of the call."""
        return self.body.yields


Node = Op | If | For | While | Custom

# kind -> (args, data, result); everything else is a rule.
STRUCTURAL = {
    "const": "() (value,) -> value",
    "thread": "() (axis,) -> int64: the thread's index on one axis",
    "argument": "() (param, component) -> int64 or float64 of a by-value argument",
    "place": "() () -> int64: where a thread's part of the log begins",
    "extent": "() (param, axis) -> int64: the length of an axis of an array",
    "offset": "(index, …) (param,) -> int64: the element's place, in scalars",
    "load": "(offset,) (param, component) -> value",
    "store": "(offset, value) (param, component)",
    "atomic_add": "(offset, value) (param, component) -> the value before",
    "load_after": "(offset,) (param, component) -> value as the launch left it",
    "load_adjoint": "(offset,) (param, component) -> adjoint",
    "store_adjoint": "(offset, value) (param, component)",
    "add_adjoint": "(offset, value) (param, component)",
    "native": "(value or offset, …) (call,) -> int64: the call, which writes to arrays",
    "native_value": "(value or offset, …) (call,) -> int64: the call, made only for its results",
    "native_result": "(call,) (call, place) -> value: a word of the frame after the call",
    "load_dot": "(offset,) (param, component) -> tangent",
    "store_dot": "(offset, value) (param, component)",
    "add_dot": "(offset, value) (param, component)",
    "load_adjoint_dot": "(offset,) (param, component) -> tangent of the adjoint",
    "store_adjoint_dot": "(offset, value) (param, component)",
    "add_adjoint_dot": "(offset, value) (param, component)",
    "reserve": "(count?) (tag,): begin keeping a loop's carried values for the reverse pass",
    "save": "(iteration, value) (tag, slot): keep one carried value of one iteration",
    "commit": "(count,) (tag,): the loop ran so many iterations",
    "restore": "(iteration,) (tag, slot) -> the stored value",
    "release": "() (tag,): the loop's stored values are no longer needed",
    "log_push": "(place, value) (): keep a value that cannot be computed again",
    "log_load": "(place,) () -> the stored value",
    "print": "(value, …) (diagnostic,): leave values in the print buffer",
    "assert": "(condition, value, …) (diagnostic,): if it fails, leave values in the print buffer",
    "pause": "() (diagnostic,): in plain Python, wait for a debugger",
    "trace": "(offset,) (site,): record the place of an element that is accessed (`compiler.access_trace`)",
    "inside": "(index, length) (): in probes (`passes.bounds`), an index outside 0 … length-1 ends all",
    "bounds_check": "(index, length) (diagnostic,): in checked variants, end the launch if out of bounds",
}

# Known before the thread runs: they stand in no block.
FREE = frozenset({"const", "thread", "argument", "extent", "place"})
NATIVE = frozenset({"native", "native_value"})
"""Calls of native functions."""
DIAGNOSTICS = frozenset({"print", "assert", "bounds_check", "pause"})
ADJOINT = frozenset({"load_adjoint", "store_adjoint", "add_adjoint"})
DOT = frozenset({"load_dot", "store_dot", "add_dot"})
ADJOINT_DOT = frozenset({"load_adjoint_dot", "store_adjoint_dot", "add_adjoint_dot"})
MEMORY = frozenset({"load", "load_after", "store", "atomic_add"}) | ADJOINT | DOT | ADJOINT_DOT
"""Operations on an element: of an array, of its adjoint, or of the tangent of one of them."""
EFFECTS = (
    frozenset(kind for kind in MEMORY if not kind.startswith("load"))
    | {"native", "log_push", "trace", "inside"}
    | DIAGNOSTICS
)
KEEPING = frozenset({"reserve", "save", "commit", "restore", "release"})


@dataclass(eq=False)
class Function:
    """A kernel in IR.

    Attributes:
        name: For messages.
        params: The kernel's parameters.
        body: What one thread does.
        axes: How many thread axes it asks for.
        prelude: What every thread does, in order, before any of them runs `body`; it yields the next free
            place of the log. Only adjoints of kernels whose threads depend on each other have one.
        backwards: Whether threads run `body` from the last to the first.
    """

    name: str
    params: tuple[Param, ...]
    body: Block
    axes: int
    prelude: Block | None = None
    backwards: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The prelude, where there is one, and the body."""
        return (self.body,) if self.prelude is None else (self.prelude, self.body)

    def ops(self) -> Iterator[Op]:
        """Every operation, at any depth."""
        return (op for block in self.blocks for op in ops_of(block))


def blocks_of(node: Node) -> tuple[Block, ...]:
    """The blocks inside a node."""
    if isinstance(node, Op):  # most are
        return ()
    match node:
        case If():
            return (node.then, node.orelse)
        case For():
            return (node.body,)
        case While():
            return (node.test, node.body)
        case Custom():
            return tuple(b for b in (node.body, node.replay, node.gradient) if b is not None)


def operands(node: Node) -> list[Value]:
    """The values that a node itself uses, without those used inside its blocks."""
    if isinstance(node, Op):
        return list(node.args)
    match node:
        case If():
            return [node.condition]
        case For():
            return [node.count, *node.inits]
        case While():
            return list(node.inits)
        case Custom():
            return list(node.inputs)


def results_of(node: Node) -> list[Value]:
    """The values that a node gives to the block it stands in."""
    if isinstance(node, Op):
        return [node.result] if node.result is not None else []
    return node.results


def walk(block: Block) -> Iterator[Node]:
    """Every node of a block and of the blocks inside, in program order."""
    for node in block.ops:
        yield node
        if not isinstance(node, Op):
            for inner in blocks_of(node):
                yield from walk(inner)


def read_by(op: Op) -> frozenset[int]:
    """The array parameters whose values an operation reads."""
    if op.kind in NATIVE:
        reads: frozenset[int] = op.data[0].reads
        return reads
    return frozenset(op.data[:1]) if op.kind in ("load", "load_after", "atomic_add") else frozenset()


def is_late(op: Op) -> bool:
    """True if an operation reads arrays as the launch left them."""
    return op.kind == "load_after" or (op.kind in NATIVE and op.data[0].reads_final_values)


def ops_of(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks inside, in program order."""
    return (node for node in walk(block) if isinstance(node, Op))
