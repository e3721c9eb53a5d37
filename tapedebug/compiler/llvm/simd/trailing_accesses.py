"""Accesses to memory that another access of the same threads has reached before.

Threads run in ascending order. Where one reads `u[i - 1, j]`, `u[i, j]` and `u[i + 1, j]`, only the last one
is in memory that no thread before has touched: the others follow it a row later, and find it in a cache. Only
what leads is worth fetching ahead; fetching what follows took a fifth of the time of such a kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from typing import TypeGuard

Polynomial = dict[tuple[str, ...], int]
"""Integer coefficients of products of names; the empty product stands for 1."""

EXTENT = re.compile(r"\w+_n\d+")
"""Names of the lengths of axes, which are not negative."""
FEW = 16
"""Elements that are fewer than a row has."""
MOST = 32
"""Different indices of one array up to which they are compared."""
DEEPEST = 12
"""Definitions up to which a name in an index is followed."""


def trailing_accesses(
    body: list[ast.stmt], definitions: Mapping[str, ast.Assign], several: Set[str]
) -> frozenset[int]:
    """Return the `id`s of the elements of arrays in a loop over threads that follow others.

    An element follows another of the same array if its index is lower by numbers and lengths of the last axis
    but one, or the same and later in the text, and if the other is accessed whenever it is. Inner loops are
    left out, and so are axes before the last but one: their rows are too far apart for a cache.

    Args:
        body: The statements of the loop.
        definitions: By name, the assignment that gives it its value.
        several: Names that are assigned more than once.
    """
    indices = _Indices(definitions, several)
    arrays: dict[str, list[tuple[tuple[int, ...], Polynomial, list[int]]]] = {}
    groups: dict[tuple[str, str, tuple[int, ...], bool], list[int]] = {}
    for path, node in _accesses(body, ()):
        assert isinstance(node.value, ast.Name)
        group = node.value.id, ast.dump(_base(node.slice)), path, isinstance(node.ctx, ast.Load)
        if group in groups:  # components of one element, which are read or written together
            groups[group].append(id(node))
            continue
        groups[group] = nodes = [id(node)]
        arrays.setdefault(node.value.id, []).append((path, indices.polynomial(_base(node.slice)), nodes))
    found: set[int] = set()
    for accesses in arrays.values():
        if len(accesses) <= MOST:
            for number, (path, index, nodes) in enumerate(accesses):
                others = (
                    _leads(_difference(other, index), earlier=place < number)
                    for place, (above, other, _) in enumerate(accesses)
                    if place != number and path[: len(above)] == above
                )
                if any(others):
                    found.update(nodes)
    return frozenset(found)


def _leads(ahead: Polynomial, *, earlier: bool) -> bool:
    """True if an access that is so far ahead of another reaches memory first.

    A row is longer than the few elements by which an access is behind within its own.
    """
    if not ahead:
        return earlier
    rest = dict(ahead)
    numbers = rest.pop((), 0)
    rows = all(
        len(names) == 1 and EXTENT.fullmatch(names[0]) and number > 0 for names, number in rest.items()
    )
    return rows and numbers > (-FEW if rest else 0)


def _base(index: ast.expr) -> ast.expr:
    """The index of an element without the number of its component."""
    match index:
        case ast.BinOp(left=ast.Name() as base, op=ast.Add(), right=ast.Constant()):
            return base
    return index


def _accesses(body: list[ast.stmt], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ast.Subscript]]:
    """The elements of arrays in the order of the text, each with the branches that it is in."""
    for node in body:
        match node:
            case ast.If():
                yield from _accesses(node.body, (*path, 2 * id(node)))
                yield from _accesses(node.orelse, (*path, 2 * id(node) + 1))
            case ast.Assign(targets=[target], value=value):
                for element in (value, target):
                    if _is_element(element):
                        yield path, element
            case ast.AugAssign(target=target) if _is_element(target):
                yield path, target


def _is_element(node: ast.expr) -> TypeGuard[ast.Subscript]:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id != "args"


def _difference(x: Polynomial, y: Polynomial) -> Polynomial:
    return _sum(x, {names: -number for names, number in y.items()})


def _sum(x: Polynomial, y: Polynomial) -> Polynomial:
    total = {names: x.get(names, 0) + y.get(names, 0) for names in (*x, *y)}
    return {names: number for names, number in total.items() if number}


class _Indices:
    """Indices as polynomials of what they are computed from."""

    def __init__(self, definitions: Mapping[str, ast.Assign], several: Set[str]) -> None:
        self.definitions, self.several = definitions, several
        self.known: dict[str, Polynomial] = {}

    def polynomial(self, node: ast.expr, depth: int = 0) -> Polynomial:
        """Return an expression with the definitions of its names put in."""
        match node:
            case ast.Constant(value=int(number)):
                return {(): number} if number else {}
            case ast.Name(id=name):
                return self._named(name, depth)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as sign, right=right):
                x, y = self.polynomial(left, depth), self.polynomial(right, depth)
                if isinstance(sign, ast.Mult):
                    return _product(x, y)
                return _sum(x, y) if isinstance(sign, ast.Add) else _difference(x, y)
            case ast.Call(func=ast.Name(id="select"), args=[ast.Compare(), _, index]):
                return self.polynomial(index, depth)  # a negative index counts from the end of its axis
            case ast.Call(func=ast.Name(id="to_i32" | "to_i64" | "i32" | "i64"), args=[value]):
                return self.polynomial(value, depth)
        return {(ast.dump(node),): 1}

    def _named(self, name: str, depth: int) -> Polynomial:
        definition = self.definitions.get(name)
        if definition is None or name in self.several or depth == DEEPEST:
            return {(name,): 1}
        if name not in self.known:
            value = definition.value
            opaque = isinstance(value, ast.Subscript) or not isinstance(value, ast.expr)
            self.known[name] = {(name,): 1} if opaque else self.polynomial(value, depth + 1)
        return self.known[name]


def _product(x: Polynomial, y: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for left, one in x.items():
        for right, other in y.items():
            total = _sum(total, {tuple(sorted((*left, *right))): one * other})
    return total
