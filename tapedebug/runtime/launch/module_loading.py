"""Options of Python modules, and compilation of their kernels before the first launch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tapedebug._errors import TapedebugError
from tapedebug.compiler import modules, objects
from tapedebug.compiler.modules import Module as Module
from tapedebug.compiler.modules import get_module as get_module


def _named(module: Any, depth: int = 2) -> Module:
    """Return the module of a name or module object; by default the caller's."""
    if isinstance(module, Module):
        return module
    if module is None:
        return get_module(str(sys._getframe(depth).f_globals.get("__name__", "__main__")))
    return get_module(module.__name__ if isinstance(module, ModuleType) else str(module))


def set_module_options(options: dict[str, Any], module: Any = None) -> None:
    """Set options for all kernels of a Python module; they take precedence over `config`.

    Args:
        options: Any of `check_bounds`, `enable_backward`, `max_unroll` and `mode`. Options of Warp that have
            no effect on the CPU (`fast_math`, `lineinfo`, `block_dim`, …) are accepted.
        module: A module or its name; by default the caller's.

    Raises:
        AttributeError: There is no such option.
        ValueError: The value of an option is not allowed.
    """
    _named(module).options.update(options)


def get_module_options(module: Any = None) -> dict[str, Any]:
    """Return the options of a Python module: its own, and for the rest those of `config`.

    Args:
        module: A module or its name; by default the caller's.
    """
    found = _named(module)
    return {name: found.options[name] for name in (*modules.OPTIONS, *modules.IGNORED)}


def load_module(
    module: Any = None,
    device: Any = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of a Python module and their adjoints, unless they are compiled already.

    Args:
        module: A module or its name; by default the caller's.
        device: Accepted and ignored: there is one device only.
        recursive: Include its submodules.
        block_dim: Accepted and ignored.
        max_workers: Accepted and ignored.

    Raises:
        TapedebugError: The module has no kernels, or one cannot be compiled.
    """
    found = _named(module)
    chosen = [found]
    if recursive:
        chosen += [m for m in modules.all_modules() if m.name.startswith(f"{found.name}.")]
    if not any(m.kernels for m in chosen):
        raise TapedebugError(
            f"load_module: the module {found.name!r} has no kernels",
            hint="import it first, and pass its name or the module itself",
        )
    force_load(device, chosen)


def force_load(
    device: Any = None,
    modules: Sequence[Any] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of several modules, by default of all imported ones.

    Args:
        device: Accepted and ignored: there is one device only.
        modules: Modules or their names.
        block_dim: Accepted and ignored.
        max_workers: Accepted and ignored.

    Raises:
        TapedebugError: A kernel cannot be compiled.
    """
    chosen = _all() if modules is None else [_named(m) for m in modules]
    for module in chosen:
        module.load(device)


def _all() -> list[Module]:
    return modules.all_modules()


def clear_kernel_cache() -> None:
    """Remove the compiled kernels of this and all earlier processes from the cache; loaded code stays."""
    objects.clear()
