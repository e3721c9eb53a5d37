"""A callback after the import of a module by the program; the module is never imported by the hook itself."""

from __future__ import annotations

import contextlib
import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any


class AfterImport(importlib.abc.MetaPathFinder):
    """Context that calls a function each time a module has been imported, and at once if it is loaded.

    Args:
        name: The name of a top-level module, such as `warp`.
        imported: Called with the module when its code has run. Must not raise: the error would appear in the
            program's import statement.
    """

    def __init__(self, name: str, imported: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._imported = imported

    def __enter__(self) -> AfterImport:
        loaded = sys.modules.get(self._name)
        if loaded is not None:
            self._imported(loaded)
        sys.meta_path.insert(0, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ValueError):  # the program has replaced the list
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give for the module, with a loader that calls back."""
        if fullname != self._name:
            return None
        for finder in [each for each in sys.meta_path if each is not self]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                self._attach(spec.loader)
                return spec
        return None

    def _attach(self, found: object) -> None:
        """Make `exec_module` of one loader, which loads this module only, call back when it has run."""
        loader: Any = found
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module: ModuleType) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module  # from now on the loader is as it was
            run(module)
            if self in sys.meta_path:
                self._imported(module)

        with contextlib.suppress(AttributeError):  # a loader with slots, or a class: the import is not seen
            loader.exec_module = exec_module
