"""The second remedy: the loop's values are kept in an array."""

import warp as wp


@wp.kernel
def dynamic_loop_mult(
    x: wp.array(dtype=float), prods: wp.array(dtype=float), loss: wp.array(dtype=float), iters: int
):
    for i in range(iters):
        prods[i + 1] = x[i] * prods[i]

    wp.atomic_add(loss, 0, prods[iters])


iters = 3
x = wp.full(shape=iters, value=2.0, dtype=float, requires_grad=True)
prods = wp.full(shape=(iters + 1), value=1.0, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(dynamic_loop_mult, dim=1, inputs=[x, prods, loss, iters])

tape.backward(loss)

print(x.grad)
