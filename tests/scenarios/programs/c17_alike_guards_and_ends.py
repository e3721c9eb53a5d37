"""A signal is extrapolated from its last samples, and smoothed where it has neighbours.

`signal[-1]` counts from the end; the neighbours are read behind a test; more threads are launched than there
are samples, and those beyond return at once. The array for the result is larger than what is written to it.
"""

import numpy as np

import tapedebug as wp

SAMPLES, THREADS, AHEAD = 20, 32, 4


@wp.kernel
def smooth(signal: wp.array(dtype=float), weight: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i >= signal.shape[0]:
        return
    value = signal[i]
    if i > 0 and i + 1 < signal.shape[0]:
        value = value + weight[0] * (signal[i - 1] - 2.0 * signal[i] + signal[i + 1])
    out[i] = value


@wp.kernel
def extrapolate(signal: wp.array(dtype=float), out: wp.array(dtype=float)):
    k = wp.tid()
    slope = signal[-1] - signal[-2]
    out[SAMPLES + k] = signal[-1] + slope * float(k + 1)


@wp.kernel
def misfit(out: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = out[i] - seen[i]
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(7)
signal = wp.array(np.cumsum(rng.normal(size=SAMPLES)), dtype=float, requires_grad=True)
weight = wp.array([0.2], dtype=float, requires_grad=True)
seen = wp.array(rng.normal(size=SAMPLES + AHEAD), dtype=float)
out = wp.empty(2 * THREADS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(smooth, dim=THREADS, inputs=[signal, weight], outputs=[out])
    wp.launch(extrapolate, dim=AHEAD, inputs=[signal], outputs=[out])
    wp.launch(misfit, dim=SAMPLES + AHEAD, inputs=[out, seen], outputs=[loss])
tape.backward(loss)
