"""New noise is written before backward ran; the adjoint of adding noise needs no noise."""

import numpy as np

import tapedebug as wp

N = 32


@wp.kernel
def measure(x: wp.array(dtype=float), noise: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = wp.tid()
    seen[i] = 2.0 * x[i] + noise[i]


@wp.kernel
def misfit(seen: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.abs(seen[i] - wanted[i]) * wp.abs(seen[i] - wanted[i]))


@wp.kernel
def renew(noise: wp.array(dtype=float), round: int):
    i = wp.tid()
    noise[i] = 0.01 * wp.sin(float(i * 31 + round * 17))


x = wp.array(np.linspace(-1.0, 1.0, N), dtype=float, requires_grad=True)
wanted = wp.array(np.linspace(0.0, 1.0, N) ** 2, dtype=float)
noise = wp.zeros(N, dtype=float)
seen = wp.zeros(N, dtype=float, requires_grad=True)
shown = wanted.numpy()  # for a plot: read, never written

for round in range(3):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite="ignore")
    with tape:
        wp.launch(measure, dim=N, inputs=[x, noise], outputs=[seen])
        wp.launch(misfit, dim=N, inputs=[seen, wanted], outputs=[loss])
    wp.launch(renew, dim=N, inputs=[noise, round])
    print(shown.mean(), loss.numpy())
    tape.backward(loss)
    x.assign(x.numpy() - 0.05 * x.grad.numpy())
    tape.zero()
