"""An orbit is fitted in kilometres. The numbers are large beside their changes: float32 differences lie."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 12
STEPS = 30
DT = 2.0


@wp.kernel
def fly(
    p: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.vec2),
    p_next: wp.array(dtype=wp.vec2),
    v_next: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    r = wp.length(p[i])
    faster = v[i] - (DT * 3.986e5 / (r * r * r)) * p[i]
    v_next[i] = faster
    p_next[i] = p[i] + DT * faster


@wp.kernel
def radius_error(p: wp.array(dtype=wp.vec2), wanted: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    off = wp.length(p[i]) - wanted
    wp.atomic_add(loss, 0, 1000.0 + off * off)


angle = np.linspace(0.0, 1.0, N)
radius = 7000.0 + np.linspace(-20.0, 20.0, N)
speed = np.sqrt(3.986e5 / 7000.0)
p = wp.array(
    np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), dtype=wp.vec2, requires_grad=True
)
v = wp.array(speed * np.stack([-np.sin(angle), np.cos(angle)], axis=1), dtype=wp.vec2, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        p_next, v_next = wp.zeros_like(p), wp.zeros_like(v)
        wp.launch(fly, dim=N, inputs=[p, v], outputs=[p_next, v_next])
        p, v = p_next, v_next
    wp.launch(radius_error, dim=N, inputs=[p, 7000.0], outputs=[loss])
tape.backward(loss)
