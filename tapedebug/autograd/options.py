"""Options of `gradcheck`, `gradcheck_tape` and `assert_gradients` beyond those of Warp's API."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Literal

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.runtime.messages import user_stacklevel

ASKED_BY = {
    "tangent": {"check_forward_ad": True, "check_backward_ad": False},
    "batched adjoint": {"check_batched_grad": True},
    "batched tangent": {
        "check_forward_ad": True,
        "check_batched_forward_grad": True,
        "check_backward_ad": False,
    },
    "gradient dtype": {"check_grad_dtypes": True},
}
"""The arguments that request each optional `PairResult.check`."""

ReferenceKind = Literal["float64", "float32"]
Sample = Literal["random", "first"]


def positive(eps: float) -> None:
    """Check that a step is a positive number.

    Raises:
        GradcheckError: `eps` is not a positive number.
    """
    if not (is_number(eps) and 0 < eps < math.inf):
        raise GradcheckError(f"eps, the largest step, must be positive; got {eps!r}", hint="leave it at 1e-4")


def whole_number(caller: str, name: str, value: int) -> None:
    """Check that a limit is an integer.

    Raises:
        GradcheckError: `value` is no integer.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise GradcheckError(f"{caller}: {name} is an integer; got {value!r}", hint="-1 evaluates all")


def is_number(value: object) -> bool:
    """Return True if a value is a real number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class Options:
    """The options that `torch.autograd.gradcheck` has too, and ours; see `gradcheck` for each.

    Attributes:
        nondet_tol: Largest allowed difference of two runs on the same values.
        check_backward_ad: Check the adjoint.
        check_forward_ad: Check the tangent.
        check_batched_grad: Check that many seeds in one launch give the same results as single seeds.
        check_batched_forward_grad: The same for tangents.
        check_undefined_grad: Check that outputs without an adjoint count as having a zero one.
        check_grad_dtypes: Check that gradients have dtype and shape of their arrays.
        fast_mode: Compare random combinations only, not entries.
        masked: Leave out entries of the Jacobian outside of its traced sparsity.
        reference: "float64", the extrapolated differences of the float64 twin, or "float32", one central
            difference of the kernel as it is, at `eps`, as Warp's documentation describes.
        sample: Which scalars `max_inputs_per_var` and `max_outputs_per_var` leave: a fixed "random" sample
            with the first and the last, or the "first" ones.
    """

    nondet_tol: float = 0.0
    check_backward_ad: bool = True
    check_forward_ad: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_undefined_grad: bool = True
    check_grad_dtypes: bool = False
    fast_mode: bool = False
    masked: bool = False
    reference: ReferenceKind = "float64"
    sample: Sample = "random"

    def checked(self) -> Options:
        """Return these options if they are valid.

        Raises:
            GradcheckError: An option is invalid.
        """
        if not (is_number(self.nondet_tol) and self.nondet_tol >= 0):
            raise GradcheckError(f"nondet_tol must not be negative; got {self.nondet_tol!r}")
        if self.reference not in {"float64", "float32"}:
            raise GradcheckError(
                f"reference is 'float64' or 'float32'; got {self.reference!r}",
                hint="leave it at 'float64': float32 differences are right to a few digits only",
            )
        if self.sample not in {"random", "first"}:
            raise GradcheckError(
                f"sample is 'random' or 'first'; got {self.sample!r}",
                hint="leave it at 'random': the first entries all lie in one corner of an array",
            )
        if not (self.check_backward_ad or self.check_forward_ad):
            raise GradcheckError(
                "nothing is left to check: check_backward_ad and check_forward_ad are both False",
                hint="set one of them",
            )
        for option, needed in (
            ("check_batched_grad", "check_backward_ad"),
            ("check_batched_forward_grad", "check_forward_ad"),
        ):
            if getattr(self, option) and not getattr(self, needed):
                raise GradcheckError(
                    f"{option}=True asks for what {needed}=False leaves out", hint=f"pass {needed}=True too"
                )
        return self


def masked_of(masked: bool | None, check_sparse_nnz: bool | None) -> bool:
    """Return `masked`, also if it is given by its old name, `check_sparse_nnz`.

    Raises:
        GradcheckError: Both were given, and differ.
    """
    if check_sparse_nnz is None:
        return bool(masked)
    message = "check_sparse_nnz is deprecated: use masked instead"
    warnings.warn(message, DeprecationWarning, stacklevel=user_stacklevel())
    if masked is not None and bool(masked) != bool(check_sparse_nnz):
        raise GradcheckError(
            f"check_sparse_nnz={check_sparse_nnz!r} and masked={masked!r}: two names of one option differ",
            hint="pass masked alone",
        )
    return bool(check_sparse_nnz)
