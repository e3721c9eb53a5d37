"""Facts about a kernel, from its source alone."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Collection

from tapedebug._source import display_file, source_line
from tapedebug._syntax import parsed
from tapedebug.trace import KernelInfo, Location

FLAT = frozenset(
    {"floor", "ceil", "round", "rint", "trunc", "sign", "step", "nonzero", "argmin", "argmax", "int"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Functions whose derivative is 0 wherever it exists."""


def flat_call(kernel: KernelInfo, params: Collection[str]) -> tuple[str, Location] | None:
    """Return text and place of the first operation with zero derivative on values read from `params`.

    Values are followed through local variables, so `i // side` of thread indices does not count.
    """
    source = textwrap.dedent("\n".join(kernel.lines))
    indent = len(kernel.lines[0]) - len(kernel.lines[0].lstrip()) if kernel.lines else 0
    try:
        tree = parsed(source)
    except SyntaxError:
        return None
    carrying = _carrying(tree, set(params))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.BinOp)) and _is_flat(node) and _names(node) & carrying:
            place = Location(
                file=kernel.file,
                line=kernel.line + node.lineno - 1,
                column=node.col_offset + indent,
                function=kernel.name,
            )
            return ast.unparse(node), place
    return None


def code_at(location: Location) -> str:
    """Return the line of code at a place, also in a notebook cell (`In [4]`); empty if not available."""
    return source_line(source_file(location.file), location.line)


def source_file(shown: str) -> str:
    """Return Python's name of a file or cell, given its name from `display_file`."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not shown.startswith("In ["):
        return shown
    cells = getattr(getattr(ipython.get_ipython(), "compile", None), "_filename_map", None) or {}
    return next((file for file in reversed(cells) if display_file(file) == shown), shown)


def _is_flat(node: ast.Call | ast.BinOp) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in FLAT


def _carrying(tree: ast.AST, names: set[str]) -> set[str]:
    """Return the variables computed from `names`; the source is scanned twice because of loops."""
    for _ in range(2):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if _names(node.value) & names:
                    names = names | {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
