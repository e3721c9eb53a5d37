"""Launches that both engines can run: results compared once, and adjoint kernels of Warp measured.

Each adjoint kernel runs with the values of its launch's own time and the adjoint that really came in. A
difference from the exact adjoint that remains is no overwrite: it is an error of the kernel that Warp made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from tapedebug import _time_limit
from tapedebug._errors import TapedebugError
from tapedebug._time_limit import OutOfTime
from tapedebug.contract import A, Access, Array, Values
from tapedebug.operations import ExecutableOperation, Memory, OperationReplay, OperationTape, Step
from tapedebug.operations.adjoint_values import When, may_need_after
from tapedebug.operations.memory import Bytes
from tapedebug.watch.mirror.comparison import Difference, differences_between
from tapedebug.watch.mirror.mirrored_launch import MirroredLaunch

VERIFIED = 3
"""The number of launches of each kernel whose results are compared; on later tapes it is one."""
COMPARED = 32
"""The number of launches of each kernel whose adjoints are compared, unless a difference is found."""
NOISE = 8.0
"""The largest ratio of rounding errors, of Warp's results and of the mirror's, that is no difference."""
SHARE = 0.4
"""The share of the time left that comparing the results of launches may take."""
LATE = "there was no time to compare its results with this engine's"
"""The reason why a mirror is not used although nothing speaks against it."""


class TwoEngines(ExecutableOperation, Protocol):
    """A launch that Warp runs, and perhaps this engine. Its `vjp` is the exact one if there is a mirror."""

    @property
    def mirrored(self) -> MirroredLaunch | None:
        """The launch as this engine runs it; None if it is not mirrored."""

    @property
    def native(self) -> Step:
        """The launch as Warp runs it."""

    @property
    def retaining(self) -> Step:
        """The same, with arrays that keep their gradients if the program says so."""

    def refuse_mirror(self, reason: str) -> None:
        """Let Warp alone run this launch from now on."""


def verify_mirrors(
    tape: OperationTape, launches: Mapping[int, TwoEngines], compared: set[Hashable] | None = None
) -> None:
    """Run the first launches of each kernel both ways, and refuse mirrors whose results are not Warp's.

    Under a time limit this takes at most `SHARE` of the time that is left. Mirrors that were not compared by
    then are refused, too: Warp alone runs these launches.

    Args:
        tape: The tape.
        launches: Its launches that may be mirrored, by index.
        compared: The kernels of which results were compared and equal on earlier tapes; those of this tape
            are added.
    """
    earlier = set() if compared is None else compared
    seen: Counter[Hashable] = Counter()
    chosen = []
    for index, launch in sorted(launches.items()):
        if launch.mirrored is not None and seen[launch.code] < (1 if launch.code in earlier else VERIFIED):
            seen[launch.code] += 1
            chosen.append(index)
    if not chosen:
        return
    replay = OperationReplay(tape)
    replay.forward_only = True
    scratch = Memory.zeros(replay.sizes)
    wrong: dict[Hashable, str] = {}
    done: set[Hashable] = set()
    try:
        with _time_limit.shared(SHARE):
            replay.pulse = _time_limit.pulse
            for index in chosen:
                launch = launches[index]
                if launch.code in wrong:
                    continue
                replay.forward(replay.position, index)
                replay.load_outside(index)
                reason = _refusal(tape, launch, replay, scratch)
                if reason:
                    wrong[launch.code] = reason
                done.add(launch.code)
    except OutOfTime:
        for index in chosen:
            if launches[index].code not in done:
                wrong[launches[index].code] = LATE
    earlier |= done - wrong.keys()
    for launch in launches.values():
        if launch.code in wrong:
            launch.refuse_mirror(wrong[launch.code])


def _refusal(tape: OperationTape, launch: TwoEngines, replay: OperationReplay, scratch: Memory) -> str:
    """Run a launch both ways; return why its mirror cannot be trusted, or an empty text."""
    assert launch.mirrored is not None
    found: list[tuple[Access, Bytes]] = []
    for access in launch.accesses:
        array = access.array
        content = replay.memory.range(array.region, array.start, array.stop)
        scratch.range(array.region, array.start, array.stop)[:] = content
        if access.writes:
            found.append((access, content.copy()))
    try:
        launch.mirrored.forward(scratch)
    except OutOfTime as error:
        if not error.step:
            raise
        return f"there was no time for {error.step}"
    except TapedebugError as error:
        return f"this engine refuses it: {error.message}"
    replay.forward(replay.position, replay.position + 1)
    differences = differences_between([access for access, _ in found], scratch, replay.memory)
    significant = [difference for difference in differences if difference.is_significant]
    if significant:
        exact = _exact_results(tape, launch, replay.memory, found)
        significant = _beyond_rounding(significant, exact, scratch, replay.memory)
    if not significant:
        return ""
    worst = significant[0]
    return (
        f"its results differ from this engine's: {worst.access.name}{list(worst.index)} is "
        f"{worst.native:.6g} in Warp and {worst.mirrored:.6g} here"
    )


def _exact_results(
    tape: OperationTape, launch: TwoEngines, after: Memory, found: Sequence[tuple[Access, Bytes]]
) -> Memory | None:
    """Return what a launch leaves in memory if its mirror computes in float64; None if it cannot.

    Args:
        tape: The tape.
        launch: The launch.
        after: Memory after the launch.
        found: The bytes of the arrays that the launch wrote, before it.
    """
    assert launch.mirrored is not None
    step = launch.mirrored.in_float64
    if step is None:
        return None
    exact = _widened(tape, launch, after)
    for access, content in found:
        exact.load(access.array.region, content, access.array.start)
    try:
        step.forward(exact)
    except TapedebugError:  # it cannot be compiled in float64, or there is no time for it
        return None
    return exact


def _widened(tape: OperationTape, launch: TwoEngines, content: Memory) -> Memory:
    """Return new memory for a launch, with the content of another one and shorter floats as float64."""
    regions: set[Hashable] = {access.array.region for access in launch.accesses}
    wide = {region: dtype for region, dtype in tape.wide_regions().items() if region in regions}
    made = Memory.zeros({region: content.bytes[region].size for region in regions}, wide)
    for region in regions:
        made.load(region, content.bytes[region])
    return made


def _beyond_rounding(
    differences: Sequence[Difference], exact: Memory | None, mirrored: Memory, native: Memory
) -> list[Difference]:
    """Return the differences that are larger than what float32 loses in the same computation.

    Where terms cancel, that may be more than the result.

    Args:
        differences: The differences between `mirrored` and `native`.
        exact: The results in float64; None if there are none, and every difference counts.
        mirrored: The results of the mirror.
        native: The results of Warp.
    """
    if exact is None:
        return list(differences)

    def error(memory: Memory, array: Array) -> float:
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(memory.view(array).astype(np.float64) - exact.view(array))
        return float(np.max(np.where(np.isnan(gap), np.inf, gap)))

    return [
        each
        for each in differences
        if not error(native, each.access.array) <= NOISE * error(mirrored, each.access.array) < np.inf
    ]


class AdjointComparison:
    """The adjoint kernels of a tape's launches, compared with exact adjoints.

    Args:
        tape: The tape.
        launches: Its launches, by index; those without a mirror are not compared.

    Attributes:
        differences: For each launch whose adjoint kernel is wrong, the significant differences, the largest
            first. `measure` fills it.
        left_out: By kernel of which not all launches were compared, the number of those that were, and of
            all.
        given: For each compared launch, the values with which Warp's result is closer: those before the
            launch, or those after it.
    """

    def __init__(self, tape: OperationTape, launches: Mapping[int, TwoEngines]) -> None:
        self.differences: dict[int, Sequence[Difference]] = {}
        self.left_out: dict[str, tuple[int, int]] = {}
        self.given: dict[int, When] = {}
        self._tape, self._launches = tape, launches
        self._wrong: set[Hashable] = set()  # kernels with a difference that is not rounding

    def measure(self, seeds: Mapping[A, Values]) -> None:
        """Reverse the tape, launches of each mirrored kernel both ways: all launches of those that differ.

        Args:
            seeds: The adjoints that the reverse pass starts from.
        """
        kernels: dict[Hashable, list[int]] = {}
        for index, launch in sorted(self._launches.items()):
            if launch.mirrored is not None and launch.has_adjoint:
                kernels.setdefault(launch.code, []).append(index)
        sample = {code: _spread(indices, COMPARED) for code, indices in kernels.items()}
        self._reverse(seeds, {index for chosen in sample.values() for index in chosen})
        wrong = {self._launches[index].code for index in self.differences}
        rest = {index for code in wrong for index in kernels[code]} - {
            index for code in wrong for index in sample[code]
        }
        if rest:
            self._reverse(seeds, rest)
        self.left_out = {
            self._launches[indices[0]].name: (len(sample[code]), len(indices))
            for code, indices in kernels.items()
            if code not in wrong and len(sample[code]) < len(indices)
        }

    def _reverse(self, seeds: Mapping[A, Values], chosen: Collection[int]) -> None:
        """Reverse the tape, and compare the adjoints of some launches."""
        replay = self._tape.new_replay()
        replay.pulse = _time_limit.pulse
        replay.forward()
        scratch = Memory.zeros(replay.sizes)
        position = len(replay.operations)
        replay.backward(seeds, start=position, stop=position)
        for index in sorted(chosen, reverse=True):
            replay.backward(None, start=position, stop=index + 1)
            launch = self._launches[index]
            active = [access for access in launch.accesses if access.active and access.array.is_float]
            incoming = {access: replay.adjoint.view(access.array).copy() for access in active}
            replay.backward(None, start=index + 1, stop=index)
            position = index
            if any(values.any() for values in incoming.values()):
                replay.load_values(index)
                self._compare(index, launch, replay, incoming, scratch)

    def _compare(
        self,
        index: int,
        launch: TwoEngines,
        replay: OperationReplay,
        incoming: Mapping[Access, Values],
        scratch: Memory,
    ) -> None:
        def run(when: When) -> list[Difference]:
            for access, values in incoming.items():
                scratch.view(access.array)[...] = values
            launch.native.vjp(replay.before if when == "before" else replay.after, replay.after, scratch)
            return differences_between(list(incoming), replay.adjoint, scratch)

        choices: tuple[When, ...] = ("before", "after") if may_need_after(launch) else ("before",)
        tried = {when: run(when) for when in choices}
        given = self.given[index] = min(tried, key=lambda when: _size(tried[when]))
        significant = [difference for difference in tried[given] if difference.is_significant]
        if significant and launch.code not in self._wrong:
            if given != choices[-1]:
                run(given)
            exact = self._exact_adjoint(launch, replay, incoming)
            significant = _beyond_rounding(significant, exact, replay.adjoint, scratch)
        if significant:
            self._wrong.add(launch.code)
            self.differences[index] = significant

    def _exact_adjoint(
        self, launch: TwoEngines, replay: OperationReplay, incoming: Mapping[Access, Values]
    ) -> Memory | None:
        """Return the adjoints that a launch leaves if its mirror computes in float64; None if it cannot."""
        assert launch.mirrored is not None
        step = launch.mirrored.in_float64
        if step is None:
            return None
        before, after, exact = (
            _widened(self._tape, launch, memory) for memory in (replay.before, replay.after, replay.adjoint)
        )
        for access, values in incoming.items():
            exact.view(access.array)[...] = values
        try:
            step.vjp(before, after, exact)
        except TapedebugError:  # it cannot be compiled in float64, or there is no time for it
            return None
        return exact

    def backward(
        self,
        replay: OperationReplay,
        seeds: Mapping[A, Values],
        launches: Collection[int],
        *,
        retains: bool = False,
    ) -> None:
        """Run a replay forward, and in reverse with Warp's adjoint kernels for some launches.

        Args:
            replay: A replay of the tape.
            seeds: The adjoints that the reverse pass starts from.
            launches: The launches that Warp reverses, with the values of their own time.
            retains: Arrays keep their gradients if the program says so.
        """
        for index in launches:
            launch = self._launches.get(index)
            if launch is not None and launch.mirrored is not None:
                step = launch.retaining if retains else launch.native
                replay.use(index, _Native(launch, step, self.given.get(index, "before")))
        replay.forward()
        replay.backward(seeds)


class _Native:
    """A launch whose adjoint is Warp's.

    Args:
        launch: The launch.
        step: The launch as Warp runs it.
        given: The values that the adjoint kernel reads.
    """

    def __init__(self, launch: TwoEngines, step: Step, given: When) -> None:
        self._launch, self._step, self._given = launch, step, given

    def forward(self, values: Memory) -> None:
        """Run the kernel."""
        self._launch.forward(values)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run Warp's adjoint kernel."""
        self._step.vjp(before if self._given == "before" else after, after, adjoint)


def _spread(indices: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of some launches, the first and the last among them, at even distances."""
    if len(indices) <= most:
        return list(indices)
    return [indices[round(n * (len(indices) - 1) / (most - 1))] for n in range(most)]


def _size(differences: Collection[Difference]) -> float:
    """Return the sum: of two results with one wrong array, that with fewer others is closer."""
    return sum(difference.relative for difference in differences)
