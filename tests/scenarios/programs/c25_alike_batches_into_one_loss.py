"""The loss of an epoch, summed on purpose: each batch has a tape of its own and adds to the same number."""

import numpy as np

import tapedebug as wp

SIZE, BATCHES = 8, 4


@wp.kernel
def misfit(
    shape: wp.array(dtype=float),
    x: wp.array(dtype=float),
    seen: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    r = shape[0] * x[i] + shape[1] * x[i] * x[i] - seen[i]
    wp.atomic_add(loss, 0, r * r)


data = np.linspace(-1.0, 1.0, SIZE * BATCHES).reshape(BATCHES, SIZE)
shape = wp.array([0.5, 0.2], dtype=float, requires_grad=True)
x = wp.zeros(SIZE, dtype=float)
seen = wp.zeros(SIZE, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

for batch in data:
    x.assign(batch)
    seen.assign(batch**2)
    with wp.Tape() as tape:
        wp.launch(misfit, dim=SIZE, inputs=[shape, x, seen], outputs=[loss])
    tape.backward(loss)
    shape.assign(shape.numpy() - 0.01 * shape.grad.numpy())
    tape.zero()
print("epoch:", loss.numpy()[0])
