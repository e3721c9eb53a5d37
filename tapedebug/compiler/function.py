"""Functions that kernels call (`@func`): their source and declared types."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelSyntaxError, KernelTypeError, TapedebugError
from tapedebug._files import ChangedSource, keep
from tapedebug._source import Origin, Span
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin

if TYPE_CHECKING:
    from tapedebug.compiler.native.function import Native
    from tapedebug.contract import AdjointWrite

DIFFERING: weakref.WeakSet[Any] = weakref.WeakSet()
"""Gradients that differ from the derivative on purpose. It is mostly empty, so that checks are cheap."""

METHODS = ("self", "cls")
"""Usual names of the first parameter of a method."""


class Function:
    """A function of the kernel language, compiled into the kernels that call it.

    Outside kernels it runs as the plain Python function that it decorates. Made by `@func`, or with the names
    that NVIDIA Warp has: `Function(func=f, key="name", code_transformers=[…])`.

    Args:
        func: The Python function.
        key: Its name in messages; by default its own.
        namespace, module: Accepted and ignored: functions are compiled into the kernels that call them.
        code_transformers: Objects that rewrite a copy of the syntax tree before it is compiled, one after the
            other. Messages show the line of the source that each part comes from.

    Attributes:
        gradient: What adjoints run in place of its reverse (`func_grad`).
        differs: It is a gradient that is meant to differ from the derivative.
        companion_of: The function whose gradient or replay it is.
        replay: What adjoints run in its place where they need its results again (`func_replay`).
        as_parameter: The family of types that this class means as an annotation.
    """

    as_parameter = t.CALLABLE

    code_transformers: tuple[ast.NodeTransformer, ...] = ()

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        namespace: str = "",
        *,
        module: Any = None,
        code_transformers: Sequence[ast.NodeTransformer] | None = None,
    ) -> None:
        if not is_remembered(func):
            read_annotations(func, sys._getframe(1))
        self.python = func
        self.name = key or func.__name__
        self.__name__ = func.__name__
        self.__doc__ = func.__doc__
        if code_transformers:
            self.code_transformers = tuple(code_transformers)
        self.gradient: Function | None = None
        self.differs = False
        self.companion_of: Function | None = None
        self.replay: Function | None = None
        self.native: Native | None = None
        """Its C, where it is a native function."""
        self.numba: weakref.ref[Any] | None = None
        """Gives the object that Numba made of it, if it is a function of Numba's."""
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        """The kernels that it is compiled into."""
        self.overloads: tuple[Function, ...] = (self,)
        """The functions of its name that calls choose from, by the types of their arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the plain Python function, or the version of it that takes the values."""
        if self.native is not None:
            raise TapedebugError(
                f"`{self.name}` is a native function and was called outside a kernel",
                hint="call it inside a function decorated with @kernel or @func",
            )
        version = self._for_values(args, kwargs)
        if version.references:
            raise TapedebugError(
                f"`{self.name}` changes variables of its caller and was called outside a kernel",
                hint="call it inside a function decorated with @kernel or @func",
            )
        return version.python(*args, **kwargs)

    def _for_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
        for version in self.overloads:
            try:
                given = version.signature.bind(*args, **kwargs).arguments
            except TypeError:
                continue
            kinds = {name: t.type_of_value(value) for name, value in given.items()}
            if all(t.fits(kind, kinds[name]) for name, kind in version.types.items() if name in kinds):
                return version
        return self

    def join(self, previous: Any) -> None:
        """Become a version of the function that its name meant before, in the same file, or replace it.

        A version with the same types is replaced, and so is a function of another file or cell: kernels that
        were compiled with it are compiled anew.
        """
        if not isinstance(previous, Function):
            return
        if previous.python.__code__.co_filename == self.python.__code__.co_filename:
            others = [f for f in previous.overloads if f.annotations != self.annotations]
            self.overloads = (*others, self)
        for version in previous.overloads:
            for user in list(version.users):
                user.renew()

    @cached_property
    def signature(self) -> inspect.Signature:
        """Its parameters and their defaults."""
        return inspect.signature(self.python)

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters."""
        return list(self.signature.parameters)

    @property
    def annotations(self) -> tuple[Any, ...]:
        """The types of its parameters, as far as they can be read: they identify a version."""
        found = getattr(self.python, "__annotations__", {})
        return tuple(_readable(found.get(name)) for name in self.signature.parameters)

    @property
    def declaration(self) -> str:
        """Its name and parameters with their types, as messages show them."""
        shown = [
            f"{name}: {t.type_name(self.types[name])}" if name in self.types else name
            for name in self.signature.parameters
        ]
        return f"{self.name}({', '.join(shown)})"

    def __repr__(self) -> str:
        return f"<func {self.name}>"

    @cached_property
    def origin(self) -> Origin:
        """The function's source."""
        found = origin_of(self.python, "function")
        return found.rewritten(self.code_transformers) if self.code_transformers else found

    @cached_property
    def body(self) -> list[ast.stmt]:
        """The statements, with `wp.adjoint[x.mass]` written as `wp.adjoint[x].mass`."""
        return [_PartsOfAdjoints().visit(copy.deepcopy(statement)) for statement in self.origin.tree.body]

    @property
    def place(self) -> Span:
        """The place of its definition."""
        return self.origin.span(self.origin.tree)

    @property
    def adjoint_writes(self) -> list[AdjointWrite]:
        """The statements of a gradient that change adjoints, in order."""
        from tapedebug.contract import AdjointWrite

        found: list[AdjointWrite] = []
        for node in ast.walk(self.origin.tree):
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                inner = [part for target in targets for part in ast.walk(target)]
                params = [name for part in inner if (name := _adjoint_of(part)) is not None]
                if params:
                    assigned = isinstance(node, ast.Assign)
                    found.append(AdjointWrite(frozenset(params), self.origin.span(node), assigned))
        return found

    @cached_property
    def types(self) -> dict[str, Any]:
        """The declared types of annotated parameters."""
        declared = declared_types(self.python, self.origin, "function")
        declared.pop("return", None)
        return declared

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The parameters by reference (`ref[float]`), in order."""
        found: list[str] = []
        declared_types(self.python, self.origin, "function", found)
        return tuple(found)

    @cached_property
    def result_type(self) -> Any:
        """The declared result type (a tuple of types for several results), or None: none, or a family."""
        declared = declared_types(self.python, self.origin, "function").get("return")
        parts = declared if isinstance(declared, tuple) else (declared,)
        return None if any(t.is_generic(part) for part in parts) else declared


class _PartsOfAdjoints(ast.NodeTransformer):
    """Move fields out of the brackets of `wp.adjoint[…]`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Rewrite `wp.adjoint[x.mass]`."""
        self.generic_visit(node)
        if not _adjoint_of(node) or not isinstance(node.slice, ast.Attribute):
            return node
        fields = node.slice
        inner = ast.copy_location(ast.Subscript(node.value, fields.value, ast.Load()), node)
        return ast.copy_location(ast.Attribute(self.visit(inner), fields.attr, node.ctx), node)


def _adjoint_of(node: ast.AST) -> str | None:
    """Return the name in `wp.adjoint[name]`; empty if it is no plain name, None if it is something else."""
    if not isinstance(node, ast.Subscript):
        return None
    value = node.value
    if (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) != "adjoint":
        return None
    root = node.slice
    while isinstance(root, ast.Attribute):  # of `wp.adjoint[x.mass]` the input x
        root = root.value
    return getattr(root, "id", "")


@dataclass(frozen=True)
class Gradient:
    """`grad(f)`: called in a kernel like `f`, it returns the derivatives by the inputs of `f`."""

    function: Any
    """A `Function`, or a function of the kernel language that is one operation."""

    @property
    def __name__(self) -> str:
        return f"grad({self.function.__name__})"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there is no derivative of a plain Python function."""
        raise TapedebugError(
            f"{self.__name__} belongs to the kernel language and was called outside a kernel",
            hint="call it inside a function decorated with @kernel or @func",
        )


def grad(function: Any) -> Gradient:
    """The derivatives of a function of the kernel language, in kernels: `grad(f)(x, y)`.

    Called with the arguments of `f`, it gives the derivative of the result by each of them, of the argument's
    type: one value where `f` has one parameter, else a tuple in their order. Of a result with several
    components, or of several results, it is the derivative of the sum of all; by an integer it is 0. Arrays
    that `f` reads are constant, and have no derivative. Gradients of the user's own (`func_grad`) are used.

    It can be differentiated in turn: a kernel that uses it has right gradients, and `grad` takes functions
    that use `grad`.

    Args:
        function: A function decorated with `@func`, or a differentiable function of the kernel language such
            as `sin`.

    Raises:
        KernelTypeError: It is neither.
    """
    if isinstance(function, Function | Builtin):
        return Gradient(function)
    raise KernelTypeError(
        f"grad() takes a function of the kernel language; got {getattr(function, '__name__', function)!r}",
        hint="decorate it with @wp.func",
    )


def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], Function]:
    """Decorate the stub of a function whose body is C: `@func_native("out[tid] = 2.0f * x[tid];")`.

    The parameters of the stub, all annotated, are visible in the snippet: arrays as pointers, numbers as
    values, vectors, matrices and quaternions as unions (`v.x` or `v.c[0]`, `m.m[i][j]`). A declared result is
    the value that the snippet returns. The system's compiler (`CC`, else cc, gcc or clang) compiles the code
    when a kernel is first used. It runs in this process: writes outside of arrays are not detected.

    Args:
        snippet: The body of a C function.
        adj_snippet: What adjoints run: it adds to `adj_a` of a float parameter `a`, to `adj_x[i]` of an array
            `x`, and reads `adj_ret`, the adjoint of the result. Arrays are as the launch left them. Empty
            where no gradient is meant to flow; without one, a gradient that would is an error.
        replay_snippet: What adjoints run where they need the result again. It is used where it writes to no
            array; else the snippet runs again in copies of what it writes to.

    Raises:
        KernelTypeError, KernelSyntaxError: When a kernel that calls it is first used: a type has no
            counterpart in C, or the compiler refuses a snippet (its line is shown).
        TapedebugError: Then, too: there is no compiler.
    """
    from tapedebug.compiler.native.function import Native
    from tapedebug.compiler.native.unit import Snippets

    def decorate(python: Callable[..., Any]) -> Function:
        frame = sys._getframe(1)
        read_annotations(python, frame)
        function = Function(python)
        function.native = Native(
            python,
            Snippets(snippet, adj_snippet, replay_snippet),
            lambda: function.origin,
            lambda: (function.types, function.result_type, function.references),
        )
        function.join(frame.f_locals.get(python.__name__))
        return function

    return decorate


def origin_of(python: Callable[..., Any], what: str) -> Origin:
    """The source of a decorated function, or the user's error."""
    try:
        origin = Origin.of(python)
        _ = origin.header  # its tree is read when it is compiled
    except (OSError, TypeError) as error:
        raise unreadable(python, what, error) from None
    return origin


def unreadable(python: Callable[..., Any], what: str, error: Exception) -> KernelSyntaxError:
    """The user's error where there is no source."""
    name = getattr(python, "__name__", python)
    if isinstance(error, ChangedSource):
        return KernelSyntaxError(
            f"{what} `{name}`: {error}",
            hint="run the program again, or import its module anew (importlib.reload)",
        )
    return KernelSyntaxError(
        f"{what} `{name}`: its source cannot be read ({error})",
        hint="define it in a file or a notebook cell, not through exec() or a lambda",
    )


def read_annotations(python: Callable[..., Any], frame: FrameType | None) -> None:
    """Keep where a function is made all that is read of it later: its text, its names, its annotations.

    Annotations that are strings (`from __future__ import annotations`) are evaluated: only there are the
    variables of a factory known that its annotations use. What cannot be read yet stays a string; it is read,
    or refused, when the types are asked for.
    """
    remember_scope(python)
    keep(python)
    annotations = getattr(python, "__annotations__", {})
    if frame is None or not any(isinstance(a, str) for a in annotations.values()):
        return
    for name, annotation in annotations.items():
        if isinstance(annotation, str):
            with contextlib.suppress(Exception):
                annotations[name] = eval(annotation, frame.f_globals, frame.f_locals)


def closure_of(python: Callable[..., Any]) -> dict[str, Any]:
    """The variables of enclosing functions that a function uses, those that have a value."""
    found: dict[str, Any] = {}
    for name, cell in zip(python.__code__.co_freevars, python.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found


DECORATED_SCOPES: weakref.WeakKeyDictionary[Callable[..., Any], dict[str, Any]] = weakref.WeakKeyDictionary()


def remember_scope(python: Callable[..., Any]) -> None:
    """Keep what the names in a function mean where it is decorated, for `static(…)`."""
    names: set[str] = set()
    codes: list[Any] = [python.__code__]
    for code in codes:
        names.update(code.co_names, code.co_freevars)
        codes += [inner for inner in code.co_consts if hasattr(inner, "co_names")]
    scope = scope_of(python)
    DECORATED_SCOPES[python] = {name: scope[name] for name in names if name in scope}


def is_remembered(python: Callable[..., Any]) -> bool:
    """True if a decorator has read the function's annotations and names."""
    return python in DECORATED_SCOPES


def scope_of(python: Callable[..., Any]) -> dict[str, Any]:
    """Return the free names of a function for `static(…)`: their values when decorated, else now."""
    return {**python.__globals__, **closure_of(python), **decorated_scope(python)}


def decorated_scope(python: Callable[..., Any]) -> dict[str, Any]:
    """Return the values of the names in a function when it was decorated."""
    return DECORATED_SCOPES.get(python, {})


def declared_types(
    python: Callable[..., Any], origin: Origin, what: str, references: list[str] | None = None
) -> dict[str, Any]:
    """The types that annotations declare, by parameter name; strings are evaluated.

    The names of parameters by reference are added to `references`. Arrays refer to their memory anyway.
    """
    references = [] if references is None else references
    closure = closure_of(python)
    declared: dict[str, Any] = {}
    nodes = {a.arg: a for a in (*origin.header.args.posonlyargs, *origin.header.args.args)}
    for name, annotation in getattr(python, "__annotations__", {}).items():
        node = nodes.get(name, origin.header)
        place = origin.header.returns if name == "return" else getattr(node, "annotation", None)
        span = origin.span(place or node)
        if isinstance(annotation, str):
            annotation = _evaluated(python, closure, f"{what} `{origin.function}`", name, annotation, span)
        if name == "return" and annotation in (None, type(None)):
            continue
        try:
            declared[name] = kind = _type_of(annotation)
            if isinstance(annotation, t.Reference):
                if what == "kernel" or name == "return":
                    raise TypeError
                if not isinstance(kind, t.ArrayType | t.IndexedArrayType):
                    references.append(name)
            if isinstance(kind, tuple) and (what == "kernel" or (name == "return" and ... in kind)):
                raise TypeError
        except TypeError:
            shown = ast.unparse(place) if place is not None else repr(annotation)
            raise KernelTypeError(
                f"{what} `{origin.function}`: "
                f"the annotation `{shown}` of `{name}` is not a type of the kernel language",
                span=span,
                hint=_annotation_hint(annotation, what),
            ) from None
    return declared


def _annotation_hint(annotation: Any, what: str) -> str:
    if isinstance(annotation, t.Reference):
        return "only parameters of a @func are references; let the kernel write to an array"
    if what == "kernel" and getattr(annotation, "__origin__", None) is tuple:
        return "give each value a parameter of its own, or use a struct"
    return t.hint_for_type(annotation)


def _evaluated(
    python: Callable[..., Any], closure: Any, function: str, name: str, text: str, span: Span
) -> Any:
    """Evaluate an annotation that is a string, in the scope of the function."""
    try:
        return eval(text, python.__globals__, dict(closure))
    except Exception as error:
        unknown = isinstance(error, NameError)
        raise KernelTypeError(
            f"{function}: "
            f"the annotation `{text}` of `{name}` cannot be read ({type(error).__name__}: {error})",
            span=span,
            hint="use types that are known where the function is defined" if unknown else "correct it",
        ) from None


def _readable(annotation: Any) -> Any:
    """The type that an annotation means, or the annotation itself where it means none."""
    try:
        return _type_of(annotation)
    except TypeError:
        return annotation


def _type_of(annotation: Any) -> Any:
    if isinstance(annotation, t.Reference):
        return _type_of(annotation.dtype)
    if isinstance(annotation, t.ArrayType | t.IndexedArrayType):
        return annotation
    if isinstance(annotation, tuple):
        return tuple(_type_of(a) for a in annotation)
    if getattr(annotation, "__origin__", None) is tuple:
        return tuple(... if a is ... else _type_of(a) for a in annotation.__args__)
    return t.pattern(annotation)
