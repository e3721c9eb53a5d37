"""An orbit in one launch: the adjoint of its long loop keeps the values of each turn."""

import tapedebug as wp

# FIX: TURNS = 600
TURNS = 600_000


@wp.kernel
def orbit(gain: wp.array(dtype=float), turns: int, out: wp.array(dtype=float)):
    i = wp.tid()
    p = gain[i]
    v = float(0.1)
    # EXPECT loop-memory info
    for _turn in range(turns):
        v = v - 0.00001 * p * p
        p = p + 0.00001 * v * p
    out[i] = p


@wp.kernel
def total(out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, out[wp.tid()])


gain = wp.array([0.5, 0.6], dtype=float, requires_grad=True)
out = wp.zeros(2, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED loop-memory
    wp.launch(orbit, dim=2, inputs=[gain, TURNS], outputs=[out])
    wp.launch(total, dim=2, inputs=[out], outputs=[loss])
tape.backward(loss)
