"""Satellites on their orbits: which mass of the planet explains the last positions? Two arguments are crossed."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

SATELLITES = 10
STEPS = 25
DT = 0.02


@wp.kernel
def orbit(
    position: wp.array(dtype=wp.vec3),
    velocity: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    position_next: wp.array(dtype=wp.vec3),
    velocity_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    # EXPECT unused warning
    r = wp.length(position[i])
    pull = -mass[0] * position[i] / (r * r * r)
    velocity_next[i] = velocity[i] + DT * pull
    position_next[i] = position[i] + DT * velocity_next[i]


@wp.kernel
def residual(position: wp.array(dtype=wp.vec3), seen: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(position[i] - seen[i]))


def vectors(values=None, count=SATELLITES):
    if values is None:
        return wp.zeros(count, dtype=wp.vec3, requires_grad=True)
    return wp.array(values.astype(np.float32), dtype=wp.vec3, requires_grad=True)


angle = np.linspace(0.0, 5.0, SATELLITES)
nothing = np.zeros(SATELLITES)
positions = [vectors(np.stack([np.cos(angle), np.sin(angle), nothing], axis=1))]
velocities = [vectors(np.stack([-np.sin(angle), np.cos(angle), 0.1 * np.cos(angle)], axis=1))]
mass = wp.array([1.1], dtype=float, requires_grad=True)
seen = vectors(np.stack([np.cos(angle + 0.6), np.sin(angle + 0.6), nothing], axis=1))
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [mass]

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        positions.append(vectors())
        velocities.append(vectors())
        # CALLED unused
        wp.launch(
            orbit,
            dim=SATELLITES,
            # FIX: inputs=[positions[step], velocities[step], mass],
            inputs=[velocities[step], positions[step], mass],
            outputs=[positions[step + 1], velocities[step + 1]],
        )
    wp.launch(residual, dim=SATELLITES, inputs=[positions[-1], seen], outputs=[loss])
tape.backward(loss)
print("mass off by", mass.grad.numpy())
