"""A plate warms up from zero towards a steady state, and we ask about the time in between: no solve at all."""

import numpy as np

import tapedebug as wp

N = 16
STEPS = 25


@wp.kernel
def spread(
    t: wp.array2d(dtype=float), burner: wp.array2d(dtype=float), k: float, t_next: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    n = t.shape[0]
    left = t[wp.max(i - 1, 0), j]
    right = t[wp.min(i + 1, n - 1), j]
    below = t[i, wp.max(j - 1, 0)]
    above = t[i, wp.min(j + 1, n - 1)]
    t_next[i, j] = 0.98 * (t[i, j] + k * (left + right + below + above - 4.0 * t[i, j])) + burner[i, j]


@wp.kernel
def misfit(t: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, (t[i, j] - 3.0) * (t[i, j] - 3.0))


grid = np.linspace(-1.0, 1.0, N)
burner = wp.array(np.exp(-6.0 * (grid[:, None] ** 2 + grid[None, :] ** 2)), dtype=float, requires_grad=True)
t = wp.zeros((N, N), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        t_next = wp.zeros((N, N), dtype=float, requires_grad=True)
        wp.launch(spread, dim=(N, N), inputs=[t, burner, 0.1], outputs=[t_next])
        t = t_next
    wp.launch(misfit, dim=(N, N), inputs=[t], outputs=[loss])
tape.backward(loss)
