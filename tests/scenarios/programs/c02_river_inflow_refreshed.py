"""A river's roughness from gauge readings; the rain of the next day is loaded before backward ran."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

CELLS = 40
STEPS = 8


@wp.kernel
def flow(
    depth: wp.array(dtype=float),
    roughness: wp.array(dtype=float),
    rain: wp.array(dtype=float),
    depth_next: wp.array(dtype=float),
):
    i = wp.tid()
    upstream = depth[wp.max(i - 1, 0)]
    # EXPECT stale-value error: rain
    out = depth[i] * depth[i] / (roughness[i] * (1.0 + rain[i] * depth[i]))
    depth_next[i] = depth[i] + 0.1 * (upstream - out + rain[i])


@wp.kernel
def gauge_error(depth: wp.array(dtype=float), gauge: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (depth[i] - gauge[i]) * (depth[i] - gauge[i]))


def rain_of(day: int) -> np.ndarray:
    return np.random.default_rng(day).gamma(2.0, 0.2, CELLS)


place = np.linspace(0.0, 1.0, CELLS)
roughness = wp.array(0.5 + place, dtype=float, requires_grad=True)
rain = wp.array(rain_of(0), dtype=float)
gauge = wp.array(1.0 + 0.3 * np.sin(6.0 * place), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape(on_overwrite="ignore")
with tape:
    depth = wp.array(np.ones(CELLS), dtype=float, requires_grad=True)
    for _ in range(STEPS):
        depth_next = wp.zeros(CELLS, dtype=float, requires_grad=True)
        # CALLED stale-value
        wp.launch(flow, dim=CELLS, inputs=[depth, roughness, rain], outputs=[depth_next])
        depth = depth_next
    wp.launch(gauge_error, dim=CELLS, inputs=[depth, gauge], outputs=[loss])
# DROP
rain.assign(rain_of(1))
tape.backward(loss)
