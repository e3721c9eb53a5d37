"""The source of Warp's kernels, and the use that they make of arrays."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

from tapedebug.contract import Parameter, Place, SourceAccess, SourceText
from tapedebug.watch.arguments import Leaf, WarpKernel
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.kernel_accesses import ANYTHING, Definition, Path, Use, uses_of
from tapedebug.watch.native_snippets import NativeFunction

FUNCTION = "warp._src.context:Function"
"""The class of functions of Warp, built-in or the user's."""


def is_reversible(kernel: WarpKernel) -> bool:
    """True if Warp makes an adjoint of a kernel."""
    enabled = kernel.options.get("enable_backward")
    if enabled is None:
        enabled = kernel.module.options.get("enable_backward")
    return enabled is not False


class WarpKernelSource:
    """The capability `contract.KernelSource` of a launch."""

    def __init__(self, kernel: WarpKernel, leaves: Sequence[Leaf], uses: Mapping[Path, Use]) -> None:
        self.functions: Sequence[SourceText] = ()
        self._kernel, self._leaves, self._uses = kernel, leaves, uses

    @property
    def kernel(self) -> Hashable:
        """The function of the kernel, which all its overloads share."""
        found: Hashable = self._kernel.func
        return found

    @property
    def text(self) -> SourceText:
        """The kernel itself."""
        definition = definition_of(self._kernel)
        if definition is None:
            return SourceText(str(self._kernel.key), "", 0, ())
        return SourceText(
            str(self._kernel.key),
            definition.file,
            definition.first_line,
            [line.rstrip("\n") for line in definition.lines],
        )

    @cached_property
    def parameters(self) -> Sequence[Parameter]:
        """The arguments, with structs split into fields."""
        return [
            Parameter(
                leaf.name,
                type(leaf.value).__name__ if leaf.array is None else leaf.array.dtype_name,
                leaf.array is not None,
            )
            for leaf in self._leaves
        ]

    @property
    def accesses(self) -> Sequence[SourceAccess]:
        """The places that access arrays, of those that the syntax tree shows."""
        return [
            SourceAccess(number, kind, place)
            for number, leaf in enumerate(self._leaves)
            if leaf.path in self._uses
            for kind, place in self._uses[leaf.path].places
        ]

    @property
    def needed(self) -> Mapping[int, Sequence[Place]]:
        """The reads of each array."""
        found: dict[int, list[Place]] = {}
        for access in self.accesses:
            if access.kind == "read":
                found.setdefault(access.param, []).append(access.place)
        return found

    @property
    def needed_key(self) -> Hashable:
        """Equal for all launches of a kernel."""
        return None

    @property
    def enable_backward(self) -> bool:
        """True if the kernel has an adjoint."""
        return is_reversible(self._kernel)

    def adjoint_text(self) -> None:
        """Return None: Warp's adjoints are C++."""


def definition_of(function: WarpObject) -> Definition | None:
    """Return the source of a kernel or function of Warp; None if there is none."""
    adj: WarpObject = getattr(function, "adj", None)
    tree = getattr(adj, "tree", None)
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    return Definition(
        tree.body[0], adj.filename, adj.fun_lineno, adj.source.splitlines(), _Names(function.func).resolve
    )


class _Names:
    """The objects that the names in a function stand for."""

    def __init__(self, function: WarpObject) -> None:
        self._globals = function.__globals__
        names = function.__code__.co_freevars
        self._closure = dict(zip(names, function.__closure__ or (), strict=True))

    def resolve(self, node: ast.expr) -> object:
        """Return the object of a name or attribute; None if it is unknown."""
        if isinstance(node, ast.Name):
            with contextlib.suppress(ValueError):
                if node.id in self._closure:
                    return self._closure[node.id].cell_contents
            found = self._globals.get(node.id)
            return _builtin(node.id) if found is None else found
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if base is None:
                return None
            if isinstance(base, ModuleType) and base.__name__ == "warp":
                return _builtin(node.attr) or getattr(base, node.attr, None)
            return getattr(base, node.attr, None)
        return None


def _builtin(name: str) -> object:
    """Return a built-in function or operator of Python or Warp; None if there is none."""
    return look_up("warp._src.context:builtin_functions").get(name) or getattr(builtins, name, None)


class WarpLibrary:
    """The `kernel_accesses.Library` of functions of Warp."""

    def function(self, found: object, /) -> list[Definition]:
        """Return the definitions of a function of the user."""
        function: Any = found
        if self.builtin(found) is not None or getattr(found, "native_snippet", None) is not None:
            return []
        several = list(getattr(function, "user_overloads", {}).values()) or [function]
        definitions = [definition_of(each) for each in several]
        return [] if None in definitions else [each for each in definitions if each is not None]

    def builtin(self, found: object, /) -> str | None:
        """Return the name of a built-in function of Warp."""
        function: Any = found
        if isinstance(found, look_up(FUNCTION)) and function.is_builtin():
            return str(function.key)
        return "len" if found is len else None

    def native(self, found: object, /) -> dict[str, Use] | None:
        """Return the uses of the parameters of a native snippet; None if the object is none."""
        function: Any = found
        snippet = getattr(function, "native_snippet", None)
        if snippet is None:
            return None
        texts = [snippet, *filter(None, [getattr(function, "replay_snippet", None)])]
        params = list(function.input_types)
        made = NativeFunction(params, texts, getattr(function, "adj_native_snippet", None) or "")
        return {name: made.uses(name) for name in params}

    def is_plain(self, found: object, /) -> bool:
        """True for types and `range`: they use no array that they are called with."""
        return isinstance(found, type)


def is_known_to_repeat(kernel: WarpKernel) -> bool:
    """True if the results of a kernel depend on its arguments alone: it calls no C++ of the user.

    Functions of Warp give the same each time, also those of random numbers.
    """
    library, seen = WarpLibrary(), set[int]()
    waiting = [definition_of(kernel)]
    while waiting:
        definition = waiting.pop()
        if definition is None:
            return False
        for node in ast.walk(definition.tree):
            found = definition.resolve(node.func) if isinstance(node, ast.Call) else None
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            if library.native(found) is not None:
                return False
            waiting += library.function(found) if isinstance(found, look_up(FUNCTION)) else []
    return True


class KernelUses:
    """The uses of arrays by kernels, computed once for each kernel and number of axes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Path, Use]] = {}
        self._library = WarpLibrary()

    def of(self, kernel: WarpKernel, leaves: Sequence[Leaf]) -> dict[Path, Use]:
        """Return the use of each array of a launch, by path."""
        ndims = {leaf.path: leaf.array.ndim for leaf in leaves if leaf.array is not None}
        key = kernel, tuple(ndims.items())
        found = self._known.get(key)
        if found is None:
            definition = definition_of(kernel)
            handles = {leaf.path for leaf in leaves if leaf.handle is not None}
            named = {
                path: ndim
                for path, ndim in ndims.items()
                if not path[-1].startswith("indices[") and path[:-1] not in handles
            }
            if definition is None:
                found = dict.fromkeys(named, ANYTHING)
            else:
                found = uses_of(definition, named, self._library)
            self._known[key] = found
        return found
