"""Checks the gradient of a whole tape against finite differences of its own replay.

A check of single launches cannot detect errors between launches: an overwritten buffer, a cut chain. Here the
recorded program is replayed as a whole, in float64, and three gradients are compared: the consumed one
(float32, with the tape's own `on_overwrite`), the float64 adjoint that reads the values of the forward pass,
and finite differences of the loss along random directions and along the largest entries, with error bars.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug import _time_limit
from tapedebug._dataclass import dataclass
from tapedebug._display import renderer
from tapedebug._memory_retention import retention
from tapedebug._process_state import preserve_process_state
from tapedebug._progress import OutOfTime
from tapedebug._tape_observers import recorded_tape
from tapedebug.autograd.array_types import Checkpoint, Floats, Loss
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct, dot_test
from tapedebug.autograd.finite_diff.verdict import Verdict, worst
from tapedebug.autograd.results.pair_result import Coverage
from tapedebug.autograd.subjects.long_vectors import (
    BLOCK,
    blocks,
    compact_type,
    dot_of_sizes,
    norm,
    raise_to_difference,
)
from tapedebug.autograd.subjects.probes import random_bits, signs_of
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import UNMATCHED, gradient_of
from tapedebug.autograd.subjects.whole_tape import WholeTape, whole_tape
from tapedebug.autograd.tapes.directional import Gradients, Probe, negligible, probe_input
from tapedebug.autograd.tapes.effort import plan_directions
from tapedebug.autograd.tapes.input_check import InputCheck, judge_input, result_of, unconfirmed
from tapedebug.autograd.tapes.joint_directions import JointDirections
from tapedebug.autograd.tapes.reference import Reference, reference_of
from tapedebug.autograd.thresholds import REFERENCE_ROUNDINGS, RUNS_DIVERGED

if TYPE_CHECKING:
    from tapedebug.contract import Array, RecordedTape

MOVED = 3  # samples of the effect of one float32 rounding of the inputs
SLOW = 0.02  # seconds of a sample from which on fewer are taken
HURRY = 0.01  # the same as a part of the time that is left
SENSITIVE = 1e-5  # relative effect from which on all samples are taken
FEWER = 2.0  # factor of the effect if fewer were taken: the largest of three is about as much more than one
TIMES = {1: "once", 2: "twice"}
LEAST_RUNS = 2.5  # forward runs as slow as the first, in which no gradient and comparison ever was computed
LISTED = 4  # inputs that the summary names


@dataclass(frozen=True)
class EndToEnd:
    """The result of `end_to_end`; true only if every input agrees.

    Attributes:
        verdict: The worst verdict of the inputs; UNDECIDABLE if nothing was covered.
        inputs: One result for each input.
        rel_error: The largest relative error of an input (NaN without inputs).
        coverage: The checked launches, the agreement of the gradient, and the parts that were not covered.
        loss: The loss of the recorded run, replayed in float32.
        loss64: The loss of the replay in float64.
        seconds: The duration of the check.
        dot_product: The dot-product test of the consumed reverse pass, in float64; None if there was none.
        left_out: The names of the inputs that were not reached when `checkpoint` ended the check.
        run_seconds: The measured duration of a forward run in float64; None if it was not measured.
    """

    verdict: Verdict
    inputs: tuple[InputCheck, ...]
    rel_error: float
    coverage: Coverage
    loss: float
    loss64: float
    seconds: float
    dot_product: DotProduct | None = None
    left_out: tuple[str, ...] = ()
    run_seconds: float | None = None

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return the MIME bundle for a notebook."""
        return renderer().static(self)

    def __bool__(self) -> bool:
        return self.verdict == "AGREE" and not self.left_out

    @property
    def is_partial(self) -> bool:
        """True if time was up before all was compared."""
        return bool(self.left_out) or any(check.late for check in self.inputs)

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.coverage}"]
        lines += [f"  {check.name}: {check.verdict}, {check.message}" for check in self.inputs]
        if self.dot_product is not None and self.dot_product.agrees:
            lines.append(f"  {self.dot_product}")
        return "\n".join(lines)


@preserve_process_state
def end_to_end(
    tape: RecordedTape,
    loss: Loss | None = None,
    inputs: Iterable[Array] | Array | None = None,
    *,
    rtol: float = 1e-3,
    directions: int = 3,
    max_seconds: float = 30.0,
    labels: Mapping[Any, str] | None = None,
    checkpoint: Checkpoint | None = None,
    each: Callable[[InputCheck], Any] | None = None,
) -> EndToEnd:
    """Check the gradient of a whole recorded tape.

    Args:
        tape: The tape, of any engine; its arrays are not touched, the check runs on private copies.
        loss: The loss, an array of one element, or a dictionary of outputs to adjoints as in
            `Tape.backward(grads=…)`. By default the argument of the last `Tape.backward`.
        inputs: The arrays whose gradients are checked; by default all arrays with `requires_grad=True` whose
            values the tape read before it wrote them.
        rtol: The relative error up to which a float32 gradient agrees with the float64 one. A reverse pass
            that is not the transpose of the derivative does not agree, however small its error.
        directions: Number of random directions in which each input is displaced, beside its largest entries.
        max_seconds: The time limit. If needed, inputs are displaced in fewer directions, which the coverage
            says; a gradient is compared in at least two.
        labels: Names of arrays, for messages.
        checkpoint: Called often; may raise to cancel. If it raises `OutOfTime` after the first result, the
            check returns the results that it has.
        each: Called with the result for each input as soon as it is available.

    Returns:
        The verdicts with their numbers and the coverage.

    Raises:
        GradcheckError: No loss is known, or it is not on the tape.
    """
    began = time.perf_counter()
    program = whole_tape(recorded_tape(tape), loss, inputs, labels)
    program.pulse = checkpoint
    with np.errstate(all="ignore"):
        checks, dot, value, value64, run_seconds = _check_inputs(
            program, rtol, max(1, directions), max_seconds, checkpoint, each or (lambda _: None)
        )
    errors = [check.rel_error for check in checks]
    done = {id(check.array) for check in checks}
    left_out = tuple(port.name for port in program.inputs if id(port.array) not in done)
    if left_out:
        program.notes.append(f"not compared, as time was up: {', '.join(left_out)}")
    return EndToEnd(
        verdict=worst(check.verdict for check in checks),
        inputs=tuple(checks),
        rel_error=max(errors, key=lambda e: np.inf if np.isnan(e) else e) if errors else float("nan"),
        coverage=_coverage(program, checks, dot),
        loss=value,
        loss64=value64,
        seconds=time.perf_counter() - began,
        dot_product=dot,
        left_out=left_out,
        run_seconds=run_seconds,
    )


def _coverage(program: WholeTape, checks: Sequence[InputCheck], dot: DotProduct | None) -> Coverage:
    checked = program.launches - program.unchecked if checks else 0
    summary = f"{checked} of {program.launches} launches checked end to end"
    agreeing = [check for check in checks if check.verdict == "AGREE"]
    if checks and len(agreeing) == len(checks):
        summary += f"; {_agrees(checks, dot)}"
    elif checks:
        verdict = worst(check.verdict for check in checks)
        bad = sorted((check for check in checks if check.verdict == verdict), key=_error, reverse=True)
        summary += f"; {verdict} with respect to {_inputs(bad)}: {bad[0].reason}"
    elif any(note.startswith("not checked: ") for note in program.notes):
        summary += ": none of the inputs can be checked"
    elif empty := [array for array in _read_arrays(program) if array.requires_grad and not array.size]:
        one = len(empty) == 1
        summary += f": {'the only input' if one else 'each input'} with requires_grad=True is empty"
    else:
        summary += ": no input has requires_grad=True"
    zero = [check.name for check in agreeing if not check.reference.any()]
    notes = [f"exactly zero: the gradient with respect to {name}" for name in zero]
    notes += [f"{check.name}: {check.note}" for check in agreeing if check.note]
    brief = [check.name for check in checks if any(probe.is_brief for probe in check.probes)]
    if brief:
        notes.append(
            f"random directions of {', '.join(brief)} were left after two steps, which show a kink: "
            "the loss has a proven one at an entry"
        )
    return Coverage(summary, program.launches, checked, (*program.notes, *notes))


def _read_arrays(program: WholeTape) -> list[Array]:
    """Return the arrays that operations of the tape read, each once."""
    accesses = [access for operation in program.tape.operations for access in operation.accesses]
    return list(dict.fromkeys(access.array for access in accesses if access.reads))


def _agrees(checks: Sequence[InputCheck], dot: DotProduct | None) -> str:
    """Return how well gradients agree with references that do not share the adjoint under test."""
    at_rest = [check for check in checks if check.stationary]
    others = [check for check in checks if not check.stationary]
    seen = [check for check in others if 0 < check.agreement < 1]
    hidden = [check for check in others if not check.agreement < 1]
    least = 0.0 if dot is None or not dot.agrees else dot.mismatch
    text = f"agrees to {_power(max([least, *(check.agreement for check in seen)]))}" if seen else ""
    if at_rest:
        resolved = f"as far as float32 resolves it near a stationary point: {_inputs(at_rest)}"
        text = f"{text}, and {resolved}" if text else f"agrees {resolved}"
    if hidden:
        below = f"the gradient with respect to {_inputs(hidden)} is below the resolution of the check"
        return f"{text}; {below}" if text else f"nothing contradicts it, but {below}"
    return text or "agrees: it is exactly zero"


def _error(check: InputCheck) -> float:
    """Return the error of a gradient; infinite if the gradient is not finite."""
    return check.rel_error if np.isfinite(check.rel_error) else np.inf


def _inputs(checks: Sequence[InputCheck]) -> str:
    """Return `w, off by 777 %, and x, off by 70 %`: the first `LISTED` of `checks`, in order."""
    named = [
        f"{check.name}, off by {_percent(check.rel_error)}"
        if check.verdict == "WRONG" and np.isfinite(check.rel_error)
        else check.name
        for check in checks[:LISTED]
    ]
    left = len(checks) - len(named)
    named += [f"{left} more"] if left else []
    joint = ", and " if any("off by" in name for name in named) else " and "
    return joint.join(filter(None, [", ".join(named[:-1]), named[-1]]))


def _power(error: float) -> str:
    """Return `3e-7`, rounded up, so that the printed agreement is never better than the measured one."""
    if not error:
        return "0"
    exponent = math.floor(math.log10(error))
    digit = math.ceil(error / 10.0**exponent - 1e-9)
    return f"{digit}e{exponent}" if digit < 10 else f"1e{exponent + 1}"


def _percent(error: float) -> str:
    """Return `69 %`, or `1e-5` if percents would be tiny or huge."""
    if 1e-3 <= error < 10:
        return f"{100 * error:.2g} %" if error < 1 else f"{100 * error:.0f} %"
    return f"a factor of {error:.1g}" if error >= 10 else f"{error:.0e}"


def _check_inputs(
    program: WholeTape,
    rtol: float,
    directions: int,
    max_seconds: float,
    checkpoint: Checkpoint | None,
    each: Callable[[InputCheck], Any],
) -> tuple[list[InputCheck], DotProduct | None, float, float, float | None]:
    limited = _time_limit.remaining() < np.inf
    # It needs less memory before the gradients; under a time limit the comparisons come first.
    dot = None if limited else _dot_test(program, checkpoint)
    # Float64 replays take most memory: if time is not limited, nothing is kept for later while they exist.
    wide = _float64_gradients(program, checkpoint) if program.inputs and not limited else None
    value = program.loss_before_reverse()
    matches = program.matches_live()
    # The program's own run is the second one, if it gave the same to the bit.
    is_same = program.is_repeatable or (matches and program.found == value)
    again = value if is_same else program.loss(single=True)
    if value == again and not matches:
        program.notes.append(UNMATCHED)
    if not program.inputs:
        program.forget()
        return [], dot, value, program.base, None
    consumed = program.pull(program.seeds, compacted=True)
    program.forget()
    value64 = program.base
    if limited and program.base_seconds is not None:
        # Else all that follows would be for nothing, and the time lacks where it could find something.
        _time_limit.ensure_processor(LEAST_RUNS * program.base_seconds[1], "comparing its gradients")
    gradients = _gradients(program, consumed, *(wide or _float64_gradients(program, checkpoint)))
    retention.release()  # differences of the loss need no values that adjoints read
    plan = plan_directions(program, directions, max_seconds)
    program.notes += [plan.note] if plan.note else []
    began = _time_limit.now()
    diverged = not abs(value - value64) <= RUNS_DIVERGED * max(abs(value), abs(value64))
    if abs(value - again) > 1e-5 * abs(value):
        message = f"two forward runs on the same values give the losses {value:.9g} and {again:.9g}"
        found = [
            result_of(port, gradients, [], "NONDETERMINISTIC", message, message) for port in program.inputs
        ]
        return found, dot, value, value64, plan.run_seconds
    together: dict[Port, list[Probe]] = {}
    if plan.together:
        together = JointDirections(program, gradients, rtol, plan, checkpoint).run()
    reference = reference_of(program, gradients)
    program.notes += [reference.note] if reference.note else []
    program.forget()
    checks: list[InputCheck] = []
    with _as_far_as_possible(checks):
        inputs = sorted(program.inputs, key=lambda port: port not in together)  # those compared by now first
        for number, port in enumerate(inputs, start=1):
            share = replace(plan.alone, until=began + max_seconds * number / len(program.inputs))
            probes = together.get(port) or probe_input(program, port, gradients, rtol, share, checkpoint)
            checks.append(judge_input(program, port, gradients, probes, rtol, diverged, reference))
            each(checks[-1])
    dot = _dot_test(program, checkpoint) if limited else dot
    if dot is not None and _transpose_fails(dot, program, reference, checks):
        checks = [unconfirmed(check, dot.message) for check in checks]
        for check in checks:
            each(check)
    return checks, dot, value, value64, plan.run_seconds


def _dot_test(program: WholeTape, checkpoint: Checkpoint | None) -> DotProduct | None:
    """Return the dot-product test of a tape; None if it has no result."""
    if not program.has_tangents:
        program.notes.append("no dot-product test: the engine has no tangents")
    try:
        _time_limit.pulse()  # it clears memory before it runs the first operation
        dot = dot_test(program, checkpoint)
    except OutOfTime:
        program.notes.append("no dot-product test: time was up")
        return None
    # A gradient that is meant to differ is no transpose of anything.
    program.notes += [dot.message] if dot is not None and dot.message and not program.meant else []
    return dot


@contextlib.contextmanager
def _as_far_as_possible(checks: Sequence[InputCheck]) -> Iterator[None]:
    """Context that ends when the time limit expires, if there is a result by then."""
    try:
        yield
    except OutOfTime:
        if not checks:
            raise


def _transpose_fails(
    dot: DotProduct, program: WholeTape, reference: Reference, checks: Sequence[InputCheck]
) -> bool:
    """True if the reverse pass is not the transpose of the derivative and no input explains that."""
    if not dot.message or program.meant or reference.confirms_own():
        return False
    small = dot.mismatch <= REFERENCE_ROUNDINGS * max(port.rounding for port in program.inputs)
    return not small and all(check.verdict == "AGREE" for check in checks)


class _RoundedOtherwise(Mapping[Port, Floats]):
    """The values of all inputs, each changed by one rounding up or down.

    Of long inputs only the signs are kept, as bits: their values are computed when they are read.
    """

    def __init__(self, program: WholeTape, rng: np.random.Generator) -> None:
        self._program = program
        self._signs = {
            port: random_bits(rng, port.size)
            if port.size > BLOCK
            else rng.choice([-1.0, 1.0], size=port.size)
            for port in program.inputs
        }

    def __getitem__(self, port: Port) -> Floats:
        signs = self._signs[port]
        if port.size > BLOCK:
            signs = signs_of(signs, port.size)
        factors: Floats = np.empty(port.size)
        for at in blocks(port.size):
            np.multiply(signs[at], np.float64(port.rounding), out=factors[at])
            factors[at] += 1
        return self._program.scaled(port, factors)

    def __iter__(self) -> Iterator[Port]:
        return iter(self._signs)

    def __len__(self) -> int:
        return len(self._signs)


def _type_of(port: Port) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(port.array.scalar_dtype)
    return found


class _Deferred(Mapping[Port, Floats]):
    """Measurements of all inputs that a function takes when the first of them is asked for."""

    def __init__(self, inputs: Sequence[Port], measure: Callable[[], Mapping[Port, Floats]]) -> None:
        self._inputs, self._measure = inputs, measure
        self._found: Mapping[Port, Floats] | None = None

    def __getitem__(self, port: Port) -> Floats:
        if self._found is None:
            self._found = self._measure()
        return self._found[port]

    def __iter__(self) -> Iterator[Port]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)


def _spread(
    program: WholeTape, exact: Mapping[Port, Floats], checkpoint: Checkpoint | None
) -> dict[Port, Floats]:
    """Return the largest change of each entry of the gradients by one float32 rounding of the inputs."""
    # Of long inputs in float32: it is an estimate, and as many bytes as the gradient itself.
    spread = {port: np.zeros(port.size, compact_type(port.size, _type_of(port))) for port in exact}
    rng = np.random.default_rng(0)
    began, used, samples = time.perf_counter(), time.process_time(), 0
    sensitive = False
    slow = min(SLOW, HURRY * max(0.0, _time_limit.remaining()))
    while samples < MOVED:
        took = min(time.perf_counter() - began, time.process_time() - used)
        if took > samples * slow and samples and not sensitive:
            break
        samples += 1
        moved = program.reversed(
            program.seeds, at=_RoundedOtherwise(program, rng), double=True, preserved=True
        )
        for port, most in spread.items():
            raise_to_difference(most, gradient_of(moved, port), exact[port])
            sensitive = sensitive or not norm(most) <= SENSITIVE * norm(exact[port])
        if checkpoint is not None:
            checkpoint()
    if samples < MOVED:
        for most in spread.values():
            most *= FEWER
        program.notes.append(
            f"the effect of float32 rounding on the gradient was sampled {TIMES[samples]}, and multiplied by "
            f"{FEWER:g}: each sample takes a reverse pass"
        )
    return spread


def _float64_gradients(
    program: WholeTape, checkpoint: Checkpoint | None
) -> tuple[Mapping[Port, Floats], Mapping[Port, Floats], Mapping[Port, Floats]]:
    """Return `same`, `exact` and `spread` of `Gradients`, from the run in which the loss is computed."""
    _ = program.base
    exact = program.gradient(preserved=True)
    same = exact if program.preserves else program.gradient(preserved=False)
    # Where no step is chosen by it, only differences that disagree need it.
    spread: Mapping[Port, Floats] = (
        _Deferred(program.inputs, lambda: _spread(program, exact, checkpoint))
        if program.is_narrow
        else _spread(program, exact, checkpoint)
    )
    program.forget()
    return same, exact, spread


def _gradients(
    program: WholeTape,
    consumed: Mapping[Port, Floats],
    same: Mapping[Port, Floats],
    exact: Mapping[Port, Floats],
    spread: Mapping[Port, Floats],
) -> Gradients:
    """Return the gradients of all inputs, with the sizes below which they are as good as zero."""
    least = {port: norm(negligible(program, port)) for port in program.inputs}
    promised = [dot_of_sizes(np.abs(exact[port]), program.values(port)) for port in program.inputs]
    scale = max([abs(program.base), *(size for size in promised if np.isfinite(size))])
    return Gradients(consumed, same, exact, spread, least, scale)
