"""Runs the real `Tape.backward` on arrays, as a user's program does, instead of a replay."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.lang.types import numpy_dtype, value_shape
from tapedebug.runtime.isolation import private_tapes
from tapedebug.runtime.launch.launch_python import run_operation
from tapedebug.runtime.launch.python_operation import operation_of
from tapedebug.runtime.memory.array import array, make
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.factory import zeros_like
from tapedebug.runtime.memory.transfer import copy
from tapedebug.runtime.state import state
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape
from tapedebug.runtime.tape.tape_arrays import include_array, launch_again

ONE_AT_A_TIME = threading.RLock()
"""The lock for recording: a process records one tape at a time, and workers may be its threads."""


class TapeBackward:
    """The records of a program on a tape of their own, with private copies of all arrays.

    Args:
        program: The program to run, from its initial values.
        without: Outputs that get no gradient: their `.grad` is None.
    """

    def __init__(self, program: ShadowProgram, without: Collection[Port] = ()) -> None:
        self.program = program
        shadow = program.standing()
        self.records = shadow.records
        self._begin = {buffer: mine.data for buffer, mine in shadow.space.buffers.items()}
        self._without = {id(port.array) for port in without}
        self._buffers: dict[Buffer, Buffer] = {}
        self._arrays: dict[int, array] = {}

    def run(self, seeds: Mapping[Port, Floats]) -> dict[Port, array]:
        """Run forward and backward; return the gradient array of each input."""
        with ONE_AT_A_TIME, private_tapes():
            tape = Tape(on_overwrite="preserve")
            with tape:
                for record in self.records:
                    self._again(record, tape)
            for port in (*self.program.inputs, *self.program.outputs):
                include_array(tape, self.mine(port.array))
            grads = {self.mine(p.array): self._shaped(p, seed) for p, seed in seeds.items()}
            tape.backward(grads=grads)
            return {p: self._gradient(p) for p in self.program.inputs}

    def mine(self, a: array) -> array:
        """Return the private copy of one of the user's arrays."""
        if id(a) not in self._arrays:
            if a.region not in self._buffers:
                memory = self._buffers[a.region] = Buffer.allocate(a.region.nbytes)
                memory.data[:] = self._begin[a.region]
            memory = self._buffers[a.region]
            mine = make(memory, memory.address + a.offset, a.dtype, a.shape, a.strides, like=a)
            if id(a) in self._without:
                mine.requires_grad = False
            self._arrays[id(a)] = mine
        return self._arrays[id(a)]

    def _gradient(self, port: Port) -> array:
        mine = self.mine(port.array)
        return mine.grad if mine.grad is not None else zeros_like(mine)  # no launch uses it

    def _shaped(self, port: Port, seed: Floats) -> Any:
        return seed.reshape(port.shape).astype(numpy_dtype(port.array.dtype).base)

    def _again(self, record: Record, tape: Tape) -> None:
        args = tuple(self.mine(a) if isinstance(a, array) else a for a in record.args)
        if record.kind == "copy":
            copy(args[0], args[1])
        elif record.kind == "python":
            run_operation(operation_of(record).on(args), record.site)
        elif record.kind == "fill":
            value = np.frombuffer(record.value, dtype=numpy_dtype(args[0].dtype).base)
            args[0].fill_(value.reshape(value_shape(args[0].dtype)) if value.size > 1 else value[0])
        else:
            launch_again(tape, record, args)


def obstacle_to_backward(program: ShadowProgram) -> str | None:
    """Return the reason why the records cannot run again unchanged; None if they can."""
    if program.engine:
        return f"{program.engine} runs its reverse pass on the program's own arrays only"
    shadow = program.standing()
    if shadow.uncovered:
        return shadow.uncovered[0]
    if not shadow.records:
        return "nothing was launched"
    if state.moment is not None:
        return "the arrays are those of another time"
    outside = [record.index for record in shadow.records if shadow.written_outside(record.index)]
    if outside:
        return f"something outside of the tape wrote before record {outside[0]}"
    return None
