"""Checks the gradient that the optimiser consumes, which may differ from the one that a pass computed."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose.registry import rule_of
from tapedebug.trace import Trace


def allow_for_optimizer_gradient(trace: Trace, elsewhere: Sequence[str] = ()) -> None:
    """Set the verdict WRONG if the reverse pass is right but the consumed gradient is not.

    Args:
        trace: The tape, with its findings.
        elsewhere: Rules whose errors are shown on another tape and also concern this one.
    """
    errors = [item for item in trace.findings if item.severity == "error"]
    own = [item.rule for item in errors if rule_of(item).outside_pass]
    rules = sorted({*own, *elsewhere})
    if rules and trace.verdict != "WRONG":
        trace.coverage.notes.append(
            f"the reverse pass alone: {trace.verdict}; what was consumed is not what it gives: "
            f"see {', '.join(rules)}"
        )
        trace.verdict = "WRONG"
