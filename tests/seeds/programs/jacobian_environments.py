"""Jacobians of many environments at once. Given here: the function that the document calls by name only."""

import numpy as np
import warp as wp


@wp.kernel
def mix(x: wp.array(dtype=float), y: wp.array(dtype=float), inputs: int, outputs: int):
    env, k = wp.tid()
    y[env * outputs + k] = wp.sin(x[env * inputs + k]) * x[env * inputs + k + 1]


num_envs, input_dim, output_dim = 2, 4, 3
values = np.array([0.3, -1.0, 2.0, 0.7, 1.1, 0.2, -0.4, 3.0])
input_buffer = wp.array(values, dtype=wp.float32, requires_grad=True)


def launch_kernels_to_be_differentiated(x):
    y = wp.zeros(num_envs * output_dim, dtype=wp.float32, requires_grad=True)
    wp.launch(mix, dim=(num_envs, output_dim), inputs=[x, y, input_dim, output_dim])
    return y


# compute the Jacobian for a function over multiple environments in parallel
jacobians = np.empty((num_envs, output_dim, input_dim), dtype=np.float32)

# record computation
tape = wp.Tape()
with tape:
    output_buffer = launch_kernels_to_be_differentiated(input_buffer)

# compute each row of the Jacobian
for output_index in range(output_dim):
    # select which row of the Jacobian we want to compute
    select_index = np.zeros(output_dim)
    select_index[output_index] = 1.0

    # assemble selection vector for all environments (can be precomputed)
    e = wp.array(np.tile(select_index, num_envs), dtype=wp.float32)
    tape.backward(grads={output_buffer: e})
    q_grad_i = tape.gradients[input_buffer]
    jacobians[:, output_index, :] = q_grad_i.numpy().reshape(num_envs, input_dim)

    tape.zero()
