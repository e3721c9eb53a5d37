"""Runs somebody's script as `python SCRIPT ARGS` would, and shows their traceback without our frames."""

from __future__ import annotations

import builtins
import sys
import tokenize
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from tapedebug._errors import TapedebugError


@dataclass(slots=True)
class ScriptOutcome:
    """How a script ended. `message` is what Python would have printed; `reason` says it in a few words."""

    failed: bool = False
    reason: str = ""
    message: str = ""


def run_script(script: Path, args: Sequence[str]) -> ScriptOutcome:
    """Run the file `script` as `__main__` with `args`; the process's own `__main__` and argv come back."""
    path = script.absolute()
    module = ModuleType("__main__")
    module.__dict__.update(__file__=str(path), __builtins__=builtins)
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    sys.argv = [str(script), *args]
    sys.path[0:1] = [str(path.parent)]
    sys.modules["__main__"] = module
    try:
        with tokenize.open(path) as stream:  # honours a coding line and a byte order mark
            source = stream.read()
        code: CodeType = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SystemExit as stop:
        return _exited(stop)
    except BaseException as error:
        return _failed(error, str(path))
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]
    return ScriptOutcome()


def _exited(stop: SystemExit) -> ScriptOutcome:
    if stop.code is None or stop.code == 0:
        return ScriptOutcome()
    if isinstance(stop.code, int):
        return ScriptOutcome(True, f"it exited with status {stop.code}")
    return ScriptOutcome(True, "it exited with a message", str(stop.code))


def _failed(error: BaseException, path: str) -> ScriptOutcome:
    shown = traceback.TracebackException(type(error), error, _own_frames(error.__traceback__, path))
    if isinstance(error, TapedebugError):
        # The error is about the script, and says where; its way through this package is nobody's concern.
        ours = str(Path(__file__).parent)
        own = [frame for frame in shown.stack if not frame.filename.startswith(ours)]
        shown.stack = traceback.StackSummary.from_list(own)
    return ScriptOutcome(True, type(error).__name__, "".join(shown.format()).rstrip("\n"))


def _own_frames(trace: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the script on. Above it is how we got there; a syntax error has nothing else."""
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace
