"""The magics that run a cell: ``%%tape``, ``%%gradcheck`` and ``%%jacobian``.

Their options are the Python keywords of the functions that they call, see `_options`.
"""

# IPython's types are ignored, so that mypy also runs where it is not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import magic_arguments

from tapedebug import _shell
from tapedebug._config import debugging
from tapedebug._errors import TapedebugError
from tapedebug._script import running_command
from tapedebug._tape_observers import program_tape
from tapedebug.autograd import gradcheck_tape, jacobian
from tapedebug.autograd.subjects.repro_script import release_tape
from tapedebug.diagnose import diagnose
from tapedebug.diagnose.latest import defer_diagnosis, keep_latest
from tapedebug.diagnose.target import require_named
from tapedebug.notebook import _completion
from tapedebug.notebook._cell import CellCode
from tapedebug.notebook._clear_gradients import clear_gradients
from tapedebug.notebook._magic_base import Base, usage_errors
from tapedebug.notebook._open_panels import LOWEST, open_panel
from tapedebug.notebook._options import Option, keyword, options, parse
from tapedebug.notebook._report_magics import ReportMagics
from tapedebug.notebook._update_pace import UpdatePace
from tapedebug.notebook._warp_cell import WarpCell, reverse
from tapedebug.panel.panel_source import made_in, named, subject_of, text_of, undiagnosed
from tapedebug.runtime import Tape
from tapedebug.runtime.config import MODES, TRACKS

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from tapedebug.contract import RecordedTape
    from tapedebug.diagnose import Diagnosis
    from tapedebug.notebook._widget import TapeDebugger
    from tapedebug.trace import Trace

NAME = Option("--name", kind="new", metavar="VAR", help="keep the tape in this variable")
RESULT = Option("--result", kind="new", metavar="VAR", help="keep the result in this variable")

RECORDING = (
    keyword(Tape, "on_overwrite", choices=MODES, default="preserve"),
    keyword(Tape, "track", choices=TRACKS),
    keyword(Tape, "memory_budget", metavar="BYTES"),
)

CHECKING = (
    *(keyword(gradcheck_tape, name) for name in ("eps", "atol", "rtol")),
    keyword(gradcheck_tape, "raise_exception", default=False),
    keyword(gradcheck_tape, "input_output_masks", metavar="EXPRESSION"),
    keyword(gradcheck_tape, "blacklist_kernels", kind="kernel", nargs="+", metavar="KERNEL"),
    keyword(gradcheck_tape, "whitelist_kernels", kind="kernel", nargs="+", metavar="KERNEL"),
    *(
        keyword(gradcheck_tape, name)
        for name in (
            "max_inputs_per_var",
            "max_outputs_per_var",
            "plot_relative_error",
            "plot_absolute_error",
            "reverse_launches",
            "skip_to_launch_index",
            "sample",
            "reference",
            "nondet_tol",
            "check_backward_ad",
            "check_forward_ad",
            "check_batched_grad",
            "check_batched_forward_grad",
            "check_undefined_grad",
            "check_grad_dtypes",
            "fast_mode",
            "masked",
            "end_to_end",
        )
    ),
    keyword(gradcheck_tape, "loss", kind="array", metavar="ARRAY"),
    keyword(gradcheck_tape, "inputs", kind="array", nargs="+", metavar="ARRAY"),
    keyword(gradcheck_tape, "max_seconds"),
)
"""Options from the keywords of `gradcheck_tape`."""

DIFFERENTIATING = (
    keyword(jacobian, "input_output_mask", metavar="EXPRESSION"),
    *(
        keyword(jacobian, name)
        for name in ("max_outputs_per_var", "plot_jacobians", "mode", "sparse", "sample", "max_seconds")
    ),
)
"""Options from the keywords of `jacobian`."""


def _height(text: str) -> float:
    """Return the height of a panel from the text of an option."""
    value = float(text)
    if not LOWEST <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"a panel has {LOWEST} CSS pixels or more; got {text}")
    return value


_height.__name__ = "number"  # as messages of argparse call it


@magics_class
class TapeMagics(Base):
    """Magics that record cells and check their launches."""

    @cell_magic
    @output_can_be_silenced
    @magic_arguments()
    @options(
        *RECORDING,
        NAME,
        keyword(diagnose, "loss", kind="array", metavar="ARRAY"),
        keyword(diagnose, "inputs", kind="array", nargs="+", metavar="ARRAY"),
        keyword(diagnose, "as_warp"),
        keyword(diagnose, "max_seconds"),
        Option("--panel", kind="new", metavar="VAR", help="keep the panel in this variable"),
        Option("--no-panel", action="store_true", help="show no panel"),
        Option("--height", type=_height, metavar="PIXELS", help="the height of the panel, in CSS pixels"),
    )
    def tape(self, line: str, cell: str) -> Any:
        """Record the launches of this cell on a tape, and show it.

        With --loss the gradients of the arrays on the tape are cleared after the cell, the reverse pass runs
        from that array, and the tape is diagnosed.

        Examples::

            %%tape
            wp.launch(square, dim=n, inputs=[x], outputs=[y])

            %%tape --name tape --loss loss --on-overwrite warn
            simulate(x, loss)
        """
        __tracebackhide__ = True
        given = parse(self.tape, "%%tape", line)
        if given.panel and given.no_panel:
            raise UsageError("%%tape: --panel keeps the panel that --no-panel does not open; choose one")
        idle = [
            f"--{name.replace('_', '-')}"
            for name in ("inputs", "as_warp", "max_seconds")
            if getattr(given, name)
        ]
        if idle and given.loss is None:
            says = " and ".join(idle) + (" says" if len(idle) == 1 else " say")
            raise UsageError(f"%%tape: {says} how to diagnose; name the loss: --loss ARRAY")
        tape, value = self._recorded("%%tape", given, cell, given.loss)
        if given.loss is not None and not given.no_panel and _shell.in_notebook() and not _shell.is_batch():
            self._show_and_diagnose(tape, given)
            return value
        if given.loss is not None and running_command():
            self._defer(tape, given)
        elif given.loss is not None:
            keep_latest(tape, self._diagnosis(given)(tape))
        if not tape.operations:
            print(nothing_recorded("%%tape"))
        elif not given.no_panel:
            self._show(tape, given)
        return value

    @cell_magic
    @output_can_be_silenced
    @magic_arguments()
    @options(*CHECKING, *RECORDING, NAME, RESULT)
    def gradcheck(self, line: str, cell: str) -> Any:
        """Run this cell, and check the gradient of each launch in it against finite differences.

        Each launch is checked with the values that its arrays had when it ran, on copies. With --end-to-end
        the gradient of the whole cell is checked, from --loss. If gradients do not agree, the result says so;
        with --raise-exception an error is raised as well.

        Examples::

            %%gradcheck
            wp.launch(square, dim=n, inputs=[x], outputs=[y])

            %%gradcheck --end-to-end --loss loss --result found
            simulate(x, loss)
        """
        __tracebackhide__ = True
        given = parse(self.gradcheck, "%%gradcheck", line)
        tape, _ = self._recorded("%%gradcheck", given, cell)
        require_launches("%%gradcheck", tape)
        asked = self.keywords("%%gradcheck", CHECKING, given)
        with usage_errors("%%gradcheck"):
            result = gradcheck_tape(tape, **{**asked, "show_summary": False, "raise_exception": False})
        release_tape(result.scripts.values())  # IPython keeps all results, and they would keep their tapes
        self.keep(given.result, result)
        if not _shell.in_notebook():
            print(result.summary())
        if given.raise_exception and not result:
            self.display(result)
            with usage_errors("%%gradcheck"):
                result.raise_if_failed()
        return result

    @cell_magic
    @output_can_be_silenced
    @magic_arguments()
    @options(
        Option(
            "--launch",
            type=int,
            metavar="NUMBER",
            help="which launch of the cell, counted from 0; by default the last one that has a Jacobian",
        ),
        *DIFFERENTIATING,
        *RECORDING,
        NAME,
        RESULT,
    )
    def jacobian(self, line: str, cell: str) -> Any:
        """Run this cell, and show the Jacobians of a launch in it, by its adjoint.

        They are taken at the values that the arrays of the launch had when it ran, and computed on copies.

        Examples::

            %%jacobian
            wp.launch(square, dim=n, inputs=[x], outputs=[y])

            %%jacobian --mode tangent --result J
            wp.launch(square, dim=n, inputs=[x], outputs=[y])
        """
        __tracebackhide__ = True
        from tapedebug.notebook._cell_jacobian import jacobian_of_launch

        given = parse(self.jacobian, "%%jacobian", line)
        tape, _ = self._recorded("%%jacobian", given, cell)
        require_launches("%%jacobian", tape)
        if not isinstance(tape, Tape):
            raise UsageError(
                f"%%jacobian: not for launches of {tape.engine.name}\n"
                "  = hint: %%tape shows the Jacobian of a pair in the panel"
            )
        asked = self.keywords("%%jacobian", DIFFERENTIATING, given)
        with usage_errors("%%jacobian"):
            found = jacobian_of_launch(tape, given.launch, **asked)
        self.keep(given.result, found)
        return found

    def _recorded(
        self, magic: str, given: argparse.Namespace, cell: str, loss_name: str | None = None
    ) -> tuple[RecordedTape, Any]:
        """Run the cell with a tape.

        Launches of NVIDIA Warp are recorded on a tape of Warp, which then is the result.

        Args:
            magic: The name of the magic.
            given: Its options.
            cell: The code.
            loss_name: The variable with the loss from which a reverse pass runs after the cell.

        Returns:
            The tape, and the value of the cell's last line.
        """
        __tracebackhide__ = True
        for option in ("name", "panel", "result"):
            name = getattr(given, option, None)
            if name is not None and (not name.isidentifier() or iskeyword(name)):
                raise UsageError(f"{magic}: {name!r} is not the name of a variable")
        code = CellCode(magic, self.shell, cell)
        with usage_errors(magic):
            own = Tape(**self.keywords(magic, RECORDING, given))
        self._named(own, code.name, given)
        warp = WarpCell(cell)
        with debugging(), warp:
            try:
                with own:
                    value = code.run()
            finally:
                on_warp = warp.recorded()
                tape = own if own.operations or on_warp is None else on_warp
                if tape is not own:
                    self._named(tape, code.name, given)
            if loss_name is not None and (tape is own or not tape.reverse_passes):
                self._reverse(magic, tape, loss_name, given.inputs or ())
        for note in warp.notes:
            print(note)
        return tape, value

    def _named(self, tape: RecordedTape, cell: str, given: argparse.Namespace) -> None:
        Base.last = tape
        self.keep(given.name, program_tape(tape))
        made_in(tape, cell, given.name)

    def _reverse(self, magic: str, tape: RecordedTape, loss_name: str, inputs: Sequence[str]) -> None:
        """Clear the gradients, and run the reverse pass from the loss, if all named variables exist."""
        __tracebackhide__ = True
        if not tape.operations:
            raise UsageError(nothing_recorded(magic))
        loss = self.variable(magic, "--loss", loss_name)
        for name in inputs:
            self.variable(magic, "--inputs", name)
        cleared = clear_gradients(tape, loss, magic)
        if cleared:
            print(cleared)
        with usage_errors(magic):
            reverse(tape, loss)

    def _show_and_diagnose(self, tape: RecordedTape, given: argparse.Namespace) -> None:
        """Show the tape at once, and what its diagnosis finds as it comes; Ctrl-C keeps what was found."""
        __tracebackhide__ = True
        from tapedebug.notebook._open_panels import open_panel

        panel = open_panel(undiagnosed(tape), height=given.height)
        self.keep(given.panel, panel)
        self.display(panel)
        follower = PanelFollower(panel, tape)
        try:
            keep_latest(tape, self._diagnosis(given, follower)(tape))
        except KeyboardInterrupt:
            follower.end()
            raise
        try:
            panel.refresh()
        except TapedebugError:  # a check was started meanwhile
            panel.status = "The tape was diagnosed meanwhile: refresh() shows the findings."

    def _defer(self, tape: RecordedTape, given: argparse.Namespace) -> None:
        """Diagnose a tape if a later cell asks: `tapedebug run` diagnoses all when the notebook has ended."""
        __tracebackhide__ = True
        with usage_errors("%%tape"):
            require_named(tape, *self._targets(given))
        defer_diagnosis(tape, self._diagnosis(given))

    def _targets(self, given: argparse.Namespace) -> tuple[Any, list[Any] | None]:
        """Return the loss that the options name, and the inputs, if they name any."""
        __tracebackhide__ = True
        names = given.inputs
        inputs = None if names is None else [self.variable("%%tape", "--inputs", name) for name in names]
        return self.variable("%%tape", "--loss", given.loss), inputs

    def _diagnosis(
        self,
        given: argparse.Namespace,
        so_far: Callable[[Trace], None] | None = None,
    ) -> Callable[[RecordedTape], Diagnosis]:
        """Return the function that diagnoses a tape as the options say, with the variables of now."""
        __tracebackhide__ = True
        loss, inputs = self._targets(given)

        def diagnosed(tape: RecordedTape) -> Diagnosis:
            __tracebackhide__ = True
            with usage_errors("%%tape"):
                found = diagnose(
                    tape,
                    loss,
                    inputs,
                    as_warp=given.as_warp,
                    max_seconds=given.max_seconds,
                    so_far=so_far,
                )
            named(tape, found.trace)
            return found

        return diagnosed

    def _show(self, tape: RecordedTape, given: argparse.Namespace) -> None:
        if not _shell.in_notebook():
            if not running_command():  # `tapedebug run` prints the tapes of the notebook when it has ended
                print(text_of(subject_of(tape)))
            if given.panel:  # later cells may use its traits, also if the notebook runs as a program
                self.keep(given.panel, open_panel(tape, height=given.height))
            return
        panel = open_panel(tape, height=given.height)
        self.keep(given.panel, panel)
        self.display(panel)


class PanelFollower:
    """Shows an unfinished diagnosis in a panel, now and then.

    Args:
        panel: The panel of the tape.
        tape: The tape.
    """

    def __init__(self, panel: TapeDebugger, tape: RecordedTape) -> None:
        self._panel, self._tape = panel, tape
        self._trace: Trace | None = None
        self._show = UpdatePace(panel.show_so_far)

    def __call__(self, trace: Trace) -> None:
        """Show a trace, unless another one was shown a moment ago."""
        self._trace = named(self._tape, trace)
        self._show(trace)

    def end(self) -> None:
        """Show the last trace, also in the saved output."""
        if self._trace is not None:
            self._panel.show_so_far(self._trace, last=True)


def require_launches(magic: str, tape: RecordedTape) -> None:
    """Raise an error for a cell without launches.

    Raises:
        UsageError: The cell launched nothing.
    """
    if all(operation.kind != "kernel" for operation in tape.operations):
        raise UsageError(nothing_recorded(magic))


def nothing_recorded(magic: str) -> str:
    """Return the message for a cell that launched nothing."""
    return (
        f"{magic}: this cell launched no kernel, and there is nothing to show\n"
        "  = hint: call wp.launch in this cell, or a function that does; other cells are not recorded"
    )


def install(shell: InteractiveShell) -> None:
    """Add all our magics to a shell, with completion."""
    recording, writing = TapeMagics(shell), ReportMagics(shell)
    for magics in (recording, writing):
        shell.register_magics(magics)
    _completion.install(shell, by_name(recording, writing))


def by_name(*groups: Base) -> dict[str, Any]:
    """Return magics by their names with per cent signs."""
    found: dict[str, Any] = {}
    for group in groups:
        for kind, sign in (("line", "%"), ("cell", "%%")):
            for name in group.magics[kind]:
                found[sign + name] = getattr(group, name)
    return found
