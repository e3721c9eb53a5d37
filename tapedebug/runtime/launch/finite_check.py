"""`config.verify_fp`: report the first launch or adjoint that produces a non-finite number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug._errors import NonFiniteError
from tapedebug.lang import types
from tapedebug.runtime.launch.plan import LaunchPlan
from tapedebug.runtime.memory.array import array

Values = np.ndarray[Any, Any]
Arguments = tuple[Any, ...]


class FiniteCheck:
    """A comparison of the values that a launch or its adjoint writes, before and after it.

    Args:
        look: Returns the values of an array, or its adjoint, as a NumPy view.
    """

    def __init__(self, look: Callable[[array], Values]) -> None:
        self.look = look
        self.back = look is not array._numpy_view
        self.fine: dict[int, Values | None] = {}

    def before(self, plan: LaunchPlan, args: Arguments) -> None:
        """Store which values are finite before the launch; None for an array if all are."""
        chosen = plan.active if self.back else plan.written
        self.fine = {p: self._where(args[p]) for p in chosen if types.is_float(args[p].dtype)}

    def after(self, plan: LaunchPlan, args: Arguments) -> None:
        """Reject numbers that were finite before the launch and no longer are.

        Raises:
            NonFiniteError: There is such a number; the message names the array, the element and the count.
        """
        for p, fine in self.fine.items():
            now = self._where(args[p])
            if now is None:
                continue
            born = ~now if fine is None else ~now & fine
            if born.any():
                raise self._error(plan, args, p, born)

    def _where(self, a: array) -> Values | None:
        found: Values = np.isfinite(self.look(a))
        return None if found.all() else found

    def _error(self, plan: LaunchPlan, args: Arguments, param: int, born: Values) -> NonFiniteError:
        a = args[param]
        place = tuple(int(k) for k in np.argwhere(born)[0])
        count = int(born.sum())
        others = "" if count == 1 else f", the first of {count} such numbers"
        element = f"{plan.names[param]}[{', '.join(map(str, place[: a.ndim]))}]"
        component = f" (component {', '.join(map(str, place[a.ndim :]))})" if place[a.ndim :] else ""
        what = f"the gradient of `{element}`" if self.back else f"`{element}`"
        whose = f"{'adjoint of ' if self.back else ''}{_name(plan)}"
        undone = "the reverse pass" if self.back else "the launch"
        return NonFiniteError(
            f"{whose} made {what}{component} {self.look(a)[place]}{others}",
            span=None if plan.kernel is None else _span(plan.kernel, param, back=self.back),
            notes=(
                *self._read(plan, args, param),
                f"nothing of {undone} is left: arrays and tape are as they were before it",
            ),
            hint="set config.verify_fp = False, record a tape, and let wp.diagnose(tape) find the operation",
        )

    def _read(self, plan: LaunchPlan, args: Arguments, param: int) -> list[str]:
        """Return notes on whether the launch's inputs are finite; if not, the cause is earlier."""
        notes = []
        for p in sorted(plan.reads - {param}):
            a = args[p]
            if types.is_float(a.dtype):
                bad = int((~np.isfinite(a._numpy_view())).sum())
                holds = f"holds {bad} numbers that are not finite" if bad else "is finite"
                notes.append(f"`{plan.names[p]}`, which it reads, {holds}")
        return notes


def _name(plan: LaunchPlan) -> str:
    return f"kernel `{plan.kernel.__name__}`" if plan.kernel is not None else plan.name


def _span(kernel: Any, param: int, *, back: bool) -> Any:
    """Return the first source span that writes a parameter, or with `back` reads it."""
    kinds = ("read", "atomic") if back else ("write", "atomic")
    return next((a.span for a in kernel.analysis.accesses if a.param == param and a.kind in kinds), None)
