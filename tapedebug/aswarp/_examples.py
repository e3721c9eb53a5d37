"""`warp.examples`: the locations of the files of Warp's examples, for programs that read them."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from tapedebug.aswarp._errors import WarpImportError


def examples() -> ModuleType:
    """Return a new module `warp.examples`."""
    module = ModuleType("warp.examples", "The folders of Warp's examples.")
    module.__dict__.update(
        get_source_directory=lambda: str(_folder()),
        get_asset_directory=lambda: str(_folder() / "assets"),
    )
    return module


def _folder() -> Path:
    """Return the folder of the examples of the installed Warp, which is located without importing it."""
    spec = PathFinder.find_spec("warp", sys.path)
    if spec is None or spec.origin is None:
        raise WarpImportError(
            "the examples of Warp are not on this machine: Warp is not installed",
            hint="install warp-lang for its files, or give the program another path",
        )
    return Path(spec.origin).parent / "examples"
