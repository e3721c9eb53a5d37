"""A launch that writes memory through two views, or through one that overlaps itself: threads meet there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import hvp, jvp

D, V = wp.float64, wp.vec3d
COUNT = 12


@wp.kernel
def linear(x: wp.array(dtype=D), w: wp.array(dtype=D), p: wp.array(dtype=D)):
    i = wp.tid()
    p[i] = p[i] * D(1.5)
    w[i] = x[i] * w[i]


@wp.kernel
def mixed(x: wp.array(dtype=D), w: wp.array(dtype=D), p: wp.array(dtype=D)):
    i = wp.tid()
    p[i] = p[i] * D(0.5) + w[i]
    w[i] = D(0.3) * w[i] - D(0.6) * p[i] + x[i]


@wp.kernel
def twice(x: wp.array(dtype=D), w: wp.array(dtype=D), p: wp.array(dtype=D)):
    i = wp.tid()
    for _ in range(2):
        p[i] = D(0.4) * p[i] * w[i]
        w[i] = wp.sin(D(0.3) * w[i] + D(0.5) * p[i] + x[i] * w[i])


@wp.kernel
def added(x: wp.array(dtype=D), w: wp.array(dtype=D), p: wp.array(dtype=D)):
    i = wp.tid()
    wp.atomic_add(p, i, x[i])
    wp.atomic_add(w, i, x[i] * x[i])
    if i > 3:
        w[i] = x[i] * p[i]


@wp.kernel
def rows(x: wp.array(dtype=D), w: wp.array2d(dtype=D), p: wp.array(dtype=V)):
    i = wp.tid()
    w[i, 1] = wp.sin(w[i, i % 3] * x[i])
    p[i] += p[i] * D(0.5)
    w[i, 0] -= w[i, i % 3] * x[i]


@wp.kernel
def weighed(x: wp.array(dtype=D), loss: wp.array(dtype=D)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.sin(x[i]) * D(i + 1))


def repeated(a: Any) -> Any:
    """The first element, six times."""
    return wp.array(ptr=a.ptr, shape=6, strides=(0,), dtype=D, requires_grad=True)


def grid(a: Any) -> Any:
    return a.reshape((4, 3))


FLAT: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "the same": lambda a: (a, a),
    "reversed": lambda a: (a, a[::-1]),
    "one before": lambda a: (a[1:], a[:-1]),
    "one behind": lambda a: (a[:-1], a[1:]),
    "in steps": lambda a: (a[::2], a[3:9]),
    "apart": lambda a: (a[:6], a[6:]),
    "all of one element": lambda a: (repeated(a), a[6:]),
    "one element in both": lambda a: (repeated(a), a[::-1]),
}
GRIDS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "the same": lambda a: (grid(a), grid(a).view(V)),
    "reversed": lambda a: (grid(a)[::-1], grid(a).view(V)),
    "both reversed": lambda a: (grid(a)[::-1, ::-1], grid(a).view(V)),
    "one behind": lambda a: (grid(a)[:-1], grid(a).view(V)[1:]),
}
CASES = [
    *[(kernel, views) for kernel in (linear, mixed, twice, added) for views in FLAT.items()],
    *[(rows, views) for views in GRIDS.items()],
]


@pytest.mark.sweep
@pytest.mark.parametrize("budget", [None, 64], ids=["whole", "budget"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].key}-{case[1][0]}")
@pytest.mark.filterwarnings("ignore::tapedebug.TapedebugWarning")
def test_gradients_are_those_of_threads_in_order(case: Any, budget: int | None) -> None:
    kernel, (_, views) = case
    start = np.linspace(0.2, 1.1, 2 * COUNT)

    def run(values: Any) -> tuple[Any, list[Any], Any]:
        x, a = (wp.array(part, dtype=D, requires_grad=True) for part in np.split(values, 2))
        loss = wp.zeros(1, dtype=D, requires_grad=True)
        with wp.Tape(memory_budget=budget) as tape:
            w, p = views(a)
            wp.launch(kernel, min(w.shape[0], p.shape[0]), inputs=[x, w, p])
            wp.launch(weighed, COUNT, inputs=[a, loss])
        return tape, [x, a], loss

    def gradient(values: Any) -> Any:
        tape, inputs, loss = run(values)
        tape.backward(loss)
        return np.concatenate([each.grad.numpy() for each in inputs])

    found = gradient(start)
    units = 1e-6 * np.eye(2 * COUNT)
    slopes = [(run(start + u)[2].numpy()[0] - run(start - u)[2].numpy()[0]) / 2e-6 for u in units]
    np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-7)
    way = np.random.default_rng(3).normal(size=2 * COUNT)
    tape, inputs, loss = run(start)
    tangents = dict(zip(inputs, np.split(way, 2), strict=True))
    assert jvp(tape, tangents=tangents)[loss].item() == pytest.approx(float(found @ way), rel=1e-9)
    second = hvp(tape, loss=loss, tangents=tangents).product
    sides = (gradient(start + 1e-5 * way) - gradient(start - 1e-5 * way)) / 2e-5
    np.testing.assert_allclose(np.concatenate([second[a] for a in inputs]), sides, rtol=1e-5, atol=1e-6)
