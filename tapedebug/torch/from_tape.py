"""`torch.from_tape`: a function that launches kernels, as a function of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, update_wrapper
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

from tapedebug._errors import LaunchError
from tapedebug.runtime import array, clone, to_torch
from tapedebug.runtime.launch.python_operation import not_recording
from tapedebug.runtime.memory.interop import over_tensor
from tapedebug.runtime.tape.recorded_call import ArrayFunction, RecordedCall
from tapedebug.torch.library import load_torch, skip_compilation, uncompiled

if TYPE_CHECKING:
    from torch import Tensor
    from torch._functorch.autograd_function import VmapInfo
    from torch.autograd.function import FunctionCtx

CALLER = "tapedebug.torch.from_tape"
Dims = Sequence[int | None]
"""For each argument the dimension that is mapped; None if it is the same in all rows."""


@overload
def from_tape(function: Callable[..., Any], *, name: str | None = None) -> TapeFunction: ...
@overload
def from_tape(*, name: str | None = None) -> Callable[[Callable[..., Any]], TapeFunction]: ...
def from_tape(
    function: Callable[..., Any] | None = None, *, name: str | None = None
) -> TapeFunction | Callable[[Callable[..., Any]], TapeFunction]:
    """Return a function that launches kernels as one of tensors, which `torch.autograd` differentiates.

    It can be used as a decorator. The function gets an array for each tensor, and returns an array or a tuple
    of arrays; each call is recorded on a tape of its own. An annotation such as
    `points: wp.array(dtype=wp.vec3)` makes a tensor of shape (n, 3) an array of n vectors.

    The arrays are copies: the function may overwrite them, and tensors may change before `backward` runs.
    `backward` may run several times, and gradients of earlier runs stay as they are. There is no second
    derivative. `torch.func.vmap` runs row by row. `torch.compile` leaves the call out of its graphs.

    Args:
        function: The function.
        name: The name in messages; by default that of the function.

    Raises:
        TapedebugError: PyTorch is not installed.
        LaunchError: `function` cannot be called.
    """
    skip_compilation(load_torch(CALLER), TapeFunction.__call__)
    if function is None:
        return lambda function: from_tape(function, name=name)
    if not callable(function):
        raise LaunchError(f"torch.from_tape: {function!r} cannot be called", hint="pass a function")
    return TapeFunction(function, name or getattr(function, "__name__", None) or type(function).__name__)


class TapeFunction(ArrayFunction):
    """A function that launches kernels, as one of tensors; see `from_tape`.

    Args:
        function: The function of arrays.
        name: Its name in messages.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(function, name, "torch.from_tape")
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<tapedebug.torch.from_tape of {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function on arrays with the values of the tensors.

        Args:
            args: Tensors on the CPU, which the function gets as arrays, and other objects, which it gets
                unchanged. A tensor without dimensions becomes an array of one element.
            kwargs: Keyword arguments, likewise.

        Returns:
            A tensor for the array that the function returned, or a tuple of tensors.

        Raises:
            LaunchError: A tensor is not on the CPU; the function returned something else than arrays, or an
                array of floats without `requires_grad` although a gradient of an input is wanted.
        """
        return uncompiled(self._run)(args, kwargs)

    def _run(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        torch = load_torch(CALLER)
        values = (*args, *kwargs.values())
        recorded = torch.is_grad_enabled()
        wanted = [bool(recorded and isinstance(v, torch.Tensor) and v.requires_grad) for v in values]
        try:
            *found, run = _function_class().apply(self, tuple(kwargs), wanted, *values)
        except LaunchError as error:
            raise error.with_traceback(None) from None
        return found[0] if run.single else tuple(found)


class Run:
    """One call with tensors.

    Args:
        torch: The module `torch`.
        owner: The function.
        keys: The names of the last values, which are passed by keyword.
        wanted: For each value, True if its gradient is wanted.
        values: The tensors and other arguments.

    Attributes:
        owner: The function.
        wanted: For each value, True if its gradient is wanted.
    """

    def __init__(
        self,
        torch: ModuleType,
        owner: TapeFunction,
        keys: Sequence[str],
        wanted: Sequence[bool],
        values: Sequence[object],
    ) -> None:
        self.torch, self.owner, self.wanted = torch, owner, wanted
        names = owner.names(len(values), keys)
        given = [
            self._array(value, name, needed) if isinstance(value, torch.Tensor) else value
            for value, name, needed in zip(values, names, wanted, strict=True)
        ]
        self._inputs = [
            (a, tuple(value.shape))
            for a, value, needed in zip(given, values, wanted, strict=True)
            if needed and isinstance(value, torch.Tensor) and isinstance(a, array)
        ]
        self._call = RecordedCall(owner, given, keys, differentiable=any(wanted))
        self.single = self._call.single

    def _array(self, tensor: Tensor, name: str, wanted: bool) -> array:
        torch = self.torch
        if tensor.device.type != "cpu":
            raise self.owner.error(
                f"{name} is on {tensor.device}, and kernels run on the CPU", f"pass {name}.cpu()"
            )
        if tensor.layout != torch.strided:
            raise self.owner.error(f"{name} is a tensor of layout {tensor.layout}", f"pass {name}.to_dense()")
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        plain = plain.reshape(1) if plain.ndim == 0 else plain
        with not_recording():
            return clone(over_tensor(plain, self.owner.dtype(name), private=True), requires_grad=wanted)

    def tensors(self) -> list[Tensor]:
        """Return copies of the results."""
        return [to_torch(a, requires_grad=False).clone() for a in self._call.outputs]

    def pull(self, adjoints: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the adjoints of the inputs of which a gradient is wanted, in memory of their own."""
        with not_recording():
            seeds = [
                None
                if adjoint is None
                else clone(over_tensor(adjoint.detach().contiguous(), a.dtype, private=True))
                for a, adjoint in zip(self._call.outputs, adjoints, strict=True)
            ]
            self._call.pull(seeds)
        return [
            to_torch(a.grad, requires_grad=False).clone().reshape(shape)
            for a, shape in self._inputs
            if a.grad is not None
        ]


class RunBatch:
    """The runs of the rows of `torch.func.vmap`."""

    def __init__(self, rows: Sequence[Run]) -> None:
        self.rows = rows
        self.owner, self.wanted, self.single = rows[0].owner, rows[0].wanted, rows[0].single


def _row(values: Sequence[Any], dims: Dims, row: int) -> list[Any]:
    """Return the values of one row of a batch."""
    return [v if dim is None else v.select(dim, row) for v, dim in zip(values, dims, strict=True)]


@cache
def _function_class() -> Any:
    """Return the `torch.autograd.Function`, made on first use."""
    torch = load_torch(CALLER)
    Function: Any = torch.autograd.Function

    class Adjoint(Function):  # type: ignore[misc]
        """The reverse pass of a run. It has no derivative: an error instead of zeros."""

        @staticmethod
        def forward(run: Run, given: Sequence[bool], *tensors: Tensor) -> tuple[Tensor, ...]:
            left = iter(tensors)
            return tuple(uncompiled(run.pull)([next(left) if there else None for there in given]))

        @staticmethod
        def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: object) -> None:
            ctx.name = inputs[0].owner.name

        @staticmethod
        def backward(ctx: FunctionCtx, *adjoints: Tensor) -> None:
            raise NotImplementedError(
                f"torch.from_tape of {ctx.name} has no second derivative (create_graph=True)"
            )

        @staticmethod
        def vmap(
            info: VmapInfo, in_dims: Dims, run: Run | RunBatch, given: Sequence[bool], *tensors: Tensor
        ) -> Any:
            rows = [
                Adjoint.apply(
                    run.rows[row] if isinstance(run, RunBatch) else run,
                    given,
                    *_row(tensors, in_dims[2:], row),
                )
                for row in range(info.batch_size)
            ]
            stacked = tuple(torch.stack(several) for several in zip(*rows, strict=True))
            return stacked, tuple(0 for _ in stacked)

    class Launches(Function):  # type: ignore[misc]
        """A run of a function of arrays, with a tape for the gradient."""

        @staticmethod
        def forward(
            owner: TapeFunction, keys: Sequence[str], wanted: Sequence[bool], *values: object
        ) -> tuple[Any, ...]:
            run = Run(torch, owner, keys, wanted, values)
            return (*run.tensors(), run)

        @staticmethod
        def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            ctx.run = output[-1]
            ctx.set_materialize_grads(False)
            plain = [t for t in output[:-1] if not t.is_floating_point()]
            if plain:
                ctx.mark_non_differentiable(*plain)
            ctx.save_for_backward(*(v for v in inputs[3:] if isinstance(v, torch.Tensor)))

        @staticmethod
        def backward(ctx: FunctionCtx, *adjoints: Tensor | None) -> tuple[Any, ...]:
            run, given = ctx.run, [t is not None for t in adjoints[:-1]]
            # The inputs lead a second derivative here, where it is refused. Otherwise they are not looked at:
            # they may have changed in place.
            inputs = ctx.saved_tensors if torch.is_grad_enabled() else ()
            seeds = [t for t in adjoints[:-1] if t is not None]
            found = iter(Adjoint.apply(run, given, *seeds, *inputs))
            return (None, None, None, *(next(found) if wanted else None for wanted in run.wanted))

        @staticmethod
        def vmap(
            info: VmapInfo,
            in_dims: Dims,
            owner: TapeFunction,
            keys: Sequence[str],
            wanted: Sequence[bool],
            *values: object,
        ) -> Any:
            rows = [
                Launches.apply(owner, keys, wanted, *_row(values, in_dims[3:], row))
                for row in range(info.batch_size)
            ]
            *tensors, runs = zip(*rows, strict=True)
            stacked = [torch.stack(several) for several in tensors]
            return (*stacked, RunBatch(runs)), (*(0 for _ in stacked), None)

    return Launches
