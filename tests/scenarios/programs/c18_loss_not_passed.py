"""The loss is computed and printed, and `backward` is called without it: every gradient is 0, and nothing moves."""

import numpy as np

import tapedebug as wp

N = 12


@wp.kernel
def misfit(
    w: wp.array(dtype=float), x: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)
):
    i = wp.tid()
    r = w[0] * x[i] + w[1] - t[i]
    wp.atomic_add(loss, 0, r * r / float(N))


x = wp.array(np.linspace(-1.0, 1.0, N), dtype=float)
t = wp.array(3.0 * np.linspace(-1.0, 1.0, N) + 0.5, dtype=float)
w = wp.array([1.0, 0.0], dtype=float, requires_grad=True)

for _ in range(2):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(misfit, dim=N, inputs=[w, x, t], outputs=[loss])
    # EXPECT seed error: loss
    # FIX: tape.backward(loss)
    tape.backward()
    print("loss", loss.numpy()[0])
    w.assign(w.numpy() - 0.3 * w.grad.numpy())
    tape.zero()
