"""The right-hand side of the BSSN equations as one kernel, the same text for Warp.

Such kernels are written out by generators of code: a statement for each component. So is this one, from the
equations in index notation: evolution of the conformal factor, metric, trace and traceless part of the
extrinsic curvature, and of the connection functions, as in Baumgarte and Shapiro, "Numerical integration of
Einstein's field equations" (1998), DOI 10.1103/PhysRevD.59.024007; lapse and shift as in Alcubierre et al.,
"Gauge conditions for long-term numerical black hole evolutions without excision" (2003),
DOI 10.1103/PhysRevD.67.084023; central differences of fourth order, and dissipation of Kreiss and Oliger.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

AXES = range(3)
PAIRS = [(i, j) for i in AXES for j in AXES if i <= j]
VECTORS = [f"{name}{i}" for name in ("G", "beta", "B") for i in AXES]
TENSORS = [f"{name}{i}{j}" for name in "gA" for i, j in PAIRS]
FIELDS = ["phi", "K", "alpha", *VECTORS, *TENSORS]
"""Conformal factor, trace of the extrinsic curvature, lapse; the connection functions, the shift and its
driver; conformal metric and traceless curvature."""

SIZE, GHOSTS = 12, 3
"""Points along each axis, and those at each end without a result."""

EQUATIONS = """
v_F = <beta[k] * d[k]_F>
divergence = <d[k]_beta[k]>
q00 = g11 * g22 - g12 * g12
q01 = g02 * g12 - g01 * g22
q02 = g01 * g12 - g02 * g11
q11 = g00 * g22 - g02 * g02
q12 = g01 * g02 - g00 * g12
q22 = g00 * g11 - g01 * g01
det = <g0[k] * q0[k]>
u[ij] = q[ij] / det
L[k][ij] = 0.5 * (d[i]_g[jk] + d[j]_g[ik] - d[k]_g[ij])
C[k][ij] = <u[km] * L[m][ij]>
D[ij]_phi = d[ij]_phi - <C[k][ij] * d[k]_phi>
D[ij]_alpha = d[ij]_alpha - <C[k][ij] * d[k]_alpha>
laplace_phi = <u[ab] * D[ab]_phi>
phi_phi = <u[ab] * d[a]_phi * d[b]_phi>
phi_alpha = <u[ab] * d[a]_phi * d[b]_alpha>
N[ij] = 0.5 * <g[ki] * d[j]_G[k] + g[kj] * d[i]_G[k] + G[k] * (L[i][jk] + L[j][ik])>
R[ij] = N[ij] - 0.5 * <u[ab] * d[ab]_g[ij]>
Q[ij] = <u[ab] * (C[k][ai] * L[j][kb] + C[k][aj] * L[i][kb] + C[k][ib] * L[k][aj])>
P[ij] = 4.0 * d[i]_phi * d[j]_phi - 2.0 * D[ij]_phi - g[ij] * (2.0 * laplace_phi + 4.0 * phi_phi)
H[ij] = D[ij]_alpha - 2.0 * (d[i]_phi * d[j]_alpha + d[j]_phi * d[i]_alpha - g[ij] * phi_alpha)
S[ij] = alpha * (R[ij] + Q[ij] + P[ij]) - H[ij]
trace = <u[ab] * S[ab]>
M[i][j] = <u[ik] * A[kj]>
U[ij] = <M[i][k] * u[kj]>
scale = wp.exp(-4.0 * phi)
r_phi = v_phi + (divergence - alpha * K) / 6.0
r_K = v_K - scale * <u[ab] * H[ab]> + alpha * (<A[ab] * U[ab]> + K * K / 3.0)
r_alpha = v_alpha - 2.0 * alpha * K
l_g[ij] = v_g[ij] + <g[ik] * d[j]_beta[k] + g[kj] * d[i]_beta[k]> - 2.0 / 3.0 * g[ij] * divergence
l_A[ij] = v_A[ij] + <A[ik] * d[j]_beta[k] + A[kj] * d[i]_beta[k]> - 2.0 / 3.0 * A[ij] * divergence
r_g[ij] = l_g[ij] - 2.0 * alpha * A[ij]
f_A[ij] = scale * (S[ij] - g[ij] * trace / 3.0)
r_A[ij] = l_A[ij] + f_A[ij] + alpha * (K * A[ij] - 2.0 * <A[ik] * M[k][j]>)
e_G[i] = <C[i][ab] * U[ab]> + <6.0 * U[ij] * d[j]_phi - 2.0 / 3.0 * u[ij] * d[j]_K>
b_G[i] = <u[ia] * d[ab]_beta[b]> / 3.0 + <u[ab] * d[ab]_beta[i]> - <G[j] * d[j]_beta[i]>
t_G[i] = 2.0 * alpha * e_G[i] - 2.0 * <U[ij] * d[j]_alpha> + b_G[i] + 2.0 / 3.0 * G[i] * divergence
r_G[i] = v_G[i] + t_G[i]
r_beta[i] = v_beta[i] + 0.75 * B[i]
r_B[i] = v_B[i] + t_G[i] - eta * B[i]
"""
"""The equations, in order. A name has indices in brackets, those of a symmetric pair in one; a term in <> is
summed over the indices that are not on the left. `F` stands for each field. `d` are derivatives, `u` is the
inverse of the metric `g`, `L` and `C` are Christoffel symbols, `D` covariant derivatives, `R + Q + P` is the
Ricci tensor, `H` are second covariant derivatives of the lapse, `U` is the curvature with both indices up,
and `r` are the results."""

HEAD = '''"""The right-hand side of the BSSN equations, written out."""

import numpy as np

import tapedebug as wp


@wp.func
def d1(f: wp.array3d(dtype=float), i: int, j: int, k: int, a: int, b: int, c: int, h: float) -> float:
    """Return the first derivative along (a, b, c)."""
    near = f[i + a, j + b, k + c] - f[i - a, j - b, k - c]
    far = f[i + 2 * a, j + 2 * b, k + 2 * c] - f[i - 2 * a, j - 2 * b, k - 2 * c]
    return (8.0 * near - far) / (12.0 * h)


@wp.func
def d2(f: wp.array3d(dtype=float), i: int, j: int, k: int, a: int, b: int, c: int, h: float) -> float:
    """Return the second derivative along (a, b, c)."""
    near = f[i + a, j + b, k + c] + f[i - a, j - b, k - c]
    far = f[i + 2 * a, j + 2 * b, k + 2 * c] + f[i - 2 * a, j - 2 * b, k - 2 * c]
    return (16.0 * near - far - 30.0 * f[i, j, k]) / (12.0 * h * h)


@wp.func
def around(f: wp.array3d(dtype=float), i: int, j: int, k: int, n: int) -> float:
    """Return the sum of the six values that are n points away along an axis."""
    x = f[i - n, j, k] + f[i + n, j, k]
    y = f[i, j - n, k] + f[i, j + n, k]
    return x + y + f[i, j, k - n] + f[i, j, k + n]


@wp.func
def dissipated(f: wp.array3d(dtype=float), i: int, j: int, k: int, h: float) -> float:
    """Return the sum of the sixth differences along the axes, divided by 64 h."""
    one = around(f, i, j, k, 1)
    two = around(f, i, j, k, 2)
    three = around(f, i, j, k, 3)
    return (three - 6.0 * two + 15.0 * one - 60.0 * f[i, j, k]) / (64.0 * h)


'''
TAIL = '''

KERNELS = (right_hand_side,)
RESULTS = tuple(f"new_{name}" for name in FIELDS)


def arrays():
    """Return a metric near the flat one, fields of small amplitude, and results that are zero."""
    random = np.random.default_rng(5)
    near = dict.fromkeys(("alpha", "g00", "g11", "g22"), 1.0)
    made = {}
    for name in FIELDS:
        value = near.get(name, 0.0) + 0.01 * random.normal(size=(SIZE,) * 3)
        made[name] = wp.array(value.astype(np.float32), dtype=float, requires_grad=True)
    made |= {f"new_{name}": wp.zeros((SIZE,) * 3, dtype=float, requires_grad=True) for name in FIELDS}
    return made


def launch(a):
    """Compute the right-hand sides of the points that have neighbours on all sides."""
    dim = (SIZE - 2 * GHOSTS,) * 3
    wp.launch(right_hand_side, dim=dim, inputs=[*a.values(), 0.1, 0.05, 2.0])
'''


def _filled(text: str, indices: dict[str, int]) -> str:
    """Return a text with numbers for the letters in brackets, as far as they are known."""

    def fill(match: re.Match[str]) -> str:
        found = [str(indices.get(letter, letter)) for letter in match[1]]
        return "".join(sorted(found)) if all(map(str.isdigit, found)) else f"[{''.join(found)}]"

    return re.sub(r"\[(\w+)\]", fill, text)


def _letters(text: str) -> list[str]:
    """Return the letters in brackets, in order."""
    inside = "".join(re.findall(r"\[(\w+)\]", text))
    return [letter for letter in dict.fromkeys(inside) if letter.isalpha()]


def _summed(term: str) -> str:
    """Return the sum of a term over its indices."""
    letters = _letters(term)
    each = itertools.product(AXES, repeat=len(letters))
    return "(" + " + ".join(_filled(term, dict(zip(letters, one, strict=True))) for one in each) + ")"


def statements(equation: str) -> Iterator[str]:
    """Yield the statements of an equation, one for each component of its left side."""
    left, right = equation.split(" = ")
    letters = _letters(left)
    seen = set()
    for one in itertools.product(AXES, repeat=len(letters)):
        indices = dict(zip(letters, one, strict=True))
        name = _filled(left, indices)
        if name not in seen:
            seen.add(name)
            terms = re.sub("<(.*?)>", lambda each: _summed(each[1]), _filled(right, indices))
            yield f"{name} = {terms}"


def _derivatives() -> Iterator[str]:
    """Yield statements that load the fields; `d0_f` are first derivatives, `d01_f` second ones."""
    unit = ["1, 0, 0", "0, 1, 0", "0, 0, 1"]
    for name in FIELDS:
        yield f"{name} = {name}_in[i, j, k]"
        for a in AXES:
            yield f"d{a}_{name} = d1({name}_in, i, j, k, {unit[a]}, h)"
    for name in FIELDS:
        for a, b in PAIRS if name.startswith(("phi", "alpha", "g", "beta")) else ():
            if a == b:
                yield f"d{a}{b}_{name} = d2({name}_in, i, j, k, {unit[a]}, h)"
                continue
            slopes = []
            for step in (1, -1, 2, -2):
                at = [f"{index} + {step}" if axis == a else index for axis, index in enumerate("ijk")]
                slopes.append(f"d1({name}_in, {', '.join(at)}, {unit[b]}, h)")
            near, far = (f"({' - '.join(pair)})" for pair in (slopes[:2], slopes[2:]))
            yield f"d{a}{b}_{name} = (8.0 * {near} - {far}) / (12.0 * h)"


def _kernel() -> Iterator[str]:
    """Yield the statements of the kernel."""
    yield "ti, tj, tk = wp.tid()"
    yield from (f"{index} = t{index} + {GHOSTS}" for index in "ijk")
    yield from _derivatives()
    for equation in EQUATIONS.strip().splitlines():
        for name in FIELDS if "_F " in equation else ("",):
            yield from statements(re.sub(r"_F\b", f"_{name}", equation))
    for name in FIELDS:
        yield f"{name}_out[i, j, k] = r_{name} + sigma * dissipated({name}_in, i, j, k, h)"


def text() -> str:
    """Return the text of a module with the kernel."""
    arrays = [f"{name}_{way}: wp.array3d(dtype=float)" for way in ("in", "out") for name in FIELDS]
    parameters = ",\n    ".join([*arrays, *(f"{name}: float" for name in ("h", "sigma", "eta"))])
    body = "\n    ".join(_kernel())
    constants = f"FIELDS = {FIELDS}\nSIZE, GHOSTS = {SIZE}, {GHOSTS}\n"
    kernel = f"@wp.kernel\ndef right_hand_side(\n    {parameters},\n):\n    {body}\n"
    return f"{HEAD}{constants}\n\n{kernel}{TAIL}"
