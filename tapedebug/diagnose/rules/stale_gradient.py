"""Rule `stale-gradient`: an update used a gradient that was not written yet, or zeroed before.

An optimiser's step before `backward` takes what the step before left (or zeros), and one after `zero()` takes
zeros. A gradient that is only looked at, printed or compared with zero is no update: what counts is that the
parameter was written afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from tapedebug.diagnose import _words as words
from tapedebug.diagnose._case import Case
from tapedebug.diagnose.reading import _passes as passes
from tapedebug.diagnose.reading._passes import Story, at
from tapedebug.trace import Event, Finding
from tapedebug.trace.model import Severity

RULE = "stale-gradient"

Why = Literal["before backward", "after zero"]


@dataclass(slots=True)
class Found:
    """One update of an input with a gradient that was not that of the pass.

    Attributes:
        event: The pass.
        read: When the gradient was read.
        update: When the input was written.
        zero: When the gradient was zeroed, if that is why.
    """

    story: Story
    event: Event
    why: Why
    read: Event
    update: Event
    zero: Event | None = None

    @property
    def sure(self) -> bool:
        """The read and the write are one step, not perhaps a print and a reset."""
        same = passes.same_line(self.read.call_site, self.update.call_site)
        return self.read.how in ("optimiser", "launch") or same


def find_across(cases: Sequence[Case]) -> list[tuple[Case, Finding]]:
    """Return a finding for each line that updates inputs with stale gradients."""
    groups = passes.grouped(cases, _look, lambda found: found.read)
    return passes.told(groups, _finding)


def _look(story: Story, case: Case) -> list[Found]:
    tape = case.trace.tape
    own = story.passes(case.trace)
    found: list[Found] = []
    if own and tape.began:
        early = story.between(tape.began, own[0].clock)
        found += [
            Found(story, own[0], "before backward", read, update)
            for read, update in passes.updates(early)
            if update.clock > tape.ended
        ][:1]
    for event in own:
        later = story.between(event.clock, story.end_of(event))
        gradient = [item for item in later if item.of == "gradient"]
        if len(gradient) < 2 or gradient[0].kind != "zero" or gradient[1].kind != "read":
            continue  # read first, or never
        steps = [step for step in passes.updates(later) if step[0] is gradient[1]]
        found += [Found(story, event, "after zero", read, update, gradient[0]) for read, update in steps]
    return found


def _finding(group: passes.Group[Found]) -> Finding | None:
    case = group.case
    right = {} if case.experiment.blocked else case.experiment.gradients()
    facts = {}
    for found in group.found:
        own = right.get(found.story.info.id)
        norm = float("nan") if own is None else float(np.linalg.norm(own.astype(np.float64)))
        facts[found.story.info.label] = {"norm_consumed": found.read.numbers.get("norm", 0.0), "norm": norm}
    told = [found for found in group.found if facts[found.story.info.label]["norm"] != 0]
    if not told:
        return None  # nothing was missed: the pass gives zeros
    chosen = told[0]
    severity: Severity = "error" if chosen.sure else "warning"
    label = chosen.story.info.label
    message = _words(chosen, facts[label])
    others = [found.story.info.label for found in told[1:]]
    if others:
        message += f" Likewise {words.listed(others)}."
    if len(group.times) > 1:
        message += f" {len(group.times) - 1} more steps like it (×{len(group.times)})."
    return Finding(
        rule=RULE,
        severity=severity,
        message=message,
        launches=passes.first_reader(case.trace, chosen.story.info.id),
        arrays=[label, *others],
        call_site=chosen.read.call_site,
        evidence={
            "kind": chosen.why,
            "occurrences": len(group.times),
            "gradients": facts,
            "read_by": chosen.read.how,
            "updated_at": _place(chosen.update),
            "zeroed_at": _place(chosen.zero),
            "backward_at": _place(chosen.event),
        },
        fix=_fix(chosen),
    )


def _words(found: Found, facts: dict[str, float]) -> str:
    label, consumed = found.story.info.label, facts["norm_consumed"]
    step = f"{label} was updated{at(found.update if found.update.call_site else found.read)} with a gradient"
    gives = "" if np.isnan(facts["norm"]) else f"; the pass gives a norm of {words.number(facts['norm'])}"
    backward = f"backward{at(found.event)}"
    if found.why == "after zero":
        zeroed = at(found.zero)
        return (
            f"{step} that had been zeroed{zeroed} after {backward} and before anybody read it: "
            f"its norm was {words.number(consumed)}{gives}."
        )
    if consumed == 0:
        return f"{step} that {backward} had not written yet: it was zero{gives}."
    return (
        f"{step} that {backward} had not written yet: it was that of an earlier pass, "
        f"of norm {words.number(consumed)}{gives}."
    )


def _fix(found: Found) -> str:
    if found.why == "after zero":
        return f"zero the gradient after the update, not before it{at(found.zero)}"
    return f"call backward before the update{at(found.read)}"


def _place(event: Event | None) -> dict[str, Any] | None:
    return None if event is None or event.call_site is None else asdict(event.call_site)
