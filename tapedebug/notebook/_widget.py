"""The panel as a Jupyter widget."""

# the types of anywidget and traitlets are ignored, so that mypy also runs where they are not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from comm.base_comm import BaseComm

from tapedebug import _shell
from tapedebug._errors import GradcheckError, TapedebugError
from tapedebug.notebook import _open_panels, panel_sync
from tapedebug.notebook.display import bundle_of, saved_answers, write_report
from tapedebug.notebook.selection import SelectionError, check_selection, still_there
from tapedebug.panel.check_results import judgement, that_fit
from tapedebug.panel.check_runner import CheckRunner, describe
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.pair_mask import check_mask
from tapedebug.panel.panel_source import PanelSource, default_mask, subject_of
from tapedebug.panel.queries import answer_later
from tapedebug.trace import Trace

STATIC = Path(__file__).parent.parent / "static"

UNSET: Any = object()


class TapeDebugger(anywidget.AnyWidget):
    """The gradient debugger of one tape, in a notebook.

    ``TapeDebugger(tape)`` as the last expression of a cell shows the panel. The selection and the enabled
    pairs can be read, set and observed from Python; a click in the panel changes the same traits.

    Args:
        obj: A `Tape`, a `Trace` or a `Diagnosis`. Checks need the tape itself: for a trace they report this.
        mask: The pairs to enable; by default those of the whole tape.
        height: The height of the panel in CSS pixels; by default it adapts to the window.

    Attributes:
        head: The small parts as JSON-compatible data, with a description of `columns`. Read only.
        columns: Launches and versions as bytes (packed form: ``docs/trace.md``). Read only.
        mask: The pairs that *Run* recomputes: a list of ``[launch, input, output]``, launch None for the
            whole tape.
        checks: The results, a list of dicts with ``launch``, ``input``, ``output``, ``verdict``,
            ``max_abs_error``, ``max_rel_error``, ``message`` and ``seconds``; ``verdict`` is None for a
            pair that was not run.
        selection: The selection: a dict with any of ``launch`` (index), ``array`` (id or label),
            ``version``, ``finding`` (id) and ``pair`` (as in `mask`; the one whose Jacobian is displayed).
        height: The height in CSS pixels, or None.
        verdict: The verdict on the gradient, as displayed: that of the diagnosis or, without one, the worst
            of the whole-tape checks. Read only.
        findings: The findings of the diagnosis, worst first: a list of dicts (schema: ``docs/trace.md``).
            Read only, and not synced.
        running: True while checks run.
        progress: The progress of the running checks, 0 to 1.
        beat: A counter that increases every second while checks run, as a sign that the kernel is alive.
        status: The last status message.
        can_run: True if the tape is in this process, so that checks can be run.

    Raises:
        TypeError: `obj` cannot be shown.
        traitlets.TraitError: `mask` names a pair that the tape does not have, or `height` is invalid.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"

    head = traitlets.Dict(read_only=True).tag(sync=True)
    columns = traitlets.Dict(read_only=True).tag(sync=True)
    mask = traitlets.List().tag(sync=True)
    checks = traitlets.List(traitlets.Dict()).tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    can_run = traitlets.Bool(False).tag(sync=True)
    beat = traitlets.Int(0).tag(sync=True)
    height = traitlets.Any(None, allow_none=True).tag(sync=True)
    verdict = traitlets.Unicode("NOT CHECKED", read_only=True).tag(sync=True)
    findings = traitlets.List(traitlets.Dict(), read_only=True)

    def __init__(
        self, obj: object, *, mask: Iterable[Any] | None = None, height: float | None = None
    ) -> None:
        __tracebackhide__ = True
        subject = subject_of(obj)
        # validated before traitlets does, whose errors would show its own frames
        mask = default_mask(subject.head) if mask is None else _checked_mask(mask, subject)
        height = _checked_height(height)
        self._display_ids: list[str] = []
        # the validators of `mask` and `selection` need the trace, so it is set before any trait
        self._runner = CheckRunner(subject, self._report)
        self._runner.learn(panel_sync.found_elsewhere(subject))
        # a program that runs a notebook stores all messages of widgets: the tape again, and the front end
        unheard = {"comm": _Unheard()} if _shell.is_batch() else {}
        super().__init__(
            **unheard,
            mask=mask,
            checks=self._runner.checks,
            can_run=subject.tape is not None,
            height=height,
        )
        self._own_layout = self.layout
        self._show_subject(subject)
        panel_sync.opened(self)
        self.on_msg(self._on_click)
        shell = _shell.current()
        if shell is not None:
            execution_lock.install(shell)
            panel_sync.follow(shell)

    def run(self, mask: Iterable[Any] | None = None) -> list[dict[str, Any]]:
        """Check the enabled pairs, as *Run* does, and wait for the results.

        Args:
            mask: Enable exactly these pairs first.

        Returns:
            One dict per pair, as in `checks`.

        Raises:
            TapedebugError: No pair is enabled, or the tape cannot be checked.
            traitlets.TraitError: `mask` names a pair that the tape does not have.
        """
        self._require_open()
        if mask is not None:
            self.mask = list(mask)
        return self._runner.run(self.mask)

    def cancel(self) -> None:
        """Stop the running checks; the results so far are kept."""
        self._runner.cancel()

    def select(
        self,
        *,
        finding: object = UNSET,
        launch: object = UNSET,
        array: object = UNSET,
        version: object = UNSET,
        pair: object = UNSET,
    ) -> None:
        """Replace the selection, as a click does.

        Args:
            finding: The id of a finding, a `Finding`, or one of the dicts of `findings`.
            launch: The index of a launch.
            array: The label or id of an array, or the array itself.
            version: The number of a version of that array.
            pair: ``(launch, input, output)``, launch None for the whole tape: shows its Jacobian.

        Raises:
            traitlets.TraitError: The tape has no such item; the message lists those it has.
        """
        given = {"finding": finding, "launch": launch, "array": array, "version": version, "pair": pair}
        self.selection = {part: value for part, value in given.items() if value is not UNSET}

    def refresh(self) -> None:
        """Show the current recording and diagnosis; masks and results that are still valid are kept.

        Raises:
            TapedebugError: A check of the tape is running, or the panel was closed.
        """
        self._require_open()
        if self._runner.running:
            raise TapedebugError(
                "A check of this tape is running: it needs the tape as it is drawn.",
                hint="Wait for it, or call cancel(); then refresh.",
            )
        before = self._runner.subject
        if before.tape is None:
            return
        self._renew(subject_of(before.tape))
        self._update_saved()

    def show_so_far(self, trace: Trace, *, last: bool = False) -> None:
        """Show an unfinished diagnosis of this tape, unless a check of it is running or the panel is closed.

        Args:
            trace: The trace with the verdict and the findings so far.
            last: It will not be finished: also update the saved output.
        """
        tape = self._runner.subject.tape
        if tape is not None and self.comm is not None and not self._runner.running:
            self._renew(PanelSource(trace, tape))
            if last:
                self._update_saved()

    def _renew(self, subject: PanelSource) -> None:
        """Show another trace of this tape; masks and results that are still valid are kept."""
        mask, selection = self.mask, self.selection
        self._runner.adopt(subject)
        with self.hold_sync():
            fitting = that_fit(mask, subject.source)
            self.mask = default_mask(subject.head) if mask and not fitting else fitting
            self.selection = still_there(selection, subject)
            self.checks = self._runner.checks
            self.status = ""
            self._show_subject(subject)

    def close(self) -> None:
        """Close the panel and release its tape; the saved output keeps its last state."""
        runner: CheckRunner | None = getattr(self, "_runner", None)  # missing if `obj` could not be shown
        if runner is not None:
            runner.cancel()
            self._runner = CheckRunner(PanelSource(runner.subject.source, None), _nothing)
            self._display_ids.clear()
            panel_sync.closed(self)
            _open_panels.forget(self)
        super().close()
        layout = getattr(self, "_own_layout", None)
        if layout is not None:
            layout.close()  # a separate widget, which is not closed otherwise

    def export(self, path: str | Path | None = None) -> Path:
        """Write the content of the panel as one offline HTML file.

        Args:
            path: The file; by default ``tapedebug-report-TAPE.html`` with the name of the tape, and a number
                if that file exists.

        Returns:
            The absolute path of the file.

        Raises:
            OSError: The file cannot be written.
        """
        return write_report(self._runner.subject, self.checks, path)

    @property
    def trace(self) -> dict[str, Any]:
        """The tape as JSON-compatible data (schema: ``docs/trace.md``), created on access."""
        return self._runner.subject.trace

    @traitlets.validate("mask")
    def _validate_mask(self, proposal: Mapping[str, Any]) -> list[Any]:
        return _checked_mask(proposal["value"], self._runner.subject)

    @traitlets.validate("selection")
    def _validate_selection(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return check_selection(proposal["value"], self._runner.subject)
        except SelectionError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.validate("height")
    def _validate_height(self, proposal: Mapping[str, Any]) -> float | None:
        return _checked_height(proposal["value"])

    @traitlets.observe("checks")
    def _judge(self, _: object = None) -> None:
        self.set_trait("verdict", judgement(self._runner.subject.source.verdict, self.checks))

    def _show_subject(self, subject: PanelSource) -> None:
        self._passes = panel_sync.passes_of(subject)
        with self.hold_sync():  # in one message: neither is useful without the other
            self.set_trait("head", subject.head)
            self.set_trait("columns", subject.packed.columns)
        self.set_trait("findings", subject.head["findings"])
        self._judge()

    def _require_open(self) -> None:
        if self.comm is None:
            raise TapedebugError(
                "This panel was closed.", hint="Open another: TapeDebugger(tape), or show the tape."
            )

    def _on_click(self, _: object, content: Mapping[str, Any], __: object) -> None:
        """Handle a pressed button. There is no cell for a traceback: errors go to the status line."""
        kind = content.get("type") if isinstance(content, dict) else None
        try:
            if kind == "run":
                self._start(content.get("mask"))
            elif kind == "cancel":
                self.cancel()
            elif kind == "export":
                self.status = f"Report written to {self.export()}"
            elif kind == "ask":
                answer_later(self._runner.subject, content.get("question"), content.get("request"), self.send)
        except Exception as error:
            self.status = describe(error)

    def _start(self, mask: Iterable[Any] | None = None) -> None:
        """Run these pairs, or the enabled ones."""
        self._runner.start(self.mask if mask is None else check_mask(mask, self._runner.subject.source))

    def _report(self, **changes: object) -> None:
        with self.hold_sync():
            for name, value in changes.items():
                self.set_trait(name, value)
        if changes.get("running") is False:
            self._update_saved()
            panel_sync.share(self)

    def _learn(self, checks: list[dict[str, Any]]) -> None:
        """Add results of another panel of this tape."""
        self._runner.learn(checks)
        if self.checks != self._runner.checks:
            self.checks = self._runner.checks
            self._update_saved()

    def _look_for_passes(self) -> None:
        """Notify the front end after another reverse pass, as its adjoints are those of the previous one."""
        passes = panel_sync.passes_of(self._runner.subject)
        if passes != self._passes:
            self._passes = passes
            self.send({"type": "passes", "passes": passes})

    # -- display: the output in a saved notebook is updated when checks have run

    def _ipython_display_(self, **_: object) -> None:
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
        """Return the MIME data and metadata of the panel for a saved notebook."""
        subject, checks = self._runner.subject, self.checks
        answers = saved_answers(subject, checks)
        model_id = None if _shell.is_batch() else self.model_id
        return bundle_of(subject, checks, repr(self), model_id=model_id, mask=self.mask, answers=answers)

    def __repr__(self) -> str:
        trace = self._runner.subject.source
        return f"TapeDebugger({trace.name!r}, tape {trace.tape.id}, {trace.tape.launches} launches)"


class _Unheard(BaseComm):
    """A comm without a front end."""

    def publish_msg(self, *_: object, **__: object) -> None:
        """Send nothing."""


def _checked_mask(mask: Iterable[Any], subject: PanelSource) -> list[Any]:
    __tracebackhide__ = True
    try:
        return check_mask(mask, subject.source)
    except GradcheckError as error:
        raise traitlets.TraitError(str(error)) from None


def _checked_height(height: object) -> float | None:
    __tracebackhide__ = True
    if height is None:
        return None
    low, high = _open_panels.LOWEST, float("inf")
    if isinstance(height, int | float) and not isinstance(height, bool) and low <= height < high:
        return float(height)
    raise traitlets.TraitError(
        f"height is a number of CSS pixels, {low} or more, or None; not {height!r:.80}"
    )


def _nothing(**_: object) -> None:
    """Ignore the reports of a check that was running when its panel was closed."""
