"""The argument of every rule: one tape as data, its experiments, and the progress of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tapedebug._errors import TapedebugError
from tapedebug.contract import ElementConflicts, ElementTracking, RecordedTape
from tapedebug.diagnose.experiments.adjoint_profile import AdjointProfile, measure
from tapedebug.diagnose.experiments.element_accesses import element_conflicts
from tapedebug.diagnose.experiments.experiment import Experiment
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.experiments.zero_grad_paths import ZeroGradPath, zero_grad_paths
from tapedebug.diagnose.trace_analysis.dependencies import Dependencies
from tapedebug.trace import Finding, Trace

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.input_check import InputCheck
    from tapedebug.autograd.tapes.reference import Departure


T = TypeVar("T")
NO_ELEMENTS = "does not track the accesses of threads"


class NotOffered(TapedebugError):
    """The engine of a tape lacks a capability that a rule needs: the coverage says so, and that is all."""


@dataclass
class RuleContext:
    """One tape under diagnosis.

    Attributes:
        trace: The tape as data, with the verdict of the end-to-end check.
        experiment: Runs the tape again, changed or not, in private memory.
        as_warp: The program was written for Warp: what would go wrong there is an error.
        named_loss: Somebody said what the loss is.
        progress: Called with a few words before something that takes time.
        elsewhere: Errors that are shown on another tape of the diagnosis and are about this one, too.
        measured: What the end-to-end check found, for each input.
        rules: Those that were looked for, to the end.
    """

    trace: Trace
    experiment: Experiment
    as_warp: bool = False
    named_loss: bool = False
    progress: Callable[[str], None] = field(default=lambda words: None)
    elsewhere: list[Finding] = field(default_factory=list)
    measured: Sequence[InputCheck] = ()
    rules: list[str] = field(default_factory=list)

    @property
    def departures(self) -> list[Departure]:
        """Return where gradients differ from what the functions compute, by the end-to-end check."""
        return [item.departure for item in self.measured if item.departure is not None]

    @cached_property
    def dependencies(self) -> Dependencies:
        """The data flow of the trace."""
        return Dependencies(self.trace)

    @cached_property
    def elements(self) -> ElementConflicts:
        """The conflicts of suspected launches, which are run once more, tracked element by element."""
        return element_conflicts(self, self.need(ElementTracking, NO_ELEMENTS))

    @property
    def rerun(self) -> Replay:
        """The tape, to be run again, also where gradients can not be computed.

        Raises:
            TapedebugError: It is not a tape of this process.
        """
        if not isinstance(self.experiment, Replay):
            raise TapedebugError("this tape can not be run again")
        return self.experiment

    @property
    def replay(self) -> Replay | None:
        """The tape, to be run again; None where gradients can not be computed, or nothing can be run."""
        found = self.experiment
        return found if isinstance(found, Replay) and not found.blocked else None

    @cached_property
    def profile(self) -> AdjointProfile | None:
        """The growth of the adjoint over the reverse pass; None if it cannot be computed."""
        return None if self.replay is None else measure(self.replay)

    @cached_property
    def zero_grad_paths(self) -> dict[int, ZeroGradPath]:
        """For inputs whose gradient is exactly 0: the operation at which it dies, where one explains it."""
        return zero_grad_paths(self)

    def need(self, kind: type[T], lacking: str) -> T:
        """Return a capability of the tape that a rule cannot do without.

        Args:
            kind: The capability.
            lacking: The end of a sentence that begins with the engine, such as `does not track elements`.

        Raises:
            NotOffered: The engine does not offer it.
        """
        tape: RecordedTape = self.rerun.recorded.tape
        found = tape.capability(kind)
        if found is None:
            raise NotOffered(f"{tape.engine.name} {lacking}")
        return found

    def looked_for(self, rule: str) -> None:
        """A rule has looked at the tape to the end."""
        if rule not in self.rules:
            self.rules.append(rule)

    def skipped(self, what: str) -> None:
        """Say in the coverage what was not looked at, and why."""
        if what not in self.trace.coverage.notes:
            self.trace.coverage.notes.append(what)
