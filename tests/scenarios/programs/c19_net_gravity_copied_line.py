"""A hanging net finds its shape by damped steps; which masses give the wanted sag? A line was pasted twice."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

SIDE = 8
KNOTS = SIDE * SIDE
STEPS = 12


@wp.kernel
def gravity(mass: wp.array(dtype=float), force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    # EXPECT duplicate-launch warning: force
    force[i] += wp.vec3(0.0, 0.0, -9.81 * mass[i])


@wp.kernel
def springs(x: wp.array(dtype=wp.vec3), rest: float, force: wp.array(dtype=wp.vec3)):
    i, j = wp.tid()
    here = i * SIDE + j
    if j + 1 < SIDE:
        d = x[here + 1] - x[here]
        pull = 40.0 * (wp.length(d) - rest) * wp.normalize(d)
        wp.atomic_add(force, here, pull)
        wp.atomic_add(force, here + 1, -pull)
    if i + 1 < SIDE:
        d = x[here + SIDE] - x[here]
        pull = 40.0 * (wp.length(d) - rest) * wp.normalize(d)
        wp.atomic_add(force, here, pull)
        wp.atomic_add(force, here + SIDE, -pull)


@wp.kernel
def settle(x: wp.array(dtype=wp.vec3), force: wp.array(dtype=wp.vec3), x_next: wp.array(dtype=wp.vec3)):
    here = wp.tid()
    column = here % SIDE
    step = wp.vec3(0.0, 0.0, 0.0)
    if column > 0 and column < SIDE - 1:
        step = 0.004 * force[here]
    x_next[here] = x[here] + step


@wp.kernel
def sag(x: wp.array(dtype=wp.vec3), wanted: float, loss: wp.array(dtype=float)):
    here = wp.tid()
    wp.atomic_add(loss, 0, (x[here][2] - wanted) * (x[here][2] - wanted) / float(KNOTS))


grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), [0.0], indexing="ij"), axis=-1).reshape(-1, 3)
x = wp.array(grid.astype(np.float32), dtype=wp.vec3, requires_grad=True)
mass = wp.array(np.linspace(0.5, 1.5, KNOTS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [mass]

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        force = wp.zeros(KNOTS, dtype=wp.vec3, requires_grad=True)
        x_next = wp.zeros(KNOTS, dtype=wp.vec3, requires_grad=True)
        wp.launch(gravity, dim=KNOTS, inputs=[mass], outputs=[force])
        wp.launch(springs, dim=(SIDE, SIDE), inputs=[x, 0.9], outputs=[force])
        # CALLED duplicate-launch
        # DROP
        wp.launch(gravity, dim=KNOTS, inputs=[mass], outputs=[force])
        wp.launch(settle, dim=KNOTS, inputs=[x, force], outputs=[x_next])
        x = x_next
    wp.launch(sag, dim=KNOTS, inputs=[x, -0.4], outputs=[loss])
tape.backward(loss)
print("sag off by", float(loss.numpy()[0]), "gradient", mass.grad.numpy()[:3])
