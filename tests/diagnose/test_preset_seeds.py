"""Seeds that a program writes into gradients before a bare `backward()` count like those of `grads=`.

Each way to set a seed × each kind of bug (and a right program) × each check must say what it says of
`backward(grads={y: seed})`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

N = 4
SEED = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def negate(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i]


@wp.func
def cube(v: float):
    return v * v * v


@wp.func_grad(cube)
def adj_cube(v: float, adj_ret: float):
    wp.adjoint[v] += 2.0 * v * v * adj_ret


@wp.kernel
def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cube(x[i])


@wp.kernel
def crates(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(3.3 * x[i])


@wp.kernel
def repeated(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = s * s * 0.5 + x[i]
    y[i] = s


@wp.kernel
def racing(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i // 2] = x[i] * x[i]


@wp.kernel
def fill_in(seed: wp.array(dtype=float), gradient: wp.array(dtype=float)):
    i = wp.tid()
    gradient[i] = seed[i]


Made = tuple[wp.Tape, Any, Any, bool]
"""A tape that has not run backward, its input and output, and whether it is diagnosed as for Warp."""


def arrays(count: int) -> list[Any]:
    x = wp.array(np.linspace(0.6, 1.3, N), dtype=float, requires_grad=True)
    return [x, *(wp.zeros(N, dtype=float, requires_grad=True) for _ in range(count))]


def overwrite(mode: str | None) -> Made:
    x, y, z = arrays(2)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(negate, dim=N, inputs=[y], outputs=[x])
        wp.launch(negate, dim=N, inputs=[y], outputs=[z])
    return tape, x, z, mode is None


def one_kernel(kernel: Any, as_warp: bool = False, *numbers: int) -> Made:
    x, y = arrays(1)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=N, inputs=[x, *numbers], outputs=[y])
    return tape, x, y, as_warp


def cut_chain() -> Made:
    x, y = arrays(1)
    between = wp.zeros(N, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[between])
        wp.launch(negate, dim=N, inputs=[between], outputs=[y])
    return tape, x, y, False


PROGRAMS: dict[str, Callable[[], Made]] = {
    "overwrite": functools.partial(overwrite, "ignore"),
    "overwrite as Warp": functools.partial(overwrite, None),
    "wrong func_grad": functools.partial(one_kernel, cubes),
    "cut chain": cut_chain,
    "flat operation": functools.partial(one_kernel, crates),
    "dynamic loop as Warp": functools.partial(one_kernel, repeated, True, 3),
    "race": functools.partial(one_kernel, racing),
    "right": functools.partial(one_kernel, square),
}


def by_fill(y: Any, seed: Any) -> None:
    y.grad.fill_(1.0)


def by_assign(y: Any, seed: Any) -> None:
    y.grad.assign(seed)


def by_grad(y: Any, seed: Any) -> None:
    y.grad = wp.array(seed, dtype=float)


def by_numpy(y: Any, seed: Any) -> None:
    y.grad.numpy()[:] = seed


def by_copy(y: Any, seed: Any) -> None:
    wp.copy(y.grad, wp.array(seed, dtype=float))


def by_kernel(y: Any, seed: Any) -> None:
    wp.launch(fill_in, dim=N, inputs=[wp.array(seed, dtype=float)], outputs=[y.grad])


def by_slice(y: Any, seed: Any) -> None:
    y[: N // 2].grad.assign(seed[: N // 2])
    y[N // 2 :].grad.assign(seed[N // 2 :])


def by_torch(y: Any, seed: Any) -> None:
    pytest.importorskip("torch")
    shared: Any = wp.to_torch(y.grad)
    shared.copy_(importlib.import_module("torch").from_numpy(seed))


def by_torch_tensor(y: Any, seed: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    y.grad = wp.from_torch(torch.tensor(seed))


WAYS = [
    by_fill,
    by_assign,
    by_grad,
    by_numpy,
    by_copy,
    by_kernel,
    by_slice,
    by_torch,
    by_torch_tensor,
]


def run(program: str, way: Callable[[Any, Any], None] | None, seed: Any) -> tuple[wp.Tape, Any, bool]:
    tape, x, y, as_warp = PROGRAMS[program]()
    if way is None:
        tape.backward(grads={y: wp.array(seed, dtype=float)})
    else:
        way(y, seed)
        tape.backward()
    return tape, x, as_warp


def plain(text: str) -> str:
    """A message without the lines of this file, and the numbers that timing changes."""
    return re.sub(r"\.py:\d+", ".py", text)


def told(tape: wp.Tape, x: Any, as_warp: bool) -> dict[str, Any]:
    """All that is said of a tape that ran backward."""
    found = wp.diagnose(tape, as_warp=as_warp, progress=False)
    check = wp.autograd.gradcheck_tape(tape, end_to_end=True, show_summary=False, raise_exception=False)
    alone = wp.autograd.gradcheck_tape(tape, show_summary=False, raise_exception=False)
    try:
        asserted = wp.autograd.assert_gradients(tape, loss=tape.backward_calls[-1].seeds).verdict
    except AssertionError as error:
        asserted = plain(str(error))
    return {
        "gradient": x.grad.numpy().tolist(),
        "verdict": found.verdict,
        "findings": [
            (item.rule, item.severity, plain(item.message), item.launches, item.arrays, item.fix)
            for item in found.findings
        ],
        "coverage": (found.coverage.summary, found.coverage.notes),
        "loss": found.trace.backward.loss,
        "checks": [(item.input, item.output, item.verdict, item.message) for item in found.trace.checks],
        "end to end": (check.verdict, [(pair.input, pair.output, pair.verdict) for pair in check.pairs]),
        "launches": (alone.verdict, [(pair.input, pair.output, pair.verdict) for pair in alone.pairs]),
        "asserted": asserted,
    }


@functools.cache
def told_with_grads(program: str, ones: bool) -> dict[str, Any]:
    return told(*run(program, None, np.ones(N, np.float32) if ones else SEED))


EXPECTED = {
    "overwrite": ("WRONG", "overwrite"),
    "overwrite as Warp": ("AGREE", "overwrite"),
    "wrong func_grad": ("WRONG", "custom-grad"),
    "cut chain": ("WRONG", "disconnected"),
    "flat operation": ("AGREE", "flat-op"),
    "dynamic loop as Warp": ("AGREE", "warp-limitation"),
    "race": ("AGREE", "race"),
    "right": ("AGREE", None),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bug_is_found_with_grads(program: str) -> None:
    """What the others are compared with says what it should."""
    says = told_with_grads(program, True)
    verdict, rule = EXPECTED[program]
    serious = [(found, severity) for found, severity, *_ in says["findings"] if severity != "info"]
    assert (says["verdict"], [found for found, _ in serious]) == (verdict, [rule] if rule else []), says
    assert all(severity == "error" for found, severity in serious if found != "flat-op"), serious


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_seed_in_the_gradient_says_the_same(program: str, way: Callable[[Any, Any], None]) -> None:
    assert told(*run(program, way, SEED)) == told_with_grads(program, way is by_fill)
