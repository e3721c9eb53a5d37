"""Rule `flat-op`: a gradient that is exactly 0 because of `round`, a cast, a comparison; and kinks.

The derivative of such an operation is 0 wherever it exists, so that the gradient is right but useless. An
experiment confirms it: a tiny change of the input does not change the loss, a large one does. At a kink there
are two slopes, and the gradient is one of them; an `info` reports both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapedebug.autograd.thresholds import SLOPE_IS_JUMP
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.zero_grad_paths import TINY
from tapedebug.diagnose.rule import Repair, RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.trace import Check, Finding


class FlatOp(TapeRule):
    """A gradient that is exactly 0 because of `round`, a cast, a comparison; and kinks."""

    code = "flat-op"
    title = "A gradient is 0 because of round, floor, a cast, an index or a comparison"
    severity = "warning"
    unmasks = ("overwrite", "disconnected", "duplicate-launch", "seed")

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each flat operation at which gradients become 0."""
        ends: dict[tuple[int, int], list[int]] = {}
        for leaf, end in context.zero_grad_paths.items():
            if end.kind == "flat":
                ends.setdefault((end.launch.index, end.param), []).append(leaf)
        for leaves in ends.values():
            yield _finding(context, leaves)
        for check in context.trace.checks:
            if check.verdict == "KINK":
                yield _kink(context, check)

    def repair(self, finding: Finding) -> Repair | None:
        """Return a repair in which launches pass on an artificial adjoint although their derivative is 0."""
        return Repair(revive=tuple(finding.launches))


def _finding(context: RuleContext, leaves: Sequence[int]) -> Finding:
    end = context.zero_grad_paths[leaves[0]]
    labels = [context.trace.arrays[item].label for item in leaves]
    array = end.launch.args[end.param].array
    passed = context.trace.arrays[array].label if array is not None else labels[0]
    message = (
        f"the gradient of {words.listed(labels)} is exactly 0, because {end.text} in "
        f"{words.launch_words(end.launch)} is flat: its slope is 0 wherever it exists. Perturbing "
        f"{labels[0]} "
        f"by a relative {TINY:.0e} does not move the loss, and by {_share(end.scale)} moves it by "
        f"{words.number(end.moved)}."
    )
    return RuleFinding(
        rule=FlatOp.code,
        severity="warning",
        message=message,
        launches=[end.launch.index],
        arrays=list(dict.fromkeys([*labels, passed])),
        location=end.place,
        call_site=end.launch.call_site,
        inputs=labels,
        evidence={
            "kind": "flat operation",
            "operation": end.text,
            "operands": list(end.operands),
            "tiny": TINY,
            "loss_moves_tiny": 0.0,
            "perturbation": end.scale,
            "loss_moves": end.moved,
        },
        fix=f"replace {end.text} with a smooth function, or give it a custom gradient (wp.func_grad)",
    )


def _kink(context: RuleContext, check: Check) -> Finding:
    """Return an `info` about a kink: the operation that has it, and the slopes on both sides."""
    assert check.left is not None and check.right is not None
    tie = context.kink
    message = f"the loss has a kink in {check.input}: {_sides(check.left, check.right)}"
    if tie is not None:
        operands = words.listed(words.number(value) for value in tie.operands)
        message += f". {tie.text} in {words.launch_words(tie.launch)} is at its kink (operands {operands})"
    return RuleFinding(
        rule=FlatOp.code,
        severity="info",
        message=f"{message}. The gradient is that of one of the sides, or lies between.",
        launches=[tie.launch.index] if tie is not None else [],
        arrays=[check.input],
        location=tie.place if tie is not None else None,
        call_site=tie.launch.call_site if tie is not None else None,
        inputs=[check.input],
        evidence={
            "kind": "kink",
            "left": check.left,
            "right": check.right,
            "operation": tie.text if tie is not None else "",
            "operands": list(tie.operands) if tie is not None else [],
        },
    )


def _sides(left: float, right: float) -> str:
    if max(abs(left), abs(right)) > SLOPE_IS_JUMP * max(1.0, min(abs(left), abs(right))):
        return "it jumps there"
    return f"its slope is {left:.6g} on the left and {right:.6g} on the right"


def _share(scale: float) -> str:
    return f"{100 * scale:g} %"
