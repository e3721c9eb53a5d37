"""Stand-ins for Warp's modules, which forward names to tapedebug."""

from __future__ import annotations

import builtins
import importlib
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tapedebug.aswarp._errors import PARTS, no_name
from tapedebug.aswarp._examples import examples
from tapedebug.aswarp._settings import VERSION, Settings

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

HOLLOW = ("warp.render",)
"""Modules that programs import at the top but use only for drawing; their stand-ins have no names."""

EXTRA: dict[str, Any] = {
    "DeviceLike": Any,
    "Devicelike": Any,
    "LOG_DEBUG": logging.DEBUG,
    "LOG_ERROR": logging.ERROR,
    "LOG_INFO": logging.INFO,
    "LOG_WARNING": logging.WARNING,
    "__version__": VERSION,
}
"""Names that only programs written for Warp use."""


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
        module.__dict__.update(__getattr__=self._look_up(name, ours), __dir__=listing)
        if name == "warp":
            module.__dict__.update(EXTRA, __all__=[each for each in listing() if _is_starred(each)])
        return module

    def _look_up(self, name: str, ours: ModuleType) -> Callable[[str], Any]:
        """Return the `__getattr__` of a stand-in, which looks up names in the module `ours`."""

        def look_up(wanted: str) -> Any:
            part = f"{name}.{wanted}"
            if exists(part):
                return self.module(part)
            if not wanted.startswith("_") and hasattr(ours, wanted):
                return getattr(ours, wanted)
            if wanted.startswith("__"):
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
            raise no_name(name, wanted, _why(name, wanted, ours))

        return look_up


def _listing(name: str, ours: ModuleType) -> Callable[[], list[str]]:
    def listing() -> list[str]:
        modules = (*COUNTERPARTS, "warp.config") if name == "warp" else ()
        parts = (each.removeprefix(f"{name}.") for each in modules if each != name)
        own = {each for each in dir(ours) if not each.startswith("_")}
        return sorted(own | {part for part in parts if "." not in part})

    return listing


def _is_starred(name: str) -> bool:
    """True if `from warp import *` imports a name: no builtin's name, and no name that Warp does not have."""
    return not hasattr(builtins, name) and name not in ("TapeDebugger", "load_ipython_extension", "notebook")


def _why(name: str, wanted: str, ours: ModuleType) -> str:
    if name in HOLLOW:
        return f"{name}.{wanted} is not in tapedebug: {PARTS[name.removeprefix('warp.')]}"
    from tapedebug._unsupported import missing

    said = missing(wanted, dir(ours)).partition(". A program that")[0]
    return said.replace(f"tapedebug.{wanted}", f"{name}.{wanted}").replace("tapedebug has", f"{name} has")
