"""Functions with a custom gradient or replay: their calls, and `adjoint[x]` inside gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NoReturn

from tapedebug._errors import KernelSyntaxError, KernelTypeError
from tapedebug.compiler import ir
from tapedebug.compiler.function import Function
from tapedebug.compiler.ir import Block, Custom, Value
from tapedebug.compiler.lower import adjoints, arguments, calls, contents, numba, random, references
from tapedebug.compiler.lower._context import Context, Item, Items, View, counted
from tapedebug.lang import types as t
from tapedebug.lang.builtins import adjoint
from tapedebug.lang.rules import Quantity

PREFIX = "%adjoint "
"""In a gradient, the variable `PREFIX + x` is the adjoint of the input `x`."""


# Calls -----------------------------------------------------------------------------------------------------


def call(ctx: Context, node: ast.Call, function: Function, inputs: dict[str, Item]) -> Item:
    """The result of a call, as a region that keeps the function's replay and gradient with it."""
    with ctx.builder.scope():
        return _call(ctx, node, function, inputs)


def _call(ctx: Context, node: ast.Call, function: Function, inputs: dict[str, Item]) -> Item:
    span = ctx.span(node)
    with ctx.builder.region() as body:
        result = _body(ctx, node, function, inputs)
        leaves = _numbers(ctx, node, function, result)
    own_yields(ctx, body, [part.value for leaf in leaves for part in leaf.parts])
    params = list(_floats(inputs))
    region = Custom(function.name, body, None, None, [], [], [], span, function, params)
    # A gradient finds again what the body has computed and loaded, unless a replay stands for the body.
    with ctx.custom(elsewhere=function.replay is not None):
        if function.replay is not None:
            region.replay = _replay(ctx, node, function, inputs, result)
        if function.gradient is not None:
            _gradient(ctx, node, function, inputs, result, region)
    ctx.at(node)
    ctx.builder.append(region)
    values = iter(body.yields)
    fresh = (Quantity(q.type, tuple(ctx.builder.expr(next(values)) for _ in q.parts)) for q in leaves)
    return contents.rebuilt(result, fresh)


def _body(ctx: Context, node: ast.Call, function: Function, inputs: dict[str, Item]) -> Item:
    if function.numba is not None:
        return numba.call(ctx, node, function, inputs)
    return calls.run(ctx, node, function, dict(inputs))


def _floats(inputs: dict[str, Item]) -> Iterator[tuple[str, Value]]:
    """The inputs that have an adjoint of their own, by name and component: `v[0]`, `v[1]`, …."""
    for name, item in inputs.items():
        if not adjoints.is_counted(item):
            continue
        parts = [p.value for q in contents.leaves_of(item) or () for p in q.parts if p.type in t.FLOATS]
        for k, value in enumerate(parts):
            yield (name if len(parts) == 1 else f"{name}[{k}]"), value


def _numbers(ctx: Context, node: ast.Call, function: Function, result: Item) -> list[Quantity]:
    leaves = contents.leaves_of(result)
    if leaves is None:
        what = "a gradient" if function.gradient is not None else "a replay"
        ctx.type_error(
            node,
            f"`{function.name}` has {what} of its own and returns {contents.kind_of(result)}",
            "let it return numbers and vectors",
        )
    return leaves


def own_yields(ctx: Context, body: Block, values: list[Value]) -> None:
    """Yield values that the body itself computes, each once: they stand for the results of this call."""
    made = {v for node in body.ops for v in ir.results_of(node)}
    for value in values:
        own = value
        if value not in made or value in body.yields:
            own = Value(value.type, value.hint)
            own.op = ir.Op(f"to_{value.type.code}", (value,), own, ctx.builder.span)
            body.ops.append(own.op)
        body.yields.append(own)


def _replay(ctx: Context, node: ast.Call, function: Function, inputs: dict[str, Item], result: Item) -> Block:
    replay = function.replay
    assert replay is not None
    names = _parameters(ctx, replay, function, [*inputs.values()], list(inputs), "replay")
    with ctx.builder.block() as block:
        given = calls.run(ctx, node, replay, dict(zip(names, inputs.values(), strict=True)))
        leaves = contents.leaves_of(given) or []
    if contents.kind_of(given) != contents.kind_of(result):
        _fail(
            ctx,
            replay,
            replay.origin.tree,
            f"it returns {_shown(given)}, where `{function.name}` returns {_shown(result)}",
            f"return the same types as `{function.name}`",
        )
    _refuse_writes(ctx, replay, block, "a replay", "it stands for the function where values are read again")
    block.yields = [part.value for leaf in leaves for part in leaf.parts]
    return block


def _gradient(
    ctx: Context,
    node: ast.Call,
    function: Function,
    inputs: dict[str, Item],
    result: Item,
    region: Custom,
) -> None:
    gradient, b = function.gradient, ctx.builder
    assert gradient is not None
    if gradient in ctx.active:
        ctx.syntax_error(
            node,
            f"`{gradient.name}` is itself the gradient of `{function.name}`, which is asked for here",
            f"write the derivative of `{function.name}` down",
        )
    seeds = [adjoints.seed(ctx, one) for one in adjoints.results(result)]
    wanted = [*inputs, *(f"adj_ret{k}" if len(seeds) > 1 else "adj_ret" for k in range(len(seeds)))]
    names = _parameters(ctx, gradient, function, [*inputs.values(), *seeds], wanted, "gradient")
    env: dict[str, Item] = dict(zip(names, [*inputs.values(), *seeds], strict=True))
    given_inputs = dict(zip(names, inputs.values(), strict=False))
    before = {n: adjoints.fresh(ctx, n, i) for n, i in given_inputs.items() if adjoints.is_counted(i)}
    after: dict[str, Item] = {}

    def begin() -> None:
        ctx.inputs = given_inputs
        ctx.env.update({PREFIX + name: q for name, q in before.items()})

    with b.block() as block:
        given = calls.run(ctx, node, gradient, env, begin=begin, end=lambda: after.update(ctx.env))
    if not isinstance(given, Items) or given.items:
        _fail(ctx, gradient, gradient.origin.tree, "a gradient returns nothing", "add to wp.adjoint[…] only")
    _refuse_writes(ctx, gradient, block, "a gradient", "it changes wp.adjoint[…] only")
    region.gradient = block
    region.seeds = [part.value for one in seeds for q in contents.leaves_of(one) or () for part in q.parts]
    for name, was in before.items():
        item, now = given_inputs[name], after[PREFIX + name]
        for (primal, start), (_, end) in zip(
            adjoints.pairs(item, was), adjoints.pairs(item, now), strict=True
        ):
            _changed(region, block, primal, start, end)


def _changed(region: Custom, block: Block, primal: Quantity, before: Quantity, after: Quantity) -> None:
    """Note which adjoints a gradient changes: those that it leaves alone are no matter of it."""
    for one, start, end in zip(primal.parts, before.parts, after.parts, strict=True):
        if start.value is not end.value:
            region.inputs.append(one.value)
            region.before.append(start.value)
            block.yields.append(end.value)


# Signatures ------------------------------------------------------------------------------------------------


def _fail(ctx: Context, own: Function, place: ast.AST, message: str, hint: str) -> NoReturn:
    raise KernelTypeError(
        f"function `{own.name}`: {message}", span=own.origin.span(place), hint=hint, notes=ctx.notes()
    ) from None


def _shown(item: Item) -> str:
    return contents.kind_of(item) if not isinstance(item, Items) or item.items else "nothing"


def _parameters(
    ctx: Context, own: Function, function: Function, items: list[Any], wanted: list[str], what: str
) -> list[str]:
    """The names of the parameters of a replay or gradient, which must take these items in order."""
    nodes = [*own.origin.tree.args.posonlyargs, *own.origin.tree.args.args]
    header = f"def {own.name}({', '.join(wanted)}):"
    if len(nodes) != len(items):
        outputs = len(items) - len(function.parameters)
        adjoints = f", then {counted(outputs, 'adjoint')} of its results" if what == "gradient" else ""
        takes = f"the parameters of `{function.name}`{adjoints}"
        message = f"the {what} of `{function.name}` takes {takes}: {len(items)} in all; it has {len(nodes)}"
        _fail(ctx, own, own.origin.tree, message, f"write {header}")
    for position, (node, item) in enumerate(zip(nodes, items, strict=True)):
        declared, actual = own.types.get(node.arg), arguments.type_of(item)
        if declared is not None and actual is not None and declared != actual:
            of_input = position < len(function.parameters)
            role = f"the parameter `{wanted[position]}`" if of_input else "this result"
            has, is_ = t.type_name(declared), t.type_name(actual)
            message = f"`{node.arg}` is {has}, where {role} of `{function.name}` is {is_}"
            _fail(ctx, own, node, message, f"annotate it as {is_}")
    return [n.arg for n in nodes]


def _refuse_writes(ctx: Context, own: Function, block: Block, what: str, why: str) -> None:
    for op in ir.ops_of(block):
        if op.kind in ("store", "atomic_add"):
            raise KernelSyntaxError(
                f"function `{own.name}`: {what} runs in the reverse pass only and writes to no array: {why}",
                span=op.span,
                hint="write where the function itself does",
                notes=ctx.notes(),
            )


# adjoint[x] ------------------------------------------------------------------------------------------------


def is_adjoint(ctx: Context, node: ast.AST) -> bool:
    """True if a node is `wp.adjoint`, under any name."""
    path = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in ctx.env or node.id in ctx.locals:
        return False
    try:
        value = ctx.names(node.id)
    except KeyError:
        return False
    for name in reversed(path):
        value = getattr(value, name, None)
    return value is adjoint


def variable(ctx: Context, node: ast.Subscript) -> str:
    """The variable that holds `adjoint[x]`, where `x` is a float, or consists of floats."""
    name = _input(ctx, node)
    key = PREFIX + name
    if key not in ctx.env:
        ctx.type_error(
            node,
            f"the adjoint of the array `{name}` is changed element by element",
            f"index it: {ast.unparse(node)}[i]",
        )
    return key


def adjoint_of(ctx: Context, node: ast.Subscript) -> Item:
    """Return `adjoint[x]`: the current adjoint of a number or vector, or the adjoint array of an array."""
    name = _input(ctx, node)
    assert ctx.inputs is not None
    item = ctx.inputs[name]
    return adjoints.view(item) if isinstance(item, View) else ctx.env[PREFIX + name]


def _input(ctx: Context, node: ast.Subscript) -> str:
    """The input that `adjoint[…]` names, which must have an adjoint."""
    shown = ast.unparse(node)
    if ctx.inputs is None:
        ctx.syntax_error(
            node,
            f"`{shown}` stands outside a gradient function",
            "use it in a function decorated with @wp.func_grad(f)",
        )
    key = node.slice
    if not isinstance(key, ast.Name) or key.id not in ctx.inputs:
        floats = [n for n, item in ctx.inputs.items() if adjoints.differentiable(item)]
        ctx.name_error(
            node.slice,
            f"`{ast.unparse(key)}` is not an input of the function, so that `{shown}` means nothing",
            f"its inputs are {', '.join(floats)}" if floats else "it has no inputs with an adjoint",
        )
    item = ctx.inputs[key.id]
    if not adjoints.differentiable(item):
        kind = t.type_name(item.type) if isinstance(item, View) else contents.kind_of(item)
        ctx.type_error(
            node.slice,
            f"`{key.id}` is {kind}, which has no adjoint",
            "only floats and values made of them do",
        )
    return key.id


def changed_names(ctx: Context, body: list[ast.stmt]) -> Iterator[str]:
    """The variables that a loop changes: by assignments and draws; in a gradient, all adjoints of inputs."""
    names = references.assigned_names(ctx, body)
    yield from (n for n in names if n in ctx.env or n in ctx.locals)
    yield from (n for n in random.draws_from(ctx, body) if n in ctx.env)
    yield from (n for n in ctx.env if n.startswith(PREFIX))
