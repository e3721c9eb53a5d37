"""Checks the pairs that are selected in the panel's mask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug._tape_observers import recorded_tape
from tapedebug.autograd.checks.adjoint_check import SMALL, CheckPlan, Comparison, check_pairs_of
from tapedebug.autograd.finite_diff.compared_entries import MOST_ENTRIES
from tapedebug.autograd.finite_diff.verdict import Tolerance
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.pair_result import Gradient, Layout
from tapedebug.autograd.subjects.engine_kernels import kernel_of
from tapedebug.autograd.subjects.entry_names import value_type
from tapedebug.autograd.subjects.launches import (
    LaunchCopy,
    copy_of,
    launch_values,
    not_a_kernel,
    why_not_alone,
)
from tapedebug.autograd.subjects.pairs import obstacle, port
from tapedebug.autograd.subjects.probes import flat_index
from tapedebug.autograd.subjects.program import IN_PLACE, Port
from tapedebug.autograd.subjects.repro_script import ReproScript, Writer
from tapedebug.autograd.subjects.whole_tape import Labels, Names, not_an_input
from tapedebug.autograd.tapes.end_to_end import end_to_end
from tapedebug.autograd.tapes.input_check import InputCheck, confirmed
from tapedebug.contract import RecordedTape, is_array
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.contract import Operation


Key = tuple[int | None, str, str]
Each = Callable[[PairResult], Any]

SINGLE = 48  # entries of each variable that are evaluated one by one; the others are in random combinations
MORE = 256  # the same, of small Jacobians
DENSE = 2  # random directions in each variable
SOME = 100  # checkpoints of the end-to-end check of one input: as many on short tapes, 20 times on long ones


class _Cancelled(Exception):
    """The exception after the caller cancelled."""


@dataclass
class _Progress:
    """Reports the progress of the work, and checks for cancellation."""

    total: int
    report: Callable[[float], Any] | None
    cancelled: Callable[[], bool] | None
    done: int = 0
    count: int = 1  # pairs that are being checked now
    steps: int = 1  # checkpoints to expect meanwhile
    is_counted: bool = True
    passed: int = 0

    def begin(self, count: int, steps: int, *, is_counted: bool = True) -> None:
        """Start `count` pairs, which pass about `steps` checkpoints, or that many or more if not counted."""
        self.count, self.steps, self.is_counted, self.passed = count, max(1, steps), is_counted, 0

    def look(self) -> None:
        """Raise `_Cancelled` if the caller has cancelled."""
        if self.cancelled is not None and self.cancelled():
            raise _Cancelled

    def checkpoint(self) -> None:
        """Count one step, check for cancellation, and report."""
        self.look()
        self.passed += 1
        share = self.passed / self.steps
        # Without a count it comes ever closer to 1: it would be 95 % for most of a long check else.
        share = min(0.95, share) if self.is_counted else share / (1.0 + share)
        self._report_share(self.done + self.count * share)

    def finish(self) -> None:
        """Count the started pairs as done."""
        self.done += self.count
        self._report_share(self.done)

    def _report_share(self, done: float) -> None:
        if self.report is not None:
            self.report(min(1.0, done / max(1, self.total)))


class _Found(dict[Key, PairResult]):
    """The results so far; each one is reported when it is added or changed."""

    def __init__(self, each: Each | None) -> None:
        super().__init__()
        self._each = each

    def __setitem__(self, key: Key, result: PairResult) -> None:
        known = self.get(key)
        super().__setitem__(key, result)
        if self._each is not None and (known is None or known != result):
            self._each(result)


@preserve_process_state
def check_pairs(
    tape: RecordedTape,
    mask: Sequence[Mapping[str, Any]],
    *,
    labels: Labels | None = None,
    progress: Callable[[float], Any] | None = None,
    cancelled: Callable[[], bool] | None = None,
    each: Each | None = None,
    all_entries: bool = False,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
) -> list[PairResult]:
    """Check selected pairs of a tape.

    Pairs of one launch are checked at the values that it was launched with, pairs of the whole tape as by
    `end_to_end`. Of large arrays a sample of entries is checked one by one, and all of them in random
    combinations.

    Args:
        tape: The tape.
        mask: Entries `{"launch": index or None, "input": name, "output": name}`. Names are those of the
            kernel's parameters; with `"launch": None`, the whole tape, they are labels of arrays.
        labels: Names of the tape's arrays; by default those of parameters that they were passed as.
        progress: Called with the share of the work that is done, 0 to 1.
        cancelled: Called often; once it returns True, the results so far are returned.
        each: Called with each result as soon as it is available, and again if it is extended later.
        all_entries: Evaluate all entries of pairs of launches, not a sample of large ones.
        eps: See `gradcheck`.
        atol: See `gradcheck`; for pairs of one launch.
        rtol: See `gradcheck`; for pairs of one launch.

    Returns:
        A result for each pair, in the order of the mask; fewer where the check was cancelled.

    Raises:
        GradcheckError: The mask names a launch or an array that there is not.
    """
    tape = recorded_tape(tape)
    names = Names(tape, labels)
    keys = list(dict.fromkeys(_key(tape, names, entry) for entry in mask))
    state = _Progress(len(keys), progress, cancelled)
    limit = -1 if all_entries else SINGLE
    plan = CheckPlan(eps, Tolerance(atol, rtol), limit, limit, DENSE).checked()
    found = _Found(each)
    try:
        if progress is not None:
            progress(0.0)
        _check_launches(tape, keys, plan, state, found)
        _check_whole(tape, names, keys, state, found, labels)
    except _Cancelled:
        pass
    return [found[key] for key in keys if key in found]


def pair_script(tape: RecordedTape, pair: PairResult, **options: float) -> str:
    """Return a script that shows one pair of a launch alone, as `GradcheckResult.reproduce` does.

    Args:
        tape: The tape that was checked.
        pair: The result of `check_pairs`.
        options: Its `eps`, `atol` and `rtol`.

    Raises:
        GradcheckError: It is no pair of the launch of a kernel, or cannot be shown alone.
    """
    if pair.launch is None:
        raise GradcheckError(
            "no script can be written for the whole tape: an end-to-end check rests on all launches and on "
            "what was between them",
            hint="look at the launches one by one: gradcheck_tape(tape) has scripts of those that fail",
        )
    record = tape.operations[pair.launch]
    if not isinstance(record, Record):
        raise GradcheckError(f"no script can be written for operations of {tape.engine.name}")
    if record.kernel is None:
        raise GradcheckError(f"no script can be written for launch {record.index}: {not_a_kernel(record)}")
    [(_, values)] = launch_values(tape, [record])
    scene = LaunchCopy.of(record, values, [(pair.input, pair.output)]).subject().writer.scene()
    return ReproScript.of(Writer(lambda: scene), pair, {"eps": 1e-4, "atol": 1e-3, "rtol": 1e-2, **options})()


def _key(tape: RecordedTape, names: Names, entry: Mapping[str, Any]) -> Key:
    launch, source, target = entry["launch"], entry["input"], entry["output"]
    if launch is None:
        known, where = names.all(), "the tape"
    else:
        if not isinstance(launch, int) or not 0 <= launch < len(tape.operations):
            raise GradcheckError(
                f"check_pairs: there is no launch {launch!r}; "
                f"the tape has launches 0 to {len(tape.operations) - 1}",
                hint="give the index of a launch, or None for the whole tape",
            )
        record = tape.operations[launch]
        params = [record.param_name(number) for number in range(len(record.args))]
        known, where = params, f"launch {launch} ({record.name})"
    for name in (source, target):
        if name not in known:
            raise GradcheckError(
                f"check_pairs: {where} has no array {name!r}; it has {', '.join(known) or 'none'}",
                hint="use one of these names",
            )
    return launch, source, target


# ------------------------------------------------------------------ single launches


def _check_launches(
    tape: RecordedTape, keys: Sequence[Key], plan: CheckPlan, state: _Progress, found: _Found
) -> None:
    by_launch: dict[int, list[Key]] = {}
    for key in keys:
        if key[0] is not None:
            by_launch.setdefault(key[0], []).append(key)
    operations = [tape.operations[index] for index in sorted(by_launch)]
    kernels = []
    for operation in operations:
        reason = _not_alone(tape, operation)
        if not reason:
            kernels.append(operation)
            continue
        for key in by_launch[operation.index]:
            found[key] = _not_checked(key, f"launch {operation.index} ({operation.name})", reason)
        state.begin(len(by_launch[operation.index]), 1)
        state.finish()
    for record, values in launch_values(tape, kernels, state.look) if kernels else ():
        wanted = by_launch[record.index]
        state.begin(len(wanted), 1)
        for key, reason in _impossible(record, wanted).items():
            found[key] = _not_checked(key, f"launch {record.index} ({record.name})", reason)
        possible = [key for key in wanted if key not in found]
        if possible:
            mask = [(source, target) for _, source, target in possible]
            subject = copy_of(tape, record, values, mask).subject()
            ports = [*subject.pairs.inputs(), *subject.pairs.outputs()]
            limited = _limited(plan, subject.pairs.chosen)
            most = limited.max_inputs if limited.max_inputs > 0 else max(p.size for p in ports)
            state.begin(len(wanted), sum(min(p.size, most) + DENSE for p in ports))

            def keep(pair: PairResult, index: int = record.index) -> None:
                named = replace(pair, input=pair.input.removesuffix(IN_PLACE))
                found[index, named.input, named.output] = named

            compared: list[Comparison] = []
            for pair in check_pairs_of(
                subject.program, subject.pairs, limited, state.checkpoint, compared, each=keep
            ):
                keep(_with_entries(pair, compared))
        state.finish()


def _not_alone(tape: RecordedTape, operation: Operation) -> str:
    """Return why an operation cannot be checked alone; empty if it can be."""
    return not_a_kernel(operation) if operation.kind != "kernel" else why_not_alone(tape)


def _with_entries(pair: PairResult, compared: Sequence[Comparison]) -> PairResult:
    """A result with its entries: of a pair that agrees they are dropped earlier, where they are many."""
    if pair.compared is not None or pair.layout is None:
        return pair
    labels = pair.input, pair.output
    found = next((c for c in compared if (c.source.label, c.target.label) == labels), None)
    few = found is not None and found.ad.size <= MOST_ENTRIES
    return replace(pair, compared=found.compared()) if few and found is not None else pair


def _limited(plan: CheckPlan, pairs: Sequence[tuple[Any, Any]]) -> CheckPlan:
    """Return the plan for pairs: small Jacobians are evaluated whole, of larger ones some entries."""
    if plan.max_inputs < 0 or any(source.size * target.size > SMALL for source, target in pairs):
        return plan
    return replace(plan, max_inputs=MORE, max_outputs=MORE)


def _impossible(record: Operation, wanted: Sequence[Key]) -> dict[Key, str]:
    """Return the reasons for which pairs of a launch have no derivative to check."""
    names = [record.param_name(p) for p in range(len(record.args))]
    kernel = kernel_of(record)
    disabled = kernel is not None and not kernel.enable_backward
    reasons = {}
    for key in wanted:
        source, target = names.index(key[1]), names.index(key[2])
        reason = obstacle(key[1], record.args[source]) or obstacle(key[2], record.args[target])
        scalar = next(
            (n for n, p in ((key[1], source), (key[2], target)) if not is_array(record.args[p])), None
        )
        if disabled:
            reason = "the kernel has enable_backward=False"
        elif scalar is not None:
            reason = f"{scalar} is no array"
        elif target not in record.writes:
            reason = f"the kernel does not write {key[2]}"
        elif source not in record.reads:
            reason = f"the kernel does not read {key[1]}"
        if reason is not None:
            reasons[key] = reason
    return reasons


def _not_checked(key: Key, subject: str, reason: str) -> PairResult:
    return PairResult(
        key[0], subject, key[1], key[2], verdict="UNDECIDABLE", message=f"not checked: {reason}"
    )


# ------------------------------------------------------------------ the whole tape


def _check_whole(
    tape: RecordedTape,
    names: Names,
    keys: Sequence[Key],
    state: _Progress,
    found: _Found,
    labels: Labels | None,
) -> None:
    by_output: dict[str, list[Key]] = {}
    for key in keys:
        if key[0] is None:
            by_output.setdefault(key[2], []).append(key)
    for output, wanted in by_output.items():
        target = names.array(output)
        state.begin(len(wanted), SOME * len(wanted), is_counted=False)
        for key in wanted:
            source = names.array(key[1])
            reason = obstacle(output, target) or obstacle(key[1], source)
            reason = reason or not_an_input(tape, key[1], source)
            if reason is not None:
                found[key] = _not_checked(key, "the whole tape", reason)
        possible = [key for key in wanted if key not in found]
        if possible:
            began = time.perf_counter()
            checks = _objective(tape, names, possible, labels, state, found)
            shared = (time.perf_counter() - began) / len(possible)
            for key, check in zip(possible, checks, strict=True):
                found[key] = replace(_pair(key, names, check), seconds=shared)
        state.finish()


def _objective(
    tape: RecordedTape,
    names: Names,
    keys: Sequence[Key],
    labels: Labels | None,
    state: _Progress,
    found: _Found,
) -> Sequence[InputCheck]:
    """The end-to-end check of one output; of an array, of a fixed random combination of its entries."""
    from tapedebug.autograd.subjects.probes import random_directions

    target, inputs = names.array(keys[0][2]), [names.array(key[1]) for key in keys]
    shape = port(0, "", target)
    loss = target if shape.size == 1 else {target: random_directions(shape.size, 1)[0].reshape(shape.shape)}
    by_array = {id(array): key for array, key in zip(inputs, keys, strict=True)}
    began = time.perf_counter()

    def keep(check: InputCheck) -> None:
        key = by_array.get(id(check.array))
        if key is not None:
            found[key] = replace(_pair(key, names, check), seconds=time.perf_counter() - began)

    return end_to_end(tape, loss, inputs, labels=labels, checkpoint=state.checkpoint, each=keep).inputs


def _pair(key: Key, names: Names, check: InputCheck) -> PairResult:
    target, source = port(0, key[2], names.array(key[2])), port(0, key[1], names.array(key[1]))
    return PairResult(
        launch=None,
        subject="the whole tape",
        input=key[1],
        output=key[2],
        verdict=check.verdict,
        max_abs_error=check.max_abs_error,
        max_rel_error=check.rel_error,
        message=check.message,
        entries=check.consumed.size,
        evaluated=check.consumed.size,
        layout=Layout.of(target, source),
        gradient=_gradient(check, target, source),
    )


def _gradient(check: InputCheck, target: Port, source: Port) -> Gradient:
    size = check.consumed.size
    fd, bar = np.full(size, np.nan), np.full(size, np.nan)
    for probe in check.probes:
        if probe.entry is not None and probe.inputs == 1:
            place = flat_index(probe.entry, check.consumed.shape)
            fd[place], bar[place] = probe.fd / probe.unit, probe.bar / probe.unit
    consumed, reference = check.consumed.ravel(), check.reference.ravel()
    types = value_type(target.array), value_type(source.array)
    sure = confirmed(check.probes)
    return Gradient(types, target.size, consumed, reference, sure, fd, bar, check.kink)
