"""The argument of every rule: one tape as data, its experiments, and the progress of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug.contract import ElementConflicts, ElementTracking, RecordedTape, ReverseDivergence
from tapedebug.diagnose.experiments.adjoint_profile import AdjointProfile, measure
from tapedebug.diagnose.experiments.element_accesses import (
    element_conflicts,
    suspect_launches,
    tracking_seconds,
)
from tapedebug.diagnose.experiments.experiment import Experiment
from tapedebug.diagnose.experiments.kinks import LAUNCHES, Kink, find_kink
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.experiments.zero_grad_paths import ZeroGradPath, zero_grad_paths
from tapedebug.diagnose.timings import PROFILE, READS_TRACE, Cost, StepTimer, estimated, seconds_per_run
from tapedebug.diagnose.trace_analysis.dependencies import Dependencies
from tapedebug.trace import Finding, Trace

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.input_check import InputCheck
    from tapedebug.autograd.tapes.reference import Departure
    from tapedebug.diagnose.experiments.changed_gradient import ChangedGradient


T = TypeVar("T")
NO_ELEMENTS = "does not track the accesses of threads"


class NotOffered(TapedebugError):
    """The error if an engine lacks a capability that a rule needs; it becomes a gap in the coverage."""


@dataclass
class RuleContext:
    """One tape under diagnosis.

    Attributes:
        trace: The tape as data, with the verdict of the end-to-end check.
        experiment: Replays the tape, changed or not, in private memory.
        as_warp: The program was written for Warp: bugs that would occur there are errors.
        named_loss: The caller named the loss.
        progress: Called with a short text before each slow step.
        elsewhere: Errors that are shown on another tape of the diagnosis and also concern this one.
        measured: The result of the end-to-end check for each input; while rules run, with the gradients of
            those that are WRONG only.
        changed: The inputs whose gradient in the program is not the one that a replay of its pass gives.
        rules: The rules that ran to completion.
        ended: The rules that have ended, be it by an error.
        run_seconds: The duration of a forward run, if the end-to-end check measured it.
        after_rule: Called after each rule.
    """

    trace: Trace
    experiment: Experiment
    as_warp: bool = False
    named_loss: bool = False
    progress: Callable[[str], None] = field(default=lambda words: None)
    elsewhere: list[Finding] = field(default_factory=list)
    measured: Sequence[InputCheck] = ()
    changed: Sequence[ChangedGradient] = ()
    rules: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    run_seconds: float | None = None
    after_rule: Callable[[], None] = field(default=lambda: None)

    @cached_property
    def timer(self) -> StepTimer:
        """The measurements of the steps of this diagnosis, which the trace lists."""
        return StepTimer(self.trace.timings)

    def estimate(self, cost: Cost) -> float | None:
        """Return the estimated duration of a step in seconds; None if unknown."""
        seconds = seconds_per_run(self.trace) if self.run_seconds is None else self.run_seconds
        return estimated(self.trace, cost, seconds)

    @property
    def departures(self) -> list[Departure]:
        """Return the entries at which custom gradients differ from derivatives, from the end-to-end check."""
        return [item.departure for item in self.measured if item.departure is not None]

    @cached_property
    def dependencies(self) -> Dependencies:
        """The data flow of the trace."""
        return Dependencies(self.trace)

    @cached_property
    def elements(self) -> ElementConflicts:
        """The conflicts of suspect launches, from a replay that tracks them element by element."""
        tracking = self.need(ElementTracking, NO_ELEMENTS)
        launches, unwritten = suspect_launches(self, tracking)
        cost = Cost(1.0, seconds=tracking_seconds(self, launches)) if launches or unwritten else READS_TRACE
        with self.timer.measure("accesses of single threads", self.estimate(cost)):
            return element_conflicts(self, tracking, launches, unwritten)

    @property
    def rerun(self) -> Replay:
        """The experiments on the tape, even if gradients cannot be computed.

        Raises:
            TapedebugError: The tape is not one of this process.
        """
        if not isinstance(self.experiment, Replay):
            raise TapedebugError("this tape cannot be run again")
        return self.experiment

    @property
    def replay(self) -> Replay | None:
        """The experiments on the tape; None if gradients cannot be computed, or nothing can be replayed."""
        found = self.experiment
        return found if isinstance(found, Replay) and not found.blocked else None

    @property
    def reversed_count(self) -> int:
        """The number of launches that had been recorded when the last reverse pass ran; all if none did."""
        launches = len(self.trace.launches)
        if self.replay is None or not self.replay.recorded.tape.reverse_passes:
            return launches
        return min(launches, self.replay.recorded.tape.reverse_passes[-1].operation_count)

    @cached_property
    def profile(self) -> AdjointProfile | None:
        """The norms of the adjoint along the reverse pass; None if they cannot be computed."""
        if self.replay is None:
            return None
        with self.timer.measure("norms of adjoints", self.estimate(PROFILE)):
            return measure(self.replay)

    @cached_property
    def reverse_divergences(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """For each launch the constructs of its kernel that Warp may reverse wrongly."""
        with self.timer.measure("adjoints in Warp", self.estimate(Cost(1))):
            return self.experiment.warp_limits()

    @cached_property
    def zero_grad_paths(self) -> dict[int, ZeroGradPath]:
        """The operations at which the adjoint becomes 0, for inputs whose gradient is exactly 0."""
        profile = self.profile
        zero = profile is not None and not all(profile.gradients.values())
        cost = PROFILE if zero else READS_TRACE
        with self.timer.measure("operations with a zero derivative", self.estimate(cost)):
            return zero_grad_paths(self)

    @cached_property
    def kink(self) -> Kink | None:
        """The operation at its kink that is nearest to the loss; None if none was found.

        It does not depend on the input in which the loss has the kink.
        """
        kernels = {launch.kernel for launch in self.trace.launches if launch.kind == "kernel"}
        # For each launch that is followed, the tape runs forward and backward once.
        cost = Cost(PROFILE.runs * min(LAUNCHES, len(kernels)))
        with self.timer.measure("operations at a kink", self.estimate(cost)):
            return find_kink(self)

    def need(self, kind: type[T], lacking: str) -> T:
        """Return a capability of the tape that a rule requires.

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
        """Mark a rule as completed on this tape."""
        if rule not in self.rules:
            self.rules.append(rule)

    def skipped(self, what: str) -> None:
        """Add to the coverage a part that was not examined, with the reason."""
        if what not in self.trace.coverage.notes:
            self.trace.coverage.notes.append(what)
