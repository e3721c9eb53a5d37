"""Arrays whose axes are reversed, strided, transposed or offset, in lanes, in chunks and thread by thread.

Every array lies in a larger block of bytes that no launch may change, and so does every private copy that
chunks add to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import hvp, jvp
from tapedebug.runtime.memory.alias_spans import runs
from tapedebug.runtime.parallel import partition
from tests.compiler import parallel_comparison
from tests.runtime.guards import Blocks, Guarded

SIZES = (1, 7, 255, 256, 257, 30_000)
WAYS = list(itertools.product((True, False), (1, 2)))


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with parallel_comparison.always_cut(), Blocks():
        yield
    wp.config.lanes = True


def in_each_way(launched: Callable[[], None]) -> None:
    for lanes, threads in WAYS:
        wp.config.lanes, wp.config.num_threads = lanes, threads
        launched()


# Each takes an array of at least the shape that the view is to have, and gives the view.
AXIS = {
    "plain": lambda a: a,
    "reversed": lambda a: a[::-1],
    "strided": lambda a: a[::2],
    "backwards in steps": lambda a: a[::-3],
    "offset": lambda a: a[3:],
    "reversed in the middle": lambda a: a[-2:1:-1],
}
GRID = {
    "transposed": lambda a: a.T,
    "rows reversed": lambda a: a[::-1],
    "columns reversed": lambda a: a[:, ::-1],
    "both reversed": lambda a: a[::-1, ::-1],
    "transposed and reversed": lambda a: a.T[::-1],
    "part": lambda a: a[1:-1, 2::2],
    "transposed part": lambda a: a[::-2, 1:-1].T,
}


@wp.kernel
def at_one(x: wp.array(dtype=float), v: wp.array(dtype=float), second: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(v, 1, x[i])
    wp.atomic_sub(second, 0, 2.0 * x[i])


@wp.kernel
def at_some(x: wp.array(dtype=float), v: wp.array(dtype=float), second: wp.array(dtype=float)):
    i = wp.tid()
    v[i % 3] += x[i]
    wp.atomic_add(second, (i + 1) % 2, -2.0 * x[i])


@pytest.mark.parametrize("layout", AXIS)
@pytest.mark.parametrize("kernel", [at_one, at_some])
def test_sums_into_any_row(kernel: Any, layout: str) -> None:
    def launched() -> None:
        for n in SIZES:
            x, v, second = Guarded((n,)), Guarded((12,), AXIS[layout]), Guarded((9,), AXIS[layout])
            x.values[...] = 1.0
            v.values[...], second.values[...] = 0.0, 0.0
            wp.launch(kernel, n, [x.array(), v.array(), second.array()])
            expected, other = np.zeros(v.shape), np.zeros(second.shape)
            if kernel is at_one:
                expected[1], other[0] = n, -2.0 * n
            else:
                expected[:3] = [len(range(k, n, 3)) for k in range(3)]
                other[:2] = -2.0 * len(range(1, n, 2)), -2.0 * len(range(0, n, 2))
            np.testing.assert_array_equal(v.values, expected, err_msg=f"{n} threads")
            np.testing.assert_array_equal(second.values, other, err_msg=f"{n} threads")
            for each in (x, v, second):
                each.check()

    in_each_way(launched)


@wp.kernel
def into_grid(x: wp.array(dtype=float), v: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(v, 1, i % 4, x[i])
    wp.atomic_add(v, i % 3, 2, x[i])
    loss[0] += x[i]


@wp.kernel
def rows_of_grid(x: wp.array(dtype=float), v: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(v, 1, i, x[i])
    wp.atomic_add(v, 1, i + 1, 2.0 * x[i])
    wp.atomic_add(v, 1, i + 2, 4.0 * x[i])


@pytest.mark.parametrize("layout", GRID)
def test_sums_into_any_grid(layout: str) -> None:
    def launched() -> None:
        for n in SIZES:
            x, v, loss = Guarded((n,)), Guarded((9, 12), GRID[layout]), Guarded((1,))
            x.values[...], v.values[...], loss.values[...] = 1.0, 0.0, 0.0
            wp.launch(into_grid, n, [x.array(), v.array(), loss.array()])
            expected = np.zeros(v.shape)
            np.add.at(expected, (1, np.arange(n) % 4), 1.0)
            np.add.at(expected, (np.arange(n) % 3, 2), 1.0)
            np.testing.assert_array_equal(v.values, expected, err_msg=f"{n} threads")
            assert loss.values[0] == n
            wide = Guarded((n + 20, n + 20) if n < 300 else (4, n + 2), GRID[layout] if n < 300 else None)
            wide.values[...] = 0.0
            wp.launch(rows_of_grid, min(n, wide.shape[1] - 2), [x.array(), wide.array()])
            expected = np.zeros(wide.shape)
            for by in range(3):
                expected[1, by : by + min(n, wide.shape[1] - 2)] += 2.0**by
            np.testing.assert_array_equal(wide.values, expected, err_msg=f"{n} threads")
            for each in (x, v, loss, wide):
                each.check()

    in_each_way(launched)


def test_neighbours_in_rows_that_are_reversed() -> None:
    """Rows lie before the array's first element, so that all of what neighbours carry has negative places."""

    def launched() -> None:
        for n in SIZES:
            x, v = Guarded((n,)), Guarded((4, n + 2), lambda a: a[::-1])
            x.values[...], v.values[...] = 1.0, 0.0
            wp.launch(rows_of_grid, n, [x.array(), v.array()])
            expected = np.zeros(v.shape)
            for by in range(3):
                expected[1, by : by + n] += 2.0**by
            np.testing.assert_array_equal(v.values, expected, err_msg=f"{n} threads")
            v.check()

    in_each_way(launched)


@wp.kernel
def into_room(x: wp.array(dtype=float), v: wp.array3d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(v, i % 2, 1, i % 3, x[i])


@wp.kernel
def into_four(x: wp.array(dtype=float), v: wp.array4d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(v, 1, i % 2, 0, i % 3, x[i])


@pytest.mark.parametrize("ndim", [3, 4])
def test_sums_into_every_order_and_sign_of_axes(ndim: int) -> None:
    kernel, n = (into_room, into_four)[ndim - 3], 4000
    wp.config.num_threads = 2
    shape = (4, 5, 6, 7)[4 - ndim :]
    for k, order in enumerate(itertools.permutations(range(ndim))):
        for signs in [*itertools.product((1, -1, 2), repeat=ndim)][k % 4 :: 4]:
            view = tuple(slice(None, None, sign) for sign in signs)
            x, v = Guarded((n,)), Guarded(shape, lambda a, o=order, w=view: a.transpose(o)[w])
            if v.shape[-1] < 3 or min(v.shape) < 2:
                continue
            x.values[...], v.values[...] = 1.0, 0.0
            wp.launch(kernel, n, [x.array(), v.array()])
            i, expected = np.arange(n), np.zeros(v.shape)
            place = (i % 2, 1, i % 3) if ndim == 3 else (1, i % 2, 0, i % 3)
            np.add.at(expected, place, 1.0)
            np.testing.assert_array_equal(v.values, expected, err_msg=f"{order} {signs}")
            v.check()


@wp.struct
class Cell:
    """A float between integers whose bits are those of numbers that arithmetic changes."""

    before: int
    mass: float
    load: wp.vec3
    after: wp.int64


@wp.kernel
def into_fields(x: wp.array(dtype=float), mass: wp.array(dtype=float), load: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    wp.atomic_add(mass, i % 5, x[i])
    wp.atomic_add(load, i % 7, wp.vec3(x[i], 0.0, -x[i]))


@pytest.mark.parametrize("bits", [-5_000_000, -(2**31), 2139095041])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_fields_beside_a_sum_keep_their_bits(bits: int, step: int) -> None:
    """Copies of a field are added up, and nothing between: -0.0 + 0.0 is not -0.0, and a NaN may change."""
    n = 30_000

    def launched() -> None:
        cells = wp.zeros(16, dtype=Cell)
        values = cells.numpy()
        values["before"], values["after"] = bits, bits * 2**32 + 1
        wp.launch(into_fields, n, [wp.ones(n), cells["mass"][::step], cells["load"][::step]])
        assert (values["before"] == bits).all() and (values["after"] == bits * 2**32 + 1).all()
        np.testing.assert_array_equal(values["mass"][::step][:8], [n / 5] * 5 + [0] * 3)
        counts = np.bincount(np.arange(n) % 7, minlength=8)
        np.testing.assert_array_equal(values["load"][::step][:8], counts[:, None] * [1, 0, -1])

    in_each_way(launched)


TYPES = {
    "float16": wp.float16,
    "float32": wp.float32,
    "float64": wp.float64,
    "int32": wp.int32,
    "int64": wp.int64,
    "uint32": wp.uint32,
}


@wp.kernel
def every_atomic(
    x: wp.array(dtype=Any),
    total: wp.array(dtype=Any),
    least: wp.array(dtype=Any),
    most: wp.array(dtype=Any),
    out: wp.array(dtype=Any),
):
    i = wp.tid()
    wp.atomic_add(total, i % 3, x[i])
    wp.atomic_min(least, 2, x[i])
    wp.atomic_max(most, i % 2, x[i])
    out[i] = x[i] + x[i]


@pytest.mark.parametrize("kind", TYPES)
def test_every_atomic_of_every_type(kind: str) -> None:
    dtype = np.dtype(kind)

    def launched() -> None:
        for n, layout in itertools.product((7, 257, 3000), ("reversed", "backwards in steps")):
            rng = np.random.default_rng(n)
            x = Guarded((3 * n,), AXIS[layout], dtype)
            n = x.shape[0]
            x.values[...] = rng.integers(0, 2 if kind == "float16" else 50, n)
            total, least, most = (Guarded((12,), AXIS[layout], dtype) for _ in range(3))
            out = Guarded((n,), AXIS["reversed"], dtype)
            total.values[...], least.values[...], most.values[...], out.values[...] = 0, 60, 0, 0
            arrays = [each.array(TYPES[kind]) for each in (x, total, least, most, out)]
            wp.launch(every_atomic, n, arrays)
            expected = [x.values[k::3].sum() for k in range(3)]
            np.testing.assert_allclose(total.values[:3], expected, rtol=1e-2 if kind == "float16" else 1e-6)
            assert least.values[2] == x.values.min() and (least.values[[0, 1, 3]] == 60).all()
            assert most.values[0] == x.values[::2].max() and most.values[1] == x.values[1::2].max()
            np.testing.assert_array_equal(out.values, x.values + x.values)
            for each in (x, total, least, most, out):
                each.check()

    in_each_way(launched)


@wp.kernel
def compound(m: wp.array(dtype=wp.mat22), v: wp.array(dtype=wp.vec3), sums: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    u = m[i] * wp.vec2(v[i][0], v[i][1])
    wp.atomic_add(sums, 1, wp.vec3(u[0], u[1], v[i][2]))
    v[i] = v[i] * 2.0


@pytest.mark.parametrize("layout", AXIS)
def test_vectors_and_matrices(layout: str) -> None:
    def launched() -> None:
        for n in (7, 256, 3000):
            m = Guarded((n, 2, 2), AXIS[layout])
            n = m.shape[0]
            if n < 1:
                continue
            v, sums = Guarded((4 * n + 9, 3), AXIS[layout]), Guarded((12, 3), AXIS[layout])
            rng = np.random.default_rng(n)
            m.values[...], v.values[...] = rng.integers(-3, 4, m.shape), rng.integers(-3, 4, v.shape)
            sums.values[...], before = 0.0, v.values.copy()
            wp.launch(compound, n, [m.array(wp.mat22), v.array(wp.vec3), sums.array(wp.vec3)])
            turned = np.einsum("nij,nj->ni", m.values, before[:n, :2]).sum(0)
            np.testing.assert_array_equal(sums.values[1], [*turned, before[:n, 2].sum()])
            assert not sums.values[0].any() and not sums.values[2:].any()
            before[:n] *= 2.0
            np.testing.assert_array_equal(v.values, before)
            for each in (m, v, sums):
                each.check()

    in_each_way(launched)


# -- derivatives -------------------------------------------------------------------------------------------


@wp.kernel
def model(
    p: wp.array(dtype=wp.float64),
    g: wp.array2d(dtype=wp.float64),
    x: wp.array(dtype=wp.float64),
    loss: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    y = p[1] * x[i] + wp.sin(p[i % 3] * x[i]) * g[1, i % 4] + p[0] * g[i % 3, 2] * p[0]
    wp.atomic_add(loss, 0, y * y)


def expected_of(p: np.ndarray, g: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss, and its gradient by p and g, by hand."""
    i = np.arange(len(x))
    sine, cosine = np.sin(p[i % 3] * x), np.cos(p[i % 3] * x)
    y = p[1] * x + sine * g[1, i % 4] + p[0] * g[i % 3, 2] * p[0]
    dp, dg = np.zeros_like(p), np.zeros_like(g)
    dp[1] += (2 * y * x).sum()
    np.add.at(dp, i % 3, 2 * y * cosine * x * g[1, i % 4])
    dp[0] += (2 * y * 2 * p[0] * g[i % 3, 2]).sum()
    np.add.at(dg, (1, i % 4), 2 * y * sine)
    np.add.at(dg, (i % 3, 2), 2 * y * p[0] * p[0])
    return float((y * y).sum()), dp, dg


@pytest.mark.parametrize(
    "row, grid", [*zip(AXIS, GRID, strict=False), ("reversed", "transposed and reversed")]
)
def test_gradients_tangents_and_second_derivatives_of_parameters(row: str, grid: str) -> None:
    def launched() -> None:
        for n in SIZES:
            rng = np.random.default_rng(n)
            p, g, x = (
                Guarded((12,), AXIS[row], np.float64),
                Guarded((9, 12), GRID[grid], np.float64),
                Guarded((n,), AXIS["reversed"], np.float64),
            )
            for each in (p, g, x):
                each.values[...] = rng.uniform(0.3, 1.2, each.shape)
            loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
            arrays = [each.array(wp.float64, requires_grad=True) for each in (p, g)]
            with wp.Tape() as tape:
                wp.launch(model, n, [*arrays, x.array(wp.float64), loss])
            tape.backward(loss)
            value, dp, dg = expected_of(p.values, g.values, x.values)
            np.testing.assert_allclose(loss.numpy()[0], value, rtol=1e-11)
            for a, expected in zip(arrays, (dp, dg), strict=True):
                np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-9, atol=1e-9)
                whole = a.buffer.adjoint.data.view(np.float64)
                assert np.count_nonzero(whole) == np.count_nonzero(expected), "written between elements"
            ways = [rng.normal(size=each.shape) for each in (p, g)]
            moved = jvp(tape, tangents=dict(zip(arrays, ways, strict=True)))
            along = float((dp * ways[0]).sum() + (dg * ways[1]).sum())
            np.testing.assert_allclose(moved[loss].reshape(-1)[0], along, rtol=1e-9)
            if n < 300:
                found = hvp(tape, loss=loss, tangents=dict(zip(arrays, ways, strict=True))).product
                sides = [
                    expected_of(p.values + h * ways[0], g.values + h * ways[1], x.values)[1:]
                    for h in (1e-5, -1e-5)
                ]
                for k, a in enumerate(arrays):
                    slope = (sides[0][k] - sides[1][k]) / 2e-5
                    np.testing.assert_allclose(found[a], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())
            for each in (p, g, x):
                each.check()

    in_each_way(launched)


# -- what carries it ---------------------------------------------------------------------------------------


def test_runs_say_where_elements_are() -> None:
    """The offsets that they stand for are those of the elements, lowest first."""
    for shape, order in itertools.product([(2, 3, 4), (5,), (3, 1, 2), (1, 1), (4, 4)], (0, 1)):
        block = np.zeros(np.prod(shape) * 30, np.float32)
        for signs in itertools.product((1, -1, 2, -3), repeat=len(shape)):
            whole = block[: np.prod(shape) * 20].reshape(*(n * 2 for n in shape[:-1]), -1)
            view = (whole.T if order else whole)[tuple(slice(None, None, s) for s in signs)]
            lie = runs(view.shape, view.strides, 4)
            offsets = [lie.low]
            for count, step in lie.axes:
                offsets = [one + k * step for k in range(count) for one in offsets]
            found = sorted(one + k for one in offsets for k in range(0, lie.run, 4))
            first = view.__array_interface__["data"][0]
            wanted = sorted(
                view[k : k + 1, ...].__array_interface__["data"][0] - first
                if view.ndim == 1
                else sum(i * s for i, s in zip(index, view.strides, strict=True))
                for k, index in enumerate(np.ndindex(view.shape))
            )
            assert found == wanted
            assert (lie.used, lie.span) == (4 * view.size, wanted[-1] - wanted[0] + 4 if view.size else 0)
    assert runs((3, 0), (4, 4), 4).span == 0


def test_a_private_block_that_is_written_beside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guards see the fault that they are for: a block that ends too early."""
    whole = partition._Partitioner._part

    def short(self: Any, share: Any) -> Any:
        part = whole(self, share)
        return part if share.param == 1 else partition._Part(part.share, part.before, part.runs, 0)

    monkeypatch.setattr(partition._Partitioner, "_part", short)
    n = 30_011  # no other test has launched so many, and knows how
    x, v, second = Guarded((n,)), Guarded((12,)), Guarded((9,))
    with pytest.raises(AssertionError, match="beside a private block"), Blocks():
        wp.launch(at_one, n, [x.array(), v.array(), second.array()])


@wp.kernel
def beside(v: wp.array(dtype=wp.vec3), x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i]
    v[i] = wp.vec3(1.0, 2.0, 3.0)


@pytest.mark.parametrize("first, expected", [(2, {"race"}), (1, set()), (0, set())])
def test_elements_that_reach_into_the_next_row_race(first: int, expected: set[str]) -> None:
    """In rows of four numbers, a vector from the third on ends in the next row, which another thread has."""
    a = wp.zeros(64, dtype=float, requires_grad=True)
    v = wp.array(ptr=a.ptr + 4 * first, shape=8, strides=(16,), dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(8, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(beside, 8, inputs=[v, a[3 * (first == 0) : 32 : 4], out])
    tape.backward(grads={out: wp.ones(8, dtype=float)})
    assert {each.rule for each in wp.diagnose(tape).findings} & {"race"} == expected
