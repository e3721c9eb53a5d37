"""A filter is tuned on a sensor with noise from the C library: another loss in each run, and no difference counts."""

# VERDICT NONDETERMINISTIC
import numpy as np

import tapedebug as wp

N = 24
NOISE = "return width * ((float)rand() / (float)RAND_MAX - 0.5f);"


@wp.func_native(NOISE, adj_snippet="")
def noise(width: float) -> float: ...


@wp.kernel
def sense(truth: wp.array(dtype=float), width: float, seen: wp.array(dtype=float)):
    i = wp.tid()
    seen[i] = truth[i] + noise(width)


@wp.kernel
def smooth(seen: wp.array(dtype=float), gain: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    before = seen[wp.max(i - 1, 0)]
    out[i] = before + gain[0] * (seen[i] - before)


@wp.kernel
def misfit(out: wp.array(dtype=float), truth: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (out[i] - truth[i]) * (out[i] - truth[i]))


truth = wp.array(np.sin(np.linspace(0.0, 3.0, N)), dtype=float, requires_grad=True)
gain = wp.array([0.4], dtype=float, requires_grad=True)
seen, out = wp.zeros_like(truth), wp.zeros_like(truth)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [gain]

with wp.Tape() as tape:
    wp.launch(sense, dim=N, inputs=[truth, 0.4], outputs=[seen])
    wp.launch(smooth, dim=N, inputs=[seen, gain], outputs=[out])
    wp.launch(misfit, dim=N, inputs=[out, truth], outputs=[loss])
tape.backward(loss)
