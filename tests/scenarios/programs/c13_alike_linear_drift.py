"""Ships drift: position and velocity of a struct are updated where they are. Nothing here is nonlinear in them."""

# RUN as-warp
import numpy as np
import warp as wp

SHIPS = 12
STEPS = 10


@wp.struct
class Fleet:
    position: wp.array(dtype=wp.vec2)
    velocity: wp.array(dtype=wp.vec2)


@wp.kernel
def drift(fleet: Fleet, wind: wp.array(dtype=wp.vec2), dt: float):
    i = wp.tid()
    fleet.velocity[i] = 0.95 * fleet.velocity[i] + dt * wind[i]
    fleet.position[i] = fleet.position[i] + dt * fleet.velocity[i]


@wp.kernel
def spread(fleet: Fleet, harbour: wp.vec2, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(fleet.position[wp.tid()] - harbour))


rng = np.random.default_rng(13)
fleet = Fleet()
fleet.position = wp.array(rng.normal(size=(SHIPS, 2)), dtype=wp.vec2, requires_grad=True)
fleet.velocity = wp.array(rng.normal(size=(SHIPS, 2)), dtype=wp.vec2, requires_grad=True)
wind = wp.array(rng.normal(size=(SHIPS, 2)), dtype=wp.vec2, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        wp.launch(drift, dim=SHIPS, inputs=[fleet, wind, 0.1])
    wp.launch(spread, dim=SHIPS, inputs=[fleet, wp.vec2(0.5, -0.5)], outputs=[loss])
tape.backward(loss)
