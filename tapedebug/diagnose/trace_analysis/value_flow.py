"""Follow a value through the statements of one Python function.

Shapes, comparisons and functions with zero derivative (`len`, `argsort`, `round`) end the flow. A call of an
unknown function passes the value on with uncertainty; functions of the same file are followed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence

from tapedebug.diagnose.trace_analysis.kernel_source import FLAT

NOTHING, UNSURE, SURE = 0, 1, 2
"""Certainty with which an expression carries the value: not at all, through unknown code, certainly."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = ast.Module | Function

_NO_SLOPE = """
len range isinstance type id bool str repr print format hash zeros zeros_like ones ones_like empty empty_like
argsort searchsorted digitize bincount isnan isfinite isinf isclose allclose all any count_nonzero shape size
numel rand randn randint random randn_like rand_like manual_seed default_rng lexsort
"""
NO_SLOPE = FLAT | frozenset(_NO_SLOPE.split())
"""Functions whose results have no derivative by their arguments."""

_ATTRIBUTES = "shape size dtype ndim nbytes device strides itemsize requires_grad"
NO_SLOPE_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_KEEPERS = "append extend insert add update put put_ copy_ setdefault appendleft add_ set_"
KEEPERS = frozenset(_KEEPERS.split())
"""Methods that store their arguments in their object."""
CUTS = frozenset(("detach", "stop_gradient", "detach_"))
"""Functions that end a gradient on purpose."""
UNKNOWN = frozenset(("map", "filter", "eval", "getattr"))
_LIBRARIES = "numpy torch jax math cmath scipy tapedebug warp copy itertools functools operator"
LIBRARIES = frozenset(_LIBRARIES.split())
_ALIASES = "np torch F nn jnp jax math wp scipy sp copy"
ALIASES = frozenset(_ALIASES.split())
"""Usual names of these libraries, for source whose import is not available."""
DEPTH = 4
"""Largest depth of nested calls of the user's functions that is followed."""


class ValueFlow:
    """Follows a value through the statements of one function, in order.

    Args:
        start: The expression whose value is followed, if it is in this function.
        stop: The call, or the target of an assignment, whose arguments are examined.
        carrying: Names that carry the value from the beginning, with their certainty.
        module: The source that contains the function; functions that it calls are searched there.
        depth: Depth of the calls that were followed to get here.

    Attributes:
        reached: The arguments of `stop` that carry the value, with their certainty.
        returned: Certainty with which a `return` or `yield` carries it.
    """

    def __init__(
        self,
        start: ast.AST | None,
        stop: ast.AST | None,
        carrying: Mapping[str, int],
        module: ast.Module | None = None,
        depth: int = 0,
    ) -> None:
        self.start, self.stop, self.module, self.depth = start, stop, module, depth
        self.names = dict(carrying)
        self.reached: dict[ast.expr, int] = {}
        self.returned = NOTHING

    def scope(self, scope: Scope) -> None:
        """Follow a whole function or module."""
        if isinstance(scope, ast.Lambda):
            self.returned = self._value(scope.body)
        else:
            self._block(scope.body)

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assign(node)
        elif isinstance(node, ast.For | ast.AsyncFor):
            carried = self._value(node.iter)
            for _ in range(2):  # the next round may use values of this one
                self._target(node.target, carried)
                self._branches(node.body)
            self._block(node.orelse)
        elif isinstance(node, ast.While):
            for _ in range(2):
                self._value(node.test)
                self._branches(node.body)
            self._block(node.orelse)
        elif isinstance(node, ast.If):
            self._value(node.test)
            self._branches(node.body, node.orelse)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                carried = self._value(item.context_expr)
                if item.optional_vars is not None:
                    self._target(item.optional_vars, carried)
            self._block(node.body)
        elif isinstance(node, ast.Try):
            self._block(node.body)
            self._branches(*(handler.body for handler in node.handlers), node.orelse)
            self._block(node.finalbody)
        elif isinstance(node, ast.Match):
            self._value(node.subject)
            self._branches(*(case.body for case in node.cases))
        elif isinstance(node, ast.Return) and node.value is not None:
            self.returned = max(self.returned, self._value(node.value))
        elif isinstance(node, ast.Expr):
            self._value(node.value)

    def _branches(self, *blocks: Sequence[ast.stmt]) -> None:
        before = dict(self.names)
        after = dict(before) if len(blocks) < 2 else {}
        for block in blocks:
            self.names = dict(before)
            self._block(block)
            after = {name: max(after.get(name, 0), self.names.get(name, 0)) for name in after | self.names}
        self.names = after

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None:
            return
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Tuple) for t in targets):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            if len(targets) == 1 and len(values) == len(targets[0].elts):  # type: ignore[attr-defined]
                for target, value in zip(targets[0].elts, values, strict=True):  # type: ignore[attr-defined]
                    self._target(target, self._value(value))
                return
        carried = self._value(node.value)
        for target in targets:
            if target is self.stop and carried:
                self._reach(node.value, carried)
            if isinstance(node, ast.AugAssign):
                carried = max(carried, self._value(target))
            self._target(target, carried)

    def _target(self, node: ast.AST, carried: int) -> None:
        if isinstance(node, ast.Tuple | ast.List):
            for element in node.elts:
                self._target(element, carried)
        elif isinstance(node, ast.Starred):
            self._target(node.value, carried)
        else:
            path = _path(node)
            if carried and path:
                self.names[path] = max(carried, self.names.get(path, 0))
            elif isinstance(node, ast.Name):
                names = self.names.items()
                self.names = {n: level for n, level in names if n.split(".")[0].split("[")[0] != node.id}
            elif not isinstance(node, ast.Subscript) or path.endswith("]"):
                self.names.pop(path, None)  # another element of an array may still carry it

    # -- expressions ------------------------------------------------------------------------------------

    def _value(self, node: ast.AST | None) -> int:
        """Return the certainty with which an expression carries the followed value."""
        if node is None:
            return NOTHING
        return max(self._carries(node), SURE if node is self.start else NOTHING)

    def _carries(self, node: ast.AST) -> int:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            return NOTHING if node is self.stop else self._place(node)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            return self._comprehension(node)
        if isinstance(node, ast.NamedExpr):
            carried = self._value(node.value)
            self._target(node.target, carried)
            return carried
        if isinstance(node, ast.IfExp):
            self._value(node.test)
            return max(self._value(node.body), self._value(node.orelse))
        if isinstance(node, ast.Yield | ast.YieldFrom):
            self.returned = max(self.returned, self._value(node.value))
            return NOTHING
        if isinstance(node, ast.Lambda):
            return NOTHING
        carried = self._parts(node)
        flat = isinstance(node, ast.Compare) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)
        )
        return NOTHING if flat else carried

    def _parts(self, node: ast.AST) -> int:
        return max([self._value(part) for part in ast.iter_child_nodes(node)], default=NOTHING)

    def _place(self, node: ast.Name | ast.Attribute | ast.Subscript) -> int:
        if isinstance(node, ast.Attribute) and node.attr in NO_SLOPE_ATTRIBUTES:
            self._value(node.value)
            return NOTHING
        path, level = _path(node), NOTHING
        for name, its in self.names.items() if path else ():
            inside = path == name or path.startswith((f"{name}.", f"{name}["))
            whole = isinstance(node, ast.Name) and name.startswith(f"{path}[")  # an entry of it carries it
            level = max(level, its if inside or whole else NOTHING)
        if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            level = max(level, self._value(node.value))
        elif isinstance(node, ast.Subscript):
            self._value(node.slice)
            level = max(level, NOTHING if path else self._value(node.value))
        return level

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        for part in node.generators:
            self._target(part.target, self._value(part.iter))
            for test in part.ifs:
                self._value(test)
        if isinstance(node, ast.DictComp):
            self._value(node.key)
            return self._value(node.value)
        return self._value(node.elt)

    # -- calls ------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> int:
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = _name(node)
        own = self._value(node.func if receiver is None else receiver)
        given = [*node.args, *(word.value for word in node.keywords)]
        if node is self.stop:
            for arg in given:
                for element in arg.elts if isinstance(arg, ast.List | ast.Tuple) else [arg]:
                    self._reach(element, self._value(element))
            self._reach(node.func, own)
        levels = [self._value(arg) for arg in given]
        carried = max(levels, default=NOTHING)
        if receiver is not None and carried and name in KEEPERS:
            self._target(receiver, carried)
        if name in NO_SLOPE:
            return NOTHING
        if carried and not self._is_known(node):
            carried = self._followed(node, levels)
        return min(max(own, carried), UNSURE if name in CUTS else SURE)

    def _reach(self, argument: ast.expr, level: int) -> None:
        if level:
            self.reached[argument] = max(level, self.reached.get(argument, NOTHING))

    def _is_known(self, node: ast.Call) -> bool:
        """True if a call is to a function of a known library or of Python."""
        root: ast.AST = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        if root.id in self._imports():
            return True
        plain = root is node.func and hasattr(builtins, root.id) and root.id not in UNKNOWN
        return plain and self._definition(root.id) is None

    def _imports(self) -> set[str]:
        found = set(ALIASES)
        for node in ast.walk(self.module) if self.module is not None else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    module = node.module if isinstance(node, ast.ImportFrom) else alias.name
                    name = alias.asname or alias.name.partition(".")[0]
                    known = (module or "").partition(".")[0] in LIBRARIES
                    found = found | {name} if known else found - {name}
        return found

    def _definition(self, name: str) -> ast.FunctionDef | None:
        """Return the function with this name in the same source, if there is exactly one."""
        walk = ast.walk(self.module) if self.module is not None else ()
        found = [node for node in walk if isinstance(node, ast.FunctionDef) and node.name == name]
        return found[0] if len(found) == 1 else None

    def _followed(self, node: ast.Call, levels: Sequence[int]) -> int:
        """Return the certainty with which a user's function returns a value that its arguments carry."""
        definition = self._definition(_name(node))
        given = [*node.args, *(word.value for word in node.keywords)]
        if definition is None or self.depth >= DEPTH or any(isinstance(arg, ast.Starred) for arg in given):
            return UNSURE
        names = [arg.arg for arg in (*definition.args.posonlyargs, *definition.args.args)]
        shift = 1 if names[:1] == ["self"] and isinstance(node.func, ast.Attribute) else 0
        carrying: dict[str, int] = {}
        for place, (level, arg) in enumerate(zip(levels, given, strict=True), shift):
            word = next((word.arg for word in node.keywords if word.value is arg), None)
            if level and word is None and place >= len(names):
                return UNSURE
            if level:
                carrying[word or names[place]] = level
        inside = ValueFlow(None, None, carrying, self.module, self.depth + 1)
        inside.scope(definition)
        return inside.returned


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _path(node: ast.AST) -> str:
    """Return `a`, `self.a` or `log['a']`; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _path(node.value)
        return f"{base}.{node.attr}" if base else ""
    if isinstance(node, ast.Subscript):
        base = _path(node.value)
        if not base:
            return ""
        key = node.slice
        return (
            f"{base}[{key.value!r}]" if isinstance(key, ast.Constant) and isinstance(key.value, str) else base
        )
    return ""
