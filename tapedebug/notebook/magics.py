"""The magics: ``%%tape`` and ``%tape_report``. Their options are the Python keywords."""

# IPython is seen without its types, so that mypy runs where it is not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from tapedebug.notebook import _shell
from tapedebug.notebook._subject import made_in, remember

if TYPE_CHECKING:
    from tapedebug.runtime import Tape

MODES = ("preserve", "warn", "error", "ignore")
DEFAULT_REPORT = "tapedebug-report.html"


@magics_class
class TapeMagics(Magics):
    """Records cells and writes reports."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._last: Tape | None = None

    @cell_magic
    @output_can_be_silenced
    @magic_arguments()
    @argument(
        "--on-overwrite",
        choices=MODES,
        default="preserve",
        help="what to do when a launch overwrites values that the reverse pass still needs: keep a copy "
        "(preserve, the default), keep it as evidence only and warn, raise an error, or ignore it",
    )
    @argument("--name", metavar="VAR", help="keep the tape in this variable")
    @argument(
        "--loss",
        metavar="VAR",
        help="after the cell, run the reverse pass from this array and diagnose the tape",
    )
    @argument("--panel", metavar="VAR", help="keep the panel in this variable, to read and set its mask")
    @argument("--no-panel", action="store_true", help="show no panel")
    def tape(self, line: str, cell: str) -> Any:
        """Record the launches of this cell on a tape, and show it.

        Examples::

            %%tape
            wp.launch(square, dim=n, inputs=[x], outputs=[y])

            %%tape --name tape --loss loss --on-overwrite warn
            simulate(x, loss)
        """
        __tracebackhide__ = True
        from tapedebug.runtime import Tape

        options = parse_argstring(self.tape, line)
        for name in (options.name, options.panel):
            if name is not None and not name.isidentifier():
                raise UsageError(f"%%tape: {name!r} is not the name of a variable")
        if options.panel and options.no_panel:
            raise UsageError("%%tape: --panel keeps the panel that --no-panel does not open; choose one")
        tape = Tape(on_overwrite=options.on_overwrite)
        self._last = tape
        if options.name is not None:
            self.shell.user_ns[options.name] = tape
        code = CellCode(self.shell, cell)
        made_in(tape, code.name, options.name)
        with tape:
            value = code.run()
        if options.loss is not None:
            self._diagnose(tape, options.loss)
        if not options.no_panel:
            self._show(tape, options.panel)
        return value

    @line_magic
    @magic_arguments()
    @argument(
        "file", nargs="?", default=DEFAULT_REPORT, help=f"the file to write (default: {DEFAULT_REPORT})"
    )
    @argument(
        "--tape",
        metavar="VAR",
        help="the tape, trace or diagnosis in this variable (default: the newest tape)",
    )
    def tape_report(self, line: str) -> Any:
        """Write a tape as one HTML file that opens anywhere, without a network."""
        from tapedebug.report import report

        options = parse_argstring(self.tape_report, line)
        subject = self._subject(options.tape)
        path = Path(options.file).expanduser()
        report(subject, path)
        print(f"Report written to {path.absolute()} ({path.stat().st_size / 1000:.0f} kB)")
        if _shell.in_notebook() and not path.is_absolute():
            from IPython.display import FileLink

            return FileLink(str(path))
        return None

    def _subject(self, name: str | None) -> Any:
        if name is not None:
            return self._variable("%tape_report", "--tape", name)
        from tapedebug.runtime import live_tapes

        tapes = live_tapes()
        if self._last is not None:
            return self._last
        if not tapes:
            raise UsageError(
                "%tape_report: there is no tape to report; record one with %%tape or `with Tape():`"
            )
        return max(tapes, key=lambda tape: tape.id)

    def _diagnose(self, tape: Tape, name: str) -> None:
        from tapedebug.diagnose import diagnose

        loss = self._variable("%%tape", "--loss", name)
        tape.backward(loss)
        remember(tape, diagnose(tape, loss=loss))

    def _show(self, tape: Tape, name: str | None) -> None:
        from IPython.display import display

        from tapedebug.notebook._panels import open_panel

        if not _shell.in_notebook():
            from tapedebug.notebook._subject import subject_of, text_of

            print(text_of(subject_of(tape)))
            return
        panel = open_panel(tape)
        if name is not None:
            self.shell.user_ns[name] = panel
        display(panel)

    def _variable(self, magic: str, option: str, name: str) -> Any:
        try:
            return self.shell.user_ns[name]
        except KeyError:
            raise UsageError(f"{magic}: {option} {name}: there is no variable {name!r}") from None


class CellCode:
    """The code under a cell magic, with the line numbers and the name (``In [4]``) of the whole cell."""

    def __init__(self, shell: Any, cell: str) -> None:
        # the magic's own line is line 1 of what the user sees
        source = "\n" + shell.transform_cell(cell)
        self._shell = shell
        self.name = shell.compile.cache(source, number=_cell_number(shell), raw_code=source)
        self._module = shell.compile.ast_parse(source, filename=self.name)

    def run(self) -> Any:
        """Run it in the user's namespace; return the value of its last expression, or None."""
        __tracebackhide__ = True
        body = self._module.body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        globals_, locals_ = self._shell.user_global_ns, self._shell.user_ns
        exec(self._shell.compile(self._module, self.name, "exec"), globals_, locals_)
        if last is None:
            return None
        expression = ast.Expression(last.value)
        return eval(self._shell.compile(expression, self.name, "eval"), globals_, locals_)


def _cell_number(shell: Any) -> int:
    """Return the number of the cell that is running: that of the nearest frame that is a cell.

    `execution_count` is already that of the next cell, or not, depending on how this one was started.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        number = shell.compile._filename_map.get(frame.f_code.co_filename)
        if number is not None:
            return int(number)
        frame = frame.f_back
    return int(shell.execution_count)
