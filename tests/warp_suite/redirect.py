"""Let a process import this engine as `warp`, and the tests of the installed Warp as `warp.tests`."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from tapedebug import KernelError, struct
from tapedebug.aswarp import WarpImportError, WarpNameError, as_warp, module_counterparts
from tapedebug.aswarp._errors import imports_name, no_module
from tapedebug.aswarp.module_counterparts import World
from tapedebug.compiler.modules import Module
from tapedebug.lang import builtins, structs
from tapedebug.lang.types import ArrayType, float32

TESTS = "warp.tests"
FABRIC = f"{TESTS}.test_fabricarray"
"""The tests of arrays that this engine does not have. Another module imports a function of them."""
FOLDER = "TAPEDEBUG_WARP_TESTS"
"""The environment variable with the folder of the tests: processes that a test starts are redirected, too."""


@struct
class Sample:
    """A struct in place of one of `warp.fem`."""

    index: int
    weight: float


def _in_module(frame: FrameType) -> bool:
    """True if a frame runs the statements of a module of tests, or of a class in it, and not a function."""
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED and str(
        frame.f_globals.get("__name__")
    ).startswith(TESTS)


class Missing:
    """A name that this engine does not have, imported by a module of tests: its use is an error.

    Without it, no test of the module could run.
    """

    def __init__(self, error: WarpImportError | WarpNameError | TypeError) -> None:
        self._error = error

    def _refuse(self, *args: object, **named: object) -> Any:
        message = getattr(self._error, "message", str(self._error))
        raise type(self._error)(f"{message} (used after its import)")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __iter__ = __enter__ = __len__ = _refuse

    def __call__(self, *args: object, **named: object) -> Missing:
        """Return this object if it decorates something in a module of tests."""
        return self if _in_module(sys._getframe(1)) else self._refuse()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Return a base for a class that is derived from this name, of which no instance can be made."""
        return (type("Missing", (), {"__init__": lambda instance, *args, **named: self._refuse()}),)

    def __getitem__(self, key: object) -> Missing:
        """Return this object: annotations are read when a kernel is compiled."""
        return self


def _field_type(name: str, label: str, kind: Any) -> Any:
    """Return the type of a field; one that this engine does not have becomes an array, which stays None."""
    return ArrayType(float32, 1) if isinstance(kind, Missing) else _FIELD_TYPE(name, label, kind)


_FIELD_TYPE = structs._type


class MissingModule(ModuleType):
    """A module that this engine does not have: its names are `Missing`."""

    def __init__(self, error: WarpImportError) -> None:
        super().__init__(str(error.name))
        self.__path__: list[str] = []
        self._error = error

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        if (self.__name__, name) == ("warp.fem", "Sample"):
            return Sample  # a test only needs a struct of another module
        return Missing(self._error)


class TestsLoader(importlib.machinery.SourceFileLoader):
    """A loader of modules of tests: a class that cannot be derived from its bases here becomes `Missing`.

    Python refuses a class of `array` and `indexedarray` when it is made, Warp when it is used.
    """

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        """Return the code of the module, in which such classes do not end the import."""
        tree = ast.parse(data)
        tree.body = [
            _if_possible(item) if isinstance(item, ast.ClassDef) and len(item.bases) > 1 else item
            for item in tree.body
        ]
        code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return code

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code, compiled from the source: a cached one may be that of Warp."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _if_possible(definition: ast.ClassDef) -> ast.Try:
    """Return a definition whose name is `Missing` if it is refused."""
    (refused,) = ast.parse(
        "try: pass\nexcept TypeError as error:\n"
        f" from {__name__} import Missing\n {definition.name} = Missing(error)"
    ).body
    assert isinstance(refused, ast.Try)
    refused.body = [definition]
    return refused


class TestsFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of `warp.tests` and its modules in one folder; the redirection takes all other names.

    Modules of Warp without a counterpart are imported as `MissingModule`, for the tests that do not use them.
    """

    def __init__(self, folder: Path, running: str) -> None:
        self.folder, self.running = folder, running

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the tests, or of one that this engine does not have."""
        if fullname == FABRIC != self.running:
            return ModuleSpec(fullname, self, is_package=True)
        if fullname == TESTS or fullname.startswith(f"{TESTS}."):
            path = [str(self.folder.parent)] if fullname == TESTS else path
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
                spec.loader = TestsLoader(spec.loader.name, spec.loader.path)
            return spec
        place = self.folder.parent.joinpath(*fullname.split(".")[1:])
        is_module = place.is_dir() or place.with_suffix(".py").exists()
        if not fullname.startswith("warp.") or module_counterparts.exists(fullname) or not is_module:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return MissingModule(no_module(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has no code."""


def _imported(world: Any, name: str, ours: ModuleType) -> Callable[[str], Any]:
    """Return the function that looks up names of a stand-in; imports get `Missing` in place of an error."""
    look_up = _LOOK_UP(world, name, ours)

    def find(wanted: str) -> Any:
        try:
            return look_up(wanted)
        except WarpNameError as error:
            frame = sys._getframe(1)
            if imports_name(frame) or _in_module(frame):
                return Missing(error)
            raise

    return find


_LOOK_UP = World._look_up


def _load(module: Module, device: object = None, block_dim: object = None) -> None:
    """Compile the kernels of a module; one that cannot be compiled fails the tests that launch it."""
    for kernel in module.alive():
        with contextlib.suppress(KernelError):
            kernel.load()


def installed_tests() -> Path:
    """Return the folder of the tests of the installed Warp, without importing Warp.

    Raises:
        ModuleNotFoundError: Warp is not installed.
    """
    found = importlib.util.find_spec("warp")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("warp-lang is not installed: pip install warp-lang", name="warp")
    return Path(found.origin).parent / "tests"


def redirect(folder: Path, running: str = "") -> None:
    """Redirect `import warp` for the rest of this process, and of the processes that it starts.

    Args:
        folder: The tests of Warp.
        running: The module of tests that is run.
    """
    os.environ[FOLDER] = str(folder)
    here = Path(__file__).parent
    paths = [str(here / "child"), str(here.parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # modules of tests look up these names when they are imported
    module_counterparts.EXTRA["warp._src.context"]["builtin_functions"] = builtins.BUILTINS
    module_counterparts.EXTRA["warp._src.context"]["_is_graph_capture_allocation_supported"] = bool
    module_counterparts.EXTRA["warp._src.utils"]["check_p2p"] = lambda: False
    Module.load = _load  # type: ignore[method-assign]
    World._look_up = _imported  # type: ignore[method-assign]
    structs._type = _field_type
    as_warp().__enter__()
    sys.meta_path.insert(0, TestsFinder(folder, running))
