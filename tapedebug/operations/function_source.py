"""The source of operations that are Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tapedebug.contract import Parameter, Place, SourceAccess, SourceText


class FunctionSource:
    """The capability `contract.KernelSource` of operations that run a Python function.

    Args:
        forward: The function.
        parameters: The parameters of the operation.
        adjoint: The function that computes its adjoint; None if it has none.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        parameters: Sequence[Parameter],
        adjoint: Callable[..., Any] | None = None,
    ) -> None:
        self.parameters = parameters
        self.functions: Sequence[SourceText] = ()
        self.accesses: Sequence[SourceAccess] = ()
        self.needed: Mapping[int, Sequence[Place]] = {}
        self.needed_key: Hashable = None
        self.enable_backward = adjoint is not None
        self._forward, self._adjoint = forward, adjoint

    @property
    def kernel(self) -> Hashable:
        """The function, which all its operations share."""
        return self._forward

    @property
    def text(self) -> SourceText:
        """The function itself; without lines if its source is not found."""
        code = self._forward.__code__
        try:
            lines, first = inspect.getsourcelines(self._forward)
        except OSError:
            lines, first = [], code.co_firstlineno
        return SourceText(
            self._forward.__name__, code.co_filename, first, [line.rstrip("\n") for line in lines]
        )

    def adjoint_text(self) -> str | None:
        """Return the source of the adjoint; None if it has none or its source is not found."""
        if self._adjoint is None:
            return None
        try:
            return inspect.getsource(self._adjoint)
        except OSError:
            return None
