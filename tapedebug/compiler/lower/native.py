"""Calls of native functions: a frame of words in, results out, and the adjoint snippet as their gradient."""

from __future__ import annotations

import ast
from typing import NoReturn

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.effects import AccessRecord
from tapedebug.compiler.function import Function
from tapedebug.compiler.ir import Block, Custom, Value
from tapedebug.compiler.lower._context import ArrayView, Context, Item, Items, Slice
from tapedebug.compiler.native.function import Native, NativeCall
from tapedebug.compiler.native.unit import ADJOINT, FORWARD, REPLAY
from tapedebug.lang import types as t
from tapedebug.lang.rules import Expr, Quantity


def call(
    ctx: Context,
    node: ast.Call,
    function: Function,
    env: dict[str, Item],
    after: dict[str, Item] | None = None,
) -> Item:
    """The result of a call; the values of its parameters by reference are put in `after`."""
    native = function.native
    assert native is not None
    native.symbol(FORWARD)  # which shows what C refuses
    made = _Call(ctx, node, native, env)
    with ctx.builder.region() as body:
        token = made.emit(FORWARD)
        body.yields = made.results(token)
        given = len(body.yields)
        body.yields += made.changed(token)
    made.note_accesses()
    region = Custom(native.name, body, None, None, [], [], [], ctx.span(node))
    if not ctx.in_custom:
        _companions(ctx, native, made, region)
    ctx.at(node)
    if region.replay is None and region.gradient is None:
        for op in body.ops:
            ctx.builder.append(op)
    else:
        ctx.builder.append(region)
    if made.writes:
        ctx.builder.forget_loads()
        ctx.uses_atomic_result = True  # what threads write may meet: their order counts
    rest = iter(body.yields[given:])
    for name, kind in native.signature.parameters:
        if name in native.signature.references and after is not None:
            parts = tuple(ctx.builder.expr(next(rest)) for _ in range(t.components(kind)))
            after[name] = Quantity(kind, parts)
    if native.signature.result is None:
        return Items(())
    return Quantity(native.signature.result, tuple(ctx.builder.expr(v) for v in body.yields[:given]))


def _companions(ctx: Context, native: Native, made: _Call, region: Custom) -> None:
    """The replay, where it writes to nothing, and the gradient."""
    snippets = native.snippets
    pure = native.signature.result is not None and not native.signature.references
    if snippets.replay is not None and not native.written(REPLAY) and pure:
        with ctx.builder.block() as block:
            block.yields = made.results(made.emit(REPLAY))
        region.replay = block
    if snippets.adjoint:
        region.gradient = _gradient(ctx, native, made, region)


def _gradient(ctx: Context, native: Native, made: _Call, region: Custom) -> Block:
    words = native.signature.words(ADJOINT)
    seeds = {w.component: Value(w.scalar, "adj_ret") for w in words if w.kind == "seed" and w.scalar}
    results = native.signature.result_size
    region.seeds = [
        seeds.get(k) or Value(v.type, "adj_ret") for k, v in enumerate(region.body.yields[:results])
    ]
    region.seeds += [Value(v.type, "adj_ref") for v in region.body.yields[results:]]
    of_references = dict(zip(native.signature.referred, region.seeds[results:], strict=True))
    before: dict[int, Value] = {}
    for place, word in enumerate(words):
        if word.kind == "adjoint" and word.scalar is not None:
            before[place] = Value(word.scalar, f"adj_{word.name}")
            region.inputs.append(made.value(word.name, word.component))
    region.before = list(before.values())
    # What the snippet finds in the adjoint of a reference belongs to the value after the call, and what it
    # leaves there to the value before.
    own = {
        place: of_references.get((words[place].name, words[place].component), v)
        for place, v in before.items()
    }
    with ctx.builder.block() as block:
        token = made.emit(ADJOINT, own, seeds)
        call: NativeCall = token.op.data[0]  # type: ignore[union-attr]
        for place, v in before.items():
            now = ctx.builder.emit("native_result", (token,), v.type, (call, place))
            block.yields.append(now if own[place] is v else ctx.builder.apply("add", v, now))
    return block


class _Call:
    """A call in the making: its arguments as words."""

    def __init__(self, ctx: Context, node: ast.Call, native: Native, env: dict[str, Item]) -> None:
        self.ctx, self.node, self.native = ctx, node, native
        self.views: dict[str, ArrayView] = {}
        self.parts: dict[str, tuple[Expr, ...]] = {}
        self.offsets: dict[str, Value] = {}
        for name, _ in native.signature.parameters:
            item = env[name]
            if isinstance(item, ArrayView):
                self.views[name] = item
                self.offsets[name] = self._offset(name, item)
            else:
                self.parts[name] = ctx.quantity(node, item).parts
        self.params = {name: view.param.index for name, view in self.views.items()}
        self.writes = frozenset(self.params[name] for name in native.written(FORWARD))

    def _offset(self, name: str, view: ArrayView) -> Value:
        """Return the offset of a view in its array, in scalars. The view must be contiguous."""
        zero = self.ctx.builder.constant(0, t.int64)
        if view.adjoint:
            message = f"`{name}` of {self.native.name}() is given an adjoint array"
            self.ctx.type_error(self.node, message, "pass the array: adj_snippet has its adjoint")
        given = [*view.indices]
        rows = [index for index in given if isinstance(index, Value)]
        rest = given[len(rows) :]
        first = rest[0] if rest else None
        if given[: len(rows)] != rows or any(index is not None for index in rest[1:]):
            self._refuse(name, view)
        if isinstance(first, Slice) and first.step != 1:
            self._refuse(name, view)
        starts = [*rows, *([first.start] if isinstance(first, Slice) else [])]
        if all(constant_of(s) == 0 for s in starts):
            return zero
        starts += [zero] * (view.param.type.ndim - len(starts))
        return self.ctx.builder.offset(view.param.index, tuple(starts))

    def _refuse(self, name: str, view: ArrayView) -> NoReturn:
        self.ctx.type_error(
            self.node,
            f"`{name}` of {self.native.name}() is given `{view.shown}`, which is not one piece of memory",
            "C sees a pointer: pass the whole array, or a row of it",
        )

    def value(self, name: str, component: int) -> Value:
        """A component of a number or vector."""
        value: Value = self.parts[name][component].value
        return value

    def emit(
        self, variant: str, before: dict[int, Value] | None = None, seeds: dict[int, Value] | None = None
    ) -> Value:
        """The call of a variant; the value stands for the frame after it."""
        words = tuple(self.native.signature.words(variant))
        args: list[Value] = []
        for place, word in enumerate(words):
            if word.kind in ("array", "array_adjoint"):
                args.append(self.offsets[word.name])
            elif word.kind == "value":
                args.append(self.value(word.name, word.component))
            elif word.kind == "adjoint":
                args.append((before or {})[place])
            elif word.kind == "seed":
                args.append((seeds or {})[word.component])
        call = NativeCall(self.native, variant, words, self.params)
        if variant == ADJOINT:
            effect = bool(call.adjoints)
        else:  # what gives no result is called for what else it does: it may print
            effect = variant == FORWARD and (bool(self.writes) or self.native.signature.result is None)
        return self.ctx.builder.emit("native" if effect else "native_value", tuple(args), t.int64, (call,))

    def results(self, token: Value) -> list[Value]:
        """The words of the result, after a call."""
        call: NativeCall = token.op.data[0]  # type: ignore[union-attr]
        return [
            self.ctx.builder.emit("native_result", (token,), word.scalar, (call, place))
            for place, word in enumerate(call.words)
            if word.kind == "result"
        ]

    def changed(self, token: Value) -> list[Value]:
        """The words of the parameters by reference, after a call."""
        call: NativeCall = token.op.data[0]  # type: ignore[union-attr]
        return [
            self.ctx.builder.emit("native_result", (token,), word.scalar, (call, place))
            for place, word in enumerate(call.words)
            if word.kind == "value" and word.name in self.native.signature.references
        ]

    def note_accesses(self) -> None:
        """Record the places where the kernel's arrays are accessed, for messages."""
        read = self.native.read(FORWARD)
        span = self.ctx.span(self.node)
        for name, param in self.params.items():
            if name in read:
                self.ctx.accesses.append(AccessRecord(param, "read", span))
            if param in self.writes:
                self.ctx.accesses.append(AccessRecord(param, "write", span))
