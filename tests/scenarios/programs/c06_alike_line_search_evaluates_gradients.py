"""A line search by a helper that always runs backward: of rejected trials nobody reads the gradient."""

import numpy as np

import tapedebug as wp

N = 8


@wp.kernel
def valley(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 4.0 * (x[i] - 0.1 * float(i)) * (x[i] - 0.1 * float(i)) + wp.cos(3.0 * x[i]))


class Problem:
    def __init__(self):
        self.x = wp.array(np.full(N, 0.9), dtype=float, requires_grad=True)
        self.tapes = []

    def evaluate(self, values):
        self.x.assign(values)
        self.x.grad.zero_()
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape = wp.Tape()
        with tape:
            wp.launch(valley, dim=N, inputs=[self.x], outputs=[loss])
        tape.backward(loss)
        self.tapes.append(tape)
        return float(loss.numpy()[0])

    def gradient(self):
        return self.x.grad.numpy().copy()


problem = Problem()
here = problem.x.numpy().copy()
value = problem.evaluate(here)
for _ in range(3):
    slope = problem.gradient()
    length = 1.0
    while True:
        trial = here - length * slope
        found = problem.evaluate(trial)
        if found <= value - 1e-4 * length * float(slope @ slope) or length < 1e-4:
            break
        length *= 0.5
    here, value = trial, found
tapes = problem.tapes
