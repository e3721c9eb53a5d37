"""Lower arguments of calls of user functions: choose the version of the function and convert."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.function import METHODS, Function
from tapedebug.compiler.lower import contents, expressions, structs
from tapedebug.compiler.lower._context import Context, Item, Items, Static
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin


@dataclass(frozen=True)
class _Given:
    """The arguments of a call: by position, and by keyword."""

    items: list[Item]
    named: dict[str, Item]

    @property
    def shown(self) -> str:
        """The types that are passed, as a message lists them."""
        named = [f"{name}={_shown(item)}" for name, item in self.named.items()]
        return ", ".join([*map(_shown, self.items), *named])


def resolved(ctx: Context, node: ast.Call, function: Function) -> tuple[Function, dict[str, Item]]:
    """The version of a function that takes the arguments of a call, and what its parameters are there.

    One that declares exactly these types comes before one that takes families of types.
    """
    given = _given(ctx, node)
    if len(function.overloads) == 1:
        return function, _checked(ctx, node, function, given)
    bound = [(f, _bound(ctx, node, f, given)) for f in function.overloads]
    fitting = [(_generality(f, env), f, env) for f, env in bound if env is not None]
    if not fitting:
        versions = "; ".join(f.declaration for f in function.overloads)
        ctx.type_error(
            node,
            f"no version of {function.name}() takes ({given.shown})",
            f"call one of these, or add one: {versions}",
        )
    _, chosen, env = min(fitting, key=lambda found: found[0])
    return chosen, env


def _given(ctx: Context, node: ast.Call) -> _Given:
    for keyword in node.keywords:
        if keyword.arg is None:
            ctx.syntax_error(
                keyword.value, "a kernel cannot use `**` arguments", "pass the values one by one"
            )
    items = [_number(ctx, node, expressions.lower(ctx, a)) for a in node.args]
    named = {str(k.arg): _number(ctx, node, expressions.lower(ctx, k.value)) for k in node.keywords}
    ctx.at(node)
    return _Given(items, named)


def _number(ctx: Context, node: ast.AST, item: Item) -> Item:
    """A captured number or struct, or a default, as a constant."""
    if isinstance(item, Items):
        return Items(tuple(_number(ctx, node, part) for part in item.items))
    if not isinstance(item, Static):
        return item
    return ctx.number(node, item.value) or structs.as_value(ctx, node, item) or item


def _bind(ctx: Context, node: ast.Call, function: Function, given: _Given) -> dict[str, Item]:
    """Bind arguments to parameters. Raises TypeError, as Python does, if they do not match."""
    arguments = function.signature.bind(*given.items, **given.named).arguments
    return {
        name: arguments[name] if name in arguments else _number(ctx, node, Static(parameter.default))
        for name, parameter in function.signature.parameters.items()
    }


def _bound(ctx: Context, node: ast.Call, function: Function, given: _Given) -> dict[str, Item] | None:
    try:
        env = _bind(ctx, node, function, given)
    except TypeError:
        return None
    fits = all(t.fits(kind, type_of(env[name])) for name, kind in function.types.items())
    return env if fits else None


def _generality(function: Function, env: dict[str, Item]) -> int:
    """Return the number of parameters that take more types than the one that is passed."""
    return sum(type_of(item) != function.types.get(name) for name, item in env.items())


def _checked(ctx: Context, node: ast.Call, function: Function, given: _Given) -> dict[str, Item]:
    try:
        env = _bind(ctx, node, function, given)
    except TypeError as error:
        shown = f"{function.name}({', '.join(function.parameters)})"
        first = next(iter(function.parameters), "")
        if first in METHODS and isinstance(node.func, ast.Attribute):
            ctx.type_error(
                node,
                f"a kernel calls functions, not methods: {function.name}() begins with `{first}`",
                f"define {function.name} outside the class, without `{first}`, and pass what it needs of the "
                "object as arguments",
            )
        ctx.type_error(node, f"{shown}: {error}", "match the function's parameters")
    for name, kind in function.types.items():
        if not t.fits(kind, type_of(env[name])):
            ctx.type_error(
                node,
                f"`{name}` of {function.name}() is {t.type_name(kind)}; got {_shown(env[name])}",
                "convert the argument, or change the annotation",
            )
    return env


def _shown(item: Item) -> str:
    kind = type_of(item)
    if kind is t.CALLABLE or kind is None:
        return contents.kind_of(item)
    return t.type_name(kind)


def type_of(item: Item) -> Any:
    """The type that a parameter must be declared with to take an item; None where it has none."""
    if isinstance(item, Static) and isinstance(item.value, Function | Builtin):
        return t.CALLABLE
    return structs.type_of(item)
