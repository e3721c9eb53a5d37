"""Judge the gradient that the optimiser consumes, which may differ from the one that a pass computed."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose.rules import accumulated, seed, stale_gradient, truncated
from tapedebug.trace import Trace

AROUND = frozenset({accumulated.RULE, seed.RULE, stale_gradient.RULE, truncated.RULE})
"""Rules about what happens to gradients around a pass: the end-to-end check of the pass can not see it."""


def allow_for_optimizer_gradient(trace: Trace, elsewhere: Sequence[str] = ()) -> None:
    """Make the verdict WRONG where the pass is right and what was consumed is not.

    Args:
        trace: The tape, with its findings.
        elsewhere: Rules whose errors are shown on another tape and are about this one, too.
    """
    own = [item.rule for item in trace.findings if item.rule in AROUND and item.severity == "error"]
    told = sorted({*own, *elsewhere})
    if told and trace.verdict != "WRONG":
        trace.coverage.notes.append(
            f"the reverse pass alone: {trace.verdict}; what was consumed is not what it gives: "
            f"see {', '.join(told)}"
        )
        trace.verdict = "WRONG"
