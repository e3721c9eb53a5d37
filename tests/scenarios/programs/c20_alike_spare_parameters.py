"""A general kernel with spare parameters, a debug array, a result for the user: nothing is in a wrong place."""

import numpy as np

import tapedebug as wp

CELLS = 30
STEPS = 6


@wp.kernel
def flow(
    depth: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    wind: wp.array(dtype=float),
    bottom: wp.array(dtype=float),
    depth_out: wp.array(dtype=float),
    speed_out: wp.array(dtype=float),
    froude: wp.array(dtype=float),
):
    # bottom and wind are there for the other kernels of this family
    i = wp.tid()
    left = depth[wp.max(i - 1, 0)]
    right = depth[wp.min(i + 1, CELLS - 1)]
    speed_out[i] = speed[i] - 0.05 * (right - left)
    depth_out[i] = depth[i] - 0.05 * depth[i] * (speed[wp.min(i + 1, CELLS - 1)] - speed[wp.max(i - 1, 0)])
    froude[i] = speed[i] / wp.sqrt(9.81 * depth[i])


@wp.kernel
def difference(left: wp.array(dtype=float), right: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = left[i] - 2.0 * right[i]
    wp.atomic_add(loss, 0, d * d)


@wp.kernel
def friction(speed: wp.array(dtype=float), roughness: wp.array(dtype=float), stress: wp.array(dtype=float)):
    i = wp.tid()
    stress[i] = roughness[i] * speed[i] * wp.abs(speed[i])


@wp.kernel
def correct(source: wp.array(dtype=float), force: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = source[i] + 0.1 * force[i]


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


place = np.linspace(0.0, 1.0, CELLS)
depth, speed = numbers(1.0 + 0.1 * np.sin(6.0 * place)), numbers(np.zeros(CELLS))
wind, bottom, roughness = numbers(np.zeros(CELLS)), numbers(np.zeros(CELLS)), numbers(np.full(CELLS, 0.02))
froude, stress = numbers(np.zeros(CELLS)), numbers(np.zeros(CELLS))
external = numbers(np.zeros(CELLS))  # no force from outside, in this experiment
left, right = numbers(1.0 + place), numbers(2.0 - place)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        depth_out, speed_out = numbers(np.zeros(CELLS)), numbers(np.zeros(CELLS))
        wp.launch(
            flow,
            dim=CELLS,
            inputs=[depth, speed, wind, bottom],
            outputs=[depth_out, speed_out, froude],
        )
        # the stress at the bottom is looked at afterwards, and has no part in the loss
        wp.launch(friction, dim=CELLS, inputs=[speed_out, roughness], outputs=[stress])
        corrected = numbers(np.zeros(CELLS))
        wp.launch(correct, dim=CELLS, inputs=[depth_out, external], outputs=[corrected])
        depth, speed = corrected, speed_out
    # the difference the other way round is another one, and both are wanted
    wp.launch(difference, dim=CELLS, inputs=[left, depth, loss])
    wp.launch(difference, dim=CELLS, inputs=[right, left], outputs=[loss])
tape.backward(loss)
print("stress", stress.numpy().max(), "fastest", speed.numpy().max())
