"""Arrays that overlap themselves or each other are refused; slices, repeated and in-place arrays are not."""

import re
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, gradcheck_tape, jacobian, jacobian_fd
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}
MEND = "pass a copy with elements of its own, such as wp.clone(array)"


@pytest.fixture
def memory() -> np.ndarray:
    return np.arange(1, 13, dtype=np.float32)


def at(memory: np.ndarray, start: int = 0, **options: Any) -> Any:
    """An array of elements of `memory`, from `start` on."""
    address = memory.ctypes.data + 4 * start
    return wp.array(ptr=address, requires_grad=True, **{"dtype": float, **options})


@wp.kernel
def square_2d(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


@wp.kernel
def norm(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.dot(x[i], x[i])


@wp.kernel
def product(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a[i] * b[i]


# ------------------------------------------------------------------ one array


def test_a_stride_of_zero() -> None:
    memory = np.array([2.0], dtype=np.float32)
    x, y = at(memory, shape=(4,), strides=(0,)), k.vector(np.zeros(4))
    message = (
        "kernel square: {} overlaps itself: {}[0] and {}[1] lie in the same memory (shape (4,), "
        "strides (0,), 4 bytes for each float32): neither can be displaced alone, so no derivative by it "
        "exists"
    )
    for given, name in (((x, y), "x"), ((y, x), "y")):
        for check in (gradcheck, jacobian, jacobian_fd):
            with pytest.raises(wp.GradcheckError) as caught:
                check(k.square, 4, [given[0]], [given[1]])
            assert (caught.value.message, caught.value.hint) == (message.format(name, name, name), MEND)


def test_windows_of_a_numpy_array(memory: np.ndarray) -> None:
    windows = np.lib.stride_tricks.as_strided(memory, (4, 3), (4, 4))
    x = wp.array(windows, dtype=float, copy=False, requires_grad=True)
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck(square_2d, (4, 3), [x], [wp.zeros((4, 3), requires_grad=True)])
    assert caught.value.message == (
        "kernel square_2d: x overlaps itself: x[0, 1] and x[1, 0] lie in the same memory (shape (4, 3), "
        "strides (4, 4), 4 bytes for each float32): neither can be displaced alone, so no derivative by it "
        "exists"
    )
    copied = wp.array(windows, dtype=float, requires_grad=True)
    assert gradcheck(square_2d, (4, 3), [copied], [wp.zeros((4, 3), requires_grad=True)], **QUIET)


@pytest.mark.filterwarnings("ignore:the memory of this array")
def test_elements_that_are_larger_than_their_stride(memory: np.ndarray) -> None:
    x = at(memory, dtype=wp.vec3, shape=(3,), strides=(8,))
    with pytest.raises(wp.GradcheckError, match=r"x\[0\] and x\[1\] lie in the same memory \(shape \(3,\), "):
        gradcheck(norm, 3, [x], [k.vector(np.zeros(3))])
    apart = at(memory, dtype=wp.vec3, shape=(3,), strides=(16,))
    assert gradcheck(norm, 3, [apart], [k.vector(np.zeros(3))], **QUIET)


@pytest.mark.parametrize(
    "shape, strides, met",
    [
        ((2, 3), (12, 8), None),  # interleaved, and yet no two are one
        ((2, 3), (8, 8), ((0, 1), (1, 0))),
        ((3, 2), (-4, 4), ((1, 0), (2, 1))),
        ((1, 4), (0, 4), None),  # a stride of nothing
        ((4, 0), (0, 4), None),
        ((5,), (-4,), None),
        ((2, 2, 2), (4, 8, 16), None),
        ((2, 2, 2), (4, 8, 12), ((0, 0, 1), (1, 1, 0))),
    ],
)
def test_whether_strides_meet(shape: tuple, strides: tuple, met: Any) -> None:
    from tapedebug.autograd.subjects.overlaps import _meeting

    found = _meeting(shape, strides, 4)
    offsets = {index: sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)}
    assert (found is not None) == (len(set(offsets.values())) < len(offsets))
    if found is not None:
        assert offsets[found[0]] == offsets[found[1]] and found[0] != found[1]
    assert found == met


def test_constants_may_overlap_themselves(memory: np.ndarray) -> None:
    """A broadcast factor without a gradient is displaced by nobody."""
    factor = wp.array(ptr=memory.ctypes.data + 8, shape=(4,), strides=(0,), dtype=float)
    x, y = k.vector([1.0, 2.0, 3.0, 4.0]), k.vector(np.zeros(4))
    assert gradcheck(product, 4, [x, factor], [y], **QUIET)


def test_a_mask_may_leave_an_overlapping_array_out(memory: np.ndarray) -> None:
    factor = at(memory, 2, shape=(4,), strides=(0,))
    x, y = k.vector([1.0, 2.0, 3.0, 4.0]), k.vector(np.zeros(4))
    assert gradcheck(product, 4, [x, factor], [y], input_output_mask=[("a", "y")], **QUIET)
    with pytest.raises(wp.GradcheckError, match="kernel product: b overlaps itself"):
        gradcheck(product, 4, [x, factor], [y])


def test_of_a_function(memory: np.ndarray) -> None:
    def function(x: Any) -> Any:
        y = wp.zeros(4, dtype=float, requires_grad=True)
        wp.launch(k.square, 4, [x, y])
        return y

    with pytest.raises(wp.GradcheckError, match="^function function: x overlaps itself"):
        gradcheck(function, inputs=[at(memory, shape=(4,), strides=(0,))])


def test_of_a_launch_on_a_tape_the_pair_is_left_out_and_coverage_says_so(memory: np.ndarray) -> None:
    x, y = at(memory, shape=(4,), strides=(0,)), k.vector(np.zeros(4))
    with wp.Tape() as tape:
        wp.launch(k.square, 4, [x, y])
        wp.launch(k.cube, 4, [y, k.vector(np.zeros(4))])
    result = gradcheck_tape(tape, **QUIET)
    assert [(pair.launch, pair.verdict) for pair in result.pairs] == [(1, "AGREE")]
    assert any("launch 0 (square): " in note and "overlaps itself" in note for note in result.coverage.notes)
    assert (result.coverage.launches, result.coverage.checked) == (2, 1)


# ------------------------------------------------------------------ two arrays


@pytest.mark.filterwarnings("ignore:the memory of this array")
def test_two_blocks_that_overlap_in_part(memory: np.ndarray) -> None:
    x, y = at(memory, shape=(4,)), at(memory, 2, shape=(4,))
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck(k.square, 4, [x], [y])
    message = re.sub("0x[0-9a-f]+", "0x…", caught.value.message)
    assert message == (
        "kernel square: x (16 bytes at 0x…) and y (16 bytes at 0x…) overlap in memory, but are no slices of "
        "one array: what is written through one changes the other, and their gradients know nothing of it"
    )
    assert caught.value.hint == (
        "make one array of all of that memory, and pass slices of it: they share its gradient"
    )
    one = at(memory, shape=(12,))
    assert gradcheck(k.square, 4, [one[0:4]], [one[2:6]], **QUIET)


@pytest.mark.filterwarnings("ignore:the memory of this array")
def test_a_constant_that_overlaps_an_input(memory: np.ndarray) -> None:
    x = at(memory, shape=(4,))
    constant = wp.array(ptr=memory.ctypes.data + 8, shape=(4,), dtype=float)
    with pytest.raises(wp.GradcheckError, match=r"kernel product: a \(16 bytes at .*\) and b \(16 bytes"):
        gradcheck(product, 4, [x, constant], [k.vector(np.zeros(4))])


@pytest.mark.filterwarnings("ignore:the memory of this array")
def test_two_blocks_whose_elements_alternate_do_not_overlap(memory: np.ndarray) -> None:
    x, y = at(memory, shape=(4,), strides=(8,)), at(memory, 1, shape=(4,), strides=(8,))
    assert x.buffer is not y.buffer
    assert gradcheck(k.square, 4, [x], [y], **QUIET)


# ------------------------------------------------------------------ what is well defined


def parent() -> Any:
    return k.vector(np.arange(1.0, 9.0))


@pytest.mark.parametrize(
    "views",
    [
        lambda p: (p, p, None),  # one array twice
        lambda p: (p[0:4], p[0:4], None),  # one slice twice
        lambda p: (p[0:4], p[1:5], None),  # slices that overlap
        lambda p: (p[0::2], p[1::2], None),  # slices that alternate
        lambda p: (p[0:4], p[4:8], p[2:6]),  # an output that overlaps both
        lambda p: (p, p, p),  # in place
        lambda p: (p[4:8], p[0:4], p[4:8]),  # in place, with another slice
    ],
)
def test_slices_of_one_array_share_its_gradient(views: Any) -> None:
    p = parent()
    a, b, y = views(p)
    y = k.vector(np.zeros(4)) if y is None else y
    result = gradcheck(product, 4, [a, b], [y], **QUIET)
    assert result.verdict == "AGREE", result.summary()
    # What the user's own reverse pass leaves in the parent is what differences of the parent give.
    with wp.Tape() as tape:
        wp.launch(product, 4, [a, b, y])
    start = tape.replay(dtype=wp.float64, stop=0).values(a)
    tape.backward(grads={y: np.ones(y.shape, dtype=np.float32)})
    for i in range(len(start)):
        step = 1e-4 * np.eye(len(start))[i]
        up, down = (tape.replay({a: start + s}, dtype=wp.float64).values(y).sum() for s in (step, -step))
        assert a.grad.numpy()[i] == pytest.approx((up - down) / 2e-4, rel=1e-5)


def test_an_array_in_place() -> None:
    p = k.vector([0.5, 3.0])
    result = gradcheck(k.times, 2, [k.vector([2.0, 5.0])], [p], **QUIET)
    assert [(pair.input, pair.verdict) for pair in result.pairs] == [
        ("x", "AGREE"),
        ("y (in place)", "AGREE"),
    ]
    assert gradcheck(k.square, 2, [p], [p], **QUIET)
