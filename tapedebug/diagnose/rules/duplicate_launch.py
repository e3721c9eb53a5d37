"""Rule `duplicate-launch`: the same contribution is added twice, because a launch is on the tape twice.

Two launches of one kernel with the same arguments and values add the same contribution to their output.
Causes are duplicated lines, a forward function that is called twice while the tape records, and
`record_launch` after a `launch` that recorded itself. A time loop that adds to its state does so on purpose:
there the state is read in between. Launches that write the same values again are harmless and only cost time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from tapedebug.autograd.thresholds import CONTRIBUTIONS_EQUAL, GRADIENT_CHANGED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values, relative_errors
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import FOLLOWS_DATA, Cost
from tapedebug.diagnose.trace_analysis.dependencies import is_float
from tapedebug.diagnose.trace_analysis.value_numbering import Repeats, ValueNumbers
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

MEASURED = 6
"""Largest number of duplicates that are left out one after the other; each costs a few replays."""


class DuplicateLaunch(TapeRule):
    """The same contribution is added twice, because a launch is on the tape twice."""

    code = "duplicate-launch"
    title = "A launch is recorded twice and adds its contribution twice"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a search through the data flow."""
        return FOLLOWS_DATA

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each contribution that is on the tape more than once."""
        numbers = ValueNumbers(context.trace)
        if context.experiment.blocked or not context.experiment.leaves:
            return
        sums = [item for item in numbers.sums if is_float(context.trace.arrays[item.array or 0])]
        studies = [_Added(context, item, numbers) for item in sums]
        studies = _together(studies)
        if len(studies) > MEASURED:
            context.skipped(f"{self.code}: of {len(studies)} kinds that repeat {MEASURED} were measured")
        for study in studies[:MEASURED]:
            finding = study.finding()
            if finding is not None:
                yield finding
        yield from _same_again(context, numbers)


def _together(studies: list[_Added]) -> list[_Added]:
    """Merge the contributions of a forward function called twice, and those of each line of a time loop."""
    kinds: dict[Any, _Added] = {}
    for study in studies:
        key = "all again" if study.all_again else (study.first.kernel, tuple(study.sites()))
        if key in kinds:
            kinds[key].take(study)
        else:
            kinds[key] = study
    return list(kinds.values())


class _Added:
    """A contribution that is added more than once, and its measured effect."""

    def __init__(self, context: RuleContext, item: Repeats, numbers: ValueNumbers) -> None:
        self.context, self.trace = context, context.trace
        self.item, self.numbers = item, numbers
        self.first, self.extra = item.launches[0], item.launches[1:]
        assert item.array is not None
        self.array = item.array
        self.label = self.trace.arrays[item.array].label
        self.indices = [launch.index for launch in self.extra]
        self.launches = list(item.launches)
        self.labels = [self.label]
        self.all_again = len(set(self.sites())) == 1 and self._all_again()
        self.rounds = 1

    def take(self, other: _Added) -> None:
        """Merge another contribution into this one."""
        self.rounds += 1
        self.indices += other.indices
        self.launches += other.launches
        self.labels += [label for label in other.labels if label not in self.labels]

    def finding(self) -> Finding | None:
        """Return the finding, if the experiments confirm it."""
        if not (self.all_again or self._same_arrays()):
            return None  # equal values in different arrays, computed separately, may both be intended
        if self._is_share():
            return None
        shares = self._contributions()
        if shares is None:
            return None
        with_all, with_one = self._gradients(()), self._gradients(self.indices)
        errors = relative_errors(with_one, with_all)
        if max(errors.values(), default=0.0) <= GRADIENT_CHANGED:
            return None
        severity, why, fix = self._judged()
        effect = self._effect(errors, with_one, with_all)
        return Finding(
            rule=DuplicateLaunch.code,
            severity=severity,
            message=f"{self._what()}: {why}. {effect}.{self._more()}",
            launches=sorted(launch.index for launch in self.launches),
            arrays=self.labels,
            location=words.access_location(self.trace, self.extra[0], self.item.param, ("atomic", "write")),
            call_site=self.extra[0].call_site,
            evidence={
                "kind": "added again",
                "count": len(self.item.launches),
                "occurrences": self.rounds,
                "call_sites": self.sites(),
                "recorded_without_running": self._not_run(),
                "contributions": shares,
                "relative_error": self._labelled(errors),
                "factor": self._labelled(_factors(with_one, with_all)),
            },
            fix=fix,
        )

    # ------------------------------------------------------------ experiments

    def _gradients(self, without: Collection[int]) -> dict[int, Values]:
        found = self.context.experiment.without(without)
        return {leaf: found[leaf] for leaf in found if leaf not in self.context.experiment.losses}

    def _contributions(self) -> list[float] | None:
        """Return the sizes of the first and second contribution; None if the contributions differ."""
        second = self.extra[0].index
        run = self.context.experiment.values_without
        both = run((), [self.array], second + 1)[self.array].astype(np.float64)
        one = run([second], [self.array], second + 1)[self.array].astype(np.float64)
        none = run([self.first.index, second], [self.array], second + 1)[self.array].astype(np.float64)
        size = float(np.linalg.norm(both - one))
        rounding = CONTRIBUTIONS_EQUAL * float(np.max(np.abs(both), initial=0.0))
        same = (
            float(np.max(np.abs((both - one) - (one - none)), initial=0.0))
            <= CONTRIBUTIONS_EQUAL * size + rounding
        )
        return [float(np.linalg.norm(one - none)), size] if same and size > 0 else None

    def _not_run(self) -> list[int]:
        """Return the launches that `record_launch` recorded although they had recorded themselves."""
        silent = [launch.index for launch in self.item.launches if launch.seconds == 0.0]
        if not silent or len(silent) == len(self.item.launches):
            return []
        experiment = self.context.experiment
        run, current = experiment.values_without, experiment.current_values(self.array)
        end = len(self.trace.launches)
        replayed = run((), [self.array], end)[self.array]
        ran = run(silent, [self.array], end)[self.array]
        proven = np.allclose(current, ran, rtol=CONTRIBUTIONS_EQUAL) and not np.allclose(
            current, replayed, rtol=CONTRIBUTIONS_EQUAL
        )
        return silent if proven else []

    # ------------------------------------------------------------ words

    def _judged(self) -> tuple[Severity, str, str]:
        """Return the severity, the reason and the fix."""
        silent = self._not_run()
        if silent:
            launch = self.trace.launches[silent[0]]
            place = words.place(launch.call_site)
            return (
                "error",
                f"record_launch at {place} recorded a launch that did not run (what {self.label} holds is "
                f"what one of them gives): launch records itself while a tape is active",
                f"remove the record_launch at {place}, or launch with record_tape=False",
            )
        places = list(dict.fromkeys(self.sites()))
        again = words.place(self.extra[0].call_site)
        remove = f"remove the second launch at {again}, or give it an output of its own"
        if len(places) > 1 and self._always():
            return "warning", f"it is launched at {words.listed(places)}", remove
        if self.all_again:
            return (
                "warning",
                "all launches between them repeat what was computed already, so a forward function was "
                "called twice while the tape recorded",
                "call it once inside the `with` block",
            )
        return "info", f"a loop at {words.listed(places)} may mean that; if not, launch it once", ""

    def _same_arrays(self) -> bool:
        given = [[arg.array for arg in launch.args] for launch in self.item.launches]
        return all(arrays == given[0] for arrays in given)

    def _is_share(self) -> bool:
        """Return True if each launch divides by the number of launches: a mean over equal samples.

        A factor of 2 or 1/2 is ambiguous: for two launches, one of them must also read the sum.
        """
        count = len(self.item.launches)
        given = [arg.value for arg in self.first.args if arg.array is None]
        numbers = [value for value in given if isinstance(value, int | float) and not isinstance(value, bool)]
        if not any(math.isclose(value, one, rel_tol=1e-6) for value in numbers for one in (count, 1 / count)):
            return False
        return count > 2 or self._sums_to_an_input()

    def _sums_to_an_input(self) -> bool:
        """Return True if the sum of their contributions is an array that they read."""
        end = self.extra[-1].index + 1
        last = self.extra[-1]
        read = [arg.array for arg in last.args if arg.array not in (None, self.array) and arg.reads]
        run, every = self.context.experiment.values_without, [launch.index for launch in self.item.launches]
        after = run((), [self.array, *read], end)
        added = after[self.array].astype(np.float64) - run(every, [self.array], end)[self.array]
        alike = [after[array] for array in read if after[array].shape == added.shape]
        return any(np.allclose(values, added, rtol=CONTRIBUTIONS_EQUAL) for values in alike)

    def _always(self) -> bool:
        """Return True if each launch of these lines has a duplicate, unlike half steps at a loop's ends."""
        places = set(self.sites())
        doubles = {launch.index for item in self.numbers.sums for launch in item.launches}
        return all(
            launch.index in doubles
            for launch in self.trace.launches
            if launch.kernel == self.first.kernel and words.place(launch.call_site) in places
        )

    def _what(self) -> str:
        count = len(self.item.launches)
        repeated = self.launches if self.all_again else self.item.launches
        firsts = [launch for launch in repeated if launch.index not in self.indices]
        again = [launch for launch in repeated if launch.index in self.indices]
        labels = self.labels if self.all_again else [self.label]
        return (
            f"{words.listed(map(words.launch_words, again), 3)} add{'s' if len(again) == 1 else ''} to "
            f"{words.listed(labels)} what {words.listed(map(words.launch_words, firsts), 3)} "
            f"{'has' if len(firsts) == 1 else 'have'} added, which counts it "
            f"{'twice' if count == 2 else f'{count} times'} (same kernel, same arguments, same values)"
        )

    def _effect(
        self, errors: Mapping[int, float], with_one: Mapping[int, Values], with_all: Mapping[int, Values]
    ) -> str:
        label = {leaf: self.trace.arrays[leaf].label for leaf in errors}
        order = sorted(
            (leaf for leaf in errors if errors[leaf] > GRADIENT_CHANGED), key=lambda leaf: -errors[leaf]
        )[:3]
        factors = _factors(with_one, with_all)
        parts = [
            f"that of {label[leaf]} is {factors[leaf]:.4g} times"
            if leaf in factors
            else f"that of {label[leaf]} differs by {words.percent(errors[leaf])} from"
            for leaf in order
        ]
        return f"Measured gradient: {words.listed(parts)} what it is without {self._them()}"

    def _more(self) -> str:
        return f" {self.rounds - 1} more like it (×{self.rounds})." if self._loops() else ""

    def _loops(self) -> bool:
        return self.rounds > 1 and not self.all_again

    def _them(self) -> str:
        return f"launch {self.indices[0]}" if len(self.indices) == 1 else "the repeats"

    def _all_again(self) -> bool:
        """Return True if all launches between the two are repeats, so that no loop made progress."""
        again, last = self.numbers.again, self.extra[0].index
        first = last
        while first - 1 in again:
            first -= 1
        while last + 1 in again:
            last += 1
        period = self.extra[0].index - self.first.index
        return period > 1 and last - first + 1 >= period

    def sites(self) -> list[str]:
        return [words.place(launch.call_site) for launch in self.item.launches]

    def _labelled(self, numbers: Mapping[int, float]) -> dict[str, float]:
        return {self.trace.arrays[leaf].label: value for leaf, value in numbers.items()}


def _factors(one: Mapping[int, Values], all_: Mapping[int, Values]) -> dict[int, float]:
    """Return the factors between gradients that are multiples of each other."""
    found = {}
    for leaf, values in one.items():
        base, more = values.astype(np.float64).ravel(), all_[leaf].astype(np.float64).ravel()
        size = float(base @ base)
        if not (np.isfinite(base).all() and np.isfinite(more).all() and size > 0):
            continue
        factor = float(more @ base) / size
        if np.linalg.norm(more - factor * base) <= CONTRIBUTIONS_EQUAL * np.linalg.norm(more):
            found[leaf] = factor
    return found


def _same_again(context: RuleContext, numbers: ValueNumbers) -> Iterator[Finding]:
    """Yield one note for each kind of launch that writes the same values again."""
    kinds: dict[Any, list[Launch]] = {}
    for item in numbers.same:
        first = item.launches[0]
        kinds.setdefault((first.kernel, first.name), []).extend(item.launches[1:])
    for launches in kinds.values():
        yield _wasted(context, launches)


def _wasted(context: RuleContext, launches: list[Launch]) -> Finding:
    first = launches[0]
    written = dict.fromkeys(
        context.trace.arrays[arg.array].label for arg in first.args if arg.writes and arg.array is not None
    )
    seconds = sum((launch.seconds or 0.0) + (launch.backward_seconds or 0.0) for launch in launches)
    count = f" {len(launches) - 1} more like it (×{len(launches)})." if len(launches) > 1 else ""
    param = next(number for number, arg in enumerate(first.args) if arg.writes)
    return Finding(
        rule=DuplicateLaunch.code,
        severity="info",
        message=(
            f"{words.launch_words(first)} writes to {words.listed(written)} what is there already (same "
            "kernel, same arguments, same values). The gradient is the same; the launch only costs time."
            f"{count}"
        ),
        launches=[launch.index for launch in launches],
        arrays=list(written),
        location=words.access_location(context.trace, first, param, ("write", "atomic")),
        call_site=first.call_site,
        evidence={"kind": "same again", "count": len(launches), "seconds": seconds},
    )
