"""The whole tape as one program: from its leaves to its loss."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug import _time_limit
from tapedebug._errors import GradcheckError
from tapedebug._interval_index import IntervalIndex
from tapedebug._source import display_file
from tapedebug.autograd.array_types import Floats, Loss
from tapedebug.autograd.subjects.engine_kernels import kernel_of
from tapedebug.autograd.subjects.numerical import differences_on
from tapedebug.autograd.subjects.pairs import obstacle, port
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.rounded_inputs import rounded_inputs
from tapedebug.autograd.subjects.shadow_program import (
    ShadowProgram,
    round_results,
    tape_replay,
    weighted_sum,
)
from tapedebug.autograd.subjects.struct_fields import arrays_in
from tapedebug.compiler.function import DIFFERING
from tapedebug.compiler.passes.custom import calls_with_gradient
from tapedebug.contract import (
    Float64,
    Irreplayable,
    NoTangents,
    Repeatability,
    Tangents,
    UnrecordedLaunches,
    arrays_overlap,
    from_program,
    is_array,
    memory_key,
)

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.contract import Array, Operation, OutsideWrite, Place, RecordedTape, Region, TangentReplay

Labels = Mapping[Any, str]

KEPT = 1 << 20
"""The scalars of all inputs together up to which `WholeTape.once` keeps results."""


class WholeTape(ShadowProgram):
    """A tape with a scalar objective: the sum of its outputs times `seeds`.

    Attributes:
        tape: The tape.
        seeds: What the reverse pass starts from.
        launches: How many records the tape has.
        unchecked: How many of them could not be replayed.
        is_narrow: Some of them compute in float32 also in the float64 replay.
        preserves: Its reverse pass sees the values of the forward pass.
        notes: What could not be covered.
        blind: Why no verdict can be had; empty where one can.
        base_seconds: The seconds of the run of `base`, as `timed` returns them; None if it needed none.
        meant: Functions whose gradients are meant to differ (`func_grad(…, differs=True)`): differences of
            the loss do not see those gradients.
    """

    def __init__(self, tape: RecordedTape, seeds: Mapping[Port, Floats], inputs: Sequence[Port]) -> None:
        self.preserves = tape.preserves_values
        super().__init__(
            "the whole tape",
            tape_replay(tape),
            inputs,
            list(seeds),
            consume="versions" if self.preserves else "current",
        )
        self.tape = tape
        self.seeds = dict(seeds)
        if sum(seed.size for seed in seeds.values()) == 1:
            (seed,) = seeds.values()
            self.single_seed = self.seeds if seed[0] and np.isfinite(seed[0]) else None
        self.base_seconds: tuple[float, float] | None = None
        self._scatter: dict[Port, Floats] | None = None
        self._measured: dict[Hashable, Mapping[Port, Floats]] = {}
        self.has_tangents = tape.capability(Tangents) is not None
        wide = tape.capability(Float64)
        self.is_narrow = wide is not None and bool(wide.obstacle())
        self._narrow = wide.narrow() if self.is_narrow and wide is not None else ()
        self._plain_losses: list[float] = []  # of float64 runs with no input replaced
        self.launches = len(tape.operations)
        self.notes: list[str] = []
        self.notes += uncovered(tape)
        self.notes += differences_on(tape.operations)
        # Launches without an adjoint do run forward: that they lose a gradient is for the check to find.
        unknown = [o for o in tape.operations if o.capability(Irreplayable) is not None]
        self.unchecked = len(unknown)
        self.blind = (
            f"{_named(unknown[0])} is not replayed, and may take part in the gradient"
            f"{' (launch_python is replayed)' if unknown[0].kind == 'func' else ''}"
            if unknown
            else ""
        )

        self.meant = meant_to_differ(tape.operations)

    def tangent_replay(self) -> TangentReplay:
        """Return a new replay in float64 that can push tangents."""
        found: Tangents | None = self.tape.capability(Tangents)
        assert found is not None
        replay = found.tangent_replay(float64=True)
        replay.pulse = self.pulse
        return replay

    @functools.cached_property
    def base(self) -> float:
        """The objective in float64, with no input replaced, from a run that `pull` goes on from."""
        if self.stands_before_reverse():
            return self.loss_before_reverse(double=True)
        found: list[float] = []
        self.base_seconds = timed(lambda: found.append(self.loss_before_reverse(double=True)))
        return found[0]

    @property
    def found(self) -> float:
        """The objective of the values that the program's arrays hold."""
        held = {port: port.array.current().ravel().astype(np.float64) for port in self.outputs}
        return self._objective(functools.partial(_product, held))

    @property
    def is_repeatable(self) -> bool:
        """True if the engine guarantees that two runs on the same values give the same results."""
        found = self.tape.capability(Repeatability)
        return found is not None and found.is_repeatable()

    def rounds(self, ports: Iterable[Port]) -> bool:
        """True if differences of the loss along these inputs are rounded to float32 on their way."""
        return not self._rounded_inputs.isdisjoint(ports)

    @functools.cached_property
    def _rounded_inputs(self) -> frozenset[Port]:
        """The inputs whose values reach operations in float32.

        These are all inputs if the same run gives another loss in float64: atomics of a GPU.
        """
        if not self.is_narrow:
            return frozenset()
        every = frozenset(self.inputs)
        if not self._narrow:
            return every
        arrays = [port.array for port in self.inputs]
        reached = rounded_inputs(self.tape.operations, self._narrow, arrays)
        found = frozenset(self.inputs[number] for number in reached)
        if found == every:
            return every
        while len(self._plain_losses) < 2:
            self.loss()
        return found if len(set(self._plain_losses)) == 1 else every

    @functools.cached_property
    def along(self) -> dict[Port, Floats]:
        """The float64 adjoint at the values of the float32 run.

        It has the rounding of the float32 forward pass and none of the float32 reverse pass: where the
        consumed gradient agrees with it, the reverse pass is right, however far the two runs are apart.
        """
        return self._along(rounded=False)

    @functools.cached_property
    def along_rounded(self) -> dict[Port, Floats]:
        """The same, each result within a launch rounded as much as in float32, but not in the same way.

        How far it is off `along` is what rounding does inside a launch: the derivative of a tanh near 1 is
        the difference of two numbers that float32 can hardly tell apart.
        """
        return self._along(rounded=True)

    def _along(self, *, rounded: bool) -> dict[Port, Floats]:
        single, double = self.replay(double=False), self.replay()

        def follow(record: Operation) -> None:
            single.forward(record.index, record.index + 1)
            for param in record.written:
                double.set(record.args[param], single.values(record.args[param]))

        double.forward(0, on_operation=follow)
        if rounded:
            round_results(double)
        double.backward({p.array: s.reshape(p.shape) for p, s in self.seeds.items()}, consume=self.consume)
        return {port: double.gradient(port.array).ravel().astype(np.float64) for port in self.inputs}

    def gradient(self, *, preserved: bool) -> Mapping[Port, Floats]:
        """Return the float64 gradient of the objective; the one that a dot-product test kept, once.

        Args:
            preserved: From the values of the forward pass, whatever the tape's own reverse pass reads.
        """
        self.single_seed = None
        known = self.gradients.pop("versions" if preserved else self.consume, None)
        return known or self.pull(self.seeds, double=True, preserved=preserved)

    def once(
        self, key: Hashable, port: Port, run: Callable[[Sequence[Port]], Mapping[Port, Floats]]
    ) -> Floats:
        """Return the measurement of an input by `run`, whose runs of the tape measure all inputs at once.

        Args:
            key: The measurement. A second call with it runs nothing, unless the inputs are long.
            port: The input.
            run: Measures some inputs.
        """
        if sum(each.size for each in self.inputs) > KEPT:
            return run([port])[port]
        if key not in self._measured:
            self._measured[key] = run(self.inputs)
        return self._measured[key][port]

    def scatter(self, scales: Sequence[float], plain: Mapping[Port, Floats]) -> dict[Port, Floats]:
        """Return how far the consumed gradient moves when its seeds, and so its rounding, are scaled.

        Args:
            scales: Factors of the seeds, which are divided out again.
            plain: The consumed gradient.
        """
        if self._scatter is None:
            found = {port: np.zeros(port.size) for port in self.inputs}
            for scale in scales:
                scaled = self.pull({port: scale * seed for port, seed in self.seeds.items()})
                for port in self.inputs:
                    found[port] = np.maximum(found[port], np.abs(scaled[port] / scale - plain[port]))
            self._scatter = found
        return self._scatter

    def loss(self, changes: Mapping[Port, Floats] | None = None, *, single: bool = False) -> float:
        """The objective, with some inputs replaced."""
        replay = self._run(("forward", not single, "versions"), changes or {})
        found = self._objective(functools.partial(weighted_sum, replay))
        if not changes and not single:
            self._plain_losses.append(found)
        return found

    def loss_before_reverse(self, *, double: bool = False) -> float:
        """The objective of a run from whose end the consumed or the float64 gradient is computed next."""
        found = self._objective(functools.partial(_product, self.outputs_before_reverse(double=double)))
        if double:
            self._plain_losses.append(found)
        return found

    def _objective(self, product: Callable[[Port, Floats], float]) -> float:
        """Return the sum over all outputs of `product(output, seed)`, their inner product with their seed."""
        return float(sum(product(port, seed) for port, seed in self.seeds.items()))


def _product(outputs: Mapping[Port, Floats], port: Port, seed: Floats) -> float:
    return float(seed @ outputs[port])


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a run: those of the time limit, and those on an idle machine at most."""
    began, used = _time_limit.now(), time.process_time()
    run()
    passed, used = _time_limit.now() - began, time.process_time() - used
    return max(1e-6, passed), max(1e-6, min(passed, used))


def meant_to_differ(operations: Iterable[Operation]) -> list[str]:
    """The functions that kernels call whose gradients are meant to differ from the derivative."""
    kernels = {id(k): k for o in operations if o.active and (k := kernel_of(o)) is not None}
    return list(dict.fromkeys(name for kernel in kernels.values() for name in meant_of(kernel)))


def meant_of(kernel: Kernel) -> list[str]:
    """The functions that a kernel calls whose gradients are meant to differ from the derivative."""
    if not DIFFERING:
        return []
    calls = calls_with_gradient(kernel._lowered.custom.body)
    return list(dict.fromkeys(call.name for call in calls if call.function.gradient in DIFFERING))


def whole_tape(
    tape: RecordedTape, loss: Loss | None, inputs: Iterable[Array] | Array | None, labels: Labels | None
) -> WholeTape:
    """The program of `end_to_end`; see there.

    Raises:
        GradcheckError: No loss is known, or an array is not on the tape.
    """
    loss, inputs = from_program(tape, loss), from_program(tape, inputs)
    names = Names(tape, labels)
    if not tape.operations:
        raise GradcheckError(
            "the tape is empty: nothing was recorded", hint="run the launches inside `with tape:`"
        )
    seeds = _seeds(tape, loss, names)
    notes: list[str] = []
    chosen = leaves(tape) if inputs is None else arrays_in(inputs)
    ports = []
    for index, array in enumerate(chosen):
        name = names.of(array)
        if not tape.uses(array):
            if name not in names.all():
                raise GradcheckError(
                    f"end_to_end: {name} is not on the tape", hint="name an array that a launch uses"
                )
            notes.append(f"not checked: no launch uses {name}, although one is given it")
            continue
        reason = obstacle(name, array) or not_an_input(tape, name, array)
        if reason is not None:
            notes.append(f"not checked: {reason}")
        else:
            ports.append(port(index, name, array))
    program = WholeTape(tape, seeds, ports)
    program.notes += notes
    program.notes += outside_notes(tape, names)
    program.notes += precision_notes(tape)
    return program


def precision_notes(tape: RecordedTape) -> list[str]:
    """Return notes on the operations of a tape that have no float64 or no tangents."""
    wide = tape.capability(Float64)
    obstacle = wide.obstacle() if wide is not None else ""
    notes = [f"the float64 reference is not entirely float64: {obstacle}"] if obstacle else []
    operations = [record for record in tape.operations if record.kind == "python"]
    lost = [why.reason() for record in operations if (why := record.capability(NoTangents)) is not None]
    if lost:
        others = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        notes.append(f"no dot-product test: {lost[0]}{others}")
    return notes


def outside_notes(tape: RecordedTape, names: Names) -> list[str]:
    """Writes to the tape's memory that are not on the tape: while it recorded, and before backward."""
    notes = []
    during = [event for event in tape.outside_writes if event.at < len(tape.operations)]
    computed = {record.args[p].region for record in tape.operations for p in record.written}
    steps = [event for event in during if event.settled and event.array.region not in computed]
    arrays = list(dict.fromkeys(names.of(event.array) for event in steps))
    if arrays:
        notes.append(
            f"updated between passes of this tape: {', '.join(arrays)}; the gradient is that of all values "
            "together, as backward adds it up"
        )
    arrays = list(dict.fromkeys(names.of(event.array) for event in during if event not in steps))
    if arrays:
        notes.append(
            f"written outside of the tape while it recorded, and taken as constant there: {', '.join(arrays)}"
        )
    unrecorded = tape.capability(UnrecordedLaunches)
    constants: dict[str, dict[str, None]] = {}
    for launch in () if unrecorded is None else unrecorded.launches():
        what = "while the tape did not record" if launch.paused else "by a launch with record_tape=False"
        if launch.kind == "call":
            what = f"by {launch.name}, which no tape records"
        if launch.earlier:
            what = f"by a {launch.kind} before the tape began to record"
        for a in launch.writes:
            constants.setdefault(what, {})[names.of(a) + _at(launch.call_site)] = None
    for what, named in constants.items():
        notes.append(f"computed {what}, and taken as constant here: {', '.join(named)}")
    if not tape.preserves_values:
        count = len(tape.operations)
        late = [event for event in tape.outside_writes if event.at == count and not event.settled]
        places = list(dict.fromkeys(names.of(event.array) + _place(event) for event in late))
        if places:
            notes.append(f"written after the tape recorded, before backward: {', '.join(places)}")
    return notes


def _place(event: OutsideWrite) -> str:
    """Return the place of a write off the tape in the user's source, in brackets."""
    if event.call_site is None:
        return " (through NumPy, or another library that shares its memory)"
    return _at(event.call_site)


def _at(place: Place) -> str:
    return f" (at {display_file(place.file)}:{place.line})"


def _seeds(tape: RecordedTape, loss: Loss | None, names: Names) -> dict[Port, Floats]:
    given = loss
    if given is None:
        given = tape.seeds
        if not given:
            why = "the last backward began without a seed, or from zeros"
            why = why if tape.reverse_passes else "backward has not been called on this tape"
            raise GradcheckError(f"end_to_end: no loss is known: {why}", hint="pass loss=…")
    if is_array(given):
        given = {given: np.ones(given.shape)}
    if not isinstance(given, Mapping) or not all(map(is_array, given)):
        raise GradcheckError(
            f"end_to_end: the loss is an array, or {{array: seed}}; got {loss!r}",
            hint="pass the array of one element that the tape computes",
        )
    seeds: dict[Port, Floats] = {}
    for index, (array, seed) in enumerate(given.items()):
        name = names.of(array)
        if not tape.uses(array):
            raise GradcheckError(
                f"end_to_end: {name}, an array of shape {array.shape}, is not on the tape",
                hint="pass the array that a launch of this tape wrote",
            )
        target = port(index, name, array)
        values = np.asarray(seed.current() if is_array(seed) else seed, dtype=np.float64).ravel()
        if is_array(loss) and target.size != 1:
            raise GradcheckError(
                f"end_to_end: the loss must be a scalar; "
                f"got {name} of shape {array.shape}, {array.dtype_name}",
                hint="pass loss={array: seed} for another objective",
            )
        if values.size != target.size:
            raise GradcheckError(
                f"end_to_end: the seed of {name} has {values.size} values, the array has {target.size}",
                hint="pass a seed of the array's shape",
            )
        seeds[target] = values
    return seeds


def not_an_input(tape: RecordedTape, name: str, array: Array) -> str | None:
    """Return the reason for which an array is no input of the tape: an overwrite before any read; or None."""
    for operation in tape.operations:
        meets = [access for access in operation.accesses if arrays_overlap(access.array, array)]
        if any(access.reads for access in meets):
            return None
        if any(access.writes for access in meets):
            return f"{name} is written by launch {operation.index} before anything reads it: it is no input"
    return None


def leaves(tape: RecordedTape) -> list[Array]:
    """Arrays with a gradient whose values the tape reads before it writes them, by first use."""
    found: dict[Hashable, Array] = {}
    written: dict[Region, _Written] = {}
    for operation in tape.operations:
        accesses = operation.accesses
        for access in accesses:
            array, key = access.array, memory_key(access.array)
            if (
                not access.reads
                or key in found
                or operation.kind == "func"
                or obstacle("", array) is not None
            ):
                continue
            before = written.get(array.region)
            if before is None or not before.meets(array, key):
                found[key] = array
        for access in accesses:
            if access.writes:
                known = written.get(access.array.region)
                if known is None:
                    known = written[access.array.region] = _Written()
                known.add(access.array)
    return list(found.values())


class _Written:
    """The arrays of one region that a tape has written so far."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._keys: set[Hashable] = set()
        self._ranges = IntervalIndex()

    def add(self, array: Array) -> None:
        """Enter an array."""
        key = memory_key(array)
        if key not in self._keys:
            self._keys.add(key)
            self._ranges.add(array.start, array.stop, len(self._arrays))
            self._arrays.append(array)

    def meets(self, array: Array, key: Hashable) -> bool:
        """True if an array shares an element with one of them."""
        near = self._ranges.near(array.start, array.stop)
        return key in self._keys or any(arrays_overlap(array, self._arrays[number]) for number in near)


def uncovered(tape: RecordedTape) -> list[str]:
    """Return the reasons for which parts of a tape are not replayed, or have no adjoint."""
    notes = []
    for operation in tape.operations:
        unknown = operation.capability(Irreplayable)
        if unknown is not None:
            notes.append(unknown.reason())
        elif operation.active and not operation.has_adjoint:
            notes.append(f"launch {operation.index} ({operation.name}) has no adjoint: enable_backward=False")
    return notes


def _named(operation: Operation) -> str:
    kind = "record_func" if operation.kind == "func" else operation.name
    return f"{kind} (record {operation.index})"


class Names:
    """Names of a tape's arrays: the labels that were given, else those of the parameters they went to."""

    def __init__(self, tape: RecordedTape, labels: Labels | None = None) -> None:
        self._by_range: dict[Any, str] = {}
        for array, label in (labels or {}).items():
            self._by_range.setdefault(_range(array), label)
        taken = set(self._by_range.values())
        for record in tape.operations:
            for p, array in enumerate(record.args):
                if is_array(array) and _range(array) not in self._by_range:
                    name = record.param_name(p)
                    unique = next(n for n in _numbered(name) if n not in taken)
                    taken.add(unique)
                    self._by_range[_range(array)] = unique
        self._arrays: dict[str, Any] = {}
        for record in tape.operations:
            for array in record.args:
                if is_array(array):
                    self._arrays.setdefault(self._by_range[_range(array)], array)

    def of(self, array: object) -> str:
        """The name of an array."""
        if not is_array(array):
            raise GradcheckError(f"an array is needed here; got {array!r} ({type(array).__name__})")
        return self._by_range.get(_range(array), f"array{array.shape}")

    def array(self, name: str) -> Any:
        """The array with a name, or None."""
        return self._arrays.get(name)

    def all(self) -> list[str]:
        """All names, in the order of first use."""
        return list(self._arrays)


def _range(array: Array) -> tuple[Any, ...]:
    if array.is_contiguous:
        return (id(array.region), array.start, array.stop)
    return (id(array.region), array.start, array.shape, array.strides)


def _numbered(name: str) -> Any:
    yield name
    number = 2
    while True:
        yield f"{name}#{number}"
        number += 1
