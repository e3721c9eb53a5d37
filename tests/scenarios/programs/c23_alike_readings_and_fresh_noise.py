"""Values are printed and kept for a plot while the tape records, and fresh noise comes in: neither follows from the other."""

import numpy as np

import tapedebug as wp

N = 20


@wp.kernel
def measure(x: wp.array(dtype=float), noise: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = wp.tid()
    seen[i] = x[i] * x[i] + 0.01 * noise[i] * x[i]


@wp.kernel
def misfit(seen: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (seen[i] - wanted[i]) * (seen[i] - wanted[i]))


def show(values):
    print("from", values.min(), "to", values.max())
    return len(values)


rng = np.random.default_rng(7)
x = wp.array(np.linspace(-1.0, 1.0, N), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
history, state = [], x

tape = wp.Tape()
with tape:
    for _ in range(3):
        seen = wp.zeros(N, dtype=float, requires_grad=True)
        noise = wp.array(rng.normal(size=N), dtype=float, requires_grad=True)
        wp.launch(measure, dim=N, inputs=[state, noise], outputs=[seen])
        history.append(seen.numpy().copy())
        count = show(seen.numpy())
        largest = float(seen.numpy().max())
        wanted = wp.array(np.linspace(0.0, 0.5, count), dtype=float, requires_grad=largest > 100.0)
        wp.launch(misfit, dim=N, inputs=[seen, wanted], outputs=[loss])
        state = seen
tape.backward(loss)
print(len(history), x.grad.numpy().max())
