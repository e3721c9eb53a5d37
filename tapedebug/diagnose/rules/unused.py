"""Rule `unused`: swapped arguments, inputs that nothing uses, outputs that are never read.

Names are evidence, not proof: `inputs=[velocity, position]` for the parameters `(position, velocity)`. So is
an array of zeros that was never written and is read by one kernel, beside an array of the same kind that
another kernel wrote and that is never read. The effect of an exchange is measured; the rest is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from tapedebug.autograd.thresholds import OUTPUT_CHANGED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.rule import RuleFinding, TapeRule, inputs_of
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import NO_DATA_FLOW, DisconnectedFinding
from tapedebug.diagnose.timings import FOLLOWS_DATA, Cost
from tapedebug.diagnose.trace_analysis.argument_names import (
    NamedArgument,
    crossed,
    means,
    named_arguments,
    tells,
)
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.trace import ArrayInfo, Finding, Launch, Location

PLACES = 200
"""Largest number of launches, by line, that are examined."""


class Unused(TapeRule):
    """Swapped arguments, inputs that nothing uses, outputs that are never read."""

    code = "unused"
    title = "Arguments are swapped, a result is never read, or an input is never used"
    severity = "warning"
    explains = ("disconnected",)

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a search through the data flow."""
        return FOLLOWS_DATA

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield the findings about arguments of the launches."""
        if context.experiment.blocked:
            return
        study = _Study(context)
        yield from study.crossed()
        lost = study.lost_result()
        if lost is not None:
            yield lost
        yield from study.untouched()
        yield from study.only_read()

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Explain a disconnected input: its array, or a result computed from it, is in the wrong place."""
        if cause.severity != "warning" or not isinstance(finding, DisconnectedFinding):
            return ""
        mine = finding.kind == NO_DATA_FLOW and set(inputs_of(finding)) <= set(inputs_of(cause))
        return f"See {self.code} for the reason." if mine else ""


class _Study:
    """The launches of a trace, one for each line of source, with the names of their arguments."""

    def __init__(self, context: RuleContext) -> None:
        self.context, self.trace = context, context.trace
        self.first: dict[Any, Launch] = {}
        for launch in context.trace.launches:
            if launch.kind == "kernel" and launch.call_site is not None:
                site = launch.call_site
                self.first.setdefault((launch.kernel, site.file, site.line, site.column), launch)
        chosen = list(self.first.values())
        if len(chosen) > PLACES:
            context.skipped(
                f"{Unused.code}: the arguments of {len(chosen)} different launches, of which {PLACES} were "
                "read"
            )
        self.launches = [(launch, named_arguments(context.trace, launch)) for launch in chosen[:PLACES]]

    # ------------------------------------------------------------ names that are crossed

    def crossed(self) -> Iterator[Finding]:
        """Yield findings about two arguments of one type, each with the name of the other's parameter."""
        for launch, given in self.launches:
            for one, other in combinations(given, 2):
                if self._other_way_round(launch, one, other):
                    continue
                finding = self._exchangeable(launch, one, other) if crossed(one, other) else None
                finding = finding or self._values_lost(launch, one, other)
                if finding is not None:
                    yield finding

    def _other_way_round(self, launch: Launch, one: NamedArgument, other: NamedArgument) -> bool:
        """Return True if the same kernel is also launched with these swapped, so that both are intended."""
        wanted = (other.text, one.text)
        return any(
            (given[one.param].text, given[other.param].text) == wanted
            for each, given in self.launches
            if each.kernel == launch.kernel and each is not launch and len(given) > other.param
        )

    def _exchangeable(self, launch: Launch, one: NamedArgument, other: NamedArgument) -> Finding | None:
        if len(one.args) != 1 or len(other.args) != 1 or not self._alike(launch, one, other):
            return None
        (first, a), (second, b) = one.args[0], other.args[0]
        written = [arg.writes for arg in (a, b)]
        if all(written):
            return None
        read = b if a.writes else a
        if any(written) and not (read.read_version == 0 and self._zeros(read.array)):
            return None
        change = None if any(written) else self.context.experiment.swap_arguments(launch.index, first, second)
        if change is not None and change <= OUTPUT_CHANGED:
            return None  # it makes no difference
        return self._crossed(launch, one, other, change)

    def _values_lost(self, launch: Launch, one: NamedArgument, other: NamedArgument) -> Finding | None:
        """Return a finding about an input of zeros beside an output with initial values never read."""
        if one.array is None or other.array is None or not self._alike(launch, one, other):
            return None
        if (one.text, other.text) == (one.name, other.name):
            return None  # each has the name of its own parameter
        read, written = (other, one) if one.array.writes else (one, other)
        source, target = read.array, written.array
        if source is None or target is None or source.writes or not target.writes or target.reads:
            return None
        zeros, lost = self.trace.arrays[source.array or 0], self.trace.arrays[target.array or 0]
        first = self.trace.versions_of(lost.id)[0]
        untouched = lost.requires_grad and not first.reads and first.overwritten_by == launch.index
        if not (untouched and source.read_version == 0 and self._zeros(zeros.id)):
            return None
        if not self.context.experiment.given(lost.id):
            return None
        return RuleFinding(
            rule=Unused.code,
            severity="warning",
            message=(
                f"{words.launch_words(launch)} reads {zeros.label}, which holds zeros and was never written, "
                f"and overwrites {lost.label}, whose initial values were never read: input and output look "
                f"swapped. The initial values of {lost.label} get no gradient."
            ),
            launches=[each.index for each in self._of(launch)],
            arrays=[lost.label, zeros.label],
            location=words.access_location(self.trace, launch, read.args[0][0], ("read",)),
            call_site=launch.call_site,
            inputs=[lost.label],
            evidence={
                "kind": "crossed values",
                "params": [read.name, written.name],
                "given": [zeros.label, lost.label],
            },
            fix=f"pass {lost.label} as {read.name} and {zeros.label} as {written.name}",
        )

    def _alike(self, launch: Launch, one: NamedArgument, other: NamedArgument) -> bool:
        """Return True if the types of two arguments allow a swap."""
        a, b = one.array, other.array
        kernel = words.kernel_of(self.trace, launch)
        assert kernel is not None
        types = [kernel.params[given.args[0][0]].type for given in (one, other)]
        if types[0] != types[1]:
            return False
        if a is None or b is None:
            return a is None and b is None and not types[0].startswith("array")
        infos = [self.trace.arrays[arg.array or 0] for arg in (a, b)]
        floats = all(info.dtype.startswith(("float", "vec", "mat", "quat")) for info in infos)
        return floats and infos[0].shape == infos[1].shape

    def _crossed(
        self, launch: Launch, one: NamedArgument, other: NamedArgument, change: float | None
    ) -> Finding:
        param, label = f"{one.name}, {other.name}", f"{one.text}, {other.text}"
        message = f"{words.launch_words(launch)} is given ({label}) for the parameters ({param}): "
        message += "the names are swapped. "
        if change is None:
            read, written = (one, other) if other.args[0][1].writes else (other, one)
            message += f"{written.text} is written, and {read.text}, which was never written, is read."
        else:
            message += (
                f"With the two exchanged, what {launch.name} writes differs by {words.percent(change)}."
            )
        arrays = [self.trace.arrays[g.array.array or 0].label for g in (one, other) if g.array is not None]
        return RuleFinding(
            rule=Unused.code,
            severity="warning",
            message=message,
            launches=[each.index for each in self._of(launch)],
            arrays=arrays,
            location=words.access_location(self.trace, launch, one.args[0][0], ("read", "write", "atomic")),
            call_site=launch.call_site,
            evidence={
                "kind": "crossed names",
                "params": [one.name, other.name],
                "given": [one.text, other.text],
                "change_if_exchanged": change,
            },
            fix=f"pass {other.text} as {one.name} and {one.text} as {other.name}",
        )

    def _of(self, launch: Launch) -> list[Launch]:
        """Return all launches of the kernel on that line."""
        return [
            each
            for each in self.trace.launches
            if each.kernel == launch.kernel and each.call_site == launch.call_site
        ]

    # ------------------------------------------------------------ a result that went elsewhere

    def lost_result(self) -> Finding | None:
        """Return a finding about zeros that are read although a result of the same kind is never read.

        Only if an input leads to that result and nowhere else, so that its gradient is 0 because of it.
        """
        dead = self._dead_leaves()
        for unread in self._unread() if dead else ():
            above = self.context.dependencies.leaves_above(self.context.experiment.leaves)
            last = max(version.version for version in self.trace.versions_of(unread.id))
            bits = above.get((unread.id, last), 0)
            leaves = [leaf for place, leaf in enumerate(self.context.experiment.leaves) if bits >> place & 1]
            mine = [leaf for leaf in leaves if leaf in dead]
            for zeros in self._zeros_like(unread) if mine else ():
                finding = self._elsewhere(unread, zeros, mine)
                if finding is not None:
                    return finding
        return None

    def _dead_leaves(self) -> set[int]:
        """Return the inputs that lead to no loss."""
        last = {version.array: version.version for version in self.trace.versions}
        roots = [(array, last[array]) for array in self.context.experiment.losses]
        reached = self.context.dependencies.upstream(roots, with_gradient=False)
        return {leaf for leaf in self.context.experiment.leaves if (leaf, 0) not in reached}

    def _unread(self) -> list[ArrayInfo]:
        """Return the arrays that launches write and none reads."""
        read = {version.array for version in self.trace.versions if version.reads}
        losses = set(self.context.experiment.losses)
        written = {version.array for version in self.trace.versions if version.written_by is not None}
        return [self.trace.arrays[number] for number in sorted(written - read - losses)]

    def _zeros_like(self, unread: ArrayInfo) -> list[ArrayInfo]:
        """Return arrays of the same type and shape with initial zeros that a later launch reads."""
        writer = self._writer(unread)
        return [
            info
            for info in self.trace.arrays
            if (info.dtype, info.shape) == (unread.dtype, unread.shape)
            and info.id != unread.id
            and len(self.trace.versions_of(info.id)) == 1
            and self._zeros(info.id)
            and any(index > writer.index for index in self.trace.versions_of(info.id)[0].reads)
        ]

    def _writer(self, info: ArrayInfo) -> Launch:
        written = [version.written_by for version in self.trace.versions_of(info.id)]
        return self.trace.launches[next(index for index in written if index is not None)]

    def _zeros(self, array: int | None) -> bool:
        value = None if array is None else self.context.dependencies.versions[array, 0].value
        return value is not None and not (value.norm or value.nan or value.inf)

    def _elsewhere(self, unread: ArrayInfo, zeros: ArrayInfo, leaves: list[int]) -> Finding | None:
        writer = self._writer(unread)
        reads = self.trace.versions_of(zeros.id)[0].reads
        reader = self.trace.launches[next(index for index in reads if index > writer.index)]
        written, read = words.written_param(writer, unread, self.trace), words.param_of(reader, zeros.id)
        called = [writer.args[written].name, unread.label], [reader.args[read].name, zeros.label]
        lists = "[" in unread.label and unread.label.partition("[")[0] == zeros.label.partition("[")[0]
        pairs = [(a, b) for a in called[0] for b in called[1] if not (lists and "[" in a and "[" in b)]
        if not any(means(a, b) and tells(a) for a, b in pairs):
            return None
        change, gradients = self.context.experiment.handed_on(unread.id, zeros.id, reader.index)
        woken = {self.trace.arrays[leaf].label: float(np.linalg.norm(gradients[leaf])) for leaf in leaves}
        if not any(woken.values()) or not np.isfinite(list(woken.values())).all():
            return None
        norms = words.listed(f"{words.number(norm)} for {label}" for label, norm in woken.items())
        return RuleFinding(
            rule=Unused.code,
            severity="warning",
            message=(
                f"{words.launch_words(writer)} writes its {called[0][0]} to {unread.label}, which is never "
                f"read, and {words.launch_words(reader)} reads its {called[1][0]} from {zeros.label}, which "
                f"holds zeros and was never written. The gradient of {words.listed(woken)} is exactly 0 "
                f"because of that. Had {reader.name} read {unread.label}, the loss would change by "
                f"{words.number(change)}, and the norm of the gradient would be {norms}."
            ),
            launches=[writer.index, reader.index],
            arrays=[unread.label, zeros.label, *woken],
            location=words.access_location(self.trace, writer, written, ("write", "atomic")),
            call_site=writer.call_site,
            inputs=list(woken),
            evidence={
                "kind": "result not read",
                "written": unread.label,
                "read": zeros.label,
                "loss_moves": change,
                "gradient_norm": woken,
                "reader": _place(reader.call_site),
            },
            fix=f"pass {zeros.label} to {writer.name}, or {unread.label} to {reader.name}",
        )

    # ------------------------------------------------------------ what a kernel does not use

    def untouched(self) -> Iterator[Finding]:
        """Yield findings about inputs with a gradient that are passed only to unused parameters."""
        used: set[int] = set()
        places: dict[int, tuple[Launch, int]] = {}
        for launch in self.trace.launches:
            for number, arg in enumerate(launch.args):
                if arg.array is None:
                    continue
                if arg.reads or arg.writes:
                    used.add(arg.array)
                elif launch.kind == "kernel":
                    places.setdefault(arg.array, (launch, number))
        for array, (launch, number) in places.items():
            info = self.trace.arrays[array]
            if array not in used and differentiable(info) and "." not in launch.args[number].name:
                yield self._untouched(info, launch, number)

    def _untouched(self, info: ArrayInfo, launch: Launch, number: int) -> Finding:
        asked = self.context.experiment.named and info.id in self.context.experiment.leaves
        name = launch.args[number].name
        return RuleFinding(
            rule=Unused.code,
            severity="warning" if asked else "info",
            message=(
                f"{launch.name} never uses its parameter {name}, and nothing else on the tape uses "
                f"{info.label}: its gradient is 0" + (", although it was requested." if asked else ".")
            ),
            launches=[each.index for each in self._of(launch)],
            arrays=[info.label],
            location=self._definition(launch),
            call_site=launch.call_site,
            inputs=[info.label],
            evidence={"kind": "never used", "param": name},
            fix=f"use {name} in {launch.name}, or leave {info.label} out" if asked else "",
        )

    def _definition(self, launch: Launch) -> Location | None:
        """Return the line of a kernel's definition."""
        kernel = words.kernel_of(self.trace, launch)
        if kernel is None:
            return None
        lines = (number for number, line in enumerate(kernel.lines) if line.lstrip().startswith("def "))
        return Location(file=kernel.file, line=kernel.line + next(lines, 0), column=0, function=kernel.name)

    def only_read(self) -> Iterator[Finding]:
        """Yield findings about arrays in `outputs` that the kernel only reads."""
        for launch, given in self.launches:
            for item in given:
                arg = item.array
                if not item.output or arg is None or arg.writes or not arg.reads:
                    continue
                label = self.trace.arrays[arg.array or 0].label
                yield Finding(
                    rule=Unused.code,
                    severity="info",
                    message=f"{label} is among the outputs of {words.launch_words(launch)} and only read.",
                    launches=[each.index for each in self._of(launch)],
                    arrays=[label],
                    location=words.access_location(self.trace, launch, item.args[0][0], ("read",)),
                    call_site=launch.call_site,
                    evidence={"kind": "output only read", "param": item.name},
                )


def _place(location: Location | None) -> dict[str, Any] | None:
    return None if location is None else dict(location)
