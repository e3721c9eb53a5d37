"""Cups of tea come to rest: the last changes are lost to rounding, and nothing depends on them."""

import tapedebug as wp

ROOM, ROUNDS = 20.0, 150


@wp.kernel
def cool(t: wp.array(dtype=float), rate: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    t_next[i] = t[i] + rate[i] * (ROOM - t[i])


@wp.kernel
def warmth(t: wp.array(dtype=float), total: wp.array(dtype=wp.float16)):
    wp.atomic_add(total, 0, wp.float16(t[wp.tid()]))


@wp.kernel
def cost(early: wp.array(dtype=float), total: wp.array(dtype=wp.float16), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = early[i] - wp.float32(total[0]) / 3.0
    wp.atomic_add(loss, 0, d * d)


start = wp.array([80.0, 60.0, 20.00001], dtype=float, requires_grad=True)
rate = wp.array([0.3, 0.2, 0.25], dtype=float, requires_grad=True)
t = [start, *(wp.zeros(3, dtype=float, requires_grad=True) for _ in range(ROUNDS))]
total = wp.zeros(1, dtype=wp.float16, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for k in range(ROUNDS):
        wp.launch(cool, dim=3, inputs=[t[k], rate], outputs=[t[k + 1]])
    wp.launch(warmth, dim=3, inputs=[t[ROUNDS]], outputs=[total])
    wp.launch(cost, dim=3, inputs=[t[3], total], outputs=[loss])
tape.backward(loss)
