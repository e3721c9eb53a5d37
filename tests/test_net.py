"""The demo problem: right by default, wrong as Warp is wrong with "ignore", and both are told apart."""

import importlib.util
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests._processes import ROOT


@pytest.fixture(scope="module")
def net() -> ModuleType:
    spec = importlib.util.spec_from_file_location("net", ROOT / "notebooks" / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gradient(net: ModuleType, buffers: str, throw: tuple[float, float, float], **options: Any) -> np.ndarray:
    hand = wp.array([throw], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), hand, buffers, **options)
    tape.backward(loss)
    return hand.grad.numpy()[0].astype(np.float64)


def reference(net: ModuleType, throw: tuple[float, float, float]) -> np.ndarray:
    """Differences of a float64 simulation in plain NumPy, which shares no line with the kernels."""
    out = np.zeros(3)
    for k in range(3):
        estimates = []
        for h in (1e-4, 5e-5):
            step = np.zeros(3)
            step[k] = h
            estimates.append(
                (numpy_loss(net, np.array(throw) + step) - numpy_loss(net, np.array(throw) - step)) / (2 * h)
            )
        out[k] = (4 * estimates[1] - estimates[0]) / 3  # Richardson
    return out


def numpy_loss(net: ModuleType, throw: np.ndarray) -> float:
    side = net.SIDE
    fabric = net.make_net()
    x = fabric.x.numpy().astype(np.float64)
    v = fabric.grip.numpy().astype(np.float64)[:, None] * throw
    index = np.arange(side * side).reshape(side, side)
    springs = [
        (index[:, :-1], index[:, 1:], net.SPACING, net.STIFFNESS),
        (index[:-1], index[1:], net.SPACING, net.STIFFNESS),
        (index[:-1, :-1], index[1:, 1:], net.SPACING * 2**0.5, net.STIFFNESS / 2),
        (index[:-1, 1:], index[1:, :-1], net.SPACING * 2**0.5, net.STIFFNESS / 2),
    ]
    gravity = np.array([0.0, -9.81, 0.0])
    for _ in range(net.STEPS):
        force = net.MASS * gravity - net.DRAG * v
        for a, b, rest, stiffness in springs:
            a, b = a.ravel(), b.ravel()
            d = x[b] - x[a]
            stretched = np.linalg.norm(d, axis=1, keepdims=True)
            pull = stiffness * (stretched - rest) * d / stretched
            np.add.at(force, a, pull)
            np.subtract.at(force, b, pull)
        v = v + net.DT / net.MASS * force
        x = x + net.DT * v
    m = side // 2
    miss = x[[index[m, m], index[m, m - 1], index[m - 1, m], index[m - 1, m - 1]]].mean(axis=0)
    miss = miss - np.array([2.5, 0.5, 0.5])
    return float(miss @ miss)


THROWS = [(3.0, 4.0, 0.0), (5.0, 6.5, 1.0)]


def off_by(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("throw", THROWS)
def test_preserve_is_right_and_ignore_is_not(net: ModuleType, throw: tuple[float, float, float]) -> None:
    wanted = reference(net, throw)
    assert off_by(gradient(net, "pingpong", throw), wanted) < 1e-4
    assert off_by(gradient(net, "distinct", throw), wanted) < 1e-4
    assert off_by(gradient(net, "pingpong", throw, on_overwrite="ignore"), wanted) > 0.05


def test_ignore_reproduces_warps_own_wrong_number(net: ModuleType) -> None:
    # warp-lang 1.19 on this script, with `import warp as wp`
    wrong = gradient(net, "pingpong", (3.0, 4.0, 0.0), on_overwrite="ignore")
    np.testing.assert_allclose(wrong, [-1.544989, -2.45662, -0.809564], rtol=2e-3)
