"""The recorder of a watched program: what each intercepted call of a function of Warp adds to tapes."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from types import FrameType, FunctionType
from typing import Any, TypeVar

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._interception import Handler
from tapedebug._source import Site, Span, display_file
from tapedebug._tape_observers import link, notify
from tapedebug._tape_retention import TapeRetention
from tapedebug.contract import Array, Engine, Values, share_bytes
from tapedebug.operations import (
    ExecutableOperation,
    FunctionOperation,
    ReplayableFunction,
    SnapshotBudget,
)
from tapedebug.watch.arguments import Arguments, Leaf, frozen
from tapedebug.watch.builtin_operations import CopyOperation, FillOperation, OpaqueFunction
from tapedebug.watch.call_site import CallPlace, is_user, place_in, user_frame, user_place
from tapedebug.watch.earlier_launches import EarlierLaunch, EarlierLaunches
from tapedebug.watch.handles import Handles
from tapedebug.watch.hooks import WarpObject, binder, is_capturing, look_up
from tapedebug.watch.host_transfers import host_place
from tapedebug.watch.kernel_accesses import Use
from tapedebug.watch.kernel_source import KernelUses
from tapedebug.watch.launch import LaunchForm, LaunchTemplate, WarpLaunch
from tapedebug.watch.memory import MemoryMap, NotWatchable, WatchedArray, is_on_host
from tapedebug.watch.shared_history import SharedHistory
from tapedebug.watch.tape import Computed, WatchedTape
from tapedebug.watch.unwritten_memory import UnwrittenMemory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotCovered:
    """A part of the program that was not recorded.

    Attributes:
        what: The part, such as `launch of step`.
        place: The place in the program.
        reason: The reason, as a clause.
    """

    what: str
    place: Span
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.what} at {display_file(self.place.file)}:{self.place.line} is not covered: {self.reason}"
        )


class Recorder:
    """Records what Warp runs while a program is watched.

    Args:
        memory_budget: The number of bytes for copies of what tapes found; None for no limit.

    Attributes:
        not_covered: The parts of the program that were not recorded, with the number of times.
    """

    def __init__(self, memory_budget: int | None = None) -> None:
        self.budget = SnapshotBudget(memory_budget)
        self._runtime: WarpObject = None
        self.array: type[WarpObject] = look_up("warp:array")
        self.memory = MemoryMap()
        self.unwritten = UnwrittenMemory()
        self.sees_all_arrays = self.runtime is None
        self.objects = Handles()
        self.arguments = Arguments(self.memory, self.objects)
        self.uses = KernelUses()
        self.history = SharedHistory()
        self.earlier = EarlierLaunches(self.array)
        self._forms: dict[Hashable, LaunchForm] = {}
        self._bind_launch: Callable[..., tuple[Any, ...]] | None = None
        self.retention = TapeRetention()
        self.not_covered: dict[NotCovered, int] = {}
        self.accumulates = "dest_retain_grad" in _parameters(look_up("warp._src.context:adj_copy"))
        version = str(look_up("warp:config.version")).split(".")
        self.swaps_offsets = [int(part) for part in version[:2]] < [1, 15]  # see `CopyOperation`
        self._current: tuple[WarpObject, WatchedTape | None] = (None, None)
        self._tapes: weakref.WeakKeyDictionary[Any, WatchedTape] = weakref.WeakKeyDictionary()
        self._uncovered: weakref.WeakSet[Any] = weakref.WeakSet()
        self._live: weakref.WeakSet[WatchedTape] = weakref.WeakSet()

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each intercepted function, by the keys of `hooks.INTERCEPTED`."""
        return {
            "launch": self.launch,
            "command": self.command,
            "copy": self.copy,
            "empty": self.empty,
            "empty_like": self.empty,
            "array_interface": self.array_interface,
            "fill": self.fill,
            "zero": self.zero,
            "fill_indexed": self.fill_indexed,
            "array": self.new_array,
            "gradient": self.gradient,
            "requires_grad": self.requires_grad,
            "array_sum": self.reduced,
            "array_inner": self.reduced,
            "read_numpy": self.read_numpy,
            "read_list": self.read_list,
            "read_torch": self.read_torch,
            "from_torch": self.from_torch,
            "capture_launch": self.capture_launch,
            "tape_enter": self.tape_enter,
            "tape_exit": self.tape_exit,
            "tape_backward": self.tape_backward,
            "tape_zero": self.tape_zero,
            "tape_reset": self.tape_reset,
            "tape_function": self.tape_function,
            "mesh": self.made,
            "bvh": self.made,
            "grid": self.made,
            "grid_build": self.grid_build,
            "scope_begin": self.scope_begin,
            "scope_end": self.scope_end,
        }

    # -- tapes ------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> WarpObject:
        """The runtime of Warp; None until the program has initialized Warp."""
        if self._runtime is None:
            self._runtime = look_up("warp._src.context:runtime")
        return self._runtime

    def recording(self) -> WatchedTape | None:
        """Return the tape that records; None if there is none, or it is not covered."""
        tape = None if self.runtime is None else self.runtime.tape
        if tape is None:
            return None
        if tape is self._current[0]:
            return self._current[1]
        found = self._tapes.get(tape)
        self._current = tape, found
        if found is None and tape not in self._uncovered:
            self._uncovered.add(tape)
            self.skip(None, "a tape", "it began to record before watching began")
        return found

    def tape_enter(self, original: FunctionType, tape: WarpObject) -> Any:
        """Begin to record with a tape."""
        result = original(tape)
        found = self._tapes.get(tape)
        if found is None:
            if tape.launches:
                self.recording()
                return result
            device = str(look_up("warp:get_device")())
            engine = Engine("NVIDIA Warp", str(look_up("warp:config.version")), device)
            found = self._tapes[tape] = WatchedTape(
                engine, self.memory, user_place(), self.budget, self.history, self.unwritten
            )
            found.sees_all_arrays = self.sees_all_arrays
            link(tape, found)
            self._live.add(found)
            self.retention.tape_created(found)
        found.begin()
        self._current = tape, found
        return result

    def tape_exit(self, original: FunctionType, tape: WarpObject, *error: object) -> Any:
        """End recording with a tape."""
        try:
            return original(tape, *error)
        finally:
            found = self._tapes.get(tape)
            self._current = None, None
            if found is not None and found.is_recording:
                with self.guarded(found, "the names of a tape's arrays"):
                    found.find_names(user_frame())
                with self.guarded(found, "launches before a tape"):
                    self._note_earlier(found, user_frame())
                with self.guarded(found, "the end of a tape"):
                    found.end()
                    self.retention.tape_exited(found)

    def tape_backward(
        self,
        original: FunctionType,
        tape: WarpObject,
        loss: WarpObject = None,
        grads: Mapping[WarpObject, WarpObject] | None = None,
    ) -> Any:
        """Note a reverse pass, with its seeds and the gradients that it leaves."""
        found = self._tapes.get(tape)
        if found is None and tape.launches and tape not in self._uncovered:
            self._uncovered.add(tape)
            self.skip(None, "a reverse pass", "its tape was recorded before watching began")
        if found is None or not found.operations or _is_capturing_now():
            return original(tape, loss, grads)
        place = user_place()
        with contextlib.ExitStack() as stack:
            with self.guarded(found, "a reverse pass"):
                found.note_gradients(grads or {})
                found.note_structs(self.arguments)
                seeds: dict[Array, Values] = {}
                target = None
                if loss:
                    target = self.memory.array_of(loss)
                    seeds[target] = np.ones((*target.shape, *target.element_shape))
                for array, seed in (grads or {}).items():
                    known = self.memory.array_of(array)
                    values = seed.numpy() if hasattr(seed, "numpy") else seed
                    seeds[known] = np.asarray(values).reshape(*known.shape, *known.element_shape)
                stack.enter_context(found.reverse_pass(seeds, target, place))
            result = original(tape, loss, grads)
            with self.guarded(found, "the gradients of a reverse pass"):
                found.note_consumed()
        self.retention.backward_done(found)
        return result

    def tape_zero(self, original: FunctionType, tape: WarpObject) -> Any:
        """Note that gradients of a tape are zeroed: those that its reverse passes have used."""
        found = self._tapes.get(tape)
        result = original(tape)
        if found is not None:
            with self.guarded(found, "zeroed gradients"):
                found.note_zeroed(user_place())
        return result

    def tape_reset(self, original: FunctionType, tape: WarpObject) -> Any:
        """Finish the recording of a tape: what it records next is another one."""
        found = self._tapes.get(tape)
        result = original(tape)
        if found is not None:
            with self.guarded(found, "a tape that is reset"):
                found.note_zeroed(user_place())
                notify("tape_reset", found)
                self.retention.tape_reset(found)
            del self._tapes[tape]
            self._current = None, None
        return result

    def tape_function(
        self, original: FunctionType, tape: WarpObject, backward: object, arrays: Sequence[WarpObject]
    ) -> Any:
        """Record a function that only runs in reverse."""
        found = self._tapes.get(tape)
        if found is not None and isinstance(backward, ReplayableFunction):
            return self._replayable(found, backward, lambda: original(tape, backward, arrays))
        result = original(tape, backward, arrays)
        if found is not None:
            name = getattr(backward, "__name__", type(backward).__name__)
            with self.guarded(found, f"record_func({name})"):
                known = [self.memory.array_of(array) for array in arrays]
                found.record(OpaqueFunction(name, known, user_place()), lambda: None)
        return result

    def _replayable(self, tape: WatchedTape, function: ReplayableFunction, record: Callable[[], Any]) -> Any:
        """Run a function that a program puts on Warp's tape, and record it as an operation."""
        place = user_place()
        operation = None
        with self.guarded(tape, f"the call of {function.name}", place):
            reads = [self.memory.array_of(a) for a in function.reads]
            writes = [self.memory.array_of(a) for a in function.writes]
            operation = FunctionOperation(function, reads, writes, place)
            for array, name in function.labels:
                tape.name_array(self.memory.array_of(array), name)
        if operation is None:
            function.run()
            return record()
        self._record(tape, operation, function.run)
        return record()

    def scope_begin(
        self, original: FunctionType, tape: WarpObject, scope_name: str, *rest: object, **named: object
    ) -> Any:
        """Begin a group of operations."""
        found = self._tapes.get(tape)
        if found is not None:
            found.open_scope(str(scope_name))
        return original(tape, scope_name, *rest, **named)

    def scope_end(self, original: FunctionType, tape: WarpObject, *rest: object, **named: object) -> Any:
        """End a group of operations."""
        result = original(tape, *rest, **named)
        found = self._tapes.get(tape)
        if found is not None:
            found.close_scope()
        return result

    # -- launches ---------------------------------------------------------------------------------------

    def launch(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Record a launch."""
        bind = self._bind_launch
        if bind is None:
            bind = self._bind_launch = binder(original, BOUND)
        try:
            (
                kernel,
                dim,
                inputs,
                outputs,
                device,
                stream,
                is_adjoint,
                is_taped,
                is_command,
                max_blocks,
                block_dim,
                adj_inputs,
                adj_outputs,
            ) = bind(*args, **named)
        except TypeError:  # Warp will say so
            return original(*args, **named)
        tape = self.recording()
        if is_command or (tape is None and not self._live):
            given = (*inputs, *outputs)
            self.unwritten.all_written(given)
            if is_adjoint:
                self.earlier.reversed(kernel)
            elif not is_command and self.earlier.wants(given):
                place = place_in(user_frame(4)).span
                self.earlier.note("launch", kernel, _name(kernel), place, given)
            return original(*args, **named)
        at = place_in(user_frame(4))  # the frames of this method, its entry and the redirection are known
        if is_adjoint:
            self.earlier.reversed(kernel)
            if tape is not None:
                self.skip(tape, f"launch(adjoint=True) of {_name(kernel)}", "it is no part of a reverse pass")
            self.unwritten.clear()
            with self.guarded(tape, f"launch(adjoint=True) of {_name(kernel)}"):
                self._note_adjoint(
                    kernel, [*inputs, *outputs], [*(adj_inputs or ()), *(adj_outputs or ())], at.span
                )
            result = original(*args, **named)
        else:
            result = self._run(
                tape if is_taped else None,
                kernel,
                [*inputs, *outputs],
                dim,
                (device if stream is None else stream.device, max_blocks or 0, block_dim),
                at.span,
                lambda: original(*args, **named),
                stream,
                site=at.site,
            )
        if self._runtime.tape is not None:
            _correct_caller(self._runtime.tape, at)
        return result

    def _note_adjoint(
        self, kernel: WarpObject, values: Sequence[Any], adjoints: Sequence[Any], place: Span
    ) -> None:
        """Note an adjoint kernel that the program runs itself, for the gradients that it may change."""
        gradients = [getattr(value, "grad", None) for value in values if isinstance(value, self.array)]
        gradients += [value for value in adjoints if isinstance(value, self.array)]
        known = {
            array: None
            for gradient in gradients
            if (array := self.memory.with_gradient_at(gradient)) is not None
        }
        for array in known:
            self.history.note_gradient("write", array, "launch", place)
        for tape in self._live:
            names = [next(iter(tape.names(array)), "an array") for array in known if tape.uses(array)]
            if names and not tape.is_recording:
                reason = f"what it adds to the gradient of {', '.join(dict.fromkeys(names))} was not checked"
                self.skip(tape, f"launch(adjoint=True) of {_name(kernel)}", reason, place)

    def command(self, original: FunctionType, command: WarpObject, *args: object, **named: object) -> Any:
        """Record the launch of a recorded command, which is not on Warp's tape."""
        tape = self.recording()
        if getattr(command, "adjoint", False) or (tape is None and not self._live):
            self.unwritten.clear()
            return original(command, *args, **named)
        values = getattr(command, "fwd_args", None)  # older releases do not keep them
        if values is None:
            self.skip(tape, f"the command of {_name(command.kernel)}", "its arguments are not known")
            self._anything_written()
            return original(command, *args, **named)
        shape = command.bounds.shape
        return self._run(
            tape,
            command.kernel,
            list(values),
            tuple(shape[: getattr(command.bounds, "ndim", len(shape))]),
            (command.device, command.max_blocks, command.block_dim),
            user_place(),
            lambda: original(command, *args, **named),
            is_taped=False,
        )

    def _run(
        self,
        tape: WatchedTape | None,
        kernel: WarpObject,
        values: list[Any],
        dim: int | Sequence[int],
        options: tuple[WarpObject, int, int | None],
        place: Span,
        run: Callable[[], Any],
        stream: WarpObject = None,
        *,
        is_taped: bool = True,
        site: Site | None = None,
    ) -> Any:
        """Run a launch, and record it on a tape or, without one, as a write outside the live tapes.

        Args:
            tape: The tape.
            kernel: The kernel.
            values: The arguments.
            dim: The launch dimensions.
            options: The device, `max_blocks` and `block_dim`.
            place: The place in the program.
            run: Runs it.
            stream: The stream, if the program has chosen one.
            is_taped: Warp's tape records it.
            site: The code and the instruction of the call.
        """
        device = self.runtime.get_device(options[0])
        if is_capturing(device) or getattr(stream, "is_capturing", False):
            self.skip(tape, f"the launch of {_name(kernel)}", "a graph is being captured")
            self._anything_written()
            return run()
        if not hasattr(kernel, "adj") or len(kernel.adj.args) != len(values):  # Warp will say so
            return run()
        if tape is None:
            return self._run_outside(kernel, values, place, run)
        given = values
        try:
            arrays, leaves, values = self._arguments(kernel, values)
            template = tape.templates.get((kernel, *arrays)) or self._new_template(
                tape, kernel, values, arrays, leaves
            )
            obstacle = self._obstacle(template, leaves) if leaves or template.suspects else ""
            tape.find_writes(template.touched)
        except Exception as error:
            self.skip(tape, f"the launch of {_name(kernel)}", _reason(error), place)
            self._anything_written()
            return run()
        started = perf_counter()
        result = run()
        seconds = perf_counter() - started
        try:
            operation = WarpLaunch(
                kernel,
                (dim,) if type(dim) is int else _dims(dim),
                values,
                (device, *options[1:]),
                template,
                place,
                leaves,
                obstacle,
            )
            if leaves is not None:
                operation.given = given
            operation.site = site
            if not is_taped:
                operation.taped = False
            if obstacle:
                self.skip(tape, f"the launch of {_name(kernel)}", obstacle, place)
            tape.add(operation, template.touched, seconds)
            if template.gradients:
                self._note_gradients(template.gradients, place)
            if tape.reverse_passes:  # an update of an input inside the block of its tape
                for array in template.form.written(template.arrays):
                    if tape.was_input(array):
                        self.history.note_write(array, "launch", place)
        except Exception as error:
            self.skip(tape, f"the launch of {_name(kernel)}", _reason(error), place)
        return result

    def _run_outside(self, kernel: WarpObject, values: list[Any], place: Span, run: Callable[[], Any]) -> Any:
        """Run a launch that no tape records, and note what it writes for the live tapes."""
        self.unwritten.all_written(values)
        if self.earlier.wants(values):
            self.earlier.note("launch", kernel, _name(kernel), place, values)
        try:
            arrays, leaves, values = self._arguments(kernel, values)
            form = self._form(kernel, values, arrays, leaves)
            written = form.written(arrays)
            read = form.read(arrays)
            self._note_gradients(form.gradients(arrays, self.memory), place)
        except Exception as error:
            self.skip(None, f"the launch of {_name(kernel)}", _reason(error), place)
            self._anything_written()
            return run()
        return self._outside(run, written, "launch", place, ("launch", _name(kernel), read))

    def _note_earlier(self, tape: WatchedTape, frame: FrameType) -> None:
        """Note the launches off all tapes that computed what a tape starts from."""
        candidates = [array for array in tape.arrays_with_gradient() if self.earlier.at(array.address or 0)]
        for array in tape.read_first(candidates):
            writer = self._writer_of(array, tape.began)
            if writer is not None:
                launch, reads = writer
                tape.note_earlier(
                    launch,
                    array,
                    self._sources(reads, launch.clock),
                    frame,
                )

    def _writer_of(self, array: WatchedArray, before: int) -> tuple[EarlierLaunch, list[WatchedArray]] | None:
        """Return the last launch off all tapes, before some time, that wrote an array, and what it read.

        The latter are arrays of other memory with a gradient. There is no such launch if a tape has recorded
        a later write.
        """
        for launch in self.earlier.at(array.address or 0):
            values = launch.values() if launch.clock < before else None
            if values is None:
                continue
            if launch.kernel is None:
                writes, reads = ([self.memory.array_of(value)] for value in values)
            else:
                arrays, leaves, values = self._arguments(launch.kernel, values)
                form = self._form(launch.kernel, values, arrays, leaves)
                writes, reads = form.written(arrays), form.read(arrays)
            if not any(share_bytes(written, array) for written in writes):
                continue
            later = (tape for tape in self.history.tapes if launch.clock < tape.began < before)
            if any(tape.last_writer(array.region, array.start, array.stop) is not None for tape in later):
                return None
            found = [a for a in reads if a.requires_grad and not any(share_bytes(a, w) for w in writes)]
            return (launch, found) if found else None
        return None

    def _sources(self, arrays: Sequence[WatchedArray], before: int) -> list[WatchedArray]:
        """Return arrays, and those of which launches off all tapes before some time computed them."""
        found: dict[WatchedArray, None] = {}
        waiting = [(array, before) for array in arrays]
        while waiting and len(found) < MOST_SOURCES:
            array, time = waiting.pop()
            if array not in found:
                found[array] = None
                launch = self._writer_of(array, time)
                waiting += [] if launch is None else [(read, launch[0].clock) for read in launch[1]]
        return list(found)

    def _note_gradients(self, gradients: Sequence[tuple[WatchedArray, Use]], place: Span) -> None:
        """Note that a launch reads or writes gradients as its arguments."""
        for array, use in gradients:
            if use.reads:
                self.history.note_gradient("read", array, "launch", place, array.current_gradient())
            if use.writes:
                self.history.note_gradient("write", array, "launch", place)

    def _arguments(
        self, kernel: WarpObject, values: list[Any]
    ) -> tuple[list[WatchedArray | None], list[Leaf] | None, list[Any]]:
        """Return the array of each leaf of the arguments, the leaves, and the arguments as they are now.

        The leaves are None if each argument has one.
        """
        plain = self.arguments.plain(kernel, values)
        if plain is not None:
            arrays, is_mutable = plain
            return arrays, None, list(map(frozen, values)) if is_mutable else values
        values = self.arguments.with_arrays(kernel, values)
        leaves = self.arguments.leaves(kernel, values)
        return [leaf.array for leaf in leaves], leaves, list(map(frozen, values))

    def _obstacle(self, template: LaunchTemplate, leaves: Sequence[Leaf] | None) -> str:
        """Return why a launch cannot be run again; empty if it can."""
        for leaf in leaves or ():
            if leaf.handle is not None and leaf.handle.obstacle:
                return leaf.handle.obstacle
        for array in template.suspects:
            found = self.objects.obstacle_of(array.source, array.current)
            if found:
                return found
        return ""

    def _new_template(
        self,
        tape: WatchedTape,
        kernel: WarpObject,
        values: Sequence[object],
        arrays: Sequence[WatchedArray | None],
        leaves: Sequence[Leaf] | None,
    ) -> LaunchTemplate:
        """Return the description of a launch, which a tape keeps for later launches on the same arrays."""
        form = self._form(kernel, values, arrays, leaves)
        found = LaunchTemplate(kernel, form, arrays, tape, self.objects, self.memory)
        tape.templates[kernel, *arrays] = found
        return found

    def _form(
        self,
        kernel: WarpObject,
        values: Sequence[object],
        arrays: Sequence[WatchedArray | None],
        leaves: Sequence[Leaf] | None,
    ) -> LaunchForm:
        """Return the description of a launch that does not depend on its arrays."""
        kinds: list[Hashable] = [None if array is None else array.ndim for array in arrays]
        if leaves is not None:
            kinds += [leaf.path for leaf in leaves]
        key = kernel, *kinds
        found = self._forms.get(key)
        if found is None:
            if leaves is None:
                leaves = self.arguments.leaves(kernel, values)
            found = self._forms[key] = LaunchForm(leaves, self.uses.of(kernel, leaves))
        return found

    def _record(self, tape: WatchedTape, operation: ExecutableOperation, run: Callable[[], T]) -> T:
        return tape.record(operation, run)

    # -- other writes -----------------------------------------------------------------------------------

    def copy(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Record a copy between arrays."""
        given: dict[str, Any] = {**dict(zip(_parameters(original), args, strict=False)), **named}
        dest, src = given.get("dest"), given.get("src")
        tape = self.recording()
        if isinstance(src, self.array):
            self._note_gradient_read(src, "copy")
        if not isinstance(dest, self.array) or not isinstance(src, self.array):
            return self._written(getattr(dest, "data", dest), "copy", lambda: original(*args, **named))
        known = self.memory.is_known(dest), self.memory.is_known(src)
        if tape is None or not (any(known) or src.requires_grad) or is_capturing(dest.device):
            copied = src if tape is None and known[1] else None
            result = self._written(dest, "copy", lambda: original(*args, **named), copied)
            if tape is None and self.earlier.wants((dest, src)):
                self.earlier.note("copy", None, "copy", user_place(), (dest, src))
            return result
        if not known[1] and isinstance(getattr(src, "_ref", None), np.ndarray):
            return self._written(dest, "assign", lambda: original(*args, **named))
        place = user_place()
        operation = None
        with self.guarded(tape, "a copy", place):
            count = given.get("count", 0) or src.size
            to, source = self.memory.array_of(dest), self.memory.array_of(src)
            swapped = None
            if count and dest.dtype == src.dtype:
                offsets = given.get("dest_offset", 0), given.get("src_offset", 0)
                fits = max(offsets) + count <= min(to.size, source.size)
                if self.swaps_offsets and offsets[0] != offsets[1] and fits:
                    swapped = (
                        self.memory.part_of(to, offsets[1], count),
                        self.memory.part_of(source, offsets[0], count),
                    )
                to = self.memory.part_of(to, offsets[0], count)
                source = self.memory.part_of(source, offsets[1], count)
                if to.size == source.size and (
                    to.shape == source.shape or (to.is_contiguous and source.is_contiguous)
                ):
                    operation = CopyOperation(to, source, place, False, self.accumulates, swapped)
        if operation is None:
            return self._written(dest, "copy", lambda: original(*args, **named))
        warp_tape = self.runtime.tape
        before = len(warp_tape.launches)
        result = self._record(tape, operation, lambda: original(*args, **named))
        operation.taped = len(warp_tape.launches) > before
        return result

    def fill(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Record `fill_`."""
        if self._may_be_gradient(array) and self.memory.with_gradient_at(array) is None:
            with self.guarded(None, "an array that is filled"):
                self.history.note_early_fill(array, "fill_", user_place())
        return self._filled(array, "fill_", lambda: original(array, *args, **named))

    def zero(self, original: FunctionType, array: WarpObject) -> Any:
        """Record `zero_`."""
        return self._filled(array, "zero_", lambda: original(array))

    def fill_indexed(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Note that a part of an array is filled."""
        return self._written(getattr(array, "data", None), "fill", lambda: original(array, *args, **named))

    def _filled(self, array: WarpObject, method: str, run: Callable[[], Any]) -> Any:
        if not array.ptr or not self._live:
            self.unwritten.written(array)
            self.earlier.written(array)
            return run()
        tape = self.recording()
        gradient = self.memory.with_gradient_at(array)
        if gradient is not None:
            result = run()
            with self.guarded(None, "a gradient that is set"):
                self.history.note_gradient("zero", gradient, method, user_place())
            return result
        if tape is None or not self.memory.is_known(array) or is_capturing(array.device):
            return self._written(array, "fill", run)
        operation = None
        with self.guarded(tape, f"a call of {method}"):
            operation = FillOperation(self.memory.array_of(array), user_place(), method)
        if operation is None:
            return run()
        filled = operation

        def fill() -> Any:
            result = run()
            filled.note_value()
            return result

        return self._record(tape, operation, fill)

    def made(self, original: FunctionType, made: WarpObject, *args: object, **named: object) -> Any:
        """Note a mesh, a bounding volume hierarchy or a hash grid that the program makes."""
        result = original(made, *args, **named)
        options = {**dict(zip(_parameters(original)[1:], args, strict=False)), **named}
        with self.guarded(None, f"a {type(made).__name__}"):
            self.objects.note_made(made, options)
        return result

    def grid_build(
        self,
        original: FunctionType,
        grid: WarpObject,
        points: WarpObject,
        radius: float,
        *rest: object,
        **named: object,
    ) -> Any:
        """Note the points that a hash grid is built of."""
        result = original(grid, points, radius, *rest, **named)
        self.objects.note_built(grid, points, radius, *rest, *named.values())
        return result

    def capture_launch(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note that a captured graph runs."""
        tape = self.recording()
        if tape is not None:
            self.skip(tape, "capture_launch", "the launches of a captured graph are not seen one by one")
        self._anything_written()
        return original(*args, **named)

    def reduced(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note a sum or an inner product that Warp computes without a launch, which no tape records."""
        given = {**dict(zip(_parameters(original), args, strict=False)), **named}
        out = given.get("out")
        sources = [a for name in ("values", "a", "b") if isinstance(a := given.get(name), self.array)]
        computed: Computed | None = None
        written: list[WatchedArray] = []
        if self._live and isinstance(out, self.array) and any(map(self.memory.is_known, sources)):
            with self.guarded(None, f"the call of {original.__name__}"):
                computed = "call", original.__name__, [self.memory.array_of(a) for a in sources]
                written.append(self.memory.array_of(out))
        if not written:
            for source in sources if out is None and self._live else ():  # the result is a number
                self._note_read(source, original.__name__)
            return self._written(out, "launch", lambda: original(*args, **named))
        self.unwritten.written(out)
        return self._outside(lambda: original(*args, **named), written, "launch", user_place(), computed)

    def _written(self, array: WarpObject, how: str, run: Callable[[], Any], copied: WarpObject = None) -> Any:
        """Run something that writes an array, and note that for the tapes that use its memory.

        Args:
            array: The array.
            how: The way it is done.
            run: Runs it.
            copied: An array that a tape uses and that is copied while none records; else None.
        """
        known: list[WatchedArray] = []
        place = user_place()
        computed: Computed | None = None
        self.unwritten.written(array)
        self.earlier.written(array)
        if self._live and isinstance(array, self.array):
            with self.guarded(None, "a write", place):
                if copied is not None:
                    computed = "copy", how, [self.memory.array_of(copied)]
                if computed is not None or self.memory.is_known(array):
                    known.append(self.memory.array_of(array))
                gradient = self.memory.with_gradient_at(array)
                if gradient is not None:
                    self.history.note_gradient("write", gradient, how, place)
        return self._outside(run, known, how, place, computed) if known else run()

    def _outside(
        self,
        run: Callable[[], Any],
        arrays: Sequence[WatchedArray],
        how: str,
        place: Span,
        computed: Computed | None = None,
    ) -> Any:
        """Run something that writes arrays outside the live tapes, and note that.

        Args:
            run: Runs it.
            arrays: The arrays.
            how: The way it is done.
            place: The place in the program.
            computed: A launch, a copy or a call that it is, and the arrays that it reads.
        """
        tapes = list(self._live)
        before: dict[Array, Values | None] = {}
        with self.guarded(None, "a write outside of the tapes", place):
            before = {array: self.history.before_write(array) for array in arrays}
        for tape in tapes:
            with self.guarded(tape, "a write outside of the tape", place):
                for array in arrays:
                    tape.about_to_write(array)
        result = run()
        times: dict[Array, int] = {}
        with self.guarded(None, "a write outside of the tapes", place):
            times = {array: self.history.note_write(array, how, place, before.get(array)) for array in arrays}
        for tape in tapes:
            with self.guarded(tape, "a write outside of the tape", place):
                for array in arrays:
                    tape.note_outside(array, how, place, times.get(array))
                    tape.note_perhaps_written(array)
                if computed is not None:
                    tape.note_unrecorded(computed, arrays, place)
        return result

    # -- transfers --------------------------------------------------------------------------------------

    def read_numpy(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Note that the program reads an array or a gradient through NumPy."""
        found = original(array, *args, **named)
        self._note_view(array)
        if self._live:
            self._note_read(array, "numpy")
        self._note_gradient_read(array, "numpy", found)
        return found

    def read_list(self, original: FunctionType, array: WarpObject) -> Any:
        """Note that the program reads an array or a gradient as a list."""
        if self._live:
            self._note_read(array, "list")
        self._note_gradient_read(array, "list")
        return original(array)

    def read_torch(self, original: FunctionType, a: WarpObject, *args: object, **named: object) -> Any:
        """Note that the program reads an array or a gradient through PyTorch."""
        self._note_view(a)
        if self._live:
            self._note_read(a, "to_torch")
        self._note_gradient_read(a, "to_torch")
        return original(a, *args, **named)

    def array_interface(self, original: FunctionType, array: WarpObject) -> Any:
        """Note that another library may get a view of an array."""
        self._note_view(array)
        return original(array)

    def _note_view(self, array: WarpObject) -> None:
        """Note that the program may write an array through a view from now on."""
        with self.guarded(None, "a view of an array"):
            self.unwritten.written(array)
            if self._live and self.memory.is_known(array):
                known = self.memory.array_of(array)
                for tape in self._live:
                    tape.note_perhaps_written(known)

    def empty(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note memory that the program itself allocates without values."""
        found = original(*args, **named)
        if is_user(sys._getframe(3)):  # the frames of this method, its entry and the redirection are known
            with self.guarded(None, "an array without values"):
                self.unwritten.note_made(found)
        return found

    def _anything_written(self) -> None:
        """Note that something that is not covered may write any memory."""
        self.unwritten.clear()
        for tape in self._live:
            tape.note_perhaps_written()

    def _note_read(self, array: WarpObject, how: str) -> None:
        with self.guarded(None, "an array that is read"):
            if not isinstance(array, self.array) or not self.memory.is_known(array):
                return
            known, tape = self.memory.array_of(array), self.recording()
            readers = [each for each in self._live if each is tape or each.uses(known)]
            place = host_place() if readers else None
            for each in readers:
                own = each is tape
                at = len(each.operations) if own else None
                assert place is not None
                each.transfers.note_read(known, how, place, at, tape is not None and not own)

    def _note_gradient_read(self, array: WarpObject, how: str, view: Values | None = None) -> None:
        gradient = self.memory.with_gradient_at(array)
        if gradient is not None:
            with self.guarded(None, "a gradient that is read"):
                values = gradient.current_gradient()
                self.history.note_gradient("read", gradient, how, user_place(), values, view)
        elif self._may_be_gradient(array):
            with self.guarded(None, "an array that is read"):
                self.history.note_early_read(array, how, user_place(), self.memory.values_of(array))

    def _may_be_gradient(self, array: WarpObject) -> bool:
        """True if an array that no tape uses may turn out to be the gradient of one."""
        return (
            type(array) is self.array
            and bool(array.ptr)
            and array.size <= SMALL_GRADIENT
            and not array.requires_grad
            and is_on_host(array.device)
            and self.memory.element_type(array.dtype).is_float
            and not self.memory.is_known(array)
        )

    def new_array(
        self, original: FunctionType, array: WarpObject, data: object = None, *args: object, **named: object
    ) -> None:
        """Note an array that the program makes of values from outside while a tape records."""
        original(array, data, *args, **named)
        at = named.get("ptr", args[POINTER] if len(args) > POINTER else None)
        if data is None and at is None and is_user(sys._getframe(3)):
            with self.guarded(None, "an array without values"):
                self.unwritten.note_made(array)
        if data is not None and array.requires_grad and is_user(sys._getframe(3)):
            with self.guarded(None, "an array with values"):
                self.unwritten.note_given(array)
        if data is None or not self._live or not getattr(array, "ptr", None):
            return
        tape = self.recording()
        if tape is not None and not isinstance(data, self.array):
            with self.guarded(tape, "an array that is made of values"):
                if not self.memory.is_known(array):
                    tape.transfers.note_arrival(array, "array", host_place(), len(tape.operations))

    def from_torch(self, original: FunctionType, t: object, *args: object, **named: object) -> Any:
        """Note an array over the memory of a tensor that the program makes while a tape records."""
        made = original(t, *args, **named)
        tape = self.recording() if self._live else None
        if tape is not None and isinstance(made, self.array):
            with self.guarded(tape, "an array that is made of a tensor"):
                if not self.memory.is_known(made):
                    computed = t if getattr(t, "grad_fn", None) is not None else None
                    at = len(tape.operations)
                    tape.transfers.note_arrival(made, "from_torch", host_place(), at, computed)
        return made

    def gradient(self, original: FunctionType, array: WarpObject, gradient: WarpObject) -> None:
        """Note where the program gives an array another array as its gradient."""
        original(array, gradient)
        if isinstance(gradient, self.array):
            with self.guarded(None, "a gradient that is set"):
                self.memory.note_gradient_given(array, user_place())

    def requires_grad(self, original: FunctionType, array: WarpObject, value: object) -> None:
        """Note that the program sets `requires_grad` of an array that a tape uses."""
        changes = self._live and bool(value) != (array.grad is not None)
        original(array, value)
        if changes:
            with self.guarded(None, "requires_grad that is set"):
                if self.memory.is_known(array):
                    known, place = self.memory.array_of(array), user_place()
                    for tape in self._live:
                        if tape.uses(known):
                            tape.note_requires_grad(known, bool(value), place)

    # -- what is not covered ----------------------------------------------------------------------------

    def skip(self, tape: WatchedTape | None, what: str, reason: str, place: Span | None = None) -> None:
        """List a part of the program as not covered."""
        found = NotCovered(what, place or user_place(3), reason)
        self.not_covered[found] = self.not_covered.get(found, 0) + 1
        if tape is not None:
            tape.note_gap(str(found))

    @contextlib.contextmanager
    def guarded(self, tape: WatchedTape | None, what: str, place: Span | None = None) -> Iterator[list[str]]:
        """Context in which an error of ours does not reach the program: it makes `what` not covered."""
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:
            failed.append(_reason(error))
        if failed:
            self.skip(tape, what, failed[0], place or user_place(4))


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, NotWatchable) else f"{type(error).__name__}: {error}"


def _name(kernel: WarpObject) -> str:
    return str(getattr(kernel, "key", kernel))


def _dims(dim: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(dim, int):
        return (int(dim),)
    lengths = dim if isinstance(dim, (tuple, list)) else np.atleast_1d(dim)
    return tuple([int(length) for length in lengths])


@lru_cache(maxsize=256)
def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


SMALL_GRADIENT = 1_000_000
"""Largest number of elements of an array whose early reads are noted, which computes its norm."""

MOST_SOURCES = 100
"""Largest number of arrays that are followed back from one that a tape starts from."""

POINTER = 3
"""The position of `ptr` among the arguments of `warp.array` after `data`."""

BOUND = (
    "kernel",
    "dim",
    "inputs",
    "outputs",
    "device",
    "stream",
    "adjoint",
    "record_tape",
    "record_cmd",
    "max_blocks",
    "block_dim",
    "adj_inputs",
    "adj_outputs",
)
"""The arguments of `warp.launch` that are read."""


def _is_capturing_now() -> bool:
    return is_capturing(look_up("warp:get_device")())


def _correct_caller(tape: WarpObject, at: CallPlace) -> None:
    """Correct the call site that Warp stores with the last launch: it has seen our frame there."""
    last = tape.launches[-1] if tape.launches else None
    if isinstance(last, list) and isinstance(last[-1], dict):
        caller = last[-1].get("caller")
        if caller is not None and caller.get("file") == __file__:
            last[-1]["caller"] = at.caller
