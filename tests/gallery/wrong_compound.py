"""Wrong adjoints of functions of vectors, matrices, quaternions and structs, and of native functions."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Made, Picture, Values

rng = np.random.default_rng(2)
VECS = Values(rng.uniform(0.3, 1.5, (4, 3)), wp.vec3)
MORE = Values(rng.uniform(-1.5, -0.3, (4, 3)), wp.vec3)
OUT3 = Values(np.zeros((4, 3)), wp.vec3)
OUT = Values(np.zeros(4))
MATS = Values(rng.uniform(0.3, 1.5, (4, 3, 3)) + 2.0 * np.eye(3), wp.mat33)
OUT33 = Values(np.zeros((4, 3, 3)), wp.mat33)


@wp.func
def weighted(v: wp.vec3):
    return v[0] * 1.0 + v[1] * 2.0 + v[2] * 3.0


@wp.func_grad(weighted)
def adj_weighted(v: wp.vec3, adj_ret: float):
    wp.adjoint[v] += wp.vec3(1.0, 3.0, 2.0) * adj_ret


@wp.kernel
def components_swapped(v: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = weighted(v[i])


@wp.func
def crossed(a: wp.vec3, b: wp.vec3):
    return wp.cross(a, b)


@wp.func_grad(crossed)
def adj_crossed(a: wp.vec3, b: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[a] += wp.cross(b, adj_ret)
    wp.adjoint[b] += wp.cross(a, adj_ret)


@wp.kernel
def cross_sign(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = crossed(a[i], b[i])


@wp.func
def unit(v: wp.vec3):
    return wp.normalize(v)


@wp.func_grad(unit)
def adj_unit(v: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[v] += adj_ret / wp.length(v)


@wp.kernel
def no_projection(v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = unit(v[i])


@wp.func
def product(m: wp.mat33, v: wp.vec3):
    return m * v


@wp.func_grad(product)
def adj_product(m: wp.mat33, v: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[m] += wp.outer(adj_ret, v)
    wp.adjoint[v] += m * adj_ret


@wp.kernel
def transposed(m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = product(m[i], v[i])


@wp.func
def dyad(m: wp.mat33, v: wp.vec3):
    return m * v


@wp.func_grad(dyad)
def adj_dyad(m: wp.mat33, v: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[m] += wp.outer(v, adj_ret)
    wp.adjoint[v] += wp.transpose(m) * adj_ret


@wp.kernel
def outer_product_transposed(
    m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    y[i] = dyad(m[i], v[i])


@wp.func
def inverted(m: wp.mat33):
    return wp.inverse(m)


@wp.func_grad(inverted)
def adj_inverted(m: wp.mat33, adj_ret: wp.mat33):
    r = wp.inverse(m)
    wp.adjoint[m] += -(r * adj_ret * r)


@wp.kernel
def inverse_not_transposed(m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    y[i] = inverted(m[i])


@wp.func
def turned(q: wp.quat, v: wp.vec3):
    return wp.quat_rotate(q, v)


@wp.func_grad(turned)
def adj_turned(q: wp.quat, v: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[v] += wp.quat_rotate(q, adj_ret)


@wp.kernel
def rotated_forward(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = turned(q[i], v[i])


@wp.struct
class State:
    """Two fields, so that a gradient can go to the wrong one."""

    q: wp.array(dtype=float)
    v: wp.array(dtype=float)


@wp.func
def energy(q: float, v: float):
    return 0.5 * v * v + 2.0 * q * q


@wp.func_grad(energy)
def adj_energy(q: float, v: float, adj_ret: float):
    wp.adjoint[q] += v * adj_ret
    wp.adjoint[v] += 4.0 * q * adj_ret


@wp.kernel
def energies(state: State, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = energy(state.q[i], state.v[i])


def state():
    """A struct of two arrays with gradients."""
    made = State()
    made.q = wp.array([0.5, -1.0, 2.0], dtype=float, requires_grad=True, device="cpu")
    made.v = wp.array([1.5, 0.3, -0.7], dtype=float, requires_grad=True, device="cpu")
    return made


@wp.func_native("out[tid] = x[tid] * x[tid];", "adj_x[tid] += x[tid] * adj_out[tid];")
def native_square(x: wp.array(dtype=float), out: wp.array(dtype=float), tid: int): ...


@wp.kernel
def native_factor(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    native_square(x, out, i)


@wp.func_native(
    "out[tid] = a[0] * x[tid];", "adj_a[0] = x[tid] * adj_out[tid]; adj_x[tid] += a[0] * adj_out[tid];"
)
def native_scale(
    a: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array(dtype=float), tid: int
): ...


@wp.kernel
def native_accumulation(a: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    native_scale(a, x, out, i)


QUATS = Values(
    [[0.1, 0.2, 0.3, 0.927], [0.5, 0.5, 0.5, 0.5], [0.0, 0.6, 0.0, 0.8], [0.7, 0.1, 0.1, 0.7]], wp.quat
)
X4 = Values([0.5, 1.5, -2.0, 3.0])

PICTURES = [
    Picture(
        "components of a vec3 swapped", components_swapped, [VECS], [OUT], "WRONG", signature="exchanged"
    ),
    Picture("cross product with a wrong sign", cross_sign, [VECS, MORE], [OUT3], "WRONG", signature="sign"),
    Picture("normalize without its projection", no_projection, [VECS], [OUT3], "WRONG"),
    Picture("a matrix not transposed", transposed, [MATS, VECS], [OUT3], "WRONG", signature="transposed"),
    Picture(
        "an outer product transposed",
        outer_product_transposed,
        [MATS, VECS],
        [OUT3],
        "WRONG",
        signature="transposed",
    ),
    Picture(
        "an inverse not transposed", inverse_not_transposed, [MATS], [OUT33], "WRONG", signature="transposed"
    ),
    Picture("rotated forward", rotated_forward, [QUATS, VECS], [OUT3], "WRONG", signature="severed"),
    Picture(
        "the other field of a struct",
        energies,
        [Made(state)],
        [Values([0.0, 0.0, 0.0])],
        "WRONG",
        dim=3,
        at=("state.q", "y", (2,), (2,)),
        signature="swapped",
    ),
    Picture(
        "a native function's factor",
        native_factor,
        [X4],
        [OUT],
        "WRONG",
        at=("x", "out", (3,), (3,)),
        signature="factor",
    ),
    Picture(
        "a native function's = for +=",
        native_accumulation,
        [Values([2.0]), X4],
        [OUT],
        "WRONG",
        dim=4,
        signature="severed",
    ),
]
