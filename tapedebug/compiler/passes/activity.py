"""Activity analysis: find values that depend on an active input and reach an active output."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tapedebug.compiler.ir import (
    ADJOINT,
    NATIVE,
    Block,
    Custom,
    For,
    Function,
    If,
    Node,
    Op,
    Value,
    While,
    ops_of,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

SOURCES = frozenset({"load", "atomic_add", "load_after", "load_adjoint"})


def active_values(
    function: Function, active: frozenset[int], replaced: Mapping[Value, Value] | None = None
) -> set[Value]:
    """The float values on a path from a load of an active array to a store into one.

    Args:
        function: A kernel in IR.
        active: The array parameters that have a gradient.
        replaced: Values that count as operands beside the others, by the result.
    """
    varied, useful = _Varied(active), _Useful(active)
    varied.beside = useful.beside = replaced or {}
    return varied.run(function.body) & useful.run(function.body)


def varied_values(function: Function, active: frozenset[int]) -> set[Value]:
    """The float values that depend on what an active array (or its adjoint, in an adjoint) holds."""
    varied = _Varied(active)
    for block in function.blocks:
        varied.run(block)
    return varied.found


def active_on_path(function: Function, active: frozenset[int]) -> tuple[set[Value], set[Value]]:
    """The float values that depend on active arrays, and those that what is stored into them depends on."""
    return _Varied(active).run(function.body), _Useful(active).run(function.body)


def values_between(body: Block, inputs: list[Value], results: list[Value]) -> set[Value]:
    """The float values on a path from `inputs` to `results`; what arrays hold is constant."""
    from_inputs, to_results = _Varied(frozenset()), _Useful(frozenset())
    from_inputs.found.update(inputs)
    to_results.found.update(results)
    return from_inputs.run(body) & to_results.run(body)


def _accesses_adjoint(gradient: Block, active: frozenset[int], kinds: frozenset[str]) -> bool:
    """True if a custom gradient accesses the adjoint of an active array itself."""
    return any(
        not active.isdisjoint(op.data[0].adjoints)
        if op.kind in NATIVE
        else op.kind in kinds and op.data[0] in active
        for op in ops_of(gradient)
    )


class _Reached:
    """Values that a property reaches, step by step, until nothing more is found."""

    beside: Mapping[Value, Value] = MappingProxyType({})
    """Values that count as operands beside the others, by the result."""

    def __init__(self, active: frozenset[int]) -> None:
        self.active = active
        self.found: set[Value] = set()

    def run(self, body: Block) -> set[Value]:
        while True:
            before = len(self.found)
            self._block(body)
            if len(self.found) == before:
                return self.found

    def _block(self, block: Block) -> None:
        raise NotImplementedError

    def _flow(self, start: list[Value], end: list[Value]) -> None:
        """Propagate the property from the values at the start to those at the end."""
        for one, other in zip(start, end, strict=True):
            if one in self.found:
                self.found.add(other)


class _Varied(_Reached):
    """Forward: values that depend on what an active array holds."""

    def __init__(self, active: frozenset[int]) -> None:
        super().__init__(active)
        self.kept: set[tuple[int, int]] = set()
        """Carried values of loops, as they were saved."""

    def _block(self, block: Block) -> None:
        for node in block.ops:
            self._node(node)

    def _node(self, node: Node) -> None:
        match node:
            case If():
                self._block(node.then)
                self._block(node.orelse)
                self._flow(node.then.yields, node.results)
                self._flow(node.orelse.yields, node.results)
            case For() | While():
                self._flow(node.inits, node.carried)
                if isinstance(node, While):
                    self._block(node.test)
                self._block(node.body)
                self._flow(node.body.yields, node.carried)
                self._flow(node.carried, node.results)
            case Custom(gradient=None):
                self._block(node.body)
            case Custom():
                assert node.gradient is not None
                into = any(v in self.found for v in node.inputs)
                if into or _accesses_adjoint(node.gradient, self.active, ADJOINT):
                    self.found.update(r for r in node.results if r.type in t.FLOATS)
            case Op():
                self._op(node)

    def _op(self, op: Op) -> None:
        if op.kind == "save" and op.args[1] in self.found:
            self.kept.add(op.data)
        if op.result is None or op.result.type not in t.FLOATS:
            return
        if op.kind in SOURCES:
            varied = op.data[0] in self.active
        elif op.kind == "native_result":
            varied = self._from_native(op)
        elif op.kind == "restore":
            varied = op.data in self.kept
        elif op.kind == "log_load":
            varied = True  # values in a log are not distinguished
        else:
            rule = RULES.get(op.kind)
            operands = (*op.args, self.beside.get(op.result))
            varied = bool(rule and rule.differentiable) and any(a in self.found for a in operands)
        if varied:
            self.found.add(op.result)

    def _from_native(self, op: Op) -> bool:
        """True if a native function passes on a derivative. In adjoints it is a `Custom`."""
        call = op.args[0].op
        assert call is not None
        return bool(op.data[0].native.snippets.adjoint) and any(a in self.found for a in call.args)


class _Useful(_Reached):
    """Backward: values that what is stored into an active array depends on."""

    def _block(self, block: Block) -> None:
        for node in reversed(block.ops):
            self._node(node)

    def _node(self, node: Node) -> None:
        match node:
            case If():
                self._flow(node.results, node.then.yields)
                self._flow(node.results, node.orelse.yields)
                self._block(node.then)
                self._block(node.orelse)
            case For() | While():
                # A carried value is one thing: useful after the loop, it is so inside, used there or not.
                self._flow(node.results, node.carried)
                self._flow(node.carried, node.body.yields)
                self._block(node.body)
                self._flow(node.carried, node.inits)
            case Custom(gradient=None):
                self._block(node.body)
            case Custom():
                assert node.gradient is not None
                onto = any(r in self.found for r in node.results)
                if onto or _accesses_adjoint(node.gradient, self.active, frozenset({"load_adjoint"})):
                    self.found.update(node.inputs)
            case Op():
                if node.kind in ("store", "atomic_add") and node.data[0] in self.active:
                    self.found.add(node.args[1])
                if node.result in self.found and node.kind in RULES:
                    self.found.update(a for a in node.args if a.type in t.FLOATS)
                    if node.result in self.beside:
                        self.found.add(self.beside[node.result])
