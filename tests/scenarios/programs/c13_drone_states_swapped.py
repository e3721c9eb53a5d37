"""A drone is flown to a target: its state is a struct of arrays, and two such structs take turns."""

# RUN as-warp
import numpy as np
import warp as wp

DRONES = 6
STEPS = 8


@wp.struct
class State:
    position: wp.array(dtype=wp.vec3)
    velocity: wp.array(dtype=wp.vec3)


@wp.kernel
def fly(state: State, thrust: wp.array2d(dtype=wp.vec3), step: int, after: State):
    i = wp.tid()
    v = state.velocity[i]
    drag = -0.3 * wp.length(v) * v
    # EXPECT overwrite error: state.velocity
    after.velocity[i] = v + 0.1 * (drag + thrust[step, i] + wp.vec3(0.0, 0.0, -1.0))
    after.position[i] = state.position[i] + 0.1 * v


@wp.kernel
def miss(state: State, target: wp.vec3, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(state.position[wp.tid()] - target))


def make_state():
    state = State()
    state.position = wp.zeros(DRONES, dtype=wp.vec3, requires_grad=True)
    state.velocity = wp.zeros(DRONES, dtype=wp.vec3, requires_grad=True)
    return state


rng = np.random.default_rng(4)
thrust = wp.array(rng.normal(size=(STEPS, DRONES, 3)), dtype=wp.vec3, requires_grad=True)
state, after = make_state(), make_state()
state.velocity.assign(rng.normal(size=(DRONES, 3)).astype(np.float32))
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        # ADD: after = make_state()
        # CALLED overwrite
        wp.launch(fly, dim=DRONES, inputs=[state, thrust, step], outputs=[after])
        state, after = after, state
    wp.launch(miss, dim=DRONES, inputs=[state, wp.vec3(1.0, 0.5, 1.0)], outputs=[loss])
tape.backward(loss)
