"""Kernels that apply a function to the elements of arrays, for `map` and array arithmetic.

They have no source of their own. All of their generated code stands at the user's call, so that errors,
traces and findings point there.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelTypeError, TapedebugError
from tapedebug._files import ChangedSource
from tapedebug._source import Origin, Span
from tapedebug._syntax import parsed
from tapedebug.compiler.function import Function, unreadable
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.lower import lower_kernel
from tapedebug.compiler.lower._context import Items, Static, StructValue
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

AXES = "ijkl"


@dataclass(frozen=True)
class Operand:
    """One argument: an array, or one value for all threads.

    Attributes:
        kind: The type of the parameter.
        repeats: For each dimension of an array, whether it has one element that all threads share.
    """

    kind: Any
    repeats: tuple[bool, ...] = ()

    def shown(self, name: str, axes: int) -> str:
        """The operand in the kernel's code: the element of the thread, or the value."""
        if not isinstance(self.kind, t.ArrayType | t.IndexedArrayType):
            return name
        own = AXES[axes - self.kind.ndim : axes]
        return f"{name}[{', '.join('0' if one else i for i, one in zip(own, self.repeats, strict=True))}]"


@dataclass(frozen=True)
class ElementwiseKernel:
    """A kernel that applies a function, and the types of its results."""

    kernel: Kernel
    results: tuple[Any, ...]


def elementwise_kernel(
    name: str,
    function: tuple[str, Any] | None,
    template: str,
    operands: Sequence[Operand],
    axes: int,
    place: Span,
    in_place: bool,
) -> ElementwiseKernel:
    """Make a kernel.

    Args:
        name: The kernel's, for traces.
        function: What a name in `template` means.
        template: An expression of that name and the operands `{0}`, `{1}`, ….
        operands: The arguments; outputs follow them as parameters.
        axes: Of the launch.
        place: The user's call.
        in_place: Write to the first operand.

    Raises:
        TapedebugError: Of the kernel language, at the user's line.
    """
    names = [f"x{i}" for i in range(len(operands))]
    shown = [operand.shown(n, axes) for operand, n in zip(operands, names, strict=True)]
    call = template.format(*shown)
    kinds = {n: operand.kind for n, operand in zip(names, operands, strict=True)}
    head = [f"{', '.join(AXES[:axes])} = wp.tid()", f"result = {call}"]
    results = _results(_kernel(name, function, kinds, head, place), place)
    index = ", ".join(AXES[:axes])
    if in_place:
        tail = [f"x0[{index}] = result"]
    else:
        outs = [f"out{i}" for i in range(len(results))]
        kinds |= {out: t.ArrayType(kind, axes) for out, kind in zip(outs, results, strict=True)}
        parts = ["result"] if len(results) == 1 else [f"result{i}" for i in range(len(results))]
        head[1] = f"{', '.join(parts)} = {call}"
        tail = [f"{out}[{index}] = {part}" for out, part in zip(outs, parts, strict=True)]
    return ElementwiseKernel(_kernel(name, function, kinds, head + tail, place), results)


def _kernel(
    name: str, function: tuple[str, Any] | None, kinds: dict[str, Any], lines: list[str], place: Span
) -> Kernel:
    """A kernel of these statements, all of which stand at the user's call."""
    typed = ", ".join(f"{param}: wp.{t.type_name(kind)}" for param, kind in kinds.items())
    head = f"def {name}({typed}):".replace("dtype=", "dtype=wp.")
    script = (head, *(f"    {line}" for line in lines))
    tree = parsed("\n".join((f"def {name}({', '.join(kinds)}):", *script[1:])))
    namespace: dict[str, Any] = {"wp": importlib.import_module("tapedebug")}
    if function is not None:
        namespace[function[0]] = function[1]
    exec(compile(tree, place.file, "exec"), namespace)
    python: Callable[..., Any] = namespace[name]
    python.__annotations__ = dict(kinds)
    made = Kernel(python)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    for node in ast.walk(definition):
        if hasattr(node, "lineno"):
            ast.copy_location(node, _spot(place))
    lines_there = (place.text, *[""] * (place.end_line - place.line))
    made.__dict__["origin"] = Origin(
        place.file, place.line, lines_there, name, 0, python, ("@wp.kernel", *script)
    ).with_tree(definition)
    return made


def _spot(place: Span) -> ast.expr:
    """A node at a span, counted from its first line."""
    last = place.end_line - place.line + 1
    return ast.Constant(
        None, lineno=1, col_offset=place.column, end_lineno=last, end_col_offset=place.end_column
    )


def _results(kernel: Kernel, place: Span) -> tuple[Any, ...]:
    """The types of what the function gives."""
    try:
        lowered = lower_kernel(kernel.__name__, kernel.origin, kernel.signature, kernel.python)
    except TapedebugError as error:
        raise error.with_traceback(None) from None
    item = lowered.variables.get("result")
    kinds = []
    for each in item.items if isinstance(item, Items) else (item,):
        if isinstance(each, Static) and isinstance(each.value, bool | int | float):
            kinds.append(t.canonical(type(each.value)))
        elif isinstance(each, Quantity):
            kinds.append(each.type)
        elif isinstance(each, StructValue) and _is_element(each.kind):
            kinds.append(each.kind)
        else:
            kinds.append(None)
    if not kinds or None in kinds:
        raise KernelTypeError(
            f"kernel `{kernel.__name__}`: one of the function's results is no number, vector, matrix or "
            "struct of them",
            span=place,
            hint="return values that arrays can hold, several as `return a, b`",
        )
    return tuple(kinds)


def _is_element(kind: type[t.Struct]) -> bool:
    """True if arrays can hold a struct."""
    try:
        t.element_type(kind)
    except TypeError:
        return False
    return True


def function_of(python: Callable[..., Any]) -> Function:
    """A plain Python function or lambda as a function of the kernel language."""
    made = Function(python)
    if python.__name__ == "<lambda>":
        made.name = made.__name__ = "lambda_"
        try:
            made.__dict__["origin"] = Origin.of_lambda(python)
        except ChangedSource as error:
            raise unreadable(python, "function", error) from None
        except OSError as error:
            raise KernelTypeError(
                f"the source of a lambda cannot be read ({error})",
                hint="define it in a file or a notebook cell, or decorate a function with @wp.func",
            ) from None
    return made
