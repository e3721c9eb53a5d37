"""A string of beads on stiffening springs. The spring's gradient sets the adjoint where it should add to it."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

N = 20
STEPS = 10
DT = 0.02


@wp.func
def tension(stretch: float, stiffness: float):
    return stiffness * (stretch + stretch * stretch * stretch)


@wp.func_grad(tension)
def adj_tension(stretch: float, stiffness: float, adj_ret: float):
    # FIX: wp.adjoint[stretch] += stiffness * (1.0 + 3.0 * stretch * stretch) * adj_ret
    # EXPECT custom-grad error
    wp.adjoint[stretch] = stiffness * (1.0 + 3.0 * stretch * stretch) * adj_ret
    wp.adjoint[stiffness] += (stretch + stretch * stretch * stretch) * adj_ret


@wp.kernel
def pull(x: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    ahead = x[wp.min(i + 1, n - 1)] - x[i]
    behind = x[i] - x[wp.max(i - 1, 0)]
    elastic = tension(ahead, stiffness[i]) - tension(behind, stiffness[i])
    force[i] = elastic + 8.0 * (ahead - behind)


@wp.kernel
def move(
    x: wp.array(dtype=float),
    v: wp.array(dtype=float),
    force: wp.array(dtype=float),
    x_next: wp.array(dtype=float),
    v_next: wp.array(dtype=float),
):
    i = wp.tid()
    faster = v[i] + DT * force[i]
    v_next[i] = faster
    x_next[i] = x[i] + DT * faster


@wp.kernel
def misfit(x: wp.array(dtype=float), target: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - target[i]) * (x[i] - target[i]))


place = np.linspace(0.0, 3.0, N)
x = wp.array(place + 0.3 * np.sin(5.0 * place), dtype=float, requires_grad=True)
v = wp.zeros(N, dtype=float, requires_grad=True)
stiffness = wp.array(np.linspace(20.0, 60.0, N), dtype=float, requires_grad=True)
target = wp.array(place, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        force, x_next, v_next = wp.zeros_like(x), wp.zeros_like(x), wp.zeros_like(x)
        # CALLED custom-grad
        wp.launch(pull, dim=N, inputs=[x, stiffness], outputs=[force])
        wp.launch(move, dim=N, inputs=[x, v, force], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(misfit, dim=N, inputs=[x, target], outputs=[loss])
tape.backward(loss)
