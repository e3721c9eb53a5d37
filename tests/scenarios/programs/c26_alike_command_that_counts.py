"""A prepared command that counts cells for a plot: no gradient passes it, so that Warp loses none."""

# RUN as-warp
import numpy as np
import warp as wp


@wp.kernel
def heat(t: wp.array(dtype=float), k: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    t_next[i] = t[i] + k[i] * (1.0 - t[i])


@wp.kernel
def count_warm(t: wp.array(dtype=float), warm: wp.array(dtype=int)):
    if t[wp.tid()] > 0.5:
        wp.atomic_add(warm, 0, 1)


@wp.kernel
def error(t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = t[wp.tid()] - 0.7
    wp.atomic_add(loss, 0, d * d)


t, t_next = (wp.zeros(6, dtype=float, requires_grad=True) for _ in range(2))
k = wp.array(np.linspace(0.2, 0.8, 6), dtype=float, requires_grad=True)
warm, loss = wp.zeros(1, dtype=int), wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    count = wp.launch(count_warm, dim=6, inputs=[t_next, warm], record_cmd=True)
    wp.launch(heat, dim=6, inputs=[t, k], outputs=[t_next])
    count.launch()
    wp.launch(error, dim=6, inputs=[t_next], outputs=[loss])
tape.backward(loss)
print(warm.numpy(), k.grad.numpy())
