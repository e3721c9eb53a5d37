"""Rule `overwrite`: an array was written over after a launch had read it. Does that matter, and by how much?

What makes an overwrite wrong is that the adjoint of the reader needs the old values, that they changed,
and that the tape gave the adjoint the new ones. Each of the three is looked at: the first from the
kernel's adjoint, the others by experiment. The overwrites of a time loop are one finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tapedebug.diagnose import _words as words
from tapedebug.diagnose._case import Case
from tapedebug.diagnose._experiment import Change, Experiment, Values, relative_errors
from tapedebug.diagnose._graph import differentiable
from tapedebug.diagnose._overwritten import Group, group_overwrites
from tapedebug.diagnose._source import flat_call
from tapedebug.trace import Finding, Launch, Location, Trace
from tapedebug.trace.model import Severity

RULE = "overwrite"
WRONG = 1e-3
"""A gradient that differs by more than this, relatively, is wrong: as in the end-to-end check."""
NOTICED = 1e-5
"""Below this a difference is at the level of float32 rounding, and the gradient no worse for it."""
MEASURED = 16
"""How many groups of overwrites are measured one by one; each costs a reverse pass."""


def find(case: Case) -> list[Finding]:
    """Return one finding for each kind of overwrite on the tape that needs an explanation."""
    trace, experiment = case.trace, case.experiment
    groups = group_overwrites(trace)
    if not groups:
        return []
    study = _Study(trace, experiment, case.as_warp)
    study.measure(groups)
    return [study.finding(group) for group in groups]


class _Study:
    """The measurements, and the words for them."""

    def __init__(self, trace: Trace, experiment: Experiment, as_warp: bool) -> None:
        self.trace = trace
        self.experiment = experiment
        self.changes: Mapping[tuple[int, int], Change] = {}
        self.right: Mapping[int, Values] = {}
        self.errors: dict[int, dict[str, float]] = {}
        self.gradients: dict[int, dict[str, Any]] = {}
        self.together: dict[str, float] = {}
        self.lines: dict[int, Location | None] = {}
        self.consumes_new = trace.tape.on_overwrite in ("ignore", "warn")
        self.as_warp = as_warp

    def measure(self, groups: list[Group]) -> None:
        """Run the experiments; without them the structure alone is reported."""
        pairs = [(pair.array, pair.clobberer) for group in groups for pair in group.pairs]
        self.changes = self.experiment.changes(list(dict.fromkeys(pairs)))
        if self.experiment.blocked:
            return
        self.right = self.experiment.gradients()
        if not self.right:
            return
        needed = [group for group in groups if group.needed]
        for group in groups[:MEASURED]:
            if group.needed:
                wrong = self.experiment.gradients(careless=group.careless())
                self.errors[id(group)] = self._compared(wrong)
                self.gradients[id(group)] = _both(self.trace, self.right, wrong)
            else:
                self._poison(group)
        careless = [pair for group in needed for pair in group.careless()]
        self.together = self._compared(self.experiment.gradients(careless=careless))

    def _poison(self, group: Group) -> None:
        """Where no adjoint needs any version of an array, NaN in all of it must not matter."""
        arrays = {pair.array for pair in group.pairs}
        if not any(version.needed_by for version in self.trace.versions if version.array in arrays):
            self.errors[id(group)] = self._compared(self.experiment.gradients(poisoned=arrays))

    def _compared(self, wrong: Mapping[int, Values]) -> dict[str, float]:
        errors = relative_errors(self.right, wrong)
        return {self.trace.arrays[array].label: error for array, error in errors.items()}

    # ---------------------------------------------------------------- findings

    def finding(self, group: Group) -> Finding:
        """Put a group into words."""
        trace, pair = self.trace, group.first
        errors = self.errors.get(id(group), {})
        severity, message = self._needed(group, errors) if group.needed else self._harmless(group, errors)
        count = group.occurrences()
        if count > 1:
            message += f" {count - 1} more like it (×{count})."
        launches = dict.fromkeys(index for item in group.pairs for index in (item.reader, item.clobberer))
        harmless = not group.needed or (bool(errors) and max(errors.values()) == 0)
        return Finding(
            rule=RULE,
            severity=severity,
            message=message,
            launches=list(launches),
            arrays=list(dict.fromkeys(trace.arrays[item.array].label for item in group.pairs)),
            location=self._write_location(group),
            call_site=trace.launches[pair.clobberer].call_site,
            evidence=self._evidence(group, errors, harmless),
            fix="" if harmless else self._fix(group),
        )

    def _needed(self, group: Group, errors: Mapping[str, float]) -> tuple[Severity, str]:
        label = self.trace.arrays[group.first.array].label
        text = f"{self._what(group)}: {self._changed(group)}."
        worst = max(errors.values(), default=None)
        if worst is None:
            if self.consumes_new:
                return (
                    "warning",
                    f"{text} The reverse pass sees the new values; what that does was not measured.",
                )
            return "info", f"{text} The tape kept a copy of {label} for the adjoint."
        if worst == 0:
            reason = "the elements that changed do not reach the gradient"
            if self._total(group).changed == 0:
                reason = "the values are the same"
            return "info", f"{text} Harmless: {reason}; measured, the gradient is the same to the bit."
        alone = errors == self.together
        severity: Severity = "error" if worst > WRONG else "warning" if worst > NOTICED else "info"
        if self.consumes_new:
            more = "" if alone else f"; all overwrites together put {words.off(self.together)}"
            return severity, f"{text} That puts the gradient of {words.off(errors)}{more}."
        if self.as_warp:
            more = "" if alone else f"; through all overwrites together {words.off(self.together, 'is ')}"
            return severity, (
                f"{text} Here the tape kept a copy of {label}, so the gradient is right. Warp keeps none: "
                f"its gradient of {words.off(errors, 'is ')}{self._example(group, errors)}{more}."
            )
        more = "" if alone else f" ({words.off(self.together)} without any copy)"
        return "info", (
            f"{text} The tape kept a copy of {label} for the adjoint, so the gradient is right; "
            f"without it the gradient of {words.off(errors, 'would be ')}{more}."
        )

    def _example(self, group: Group, errors: Mapping[str, float]) -> str:
        """`, for instance 1.8 for throw[0] in place of 2.91`: where the two are furthest apart."""
        found = self.gradients[id(group)].get(max(errors, key=lambda label: errors[label]))
        if found is None:
            return ""
        right, wrong = words.number(found["right"]), words.number(found["wrong"])
        return "" if right == wrong else f" ({wrong} in place of {right} for {found['element']})"

    def _harmless(self, group: Group, errors: Mapping[str, float]) -> tuple[Severity, str]:
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

    def _why(self, group: Group) -> str:
        readers = [(self.trace.launches[index], param) for index, param in group.readers]
        special = [reason for reader, _ in readers if (reason := self._no_adjoint(reader))]
        linear = [self._linear(reader, param) for reader, param in readers if not self._no_adjoint(reader)]
        if linear:
            whose = "its adjoint does" if len(linear) == 1 else "their adjoints do"
            special.append(f"{words.listed(dict.fromkeys(linear))}: {whose} not read the values")
        return "; ".join(dict.fromkeys(special))

    def _linear(self, reader: Launch, param: int) -> str:
        """An adjoint that does not need a value belongs to a function that is linear in it, or flat."""
        kernel = words.kernel_of(self.trace, reader)
        name = reader.args[param].name
        if kernel is not None and flat_call(kernel, [name]) is not None:
            return f"the slope of {reader.name} does not depend on {name}"
        return f"{reader.name} is linear in {name}"

    def _no_adjoint(self, reader: Launch) -> str:
        """Why the adjoint of a launch does nothing; empty where it does something."""
        kernel = words.kernel_of(self.trace, reader)
        if kernel is not None and not kernel.enable_backward:
            return f"{reader.name} has no adjoint (enable_backward=False)"
        if reader.kind == "copy":
            return "the adjoint of a copy needs no values"
        arrays = (self.trace.arrays[arg.array] for arg in reader.args if arg.writes and arg.array is not None)
        if not any(differentiable(info) for info in arrays):
            return f"nothing that {reader.name} writes has requires_grad, so no gradient comes back to it"
        return ""

    def _what(self, group: Group) -> str:
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
        return (
            f"{who} overwrites values of {label} (at {write_at}) that the adjoint of "
            f"{words.launch_words(reader)} needs (read at {read_at})"
        )

    def _total(self, group: Group) -> Change:
        """The change of the first overwrite, with the largest difference of all."""
        found = [
            self.changes[key] for pair in group.pairs if (key := (pair.array, pair.clobberer)) in self.changes
        ]
        if not found:
            return Change(0, 0, 0.0)
        return Change(
            found[0].elements, max(item.changed for item in found), max(item.largest for item in found)
        )

    def _changed(self, group: Group, *, capital: bool = False) -> str:
        total = self._total(group)
        if not total.elements:
            text = "what changed was not measured"
        elif not total.changed:
            text = f"none of {total.elements} elements changed value"
        else:
            largest = words.number(total.largest)
            text = f"{total.changed} of {total.elements} elements changed value, by up to {largest}"
        return text[0].upper() + text[1:] if capital else text

    def _fix(self, group: Group) -> str:
        trace, pair = self.trace, group.first
        clobberer = trace.launches[pair.clobberer]
        target = clobberer.args[group.write_param].name if clobberer.args else ""
        own = f"give {clobberer.name} an array of its own for {target}"
        if clobberer.kind != "kernel":
            own = f"{clobberer.name} into another array than {trace.arrays[pair.array].label}"
        if len(group.pairs) > 1:
            own += " in each round instead of using the same ones again"
        if self.consumes_new:
            return own if self.as_warp else f'{own}, or record with on_overwrite="preserve"'
        if self.as_warp and max(self.errors.get(id(group), {"": 0.0}).values()) > NOTICED:
            return own
        return f"nothing has to change; to save the copies, {own}"

    def _read_location(self, group: Group) -> Location | None:
        reader = self.trace.launches[group.first.reader]
        return words.access_location(self.trace, reader, group.first.param, ("read",), needed=group.needed)

    def _write_location(self, group: Group) -> Location | None:
        """The line that wrote over the first element that changed; a kernel may have several writes."""
        pair, param = group.first, group.write_param
        clobberer = self.trace.launches[pair.clobberer]
        change = self.changes.get((pair.array, pair.clobberer))
        place = None if change is None else change.place
        if place is not None and words.writes_in_many_places(self.trace, clobberer, param):
            if id(group) not in self.lines:
                self.lines[id(group)] = self.experiment.writer_of(pair.clobberer, pair.array, param, place)
            exact = self.lines[id(group)]
            if exact is not None:
                return exact
        return words.access_location(self.trace, clobberer, group.write_param, ("write", "atomic"))

    def _evidence(self, group: Group, errors: Mapping[str, float], harmless: bool) -> dict[str, Any]:
        trace, pair, total = self.trace, group.first, self._total(group)
        clobberer = trace.launches[pair.clobberer]
        return {
            "harmless": harmless,
            "needed": group.needed,
            "preserved": group.needed and trace.tape.on_overwrite != "ignore",
            "occurrences": group.occurrences(),
            "pairs": [[item.reader, item.clobberer] for item in group.pairs[:100]],
            "reader": _side(trace.launches[pair.reader], pair.param, self._read_location(group)),
            "clobberer": _side(clobberer, group.write_param, self._write_location(group)),
            "elements": total.elements,
            "changed": total.changed,
            "max_change": total.largest,
            "gradients": self.gradients.get(id(group), {}),
            "relative_error": dict(errors),
            "relative_error_all": self.together if group.needed else {},
        }


def _side(launch: Launch, param: int, location: Location | None) -> dict[str, Any]:
    """One side of an overwrite as evidence."""
    return {
        "launch": launch.index,
        "kernel": launch.name,
        "param": launch.args[param].name if launch.args else "",
        "location": None if location is None else asdict(location),
        "call_site": None if launch.call_site is None else asdict(launch.call_site),
    }


def _both(trace: Trace, right: Mapping[int, Values], wrong: Mapping[int, Values]) -> dict[str, Any]:
    """For each input whose gradient differs the element where it does most, with both values."""
    found: dict[str, Any] = {}
    for leaf, good in right.items():
        bad, info = wrong[leaf], trace.arrays[leaf]
        with np.errstate(all="ignore"):
            apart = np.abs(bad.astype(np.float64) - good.astype(np.float64))
        apart[np.isnan(apart)] = np.inf
        apart[(good == bad) | (np.isnan(good) & np.isnan(bad))] = 0.0
        if apart.size and apart.max() > 0:
            place = tuple(int(k) for k in np.unravel_index(int(apart.argmax()), apart.shape))
            outer, inner = place[: len(info.shape)], place[len(info.shape) :]
            element = info.label + "".join(
                f"[{', '.join(map(str, part))}]" for part in (outer, inner) if part
            )
            found[info.label] = {
                "element": element,
                "right": float(good[place]),
                "wrong": float(bad[place]),
                "norm_right": float(np.linalg.norm(good.astype(np.float64))),
                "norm_wrong": float(np.linalg.norm(bad.astype(np.float64))),
            }
    return found
