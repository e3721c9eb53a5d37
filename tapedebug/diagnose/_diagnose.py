"""`diagnose`: the end-to-end verdict, then the rules, each with experiments on a private replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug.diagnose import disconnected, nonfinite, overwrite
from tapedebug.diagnose._diagnosis import ORDER, Diagnosis, merged_coverage, worst_verdict
from tapedebug.diagnose._experiment import Experiment
from tapedebug.diagnose._graph import differentiable
from tapedebug.diagnose._replay import Replay
from tapedebug.trace import Check, Coverage, Finding, Trace

if TYPE_CHECKING:
    from tapedebug.runtime import Tape
    from tapedebug.runtime import array as Array
    from tapedebug.trace import Recorded

Rule = Callable[[Trace, Experiment], list[Finding]]
RULES: tuple[Rule, ...] = (nonfinite.find, disconnected.find, overwrite.find)
SUMMARISED = 1 << 27
"""Bytes of versions up to which a diagnosis also summarises their values; a panel shows them."""

Loss = Any
"""An array of one float, or a mapping of arrays to their incoming adjoints."""


def diagnose(
    tape: Tape | Sequence[Tape],
    loss: Array | Mapping[Array, Any] | None = None,
    inputs: Sequence[Array] | Array | None = None,
) -> Diagnosis:
    """Say what is wrong with the gradients of a tape, or that they are right, and how much that covers.

    Everything is measured on private copies: no array, gradient or tape is changed, whatever happens.

    Args:
        tape: A recorded tape, or several.
        loss: What the gradients are of: a scalar array, or a mapping of arrays to their incoming adjoints
        as in
            `Tape.backward(grads=…)`. By default what the last `Tape.backward` was called with, or else the
            only scalar result of the tape.
        inputs: The arrays whose gradients matter; by default all that require a gradient and whose values the
            tape read before it wrote them.

    Returns:
        Verdict, coverage and findings, worst first.

    Raises:
        TapedebugError: `loss` or one of `inputs` is not on the tape, or `loss` is no scalar with a gradient.
        TypeError: `tape` is not a tape.
    """
    tapes: list[Any] = list(tape) if isinstance(tape, (list, tuple)) else [tape]
    _check_tapes(tapes)
    parts = [_one(item, loss, inputs) for item in tapes]
    if len(parts) == 1:
        return parts[0]
    traces = [part.trace for part in parts]
    findings = sorted((item for trace in traces for item in trace.findings), key=_severity)
    coverage = merged_coverage([part.coverage for part in parts], [])
    verdict = worst_verdict([part.verdict for part in parts])
    worst = min(parts, key=lambda part: (part.verdict != verdict, -len(part.findings)))
    return Diagnosis(verdict, coverage, findings, worst.trace, traces)


def _check_tapes(tapes: Sequence[Any]) -> None:
    from tapedebug.runtime import Tape

    if not tapes:
        raise TypeError("diagnose: the list of tapes is empty")
    for item in tapes:
        if not isinstance(item, Tape):
            raise TypeError(
                f"diagnose takes a Tape or a list of tapes, not {item!r} (a {type(item).__name__})"
            )


def _one(tape: Tape, loss: Loss, inputs: Any) -> Diagnosis:
    from tapedebug.trace._record import record_with_arrays

    recorded = record_with_arrays(tape)
    trace = recorded.trace
    if not trace.launches:
        trace.coverage = Coverage(summary="the tape is empty: nothing was recorded")
        return Diagnosis("NOT CHECKED", trace.coverage, [], trace)
    target, notes = _target(recorded, loss)
    leaves = _leaves(recorded, inputs)
    seeds = _seeds(recorded, target)
    if len(seeds) == 1:
        trace.backward.loss = recorded.id_of(next(iter(seeds)))
    _summarise(recorded, seeds)
    wrong = _end_to_end(recorded, target, leaves, inputs is not None)
    trace.coverage.notes += notes
    experiment = Replay(recorded, seeds, leaves, wrong=wrong, named=inputs is not None)
    if experiment.blocked:
        trace.coverage.notes.append(f"gradients were not measured: {experiment.blocked}")
    findings = [finding for rule in RULES for finding in rule(trace, experiment)]
    trace.findings = sorted(findings, key=_severity)
    _allow_for_detached(trace, wrong)
    for number, finding in enumerate(trace.findings):
        finding.id = number
    return Diagnosis(trace.verdict, trace.coverage, trace.findings, trace)


def _severity(finding: Finding) -> tuple[int, int]:
    """Worst first; what the engine had to take care of comes before what is harmless."""
    return ORDER[finding.severity], int(bool(finding.evidence.get("harmless")))


def _allow_for_detached(trace: Trace, wrong: set[int]) -> None:
    """A gradient that was cut on purpose differs from a difference of the loss, and is not wrong for that."""
    detached = {
        label for item in trace.findings if item.evidence.get("detached") for label in item.evidence["inputs"]
    }
    if any(item.severity == "error" for item in trace.findings) or not wrong:
        return
    if {trace.arrays[leaf].label for leaf in wrong} <= detached:
        trace.verdict = "UNDECIDABLE"
        trace.coverage.notes.append(
            f"{', '.join(sorted(detached))}: differences of the loss see through what was detached with "
            "requires_grad=False, so they can not confirm the gradient"
        )


def _target(recorded: Recorded, loss: Loss) -> tuple[Loss, list[str]]:
    """What the gradients are of, and what must be said about how that was found."""
    if loss is not None:
        return loss, []
    calls = recorded.tape.backward_calls
    if calls:
        return calls[-1].seeds, []
    trace = recorded.trace
    results = [
        info
        for info in trace.arrays
        if info.role == "output"
        and info.requires_grad
        and math.prod(info.shape) == 1
        and info.dtype.startswith("float")
    ]
    if len(results) == 1:
        label = results[0].label
        return recorded.arrays[results[0].id], [
            f"backward was not called: {label}, the only scalar result, is the loss"
        ]
    found = ", ".join(info.label for info in results) or "none"
    return None, [f"no loss is known (scalar results: {found}): call backward first, or pass loss="]


def _seeds(recorded: Recorded, target: Loss) -> dict[Any, np.ndarray[Any, Any]]:
    if target is None:
        return {}
    if isinstance(target, Mapping):
        return {key: _values(value) for key, value in target.items()}
    if recorded.id_of(target) is None:
        raise TapedebugError(
            f"diagnose: the loss, an {target!r}, is not on this tape",
            mend="pass the array that a recorded launch writes the loss to",
        )
    info = recorded.trace.arrays[recorded.id_of(target) or 0]
    if math.prod(info.shape) != 1 or info.dtype not in ("float32", "float64"):
        raise TapedebugError(
            f"diagnose: the loss must be a scalar float; got an {target!r}",
            mend="sum it into an array of one element, or pass loss={array: seed}",
        )
    if not info.requires_grad:
        raise TapedebugError(
            f"diagnose: the loss, {info.label}, has no gradient: requires_grad is not set",
            mend="create it with requires_grad=True",
        )
    return {target: np.ones(target.shape, target._look().dtype)}


def _values(seed: Any) -> np.ndarray[Any, Any]:
    return np.array(seed._look()) if hasattr(seed, "_look") else np.array(seed)


def _leaves(recorded: Recorded, inputs: Any) -> list[int]:
    """Ids of the arrays whose gradients matter."""
    if inputs is not None:
        from tapedebug.autograd.flat import arrays_in

        given = arrays_in(inputs)
        ids = [recorded.id_of(item) for item in given]
        for item, number in zip(given, ids, strict=True):
            if number is None:
                raise TapedebugError(
                    f"diagnose: the input {item!r} is not on this tape",
                    mend="pass arrays that a recorded launch uses",
                )
        return [number for number in ids if number is not None]
    trace = recorded.trace
    read = {version.array for version in trace.versions if version.version == 0 and version.reads}
    return [info.id for info in trace.arrays if info.id in read and differentiable(info)]


def _summarise(recorded: Recorded, seeds: Mapping[Any, Any]) -> None:
    trace = recorded.trace
    size = {info.id: info.stop - info.start for info in trace.arrays}
    if sum(size[version.array] for version in trace.versions) <= SUMMARISED:
        from tapedebug.trace._values import add_summaries

        add_summaries(recorded, seeds)


def _end_to_end(recorded: Recorded, target: Loss, leaves: Sequence[int], named: bool) -> set[int]:
    """Set verdict, coverage and checks of the trace; returns the inputs whose gradient is wrong."""
    from tapedebug.autograd import end_to_end

    trace, total = recorded.trace, len(recorded.trace.launches)
    if target is None:
        trace.coverage = Coverage(summary=f"0 of {total} launches checked end to end", launches=total)
        return set()
    labels = {array: info.label for array, info in zip(recorded.arrays, trace.arrays, strict=True)}
    inputs = [recorded.arrays[leaf] for leaf in leaves] if named else None
    try:
        result = end_to_end(recorded.tape, target, inputs, labels=labels)
    except TapedebugError as error:
        trace.coverage = Coverage(
            summary=f"0 of {total} launches checked end to end: {error.message}", launches=total
        )
        return set()
    trace.verdict = result.verdict if result.inputs else "NOT CHECKED"
    done = result.coverage
    trace.coverage = Coverage(
        summary=done.summary, launches=done.launches, checked=done.checked, notes=list(done.notes)
    )
    label = "loss" if trace.backward.loss is None else trace.arrays[trace.backward.loss].label
    trace.checks = [
        Check(
            launch=None,
            input=item.name,
            output=label,
            verdict=item.verdict,
            max_abs_error=item.max_abs_error,
            max_rel_error=item.rel_error,
            message=item.message,
            seconds=result.seconds / len(result.inputs),
        )
        for item in result.inputs
    ]
    wrong = (recorded.id_of(item.array) for item in result.inputs if item.verdict == "WRONG")
    return {number for number in wrong if number is not None}
