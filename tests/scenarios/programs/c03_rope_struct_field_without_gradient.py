"""A rope of two materials; the tension is a field of a struct that was made without a gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

LINKS = 18
STEPS = 10


@wp.struct
class Rope:
    place: wp.array(dtype=wp.vec2)
    tension: wp.array(dtype=float)


@wp.kernel
def stretch(rope: Rope, stiffness: wp.array(dtype=float)):
    i = wp.tid()
    gap = wp.length(rope.place[i + 1] - rope.place[i])
    # EXPECT disconnected error: stiffness
    rope.tension[i] = stiffness[i] * (gap - 0.1)


@wp.kernel
def relax(rope: Rope, later: Rope):
    i = wp.tid()
    move = wp.vec2(0.0, 0.0)
    if i > 0 and i < LINKS:
        before = wp.normalize(rope.place[i - 1] - rope.place[i]) * rope.tension[i - 1]
        behind = wp.normalize(rope.place[i + 1] - rope.place[i]) * rope.tension[i]
        move = 0.01 * (before + behind + wp.vec2(0.0, -0.2))
    later.place[i] = rope.place[i] + move


@wp.kernel
def depth(rope: Rope, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (rope.place[i][1] + 0.3) * (rope.place[i][1] + 0.3))


def new_rope():
    rope = Rope()
    rope.place = wp.zeros(LINKS + 1, dtype=wp.vec2, requires_grad=True)
    # FIX: rope.tension = wp.zeros(LINKS, dtype=float, requires_grad=True)
    rope.tension = wp.zeros(LINKS, dtype=float)
    return rope


x = np.linspace(0.0, 2.0, LINKS + 1)
rope = new_rope()
rope.place.assign(np.stack([x, 0.1 * np.sin(2.0 * x)], axis=1).astype(np.float32))
stiffness = wp.array(np.where(x[:-1] < 1.0, 3.0, 6.0), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        later = new_rope()
        # CALLED disconnected
        wp.launch(stretch, dim=LINKS, inputs=[rope, stiffness])
        wp.launch(relax, dim=LINKS + 1, inputs=[rope], outputs=[later])
        rope = later
    wp.launch(depth, dim=LINKS + 1, inputs=[rope], outputs=[loss])
tape.backward(loss)
print("stiffness", stiffness.grad.numpy())
