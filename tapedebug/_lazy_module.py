"""Modules that load on first use, so that a process with cached machine code never loads the compiler."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """A placeholder for a module that is imported at the first access to an attribute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def lazy_module(name: str) -> Any:
    """Return a module that is imported on first use; attributes are always looked up in the module itself."""
    return _LazyModule(name)
