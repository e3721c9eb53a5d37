"""Random numbers, which advance the variable that holds the state; searches; octaves of noise."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.lower import construct, contents, expressions, in_place, library
from tapedebug.compiler.lower._context import ArrayView, Context, Item, Items, Static
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin
from tapedebug.lang.rules import DRAWS, Quantity
from tapedebug.lang.rules.random import Draw, Stream, require_state

STATE = "a state of random numbers"


def draws_from(ctx: Context, body: Sequence[ast.AST]) -> Iterator[str]:
    """The variables whose states are advanced by calls in statements or expressions."""
    for node in (inner for outer in body for inner in ast.walk(outer)):
        if (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Name)
            and _drawing(ctx, node)
        ):
            yield node.args[0].id


def _drawing(ctx: Context, node: ast.Call) -> bool:
    """True if a call draws a random number, under any name."""
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in ctx.env or root.id in ctx.locals:
        return False
    item = expressions.lower(ctx, node.func)
    return isinstance(item, Static) and isinstance(item.value, Builtin) and item.value.name in DRAWS


def draw(ctx: Context, node: ast.Call, name: str) -> Item:
    """The value of a draw; the variable that is given as its state holds the next one afterwards."""
    entry = DRAWS[name]
    if len(node.args) - 1 not in entry.arities:
        takes = " or ".join(str(n + 1) for n in entry.arities)
        word = "argument" if entry.arities == (0,) else "arguments"
        hint = f"{name}({entry.signature}): {entry.doc}"
        ctx.type_error(node, f"{name}() takes {takes} {word}; got {len(node.args)}", hint)
    if entry.build is None:
        return _from_library(ctx, node, entry)
    operands = [expressions.argument(ctx, a) for a in node.args[1:]]
    stream = Stream(ctx.guarded(node, f"{name}()", require_state, _state(ctx, node)))
    ctx.at(node)
    result: Quantity = ctx.guarded(
        node, f"{name}()", entry.build, stream, *in_place.stopped(ctx, name, tuple(operands))
    )
    _advance(ctx, node, Quantity(t.uint32, (stream.state,)))
    return result


def _from_library(ctx: Context, node: ast.Call, entry: Draw) -> Item:
    """A draw with loops: the number of states that it uses depends on what is drawn."""
    if entry.name == "sample_cdf":
        view = _sorted_array(ctx, node, node.args[1], "sample_cdf", (t.float32,))
        operands: list[Item] = [view, library.length(ctx, view)]
    else:
        mean = expressions.argument(ctx, node.args[1])
        operands = [mean]
        if mean.type is not t.float32:
            got = t.type_name(mean.type)
            ctx.type_error(
                node.args[1], f"poisson() takes a mean of float32; got {got}", "convert it with float(…)"
            )
    state = _state(ctx, node)
    ctx.guarded(node, f"{entry.name}()", require_state, state)
    result = library.run(ctx, node, getattr(library, entry.name), state, *operands)
    assert isinstance(result, Items)
    after, value = result.items
    assert isinstance(after, Quantity)
    _advance(ctx, node, after)
    return value


def _state(ctx: Context, node: ast.Call) -> Quantity:
    """The state that a draw begins with."""
    given, name = node.args[0], ast.unparse(node.func)
    if isinstance(given, ast.Subscript | ast.Attribute):
        ctx.syntax_error(
            given,
            f"`{ast.unparse(given)}` would not be advanced: {name}() advances a variable",
            f"read it into a variable, draw, and write it back: state = {ast.unparse(given)}",
        )
    if isinstance(given, ast.Name) and given.id not in ctx.env and given.id not in ctx.locals:
        ctx.lookup(given)  # which says if it is not defined at all
        ctx.syntax_error(
            given,
            f"`{given.id}` comes from outside the function and cannot be advanced",
            f"copy it first: state = {given.id}",
        )
    return expressions.value(ctx, given, STATE)


def _advance(ctx: Context, node: ast.Call, state: Quantity) -> None:
    """Let the variable hold the next state; what is no variable was made for this one draw."""
    given = node.args[0]
    if isinstance(given, ast.Name):
        state.scalar.value.hint = state.scalar.value.hint or given.id
        ctx.env[given.id] = state


# Searches --------------------------------------------------------------------------------------------------


def _sorted_array(
    ctx: Context, node: ast.Call, given: ast.expr, name: str, kinds: tuple[type[t.Scalar], ...]
) -> ArrayView:
    """The array that is searched: of one dimension, of numbers."""
    item = expressions.lower(ctx, given)
    if not isinstance(item, ArrayView) or item.free != 1 or item.param.type.dtype not in kinds:
        of = "float" if kinds == (t.float32,) else "numbers"
        got = t.type_name(item.param.type) if isinstance(item, ArrayView) else contents.kind_of(item)
        ctx.type_error(
            given,
            f"{name}() takes an array of {of} with one dimension; got {got}",
            f"pass an array parameter, such as a: wp.array(dtype={'float' if of == 'float' else 'int'})",
        )
    return item


def lower_bound(ctx: Context, node: ast.Call) -> Item:
    """`lower_bound(array, value)`, or `lower_bound(array, begin, end, value)`."""
    if len(node.args) not in (2, 4):
        ctx.type_error(
            node,
            f"lower_bound() takes 2 or 4 arguments; got {len(node.args)}",
            "write lower_bound(array, value) or lower_bound(array, begin, end, value)",
        )
    view = _sorted_array(ctx, node, node.args[0], "lower_bound", (*t.INTEGERS, *t.FLOATS))
    *bounds, value = [expressions.argument(ctx, a) for a in node.args[1:]]
    if value.type is not view.param.type.dtype:
        holds, got = t.type_name(view.param.type.dtype), t.type_name(value.type)
        message = f"`{view.param.name}` holds {holds}, in which lower_bound() cannot search {got}"
        ctx.type_error(
            node.args[-1], message, f"convert the value with {t.conversion(view.param.type.dtype)}"
        )
    if any(b.type is not t.int32 for b in bounds):
        ctx.type_error(node, "lower_bound() searches between integers (int32)", "convert them with int(…)")
    if not bounds:
        zero = expressions.wrap(ctx, ctx.builder.constant(0, t.int32))
        bounds = [zero, library.length(ctx, view)]
    return library.run(ctx, node, library.lower_bound, view, *bounds, value)


# Octaves of noise ------------------------------------------------------------------------------------------

OCTAVES = ("state", "x", "octaves", "lacunarity", "gain")


def curlnoise(ctx: Context, node: ast.Call) -> Item:
    """`curlnoise(state, x, octaves, lacunarity, gain)`: one octave is a composite, more are a loop."""
    given = dict(zip(OCTAVES, node.args, strict=False))
    given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
    known = len(node.args) + len(node.keywords) == len(given) and set(given) <= set(OCTAVES)
    if not known or not {"state", "x"} <= set(given):
        hint = "write curlnoise(state, x, octaves=1, lacunarity=2.0, gain=0.5)"
        ctx.type_error(node, "curlnoise() takes a state and a point, then octaves, lacunarity, gain", hint)
    state, x = (expressions.argument(ctx, given[name]) for name in ("state", "x"))
    octaves = expressions.argument(ctx, given["octaves"]) if "octaves" in given else None
    kind = t.scalar_of(x.type)
    weights = [
        _weight(ctx, node, given, name, usual, kind) for name, usual in (("lacunarity", 2.0), ("gain", 0.5))
    ]
    if octaves is None or (octaves.type in t.INTEGERS and constant_of(octaves.scalar.value) == 1):
        return expressions.apply(ctx, node, "curlnoise", "curlnoise()", state, x)
    if octaves.type not in t.INTEGERS:
        got = t.type_name(octaves.type)
        ctx.type_error(
            given["octaves"], f"octaves are an integer; got {got}", "write a whole number, such as 3"
        )
    if not t.is_vector(x.type) or state.type is not t.uint32:
        return expressions.apply(ctx, node, "curlnoise", "curlnoise()", state, x)  # which refuses them
    plane = x.type.length == len("xy")
    zeros = construct.zeros(ctx, t.vector(2 if plane else 3, kind))
    one = expressions.wrap(ctx, ctx.builder.constant(1, kind))
    function = library.curlnoise_in_plane if plane else library.curlnoise_in_space
    return library.run(ctx, node, function, state, x, octaves, *weights, zeros, one)


def _weight(
    ctx: Context, node: ast.Call, given: dict[str, ast.expr], name: str, usual: float, kind: type[t.Scalar]
) -> Quantity:
    if name not in given:
        return expressions.wrap(ctx, ctx.builder.constant(usual, kind))
    q = expressions.argument(ctx, given[name])
    if q.type is not kind:
        of, got = t.type_name(kind), t.type_name(q.type)
        message = f"{name} of curlnoise() is {of}, as the point; got {got}"
        ctx.type_error(given[name], message, f"convert it with {t.conversion(kind)}")
    return q
