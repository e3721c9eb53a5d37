"""Rich display of objects in notebooks: a registry, so that no room imports the one that draws.

`tapedebug.notebook` registers its functions when it loads. It is loaded when something is displayed first.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

DISPLAYS = "tapedebug.notebook"
"""The package that registers a `Renderer` when it is imported."""

Bundle = tuple[dict[str, Any], dict[str, Any]]


class Renderer(NamedTuple):
    """Functions that turn an object into what a front end shows.

    Attributes:
        panel: The MIME bundle of a `Tape`, `Trace` or `Diagnosis`.
        static: The MIME bundle of an object without a panel, such as an array or a Jacobian.
        marimo: The view of a `Tape`, `Trace` or `Diagnosis` in marimo.
    """

    panel: Callable[[Any], Bundle]
    static: Callable[[Any], Bundle]
    marimo: Callable[[Any], Any]


_registered: list[Renderer] = []


def register(renderer: Renderer) -> None:
    """Make `renderer` the one that displays objects."""
    _registered[:] = [renderer]


def renderer() -> Renderer:
    """Return the registered renderer; load the package that registers one if there is none yet."""
    if not _registered:
        import_module(DISPLAYS)
    return _registered[0]
