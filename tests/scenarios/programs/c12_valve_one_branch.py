"""One of 300 valves is nearly shut; only there the custom gradient is 2 % off, which the loss hardly shows."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

VALVES = 300


@wp.func
def opening(turn: float):
    return wp.where(turn < 0.1, 5.0 * turn * turn, turn - 0.05)


@wp.func_grad(opening)
def adj_opening(turn: float, adj_ret: float):
    if turn < 0.1:
        # FIX: wp.adjoint[turn] += 10.0 * turn * adj_ret
        # EXPECT custom-grad error: turn
        wp.adjoint[turn] += 9.8 * turn * adj_ret
    else:
        wp.adjoint[turn] += adj_ret


@wp.kernel
def flow(turn: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = opening(turn[i]) - wanted[i]
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(12)
turns = rng.uniform(0.2, 1.0, VALVES)
turns[137] = 0.06
turn = wp.array(turns, dtype=float, requires_grad=True)
wanted = wp.array(rng.uniform(0.2, 0.9, VALVES), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED custom-grad
    wp.launch(flow, dim=VALVES, inputs=[turn, wanted], outputs=[loss])
tape.backward(loss)
