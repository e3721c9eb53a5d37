"""The command line: `run` diagnoses every tape of a script, `report` and `diff` show traces.

Exit status: 0 clean, 1 a gradient is wrong, 2 the command could not be carried out.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import math
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tapedebug._atomic import is_special, require_place, write_whole
from tapedebug._completion import SHELLS, PrintCompletion
from tapedebug._config import debugging
from tapedebug._dataclass import dataclass
from tapedebug._environment import environment
from tapedebug._errors import TapedebugError
from tapedebug._gc_pause import gc_paused, lasting_objects
from tapedebug._process_end import end_quickly
from tapedebug._script import (
    STANDARD_INPUT,
    NoProgram,
    ScriptOutcome,
    named_command,
    run_input,
    run_module,
    run_script,
)
from tapedebug._warp_watch import WarpWatch
from tapedebug.formats import LEVELS, Run, fails, one_line

if TYPE_CHECKING:
    from tapedebug._processor_limit import ProcessorLimit, ProgramTime
    from tapedebug._tape_retention import TapeRetention
    from tapedebug.contract import RecordedTape
    from tapedebug.diagnose import Diagnosis
    from tapedebug.trace import Trace

CLEAN, WRONG, FAILED = 0, 1, 2
CONTINUED = (
    "the diagnosis was limited to a multiple of the program's processor time; --max-seconds SECONDS sets "
    "another limit"
)


class UsageError(Exception):
    """An error of which only the message is printed."""


@dataclass(slots=True)
class Outputs:
    """Files to write, as absolute paths: the script may change the working directory."""

    report: Path | None
    trace: Path | None
    json: Path | None
    junit: Path | None = None
    sarif: Path | None = None
    named: str = "--report"
    quiet: bool = False

    def wrote(self, path: Path) -> None:
        """Report that a file was written."""
        if not self.quiet:
            _say(f"wrote {path}")

    def check(self) -> None:
        """Raise an error for paths that cannot be written, before the script runs and not after an hour."""
        asked = [(self.named, self.report), ("--trace", self.trace), ("--json", self.json)]
        for option, path in (*asked, ("--junit", self.junit), ("--sarif", self.sarif)):
            if path is None:
                continue
            try:
                require_place(path)
            except OSError as error:
                raise UsageError(f"{option}: {error}") from None


class _Parser(argparse.ArgumentParser):
    """The parser of the command line and of its commands, whose errors suggest similar names."""

    def parse_args(  # type: ignore[override]  # of the two overloads, this is the one in use
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse all arguments; the command to which an unknown argument was given reports it."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            commands: Any = next(action for action in self._actions if action.dest == "command")
            owner = commands.choices[found.command]
            owner.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found

    def error(self, message: str) -> NoReturn:
        """Print usage and message, with options or choices similar to an unknown one, and exit."""
        known = [name for action in self._actions for name in action.option_strings]
        word = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if word is None:
            word = re.search(r"invalid choice: '([^']*)'", message)
            known = re.findall(r"[\w-]+", message.partition("choose from")[2])
        import difflib

        near = difflib.get_close_matches(word[1], known, 1) if word is not None else []
        super().error(message + (f"\n  = hint: did you mean {near[0]}?" if near else ""))


class _PrintVersion(argparse.Action):
    """Print the version and exit; looking it up loads modules that take longer than parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it."""
        from tapedebug import __version__

        print(f"tapedebug {__version__}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, which the documentation is also generated from."""
    top = _Parser(prog="tapedebug", description="A gradient debugger for differentiable kernels.")
    top.add_argument("--version", action=_PrintVersion, nargs=0, help="show the version and exit")
    top.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help="print the completion of this command for a shell (bash, zsh, tcsh); needs shtab",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run a script, record every tape in it, and print findings",
        description="Run SCRIPT with ARGS as Python would, record every tape in it, print findings and "
        "coverage. Exit status: 0 clean, 1 a gradient is wrong, 2 the script failed.",
    )
    run.add_argument(
        "--as-warp",
        action="store_true",
        help="run a program that says `import warp as wp` on this engine, unedited, and report as errors "
        "what would be wrong in Warp; without it the program runs on Warp itself, which is watched",
    )
    run.add_argument("--report", metavar="FILE.html", help="write a self-contained HTML report")
    run.add_argument(
        "--trace", metavar="FILE", help="write the trace; several tapes are numbered FILE, FILE-2, …"
    )
    run.add_argument("--json", metavar="FILE", help="write verdict, coverage and findings as JSON")
    run.add_argument(
        "--sarif", metavar="FILE", help="write findings as SARIF 2.1.0, which code hosts show at their lines"
    )
    run.add_argument(
        "--junit", metavar="FILE.xml", help="write a test case for each tape, as JUnit XML for build servers"
    )
    run.add_argument(
        "--fail-on",
        metavar="LEVEL",
        choices=LEVELS,
        default="error",
        help="exit with status 1 for: wrong (a gradient is WRONG), error (that, or a finding is an error; "
        "default), warning (that, or a finding is a warning)",
    )
    loud = run.add_mutually_exclusive_group()
    loud.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print one line for each error and warning, and the last one",
    )
    loud.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also print each comparison, the evidence of findings, the time of each step, and versions",
    )
    run.add_argument(
        "--on-overwrite",
        metavar="MODE",
        choices=("preserve", "warn", "error", "ignore"),
        help="set what tapes do when a value that an adjoint needs is overwritten, unless the script sets it "
        "itself: preserve (default), warn, error, ignore",
    )
    run.add_argument(
        "--check-bounds",
        action=argparse.BooleanOptionalAction,
        help="stop any launch that indexes outside an array, with an error that names the line (default, "
        "unless the script sets config.check_bounds)",
    )
    run.add_argument(
        "--max-seconds",
        metavar="SECONDS",
        type=_seconds,
        help="limit the time of the diagnosis; steps that do not fit in are listed in the coverage",
    )
    run.add_argument(
        "--cuda-on-cpu",
        action="store_true",
        help='use the CPU wherever the script asks for device "cuda"',
    )
    run.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is the name of a module, as in `python -m`"
    )
    run.add_argument(
        "script",
        metavar="SCRIPT",
        help="the Python file or notebook (.ipynb) to run; - is standard input",
    )
    arguments = run.add_argument(
        "args", metavar="ARGS", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    arguments.required = False  # argparse would name it beside a SCRIPT that is missing
    _add_report(commands)
    _add_diff(commands)
    return top


def _seconds(text: str) -> float:
    """Return a positive number of seconds.

    Raises:
        argparse.ArgumentTypeError: The text is not one.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"a positive number of seconds; got {text!r}")
    return seconds


def _add_report(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser(
        "report",
        help="write trace files as one HTML report",
        description="Write trace files (of `tapedebug run --trace` or `Trace.save`) as one HTML file that "
        "needs no network. Exit status: 0 written, 2 it could not be.",
    )
    command.add_argument("files", metavar="FILE", nargs="+", help="a trace file")
    command.add_argument(
        "--out", metavar="FILE.html", help="the report; by default beside the first trace file, as .html"
    )
    _add_redact_source(command)


def _add_diff(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser(
        "diff",
        help="compare two trace files, before and after a fix",
        description="Print what changed from one trace file to another: findings, verdicts, gradients, "
        "values. Exit status: 0 AFTER is clean, 1 a gradient of AFTER is wrong, "
        "2 they could not be compared.",
    )
    command.add_argument("before", metavar="BEFORE", help="a trace file")
    command.add_argument("after", metavar="AFTER", help="another")
    command.add_argument("--out", metavar="FILE.html", help="also write one HTML file with both side by side")
    _add_redact_source(command)


def _add_redact_source(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--redact-source",
        action="store_true",
        help="leave source, generated code and folders out of the HTML file",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default that of the process) and return the exit status."""
    options = parser().parse_args(argv)
    if argv is None:  # the process is this program's own
        end_quickly()
    try:
        return {"run": _run, "report": _report, "diff": _diff}[options.command](options)
    except UsageError as error:
        print(f"tapedebug: {error}", file=sys.stderr)
        return FAILED
    finally:
        _flush()


def _say(text: str) -> None:
    """Print a text. A closed pipe, as with `head`, stops neither the diagnosis nor other files."""
    with _broken_pipe_is_fine():
        print(text, flush=True)


def _flush() -> None:
    with _broken_pipe_is_fine():
        sys.stdout.flush()


@contextlib.contextmanager
def _broken_pipe_is_fine() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # buffered output is discarded, also when Python exits
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _report(options: argparse.Namespace) -> int:
    from tapedebug.report import report

    target = Path(options.out) if options.out else Path(options.files[0]).with_suffix(".html")
    Outputs(target.absolute(), None, None, named="--out").check()
    traces = [_trace(name) for name in options.files]
    try:
        written = report(
            traces if len(traces) > 1 else traces[0], target, redact_source=options.redact_source
        )
    except (OSError, TapedebugError) as error:
        raise UsageError(f"writing failed: {error}") from None
    _say(f"wrote {written}")
    return CLEAN


def _diff(options: argparse.Namespace) -> int:
    from tapedebug.report import diff

    target = Path(options.out).absolute() if options.out else None
    Outputs(target, None, None, named="--out").check()
    found = diff(_trace(options.before), _trace(options.after))
    _say(str(found))
    if target is not None:
        try:
            found.save(target, redact_source=options.redact_source)
        except (OSError, TapedebugError) as error:
            raise UsageError(f"writing failed: {error}") from None
        _say(f"wrote {target}")
    return WRONG if found.wrong else CLEAN


def _trace(name: str) -> Trace:
    """Return the trace in a file.

    Raises:
        UsageError: The file has no trace; the message contains a remedy.
    """
    from tapedebug.trace import load_trace

    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        raise UsageError(
            f"{name} is a script, not a trace: `tapedebug run --report FILE.html {name}` runs it"
        )
    if path.suffix in {".html", ".htm"} and path.is_file():
        raise UsageError(f"{name} is a report, not a trace: open it in a browser")
    try:
        return load_trace(path)
    except IsADirectoryError:
        raise UsageError(f"{name} is a folder, not a trace file") from None
    except (OSError, TapedebugError) as error:
        raise UsageError(str(error)) from None


def _run(options: argparse.Namespace) -> int:
    def path(name: str | None) -> Path | None:
        return Path(name).absolute() if name else None

    outputs = Outputs(
        report=path(options.report),
        trace=path(options.trace),
        json=path(options.json),
        junit=path(options.junit),
        sarif=path(options.sarif),
        quiet=options.quiet,
    )
    outputs.check()
    name, program = _program(options)
    file = None if options.module or options.script == "-" else path(options.script)
    done = Run(name=name, file=file, root=Path.cwd(), fail_on=options.fail_on)
    began = time.monotonic()

    from tapedebug._processor_limit import ProgramTime
    from tapedebug._tape_retention import TapeRetention

    try:
        watch = WarpWatch(off=options.as_warp)
        # Settings, engine, and names and lines of cells are the same for the diagnosis and its output.
        with lasting_objects(), _settings(options), _engine(as_warp=options.as_warp), program as run:
            with named_command(_command(options)), TapeRetention() as recorder, watch:
                outcome = run(options.args)
            _flush()
            if outcome.message:
                print(outcome.message, file=sys.stderr)
            for hint in _hints(options, outcome, watch, recorded=recorder.count > 0):
                print(f"  = hint: {hint}", file=sys.stderr)
            sys.stderr.flush()
            watched = watch.watched
            used = None if watched is None else ProgramTime(time.process_time(), watched.seconds)
            diagnoses, notes, done.interrupted = _diagnose(name, recorder, options, used)
            done.traces = [diagnosis.trace for diagnosis in diagnoses]
            said = [note for trace in done.traces for note in trace.coverage.notes]
            done.notes = notes + watch.notes(said)
            done.engines = _engines(recorder)
            done.failed, done.reason, done.message = outcome.failed, outcome.reason, outcome.message
            done.seconds = time.monotonic() - began
            unseen = done.failed or done.interrupted or (watch.refused and not done.traces)
            done.status = FAILED if unseen else WRONG if any(_fails(done)) else CLEAN
            return _conclude(diagnoses, done, outputs, options)
    except NoProgram as error:
        raise UsageError(str(error)) from None


def _fails(run: Run) -> Iterator[bool]:
    return (fails(trace, run.fail_on) for trace in run.traces)


def _command(options: argparse.Namespace) -> list[str]:
    """Return the words that name the program after `tapedebug run`."""
    return ["-m", options.script] if options.module else [options.script]


def _hints(
    options: argparse.Namespace, outcome: ScriptOutcome, watch: WarpWatch, *, recorded: bool
) -> Iterator[str]:
    found = _for_warp(options, outcome, watch, recorded=recorded), _misplaced(options, outcome)
    yield from filter(None, found)
    idle = [
        option
        for option, given in (
            ("--on-overwrite", options.on_overwrite),
            ("--check-bounds", options.check_bounds),
            ("--cuda-on-cpu", options.cuda_on_cpu),
        )
        if given
    ]
    if idle and watch.watched is not None:
        yield f"{', '.join(idle)}: no effect on NVIDIA Warp, only on tapedebug's own engine (--as-warp)"


def _for_warp(
    options: argparse.Namespace, outcome: ScriptOutcome, watch: WarpWatch, *, recorded: bool
) -> str:
    """Return a hint for a program that needs NVIDIA Warp, or on which nothing was recorded; else empty."""
    program = shlex.join(_command(options))
    if options.as_warp:
        return f"`tapedebug run {program}` runs the program on NVIDIA Warp itself" if outcome.lacking else ""
    on_ours = f"`tapedebug run --as-warp {program}` runs the program on this engine"
    if outcome.missing.partition(".")[0] == "warp":
        if watch.watched is not None:  # it has no such module
            return ""
        return f"NVIDIA Warp is not installed: `pip install warp-lang`; or {on_ours}"
    if watch.refused:
        return f"{watch.refused}; {on_ours}"
    if recorded or "warp" not in sys.modules:
        return ""
    if watch.imported and not outcome.failed:
        return "no launch was recorded: launches of NVIDIA Warp are diagnosed inside `with wp.Tape():`"
    return "" if watch.watched is not None else f"launches of NVIDIA Warp are not recorded; {on_ours}"


def _misplaced(options: argparse.Namespace, outcome: ScriptOutcome) -> str:
    """Return a hint if a program refused an option of tapedebug; else empty."""
    words = [word.partition("=")[0] for word in options.args if word.startswith("--")]
    ours = [word for word in words if hasattr(options, word[2:].replace("-", "_"))]
    if not ours or not (outcome.unread or outcome.reason == "it exited with status 2"):
        return ""
    return (
        f"{ours[0]} was passed to {options.script}; options of tapedebug stand before it: "
        f"tapedebug run {ours[0]} … {options.script}"
    )


Runner = Callable[[Sequence[str]], ScriptOutcome]


def _existing(name: str) -> Path:
    """Return the file of a program.

    Raises:
        UsageError: There is no such file, or it is not a program; the message contains a remedy.
    """
    script = Path(name)
    if script.is_dir():
        main_file = script / "__main__.py"
        hint = f"; to run the package: tapedebug run -m {script.name}" if main_file.is_file() else ""
        raise UsageError(f"the script {name} is a folder{hint}")
    if not script.exists():
        beside = script.with_name(f"{script.name}.py")
        hint = f"; did you mean {beside}?" if beside.is_file() else ""
        raise UsageError(f"the script {name} does not exist{hint}")
    if not script.is_file():
        raise UsageError(f"{name} is no regular file; to run standard input: tapedebug run -")
    if script.suffix in {".html", ".htm"}:
        raise UsageError(f"{name} is a page, not a program: open it in a browser")
    if script.suffix == ".tapetrace":
        raise UsageError(f"{name} is a trace, not a program: `tapedebug report {name}` shows it")
    return script


def _program(options: argparse.Namespace) -> tuple[str, contextlib.AbstractContextManager[Runner]]:
    """Return the name for the program's tapes, and a context with a function that runs it with arguments."""
    name = options.script
    if options.module:
        if name.endswith(".py") and Path(name).is_file():
            raise UsageError(f"-m takes the name of a module; leave -m out to run the file {name}")
        return name, contextlib.nullcontext(partial(run_module, name))
    if name == "-":
        return STANDARD_INPUT, contextlib.nullcontext(run_input)
    script = _existing(name)
    if script.suffix == ".ipynb":
        from tapedebug._notebook_file import notebook

        return script.name, notebook(script)
    return script.name, contextlib.nullcontext(partial(run_script, script))


def _engine(*, as_warp: bool) -> contextlib.AbstractContextManager[Any]:
    """Context that determines what `import warp` imports."""
    if not as_warp:
        return contextlib.nullcontext()
    from tapedebug.aswarp import as_warp as block

    return block()


@contextlib.contextmanager
def _settings(options: argparse.Namespace) -> Iterator[None]:
    """Context with the process settings for a script; they are restored, whatever the script changes."""
    from tapedebug import runtime

    before = {name: getattr(runtime.config, name) for name in type(runtime.config).__slots__}
    if options.on_overwrite:
        runtime.config.on_overwrite = options.on_overwrite
    if options.check_bounds is not None:
        runtime.config.check_bounds = options.check_bounds
    if options.cuda_on_cpu:
        runtime.config.cuda_on_cpu = True
    was_enabled = faulthandler.is_enabled()
    with contextlib.suppress(
        OSError, ValueError, AttributeError
    ):  # the stream is not a file, as in notebooks
        faulthandler.enable()  # a crash shows the line of the launch
    try:
        with debugging():
            yield
    finally:
        if not was_enabled:
            faulthandler.disable()
        for name, value in before.items():
            if getattr(runtime.config, name) != value:
                setattr(runtime.config, name, value)


def _conclude(diagnoses: list[Diagnosis], run: Run, outputs: Outputs, options: argparse.Namespace) -> int:
    """Print the diagnoses and write the files, also for a program that failed."""
    _print(diagnoses, run, options)
    try:
        _write(diagnoses, run, outputs)
    except (OSError, TapedebugError) as error:
        raise UsageError(f"writing failed: {error}") from None
    return run.status


def _diagnose(
    name: str,
    recorder: TapeRetention,
    options: argparse.Namespace,
    program: ProgramTime | None = None,
) -> tuple[list[Diagnosis], list[str], bool]:
    """Diagnose the retained tapes; consecutive ones are diagnosed together.

    Without --max-seconds, the processor time of a program on NVIDIA Warp limits that of its diagnosis.

    Returns:
        The diagnoses, sentences on what was left out, and True if Ctrl-C ended the diagnosis.
    """
    diagnoses: list[Diagnosis] = []
    interrupted = False
    notes = recorder.coverage()
    total = len(recorder.tapes)
    try:
        with gc_paused():  # 130 modules without garbage
            from tapedebug.diagnose import diagnose
            from tapedebug.trace.recording import recording_of
    except KeyboardInterrupt:
        return [], [*notes, *([f"interrupted: {_left_out(total)}"] if total else [])], True
    began = time.monotonic()
    for run in recorder.runs():
        left: float | ProcessorLimit | None = None
        share = len(run) / (total - len(diagnoses))
        if options.max_seconds is not None:
            seconds = options.max_seconds - (time.monotonic() - began)
            if seconds <= 0:
                notes.append(
                    f"{_left_out(total - len(diagnoses))}: --max-seconds {options.max_seconds:g} is over"
                )
                break
            left = share * seconds
        elif program is not None:
            left = program.limit(time.process_time() - program.seconds).part(share)
        so_far: dict[str, Trace] = {}

        def keep(trace: Trace, so_far: dict[str, Trace] = so_far) -> None:
            so_far[trace.recording] = trace

        try:
            found = diagnose(
                [item.tape for item in run], as_warp=options.as_warp, max_seconds=left, so_far=keep
            )
        except KeyboardInterrupt:
            interrupted = True
            for item in run:
                if (part := so_far.get(recording_of(item.tape))) is not None:
                    diagnoses.append(_named(part, name, item.number, len(diagnoses)))
            left_out = total - len(diagnoses)
            notes += [f"interrupted: {_left_out(left_out)}"] if left_out else []
            break
        for item, trace in zip(run, found.traces or [found.trace], strict=True):
            diagnoses.append(_named(trace, name, item.number, len(diagnoses)))
    if options.max_seconds is None and any(diagnosis.coverage.partial for diagnosis in diagnoses):
        notes += [] if program is None else [CONTINUED]
    return diagnoses, notes, interrupted


def _left_out(count: int) -> str:
    """Return `2 tapes were not diagnosed`."""
    return f"{count} tape{'s were' if count != 1 else ' was'} not diagnosed"


def _named(trace: Trace, program: str, number: int, position: int) -> Diagnosis:
    """Return the diagnosis of a program's tape, with its name and its position among all of them."""
    from tapedebug.diagnose import Diagnosis

    trace.name = f"{program} · tape {number}"
    for finding in trace.findings:
        finding.tape = position
    return Diagnosis(trace.verdict, trace.coverage, trace.findings, trace)


def _print(diagnoses: list[Diagnosis], run: Run, options: argparse.Namespace) -> None:
    from tapedebug.diagnose.formatting import format_details, format_diagnosis, paint, wants_colour

    colour = wants_colour(sys.stdout)
    lines: list[str] = []
    printed: dict[str, str] = {}
    if run.engines and not options.quiet:
        lines += [*run.engines, ""]
    if options.quiet:
        lines += [paint(line, severity, colour) for line, severity in _short_lines(run)]
    for diagnosis in () if options.quiet else diagnoses:
        lines.append(format_diagnosis(diagnosis.trace, colour=colour, printed=printed))
        lines += [*(format_details(diagnosis.trace) if options.verbose else ()), ""]
    if options.verbose:
        lines += [f"{name} {version}" for name, version in environment().items()]
        lines.append(f"{run.seconds:.1f} s for the program and its diagnosis")
    lines += () if options.quiet else run.notes
    lines.append(paint(_summary(diagnoses, run), _style(diagnoses), colour))
    _say("\n".join(lines if options.quiet else ["", *lines]))


def _short_lines(run: Run) -> list[tuple[str, str]]:
    """Return a line for each error and warning, with its severity; equal ones of several tapes are merged."""
    findings = [finding for trace in run.traces for finding in trace.findings]
    loud = [finding for finding in findings if finding.severity != "info"]
    counts = Counter((one_line(finding, run.root), finding.severity) for finding in loud)
    return [(f"{line} ({n} times)" if n > 1 else line, severity) for (line, severity), n in counts.items()]


def _style(diagnoses: list[Diagnosis]) -> str:
    """Return the colour of the last line, which is that of the worst tape."""
    levels = {diagnosis.level for diagnosis in diagnoses}
    if "error" in levels:
        return "error"
    return "good" if levels == {"good"} else "warning"


def _engines(recorder: TapeRetention) -> list[str]:
    """Return a line for each engine other than tapedebug's own, with the ways in which launches run again."""
    from tapedebug.trace.engine_notes import engine_title, replay_counts

    by_engine: dict[str, list[RecordedTape]] = {}
    for item in recorder.tapes:
        by_engine.setdefault(engine_title(item.tape), []).append(item.tape)
    by_engine.pop("", None)
    lines = []
    part = " on the tapes that were kept" if len(recorder.tapes) < recorder.count else ""
    for engine, tapes in by_engine.items():
        launches = sum(len(tape.operations) for tape in tapes)
        counts = replay_counts(tapes)
        many = f"{launches:,} launch{'es' if launches != 1 else ''}"
        lines.append(f"{engine}: {many} watched{part}" + (f", {counts}" if counts else ""))
    return lines


def _summary(diagnoses: list[Diagnosis], run: Run) -> str:
    counts = {"error": 0, "warning": 0, "info": 0}
    for diagnosis in diagnoses:
        for finding in diagnosis.findings:
            counts[finding.severity] += 1
    parts = [f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items()]
    tapes = f"{len(diagnoses)} tape{'s' if len(diagnoses) != 1 else ''} diagnosed"
    return "; ".join([f"tapedebug: {tapes}: {', '.join(parts)}", *run.failures])


def _as_text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _write(diagnoses: list[Diagnosis], run: Run, outputs: Outputs) -> None:
    if outputs.json:
        from tapedebug.diagnose import diagnoses_to_json

        write_whole(outputs.json, _as_text(diagnoses_to_json(diagnoses, run.notes)))
        outputs.wrote(outputs.json)
    if outputs.sarif:
        from tapedebug.diagnose.registry import titles
        from tapedebug.formats.sarif import sarif

        write_whole(outputs.sarif, _as_text(sarif(run, titles())))
        outputs.wrote(outputs.sarif)
    if outputs.junit:
        from tapedebug.diagnose.formatting import format_diagnosis
        from tapedebug.formats.junit import junit

        write_whole(outputs.junit, junit(run, [format_diagnosis(diagnosis.trace) for diagnosis in diagnoses]))
        outputs.wrote(outputs.junit)
    if outputs.trace:
        for number, diagnosis in enumerate(diagnoses, start=1):
            path = outputs.trace
            if number > 1 and not is_special(path):
                path = path.with_name(f"{path.stem}-{number}{path.suffix}")
            diagnosis.trace.save(path)
            outputs.wrote(path)
    if not diagnoses and (outputs.report or outputs.trace):
        _say("no report or trace was written: there is no tape to show")
    elif outputs.report:
        from tapedebug.report import report

        report(diagnoses if len(diagnoses) > 1 else diagnoses[0], outputs.report)
        outputs.wrote(outputs.report)
