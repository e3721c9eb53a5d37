"""The state of lowering while it walks a function: variables, the open block, spans, calls."""

from __future__ import annotations

import ast
import builtins
import difflib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelNameError, KernelSyntaxError, KernelTypeError
from tapedebug._float_types import float_info
from tapedebug._source import Origin, Span
from tapedebug.compiler.builder import Builder
from tapedebug.compiler.effects import AccessRecord
from tapedebug.compiler.function import Gradient
from tapedebug.compiler.lower.items import ArrayView as ArrayView
from tapedebug.compiler.lower.items import ChosenView as ChosenView
from tapedebug.compiler.lower.items import HeldArrays as HeldArrays
from tapedebug.compiler.lower.items import HeldView as HeldView
from tapedebug.compiler.lower.items import IndexedView as IndexedView
from tapedebug.compiler.lower.items import Item as Item
from tapedebug.compiler.lower.items import Items as Items
from tapedebug.compiler.lower.items import Slice as Slice
from tapedebug.compiler.lower.items import Static as Static
from tapedebug.compiler.lower.items import StructArray as StructArray
from tapedebug.compiler.lower.items import StructValue as StructValue
from tapedebug.compiler.lower.items import Undefined as Undefined
from tapedebug.compiler.lower.items import View as View
from tapedebug.compiler.source_variables import Variables
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BUILTINS
from tapedebug.lang.rules import Quantity, RuleError


class Early(Exception):
    """A variable is read after a loop or branch that assigns it first and may not run: it must exist before.

    So has what a function returns from inside a loop. Lowering begins anew, with the item in `Context.early`.
    """

    def __init__(self, key: Any, item: Item, branch: tuple[str, Span] | None = None) -> None:
        super().__init__(key)
        self.key, self.item = key, item
        self.branch = branch
        """The name of a variable that one branch assigns, and the `if`; None of what a loop assigns."""


@dataclass
class Context:
    """The state of lowering one kernel, shared by the functions that are inlined into it."""

    builder: Builder
    kernel: str
    origin: Origin
    python: Callable[..., Any]
    fixed: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """Values of captured names when the kernel was first used, by the function that uses them."""
    early: dict[Any, Item] = field(default_factory=dict)
    """The variables that are 0 before a loop or branch that assigns them first, with items of their types."""
    env: dict[str, Item] = field(default_factory=dict)
    accesses: list[AccessRecord] = field(default_factory=list)
    calls: tuple[Span, ...] = ()
    active: tuple[Any, ...] = ()
    axes: int = 0
    max_unroll: int = 16
    """Loops over so many known iterations are written out."""
    uses_atomic_result: bool = False
    in_kernel: bool = True
    returned: tuple[str, str] | None = None
    """The result type of the current function (as a message names it), and where it comes from."""
    locals: frozenset[str] = frozenset()
    """The names that the current function assigns anywhere: as in Python, they never mean a global."""
    in_loop: int = 0
    """The number of open loops of the current function."""
    outermost: Any = None
    """The outermost open loop of the current function that is not unrolled, as `carried.key` names it."""
    references: dict[str, Any] = field(default_factory=dict)
    """The parameters by reference of the current function, with their types."""
    inputs: dict[str, Item] | None = None
    """The arguments of the function whose custom gradient is being lowered: they have adjoints."""
    in_custom: bool = False
    """True while a custom replay or gradient is being lowered, which is not differentiated."""
    in_gradient: bool = False
    """True while a function that `grad` differentiates is being lowered."""
    optional: set[int] = field(default_factory=set)
    """The array parameters that are asked whether they are there: None may be passed for them."""
    called_at: Span | None = None
    """The user's call, where what is lowered is a function of our own library."""
    functions: dict[Any, None] = field(default_factory=dict)
    """The functions that were inlined."""
    captured: list[tuple[Any, str, dict[str, Any], Any]] = field(default_factory=list)
    """Captured values that were read: the function, the expression, its known variables, its value."""
    variables: Variables | None = None
    """The values that are one variable of the user's, if requested (`lower.in_place`)."""
    copies: int = 1
    """The number of copies that unrolled loops make of the statement that is lowered."""

    def names(self, name: str) -> Any:
        """Return the value of a free name of the function."""
        fixed = self.fixed.get(self.python, {})
        value = fixed[name] if name in fixed else resolved(self.python, name)
        self.captured.append((self.python, name, {}, value))
        return value

    @contextmanager
    def custom(self, *, elsewhere: bool) -> Iterator[None]:
        """A replay or gradient of the user's; `elsewhere` where it cannot use what the function computes."""
        outer = self.in_custom, self.uses_atomic_result
        self.in_custom = True
        if elsewhere:
            self.builder.forget_values()
        try:
            yield
        finally:
            self.in_custom, self.uses_atomic_result = outer

    @contextmanager
    def differentiated(self) -> Iterator[None]:
        """Lower code that is differentiated, wherever it is."""
        outer = self.in_custom, self.in_gradient
        self.in_custom, self.in_gradient = False, True
        try:
            yield
        finally:
            self.in_custom, self.in_gradient = outer

    @property
    def result_key(self) -> Any:
        """Names the result of the current function in `early`."""
        return self.span(self.origin.tree), self.calls, "return"

    def span(self, node: ast.AST) -> Span:
        """The span of a node in the function that is being lowered."""
        return self.called_at or self.origin.span(node)

    def at(self, node: ast.AST) -> None:
        """From now on, operations come from `node`."""
        self.builder.span = self.span(node)

    def type_error(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """Types do not fit."""
        raise KernelTypeError(
            self._about(message), span=self.span(node), hint=hint, notes=self.notes()
        ) from None

    def syntax_error(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """The kernel language does not have this."""
        raise KernelSyntaxError(
            self._about(message), span=self.span(node), hint=hint, notes=self.notes()
        ) from None

    def name_error(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """A name means nothing here."""
        raise KernelNameError(
            self._about(message), span=self.span(node), hint=hint, notes=self.notes()
        ) from None

    def _about(self, message: str) -> str:
        return f"kernel `{self.kernel}`: {message}"

    def notes(self) -> list[str]:
        """Return the chain of calls that led to this place."""
        return [
            f"called from line {span.line} of {span.function}: {span.text.strip()}" for span in self.calls
        ]

    def lookup(self, node: ast.Name) -> Item:
        """The variable or captured object with this name."""
        item = self.env.get(node.id)
        if item is not None:
            if isinstance(item, Undefined):
                if item.early is not None and item.early[0] not in self.early:
                    raise Early(*item.early, None if item.branch is None else (node.id, item.branch))
                self.name_error(node, f"`{node.id}` {item.reason}", item.hint or f"assign `{node.id}` before")
            return item
        if node.id in self.locals:
            self.name_error(node, f"`{node.id}` is read before it is assigned", f"assign `{node.id}` before")
        try:
            return Static(self.names(node.id))
        except KeyError:
            known = [n for n in self.env if not n.startswith("%")]
            near = difflib.get_close_matches(node.id, known, 1)
            hint = (
                f"did you mean `{near[0]}`?" if near else f"define `{node.id}` before the kernel is launched"
            )
            self.name_error(node, f"the name `{node.id}` is not defined", hint)

    def quantity(self, node: ast.AST, item: Item, what: str = "a value") -> Quantity:
        """The item as a number or vector; Python numbers become constants."""
        if isinstance(item, Quantity):
            return item
        if isinstance(item, Static):
            found = self.number(node, item.value)
            if found is not None:
                return found
            value = item.value
            plain = value is None or isinstance(value, str)
            shown = repr(value) if plain else getattr(value, "__name__", None) or type(value).__name__
            self.type_error(
                node,
                f"{what} is needed here; got the Python object `{shown}`",
                f"call it: {shown}(…)"
                if isinstance(item.value, Gradient)
                else "kernels capture numbers and vectors; pass anything else as an argument of the launch",
            )
        if isinstance(item, View):
            indexed = f"({item.name})" if isinstance(item, ChosenView) else item.name
            self.type_error(
                node,
                f"{what} is needed here; got the array `{item.name}` ({t.type_name(item.type)})",
                f"index it: {indexed}[{', '.join('ijkl'[: item.type.ndim])}]",
            )
        if isinstance(item, StructValue):
            self.type_error(
                node,
                f"{what} is needed here; got the struct {t.type_name(item.kind)}",
                f"use its fields: {', '.join(item.kind.fields)}",
            )
        if isinstance(item, Items) and not item.items:
            self.type_error(
                node, f"{what} is needed here; this function returns none", "let it return its result"
            )
        self.type_error(node, f"{what} is needed here; got several values", "take them apart: a, b = …")

    def number(self, node: ast.AST, value: Any) -> Quantity | None:
        """A constant of the kernel language from a Python or NumPy value, or None."""
        if isinstance(value, t.Compound):
            parts = [self.constant(node, n, value.scalar) for n in np.asarray(value).reshape(-1)]
            return Quantity(type(value), tuple(p.scalar for p in parts))
        kind = t.scalar_type(value)
        return self.constant(node, value, kind) if kind is not None else None

    def constant(self, node: ast.AST, value: Any, kind: type[t.Scalar]) -> Quantity:
        """A number as a constant of a scalar type, in whose range it must be."""
        if kind in t.INTEGERS:
            value = int(value) if math.isfinite(value) else value
            limits = np.iinfo(kind.numpy)
            fits = limits.min <= value <= limits.max
        else:
            fits = (
                kind not in t.FLOATS or not math.isfinite(value) or abs(value) <= float_info(kind.numpy).max
            )
        if not fits:
            wide = {t.int32: "wp.int64", t.float32: "wp.float64"}.get(kind)
            hint = f"write it as {wide}({value})" if wide else "use a number in its range, or a wider type"
            self.type_error(node, f"the number {value} does not fit {t.type_name(kind)}", hint)
        return Quantity(kind, (self.builder.expr(self.builder.constant(value, kind)),))

    def guarded(self, node: ast.AST, what: str, build: Callable[..., Any], *args: Any) -> Any:
        """Build an operation; a misfit of its operands becomes the user's error at `node`."""
        try:
            return build(*args)
        except RuleError as error:
            self.type_error(node, f"{what} {error.message}", error.hint)


def hashable(value: Any) -> bool:
    """True if a Python object can be looked up in a dictionary."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things in words that agree: `1 index`, `2 indices`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def resolved(function: Callable[..., Any], name: str) -> Any:
    """Return the value of a free name: closure, globals, Python's builtins, then those of kernels.

    Raises:
        KeyError: It means nothing.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    try:
        if name in cells:
            return cells[name].cell_contents
    except ValueError:  # a variable of the function around it that is not assigned yet
        raise KeyError(name) from None
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    if name in BUILTINS or name in t.NAMED:  # without `wp.`, as kernels of the documents' users have them
        return BUILTINS.get(name, t.NAMED.get(name))
    raise KeyError(name)
