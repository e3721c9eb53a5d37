"""Random numbers and noise beside warp-lang: the same streams, and the same fields with their gradients."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.peer

COUNT = 4096
PROGRAM = """
import {library} as wp

@wp.kernel
def exact(
    seed: int, cdf: wp.array(dtype=float), whole: wp.array2d(dtype=wp.uint32), real: wp.array2d(dtype=float)
):
    i = wp.tid()
    s = wp.rand_init(seed, i)
    real[i, 0] = wp.randf(s)
    real[i, 1] = wp.randf(s, -2.0, 3.5)
    square = wp.sample_unit_square(s)
    cube = wp.sample_unit_cube(s)
    real[i, 2] = square[0]
    real[i, 3] = square[1]
    real[i, 4] = cube[0]
    real[i, 5] = cube[2]
    whole[i, 0] = wp.uint32(wp.randi(s))
    whole[i, 1] = wp.uint32(wp.randi(s, -7, 9))
    whole[i, 2] = wp.randu(s)
    whole[i, 3] = wp.randu(s, wp.uint32(3), wp.uint32(1000))
    whole[i, 4] = wp.uint32(wp.sample_cdf(s, cdf))
    whole[i, 5] = wp.poisson(s, 0.7)
    whole[i, 6] = wp.poisson(s, 9.5)
    whole[i, 7] = wp.poisson(s, 10.0)
    whole[i, 8] = wp.poisson(s, 60.0)
    whole[i, 9] = wp.poisson(s, 1000.0)
    whole[i, 10] = wp.rand_init(seed)
    whole[i, 11] = wp.uint32(wp.lower_bound(cdf, real[i, 0]))
    whole[i, 12] = s

@wp.kernel
def rounded(
    seed: int, one: wp.array(dtype=float), two: wp.array2d(dtype=wp.vec2), three: wp.array2d(dtype=wp.vec3)
):
    i = wp.tid()
    s = wp.rand_init(seed, i)
    one[i] = wp.randn(s)
    two[i, 0] = wp.sample_triangle(s)
    two[i, 1] = wp.sample_unit_ring(s)
    two[i, 2] = wp.sample_unit_disk(s)
    three[i, 0] = wp.sample_unit_sphere(s)
    three[i, 1] = wp.sample_unit_sphere_surface(s)
    three[i, 2] = wp.sample_unit_hemisphere(s)
    three[i, 3] = wp.sample_unit_hemisphere_surface(s)

@wp.kernel
def fields(
    seed: int, p: wp.array(dtype=wp.vec4), one: wp.array2d(dtype=float), two: wp.array(dtype=wp.vec2),
    three: wp.array2d(dtype=wp.vec3),
):
    i = wp.tid()
    s = wp.rand_init(seed, i % 4)
    x = p[i]
    plane = wp.vec2(x[0], x[1])
    space = wp.vec3(x[0], x[1], x[2])
    one[i, 0] = wp.noise(s, x[0])
    one[i, 1] = wp.noise(s, plane)
    one[i, 2] = wp.noise(s, space)
    one[i, 3] = wp.noise(s, x)
    one[i, 4] = wp.pnoise(s, x[0] + 10.0, 3)
    one[i, 5] = wp.pnoise(s, plane + wp.vec2(10.0, 10.0), 3, 4)
    one[i, 6] = wp.pnoise(s, space + wp.vec3(10.0, 10.0, 10.0), 3, 4, 5)
    one[i, 7] = wp.pnoise(s, x + wp.vec4(10.0, 10.0, 10.0, 10.0), 3, 4, 5, 2)
    two[i] = wp.curlnoise(s, plane, wp.uint32(3), 1.8, 0.6)
    three[i, 0] = wp.curlnoise(s, space, wp.uint32(2), 2.1, 0.4)
    three[i, 1] = wp.curlnoise(s, x)
"""


def module(library: str, folder: Path) -> Any:
    path = folder / f"random_{library}.py"
    path.write_text(PROGRAM.replace("{library}", library), encoding="utf-8")
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

    folder = tmp_path_factory.mktemp("random")
    return [(tapedebug, module("tapedebug", folder)), (warp, module("warp", folder))]


def test_streams_are_the_same_to_the_bit(both):
    found = []
    for wp, programs in both:
        with wp.ScopedDevice("cpu"):
            cdf = wp.array(np.array([0.25, 0.3, 0.3, 0.75, 1.0], np.float32))
            whole = wp.zeros((COUNT, 13), dtype=wp.uint32)
            real = wp.zeros((COUNT, 6), dtype=float)
            wp.launch(programs.exact, COUNT, [1234, cdf, whole, real])
            found.append((whole.numpy(), real.numpy()))
    (whole, real), (theirs, their_real) = found
    for column in range(13):
        assert (whole[:, column] == theirs[:, column]).all(), column
    np.testing.assert_array_equal(real.view(np.uint32), their_real.view(np.uint32))


def test_points_are_the_same_to_rounding(both):
    found = []
    for wp, programs in both:
        with wp.ScopedDevice("cpu"):
            one = wp.zeros(COUNT, dtype=float)
            two, three = wp.zeros((COUNT, 3), dtype=wp.vec2), wp.zeros((COUNT, 4), dtype=wp.vec3)
            wp.launch(programs.rounded, COUNT, [-5, one, two, three])
            found.append([one.numpy(), two.numpy(), three.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=4e-7)


def test_noise_and_its_gradient_are_the_same_to_rounding(both):
    rng = np.random.default_rng(5)
    p = rng.uniform(-9, 9, (256, 4)).astype(np.float32)
    seeds = [rng.normal(size=s).astype(np.float32) for s in ((256, 8), (256, 2), (256, 2, 3))]
    found = []
    for wp, programs in both:
        with wp.ScopedDevice("cpu"):
            x = wp.array(p, dtype=wp.vec4, requires_grad=True)
            outputs = [
                wp.zeros((256, 8), dtype=float, requires_grad=True),
                wp.zeros(256, dtype=wp.vec2, requires_grad=True),
                wp.zeros((256, 2), dtype=wp.vec3, requires_grad=True),
            ]
            kinds = (float, wp.vec2, wp.vec3)
            with wp.Tape() as tape:
                wp.launch(programs.fields, 256, [9, x], outputs)
            given = [wp.array(s, dtype=kind) for s, kind in zip(seeds, kinds, strict=True)]
            tape.backward(grads=dict(zip(outputs, given, strict=True)))
            found.append([*(o.numpy() for o in outputs), x.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())
