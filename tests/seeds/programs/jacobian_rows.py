"""A Jacobian row by row. Given here: the function that the document calls by name only."""

import numpy as np
import warp as wp


@wp.kernel
def mix(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i + 1]


input_dim, output_dim = 4, 3
input_buffer = wp.array(np.array([0.3, -1.0, 2.0, 0.7]), dtype=wp.float32, requires_grad=True)


def launch_kernels_to_be_differentiated(x):
    y = wp.zeros(output_dim, dtype=wp.float32, requires_grad=True)
    wp.launch(mix, dim=output_dim, inputs=[x], outputs=[y])
    return y


# compute the Jacobian for a function of single output
jacobian = np.empty((output_dim, input_dim), dtype=np.float32)

# record computation
tape = wp.Tape()
with tape:
    output_buffer = launch_kernels_to_be_differentiated(input_buffer)

# compute each row of the Jacobian
for output_index in range(output_dim):
    # select which row of the Jacobian we want to compute
    select_index = np.zeros(output_dim)
    select_index[output_index] = 1.0
    e = wp.array(select_index, dtype=wp.float32)

    # pass input gradients to the output buffer to apply selection
    tape.backward(grads={output_buffer: e})
    q_grad_i = tape.gradients[input_buffer]
    jacobian[output_index, :] = q_grad_i.numpy()

    # zero gradient arrays for next row
    tape.zero()
