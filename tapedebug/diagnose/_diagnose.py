"""`diagnose`: the end-to-end verdict, then the rules, each with experiments on a private replay."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._config import debugging
from tapedebug._errors import ArgumentError, BoundsError, TapedebugError
from tapedebug._gc_pause import lasting_objects, no_full_collections
from tapedebug._memory_retention import retention
from tapedebug._process_state import preserve_process_state
from tapedebug._processor_limit import ProcessorLimit
from tapedebug._progress import OutOfTime, Progress
from tapedebug._tape_observers import recorded_tape
from tapedebug._time_limit import enforced
from tapedebug.autograd import end_to_end
from tapedebug.autograd.tapes.effort import estimated_runs
from tapedebug.contract import (
    Array,
    Confinement,
    LiveArrays,
    RecordedTape,
    RecordingGaps,
    ReplayReuse,
    WarpReverse,
    from_program,
    is_recorded_tape,
)
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.attribute_causes import attribute_causes
from tapedebug.diagnose.blame import blame, blame_outside
from tapedebug.diagnose.diagnosis import Diagnosis, severity
from tapedebug.diagnose.experiments.changed_gradient import changed_gradients
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.latest import keep_latest
from tapedebug.diagnose.multi_tape import joined, losses_for
from tapedebug.diagnose.registry import add_gap, apply_cross_tape_rules, apply_rules, rule_of
from tapedebug.diagnose.rule import inputs_of, is_detached
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.so_far import SoFar
from tapedebug.diagnose.tape_loop import allow_for_start
from tapedebug.diagnose.target import Loss, find_leaves, find_seeds, find_target
from tapedebug.diagnose.timings import (
    END_TO_END,
    PROFILE,
    Cost,
    StepTimer,
    estimated,
    seconds_per_run,
    version_bytes,
)
from tapedebug.diagnose.unmask import Rediagnose, estimated_seconds, unmask
from tapedebug.trace import Check, Coverage, Trace
from tapedebug.trace.recording import record_with_arrays
from tapedebug.trace.replayed_values import add_summaries

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.input_check import InputCheck
    from tapedebug.trace import TraceBinding

VERDICT_SHARE = 0.7
"""The share of `max_seconds` for the end-to-end verdict; the rest is for its explanation."""

SUMMARISED = 1 << 27
"""Bytes of versions up to which a diagnosis also summarises their values, for the panel."""

DIRECTIONS = 30.0
"""Time limit in seconds for displacing inputs in many directions; two directions are always compared."""


@preserve_process_state
def diagnose(
    tape: RecordedTape | Sequence[RecordedTape],
    loss: Array | Mapping[Array, Any] | Sequence[Any] | None = None,
    inputs: Sequence[Array] | Array | None = None,
    *,
    as_warp: bool = False,
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | ProcessorLimit | None = None,
    so_far: Callable[[Trace], Any] | None = None,
) -> Diagnosis:
    """Diagnose the gradients of a tape: return a verdict, its coverage, and the bugs that were found.

    Everything is measured on private copies: no array, gradient or tape is ever changed.

    Args:
        tape: A recorded tape, or several, for instance those of a training loop: they are examined one by
            one and together, and listed in the order of recording.
        loss: The differentiated result: a scalar array, or a mapping of arrays to their incoming adjoints as
            in `Tape.backward(grads=…)`; for several tapes one for all, or a list with one (or None) for each.
            Defaults to the argument of the last `Tape.backward`, or else the only scalar result of the tape.
        inputs: The arrays whose gradients matter; by default all that require a gradient and whose values the
            tape read before it wrote them.
        as_warp: The program was written for Warp: bugs that would occur there are errors.
        progress: Called with a short text before each slow step. By default a diagnosis of more than half a
            second shows a line in a notebook, or on a terminal, where it is removed at the end; False shows
            nothing.
        max_seconds: The time limit, in seconds or as a limit of processor time. Steps that do not fit in are
            skipped and listed in the coverage.
        so_far: Called with the trace of a tape when the gradient of an input has been compared, when it has
            a verdict, and after each rule: with the checks and findings so far, and in its coverage those
            that are still being looked for. Ctrl-C calls it once more for each tape that has a verdict,
            before `KeyboardInterrupt` is raised again.

    Returns:
        Verdict, coverage and findings, worst first.

    Raises:
        TapedebugError: `loss` or one of `inputs` is not on the tape, or `loss` is no scalar with a gradient.
        TypeError: `tape` is not a tape, `loss` or one of `inputs` is not an array, a list of losses does not
            match the tapes, `progress` is not a function, or `max_seconds` is not a number.
        ValueError: `max_seconds` is not positive.
    """
    tapes: list[Any] = [recorded_tape(t) for t in (tape if isinstance(tape, (list, tuple)) else [tape])]
    _check_tapes(tapes)
    with (
        lasting_objects(),
        no_full_collections(),
        Progress(progress, max_seconds, len(tapes)) as pace,
        enforced(pace),
        _checked(tapes),
        _reused(tapes),
        SoFar(so_far, len(tapes)) as known,
    ):
        # All of them first: a time limit cannot end this, and leaves the rest of the time to what it can end.
        recorded = [record_with_arrays(item) for item in tapes]
        pairs = zip(tapes, losses_for(tapes, loss), recorded, strict=True)
        first = functools.partial(_context, inputs=inputs, pace=pace, summarise=False, so_far=known)
        found = [(known.follow(first(item, own, recorded=each)), own, item) for item, own, each in pairs]
        if len(found) > 1:  # now that kernels are compiled, a verdict that was not reached may be quick
            found = [
                (known.follow(first(item, own, recorded=context.rerun.recorded)), own, item)
                if _is_late(context) and pace.has_share(VERDICT_SHARE)
                else (context, own, item)
                for context, own, item in found
            ]
        if all(context.trace.tape.began for context, *_ in found):
            found.sort(key=lambda each: each[0].trace.tape.began)
        allow_for_start([context for context, *_ in found])
        for context, *_ in found:  # rules need the gradients of inputs that are WRONG
            context.measured = [
                check if check.verdict == "WRONG" else check.without_gradients() for check in context.measured
            ]
        if any(_is_wrong(context) for context, *_ in found):
            pace.allow_for_explanation()
        for context, own, item in found:
            reverse = item.capability(WarpReverse)
            pace.subject = f"{context.trace.name} ({context.trace.verdict})"
            context.as_warp = as_warp or (reverse is not None and reverse.is_own)
            if context.trace.launches:
                _summarise(context, pace)
                apply_rules(context)
                context.trace.findings = attribute_causes(context.trace.findings)
                _reveal(context, functools.partial(_context, loss=own, inputs=inputs, pace=pace))
        contexts = [context for context, *_ in found]
        apply_cross_tape_rules(contexts)
        parts = [_concluded(context) for context in contexts]
        for (*_, item), part in zip(found, parts, strict=True):
            keep_latest(item, part)
    return parts[0] if len(parts) == 1 else joined(parts)


def _checked(tapes: Sequence[RecordedTape]) -> contextlib.AbstractContextManager[None]:
    """Return a context in which replays check or clamp indices, if one may lie outside their memory.

    If all indices are in bounds with the program's own values, indices from other values are clamped.
    """
    known = [item.capability(Confinement) for item in tapes]
    if all(each is None or each.is_confined() for each in known):
        return contextlib.nullcontext()
    try:
        with debugging():
            for item in tapes:
                item.new_replay().forward()
    except TapedebugError:
        return debugging()
    return debugging(shown=True)


def _is_late(context: RuleContext) -> bool:
    """True if time was up before the gradient of a tape was compared with differences."""
    return context.trace.coverage.partial and not context.measured


@contextlib.contextmanager
def _reused(tapes: Sequence[RecordedTape]) -> Iterator[None]:
    """Context in which replays may use the memory of ones that have ended."""
    with contextlib.ExitStack() as stack:
        for item in tapes:
            reuse = item.capability(ReplayReuse)
            if reuse is not None:
                stack.enter_context(reuse.reused())
        yield


def _reveal(context: RuleContext, again: Rediagnose) -> None:
    what, before = "what stands behind what was found", len(context.trace.findings)
    try:
        with context.timer.measure("bugs that other bugs hide", estimated_seconds(context)):
            unmask(context, again)
    except TapedebugError as error:
        add_gap(context, what, error.message, len(context.trace.findings) - before)
    except KeyboardInterrupt:
        add_gap(context, what, "interrupted", len(context.trace.findings) - before)
        raise


def _check_tapes(tapes: Sequence[Any]) -> None:
    if not tapes:
        raise ArgumentError("diagnose: the list of tapes is empty")
    for item in tapes:
        if not is_recorded_tape(item):
            raise ArgumentError(
                f"diagnose takes a Tape or a list of tapes, not {item!r} (of type {type(item).__name__})"
            )
        arrays = item.capability(LiveArrays)
        if arrays is not None:
            arrays.check("diagnose")


def _context(
    tape: RecordedTape,
    loss: Loss,
    inputs: Any,
    pace: Progress,
    *,
    check: bool = True,
    summarise: bool = True,
    so_far: SoFar | None = None,
    recorded: TraceBinding | None = None,
) -> RuleContext:
    """Return the context of a tape: its trace, with the end-to-end verdict if `check`, and its replays.

    `recorded` is the trace of the tape, if it is known, without a verdict.
    """
    loss, inputs = from_program(tape, loss), from_program(tape, inputs)
    recorded = recorded or record_with_arrays(tape)
    trace = recorded.trace
    pace.subject = trace.name
    if not trace.launches:
        trace.coverage = Coverage(summary="the tape is empty: nothing was recorded")
        return RuleContext(trace, Replay(recorded, {}, []))
    target, notes = find_target(recorded, loss)
    leaves = find_leaves(recorded, inputs)
    seeds = find_seeds(recorded, target)
    if len(seeds) == 1:
        trace.backward.loss = recorded.id_of(next(iter(seeds)))
    measured: Sequence[InputCheck] = ()
    run_seconds = None
    if check:
        with StepTimer(trace.timings).measure(END_TO_END, _verdict_estimate(trace, len(leaves))):
            measured, run_seconds = _end_to_end(recorded, target, leaves, inputs is not None, pace, so_far)
    found = (recorded.id_of(item.array) for item in measured if item.verdict == "WRONG")
    wrong = {number for number in found if number is not None}
    gaps = tape.capability(RecordingGaps)
    notes += [] if gaps is None else gaps.notes()
    changed = changed_gradients(tape, measured) if loss is None else []
    notes += [
        f"{each.check.name}: backward left another gradient than its replay gives, off by "
        f"{words.percent(each.error)}: what changed it is not on the tape"
        for each in changed
    ]
    trace.coverage.notes += [note for note in notes if note not in trace.coverage.notes]
    experiment = Replay(recorded, seeds, leaves, wrong=wrong, named=inputs is not None, pulse=pace.pulse)
    if experiment.blocked:
        trace.coverage.notes.append(f"gradients were not measured: {experiment.blocked}")
    context = RuleContext(
        trace,
        experiment,
        named_loss=loss is not None,
        progress=pace.begin,
        measured=measured,
        changed=changed,
        run_seconds=run_seconds,
    )
    if summarise:
        _summarise(context, pace)
    return context


def _verdict_estimate(trace: Trace, inputs: int) -> float | None:
    """Return the estimated seconds of the end-to-end check."""
    seconds = seconds_per_run(trace)
    return None if seconds is None else estimated(trace, Cost(estimated_runs(inputs, seconds)), seconds)


def _concluded(context: RuleContext) -> Diagnosis:
    trace = context.trace
    _allow_for_detached(trace, context.experiment.wrong)
    _allow_for_optimizer_gradient(trace, [finding.rule for finding in context.elsewhere])
    trace.findings += blame(context)
    trace.findings += blame_outside(context)
    if any(each.is_wrong for each in context.changed):
        trace.verdict = "WRONG"
    trace.findings.sort(key=severity)
    names = words.names_in(trace)
    for number, finding in enumerate(trace.findings):
        finding.id, finding.message = number, words.capitalised(finding.message, names)
    return Diagnosis(trace.verdict, trace.coverage, trace.findings, trace, rules=context.rules)


def _allow_for_detached(trace: Trace, wrong: Collection[int]) -> None:
    """Adjust the verdict for gradients cut on purpose: they differ from finite differences, but are right."""
    detached = {label for item in trace.findings if is_detached(item) for label in inputs_of(item)}
    if any(item.severity == "error" for item in trace.findings) or not wrong:
        return
    if {trace.arrays[leaf].label for leaf in wrong} <= detached:
        trace.verdict = "UNDECIDABLE"
        trace.coverage.notes.append(
            f"{', '.join(sorted(detached))}: differences of the loss see through what was detached with "
            "requires_grad=False, so they cannot confirm the gradient"
        )


def _allow_for_optimizer_gradient(trace: Trace, elsewhere: Sequence[str] = ()) -> None:
    """Set the verdict WRONG if the reverse pass is right but the consumed gradient is not.

    Args:
        trace: The tape, with its findings.
        elsewhere: Rules whose errors are shown on another tape and also concern this one.
    """
    errors = [item for item in trace.findings if item.severity == "error"]
    own = [item.rule for item in errors if rule_of(item).outside_pass]
    rules = sorted({*own, *elsewhere})
    if rules and trace.verdict != "WRONG":
        trace.coverage.notes.append(
            f"the reverse pass alone: {trace.verdict}; what was consumed is not what it gives: "
            f"see {', '.join(rules)}"
        )
        trace.verdict = "WRONG"


def _is_wrong(context: RuleContext) -> bool:
    """True if a gradient is wrong that the program consumed."""
    return context.trace.verdict == "WRONG" or any(each.is_wrong for each in context.changed)


def _summarise(context: RuleContext, pace: Progress) -> None:
    """Add summaries of the values of all versions, for rules and the panel, if there are not too many."""
    trace = context.trace
    if version_bytes(trace) <= SUMMARISED:
        try:
            pace.begin("summarising values")
            with context.timer.measure("summaries of values", context.estimate(PROFILE)):
                add_summaries(context.rerun.recorded, context.rerun.seeds, pace.pulse)
        except (OutOfTime, BoundsError) as error:
            context.skipped(f"values and adjoints were not summarised: {error.message}")


def _end_to_end(
    recorded: TraceBinding,
    target: Loss,
    leaves: Sequence[int],
    named: bool,
    pace: Progress,
    so_far: SoFar | None,
) -> tuple[Sequence[InputCheck], float | None]:
    """Set verdict, coverage and checks; return the result for each input, and the seconds of a run."""
    trace, total = recorded.trace, len(recorded.trace.launches)
    if target is None:
        trace.coverage.summary = f"0 of {total} launches checked end to end"
        trace.coverage.launches = total
        return (), None
    labels = {array: info.label for array, info in zip(recorded.arrays, trace.arrays, strict=True)}
    inputs = [recorded.arrays[leaf] for leaf in leaves] if named else None
    label = "loss" if trace.backward.loss is None else trace.arrays[trace.backward.loss].label
    compared: dict[str, Check] = {}

    def each(item: InputCheck) -> None:
        compared[item.name] = _check_of(item, label)
        if so_far is not None:
            so_far.compared(trace, list(compared.values()), len(leaves))

    try:
        with pace.share(VERDICT_SHARE, DIRECTIONS) as seconds:
            pace.begin("comparing the gradient with differences of the loss")
            result = end_to_end(
                recorded.tape,
                target,
                inputs,
                labels=labels,
                max_seconds=seconds,
                checkpoint=pace.pulse,
                each=each,
            )
        retention.release()  # most rules need less
    except TapedebugError as error:
        trace.coverage = Coverage(
            summary=f"0 of {total} launches checked end to end: {error.message}",
            launches=total,
            notes=trace.coverage.notes,
            partial=isinstance(error, OutOfTime),
        )
        return (), None
    trace.verdict = result.verdict if result.inputs else "NOT CHECKED"
    done = result.coverage
    trace.coverage = Coverage(
        summary=done.summary,
        launches=done.launches,
        checked=done.checked,
        notes=[*trace.coverage.notes, *done.notes],
        partial=result.is_partial,
    )
    trace.checks = [_check_of(item, label, result.seconds / len(result.inputs)) for item in result.inputs]
    return result.inputs, result.run_seconds


def _check_of(item: InputCheck, output: str, seconds: float | None = None) -> Check:
    return Check(
        launch=None,
        input=item.name,
        output=output,
        verdict=item.verdict,
        max_abs_error=item.max_abs_error,
        max_rel_error=item.rel_error,
        message=item.message,
        seconds=seconds,
        left=item.kink[0] if item.kink is not None else None,
        right=item.kink[1] if item.kink is not None else None,
    )
