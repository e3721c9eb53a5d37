"""A beam on springs: which stiffness holds it up? The kernel of the springs fills an array that nobody reads."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

NODES = 20
STEPS = 15


@wp.struct
class Beam:
    height: wp.array(dtype=float)
    speed: wp.array(dtype=float)


@wp.kernel
def spring_force(
    height: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)
):
    i = wp.tid()
    # EXPECT unused warning: reaction, force, stiffness
    force[i] = -stiffness[i] * height[i] - 0.5 * stiffness[i] * height[i] * height[i] * height[i]


@wp.kernel
def move(beam: Beam, force: wp.array(dtype=float), dt: float, later: Beam):
    i = wp.tid()
    left = beam.height[wp.max(i - 1, 0)]
    right = beam.height[wp.min(i + 1, NODES - 1)]
    speed = 0.95 * beam.speed[i] + dt * (force[i] - 1.0 + 8.0 * (left - 2.0 * beam.height[i] + right))
    later.speed[i] = speed
    later.height[i] = beam.height[i] + dt * speed


@wp.kernel
def bend(height: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, height[i] * height[i])


def beam():
    state = Beam()
    state.height = wp.zeros(NODES, dtype=float, requires_grad=True)
    state.speed = wp.zeros(NODES, dtype=float, requires_grad=True)
    return state


states = [beam() for _ in range(STEPS + 1)]
states[0].height.assign(0.2 * np.sin(np.linspace(0.0, 3.0, NODES)))
stiffness = wp.array(np.linspace(2.0, 6.0, NODES), dtype=float, requires_grad=True)
force = wp.zeros(NODES, dtype=float, requires_grad=True)
reaction = wp.zeros(NODES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [stiffness]

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        now = states[step]
        # CALLED unused
        # FIX: wp.launch(spring_force, dim=NODES, inputs=[now.height, stiffness], outputs=[force])
        wp.launch(spring_force, dim=NODES, inputs=[now.height, stiffness], outputs=[reaction])
        wp.launch(move, dim=NODES, inputs=[now, force, 0.05], outputs=[states[step + 1]])
    wp.launch(bend, dim=NODES, inputs=[states[STEPS].height], outputs=[loss])
tape.backward(loss)
print("gradient", stiffness.grad.numpy())
