# A kite: lift is added to one component of the force, and then the force is damped. Written component by
# component, as one would in C.
# RUN as-warp
import numpy as np
import warp as wp

KITES = 4


@wp.kernel
def pull(
    wind: wp.array(dtype=wp.vec3),
    area: wp.array(dtype=float),
    weight: float,
    force: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    f = wind[i] * (0.5 * area[i])
    # EXPECT warp-limitation error: wind, area
    # FIX: g = wp.vec3(f[0], f[1], f[2] + area[i] * wp.length_sq(wind[i]) - weight)
    f.z += area[i] * wp.length_sq(wind[i]) - weight
    # FIX: force[i] = g
    force[i] = f


@wp.kernel
def slack(force: wp.array(dtype=wp.vec3), wanted: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    gap = force[i] - wanted[i]
    wp.atomic_add(loss, 0, wp.dot(gap, gap))


rng = np.random.default_rng(8)
wind = wp.array(rng.random((KITES, 3)) + [1.0, 0.0, 0.2], dtype=wp.vec3, requires_grad=True)
area = wp.array(0.5 + rng.random(KITES), dtype=float, requires_grad=True)
wanted = wp.array(np.tile([0.2, 0.0, 1.0], (KITES, 1)), dtype=wp.vec3)
force = wp.zeros(KITES, dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED warp-limitation
    wp.launch(pull, dim=KITES, inputs=[wind, area, 0.3], outputs=[force])
    wp.launch(slack, dim=KITES, inputs=[force, wanted], outputs=[loss])
tape.backward(loss)
print("loss", loss.numpy()[0], "area", area.grad.numpy())
