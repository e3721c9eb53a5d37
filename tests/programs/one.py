"""Run one program, plainly or watched: `python -m tests.programs.one NAME RESULT [watched]`.

The result is a JSON file. `table` starts this module in a process of its own for each program.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import time
from collections import Counter
from pathlib import Path

from tests.programs.catalog import BY_NAME, Program


class NoCapture:
    """A stand-in for `wp.ScopedCapture` whose block runs and whose graph is None.

    The programs then launch their kernels themselves, as they do on devices without graphs: launches inside
    a capture are not covered.
    """

    graph = None

    def __init__(self, *args: object, **named: object) -> None:
        pass

    def __enter__(self) -> NoCapture:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def run(program: Program) -> None:
    """Run a program to its end, as `python -m MODULE ARGUMENTS` does, without graph captures."""
    import warp

    warp.config.quiet = True
    warp.ScopedCapture = NoCapture
    sys.argv = [program.target, *program.arguments.split()]
    with contextlib.suppress(SystemExit):
        if program.file is None:
            runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(program.file.parent))
            runpy.run_path(str(program.file), run_name="__main__")


def watched(program: Program) -> dict:
    """Run a program, watched, and diagnose its tapes as `tapedebug run` does; return what the table shows."""
    import tapedebug
    from tapedebug._processor_limit import ProgramTime

    with tapedebug.watch_warp() as session:
        run(program)
    used = time.process_time()
    tapes = session.tapes
    result: dict = {
        "seconds": used,
        "tapes": len(tapes),
        "not_covered": [str(item) for item in session.not_covered],
    }
    result["gaps"] = sorted({text for tape in tapes for text in tape.gaps})
    if tapes:
        diagnose = tapedebug.diagnose
        limit = ProgramTime(used, session.seconds).limit()
        found = diagnose(tapes, progress=False, as_warp=True, max_seconds=limit)
        result["max_seconds"], result["diagnosis_seconds"] = limit.seconds, time.process_time() - used
        result["verdict"] = found.verdict
        result["text"] = str(found)
        result["seconds"] = time.process_time()
        result["findings"] = [finding.to_json() for finding in found.findings]
    result["operations"] = Counter(
        engine for tape in tapes for operation in tape.operations for engine in [engine_of(operation)]
    )
    return result


def engine_of(operation: object) -> str:
    """Return "mirrored" or "native" for a launch, and "other" for copies, fills and the like."""
    from tapedebug.operations import RunsInFloat64
    from tapedebug.watch.launch import WarpLaunch

    if not isinstance(operation, WarpLaunch):
        return "other"
    return "native" if operation.capability(RunsInFloat64) is None else "mirrored"


def main() -> None:
    name, result = sys.argv[1:3]
    program = BY_NAME[name]
    started = time.perf_counter()
    message: dict = {}
    if sys.argv[3:]:
        message = watched(program)
    else:
        run(program)
        message["seconds"] = time.process_time()
    message["wall_seconds"] = time.perf_counter() - started
    Path(result).write_text(json.dumps(message, indent=1, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
