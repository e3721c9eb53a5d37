"""The mean is reported and the sum is seeded; the step is divided by the number of samples, on purpose."""

import numpy as np

import tapedebug as wp

N = 24


@wp.kernel
def errors(w: wp.array(dtype=float), x: wp.array(dtype=float), error: wp.array(dtype=float)):
    i = wp.tid()
    off = w[0] * x[i] + w[1] - wp.sin(x[i])
    error[i] = off * off


w = wp.array([0.2, 0.1], dtype=float, requires_grad=True)
x = wp.array(np.linspace(0.0, 2.0, N), dtype=float)
rate = 0.1
for _ in range(4):
    error = wp.zeros(N, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(errors, dim=N, inputs=[w, x], outputs=[error])
    print("mean squared error", error.numpy().mean())
    tape.backward(grads={error: wp.ones(N, dtype=float)})
    w.assign(w.numpy() - rate / N * w.grad.numpy())
    tape.zero()
