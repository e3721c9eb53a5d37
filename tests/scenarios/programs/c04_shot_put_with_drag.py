# A shot put with drag: how the landing point depends on the throw. Written for Warp, with the whole flight in
# one kernel: the loop carries position and velocity.
# RUN as-warp
import numpy as np
import warp as wp

THROWS = 6
STEPS = 14


@wp.kernel
def fly(
    speed: wp.array(dtype=float),
    angle: wp.array(dtype=float),
    drag: wp.array(dtype=float),
    steps: int,
    landing: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    p = wp.vec2(0.0, 1.8)
    v = wp.vec2(speed[i] * wp.cos(angle[i]), speed[i] * wp.sin(angle[i]))
    # EXPECT warp-limitation error: speed, angle, drag
    # FIX: for _ in range(14):
    for _ in range(steps):
        v = v - v * (drag[0] * wp.length(v) * 0.1) + wp.vec2(0.0, -9.81) * 0.1
        p = p + v * 0.1
    landing[i] = p


@wp.kernel
def miss(landing: wp.array(dtype=wp.vec2), aim: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    gap = landing[i] - aim[i]
    wp.atomic_add(loss, 0, wp.dot(gap, gap))


rng = np.random.default_rng(4)
speed = wp.array(12.0 + rng.random(THROWS), dtype=float, requires_grad=True)
angle = wp.array(0.6 + 0.2 * rng.random(THROWS), dtype=float, requires_grad=True)
drag = wp.array([0.02], dtype=float, requires_grad=True)
aim = wp.array(np.tile([18.0, 0.0], (THROWS, 1)), dtype=wp.vec2)
landing = wp.zeros(THROWS, dtype=wp.vec2, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED warp-limitation
    wp.launch(fly, dim=THROWS, inputs=[speed, angle, drag, STEPS], outputs=[landing])
    wp.launch(miss, dim=THROWS, inputs=[landing, aim], outputs=[loss])
tape.backward(loss)
print("miss", loss.numpy()[0], "by drag", drag.grad.numpy()[0])
