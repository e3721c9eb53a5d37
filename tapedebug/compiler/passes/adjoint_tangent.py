"""The tangent of an adjoint: adjoints together with their directional derivatives, for second derivatives.

What the adjoint reads, of arrays and of adjoint arrays, has a tangent beside it, and so has what it writes:
to adjoint arrays, to the scratch copies in which it does stores again, and to what it keeps of loops and in
the log.
"""

from __future__ import annotations

from tapedebug.compiler.ir import KEEPING, Block, Function, Op, Value
from tapedebug.compiler.passes.tangent import Tangents, Values
from tapedebug.compiler.passes.verify import InvalidIR
from tapedebug.lang import types as t


def adjoint_tangent_of(adjoint: Function, active: frozenset[int], *, strong_zero: bool = False) -> Function:
    """The function that does what an adjoint does and pushes tangents through it.

    Args:
        adjoint: An adjoint in IR.
        active: The array parameters that have an adjoint array, and tangent arrays of both.
        strong_zero: Whether a zero tangent stays zero, whatever it is multiplied with.
    """
    prelude: Block | None = None
    if adjoint.prelude is not None:
        prelude = _moved(adjoint, adjoint.prelude, active, strong_zero)
    body = _moved(adjoint, adjoint.body, active, strong_zero)
    return Function(f"dot_{adjoint.name}", adjoint.params, body, adjoint.axes, prelude, adjoint.backwards)


def _moved(adjoint: Function, block: Block, active: frozenset[int], strong_zero: bool) -> Block:
    transform = _AdjointTangents(adjoint, active, strong_zero)
    known: Values = {}
    transform.block(block, known, {})
    moved = transform.builder.root
    moved.yields = [transform.value(known, v) for v in block.yields]
    return moved


class _AdjointTangents(Tangents):
    def _effect(self, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
        if op.kind in KEEPING:
            self._keep(op, args, known, dots)
        elif op.kind in ("log_push", "log_load"):
            self._log(op, args, known, dots)
        elif op.result is not None:
            self._read(op, args, known, dots)
        else:
            self._write(op, args, dots)

    def _read(self, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
        b = self.builder
        assert op.result is not None
        moving = self._moves(op)
        if moving and op.result in self.varied:
            of_adjoint = op.kind == "load_adjoint"
            self._dot_loaded("load_adjoint_dot" if of_adjoint else "load_dot", op, args, dots)
        if op.kind == "load":
            param, component = op.data
            known[op.result] = b.load(param, component, args[0], op.result.type)
        elif op.kind == "atomic_add":  # a store that is done again
            known[op.result] = b.atomic_add(*op.data, *args)
            if moving and op.args[1] in dots:
                b.effect("add_dot", (args[0], dots[op.args[1]]), op.data)
        else:
            known[op.result] = b.emit(op.kind, args, op.result.type, op.data)

    def _write(self, op: Op, args: tuple[Value, ...], dots: Values) -> None:
        b = self.builder
        moving, value = self._moves(op), op.args[1]
        match op.kind:
            case "store":
                b.store(*op.data, *args)
                if moving:
                    b.effect("store_dot", (args[0], self._dot(dots, value)), op.data)
            case "store_adjoint":
                b.effect(op.kind, args, op.data)
                b.effect("store_adjoint_dot", (args[0], self._dot(dots, value)), op.data)
            case "add_adjoint":
                b.effect(op.kind, args, op.data)
                if value in dots:
                    b.effect("add_adjoint_dot", (args[0], dots[value]), op.data)
            case _:
                raise InvalidIR(f"tangents of adjoints know no operation {op.kind!r}")

    def _keep(self, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
        """Store values for loops: the tangent of slot k in slot 2k + 1, the value in slot 2k."""
        b = self.builder
        if op.kind not in ("save", "restore"):
            b.effect(op.kind, args, op.data)
            return
        tag, slot = op.data
        if op.kind == "save":
            b.effect("save", args, (tag, 2 * slot))
            if op.args[1] in self.varied:
                b.effect("save", (args[0], self._dot(dots, op.args[1])), (tag, 2 * slot + 1))
            return
        assert op.result is not None
        known[op.result] = b.emit("restore", args, op.result.type, (tag, 2 * slot))
        if op.result in self.varied:
            dots[op.result] = b.emit("restore", args, op.result.type, (tag, 2 * slot + 1))

    def _log(self, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
        """The log: the value of place p at 2p, its tangent at 2p + 1."""
        b = self.builder
        place = b.apply("add", args[0], args[0])
        beside = b.apply("add", place, b.constant(1, t.int64))
        moved = op.result or op.args[1]
        if op.kind == "log_push":
            b.effect("log_push", (place, args[1]))
            if moved.type in t.FLOATS:
                b.effect("log_push", (beside, self._dot(dots, moved)))
            return
        known[moved] = b.emit("log_load", (place,), moved.type)
        if moved.type in t.FLOATS:
            dots[moved] = b.emit("log_load", (beside,), moved.type)
