"""The panel as a Jupyter widget."""

# anywidget and traitlets are seen without their types, so that mypy runs where they are not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import anywidget
import traitlets

from tapedebug._errors import GradcheckError
from tapedebug.notebook import _shell
from tapedebug.notebook._checks import CheckRunner, describe, write_report
from tapedebug.notebook._gate import gate
from tapedebug.notebook._mask import check_mask
from tapedebug.notebook._subject import default_mask, subject_of
from tapedebug.notebook.display import bundle_of

STATIC = Path(__file__).parent.parent / "static"


class TapeDebugger(anywidget.AnyWidget):
    """The gradient debugger of one tape, in a notebook.

    ``TapeDebugger(tape)`` as the last expression of a cell shows the panel. What is selected and which
    pairs are switched on can be read, set and observed from Python; a click in the panel changes the same
    traits.

    Args:
        obj: A `Tape`, a `Trace` or a `Diagnosis`. Checks need the tape itself: of a trace they say so.
        mask: The pairs to switch on; by default those of the whole tape.

    Attributes:
        trace: The tape as JSON-compatible data (schema: ``docs/trace.md``).
        mask: The pairs that *Run* recomputes: a list of ``[launch, input, output]``, launch None for the
            whole tape.
        checks: The results, a list of dicts with ``launch``, ``input``, ``output``, ``verdict``,
            ``max_abs_error``, ``max_rel_error``, ``message`` and ``seconds``; ``verdict`` is None for a
            pair that was not run.
        selection: What is selected: a dict with any of ``launch`` (index), ``array`` (id or label),
            ``version``, ``finding`` (id).
        running: Whether checks are running.
        progress: Of the running checks, 0 to 1.
        status: The last news, in words.
        can_run: Whether the tape is here, so that checks can be run.

    Raises:
        TypeError: `obj` can not be shown.
        traitlets.TraitError: `mask` names a pair that the tape does not have.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"

    trace = traitlets.Dict(read_only=True).tag(sync=True)
    mask = traitlets.List().tag(sync=True)
    checks = traitlets.List(traitlets.Dict()).tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    can_run = traitlets.Bool(False).tag(sync=True)

    def __init__(self, obj: Any, *, mask: Iterable[Any] | None = None) -> None:
        subject = subject_of(obj)
        self._display_ids: list[str] = []
        self._runner = CheckRunner(subject, self._report)
        # the validator of `mask` needs the trace, so it is there before any trait is set
        self._known = subject.trace
        super().__init__(
            mask=default_mask(subject.trace) if mask is None else list(mask),
            checks=subject.trace["checks"],
            can_run=subject.tape is not None,
        )
        self.set_trait("trace", subject.trace)
        self.on_msg(self._heard)
        shell = _shell.current()
        if shell is not None:
            gate.install(shell)

    def run(self, mask: Iterable[Any] | None = None) -> list[dict[str, Any]]:
        """Check the pairs that are switched on, as *Run* does, and wait for the results.

        Args:
            mask: Switch on these pairs first, and no others.

        Returns:
            One dict a pair, as in `checks`.

        Raises:
            TapedebugError: No pair is on, or the tape can not be checked.
            traitlets.TraitError: `mask` names a pair that the tape does not have.
        """
        if mask is not None:
            self.mask = list(mask)
        results = self._runner.run(self.mask)
        self._update_saved()
        return results

    def cancel(self) -> None:
        """Stop the running checks after the pair that they are at."""
        self._runner.cancel()

    def export(self, path: str | Path = "tapedebug-report.html") -> Path:
        """Write what the panel shows as one offline HTML file.

        Args:
            path: The file.

        Returns:
            Its absolute path.

        Raises:
            OSError: It can not be written.
        """
        return write_report(self.trace, self.checks, path)

    def _shown(self) -> dict[str, Any]:
        """The trace with the results of the runs since."""
        return {**self.trace, "checks": list(self.checks)}

    @traitlets.validate("mask")
    def _validate_mask(self, proposal: Any) -> list[Any]:
        try:
            return check_mask(proposal["value"], self._known)
        except GradcheckError as error:
            raise traitlets.TraitError(str(error)) from None

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        """A button was pressed. There is no cell to show a traceback in: errors go to the status line."""
        kind = content.get("type") if isinstance(content, dict) else None
        try:
            if kind == "run":
                self._start()
            elif kind == "cancel":
                self.status = "Cancelling …"
                self.cancel()
            elif kind == "export":
                self.status = f"Report written to {self.export()}"
        except Exception as error:
            self.status = describe(error)

    def _start(self) -> None:
        self._runner.start(self.mask)

    def _report(self, **changes: Any) -> None:
        with self.hold_sync():
            for name, value in changes.items():
                self.set_trait(name, value)
        if "checks" in changes:
            self._update_saved()

    # -- display: what a saved notebook holds is brought up to date when checks have run

    def _ipython_display_(self, **_: Any) -> None:
        if not _shell.in_notebook():
            print(repr(self))
            return
        from IPython.display import display

        display_id = uuid4().hex
        self._display_ids.append(display_id)
        data, metadata = self.bundle()
        display(data, raw=True, metadata=metadata, display_id=display_id)

    def _update_saved(self) -> None:
        if not self._display_ids:
            return
        from IPython.display import update_display

        data, metadata = self.bundle()
        for display_id in self._display_ids:
            update_display(data, raw=True, metadata=metadata, display_id=display_id)

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a notebook keeps of the panel: MIME data and metadata."""
        return bundle_of(self._shown(), repr(self), model_id=self.model_id, mask=self.mask)

    def __repr__(self) -> str:
        tape = self.trace["tape"]
        return f"TapeDebugger({self.trace['name']!r}, tape {tape['id']}, {tape['launches']} launches)"
