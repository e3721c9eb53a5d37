"""The kernels of `jacobians`: the same text for both engines, with only its import exchanged."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

import tapedebug as wp


@wp.kernel
def tridiagonal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """A nonlinear three-point stencil."""
    i = wp.tid()
    s = 2.0 * x[i] * x[i]
    if i > 0:
        s = s - x[i - 1]
    if i < x.shape[0] - 1:
        s = s - x[i + 1]
    y[i] = s


@wp.kernel
def five_point(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    """A nonlinear five-point stencil."""
    i, j = wp.tid()
    s = 4.0 * u[i, j] + u[i, j] * u[i, j]
    if i > 0:
        s = s - u[i - 1, j]
    if i < u.shape[0] - 1:
        s = s - u[i + 1, j]
    if j > 0:
        s = s - u[i, j - 1]
    if j < u.shape[1] - 1:
        s = s - u[i, j + 1]
    out[i, j] = s
