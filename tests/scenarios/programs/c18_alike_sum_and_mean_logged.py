"""The sum is the objective, and read; the mean is read as well, for a log."""

import numpy as np

import tapedebug as wp

N = 18


@wp.kernel
def tension(cable: wp.array(dtype=float), load: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, load[i] * load[i] / cable[i] + 0.3 * cable[i])


@wp.kernel
def per_cable(total: wp.array(dtype=float), mean: wp.array(dtype=float)):
    mean[0] = total[0] / float(N)


cable = wp.array(np.full(N, 1.0), dtype=float, requires_grad=True)
load = wp.array(np.linspace(0.5, 1.0, N), dtype=float)
for _ in range(3):
    total = wp.zeros(1, dtype=float, requires_grad=True)
    mean = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(tension, dim=N, inputs=[cable, load], outputs=[total])
        wp.launch(per_cable, dim=1, inputs=[total], outputs=[mean])
    tape.backward(total)
    print(f"total {total.numpy()[0]:.4f}, {mean.numpy()[0]:.4f} each")
    cable.assign(cable.numpy() - 0.1 * cable.grad.numpy())
    tape.zero()
