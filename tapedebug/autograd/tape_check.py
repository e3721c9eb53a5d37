"""`gradcheck_tape`: each kernel launch of a tape, at the values that it was launched with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.check import Comparison, Plan, check_pairs_of
from tapedebug.autograd.jacobian import positive
from tapedebug.autograd.matrix import Checkpoint
from tapedebug.autograd.pairs import Mask, is_array, obstacle
from tapedebug.autograd.plots import plot_errors
from tapedebug.autograd.results import Coverage, GradcheckResult, PairResult
from tapedebug.autograd.shadowed import UNMATCHED
from tapedebug.autograd.subjects import Subject, kernel_subject
from tapedebug.autograd.transpose import DotProduct, dot_test
from tapedebug.autograd.verdict import Tolerance, worst

Values = np.ndarray[Any, Any]


def gradcheck_tape(
    tape: Any,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Sequence[tuple[str | int, str | int]]] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> GradcheckResult:
    """Check the gradient of each kernel launch on a tape.

    Launches are checked one by one, with the values that their arrays held when they ran (the tape is
    replayed in private memory); what the arrays hold now does not matter, and nothing of them changes. What
    goes wrong between launches (an overwritten array, a severed chain) shows in `end_to_end`, not here.

    Args:
        tape: The tape.
        eps: See `gradcheck`.
        atol: See `gradcheck`.
        rtol: See `gradcheck`.
        raise_exception: Raise where the check does not pass.
        input_output_masks: By kernel key, the pairs (input, output) to check, each by name or index. Arrays
            that a launch reads count as inputs, arrays that it writes as outputs, however they were passed;
            indices are those of the kernel's arguments for inputs, and count the arrays that it writes for
            outputs.
        blacklist_kernels: Keys of kernels to leave out.
        whitelist_kernels: Keys of the only kernels to check, if not empty.
        max_inputs_per_var: See `gradcheck`.
        max_outputs_per_var: See `gradcheck`.
        plot_relative_error: Show relative errors, a figure for each launch (needs matplotlib).
        plot_absolute_error: Show absolute errors.
        show_summary: Print the tables and what stands beside them.
        reverse_launches: Begin with the last launch.
        skip_to_launch_index: Leave out that many launches at the beginning of the order.

    Returns:
        A result that is true where all pairs of all launches agree (and there was one); see
        `GradcheckResult`.

    Raises:
        GradcheckFailure: A ValueError that names the failing pair, where `raise_exception` is set.
        GradcheckError: A mask or list names what there is not, or a step or tolerance is not one.
    """
    positive(eps)
    plan = Plan(eps, Tolerance(atol, rtol).checked(), max_inputs_per_var, max_outputs_per_var)
    _check_keys(tape, input_output_masks, blacklist_kernels, whitelist_kernels)
    wanted, notes = _wanted(
        tape, blacklist_kernels, whitelist_kernels, reverse_launches, skip_to_launch_index
    )
    found: dict[int, list[PairResult]] = {}
    scripts: dict[int, tuple[Subject, list[PairResult]]] = {}
    dots: dict[int, DotProduct] = {}
    masks = input_output_masks or {}
    for record, values in launch_values(tape, wanted, notes=notes):
        subject = launch_subject(record, values, masks.get(record.kernel.key))
        dot = dot_test(subject.program) if subject.pairs.chosen else None
        if dot is not None:
            dots[record.index] = dot
            notes += [dot.message] if dot.message else []
        kept: list[Comparison] | None = [] if plot_relative_error or plot_absolute_error else None
        results = check_pairs_of(subject.program, subject.pairs, plan, kept=kept)
        found[record.index] = results
        scripts[record.index] = subject, results
        notes += _launch_notes(record, subject, results)
        if kept:
            plot_errors(kept, subject.metadata, relative=plot_relative_error, absolute=plot_absolute_error)
    order = sorted(found, reverse=reverse_launches)
    result = _collect(tape, [(index, *scripts[index]) for index in order], notes)
    result = replace(result, dot_products=tuple(dots[index] for index in order if index in dots))
    if show_summary:
        print(result.summary())
    if raise_exception:
        result.raise_if_failed()
    return result


def _check_keys(tape: Any, masks: Any, black: Any, white: Any) -> None:
    known = list(dict.fromkeys(r.kernel.key for r in tape.records if r.kernel is not None))
    for name, given in (
        ("input_output_masks", masks),
        ("blacklist_kernels", black),
        ("whitelist_kernels", white),
    ):
        for key in given or ():
            if key not in known:
                raise GradcheckError(
                    f"gradcheck_tape: {name} names the kernel {key!r}; "
                    f"the kernels on the tape are {', '.join(known) or 'none'}",
                    mend="use the key of a kernel that was launched",
                )


def _wanted(
    tape: Any, black: Sequence[str] | None, white: Sequence[str] | None, backwards: bool, skip: int
) -> tuple[list[Any], list[str]]:
    """The records to check in recorded order, and why others are not."""
    notes: list[str] = []
    records = list(reversed(tape.records)) if backwards else list(tape.records)
    if skip:
        notes.append(
            f"not checked: the first {min(skip, len(records))} launches in this order (skip_to_launch_index)"
        )
    chosen = []
    left_out: dict[str, list[int]] = {}
    for record in records[max(0, skip) :]:
        reason = _exclusion(record, black, white)
        if reason is None:
            chosen.append(record)
        else:
            left_out.setdefault(reason, []).append(record.index)
    notes += [f"not checked: {_indices(indices)}: {reason}" for reason, indices in left_out.items()]
    return sorted(chosen, key=lambda record: record.index), notes


def _exclusion(record: Any, black: Sequence[str] | None, white: Sequence[str] | None) -> str | None:
    if record.kind == "func":
        return "a function that was recorded with record_func, not a kernel"
    if record.kernel is None:
        return f"a {record.kind}, not a kernel"
    if record.kernel.key in (black or ()):
        return f"{record.kernel.key} is on the blacklist"
    if white and record.kernel.key not in white:
        return f"{record.kernel.key} is not on the whitelist"
    return None


def _indices(indices: Sequence[int]) -> str:
    ordered = sorted(indices)
    if len(ordered) > 6:
        return f"{len(ordered)} launches ({', '.join(map(str, ordered[:3]))}, …, {ordered[-1]})"
    return f"launch{'es' * (len(ordered) > 1)} {', '.join(map(str, ordered))}"


def launch_values(
    tape: Any,
    wanted: Sequence[Any],
    checkpoint: Checkpoint | None = None,
    notes: list[str] | None = None,
) -> Iterator[tuple[Any, dict[Any, Values]]]:
    """Replay the tape once; yield each record of `wanted` with its arrays' values just before it ran.

    Should the replay end with other values than the arrays hold, `notes` are told.
    """
    if not wanted:
        return
    shadow = tape.replay(stop=0)
    for record in wanted:
        shadow.forward(shadow.position, record.index)
        if checkpoint is not None:
            checkpoint()
        yield record, {a: shadow.values(a) for a in record.args if is_array(a)}
    if notes is not None and not shadow.forward(shadow.position).matches_live():
        notes.append(UNMATCHED)


def launch_subject(record: Any, values: dict[Any, Values], mask: Mask = None) -> Subject:
    """One launch of a tape, at given values; what it reads are its inputs, what it writes its outputs."""
    return kernel_subject(
        record.kernel, record.dim, record.args, [], mask, launch=record.index, values=values
    )


def _launch_notes(record: Any, subject: Subject, results: Sequence[PairResult]) -> list[str]:
    where = f"launch {record.index} ({record.kernel.key})"
    notes = [f"{where}: {note}" for result in results for note in result.notes]
    if results:
        return notes
    reasons = [
        reason
        for p, array in enumerate(record.args)
        if (reason := obstacle(record.param_name(p), array)) is not None
    ]
    why = "; ".join(reasons) or "; ".join(subject.pairs.notes) or "it has no differentiable input and output"
    return [*notes, f"not checked: {where}: {why.removeprefix('not checked: ')}"]


def _collect(
    tape: Any, checked: Sequence[tuple[int, Subject, list[PairResult]]], notes: Sequence[str]
) -> GradcheckResult:
    pairs: list[PairResult] = []
    scripts: dict[int, Callable[[], str]] = {}
    for _, subject, results in checked:
        for pair in results:
            scripts[len(pairs)] = subject.script_for(pair)
            pairs.append(pair)
    launches = len(tape.records)
    covered = sum(bool(results) for _, _, results in checked)
    entries, evaluated = sum(p.entries for p in pairs), sum(p.evaluated for p in pairs)
    summary = (
        f"{covered} of {launches} launches checked one by one: {len(pairs)} input-output pairs, "
        f"{evaluated} of {entries} entries"
    )
    if not pairs:
        summary = (
            f"nothing was checked: none of {launches} launches has an input and an output "
            "with requires_grad=True"
        )
    return GradcheckResult(
        subject=f"tape of {launches} launches",
        verdict=worst(pair.verdict for pair in pairs),
        pairs=tuple(pairs),
        coverage=Coverage(summary, launches, covered, tuple(dict.fromkeys(notes))),
        scripts=scripts,
    )
