"""Tapes of executable operations, with which an engine gives the debugger a tape that it can replay.

An engine describes each step as an `ExecutableOperation` and records it on an `OperationTape`; replays,
outside writes and reverse passes are implemented here. `tests/reference_engine.py` is an example.
"""

from __future__ import annotations

from tapedebug.operations.array import HostArray as HostArray
from tapedebug.operations.function_source import FunctionSource as FunctionSource
from tapedebug.operations.memory import Memory as Memory
from tapedebug.operations.memory import Region as Region
from tapedebug.operations.narrowed import NarrowedStep as NarrowedStep
from tapedebug.operations.narrowed import NarrowMemory as NarrowMemory
from tapedebug.operations.operation import ExactAdjoint as ExactAdjoint
from tapedebug.operations.operation import ExecutableOperation as ExecutableOperation
from tapedebug.operations.operation import HostOperation as HostOperation
from tapedebug.operations.operation import ProgramReverse as ProgramReverse
from tapedebug.operations.operation import PushesTangents as PushesTangents
from tapedebug.operations.operation import ReadsStoredValues as ReadsStoredValues
from tapedebug.operations.operation import RunsInFloat64 as RunsInFloat64
from tapedebug.operations.operation import Step as Step
from tapedebug.operations.operation import caller_place as caller_place
from tapedebug.operations.recorded_memory import SnapshotBudget as SnapshotBudget
from tapedebug.operations.replay import OperationReplay as OperationReplay
from tapedebug.operations.replayable_function import FunctionOperation as FunctionOperation
from tapedebug.operations.replayable_function import ReplayableFunction as ReplayableFunction
from tapedebug.operations.tangent_replay import OperationTangentReplay as OperationTangentReplay
from tapedebug.operations.tape import OperationTape as OperationTape
