"""Findings about values that returned to the tape, and tensors whose gradient is never passed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments import interop_entries as interop
from tapedebug.diagnose.experiments.interop_entries import InteropEntry
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, DisconnectedFinding
from tapedebug.diagnose.rules._interop import SCALE, InteropCrossing, InteropSearch, framework, target_of
from tapedebug.diagnose.trace_analysis.python_flow import argument_text
from tapedebug.diagnose.trace_analysis.reachability import Reachability
from tapedebug.trace import Launch

RECORDED = "call the PyTorch function through tapedebug.torch.function, which the tape records"
FUNCTION = "a function of PyTorch with tapedebug.torch.from_tape"


def crossings(context: RuleContext, reach: Reachability) -> Iterator[DisconnectedFinding]:
    """Yield a finding for each place at which values return to the tape without their gradient."""
    replay = context.replay
    if replay is None:
        return
    search = InteropSearch(context, replay, reach)
    reported = set()
    for crossing in search.crossings():
        reported.add(id(crossing.entry))
        yield _finding(search, crossing)
    for entry in search.entries:
        if entry.tensor is None or id(entry) in reported or not search.leads_to_loss(entry):
            continue
        others = search.graph(entry).others
        how = interop.not_handed_on(replay, entry, others) if others else None
        if how:
            yield _unserved(search, entry, others, how)


def _finding(search: InteropSearch, crossing: InteropCrossing) -> DisconnectedFinding:
    """Return the finding about a crossing."""
    trace, read, entry = search.trace, crossing.read, crossing.entry
    source, reader = trace.arrays[crossing.source[0]].label, trace.launches[entry.launch]
    written_by = search.reach.graph.versions[crossing.source].written_by
    writer = None if written_by is None else trace.launches[written_by]
    labels = [trace.arrays[leaf].label for leaf in crossing.leaves]
    target, through = target_of(trace, entry), framework(read.how, entry.how)
    by = "an input of the tape" if writer is None else f"which {words.launch_words(writer)} writes"
    message = (
        f"{_lost(search, crossing, target)}: {source}, {by}, left the tape at {words.place(read.place)} "
        f"({read.how}), and came back {_arrived(entry, reader, target)}. "
        f"{_evidence(search, crossing, source, target)} No gradient follows through {through}. The loss does "
        f"depend on that: perturbing {target} by {SCALE:.1%} moves the loss by "
        f"{words.number(crossing.moves_loss)}."
    )
    if crossing.count > 1:
        message += f" {crossing.count - 1} more like it (×{crossing.count})."
    evidence: dict[str, Any] = {
        "to": target,
        "read_at": asdict(read.place),
        "read_by": read.how,
        "came_in_at": asdict(entry.place),
        "came_in_by": entry.how,
        "known_by": crossing.proof,
        "perturbation": SCALE,
        "loss_moves": crossing.moves_loss,
        "next_launch": reader.index,
        "occurrences": crossing.count,
    }
    if crossing.error:
        evidence["relative_error"] = {trace.arrays[n].label: error for n, error in crossing.error.items()}
    if crossing.alike is not None:
        alike = crossing.alike
        evidence |= {"values": alike.count, "factor": alike.factor, "offset": alike.offset}
    launches = [reader.index] if writer is None else [writer.index, reader.index]
    arrays = [*([] if entry.array is None else [target]), source, *labels]
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=message,
        launches=list(dict.fromkeys(launches)),
        arrays=list(dict.fromkeys(arrays)),
        location=None,
        call_site=read.place,
        kind=f"through {through}",
        inputs=labels,
        source=source,
        evidence=evidence,
        fix=_fix(crossing, source, target, reader, through),
    )


def _lost(search: InteropSearch, crossing: InteropCrossing, target: str) -> str:
    labels = {leaf: search.trace.arrays[leaf].label for leaf in crossing.leaves}
    gone = [label for leaf, label in labels.items() if leaf in crossing.gone]
    part = [label for leaf, label in labels.items() if leaf not in crossing.gone]
    effects = []
    if gone:
        effects.append(f"the gradient of {words.listed(gone)} is exactly 0")
    if part:
        effects.append(f"the gradient of {words.listed(part)} misses what flows through {target}")
    return " and ".join(effects)


def _arrived(entry: InteropEntry, reader: Launch, target: str) -> str:
    who, place = words.launch_words(reader), words.place(entry.place)
    if entry.array is None and reader.kind == "fill":
        return f"as the number that {who} fills {target} with at {place}"
    if entry.array is None:
        return f"as the number {target} that {who} is given at {place}"
    what = f"as {target} at {place} ({entry.how})"
    return what if entry.how == "assign" else f"{what}, which {who} reads"


def _evidence(search: InteropSearch, crossing: InteropCrossing, source: str, target: str) -> str:
    if crossing.proof == "graph":
        others = crossing.others
        own = (
            f" (and to {words.plural(others, 'tensor')} of its own, which get none either)" if others else ""
        )
        path = f"PyTorch's graph leads from {target} back to {source}{own}"
        if not crossing.error:
            return f"{path}."
        worst = max(crossing.error, key=crossing.error.__getitem__)
        off = words.percent(crossing.error[worst])
        return f"{path}; without its part the gradient of {search.trace.arrays[worst].label} is off by {off}."
    if crossing.alike is not None:
        alike = crossing.alike
        factor, offset = words.number(alike.factor), words.number(alike.offset)
        how = "the same to the bit" if alike.same else f"times {factor}, plus {offset}"
        return f"The values of {target} are those of {source} ({words.plural(alike.count, 'value')}, {how})."
    if crossing.proof == "memory":
        return f"{target} was made from the memory of {source}."
    if crossing.proof == "source":
        return f"The code computes {target} from what was read."
    return f"The code passes what was read to a function whose result goes into {target}."


def _fix(crossing: InteropCrossing, source: str, target: str, reader: Launch, through: str) -> str:
    if crossing.entry.array is None and reader.kind != "fill":
        return f"give {reader.name} the array {source} in place of the number {target}"
    if crossing.alike is not None and crossing.alike.same and reader.kind != "copy":
        return f"pass {source} to {reader.name}"
    if source == target:
        return f"change {source} in a kernel"
    fix = f"compute {target} from {source} in a kernel"
    return f"{fix}, or {RECORDED}" if through == "PyTorch" else fix


def _unserved(
    search: InteropSearch, entry: InteropEntry, others: Sequence[Any], how: str
) -> DisconnectedFinding:
    """Return the finding about a tensor computed by PyTorch whose gradient was never passed on to it."""
    assert entry.array is not None
    label = search.trace.arrays[entry.array].label
    shapes = [str(tuple(leaf.shape)) for leaf in others]
    text = argument_text(entry.stack)
    norm = float(np.linalg.norm(interop.gradient_of(search.replay, entry).astype(np.float64)))
    leaves = "1 leaf" if len(others) == 1 else f"{len(others)} leaves"
    what = f"{text}, which PyTorch computes" if text else "a tensor that PyTorch computes"
    so = "their own grad is None" if how == "no gradient" else "nothing has read that since Tape.backward"
    call = f"call {text}.backward(" if text.isidentifier() else "keep that tensor and call its backward("
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"{label} came in at {words.place(entry.place)} (from_torch) as {what} from {leaves} of shape "
            f"{words.listed(shapes)}. Their gradient ends in {label}.grad (norm {words.number(norm)}): {so}."
        ),
        launches=[entry.launch],
        arrays=[label],
        location=None,
        call_site=entry.place,
        kind="through PyTorch",
        inputs=[label],
        evidence={
            "to": label,
            "came_in_at": asdict(entry.place),
            "came_in_by": entry.how,
            "known_by": "graph",
            "leaves": shapes,
            "norm": norm,
        },
        fix=f"{call}wp.to_torch({label}.grad)) after Tape.backward, or make the launches {FUNCTION}",
    )
