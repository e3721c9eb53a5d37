"""Half way a result is printed, and new arrays come afterwards: but all that counts goes from kernel to kernel."""

import numpy as np

import tapedebug as wp

CELLS = 20


@wp.kernel
def warm(room: wp.array(dtype=float), wall: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = room[i] + 0.2 * wall[i] * (3.0 - room[i])


@wp.kernel
def shine(room: wp.array(dtype=float), sun: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = room[i] + 0.05 * sun[i] * sun[i]


@wp.kernel
def comfort(room: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (room[i] - 2.0) * (room[i] - 2.0))


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


place = np.linspace(0.0, 1.0, CELLS)
room, wall = numbers(0.5 + place), numbers(1.0 + 0.2 * np.sin(4.0 * place))
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for hour in range(4):
        warmed, lit = numbers(np.zeros(CELLS)), numbers(np.zeros(CELLS))
        wp.launch(warm, dim=CELLS, inputs=[room, wall], outputs=[warmed])
        print("hour", hour, "warmest", warmed.numpy().max())
        sun = numbers(np.sin(0.3 * hour + place))  # of this hour
        wp.launch(shine, dim=CELLS, inputs=[warmed, sun], outputs=[lit])
        room = lit
    wp.launch(comfort, dim=CELLS, inputs=[room], outputs=[loss])
tape.backward(loss)
print("gradient of the wall", wall.grad.numpy().max())
