"""A probe passes a planet: which boost brings it to a moon? Position and velocity are updated where they are."""

# RUN as-warp
import numpy as np
import warp as wp
from warp.optim import SGD

PROBES = 8
STEPS = 10


@wp.func
def pull(x: wp.vec3):
    r = wp.length(x)
    return -x / (r * r * r)


@wp.kernel
def boost(v0: wp.array(dtype=wp.vec3), dv: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    v[i] = v0[i] + dv[i]


@wp.kernel
def kick(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + dt * pull(x[i])


@wp.kernel
def move(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float, x_next: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    # EXPECT overwrite error: x
    x_next[i] = x[i] + dt * v[i]


@wp.kernel
def miss(x: wp.array(dtype=wp.vec3), moon: wp.vec3, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(x[wp.tid()] - moon))


rng = np.random.default_rng(5)
start = (np.array([1.5, 0.0, 0.0]) + 0.05 * rng.normal(size=(PROBES, 3))).astype(np.float32)
v0 = wp.array(np.tile(np.float32([0.0, 0.8, 0.1]), (PROBES, 1)), dtype=wp.vec3)
dv = wp.zeros(PROBES, dtype=wp.vec3, requires_grad=True)
optimizer = SGD([dv], lr=0.01)

for iteration in range(2):
    x = wp.array(start, dtype=wp.vec3, requires_grad=True)
    v = wp.zeros(PROBES, dtype=wp.vec3, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(boost, dim=PROBES, inputs=[v0, dv], outputs=[v])
        for step in range(STEPS):
            x_next = x
            # ADD: x_next = wp.zeros_like(x)
            wp.launch(kick, dim=PROBES, inputs=[x, v, 0.1])
            # CALLED overwrite
            wp.launch(move, dim=PROBES, inputs=[x, v, 0.1], outputs=[x_next])
            x = x_next
        wp.launch(miss, dim=PROBES, inputs=[x, wp.vec3(0.3, 1.4, 0.1)], outputs=[loss])
    tape.backward(loss)
    optimizer.step([dv.grad])
    tape.zero()
