"""Lower `print`, `printf`, `assert`, `expect_eq`, `expect_near`, and checks of component indices."""

from __future__ import annotations

import ast
import re
from typing import Any, NoReturn

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.diagnostics import (
    ASSERT,
    BOUNDS,
    EXPECT,
    MOST,
    PAUSE,
    PRINT,
    PRINTF,
    Diagnostic,
    Piece,
    Shown,
)
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import conditions, expressions, structs, views
from tapedebug.compiler.lower._context import (
    Context,
    Item,
    Items,
    Static,
    StructValue,
    Undefined,
    View,
    counted,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

NAMES = frozenset({"print", "printf", "expect_eq", "expect_neq", "expect_near"})


def lower(ctx: Context, node: ast.Call, name: str) -> Items:
    """Lower a call with a message; it has no value."""
    allowed = {"print": ("sep", "end"), "expect_near": ("tolerance",)}.get(name, ())
    for keyword in node.keywords:
        if keyword.arg not in allowed:
            has = f"{name}() has the keywords {', '.join(allowed)}" if allowed else "pass the values in order"
            ctx.syntax_error(node, f"{name}() takes no keyword `{keyword.arg or '**'}`", has)
    SAYING[name](ctx, node)
    return Items(())


# Printing --------------------------------------------------------------------------------------------------


def _print(ctx: Context, node: ast.Call) -> None:
    values: list[Value] = []
    arguments = tuple(tuple(_pieces(ctx, argument, values)) for argument in node.args)
    options = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        text = _text(ctx, keyword.value)
        if text is None:
            message = f"`{keyword.arg}` of print() is text that is known when the kernel is compiled"
            ctx.type_error(keyword.value, message, f'write {keyword.arg}="…"')
        options[str(keyword.arg)] = text
    diagnostic = Diagnostic(
        PRINT,
        ctx.span(node),
        arguments,
        notes=tuple(ctx.notes()),
        separator=options["sep"],
        end=options["end"],
    )
    _emit(ctx, node, "print", diagnostic, values)


def _pieces(ctx: Context, node: ast.expr, values: list[Value]) -> list[Piece]:
    """Text and values that an argument of `print` consists of; the values are added to `values`."""
    text = _text(ctx, node)
    if text is not None:
        return [text]
    if isinstance(node, ast.JoinedStr):
        return [piece for part in node.values for piece in _formatted(ctx, part, values)]
    return _shown(ctx, node, expressions.lower(ctx, node), values)


def _formatted(ctx: Context, node: ast.expr, values: list[Value]) -> list[Piece]:
    """A part of an f-string."""
    if not isinstance(node, ast.FormattedValue):
        return [str(_text(ctx, node))]
    if node.format_spec is None:
        return _pieces(ctx, node.value, values)
    spec = "".join(_text(ctx, part) or "\0" for part in getattr(node.format_spec, "values", []))
    q = expressions.value(ctx, node.value)
    try:
        if not t.is_scalar(q.type) or "\0" in spec:
            raise ValueError
        format(q.type.numpy.type(1).item(), spec)
    except ValueError:
        message = f"`{ast.unparse(node.value)}` ({t.type_name(q.type)}) has no format {spec!r}".replace(
            "\0", "…"
        )
        # the value's place: until Python 3.12 the whole f-string is that of its parts
        hint = "formats are constant text, such as :.3f for a float or :5d for an int"
        ctx.type_error(node.value, message, hint)
    values.append(q.scalar.value)
    return [Shown(q.type, format=spec)]


def _shown(ctx: Context, node: ast.expr, item: Item, values: list[Value]) -> list[Piece]:
    if isinstance(item, Items) and item.items:
        inner = [_shown(ctx, node, part, values) for part in item.items]
        joined: list[Piece] = ["("]
        for k, pieces in enumerate(inner):
            joined += [", ", *pieces] if k else pieces
        return [*joined, ")"]
    struct = structs.as_value(ctx, node, item)
    if struct is not None:
        return _shown_struct(ctx, node, struct, values)
    q = ctx.quantity(node, item, "a value to print")
    values.extend(part.value for part in q.parts)
    return [Shown(q.type)]


def _shown_struct(ctx: Context, node: ast.expr, struct: StructValue, values: list[Value]) -> list[Piece]:
    """Text and values of a struct, field by field: `Particle(mass=2.0, pos=[0. 0. 1.])`."""
    pieces: list[Piece] = [f"{t.type_name(struct.kind)}("]
    for k, (name, item) in enumerate(zip(struct.kind.fields, struct.fields, strict=True)):
        pieces.append(f"{', ' if k else ''}{name}=")
        if isinstance(item, View):
            sizes = [
                piece
                for size in views.shape(ctx, item).items
                for piece in (", ", *_shown(ctx, node, size, values))
            ]
            pieces += ["array of shape (", *sizes[1:], ",)" if len(sizes) == 2 else ")"]
        elif isinstance(item, Undefined):
            pieces.append("None")
        else:
            pieces += _shown(ctx, node, item, values)
    return [*pieces, ")"]


def _text(ctx: Context, node: ast.AST) -> str | None:
    """The text that an expression writes down or captures, or None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name | ast.Attribute):
        item = expressions.lower(ctx, node)
        return item.value if isinstance(item, Static) and isinstance(item.value, str) else None
    return None


CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|q|j|z|t|L)?(.?)", re.DOTALL)
INTEGERS, UNSIGNED, FLOATS = "dic", "uoxX", "eEfFgG"


def _printf(ctx: Context, node: ast.Call) -> None:
    format = _text(ctx, node.args[0]) if node.args else None
    if format is None:
        ctx.type_error(node, "printf() takes a format first", 'write printf("%d %f\\n", i, x)')
    given = list(node.args[1:])
    values: list[Value] = []
    shown: list[Piece] = []

    def convert(match: re.Match[str]) -> str:
        flags, width, precision, _, letter = match.groups()
        if letter == "%":
            return "%%"
        if "*" in (width, precision) or not letter or letter not in INTEGERS + UNSIGNED + FLOATS + "s":
            _bad_conversion(ctx, node, match.group())
        if not given:
            missing = f"the format of printf() has a conversion {match.group()} and no value for it"
            ctx.type_error(node, missing, "pass a value for each conversion")
        argument = given.pop(0)
        if letter == "s":
            text = _text(ctx, argument)
            if text is None:
                message = f"{match.group()} of printf() takes text that is written down"
                ctx.type_error(argument, message, "show numbers with %d or %g")
            return (match.group().replace("s", "") + "s") % text if width or precision else _percent(text)
        q = expressions.value(ctx, argument)
        _require_conversion(ctx, argument, match.group(), letter, q)
        values.append(q.scalar.value)
        shown.append(Shown(q.type, format="unsigned" if letter in UNSIGNED else ""))
        precise = f".{precision}" if precision is not None else ""
        return f"%{flags}{width or ''}{precise}{letter.replace('u', 'd').replace('i', 'd')}"

    text = CONVERSION.sub(convert, format)
    if given:
        message = f"printf() has {counted(len(given), 'value')} more than its format has conversions"
        ctx.type_error(given[0], message, "add a conversion such as %d or %g, or leave the value out")
    diagnostic = Diagnostic(PRINTF, ctx.span(node), (tuple(shown),), text=text, notes=tuple(ctx.notes()))
    _emit(ctx, node, "print", diagnostic, values)


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _bad_conversion(ctx: Context, node: ast.Call, shown: str) -> NoReturn:
    ctx.syntax_error(
        node,
        f"printf() does not know the conversion `{shown}`",
        "it has %d %i %u %x %o %c for integers, %f %e %g for floats, %s for text, %%",
    )


def _require_conversion(ctx: Context, node: ast.expr, shown: str, letter: str, q: Quantity) -> None:
    wanted = "a float" if letter in FLOATS else "an integer"
    fits = q.type in t.FLOATS if letter in FLOATS else q.type in t.INTEGERS or q.type is t.bool
    if not fits:
        hint = "show integers with %d, floats with %g, components one by one"
        ctx.type_error(node, f"{shown} of printf() takes {wanted}; got {t.type_name(q.type)}", hint)


# Claims ----------------------------------------------------------------------------------------------------


def assertion(ctx: Context, node: ast.Assert) -> None:
    """`assert condition, message`."""
    condition = conditions.condition(ctx, node.test).scalar.value
    if constant_of(condition):
        return
    values: list[Value] = []
    message = () if node.msg is None else (tuple(_pieces(ctx, node.msg, values)),)
    operands = _operands(ctx, node.test, values)
    span = ctx.span(node.test)
    diagnostic = Diagnostic(ASSERT, span, message, operands, notes=tuple(ctx.notes()), end="")
    _emit(ctx, node, "assert", diagnostic, [condition, *values])


def _operands(ctx: Context, node: ast.expr, values: list[Value]) -> tuple[Shown, ...]:
    """Return the operands of a condition's comparisons, as far as they can be computed safely."""
    found: dict[str, Shown] = {}
    for operand in _asked(node, safe=True):
        item = ctx.env.get(operand.id) if isinstance(operand, ast.Name) else expressions.lower(ctx, operand)
        name = ast.unparse(operand)
        if isinstance(item, Quantity) and name not in found and item.type is not t.bool:
            if all(constant_of(part.value) is not None for part in item.parts):
                continue
            found[name] = Shown(item.type, name)
            values.extend(part.value for part in item.parts)
    return tuple(found.values())


def _asked(node: ast.expr, *, safe: bool) -> list[ast.expr]:
    """The operands of comparisons; behind `and` and `or` only names: the rest may not be computed."""
    match node:
        case ast.Compare():
            sides = [node.left, *node.comparators]
            return [s for side in sides for s in ([side] if safe else _names(side))]
        case ast.UnaryOp(op=ast.Not()):
            return _asked(node.operand, safe=safe)
        case ast.BoolOp():
            first, *rest = node.values
            return _asked(first, safe=safe) + [n for other in rest for n in _asked(other, safe=False)]
        case _:
            return [node] if safe else _names(node)


def _names(node: ast.expr) -> list[ast.expr]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def _expect_eq(ctx: Context, node: ast.Call) -> None:
    _expect_compared(ctx, node, "expect_eq", "eq")


def _expect_neq(ctx: Context, node: ast.Call) -> None:
    _expect_compared(ctx, node, "expect_neq", "ne")


def _expect_compared(ctx: Context, node: ast.Call, name: str, rule: str) -> None:
    one, two = _two(ctx, node, name, 2)
    if one.type is not two.type:
        one, two = conditions.comparable(ctx, (node.args[0], one), (node.args[1], two))
    holds = expressions.apply(ctx, node, rule, f"{name}()", one, two).scalar.value
    _expect(ctx, node, holds, (one, two), f"{name}() failed")


def _expect_near(ctx: Context, node: ast.Call) -> None:
    one, two = _two(ctx, node, "expect_near", 3)
    if one.type is not two.type:
        one, two = conditions.comparable(ctx, (node.args[0], one), (node.args[1], two))
    scalar = t.scalar_of(one.type)
    if one.type is not two.type or scalar not in t.FLOATS:
        names = f"{t.type_name(one.type)} and {t.type_name(two.type)}"
        hint = "convert one of them; integers are compared with expect_eq"
        ctx.type_error(node, f"expect_near() takes floats of one type; got {names}", hint)
    named = {k.arg: k.value for k in node.keywords}
    source = named.get("tolerance") or (node.args[2] if len(node.args) > 2 else None)
    tolerance = ctx.constant(node, 1e-6, scalar)
    if source is not None:
        given = expressions.value(ctx, source)
        _, tolerance = conditions.comparable(ctx, (node.args[0], tolerance), (source, given))
    if tolerance.type is not scalar:
        got = t.type_name(tolerance.type)
        ctx.type_error(source or node, f"the tolerance is {t.type_name(scalar)}; got {got}", "convert it")
    near = ctx.builder.constant(True, t.bool)
    for a, b in zip(one.parts, two.parts, strict=True):
        distance = (a - b).apply("abs")
        near = ctx.builder.apply("and", near, distance.apply("le", tolerance.scalar).value)
    _expect(ctx, node, near, (one, two, tolerance), "expect_near() failed")


def _two(ctx: Context, node: ast.Call, name: str, most: int) -> tuple[Quantity, Quantity]:
    if not 2 <= len(node.args) <= most:
        takes = "two values" if most == 2 else "two values and a tolerance"
        ctx.type_error(
            node, f"{name}() takes {takes}; got {counted(len(node.args), 'argument')}", f"{name}(a, b)"
        )
    return expressions.value(ctx, node.args[0]), expressions.value(ctx, node.args[1])


def _expect(ctx: Context, node: ast.Call, holds: Value, quantities: Any, text: str) -> None:
    if constant_of(holds):
        return
    names = [ast.unparse(argument) for argument in node.args[:2]] + ["the tolerance"]
    literal = [expressions.literal(ctx, argument) is not None for argument in node.args[:2]] + [False]
    named = [(n, q) for n, q, known in zip(names, quantities, literal, strict=False) if not known]
    operands = tuple(Shown(q.type, name) for name, q in named)
    values = [part.value for _, q in named for part in q.parts]
    diagnostic = Diagnostic(EXPECT, ctx.span(node), operands=operands, text=text, notes=tuple(ctx.notes()))
    _emit(ctx, node, "assert", diagnostic, [holds, *values])


def pause(ctx: Context, node: ast.Call) -> Items:
    """`breakpoint()`: where plain Python runs, a debugger stops here, and once more on the way back."""
    if node.args or node.keywords:
        ctx.type_error(node, "breakpoint() takes no arguments in a kernel", "write breakpoint()")
    ctx.builder.effect("pause", (), (Diagnostic(PAUSE, ctx.span(node), notes=tuple(ctx.notes())),))
    return Items(())


SAYING = {
    "print": _print,
    "printf": _printf,
    "expect_eq": _expect_eq,
    "expect_neq": _expect_neq,
    "expect_near": _expect_near,
}
"""The functions that lower calls which print or test values."""


# Bounds ----------------------------------------------------------------------------------------------------


def within(ctx: Context, node: ast.AST, index: Value, length: Value, what: str) -> None:
    """In checked variants, an index (int64) of what is not a whole array ends the launch if it is outside."""
    shown = (Shown(t.int64, "index"), Shown(t.int64, "length"))
    diagnostic = Diagnostic(BOUNDS, ctx.span(node), operands=shown, text=what, notes=tuple(ctx.notes()))
    ctx.at(node)
    ctx.builder.effect("bounds_check", (index, length), (diagnostic,))


def _emit(ctx: Context, node: ast.AST, kind: str, diagnostic: Diagnostic, values: list[Value]) -> None:
    if len(values) > MOST:
        message = f"this says {len(values)} numbers at once; {MOST} fit"
        ctx.syntax_error(node, message, "split it into several statements")
    ctx.at(node)
    ctx.builder.effect(kind, tuple(values), (diagnostic,))
