"""Rule `not-reset`: a recording adds to the loss of an earlier one, or starts from its values.

A notebook cell that runs again, or a loop without a reset, starts from the results of the previous run. The
gradient does not show it, because adding to a constant has the same slope. The loss does, and so does every
input that the launches themselves overwrite.

That can be intended: several tapes may add to one loss, and a simulation may continue. So the launches must
be the same as before, and either a notebook cell ran in between, or all values that they read are the same.
Remaining values count only if a run without them has another result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tapedebug._dataclass import dataclass
from tapedebug.contract import EarlierRecording, EarlierRecordings, RecordedTape
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.trace import ArrayInfo, Finding, Launch, Version

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

LARGEST = 1 << 22
"""Bytes of an array up to which its change by the launches is measured."""

Why = Literal["cell", "again", "updated"]


@dataclass(frozen=True, slots=True)
class Sum:
    """A loss that started from the result of an earlier recording.

    Attributes:
        info: The loss.
        held: Its value when the recording began.
        alone: Its final value if it starts from 0.
        total: Its final value.
    """

    info: ArrayInfo
    held: float
    alone: float
    total: float


class NotReset(TapeRule):
    """A recording adds to the loss of an earlier one, or starts from its values."""

    code = "not-reset"
    title = "A recording adds to the loss of an earlier one"
    severity = "warning"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate the run that finds the first values of arrays."""
        return Cost(1.0) if context.replay is not None else READS_TRACE

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each loss that was not reset, and one for inputs that the launches changed."""
        replay = context.replay
        if replay is None:
            return
        context.need(EarlierRecordings, "keeps no record of earlier recordings")
        for loss in replay.losses:
            left = _left(replay, loss)
            why = None if left is None else _why(context, replay, loss, left)
            found = None if why is None else _sum(context, replay, loss)
            if why is not None and found is not None:
                yield _not_reset(context, replay, found, why)
        carried = _inputs(context, replay)
        if carried is not None:
            yield carried


def _left(replay: Replay, array: int) -> EarlierRecording | None:
    """Return the recording of the same launches that wrote the initial values of an array, if any."""
    earlier = _earlier(replay)
    return None if earlier is None else earlier.left_by(replay.arrays[array], _content(replay, array))


def _earlier(replay: Replay) -> EarlierRecordings | None:
    tape: RecordedTape = replay.recorded.tape
    return tape.capability(EarlierRecordings)


def _content(replay: Replay, array: int) -> bytes | None:
    """Return the initial values of a buffer that a tape uses as one whole array; else None."""
    a = replay.arrays[array]
    if a.start or a.stop != a.region.nbytes or not a.is_contiguous:
        return None
    with replay.rewound(forward_only=True) as shadow:
        return np.asarray(shadow.values(a)).tobytes()


def _why(context: RuleContext, replay: Replay, loss: int, left: EarlierRecording) -> Why | None:
    """Return the reason why two recordings should start from equal values; None if they need not."""
    earlier = _earlier(replay)
    assert earlier is not None
    if earlier.is_same_cell(left):
        return "cell"
    if not earlier.has_same_arguments(left):
        return None
    why: Why = "again"
    for version in _found(context):
        if version.array == loss:
            continue
        if not earlier.is_unchanged(replay.arrays[version.array], left):
            if not _updated(context, replay, version.array, left):
                return None
            why = "updated"
    return why


def _found(context: RuleContext) -> list[Version]:
    """Return the initial versions that the launches read."""
    return [version for version in context.trace.versions if version.version == 0 and version.reads]


def _updated(context: RuleContext, replay: Replay, array: int, left: EarlierRecording) -> bool:
    """Return True if an optimiser's step, and not new data, came between the recordings."""
    if array not in replay.leaves:
        return False
    history = gradient_history.history_of(context.trace, array)
    return bool(gradient_history.updates(history.between(left.ended, context.trace.tape.began)))


def _sum(context: RuleContext, replay: Replay, loss: int) -> Sum | None:
    """Return the loss with and without its initial value; None if they are equal."""
    a = replay.arrays[loss]
    if a.size != 1:
        return None
    shadow = replay._shadow().forward(stop=0)
    initial = _number(shadow.values(a))
    total = _number(shadow.forward().values(a))
    again = replay._shadow()
    again.set(a, np.zeros_like(np.asarray(shadow.values(a))))
    alone = _number(again.forward().values(a))
    if not all(map(math.isfinite, (initial, alone, total))) or not initial or alone == total:
        return None
    return Sum(context.trace.arrays[loss], initial, alone, total)


def _number(values: npt.ArrayLike) -> float:
    return float(np.asarray(values, np.float64).reshape(-1)[0])


def _not_reset(context: RuleContext, replay: Replay, found: Sum, why: Why) -> Finding:
    label, number = found.info.label, words.number
    launch = _writer(context, found.info)
    param = words.written_param(launch, found.info, context.trace)
    location = words.access_location(context.trace, launch, param, ("atomic", "write"))
    seen = why == "cell" or _is_read(replay, found.info.id)
    message = (
        f"{label} held {number(found.held)} when the recording began: an earlier recording of the same "
        f"launches had left it there. {_first(words.launch_words(launch))} adds to it at "
        f"{words.place(location)}: {label} ends at {number(found.total)}, and this recording alone gives "
        f"{number(found.alone)}."
    )
    if why == "updated":
        message += " Inputs were updated in between, so it is a sum over different values."
    if not seen:
        message += f" {label} is not read, so nothing depends on that."
    where = "the cell, before its launches" if why == "cell" else "the program, before each recording"
    return Finding(
        rule=NotReset.code,
        severity="warning" if seen else "info",
        message=message,
        launches=[launch.index],
        arrays=[label],
        location=location,
        call_site=launch.call_site,
        evidence={
            "kind": "loss",
            "because": why,
            "held": found.held,
            "alone": found.alone,
            "total": found.total,
        },
        fix=f"put {label}.zero_() into {where}",
    )


def _is_read(replay: Replay, loss: int) -> bool:
    """Return True if the program has read the final value of a loss."""
    earlier = _earlier(replay)
    return earlier is not None and earlier.was_read(replay.arrays[loss])


def _writer(context: RuleContext, info: ArrayInfo) -> Launch:
    """Return the first launch that overwrites the initial values of an array."""
    first = context.trace.versions_of(info.id)[0].overwritten_by
    return context.trace.launches[first or 0]


def _inputs(context: RuleContext, replay: Replay) -> Finding | None:
    """Return the finding about all inputs that the launches of a cell overwrite before its next run."""
    earlier = _earlier(replay)
    carried: dict[int, float] = {}
    for version in _found(context):
        info = context.trace.arrays[version.array]
        if version.array in replay.losses or version.overwritten_by is None:
            continue
        left = _left(replay, version.array)
        again = left is not None and earlier is not None and earlier.is_same_cell(left)
        if again and info.stop - info.start <= LARGEST:
            carried[version.array] = _change(replay, version.array)
    changed = [array for array, change in carried.items() if change]
    if not changed:
        return None
    first = max(changed, key=lambda array: carried[array])
    info = context.trace.arrays[first]
    labels = [info.label, *[context.trace.arrays[array].label for array in changed if array != first]]
    launch = _writer(context, info)
    location = words.access_location(
        context.trace, launch, words.written_param(launch, info, context.trace), ("write", "atomic")
    )
    return Finding(
        rule=NotReset.code,
        severity="info",
        message=_carried(context, info, labels, launch, words.place(location), carried[first]),
        launches=[launch.index],
        arrays=labels,
        location=location,
        call_site=launch.call_site,
        evidence={
            "kind": "inputs",
            "because": "cell",
            "changes": {context.trace.arrays[array].label: carried[array] for array in changed},
        },
        fix=(
            f"nothing has to change if each run of the cell continues from the one before; otherwise set "
            f"{words.listed(labels)} in the cell, before its launches"
        ),
    )


def _carried(
    context: RuleContext, info: ArrayInfo, labels: Sequence[str], launch: Launch, place: str, change: float
) -> str:
    others = f" Likewise {words.listed(labels[1:])}." if len(labels) > 1 else ""
    return (
        f"{info.label} held what an earlier recording of the same launches had left there when the recording "
        f"began. {_first(words.launch_words(launch))} writes it at {place}, so each run of the cell starts "
        f"from other values: this one changes {info.label} by up to {words.number(change)}.{others}"
    )


def _change(replay: Replay, array: int) -> float:
    """Return the change of an array by the launches."""
    a = replay.arrays[array]
    shadow = replay._shadow().forward(stop=0)
    before = np.asarray(shadow.values(a), np.float64)
    after = np.asarray(shadow.forward().values(a), np.float64)
    with np.errstate(all="ignore"):
        return float(np.abs(after - before).max(initial=0.0))


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
