"""Arrays of NVIDIA Warp as arguments of PyTorch functions, and their calls on Warp's tapes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.contract import LibraryAdjoint
from tapedebug.operations import ReplayableFunction
from tapedebug.torch.call import TorchCall, Values
from tapedebug.torch.state import State

WarpArray: TypeAlias = Any
"""An object of class `warp.array`, of NVIDIA Warp."""


def installed_warp() -> ModuleType | None:
    """Return NVIDIA Warp if the program has imported it."""
    warp = sys.modules.get("warp")
    return warp if warp is not None and hasattr(warp, "config") and _runtime(warp) is not None else None


def _runtime(warp: ModuleType) -> Any:
    """Return Warp's runtime, which knows the tape that records."""
    for name in ("warp._src.context", "warp.context"):
        found = getattr(sys.modules.get(name), "runtime", None)
        if found is not None:
            return found
    return None


class WarpState:
    """An array of Warp over the memory of a tensor, and the link between the gradients of the two.

    Args:
        warp: The module `warp`.
        torch: The module `torch`.
        state: The tensor.

    Attributes:
        array: The array.
    """

    def __init__(self, warp: ModuleType, torch: ModuleType, state: State) -> None:
        self.warp, self.torch, self.state = warp, torch, state
        tensor = state.tensor.detach()
        self._address = tensor.data_ptr()
        self.array: WarpArray = warp.from_torch(
            tensor.reshape(1) if tensor.ndim == 0 else tensor, requires_grad=False
        )
        if state.has_gradient:
            self.array.requires_grad = True

    @property
    def holds(self) -> bool:
        """True if the tensor still has the memory and gradient that the array was made for."""
        tensor = self.state.tensor
        return bool(
            tensor.data_ptr() == self._address and self.state.has_gradient == self.array.requires_grad
        )

    def link(self) -> None:
        """Let `tensor.grad` be the gradient of the array; one that was set to None counts as zero."""
        if not self.array.requires_grad:
            return
        own, tensor = self.array.grad, self.state.tensor
        if tensor.grad is not None and tensor.grad.data_ptr() == own.ptr:
            return
        if tensor.grad is None:
            own.zero_()
        else:
            own.numpy()[...] = tensor.grad.detach().reshape(own.shape).numpy()
        tensor.grad = self.torch.from_numpy(own.numpy()).reshape(tensor.shape)


class WarpArrays:
    """Arrays of NVIDIA Warp, for `TorchFunction`.

    Args:
        torch: The module `torch`.
        warp: The module `warp`.
    """

    keeps_values = True
    """True if the call must store the values that it reads: Warp's tape does not."""

    def __init__(self, torch: ModuleType, warp: ModuleType) -> None:
        self._torch, self._warp = torch, warp

    def refuse(self, name: str) -> None:
        """Do nothing: arrays of Warp hold the values of now."""

    def obstacle(self, a: WarpArray) -> tuple[str, str] | None:
        """Return why an array cannot be an argument, and a hint; None if it can."""
        if not a.device.is_cpu:
            return f"is on {a.device}, and torch.function runs on the CPU", "pass array.to('cpu')"
        if hasattr(a.dtype, "vars"):
            return "is an array of structs, which have no tensor", "pass an array of numbers or vectors"
        return None

    def values(self, a: WarpArray) -> Values:
        """Return a copy of the values of an array."""
        return np.array(a.numpy())

    def state(self, state: State) -> WarpState:
        """Return an array over a tensor."""
        return WarpState(self._warp, self._torch, state)

    def new(self, values: Values, requires_grad: bool) -> WarpArray:
        """Return a new array with the shape and type of values."""
        return self._warp.zeros(
            values.shape,
            dtype=self._warp.dtype_from_numpy(values.dtype),
            requires_grad=requires_grad and is_float(values.dtype),
            device="cpu",
        )

    def record(
        self,
        call: TorchCall,
        reads: Sequence[WarpArray],
        states: Sequence[WarpState],
        writes: Sequence[WarpArray],
        ran: tuple[Sequence[Values], float],
        names: Sequence[str],
        labels: Sequence[str],
        library: LibraryAdjoint,
    ) -> None:
        """Write the results of a call that has run, and put its reverse on Warp's tape.

        Arguments as for `OwnArrays.record`.

        Raises:
            LaunchError: A result does not fit the array that it is written to.
        """
        for a, values, name in zip(writes, ran[0], names[len(reads) :], strict=True):
            own = a.numpy()
            if own.shape != values.shape or not np.can_cast(values.dtype, own.dtype, "same_kind"):
                raise call.error(
                    f"it returned {values.dtype} of shape {values.shape} for {name}, which holds "
                    f"{own.dtype} of shape {own.shape}",
                    "pass an array that fits as out, or leave it out",
                )

        def write() -> None:
            for a, values in zip(writes, ran[0], strict=True):
                a.numpy()[...] = values

        def reverse() -> None:
            for state in states:
                state.link()
            arriving = []
            for a in writes:
                gradient = a.grad.numpy() if a.requires_grad else np.zeros_like(a.numpy())
                arriving.append(gradient.copy())
                gradient[...] = 0
            for a, adjoint in zip(reads, call.backward(call.given, arriving), strict=True):
                if adjoint is not None and a.requires_grad:
                    a.grad.numpy()[...] += adjoint

        function = ReplayableFunction(
            call.name,
            call.forward,
            call.backward,
            reads,
            writes,
            names,
            write,
            reverse,
            call.shown,
            library,
            [(state.array, label) for state, label in zip(states, labels, strict=True)],
        )
        tape = _runtime(self._warp).tape
        if tape is not None:
            for state in states:
                state.link()
            with_gradient = [a for a in dict.fromkeys([*reads, *writes]) if a.requires_grad]
            tape.record_func(function, with_gradient)
        function.run()
