"""Run a user's program as Python would, and show its traceback without frames of this package.

A program is a script, a module (`-m`), standard input (`-`) or a notebook.
"""

from __future__ import annotations

import builtins
import importlib.util
import linecache
import select
import shlex
import sys
import tokenize
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import IO, Any

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelNameError, KernelSyntaxError, KernelTypeError, TapedebugError
from tapedebug._process_end import finalize_at_end
from tapedebug._traceback import PACKAGE

STANDARD_INPUT = "<stdin>"
BUILT_IN = "built-in"
"""The origin of modules that are built into the Python executable."""


_command = ""


def running_command() -> str:
    """Return the arguments that name the running program after `tapedebug run`; empty outside of it."""
    return _command


@contextmanager
def named_command(words: Sequence[str]) -> Iterator[None]:
    """Context in which `running_command` returns these words, quoted for a shell."""
    global _command
    before, _command = _command, shlex.join(words)
    try:
        yield
    finally:
        _command = before


@dataclass(slots=True)
class ScriptOutcome:
    """The outcome of a program.

    Attributes:
        failed: The program ended with an error.
        reason: The reason in a few words.
        message: The text that Python would have printed.
        missing: The module whose import failed, if that was the reason.
        exited: The program called `sys.exit`.
        unread: The program has not read its arguments.
        lacking: It ended because a kernel uses something that this engine does not have.
    """

    failed: bool = False
    reason: str = ""
    message: str = ""
    missing: str = ""
    exited: bool = False
    unread: bool = False
    lacking: bool = False


class Arguments(list[str]):
    """Arguments of a program, with a record of whether it has read them."""

    read = False


def _list_method(name: str) -> Any:
    def method(self: Arguments, *args: object) -> Any:
        self.read = True
        return getattr(list, name)(self, *args)

    return method


for _name in (
    "__getitem__",
    "__iter__",
    "__len__",
    "__repr__",
    "__contains__",
    "__eq__",
    "copy",
    "index",
    "pop",
):
    setattr(Arguments, _name, _list_method(_name))


class NoProgram(Exception):
    """There is nothing to run; the message contains the reason."""


def run_script(script: Path, args: Sequence[str]) -> ScriptOutcome:
    """Run the file `script` as `__main__` with `args`; the process's own `__main__` and argv are restored."""
    path = str(script.absolute())

    def code() -> CodeType:
        with tokenize.open(path) as stream:  # honours a coding line and a byte order mark
            return compile(stream.read(), path, "exec", dont_inherit=True)

    with as_main([str(script), *args], str(script.absolute().parent), __file__=path) as module:
        return outcome_of(lambda: exec(code(), module.__dict__), (path,))


def run_module(name: str, args: Sequence[str]) -> ScriptOutcome:
    """Run the module `name` as `python -m` would; for a package, its `__main__`.

    Raises:
        NoProgram: There is no such module, or it has no source.
    """
    sys.path.insert(0, "")
    try:
        found = _spec(name)
    finally:
        sys.path.remove("")
    path = str(found.origin)
    names = {"__file__": path, "__spec__": found, "__package__": found.parent, "__loader__": found.loader}

    def run() -> None:
        assert found.loader is not None
        exec(found.loader.get_code(found.name), module.__dict__)

    with as_main([path, *args], str(Path.cwd()), **names) as module:
        return outcome_of(run, (path,))


def _spec(name: str) -> Any:
    try:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            found, name = importlib.util.find_spec(f"{name}.__main__"), f"{name}.__main__"
    except (ImportError, ValueError) as error:  # a parent package that is not there, or fails
        raise NoProgram(f"the module {name} cannot be found: {error}") from None
    if found is None:
        raise NoProgram(f"there is no module named {name}")
    origin = found.origin or BUILT_IN
    if (
        not hasattr(found.loader, "get_code")
        or origin == BUILT_IN
        or origin.endswith(tuple(EXTENSION_SUFFIXES))
    ):
        raise NoProgram(f"the module {name} is not written in Python")
    return found


def run_input(args: Sequence[str]) -> ScriptOutcome:
    """Run the program read from standard input."""
    source = sys.stdin.read()
    keep_lines(STANDARD_INPUT, source)

    def run() -> None:
        exec(compile(source, STANDARD_INPUT, "exec", dont_inherit=True), module.__dict__)

    with as_main(["-", *args], str(Path.cwd())) as module:
        return outcome_of(run, (STANDARD_INPUT,))


def keep_lines(name: str, source: str) -> None:
    """Store the lines of code that is in no file: kernels are parsed from them, and tracebacks show them."""
    lines = source.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"  # without it, Python 3.11 puts carets one column to the right
    linecache.cache[name] = (len(source), None, lines, name)


@contextmanager
def as_main(argv: list[str], folder: str, **names: object) -> Iterator[ModuleType]:
    """Context with a new module as `__main__`, and the given arguments and first import folder."""
    module = ModuleType("__main__")
    module.__dict__.update({"__builtins__": builtins, **names})
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    sys.argv = Arguments(argv)
    sys.path[0:1] = [folder]
    sys.modules["__main__"] = module
    try:
        yield module
    finally:
        finalize_at_end(module.__dict__)
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]


def outcome_of(run: Callable[[], object], files: Sequence[str]) -> ScriptOutcome:
    """Run user code that is defined in `files`, and return its outcome."""
    arguments = sys.argv
    try:
        run()
    except SystemExit as stop:
        outcome = exited(stop)
    except BaseException as error:
        outcome = failure(error, files)
    else:
        outcome = ScriptOutcome()
    outcome.unread = isinstance(arguments, Arguments) and not arguments.read
    return outcome


def exited(stop: SystemExit) -> ScriptOutcome:
    """Return the outcome of a program that called `sys.exit`."""
    if stop.code is None or stop.code == 0:
        return ScriptOutcome(exited=True)
    if isinstance(stop.code, int):
        return ScriptOutcome(True, f"it exited with status {stop.code}", exited=True)
    return ScriptOutcome(True, "it exited with a message", str(stop.code), exited=True)


def failure(error: BaseException, files: Sequence[str], hidden: Sequence[str] = ()) -> ScriptOutcome:
    """Return the outcome of a program that an exception ended, with the traceback from its own code on.

    Args:
        error: The exception.
        files: The files of the program's code.
        hidden: Folders whose frames are left out of the traceback.
    """
    if isinstance(error, SyntaxError):  # the frames that compiled the file are of no interest
        error.__context__ = None
    if isinstance(error, BrokenPipeError) and _is_closed(sys.stdout):
        return ScriptOutcome(True, "the program that reads its output has ended")
    shown = traceback.TracebackException(type(error), error, _own_frames(error.__traceback__, files))
    if isinstance(error, TapedebugError):
        # The error is about the program and names the place; the frames of this package are left out.
        hidden = (*hidden, PACKAGE)
    own = [frame for frame in shown.stack if not frame.filename.startswith(tuple(hidden))]
    shown.stack = traceback.StackSummary.from_list(own)
    missing = str(error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    text = "".join(shown.format()).rstrip("\n")
    lacking = isinstance(error, (KernelNameError, KernelSyntaxError, KernelTypeError))
    lacking = lacking and "`tapedebug run " not in text
    return ScriptOutcome(True, type(error).__name__, text, missing, lacking=lacking)


def _is_closed(stream: IO[str]) -> bool:
    """True if the reader of a pipe has closed it; False if the system has no way to find out."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (AttributeError, OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _own_frames(trace: TracebackType | None, files: Sequence[str]) -> TracebackType | None:
    """Return the traceback from the program's first frame on; a syntax error has no such frame."""
    while trace is not None and trace.tb_frame.f_code.co_filename not in files:
        trace = trace.tb_next
    return trace
