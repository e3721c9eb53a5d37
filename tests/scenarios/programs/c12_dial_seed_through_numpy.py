"""A response curve with a gradient written by hand, two thirds of the right one; the adjoint of each output is
written through NumPy before a bare `backward`."""

import numpy as np

import tapedebug as wp

N = 10


@wp.func
def response(v: float):
    return v * v * v


@wp.func_grad(response)
def adj_response(v: float, adj_ret: float):
    # EXPECT custom-grad error
    # FIX: wp.adjoint[v] += 3.0 * v * v * adj_ret
    wp.adjoint[v] += 2.0 * v * v * adj_ret


@wp.kernel
def read(dial: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = response(dial[i])


dial = wp.array(np.linspace(0.2, 1.4, N), dtype=float, requires_grad=True)
out = wp.zeros(N, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(read, dim=N, inputs=[dial], outputs=[out])
out.grad.numpy()[:] = np.linspace(-1.0, 1.0, N)
tape.backward()
print(dial.grad.numpy())
