"""A curling stone held by friction from rest: the adjoint grows with every step until it overflows."""

# VERDICT WRONG
import tapedebug as wp

STEPS = 240


@wp.kernel
def slide(
    q: wp.array(dtype=float), v: wp.array(dtype=float), mu: wp.array(dtype=float), slope: float, dt: float
):
    i = wp.tid()
    push = -mu[0] * wp.tanh(v[i] * slope) - 0.01 * q[i]
    # EXPECT nonfinite error
    v[i] = v[i] + dt * push * 60.0
    # EXPECT exploding warning
    q[i] = q[i] + dt * v[i]


@wp.kernel
def miss(q: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = q[wp.tid()] - 0.5
    wp.atomic_add(loss, 0, d * d)


q = wp.zeros(3, dtype=float, requires_grad=True)
v = wp.zeros(3, dtype=float, requires_grad=True)
mu = wp.array([0.8], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

# FIX: SLOPE = 1.0
SLOPE = 100.0
with wp.Tape() as tape:
    for _ in range(STEPS):
        wp.launch(slide, dim=3, inputs=[q, v, mu, SLOPE, 1.0 / 60.0])
    wp.launch(miss, dim=3, inputs=[q], outputs=[loss])
tape.backward(loss)
print(q.grad.numpy())
