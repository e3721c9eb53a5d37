"""Custom gradients that never run, because kernels call another function of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tapedebug.compiler.function import Function
from tapedebug.compiler.passes.custom import calls_with_gradient
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.trace import Finding, Launch

if TYPE_CHECKING:
    from tapedebug.compiler.function import Function
    from tapedebug.diagnose.rule_context import RuleContext

RULE = "custom-grad"


def bypassed(case: RuleContext) -> list[Finding]:
    """Return a finding for each gradient beside a kernel on the tape that the kernel's adjoint does not run.

    Its function was defined again after it, or kernels call another version of it, which has none.
    """
    replay = case.replay
    assert replay is not None
    found: dict[int, Finding] = {}
    kernels: dict[int, tuple[Any, Launch]] = {}
    for launch in case.trace.launches:
        kernel = replay.kernel_of(launch.index)
        if kernel is not None:
            kernels.setdefault(id(kernel), (kernel, launch))
    for kernel, launch in kernels.values():
        for gradient, function, used in _beside(kernel):
            found.setdefault(id(gradient), _finding(case, launch, gradient, function, used))
    return list(found.values())


def _beside(kernel: Any) -> Iterator[tuple[Function, Function, Function]]:
    """(gradient, its function, the function that the kernel calls instead)."""
    run = {node.function for node in calls_with_gradient(kernel._lowered.custom.body)}
    known = getattr(kernel.python, "__globals__", {})
    for gradient in [value for value in known.values() if isinstance(value, Function)]:
        function = gradient.companion_of
        if function is None or function.gradient is not gradient or function in run:
            continue
        now = known.get(function.name)
        if not isinstance(now, Function):
            continue
        used = next((v for v in now.overloads if kernel in v.users and v.gradient is None), None)
        if used is not None and used is not function:
            yield gradient, function, used


def _finding(
    case: RuleContext, launch: Launch, gradient: Function, function: Function, used: Function
) -> Finding:
    again = function not in used.overloads
    spot = used.origin.span(used.origin.tree)
    what = (
        f"{function.name} was defined again at {words.place(place_of(spot))}"
        if again
        else f"{launch.name} calls the version {used.declaration} at {words.place(place_of(spot))}"
    )
    profile = case.profile
    dead = profile is not None and any(norm == 0 for norm in profile.gradients.values())
    bad = again and (dead or case.trace.verdict not in ("AGREE", "KINK"))
    return RuleFinding(
        rule=RULE,
        severity="warning" if bad else "info",
        message=f"{gradient.name} is never run: it is the gradient of {function.declaration}, and {what}, "
        "which "
        f"has no gradient of its own. The adjoint of {words.launch_words(launch)} reverses its body.",
        launches=[launch.index],
        location=place_of(gradient.origin.span(gradient.origin.tree)),
        call_site=launch.call_site,
        inputs=[],
        evidence={"kind": "bypassed", "function": function.name, "gradient": gradient.name},
        fix=f"define {gradient.name} after the last definition of {function.name}"
        if again
        else f"write a gradient for {used.declaration}, too",
    )
