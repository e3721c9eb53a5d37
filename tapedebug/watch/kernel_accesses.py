"""Reads and writes of a kernel's arrays, from its syntax tree: for kernels that are only run, not translated.

The analysis follows arrays through local names, views, fields of structs and calls of user functions. If it
cannot follow one, such as into native code, it claims that the array is read and written: claims that are too
large cost time, and never an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple, Protocol

from tapedebug._dataclass import dataclass
from tapedebug._source import Span

Path = tuple[str, ...]
"""A parameter, or a field of one: `("state", "q")`."""

READ_BY = frozenset({"tile_load", "tile_load_indexed", "lower_bound", "upper_bound", "len"})
"""Built-in functions that only read their first argument if it is an array."""
WRITTEN_BY = frozenset({"tile_store", "tile_store_indexed"})
"""Built-in functions that only write their first argument."""
ADDED_TO_BY = frozenset({"tile_atomic_add", "tile_atomic_add_indexed", "atomic_add", "atomic_sub"})
"""Built-in functions that add to their first argument atomically."""
COMPARED_BY = frozenset({"atomic_min", "atomic_max"})
"""Built-in functions whose adjoint compares the value that they left."""
ATOMIC_OPERATORS = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
"""Operators whose augmented assignment to an array element is atomic."""
NOT_FIELDS = frozenset({"shape", "ndim", "size", "strides", "dtype"})
DEPTH = 20
"""Largest depth of calls of user functions that is followed."""


@dataclass(slots=True)
class Use:
    """The use that a kernel makes of one array."""

    reads: bool = False
    writes: bool = False
    atomic: bool = False
    left: bool = False
    """The adjoint reads the value that the kernel left."""
    places: dict[tuple[Literal["read", "write", "atomic"], Span], None] = field(default_factory=dict)

    def add(self, other: Use, place: Span) -> None:
        """Include another use of the same array, at a place of the source."""
        self.reads |= other.reads
        self.writes |= other.writes
        self.atomic |= other.atomic
        self.left |= other.left
        if other.reads or (other.left and not other.writes):
            self.places["read", place] = None
        if other.writes:
            self.places["atomic" if other.atomic else "write", place] = None


READ = Use(reads=True)
READ_BACK = Use(left=True)
"""A read of an element that the same thread has stored before."""
WRITE = Use(writes=True)
ADD = Use(writes=True, atomic=True)
ANYTHING = Use(reads=True, writes=True, left=True)


class Definition(NamedTuple):
    """The source of a kernel or function, and the objects that its names stand for.

    Attributes:
        tree: The syntax tree; its lines count from 1.
        file: The file.
        first_line: The line of the file at which the source begins.
        lines: The lines of the source.
        resolve: Returns the object that a name or attribute of the source stands for; None if it is unknown.
    """

    tree: ast.FunctionDef
    file: str
    first_line: int
    lines: Sequence[str]
    resolve: Callable[[ast.expr], object]

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Return the place of a node in the file: that of the function if the node is generated."""
        if not hasattr(node, "lineno"):  # in a tree that was rewritten, as those of integrands
            node = self.tree
        line = node.lineno
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return Span(
            self.file,
            line + self.first_line - 1,
            node.col_offset,
            (node.end_lineno or line) + self.first_line - 1,
            node.end_col_offset or 0,
            self.tree.name,
            text.rstrip("\n"),
        )


class Library(Protocol):
    """Functions as kernels call them."""

    def function(self, found: object, /) -> Sequence[Definition]:
        """Return the definitions of the user function that an object is; none if there is no source."""

    def builtin(self, found: object, /) -> str | None:
        """Return the name of a built-in function; None if the object is none."""

    def native(self, found: object, /) -> Mapping[str, Use] | None:
        """Return the uses of the parameters of a function in C++, in order; None if the object is none."""

    def is_plain(self, found: object, /) -> bool:
        """True for objects that use no array that they are called with, such as types."""


def uses_of(kernel: Definition, ndims: Mapping[Path, int], library: Library) -> dict[Path, Use]:
    """Return the use of each array parameter, and of each array in a struct that is a parameter.

    Args:
        kernel: The kernel.
        ndims: The number of axes of each array.
        library: The functions that it may call.
    """
    found = {path: Use() for path in ndims}
    start = {path[0]: {(path[:1], 0)} for path in ndims}
    _Function(kernel, start, found, ndims, library, 0, {}).run()
    return found


Reference = tuple[Path, int]
"""An array, a struct with arrays, or a part of one of them: path, and number of indices applied."""


class _Function:
    def __init__(
        self,
        definition: Definition,
        names: Mapping[str, set[Reference]],
        found: dict[Path, Use],
        ndims: Mapping[Path, int],
        library: Library,
        depth: int,
        followed: dict[Hashable, tuple[object, set[Reference]]],
    ) -> None:
        self.definition, self.library, self.depth = definition, library, depth
        self.followed = followed
        """Results of calls by function and arrays, each with the function, whose id is in the key."""
        self.names = {name: set(references) for name, references in names.items()}
        self.found, self.ndims = found, ndims
        self.returned: set[Reference] = set()
        self.stored: set[tuple[Path, str]] = set()
        """Elements that this thread has stored on every way to the present statement: path and index."""

    def run(self) -> set[Reference]:
        """Enter the uses; return the arrays that the function may return."""
        before = -1
        while before != (before := sum(map(len, self.names.values()))):  # aliases of later lines
            self.stored.clear()
            for statement in self.definition.tree.body:
                self.statement(statement)
        return self.returned

    def statement(self, node: ast.stmt) -> None:
        """Enter the uses by a statement; stores inside a nested block do not count for those after it."""
        if not isinstance(node, ast.Assign):
            for inner in ast.walk(node):  # also what a later iteration of a loop assigns
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    self.forget(inner.id)
        before = set(self.stored)
        self._statement(node)
        if not isinstance(node, ast.Assign):
            self.stored &= before

    def forget(self, name: str) -> None:
        """Forget the stores whose index contains a variable that is assigned."""
        self.stored = {(path, index) for path, index in self.stored if f"'{name}'" not in index}

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                given = self.value(value)
                for target in targets:
                    self.assign(target, given)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=operator, value=value):
                self.value(value)
                if isinstance(target, ast.Subscript | ast.Attribute):
                    self.store(target, ADD if isinstance(operator, ATOMIC_OPERATORS) else ANYTHING)
            case ast.Expr(value=ast.Call() as call):
                self.call(call, used=False)
            case ast.Return(value=value) if value is not None:
                self.returned |= self.value(value)
            case ast.For(target=target, iter=items, body=body, orelse=other):
                self.assign(target, self.value(items))
                for inner in (*body, *other):
                    self.statement(inner)
            case _:
                for _, value in ast.iter_fields(node):
                    for inner in value if isinstance(value, list) else [value]:
                        if isinstance(inner, ast.stmt):
                            self.statement(inner)
                        elif isinstance(inner, ast.expr):
                            self.value(inner)

    def assign(self, target: ast.expr, given: set[Reference]) -> None:
        match target:
            case ast.Name(id=name):
                self.names.setdefault(name, set()).update(given)
                self.forget(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.assign(part, given)
            case ast.Subscript() | ast.Attribute():
                self.store(target, WRITE)
                self.use(given, ANYTHING, target)  # it becomes the field of a local struct

    def store(self, target: ast.Subscript | ast.Attribute, use: Use) -> None:
        """Enter a store to an element, or to a component of one."""
        if isinstance(target, ast.Subscript):
            self.value(target.slice)
        found = self.place(target)
        self.use(found, use, target)
        if use is WRITE and isinstance(target, ast.Subscript) and len(found) == 1:
            ((path, depth),) = found
            if depth == self.ndims.get(path):
                self.stored.add((path, ast.dump(target.slice)))

    def place(self, node: ast.expr) -> set[Reference]:
        """Return the arrays whose elements an assignment target is, or is a component of."""
        match node:
            case ast.Subscript(value=base, slice=index):
                return self.indexed(self.place(base), index)
            case ast.Attribute(value=base, attr=name):
                return self.field(self.place(base), name, node)
        return self.value(node)

    def value(self, node: ast.expr | None) -> set[Reference]:
        """Return the arrays that an expression may be a part of, and enter what its evaluation uses."""
        match node:
            case None:
                return set()
            case ast.Name(id=name):
                return self.names.get(name, set())
            case ast.Attribute(value=base, attr=name):
                return self.field(self.value(base), name, node)
            case ast.Subscript(value=base, slice=index):
                self.value(index)
                found = self.indexed(self.value(base), index)
                for reference in found:
                    if reference[1] >= self.ndims.get(reference[0], 1):
                        own = (reference[0], ast.dump(index)) in self.stored
                        self.use([reference], READ_BACK if own else READ, node)
                return {r for r in found if r[1] < self.ndims.get(r[0], 1) or r[0] not in self.ndims}
            case ast.Call():
                return self.call(node, used=True)
            case ast.IfExp(test=test, body=body, orelse=other):
                self.value(test)
                return self.value(body) | self.value(other)
        found = set()
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                found |= self.value(inner)
        return found if isinstance(node, ast.Tuple | ast.List | ast.Starred) else set()

    def indexed(self, base: set[Reference], index: ast.expr) -> set[Reference]:
        count = len(index.elts) if isinstance(index, ast.Tuple) else 1
        return {(path, depth + count) for path, depth in base}

    def field(self, base: set[Reference], name: str, node: ast.expr) -> set[Reference]:
        """Return the field of structs; an address is out of sight."""
        if not base or name in NOT_FIELDS:
            return set()
        arrays = {reference for reference in base if reference[0] in self.ndims}
        if name == "ptr":
            self.use(arrays, ANYTHING, node)
        return {((*path, name), 0) for path, _ in base - arrays} | {r for r in arrays if r[1]}

    def call(self, node: ast.Call, *, used: bool) -> set[Reference]:
        """Enter the uses by a call; return the arrays that it may return."""
        given = [self.value(argument) for argument in node.args]
        named = {keyword.arg or "": self.value(keyword.value) for keyword in node.keywords}
        callee = self.definition.resolve(node.func)
        for argument in _by_reference(node, self.library.function(callee)):
            self.use(self.place(argument), ANYTHING, argument)
        if not any(given) and not any(named.values()):
            return set()
        builtin = self.library.builtin(callee)
        if builtin is not None:
            self.builtin(node, builtin, given, named, used=used)
            return set()
        function = self.library.function(callee)
        if function and self.depth < DEPTH:
            key = (
                id(callee),
                tuple(map(frozenset, given)),
                frozenset((k, frozenset(v)) for k, v in named.items()),
            )
            known = self.followed.get(key)
            if known is None:
                self.followed[key] = callee, set()  # for a recursive call
                known = self.followed[key] = callee, self.follow(function, given, named)
            return known[1]
        native = self.library.native(callee)
        if native is not None:
            for name, use in native.items():
                position = list(native).index(name)
                passed = given[position] if position < len(given) else named.get(name, set())
                self.use(passed, use, node)
            return set()
        everything: set[Reference] = set().union(*given, *named.values())
        if not self.library.is_plain(callee):
            self.use(everything, ANYTHING, node)
        return everything

    def builtin(
        self,
        node: ast.Call,
        name: str,
        given: list[set[Reference]],
        named: Mapping[str, set[Reference]],
        *,
        used: bool,
    ) -> None:
        """Enter the uses by a built-in function; `used` if its result is."""
        first = named.get("arr", named.get("a", given[0] if given else set()))
        others = set().union(*given, *named.values()) - first
        if name in READ_BY:
            self.use(first, READ, node)
        elif name in WRITTEN_BY:
            self.use(first, WRITE, node)
        elif name in ADDED_TO_BY or name in COMPARED_BY:
            self.use(first, Use(reads=used, writes=True, atomic=True, left=name in COMPARED_BY), node)
        else:
            self.use(first, ANYTHING, node)
        self.use(others, ANYTHING, node)

    def follow(
        self,
        definitions: Iterable[Definition],
        given: list[set[Reference]],
        named: Mapping[str, set[Reference]],
    ) -> set[Reference]:
        """Enter the uses by a user function."""
        returned: set[Reference] = set()
        for definition in definitions:
            parameters = [argument.arg for argument in definition.tree.args.args]
            names = {**dict(zip(parameters, given, strict=False)), **named}
            depth = self.depth + 1
            inner = _Function(definition, names, self.found, self.ndims, self.library, depth, self.followed)
            returned |= inner.run()
        return returned

    def use(self, references: Iterable[Reference], use: Use, node: ast.expr) -> None:
        """Enter a use of arrays; that of a struct is a use of all arrays in it."""
        for path, _ in references:
            for known, entered in self.found.items():
                if known[: len(path)] == path or path[: len(known)] == known:
                    entered.add(use, self.definition.span(node))


def _by_reference(node: ast.Call, function: Iterable[Definition]) -> list[ast.expr]:
    """Return the arguments that a user function takes by reference and may assign to (`wp.ref[float]`)."""
    found = []
    for definition in function:
        parameters = definition.tree.args.args
        names = {each.arg for each in parameters if _is_reference(definition, each.annotation)}
        found += [
            each for parameter, each in zip(parameters, node.args, strict=False) if parameter.arg in names
        ]
        found += [each.value for each in node.keywords if each.arg in names]
    return found


def _is_reference(definition: Definition, annotation: ast.expr | None) -> bool:
    """True if an annotation is `wp.ref[…]`, or a name for it."""
    if annotation is None:
        return False
    written = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    meant = definition.resolve(written)
    return getattr(meant, "__name__", type(meant).__name__) in ("ref", "Reference")
