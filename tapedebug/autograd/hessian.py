"""Computes the Hessian of a loss times a vector, by the tangent of the reverse pass, and checks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._display import renderer
from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug.autograd.array_types import DeviceLike, EngineArray, Floats, LaunchDim, Loss, Values
from tapedebug.autograd.finite_diff.richardson import slope
from tapedebug.autograd.finite_diff.verdict import Verdict
from tapedebug.autograd.forward_mode import require_floats
from tapedebug.autograd.subjects.pairs import obstacle
from tapedebug.autograd.subjects.probes import entry_scales, random_directions
from tapedebug.autograd.subjects.struct_fields import arrays_in
from tapedebug.autograd.subjects.subject import function_subject
from tapedebug.autograd.subjects.whole_tape import Names, leaves, not_an_input
from tapedebug.autograd.thresholds import HESSIAN_AGREES, HESSIAN_ASYMMETRY
from tapedebug.compiler.kernel import Kernel
from tapedebug.contract import RecordedTape, SecondOrder, SecondOrderReplay, is_array, is_recorded_tape
from tapedebug.lang.types import float64
from tapedebug.runtime.device import get_device
from tapedebug.runtime.memory.struct_fields import by_field
from tapedebug.runtime.replay.second_order import SecondShadow
from tapedebug.runtime.replay.shadow_memory import is_double

Arrays = Mapping[Any, Any]

EPS = 1e-3  # the largest step, relative to the size of the inputs


class HessianProduct(NamedTuple):
    """The gradient of each input, and its part of the product of the Hessian with `v`."""

    gradient: dict[Any, Values]
    product: dict[Any, Values]


@dataclass(frozen=True)
class HessianCheck:
    """A check of second derivatives, in float64; true if they agree.

    Attributes:
        forward, reverse: ⟨u, H v⟩ and ⟨v, H u⟩ for random directions u and v: one number, as H is symmetric.
        fd, bar: ⟨u, (∇L(x + h v) − ∇L(x − h v)) / 2h⟩, extrapolated to h = 0, and its error bar.
        verdict: `"AGREE"`, `"WRONG"`, `"KINK"` (the gradient jumps here) or `"UNDECIDABLE"`.
        message: The numbers in a sentence.
    """

    forward: float
    reverse: float
    fd: float
    bar: float
    verdict: Verdict
    message: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return the MIME bundle for a notebook."""
        return renderer().static(self)

    def __bool__(self) -> bool:
        return self.verdict == "AGREE"

    def __str__(self) -> str:
        return self.message


@preserve_process_state
def hvp(
    function: RecordedTape | Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    loss: Loss | None = None,
    tangents: Arrays | None = None,
    *,
    dtype: type | None = None,
    device: DeviceLike | None = None,
) -> HessianProduct:
    """Return the gradient of a loss and the product `H v` of its Hessian with `v`, by one sweep each way.

    The reverse pass is differentiated itself: each kernel's adjoint is compiled into its tangent, so that
    there is no step size. Everything runs on private copies, as for `jvp`. Derivatives stop where gradients
    do, at arrays without `requires_grad`. Where the loss has a kink (`abs` at 0, a branch), derivatives are
    those of the side that was taken.

    Args:
        function: A tape, a kernel, or a Python function that takes arrays and returns the loss.
        dim: Number of threads of the launch; for kernels only.
        inputs: Arguments of the kernel or function; of a tape, further arrays to give results for.
        outputs: The kernel's further arguments.
        loss: The array with one element whose Hessian is computed, or a mapping from arrays to weights, for
            the Hessian of the weighted sum. Not for functions, which return it.
        tangents: Array → its part of `v`, of the array's shape with components last; others have none.
        dtype: `float64` runs the float64 twins of the kernels.
        device: The device to run on.

    Returns:
        Gradient and product, each a dictionary from arrays to values of the array's shape with components
        last: for the arrays of `tangents` and the `inputs` with `requires_grad`.

    Raises:
        GradcheckError: No tangents or no loss were given, an array has no `requires_grad` or is no input, or
            a part of the tape has no derivative (a function of `record_func`, `enable_backward=False`).
        TapeError: An array is not on the tape, or values have another shape.
        LaunchError: The arguments do not fit the kernel.
    """
    if not tangents:
        raise GradcheckError("hvp: no tangents were given", hint="pass tangents={array: values}")
    tangents = dict(by_field(tangents, "hvp: the tangent"))
    require_floats("hvp: the keys of tangents", tangents)
    program = _program("hvp", function, dim, inputs, outputs, loss, device)
    program.require(tangents)
    shadow = program.make(dtype)
    targets = list(dict.fromkeys([*tangents, *program.inputs]))
    return program.product(
        shadow, {a: v.current() if is_array(v) else v for a, v in tangents.items()}, targets
    )


@preserve_process_state
def hvp_check(
    function: RecordedTape | Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    loss: Loss | None = None,
    *,
    device: DeviceLike | None = None,
) -> HessianCheck:
    """Check second derivatives: that the Hessian is symmetric, and that it is the derivative of the gradient.

    Args:
        function: As for `hvp`.
        dim: As for `hvp`.
        inputs: As for `hvp`; of a tape, the arrays by which it is differentiated (by default all that have a
            gradient and are read before they are written).
        outputs: As for `hvp`.
        loss: As for `hvp`.
        device: As for `hvp`.

    Raises:
        GradcheckError, TapeError, LaunchError: As for `hvp`.
    """
    program = _program("hvp_check", function, dim, inputs, outputs, loss, device)
    if not program.inputs:
        raise GradcheckError(
            "hvp_check: there is nothing to differentiate by", hint="pass inputs with requires_grad=True"
        )
    program.require(program.inputs)
    return _Check(program).result()


class _Program:
    """A tape or launch with a scalar objective.

    Attributes:
        make: Returns a new replay before its first record.
        seeds: The adjoints that the reverse pass starts from.
        inputs: The arrays with a gradient that were passed to it.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Any], SecondOrderReplay],
        seeds: Arrays,
        inputs: Sequence[Any],
        tape: RecordedTape | None = None,
    ) -> None:
        self.name, self.make, self.tape = name, make, tape
        self.seeds, self.inputs = dict(seeds), list(inputs)
        reasons = make(None).uncovered
        if reasons:
            raise GradcheckError(
                f"{name}: {reasons[0]}: its second derivative is unknown",
                hint="compute in kernels with an adjoint what depends on the inputs",
            )

    def require(self, arrays: Iterable[EngineArray]) -> None:
        """Check that arrays are inputs with a gradient."""
        names = Names(self.tape) if self.tape is not None else None
        for array in arrays:
            name = names.of(array) if names is not None else f"the array of {array.dtype.__name__}"
            reason = obstacle(name, array)
            if reason is None and self.tape is not None:
                reason = not_an_input(self.tape, name, array)
            if reason is not None:
                raise GradcheckError(f"{self.name}: {reason}", hint="pass inputs with requires_grad=True")

    def product(self, shadow: SecondOrderReplay, tangents: Arrays, targets: Sequence[Any]) -> HessianProduct:
        """Return the gradient and the product, for the targets."""
        with np.errstate(all="ignore"):
            shadow.push(tangents, detached=True)
            shadow.pull(self.seeds)
        return HessianProduct(
            {a: shadow.gradient(a) for a in targets}, {a: shadow.gradient_tangent(a) for a in targets}
        )


def _program(
    name: str,
    function: object,
    dim: LaunchDim | None,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    loss: Loss | None,
    device: DeviceLike,
) -> _Program:
    get_device(device)
    given = list(inputs or ())
    if is_recorded_tape(function):
        chosen = given or (leaves(function) if name == "hvp_check" else [])
        return _Program(name, _of_tape(name, function), _seeds(name, loss), chosen, function)
    if isinstance(function, Kernel):
        if dim is None:
            raise GradcheckError(
                f"kernel {function.key} needs dim, its number of threads",
                hint="pass dim=len(array), or its shape",
            )
        args = [*given, *(outputs or ())]
        return _Program(
            name,
            lambda dtype: SecondShadow.for_launch(function, dim, args, dtype=dtype),
            _seeds(name, loss),
            _with_gradient(given),
        )
    if not callable(function):
        raise GradcheckError(
            f"{name}: a tape, a kernel or a function that launches kernels is needed; "
            f"got {function!r} ({type(function).__name__})"
        )
    if loss is not None:
        raise GradcheckError(f"{name}: a function returns its loss", hint="leave loss out")
    subject = function_subject(function, given, outputs, None)
    losses = [target.array for target in subject.program.outputs]
    if len(losses) != 1:
        raise GradcheckError(
            f"{name}: the function returns {len(losses)} arrays with a gradient",
            hint="let it return the loss, an array of one element with requires_grad=True",
        )
    assert subject.tape is not None, "a function records one"
    return _Program(name, _of_tape(name, subject.tape), _seeds(name, losses[0]), _with_gradient(given))


def _with_gradient(given: Sequence[Any]) -> list[Any]:
    return [a for a in arrays_in(list(given)) if is_array(a) and obstacle("", a) is None]


def _of_tape(name: str, tape: RecordedTape) -> Callable[[Any], SecondOrderReplay]:
    second = tape.capability(SecondOrder)
    if second is None:
        raise GradcheckError(
            f"{name}: {tape.engine.name} has no second derivatives",
            hint="check its first derivatives: end_to_end(tape)",
        )
    return lambda dtype: second.second_order_replay(float64=is_double(dtype))


def _seeds(name: str, loss: Loss | None) -> Arrays:
    if loss is None:
        raise GradcheckError(f"{name}: no loss was given", hint="pass loss=array, as to Tape.backward")
    weights = {loss: None} if is_array(loss) else loss
    if not isinstance(weights, Mapping) or not weights:
        raise GradcheckError(
            f"{name}: the loss is an array of one element, or arrays with weights; got {loss!r}",
            hint="pass loss=array, or loss={array: weights}",
        )
    require_floats(f"{name}: the loss and the keys of its weights", weights)
    if is_array(loss) and loss.size != 1:
        raise GradcheckError(
            f"{name}: the loss has {loss.size} elements", hint="pass loss={array: weights} for a weighted sum"
        )
    seeds = {}
    for array, weight in weights.items():
        reason = obstacle("the loss", array)
        if reason is not None:
            raise GradcheckError(f"{name}: {reason}", hint="create it with requires_grad=True")
        seeds[array] = np.ones_like(array.current()) if weight is None else weight
    return seeds


class _Check:
    def __init__(self, program: _Program) -> None:
        self.program = program
        self.shadow = program.make(float64)
        self.values = {a: self.shadow.values(a) for a in program.inputs}
        self.u, self.v = self._direction(0), self._direction(1)

    def _direction(self, which: int) -> dict[Any, Floats]:
        """Return a random direction, of the size of the inputs."""
        found = {}
        for a, values in self.values.items():
            directions = random_directions(values.size, 2, entry_scales(values).ravel())
            found[a] = directions[which].reshape(values.shape)
        return found

    def _gradient(self, step: float) -> Floats:
        """Return ⟨u, ∇L(x + step · v)⟩."""
        shadow = self.shadow.forward(0, 0)
        for a, values in self.values.items():
            shadow.set(a, values + step * self.v[a])
        shadow.forward(0).backward(self.program.seeds)
        return np.array([_inner({a: shadow.gradient(a) for a in self.u}, self.u)])

    def result(self) -> HessianCheck:
        program = self.program
        along_v = program.product(self.shadow, self.v, program.inputs).product
        along_u = program.product(self.shadow, self.u, program.inputs).product
        forward, reverse = _inner(along_v, self.u), _inner(along_u, self.v)
        size = sum(float(np.abs(along_v[a] * self.u[a]).sum()) for a in self.u)
        allowed = HESSIAN_AGREES * size + 1e-12 * float(abs(self._gradient(0.0)[0]))
        fine = np.array([0.1 * allowed])
        with np.errstate(all="ignore"):
            found = slope(self._gradient, self._gradient(0.0), eps=EPS, magnitude=1.0, enough=lambda s: fine)
        fd, bar = float(found.value[0]), float(found.bar[0])
        verdict: Verdict
        if not abs(forward - reverse) <= HESSIAN_ASYMMETRY * size:
            verdict = "WRONG"
        elif bool(found.kink[0]):
            verdict = "KINK"
        elif abs(forward - fd) <= allowed + bar and bar <= 100 * allowed:
            verdict = "AGREE"
        else:
            verdict = "WRONG" if np.isfinite(bar) and bar <= abs(forward - fd) else "UNDECIDABLE"
        message = (
            f"second derivatives {verdict}: ⟨u, H v⟩ = {forward:.9g}, ⟨v, H u⟩ = {reverse:.9g}, "
            f"differences of the gradient give {fd:.9g} ± {bar:.1g}"
        )
        return HessianCheck(forward, reverse, fd, bar, verdict, message)


def _inner(a: Mapping[Any, Values], b: Mapping[Any, Values]) -> float:
    return float(sum((a[k] * b[k]).sum() for k in b))
