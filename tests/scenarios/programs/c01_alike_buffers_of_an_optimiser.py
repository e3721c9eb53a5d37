"""Fitting two decay rates: every step of the optimiser writes over all buffers, after the reverse pass has read them."""

# RUN as-warp
import numpy as np
import warp as wp
import warp.optim

N = 32


@wp.kernel
def predict(t: wp.array(dtype=float), rate: wp.array(dtype=float), scratch: wp.array(dtype=float)):
    i = wp.tid()
    scratch[i] = 0.6 * wp.exp(-rate[0] * t[i]) + 0.4 * wp.exp(-rate[1] * t[i])


@wp.kernel
def misfit(scratch: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    error = scratch[i] - seen[i]
    wp.atomic_add(loss, 0, error * error)


times = np.linspace(0.0, 3.0, N, dtype=np.float32)
t = wp.array(times, dtype=float)
seen = wp.array(0.6 * np.exp(-0.5 * times) + 0.4 * np.exp(-3.0 * times), dtype=float)
rate = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
scratch = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
optimizer = warp.optim.Adam([rate], lr=0.05)

tape = wp.Tape()
for iteration in range(30):
    loss.zero_()
    with tape:
        wp.launch(predict, dim=N, inputs=[t, rate], outputs=[scratch])
        wp.launch(misfit, dim=N, inputs=[scratch, seen], outputs=[loss])
    tape.backward(loss)
    optimizer.step([rate.grad])
    tape.reset()
