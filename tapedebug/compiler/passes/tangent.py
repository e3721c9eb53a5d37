"""The tangent of a kernel: values and directional derivatives together, in one forward sweep.

Each value that depends on an active array gets a tangent beside it, `dot_r = Σ ∂r/∂x · dot_x`, by the same
partial derivatives that the adjoint uses, transposed. Tangent arrays stand in the slots of adjoint arrays; a
store writes the value and its tangent, an atomic adds both.
"""

from __future__ import annotations

from tapedebug.compiler.builder import Builder, is_free
from tapedebug.compiler.ir import NATIVE, Block, For, Function, If, Op, Value, While
from tapedebug.compiler.passes import native
from tapedebug.compiler.passes.activity import varied_values
from tapedebug.compiler.passes.adjoint import pulled_back
from tapedebug.compiler.passes.verify import InvalidIR
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

Values = dict[Value, Value]


def tangent_of(function: Function, active: frozenset[int], *, strong_zero: bool = False) -> Function:
    """The function that runs a kernel and pushes tangents forward.

    Args:
        function: A kernel in IR.
        active: The array parameters that have a tangent array.
        strong_zero: Whether a zero tangent stays zero, whatever it is multiplied with.
    """
    transform = Tangents(function, active, strong_zero)
    transform.block(function.body, {}, {})
    return Function(f"dot_{function.name}", function.params, transform.builder.root, function.axes)


class Tangents:
    """The tangent in the making.

    Args:
        function: What it is the tangent of.
        active: The array parameters that have a tangent array.
        strong_zero: Whether a zero tangent stays zero.
    """

    def __init__(self, function: Function, active: frozenset[int], strong_zero: bool) -> None:
        self.active = active
        self.strong_zero = strong_zero
        self.varied = varied_values(function, active)
        self.builder = Builder()

    def block(self, block: Block, known: Values, dots: Values) -> None:
        """Lower a block's operations, each with its tangent.

        Args:
            block: The primal block.
            known: The value that each primal value has here; added to.
            dots: The tangent of each primal value that has one; added to.
        """
        for node in block.ops:
            self.builder.span = node.span
            match node:
                case Op():
                    self._op(node, known, dots)
                case If():
                    self._if(node, known, dots)
                case For() | While():
                    self._loop(node, known, dots)

    def value(self, known: Values, primal: Value) -> Value:
        """The value that a primal value has in the tangent."""
        return primal if is_free(primal) else known[primal]

    def _dot(self, dots: Values, primal: Value) -> Value:
        """The tangent of a value, zero where it has none."""
        found = dots.get(primal)
        return found if found is not None else self.builder.constant(0, primal.type)

    def _op(self, op: Op, known: Values, dots: Values) -> None:
        b = self.builder
        args = tuple(self.value(known, a) for a in op.args)
        if op.kind in RULES:
            assert op.result is not None
            known[op.result] = b.apply(op.kind, *args)
            if op.result in self.varied:
                self._push(op, known, dots)
            return
        if op.kind in NATIVE or op.kind == "native_result":
            if op.kind in NATIVE:
                native.refuse_second_order(op, self.varied, self.active)
            native.tangent(b, op, args, known, dots)
            return
        if op.kind == "offset":
            assert op.result is not None
            known[op.result] = b.offset(op.data[0], args)
            return
        self._effect(op, args, known, dots)

    def _effect(self, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
        """An operation on memory."""
        b = self.builder
        param, component = op.data
        moving = self._moves(op)
        if moving and op.result in self.varied:
            self._dot_loaded("load_adjoint", op, args, dots)
        if op.kind == "load":
            assert op.result is not None
            known[op.result] = b.load(param, component, args[0], op.result.type)
        elif op.kind == "store":
            b.store(param, component, *args)
            if moving:
                b.effect("store_adjoint", (args[0], self._dot(dots, op.args[1])), op.data)
        elif op.kind == "atomic_add":
            assert op.result is not None
            known[op.result] = b.atomic_add(param, component, *args)
            if moving and op.args[1] in dots:
                b.effect("add_adjoint", (args[0], dots[op.args[1]]), op.data)
        else:
            raise InvalidIR(f"tangents know no operation {op.kind!r}")

    def _moves(self, op: Op) -> bool:
        """True if the elements that an operation reads or writes have tangents."""
        return op.data[0] in self.active and (op.result or op.args[1]).type in t.FLOATS

    def _dot_loaded(self, kind: str, op: Op, args: tuple[Value, ...], dots: Values) -> None:
        assert op.result is not None
        dots[op.result] = self.builder.emit(kind, args[:1], op.result.type, op.data)
        dots[op.result].hint = f"dot_{op.result.hint}" if op.result.hint else ""

    def _push(self, op: Op, known: Values, dots: Values) -> None:
        rule, b = RULES[op.kind], self.builder
        assert op.result is not None
        if isinstance(rule.partials, str):
            return
        exprs = [b.expr(self.value(known, a)) for a in op.args]
        result = b.expr(known[op.result])
        total: Value | None = None
        for argument, partial in zip(op.args, rule.partials, strict=True):
            if partial is None or argument not in dots:
                continue
            seed, kind = b.expr(dots[argument]), op.result.type
            part = pulled_back(partial(*exprs, result), seed, kind, strong_zero=self.strong_zero)
            total = part if total is None else b.apply("add", total, part)
        if total is not None:
            if op.result.hint and not total.hint:
                total.hint = f"dot_{op.result.hint}"
            dots[op.result] = total

    def _moving(self, values: list[Value]) -> list[int]:
        return [k for k, v in enumerate(values) if v in self.varied]

    def _fresh(self, values: list[Value], moving: list[int]) -> tuple[list[Value], list[Value]]:
        plain = [Value(v.type, v.hint) for v in values]
        return plain, [
            Value(values[k].type, f"dot_{values[k].hint}" if values[k].hint else "") for k in moving
        ]

    def _if(self, node: If, known: Values, dots: Values) -> None:
        moving = self._moving(node.results)
        blocks = []
        for inner in (node.then, node.orelse):
            inside, local = dict(known), dict(dots)
            with self.builder.block() as block:
                self.block(inner, inside, local)
                block.yields = [self.value(inside, v) for v in inner.yields]
                block.yields += [self._dot(local, inner.yields[k]) for k in moving]
            blocks.append(block)
        results, moved = self._fresh(node.results, moving)
        condition = self.value(known, node.condition)
        self.builder.append(If(condition, blocks[0], blocks[1], [*results, *moved], node.span))
        self.builder.forget_loads()
        known.update(zip(node.results, results, strict=True))
        dots.update({node.results[k]: v for k, v in zip(moving, moved, strict=True)})

    def _loop(self, node: For | While, known: Values, dots: Values) -> None:
        b = self.builder
        moving = self._moving(node.carried)
        inits = [self.value(known, v) for v in node.inits] + [self._dot(dots, node.inits[k]) for k in moving]
        carried, moved = self._fresh(node.carried, moving)
        inside = {**known, **dict(zip(node.carried, carried, strict=True))}
        local = {**dots, **{node.carried[k]: v for k, v in zip(moving, moved, strict=True)}}
        index = Value(t.int64, "k")
        if isinstance(node, For):
            inside[node.index] = index
        b.forget_loads()
        test = Block()
        if isinstance(node, While):
            within = dict(inside)
            with b.block() as test:
                self.block(node.test, within, dict(local))
                test.yields = [self.value(within, v) for v in node.test.yields]
            b.forget_loads()
        with b.block() as body:
            self.block(node.body, inside, local)
            body.yields = [self.value(inside, v) for v in node.body.yields]
            body.yields += [self._dot(local, node.body.yields[k]) for k in moving]
        b.forget_loads()
        results, ends = self._fresh(node.results, moving)
        both, after = [*carried, *moved], [*results, *ends]
        if isinstance(node, For):
            count = self.value(known, node.count)
            b.append(For(count, index, inits, both, body, after, node.span, node.reverse))
        else:
            b.append(While(inits, both, test, body, after, node.span))
        known.update(zip(node.results, results, strict=True))
        dots.update({node.results[k]: v for k, v in zip(moving, ends, strict=True)})
