"""A string is plucked: three buffers take turns. The wave equation is linear, so that no adjoint needs them."""

# RUN as-warp
import numpy as np
import warp as wp

N = 48
STEPS = 20


@wp.kernel
def swing(before: wp.array(dtype=float), now: wp.array(dtype=float), c: float, after: wp.array(dtype=float)):
    i = wp.tid()
    if i == 0 or i == now.shape[0] - 1:
        after[i] = 0.0
        return
    after[i] = 2.0 * now[i] - before[i] + c * (now[i - 1] - 2.0 * now[i] + now[i + 1])


@wp.kernel
def energy(now: wp.array(dtype=float), listen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, listen[i] * now[i] * now[i])


place = np.linspace(0.0, 1.0, N, dtype=np.float32)
before = wp.array(np.sin(np.pi * place), dtype=float, requires_grad=True)
now = wp.array(0.98 * np.sin(np.pi * place), dtype=float, requires_grad=True)
after = wp.zeros(N, dtype=float, requires_grad=True)
listen = wp.array(np.exp(-20.0 * (place - 0.3) ** 2), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        wp.launch(swing, dim=N, inputs=[before, now, 0.4], outputs=[after])
        before, now, after = now, after, before
    wp.launch(energy, dim=N, inputs=[now, listen], outputs=[loss])
tape.backward(loss)
