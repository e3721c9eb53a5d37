"""Modules that load on first use, so that a process with cached machine code never loads the compiler."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Stands for a module, which is imported when an attribute is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def lazy_module(name: str) -> Any:
    """The module of this name, loaded at its first use; its attributes are always looked up in it."""
    return _LazyModule(name)
