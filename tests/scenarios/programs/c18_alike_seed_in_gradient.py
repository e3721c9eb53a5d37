"""Each row of a Jacobian from a seed that is written into the gradient, in every way, over one tape: all are right."""

import numpy as np

import tapedebug as wp

N = 6


@wp.kernel
def curve(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.sin(x[(i + 1) % N])


@wp.kernel
def add_up(y: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, y[wp.tid()])


x = wp.array(np.linspace(0.3, 1.2, N), dtype=float, requires_grad=True)
y = wp.zeros(N, dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(curve, dim=N, inputs=[x], outputs=[y])
    wp.launch(add_up, dim=N, inputs=[y], outputs=[total])

rows = []
for i in range(N):
    if i == 0:
        y.grad.assign(np.eye(N, dtype=np.float32)[i])
    elif i == 1:
        y.grad = wp.array(np.eye(N, dtype=np.float32)[i], dtype=float)
    else:
        y.grad.numpy()[i] = 1.0
    tape.backward()
    rows.append(x.grad.numpy().copy())
    x.grad.zero_()
total.grad.numpy()[0] = 1.0
tape.backward()
assert np.allclose(x.grad.numpy(), np.sum(rows, axis=0), rtol=1e-5)
