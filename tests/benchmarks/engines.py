"""The engines that are compared, and the same text for two of them with only its import exchanged."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
OURS, WARP, NUMBA, JAX = "tapedebug", "warp", "numba", "jax"
PEERS = (WARP, NUMBA, JAX)
ALONE = "tapedebug, one thread"
"""Ours with `config.num_threads = 1`, where the others have only one thread."""


def module_on(engine: str, source: Path, folder: Path) -> ModuleType:
    """A module that imports `tapedebug as wp`, as one that imports `engine` under that name.

    Args:
        engine: What to import.
        source: The file with the text.
        folder: Where the exchanged text is written, as kernels need a file that holds them.
    """
    path = folder / f"{source.stem}_on_{engine}.py"
    text = source.read_text(encoding="utf-8")
    path.write_text(text.replace("import tapedebug as wp", f"import {engine} as wp"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def installed(engine: str) -> bool:
    """True if an engine can be imported."""
    return importlib.util.find_spec(engine) is not None


def quiet_warp() -> None:
    """Load all of Warp that is used, and keep it from saying what it compiles."""
    import warp
    import warp.autograd  # which `import warp` leaves out

    warp.config.log_level = warp.LOG_ERROR
    warp.config.quiet = True
