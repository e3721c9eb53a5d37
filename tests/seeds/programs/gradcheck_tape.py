"""The gradient check of a tape. Given here: the two kernels and `c`, which the document names only."""

import warp as wp
import warp.autograd


@wp.kernel
def my_kernel_1(
    a: wp.array(dtype=float),
    b: wp.array(dtype=wp.vec3),
    out1: wp.array(dtype=wp.vec2),
    c: wp.array(dtype=float),
):
    tid = wp.tid()
    ai, bi = a[tid], b[tid]
    out1[tid] = wp.vec2(ai * wp.length(bi), -ai * wp.dot(bi, wp.vec3(0.1, 1.0, -0.1)))
    c[tid] = wp.sin(ai) * bi[1]


@wp.kernel
def my_kernel_2(c: wp.array(dtype=float), out2: wp.array(dtype=wp.quat)):
    tid = wp.tid()
    out2[tid] = wp.normalize(wp.quat(c[tid], 1.0, 2.0, 3.0))


a = wp.array([2.0, -1.0], dtype=wp.float32, requires_grad=True)
b = wp.array([wp.vec3(3.0, 1.0, 2.0), wp.vec3(-4.0, -1.0, 0.0)], dtype=wp.vec3, requires_grad=True)
c = wp.zeros(2, dtype=float, requires_grad=True)
out1 = wp.zeros(2, dtype=wp.vec2, requires_grad=True)
out2 = wp.zeros(2, dtype=wp.quat, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(my_kernel_1, dim=len(a), inputs=[a, b], outputs=[out1, c])
    wp.launch(my_kernel_2, dim=len(c), inputs=[c], outputs=[out2])

passed = wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=True)
assert passed
