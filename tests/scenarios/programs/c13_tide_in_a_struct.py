"""A tidal mill: which gate openings give the power that is asked for? The hour is a number in the struct of the basin.

Warp's tape keeps the struct: in its reverse pass it is the last hour in every launch.
"""

# RUN as-warp
import numpy as np
import warp as wp

GATES = 5
HOURS = 8


@wp.struct
class Basin:
    level: wp.array(dtype=float)
    hour: float
    area: float


@wp.kernel
def flow(basin: Basin, opening: wp.array(dtype=float), level_next: wp.array(dtype=float)):
    i = wp.tid()
    tide = wp.sin(0.5 * basin.hour + 0.2 * float(i))
    level_next[i] = basin.level[i] + opening[i] * (tide - basin.level[i]) / basin.area


@wp.kernel
def shortfall(basin: Basin, wanted: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (basin.level[i] - wanted) * (basin.level[i] - wanted))


def make_basin(level, hour):
    basin = Basin()
    basin.level, basin.hour, basin.area = level, hour, 3.0
    return basin


opening = wp.array(np.linspace(0.4, 0.9, GATES), dtype=float, requires_grad=True)
level = wp.zeros(GATES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
basin = make_basin(level, 0.0)

tape = wp.Tape()
with tape:
    for hour in range(HOURS):
        # FIX: basin = make_basin(level, float(hour))
        basin.hour, basin.level = float(hour), level
        level = wp.zeros(GATES, dtype=float, requires_grad=True)
        # EXPECT overwrite error
        wp.launch(flow, dim=GATES, inputs=[basin, opening], outputs=[level])
    basin = make_basin(level, float(HOURS))
    wp.launch(shortfall, dim=GATES, inputs=[basin, 0.5], outputs=[loss])
tape.backward(loss)
