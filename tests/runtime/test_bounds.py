"""`config.check_bounds`: an index outside is an error that names it, and nothing outside is touched."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.diagnostics import BOUNDS
from tests.compiler.harness import check_gradient

LEFT = "nothing of the launch is left: arrays and tape are as they were before it"
MEND = "test the index before it is used, make the array larger, or launch fewer threads"


@wp.kernel
def shift(x: wp.array(dtype=float), y: wp.array(dtype=float), by: int):
    i = wp.tid()
    y[i] = x[i + by] * x[i]


@wp.kernel
def write_2d(m: wp.array2d(dtype=float), row: int):
    i, j = wp.tid()
    m[row + i, j] = 1.0


@wp.kernel
def count_up(bins: wp.array(dtype=int), keys: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(bins, keys[i], 1)


@wp.kernel
def largest(best: wp.array(dtype=float), keys: wp.array(dtype=int), x: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_max(best, keys[i], x[i])


@wp.kernel
def component(p: wp.array(dtype=wp.vec3), k: int, y: wp.array(dtype=float)):
    i = wp.tid()
    v = p[i]
    v[k] = 2.0
    y[i] = p[i][k] + v.x


@wp.func
def pick(x: wp.array(dtype=float), k: int):
    return x[k]


@wp.kernel
def in_function(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    total = float(0.0)
    for k in range(n):
        if k > 1:
            total += pick(x, k)
    y[i] = total


@wp.kernel
def part_of(x: wp.array(dtype=float), y: wp.array(dtype=float), k: int):
    i = wp.tid()
    half = x[1:3]
    y[i] = half[k]


@pytest.fixture(autouse=True)
def checking():
    wp.config.check_bounds = True
    yield
    wp.config.check_bounds = None


def floats(*values, **options):
    return wp.array(values, dtype=float, **options)


def ints(*values):
    return wp.array(values, dtype=int)


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.strip() == text)


def test_the_whole_message():
    x, y = floats(1, 2, 3), floats(0, 0, 0)
    with pytest.raises(wp.BoundsError) as caught:
        wp.launch(shift, 3, [x, y, 2])
    assert str(caught.value) == (
        "kernel `shift`: the index 3 is outside axis 0 of `x`, which has length 3, in thread 1\n"
        f"  --> {__file__}:{line_of('y[i] = x[i + by] * x[i]')}, in shift\n"
        "   |     y[i] = x[i + by] * x[i]\n"
        "   |            ^^^^^^^^^\n"
        "  = note: the launch has dim=3\n"
        f"  = note: {LEFT}\n"
        f"  = hint: {MEND}"
    )
    assert isinstance(caught.value, IndexError)
    assert y.numpy().tolist() == [0, 0, 0]


M = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    ("kernel", "dim", "args", "what"),
    [
        (
            shift,
            3,
            [floats(1, 2, 3), floats(0, 0, 0), -5],
            "the index -5 is outside axis 0 of `x`, which has length 3, in thread 0",
        ),
        (
            shift,
            3,
            [floats(1, 2, 3, 4), floats(0, 0), 0],
            "the index 2 is outside axis 0 of `y`, which has length 2, in thread 2",
        ),
        (
            shift,
            1,
            [floats(), floats(0), 0],
            "the index 0 is outside axis 0 of `x`, which is empty, in thread 0",
        ),
        (
            write_2d,
            (2, 4),
            [wp.array(M, dtype=float), 2],
            "the index 3 is outside axis 0 of `m`, which has length 3, in thread (1, 0)",
        ),
        (
            write_2d,
            (1, 5),
            [wp.array(M, dtype=float), 0],
            "the index 4 is outside axis 1 of `m`, which has length 4, in thread (0, 4)",
        ),
        (
            write_2d,
            (2, 3),
            [wp.array(M, dtype=float)[:, 1:3], 0],
            "the index 2 is outside axis 1 of `m`, which has length 2, in thread (0, 2)",
        ),
        (
            count_up,
            3,
            [ints(0, 0), ints(1, 0, 7)],
            "the index 7 is outside axis 0 of `bins`, which has length 2, in thread 2",
        ),
        (
            largest,
            2,
            [floats(0), ints(0, -3), floats(1, 2)],
            "the index -3 is outside axis 0 of `best`, which has length 1, in thread 1",
        ),
        (
            component,
            1,
            [wp.zeros(1, dtype=wp.vec3), 3, floats(0)],
            "the index 3 is outside axis 0 of a vec3, which has length 3, in thread 0",
        ),
        (
            in_function,
            1,
            [floats(1, 2, 3), floats(0), 4],
            "the index 3 is outside axis 0 of `x`, which has length 3, in thread 0",
        ),
        (
            part_of,
            1,
            [floats(1, 2, 3, 4), floats(0), 2],
            "the index 2 is outside a slice of `x`, which has length 2, in thread 0",
        ),
    ],
)
def test_what_is_outside(kernel, dim, args, what):
    before = [a.numpy().copy() for a in args if isinstance(a, wp.array)]
    with pytest.raises(wp.BoundsError) as caught:
        wp.launch(kernel, dim, args)
    assert caught.value.message == f"kernel `{kernel.key}`: {what}"
    for old, a in zip(before, (a for a in args if isinstance(a, wp.array)), strict=True):
        np.testing.assert_array_equal(a.numpy(), old)


def test_memory_beside_the_array_is_not_touched():
    whole = np.zeros(12, np.float32)
    middle = wp.array(whole[4:8], dtype=float, copy=False)
    with pytest.raises(wp.BoundsError):
        wp.launch(count_far, 20, [middle])
    assert not whole.any()


@wp.kernel
def count_far(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 1.0


def test_what_is_inside_runs_as_ever():
    x, y = floats(1, 2, 3, 4), floats(0, 0, 0)
    wp.launch(shift, 3, [x, y, 1])
    assert y.numpy().tolist() == [2, 6, 12]
    rng = np.random.default_rng(1)
    check_gradient(shift, 5, [*rng.uniform(0.5, 1, (2, 6)).astype(np.float32), 1])


def test_on_a_tape_and_backward():
    x, y = floats(1, 2, 3, 4, requires_grad=True), floats(0, 0, 0, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(shift, 3, [x, y, 1])
        with pytest.raises(wp.BoundsError):
            wp.launch(shift, 3, [x, y, 2])
    assert len(tape.records) == 1
    tape.backward(grads={y: floats(1, 1, 1)})
    assert x.grad.numpy().tolist() == [2, 4, 6, 3]


@wp.func
def kept(x: wp.array(dtype=float), k: int):
    return x[k] * 2.0


@wp.func_grad(kept)
def adj_kept(x: wp.array(dtype=float), k: int, adj_ret: float):
    wp.adjoint[x][k + 5] += 2.0 * adj_ret


@wp.kernel
def custom(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = kept(x, i)


def test_an_index_that_only_the_adjoint_uses():
    x, y = floats(1, 2, 3, requires_grad=True), floats(0, 0, 0, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(shift, 1, [x, y, 1])
        wp.launch(custom, 3, [x, y])
    y.grad.fill_(1.0)
    with pytest.raises(wp.BoundsError) as caught:
        tape.backward(grads={y: floats(1, 1, 1)})
    assert caught.value.message == (
        "adjoint of kernel `custom`: the index 5 is outside axis 0 of `x`, which has length 3, in thread 0"
    )
    assert caught.value.notes[-1].startswith("nothing of the reverse pass is left")
    assert x.grad.numpy().tolist() == [0, 0, 0]
    assert y.grad.numpy().tolist() == [1, 1, 1]


def test_an_index_that_was_overwritten_since():
    keys, x, y = ints(0, 1), floats(3, 4, requires_grad=True), floats(0, 0, requires_grad=True)

    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(gathered, 2, [keys, x, y])
    keys.assign(np.array([0, 99], np.int32))
    with pytest.raises(wp.BoundsError, match="the index 99 is outside axis 0 of `x`"):
        tape.backward(grads={y: floats(1, 1)})


@wp.kernel
def gathered(keys: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[keys[i]] * x[keys[i]]


def test_checks_of_kernels_that_never_ran():
    x, y = floats(1, 2, requires_grad=True), floats(0, 0, requires_grad=True)
    with pytest.raises(wp.BoundsError, match="the index 2 is outside axis 0 of `x`"):
        wp.autograd.gradcheck(shift, 2, [x], [y, 1])
    with pytest.raises(wp.BoundsError, match="tangent of kernel `shift`: the index 2"):
        shadow = wp.runtime.replay.shadow.Shadow.for_launch(shift, 2, [x, y, 1])
        shadow.push({x: np.ones(2)})


def test_it_is_a_variant_of_its_own_and_off_costs_nothing():
    assert "failure_message(" in shift.source()
    assert "failure_message(" in shift.source("adjoint")
    wp.config.check_bounds = False
    assert "failure_message(" not in shift.source() + shift.source("adjoint")
    x, y = floats(1, 2, 3, 4), floats(0, 0, 0)
    wp.launch(shift, 3, [x, y, 1])
    assert not any(plan.checked for plan in shift.plans.values())


def test_kernels_and_modules_choose_for_themselves():
    wp.config.check_bounds = False

    @wp.kernel(check_bounds=True)
    def own(x: wp.array(dtype=float)):
        x[5] = 1.0

    with pytest.raises(wp.BoundsError):
        wp.launch(own, 1, [floats(0)])
    wp.set_module_options({"check_bounds": True, "fast_math": True})
    try:
        assert wp.get_module_options()["check_bounds"] is True
        with pytest.raises(wp.BoundsError):
            wp.launch(shift, 3, [floats(1, 2, 3), floats(0, 0, 0), 1])
    finally:
        wp.get_module(__name__).options.clear()
        wp.set_module_options({})
    wp.config.mode = "debug"
    try:
        with pytest.raises(wp.BoundsError):
            wp.launch(shift, 3, [floats(1, 2, 3), floats(0, 0, 0), 1])
    finally:
        wp.config.mode = "release"
    assert BOUNDS not in shift.diagnostics


def test_plain_python_checks_as_well(monkeypatch):
    monkeypatch.setattr(wp.config, "interpreted", True)
    with pytest.raises(wp.BoundsError, match="the index 3 is outside axis 0 of `x`"):
        wp.launch(shift, 3, [floats(1, 2, 3), floats(0, 0, 0), 1])
