"""Loops in the IR, and the variables that they carry."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tapedebug.compiler.ir import For, Value, While
from tapedebug.compiler.lower import contents, control, in_place, syntax
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    Early,
    Item,
    StructValue,
    Undefined,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


def is_kept(ctx: Context, was: Item | None, now: Item | None) -> bool:
    """True if a variable is after an iteration of a loop what it was before, up to its numbers."""
    if was is None or isinstance(was, Undefined) or now is was:
        return True
    if contents.leaves_of(was, ctx) is None:
        return now == was
    return contents.leaves_of(now, ctx) is not None and contents.alike(was, now)


def retyped(ctx: Context, node: ast.AST, name: str, was: Item | None, now: Item | None) -> Undefined:
    """Return a variable after a loop whose iterations each begin by giving it a value of another type."""
    then, after = (contents.kind_of(item) for item in (was, now))
    return Undefined(
        f"is {then} before the loop in line {ctx.span(node).line} and {after} inside it",
        _other_type(name, now),
    )


def require_kept(ctx: Context, node: ast.AST, name: str, was: Item | None, now: Item | None) -> None:
    """Require that a variable is after an iteration of a loop what it was before, up to its numbers."""
    if is_kept(ctx, was, now):
        return
    if isinstance(was, StructValue) and isinstance(now, StructValue) and was.kind is now.kind:
        ctx.type_error(
            node,
            f"a field of `{name}` holds another array after an iteration of this loop",
            "choose the array before the loop",
        )
    then, after = contents.kind_of(was), contents.kind_of(now)
    hint = _other_type(name, now)
    if control.are_alternatives(was, now):
        hint = f"let it be one of two whole arrays, or choose it in each iteration: {name} = … if … else …"
    ctx.type_error(node, f"`{name}` is {then} before this loop and {after} after an iteration", hint)


def _other_type(name: str, now: Item | None) -> str:
    """Return the hint about a variable that a loop gives another type."""
    if isinstance(now, Quantity) and t.is_scalar(now.type):
        return f"start it with the right type, for example {name} = {t.type_name(now.type)}(0)"
    return "use another name inside the loop"


class Carried:
    """The variables that a loop changes: as the loop's carried values, its yields and its results."""

    def __init__(self, ctx: Context, node: ast.AST, names: Iterable[str]) -> None:
        self.ctx, self.node = ctx, node
        self.last: dict[str, Item] = {}
        self.before = dict(ctx.env)
        self.assigned = list(dict.fromkeys(names))
        self.early: set[str] = set()
        """The variables that are assigned inside only, and read after the loop."""
        self.dropped: dict[str, Item] = {}
        """The variables that have another type inside, where each iteration assigns them first."""
        for name in self.assigned:
            if (new := ctx.early.get(("retyped", self._key(name)))) is not None:
                self.before[name] = retyped(ctx, node, name, self.before.get(name), new)
                self.dropped[name] = self.before[name]
                continue
            was, another = self.before.get(name), ctx.early.get(("another", self._key(name)))
            if isinstance(was, ArrayView) and isinstance(another, ArrayView):
                self.before[name] = ChosenView(ctx.builder.constant(True, t.bool), was, another)
            if not isinstance(self.before.get(name, Undefined("")), Undefined):
                continue  # a loop around this one carries it
            if (like := ctx.early.get(self._key(name))) is not None:
                self.before[name] = contents.zeros_like(ctx, like)
                self.early.add(name)
        self.around = ctx.outermost
        ctx.outermost = ctx.outermost or self._key("")[:2]
        ctx.env = dict(self.before)
        leaves = {name: contents.leaves_of(ctx.env.get(name), ctx) for name in self.assigned}
        self.carried = {name: found for name, found in leaves.items() if found is not None}
        self.inits: list[Value] = []
        self.inside: list[Value] = []
        self.inner: dict[str, Item] = dict(ctx.env)
        for name, quantities in self.carried.items():
            for q in quantities:
                self.inits.extend(p.value for p in q.parts)
                self.inside.extend(Value(p.type, hint=p.value.hint or control.plain(name)) for p in q.parts)
        self._replace(self.inner, self.inside)

    def note(self, loop: For | While, *own: str) -> None:
        """Note which variables the finished loop carries; `own` are its own."""
        names = [n for n, quantities in self.carried.items() for q in quantities for _ in q.parts]
        in_place.loop(self.ctx, loop, names, frozenset({*own, *self.early}))

    def _replace(self, env: dict[str, Item], values: list[Value]) -> None:
        """Let the carried variables of `env` hold these values."""
        left = iter(values)
        for name, leaves in self.carried.items():
            new = [self._next(left, q) for q in leaves]
            env[name] = contents.rebuilt(self.before[name], iter(new))

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
            was, now = (
                self.before.get(name),
                control.as_choice(self.ctx, self.before.get(name), self.ctx.env.get(name)),
            )
            leaves = contents.leaves_of(now, self.ctx)
            if not is_kept(self.ctx, was, now) and syntax.assigns_first(node, name):
                assert now is not None
                raise Early(("retyped", self._key(name)), now)
            another = control.another_array(was, now)
            if another is not None:
                raise Early(("another", self._key(name)), another)
            require_kept(self.ctx, node, name, was, now)
            if name in self.carried:
                assert leaves is not None  # it is what it was
                values.extend(part.value for leaf in leaves for part in leaf.parts)
        return values

    def leave(self, node: ast.AST, results: list[Value]) -> None:
        """After the loop: carried variables hold its results; others that it assigned first are gone."""
        line = self.ctx.span(node).line
        self.ctx.env = dict(self.before)
        self.ctx.outermost = self.around
        self.ctx.env |= self.dropped
        for name in self.assigned:
            if name not in self.dropped and isinstance(self.before.get(name, Undefined("")), Undefined):
                last, branch = self.last.get(name), None
                if isinstance(last, Undefined):
                    early, branch = last.early, last.branch  # a loop or branch inside assigns it
                else:
                    early = (self._key(name), last) if contents.leaves_of(last) is not None else None
                reason = f"is assigned only inside the loop in line {line}"
                self.ctx.env[name] = Undefined(reason, early=early, branch=branch)
        self._replace(self.ctx.env, results)

    def results(self) -> list[Value]:
        """Fresh values for the loop's results."""
        return [Value(v.type, hint=v.hint) for v in self.inside]


def for_loop(
    ctx: Context,
    node: ast.AST,
    names: list[str],
    count: Value,
    body: Callable[[Value], None],
    counter: str = "",
) -> None:
    """A counted loop; `body` lowers one iteration, given the iteration's number (int64, from 0).

    `counter` is the user's variable that counts, where there is one.
    """
    control.check_depth(ctx, node)
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
    loop = For(count, index, carried.inits, carried.inside, block, results, ctx.span(node))
    ctx.builder.append(loop)
    carried.note(loop, counter)
    carried.leave(node, results)


def while_loop(
    ctx: Context, node: ast.AST, names: list[str], test: Callable[[], Value], body: Callable[[], None]
) -> None:
    """A loop that runs while `test` gives true."""
    control.check_depth(ctx, node)
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
    loop = While(carried.inits, carried.inside, test_block, body_block, results, ctx.span(node))
    ctx.builder.append(loop)
    carried.note(loop)
    carried.leave(node, results)
