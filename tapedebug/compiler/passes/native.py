"""Calls of native functions in adjoints and tangents.

What a snippet does to arrays is not seen: a call counts as reading all arrays that it names, and as writing
to those that the C compiler does not let be constant. Where an adjoint needs what a call gave, the call is
made again, in copies of what it writes to; its results are noted like those of atomics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from tapedebug._errors import KernelTypeError
from tapedebug.compiler.ir import NATIVE, Function, Op, Value, ops_of, read_by
from tapedebug.compiler.native.function import NativeCall
from tapedebug.compiler.native.unit import ADJOINT, FORWARD
from tapedebug.compiler.passes.activity import active_on_path
from tapedebug.lang import types as t

if TYPE_CHECKING:
    from tapedebug.compiler.builder import Builder
    from tapedebug.compiler.passes.adjoint import Transform
    from tapedebug.compiler.passes.adjoint_loops import Values


def forward(transform: Transform, op: Op, known: Values, first: bool) -> None:
    """A call, or one of its results, in a forward sweep, or in a replay or gradient of the user's."""
    b, call = transform.builder, op.data[0]
    if op.kind == "native_result":
        token = known.get(op.args[0])
        if token is not None:  # else the log that follows recalls what it gave
            _result(b, op, token, known)
        return
    volatile = not transform.after and bool((call.reads | call.writes) & transform.replay)
    if volatile and not first:
        return
    assert op.result is not None
    args = tuple(transform.value(known, a) for a in op.args)
    if transform.after:
        call = replace(call, active=transform.active)
    does = bool(call.adjoints) if transform.after else volatile and bool(call.writes)
    known[op.result] = b.emit("native" if does else "native_value", args, t.int64, (call,))
    if does:
        b.forget_loads()


def touched_by(op: Op) -> frozenset[int]:
    """The array parameters whose values an operation of an adjoint depends on, or changes once more."""
    if op.kind in NATIVE and not op.data[0].reads_final_values:
        call: NativeCall = op.data[0]
        return call.reads | call.writes
    return read_by(op)


def _result(b: Builder, op: Op, token: Value, known: Values) -> None:
    assert op.result is not None
    known[op.result] = b.emit("native_result", (token,), op.result.type, (token_call(token), op.data[1]))
    known[op.result].hint = op.result.hint


def token_call(token: Value) -> NativeCall:
    """The call that a token stands for."""
    assert token.op is not None
    call: NativeCall = token.op.data[0]
    return call


def refuse_tangent(function: Function) -> None:
    """Refuse the tangent of a kernel whose native functions take arrays of floats.

    Raises:
        KernelTypeError: There is one.
    """
    for name in opaque(function):
        called = next(
            op for op in ops_of(function.body) if op.kind in NATIVE and op.data[0].native.name == name
        )
        raise KernelTypeError(
            f"kernel `{function.name}`: no tangent goes through the native function `{name}`, "
            "which takes arrays",
            span=called.span,
            hint="write it as a @wp.func, or let it take and return numbers",
        )


def refuse_second_order(op: Op, varied: set[Value], active: frozenset[int]) -> None:
    """Refuse the tangent of an adjoint snippet, for which there is no derivative.

    Raises:
        KernelTypeError: It would be needed.
    """
    call: NativeCall = op.data[0]
    moves = any(a in varied for a in op.args) or not active.isdisjoint(call.reads | call.adjoints)
    if call.variant == ADJOINT and moves:
        _no_second_derivative(op, "write it as a @wp.func, in the kernel language")


def refuse_reverse(op: Op) -> None:
    """Refuse the adjoint of what an adjoint snippet gave, in a kernel that uses `grad` of a native function.

    Raises:
        KernelTypeError: It is one.
    """
    if op.kind == "native_result" and op.data[0].variant == ADJOINT:
        hint = "write it as a @wp.func, or decorate the kernel with @wp.kernel(enable_backward=False)"
        _no_second_derivative(op, hint)


def _no_second_derivative(op: Op, hint: str) -> NoReturn:
    native = op.data[0].native
    raise KernelTypeError(
        f"the {'numba' if native.is_numba else 'native'} function `{native.name}` has no second derivative",
        span=op.span,
        hint=hint,
    )


def tangent(b: Builder, op: Op, args: tuple[Value, ...], known: Values, dots: Values) -> None:
    """A call or a result in a tangent; of what takes no arrays, with the tangents of results."""
    assert op.result is not None
    if op.kind in NATIVE:
        known[op.result] = b.emit(op.kind, args, t.int64, op.data)
        b.forget_loads()
        return
    known[op.result] = b.emit("native_result", args, op.result.type, op.data)
    if op.result.type in t.FLOATS and not op.data[0].params and op.data[0].native.snippets.adjoint:
        dot = _tangent_of_result(b, op, known, dots)
        if dot is not None:
            dots[op.result] = dot


def _tangent_of_result(b: Builder, op: Op, known: Values, dots: Values) -> Value | None:
    """The tangent of a result of a call without arrays: the adjoint of that result alone, times tangents."""
    call = token_call(op.args[0])
    source = op.args[0].op
    assert source is not None
    native = call.native
    words = native.signature.words(ADJOINT)
    values = iter(source.args)
    args: list[Value] = []
    primal: list[tuple[int, Value]] = []
    place_of = {(w.name, w.component): value for w, value in zip(call.words, source.args, strict=False)}
    chosen = call.words[op.data[1]].component
    for place, word in enumerate(words):
        assert word.scalar is not None
        if word.kind == "which":
            continue
        if word.kind == "value":
            given = next(values)
            args.append(known.get(given, given))
        elif word.kind == "adjoint":
            args.append(b.constant(0, word.scalar))
            primal.append((place, place_of[word.name, word.component]))
        else:
            args.append(b.constant(1 if word.component == chosen else 0, word.scalar))
    adjoint = NativeCall(native, ADJOINT, tuple(words), {})
    token = b.emit("native_value", tuple(args), t.int64, (adjoint,))
    total: Value | None = None
    for place, value in primal:
        if value in dots:
            slope = b.emit("native_result", (token,), value.type, (adjoint, place))
            part = b.apply("mul", slope, dots[value])
            total = part if total is None else b.apply("add", total, part)
    return total


def lost(function: Function, active: frozenset[int]) -> KernelTypeError | None:
    """The error of a gradient that would be lost: through a call without an adjoint snippet."""
    varied, useful = active_on_path(function, active)
    for op in ops_of(function.body):
        if (
            op.kind not in NATIVE
            or op.data[0].variant != FORWARD
            or op.data[0].native.snippets.adjoint is not None
        ):
            continue
        call: NativeCall = op.data[0]
        into = bool(call.reads & active) or any(a in varied for a in op.args)
        results = (r for r in ops_of(function.body) if r.kind == "native_result" and r.args[0] is op.result)
        onto = bool(call.writes & active) or any(r.result in useful for r in results)
        if into and onto:
            return KernelTypeError(
                f"kernel `{function.name}`: the native function `{call.native.name}` has no adjoint snippet, "
                "and a gradient goes through it",
                span=op.span,
                hint='give func_native an adj_snippet; adj_snippet="" says that no gradient is meant to flow',
            )
    return None


def opaque(function: Function) -> tuple[str, ...]:
    """The native functions through which no tangent can be pushed: those that take arrays of floats."""
    found: dict[str, None] = {}
    for op in ops_of(function.body):
        if op.kind in NATIVE:
            call: NativeCall = op.data[0]
            kinds = dict(call.native.signature.parameters)
            touched = call.native.mentioned(FORWARD)
            if any(t.is_float(kinds[name]) for name in touched):
                found[call.native.name] = None
    return tuple(found)
