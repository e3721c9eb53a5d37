"""Swing a chain of pendulums to rest: which damping of each joint? Its speeds are plotted, too."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

JOINTS = 16
STEPS = 30
DT = 0.05


@wp.kernel
def swing(
    angle: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    damping: wp.array(dtype=float),
    angle_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    i = wp.tid()
    pull = -9.81 * wp.sin(angle[i]) - damping[i] * speed[i]
    speed_next[i] = speed[i] + DT * pull
    angle_next[i] = angle[i] + DT * (speed[i] + DT * pull)


@wp.kernel
def unrest(angle: wp.array(dtype=float), speed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, angle[i] * angle[i] + 0.1 * speed[i] * speed[i])


@wp.kernel
def energy_speed(angle: wp.array(dtype=float), speed: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    energy = 0.5 * speed[i] * speed[i] + 9.81 * (1.0 - wp.cos(angle[i]))
    # EXPECT after-loss error: plotted
    out[i] = wp.sqrt(energy)


start = np.linspace(0.0, 1.2, JOINTS).astype(np.float32)
angles = [wp.zeros(JOINTS, dtype=float, requires_grad=True) for _ in range(STEPS + 1)]
speeds = [wp.zeros(JOINTS, dtype=float, requires_grad=True) for _ in range(STEPS + 1)]
angles[0].assign(start)
damping = wp.full(JOINTS, 0.4, dtype=float, requires_grad=True)
plotted = wp.zeros(JOINTS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [damping]

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        wp.launch(
            swing,
            dim=JOINTS,
            inputs=[angles[step], speeds[step], damping],
            outputs=[angles[step + 1], speeds[step + 1]],
        )
    wp.launch(unrest, dim=JOINTS, inputs=[angles[-1], speeds[-1]], outputs=[loss])
    # CALLED after-loss
    # DROP
    wp.launch(energy_speed, dim=JOINTS, inputs=[angles[-1], speeds[-1]], outputs=[plotted])
tape.backward(loss)
# ADD: wp.launch(energy_speed, dim=JOINTS, inputs=[angles[-1], speeds[-1]], outputs=[plotted])
print("fastest joint", plotted.numpy().max(), "gradient", damping.grad.numpy())
