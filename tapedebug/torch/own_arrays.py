"""Arrays of this engine as arguments of PyTorch functions, and their calls on its tapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tapedebug._float_types import is_float
from tapedebug.contract import LibraryAdjoint
from tapedebug.lang import types
from tapedebug.runtime import array, zeros
from tapedebug.runtime.launch.launch_python import run_operation
from tapedebug.runtime.launch.python_operation import Float32OnlyError, PythonOperation
from tapedebug.runtime.memory.interop import over_tensor
from tapedebug.runtime.reverse.backward_pass import zero_gradient
from tapedebug.runtime.state import here, refuse_at_another_time
from tapedebug.runtime.tape.gradient_history import catch_up
from tapedebug.runtime.tape.record import call_site
from tapedebug.runtime.tape.write_barrier import after_write, before_write
from tapedebug.torch.call import NotInFloat64Error, TorchCall, Values
from tapedebug.torch.state import State


class StateArray:
    """An array over the memory of a tensor, and the link between the gradients of the two.

    PyTorch's optimizers set `tensor.grad` to None, or to another tensor. So the gradient is linked whenever
    a tape records the tensor, and before each reverse pass.

    Args:
        torch: The module `torch`.
        state: The tensor.

    Attributes:
        array: The array.
    """

    def __init__(self, torch: ModuleType, state: State) -> None:
        self.torch, self.state = torch, state
        tensor = state.tensor.detach()
        self.array: array = over_tensor(tensor.reshape(1) if tensor.ndim == 0 else tensor, None)
        self._address = tensor.data_ptr()
        if state.has_gradient:
            self.array.requires_grad = True

    @property
    def holds(self) -> bool:
        """True if the tensor still has the memory, shape and gradient that the array was made for."""
        tensor = self.state.tensor
        return bool(
            tensor.data_ptr() == self._address
            and (tuple(tensor.shape) or (1,)) == self.array.shape
            and self.state.has_gradient == self.array.requires_grad
        )

    def link(self) -> None:
        """Let `tensor.grad` be the gradient of the array; one that was set to None counts as zero."""
        if not self.array.requires_grad:
            return
        own, tensor = self.array.grad, self.state.tensor
        assert own is not None
        catch_up(self.array)  # an optimizer's update comes before what is noted from here on
        theirs = tensor.grad
        if theirs is not None and theirs.data_ptr() == own.ptr and theirs.stride() == self._strides(own):
            return
        if theirs is None:
            zero_gradient(self.array, call_site())
        else:
            before_write(own, call_site(), "assign")
            own._numpy_view()[...] = theirs.detach().reshape(own.shape).numpy()
            after_write(own)
        tensor.grad = self.torch.from_numpy(own.numpy()).reshape(tensor.shape)

    def _strides(self, own: array) -> tuple[int, ...]:
        size = own.scalar_dtype.itemsize
        return tuple(s // size for s in own.strides) if self.state.tensor.ndim else ()


class OwnArrays:
    """This engine's arrays, for `TorchFunction`.

    Args:
        torch: The module `torch`.
    """

    keeps_values = False
    """True if the call must store the values that it reads: this engine's tape does."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch

    def refuse(self, name: str) -> None:
        """Refuse a call while arrays hold the values of an earlier moment."""
        refuse_at_another_time(f"torch.function of {name}")

    def obstacle(self, a: array) -> tuple[str, str] | None:
        """Return why an array cannot be an argument, and a hint; None if it can."""
        if types.is_struct(a.dtype):
            return "is an array of structs, which have no tensor", "pass a field of it, such as a['x']"
        return None

    def values(self, a: array) -> Values:
        """Return a copy of the values of an array."""
        return a._numpy_view().copy()

    def state(self, state: State) -> StateArray:
        """Return an array over a tensor."""
        return StateArray(self._torch, state)

    def new(self, values: Values, requires_grad: bool) -> array:
        """Return a new array with the shape and type of values."""
        wanted = requires_grad and is_float(values.dtype)
        return zeros(values.shape, dtype=types.from_numpy(values.dtype), requires_grad=wanted)

    def record(
        self,
        call: TorchCall,
        reads: Sequence[array],
        states: Sequence[StateArray],
        writes: Sequence[array],
        ran: tuple[Sequence[Values], float],
        names: Sequence[str],
        labels: Sequence[str],
        library: LibraryAdjoint,
    ) -> None:
        """Write the results of a call that has run, and record it on the active tape.

        Args:
            call: The call.
            reads: The arrays that it read: arguments, then those over tensors.
            states: The arrays over tensors.
            writes: The arrays for its results, and those of the buffers that it changes.
            ran: The results, and the seconds that it took.
            names: The names of `reads` and `writes`, in this order.
            labels: The names of the tensors in the program.
            library: The capability `contract.LibraryAdjoint`.

        Raises:
            LaunchError: A result does not fit the array that it is written to.
        """
        operation = PythonOperation(
            _Forward(call),
            _Repeated(call.backward),
            _Repeated(call.jvp),
            call.name,
            reads,
            writes,
            names,
            "torch.function",
            library,
        )
        tape = here.thread.tape
        if tape is not None:
            for state, label in zip(states, labels, strict=True):
                tape.name_array(state.array, label)
                state.link()
                if state.array.requires_grad:
                    tape.before_backward[state.link] = None  # once, however often it is called
        run_operation(operation, call_site(), ran)


class _Repeated:
    """A function of a call; what it cannot do in float64 is an error that the engine knows."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def __call__(self, *values: object) -> Any:
        try:
            return self._run(*values)
        except NotInFloat64Error as error:
            raise Float32OnlyError(str(error)) from None


class _Forward(_Repeated):
    """The function itself, whose source is that of the user's function."""

    def __init__(self, call: TorchCall) -> None:
        super().__init__(call.forward)
        self.__wrapped__ = call.shown
