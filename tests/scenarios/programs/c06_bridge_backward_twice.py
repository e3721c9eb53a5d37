"""Sensitivities of a bridge's sag; backward is called for the printout and again for the step."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

PARTS = 16


@wp.struct
class Bridge:
    area: wp.array(dtype=float)
    force: wp.array(dtype=float)


@wp.kernel
def sag_of(bridge: Bridge, sag: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(sag, 0, bridge.force[i] * bridge.force[i] / bridge.area[i])


bridge = Bridge()
bridge.area = wp.array(np.linspace(0.5, 1.0, PARTS), dtype=float, requires_grad=True)
bridge.force = wp.array(np.cos(np.linspace(0.0, 1.5, PARTS)), dtype=float)
sag = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(sag_of, dim=PARTS, inputs=[bridge], outputs=[sag])
tape.backward(sag)
print("most sensitive part:", int(np.argmin(bridge.area.grad.numpy())))
# EXPECT accumulated error: bridge.area
# DROP
tape.backward(sag)
bridge.area.assign(np.clip(bridge.area.numpy() - 0.1 * bridge.area.grad.numpy(), 0.1, 2.0))
