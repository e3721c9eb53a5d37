"""A jelly at rest whose factors are stored by one launch and combined by another: half of the shear is lost."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

CELLS = 3


@wp.kernel
def decompose(
    F: wp.array(dtype=wp.mat33),
    U: wp.array(dtype=wp.mat33),
    S: wp.array(dtype=wp.vec3),
    V: wp.array(dtype=wp.mat33),
):
    i = wp.tid()
    # EXPECT wrong-adjoint error
    u, s, v = wp.svd3(F[i])
    U[i] = u
    S[i] = s
    V[i] = v


@wp.kernel
def pull(
    U: wp.array(dtype=wp.mat33),
    S: wp.array(dtype=wp.vec3),
    V: wp.array(dtype=wp.mat33),
    load: wp.array(dtype=wp.mat33),
    work: wp.array(dtype=float),
):
    i = wp.tid()
    limited = wp.vec3(wp.min(S[i][0], 1.5), wp.min(S[i][1], 1.5), wp.min(S[i][2], 1.5))
    wp.atomic_add(work, 0, wp.ddot(load[i], U[i] * wp.diag(limited) * wp.transpose(V[i])))


F = wp.array(np.tile(np.eye(3), (CELLS, 1, 1)), dtype=wp.mat33, requires_grad=True)
U = wp.zeros(CELLS, dtype=wp.mat33, requires_grad=True)
S = wp.zeros(CELLS, dtype=wp.vec3, requires_grad=True)
V = wp.zeros(CELLS, dtype=wp.mat33, requires_grad=True)
load = wp.array(np.random.default_rng(6).normal(size=(CELLS, 3, 3)), dtype=wp.mat33)
work = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(decompose, dim=CELLS, inputs=[F], outputs=[U, S, V])
    wp.launch(pull, dim=CELLS, inputs=[U, S, V, load], outputs=[work])
tape.backward(work)
print("gradient", F.grad.numpy())
