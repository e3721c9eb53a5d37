"""`warp.examples`: where the files of Warp's examples are, for programs that read one."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from tapedebug.aswarp._errors import WarpImportError


def examples() -> ModuleType:
    """A new module `warp.examples`."""
    module = ModuleType("warp.examples", "The folders of Warp's examples.")
    module.__dict__.update(
        get_source_directory=lambda: str(_folder()),
        get_asset_directory=lambda: str(_folder() / "assets"),
    )
    return module


def _folder() -> Path:
    """Where the examples of the Warp that is installed are; it is looked for, not imported."""
    spec = PathFinder.find_spec("warp", sys.path)
    if spec is None or spec.origin is None:
        raise WarpImportError(
            "the examples of Warp are not on this machine: Warp is not installed",
            hint="install warp-lang for its files, or give the program another path",
        )
    return Path(spec.origin).parent / "examples"
