"""Checks of gradients: Jacobians, gradchecks of kernels, functions and tapes, whole tapes end to end."""

from tapedebug.autograd.assertions import GradientAssertionError as GradientAssertionError
from tapedebug.autograd.assertions import assert_gradients as assert_gradients
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct as DotProduct
from tapedebug.autograd.forward_mode import jvp as jvp
from tapedebug.autograd.gradcheck import gradcheck as gradcheck
from tapedebug.autograd.gradgradcheck import gradgradcheck as gradgradcheck
from tapedebug.autograd.hessian import HessianCheck as HessianCheck
from tapedebug.autograd.hessian import HessianProduct as HessianProduct
from tapedebug.autograd.hessian import hvp as hvp
from tapedebug.autograd.hessian import hvp_check as hvp_check
from tapedebug.autograd.jacobian import jacobian as jacobian
from tapedebug.autograd.jacobian import jacobian_fd as jacobian_fd
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

plot_kernel_jacobians = jacobian_plot  # its name in Warp's guide
