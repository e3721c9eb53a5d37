"""Optimisers: gradient descent with momentum, and Adam, on lists of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.array import array
from tapedebug.runtime.factory import zeros

Values = np.ndarray[Any, Any]


class _Optimizer:
    """What both have in common: parameters, and state arrays of their shapes.

    Attributes:
        params: The arrays that `step` changes, or None.
        t: How many steps were made.
    """

    params: list[array] | None = None
    t = 0
    _states: tuple[str, ...] = ()

    def set_params(self, params: Sequence[array] | None) -> None:
        """Choose the arrays to optimise; the state of those with the shape and dtype of before is kept.

        Raises:
            ArrayError: One is not an array of floats.
        """
        found: list[Any] = list(params or ())
        for place, param in enumerate(found):
            if not isinstance(param, array) or not types.is_float(param.dtype):
                told = f"the array{param._facts()}" if isinstance(param, array) else repr(param)
                raise ArrayError(
                    f"{type(self).__name__}: parameter {place} is {told}", mend="pass arrays of floats"
                )
        self.params = None if params is None else found
        for name in self._states:
            old: list[array] = getattr(self, name, [])
            setattr(self, name, [self._state(old, k, param) for k, param in enumerate(self.params or ())])

    @staticmethod
    def _state(old: list[array], place: int, param: array) -> array:
        """The state of a parameter; of a float16 one it is float32."""
        dtype = types.float32 if param.dtype is getattr(types, "float16", None) else param.dtype
        if place < len(old) and old[place].shape == param.shape and old[place].dtype is dtype:
            return old[place]
        made: array = zeros(param.shape, dtype=dtype)
        return made

    def reset_internal_state(self) -> None:
        """Forget the steps that were made."""
        for name in self._states:
            for state in getattr(self, name):
                state.zero_()
        self.t = 0

    def _pairs(self, grad: Sequence[Any]) -> list[tuple[int, array, Values]]:
        """Each parameter with its number and gradient.

        Raises:
            ArrayError: There are no parameters, or the gradients do not fit them.
        """
        name = type(self).__name__
        if self.params is None:
            raise ArrayError(f"{name}: there are no parameters", mend="call set_params([…]) first")
        if len(grad) != len(self.params):
            raise ArrayError(
                f"{name}: {len(self.params)} parameters have {len(grad)} gradients",
                mend="pass one gradient for each parameter",
            )
        found = []
        for k, (param, g) in enumerate(zip(self.params, grad, strict=True)):
            if not isinstance(g, array) or g.shape != param.shape or g.dtype is not param.dtype:
                told = f"the array{g._facts()}" if isinstance(g, array) else repr(g)
                raise ArrayError(
                    f"{name}: the gradient of parameter {k} (the array{param._facts()}) is {told}",
                    mend="pass an array of the parameter's shape and dtype, such as its .grad",
                )
            found.append((k, param, g._look()))
        return found


class SGD(_Optimizer):
    """Gradient descent, with momentum where it is asked for.

    Args:
        params: The arrays of floats to optimise.
        lr: The step size.
        momentum: How much of the last step is made again.
        dampening: How much less the gradient adds to the momentum.
        weight_decay: This times the parameters is added to their gradients.
        nesterov: Look ahead by the momentum.

    Attributes:
        b: The momentum of each parameter.
    """

    _states = ("b",)

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
        self.b: list[array] = []
        self.set_params(params)

    def step(self, grad: Sequence[array]) -> None:
        """Change the parameters by one step.

        Args:
            grad: A gradient for each parameter.

        Raises:
            ArrayError: The gradients do not fit the parameters.
        """
        for k, param, g in self._pairs(grad):
            now = param._look()
            if self.weight_decay:
                g = g + self.weight_decay * now
            if self.momentum:
                before = self.b[k]._look()
                b = self.momentum * before + (1.0 - self.dampening) * g if self.t > 0 else g
                g = g + self.momentum * b if self.nesterov else b
                self.b[k].assign(b.astype(before.dtype))
            param.assign((now - self.lr * g).astype(now.dtype))
        self.t += 1


class Adam(_Optimizer):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980).

    Args:
        params: The arrays of floats to optimise.
        lr: The step size.
        betas: How much of the means of the gradients and of their squares is kept.
        eps: Added to the root of the mean square.

    Attributes:
        m: The mean of the gradients of each parameter.
        v: The mean of their squares.
    """

    _states = ("m", "v")

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
        self.m: list[array] = []
        self.v: list[array] = []
        self.set_params(params)

    def step(self, grad: Sequence[array]) -> None:
        """Change the parameters by one step.

        Args:
            grad: A gradient for each parameter.

        Raises:
            ArrayError: The gradients do not fit the parameters.
        """
        for k, param, g in self._pairs(grad):
            now, m, v = param._look(), self.m[k]._look(), self.v[k]._look()
            m = (self.beta1 * m + (1.0 - self.beta1) * g).astype(m.dtype)
            v = (self.beta2 * v + (1.0 - self.beta2) * g * g).astype(v.dtype)
            self.m[k].assign(m)
            self.v[k].assign(v)
            mean = m / (1.0 - self.beta1 ** (self.t + 1))
            square = v / (1.0 - self.beta2 ** (self.t + 1))
            param.assign((now - self.lr * mean / (np.sqrt(square) + self.eps)).astype(now.dtype))
        self.t += 1
