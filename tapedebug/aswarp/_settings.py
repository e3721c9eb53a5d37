"""`wp.config` for programs written for Warp: settings map to ours if we have them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tapedebug._config import DEFAULTS, config

VERSION = "1.19.0"
"""The version of Warp whose names and arguments this engine follows; programs ask for it."""

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
"""Settings of Warp that change nothing here, with their defaults."""


class Settings(ModuleType):
    """A module, as in Warp, where any name can be set. Ours are set in `tapedebug.config`, others kept."""

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
