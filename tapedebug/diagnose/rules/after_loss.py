"""Rule `after-loss`: metrics, resets and copies that were recorded after the launches of the loss.

They belong after `backward`. Most of them only cost time: their adjoints run on zeros. But a reset of the
loss itself makes every gradient 0, zero times an infinite slope is NaN, and they may overwrite needed values.
The gradients with and without them show which of these applies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values, relative_errors
from tapedebug.diagnose.rule import EVIDENCE, Repair, RuleFinding, TapeRule, inputs_of
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import DisconnectedFinding
from tapedebug.diagnose.rules.overwrite import OverwriteFinding
from tapedebug.diagnose.timings import FOLLOWS_DATA, PROFILE, READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis.dependencies import Node, overlaps
from tapedebug.trace import ArrayInfo, Finding, Launch, Version
from tapedebug.trace.model import Severity

MEASURED = 8
"""Largest number of kinds of launches that are left out one by one; each costs a replay."""
MANY, SHARE = 10, 1 / 3
"""So many launches after the loss, with such a share of all threads, are a considerable part of the tape."""


@dataclass(slots=True)
class Group:
    """Launches of one kind, called at one place."""

    launches: list[Launch] = field(default_factory=list)

    @property
    def indices(self) -> list[int]:
        """Their indices."""
        return [launch.index for launch in self.launches]


@dataclass(slots=True, kw_only=True, repr=False)
class AfterLossFinding(RuleFinding):
    """Launches after the last one that the loss depends on.

    Attributes:
        last: The last launch that the loss depends on.
        relative_error: The error that they cause in the gradient of each input.
    """

    last: int = field(metadata=EVIDENCE)
    relative_error: dict[str, float] = field(metadata=EVIDENCE)


class AfterLoss(TapeRule):
    """Metrics, resets and copies that were recorded after the launches of the loss."""

    code = "after-loss"
    title = "Launches, copies or fills were recorded after the loss"
    severity = "error"
    explains = ("disconnected", "overwrite", "nonfinite")
    unmasks = ("overwrite", "disconnected", "duplicate-launch", "seed", "nonfinite", "flat-op")

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a forward and a reverse run for each kind of launch after the loss, and for all."""
        if not context.experiment.losses or context.experiment.blocked:
            return READS_TRACE
        written = (v.written_by for v in context.trace.versions if v.array in context.experiment.losses)
        last = max((index for index in written if index is not None), default=len(context.trace.launches))
        kinds = len(_by_place(context.trace.launches[last + 1 : context.reversed_count]))
        return Cost(PROFILE.runs * (2 + min(MEASURED, kinds)), visits=15.0) if kinds else FOLLOWS_DATA

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each kind of launch that changes the gradient, and one for all the others."""
        if not context.experiment.losses or context.experiment.blocked:
            return
        study = _Study(context)
        if not study.late:
            return
        groups = _by_place(study.late)
        guilty = study.guilty(groups)
        for group in guilty:
            yield study.wrong(group)
        harmless = [launch for group in groups if group not in guilty for launch in group.launches]
        rest = [launch for launch in harmless if not study.resets(launch) and not study.is_of_last(launch)]
        if rest:
            yield study.needless(rest)

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Attribute a disconnected loss, an overwrite or a NaN to the launches after the loss."""
        if not isinstance(cause, AfterLossFinding) or cause.severity != "error" or finding.severity == "info":
            return ""
        if isinstance(finding, DisconnectedFinding):
            mine = finding.leaves_the_tape and set(inputs_of(finding)) <= set(cause.relative_error)
            return f"See {self.code}, which says what replaces the loss." if mine else ""
        guilty = set(finding.launches)
        if isinstance(finding, OverwriteFinding):
            guilty = {clobberer for _, clobberer in finding.pairs}
        if not guilty or not guilty <= set(cause.launches):
            return ""
        return f"It was recorded after the loss: see {self.code}, which says what to move."

    def repair(self, finding: Finding) -> Repair | None:
        """Return a repair that leaves out the launches after the loss, if they change the gradient."""
        if not isinstance(finding, AfterLossFinding) or not finding.relative_error:
            return None
        return Repair(stop=finding.last + 1)


def _by_place(launches: Sequence[Launch]) -> list[Group]:
    groups: dict[Any, Group] = {}
    for launch in launches:
        site = launch.call_site
        key = (launch.kernel, launch.name, site and (site.file, site.line, site.column))
        groups.setdefault(key, Group()).launches.append(launch)
    return list(groups.values())


class _Study:
    """The launches after the loss, their effects, and the findings about them."""

    def __init__(self, context: RuleContext) -> None:
        self.context = context
        self.trace = context.trace
        graph = context.dependencies
        self.latest = {version.array: version for version in context.trace.versions}
        roots = [self._computed(array) for array in self._losses()]
        writers = (graph.versions[node].written_by for node in graph.upstream(roots, with_gradient=False))
        last = max((index for index in writers if index is not None), default=None)
        self.last = None if last is None else context.trace.launches[last]
        """The last launch that the loss depends on."""
        self.late = [] if last is None else context.trace.launches[last + 1 : context.reversed_count]

    def _losses(self) -> list[int]:
        """Return the losses, and other arguments of `backward`: a tape may have two losses."""
        losses = dict.fromkeys(self.context.experiment.losses)
        if self.context.replay is not None:
            recorded = self.context.replay.recorded
            calls = recorded.tape.reverse_passes
            called = (a for call in calls for a in (call.loss, call.objective) if a is not None)
            losses |= dict.fromkeys(number for a in called if (number := recorded.id_of(a)) is not None)
        return list(losses)

    def _computed(self, array: int) -> Node:
        """Return the version of a loss after its last computation, before any constant overwrote it."""
        graph, leaves = self.context.dependencies, self.context.experiment.leaves
        above = graph.leaves_above(leaves)
        node = (array, self.latest[array].version)
        if not above.get(node):
            return node  # it never depended on an input
        while node[1] > 0:
            sources = [edge.source for edge in graph.into(node) if edge.launch is not None]
            if any(above.get(source) for source in sources):
                return node
            if not self._constant(node):
                return node
            node = (node[0], node[1] - 1)
        return (array, self.latest[array].version)

    def _constant(self, node: Node) -> bool:
        """Return True if a launch overwrote the whole of an array with a constant.

        A kernel may write a part of its array, as boundary conditions do, so it counts only for a scalar.
        """
        writer, info = self.context.dependencies.versions[node].written_by, self.trace.arrays[node[0]]
        if writer is None:
            return False
        launch = self.trace.launches[writer]
        if launch.kind == "kernel":
            return math.prod(info.shape) == 1 and not _adds(self.context, launch, node[0])
        written = [
            self.trace.arrays[arg.array] for arg in launch.args if arg.writes and arg.array is not None
        ]
        return any(w.start <= info.start and info.stop <= w.stop for w in written if overlaps(w, info))

    def resets(self, launch: Launch) -> bool:
        """Return True if a launch overwrites a loss."""
        return any(info.id in self.context.experiment.losses for info in self._written([launch]))

    def is_of_last(self, launch: Launch) -> bool:
        """Return True for a copy that the call of the last launch made, of arrays in elements of arrays."""
        return launch.kind == "copy" and self.last is not None and launch.call_site == self.last.call_site

    # ------------------------------------------------------------ experiments

    @cached_property
    def consumed(self) -> dict[int, Values]:
        """The gradients of the user's reverse pass."""
        return self.context.experiment.without(())

    @cached_property
    def without(self) -> dict[int, Values]:
        """The gradients without any launch after the loss."""
        return self.context.experiment.without([launch.index for launch in self.late])

    def _keeping(self, launches: Sequence[Launch]) -> dict[int, Values]:
        """Return the gradients with only some of the launches after the loss."""
        kept = {launch.index for launch in launches}
        dropped = [launch.index for launch in self.late if launch.index not in kept]
        return self.context.experiment.without(dropped) if dropped else self.consumed

    def guilty(self, groups: list[Group]) -> list[Group]:
        """Return the groups that change the gradient on their own, or all groups if none does."""
        if max(_errors(self.without, self.consumed).values(), default=0.0) <= GRADIENT_WRONG:
            # A reset loss has no gradient, whatever else is wrong.
            dead = not any(np.any(values) for values in self.consumed.values())
            return [
                g for g in groups if dead and g.launches[0].kind != "kernel" and self.resets(g.launches[0])
            ]
        if len(groups) == 1:
            return groups
        if len(groups) > MEASURED:
            self.context.skipped(
                f"after-loss: of {len(groups)} kinds of launches after the loss {MEASURED} were tried singly"
            )
        alone = [group for group in groups[:MEASURED] if self._matters(group)]
        return alone or groups

    def _matters(self, group: Group) -> bool:
        return max(_errors(self.without, self._keeping(group.launches)).values()) > GRADIENT_WRONG

    # ------------------------------------------------------------ findings

    def wrong(self, group: Group) -> Finding:
        """Return a finding about launches that change the gradient."""
        launches = group.launches
        found = self._keeping(launches)
        errors = {self.trace.arrays[leaf].label: e for leaf, e in _errors(self.without, found).items()}
        what, fix = self._way(launches)
        order = sorted((item for item in errors.items() if item[1] > 0), key=lambda item: -item[1])[:3]
        them = "it" if len(launches) == 1 else "them"
        effect = words.listed(
            f"that of {label} {self._effect(found[self.trace.array(label).id], label, error, them)}"
            for label, error in order
        )
        change = f"which changes the gradient: {effect}"
        if not order:
            change = "so every gradient is exactly 0 (and is so without it, too, for another reason)"
        message = f"{self._where(launches)}. {what}, {change}."
        # A kernel may overwrite the loss with a constant on purpose: a penalty for an invalid state.
        meant = self.resets(launches[0]) and launches[0].kind == "kernel"
        return self._finding("warning" if meant else "error", launches, message, fix, errors)

    def _effect(self, found: Values, label: str, error: float, them: str) -> str:
        right = self.without[self.trace.array(label).id]
        if not np.isfinite(found).all():
            bad = int((~np.isfinite(found)).sum())
            return f"has {bad} of {found.size} values that are not finite, without {them} none"
        if not found.any():
            norm = float(np.linalg.norm(right.astype(np.float64)))
            return f"is exactly 0, without {them} its norm is {words.number(norm)}"
        return f"is off by {words.percent(error)} from what it is without {them}"

    def _way(self, launches: list[Launch]) -> tuple[str, str]:
        """Return the effect of the launches, and the fix."""
        reset = [info for info in self._written(launches) if info.id in self.context.experiment.losses]
        their = "it" if len(launches) == 1 else "they"
        verb = "s" if len(launches) == 1 else ""
        where = self._lines(launches)
        if reset:
            labels = words.listed(info.label for info in reset)
            fix = f"move {where} after backward and out of the `with` block, or reset {labels} at its start"
            return f"{their.capitalize()} overwrite{verb} {labels} after it was computed", fix
        clobbered = self._clobbered(launches)
        if clobbered and self.trace.tape.on_overwrite in ("ignore", "warn"):
            labels = words.listed(dict.fromkeys(self.trace.arrays[v.array].label for v in clobbered))
            fix = f"move {where} after backward: before it, the values would be lost just the same"
            return f"{their.capitalize()} overwrite{verb} values of {labels} that adjoints need", fix
        fix = f"move {where} out of the `with` block: launches after the loss need no adjoint"
        whose = "its adjoint" if len(launches) == 1 else "their adjoints"
        return f"The reverse pass runs {whose} nevertheless", fix

    def needless(self, launches: list[Launch]) -> Finding:
        """Return a finding about launches that are harmless and cost time."""
        total = sum(_threads(launch) for launch in self.trace.launches)
        share = sum(_threads(launch) for launch in launches) / max(1, total)
        considerable = self.trace.backward.ran and len(launches) >= MANY and share >= SHARE
        kept = self._kept_bytes(launches)
        written = words.listed(info.label for info in self._written(launches))
        seconds = self._reverse_share(launches)
        costs = [f"{100 * seconds:.0f} % of the time of the reverse pass"] if seconds is not None else []
        over = "what it overwrites" if len(launches) == 1 else "what they overwrite"
        costs += [f"{kept} bytes kept for the reverse pass because of {over}"] if kept else []
        what = "What it writes" if len(launches) == 1 else "What they write"
        message = f"{self._where(launches)}. {what} ({written}) does not reach the gradient"
        if considerable:
            message += f"; they are {len(launches)} of {len(self.trace.launches)} launches"
        if costs:
            message += f"; measured: {words.listed(costs)}"
        fix = f"move {self._lines(launches)} after backward, out of the `with` block"
        severity: Severity = "warning" if considerable else "info"
        return self._finding(
            severity, launches, f"{message}.", fix, {}, kept=kept, share=share, seconds=seconds
        )

    def _lines(self, launches: list[Launch]) -> str:
        """Return the lines that called the launches, the first few by name."""
        return words.listed(dict.fromkeys(words.place(launch.call_site) for launch in launches))

    def _where(self, launches: list[Launch]) -> str:
        assert self.last is not None
        losses = words.listed(self.trace.arrays[array].label for array in self.context.experiment.losses)
        names = words.listed((words.launch_words(launch) for launch in launches), limit=3)
        return (
            f"{names} {'was' if len(launches) == 1 else 'were'} recorded after "
            f"{words.launch_words(self.last)}, the last that {losses} depends on"
        )

    def _finding(
        self,
        severity: Severity,
        launches: list[Launch],
        message: str,
        fix: str,
        errors: dict[str, float],
        *,
        kept: int = 0,
        share: float | None = None,
        seconds: float | None = None,
    ) -> Finding:
        first = launches[0]
        param = next((number for number, arg in enumerate(first.args) if arg.writes), 0)
        assert self.last is not None
        return AfterLossFinding(
            rule=AfterLoss.code,
            severity=severity,
            message=message,
            launches=[launch.index for launch in launches],
            arrays=[info.label for info in self._written(launches)],
            location=words.access_location(self.trace, first, param, ("write", "atomic")),
            call_site=first.call_site,
            last=self.last.index,
            relative_error=errors,
            evidence={
                "overwrites_needed": [
                    [self.trace.arrays[version.array].label, version.overwritten_by]
                    for version in self._clobbered(launches)
                ],
                "kept_bytes": kept or self._kept_bytes(launches),
                "share_of_threads": share,
                "share_of_reverse_seconds": seconds,
            },
            fix=fix,
        )

    # ------------------------------------------------------------ what they do

    def _written(self, launches: Sequence[Launch]) -> list[ArrayInfo]:
        numbers = dict.fromkeys(
            arg.array for launch in launches for arg in launch.args if arg.writes and arg.array is not None
        )
        return [self.trace.arrays[number] for number in numbers]

    def _clobbered(self, launches: Sequence[Launch]) -> list[Version]:
        """Return the versions that adjoints before the loss need and these launches overwrite."""
        late = {launch.index for launch in launches}
        first = self.late[0].index
        return [
            version
            for version in self.trace.versions
            if version.overwritten_by in late and any(index < first for index in version.needed_by)
        ]

    def _kept_bytes(self, launches: Sequence[Launch]) -> int:
        """Return the bytes preserved only because of these launches; overlapping views count once."""
        ranges: list[ArrayInfo] = []
        for version in self._clobbered(launches):
            info = self.trace.arrays[version.array]
            if version.preserved and not any(overlaps(info, other) for other in ranges):
                ranges.append(info)
        return sum(info.stop - info.start for info in ranges)

    def _reverse_share(self, launches: Sequence[Launch]) -> float | None:
        times = [launch.backward_seconds for launch in self.trace.launches]
        total = sum(seconds for seconds in times if seconds is not None)
        if not total:
            return None
        return sum(times[launch.index] or 0.0 for launch in launches) / total


def _threads(launch: Launch) -> int:
    return int(np.prod(launch.dim))


def _adds(context: RuleContext, launch: Launch, array: int) -> bool:
    """Return True if a kernel reads or adds to an array that it writes, so that its old content matters."""
    kernel = words.kernel_of(context.trace, launch)
    for param, arg in enumerate(launch.args):
        if arg.array is None or not overlaps(context.trace.arrays[arg.array], context.trace.arrays[array]):
            continue
        atomic = kernel is not None and any(a.param == param and a.kind == "atomic" for a in kernel.accesses)
        if arg.reads or (arg.writes and atomic):
            return True
    return False


def _errors(right: dict[int, Values], found: dict[int, Values]) -> dict[int, float]:
    """Return the relative errors of gradients; inf if a finite gradient became non-finite."""
    errors = relative_errors(right, found)
    for leaf, values in found.items():
        if np.isfinite(right[leaf]).all() and not np.isfinite(values).all():
            errors[leaf] = float("inf")
    return errors
