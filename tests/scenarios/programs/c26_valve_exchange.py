# A valve swaps the level of its own tank with an atomic exchange, and what flowed is measured.
# RUN as-warp
import numpy as np
import warp as wp

TANKS = 6


@wp.kernel
def refill(inflow: wp.array(dtype=float), level: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT warp-limitation error: inflow
    # FIX: level[i] = 0.5 + inflow[i] * inflow[i]
    wp.atomic_exch(level, i, 0.5 + inflow[i] * inflow[i])


@wp.kernel
def spill(level: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, level[i] * level[i])


inflow = wp.array(np.linspace(0.3, 1.4, TANKS), dtype=float, requires_grad=True)
level = wp.zeros(TANKS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(refill, dim=TANKS, inputs=[inflow], outputs=[level])
    wp.launch(spill, dim=TANKS, inputs=[level], outputs=[loss])
tape.backward(loss)
print("inflow", inflow.grad.numpy())
