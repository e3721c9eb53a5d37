"""Processes for tests that begin with this package imported, which is most of what a short program takes.

A server imports the package once and forks for each program, which has arguments, environment, folder and
output of its own, and nothing of the programs before it. Start-up, imports, signals and caches are tested
with interpreters that are started the usual way (`tests.processes`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tapedebug.compiler import backend
from tests.processes import ROOT

AT_START = ("MALLOC_PERTURB_", "GLIBC_TUNABLES")
"""Variables that the C library reads when a process starts."""
SERVER = f"import sys; sys.path[0] = {str(ROOT)!r}; from tests.forked import serve; serve()"
TYPICAL = """
import json, sys
import tapedebug as wp

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = x[wp.tid()] * x[wp.tid()]

x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
y = wp.zeros_like(x)
with wp.Tape(on_overwrite="ignore") as tape:
    wp.launch(square, dim=2, inputs=[x], outputs=[y])
    x.zero_()
tape.backward(grads={y: wp.ones(2, dtype=float)})
print(wp.diagnose(tape, inputs=[x]))
from tapedebug import cli
print("modules:" + json.dumps(list(sys.modules)))
"""
"""The server imports what this program has imported at its end."""


def run(
    arguments: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments such as `["-m", "tapedebug", "run", "script.py"]`; return status and output.

    Args:
        arguments: Those after `python`: `-m NAME`, `-c CODE` or a script, and its own.
        folder: The folder to run it in; by default this one.
        environment: Its variables; by default those of this process.
    """
    if not hasattr(os, "fork"):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    environment = os.environ if environment is None else environment
    server = _server(tuple((name, environment[name]) for name in AT_START if name in environment))
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as place:
        outputs = [f"{place}/{name}" for name in ("stdout", "stderr")]
        request = {
            "arguments": list(arguments),
            "folder": os.fspath(folder or os.getcwd()),
            "environment": dict(environment),
            "outputs": outputs,
            "optimization": backend.optimization,  # that of the test
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the server has ended"
        status, seconds = json.loads(answer)
        Spent.seconds += seconds
        texts = [Path(name).read_text(encoding="utf-8") for name in outputs]
    return subprocess.CompletedProcess([sys.executable, *arguments], status, *texts)


class Spent:
    """Processor time of all programs so far, for `scripts.cpu_times`."""

    seconds = 0.0


@functools.cache
def _server(at_start: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """Start a server with these variables in its environment."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, "PYTHONPATH": str(ROOT), **dict(at_start)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for pytest
    )

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()

    atexit.register(end)
    return server


def serve() -> None:
    """Run the programs that are asked for on standard input, and answer with their status."""
    with tempfile.TemporaryDirectory() as folder:
        typical = Path(folder, "typical.py")
        typical.write_text(TYPICAL, encoding="utf-8")
        done = subprocess.run([sys.executable, typical], stdout=subprocess.PIPE, text=True, check=True)
    for name in json.loads(done.stdout.splitlines()[-1].removeprefix("modules:")):
        with contextlib.suppress(ModuleNotFoundError):  # those that extensions make are no files
            importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        _, status, usage = os.wait4(child, 0)
        answer = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        print(json.dumps(answer), flush=True)


def _run(request: dict[str, Any]) -> NoReturn:
    """Be the process of a program."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    outputs = [os.open(name, os.O_WRONLY | os.O_CREAT) for name in request["outputs"]]
    for stream, file in enumerate([nothing, *outputs]):
        os.dup2(file, stream)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    first, *rest = request["arguments"]
    added = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    place = {"-m": os.getcwd(), "-c": ""}.get(first, os.path.dirname(os.path.abspath(first)))
    sys.path[:] = [place, *added, *(path for path in sys.path[1:] if path not in added)]
    backend.optimization = request["optimization"]
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.excepthook = _excepthook
    if first == "-m":
        sys.argv = rest
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.argv = [first, *rest]
        main.__file__ = os.path.abspath(first)
        exec(compile(Path(first).read_bytes(), main.__file__, "exec"), vars(main))
    sys.exit()


def _excepthook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print an error as a process does that was started the usual way: without the frames of the server."""
    while trace is not None and trace.tb_frame.f_code.co_filename in ("<string>", __file__):
        if trace.tb_frame.f_globals is vars(sys.modules["__main__"]):
            break
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
