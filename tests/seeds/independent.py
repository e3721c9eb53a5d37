"""The documents' examples in NumPy, float64: what their gradients are, by no engine of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
STEP = 1e-5


def jacobian(function: Callable[[Array], Any], at: Any) -> Array:
    """The Jacobian by central differences with one step of Richardson's: (outputs, inputs)."""
    at = np.asarray(at, dtype=np.float64)

    def quotient(place: int, step: float) -> Array:
        sides = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved.reshape(-1)[place] += sign * step
            sides.append(np.asarray(function(moved), dtype=np.float64).reshape(-1))
        return (sides[0] - sides[1]) / (2.0 * step)

    columns = [(4.0 * quotient(place, STEP) - quotient(place, 2.0 * STEP)) / 3.0 for place in range(at.size)]
    return np.stack(columns, axis=-1)


def gradient(function: Callable[[Array], Any], at: Any) -> Array:
    """The gradient of the sum of a function's results, in the shape of its argument."""
    return jacobian(lambda x: np.sum(function(x)), at).reshape(np.shape(at))


def crossed(a: Array) -> Array:
    """The squared length of each row's cross product with (0, 0, 2)."""
    return (np.cross(a, np.array([0.0, 0.0, 2.0])) ** 2).sum(-1)


def mixed(x: Array) -> Array:
    """sin(x[i]) x[i + 1]"""
    return np.sin(x[:-1]) * x[1:]


def outputs(a: Array, b: Array) -> tuple[Array, Array]:
    """The two outputs of the documents' `my_kernel`."""
    out1 = np.stack([a * np.linalg.norm(b, axis=-1), -a * (b @ np.array([0.1, 1.0, -0.1]))], -1)
    whole = np.concatenate([a[:, None], b], -1)
    return out1, whole / np.linalg.norm(whole, axis=-1, keepdims=True)


def jacobians() -> dict[tuple[int, int], Array]:
    """The four Jacobians of `my_kernel` at the documents' values, by (input, output)."""
    a, b = np.array([2.0, -1.0]), np.array([[3.0, 1.0, 2.0], [-4.0, -1.0, 0.0]])
    return {
        (source, output): jacobian(
            lambda x, source=source, output=output: outputs(*((x, b) if source == 0 else (a, x)))[output],
            (a, b)[source],
        )
        for source in (0, 1)
        for output in (0, 1)
    }


def two_steps(pos: Array, vel: Array) -> Array:
    """The loss of the program with two steps of forces, each with a force of its own."""
    for _ in range(2):
        square = (pos * pos).sum(-1, keepdims=True)
        force = -pos * (square + 0.5) - vel * np.linalg.norm(vel, axis=-1, keepdims=True)
        vel = vel + force / (1.0 + (force * force).sum(-1, keepdims=True))
        pos = pos + vel
    return ((pos - np.array([1.0, 2.0])) ** 2).sum()


START = np.array([[0.3, 0.1], [1.0, -0.5], [-0.7, 0.9]])
