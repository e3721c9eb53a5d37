"""Every name that programs written for this API use exists, or is listed as planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import tapedebug as wp
from tapedebug._planned import PLANNED

NAMES = Path(__file__).with_name("api_names.txt")
ABSENT = """
    Float Int Scalar
    cast clear_kernel_cache eig3 erfinv expect_eq expect_near float16 force_load func_native get_module
    indexedarray indexedarray1d indexedarray2d indexedarray3d indexedarray4d isinf load_module
    mat22h mat33h mat44h matrix norm_huber overload printf qr3 quat_to_axis_angle quaternion quath
    select set_module_options
    spatial_adjoint spatial_bottom spatial_cross spatial_cross_dual spatial_dot spatial_jacobian spatial_mass
    spatial_matrix spatial_matrixd spatial_matrixf spatial_matrixh
    spatial_top spatial_vector spatial_vectord spatial_vectorf spatial_vectorh
    svd3 transform transform_get_rotation transform_get_translation transform_identity
    transform_inverse transform_multiply transform_point transform_vector transformd transformf transformh
    types.transformation vec2h vec3h vec4h vector view
"""
"""What is still missing; a name that came is to be taken out."""


def _names() -> Iterator[str]:
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "[")):
            yield from line.split()


def _absent() -> set[str]:
    found = set()
    for name in _names():
        try:
            reduce(getattr, name.split("."), wp)
        except AttributeError:
            found.add(name)
    return found


def test_the_list_is_read() -> None:
    names = list(_names())
    assert len(names) > 300
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z_][\w.]*", name) for name in names)


def test_every_name_exists() -> None:
    assert _absent() <= set(ABSENT.split())


def test_what_exists_is_not_planned_any_more() -> None:
    assert {name for name in PLANNED if name in vars(wp)} == set()
