"""Rule `unconverged`: a solve on the tape that stopped before it converged.

Gradient and finite differences of the program as it ran agree, so that no check finds it. The loop contracts
towards a fixed point, and its last round still changes the values. More rounds run in private memory, and
their effect on the loss and the gradient is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tapedebug.autograd.thresholds import UNCONVERGED_FIXED, UNCONVERGED_REPORTED
from tapedebug.contract import Resequencing
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.extended_loop import ExtendedRun, can_go_on, extended
from tapedebug.diagnose.experiments.fixed_point import Convergence, measure, reasons, same_every_round
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import Cost
from tapedebug.diagnose.trace_analysis.loops import Loop, alike, in_larger_steps, loops
from tapedebug.trace import Finding, Launch, Location

COLOURS = 4
"""Largest number of launches of one kernel that differ in a number and together make one round."""
TRIED = 3
"""Largest number of loops that are examined."""


class Unconverged(TapeRule):
    """A solve on the tape that stopped before it converged."""

    code = "unconverged"
    title = "A solve on the tape was stopped before it converged"
    severity = "warning"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a run through each loop."""
        return Cost(3.0, 1.0) if loops(context.trace) else Cost()

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each solve that more rounds would change."""
        replay = context.replay
        if replay is None:
            return
        same = (_same(context, rounds) for rounds in loops(context.trace))
        candidates = alike(context.trace, [rounds for rounds in same if rounds is not None])
        for rounds in candidates[:TRIED]:
            if not can_go_on(replay, rounds):
                continue
            motion = measure(replay, rounds)
            if motion is None:
                continue
            finding = _tried(context, rounds, motion)
            if finding is not None:
                yield finding
        if len(candidates) > TRIED:
            context.skipped(
                f"{self.code}: {len(candidates) - TRIED} of {len(candidates)} loops were not looked into"
            )


def _same(context: RuleContext, rounds: Loop) -> Loop | None:
    """Return a loop whose rounds all get the same numbers; two colours of Gauss-Seidel are one round."""
    for times in range(1, COLOURS + 1):
        larger = rounds if times == 1 else in_larger_steps(context.trace, rounds, times)
        if larger is not None and same_every_round(context.trace, larger):
            return larger
    return None


def _tried(context: RuleContext, rounds: Loop, motion: Convergence) -> Finding | None:
    """Run the loop for more rounds, and return a finding if that changes the results."""
    replay = context.replay
    assert replay is not None
    solve = reasons(context, rounds, motion)
    if not solve[0]:
        return None  # a simulation may continue, and a descent may end anywhere
    again = context.need(Resequencing, "does not run its operations in another order")
    results = [extended(replay, again, rounds, times * rounds.count) for times in (0, 1, 3)]
    plain, *more = [item for item in results if item is not None]
    if not more or results[0] is None:
        return None
    changes = {leaf: _change(plain.gradients[leaf], more[-1].gradients[leaf]) for leaf in replay.leaves}
    moved = abs(more[-1].loss - plain.loss) / max(abs(plain.loss), abs(more[-1].loss), 1e-300)
    if max([moved, *changes.values()]) <= UNCONVERGED_REPORTED:
        return None
    return _finding(context, rounds, motion, solve, [plain, *more])


def _finding(
    context: RuleContext,
    rounds: Loop,
    motion: Convergence,
    solve: tuple[list[str], bool],
    results: list[ExtendedRun],
) -> Finding:
    why, sure = solve
    trace, item = context.trace, rounds.carried[motion.place[0]]
    launch = trace.launches[rounds.launch(rounds.count - 1, item.writer)]
    array = launch.args[item.written].array
    label = launch.args[item.written].name if array is None else trace.arrays[array].label
    changes = {
        trace.arrays[leaf].label: [
            _change(results[0].gradients[leaf], more.gradients[leaf]) for more in results[1:]
        ]
        for leaf in results[0].gradients
    }
    # The gradient of a start that the solve forgets changes most and matters least.
    begun = [(trace.launches[rounds.first + each.reader], each.read) for each in rounds.carried]
    starts = {first.args[param].array for first, param in begun}
    asked = [trace.arrays[leaf].label for leaf in results[0].gradients if leaf not in starts] or list(changes)
    worst = max(asked, key=lambda name: changes[name][-1])
    wanted = rounds.count + _rounds_left(motion)
    message = (
        f"{words.launch_words(launch)} ends a solve of {words.plural(rounds.count, 'round')} that has not "
        f"converged ({' and '.join(why)}): its last round still moves {label} by "
        f"{words.percent(motion.changes[-1])}, {motion.rate:.3g} of the round before, so that about "
        f"{words.percent(motion.distance)} is left to go. {_effects(results, worst, changes[worst])} The "
        "gradient is "
        f"that of {words.plural(rounds.count, 'round')}, not of the solution."
    )
    return Finding(
        rule=Unconverged.code,
        severity="warning" if sure else "info",
        message=message,
        launches=[launch.index, rounds.first],
        arrays=[label],
        location=_line(context, launch, array, item.written, motion.place[1])
        or words.access_location(trace, launch, item.written, ("write", "atomic")),
        call_site=launch.call_site,
        evidence={
            "rounds": rounds.count,
            "launches_per_round": rounds.length,
            "occurrences": len(rounds.occurrences),
            "why": why,
            "rate": motion.rate,
            "last_change": motion.changes[-1],
            "distance": motion.distance,
            "changes": list(motion.changes[-50:]),
            "tried_rounds": [result.rounds for result in results],
            "losses": [result.loss for result in results],
            "gradient_changes": changes,
            "rounds_wanted": wanted,
        },
        fix=f"let it run until a round moves {label} by less than {100 * UNCONVERGED_FIXED:g} %, "
        f"at least {wanted} rounds",
    )


def _line(
    context: RuleContext, launch: Launch, array: int | None, param: int, scalar: int
) -> Location | None:
    """Return the line that writes the scalar that still changes most, if a kernel has several writes."""
    if array is None or not words.writes_in_many_places(context.trace, launch, param):
        return None
    shape = context.trace.arrays[array].shape
    assert context.replay is not None
    components = max(1, context.replay.arrays[array].current().size // max(1, math.prod(shape)))
    return context.experiment.writer_of(launch.index, array, param, scalar // components)


def _effects(results: list[ExtendedRun], worst: str, changes: list[float]) -> str:
    results_of_more = [
        f"with {result.rounds} rounds the loss is {result.loss:.4g} and the gradient of {worst} changes by "
        f"{words.percent(change)}"
        for result, change in zip(results[1:], changes, strict=True)
    ]
    return f"Tried out: the loss is {results[0].loss:.4g}; {', '.join(results_of_more)}."


def _rounds_left(motion: Convergence) -> int:
    """Return the rounds until a change is `UNCONVERGED_FIXED`, rounded up to a round number."""
    rate = min(motion.rate, 0.9999)
    left = (
        math.log(UNCONVERGED_FIXED / max(motion.distance, UNCONVERGED_FIXED * 1.001)) / math.log(rate)
        if rate > 0
        else 1.0
    )
    digits = 10 ** max(0, math.floor(math.log10(max(left, 1.0))) - 1)
    return max(1, int(math.ceil(left / digits) * digits))


def _change(before: Values, after: Values) -> float:
    size = max(float(np.linalg.norm(before)), float(np.linalg.norm(after)))
    return float(np.linalg.norm(after - before)) / size if size else 0.0
