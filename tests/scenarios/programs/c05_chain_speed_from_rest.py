"""A chain starts at rest. Its speed is the root of the squares, and the root has no slope at zero."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

LINKS = 15
STEPS = 8


@wp.func
def speed_of(v: wp.vec3):
    # FIX: return wp.sqrt(wp.dot(v, v) + 1.0e-6)
    # EXPECT nonfinite error
    return wp.sqrt(wp.dot(v, v))


@wp.kernel
def step(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    drag: wp.array(dtype=float),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    resistance = -drag[i] * speed_of(v[i]) * v[i]
    later = v[i] + 0.05 * (wp.vec3(0.0, 0.0, -9.81) + resistance)
    v_next[i] = later
    x_next[i] = x[i] + 0.05 * later


@wp.kernel
def landing(x: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i][2] + 1.0) * (x[i][2] + 1.0))


def vectors():
    return wp.zeros(LINKS, dtype=wp.vec3, requires_grad=True)


x, v = vectors(), vectors()
drag = wp.array(np.linspace(0.1, 0.5, LINKS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        x_next, v_next = vectors(), vectors()
        # CALLED nonfinite
        wp.launch(step, dim=LINKS, inputs=[x, v, drag], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(landing, dim=LINKS, inputs=[x], outputs=[loss])
tape.backward(loss)
print(drag.grad.numpy(), v.grad.numpy()[0])
