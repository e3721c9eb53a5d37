"""The sum of squares is minimised; NumPy takes its root mean, the worst, the share that is good, and units."""

import numpy as np

import tapedebug as wp

N = 32


@wp.kernel
def errors(w: wp.array(dtype=float), x: wp.array(dtype=float), error: wp.array(dtype=float)):
    i = wp.tid()
    off = w[0] * x[i] * x[i] + w[1] - wp.cos(x[i])
    error[i] = off * off


@wp.kernel
def add(error: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, error[wp.tid()])


w = wp.array([0.2, 0.1], dtype=float, requires_grad=True)
x = wp.array(np.linspace(0.0, 2.0, N), dtype=float)
for _ in range(4):
    error = wp.zeros(N, dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(errors, dim=N, inputs=[w, x], outputs=[error])
        wp.launch(add, dim=N, inputs=[error], outputs=[total])
    tape.backward(total)
    found = error.numpy()
    print("rmse", np.sqrt(found.mean()), "worst", found.max(), "good", np.mean(found < 0.01))
    print("energy in kJ", total.numpy()[0] / 1000.0)
    w.assign(w.numpy() - 0.01 * w.grad.numpy())
    tape.zero()
