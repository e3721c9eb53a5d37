"""Second derivatives of tapes: adjoints together with their tangents, in the private memory of a shadow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapedebug._errors import TapeError
from tapedebug.contract import A, Array
from tapedebug.runtime.launch.call_list import CallList
from tapedebug.runtime.launch.plan import LaunchPlan, Runner
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.buffer import Bytes
from tapedebug.runtime.replay.shadow import Shadow, Values
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Columns, reverse_special
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker


class SecondShadow(Shadow):
    """A shadow that differentiates its own reverse pass.

    `push` runs forward with the tangents of the values; `pull` then runs backward, with adjoints and the
    tangents of adjoints. Both stop where gradients do, at arrays without `requires_grad`.

    Args:
        tracker: The tracker of the tape.
        dtype: As for `Shadow`.
    """

    def __init__(self, tracker: Tracker, dtype: Any = None) -> None:
        super().__init__(tracker, dtype)
        self._dot_copies: dict[SavedValue, Bytes] = {}
        self._dot_inplace_values: dict[InplaceSave, Bytes] = {}

    def pull(self, seeds: Mapping[A, Any]) -> SecondShadow:
        """Run the adjoints of all records that ran, with their tangents, after `push(…, detached=True)`.

        Args:
            seeds: Incoming adjoints, which are constant; all others are zero.

        Returns:
            This shadow; `gradient` has the adjoints, `gradient_tangent` their tangents.

        Raises:
            TapeError: A seed does not fit its array.
        """
        self._seed(seeds)
        for buffer in self._buffers.values():
            if buffer.adjoint_tangent is not None:
                buffer.adjoint_tangent.fill(0)
        self.space.current, self.space.position = False, self.position
        table = _SecondTable(self.records, self.space, self._dot_copies, self._dot_inplace_values)
        steps = table.steps(self.records[: self.position]).backwards()
        CallList(steps.runs, steps.threads, steps.addresses).run()
        return self

    def gradient_tangent(self, a: Array, /) -> Values:
        """Return a copy of the tangent of the adjoint of `a` after `pull`, shaped as `gradient`."""
        a = self._own(a)
        return self._buffer(a).adjoint_dots(a).copy()

    def _keep(self, need: SavedValue, buffer: ShadowBuffer) -> None:
        super()._keep(need, buffer)
        if buffer.tangent is not None:
            self._dot_copies[need] = buffer.range(need.start, need.stop, buffer.tangent).copy()

    def _keep_inplace_save(self, record: Record, save: InplaceSave) -> None:
        super()._keep_inplace_save(record, save)
        buffer = self._buffers[record.args[save.params[0]].buffer]
        if buffer.tangent is not None:
            self._dot_inplace_values[save] = buffer.range(save.start, save.stop, buffer.tangent).copy()


class _SecondTable(ArgumentTable):
    """The packed arguments of a reverse pass with tangents: each record has two more pointers per array."""

    alone = False

    def __init__(
        self,
        records: list[Record],
        space: ShadowSpace,
        copies: dict[SavedValue, Bytes],
        inplace_values: dict[InplaceSave, Bytes],
    ) -> None:
        self.shadow = space
        self.dot_copies = copies
        self.dot_inplace_values = inplace_values
        super().__init__(records, space)

    def _packed(self, record: Record) -> bytes:
        layout = record.kernel.layout
        return record.packed[: layout.size] + bytes(16 * layout.arrays)  # without the print buffer's address

    def _entry(
        self, plan: LaunchPlan, replay: frozenset[int], memory: frozenset[int], shared: bool = False
    ) -> Runner:
        return plan.adjoint_tangent_run(replay, self.space.f64, shared)

    def _special(self, record: Record) -> Runner:
        adjoints = super()._special(record)
        if record.kind == "func":
            return adjoints
        if record.kind == "python":
            raise TapeError(
                f"replay: record {record.index} ({record.name}) is a Python operation, which has no second "
                "derivative",
                hint="differentiate the part of the tape before or after it, or write it as a kernel",
            )
        moved = reverse_special(record, lambda a: self.shadow.buffers[a.buffer].adjoint_dots(a))

        def both(lo: int, hi: int, where: int) -> None:
            adjoints(lo, hi, where)
            moved(lo, hi, where)

        return both

    def _fill(self, plan: LaunchPlan, records: list[Record], columns: Columns) -> None:
        super()._fill(plan, records, columns)
        for record in records:
            self._dot(plan, record)

    def _dot(self, plan: LaunchPlan, record: Record) -> None:
        layout, base = plan.kernel.layout, self.base[record.index]
        for p, _ in plan.adjoint_slots:
            a = record.args[p]
            buffer = self.shadow.buffers[a.buffer]
            self.words[base + layout.dots[p]] = buffer.dot_address(a)
            self.words[base + layout.adjoint_dots[p]] = buffer.adjoint_dot_address(a)
        for (p, _), need in zip(plan.needed_slots, record.needs, strict=True):
            copy = self.dot_copies.get(need)
            if p in plan.active and copy is not None and self.shadow.preserved(record, need) is not None:
                place = self._address_of_copy(copy) + self.space.offset(record.args[p], need.start)
                self.words[base + layout.dots[p]] = place

    def _replaying(self, record: Record, base: int) -> tuple[Runner, int]:
        """Return an adjoint that repeats stores, into copies of the values and of their tangents."""
        values, address = super()._replaying(record, base)
        dots = record.plan.kernel.layout.dots

        def run(lo: int, hi: int, where: int) -> None:
            copies = []
            for save in record.inplace_saves:
                copy = self.dot_inplace_values[save].copy()
                copies.append(copy)
                for p in save.params:
                    if p in record.plan.active:
                        place = address_of(copy) + self.space.offset(record.args[p], save.start)
                        self.words[base + dots[p]] = place
            values(lo, hi, where)

        return run, address
