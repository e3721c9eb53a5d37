"""Functions with gradients and replays of the user's own: values, adjoints, needs, what checks find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck
from tests.compiler.harness import check_gradient, run, twin

pytestmark = pytest.mark.unoptimized


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def pulled(kernel: Any, dim: int, values: list[Any], seeds: list[Any], **options: Any) -> list[Any]:
    """The adjoint arrays after the adjoint of a kernel; None for an array without one."""
    adjoints = [s if s is None else s.copy() for s in seeds]
    run(kernel, dim, values, adjoints=adjoints, **options)
    return adjoints


# Right gradients, against differences ----------------------------------------------------------------------


@wp.func
def product(a: float, b: float):
    return a * wp.sin(b)


@wp.func_grad(product)
def adj_product(a: float, b: float, adj_ret: float):
    wp.adjoint[a] += wp.sin(b) * adj_ret
    wp.adjoint[b] -= -a * wp.cos(b) * adj_ret


@wp.func
def polar(v: wp.vec2):
    return wp.length(v), wp.atan2(v.y, v.x), 3


@wp.func_grad(polar)
def adj_polar(v: wp.vec2, adj_radius: float, adj_angle: float, adj_count: int):
    r = wp.length(v)
    wp.adjoint[v].x += v.x / r * adj_radius
    wp.adjoint[v][1] += v.y / r * adj_radius
    wp.adjoint[v] += wp.vec2(-v.y, v.x) * (adj_angle / (r * r))


@wp.func
def cubed(v: wp.vec3):
    return wp.cw_mul(v, wp.cw_mul(v, v))


@wp.func_grad(cubed)
def adj_cubed(v: wp.vec3, adj_ret: wp.vec3):
    g = wp.vec3()
    for k in range(3):
        g[k] = 3.0 * v[k] * v[k] * adj_ret[k]
    wp.adjoint[v] = wp.adjoint[v] + g


@wp.func
def power(x: float, n: int):
    p = float(1.0)
    for _k in range(n):
        p *= x
    return p


@wp.func_grad(power)
def adj_power(x: float, n: int, adj_ret: float):
    for k in range(n):
        if k == 0 and n == 1:
            wp.adjoint[x] += adj_ret
            return
        wp.adjoint[x] += power(x, n - 1) * adj_ret


@wp.func
def gathered(a: wp.array(dtype=float), i: int, s: float):
    return a[i] * a[i] * s


@wp.func_grad(gathered)
def adj_gathered(a: wp.array(dtype=float), i: int, s: float, adj_ret: float):
    wp.adjoint[a][i] += 2.0 * a[i] * s * adj_ret
    wp.adjoint[s] += a[i] * a[i] * adj_ret


@wp.func
def turned(m: wp.mat22, q: wp.quat, a: wp.array(dtype=wp.mat22), i: int):
    return (m @ a[i]) * q.w


@wp.func_grad(turned)
def adj_turned(m: wp.mat22, q: wp.quat, a: wp.array(dtype=wp.mat22), i: int, adj_ret: wp.mat22):
    g = adj_ret @ wp.transpose(a[i])
    for k in range(2):
        wp.adjoint[m][k] += g[k] * q.w
    wp.adjoint[m][1, 0] += g[1, 0] * 0.0
    wp.adjoint[q].w += wp.ddot(adj_ret, m @ a[i])
    d = wp.transpose(m) @ adj_ret * q.w
    wp.adjoint[a][i][0] += d[0]
    wp.adjoint[a][i][1, 0] += d[1, 0]
    wp.adjoint[a][i][1, 1] += d[1, 1]


@wp.func
def outer(x: float):
    return product(x, product(x, x)) + 1.0


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    b = product(a, y[i])
    y[i] = product(b, a) + product(a, a) * b + a


@wp.kernel
def nested(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = outer(x[i]) * outer(product(x[i], 2.0))


@wp.kernel
def several(p: wp.array(dtype=wp.vec2), y: wp.array(dtype=float)):
    i = wp.tid()
    r, angle, count = polar(p[i])
    s, _, _ = polar(wp.vec2(r, r))
    y[i] = r * angle * s * float(count) + angle


@wp.kernel
def vectors(p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    q[i] = cubed(p[i]) + cubed(cubed(p[i]) * p[i].x) * 0.1


@wp.kernel
def looped(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        if s > 0.2:
            s = product(s, x[k]) + power(s, 3)
        else:
            s = s + product(x[k], s)
    k = int(0)  # noqa: RUF046
    while k < n:
        s += product(s, 0.5) * power(x[i], 1)
        k += 1
    y[i] = s


@wp.kernel
def of_arrays(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += gathered(x, k, y[i])
    y[i] = s + gathered(x, i, 2.0)


@wp.kernel
def matrices(m: wp.array(dtype=wp.mat22), q: wp.array(dtype=wp.quat), out: wp.array(dtype=wp.mat22)):
    i = wp.tid()
    b = turned(m[i], q[i], m, 0)
    out[i] = turned(b, q[i] * q[i], m, i) + b


CASES = {
    "used twice": (twice, [(4,), (4,)], []),
    "nested": (nested, [(4,), (4,)], []),
    "several results": (several, [(4, 2), (4,)], []),
    "vectors": (vectors, [(4, 3), (4, 3)], []),
    "loops and branches": (looped, [(4,), (4,)], [3]),
    "adjoints of arrays": (of_arrays, [(4,), (4,)], [3]),
    "matrices and quaternions": (matrices, [(4, 2, 2), (4, 4), (4, 2, 2)], []),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_right_gradients_equal_differences(name, seed):
    kernel, shapes, scalars = CASES[name]
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0.3, 1.2, shape).astype(np.float32) for shape in shapes]
    check_gradient(kernel, 4, [*arrays, *scalars])


def test_an_input_that_stands_for_two_parameters_gets_both_parts():
    x, y = f32(0.7), f32(0.0)

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[0] = product(x[0], x[0])

    dx, _ = pulled(k, 1, [x, y], [f32(0.0), f32(1.0)])
    assert dx[0] == pytest.approx(np.sin(0.7) + 0.7 * np.cos(0.7), rel=1e-6)


@pytest.mark.parametrize("interpreted", [False, True])
def test_the_generated_text_runs_as_python_too(interpreted):
    x, y = f32(0.5, 0.9, 0.3, 1.1), f32(0.4, 0.6, 0.8, 0.2)
    expected = (np.sin(x) + x * np.sin(x)) * x * np.cos(y)
    seeds = [np.zeros(4, np.float32), np.ones(4, np.float32)]
    _, dy = pulled(twice, 4, [x, y], seeds, interpreted=interpreted)
    np.testing.assert_allclose(dy, expected, rtol=1e-5)


# What a gradient may do ------------------------------------------------------------------------------------


@wp.func
def straight(x: float):
    return wp.round(x)


@wp.func_grad(straight)
def adj_straight(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.kernel
def through(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = straight(x[i]) * 2.0


def test_a_gradient_makes_a_function_differentiable_that_is_not():
    x, y = f32(0.4, 1.6), f32(0.0, 0.0)
    dx, _ = pulled(through, 2, [x, y], [f32(0.0, 0.0), f32(1.0, 1.0)])
    np.testing.assert_array_equal(dx, [2.0, 2.0])


def test_the_tangent_is_that_of_the_body():
    x, y, dots = f32(0.4, 1.6), f32(0.0, 0.0), [f32(1.0, 1.0), f32(0.0, 0.0)]
    run(through, 2, [x, y], tangents=dots)
    np.testing.assert_array_equal(y, [0.0, 4.0])
    np.testing.assert_array_equal(dots[1], [0.0, 0.0])

    x, y, dots = twin([f32(0.7)]), twin([f32(0.3)]), [np.ones(1), np.zeros(1)]
    run(twice, 1, [*x, *y], f64=True, tangents=dots)
    assert dots[1][0] != 0.0


@wp.func
def quartic(xs: wp.array(dtype=float), ys: wp.array(dtype=float), i: int):
    ys[i] = xs[i] ** 4.0


@wp.func_grad(quartic)
def adj_quartic(xs: wp.array(dtype=float), ys: wp.array(dtype=float), i: int):
    wp.adjoint[xs][i] += 4.0 * xs[i] ** 3.0 * wp.adjoint[ys][i]
    wp.adjoint[ys][i] = 0.0


@wp.kernel
def into_array(xs: wp.array(dtype=float), ys: wp.array(dtype=float)):
    quartic(xs, ys, wp.tid())


def test_a_function_without_results_hands_adjoints_from_array_to_array():
    x, y = f32(0.5, -1.5, 2.0), f32(0.0, 0.0, 0.0)
    check_gradient(into_array, 3, [x, y])
    info = into_array.adjoint_info(frozenset({0, 1}))
    assert (info.needs, info.replay, info.after) == ({0}, frozenset(), frozenset())


def test_an_array_without_gradient_gets_none():
    x, y = f32(0.5, 0.6, 0.7, 0.8), f32(1.0, 2.0, 3.0, 4.0)
    adjoints = pulled(of_arrays, 4, [x, y, 3], [None, np.ones(4, np.float32)])
    np.testing.assert_allclose(adjoints[1], np.full(4, (x[:3] ** 2).sum()), rtol=1e-6)


def test_only_what_the_gradient_reads_is_needed():
    @wp.func
    def scaled(x: float, s: float):
        return wp.exp(x) * s

    @wp.func_grad(scaled)
    def adj_scaled(x: float, s: float, adj_ret: float):
        wp.adjoint[x] += s * adj_ret

    @wp.kernel
    def k(x: wp.array(dtype=float), s: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = scaled(x[i], s[i])

    info = k.adjoint_info(frozenset({0, 1, 2}))
    assert info.needs == {1}
    assert [span.text.strip() for span in info.need_spans[1]] == ["y[i] = scaled(x[i], s[i])"]
    assert k.adjoint_info(frozenset({1, 2})).needs == frozenset(), "the gradient sends nothing to s"


def test_the_gradient_alone_may_read_an_array():
    @wp.func
    def f(x: float, w: wp.array(dtype=float), i: int):
        return x

    @wp.func_grad(f)
    def adj_f(x: float, w: wp.array(dtype=float), i: int, adj_ret: float):
        wp.adjoint[x] += w[i] * adj_ret

    @wp.kernel
    def k(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = f(x[i], w, i)

    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    w, y = wp.array([5.0, 7.0], dtype=float), wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, dim=2, inputs=[x, w], outputs=[y])
        w.zero_()
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert x.grad.numpy().tolist() == [5.0, 7.0]
    assert (k.analysis.reads, k.analysis.writes) == ({0, 1}, {2})


# Replays ---------------------------------------------------------------------------------------------------


@wp.func
def root_of_next(counter: wp.array(dtype=int), kept: wp.array(dtype=int), i: int):
    kept[i] = wp.atomic_add(counter, 0, 1)
    return kept[i]


@wp.func_replay(root_of_next)
def replay_root_of_next(counter: wp.array(dtype=int), kept: wp.array(dtype=int), i: int):
    return kept[i]


@wp.kernel
def counted(
    counter: wp.array(dtype=int),
    kept: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    at = root_of_next(counter, kept, i)
    y[at] = wp.sqrt(x[at])


@wp.kernel
def counted_and_read(
    counter: wp.array(dtype=int),
    kept: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    root_of_next(counter, kept, i)
    at = kept[i]
    y[at] = wp.sqrt(x[at])


def test_a_replay_needs_the_values_after_the_launch():
    info = counted.adjoint_info(frozenset({2, 3}))
    assert (info.needs, info.replay, info.after) == ({1, 2}, frozenset(), {1})
    assert [s.function for s in info.need_spans[1]] == ["replay_root_of_next"]
    # A read of what the function wrote is done again, with all that leads to it.
    info = counted_and_read.adjoint_info(frozenset({2, 3}))
    assert (info.needs, info.replay, info.after) == ({0, 1, 2}, {0, 1}, frozenset())


@pytest.mark.parametrize("mode", ["preserve", "warn", "error", "ignore"])
@pytest.mark.parametrize("kernel", [counted, counted_and_read])
def test_replayed_counters_over_two_launches(kernel, mode):
    n = 5
    x = wp.array(np.arange(1, n + 1), dtype=float, requires_grad=True)
    y, z = (wp.zeros(n, dtype=float, requires_grad=True) for _ in range(2))
    counters = [wp.zeros(1, dtype=int) for _ in range(2)]
    kept = wp.zeros(n, dtype=int)
    overwrites = mode == "preserve"  # only this mode is asked to see through a second use of `kept`
    if kernel is counted_and_read and mode != "preserve":
        return  # values in place are kept by preserving tapes only
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(kernel, dim=n, inputs=[counters[0], kept, x], outputs=[y])
        if overwrites:
            kept.fill_(77)
            wp.launch(kernel, dim=n, inputs=[counters[1], kept, y], outputs=[z])
            kept.fill_(99)
    tape.backward(grads={z if overwrites else y: wp.ones(n, dtype=float)})
    v = np.arange(1, n + 1, dtype=np.float64)
    expected = 0.25 * v**-0.75 if overwrites else 0.5 / np.sqrt(v)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_the_trace_says_which_version_a_replay_needs():
    n = 3
    x = wp.array(np.arange(1, n + 1), dtype=float, requires_grad=True)
    y, kept = wp.zeros(n, dtype=float, requires_grad=True), wp.zeros(n, dtype=int)
    with wp.Tape() as tape:
        wp.launch(counted, dim=n, inputs=[wp.zeros(1, dtype=int), kept, x], outputs=[y])
        kept.zero_()
    shown = [v for v in tape.trace().versions if v.written_by == 0 and v.needed_by]
    assert [(v.version, v.needed_by, v.status) for v in shown] == [(1, [0], "preserved")]
    found = [v for v in tape.versions() if v.array is kept]
    assert [(v.number, v.needed_by, v.overwritten_by, v.preserved) for v in found] == [
        (0, [], 0, False),
        (1, [0], 1, True),
        (2, [], None, False),
    ]


def test_what_a_replay_reads_is_kept_while_numpy_may_write():
    n = 4
    x = wp.array(np.arange(1, n + 1), dtype=float, requires_grad=True)
    y, kept = wp.zeros(n, dtype=float, requires_grad=True), wp.zeros(n, dtype=int)
    window = kept.numpy()
    with wp.Tape() as tape:
        wp.launch(counted, dim=n, inputs=[wp.zeros(1, dtype=int), kept, x], outputs=[y])
        window[:] = 0
    tape.backward(grads={y: wp.ones(n, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 0.5 / np.sqrt(np.arange(1, n + 1)), rtol=1e-6)


@wp.func
def noisy(x: float, y: wp.array(dtype=float), i: int):
    return x * x + y[i]


@wp.func_replay(noisy)
def replay_noisy(x: float, y: wp.array(dtype=float), i: int):
    return 10.0 * x


@wp.kernel
def replayed(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    r = noisy(x[i], y, i)
    z[i] = r * r


def test_a_replay_gives_the_value_and_the_body_its_derivative():
    x, y, z = f32(3.0), f32(1.0), f32(0.0)
    dx, dy, _ = pulled(replayed, 1, [x, y, z], [f32(0.0), f32(0.0), f32(1.0)])
    assert (dx[0], dy[0]) == (2 * 30.0 * 6.0, 2 * 30.0)


# Wrong gradients are found ---------------------------------------------------------------------------------


def make_wrong(kind: str) -> Any:
    @wp.func
    def f(x: float):
        return wp.sin(x)

    if kind == "sign":

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] -= wp.cos(x) * adj_ret

    elif kind == "assigned":

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] = wp.cos(x) * adj_ret

    elif kind == "seed forgotten":

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] += wp.cos(x)

    elif kind == "without effect":

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            pass

    else:

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] += wp.cos(x) * adj_ret

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        a = x[i] * 2.0
        y[i] = (f(a) + a * a) * 3.0

    return k


@pytest.mark.parametrize("kind", ["right", "sign", "assigned", "seed forgotten", "without effect"])
def test_gradcheck_finds_a_wrong_gradient(kind):
    kernel = make_wrong(kind)
    x = wp.array([0.3, 0.8, -0.4], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    result = gradcheck(kernel, dim=3, inputs=[x], outputs=[y], show_summary=False, raise_exception=False)
    assert result.verdict == ("AGREE" if kind == "right" else "WRONG")
    assert bool(result) is (kind == "right")


# Registration ----------------------------------------------------------------------------------------------


def test_a_kernel_that_ran_before_takes_the_new_gradient_and_recorded_launches_the_old():
    @wp.func
    def f(x: float):
        return x * x

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = f(x[i])

    def recorded() -> Any:
        x = wp.array([3.0], dtype=float, requires_grad=True)
        y = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(k, dim=1, inputs=[x], outputs=[y])
        return x, y, tape

    def gradient(x: Any, y: Any, tape: Any) -> float:
        tape.backward(grads={y: wp.ones(1, dtype=float)})
        return float(x.grad.numpy()[0])

    before = recorded()

    @wp.func_grad(f)
    def adj_f(x: float, adj_ret: float):
        wp.adjoint[x] += 100.0 * adj_ret

    assert gradient(*recorded()) == 100.0
    assert gradient(*before) == 6.0
    assert f(3.0) == 9.0


def test_a_cell_that_runs_again_replaces_its_gradient():
    def make(factor: float) -> Any:
        @wp.func_grad(product_of_cells)
        def adj_cells(x: float, adj_ret: float):
            wp.adjoint[x] += factor * adj_ret

        return adj_cells

    make(2.0)
    latest = make(3.0)
    assert product_of_cells.gradient is latest
    dx, _ = pulled(cells, 1, [f32(1.0), f32(0.0)], [f32(0.0), f32(1.0)])
    assert dx[0] == 3.0


@wp.func
def product_of_cells(x: float):
    return x


@wp.kernel
def cells(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = product_of_cells(x[0])


def test_adjoint_outside_kernels():
    with pytest.raises(wp.TapedebugError) as info:
        wp.adjoint["x"]
    assert str(info.value) == (
        "adjoint[…] belongs to the kernel language and was used outside a kernel\n"
        "  = hint: use it inside a function decorated with @func_grad(f); an array's gradient is its .grad"
    )


# Values that change ----------------------------------------------------------------------------------------


@wp.func
def squared_at(a: wp.array(dtype=float), i: int):
    return a[i] * a[i]


@wp.func_grad(squared_at)
def adj_squared_at(a: wp.array(dtype=float), i: int, adj_ret: float):
    wp.atomic_add(wp.adjoint[a], i, 2.0 * a[i] * adj_ret)


@wp.kernel
def overwritten(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for _k in range(n):
        s += squared_at(x, i)
        x[i] = x[i] * 0.5 + y[i]
    y[i] = s


@wp.kernel
def chained(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    x[(i + 1) % n] = product(x[i], y[i]) + squared_at(x, i)


@wp.kernel
def conditioned(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    k = int(0)  # noqa: RUF046
    while squared_at(x, i) < 4.0 and k < n:
        x[i] = x[i] * 1.5 + product(squared_at(x, i), y[i])
        k += 1
    y[i] = squared_at(x, i)


@pytest.mark.parametrize("kernel", [overwritten, chained, conditioned])
def test_a_gradient_sees_the_values_that_its_function_saw(kernel):
    x, y = f32(0.5, 0.9, 0.3, 1.1), f32(0.4, 0.6, 0.8, 0.2)
    check_gradient(kernel, 4, [x, y, 4])


def test_a_gradient_may_use_the_names_of_its_parameters_again():
    @wp.func
    def f(a: float, b: float):
        return a * b

    @wp.func_grad(f)
    def adj_f(a: float, b: float, adj_ret: float):
        wp.adjoint[a] += b * adj_ret
        b = a * adj_ret
        a = 0.0
        wp.adjoint[b] += b + a

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = f(wp.sin(x[i]), y[i])

    check_gradient(k, 2, [f32(0.5, 0.9), f32(0.3, 0.7)])


def test_a_gradient_reads_what_its_function_kept():
    @wp.func
    def f(x: float, kept: wp.array(dtype=float), i: int):
        kept[i] = wp.exp(x)
        return kept[i]

    @wp.func_grad(f)
    def adj_f(x: float, kept: wp.array(dtype=float), i: int, adj_ret: float):
        wp.adjoint[x] += kept[i] * adj_ret

    @wp.kernel
    def k(x: wp.array(dtype=float), kept: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = f(x[i], kept, i)

    x = wp.array([0.5, 1.0], dtype=float, requires_grad=True)
    y, kept = wp.zeros(2, dtype=float, requires_grad=True), wp.zeros(2, dtype=float)
    with wp.Tape() as tape:
        wp.launch(k, dim=2, inputs=[x, kept], outputs=[y])
        kept.zero_()
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, 1.0]), rtol=1e-6)


def test_outside_a_call_nothing_of_its_body_is_found_again():
    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = product(x[i], x[i]) + wp.sin(x[i])

    check_gradient(k, 2, [f32(0.5, 0.9), f32(0.0, 0.0)])


@wp.struct
class Ball:
    mass: float
    pos: wp.vec3


@wp.func
def energy(ball: Ball):
    return ball.mass * wp.length_sq(ball.pos)


@wp.func_grad(energy)
def adj_energy(ball: Ball, adj_ret: float):
    wp.adjoint[ball.mass] += wp.length_sq(ball.pos) * adj_ret
    wp.adjoint[ball.pos][0] += 2.0 * ball.mass * ball.pos[0] * adj_ret
    wp.adjoint[ball.pos].y += 2.0 * ball.mass * ball.pos[1] * adj_ret
    wp.adjoint[ball].pos.z += 2.0 * ball.mass * ball.pos[2] * adj_ret


@wp.kernel
def energies(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = energy(Ball(x[i], wp.vec3(x[i], 2.0 * x[i], 3.0)))


@pytest.mark.unoptimized
def test_fields_in_the_brackets_of_adjoints():
    check_gradient(energies, 3, [np.array([0.5, -1.0, 2.0], np.float32), np.zeros(3, np.float32)])
    assert adj_energy.adjoint_writes[0].params == frozenset({"ball"})
