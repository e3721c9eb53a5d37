"""Make a program with its pairs from the kernel or function that a user wants to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError, TapeError
from tapedebug._source import Span
from tapedebug.autograd.array_types import DeviceLike, LaunchDim, Values
from tapedebug.autograd.subjects.functions import FunctionCall, Unrepeatable, require_faithful
from tapedebug.autograd.subjects.masks import Argument, choose_pairs
from tapedebug.autograd.subjects.metadata import FunctionMetadata, Named, input_names
from tapedebug.autograd.subjects.numerical import IN_FLOAT32, IN_LARGE_STEPS, differences_in, differences_on
from tapedebug.autograd.subjects.overlaps import refuse_overlaps
from tapedebug.autograd.subjects.pairs import Mask, differentiable, port
from tapedebug.autograd.subjects.program import IN_PLACE, Pairs, Port
from tapedebug.autograd.subjects.repro_script import ReproScript, Scene, Writer, function_scene, launch_scene
from tapedebug.autograd.subjects.shadow_program import ShadowProgram, launch_shadow, tape_replay
from tapedebug.autograd.subjects.struct_fields import flat_call, listed
from tapedebug.autograd.subjects.write_sites import WriteSite, placed, placed_by_tape
from tapedebug.compiler.diagnostics import ASSERT
from tapedebug.compiler.kernel import Kernel
from tapedebug.contract import (
    Float64,
    LocalReplays,
    Operation,
    RecordedTape,
    Replay,
    WarpReverse,
    is_array,
)
from tapedebug.runtime.device import get_device
from tapedebug.runtime.launch.launch import launch_dims
from tapedebug.runtime.launch.overloads import concrete
from tapedebug.runtime.tape.tape import Tape

if TYPE_CHECKING:
    from tapedebug.autograd.results.gradcheck_result import PairResult


@dataclass
class Subject:
    """A kernel, launch or function to differentiate: the program, the pairs that were asked for, and labels.

    `describe` returns the labels. `remember` returns a writer for the common part of its pairs' scripts, with
    the values that arrays hold when it is called. `tape` is the tape that a function recorded. `arguments`
    has all arguments by name, for a function also its results; `complex` are the names of those that hold
    complex numbers. `unrepeatable` is True if a function has no derivative because its results differ each
    time.
    """

    program: ShadowProgram
    pairs: Pairs
    describe: Callable[[], FunctionMetadata]
    remember: Callable[[], Writer]
    tape: Tape | None = None
    arguments: list[tuple[str, Any]] = field(default_factory=list)
    complex: frozenset[str] = frozenset()
    unrepeatable: Unrepeatable | None = None

    def require_repeatable(self) -> None:
        """Refuse a function that gives other results each time it is called.

        Raises:
            GradcheckError: It is one.
        """
        if self.unrepeatable is not None:
            raise self.unrepeatable

    @cached_property
    def metadata(self) -> FunctionMetadata:
        """The labels."""
        return self.describe()

    @cached_property
    def writer(self) -> Writer:
        """Writes what scripts share."""
        return self.remember()

    def script_for(self, pair: PairResult, settings: Mapping[str, Any] | None = None) -> ReproScript:
        """The script of a pair, written when it is asked for; see `ReproScript.of`."""
        return ReproScript.of(self.writer, pair, settings or {})


def subject_of(
    function: object,
    dim: LaunchDim | None,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    device: DeviceLike,
    mask: Mask,
    *,
    in_place: bool = False,
    adjoint: bool = True,
) -> Subject:
    """The subject of a call of `jacobian` or `gradcheck`.

    Args:
        function: A kernel or a Python function.
        dim: Number of threads; for kernels.
        inputs: Its arguments.
        outputs: A kernel's further arguments.
        device: The device.
        mask: See `choose_pairs`.
        in_place: Also check outputs as inputs where the kernel reads them.
        adjoint: Whether its adjoint will be run.

    Raises:
        GradcheckError: `function` is neither, or what it needs is missing.
    """
    get_device(device)
    caller = str(getattr(function, "key", None) or getattr(function, "__name__", type(function).__name__))
    given, further = listed(caller, "inputs", inputs), listed(caller, "outputs", outputs)
    if isinstance(function, Kernel):
        kernel = concrete(function, (*given, *further))
        return kernel_subject(kernel, dim, given, further, mask, in_place=in_place, adjoint=adjoint)
    if not callable(function):
        raise GradcheckError(
            f"a kernel or a function that launches kernels is needed; "
            f"got {function!r} ({type(function).__name__})",
            hint="pass the function that is decorated with @kernel",
        )
    return function_subject(function, given, None if outputs is None else further, mask)


def kernel_subject(
    kernel: Kernel,
    dim: LaunchDim | None,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    mask: Mask,
    *,
    in_place: bool = False,
    adjoint: bool = True,
    launch: int | None = None,
    values: dict[Any, np.ndarray[Any, Any]] | None = None,
    called: Span | None = None,
) -> Subject:
    """The subject of one launch; `values` are those at launch time, if arrays hold others now.

    The arguments of a launch on a tape are flat, as its record has them.

    Raises:
        GradcheckError: There is no `dim`, or an array overlaps itself or another one.
        LaunchError: The arguments do not fit the kernel.
        KernelAssertionError: An assertion of the kernel does not hold, as in a launch with these arguments.
    """
    name = f"kernel {kernel.key}" if launch is None else f"launch {launch} ({kernel.key})"
    if dim is None:
        raise GradcheckError(
            f"{name} needs dim, its number of threads", hint="pass dim=len(array), or its shape"
        )
    if launch is None:
        inputs, outputs = flat_call(kernel, inputs, outputs)
    args = [*inputs, *outputs]
    make = launch_shadow(kernel, dim, args, values)
    if launch is None and ASSERT in kernel.diagnostic_kinds():
        make(False).assert_once()
    named_in, named_out = _placed(kernel, *named_ports(kernel, inputs, outputs))
    fields = {p.name for p in kernel.params if p.name != kernel.signature[p.declared].name}
    notes: list[str] = []
    alone = launch is None
    sources = differentiable(named_in, notes, fields, integers=alone)
    targets = placed(kernel, differentiable(named_out, notes, fields, integers=alone), called)
    if adjoint and not kernel.enable_backward:
        notes.append(f"not checked: {name} has no adjoint: enable_backward=False")
        sources = []
    if in_place:
        sources += _in_place(kernel, targets, sources)
    if not launch_dims(kernel, dim)[1]:
        notes.append(f"not checked: {name} has dim={dim!r}: no thread runs")
        sources = []
    in_places = [(NOWHERE, p.name, p.array) for p in sources if p.in_place]
    pairs = choose_pairs(
        name, _arguments([*named_in, *in_places], sources), _arguments(named_out, targets), mask
    )
    pairs.notes = list(dict.fromkeys([*notes, *pairs.notes, *differences_in(kernel)]))
    arrays = [(p.name, a) for p, a in zip(kernel.params, args, strict=True) if is_array(a)]
    refuse_overlaps(name, pairs, arrays, launch=launch is not None)
    program = ShadowProgram(
        name, make, _restricted(sources, pairs.inputs()), _restricted(targets, pairs.outputs()), launch=launch
    )
    split = len(inputs) if outputs else -1
    return Subject(
        program,
        pairs,
        lambda: FunctionMetadata.of_launch(kernel, named_in, named_out),
        lambda: _writer(kernel, dim, args, split, values),
        arguments=[(p.name, a) for p, a in zip(kernel.params, args, strict=True)],
    )


def operation_subject(
    tape: RecordedTape,
    operation: Operation,
    values: Mapping[Any, Values],
    mask: Mask,
    *,
    adjoint: bool = True,
) -> Subject:
    """Return the subject of one operation of another engine, with the values that it ran on.

    Raises:
        GradcheckError: The mask names what there is not.
    """
    replays = tape.capability(LocalReplays)
    assert replays is not None, "asked for before"
    index, engine = operation.index, tape.engine.name
    name = f"launch {index} ({operation.name})"
    named_in, named_out = operation_ports(operation)
    notes: list[str] = []
    sources = differentiable(named_in, notes, integers=False)
    targets = differentiable(named_out, notes, integers=False)
    if isinstance(operation.call_site, Span):
        targets = [replace(target, written=WriteSite(called=operation.call_site)) for target in targets]
    if adjoint and not operation.has_adjoint:
        notes.append(f"not checked: {name} has no adjoint")
        sources = []

    def make(double: bool) -> Replay:
        return replays.new_replay(index, values, float64=double)

    narrow = False
    try:
        narrow = bool(getattr(make(True), "is_narrow", False))
    except TapeError as error:
        notes.append(f"not checked: {error.message}")
        sources = []
    pairs = choose_pairs(name, _arguments(named_in, sources), _arguments(named_out, targets), mask)
    if pairs.chosen and adjoint:
        notes.append(f"not checked: the dot product of tangents and adjoints: {engine} has no tangents")
    pairs.notes = list(dict.fromkeys([*notes, *pairs.notes]))
    arrays = [(label, a) for _, label, a in [*named_in, *named_out] if is_array(a)]
    refuse_overlaps(name, pairs, arrays, launch=True)
    inputs, outputs = _restricted(sources, pairs.inputs()), _restricted(targets, pairs.outputs())
    reverse = tape.capability(WarpReverse)
    at_end = reverse is not None and reverse.is_own  # its adjoints read what the operation left in memory
    program = ShadowProgram(
        name, make, inputs, outputs, launch=index, consume="current" if at_end else "versions"
    )
    program.has_tangents, program.engine, program.is_narrow = False, engine, narrow
    if narrow and sources:
        pairs.notes.append(f"it {IN_FLOAT32}")

    def refuse() -> Scene:
        raise GradcheckError(f"no script can be written for operations of {engine}")

    return Subject(
        program,
        pairs,
        lambda: FunctionMetadata.of_call(operation.name, named_in, named_out),
        lambda: Writer(refuse),
        arguments=[(operation.param_name(p), value) for p, value in enumerate(operation.args)],
    )


def operation_ports(operation: Operation) -> tuple[list[Named], list[Named]]:
    """Return what an operation reads, and the arrays that it writes, as (index, name, value)."""
    only_written = {p for p in operation.writes if p not in operation.reads}
    named = [(operation.param_name(p), value) for p, value in enumerate(operation.args)]
    inputs = [(p, *entry) for p, entry in enumerate(named) if p not in only_written]
    return inputs, [(place, *named[p]) for place, p in enumerate(operation.written)]


def _writer(
    kernel: Kernel,
    dim: LaunchDim,
    args: Sequence[Any],
    split: int,
    values: Mapping[Any, np.ndarray[Any, Any]] | None,
) -> Writer:
    """Return a writer for the common part of the scripts of a launch.

    `split` is the number of inputs, -1 without outputs. The writer holds the current values, because arrays
    may change before a script is written.
    """
    replaced = values or {}
    given = [
        (p.name, a, (replaced[a] if a in replaced else a.current()) if is_array(a) else None)
        for p, a in zip(kernel.params, args, strict=True)
    ]
    return Writer(lambda: launch_scene(kernel, dim, given, split))


def _placed(
    kernel: Kernel, named_in: Sequence[Named], named_out: Sequence[Named]
) -> tuple[list[Named], list[Named]]:
    """Arguments with the place that they, or the structs that they are fields of, have in the call."""
    declared = {p.name: p.declared for p in kernel.params}
    places = {p: place for place, p in enumerate(dict.fromkeys(declared[n] for _, n, _ in named_out))}
    inputs = [(declared[n], n, a) for _, n, a in named_in]
    return inputs, [(places[declared[n]], n, a) for _, n, a in named_out]


NOWHERE = -1  # the place of what stands among the inputs by its name only


def _arguments(named: Sequence[Named], ports: Sequence[Port]) -> list[Argument]:
    """Return the arguments that a mask can name."""
    by_name = {p.name: p for p in ports}
    return [Argument(place, name, value, by_name.get(name)) for place, name, value in named]


def _restricted(ports: Sequence[Port], chosen: Sequence[Port]) -> list[Port]:
    """The ports of a program; those of entries stand in place of whole ones that were not chosen."""
    views: dict[str, list[Port]] = {}
    for view in chosen:
        views.setdefault(view.name, []).append(view)
    return [view for whole in ports for view in views.get(whole.name, [whole])]


def _in_place(kernel: Kernel, targets: Sequence[Port], sources: Sequence[Port]) -> list[Port]:
    """Outputs whose old values the kernel reads: inputs too, though they were not named as such."""
    known = {id(source.array) for source in sources}
    index = {p.name: p.index for p in kernel.params}
    reads = kernel.analysis.reads
    return [
        replace(target, name=target.name + IN_PLACE, in_place=True)
        for target in targets
        if index[target.name] in reads and id(target.array) not in known
    ]


def named_ports(
    kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]
) -> tuple[list[Named], list[Named]]:
    """Arguments as (index, name, value): inputs among the inputs, outputs among the outputs.

    Without outputs, those are the arrays that the kernel writes, and the inputs are all but the ones that it
    only writes. Arrays that are written though they were passed as inputs are outputs too, after those that
    were named.
    """
    writes, reads = kernel.analysis.writes, kernel.analysis.reads
    names = [p.name for p in kernel.params]
    named_in = [(i, names[i], value) for i, value in enumerate(inputs)]
    named_out = [(i, names[len(inputs) + i], value) for i, value in enumerate(outputs)]
    hidden = [p for p in range(len(inputs)) if p in writes]
    named_out += [(len(outputs) + i, names[p], inputs[p]) for i, p in enumerate(hidden)]
    only_written = {names[p] for p in hidden if p not in reads}
    return [entry for entry in named_in if entry[1] not in only_written], named_out


# ------------------------------------------------------------------ functions


def function_subject(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any] | None, mask: Mask
) -> Subject:
    """The subject of a Python function: its launches, recorded while it ran once.

    Raises:
        GradcheckError: It returns no arrays, its launches are not all of it, or an array overlaps itself or
            another one.
    """
    call = FunctionCall.recorded(function, inputs, outputs)
    notes: list[str] = []
    sources = differentiable(call.given, notes, _parts(call.given))
    targets = placed_by_tape(call.tape, differentiable(call.returned, notes, _parts(call.returned)))
    pairs = choose_pairs(call.name, _arguments(call.given, sources), _arguments(call.returned, targets), mask)
    arrays = [(name, a) for _, name, a in (*call.given, *call.returned) if is_array(a)]
    refuse_overlaps(call.name, pairs, arrays, launch=False)
    program = ShadowProgram(
        call.name,
        tape_replay(call.tape),
        _restricted(sources, pairs.inputs()),
        _restricted(targets, pairs.outputs()),
    )
    pairs.notes = list(dict.fromkeys([*notes, *pairs.notes, *differences_on(call.tape.operations)]))
    wide = call.tape.capability(Float64)
    obstacle = "" if wide is None or not call.tape.operations else wide.obstacle()
    if obstacle:
        program.is_narrow = True
        pairs.notes.append(f"{obstacle}: its derivative {IN_LARGE_STEPS}")
    unrepeatable = None
    if pairs.chosen:
        try:
            require_faithful(call, program)
        except Unrepeatable as error:
            unrepeatable = error
    named = list(zip(input_names(function, len(inputs)), inputs, strict=True))

    def remember() -> Writer:
        values = {a: a.current() for _, _, a in call.given if is_array(a)}
        return Writer(lambda: function_scene(function, named, values))

    return Subject(
        program,
        pairs,
        lambda: FunctionMetadata.of_call(call.name.removeprefix("function "), call.given, call.returned),
        remember,
        call.tape,
        arguments=arrays,
        unrepeatable=unrepeatable,
    )


def _parts(named: Sequence[Named]) -> set[str]:
    """Names of fields of structs, and of what is in lists and dictionaries."""
    return {name for _, name, _ in named if "." in name or "[" in name}


__all__ = ["Subject", "function_subject", "kernel_subject", "named_ports", "port", "subject_of"]
