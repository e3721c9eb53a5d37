"""Conditions, comparisons, and expressions that compute only the selected operand."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.lower import construct, control, expressions, statics, structs, views
from tapedebug.compiler.lower._context import ArrayView, Context, HeldView, Item, StructValue, Undefined
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

COMPARE = {
    ast.Lt: ("lt", "`<`"),
    ast.LtE: ("le", "`<=`"),
    ast.Gt: ("gt", "`>`"),
    ast.GtE: ("ge", "`>=`"),
    ast.Eq: ("eq", "`==`"),
    ast.NotEq: ("ne", "`!=`"),
}


def condition(ctx: Context, node: ast.expr) -> Quantity:
    """The value of an expression used as a condition; a number holds where it is not 0.

    An array holds where it has elements; it may be None then, which has none.
    """
    item = expressions.lower(ctx, node)
    if isinstance(item, ArrayView) and not item.indices:
        ctx.optional.add(item.param.index)
        sizes = views.shape(ctx, item).items
        operands = [as_condition(ctx, node, size) for size in sizes if isinstance(size, Quantity)]
        return reduce(lambda one, two: expressions.apply(ctx, node, "and", "`and`", one, two), operands)
    if isinstance(item, HeldView):
        there = ctx.builder.apply("le", ctx.builder.constant(0, t.int64), item.start)
        return expressions.wrap(ctx, there)
    return as_condition(ctx, node, ctx.quantity(node, item, "a condition"))


def as_condition(ctx: Context, node: ast.AST, q: Quantity) -> Quantity:
    """A number as a condition."""
    if t.is_compound(q.type):
        ctx.type_error(
            node, f"a condition is a bool; got {t.type_name(q.type)}", "compare components or lengths"
        )
    if q.type is t.bool:
        return q
    zero = ctx.builder.constant(0, q.type)
    return expressions.wrap(ctx, ctx.builder.apply("ne", q.scalar.value, zero))


def compare(ctx: Context, node: ast.Compare) -> Item:
    """A comparison, perhaps of several values in a row."""
    left, left_node = expressions.lower(ctx, node.left), node.left
    result: Quantity | None = None
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = expressions.lower(ctx, right_node)
        ctx.at(node)
        one = statics.compared(ctx, node, left, operator, right)
        if one is None:
            one = _compared_structs(ctx, node, left, operator, right)
        if one is None:
            operands = ctx.quantity(left_node, left), ctx.quantity(right_node, right)
            name, sign = COMPARE[type(operator)]
            pair = _of_one_type(ctx, *comparable(ctx, (left_node, operands[0]), (right_node, operands[1])))
            one = expressions.apply(ctx, node, name, sign, *pair)
        result = one if result is None else expressions.apply(ctx, node, "and", "`and`", result, one)
        left, left_node = right, right_node
    assert result is not None  # a comparison has at least one operator
    return result


def comparable(
    ctx: Context, left: tuple[ast.expr, Quantity], right: tuple[ast.expr, Quantity]
) -> tuple[Quantity, Quantity]:
    """Two operands of a comparison: a number that is written down takes the type of the other, as `x > 0`."""
    (one_node, one), (two_node, two) = left, right
    if one.type is not two.type and {one.type, two.type} <= {*t.INTEGERS, *t.FLOATS}:
        number = expressions.literal(ctx, two_node)
        if number is not None and (one.type in t.FLOATS or isinstance(number, int)):
            return one, ctx.constant(two_node, number, one.type)
        number = expressions.literal(ctx, one_node)
        if number is not None and (two.type in t.FLOATS or isinstance(number, int)):
            return ctx.constant(one_node, number, two.type), two
    return one, two


def _of_one_type(ctx: Context, one: Quantity, two: Quantity) -> tuple[Quantity, Quantity]:
    """Two numbers of different types, converted as C converts them for a comparison."""
    if one.type is two.type or not (t.is_scalar(one.type) and t.is_scalar(two.type)):
        return one, two
    kind = t.compared_as(one.type, two.type)
    left, right = (q if q.type is kind else construct.convert(ctx, q, kind) for q in (one, two))
    return left, right


def _compared_structs(
    ctx: Context, node: ast.Compare, left: Item, operator: ast.cmpop, right: Item
) -> Quantity | None:
    """`==` or `!=` of two structs: of all their numbers; None if neither operand is a struct."""
    one, two = structs.as_value(ctx, node, left), structs.as_value(ctx, node, right)
    if one is None or two is None or one.kind is not two.kind or not isinstance(operator, ast.Eq | ast.NotEq):
        return None
    equal = _equal_fields(ctx, node, one, two)
    if isinstance(operator, ast.Eq):
        return equal
    return expressions.wrap(ctx, ctx.builder.apply("not", equal.scalar.value))


def _equal_fields(ctx: Context, node: ast.Compare, one: StructValue, two: StructValue) -> Quantity:
    """True if the fields of two values of one struct are equal."""
    equal = expressions.wrap(ctx, ctx.builder.constant(True, t.bool))
    for name, a, b in zip(one.kind.fields, one.fields, two.fields, strict=True):
        if isinstance(a, StructValue) and isinstance(b, StructValue):
            same = _equal_fields(ctx, node, a, b)
        elif isinstance(a, Quantity) and isinstance(b, Quantity):
            same = expressions.apply(ctx, node, "eq", "`==`", a, b)
        else:
            kind = t.type_name(one.kind)
            ctx.type_error(
                node,
                f"two {kind} cannot be compared, because `{name}` is an array",
                "compare other fields, one by one",
            )
        equal = expressions.apply(ctx, node, "and", "`and`", equal, same)
    return equal


def boolean(ctx: Context, node: ast.BoolOp) -> Item:
    """`and` / `or`: the right side is not computed where the left decides, as it may index out of bounds."""
    is_and = isinstance(node.op, ast.And)
    result = condition(ctx, node.values[0])
    for other in node.values[1:]:

        def right(other: ast.expr = other) -> Quantity:
            return condition(ctx, other)

        def decided() -> Quantity:
            return expressions.wrap(ctx, ctx.builder.constant(not is_and, t.bool))

        yes, no = (right, decided) if is_and else (decided, right)
        result = choose(ctx, node, result, yes, no)
    return result


def conditional(ctx: Context, node: ast.IfExp) -> Item:
    """`a if c else b`: only the selected side is computed."""
    test = condition(ctx, node.test)

    def side(expression: ast.expr) -> Callable[[], Item]:
        return lambda: expressions.part(ctx, expression, expressions.lower(ctx, expression))

    return _chosen(ctx, node, test, side(node.body), side(node.orelse))


def choose(
    ctx: Context, node: ast.AST, test: Quantity, yes: Callable[[], Quantity], no: Callable[[], Quantity]
) -> Quantity:
    """The value of one of two expressions; only that one is computed."""
    return ctx.quantity(node, _chosen(ctx, node, test, yes, no))


def _chosen(
    ctx: Context, node: ast.AST, test: Quantity, yes: Callable[[], Item], no: Callable[[], Item]
) -> Item:
    known = constant_of(test.scalar.value)
    if known is not None:
        return yes() if known else no()
    name = "%choice"

    def assign(make: Callable[[], Item]) -> Callable[[], None]:
        def run() -> None:
            ctx.env[name] = make()

        return run

    control.branch(ctx, node, test.scalar.value, assign(yes), assign(no), flatten=True)
    result = ctx.env.pop(name)
    if isinstance(result, Undefined):
        ctx.type_error(node, f"this {result.reason}", "let both sides be of one type")
    return result
