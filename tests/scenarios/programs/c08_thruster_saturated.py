"""A craft is steered by thrusters that saturate. The gain is so large that they all stand at their limits."""

import numpy as np

import tapedebug as wp

STEPS = 16
CRAFT = 8
DT = 0.1
# FIX: GAIN = 0.5
GAIN = 40.0


@wp.struct
class Craft:
    position: wp.vec2
    velocity: wp.vec2


@wp.kernel
def thrust(command: wp.array2d(dtype=wp.vec2), step: int, gain: float, force: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    u = command[step, i]
    # EXPECT vanishing warning: command
    force[i] = wp.vec2(wp.tanh(gain * u[0]), wp.tanh(gain * u[1]))


@wp.kernel
def fly(craft: wp.array(dtype=Craft), force: wp.array(dtype=wp.vec2), craft_next: wp.array(dtype=Craft)):
    i = wp.tid()
    state = Craft()
    state.velocity = craft[i].velocity + DT * force[i]
    state.position = craft[i].position + DT * state.velocity
    craft_next[i] = state


@wp.kernel
def miss(craft: wp.array(dtype=Craft), goal: wp.vec2, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(craft[i].position - goal) + wp.length_sq(craft[i].velocity))


rng = np.random.default_rng(5)
plan = rng.choice([-1.0, 1.0], size=(STEPS, CRAFT, 2)) * rng.uniform(0.8, 1.2, size=(STEPS, CRAFT, 2))
command = wp.array(plan, dtype=wp.vec2, requires_grad=True)
craft = [wp.zeros(CRAFT, dtype=Craft, requires_grad=True) for _ in range(STEPS + 1)]
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [command]

with wp.Tape() as tape:
    for step in range(STEPS):
        force = wp.zeros(CRAFT, dtype=wp.vec2, requires_grad=True)
        # CALLED vanishing
        wp.launch(thrust, dim=CRAFT, inputs=[command, step, GAIN], outputs=[force])
        wp.launch(fly, dim=CRAFT, inputs=[craft[step], force], outputs=[craft[step + 1]])
    wp.launch(miss, dim=CRAFT, inputs=[craft[STEPS], wp.vec2(1.0, 0.5)], outputs=[loss])
tape.backward(loss)
