"""Every way to fill memory that `empty` made: a launch, a fill, a copy, NumPy, values; and half by half."""

import numpy as np

import tapedebug as wp

N = 12


@wp.kernel
def scale(x: wp.array(dtype=float), factor: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * factor[0]


@wp.kernel
def put(x: wp.array(dtype=float), at: int, y: wp.array(dtype=float)):
    i = wp.tid()
    y[at + i] = x[i] * x[i]


@wp.kernel
def gather(
    a: wp.array(dtype=float),
    b: wp.array(dtype=float),
    c: wp.array(dtype=float),
    d: wp.array(dtype=float),
    order: wp.array(dtype=int),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    k = order[i]
    wp.atomic_add(loss, 0, a[k] * b[k] + c[k] * d[k])


x = wp.array(np.linspace(0.1, 1.2, N), dtype=float, requires_grad=True)
factor = wp.array([1.5], dtype=float, requires_grad=True)
a, b, c, d = (wp.empty(N, dtype=float, requires_grad=True) for _ in range(4))
order = wp.empty(N, dtype=int)
order.assign(np.arange(N)[::-1])
d.numpy()[:] = 0.5
loss = wp.empty(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    loss.zero_()
    wp.launch(scale, dim=N, inputs=[x, factor], outputs=[a])
    wp.launch(put, dim=N // 2, inputs=[x[: N // 2], N // 2], outputs=[b])
    wp.launch(put, dim=N // 2, inputs=[x[N // 2 :], 0], outputs=[b])
    wp.copy(c, x)
    wp.launch(gather, dim=N, inputs=[a, b, c, d, order], outputs=[loss])
tape.backward(loss)
inputs = [x, factor]
