"""Checks of gradients: Jacobians, gradchecks of kernels, functions and tapes, whole tapes end to end.

Names are imported on first use: a diagnosis needs a third of these modules, and all of them take longer to
load than it takes to check a small tape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.autograd.assertions import GradientAssertionError as GradientAssertionError
    from tapedebug.autograd.assertions import assert_gradients as assert_gradients
    from tapedebug.autograd.finite_diff.dot_product_test import DotProduct as DotProduct
    from tapedebug.autograd.forward_mode import jvp as jvp
    from tapedebug.autograd.gradchecks import gradcheck as gradcheck
    from tapedebug.autograd.gradgradchecks import gradgradcheck as gradgradcheck
    from tapedebug.autograd.hessian import HessianCheck as HessianCheck
    from tapedebug.autograd.hessian import HessianProduct as HessianProduct
    from tapedebug.autograd.hessian import hvp as hvp
    from tapedebug.autograd.hessian import hvp_check as hvp_check
    from tapedebug.autograd.jacobians import jacobian as jacobian
    from tapedebug.autograd.jacobians import jacobian_fd as jacobian_fd
    from tapedebug.autograd.pair_check import check_pairs as check_pairs
    from tapedebug.autograd.plots import jacobian_plot as jacobian_plot
    from tapedebug.autograd.results.gradcheck_result import Coverage as Coverage
    from tapedebug.autograd.results.gradcheck_result import Entry as Entry
    from tapedebug.autograd.results.gradcheck_result import GradcheckFailure as GradcheckFailure
    from tapedebug.autograd.results.gradcheck_result import GradcheckResult as GradcheckResult
    from tapedebug.autograd.results.gradcheck_result import PairResult as PairResult
    from tapedebug.autograd.results.gradcheck_result import PairResults as PairResults
    from tapedebug.autograd.subjects.metadata import FunctionMetadata as FunctionMetadata
    from tapedebug.autograd.tape_check import gradcheck_tape as gradcheck_tape
    from tapedebug.autograd.tapes.directional import Probe as Probe
    from tapedebug.autograd.tapes.end_to_end import EndToEnd as EndToEnd
    from tapedebug.autograd.tapes.end_to_end import end_to_end as end_to_end
    from tapedebug.autograd.tapes.input_check import InputCheck as InputCheck

_MODULES = {
    "assertions": ("GradientAssertionError", "assert_gradients"),
    "finite_diff.dot_product_test": ("DotProduct",),
    "forward_mode": ("jvp",),
    "gradchecks": ("gradcheck",),
    "gradgradchecks": ("gradgradcheck",),
    "hessian": ("HessianCheck", "HessianProduct", "hvp", "hvp_check"),
    "jacobians": ("jacobian", "jacobian_fd"),
    "pair_check": ("check_pairs",),
    "plots": ("jacobian_plot",),
    "results.gradcheck_result": (
        "Coverage", "Entry", "GradcheckFailure", "GradcheckResult", "PairResult", "PairResults",
    ),
    "subjects.metadata": ("FunctionMetadata",),
    "tape_check": ("gradcheck_tape",),
    "tapes.directional": ("Probe",),
    "tapes.end_to_end": ("EndToEnd", "end_to_end"),
    "tapes.input_check": ("InputCheck",),
}  # fmt: skip
"""The public names, by the module that defines them."""
_LAZY = {name: (module, name) for module, names in _MODULES.items() for name in names}
_LAZY["plot_kernel_jacobians"] = _LAZY["jacobian_plot"]  # its name in Warp's guide


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
