"""Thread-safe parsing of Python source."""

from __future__ import annotations

import ast
import threading
from typing import Literal, overload

_ONE_AT_A_TIME = threading.RLock()  # a finaliser may parse in the middle of a parse


@overload
def parsed(text: str) -> ast.Module: ...
@overload
def parsed(text: str, mode: Literal["eval"]) -> ast.Expression: ...
def parsed(text: str, mode: str = "exec") -> ast.AST:
    """Return the syntax tree of a text, as `ast.parse` does, from any thread.

    CPython up to 3.11.7 and 3.12.0 counts the recursion depth for all threads together, and raises a
    `SystemError` if two of them interleave (python/cpython#106905).

    Raises:
        SyntaxError: The text is not Python.
        ValueError: The text contains null characters.
    """
    while True:
        with _ONE_AT_A_TIME:
            try:
                return ast.parse(text, mode=mode)
            except SystemError as error:  # a thread of another library parsed without the lock
                if "recursion depth mismatch" not in str(error):
                    raise
