"""Structs and indexed arrays beside warp-lang: one program, its values and the gradients of its inputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peer

PROGRAM = """
import numpy as np
import LIBRARY as wp


@wp.struct
class Inner:
    x: float
    n: wp.int32


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    inner: Inner
    frame: wp.mat22
    on: wp.uint8


@wp.struct
class World:
    q: wp.array(dtype=wp.vec3)
    grid: wp.array2d(dtype=Body)
    scale: float
    gravity: wp.vec3
    inner: Inner


@wp.func
def moved(b: Body, by: wp.vec3):
    c = Body()
    c.pos = b.pos + by * b.mass
    c.mass = b.mass * 2.0
    c.inner = Inner(b.inner.x * b.mass, b.inner.n + 1)
    return c


@wp.func
def energy(w: World, i: int):
    return 0.5 * w.grid[i, 0].mass * wp.dot(w.q[i], w.q[i]) - wp.dot(w.gravity, w.q[i]) * w.scale


@wp.kernel
def fields(w: World, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = energy(w, i) + w.inner.x * float(w.inner.n) + float(w.q.shape[0])


@wp.kernel
def elements(bodies: wp.array(dtype=Body), q: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    b = bodies[i]
    c = moved(b, q[i])
    out[i] = wp.length(c.pos) * c.inner.x + b.frame[0, 1] * b.mass + float(c.inner.n) + float(b.on)


@wp.kernel
def stores(x: wp.array(dtype=float), bodies: wp.array(dtype=Body)):
    i = wp.tid()
    bodies[i].mass = x[i] * x[i]
    bodies[i].pos = wp.vec3(x[i], 2.0, wp.sin(x[i]))
    bodies[i].inner = Inner(x[i] * 3.0, i)
    bodies[i].on = wp.uint8(3)


@wp.kernel
def branches(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    b = bodies[i]
    s = Inner()
    if b.mass > 1.5:
        s.x = b.mass * b.pos[0]
        s.n = 1
    else:
        s.x = b.pos[1] * b.pos[2]
    out[i] = s.x * b.inner.x + float(s.n)


@wp.kernel
def chosen(a: wp.indexedarray(dtype=float, ndim=2), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = a[i, 0] * a[i, 2] + float(a.shape[0])
"""


def module(library: str, folder: Path) -> Any:
    path = folder / f"structs_{library}.py"
    path.write_text(PROGRAM.replace("LIBRARY", library), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def both(tmp_path_factory: Any) -> Any:
    warp = pytest.importorskip("warp", reason="warp-lang is not installed")
    warp.config.quiet = True
    warp.config.kernel_cache_dir = str(tmp_path_factory.mktemp("warp-cache"))
    folder = tmp_path_factory.mktemp("structs")
    return [module("tapedebug", folder), module("warp", folder)]


N = 5


def bodies_of(m: Any, shape: tuple[int, ...] = (N,), seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    values = np.zeros(shape, np.dtype(m.Body.numpy_dtype()))
    for name, size in (("pos", (3,)), ("mass", ()), ("frame", (2, 2))):
        values[name] = rng.uniform(1.0, 2.0, (*shape, *size))
    values["inner"]["x"], values["inner"]["n"] = rng.normal(size=shape), rng.integers(0, 5, shape)
    values["on"] = rng.integers(0, 2, shape)
    return m.wp.array(values, dtype=m.Body, requires_grad=True)


def vectors(m: Any) -> Any:
    values = np.random.default_rng(9).normal(size=(N, 3)).astype(np.float32)
    return m.wp.array(values, dtype=m.wp.vec3, requires_grad=True)


def world(m: Any) -> Any:
    w = m.World()
    w.q, w.grid, w.scale = vectors(m), bodies_of(m, (N, 2)), 1.5
    w.gravity = m.wp.vec3(0.1, -9.8, 0.5)
    w.inner.x = 2.5
    w.inner.n = 3
    return w


def gradient(m: Any, kernel: Any, inputs: list[Any], output: Any, seed: Any = None) -> None:
    tape = m.wp.Tape()
    with tape:
        m.wp.launch(kernel, dim=N, inputs=inputs, outputs=[output], device="cpu")
    if seed is None:
        seed = m.wp.array(np.linspace(-1.0, 1.0, N, dtype=np.float32), dtype=float)
    tape.backward(grads={output: seed})


def plain(values: Any) -> list[Any]:
    """A structured array as numbers, in order."""
    if values.dtype.names is None:
        return [float(v) for v in np.ravel(values)]
    return [number for name in values.dtype.names for number in plain(values[name])]


def fields(m: Any) -> list[Any]:
    w, out = world(m), m.wp.zeros(N, dtype=float, requires_grad=True)
    gradient(m, m.fields, [w], out)
    return [out.numpy(), w.q.grad.numpy(), w.grid.grad.numpy()]


def elements(m: Any) -> list[Any]:
    b, q, out = bodies_of(m), vectors(m), m.wp.zeros(N, dtype=float, requires_grad=True)
    gradient(m, m.elements, [b, q], out)
    return [out.numpy(), b.grad.numpy(), q.grad.numpy()]


def stores(m: Any) -> list[Any]:
    x = m.wp.array(np.linspace(0.5, 2.0, N, dtype=np.float32), dtype=float, requires_grad=True)
    b = bodies_of(m)
    gradient(m, m.stores, [x], b, bodies_of(m, seed=8))
    return [b.numpy(), x.grad.numpy()]


def branches(m: Any) -> list[Any]:
    b, out = bodies_of(m), m.wp.zeros(N, dtype=float, requires_grad=True)
    gradient(m, m.branches, [b], out)
    return [out.numpy(), b.grad.numpy()]


def chosen(m: Any) -> list[Any]:
    data = m.wp.array(np.arange(28, dtype=np.float32).reshape(7, 4), dtype=float, requires_grad=True)
    rows = m.wp.array([6, 0, 3, 3, 1], dtype=int)
    out = m.wp.zeros(N, dtype=float, requires_grad=True)
    indexed = m.wp.indexedarray(data, [rows, None])
    m.wp.launch(m.chosen, dim=N, inputs=[indexed], outputs=[out], device="cpu")
    return [out.numpy(), indexed.numpy()]


@pytest.mark.parametrize("program", [fields, elements, stores, branches, chosen], ids=lambda p: p.__name__)
def test_as_in_warp(both: Any, program: Any) -> None:
    ours, theirs = (program(m) for m in both)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(plain(mine), plain(other), rtol=2e-5, atol=1e-6)


def test_layouts_are_those_of_warp(both: Any) -> None:
    mine, other = (np.dtype(m.Body.numpy_dtype()) for m in both)
    assert mine.names == other.names
    assert [mine.fields[n][1] for n in mine.names] == [other.fields[n][1] for n in other.names]
    assert mine.itemsize == other.itemsize
