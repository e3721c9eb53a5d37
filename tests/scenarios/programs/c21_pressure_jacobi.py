"""Find where to blow into a room so that the air stands still. Jacobi solves for its pressure, too briefly."""

import numpy as np

import tapedebug as wp

N = 16
# FIX: ROUNDS = 900
ROUNDS = 24


@wp.kernel
def divergence(blow: wp.array2d(dtype=float), div: wp.array2d(dtype=float)):
    i, j = wp.tid()
    div[i, j] = blow[i, j] - 0.02


@wp.kernel
def jacobi(p: wp.array2d(dtype=float), div: wp.array2d(dtype=float), p_next: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i == 0 or j == 0 or i == p.shape[0] - 1 or j == p.shape[1] - 1:
        p_next[i, j] = 0.0
    else:
        # EXPECT unconverged warning
        p_next[i, j] = 0.25 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - div[i, j])


@wp.kernel
def misfit(p: wp.array2d(dtype=float), wanted: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    d = p[i, j] - wanted[i, j]
    wp.atomic_add(loss, 0, d * d)


def solve_pressure(div):
    p = wp.zeros((N, N), dtype=float, requires_grad=True)
    p_next = wp.zeros((N, N), dtype=float, requires_grad=True)
    for _ in range(ROUNDS):
        # CALLED unconverged
        wp.launch(jacobi, dim=(N, N), inputs=[p, div], outputs=[p_next])
        p, p_next = p_next, p
    return p


grid = np.linspace(-1.0, 1.0, N)
bump = np.exp(-4.0 * (grid[:, None] ** 2 + (grid[None, :] - 0.3) ** 2))
blow = wp.array(0.05 * bump, dtype=float, requires_grad=True)
wanted = wp.array(-0.3 * bump, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    div = wp.zeros((N, N), dtype=float, requires_grad=True)
    wp.launch(divergence, dim=(N, N), inputs=[blow], outputs=[div])
    pressure = solve_pressure(div)
    wp.launch(misfit, dim=(N, N), inputs=[pressure, wanted], outputs=[loss])
tape.backward(loss)
