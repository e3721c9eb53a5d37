"""Kernels of Warp that use each way in which programs name things; each has a launch to compare."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import warp
import warp as wp
from warp import vec3 as Triple
from warp.types import matrix, vector

from tests.watch import warp_gallery_names as names

Launch = tuple[Any, Any, list[Any]]
GALLERY: dict[str, Callable[[], Launch]] = {}

LIMIT = wp.constant(0.5)
DIRECTION = wp.vec3(1.0, -2.0, 0.5)
vec5 = vector(5, wp.float32)
mat23 = matrix((2, 3), wp.float32)


class Mode(enum.IntEnum):
    LINEAR = 0
    CUBIC = 1


def example(make: Callable[[], Launch]) -> Callable[[], Launch]:
    GALLERY[make.__name__] = make
    return make


def floats(*shape: int, seed: int = 0, dtype: Any = float, requires_grad: bool = True) -> Any:
    inner = getattr(dtype, "_shape_", ())
    values = np.random.default_rng(seed).uniform(0.2, 1.8, (*shape, *inner))
    return wp.array(values, dtype=dtype, ndim=len(shape), requires_grad=requires_grad)


# ------------------------------------------------------------------------------------------- structs


@wp.struct
class Inner:
    scale: wp.vec3
    weights: wp.array(dtype=wp.float32)


@wp.struct
class State:
    q: wp.array(dtype=wp.vec3)
    count: int
    inner: Inner


@wp.func
def stretched(state: State, i: int):
    return wp.cw_mul(state.q[i], state.inner.scale) * state.inner.weights[i]


@wp.kernel
def of_struct(state: State, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    if i < state.count:
        out[i] = stretched(state, i)


@example
def structs() -> Launch:
    state = State()
    state.q, state.count = floats(6, dtype=wp.vec3), 4
    state.inner.scale, state.inner.weights = wp.vec3(1.0, 2.0, 3.0), floats(6, seed=1)
    return of_struct, 6, [state, floats(6, dtype=wp.vec3, seed=2)]


@wp.struct
class Particle:
    position: wp.vec3
    mass: float


@wp.kernel
def of_particles(particles: wp.array(dtype=Particle), out: wp.array(dtype=float)):
    p = particles[wp.tid()]
    out[wp.tid()] = p.mass * wp.length(p.position)


@example
def arrays_of_structs() -> Launch:
    particles = np.zeros(4, Particle.numpy_dtype())
    particles["position"], particles["mass"] = np.arange(12).reshape(4, 3), [1, 2, 3, 4]
    return of_particles, 4, [wp.array(particles, dtype=Particle), floats(4)]


# ----------------------------------------------------------------------------------------- functions


@wp.func
def cubed(x: float):
    return x * x * x


@wp.func_grad(cubed)
def adj_cubed(x: float, adj_ret: float):
    wp.adjoint[x] += wp.clamp(3.0 * x * x, 0.0, 2.0) * adj_ret


@wp.kernel
def with_gradient(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cubed(x[i])


@example
def custom_gradients() -> Launch:
    return with_gradient, 8, [floats(8), floats(8, seed=1)]


@wp.func
def halved(x: float):
    return 0.5 * x


@wp.func
def halved(x: wp.vec3):  # noqa: F811
    return 0.25 * x


@wp.kernel
def overloaded(x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = halved(v[i]) * halved(x[i])


@example
def overloads() -> Launch:
    return overloaded, 5, [floats(5), floats(5, dtype=wp.vec3), floats(5, dtype=wp.vec3, seed=1)]


@wp.func
def lerped(a: Any, b: Any, t: float = 0.25):
    return a * (1.0 - t) + b * t


@wp.kernel
def generic(a: wp.array(dtype=Any), b: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = lerped(a[i], b[i])


@example
def generics_of_floats() -> Launch:
    return generic, 5, [floats(5), floats(5, seed=1), floats(5, seed=2)]


@example
def generics_of_vectors() -> Launch:
    return generic, 5, [floats(5, dtype=wp.vec3, seed=n) for n in range(3)]


# --------------------------------------------------------------------------------------------- names


@wp.kernel
def named_in_many_ways(
    x: warp.array2d(dtype=wp.float32),
    v: wp.array(dtype=Triple),
    out: wp.array(dtype=float),
    mode: int,
):
    i = warp.tid()
    s = wp.dot(v[i], DIRECTION) + names.shifted(x[i, 0]) + warp.vec3(1.0, 2.0, 3.0)[1]
    if mode == int(Mode.CUBIC):
        s = s * s * s
    out[i] = wp.max(s, LIMIT) + names.w.sin(x[i, 1]) + names.SHIFT


@example
def names_through_modules() -> Launch:
    return named_in_many_ways, 5, [floats(5, 2), floats(5, dtype=wp.vec3), floats(5), 1]


def power(n: int) -> Any:
    offset = wp.vec2(0.5, float(n))

    @wp.kernel(module="unique")
    def in_a_function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        s = float(1.0)
        for _ in range(wp.static(n + 1)):
            s = s * x[i]
        y[i] = s + offset[1]

    return in_a_function


@example
def closures() -> Launch:
    return power(2), 5, [floats(5), floats(5, seed=1)]


def at_declaration() -> Any:
    n = 3

    @wp.kernel(module="unique")
    def declared(x: wp.array(dtype=float)):
        x[wp.tid()] = x[wp.tid()] * float(wp.static(n))

    n = 7  # the kernel keeps 3
    return declared


@example
def static_values_of_the_time_of_declaration() -> Launch:
    return at_declaration(), 3, [floats(3)]


# --------------------------------------------------------------------------------------------- types


@wp.kernel
def of_many_types(
    q: wp.array(dtype=wp.quat),
    t: wp.array(dtype=wp.transform),
    m: wp.array(dtype=wp.mat33),
    s: wp.array(dtype=wp.spatial_vector),
    odd: wp.array(dtype=vec5),
    wide: wp.array(dtype=mat23),
    out: wp.array(dtype=wp.vec3),
    gain: wp.vec3,
):
    i = wp.tid()
    v = wp.quat_rotate(wp.normalize(q[i]), wp.spatial_top(s[i])) + wp.transform_point(t[i], gain)
    out[i] = m[i] * v + wp.vec3(odd[i][4], wide[i][1, 2], wp.determinant(m[i]))


@example
def compound_types() -> Launch:
    kinds = [wp.quat, wp.transform, wp.mat33, wp.spatial_vector, vec5, mat23, wp.vec3]
    args = [floats(4, dtype=kind, seed=n) for n, kind in enumerate(kinds)]
    return of_many_types, 4, [*args, wp.vec3(0.1, 0.2, 0.3)]


class Yield(vec5):
    """A vector with a function of its own, as programs derive them."""

    @wp.func
    def of_pressure(p: float):
        return Yield(p, 2.0 * p, 0.0, 0.0, p * p)


@wp.kernel
def of_derived_types(p: wp.array(dtype=float), out: wp.array(dtype=Yield)):
    i = wp.tid()
    out[i] = wp.max(Yield(0.0), Yield.of_pressure(p[i]))


@example
def derived_types() -> Launch:
    return of_derived_types, 4, [floats(4), floats(4, dtype=vec5, seed=1)]


@wp.kernel
def of_scalars(
    x: wp.array(dtype=wp.float64),
    n: wp.array(dtype=wp.int64),
    k: wp.uint8,
    on: bool,
    out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    if on:
        out[i] = x[i] * wp.float64(n[i]) + wp.float64(k)


@example
def scalar_types() -> Launch:
    n = wp.array(np.arange(4) + 2, dtype=wp.int64)
    x, out = floats(4, dtype=wp.float64), floats(4, dtype=wp.float64, seed=1)
    return of_scalars, 4, [x, n, wp.uint8(7), True, out]


@wp.kernel
def of_halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16), out: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.float16(0.1)
    out[i] = float(x[i]) * float(x[i])


@example
def half_precision() -> Launch:
    x, y = floats(4, dtype=wp.float16), floats(4, dtype=wp.float16, seed=1)
    return of_halves, 4, [x, y, floats(4, seed=2)]


# -------------------------------------------------------------------------------------------- memory


@wp.kernel
def in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * y[i]


@example
def in_place_launches() -> Launch:
    return in_place, 5, [floats(5), floats(5, seed=1)]


@example
def strided_views() -> Launch:
    base = floats(6, 4)
    return in_place, 6, [base[:, 1], base[:, 3]]


@wp.kernel
def added(x: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(total, j, x[i, j] * x[i, j])


@example
def atomics() -> Launch:
    return added, (8, 3), [floats(8, 3), floats(3, seed=1)]


@wp.kernel
def maybe_given(x: wp.array(dtype=float), extra: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    if extra:
        y[i] = y[i] + extra[i]


@example
def absent_arrays() -> Launch:
    return maybe_given, 3, [floats(3), None, floats(3, seed=1)]


@wp.kernel
def selected(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@example
def indexed_arrays() -> Launch:
    # Warp's tapes do not take indexed arrays with gradients
    x = wp.indexedarray(floats(8, requires_grad=False), [wp.array([1, 3, 6], dtype=int)])
    return selected, 3, [x, floats(3, seed=1)]


@wp.kernel
def stepped(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    part = x[1 :: n[i]]
    back = x[6 : 0 : -n[i]]
    y[i] = part[1] * back[1]
    if x[i] < n[i]:
        y[i] = y[i] * 0.5


@example
def computed_steps_and_comparisons_of_two_types() -> Launch:
    return stepped, 3, [floats(8), wp.array([1, 2, 3], dtype=int), floats(3, seed=1)]
