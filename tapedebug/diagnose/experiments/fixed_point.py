"""Distinguishes a loop that solves for a fixed point from a simulation and from a gradient descent."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.autograd.subjects.long_vectors import norm
from tapedebug.autograd.thresholds import TIME_STEPPING, UNCONVERGED_REPORTED
from tapedebug.contract import Operation, TangentReplay
from tapedebug.diagnose.trace_analysis.loops import Loop
from tapedebug.trace import Launch, Trace

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.diagnose.rule_context import RuleContext

SOLVE = re.compile(
    r"jacobi|gauss|seidel|(^|_)sor($|_)|solve|poisson|fixed[ _-]?point|picard|newton|iterat|converg|sinkhorn|"
    r"richardson|conjugate|(^|_)cg($|_)"
)
LIKELY = re.compile(
    r"relax|sweep|smooth|pressure|equilib|balance|project|power|rank|bellman|contract|correct|implicit"
)
"""Names that fit a solve, but other loops as well."""
STEP = re.compile(
    r"step|advance|integrat|evol|simulat|diffus|conduct|heat|cool|warm|time|march|propagat|move|drift|flow|"
    r"desc|train|optimi|sgd|adam|learn|epoch|update|decay|damp|fall|fly|grow"
)
PARAMETERS = re.compile(r"^(dt|delta_?t|time_?step|h|tau|time|lr|rate|learning_?rate|step_?size)$")


@dataclass(frozen=True, slots=True)
class Convergence:
    """The convergence of the values that a loop carries.

    Attributes:
        changes: ‖change‖ of each round but the first, relative to the largest norm of the carried values.
        own: The average derivative of an element by its own previous value: near 1 for time stepping.
        uniform: The loop starts from the same number everywhere.
        linear: A round is linear in the carried values: first and last round have the same derivative.
        place: The scalar that the last round changes most: number of the carried value, and index in it.
    """

    changes: tuple[float, ...]
    own: float
    uniform: bool
    linear: bool
    place: tuple[int, int] = (0, 0)

    @property
    def rate(self) -> float:
        """The factor by which the changes shrink in a round, over the last rounds."""
        back = min(len(self.changes) - 1, 6)
        first, last = self.changes[-1 - back], self.changes[-1]
        return float((last / first) ** (1.0 / back)) if first > 0 and back else 0.0

    @property
    def contracts(self) -> bool:
        """True if the changes shrank in each of the last rounds, and are not zero."""
        last = self.changes[-min(len(self.changes), 7) :]
        return len(last) > 2 and last[-1] > 0 and all(b < a for a, b in itertools.pairwise(last))

    @property
    def distance(self) -> float:
        """The estimated relative distance from the limit, if the rate stays constant."""
        return self.changes[-1] * self.rate / (1.0 - self.rate) if self.rate < 1 else float("inf")


def same_every_round(trace: Trace, rounds: Loop) -> bool:
    """Return True if all rounds get the same scalar arguments."""
    for number in range(rounds.count):
        for offset in range(rounds.length):
            one = trace.launches[rounds.launch(number, offset)]
            other = trace.launches[rounds.launch(0, offset)]
            if any(a.value != b.value for a, b in zip(one.args, other.args, strict=True)):
                return False
    return True


def measure(replay: Replay, rounds: Loop) -> Convergence | None:
    """Run a tape up to the end of a loop and measure the values that the loop carries.

    Returns:
        The measurements; None if the values do not approach a limit, or are as good as there.
    """
    changes, uniform, place = _changes(replay, rounds)
    found = Convergence(changes, 1.0, uniform, False, place)
    if not found.contracts or not found.distance > UNCONVERGED_REPORTED:
        return None
    pushing = replay.tangents()
    pushing.forward_only = True
    _, early = _pushed(replay, pushing, rounds, 1)
    share, late = _pushed(replay, pushing, rounds, rounds.count - 1)
    gap = _norm([one - other for one, other in zip(late, early, strict=True)])
    return replace(found, own=share, linear=gap <= 1e-6 * _norm(late))


def _changes(replay: Replay, rounds: Loop) -> tuple[tuple[float, ...], bool, tuple[int, int]]:
    """Measure the changes of the values that a loop carries.

    Returns:
        The relative change in each round but the first; True if all values start from the same number; and
        the array and the flat position of the largest change in the last round.
    """
    shadow = replay._shadow(double=True, forward_only=True)
    states: list[list[np.ndarray[Any, Any]]] = []
    wanted = {rounds.launch(k, rounds.length - 1) for k in range(rounds.count)}

    def state(index: int) -> list[np.ndarray[Any, Any]]:
        first = index - rounds.length + 1
        parts = [replay.records[first + item.writer].args[item.written] for item in rounds.carried]
        return [shadow.values(a).astype(np.float64).ravel() for a in parts]

    shadow.forward(stop=rounds.first)
    inputs = [replay.records[rounds.first + item.reader].args[item.read] for item in rounds.carried]
    starts = [shadow.values(a).astype(np.float64) for a in inputs]
    uniform = all(values.size > 0 and float(np.ptp(values)) == 0 for values in starts)
    changes: list[float] = []
    # Changes are relative to the largest norm: a value that decays to zero keeps changing by much of itself.
    sizes = [_norm(starts)]
    starts.clear()
    place = (0, 0)

    def look(record: Operation) -> None:
        nonlocal place
        if record.index in wanted:
            now = state(record.index)
            if states:
                moved = states.pop()
                for one, other in zip(now, moved, strict=True):
                    other -= one
                    np.abs(other, out=other)
                changes.append(_norm(moved))
                most = int(np.argmax([part.max(initial=0.0) for part in moved]))
                place = most, int(moved[most].argmax()) if moved[most].size else 0
            states[:] = [now]
            sizes.append(_norm(now))

    with np.errstate(all="ignore"):
        shadow.forward(start=rounds.first, stop=rounds.stop, on_operation=look)
    size = max(sizes, default=0.0)
    return tuple(change / size if size else 0.0 for change in changes), uniform, place


def _norm(parts: Sequence[np.ndarray[Any, Any]]) -> float:
    """Return the Euclidean norm of numbers in several arrays."""
    return math.hypot(*(norm(part.ravel()) for part in parts))


def _pushed(
    replay: Replay, shadow: TangentReplay, rounds: Loop, number: int
) -> tuple[float, list[np.ndarray[Any, Any]]]:
    """Push a random tangent of ±1 through a round.

    Returns:
        The estimated mean of the diagonal of its Jacobian, and the tangents of the values that it hands on.
    """
    last = rounds.launch(number, 0)
    ahead = 0 < shadow.position <= last
    shadow.forward(start=shadow.position if ahead else 0, stop=last)
    rng = np.random.default_rng(11)
    given: dict[Any, np.ndarray[Any, Any]] = {}
    for item in rounds.carried:
        a = replay.records[last + item.reader].args[item.read]
        values = shadow.values(a)
        if is_float(values.dtype):
            given[a] = rng.choice(np.array([-1, 1], np.int8), size=values.shape)
    shadow.push(given, start=last, stop=last + rounds.length)
    shares, tangents = [], []
    for item in rounds.carried:
        source = replay.records[last + item.reader].args[item.read]
        target = replay.records[last + item.writer].args[item.written]
        if source in given and source.shape == target.shape:
            tangents.append(shadow.tangent(target).astype(np.float64, copy=False).ravel())
            shares.append(float(np.mean(given[source].ravel() * tangents[-1])))
    return (float(np.mean(shares)) if shares else 1.0), tangents


def reasons(case: RuleContext, rounds: Loop, motion: Convergence) -> tuple[list[str], bool]:
    """Return the reasons why a loop is a solve, and if that is certain; no reasons if it may be none."""
    launches = [case.trace.launches[rounds.first + offset] for offset in range(rounds.length)]
    kernels = [launch.name.lower() for launch in launches]
    params = [arg.name.lower() for launch in launches for arg in launch.args if arg.array is None]
    # A function called `solve` may well run a simulation; a kernel called `jacobi` does not.
    named = next((name for name in kernels if SOLVE.search(name)), None)
    if named is None and motion.own < TIME_STEPPING:
        likely = [name for name in kernels if LIKELY.search(name)]
        around = [name for name in _around(case.trace, launches) if SOLVE.search(name)]
        named = next(iter([*likely, *around]), None)
    stepping = any(STEP.search(name) for name in kernels if not SOLVE.search(name))
    if stepping or any(PARAMETERS.match(name) for name in params):
        return [], False
    if named is not None:
        return [f"it is called {named}"], True
    if motion.uniform and motion.own < TIME_STEPPING:
        shape = "is linear, " if motion.linear else ""
        why = f"it {shape}starts from the same number everywhere"
        return [why, f"only {max(0.0, motion.own):.0%} of a value goes into its next one"], motion.linear
    return [], False


def _around(trace: Trace, launches: list[Launch]) -> list[str]:
    """Return the names of the scopes and functions around a loop."""
    found = []
    for launch in launches:
        scope = launch.scope
        while scope is not None:
            found.append(trace.scopes[scope].name.lower())
            scope = trace.scopes[scope].parent
        if launch.call_site is not None:
            found.append(launch.call_site.function.lower())
    return list(dict.fromkeys(found))
