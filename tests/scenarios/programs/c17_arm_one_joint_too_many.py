"""An arm of three joints reaches for a point; one thread too many reads the angle of the arm beside it."""

import tapedebug as wp

JOINTS, ARMS = 3, 2
REACH = 0.8


@wp.kernel
def outward(angle: wp.array(dtype=float), length: float, tip: wp.array(dtype=wp.vec2)):
    k = wp.tid()
    total = float(0.0)
    for j in range(k + 1):
        # EXPECT out-of-bounds error
        total = total + angle[j]
    wp.atomic_add(tip, 0, wp.vec2(wp.cos(total), wp.sin(total)) * length)


@wp.kernel
def miss(tip: wp.array(dtype=wp.vec2), goal: wp.vec2, loss: wp.array(dtype=float)):
    d = tip[0] - goal
    wp.atomic_add(loss, 0, wp.dot(d, d))


angles = wp.array([0.3, 0.5, -0.2, 0.1, 0.9, 0.4], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    for arm in range(ARMS - 1):
        own = angles[arm * JOINTS : (arm + 1) * JOINTS]
        tip = wp.zeros(1, dtype=wp.vec2, requires_grad=True)
        # CALLED out-of-bounds
        # FIX: wp.launch(outward, dim=JOINTS, inputs=[own, REACH], outputs=[tip])
        wp.launch(outward, dim=JOINTS + 1, inputs=[own, REACH], outputs=[tip])
        wp.launch(miss, dim=1, inputs=[tip, wp.vec2(1.5, 1.0)], outputs=[loss])
tape.backward(loss)
