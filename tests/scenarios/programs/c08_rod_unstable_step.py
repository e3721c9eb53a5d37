"""Find the initial temperature for a wanted profile. The time step is beyond the limit of stability."""

import numpy as np

import tapedebug as wp

N = 32
STEPS = 24
DIFFUSIVITY = 1.0
SPACING = 1.0 / N
# FIX: TIME_STEP = 0.2 * SPACING * SPACING
TIME_STEP = 0.8 * SPACING * SPACING


@wp.kernel
def diffuse(t: wp.array(dtype=float), dt: float, spacing: float, t_next: wp.array(dtype=float)):
    i = wp.tid()
    last = t.shape[0] - 1
    left = t[wp.max(i - 1, 0)]
    right = t[wp.min(i + 1, last)]
    curvature = (left - 2.0 * t[i] + right) / (spacing * spacing)
    # EXPECT exploding warning: profile[24]
    t_next[i] = t[i] + dt * DIFFUSIVITY * curvature


@wp.kernel
def misfit(t: wp.array(dtype=float), target: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - target[i]) * (t[i] - target[i]))


place = np.linspace(0.0, 1.0, N, dtype=np.float32)
profile = [wp.zeros(N, dtype=float, requires_grad=True) for _ in range(STEPS + 1)]
profile[0].assign(1.0 + np.cos(np.pi * (np.arange(N) + 0.5) / N))
target = wp.array(1.0 + 0.3 * np.sin(7.0 * place), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        # CALLED exploding
        wp.launch(diffuse, dim=N, inputs=[profile[step], TIME_STEP, SPACING], outputs=[profile[step + 1]])
    wp.launch(misfit, dim=N, inputs=[profile[STEPS], target], outputs=[loss])
tape.backward(loss)
