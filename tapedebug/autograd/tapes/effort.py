"""Plans the directions in which the inputs of a tape are displaced, from the time of one run of the tape.

A short tape is cheap to run: each input is displaced by itself, along its largest entries and in random
directions. If that would take long, all inputs are displaced together in a few random directions, and only
those that move the loss most, and those that disagree, by themselves. The cost is then proportional to that
of the tape, not to tape times inputs.
"""

from __future__ import annotations

from dataclasses import replace

from tapedebug import _time_limit
from tapedebug._dataclass import dataclass
from tapedebug.autograd.subjects.whole_tape import WholeTape, timed

ENTRIES = 6  # single entries that are displaced, the largest of the gradient
FEW_SCALARS = 12  # inputs of up to this size are displaced entry by entry
RUNS = 6  # forward runs that one direction usually takes
FITTED_RUNS = 18  # those if parts of the tape compute in float32

MANY = 24  # inputs from which on they are displaced together
SAMPLE = 4  # of those, displaced one by one nevertheless: those that move the loss most
BANDS = 4  # that there usually are, at most

PATIENCE = 0.5  # seconds that displacing each input by itself may take
TAPES = 20.0  # runs of the tape that displacements may take, if a few of them exceed `PATIENCE`
OVERDRAWN = 4.0  # times the planned duration: from then on, inputs that disagree get two directions each
REPEATED = 0.02  # part of the time left that a run may take that is repeated to measure its duration
GRADIENT_RUNS = 24.0  # forward runs that the gradients take which displacements are compared with
SLOWEST = 0.05  # seconds of a run from which on no input is displaced by itself unless differences disagree


@dataclass(frozen=True)
class Effort:
    """The number of directions in which an input is displaced: its largest entries, and random ones.

    After `until` (a time of `_time_limit.now`), only the first of each kind is used.
    """

    entries: int
    random: int
    until: float = float("inf")

    @classmethod
    def within(cls, runs: float, random: int, each: int = RUNS) -> Effort:
        """Return the directions that fit into `runs` forward runs, at least one of each kind.

        One direction takes `each` runs.
        """
        directions = int(runs / each)
        if directions >= FEW_SCALARS + random:
            return cls(FEW_SCALARS, random)
        chosen = max(1, min(random, directions // 2))
        return cls(max(1, directions - chosen), chosen)

    def of(self, size: int) -> int:
        """Return the number of directions for an input of `size` scalars."""
        entries = min(self.entries, size if size <= FEW_SCALARS else ENTRIES)
        return entries + (self.random if size > 1 else 0)


@dataclass(frozen=True)
class DirectionPlan:
    """The directions in which the inputs of a tape are displaced.

    Attributes:
        alone: The directions of an input that is displaced by itself.
        together: The number of random directions of all inputs together; 0 if each is displaced by itself.
        sample: The number of inputs that are displaced by themselves nevertheless.
        note: A sentence for the coverage, if there are fewer directions than requested.
        deadline: A time of `_time_limit.now` from which on no further inputs are displaced together.
        run_seconds: The measured duration of a forward run.
    """

    alone: Effort
    together: int = 0
    sample: int = SAMPLE
    deadline: float = float("inf")
    note: str = ""
    run_seconds: float | None = None


def estimated_runs(inputs: int, seconds: float) -> float:
    """Return the estimated cost of checking a tape end to end, in forward runs, before anything has run.

    Args:
        inputs: The number of inputs.
        seconds: The duration of a forward run.
    """
    needed = RUNS * inputs * (ENTRIES + 3)
    if inputs < MANY and needed * seconds <= PATIENCE:
        return GRADIENT_RUNS + needed
    return GRADIENT_RUNS + min(needed, max(TAPES, PATIENCE / max(1e-9, seconds)))


def plan_directions(program: WholeTape, directions: int, max_seconds: float) -> DirectionPlan:
    """Plan the directions for a tape.

    Args:
        program: The tape.
        directions: Number of random directions that were requested for each input.
        max_seconds: The time limit of all displacements.
    """
    first = program.base_seconds
    wall, seconds = first or timed(program.loss)
    each = FITTED_RUNS if program.is_narrow else RUNS
    full = Effort.within(1e12, directions)
    inputs = program.inputs
    several = len(inputs) >= MANY
    needed = each * sum(full.of(port.size) for port in inputs)
    # The first run may have been disturbed, or compiled; time may be too short for another one.
    if first and (several or needed * seconds > PATIENCE) and wall <= REPEATED * _time_limit.remaining():
        wall, seconds = map(min, zip((wall, seconds), timed(program.loss), strict=True))
    limit = max_seconds / wall
    if not several and needed * seconds <= PATIENCE:
        alone = Effort.within(limit / len(inputs), directions, each)
        note = _note(alone, full, f"to keep to {max_seconds:g} s")
        return DirectionPlan(alone, note=note, run_seconds=seconds)
    affordable = min(limit, max(TAPES, PATIENCE / seconds))
    why = f"to keep to {max_seconds:g} s" if affordable == limit else f"as each takes {each} runs of the tape"
    if len(inputs) == 1:
        alone = Effort.within(affordable, directions, each)
        return DirectionPlan(alone, note=_note(alone, full, why), run_seconds=seconds)
    count = int(affordable / each)
    together = min(directions, max(2, count // BANDS))
    left = max(1, count - BANDS * together)
    sample = min(SAMPLE, max(1, left // (1 + directions)))
    alone = Effort.within(each * left / sample, directions, each)
    if seconds > SLOWEST or affordable == limit:
        sample = 0
    now = _time_limit.now()
    alone = replace(alone, until=now + min(max_seconds, OVERDRAWN * affordable * seconds))
    return DirectionPlan(alone, together, sample, deadline=now + max_seconds, run_seconds=seconds)


def _note(found: Effort, full: Effort, why: str) -> str:
    """Return a sentence that says in how few directions a gradient was compared; empty if in all."""
    if found == full:
        return ""
    return f"each gradient was compared in {found.entries + found.random} directions only, {why}"
