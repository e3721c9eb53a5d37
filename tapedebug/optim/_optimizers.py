"""Gradient descent with momentum, and Adam.

A step writes the parameters like `assign`. It belongs outside `with tape:`; live tapes preserve the previous
values that they still need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.gradient_history import note_read

Values = np.ndarray[Any, Any]


class _Optimizer:
    """The base class of optimisers: parameters and a count of steps.

    Attributes:
        params: The arrays that `step` changes, or None until they are set.
        t: Number of steps taken.
    """

    params: list[array] | None
    t: int

    def __init__(self, params: Sequence[array] | None) -> None:
        self.params = None
        self.t = 0
        self.set_params(params)

    def set_params(self, params: Sequence[array] | None) -> None:
        """Set the arrays to change, and discard the state of earlier ones.

        Raises:
            ArrayError: `params` is not a list of arrays of floats.
        """
        if params is not None:
            if isinstance(params, array) or not all(isinstance(p, array) for p in params):
                raise ArrayError(
                    f"{type(self).__name__}: params must be a list of arrays; got {params!r}",
                    hint="pass [array, …]",
                )
            for i, p in enumerate(params):
                if types.is_struct(p.dtype):
                    raise ArrayError(
                        f"{type(self).__name__}: parameter {i} is an array{p._facts()}, of structs",
                        hint="pass its fields: array['name'], …",
                    )
                if not types.is_float(p.dtype):
                    raise ArrayError(
                        f"{type(self).__name__}: parameter {i} is an array{p._facts()}, which has no slope",
                        hint="use a float dtype",
                    )
            params = list(params)
        self.params = params
        self.reset_internal_state()

    def reset_internal_state(self) -> None:
        """Reset the count of steps."""
        self.t = 0

    def step(self, grad: Sequence[array]) -> None:
        """Update the parameters.

        Args:
            grad: The gradient of each parameter, of the same shape and dtype.

        Raises:
            ArrayError: There are no parameters, or the gradients do not fit them.
        """
        name = type(self).__name__
        if self.params is None:
            raise ArrayError(f"{name}.step: no parameters are set", hint="call set_params([array, …])")
        if not isinstance(grad, Sequence):
            raise ArrayError(
                f"{name}.step: grad must be a list of gradients; got {grad!r}",
                hint="pass [parameter.grad, …]",
            )
        if len(grad) != len(self.params):
            raise ArrayError(
                f"{name}.step: {len(self.params)} parameters and {len(grad)} gradients",
                hint="pass one gradient for each parameter",
            )
        for i, (p, g) in enumerate(zip(self.params, grad, strict=True)):
            seen: Any = g
            if not isinstance(seen, array) or (g.shape, g.dtype) != (p.shape, p.dtype):
                raise ArrayError(
                    f"{name}.step: gradient {i} must be like its parameter, an array{p._facts()}; got {g!r}",
                    hint="pass parameter.grad",
                )
        for i, (p, g) in enumerate(zip(self.params, grad, strict=True)):
            note_read(g, "optimiser")
            p.assign(self._stepped(i, p._numpy_view(), g._numpy_view()))
        self.t += 1

    def _stepped(self, number: int, values: Values, gradient: Values) -> Values:
        """Return the values of a parameter after a step."""
        raise NotImplementedError


class SGD(_Optimizer):
    """Stochastic gradient descent.

    Args:
        params: The arrays to change; they can be set later.
        lr: The learning rate.
        momentum: Factor of the previous step's direction.
        dampening: Fraction by which the gradient is reduced before it is added to the direction.
        weight_decay: Multiple of the parameter that is added to the gradient.
        nesterov: Use Nesterov momentum.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.lr = lr
        self.momentum = momentum
        self.dampening = dampening
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.b: dict[int, Values] = {}
        super().__init__(params)

    def reset_internal_state(self) -> None:
        """Reset the count of steps and all directions."""
        super().reset_internal_state()
        self.b = {}

    def _stepped(self, number: int, values: Values, gradient: Values) -> Values:
        slope = gradient + self.weight_decay * values if self.weight_decay else gradient.copy()
        if self.momentum:
            before = self.b.get(number)
            direction = slope if before is None else self.momentum * before + (1 - self.dampening) * slope
            self.b[number] = direction
            slope = slope + self.momentum * direction if self.nesterov else direction
        stepped: Values = values - self.lr * slope
        return stepped


class Adam(_Optimizer):
    """Adam: step sizes that adapt to each number (Kingma and Ba, arXiv:1412.6980).

    Args:
        params: The arrays to change; they can be set later.
        lr: The learning rate.
        betas: Decay factors of the running means of the gradient and of its square.
        eps: Added to the root of the mean square.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
    ) -> None:
        self.lr = lr
        self.beta1, self.beta2 = betas
        self.eps = eps
        self.m: dict[int, Values] = {}
        self.v: dict[int, Values] = {}
        super().__init__(params)

    def reset_internal_state(self) -> None:
        """Reset the count of steps and all running means."""
        super().reset_internal_state()
        self.m, self.v = {}, {}

    def _stepped(self, number: int, values: Values, gradient: Values) -> Values:
        zero = np.zeros_like(values)
        m = self.m[number] = self.beta1 * self.m.get(number, zero) + (1 - self.beta1) * gradient
        v = self.v[number] = self.beta2 * self.v.get(number, zero) + (1 - self.beta2) * gradient**2
        mean, square = m / (1 - self.beta1 ** (self.t + 1)), v / (1 - self.beta2 ** (self.t + 1))
        stepped: Values = values - self.lr * mean / (np.sqrt(square) + self.eps)
        return stepped
