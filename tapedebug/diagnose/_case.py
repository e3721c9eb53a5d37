"""What a rule is given: one tape as data, what may be tried out on it, and where to say how far it got."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tapedebug._errors import TapedebugError
from tapedebug.diagnose._experiment import Experiment
from tapedebug.diagnose._graph import Dependencies
from tapedebug.trace import Trace

if TYPE_CHECKING:
    from tapedebug.diagnose._replay import Replay


@dataclass
class Case:
    """One tape under diagnosis.

    Attributes:
        trace: The tape as data, with the verdict of the end-to-end check.
        experiment: Runs the tape again, changed or not, in private memory.
        as_warp: The program was written for Warp: what would go wrong there is an error.
        named_loss: Somebody said what the loss is.
        progress: Called with a few words before something that takes time.
    """

    trace: Trace
    experiment: Experiment
    as_warp: bool = False
    named_loss: bool = False
    progress: Callable[[str], None] = field(default=lambda words: None)

    @cached_property
    def dependencies(self) -> Dependencies:
        """The data flow of the trace."""
        return Dependencies(self.trace)

    @property
    def replay(self) -> Replay:
        """The experiment, for modules that know more ways to run a tape than the protocol.

        Raises:
            TapedebugError: The trace is not that of a tape of this process.
        """
        from tapedebug.diagnose._replay import Replay

        if not isinstance(self.experiment, Replay):
            raise TapedebugError("this tape can not be run again")
        return self.experiment

    def skipped(self, what: str) -> None:
        """Say in the coverage what was not looked at, and why."""
        if what not in self.trace.coverage.notes:
            self.trace.coverage.notes.append(what)
