"""Views and slices of arrays; slices and computed components of vectors and matrices."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check, check_gradient, check_tangent, run, twin

pytestmark = pytest.mark.unoptimized

# Arrays of numbers: what Python does with NumPy arrays is what is meant -------------------------------------


@wp.func
def scale_row(row: wp.array(dtype=float), factor: float):
    for k in range(row.shape[0]):
        row[k] = row[k] * factor + float(k)


@wp.func
def total(row: wp.array(dtype=float)):
    s = float(0.0)
    for k in range(len(row)):
        s += row[k] * row[-k - 1]
    return s


@wp.func
def last_row(m: wp.array2d(dtype=float)):
    return m[-1]


@wp.kernel
def rows(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    row = m[i]
    for k in range(m.shape[1]):
        row[k] += row[k] * y[i]
        y[i] += row[k] * row[k]


@wp.kernel
def from_the_end(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[-1 - i] = m[i - 2, -1] * m[-i - 1][i - 1]
    m[-1, i - 1] *= 0.5


@wp.kernel
def slices(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    inner = m[1:-1, i]
    back = m[::-1, 0:3]
    odd = back[1::2]
    y[i] = (
        inner[0] * back[0, i] + odd[-1, -1] * float(inner.shape[0]) + float(odd.shape[0] * 10 + odd.shape[1])
    )
    inner[-1] = y[i] * 0.1


@wp.kernel
def computed_slices(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a in range(-6, 7):
        for b in range(-6, 7):
            y[i] += 0.01 * float(m[a:b].shape[0]) + 0.1 * float(m[a:b:-1].shape[0] - m[a::3].shape[0])
    part = m[i - 2 :: 2]
    if part.shape[0] > 0:
        y[i] += part[0, i] * part[-1, -1]
        part[0, 0] *= 2.0


@wp.kernel
def passed_on(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i == 0:
        scale_row(m[0], 2.0)
        scale_row(m[1:, 1], 0.5)
        scale_row(m[-1, ::2], 3.0)
    y[i] = total(m[i]) + total(m[:, i]) + total(m[1:, i][::2]) + last_row(m)[i]


@wp.kernel
def chosen(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    row = m[0]
    s = float(0.0)
    for k in range(m.shape[1]):
        s += row[k] * row[1]
        row = m[k]
        if m[k, i] > 0.0:
            row = m[k - 1]
        else:
            row = m[0]
        row[0] += 0.25
    y[i] = s * row[i]


@wp.kernel
def deep(t: wp.array4d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = t[:, 1]
    b = a[i, :, 1:]
    c = t[i][1][0]
    y[i] = b[1, 0] * c[1] + t[0, :, i, 1][1] + float(b.shape[0] * 10 + b.shape[1])
    b[0, -1] = y[i] * c[-1]


def arguments(kernel):
    rng = np.random.default_rng(3)
    shape = (3, 2, 3, 2) if kernel is deep else (5, 4)
    return [rng.normal(size=shape).astype(np.float32), rng.normal(size=4).astype(np.float32)]


KERNELS = [rows, from_the_end, slices, computed_slices, passed_on, chosen, deep]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_views_are_those_of_python(kernel):
    check(kernel, 2 if kernel is deep else 3, arguments(kernel))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_views_of_arrays_with_any_strides(kernel):
    dim = 2 if kernel is deep else 3
    one = arguments(kernel)
    run(kernel, dim, one)
    two = arguments(kernel)
    turned = np.asfortranarray(two[0])
    run(kernel, dim, [turned, two[1]])
    np.testing.assert_array_equal(turned, one[0])
    np.testing.assert_array_equal(two[1], one[1])


@wp.kernel
def by_name(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    row = wp.view(m, i)
    y[i] = row[0] * row[-1]
    wp.view(m, i - 1)[1] += y[i]


@wp.kernel
def by_subscript(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    row = m[i]
    y[i] = row[0] * row[-1]
    m[i - 1][1] += y[i]


def test_views_by_name():
    one, two = arguments(rows), arguments(rows)
    run(by_name, 4, one)
    run(by_subscript, 4, two)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])
    check_gradient(by_name, 4, arguments(rows))
    check_tangent(by_name, 4, arguments(rows))


def test_an_index_that_is_not_negative_is_not_checked():
    @wp.kernel
    def forward_only(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        for k in range(3):
            y[i * 3 + k] = x[i + k] + x[(i + 1) % 4] + x[x.shape[0] // 2]

    assert "select" not in forward_only.source()


# Components: vectors are values, arrays of NumPy are not, so each kernel has its own formula --------------


@wp.kernel
def vector_slices(p: wp.array(dtype=wp.vec4), m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    v = p[i]
    w = v[1:3]
    v[::-2] = w * v[-1]
    v[0:3][1] = w[0]
    a = m[i]
    col = a[:, 1]
    a[0:2, 1:] = a[1:, 0:2] * 2.0
    a[-1] = col
    y[i][1:] = a[0] + a[1, ::-1]
    y[i][:1] += v[-2:-1]
    y[i][0] *= v[3]
    m[i][1:, 0] = w
    m[i][:, 2][1] -= v[0]
    p[i] = v


def vector_slices_in_numpy(p, m, y):
    for i in range(len(p)):
        v, a = p[i].copy(), m[i].copy()
        w = v[1:3].copy()
        v[::-2] = w * v[-1]
        v[1] = w[0]
        col = a[:, 1].copy()
        a[0:2, 1:] = a[1:, 0:2].copy() * 2.0
        a[-1] = col
        y[i][1:] = a[0] + a[1, ::-1]
        y[i][:1] += v[-2:-1]
        y[i][0] *= v[3]
        m[i][1:, 0] = w
        m[i][1, 2] -= v[0]
        p[i] = v


@wp.kernel
def computed_components(p: wp.array(dtype=wp.vec4), m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    for k in range(-4, 4):
        p[i][k] = p[i][k] * 1.5 + p[i][-1]
        y[i][(k + 4) % 3 - 3] += p[i][k] * p[i][k]
    for r in range(3):
        m[i][r, 2 - r] += p[i][r]
        m[i][-r - 1, 1] *= p[i][i]
        m[i][r] = m[i][r] * m[i][r, r]
        m[i][1:, r] -= p[i][0:2]
        m[i][r][1] = y[i][r] * m[i][0, 0]
    m[i][i + 2, 3 - i * 4] = 9.0
    p[i][7 * i] += 5.0


def computed_components_in_numpy(p, m, y):
    for i in range(len(p)):
        for k in range(-4, 4):
            p[i][k] = p[i][k] * 1.5 + p[i][-1]
            y[i][(k + 4) % 3 - 3] += p[i][k] * p[i][k]
        for r in range(3):
            m[i][r, 2 - r] += p[i][r]
            m[i][-r - 1, 1] *= p[i][i]
            m[i][r] = m[i][r] * m[i][r, r]
            m[i][1:, r] -= p[i][0:2]
            m[i][r][1] = y[i][r] * m[i][0, 0]
        if i == 0:  # elsewhere there is no such component, and nothing happens
            p[i][0] += 5.0


@wp.kernel
def swaps(p: wp.array(dtype=wp.vec4), m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    j = (i + 1) % 3
    p[i], p[j] = p[j], p[i] * 2.0
    a = b = p[i][0] * p[i][1]
    p[i].x, m[i][0, 1] = a * a, b
    y[i] = y[j] = p[i] * a
    (c, d), e = (y[i].x, y[i].y), y[i].z
    y[i][1], y[i][i] = c * e, d


def swaps_in_numpy(p, m, y):
    for i in range(len(p)):
        j = (i + 1) % 3
        p[i], p[j] = p[j].copy(), p[i] * 2.0
        a = p[i][0] * p[i][1]
        p[i][0], m[i][0, 1] = a * a, a
        y[i] = y[j] = p[i] * a
        c, d, e = y[i][:3].copy()
        y[i][1], y[i][i] = c * e, d


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (vector_slices, vector_slices_in_numpy),
        (computed_components, computed_components_in_numpy),
        (swaps, swaps_in_numpy),
    ],
    ids=lambda k: getattr(k, "key", ""),
)
def test_components(kernel, formula):
    rng = np.random.default_rng(4)
    args = [rng.uniform(0.3, 1.0, s).astype(np.float32) for s in ((3, 4), (3, 3, 3), (3, 4))]
    expected, found = twin(args), twin(args)
    formula(*expected)
    run(kernel, 3, found, f64=True)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)
    check_gradient(kernel, 3, args, tolerance=1e-6)
    check_tangent(kernel, 3, args)


def test_a_slice_of_a_quaternion_is_a_vector():
    @wp.kernel
    def axis(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        v[i] = q[i][0:3] * q[i][-1]
        q[i][1:3] = v[i][::2]

    q, v = np.array([[1, 2, 3, 4]], np.float32), np.zeros((1, 3), np.float32)
    run(axis, 1, [q, v])
    assert v.tolist() == [[4, 8, 12]]
    assert q.tolist() == [[1, 4, 12, 4]]
    check_gradient(axis, 1, [q, v])


def test_what_a_targets_index_computes_is_computed_once():
    @wp.kernel
    def once(counter: wp.array(dtype=int), p: wp.array(dtype=wp.vec3), x: wp.array(dtype=float)):
        v = wp.vec3(1.0, 2.0, 3.0)
        v[wp.atomic_add(counter, 0, 1)] += 10.0
        p[wp.atomic_add(counter, 0, 1)][1] *= 4.0
        x[wp.atomic_add(counter, 0, 1)] -= 1.0
        p[0] = v

    counter, p, x = np.zeros(1, np.int32), np.ones((3, 3), np.float32), np.zeros(3, np.float32)
    run(once, 1, [counter, p, x])
    assert counter[0] == 3
    assert p.tolist() == [[11, 2, 3], [1, 4, 1], [1, 1, 1]]
    assert x.tolist() == [0, 0, -1]


# Views of what else there is ------------------------------------------------------------------------------


@wp.func
def ends(row: wp.array(dtype=float), s: float):
    return row[0] * row[-1] * s


@wp.func_grad(ends)
def adj_ends(row: wp.array(dtype=float), s: float, adj_ret: float):
    wp.adjoint[row][0] += row[-1] * s * adj_ret
    wp.adjoint[row][-1] += row[0] * s * adj_ret
    wp.adjoint[s] += row[0] * row[-1] * adj_ret


@wp.kernel
def adjoints_of_views(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = ends(m[i], 2.0) + ends(m[:, i], y[i] + 1.0) + ends(m[1:, -1][::-1], m[0, 0])


def test_gradients_of_the_users_see_views():
    rng = np.random.default_rng(3)
    check_gradient(adjoints_of_views, 3, [rng.normal(size=s).astype(np.float32) for s in ((3, 3), 3)])


@wp.struct
class Body:
    pos: wp.vec3
    mass: float


@wp.func
def moment(bodies: wp.array(dtype=Body)):
    s = 0.0
    for k in range(bodies.shape[0]):
        s += bodies[k].mass * bodies[k].pos[k - 1]
    return s


@wp.kernel
def slices_of_structs(bodies: wp.array(dtype=Body), y: wp.array(dtype=float)):
    i = wp.tid()
    part = bodies[1:]
    y[i] = part[-1].pos[i] * bodies[-1].mass + moment(bodies[:2])
    part[i].pos[i] += y[i] * 0.1
    part[i - 1].mass *= 2.0


def test_slices_of_arrays_of_structs():
    values = [((1.0, 2.0, 3.0), 1.0), ((4.0, 5.0, 6.0), 2.0), ((7.0, 8.0, 9.0), 3.0)]
    bodies = wp.array(values, dtype=Body, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    assert wp.autograd.gradcheck(slices_of_structs, dim=2, inputs=[bodies], outputs=[y], show_summary=False)
    wp.launch(slices_of_structs, dim=1, inputs=[bodies, y])
    assert y.numpy().tolist() == [7.0 * 3.0 + 1.0 * 3.0 + 2.0 * 4.0, 0.0]


@wp.kernel
def stepped(
    x: wp.array(dtype=float), m: wp.array2d(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)
):
    i = wp.tid()
    part = x[1 :: n[i]]
    twice = part[:: n[1]][::-1]
    row = m[1, :: n[1]]
    for k in range(n[0]):
        row = m[k, :: n[i]]
    if n[i] > 1:
        row = m[0, :: n[i]]
    y[i] = float(part.shape[0]) + 10.0 * float(twice.shape[0])
    for k in range(twice.shape[0]):
        y[i] += twice[k] * part[k] * row[-1]


def test_steps_that_are_known_only_at_run_time() -> None:
    x, m = np.linspace(0.5, 1.5, 9, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    n = np.array([1, 2, 3, -1, 0], np.int32)
    y = np.zeros(5, np.float32)
    run(stepped, 4, [x, m, n, y])
    expected = []
    for step in n[:4]:
        part = x[1::step]
        twice, row = part[:: n[1]][::-1], m[0, ::step]
        expected.append(len(part) + 10 * len(twice) + float(row[-1]) * sum(twice * part[: len(twice)]))
    np.testing.assert_allclose(y[:4], expected, rtol=2e-6)
    check_gradient(stepped, 4, [x, m, n, y])
    check_tangent(stepped, 4, [x, m, n, y])


@wp.kernel
def length_of_steps(x: wp.array(dtype=float), n: int, y: wp.array(dtype=int)):
    y[0] = x[::n].shape[0]


def test_a_step_of_0_has_no_elements() -> None:
    y = np.ones(1, np.int32)
    run(length_of_steps, 1, [np.zeros(4, np.float32), 0, y])
    assert y.tolist() == [0]


# One of two arrays ------------------------------------------------------------------------------------------


@wp.func
def longer(a: wp.array(dtype=float), b: wp.array(dtype=float), i: int):
    if a[i] > b[i]:
        return a
    return b


@wp.kernel
def chosen(
    x: wp.array(dtype=float), y: wp.array(dtype=float), m: wp.array2d(dtype=float), z: wp.array(dtype=float)
):
    i = wp.tid()
    row = m[i]
    if i > 1:
        row = y[1:]
    a = x if i % 2 == 0 else y
    s = a[i] * row[-1] + longer(x, y, i)[i] * row[0]
    back = a[::-1]
    z[i] = s * back[-1 - i] + float(row.shape[0])
    a[i] = s * a[i]
    a[i] += x[i]
    large = longer(x, y, i)
    large[i] *= 1.5


@wp.kernel
def vectors(p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    a = p
    if y[i] > 0.6:
        a = q
    a[i][1] *= y[i]
    a[i][i] = a[i][0] * 2.0 + a[i][2]
    y[i] = wp.dot(a[i], p[i])


def floats(*shape, seed=2):
    return np.random.default_rng(seed).uniform(0.3, 1.2, shape).astype(np.float32)


def test_one_of_two_arrays_is_read_and_written():
    x, y, m, z = floats(4), floats(4, seed=5), floats(4, 4, seed=7), floats(4, seed=9)
    check(chosen, 4, [x, y, m, z])
    check_gradient(chosen, 4, [x, y, m, z])
    check_tangent(chosen, 4, [x, y, m, z])
    p, q = floats(3, 3), floats(3, 3, seed=11)
    check(vectors, 3, [p, q, floats(3)])
    check_gradient(vectors, 3, [p, q, floats(3)])
    check_tangent(vectors, 3, [p, q, floats(3)])


@wp.kernel
def in_turns(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    source = x
    dest = y
    for k in range(3):
        if k % 2 == 0:
            dest[i] = source[i] * source[i]
        else:
            dest[i] = source[i] + z[i]
        other = source
        source = dest
        dest = other
    z[i] = source[i] * dest[i]


@wp.kernel
def in_turns_in_a_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float), n: int, m: int
):
    i = wp.tid()
    source = x
    dest = y
    last = x
    for k in range(n):
        for _ in range(m):
            dest[i] = source[i] * source[i] + z[i] * 0.1
            other = source
            source = dest
            dest = other
        if k == 1:
            last = y
        z[i] += last[i] * 0.3
    z[i] = source[i] * dest[i] + z[i]


def test_arrays_take_turns():
    x, y, z = floats(4), floats(4, seed=5), floats(4, seed=9)
    check(in_turns, 4, [x, y, z])
    check_gradient(in_turns, 4, [x, y, z])
    check_tangent(in_turns, 4, [x, y, z])
    check(in_turns_in_a_loop, 4, [x, y, z, 3, 3])
    check_gradient(in_turns_in_a_loop, 4, [x, y, z, 3, 3])
    check_tangent(in_turns_in_a_loop, 4, [x, y, z, 3, 3])


def test_an_index_of_one_of_two_arrays_is_computed_once():
    @wp.kernel
    def counting(x: wp.array(dtype=float), y: wp.array(dtype=float), c: wp.array(dtype=int)):
        i = wp.tid()
        a = x if i > 1 else y
        place = wp.atomic_max(a, i, 0.0)
        a[wp.atomic_add(c, 0, 1)] = float(i) + place

    x, y, c = wp.zeros(4), wp.zeros(4), wp.zeros(1, dtype=int)
    wp.launch(counting, 4, inputs=[x, y, c])
    assert c.numpy().tolist() == [4]
    assert sorted(x.numpy() + y.numpy()) == [0, 1, 2, 3]


def test_one_of_two_arrays_is_not_passed_by_reference():
    @wp.func
    def change(x: wp.ref[float]):
        x = 2.0  # noqa: F841

    @wp.kernel
    def passing(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        a = x if i > 1 else y
        change(a[i])

    with pytest.raises(wp.KernelTypeError, match="`x` of change\\(\\) is passed by reference"):
        wp.launch(passing, 4, inputs=[wp.zeros(4), wp.zeros(4)])
