"""Find custom gradients that never run, because kernels call another function of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tapedebug.contract import BypassedGradient, CustomFunction, CustomGradients
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.trace import Finding, Launch

if TYPE_CHECKING:
    from tapedebug.diagnose.rule_context import RuleContext

RULE = "custom-grad"


def find_bypassed_gradients(case: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each custom gradient that the adjoint of a kernel on the tape does not run.

    Either its function was defined again after it, or the kernel calls an overload without a gradient.
    """
    replay = case.replay
    assert replay is not None
    found: set[CustomFunction] = set()
    seen: set[int | None] = set()
    for launch in case.trace.launches:
        custom = replay.records[launch.index].capability(CustomGradients)
        if custom is not None and launch.kernel not in seen:
            seen.add(launch.kernel)
            for item in custom.bypassed():
                if item.gradient not in found:
                    found.add(item.gradient)
                    yield _finding(case, launch, item)


def _finding(case: RuleContext, launch: Launch, item: BypassedGradient) -> Finding:
    gradient, function, used = item.gradient, item.function, item.used
    what = (
        f"{function.name} was defined again at {words.place(location_at(used.place))}"
        if item.redefined
        else f"{launch.name} calls the version {used.declaration} at {words.place(location_at(used.place))}"
    )
    profile = case.profile
    dead = profile is not None and any(norm == 0 for norm in profile.gradients.values())
    bad = item.redefined and (dead or case.trace.verdict not in ("AGREE", "KINK"))
    return RuleFinding(
        rule=RULE,
        severity="warning" if bad else "info",
        message=f"{gradient.name} is never run: it is the gradient of {function.declaration}, and {what}, "
        "which "
        f"has no gradient of its own. The adjoint of {words.launch_words(launch)} reverses its body.",
        launches=[launch.index],
        location=location_at(gradient.place),
        call_site=launch.call_site,
        inputs=[],
        evidence={"kind": "bypassed", "function": function.name, "gradient": gradient.name},
        fix=f"define {gradient.name} after the last definition of {function.name}"
        if item.redefined
        else f"write a gradient for {used.declaration}, too",
    )
