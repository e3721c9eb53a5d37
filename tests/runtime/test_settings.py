"""Settings of the process, of modules and of kernels: what they take, and what they do."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._config import DEFAULTS
from tapedebug.compiler import objects


@wp.kernel
def divide(x: wp.array(dtype=float), y: wp.array(dtype=float), p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = 1.0 / x[i]
    p[i] = wp.vec3(1.0, x[i], 1.0 / x[i])


@pytest.fixture(autouse=True)
def as_they_were():
    yield
    for name, value in DEFAULTS.items():
        if getattr(wp.config, name) != value:
            setattr(wp.config, name, value)
    wp.get_module(__name__).options.clear()
    wp.set_module_options({})


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("check_bound", True, AttributeError, "has no setting 'check_bound'; did you mean 'check_bounds'?"),
        ("check_bounds", "yes", ValueError, "config.check_bounds is True, False or None; got 'yes'"),
        ("mode", "fast", ValueError, "config.mode is one of release, debug; got 'fast'"),
        ("max_unroll", -1, ValueError, "config.max_unroll is an integer from 0; got -1"),
        ("print_lines", 2.5, ValueError, "config.print_lines is an integer from 0; got 2.5"),
        ("kernel_cache_dir", 3, ValueError, "config.kernel_cache_dir is a folder, or None; got 3"),
        ("kernel_cache_size", -1, ValueError, "config.kernel_cache_size is a number of MiB, or None; got -1"),
        (
            "log_level",
            "LOUD",
            ValueError,
            "config.log_level is a level of `logging`, such as 'DEBUG' or 20; got 'LOUD'",
        ),
    ],
)
def test_wrong_settings(name, value, error, message):
    with pytest.raises(error) as caught:
        setattr(wp.config, name, value)
    assert message in str(caught.value)
    assert {n: getattr(wp.config, n) for n in DEFAULTS} == DEFAULTS


def test_wrong_options_of_modules_and_kernels():
    with pytest.raises(AttributeError) as caught:
        wp.set_module_options({"enable_backwards": False})
    assert str(caught.value) == (
        f"module `{__name__}` has no setting 'enable_backwards'; did you mean 'enable_backward'? "
        "(settings: check_bounds, enable_backward, max_unroll, mode)"
    )
    with pytest.raises(
        ValueError, match=r"max_unroll of module `some\.module` is an integer from 0; got 'all'"
    ):
        wp.set_module_options({"max_unroll": "all"}, module="some.module")
    with pytest.raises(ValueError, match="check_bounds of kernel `divide` is True, False or None; got 2"):
        wp.kernel(check_bounds=2)(divide.python)


def test_options_come_from_the_kernel_then_the_module_then_config():
    own = wp.kernel(enable_backward=True)(divide.python)
    assert (own.enable_backward, divide.enable_backward) == (True, True)
    wp.config.enable_backward = False
    assert (own.enable_backward, divide.enable_backward) == (True, False)
    wp.set_module_options({"enable_backward": True})
    assert (own.enable_backward, divide.enable_backward) == (True, True)
    wp.set_module_options({"enable_backward": False}, module=ModuleType("other.module"))
    assert wp.get_module_options("other.module")["enable_backward"] is False
    assert wp.get_module_options()["enable_backward"] is True
    wp.get_module("other.module").options.clear()
    set_here = wp.kernel(module_options={"enable_backward": False, "fast_math": True})(divide.python)
    assert not set_here.enable_backward
    assert wp.get_module(__name__) is divide.module
    assert divide in divide.module.kernels


def test_enable_backward_of_config_counts_for_launches_from_then_on():
    def gradient():
        x = wp.ones(1, dtype=float, requires_grad=True)
        y, p = wp.zeros(1, dtype=float, requires_grad=True), wp.zeros(1, dtype=wp.vec3)
        with wp.Tape() as tape:
            wp.launch(divide, 1, [x, y, p])
        tape.backward(grads={y: wp.ones(1, dtype=float)})
        return x.grad.numpy()[0]

    assert gradient() == -1
    wp.config.enable_backward = False
    with pytest.warns(wp.TapedebugWarning, match="enable_backward=False"):
        assert gradient() == 0
    wp.config.enable_backward = True
    assert gradient() == -1


def test_max_unroll_of_a_module():
    @wp.kernel
    def summed(y: wp.array(dtype=float)):
        i = wp.tid()
        total = float(0.0)
        for k in range(5):
            total += wp.sin(float(k) * y[i])
        y[i] = total

    assert "range(5)" not in summed.source()
    wp.set_module_options({"max_unroll": 3})
    assert "range(5)" in summed.source()
    wp.set_module_options({"max_unroll": 5})
    assert "range(5)" not in summed.source()


def test_folder_of_compiled_kernels(tmp_path):
    @wp.kernel
    def fresh(y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = y[i] * 1.2345 + float(i)

    wp.config.kernel_cache_dir = tmp_path / "kernels"
    assert objects.folder() == tmp_path / "kernels"
    wp.force_load(modules=[wp.get_module(__name__)])
    made = list((tmp_path / "kernels").glob("*.o"))
    assert len(made) >= 2  # with its adjoint
    wp.clear_kernel_cache()
    assert not list((tmp_path / "kernels").glob("*.o"))
    assert fresh.adjoint(frozenset({0})).address


def test_load_module(tmp_path):
    wp.config.kernel_cache_dir = tmp_path

    @wp.kernel
    def wrong(y: wp.array(dtype=float)):
        y[0] = 1

    with pytest.raises(wp.KernelTypeError, match="kernel `wrong`: `y` holds float32; got int32"):
        wp.load_module()
    wrong.module.kernels.discard(wrong)

    @wp.kernel
    def generic(y: wp.array(dtype=Any)):
        y[0] = y[1]

    assert generic in wrong.module.kernels  # and is left alone
    wp.load_module(__name__)
    with pytest.raises(wp.TapedebugError) as caught:
        wp.load_module("nothing.here", recursive=True)
    assert str(caught.value) == (
        "load_module: the module 'nothing.here' has no kernels\n"
        "  = hint: import it first, and pass its name or the module itself"
    )


def test_what_is_compiled_is_logged(caplog, tmp_path):
    @wp.kernel
    def noted(y: wp.array(dtype=float)):
        y[0] = 3.0

    wp.config.kernel_cache_dir = tmp_path
    wp.launch(noted, 1, [wp.zeros(1, dtype=float)])
    assert not caplog.records
    wp.config.log_level = "DEBUG"
    assert wp.config.log_level == logging.DEBUG
    with caplog.at_level(logging.DEBUG, "tapedebug"):
        noted.forward(strided=True)
    assert [r.getMessage().partition(":")[0].split()[0] for r in caplog.records] == ["forward"]


# verify_fp -------------------------------------------------------------------------------------------------

LEFT = "nothing of the launch is left: arrays and tape are as they were before it"


def test_a_launch_that_makes_a_number_that_is_not_finite():
    x = wp.array([2.0, 0.0, 0.0], dtype=float, requires_grad=True)
    y, p = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(3, dtype=wp.vec3)
    wp.launch(divide, 3, [x, y, p])  # without it nobody complains
    assert np.isinf(y.numpy()).sum() == 2
    y.zero_()
    p.zero_()
    wp.config.verify_fp = True
    with wp.Tape() as tape, pytest.raises(wp.NonFiniteError) as caught:
        wp.launch(divide, 3, [x, y, p])
    text = str(caught.value)
    assert text.startswith("kernel `divide` made `y[1]` inf, the first of 2 such numbers\n  --> ")
    assert "\n   |     y[i] = 1.0 / x[i]\n" in text
    assert f"\n  = note: `x`, which it reads, is finite\n  = note: {LEFT}\n" in text
    assert isinstance(caught.value, ArithmeticError)
    assert not y.numpy().any()
    assert not tape.records
    with pytest.raises(wp.NonFiniteError, match=r"made `p\[0\]` \(component 2\) inf\n"):
        wp.launch(divide, 1, [wp.zeros(1, dtype=float), wp.full(1, np.inf, dtype=float), p])


def test_numbers_that_were_not_finite_before_are_no_news():
    x = wp.array([2.0, np.nan], dtype=float)
    y, p = wp.array([0.0, np.nan], dtype=float), wp.array([(0, 0, 0), (0, np.nan, np.nan)], dtype=wp.vec3)
    wp.config.verify_fp = True
    wp.launch(divide, 2, [x, y, p])
    assert y.numpy()[0] == 0.5


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


def test_an_adjoint_that_makes_a_number_that_is_not_finite():
    x, z = (wp.array([4.0, 0.0], dtype=float, requires_grad=True) for _ in range(2))
    y = wp.zeros(2, dtype=float, requires_grad=True)
    wp.config.verify_fp = True
    with wp.Tape() as tape:
        wp.launch(root, 2, [z, x])
        wp.launch(root, 2, [x, y])
    with pytest.raises(wp.NonFiniteError) as caught:
        tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert caught.value.message == "adjoint of kernel `root` made the gradient of `x[1]` inf"
    assert not x.grad.numpy().any()
    assert not y.grad.numpy().any()
    wp.config.verify_fp = False
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert not np.isfinite(z.grad.numpy()).all()


def test_the_types_of_errors_are_pythons():
    assert issubclass(wp.BoundsError, IndexError)
    assert issubclass(wp.NonFiniteError, ArithmeticError)
    assert issubclass(wp.KernelAssertionError, AssertionError)
