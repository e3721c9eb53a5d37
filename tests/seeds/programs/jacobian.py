"""Jacobians and the gradient check of one kernel. Pictures are drawn, and not shown."""

import matplotlib

matplotlib.use("agg")

import warp as wp
import warp.autograd


@wp.kernel
def my_kernel(
    a: wp.array(dtype=float),
    b: wp.array(dtype=wp.vec3),
    out1: wp.array(dtype=wp.vec2),
    out2: wp.array(dtype=wp.quat),
):
    tid = wp.tid()
    ai, bi = a[tid], b[tid]
    out1[tid] = wp.vec2(ai * wp.length(bi), -ai * wp.dot(bi, wp.vec3(0.1, 1.0, -0.1)))
    out2[tid] = wp.normalize(wp.quat(ai, bi[0], bi[1], bi[2]))


a = wp.array([2.0, -1.0], dtype=wp.float32, requires_grad=True)
b = wp.array([wp.vec3(3.0, 1.0, 2.0), wp.vec3(-4.0, -1.0, 0.0)], dtype=wp.vec3, requires_grad=True)
out1 = wp.zeros(2, dtype=wp.vec2, requires_grad=True)
out2 = wp.zeros(2, dtype=wp.quat, requires_grad=True)

# compute the Jacobian matrices for all input/output pairs of the kernel using the autodiff engine
jacs = wp.autograd.jacobian(my_kernel, dim=len(a), inputs=[a, b], outputs=[out1, out2], plot_jacobians=True)

passed = wp.autograd.gradcheck(
    my_kernel,
    dim=len(a),
    inputs=[a, b],
    outputs=[out1, out2],
    plot_relative_error=False,
    plot_absolute_error=False,
    raise_exception=False,
    show_summary=True,
)

assert passed

subset = wp.autograd.jacobian(
    my_kernel,
    dim=len(a),
    inputs=[a, b],
    outputs=[out1, out2],
    plot_jacobians=True,
    # select which input/output pairs to compute the Jacobian for
    input_output_mask=[("a", "out1"), ("b", "out2")],
    # limit the number of dimensions to query per output array
    max_outputs_per_var=5,
)
