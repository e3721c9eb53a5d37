"""A comet under constant thrust, by velocity Verlet: the half kick that ends a step begins the next one, too."""

import numpy as np

import tapedebug as wp

COMETS = 12
STEPS = 10
DT = 0.1


@wp.kernel
def kick(thrust: wp.array(dtype=wp.vec2), dt: float, v: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    v[i] += dt * thrust[i]


@wp.kernel
def drift(v: wp.array(dtype=wp.vec2), dt: float, x: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    x[i] += dt * v[i]


@wp.kernel
def push_outwards(x: wp.array(dtype=wp.vec2), strength: float, thrust: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    thrust[i] += strength * x[i]


@wp.kernel
def fuel(thrust: wp.array(dtype=wp.vec2), cost: wp.array(dtype=float)):
    wp.atomic_add(cost, 0, 0.01 * wp.length_sq(thrust[wp.tid()]))


@wp.kernel
def distance(x: wp.array(dtype=wp.vec2), goal: wp.vec2, cost: wp.array(dtype=float)):
    wp.atomic_add(cost, 0, wp.length_sq(x[wp.tid()] - goal))


rng = np.random.default_rng(11)
thrust = wp.array(rng.normal(size=(COMETS, 2)).astype(np.float32), dtype=wp.vec2, requires_grad=True)
x = wp.array(rng.normal(size=(COMETS, 2)).astype(np.float32), dtype=wp.vec2, requires_grad=True)
v = wp.zeros(COMETS, dtype=wp.vec2, requires_grad=True)
y = wp.zeros(COMETS, dtype=wp.vec2, requires_grad=True)
w = wp.zeros(COMETS, dtype=wp.vec2, requires_grad=True)
cost = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        wp.launch(kick, dim=COMETS, inputs=[thrust, 0.5 * DT, v])
        wp.launch(drift, dim=COMETS, inputs=[v, DT, x])
        wp.launch(kick, dim=COMETS, inputs=[thrust, 0.5 * DT, v])
        # the fuel of a constant thrust is the same in every step, and counts in every step
        wp.launch(fuel, dim=COMETS, inputs=[thrust, cost])
        # and the other way round: drift, kick, drift; nothing reads y in between
        wp.launch(drift, dim=COMETS, inputs=[w, 0.5 * DT, y])
        wp.launch(kick, dim=COMETS, inputs=[thrust, DT, w])
        wp.launch(drift, dim=COMETS, inputs=[w, 0.5 * DT, y])
    wp.launch(distance, dim=COMETS, inputs=[x, wp.vec2(1.0, 0.0), cost])
    wp.launch(distance, dim=COMETS, inputs=[y, wp.vec2(1.0, 0.0), cost])
tape.backward(cost)
