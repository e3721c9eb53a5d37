"""Interception of NVIDIA Warp's functions while a program is watched, and the names that it depends on.

No other module depends on names that a release of Warp may move. `missing` lists those that are absent.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tapedebug._interception import Handler

WarpObject = Any
"""An object of a class of Warp, which type checkers do not see: Warp need not be installed."""

INTERCEPTED = {
    "launch": "warp._src.context:launch",
    "command": "warp._src.context:Launch.launch",
    "copy": "warp._src.context:copy",
    "empty": "warp._src.context:empty",
    "empty_like": "warp._src.context:empty_like",
    "capture_launch": "warp._src.context:capture_launch",
    "fill": "warp._src.types:array.fill_",
    "zero": "warp._src.types:array.zero_",
    "fill_indexed": "warp._src.types:noncontiguous_array_base.fill_",
    "array": "warp._src.types:array.__init__",
    "gradient": "warp._src.types:array.grad.fset",
    "array_sum": "warp._src.utils:array_sum",
    "array_inner": "warp._src.utils:array_inner",
    "requires_grad": "warp._src.types:array.requires_grad.fset",
    "array_interface": "warp._src.types:array.__array_interface__.fget",
    "read_numpy": "warp._src.types:array.numpy",
    "read_list": "warp._src.types:array.list",
    "read_torch": "warp._src.torch:to_torch",
    "from_torch": "warp._src.torch:from_torch",
    "tape_enter": "warp._src.tape:Tape.__enter__",
    "tape_exit": "warp._src.tape:Tape.__exit__",
    "tape_backward": "warp._src.tape:Tape.backward",
    "tape_zero": "warp._src.tape:Tape.zero",
    "tape_reset": "warp._src.tape:Tape.reset",
    "tape_function": "warp._src.tape:Tape.record_func",
    "scope_begin": "warp._src.tape:Tape.record_scope_begin",
    "scope_end": "warp._src.tape:Tape.record_scope_end",
    "mesh": "warp._src.types:Mesh.__init__",
    "bvh": "warp._src.types:Bvh.__init__",
    "grid": "warp._src.types:HashGrid.__init__",
    "grid_build": "warp._src.types:HashGrid.build",
}
"""The functions that are intercepted, by the name of their handler: module and attribute."""

USED = (
    "warp:array",
    "warp:Tape",
    "warp:config.version",
    "warp:get_device",
    "warp:init",
    "warp._src.context:Function",
    "warp._src.context:Launch",
    "warp._src.context:builtin_functions",
    "warp._src.context:runtime",
    "warp._src.context:adj_copy",
    "warp._src.types:array_t",
    "warp._src.types:indexedarray",
    "warp._src.types:is_array",
    "warp._src.types:is_struct",
    "warp._src.types:type_size_in_bytes",
    "warp._src.types:warp_type_to_np_dtype",
    "warp._src.codegen:Struct",
)
"""Other names of Warp that this package uses."""


def _is_struct(value: WarpObject) -> bool:
    return hasattr(value, "_cls") and hasattr(value._cls, "vars")


ADDED: dict[str, Callable[..., Any]] = {"warp._src.types:is_struct": _is_struct}  # since Warp 1.11
"""Functions that older releases of Warp lack, with what stands in for them there."""


def missing(names: Iterable[str] = (*INTERCEPTED.values(), *USED)) -> list[str]:
    """Return the names, of those that watching depends on, that the installed release of Warp lacks."""
    wanted = set(INTERCEPTED.values())
    lacking = []
    for name in names:
        try:
            found = _search(name)
        except (ImportError, AttributeError):
            lacking.append(name)
            continue
        if name in wanted and not (isinstance(found, FunctionType) and found.__closure__ is None):
            lacking.append(f"{name} (it is no plain function)")
    return lacking


def look_up(name: str) -> Any:
    """Return the object with a name such as `warp._src.tape:Tape.backward`; found once, it is remembered.

    Raises:
        ImportError: There is no such module.
        AttributeError: It has no such attribute.
    """
    found = _known.get(name)
    if found is None:
        found = _search(name)
        if found is not None and name.startswith("warp"):
            _known[name] = found
    return found


_known: dict[str, Any] = {}


def _search(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    if name in ADDED and not hasattr(found, path):
        return ADDED[name]
    for part in path.split("."):
        found = inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
    return found


def binder(function: FunctionType, names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """Return a function that takes the arguments of another one, and returns some of them by name.

    Those that the function does not have are None. It raises a TypeError as the function would.
    """
    function = inspect.unwrap(function)  # handlers get the function with a clock around it
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    positional, keyword = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount : count]
    parameters = ", ".join([*positional, *(["*", *keyword] if keyword else [])])
    found = ", ".join(name if name in code.co_varnames[:count] else "None" for name in names)
    made: dict[str, Any] = {}
    exec(f"def bound({parameters}): return ({found},)", made)
    bound: FunctionType = made["bound"]
    bound.__defaults__, bound.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return bound


@lru_cache(maxsize=256)
def parameter_names(function: FunctionType) -> tuple[str, ...]:
    """Return the names of the positional parameters of a function."""
    code: CodeType = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount]


def warp_functions(handlers: Mapping[str, Handler]) -> dict[FunctionType, Handler]:
    """Return handlers by function of Warp, from handlers by the keys of `INTERCEPTED`."""
    return {look_up(INTERCEPTED[name]): handler for name, handler in handlers.items()}


def is_capturing(device: WarpObject) -> bool:
    """True if launches on a device are being captured in a graph and do not simply run."""
    runtime: Any = _known.get(_RUNTIME) or look_up(_RUNTIME)
    if getattr(runtime, "_apic_capture", None) is not None or getattr(runtime, "captures", None):
        return True
    return bool(device.is_cuda and getattr(device, "is_capturing", False))


_RUNTIME = "warp._src.context:runtime"


def installed_warp() -> ModuleType | None:
    """Return the module `warp` of NVIDIA Warp; None if it is not installed, or is our stand-in for it."""
    try:
        found = importlib.import_module("warp")
    except ImportError:
        return None
    return found if hasattr(found, "_src") else None
