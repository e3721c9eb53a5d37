"""Checks one launch of a tape, in this process or in a worker, for `gradcheck_tape`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass
from tapedebug._progress import Progress
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.run_checks import run_checks
from tapedebug.autograd.finite_diff.comparison import Comparison
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.launches import LaunchCopy, OperationCopy, spelled
from tapedebug.autograd.subjects.numerical import is_of_differences
from tapedebug.autograd.subjects.pairs import differentiable, obstacle
from tapedebug.autograd.subjects.subject import Subject, named_ports, operation_ports
from tapedebug.contract import Operation, is_array
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class LaunchWork:
    """One launch to check, with the settings: a unit of work for an executor."""

    copy: LaunchCopy | OperationCopy
    check_plan: CheckPlan

    @property
    def name(self) -> str:
        """The name of the launch in messages."""
        return f"launch {self.copy.index} ({self.copy.name})"

    def subject(self) -> Subject:
        """Return the launch as the subject of a check."""
        return self.copy.subject(adjoint=self.check_plan.options.check_backward_ad)


@dataclass(frozen=True)
class LaunchCheck:
    """The result of the check of one launch.

    Attributes:
        index: The index of the launch.
        kernel: Its kernel's key.
        pairs: The results.
        dot: The dot-product test; None if there was none.
        notes: Notes on the basis of the verdicts.
        left: The reasons why the launch, or a part of it, was not checked.
    """

    index: int
    kernel: str
    pairs: tuple[PairResult, ...]
    dot: DotProduct | None = None
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def check_launch(work: LaunchWork) -> LaunchCheck:
    """Check one launch, as a worker does."""
    return check_in_sight(work, work.subject(), Progress(False))


def check_in_sight(
    work: LaunchWork, subject: Subject, pace: Progress, compared: list[Comparison] | None = None
) -> LaunchCheck:
    """Check one launch and report its progress.

    Args:
        work: The launch and the plan.
        subject: The result of `work.subject()`.
        pace: The progress of the whole check.
        compared: Gets the compared matrices, for plots.
    """
    copy = work.copy
    pairs, dot = run_checks(subject, work.check_plan, pace, compared)
    notes = dict.fromkeys(note for pair in pairs for note in pair.notes)
    notes |= dict.fromkeys(filter(is_of_differences, subject.pairs.notes))
    left = tuple(_left(copy, subject))
    return LaunchCheck(copy.index, copy.name, tuple(pairs), dot, tuple(notes), left)


def _left(copy: LaunchCopy | OperationCopy, subject: Subject) -> list[str]:
    """Return the reasons why arrays or pairs of a launch were not checked."""
    program, pairs = subject.program, subject.pairs
    reasons = [
        note.removeprefix("not checked: ").replace(f"{program.subject} ", "it ")
        for note in pairs.notes
        if not is_of_differences(note)
    ]
    if copy.mask is not None:
        chosen = {(source.name, target.name) for source, target in pairs.chosen}
        all_pairs = ((source.name, target.name) for source in program.inputs for target in program.outputs)
        others = [f"{one} → {other}" for one, other in dict.fromkeys(all_pairs) if (one, other) not in chosen]
        reasons += [f"left out by input_output_masks: {', '.join(others)}"] if others else []
    if pairs.chosen:  # integers need no note: they have no derivatives
        return [reason for reason in reasons if not reason.endswith("which has no derivatives")]
    if reasons:
        return ["; ".join(reasons)]
    return _obstacles(copy) or ["it has no differentiable input and output"]


def _obstacles(copy: LaunchCopy | OperationCopy) -> list[str]:
    found = (obstacle(name, value) for name, value in copy.named_arguments() if is_array(value))
    reasons = [reason for reason in found if reason is not None]
    return ["; ".join(reasons)] if reasons else []


def not_reached(record: Operation, reason: str) -> LaunchCheck:
    """Return the check of a launch that there was no time for."""
    if isinstance(record, Record):
        named_in, named_out = named_ports(record.kernel, record.args, [])
    else:
        named_in, named_out = operation_ports(record)
    results = [
        PairResult(
            record.index, f"launch {record.index} ({record.name})", source.name, target.name,
            verdict="UNDECIDABLE", message=f"not checked: {reason}", entries=source.size * target.size,
        )
        for source in differentiable(named_in, [])
        for target in differentiable(named_out, [])
    ]  # fmt: skip
    return LaunchCheck(record.index, record.name, tuple(results))


def left_notes(checks: Sequence[LaunchCheck]) -> list[str]:
    """Return notes on unchecked parts: one for all launches of a kernel with the same reason."""
    groups: dict[tuple[bool, str, str], list[int]] = {}
    for check in checks:
        for reason in check.left:
            groups.setdefault((bool(check.pairs), check.kernel, reason), []).append(check.index)
    return [
        f"not checked{' in' if partly else ':'} {spelled(indices)} ({kernel}): {reason}"
        for (partly, kernel, reason), indices in groups.items()
    ]
