"""Rule `overwrite`: an array is overwritten after a launch read it; its effect is measured.

An overwrite is wrong if the adjoint of the reader needs the old values, if they changed, and if the tape gave
the adjoint the new ones. The first condition is determined from the kernel's adjoint, the others by
experiment. The overwrites of a time loop are one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG, OVERWRITE_ROUNDING
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.overlap import SharedElements, shared_elements
from tapedebug.diagnose.experiments.overwrite_effect import MEASURED, OverwriteEffects
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.gradient_diff import off_by, worst_element
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._changed_structs import find_changed_structs
from tapedebug.diagnose.rules._unrecorded_writes import find_unrecorded_writes
from tapedebug.diagnose.timings import Cost
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.diagnose.trace_analysis.kernel_source import flat_call
from tapedebug.diagnose.trace_analysis.overwrites import OverwriteGroup, group_overwrites
from tapedebug.trace import Finding, Launch, Location, Trace
from tapedebug.trace.model import Severity

PAIRS = 100
"""Largest number of overwrites of a group that its finding lists."""


@dataclass(slots=True, kw_only=True, repr=False)
class OverwriteFinding(RuleFinding):
    """Values that a launch read and another one overwrote.

    Attributes:
        pairs: The launch that read and the one that overwrote, for the first overwrites of the group.
    """

    pairs: list[tuple[int, int]] = field(metadata={"json": False})


class Overwrite(TapeRule):
    """An array is overwritten after a launch read it; its effect is measured."""

    code = "overwrite"
    title = "Values that an adjoint needs were overwritten"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a run that observes what is overwritten, and a reverse pass for each array."""
        arrays = {item.array for item in context.trace.versions if item.overwritten_by is not None}
        return Cost(2 + 3 * min(MEASURED, len(arrays)), 1.0) if arrays else Cost()

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield one finding for each kind of overwrite on the tape that needs an explanation."""
        if context.as_warp:
            yield from find_unrecorded_writes(context, self.code)
            yield from find_changed_structs(context, self.code)
        groups = group_overwrites(
            context.trace,
            in_memory=context.as_warp or in_memory(context.trace),
            stop=context.reversed_count,
        )
        if (
            context.as_warp
        ):  # another rule handles Warp's adjoints of atomics: none of them reads the old values
            groups = [group for group in groups if not (group.in_place and _by_atomics(context.trace, group))]
        if groups:
            study = OverwriteEffects(context.trace, context.experiment, groups)
            teller = _Teller(context, study)
            for group in study.measured():
                if not teller.is_rounding(group):
                    yield teller.finding(group)


def _by_atomics(trace: Trace, group: OverwriteGroup) -> bool:
    """Return True if launches read the values that they overwrite only by atomics."""
    pair = group.first
    kinds = words.access_kinds(trace, trace.launches[pair.reader], pair.param)
    return kinds == {"atomic"}


def in_memory(trace: Trace) -> bool:
    """Return True if the user's reverse pass read the current content of memory."""
    return trace.tape.on_overwrite in ("ignore", "warn")


class _Teller:
    """Writes the findings about measured overwrites."""

    def __init__(self, context: RuleContext, study: OverwriteEffects) -> None:
        self.trace = context.trace
        self.experiment = context.experiment
        self.study = study
        self.lines: dict[int, Location | None] = {}
        self.shared: dict[int, SharedElements | None] = {}
        self.consumes_new = in_memory(self.trace)
        self.as_warp = context.as_warp
        self.again = {(item.array, item.version) for item in self.trace.versions if item.recomputed}

    def is_rounding(self, group: OverwriteGroup) -> bool:
        """True if the gradients that overwrites change differ by rounding only, alone and all together."""
        if not group.needed or not (self.consumes_new or self.as_warp):
            return False
        alone, together = self.study.errors.get(id(group), {}), self.study.together
        worst = max(alone.values(), default=0.0)
        return worst > 0 and max(worst, *together.values()) <= OVERWRITE_ROUNDING

    def finding(self, group: OverwriteGroup) -> Finding:
        """Return the finding about a group."""
        trace, pair = self.trace, group.first
        errors = self.study.errors.get(id(group), {})
        severity, message = self._needed(group, errors) if group.needed else self._harmless(group, errors)
        count = group.occurrences()
        if count > 1:
            message += f" {count - 1} more like it (×{count})."
        launches = dict.fromkeys(index for item in group.pairs for index in (item.reader, item.clobberer))
        harmless = not group.needed or (bool(errors) and max(errors.values()) == 0)
        harmless = harmless or (
            not errors and self.consumes_new and bool(self._reason_nothing_is_lost(group))
        )
        return OverwriteFinding(
            rule=Overwrite.code,
            severity=severity,
            message=message,
            launches=list(launches),
            arrays=list(dict.fromkeys(trace.arrays[item.array].label for item in group.pairs)),
            location=self._write_location(group),
            call_site=trace.launches[pair.clobberer].call_site,
            harmless=harmless,
            pairs=[(item.reader, item.clobberer) for item in group.pairs[:PAIRS]],
            evidence=self._evidence(group, errors),
            fix="" if harmless else self._fix(group),
        )

    def _needed(self, group: OverwriteGroup, errors: Mapping[str, float]) -> tuple[Severity, str]:
        label = self.trace.arrays[group.first.array].label
        text = f"{self._what(group)}: {self._changed(group)}."
        worst = max(errors.values(), default=None)
        if worst is None:
            apart = self._reason_nothing_is_lost(group) if self.consumes_new else ""
            if apart:
                return "info", f"{text} Harmless: {apart}."
            total = self.study.total(group)
            if total.elements and not total.changed:
                return "info", f"{text} Harmless: the values are the same."
            if self.consumes_new:
                return (
                    "warning",
                    f"{text} The reverse pass sees the new values; what that does was not measured.",
                )
            return "info", f"{text} The {self._recomputation_note(group)} for the adjoint."
        if worst == 0:
            reason = "the values are the same"
            if self.study.total(group).changed:
                reason = (
                    self._reason_nothing_is_lost(group)
                    or "the elements that changed do not reach the gradient"
                )
            return "info", f"{text} Harmless: {reason}; measured, the gradient is the same to the bit."
        alone = errors == self.study.together
        severity: Severity = (
            "error" if worst > GRADIENT_WRONG else "warning" if worst > GRADIENT_CHANGED else "info"
        )
        if self.consumes_new:
            more = "" if alone else f"; all overwrites together {self._together('put {}', 'leave it right')}"
            return severity, f"{text} That puts the gradient of {off_by(errors, '')}{more}."
        if self.as_warp:
            kept = f"the {self._recomputation_note(group)}"
            if group.first.back:
                kept = f"the adjoint writes them again, into a private copy of {label}"
            more = f"; through all overwrites together {off_by(self.study.together, 'is ')}"
            if alone or not any(self.study.together.values()):  # Warp may have only some of these overwrites
                more = ""
            return severity, (
                f"{text} Here {kept}, so the gradient is right. Warp keeps none: "
                f"its gradient of {off_by(errors, 'is ')}"
                f"{worst_element(self.study.gradients[id(group)], errors)}{more}."
            )
        more = "" if alone else f" ({self._together('{}', 'right')} without any copy)"
        return "info", (
            f"{text} The {self._recomputation_note(group)} for the adjoint, so the gradient is right; "
            f"without it the gradient of {off_by(errors, 'would be ')}{more}."
        )

    def _recomputation_note(self, group: OverwriteGroup) -> str:
        """Return a note if the tape recomputes the old values to stay within its memory budget."""
        label = self.trace.arrays[group.first.array].label
        again = [(pair.array, pair.version) in self.again for pair in group.pairs]
        if all(again):
            return f"tape, to keep to its memory_budget, computes {label} again"
        if any(again):
            return f"tape kept a copy of {label}, or, to keep to its memory_budget, computes it again"
        return f"tape kept a copy of {label}"

    def _together(self, wrong: str, right: str) -> str:
        """Return the effect of all overwrites together, which may cancel each other."""
        errors = self.study.together
        if not any(errors.values()):
            return right
        return wrong.format(off_by(errors, ""))

    def _reason_nothing_is_lost(self, group: OverwriteGroup) -> str:
        """Return the reason why nothing is lost: no overwritten element had been read; empty if one had."""
        found = self._shared(group)
        if found is None or found.both:
            return ""
        pair = group.first
        reader = words.launch_words(self.trace.launches[pair.reader])
        more = "" if len(group.pairs) == 1 else " (summed over all of them)"
        return (
            f"none of the {found.written} elements that were written are among the {found.read} "
            f"that {reader} read{more}"
        )

    def _shared(self, group: OverwriteGroup) -> SharedElements | None:
        """Return the elements that were read and those that were overwritten; None if they are not known."""
        if not isinstance(self.experiment, Replay):
            return None
        if id(group) not in self.shared:
            pairs = [(pair.reader, pair.clobberer, pair.array) for pair in group.pairs]
            self.shared[id(group)] = shared_elements(self.experiment, pairs)
        return self.shared[id(group)]

    def _harmless(self, group: OverwriteGroup, errors: Mapping[str, float]) -> tuple[Severity, str]:
        trace, pair = self.trace, group.first
        label = trace.arrays[pair.array].label
        readers = [trace.launches[index] for index, _ in group.readers]
        clobberer = trace.launches[pair.clobberer]
        others = [words.launch_words(reader) for reader in readers if reader is not clobberer]
        when = f"after {words.listed(others)} read it" if others else "in place"
        text = (
            f"{words.launch_words(clobberer)} overwrites {label} {when}: harmless, {self._why(group)}. "
            f"{self._changed(group, capital=True)}"
        )
        if errors and max(errors.values()) == 0:
            own = words.listed(dict.fromkeys(trace.arrays[item.array].label for item in group.pairs))
            text += (
                f"; measured: with NaN in {own} the gradient of {words.listed(errors)} is the same to the bit"
            )
        return "info", f"{text}."

    def _why(self, group: OverwriteGroup) -> str:
        readers = [(self.trace.launches[index], param) for index, param in group.readers]
        special = [reason for reader, _ in readers if (reason := self._no_adjoint(reader))]
        linear = [self._linear(reader, param) for reader, param in readers if not self._no_adjoint(reader)]
        if linear:
            whose = "its adjoint does" if len(linear) == 1 else "their adjoints do"
            special.append(f"{words.listed(dict.fromkeys(linear))}: {whose} not read the values")
        return "; ".join(dict.fromkeys(special))

    def _linear(self, reader: Launch, param: int) -> str:
        """Return the reason why an adjoint does not need a value: the function is linear in it, or flat."""
        kernel = words.kernel_of(self.trace, reader)
        name = reader.args[param].name
        if kernel is not None and flat_call(kernel, [name]) is not None:
            return f"the slope of {reader.name} does not depend on {name}"
        return f"{reader.name} is linear in {name}"

    def _no_adjoint(self, reader: Launch) -> str:
        """Return the reason why the adjoint of a launch has no effect; empty if it has one."""
        kernel = words.kernel_of(self.trace, reader)
        if kernel is not None and not kernel.enable_backward:
            return f"{reader.name} has no adjoint (enable_backward=False)"
        if reader.kind == "copy":
            return "the adjoint of a copy needs no values"
        arrays = (self.trace.arrays[arg.array] for arg in reader.args if arg.writes and arg.array is not None)
        if not any(differentiable(info) for info in arrays):
            return f"nothing that {reader.name} writes has requires_grad, so no gradient comes back to it"
        return ""

    def _what(self, group: OverwriteGroup) -> str:
        trace, pair = self.trace, group.first
        reader, clobberer = trace.launches[pair.reader], trace.launches[pair.clobberer]
        label = trace.arrays[pair.array].label
        who = words.launch_words(clobberer)
        read_at = words.place(self._read_location(group))
        write_at = words.place(self._write_location(group))
        if reader is clobberer:
            return (
                f"{who} overwrites {label} in place (at {write_at}), and its own adjoint needs the "
                f"old values (read at {read_at})"
            )
        if pair.back:
            wrote = words.launch_words(reader)
            return (
                f"{who} overwrites values of {label} (at {write_at}) that {wrote} wrote and read back, and "
                f"that its adjoint reads again (at {read_at})"
            )
        return (
            f"{who} overwrites values of {label} (at {write_at}) that the adjoint of "
            f"{words.launch_words(reader)} needs (read at {read_at})"
        )

    def _changed(self, group: OverwriteGroup, *, capital: bool = False) -> str:
        total = self.study.total(group)
        if not total.elements:
            text = "what changed was not measured"
        elif not total.changed:
            text = f"none of {total.elements} elements changed value"
        else:
            largest = words.number(total.largest)
            text = f"{total.changed} of {total.elements} elements changed value, by up to {largest}"
        return text[0].upper() + text[1:] if capital else text

    def _fix(self, group: OverwriteGroup) -> str:
        trace, pair = self.trace, group.first
        clobberer = trace.launches[pair.clobberer]
        target = clobberer.args[group.write_param].name if clobberer.args else ""
        own = f"give {clobberer.name} an array of its own for {target}"
        if clobberer.kind != "kernel":
            own = f"{clobberer.name} into another array than {trace.arrays[pair.array].label}"
        if len(group.pairs) > 1:
            own += " in each round instead of using the same ones again"
        if self.consumes_new:
            return own + words.or_preserve(trace, self.as_warp)
        if self.as_warp and max(self.study.errors.get(id(group), {"": 0.0}).values()) > GRADIENT_CHANGED:
            return own
        return f"nothing has to change; to save the copies, {own}"

    def _read_location(self, group: OverwriteGroup) -> Location | None:
        reader = self.trace.launches[group.first.reader]
        return words.access_location(self.trace, reader, group.first.param, ("read",), needed=group.needed)

    def _write_location(self, group: OverwriteGroup) -> Location | None:
        """Return the line that overwrote the first changed element; a kernel may have several writes."""
        pair, param = group.first, group.write_param
        clobberer = self.trace.launches[pair.clobberer]
        change = self.study.changes.get((pair.array, pair.clobberer))
        place = None if change is None else change.place
        if place is not None and words.writes_in_many_places(self.trace, clobberer, param):
            if id(group) not in self.lines:
                self.lines[id(group)] = self.experiment.writer_of(pair.clobberer, pair.array, param, place)
            exact = self.lines[id(group)]
            if exact is not None:
                return exact
        return words.access_location(self.trace, clobberer, group.write_param, ("write", "atomic"))

    def _evidence(self, group: OverwriteGroup, errors: Mapping[str, float]) -> dict[str, Any]:
        trace, pair, total = self.trace, group.first, self.study.total(group)
        clobberer = trace.launches[pair.clobberer]
        shared = self.shared.get(id(group))
        return {
            "needed": group.needed,
            "preserved": group.needed and trace.tape.on_overwrite != "ignore",
            "occurrences": group.occurrences(),
            "pairs": [[item.reader, item.clobberer] for item in group.pairs[:PAIRS]],
            "reader": _side(trace.launches[pair.reader], pair.param, self._read_location(group)),
            "clobberer": _side(clobberer, group.write_param, self._write_location(group)),
            "elements": total.elements,
            "changed": total.changed,
            "max_change": total.largest,
            **({} if shared is None else asdict(shared)),
            "gradients": self.study.gradients.get(id(group), {}),
            "relative_error": dict(errors),
            "relative_error_all": self.study.together if group.needed else {},
        }


def _side(launch: Launch, param: int, location: Location | None) -> dict[str, Any]:
    """Return one side of an overwrite as evidence."""
    return {
        "launch": launch.index,
        "kernel": launch.name,
        "param": launch.args[param].name if launch.args else "",
        "location": None if location is None else asdict(location),
        "call_site": None if launch.call_site is None else asdict(launch.call_site),
    }
