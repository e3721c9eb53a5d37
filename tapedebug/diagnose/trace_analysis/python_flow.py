"""Data flow through the user's Python code: does a value that one call read reach another call?

Both calls are known with their stacks. The innermost function that they share is followed statement by
statement, and so are the helper functions between it and each call.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType

from tapedebug._syntax import parsed
from tapedebug.diagnose.trace_analysis.value_flow import NOTHING, SURE, UNSURE, Scope, ValueFlow

Stack = Sequence[tuple[CodeType, int, int]]
"""Frames, innermost first: code, index of the calling instruction, and a number of the frame (0: unknown)."""


def flows(left: Stack, back: Stack) -> int | None:
    """Return the certainty with which values that one call read reach the arguments of another call.

    Args:
        left: The stack of the call that read values.
        back: The stack of the call that brought values in.

    Returns:
        `NOTHING`, `UNSURE` or `SURE`; None if the source is not available, or if the two calls have no
        function in common.
    """
    place, reached = _common(left, back), arguments_reached(left, back)
    if place is None or reached is None:
        return None
    # Down through the helper functions between the common one and the call that brought values in.
    for depth in range(place[1], 0, -1):
        if not reached:
            return NOTHING
        (caller, instruction, _), (code, inner, _) = back[depth], back[depth - 1]
        outside, scope = _scope(caller), _scope(code)
        call = None if outside is None else _node_at(outside, caller, instruction)
        stop = None if scope is None else _node_at(scope, code, inner)
        if call is None or scope is None or stop is None:
            return UNSURE
        walk = ValueFlow(None, stop, _parameters(code, call, reached), _tree_of(code))
        walk.scope(scope)
        reached = walk.reached
    return max(reached.values(), default=NOTHING)


def arguments_reached(left: Stack, back: Stack) -> dict[ast.expr, int] | None:
    """Return the arguments, in the innermost function that two stacks share, that carry the values read.

    Elements of a list count as separate arguments.

    Returns:
        The certainty of each; None if the source does not show it.
    """
    place = _common(left, back)
    if place is None:
        return None
    code, instruction, _ = back[place[1]]
    other, read, _ = left[place[0]]
    tree = _scope(code)
    if tree is None:
        return None
    start, stop = _node_at(tree, other, read), _node_at(tree, code, instruction)
    if start is None or stop is None:
        return None
    if start is stop:  # one call of a helper function that contains both
        return None
    level = _returned(left, place[0])
    walk = ValueFlow(start, stop, {}, _tree_of(code))
    walk.scope(tree)
    return {node: min(level, its) for node, its in walk.reached.items()} if level else {}


def argument_text(back: Stack) -> str:
    """Return the source of the first argument of a call; empty if it is not available."""
    for code, instruction, _ in back[:1]:
        tree = _scope(code)
        call = None if tree is None else _node_at(tree, code, instruction)
        if isinstance(call, ast.Call) and call.args:
            return ast.unparse(call.args[0])
    return ""


def elements_of_launch(back: Stack) -> list[ast.expr] | None:
    """Return the inputs and outputs of a `launch` as listed in its source; None for other forms."""
    code, instruction, _ = back[0]
    tree = _scope(code)
    call = None if tree is None else _node_at(tree, code, instruction)
    if not isinstance(call, ast.Call):
        return None
    given = {word.arg: word.value for word in call.keywords}
    found: list[ast.expr] = []
    for place, name in ((2, "inputs"), (3, "outputs")):
        lists = given.get(name, call.args[place] if len(call.args) > place else None)
        if lists is None:
            continue
        if not isinstance(lists, ast.List | ast.Tuple) or any(isinstance(e, ast.Starred) for e in lists.elts):
            return None
        found += lists.elts
    return found


def _common(left: Stack, back: Stack) -> tuple[int, int] | None:
    """Return the positions, in both stacks, of the innermost frame that they share."""
    for outer, (code, _, number) in enumerate(back):
        for inner, (other, _, its) in enumerate(left):
            if code is other and (number == its or 0 in (number, its)):
                return inner, outer
    return None


def _returned(left: Stack, inner: int) -> int:
    """Return the certainty with which helper functions return values that were read within them."""
    level = SURE
    for code, instruction, _ in left[:inner]:
        tree = _scope(code)
        node = None if tree is None else _node_at(tree, code, instruction)
        library = "site-packages" in code.co_filename
        if library or tree is None or node is None or isinstance(tree, ast.Module | ast.Lambda):
            continue
        walk = ValueFlow(node, None, {}, _tree_of(code))
        walk.scope(tree)
        level = min(level, walk.returned)
    return level


def _parameters(code: CodeType, call: ast.AST, reached: Mapping[ast.expr, int]) -> dict[str, int]:
    """Return the parameter names, in the called function, of the arguments that carry the value."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    extra = code.co_varnames[len(names) :]
    if not isinstance(call, ast.Call) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return dict.fromkeys((*names, *extra[:2]), UNSURE)
    shift = 1 if names[:1] in (("self",), ("cls",)) else 0
    found = {"self": reached[call.func]} if shift and call.func in reached else {}
    for place, arg in enumerate(call.args, shift):
        if arg in reached:
            name = names[place] if place < code.co_argcount else "".join(extra[:1])
            found[name] = reached[arg]
    for keyword in call.keywords:
        if keyword.value in reached:
            found[keyword.arg if keyword.arg in names else "".join(extra[-1:])] = reached[keyword.value]
    return found


# ------------------------------------------------------------------------------------------------ source


@lru_cache(maxsize=8)
def _tree(text: str) -> ast.Module | None:
    try:
        return parsed(text)
    except (SyntaxError, ValueError):
        return None


def _tree_of(code: CodeType) -> ast.Module | None:
    text = "".join(linecache.getlines(code.co_filename))
    return _tree(text) if text else None


def _scope(code: CodeType) -> Scope | None:
    """Return the function, lambda or module that a code object was compiled from."""
    tree = _tree_of(code)
    if tree is None or code.co_name == "<module>":
        return tree
    found: Scope | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        first = min([node.lineno, *[one.lineno for one in getattr(node, "decorator_list", ())]])
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        if name == code.co_name and first == code.co_firstlineno:
            found = node
    return found


def _node_at(scope: Scope, code: CodeType, instruction: int) -> ast.AST | None:
    """Return the expression of an instruction: the smallest that ends there and begins no later."""
    place = list(code.co_positions())[instruction // 2]
    line, end_line, column, end_column = place
    if None in place:
        return None
    best: ast.AST | None = None
    for node in ast.walk(scope):
        if not isinstance(node, ast.expr) or (node.end_lineno, node.end_col_offset) != (end_line, end_column):
            continue
        if (node.lineno, node.col_offset) > (line, column):
            continue
        if best is None or (node.lineno, node.col_offset) >= (best.lineno, best.col_offset):  # type: ignore[attr-defined]
            best = node
    return best
