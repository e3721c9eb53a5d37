"""Compares the reverse pass of a tape with its reference launch by launch, to find the wrong launch.

One reverse pass in float64 reads the values of the forward pass, and gradients flow through every array that
depends on the inputs: it is the reference. Each of its launches is compared with finite differences of that
launch alone, for its incoming adjoints. If they disagree, the adjoints are corrected before the pass
continues, so that one wrong launch is reported once and the launches after it get right adjoints. Beside it,
each launch runs as in the user's reverse pass: with the values that it reads, through the arrays that have a
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import Checkpoint, Floats, Values
from tapedebug.autograd.subjects.aliases import first_of_each, overlapping, params_overlapping, same, unique
from tapedebug.autograd.subjects.launches import LaunchCopy
from tapedebug.autograd.subjects.pairs import port
from tapedebug.autograd.subjects.probes import entry_scales, random_directions
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.autograd.subjects.whole_tape import WholeTape, meant_of
from tapedebug.autograd.tapes.single_launch import (
    Argument,
    Cause,
    Judged,
    SingleLaunch,
    relative_error,
    worst_entry,
)
from tapedebug.autograd.thresholds import ADJOINT_ROUNDING
from tapedebug.contract import RecordedTape, Replay, SingleReplay, is_array
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.rerecord import rerecorded
from tapedebug.runtime.tape.tape import Tape

if TYPE_CHECKING:
    from tapedebug.runtime.tape.record import Record


@dataclass
class Steps:
    """The results of a reverse pass in lockstep.

    Attributes:
        arguments: One result for each argument of each launch that was checked, the last launch first.
        left: The launches that were not checked, by reason.
    """

    arguments: list[Argument] = field(default_factory=list)
    left: dict[str, list[int]] = field(default_factory=dict)

    def leave(self, launch: int, reason: str) -> None:
        """Add a launch that is not checked."""
        self.left.setdefault(reason, []).append(launch)


def lockstep(
    program: WholeTape,
    tape: RecordedTape,
    rtol: float,
    wanted: Collection[int],
    found: Steps,
    checkpoint: Checkpoint | None = None,
    begin: Callable[[Any], None] | None = None,
) -> None:
    """Run the reverse pass of a tape beside its reference.

    Args:
        program: The tape, with its objective and its inputs.
        tape: The tape itself.
        rtol: The relative error up to which a gradient agrees.
        wanted: The launches to check.
        found: Gets the results as they become available.
        checkpoint: Called often; may raise to cancel.
        begin: Called with each record that is about to be checked.

    Raises:
        GradcheckError: Another engine recorded the tape.
    """
    if not isinstance(tape, Tape):
        raise GradcheckError(
            f"the reverse pass of {tape.engine.name} does not run beside a reference, launch by launch",
            hint="check launches alone: gradcheck_tape(tape)",
        )
    with np.errstate(all="ignore"):
        _Lockstep(program, tape, rtol, wanted, found, checkpoint, begin).run()


class _Lockstep:
    def __init__(
        self,
        program: WholeTape,
        tape: Tape,
        rtol: float,
        wanted: Collection[int],
        found: Steps,
        checkpoint: Checkpoint | None,
        begin: Callable[[Any], None] | None,
    ) -> None:
        self.program = program
        self.rtol = rtol
        self.wanted = frozenset(wanted)
        self.found = found
        self.checkpoint = checkpoint
        self.begin = begin
        self.records: list[Any] = list(tape.records)
        dark = _dependent_without_gradient(program)
        self.open = rerecorded(tape, lambda record: params_overlapping(record, dark)) if dark else tape
        self.differs = not program.preserves or bool(dark)
        self.held: dict[int, dict[Any, Values]] = {}
        self.right = self._walked(self.open.new_replay(float64=True), self._store_launch_values())
        self.users: Shadow | None = None
        if self.differs:
            self.users = self._walked(program.shadow(), None)
        self.before: dict[Any, Floats] = {}

    def _store_launch_values(self) -> Callable[[Any, Shadow], None]:
        """Return a callback that stores the values before each launch; unchanged arrays are stored once."""
        latest: dict[Any, Values] = {}

        def hold(record: Record, single: Shadow) -> None:
            if single.written_outside(record.index):
                single.inject()
                latest.clear()
            if _runs_alone(record) and record.index in self.wanted:
                arrays = dict.fromkeys(a for a in record.args if is_array(a))
                self.held[record.index] = {
                    a: latest[a] if a in latest else latest.setdefault(a, single.values(a)) for a in arrays
                }
            written = {record.args[p].region for p in record.written}
            for a in [a for a in latest if a.region in written]:
                del latest[a]

        return hold

    def _walked(self, double: Shadow, hold: Callable[[Any, Shadow], None] | None) -> Shadow:
        """Return a float64 replay at the end of the tape, with the values of the float32 run throughout."""
        single = self.program.shadow(double=False)
        single.forward_only = True
        double.pulse = self.checkpoint

        def follow(record: Record) -> None:
            if hold is not None:
                hold(record, single)
            single.forward(record.index, record.index + 1)
            for param in record.written:
                double.set(record.args[param], single.values(record.args[param]))

        return double.forward(0, on_operation=follow)

    def run(self) -> None:
        seeds = {p.array: seed.reshape(p.shape) for p, seed in self.program.seeds.items()}
        last = len(self.records)
        self.right.backward(seeds, start=last, stop=last)
        self._store_incoming(last - 1)
        self.right.backward(None, on_operation=self._after)

    def _store_incoming(self, index: int) -> None:
        """Store the incoming adjoints of a record."""
        if index >= 0:
            arrays = dict.fromkeys(a for a in self.right.records[index].args if is_array(a))
            self.before = {a: self.right.gradient(a).astype(np.float64) for a in arrays if a.is_float}

    def _after(self, record: Record) -> None:
        """Process a record of the reference whose adjoint has run."""
        if self.begin is not None:
            self.begin(record)
        if record.index in self.wanted or (self.differs and not _runs_alone(record)):
            self._check(record)
        self._store_incoming(record.index - 1)

    def _check(self, record: Record) -> None:
        index, own = record.index, self.records[record.index]
        outputs = unique(record.args[p] for p in sorted(record.active & record.writes))
        arriving = {a: self.before[a] for a in outputs if self.before[a].any()}
        reason = self._obstacle(record, arriving)
        if reason:
            if _runs_alone(record):
                self.found.leave(index, reason)
            return
        params = [p for p in sorted(record.active & record.reads) if record.args[p].size]
        params = first_of_each(record, params)
        given = {p: self.right.gradient(record.args[p]) - self._base(record, p) for p in params}
        launch = self._launch(record, arriving, params) if _runs_alone(record) else None
        users = self._users(own, arriving) if self.users is not None else None
        for p in params:
            found = launch.judge(p, given[p]) if launch is not None else Judged(Argument(index, p, "AGREE"))
            if found.right is not None:
                self.right.set_gradient(record.args[p], self._base(record, p) + found.right)
            argument = found.argument
            if argument.verdict == "AGREE" and users is not None:
                argument = self._as_consumed(own, users.get(p), given[p], found)
            if _runs_alone(record) or argument.verdict != "AGREE":
                self.found.arguments.append(argument)

    def _obstacle(self, record: Record, arriving: Mapping[Any, Floats]) -> str:
        if not record.active & record.reads:
            return "no argument that it reads depends on the inputs"
        if not arriving:
            return "no adjoint arrives: the loss does not depend on it"
        if not all(np.isfinite(values).all() for values in arriving.values()):
            return "the adjoints that arrive are not finite"
        if record.kernel is not None and meant_of(record.kernel):
            return f"the gradient of {', '.join(meant_of(record.kernel))} is meant to differ"
        return "some of its arguments overlap in part" if overlapping(record) else ""

    def _base(self, record: Record, p: int) -> Floats:
        """Return the adjoint of an argument before the launch adds to it: zero if it is overwritten."""
        a = record.args[p]
        replaced = any(same(a, record.args[w]) for w in record.writes)
        return np.zeros_like(self.before[a]) if replaced else self.before[a]

    def _launch(self, record: Record, arriving: Mapping[Any, Floats], params: Sequence[int]) -> SingleLaunch:
        copy = LaunchCopy.of(record, self.held.pop(record.index))
        args = copy.arguments()
        alone = record.capability(SingleReplay)
        assert alone is not None, "it runs alone"
        own = {p: port(p, record.param_name(p), args[p]) for p in params}
        outputs = {
            port(p, record.param_name(p), args[p]): arriving[record.args[p]].ravel()
            for p in first_of_each(record, sorted(record.active & record.writes))
            if record.args[p] in arriving
        }

        def make(wide: bool) -> Replay:
            return alone.new_replay(args, float64=wide)

        inside = ShadowProgram("", make, list(own.values()), list(outputs), launch=record.index)
        inside.pulse = self.checkpoint
        inside.is_narrow = record.kind == "python" and self.program.is_narrow
        return SingleLaunch(record.index, inside, own, outputs, self.rtol, self.checkpoint)

    def _users(self, record: Record, arriving: Mapping[Any, Floats]) -> dict[int, Floats] | None:
        """Return the adjoints that the user's reverse pass computes at a launch from the incoming ones.

        None if some arrive at an array without a gradient: a launch that reads that array is the cause.
        """
        assert self.users is not None
        own = [record.args[p] for p in record.active]
        if not all(any(a is b for b in own) for a in arriving):
            return None
        self.users.backward(arriving, self.program.consume, start=record.index + 1, stop=record.index)
        given = {}
        for p in record.active & record.reads:
            a = record.args[p]
            replaced = any(same(a, record.args[w]) for w in record.writes)
            given[p] = self.users.gradient(a) - (0.0 if replaced else arriving.get(a, 0.0))
        return given

    def _as_consumed(self, record: Record, given: Floats | None, right: Floats, found: Judged) -> Argument:
        """Return the verdict on the user's adjoint of an argument whose reference adjoint is right."""
        argument = found.argument
        used = np.zeros_like(right) if given is None else given
        error = np.abs(used - right)
        missed = ~(error <= self.rtol * np.abs(right) + ADJOINT_ROUNDING * np.abs(right).max(initial=0.0))
        if not missed.any() or np.linalg.norm(used - right) <= self.rtol * np.linalg.norm(right):
            return argument
        cause: Cause = "overwritten"
        if argument.param not in record.active:
            cause = "detached"
        elif record.info is None and record.kernel is not None:
            cause = "no adjoint"
        return replace(
            argument,
            verdict="WRONG",
            cause=cause,
            size=right.size,
            error=float(np.nanmax(error)),
            relative=relative_error(used, right),
            wrong=worst_entry(used, right, np.full(right.shape, found.bar), missed),
            clobber=_clobber(record),
        )


def _dependent_without_gradient(program: WholeTape) -> list[Any]:
    """Return arrays without a gradient that depend on the inputs: there the user's reverse pass ends."""
    dark: dict[Any, None] = {}
    shadow = program.shadow()
    shadow.forward_only = True

    def look(record: Record) -> None:
        for p in record.written:
            a = record.args[p]
            closed = p not in record.active or (record.kernel is not None and record.info is None)
            if closed and a.is_float and shadow.tangent(a).any():
                dark[a] = None

    directions = {p: random_directions(p.size, 1, entry_scales(program.values(p)))[0] for p in program.inputs}
    shadow.push({p.array: found.reshape(p.shape) for p, found in directions.items()}, on_operation=look)
    return list(dark)


def _runs_alone(record: Record) -> bool:
    """True for launches and Python operations, whose adjoints are checked against differences."""
    return record.kind in {"kernel", "python"}


def _clobber(record: Record) -> int:
    """Return the record that overwrote values needed by this one's adjoint; -1 for a write off the tape."""
    last = [need.clobber for need in record.needs if need.clobber is not None and not need.outside]
    return min(last, default=-1)
