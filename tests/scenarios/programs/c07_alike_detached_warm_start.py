"""Frames of a film: each fit begins at the state that the one before ended with, detached by its author."""

import numpy as np

import tapedebug as wp

N, STEPS = 10, 5


@wp.kernel
def relax(x: wp.array(dtype=float), stiff: wp.array(dtype=float), after: wp.array(dtype=float)):
    i = wp.tid()
    left = x[wp.max(i - 1, 0)]
    right = x[wp.min(i + 1, N - 1)]
    after[i] = x[i] + 0.2 * stiff[0] * (left + right - 2.0 * x[i]) - 0.02 * x[i] * x[i] * x[i]


@wp.kernel
def difference(x: wp.array(dtype=float), frame: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - frame[i]) * (x[i] - frame[i]))


stiff = wp.array([0.7], dtype=float, requires_grad=True)
x = wp.array(np.sin(np.linspace(0.0, 3.0, N)), dtype=float)
tapes = []
for number in range(3):
    frame = wp.array(np.cos(np.linspace(0.0, 3.0, N) + 0.1 * number), dtype=float)
    misfit = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for _ in range(STEPS):
            after = wp.zeros(N, dtype=float, requires_grad=True)
            wp.launch(relax, dim=N, inputs=[x, stiff], outputs=[after])
            x = after
        wp.launch(difference, dim=N, inputs=[x, frame], outputs=[misfit])
    tape.backward(misfit)
    x = wp.clone(x, requires_grad=False)
    tapes.append(tape)
stiff.assign(stiff.numpy() - 0.01 * stiff.grad.numpy())
