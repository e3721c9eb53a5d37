"""Rich display of objects in notebooks: a registry, so that no package imports the one that renders.

`tapedebug.notebook` registers its functions when it is imported, which the first display does.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

DISPLAYS = "tapedebug.notebook"
"""The package that registers a `Renderer` when it is imported."""

Bundle = tuple[dict[str, Any], dict[str, Any]]


class Renderer(NamedTuple):
    """Functions that render an object for a front end.

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
    """Use `renderer` to display objects from now on."""
    _registered[:] = [renderer]


def renderer() -> Renderer:
    """Return the registered renderer; import the package that registers one if there is none yet."""
    if not _registered:
        import_module(DISPLAYS)
    return _registered[0]
