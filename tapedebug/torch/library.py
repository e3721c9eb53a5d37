"""PyTorch, imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import ParamSpec, TypeVar

from tapedebug._errors import TapedebugError

P = ParamSpec("P")
T = TypeVar("T")


def load_torch(caller: str) -> ModuleType:
    """Return the module `torch`.

    Args:
        caller: The function that needs it, for the message.

    Raises:
        TapedebugError: PyTorch is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        if error.name not in (None, "torch"):
            raise
        raise TapedebugError(
            f"{caller}: the package 'torch' is not installed", hint="install it: pip install torch"
        ) from None


def skip_compilation(torch: ModuleType, function: object) -> None:
    """Let `torch.compile` run a function as it is, instead of compiling it: a break in the graph."""
    assert isinstance(function, FunctionType)
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    skip_code = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
    if skip_code is not None:
        skip_code(function.__code__)


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function during which `torch.compile` compiles nothing; the compiler is not imported."""
    compiler = sys.modules.get("torch._dynamo")
    return function if compiler is None else compiler.disable(function)
