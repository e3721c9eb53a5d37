"""A double pendulum, long enough to amplify and short enough to be of use: chaotic, and right."""

import numpy as np

import tapedebug as wp

N = 6
STEPS = 150
DT = 0.02


@wp.func
def acceleration(a: float, b: float, u: float, w: float):
    d = a - b
    c = wp.cos(d)
    s = wp.sin(d)
    bottom = 2.0 - c * c
    first = (-9.81 * (2.0 * wp.sin(a) - wp.sin(b) * c) - s * (w * w + u * u * c)) / bottom
    second = (2.0 * s * u * u + 2.0 * 9.81 * (wp.sin(a) * c - wp.sin(b)) + s * c * w * w) / bottom
    return wp.vec2(first, second)


@wp.kernel
def swing(state: wp.array(dtype=wp.vec4), state_next: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    now = state[i]
    turn = acceleration(now[0], now[1], now[2], now[3])
    u = now[2] + DT * turn[0]
    w = now[3] + DT * turn[1]
    state_next[i] = wp.vec4(now[0] + DT * u, now[1] + DT * w, u, w)


@wp.kernel
def height(state: wp.array(dtype=wp.vec4), loss: wp.array(dtype=float)):
    i = wp.tid()
    tip = -wp.cos(state[i][0]) - wp.cos(state[i][1])
    wp.atomic_add(loss, 0, (tip - 1.0) * (tip - 1.0))


begin = np.zeros((N, 4))
begin[:, 0] = np.linspace(1.5, 2.2, N)
begin[:, 1] = np.linspace(2.0, 1.2, N)
state = wp.array(begin, dtype=wp.vec4, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        state_next = wp.zeros_like(state)
        wp.launch(swing, dim=N, inputs=[state], outputs=[state_next])
        state = state_next
    wp.launch(height, dim=N, inputs=[state], outputs=[loss])
tape.backward(loss)
