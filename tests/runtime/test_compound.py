"""Arrays of matrices, quaternions and narrow integers: construction, views, launches, tapes, replay."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.lang import types


@wp.kernel
def move(
    m: wp.array(dtype=wp.mat33),
    v: wp.array(dtype=wp.vec3),
    frame: wp.mat33,
    turn: wp.quat,
    out: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    out[i] = wp.quat_rotate(turn, frame @ (m[i] @ v[i]))


@wp.kernel
def rebuild(m: wp.array(dtype=wp.mat22), loss: wp.array(dtype=float)):
    i = wp.tid()
    a = m[i]
    a[0] = a[1] * 2.0
    for k in range(2):
        a[k, 1 - k] = a[k, k] * a[0, 0]
    a[1, 1] *= 3.0
    m[i][0, 1] = 0.5
    m[i][1] = a[0]
    wp.atomic_add(loss, 0, wp.determinant(a) + wp.trace(m[i]))


MATRICES = np.arange(18, dtype=np.float32).reshape(2, 3, 3)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (MATRICES, wp.mat33),
        (MATRICES.reshape(2, 9), wp.mat33),
        (MATRICES.reshape(18), wp.mat33),
        (MATRICES.tolist(), wp.mat33),
        ([wp.mat33(*row) for row in MATRICES.reshape(2, 9)], wp.mat33),
        (MATRICES[0, :2, :2].reshape(1, 4), wp.quat),
        ([wp.quat(1, 2, 3, 4), wp.quat(0, 0, 0, 1)], wp.quatd),
        (np.arange(12), types.matrix((2, 3), int)),
    ],
)
def test_construction(data, dtype):
    a = wp.array(data, dtype=dtype)
    expected = np.asarray(data, dtype.scalar.numpy).reshape(-1, *dtype.shape)
    assert a.shape == expected.shape[:1]
    assert a.numpy().shape == expected.shape
    assert (a.numpy() == expected).all()
    assert str(a) == str(expected)
    assert [type(e) for e in a.list()] == [dtype] * len(expected)
    assert (np.asarray(a[0]) == expected[0]).all()
    assert type(a[0]) is dtype


def test_fill_full_ones_and_slices():
    a = wp.full(3, wp.mat22(1, 2, 3, 4))
    assert a.dtype is wp.mat22
    assert (a.numpy() == [[1, 2], [3, 4]]).all()
    a.fill_(wp.mat22(5, 6, 7, 8))
    a[1] = wp.mat22(0, 0, 0, 1)
    assert a.numpy()[:, 1].tolist() == [[7, 8], [0, 1], [7, 8]]
    assert (wp.ones(2, dtype=wp.quat).numpy() == 1).all()
    assert a[1:].numpy().tolist() == a.numpy()[1:].tolist()
    assert wp.clone(a).numpy().tolist() == a.numpy().tolist()


def test_numpy_memory_is_shared_where_the_components_are_side_by_side():
    memory = np.zeros((4, 2, 2), np.float32)
    shared = wp.array(memory[::2], dtype=wp.mat22, copy=False)
    shared.fill_(1)
    assert memory.sum() == 8
    with pytest.raises(wp.ArrayError) as caught:
        wp.array(memory.swapaxes(1, 2), dtype=wp.mat22, copy=False)
    assert str(caught.value) == (
        "array: copy=False needs the components of a mat22 side by side; the NumPy array has strides "
        "(16, 4, 8)\n  = hint: pass copy=True, or a contiguous NumPy array"
    )


def test_misfits():
    for action, message in (
        (
            lambda: wp.array(np.zeros((2, 4), np.float32), dtype=wp.mat33),
            "array: data of shape (2, 4) cannot be elements of mat33: its last dimension, 4, is not a "
            "multiple of 9\n  = hint: pass data of shape (…, 3, 3)",
        ),
        (
            lambda: wp.full(2, (1.0, 2.0), dtype=wp.quat),
            "full: (1.0, 2.0) is not a value of quat\n  = hint: pass 4 numbers",
        ),
    ):
        with pytest.raises(wp.ArrayError) as caught:
            action()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    "frame",
    [
        wp.mat33(*range(9)),
        np.arange(9.0).reshape(3, 3),
        np.arange(9.0),
        np.arange(9.0).reshape(3, 3).tolist(),
    ],
)
def test_values_are_passed_to_launches(frame):
    turn = wp.quat(0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))
    v = np.array([[1, 2, 3], [0, 1, 0]], np.float32)
    out = wp.zeros(2, dtype=wp.vec3)
    wp.launch(move, 2, inputs=[MATRICES, v, frame, turn], outputs=[out])
    moved = np.einsum("ij,ajk,ak->ai", np.arange(9.0).reshape(3, 3), MATRICES, v)
    expected = np.stack([-moved[:, 1], moved[:, 0], moved[:, 2]], -1)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)


def test_wrong_values_for_launches():
    out = wp.zeros(2, dtype=wp.vec3)
    for frame, got, hint in (
        (wp.mat22(), "got mat22(0.0, 0.0, 0.0, 0.0) (mat22), which has 4 components", "pass 9 numbers"),
        (1.0, "got 1.0 (float)", "pass mat33(…)"),
    ):
        with pytest.raises(wp.LaunchError) as caught:
            wp.launch(move, 2, inputs=[MATRICES, np.zeros((2, 3), np.float32), frame, wp.quat(), out])
        first, *_, last = str(caught.value).splitlines()
        assert first == f"launch of move: argument 'frame' (number 3) must be mat33; {got}"
        assert last == f"  = hint: {hint}"


def test_gradients_of_matrices_replay_and_check():
    rng = np.random.default_rng(5)
    m = wp.array(rng.normal(size=(3, 2, 2)), dtype=wp.mat22, requires_grad=True)
    before = m.numpy().copy()
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rebuild, 3, inputs=[m], outputs=[loss])
    tape.backward(loss)
    shadow = tape.replay(dtype=wp.float64)
    shadow.forward()
    gradient = m.grad.numpy().copy()
    direction = rng.normal(size=before.shape)

    def objective(step: float) -> float:
        moved = tape.replay(inputs={m: before + step * direction}, dtype=wp.float64)
        moved.forward()
        return float(moved.values(loss)[0])

    difference = (objective(1e-6) - objective(-1e-6)) / 2e-6
    np.testing.assert_allclose((gradient * direction).sum(), difference, rtol=1e-5)
    np.testing.assert_allclose(loss.numpy()[0], objective(0.0), rtol=1e-5)
    assert bool(wp.autograd.gradcheck_tape(tape, show_summary=False))
    assert wp.diagnose(tape).verdict == "AGREE"


@wp.kernel
def narrow(x: wp.array(dtype=wp.uint8), y: wp.array(dtype=wp.uint64), small: wp.int16, large: wp.uint64):
    i = wp.tid()
    x[i] += wp.uint8(small)
    y[i] = (large >> wp.uint64(1)) + wp.uint64(x[i])


def test_narrow_and_unsigned_integers():
    x = wp.array(np.array([250, 3], np.uint8))
    y = wp.zeros(2, dtype=wp.uint64)
    assert x.dtype is wp.uint8
    wp.launch(narrow, 2, inputs=[x, y, -10, 2**64 - 1])
    assert x.numpy().tolist() == [240, 249]
    assert y.numpy().tolist() == [2**63 - 1 + 240, 2**63 - 1 + 249]
    for small, large, said in (
        (2**15, 0, "argument 'small' (number 3) must be int16; got 32768, outside -32768 … 32767"),
        (0, -1, "argument 'large' (number 4) must be uint64; got -1, outside 0 … 18446744073709551615"),
    ):
        with pytest.raises(wp.LaunchError) as caught:
            wp.launch(narrow, 2, inputs=[x, y, small, large])
        assert str(caught.value).splitlines()[0] == f"launch of narrow: {said}"


def test_values_outside_kernels():
    m = wp.mat22(1, 2, 3, 4)
    assert repr(m) == "mat22(1.0, 2.0, 3.0, 4.0)"
    assert (m[1, 0], len(m), m == wp.mat22([[1, 2], [3, 4]])) == (3.0, 2, True)
    assert m @ wp.vec2(1, 1) == wp.vec2(3, 7)
    assert m @ m == wp.mat22(7, 10, 15, 22)
    assert m * 2.0 - m == m
    assert hash(m) == hash(wp.mat22(1, 2, 3, 4))
    q = wp.quat(1, 2, 3, 4)
    assert (q.x, q.w) == (1.0, 4.0)
    assert q * wp.quat(0, 0, 0, 1) == q
    assert wp.types.quaternion(wp.float64) is wp.quatd
    assert wp.types.matrix((10, 2), float).__name__ == "mat10x2"
    assert wp.vec3ub(255, 0, 1)[0] == 255
    for action, message in (
        (
            lambda: wp.mat22(1, 2, 3),
            "mat22 takes 4 components, one value for all of them, or none (zeros); got 3\n"
            "  = hint: pass 4 numbers",
        ),
        (
            lambda: wp.types.quaternion(int),
            "a quaternion's components are floats (float16, bfloat16, float32, float64); got int32",
        ),
        (lambda: wp.types.matrix(3, float), "a matrix's shape is (rows, columns); got 3"),
        (lambda: wp.types.matrix((0, 3), float), "a matrix's shape is two positive integers; got (0, 3)"),
        (lambda: wp.types.vector(-1, float), "a vector's length is an integer from 0; got -1"),
        (
            lambda: wp.types.matrix((2, 2), wp.vec3),
            "a matrix's components are scalars (float32, int32, …); got vec3",
        ),
    ):
        with pytest.raises(TypeError) as caught:
            action()
        assert str(caught.value) == message


@wp.kernel
def divide(x: wp.array(dtype=wp.vec2), frame: wp.mat22, large: wp.uint64, loss: wp.array(dtype=float)):
    i = wp.tid()
    y = frame @ x[i]
    if large > wp.uint64(5):
        y = y / frame[1, 0]
    wp.atomic_add(loss, 0, y[0])


def test_a_thread_with_a_matrix_and_an_unsigned_argument_can_be_followed():
    x = wp.array(np.ones((2, 2), np.float32), dtype=wp.vec2, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(divide, 2, inputs=[x, wp.mat22(1, 2, 0, 4), 2**64 - 1, loss])
    tape.backward(loss)
    found = [f for f in wp.diagnose(tape).findings if "finite" in f.rule or "nan" in f.rule]
    assert found
    where = found[0].location
    line = Path(where["file"]).read_text(encoding="utf-8").splitlines()[where["line"] - 1]
    assert line.strip() == "y = y / frame[1, 0]"


def test_tangents_are_the_transpose_of_adjoints():
    m = wp.array(MATRICES / 9, dtype=wp.mat33, requires_grad=True)
    other = wp.zeros(2, dtype=wp.mat33, requires_grad=True)
    v = wp.array([(1, 2, 3), (-1, 0, 2)], dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    frame, turn = wp.mat33(*range(9)), wp.quat(0.5, 0.5, -0.5, 0.5)
    with wp.Tape() as tape:
        wp.copy(other, m)
        other[1:].fill_(wp.mat33(1, 2, 3, 4, 5, 6, 7, 8, 9))
        wp.launch(move, 2, inputs=[other, v, frame, turn], outputs=[out])
    direction = {m: np.cos(MATRICES), v: np.array([(3, 1, 4), (1, 5, 9)])}
    seed = {out: np.array([(2, 7, 1), (8, 2, 8)])}
    products = []
    for cut in range(len(tape.records) + 1):
        there = tape.replay(dtype=wp.float64, stop=0).push(direction, stop=cut)
        back = tape.replay(dtype=wp.float64).backward(seed, stop=cut)
        products.append(there.inner(back)[0])
    assert abs(products[0]) > 1
    np.testing.assert_allclose(products, products[0], rtol=1e-12)
    assert not there.tangent(other)[1].any(), "a fill is constant"


def test_a_vector_without_components_has_a_value_and_no_arrays() -> None:
    empty = wp.types.vector(0, float)
    assert (len(empty()), list(empty()), str(empty())) == (0, [], "[]")
    assert empty() == empty()
    with pytest.raises(wp.ArrayError, match="vec0 has no components, and cannot be in elements of arrays"):
        wp.zeros(3, dtype=empty)


def test_annotations_write_types_in_brackets() -> None:
    types = wp.types
    assert types.Vector[wp.float32, Literal[3]] is wp.vec3
    assert types.Matrix[wp.float64, Literal[2], Literal[3]] is types.matrix((2, 3), wp.float64)
    assert (types.Quaternion[wp.float32], types.Transformation[float]) == (wp.quat, wp.transform)
    with pytest.raises(TypeError, match=r"Matrix\[…\] takes a scalar type, and for vectors the length"):
        types.Matrix[wp.float32, Literal[2]]


def test_integer_components_wrap_around() -> None:
    assert wp.types.vector(2, wp.uint8)(-1, 256) == (255, 0)
