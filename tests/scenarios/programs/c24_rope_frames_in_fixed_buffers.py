"""One tape a frame with the same four buffers; the state is assigned back to the start after each frame."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

BEADS, FRAMES = 10, 4


@wp.kernel
def swing(
    q: wp.array(dtype=wp.vec2),
    u: wp.array(dtype=wp.vec2),
    stiff: wp.array(dtype=float),
    q_new: wp.array(dtype=wp.vec2),
    u_new: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    # EXPECT truncated error: self.stiff
    bend = q[wp.max(i - 1, 0)] + q[wp.min(i + 1, BEADS - 1)] - 2.0 * q[i]
    u_new[i] = 0.99 * u[i] + 0.1 * (stiff[0] * bend - stiff[1] * q[i] * wp.length_sq(q[i]))
    q_new[i] = q[i] + 0.1 * u_new[i]


@wp.kernel
def away(q: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(q[i] - wp.vec2(0.1 * float(i), 0.0)))


class Rope:
    def __init__(self):
        self.stiff = wp.array([1.5, 0.4], dtype=float, requires_grad=True)
        rng = np.random.default_rng(6)
        self.q = wp.array(rng.normal(size=(BEADS, 2)), dtype=wp.vec2, requires_grad=True)
        self.u = wp.array(rng.normal(size=(BEADS, 2)), dtype=wp.vec2, requires_grad=True)
        self.q_new = wp.zeros(BEADS, dtype=wp.vec2, requires_grad=True)
        self.u_new = wp.zeros(BEADS, dtype=wp.vec2, requires_grad=True)
        self.cost = wp.zeros(1, dtype=float, requires_grad=True)

    def frame(self):
        # FIX: tape = wp.Tape() if not tapes else tapes[0]
        tape = wp.Tape()
        with tape:
            # CALLED truncated
            wp.launch(swing, dim=BEADS, inputs=[self.q, self.u, self.stiff], outputs=[self.q_new, self.u_new])
            wp.launch(away, dim=BEADS, inputs=[self.q_new], outputs=[self.cost])
            # ADD: wp.copy(self.q, self.q_new)
            # ADD: wp.copy(self.u, self.u_new)
        # DROP
        tape.backward(self.cost)
        # DROP
        self.q.assign(self.q_new)
        # DROP
        self.u.assign(self.u_new)
        return tape


rope = Rope()
# ADD: tapes = []
# FIX: for _ in range(FRAMES): tapes[:] = [rope.frame()]
tapes = [rope.frame() for _ in range(FRAMES)]
# ADD: tapes[0].backward(rope.cost)
rope.stiff.assign(rope.stiff.numpy() - 0.01 * rope.stiff.grad.numpy())
