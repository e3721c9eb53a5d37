"""The contract between the debugger and the engine that ran a program. It imports nothing of either.

`program` has the core: arrays, operations, recorded tapes and replays, which every engine provides. The other
modules have capabilities: optional information and functions of an engine. The debugger queries each with
`tape.capability(Float64)` or `operation.capability(KernelSource)`. An engine returns None for those that it
lacks; the coverage then lists what was not examined.

| module | capabilities |
| --- | --- |
| `replay_variants` | replays in float64, with tangents, of one operation, in another order, … |
| `source` | the source of operations and of their adjoints |
| `arguments` | numbers among the arguments, and calls as the source writes them |
| `custom_gradients` | gradients that the user wrote, of functions that kernels call |
| `threads` | threads that are followed one by one |
| `thread_scheduling` | threads that run in another order |
| `element_tracking` | accesses of threads, element by element |
| `value_storage` | memory for copies of values |
| `frames` | numbers in the functions of the program |
| `history` | reverse passes, reads and writes around a tape |
| `program_arrays` | arrays as the program has them |
| `engine_coverage` | the ways in which operations run again |
| `warp_semantics` | reverse passes as NVIDIA Warp would run them |

All names can be imported from this package. A module loads when one of its names is first used: a program
without a debugger loads `frames` only.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapedebug.contract.arguments import CallArguments as CallArguments
    from tapedebug.contract.arguments import NumberArguments as NumberArguments
    from tapedebug.contract.custom_gradients import AdjointWrite as AdjointWrite
    from tapedebug.contract.custom_gradients import BypassedGradient as BypassedGradient
    from tapedebug.contract.custom_gradients import CheckedCall as CheckedCall
    from tapedebug.contract.custom_gradients import CustomCall as CustomCall
    from tapedebug.contract.custom_gradients import CustomFunction as CustomFunction
    from tapedebug.contract.custom_gradients import CustomGradients as CustomGradients
    from tapedebug.contract.custom_gradients import NativeCall as NativeCall
    from tapedebug.contract.custom_gradients import PartialDerivative as PartialDerivative
    from tapedebug.contract.element_tracking import AccessConflict as AccessConflict
    from tapedebug.contract.element_tracking import AccessKind as AccessKind
    from tapedebug.contract.element_tracking import ElementConflicts as ElementConflicts
    from tapedebug.contract.element_tracking import ElementQuery as ElementQuery
    from tapedebug.contract.element_tracking import ElementTracking as ElementTracking
    from tapedebug.contract.element_tracking import Mask as Mask
    from tapedebug.contract.element_tracking import OutOfBoundsAccess as OutOfBoundsAccess
    from tapedebug.contract.element_tracking import SuspectLaunches as SuspectLaunches
    from tapedebug.contract.element_tracking import ThreadAccess as ThreadAccess
    from tapedebug.contract.engine_coverage import EngineCoverage as EngineCoverage
    from tapedebug.contract.frames import FrameValues as FrameValues
    from tapedebug.contract.frames import Length as Length
    from tapedebug.contract.history import Arrivals as Arrivals
    from tapedebug.contract.history import ArrivedArray as ArrivedArray
    from tapedebug.contract.history import ConsumedGradients as ConsumedGradients
    from tapedebug.contract.history import EarlierRecording as EarlierRecording
    from tapedebug.contract.history import EarlierRecordings as EarlierRecordings
    from tapedebug.contract.history import EventKind as EventKind
    from tapedebug.contract.history import History as History
    from tapedebug.contract.history import HistoryEvent as HistoryEvent
    from tapedebug.contract.history import OutsideRead as OutsideRead
    from tapedebug.contract.history import OutsideReads as OutsideReads
    from tapedebug.contract.history import OverwrittenOutside as OverwrittenOutside
    from tapedebug.contract.history import RecordingGaps as RecordingGaps
    from tapedebug.contract.history import SharedGradient as SharedGradient
    from tapedebug.contract.history import SharedGradients as SharedGradients
    from tapedebug.contract.history import Stack as Stack
    from tapedebug.contract.history import UnrecordedLaunch as UnrecordedLaunch
    from tapedebug.contract.history import UnrecordedLaunches as UnrecordedLaunches
    from tapedebug.contract.history import ValueSamples as ValueSamples
    from tapedebug.contract.program import A as A
    from tapedebug.contract.program import Access as Access
    from tapedebug.contract.program import AccessSets as AccessSets
    from tapedebug.contract.program import Array as Array
    from tapedebug.contract.program import Consume as Consume
    from tapedebug.contract.program import Engine as Engine
    from tapedebug.contract.program import Kind as Kind
    from tapedebug.contract.program import OnReplay as OnReplay
    from tapedebug.contract.program import Operation as Operation
    from tapedebug.contract.program import OutsideWrite as OutsideWrite
    from tapedebug.contract.program import Place as Place
    from tapedebug.contract.program import RecordedTape as RecordedTape
    from tapedebug.contract.program import Region as Region
    from tapedebug.contract.program import Replay as Replay
    from tapedebug.contract.program import ReversePass as ReversePass
    from tapedebug.contract.program import Scope as Scope
    from tapedebug.contract.program import Seeds as Seeds
    from tapedebug.contract.program import Values as Values
    from tapedebug.contract.program import arrays_overlap as arrays_overlap
    from tapedebug.contract.program import is_array as is_array
    from tapedebug.contract.program import is_recorded_tape as is_recorded_tape
    from tapedebug.contract.program import memory_key as memory_key
    from tapedebug.contract.program import regions_of as regions_of
    from tapedebug.contract.program import share_bytes as share_bytes
    from tapedebug.contract.program import view_of as view_of
    from tapedebug.contract.program_arrays import ArrayMemory as ArrayMemory
    from tapedebug.contract.program_arrays import ArrayOrigins as ArrayOrigins
    from tapedebug.contract.program_arrays import LiveArrays as LiveArrays
    from tapedebug.contract.program_arrays import ProgramArrays as ProgramArrays
    from tapedebug.contract.program_arrays import from_program as from_program
    from tapedebug.contract.replay_variants import Confinement as Confinement
    from tapedebug.contract.replay_variants import Copy as Copy
    from tapedebug.contract.replay_variants import Float64 as Float64
    from tapedebug.contract.replay_variants import Irreplayable as Irreplayable
    from tapedebug.contract.replay_variants import LocalReplays as LocalReplays
    from tapedebug.contract.replay_variants import NoTangents as NoTangents
    from tapedebug.contract.replay_variants import Recording as Recording
    from tapedebug.contract.replay_variants import Repeatability as Repeatability
    from tapedebug.contract.replay_variants import ReplayReuse as ReplayReuse
    from tapedebug.contract.replay_variants import Rerecording as Rerecording
    from tapedebug.contract.replay_variants import Resequencing as Resequencing
    from tapedebug.contract.replay_variants import SecondOrder as SecondOrder
    from tapedebug.contract.replay_variants import SecondOrderReplay as SecondOrderReplay
    from tapedebug.contract.replay_variants import SingleReplay as SingleReplay
    from tapedebug.contract.replay_variants import StaleReads as StaleReads
    from tapedebug.contract.replay_variants import TangentReplay as TangentReplay
    from tapedebug.contract.replay_variants import Tangents as Tangents
    from tapedebug.contract.source import GradientStop as GradientStop
    from tapedebug.contract.source import HandWrittenAdjoint as HandWrittenAdjoint
    from tapedebug.contract.source import KernelOperations as KernelOperations
    from tapedebug.contract.source import KernelSource as KernelSource
    from tapedebug.contract.source import LibraryAdjoint as LibraryAdjoint
    from tapedebug.contract.source import Parameter as Parameter
    from tapedebug.contract.source import SourceAccess as SourceAccess
    from tapedebug.contract.source import SourceOperation as SourceOperation
    from tapedebug.contract.source import SourceText as SourceText
    from tapedebug.contract.thread_scheduling import RunThreads as RunThreads
    from tapedebug.contract.thread_scheduling import ThreadSchedule as ThreadSchedule
    from tapedebug.contract.thread_scheduling import ThreadScheduling as ThreadScheduling
    from tapedebug.contract.threads import CannotFollow as CannotFollow
    from tapedebug.contract.threads import FollowedThread as FollowedThread
    from tapedebug.contract.threads import LocalDerivative as LocalDerivative
    from tapedebug.contract.threads import NonfiniteOperation as NonfiniteOperation
    from tapedebug.contract.threads import Threads as Threads
    from tapedebug.contract.value_storage import Retention as Retention
    from tapedebug.contract.value_storage import StoredLoop as StoredLoop
    from tapedebug.contract.value_storage import StoredLoops as StoredLoops
    from tapedebug.contract.value_storage import overwrite_mode as overwrite_mode
    from tapedebug.contract.warp_semantics import ReverseDivergence as ReverseDivergence
    from tapedebug.contract.warp_semantics import StructChanges as StructChanges
    from tapedebug.contract.warp_semantics import WarpReverse as WarpReverse
else:
    _MODULES = (
        "program",
        "frames",
        "replay_variants",
        "source",
        "arguments",
        "custom_gradients",
        "threads",
        "thread_scheduling",
        "element_tracking",
        "value_storage",
        "history",
        "program_arrays",
        "engine_coverage",
        "warp_semantics",
    )

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):
            for module in _MODULES:
                found = import_module(f"{__name__}.{module}")
                if name in vars(found):
                    globals()[name] = vars(found)[name]
                    return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
