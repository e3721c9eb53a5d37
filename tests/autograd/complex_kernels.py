"""Complex functions on vec2 arrays, right and wrong ones, for the tests of `gradcheck(…, complex=…)`."""

import tapedebug as wp


@wp.func
def mul(a: wp.vec2d, b: wp.vec2d):
    return wp.vec2d(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)


@wp.kernel
def squared(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = mul(z[i], z[i])


@wp.kernel
def conjugated(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = wp.vec2d(z[i].x, -z[i].y)


@wp.kernel
def modulus(z: wp.array(dtype=wp.vec2d), r: wp.array(dtype=wp.float64)):
    i = wp.tid()
    r[i] = wp.length(z[i])


@wp.kernel
def reciprocal(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = wp.vec2d(z[i].x, -z[i].y) / wp.dot(z[i], z[i])


@wp.kernel
def exponential(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = wp.exp(z[i].x) * wp.vec2d(wp.cos(z[i].y), wp.sin(z[i].y))


@wp.kernel
def half_real(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    """z² + 3 conj(z): neither holomorphic nor antiholomorphic."""
    i = wp.tid()
    w[i] = mul(z[i], z[i]) + wp.vec2d(wp.float64(3.0) * z[i].x, -wp.float64(3.0) * z[i].y)


@wp.kernel
def product(z: wp.array(dtype=wp.vec2d), u: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = mul(z[i], u[i])


@wp.kernel
def rotated(x: wp.array(dtype=wp.float64), w: wp.array(dtype=wp.vec2d)):
    """exp(ix) of a real x."""
    i = wp.tid()
    w[i] = wp.vec2d(wp.cos(x[i]), wp.sin(x[i]))


# ------------------------------------------------------------------ wrong adjoints


@wp.func
def forgetful(a: wp.vec2d):
    return mul(a, a)


@wp.func_grad(forgetful)
def adj_forgetful(a: wp.vec2d, g: wp.vec2d):
    wp.adjoint[a] += wp.float64(2.0) * mul(a, g)  # it should be conj(a)


@wp.kernel
def without_conj(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = forgetful(z[i])


@wp.func
def length_of(a: wp.vec2d):
    return wp.length(a)


@wp.func_grad(length_of)
def adj_length_of(a: wp.vec2d, g: wp.float64):
    wp.adjoint[a] += wp.vec2d(a.x, -a.y) * (g / wp.length(a))


@wp.kernel
def modulus_conjugated(z: wp.array(dtype=wp.vec2d), r: wp.array(dtype=wp.float64)):
    i = wp.tid()
    r[i] = length_of(z[i])


@wp.func
def swapped(a: wp.vec2d):
    return wp.vec2d(a.x, -a.y)


@wp.func_grad(swapped)
def adj_swapped(a: wp.vec2d, g: wp.vec2d):
    wp.adjoint[a] += g  # it should be conj(g)


@wp.kernel
def conjugate_as_identity(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = swapped(z[i])


@wp.func
def mixed(a: wp.vec2d):
    return mul(a, a) + wp.vec2d(wp.float64(3.0) * a.x, -wp.float64(3.0) * a.y)


@wp.func_grad(mixed)
def adj_mixed(a: wp.vec2d, g: wp.vec2d):
    right = wp.vec2d(g.x, -g.y)  # of g, not of its conjugate
    back = wp.float64(2.0) * mul(wp.vec2d(a.x, -a.y), right)
    wp.adjoint[a] += back + wp.vec2d(wp.float64(3.0) * right.x, -wp.float64(3.0) * right.y)


@wp.kernel
def of_the_conjugate(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = mixed(z[i])


@wp.func
def doubling(a: wp.vec2d):
    return mul(a, a)


@wp.func_grad(doubling)
def adj_doubling(a: wp.vec2d, g: wp.vec2d):
    wp.adjoint[a] += wp.float64(3.0) * mul(wp.vec2d(a.x, -a.y), g)


@wp.kernel
def with_factor(z: wp.array(dtype=wp.vec2d), w: wp.array(dtype=wp.vec2d)):
    i = wp.tid()
    w[i] = doubling(z[i])
