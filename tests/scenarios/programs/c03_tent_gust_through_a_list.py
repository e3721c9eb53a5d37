"""A tent in the wind: the pressure is put through a table of the manufacturer, with NumPy, and goes on from there."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

PANELS = 16


@wp.kernel
def pressure(speed: wp.array(dtype=float), angle: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 0.6 * speed[i] * speed[i] * wp.cos(angle[i])


@wp.kernel
def pull(force: wp.array(dtype=float), rope: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, force[i] * force[i] / rope[i])


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


place = np.linspace(0.0, 1.0, PANELS)
speed, angle = numbers(4.0 + 3.0 * np.sin(5.0 * place)), numbers(0.3 + 0.5 * place)
rope = numbers(2.0 + np.cos(3.0 * place))
outside = wp.zeros(PANELS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(pressure, dim=PANELS, inputs=[speed, angle], outputs=[outside])
    # EXPECT disconnected warning: speed, angle, outside
    # FIX: force = outside
    table = np.interp(outside.numpy(), [0.0, 5.0, 12.0, 40.0], [0.0, 4.0, 16.0, 60.0])
    # DROP
    force = numbers(table)
    wp.launch(pull, dim=PANELS, inputs=[force, rope], outputs=[loss])
tape.backward(loss)
print("gradient of the speed", speed.grad.numpy().max(), "of the ropes", rope.grad.numpy().max())
