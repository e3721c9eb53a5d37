"""Arrays over the tensors of a module, whose gradients are `tensor.grad`."""

from __future__ import annotations

from types import ModuleType

from tapedebug.runtime import array
from tapedebug.runtime.memory.interop import over_tensor
from tapedebug.runtime.reverse.backward_pass import zero_gradient
from tapedebug.runtime.tape.gradient_history import catch_up
from tapedebug.runtime.tape.record import call_site
from tapedebug.runtime.tape.write_barrier import after_write, before_write
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
