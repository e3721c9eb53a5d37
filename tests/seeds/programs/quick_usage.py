"""A tape in three launches. Given here: the kernels and arrays, only named there; "cpu" for "cuda"."""

import numpy as np
import warp as wp


@wp.kernel
def compute1(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3)):
    tid = wp.tid()
    b[tid] = wp.cross(a[tid], wp.vec3(0.0, 0.0, 2.0))


@wp.kernel
def compute2(c: wp.array(dtype=wp.vec3), d: wp.array(dtype=float)):
    tid = wp.tid()
    d[tid] = wp.dot(c[tid], c[tid])


@wp.kernel
def loss(d: wp.array(dtype=float), l: wp.array(dtype=float)):
    wp.atomic_add(l, 0, d[wp.tid()])


values = np.arange(12.0).reshape(4, 3)
a = wp.zeros(1024, dtype=wp.vec3, device="cpu", requires_grad=True)
a = wp.array(values, dtype=wp.vec3, device="cpu", requires_grad=True)
b = wp.zeros_like(a)
c = b
d = wp.zeros(4, dtype=float, requires_grad=True)
l = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()

# forward pass
with tape:
    wp.launch(kernel=compute1, dim=4, inputs=[a, b], device="cpu")
    wp.launch(kernel=compute2, dim=4, inputs=[c, d], device="cpu")
    wp.launch(kernel=loss, dim=4, inputs=[d, l], device="cpu")

# reverse pass
tape.backward(l)

# gradient of loss with respect to input a
print(a.grad)
once = tape.gradients[a].numpy().copy()
tape.backward(l)
twice = a.grad.numpy().copy()
tape.zero()
zeroed = a.grad.numpy().copy()
