"""Rule `stagnation`: additions that rounding loses, so that the program does not follow its gradient.

`x + dt * v` equals `x` if `dt * v` is less than half the distance between `x` and the next number of its
type, and a sum of ones in float16 stops at 2048. Gradients are those of the program without rounding. Each
suspect launch is run in float64 from its own values, and the tape once more with the lost parts added, which
shows their effect on the loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug._even_sample import evenly_spread
from tapedebug._float_types import is_float
from tapedebug.autograd.subjects.long_vectors import blocks
from tapedebug.autograd.thresholds import (
    ADDITION_LOST,
    ADDITION_LOST_UNITS,
    ADDITION_SMALL,
    LOSS_MOVED,
    LOSS_ROUNDING_FLOAT32,
)
from tapedebug.contract import Operation
from tapedebug.contract import Replay as TapeReplay
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import Cost
from tapedebug.trace import Finding

SAMPLES = 3
"""Launches of a kernel that are run in float64 to test it: the first, the last, and one in between."""
DISPLACED = 1e-2
"""Relative displacement of an input, to compare the program with its gradient."""


@dataclass(frozen=True, slots=True)
class Sum:
    """The launches of one kernel that may add to an array.

    Attributes:
        param: The parameter through which the array is written.
        before: The parameter that the sum is read through: the same, or another array of the same shape.
        launches: All launches of the kernel with these parameters.
    """

    param: int
    before: int
    launches: list[int]


@dataclass(slots=True)
class Total:
    """The amounts that the launches of a `Sum` added to each element, and should have added."""

    dtype: np.dtype[Any]
    added: Values
    exact: Values
    unit: Values

    @property
    def lost(self) -> Values:
        """A mask of the elements that changed by less than they should have."""
        missing = np.abs(self.exact - self.added)
        short = np.abs(self.added) <= (1 - ADDITION_LOST) * np.abs(self.exact)
        found: Values = short & (missing > ADDITION_LOST_UNITS * self.unit)
        return found

    @property
    def systematic(self) -> bool:
        """True if elements lose additions systematically; unbiased rounding moves as many of them too far."""
        further = np.abs(self.added) >= (1 + ADDITION_LOST) * np.abs(self.exact)
        too_far = further & (np.abs(self.exact - self.added) > ADDITION_LOST_UNITS * self.unit)
        return bool(self.lost.any()) and int(too_far.sum()) < ADDITION_LOST * int(self.lost.sum())


class Stagnation(TapeRule):
    """Additions that rounding loses, so that the program does not follow its gradient."""

    code = "stagnation"
    title = "Additions are lost to rounding, and the program does not follow its gradient"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate one run in float32, and samples in float64."""
        return Cost(2.0, 0.5)

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each array whose additions are lost, if that changes the loss."""
        replay = context.replay
        sums = [] if replay is None else list(_sums(context, replay))
        if replay is None or not sums:
            return
        try:
            with np.errstate(all="ignore"):  # non-finite numbers belong to another rule
                suspects = _suspects(context, replay, sums)
            for each in suspects:
                finding = None
                with np.errstate(all="ignore"):
                    total = _total(replay, each)
                    if total is not None and total.systematic:
                        finding = _finding(context, replay, each, total)
                if finding is not None:
                    yield finding
        except TapeError as error:
            context.skipped(f"{self.code} was not looked for: {error.message}")


# ------------------------------------------------------------------------------------------ which launches


def _sums(context: RuleContext, replay: Replay) -> Iterator[Sum]:
    """Yield the kernels that write an array of floats which they read, or add to with atomics."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for record in replay.records:
        kernel = context.trace.launches[record.index].kernel
        for param in record.written if kernel is not None else ():
            for before in _before(context, record, param):
                groups.setdefault((kernel or 0, param, before), []).append(record.index)
    for (_, param, before), launches in groups.items():
        yield Sum(param, before, launches)


def _before(context: RuleContext, record: Operation, param: int) -> list[int]:
    """Return the parameters that hold the values to which a launch may add."""
    written = record.args[param]
    if not is_float(np.dtype(written.scalar_dtype)) or np.dtype(written.scalar_dtype).itemsize == 8:
        return []
    if param in record.reads or _is_atomic(context, record.index, param):
        return [param]
    return [other for other in record.reads if _kind(context, record, other) == _kind(context, record, param)]


def _kind(context: RuleContext, record: Operation, param: int) -> tuple[object, ...]:
    """Return the type and the shape of an argument."""
    array = context.trace.launches[record.index].args[param].array
    if array is None:
        return ()
    info = context.trace.arrays[array]
    return info.dtype, tuple(info.shape)


def _is_atomic(context: RuleContext, launch: int, param: int) -> bool:
    return "atomic" in words.access_kinds(context.trace, context.trace.launches[launch], param)


def _suspects(context: RuleContext, replay: Replay, sums: Sequence[Sum]) -> list[Sum]:
    """Return the kernels that lose additions in a few of their launches."""
    wanted: dict[int, list[Sum]] = {}
    for each in sums:
        for place in evenly_spread(len(each.launches), SAMPLES):
            wanted.setdefault(each.launches[place], []).append(each)
    found: list[Sum] = []
    with _forward_only(replay) as (single, double):
        for index in sorted(wanted):
            unknown = [each for each in wanted[index] if each not in found]
            if not unknown:
                continue
            single.forward(start=single.position, stop=index)
            found += [
                each
                for each, change in zip(
                    unknown, _additions(replay.records[index], single, double, unknown), strict=True
                )
                if _loses(change, replay.records[index].dim if _is_atomic(context, index, each.param) else ())
            ]
    return found


def _loses(change: Change, dim: Sequence[int]) -> bool:
    """Return True if additions to an element are lost that are small beside it.

    Args:
        change: A launch's additions.
        dim: The launch's threads where each may have added to an element.
    """
    threads = math.prod(dim)
    for block in change.blocks():
        before, added, exact = block.before, block.added, block.exact
        short = np.abs(added) <= (1 - ADDITION_LOST) * np.abs(exact)
        short &= exact != 0
        if short.any():
            unit = _unit(before[short], added[short])
            if bool((np.abs(exact[short]) / threads < ADDITION_SMALL * unit).any()):
                return True
    return False


@contextmanager
def _forward_only(replay: Replay) -> Iterator[tuple[TapeReplay, TapeReplay]]:
    """Context with a replay in float32 and one in float64, both before the first launch."""
    with replay.rewound(forward_only=True) as single:
        double = replay.twin()
        double.forward_only = True
        yield single, double.forward(stop=0)


@dataclass(slots=True)
class Change:
    """The values of an array before a launch, after it, and after the same launch in float64."""

    before: Values
    after: Values
    wide: Values

    @property
    def added(self) -> Values:
        """The amounts added, in float64."""
        return self.after.astype(np.float64) - self.before

    @property
    def exact(self) -> Values:
        """The amounts that float64 adds."""
        found: Values = self.wide - self.before
        return found

    def blocks(self) -> Iterator[Change]:
        """Yield the elements in blocks, whose amounts stay in the processor's caches."""
        before, after, wide = self.before.ravel(), self.after.ravel(), self.wide.ravel()
        for at in blocks(before.size):
            yield Change(before[at], after[at], wide[at])


def _additions(
    record: Operation, single: TapeReplay, double: TapeReplay, sums: Sequence[Sum]
) -> list[Change]:
    """Run a launch, then again in float64 from the same values, and return what it does to each sum."""
    # All that the launch accesses is set: what others compute in float64 is of no use.
    skipped = range(double.position, record.index)
    double.forward(start=double.position, stop=record.index, skip=skipped)
    before = {p: single.values(record.args[p]) for p in record.touched}
    for p, values in before.items():
        double.set(record.args[p], values)
    single.forward(start=record.index, stop=record.index + 1)
    double.forward(start=record.index, stop=record.index + 1)
    after: dict[int, tuple[Values, Values]] = {}
    for each in sums:
        if each.param not in after:
            a = record.args[each.param]
            after[each.param] = single.values(a), double.values(a)
    return [Change(before[each.before], *after[each.param]) for each in sums]


def _unit(before: Values, added: Values) -> Values:
    """Return the distance of each element to the next number of its type, before or after the launch."""
    after = (before.astype(np.float64) + added).astype(before.dtype)
    found: Values = np.spacing(np.maximum(np.abs(before), np.abs(after))).astype(np.float64)
    return found


# ------------------------------------------------------------------------------------------------ measured


def _total(replay: Replay, each: Sum) -> Total | None:
    """Return the total added by all launches of a sum; None if their arrays have several shapes."""
    total: Total | None = None
    with _forward_only(replay) as (single, double):
        for index in each.launches:
            single.forward(start=single.position, stop=index)
            [change] = _additions(replay.records[index], single, double, [each])
            before, added, exact = change.before, change.added, change.exact
            unit = _unit(before, added)
            if total is None:
                total = Total(before.dtype, added, exact, unit)
            elif total.added.shape != added.shape:
                return None
            else:
                total.added, total.exact = total.added + added, total.exact + exact
                total.unit = np.maximum(total.unit, unit)
    return total


def _loss(replay: Replay, shadow: TapeReplay) -> float:
    return replay._weighted(shadow)[0]


def _loss_kept(replay: Replay, each: Sum) -> float:
    """Return the loss with the lost parts of a sum accumulated separately, and added once large enough."""
    launches, kept = set(each.launches), dict[int, Values]()
    numbers = {a: number for number, a in enumerate(replay.arrays)}
    with _forward_only(replay) as (single, double):
        for record in replay.records:
            if record.index not in launches:
                single.forward(start=record.index, stop=record.index + 1)
                for p in record.written:
                    kept.pop(numbers[record.args[p]], None)
                continue
            [change] = _additions(record, single, double, [each])
            source, target = (numbers[record.args[p]] for p in (each.before, each.param))
            right = change.before.astype(np.float64) + change.exact + kept.get(source, 0.0)
            rounded = right.astype(change.before.dtype)
            single.set(record.args[each.param], rounded)
            kept[target] = right - rounded
        return _loss(replay, single)


def _changes(replay: Replay, leaf: int) -> tuple[float, float]:
    """Return the change of the loss by displacing an input: in float64, and in the program."""
    found = []
    for shadow in (replay.twin(), replay._shadow()):
        plain = _loss(replay, shadow.forward())
        values = shadow.forward(stop=0).values(replay.arrays[leaf])
        shadow.set(replay.arrays[leaf], (values * (1 + DISPLACED)).astype(values.dtype))
        found.append(_loss(replay, shadow.forward(start=0)) - plain)
    return found[0], found[1]


# ---------------------------------------------------------------------------------------------------- words


def _finding(context: RuleContext, replay: Replay, each: Sum, total: Total) -> Finding | None:
    trace, launch = context.trace, context.trace.launches[each.launches[0]]
    context.progress(f"running the tape with the additions that {launch.name} loses")
    loss, kept = _loss(replay, replay._shadow().forward()), _loss_kept(replay, each)
    size = max(abs(loss), abs(kept))
    if not abs(kept - loss) > LOSS_MOVED * size:
        return None
    follows = {
        leaf: changes
        for leaf in replay.leaves
        if abs((changes := _changes(replay, leaf))[0]) > LOSS_ROUNDING_FLOAT32 * size
        and abs(changes[0] - changes[1]) > ADDITION_LOST * abs(changes[0])
    }
    if not follows:
        return None
    leaf = max(follows, key=lambda number: abs(follows[number][0] - follows[number][1]))
    right, measured = follows[leaf]
    label, name = words.label_of(trace, launch, each.param), trace.arrays[leaf].label
    at = int(np.argmax(np.where(total.lost, np.abs(total.exact - total.added), -1.0)))
    exact, added, unit = (float(values.flat[at]) for values in (total.exact, total.added, total.unit))
    count, affected = len(each.launches), int(total.lost.sum())
    location = words.access_location(trace, launch, each.param, ("atomic", "write"))
    rounds = f"In {count} launches" if count > 1 else "In this launch"
    wide = "wp.float64" if total.dtype.itemsize == 4 else "float"
    return RuleFinding(
        rule=Stagnation.code,
        severity="error" if replay.wrong & follows.keys() else "warning",
        message=(
            f"{words.launch_words(launch)} adds to {label} at {words.place(location)} amounts that rounding "
            f"loses: numbers of {total.dtype} are {words.number(unit)} apart there. {rounds} an element "
            f"should change by {words.number(exact)}, and changes by {words.number(added)}; {affected} of "
            f"{total.lost.size} are short. With the lost parts kept, the loss is {kept:.6g} instead of "
            f"{loss:.6g}. The gradient ignores rounding: displacing {name} by {DISPLACED:.0%} changes "
            f"the loss by {words.number(right)} in float64, and by {words.number(measured)} in the program."
        ),
        launches=each.launches,
        arrays=list(dict.fromkeys([label, name])),
        location=location,
        call_site=launch.call_site,
        inputs=[trace.arrays[number].label for number in follows],
        evidence={
            "dtype": str(total.dtype),
            "spacing": unit,
            "added": added,
            "exact": exact,
            "short": affected,
            "loss": loss,
            "loss_if_kept": kept,
            "displacement": DISPLACED,
            "loss_moves": measured,
            "loss_moves_in_float64": right,
        },
        fix=f"give {label} the dtype {wide}, or add up the changes in an array of its own that starts at 0",
    )
