"""Settings of the process, as attributes of `tapedebug.config`; an unknown name is an error."""

from __future__ import annotations

import difflib
from typing import Any

from tapedebug.compiler import backend

MODES = ("preserve", "warn", "error", "ignore")


class Config:
    """The settings and their defaults.

    Attributes:
        compiler: What compiles kernels from now on: `"llvm"`, or `"numba"`, which takes the same generated
            text another way to the same numbers, and takes longer.
        on_overwrite: What a `Tape` does, unless it is told, when a value that an adjoint needs is
            overwritten:
            `"preserve"`, `"warn"`, `"error"` or `"ignore"`.
        verify_autograd_array_access: Also warn (`OverwriteWarning`) in `"preserve"` mode, once for each pair
            of a
            reading line and an overwriting line.
        quiet: `ScopedTimer` prints nothing.
    """

    __slots__ = ("compiler", "on_overwrite", "quiet", "verify_autograd_array_access")

    def __init__(self) -> None:
        self.compiler = "llvm"
        self.on_overwrite = "preserve"
        self.verify_autograd_array_access = False
        self.quiet = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise AttributeError(_unknown(name))
        if name == "on_overwrite" and value not in MODES:
            raise ValueError(f"config.on_overwrite is one of {', '.join(MODES)}; got {value!r}")
        if name == "compiler":
            backend.select(value)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown(name))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, Config.__slots__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"tapedebug.config has no setting {name!r}{hint} (settings: {', '.join(Config.__slots__)})"


config = Config()
