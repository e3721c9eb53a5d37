"""Kernels of each Python module, and settings that apply to all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapedebug import _config
from tapedebug._config import config

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel

OPTIONS = ("check_bounds", "enable_backward", "max_unroll", "mode")
"""Settings that modules and kernels may have of their own; they outweigh those of `config`."""

IGNORED: dict[str, Any] = {
    "block_dim": 256,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_output": None,
    "default_grid_stride": True,
    "deterministic": None,
    "deterministic_max_records": 0,
    "enable_mathdx_fft": True,
    "enable_mathdx_gemm": True,
    "enable_mathdx_solver": True,
    "extra_build_options": None,
    "fast_math": False,
    "fuse_fp": True,
    "lineinfo": False,
    "optimization_level": None,
    "strip_hash": False,
}
"""Options of the documents that mean nothing here, with their defaults: they can be set and read.

What they choose is one way, or of other devices.
"""


class Options(dict[str, Any]):
    """The settings of one module: only those that were set are items, and the others are read as they are.

    Raises:
        AttributeError: There is no such option.
        ValueError: An option has a value that it cannot have.
    """

    def __init__(self, whose: str) -> None:
        super().__init__()
        self._whose = whose

    def __missing__(self, name: str) -> Any:
        if name in IGNORED:
            return IGNORED[name]
        if name in OPTIONS:
            return getattr(config, name)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, *given: Any, **named: Any) -> None:
        """Set options, after all have been checked; None leaves one to `config` again."""
        options = dict(*given, **named)
        for name in [name for name, value in options.items() if value is None and name in OPTIONS]:
            self.pop(name, None)
            del options[name]
        found = checked_options(options, self._whose)
        super().update({name: value for name, value in options.items() if name in IGNORED}, **found)
        apply_settings()


class Module:
    """The kernels of one Python module.

    Attributes:
        name: The Python module's name.
        options: The settings that were made for it.
        kernels: Its kernels that are alive.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.options = Options(f"module `{name}`")
        self.kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
        self._lock = threading.Lock()  # threads may define kernels while another changes a setting

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.kernels)} kernels>"

    def add(self, kernel: Kernel) -> None:
        """Take a kernel in."""
        with self._lock:
            self.kernels.add(kernel)

    def remove(self, kernel: Kernel) -> None:
        """Leave a kernel to another module."""
        with self._lock:
            self.kernels.discard(kernel)

    def alive(self) -> list[Kernel]:
        """Its kernels as they are now."""
        with self._lock:
            return list(self.kernels)

    def option(self, name: str) -> Any:
        """A setting as it is for this module."""
        return self.options[name] if name in self.options else getattr(config, name)

    def load(self, device: Any = None, block_dim: Any = None) -> None:
        """Compile its kernels, with adjoints for all float arrays, where that was not done.

        Args:
            device: Accepted and ignored: there is one.
            block_dim: Accepted and ignored.

        Raises:
            TapedebugError: A kernel cannot be compiled.
        """
        for kernel in sorted(self.alive(), key=lambda k: k.key):
            kernel.load()


_MODULES: dict[str, Module] = {}


def get_module(name: str) -> Module:
    """The module of this name, made where there is none."""
    found = _MODULES.get(name)
    if found is None:
        found = _MODULES[name] = Module(name)
    return found


def unique_module(name: str, key: str, options: Mapping[str, Any]) -> Module:
    """The module of one kernel alone, with these options; kernels of one key and options share it."""
    chosen = "".join(f"_{option}_{value}" for option, value in sorted(options.items()))
    found = get_module(f"{name}_{key}{chosen}")
    found.options.update(options)
    return found


def module_of(module: Module | ModuleType | str | None, python: Callable[..., Any]) -> Module:
    """The module that is named, or that a function stands in."""
    if isinstance(module, Module):
        return module
    name = python.__module__ if module is None else getattr(module, "__name__", module)
    return get_module(str(name or ""))


def all_modules() -> list[Module]:
    """Every module that has defined a kernel, or has options."""
    return list(_MODULES.values())


def checked_options(options: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """Options of a module or kernel, without those that mean nothing here.

    Raises:
        AttributeError: There is no such option.
        ValueError: One has a value that it cannot have.
    """
    found = {}
    for name, value in options.items():
        if name in IGNORED:
            continue
        if name not in OPTIONS:
            raise AttributeError(_config.unknown(name, whose, OPTIONS))
        found[name] = _config.checked(name, value, f"{name} of {whose}", whose)
    return found


_planned: weakref.WeakSet[Kernel] = weakref.WeakSet()
"""The kernels that have found their plans of launches since a setting last changed."""
_planned_lock = threading.Lock()
_max_unroll: int = config.max_unroll


@contextmanager
def finding_plans(kernel: Kernel) -> Iterator[None]:
    """Context in which a kernel finds its plans, which the next change of a setting puts aside."""
    with _planned_lock:  # a change in another thread waits, and finds this kernel
        _planned.add(kernel)
        yield


def apply_settings() -> None:
    """Let all kernels launch by the settings as they are now."""
    for module in all_modules():
        for kernel in module.alive():
            kernel.apply_settings()


def _follow_config() -> None:
    """Let kernels launch by `config` as it is now: those that have found their plans find them anew."""
    global _max_unroll
    with _planned_lock:
        planned = list(_planned)
        _planned.clear()
    for kernel in planned:
        kernel.put_plans_aside()
    if config.max_unroll != _max_unroll:
        _max_unroll = config.max_unroll
        apply_settings()


_config.LISTENERS.append(_follow_config)
