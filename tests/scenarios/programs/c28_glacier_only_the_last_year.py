"""Each year of a run has a tape; the loss is that of the last year, and so is the only backward."""

import tapedebug as wp

CELLS, YEARS = 8, 3


@wp.kernel
def flow(h: wp.array(dtype=float), snow: wp.array(dtype=float), h_next: wp.array(dtype=float)):
    i = wp.tid()
    left, right = h[wp.max(i - 1, 0)], h[wp.min(i + 1, CELLS - 1)]
    # EXPECT not-reversed warning: ice[0]
    h_next[i] = h[i] + 0.2 * (left + right - 2.0 * h[i]) + 0.1 * snow[i] - 0.02 * h[i] * h[i]


@wp.kernel
def mismatch(h: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (h[i] - 1.2) * (h[i] - 1.2))


ice = [wp.full(CELLS, 1.0 + 0.1 * n, dtype=float, requires_grad=True) for n in range(YEARS + 1)]
snow = wp.array([0.1 * n for n in range(CELLS)], dtype=float)
cost = wp.zeros(1, dtype=float, requires_grad=True)

tapes = []
for year in range(YEARS):
    with wp.Tape() as tape:
        # CALLED not-reversed
        wp.launch(flow, dim=CELLS, inputs=[ice[year], snow], outputs=[ice[year + 1]])
        if year == YEARS - 1:
            wp.launch(mismatch, dim=CELLS, inputs=[ice[YEARS]], outputs=[cost])
    tapes.append(tape)

tapes[-1].backward(cost)
# ADD: tapes[1].backward()
# ADD: tapes[0].backward()
