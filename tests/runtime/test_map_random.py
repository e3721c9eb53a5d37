"""Random arithmetic on overlapping views, in place and not, beside PyTorch's autograd in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp

torch = pytest.importorskip("torch")

CUTS = [
    slice(0, 4),
    slice(4, 8),
    slice(2, 6),
    slice(0, 8, 2),
    slice(1, 8, 2),
    slice(3, 7),
    slice(5, 1, -1),
]
OPERATIONS = {
    "__iadd__": lambda a, b: a + b,
    "__imul__": lambda a, b: a * b,
    "__isub__": lambda a, b: a - b,
}


def _step(rng, arrays, memory):
    """One operation on both sides: between any two views, which may share elements."""
    d, s, into, source_cut = (int(rng.integers(n)) for n in (2, 2, len(CUTS), len(CUTS)))
    target, source = arrays[d][CUTS[into]], arrays[s][CUTS[source_cut]]
    there = list(range(8))[CUTS[into]]
    a, b = memory[d][there].clone(), memory[s][list(range(8))[CUTS[source_cut]]].clone()
    kind, name = str(rng.choice(["in place", "out", "sin", "number", "new"])), str(rng.choice([*OPERATIONS]))
    operation = OPERATIONS[name]
    if kind == "in place":
        getattr(target, name)(source)
        result = operation(a, b)
    elif kind == "out":
        wp.map(lambda u, v: u * v + u, source, target, out=target)
        result = b * a + b
    elif kind == "sin":
        wp.map(wp.sin, source, out=target)
        result = torch.sin(b)
    elif kind == "number":
        getattr(target, name)(0.75)
        result = operation(a, 0.75)
    else:
        target.assign(operation(source, target))
        result = operation(b, a)
    memory[d] = memory[d].clone()
    memory[d][there] = result


@pytest.mark.parametrize("number", range(25))
def test_random_arithmetic(number):
    rng = np.random.default_rng(number)
    start = rng.uniform(-1.1, 1.1, (2, 8)).astype(np.float32)
    arrays = [wp.array(row, dtype=float, requires_grad=True) for row in start]
    leaf = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    memory = [leaf[0].clone(), leaf[1].clone()]
    with wp.Tape() as tape:
        for _ in range(int(rng.integers(1, 10))):
            _step(rng, arrays, memory)
    for a, wanted in zip(arrays, memory, strict=True):
        np.testing.assert_allclose(a.numpy(), wanted.detach().numpy(), rtol=1e-3, atol=1e-4)
    seed = rng.normal(size=(2, 8)).astype(np.float32)
    used = [i for i, a in enumerate(arrays) if a.buffer in tape.tracker.ledgers]
    seeds = {arrays[i]: seed[i] for i in used}
    tape.backward(grads=seeds)
    sum((memory[i] * torch.tensor(seed[i], dtype=torch.float64)).sum() for i in used).backward()
    shadow = tape.replay(dtype=wp.float64).backward(seeds)
    for i in used:
        wanted = leaf.grad[i].numpy()
        np.testing.assert_allclose(arrays[i].grad.numpy(), wanted, rtol=2e-3, atol=1e-3)
        np.testing.assert_allclose(shadow.gradient(arrays[i]), wanted, rtol=1e-5, atol=1e-6)
