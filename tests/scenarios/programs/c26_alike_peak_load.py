# The peak load of a bridge, by an atomic maximum: Warp's gradient of it is right. Loads come round every 4 m.
# RUN as-warp
import numpy as np
import warp as wp

POINTS = 20


@wp.kernel
def bend(weight: wp.array(dtype=float), place: wp.array(dtype=float), peak: wp.array(dtype=float)):
    i = wp.tid()
    x = wp.mod(float(i) * 0.7 + place[0], 4.0)
    wp.atomic_max(peak, 0, weight[0] * x * (4.0 - x) + 0.1 * weight[0] * weight[0])


@wp.kernel
def cost(peak: wp.array(dtype=float), loss: wp.array(dtype=float)):
    loss[0] = peak[0] * peak[0]


weight = wp.array([1.4], dtype=float, requires_grad=True)
place = wp.array([0.15], dtype=float, requires_grad=True)
peak = wp.zeros(1, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(bend, dim=POINTS, inputs=[weight, place], outputs=[peak])
    wp.launch(cost, dim=1, inputs=[peak], outputs=[loss])
tape.backward(loss)
print("peak", peak.numpy()[0], np.round(weight.grad.numpy(), 4))
