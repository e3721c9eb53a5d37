"""`Launch`: a launch that is set up once and run many times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from tapedebug._errors import LaunchError, TapedebugError
from tapedebug.lang import types as t
from tapedebug.runtime.device import Device
from tapedebug.runtime.launch import adjoint_launch, argument_checks
from tapedebug.runtime.launch.launch import launch, launch_dims, resolve
from tapedebug.runtime.memory.factory import empty
from tapedebug.runtime.state import here, state


def _is_array(kind: Any) -> bool:
    return isinstance(kind, t.ArrayType | t.IndexedArrayType)


def _zero(kind: Any) -> Any:
    """The value of a type of which nothing is set."""
    return None if t.is_generic(kind) else kind(0) if t.is_compound(kind) else kind()


class Launch:
    """A kernel with changeable arguments; the result of `launch(…, record_cmd=True)`.

    Arguments are checked when they are set; those of arrays may be None until it runs. Each `launch()`
    behaves like `wp.launch`: an active tape records it. `Launch(kernel)` has no arrays yet, and zeros for
    numbers, vectors and structs.

    Args:
        kernel: The kernel.
        dim: The launch dimensions; None until `set_dim`, and so is a device (`Launch(kernel, "cpu")`).
        params: The arguments, in order.
        adj_params: With `adjoint`, their adjoints.
        adjoint: Run the kernel's adjoint.
        record_tape: False leaves the launch off tapes.

    Attributes:
        kernel: The kernel.
        dim: The launch dimensions.
        params: The arguments, in order.
        adjoint: True if it runs the kernel's adjoint.
    """

    def __init__(
        self,
        kernel: Any,
        dim: Any = None,
        params: Sequence[Any] | None = None,
        adj_params: Sequence[Any] = (),
        *,
        adjoint: bool = False,
        record_tape: bool = True,
    ) -> None:
        self.kernel = kernel
        self.adjoint = adjoint
        self.record_tape = record_tape
        self.adj_params: list[Any] = list(adj_params)
        self.params: list[Any] = []
        self.dim: tuple[int, ...] | None = None
        self._fill(self._zeros() if params is None else params)
        if isinstance(dim, str | Device):
            argument_checks.check_device(kernel, dim)
        elif dim is not None:
            self.set_dim(dim)

    def _zeros(self) -> list[Any]:
        """Arguments that are not set yet: None for arrays, else zeros."""
        return [None if _is_array(param.type) else _zero(param.type) for param in self.kernel.signature]

    def __repr__(self) -> str:
        return f"<launch of {self.kernel.key}, dim {self.dim}>"

    def _fill(self, values: Sequence[Any]) -> None:
        """Set all arguments after checking that they fit."""
        try:
            resolve(self.kernel, self._with_arrays(values))
        except TapedebugError as error:
            raise error.with_traceback(None) from None
        self.params = list(values)

    def _with_arrays(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with empty arrays for those that are None."""
        if all(value is not None for value in values):
            return tuple(values)
        kinds = [param.type for param in getattr(self.kernel, "signature", ())]
        return tuple(
            empty((0,) * kind.ndim, dtype=kind.dtype)
            if value is None and isinstance(kind, t.ArrayType) and not t.is_generic(kind)
            else value
            for value, kind in zip_longest(values, kinds[: len(values)])
        )

    def set_dim(self, dim: Any) -> None:
        """Set the launch dimensions.

        Raises:
            LaunchError: The dimensions are not one to four sizes of 0 or more.
        """
        self.dim = launch_dims(self.kernel, dim)[0]

    def set_params(self, values: Sequence[Any]) -> None:
        """Set all arguments.

        Raises:
            LaunchError: The arguments do not fit the kernel; the command keeps its previous ones.
        """
        self._fill(values)

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set one argument (with `adjoint`, its adjoint), counted from 0.

        Raises:
            LaunchError: There is no such parameter, or the value does not fit it.
        """
        count = len(self.params)
        if not -count <= index < count:
            raise LaunchError(
                f"launch of {self.kernel.key}: there is no parameter number {index}; it has {count}",
                hint=f"pass 0 to {count - 1}",
            )
        if adjoint:
            self.adj_params += [None] * (count - len(self.adj_params))
            self.adj_params[index] = value
            return
        values = list(self.params)
        values[index] = value
        self._fill(values)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Set the argument of the parameter `name` (with `adjoint`, its adjoint).

        Raises:
            LaunchError: There is no such parameter, or the value does not fit it.
        """
        names = [param.name for param in self.kernel.signature]
        if name not in names:
            raise LaunchError(
                f"launch of {self.kernel.key}: there is no parameter {name!r}",
                hint=f"its parameters are {', '.join(names)}",
            )
        self.set_param_at_index(names.index(name), value, adjoint)

    def launch(self, stream: Any = None) -> None:
        """Run the command. An active tape records it; Warp's tape does not.

        Args:
            stream: Accepted and ignored on the CPU.
        """
        if self.dim is None:
            raise LaunchError(
                f"launch of {self.kernel.key}: its dimensions are not set",
                hint="call set_dim() before launch()",
            )
        if self.adjoint:
            adjoint_launch.run(self.kernel, self.dim, tuple(self.params), (), tuple(self.adj_params))
        else:
            tape = here.thread.tape
            before = 0 if tape is None else len(tape.records)
            launch(self.kernel, self.dim, self.params, record_tape=self.record_tape)
            if state.foreign is not None and tape is not None:
                state.foreign.note_command(tape.records[before:])
