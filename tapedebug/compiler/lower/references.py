"""Arguments by reference: functions with `ref[…]` parameters change what their callers pass."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from tapedebug._dataclass import dataclass
from tapedebug.compiler.function import Function
from tapedebug.compiler.lower import arrays, assignment, calls, contents, operations, structs, syntax
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldArrays,
    Item,
    Static,
    StructArray,
    StructValue,
    View,
    hashable,
    resolved,
)
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin
from tapedebug.lang.rules import COMPOSITES, Quantity


@dataclass(frozen=True, slots=True)
class Referred:
    """An argument that is passed by reference.

    Attributes:
        name: The parameter.
        node: The argument.
        place: The element of an array, or the part of one; None of a variable or a part of it.
    """

    name: str
    node: ast.expr
    place: arrays.Place | StructArray | None

    @property
    def element(self) -> ArrayView | ChosenView | StructArray | None:
        """The element, if all of it is meant."""
        if isinstance(self.place, arrays.Place):
            return None if self.place.path else self.place.view
        return self.place


def call(ctx: Context, node: ast.Call, function: Function, env: dict[str, Item]) -> Item:
    """The result of a call; what the function assigns to its references, the caller has.

    A whole element of an array is read and written where the function reads and writes its parameter. A
    variable, and a part of anything, is passed as a value, and assigned after the call.
    """
    if function.gradient is not None or function.replay is not None:
        ctx.type_error(
            node,
            f"{function.name}() has a gradient or replay of its own, and parameters by reference",
            "return what it computes, in place of assigning it to a reference",
        )
    given = function.signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords}).arguments
    passed = [_referred(ctx, node, function, name, given.get(name)) for name in function.references]
    _refuse_overlaps(ctx, node, function, passed, env)
    after: dict[str, Item] = {}
    if function.native is not None:
        from tapedebug.compiler.lower import native

        zeros = {name: contents.zeros_like(ctx, env[name]) for name in function.native.overwritten}
        result = native.call(ctx, node, function, {**env, **zeros}, after)
    else:
        elements: dict[str, Item] = {each.name: each.element for each in passed if each.element is not None}
        kinds = {name: structs.type_of(env[name]) for name in function.references}
        env = {**env, **elements}

        def begin() -> None:
            ctx.references = kinds

        result = calls.run(ctx, node, function, dict(env), begin=begin, end=lambda: after.update(ctx.env))
    ctx.at(node)
    for each in passed:
        now = after[each.name]
        if isinstance(now, View) or now is env[each.name]:
            continue  # an element that was written in place, or nothing was assigned
        if each.place is None:
            assignment.assign_to(ctx, each.node, now, each.node)
        elif isinstance(each.place, StructArray):
            structs.store(ctx, each.node, each.place, now, each.node)
        else:
            arrays.write(ctx, each.node, each.place, ctx.quantity(each.node, now), each.node)
    return result


def assigned(ctx: Context, target: ast.Name, item: Item, source: ast.expr) -> bool:
    """Assign to a parameter by reference; False if it is a variable, which is assigned as any other.

    The value must have the type of what the parameter refers to.
    """
    kind = ctx.references.get(target.id)
    if kind is None:
        return False
    now = ctx.env.get(target.id)
    if isinstance(now, ArrayView):
        arrays.write(ctx, target, arrays.Place(now), ctx.quantity(source, item), source)
        return True
    if isinstance(now, StructArray):
        structs.store(ctx, target, now, item, source)
        return True
    structs.fitting(ctx, source, target.id, kind, item)
    return False


def changed_by(ctx: Context, node: ast.Call) -> list[ast.expr]:
    """Return the arguments that a call may change: of a function of the language, or by reference."""
    changed = operations.changed_by(node)
    function = _function(ctx, node.func)
    if not isinstance(function, Function):
        return changed
    for version in function.overloads:
        names = version.parameters
        changed += [arg for name, arg in zip(names, node.args, strict=False) if name in version.references]
        changed += [given.value for given in node.keywords if given.arg in version.references]
    return changed


def assigned_names(ctx: Context, body: list[ast.stmt]) -> list[str]:
    """Return the variables that statements assign, in order of appearance."""
    return syntax.assigned_names(
        body, lambda target: arrays.is_memory(ctx, target), lambda node: changed_by(ctx, node)
    )


def _function(ctx: Context, node: ast.expr) -> Any:
    """The object that is called, if it is known; None otherwise."""
    if isinstance(node, ast.Attribute):
        return getattr(_function(ctx, node.value), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    if node.id in ctx.env or node.id in ctx.locals:
        item = ctx.env.get(node.id)
        return item.value if isinstance(item, Static) else None
    try:
        return ctx.fixed.get(ctx.python, {}).get(node.id) or resolved(ctx.python, node.id)
    except KeyError:
        return None


def _referred(ctx: Context, call: ast.Call, function: Function, name: str, node: Any) -> Referred:
    """Return an argument by reference: a variable, an element of an array, or a part of one."""
    if not isinstance(node, ast.expr):
        ctx.type_error(call, f"`{name}` of {function.name}() is passed by reference", "pass a variable")
    root = node
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    item = ctx.env.get(root.id) if isinstance(root, ast.Name) else None
    if item is None or isinstance(item, Static):
        _refuse(ctx, function, name, node)
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not _is_pure(_function(ctx, part.func)):
            ctx.syntax_error(
                part,
                f"`{ast.unparse(part)}` would be called twice: `{name}` of {function.name}() is passed by "
                "reference",
                "assign it to a variable before the call",
            )
    place = arrays.place_of(ctx, node)
    if isinstance(place, arrays.Place) and (place.view.adjoint or isinstance(place.view, ChosenView)):
        _refuse(ctx, function, name, node)
    return Referred(name, node, place)


def _is_pure(called: Any) -> bool:
    """True if a call in an index gives the same value twice, and changes nothing."""
    if isinstance(called, Builtin):
        return called.name == "tid" or called.name in COMPOSITES
    return called in (int, float) or (hashable(called) and t.is_scalar(called))


def _refuse(ctx: Context, function: Function, name: str, node: ast.expr) -> NoReturn:
    ctx.type_error(
        node,
        f"`{name}` of {function.name}() is passed by reference; `{ast.unparse(node)}` is no variable, "
        "element of an array, or part of one",
        "assign it to a variable, and pass that",
    )


def _refuse_overlaps(
    ctx: Context, node: ast.Call, function: Function, passed: list[Referred], env: dict[str, Item]
) -> None:
    """Refuse arguments that may be the same memory, if one of them is assigned only after the call."""
    for place, one in enumerate(passed):
        for two in passed[place + 1 :]:
            if _may_overlap(ctx, one, two):
                ctx.type_error(
                    two.node,
                    f"{function.name}() is passed `{ast.unparse(one.node)}` and `{ast.unparse(two.node)}` "
                    "by reference, which may be the same",
                    "call it with copies in variables, and assign them after the call",
                )
        if one.place is None or (one.element is not None and function.native is None):
            continue
        for name, item in env.items():
            if isinstance(item, View) and set(params_of(item)) & set(params_of(_view(one.place))):
                ctx.type_error(
                    one.node,
                    f"{function.name}() is passed `{ast.unparse(one.node)}` by reference and, as `{name}`, "
                    "the array that it is part of",
                    "copy it into a variable, and assign that after the call",
                )


def _may_overlap(ctx: Context, one: Referred, two: Referred) -> bool:
    if (one.place is None) != (two.place is None):
        return False
    if one.place is None:
        first, second = ast.unparse(one.node), ast.unparse(two.node)
        roots = operations.roots([one.node]).keys() & operations.roots([two.node]).keys()
        fields = all(_names_only(each.node) for each in (one, two))
        nested = first == second or first.startswith(second + ".") or second.startswith(first + ".")
        return bool(roots) and (nested or not fields)
    assert two.place is not None
    if one.element is not None and two.element is not None:
        return False  # both are read and written in place, as they stand
    return bool(set(params_of(_view(one.place))) & set(params_of(_view(two.place)))) and not _apart(one, two)


def _names_only(node: ast.expr) -> bool:
    """True if a part of a variable is named by fields and components only: `s.force.x`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _apart(one: Referred, two: Referred) -> bool:
    """True if two parts of elements are certainly different components or fields."""
    first, second = (ast.unparse(each.node) for each in (one, two))
    ends = [each.node.attr for each in (one, two) if isinstance(each.node, ast.Attribute)]
    return first != second and len(ends) == 2 and ends[0] != ends[1] and len(ends[0]) == len(ends[1]) == 1


def _view(place: arrays.Place | StructArray) -> ArrayView | ChosenView | StructArray:
    return place.view if isinstance(place, arrays.Place) else place


def params_of(item: Item | HeldArrays) -> list[int]:
    """The flat parameters of the kernel that a view is of."""
    match item:
        case ArrayView():
            return [item.param.index]
        case ChosenView():
            return [*params_of(item.yes), *params_of(item.no)]
        case StructArray():
            return [index for field in item.fields for index in params_of(field)]
        case StructValue():
            return [index for field in item.fields for index in params_of(field)]
        case Quantity():
            return []
    data = getattr(item, "data", None)
    return [] if data is None else params_of(data)
