"""Finds lines that divide a step or gradient by a count, which compensates for a sum."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Sequence

from tapedebug._source import display_file
from tapedebug.contract import FrameValues
from tapedebug.diagnose.trace_analysis.host_numbers import HostNumber, Module, parsed
from tapedebug.trace import Location

COUNT = re.compile(r"[nN]|[nN]_\w+|num\w*|\w*count|\w*samples|\w*batch\w*|\w*size|\w*points", re.IGNORECASE)
"""Names of counts."""
STEP = re.compile(
    r"\.grad\b|\bgrads?\b|gradient|slope|\blr\b|rate\b|alpha\b|\beta\b|step_?size", re.IGNORECASE
)
"""Words of a statement that takes a step along a gradient; statements that run a pass do not match."""


def divides_step(
    number: HostNumber, frames: Sequence[FrameValues], files: Sequence[str], count: int
) -> Location | None:
    """Return a line that divides a step or a gradient by a count, to compensate for a sum.

    Args:
        number: The number that is reported; its divisors count as well.
        frames: The frames that read values.
        files: The files whose text is searched.
        count: The count.
    """
    for file in dict.fromkeys([*(frame.code.co_filename for frame in frames), *files]):
        module = parsed(file, "".join(linecache.getlines(file)))
        for node in ast.walk(module.tree) if module is not None else ():
            if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)) or module is None:
                continue
            if not _is_count(node.right, number, frames, count) or _in_kernel(module, node):
                continue
            around = _statement(module, node)
            text = ast.unparse(around)
            if STEP.search(text) and "backward(" not in text and not _is_number(around, number, file):
                return Location(
                    file=display_file(file), line=node.lineno, column=node.col_offset, function=""
                )
    return None


def _is_count(node: ast.expr, number: HostNumber, frames: Sequence[FrameValues], count: int) -> bool:
    text = ast.unparse(node)
    if text in number.divisors or (isinstance(node, ast.Constant) and node.value == count):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("len", "float") and bool(node.args)
    if isinstance(node, ast.Attribute) and node.attr == "size":
        return True
    last = text.rpartition(".")[2]
    known = [value for frame in frames for name, value in frame.values.items() if name.endswith(last)]
    same = [value for value in known if isinstance(value, (int, float))]
    return any(value == count for value in same) or (not same and COUNT.fullmatch(last) is not None)


def _statement(module: Module, node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.stmt):
        node = module.parents[node]
    return node


def _is_number(statement: ast.AST, number: HostNumber, file: str) -> bool:
    first, last = getattr(statement, "lineno", 0), getattr(statement, "end_lineno", 0)
    return display_file(file) == number.place.file and first <= number.place.line <= last


def _in_kernel(module: Module, node: ast.AST | None) -> bool:
    while node is not None:
        if isinstance(node, ast.FunctionDef):
            names = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
            if any(name.split(".")[-1] in ("kernel", "func", "func_grad") for name in names):
                return True
        node = module.parents.get(node)
    return False
