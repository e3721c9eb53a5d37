"""Parse Python from several threads at once."""

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
    """The tree of a text, as `ast.parse` makes it, from any thread.

    CPython up to 3.11.7 and 3.12.0 counts the depth of this recursion for all threads together, and raises a
    `SystemError` where two of them interleave (python/cpython#106905).

    Raises:
        SyntaxError: The text is no Python.
        ValueError: The text holds null characters.
    """
    while True:
        with _ONE_AT_A_TIME:
            try:
                return ast.parse(text, mode=mode)
            except SystemError as error:  # somebody else's thread parsed beside the lock
                if "recursion depth mismatch" not in str(error):
                    raise
