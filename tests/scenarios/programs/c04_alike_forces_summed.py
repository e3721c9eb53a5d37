# Charges that repel each other: each sums the forces of all others in a loop. A sum needs nothing of what it
# was before, and its result is only scaled and stored.
# RUN as-warp
import numpy as np
import warp as wp

CHARGES = 16


@wp.kernel
def repel(
    place: wp.array(dtype=wp.vec3),
    charge: wp.array(dtype=float),
    n: int,
    force: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    total = wp.vec3(0.0, 0.0, 0.0)
    for k in range(n):
        gap = place[i] - place[k]
        reach = wp.length_sq(gap) + 0.01
        total += gap * (charge[k] / (reach * wp.sqrt(reach)))
    force[i] = total * 0.5


@wp.kernel
def power(force: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.dot(force[i], force[i]))


rng = np.random.default_rng(1)
place = wp.array(rng.random((CHARGES, 3)), dtype=wp.vec3, requires_grad=True)
charge = wp.array(rng.random(CHARGES), dtype=float, requires_grad=True)
force = wp.zeros(CHARGES, dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(repel, dim=CHARGES, inputs=[place, charge, CHARGES], outputs=[force])
    wp.launch(power, dim=CHARGES, inputs=[force], outputs=[loss])
tape.backward(loss)
print(loss.numpy())
