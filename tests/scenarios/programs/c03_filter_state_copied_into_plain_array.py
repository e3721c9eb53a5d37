"""A Kalman-like filter keeps its last estimate by `copy`, in an array that has no gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

CHANNELS = 6
STEPS = 12


@wp.kernel
def predict(
    estimate: wp.array(dtype=float),
    measured: wp.array2d(dtype=float),
    gain: wp.array(dtype=float),
    step: int,
    out: wp.array(dtype=float),
):
    c = wp.tid()
    guess = 0.9 * estimate[c] + 0.1 * wp.sin(estimate[c])
    out[c] = guess + gain[c] * (measured[step, c] - guess)


@wp.kernel
def misses(
    estimate: wp.array(dtype=float), truth: wp.array2d(dtype=float), step: int, loss: wp.array(dtype=float)
):
    c = wp.tid()
    d = estimate[c] - truth[step, c]
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(4)
truth_values = np.sin(np.linspace(0.0, 4.0, STEPS))[:, None] * np.ones((1, CHANNELS))
truth = wp.array(truth_values.astype(np.float32), dtype=float)
measured = wp.array(
    (truth_values + 0.1 * rng.normal(size=truth_values.shape)).astype(np.float32), dtype=float
)
gain = wp.full(CHANNELS, 0.3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
start = wp.zeros(CHANNELS, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    last = start
    for step in range(STEPS):
        estimate = wp.zeros(CHANNELS, dtype=float, requires_grad=True)
        wp.launch(predict, dim=CHANNELS, inputs=[last, measured, gain, step], outputs=[estimate])
        wp.launch(misses, dim=CHANNELS, inputs=[estimate, truth, step], outputs=[loss])
        # FIX: last = wp.zeros(CHANNELS, dtype=float, requires_grad=True)
        last = wp.zeros(CHANNELS, dtype=float)
        # EXPECT disconnected error: gain
        # CALLED disconnected
        wp.copy(last, estimate)
tape.backward(loss)
print("gain", gain.grad.numpy())
