"""Intercepted launches: those of kernels, of recorded commands and of captured graphs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from time import perf_counter
from types import FunctionType
from typing import Any

import numpy as np

from tapedebug import _interception
from tapedebug._source import Site, Span
from tapedebug.watch.call_site import CallPlace, place_in, user_frame, user_place
from tapedebug.watch.hooks import WarpObject, binder, is_capturing
from tapedebug.watch.kernel_accesses import Use
from tapedebug.watch.launch import WarpLaunch
from tapedebug.watch.memory import NotWatchable, WatchedArray
from tapedebug.watch.recorder.launch_forms import LaunchForms
from tapedebug.watch.recorder.recording import Calls, Recording, reason_of
from tapedebug.watch.tape import WatchedTape

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


class LaunchCalls(Calls):
    """Handlers of launches.

    Args:
        recording: The recording.
        forms: The descriptions of launches.
    """

    def __init__(self, recording: Recording, forms: LaunchForms) -> None:
        super().__init__(recording)
        self._forms = forms
        self._bind_launch: Callable[..., tuple[Any, ...]] | None = None

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
        tape = self.recording.tape()
        if is_command or (tape is None and not self._live):
            given = (*inputs, *outputs)
            self.unwritten.all_written(given)
            if is_adjoint:
                self.earlier.reversed(kernel)
            elif not is_command and self.earlier.wants(given):
                place = place_in(user_frame(4)).span
                self.earlier.note("launch", kernel, _name(kernel), place, given, _threads(dim))
            result = original(*args, **named)
            self.earlier.ran(given)
            return result
        at = place_in(user_frame(4))  # the frames of this method, its entry and the redirection are known
        if is_adjoint:
            self.earlier.reversed(kernel)
            if tape is not None:
                self.recording.skip(
                    tape, f"launch(adjoint=True) of {_name(kernel)}", "it is no part of a reverse pass"
                )
            self.unwritten.clear()
            with self.recording.guarded(tape, f"launch(adjoint=True) of {_name(kernel)}"):
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
        if self.recording.runtime.tape is not None:
            _correct_caller(self.recording.runtime.tape, at)
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
                self.recording.skip(tape, f"launch(adjoint=True) of {_name(kernel)}", reason, place)

    def command(self, original: FunctionType, command: WarpObject, *args: object, **named: object) -> Any:
        """Record the launch of a recorded command, which is not on Warp's tape."""
        tape = self.recording.tape()
        if getattr(command, "adjoint", False) or (tape is None and not self._live):
            self.unwritten.clear()
            return original(command, *args, **named)
        values = getattr(command, "fwd_args", None)  # older releases do not keep them
        if values is None:
            self.recording.skip(
                tape, f"the command of {_name(command.kernel)}", "its arguments are not known"
            )
            self.recording.anything_written()
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
        device = self.recording.runtime.get_device(options[0])
        if is_capturing(device) or getattr(stream, "is_capturing", False):
            self.recording.skip(tape, f"the launch of {_name(kernel)}", "a graph is being captured")
            self.recording.anything_written()
            return run()
        if not hasattr(kernel, "adj") or len(kernel.adj.args) != len(values):  # Warp will say so
            return run()
        if tape is None:
            return self._run_outside(kernel, values, place, run, _threads(dim))
        given = values
        try:
            arrays, leaves, values, given = self._forms.arguments(kernel, values)
            template = tape.templates.get((kernel, *arrays)) or self._forms.new_template(
                tape, kernel, values, arrays, leaves
            )
            obstacle = self._forms.obstacle(template, leaves) if leaves or template.suspects else ""
            tape.find_writes(template.touched)
        except Exception as error:
            self.recording.skip(tape, f"the launch of {_name(kernel)}", reason_of(error), place)
            self.recording.anything_written()
            self._note_not_recorded(tape, given)
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
                self.recording.skip(tape, f"the launch of {_name(kernel)}", obstacle, place)
            tape.add(operation, template.touched, seconds)
            if template.gradients:
                self._note_gradients(template.gradients, place)
            if tape.reverse_passes:  # an update of an input inside the block of its tape
                for array in template.form.written(template.arrays):
                    if tape.was_input(array):
                        self.history.note_write(array, "launch", place)
        except Exception as error:
            self.recording.skip(tape, f"the launch of {_name(kernel)}", reason_of(error), place)
        return result

    def _note_not_recorded(self, tape: WatchedTape, values: Sequence[Any]) -> None:
        """Note the arrays of a launch that could not be recorded."""
        for value in values:
            if isinstance(value, self.array):
                with contextlib.suppress(NotWatchable):
                    tape.note_not_recorded([self.memory.array_of(value)])

    def _run_outside(
        self, kernel: WarpObject, values: list[Any], place: Span, run: Callable[[], Any], threads: int
    ) -> Any:
        """Run a launch that no tape records, and note what it writes for the live tapes."""
        given = values
        self.unwritten.all_written(given)
        if self.earlier.wants(given):
            self.earlier.note("launch", kernel, _name(kernel), place, given, threads)
        try:
            arrays, leaves, values, _ = self._forms.arguments(kernel, values)
            form = self._forms.form(kernel, values, arrays, leaves)
            written = form.written(arrays)
            read = form.read(arrays)
            self._note_gradients(form.gradients(arrays, self.memory), place)
        except Exception as error:
            self.recording.skip(None, f"the launch of {_name(kernel)}", reason_of(error), place)
            self.recording.anything_written()
            return run()
        result = self.recording.outside(run, written, "launch", place, ("launch", _name(kernel), read))
        self.earlier.ran(given)
        return result

    def _note_gradients(self, gradients: Sequence[tuple[WatchedArray, Use]], place: Span) -> None:
        """Note that a launch reads or writes gradients as its arguments."""
        for array, use in gradients:
            if use.reads:
                self.history.note_gradient("read", array, "launch", place, array.current_gradient())
            if use.writes:
                self.history.note_gradient("write", array, "launch", place)

    def capture_launch(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note that a captured graph runs."""
        tape = self.recording.tape()
        if tape is not None:
            self.recording.skip(
                tape, "capture_launch", "the launches of a captured graph are not seen one by one"
            )
        self.recording.anything_written()
        return original(*args, **named)


def _name(kernel: WarpObject) -> str:
    return str(getattr(kernel, "key", kernel))


def _dims(dim: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(dim, int):
        return (int(dim),)
    lengths = dim if isinstance(dim, (tuple, list)) else np.atleast_1d(dim)
    return tuple([int(length) for length in lengths])


def _threads(dim: int | Sequence[int]) -> int:
    """Return the number of threads of a launch; 0 for one that Warp will refuse."""
    try:
        return math.prod(_dims(dim))
    except (TypeError, ValueError):
        return 0


def _correct_caller(tape: WarpObject, at: CallPlace) -> None:
    """Correct the call site that Warp stores with the last launch: it has seen our frame there."""
    last = tape.launches[-1] if tape.launches else None
    if isinstance(last, list) and isinstance(last[-1], dict):
        caller = last[-1].get("caller")
        if caller is not None and caller.get("file") == _interception.__file__:
            last[-1]["caller"] = at.caller
