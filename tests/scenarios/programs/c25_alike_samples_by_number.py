"""One sample a step, by its number: the sum of the losses is what is reported, and it is cleared by a fill."""

import numpy as np

import tapedebug as wp

SAMPLES = 6


@wp.kernel
def misfit(
    w: wp.array(dtype=float),
    x: wp.array(dtype=float),
    seen: wp.array(dtype=float),
    sample: int,
    loss: wp.array(dtype=float),
):
    r = w[0] * x[sample] + w[1] - seen[sample]
    wp.atomic_add(loss, 0, r * r)


w = wp.array([0.5, 0.1], dtype=float, requires_grad=True)
x = wp.array(np.linspace(-1.0, 1.0, SAMPLES), dtype=float)
seen = wp.array(np.linspace(-2.0, 3.0, SAMPLES), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

for epoch in range(2):
    loss.fill_(0.0)
    for sample in range(SAMPLES):
        with wp.Tape() as tape:
            wp.launch(misfit, dim=1, inputs=[w, x, seen, sample], outputs=[loss])
        tape.backward(loss)
        w.assign(w.numpy() - 0.05 * w.grad.numpy())
        tape.zero()
    print(epoch, loss.numpy()[0])
