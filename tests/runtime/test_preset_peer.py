"""Seeds in gradients beside warp-lang: the same programs give the same gradients of their inputs."""

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

N = 3


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def add_up(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def zeros(n):
    return wp.zeros(n, dtype=float, requires_grad=True)


x, y, z, one, two = zeros(N), zeros(N), zeros(N), zeros(1), zeros(1)
x.assign([1.0, 2.0, 3.0])
results = []


def record():
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(add_up, dim=N, inputs=[y], outputs=[one])
        wp.launch(square, dim=N, inputs=[x], outputs=[z])
        wp.launch(add_up, dim=N, inputs=[z], outputs=[two])
    return tape


def took(tape, zero=True):
    results.append(x.grad.numpy().copy())
    x.grad.zero_()
    if zero:
        tape.zero()


tape = record()
for _ in range(2):
    y.grad.fill_(1.0)
    tape.backward()
    took(tape)
    y.grad.assign([1.0, -2.0, 0.5])
    tape.backward(one)  # beside a loss
    took(tape)
    one.grad.numpy()[0] = 3.0  # the same number once more, through NumPy
    tape.backward()
    took(tape, zero=False)
    one.grad.numpy()[0] = 3.0
    tape.backward()
    took(tape)
    seed = wp.array(np.array([2.0, 0.0, 1.0]), dtype=float)
    y.grad = seed
    tape.backward()
    took(tape, zero=False)
    results.append(seed.numpy().copy())  # used up
    tape.zero()
record().backward(one)
x.grad.zero_()
again = record()
again.backward(two)  # one.grad still is 1
took(again)
"""


def run(library: str, folder: Path) -> list[Any]:
    path = folder / f"seeds_in_{library}.py"
    path.write_text(PROGRAM.replace("LIBRARY", library), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[Any] = module.results
    return found


def test_gradients_are_those_of_warp(tmp_path: Path) -> None:
    pytest.importorskip("warp")
    ours, theirs = run("tapedebug", tmp_path), run("warp", tmp_path)
    assert len(ours) == len(theirs) == 13
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(mine, other, rtol=1e-6, err_msg=str(number))
