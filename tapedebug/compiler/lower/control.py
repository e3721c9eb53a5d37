"""Branches and loops: what variables hold where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tapedebug.compiler.builder import constant_of, same_values
from tapedebug.compiler.ir import Block, For, If, Op, Value, While
from tapedebug.compiler.lower import operations
from tapedebug.compiler.lower._context import (
    ArrayView,
    Context,
    IndexedView,
    Item,
    Items,
    Static,
    StructArray,
    StructValue,
    Undefined,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES, Quantity

RESULT = "%result"
GONE = "%gone"
"""Holds on the side of an `if` where control has left, by whichever jump."""


MAX_DEPTH = 80
"""Branches and loops inside each other; Python, which generated code is, takes 100 levels."""


def _check_depth(ctx: Context, node: ast.AST) -> None:
    if ctx.builder.depth >= MAX_DEPTH:
        ctx.syntax_error(
            node,
            f"branches and loops are nested more than {MAX_DEPTH} deep (what follows a `return` counts)",
            "combine conditions with `or`, or return once at the end",
        )


def branch(
    ctx: Context,
    node: ast.AST,
    condition: Value,
    yes: Callable[[], None],
    no: Callable[[], None],
    *,
    flatten: bool = False,
) -> None:
    """Run `yes` and `no` into the two blocks of an `If` and merge the variables they leave."""
    _check_depth(ctx, node)
    before, builder = ctx.env, ctx.builder
    span = ctx.span(node)
    epoch = builder.epoch
    envs: list[dict[str, Item]] = []
    blocks: list[Block] = []
    for run in (yes, no):
        ctx.env = dict(before)
        with builder.block() as block:
            run()
        envs.append(ctx.env)
        blocks.append(block)
    node_if = If(condition, blocks[0], blocks[1], [], span)
    ctx.env = {}
    for name in [*before, *(n for env in envs for n in env if n not in before)]:
        if name not in ctx.env:
            _merge_name(ctx, node, name, envs, node_if)
    if flatten and _selectable(node_if):
        _as_selection(ctx, node_if)
        return
    if node_if.results or blocks[0].ops or blocks[1].ops:
        builder.append(node_if)
    if builder.epoch != epoch:
        builder.forget_loads()


def _merge_name(ctx: Context, node: ast.AST, name: str, envs: list[dict[str, Item]], node_if: If) -> None:
    one, two = (_or_filler(ctx, name, envs[k], envs[1 - k]) for k in (0, 1))
    if one is None or two is None:
        line = ctx.span(node).line
        ctx.env[name] = Undefined(f"is assigned on one branch of the `if` in line {line} only")
        return
    ctx.env[name] = merged(ctx, node, name, one, two, node_if)


def _or_filler(ctx: Context, name: str, env: dict[str, Item], other: dict[str, Item]) -> Item | None:
    """What a variable is on one side of an `if`; zeros where it is not assigned there and nobody can see it.

    Nobody can where the side has jumped: what follows the `if` runs only if it was not taken. (A loop that
    it breaks from does not know the variable either, as it was not there before.) A missing result is that of
    a function that has not returned yet.
    """
    item, there = env.get(name), other.get(name)
    missing = item is None or isinstance(item, Undefined)
    present = there is not None and not isinstance(there, Undefined)
    if missing and present and (name == RESULT or _jumped(env)):
        assert there is not None
        return zeros_like(ctx, there)
    return item


def _jumped(env: dict[str, Item]) -> bool:
    """Whether control has certainly left by break, continue or return."""
    flags = (env.get(name) for name in ("%break", "%continue", "%return", GONE))
    return any(isinstance(f, Quantity) and bool(constant_of(f.scalar.value)) for f in flags)


def merged(ctx: Context, node: ast.AST, name: str, one: Item, two: Item, node_if: If) -> Item:
    """What a variable is after an `If`."""
    if one is two:
        return one
    if isinstance(one, Quantity) and isinstance(two, Quantity):
        if one.type is not two.type:
            ctx.type_error(
                node,
                f"`{name}` is {t.type_name(one.type)} on one branch and {t.type_name(two.type)} on the other",
                "give it one type on both, for example with float(…)",
            )
        return _merged_quantity(ctx, name, one, two, node_if)
    if isinstance(one, Items) and isinstance(two, Items) and len(one.items) == len(two.items):
        pairs = zip(one.items, two.items, strict=True)
        return Items(tuple(merged(ctx, node, name, a, b, node_if) for a, b in pairs))
    if isinstance(one, View) and isinstance(two, View) and one.form == two.form:
        numbers = zip(leaves_of(one, ctx) or [], leaves_of(two, ctx) or [], strict=True)
        return rebuilt(one, (_merged_quantity(ctx, name, a, b, node_if) for a, b in numbers))
    if isinstance(one, StructValue) and isinstance(two, StructValue) and one.kind is two.kind:
        fields = zip(one.kind.fields, one.fields, two.fields, strict=True)
        parts = (merged(ctx, node, f"{name}.{field}", a, b, node_if) for field, a, b in fields)
        return StructValue(one.kind, tuple(parts))
    for item in (one, two):
        if isinstance(item, Undefined):
            return item
    if type(one) is type(two) and one == two:
        return one
    line = ctx.span(node).line
    return Undefined(
        f"is {kind_of(one)} on one branch of the `if` in line {line} and {kind_of(two)} on the other",
        f"use another name on each branch, and do there what needs `{_plain(name)}`",
    )


def _merged_quantity(ctx: Context, name: str, one: Quantity, two: Quantity, node_if: If) -> Quantity:
    values: list[Value] = []
    for a, b in zip(one.parts, two.parts, strict=True):
        if same_values([a.value], [b.value]):
            values.append(a.value)
            continue
        result = Value(a.type, hint=a.value.hint or _plain(name))
        node_if.then.yields.append(a.value)
        node_if.orelse.yields.append(b.value)
        node_if.results.append(result)
        values.append(result)
    return Quantity(one.type, tuple(ctx.builder.expr(v) for v in values))


def _plain(name: str) -> str:
    return name.replace("%", "")


def _selectable(node: If) -> bool:
    """Whether computing both sides is safe and changes no derivative: nothing to compute, or truth values."""
    ops = [*node.then.ops, *node.orelse.ops]
    pure = all(isinstance(op, Op) and op.kind in RULES for op in ops)
    return not ops or (pure and all(r.type is t.bool for r in node.results))


def _as_selection(ctx: Context, node: If) -> None:
    for op in [*node.then.ops, *node.orelse.ops]:
        ctx.builder.append(op)
    replaced: dict[int, Value] = {}
    for result, yes, no in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
        replaced[id(result)] = ctx.builder.apply("where", node.condition, yes, no)

    def swap(item: Item) -> Item:
        if not isinstance(item, Quantity):
            return item
        values = [replaced.get(id(p.value), p.value) for p in item.parts]
        return Quantity(item.type, tuple(ctx.builder.expr(v) for v in values))

    ctx.env = {name: swap(item) for name, item in ctx.env.items()}


def zeros_like(ctx: Context, item: Item) -> Item:
    """Zeros of the same types."""
    if isinstance(item, Quantity):
        parts = [ctx.builder.expr(ctx.builder.constant(0, p.type)) for p in item.parts]
        return Quantity(item.type, tuple(parts))
    if isinstance(item, Items):
        return Items(tuple(zeros_like(ctx, i) for i in item.items))
    if isinstance(item, StructValue):
        return StructValue(item.kind, tuple(zeros_like(ctx, i) for i in item.fields))
    return item


def leaves_of(item: Item | None, views: Context | None = None) -> list[Quantity] | None:
    """The numbers and vectors that an item consists of; None where it is something else.

    With `views`, the indices that views of arrays are made of are among them.
    """
    match item:
        case Quantity():
            return [item]
        case ArrayView() | StructArray() | IndexedView() if views is not None:
            return [Quantity(number.type, (views.builder.expr(number),)) for number in item.numbers]
        case Items() | StructValue():
            leaves = [leaves_of(part, views) for part in _parts(item)]
            found = [leaf for part in leaves for leaf in part or ()]
            return None if None in leaves else found
    return None


def _parts(item: Items | StructValue) -> list[Item]:
    """What a tuple or struct consists of, without the fields that hold nothing yet."""
    if isinstance(item, Items):
        return list(item.items)
    return [part for part in item.fields if not isinstance(part, Undefined)]


def rebuilt(item: Item, leaves: Iterator[Quantity]) -> Item:
    """The item with its numbers and vectors replaced, in order."""
    match item:
        case Items():
            return Items(tuple(rebuilt(part, leaves) for part in item.items))
        case StructValue():
            fields = (f if isinstance(f, Undefined) else rebuilt(f, leaves) for f in item.fields)
            return StructValue(item.kind, tuple(fields))
        case ArrayView() | StructArray() | IndexedView():
            return item.remade(next(leaves).scalar.value for _ in item.numbers)
    return next(leaves)


def _alike(one: Item | None, two: Item | None) -> bool:
    """Whether two items differ in numbers only."""
    if isinstance(one, Items) and isinstance(two, Items) and len(one.items) == len(two.items):
        return all(_alike(a, b) for a, b in zip(one.items, two.items, strict=True))
    if isinstance(one, StructValue) and isinstance(two, StructValue) and one.kind is two.kind:
        return all(_alike(a, b) for a, b in zip(one.fields, two.fields, strict=True))
    if isinstance(one, View) and isinstance(two, View):
        return one.form == two.form
    return kind_of(one) == kind_of(two)


def kind_of(item: Item | None) -> str:
    """What an item is, in a message: a type, an array, several values."""
    match item:
        case Quantity():
            return t.type_name(item.type)
        case ArrayView() | StructArray() | IndexedView():
            return f"the array `{item.shown}`"
        case StructValue():
            return t.type_name(item.kind)
        case Items():
            return f"({', '.join(kind_of(i) for i in item.items)})"
        case Static():
            return f"the Python object `{getattr(item.value, '__name__', item.value)}`"
    return "undefined"


def require_kept(ctx: Context, node: ast.AST, name: str, was: Item | None, now: Item | None) -> None:
    """Require that a variable is after an iteration of a loop what it was before, up to its numbers."""
    if was is None or isinstance(was, Undefined) or now is was:
        return
    has_numbers = leaves_of(was, ctx) is not None
    if (not has_numbers and now == was) or (
        has_numbers and leaves_of(now, ctx) is not None and _alike(was, now)
    ):
        return
    if isinstance(was, StructValue) and isinstance(now, StructValue) and was.kind is now.kind:
        ctx.type_error(
            node,
            f"a field of `{name}` holds another array after an iteration of this loop",
            "choose the array before the loop",
        )
    number = isinstance(now, Quantity) and t.is_scalar(now.type)
    ctx.type_error(
        node,
        f"`{name}` is {kind_of(was)} before this loop and {kind_of(now)} after an iteration",
        f"start it with the right type, for example {name} = {kind_of(now)}(0)"
        if number
        else "use another name inside the loop",
    )


class Carried:
    """The variables that a loop changes: as the loop's carried values, its yields and its results."""

    def __init__(self, ctx: Context, node: ast.AST, names: Iterable[str]) -> None:
        self.ctx, self.node = ctx, node
        self.last: dict[str, Item] = {}
        self.before = dict(ctx.env)
        self.assigned = list(dict.fromkeys(names))
        for name in self.assigned:
            if (like := ctx.early.get(self._key(name))) is not None:
                self.before[name] = zeros_like(ctx, like)
        ctx.env = dict(self.before)
        leaves = {name: leaves_of(ctx.env.get(name), ctx) for name in self.assigned}
        self.carried = {name: found for name, found in leaves.items() if found is not None}
        self.inits: list[Value] = []
        self.inside: list[Value] = []
        self.inner: dict[str, Item] = dict(ctx.env)
        for name, quantities in self.carried.items():
            for q in quantities:
                self.inits.extend(p.value for p in q.parts)
                self.inside.extend(Value(p.type, hint=p.value.hint or _plain(name)) for p in q.parts)
        self._replace(self.inner, self.inside)

    def _replace(self, env: dict[str, Item], values: list[Value]) -> None:
        """Let the carried variables of `env` hold these values."""
        left = iter(values)
        for name, leaves in self.carried.items():
            new = [self._next(left, q) for q in leaves]
            env[name] = rebuilt(self.before[name], iter(new))

    def _next(self, values: Iterator[Value], like: Quantity) -> Quantity:
        return Quantity(like.type, tuple(self.ctx.builder.expr(next(values)) for _ in like.parts))

    def _key(self, name: str) -> Any:
        """Names a variable of this loop in `Context.early`."""
        return self.ctx.span(self.node), self.ctx.calls, name

    def yields(self, node: ast.AST) -> list[Value]:
        """The values of the variables at the end of the body; their types must not have changed."""
        self.last = dict(self.ctx.env)
        values: list[Value] = []
        for name in self.assigned:
            was, now = self.before.get(name), self.ctx.env.get(name)
            leaves = leaves_of(now, self.ctx)
            require_kept(self.ctx, node, name, was, now)
            if name in self.carried:
                assert leaves is not None  # it is what it was
                values.extend(part.value for leaf in leaves for part in leaf.parts)
        return values

    def leave(self, node: ast.AST, results: list[Value]) -> None:
        """After the loop: carried variables hold its results; others that it assigned first are gone."""
        line = self.ctx.span(node).line
        self.ctx.env = dict(self.before)
        for name in self.assigned:
            if isinstance(self.before.get(name, Undefined("")), Undefined):
                last = self.last.get(name)
                if isinstance(last, Undefined):
                    early = last.early  # a loop inside assigns it
                else:
                    early = (self._key(name), last) if leaves_of(last) is not None else None
                reason = f"is assigned only inside the loop in line {line}"
                self.ctx.env[name] = Undefined(reason, early=early)
        self._replace(self.ctx.env, results)

    def results(self) -> list[Value]:
        """Fresh values for the loop's results."""
        return [Value(v.type, hint=v.hint) for v in self.inside]


def for_loop(
    ctx: Context, node: ast.AST, names: list[str], count: Value, body: Callable[[Value], None]
) -> None:
    """A counted loop; `body` lowers one iteration, given the iteration's number (int64, from 0)."""
    _check_depth(ctx, node)
    carried = Carried(ctx, node, names)
    index = Value(t.int64, hint="k")
    ctx.builder.counters.add(index)
    ctx.env = carried.inner
    ctx.builder.forget_loads()
    with ctx.builder.block() as block:
        body(index)
        block.yields = carried.yields(node)
    ctx.builder.forget_loads()
    results = carried.results()
    ctx.builder.append(For(count, index, carried.inits, carried.inside, block, results, ctx.span(node)))
    carried.leave(node, results)


def while_loop(
    ctx: Context, node: ast.AST, names: list[str], test: Callable[[], Value], body: Callable[[], None]
) -> None:
    """A loop that runs while `test` gives true."""
    _check_depth(ctx, node)
    carried = Carried(ctx, node, names)
    ctx.env = dict(carried.inner)
    ctx.builder.forget_loads()
    with ctx.builder.block() as test_block:
        test_block.yields = [test()]
    ctx.env = carried.inner
    ctx.builder.forget_loads()
    with ctx.builder.block() as body_block:
        body()
        body_block.yields = carried.yields(node)
    ctx.builder.forget_loads()
    results = carried.results()
    ctx.builder.append(While(carried.inits, carried.inside, test_block, body_block, results, ctx.span(node)))
    carried.leave(node, results)


def local_names(body: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that statements assign as a whole: local variables, in Python's sense."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def assigned_names(body: Iterable[ast.stmt], is_memory: Callable[[ast.expr], bool]) -> list[str]:
    """The variables that statements assign, in order of appearance; not what `is_memory` holds of."""
    names: dict[str, Any] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
            changed = operations.changed_by(node) if isinstance(node, ast.Call) else []
            # `v.x = …` and `v[0] = …` change the variable v.
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
                changed = [node]
            names.update(operations.roots([c for c in changed if not is_memory(c)]))
    return list(names)


def jumps(body: Iterable[ast.stmt]) -> set[str]:
    """Which of break, continue and return stand in statements and concern the loop around them."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.Break():
                found.add("%break")
            case ast.Continue():
                found.add("%continue")
            case ast.Return():
                found.add("%return")
            case ast.If():
                found |= jumps([*statement.body, *statement.orelse])
            case ast.For() | ast.While():
                found |= jumps(statement.body) & {"%return"}
    return found


def always_returns(body: list[ast.stmt]) -> bool:
    """Whether control never falls off the end of a function's statements."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_returns(last.body) and always_returns(last.orelse)
    if isinstance(last, ast.While):
        forever = isinstance(last.test, ast.Constant) and bool(last.test.value)
        return forever and "%break" not in jumps(last.body)
    return isinstance(last, ast.Return)


def always_jumps(body: list[ast.stmt]) -> bool:
    """Whether control never reaches the end of the statements."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_jumps(last.body) and always_jumps(last.orelse)
    return isinstance(last, ast.Return | ast.Break | ast.Continue)
