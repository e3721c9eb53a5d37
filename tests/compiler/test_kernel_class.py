"""`Kernel` as users have it: in annotations, and made of functions in loops over types."""

from __future__ import annotations

import sys
import threading

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


def test_unrolling_that_changes_after_a_launch_from_the_cache(tmp_path, monkeypatch):
    """The adjoint has to be lowered, which the launch had not: its code came from the cache."""
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path))

    def summed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        s = x[i]
        for _ in range(6):
            s = s * 0.5 + s * s
        y[i] = s

    gradients = []
    for change in (False, True):
        kernel = wp.Kernel(summed)
        x = wp.array([0.25, 0.5], dtype=float, requires_grad=True)
        y = wp.zeros_like(x)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=2, inputs=[x], outputs=[y])
        assert "_lowered" not in kernel.__dict__ or not change
        if change:
            wp.set_module_options({"max_unroll": 3})
            for notes in tmp_path.glob("*.json"):
                notes.unlink()
        tape.backward(grads={y: wp.ones_like(y)})
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)


def test_settings_that_change_while_other_threads_compile():
    def doubled(x: wp.array(dtype=float)):
        i = wp.tid()
        for _ in range(4):
            x[i] = x[i] * 2.0

    failures: list[BaseException] = []
    shared = wp.Kernel(doubled)

    def compile_some() -> None:
        try:
            for _ in range(40):
                assert "x_adj[" in wp.Kernel(doubled).source("adjoint")
                assert "x_v[" in shared.source()
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=compile_some) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        number = 0
        while any(thread.is_alive() for thread in threads):
            wp.set_module_options({"max_unroll": 2 + 6 * (number % 2)})
            number += 1
    finally:
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not failures
