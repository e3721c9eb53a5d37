"""A satellite in metres and joules: 400 stable steps, a loss of 1e14, a gradient of 1e8."""

import numpy as np

import tapedebug as wp

N = 6
STEPS = 400
DT = 5.0
GRAVITY = wp.constant(3.986e14)


@wp.kernel
def orbit(
    position: wp.array(dtype=wp.vec3),
    velocity: wp.array(dtype=wp.vec3),
    position_next: wp.array(dtype=wp.vec3),
    velocity_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    r = wp.length(position[i])
    moved = velocity[i] - (DT * GRAVITY / (r * r)) * (position[i] / r)
    velocity_next[i] = moved
    position_next[i] = position[i] + DT * moved


@wp.kernel
def energy(velocity: wp.array(dtype=wp.vec3), mass: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 0.5 * mass[i] * wp.length_sq(velocity[i]))


angle = np.linspace(0.0, 2.0, N)
radius = 7.0e6 + 1.0e5 * np.arange(N)
speed = np.sqrt(3.986e14 / radius)
zero = np.zeros(N)
start = np.stack([radius * np.cos(angle), radius * np.sin(angle), zero], axis=1)
rate = np.stack([-speed * np.sin(angle), speed * np.cos(angle), zero], axis=1)
position = [wp.zeros(N, dtype=wp.vec3, requires_grad=True) for _ in range(STEPS + 1)]
velocity = [wp.zeros(N, dtype=wp.vec3, requires_grad=True) for _ in range(STEPS + 1)]
position[0].assign(start)
velocity[0].assign(rate)
mass = wp.array(np.full(N, 1.0e6), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for k in range(STEPS):
        wp.launch(orbit, N, [position[k], velocity[k]], [position[k + 1], velocity[k + 1]])
    wp.launch(energy, N, [velocity[STEPS], mass], [loss])
tape.backward(loss)
