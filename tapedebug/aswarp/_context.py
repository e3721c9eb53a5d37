"""`as_warp`: a block in which `import warp` imports this engine."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import site
import sys
import sysconfig
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from tapedebug._config import DEFAULTS, config
from tapedebug.aswarp import foreign_attributes
from tapedebug.aswarp._errors import no_module
from tapedebug.aswarp.module_counterparts import World, exists
from tapedebug.aswarp.warp_programs import WARP
from tapedebug.runtime.state import state

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignEngine


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder and loader that takes precedence over all others for `warp` and its modules."""

    def __init__(self) -> None:
        self.world = World()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != "warp":
            return None
        if not exists(fullname):
            raise no_module(fullname)
        return importlib.machinery.ModuleSpec(fullname, self, origin="tapedebug", is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return self.world.module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is already complete."""


class as_warp:
    """A context manager in which `import warp as wp` imports this engine, also in modules imported there.

    `with as_warp(): import my_simulation` is for notebooks and tests; `tapedebug run --as-warp` runs a whole
    script in such a block. Warp may be installed, or even imported already, but need not be. The end of the
    block restores `sys.modules`, `sys.meta_path` and `config`. User modules that were imported in the block
    refer to this engine; the next import after it loads them again, with Warp. Blocks nest.
    """

    def __init__(self) -> None:
        self._finders: list[_Finder] = []
        self._foreign: list[ForeignEngine | None] = []
        self._before: list[tuple[dict[str, ModuleType], set[str], dict[str, Any]]] = []

    def __enter__(self) -> as_warp:
        foreign_attributes.install()
        finder = _Finder()
        before, removed = dict(sys.modules), set(_bound_to_warp())
        self._before.append((before, removed, {name: getattr(config, name) for name in DEFAULTS}))
        for name in removed:
            del sys.modules[name]
        sys.meta_path.insert(0, finder)
        self._foreign.append(state.foreign)
        state.foreign = WARP
        self._finders.append(finder)
        return self

    def __exit__(self, *error: object) -> None:
        finder, (before, removed, settings) = self._finders.pop(), self._before.pop()
        for name, value in settings.items():
            if getattr(config, name) != value:
                setattr(config, name, value)
        state.foreign = self._foreign.pop()
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        tops = {name.partition(".")[0] for name in removed}
        again = [name for name in sys.modules if name.partition(".")[0] in tops]  # whatever they refer to
        for name in {*_bound_to_warp(before), *again}:
            if sys.modules.get(name) is not before.get(name):
                del sys.modules[name]
        for name, module in before.items():
            sys.modules.setdefault(name, module)


def _bound_to_warp(before: dict[str, ModuleType] | None = None) -> list[str]:
    """Return the names of the modules to remove: `warp`, and whole packages that refer to it.

    For modules imported since `before`, this includes packages that refer to tapedebug, and the user's files.
    A package that was imported with one engine must not be used with the other.
    """
    new = {name for name in sys.modules if before is not None and name not in before}
    tops = {"warp"}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        if top in tops or top in _OURS or top in sys.stdlib_module_names:
            continue
        engines = ("warp", "tapedebug") if name in new else ("warp",)
        if _refers_to(module, engines) or (name in new and _is_the_users(module)):
            tops.add(top)
    return [name for name in list(sys.modules) if name.partition(".")[0] in tops - {"__main__"}]


_OURS = ("tapedebug", "__main__")


def _refers_to(module: Any, engines: Sequence[str]) -> bool:
    """True if a name in a module refers to one of the engines or to an object of it."""
    return any(_origin(value) in engines for value in list(getattr(module, "__dict__", {}).values()))


def _origin(value: Any) -> str:
    """Return the package that a value comes from.

    It tests `type(value)`, because `isinstance` reads `__class__` of the value: a deprecated name may warn.
    """
    kind = type(value)
    if issubclass(kind, ModuleType):
        name = value.__name__
    else:
        name = (value if issubclass(kind, (type, FunctionType)) else kind).__module__
    return str(name).partition(".")[0]


def _is_the_users(module: Any) -> bool:
    """True if a module is a source file that is neither in the standard library nor installed."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith(".py") and not file.startswith(_INSTALLED)


_INSTALLED = tuple(
    {
        *(sysconfig.get_path(part) for part in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)
