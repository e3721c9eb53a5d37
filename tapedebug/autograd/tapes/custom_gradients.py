"""Checks functions with a custom gradient (`func_grad`) on their own, at recorded arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tapedebug._even_sample import evenly_spread
from tapedebug._lazy_module import lazy_module
from tapedebug.autograd.array_types import Checkpoint
from tapedebug.autograd.finite_diff.verdict import Verdict
from tapedebug.autograd.results.pair_result import PairResult
from tapedebug.autograd.subjects.engine_kernels import kernel_of
from tapedebug.autograd.thresholds import CALL_GRADIENT_OFF
from tapedebug.compiler.passes.custom import calls_with_gradient
from tapedebug.contract import CannotFollow, CheckedCall, PartialDerivative, RecordedTape, is_array
from tapedebug.runtime.replay.custom_gradients import checked_thread
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.autograd.subjects import launches
    from tapedebug.compiler.kernel import Kernel
else:
    launches = lazy_module("tapedebug.autograd.subjects.launches")


CHECK = "func_grad alone"
LAUNCHES = 3  # of a kernel: the first, the last, one between
THREADS = 12  # of a launch, spread over it


def check_own_gradients(
    tape: RecordedTape, records: Sequence[Any], notes: list[str], checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Check the gradient of each function with `func_grad` that kernels on a tape call.

    Args:
        tape: The tape.
        records: The launches whose calls may be examined.
        notes: Gets the parts that were not checked, with reasons.
        checkpoint: Called often; may raise to cancel.

    Returns:
        One result for each argument of each function of each examined launch.
    """
    chosen = _launches_to_check(records, notes)
    found: list[PairResult] = []
    lost: dict[str, None] = {}
    for record, values in launches.launch_values(tape, chosen, checkpoint):
        contents = {p: values[a] for p, a in enumerate(record.args) if is_array(a)}
        calls: dict[str, list[CheckedCall]] = {name: [] for name in _functions(record.kernel)}
        for index in evenly_spread(record.threads, THREADS):
            single = checked_thread(record, index, contents)
            try:
                single.run()
            except CannotFollow as error:
                lost.setdefault(f"launch {record.index} ({record.name}): {error}")
            for call in single.checked:
                calls.setdefault(call.function.name, []).append(call)
            if checkpoint is not None:
                checkpoint()
        for name, several in calls.items():
            found += _results(record, name, several)
            if not several:
                lost.setdefault(
                    f"function {name}: none of the threads that were followed in launch {record.index} "
                    f"({record.name}) calls it"
                )
    notes += [f"not checked alone: {reason}" for reason in lost]
    return found


def functions_off(
    tape: RecordedTape, names: Sequence[str], threads: Iterable[int], checkpoint: Checkpoint | None = None
) -> bool:
    """True if a custom gradient of these functions disagrees with finite differences of the function.

    Args:
        tape: The tape.
        names: The functions.
        threads: The threads whose calls are examined, in addition to evenly spread ones of each launch.
        checkpoint: Called often; may raise to cancel.
    """
    records = [
        record
        for record in tape.operations
        if isinstance(record, Record) and record.kernel is not None and record.active
    ]
    records = [record for record in records if set(names) & set(_functions(record.kernel))]
    wanted = list(islice(threads, THREADS))
    for record, values in launches.launch_values(tape, _launches_to_check(records, []), checkpoint):
        contents = {p: values[a] for p, a in enumerate(record.args) if is_array(a)}
        among = [index for index in wanted if index < record.threads]
        for index in dict.fromkeys([*among, *evenly_spread(record.threads, THREADS)]):
            for call in _calls(record, index, contents):
                if call.function.name in names and any(
                    is_gradient_off(call, partial) for partial in call.partials
                ):
                    return True
            if checkpoint is not None:
                checkpoint()
    return False


def is_gradient_off(call: CheckedCall, partial: PartialDerivative) -> bool:
    """True if the custom gradient of a call for an argument is not the derivative."""
    if partial.right is None or partial.thrown_away:
        return partial.thrown_away
    largest = max(abs(p.right or 0.0) for p in call.partials)
    error = abs(partial.given - partial.right)
    return not error <= CALL_GRADIENT_OFF * max(abs(partial.right), CALL_GRADIENT_OFF * largest) + 1e-9


def _calls(record: Record, index: int, contents: dict[int, Any]) -> list[CheckedCall]:
    """Return the calls in one thread of a launch, as far as it can be followed."""
    single = checked_thread(record, index, contents)
    with contextlib.suppress(CannotFollow):
        single.run()
    return single.checked


def _functions(kernel: Kernel) -> list[str]:
    """Return the names of the functions with a custom gradient that a kernel calls."""
    nodes: Iterable[Any] = calls_with_gradient(kernel._lowered.custom.body)
    return list(dict.fromkeys(node.name for node in nodes if not node.function.gradient.differs))


def _launches_to_check(records: Sequence[Any], notes: list[str]) -> list[Any]:
    """Return some launches of each kernel that calls such functions, in recorded order."""
    kernels: dict[int, list[Any]] = {}
    for record in records:
        kernel = kernel_of(record)
        if kernel is not None and record.active and _functions(kernel):
            kernels.setdefault(id(kernel), []).append(record)
    chosen: dict[int, Any] = {}
    for several in kernels.values():
        several = sorted(several, key=lambda record: record.index)
        places = sorted({0, len(several) // 2, len(several) - 1})
        chosen.update((several[place].index, several[place]) for place in places)
        if len(several) > len(places):
            names = ", ".join(_functions(several[0].kernel))
            notes.append(
                f"{names}: checked alone in {len(places)} of {len(several)} launches of {several[0].name}"
            )
    return [chosen[index] for index in sorted(chosen)]


def _results(record: Record, name: str, calls: Sequence[CheckedCall]) -> list[PairResult]:
    partials: dict[str, list[tuple[CheckedCall, PartialDerivative]]] = {}
    for call in calls:
        for partial in call.partials:
            partials.setdefault(partial.name, []).append((call, partial))
    return [_result(record, name, argument, samples) for argument, samples in partials.items()]


def _result(
    record: Record, name: str, argument: str, samples: Sequence[tuple[CheckedCall, PartialDerivative]]
) -> PairResult:
    known = [(call, partial) for call, partial in samples if partial.right is not None]
    off = [(call, partial) for call, partial in known if is_gradient_off(call, partial)]
    errors = [abs(partial.given - (partial.right or 0.0)) for _, partial in known]
    relative = [
        error / abs(partial.right or 1.0)
        for error, (_, partial) in zip(errors, known, strict=True)
        if partial.right
    ]
    verdict: Verdict = "WRONG" if off else "AGREE" if known else "KINK"
    message = ""
    if off:
        call, partial = max(off, key=lambda sample: abs(sample[1].given - (sample[1].right or 0.0)))
        message = f"{_describe(call, partial)}; {len(off)} of {len(known)} calls that were checked are off"
    elif not known:
        message = f"the function has no derivative by {argument} where it was called"
    return PairResult(
        record.index, f"function {name} in launch {record.index} ({record.name})", argument, "the result",
        verdict, max(errors, default=float("nan")), max(relative, default=float("nan")), message,
        entries=len(samples), evaluated=len(known), check=CHECK,
    )  # fmt: skip


def _describe(call: CheckedCall, partial: PartialDerivative) -> str:
    at = ", ".join(f"{p.name} = {p.value:.6g}" for p in call.partials[:6])
    assert call.function.gradient is not None
    gradient = call.function.gradient.name
    where = f"in thread {call.thread}, at {at}"
    if partial.thrown_away:
        return (
            f"{gradient} sets the adjoint of {partial.name} instead of adding to it, and discards what "
            f"other uses contributed ({where})"
        )
    return (
        f"{gradient} is not the derivative: {where}, the derivative by {partial.name} is "
        f"{partial.right:.6g}, and {partial.given:.6g} is given"
    )
