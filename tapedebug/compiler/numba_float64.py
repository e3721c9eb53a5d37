"""Float64 twins of Numba functions: float64 in place of every float32 that they name.

A function that returns `np.float32(…)`, which kernels need for an array of float32, is a staircase to
differences in float64. Its twin is compiled by Numba from the same bytecode; on the way `np.float32`,
captured types, and the functions of Numba's that it calls become their wider counterparts.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numba import jit, types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.untyped_passes import IRProcessing

NARROW, WIDE = "float32", "float64"


@register_pass(mutates_CFG=False, analysis_only=False)
class _Widening(FunctionPass):  # type: ignore[misc]
    """Replaces float32 in Numba's IR, before types are inferred."""

    _name = "tapedebug_widening"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Return whether anything was replaced."""
        changed = False
        for block in state.func_ir.blocks.values():
            for assignment in block.find_insts(ir.Assign):
                changed = self._widen(assignment) or changed
        return changed

    def _widen(self, assignment: Any) -> bool:
        value = assignment.value
        if isinstance(value, ir.Expr) and value.op == "getattr" and value.attr == NARROW:
            value.attr = WIDE
            return True
        if isinstance(value, ir.Global | ir.FreeVar):
            wide = _counterpart(value.value)
            if wide is not value.value:
                name, loc = value.name, value.loc
                free = isinstance(value, ir.FreeVar)
                assignment.value = (
                    ir.FreeVar(value.index, name, wide, loc) if free else ir.Global(name, wide, loc)
                )
                return True
        return False


class _Widened(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with that pass."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Widening, IRProcessing)
        passes.finalize()
        return [passes]


_known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def float64_twin(dispatcher: Any) -> Any:
    """Return the counterpart of a function, which has no signatures: it is compiled for any types."""
    found = _known.get(dispatcher)
    if found is None:
        options = dict(dispatcher.targetoptions)
        found = _known[dispatcher] = jit(pipeline_class=_Widened, **options)(dispatcher.py_func)
    return found


def _counterpart(value: Any) -> Any:
    if isinstance(value, Dispatcher):
        return float64_twin(value)
    if value is np.float32:
        return np.float64
    if value is types.float32:
        return types.float64
    return value
