"""Finds where the data of inputs without a path to the loss ends or leaves the tape.

Values read through NumPy while the tape recorded, and results that are never read, are a `warning`. An input
that leads to another result (a second objective, a value read afterwards, the last values of a state) has a
right gradient of 0, which the coverage notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import HostRead
from tapedebug.diagnose.experiments.numpy_roundtrip import find_roundtrips, tells_apart
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, NO_DATA_FLOW, DisconnectedFinding
from tapedebug.diagnose.rules._interop import framework
from tapedebug.diagnose.trace_analysis.dependencies import Node, is_float
from tapedebug.diagnose.trace_analysis.reachability import Reachability
from tapedebug.trace import Finding, Launch, Location, Trace


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the data of inputs: the `node` that `launch` writes, and its reads during recording."""

    node: Node
    launch: Launch
    read: HostRead | None
    use: str
    """Its other use, in words; empty if nothing else uses it."""


def unconnected(context: RuleContext, reach: Reachability, leaves: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding for each place where the data of inputs ends; `leaves` lead to no loss."""
    groups: dict[Any, tuple[_End | None, list[int]]] = {}
    for leaf in leaves:
        idle = [] if context.experiment.named else _readers_without_results(reach.trace, leaf)
        if idle:
            _note_without_results(context, leaf, idle)
            continue
        end = _end_of(context, reach, leaf)
        groups.setdefault(None if end is None else end.node, (end, []))[1].append(leaf)
    for end, group in groups.values():
        if end is None:
            yield _unused(context, reach, group)
        elif end.use and not context.experiment.named:
            _note(context, reach, end, group)
        else:
            yield _ended(context, reach, end, group)


def _end_of(context: RuleContext, reach: Reachability, leaf: int) -> _End | None:
    """Return the array whose values were read through NumPy, else the last array that was computed."""
    ends, computed = reach.ends(leaf), reach.computed_from(leaf)
    reads = context.experiment.host_reads()
    losses = {array for array, _ in reach.roots}  # which a user prints, and goes on
    for node in reversed([node for node in computed if node[0] not in losses]):
        read = next((read for read in reads if _was_read(reach, node, read)), None)
        if read is not None:
            return _End(node, _writer(reach, node), read, "")
    if not ends:
        return None
    use = next((use for node in ends if (use := _use(context, reach, node, reads))), "")
    return _End(ends[0], _writer(reach, ends[0]), None, use)


def _readers_without_results(trace: Trace, leaf: int) -> list[Launch]:
    """Return the launches that read an input if none of them writes an array with elements."""
    launches = [trace.launches[index] for version in trace.versions_of(leaf) for index in version.reads]
    for launch in launches:
        for arg in launch.args:
            if arg.writes and arg.array is not None and np.prod(trace.arrays[arg.array].shape):
                return []
    return launches


def _note_without_results(context: RuleContext, leaf: int, readers: Sequence[Launch]) -> None:
    """Add to the coverage that a gradient of 0 is right: the launches that read the input write nothing."""
    label, notes = context.trace.arrays[leaf].label, context.trace.coverage.notes
    zero = f"exactly zero: the gradient with respect to {label}"
    if zero in notes:
        notes.remove(zero)
    names = words.listed(dict.fromkeys(launch.name for launch in readers))
    context.skipped(f"{zero}: only launches of {names} read it, and they write no array with elements")


def _was_read(reach: Reachability, node: Node, read: HostRead) -> bool:
    """Return True if a version was read outside of kernels while the tape recorded."""
    if read.at is None or node[0] not in read.arrays:
        return False
    version = reach.graph.versions[node]
    stop = len(reach.trace.launches) if version.overwritten_by is None else version.overwritten_by
    return (version.written_by or 0) < read.at <= stop


def _use(context: RuleContext, reach: Reachability, node: Node, reads: Sequence[HostRead]) -> str:
    """Return the use of a result that is no part of the loss."""
    info = reach.trace.arrays[node[0]]
    later = next((read for read in reads if read.at is None and node[0] in read.arrays), None)
    if later is not None:
        return f"was read at {words.place(later.place)}"
    if reach.after_the_loss(node):
        return f"is written after {words.listed(reach.trace.arrays[array].label for array, _ in reach.roots)}"
    if context.experiment.used_elsewhere(node[0]):
        return "another tape uses"
    if int(np.prod(info.shape)) == 1 and info.requires_grad and is_float(info):
        return "is another scalar result"
    near = [other.id for other in reach.trace.arrays if other.buffer == info.buffer]
    if any(version.reads for array in near for version in reach.trace.versions_of(array)):
        return "launches read before that"  # a state, with its last values
    return ""


def _writer(reach: Reachability, node: Node) -> Launch:
    return reach.trace.launches[reach.graph.versions[node].written_by or 0]


# ------------------------------------------------------------------------------------------------ findings


def _note(context: RuleContext, reach: Reachability, end: _End, leaves: Sequence[int]) -> None:
    """Add to the coverage the reason why a gradient of 0 is right."""
    trace, notes = reach.trace, context.trace.coverage.notes
    labels = [trace.arrays[leaf].label for leaf in leaves]
    names, label = words.listed(labels), trace.arrays[end.node[0]].label
    losses = words.listed(trace.arrays[array].label for array in context.experiment.losses)
    for zero in [f"exactly zero: the gradient with respect to {name}" for name in labels]:
        if zero in notes:
            notes.remove(zero)
    context.skipped(
        f"exactly zero: the gradient with respect to {names}, which lead{'s' * (len(labels) == 1)} to "
        f"{label} and not to {losses}: {words.launch_words(end.launch)} writes {label}, which {end.use}"
    )


def _ended(context: RuleContext, reach: Reachability, end: _End, leaves: Sequence[int]) -> Finding:
    trace, label = reach.trace, reach.trace.arrays[end.node[0]].label
    labels = [trace.arrays[leaf].label for leaf in leaves]
    names = words.listed(labels)
    losses = words.listed(trace.arrays[array].label for array in context.experiment.losses)
    start = f"the gradient of {names} is exactly 0"
    kind, evidence = NO_DATA_FLOW, dict[str, Any](end=label)
    if end.read is None:
        message = (
            f"{start}: its data ends at {label}, which {words.launch_words(end.launch)} writes and "
            f"{_fate(reach, end.node)}. No launch on the tape leads from {names} to {losses}."
        )
        fix = (
            f"pass {label} to the launch that should read it; if the gradient of {names} is not wanted, "
            f"create {'it' if len(labels) == 1 else 'them'} without requires_grad"
        )
    else:
        through = framework(end.read.how)
        kind, evidence = f"through {through}", {"end": label, "read_at": _as_data(end.read)}
        message = (
            f"{start}: {label}, which {words.launch_words(end.launch)} writes, was read at "
            f"{words.place(end.read.place)} while the tape recorded, and no gradient follows through "
            f"{through}."
        )
        more, fix = _onward(context, reach, end, evidence)
        message += f"{more} No launch on the tape leads from {names} to {losses}."
    location, site = _written_at(reach, end.node), end.launch.call_site
    if end.read is not None:
        location, site = None, end.read.place
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=message,
        launches=[end.launch.index],
        arrays=list(dict.fromkeys([*labels, label])),
        location=location,
        call_site=site,
        kind=kind,
        inputs=labels,
        source=None if end.read is None else label,
        evidence=evidence,
        fix=fix,
    )


def _written_at(reach: Reachability, node: Node) -> Location | None:
    launch = _writer(reach, node)
    param = words.written_param(launch, reach.trace.arrays[node[0]], reach.trace)
    return words.access_location(reach.trace, launch, param, ("write", "atomic"))


def _fate(reach: Reachability, node: Node) -> str:
    """Return the words for a version from which nothing is computed, such as `no launch reads`."""
    version = reach.graph.versions[node]
    if version.reads:
        reader = reach.trace.launches[version.reads[-1]]
        return f"only {words.launch_words(reader)} reads"
    if version.overwritten_by is not None:
        by = reach.trace.launches[version.overwritten_by]
        return f"{words.launch_words(by)} overwrites before a launch reads it"
    return "no launch reads"


def _as_data(read: HostRead) -> dict[str, Any]:
    return dict(read.place)


def _onward(
    context: RuleContext, reach: Reachability, end: _End, evidence: dict[str, Any]
) -> tuple[str, str]:
    """Return where values read through NumPy returned to the tape, if known, and the fix."""
    trace, label = reach.trace, reach.trace.arrays[end.node[0]].label
    number = _as_number(context, reach, end)
    if number is not None:
        reader, param, value = number
        evidence.update({"to": param, "value": value, "next_launch": reader.index})
        more = f" L{words.launch_words(reader)[1:]} is given {param} = {value:.6g}, the value of {label}."
        return more, f"give {reader.name} the array {label} in place of the number {param}"
    target = _given_later(context, reach, end)
    if target is not None:
        reader = trace.launches[reach.graph.versions[target].reads[0]]
        if reader.kind == "copy":
            copied = trace.arrays[reader.args[0].array or 0].label
            evidence.update({"to": copied, "next_launch": reader.index})
            more = (
                f" After that {words.launch_words(reader)} fills {copied} with values from outside the tape."
            )
            if copied == label:
                return more, f"change {label} in a kernel"
            return more, f"compute {copied} from {label} in a kernel"
        name = trace.arrays[target[0]].label
        evidence.update({"to": name, "next_launch": reader.index})
        more = f" After that {words.launch_words(reader)} reads {name}, which no launch wrote."
        return more, f"compute {name} from {label} in a kernel"
    return (
        "",
        f"compute in a kernel what {framework(end.read.how) if end.read else 'NumPy'} computes from {label}",
    )


def _as_number(context: RuleContext, reach: Reachability, end: _End) -> tuple[Launch, str, float] | None:
    """Return a launch that got the array's single value as a number: launch, parameter, value."""
    info = reach.trace.arrays[end.node[0]]
    if end.read is None or end.read.at is None or int(np.prod(info.shape)) != 1 or not is_float(info):
        return None
    wanted = end.node[0], end.launch.index + 1
    value = float(context.experiment.values_at([wanted])[wanted].reshape(-1)[0])
    for launch in reach.trace.launches[end.read.at :]:
        for arg in launch.args:
            same = isinstance(arg.value, float) and np.float32(arg.value) == np.float32(value)
            if same and value not in (0.0, 1.0, -1.0):
                return launch, arg.name, value
    return None


def _given_later(context: RuleContext, reach: Reachability, end: _End) -> Node | None:
    """Return an array with distinctive values that leads to the loss, first read after the NumPy read."""
    if end.read is None or end.read.at is None:
        return None
    trace, size = reach.trace, int(np.prod(reach.trace.arrays[end.node[0]].shape))
    given = [
        (int(np.prod(trace.arrays[array].shape)) != size, version.reads[0], (array, number))
        for (array, number), version in reach.graph.versions.items()
        if number == 0 and version.reads and (array, number) in reach.reached
        if version.reads[0] >= end.read.at and is_float(trace.arrays[array])
    ]
    for _, reader, node in sorted(given):
        values = context.experiment.values_at([(node[0], reader)])[node[0], reader]
        if trace.launches[reader].kind == "copy" or tells_apart(values):
            return node
    return None


def _unused(context: RuleContext, reach: Reachability, leaves: Sequence[int]) -> Finding:
    """Return the finding that nothing is computed from some inputs."""
    trace = reach.trace
    losses = words.listed(trace.arrays[array].label for array in context.experiment.losses)
    labels = [trace.arrays[leaf].label for leaf in leaves]
    readers = {leaf: reads[-1] for leaf in leaves if (reads := trace.versions_of(leaf)[0].reads)}
    leaf = max(readers, key=readers.__getitem__, default=leaves[0])
    launch = trace.launches[readers[leaf]] if readers else None
    names = words.listed(labels)
    message = f"the gradient of {names} is exactly 0: no launch on the tape leads from {names} to {losses}."
    fix = "pass on the arrays that were computed; NumPy is not on the tape"
    location, site = None, None
    if launch is not None:
        them = "it" if len(leaves) == 1 else "any of them"
        message += f" The last launch that reads {them} is {words.launch_words(launch)}."
        location = words.access_location(trace, launch, words.param_of(launch, leaf), ("read",))
        site = launch.call_site
    elif (by := trace.versions_of(leaf)[0].overwritten_by) is not None:
        launch = trace.launches[by]
        message = (
            f"the gradient of {names} is exactly 0: {words.launch_words(launch)} overwrites {labels[0]} "
            "before any launch reads it. On this tape it is a result, not an input."
        )
        fix = f"pass {labels[0]} as an input of {launch.name}, and another array as its output"
        written = words.written_param(launch, trace.arrays[leaf], trace)
        location = words.access_location(trace, launch, written, ("write", "atomic"))
        site = launch.call_site
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=message,
        launches=[launch.index] if launch is not None else [],
        arrays=labels,
        location=location,
        call_site=site,
        kind=NO_DATA_FLOW,
        inputs=labels,
        fix=fix,
    )


def through_numpy(context: RuleContext, reach: Reachability, leaves: Sequence[int]) -> Finding | None:
    """Return a finding if values computed from inputs came back through NumPy as another array."""
    bits = sum(1 << reach.leaves.index(leaf) for leaf in leaves)
    found = find_roundtrips(context, bits, reach.above, reach.reached) if leaves else None
    if found is None:
        return None
    trace, writer = reach.trace, reach.graph.versions[found.source].written_by
    source, target = (trace.arrays[node[0]].label for node in (found.source, found.target))
    above = reach.above[found.source]
    labels = [trace.arrays[leaf].label for leaf in leaves if above >> reach.leaves.index(leaf) & 1]
    launch, reader = trace.launches[writer or 0], trace.launches[found.reader]
    alike = (
        "the same to the bit"
        if found.same
        else f"times {words.number(found.factor)}, plus {words.number(found.offset)}"
    )
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"the gradient of {words.listed(labels)} is exactly 0: no launch on the tape leads from "
            f"{source}, which {words.launch_words(launch)} writes, to {target}, which "
            f"{words.launch_words(reader)} reads. But the values of {target} are those of {source} "
            f"({found.count} values, {alike}): they went through NumPy, where no gradient follows."
        ),
        launches=[launch.index, reader.index],
        arrays=[target, source, *labels],
        location=words.access_location(trace, reader, words.param_of(reader, found.target[0]), ("read",)),
        call_site=reader.call_site,
        kind="through NumPy",
        inputs=labels,
        source=source,
        evidence={
            "to": target,
            "values": found.count,
            "factor": found.factor,
            "offset": found.offset,
        },
        fix=f"pass {source} to {reader.name}"
        if found.same
        else f"compute {target} from {source} in a kernel",
    )
