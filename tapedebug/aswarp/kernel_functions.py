"""Functions of kernels that only programs for Warp use, written in the kernel language or as other names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.compiler.decorators import func
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BUILTINS as WP

vec3: Any = t.vec3
int32: Any = t.int32
float32: Any = t.float32


@func
def block_dim() -> int32:
    """Return the number of threads of a block: 1 on the CPU, as in Warp."""
    return 1


@func
def closest_point_edge_edge(
    p1: vec3,
    q1: vec3,
    p2: vec3,
    q2: vec3,
    epsilon: float32,
) -> vec3:
    """Return the weights (0 to 1) of the closest points of two segments, and their distance.

    C. Ericson, Real-Time Collision Detection, 5.1.9: the closest points of the lines, limited to the segments
    one after the other. A segment whose squared length is at most `epsilon` is a point.
    """
    d1 = q1 - p1
    d2 = q2 - p2
    between = p1 - p2
    a = WP["dot"](d1, d1)
    b = WP["dot"](d1, d2)
    c = WP["dot"](d1, between)
    e = WP["dot"](d2, d2)
    f = WP["dot"](d2, between)
    s = 0.0
    u = 0.0
    if a > epsilon and e > epsilon:
        d = a * e - b * b
        if d > 0.0:
            s = WP["clamp"]((b * f - c * e) / d, 0.0, 1.0)
        u = (b * s + f) / e
        if u < 0.0:
            u = 0.0
            s = WP["clamp"](-c / a, 0.0, 1.0)
        elif u > 1.0:
            u = 1.0
            s = WP["clamp"]((b - c) / a, 0.0, 1.0)
    elif a > epsilon:
        s = WP["clamp"](-c / a, 0.0, 1.0)
    elif e > epsilon:
        u = WP["clamp"](f / e, 0.0, 1.0)
    return vec3(s, u, WP["length"](between + d1 * s - d2 * u))


def transform_expand(values: Sequence[float]) -> t.Transformation:
    """Return the transform of seven numbers: a translation, then a rotation; called outside kernels."""
    made: t.Transformation = t.transform(*values)
    return made


NAMES: dict[str, Any] = {
    "block_dim": block_dim,
    "closest_point_edge_edge": closest_point_edge_edge,
    "div_approx": WP["div"],
    "inverse_approx": WP["inverse"],
    "transform_expand": transform_expand,
}
"""The public names of Warp that this module has."""
