"""Random kernels that Warp reverses rightly: values and gradients of both engines agree."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.generator_peer import OUTPUTS, module
from tests.compiler.harness import run, twin
from tests.compiler.test_generated import THREADS, arguments

pytestmark = pytest.mark.peer
SEEDS = range(700, 716)


def loaded(engine: str, folder: Path) -> Any:
    path = folder / f"with_{engine}.py"
    path.write_text(f"import {engine} as wp\n{module(SEEDS)}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def engines(tmp_path_factory: Any) -> Any:
    warp = pytest.importorskip("warp")
    folder = tmp_path_factory.mktemp("peer")
    return warp, loaded("tapedebug", folder), loaded("warp", folder)


def case(kernel: Any, seed: int) -> tuple[list[Any], dict[int, np.ndarray]]:
    """Arguments in float64, as float32 holds them, and the seeds of what the kernel writes."""
    rng = np.random.default_rng(seed)
    args = arguments(rng)[: len(kernel.params)]  # without structs
    names = {p.index: p.name for p in kernel.params}
    return args, {i: rng.normal(size=args[i].shape) for i in names if names[i] in OUTPUTS}


def ours(kernel: Any, seed: int) -> tuple[list[Any], dict[int, np.ndarray]]:
    """Values and gradients of the float64 twin."""
    args, seeds = case(kernel, seed)
    values = twin(args)
    run(kernel, THREADS, values, f64=True, interpreted=True)
    floats = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype == float]
    found = {i: seeds[i].copy() if i in seeds else np.zeros_like(args[i]) for i in floats}
    given = [found.get(p.index) for p in kernel.params if p.is_array]
    run(kernel, THREADS, twin(args), f64=True, adjoints=given, interpreted=True)
    return values, found


def theirs(warp: Any, kernel: Any, mine: Any, seed: int) -> tuple[list[Any], dict[int, np.ndarray]]:
    args, seeds = case(mine, seed)
    given = []
    for param, value in zip(mine.params, args, strict=True):
        if not param.is_array:
            given.append(value)
            continue
        name = param.type.dtype.__name__
        dtype = {"float32": float, "int32": int}.get(name) or getattr(warp, name)
        floating = value.dtype == float
        given.append(warp.array(value, dtype=dtype, requires_grad=floating))
    with warp.Tape() as tape:
        warp.launch(kernel, dim=THREADS, inputs=given)
    arrays = {i: a for i, a in enumerate(given) if isinstance(a, warp.array)}
    tape.backward(grads={arrays[i]: warp.array(s, dtype=arrays[i].dtype) for i, s in seeds.items()})
    values = [a.numpy() if i in arrays else a for i, a in enumerate(given)]
    return values, {i: a.grad.numpy() for i, a in arrays.items() if a.requires_grad and i not in seeds}


@pytest.mark.parametrize("seed", SEEDS)
def test_both_engines_agree(engines: Any, seed: int) -> None:
    warp, mine, peer = engines
    kernel = getattr(mine, f"program_{seed}")
    values, gradients = ours(kernel, seed)
    other_values, other_gradients = theirs(warp, getattr(peer, f"program_{seed}"), kernel, seed)
    for param in kernel.params:
        i = param.index
        if param.name in OUTPUTS:
            size = max(1.0, float(np.abs(values[i]).max()))
            np.testing.assert_allclose(
                other_values[i], values[i], rtol=1e-3, atol=1e-4 * size, err_msg=param.name
            )
    size = max(1.0, *(float(np.abs(g).max()) for g in gradients.values()))
    for i, found in other_gradients.items():
        name = kernel.params[i].name
        np.testing.assert_allclose(found, gradients[i], rtol=2e-3, atol=1e-4 * size, err_msg=name)
