"""Arrays beside warp-lang's: the same calls give the same shapes, strides, types and values."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import tapedebug
from tests.runtime.peer_kernels import scaled_squares

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def warp() -> Any:
    if importlib.util.find_spec("warp") is None:
        pytest.skip("warp-lang is not installed")
    import warp

    warp.config.quiet = True
    warp.init()
    return warp


def _facts(a: Any) -> Any:
    """Return the comparable parts of an array, or of anything else."""
    if type(a).__name__ not in ("array", "array1d", "array2d"):
        return a
    dtype = a.numpy().dtype.name, tuple(getattr(a.dtype, "_shape_", getattr(a.dtype, "shape", ())))
    return a.shape, a.strides, a.ndim, a.size, dtype, a.requires_grad, a.is_contiguous, a.numpy().tolist()


def _grid(w: Any, **options: Any) -> Any:
    return w.array(np.arange(12.0).reshape(4, 3), dtype=float, **options)


def _assigned(w: Any, a: Any, values: Any) -> Any:
    a.assign(values)
    return a


def _copied(w: Any, dest: Any, src: Any, **options: Any) -> Any:
    w.copy(dest, src, **options)
    return dest


def _filled(w: Any, a: Any, value: Any) -> Any:
    a.fill_(value)
    return a


CASES = {
    # construction
    "list": lambda w: w.array([1.0, 2.0], dtype=float),
    "list_inferred": lambda w: w.array([1.0, 2.0]),
    "ints_inferred": lambda w: w.array([1, 2]),
    "tuple": lambda w: w.array((1, 2), dtype=int),
    "bools": lambda w: w.array([True, False], dtype=bool),
    "bytes": lambda w: w.array([1, 200], dtype=w.uint8),
    "nested": lambda w: w.array([[1, 2, 3], [4, 5, 6]], dtype=float),
    "vectors": lambda w: w.array([w.vec3(1.0, 2.0, 3.0), w.vec3(4.0, 5.0, 6.0)], dtype=w.vec3),
    "rows_as_vectors": lambda w: w.array([[1, 2, 3], [4, 5, 6]], dtype=w.vec3),
    "flat_as_vectors": lambda w: w.array(np.arange(6.0), dtype=w.vec3),
    "matrices": lambda w: w.array(np.arange(18.0).reshape(2, 3, 3), dtype=w.mat33),
    "quaternions": lambda w: w.array(np.arange(8.0).reshape(2, 4), dtype=w.quat),
    "shape_of_data": lambda w: w.array(np.arange(6.0), dtype=float, shape=(3, 2)),
    "empty_list": lambda w: w.array([], dtype=float),
    "of_array": lambda w: w.array(w.full((3,), 2.0, dtype=float)),
    "with_grad": lambda w: w.array([1.0], dtype=float, requires_grad=True),
    "from_numpy": lambda w: w.from_numpy(np.arange(3)),
    "from_numpy_rows": lambda w: w.from_numpy(np.arange(6.0).reshape(2, 3)),
    "from_numpy_matrices": lambda w: w.from_numpy(np.arange(12.0).reshape(3, 2, 2)),
    "from_numpy_typed": lambda w: w.from_numpy(np.arange(6.0).reshape(2, 3), dtype=float),
    "from_numpy_many": lambda w: w.from_numpy(np.ones((2, 1, 2, 3))),
    # factories
    "zeros": lambda w: w.zeros((2, 3)),
    "zeros_vectors": lambda w: w.zeros(2, dtype=w.vec3, requires_grad=True),
    "ones_ints": lambda w: w.ones(3, dtype=w.int16),
    "full_int": lambda w: w.full(3, 7),
    "full_float": lambda w: w.full(3, 1.5),
    "full_bool": lambda w: w.full(2, True),
    "full_vector": lambda w: w.full(2, w.vec3(1.0, 2.0, 3.0)),
    "full_list": lambda w: w.full(2, [1.0, 2.0, 3.0], dtype=w.vec3),
    "full_scalar_vector": lambda w: w.full(2, 2.0, dtype=w.vec3),
    "zero_size": lambda w: w.zeros((0, 3)),
    "zeros_like": lambda w: w.zeros_like(_grid(w, requires_grad=True)[:, 1]),
    "ones_like": lambda w: w.ones_like(w.zeros(2, dtype=w.vec3)),
    "full_like": lambda w: w.full_like(w.zeros((2, 2)), 3.0),
    "clone": lambda w: w.clone(_grid(w, requires_grad=True)[:, 1]),
    "clone_detached": lambda w: w.clone(_grid(w, requires_grad=True), requires_grad=False),
    # views
    "row": lambda w: _grid(w)[1],
    "last_row": lambda w: _grid(w)[-1],
    "slice": lambda w: _grid(w)[1:3],
    "steps": lambda w: _grid(w)[::2],
    "column": lambda w: _grid(w)[:, 1],
    "block": lambda w: _grid(w)[1:3, 0:2],
    "tail": lambda w: _grid(w)[-2:],
    "reshape": lambda w: _grid(w).reshape((3, 4)),
    "reshape_rest": lambda w: _grid(w).reshape((2, -1)),
    "reshape_flat": lambda w: _grid(w).reshape(-1),
    "flatten": lambda w: _grid(w).flatten(),
    "transpose": lambda w: _grid(w).transpose(),
    "transpose_axes": lambda w: w.zeros((2, 3, 4)).transpose((2, 0, 1)),
    "contiguous": lambda w: _grid(w).transpose().contiguous(),
    "view_bits": lambda w: _grid(w).view(w.uint32),
    "view_vectors": lambda w: _grid(w).view(w.vec3),
    "view_one_vector": lambda w: w.zeros(3).view(w.vec3),
    "view_components": lambda w: w.zeros(2, dtype=w.mat33).view(float),
    "view_strided": lambda w: w.array(np.arange(24.0).reshape(4, 6), dtype=float)[:, :3].view(w.vec3),
    "view_quaternions": lambda w: w.zeros(3, dtype=w.vec4).view(w.quat),
    "is_transposed": lambda w: _grid(w).transpose().is_transposed,
    "capacity": lambda w: (_grid(w).capacity, _grid(w)[1].capacity),
    "list_vectors": lambda w: [tuple(v) for v in w.array(np.arange(6.0), dtype=w.vec3).list()],
    "list_numbers": lambda w: _grid(w).list(),
    # writes
    "fill": lambda w: _filled(w, _grid(w), 2.5),
    "fill_view": lambda w: _filled(w, _grid(w)[:, 1], 2.0),
    "fill_vector": lambda w: _filled(w, w.zeros(2, dtype=w.vec3), w.vec3(1.0, 2.0, 3.0)),
    "fill_sequence": lambda w: _filled(w, w.zeros(2, dtype=w.vec3), [1, 2, 3]),
    "fill_one_number": lambda w: _filled(w, w.zeros(2, dtype=w.vec3), 3.0),
    "fill_matrix": lambda w: _filled(w, w.zeros(2, dtype=w.mat22), w.mat22(1.0, 2.0, 3.0, 4.0)),
    "assign_list": lambda w: _assigned(w, w.zeros(3), [1, 2, 3]),
    "assign_numpy": lambda w: _assigned(w, w.zeros(3), np.arange(3)),
    "assign_vectors": lambda w: _assigned(w, w.zeros(2, dtype=w.vec3), np.arange(6.0).reshape(2, 3)),
    "assign_flat": lambda w: _assigned(w, w.zeros(2, dtype=w.vec3), np.arange(6.0)),
    "assign_array": lambda w: _assigned(w, w.zeros((4, 3)), _grid(w)),
    "copy": lambda w: _copied(w, w.zeros((4, 3)), _grid(w)),
    "copy_flat": lambda w: _copied(w, w.zeros((3, 4)), _grid(w).flatten()),
    "copy_other_shape": lambda w: _copied(w, w.zeros((3, 4)), _grid(w)),
    "copy_offsets": lambda w: _copied(
        w, w.zeros(12), _grid(w).flatten(), dest_offset=2, src_offset=5, count=4
    ),
    "copy_count": lambda w: _copied(w, w.zeros(4), w.ones(8), count=3),
    "copy_into_column": lambda w: _copied(w, _grid(w)[:, 1], w.ones(4)),
    # printing
    "repr": lambda w: repr(_grid(w)),
    "str": lambda w: str(_grid(w)),
    "str_vectors": lambda w: str(w.array(np.arange(6.0), dtype=w.vec3)),
    "str_empty": lambda w: str(w.zeros((0,))),
    # arithmetic and map
    "add": lambda w: _grid(w) + _grid(w),
    "add_number": lambda w: _grid(w) + 1.5,
    "subtract_from": lambda w: 1.0 - _grid(w),
    "divide": lambda w: 1.0 / (_grid(w) + 1.0),
    "power": lambda w: _grid(w) ** 2.0,
    "negative": lambda w: -_grid(w),
    "ints": lambda w: w.array([7, -7, 3], dtype=int) // w.array([2, 2, -2], dtype=int),
    "int_division": lambda w: w.array([7, -7, 3], dtype=int) / 2,
    "int_remainder": lambda w: w.array([7, -7, 3], dtype=int) % w.array([2, 2, -2], dtype=int),
    "broadcast": lambda w: w.ones((2, 1)) + w.ones((3,)),
    "scaled_vectors": lambda w: w.ones(2, dtype=w.vec3) * 2.0,
    "map_builtin": lambda w: w.map(w.sqrt, _grid(w)),
    "map_two": lambda w: w.map(w.atan2, _grid(w), w.ones((4, 3))),
    "map_broadcast": lambda w: w.map(w.max, w.ones((4, 1)), w.full((3,), 2.0)),
    "map_out": lambda w: w.map(w.sqrt, _grid(w), out=w.zeros((4, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_warp(name: str, warp: Any) -> None:
    case = CASES[name]
    ours, theirs = _facts(case(tapedebug)), _facts(case(warp))
    if isinstance(ours, tuple) and isinstance(ours[-1], list):
        np.testing.assert_allclose(ours[-1], theirs[-1], rtol=1e-6)
        ours, theirs = ours[:-1], theirs[:-1]
    assert ours == theirs


def test_an_array_in_place(warp: Any) -> None:
    for w in (tapedebug, warp):
        a = w.array([1.0, 2.0, 3.0], dtype=float)
        before, address = a, a.ptr
        a += 1.0
        a *= a
        a -= w.ones(3)
        assert a is before
        assert a.ptr == address
        assert a.numpy().tolist() == [3, 8, 15]


def test_the_adjoint_of_a_launch(warp: Any) -> None:
    """Results of `adjoint=True`; an adjoint that the caller passes for an output stays as it is."""
    found = []
    for w in (tapedebug, warp):
        kernel = scaled_squares(w)
        x, y = w.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True), w.zeros(3, requires_grad=True)
        adj_x, adj_y = w.zeros(3), w.ones(3)
        w.launch(kernel, 3, inputs=[x, y, 2.0], adj_inputs=[adj_x, adj_y, None], adjoint=True)
        y.grad.fill_(1.0)
        w.launch(kernel, 3, inputs=[x, y, 2.0], adj_inputs=[None, None, None], adjoint=True)
        found.append([a.numpy().tolist() for a in (adj_x, adj_y, x.grad, y.grad, y)])
    assert found[0] == found[1]
