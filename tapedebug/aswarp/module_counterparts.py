"""Stand-ins for Warp's modules, which forward names to tapedebug."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tapedebug._errors import KernelError
from tapedebug.aswarp import (
    array_utilities,
    cuda_names,
    graph_capture,
    kernel_functions,
    logger,
    type_queries,
)
from tapedebug.aswarp._errors import PARTS, no_name
from tapedebug.aswarp._examples import examples
from tapedebug.aswarp._settings import VERSION, DeterministicMode, Settings
from tapedebug.compiler.function import Function
from tapedebug.compiler.modules import Module
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BUILTINS
from tapedebug.runtime.device import Device

COUNTERPARTS = {
    "warp": "tapedebug",
    "warp.autograd": "tapedebug.autograd",
    "warp.context": "tapedebug",
    "warp.optim": "tapedebug.optim",
    "warp.optim.adam": "tapedebug.optim",
    "warp.optim.sgd": "tapedebug.optim",
    "warp.tape": "tapedebug",
    "warp.types": "tapedebug.lang.types",
    "warp.utils": "tapedebug",
}
"""Modules of Warp, with the modules of tapedebug that have their names."""

INTERNAL = "warp._src"
"""The package with the modules that Warp's public ones take their names from; libraries import them, too."""

COUNTERPARTS |= {
    INTERNAL: "tapedebug",
    f"{INTERNAL}.autograd": "tapedebug.autograd",
    f"{INTERNAL}.codegen": "tapedebug",
    f"{INTERNAL}.context": "tapedebug",
    f"{INTERNAL}.logger": "tapedebug",
    f"{INTERNAL}.optim": "tapedebug.optim",
    f"{INTERNAL}.optim.adam": "tapedebug.optim",
    f"{INTERNAL}.optim.sgd": "tapedebug.optim",
    f"{INTERNAL}.tape": "tapedebug",
    f"{INTERNAL}.types": "tapedebug.lang.types",
    f"{INTERNAL}.utils": "tapedebug",
}

HOLLOW = ("warp.render",)
"""Modules that programs import at the top but use only for drawing; their stand-ins have no names."""

_ERRORS = {
    "WarpCodegenAttributeError": KernelError,
    "WarpCodegenError": KernelError,
    "WarpCodegenIndexError": KernelError,
    "WarpCodegenKeyError": KernelError,
    "WarpCodegenTypeError": KernelError,
    "WarpCodegenValueError": KernelError,
}
"""Warp's errors of kernels: here one class is the base of all of them, so that `except` clauses work."""

_TOP: dict[str, Any] = {
    **_ERRORS,
    **cuda_names.NAMES,
    **graph_capture.NAMES,
    **kernel_functions.NAMES,
    **logger.NAMES,
    "DeterministicMode": DeterministicMode,
    "Device": Device,
    "DeviceLike": Any,
    "Devicelike": Any,
    "Function": Function,
    "Module": Module,
    "__version__": VERSION,
    "bfloat16": t.bfloat16,
    "div_approx": BUILTINS["div"],
    "float": float,
    "handle": t.uint64,
    "int": int,
    "len": len,
    "inverse_approx": BUILTINS["inverse"],
    "Reference": t.Reference,
    "ref": t.Reference,
}
_OF_NUMPY = [scalar for scalar in t.SCALARS if scalar is not t.bfloat16]
_TYPES = {
    **type_queries.NAMES,
    "float_types": t.FLOATS,
    "int_types": t.INTEGERS,
    "np_dtype_to_warp_type": {
        key: scalar for scalar in _OF_NUMPY for key in (scalar.numpy.type, scalar.numpy)
    },
    "scalar_and_bool_types": t.SCALARS,
    "scalar_types": (*t.INTEGERS, *t.FLOATS),
    "warp_type_to_np_dtype": {scalar: scalar.numpy.type for scalar in _OF_NUMPY} | {t.bfloat16: np.uint16},
}
_LOGGER = {name: value for name, value in vars(logger).items() if name.startswith(("Log", "log_", "_warn"))}
EXTRA: dict[str, dict[str, Any]] = {
    "warp": _TOP,
    "warp.context": _TOP,
    "warp.types": _TYPES,
    "warp.utils": _TOP | array_utilities.NAMES,
    INTERNAL: _TOP,
    f"{INTERNAL}.codegen": _TOP | {"Struct": t.Struct, "StructInstance": t.Struct},
    f"{INTERNAL}.context": _TOP,
    f"{INTERNAL}.logger": _TOP | _LOGGER,
    f"{INTERNAL}.types": _TYPES | _TOP,
    f"{INTERNAL}.utils": _TOP | array_utilities.NAMES,
}
"""Names that only programs written for Warp use, by module; a stand-in looks here first."""


ROOMS = ("aswarp", "compiler", "contract", "lang", "runtime")
"""Packages of tapedebug with names that mean something else in Warp, or nothing."""


def exists(name: str) -> bool:
    """True if a module of Warp has a counterpart."""
    return name in COUNTERPARTS or name in HOLLOW or name in ("warp.config", "warp.examples")


class World:
    """The stand-ins of one block, created on first use by an import or by attribute access."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def module(self, name: str) -> ModuleType:
        """Return the stand-in for the module `name` of Warp."""
        if name not in self.modules:
            own = {"warp.config": Settings, "warp.examples": examples}
            self.modules[name] = own[name]() if name in own else self._stand_in(name)
        return self.modules[name]

    def _stand_in(self, name: str) -> ModuleType:
        hollow = name in HOLLOW
        ours = ModuleType(name) if hollow else importlib.import_module(COUNTERPARTS[name])
        module = ModuleType(name, f"`{name}` on tapedebug.")
        listing = _listing(name, ours)
        module.__dict__.update(EXTRA.get(name, {}), __getattr__=self._look_up(name, ours), __dir__=listing)
        if name == "warp":
            module.__dict__["__all__"] = [each for each in listing() if _is_starred(each)]
        return module

    def _look_up(self, name: str, ours: ModuleType) -> Callable[[str], Any]:
        """Return the `__getattr__` of a stand-in, which looks up names in the module `ours`."""

        def look_up(wanted: str) -> Any:
            part = f"{name}.{wanted}"
            if exists(part):
                return self.module(part)
            if not wanted.startswith("_") and wanted not in ROOMS and hasattr(ours, wanted):
                return getattr(ours, wanted)
            if wanted.startswith("__"):
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
            raise no_name(name, wanted, _why(name, wanted, ours))

        return look_up


def _listing(name: str, ours: ModuleType) -> Callable[[], list[str]]:
    def listing() -> list[str]:
        modules = (*COUNTERPARTS, "warp.config") if name == "warp" else ()
        parts = (each.removeprefix(f"{name}.") for each in modules if each != name)
        own = {each for each in (*dir(ours), *EXTRA.get(name, ())) if not each.startswith("_")}.difference(
            ROOMS
        )
        return sorted(own | {part for part in parts if "." not in part and not part.startswith("_")})

    return listing


def _is_starred(name: str) -> bool:
    """True if `from warp import *` imports a name: no builtin's name, and no name that Warp does not have."""
    return not hasattr(builtins, name) and name not in ("TapeDebugger", "load_ipython_extension", "notebook")


def _why(name: str, wanted: str, ours: ModuleType) -> str:
    if name in HOLLOW:
        return f"{name}.{wanted} is not in tapedebug: {PARTS[name.removeprefix('warp.')]}"
    from tapedebug._unsupported import missing

    known = [each for each in dir(ours) if each not in ROOMS]
    said = missing(wanted, known).partition(". Keep Warp")[0]
    return said.replace(f"tapedebug.{wanted}", f"{name}.{wanted}").replace("tapedebug has", f"{name} has")
