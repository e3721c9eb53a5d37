"""A heated rod: which source heats it to a temperature profile? Two buffers take turns."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

N = 64
STEPS = 12


@wp.kernel
def conduct(t: wp.array(dtype=float), source: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    left = t[wp.max(i - 1, 0)]
    right = t[wp.min(i + 1, t.shape[0] - 1)]
    conductivity = 1.0 + 0.5 * t[i] * t[i]
    # EXPECT overwrite error
    t_next[i] = t[i] + 0.1 * (conductivity * (left - 2.0 * t[i] + right) + source[i])


@wp.kernel
def misfit(t: wp.array(dtype=float), target: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - target[i]) * (t[i] - target[i]))


place = np.linspace(0.0, 1.0, N, dtype=np.float32)
source = wp.array(np.sin(3.0 * place), dtype=float, requires_grad=True)
target = wp.array(np.cos(place), dtype=float)
t = wp.array(place * (1.0 - place), dtype=float, requires_grad=True)
other = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [source]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for step in range(STEPS):
        # ADD: other = wp.zeros(N, dtype=float, requires_grad=True)
        # CALLED overwrite
        wp.launch(conduct, dim=N, inputs=[t, source], outputs=[other])
        t, other = other, t
    wp.launch(misfit, dim=N, inputs=[t, target], outputs=[loss])
tape.backward(loss)
