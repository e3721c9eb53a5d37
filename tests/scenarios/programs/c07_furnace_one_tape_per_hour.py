"""A furnace's control over a day, one tape an hour; the cost adds up over the day, the heat is carried on."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

CELLS, HOURS = 12, 4


@wp.kernel
def heat_up(
    wall: wp.array(dtype=float), control: wp.array(dtype=float), hour: int, warmer: wp.array(dtype=float)
):
    i = wp.tid()
    # EXPECT truncated error: control
    t = wall[i]
    inside = wall[wp.max(i - 1, 0)]
    power = control[hour % 2] * wp.exp(-0.5 * float(i))
    warmer[i] = t + 0.3 * (inside - t) + 0.2 * power - 0.05 * t * t


@wp.kernel
def cost_of(wall: wp.array(dtype=float), wanted: float, cost: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(cost, 0, (wall[i] - wanted) * (wall[i] - wanted))


control = wp.array([1.0, 0.5], dtype=float, requires_grad=True)
cost = wp.zeros(1, dtype=float, requires_grad=True)
wall = wp.array(np.linspace(0.8, 0.1, CELLS), dtype=float, requires_grad=True)

tapes = []
# ADD: day = wp.Tape()
for hour in range(HOURS):
    # FIX: tape = day
    tape = wp.Tape()
    with tape:
        warmer = wp.zeros(CELLS, dtype=float, requires_grad=True)
        # CALLED truncated
        wp.launch(heat_up, dim=CELLS, inputs=[wall, control, hour], outputs=[warmer])
        wp.launch(cost_of, dim=CELLS, inputs=[warmer, 0.7], outputs=[cost])
    wall = warmer
    # DROP
    tape.backward(cost)
    # DROP
    tapes.append(tape)
# ADD: tapes = [day]
# ADD: day.backward(cost)
control.assign(control.numpy() - 0.05 * control.grad.numpy())
