"""Right adjoints of vectors, matrices, quaternions and structs where they are ill-conditioned."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Made, Picture, Values

rng = np.random.default_rng(6)


@wp.kernel
def directions(v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.normalize(v[i])


@wp.kernel
def between(p: wp.array(dtype=wp.quat), q: wp.array(dtype=wp.quat), y: wp.array(dtype=wp.quat)):
    i = wp.tid()
    y[i] = wp.quat_slerp(p[i], q[i], 0.3)


@wp.kernel
def about(axis: wp.array(dtype=wp.vec3), angle: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    q = wp.quat_from_axis_angle(wp.normalize(axis[i]), angle[i])
    y[i] = wp.quat_rotate(q, wp.vec3(1.0, 2.0, 3.0))


@wp.kernel
def inverted(m: wp.array(dtype=wp.mat22), y: wp.array(dtype=wp.mat22)):
    i = wp.tid()
    y[i] = wp.inverse(m[i])


@wp.kernel
def solved(m: wp.array(dtype=wp.mat22), b: wp.array(dtype=wp.vec2), y: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    y[i] = wp.inverse(m[i]) * b[i]


@wp.kernel
def singular_values(m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    u = wp.mat33()
    s = wp.vec3()
    v = wp.mat33()
    wp.svd3(m[i], u, s, v)
    y[i] = s


@wp.kernel
def orthogonal(m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    q = wp.mat33()
    r = wp.mat33()
    wp.qr3(m[i], q, r)
    y[i] = r


@wp.kernel
def principal(m: wp.array(dtype=wp.mat33), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    a = 0.5 * (m[i] + wp.transpose(m[i]))
    q = wp.mat33()
    d = wp.vec3()
    wp.eig3(a, q, d)
    y[i] = d


@wp.kernel
def determinants(m: wp.array(dtype=wp.mat33), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.determinant(m[i])


@wp.kernel
def angles_between(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.atan2(wp.length(wp.cross(a[i], b[i])), wp.dot(a[i], b[i]))


@wp.kernel
def spring(p: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    d = p[i + 1] - p[i]
    n = wp.length(d)
    push = d * (1000.0 * (n - 1.0) / n)
    wp.atomic_add(f, i, push)
    wp.atomic_sub(f, i + 1, push)


@wp.struct
class Body:
    """A position and a velocity a particle."""

    q: wp.array(dtype=wp.vec3)
    mass: float


@wp.kernel
def potential(body: Body, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = body.mass * 9.81 * body.q[i][1] + 0.5 * wp.dot(body.q[i], body.q[i])


def body():
    """A struct with an array of vectors and a number."""
    made = Body()
    made.q = wp.array(
        np.linspace(-1.0, 1.0, 6).reshape(2, 3), dtype=wp.vec3, requires_grad=True, device="cpu"
    )
    made.mass = 3.0
    return made


def nearly(*values):
    """A matrix with these singular values, turned."""
    u, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    v, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return u @ np.diag(values) @ v.T


def symmetric(*values):
    """A symmetric matrix with these eigenvalues."""
    u, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return u @ np.diag(values) @ u.T


P = np.array([[0.1, 0.2, 0.3, 0.9]]) / np.sqrt(0.95)
BESIDE = P + [[1e-3, -1e-3, 5e-4, 0.0]]
BESIDE /= np.linalg.norm(BESIDE)
ILL = [[[1.0, 1.0], [1.0, 1.001]]]
OUT33 = Values(np.zeros((1, 3, 3)), wp.mat33)
OUT3 = Values(np.zeros((1, 3)), wp.vec3)

PICTURES = [
    Picture(
        "direction of a nearly zero vector", directions, [Values([[1e-4, 2e-4, -1e-4]], wp.vec3)], [OUT3]
    ),
    Picture("direction of a zero vector", directions, [Values([[0.0, 0.0, 0.0]], wp.vec3)], [OUT3], "KINK"),
    Picture(
        "slerp of nearly equal quaternions",
        between,
        [Values(P, wp.quat), Values(BESIDE, wp.quat)],
        [Values(np.zeros((1, 4)), wp.quat)],
    ),
    Picture(
        "rotation by nearly nothing", about, [Values([[0.0, 0.6, 0.8]], wp.vec3), Values([1e-5])], [OUT3]
    ),
    Picture(
        "inverse of an ill-conditioned matrix",
        inverted,
        [Values(ILL, wp.mat22)],
        [Values(np.zeros((1, 2, 2)), wp.mat22)],
    ),
    Picture(
        "ill-conditioned solve",
        solved,
        [Values(ILL, wp.mat22), Values([[1.0, -2.0]], wp.vec2)],
        [Values(np.zeros((1, 2)), wp.vec2)],
    ),
    Picture(
        "singular values, nearly equal",
        singular_values,
        [Values([nearly(2.0, 1.0001, 1.0)], wp.mat33)],
        [OUT3],
    ),
    Picture(
        "QR of a nearly singular matrix", orthogonal, [Values([nearly(1.0, 0.5, 1e-3)], wp.mat33)], [OUT33]
    ),
    Picture("eigenvalues, nearly equal", principal, [Values([symmetric(2.0, 1.001, 1.0)], wp.mat33)], [OUT3]),
    Picture(
        "determinant near 0", determinants, [Values([nearly(1.0, 0.5, 1e-4)], wp.mat33)], [Values([0.0])]
    ),
    Picture(
        "angle between nearly parallel vectors",
        angles_between,
        [Values([[1.0, 2.0, 3.0]], wp.vec3), Values([[1.001, 2.0, 3.0]], wp.vec3)],
        [Values([0.0])],
    ),
    Picture(
        "stiff springs",
        spring,
        [Values([[0.0, 0.0, 0.0], [1.001, 0.0, 0.1], [2.0, 0.2, 0.0]], wp.vec3)],
        [Values(np.zeros((3, 3)), wp.vec3)],
        dim=2,
    ),
    Picture("an array in a struct", potential, [Made(body)], [Values([0.0, 0.0])], dim=2, rtol=1e-4),
]
