"""The declaration of a user's kernel: its source, settings and parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

from tapedebug._config import is_debugging
from tapedebug._errors import KernelSyntaxError, KernelTypeError
from tapedebug._source import Origin
from tapedebug.compiler import flatten, modules
from tapedebug.compiler.function import METHODS, declared_types, origin_of
from tapedebug.compiler.layout import Layout
from tapedebug.compiler.params import Param
from tapedebug.lang import types as t


class Definition:
    """A kernel before it is compiled.

    Attributes:
        key: The name that checks and reports use.
        module: What it was defined in.
        options: Its own settings.
        types: Of a version of a generic kernel, the types of its parameters.
        least_axes: The number of axes of its threads, where `tid()` gives fewer.
        code_transformers: What rewrites the syntax tree before it is compiled, in this order.
    """

    least_axes = 1
    code_transformers: tuple[ast.NodeTransformer, ...] = ()

    def __init__(
        self,
        python: Callable[..., Any],
        key: str | None,
        module: modules.Module | ModuleType | str | None,
        types: tuple[Any, ...],
        options: dict[str, Any],
    ) -> None:
        self.python = python
        self.module = modules.module_of(module, python)
        self.options = modules.checked_options(options, f"kernel `{python.__name__}`")
        self.types = types
        qualified = python.__qualname__.replace("<locals>.", "").replace(".", "__")
        self.key = key or re.sub(r"[^0-9A-Za-z_]+", "", qualified)
        self.__name__ = python.__name__
        self.__doc__ = python.__doc__

    def __repr__(self) -> str:
        return f"<kernel {self.key}{f'({self.version})' if self.version else ''}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: kernels are launched."""
        raise KernelTypeError(
            f"kernel `{self.__name__}` was called like a function",
            hint=f"launch it: launch({self.__name__}, dim=…, inputs=[…])",
        )

    def option(self, name: str) -> Any:
        """A setting as it is for this kernel: its own, else that of its module, else that of `config`."""
        return self.options[name] if name in self.options else self.module.option(name)

    @property
    def enable_backward(self) -> bool:
        """True if launches of the kernel pass gradients."""
        return bool(self.option("enable_backward"))

    @property
    def check_bounds(self) -> bool:
        """True if an index outside of its array ends a launch."""
        chosen = self.option("check_bounds")
        return self.demands_bounds or (chosen is None and is_debugging())

    @property
    def demands_bounds(self) -> bool:
        """True if the user has set the option."""
        return bool(self.option("check_bounds")) or self.option("mode") == "debug"

    @cached_property
    def origin(self) -> Origin:
        """The kernel's source."""
        found = origin_of(self.python, "kernel")
        return found.rewritten(self.code_transformers) if self.code_transformers else found

    @cached_property
    def signature(self) -> tuple[Param, ...]:
        """The parameters as they are declared, with their types."""
        origin = self.origin
        arguments = origin.header.args
        others = [arguments.vararg, arguments.kwarg, *arguments.kwonlyargs]
        starred = next((a for a in others if a is not None), None)
        if starred is not None:
            raise KernelSyntaxError(
                f"kernel `{self.__name__}`: a kernel has plain parameters only; `{starred.arg}` is not",
                span=origin.span(starred),
                hint="give each argument a parameter of its own",
            )
        if getattr(self.python, "__annotations__", {}).get("return") not in (None, type(None)):
            raise KernelSyntaxError(
                f"kernel `{self.__name__}`: a kernel returns nothing; it is annotated "
                f"`-> {ast.unparse(origin.header.returns or ast.Constant(None))}`",
                span=origin.span(origin.header.returns or origin.header),
                hint="remove the annotation; threads write their results to arrays",
            )
        declared = declared_types(self.python, origin, "kernel")
        params = []
        for index, argument in enumerate((*arguments.posonlyargs, *arguments.args)):
            if argument.arg not in declared:
                if index == 0 and argument.arg in METHODS:
                    raise KernelTypeError(
                        f"kernel `{self.__name__}`: a kernel is a function, not a method: it begins "
                        f"with `{argument.arg}`",
                        span=origin.span(argument),
                        hint=f"define it outside the class, without `{argument.arg}`, and pass what it needs "
                        "of the object as arguments of the launch",
                    )
                raise KernelTypeError(
                    f"kernel `{self.__name__}`: the parameter `{argument.arg}` has no type",
                    span=origin.span(argument),
                    hint="annotate it, for example "
                    f"`{argument.arg}: array(dtype=float)` or `{argument.arg}: float`",
                )
            kind = self.types[index] if self.types else declared[argument.arg]
            self._require_elements(argument, kind)
            params.append(Param(argument.arg, kind, index))
        return tuple(params)

    def _require_elements(self, argument: ast.arg, kind: Any) -> None:
        """Refuse a parameter with an array of structs that hold indexed arrays or have no fields."""
        element = getattr(kind, "dtype", None)
        if t.is_struct(element):
            try:
                t.element_type(element)
            except TypeError as error:
                raise KernelTypeError(
                    f"kernel `{self.__name__}`: `{argument.arg}` cannot be passed: {error}",
                    span=self.origin.span(argument),
                    hint="let the struct hold the array, and the array of indices, as two fields"
                    if "indexed array" in str(error)
                    else "give the struct a field",
                ) from None
        if t.is_struct(kind):
            for inner in kind.fields.values():
                self._require_elements(argument, inner)

    @cached_property
    def params(self) -> tuple[Param, ...]:
        """The parameters as they are compiled: structs and indexed arrays taken apart."""
        return self.signature if self.flat else flatten.flattened(self.signature)

    @cached_property
    def flat(self) -> bool:
        """True if parameters are compiled as they are declared."""
        return flatten.is_flat(self.signature)

    @cached_property
    def layout(self) -> Layout:
        """The packing of arguments."""
        return Layout(self.params)

    @property
    def version(self) -> str:
        """The parameters of a version of a generic kernel, with their types; empty for other kernels."""
        shown = [f"{p.name}: {t.type_name(p.type)}" for p in self.signature] if self.types else []
        return ", ".join(shown)

    @cached_property
    def is_generic(self) -> bool:
        """True if parameters take several types: each combination has a version of the kernel."""
        return any(t.is_generic(param.type) for param in self.signature)

    def require_concrete(self) -> None:
        """Refuse a generic kernel.

        Raises:
            KernelTypeError: It is one.
        """
        if self.is_generic:
            shown = ", ".join(f"{p.name}: {t.type_name(p.type)}" for p in self.signature)
            raise KernelTypeError(
                f"kernel `{self.__name__}`: it is generic ({shown}), compiled for the types of a launch",
                span=self.origin.span(self.origin.tree),
                hint=f"launch it, or choose the types: overload({self.__name__}, […])",
            )
