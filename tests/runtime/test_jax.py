"""Memory shared with JAX, and what is said where it is not installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tapedebug as wp


def test_arrays_both_ways():
    jax = pytest.importorskip("jax")
    there = jax.numpy.arange(6.0, dtype="float32").reshape(2, 3)
    a = wp.from_jax(there)
    assert (a.shape, a.dtype, a.numpy().tolist()) == ((2, 3), wp.float32, [[0, 1, 2], [3, 4, 5]])
    assert wp.from_jax(there, dtype=wp.vec3).shape == (2,)
    back = wp.to_jax(wp.ones(4, dtype=wp.vec3))
    assert (back.shape, str(back.dtype), float(back.sum())) == ((4, 3), "float32", 12)
    strided = wp.array(np.arange(6.0).reshape(2, 3), dtype=float)[:, 1]
    assert wp.to_jax(strided).tolist() == [1, 4]


def test_names_of_types_and_devices():
    jax = pytest.importorskip("jax")
    assert wp.dtype_from_jax(jax.numpy.int8) is wp.int8
    assert wp.dtype_to_jax(wp.vec3) is jax.numpy.float32
    (device, *_) = jax.devices("cpu")
    assert wp.device_from_jax(device) == "cpu"
    assert wp.device_to_jax("cpu") == device


@pytest.mark.parametrize(
    ("library", "action"),
    [
        ("jax", lambda: wp.from_jax(np.ones(3))),
        ("jax", lambda: wp.to_jax(wp.ones(3))),
        ("torch", lambda: wp.from_torch(np.ones(3))),
        ("torch", lambda: wp.to_torch(wp.ones(3))),
    ],
)
def test_libraries_that_are_not_installed(library, action, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(wp.ArrayError) as caught:
        action()
    name = str(caught.value).partition(":")[0]
    assert str(caught.value) == (
        f"{name}: the package '{library}' is not installed\n  = hint: install it: pip install {library}"
    )


def test_names_of_numpy_types():
    assert wp.dtype_from_numpy(np.int16) is wp.int16
    assert wp.dtype_to_numpy(float) == np.float32
    assert wp.dtype_to_numpy(wp.vec3d) == np.float64
    with pytest.raises(wp.ArrayError, match="has no type in the kernel language"):
        wp.dtype_from_numpy(np.complex64)
