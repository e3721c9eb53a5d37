# Heat in a rod, two buffers in turn. To plot the sensitivity to the temperature half-way, the gradient of one
# buffer is kept; that buffer is written in every round.
# RUN as-warp
import numpy as np
import warp as wp

CELLS = 24
ROUNDS = 5


@wp.kernel
def diffuse(
    before: wp.array(dtype=float),
    source: wp.array(dtype=float),
    after: wp.array(dtype=float),
):
    i = wp.tid()
    n = before.shape[0]
    left = before[wp.max(i - 1, 0)]
    right = before[wp.min(i + 1, n - 1)]
    # EXPECT warp-limitation error: half_way, source
    after[i] = before[i] + 0.2 * (left - 2.0 * before[i] + right) + 0.05 * source[i]


@wp.kernel
def deviation(field: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = field[i] - wanted[i]
    wp.atomic_add(loss, 0, d * d)


place = np.linspace(0.0, 1.0, CELLS)
source = wp.array(np.exp(-20.0 * (place - 0.3) ** 2), dtype=float, requires_grad=True)
field = wp.array(np.sin(3.1 * place), dtype=float, requires_grad=True)
# FIX: half_way = wp.zeros(CELLS, dtype=float, requires_grad=True)
half_way = wp.zeros(CELLS, dtype=float, requires_grad=True, retain_grad=True)
wanted = wp.array(np.full(CELLS, 0.5), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(ROUNDS):
        # CALLED warp-limitation
        wp.launch(diffuse, dim=CELLS, inputs=[field, source], outputs=[half_way])
        wp.launch(diffuse, dim=CELLS, inputs=[half_way, source], outputs=[field])
    wp.launch(deviation, dim=CELLS, inputs=[field, wanted], outputs=[loss])
tape.backward(loss)
print("loss", loss.numpy()[0], "source", np.linalg.norm(source.grad.numpy()))
