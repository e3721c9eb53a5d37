"""Errors for attributes of `warp` that this engine does not have."""

from __future__ import annotations

import dis
import sys
from types import FrameType

from tapedebug._errors import TapedebugError
from tapedebug._source import Span
from tapedebug._unsupported import run_on_warp
from tapedebug.runtime.tape.record import site_span

_PASSING = ("importlib._bootstrap", "importlib._bootstrap_external", "importlib")


class WarpImportError(TapedebugError, ModuleNotFoundError):
    """The error for importing a module or a name of Warp that this engine does not have."""


class WarpNameError(TapedebugError, AttributeError):
    """The error for using a name of Warp that this engine does not have."""


PARTS = {
    "build": "compiling to files is not part of recording and debugging gradients",
    "fem": "finite elements are a library of kernels on top of Warp, written for its own engine",
    "geometry": "meshes and surfaces are not part of this engine",
    "jax_experimental": "there is no foreign-function interface to JAX",
    "render": "nothing is drawn here (Warp draws only where a program asks for it, mostly by an option)",
    "sim": "Warp itself has moved it to the package Newton",
    "sparse": "sparse matrices of blocks are not part of this engine",
    "tests": "these are the tests of Warp",
}
"""Modules of Warp without a counterpart, and the reasons."""


def no_module(name: str) -> WarpImportError:
    """Return the error for `import warp.…`."""
    part = name.split(".")[1]
    reason = PARTS.get(part, "it is not part of recording and debugging gradients")
    hint = f"{run_on_warp()}; or import {name} only where it is used (`try: … except ImportError: …`)"
    if part == "_src":
        reason = "these are the internals of Warp"
        hint = "import the public name from `warp`"
    error = WarpImportError(
        f"`{name}` is not in tapedebug: {reason}", span=_place(), hint=hint, notes=(_RUNNING,)
    )
    error.name = name
    return error


def no_name(module: str, name: str, why: str) -> WarpImportError | WarpNameError:
    """Return the error for `wp.name` or `from warp import name`."""
    frame = _caller()
    hint = run_on_warp()
    if frame is not None and imports_name(frame):
        error = WarpImportError(why, span=_span(frame), hint=hint, notes=(_RUNNING,))
        error.name = module
        return error
    return WarpNameError(why, span=None if frame is None else _span(frame), hint=hint, notes=(_RUNNING,))


_RUNNING = "this program runs on tapedebug in place of Warp (--as-warp)"


def _caller() -> FrameType | None:
    """Return the first frame that belongs neither to tapedebug nor to the import system."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != "tapedebug" and module not in _PASSING:
            return frame
        frame = frame.f_back
    return None


def imports_name(frame: FrameType) -> bool:
    """True if a frame is at `from … import name`, which does not propagate an AttributeError."""
    code = frame.f_code.co_code
    return dis.opname[code[frame.f_lasti]] == "IMPORT_FROM"


def _span(frame: FrameType) -> Span:
    return site_span((frame.f_code, frame.f_lasti))


def _place() -> Span | None:
    frame = _caller()
    return None if frame is None else _span(frame)
