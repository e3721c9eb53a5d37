"""Warp's adjoints of launches, right or wrong, in the user's own reverse pass and in replays of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tapedebug.aswarp.warp_programs import notes_of
from tapedebug.compiler.kernel_queries import warp_adjoint, warp_divergences_of
from tapedebug.compiler.passes.warp_forward import NotEmulated
from tapedebug.runtime.config import config
from tapedebug.runtime.launch.plan import KernelPlan, runner

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import Runner
    from tapedebug.runtime.tape.record import Record


class WarpAdjoints:
    """Reverse passes that give Warp's gradients (a `ForeignReverse`)."""

    engine = "Warp"

    def omits(self, record: Record) -> bool:
        """Return True for a fill, a copy without a gradient, and the launch of a command."""
        notes = notes_of(record)
        return (
            record.kind == "fill"
            or (record.kind == "copy" and 1 not in record.active)
            or (notes is not None and notes.command)
        )

    def adjoint_of(self, record: Record) -> Runner | None:
        """Return Warp's adjoint of a launch, if it may differ and can be emulated; else None."""
        plan = record.plan
        assert isinstance(plan, KernelPlan)
        retained = retained_params(record)
        key = "warp adjoint", retained, config.interpreted
        if key not in plan.notes:
            plan.notes[key] = None
            if retained or warp_divergences_of(plan.kernel, plan.active):
                with contextlib.suppress(NotEmulated):
                    entry = warp_adjoint(plan.kernel, plan.active, strided=plan.strided, retained=retained)
                    plan.notes[key] = runner(entry, plan.kernel)
        found: Runner | None = plan.notes[key]
        return found


def retained_params(record: Record) -> frozenset[int]:
    """Return the parameters of a launch whose arrays keep their gradients."""
    return frozenset(p for p in record.active if record.args[p].retain_grad)
