"""Structs in kernels: values, gradients, control flow, functions; flat parameters behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.flatten import flattened
from tapedebug.compiler.ir import Param
from tapedebug.lang import types as t
from tests.compiler.harness import check_gradient, run


@wp.struct
class Inner:
    x: float
    n: int


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    inner: Inner
    on: wp.uint8


@wp.struct
class State:
    q: wp.array(dtype=wp.vec3)
    bodies: wp.array2d(dtype=Body)
    scale: float
    inner: Inner


CHOSEN = Inner(0.75, 2)
CAPTURED = Body(pos=(0.5, -1.0, 2.0), mass=1.25, inner=CHOSEN)


def arrays_of(shape: tuple[int, ...], seed: int = 0) -> list[Any]:
    """The flat views of an array of bodies, in one structured array."""
    rng = np.random.default_rng(seed)
    values = np.zeros(shape, Body.numpy_dtype())
    values["pos"], values["mass"] = rng.normal(size=(*shape, 3)), rng.normal(size=shape) + 2.0
    values["inner"]["x"], values["inner"]["n"] = rng.normal(size=shape), rng.integers(1, 4, shape)
    return [values["pos"], values["mass"], values["inner"]["x"], values["inner"]["n"], values["on"]]


def floats(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_flat_parameters() -> None:
    signature = (Param("s", State, 0), Param("k", t.int32, 1), Param("b", t.ArrayType(Body), 2))
    found = [(p.name, t.type_name(p.type), p.index, p.declared) for p in flattened(signature)]
    assert found == [
        ("s.q", "array(dtype=vec3)", 0, 0),
        ("s.bodies.pos", "array(dtype=vec3, ndim=2)", 1, 0),
        ("s.bodies.mass", "array(dtype=float32, ndim=2)", 2, 0),
        ("s.bodies.inner.x", "array(dtype=float32, ndim=2)", 3, 0),
        ("s.bodies.inner.n", "array(dtype=int32, ndim=2)", 4, 0),
        ("s.bodies.on", "array(dtype=uint8, ndim=2)", 5, 0),
        ("s.scale", "float32", 6, 0),
        ("s.inner.x", "float32", 7, 0),
        ("s.inner.n", "int32", 8, 0),
        ("k", "int32", 9, 1),
        ("b.pos", "array(dtype=vec3)", 10, 2),
        ("b.mass", "array(dtype=float32)", 11, 2),
        ("b.inner.x", "array(dtype=float32)", 12, 2),
        ("b.inner.n", "array(dtype=int32)", 13, 2),
        ("b.on", "array(dtype=uint8)", 14, 2),
    ]


@wp.kernel
def fields(s: State, out: wp.array(dtype=float)):
    i = wp.tid()
    s.scale *= 2.0
    s.inner.x = s.inner.x + s.scale
    out[i] = s.q[i].y * s.scale + s.inner.x * float(s.inner.n) + float(len(s.q)) + float(s.bodies.shape[1])
    s.q[i].z += s.scale * s.bodies[i, 1].pos.x
    s.bodies[i, 0].inner.x *= s.bodies[i][1].mass
    s.bodies[i, 0].inner.n += 1
    s.bodies[i, 1] = s.bodies[i, 0]


def state_arguments() -> list[Any]:
    return [floats(3, 3), *arrays_of((3, 2)), 1.5, 0.5, 2, np.zeros(3, np.float32)]


def test_fields_of_an_argument() -> None:
    given = state_arguments()
    q, pos, mass, x, n = (a.copy() for a in given[:5])
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    run(fields, 3, args)
    np.testing.assert_allclose(args[9], q[:, 1] * 3.0 + 3.5 * 2 + 3 + 2, rtol=1e-6)
    np.testing.assert_allclose(args[0][:, 2], q[:, 2] + 3.0 * pos[:, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(args[3][:, 0], x[:, 0] * mass[:, 1], rtol=1e-6)
    assert np.array_equal(args[4][:, 0], n[:, 0] + 1)
    for field in args[1:6]:
        assert np.array_equal(field[:, 1], field[:, 0])
    check_gradient(fields, 3, given)


@wp.func
def moved(b: Body, by: float) -> Body:
    b.pos += wp.vec3(by, 0.0, by * by)
    b.inner = Inner(b.mass * by, b.inner.n + 1)
    return b


@wp.func
def parts(b: Body):
    return b.inner, b.mass


@wp.kernel
def functions(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    before = bodies[i]
    after = moved(before, before.mass)
    inner, mass = parts(after)
    copied = inner
    copied.x = 100.0
    out[i] = after.pos.z * before.pos.x + inner.x * float(inner.n) + mass
    bodies[i] = after


def test_structs_go_into_functions_and_come_back_by_value() -> None:
    args = [*arrays_of((4,)), np.zeros(4, np.float32)]
    pos, mass, n = args[0].copy(), args[1].copy(), args[3].copy()
    run(functions, 4, args)
    np.testing.assert_allclose(
        args[5], (pos[:, 2] + mass * mass) * pos[:, 0] + mass * mass * (n + 1) + mass, rtol=1e-5
    )
    np.testing.assert_allclose(args[2], mass * mass, rtol=1e-6)
    check_gradient(functions, 4, [*arrays_of((4,)), np.zeros(4, np.float32)])


@wp.kernel
def flow(bodies: wp.array(dtype=Body), steps: int, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    b = Body()
    if bodies[i].mass > 2.0:
        b = bodies[i]
        b.inner.x *= 2.0
    elif bodies[i].inner.n > 1:
        b.pos = bodies[i].pos * 0.5
        b.mass = wp.sin(bodies[i].mass)
    for k in range(steps):
        if b.inner.n > 4:
            break
        b.pos.x = b.pos.x * b.mass + b.inner.x
        b.pos[1] += b.pos[0] * 0.5
        b.inner.n += k
        b.inner.x = b.inner.x * 0.5 + b.pos.y
        bodies[i].pos.z += b.inner.x
    while b.mass > 1.0:
        b.mass *= 0.5
        b.inner.x += b.mass
    out[i] = b.pos * b.inner.x


def test_structs_go_through_branches_and_loops() -> None:
    check_gradient(flow, 6, [*arrays_of((6,), seed=3), 4, np.zeros((6, 3), np.float32)])


def test_generated_code_runs_as_python() -> None:
    compiled = [*arrays_of((6,), seed=3), 4, np.zeros((6, 3), np.float32)]
    plain = [a.copy() if isinstance(a, np.ndarray) else a for a in compiled]
    run(flow, 6, compiled)
    run(flow, 6, plain, interpreted=True)
    assert np.array_equal(compiled[6], plain[6])
    assert "bodies_inner_x" in flow.source()


def test_a_loop_carries_what_it_changes_only() -> None:
    @wp.kernel
    def k(s: State, out: wp.array(dtype=float)):
        i = wp.tid()
        for j in range(len(s.q)):
            s.q[j].x = s.q[j].x * s.scale
            s.bodies[i, j].inner.x *= s.inner.x
        out[i] = s.scale

    assert "s_scale_2" not in k.source()
    check_gradient(k, 1, [floats(2, 3), *arrays_of((3, 2)), 1.5, 0.5, 2, np.zeros(1, np.float32)])


@wp.kernel
def constructed(x: wp.array(dtype=float), out: wp.array(dtype=Body)):
    i = wp.tid()
    b = Body(wp.vec3(x[i], 1.0, 2.0), 3, Inner(x[i] * x[i], n=i))
    out[i] = Body(inner=b.inner, mass=b.mass * x[i], pos=b.pos + CAPTURED.pos)
    c = CAPTURED
    c.mass *= x[i]
    out[i].mass += c.mass * CHOSEN.x
    out[i].on = wp.uint8(CAPTURED.inner.n)


def test_constructors_and_captured_structs() -> None:
    args = [floats(3), *arrays_of((3,))]
    run(constructed, 3, args)
    x, (pos, mass, inner, n, on) = args[0], args[1:]
    np.testing.assert_allclose(pos, np.stack([x + 0.5, 0 * x, 0 * x + 4.0], 1), rtol=1e-6)
    np.testing.assert_allclose(mass, 3 * x + 1.25 * x * 0.75, rtol=1e-6)
    np.testing.assert_allclose(inner, x * x, rtol=1e-6)
    assert n.tolist() == [0, 1, 2]
    assert on.tolist() == [2, 2, 2]
    check_gradient(constructed, 3, [floats(3), *arrays_of((3,))])


@wp.kernel
def chosen_arrays(s: State, t2: State, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    local = State()
    local.q = s.q
    local.scale = s.scale
    row = t2.bodies[i]
    v = row[0].pos
    if i > 0:
        row = t2.bodies[0]
    out[i] = local.q[i] * local.scale + row[1].pos + v


def test_array_fields_of_local_structs_and_rows() -> None:
    args = [
        *[floats(2, 3), *arrays_of((2, 2)), 1.5, 0.5, 2],
        *[floats(2, 3, seed=8), *arrays_of((2, 2), seed=5), 2.5, 1.5, 3],
        np.zeros((2, 3), np.float32),
    ]
    run(chosen_arrays, 2, args)
    q, pos = args[0], args[10]
    np.testing.assert_allclose(args[-1], q * 1.5 + pos[0, 1] + pos[:, 0], rtol=1e-6)
    check_gradient(chosen_arrays, 2, args)


@wp.kernel
def atomics(bodies: wp.array(dtype=Body), total: wp.array(dtype=Inner), seen: wp.array(dtype=float)):
    i = wp.tid()
    before = wp.atomic_add(total, 0, Inner(bodies[i].mass * bodies[i].pos.x, 1))
    wp.atomic_sub(total, 1, bodies[i].inner)
    total[0].x -= bodies[i].pos.y
    seen[i] = float(before.n)


def test_atomics_of_whole_structs_and_fields() -> None:
    pos, mass, x, n, on = arrays_of((5,))
    totals = np.zeros(2, Inner.numpy_dtype())
    args = [pos, mass, x, n, on, totals["x"], totals["n"], np.zeros(5, np.float32)]
    run(atomics, 5, args)
    np.testing.assert_allclose(totals["x"], [(mass * pos[:, 0] - pos[:, 1]).sum(), -x.sum()], rtol=1e-5)
    assert totals["n"].tolist() == [5, -n.sum()]
    assert args[-1].tolist() == [0, 1, 2, 3, 4]
    totals["x"] = 0.5
    check_gradient(atomics, 5, args)


@wp.func
def spin(s: State, b: Body, i: int, k: float):
    return Inner(b.mass * b.mass * k * s.q[i][0] * s.scale, b.inner.n), b.inner.x * s.bodies[i, 0].mass


@wp.func_grad(spin)
def adj_spin(s: State, b: Body, i: int, k: float, adj_inner: Inner, adj_y: float):
    wp.adjoint[b].mass += 2.0 * b.mass * k * s.q[i][0] * s.scale * adj_inner.x
    wp.adjoint[b].inner.x += s.bodies[i, 0].mass * adj_y
    wp.adjoint[k] += b.mass * b.mass * s.q[i][0] * s.scale * adj_inner.x
    wp.adjoint[s].q[i][0] += b.mass * b.mass * k * s.scale * adj_inner.x
    wp.adjoint[s].bodies[i, 0].mass += b.inner.x * adj_y


@wp.kernel
def spinning(s: State, bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    b = bodies[i]
    inner, y = spin(s, b, i, b.pos.x)
    out[i] = inner.x * float(inner.n) + y * y


def test_gradients_of_the_users_take_structs_and_their_adjoints() -> None:
    state = [floats(3, 3), *arrays_of((3, 2)), 1.5, 0.5, 2]
    check_gradient(spinning, 3, [*state, *arrays_of((3,), seed=4), np.zeros(3, np.float32)])


@wp.func
def norm(b: Body):
    return wp.length(b.pos) * b.mass


@wp.func_grad(norm)
def adj_norm(b: Body, adj_ret: float):
    pass


@wp.kernel
def without(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = norm(bodies[i]) + bodies[i].mass


def test_a_gradient_that_adds_nothing() -> None:
    args = [np.ascontiguousarray(a) for a in (*arrays_of((2,)), np.zeros(2, np.float32))]
    adjoints = [
        np.zeros_like(args[0]),
        *(np.zeros_like(a) for a in args[1:3]),
        None,
        None,
        np.ones(2, np.float32),
    ]
    run(without, 2, args, adjoints=adjoints)
    assert adjoints[1].tolist() == [1.0, 1.0]
    assert not adjoints[0].any()


@wp.kernel
def derivatives(bodies: wp.array(dtype=Body), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    by = wp.grad(norm_of)(bodies[i])
    out[i] = by.pos * by.mass + wp.vec3(by.inner.x)


@wp.func
def norm_of(b: Body):
    return wp.length(b.pos) * b.mass + b.inner.x * b.inner.x * float(b.inner.n)


def test_grad_by_a_struct_is_a_struct() -> None:
    args = [*arrays_of((3,)), np.zeros((3, 3), np.float32)]
    run(derivatives, 3, args)
    pos, mass, x, n = args[:4]
    np.testing.assert_allclose(args[5], pos * mass[:, None] + (2 * x * n)[:, None], rtol=1e-5)
    check_gradient(derivatives, 3, [*arrays_of((3,)), np.zeros((3, 3), np.float32)])


@wp.kernel
def everywhere(bodies: wp.array(dtype=Body), which: wp.array(dtype=Any), out: wp.array(dtype=float)):
    i = wp.tid()
    one = bodies[0] if i > 0 else which[-1]
    back = which[::-1]
    x, y = one, back[i]
    x.mass, y.mass = y.mass, x.mass
    out[i] = x.mass * y.pos.x + float(back.shape[0])


def test_conditional_expressions_slices_tuples_and_generics() -> None:
    kernel = everywhere.instance((t.ArrayType(Body), t.ArrayType(Body), t.ArrayType(float)))
    args = [*arrays_of((3,)), *arrays_of((3,), seed=6), np.zeros(3, np.float32)]
    run(kernel, 3, args)
    mass, other, position = args[1], args[6], args[5]
    expected = [other[2] * position[2, 0], other[1] * position[1, 0], other[0] * position[0, 0]]
    assert mass[0] != other[2]
    np.testing.assert_allclose(args[10], np.array(expected) + 3, rtol=1e-6)


def test_whole_elements_cover_their_fields() -> None:
    assert constructed.analysis.covers == {1, 2, 3, 4, 5}
    assert constructed.analysis.reads == {0}
    assert fields.analysis.reads == {0, 1, 2, 3, 4, 5}
    assert {a.param for a in flow.analysis.accesses if a.kind == "read"} == {0, 1, 2, 3}


def test_only_fields_that_are_used_count_as_read() -> None:
    @wp.kernel
    def k(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
        i = wp.tid()
        b = bodies[i]
        out[i] = b.mass

    assert k.analysis.reads == {1}
    assert {a.param for a in k.analysis.accesses} == {1, 5}


@pytest.mark.parametrize("dim", [1, 3])
def test_a_struct_as_result_of_a_branching_function(dim: int) -> None:
    @wp.func
    def pick(b: Body, threshold: float) -> Inner:
        if b.mass > threshold:
            return b.inner
        for j in range(3):
            if b.pos[j] > 0.0:
                return Inner(b.pos[j], j)
        return Inner()

    @wp.kernel
    def k(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
        i = wp.tid()
        found = pick(bodies[i], 2.0)
        out[i] = found.x * float(found.n + 1)

    check_gradient(k, dim, [*arrays_of((dim,), seed=dim), np.zeros(dim, np.float32)])


@wp.struct
class Nothing:
    pass


@wp.struct
class Tagged:
    n: int
    v: wp.vec2
    inner: Inner


@wp.kernel
def compared(a: Tagged, b: wp.array(dtype=Tagged), none: Nothing, y: wp.array(dtype=int)):
    i = wp.tid()
    made = Tagged(b[i].n, b[i].v, b[i].inner)
    if none != Nothing():
        y[i] = 1000
    if a == b[i]:
        y[i] += 1
    if a != b[i]:
        y[i] += 10
    if made == b[i]:
        y[i] += 100


def test_structs_are_compared_field_by_field() -> None:
    a = Tagged(n=3, v=(1.0, 2.0))
    others = [a, Tagged(n=3, v=(1.0, 2.5)), Tagged(n=4, v=(1.0, 2.0)), Tagged(3, (1.0, 2.0), Inner(5.0))]
    y = wp.zeros(len(others), dtype=int)
    wp.launch(compared, dim=len(others), inputs=[a, wp.array(others, dtype=Tagged), Nothing(), y])
    assert y.numpy().tolist() == [101, 110, 110, 110]


@wp.struct
class Printed:
    n: int
    nothing: Nothing
    v: wp.vec2
    q: wp.array(dtype=float)


@wp.kernel
def printing(s: Printed):
    print(s, "and", Printed(2))


def test_structs_are_printed_field_by_field(capfd: pytest.CaptureFixture[str]) -> None:
    wp.launch(printing, dim=1, inputs=[Printed(1, v=(0.5, 1.0), q=wp.zeros(3))])
    wp.synchronize()
    assert capfd.readouterr().out == (
        "Printed(n=1, nothing=Nothing(), v=[0.5, 1.0], q=array of shape (3,)) and "
        "Printed(n=2, nothing=Nothing(), v=[0.0, 0.0], q=None)\n"
    )


@wp.struct
class Complex:
    re: float
    im: float


@wp.func
def add(a: Complex, b: Complex) -> Complex:
    return Complex(a.re + b.re, a.im + b.im)


@wp.func
def mul(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@wp.func
def mul(a: float, b: Complex) -> Complex:  # noqa: F811
    return Complex(a * b.re, a * b.im)


@wp.func
def neg(a: Complex) -> Complex:
    return Complex(-a.re, -a.im)


@wp.kernel
def julia(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    z = Complex(x[i], 0.5)
    c = -Complex(0.1, x[i])
    for _ in range(3):
        z = z * z + 0.5 * c
    z += c
    y[i] = z.re * z.im + 2.0 * x[i]


def test_operators_on_structs_are_functions_of_the_user() -> None:
    x = np.array([0.3, -0.6, 0.8], np.float32)
    y = np.zeros(3, np.float32)
    run(julia, 3, [x, y])
    z, c = x + 0.5j, -(0.1 + 1j * x)
    for _ in range(3):
        z = z * z + 0.5 * c
    z = z + c
    np.testing.assert_allclose(y, z.real * z.imag + 2.0 * x, rtol=1e-5)
    check_gradient(julia, 3, [x, np.zeros(3, np.float32)])
