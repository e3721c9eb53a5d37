"""A sail's lift has a gradient by hand that forgot a factor, and behind it an array has none at all."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

SAILS = 9


@wp.func
def lift(angle: float):
    return wp.sin(2.0 * angle)


@wp.func_grad(lift)
def adj_lift(angle: float, adj_ret: float):
    # FIX: wp.adjoint[angle] += 2.0 * wp.cos(2.0 * angle) * adj_ret
    # EXPECT custom-grad error
    wp.adjoint[angle] += wp.cos(2.0 * angle) * adj_ret


@wp.kernel
def sail(angle: wp.array(dtype=float), wind: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: angle
    force[i] = lift(angle[i]) * wind[i] * wind[i]


@wp.kernel
def lag(force: wp.array(dtype=float), drag: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = force[i] - drag[i] * drag[i]
    wp.atomic_add(loss, 0, d * d)


angle = wp.array(np.linspace(0.2, 0.9, SAILS), dtype=float, requires_grad=True)
wind = wp.array(np.linspace(0.8, 1.4, SAILS), dtype=float)
drag = wp.array(np.linspace(0.9, 1.2, SAILS), dtype=float, requires_grad=True)
# FIX: force = wp.zeros(SAILS, dtype=float, requires_grad=True)
force = wp.zeros(SAILS, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED disconnected
    # CALLED custom-grad
    wp.launch(sail, dim=SAILS, inputs=[angle, wind], outputs=[force])
    wp.launch(lag, dim=SAILS, inputs=[force, drag], outputs=[loss])
tape.backward(loss)
