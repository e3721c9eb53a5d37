"""Run the code cells of a notebook file in order, through IPython if it is installed."""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug._script import NoProgram, ScriptOutcome, as_main, exited, failure, keep_lines, outcome_of

if TYPE_CHECKING:
    from types import ModuleType

    from IPython.core.interactiveshell import InteractiveShell


def code_cells(path: Path) -> list[str]:
    """Return the code of a notebook, one text for each cell with code.

    Raises:
        NoProgram: The file is not a notebook, or not one in Python.
    """
    try:
        data = json.loads(path.read_text("utf-8-sig"))
        sheets = data.get("worksheets") or [data]  # up to format 3, cells are on worksheets
        cells = [cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"]
        sources = [cell["source"] if "source" in cell else cell["input"] for cell in cells]
        language = data.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise NoProgram(f"{path} is no notebook that can be read ({what})") from None
    if str(language).lower() != "python":
        raise NoProgram(f"{path} is a notebook of {language}, not of Python")
    texts = (source if isinstance(source, str) else "".join(source) for source in sources)
    return [text for text in texts if text.strip()]


@contextmanager
def notebook(path: Path) -> Iterator[Any]:
    """Context with a function that runs the notebook with arguments; cells keep their names until it ends.

    The working directory is the notebook's folder while the cells run, as in Jupyter.

    Raises:
        NoProgram: The notebook has no cell that can be run.
    """
    cells = code_cells(path)
    folder = path.absolute().parent
    before = os.getcwd()
    os.chdir(folder)
    try:
        with as_main([str(path)], str(folder)) as module, _runner(module) as run_cell:

            def run(args: Sequence[str]) -> ScriptOutcome:
                sys.argv[1:] = args
                for number, cell in enumerate(cells, start=1):
                    outcome = run_cell(number, cell)
                    if outcome.failed:
                        outcome.reason += f" in cell {number}"
                    if outcome.failed or outcome.exited:
                        return outcome
                return ScriptOutcome()

            yield run
    finally:
        os.chdir(before)


Runner = Callable[[int, str], ScriptOutcome]
"""Function that runs a cell, given its number and code."""


@contextmanager
def _runner(module: ModuleType) -> Iterator[Runner]:
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        yield lambda number, cell: _plain(module, number, cell)
        return
    if InteractiveShell.initialized():
        raise NoProgram("a notebook cannot be run from inside IPython; run it from a terminal")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():  # instead of the user's profile
        warnings.filterwarnings("ignore", "To exit: use 'exit'")
        shell = _shell(InteractiveShell, module, folder)
        try:
            yield lambda number, cell: _in_shell(shell, cell)
        finally:
            shell.atexit_operations()
            atexit.unregister(shell.atexit_operations)
            InteractiveShell.clear_instance()


def _plain(module: ModuleType, number: int, cell: str) -> ScriptOutcome:
    """Run a cell without IPython."""
    name = f"In [{number}]"
    keep_lines(name, cell)
    try:
        code = compile(cell, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        outcome = failure(error, (name,))
        if any(line.lstrip().startswith(("%", "!")) for line in cell.splitlines()):
            outcome.message += "\n  = hint: the cell has magics of IPython, which is not installed"
        return outcome
    return outcome_of(lambda: exec(code, module.__dict__), (name,))


def _shell(kind: type[InteractiveShell], module: ModuleType, folder: str) -> Any:
    """Return an IPython shell with the namespace of a module that prints no tracebacks."""
    from traitlets.config import Config

    def show_nothing(*_: object, **__: object) -> None:
        """Print nothing: the program's outcome has the traceback."""

    hidden = ("showtraceback", "showsyntaxerror", "showindentationerror", "enable_gui")
    quiet: Any = type(kind.__name__, (kind,), dict.fromkeys(hidden, show_nothing))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = quiet.instance(config=config, ipython_dir=folder, user_module=module, user_ns=module.__dict__)
    kind._instance = shell
    return shell


def _in_shell(shell: InteractiveShell, cell: str) -> ScriptOutcome:
    """Run a cell with IPython."""
    import IPython
    from IPython.core.error import UsageError

    result = shell.run_cell(cell, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return ScriptOutcome()
    if isinstance(error, UsageError):  # the message about a misused magic is enough, without frames
        return ScriptOutcome(True, "UsageError", f"UsageError: {error}")
    if isinstance(error, SystemExit):
        return exited(error)
    names = shell.compile._filename_map
    magics = str(Path(__file__).parent / "notebook"), str(Path(IPython.__file__).parent)
    outcome = failure(error, tuple(names), hidden=magics)
    for name, number in names.items():
        outcome.message = outcome.message.replace(f'"{name}"', f'"In [{number}]"')
    return outcome
