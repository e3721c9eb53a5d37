"""The magics that write files: ``%tape_report`` and ``%tape_diff``."""

# IPython's types are ignored, so that mypy also runs where it is not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import magic_arguments

from tapedebug import _shell
from tapedebug._atomic import require_place
from tapedebug.notebook._magic_base import Base, usage_errors
from tapedebug.notebook._options import Option, keyword, options, parse
from tapedebug.report import diff, report, report_sources, unused_path, write_report
from tapedebug.trace import load_trace

if TYPE_CHECKING:
    from tapedebug.trace import Trace


@magics_class
class ReportMagics(Base):
    """Magics that write tapes to files."""

    @line_magic
    @magic_arguments()
    @options(
        Option(
            "file",
            nargs="?",
            kind="file",
            help="the file to write (default: tapedebug-report-TAPE.html, with a number if that exists)",
        ),
        Option(
            "--tape",
            kind="tape",
            metavar="VAR",
            help="the tape, trace or diagnosis in this variable (default: the newest tape with launches)",
        ),
        keyword(report, "redact_source"),
        keyword(report, "diagnose"),
    )
    def tape_report(self, line: str) -> Any:
        """Write a tape with its diagnosis as one HTML file that opens anywhere, without a network.

        A tape that has not been diagnosed since its last launch or reverse pass is diagnosed first.

        Examples::

            %tape_report

            %tape_report net.html
            %tape_report --tape found --redact-source
        """
        __tracebackhide__ = True
        given = parse(self.tape_report, "%tape_report", line)
        path = None if given.file is None else Path(given.file).expanduser()
        if path is not None:
            self._refuse_a_tape_for_a_file(given.file)
        subject = self._subject(given.tape)
        with usage_errors("%tape_report"):
            if path is not None:
                require_place(path.absolute())  # before a diagnosis, which may take minutes
            shown = _shell.in_namespace(lambda: report_sources(subject, diagnose=given.diagnose))
            traces = [item.trace for item in shown]
            target = unused_path(traces[0].name) if path is None else path
            replaced = target.exists()
            write_report(shown, target, redact_source=given.redact_source)
        self._announce(f"Report of {' and '.join(map(_called, traces))}", target, replaced=replaced)

    @line_magic
    @magic_arguments()
    @options(
        Option(
            "before",
            kind="tape",
            metavar="BEFORE",
            help="a tape, trace or diagnosis by its variable, or a trace file",
        ),
        Option("after", kind="tape", metavar="AFTER", help="the same, after the change"),
        Option(
            "file",
            nargs="?",
            kind="file",
            help="write the comparison there, as one HTML file",
        ),
        keyword(diff, "redact_source"),
    )
    def tape_diff(self, line: str) -> Any:
        """Compare two tapes, before and after a change, and write them side by side as one HTML file.

        Examples::

            %tape_diff broken fixed
            %tape_diff before.tapedebug-trace tape diff.html
        """
        __tracebackhide__ = True
        given = parse(self.tape_diff, "%tape_diff", line)
        before, after = (self._tape_or_file("%tape_diff", name) for name in (given.before, given.after))
        path = None if given.file is None else Path(given.file).expanduser()
        replaced = path is not None and path.exists()
        with usage_errors("%tape_diff"):
            compared = diff(before, after, redact_source=given.redact_source)
            if compared.names[0] == compared.names[1]:  # the variables (or files) distinguish them
                compared.names = (given.before, given.after)
            if path is not None:
                compared.save(path, redact_source=given.redact_source)
        if path is not None:
            names = " and ".join(compared.names)
            self._announce(f"Comparison of {names}", path, replaced=replaced)
        compared.release_tapes()  # IPython keeps all results, and they would keep their tapes
        return compared

    def _refuse_a_tape_for_a_file(self, file: str) -> None:
        kind = type(self.shell.user_ns.get(file)).__name__
        if kind in ("Tape", "Trace", "Diagnosis"):
            raise UsageError(
                f"%tape_report: {file} would be the name of the file, and it is a variable with a {kind}\n"
                f"  = hint: %tape_report --tape {file}, or %tape_report ./{file} for a file of that name"
            )

    def _subject(self, name: str | None) -> Any:
        if name is not None:
            return self.variable("%tape_report", "--tape", name)
        from tapedebug._tape_observers import live_tapes

        tapes = [tape for tape in live_tapes() if tape.operations]
        if not tapes:
            raise UsageError(
                "%tape_report: there is no tape with launches to report; record one with %%tape or "
                "`with Tape():`"
            )
        return max(tapes, key=lambda tape: tape.id)

    def _announce(self, what: str, path: Path, *, replaced: bool) -> None:
        """Report the written file, with a link in a notebook."""
        size = f"{path.stat().st_size / 1000:.0f} kB"
        print(
            f"{what} written to {path.absolute()} ({size})"
            + (", replacing the file that was there" if replaced else "")
        )
        if not _shell.in_notebook():
            return
        here, there = Path.cwd(), path.absolute()
        if there.is_relative_to(here):  # the front end serves the notebook's folder, not the disk
            from IPython.display import FileLink

            self.display(FileLink(str(there.relative_to(here))))

    def _tape_or_file(self, magic: str, name: str) -> Any:
        if name in self.shell.user_ns:
            return self.shell.user_ns[name]
        path = Path(name).expanduser()
        if not path.is_file():
            raise UsageError(f"{magic}: {name} is neither a variable nor a file")

        with usage_errors(magic):
            return load_trace(path)


def _called(trace: Trace) -> str:
    """Return the display name of a tape: ``loop (tape 3, 12 launches, gradient WRONG)``."""
    number = f"tape {trace.tape.id}"
    count = len(trace.launches)
    facts = [number] if number not in trace.name else []
    facts += [f"{count} launch{'' if count == 1 else 'es'}", f"gradient {trace.verdict}"]
    return f"{trace.name} ({', '.join(facts)})"
