"""Functions on tapes that other packages provide: a registry, so that the engine imports none of them.

`Tape.trace` and `Tape.visualize` call them. Each package registers its own when it is imported, which the
first call does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

PROVIDERS = {
    "record": "tapedebug.trace",
    "record_with_arrays": "tapedebug.trace",
    "visualize": "tapedebug.visualize",
}
"""By function, the package that registers it when it is imported."""

F = TypeVar("F", bound=Callable[..., Any])

_registered: dict[str, Callable[..., Any]] = {}


def register(function: F) -> F:
    """Provide a function under its own name; usable as a decorator.

    Raises:
        KeyError: `PROVIDERS` does not list that name.
    """
    name = function.__name__
    if name not in PROVIDERS:
        raise KeyError(f"{name} is not in PROVIDERS, which lists {', '.join(PROVIDERS)}")
    _registered[name] = function
    return function


def tape_function(name: str) -> Callable[..., Any]:
    """Return the function that is registered under a name; import the package that registers it."""
    if name not in _registered:
        import_module(PROVIDERS[name])
    return _registered[name]
