"""Replays: the recorded forward and reverse pass again, in private memory, with any inputs replaced.

All checks run here. The arrays of the user are read once, when the shadow is made, and never written;
nothing has to be restored, whatever interrupts a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from tapedebug._errors import TapeError
from tapedebug.lang import types
from tapedebug.runtime._reverse import Step, Table
from tapedebug.runtime._shadow_memory import ShadowBuffer, ShadowSpace
from tapedebug.runtime.array import array
from tapedebug.runtime.launch import launch_dims, packed_for, resolve
from tapedebug.runtime.ledger import Need
from tapedebug.runtime.plan import KernelPlan, Runner
from tapedebug.runtime.record import Record, call_site
from tapedebug.runtime.versions import Tracker

Values = np.ndarray[Any, Any]
OnLaunch = Callable[[Record], Any]
Consume = Literal["versions", "current"]


class Shadow:
    """A private copy of everything that a tape touches, which runs the tape's records.

    A new shadow stands before the first record (`position` 0), with the values that the tape found. Shadows
    of float64 hold float32 arrays as float64 and run the kernels' float64 twins.

    Args:
        tracker: Of the tape.
        dtype: `float64` for the twin; None for the program as it is.

    Attributes:
        position: The index of the record that runs next.
        uncovered: Why parts cannot be replayed; empty where everything can.

    Raises:
        TapeError: In float64, where one buffer is used both as float32 and as another type.
    """

    def __init__(self, tracker: Tracker, dtype: Any = None) -> None:
        self.f64 = _is_double(dtype)
        self.records: list[Record] = list(tracker.records)
        self.position = 0
        self.uncovered = _uncovered(self.records)
        # The tables of packed arguments refer to the space, and the space to no table: a shadow that is
        # dropped goes away at once, with all its memory.
        self.space = ShadowSpace(tracker, self.f64)
        self._buffers = self.space.buffers
        self._inputs: dict[array, Values] = {}
        self._saves = self._plan_saves(tracker)
        self._forward = self._forward_table()
        self._tables: dict[tuple[str, int], tuple[Table, dict[int, Step]]] = {}
        self._injections: dict[int, list[ShadowBuffer]] = {}
        for buffer in self._buffers.values():
            for at in buffer.injections:
                self._injections.setdefault(at, []).append(buffer)

    @classmethod
    def for_launch(
        cls,
        kernel: Any,
        dim: Any,
        args: Sequence[Any],
        dtype: Any = None,
        active: frozenset[int] | None = None,
    ) -> Shadow:
        """A shadow of one launch that is on no tape; nothing runs yet.

        Args:
            kernel: A kernel.
            dim: As for `launch`.
            args: All arguments, inputs and outputs.
            dtype: As for the class.
            active: Parameters that have a gradient; by default the float arrays with `requires_grad`.

        Raises:
            LaunchError: The arguments do not fit the kernel.
        """
        plan, checked = resolve(kernel, tuple(args))
        if active is not None and active != plan.active:
            plan = KernelPlan(kernel, checked, plan.packers, active)
        sizes, threads, slots = launch_dims(kernel, dim)
        tracker = Tracker("preserve", dry=True)
        record = Record(0, plan, checked, sizes, threads, packed_for(plan, checked, slots), call_site(), None)
        tracker.before(record)
        tracker.records.append(record)
        return cls(tracker, dtype)

    # -- values ---------------------------------------------------------------------------------------

    def values(self, a: array) -> Values:
        """A copy of the values of `a` now, of its shape plus the vector dimension.

        Raises:
            TapeError: The tape does not use the array's memory.
        """
        return self._buffer(a).view(a).copy()

    def set(self, a: array, values: Any) -> None:
        """Replace the values of `a`; before the first record as an input, which outlasts `forward(0)`."""
        buffer = self._buffer(a)
        wanted = buffer.view(a).shape
        found = np.asarray(values)
        if found.shape != wanted:
            raise TapeError(
                f"replay: the values for the array{a._facts()} have shape {found.shape}, not {wanted}",
                mend=f"pass values of shape {wanted}",
            )
        if self.position == 0:
            self._inputs.pop(a, None)  # the last one set wins where inputs overlap
            self._inputs[a] = found.copy()
        buffer.view(a)[...] = found

    def gradient(self, a: array) -> Values:
        """A copy of the adjoint of `a` after `backward`, of its shape plus the vector dimension."""
        buffer = self._buffer(a)
        if buffer.adjoint is None:
            return np.zeros_like(buffer.view(a))
        return buffer.view(a, adjoint=True).copy()

    def matches_live(self) -> bool:
        """Whether what this replay computed is, bit for bit, what the arrays of the user hold.

        Ranges that something outside the tape wrote since are left out.
        """
        for buffer, mine in self._buffers.items():
            for a in mine.written:
                if not np.array_equal(mine.view(a), a._look(), equal_nan=types.is_float(a.dtype)):
                    return False
            assert buffer is mine.buffer
        return True

    # -- running --------------------------------------------------------------------------------------

    def forward(self, start: int = 0, stop: int | None = None, on_launch: OnLaunch | None = None) -> Shadow:
        """Run records `start … stop-1`.

        Args:
            start: 0 starts over with the tape's values and the inputs that were set; else it is `position`.
            stop: By default the end of the tape.
            on_launch: Called with each record after it ran.

        Returns:
            This shadow.

        Raises:
            TapeError: `start` is neither 0 nor `position`.
        """
        last = len(self.records) if stop is None else min(stop, len(self.records))
        if start == 0:
            self._restart()
        elif start != self.position:
            raise TapeError(
                f"replay: cannot run from record {start}: the shadow stands before record {self.position}",
                mend=f"start at {self.position}, or at 0",
            )
        for record, (run, address) in zip(
            self.records[start:last], self._forward[1][start:last], strict=True
        ):
            index = record.index
            for need, buffer in self._saves.get(index, ()):
                self._keep(need, buffer)
            for buffer in self._injections.get(index, ()):
                buffer.inject(index)
            for scratch in record.scratch:
                buffer = self._buffers[record.args[scratch.params[0]].buffer]
                self.space.scratches[scratch] = buffer.range(scratch.start, scratch.stop).copy()
            run(0, record.threads, address)
            self.position = index + 1
            if on_launch is not None:
                on_launch(record)
        return self

    def backward(
        self,
        seeds: Mapping[array, Any] | None,
        consume: Consume = "versions",
        start: int | None = None,
        stop: int = 0,
        on_launch: OnLaunch | None = None,
    ) -> Shadow:
        """Run the adjoints of records `start-1 … stop`, after `forward`.

        Args:
            seeds: Incoming adjoints; all others are zero. None goes on with the adjoints of the call before.
            consume: `"versions"`: adjoints see the values of the forward pass. `"current"`: they see what
                memory
                holds now, as with `on_overwrite="ignore"`.
            start: By default `position`.
            stop: The earliest record.
            on_launch: Called with each record after its adjoint ran (also where it has none).

        Returns:
            This shadow.

        Raises:
            TapeError: `start` lies after `position`, or a seed does not fit its array.
        """
        first = self.position if start is None else start
        if first > self.position:
            raise TapeError(
                f"replay: cannot run backward from record {first}: forward has run {self.position} records",
                mend="run forward further first",
            )
        if seeds is not None:
            self._seed(seeds)
        steps = self._steps(consume)
        with self._late_writes(consume):
            for record in reversed(self.records[stop:first]):
                step = steps.get(record.index)
                if step is not None:
                    step[1](0, step[2], step[3])
                if on_launch is not None:
                    on_launch(record)
        return self

    @contextmanager
    def _late_writes(self, consume: Consume) -> Iterator[None]:
        """Meanwhile memory is as the reverse pass of the user found it, after writes off the tape, too."""
        late = [buffer for buffer in self._buffers.values() if buffer.late]
        if consume != "current" or self.position < len(self.records) or not late:
            yield
            return
        before = [(buffer, buffer.data.copy()) for buffer in late]
        for buffer in late:
            buffer.inject_late()
        try:
            yield
        finally:
            for buffer, data in before:
                buffer.data[:] = data

    # -- how ------------------------------------------------------------------------------------------

    def _buffer(self, a: Any) -> ShadowBuffer:
        found = self._buffers.get(a.buffer) if isinstance(a, array) else None
        if found is None:
            told = f"the array{a._facts()}" if isinstance(a, array) else repr(a)
            raise TapeError(
                f"replay: {told} is not on the tape", mend="pass an array that a recorded launch uses"
            )
        return found

    def _restart(self) -> None:
        if self.position:
            for buffer in self._buffers.values():
                buffer.restart()
            self.position = 0
        for a, values in self._inputs.items():
            self._buffer(a).view(a)[...] = values

    def _seed(self, seeds: Mapping[array, Any]) -> None:
        for buffer in self._buffers.values():
            if buffer.adjoint is not None:
                buffer.adjoint.fill(0)
        for a, values in seeds.items():
            buffer = self._buffer(a)
            buffer.gradient()
            view = buffer.view(a, adjoint=True)
            found = np.asarray(values)
            if found.shape != view.shape:
                raise TapeError(
                    f"replay: the seed of the array{a._facts()} has shape {found.shape}, not {view.shape}",
                    mend=f"pass values of shape {view.shape}",
                )
            view[...] = found

    def _plan_saves(self, tracker: Tracker) -> dict[int, list[tuple[Need, ShadowBuffer]]]:
        """Before which record which needed values must be kept."""
        saves: dict[int, list[tuple[Need, ShadowBuffer]]] = {}
        for buffer, ledger in tracker.ledgers.items():
            for need in ledger.needs:
                if need.clobber is not None and need.clobber < len(self.records):
                    saves.setdefault(need.clobber, []).append((need, self._buffers[buffer]))
        return saves

    def _keep(self, need: Need, buffer: ShadowBuffer) -> None:
        now = buffer.range(need.start, need.stop)
        kept = self.space.copies.get(need)
        if kept is None:
            self.space.copies[need] = now.copy()
        else:
            kept[:] = now

    def _forward_table(self) -> tuple[Any, list[tuple[Runner, int]]]:
        table = Table(self.records, self.space)
        calls: list[tuple[Runner, int]] = []
        for record in self.records:
            if record.kind == "kernel":
                calls.append((record.plan.forward_run(self.f64), table.forward(record)))
            else:
                calls.append((_forward_special(record, self.space), 0))
        return table, calls

    def _steps(self, consume: Consume) -> dict[int, Step]:
        if consume not in {"versions", "current"}:
            raise TapeError(
                f"replay: consume is 'versions' or 'current'; got {consume!r}", mend="use one of these"
            )
        for record in self.records:
            for p in record.plan.active:
                self._buffer(record.args[p]).gradient()
        key = (consume, self.position)
        if key not in self._tables:
            self.space.current = consume == "current"
            self.space.position = self.position
            table = Table(self.records, self.space)
            self._tables = {key: (table, {step[0].index: step for step in table.steps(self.records)})}
        return self._tables[key][1]


def _forward_special(record: Record, space: ShadowSpace) -> Runner:
    """The forward run of a copy, a fill or a custom function."""
    if record.kind == "func":
        return lambda lo, hi, where: None
    dest = space.value_view(record.args[0])
    if record.kind == "copy":
        src = space.value_view(record.args[1])
        if record.args[0].buffer is record.args[1].buffer:
            return lambda lo, hi, where: np.copyto(dest, src.copy())
        return lambda lo, hi, where: np.copyto(dest, src)
    value = np.frombuffer(record.value, dtype=types.numpy_dtype(record.args[0].dtype))
    item = value.reshape(types.value_shape(record.args[0].dtype))
    return lambda lo, hi, where: np.copyto(dest, item)


def _is_double(dtype: Any) -> bool:
    if dtype is None or dtype is float:
        return False
    try:
        found = types.canonical(dtype)
    except TypeError:
        found = None
    if found not in types.FLOATS:
        raise TapeError(
            f"replay: dtype is None or float64; got {dtype!r}", mend="pass dtype=float64, or leave it out"
        )
    return found is types.float64


def _uncovered(records: list[Record]) -> list[str]:
    reasons = []
    for record in records:
        if record.kind == "func":
            reasons.append(
                f"record {record.index} is a custom function ({record.name}), which is not replayed"
            )
        elif record.kernel is not None and record.info is None and record.plan.active:
            reasons.append(f"launch {record.index} ({record.name}) has no adjoint: enable_backward=False")
    return reasons
