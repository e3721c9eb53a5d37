"""Find the stiffness of a spring. The cart moves by its new velocity, and the time step is too large."""

import tapedebug as wp

STEPS = 20
# FIX: TIME_STEP = 0.01
TIME_STEP = 0.1


@wp.kernel
def roll(
    x: wp.array(dtype=float),
    v: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    dt: float,
    x_next: wp.array(dtype=float),
    v_next: wp.array(dtype=float),
):
    i = wp.tid()
    v_next[i] = v[i] - dt * stiffness[0] * x[i]
    # EXPECT exploding warning
    x_next[i] = x[i] + dt * v_next[i]


@wp.kernel
def missed(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 0.05) * (x[i] - 0.05))


x = wp.array([0.1, 0.2], dtype=float, requires_grad=True)
v = wp.zeros(2, dtype=float, requires_grad=True)
stiffness = wp.array([700.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        x_next, v_next = wp.zeros_like(x), wp.zeros_like(v)
        # CALLED exploding
        wp.launch(roll, dim=2, inputs=[x, v, stiffness, TIME_STEP], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(missed, dim=2, inputs=[x], outputs=[loss])
tape.backward(loss)
