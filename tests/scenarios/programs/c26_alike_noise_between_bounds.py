# Wind between two bounds that nobody tunes, in gusts that come round: no gradient needs what Warp lacks.
# RUN as-warp
import numpy as np
import warp as wp

KITES = 12


@wp.kernel
def fly(lift: wp.array(dtype=float), height: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(5, i)
    gust = wp.randf(state, 0.5, 1.5) * wp.frac(float(i) * 0.31)
    height[i] = lift[0] * gust + 0.2 * lift[0] * lift[0]


@wp.kernel
def total(height: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, height[wp.tid()])


lift = wp.array([0.8], dtype=float, requires_grad=True)
height = wp.zeros(KITES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(fly, dim=KITES, inputs=[lift], outputs=[height])
    wp.launch(total, dim=KITES, inputs=[height], outputs=[loss])
tape.backward(loss)
print("lift", np.round(lift.grad.numpy(), 4))
