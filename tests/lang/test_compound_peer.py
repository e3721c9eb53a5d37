"""Matrices, quaternions and integers beside warp-lang: values and gradients of the same program."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peer

SPATIAL = "wp.spatial_vector(v, a[0]), wp.spatial_vector(a[1], b[2])"
MOVED = "wp.transform(v, wp.normalize(q)), wp.spatial_vector(a[0], a[1])"
FUNCTIONS = """
@wp.func
def axis_of(q: wp.quat):
    axis, angle = wp.quat_to_axis_angle(q)
    return axis

@wp.func
def angle_of(q: wp.quat):
    axis, angle = wp.quat_to_axis_angle(q)
    return angle

@wp.func
def singular(a: wp.mat33):
    u, s, v = wp.svd3(a)
    return s

@wp.func
def polar(a: wp.mat33):
    u, s, v = wp.svd3(a)
    return u * wp.transpose(v)

@wp.func
def upper(a: wp.mat33):
    q, r = wp.qr3(a)
    return r

@wp.func
def orthogonal(a: wp.mat33):
    q, r = wp.qr3(a)
    return q

@wp.func
def symmetric(a: wp.mat33):
    q, d = wp.eig3(a)
    return q * wp.diag(wp.cw_mul(d, d)) * wp.transpose(q)
"""
MATRIX = {
    "product": "a @ b",
    "star": "a * b",
    "of_vector": "wp.diag(a @ v)",
    "before": "wp.diag(v @ a)",
    "transpose": "wp.transpose(a)",
    "inverse": "wp.inverse(a)",
    "determinant": "wp.determinant(a) * b",
    "trace": "wp.trace(a) * b",
    "diag": "wp.diag(wp.get_diag(a))",
    "outer": "wp.outer(v, a[1])",
    "skew": "wp.skew(v)",
    "ddot": "wp.ddot(a, b) * b",
    "cw_mul": "wp.cw_mul(a, b)",
    "cw_div": "wp.cw_div(a, b)",
    "rows": "wp.matrix_from_rows(v, a[0], b[2])",
    "cols": "wp.matrix_from_cols(v, a[0], b[2])",
    "element": "a * b[2, 1]",
    "quarter": "a / 4.0 - b * 0.5",
    "of_quat": "wp.quat_to_matrix(q)",
    "lerp": "wp.lerp(a, b, x)",
    "over": "x / a",
    "upper": "upper(a)",
    "orthogonal": "orthogonal(a)",
    "polar": "polar(a)",
    "symmetric": "symmetric(a + wp.transpose(a))",
}
QUATERNION = {
    "product": "q * p",
    "sum": "q * 2.0 - p / 3.0",
    "inverse": "wp.quat_inverse(q)",
    "normalize": "wp.normalize(q)",
    "dot": "q * wp.dot(q, p) * wp.length(p)",
    "axis_angle": "wp.quat_from_axis_angle(v, q[0])",
    "rpy": "wp.quat_rpy(v[0], v[1], v[2])",
    "rotate": "wp.quat(wp.quat_rotate(q, v), 1.0)",
    "rotate_inv": "wp.quat(wp.quat_rotate_inv(q, v), 2.0)",
    "slerp": "wp.quat_slerp(wp.normalize(q), wp.normalize(p), 0.3)",
    "from_matrix": "wp.quat_from_matrix(wp.quat_to_matrix(wp.normalize(q)))",
    "lerp": "wp.lerp(q, p, x)",
    "twist": "wp.quat_twist(wp.normalize(v), q)",
    "rotation": "wp.transform_get_rotation(wp.transform(v, q) * wp.transform(a[1], p))",
    "components": "wp.quat(q.w, q.z * p.x, q.y, p[3])",
}
SCALAR = {
    "step": "wp.step(x) * x",
    "nonzero": "wp.nonzero(x) * x",
    "frac": "wp.frac(x)",
    "degrees": "wp.degrees(x)",
    "radians": "wp.radians(x)",
    "smoothstep": "wp.smoothstep(-0.5, 1.5, x)",
    "erf": "wp.erf(x)",
    "erfc": "wp.erfc(x)",
    "norm_l1": "wp.norm_l1(v)",
    "norm_l2": "wp.norm_l2(v)",
    "norm_huber": "wp.norm_huber(v, 1.2)",
    "norm_pseudo_huber": "wp.norm_pseudo_huber(v, 0.7)",
    "erfinv": "wp.erfinv(x * 0.6)",
    "erfcinv": "wp.erfcinv(1.0 + x * 0.6)",
    "least": "wp.min(v) * x",
    "largest": "wp.max(v) * x",
    "tests": "wp.where(wp.isfinite(v), x, 0.0) + wp.where(wp.isinf(x), 1.0, x)",
    "spatial_dot": "wp.spatial_dot(wp.spatial_vector(v, v * x), wp.spatial_vector(v * 2.0, v))",
    "twist_angle": "wp.quat_twist_angle(wp.normalize(v), q)",
    "twist_angle_signed": "wp.quat_twist_angle_signed(wp.normalize(v), q)",
    "trace_decomposed": "wp.ddot(a, a) * x",
}
VECTOR = {
    "abs": "wp.abs(v)",
    "sign": "wp.cw_mul(wp.sign(v), v)",
    "least": "wp.min(v, a[0])",
    "mod": "wp.mod(v, a[0])",
    "over": "2.0 / v + x / a[0]",
    "lerp": "wp.lerp(v, a[1], 0.3)",
    "smooth_normalize": "wp.smooth_normalize(v, 0.5)",
    "axis": "axis_of(q)",
    "angle": "angle_of(q) * v",
    "rpy": "wp.quat_to_rpy(wp.normalize(q))",
    "point": "wp.transform_point(wp.transform(v, wp.normalize(q)), a[0])",
    "vector": "wp.transform_vector(wp.transform(v, wp.normalize(q)), a[0])",
    "product": "wp.transform_get_translation(wp.transform(v, q) * wp.transform(a[1], p))",
    "inverse": "wp.transform_get_translation(wp.transform_inverse(wp.transform(v, q)))",
    "through_matrix": "wp.transform_point(wp.transform_compose(v, wp.normalize(q), a[2]), a[0])",
    "spatial_top": f"wp.spatial_top(wp.spatial_cross({SPATIAL}))",
    "spatial_bottom": f"wp.spatial_bottom(wp.spatial_cross({SPATIAL}))",
    "dual": f"wp.spatial_top(wp.spatial_cross_dual({SPATIAL}))",
    "adjoint": "wp.spatial_bottom(wp.spatial_adjoint(a, b) * wp.spatial_vector(v, a[0]))",
    "velocity": "wp.velocity_at_point(wp.spatial_vector(v, a[0]), a[1])",
    "twist": f"wp.spatial_bottom(wp.transform_twist({MOVED}))",
    "wrench": f"wp.spatial_top(wp.transform_wrench({MOVED}))",
    "singular_values": "singular(a)",
}
PARAMETERS = {
    "x": "float",
    "v": "wp.vec3",
    "a": "wp.mat33",
    "b": "wp.mat33",
    "q": "wp.quat",
    "p": "wp.quat",
}
TABLES = {"mat33": MATRIX, "quat": QUATERNION, "vec3": VECTOR, "float": SCALAR}
NAMES = [f"{kind}_{name}" for kind, table in TABLES.items() for name in table]
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
INTEGER_ROWS = (
    "x + y",
    "x - y",
    "x * y",
    "x / y",
    "x % y",
    "x & y",
    "x | y",
    "x ^ y",
    "~x",
    "x << s",
    "x >> s",
)


def source(library: str) -> str:
    text = [f"import {library} as wp\n", FUNCTIONS]
    for kind, table in TABLES.items():
        dtype = kind if kind == "float" else f"wp.{kind}"
        arrays = ", ".join(f"{n}_in: wp.array(dtype={d})" for n, d in PARAMETERS.items())
        for name, code in table.items():
            text.append(f"\n@wp.kernel\ndef k_{kind}_{name}({arrays}, out: wp.array(dtype={dtype})):\n")
            text.append("    i = wp.tid()\n")
            text += [f"    {n} = {n}_in[i]\n" for n in PARAMETERS]
            text.append(f"    out[i] = {code}\n")
    for kind in INTEGERS:
        arrays = ", ".join(f"{n}: wp.array(dtype=wp.{kind})" for n in "abc")
        text.append(f"\n@wp.kernel\ndef bits_{kind}({arrays}, out: wp.array2d(dtype=wp.{kind})):\n")
        text.append("    i = wp.tid()\n    x = a[i]\n    y = b[i]\n    s = c[i]\n")
        text += [f"    out[{row}, i] = {code}\n" for row, code in enumerate(INTEGER_ROWS)]
    return "".join(text)


def module(library: str, folder: Path) -> Any:
    path = folder / f"compound_{library}.py"
    path.write_text(source(library), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    warp = pytest.importorskip("warp", reason="warp-lang is not installed")
    warp.config.quiet = True
    warp.config.kernel_cache_dir = str(tmp_path_factory.mktemp("warp-cache"))
    import tapedebug

    folder = tmp_path_factory.mktemp("compound")
    return [(tapedebug, module("tapedebug", folder)), (warp, module("warp", folder))]


def values(kind: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    shapes = {"float": (), "vec3": (3,), "mat33": (3, 3), "quat": (4,)}
    found = {}
    for name, dtype in PARAMETERS.items():
        found[name] = rng.uniform(-1.5, 1.5, (count, *shapes[dtype.removeprefix("wp.")])).astype(np.float32)
    found["seed"] = rng.normal(size=(count, *shapes[kind])).astype(np.float32)
    return found


def measured(wp: Any, programs: Any, name: str, count: int = 8) -> list[np.ndarray]:
    """The values that a kernel writes, and the gradients of its inputs."""
    kind = name.partition("_")[0]
    given = values(kind, count)
    with wp.ScopedDevice("cpu"):
        types = {
            n: float if d == "float" else getattr(wp, d.removeprefix("wp.")) for n, d in PARAMETERS.items()
        }
        arrays = [wp.array(given[n], dtype=d, requires_grad=True) for n, d in types.items()]
        dtype = float if kind == "float" else getattr(wp, kind)
        out = wp.zeros(count, dtype=dtype, requires_grad=True)
        tape = wp.Tape()
        with tape:
            wp.launch(getattr(programs, f"k_{name}"), count, arrays, [out])
        tape.backward(grads={out: wp.array(given["seed"], dtype=dtype)})
        return [out.numpy().copy(), *(a.grad.numpy().copy() for a in arrays)]


OURS = {
    "float_frac": "the derivative is 1; there it is 0",
    "vec3_mod": "the remainder of vectors has the derivative of that of numbers; there it is 0",
}
"""Places where gradients differ, and why."""


@pytest.mark.parametrize("name", NAMES)
def test_operation_is_that_of_warp(both, name):
    ours, theirs = (measured(wp, programs, name) for wp, programs in both)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-4, atol=2e-6)
    scale = max(1.0, *(np.abs(g).max() for g in theirs[1:]))
    agree = all(
        np.allclose(a, b, rtol=2e-3, atol=2e-5 * scale) for a, b in zip(ours[1:], theirs[1:], strict=True)
    )
    assert agree == (name not in OURS), [np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_those_of_warp(both, kind):
    limits = np.iinfo(kind)
    rng = np.random.default_rng(4)
    a, b = rng.integers(limits.min, limits.max, (2, 64), dtype=kind, endpoint=True)
    b[b == 0] = 1
    shift = rng.integers(0, limits.bits, 64).astype(kind)
    found = []
    for wp, programs in both:
        with wp.ScopedDevice("cpu"):
            dtype = getattr(wp, kind)
            out = wp.zeros((len(INTEGER_ROWS), 64), dtype=dtype)
            given = [wp.array(column, dtype=dtype) for column in (a, b, shift)]
            wp.launch(getattr(programs, f"bits_{kind}"), 64, given, [out])
            found.append(out.numpy().tolist())
    for row, code in enumerate(INTEGER_ROWS):
        assert found[0][row] == found[1][row], code
