"""`Kernel` as users have it: in annotations, and made of functions in loops over types."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp

FLOATS = (wp.float32, wp.float64)


def scaled_kernel(dtype: type, factor: float) -> wp.Kernel:
    """A kernel for one type, as programs make them in loops."""

    def scaled(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = dtype(factor) * x[i]

    return wp.Kernel(func=scaled, key=f"scaled_{dtype.__name__}")


def test_kernels_made_in_a_loop_over_types():
    kernels = {dtype: scaled_kernel(dtype, 2.0 + n) for n, dtype in enumerate(FLOATS)}
    assert [k.key for k in kernels.values()] == ["scaled_float32", "scaled_float64"]
    for n, (dtype, kernel) in enumerate(kernels.items()):
        assert isinstance(kernel, wp.Kernel)
        x = wp.array([1.0, 2.0], dtype=dtype, requires_grad=True)
        y = wp.zeros_like(x)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=2, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones_like(y)})
        np.testing.assert_array_equal(y.numpy(), (2.0 + n) * x.numpy())
        np.testing.assert_array_equal(x.grad.numpy(), [2.0 + n] * 2)


def test_a_decorated_kernel_is_one():
    @wp.kernel
    def nothing(x: wp.array(dtype=float)):
        x[wp.tid()] = 0.0

    assert isinstance(nothing, wp.Kernel)
    assert nothing.key == "test_a_decorated_kernel_is_one__nothing"


@pytest.mark.parametrize("module", ["of kernels", wp.get_module("of kernels")])
def test_the_module_that_is_named(module):
    def nothing(x: wp.array(dtype=float)):
        x[wp.tid()] = 0.0

    kernel = wp.Kernel(nothing, module=module)
    assert kernel.module is wp.get_module("of kernels")
    assert kernel in kernel.module.kernels
    assert kernel.key == "test_the_module_that_is_named__nothing"


def test_options_are_its_own():
    def nothing(x: wp.array(dtype=float)):
        x[wp.tid()] = 0.0

    assert not wp.Kernel(nothing, options={"enable_backward": False}).enable_backward
    assert wp.Kernel(nothing).enable_backward
    with pytest.raises(AttributeError, match="enable_backward"):
        wp.Kernel(nothing, options={"enable_backwards": False})
