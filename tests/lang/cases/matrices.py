"""Composite operations on matrices, and the decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lang.cases.base import UNIT, WIDE, Case, wide


def _inverse(m: Any) -> Any:
    return np.linalg.inv(m + 2 * np.eye(m.shape[-1]))


def _skew(v: Any) -> Any:
    return np.cross(v[..., None, :], -np.eye(3))


def _product(x: Any, y: Any) -> Any:
    """The product of matrices and vectors, by the letters of `numpy.einsum`."""
    return np.einsum("aij,ajk->aik", x, y)


def _apply(m: Any, v: Any) -> Any:
    return np.einsum("aij,aj->ai", m, v)


def _before(v: Any, m: Any) -> Any:
    return np.einsum("ai,aij->aj", v, m)


MATRICES = [
    *(
        Case(name, f"{{0}} {sign} {{1}}", f, (WIDE, WIDE), kinds)
        for name, sign in (("mul", "*"), ("matmul", "@"))
        for kinds, f in (
            ("mm>m", _product),
            ("rt>m", _product),
            ("mr>r", _product),
            ("mv>v", _apply),
            ("rw>v", _apply),
            ("vr>w", _before),
        )
    ),
    wide("transpose", lambda m: m.swapaxes(1, 2), "r>t"),
    wide("trace", lambda m: np.trace(m, axis1=1, axis2=2), "m>s"),
    wide("determinant", np.linalg.det, "m>s"),
    Case("inverse", "wp.inverse({0} + wp.identity(n={n}, dtype=scalar) * 2.0)", _inverse, (UNIT,), "m>m"),
    wide("diag", lambda v: v[:, :, None] * np.eye(v.shape[1]), "v>m"),
    wide("get_diag", lambda m: np.diagonal(m, axis1=1, axis2=2), "m>v"),
    wide("outer", lambda a, b: a[:, :, None] * b[:, None, :], "vw>r"),
    wide("ddot", lambda a, b: (a * b).sum((1, 2)), "rr>s"),
    wide("skew", _skew, "v>m", (3,)),
    Case(
        "matrix_from_rows",
        "wp.matrix_from_rows({0}, {1}, {2})",
        lambda *v: np.stack(v, 1),
        (WIDE,) * 3,
        "vvv>t",
        (2,),
    ),
    Case(
        "matrix_from_rows",
        "wp.matrix_from_rows({0}, {1}, {2})",
        lambda *v: np.stack(v, 1),
        (WIDE,) * 3,
        "vvv>m",
        (3,),
    ),
    Case(
        "matrix_from_cols",
        "wp.matrix_from_cols({0}, {1}, {2})",
        lambda *v: np.stack(v, 2),
        (WIDE,) * 3,
        "vvv>r",
        (2,),
    ),
    Case(
        "matrix_from_cols",
        "wp.matrix_from_cols({0}, {1}, {2})",
        lambda *v: np.stack(v, 2),
        (WIDE,) * 3,
        "vvv>m",
        (3,),
    ),
]
"""Composite operations on matrices."""


# Decompositions are unique but for signs and order of vectors: the functions compared do not depend on these.
# The kernels' side of each is in HEADER.

HEADER = """
@wp.func
def of_svd3(m: wp.types.matrix((3, 3), scalar)):
    u, s, v = wp.svd3(m * scalar(0.25) + wp.diag(wp.types.vector(3, scalar)(3.0, 2.0, 1.0)))
    w = wp.types.vector(3, scalar)(1.0, 2.0, 4.0)
    left = u @ wp.diag(w) @ wp.transpose(u)
    right = v @ wp.diag(w) @ wp.transpose(v)
    return left + right * scalar(0.5) + u @ wp.transpose(v) + wp.diag(s)


@wp.func
def of_svd2(m: wp.types.matrix((2, 2), scalar)):
    u, s, v = wp.svd2(m * scalar(0.25) + wp.diag(wp.types.vector(2, scalar)(2.0, 1.0)))
    w = wp.types.vector(2, scalar)(1.0, 2.0)
    left = u @ wp.diag(w) @ wp.transpose(u)
    right = v @ wp.diag(w) @ wp.transpose(v)
    return left + right * scalar(0.5) + u @ wp.transpose(v) + wp.diag(s)


@wp.func
def of_eig3(m: wp.types.matrix((3, 3), scalar)):
    q, d = wp.eig3(m * scalar(0.25) + wp.diag(wp.types.vector(3, scalar)(3.0, 2.0, 1.0)))
    return q @ wp.diag(wp.cw_mul(d, d)) @ wp.transpose(q) * wp.max(d)


@wp.func
def of_qr3(m: wp.types.matrix((3, 3), scalar)):
    q, r = wp.qr3(m + wp.identity(n=3, dtype=scalar) * scalar(2.0))
    return q + r
"""


def _svd(m: Any) -> Any:
    size = m.shape[-1]
    u, s, vt = np.linalg.svd(m * 0.25 + np.diag([3.0, 2.0, 1.0][-size:]))
    if size == 3:
        for side, last in ((np.linalg.det(u), u[:, :, 2]), (np.linalg.det(vt), vt[:, 2])):
            last *= np.sign(side)[:, None]
            s[:, 2] *= np.sign(side)
    w = np.diag([1.0, 2.0, 4.0][:size])
    v = vt.swapaxes(1, 2)
    return u @ w @ u.swapaxes(1, 2) + v @ w @ vt * 0.5 + u @ vt + s[:, :, None] * np.eye(size)


def _eigen(m: Any) -> Any:
    m = m * 0.25 + np.diag([3.0, 2.0, 1.0])
    d, q = np.linalg.eigh((m + m.swapaxes(1, 2)) / 2)
    return (q * (d**2)[:, None, :]) @ q.swapaxes(1, 2) * d.max(-1)[:, None, None]


def _qr(m: Any) -> Any:
    q, r = np.linalg.qr(m + 2 * np.eye(3))
    signs = np.sign(np.diagonal(r, axis1=1, axis2=2)).copy()
    signs[:, 2] = np.linalg.det(q) * signs[:, 0] * signs[:, 1]
    return q * signs[:, None, :] + r * signs[:, :, None]


DECOMPOSITIONS = [
    Case("svd2", "of_svd2({0})", _svd, (UNIT,), "m>m", (2,)),
    Case("svd3", "of_svd3({0})", _svd, (UNIT,), "m>m", (3,)),
    Case("eig3", "of_eig3({0})", _eigen, (UNIT,), "m>m", (3,)),
    Case("qr3", "of_qr3({0})", _qr, (UNIT,), "m>m", (3,)),
]
