"""Run programs with `import warp as wp` on this engine: `with as_warp(): import my_simulation`."""

from __future__ import annotations

from tapedebug.aswarp._context import as_warp as as_warp
from tapedebug.aswarp._errors import WarpImportError as WarpImportError
from tapedebug.aswarp._errors import WarpNameError as WarpNameError
