"""Wind blows balls about; drag is quadratic, with a gradient by hand that forgot the factor 2."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

N = 24
STEPS = 15
DT = 0.05


@wp.func
def drag(speed: wp.vec3, k: float):
    return -k * wp.length(speed) * speed


@wp.func_grad(drag)
def adj_drag(speed: wp.vec3, k: float, adj_ret: wp.vec3):
    size = wp.length(speed)
    along = wp.dot(speed, adj_ret)
    if size > 0.0:
        # FIX: wp.adjoint[speed] -= k * (size * adj_ret + along / size * speed)
        # EXPECT custom-grad error: wind
        wp.adjoint[speed] -= k * size * adj_ret
    wp.adjoint[k] -= size * along


@wp.kernel
def blow(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    wind: wp.array(dtype=wp.vec3),
    k: wp.array(dtype=float),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    faster = v[i] + DT * (drag(v[i] - wind[0], k[0]) - wp.vec3(0.0, 9.81, 0.0))
    v_next[i] = faster
    x_next[i] = x[i] + DT * faster


@wp.kernel
def scatter(x: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(x[wp.tid()] - wp.vec3(2.0, -3.0, 0.5)))


rng = np.random.default_rng(6)
x = wp.array(rng.normal(size=(N, 3)), dtype=wp.vec3, requires_grad=True)
v = wp.array(rng.normal(size=(N, 3)), dtype=wp.vec3, requires_grad=True)
wind = wp.array([[3.0, 0.5, -1.0]], dtype=wp.vec3, requires_grad=True)
k = wp.array([0.3], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        x_next, v_next = wp.zeros_like(x), wp.zeros_like(v)
        # CALLED custom-grad
        wp.launch(blow, dim=N, inputs=[x, v, wind, k], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(scatter, dim=N, inputs=[x], outputs=[loss])
tape.backward(loss)
