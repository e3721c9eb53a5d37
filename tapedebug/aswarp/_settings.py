"""`wp.config` for programs written for Warp: settings map to those of `tapedebug.config` that exist."""

from __future__ import annotations

from enum import IntEnum
from types import ModuleType
from typing import Any

from tapedebug._config import DEFAULTS, config
from tapedebug.lang.compound_types import Returned

VERSION = "1.19.0"
"""The version of Warp whose names and arguments this engine follows; programs may read it."""


class LaunchArrayAccessMode(IntEnum):
    """Checks of the devices of a launch's arrays; here all are on the one device that there is."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class DeterministicMode(IntEnum):
    """Orders of atomic operations; here every launch gives the same numbers in each run."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


THEIRS: dict[str, Any] = {
    "cache_kernels": True,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_arch_suffix": None,
    "cuda_output": None,
    "default_grid_stride": True,
    "deterministic": DeterministicMode.NOT_GUARANTEED,
    "deterministic_debug": False,
    "deterministic_max_records": 0,
    "enable_cpu_blocks": False,
    "enable_graph_capture_module_load_by_default": True,
    "enable_mathdx_fft": True,
    "enable_mathdx_gemm": True,
    "enable_mathdx_solver": True,
    "enable_mempools_at_init": True,
    "enable_tiles_in_stack_memory": True,
    "enable_vector_component_overwrites": False,
    "fast_math": False,
    "launch_array_access_mode": LaunchArrayAccessMode.RELAXED,
    "legacy_cpu_linker": False,
    "line_directives": True,
    "lineinfo": False,
    "llvm_cuda": False,
    "load_module_max_workers": 0,
    "optimization_level": None,
    "print_launches": False,
    "ptx_target_arch": None,
    "track_memory": False,
    "use_precompiled_headers": True,
    "verbose": False,
    "verbose_warnings": False,
    "verify_cuda": False,
}
"""Settings of Warp 1.10 to 1.19 that change no number here, with their defaults (docs/warp.md)."""

ENUMERATED: dict[str, type[IntEnum]] = {
    "deterministic": DeterministicMode,
    "launch_array_access_mode": LaunchArrayAccessMode,
}


class Settings(ModuleType):
    """A module in which, as in Warp, any name can be set; tapedebug's settings go to `tapedebug.config`."""

    def __init__(self) -> None:
        super().__init__("warp.config", "Settings, as Warp has them.")
        kinds = {kind.__name__: kind for kind in ENUMERATED.values()}
        self.__dict__.update(THEIRS, version=VERSION, **kinds)

    def __getattr__(self, name: str) -> Any:
        if name == "legacy_scalar_return_types":
            return Returned.python
        if name in DEFAULTS:
            return getattr(config, name)
        raise AttributeError(f"module 'warp.config' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        kind = ENUMERATED.get(name)
        if kind is not None and not isinstance(value, kind):
            raise ValueError(f"warp.config.{name} must be a {kind.__name__} value; got {value!r}")
        if name in DEFAULTS:
            setattr(config, name, value)
        elif name == "legacy_scalar_return_types":
            Returned.python = bool(value)
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *DEFAULTS, "legacy_scalar_return_types"})
