"""A long in-place simulation with `Tape(memory_budget=…)`: memory and time against keeping everything.

    python -m tests.benchmarks.memory_budget --points 100000 --steps 1000

Memory is what the tape keeps while it records, and the most that Python has allocated since, gradients
included (`tracemalloc`). Times are those of passes without that, the best of `--rounds`.
"""

import argparse
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

import tapedebug as wp

PARTS = (1, 2, 10, 50)


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float), dt: float):
    """A damped pendulum a thread, one semi-implicit Euler step, in place."""
    i = wp.tid()
    v[i] = v[i] - (wp.sin(x[i]) + 0.1 * v[i] * v[i] * v[i]) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def record(points: int, steps: int, budget: int | None) -> tuple[wp.Tape, Any, Any]:
    """Swing; returns the tape, the start (whose gradient is wanted) and the loss."""
    start = wp.array(np.linspace(-1.0, 2.0, points), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(memory_budget=budget) as tape:
        x, v = wp.clone(start), wp.zeros(points, dtype=float, requires_grad=True)
        for _ in range(steps):
            wp.launch(swing, points, inputs=[x, v, 0.01])
        wp.launch(total, points, inputs=[x, loss])
    return tape, start, loss


def timed(points: int, steps: int, budget: int | None, rounds: int) -> tuple[float, float, int, bytes]:
    """Best seconds of recording and of backward, how many launches ran again, and the gradient."""
    forward, backward = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        tape, start, loss = record(points, steps, budget)
        forward.append(time.perf_counter() - began)
        tape.backward(loss)
        backward.append(tape.backward_calls[-1].seconds)
    return min(forward), min(backward), tape.backward_calls[-1].reran, start.grad.numpy().tobytes()


def peak(points: int, steps: int, budget: int | None) -> int:
    """The most memory from the first launch to the gradient."""
    tracemalloc.start()
    tape, _, loss = record(points, steps, budget)
    tape.backward(loss)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = options.points, options.steps
    tape, _, loss = record(1, 1, None)
    tape.backward(loss)  # compiles
    tape, _, _ = record(*size, None)
    whole = tape.preserved_bytes + tape.livein_bytes
    del tape
    print(
        f"{options.points} pendulums, {options.steps} steps in place; everything kept: {whole / 1e6:.0f} MB"
    )
    print(f"{'budget':>10}  {'peak':>8}  {'record':>8}  {'backward':>8}  {'ran again':>9}  same bits")
    expected = b""
    warnings.simplefilter("error")
    for part in PARTS:
        budget = whole // part if part > 1 else None
        forward, backward, reran, gradient = timed(*size, budget, options.rounds)
        expected = expected or gradient
        message = f"{budget / 1e6:.0f} MB" if budget else "none"
        print(
            f"{message:>10}  {peak(*size, budget) / 1e6:>5.0f} MB  {forward:>6.2f} s  {backward:>6.2f} s  "
            f"{reran:>9}  {'yes' if gradient == expected else 'NO'}"
        )


if __name__ == "__main__":
    main()
