"""Runs a variant of a kernel on NumPy arrays, and compares adjoints with differences of the float64 twin."""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.compiler.kernel import Kernel
from tapedebug.lang import types as t
from tests.runtime.guards import Guarded

EXACT = 1e-7
"""Tolerance of central differences of a float64 twin on well-scaled kernels."""


class Layout:
    """The layout of arrays: axes in any order and direction, in steps, between guard bytes.

    Args:
        seed: For the layouts, which are the same for all arrays of one parameter.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, param: Any, value: Any) -> Any:
        """The array in such memory; what is no array as it is."""
        if not isinstance(value, np.ndarray):
            return value
        r, axes = random.Random(f"layout {self.seed} {param.index}"), param.type.ndim
        order = r.sample(range(axes), axes)
        steps = [r.choice((1, -1, -1, 2, -2, 3)) for _ in range(axes)]
        before = [r.randrange(3) for _ in range(axes)]
        sizes = [value.shape[order[k]] * abs(steps[k]) for k in range(axes)]
        shape = [b + n + r.randrange(2) for b, n in zip(before, sizes, strict=True)]
        slices = []
        for step, b, n in zip(steps, before, sizes, strict=True):
            last = b + n - abs(step)
            slices.append(slice(b, b + n, step) if step > 0 else slice(last, b - 1 if b else None, step))
        back = [order.index(k) for k in range(axes)] + list(range(axes, value.ndim))
        placed = Guarded(
            (*shape, *value.shape[axes:]), lambda a: a[tuple(slices)].transpose(back), value.dtype
        )
        placed.values[...] = value
        return placed


_layouts: list[Layout] = []


@contextmanager
def laid_out(seed: int) -> Iterator[None]:
    """Kernels run on arrays that are laid out at random, between guard bytes."""
    with patch.object(sys.modules[__name__], "_layouts", [Layout(seed)]):
        yield


def run(
    kernel: Kernel,
    dim: Any,
    args: list[Any],
    *,
    f64: bool = False,
    adjoints: Any = None,
    interpreted: bool = False,
    replay: frozenset[int] = frozenset(),
    tangents: Any = None,
    adjoint_tangents: Any = None,
    lanes: bool = False,
    kept: frozenset[int] = frozenset(),
    wrapped: Callable[[Any], Any] = lambda entry: entry,
) -> None:
    """Run a kernel, or with `adjoints` (one array or None for each array parameter) its adjoint, in place.

    With `tangents`, given alike, its tangent; with all of them, the tangent of its adjoint. With `lanes`, in
    lanes where it can be. The adjoints of `kept` are left as they are. `wrapped` makes of the entry what is
    called.

    An array that is not C-contiguous chooses the variant for any strides; its adjoint has the same strides.
    Inside of `laid_out` arrays are copied to memory of other layouts, and what the kernel leaves there back.
    """
    if _layouts:
        layout, parts = _layouts[-1], [adjoints, tangents, adjoint_tangents]
        values = [layout.of(p, value) for p, value in zip(kernel.params, args, strict=True)]
        arrays = [p for p in kernel.params if p.is_array]
        placed = [part and [layout.of(p, a) for p, a in zip(arrays, part, strict=False)] for part in parts]
        own = [v.values if isinstance(v, Guarded) else v for v in values]
        given = [part and [None if a is None else a.values for a in part] for part in placed]
        names = ("adjoints", "tangents", "adjoint_tangents")
        with patch.object(sys.modules[__name__], "_layouts", []):
            run(
                kernel,
                dim,
                own,
                f64=f64,
                interpreted=interpreted,
                replay=replay,
                lanes=lanes,
                kept=kept,
                wrapped=wrapped,
                **dict(zip(names, given, strict=True)),
            )
        back = [*zip(values, args, strict=True)]
        for part, into in zip(placed, parts, strict=True):
            back += zip(part or [], into or [], strict=False)
        for one, into in back:
            if isinstance(one, Guarded):
                one.check()
                into[...] = one.values
        return
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    slots: list[Any] = [*dims, *(1,) * (4 - len(dims))]
    pointers: list[int] = []
    active = set()
    strided = False
    given = iter(adjoints or tangents or [])
    for param, value in zip(kernel.params, args, strict=True):
        if param.is_array:
            ndim = param.type.ndim
            scalars = t.components(param.type.dtype)
            shape = value.shape[:ndim]
            strides = [s // value.itemsize for s in value.strides[:ndim]]
            contiguous = [int(np.prod(shape[a + 1 :], dtype=int)) * scalars for a in range(ndim)]
            strided = strided or strides != contiguous
            slots += [value.ctypes.data, *shape, *strides]
            adjoint = next(given, None)
            pointers.append(0 if adjoint is None else adjoint.ctypes.data)
            if adjoint is not None:
                assert adjoint.strides == value.strides
                active.add(param.index)
        else:
            slots += np.atleast_1d(value).tolist()
    packed = ctypes.create_string_buffer(kernel.layout.size + 16 * len(pointers))
    kernel.layout.struct.pack_into(packed, 0, *slots, *pointers)
    kind = "adjoint" if adjoints is not None else "forward" if tangents is None else "tangent"
    if adjoint_tangents is not None:
        kind = "adjoint_tangent"
        behind = [0 if a is None else a.ctypes.data for a in (*tangents, *adjoint_tangents)]
        struct.pack_into(f"={len(behind)}Q", packed, kernel.layout.size, *behind)
    if interpreted:
        entry: Any = kernel.interpreted(kind, frozenset(active), f64=f64, strided=strided)
    elif kind == "adjoint_tangent":
        entry = kernel.adjoint_tangent(frozenset(active), f64=f64, strided=strided, replay=replay)
    elif tangents is not None:
        entry = kernel.tangent(frozenset(active), f64=f64, strided=strided, lanes=lanes)
    elif adjoints is None:
        entry = kernel.forward(f64=f64, strided=strided, lanes=lanes)
    else:
        entry = kernel.adjoint(
            frozenset(active), f64=f64, strided=strided, replay=replay, lanes=lanes, unconsumed=kept
        )
    wrapped(entry)(0, int(np.prod(dims)), ctypes.addressof(packed))


def twin(args: list[Any]) -> list[Any]:
    """Arguments for the float64 twin: arrays of shorter floats widened, the others copied."""
    return [
        (a.astype(np.float64) if is_float(a.dtype) else a.copy()) if isinstance(a, np.ndarray) else a
        for a in args
    ]


def check_gradient(kernel: Kernel, dim: Any, args: list[Any], *, tolerance: float = EXACT) -> None:
    """The adjoint's product with a random seed equals central differences, in float64; and float32 agrees.

    Every float array is an input and an output at once: the seed covers all of them after the launch, the
    direction all of them before it.
    """
    rng = np.random.default_rng(7)
    before = twin(args)
    floats = [i for i, a in enumerate(before) if isinstance(a, np.ndarray) and a.dtype == np.float64]
    seeds = {i: rng.normal(size=before[i].shape) for i in floats}
    direction = {i: rng.normal(size=before[i].shape) for i in floats}

    def objective(step: float) -> float:
        moved = twin(before)
        for i in floats:
            moved[i] += step * direction[i]
        run(kernel, dim, moved, f64=True)
        return float(sum((moved[i] * seeds[i]).sum() for i in floats))

    def gradient(values: list[Any], f64: bool) -> float:
        adjoints = {i: seeds[i].astype(values[i].dtype) for i in floats}
        arrays = [adjoints.get(p.index) for p in kernel.params if p.is_array]
        run(kernel, dim, values, f64=f64, adjoints=arrays)
        return float(sum((adjoints[i] * direction[i]).sum() for i in floats))

    h = 1e-5
    difference = (objective(h) - objective(-h)) / (2 * h)
    assert np.isfinite(difference)
    exact = gradient(twin(before), True)
    scale = max(1.0, abs(difference))
    assert abs(exact - difference) <= tolerance * scale, (exact, difference)
    if any(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in args):
        single = gradient([a.copy() if isinstance(a, np.ndarray) else a for a in args], False)
        assert abs(single - difference) <= 2e-3 * scale, (single, difference)


def check_tangent(kernel: Kernel, dim: Any, args: list[Any], *, tolerance: float = 1e-9) -> None:
    """The tangent agrees with the adjoint by dot product, ⟨w, J v⟩ = ⟨Jᵀ w, v⟩, in float64."""
    rng = np.random.default_rng(8)
    before = twin(args)
    floats = [i for i, a in enumerate(before) if isinstance(a, np.ndarray) and a.dtype == np.float64]
    weights = {i: rng.normal(size=before[i].shape) for i in floats}
    direction = {i: rng.normal(size=before[i].shape) for i in floats}
    params = [p.index for p in kernel.params if p.is_array]
    dots = {i: d.copy() for i, d in direction.items()}
    run(kernel, dim, twin(before), f64=True, tangents=[dots.get(p) for p in params])
    adjoints = {i: w.copy() for i, w in weights.items()}
    run(kernel, dim, twin(before), f64=True, adjoints=[adjoints.get(p) for p in params])
    pushed = sum((weights[i] * dots[i]).sum() for i in floats)
    pulled = sum((adjoints[i] * direction[i]).sum() for i in floats)
    assert abs(pushed - pulled) <= tolerance * max(1.0, abs(pushed)), (pushed, pulled)


class _Threads:
    """The namespace that a kernel's Python function calls as `wp` when it runs as plain Python."""

    def __init__(self) -> None:
        self.index: tuple[int, ...] = ()

    def tid(self) -> Any:
        return self.index[0] if len(self.index) == 1 else self.index

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def as_python(kernel: Kernel, dim: Any, args: list[Any]) -> list[Any]:
    """Return what a kernel leaves in its arrays when its function runs as plain Python in float64.

    Kernels that Python can run mean in Python what they mean here.
    """
    values, wp = twin(args), _Threads()
    python = kernel.python
    names = {**python.__globals__, "wp": wp}
    plain = FunctionType(python.__code__, names, closure=python.__closure__)
    for thread in np.ndindex(*np.atleast_1d(dim)):
        wp.index = thread
        plain(*values)
    return values


def check(kernel: Kernel, dim: Any, args: list[Any], *, tolerance: float = EXACT) -> list[Any]:
    """The kernel does what its function does in Python, literals aside, and its derivatives are right."""
    expected = as_python(kernel, dim, args)
    found = twin(args)
    run(kernel, dim, found, f64=True)
    for param, one, two in zip(kernel.params, found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6, err_msg=f"{kernel.key}: {param.name}")
    check_gradient(kernel, dim, args, tolerance=tolerance)
    check_tangent(kernel, dim, args)
    return found
