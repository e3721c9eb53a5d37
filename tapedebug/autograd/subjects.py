"""From what a user asks to check, a kernel or a Python function, to a program with its pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.differences import Floats
from tapedebug.autograd.flat import flat_call, flat_named, whole_structs
from tapedebug.autograd.guard import untouched
from tapedebug.autograd.metadata import FunctionMetadata, input_names
from tapedebug.autograd.pairs import Mask, choose_pairs, differentiable, is_array, port
from tapedebug.autograd.probes import random_directions
from tapedebug.autograd.program import Pairs, Port
from tapedebug.autograd.results import PairResult
from tapedebug.autograd.script import script_of
from tapedebug.autograd.shadowed import ShadowProgram, launch_shadow, tape_shadow
from tapedebug.lang.types import float16, scalar_of
from tapedebug.runtime._generic import concrete
from tapedebug.runtime.replay import Shadow

Named = tuple[int, str, Any]


@dataclass
class Subject:
    """What is differentiated: the program, the pairs that were asked for, and labels.

    `script` writes a script that shows one pair alone; None where that can not be done. `tape` is what a
    function recorded.
    """

    program: ShadowProgram
    pairs: Pairs
    metadata: FunctionMetadata
    script: Callable[[PairResult], str] | None = None
    tape: Any = None

    def script_for(self, pair: PairResult) -> Callable[[], str]:
        """The script of a pair, written when it is asked for."""
        script = self.script
        assert script is not None
        return lambda: script(pair)


def subject_of(
    function: Any,
    dim: Any,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    device: Any,
    mask: Mask,
    *,
    in_place: bool = False,
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

    Raises:
        GradcheckError: `function` is neither, or what it needs is missing.
    """
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.runtime.device import get_device

    get_device(device)
    if isinstance(function, Kernel):
        function = concrete(function, (*(inputs or ()), *(outputs or ())))
        return kernel_subject(function, dim, list(inputs or ()), list(outputs or ()), mask, in_place=in_place)
    if not callable(function):
        raise GradcheckError(
            f"a kernel or a function that launches kernels is needed; "
            f"got {function!r} ({type(function).__name__})",
            mend="pass the function that is decorated with @kernel",
        )
    return function_subject(function, list(inputs or ()), outputs, mask)


def kernel_subject(
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    mask: Mask,
    *,
    in_place: bool = False,
    launch: int | None = None,
    values: dict[Any, np.ndarray[Any, Any]] | None = None,
) -> Subject:
    """The subject of one launch; `values` are those at launch time, if arrays hold others now.

    The arguments of a launch on a tape are flat, as its record has them.

    Raises:
        GradcheckError: There is no `dim`.
        LaunchError: The arguments do not fit the kernel.
    """
    name = f"kernel {kernel.key}" if launch is None else f"launch {launch} ({kernel.key})"
    if dim is None:
        raise GradcheckError(
            f"{name} needs dim, its number of threads", mend="pass dim=len(array), or its shape"
        )
    if launch is None:
        inputs, outputs = flat_call(kernel, inputs, outputs)
    args = [*inputs, *outputs]
    make = launch_shadow(kernel, dim, args, values)
    make(False)  # checks the arguments, with the messages of a launch
    named_in, named_out = named_ports(kernel, inputs, outputs)
    notes: list[str] = []
    sources, targets = differentiable(named_in, notes), differentiable(named_out, notes)
    if not kernel.enable_backward:
        notes.append(f"not checked: {name} has no adjoint: enable_backward=False")
        sources = []
    if in_place:
        sources += _in_place(kernel, targets, sources)
    if not np.prod(dim, dtype=np.int64):
        notes.append(f"not checked: {name} has dim={dim!r}: no thread runs")
        sources = []
    names = [n for _, n, _ in named_in], [n for _, n, _ in named_out]
    mask = whole_structs(kernel, mask, named_in, named_out)
    pairs = choose_pairs(name, sources, targets, mask, names)
    pairs.notes = list(dict.fromkeys([*notes, *pairs.notes]))
    program = ShadowProgram(name, make, sources, targets, launch=launch)

    metadata = FunctionMetadata.of_kernel(kernel, inputs)
    if not outputs:
        metadata.output_labels = [n for _, n, _ in named_out]
        metadata.output_dtypes = [a.dtype if is_array(a) else None for _, _, a in named_out]
    split = len(inputs) if outputs else -1
    return Subject(program, pairs, metadata, _scripts(kernel, dim, args, split, make))


def _scripts(
    kernel: Any, dim: Any, args: Sequence[Any], split: int, make: Callable[[bool], Shadow]
) -> Callable[[PairResult], str]:
    """Writes scripts of single pairs; `split` is the number of inputs, -1 where no outputs were named."""

    def script(pair: PairResult) -> str:
        shadow = make(False)
        given = [
            (p.name, value, shadow.values(value) if is_array(value) else None)
            for p, value in zip(kernel.params, args, strict=True)
        ]
        call = f"input_output_mask=[({pair.input!r}, {pair.output!r})], raise_exception=False"
        if pair.input.endswith(IN_PLACE):
            call = "raise_exception=False"
        return script_of(kernel, dim, given, split, call, f"{pair.subject}: {pair.verdict}")

    return script


IN_PLACE = " (in place)"


def _in_place(kernel: Any, targets: Sequence[Port], sources: Sequence[Port]) -> list[Port]:
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
    kernel: Any, inputs: Sequence[Any], outputs: Sequence[Any]
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
        GradcheckError: It returns no arrays.
    """
    from tapedebug.runtime._observers import _live
    from tapedebug.runtime.tape import Tape

    name = f"function {getattr(function, '__name__', type(function).__name__)}"
    labels = input_names(function, len(inputs))
    given = flat_named([(i, labels[i], a) for i, a in enumerate(inputs)])
    with untouched([a for _, _, a in given if is_array(a)]):
        tape = Tape(on_overwrite="preserve")
        _live.discard(tape)  # it is ours, not one of the user's
        with tape:
            returned = function(*inputs)
        results = _returned(name, returned, outputs)
        observed = [np.array(a._look(), dtype=np.float64).ravel() for a in results]
    metadata = FunctionMetadata.of_function(function, inputs, results)
    notes: list[str] = []
    sources = differentiable([(i, name, a) for i, (_, name, a) in enumerate(given)], notes)
    named_out = [(i, f"output_{i}", a) for i, a in enumerate(results)]
    targets = differentiable(named_out, notes)
    buffers = tape.tracker.ledgers
    unused = [p for p in (*sources, *targets) if p.array.buffer not in buffers]
    notes += [f"not checked: no launch of {name} uses {p.name}" for p in unused]
    sources, targets = [p for p in sources if p not in unused], [p for p in targets if p not in unused]
    program = ShadowProgram(name, tape_shadow(tape), sources, targets)
    pairs = choose_pairs(
        name, sources, targets, mask, ([n for _, n, _ in given], [n for _, n, _ in named_out])
    )
    pairs.notes = list(dict.fromkeys([*notes, *pairs.notes]))
    if pairs.chosen:
        _require_faithful(name, function, inputs, outputs, program, results, observed)
    return Subject(program, pairs, metadata, tape=tape)


def _returned(name: str, returned: Any, outputs: Sequence[Any] | None) -> list[Any]:
    results = [returned] if is_array(returned) else returned
    if results is None:
        results = outputs
    if not isinstance(results, list | tuple) or not results or not all(is_array(a) for a in results):
        raise GradcheckError(
            f"{name} must return an array or a list of arrays; it returned {returned!r}",
            mend="return the arrays that the launches wrote",
        )
    return [a for _, _, a in flat_named((0, "", a) for a in results)]


def _require_faithful(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any] | None,
    program: ShadowProgram,
    results: Sequence[Any],
    observed: Sequence[Floats],
) -> None:
    """Refuse a function whose launches are not all of it: displaced inputs must give what the replay gives.

    Raises:
        GradcheckError: They do not.
    """
    changes: dict[Port, Floats] = {}
    for source in program.inputs:
        values = program.values(source)
        typical = float(np.sqrt(np.mean(values**2))) or 1.0
        step = 1e-3 * random_directions(source.size, 1, np.maximum(np.abs(values), 0.01 * typical))[0]
        single = np.float16 if scalar_of(source.array.dtype) is float16 else np.float32
        changes[source] = (values + step).astype(single).astype(np.float64)
    replayed = program.evaluate(changes, single=True)
    with untouched([a for _, _, a in flat_named((0, "", a) for a in inputs) if is_array(a)]):
        for source, values in changes.items():
            source.array.assign(values.reshape(source.shape))
        again = _returned(name, function(*inputs), outputs)
        real = [np.array(a._look(), dtype=np.float64).ravel() for a in again]
    for target in program.outputs:
        before, after, twin = observed[target.index], real[target.index], replayed[target]
        if before.shape != after.shape:
            continue
        moved = np.abs(after - before).max(initial=0.0)
        if np.abs(after - twin).max(initial=0.0) > 0.05 * moved + 1e-4 * np.abs(before).max(initial=0.0):
            raise GradcheckError(
                f"{name} computes something outside of kernels: at inputs that differ by 0.1 %, "
                f"{target.name} is not what its recorded launches give",
                mend="compute in kernels what depends on the inputs (or pin the random state)",
            )


__all__ = ["Subject", "function_subject", "kernel_subject", "named_ports", "port", "subject_of"]
