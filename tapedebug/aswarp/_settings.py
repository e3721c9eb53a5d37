"""`wp.config` for programs written for Warp: settings map to those of `tapedebug.config` that exist."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tapedebug._config import DEFAULTS, config

VERSION = "1.19.0"
"""The version of Warp whose names and arguments this engine follows; programs may read it."""

THEIRS: dict[str, Any] = {
    "cache_kernels": True,
    "cuda_output": None,
    "enable_graph_capture_module_load_by_default": True,
    "enable_mempools_at_init": True,
    "fast_math": False,
    "lineinfo": False,
    "print_launches": False,
    "ptx_target_arch": None,
    "verbose": False,
    "verbose_warnings": False,
    "verify_cuda": False,
}
"""Settings of Warp that have no effect here, with their defaults."""


class Settings(ModuleType):
    """A module in which, as in Warp, any name can be set; tapedebug's settings go to `tapedebug.config`."""

    def __init__(self) -> None:
        super().__init__("warp.config", "Settings, as Warp has them.")
        self.__dict__.update(THEIRS, version=VERSION)

    def __getattr__(self, name: str) -> Any:
        if name in DEFAULTS:
            return getattr(config, name)
        raise AttributeError(f"module 'warp.config' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in DEFAULTS:
            setattr(config, name, value)
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *DEFAULTS})
