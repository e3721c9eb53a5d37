"""A river bed settles: a kernel sets the banks anew after each step. The flow never reads them, and nobody minds."""

import numpy as np

import tapedebug as wp

N = 40
STEPS = 6


@wp.kernel
def settle(bed: wp.array(dtype=float), softness: wp.array(dtype=float), bed_next: wp.array(dtype=float)):
    i = wp.tid() + 2
    slope = bed[i + 1] - bed[i - 1]
    bed_next[i] = bed[i] - 0.1 * softness[i] * slope * slope


@wp.kernel
def raise_banks(bed: wp.array(dtype=float), height: float):
    last = bed.shape[0] - 1
    bed[0] = height
    bed[last] = height


@wp.kernel
def unevenness(bed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid() + 2
    wp.atomic_add(loss, 0, (bed[i] - 1.0) * (bed[i] - 1.0))


place = np.linspace(0.0, 6.0, N, dtype=np.float32)
bed = wp.array(1.0 + 0.3 * np.sin(place), dtype=float, requires_grad=True)
softness = wp.full(N, 0.5, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape(on_overwrite="ignore") as tape:
    for step in range(STEPS):
        bed_next = wp.clone(bed)
        wp.launch(settle, dim=N - 4, inputs=[bed, softness], outputs=[bed_next])
        wp.launch(raise_banks, dim=1, inputs=[bed, 2.0 + float(step)])
        bed = bed_next
    wp.launch(unevenness, dim=N - 4, inputs=[bed], outputs=[loss])
tape.backward(loss)
